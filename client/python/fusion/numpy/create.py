"""Arrays from nothing, from values and from other arrays."""
from __future__ import annotations

import builtins
import math as _math

from .. import _core, _creation as _c, _functions as _f
from .._array import Array as _Array
from .._base import as_dtype as _as_dtype, real as _real, whole as _whole
from .._ufunc import array_of as _array, operand_of as _operand, plain as _plain
from .._store import holds as _holds
from .elementwise import power, where as _where
from .shapes import diagonal, pad

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Callable, Sequence

    from .._base import Like, Type

__all__ = [
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "copy", "copyto", "diag", "empty", "empty_like", "eye", "fromfunction", "full",
    "full_like", "identity", "indices", "linspace", "logspace", "meshgrid", "mgrid", "ogrid", "ones", "ones_like", "tri", "tril", "triu",
    "zeros", "zeros_like",
]


def array(object: Any, dtype: Type = None, *, copy: builtins.bool | None = True, ndmin: int = 0, order: str | None = None) -> _Array:
    """An array of what asarray() takes, which shares no memory with it."""
    made, ndmin = _c.asarray(object, dtype=dtype, copy=True if copy and isinstance(object, _core.Array) else None), _whole(ndmin, "ndmin")
    return made if made.ndim >= ndmin else _core.reshape(made, (1,) * (ndmin - made.ndim) + made.shape)


def asarray(a: Like, dtype: Type = None, order: str | None = None) -> _Array:
    """An array of numbers, lists, buffers or arrays; an array of the type stays itself."""
    return _c.asarray(a, dtype=dtype)


asanyarray = asarray


def ascontiguousarray(a: Like, dtype: Type = None) -> _Array:
    """An array of an axis at least, of what asarray() takes."""
    made = asarray(a, dtype)
    return made if made.ndim else _core.reshape(made, (1,))


def copy(a: Like, order: str | None = None) -> _Array:
    """Another array of the same elements."""
    return array(a)


_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def copyto(dst: _Array, src: Like, casting: str = "same_kind", where: Like = True) -> None:
    """dst[...] = src, where the mask is true."""
    if not isinstance(dst, _core.Array):
        raise TypeError(f"copyto: dst is no fusion array, but {type(dst).__name__}")
    if casting not in _CASTINGS:
        raise ValueError(f"copyto: casting is {casting!r}, none of {', '.join(_CASTINGS)}")
    src = _operand(src)
    if casting != "unsafe" and isinstance(src, _core.Array) and not _holds(dst.dtype, src.dtype):
        raise TypeError(f"copyto: dst, of {dst.dtype}, does not hold {src.dtype}; casting='unsafe' converts it")
    dst[...] = src if where is True else _where(where, src, dst)


def zeros(shape: int | Sequence[int], dtype: Type = float, order: str = "C") -> _Array:
    """An array of zeros."""
    return _c.zeros(shape, dtype=dtype)


def ones(shape: int | Sequence[int], dtype: Type = float, order: str = "C") -> _Array:
    """An array of ones."""
    return _c.ones(shape, dtype=dtype)


def empty(shape: int | Sequence[int], dtype: Type = float, order: str = "C") -> _Array:
    """An array whose values are not said: zeros."""
    return _c.zeros(shape, dtype=dtype)


def full(shape: int | Sequence[int], fill_value: Like, dtype: Type = None, order: str = "C") -> _Array:
    """An array of one value."""
    dtype, fill_value = _as_dtype(dtype), _operand(fill_value)
    if dtype is not None and isinstance(fill_value, float) and dtype.kind in "iu":
        fill_value = int(fill_value)
    return _c.full(shape, fill_value, dtype=dtype)


def _like(value, name):
    def like(a: Like, dtype: Type = None, order: str = "K", subok: builtins.bool = True, shape: int | Sequence[int] | None = None) -> _Array:
        a = _array(a)
        return a.device.context.full(_as_dtype(dtype) or a.dtype, a.shape if shape is None else _c._shape(shape, name), value)
    like.__name__ = like.__qualname__ = name
    return like


zeros_like, ones_like, empty_like = _like(0, "zeros_like"), _like(1, "ones_like"), _like(0, "empty_like")
zeros_like.__doc__, ones_like.__doc__, empty_like.__doc__ = "Zeros in the shape of a.", "Ones in the shape of a.", "An array in the shape of a: zeros."


def full_like(a: Like, fill_value: Like, dtype: Type = None) -> _Array:
    """One value in the shape of a."""
    a = _array(a)
    return full(a.shape, fill_value, a.dtype if dtype is None else dtype)


def arange(start: Like, stop: Like | None = None, step: Like = 1, dtype: Type = None) -> _Array:
    """start, start + step, ... below stop. In integers the step is that between the first two."""
    start, stop, step, dtype = _plain(start), _plain(stop), _plain(step), _as_dtype(dtype)
    if dtype is None or dtype.kind not in "iu" or builtins.all(isinstance(v, int) for v in (start, stop, step) if v is not None) or not step:
        return _c.arange(start, stop, step, dtype=dtype)
    start, stop = (0, start) if stop is None else (start, stop)
    places = _c.arange(builtins.max(0, _math.ceil((stop - start) / step)))
    return _core.cast(_core.add(_core.mul(places, int(start + step) - int(start)), int(start)), dtype)


def linspace(start: Like, stop: Like, num: int = 50, endpoint: builtins.bool = True, retstep: builtins.bool = False, dtype: Type = None) -> Any:
    """num numbers evenly apart from start to stop, with or without the end."""
    start, stop = _plain(start), _plain(stop)
    dtype = _as_dtype(dtype)
    whole = dtype is not None and dtype.kind in "iu"
    made = _c.linspace(start, stop, num, dtype=None if whole else dtype, endpoint=endpoint)
    made = _core.cast(_core.floor(made), dtype) if whole else made
    parts = num - 1 if endpoint else num
    return (made, (stop - start) / parts if parts > 0 else _math.nan) if retstep else made


def logspace(start: float, stop: float, num: int = 50, endpoint: builtins.bool = True, base: float = 10.0, dtype: Type = None) -> _Array:
    """base to the power of num numbers evenly apart."""
    made = power(_real(base, "base"), linspace(start, stop, num, endpoint))
    return made if dtype is None else _core.cast(made, _as_dtype(dtype))


def eye(N: int, M: int | None = None, k: int = 0, dtype: Type = float) -> _Array:
    """A matrix of ones on the k-th diagonal and zeros elsewhere."""
    return _c.eye(N, M, k=k, dtype=dtype)


def identity(n: int, dtype: Type = float) -> _Array:
    """A square matrix of ones on the diagonal and zeros elsewhere."""
    return _c.eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Type = float) -> _Array:
    """A matrix of ones on and below the k-th diagonal."""
    return _c.tril(_c.ones((N, N if M is None else M), dtype=dtype), k=k)


def tril(m: Like, k: int = 0) -> _Array:
    """The matrices of m with zeros above the k-th diagonal; a vector is each row of one."""
    return _c.tril(_rows(m), k=k)


def triu(m: Like, k: int = 0) -> _Array:
    """The matrices of m with zeros below the k-th diagonal; a vector is each row of one."""
    return _c.triu(_rows(m), k=k)


def _rows(m):
    m = _array(m)
    return _core.broadcast(m, m.shape * 2) if m.ndim == 1 else m


def meshgrid(*xi: Like, indexing: str = "xy", sparse: builtins.bool = False, copy: builtins.bool = True) -> tuple[_Array, ...]:
    """Of n vectors the n arrays of their coordinates; sparse: before they are broadcast."""
    xi = tuple(_c._apart(tuple(_core.reshape(a, (a.size,)) for a in map(_array, xi)), indexing))
    if sparse:
        return xi
    return tuple(_core.broadcast(a, _f.broadcast_shapes(*[x.shape for x in xi])) for a in xi)


class _Grid:
    def __init__(self, sparse: builtins.bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        one = not isinstance(key, tuple)
        axes = [self._axis(s) for s in ((key,) if one else key)]
        if one:
            return axes[0]
        grids = meshgrid(*_f._together(axes), indexing="ij", sparse=self._sparse)
        return grids if self._sparse else _core.stack(grids, 0)

    @staticmethod
    def _axis(s):
        if not isinstance(s, slice):
            raise TypeError(f"a grid is named by slices, not by {s!r}")
        start = 0 if s.start is None else s.start
        if isinstance(s.step, complex):
            return linspace(start, s.stop, int(builtins.abs(s.step)))
        return arange(start, s.stop, 1 if s.step is None else s.step)


mgrid, ogrid = _Grid(False), _Grid(True)


def _extents(shape, what):
    """A shape whose axes are counted here."""
    if not hasattr(shape, "__iter__"):
        raise TypeError(f"{what}: the shape is {shape!r}, not a sequence of integers")
    shape = _c._shape(shape, what)
    if builtins.any(n < 0 for n in shape):
        raise ValueError(f"{what}: an extent of the shape {shape} is negative")
    return shape


def indices(dimensions: Sequence[int], dtype: Type = int) -> _Array:
    """The index of each element along each axis of such a shape."""
    grids = _c.meshgrid(*[_c.arange(n, dtype=dtype) for n in _extents(dimensions, "indices")], indexing="ij")
    return _core.stack(grids, 0)


def fromfunction(function: Callable[..., Any], shape: Sequence[int], *, dtype: Type = float, **more: Any) -> Any:
    """function(i, j, ...) of the arrays of indices of such a shape."""
    if not callable(function):
        raise TypeError(f"fromfunction: function is of {type(function).__name__}, which cannot be called")
    shape = _extents(shape, "fromfunction")
    grid = indices(shape, dtype)
    return function(*[grid[i] for i in range(len(shape))], **more)


def diag(v: Like, k: int = 0) -> _Array:
    """The k-th diagonal of a matrix, or a matrix of it."""
    v, k = _array(v), _whole(k, "k")
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError(f"diag: an array of shape {v.shape} is neither a vector nor a matrix")
    n = v.size + builtins.abs(k)
    v = pad(v, (k, 0) if k > 0 else (0, -k))
    row = _c.arange(n)
    return _core.where(_core.eq(_core.reshape(row, (n, 1)), _core.sub(row, k)), v, _core.cast(array(0), v.dtype))

"""The functions of the Python array API standard that are no single row of the operation table."""
from __future__ import annotations

import builtins
import math
from collections import namedtuple

from . import _core
from ._base import DType, as_dtype, bool as truth, default_real, element_type, float32, float64, int64, number, real as number_of, uint8, uint64, whole
from ._errors import ArgumentError, DTypeError, ShapeError
from ._index import _broadcast_shapes as _shapes_together
from ._views import Broadcast, Permute, Reshape, Slice, is_view, view

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Iterable, NoReturn, Sequence

    from ._array import Array
    from ._base import Device

__all__ = [
    "add_at", "all", "any", "argmax", "argmin", "argsort", "astype", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast",
    "clip", "concat", "conj", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "expand_dims", "finfo", "flip",
    "iinfo", "imag", "isdtype", "isin", "matmul", "matrix_transpose", "max", "mean", "min", "moveaxis", "nextafter",
    "nonzero", "permute_dims", "positive", "prod", "real", "repeat", "reshape", "result_type", "roll", "searchsorted",
    "signbit", "sort", "squeeze", "stack", "std", "sum", "take", "take_along_axis", "tensordot", "tile", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where",
]

_Array = _core.Array

# ---- checks ----


def _array(x, what):
    if not isinstance(x, _Array):
        raise TypeError(f"{what}: not a fusion array, but {type(x).__name__}; fusion.asarray() makes arrays")
    return x


def _arrays(arrays, what):
    """A list of at least one array."""
    if isinstance(arrays, str) or not hasattr(arrays, "__iter__"):
        raise TypeError(f"{what}: arrays is a {type(arrays).__name__}, not a list of fusion arrays")
    if isinstance(arrays, _Array) and not arrays.ndim:
        raise TypeError(f"{what}: arrays is an array without dimensions, not a list of fusion arrays")
    arrays = [_array(a, what) for a in arrays]
    if not arrays:
        raise ValueError(f"{what}: no arrays")
    return arrays


def _together(arrays):
    """In the type that they meet in."""
    dtype = result_type(*arrays)
    return [a if a.dtype is dtype else _core.cast(a, dtype) for a in arrays]


def _axis(axis, ndim, what):
    if not isinstance(axis, int):
        axis = whole(axis, f"{what}: the axis")
    if not -ndim <= axis < ndim:
        raise IndexError(f"{what}: axis {axis} is out of bounds for an array of {ndim} axes")
    return axis % ndim


def _axes(axis, ndim, what):
    """A tuple of axes; None: all of them."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(_axis(a, ndim, what) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) < len(axes):
        raise ValueError(f"{what}: an axis is named twice in {axis}")
    return axes


def _numeric(x, what):
    if _array(x, what).dtype is truth:
        raise DTypeError(f"{what}: takes numbers, not bool")
    return x


def _as_real(x, what):
    _numeric(x, what)
    return x if x.dtype.kind == "f" else _core.cast(x, default_real())


# ---- elementwise, as far as they are not rows ----


def positive(x: Array, /) -> Array:
    """x itself."""
    return +_array(x, "positive")


def real(x: Array, /) -> Array:
    """The real part: x, since nothing here is complex."""
    return _core.same(_numeric(x, "real"))


def conj(x: Array, /) -> Array:
    """The complex conjugate: x, since nothing here is complex."""
    return _core.same(_numeric(x, "conj"))


def imag(x: Array, /) -> NoReturn:
    """The imaginary part; refused: complex numbers are not supported."""
    raise DTypeError("imag: complex numbers are not supported: no device of fusion computes with them")


def signbit(x: Array, /) -> Array:
    """True where the sign is set, also that of -0; the sign of NaN counts as positive."""
    if _array(x, "signbit").dtype.kind != "f":
        raise DTypeError(f"signbit: takes floating-point numbers, not {x.dtype}")
    return _core.lt(_core.copysign(1.0, x), 0)


def nextafter(x1: Array | bool | int | float, x2: Array | bool | int | float, /) -> Array:
    """The next number after x1 towards x2. Computed by the client, so it waits for both."""
    a, b = _pair(x1, x2, "nextafter")
    if a.dtype not in (float32, float64):
        raise DTypeError(f"nextafter: takes float32 and float64, not {a.dtype}")
    if a.device is not b.device:
        raise ArgumentError("nextafter: argument x2 is of another context")
    shape = _shapes_together(a.shape, b.shape)
    return _core.nextafter(_core.broadcast(a, shape), _core.broadcast(b, shape))


def _pair(x1, x2, what):
    """Two arrays of one type, one of which may be a number."""
    if not isinstance(x1, _Array) and not isinstance(x2, _Array):
        raise TypeError(f"{what}: one operand must be an array")
    for x in (x1, x2):
        if not isinstance(x, (_Array, int, float)) and not hasattr(x, "__array_interface__"):
            _array(x, what)
    if not isinstance(x1, _Array):
        x1 = x2.device.context.full(x2.dtype, (), x1)
    if not isinstance(x2, _Array):
        x2 = x1.device.context.full(x1.dtype, (), x2)
    dtype = _core.meet(x1.dtype, x2.dtype)
    return _core.cast(x1, dtype), _core.cast(x2, dtype)


def clip(x: Array, /, min: Array | bool | int | float | None = None,
         max: Array | bool | int | float | None = None) -> Array:
    """x limited to [min, max]; a bound that is None does not limit."""
    _numeric(x, "clip")
    dtype, min, max = x.dtype, number(min), number(max)
    for bound in (min, max):
        if isinstance(bound, _Array):
            if _shapes_together(x.shape, bound.shape) != x.shape:
                raise ShapeError(f"clip: a bound of shape {bound.shape} does not broadcast to {x.shape}")
            if bound.dtype is not dtype:
                dtype = _core.meet(dtype, bound.dtype)
        elif isinstance(bound, complex):
            raise DTypeError("clip: complex numbers are not supported")
    x = x if x.dtype is dtype else _core.cast(x, dtype)
    # A bound that no value of the type reaches does not limit.
    if min is not None and not isinstance(min, _Array) and dtype.kind in "iu":
        low, high = _limits(dtype)
        if min > high:
            return _core.broadcast(x.device.context.full(dtype, (), high), x.shape)
        min = None if min <= low else min if isinstance(min, int) else math.ceil(min)
    if max is not None and not isinstance(max, _Array) and dtype.kind in "iu":
        low, high = _limits(dtype)
        if max < low:
            return _core.broadcast(x.device.context.full(dtype, (), low), x.shape)
        max = None if max >= high else max if isinstance(max, int) else math.floor(max)
    # To be a bound or not is another derivative at the bound: numbers take all of it, as in PyTorch, arrays share it.
    if dtype.kind == "f":
        if min is None and max is not None and not isinstance(max, _Array):
            min = -math.inf
        elif max is None and min is not None and not isinstance(min, _Array):
            max = math.inf
    if min is not None and max is not None:
        return _core.clamp(x, min, max)
    if min is not None:
        return _core.maximum(x, min)
    return _core.same(x) if max is None else _core.minimum(x, max)


def _limits(dtype):
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def where(condition: Array, x1: Array | bool | int | float, x2: Array | bool | int | float, /) -> Array:
    """x1 where the condition is true, else x2."""
    if _array(condition, "where").dtype is not truth:
        raise DTypeError(f"where: the condition is of {condition.dtype}, not bool")
    return _core.where(condition, x1, x2)


# ---- types ----


def astype(x: Array, dtype: DType | str | type, /, *, copy: bool = True,
           device: Device | str | int | None = None) -> Array:
    """x in another element type."""
    _array(x, "astype")
    dtype = element_type(dtype)
    made = x if x.dtype is dtype else _core.cast(x, dtype)
    if device is not None:
        made = made.to_device(device)
    return _core.same(made) if made is x and copy else made


def can_cast(from_: Array | DType | str | type, to: DType | str | type, /) -> bool:
    """Whether values of one type are values of another by the rules of promotion."""
    source = from_.dtype if isinstance(from_, _Array) else element_type(from_)
    target = element_type(to)
    if source is target:
        return True
    if source is truth or target is truth:
        return source is truth
    if "f" in (source.kind, target.kind) and source.kind != target.kind:
        return target.kind == "f"
    return _core.meet(source, target) is target and not (source is uint64 and target is int64)


finfo_object = namedtuple("finfo_object", "bits eps max min smallest_normal dtype")
iinfo_object = namedtuple("iinfo_object", "bits max min dtype")
_REALS = {"float16": (11, 15), "bfloat16": (8, 127), "float32": (24, 127), "float64": (53, 1023)}


def finfo(type: Array | DType | str | type, /) -> finfo_object:
    """Limits of a floating-point type."""
    dtype = type.dtype if isinstance(type, _Array) else element_type(type)
    if dtype.kind != "f":
        raise DTypeError(f"finfo: {dtype} is no floating-point type")
    digits, highest = _REALS[dtype.name]
    largest = math.ldexp(2 - math.ldexp(1, 1 - digits), highest)
    return finfo_object(dtype.bits, math.ldexp(1, 1 - digits), largest, -largest, math.ldexp(1, 1 - highest), dtype)


def iinfo(type: Array | DType | str | type, /) -> iinfo_object:
    """Limits of an integer type."""
    dtype = type.dtype if isinstance(type, _Array) else element_type(type)
    if dtype.kind not in "iu":
        raise DTypeError(f"iinfo: {dtype} is no integer type")
    low, high = _limits(dtype)
    return iinfo_object(dtype.bits, high, low, dtype)


_KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
          "complex floating": "", "numeric": "iuf"}


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether a type is of a kind, is another type, or is one of several of these."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: {kind!r} is no kind of types: they are {', '.join(_KINDS)}")
        return element_type(dtype).kind in _KINDS[kind]
    return element_type(dtype) is element_type(kind)


def result_type(*arrays_and_dtypes: Array | DType | str | type | bool | int | float) -> DType:
    """The type that arrays, types and numbers meet in."""
    types, kinds = [], [-1]
    for a in arrays_and_dtypes:
        if isinstance(a, (builtins.bool, int, float)) and not isinstance(a, DType):
            kinds.append(0 if isinstance(a, builtins.bool) else 1 if isinstance(a, int) else 2)
        elif isinstance(a, complex):
            raise DTypeError("result_type: complex numbers are not supported")
        else:
            types.append(a.dtype if isinstance(a, _Array) else element_type(a))
    if not types:
        raise ValueError("result_type: at least one array or type is needed")
    dtype = types[0]
    for t in types[1:]:
        dtype = _core.meet(dtype, t)
    highest = builtins.max(kinds)
    if highest > {"b": 0, "i": 1, "u": 1, "f": 2}[dtype.kind]:
        return default_real() if highest == 2 else int64
    return dtype


# ---- statistics ----


def _accumulated(x, dtype):
    """The type that sums and products come in."""
    if dtype is not None:
        return dtype
    return x.dtype if x.dtype.kind == "f" else uint64 if x.dtype.kind == "u" else int64


def _added(reduce, x, axis, dtype, keepdims, what):
    _numeric(x, what) if x.dtype is not truth else x
    dtype, axes = _accumulated(x, as_dtype(dtype)), _axes(axis, x.ndim, what)
    if x.dtype is not dtype and (dtype.kind == "f" or x.dtype.kind == "f" or x.dtype is truth):
        x = _core.cast(x, dtype)
    made = reduce(x, axes, keepdims) if axes else _core.same(x)
    return made if made.dtype is dtype else _core.cast(made, dtype)


def sum(x: Array, /, *, axis: int | tuple[int, ...] | None = None, dtype: DType | str | type | None = None,
        keepdims: bool = False) -> Array:
    """The sum over axes; of integers in int64 or uint64."""
    return _added(_core.reduce_sum, _array(x, "sum"), axis, dtype, keepdims, "sum")


def prod(x: Array, /, *, axis: int | tuple[int, ...] | None = None, dtype: DType | str | type | None = None,
         keepdims: bool = False) -> Array:
    """The product over axes; of integers in int64 or uint64."""
    return _added(_core.reduce_prod, _array(x, "prod"), axis, dtype, keepdims, "prod")


def max(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The largest element over axes; NaN wins."""
    return _extreme(_core.reduce_max, _core.reduce_any, x, axis, keepdims, "max")


def min(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The smallest element over axes; NaN wins."""
    return _extreme(_core.reduce_min, _core.reduce_all, x, axis, keepdims, "min")


def _extreme(reduce, logical, x, axis, keepdims, what):
    axes = _axes(axis, _array(x, what).ndim, what)
    if not axes:
        return _core.same(x)
    if x.dtype is truth and not x.size and not math.prod(x.shape[d] for d in axes) and math.prod(n for d, n in enumerate(x.shape) if d not in axes):
        raise ValueError(f"{what}: there is no element along the axes {axes} of {x.shape}")
    return (logical if x.dtype is truth else reduce)(x, axes, keepdims)


def mean(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The mean over axes."""
    x = _as_real(x, "mean")
    axes = _axes(axis, x.ndim, "mean")
    return _core.reduce_mean(x, axes, keepdims) if axes else _core.same(x)


def _spread(name, x, axis, correction, keepdims):
    x = _as_real(x, name)
    axes = _axes(axis, x.ndim, name)
    if not axes:
        x, axes, keepdims = _core.reshape(x, x.shape + (1,)), (x.ndim,), False
    return _core.call(None, name, (x,), {"axes": axes, "keepdims": keepdims, "correction": number_of(correction, "correction")})


def var(x: Array, /, *, axis: int | tuple[int, ...] | None = None, correction: int | float = 0.0,
        keepdims: bool = False) -> Array:
    """The variance over axes: squares of the distances from the mean, over their number less the correction."""
    return _spread("var", x, axis, correction, keepdims)


def std(x: Array, /, *, axis: int | tuple[int, ...] | None = None, correction: int | float = 0.0,
        keepdims: bool = False) -> Array:
    """The square root of the variance."""
    return _spread("std", x, axis, correction, keepdims)


def _scanned(scan, x, axis, dtype, include_initial, first, what):
    _array(x, what)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{what}: an array of {x.ndim} axes needs one to be named")
        axis = 0
    axis, dtype = _axis(axis, x.ndim, what), _accumulated(x, as_dtype(dtype))
    if x.dtype is not dtype and (dtype.kind == "f" or x.dtype.kind == "f" or x.dtype is truth):
        x = _core.cast(x, dtype)
    made = scan(x, axis)
    made = made if made.dtype is dtype else _core.cast(made, dtype)
    if include_initial:
        shape = tuple(1 if d == axis else n for d, n in enumerate(x.shape))
        made = _core.concat([x.device.context.full(dtype, shape, first), made], axis)
    return made


def cumulative_sum(x: Array, /, *, axis: int | None = None, dtype: DType | str | type | None = None,
                   include_initial: bool = False) -> Array:
    """The sums of the elements up to each along an axis, behind a 0 where that is wanted."""
    return _scanned(_core.scan_cumsum, x, axis, dtype, include_initial, 0, "cumulative_sum")


def cumulative_prod(x: Array, /, *, axis: int | None = None, dtype: DType | str | type | None = None,
                    include_initial: bool = False) -> Array:
    """The products of the elements up to each along an axis, behind a 1 where that is wanted."""
    return _scanned(_core.scan_cumprod, x, axis, dtype, include_initial, 1, "cumulative_prod")


def all(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """True where no element over the axes is zero."""
    return _logical(_core.reduce_all, x, axis, keepdims, "all")


def any(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """True where an element over the axes is not zero."""
    return _logical(_core.reduce_any, x, axis, keepdims, "any")


def _logical(reduce, x, axis, keepdims, what):
    axes = _axes(axis, _array(x, what).ndim, what)
    return reduce(x, axes, keepdims) if axes else _core.cast(x, truth)


def diff(x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None,
         append: Array | None = None) -> Array:
    """The n-th differences of neighbours along an axis."""
    axis, n = _axis(axis, _array(x, "diff").ndim, "diff"), whole(n, "n")
    if n < 0:
        raise ValueError(f"diff: n is {n}, below 0")
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    less = _core.ne if x.dtype is truth else _core.sub
    for _ in range(n):
        count = x.shape[axis]
        if count < 2:
            return _cut(x, axis, 0, 0)
        x = less(_cut(x, axis, 1, count), _cut(x, axis, 0, count - 1))
    return _core.same(x) if not n else x


def _cut(x, axis, start, stop):
    low, high = [None] * x.ndim, [None] * x.ndim
    low[axis], high[axis] = start, stop
    return _core.slice(x, tuple(low), tuple(high), (1,) * x.ndim)


# ---- searching, sorting, sets ----


def _place(name, x, axis, keepdims):
    _numeric(x, name)
    axes = _axes(axis, x.ndim, name)
    if not math.prod(x.shape[d] for d in axes):
        raise ValueError(f"{name}: there is no element in an array of shape {x.shape}")
    if not x.size:
        return x.device.context.full(int64, tuple(1 if d in axes else n for d, n in enumerate(x.shape) if keepdims or d not in axes), 0)
    if not axes:
        return x.device.context.full(int64, x.shape, 0)
    return _core.call(None, name, (x,), {"axes": axes, "keepdims": keepdims})


def argmax(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The place of the largest element: the first of equal ones; NaN wins."""
    return _place("argmax", x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """The place of the smallest element: the first of equal ones; NaN wins."""
    return _place("argmin", x, axis, keepdims)


def count_nonzero(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """How many elements over the axes are not zero."""
    axes = _axes(axis, _array(x, "count_nonzero").ndim, "count_nonzero")
    if not axes:
        return _core.cast(_core.cast(x, truth), int64)
    return _core.call(None, "count_nonzero", (x,), {"axes": axes, "keepdims": keepdims})


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, an array for each axis. Waits."""
    if not _array(x, "nonzero").ndim:
        raise ValueError("nonzero: an array without axes has no indices")
    flat, out = _core.flatnonzero(x), []
    for d in reversed(range(x.ndim)):
        out.append(_core.remainder(flat, x.shape[d]) if d and x.shape[d] else flat)
        if d:
            flat = _core.floor_divide(flat, builtins.max(1, x.shape[d]))
    return tuple(out[::-1])


def searchsorted(x1: Array, x2: Array | bool | int | float, /, *, side: str = "left",
                 sorter: Array | None = None) -> Array:
    """Where each element of x2 goes in the sorted vector x1."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: the side is 'left' or 'right', not {side!r}")
    if _array(x1, "searchsorted").ndim != 1:
        raise ValueError(f"searchsorted: x1 is a vector, not of shape {x1.shape}")
    x1, x2 = _pair(x1, x2, "searchsorted")
    if sorter is not None:
        x1 = _core.take(x1, sorter, 0)
    return _core.searchsorted(x1, x2, side == "right")


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements along an axis in order; always stable, NaN behind all others."""
    return _sorted(_core.sort, x, axis, descending, "sort")


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The places that sort() takes the elements from."""
    return _sorted(_core.argsort, x, axis, descending, "argsort")


def _sorted(by, x, axis, descending, what):
    return by(x, _axis(axis, _array(x, what).ndim, what), builtins.bool(descending))


UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def unique_all(x: Array, /) -> UniqueAll:
    """The values, ascending, each once; the place of the first of each; which is where; how often each occurs. Waits."""
    return UniqueAll(*_core.unique(_array(x, "unique_all")))


def unique_counts(x: Array, /) -> UniqueCounts:
    """The values, ascending, each once, and how often each occurs. Waits."""
    values, _, _, counts = _core.unique(_array(x, "unique_counts"))
    return UniqueCounts(values, counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The values, ascending, each once, and which is where. Waits."""
    values, _, inverse, _ = _core.unique(_array(x, "unique_inverse"))
    return UniqueInverse(values, inverse)


def unique_values(x: Array, /) -> Array:
    """The values, ascending, each once. Waits."""
    return _core.unique(_array(x, "unique_values"))[0]


def isin(x1: Array | bool | int | float, x2: Array | bool | int | float, /, *, invert: bool = False) -> Array:
    """Whether each element of x1 is one of x2."""
    a, b = _pair(x1, x2, "isin")
    if not b.size:
        return a.device.context.full(truth, a.shape, builtins.bool(invert))
    if a.dtype is truth:
        a, b = _core.cast(a, uint8), _core.cast(b, uint8)
    ordered = _core.sort(_core.reshape(b, (b.size,)), 0, False)
    place = _core.minimum(_core.searchsorted(ordered, a, False), b.size - 1)
    return (_core.ne if invert else _core.eq)(_core.take(ordered, place, 0), a)


# ---- shapes ----


def reshape(x: Array, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Array:
    """The same elements under another shape; one extent may be -1. A view, unless a copy is asked for, or the memory of what x is a view of is not
    in this order: NumPy copies then, too."""
    _array(x, "reshape")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        if shape.count(-1) > 1 or not known or x.size % known:
            raise ShapeError(f"reshape: {x.shape} does not become {shape}")
        shape = tuple(x.size // known if n == -1 else n for n in shape)
    made = _core.reshape(x, shape)
    if copy or not is_view(x, made.shape):
        if copy is not None and not copy:
            raise ValueError(f"reshape: elements of {x.shape} are not in this order in memory, and copy=False forbids a copy")
        return made
    return view(x, made, Reshape(made.shape))


def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """Axis d of the result is axis axes[d] of x. A view."""
    axes = tuple(_axis(a, _array(x, "permute_dims").ndim, "permute_dims") for a in axes)
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError(f"permute_dims: {axes} is no order of {x.ndim} axes")
    return view(x, _core.permute(x, axes), Permute(axes))


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes swapped. A view."""
    if _array(x, "matrix_transpose").ndim < 2:
        raise ValueError(f"matrix_transpose: an array of shape {x.shape} is no matrix")
    return permute_dims(x, tuple(range(x.ndim - 2)) + (x.ndim - 1, x.ndim - 2))


def moveaxis(x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Array:
    """Axes at other places, the others in their order. A view."""
    sources, destinations = (_axes(a, _array(x, "moveaxis").ndim, "moveaxis") for a in (source, destination))
    if len(sources) != len(destinations):
        raise ValueError("moveaxis: as many destinations as sources")
    order = [d for d in range(x.ndim) if d not in sources]
    for to, axis in sorted(zip(destinations, sources)):
        order.insert(to, axis)
    return permute_dims(x, tuple(order))


def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """New axes of extent 1. A view."""
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = _axes(axis, _array(x, "expand_dims").ndim + count, "expand_dims")
    rest = iter(x.shape)
    return reshape(x, tuple(1 if d in axes else next(rest) for d in range(x.ndim + count)))


def squeeze(x: Array, /, axis: int | tuple[int, ...] | None = None) -> Array:
    """Without axes of extent 1. A view."""
    _array(x, "squeeze")
    if axis is None:
        axis = tuple(d for d, n in enumerate(x.shape) if n == 1)
    axes = _axes(axis, x.ndim, "squeeze")
    for d in axes:
        if x.shape[d] != 1:
            raise ValueError(f"squeeze: axis {d} of {x.shape} is not of extent 1")
    return reshape(x, tuple(n for d, n in enumerate(x.shape) if d not in axes))


def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """Reversed along axes. A view, but of an array without axes."""
    if not _array(x, "flip").ndim:
        return _core.same(x)
    axes = _axes(axis, _array(x, "flip").ndim, "flip")
    ranges = tuple((n - 1, n, -1) if d in axes and n else (0, n, 1) for d, n in enumerate(x.shape))
    return view(x, _core.flip(x, axes), Slice(ranges, x.shape))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    return _shapes_together(*shapes)


def broadcast_to(x: Array, /, shape: Sequence[int]) -> Array:
    """Repeated along axes of extent 1 and new leading ones, without a copy. A view, for reading alone."""
    made = _core.broadcast(_array(x, "broadcast_to"), tuple(shape))
    return view(x, made, Broadcast(made.shape))


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """All in the shape that they broadcast to."""
    shape = _shapes_together(*[_array(a, "broadcast_arrays").shape for a in arrays])
    return tuple(broadcast_to(a, shape) for a in arrays)


def concat(arrays: Iterable[Array], /, *, axis: int | None = 0) -> Array:
    """One after the other along an axis; None: flattened."""
    arrays = _together(_arrays(arrays, "concat"))
    if axis is None:
        return _core.concat([_core.reshape(a, (a.size,)) for a in arrays], 0)
    return _core.concat(arrays, _axis(axis, arrays[0].ndim, "concat"))


def stack(arrays: Iterable[Array], /, *, axis: int = 0) -> Array:
    """One beside the other along a new axis."""
    arrays = _arrays(arrays, "stack")
    return _core.stack(arrays, _axis(axis, arrays[0].ndim + 1, "stack"))


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts along an axis, without it. Views."""
    axis = _axis(axis, _array(x, "unstack").ndim, "unstack")
    before = (slice(None),) * axis
    return tuple(x[before + (i,)] for i in range(x.shape[axis]))


def tile(x: Array, repetitions: Sequence[int], /) -> Array:
    """x so many times along each axis."""
    if isinstance(repetitions, (str, bytes)) or not hasattr(repetitions, "__iter__"):
        raise TypeError(f"tile: repetitions is {repetitions!r}, not a sequence of integers")
    repetitions = tuple(whole(n, "repetitions") for n in repetitions)
    shape = (1,) * (len(repetitions) - _array(x, "tile").ndim) + x.shape
    repetitions = (1,) * (len(shape) - len(repetitions)) + repetitions
    return _core.tile(_core.reshape(x, shape), repetitions)


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element so many times, one after the other; a number for each element waits for the numbers."""
    if axis is None:
        x, axis = _core.reshape(_array(x, "repeat"), (x.size,)), 0
    axis = _axis(axis, x.ndim, "repeat")
    if not isinstance(repeats, _Array):
        if whole(repeats, "repeats") < 0:
            raise ValueError(f"repeat: repeats is {repeats}, below 0")
        return _core.repeat(x, repeats, axis)
    if repeats.dtype.kind == "f":
        raise TypeError(f"repeat: repeats is of {repeats.dtype}, not of integers")
    repeats = _core.broadcast(_core.reshape(repeats, (repeats.size,)), (x.shape[axis],))
    if not x.shape[axis]:
        return _core.same(x)
    ends = _core.scan_cumsum(_core.cast(repeats, int64), 0)
    total = int(_core.reduce_max(ends, None, False))
    places = x.device.context.arange(int64, total, 0, 1)
    return _core.take(x, _core.searchsorted(ends, places, True), axis)


def roll(x: Array, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Array:
    """The elements moved along axes, those that leave at one end come in at the other."""
    _array(x, "roll")
    if axis is None:
        made = _core.roll(_core.reshape(x, (x.size,)), shift, 0) if x.size else x
        return _core.reshape(made, x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(axes) != len(shifts):
        raise ValueError("roll: as many shifts as axes")
    made = _core.same(x)
    for by, d in zip(shifts, axes):
        d = _axis(d, x.ndim, "roll")
        if x.size:
            made = _core.roll(made, by, d)
    return made


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The elements along an axis that a vector of integers names."""
    if axis is None:
        if _array(x, "take").ndim != 1:
            raise ValueError(f"take: an array of {x.ndim} axes needs one to be named")
        axis = 0
    return _core.take(x, _integers(indices, "take"), _axis(axis, x.ndim, "take"))


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """One element of x along the axis for each index."""
    return _core.take_along(_array(x, "take_along_axis"), _integers(indices, "take_along_axis"), _axis(axis, x.ndim, "take_along_axis"))


def add_at(x: Array, indices: Array, values: Array, /) -> Array:
    """x, to whose elements along the first axis the values were added at the places that a vector of integers names, one after
    the other; not in place."""
    count = _array(indices, "add_at").size
    rest = _array(x, "add_at").shape[1:]
    values = _core.broadcast(values, (count,) + rest)
    index = _core.broadcast(_core.reshape(_core.cast(_integers(indices, "add_at"), int64), (count,) + (1,) * len(rest)), (count,) + rest)
    return _core.add_along(x, index, values if values.dtype is x.dtype else _core.cast(values, x.dtype), 0)


def _integers(indices, what):
    if _array(indices, what).dtype.kind not in "iu":
        raise IndexError(f"{what}: indices are of {indices.dtype}, not integers")
    return indices


# ---- linear algebra ----


def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product over the last two axes; vectors are rows on the left and columns on the right."""
    return _core.matmul(_numeric(x1, "matmul"), _numeric(x2, "matmul"))


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of x1 * x2 over an axis."""
    _numeric(x1, "vecdot")
    _numeric(x2, "vecdot")
    axis = whole(axis, "vecdot: the axis")
    if not -builtins.min(x1.ndim, x2.ndim) <= axis <= -1:
        raise IndexError(f"vecdot: axis {axis} is not an axis of both, counted from the end")
    if x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(f"vecdot: the shapes {x1.shape} and {x2.shape} differ along axis {axis}")
    product = _core.mul(x1, x2)
    made = _core.reduce_sum(product, (product.ndim + axis,), False)
    return made if made.dtype is product.dtype else _core.cast(made, product.dtype)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """The sum of products over axes of both."""
    _numeric(x1, "tensordot")
    _numeric(x2, "tensordot")
    if isinstance(axes, int):
        if axes < 0 or axes > builtins.min(x1.ndim, x2.ndim):
            raise ValueError(f"tensordot: {axes} axes of arrays of {x1.ndim} and {x2.ndim}")
        axes = (tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes)))
    if not isinstance(axes, (tuple, list)) or len(axes) != 2 or not builtins.all(isinstance(a, (tuple, list)) for a in axes):
        raise TypeError(f"tensordot: axes is {axes!r}, neither an integer nor a list of axes of each array")
    one, two = (_axes(tuple(a), x.ndim, "tensordot") for a, x in zip(axes, (x1, x2)))
    if [x1.shape[d] for d in one] != [x2.shape[d] for d in two]:
        raise ShapeError(f"tensordot: the shapes {x1.shape} and {x2.shape} differ along axes {one} and {two}")
    rest1, rest2 = ([d for d in range(x.ndim) if d not in a] for x, a in ((x1, one), (x2, two)))
    shape = tuple(x1.shape[d] for d in rest1) + tuple(x2.shape[d] for d in rest2)
    count = math.prod(x1.shape[d] for d in one)
    a = _core.reshape(_core.permute(x1, rest1 + list(one)), (math.prod(x1.shape[d] for d in rest1), count))
    b = _core.reshape(_core.permute(x2, list(two) + rest2), (count, math.prod(x2.shape[d] for d in rest2)))
    return _core.reshape(_core.matmul(a, b), shape)

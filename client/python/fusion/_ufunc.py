"""Elementwise functions with the forms that NumPy gives them: out=, where=, dtype=, outer(), reduce(), accumulate(), at()."""
from __future__ import annotations

import builtins
import functools
import math

from . import _core, _functions as _f
from ._base import as_dtype, bool as truth, number
from ._creation import asarray
from ._index import places_together
from ._store import stored, to_store_in
from ._told import tell

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Callable

    from ._array import Array
    from ._base import DType, Like

__all__ = ["array_of", "operand_of", "plain", "ufunc"]

_Array = _core.Array


def array_of(x: Any) -> Any:
    """An array from one, or from whatever asarray() takes."""
    if isinstance(x, bytes):
        raise TypeError("bytes are no array; fusion.asarray() makes one of their memory")
    return x if isinstance(x, _Array) else asarray(x)


def operand_of(v: Any) -> Any:
    """A number of Python, from one of NumPy, too; all else as an array."""
    v = number(v)
    return v if isinstance(v, (builtins.bool, int, float)) else array_of(v)


def plain(v: Any) -> Any:
    """A number of Python, from one, of NumPy or an array without axes, which waits; all else as it is."""
    return v.item() if isinstance(v, _Array) and not v.ndim else number(v)


def _operands(given):
    """Arrays; numbers stay numbers beside an array, so that they have its type."""
    given = [operand_of(x) for x in given]
    return given if builtins.any(isinstance(x, _Array) for x in given) else [asarray(x) for x in given]


def _told(what):
    """A method of functions, whose refusals begin with the function's name."""
    def of(method):
        @functools.wraps(method)
        def call(self, *args, **named):
            try:
                return method(self, *args, **named)
            except Exception as e:
                tell(e, method, self.__name__ + what, (self, *args), named)
                raise
        return call
    return of


class ufunc:
    """A function of one or two operands, elementwise. Operands are arrays, arrays of NumPy, lists and numbers."""

    def __init__(self, name: str, function: Callable[..., Any], nin: int, *, reduce: Callable[..., Any] | None = None,
                 scan: Callable[..., Any] | None = None, identity: Any = None, steps: bool = False) -> None:
        self.__name__, self.nin, self.nout, self.identity = name, nin, 1, identity
        self._function, self._reduce, self._scan, self._steps = function, reduce, scan, steps
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<fusion ufunc '{self.__name__}'>"

    @_told("")
    def __call__(self, *x: Like, out: Any = None, where: Like = True, dtype: DType | str | type | None = None) -> Array:
        operands = x[:self.nin] if out is None else x
        out = x[self.nin:] or None if out is None else out
        if len(operands) != self.nin:
            raise TypeError(f"{self.__name__}: takes {self.nin} operand{'s' if self.nin > 1 else ''}, not {len(operands)}")
        given = _operands(operands)
        wanted, out = as_dtype(dtype), to_store_in(out, self.__name__)
        mask = where if where is True else _core.cast(array_of(where), truth)
        if wanted is not None and wanted is not truth:
            given = [_core.cast(x, wanted) if isinstance(x, _Array) else x for x in given]
        made = self._function(*given)
        if wanted is not None and made.dtype is not wanted:
            made = _core.cast(made, wanted)
        if mask is not True:
            made = _core.where(_core.broadcast(mask, made.shape), made, 0 if out is None else out)
        return stored(made, out, self.__name__)

    def _binary(self, what):
        if self.nin != 2:
            raise ValueError(f"{self.__name__}.{what}: only functions of two operands have it")

    @_told(".outer")
    def outer(self, a: Like, b: Like, /, **how: Any) -> Array:
        """Of each element of a with each of b."""
        self._binary("outer")
        a, b = array_of(a), array_of(b)
        return self(_core.reshape(a, a.shape + (1,) * b.ndim), b, **how)

    @_told(".reduce")
    def reduce(self, a: Like, axis: int | tuple[int, ...] | None = 0, dtype: DType | str | type | None = None, out: Any = None,
               keepdims: bool = False, initial: Like | None = None) -> Array:
        """Over the elements along an axis, one after the other; None: over all axes."""
        self._binary("reduce")
        a = array_of(a)
        if not a.ndim:
            return stored(a, out, self.__name__)
        a = a if dtype is None else _core.cast(a, as_dtype(dtype))
        made = self._folded(a, axis, keepdims) if self._reduce is None else self._reduce(a, axis=axis, keepdims=keepdims)
        return stored(made if initial is None else self(initial, made), out, self.__name__)

    def _folded(self, a, axis, keepdims):
        axes = _f._axes(axis, a.ndim, self.__name__)
        if len(axes) != 1:
            raise ValueError(f"{self.__name__}.reduce: works along one axis, not {len(axes)}")
        parts = _f.unstack(a, axis=axes[0])
        if not parts:
            raise ValueError(f"{self.__name__}.reduce: there is no element along axis {axes[0]}")
        made = parts[0]
        for part in parts[1:]:
            made = self(made, part)
        return _f.expand_dims(made, axes[0]) if keepdims else made

    @_told(".accumulate")
    def accumulate(self, a: Like, axis: int = 0, dtype: DType | str | type | None = None, out: Any = None) -> Array:
        """Of the elements up to each along an axis."""
        self._binary("accumulate")
        a = array_of(a)
        a = a if dtype is None else _core.cast(a, as_dtype(dtype))
        axis = _f._axis(axis, a.ndim, self.__name__)
        if self._scan is not None:
            made = self._scan(a, axis=axis)
        elif self._steps:
            made = self._doubled(a, axis)
        else:
            parts = list(_f.unstack(a, axis=axis))
            for i in range(1, len(parts)):
                parts[i] = self(parts[i - 1], parts[i])
            made = _f.stack(parts, axis=axis) if parts else _core.same(a)
        return stored(made, out, self.__name__)

    def _doubled(self, a, axis):
        """Where the order does not matter: each with the one 1, 2, 4, ... before it."""
        count, apart = a.shape[axis], 1
        while apart < count:
            head, later, before = _f._cut(a, axis, 0, apart), _f._cut(a, axis, apart, count), _f._cut(a, axis, 0, count - apart)
            a = _f.concat([head, self(before, later)], axis=axis)
            apart *= 2
        return _core.same(a) if apart == 1 else a

    @_told(".at")
    def at(self, a: Array, indices: Any, b: Any = None, /) -> None:
        """a[indices] = this function of a[indices] and b, once for each time that an index is there."""
        if not isinstance(a, _Array):
            raise TypeError(f"{self.__name__}.at: not a fusion array, but {type(a).__name__}")
        if self.nin == 1:
            a[indices] = self(a[indices])
            return
        flat, places = _places(a, indices, self.__name__)
        if self.__name__ not in ("add", "subtract"):
            raise ValueError(f"{self.__name__}.at: only add and subtract are repeated at one place")
        b = array_of(b) if self.__name__ == "add" else -array_of(b)
        values = _core.broadcast(_core.cast(b, a.dtype), places.shape + flat.shape[1:])
        flat = _f.add_at(flat, _core.reshape(places, (places.size,)), _core.reshape(values, (places.size,) + flat.shape[1:]))
        a[...] = _core.reshape(flat, a.shape)


def _places(a, indices, what):
    """a with the axes that are indexed as one, and the places along it."""
    indices = tuple(array_of(i) for i in indices) if isinstance(indices, tuple) else (array_of(indices),)
    if builtins.any(i.dtype.kind not in "iu" for i in indices) or len(indices) > a.ndim:
        raise IndexError(f"{what}.at: indices are arrays of integers, at most one for each of {a.ndim} axes")
    extents, rest = a.shape[:len(indices)], a.shape[len(indices):]
    return _core.reshape(a, (math.prod(extents),) + rest), places_together(indices, extents)

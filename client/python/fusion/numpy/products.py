"""Products of matrices and vectors."""
from __future__ import annotations

import builtins
import functools as _functools

from .. import _core, _creation as _c, _functions as _f, nn as _nn
from .._array import Array as _Array
from .._einsum import einsum
from .._ufunc import array_of as _array
from .._store import stored as _stored
from .._base import bool as _truth, int64 as _int64, whole as _whole
from .._errors import ShapeError as _ShapeError
from .shapes import ravel

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

    from .._base import Like

__all__ = [
    "convolve", "correlate", "cross", "dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot",
]


def _of_truths(product):
    """Of arrays of truths whether any product is true; beside numbers they are 0 and 1."""
    @_functools.wraps(product)
    def of(a, b, *more, **named):
        a, b = _array(a), _array(b)
        if a.dtype is _truth and b.dtype is _truth:
            return _core.cast(product(_core.cast(a, _int64), _core.cast(b, _int64), *more, **named), _truth)
        return product(*(_core.cast(x, y.dtype) if x.dtype is _truth else x for x, y in ((a, b), (b, a))), *more, **named)
    return of


_matmul, _tensordot, _vecdot = _of_truths(_f.matmul), _of_truths(_f.tensordot), _of_truths(_f.vecdot)


def dot(a: Like, b: Like, out: Any = None) -> _Array:
    """The sum of products over the last axis of a and the last but one of b; of numbers the product."""
    a, b = _array(a), _array(b)
    if not a.ndim or not b.ndim:
        made = _core.mul(a, b)
    elif a.ndim <= 2 and b.ndim <= 2:
        made = _matmul(a, b)
    else:
        axis = builtins.max(b.ndim - 2, 0)
        if a.shape[-1] != b.shape[axis]:
            raise _ShapeError(f"dot: the last axis of the shape {a.shape} and axis {axis} of {b.shape} differ")
        made = _tensordot(a, b, axes=((a.ndim - 1,), (axis,)))
    return _stored(made, out, "dot")


def matmul(x1: Like, x2: Like, out: Any = None) -> _Array:
    """The matrix product over the last two axes."""
    return _stored(_matmul(_array(x1), _array(x2)), out, "matmul")


def inner(a: Like, b: Like) -> _Array:
    """The sum of products over the last axis of both."""
    a, b = _array(a), _array(b)
    if not a.ndim or not b.ndim:
        return _core.mul(a, b)
    if a.shape[-1] != b.shape[-1]:
        raise _ShapeError(f"inner: the last axes of the shapes {a.shape} and {b.shape} differ")
    return _tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


def outer(a: Like, b: Like, out: Any = None) -> _Array:
    """Each element of a times each of b: a matrix."""
    a, b = _array(a), _array(b)
    return _stored(_core.mul(_core.reshape(a, (a.size, 1)), _core.reshape(b, (1, b.size))), out, "outer")


def vdot(a: Like, b: Like) -> _Array:
    """The sum of products of all elements."""
    a, b = _array(a), _array(b)
    if a.size != b.size:
        raise _ShapeError(f"vdot: arrays of the shapes {a.shape} and {b.shape} have {a.size} and {b.size} elements")
    return dot(ravel(a), ravel(b))


def tensordot(a: Like, b: Like, axes: Any = 2) -> _Array:
    """The sum of products over axes of both."""
    a, b = _array(a), _array(b)
    if isinstance(axes, (tuple, list)):
        axes = tuple((x,) if isinstance(x, int) else tuple(x) for x in axes)
    return _tensordot(a, b, axes=axes)


def vecdot(x1: Like, x2: Like, /, axis: int = -1) -> _Array:
    """The sum of x1 * x2 over an axis."""
    return _vecdot(_array(x1), _array(x2), axis=axis)


def kron(a: Like, b: Like) -> _Array:
    """Each element of a times the whole of b, in its place."""
    a, b = _array(a), _array(b)
    n = builtins.max(a.ndim, b.ndim)
    xs, ys = (1,) * (n - a.ndim) + a.shape, (1,) * (n - b.ndim) + b.shape
    made = _core.mul(_core.reshape(a, tuple(v for x in xs for v in (x, 1))), _core.reshape(b, tuple(v for y in ys for v in (1, y))))
    return _core.reshape(made, tuple(x * y for x, y in zip(xs, ys)))


def cross(a: Like, b: Like, axis: int = -1) -> _Array:
    """The vector products of vectors of three along an axis."""
    a, b = (_f.moveaxis(_array(v), _whole(axis, "cross: the axis"), -1) for v in (a, b))
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(f"cross: vectors of three elements are needed, not of {a.shape[-1]} and {b.shape[-1]}")
    (a0, a1, a2), (b0, b1, b2) = ([v[..., i] for i in range(3)] for v in (a, b))
    return _f.moveaxis(_core.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], a.ndim - 1 if a.ndim >= b.ndim else b.ndim - 1), -1, axis)


_MODES = ("full", "same", "valid")


def convolve(a: Like, v: Like, mode: str = "full") -> _Array:
    """The sums of a's elements times those of v reversed, at each place where both meet ("full"), as many as the longer one has ("same"), or where
    the shorter one is inside ("valid")."""
    a, v = _vectors(a, v, mode, "convolve")
    if v.size > a.size:
        a, v = v, a
    return _slid(a, v, mode)


def correlate(a: Like, v: Like, mode: str = "valid") -> _Array:
    """The sums of a's elements times those of v, at the places that convolve() names."""
    a, v = _vectors(a, v, mode, "correlate")
    if v.size > a.size:
        return _f.flip(_slid(v, _f.flip(a), mode))
    return _slid(a, _f.flip(v), mode)


def _vectors(a, v, mode, what):
    a, v = _array(a), _array(v)
    if mode not in _MODES:
        raise ValueError(f"{what}: the mode {mode!r} is none of {', '.join(_MODES)}")
    for x, name in ((a, "a"), (v, "v")):
        if x.ndim > 1 or not x.size:
            raise ValueError(f"{what}: {name} is of shape {x.shape}, not a vector with elements")
    return _f._together([ravel(a), ravel(v)])


def _slid(a, v, mode):
    """The convolution of a with v, which is not longer."""
    if a.dtype is _truth:
        return _core.cast(_slid(_core.cast(a, _int64), _core.cast(v, _int64), mode), _truth)
    n = v.size
    middle = _core.reshape(_nn.conv(_core.reshape(a, (1, 1, a.size)), _core.reshape(_f.flip(v), (1, 1, n))), (a.size - n + 1,))
    if mode == "valid" or n == 1:
        return middle
    # Not by padding: zeros beside a would meet v, and are NaN where it is infinite.
    full = _core.concat([_risen(a, v), middle, _f.flip(_risen(_f.flip(a), _f.flip(v)))], 0)
    start = (n - 1) // 2
    return full if mode == "full" else full[start:start + a.size]


def _risen(a, v):
    """The sums before v is whole inside a: of 1, 2, ... products."""
    n = v.size - 1
    k, j = (_core.reshape(_c.arange(n), shape) for shape in ((n, 1), (1, n)))
    place = _core.sub(k, j)
    met = _core.reshape(_core.take(a, _core.reshape(_core.maximum(place, 0), (n * n,)), 0), (n, n))
    product = _core.mul(met, v[:n])
    made = _core.reduce_sum(_core.where(_core.ge(place, 0), product, _core.cast(_c.asarray(0), product.dtype)), (1,), False)
    return made if made.dtype is product.dtype else _core.cast(made, product.dtype)

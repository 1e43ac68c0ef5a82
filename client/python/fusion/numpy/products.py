"""Products of matrices and vectors."""
from __future__ import annotations

import builtins

from .. import _core, _functions as _f
from .._array import Array as _Array
from .._einsum import einsum
from .._ufunc import array_of as _array
from .._store import stored as _stored
from .shapes import ravel

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

__all__ = [
    "cross", "dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot",
]


def dot(a: Any, b: Any, out: Any = None) -> _Array:
    """The sum of products over the last axis of a and the last but one of b; of numbers the product."""
    a, b = _array(a), _array(b)
    if not a.ndim or not b.ndim:
        made = _core.mul(a, b)
    elif a.ndim <= 2 and b.ndim <= 2:
        made = _f.matmul(a, b)
    else:
        made = _f.tensordot(a, b, axes=((a.ndim - 1,), (builtins.max(b.ndim - 2, 0),)))
    return _stored(made, out, "dot")


def matmul(x1: Any, x2: Any, out: Any = None) -> _Array:
    """The matrix product over the last two axes."""
    return _stored(_f.matmul(_array(x1), _array(x2)), out, "matmul")


def inner(a: Any, b: Any) -> _Array:
    """The sum of products over the last axis of both."""
    a, b = _array(a), _array(b)
    return _core.mul(a, b) if not a.ndim or not b.ndim else _f.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


def outer(a: Any, b: Any, out: Any = None) -> _Array:
    """Each element of a times each of b: a matrix."""
    a, b = _array(a), _array(b)
    return _stored(_core.mul(_core.reshape(a, (a.size, 1)), _core.reshape(b, (1, b.size))), out, "outer")


def vdot(a: Any, b: Any) -> _Array:
    """The sum of products of all elements."""
    return dot(ravel(a), ravel(b))


def tensordot(a: Any, b: Any, axes: Any = 2) -> _Array:
    """The sum of products over axes of both."""
    a, b = _array(a), _array(b)
    if not isinstance(axes, int):
        axes = tuple((x,) if isinstance(x, int) else tuple(x) for x in axes)
    return _f.tensordot(a, b, axes=axes)


def vecdot(x1: Any, x2: Any, /, axis: int = -1) -> _Array:
    """The sum of x1 * x2 over an axis."""
    return _f.vecdot(_array(x1), _array(x2), axis=axis)


def kron(a: Any, b: Any) -> _Array:
    """Each element of a times the whole of b, in its place."""
    a, b = _array(a), _array(b)
    n = builtins.max(a.ndim, b.ndim)
    xs, ys = (1,) * (n - a.ndim) + a.shape, (1,) * (n - b.ndim) + b.shape
    made = _core.mul(_core.reshape(a, tuple(v for x in xs for v in (x, 1))), _core.reshape(b, tuple(v for y in ys for v in (1, y))))
    return _core.reshape(made, tuple(x * y for x, y in zip(xs, ys)))


def cross(a: Any, b: Any, axis: int = -1) -> _Array:
    """The vector products of vectors of three along an axis."""
    a, b = (_f.moveaxis(_array(v), axis, -1) for v in (a, b))
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(f"cross: vectors of three elements are needed, not of {a.shape[-1]} and {b.shape[-1]}")
    (a0, a1, a2), (b0, b1, b2) = ([v[..., i] for i in range(3)] for v in (a, b))
    return _f.moveaxis(_core.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], a.ndim - 1 if a.ndim >= b.ndim else b.ndim - 1), -1, axis)

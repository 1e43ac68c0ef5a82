"""The part of numpy.linalg that there is."""
from __future__ import annotations

import builtins
import math as _math

from .. import _core
from .._array import Array as _Array
from .reduce import _as_real, count_nonzero, max, min, sum
from .._told import told_all as _told_all

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

    from .._base import Axes, Like

__all__ = ["norm"]


def norm(x: Like, ord: Any = None, axis: Axes = None, keepdims: builtins.bool = False) -> _Array:
    """The norm of vectors; without an axis and an order that of all elements."""
    x = _as_real(x, None)
    if ord == "fro" and (axis is None and x.ndim == 2 or isinstance(axis, tuple) and len(axis) == 2):
        ord = None
    if ord is not None and (x.ndim != 1 if axis is None else isinstance(axis, tuple) and len(axis) != 1):
        raise ValueError("linalg.norm: the norms of matrices are not provided; name an axis, or leave the order out")
    if ord in (None, 2):
        return _core.sqrt(sum(_core.square(x), axis, keepdims=keepdims))
    if ord in (_math.inf, -_math.inf):
        return (max if ord > 0 else min)(_core.abs(x), axis, keepdims=keepdims)
    if ord == 0:
        return _core.cast(count_nonzero(x, axis, keepdims=keepdims), x.dtype)
    made = sum(_core.abs(x) if ord == 1 else _core.pow(_core.abs(x), float(ord)), axis, keepdims=keepdims)
    return made if ord == 1 else _core.pow(made, 1.0 / ord)


_told_all(__all__, globals(), __name__)

if not TYPE_CHECKING:
    def __getattr__(name: str) -> Any:
        raise AttributeError(f"fusion.numpy.linalg has no {name!r}: numpy.linalg.{name} of numpy.asarray(x) does it")

"""out=: a result that goes into an array that is there."""
from __future__ import annotations

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

__all__ = ["holds", "stored", "to_store_in"]


_KINDS = "buif"     # each holds the values of those before it, but for their size


def holds(to: Any, of: Any) -> bool:
    """Whether the element type is of a kind that holds the values of the other: what NumPy calls casting within the same kind."""
    return _KINDS.index(of.kind) <= _KINDS.index(to.kind)


def to_store_in(out: Any, what: str) -> Any:
    """The array that is to hold a result, also the only one of a tuple, or None: looked at before anything is computed."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is not None and not isinstance(out, _core.Array):
        raise TypeError(f"{what}: out is no fusion array, but {type(out).__name__}")
    return out


def stored(made: Any, out: Any, what: str) -> Any:
    """The result; in the array that is to hold it, where there is one."""
    out = to_store_in(out, what)
    if out is None:
        return made
    if out.shape != made.shape:
        raise ValueError(f"{what}: out is of shape {out.shape}, the result of {made.shape}")
    if not holds(out.dtype, made.dtype):
        raise TypeError(f"{what}: the result is {made.dtype}, which out, of {out.dtype}, does not hold")
    out[...] = made
    return out

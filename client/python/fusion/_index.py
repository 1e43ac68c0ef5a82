"""x[key] and x[key] = value, as NumPy has them.

Integers, slices, ... and None give views, integers for all axes a copy of the element. Arrays of integers gather along the axes they stand for: several are
broadcast and gather together, and their axes stand where the first was, or in front where something stands between them. A
mask is the places where it is true, which waits for its values; assigning through a mask waits only where the value is not
one number an array broadcasts. Integers in lists and NumPy's arrays are checked; those of arrays on the
device are not: beyond the axis they read 0 and write nothing.
"""
from __future__ import annotations

import builtins
import math
import operator
import re

from . import _core
from ._base import as_device, bool as truth, int64
from ._errors import ShapeError
from ._views import Slice, view, write

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from collections.abc import Sequence
    from typing import Any

    from ._array import Array


_REFUSALS = (TypeError, ValueError, IndexError, OverflowError)


def _begin(e, what):
    """What is refused deep within is told as what the program did."""
    from ._told import is_ours
    text = str(e)
    if is_ours(e) and not text.startswith(("index", "assignment")):
        e.args = (f"{what}: " + re.sub(r"^asarray: (obj, |obj )?", "", text),)


def _as_key(k, device):
    """An entry of a key: None, ..., an int, a slice or an array."""
    if k is None or k is Ellipsis or isinstance(k, (slice, _core.Array)):
        return k
    if isinstance(k, builtins.bool):
        return _core.from_sequence(device.context, k, truth)
    if isinstance(k, int):
        return k
    from ._creation import asarray
    if isinstance(k, (list, tuple)) or hasattr(k, "__array__") and getattr(k, "ndim", 0):
        if isinstance(k, (list, tuple)) and not len(k):
            return _Checked(_core.from_sequence(device.context, [], int64), None)
        array = asarray(k, device=device)
        return array if array.dtype is truth else _Checked(array, k)
    try:
        return operator.index(k)
    except TypeError:
        if type(k).__name__ == "bool_" or type(k).__module__ == "numpy":
            return asarray(k, device=device)
        raise IndexError(f"index: {k!r} is not an integer, a slice, ..., None or an array of integers or bool") from None


class _Checked:
    """An array of integers whose values are known here."""
    __slots__ = ("array", "values")

    def __init__(self, array, values):
        self.array, self.values = array, values

    def check(self, extent, axis):
        flat = self.values if self.values is not None else ()
        for value in _flatten(flat):
            if not -extent <= value < extent:
                raise IndexError(f"index {value} is out of bounds for axis {axis} of {extent}")


def _flatten(values):
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, (list, tuple)):
        yield values
        return
    for v in values:
        yield from _flatten(v)


def _array_of(k):
    return k.array if isinstance(k, _Checked) else k


def _is_array(k):
    return isinstance(k, (_core.Array, _Checked))


def _axes_of(k):
    """How many axes of the indexed array an entry stands for."""
    if k is None or k is Ellipsis:
        return 0
    if isinstance(k, _core.Array) and k.dtype is truth:
        return k.ndim
    return 1


def _expand(x, key):
    """The key as a list of entries that stand for every axis of x; a ... that stands for none is kept where it parts arrays."""
    if not isinstance(key, tuple):
        key = (key,)
    device = None
    entries = []
    for k in key:
        if type(k) is int or type(k) is slice or k is None or k is Ellipsis:
            entries.append(k)
        else:
            device = device or x.device
            entries.append(_as_key(k, device))
    taken, dots = 0, None
    for i, k in enumerate(entries):
        if k is Ellipsis:
            if dots is not None:
                raise IndexError("index: ... may stand in a key once")
            dots = i
        else:
            taken += _axes_of(k)
    if taken > x.ndim:
        raise IndexError(f"index: {taken} indices for an array of {x.ndim} axes")
    rest = [slice(None)] * (x.ndim - taken)
    if dots is None:
        return entries + rest
    if not rest and any(_is_array(k) for k in entries):
        return entries
    return entries[:dots] + rest + entries[dots + 1:]


def _range(k, extent, axis):
    """(start, count, step) of an integer or a slice."""
    if isinstance(k, int):
        if not -extent <= k < extent:
            raise IndexError(f"index {k} is out of bounds for axis {axis} of {extent}")
        return (k % extent, 1, 1)
    try:
        start, stop, step = k.indices(extent)
    except TypeError:
        raise IndexError(f"index: {k} has bounds that are not integers") from None
    count = len(range(start, stop, step))
    return (start, count, step) if count else (0, 0, 1)


def _basic(shape, entries):
    """The step of integers, slices and new axes alone."""
    ranges, out, axis = [], [], 0
    for k in entries:
        if k is None:
            out.append(1)
            continue
        r = _range(k, shape[axis], axis)
        ranges.append(r)
        if not isinstance(k, int):
            out.append(r[1])
        axis += 1
    return Slice(tuple(ranges), tuple(out))


def _masks_to_places(x, entries):
    """Masks become the integers of the places where they are true; waits for them."""
    out, axis = [], 0
    for k in entries:
        if isinstance(k, _core.Array) and k.dtype is truth and k.ndim:
            if k.shape != x.shape[axis:axis + k.ndim] and not (not k.size and _fits_empty(k.shape, x.shape[axis:axis + k.ndim])):
                raise IndexError(f"index: a mask of shape {k.shape} for axes of {x.shape[axis:axis + k.ndim]}")
            out.extend(_places(k))
        else:
            out.append(k)
        axis += _axes_of(k)
    return out


def _fits_empty(shape, to):
    """As NumPy has it: a mask without elements may be shorter than its axes."""
    return all(m in (0, n) for m, n in zip(shape, to))


def _places(mask):
    flat, out = _core.flatnonzero(mask), []
    for d in reversed(range(mask.ndim)):
        out.append(_core.remainder(flat, max(1, mask.shape[d])) if d else flat)
        if d:
            flat = _core.floor_divide(flat, max(1, mask.shape[d]))
    return out[::-1]


def places_together(arrays: Sequence[Any], extents: Sequence[int]) -> Any:
    """Places along several axes as places along the one that they make; what is beyond one of them is beyond that."""
    flat, beyond, weight = None, None, 1
    for a, n in zip(reversed(arrays), reversed(extents)):
        a = _core.cast(a, int64)
        a = _core.where(_core.lt(a, 0), _core.add(a, n), a)
        outside = _core.logical_or(_core.lt(a, 0), _core.ge(a, n))
        beyond = outside if beyond is None else _core.logical_or(beyond, outside)
        a = a if weight == 1 else _core.mul(a, weight)
        flat = a if flat is None else _core.add(flat, a)
        weight *= n
    return _core.where(beyond, weight, flat)


class _Gather:
    """A key with arrays: first the view of its slices, then the arrays along its axes."""

    def __init__(self, x, entries):
        entries = _masks_to_places(x, entries)
        first, self.arrays, self.axes, spots, axis = [], [], [], [], 0
        source = 0
        for spot, k in enumerate(entries):
            if k is Ellipsis:
                continue
            if _is_array(k) or isinstance(k, int):
                extent = x.shape[source]
                if isinstance(k, _Checked):
                    k.check(extent, source)
                if isinstance(k, int):
                    _range(k, extent, source)
                elif _array_of(k).dtype.kind not in "iu":
                    raise IndexError(f"index: an array of {_array_of(k).dtype} is not one of integers or bool")
                self.arrays.append(k if isinstance(k, int) else _array_of(k))
                self.axes.append(axis)
                spots.append(spot)
                first.append(slice(None))
            else:
                first.append(k)
            if k is not None:
                source += 1
            axis += 1
        self.view = _basic(x.shape, first)
        # Side by side in the key: the new axes stand there, else in front.
        self.at = self.axes[0] if spots == list(range(spots[0], spots[0] + len(spots))) else 0
        self.shape = _broadcast_shapes(*[a.shape for a in self.arrays if not isinstance(a, int)])

    def flat(self, extents, device):
        """One index along the axes together, of self.shape."""
        if len(self.arrays) == 1:
            return self.arrays[0]
        arrays = [_core.from_sequence(device.context, a, int64) if isinstance(a, int) else a for a in self.arrays]
        flat = places_together(arrays, extents)
        return flat if flat.shape == self.shape else _core.broadcast(flat, self.shape)

    def together(self, y):
        """y with the gathered axes as one at self.at, and the order of axes that makes it so."""
        others = [d for d in range(y.ndim) if d not in self.axes]
        order = others[:self.at] + self.axes + others[self.at:]
        extents = [y.shape[d] for d in self.axes]
        if order != list(range(y.ndim)):
            y = _core.permute(y, order)
        shape = y.shape
        if len(extents) > 1:
            y = _core.reshape(y, shape[:self.at] + (math.prod(extents),) + shape[self.at + len(extents):])
        return y, order, extents, shape


def _part(x, step, element):
    """A view, but of one element: who indexes with integers alone gets a copy, as from NumPy."""
    made = step.apply(x)
    return made if element else view(x, made, step)


def getitem(x: Array, key: Any, /) -> Array:
    try:
        return _item(x, key)
    except _REFUSALS as e:
        _begin(e, "index")
        raise


def _item(x, key):
    if type(key) is int and x.ndim:
        return _part(x, _basic(x.shape, [key] + [slice(None)] * (x.ndim - 1)), x.ndim == 1)
    entries = _expand(x, key)
    if not any(_is_array(k) for k in entries):
        dots = key is Ellipsis or isinstance(key, tuple) and any(k is Ellipsis for k in key)
        return _part(x, _basic(x.shape, entries), not dots and all(isinstance(k, int) for k in entries))
    x, entries = _wrap_zero_rank_masks(x, entries)
    plan = _Gather(x, entries)
    y, _, extents, _ = plan.together(plan.view.apply(x))
    return _core.take(y, plan.flat(extents, x.device), plan.at)


def _wrap_zero_rank_masks(x, entries):
    """A mask without axes is a new axis of one or no element."""
    out, axis = [], 0
    for k in entries:
        if isinstance(k, _core.Array) and k.dtype is truth and not k.ndim:
            x = _core.reshape(x, x.shape[:axis] + (1,) + x.shape[axis:])
            k = _core.reshape(k, (1,))
        out.append(k)
        axis += _axes_of(k)
    return x, out


# ---- assignment ----


def _contents(x, value):
    """The value as an array of x's type."""
    from ._creation import asarray
    if not isinstance(value, _core.Array):
        if isinstance(value, (str, bytes)):
            raise TypeError(f"assignment: value is of {type(value).__name__}, no number, list or array")
        if isinstance(value, float) and x.dtype.kind in "iu":
            if not math.isfinite(value):
                raise (OverflowError if value == value else ValueError)(f"assignment: value is {value}, which {x.dtype} does not hold")
            value = int(value)
        if isinstance(value, (builtins.bool, int, float)):
            return x.device.context.full(x.dtype, (), value)
        value = asarray(value, device=x.device)
    return value if value.dtype is x.dtype else _core.cast(value, x.dtype)


def _fit(value, shape, what="the indexed part"):
    """Broadcast, where NumPy allows it for an assignment: also leading axes of 1 too many."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = _core.reshape(value, value.shape[1:])
    if value.shape == shape:
        return value
    if not _broadcasts(value.shape, shape):
        raise ShapeError(f"assignment: a value of shape {value.shape} does not broadcast to {what}, of shape {shape}")
    return _core.broadcast(value, shape)


def setitem(x: Array, key: Any, value: Any, /) -> None:
    try:
        _assign(x, key, value)
    except _REFUSALS as e:
        _begin(e, "assignment")
        raise


def _assign(x, key, value):
    value = _contents(x, value)
    entries = _expand(x, key)
    if not any(_is_array(k) for k in entries):
        step = _basic(x.shape, entries)
        write(x, step.put(_core.same(x), _fit(value, step.shape)))
        return
    masked = _mask_alone(entries)
    if masked is not None:
        write(x, _set_masked(x, masked, value))
        return
    y, entries = _wrap_zero_rank_masks(_core.same(x), entries)
    plan = _Gather(y, entries)
    part = _scatter(plan, plan.view.apply(y), value)
    write(x, _core.reshape(plan.view.put(y, part), x.shape))


def _mask_alone(entries):
    """The mask, where the key is one and slices of everything behind it."""
    first = entries[0]
    if isinstance(first, _core.Array) and first.dtype is truth and all(isinstance(k, slice) and k == slice(None) for k in entries[1:]):
        return first
    return None


def _set_masked(x, mask, value):
    lead, rest = x.shape[:mask.ndim], x.shape[mask.ndim:]
    if mask.shape != lead:
        raise IndexError(f"index: a mask of shape {mask.shape} for axes of {lead}")
    wide = _core.reshape(mask, mask.shape + (1,) * len(rest))
    if value.ndim <= len(rest) or value.shape[0] == 1 and value.ndim == len(rest) + 1:
        value = _fit(value, (1,) + rest, "each place of the mask")
        return _core.where(wide, _core.reshape(value, (1,) * mask.ndim + rest), x)
    flat = _core.reshape(mask, (mask.size,))
    count = int(_core.reduce_sum(flat, None, False))
    value = _fit(value, (count,) + rest, "the places of the mask")
    if not count:
        return _core.same(x)
    number = _core.clamp(_core.sub(_core.scan_cumsum(_core.cast(flat, int64), 0), 1), 0, count - 1)
    return _core.where(wide, _core.reshape(_core.take(value, number, 0), x.shape), x)


def _scatter(plan, y, value):
    """y with the gathered places replaced."""
    together, order, extents, permuted = plan.together(y)
    flat = plan.flat(extents, y.device)
    at, n = plan.at, len(plan.shape)
    before, after = together.shape[:at], together.shape[at + 1:]
    value = _fit(value, before + plan.shape + after)
    count, rest = math.prod(plan.shape), math.prod(before + after)
    if not count or not rest:
        return y
    value = _core.permute(value, list(range(at, at + n)) + list(range(at)) + list(range(at + n, value.ndim)))
    rows = _core.permute(together, [at] + list(range(at)) + list(range(at + 1, together.ndim)))
    index = _core.broadcast(_core.reshape(_core.cast(flat, int64), (count, 1)), (count, rest))
    rows = _core.put_along(_core.reshape(rows, (together.shape[at], rest)), index, _core.reshape(value, (count, rest)), 0)
    rows = _core.reshape(rows, (together.shape[at],) + before + after)
    rows = _core.permute(rows, list(range(1, at + 1)) + [0] + list(range(at + 1, together.ndim)))
    rows = _core.reshape(rows, permuted)
    inverse = [0] * len(order)
    for i, d in enumerate(order):
        inverse[d] = i
    return _core.permute(rows, inverse)


# ---- shapes ----


def _broadcast_shapes(*shapes):
    out = []
    for d in range(1, max(map(len, shapes), default=0) + 1):
        extents = {s[-d] for s in shapes if len(s) >= d} - {1}
        if len(extents) > 1:
            raise ShapeError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        out.append(extents.pop() if extents else 1)
    return tuple(out[::-1])


def _broadcasts(shape, to):
    return len(shape) <= len(to) and all(m in (1, n) for m, n in zip(shape[::-1], to[::-1]))

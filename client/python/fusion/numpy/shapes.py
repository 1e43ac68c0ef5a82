"""Shapes, joins and parts of arrays."""
from __future__ import annotations

import builtins

from .. import _core, _creation as _c, _functions as _f
from .._array import Array as _Array
from .._base import as_dtype as _as_dtype, int64, shown as _shown, whole as _whole
from .._errors import ShapeError as _ShapeError
from .._einsum import diagonals as _diagonals
from .._ufunc import array_of as _array, plain as _plain
from .._store import stored as _stored

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Iterable, Sequence

    from .._base import Axes, Like, Type

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "column_stack", "concat", "concatenate", "delete", "diagonal", "dstack",
    "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack", "insert", "ndim", "pad", "ravel", "repeat", "reshape", "roll", "rot90", "shape", "size",
    "split", "squeeze", "stack", "swapaxes", "tile", "transpose", "vsplit", "vstack",
]


def shape(a: Like) -> tuple[int, ...]:
    """How many elements along each axis."""
    return _array(a).shape


def ndim(a: Like) -> int:
    """How many axes."""
    return _array(a).ndim


def size(a: Like, axis: int | None = None) -> int:
    """How many elements, or along one axis."""
    a = _array(a)
    return a.size if axis is None else a.shape[_f._axis(axis, a.ndim, "size")]


def reshape(a: Like, shape: int | Sequence[int], order: str = "C") -> _Array:
    """The same elements under another shape; one extent may be -1."""
    _in_rows(order, "reshape")
    return _f.reshape(_array(a), shape)


def ravel(a: Like, order: str = "C") -> _Array:
    """The elements in a vector."""
    _in_rows(order, "ravel")
    return _array(a).ravel()


def _in_rows(order, what):
    if order == "F":
        raise ValueError(f"{what}: order='F' is not provided: transpose the array first")


def transpose(a: Like, axes: Sequence[int] | None = None) -> _Array:
    """The axes in another order, or reversed. A view."""
    a = _array(a)
    return _f.permute_dims(a, tuple(reversed(range(a.ndim))) if axes is None else axes)


def swapaxes(a: Like, axis1: int, axis2: int) -> _Array:
    """With two axes in each other's place. A view."""
    a = _array(a)
    order, i, j = list(range(a.ndim)), _f._axis(axis1, a.ndim, "swapaxes"), _f._axis(axis2, a.ndim, "swapaxes")
    order[i], order[j] = j, i
    return _f.permute_dims(a, order)


def expand_dims(a: Like, axis: int | tuple[int, ...]) -> _Array:
    """New axes of extent 1. A view."""
    return _f.expand_dims(_array(a), axis)


def squeeze(a: Like, axis: Axes = None) -> _Array:
    """Without axes of extent 1. A view."""
    return _f.squeeze(_array(a), axis)


def broadcast_to(array: Like, shape: Sequence[int]) -> _Array:
    """Repeated along axes of extent 1 and new leading ones, for reading alone."""
    return _f.broadcast_to(_array(array), (shape,) if isinstance(shape, int) else shape)


def broadcast_arrays(*args: Like) -> tuple[_Array, ...]:
    """All in the shape that they broadcast to."""
    return _f.broadcast_arrays(*map(_array, args))


def atleast_1d(*arrays: Like) -> Any:
    """With an axis at least."""
    return _at_least(arrays, lambda a: _core.reshape(a, (1,)) if not a.ndim else a)


def atleast_2d(*arrays: Like) -> Any:
    """With two axes at least: vectors are rows."""
    return _at_least(arrays, lambda a: _core.reshape(a, (1, a.size)) if a.ndim < 2 else a)


def atleast_3d(*arrays: Like) -> Any:
    """With three axes at least."""
    return _at_least(arrays, lambda a: _core.reshape(a, (1, a.size, 1)) if a.ndim < 2 else _core.reshape(a, a.shape + (1,)) if a.ndim < 3 else a)


def _at_least(arrays, f):
    made = tuple(f(_array(a)) for a in arrays)
    return made[0] if len(made) == 1 else made


def concatenate(arrays: Iterable[Like], axis: int | None = 0, out: Any = None, *, dtype: Type = None) -> _Array:
    """One after the other along an axis; None: flattened."""
    made = _f.concat([_array(a) for a in arrays], axis=axis)
    return _stored(made if dtype is None else _core.cast(made, _as_dtype(dtype)), out, "concatenate")


concat = concatenate


def stack(arrays: Iterable[Like], axis: int = 0, out: Any = None) -> _Array:
    """One beside the other along a new axis."""
    arrays = [_array(a) for a in arrays]
    return _stored(_f.stack(_f._together(arrays) if arrays else arrays, axis=axis), out, "stack")


def _joined(arrays, form, axis, what):
    """concatenate() of arrays in another form; a mistake is told by the shapes that they were given in."""
    formed = [form(a) for a in arrays]
    like = [a.shape[:axis] + a.shape[axis + 1:] for a in formed]
    for i, rest in enumerate(like):
        if rest != like[0]:
            raise _ShapeError(f"{what}: arrays 0 and {i} of the shapes {arrays[0].shape} and {arrays[i].shape} differ on another axis than the one they are joined along")
    return concatenate(formed, axis)


def hstack(tup: Iterable[Like]) -> _Array:
    """One after the other along the second axis; vectors along their own."""
    arrays = [_array(a) for a in tup]
    return _joined(arrays, atleast_1d, 0 if arrays and arrays[0].ndim < 2 else 1, "hstack")


def vstack(tup: Iterable[Like]) -> _Array:
    """One below the other: vectors are rows."""
    return _joined([_array(a) for a in tup], atleast_2d, 0, "vstack")


def dstack(tup: Iterable[Like]) -> _Array:
    """One behind the other along the third axis."""
    return _joined([_array(a) for a in tup], atleast_3d, 2, "dstack")


def column_stack(tup: Iterable[Like]) -> _Array:
    """One beside the other: vectors are columns."""
    return _joined([_array(a) for a in tup], lambda a: _core.reshape(a, (a.size, 1)) if a.ndim < 2 else a, 1, "column_stack")


def append(arr: Like, values: Like, axis: int | None = None) -> _Array:
    """The values behind the array along an axis; None: flattened."""
    return concatenate([arr, values], axis)


def _positions(obj, what):
    """Places as an array; a mistake is told by the argument's name."""
    try:
        return _array(obj)
    except (TypeError, ValueError) as e:
        raise type(e)(f"{what}: obj is {_shown(obj)}, neither integers nor truths nor a slice") from None


def _which(obj, n, what):
    """The places that an integer, a slice, integers or truths name along an axis of n elements, and whether it is one integer. Waits."""
    obj = _plain(obj)
    if isinstance(obj, slice):
        return list(range(*obj.indices(n))), False
    if isinstance(obj, builtins.bool) or not isinstance(obj, int):
        places = _positions(obj, what)
        if places.ndim > 1 or not places.size and isinstance(obj, (list, tuple)):
            places = _core.reshape(places, (places.size,))
        if places.dtype.kind == "b":
            return _of_truths(places, n, what)
        if places.dtype.kind == "f" and places.size:
            raise IndexError(f"{what}: obj is of {places.dtype}, not of integers")
        return [int(i) for i in places.tolist()], False
    return [obj], True


def _of_truths(chosen, n, what):
    """delete() takes a mask, of the axis; to insert() truths are the integers 0 and 1, as to NumPy's."""
    places = chosen.tolist()
    if what == "insert":
        return [int(i) for i in (places if chosen.ndim else [places])], not chosen.ndim
    if not chosen.ndim or len(places) != n:
        raise ValueError(f"{what}: obj is a mask of shape {chosen.shape} for an axis of {n} elements")
    return [i for i, gone in enumerate(places) if gone], False


def _within(places, n, most, what):
    for i in places:
        if not -n <= i < most:
            raise IndexError(f"{what}: obj names place {i}, which is out of bounds for {n} elements")
    return [i + n if i < 0 else i for i in places]


def insert(arr: Like, obj: Any, values: Like, axis: int | None = None) -> _Array:
    """With the values before the places along an axis; None: flattened. Waits for places that are an array."""
    arr, axis = _flat(arr, axis)
    n = arr.shape[axis]
    places, one = _which(obj, n, "insert")
    places = _within(places, n, n + 1, "insert")
    values = _core.cast(_array(values), arr.dtype)
    if len(places) == 1:
        values = _core.reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
        values = _f.moveaxis(values, 0, axis) if one else values
        places = places * values.shape[axis]
    values = _core.broadcast(values, arr.shape[:axis] + (len(places),) + arr.shape[axis + 1:])
    # In the order of the places; those at one place in their own.
    order, new = [], sorted(range(len(places)), key=lambda i: places[i])
    for i in range(n + 1):
        while new and places[new[0]] == i:
            order.append(n + new.pop(0))
        order += [i] if i < n else []
    return take_places(_core.concat([arr, values], axis), order, axis)


def delete(arr: Like, obj: Any, axis: int | None = None) -> _Array:
    """Without the elements at the places along an axis; None: flattened. Waits for places that are an array."""
    arr, axis = _flat(arr, axis)
    n = arr.shape[axis]
    gone = set(_within(_which(obj, n, "delete")[0], n, n, "delete"))
    return take_places(arr, [i for i in range(n) if i not in gone], axis)


def take_places(a: _Array, places: list[int], axis: int) -> _Array:
    """The elements at these places along an axis."""
    return _core.take(a, _c.asarray(places, dtype=int64), axis)


_MOST_PARTS = 1 << 20         # each is an object


def _sections(given):
    """How many parts, or the places where they are cut."""
    given = _plain(given)
    if isinstance(given, (str, bytes)) or not isinstance(given, int) and not hasattr(given, "__iter__"):
        raise TypeError(f"indices_or_sections is {_shown(given)}, neither an integer nor a list of them")
    if not isinstance(given, int):
        return [_whole(_plain(i), "an entry of indices_or_sections") for i in given]
    if not 1 <= given <= _MOST_PARTS:
        raise ValueError(f"indices_or_sections is {given}, which is not from 1 to {_MOST_PARTS}")
    return given


def array_split(ary: Like, indices_or_sections: Any, axis: int = 0) -> list[_Array]:
    """The parts along an axis: so many, or cut at these places. Views."""
    ary = _array(ary)
    axis = _f._axis(axis, ary.ndim, "split")
    n = ary.shape[axis]
    indices_or_sections = _sections(indices_or_sections)
    if isinstance(indices_or_sections, int):
        each, more = divmod(n, indices_or_sections)
        cuts = [i * each + builtins.min(i, more) for i in range(1, indices_or_sections)]
    else:
        cuts = indices_or_sections
    before = (slice(None),) * axis
    return [ary[before + (slice(a, b),)] for a, b in zip([0] + cuts, cuts + [n])]


def split(ary: Like, indices_or_sections: Any, axis: int = 0) -> list[_Array]:
    """array_split() into equal parts."""
    ary, indices_or_sections = _array(ary), _sections(indices_or_sections)
    axis = _f._axis(axis, ary.ndim, "split")
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError(f"split: {ary.shape[axis]} elements along axis {axis} are not {indices_or_sections} equal parts")
    return array_split(ary, indices_or_sections, axis)


def hsplit(ary: Like, indices_or_sections: Any) -> list[_Array]:
    """split() along the second axis; of a vector along its own."""
    return split(ary, indices_or_sections, 0 if _array(ary).ndim < 2 else 1)


def vsplit(ary: Like, indices_or_sections: Any) -> list[_Array]:
    """split() along the first axis."""
    return split(ary, indices_or_sections, 0)


def tile(A: Like, reps: int | Sequence[int]) -> _Array:
    """A so many times along each axis."""
    reps = _plain(reps)
    return _f.tile(_array(A), (reps,) if isinstance(reps, int) else reps)


def repeat(a: Like, repeats: Any, axis: int | None = None) -> _Array:
    """Each element so many times, one after the other."""
    return _f.repeat(_array(a), repeats if isinstance(repeats, int) else _counts(repeats), axis=axis)


def _counts(repeats):
    try:
        return _array(repeats)
    except (TypeError, ValueError):
        raise TypeError(f"repeats is {_shown(repeats)}, neither an integer nor a list of them") from None


def roll(a: Like, shift: int | tuple[int, ...], axis: Axes = None) -> _Array:
    """The elements moved along axes, those that leave at one end come in at the other."""
    return _f.roll(_array(a), shift, axis=axis)


def flip(m: Like, axis: Axes = None) -> _Array:
    """Reversed along axes. A view."""
    return _f.flip(_array(m), axis=axis)


def fliplr(m: Like) -> _Array:
    """Reversed along the second axis. A view."""
    return flip(_of_axes(m, 2, "fliplr"), 1)


def flipud(m: Like) -> _Array:
    """Reversed along the first axis. A view."""
    return flip(_of_axes(m, 1, "flipud"), 0)


def _of_axes(m, least, what):
    m = _array(m)
    if m.ndim < least:
        raise ValueError(f"{what}: an array of {m.ndim} axes, below {least}")
    return m


def _two(axes, ndim):
    found = _f._axes(axes, ndim, "rot90") if isinstance(axes, (tuple, list)) else ()
    if len(found) != 2:
        raise ValueError(f"rot90: axes is {axes!r}, not two of {ndim} axes")
    return found


def rot90(m: Like, k: int = 1, axes: Sequence[int] = (0, 1)) -> _Array:
    """Turned k times by a right angle, from the first axis towards the second. A view."""
    m, k = _of_axes(m, 2, "rot90"), _whole(k, "k") % 4
    i, j = _two(axes, m.ndim)
    if k == 2:
        return flip(m, (i, j))
    return m if not k else swapaxes(flip(m, j), i, j) if k == 1 else flip(swapaxes(m, i, j), j)


_BORDERS = {
    "edge": lambda i, n: builtins.min(builtins.max(i, 0), n - 1),
    "wrap": lambda i, n: i % n,
    "reflect": lambda i, n: n - 1 - builtins.abs(i % (2 * n - 2) - (n - 1)) if n > 1 else 0,
    "symmetric": lambda i, n: builtins.min(i % (2 * n), 2 * n - 1 - i % (2 * n)),
}


def _widths(given, ndim):
    """How many elements go before and behind each axis: of a number, of a pair, or of a list of both."""
    width = given.tolist() if hasattr(given, "tolist") else given
    one = isinstance(width, int)
    if isinstance(width, (str, bytes)) or not one and not hasattr(width, "__iter__"):
        raise TypeError(f"pad_width is {_shown(given)}, neither an integer nor pairs of them")
    width = [width] if one else list(width)
    if len(width) == 2 and not hasattr(width[0], "__iter__"):
        width = [width]
    pairs = [[_whole(n, "an entry of pad_width") for n in (w if hasattr(w, "__iter__") and not isinstance(w, (str, bytes)) else (w,))] for w in width]
    pairs = pairs * ndim if len(pairs) == 1 else pairs
    if len(pairs) != ndim or len({len(w) for w in pairs}) > 1 or builtins.any(len(w) not in (1, 2) or min(w) < 0 for w in pairs):
        raise ValueError(f"pad_width is {_shown(given)}, which is no width for the {ndim} axes of the array")
    return [(w[0], w[-1]) for w in pairs]


def pad(array: Like, pad_width: Any, mode: str = "constant", *, constant_values: Like = 0) -> _Array:
    """With so many elements more before and behind along each axis: one value, or by mode edge, reflect, symmetric or wrap those of the array."""
    array, pad_width = _array(array), _plain(pad_width)
    width = _widths(pad_width, array.ndim)
    if mode == "constant":
        for axis, (before, after) in enumerate(width):
            fill = [array.device.context.full(array.dtype, array.shape[:axis] + (n,) + array.shape[axis + 1:], constant_values) for n in (before, after)]
            array = _core.concat([p for p in (fill[0], array, fill[1]) if p.shape[axis]] or [array], axis)
        return array
    if mode not in _BORDERS:
        raise ValueError(f"pad: the mode {mode!r} is none of constant, {', '.join(_BORDERS)}")
    for axis, (before, after) in enumerate(width):
        n = array.shape[axis]
        if before or after:
            array = _core.take(array, _c.asarray([_BORDERS[mode](i, n) for i in range(-before, n + after)], dtype=int64), axis)
    return array


def _flat(a, axis):
    a = _array(a)
    return (_core.reshape(a, (a.size,)), 0) if axis is None else (a, _f._axis(axis, a.ndim, "axis"))


def diagonal(a: Like, offset: int = 0, axis1: int = 0, axis2: int = 1) -> _Array:
    """The elements whose places along two axes are offset apart; they are the last axis."""
    a = _array(a)
    i, j = _f._axis(axis1, a.ndim, "diagonal"), _f._axis(axis2, a.ndim, "diagonal")
    n = builtins.max(0, builtins.min(a.shape[i] + builtins.min(offset, 0), a.shape[j] - builtins.max(offset, 0)))
    a = _f._cut(a, i, builtins.max(-offset, 0), builtins.max(-offset, 0) + n)
    a = _f._cut(a, j, builtins.max(offset, 0), builtins.max(offset, 0) + n)
    return _diagonals(a, i, j)

"""What searches, sorts and counts, and what looks at neighbours."""
from __future__ import annotations

import builtins
import math as _math

from .. import _core, _creation as _c, _functions as _f
from .._array import Array as _Array
from .._base import bool as _truth, float64 as _float64, int64 as _int64, real as _real, whole as _whole
from .._ufunc import array_of as _array, operand_of as _operand, plain as _plain
from .._store import stored as _stored
from .elementwise import nonzero, where
from .reduce import _as_real, sum
from .shapes import _flat, ravel

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Iterable

    from .._base import Axes, Like, Type

__all__ = [
    "argsort", "argwhere", "astype", "bincount", "diff", "digitize", "flatnonzero", "gradient", "histogram", "histogram_bin_edges", "interp",
    "searchsorted", "select", "sort", "take", "take_along_axis", "trapezoid", "trapz", "unwrap",
]


def argwhere(a: Like) -> _Array:
    """The indices of the elements that are not zero, a row for each. Waits."""
    a = _array(a)
    return _core.stack(nonzero(a), 1) if a.ndim else _c.zeros((int(builtins.bool(a)), 0), dtype=_int64)


def flatnonzero(a: Like) -> _Array:
    """nonzero() of the elements in a vector. Waits."""
    return nonzero(ravel(a))[0]


def sort(a: Like, axis: int | None = -1, kind: str | None = None, order: None = None, *, stable: builtins.bool = True) -> _Array:
    """The elements along an axis in order, NaN behind all others; None: all in a row."""
    _unordered(order, kind, "sort")
    a, axis = _flat(a, axis)
    return _f.sort(a, axis=axis)


_SORTS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _unordered(order, kind, what):
    """Whatever way is asked for: it is a stable one."""
    if kind not in _SORTS:
        raise ValueError(f"{what}: kind is {kind!r}, none of {', '.join(map(str, _SORTS[1:]))}")
    if order is not None:
        raise ValueError(f"{what}: order={order!r} names fields, and arrays of fusion have none")


def argsort(a: Like, axis: int | None = -1, kind: str | None = None, order: None = None, *, stable: builtins.bool = True) -> _Array:
    """The places that sort() takes the elements from; equal ones in their order."""
    _unordered(order, kind, "argsort")
    a, axis = _flat(a, axis)
    return _f.argsort(a, axis=axis)


def searchsorted(a: Like, v: Like, side: str = "left", sorter: Like | None = None) -> _Array:
    """Where each element of v goes in the sorted vector a."""
    return _f.searchsorted(_array(a), _array(v), side=side, sorter=None if sorter is None else _array(sorter))


def interp(x: Like, xp: Like, fp: Like, left: Like | None = None, right: Like | None = None, period: Like | None = None) -> _Array:
    """At each x the straight line between the points (xp, fp), xp rising; fp's ends, or left and right, beyond them. period: xp goes round."""
    x, xp, fp = (_core.cast(_array(v), _float64) for v in (x, xp, fp))
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"interp: xp and fp are vectors of as many elements, at least one, not of shapes {xp.shape} and {fp.shape}")
    if period is not None:
        x, xp, fp = _round(x, xp, fp, builtins.abs(_real(_plain(period), "period")))
    n = xp.size
    if n > 1:
        i = _core.maximum(_core.minimum(_core.sub(_core.searchsorted(xp, x, True), 1), n - 2), 0)
        x0, y0 = _core.take(xp, i, 0), _core.take(fp, i, 0)
        slope = _core.div(_core.sub(_core.take(fp, _core.add(i, 1), 0), y0), _core.sub(_core.take(xp, _core.add(i, 1), 0), x0))
        made = _core.add(_core.mul(slope, _core.sub(x, x0)), y0)
    else:
        made = _core.broadcast(fp[0], x.shape)
    low, high = (_plain(end) if end is not None else fp[at] for end, at in ((left, 0), (right, n - 1)))
    made = _core.where(_core.lt(x, xp[0]), low, _core.where(_core.gt(x, xp[n - 1]), high, made))
    return _core.where(_core.eq(x, xp[n - 1]), fp[n - 1], made)


def _round(x, xp, fp, period):
    """As if the points went on for ever on both sides."""
    if not period:
        raise ValueError("interp: the period is 0")
    x, xp = _core.remainder(x, period), _core.remainder(xp, period)
    order = _core.argsort(xp, 0, False)
    xp, fp = _core.take(xp, order, 0), _core.take(fp, order, 0)
    n = xp.size
    return x, _core.concat([_core.sub(xp[n - 1:], period), xp, _core.add(xp[:1], period)], 0), _core.concat([fp[n - 1:], fp, fp[:1]], 0)


def _edges(bins, what, falling):
    """The edges as a vector. Those of a list are looked at; those of an array are not waited for."""
    made = _array(bins)
    if made.ndim != 1:
        raise ValueError(f"{what}: bins is of shape {made.shape}, not a vector of edges")
    if not isinstance(bins, _Array):
        edges = made.tolist()
        if edges != sorted(edges) and not (falling and edges == sorted(edges, reverse=True)):
            raise ValueError(f"{what}: the edges of bins do not rise" + (", nor do they fall" if falling else ""))
    return made


def digitize(x: Like, bins: Any, right: builtins.bool = False) -> _Array:
    """Which of the bins between edges, rising or falling, each element is in."""
    bins, x = _edges(bins, "digitize", True), _array(x)
    rising = searchsorted(bins, x, "left" if right else "right")
    if bins.size < 2:
        return rising
    falling = _core.sub(bins.size, searchsorted(bins[::-1], x, "left" if right else "right"))
    return _core.where(_core.le(bins[0], bins[bins.size - 1]), rising, falling)


def take(a: Like, indices: Like, axis: int | None = None, out: Any = None) -> _Array:
    """The elements along an axis that integers name; None: of all in a row."""
    a, axis = _flat(a, axis)
    places = _array(indices)
    if places.dtype.kind not in "iu":
        raise IndexError(f"take: indices are of {places.dtype}, not integers")
    places = _core.where(_core.lt(places, 0), _core.add(places, a.shape[axis]), places)
    made = _core.take(a, _core.reshape(places, (places.size,)), axis)
    return _stored(_core.reshape(made, a.shape[:axis] + places.shape + a.shape[axis + 1:]), out, "take")


def take_along_axis(arr: Like, indices: Like, axis: int | None = -1) -> _Array:
    """One element along the axis for each index."""
    arr, axis = _flat(arr, axis)
    return _f.take_along_axis(arr, _array(indices), axis=axis)


def select(condlist: Iterable[Like], choicelist: Iterable[Like], default: Like = 0) -> _Array:
    """Of the choices the one at the first condition that is true."""
    for given, name in ((condlist, "condlist"), (choicelist, "choicelist")):
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"select: {name} is of {type(given).__name__}, not a list of arrays")
    made, choices = _operand(default), [_operand(c) for c in choicelist]
    if len(condlist) != len(choices) or not choices:
        raise ValueError(f"select: condlist has {len(condlist)} entries and choicelist {len(choices)}")
    for i, condition in enumerate(condlist):
        if _array(condition).dtype is not _truth:
            raise TypeError(f"select: condlist[{i}] is of {_array(condition).dtype}, not of bool")
    dtype = _f.result_type(*choices, made)
    for condition, choice in reversed(list(zip(condlist, choices))):
        made = where(condition, choice, made)
    made = _array(made)
    return made if made.dtype is dtype else _core.cast(made, dtype)


def bincount(x: Like, weights: Like | None = None, minlength: int = 0) -> _Array:
    """How often each integer from 0 on occurs, or the sum of its weights. Waits for the largest one."""
    x, weights, minlength = _array(x), None if weights is None else _array(weights), _whole(minlength, "minlength")
    if x.ndim != 1 or x.size and x.dtype.kind == "f":
        raise (ValueError if x.ndim != 1 else TypeError)(f"bincount: x is of {x.dtype} and of shape {x.shape}, not a vector of integers")
    if minlength < 0:
        raise ValueError(f"bincount: minlength is {minlength}, below 0")
    if minlength >> 63:
        raise OverflowError(f"bincount: minlength is {minlength}, which is too large")
    x = _core.cast(x, _int64) if x.dtype.kind == "b" else x
    if x.size and int(_f.min(x)) < 0:
        raise ValueError("bincount: x has a number below 0")
    n = builtins.max(minlength, int(_f.max(x)) + 1 if x.size else 0)
    return _counted(x, n, weights)


def _counted(places, n, weights):
    ones_or = _c.ones(places.shape, dtype=_int64) if weights is None else _core.cast(_array(weights), _float64)
    return _f.add_at(_c.zeros((n,), dtype=ones_or.dtype), _core.cast(places, _int64), ones_or)


def histogram_bin_edges(a: Like, bins: Any = 10, range: Any = None) -> _Array:
    """The edges of the bins of histogram()."""
    bins = _plain(bins)
    if isinstance(bins, str):
        raise ValueError(f"histogram: bins is a number, or the edges, not {bins!r}")
    if not isinstance(bins, int):
        return _edges(bins, "histogram", False)
    if bins < 1:
        raise ValueError(f"histogram: {bins} bins")
    a = _as_real(a, None)
    low, high = (_plain(v) for v in range) if range is not None else (float(_f.min(a)), float(_f.max(a))) if a.size else (0.0, 1.0)
    if not (_math.isfinite(low) and _math.isfinite(high)) or low > high:
        raise ValueError(f"histogram: from {low} to {high} is no range")
    return _c.linspace(*((low - 0.5, high + 0.5) if low == high else (low, high)), bins + 1, dtype=a.dtype)


def histogram(a: Like, bins: Any = 10, range: Any = None, density: builtins.bool = False, weights: Like | None = None) -> tuple[_Array, _Array]:
    """How many elements are in each bin, and the edges of the bins; the last edge belongs to the last bin. Waits for the range where none is given."""
    edges = histogram_bin_edges(a, bins, range)
    a = ravel(_as_real(a, None))
    given = edges
    a, edges = _f._together([a, edges])
    n = edges.size - 1
    place = _core.sub(_core.searchsorted(edges, a, True), 1)
    place = _core.where(_core.eq(a, edges[n]), n - 1, place)
    # One more bin, for what is in none.
    outside = _core.logical_or(_core.logical_not(_core.ge(a, edges[0])), _core.ge(place, n))
    counts = _counted(_core.where(outside, n, place), n + 1, None if weights is None else ravel(weights))[:n]
    if density:
        counts = _core.div(_core.cast(counts, _float64), _core.mul(diff(edges), sum(counts)))
    return counts, given


def diff(a: Like, n: int = 1, axis: int = -1, prepend: Like | None = None, append: Like | None = None) -> _Array:
    """The n-th differences of neighbours along an axis."""
    a = _array(a)
    if _whole(n, "n") == 0:
        return _core.same(a)
    axis = _f._axis(axis, a.ndim, "diff")
    ends = [None if end is None else _end(_array(end), a, axis) for end in (prepend, append)]
    return _f.diff(a, axis=axis, n=n, prepend=ends[0], append=ends[1])


def unwrap(p: Like, discont: float | None = None, axis: int = -1, *, period: float = 2 * _math.pi) -> _Array:
    """Angles whose neighbours are not more than half a period apart: whole periods are added to those that are."""
    p = _array(p)
    axis, step = _f._axis(axis, p.ndim, "unwrap"), diff(p, axis=axis)
    real = p.dtype.kind == "f" or isinstance(period, float)
    if not real and p.dtype.kind != "i":
        raise TypeError(f"unwrap: of {p.dtype} the period is a number with a fraction, not {period!r}")
    p, step = (x if x.dtype.kind == "f" or not real else _core.cast(x, _float64) for x in (p, step))
    half = period / 2 if real else period // 2
    within = _core.sub(_core.remainder(_core.add(step, half), period), half)
    if real or period % 2 == 0:
        within = _core.where(_core.logical_and(_core.eq(within, -half), _core.gt(step, 0)), half, within)
    more = _core.where(_core.lt(_core.abs(step), period / 2 if discont is None else discont), 0, _core.sub(within, step))
    if not p.shape[axis]:
        return _core.same(p)
    later = _core.add(_f._cut(p, axis, 1, p.shape[axis]), _core.cast(_core.scan_cumsum(more, axis), p.dtype))
    return _core.concat([_f._cut(p, axis, 0, 1), later], axis)


def _end(end, a, axis):
    """A number stands at the end of each row."""
    return end if end.ndim else _core.broadcast(end, a.shape[:axis] + (1,) + a.shape[axis + 1:])


def gradient(f: Like, *spacing: Any, axis: Axes = None) -> Any:
    """The slopes along the axes: between both neighbours, at the ends to the one there is. Spacing: one number, or one for each axis."""
    f = _as_real(f, None)
    axes = _f._axes(axis, f.ndim, "gradient")
    steps = [1.0] * len(axes) if not spacing else [_plain(s) for s in (spacing * len(axes) if len(spacing) == 1 else spacing)]
    if len(steps) != len(axes) or not builtins.all(isinstance(s, (int, float)) for s in steps):
        raise ValueError("gradient: the spacing is one number, or one for each axis")
    made = []
    for d, step in zip(axes, steps):
        n = f.shape[d]
        if n < 2:
            raise ValueError(f"gradient: axis {d} has {n} elements, two are needed")
        first = _core.div(_core.sub(_f._cut(f, d, 1, 2), _f._cut(f, d, 0, 1)), float(step))
        last = _core.div(_core.sub(_f._cut(f, d, n - 1, n), _f._cut(f, d, n - 2, n - 1)), float(step))
        middle = _core.div(_core.sub(_f._cut(f, d, 2, n), _f._cut(f, d, 0, n - 2)), 2.0 * step)
        made.append(_core.concat([first, middle, last] if n > 2 else [first, last], d))
    return made[0] if len(made) == 1 else made


def trapezoid(y: Like, x: Like | None = None, dx: float = 1.0, axis: int = -1) -> _Array:
    """The area below straight lines through the points, along an axis."""
    y = _array(y)
    axis = _f._axis(axis, y.ndim, "trapezoid")
    n = y.shape[axis]
    step = _real(dx, "dx") if x is None else diff(x, axis=axis if _array(x).ndim > 1 else 0)
    both = _core.mul(_as_real(_core.add(_f._cut(y, axis, 1, n), _f._cut(y, axis, 0, n - 1)), None), 0.5)
    if x is not None and step.ndim == 1:
        step = _core.reshape(step, tuple(n - 1 if d == axis else 1 for d in range(y.ndim)))
    return sum(_core.mul(both, step), axis)


trapz = trapezoid


def astype(x: Like, dtype: Type, /, *, copy: builtins.bool = True) -> _Array:
    """x in another element type."""
    return _f.astype(_array(x), dtype, copy=copy)

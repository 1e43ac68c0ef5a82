"""Arrays as sets of their elements."""
from __future__ import annotations

import builtins

from .. import _core, _creation as _c, _functions as _f
from .._array import Array as _Array
from .._functions import unique_all
from .._ufunc import array_of as _array
from .shapes import ravel

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

    from .._base import Like

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique"]


def unique(ar: Like, return_index: builtins.bool = False, return_inverse: builtins.bool = False, return_counts: builtins.bool = False) -> Any:
    """The values, ascending, each once; where asked for, the first place of each, which is where, and how often. Waits."""
    found = unique_all(_array(ar))
    more = [part for part, wanted in ((found.indices, return_index), (found.inverse_indices, return_inverse), (found.counts, return_counts)) if wanted]
    return (found.values, *more) if more else found.values


def isin(element: Like, test_elements: Like, assume_unique: builtins.bool = False, invert: builtins.bool = False) -> _Array:
    """Whether each element is one of the others."""
    return _f.isin(_array(element), _array(test_elements), invert=invert)


def union1d(ar1: Like, ar2: Like) -> _Array:
    """The values of both, ascending, each once. Waits."""
    return unique(_f.concat([_array(ar1), _array(ar2)], axis=None))


def setdiff1d(ar1: Like, ar2: Like, assume_unique: builtins.bool = False) -> _Array:
    """The values of the first that the second has not: ascending, each once, or as they are where each is there once. Waits."""
    ar1, ar2 = _array(ar1), _array(ar2)
    ar1 = ravel(ar1) if assume_unique else unique(ar1)
    return ar1[isin(ar1, ar2, invert=True)]


def _in_order(ar1, ar2, assume_unique):
    """Both behind each other and sorted, and where each of them was; equal neighbours are of both."""
    ar1, ar2 = _array(ar1), _array(ar2)
    both = _f.concat([ravel(a) if assume_unique else unique(a) for a in (ar1, ar2)], axis=0)
    place = _core.argsort(both, 0, False)
    both = _core.take(both, place, 0)
    return both, place, _core.eq(_f._cut(both, 0, 1, both.size), _f._cut(both, 0, 0, both.size - 1))


def setxor1d(ar1: Like, ar2: Like, assume_unique: builtins.bool = False) -> _Array:
    """The values that one of both has, ascending. Waits."""
    both, _, same = _in_order(ar1, ar2, assume_unique)
    if not both.size:
        return both
    alone, end = _core.logical_not(same), _c.asarray([True])
    return both[_core.logical_and(_core.concat([end, alone], 0), _core.concat([alone, end], 0))]


def intersect1d(ar1: Like, ar2: Like, assume_unique: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """The values that both have, ascending, each once; where asked for, their first places in both. Waits."""
    ar1, ar2 = _array(ar1), _array(ar2)
    if return_indices and not assume_unique:
        first, second = unique_all(ar1), unique_all(ar2)
        made, *places = intersect1d(first.values, second.values, True, True)
        return made, *(_core.take(u.indices, p, 0) for u, p in zip((first, second), places))
    both, place, same = _in_order(ar1, ar2, assume_unique)
    if not both.size:
        return (both, place, place) if return_indices else both
    one = _core.flatnonzero(same)
    made = _core.take(both, one, 0)
    if not return_indices:
        return made
    return made, _core.take(place, one, 0), _core.sub(_core.take(place, _core.add(one, 1), 0), ar1.size)

"""einsum: sums of products by the names of axes; two operands at a time, those first whose product is smallest."""
from __future__ import annotations

import math

from . import _core, _functions as _f
from ._errors import ShapeError
from ._ufunc import array_of
from ._store import stored

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

    from ._array import Array
    from ._base import Like, Type

__all__ = ["einsum"]


def _parsed(subscripts, ranks):
    """The names of each operand's axes and of the result's. Axes that an ellipsis stands for are numbers, counted from the last one."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: {subscripts!r} has {len(terms)} operands, {len(ranks)} are given")
    wide, named = 0, []
    for i, (term, rank) in enumerate(zip(terms, ranks)):
        named.append(_names(term, rank, f"operand {i + 1}", subscripts))
        wide = max(wide, sum(isinstance(n, int) for n in named[-1]))
    if arrow:
        result = _names(right, len(right.replace("...", "")) + (wide if "..." in right else 0), "the result", subscripts)
        if len(set(result)) < len(result):
            raise ValueError(f"einsum: {subscripts!r} names an axis of the result twice")
        for name in result:
            if not any(name in n for n in named):
                raise ValueError(f"einsum: {subscripts!r}: no operand has the axis {name!r} of the result")
    else:
        letters = "".join(terms).replace("...", "")
        result = [-d for d in range(wide, 0, -1)] + sorted(n for n in set(letters) if letters.count(n) == 1)
    return named, result


def _names(term, rank, what, subscripts):
    head, dots, tail = term.partition("...")
    if not all(c.isalpha() for c in head + tail):
        raise ValueError(f"einsum: {subscripts!r}: an axis is named by a letter, and '...' stands once for those without a name")
    more = rank - len(head) - len(tail)
    if more < 0 or more and not dots:
        raise ValueError(f"einsum: {subscripts!r}: {what} has {rank} axes, {len(head) + len(tail)} of them named")
    return list(head) + [-d for d in range(more, 0, -1)] + list(tail)


def diagonals(x: Any, first: int, second: int) -> Any:
    """The elements whose places along both axes are the same; their axis is the last one."""
    n = x.shape[first]
    order = [d for d in range(x.ndim) if d not in (first, second)] + [first, second]
    x = _core.permute(x, order)
    x = _core.reshape(x, x.shape[:-2] + (n * n,))
    return _f._cut(x, x.ndim - 1, 0, n * n) if n < 2 else _core.slice(x, (None,) * x.ndim, (None,) * x.ndim, (1,) * (x.ndim - 1) + (n + 1,))


def _single(x, names):
    """An operand none of whose names comes twice."""
    for name in list(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ShapeError(f"einsum: the axes {name!r} of one operand have extents {x.shape[first]} and {x.shape[second]}")
            x = diagonals(x, first, second)
            names = [n for d, n in enumerate(names) if d not in (first, second)] + [name]
    return x, names


def _extents(operands):
    size: dict[Any, int] = {}
    for x, names in operands:
        for name, n in zip(names, x.shape):
            if size.setdefault(name, n) != n and 1 not in (n, size[name]):
                raise ShapeError(f"einsum: the axis {name!r} has the extents {size[name]} and {n}")
            size[name] = max(size[name], n) if n else 0
    return size


def _summed(x, names, keep):
    """Without the axes that nothing else names."""
    axes = tuple(d for d, n in enumerate(names) if n not in keep)
    if axes:
        x, dtype = _core.reduce_sum(x, axes, False), x.dtype
        x = x if x.dtype is dtype else _core.cast(x, dtype)
    return x, [n for n in names if n in keep]


def _laid(x, names, order):
    """Its axes in this order; those it has not are of extent 1."""
    x = _core.permute(x, [names.index(n) for n in order if n in names])
    have = iter(x.shape)
    return _core.reshape(x, tuple(next(have) if n in names else 1 for n in order))


def _pair(a, b, keep, size):
    """The product of two, without the axes that neither the result nor another operand names."""
    (x, xs), (y, ys) = a, b
    x, xs = _summed(x, xs, set(ys) | keep)
    y, ys = _summed(y, ys, set(xs) | keep)
    inner = [n for n in xs if n in ys and n not in keep]
    # An axis of extent 1 in one of them is repeated, which a matrix product does not do.
    if not inner or any(x.shape[xs.index(n)] != y.shape[ys.index(n)] for n in xs if n in ys):
        order = xs + [n for n in ys if n not in xs]
        return _summed(_core.mul(_laid(x, xs, order), _laid(y, ys, order)), order, keep)
    both = [n for n in xs if n in ys and n in keep]
    rows, columns = [n for n in xs if n not in ys], [n for n in ys if n not in xs]
    extent = [math.prod(size[n] for n in group) for group in (rows, inner, columns)]
    lead = tuple(size[n] for n in both)
    left = _core.reshape(_laid(x, xs, both + rows + inner), lead + (extent[0], extent[1]))
    right = _core.reshape(_laid(y, ys, both + inner + columns), lead + (extent[1], extent[2]))
    made = _core.matmul(left, right)
    order = both + rows + columns
    return _core.reshape(made, tuple(size[n] for n in order)), order


def _next(operands, result, size):
    """Which two are multiplied next: those whose product is smallest beside what they are. The greedy path of opt_einsum."""
    best = None
    for i in range(len(operands)):
        for j in range(i + 1, len(operands)):
            others = set(result).union(*(names for k, (_, names) in enumerate(operands) if k not in (i, j)))
            names = [set(operands[k][1]) for k in (i, j)]
            made = math.prod(size[n] for n in (names[0] | names[1]) & others)
            gain = made - sum(math.prod(size[n] for n in s) for s in names)
            shared = bool(names[0] & names[1])
            if best is None or (not shared, gain) < best[0]:
                best = ((not shared, gain), i, j, others)
    return best[1:]


def einsum(subscripts: str, *operands: Like, out: Any = None, optimize: Any = True, dtype: Type = None) -> Array:
    """Sums of products of elements, by the names of axes: einsum("ij,jk->ik", a, b) is the matrix product. optimize is taken as true."""
    if not isinstance(subscripts, str):
        raise TypeError("einsum: the first argument is a string of axes, like 'ij,jk->ik'")
    arrays = [array_of(x) for x in operands]
    if not arrays:
        raise ValueError("einsum: no operands")
    arrays = _f._together(arrays) if dtype is None else [_core.cast(x, _f.as_dtype(dtype)) for x in arrays]
    named, result = _parsed(subscripts, [x.ndim for x in arrays])
    todo = [_single(x, names) for x, names in zip(arrays, named)]
    size = _extents(todo)
    while len(todo) > 1:
        i, j, others = _next(todo, result, size)
        made = _pair(todo[i], todo[j], others, size)
        todo = [o for k, o in enumerate(todo) if k not in (i, j)] + [made]
    x, names = _summed(*todo[0], set(result))
    made = _core.permute(x, [names.index(n) for n in result])
    made = _core.broadcast(made, tuple(size[n] for n in result))
    return stored(_core.same(made) if made is arrays[0] else made, out, "einsum")

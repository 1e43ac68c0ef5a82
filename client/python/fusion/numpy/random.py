"""Random numbers, by the names of numpy.random; not the numbers of NumPy's own."""
from __future__ import annotations

import builtins
import math as _math
import itertools as _itertools
import os as _os

from .. import _core, _creation as _c, random as _random
from .._array import Array as _Array
from .._base import as_dtype as _as_dtype, float64 as _float64, whole as _whole
from .._functions import _axis, broadcast_shapes
from .._ufunc import array_of as _array, operand_of as _operand, plain as _plain
from .._store import stored as _stored
from .._told import told_all as _told_all

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Sequence

    from .._base import Like, Type

__all__ = ["Generator", "choice", "default_rng", "normal", "permutation", "rand", "randint", "randn", "random", "random_sample", "seed", "shuffle", "standard_normal",
           "uniform"]

_ROUNDED = 1e-8     # that far from 1 the sum of chances may be, as in NumPy


def _size(size, *of):
    """The shape that was asked for, or that of the numbers it is drawn by."""
    return broadcast_shapes(*[getattr(v, "shape", ()) for v in of]) if size is None else size


class Generator:
    """Random numbers of fusion.random by the names of numpy.random.Generator; not the numbers of NumPy's own."""

    def __init__(self, seed: int | None = None) -> None:
        self._seeds = _itertools.count((int.from_bytes(_os.urandom(5), "little") if seed is None else _whole(seed, "seed")) << 20)

    def _draw(self, what: str, dtype: Any, size: Any) -> Any:
        return _random._draw(what, _as_dtype(dtype), () if size is None else _c._shape(size, "size"), next(self._seeds), 0.0, 0.0, None)

    def random(self, size: int | Sequence[int] | None = None, dtype: Type = float, out: Any = None) -> _Array:
        """From 0 to below 1."""
        return _stored(self._draw("u", dtype, size), out, "random")

    def uniform(self, low: Like = 0.0, high: Like = 1.0, size: int | Sequence[int] | None = None) -> _Array:
        """From low to below high."""
        low, high = _operand(low), _operand(high)
        return self._draw("u", float, _size(size, low, high)) * (high - low) + low

    def standard_normal(self, size: int | Sequence[int] | None = None, dtype: Type = float, out: Any = None) -> _Array:
        """Of the normal distribution."""
        return _stored(self._draw("n", dtype, size), out, "standard_normal")

    def normal(self, loc: Like = 0.0, scale: Like = 1.0, size: int | Sequence[int] | None = None) -> _Array:
        """Of the normal distribution around loc."""
        loc, scale = _operand(loc), _operand(scale)
        return self._draw("n", float, _size(size, loc, scale)) * scale + loc

    def integers(self, low: Like, high: Like | None = None, size: int | Sequence[int] | None = None, dtype: Type = int, endpoint: builtins.bool = False) -> _Array:
        """Integers from low (0, where one number is given) to below high."""
        low, high = (0, low) if high is None else (low, high)
        low, high = _plain(low), _plain(high)
        if not builtins.all(isinstance(v, (int, float)) for v in (low, high)):
            raise TypeError("integers: low and high are numbers, not arrays")
        return _random._draw("i", _as_dtype(dtype), () if size is None else _c._shape(size, "size"), next(self._seeds), float(low), float(high + endpoint), None)


    def choice(self, a: Like, size: int | Sequence[int] | None = None, replace: builtins.bool = True, p: Like | None = None, axis: int = 0) -> _Array:
        """Elements along an axis of a, or integers below it: as many as size says, each as likely as p says."""
        a = _plain(a)
        n = a if isinstance(a, int) else _array(a).shape[_axis(axis, _array(a).ndim, "choice")]
        shape = () if size is None else _c._shape(size, "size")
        count = _math.prod(shape)
        if count >= 1 << 63:
            raise OverflowError(f"choice: size is {size}, which is too large")
        if n < 1 and count or not replace and count > n:
            raise ValueError(f"choice: {count} of {n} elements cannot be drawn" + ("" if replace else " without replacement"))
        places = _core.reshape(self._places(n, count, replace, None if p is None else _chances(p, n)), shape)
        if isinstance(a, int):
            return places
        a, axis = _array(a), _axis(axis, _array(a).ndim, "choice")
        made = _core.take(a, _core.reshape(places, (count,)), axis)
        return _core.reshape(made, a.shape[:axis] + shape + a.shape[axis + 1:])

    def _places(self, n, count, replace, p):
        if replace:
            return self.integers(0, n, (count,)) if p is None else _core.minimum(_core.searchsorted(_core.scan_cumsum(p, 0), self.random((count,)), True), n - 1)
        keys = self.random((n,))
        # The first of waiting times that are the shorter, the more likely an element is.
        keys = keys if p is None else _core.div(_core.neg(_core.log1p(_core.neg(keys))), p)
        return _core.argsort(keys, 0, False)[:count]

    def permutation(self, x: Like, axis: int = 0) -> _Array:
        """The elements along an axis, or the integers below x, in any order."""
        x = _plain(x)
        if isinstance(x, int):
            return self._places(x, x, False, None)
        x = _array(x)
        axis = _axis(axis, x.ndim, "permutation")
        return _core.take(x, self._places(x.shape[axis], x.shape[axis], False, None), axis)

    def shuffle(self, x: _Array, axis: int = 0) -> None:
        """permutation() in place."""
        if not isinstance(x, _Array):
            raise TypeError(f"shuffle: not a fusion array, but {type(x).__name__}")
        x[...] = self.permutation(x, axis)


_told_all([name for name in vars(Generator) if not name.startswith("_")], Generator, __name__)


def _chances(p, n):
    """Waits for their sum."""
    p = _core.cast(_array(p), _float64)
    total = float(_core.reduce_sum(p, None, False)) if p.shape == (n,) else 0.0
    if p.shape != (n,) or builtins.abs(total - 1) > _ROUNDED or float(_core.reduce_min(p, None, False)) < 0:
        raise ValueError(f"choice: p is of shape {p.shape}, with the sum {total}: {n} numbers are needed, none below 0, whose sum is 1")
    return p


_one = Generator()


def seed(seed: int | None = None) -> None:
    """Begins the sequence of the functions here anew."""
    global _one
    _one = Generator(seed)


def default_rng(seed: int | None = None) -> Generator:
    """A generator of its own sequence."""
    return Generator(seed)


def rand(*shape: int) -> _Array:
    """From 0 to below 1."""
    return _one.random(shape)


def randn(*shape: int) -> _Array:
    """Of the normal distribution."""
    return _one.standard_normal(shape)


def randint(low: int, high: int | None = None, size: int | Sequence[int] | None = None, dtype: Type = int) -> _Array:
    """Integers from low to below high."""
    return _one.integers(low, high, size, dtype)


def random(size: int | Sequence[int] | None = None) -> _Array:
    """From 0 to below 1."""
    return _one.random(size)

def uniform(low: Like = 0.0, high: Like = 1.0, size: int | Sequence[int] | None = None) -> _Array:
    """From low to below high."""
    return _one.uniform(low, high, size)


def normal(loc: Like = 0.0, scale: Like = 1.0, size: int | Sequence[int] | None = None) -> _Array:
    """Of the normal distribution around loc."""
    return _one.normal(loc, scale, size)


def standard_normal(size: int | Sequence[int] | None = None) -> _Array:
    """Of the normal distribution."""
    return _one.standard_normal(size)


def choice(a: Like, size: int | Sequence[int] | None = None, replace: builtins.bool = True, p: Like | None = None) -> _Array:
    """Elements of a, or integers below it: as many as size says, each as likely as p says."""
    return _one.choice(a, size, replace, p)


def permutation(x: Like) -> _Array:
    """The elements along the first axis, or the integers below x, in any order."""
    return _one.permutation(x)


def shuffle(x: _Array) -> None:
    """permutation() in place."""
    _one.shuffle(x)


random_sample = random

_told_all(__all__, globals(), __name__)

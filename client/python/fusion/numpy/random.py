"""Random numbers, by the names of numpy.random; not the numbers of NumPy's own."""
from __future__ import annotations

import builtins
import itertools as _itertools
import os as _os

from .. import _creation as _c, random as _random
from .._array import Array as _Array
from .._base import as_dtype as _as_dtype
from .._functions import broadcast_shapes
from .._ufunc import operand_of as _operand, plain as _plain
from .._store import stored as _stored

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

    from .._base import Type

__all__ = ["Generator", "default_rng", "normal", "rand", "randint", "randn", "random", "random_sample", "seed", "standard_normal", "uniform"]


def _size(size, *of):
    """The shape that was asked for, or that of the numbers it is drawn by."""
    return broadcast_shapes(*[getattr(v, "shape", ()) for v in of]) if size is None else size


class Generator:
    """Random numbers of fusion.random by the names of numpy.random.Generator; not the numbers of NumPy's own."""

    def __init__(self, seed: int | None = None) -> None:
        self._seeds = _itertools.count((int.from_bytes(_os.urandom(5), "little") if seed is None else int(seed)) << 20)

    def _draw(self, what: str, dtype: Any, size: Any) -> Any:
        return _random._draw(what, _as_dtype(dtype), () if size is None else _c._shape(size, "size"), next(self._seeds), 0.0, 0.0, None)

    def random(self, size: Any = None, dtype: Type = float, out: Any = None) -> _Array:
        """From 0 to below 1."""
        return _stored(self._draw("u", dtype, size), out, "random")

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> _Array:
        """From low to below high."""
        low, high = _operand(low), _operand(high)
        return self._draw("u", float, _size(size, low, high)) * (high - low) + low

    def standard_normal(self, size: Any = None, dtype: Type = float, out: Any = None) -> _Array:
        """Of the normal distribution."""
        return _stored(self._draw("n", dtype, size), out, "standard_normal")

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> _Array:
        """Of the normal distribution around loc."""
        loc, scale = _operand(loc), _operand(scale)
        return self._draw("n", float, _size(size, loc, scale)) * scale + loc

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Type = int, endpoint: builtins.bool = False) -> _Array:
        """Integers from low (0, where one number is given) to below high."""
        low, high = (0, low) if high is None else (low, high)
        low, high = _plain(low), _plain(high)
        if not builtins.all(isinstance(v, (int, float)) for v in (low, high)):
            raise TypeError("integers: low and high are numbers, not arrays")
        return _random._draw("i", _as_dtype(dtype), () if size is None else _c._shape(size, "size"), next(self._seeds), float(low), float(high + endpoint), None)


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


def randint(low: int, high: int | None = None, size: Any = None, dtype: Type = int) -> _Array:
    """Integers from low to below high."""
    return _one.integers(low, high, size, dtype)


def random(size: Any = None) -> _Array:
    """From 0 to below 1."""
    return _one.random(size)

def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> _Array:
    """From low to below high."""
    return _one.uniform(low, high, size)


def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> _Array:
    """Of the normal distribution around loc."""
    return _one.normal(loc, scale, size)


def standard_normal(size: Any = None) -> _Array:
    """Of the normal distribution."""
    return _one.standard_normal(size)


random_sample = random

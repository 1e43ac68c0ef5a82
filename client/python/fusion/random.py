"""Random numbers by Philox 4x32-10: those of a seed are the same on every device, whatever else is computed.

Without a seed= the functions take the next of a sequence that seed() begins; the program's first one is of the clock.
"""
from __future__ import annotations

import itertools
import os

from . import _core
from ._base import as_device, as_dtype, bool as truth, default_real, int64, real, whole
from ._creation import _shape
from ._told import told_all

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Sequence

    from ._array import Array
    from ._base import Device, DType

__all__ = ["bernoulli", "integers", "normal", "seed", "uniform"]

_seeds = itertools.count(int.from_bytes(os.urandom(6), "little"))


def seed(number: int) -> None:
    """Begins the sequence of seeds anew, for all threads."""
    global _seeds
    _seeds = itertools.count(whole(number, "number") << 20)


def _draw(what, dtype, shape, which, low, high, device):
    shape = _shape(shape, "random")
    number = next(_seeds) if which is None else whole(which, "seed")
    return as_device(device).context.random(what, dtype, shape, number % (1 << 64), low, high)


def uniform(shape: int | Sequence[int] = (), *, low: float = 0.0, high: float = 1.0,
            dtype: DType | str | type | None = None, seed: int | None = None,
            device: Device | str | int | None = None) -> Array:
    """Numbers from low to below high."""
    made = _draw("u", as_dtype(dtype) or default_real(), shape, seed, 0.0, 0.0, device)
    return made if (low, high) == (0.0, 1.0) else _core.add(_core.mul(made, real(high, "high") - real(low, "low")), real(low, "low"))


def normal(shape: int | Sequence[int] = (), *, mean: float = 0.0, std: float = 1.0,
           dtype: DType | str | type | None = None, seed: int | None = None,
           device: Device | str | int | None = None) -> Array:
    """Numbers of the normal distribution."""
    made = _draw("n", as_dtype(dtype) or default_real(), shape, seed, 0.0, 0.0, device)
    return made if (mean, std) == (0.0, 1.0) else _core.add(_core.mul(made, real(std, "std")), real(mean, "mean"))


def integers(low: int, high: int, shape: int | Sequence[int] = (), *, dtype: DType | str | type | None = None,
             seed: int | None = None, device: Device | str | int | None = None) -> Array:
    """Integers from low to below high."""
    return _draw("i", as_dtype(dtype) or int64, shape, seed, real(low, "low"), real(high, "high"), device)


def bernoulli(probability: float, shape: int | Sequence[int] = (), *, seed: int | None = None,
              device: Device | str | int | None = None) -> Array:
    """True with this probability."""
    return _draw("b", truth, shape, seed, real(probability, "probability"), 0.0, device)


told_all(__all__, globals(), __name__)

"""Steps of descent, computed like PyTorch's, each in one launch: the new parameters and what the next step needs."""
from __future__ import annotations

from . import _core
from ._base import real
from ._creation import zeros, zeros_like
from ._functions import _arrays

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Iterable

    from ._array import Array

__all__ = ["Adam", "AdamW", "SGD"]


def _both(parameters, gradients):
    parameters, gradients = _arrays(parameters, "step: parameters"), _arrays(gradients, "step: gradients")
    if len(parameters) != len(gradients):
        raise ValueError(f"step: {len(parameters)} parameters and {len(gradients)} gradients")
    return parameters, gradients


class SGD:
    """parameters = SGD(rate).step(parameters, gradients)"""

    def __init__(self, rate: float, *, momentum: float = 0.0, decay: float = 0.0) -> None:
        self.rate, self.momentum, self.decay = real(rate, "SGD: rate"), real(momentum, "SGD: momentum"), real(decay, "SGD: decay")
        self._velocity: list[Array] | None = None

    def step(self, parameters: Iterable[Array], gradients: Iterable[Array]) -> list[Array]:
        parameters, gradients = _both(parameters, gradients)
        if self.momentum and self._velocity is None:
            self._velocity = [zeros_like(p) for p in parameters]
        made = _core.sgd(parameters, gradients, self._velocity or (), self.rate, self.momentum, self.decay)
        if self.momentum:
            self._velocity = list(made[len(parameters):])
        return list(made[:len(parameters)])


class Adam:
    """parameters = Adam(rate).step(parameters, gradients); decay is added to the gradients."""

    _decoupled = False

    def __init__(self, rate: float = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.0) -> None:
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise TypeError(f"{type(self).__name__}: betas is {betas!r}, not two numbers")
        self.rate, self.eps, self.decay = (real(v, f"{type(self).__name__}: {name}") for v, name in ((rate, "rate"), (eps, "eps"), (decay, "decay")))
        self.betas = tuple(real(b, f"{type(self).__name__}: an entry of betas") for b in betas)
        self._state: tuple[list[Array], list[Array], Array] | None = None

    def step(self, parameters: Iterable[Array], gradients: Iterable[Array]) -> list[Array]:
        parameters, gradients = _both(parameters, gradients)
        n = len(parameters)
        if self._state is None:
            first, second = ([zeros_like(p) for p in parameters] for _ in range(2))
            self._state = first, second, zeros((), dtype=parameters[0].dtype, device=parameters[0].device)
        first, second, count = self._state
        made = _core.adam(parameters, gradients, first, second, count, self.rate, *self.betas, self.eps, self.decay,
                          self._decoupled)
        self._state = list(made[n:2 * n]), list(made[2 * n:3 * n]), made[3 * n]
        return list(made[:n])


class AdamW(Adam):
    """The same, whose decay is taken from the parameters themselves: 0.01, where nothing else is said."""

    _decoupled = True

    def __init__(self, rate: float = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 1e-2) -> None:
        super().__init__(rate, betas=betas, eps=eps, decay=decay)

"""Steps of descent, computed like PyTorch's, each in one launch: the new parameters and what the next step needs."""
from . import _core
from ._creation import zeros, zeros_like

__all__ = ["Adam", "AdamW", "SGD"]


class SGD:
    """parameters = SGD(rate).step(parameters, gradients)"""

    def __init__(self, rate, *, momentum=0.0, decay=0.0):
        self.rate, self.momentum, self.decay, self._velocity = rate, momentum, decay, None

    def step(self, parameters, gradients):
        parameters = list(parameters)
        if self.momentum and self._velocity is None:
            self._velocity = [zeros_like(p) for p in parameters]
        made = _core.sgd(parameters, list(gradients), self._velocity or (), self.rate, self.momentum, self.decay)
        if self.momentum:
            self._velocity = list(made[len(parameters):])
        return list(made[:len(parameters)])


class Adam:
    """parameters = Adam(rate).step(parameters, gradients); decay is added to the gradients."""

    _decoupled = False

    def __init__(self, rate=1e-3, *, betas=(0.9, 0.999), eps=1e-8, decay=0.0):
        self.rate, self.betas, self.eps, self.decay, self._state = rate, betas, eps, decay, None

    def step(self, parameters, gradients):
        parameters = list(parameters)
        n = len(parameters)
        if self._state is None:
            first, second = ([zeros_like(p) for p in parameters] for _ in range(2))
            self._state = first, second, zeros((), dtype=parameters[0].dtype, device=parameters[0].device)
        first, second, count = self._state
        made = _core.adam(parameters, list(gradients), first, second, count, self.rate, *self.betas, self.eps, self.decay,
                          self._decoupled)
        self._state = list(made[n:2 * n]), list(made[2 * n:3 * n]), made[3 * n]
        return list(made[:n])


class AdamW(Adam):
    """The same, whose decay is taken from the parameters themselves."""

    _decoupled = True

"""Gradients of functions of arrays, and graphs recorded once."""
from __future__ import annotations

import contextlib
import functools
import threading

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Callable, Iterator, Sequence

    from ._array import Array

__all__ = ["checkpoint", "grad", "jit", "no_grad", "stop_gradient", "value_and_grad", "vjp"]

_lock = threading.Lock()
_watched: dict[int, int] = {}  # by the address of a value: how many gradients under way watch it
_depth = threading.local()

KEEP, WATCH = 1, 2


def _watch(x):
    with _lock:
        n = _watched.get(x._value, 0)
        if not n:
            _core.watch(x)
        _watched[x._value] = n + 1


def _unwatch(x):
    with _lock:
        _watched[x._value] -= 1
        if not _watched[x._value]:
            del _watched[x._value]
            _core.unwatch(x)


def _parts(argument):
    """The arrays in an argument: itself, or those of lists, tuples and dicts, in order."""
    if isinstance(argument, _core.Array):
        return [argument]
    if isinstance(argument, (list, tuple)):
        return [x for a in argument for x in _parts(a)]
    if isinstance(argument, dict):
        return [x for a in argument.values() for x in _parts(a)]
    raise TypeError(f"grad: an argument to differentiate by is {type(argument).__name__}, not an array or a list, tuple or dict of such")


def _rebuilt(argument, found):
    if isinstance(argument, _core.Array):
        return next(found)
    if isinstance(argument, dict):
        return {key: _rebuilt(a, found) for key, a in argument.items()}
    return type(argument)(_rebuilt(a, found) for a in argument)


def value_and_grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """A function that returns function's value and its gradient by the arguments of these numbers.

    The value is one number. Arguments may be lists, tuples and dicts of arrays; the gradient has their form. Nested, it gives
    second derivatives. With has_aux the function returns (value, whatever else), and so does the result in place of the value.
    """
    numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)

    @functools.wraps(function)
    def wrapped(*args, **named):
        # Objects of their own, so that what the function writes in place does not change what is differentiated by.
        chosen = [_core.same(x) for n in numbers for x in _parts(args[n])]
        depth = getattr(_depth, "n", 0)
        _depth.n = depth + 1
        watched = []
        try:
            for x in chosen:
                _watch(x)
                watched.append(x)
            returned = function(*args, **named)
            y = returned[0] if has_aux else returned
            if not isinstance(y, _core.Array) or y.ndim:
                raise ValueError(f"grad: the function must return one number, an array without dimensions, not {_shape(y)}")
            made = iter(_core.vjp((y,), (None,), chosen, WATCH if depth else 0))
        finally:
            _depth.n = depth
            for x in watched:
                _unwatch(x)
        gradients = tuple(_rebuilt(args[n], made) for n in numbers)
        return returned, gradients if isinstance(argnums, (tuple, list)) else gradients[0]
    return wrapped


def _shape(y):
    return f"one of shape {y.shape}" if isinstance(y, _core.Array) else f"{type(y).__name__}"


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the gradient of function by the arguments of these numbers. See value_and_grad()."""
    both = value_and_grad(function, argnums)

    @functools.wraps(function)
    def wrapped(*args, **named):
        return both(*args, **named)[1]
    return wrapped


class _Back:
    """The way back of vjp(): what it leads to is watched as long as somebody holds it."""

    def __init__(self, inputs):
        self._inputs, self._y = [], None
        for x in inputs:
            _watch(x)
            self._inputs.append(x)

    def __call__(self, cotangent):
        return tuple(_core.vjp((self._y,), (cotangent,), self._inputs, KEEP))

    def __del__(self):
        for x in self._inputs:
            try:
                _unwatch(x)
            except RuntimeError:       # the session has ended
                pass


def vjp(function: Callable[..., Array], *args: Array) -> tuple[Array, Callable[[Array], tuple[Array, ...]]]:
    """function's value, and a function that multiplies a row by its Jacobian: of a cotangent of the value's shape it gives
    one gradient for each argument."""
    back = _Back(_core.same(x) for x in args)
    back._y = function(*args)
    return back._y, back


def stop_gradient(x: Array, /) -> Array:
    """The same elements, by which nothing is differentiated."""
    return _core.stop_gradient(x)


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Nothing of what the block computes is recorded for gradients."""
    _core.no_grad(True)
    try:
        yield
    finally:
        _core.no_grad(False)


@contextlib.contextmanager
def checkpoint() -> Iterator[None]:
    """Of what the block computes nothing is kept for gradients, which compute it again."""
    _core.checkpoint(True)
    try:
        yield
    finally:
        _core.checkpoint(False)


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose operations are recorded once for each combination of shapes and types of its arguments, arrays all of
    them, and run again by one short message. It must compute from its arguments alone, and ask for no value."""
    recorded = {}

    @functools.wraps(function)
    def wrapped(*args):
        key = tuple((x.shape, x.dtype) for x in args)
        if key not in recorded:
            recorded[key] = _record(function, args)
        capture, single, count = recorded[key]
        made = _core.replay(capture, args, count)
        return made[0] if single else made
    return wrapped


def _record(function, args):
    context = args[0].device.context
    inputs = [_core.copy(x).wait() for x in args]
    _core.capture_begin(context, inputs)
    outputs = ()
    try:
        outputs = function(*inputs)
    finally:
        single = isinstance(outputs, _core.Array)
        outputs = (outputs,) if single else tuple(outputs)
        capture = _core.capture_end(context, outputs)
    return capture, single, len(outputs)

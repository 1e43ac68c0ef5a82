"""Gradients of functions of arrays, and graphs recorded once."""
from __future__ import annotations

import contextlib
import functools
import threading

from . import _core
from ._base import whole
from ._errors import ArgumentError

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
    _callable(function, "grad")
    numbers = tuple(whole(n, "argnums") for n in (argnums if isinstance(argnums, (tuple, list)) else (argnums,)))

    @functools.wraps(function)
    def wrapped(*args, **named):
        for n in numbers:
            if not -len(args) <= n < len(args):
                raise TypeError(f"grad: argnums names argument {n}, of {len(args)}; those that are given by name have no number")
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
    _callable(function, "vjp")
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
    them, and run again by one short message. It must compute from its arguments alone, and ask for no value: what else
    it reads, numbers of the program and seeds of random numbers among it, is as it was at the first call. What it writes to its
    arguments stays in it.

    It returns an array, or arrays in lists, tuples and dicts; None stands for itself. Called while another one is recorded, it
    is a part of that one's graph.
    """
    recorded = {}
    _callable(function, "jit")

    def recording_of(args):
        for i, x in enumerate(args):
            if not isinstance(x, _core.Array):
                raise TypeError(f"jit: argument {i} is {type(x).__name__}, not an array")
        if not args:
            raise TypeError("jit: a function without arguments has nothing to compute from")
        key = tuple((x.shape, x.dtype) for x in args)
        if key not in recorded:
            recorded[key] = _record(function, args)
        return recorded[key]

    @functools.wraps(function)
    def wrapped(*args):
        if getattr(_recording, "on", False):
            return function(*args)
        capture, form, count = recording_of(args)
        return _filled(form, iter(_core.replay(capture, args, count) if count else ()))

    def explained(args, what):
        if not args and len(recorded) != 1:
            raise ArgumentError("explain: the function is recorded for each combination of shapes and types, "
                                f"and was for {len(recorded) or 'none'}: name the arguments, too, as explain(f, x)")
        capture = recording_of(args)[0] if args else next(iter(recorded.values()))[0]
        return _core.explain_capture(capture, what)
    wrapped._explained = explained
    return wrapped


def _callable(function, what):
    if not callable(function):
        raise TypeError(f"{what}: {type(function).__name__} is not a function")


_recording = threading.local()


class _Place:
    """Where an array stands in what a recorded function returned."""


def _form(returned, found):
    """What was returned with places for its arrays, which are appended to found."""
    if isinstance(returned, _core.Array):
        found.append(returned)
        return _Place
    if isinstance(returned, dict):
        return {key: _form(a, found) for key, a in returned.items()}
    if isinstance(returned, (list, tuple)):
        parts = [_form(a, found) for a in returned]
        return type(returned)(*parts) if hasattr(returned, "_fields") else type(returned)(parts)
    if returned is None:
        return None
    raise TypeError(f"jit: the function returned {type(returned).__name__}; it must return arrays, alone or in lists, tuples and dicts")


def _filled(form, made):
    if form is _Place:
        return next(made)
    if isinstance(form, dict):
        return {key: _filled(a, made) for key, a in form.items()}
    if isinstance(form, (list, tuple)):
        parts = [_filled(a, made) for a in form]
        return type(form)(*parts) if hasattr(form, "_fields") else type(form)(parts)
    return form


def _record(function, args):
    inputs = [_core.copy(x).wait() for x in args]
    found, form = [], None

    def run():
        nonlocal form
        _recording.on = True
        try:
            form = _form(function(*inputs), found)
        finally:
            _recording.on = False
        # A graph ends in something.
        return found or inputs[:1]
    capture = _core.record(args[0].device.context, inputs, run)
    return capture, form, len(found)

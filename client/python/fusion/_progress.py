"""How far compilers are, for whoever waits for them: on_progress(), and a bar where nobody said otherwise.

Threads that wait call waiting(), some times a second. It only notes when: a thread of this module's own, started when a call has waited
LONG seconds for the first time, asks the daemon how many kernels of this user are not built yet, and tells it on, until nobody waits any more.
"""
from __future__ import annotations

import json
import os
import sys
import threading
import time

from . import _base, _core

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Callable

__all__ = ["Progress", "on_progress"]

LONG = 1.0             # seconds that a call waits before it is told of
GONE = 0.5             # seconds without a sign of one that waits: they come every twentieth of a second
EVERY = 0.2            # seconds between two looks
WIDTH = 24             # characters of the bar


class Progress:
    """Kernels that compilers have built, and of how many, since a call began to wait for them; done: it goes on."""

    __slots__ = ("built", "total", "seconds", "done")

    def __init__(self, built: int, total: int, seconds: float, done: bool) -> None:
        self.built, self.total, self.seconds, self.done = built, total, seconds, done

    def __repr__(self) -> str:
        return f"Progress(built={self.built}, total={self.total}, seconds={self.seconds:.1f}, done={self.done})"


class _Bar:
    """One line that is written again and again, and taken away at the end."""

    def __call__(self, p: Progress) -> None:
        full = WIDTH * p.built // p.total
        text = f"fusion: compilers {'#' * full}{'.' * (WIDTH - full)} {p.built} of {p.total} kernels"
        sys.stderr.write("\r" + (" " * len(text) + "\r" if p.done else text))
        sys.stderr.flush()


def _shown() -> bool:
    """Is there somebody who sees a bar: before a terminal, or a notebook?"""
    try:
        return "ipykernel" in sys.modules or sys.stderr.isatty()
    except (AttributeError, ValueError):       # a program without standard error, or one that closed it
        return False


_unset = object()
_told: Callable[[Progress], object] | None | object = _unset
_began = _last = 0.0
_watcher: threading.Thread | None = None
_wake = threading.Event()


def on_progress(function: Callable[[Progress], object] | None) -> None:
    """Has function(Progress) called while a call waits longer than a second for compilers, and once more when it goes on.

    It is called a few times a second, from a thread of its own, for all sessions of the process. None: nobody is told. Until then a bar is
    drawn in notebooks and on terminals.
    """
    global _told
    if function is not None and not callable(function):
        raise TypeError(f"on_progress: {function!r} is not callable")
    _told = function


def _listener():
    if _told is _unset:
        return _Bar() if _shown() else None
    return _told


def _waiting() -> None:
    """A thread waits. Called by libfusion, which it may not call. The watcher's own waits are none that somebody is told of: they would never end."""
    global _began, _last, _watcher
    if threading.current_thread() is _watcher:
        return
    now = time.monotonic()
    if now - _last > GONE:
        _began = now
    _last = now
    if now - _began < LONG or _wake.is_set() or _listener() is None:
        return
    _wake.set()
    if _watcher is None or not _watcher.is_alive():
        _watcher = threading.Thread(target=_watch, name="fusion progress", daemon=True)
        _watcher.start()


def _building() -> int:
    """Kernels of this user that wait for compilers, or are with one, on all devices that this process has a session with."""
    return max((json.loads(device._context.stats(False)).get("builds_of_user", 0) for device in list(_base._by_context.values())), default=0)


def _look(p: Progress, left: int, seconds: float, done: bool) -> Progress:
    """What is known now: others may have been asked for since."""
    return Progress(max(p.total, p.built + left) - left, max(p.total, p.built + left), seconds, done)


def _follow(listener) -> None:
    """Tells one wait to its end."""
    p = Progress(0, 0, 0.0, False)
    while time.monotonic() - _last < GONE and not sys.is_finalizing():
        p = _look(p, _building(), time.monotonic() - _began, False)
        if p.total:
            listener(p)
        time.sleep(EVERY)
    if p.total:
        listener(Progress(p.built, p.total, p.seconds, True))


def _watch() -> None:
    while True:
        _wake.wait()
        listener = _listener()
        try:
            if listener:
                _follow(listener)
        except Exception:           # a session that ended meanwhile, or the listener's own: told by sys.excepthook, and no reason to end
            sys.excepthook(*sys.exc_info())
        _wake.clear()


def _forked() -> None:
    global _watcher, _wake
    _watcher, _wake = None, threading.Event()


os.register_at_fork(after_in_child=_forked)
_core.waiting(_waiting)

"""How far compilers are, told to who asks while a call waits for them."""
import io
import threading

import pytest

import fusion as xp
from fusion import _progress


@pytest.fixture
def waits(monkeypatch):
    """A call that waits, in a time of its own: what a daemon is asked is played."""
    class Waits:
        now, left, told, ended = 100.0, [], [], threading.Event()

        def tick(self, seconds):
            self.now += seconds
            _progress._waiting()

        def sleep(self, seconds):       # the watcher's: one that waits gives signs until the last look
            self.now += seconds
            if self.left:
                waiter = threading.Thread(target=_progress._waiting)
                waiter.start()
                waiter.join()
            else:
                self.now += _progress.GONE

        def building(self):
            return self.left.pop(0)

        def listen(self, progress):
            self.told.append((progress.built, progress.total, progress.done))
            if progress.done:
                self.ended.set()

    w = Waits()
    w.told = []
    w.ended = threading.Event()
    monkeypatch.setattr(_progress, "time", type("Time", (), {"monotonic": staticmethod(lambda: w.now), "sleep": staticmethod(w.sleep)}))
    monkeypatch.setattr(_progress, "_building", w.building)
    monkeypatch.setattr(_progress, "_told", _progress._unset)
    monkeypatch.setattr(_progress, "_last", 0.0)
    return w


def test_a_long_wait_is_told_with_what_was_built_and_its_end(waits):
    waits.left = [4, 3, 6, 1, 0]
    xp.on_progress(waits.listen)
    waits.tick(0)
    for _ in range(19):
        waits.tick(0.05)
    assert not waits.told
    waits.tick(0.06)
    assert waits.ended.wait(600)
    assert waits.told == [(0, 4, False), (1, 4, False), (1, 7, False), (6, 7, False), (7, 7, False), (7, 7, True)]


def test_a_wait_for_no_compiler_is_not_told(waits):
    waits.left = [0, 0]
    xp.on_progress(waits.listen)
    for _ in range(30):
        waits.tick(0.05)
    while _progress._wake.is_set():
        threading.Event().wait(0.01)
    assert not waits.told


def test_the_watcher_does_not_keep_itself_alive(waits, monkeypatch):
    """What it asks the daemon may take so long that libfusion tells that a thread waits: the watcher."""
    looks = []

    def building():
        looks.append(1)
        if len(looks) < 100:            # for ever, were it told of its own waits
            waits.now += 0.1
            _progress._waiting()
        return 1

    def sleep(seconds):
        waits.now += seconds

    monkeypatch.setattr(_progress, "_building", building)
    _progress.time.sleep = staticmethod(sleep)
    xp.on_progress(waits.listen)
    for _ in range(22):
        waits.tick(0.05)
    assert waits.ended.wait(600)
    assert len(looks) < 10


def test_short_waits_one_after_the_other_are_not_one_long_one(waits):
    xp.on_progress(waits.listen)
    for _ in range(100):
        waits.tick(_progress.GONE + 0.1)
        waits.tick(0.4)
    assert not _progress._wake.is_set() and not waits.told


def test_nobody_is_told_where_nobody_asked_and_nobody_sees(waits, monkeypatch):
    monkeypatch.setattr(_progress.sys, "stderr", io.StringIO())
    for _ in range(30):
        waits.tick(0.05)
    assert not _progress._wake.is_set()
    xp.on_progress(None)
    with pytest.raises(TypeError, match="not callable"):
        xp.on_progress(5)


def test_a_bar_is_drawn_for_who_sits_before_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(_progress.sys, "stderr", terminal)
    monkeypatch.setattr(_progress, "_told", _progress._unset)
    bar = _progress._listener()
    bar(xp.Progress(3, 8, 2.0, False))
    assert terminal.getvalue() == "\rfusion: compilers #########............... 3 of 8 kernels"
    bar(xp.Progress(8, 8, 3.0, True))
    assert terminal.getvalue().endswith(" \r")
    assert repr(xp.Progress(3, 8, 2.0, False)) == "Progress(built=3, total=8, seconds=2.0, done=False)"


def test_the_daemon_tells_how_many_kernels_are_not_built():
    float(xp.sum(xp.ones(3)))
    assert _progress._building() >= 0


def test_what_threads_that_wait_call_may_fail(run_python):
    status, said = run_python("""
import fusion as np
from fusion import _core
def waiting():
    raise ValueError("of the listener")
_core.waiting(waiting)
assert float(np.sum(np.ones(3))) == 3
_core.waiting(None)
print("went on")
""")
    assert status == 0 and "went on" in said

"""What processes do: Ctrl-C, fork, threads, and the end of a program."""
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import fusion as xp
from private_daemon import TRANSPORT, Daemon

INTERRUPTED = """
import os, signal, threading
import fusion as xp
y = xp.ones(4) + 2
float(xp.sum(xp.ones(4)))
def tell(what):
    for p in os.environ["ENGINES"].split():
        try: os.kill(int(p), what)
        except ProcessLookupError: pass     # a worker with nothing more to do
tell(signal.SIGSTOP)
timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
# Nothing is computed while the engine is stopped, so the signal comes before the values do.
try:
    timer.start()
    y.tolist()
except KeyboardInterrupt:
    print("interrupted")
finally:
    tell(signal.SIGCONT)
print(y.tolist(), (y * 2).tolist())
"""


def _descendants(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        for child in map(int, children.read().split()):
            yield child
            yield from _descendants(child)


def test_an_interrupted_wait_leaves_the_session_as_it_was(run_python):
    with Daemon() as daemon:
        run_python("import fusion as xp; xp.ones(4).tolist()", FUSION_SOCKET=daemon.socket)
        engines = " ".join(map(str, _descendants(daemon.process.pid)))
        status, text = run_python(INTERRUPTED, FUSION_SOCKET=daemon.socket, ENGINES=engines)
    assert not status and text.split("\n")[:2] == ["interrupted", "[3.0, 3.0, 3.0, 3.0] [6.0, 6.0, 6.0, 6.0]"], text


SILENT = """
import os, signal, socket, threading
import fusion as xp
listener = socket.create_server(("127.0.0.1", 0))
def interrupt():
    connection, _ = listener.accept()
    connection.recv(1)
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
threading.Thread(target=interrupt, daemon=True).start()
os.environ["FUSION_SOCKET"] = os.environ["SCHEME"] + "127.0.0.1:" + str(listener.getsockname()[1])
try:
    xp.ones(4)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("scheme", ["tcp://", "tls+tcp://"])
def test_the_wait_for_a_daemon_that_is_silent_is_interrupted(run_python, tmp_path, scheme):
    pem = str(tmp_path / "pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", pem + ".key", "-out", pem,
                    "-subj", "/CN=127.0.0.1"], check=True, capture_output=True)
    status, text = run_python(SILENT, SCHEME=scheme, FUSION_CA=pem, FUSION_CERT=pem, FUSION_KEY=pem + ".key")
    assert not status and text == "interrupted\n", text


# Memory that nobody has yet comes from the door, which is the supervisor, and that does not answer.
AT_THE_DOOR = """
import os, signal, sys, threading
import numpy as np
import fusion as xp
SUPERVISOR, PATIENT = int(os.environ["SUPERVISOR"]), 300
def tell(what): os.kill(SUPERVISOR, what)
def late(*_): raise TimeoutError("no other thread ran")
large = np.zeros(1 << 28, np.uint8)
xp.ones(3).tolist()
# What that does is Python's, where other threads get a turn.
xp._core.waiting(None)
signal.signal(signal.SIGALRM, late)
signal.alarm(PATIENT)
turns, begun, ended = [], threading.Event(), threading.Event()
def other():
    begun.wait()
    turns.append(1)
    ACTION
    tell(signal.SIGCONT)
thread = threading.Thread(target=other)
tell(signal.SIGSTOP)
try:
    thread.start()
    # From here on threads take turns only where one sleeps: the other one acts while the call does.
    sys.setswitchinterval(3600)
    begun.set()
    x = xp.asarray(large)
    print("made", len(turns))
except BaseException as e:
    print(type(e).__name__, len(turns))
finally:
    ended.set()
    tell(signal.SIGCONT)
signal.alarm(0)
thread.join()
"""
WHILE_AT_THE_DOOR = {
    "computes": ("pass", "made 1"),
    "closes the session": ("xp._base.shutdown(); ended.wait()", "StateError 1"),
    "sends a signal": ("os.kill(os.getpid(), signal.SIGINT); ended.wait()", "KeyboardInterrupt 1"),
}


@pytest.mark.parametrize("what", WHILE_AT_THE_DOOR)
def test_beside_a_call_that_waits_at_the_door_another_thread(run_python, what):
    action, said = WHILE_AT_THE_DOOR[what]
    with Daemon() as daemon:
        status, text = run_python(AT_THE_DOOR.replace("ACTION", action), FUSION_SOCKET=daemon.socket, SUPERVISOR=str(daemon.process.pid))
    assert not status and text.strip() == said, text


# Threads take turns only where one sleeps: the other one does, as no more requests may be unanswered, before or behind the cast of x.
RECORDS = """
import os, signal, sys, threading
import fusion as xp
UNANSWERED = 7
def tell(what):
    for p in os.environ["ENGINES"].split():
        try: os.kill(int(p), what)
        except ProcessLookupError: pass     # a worker with nothing more to do
x, c, kept, error = xp.ones(3, dtype=xp.float32), xp.ones(3) > 0, [], []
y, zero = xp.ones(3, dtype=xp.float64), xp.zeros(3, dtype=xp.float64)
xp._core.waiting(None)
(RECORDED).tolist()
sys.setswitchinterval(3600)
def record():
    try:
        while not ended and len(kept) < 100000: kept.append(RECORDED)
    except Exception as e: error.append(e)
ended, thread = [], threading.Thread(target=record)
tell(signal.SIGSTOP)
try:
    sent = [(-x, xp.flush()) for _ in range(UNANSWERED)]
    before = [-x for _ in range(BEFORE)]
    thread.start()
    asleep = thread.is_alive() and len(kept)
    y._set(zero)
    ended.append(1)
finally:
    tell(signal.SIGCONT)
thread.join()
print(error, asleep > 0, flush=True)
os._exit(0)                 # what was recorded would take a while, and tells nothing
"""


@pytest.mark.parametrize("before", range(2))
@pytest.mark.parametrize("recorded", ["x + y", "xp.where(c, x, y)"])
def test_beside_a_call_that_sleeps_while_it_records_an_array_may_get_another_value(run_python, recorded, before):
    with Daemon() as daemon:
        run_python("import fusion as xp; xp.ones(4).tolist()", FUSION_SOCKET=daemon.socket)
        engines = " ".join(map(str, _descendants(daemon.process.pid)))
        status, text = run_python(RECORDS.replace("RECORDED", recorded).replace("BEFORE", str(before)), FUSION_SOCKET=daemon.socket, ENGINES=engines)
    assert not status and text.strip() == "[] True", text


# ctypes calls without the interpreter's lock. Of that PyGILState_Check() knows nothing more once there was a second interpreter.
WITHOUT_THE_LOCK = """
import ctypes
import fusion as xp
try: import _interpreters
except ImportError: import _xxsubinterpreters as _interpreters
_interpreters.destroy(_interpreters.create())
call = ctypes.CDLL(xp._core.__file__).fusion_wait
call.argtypes = [ctypes.c_void_p]
y = xp.ones(4) + 2
print(call(y._value), y.tolist())
"""


def test_libfusion_may_be_called_without_the_lock_in_a_process_that_had_a_second_interpreter(run_python):
    status, text = run_python(WITHOUT_THE_LOCK, PYTHONWARNINGS="ignore")
    assert not status and text.strip() == "0 [3.0, 3.0, 3.0, 3.0]", text


def test_what_is_not_begun_can_be_given_up():
    y = xp.ones(1000) * 2
    xp.flush()
    xp.cancel()
    try:
        assert float(xp.sum(y)) == 2000                 # it had begun
    except xp.CancelledError as e:
        assert __file__ in str(e)
    assert xp.ones(2).tolist() == [1.0, 1.0]


def test_a_child_of_fork_is_refused_clearly():
    x = xp.ones(3) + 1
    x.wait()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            x.tolist()
        except xp.ForkedError as e:
            os.write(write, str(e).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert b"fork()" in os.read(read, 4096) and x.tolist() == [2.0, 2.0, 2.0]
    os.close(read)


def test_a_child_that_is_first_to_use_it_works(run_python):
    status, text = run_python("import os, fusion as xp\nif not os.fork():\n    print(xp.ones(2).tolist(), flush=True)\n    os._exit(0)\nos.wait()")
    assert not status and text.strip() == "[1.0, 1.0]"


def test_requests_travel_as_the_daemon_is_told():
    """So the whole suite is run by nng, or by rings."""
    xp.ones(3).tolist()
    with open("/proc/self/maps", encoding="ascii") as maps:
        assert ("fusiond-ring" in maps.read()) == (os.environ.get(TRANSPORT) != "nng")


def test_threads_share_a_session():
    x = xp.asarray(np.arange(1000.0))
    results, errors = {}, []

    def work(k):
        try:
            for i in range(20):
                results[k, i] = float(xp.sum(x * k + i))
        except Exception as e:
            errors.append(e)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and results == {(k, i): 499500.0 * k + 1000.0 * i for k in range(4) for i in range(20)}


def test_a_program_ends_with_arrays_and_reads_under_way(run_python):
    status, text = run_python("""
import fusion as xp, threading
x = xp.ones(3) * 2
v = memoryview(x)
def read():
    try:
        x.tolist()
    except xp.FusionError:          # the session ended first
        pass
threading.Thread(target=read, daemon=True).start()
print("end")
""")
    assert not status and text.strip() == "end"


def test_without_a_daemon_the_error_says_what_to_do(run_python, tmp_path):
    status, text = run_python("import fusion as xp\nxp.ones(3)", FUSION_SOCKET=str(tmp_path / "none"), HOME=str(tmp_path))
    assert status and "ConnectError" in text and "fusiond" in text and "<string>" in text


# ---- a program ends in the middle of everything ----

BEGIN = """
import atexit, os, signal, sys, threading
import numpy as np
import pytest
import fusion as xp
x = xp.ones((64, 64)) * 2
def wait_for_ever(ready):
    while True:
        ready.set()
        (x @ x).tolist()
def start(**how):
    ready = threading.Event()
    threading.Thread(target=wait_for_ever, args=(ready,), **how).start()
    ready.wait()
"""
ENDINGS = {
    "daemon threads that wait": ("start(daemon=True); start(daemon=True)", 0),
    "arrays, views and buffers in globals": ("v = x.T[1:]; m = memoryview(x); k = np.asarray(x); d = np.from_dlpack(x)", 0),
    "memory that is lent": ("w = xp.writable(x).__enter__(); k = np.asarray(w)", 0),
    "a recording": ("xp.jit(lambda a: sys.exit(3))(x)", 3),
    "an exit in a thread's wait": ("start(daemon=True); os._exit(4)", 4),
    "a signal in a thread's wait": ("start(daemon=True); signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); os.kill(os.getpid(), signal.SIGTERM); signal.pause()", 5),
    "atexit that computes": ("atexit.register(lambda: print((x + 1)[0, 0].item(), flush=True))", 0),
    "an array that is let go of by the interpreter's end": ("import builtins; builtins.kept = [x, xp.jit(lambda a: a + 1), xp.as_device(None)]; builtins.kept.append(builtins.kept)", 0),
    "an exception with arrays in its frames": ("def f(a): return f(a + 1) if a.ndim else 1 / 0\nf(xp.ones(()))", 1),
    "a fork whose child ends as usual": ("p = os.fork()\nif not p: sys.exit(6)\nsys.exit(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))", 6),
    "a session that the program closed itself": ("xp._base.shutdown(); del x", 0),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_may_end_with(run_python, ending):
    text, wanted = ENDINGS[ending]
    status, printed = run_python(BEGIN + text)
    assert status == wanted, (status, printed)
    assert "Fatal" not in printed and "Segmentation" not in printed, printed


SPAWNED = """
import multiprocessing
import fusion as xp
def work(n): return float(xp.sum(xp.ones(n)))
if __name__ == "__main__":
    x = xp.ones(3) + 1
    x.wait()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, [1, 2, 3, 4]), x.tolist())
"""


def test_processes_that_are_spawned_have_sessions_of_their_own(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SPAWNED)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1.0, 2.0, 3.0, 4.0] [2.0, 2.0, 2.0]", done.stderr

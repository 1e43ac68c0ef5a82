"""What processes do: Ctrl-C, fork, threads, and the end of a program."""
import os
import signal
import threading

import numpy as np

import fusion as xp
from private_daemon import Daemon

INTERRUPTED = """
import os, signal, threading
import fusion as xp
y = xp.ones(4) + 2
float(xp.sum(xp.ones(4)))
engines = [int(p) for p in os.environ["ENGINES"].split()]
for p in engines: os.kill(p, signal.SIGSTOP)
timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
# Nothing is computed while the engine is stopped, so the signal comes before the values do.
try:
    timer.start()
    y.tolist()
except KeyboardInterrupt:
    print("interrupted")
finally:
    for p in engines: os.kill(p, signal.SIGCONT)
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

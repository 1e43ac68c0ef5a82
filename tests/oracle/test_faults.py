"""What a child process made by fork() gets: a clear error from every call, never a hang or an abort.

Each case runs in a process of its own with a time limit, so that a hang is a failure and not the end of the run.
"""
import json
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np

import fusion
import harness

SECONDS = 600         # only what hangs takes so long
ONES = np.ones((4,), np.float32)


def code_of(function):
    """The name of the error that a call ends with; OK where it does not fail."""
    try:
        function()
    except fusion.FusionError as error:
        return error.code if "fork" in error.sentence or error.code != "FORKED" else f"FORKED without saying so: {error.sentence}"
    return "OK"


# ---- what children do; their result is a list of (what, code) ----


def every_call(path, context, a):
    """Every kind of call on the parent's context and array, and an attempt at a context of its own."""
    yield "op", code_of(lambda: context.op("add", a, a))
    yield "op_scalar", code_of(lambda: context.op_scalar("mul", a, 2))
    yield "sum", code_of(lambda: context.reduce("sum", a))
    yield "reshape", code_of(lambda: context.reshape(a, (2, 2)))
    yield "from", code_of(lambda: context.array("f32", ONES))
    yield "create", code_of(lambda: context.create("f32", ONES))
    yield "full", code_of(lambda: context.full("f32", (3,), 1))
    yield "arange", code_of(lambda: context.arange("f32", 3, 0, 1))
    yield "read", code_of(a.read)
    yield "read_begin", code_of(lambda: a.read_begin()())
    yield "wait", code_of(a.wait)
    yield "map read", code_of(lambda: a.map("read"))
    yield "map write", code_of(lambda: a.map("write"))
    yield "copy_into", code_of(lambda: a.copy_into(a))
    yield "fill_into", code_of(lambda: a.fill_into(0))
    yield "flush", code_of(context.flush)
    yield "sync", code_of(context.sync)
    yield "stats", code_of(context.stats)
    yield "explain", code_of(lambda: context.explain([a]))
    yield "configure", code_of(lambda: context.configure("fusion.enabled", "0"))
    yield "capture_begin", code_of(lambda: context.capture_begin([a]))
    yield "open", code_of(lambda: fusion.Context(path, timeout_ms=5000))
    a.release()
    context.close()


def own_context(path):
    with fusion.Context(path, timeout_ms=SECONDS * 1000) as context:
        a = context.array("f32", ONES)
        return bool(np.all(context.op("add", a, a).read() == 2))


def leave_a_child(path, sender):
    """Uses the daemon, leaves a forked child that goes on living, and dies without closing anything."""
    context = fusion.Context(path)
    context.array("f32", ONES).read()
    child = os.fork()
    if not child:
        time.sleep(SECONDS)
        os._exit(0)
    sender.send(child)
    os.kill(os.getpid(), signal.SIGKILL)


def pool_task(number):
    return code_of(lambda: POOL_CONTEXT.op_scalar("add", POOL_ARRAY, number))


POOL_CONTEXT = POOL_ARRAY = None


# ---- running a child with a limit ----


def in_child(method, function, arguments):
    """(result, how the process ended) of function in a child; None where it gave none in time."""
    start = multiprocessing.get_context(method)
    receiver, sender = start.Pipe(duplex=False)
    process = start.Process(target=_send, args=(sender, function, arguments))
    process.start()
    sender.close()
    result = receiver.recv() if receiver.poll(SECONDS) else None
    process.join(SECONDS)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        return result, "it hangs"
    return result, "" if process.exitcode == 0 else f"it ends with {process.exitcode}"


def _send(sender, function, arguments):
    result = function(*arguments)
    sender.send(list(result) if hasattr(result, "__next__") else result)
    sender.close()


# ---- cases ----


def check_before(report, daemon):
    """Where the parent has not used the library yet, a forked child may."""
    result, end = in_child("fork", own_context, (daemon.socket,))
    report.check(result is True and not end, "a child forked before any use works", f"{result} {end}")


def check_every_call(report, daemon, context, when):
    a = context.array("f32", ONES)
    if when == "with operations recorded":
        a = context.op("add", a, a)
    elif when == "after a read":
        a.read()
    result, end = in_child("fork", every_call, (daemon.socket, context, a))
    report.check(not end, f"the child of a fork {when} ends by itself", end)
    for what, code in result or [("every call", "nothing")]:
        report.check(code == "FORKED", f"{what} in a child forked {when} gives FORKED", code)
    want = 2 if when == "with operations recorded" else 1
    report.check(bool(np.all(a.read() == want)), f"the parent goes on after a fork {when}", "other values")


def check_pool(report, context):
    global POOL_CONTEXT, POOL_ARRAY
    POOL_CONTEXT, POOL_ARRAY = context, context.array("f32", ONES)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        codes = pool.map_async(pool_task, range(8)).get(SECONDS)
    report.check(codes == ["FORKED"] * 8, "tasks of a forked pool get FORKED", f"{codes}")
    got = context.op("add", POOL_ARRAY, POOL_ARRAY).read()
    report.check(bool(np.all(got == 2)), "the parent goes on after a pool", "other values")
    POOL_CONTEXT = POOL_ARRAY = None


def check_busy(report, daemon, context):
    """fork() while other threads are inside the library: its locks must not be left taken in the child."""
    stop = threading.Event()

    def work():
        with daemon.open() as mine:
            a = mine.array("f32", ONES)
            while not stop.is_set():
                a = mine.op_scalar("add", mine.op_scalar("sub", a, 1), 1)
                a.read()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    try:
        for i in range(10):
            a = context.array("f32", ONES)
            result, end = in_child("fork", every_call, (daemon.socket, context, a))
            right = bool(result) and not end and all(code == "FORKED" for _, code in result)
            report.check(right, f"fork {i} beside busy threads", f"{result} {end}")
    finally:
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
    report.check(not any(t.is_alive() for t in threads), "the busy threads end", "one hangs")


def check_spawn(report, daemon):
    result, end = in_child("spawn", own_context, (daemon.socket,))
    report.check(result is True and not end, "a spawned child works", f"{result} {end}")


def sessions(context):
    return json.loads(context.stats(whole_daemon=True))["sessions"]


def check_orphan(report, daemon, context):
    """The session of a process that died ends although a child of it, forked, holds copies of its descriptors."""
    start = multiprocessing.get_context("fork")
    receiver, sender = start.Pipe(duplex=False)
    before = sessions(context)
    process = multiprocessing.get_context("spawn").Process(target=leave_a_child, args=(daemon.socket, sender))
    process.start()
    sender.close()
    child = receiver.recv() if receiver.poll(SECONDS) else None
    limit = time.monotonic() + SECONDS / 3
    # Not join(): the child that is left holds what it waits for.
    while (process.exitcode is None or sessions(context) > before) and time.monotonic() < limit:
        time.sleep(0.02)
    alive = child is not None and os.path.exists(f"/proc/{child}")
    report.check(alive and sessions(context) == before, "the session of a dead process ends beside its living child",
                 f"{sessions(context)} sessions, not {before}; child {child} {'lives' if alive else 'is gone'}")
    if alive:
        os.kill(child, signal.SIGKILL)


def main():
    report = harness.Report()
    with fusion.Daemon() as daemon:
        check_before(report, daemon)
        with daemon.open() as context:
            for when in ("after a read", "with operations recorded", "with nothing done"):
                check_every_call(report, daemon, context, when)
            check_pool(report, context)
            check_busy(report, daemon, context)
            check_spawn(report, daemon)
            check_orphan(report, daemon, context)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

"""Does anything grow by calls that give back what they took? Each kind of call so many times, then as often again, of which the second half is counted: in the
daemon arrays and bytes (STATS), in the client objects of Python and what malloc() has given, in client, engine and supervisor resident memory.

usage: leaks.py [--calls N] [--only KIND]     `make check-leaks CALLS=1000000`; a slice is part of `make check`
"""
import argparse
import ctypes
import gc
import os
import sys

import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from private_daemon import BUILD, Daemon

DAEMON = ("arrays", "memory_bytes", "shared_arrays", "tokens", "operations_queued", "queued_bytes", "recorded_graph_bytes")
SYNC = 64                   # calls between two waits
# What may come late, whatever the number of calls: caches, pools, free lists. Beyond it less than one object in a hundred calls, and two bytes a call.
OBJECTS, HEAP_BYTES, RESIDENT_BYTES = 400, 24 << 10, 8 << 20
SLOW = 50                   # of what opens sessions, one for so many calls


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = Mallinfo


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


def is_engine(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().startswith("fusiond-engine")
    except OSError:
        return False


def kinds(xp):
    x, y = xp.asarray(np.arange(12.0).reshape(3, 4)), xp.ones((3, 4))
    step = xp.jit(lambda a, b: a * b + 1)
    gradient = xp.grad(lambda a: xp.sum(a * a))

    def write():
        x[1] = 5.0

    def views():
        v = x.T[1:]
        v += 1
        x[:, 0] = v[0, 0]

    def refuse():
        try:
            xp.reshape(x, (7, 7))
        except xp.ShapeError:
            pass

    def refuse_late():
        try:
            xp.jit(lambda a: 1 / 0)(x)
        except ZeroDivisionError:
            pass

    def lend():
        with xp.writable(y) as memory:
            np.asarray(memory)[...] = 1

    def session():
        c = xp._core.Context()
        a = c.full(xp.float32, (8,), 1.0)
        a.wait()
        del a
        c.close()
    # What is lent comes first: what it leaves behind may keep what others leave.
    return {
        "lent": lend, "operation": lambda: x + y, "upload": lambda: xp.asarray([1.0, 2.0, 3.0]), "read": lambda: (x + 1).tolist(), "number": lambda: float(xp.sum(x)),
        "map": lambda: np.asarray(x * 2).sum(), "write": write, "views": views, "mask": lambda: x[x > 3], "places": lambda: x[[0, 2]], "jit": lambda: step(x, y),
        "gradient": lambda: gradient(x), "refused": refuse, "refused in jit": refuse_late, "dlpack": lambda: np.from_dlpack(y).sum(),
        "explain": lambda: xp.explain(x + y), "stats": xp.stats, "text": lambda: str(x), "session": session,
    }


class Counted:
    def __init__(self, xp, daemon):
        self.xp, self.daemon = xp, daemon
        self.engine = next(filter(is_engine, children(daemon.process.pid)))

    def now(self):
        self.xp.sync()
        gc.collect()
        stats = self.xp.stats()
        return {**{name: stats[name] for name in DAEMON}, "objects": sys.getallocatedblocks(), "heap": _libc.mallinfo2().uordblks, "client": resident("self"),
                "engine": resident(self.engine), "supervisor": resident(self.daemon.process.pid)}


def run(call, times, sync):
    for i in range(times):
        call()
        if i % SYNC == 0:
            sync()


def grown(before, after, calls):
    """What grew by more than it may."""
    limits = {"objects": OBJECTS + calls // 100, "heap": HEAP_BYTES + 2 * calls, "client": RESIDENT_BYTES + 2 * calls, "engine": RESIDENT_BYTES + 2 * calls,
              "supervisor": RESIDENT_BYTES + 2 * calls}
    return [f"{name} {before[name]} -> {after[name]}" for name in before if after[name] - before[name] > limits.get(name, 0)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1000000)
    parser.add_argument("--only")
    options = parser.parse_args()
    passed = failed = 0
    with Daemon(settings=["fusion.interpreter=always"]) as daemon:
        os.environ["FUSION_SOCKET"] = daemon.socket
        sys.path.insert(0, os.path.join(BUILD, "python"))
        import fusion as xp
        (xp.ones(3) + 1).wait()
        counted = Counted(xp, daemon)
        for kind, call in kinds(xp).items():
            if options.only not in (None, kind):
                continue
            calls = options.calls // SLOW if kind == "session" else options.calls
            run(call, calls, xp.sync)
            before = counted.now()
            run(call, calls, xp.sync)
            after = counted.now()
            found = grown(before, after, calls)
            passed, failed = passed + (not found), failed + bool(found)
            print(f"{'FAILED ' if found else ''}{kind}: {calls} calls; " + (", ".join(found) or
                  f"objects {after['objects'] - before['objects']:+}, heap {after['heap'] - before['heap']:+}, resident {after['client'] - before['client']:+}, "
                  f"engine {after['engine'] - before['engine']:+}"), flush=True)
        xp._base.shutdown()
    print(f"{passed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

"""What the first call of each operation takes, on each element type, on a daemon whose cache `fusiond --warm` has filled.

    FUSION_BUILD=build python3 tests/bench/first_results.py [PART_OF_A_NAME]

Each case is a graph that the daemon never saw, called while nothing is built that anybody wants. What takes longer than
SLOW_MS has waited for a compiler: no bytecode and no generic kernel was there for it. Some minutes.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import numpy as np

import fusion
import harness
from reference import to_storage
from tables import COMPOSITES, DTYPES, OPS

SLOW_MS = 60
# A daemon that was idle for so long has taken what it needs from its cache.
IDLE_SECONDS = 14
BUILD_SECONDS = 20

ROWS, ROW = (64, 300), (50000,)
# Operands and attributes of composites.
COMPOSED = {
    **{name: ([ROWS], {"axes": (1,)}) for name in (
        "softmax", "log_softmax", "logsumexp", "var", "std", "l1_norm", "l2_norm", "argmax", "argmin", "count_nonzero")},
    "layer_norm": ([ROWS, (300,), (300,)], {"axes": (1,)}), "rms_norm": ([ROWS, (300,)], {"axes": (1,)}), "tril": ([ROWS], {}),
    "outer": ([(64,), (300,)], {}), "vecdot": ([ROWS, ROWS], {"axes": (1,)}), "linear": ([ROWS, (70, 300), (70,)], {}),
    "attention": ([(2, 64, 32), (2, 70, 32), (2, 70, 32)], {}),
    "max_pool": ([(2, 8, 32, 32)], {"window": (2, 2), "stride": (2, 2), "padding": (0, 0)}),
    "avg_pool": ([(2, 8, 32, 32)], {"window": (2, 2), "stride": (2, 2), "padding": (0, 0)}),
    "conv": ([(2, 8, 16, 16), (16, 8, 3, 3)], {"stride": (1, 1), "padding": (1, 1)}),
}


class Cases:
    """Each gives what is to be called; operands are made before."""

    def __init__(self, context):
        self.c = context
        self.rng = np.random.default_rng(1)

    def leaf(self, dtype, shape=ROWS):
        return self.c.array(dtype, to_storage(dtype, harness.random_values(self.rng, dtype, shape)))

    def places(self, shape, end=64):
        return self.c.array("i64", self.rng.integers(0, end, shape))

    def elementwise(self, op, dtype):
        operands = [self.leaf("bool" if op.name == "where" and not i else dtype) for i in range(op.arity)]
        yield "", lambda: self.c.op(op.name, *operands)

    def reduction(self, op, dtype):
        for axes in ((1,), (0,), None):
            a = self.leaf(dtype)
            yield f" {axes}", lambda: self.c.reduce(op.name, a, axes)
        w = self.leaf(dtype)
        yield " of windows", lambda: self.c.reduce(op.name, self.c.windows(w, 1, 5, 2, 1), (2,))

    def scan(self, op, dtype):
        a = self.leaf(dtype)
        yield "", lambda: self.c.scan(op.name, a, 1)

    def matmul(self, op, dtype):
        for name, batch in (("", ()), (" batch", (4,))):
            a, b = self.leaf(dtype, batch + (70, 90)), self.leaf(dtype, batch + (90, 80))
            yield name, lambda: self.c.op("matmul", a, b)

    def sort(self, op, dtype):
        for name, shape in (("", ROWS), (" long", ROW)):
            for descending in (False, True):
                a = self.leaf(dtype, shape)
                yield name + " descending" * descending, lambda: self.c.sort(op.name, a, len(shape) - 1, descending)

    argsort = sort

    def take(self, op, dtype):
        a, i = self.leaf(dtype), self.places((50,) if op.name == "take" else ROWS)
        yield "", lambda: self.c.gather(op.name, a, i, 0)

    take_along = take

    def put_along(self, op, dtype):
        a, i, u = self.leaf(dtype), self.places((20, 300)), self.leaf(dtype, (20, 300))
        yield "", lambda: self.c.scatter(op.name, a, i, u, 0)

    add_along = put_along

    def searchsorted(self, op, dtype):
        a, b = self.c.array(dtype, np.sort(to_storage(dtype, harness.random_values(self.rng, dtype, (1000,))))), self.leaf(dtype)
        yield "", lambda: self.c.searchsorted(a, b)

    def cast(self, op, dtype):
        for to in DTYPES:
            a = self.leaf(dtype)
            yield f" to {to}", lambda: self.c.cast(a, to)

    def copy(self, op, dtype):
        a = self.leaf(dtype)
        yield " transposed", lambda: self.c.copy(self.c.transpose(a))

    def concat(self, op, dtype):
        a, b = self.leaf(dtype), self.leaf(dtype, (64, 30))
        yield "", lambda: self.c.join("concat", [a, b], 1)

    def composite(self, op, dtype):
        shapes, attributes = COMPOSED[op.name]
        operands = [self.leaf(dtype, shape) for shape in shapes]
        yield "", lambda: self.c.call(op.name, *operands, **attributes)

    def of(self, op):
        kinds = {"UNARY": self.elementwise, "BINARY": self.elementwise, "TERNARY": self.elementwise, "REDUCE": self.reduction,
                 "SCAN": self.scan}
        return kinds.get(op.kind) or getattr(self, op.name, None)


def await_builds(context):
    """Until nothing is built that anybody wants."""
    end = time.monotonic() + BUILD_SECONDS
    while time.monotonic() < end:
        device = json.loads(context.stats(True))["device"]
        if device["programs_building"] <= device["programs_spare"]:
            return
        time.sleep(0.02)


def timed(context, call):
    """Milliseconds of a first call; None where the operation does not take that type."""
    await_builds(context)
    context.sync()
    begin = time.perf_counter()
    try:
        call().wait()
    except fusion.FusionError:
        return None
    return 1e3 * (time.perf_counter() - begin)


def measure(context, part):
    cases, found = Cases(context), []
    for op in [*OPS.values(), *(c for name, c in COMPOSITES.items() if name in COMPOSED)]:
        make = cases.composite if op.name in COMPOSED else cases.of(op)
        for dtype in DTYPES:
            if not make or part not in op.name or (op.types and not op.takes(dtype)):
                continue
            for name, call in make(op, dtype):
                ms = timed(context, call)
                found += [(ms, op.name + name, dtype)] if ms is not None else []
    return found


def report(found):
    slow = sorted((f for f in found if f[0] > SLOW_MS), reverse=True)
    kinds = collections.OrderedDict()
    for ms, name, dtype in slow:
        kinds.setdefault(name, []).append(f"{dtype} {ms:.0f}")
    for name, types in kinds.items():
        print(f"{name}: {', '.join(types)} ms")
    times = sorted(ms for ms, _, _ in found)
    print(f"{len(found)} first calls, median {times[len(times) // 2]:.1f} ms; {len(slow)} took more than {SLOW_MS} ms, "
          f"{sum(s[0] for s in slow) / 1e3:.1f} s in all")


def main():
    daemon = os.path.join(fusion.BUILD, "fusiond")
    with tempfile.TemporaryDirectory(prefix="fusion-first-") as folder:
        door = os.path.join(folder, "door")
        command = [daemon, "--config", "/dev/null", "--socket", door, "--cache-dir", os.path.join(folder, "cache")]
        subprocess.run(command + ["--warm"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                time.sleep(IDLE_SECONDS)
                with fusion.Context(door) as context:
                    report(measure(context, (sys.argv + [""])[1]))
            finally:
                process.terminate()


if __name__ == "__main__":
    main()

"""Graphs as programs make them, and whole networks, in every way they may run: the same bits, and NumPy's values in double precision.

Each random graph (programs.py) runs unfused as bytecode and generic kernels, which build nothing, with the value of every operation
compared with NumPy, given the actual values of its operands. Its outputs must have these very bits when it runs

  fused, replayed, beside other sessions that run other graphs, and after a restart of the daemon      (tier `code`)
  with its own kernels, fused and unfused                                                               (`own`)
  with the kernels of GPUs                                                                              (`gpu`)
  swapping from bytecode to its own kernels at each step of a run in turn, then by generic kernels alone  (`swap`)

Tiers but the first build kernels: --own says how many graphs run in them. Networks (networks.py) run forward and backward in all
tiers, cold - on an empty cache, where bytecode and generic kernels stand in - and warm. A failure names the seed, `--only SEED` runs it alone and prints it.
"""
import argparse
import hashlib
import os
import sys
import tempfile
import threading
import time
import traceback

import numpy as np

import fusion
import harness
import networks
import programs
import reference
from reference import to_register, to_storage

# In a minute of one core with the networks; $FUSION_PROGRAMS changes it. A commit takes others than the one before.
PROGRAMS, OWN, TOTAL = 12, 1, 1 << 19
COLD_RUNS = 3
TIMEOUT_MS = 900000
TIERS = ("code", "own", "gpu", "swap")
# Operations of a graph whose kernels are built: each costs a compiler some tenths of a second, in every tier.
BUILT_OPERATIONS = 24
# Runs of a graph that swaps: after so many it has swapped at each of its steps, if these are no more.
SWAPS = 24


def settings_of(tier):
    return {"code": ["fusion.interpreter=always"], "swap": ["fusion.interpreter=swap"], "cold": ["fusion.interpreter=auto"]}.get(tier, ["fusion.interpreter=off"])


class Tier:
    """A daemon of this kind with a session that fuses and one that does not."""

    def __init__(self, tier, cache):
        self.tier, self.cache = tier, cache
        self.open()

    def open(self):
        strategy = "gpu" if self.tier == "gpu" else "cpu" if self.tier == "swap" else None
        self.daemon = fusion.Daemon(strategy=strategy, cache=self.cache, settings=settings_of(self.tier))
        self.daemon.__enter__()
        self.fused = self.daemon.open(fusion=True, timeout_ms=TIMEOUT_MS)
        self.unfused = self.daemon.open(fusion=False, timeout_ms=TIMEOUT_MS)

    def close(self):
        for c in (self.fused, self.unfused):
            c.close()
        self.daemon.__exit__()

    def restart(self):
        self.close()
        self.open()


def storage(dtype, values):
    return to_storage(dtype, reference.cast("f64", dtype, values))


def data_of(program):
    return {i: programs.values(n, program.seed, storage) for i, n in enumerate(program.nodes) if not n.ins}


def digest(values):
    h = hashlib.sha256()
    for i in sorted(values):
        h.update(values[i].tobytes())
    return h.hexdigest()


def as_double(node, bits):
    values = to_register(node.dtype, bits)
    return values if node.dtype in ("bool", "i64", "i32") else values.astype(float)


class Worker:
    def __init__(self, report, options, cache):
        self.report, self.options = report, options
        self.tiers = {tier: Tier(tier, f"{cache}/{tier}") for tier in options.tiers}
        self.seen = []                  # (program, digest of its outputs) of the last graphs, for restarts

    def close(self):
        for tier in self.tiers.values():
            self.report.check("broke a rule" not in tier.daemon.log(), f"the log of {tier.tier}", lambda t=tier: t.daemon.log()[-3000:])
            tier.close()

    def guarded(self, name, run, show):
        failed = self.report.failed
        try:
            run()
        except Exception:
            logs = "\n".join(f"{t.tier}: {t.daemon.log()[-1500:]}" for t in self.tiers.values())
            self.report.check(False, name, f"{traceback.format_exc()}\n{logs}")
            for tier in self.tiers.values():
                tier.restart()
        if self.report.failed > failed:
            self.report.messages.append(f"{name}:\n{show()}")

    # ---- random graphs ----

    def program(self, seed, number):
        p = programs.Program(seed, total=self.options.total)
        if self.options.only is not None:
            print(p.text())
        self.guarded(f"graph {seed}", lambda: self.check(p, number), lambda: p.text() if len(p.nodes) < 400 else f"{len(p.nodes)} nodes")

    def same(self, program, way, want, got):
        for i in program.outputs:
            right = want[i].tobytes() == got[i].tobytes()
            self.report.check(right, f"graph {program.seed} {way}: %{i} {program.nodes[i].op}", lambda i=i: first_difference(want[i], got[i]))
            if not right:
                return

    def check(self, p, number):
        data = data_of(p)
        note = self.report.notes
        note["operations"] += p.operations()
        note["elements"] += p.used
        note[f"size {p.operations().bit_length()}"] += 1
        note[f"row {max(n.shape[-1] for n in p.nodes if n.shape).bit_length()}"] += 1
        code = self.tiers["code"]
        kept = programs.run(p, code.unfused, data, keep=True)
        self.check_values(p, kept)
        outputs = {i: kept[i] for i in p.outputs}
        del kept
        self.same(p, "fused", outputs, programs.run(p, code.fused, data))
        if number % 2 == 0:
            self.check_replayed(p, code.fused, data, outputs)
        if number % 3 == 0:
            self.check_beside(p, code, data, outputs)
        self.seen = (self.seen + [(p.seed, digest(outputs))])[-4:]
        if number % 25 == 24:
            self.check_restarted(code)
        if number * self.options.own // max(1, self.options.programs) != (number + 1) * self.options.own // max(1, self.options.programs):
            self.check_built(p.seed)

    def check_values(self, p, kept):
        for i, n in enumerate(p.nodes):
            if not n.ins:
                continue
            got = as_double(n, kept[i])
            with np.errstate(all="ignore"):
                want, bound = programs.expected(n, [as_double(p.nodes[j], kept[j]) for j in n.ins])
                if n.dtype in programs.EPS:
                    right = (got == want) | (np.isinf(got) & (np.abs(want) >= programs.LARGEST[n.dtype])) | (np.abs(got - want) <= np.asarray(bound) * programs.EPS[n.dtype] + tiny(n.dtype)) | (np.isnan(got) & np.isnan(want))
                else:
                    right = got == want
            self.report.check(got.shape == n.shape and bool(np.all(right)), f"graph {p.seed} %{i} {n.op}",
                              lambda: harness.describe(np.broadcast_to(right, got.shape), [], np.broadcast_to(want, got.shape), got))

    def check_replayed(self, p, context, data, want):
        leaves = [i for i, n in enumerate(p.nodes) if not n.ins]
        arrays = {i: programs.record(context, p.nodes[i], [], data[i]) for i in leaves}
        given = [arrays[i] for i in leaves]
        context.capture_begin(given)
        for i, n in enumerate(p.nodes):
            if n.ins:
                arrays[i] = programs.record(context, n, [arrays[j] for j in n.ins], None)
        capture = context.capture_end([arrays[i] for i in p.outputs])
        arrays.clear()
        for way in ("replayed", "replayed again"):
            self.same(p, way, want, {i: a.read() for i, a in zip(p.outputs, capture.replay(given))})
        self.report.notes["replayed"] += 1

    def check_beside(self, p, tier, data, want):
        """Two other sessions run graphs of their own and this one meanwhile."""
        other = programs.Program(p.seed + 1, operations=12, most=3000)
        theirs = data_of(other)
        first = programs.run(other, tier.fused, theirs)
        problems, stop = [], threading.Event()

        def neighbour():
            try:
                with tier.daemon.open(fusion=True, timeout_ms=TIMEOUT_MS) as c:
                    while not stop.is_set():
                        if digest(programs.run(other, c, theirs)) != digest(first):
                            problems.append("its neighbour's values changed")
            except Exception:
                problems.append(traceback.format_exc())

        threads = [threading.Thread(target=neighbour) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            self.same(p, "beside others", want, programs.run(p, tier.fused, data))
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.report.check(not problems, f"graph {p.seed} beside others", lambda: problems[0])
        self.report.notes["beside others"] += 1

    def check_restarted(self, tier):
        tier.restart()
        for seed, want in self.seen:
            p = programs.Program(seed, total=self.options.total)
            self.report.check(digest(programs.run(p, tier.fused, data_of(p))) == want, f"graph {seed} after a restart", "other bits")
            self.report.notes["restarted"] += 1

    def check_built(self, seed):
        p = programs.Program(seed, operations=self.options.built_operations, total=self.options.total)
        data = data_of(p)
        want = programs.run(p, self.tiers["code"].unfused, data)
        for name, tier in self.tiers.items():
            if name == "code":
                continue
            self.same(p, name, want, programs.run(p, tier.fused, data))
            if name == "own":
                self.same(p, "own, unfused", want, programs.run(p, tier.unfused, data))
            for turn in range(SWAPS if name == "swap" else 0):
                self.same(p, f"swapped, run {turn}", want, programs.run(p, tier.fused, data))
            self.report.notes[f"built, {name}"] += 1

    # ---- networks ----

    def network(self, name, seed):
        self.guarded(f"network {name}", lambda: self.check_network(name, seed), lambda: "see networks.py")

    def check_network(self, name, seed):
        function, p, x = networks.make(name, seed)
        code = self.tiers["code"]
        want = networks.run(code.unfused, function, p, x)
        networks.check(self.report, name, function, p, x, want)
        self.network_same(name, "fused", want, networks.run(code.fused, function, p, x))
        for tier in self.tiers.values() if self.options.networks_built else ():
            for turn in range(1 if tier is code else 2 if tier.tier != "swap" else SWAPS):
                self.network_same(name, f"{tier.tier}, run {turn}", want, networks.run(tier.fused, function, p, x))
        self.report.notes["networks"] += 1

    def network_same(self, name, way, want, got):
        for i, (a, b) in enumerate(zip(want, got)):
            self.report.check(a.tobytes() == b.tobytes(), f"network {name} {way}: {'the loss' if not i else f'gradient {i - 1}'}", lambda: first_difference(a, b))

    def cold(self, seed):
        """All networks on a daemon with an empty cache: what stands in, then what was built."""
        with tempfile.TemporaryDirectory(prefix="fusion-oracle-cold-") as cache:
            tier = Tier("cold", cache)
            for name in networks.NETWORKS:
                function, p, x = networks.make(name, seed)
                want = networks.run(self.tiers["code"].unfused, function, p, x)
                for turn in range(COLD_RUNS):
                    self.network_same(name, f"cold, run {turn}", want, networks.run(tier.fused, function, p, x))
                self.report.notes["cold networks"] += 1
            tier.close()


def tiny(dtype):
    """Below the normal numbers of a type results are rounded to steps of this."""
    return {"f16": 2.0 ** -24, "bf16": 1e-38, "f32": 1e-37}.get(dtype, 0)


def first_difference(a, b):
    if a.shape != b.shape:
        return f"the shape is {b.shape}, not {a.shape}"
    different = a.view(np.uint8).reshape(*a.shape, -1) != b.view(np.uint8).reshape(*b.shape, -1) if a.ndim else np.array([[a != b]])
    places = np.argwhere(np.any(different, -1))
    place = tuple(places[0]) if a.ndim and len(places) else ()
    return f"{len(places)} of {a.size} elements differ, the first at {[int(i) for i in place]}: {b[place]!r}, not {a[place]!r}"


def worker(report, part):
    options, numbers, names, cache = part
    w = Worker(report, options, cache)
    try:
        for name in names:
            w.network(name, options.seed)
        if names and options.cold:
            w.guarded("cold networks", lambda: w.cold(options.seed), lambda: "see networks.py")
        for number in numbers:
            if options.deadline is not None and time.monotonic() > options.deadline:
                break
            w.program(options.seed + number, number)
            report.notes["graphs"] += 1
    finally:
        w.close()


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=int(os.environ.get("FUSION_PROGRAMS", PROGRAMS)), help="random graphs")
    parser.add_argument("--own", type=int, default=OWN, help="how many of them run with kernels that are built for them")
    parser.add_argument("--built-operations", type=int, default=BUILT_OPERATIONS, help="operations of each of those")
    parser.add_argument("--total", type=int, default=TOTAL, help="elements of all arrays of a graph together")
    parser.add_argument("--seed", type=int, default=1 + 1000 * harness.slice_number())
    parser.add_argument("--seconds", type=float, help="begin no graph later than this")
    parser.add_argument("--tiers", default="", help="of: " + " ".join(TIERS))
    parser.add_argument("--networks", default=None, help="names of networks, or none")
    parser.add_argument("--networks-built", action="store_true", help="in all tiers")
    parser.add_argument("--cold", action="store_true", help="networks on an empty cache, too")
    parser.add_argument("--only", type=int, help="the graph of this seed alone")
    parser.add_argument("--cache", help="folder of kernels to use and keep")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    options.tiers = options.tiers.split() or (list(TIERS) if options.own else ["code"])
    options.networks = list(networks.NETWORKS) if options.networks is None else [n for n in options.networks.split() if n != "none"]
    options.deadline = None if options.seconds is None else time.monotonic() + options.seconds
    if options.only is not None:
        options.seed, options.programs, options.networks, options.jobs = options.only, 1, [], 1
    return options


def print_notes(notes, seconds):
    sizes = ", ".join(f"{n} of up to {2 ** k - 1}" for k, n in sorted((int(key[5:]), n) for key, n in notes.items() if key.startswith("size ")))
    rows = ", ".join(f"{n} up to {2 ** k - 1}" for k, n in sorted((int(key[4:]), n) for key, n in notes.items() if key.startswith("row ")))
    print(f"note: {notes['graphs']} graphs, {notes['operations']} operations, {notes['elements']} elements, {seconds:.0f} s; operations: {sizes}; longest rows: {rows}")
    print("note: " + ", ".join(f"{notes[key]} {key}" for key in sorted(notes) if key.startswith(("replayed", "beside", "restarted", "built", "networks", "cold"))))


def main():
    options, started = read_options(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fusion-oracle-cache-") as own:
        cache = os.path.abspath(options.cache or own)
        parts = [(options, range(i, options.programs, options.jobs), options.networks[i::options.jobs], f"{cache}/{i}") for i in range(options.jobs)]
        report = harness.run(worker, parts, options.jobs)
    print_notes(report.notes, time.monotonic() - started)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

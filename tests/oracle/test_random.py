"""Random graphs over every operation, fused and unfused, against each other bit for bit and against the reference.

Each graph runs unfused with every value read back, each checked against the reference given the actual values of its
operands. Its outputs must then have these very bits when it runs

  fused           with random flushes, and values released early
  reordered       its operations arriving in another order (members 1, 5, ... of a family)
  without         each of the patterns off that its family makes use of, one after the other (members 2, 6, ...)
  turned          with knobs at random values (members 0, 4, ...), in some families with those that other kernels are built for
  again           as often as its batches are forms (serve/recurring.h), with its data and others (members 3, 7, ...)
  replayed        recorded once and run with three sets of inputs, fused and unfused (some families)

A failure names the seed and the number of the graph: --seed N --only NUMBER runs it alone and prints it.

Many graphs can be run in several goes, of one seed, by --first and --graphs. With --seconds no worker begins another graph
after that time: for a machine that is there for so long and no longer. What was left out is told.

Graphs come in families of --members (see graphs.py): --members 1 makes every graph another, and takes longer.
--hashes writes the bits of each graph's outputs as one line, to compare drivers and strategies.
"""
import argparse
import collections
import hashlib
import json
import os
import sys
import tempfile
import time
import traceback

import numpy as np

import fusion
import graphs
import harness
import reference
from harness import compare_elementwise, compare_exact, describe, random_values
from reference import to_storage
from tables import COMPOSITES, KNOBS, OPS, PATTERNS

MEMBERS = 8
# Some families, in a minute of one core; $FUSION_ORACLE_GRAPHS changes it.
GRAPHS = 4 * MEMBERS
# A graph of forty kernels that are built anew, on a machine with other things to do.
TIMEOUT_MS = 900000
WAYS = 4         # members of a family that run in the same ways
# Knobs of launches alone, and which families turn the others, too: those cost kernels.
LAUNCH_KNOBS = ("share", "tiles")
TURNED_FAMILIES = 4
LISTED = 4       # failing graphs printed in full, for each worker


class Worker:
    def __init__(self, report, options, cache):
        self.report, self.options, self.cache = report, options, cache
        self.listed = 0
        self.daemon = None
        self.used = {}             # family: the patterns that its fused graphs made use of
        self.open()

    def open(self):
        self.daemon = fusion.Daemon(strategy=self.options.strategy, cache=self.cache,
                                    settings=[f"fusion.interpreter={self.options.interpreter}"])
        self.daemon.__enter__()
        self.fused = self.daemon.open(fusion=True, timeout_ms=TIMEOUT_MS)
        self.unfused = self.daemon.open(fusion=False, timeout_ms=TIMEOUT_MS)

    def close(self):
        self.report.notes["batches again"] += json.loads(self.fused.stats())["batches_again"]
        self.fused.close()
        self.unfused.close()
        self.daemon.__exit__()

    # ---- one graph ----

    def run(self, number):
        before = self.report.failed
        program = graphs.Program(self.options.seed, *divmod(number, self.options.members))
        program.number = number
        if self.options.only is not None:
            print(program.text())
        try:
            self.check(program)
        except Exception:
            self.report.check(False, self.name(program), f"{traceback.format_exc()}\nthe daemon's log:\n{self.daemon.log()[-2000:]}")
            # A context may be lost, or in the middle of a capture.
            self.close()
            self.open()
        if self.report.failed > before and self.listed < LISTED:
            self.listed += 1
            self.report.messages.append(f"graph {number} of seed {self.options.seed}:\n{program.text()}")

    def name(self, program, rest=""):
        return f"graph {program.number}{rest}"

    def check(self, program):
        for node in program.nodes:
            if node.op in OPS or node.op in COMPOSITES:
                self.report.hit(node.op, operand_dtype(program, node))
        data = {}
        values = self.check_unfused(program, data)
        self.note(program, values)
        before = self.patterns()
        self.same_bits(program, "fused", values, graphs.run_outputs(program, self.fused, data))
        self.used.setdefault(program.family, set()).update(self.patterns() - before)
        if program.member % WAYS == 0:
            self.check_turned(program, values, data)
        if program.member % WAYS == 1:
            order = program.order(program.rng)
            self.same_bits(program, "reordered", values, graphs.run_outputs(program, self.fused, data, order))
            self.report.notes["reordered"] += 1
        if program.member % WAYS == 2:
            self.check_without(program, values, data)
        if program.member % WAYS == 3:
            self.check_again(program, values, data)
        if program.capture:
            self.check_captured(program, values)

    def patterns(self):
        """How often each pattern was made use of, as a multiset."""
        if not PATTERNS:
            return collections.Counter()
        counts = json.loads(self.fused.stats()).get("patterns", [])
        return collections.Counter({c["pattern"]: int(c["count"]) for c in counts})

    def check_without(self, program, values, data):
        for name in sorted(self.used[program.family]):
            self.fused.configure(f"fusion.pattern.{name}", "no")
            outputs = graphs.run_outputs(program, self.fused, data)
            self.fused.configure(f"fusion.pattern.{name}", "yes")
            self.same_bits(program, f"without {name}", values, outputs)
            self.report.notes[f"without {name}"] += 1

    def check_turned(self, program, values, data):
        rng = np.random.default_rng([self.options.seed, program.family, program.member, len(KNOBS)])
        every = program.member and program.family % TURNED_FAMILIES == 0
        turned = " ".join(f"{name}={rng.choice(KNOBS[name])}" for name in KNOBS if every or name in LAUNCH_KNOBS)
        self.fused.configure("fusion.knobs", turned)
        outputs = graphs.run_outputs(program, self.fused, data)
        self.fused.configure("fusion.knobs", "")
        self.same_bits(program, f"with {turned}", values, outputs)
        self.report.notes["turned"] += 1

    def check_again(self, program, values, data):
        """The second time a form is made of each batch, from then on it is used; but for what this graph's family made before."""
        other = self.other_data(program)
        other_values = self.check_unfused(program, other)
        self.same_bits(program, "again", values, graphs.run_outputs(program, self.fused, data))
        self.same_bits(program, "again with others", other_values, graphs.run_outputs(program, self.fused, other))
        self.same_bits(program, "a fourth time", values, graphs.run_outputs(program, self.fused, data))
        self.report.notes["again"] += 1

    def other_data(self, program):
        return {i: random_values(program.data, n.dtype, n.shape, 0.1) for i, n in enumerate(program.nodes) if n.op == "load"}

    def note(self, program, values):
        """The hash of the outputs' bits, and how much is in them to be wrong."""
        digest = hashlib.sha256()
        for i in program.outputs:
            dtype = program.nodes[i].dtype
            bits = reference.bits(dtype, values[i])
            digest.update(f"{dtype}{list(np.shape(values[i]))}".encode() + bits.tobytes())
            self.report.notes["output elements"] += bits.size
            self.report.notes["different output elements"] += len(np.unique(bits))
        self.report.notes["operations"] += sum(1 for n in program.nodes if n.ins)
        self.report.hashes[program.number] = digest.hexdigest()

    def check_unfused(self, program, data):
        values = graphs.run_keeping(program, self.unfused, data)
        for i, node in enumerate(program.nodes):
            self.check_node(program, i, node, values, data.get(i))
        return values

    def check_node(self, program, i, node, values, data):
        ins = [values[j] for j in node.ins]
        dtypes = [program.nodes[j].dtype for j in node.ins]
        name = self.name(program, f" %{i} {node.op}")
        got = to_storage(node.dtype, values[i])
        if node.op in COMPOSITES:
            self.report.check(got.shape == node.shape, name, lambda: f"the shape is {got.shape}, not {node.shape}")
            return
        if node.op in OPS and OPS[node.op].elementwise:
            compare_elementwise(self.report, node.op, reference.operand_dtype(node.op, dtypes), ins, got, name)
            return
        compare_exact(self.report, f"{name} {dtypes}", node.dtype, graphs.expected(node, ins, dtypes, data), got)

    def same_bits(self, program, way, values, outputs):
        for i, got in outputs.items():
            dtype = program.nodes[i].dtype
            right = np.shape(got) == np.shape(values[i]) and reference.check_exact(dtype, values[i], got)
            self.report.check(bool(np.all(right)), self.name(program, f" %{i} {way}"),
                              lambda: describe(right, (), values[i], got))

    def check_captured(self, program, values):
        other = self.other_data(program)
        other_values = self.check_unfused(program, other)
        for context, way in ((self.fused, "fused"), (self.unfused, "unfused")):
            first, second, third = graphs.run_captured(program, context, [{}, other, {}])
            self.same_bits(program, f"{way}, replayed", values, first)
            self.same_bits(program, f"{way}, replayed with others", other_values, second)
            self.same_bits(program, f"{way}, replayed again", values, third)
        self.report.notes["captured"] += 1


def operand_dtype(program, node):
    """The element type that the coverage counts: of the operands, where there are any."""
    if node.op in COMPOSITES and node.ins:
        return program.nodes[node.ins[0]].dtype
    if not node.ins or node.op == "cast":
        return node.dtype
    return program.nodes[node.ins[-1]].dtype


def worker(report, part):
    options, numbers, cache = part
    w = Worker(report, options, cache)
    try:
        for number in numbers:
            if options.deadline is not None and time.monotonic() > options.deadline:
                break
            w.run(number)
            report.notes["graphs"] += 1
    finally:
        w.close()


def part(numbers, members, i, jobs):
    """Whole families, every jobs-th of them."""
    return [n for n in numbers if n // members % jobs == i]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=int(os.environ.get("FUSION_ORACLE_GRAPHS", GRAPHS)))
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="number of the first graph, in whole families")
    parser.add_argument("--seconds", type=float, help="begin no graph later than this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=MEMBERS, help="graphs of one family")
    parser.add_argument("--every-type", action="store_true", help="each operation in all its element types, in the long run")
    parser.add_argument("--cache", help="folder of kernels to use and keep")
    parser.add_argument("--hashes", help="file for a line a graph: its number and the hash of its outputs' bits")
    parser.add_argument("--only", type=int, help="run this graph alone and print it")
    parser.add_argument("--strategy", choices=("cpu", "gpu"), help="form of the kernels; default: as the device needs")
    parser.add_argument("--interpreter", choices=("off", "auto", "always"), default="off",
                        help="which elementwise kernels run as bytecode")
    parser.add_argument("--jobs", type=int, default=harness.jobs_of_machine())
    options = parser.parse_args()
    # Of a slice one half, the next one's is the other.
    if os.environ.get("FUSION_SLICE") and options.graphs == GRAPHS and not options.first:
        options.graphs = GRAPHS // 2
        options.first = harness.slice_number() % 2 * options.graphs
    options.deadline = None if options.seconds is None else time.monotonic() + options.seconds
    return options


def print_notes(report, wanted, options, seconds):
    notes = report.notes
    count = notes["graphs"]
    if count < wanted:
        print(f"note: {wanted - count} of {wanted} graphs were not begun")
    report.print_worst()
    print(f"note: {notes['operations'] / max(1, count):.1f} operations a graph; {notes['output elements']} elements of outputs, "
          f"{100 * notes['different output elements'] / max(1, notes['output elements']):.0f} % of them different within theirs")
    off = ", ".join(f"{notes[f'without {name}']} without {name}" for name in PATTERNS)
    print(f"note: {count} graphs, {notes['reordered']} of them reordered, {notes['captured']} captured and replayed, "
          f"{notes['turned']} with knobs turned, "
          f"{notes['again']} asked for again ({notes['batches again']} batches in all had come before)"
          f"{', ' + off if off else ''}; seed {options.seed}, {seconds:.0f} s")


def write_hashes(report, path):
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{number} {digest}\n" for number, digest in sorted(report.hashes.items()))


def main():
    options = read_options()
    if options.every_type:
        graphs.every_type()
    jobs = 1 if options.only is not None else options.jobs
    numbers = [options.only] if options.only is not None else range(options.first, options.first + options.graphs)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fusion-oracle-cache-") as own:
        cache = options.cache or own
        parts = [(options, part(numbers, options.members, i, jobs), f"{cache}/{i}") for i in range(jobs)]
        report = harness.run(worker, parts, jobs)
    if options.only is None:
        report.check(report.notes["batches again"] > 0, "all", "no batch had the structure of an earlier one")
        report.print_coverage(pairs())
        report.print_hits(report.notes["graphs"] // 1000)
    if options.hashes:
        write_hashes(report, options.hashes)
    print_notes(report, len(numbers), options, time.monotonic() - started)
    return report.finish()


def pairs():
    """(operation, element type) that graphs may meet."""
    return [(name, dtype) for name in [*OPS, *COMPOSITES] for dtype in graphs.dtypes_of(name)]


if __name__ == "__main__":
    sys.exit(main())

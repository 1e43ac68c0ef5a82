"""Random graphs, fused and unfused, against each other bit for bit and against the reference node by node.

Each graph runs three ways: unfused with every value read back, each checked against the reference given the actual
values of its operands; fused, with random flushes and values released early, whose outputs must have the bits of
the unfused ones; and, for some, captured and replayed with two sets of inputs. A failure names the seed and the
number of the graph: --seed N --only NUMBER runs it alone and prints it.

Graphs come in families of --members (see graphs.py): --members 1 makes every graph another, and takes longer.
"""
import argparse
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
from tables import OPS

GRAPHS = 1000    # $FUSION_ORACLE_GRAPHS changes it
MEMBERS = 4
LISTED = 4       # failing graphs printed in full, for each worker


class Worker:
    def __init__(self, report, options, cache):
        self.report, self.options, self.cache = report, options, cache
        self.listed = 0
        self.daemon = None
        self.open()

    def open(self):
        self.daemon = fusion.Daemon(strategy=self.options.strategy, cache=self.cache)
        self.daemon.__enter__()
        self.fused = self.daemon.open(fusion=True)
        self.unfused = self.daemon.open(fusion=False)

    def close(self):
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
            if node.op in OPS:
                self.report.hit(node.op, operand_dtype(program, node))
        data = {}
        values = self.check_unfused(program, data)
        self.same_bits(program, "fused", values, graphs.run_outputs(program, self.fused, data))
        if program.capture:
            self.check_captured(program, values)

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
        other = {i: random_values(program.data, n.dtype, n.shape, 0.1) for i, n in enumerate(program.nodes) if n.op == "load"}
        other_values = self.check_unfused(program, other)
        for context, way in ((self.fused, "fused"), (self.unfused, "unfused")):
            first, second, third = graphs.run_captured(program, context, [{}, other, {}])
            self.same_bits(program, f"{way}, replayed", values, first)
            self.same_bits(program, f"{way}, replayed with others", other_values, second)
            self.same_bits(program, f"{way}, replayed again", values, third)
        self.report.notes["captured"] += 1


def operand_dtype(program, node):
    """The element type that the coverage counts: of the operands, where there are any."""
    if not node.ins or node.op == "cast":
        return node.dtype
    return program.nodes[node.ins[-1]].dtype


def worker(report, part):
    options, numbers, cache = part
    w = Worker(report, options, cache)
    try:
        for number in numbers:
            w.run(number)
    finally:
        w.close()


def part(numbers, members, i, jobs):
    """Whole families, every jobs-th of them."""
    return [n for n in numbers if n // members % jobs == i]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=int(os.environ.get("FUSION_ORACLE_GRAPHS", GRAPHS)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=MEMBERS, help="graphs of one family")
    parser.add_argument("--cache", help="folder of kernels to use and keep")
    parser.add_argument("--only", type=int, help="run this graph alone and print it")
    parser.add_argument("--strategy", choices=("cpu", "gpu"), help="form of the kernels; default: as the device needs")
    parser.add_argument("--jobs", type=int, default=harness.jobs_of_machine())
    options = parser.parse_args()
    jobs = 1 if options.only is not None else options.jobs
    numbers = [options.only] if options.only is not None else range(options.graphs)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fusion-oracle-cache-") as own:
        cache = options.cache or own
        parts = [(options, part(numbers, options.members, i, jobs), f"{cache}/{i}") for i in range(jobs)]
        report = harness.run(worker, parts, jobs)
    if options.only is None:
        report.print_hits(options.graphs // 100)
    report.print_worst()
    print(f"{len(numbers)} graphs, {report.notes['captured']} of them captured and replayed, seed {options.seed}, "
          f"{time.monotonic() - started:.0f} s")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

"""What the scripts of this folder share: values to feed in, comparing results, counting, and running in parallel.

A script makes Reports in worker processes, each with a daemon of its own, merges them and ends with finish():
the number of checks that passed and failed, and an exit code.
"""
import collections
import json
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback

import numpy as np

import fusion
import reference
from reference import FORMAT, REGISTER, STORAGE
from tables import COMPOSITES, DTYPES, OPS

# Failures printed in full; the others are only counted.
SHOWN = 60


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.messages = []
        self.hits = collections.Counter()      # (operation, element type)
        self.worst = {}                        # (function, element type): the largest error in units
        self.notes = collections.Counter()
        self.hashes = {}

    def check(self, right, name, message=""):
        if right:
            self.passed += 1
            return True
        self.failed += 1
        if len(self.messages) < SHOWN:
            self.messages.append(f"FAILED {name}: {message() if callable(message) else message}")
        return False

    def skip(self, name, reason):
        """A check that cannot be made here: neither passed nor failed."""
        self.skipped += 1
        print(f"skipped {name}: {reason}", flush=True)

    def hit(self, op, dtype):
        self.hits[op, dtype] += 1

    def merge(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.messages += other.messages
        self.hits += other.hits
        self.notes += other.notes
        self.hashes.update(other.hashes)
        for key, value in other.worst.items():
            self.worst[key] = max(self.worst.get(key, 0), value)

    def print_hits(self, least, types=tuple(DTYPES)):
        """How often each operation and each element type was met; fails where one was met less than `least`."""
        for title, position, names in (("operations", 0, OPS), ("element types", 1, types)):
            count = collections.Counter()
            for key, n in self.hits.items():
                count[key[position]] += n
            print(f"{title} hit: " + " ".join(f"{name} {count[name]}" for name in names))
            for name in names:
                self.check(count[name] >= least, f"coverage of {name}", f"hit {count[name]} times, not {least}")

    def print_coverage(self, pairs):
        """A row an operation, a column an element type; then the pairs that were never met."""
        print(f"{'times met':15}" + "".join(f"{name:>6}" for name in DTYPES))
        for op in [*OPS, *COMPOSITES]:
            counts = [str(self.hits[op, dtype] or ("-" if (op, dtype) in pairs else "")) for dtype in DTYPES]
            print(f"{op:15}" + "".join(f"{count:>6}" for count in counts))
        never = [f"{op} {dtype}" for op, dtype in pairs if not self.hits[op, dtype]]
        print(f"note: {len(pairs) - len(never)} of {len(pairs)} pairs of operation and element type met")
        print(f"never met: {', '.join(never) or 'none'}")

    def print_worst(self):
        if self.worst:
            print("largest errors in units of the last place, where they are not exact:")
            for dtype in ("f32", "f64"):
                found = sorted((k[0], v) for k, v in self.worst.items() if k[1] == dtype)
                print(f"  {dtype}: " + " ".join(f"{name} {value:.2f}" for name, value in found))

    def finish(self):
        for message in self.messages[:SHOWN]:
            print(message)
        if self.failed > SHOWN:
            print(f"... {self.failed} failures in all")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.stdout.flush()
        return 1 if self.failed or not self.passed else 0


def _guarded(arguments):
    worker, part = arguments
    report = Report()
    try:
        worker(report, part)
    except Exception:
        report.check(False, f"{worker.__name__} {part}", traceback.format_exc())
    return report


def run(worker, parts, jobs):
    """Calls worker(report, part) for each part in `jobs` processes, whose daemons find the kernels of those before
    them; the merged report."""
    total = Report()
    with tempfile.TemporaryDirectory(prefix="fusion-oracle-caches-") as caches, \
            multiprocessing.get_context("fork").Pool(jobs, os.environ.setdefault, (fusion.CACHES, caches)) as pool:
        for report in pool.imap_unordered(_guarded, [(worker, part) for part in parts], chunksize=1):
            total.merge(report)
    return total


def jobs_of_machine():
    return max(1, min(2, len(os.sched_getaffinity(0))))


# ---- the slice of the slow cases that a run takes: as tests/slice.h has it ----


def _slice():
    which, _, of = os.environ.get("FUSION_SLICE", "0/1").partition("/")
    return int(which) % int(of), int(of)


def slice_number():
    return _slice()[0]


def in_slice(number):
    which, of = _slice()
    return number % of == which


def in_part(number, parts):
    """A larger slice, one in `parts`, which divides the number of slices."""
    which, of = _slice()
    return of == 1 or number % parts == which % parts


# Of so many element types a run of a slice takes one: each costs kernels of its own for every operation.
TYPES_OF = 5


def types_in_turn(types, always):
    """`always`, and those of the slice."""
    return [t for i, t in enumerate(types) if t == always or in_part(i, TYPES_OF)]


def rotated(cases):
    """Those of the slice, by their places; one at least where there are any."""
    which, of = _slice()
    return list(cases[which::of]) or list(cases[which % max(1, len(cases)):][:1])


# ---- values ----


def special_reals(dtype):
    """Zeros, infinities, NaN, the smallest and largest, and places where functions turn."""
    digits, lowest, highest = FORMAT[dtype]
    smallest, normal = math.ldexp(1, lowest - digits + 1), math.ldexp(1, lowest)
    largest = math.ldexp(2 - math.ldexp(1, 1 - digits), highest)
    positive = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 6.0, smallest, normal, normal - smallest, largest, math.inf, math.nan, 0.1,
                math.pi / 2, 9.5, 88.7, 103.9, 709.7, 745.1, 1 - math.ldexp(1, -digits), 1 + math.ldexp(1, 1 - digits),
                math.ldexp(1, digits - 1) + 1, math.ldexp(1, digits), 300.0, 127.5, 2147483648.0]
    values = np.array([v for p in positive for v in (p, -p)])
    return reference.cast("f64", dtype, values)


def special_integers(dtype):
    info = np.iinfo(STORAGE[dtype])
    width = info.bits
    values = [0, 1, 2, 3, 5, 7, 10, width - 1, width, width + 1, info.max, info.max - 1, info.max // 2 + 1, info.min,
              info.min + 1, -1, -2, -3, -5, -7, -width, 100]
    return np.array([v for v in values if info.min <= v <= info.max], STORAGE[dtype])


def specials(dtype):
    """Register values that break what can be broken."""
    if dtype == "bool":
        return np.array([False, True])
    return special_reals(dtype) if reference.is_real(dtype) else special_integers(dtype)


def random_values(rng, dtype, shape, special=0.0):
    """Register values: mostly tame ones, some of any size, and a share of special ones."""
    count = math.prod(shape)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(np.bool_).reshape(shape)
    if reference.is_real(dtype):
        tame = rng.normal(size=count) * np.exp2(rng.integers(-3, 4, count))
        tame = np.where(rng.random(count) < 0.1, np.rint(tame), tame)
        values = reference.cast("f64", dtype, tame)
    else:
        info = np.iinfo(STORAGE[dtype])
        any_bits = rng.integers(0, 256, count * info.dtype.itemsize, dtype=np.uint8).view(info.dtype)
        small = rng.integers(max(-9, int(info.min)), 10, count).astype(info.dtype)
        values = np.where(rng.random(count) < 0.7, small, any_bits)
    if special and count:
        values = np.where(rng.random(count) < special, rng.choice(specials(dtype), count), values)
    return values.astype(REGISTER[dtype]).reshape(shape)


# ---- comparing ----


def broadcasts(shape, to):
    return len(shape) <= len(to) and all(m in (1, n) for m, n in zip(shape[::-1], to[::-1]))


def describe(right, operands, want, got):
    """The first wrong element: what went in, what came out, what should have."""
    shape = np.shape(got)
    if np.shape(right) != shape:
        return f"the shape is {shape}, not {np.shape(right)}"
    index = tuple(int(i) for i in np.argwhere(~np.asarray(right))[0])
    ins = [repr(np.broadcast_to(v, shape)[index]) if broadcasts(np.shape(v), shape) else "..." for v in operands]
    wrong = int(np.size(right) - np.count_nonzero(right))
    return f"{wrong} of {np.size(right)} wrong, first at {index}: inputs {', '.join(ins) or 'none'}: " \
           f"got {got[index]!r}, want {np.asarray(want)[index]!r}"


def compare_exact(report, name, dtype, want, storage, operands=()):
    """Counts one check of an exact result; True if it was right."""
    got = reference.to_register(dtype, storage)
    if got.shape != np.shape(want):
        return report.check(False, name, f"the shape is {got.shape}, not {np.shape(want)}")
    right = reference.check_exact(dtype, want, got)
    return report.check(bool(np.all(right)), name, lambda: describe(right, operands, want, got))


def compare_elementwise(report, op, dtype, operands, storage, name=None):
    """One check of op(operands), all of type `dtype` (where: the last two), against the reference."""
    name = f"{op} {dtype}" + (f" {name}" if name else "")
    result = OPS[op].result_dtype(dtype)
    if not reference.is_approximate(op, dtype):
        return compare_exact(report, name, result, reference.exact(op, dtype, operands), storage, operands)
    got = reference.to_register(result, storage)
    shape = np.broadcast_shapes(*[v.shape for v in operands])
    if got.shape != shape:
        return report.check(False, name, f"the shape is {got.shape}, not {shape}")
    right, want, worst = reference.check_approximate(op, dtype, operands, got)
    if dtype in ("f32", "f64"):
        report.worst[op, dtype] = max(report.worst.get((op, dtype), 0), worst)
    return report.check(bool(np.all(right)), name, lambda: describe(right, operands, want, got) + f", {worst:.2f} units")


# ---- PyTorch, in a Python that has it ----

TORCH = """
import json, sys
try:
    import torch
except ImportError:
    print("null")
    sys.exit(0)
import torch.nn.functional as F
torch.set_default_dtype(torch.float64)
"""


def ask_torch(python, script, questions):
    """What the script prints, which finds torch, F and json and reads the questions; None where there is no PyTorch."""
    answer = subprocess.run([python, "-c", TORCH + script], input=json.dumps(questions), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"PyTorch: {answer.stderr[-2000:]}")
    return json.loads(answer.stdout)

"""Every gradient text of ops.def, evaluated by the daemon in f64, against central differences.

The differences are taken of the oracle column, in long double, at random points where the function is smooth:
places where a derivative jumps or does not exist (documented in ops.def, or known of the function) are kept at a
distance. A text of 0 must belong to a function that is locally constant there; NONE is skipped and counted.
"""
import argparse
import sys

import numpy as np

import fusion
import harness
import reference
from reference import LONG
from tables import OPS

POINTS = 120
STEP = LONG(2) ** -14
TOLERANCE = 1e-9
# No derivative, or one that is not told by differences, nearer than this.
DISTANCE = 1e-2

# The open interval that each operand is drawn from, where it is not (-4, 4).
RANGES = {
    "sqrt": [(0.1, 5)], "rsqrt": [(0.1, 5)], "log": [(0.1, 5)], "log2": [(0.1, 5)], "log10": [(0.1, 5)],
    "log1p": [(-0.9, 5)], "asin": [(-0.95, 0.95)], "acos": [(-0.95, 0.95)], "atanh": [(-0.95, 0.95)],
    "acosh": [(1.1, 6)], "tan": [(-1.3, 1.3)], "pow": [(0.2, 4), (-3, 3)],
}
# Functions of the operands whose zeros are kept away from: (operation, operand of the gradient or None for all).
KINKS = {
    "abs": lambda a: [a], "sign": lambda a: [a], "relu": lambda a: [a], "reciprocal": lambda a: [a],
    "selu": lambda a: [a], "hardswish": lambda a: [a + 3, a - 3], "hardsigmoid": lambda a: [a + 3, a - 3],
    "floor": lambda a: [a - np.rint(a)], "ceil": lambda a: [a - np.rint(a)], "trunc": lambda a: [a - np.rint(a)],
    "round": lambda a: [a - np.floor(a) - 0.5],
    "div": lambda a, b: [b / 20], "maximum": lambda a, b: [a - b], "minimum": lambda a, b: [a - b],
    "floor_divide": lambda a, b: [b / 20, a / b - np.rint(a / b)], "remainder": lambda a, b: [b / 20, a / b - np.rint(a / b)],
    "atan2": lambda a, b: [a, b], "hypot": lambda a, b: [a * a + b * b], "copysign": lambda a, b: [a, b],
    "leaky_relu": lambda a, b: [a], "elu": lambda a, b: [a],
    "clamp": lambda a, b, c: [a - b, a - c, b - c],
}


class Text:
    """Evaluates a gradient text with the operations of a context; numbers stand for f64 scalars."""

    def __init__(self, context):
        self.context = context

    def array(self, value):
        return value if isinstance(value, fusion.Array) else self.context.scalar("f64", value)

    def operation(self, name):
        return lambda *operands: self.context.op(name, *[self.array(v) for v in operands])

    def evaluate(self, text, **names):
        functions = {name: self.operation(name) for name, op in OPS.items() if op.elementwise}
        return self.array(eval(text, {"__builtins__": {}, **functions}, names))


def smooth_points(rng, op):
    """Points of (-4, 4), or of the operation's range, away from its kinks."""
    ranges = RANGES.get(op.name, [(-4, 4)] * op.arity)
    found = [np.empty(0) for _ in range(op.arity)]
    while len(found[0]) < POINTS:
        points = [rng.uniform(low, high, 4 * POINTS) for low, high in ranges]
        kinks = KINKS[op.name](*points) if op.name in KINKS else []
        good = np.all([np.abs(k) > DISTANCE for k in kinks], axis=0) if kinks else np.ones(4 * POINTS, bool)
        found = [np.concatenate([f, p[good]]) for f, p in zip(found, points)]
    return [f[:POINTS] for f in found]


def difference(op, points, i):
    """d op / d operand i by central differences of fourth order, in long double."""
    def at(offset):
        moved = [p.astype(LONG) for p in points]
        moved[i] = moved[i] + offset
        if op.name == "where":
            moved[0] = points[0] > 0
        return np.asarray(reference.evaluate(op.name, **dict(zip("abc", moved))), LONG)

    near, far = at(STEP) - at(-STEP), at(2 * STEP) - at(-2 * STEP)
    return (8 * near - far) / (12 * STEP)


def check_operand(report, context, op, points, i):
    text, name = op.gradients[i], f"gradient of {op.name} for {'abc'[i]}"
    if text is None:
        report.notes["none"] += 1
        return
    rng = np.random.default_rng(op.id)
    g = rng.uniform(0.5, 2, POINTS) * rng.choice([-1, 1], POINTS)
    arrays = [context.array("f64", p) for p in points]
    if op.name == "where":
        arrays[0] = context.op("gt", arrays[0], context.scalar("f64", 0))
    names = dict(zip("abc", arrays), g=context.array("f64", g), y=context.op(op.name, *arrays))
    got = np.broadcast_to(Text(context).evaluate(text, **names).read(), (POINTS,))
    want = (difference(op, points, i) * g).astype(np.float64)
    right = np.abs(got - want) <= TOLERANCE * np.maximum(1, np.abs(want))
    report.check(bool(np.all(right)), name, lambda: harness.describe(right, points, want, got))
    report.hit(op.name, "f64")


def worker(report, part):
    names, strategy, seed = part
    with fusion.Daemon(strategy=strategy) as daemon, daemon.open() as context:
        for name in names:
            op = OPS[name]
            points = smooth_points(np.random.default_rng([seed, op.id]), op)
            for i in range(op.arity):
                check_operand(report, context, op, points, i)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=("cpu", "gpu"), help="form of the kernels; default: as the device needs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=harness.jobs_of_machine())
    options = parser.parse_args()
    names = [op.name for op in OPS.values() if op.elementwise and op.takes("f64")]
    parts = [(names[i::options.jobs], options.strategy, options.seed) for i in range(options.jobs)]
    report = harness.run(worker, parts, options.jobs)
    with_gradient = [n for n in names if any(OPS[n].gradients)]
    for name in with_gradient:
        report.check(report.hits[name, "f64"] > 0, f"coverage of {name}", "never hit")
    print(f"gradients of {len(with_gradient)} operations; {report.notes['none']} operands have none")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

"""Gradients where there is no derivative, or where it is easily lost: every operation beside PyTorch, point by point.

Bounds, ties, zeros of both signs, infinities and NaN. What PyTorch says is in the table grad_points.json, one line an
operation, so that the comparison needs no PyTorch: `PYTHON_WITH_TORCH test_grad_points.py --write` makes it. Where
PEERS_PYTHON names a Python that has PyTorch, that is asked instead, and the table must say the same. Where the library
differs on purpose, APART says at which points and why; a difference that is gone fails, too, so that the list stays true.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import sys

import numpy as np

import fusion
import harness
from tables import OPS

TABLE = pathlib.Path(__file__).with_name("grad_points.json")
SEED = 2.0
# PyTorch takes a sixth in f32.
TOLERANCE = 1e-7
INF, NAN = math.inf, math.nan

# Points of operations of one, two and three operands: all that can be made of these.
VALUES = {
    1: (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.5, 3.0, -3.0, 30.0, -30.0, INF, -INF, NAN),
    2: (0.0, -0.0, 1.0, -1.0, 2.0, -0.5, INF, -INF, NAN),
    3: (0.0, 1.0, -1.0, INF, -INF, NAN),
}

# Rows along which reductions and what is made of them go.
ROWS = (
    (1.0, 3.0, 3.0, -1.0), (2.0, 2.0, 2.0, 2.0), (0.0, -0.0, 0.0, -0.0), (1.0, 0.0, 2.0, 3.0), (0.0, 1.0, 0.0, 4.0), (INF, 1.0, -1.0, 0.5),
    (-INF, 1.0, -1.0, 0.5), (-INF, -INF, -INF, -INF), (INF, INF, 0.0, 1.0), (NAN, 1.0, 2.0, 3.0),
)

# What PyTorch calls an operation, of operands a, b and c.
ELEMENTWISE = {
    "abs": "a.abs()", "neg": "-a", "sign": "a.sign()", "square": "a.square()", "relu": "F.relu(a)", "sigmoid": "a.sigmoid()",
    "tanh": "a.tanh()", "gelu": "F.gelu(a)", "gelu_tanh": "F.gelu(a, approximate='tanh')", "sqrt": "a.sqrt()", "rsqrt": "a.rsqrt()",
    "reciprocal": "a.reciprocal()", "exp": "a.exp()", "expm1": "a.expm1()", "exp2": "a.exp2()", "log": "a.log()", "log1p": "a.log1p()",
    "log2": "a.log2()", "log10": "a.log10()", "erf": "a.erf()", "sin": "a.sin()", "cos": "a.cos()", "tan": "a.tan()", "asin": "a.asin()",
    "acos": "a.acos()", "atan": "a.atan()", "sinh": "a.sinh()", "cosh": "a.cosh()", "asinh": "a.asinh()", "acosh": "a.acosh()",
    "atanh": "a.atanh()", "floor": "a.floor()", "ceil": "a.ceil()", "round": "a.round()", "trunc": "a.trunc()", "selu": "F.selu(a)",
    "silu": "F.silu(a)", "softplus": "F.softplus(a, 1, 1e9)", "mish": "F.mish(a)", "hardswish": "F.hardswish(a)",
    "hardsigmoid": "F.hardsigmoid(a)",
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "maximum": "torch.maximum(a, b)", "minimum": "torch.minimum(a, b)",
    "pow": "a ** b", "floor_divide": "torch.div(a, b, rounding_mode='floor')", "remainder": "torch.remainder(a, b)",
    "atan2": "torch.atan2(a, b)", "hypot": "torch.hypot(a, b)", "copysign": "torch.copysign(a, b)", "logaddexp": "torch.logaddexp(a, b)",
    "leaky_relu": "torch.stack([F.prelu(x, w) for x, w in zip(a, b)])",
    "elu": "torch.stack([F.elu(x, w.item()) for x, w in zip(a, b)])",
    "clamp": "a.clamp(b, c)", "fma": "torch.addcmul(c, a, b)", "lerp": "torch.lerp(a, b, c)",
}

# Of an array of ROWS: what this library records, what PyTorch calls it.
CLASSES = np.arange(len(ROWS)) % len(ROWS[0])


def reduction(name):
    return lambda c, a: c.reduce(name, a, [1])


def scan(name):
    return lambda c, a: c.scan(name, a, 1)


def composite(name, *more, **attributes):
    return lambda c, a: c.call(name, a, *more, **attributes)


def pool(name, **attributes):
    return lambda c, a: c.call(name, c.reshape(a, (1, *a.shape)), **attributes)


def clamped(low, high):
    return lambda c, a: c.op("clamp", a, c.scalar("f64", low), c.scalar("f64", high))


ALONG_ROWS = {
    "clamp by numbers": (clamped(-1, 1), "a.clamp(-1, 1)"),
    "clamp from below by a number": (clamped(1, np.inf), "a.clamp(min=1)"),
    "clamp from above by a number": (clamped(-np.inf, 1), "a.clamp(max=1)"),
    "clamp by equal numbers": (clamped(1, 1), "a.clamp(1, 1)"),
    "clamp by numbers that crossed": (clamped(1, -1), "a.clamp(1, -1)"),
    "sum": (reduction("sum"), "a.sum(1)"), "mean": (reduction("mean"), "a.mean(1)"), "max": (reduction("max"), "a.amax(1)"),
    "min": (reduction("min"), "a.amin(1)"), "prod": (reduction("prod"), "a.prod(1)"),
    "cumsum": (scan("cumsum"), "a.cumsum(1)"), "cumprod": (scan("cumprod"), "a.cumprod(1)"),
    "cummax": (scan("cummax"), "a.cummax(1)[0]"), "cummin": (scan("cummin"), "a.cummin(1)[0]"),
    "softmax": (composite("softmax", axes=[1]), "F.softmax(a, 1)"), "log_softmax": (composite("log_softmax", axes=[1]), "F.log_softmax(a, 1)"),
    "logsumexp": (composite("logsumexp", axes=[1]), "a.logsumexp(1)"), "var": (composite("var", axes=[1], correction=1), "a.var(1)"),
    "std": (composite("std", axes=[1], correction=1), "a.std(1)"), "l1_norm": (composite("l1_norm", axes=[1]), "a.norm(1, 1)"),
    "l2_norm": (composite("l2_norm", axes=[1]), "a.norm(2, 1)"),
    "layer_norm": (composite("layer_norm", None, None, axes=[1], eps=1e-5), "F.layer_norm(a, (4,))"),
    "rms_norm": (composite("rms_norm", None, axes=[1], eps=1e-5), "F.rms_norm(a, (4,), None, 1e-5)"),
    "max_pool": (pool("max_pool", window=[2], stride=[1], padding=[1]), "F.max_pool1d(a[None], 2, 1, 1)"),
    "avg_pool": (pool("avg_pool", window=[2], stride=[2], padding=[0]), "F.avg_pool1d(a[None], 2)"),
    "cross_entropy": (lambda c, a: c.call("cross_entropy", a, c.array("i64", CLASSES), axes=[1]),
                      f"F.cross_entropy(a, torch.tensor({CLASSES.tolist()}), reduction='none')"),
    "sort": (lambda c, a: c.op("square", c.sort("sort", a, 1, False)), "a.sort(dim=1, stable=True)[0].square()"),
}


def is_nan(*operands):
    return np.any([np.isnan(v) for v in operands], axis=0)


# Where, by the operands, and why.
APART = {
    "abs": (is_nan, "NaN in, NaN out; PyTorch: 0"),
    "l1_norm": (is_nan, "as abs"),
    "selu": (is_nan, "NaN in, NaN out"),
    "elu": (lambda a, b: np.isnan(a) | (np.isinf(b) & (a < 0)), "NaN in, NaN out; a factor that is infinite"),
    "copysign": (lambda a, b: np.isinf(a), "the sign passes, PyTorch divides infinity by itself"),
    "remainder": (lambda a, b: np.isinf(a), "the remainder is NaN itself; PyTorch's gradient by b is NaN, too"),
    "prod": (lambda a: np.broadcast_to(~np.all(np.isfinite(a), axis=1, keepdims=True), a.shape), "what the others give is taken by division"),
    "max_pool": (lambda a: np.isneginf(a), "an element of -infinity ties with the border, which comes first"),
}
ALWAYS = ("relu", "maximum", "pow", "clamp", "clamp by numbers", "max")

PEER = """
answers = {}
for name, text, values, seed in json.load(sys.stdin):
    operands = dict(zip("abc", [torch.tensor(v, requires_grad=True) for v in values]))
    y = eval(text, {"torch": torch, "F": F, **operands})
    gradients = torch.autograd.grad(y, list(operands.values()), torch.full_like(y, seed), allow_unused=True)
    answers[name] = [None if g is None else g.tolist() for g in gradients]
json.dump({"version": torch.__version__, "answers": answers}, sys.stdout)
"""


def cases():
    """Name, function, PyTorch's text, operands."""
    for name, text in ELEMENTWISE.items():
        arity = OPS[name].arity
        points = zip(*itertools.product(VALUES[arity], repeat=arity))
        yield name, lambda c, *a, name=name: c.op(name, *a), text, [np.array(p) for p in points]
    for name, (function, text) in ALONG_ROWS.items():
        yield name, function, text, [np.array(ROWS)]


def ask(python):
    """PyTorch's gradients, or None where there is no PyTorch."""
    questions = [(name, text, [v.tolist() for v in values], SEED) for name, _, text, values in cases()]
    return harness.ask_torch(python, PEER, questions)


def write(python):
    said = ask(python)
    lines = [f'"version": {json.dumps(said["version"])}']
    lines += [f"{json.dumps(name)}: {json.dumps(gradients)}" for name, gradients in said["answers"].items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="ascii")


def expected():
    """What PyTorch says: the one that is here, else the one that made the table."""
    table = json.loads(TABLE.read_text(encoding="ascii"))
    said = ask(os.environ["PEERS_PYTHON"]) if "PEERS_PYTHON" in os.environ else None
    if said:
        print(f"beside PyTorch {said['version']}; the table is of {table['version']}")
        return said["answers"]
    print(f"note: beside what PyTorch {table['version']} said; PEERS_PYTHON names a Python that has one")
    return table


def near(a, b):
    return np.isclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def check(report, context, case, theirs):
    name, function, _, values = case
    arrays = [context.array("f64", v) for v in values]
    context.watch(*arrays)
    y = function(context, *arrays)
    seed = context.array("f64", np.full(y.shape, SEED))
    mine = [g.read() for g in context.grad(y, arrays, seed)]
    apart, why = APART.get(name, (None, ""))
    may_differ = apart(*values) if apart else np.zeros(values[0].shape, bool)
    differs = np.zeros(values[0].shape, bool)
    for i, (got, want) in enumerate(zip(mine, theirs)):
        if want is None:        # PyTorch has none
            continue
        want = np.array(want, np.float64)
        right = near(got, want)
        differs |= ~right
        report.check(bool(np.all(right | may_differ)), f"{name} by operand {i + 1}",
                     lambda: harness.describe(right | may_differ, values, want, got))
    report.check(not apart or bool(np.any(differs)), f"{name} is apart: {why}", "PyTorch says the same")


def worker(report, part):
    names, theirs = part
    with fusion.Daemon() as daemon, daemon.open() as context:
        for case in cases():
            if case[0] in names:
                check(report, context, case, theirs[case[0]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="makes the table anew, with the PyTorch of PEERS_PYTHON")
    parser.add_argument("--jobs", type=int, default=harness.jobs_of_machine())
    options = parser.parse_args()
    if options.write:
        write(os.environ.get("PEERS_PYTHON", sys.executable))
        return 0
    theirs, names = expected(), [c[0] for c in cases()]
    # Each is two kernels to compile: a run takes those that turn on ties and bounds, and a slice of the others.
    names = [n for n in names if n in ALWAYS] + harness.rotated([n for n in names if n not in ALWAYS])
    missing = {op.name for op in OPS.values() if op.elementwise and any(op.gradients)} - set(ELEMENTWISE) - {"where"}
    report = harness.run(worker, [(names[i::options.jobs], theirs) for i in range(options.jobs)], options.jobs)
    report.check(not missing, "every differentiable operation has a line", str(missing))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

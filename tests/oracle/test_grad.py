"""Gradients of fusion_grad(): against central differences in f64, against PyTorch, fused against unfused.

A case is a function of arrays, written once for fusion and once for PyTorch. The gradient of the sum of its elements times
a seed is compared with differences of fourth order along random directions and along single elements: all of the
function, which other scripts hold against NumPy, is evaluated by the daemon in f64. PyTorch, where there is one (in this
Python, or in the one that PEERS_PYTHON names), sees the same f64 values, and edge values too. What it has not is left out.
"""
import argparse
import os
import sys

import numpy as np

import fusion
import harness
from tables import OPS

STEP = 2.0 ** -10
TOLERANCE = 2e-7
DIRECTIONS = 2
PEER_TOLERANCE = 1e-9


class Case:
    """name; f(c, *arrays); the inputs: shapes, or arrays, or functions of a generator; PyTorch's text over a, b, c, d, F, torch."""

    def __init__(self, name, f, inputs, torch=None, fixed=(), edge=None, second=False):
        self.name, self.f, self.inputs, self.torch, self.fixed = name, f, inputs, torch, fixed
        self.edge, self.second = edge, second

    def values(self, seed):
        rng = np.random.default_rng([seed, sum(map(ord, self.name))])
        return [i(rng) if callable(i) else i if isinstance(i, np.ndarray) else rng.uniform(-2, 2, i) for i in self.inputs]


def positive(*shape):
    return lambda rng: rng.uniform(0.3, 2, shape)


def away(*shape):
    """Distinct, and not near 0: no ties, no kinks."""
    def make(rng):
        n = int(np.prod(shape))
        return ((rng.permutation(n) + 0.5 + 0.2 * rng.random(n)) / max(1, n) * 4 - 2).reshape(shape)
    return make


def index(values, dtype="i64"):
    return np.array(values, {"i64": np.int64, "i32": np.int32}[dtype])


def op(name, *more):
    return lambda c, *a: c.op(name, *a, *more)


def reduce(name, axes=None, keep=False):
    return lambda c, a: c.reduce(name, a, axes, keep)


def composite(name, **attributes):
    return lambda c, *a: c.call(name, *a, **attributes)


def network(c, a, b):
    """A small network: a product, gelu, a norm, a residual, softmax."""
    h = c.op("gelu", c.op("matmul", a, b))
    n = c.call("layer_norm", h, None, None, axes=[1], eps=1e-5)
    return c.call("softmax", c.op("add", n, h), axes=[1])


def constants(c, *values):
    return [c.array("i64" if v.dtype == np.int64 else "f64" if v.dtype == np.float64 else "bool", v) for v in values]


ZEROS = np.array([[0.5, 0.0, 2.0, -1.5], [0.0, 0.0, 1.0, 3.0], [1.5, -2.0, 0.25, 0.0]])
TIES = np.array([[1.0, 3.0, 3.0, -1.0], [2.0, 2.0, 2.0, 2.0], [0.0, -1.0, 5.0, 5.0]])
INDEX = index([[2, 0, -1], [1, 1, 7]])


def cases():
    yield Case("add broadcast", op("add"), [(3, 1, 5), (4, 1)], "a + b")
    yield Case("sub broadcast", op("sub"), [(5,), (2, 3, 5)], "a - b")
    yield Case("mul broadcast", op("mul"), [(3, 5), (3, 1)], "a * b", second=True)
    yield Case("mul by itself", lambda c, a: c.op("mul", a, a), [(7,)], "a * a", second=True)
    yield Case("div broadcast", op("div"), [(3, 5), positive(1, 5)], "a / b", second=True)
    yield Case("pow", op("pow"), [positive(3, 5), (5,)], "a ** b", second=True)
    yield Case("maximum", op("maximum"), [away(3, 5), (1, 5)], "torch.maximum(a, b)", edge=[TIES, TIES[:1]])
    yield Case("minimum", op("minimum"), [away(3, 5), (1, 5)], "torch.minimum(a, b)", edge=[TIES, TIES[:1]])
    yield Case("where", lambda c, a, b: c.op("where", c.op("gt", a, b), a, b), [(3, 5), (5,)], "torch.where(a > b, a, b)")
    yield Case("clamp", lambda c, a: c.op("clamp", a, c.scalar("f64", -1), c.scalar("f64", 1)), [away(17)], "a.clamp(-1, 1)",
               edge=[np.array([0.0, -1, 1, -2, 2, np.inf, -np.inf])])
    yield Case("relu", op("relu"), [away(17)], "F.relu(a)", edge=[np.array([0.0, -0.0, 1, -1, np.inf, -np.inf])])
    yield Case("abs", op("abs"), [away(17)], "a.abs()", edge=[np.array([0.0, -0.0, 1, -1])])
    for name, text in (("tanh", "a.tanh()"), ("sigmoid", "a.sigmoid()"), ("gelu", "F.gelu(a)"), ("silu", "F.silu(a)"),
                       ("gelu_tanh", "F.gelu(a, approximate='tanh')"), ("exp", "a.exp()"), ("sin", "a.sin()"), ("erf", "a.erf()"),
                       ("softplus", "F.softplus(a)"), ("mish", "F.mish(a)"), ("selu", "F.selu(a)"), ("square", "a.square()")):
        yield Case(name, op(name), [away(3, 7)], text, second=name in ("gelu", "tanh"))
    for name in ("log", "sqrt", "rsqrt", "reciprocal", "log1p", "log2"):
        yield Case(name, op(name), [positive(3, 7)], "1 / a" if name == "reciprocal" else f"a.{name}()", second=name == "log")
    yield Case("a chain", lambda c, a: c.op("tanh", c.op("mul", c.op("exp", c.op("sin", a)), a)), [(3, 5)],
               "((a.sin()).exp() * a).tanh()", second=True)
    yield Case("a value used thrice", lambda c, a: c.op("add", c.op("mul", c.op("exp", a), a), c.op("exp", a)), [(3, 5)],
               "a.exp() * a + a.exp()", second=True)
    for axes in (None, [1], [0, 2], [-1]):
        dims = f", dim={axes}" if axes else ""
        yield Case(f"sum over {axes}", reduce("sum", axes), [(3, 4, 5)], f"a.sum({dims[2:]})")
        yield Case(f"mean over {axes}", reduce("mean", axes, True), [(3, 4, 5)], f"a.mean({dims[2:]}{', keepdim=True' if axes else ''})")
        yield Case(f"max over {axes}", reduce("max", axes), [away(3, 4, 5)], f"a.amax({dims[2:]})")
    yield Case("max of ties", reduce("max", [1]), [away(3, 4)], "a.amax(1)", edge=[TIES])
    yield Case("min of ties", reduce("min", [0], True), [away(3, 4)], "a.amin(0, keepdim=True)", edge=[TIES])
    yield Case("prod", reduce("prod", [1]), [(3, 4)], "a.prod(1)", edge=[ZEROS], second=True)
    yield Case("cumsum", lambda c, a: c.scan("cumsum", a, 1), [(3, 5)], "a.cumsum(1)")
    yield Case("cumprod", lambda c, a: c.scan("cumprod", a, 1), [positive(3, 5)], "a.cumprod(1)", edge=[ZEROS], second=True)
    yield Case("cummax", lambda c, a: c.scan("cummax", a, 1), [away(3, 5)], "a.cummax(1)[0]", edge=[TIES])
    yield Case("cummin", lambda c, a: c.scan("cummin", a, 0), [away(3, 5)], "a.cummin(0)[0]", edge=[TIES])
    yield from views()
    yield from gathers()
    yield from products()
    yield from composites()
    yield from windows()


def views():
    yield Case("reshape", lambda c, a: c.op("square", c.reshape(a, (5, 6))), [(2, 3, 5)], "a.reshape(5, 6).square()", second=True)
    yield Case("permute", lambda c, a: c.op("exp", c.permute(a, (2, 0, 1))), [(2, 3, 5)], "a.permute(2, 0, 1).exp()", second=True)
    yield Case("broadcast", lambda c, a: c.op("sin", c.broadcast(a, (4, 3, 5))), [(3, 1)], "a.expand(4, 3, 5).sin()")
    yield Case("slice", lambda c, a: c.op("square", c.slice(a, [slice(1, 3), slice(None, -1)])), [(4, 5)], "a[1:3, :-1].square()", second=True)
    yield Case("slice in steps", lambda c, a: c.op("square", c.slice(a, [slice(None, None, 2), slice(7, 0, -3)])), [(5, 9)],
               "a[::2].flip(1)[:, 1:8:3].square()")
    yield Case("an empty slice", lambda c, a: c.op("square", c.slice(a, [slice(2, 2), slice(None)])), [(4, 5)], "a[2:2].square()")
    yield Case("flip", lambda c, a: c.op("exp", c.flip(a, (0, 1))), [(3, 5)], "a.flip(0, 1).exp()")
    yield Case("copy and cast", lambda c, a: c.cast(c.copy(c.op("sin", a)), "f64"), [(3, 5)], "a.sin()")
    yield Case("pad", lambda c, a, b: c.op("square", c.pad(a, [(1, 0), (2, 3)], b)), [(3, 4), ()], None)
    yield Case("concat", lambda c, a, b: c.op("square", c.join("concat", [a, b, a], 1)), [(3, 2), (3, 5)], "torch.cat([a, b, a], 1).square()")
    yield Case("stack", lambda c, a, b: c.op("exp", c.join("stack", [a, b], -1)), [(3, 2), (3, 2)], "torch.stack([a, b], -1).exp()")
    yield Case("tile", lambda c, a: c.op("exp", c.tile(a, (2, 3))), [(3, 2)], "a.tile(2, 3).exp()")
    yield Case("repeat", lambda c, a: c.op("exp", c.repeat(a, 3, 0)), [(3, 2)], "a.repeat_interleave(3, 0).exp()")
    yield Case("roll", lambda c, a: c.op("exp", c.roll(a, 2, 1)), [(3, 5)], "a.roll(2, 1).exp()")
    yield Case("dropout", lambda c, a: c.dropout(a, 0.3, 7), [(5, 9)], None)


def gathers():
    yield Case("take", lambda c, a: c.op("square", c.gather("take", a, c.array("i64", INDEX), 1)), [(2, 5, 3)], None, second=True)
    yield Case("take_along", lambda c, a: c.op("square", c.gather("take_along", a, c.array("i64", INDEX), 1)), [(2, 5)], None, second=True)
    yield Case("take_along broadcast", lambda c, a: c.op("square", c.gather("take_along", a, c.array("i64", INDEX), 1)), [(1, 5)], None)
    yield Case("put_along", lambda c, a, b: c.op("square", c.scatter("put_along", a, c.array("i64", INDEX), b, 1)), [(2, 5), (2, 3)], None)
    yield Case("add_along", lambda c, a, b: c.op("square", c.scatter("add_along", a, c.array("i64", INDEX), b, 1)), [(2, 5), (2, 3)], None)
    yield Case("embedding", lambda c, a: c.op("square", c.call("embedding", a, c.array("i64", index([[1, 0, 3], [3, 3, -1]])))), [(4, 5)],
               "F.embedding(torch.tensor([[1, 0, 3], [3, 3, 3]]), a).square()")
    yield Case("sort", lambda c, a: c.op("square", c.sort("sort", a, 1, True)), [away(3, 7)], "a.sort(1, descending=True)[0].square()")
    yield Case("topk", lambda c, a: c.op("exp", c.topk(a, 3, 1)[0]), [away(3, 9)], "a.topk(3, 1)[0].exp()")


def products():
    yield Case("matmul", op("matmul"), [(5, 3), (3, 7)], "a @ b", second=True)
    yield Case("matmul of transposed", lambda c, a, b: c.op("matmul", c.transpose(a), c.transpose(b)), [(3, 5), (7, 3)], "a.T @ b.T")
    yield Case("matmul of a vector", op("matmul"), [(3,), (3, 7)], "a @ b")
    yield Case("matmul with a vector", op("matmul"), [(5, 3), (3,)], "a @ b")
    yield Case("batched matmul", op("matmul"), [(2, 5, 3), (2, 3, 4)], "a @ b")
    yield Case("batched matmul broadcast", op("matmul"), [(2, 1, 5, 3), (4, 3, 2)], "a @ b", second=True)
    yield Case("matmul of many by one", op("matmul"), [(2, 4, 5, 3), (3, 2)], "a @ b")
    yield Case("matmul of one by many", op("matmul"), [(5, 3), (4, 3, 2)], "a @ b")
    yield Case("linear", composite("linear"), [(5, 3), (7, 3), (7,)], "F.linear(a, b, c)", second=True)
    yield Case("linear of a batch", composite("linear"), [(2, 5, 3), (7, 3)], "F.linear(a, b)")
    yield Case("outer", composite("outer"), [(5,), (3,)], "torch.outer(a, b)")
    yield Case("vecdot", composite("vecdot", axes=[1]), [(5, 3), (5, 3)], "torch.linalg.vecdot(a, b)")
    yield Case("vecdot with itself", lambda c, a: c.call("vecdot", a, a, axes=[1]), [(5, 3)], "torch.linalg.vecdot(a, a)")
    yield Case("a small network", network, [(3, 4), (4, 5)],
               "(lambda h: F.softmax(F.layer_norm(h, (5,)) + h, 1))(F.gelu(a @ b))", second=True)


def composites():
    yield Case("softmax", composite("softmax", axes=[1]), [(3, 5)], "F.softmax(a, 1)", second=True)
    yield Case("log_softmax", composite("log_softmax", axes=[0]), [(3, 5)], "F.log_softmax(a, 0)", second=True)
    yield Case("logsumexp", composite("logsumexp", axes=[1]), [(3, 5)], "a.logsumexp(1)", second=True)
    yield Case("var", composite("var", axes=[1], correction=1), [(3, 5)], "a.var(1)")
    yield Case("std", composite("std", axes=[0], keepdims=True, correction=1), [(3, 5)], "a.std(0, keepdim=True)", edge=[np.ones((3, 4))])
    yield Case("l1_norm", composite("l1_norm", axes=[1]), [away(3, 5)], "a.norm(1, 1)", edge=[ZEROS])
    yield Case("l2_norm", composite("l2_norm", axes=[1]), [(3, 5)], "a.norm(2, 1)", edge=[ZEROS * 0])
    yield Case("layer_norm", composite("layer_norm", axes=[1], eps=1e-5), [(3, 5), (5,), (5,)], "F.layer_norm(a, (5,), b, c)", second=True)
    yield Case("rms_norm", composite("rms_norm", axes=[2], eps=1e-5), [(2, 3, 5), (5,)], "F.rms_norm(a, (5,), b, 1e-5)")
    yield Case("group_norm", composite("group_norm", groups=2, eps=1e-5), [(2, 4, 3), (4,), (4,)], "F.group_norm(a, 2, b, c)")
    yield Case("batch_norm", composite("batch_norm", axes=[1], eps=1e-5), [(3, 4, 2), (4,), positive(4), (4,), (4,)],
               "(a - b[:, None]) / (c[:, None] + 1e-5).sqrt() * d[:, None] + e[:, None]")
    yield Case("cross_entropy", lambda c, a: c.call("cross_entropy", a, c.array("i64", index([1, 4, 0])), axes=[1]), [(3, 5)],
               "F.cross_entropy(a, torch.tensor([1, 4, 0]), reduction='none')", second=True)
    yield Case("cross_entropy without a class", lambda c, a: c.call("cross_entropy", a, c.array("i64", index([1, -1, 9])), axes=[1]), [(3, 5)], None)
    yield Case("tril", composite("tril", diagonal=1), [(4, 5)], "a.tril(1)")
    yield Case("triu", composite("triu", diagonal=0), [(4, 5)], "a.triu()")
    yield Case("attention", composite("attention"), [(2, 5, 4), (2, 7, 4), (2, 7, 3)],
               "F.scaled_dot_product_attention(a[:, None], b[:, None], c[:, None])[:, 0]")
    yield Case("causal attention", composite("attention", causal=True, scale=0.7), [(2, 6, 4), (2, 6, 4), (2, 6, 4)],
               "F.scaled_dot_product_attention(a[:, None], b[:, None], c[:, None], is_causal=True, scale=0.7)[:, 0]")
    yield Case("attention with a mask", composite("attention"), [(5, 4), (7, 4), (7, 3), (5, 7)],
               "F.softmax(a @ b.T / 2 + d, -1) @ c")


def windows():
    yield Case("windows", lambda c, a: c.op("square", c.windows(a, 1, 3, 2)), [(2, 9, 2)], "a.unfold(1, 3, 2).square()")
    yield Case("dilated windows", lambda c, a: c.op("square", c.windows(a, 0, 3, 2, 2)), [(11, 2)], None)
    yield Case("conv of lines", composite("conv", stride=[2], padding=[1], dilation=[1]), [(2, 3, 9), (4, 3, 3), (4,)],
               "F.conv1d(a, b, c, 2, 1)")
    yield Case("conv of images", composite("conv", stride=[1, 2], padding=[1, 0], dilation=[2, 1]), [(2, 3, 7, 6), (4, 3, 3, 2), (4,)],
               "F.conv2d(a, b, c, (1, 2), (1, 0), (2, 1))")
    yield Case("conv of groups", composite("conv", stride=[1], padding=[2], dilation=[1], groups=2), [(2, 4, 7), (6, 2, 3)],
               "F.conv1d(a, b, None, 1, 2, 1, 2)")
    yield Case("conv + bn + relu", conv_bn_relu, [(2, 3, 6), (4, 3, 3), (4,), positive(4)],
               "F.relu((F.conv1d(a, b, None, 1, 1) - c[:, None]) / (d[:, None] + 1e-5).sqrt())")
    yield Case("max_pool", composite("max_pool", window=[2, 2], stride=[2, 2], padding=[0, 0]), [away(2, 2, 6, 4)],
               "F.max_pool2d(a, 2)", edge=[np.repeat(np.repeat(TIES[None, None], 2, 2), 2, 3)])
    yield Case("max_pool that overlaps", composite("max_pool", window=[3], stride=[2], padding=[1]), [away(2, 2, 8)], "F.max_pool1d(a, 3, 2, 1)",
               edge=[TIES[None]])
    yield Case("avg_pool", composite("avg_pool", window=[3, 2], stride=[2, 1], padding=[1, 0]), [(2, 2, 7, 4)],
               "F.avg_pool2d(a, (3, 2), (2, 1), (1, 0))")


def conv_bn_relu(c, a, b, mean, variance):
    y = c.call("conv", a, b, stride=[1], padding=[1], dilation=[1])
    return c.op("relu", c.call("batch_norm", y, mean, variance, axes=[1], eps=1e-5))


def elementwise():
    """All of the table, each text applied by the library."""
    import test_gradients
    for row in OPS.values():
        if not row.elementwise or not row.takes("f64") or row.name == "where" or not any(row.gradients):
            continue
        points = test_gradients.smooth_points(np.random.default_rng(row.id), row)
        wanted = [i for i, g in enumerate(row.gradients) if g is not None]
        yield Case(f"elementwise {row.name}", op(row.name), [p[:21] for p in points], fixed=[i for i in range(row.arity) if i not in wanted])


# ---- evaluating ----


def evaluate(context, case, values):
    return case.f(context, *[context.array("f64", v) for v in values]).read()


def gradients(context, case, values, seed):
    arrays = [context.array("f64", v) for v in values]
    watched = [a for i, a in enumerate(arrays) if i not in case.fixed]
    context.watch(*watched)
    y = case.f(context, *arrays)
    return [g.read() for g in context.grad(y, watched, context.array("f64", seed))]


def directions(rng, values):
    for _ in range(DIRECTIONS):
        yield [rng.choice([-1.0, 1.0], v.shape) for v in values]
    for i, v in enumerate(values):
        one = [np.zeros(w.shape) for w in values]
        if v.size:
            one[i].flat[rng.integers(v.size)] = 1
            yield one


def difference(function, values, direction, seed):
    def at(t):
        return float(np.sum(function([v + t * d for v, d in zip(values, direction)]) * seed))
    return (8 * (at(STEP) - at(-STEP)) - (at(2 * STEP) - at(-2 * STEP))) / (12 * STEP)


def check_differences(report, name, function, values, grads, seed, fixed=()):
    rng = np.random.default_rng(5)
    for direction in directions(rng, values):
        for i in fixed:
            direction[i][...] = 0
        moving = [d for i, d in enumerate(direction) if i not in fixed]
        if not any(np.any(d) for d in moving):
            continue
        want = difference(function, values, direction, seed)
        got = float(sum(np.sum(g * d) for g, d in zip(grads, moving)))
        scale = 1 + sum(float(np.sum(np.abs(g * d))) for g, d in zip(grads, moving))
        report.check(abs(got - want) <= TOLERANCE * scale, name, f"along a direction {got:.12g}, the difference is {want:.12g}")


def same_bits(a, b):
    return all(np.array_equal(np.nan_to_num(x, nan=7).view(np.uint64), np.nan_to_num(y, nan=7).view(np.uint64)) for x, y in zip(a, b))


def seed_of(shape, number):
    rng = np.random.default_rng(number)
    return rng.uniform(0.5, 2, shape) * rng.choice([-1.0, 1.0], shape)


def check_second(report, context, case, values):
    """The gradient of <gradient, v> against differences of the gradient."""
    shape = evaluate(context, case, values).shape
    seed, along = seed_of(shape, 3), [seed_of(v.shape, 4 + i) for i, v in enumerate(values)]

    def first(moved):
        return np.concatenate([(g * a).ravel() for g, a in zip(gradients(context, case, moved, seed), along)])

    arrays = [context.array("f64", v) for v in values]
    context.watch(*arrays)
    y = case.f(context, *arrays)
    grads = context.vjp([y], [context.array("f64", seed)], arrays, watch=True)
    second = context.vjp(grads, [context.array("f64", a) for a in along], arrays)
    check_differences(report, f"second derivative of {case.name}", first, values, [g.read() for g in second], 1.0)


def check_case(report, context, unfused, case):
    values = case.values(1)
    seed = seed_of(evaluate(context, case, values).shape, 2)
    grads = gradients(context, case, values, seed)
    check_differences(report, case.name, lambda moved: evaluate(context, case, moved), values, grads, seed, case.fixed)
    plain = gradients(unfused, case, values, seed)
    report.check(same_bits(grads, plain), case.name, "fused and unfused differ")
    if case.second:
        check_second(report, context, case, values)
    report.notes["cases"] += 1


def worker(report, part):
    names, strategy = part
    chosen = [c for c in [*cases(), *elementwise()] if c.name in names]
    with fusion.Daemon(strategy=strategy) as daemon, daemon.open() as context, daemon.open(fusion=False) as unfused:
        for case in chosen:
            try:
                check_case(report, context, unfused, case)
            except fusion.FusionError as error:
                report.check(False, case.name, str(error))


# ---- PyTorch ----

PEER = """
answers = []
for text, values, seed in json.load(sys.stdin):
    names = dict(zip("abcde", [torch.tensor(v, requires_grad=True) for v in values]))
    inputs = list(names.values())
    y = eval(text, {"torch": torch, "F": F}, names) if "lambda" not in text else eval(text, {"torch": torch, "F": F, **names})
    g = torch.autograd.grad(y, inputs, torch.tensor(seed).reshape(y.shape))
    answers.append([x.tolist() for x in g])
json.dump(answers, sys.stdout)
"""


def ask_peer(questions):
    """PyTorch's gradients of (text, values, seed), or None where there is no PyTorch."""
    return harness.ask_torch(os.environ.get("PEERS_PYTHON", sys.executable), PEER, questions)


def peer_cases():
    for case in harness.rotated(list(cases())):
        if case.torch:
            yield case, case.values(1), case.name
            if case.edge is not None:
                yield case, case.edge, f"{case.name} at its edges"


def check_peer(report):
    asked, mine = [], []
    with fusion.Daemon() as daemon, daemon.open() as context:
        for case, values, name in peer_cases():
            seed = seed_of(evaluate(context, case, values).shape, 2)
            asked.append((case.torch, [v.tolist() for v in values], seed.tolist()))
            mine.append((name, gradients(context, case, values, seed)))
    answers = ask_peer(asked)
    if answers is None:
        for name, grads in mine:
            for _ in grads:
                report.skip(f"{name} as PyTorch has it", "there is no PyTorch; set PEERS_PYTHON to a Python that has it")
        return
    for (name, grads), theirs in zip(mine, answers):
        for got, want in zip(grads, theirs):
            want = np.array(want, np.float64).reshape(got.shape)
            right = np.isclose(got, want, rtol=PEER_TOLERANCE, atol=PEER_TOLERANCE, equal_nan=True)
            report.check(bool(np.all(right)), f"{name} as PyTorch has it", lambda: harness.describe(right, [], want, got))
    print(f"compared {len(mine)} gradients with PyTorch")


# ---- what else holds ----


def refusal(action):
    try:
        action()
    except fusion.FusionError as error:
        return error.sentence
    return "nothing was refused"


def check_refusals(report, context):
    a, n = context.array("f32", np.ones((2, 3), "f4")), context.array("i64", np.arange(3))
    context.watch(a)
    for action, said in ((lambda: context.watch(n), "i64"),
                         (lambda: context.grad(context.call("argmax", a), [a]), "argmax"),
                         (lambda: context.grad(context.cast(context.op("gt", a, a), "f32"), [a]), "gt"),
                         (lambda: context.grad(context.op("exp", a), [context.array("f32", np.ones(2, "f4"))]), "watch"),
                         (lambda: context.grad(context.op("exp", a), [a], context.array("f32", np.ones(2, "f4"))), "seed")):
        sentence = refusal(action)
        report.check(said in sentence, f"refusal that says {said}", sentence)
    y = context.op("exp", a)
    context.grad(y, [a])
    report.check("FUSION_GRAD_KEEP" in refusal(lambda: context.grad(y, [a])), "a record is used once", "it was not refused")


def check_uses(report, context):
    """stop_gradient, values in between, unused inputs, captures, definitions, checkpoints, flushes in between."""
    values = np.linspace(-1, 1, 12).reshape(3, 4)
    a, b = context.array("f64", values), context.array("f64", values)
    context.watch(a, b)
    h = context.op("exp", a)
    y = context.op("mul", h, context.stop_gradient(context.op("sin", a)))
    by_h, by_a, by_b = [g.read() for g in context.grad(y, [h, a, b])]
    report.check(np.allclose(by_h, np.sin(values)), "by a value in between", str(by_h))
    report.check(np.allclose(by_a, np.sin(values) * np.exp(values)), "behind stop_gradient", str(by_a))
    report.check(not np.any(by_b), "by what it does not depend on", str(by_b))

    def network(x, sync):
        for _ in range(3):
            x = context.op("tanh", context.op("matmul", context.op("gelu", x), weight))
            if sync:
                context.sync()
        return x

    weight = context.array("f64", np.linspace(-1, 1, 16).reshape(4, 4))
    context.watch(weight)
    plain = [g.read() for g in context.grad(network(a, False), [a, weight])]
    flushed = [g.read() for g in context.grad(network(a, True), [a, weight])]
    report.check(same_bits(plain, flushed), "what was sent before gives the same bits", "they differ")
    before = context.kept_bytes()[0]
    y = network(a, True)
    kept = context.kept_bytes()[0] - before
    context.grad(y, [a])
    report.check(context.kept_bytes()[0] <= before, "what was kept is let go", str(context.kept_bytes()))
    with context.checkpoint():
        y = network(a, True)
    less = context.kept_bytes()[0] - before
    report.check(less < kept, "a checkpoint keeps less", f"{less} of {kept} bytes")
    again = [g.read() for g in context.grad(y, [a, weight])]
    report.check(same_bits(plain, again), "a checkpoint gives the same bits", "they differ")
    with context.no_grad():
        y = network(a, False)
    report.check("watch" in refusal(lambda: context.grad(y, [a])), "no_grad records nothing", "it was not refused")

    context.capture_begin([a, weight])
    graph = context.capture_end(context.grad(network(a, False), [a, weight]))
    report.check(same_bits(plain, [g.read() for g in graph.replay([a, weight])]), "a capture holds the backward pass", "they differ")

    context.define_op("twice(x)", "x + x", ["g * 5"])
    report.check(np.all(context.grad(context.call("twice", a), [a])[0].read() == 5), "a definition's own gradient", "it is not used")
    context.define_op("thrice(x)", "x * 3")
    report.check(np.all(context.grad(context.call("thrice", a), [a])[0].read() == 3), "a definition without one", "its parts are not used")
    for dtype, eps in (("f16", 2e-3), ("bf16", 2e-2), ("f32", 1e-6)):
        narrow = context.cast(context.array("f64", values), dtype)
        context.watch(narrow)
        g = context.grad(context.op("tanh", context.op("mul", narrow, narrow)), [narrow])[0]
        report.check(g.dtype == dtype, f"gradient of {dtype}", g.dtype)
        got = context.cast(g, "f64").read()
        want = (1 - np.tanh(values ** 2) ** 2) * 2 * values
        report.check(np.allclose(got, want, atol=4 * eps), f"values of {dtype}", str(got - want))
    w = context.array("f64", values)
    context.watch(w)
    for _ in range(3):
        g = context.grad(context.op("square", w), [w])[0]
        w.copy_into(context.op("sub", w, context.op_scalar("mul", g, 0.1)))
    report.check(np.allclose(w.read(), values * 0.8 ** 3), "a loop of descent", str(w.read()))


# Queries by keys: three blocks of the backward pass (client/kept.c), the last one shorter.
QUERIES, KEYS, WIDTH = 40, 16384, 4


def attention_gradients(q, k, v, g, scale, causal):
    s = q @ k.T * scale
    if causal:
        s = np.where(np.arange(KEYS) <= np.arange(QUERIES)[:, None], s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    d = p * (g @ v.T - np.sum(g * (p @ v), 1, keepdims=True)) * scale
    return d @ k, d.T @ q, p.T @ g


def check_attention(report, context):
    """Gradients over several blocks of queries, in NumPy's formula; and that nothing as large as the scores is kept for them."""
    rng = np.random.default_rng(11)
    values = [rng.uniform(-1, 1, (n, WIDTH)) for n in (QUERIES, KEYS, KEYS)]
    g = rng.uniform(-1, 1, (QUERIES, WIDTH))
    for causal in (False, True):
        arrays = [context.array("f64", v) for v in values]
        context.watch(*arrays)
        y = context.call("attention", *arrays, causal=causal, scale=0.5)
        y.read()        # sent: what the backward pass needs must have been kept
        kept = context.kept_bytes()[0]
        made = context.grad(y, arrays, context.array("f64", g))
        name = "causal attention of blocks" if causal else "attention of blocks"
        report.check(kept < 8 * QUERIES * KEYS, f"{name} keeps no scores", f"{kept} bytes")
        for i, (got, want) in enumerate(zip(made, attention_gradients(*values, g, 0.5, causal))):
            right = np.isclose(got.read(), want, rtol=1e-9, atol=1e-12)
            report.check(bool(np.all(right)), f"{name} by {'qkv'[i]}", lambda: harness.describe(right, [], want, got.read()))


def check_rest(report, part):
    if part == "peer":
        check_peer(report)
        return
    with fusion.Daemon() as daemon, daemon.open() as context:
        check_refusals(report, context)
        check_uses(report, context)
        check_attention(report, context)


def work(report, part):
    (check_rest if isinstance(part, str) else worker)(report, part)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=("cpu", "gpu"), help="form of the kernels; default: as the device needs")
    parser.add_argument("--only", help="a case's name")
    parser.add_argument("--jobs", type=int, default=harness.jobs_of_machine())
    options = parser.parse_args()
    # A case is compiled fused and unfused, forwards and backwards: a run takes a slice of them.
    if options.only:
        parts = [([options.only], options.strategy)]
    else:
        special, simple = [c.name for c in cases()], [c.name for c in elementwise()]
        parts = [(harness.rotated(special), options.strategy), (harness.rotated(simple), options.strategy), "rest", "peer"]
    report = harness.run(work, parts, options.jobs)
    print(f"{report.notes['cases']} cases of gradients")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())

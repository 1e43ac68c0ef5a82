"""Bytecode and generic kernels against the kernels of the operations themselves: the same bits.

One daemon runs every step as bytecode or by a generic kernel (fusion.interpreter=always), one never does. What is
reduced and multiplied here lies in every way there is a rule for: whole, rows, leading axes, axes between, blocks of long
rows, strides, broadcasts, nothing at all. A slice of it runs in the kernels' form for GPUs, too.
"""
import argparse
import itertools
import json
import sys

import numpy as np

import fusion
import harness
from reference import STORAGE

# Of so many cases a run takes one: each is a kernel to build. tests/run_graphs.c compares the tiers in whole graphs.
CASES_OF = 5
SPECIAL = [0.0, -0.0, 1.0, -1.5, 3e38, -3e38, 1e-40, np.inf, -np.inf, np.nan]


def values(dtype, shape, special=True):
    """Special values at every seventh place of floats; extremes of integers."""
    rng = np.random.default_rng(np.prod(shape, dtype=int) + len(dtype))
    n = int(np.prod(shape, dtype=int))
    kind = np.dtype(STORAGE[dtype])
    if dtype in ("f32", "f64", "f16", "bf16"):
        x = rng.standard_normal(n)
        if special:
            x[::7] = np.resize(SPECIAL, len(x[::7]))
        with np.errstate(over="ignore"):
            if dtype == "bf16":
                return (x.astype("f4").view("u4") >> 16).astype("u2").reshape(shape)
            return x.astype("f2" if dtype == "f16" else kind).view(kind).reshape(shape)
    if dtype == "bool":
        return (rng.random(n) < 0.5).astype(kind).reshape(shape)
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)
    return (x if special else x % 100).reshape(shape)


def leaf(c, dtype, shape, special=True):
    return c.array(dtype, values(dtype, shape, special))


def strided(c, x):
    """Every second row, backwards."""
    return c.flip(c.slice(x, [slice(None, None, 2)] + [slice(None)] * (len(x.shape) - 1)), (0,))


def reductions(dtype):
    names = ["sum", "prod", "any", "all"] + ([] if dtype == "bool" else ["max", "min"])
    if dtype in ("f32", "f64", "f16", "bf16"):
        names.append("mean")
    if dtype != "f32":
        names = names[-2:]
    shapes = [((5, 70), (1,)), ((70, 5), (0,)), ((3, 9, 20), (0, 2)), ((4, 9, 20), (1,)), ((600,), None), ((1, 1), (1,))]

    def case(name, shape, axes):
        return lambda c: c.reduce(name, leaf(c, dtype, shape), axes)

    return [case(name, *shapes[(i + k) % len(shapes)]) for i, name in enumerate(names) for k in range(2 if i < 2 else 1)]


def rows(c, shape=(12, 50), axis=(1,)):
    x = leaf(c, "f32", shape, special=False)
    centred = c.op("sub", x, c.reduce("mean", x, axis, True))
    scale = c.op("sqrt", c.op_scalar("add", c.reduce("mean", c.op("square", centred), axis, True), 1e-5))
    return c.op("div", centred, scale)


def both_spaces(c):
    """Results once a row and once an element, before and after the reduction."""
    x, y = leaf(c, "f32", (12, 50)), leaf(c, "f32", (12, 1))
    low = c.op("neg", y)
    e = c.op("exp", c.op("sub", x, c.op("mul", low, c.reduce("max", x, (1,), True))))
    return [low, e, c.reduce("sum", e, (1,), True), c.reduce("sum", x, (1,))]


def softmax(c, shape, axis, dtype="f32"):
    return c.call("softmax", leaf(c, dtype, shape), axes=(axis,))


def product(c, dtype, a, b, special=True):
    return c.op("matmul", leaf(c, dtype, a, special), leaf(c, dtype, b, special))


def linear(c, m=50, k=33, n=130):
    x, w = leaf(c, "f32", (m, k)), leaf(c, "f32", (k, n))
    return c.op("relu", c.op("add", c.op("add", c.op("matmul", x, w), leaf(c, "f32", (n,))), leaf(c, "f32", (m, n))))


def rows_around_product(c):
    x = rows(c, (60, 40))
    return c.call("softmax", c.op("matmul", x, leaf(c, "f32", (40, 30), False)), axes=(1,))


def scored(c):
    q, k, v = (leaf(c, "f32", (2, 60, 8), False) for _ in range(3))
    s = c.op_scalar("mul", c.op("matmul", q, c.transpose(k)), 0.3)
    return c.op("matmul", c.call("softmax", s, axes=(2,)), v)


def attention(c, queries, keys, values, dtype="f32", mask=None, strides=False, special=False, **given):
    q, k, v = (leaf(c, dtype, shape, special) for shape in (queries, keys, values))
    operands = [strided(c, q), c.transpose(c.transpose(k)), strided(c, v)] if strides else [q, k, v]
    if mask:
        operands.append(leaf(c, mask, queries[:-1] + keys[-2:-1], special))
    return c.call("attention", *operands, **given)


def attention_between(c):
    """What is computed before and behind it, and stored twice."""
    x = c.op("tanh", leaf(c, "f32", (2, 70, 8), False))
    y = attention(c, (2, 70, 8), (2, 100, 8), (2, 100, 12))
    z = c.call("attention", x, x, c.op("sin", x), causal=True)
    return [c.op("relu", c.op_scalar("mul", y, 2)), y, c.op("add", z, x)]


def conv(c, x, w, dtype="f32", **given):
    """With a bias and what follows it, and bare."""
    given = {"stride": (1,) * (len(x) - 2)} | given
    x, w = leaf(c, dtype, x, False), leaf(c, dtype, w, False)
    return [c.op("relu", c.call("conv", x, w, leaf(c, dtype, (w.shape[0],)), **given)), c.call("conv", x, c.op("neg", w), **given)]


def indices(c, shape, extent, dtype="i32", beyond=2):
    """From both ends of an axis, and some beyond it."""
    rng = np.random.default_rng(extent + len(shape))
    low = 0 if dtype[0] == "u" else -extent - beyond
    return c.array(dtype, rng.integers(low, extent + beyond, shape).astype(STORAGE[dtype]))


def embedded(c):
    """Rows of a table, before and after other work; the index is computed."""
    index = c.op("add", indices(c, (3, 17), 20, "i64"), c.full("i64", (17,), 1))
    rows = c.gather("take", leaf(c, "f32", (20, 33)), index, 0)
    return [c.op("relu", c.op("mul", rows, leaf(c, "f32", (33,)))), c.reduce("sum", rows, (2,)), rows]


def gathers():
    def take(dtype, shape, index, axis, kind="i32"):
        return lambda c: c.gather("take", leaf(c, dtype, shape), indices(c, index, shape[axis], kind), axis)

    def along(dtype, shape, index, axis):
        return lambda c: c.gather("take_along", leaf(c, dtype, shape), indices(c, index, shape[axis]), axis)

    return [
        embedded,
        *(take(dtype, (30, 9), (21,), 0) for dtype in ("f32", "i32", "i64", "u64", "f64", "f16", "bf16", "i8", "bool")),
        *(take("f32", (4, 30, 5), (6, 2), 1, kind) for kind in ("i8", "u16", "i64", "u64")),
        take("f32", (40,), (), 0),
        along("f32", (7, 30), (7, 11), 1),
        along("f32", (30, 7), (4, 7), 0),
        along("i32", (1, 30, 3), (5, 9, 3), 1),
        lambda c: c.gather("take", strided(c, leaf(c, "f32", (40, 7))), indices(c, (50,), 20), 0),
        lambda c: c.gather("take", c.transpose(leaf(c, "f32", (9, 30))), indices(c, (50,), 30), 0),
        lambda c: c.gather("take", c.broadcast(leaf(c, "f32", (9,)), (30, 9)), indices(c, (50,), 30), 0),
        lambda c: c.op("add", c.gather("take", leaf(c, "f32", (30, 8)), indices(c, (12,), 30), 0),
                       c.gather("take", leaf(c, "f32", (12, 20)), indices(c, (8,), 20, "i64"), 1)),
    ]


def scatters():
    def scatter(name, dtype, shape, count, axis, kind="i32"):
        def case(c):
            moved = shape[:axis] + (count,) + shape[axis + 1:]
            return c.scatter(name, leaf(c, dtype, shape), indices(c, moved, shape[axis], kind), leaf(c, dtype, moved), axis)
        return case

    def computed(c):
        """Of operands that are computed, into one that is read again."""
        x = c.op("exp", leaf(c, "f32", (20, 9), False))
        y = c.scatter("add_along", x, indices(c, (13, 9), 20), c.op_scalar("mul", leaf(c, "f32", (13, 9), False), 2), 0)
        return [c.op("tanh", y), c.op("add", x, y)]

    return [scatter(name, dtype, shape, count, axis, kind) for name, dtype, shape, count, axis, kind in [
        ("add_along", "f32", (20, 9), 33, 0, "i64"), ("put_along", "f32", (20, 9), 33, 0, "i32"),
        ("add_along", "f32", (5, 30, 3), 12, 1, "i8"), ("put_along", "i32", (5, 30), 40, 1, "i32"),
        ("add_along", "f32", (4000,), 3000, 0, "i32"), ("add_along", "f16", (20, 9), 33, 0, "i32"),
        ("put_along", "bool", (20, 9), 5, 0, "i32"), ("add_along", "i64", (1, 7), 9, 1, "u64"), ("put_along", "u8", (20, 9), 33, 0, "i64"), ("put_along", "bf16", (20, 9), 33, 0, "i32"),
        ("put_along", "u64", (5, 30), 40, 1, "i16"), ("put_along", "f64", (20, 9), 5, 0, "i32"), ("add_along", "u16", (20, 9), 33, 0, "i32"),
        ("add_along", "u64", (5, 30), 40, 1, "i32"), ("add_along", "bf16", (20, 9), 33, 0, "i32"), ("add_along", "f64", (20, 9), 33, 0, "i32")]] \
        + [computed]


def scans():
    def scan(name, dtype, shape, axis):
        return lambda c: c.scan(name, leaf(c, dtype, shape, dtype != "f32"), axis)

    def around(c, shape=(6, 9000), axis=1):
        x = c.op("tanh", leaf(c, "f32", shape, False))
        y = c.scan("cumsum", x, axis)
        return [c.op("div", y, c.op_scalar("add", x, 2)), y]

    return [scan("cumsum", dtype, (12, 50), 1) for dtype in ("f32", "i32", "i64", "bool", "f16")] + [
        scan("cumsum", "f32", (50, 12), 0), scan("cumsum", "f32", (3, 20, 40), 1), scan("cumsum", "f32", (70,), 0),
        scan("cumsum", "f32", (20000,), 0), scan("cumsum", "f32", (3, 20000), 1), scan("cumsum", "f32", (20000, 12), 0),
        scan("cumsum", "i32", (2, 9000, 2), 1), scan("cummax", "f32", (12, 50), 1), scan("cumprod", "f32", (12, 50), 1),
        *(scan(name, dtype, (12, 50), 1) for name, dtype in (
            ("cummax", "i8"), ("cummin", "u32"), ("cummax", "u64"), ("cummin", "bf16"), ("cummax", "f64"), ("cumprod", "u16"), ("cumsum", "u64"))),
        scan("cumprod", "u8", (3, 20000), 1), scan("cummin", "i16", (20000, 3), 0),
        lambda c: c.scan("cumsum", strided(c, leaf(c, "f32", (12, 50), False)), 1), around,
        lambda c: around(c, (9000, 16), 0)]


def sorts():
    def sort(name, dtype, shape, axis, descending=False):
        return lambda c: c.sort(name, leaf(c, dtype, shape), axis, descending)

    def around(c):
        x = c.op("neg", leaf(c, "f32", (12, 50)))
        return [c.sort("sort", x, 1), c.op_scalar("add", c.sort("argsort", c.op_scalar("mul", x, 2), 0), 1), x]

    def rows_in_blocks(c):
        """Of what is computed, stored besides, and read again behind it."""
        x = c.op("neg", leaf(c, "f32", (2, 30000)))
        return [c.sort("sort", x, 1, True), c.op_scalar("mul", c.sort("argsort", x, 1), 2), x]

    return [sort(name, "f32", shape, axis, d) for name in ("sort", "argsort") for shape, axis, d in
            [((12, 50), 1, False), ((50, 12), 0, True), ((300,), 0, False), ((3, 1), 1, True)]] + [
        sort("sort", "i32", (12, 50), 1), sort("argsort", "f16", (12, 50), 1), sort("argsort", "f32", (40000,), 0), around,
        *(sort(name, dtype, (9, 40), 1, d) for name, dtype, d in [
            ("sort", "i8", False), ("sort", "u32", True), ("sort", "bool", False), ("sort", "i64", True), ("sort", "u64", False),
            ("sort", "bf16", False), ("sort", "f64", False), ("argsort", "u16", True), ("argsort", "i64", False),
            ("argsort", "u64", True), ("argsort", "bf16", True), ("argsort", "bool", False)]),
        *(sort(name, dtype, shape, 0, d) for name, dtype, shape, d in [
            ("sort", "f32", (40000,), False), ("sort", "i16", (50000,), True), ("argsort", "i64", (20000, 2), False)]), rows_in_blocks]


def searches():
    def search(dtype, shape, right):
        def case(c):
            v = np.sort(values(dtype, (90,)) if dtype != "bf16" else (np.sort(np.arange(90, dtype="f4") / 7).view("u4") >> 16).astype("u2"))
            return c.searchsorted(c.array(dtype, v), leaf(c, dtype, shape), right)
        return case

    def between(c):
        """In a vector that does not lie side by side, for what is computed, read again behind it."""
        x = c.op("sin", leaf(c, "f32", (7, 20), False))
        y = c.searchsorted(strided(c, c.array("f32", np.linspace(1, -1, 60, dtype="f4"))), c.transpose(x))
        return [c.op_scalar("mul", y, 3), y, c.cast(y, "f32")]

    return [search(dtype, (7, 20), i % 2 == 1) for i, dtype in enumerate(
        ("f32", "f32", "i8", "u16", "i32", "u32", "i64", "u64", "bool", "f64", "f16", "bf16"))] + [search("f32", (), False), between]


def fills(c):
    """Of one kernel in one launch, over extents of their own."""
    return [c.full("f32", (11, 5), -1.5), c.copy(c.broadcast(c.full("f32", (11, 5), 2.5), (2, 11, 5)))]


def types_apart(c):
    """Of element types that no interpreter holds together: it is cut between them."""
    x = c.op("mul", leaf(c, "u64", (11, 5)), leaf(c, "u64", (5,)))
    y = c.op("floor_divide", c.cast(x, "i64"), leaf(c, "i64", (11, 1)))
    z = c.op("sin", c.op_scalar("mul", c.cast(y, "f64"), 2.0 ** -53))
    return [z, c.op("exp", c.cast(z, "f16")), y]


def maps():
    return [
        fills,
        lambda c: c.op("add", c.transpose(leaf(c, "f32", (40, 30))), leaf(c, "f32", (1, 40))),
        lambda c: c.cast(c.op_scalar("mul", leaf(c, "i32", (300,)), 3), "f32"),
        lambda c: c.op("where", c.op("lt", leaf(c, "f32", (7, 5)), leaf(c, "f32", (5,))), leaf(c, "i32", (5,)), leaf(c, "i32", (7, 1))),
        lambda c: c.op("exp", leaf(c, "f32", ())),
        lambda c: c.op("add", leaf(c, "f32", (0, 4)), leaf(c, "f32", (4,))),
        lambda c: c.op("pow", leaf(c, "f32", (300,)), c.scalar("f32", 1.5)),
        lambda c: c.op("gelu", c.op("sin", leaf(c, "f32", (300,)))),
        lambda c: c.op("tanh", leaf(c, "f16", (300,))),
        lambda c: c.op("tanh", leaf(c, "bf16", (300,))),
        types_apart,
        *(lambda c, a=a, b=b: c.cast(leaf(c, a, (300,)), b) for a, b in itertools.permutations(STORAGE, 2)),
        lambda c: [c.cast(c.transpose(c.op("neg", leaf(c, "i8", (30, 40)))), "f64"), c.cast(strided(c, leaf(c, "u32", (30, 40))), "bf16")],
    ]


def groups():
    return {
        "maps": maps(),
        "reductions": [case for dtype in ("f32", "f16", "i32") for case in reductions(dtype)] + [
            lambda c, name=name, dtype=dtype: c.reduce(name, leaf(c, dtype, (40, 37)), (0,)) for name, dtype in (
                ("max", "i8"), ("min", "u16"), ("max", "u32"), ("min", "i64"), ("max", "u64"), ("min", "bf16"), ("max", "f64"),
                ("prod", "u8"), ("sum", "u64"), ("prod", "i64"), ("sum", "bool"))] + [
            lambda c, name=name, dtype=dtype: c.reduce(name, c.windows(leaf(c, dtype, (30, 60)), 1, 5, 2, 1), (2,)) for name, dtype in (
                ("sum", "f32"), ("max", "f32"), ("any", "bool"), ("min", "i16"))],
        "long": [
            lambda c: c.reduce("sum", leaf(c, "f32", (3, 20000)), (1,)),
            lambda c: c.reduce("sum", leaf(c, "f32", (20000, 12)), (0,)),
            lambda c: c.reduce("max", leaf(c, "f32", (3, 20000, 2)), (1,)),
            lambda c: c.reduce("sum", strided(c, leaf(c, "f32", (6, 8193))), (1,)),
            lambda c: softmax(c, (3, 9000), 1),
            *(lambda c, dtype=dtype: c.reduce("min", leaf(c, dtype, (30000,)), None) for dtype in ("u8", "u32", "f16", "u64")),
            lambda c: c.reduce("prod", leaf(c, "i16", (9000, 3)), (0,)),
        ],
        "rows": [
            lambda c: rows(c),
            lambda c: rows(c, (50, 12), (0,)),
            lambda c: rows(c, (6, 7, 20), (0, 2)),
            lambda c: rows(c, (1, 20000)),
            both_spaces,
            lambda c: softmax(c, (30, 40), 0),
            lambda c: softmax(c, (30, 40), 1, "bf16"),
            lambda c: softmax(c, (3, 1), 1),
            lambda c: c.reduce("sum", c.full("f32", (30, 40), 0.1), (1,)),
            lambda c: c.reduce("sum", c.broadcast(leaf(c, "f32", (30, 1)), (30, 40)), (1,)),
            lambda c: c.reduce("sum", leaf(c, "f32", (0, 4)), (1,)),
            lambda c: c.reduce("sum", leaf(c, "f32", (4, 0)), (1,)),
            lambda c: c.call("var", leaf(c, "f32", (30, 40)), axes=(1,)),
            lambda c: c.call("logsumexp", leaf(c, "f32", (30, 40)), axes=(0,)),
        ],
        "products": [
            lambda c: product(c, "f32", (5, 7), (7, 3)),
            lambda c: product(c, "f32", (100, 300), (300, 90)),
            lambda c: product(c, "f32", (1, 70), (70, 200)),
            lambda c: product(c, "f32", (200, 70), (70, 1)),
            lambda c: product(c, "f32", (60, 500), (500, 700)),
            lambda c: product(c, "f32", (4, 20, 30), (4, 30, 10)),
            lambda c: product(c, "f32", (4, 20, 30), (30, 10)),
            lambda c: product(c, "f32", (1, 4, 20, 30), (3, 1, 30, 10)),
            lambda c: product(c, "f16", (20, 30), (30, 70)),
            *(lambda c, dtype=dtype: product(c, dtype, (20, 30), (30, 70)) for dtype in ("i32", "i8", "u16", "u32", "i64", "u64")),
            lambda c: product(c, "u8", (3, 20, 30), (3, 30, 10)),
            lambda c: c.op_scalar("add", c.op("neg", product(c, "i16", (60, 500), (500, 700))), 3),
            lambda c: product(c, "f16", (3, 20, 40), (3, 40, 72), False),
            lambda c: c.op("matmul", c.transpose(leaf(c, "bf16", (90, 130), False)), leaf(c, "bf16", (90, 200), False)),
            # So many tiles that they are the largest on a GPU, and edges each way.
            lambda c: product(c, "bf16", (1030, 200), (200, 1002), False),
            lambda c: c.op("relu", c.op("matmul", c.transpose(leaf(c, "f16", (130, 1030), False)), c.transpose(leaf(c, "f16", (1030, 130), False)))),
            lambda c: c.op("matmul", c.transpose(leaf(c, "f32", (30, 80))), c.transpose(leaf(c, "f32", (70, 30)))),
            lambda c: c.op("matmul", strided(c, leaf(c, "f32", (40, 30))), strided(c, leaf(c, "f32", (60, 80)))),
            lambda c: linear(c),
            lambda c: linear(c, 3, 600, 400),
            rows_around_product,
            scored,
        ],
        "attention": [
            lambda c: attention(c, (7, 5), (9, 5), (9, 3)),
            lambda c: attention(c, (2, 3, 150, 40), (2, 3, 200, 40), (2, 3, 200, 300)),
            lambda c: attention(c, (2, 3, 70, 8), (1, 3, 70, 8), (70, 6), causal=True, scale=0.5),
            lambda c: attention(c, (3, 70, 8), (3, 130, 8), (3, 130, 6), mask="bool"),
            lambda c: attention(c, (3, 70, 8), (3, 130, 8), (3, 130, 6), mask="f32"),
            lambda c: attention(c, (4, 70, 8), (2, 130, 8), (4, 130, 6), strides=True),
            lambda c: attention(c, (20, 8), (30, 8), (30, 6), "bf16"),
            lambda c: attention(c, (2, 150, 40), (2, 200, 40), (2, 200, 100), "f16", causal=True),
            lambda c: attention(c, (2, 70, 80), (2, 130, 80), (2, 130, 72), "bf16", mask="bool"),
            lambda c: attention(c, (2, 70, 130), (2, 130, 130), (2, 130, 30), "f16", strides=True, causal=True),
            lambda c: attention(c, (70, 300), (130, 300), (130, 30), "bf16"),
            lambda c: attention(c, (20, 8), (90, 8), (90, 6), special=True),
            attention_between,
        ],
        "convolutions": [
            lambda c: conv(c, (2, 3, 12, 13), (8, 3, 3, 3), padding=(1, 1)),
            lambda c: conv(c, (1, 16, 14, 14), (32, 16, 3, 3), padding=(1, 1), stride=(2, 1)),
            lambda c: conv(c, (2, 16, 9, 30), (80, 8, 3, 2), groups=2),
            lambda c: conv(c, (2, 20, 40), (24, 20, 5), dilation=(2,)),
            lambda c: conv(c, (2, 8, 12, 12), (8, 1, 3, 3), groups=8),
            lambda c: conv(c, (2, 4, 1, 1), (2, 4, 1, 1)),
            lambda c: conv(c, (2, 4, 1, 1), (4, 1, 1, 1), groups=4),
            lambda c: conv(c, (1, 6, 60, 61), (12, 1, 5, 3), groups=6, padding=(2, 1), stride=(2, 2)),
            lambda c: conv(c, (1, 3, 9, 700), (3, 1, 9, 4), groups=3, dilation=(1, 3)),
            lambda c: conv(c, (2, 5, 900), (5, 1, 7), groups=5, padding=(3,)),
            lambda c: conv(c, (2, 64, 20, 21), (130, 64, 3, 3), padding=(1, 1)),
            lambda c: conv(c, (1, 30, 9, 9), (12, 15, 3, 3), groups=2),
            lambda c: conv(c, (2, 30, 9, 9), (80, 15, 3, 3), "f16", groups=2),
            lambda c: conv(c, (2, 8, 40), (24, 8, 5), "bf16"),
            lambda c: conv(c, (2, 8, 12, 12), (8, 1, 3, 3), "bf16", groups=8),
        ],
        "gathers": gathers(),
        "scatters": scatters(),
        "scans": scans(),
        "sorts": sorts(),
        "searches": searches(),
    }


# Exponents of the types whose values are read as integers.
EXPONENT = {"f16": 0x7c00, "bf16": 0x7f80}


def bits(array):
    """All NaNs of 16 bits are one."""
    v = array.read()
    exponent = EXPONENT.get(array.dtype)
    return v if exponent is None else np.where((v & 0x7fff) > exponent, np.uint16(0x7fff), v)


def results(c, cases):
    """The bits of every result of every case."""
    found = []
    for case in cases:
        made = case(c)
        found += [bits(a) for a in (made if isinstance(made, list) else [made])]
    return found


def same(a, b):
    """All NaNs are one."""
    if a.dtype.kind == "f":
        return a.shape == b.shape and np.array_equal(a[~np.isnan(a)].view(f"u{a.itemsize}"), b[~np.isnan(b)].view(f"u{b.itemsize}")) \
            and np.array_equal(np.isnan(a), np.isnan(b))
    return np.array_equal(a, b)


def run_group(report, part):
    name, strategy = part
    cases = [case for i, case in enumerate(groups()[name]) if harness.in_part(i, CASES_OF)]
    where = f"{name}, {strategy} strategy" if strategy else name
    with fusion.Daemon(strategy) as plain, fusion.Daemon(strategy, ["fusion.interpreter=always"]) as always, \
            plain.open() as a, always.open() as b:
        for i, (one, other) in enumerate(zip(results(a, cases), results(b, cases))):
            report.check(same(one, other), f"{where}: result {i}", lambda: f"{one.ravel()[:6]} is not {other.ravel()[:6]}")
        interpreted = json.loads(b.stats(True))["steps_interpreted"]
        report.check(interpreted > 0, f"{where}: bytecode ran", f"{interpreted} steps")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group", nargs="*", help="only these groups of cases")
    parser.add_argument("--strategy", choices=("cpu", "gpu"), help="form of the kernels; default: as the device needs, and a slice as GPUs do")
    options = parser.parse_args()
    names = options.group or list(groups())
    if set(names) - set(groups()):
        parser.error(f"groups are {', '.join(groups())}")
    parts = [(name, options.strategy) for name in names]
    if not options.strategy:
        parts += [(name, "gpu") for name in harness.rotated(names)]
    return harness.run(run_group, parts, harness.jobs_of_machine()).finish()


if __name__ == "__main__":
    sys.exit(main())

"""Random graphs as programs make them, and NumPy's view of each of their operations in double precision.

A Program is a list of nodes that a seed makes: 10 to 3,000 operations over a few families of shapes, whose rows are 1 to 100,000
elements, among them multiples of 256, of every tile and vector, and odd ones; arrays of up to four million elements. Most operations
take what was computed lately, so there are chains, towers of norms, sums of several products, values that many read. Values stay
near 1, so that each operation can be compared with NumPy by the size of what it adds up: no function is at its limits here.
"""
import math

import numpy as np

EPS = {"f32": 2.0 ** -23, "f16": 2.0 ** -10, "bf16": 2.0 ** -7, "f64": 2.0 ** -52}
# What is larger is infinite.
LARGEST = {"f32": 2.0 ** 127, "f16": 65504.0, "bf16": 2.0 ** 127, "f64": 2.0 ** 1023}
# Elements of an array, and of all arrays of a program together.
MOST, ALL = 4 << 20, 24 << 20
SMALL = (1, 1, 2, 3, 4, 5, 7, 8, 8, 9, 12, 16, 16, 17)
ROWS = (31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 130, 200, 255, 256, 257, 300, 511, 512, 768, 1000, 1024, 1280, 2048, 4096, 4097, 8192,
        10000, 16384, 100000)
RECENT = 12
SIZES = (10, 10, 20, 20, 20, 40, 40, 80, 160, 400, 3000)
UNARY = ("relu", "tanh", "sigmoid", "abs", "neg", "square", "sin", "gelu", "silu", "exp", "sqrt", "floor")
BINARY = ("add", "add", "sub", "mul", "mul", "maximum", "minimum", "div")


def size(shape):
    return math.prod(shape)


class Node:
    def __init__(self, op, dtype, shape, ins=(), **given):
        self.op, self.dtype, self.shape, self.ins, self.given = op, dtype, tuple(int(n) for n in shape), list(ins), given

    def text(self, number):
        given = {k: v for k, v in self.given.items() if not isinstance(v, np.ndarray)}
        return f"%{number} = {self.op}({', '.join(f'%{i}' for i in self.ins)}) {given or ''} {self.dtype}{list(self.shape)}"


class Program:
    """`operations`: None, as the seed says. `most`: elements of an array; `total`: of all."""

    def __init__(self, seed, operations=None, most=None, total=ALL):
        self.seed, self.rng = seed, np.random.default_rng([seed, 77])
        self.nodes, self.total, self.used, self.read = [], total, 0, set()
        of = self.pick(SIZES)
        self.wanted = operations or int(self.rng.integers(of // 2, of + 1))
        self.most = most or int(self.pick((3000, 20000, 20000, 100000, 400000, MOST)))
        self.most = max(64, min(self.most, 4 * total // max(8, self.wanted)))
        self.dtype = self.pick(("f32",) * 8 + ("f16", "bf16"))
        self.bases = [self.shape(self.pick((1, 2, 2, 2, 3, 3, 4))) for _ in range(3)]
        for base in self.bases:
            self.leaf(base)
        tries = 0
        while self.operations() < self.wanted and tries < 6 * self.wanted and self.used < total:
            tries += 1
            self.operation()
        self.outputs = [i for i, n in enumerate(self.nodes) if n.ins and (i not in self.read or self.chance(0.06))] or [len(self.nodes) - 1]

    # ---- choosing ----

    def pick(self, values):
        return values[int(self.rng.integers(len(values)))]

    def chance(self, p):
        return self.rng.random() < p

    def operations(self):
        return sum(1 for n in self.nodes if n.ins)

    def extent(self):
        return self.pick(SMALL) if self.chance(0.6) else self.pick(ROWS)

    def shape(self, rank):
        dims = [self.extent() for _ in range(rank)]
        if self.chance(0.4):
            dims[-1] = 256 * int(self.rng.integers(1, 5))
        if rank == 1 and self.chance(0.3):
            dims = [int(self.pick((1000, 8192, 8193, 65536, 100000)))]
        while size(dims) > self.most:
            largest = int(np.argmax(dims))
            dims[largest] = (dims[largest] + 1) // 2
        return tuple(dims)

    def value(self, wanted=lambda n: True):
        last = self.nodes[-RECENT:] if self.chance(0.85) else self.nodes
        found = [i for i in range(len(self.nodes) - len(last), len(self.nodes)) if self.nodes[i].dtype == self.dtype and wanted(self.nodes[i])]
        return self.pick(found) if found else None

    # ---- adding ----

    def add(self, op, dtype, shape, ins=(), **given):
        if size(shape) > self.most or self.used + size(shape) > self.total or len(shape) > 8:
            return None
        self.nodes.append(Node(op, dtype, shape, ins, **given))
        self.used += size(shape)
        self.read.update(ins)
        return len(self.nodes) - 1

    def leaf(self, shape, dtype=None, scale=1.0):
        return self.add("leaf", dtype or self.dtype, shape, scale=scale, number=len(self.nodes))

    def index(self, shape, extent):
        return self.add("index", "i64" if self.chance(0.7) else "i32", shape, extent=extent, number=len(self.nodes))

    def beside(self, shape):
        """Something that broadcasts: a value, or an array that is one along some of the axes."""
        found = self.value(lambda n: broadcasts(n.shape, shape))
        if found is not None and self.chance(0.7):
            return found
        kind = self.rng.random()
        if kind < 0.25:
            return self.leaf(shape[:-1] + (1,) if shape else shape)
        if kind < 0.5:
            return self.leaf(shape[-1:])
        return self.leaf(tuple(1 if self.chance(0.3) else n for n in shape))

    def operation(self):
        kind = self.rng.random()
        x = self.value()
        if x is None:
            return self.leaf(self.pick(self.bases))
        shape = self.nodes[x].shape
        if kind < 0.36:
            return self.elementwise(x, shape)
        for limit, make in ((0.5, self.view), (0.6, self.reduction), (0.7, self.product), (0.79, self.norm), (0.84, self.over_rows), (0.88, self.whole),
                            (0.91, self.ordered), (0.94, self.gather), (0.965, self.conv), (0.985, self.attention)):
            if kind < limit:
                return make(x, shape)
        return self.leaf(self.pick(self.bases))

    def elementwise(self, x, shape):
        if self.chance(0.35):
            return self.add(self.pick(UNARY), self.dtype, shape, [x])
        y = x if self.chance(0.06) else self.beside(shape)
        if y is None:
            return None
        result = np.broadcast_shapes(shape, self.nodes[y].shape)
        if self.chance(0.1):
            condition = self.add("gt", "bool", result, [x, y])
            return condition and self.add("where", self.dtype, result, [condition, x, y])
        if self.chance(0.06):
            return self.add("cast", self.dtype, shape, [x], through=self.pick(("f16", "bf16", "f32")))
        return self.add(self.pick(BINARY), self.dtype, result, [x, y])

    def over_rows(self, x, shape):
        """Values that are one along the rows, made of each other first."""
        if len(shape) < 2:
            return None
        one = [1 if d == len(shape) - 1 else n for d, n in enumerate(shape)]
        parts = [self.leaf(one) for _ in range(int(self.rng.integers(2, 4)))]
        if None in parts:
            return None
        wide = [self.add("broadcast", self.dtype, shape, [p]) for p in parts]
        if None in wide:
            return None
        y = wide[0]
        for w in wide[1:]:
            y = y is not None and self.add(self.pick(("mul", "add", "sub")), self.dtype, shape, [y, w]) or None
        return y and self.add("add", self.dtype, shape, [x, y])

    def view(self, x, shape):
        kind = int(self.rng.integers(6))
        if kind == 0 and shape:
            axes = [int(a) for a in self.rng.permutation(len(shape))]
            return self.add("permute", self.dtype, [shape[a] for a in axes], [x], axes=axes)
        if kind == 1:
            return self.add("reshape", self.dtype, self.reshaped(shape), [x])
        if kind == 2:
            return self.add("broadcast", self.dtype, (self.extent(),) + shape, [x])
        if kind == 3 and shape and size(shape):
            ranges = [self.range_of(n) for n in shape]
            return self.add("slice", self.dtype, [len(range(*r.indices(n))) for r, n in zip(ranges, shape)], [x], ranges=ranges)
        if kind == 4 and shape:
            return self.add("flip", self.dtype, shape, [x], axes=[d for d in range(len(shape)) if self.chance(0.5)])
        return self.add("copy", self.dtype, shape, [x])

    def reshaped(self, shape):
        dims, piece = [], 1
        for d, n in enumerate(shape):
            piece *= n
            if d + 1 < len(shape) and self.chance(0.4):
                continue
            by = int(self.rng.integers(2, 17))
            if piece % by == 0 and self.chance(0.4):
                dims += [by, piece // by]
            else:
                dims.append(piece)
            piece = 1
        return dims[:0] + dims if len(dims) <= 6 else list(shape)

    def range_of(self, n):
        if self.chance(0.5):
            return slice(None)
        first, step = int(self.rng.integers(n)), int(self.pick((1, 1, 2, 3)))
        return slice(None, None, -step) if self.chance(0.2) else slice(first, None, step)

    def axes(self, shape):
        return [len(shape) - 1] if self.chance(0.6) else [d for d in range(len(shape)) if self.chance(0.4)] or [0]

    def reduction(self, x, shape):
        if not shape:
            return None
        axes, keepdims = self.axes(shape), bool(self.chance(0.65))
        left = [1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes]
        return self.add(self.pick(("mean", "mean", "max", "min", "sum")), self.dtype, left, [x], axes=axes, keepdims=keepdims)

    def product(self, x, shape):
        """By another value, an array, or itself transposed; scaled, so that values stay near 1. Sometimes two, added up."""
        if len(shape) < 2:
            return None
        n = self.pick((shape[-1], self.extent()))
        if size(shape[:-1]) * n * shape[-1] > 1 << 27:
            return None
        w = self.value(lambda v: len(v.shape) == 2 and v.shape[0] == shape[-1]) if self.chance(0.3) else None
        if w is None and self.chance(0.2) and shape[-2] * size(shape) < 1 << 26:
            w = self.add("permute", self.dtype, shape[:-2] + (shape[-1], shape[-2]), [x], axes=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        if w is None:
            w = self.leaf((shape[-1], n))
        if w is None:
            return None
        y = self.add("matmul", self.dtype, shape[:-1] + self.nodes[w].shape[-1:], [x, w])
        return y and self.add("scale", self.dtype, self.nodes[y].shape, [y], by=1 / math.sqrt(shape[-1]))

    def norm(self, x, shape):
        if not shape:
            return None
        kind = self.pick(("softmax", "layer_norm", "rms_norm", "group_norm", "std", "var", "logsumexp"))
        axes = self.axes(shape)
        if kind in ("layer_norm", "rms_norm"):
            ins = [x] + [self.leaf(shape[-1:]) for _ in range(2 if kind == "layer_norm" else 1)]
            return None if None in ins else self.add(kind, self.dtype, shape, ins, axes=[len(shape) - 1])
        if kind == "group_norm":
            return self.add(kind, self.dtype, shape, [x], groups=1) if len(shape) >= 2 else None
        if kind == "softmax":
            return self.add(kind, self.dtype, shape, [x], axes=axes)
        return self.add(kind, self.dtype, [1 if d in axes else n for d, n in enumerate(shape)], [x], axes=axes, keepdims=True)

    def whole(self, x, shape):
        if not shape:
            return None
        axis = int(self.rng.integers(len(shape)))
        if self.chance(0.5):
            margins = [(int(self.rng.integers(3)), int(self.rng.integers(3))) for _ in shape]
            return self.add("pad", self.dtype, [n + a + b for n, (a, b) in zip(shape, margins)], [x], margins=margins)
        others = [self.value(lambda n: len(n.shape) == len(shape) and all(d == axis or a == b for d, (a, b) in enumerate(zip(n.shape, shape))))
                  for _ in range(int(self.rng.integers(1, 4)))]
        ins = [x] + [o for o in others if o is not None]
        return self.add("concat", self.dtype, [sum(self.nodes[i].shape[d] for i in ins) if d == axis else n for d, n in enumerate(shape)], ins, axis=axis)

    def ordered(self, x, shape):
        if not shape or size(shape) > 200000:
            return None
        op, axis = self.pick(("sort", "argsort", "cumsum", "cummax")), int(self.rng.integers(len(shape)))
        return self.add(op, "i64" if op == "argsort" else self.dtype, shape, [x], axis=axis)

    def gather(self, x, shape):
        if not shape:
            return None
        axis = int(self.rng.integers(len(shape)))
        op = self.pick(("take", "take_along", "add_along"))
        if op == "take":
            index = self.index(self.shape(int(self.rng.integers(1, 3))), shape[axis])
            return index and self.add(op, self.dtype, shape[:axis] + self.nodes[index].shape + shape[axis + 1:], [x, index], axis=axis)
        of = shape[:axis] + (int(self.rng.integers(1, 20)),) + shape[axis + 1:]
        index = self.index(of, shape[axis])
        if op == "take_along":
            return index and self.add(op, self.dtype, of, [x, index], axis=axis)
        updates = self.leaf(of)
        return updates and index and self.add(op, self.dtype, shape, [x, index, updates], axis=axis)

    def conv(self, x, shape):
        if len(shape) not in (3, 4) or self.dtype != "f32":
            return None
        groups = shape[1] if self.chance(0.3) else 1
        out = shape[1] if groups > 1 else int(self.pick((1, 3, 8, 16, 24)))
        k = [int(self.pick((1, 3, 3, 5))) for _ in shape[2:]]
        given = dict(stride=[int(self.pick((1, 1, 2))) for _ in k], padding=[n // 2 for n in k], dilation=[1] * len(k), groups=groups)
        extents = [(n + 2 * p - (f - 1) - 1) // s + 1 for n, p, f, s in zip(shape[2:], given["padding"], k, given["stride"])]
        depth = shape[1] // groups * size(k)
        if min(extents) < 1 or shape[0] * out * size(extents) * depth > 1 << 26:
            return None
        w = self.leaf((out, shape[1] // groups, *k), scale=1 / math.sqrt(depth))
        b = self.leaf((out,))
        return None if w is None or b is None else self.add("conv", self.dtype, (shape[0], out, *extents), [x, w, b], **given)

    def attention(self, x, shape):
        if len(shape) < 2 or size(shape) * shape[-2] > 1 << 25:
            return None
        ins = [x]
        for _ in range(2):
            other = self.value(lambda n: n.shape == shape)
            ins.append(other if other is not None and self.chance(0.6) else self.leaf(shape))
        return None if None in ins else self.add("attention", self.dtype, shape, ins, causal=bool(self.chance(0.4)))

    def text(self):
        return "\n".join(f"    {n.text(i)}{' output' if i in self.outputs else ''}" for i, n in enumerate(self.nodes))


def broadcasts(a, b):
    return len(a) <= len(b) and all(m in (1, n) for m, n in zip(a[::-1], b[::-1]))


# ---- on a context ----


def values(node, seed, storage):
    """A leaf's elements, as they are stored."""
    rng = np.random.default_rng([seed, node.given["number"]])
    if node.op == "index":
        extent = node.given["extent"]
        return rng.integers(-extent, extent, node.shape).astype({"i64": np.int64, "i32": np.int32}[node.dtype])
    return storage(node.dtype, rng.normal(size=node.shape) * node.given["scale"])


def record(c, node, ins, data):
    given, op = node.given, node.op
    if op in ("leaf", "index"):
        return c.array(node.dtype, data)
    if op in ("gelu", "silu", "sigmoid", "relu") or op in UNARY or op in BINARY or op in ("gt", "where", "matmul"):
        return bounded(c, node, ins)
    if op == "scale":
        return c.op_scalar("mul", ins[0], given["by"])
    if op == "cast":
        return c.cast(c.cast(ins[0], given["through"]), node.dtype)
    if op == "copy":
        return c.copy(ins[0])
    if op in ("reshape", "broadcast"):
        return getattr(c, op)(ins[0], node.shape)
    if op in ("permute", "flip"):
        return getattr(c, op)(ins[0], given["axes"])
    if op == "slice":
        return c.slice(ins[0], given["ranges"])
    if op in ("sum", "mean", "max", "min"):
        return c.reduce(op, ins[0], given["axes"], given["keepdims"])
    if op in ("softmax", "std", "var", "logsumexp"):
        return c.call(op, ins[0], **given)
    if op in ("layer_norm", "rms_norm"):
        return c.call(op, *ins, axes=given["axes"], eps=1e-3)
    if op == "group_norm":
        return c.call(op, *ins, groups=given["groups"], eps=1e-3)
    if op == "concat":
        return c.join("concat", ins, given["axis"])
    if op == "pad":
        return c.pad(ins[0], given["margins"])
    if op in ("sort", "argsort"):
        return c.sort(op, ins[0], given["axis"])
    if op in ("cumsum", "cummax"):
        return c.scan(op, ins[0], given["axis"])
    if op in ("take", "take_along"):
        return c.gather(op, *ins, given["axis"])
    if op == "add_along":
        return c.scatter(op, *ins, given["axis"])
    if op == "conv":
        return c.call(op, *ins, **given)
    return c.call("attention", *ins, causal=given["causal"])


def bounded(c, node, ins):
    """Operations whose results stay near 1: what is squared, divided or raised is bent first."""
    op = node.op
    if op in ("exp", "square"):
        return c.op(op, c.op("tanh", ins[0]))
    if op == "sqrt":
        return c.op("sqrt", c.op("abs", ins[0]))
    if op == "div":
        return c.op("div", ins[0], c.op_scalar("add", c.op("abs", ins[1]), 1.0))
    if op == "mul":
        return c.op("mul", ins[0], c.op("tanh", ins[1]))
    return c.op(op, *ins)


def run(program, context, data, keep=False):
    """The outputs' bits as they are stored; with `keep` every node's."""
    arrays = []
    for i, n in enumerate(program.nodes):
        arrays.append(record(context, n, [arrays[j] for j in n.ins], data.get(i)))
    wanted = range(len(program.nodes)) if keep else program.outputs
    kept = {i: arrays[i] for i in wanted}
    arrays.clear()
    return {i: a.read() for i, a in kept.items()}


# ---- in double precision ----


def expected(node, ins):
    """(value, bound): what NumPy says in double precision, and how much a correct result may differ, in units of the type."""
    given, op = node.given, node.op
    x = ins[0]
    if op in SIMPLE:
        want = SIMPLE[op](*ins)
        return want, 8 * (np.abs(want) + sum(np.abs(v).astype(float) for v in ins if v.dtype != np.bool_))
    if op in ("permute", "reshape", "broadcast", "slice", "flip", "copy", "concat", "pad", "sort", "argsort", "take", "take_along", "cummax", "max", "min", "gt", "where"):
        return EXACT[op](node, ins), 0
    if op == "scale":
        return x * given["by"], 2 * np.abs(x * given["by"])
    if op == "cast":
        # Rounded twice; the second is exact or the first one's. What is beyond the first one's largest is infinite, and what is near it may be.
        size, largest = np.abs(x), LARGEST[given["through"]]
        bound = size * 1.01 * max(EPS[given["through"]], EPS[node.dtype]) / EPS[node.dtype] + 2 ** -24 / EPS[node.dtype]
        return np.where(size > 1.01 * largest, np.copysign(np.inf, x), x), np.where(size > 1.01 * largest, 0, np.where(size > 0.99 * largest, np.inf, bound))
    if op in ("sum", "mean"):
        axes, keep = tuple(given["axes"]), given["keepdims"]
        f = np.sum if op == "sum" else np.mean
        return f(x, axis=axes, keepdims=keep), 40 * f(np.abs(x), axis=axes, keepdims=keep)
    if op == "cumsum":
        return np.cumsum(x, given["axis"]), 100 * np.cumsum(np.abs(x), given["axis"])
    if op == "matmul":
        return np.matmul(x, ins[1]), (4 + x.shape[-1]) * np.matmul(np.abs(x), np.abs(ins[1]))
    if op == "add_along":
        return add_along(node, ins)
    return NORMS[op](node, ins)


def add_along(node, ins):
    axis, extent = node.given["axis"], node.shape[node.given["axis"]]
    index = list(np.indices(ins[1].shape))
    index[axis] = np.where(ins[1] < 0, ins[1] + extent, ins[1]).astype(np.int64)
    want, of = ins[0].copy(), np.abs(ins[0])
    np.add.at(want, tuple(index), ins[2])
    np.add.at(of, tuple(index), np.abs(ins[2]))
    return want, 40 * of


def wrapped(index, extent):
    return np.where(index < 0, index + extent, index).astype(np.int64)


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x) if x.size else x


def exp_of(x, axes):
    e = np.exp(x - np.max(x, axes, keepdims=True))
    return e


def softmax(node, ins):
    axes = tuple(node.given["axes"])
    e = exp_of(ins[0], axes)
    return e / np.sum(e, axes, keepdims=True), 60 * (1 + np.abs(ins[0] - np.max(ins[0], axes, keepdims=True))) * e / np.sum(e, axes, keepdims=True) + 1e-30


def logsumexp(node, ins):
    axes = tuple(node.given["axes"])
    m = np.max(ins[0], axes, keepdims=True)
    want = m + np.log(np.sum(np.exp(ins[0] - m), axes, keepdims=True))
    return want, 60 * (1 + np.abs(want) + np.abs(m))


def variance(x, axes):
    mean = np.mean(x, axes, keepdims=True)
    return mean, np.mean((x - mean) ** 2, axes, keepdims=True), np.mean(x * x, axes, keepdims=True)


def var(node, ins):
    _, want, of = variance(ins[0], tuple(node.given["axes"]))
    return want, 100 * (want + np.sqrt(want * of) + of * EPS[node.dtype])


def std(node, ins):
    _, v, of = variance(ins[0], tuple(node.given["axes"]))
    want = np.sqrt(v)
    return want, 100 * (want + np.sqrt(of))


def normed(x, axes, dtype):
    mean, v, of = variance(x, axes)
    scale = 1 / np.sqrt(v + 1e-3)
    y = (x - mean) * scale
    return y, 200 * (np.abs(y) + (np.abs(x) + np.sqrt(of)) * scale * (1 + np.sqrt(of) * scale))


def layer_norm(node, ins):
    y, of = normed(ins[0], tuple(node.given["axes"]), node.dtype)
    want = y * ins[1] + ins[2]
    return want, of * np.abs(ins[1]) + 8 * (np.abs(want) + np.abs(ins[2]))


def group_norm(node, ins):
    x = ins[0]
    y, of = normed(x.reshape(x.shape[0], 1, -1), (2,), node.dtype)
    return y.reshape(x.shape), of.reshape(x.shape)


def rms_norm(node, ins):
    axes = tuple(node.given["axes"])
    want = ins[0] / np.sqrt(np.mean(ins[0] ** 2, axes, keepdims=True) + 1e-3) * ins[1]
    return want, 80 * np.abs(want)


def conv_of(x, w, b, given):
    pads = [(0, 0), (0, 0)] + [(p, p) for p in given["padding"]]
    x = np.pad(x, pads)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], tuple(range(2, x.ndim)))
    windows = windows[(slice(None), slice(None)) + tuple(slice(None, None, s) for s in given["stride"])]
    n, groups, taps = x.shape[0], given["groups"], size(w.shape[1:])
    spatial = windows.shape[2:x.ndim]
    each = x.shape[1] // groups
    windows = windows.reshape(n, groups, each, size(spatial), size(w.shape[2:])).transpose(0, 1, 3, 2, 4).reshape(n, groups, size(spatial), taps)
    y = np.matmul(windows, w.reshape(groups, w.shape[0] // groups, taps).transpose(0, 2, 1))
    y = y.transpose(0, 1, 3, 2).reshape(n, w.shape[0], *spatial)
    return y + b.reshape((1, -1) + (1,) * len(spatial))


def conv(node, ins):
    want = conv_of(*ins, node.given)
    return want, (6 + 2 * math.sqrt(size(ins[1].shape[1:]))) * conv_of(*[np.abs(v) for v in ins], node.given)


def attention(node, ins):
    q, k, v = ins
    s = np.matmul(q, np.swapaxes(k, -1, -2)) / math.sqrt(q.shape[-1])
    if node.given["causal"]:
        s = np.where(np.tri(s.shape[-2], s.shape[-1], dtype=bool), s, -np.inf)
    e = np.exp(s - np.max(s, -1, keepdims=True))
    p = e / np.sum(e, -1, keepdims=True)
    of = np.matmul(np.abs(q), np.abs(np.swapaxes(k, -1, -2))) / math.sqrt(q.shape[-1])
    return np.matmul(p, v), 60 * (1 + math.sqrt(q.shape[-1]) * np.max(of, -1, keepdims=True)) * np.matmul(p, np.abs(v))


SIMPLE = {
    "relu": lambda a: np.maximum(a, 0), "tanh": np.tanh, "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "abs": np.abs, "neg": np.negative,
    "square": lambda a: np.tanh(a) ** 2, "sin": np.sin, "gelu": lambda a: 0.5 * a * (1 + erf(a / math.sqrt(2))),
    "silu": lambda a: a / (1 + np.exp(-a)), "exp": lambda a: np.exp(np.tanh(a)), "sqrt": lambda a: np.sqrt(np.abs(a)), "floor": np.floor,
    "add": np.add, "sub": np.subtract, "mul": lambda a, b: a * np.tanh(b), "maximum": np.maximum, "minimum": np.minimum,
    "div": lambda a, b: a / (np.abs(b) + 1),
}
EXACT = {
    "permute": lambda n, v: v[0].transpose(n.given["axes"]), "reshape": lambda n, v: v[0].reshape(n.shape),
    "broadcast": lambda n, v: np.broadcast_to(v[0], n.shape), "slice": lambda n, v: v[0][tuple(n.given["ranges"])],
    "flip": lambda n, v: np.flip(v[0], n.given["axes"]), "copy": lambda n, v: v[0],
    "concat": lambda n, v: np.concatenate(v, n.given["axis"]), "pad": lambda n, v: np.pad(v[0], n.given["margins"]),
    "sort": lambda n, v: np.sort(v[0], n.given["axis"]), "argsort": lambda n, v: np.argsort(v[0], n.given["axis"], kind="stable"), "cummax": lambda n, v: np.maximum.accumulate(v[0], n.given["axis"]),
    "take": lambda n, v: np.take(v[0], wrapped(v[1], v[0].shape[n.given["axis"]]), n.given["axis"]),
    "take_along": lambda n, v: np.take_along_axis(v[0], wrapped(v[1], v[0].shape[n.given["axis"]]), n.given["axis"]),
    "max": lambda n, v: np.max(v[0], tuple(n.given["axes"]), keepdims=n.given["keepdims"]),
    "min": lambda n, v: np.min(v[0], tuple(n.given["axes"]), keepdims=n.given["keepdims"]),
    "gt": lambda n, v: v[0] > v[1], "where": lambda n, v: np.where(*v),
}
NORMS = {"softmax": softmax, "logsumexp": logsumexp, "var": var, "std": std, "layer_norm": layer_norm, "group_norm": group_norm,
         "rms_norm": rms_norm, "conv": conv, "attention": attention}

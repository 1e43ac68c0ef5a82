"""Whole networks, forward and backward, as programs record them: once on a context, once in NumPy in double precision.

Each is a function of an API (Fusion or Double below), its parameters and its inputs, and returns a loss. Gradients are compared with
NumPy by a derivative in one direction: what the loss does when all parameters move along a random one.
"""
import math

import numpy as np

import programs


class Fusion:
    def __init__(self, c):
        self.c = c

    def __getattr__(self, name):
        return lambda *operands: self.c.op(name, *operands)

    def number(self, op, a, value):
        return self.c.op_scalar(op, a, value)

    def mean(self, a, axes=None, keep=False):
        return self.c.reduce("mean", a, axes, keep)

    def permute(self, a, axes):
        return self.c.permute(a, axes)

    def reshape(self, a, shape):
        return self.c.reshape(a, shape)

    def concat(self, parts, axis):
        return self.c.join("concat", parts, axis)

    def slice(self, a, ranges):
        return self.c.slice(a, ranges)

    def conv(self, x, w, b, **given):
        return self.c.call("conv", x, w, b, **conv_given(w.shape, given))

    def layer_norm(self, x, w, b):
        return self.c.call("layer_norm", x, w, b, axes=[len(x.shape) - 1], eps=1e-3)

    def softmax(self, x):
        return self.c.call("softmax", x, axes=[len(x.shape) - 1])

    def attention(self, q, k, v, causal=False):
        return self.c.call("attention", q, k, v, causal=causal)

    def pool(self, x):
        return self.c.call("avg_pool", x, window=(2, 2), stride=(2, 2), padding=(0, 0))

    def take(self, x, index):
        return self.c.gather("take", x, index, 0)

    def add_at(self, x, index, updates):
        """Rows of updates added to rows of x."""
        rows, columns = updates.shape
        wide = self.c.copy(self.c.broadcast(self.c.reshape(index, (rows, 1)), (rows, columns)))
        return self.c.scatter("add_along", x, wide, updates, 0)

    def zeros_like(self, x):
        return self.c.full(x.dtype, x.shape, 0)


class Double:
    """The same on arrays of NumPy."""

    def __getattr__(self, name):
        plain = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "matmul": np.matmul, "relu": lambda a: np.maximum(a, 0), "tanh": np.tanh,
                 "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "square": np.square, "silu": lambda a: a / (1 + np.exp(-a))}
        return plain[name]

    def number(self, op, a, value):
        return {"mul": np.multiply, "add": np.add}[op](a, value)

    def mean(self, a, axes=None, keep=False):
        return np.mean(a, None if axes is None else tuple(axes), keepdims=keep)

    def permute(self, a, axes):
        return a.transpose(axes)

    def reshape(self, a, shape):
        return a.reshape(shape)

    def concat(self, parts, axis):
        return np.concatenate(parts, axis)

    def slice(self, a, ranges):
        return a[tuple(ranges)]

    def conv(self, x, w, b, **given):
        return programs.conv_of(x, w, b, conv_given(w.shape, given))

    def layer_norm(self, x, w, b):
        mean = np.mean(x, -1, keepdims=True)
        return (x - mean) / np.sqrt(np.mean((x - mean) ** 2, -1, keepdims=True) + 1e-3) * w + b

    def softmax(self, x):
        e = np.exp(x - np.max(x, -1, keepdims=True))
        return e / np.sum(e, -1, keepdims=True)

    def attention(self, q, k, v, causal=False):
        s = np.matmul(q, np.swapaxes(k, -1, -2)) / math.sqrt(q.shape[-1])
        return np.matmul(self.softmax(np.where(np.tri(*s.shape[-2:], dtype=bool), s, -1e300) if causal else s), v)

    def pool(self, x):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))

    def take(self, x, index):
        return x[index]

    def add_at(self, x, index, updates):
        y = x.copy()
        np.add.at(y, index, updates)
        return y

    def zeros_like(self, x):
        return np.zeros_like(x)


def conv_given(w, given):
    spatial = len(w) - 2
    return {"stride": [given.get("stride", 1)] * spatial, "padding": [n // 2 for n in w[2:]], "dilation": [1] * spatial, "groups": given.get("groups", 1)}


def loss_of(f, y, target):
    return f.mean(f.square(f.sub(y, target)))


# ---- the networks: f, p (parameters), x (inputs) ----


def convolutional(f, p, x):
    y = f.relu(f.conv(x["image"], p["w1"], p["b1"]))
    y = f.pool(f.add(y, f.relu(f.conv(y, p["w2"], p["b2"]))))
    y = f.relu(f.conv(y, p["w3"], p["b3"], stride=2))
    return loss_of(f, f.add(f.matmul(f.mean(y, [2, 3]), p["w"]), p["b"]), x["target"])


def depthwise(f, p, x):
    y = x["image"]
    for i in range(3):
        d = f.silu(f.conv(y, p[f"d{i}"], p[f"e{i}"], groups=16))
        y = f.add(y, f.conv(d, p[f"w{i}"], p[f"b{i}"]))
    return loss_of(f, f.mean(y, [2, 3]), x["target"])


def recurrent(f, p, x):
    h = x["state"]
    c = f.zeros_like(h)
    n = 32
    for t in range(12):
        z = f.add(f.add(f.matmul(f.reshape(f.slice(x["steps"], [slice(t, t + 1), slice(None), slice(None)]), (8, 24)), p["w"]), f.matmul(h, p["u"])), p["b"])
        i, o, g, k = (f.slice(z, [slice(None), slice(j * n, j * n + n)]) for j in range(4))
        c = f.add(f.mul(f.sigmoid(k), c), f.mul(f.sigmoid(i), f.tanh(g)))
        h = f.mul(f.sigmoid(o), f.tanh(c))
    return loss_of(f, h, x["target"])


def heads(f, y, batch, length, width, count):
    return f.permute(f.reshape(y, (batch, length, count, width // count)), (0, 2, 1, 3))


def block(f, p, y, i, causal):
    batch, length, width, count = 2, 48, 32, 4
    z = f.layer_norm(y, p[f"n{i}"], p[f"o{i}"])
    q, k, v = (heads(f, f.matmul(z, p[f"{name}{i}"]), batch, length, width, count) for name in "qkv")
    a = f.reshape(f.permute(f.attention(q, k, v, causal), (0, 2, 1, 3)), (batch, length, width))
    y = f.add(y, f.matmul(a, p[f"a{i}"]))
    z = f.layer_norm(y, p[f"m{i}"], p[f"l{i}"])
    return f.add(y, f.matmul(f.silu(f.add(f.matmul(z, p[f"f{i}"]), p[f"g{i}"])), p[f"h{i}"]))


def encoder(f, p, x):
    y = x["tokens"]
    for i in range(2):
        y = block(f, p, y, i, False)
    return loss_of(f, f.mean(y, [1]), x["target"])


def decoder(f, p, x):
    y = f.reshape(f.take(p["table"], x["index"]), (2, 48, 32))
    for i in range(2):
        y = block(f, p, y, i, True)
    return loss_of(f, f.softmax(f.matmul(y, f.permute(p["table"], (1, 0)))), x["target"])


def unet(f, p, x):
    a = f.relu(f.conv(x["image"], p["w1"], p["b1"]))
    b = f.relu(f.conv(f.pool(a), p["w2"], p["b2"]))
    c = f.relu(f.conv(f.pool(b), p["w3"], p["b3"]))
    b = f.relu(f.conv(f.concat([grow(f, c), b], 1), p["w4"], p["b4"]))
    return loss_of(f, f.conv(f.concat([grow(f, b), a], 1), p["w5"], p["b5"]), x["target"])


def grow(f, y):
    """Each place four times."""
    n, c, h, w = y.shape
    y = f.reshape(y, (n, c, h, 1, w, 1))
    y = f.concat([y, y], 5)
    return f.reshape(f.concat([y, y], 3), (n, c, 2 * h, 2 * w))


def graph_network(f, p, x):
    y = x["nodes"]
    for i in range(2):
        edges = f.concat([f.take(y, x["from"]), f.take(y, x["to"])], 1)
        messages = f.silu(f.add(f.matmul(edges, p[f"w{i}"]), p[f"b{i}"]))
        y = f.add(y, f.tanh(f.matmul(f.add_at(f.zeros_like(y), x["to"], messages), p[f"u{i}"])))
    return loss_of(f, f.mean(y, [0]), x["target"])


def conv_shapes(*channels):
    """Pairs of channels, or (in, out, taps, groups)."""
    shapes = {}
    for i, (a, b) in enumerate(channels):
        shapes |= {f"w{i + 1}": (b, a, 3, 3), f"b{i + 1}": (b,)}
    return shapes


def block_shapes(count):
    return {f"{name}{i}": shape for i in range(count) for name, shape in
            [*((n, (32, 32)) for n in "qkva"), *((n, (32,)) for n in "noml"), ("f", (32, 96)), ("g", (96,)), ("h", (96, 32))]}


# name: the function, shapes of parameters, shapes of inputs; what ends in an extent is an index below it.
NETWORKS = {
    "convolutional": (convolutional, conv_shapes((3, 16), (16, 16), (16, 24)) | {"w": (24, 10), "b": (10,)}, {"image": (4, 3, 24, 24), "target": (4, 10)}),
    "depthwise": (depthwise, {f"{n}{i}": s for i in range(3) for n, s in (("d", (16, 1, 3, 3)), ("e", (16,)), ("w", (16, 16, 1, 1)), ("b", (16,)))},
                  {"image": (2, 16, 20, 20), "target": (2, 16)}),
    "recurrent": (recurrent, {"w": (24, 128), "u": (32, 128), "b": (128,)}, {"steps": (12, 8, 24), "state": (8, 32), "target": (8, 32)}),
    "encoder": (encoder, block_shapes(2), {"tokens": (2, 48, 32), "target": (2, 32)}),
    "decoder": (decoder, block_shapes(2) | {"table": (40, 32)}, {"index": (96, 40), "target": (2, 48, 40)}),
    "unet": (unet, conv_shapes((3, 8), (8, 12), (12, 16), (28, 12), (20, 3)), {"image": (2, 3, 16, 16), "target": (2, 3, 16, 16)}),
    "graph_network": (graph_network, {f"{n}{i}": s for i in range(2) for n, s in (("w", (48, 24)), ("b", (24,)), ("u", (24, 24)))},
                      {"nodes": (30, 24), "from": (90, 30), "to": (90, 30), "target": (24,)}),
}
INDICES = ("index", "from", "to")


def make(name, seed):
    """The function, its parameters and inputs in single precision."""
    function, parameters, inputs = NETWORKS[name]
    rng = np.random.default_rng([seed, len(name)])
    p = {k: (rng.normal(size=s) / math.sqrt(max(1, math.prod(s[1:]) if len(s) == 4 else s[0] if len(s) == 2 else 4))).astype("f4") for k, s in parameters.items()}
    x = {k: rng.integers(0, s[1], s[0]) if k in INDICES else rng.normal(size=s).astype("f4") for k, s in inputs.items()}
    return function, p, x


def run(c, function, p, x):
    """The loss and the gradients' bits."""
    arrays = {k: c.array("f32", v) for k, v in p.items()}
    given = {k: c.array("i64" if k in INDICES else "f32", v.astype("i8") if k in INDICES else v) for k, v in x.items()}
    c.watch(*arrays.values())
    loss = function(Fusion(c), arrays, given)
    made = c.grad(loss, list(arrays.values()))
    return [loss.read(), *(g.read() for g in made)]


def check(report, name, function, p, x, result):
    f = Double()
    wide = {k: v.astype(float) for k, v in p.items()}
    inputs = {k: v if k in INDICES else v.astype(float) for k, v in x.items()}
    want = function(f, wide, inputs)
    report.check(abs(result[0] - want) <= 1e-4 * (1 + abs(want)), f"{name}: the loss", f"{result[0]}, not {want}")
    rng = np.random.default_rng(5)
    along = {k: rng.normal(size=v.shape) for k, v in wide.items()}
    got = sum(float(np.sum(g.astype(float) * along[k])) for k, g in zip(wide, result[1:]))
    size = sum(float(np.sum(np.abs(g.astype(float) * along[k]))) for k, g in zip(wide, result[1:]))
    step = 1e-5
    ahead, behind = (function(f, {k: v + s * step * along[k] for k, v in wide.items()}, inputs) for s in (1, -1))
    slope = (ahead - behind) / (2 * step)
    report.check(abs(got - slope) <= 2e-3 * size + 1e-6, f"{name}: the gradients", f"along a direction {got}, not {slope}, of parts of {size}")

"""How random graphs meet composites: operands, attributes and the result's shape, by the shape rule of the row.

A composite whose row names a rule that is there already needs nothing here; ROUND lists those that graphs can make,
and the coverage names the others. Values are test_composites.py's business: in graphs a composite must give the same
bits whatever is fused around it, and have the shape and type that the row says.
"""
import numpy as np

from tables import COMPOSITES, DTYPES


def size(shape):
    return int(np.prod(shape, dtype=np.int64))


class Maker:
    """Adds one composite to a graphs.Program."""

    def __init__(self, program, composite, dtype):
        self.program, self.composite, self.dtype = program, composite, dtype
        self.given = {}

    def has(self, attribute):
        return attribute in self.composite.attributes

    def shape_of(self, node):
        return self.program.nodes[node].shape

    def operand(self, least, otherwise, nothing=True):
        """A node of `least` dimensions or more, that is empty only where it may be; else a new one."""
        p = self.program
        node = p.operand(self.dtype)
        if len(self.shape_of(node)) >= least and (nothing or size(self.shape_of(node))):
            return node
        return p.source(self.dtype, [p.extent(n) for n in otherwise], "load")

    def absent_or_like(self, ins, shapes):
        """The operands that may be left out, some of them, in these shapes."""
        p = self.program
        count = int(p.rng.integers(self.composite.least, self.composite.arity + 1))
        for shape in shapes[:max(0, count - len(ins))]:
            ins.append(p.source(self.dtype, shape, "load"))
        return ins

    def axes(self, shape):
        p = self.program
        axes = [len(shape) - 1] if p.chance(0.5) else [d for d in range(len(shape)) if p.chance(0.5)]
        return tuple(axes or range(len(shape)))

    def constants(self):
        for name, value in (("eps", 1e-5), ("correction", float(self.program.choose([0, 1])))):
            if self.has(name):
                self.given[name] = value

    # ---- one function a shape rule: operands, and the shape of the result ----

    def same(self):
        x = self.operand(1, (7, 5))
        shape = self.shape_of(x)
        self.given["axes"] = axes = self.axes(shape)
        return self.absent_or_like([x], [shape[min(axes):], shape[min(axes):]]), shape

    def reduced(self, nothing=True):
        p = self.program
        x = self.operand(1, (7, 5), nothing)
        shape = self.shape_of(x)
        axes, keepdims = self.axes(shape), p.chance(0.5)
        self.given.update(axes=axes, keepdims=keepdims)
        return [x], [1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes]

    def reduced_some(self):
        return self.reduced(nothing=False)

    def grouped(self):
        x = self.operand(2, (2, 5, 3))
        shape = self.shape_of(x)
        self.given["groups"] = shape[1] if shape[1] and self.program.chance(0.5) else 1
        return self.absent_or_like([x], [(shape[1],)] * 2), shape

    def channels(self):
        x = self.operand(1, (3, 5))
        shape = self.shape_of(x)
        axis = int(self.program.rng.integers(len(shape)))
        self.given["axes"] = (axis,)
        return self.absent_or_like([x], [(shape[axis],)] * 4), shape

    def classified(self):
        p = self.program
        x = self.operand(1, (5, 7), nothing=False)
        shape = self.shape_of(x)
        axis = int(p.rng.integers(len(shape)))
        self.given["axes"] = (axis,)
        left = shape[:axis] + shape[axis + 1:]
        values = p.data.integers(-1, shape[axis] + 1, left).astype(np.int32)
        return [x, p.add("load", "i32", left, values=values)], left

    def one_hot(self):
        p = self.program
        x = self.operand(0, (5,))
        if len(self.shape_of(x)) > 7 or size(self.shape_of(x)) * 3 > p.limit():
            x = p.source(self.dtype, (p.extent(7),), "load")
        self.given.update(classes=3, dtype=p.choose(list(DTYPES)))
        return [x], tuple(self.shape_of(x)) + (3,)

    def eye(self):
        p = self.program
        dims = [p.extent(int(p.choose([1, 3, 7, 17]))) for _ in range(2)]
        self.given.update(dims=dims, diagonal=int(p.rng.integers(-2, 3)), dtype=self.dtype)
        return [], dims

    def matrix(self):
        x = self.operand(2, (7, 5))
        self.given["diagonal"] = int(self.program.rng.integers(-2, 3))
        return [x], self.shape_of(x)

    def outer(self):
        p = self.program
        shapes = [(p.extent(int(p.choose([1, 3, 17]))),) for _ in range(2)]
        return [p.source(self.dtype, shape, "load") for shape in shapes], shapes[0] + shapes[1]

    def vecdot(self):
        p = self.program
        x = self.operand(1, (7, 5))
        shape = self.shape_of(x)
        axis, keepdims = int(p.rng.integers(len(shape))), p.chance(0.5)
        self.given.update(axes=(axis,), keepdims=keepdims)
        left = [1 if d == axis else n for d, n in enumerate(shape) if keepdims or d != axis]
        return [x, p.source(self.dtype, shape, "load")], left

    def linear(self):
        p = self.program
        x = self.operand(2, (7, 5))
        if size(self.shape_of(x)) > 1000:
            x = p.source(self.dtype, (p.extent(7), p.extent(5)), "load")
        shape, n = self.shape_of(x), p.extent(int(p.choose([1, 3, 11])))
        ins = [x, p.source(self.dtype, (n, shape[-1]), "load")]
        return self.absent_or_like(ins, [(n,)]), tuple(shape[:-1]) + (n,)

    def attention(self):
        p = self.program
        queries, keys, depth, wide = (p.extent(n) for n in (3, 7, 5, 2))
        self.given.update(causal=p.chance(0.5), scale=float(p.choose([0, 0.5])))
        ins = [p.source(self.dtype, shape, "load") for shape in ((queries, depth), (keys, depth), (keys, wide))]
        return self.absent_or_like(ins, [(queries, keys)]), (queries, wide)

    def embedding(self):
        p = self.program
        rows, wide = (p.extent(n) for n in (7, 3))
        shape = (p.extent(5),) if p.chance(0.5) else (2, p.extent(3))
        values = p.data.integers(-1, rows + 1, shape).astype(np.int32)
        return [p.source(self.dtype, (rows, wide), "load"), p.add("load", "i32", shape, values=values)], shape + (wide,)

    def slid(self, shape, windows, dilation):
        self.given.update(stride=self.lists(shape, (1, 2)), padding=[int(self.program.choose([0, w // 2])) for w in windows])
        return [(n + 2 * p - (w - 1) * d - 1) // s + 1 for n, w, s, p, d in
                zip(shape, windows, self.given["stride"], self.given["padding"], dilation)]

    def lists(self, shape, values):
        return [int(self.program.choose(list(values))) for _ in shape]

    def pooled(self):
        p = self.program
        shape = [p.extent(n) for n in ((7, 11) if p.chance(0.5) else (13,))]
        self.given["window"] = windows = self.lists(shape, (1, 2, 3))
        return [p.source(self.dtype, (2, 3, *shape), "load")], (2, 3, *self.slid(shape, windows, [1] * len(shape)))

    def conv(self):
        p = self.program
        shape, groups = [p.extent(n) for n in ((7, 11) if p.chance(0.5) else (13,))], int(p.choose([1, 2]))
        windows, dilation = self.lists(shape, (1, 2, 3)), self.lists(shape, (1, 2))
        self.given.update(groups=groups, dilation=dilation)
        ins = [p.source(self.dtype, (2, 4, *shape), "load"), p.source(self.dtype, (6, 4 // groups, *windows), "load")]
        return self.absent_or_like(ins, [(6,)]), (2, 6, *self.slid(shape, windows, dilation))

    def backward(self, of):
        p = self.program
        ins, shape = self.conv()
        return ins[:2] + [p.source(self.dtype, shape, "load")], self.shape_of(ins[of])

    def conv_input_grad(self):
        return self.backward(0)

    def conv_weight_grad(self):
        return self.backward(1)

    def make(self):
        self.constants()
        ins, shape = getattr(self, self.composite.shape)()
        result = {"INDEX": "i64", "DTYPE": self.given.get("dtype")}.get(self.composite.result, self.dtype)
        return self.program.add(self.composite.name, result, shape, ins, **self.given)


# Those that graphs make.
ROUND = [name for name, c in COMPOSITES.items() if hasattr(Maker, c.shape)]


def make(program, name, dtype):
    return Maker(program, COMPOSITES[name], dtype).make()


def dtypes_of(name):
    composite = COMPOSITES[name]
    return [d for d in DTYPES if composite.takes(d)]

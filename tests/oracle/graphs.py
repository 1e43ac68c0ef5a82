"""Random graphs: how they are made, how they run on a context, how the reference sees them.

A Program is a list of nodes in the order in which they are recorded; a node is an operation, a source or a write.
Writes (copy_into, fill_into, a mapping) give the array of an earlier node new contents: a new node, and the old one
is used no more, though views of it live on.

A kernel takes a driver's compiler a quarter of a second, so graphs come in families: the members have the same
operations on the same operands (mostly: extents decide about some), and differ in extents, values, scalars, bounds of
slices, flushes and in how results are read. An operation is met in a few of its element types, always the same
ones, unless every_type() asks for all.

Operands are rather computed ones that nothing reads yet, so that chains are deep and much can be fused; one family
in DEEP is three times as long. What a reduction gives goes back over its rows more often than chance would have it.
"""
import math

import numpy as np

import composites
import fusion
import reference
from harness import random_values
from reference import STORAGE, to_register, to_storage
from tables import COMPOSITES, DTYPES, OPS

MOST_ELEMENTS = 3000
WRITES = ("copy_into", "fill_into", "map_write")
VIEWS = ("reshape", "permute", "broadcast", "slice", "flip", "windows")
GATHERS = ("take", "take_along")
SCATTERS = ("put_along", "add_along")
SORTS = ("sort", "argsort")
SOURCES = ("load", "fill", "arange")
FORCED = 5
STRIDE = 29
# The operations that each family must hit, FORCED of them, one family after another; neighbours of the table apart.
ROUND = [name for i in range(STRIDE) for name in (list(OPS) + composites.ROUND)[i::STRIDE]]
# Extents of one group may take each other's places in another member of a family.
EXTENTS = ((2, 3, 5), (7, 11, 13, 17, 33))
TYPES = {"REDUCE": 5, "SCAN": 4, "STRUCT": 13, "UNARY": 3, "BINARY": 3, "TERNARY": 4}
EVERY_TYPE = False
# One family in so many is long.
DEEP = 8


class Node:
    def __init__(self, op, dtype, shape, ins=(), /, **attributes):
        self.op, self.dtype, self.shape, self.ins, self.attributes = op, dtype, tuple(shape), list(ins), attributes

    def text(self, number):
        given = {k: v for k, v in self.attributes.items() if k != "values"}
        ins = ", ".join(f"%{i}" for i in self.ins)
        return f"%{number} = {self.op}({ins}) {given or ''} {self.dtype}{list(self.shape)}"


def allowed_dtypes(name):
    op = OPS[name]
    if op.types:
        return [d for d in DTYPES if op.takes(d)]
    return [d for d in DTYPES if not (d == "bool" and name in ("matmul", "arange", "add_along"))]


def every_type():
    """From now on graphs meet operations in all their element types."""
    global EVERY_TYPE
    EVERY_TYPE = True


def dtypes_of(name):
    """The element types in which graphs meet an operation."""
    if name in COMPOSITES:
        allowed = composites.dtypes_of(name)
        return allowed if EVERY_TYPE else allowed[-3:]
    allowed, op = allowed_dtypes(name), OPS[name]
    if EVERY_TYPE:
        return allowed
    count = min(len(allowed), 4 if name in ("matmul", "copy", "arange") else TYPES[op.kind])
    first = op.id * 5
    return [allowed[(first + i * len(allowed) // count) % len(allowed)] for i in range(count)]


def cast_is_met(source, target):
    """A third of the pairs of types, each type among them on either side."""
    return source != target and EVERY_TYPE or source != target and (DTYPES[source].id + 2 * DTYPES[target].id) % 3 == 0 or source == "f32"


def size(shape):
    return math.prod(shape)


class Program:
    """Member `member` of a family. `rng` decides what all members share, `data` what differs."""

    def __init__(self, seed, family, member):
        self.rng = np.random.default_rng([seed, family])
        self.data = np.random.default_rng([seed, family, member])
        self.family, self.member = family, member
        self.nodes = []
        self.dead = set()              # written over
        self.writes = self.chance(0.15)
        self.capture = not self.writes and self.chance(0.2)
        self.deep = family % DEEP == DEEP - 1
        self.read = set()              # some node's operands
        self.base = self.base_shape()
        self.dtypes = list(self.rng.choice(list(DTYPES), 2))
        self.make()

    # ---- choosing ----

    def choose(self, values):
        return values[int(self.rng.integers(len(values)))]

    def chance(self, p):
        return self.rng.random() < p

    def base_shape(self):
        self.exchange = {n: int(m) for group in EXTENTS for n, m in zip(group, self.data.permutation(group))}
        if self.chance(0.04):
            return self.choose([(8193,), (3, 8200), (9000, 2), (16385,), (2, 3, 3000)])
        rank = int(self.choose([0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8]))
        shape = [int(self.choose([1, 2, 3, 5] if rank > 3 else [1, 2, 3, 5, 7, 11, 17, 33])) for _ in range(rank)]
        if rank and self.chance(0.03):
            shape[int(self.rng.integers(rank))] = 0
        while size(shape) > MOST_ELEMENTS:
            shape[int(np.argmax(shape))] = 2
        exchanged = [self.extent(n) for n in shape]
        if size(exchanged) > 2 * MOST_ELEMENTS:
            self.exchange, exchanged = {}, shape
        return tuple(exchanged)

    def extent(self, n):
        return self.exchange.get(n, n)

    def part_of(self, shape):
        """A shape that broadcasts to this one."""
        part = [1 if self.chance(0.2) else n for n in shape]
        return tuple(part[int(self.rng.integers(len(part) + 1)):] if self.chance(0.15) else part)

    def alive(self, condition):
        return [i for i, n in enumerate(self.nodes) if i not in self.dead and condition(n)]

    def limit(self):
        return max(MOST_ELEMENTS, 2 * size(self.base))

    # ---- adding ----

    def add(self, *arguments, **attributes):
        self.nodes.append(Node(*arguments, **attributes))
        self.read.update(self.nodes[-1].ins)
        return len(self.nodes) - 1

    def source(self, dtype, shape, op=None):
        op = op or ("fill" if self.chance(0.15) else "load")
        if op == "load":
            special = float(self.data.choice([0.0, 0.0, 0.05, 0.3]))
            return self.add("load", dtype, shape, values=random_values(self.data, dtype, shape, special))
        if op == "fill":
            return self.add("fill", dtype, shape, value=self.number_of(dtype), scalar=shape == () and self.chance(0.5))
        start, step = [(0, 1), (5, 3), (1, 0), (-1.25, 0.3)][int(self.data.integers(4 if reference.is_real(dtype) else 3))]
        node = self.add("arange", dtype, (max(1, size(shape)),), start=start, step=step)
        return self.add("reshape", dtype, shape, [node]) if size(shape) and self.chance(0.5) else node

    def number_of(self, dtype):
        """A value that the type has."""
        values = [0, 1] if dtype == "bool" else [0, 1, 2, 3, 5] + ([-1.5, 0.1, -0.0] if reference.is_real(dtype) else [])
        return values[int(self.data.integers(len(values)))]

    def operand(self, dtype, beside=None):
        """A node of this type: found, cast, or new; one that broadcasts with the shape `beside`."""
        def suits(node):
            return beside is None or self.fits(node.shape, beside)

        found = self.alive(lambda n: n.dtype == dtype and suits(n))
        if found and self.chance(0.85):
            return self.choose(self.preferred(found))
        other = self.alive(lambda n: cast_is_met(n.dtype, dtype) and suits(n))
        if other and self.chance(0.45):
            node = self.choose(other)
            return self.add("cast", dtype, self.nodes[node].shape, [node])
        return self.source(dtype, self.part_of(self.base if beside is None else beside))

    def preferred(self, found):
        """Of these nodes rather the computed ones that nothing reads yet, then late ones."""
        fresh = [i for i in found if i not in self.read and self.nodes[i].ins]
        if fresh and self.chance(0.6):
            return fresh
        return found[-4:] if self.chance(0.7) else found

    def fits(self, a, b):
        try:
            shape = np.broadcast_shapes(a, b)
        except ValueError:
            return False
        return size(shape) <= self.limit()

    def elementwise(self, name, dtype):
        op = OPS[name]
        ins, shape = [], None
        for i in range(op.arity):
            wanted = "bool" if name == "where" and i == 0 else dtype
            node = self.operand(wanted, shape)
            ins.append(node)
            shape = self.nodes[node].shape if shape is None else np.broadcast_shapes(shape, self.nodes[node].shape)
        return self.add(name, op.result_dtype(dtype), shape, ins)

    def reduction(self, name, dtype):
        node = self.operand(dtype)
        shape = self.nodes[node].shape
        axes = [d for d in range(len(shape)) if self.chance(0.5)]
        if name in ("max", "min") and (size(shape) == 0):
            node = self.source(dtype, (4, 3), "load")
            axes = [1]
        return self.reduced(name, node, axes, bool(self.chance(0.4)))

    def reduced(self, name, node, axes, keepdims):
        """The reduction of a node over axes; none are all."""
        shape = self.nodes[node].shape
        axes = axes or list(range(len(shape)))
        left = [1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes]
        given = None if len(axes) == len(shape) else [d - len(shape) if self.chance(0.3) else d for d in axes]
        result = OPS[name].result_dtype(self.nodes[node].dtype)
        return self.add(name, result, left, [node], axes=given, keepdims=keepdims)

    def over_rows(self, dtype):
        """What rows reduce to, back over the rows, up to three times, as norms and softmax do it."""
        x = self.operand(dtype)
        shape = self.nodes[x].shape
        if not shape or not size(shape):
            x = self.source(dtype, [self.extent(7), self.extent(5)], "load")
            shape = self.nodes[x].shape
        axes = [len(shape) - 1] if self.chance(0.6) else [d for d in range(len(shape)) if self.chance(0.4)] or [0]
        for _ in range(int(self.rng.integers(1, 4))):
            row = self.row_of(x, axes)
            x = self.function(x, row) if self.chance(0.8) else self.function(row, x)
            if self.chance(0.4):
                x = self.function(x)
        return x

    def row_of(self, x, axes):
        """A reduction of x, or of what some function makes of it, in the type of x and in a shape that broadcasts."""
        dtype, shape = self.nodes[x].dtype, self.nodes[x].shape
        name = self.choose([op.name for op in OPS.values() if op.kind == "REDUCE" and op.takes(dtype)])
        prologue = self.function(x) if self.chance(0.5) else self.function(x, x) if self.chance(0.2) else x
        keepdims = self.chance(0.7)
        row = self.reduced(name, prologue, axes, keepdims)
        if self.chance(0.3):
            row = self.function(row)
        if self.nodes[row].dtype != dtype:
            row = self.add("cast", dtype, self.nodes[row].shape, [row])
        if keepdims:
            return row
        kept = [1 if d in axes else n for d, n in enumerate(shape)]
        row = self.add("reshape", dtype, kept, [row])
        return self.add("broadcast", dtype, shape, [row]) if self.chance(0.3) else row

    def function(self, *ins):
        """An elementwise operation on these that keeps their type."""
        dtype = self.nodes[ins[0]].dtype
        ops = [op for op in OPS.values() if op.elementwise and op.arity == len(ins) and op.takes(dtype) and
               op.result_dtype(dtype) == dtype]
        met = [op for op in ops if dtype in dtypes_of(op.name)] or ops
        shape = np.broadcast_shapes(*[self.nodes[i].shape for i in ins])
        return self.add(self.choose(met).name, dtype, shape, ins)

    def scan(self, name, dtype):
        node = self.operand(dtype)
        if not self.nodes[node].shape:
            node = self.source(dtype, (4, 3), "load")
        shape = self.nodes[node].shape
        axis = int(self.rng.integers(len(shape)))
        return self.add(name, OPS[name].result_dtype(dtype), shape, [node], axis=axis - len(shape) * self.chance(0.3))

    def matmul(self, dtype):
        found = self.alive(lambda n: n.dtype == dtype and len(n.shape) >= 2 and size(n.shape) <= 1000)
        a = self.choose(found) if found else self.source(dtype, [self.extent(int(self.choose([1, 3, 11]))) for _ in range(2)], "load")
        batch, k, n = self.nodes[a].shape[:-2], self.nodes[a].shape[-1], self.extent(int(self.choose([1, 2, 5, 17])))
        found = self.alive(lambda o: o.dtype == dtype and len(o.shape) >= 2 and o.shape[-2] == k and o.shape[-1] < 40 and
                           self.fits(o.shape[:-2], batch))
        b = self.choose(found) if found and self.chance(0.7) else self.source(dtype, self.part_of(batch) + (k, n), "load")
        left, right = self.nodes[a].shape, self.nodes[b].shape
        shape = np.broadcast_shapes(left[:-2], right[:-2]) + (left[-2], right[-1])
        if size(shape) * k > 40000:
            return self.elementwise("add", dtype)
        return self.add("matmul", dtype, shape, [a, b])

    def gather(self, name, dtype):
        """Indices are made for the axis, so that most are on it; some are computed."""
        node = self.operand(dtype)
        if not self.nodes[node].shape:
            node = self.source(dtype, (self.extent(7),), "load")
        shape = self.nodes[node].shape
        axis = int(self.rng.integers(len(shape)))
        kind = self.choose(["i32", "i64", "u8", "u64", "i16"])
        rank = len(shape) if name == "take_along" else int(self.choose([0, 1, 1, 2]))
        taken = [self.extent(int(self.choose([1, 3, 7, 17]))) for _ in range(rank)]
        if name == "take_along":
            taken = [n if d == axis else self.choose([1, shape[d], shape[d]]) for d, n in enumerate(taken)]
        if len(shape) - 1 + rank > 8 or size(taken) * size(shape) > self.limit() * 4:
            return self.view("flip", dtype)
        low = -shape[axis] - 1 if kind[0] == "i" else 0
        index = self.add("load", kind, taken, values=self.data.integers(low, shape[axis] + 1, taken).astype(STORAGE[kind]))
        if self.chance(0.4):
            one = self.add("fill", kind, (), value=1, scalar=True)
            index = self.add(self.choose(["add", "sub", "maximum"]), kind, taken, [index, one])
        shape = getattr(reference, name)(np.empty(shape, np.bool_), np.empty(taken, np.int8), axis).shape
        if size(shape) > self.limit():
            return self.view("flip", dtype)
        return self.add(name, dtype, shape, [node, index], axis=axis)

    def scatter(self, name, dtype):
        node = self.operand(dtype)
        if not self.nodes[node].shape:
            node = self.source(dtype, (self.extent(7),), "load")
        shape = self.nodes[node].shape
        axis = int(self.rng.integers(len(shape)))
        there = shape[:axis] + (self.extent(int(self.choose([1, 3, 7]))),) + shape[axis + 1:]
        if size(there) > self.limit():
            return self.view("flip", dtype)
        kind = self.choose(["i32", "i64", "u8"])
        low = -shape[axis] - 1 if kind[0] == "i" else 0
        index = self.add("load", kind, there, values=self.data.integers(low, shape[axis] + 1, there).astype(STORAGE[kind]))
        updates = self.source(dtype, there, "load")
        if self.chance(0.4):
            updates = self.function(updates)
        return self.add(name, dtype, shape, [node, index, updates], axis=axis)

    def sort(self, name, dtype):
        node = self.operand(dtype)
        if not self.nodes[node].shape:
            node = self.source(dtype, (self.extent(7),), "load")
        shape = self.nodes[node].shape
        axis = int(self.rng.integers(len(shape))) - len(shape) * self.chance(0.3)
        return self.add(name, dtype if name == "sort" else "i64", shape, [node], axis=axis, descending=self.chance(0.4))

    def search(self, dtype):
        """In a sorted vector."""
        vector = self.source(dtype, (self.extent(int(self.choose([1, 7, 17]))),), "load")
        vector = self.add("sort", dtype, self.nodes[vector].shape, [vector], axis=0, descending=False)
        node = self.operand(dtype)
        return self.add("searchsorted", "i64", self.nodes[node].shape, [vector, node], right=self.chance(0.5))

    def concat(self, dtype):
        """Of nodes that were found or made for it; the first one decides the shape."""
        node = self.operand(dtype)
        shape = self.nodes[node].shape
        if not shape or size(shape) * 3 > self.limit():
            return self.view("flip", dtype)
        axis, ins = int(self.rng.integers(len(shape))), [node]
        for _ in range(int(self.rng.integers(1, 4))):
            found = self.alive(lambda n: n.dtype == dtype and len(n.shape) == len(shape) and
                               n.shape[:axis] + n.shape[axis + 1:] == shape[:axis] + shape[axis + 1:] and size(n.shape) <= size(shape))
            ins.append(self.choose(found) if self.chance(0.6) else self.source(dtype, shape))
        joined = sum(self.nodes[i].shape[axis] for i in ins)
        return self.add("concat", dtype, shape[:axis] + (joined,) + shape[axis + 1:], ins, axis=axis)

    def pad(self, dtype):
        node = self.operand(dtype)
        margins = [tuple(int(v) for v in self.data.integers(0, 3, 2)) for _ in self.nodes[node].shape]
        shape = [n + low + high for n, (low, high) in zip(self.nodes[node].shape, margins)]
        if size(shape) > self.limit():
            return self.view("flip", dtype)
        ins = [node] + ([self.source(dtype, (), "load")] if self.chance(0.4) else [])
        return self.add("pad", dtype, shape, ins, margins=margins)

    # ---- views ----

    def view(self, name, dtype):
        node = self.operand(dtype)
        return getattr(self, name)(node, self.nodes[node])

    def copy(self, node, seen):
        return self.add("copy", seen.dtype, seen.shape, [node])

    def reshape(self, node, seen):
        if size(seen.shape) == 0:
            return self.add("reshape", seen.dtype, seen.shape[::-1], [node])
        factors = [p for n in seen.shape for p in prime_factors(n)]
        shape = []
        for p in factors:
            if shape and (len(shape) == 8 or self.chance(0.5)):
                shape[-1] *= p
            else:
                shape.append(p)
        for _ in range(int(self.rng.integers(2))):
            if len(shape) < 8:
                shape.insert(int(self.rng.integers(len(shape) + 1)), 1)
        return self.add("reshape", seen.dtype, shape, [node])

    def permute(self, node, seen):
        axes = [int(d) for d in self.rng.permutation(len(seen.shape))]
        return self.add("permute", seen.dtype, [seen.shape[d] for d in axes], [node], axes=axes)

    def broadcast(self, node, seen):
        shape = [self.extent(int(self.choose([1, 2, 3]))) if n == 1 else n for n in seen.shape]
        shape = [self.extent(int(self.choose([1, 2, 3]))) for _ in range(int(self.rng.integers(3))) if len(shape) < 7] + shape
        if size(shape) > self.limit():
            shape = list(seen.shape)
        return self.add("broadcast", seen.dtype, shape, [node])

    def slice(self, node, seen):
        ranges = []
        for n in seen.shape:
            step = int(self.choose([1, 1, 1, 2, -1, -2, 3]))
            low, high = sorted(int(v) for v in self.data.integers(0, n + 1, 2)) if n else (0, 0)
            if low == high and n and self.data.random() < 0.9:
                low, high = (low, low + 1) if low < n else (low - 1, low)
            bounds = (low, high) if step > 0 else (high - 1, low - 1 if low else None)
            ranges.append(slice(None, None, step) if self.chance(0.4) or bounds[0] < 0 else slice(*bounds, step))
        shape = [len(range(*r.indices(n))) for r, n in zip(ranges, seen.shape)]
        return self.add("slice", seen.dtype, shape, [node], ranges=ranges)

    def flip(self, node, seen):
        axes = [d for d in range(len(seen.shape)) if self.chance(0.5)]
        return self.add("flip", seen.dtype, seen.shape, [node], axes=axes)

    def windows(self, node, seen):
        axes = [d for d, n in enumerate(seen.shape) if n and len(seen.shape) < 8 and 2 * size(seen.shape) <= self.limit()]
        if not axes:
            return self.flip(node, seen)
        axis, step = self.choose(axes), int(self.choose([1, 1, 2, 3]))
        count = min(int(self.choose([1, 2, 3])), seen.shape[axis])
        dilation = min(int(self.choose([1, 1, 2])), (seen.shape[axis] - 1) // (count - 1)) if count > 1 else 1
        given = dict(axis=axis, size=count, step=step, dilation=dilation)
        shape = reference.windows(np.empty(seen.shape, np.bool_), **given).shape
        if size(shape) > self.limit():
            return self.flip(node, seen)
        return self.add("windows", seen.dtype, shape, [node], **given)

    # ---- writing ----

    def write(self):
        target = self.choose(self.alive(lambda n: True))
        seen = self.nodes[target]
        kind = self.choose(WRITES)
        if kind == "copy_into":
            found = self.alive(lambda n: self.broadcasts_to(n.shape, seen.shape))
            node = self.add(kind, seen.dtype, seen.shape, [target, self.choose(found)])
        elif kind == "fill_into":
            node = self.add(kind, seen.dtype, seen.shape, [target], value=self.number_of(seen.dtype))
        else:
            node = self.add(kind, seen.dtype, seen.shape, [target], values=random_values(self.data, seen.dtype, seen.shape))
        self.dead.add(target)
        return node

    @staticmethod
    def broadcasts_to(a, b):
        try:
            return np.broadcast_shapes(a, b) == b
        except ValueError:
            return False

    # ---- the whole ----

    def one(self, name, dtype):
        if name in COMPOSITES:
            return composites.make(self, name, dtype)
        op = OPS[name]
        if op.elementwise:
            return self.elementwise(name, dtype)
        if op.kind == "REDUCE":
            return self.reduction(name, dtype)
        if op.kind == "SCAN":
            return self.scan(name, dtype)
        if name == "matmul":
            return self.matmul(dtype)
        if name in GATHERS:
            return self.gather(name, dtype)
        if name in SCATTERS:
            return self.scatter(name, dtype)
        if name in SORTS:
            return self.sort(name, dtype)
        if name == "searchsorted":
            return self.search(dtype)
        if name in ("concat", "pad"):
            return getattr(self, name)(dtype)
        if name in SOURCES:
            return self.source(dtype, self.part_of(self.base), name)
        if name == "cast":
            node = self.choose(self.alive(lambda n: cast_is_met(n.dtype, dtype)) or [self.source("f32", self.base, "load")])
            return self.add("cast", dtype, self.nodes[node].shape, [node])
        return self.view(name, dtype)

    def any_operation(self):
        kind = self.rng.random()
        if self.writes and kind < 0.15:
            return self.write()
        if kind > 0.88:
            return self.over_rows(self.choose(self.dtypes))
        if kind < 0.3:
            name = self.choose(VIEWS + ("copy",))
        elif kind < 0.4:
            name = self.choose([op.name for op in OPS.values() if op.kind == "REDUCE"])
        else:
            name = self.choose(ROUND)
        dtype, met = self.choose(self.dtypes), dtypes_of(name)
        return self.one(name, dtype if dtype in met else self.choose(met))

    def make(self):
        """One round of families meets every operation, the next one in another element type."""
        self.source(self.dtypes[0], self.base, "load")
        forced = [self.family * FORCED + i for i in range(FORCED)]
        for turn in forced:
            name = ROUND[turn % len(ROUND)]
            for _ in range(int(self.rng.integers(0, 9 if self.deep else 3))):
                self.any_operation()
            met = dtypes_of(name)
            self.one(name, met[turn // len(ROUND) % len(met)])
        self.outputs = self.choose_outputs()
        # Views that are read in the unfused run: each costs a kernel of its own.
        self.read_views = {i for i, n in enumerate(self.nodes) if n.op in VIEWS and (i in self.outputs or self.chance(0.1))}
        # The same ones in all members that have any: what is flushed together is what kernels are made of.
        flushes = {i for i in range(len(self.nodes)) if self.chance(0.1)}
        self.flushes = flushes if self.data.random() < 0.3 else set()
        self.early = self.chance(0.7)      # arrays that are no outputs are released before anything runs

    def choose_outputs(self):
        """What nothing reads, and some that others read too; in a capture only what is computed there."""
        used = {i for n in self.nodes for i in n.ins}
        computed = self.alive(lambda n: n.op not in SOURCES)
        outputs = [i for i in computed if (i not in used or self.chance(0.25)) and
                   (self.nodes[i].op not in VIEWS or self.chance(0.5))]
        return outputs or computed[-1:] or [len(self.nodes) - 1]

    def order(self, rng):
        """Another order in which a client may record the nodes: what a node needs comes first, and a write after
        what reads the array before it."""
        after = {i: set(n.ins) for i, n in enumerate(self.nodes)}
        for i, node in enumerate(self.nodes):
            if node.op in WRITES:
                after[i].update(j for j in range(i) if node.ins[0] in self.nodes[j].ins)
        order = []
        while after:
            ready = [i for i, needs in after.items() if not needs]
            # Often what was ready last, so that branches are recorded one after another, in another order.
            order.append(ready[-1] if rng.random() < 0.5 else ready[int(rng.integers(len(ready)))])
            del after[order[-1]]
            for needs in after.values():
                needs.discard(order[-1])
        return order

    def text(self):
        lines = [n.text(i) + (" output" if i in self.outputs else "") + (" flush" if i in self.flushes else "")
                 for i, n in enumerate(self.nodes)]
        return "\n".join("    " + line for line in lines)


def prime_factors(n):
    factors, p = [], 2
    while n > 1:
        while n % p == 0:
            factors.append(p)
            n //= p
        p += 1
    return factors


# ---- on a context ----


def record(context, node, arrays, data=None):
    """Records one node; a new fusion.Array, or for a write the array it wrote."""
    ins, given = [arrays[i] for i in node.ins], node.attributes
    if node.op == "load":
        return context.array(node.dtype, to_storage(node.dtype, given["values"] if data is None else data))
    if node.op == "fill":
        return context.scalar(node.dtype, given["value"]) if given["scalar"] else \
            context.full(node.dtype, node.shape, given["value"])
    if node.op == "arange":
        return context.arange(node.dtype, node.shape[0], given["start"], given["step"])
    if node.op == "cast":
        return context.cast(ins[0], node.dtype)
    if node.op == "copy":
        return context.copy(ins[0])
    if node.op in ("reshape", "broadcast"):
        return getattr(context, node.op)(ins[0], node.shape)
    if node.op in ("permute", "flip"):
        return getattr(context, node.op)(ins[0], given["axes"])
    if node.op == "slice":
        return context.slice(ins[0], given["ranges"])
    if node.op == "windows":
        return context.windows(ins[0], **given)
    if node.op == "concat":
        return context.join("concat", ins, given["axis"])
    if node.op == "pad":
        return context.pad(ins[0], given["margins"], ins[1] if len(ins) > 1 else None)
    if node.op in GATHERS:
        return context.gather(node.op, *ins, given["axis"])
    if node.op in SORTS:
        return context.sort(node.op, ins[0], **given)
    if node.op == "searchsorted":
        return context.searchsorted(*ins, **given)
    if node.op in SCATTERS:
        return context.scatter(node.op, *ins, given["axis"])
    if node.op in WRITES:
        return write(node, ins)
    if node.op in COMPOSITES:
        return context.call(node.op, *ins, **given)
    if OPS[node.op].kind == "REDUCE":
        return context.reduce(node.op, ins[0], given["axes"], given["keepdims"])
    if OPS[node.op].kind == "SCAN":
        return context.scan(node.op, ins[0], given["axis"])
    return context.op(node.op, *ins)


def write(node, ins):
    if node.op == "copy_into":
        ins[0].copy_into(ins[1])
    elif node.op == "fill_into":
        ins[0].fill_into(node.attributes["value"])
    else:
        memory = ins[0].map("write")
        memory[...] = to_storage(node.dtype, node.attributes["values"])
        ins[0].unmap()
    return ins[0]


def run_keeping(program, context, data):
    """Every node's values, register form; read at the end, or before they are written over. Views that the program
    does not read are taken from the reference."""
    arrays, values = {}, {}
    for i, node in enumerate(program.nodes):
        if node.op in WRITES:
            values[node.ins[0]] = to_register(node.dtype, arrays[node.ins[0]].read())
        arrays[i] = record(context, node, arrays, data.get(i))
    for i, node in enumerate(program.nodes):
        if i not in values and node.op in VIEWS and i not in program.read_views:
            values[i] = expected(node, [values[j] for j in node.ins], [])
        elif i not in values:
            values[i] = to_register(node.dtype, arrays[i].read())
    return values


def run_outputs(program, context, data, order=None):
    """The outputs' values; flushes where the program says so, and forgets other arrays early."""
    arrays = {}
    for i in order or range(len(program.nodes)):
        arrays[i] = record(context, program.nodes[i], arrays, data.get(i))
        if i in program.flushes:
            context.flush()
    if program.early:
        for i in [i for i in arrays if i not in program.outputs]:
            del arrays[i]
    return {i: to_register(program.nodes[i].dtype, read(program, arrays[i], i)) for i in program.outputs}


def read(program, array, number):
    """In one of the ways there are."""
    way = (program.member + number) % 5
    if way == 0:
        return array.read_begin()()
    if way == 1:
        memory = array.map("read").copy()
        array.unmap()
        return memory
    return array.read()


def run_captured(program, context, datas):
    """The outputs for each of datas, by one recorded graph replayed."""
    loads = [i for i, n in enumerate(program.nodes) if n.op == "load"]
    inputs = [record(context, program.nodes[i], {}) for i in loads]
    arrays = dict(zip(loads, inputs))
    context.capture_begin(inputs)
    for i, node in enumerate(program.nodes):
        if node.op != "load":
            arrays[i] = record(context, node, arrays)
    capture = context.capture_end([arrays[i] for i in program.outputs])
    arrays.clear()
    results = []
    for data in datas:
        given = [record(context, program.nodes[i], {}, data.get(i)) for i in loads]
        outputs = capture.replay(given)
        given.clear()
        results.append({i: to_register(program.nodes[i].dtype, a.read()) for i, a in zip(program.outputs, outputs)})
    return results


# ---- in the reference ----


def expected(node, ins, dtypes, data=None):
    """The exact value of a node, given its operands' values."""
    given = node.attributes
    if node.op in ("load", "map_write"):
        return given["values"] if data is None else data
    if node.op in ("fill", "fill_into"):
        return np.broadcast_to(reference.scalar(node.dtype, given["value"]), node.shape)
    if node.op == "arange":
        return reference.arange(node.dtype, node.shape[0], given["start"], given["step"])
    if node.op == "cast":
        return reference.cast(dtypes[0], node.dtype, ins[0])
    if node.op == "copy_into":
        return np.broadcast_to(reference.cast(dtypes[1], node.dtype, ins[1]), node.shape)
    if node.op == "copy":
        return ins[0]
    if node.op == "reshape":
        return np.ascontiguousarray(ins[0]).reshape(node.shape)
    if node.op == "permute":
        return ins[0].transpose(given["axes"])
    if node.op == "broadcast":
        return np.broadcast_to(ins[0], node.shape)
    if node.op == "slice":
        return ins[0][tuple(given["ranges"])]
    if node.op == "flip":
        return np.flip(ins[0], given["axes"])
    if node.op == "windows":
        return reference.windows(ins[0], **given)
    if node.op == "concat":
        return np.concatenate(ins, given["axis"])
    if node.op == "pad":
        return reference.pad(ins[0], given["margins"], ins[1] if len(ins) > 1 else 0)
    if node.op in GATHERS:
        return getattr(reference, node.op)(*ins, given["axis"])
    if node.op in SORTS + ("searchsorted",):
        return getattr(reference, node.op)(*ins, **given)
    if node.op == "put_along":
        return reference.put_along(*ins, given["axis"])
    if node.op == "add_along":
        return reference.add_along(node.dtype, *ins, given["axis"])
    if node.op == "matmul":
        return reference.matmul(node.dtype, *ins)
    if OPS[node.op].kind == "REDUCE":
        return reference.reduction(node.op, dtypes[0], ins[0], given["axes"], given["keepdims"])
    if OPS[node.op].kind == "SCAN":
        return reference.scanned(node.op, dtypes[0], ins[0], given["axis"])
    return reference.exact(node.op, reference.operand_dtype(node.op, dtypes), ins)

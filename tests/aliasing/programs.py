"""Random programs of arrays that share memory: statements of Python that mean the same to NumPy and to fusion.

A program is a list of lines. A line is run with `lib` (numpy, or fusion) and the names of run.py: C(value) is a row-major array of the
value, out(x) reads a number out, hold(x) keeps what numpy.asarray() gives, lend(x, v) writes through a buffer, refused(f) is a line that both refuse.

The generator runs each line on NumPy before it takes it: what NumPy refuses, what overflows or divides by zero, and what NumPy and fusion may round
differently is not taken. So every line that stands in a program has one right result, to the bit.
"""
import math
import random

import numpy as np

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REALS = ("float16", "float32", "float64")
DTYPES = ("bool",) + INTEGERS + REALS
MOST_NAMES = 9          # live at once
MOST_ELEMENTS = 200     # of an array
MOST_AXES = 4
TRIES = 60              # lines that NumPy refused, before a program ends early


def bounds(dtype):
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


class Generator:
    def __init__(self, seed, names):
        self.r = random.Random(seed)
        self.space = dict(names)
        self.lines = []
        self.number = 0

    # ---- pieces ----

    def live(self, wanted=lambda a: True):
        found = [n for n, a in self.space.items() if isinstance(a, np.ndarray) and n[0] == "v" and wanted(a)]
        return self.r.choice(found) if found else None

    def array(self, name):
        return self.space[name]

    def fresh(self):
        self.number += 1
        return f"v{self.number}"

    def shape(self):
        return tuple(self.r.choice((0, 1, 1, 2, 2, 3, 3, 4, 5)) for _ in range(self.r.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))))

    def number_of(self, dtype):
        if dtype == "bool":
            return self.r.choice((True, False))
        if dtype in REALS:
            return self.r.choice((self.r.randint(-9, 9), self.r.randint(-40, 40) / 4, 0.5))
        low, high = bounds(dtype)
        return self.r.choice((self.r.randint(max(low, -9), 9), self.r.randint(max(low, -9), 9), low, high))

    def nested(self, dtype, shape):
        if not shape:
            return self.number_of(dtype)
        return [self.nested(dtype, shape[1:]) for _ in range(shape[0])]

    def of_shape(self, dtype, shape):
        """An expression of an array of the shape."""
        if 0 in shape:
            return f"lib.zeros({shape}, dtype={dtype!r})"
        return f"lib.asarray({self.nested(dtype, shape)}, dtype={dtype!r})"

    def part_of(self, n):
        """A slice of an axis of n."""
        some = lambda: self.r.choice((None, None, self.r.randint(-n - 2, n + 2)))
        step = self.r.choice((None, None, None, 1, 2, -1, -1, -2, 3, -3))
        parts = [some(), some(), step]
        return "slice(" + ", ".join(map(str, parts)) + ")"

    def places(self, n, many):
        values = [self.r.randint(-n, n - 1) for _ in range(many)]
        return self.r.choice((str(values), f"lib.asarray({values})", f"np.array({values})",
                              f"lib.asarray({values}, dtype={self.r.choice(('int32', 'int8', 'int64'))!r})"))

    def key(self, a, basic=False):
        """The text of a key of a, and whether it is one of integers, slices, None and ... alone."""
        if not basic and self.r.random() < 0.12:
            return self.mask(a), False
        entries, axis, dots, arrays = [], 0, False, 0
        many = self.r.choice((1, 2, 2, 3))
        while axis < a.ndim or self.r.random() < 0.15:
            n = a.shape[axis] if axis < a.ndim else 0
            what = self.r.random()
            if axis >= a.ndim or what < 0.08:
                entries.append("None")
                if len(entries) > 7:
                    break
                continue
            if what < 0.14 and not dots:
                dots = True
                entries.append("...")
                axis += self.r.randint(0, a.ndim - axis)
                continue
            if what < 0.2:
                break
            if what < 0.5 and n:
                entries.append(str(self.r.randint(-n, n - 1)))
            elif what < 0.68 and n and not basic:
                arrays += 1
                entries.append(self.places(n, many) if self.r.random() < 0.8 else f"np.array({[[self.r.randint(-n, n - 1)] for _ in range(2)]})")
            elif what < 0.72 and n and not basic and self.r.random() < 0.5:
                arrays += 1
                entries.append(str([self.r.random() < 0.5 for _ in range(n)]))
            else:
                entries.append(self.part_of(n))
            axis += 1
        if len(entries) == 1 and self.r.random() < 0.8:
            return entries[0], not arrays
        return "(" + "".join(e + ", " for e in entries) + ")", not arrays

    def mask(self, a):
        other = self.live(lambda m: m.dtype == bool and m.shape == a.shape[:m.ndim])
        if other and self.r.random() < 0.4:
            return other
        if a.dtype != bool and a.ndim and self.r.random() < 0.7:
            name = next(n for n, v in self.space.items() if v is a)
            return f"{name} {self.r.choice(('>', '<', '==', '!=', '<=', '>='))} {self.number_of(a.dtype.name)}"
        return self.of_shape("bool", a.shape[:self.r.randint(0, a.ndim)])

    def value_for(self, shape, dtype):
        """Something that may be written to a part of this shape and type."""
        what = self.r.random()
        if what < 0.3:
            return repr(self.number_of(dtype))
        if what < 0.65:
            fits = lambda v: v.ndim <= len(shape) and all(m in (1, n) for m, n in zip(v.shape[::-1], shape[::-1])) and self.converts(v, dtype)
            other = self.live(fits)
            if other:
                return other
        kept = [1 if self.r.random() < 0.2 else n for n in shape][self.r.choice((0, 0, 0, self.r.randint(0, len(shape)))):]
        return self.of_shape(dtype, tuple(kept))

    @staticmethod
    def converts(value, dtype):
        """May its elements be converted, to one result? Of fractions beyond the type there is none."""
        if value.dtype.kind != "f" or dtype in REALS or dtype == "bool":
            return value.dtype.kind != "f" or dtype != "float16" or not value.size or bool(np.abs(value).max() < 60000)
        low, high = bounds(dtype)
        return not value.size or bool(low <= value.min() and value.max() <= high and np.abs(value).max() < 2**52)

    # ---- lines ----

    def make(self):
        dtype = self.r.choice(DTYPES)
        shape = self.shape()
        how = self.r.random()
        if how < 0.6:
            return f"{self.fresh()} = {self.of_shape(dtype, shape)}"
        if how < 0.75:
            return f"{self.fresh()} = lib.{self.r.choice(('zeros', 'ones'))}({shape}, dtype={dtype!r})"
        if how < 0.85:
            return f"{self.fresh()} = lib.full({shape}, {self.number_of(dtype)!r}, dtype={dtype!r})"
        if dtype == "bool":
            return None
        n = self.r.randint(0, 24)
        return f"{self.fresh()} = lib.arange({n}, dtype={dtype!r})" + (f".reshape({self.r.choice((-1, (2, -1), (-1, 3), (1, -1)))})" if n else "")

    def part(self):
        name = self.live()
        a = self.array(name)
        key, basic = self.key(a)
        text = f"{name}[{key}]"
        seen = self.try_value(text)
        if seen is None:
            return None
        view = basic and isinstance(seen, np.ndarray)
        return f"{self.fresh()} = {text}" if view else f"{self.fresh()} = C({text})"

    def view(self):
        name = self.live()
        a = self.array(name)
        axes = list(range(a.ndim))
        self.r.shuffle(axes)
        some = tuple(d for d in range(a.ndim) if self.r.random() < 0.5)
        ones = tuple(d for d, n in enumerate(a.shape) if n == 1)
        forms = [f"{name}.reshape({self.other_shape(a.size)})", f"{name}.reshape({self.other_shape(a.size)})", f"lib.reshape({name}, {self.other_shape(a.size)})",
                 f"{name}.ravel()", f"lib.flip({name})", f"lib.flip({name}, axis={some})", f"lib.expand_dims({name}, axis={self.r.randint(0, a.ndim)})",
                 f"lib.squeeze({name}, axis={ones})", f"{name}.transpose()", f"{name}[...]", f"lib.broadcast_to({name}, {(2,) + a.shape})"]
        if a.ndim:
            forms += [f"{name}.transpose({tuple(axes)})", f"lib.moveaxis({name}, {self.r.randrange(a.ndim)}, {self.r.randrange(a.ndim)})",
                      f"{name}.transpose({', '.join(map(str, axes))})"]
        if a.ndim == 2:
            forms += [f"{name}.T", f"{name}.T"]
        if a.ndim and a.shape[0]:
            forms.append(f"list({name})[{self.r.randrange(a.shape[0])}]" if a.ndim > 1 else f"C(list({name})[0])")
        text = self.r.choice(forms)
        # Of what has no axes NumPy makes a number now and then, which nothing can be a view of.
        return f"{self.fresh()} = {text}" if isinstance(self.try_value(text), np.ndarray) else f"{self.fresh()} = C({text})"

    def other_shape(self, size):
        if not size:
            return self.r.choice(((0,), (0, 2), (1, 0)))
        shape, left = [], size
        for _ in range(self.r.randint(0, 3)):
            n = self.r.choice([d for d in range(1, left + 1) if left % d == 0])
            shape.append(n)
            left //= n
        if left > 1 or self.r.random() < 0.2:
            shape.insert(self.r.randint(0, len(shape)), left)
        if shape and self.r.random() < 0.3:
            shape[self.r.randrange(len(shape))] = -1
        return tuple(shape)

    def copy(self):
        name = self.live()
        a = self.array(name)
        to = self.r.choice(DTYPES)
        forms = [f"{name}.copy()", f"{name}.flatten()", f"{name}", f"lib.asarray({name})", f"C({name}.sum(axis=()))" if a.dtype.kind in "iu" else f"{name}.copy()",
                 f"C(+{name})" if a.dtype != bool else f"{name}.copy()", f"C({name}.max(axis=()))", f"lib.zeros_like({name})",
                 f"{name}.astype({a.dtype.name!r}, copy=False)"]
        if self.converts(a, to):
            forms += [f"C({name}.astype({to!r}))"] * 3
        return f"{self.fresh()} = {self.r.choice(forms)}"

    def operator(self, dtype, in_place=False):
        if dtype == "bool":
            return self.r.choice("&|^")
        if dtype in REALS:
            return self.r.choice(("+", "-", "*", "/", "+", "-"))
        return self.r.choice(("+", "-", "*", "&", "|", "^", "+", "-", "//", "%") + (() if in_place else ("/",)))

    def operand(self, a, dtype, op, same_shape=False):
        """A number or an array of the type that meets a in this operator."""
        if self.r.random() < 0.4:
            low, high = bounds(dtype) if dtype in INTEGERS else (-9, 9)
            number = repr(self.number_of(dtype) if dtype == "bool" else self.r.randint(max(low, -5), min(high, 7)))
            # Of an array without axes and a number NumPy 1 makes another type.
            return number if a.ndim else f"lib.asarray({number}, dtype={dtype!r})"
        meets = lambda b: b.dtype == a.dtype and self.joined(a.shape, b.shape) == (a.shape if same_shape else self.joined(a.shape, b.shape))
        return self.live(lambda b: meets(b) and self.joined(a.shape, b.shape) is not None) or f"lib.asarray({self.number_of(dtype) if dtype == 'bool' else 3}, dtype={dtype!r})"

    @staticmethod
    def joined(a, b):
        try:
            return np.broadcast_shapes(a, b)
        except ValueError:
            return None

    def compute(self):
        name = self.live()
        a = self.array(name)
        dtype = a.dtype.name
        what = self.r.random()
        if what < 0.5:
            op = self.operator(dtype)
            return f"{self.fresh()} = C({name} {op} {self.operand(a, dtype, op)})"
        if what < 0.65:
            return f"{self.fresh()} = C({name} {self.r.choice(('<', '>', '==', '!=', '<=', '>='))} {self.operand(a, dtype, '<')})"
        other = self.live(lambda b: b.dtype == a.dtype and b.shape == a.shape)
        forms = [f"C(lib.where({self.of_shape('bool', a.shape)}, {name}, {other}))", f"C(lib.stack([{name}, {other}], axis=0))", f"C(lib.roll({name}, 1))",
                 f"C(~{name})" if dtype not in REALS else f"C(-{name})"]
        if dtype != "bool":
            forms += [f"C(abs({name}))", f"C(lib.maximum({name}, {other}))", f"C(-{name})" if a.dtype.kind != "u" else f"C(lib.minimum({name}, {other}))"]
        if a.ndim and a.shape[-1]:
            forms.append(f"C(lib.sort({name}, axis=-1))")
            forms.append(f"C(lib.take({name}, lib.asarray({[self.r.randrange(a.shape[-1]) for _ in range(2)]}), axis={a.ndim - 1}))")
        if a.size and dtype != "bool":
            forms.append(f"C({name}.max(axis={self.r.choice((None, tuple(range(a.ndim))))}))")
        if dtype in INTEGERS:
            forms.append(f"C({name}.sum(axis={self.r.choice((None, 0)) if a.ndim else None}))")
        return f"{self.fresh()} = {self.r.choice(forms)}"

    def assign(self):
        name = self.live(lambda a: a.flags.writeable)
        if not name:
            return None
        a = self.array(name)
        key, basic = self.key(a)
        part = self.try_value(f"{name}[{key}]")
        if part is None:
            return None
        value = self.value_for(np.shape(part), a.dtype.name)
        # NumPy says of arrays as keys that the order in which elements are written is not defined.
        if not basic and value in self.space and np.shares_memory(self.array(value), a):
            value = f"C({value})"
        return f"{name}[{key}] = {value}"

    def in_place(self):
        name = self.live(lambda a: a.flags.writeable)
        if not name:
            return None
        a = self.array(name)
        dtype = a.dtype.name
        op = self.operator(dtype, True)
        if self.r.random() < 0.5:
            key, _ = self.key(a)
            part = self.try_value(f"{name}[{key}]")
            if not isinstance(part, np.ndarray):
                return f"{name}[{key}] {op}= {self.operand(np.zeros((), dtype), dtype, op)}"
            return f"{name}[{key}] {op}= {self.operand(part, dtype, op, True)}"
        return f"{name} {op}= {self.operand(a, dtype, op, True)}"

    def mixed(self):
        """In place with a value of another type."""
        name = self.live(lambda a: a.flags.writeable and a.ndim and a.dtype != bool)
        if not name:
            return None
        a = self.array(name)
        other = self.live(lambda b: b.ndim and b.dtype != a.dtype and self.joined(a.shape, b.shape) == a.shape
                          and np.can_cast(b.dtype, a.dtype, "same_kind") and "uint64" not in (a.dtype.name, b.dtype.name)
                          and (b.dtype.kind != "f" or a.dtype.kind == "f") and (a.dtype.kind != "f" or b.dtype.kind == "f"))
        return f"{name} {self.r.choice('+-')}= {other}" if other else None

    def loop(self):
        name = self.live(lambda a: a.flags.writeable and a.ndim and a.dtype != bool)
        if not name:
            return None
        a = self.array(name)
        low = self.r.choice((f"for p in {name}: p += 1", f"for p in {name}: p[...] = 2",
                             f"for i in range({a.shape[0]}): {name}[i] = {name}[{a.shape[0] - 1} - i]",
                             f"for i, p in enumerate({name}): {name}[-1 - i] = p",
                             f"t, {name}[0] = {name}[0], {name}[-1]; {name}[-1] = t", f"{name}[0], {name}[-1] = {name}[-1], {name}[0]"))
        return None if a.ndim == 1 and "p[...]" in low else low

    def read(self):
        name = self.live()
        a = self.array(name)
        forms = [f"out({name}.tolist())", f"out({name}.shape)", f"out(bool(({name} == {name}).all()))", f"hold({name})"]
        if a.size:
            place = ", ".join(str(self.r.randrange(n)) for n in a.shape)
            forms += [f"out({name}[{place or ()}].item())", f"out({'float' if a.dtype.kind == 'f' else 'int'}({name}[{place or ()}]))"]
        if a.dtype.name in INTEGERS:
            forms.append(f"out(int({name}.sum()))")
        return self.r.choice(forms)

    def let_go(self):
        name = self.live()
        return f"del {name}" if sum(n[0] == "v" for n in self.space) > 2 else None

    def lend(self):
        name = self.live(lambda a: a.flags.writeable)
        if not name:
            return None
        return f"lend({name}, {self.number_of(self.array(name).dtype.name)!r})"

    def wrong(self):
        """What both refuse, and nothing changes."""
        name = self.live()
        a = self.array(name)
        n = a.shape[0] if a.ndim else 0
        forms = [f"{name}[{', '.join(['0'] * (a.ndim + 1))}]", f"{name}[{name}]" if a.dtype.kind == "f" else f"{name}['a']", f"{name}.reshape(({a.size + 1},))",
                 f"{name}[..., ...]", f"{name}.__setitem__(..., lib.zeros((7, 7, 7, 7, 7), dtype='int8'))", f"lib.broadcast_to({name}, {a.shape + (9, 7)})",
                 f"lib.broadcast_to({name}, {(2,) + a.shape}).__setitem__(..., 1)"]
        if a.ndim:
            forms += [f"{name}[{n}]", f"{name}[{-n - 1}]", f"{name}.__setitem__({n}, 0)", f"{name}[[{n}]]", f"{name}.__setitem__([{n}], 0)",
                      f"{name}[lib.ones({(n + 1,)}, dtype='bool')]", f"{name}.transpose({tuple([0] * (a.ndim + 1))})", f"{name}[{1.5}]",
                      f"{name}.__setitem__(lib.ones({(n + 2,)}, dtype='bool'), 0)", f"{name}.__iadd__(lib.ones({(n + 5, 2) + a.shape[1:]}, dtype='{a.dtype.name}'))"]
        if a.dtype.name in INTEGERS:
            forms += [f"{name}.__itruediv__(2)", f"{name}.__iadd__(0.5)", f"{name}.__iadd__(lib.ones({a.shape}, dtype='float32'))"]
        return f"refused(lambda: {self.r.choice(forms)})"

    # ---- programs ----

    def try_value(self, text):
        try:
            with np.errstate(all="raise"):
                return eval(text, self.space)
        except Exception:
            return None

    def take(self, line):
        """Runs the line on NumPy, and takes it where that works."""
        before = {n: (a, a.copy()) for n, a in self.space.items() if isinstance(a, np.ndarray)}
        names = set(self.space)
        try:
            with np.errstate(all="raise"):
                exec(line, self.space)
            fine = all(a.size <= MOST_ELEMENTS and a.ndim <= MOST_AXES + 1 for a in self.space.values() if isinstance(a, np.ndarray))
        except Exception:
            fine = False
        if fine:
            self.lines.append(line)
            return True
        for name in set(self.space) - names:
            del self.space[name]
        for name, (a, copy) in before.items():
            self.space[name] = a
            if a.flags.writeable:
                a[...] = copy
        return False

    def program(self, length):
        kinds = {self.make: 2, self.part: 6, self.view: 6, self.copy: 3, self.compute: 3, self.assign: 8, self.in_place: 6, self.mixed: 1,
                 self.loop: 1, self.read: 4, self.let_go: 3, self.lend: 1, self.wrong: 1}
        self.take(f"v0 = {self.of_shape(self.r.choice(DTYPES), (3, 4))}")
        tries = 0
        while len(self.lines) < length and tries < TRIES:
            if sum(n[0] == "v" for n in self.space) > MOST_NAMES:
                self.take(self.let_go())
            kind = self.make if not self.live() else self.r.choices(list(kinds), kinds.values())[0]
            line = kind()
            tries = 0 if line and self.take(line) else tries + 1
        return self.lines


def make(seed, names):
    """The program of a seed."""
    g = Generator(seed, names)
    return g.program(g.r.randint(6, 30))

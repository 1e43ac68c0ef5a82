#!/usr/bin/python3
"""Evaluates text graphs with NumPy, and checks the values they expect, without fusiond.

    evaluate.py FILE.fz...            checks every `expect NAME = ...` and the like; last line: a count
    evaluate.py --print FILE.fz       prints the outputs as lines that can stand in the file

So a wrong expectation is found by other code than the daemon's: the reader of the language is written again here,
from fusion-graph(5), and the operations are those of tests/oracle/reference.py. An output that a comment names with
"fusiond alone:" is not checked here: what only holds for fusiond's order of additions, say.
"""
import math
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import reference as ref  # noqa: E402
from tables import COMPOSITES, DTYPES, OPS  # noqa: E402

MASK = (1 << 64) - 1
TOKEN = re.compile(r'''\s*(?: "(?P<text>[^"]*)"
    | (?P<number>[-+]?(?:inf|nan|true|false)\b | [-+]?0[xX][0-9a-fA-F.]+(?:[pP][-+]?\d+)? | [-+]?\.?\d[\d.]*(?:[eE][-+]?\d+)?)
    | (?P<name>[A-Za-z_]\w*) | (?P<mark>[=\[\],:*]) )''', re.VERBOSE)
DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
SMALLEST = {"f16": (-24, -14), "bf16": (-133, -126), "f32": (-149, -126), "f64": (-1074, -1022)}
LARGEST = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}
REALS = [0, -0.0, 1, -1, math.inf, -math.inf, math.nan, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 2, -3, 0.1, -10, 100, 12345.678]
INTEGERS = [0, 1, -1, 2, -2, 3, -7, 7, 8, 9, 10, 16, 31, 32, 63, 64, 100, -100]


ALONE = re.compile(r"^#.*\bfusiond alone: (?P<names>[\w ]+)", re.MULTILINE)


class Refused(Exception):
    pass


# ---- reading ----


def statements(path):
    """Lines of tokens (kind, text); an indented line continues the one before."""
    lines = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = re.sub(r'#.*', "", line).rstrip()
            if not line:
                continue
            tokens, at = [], 0
            while at < len(line):
                match = TOKEN.match(line, at)
                if not match:
                    raise Refused(f"{path}:{number}: does not read: {line[at:]}")
                tokens.append((match.lastgroup, match.group(match.lastgroup)))
                at = match.end()
            if line[0] in " \t" and lines:
                lines[-1][1].extend(tokens)
            else:
                lines.append((number, tokens))
    return lines


class Tokens:
    def __init__(self, tokens):
        self.tokens = tokens

    def __bool__(self):
        return bool(self.tokens)

    def next(self):
        return self.tokens.pop(0)[1]

    def at(self, text):
        return bool(self.tokens) and self.tokens[0][1] == text and self.tokens[0][0] != "text"

    def at_number(self):
        return bool(self.tokens) and self.tokens[0][0] == "number"

    def took(self, text):
        if self.at(text):
            self.next()
            return True
        return False

    def take(self, text):
        if not self.took(text):
            raise Refused(f"expected {text}")

    def integers(self):
        """[4,8]"""
        self.take("[")
        result = []
        while not self.took("]"):
            result.append(int(self.next()))
            self.took(",")
        return result

    def settings(self, **values):
        """axis=1 size=3, in any order; `values` are what is left out."""
        while self.tokens and self.tokens[0][1] in values:
            word = self.next()
            self.take("=")
            values[word] = int(self.next())
        return values

    def margins(self, rank):
        """[1:2, :3]: before and after each axis."""
        pairs = [(r.start or 0, r.stop or 0) for r in self.ranges()]
        return pairs + [(0, 0)] * (rank - len(pairs))

    def axes(self):
        result = [int(self.next())]
        while self.took(","):
            result.append(int(self.next()))
        return result

    def ranges(self):
        self.take("[")
        result = []
        while True:
            parts = [None, None, None]
            for i in range(3):
                if self.at_number():
                    parts[i] = int(self.next())
                if i < 2 and not self.took(":"):
                    break
            result.append(slice(*parts))
            if self.took("]"):
                return tuple(result)
            self.take(",")


# ---- elements ----


def element(dtype, text):
    """A literal as a register value."""
    if dtype == "bool":
        return np.bool_(text in ("true", "1"))
    if not ref.is_real(dtype):
        return ref.REGISTER[dtype](int(text, 0))
    hexadecimal = "0x" in text.lower()
    return ref.cast("f64", dtype, np.array([float.fromhex(text) if hexadecimal else float(text)]))[0]


def from_double(dtype, values):
    return ref.cast("f64", dtype, np.asarray(values, np.float64))


def wrapped(dtype, value):
    """An integer, modulo the type's width."""
    if dtype == "bool":
        return np.bool_(value != 0)
    width = 8 * DTYPES[dtype].size
    return np.array(value & ((1 << width) - 1), np.uint64).astype(f"u{width // 8}").view(f"{ref.STORAGE[dtype]().dtype}")


def random_word(seed, i):
    z = (seed + (i + 1) * 0x9e3779b97f4a7c15) & MASK
    z = ((z ^ z >> 30) * 0xbf58476d1ce4e5b9) & MASK
    z = ((z ^ z >> 27) * 0x94d049bb133111eb) & MASK
    return z ^ z >> 31


def random_value(dtype, word, span):
    if not span:
        if ref.is_real(dtype):
            digits = DIGITS[dtype]
            return from_double(dtype, [math.ldexp(word >> (64 - digits), 1 - digits) - 1])[0]
        return wrapped(dtype, word >> 63 if dtype == "bool" else word)
    if ref.is_real(dtype):
        low, high = float(span[0]), float(span[1])
        return from_double(dtype, [low + math.ldexp(word >> 11, -53) * (high - low)])[0]
    low, high = int(span[0], 0), int(span[1], 0)
    return wrapped(dtype, low + word % (high - low + 1))


def specials(dtype):
    if dtype == "bool":
        return [np.bool_(False), np.bool_(True)]
    if ref.is_real(dtype):
        limits = [math.ldexp(1, SMALLEST[dtype][0]), math.ldexp(1, SMALLEST[dtype][1]),
                  math.ldexp(2 - math.ldexp(1, 1 - DIGITS[dtype]), LARGEST[dtype])]
        return list(from_double(dtype, REALS + [sign * x for x in limits for sign in (1, -1)]))
    info = np.iinfo(ref.STORAGE[dtype])
    return [wrapped(dtype, i) for i in INTEGERS + [info.min, info.max]]


def values(tokens, dtype, count):
    """The register values that the rest of a line stands for, flat."""
    kind = tokens.next()
    arguments = []
    while tokens.at_number():
        literal = tokens.next()
        arguments.append((literal, int(tokens.next()) if tokens.took("*") else 1))
    literals = [text for text, _ in arguments]
    if kind in ("=", "cycle"):
        listed = [element(dtype, text) for text, repeat in arguments for _ in range(repeat)]
        if kind == "=" and len(listed) != count:
            raise Refused(f"{len(listed)} values for an array of {count}")
        listed = [listed[i % len(listed)] for i in range(count)]
    elif kind == "ramp":
        start, step = ([float(text) for text in literals] + [0.0, 1.0][len(literals):])[:2]
        listed = from_double(dtype, [start + i * step for i in range(count)])
    elif kind == "random":
        listed = [random_value(dtype, random_word(int(literals[0]), i), literals[1:]) for i in range(count)]
    elif kind == "special":
        table, first = specials(dtype), int(literals[0]) if literals else 0
        listed = [table[(first + i) % len(table)] for i in range(count)]
    else:
        raise Refused(f"what is {kind}?")
    return np.array(listed, ref.REGISTER[dtype])


# ---- operations ----


class Array:
    def __init__(self, dtype, data):
        self.dtype, self.data = dtype, data


def converted(array, dtype):
    return array.data if array.dtype == dtype else ref.cast(array.dtype, dtype, array.data)


def elementwise(name, operands):
    """Operands are arrays or literals; approximate functions give what the exact result rounds to."""
    first = 1 if name == "where" else 0
    arrays = [o for o in operands[first:] if isinstance(o, Array)]
    dtype = arrays[0].dtype
    data = []
    for i, o in enumerate(operands):
        wanted = "bool" if i < first else dtype
        data.append(o if isinstance(o, Array) else Array(wanted, np.array(element(wanted, o))))
    for o in data[first:]:
        dtype = ref.promote(dtype, o.dtype)
    operands = [o.data if i < first else converted(o, dtype) for i, o in enumerate(data)]
    if not OPS[name].takes(dtype):
        raise Refused(f"{name} does not take {dtype}")
    result = OPS[name].result_dtype(dtype)
    if ref.is_approximate(name, dtype):
        exact = ref.high_precision(name, operands)
        return Array(result, ref.round_to(exact, dtype).astype(ref.REGISTER[dtype]))
    return Array(result, ref.exact(name, dtype, operands))


def reduction(name, array, tokens):
    axes, keepdims = list(range(array.data.ndim)), False
    while tokens:
        if tokens.took("axes"):
            tokens.take("=")
            axes = [] if tokens.took("none") else [d % array.data.ndim for d in tokens.axes()]
        elif tokens.took("keepdims"):
            keepdims = True
        else:
            break
    if not OPS[name].takes(array.dtype):
        raise Refused(f"{name} does not take {array.dtype}")
    dtype = OPS[name].result_dtype(array.dtype)
    if axes:
        return Array(dtype, ref.reduction(name, array.dtype, array.data, axes, keepdims))
    alone = array.data.reshape(array.data.shape + (1,))
    return Array(dtype, ref.reduction(name, array.dtype, alone, [-1], False))


def matmul(a, b):
    dtype = ref.promote(a.dtype, b.dtype)
    x, y = converted(a, dtype), converted(b, dtype)
    rows, columns = x.ndim == 1, y.ndim == 1
    x, y = x[None, :] if rows else x, y[:, None] if columns else y
    product = ref.matmul(dtype, x, y)
    product = product[..., 0] if columns else product
    return Array(dtype, product[..., 0, :] if rows and not columns else product[..., 0] if rows else product)


def typed(tokens):
    return tokens.next(), tokens.integers()


def structural(name, operands, tokens):
    a = operands[0] if operands else None
    if name in ("input", "fill", "arange"):
        dtype, dims = typed(tokens)
        count = math.prod(dims)
        if name == "input":
            return Array(dtype, values(tokens, dtype, count).reshape(dims))
        if name == "fill":
            return Array(dtype, np.full(dims, element(dtype, tokens.next()), ref.REGISTER[dtype]))
        start, step = (float(tokens.next()) for _ in range(2))
        return Array(dtype, ref.arange(dtype, count, start, step))
    if name == "cast":
        dtype = tokens.next()
        return Array(dtype, ref.cast(a.dtype, dtype, a.data))
    if name == "searchsorted":
        return Array("i64", ref.searchsorted(a.data, operands[1].data, tokens.took("right")))
    if name == "argsort":
        return Array("i64", ref.argsort(a.data, **sorting(tokens)))
    if name == "matmul":
        return matmul(*operands)
    shape = {
        "copy": lambda: a.data,
        "reshape": lambda: a.data.reshape(tokens.integers()),
        "permute": lambda: a.data.transpose(tokens.axes()),
        "broadcast": lambda: np.broadcast_to(a.data, tokens.integers()),
        "slice": lambda: a.data[tokens.ranges()],
        "flip": lambda: np.flip(a.data, tokens.axes()),
        "concat": lambda: np.concatenate([o.data for o in operands], tokens.settings(axis=0)["axis"]),
        "pad": lambda: ref.pad(a.data, tokens.margins(a.data.ndim), operands[1].data if len(operands) > 1 else 0),
        "take": lambda: ref.take(a.data, operands[1].data, **tokens.settings(axis=0)),
        "take_along": lambda: ref.take_along(a.data, operands[1].data, **tokens.settings(axis=0)),
        "put_along": lambda: ref.put_along(*(o.data for o in operands), **tokens.settings(axis=0)),
        "add_along": lambda: ref.add_along(a.dtype, *(o.data for o in operands), **tokens.settings(axis=0)),
        "sort": lambda: ref.sort(a.data, **sorting(tokens)),
        "windows": lambda: ref.windows(a.data, **tokens.settings(axis=0, size=1, step=1, dilation=1)),
    }
    return Array(a.dtype, shape[name]())


def sorting(tokens):
    return {**tokens.settings(axis=0), "descending": tokens.took("descending")}


def attributes(tokens):
    """axes=0,1 keepdims eps=1e-5 dims=[2,3] dtype=f16: a word alone is true."""
    read = {"axes": lambda: None if tokens.took("none") else tokens.axes(), "dims": tokens.integers, "dtype": tokens.next}
    result = {}
    while tokens:
        name = tokens.next()
        result[name] = read.get(name, lambda: tokens.integers() if tokens.at("[") else float(tokens.next()))() if tokens.took("=") else True
    return {k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in result.items()}


def composite(name, tokens, arrays):
    """In f64 by the oracle column, rounded once."""
    # Not above: it loads libfusion, which graphs without composites do without.
    import test_composites
    row, operands = COMPOSITES[name], []
    while tokens and len(operands) < row.arity and tokens.tokens[0][1] in arrays and tokens.tokens[1:2] != [("mark", "=")]:
        operands.append(arrays[tokens.next()])
    given = attributes(tokens)
    dtype = given.get("dtype") or operands[0].dtype
    for operand, kind in zip(operands, row.operand_types):
        dtype = dtype if kind or "dtype" in given else ref.promote(dtype, operand.dtype)
    exact = [test_composites.exact_values(o.dtype, o.data) for o in operands]
    want = np.asarray(test_composites.oracle(name, exact, given))
    if row.result == "INDEX":
        return Array("i64", want.astype(np.int64))
    return Array(dtype, ref.cast("f64", dtype, want.astype(np.float64)) if want.dtype != ref.REGISTER[dtype] else want)


def operation(tokens, arrays):
    name = tokens.next()
    if name in COMPOSITES:
        return composite(name, tokens, arrays)
    if name != "input" and name not in OPS:
        raise Refused(f"there is no operation {name}")
    arity = 0 if name == "input" else OPS[name].arity
    operands = []
    while len(operands) < arity and (tokens.at_number() or tokens and tokens.tokens[0][1] in arrays):
        operands.append(tokens.next() if tokens.at_number() else arrays[tokens.next()])
    if name != "input" and OPS[name].elementwise:
        return elementwise(name, operands)
    if name != "input" and OPS[name].kind == "SCAN":
        a = operands[0]
        return Array(OPS[name].result_dtype(a.dtype), ref.scanned(name, a.dtype, a.data, **tokens.settings(axis=0)))
    if name != "input" and OPS[name].kind == "REDUCE":
        return reduction(name, operands[0], tokens)
    return structural(name, operands, tokens)


# ---- expectations ----


def differences(array, tokens):
    """What is wrong with an array, or None."""
    if tokens.took("is"):
        dtype, dims = typed(tokens)
        got = (array.dtype, list(array.data.shape))
        return None if got == (dtype, dims) else f"is {got}"
    tolerance = float(tokens.next()) if tokens.took("within") else 0
    want = values(tokens, array.dtype, array.data.size)
    got = array.data.reshape(-1)
    right = ref.bits(array.dtype, got) == ref.bits(array.dtype, want)
    if tolerance:
        with np.errstate(all="ignore"):
            far = np.abs(got.astype(np.longdouble) - want) > tolerance * np.maximum(1, np.abs(want))
        right |= ~far & np.isfinite(got) & np.isfinite(want)
    wrong = np.flatnonzero(~right)
    if not wrong.size:
        return None
    i = wrong[0]
    return f"{wrong.size} of {right.size} values differ; the first, {i}: {got[i]!r}, expected {want[i]!r}"


def shown(dtype, value):
    if not ref.is_real(dtype):
        return str(value).lower()
    if np.isnan(value):
        return "nan"
    for digits in range(1, 18):
        text = f"{float(value):.{digits}g}"
        if element(dtype, text) == value:
            return text.replace("e+", "e")
    return text


def print_outputs(arrays, outputs):
    for name in outputs:
        array = arrays[name]
        print(f"expect {name} =", *[shown(array.dtype, v) for v in array.data.reshape(-1)])


def alone(path):
    """The outputs of which only fusiond is expected something."""
    with open(path, encoding="utf-8") as file:
        return {name for match in ALONE.finditer(file.read()) for name in match["names"].split()}


def evaluate(path, printing):
    """The number of values checked; raises Refused where one is wrong."""
    arrays, outputs, checked, error_expected = {}, [], 0, False
    passed_over = alone(path)
    lines = statements(path)
    for _, tokens in lines:
        error_expected |= [t[1] for t in tokens[:2]] == ["expect", "error"]
    if error_expected:
        return 0
    for number, line in lines:
        tokens = Tokens(line)
        try:
            # What a pattern is named changes no value.
            if tokens.at("pattern"):
                continue
            if tokens.took("output"):
                while tokens:
                    outputs.append(tokens.next())
            elif tokens.took("expect"):
                if tokens.tokens[0][1] in ("kernels", "kernel", "unfused", "pattern"):
                    continue
                name = tokens.next()
                if name in passed_over:
                    continue
                wrong = differences(arrays[name], tokens)
                if wrong:
                    raise Refused(wrong)
                checked += 1
            else:
                name = tokens.next()
                tokens.take("=")
                arrays[name] = operation(tokens, arrays)
                if tokens:
                    raise Refused(f"left over: {tokens.tokens}")
        except (Refused, KeyError, ValueError) as error:
            raise Refused(f"{path}:{number}: {error}") from error
    if printing:
        print_outputs(arrays, outputs)
    return checked


def main(arguments):
    printing = arguments[:1] == ["--print"]
    passed = failed = 0
    for path in arguments[printing:]:
        try:
            passed += evaluate(path, printing)
        except Refused as error:
            print(error, file=sys.stderr)
            failed += 1
    if not printing:
        print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

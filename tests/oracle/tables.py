"""The tables of protocol/ and kernels/, read by the tests themselves.

ops.def, dtypes.def, errors.def and ulp.def are parsed here a second time, independently of the C preprocessor,
so that a test never needs a list of its own: a new operation or element type is tested once its line exists.
A line that looks like a row and does not read is an error, never skipped.
"""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

OPERANDS = {"UNARY": 1, "BINARY": 2, "TERNARY": 3, "REDUCE": 1, "SCAN": 1}


def split_arguments(text):
    """Splits at commas outside of parentheses and quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return parts


def rows(path, names):
    """Yields (row name, arguments) of every row of a table."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\w+)\((.*)\)\s*", line)
        if not match or match.group(1) not in names:
            raise ValueError(f"{path}: this line does not read: {line}")
        yield match.group(1), split_arguments(match.group(2))


def text_of(argument):
    """The text between quotes; None for NONE."""
    if argument == "NONE":
        return None
    if len(argument) < 2 or argument[0] != '"' or argument[-1] != '"':
        raise ValueError(f"not a text: {argument}")
    return argument[1:-1]


class Dtype:
    def __init__(self, number, name, size, kind):
        self.id, self.name, self.size, self.kind = int(number), name, int(size), kind

    def __repr__(self):
        return self.name


class Op:
    """One row of ops.def. `kind` is the row's macro: UNARY, BINARY, TERNARY, REDUCE, SCAN or STRUCT."""

    def __init__(self, kind, arguments):
        self.kind = kind
        self.id, self.name = int(arguments[0]), arguments[1]
        self.doc = text_of(arguments[-1])
        self.types = self.result = self.oracle = None
        self.gradients = []
        if kind == "STRUCT":
            self.arity = int(arguments[2])
            return
        self.arity = OPERANDS[kind]
        self.types, self.result = arguments[2], arguments[3]
        self.oracle = text_of(arguments[-2])
        self.gradients = [text_of(g) for g in arguments[6 if self.elementwise else 5:-2]]
        wanted = 0 if kind == "SCAN" else self.arity
        if len(self.gradients) != wanted:
            raise ValueError(f"ops.def: {self.name} has {len(self.gradients)} gradients, not {wanted}")

    def __repr__(self):
        return self.name

    @property
    def elementwise(self):
        return self.kind in ("UNARY", "BINARY", "TERNARY")

    def takes(self, dtype):
        """May the operands (of `where`: the second and third) have this element type?"""
        return DTYPES[dtype].kind in TYPE_SETS[self.types]

    def result_dtype(self, dtype):
        if self.result == "BOOL":
            return "bool"
        if self.result == "ACC":
            return {"REAL": dtype, "UINT": "u64"}.get(DTYPES[dtype].kind, "i64")
        return dtype


class Attribute:
    """One row of attributes.def."""

    def __init__(self, arguments):
        self.id, self.name, self.kind = int(arguments[0]), arguments[1], arguments[2]


class Composite(Op):
    """COMPOSITE(id, name, types, result, shape, least, most, operands, attributes, text, gradients, oracle, doc)."""

    def __init__(self, arguments):
        self.kind = "COMPOSITE"
        self.id, self.name, self.types, self.result = int(arguments[0]), arguments[1], arguments[2], arguments[3]
        self.shape, self.least, self.arity = arguments[4], int(arguments[5]), int(arguments[6])
        self.operands = [o.split(":")[0].strip() for o in text_of(arguments[7]).split(",") if o.strip()]
        self.operand_types = [(o.split(":") + [""])[1] for o in text_of(arguments[7]).split(",") if o.strip()]
        self.attributes = re.findall(r"HAS\((\w+)\)", arguments[8])
        self.text, self.oracle, self.doc = text_of(arguments[9]), text_of(arguments[11]), text_of(arguments[12])
        self.gradients = []
        if len(arguments) != 13 or len(self.operands) != self.arity:
            raise ValueError(f"ops.def: {self.name} does not read")


TYPE_SETS = {
    "ANY": ("BOOL", "SINT", "UINT", "REAL"),
    "NUM": ("SINT", "UINT", "REAL"),
    "REAL": ("REAL",),
    "INT": ("SINT", "UINT"),
    "BITS": ("BOOL", "SINT", "UINT"),
    "BOOL": ("BOOL",),
}

DTYPES = {a[1]: Dtype(*a[:4]) for _, a in rows("protocol/dtypes.def", ("DTYPE",))}
DTYPE_BY_ID = {d.id: d.name for d in DTYPES.values()}
ATTRIBUTES = {a[1]: Attribute(a) for _, a in rows("protocol/attributes.def", ("ATTRIBUTE",))}
OPS = {}
COMPOSITES = {}
for _kind, _arguments in rows("protocol/ops.def", ("UNARY", "BINARY", "TERNARY", "REDUCE", "SCAN", "STRUCT", "COMPOSITE")):
    if _arguments[1] in OPS or _arguments[1] in COMPOSITES:
        raise ValueError(f"ops.def: {_arguments[1]} is there twice")
    if _kind == "COMPOSITE":
        COMPOSITES[_arguments[1]] = Composite(_arguments)
        continue
    OPS[_arguments[1]] = Op(_kind, _arguments)
ERRORS = {a[1]: int(a[0]) for _, a in rows("protocol/errors.def", ("ERROR",))}
# Name of a function to its largest error, in units of the last place, of f32 and of f64.
ULP = {a[0]: {"f32": float(a[1]), "f64": float(a[2])} for _, a in rows("kernels/ulp.def", ("ULP",))}
# Names of fusion patterns; each has a switch, fusion.pattern.NAME.
PATTERNS = []
if os.path.exists(os.path.join(ROOT, "protocol/patterns.def")):
    PATTERNS = [a[1] for _, a in rows("protocol/patterns.def", ("PATTERN",))]
# Name of a knob to its values, the rule's first.
KNOBS = {a[0]: [text_of(v) for v in split_arguments(re.fullmatch(r"VALUES\((.*)\)", a[1]).group(1))]
         for _, a in rows("daemon/base/knobs.def", ("KNOB",))}

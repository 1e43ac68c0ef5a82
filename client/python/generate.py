"""Writes the parts of the package that are the operation table's.

    generate.py nn.py > nn.py            a function for each composite
    generate.py _core.pyi > _core.pyi    the types of the extension module's functions
    generate.py _rows.py > _rows.py      what of these the namespace has
    generate.py _errors.py > _errors.py  an exception for each row of errors.def
    generate.py METADATA, generate.py entry_points.txt    what Python's tools know of a package, from pyproject.toml

It refuses a table whose lines it does not understand.
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Whose second operand may be left out: operators.c has the numbers.
SECOND = {"leaky_relu": "slope: _A | bool | int | float = 0.01", "elu": "alpha: _A | bool | int | float = 1.0"}
ELEMENTWISE = {"UNARY": "x", "BINARY": "x1, x2", "TERNARY": "a, b, c"}
# Composites that the namespace has as functions of the standard, or that make no sense by themselves.
ELSEWHERE = {"argmax", "argmin", "count_nonzero", "eye", "tril", "triu", "var", "std", "vecdot", "conv_input_grad", "conv_weight_grad"}
# Rows that are no functions of the namespace: philox is what random numbers are made of, where() there checks its condition.
INTERNAL = {"philox", "where"}
# What an attribute is where it is left out; the others are needed.
DEFAULTS = {"keepdims": "False", "correction": "0.0", "eps": "1e-5", "scale": "None", "groups": "1", "diagonal": "0",
            "causal": "False", "stride": "None", "padding": "None", "dilation": "None", "axes": "None"}
# Which axes a composite works over where none are named; all in the others. What PyTorch, JAX and ONNX do: client/python/README.md has the table.
AXES = {**dict.fromkeys(("softmax", "log_softmax", "layer_norm", "rms_norm", "cross_entropy"), -1), "batch_norm": 1}
WORDS = {-1: "the last one", 1: "axis 1, the channels", None: "all"}
# What Python calls such an error; the others are RuntimeErrors.
KINDS = {"ARGUMENT": "ValueError", "SHAPE": "ValueError", "DTYPE": "TypeError", "RANK": "ValueError", "OVERFLOW": "OverflowError",
         "MEMORY": "MemoryError", "CONNECT": "ConnectionError", "TIMEOUT": "TimeoutError", "ARITY": "TypeError",
         "NONFINITE": "ArithmeticError", "SYNTAX": "ValueError", "TOKEN": "PermissionError"}
TITLES = {"DTYPE": "DType", "NONFINITE": "NonFinite"}
TYPES = {"AXES": "Axes", "FLAG": "bool", "REAL": "float | None", "WHOLE": "int", "DTYPE": "DType", "LIST": "int | Sequence[int] | None"}


def lines(name):
    with open(os.path.join(ROOT, *name.split("/")), encoding="utf-8") as table:
        return table.read().split("\n")


def doc_of(line):
    found = re.search(r'"([^"]*)"\)\s*$', line)
    if not found:
        sys.exit(f"generate.py: no description at the end of: {line}")
    return found.group(1)


def elementwise():
    for line in lines("protocol/ops.def"):
        found = re.match(r"(UNARY|BINARY|TERNARY)\( *\d+, *(\w+) *,", line)
        if found:
            yield found.group(1), found.group(2), doc_of(line)


def named(kind):
    for line in lines("protocol/ops.def"):
        found = re.match(kind + r"\( *\d+, *(\w+) *,", line)
        if found:
            yield found.group(1), doc_of(line)


def attributes():
    for line in lines("protocol/attributes.def"):
        found = re.match(r"ATTRIBUTE\( *\d+, *(\w+), *(\w+)", line)
        if found:
            yield found.group(1), found.group(2), doc_of(line)


def composites():
    """(name, least, [operand], [attribute], text)"""
    for line in lines("protocol/ops.def"):
        if not line.startswith("COMPOSITE("):
            continue
        found = re.match(r'COMPOSITE\((\d+), (\w+), \w+, \w+, \w+, (\d+), (\d+), "([^"]*)", ([^"]*), "', line)
        if not found:
            sys.exit(f"generate.py: this line does not read: {line}")
        operands = [o.split(":")[0] for o in found.group(5).split(", ") if o]
        yield found.group(2), int(found.group(3)), operands, re.findall(r"HAS\((\w+)\)", found.group(6)), doc_of(line)


def fused():
    """(name, [operand], text, doc) of fused.def."""
    for line in lines("protocol/fused.def"):
        if line.startswith("FUSED("):
            found = re.match(r'FUSED\((\w+), *"([^"]*)", *"([^"]*)", *"([^"]*)"\)$', line)
            if not found:
                sys.exit(f"generate.py: this line does not read: {line}")
            yield "fused_" + found.group(1), found.group(2).split(", "), found.group(3), found.group(4)


# What stands for each entry of a list that is left out.
ENTRIES = {"stride": "1", "padding": "0", "dilation": "1"}
# What others call the composites, by their names: who writes one is told ours.
MEANT = {"swish": "silu", "hard_swish": "hardswish", "hard_sigmoid": "hardsigmoid", "cross_entropy_loss": "cross_entropy", "mha": "attention",
         "bias_add": "linear", "logsoftmax": "log_softmax", "mse_loss": "mean(square(x - y))", "l1_loss": "mean(abs(x - y))", "relu6": "clip(x, 0, 6)",
         "hardtanh": "clip(x, -1, 1)", "dropout": "where(random.bernoulli(1 - p, x.shape), x / (1 - p), 0)", **{f"{name}{n}d": name for name in ("conv", "max_pool", "avg_pool", "batch_norm") for n in (1, 2, 3)},
         "convolution": "conv", "scaled_dot_product_attention": "attention", "rmsnorm": "rms_norm", "layernorm": "layer_norm", "dense": "linear",
         "embed": "embedding"}

# Elementwise operations are fusion's; here they are found, too.
NETWORK_NAMES = '''
def _axes(axes, axis, otherwise):
    if axes is not None and axis is not None:
        raise TypeError("axis and axes are two names for one thing: give one of them")
    chosen = axes if axis is None else axis
    return otherwise if chosen is None else chosen


def _list(given, x):
    try:
        return (_index(given),) * (getattr(x, "ndim", 2) - 2)
    except TypeError:
        return tuple(given)


_MEANT = {all!r}


def _weight(weight, bias):
    """A weight that is left out before a bias is 1: everything times it stays as it is."""
    if weight is not None or bias is None:
        return weight
    from ._creation import ones_like
    return ones_like(bias)


def _plain(name):
    """CrossEntropyLoss, LeakyReLU, Conv2d, as one finds them elsewhere."""
    plain = name.lower().replace("_", "")
    return plain[:-4] if plain.endswith("loss") else plain


def _absent(name):
    from . import _rows
    if name in _rows.__all__:
        return getattr(_rows, name)
    meant = {{_plain(theirs): ours for theirs, ours in _MEANT.items()}}
    meant.update({{_plain(ours): ours for ours in (*_rows.__all__, *__all__)}})
    ours = meant.get(_plain(name))
    if ours:
        raise AttributeError(f"module 'fusion.nn' has no attribute {{name!r}}: {{ours if ours[-1] == ')' else ours + '()'}} does it")
    raise AttributeError(f"module 'fusion.nn' has no attribute {{name!r}}")


# Who checks types knows the names.
if not TYPE_CHECKING:
    __getattr__ = _absent
'''


def passed(operands, least):
    """The operands of a call: a weight that may be left out is 1 where a bias is not."""
    return ", ".join("_weight(weight, bias)" if o == "weight" and i >= least and "bias" in operands else o for i, o in enumerate(operands))


def print_networks():
    docs = {name: (kind, doc) for name, kind, doc in attributes()}
    print('"""What networks are made of: the composites of the operation table.')
    print("\nGenerated by client/python/generate.py from protocol/ops.def: do not edit.\n\"\"\"")
    print("from __future__ import annotations\n\nfrom operator import index as _index\n\nfrom . import _core\nfrom ._base import element_type, real, whole\nfrom ._told import told_all\n")
    print("TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from typing import Sequence, Union\n\n    from ._array import Array\n    from ._base import DType\n    Axes = Union[int, Sequence[int], None]\n")
    rows = [row for row in composites() if row[0] not in ELSEWHERE]
    print(f"__all__ = {[row[0] for row in (*rows, *fused())]!r}\n")
    print(NETWORK_NAMES.format(all={name: meant for name, meant in sorted(MEANT.items())}))
    for name, least, operands, has, doc in rows:
        list_ = [f"{o}: Array" if i < least else f"{o}: Array | None = None" for i, o in enumerate(operands)]
        keys = [a for a in has if a not in DEFAULTS] + [a for a in has if a in DEFAULTS]
        needed = [f"{a}: {TYPES[docs[a][0]].replace(' | None', '')}" for a in keys if a not in DEFAULTS]
        given = [f"{a}: {TYPES[docs[a][0]] if docs[a][0] == 'LIST' or DEFAULTS[a] == 'None' else TYPES[docs[a][0]].replace(' | None', '')} = {DEFAULTS[a]}" for a in keys if a in DEFAULTS]
        given += ["axis: Axes = None"] if "axes" in has else []
        arguments = ", ".join(list_ + (["/"] if operands else []) + (["*"] if keys else []) + needed + given)
        print(f"\ndef {name}({arguments}) -> Array:")
        print(f'    """{doc}')
        if keys:
            print()
        for a in keys:
            more = f" None: {WORDS[AXES.get(name)]}." if a == "axes" else " One number stands for all." if docs[a][0] == "LIST" else ""
            print(f"    {a}: {docs[a][1][0].lower()}{docs[a][1][1:]}{more}")
        if "axes" in has:
            print("    axis: the same, by the name that it has elsewhere.")
        print('    """')
        pieces = []
        for a in keys:
            value = f"element_type({a})" if docs[a][0] == "DTYPE" else f"whole({a}, {a!r})" if docs[a][0] == "WHOLE" else f"real({a}, {a!r})" if docs[a][0] == "REAL" and DEFAULTS[a] != "None" else f"_axes(axes, axis, {AXES.get(name)})" if a == "axes" else a
            if docs[a][0] == "LIST":
                otherwise = "window" if a == "stride" and "window" in keys else ENTRIES.get(a)
                value = f"_list({a}, x)" if a not in DEFAULTS else f"_list({otherwise} if {a} is None else {a}, x)"
            pieces.append(f"{a!r}: {value}")
        print(f"    return _core.call(None, {name!r}, ({passed(operands, least)},), {{{', '.join(pieces)}}})\n")
    print_fused()
    print("\ntold_all(__all__, globals(), __name__)")


def print_fused():
    for name, operands, text, doc in fused():
        arguments = ", ".join(f"{o}: Array" for o in operands)
        print(f'\ndef {name}({arguments}, /) -> Array:\n    """{doc}: {text}. A name for these operations, which fuse as they do."""')
        print(f"    return _core.call(None, {name!r}, ({', '.join(operands)},), {{}})\n")


def standard_names():
    """The names of the standard for rows that are called otherwise, by the row's."""
    found = (re.match(r"NAME\((\w+), (\w+)\)", line) for line in lines("client/python/src/names.def"))
    return {f.group(2): f.group(1) for f in found if f}


def print_rows():
    print('"""The elementwise operations of the table, by the standard\'s names where it has them.\n')
    print('Generated by client/python/generate.py from protocol/ops.def: do not edit.\n"""')
    standard = standard_names()
    names = sorted(standard.get(name, name) for _, name, _ in elementwise() if name not in INTERNAL)
    print("from ._core import (" + ",\n                    ".join(names) + ")\n")
    print(f"__all__ = {names!r}")


def print_stubs():
    names = standard_names()
    print("# Generated by client/python/generate.py from protocol/ops.def: do not edit.")
    print("from typing import Any, Union\n\nfrom ._array import Array as _A\n\n# Beside an array; lists are arrays there.\n_Other = Union[bool, int, float, list[Any], tuple[Any, ...]]\n")
    print("VERSION: str\nDTYPES: tuple[tuple[str, str, int], ...]\n")
    with open(os.path.join(ROOT, "client", "python", "core.pyi"), encoding="utf-8") as stub:
        print(stub.read())
    for row, name, doc in elementwise():
        for each in dict.fromkeys((name, names.get(name, name))):
            operands = ELEMENTWISE[row].split(", ")
            number = "" if row == "UNARY" else " | bool | int | float"
            arguments = f"x: _A{number}, {SECOND[name]}" if name in SECOND else ", ".join(f"{o}: _A{number}" for o in operands)
            print(f"def {each}({arguments}, /) -> _A:\n    \"\"\"{doc}\"\"\"")


def print_errors():
    print('"""What libfusion and the daemon refuse, as exceptions of the classes that one expects.\n')
    print('Generated by client/python/generate.py from protocol/errors.def: do not edit.\n"""\nimport builtins')
    print('\n\nclass FusionError(Exception):\n    """What libfusion or the daemon refuses. Its text names the operation, the shapes and the '
          'caller\'s line."""\n\n')
    classes = {0: "FusionError"}
    for line in lines("protocol/errors.def"):
        found = re.match(r'ERROR\( *(\d+), (\w+), +"([^"]*)"\)', line)
        if found:
            code, name, doc = found.groups()
            classes[int(code)] = title = TITLES.get(name, name.capitalize()) + "Error"
            print(f'class {title}(FusionError, builtins.{KINDS.get(name, "RuntimeError")}):\n    """{doc[0].upper()}{doc[1:]}."""\n\n')
    print("BY_CODE = {" + ", ".join(f"{code}: {title}" for code, title in classes.items()) + "}")
    print(f"__all__ = {sorted(classes.values())!r}")
    print('for _error in BY_CODE.values():\n    _error.__module__ = "fusion"')


def section(name):
    """What pyproject.toml says there: Python reads that language by itself from 3.11 only, and here it is one line a value."""
    text = "\n".join(lines("client/python/pyproject.toml"))
    found = re.search(rf"^\[{re.escape(name)}\]\n((?:\w.*\n)*)", text, re.M)
    if not found:
        sys.exit(f"generate.py: pyproject.toml has no section {name}")
    return dict(re.findall(r'^([\w-]+) = "([^"]*)"$', found.group(1), re.M))


def print_metadata():
    project = section("project")
    print(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\nSummary: {project['description']}")
    print(f"Requires-Python: {project['requires-python']}")


def print_entry_points():
    for name, module in section('project.entry-points."array_api"').items():
        print(f"[array_api]\n{name} = {module}")


if __name__ == "__main__":
    made = {"nn.py": print_networks, "_core.pyi": print_stubs, "_rows.py": print_rows, "_errors.py": print_errors,
            "METADATA": print_metadata, "entry_points.txt": print_entry_points}.get(sys.argv[1] if len(sys.argv) == 2 else "")
    if not made:
        sys.exit("usage: generate.py nn.py|_core.pyi|_rows.py|_errors.py|METADATA|entry_points.txt")
    made()

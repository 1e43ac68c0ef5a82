"""What the package says of its types is so: stubs of the extension module, and annotations of all that is public. mypy is run by hand."""
import ast
import inspect
import os
import sys
import typing

import pytest

import fusion as xp
from fusion import _core, nn, optim, random, safetensors

MODULES = [xp, nn, optim, random, safetensors]
FUNCTIONS = {f"{m.__name__}.{n}": getattr(m, n) for m in MODULES for n in m.__all__ if inspect.isfunction(getattr(m, n))}
# What annotations name that is imported for those who check types alone.
NAMES = {**{n: getattr(typing, n) for n in ("Any", "Callable", "Iterable", "Iterator", "Mapping", "NoReturn", "Sequence")},
         "Array": xp.Array, "Device": xp.Device, "DType": xp.DType, "Axes": typing.Any, "Picture": type(xp.graph(xp.ones(1))),
         "os": os}


def stub():
    with open(os.path.join(os.path.dirname(xp.__file__), "_core.pyi"), encoding="utf-8") as file:
        return ast.parse(file.read()).body


def names(body):
    return {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))} | {n.target.id for n in body if isinstance(n, ast.AnnAssign)}


def own(object_):
    return {n for n in dir(object_) if not n.startswith("__")}


def test_the_stub_names_what_the_extension_module_has():
    assert names(stub()) == own(_core)
    for entry in stub():
        if isinstance(entry, ast.ClassDef):
            here = names(entry.body)
            assert {n for n in here if not n.startswith("__")} == own(getattr(_core, entry.name))
            # A buffer's method has that name in Python from 3.12 on.
            assert [n for n in here if not hasattr(getattr(_core, entry.name), n)] in ([], ["__buffer__"])


def test_the_stub_has_the_parameters_of_the_operations():
    wrong = []
    for entry in stub():
        if isinstance(entry, ast.FunctionDef) and entry.args.posonlyargs:
            parameters = inspect.signature(getattr(_core, entry.name)).parameters
            if [a.arg for a in entry.args.posonlyargs] != list(parameters) or ast.get_docstring(entry) != inspect.getdoc(getattr(_core, entry.name)):
                wrong.append(entry.name)
    assert wrong == []


def said(function):
    function = inspect.unwrap(function)
    return typing.get_type_hints(function, None, {**vars(xp._functions), **NAMES, "bool": bool}), inspect.signature(function).parameters


@pytest.mark.skipif(sys.version_info < (3, 10), reason="X | Y is no type there")
def test_public_functions_say_the_types_of_their_parameters_and_results():
    hints = {name: said(function) for name, function in FUNCTIONS.items()}
    assert len(hints) > 100 and [name for name, (types, parameters) in hints.items() if set(types) != {*parameters, "return"}] == []


def test_what_is_public_is_named_and_explained():
    assert [n for n in xp.__all__ if not hasattr(xp, n)] == [] and len(set(xp.__all__)) == len(xp.__all__)
    assert [n for n in xp.__all__ if callable(getattr(xp, n)) and not inspect.getdoc(getattr(xp, n))] == []
    own_methods = [m for n, m in vars(xp.Array).items() if inspect.isfunction(m) and not n.startswith("_")]
    assert [m.__name__ for m in own_methods if set(m.__annotations__) < {*inspect.signature(m).parameters} - {"self"} | {"return"}] == []

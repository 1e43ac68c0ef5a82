"""What a mistake says: the function that the program called, and the argument that is wrong.

A function refuses where it meets what it cannot use, deep within others, and knows neither. Only then is it looked at what the program gave, by
the annotations of the function's parameters: a call that goes well pays for no checks.
"""
from __future__ import annotations

import functools
import operator
import re

from . import _core
from ._base import Device, as_dtype, shown
from ._errors import FusionError

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any, Callable

__all__ = ["tell", "told", "told_all"]

# What functions refuse arguments with; of the others a program is told TypeError.
_REFUSALS = (TypeError, ValueError, IndexError, OverflowError, FusionError, BufferError)
_HERE = __file__.rpartition("/")[0] + "/"


def told(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, whose refusals begin with the name and say which argument is meant."""
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except (*_REFUSALS, AttributeError, KeyError) as e:
            tell(e, function, name, args, named)
            raise
    call.__name__ = name
    if not function.__qualname__.endswith("." + function.__name__):
        call.__qualname__ = name       # a function is pickled by it, an alias too
    return call


def told_all(names: Any, space: Any, module: str) -> None:
    """told() of the functions of these names in a module or class."""
    for name in names:
        f = space[name] if isinstance(space, dict) else getattr(space, name)
        if isinstance(f, type(told)):
            made = told(f, name)
            if isinstance(space, dict):
                made.__module__ = module
                space[name] = made
            else:
                setattr(space, name, made)


def tell(e: BaseException, function: Callable[..., Any], name: str, args: Any, named: Any) -> None:
    """Changes what the refusal of a call says; raises another one where its class is none that programs expect."""
    if not is_ours(e):
        return
    text = str(e)
    begins = re.match(re.escape(name) + r"\b", text)
    wrong = _wrong_argument(function, args, named)
    if not wrong and isinstance(e, OverflowError):
        wrong = _too_large(function, args, named)
    if wrong and not (begins and re.search(rf"\b{re.escape(wrong[0])}\b", text)):
        place = re.search(r" \(at [^()]*:\d+\)$", text)
        text = f"{name}: {wrong[1]}" + (place.group() if place else "")
    elif not isinstance(e, _REFUSALS):
        return
    elif not begins:
        text = f"{name}: " + re.sub(r"^\w[\w.]*: ", "", text)
    if not isinstance(e, _REFUSALS):
        raise TypeError(text) from None
    e.args = (text,)


def is_ours(e):
    """Was it raised by this package, not within a function of the program's that it called?"""
    at = e.__traceback__
    while at and at.tb_frame.f_code.co_filename.startswith(_HERE):
        at = at.tb_next
    return at is None


# ---- arguments by their annotations ----


def _given(function, args, named):
    """(parameter, what a message calls it, what was given) of each argument."""
    import inspect
    try:
        bound = inspect.signature(function).bind(*args, **named)
    except TypeError:
        return
    for name, value in bound.arguments.items():
        p = bound.signature.parameters[name]
        if p.kind is p.VAR_POSITIONAL:
            yield from ((p, f"{name}{i + 1}", one) for i, one in enumerate(value))
        elif p.kind is not p.VAR_KEYWORD:
            yield p, name, value


def _wrong_argument(function, args, named):
    """(name, what is wrong with it) of the first argument that is of none of the types that its annotation names, or None."""
    for p, name, value in _given(function, args, named):
        why = _wrong(str(p.annotation), value, name)
        if why:
            return p.name, why
    return None


def _too_large(function, args, named):
    """The same of the first argument that has an integer of more than 64 bits."""
    for p, name, value in _given(function, args, named):
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, (int, float)) and abs(one) >= 1 << 63:
                return p.name, f"{name} is {shown(value)}, which is too large"
    return None


def _integer(v):
    if isinstance(v, type):
        return False
    if _array(v):
        return not v.ndim and v.dtype.kind in "iu"
    try:
        operator.index(v)
    except TypeError:
        return False
    return True


def _real(v):
    return not isinstance(v, (str, bytes, bytearray, type)) and (hasattr(v, "__float__") or _integer(v))


def _integers(v):
    return not isinstance(v, (str, bytes, bytearray)) and hasattr(v, "__iter__") and all(map(_integer, v))


def _element_type(v):
    try:
        return as_dtype(v) is not None
    except TypeError:
        return False


def _array(v):
    return isinstance(v, _core.Array)


_TYPE = (_element_type, "an element type, whose names are those of fusion")
_KINDS = {
    "Array": (_array, "a fusion array"), "_Array": (_array, "a fusion array"), "int": (_integer, "an integer"), "float": (_real, "a number"), "bool": (lambda v: isinstance(v, bool), "a truth"), "str": (lambda v: isinstance(v, str), "a text"),
    "Sequence[int]": (_integers, "a sequence of integers"), "tuple[int, ...]": (lambda v: isinstance(v, (tuple, list)) and _integers(v), "a tuple of integers"),
    "os.PathLike[str]": (lambda v: hasattr(v, "__fspath__"), "a path"), "DType": _TYPE, "Device": (lambda v: isinstance(v, (Device, str, int)), "a device"), "None": (lambda v: v is None, "None"),
}
_MEANT = {"Axes": "int | tuple[int, ...] | None", "Type": "DType | None"}


def _wrong(said, value, name):
    if "DType" in said:
        said = said.replace(" | str | type", "")
    elif "Device" in said:
        said = said.replace(" | str | int", "")
    said = _MEANT.get(said, said)
    if said in ("Like", "Like | None"):
        return None if value is None and said != "Like" else _no_array(value, name)
    if said.startswith("Iterable["):
        return _of_several(said[9:-1], value, name)
    kinds = said.split(" | ")
    if any(kind not in _KINDS for kind in kinds) or any(_KINDS[kind][0](value) for kind in kinds):
        return None
    names = [_KINDS[kind][1] for kind in kinds if kind != "None" and not ("float" in kinds and kind in ("bool", "int"))]
    hint = "; fusion.asarray() makes arrays" if "Array" in said else ""
    return f"{name} is {shown(value)}, not {' or '.join(names)}{hint}"


def _of_several(said, value, name):
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return f"{name} is {shown(value)}, not a list of arrays"
    return next((why for why in (_wrong(said, one, f"{name}[{i}]") for i, one in enumerate(value)) if why), None)


def _no_array(value, name):
    from ._ufunc import array_of
    try:
        array_of(value)
    except _REFUSALS as e:
        return f"{name} is {shown(value)}: " + re.sub(r"^asarray: (obj, of \w+, is |obj has |obj is \S+: )?| \(at [^()]*:\d+\)$", "", str(e))
    return None

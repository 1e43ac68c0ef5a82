"""A mistake with each function of the package: one sentence of a class that is right and that names the function. The functions are found, and their
arguments by their signatures: a new one is tried as well, or has a row here that says why not."""
import inspect

import pytest

import fusion as xp
import fusion.nn
import fusion.optim
import fusion.random
import fusion.safetensors

MODULES = (xp, xp.nn, xp.optim, xp.random, xp.safetensors)
# Those that are called otherwise than the operation of ops.def which they are.
ROWS = {"bitwise_invert": "bitwise_not", "bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right", "divide": "div", "equal": "eq",
        "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub"}
# Parameters that are an array.
ARRAYS = {"x", "a", "x1", "array", "arrays", "y", "condition", "logits", "q", "weight"}
# What makes arrays takes more than arrays, and a generator refuses when it is entered.
NO_ARRAY = {"asarray", "from_dlpack", "writable", "array", "save", "unmap"}
PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def functions():
    for module in MODULES:
        for name in sorted(getattr(module, "__all__", dir(module))):
            function = getattr(module, name)
            if not name.startswith("_") and callable(function) and not inspect.isclass(function) and not isinstance(function, type(xp.float32)):
                yield pytest.param(function, list(inspect.signature(function).parameters.values()), id=f"{module.__name__}.{name}")


def needed(parameters):
    return [xp.ones((2, 3)) for p in parameters if p.default is p.empty and p.kind in PLACED]


def refused(function, name, classes, *args, **keywords):
    with pytest.raises(classes) as e:
        function(*args, **keywords)
    text = str(e.value)
    # fused_add_relu() and the like are other names for several operations, each of which speaks for itself.
    assert ROWS.get(name, name) in text or name in text or name.startswith("fused_"), text
    assert "\n" not in text and ". " not in text, text


def name_of(request):
    return request.node.callspec.id.rsplit(".", 1)[1]


@pytest.mark.parametrize("function, parameters", functions())
def test_an_unknown_keyword_is_refused_by_name(request, function, parameters):
    if not any(p.kind == p.VAR_KEYWORD for p in parameters):
        refused(function, name_of(request), TypeError, *needed(parameters), no_such_keyword=1)


@pytest.mark.parametrize("function, parameters", functions())
def test_what_is_no_array_is_refused_by_name(request, function, parameters):
    name = name_of(request)
    if not parameters or parameters[0].kind not in PLACED or parameters[0].name not in ARRAYS or name in NO_ARRAY:
        return
    # NULL is what the library calls None.
    refused(function, name, (TypeError, xp.ArgumentError), None, *needed(parameters[1:]))
    for other in ("text", object()):
        refused(function, name, TypeError, other, *needed(parameters[1:]))


@pytest.mark.parametrize("function, parameters", functions())
def test_an_axis_that_is_not_there_is_refused_by_name(request, function, parameters):
    name = name_of(request)
    if not any(p.name == "axis" for p in parameters) or parameters[0].name not in ARRAYS or any(p.name in ("indices", "index", "shift") for p in parameters):
        return
    args = [xp.ones((2, 3)) for p in parameters if p.default is p.empty and p.kind in PLACED and p.name != "axis"]
    if parameters[0].name == "arrays":
        args = [[xp.ones((2, 3))]]
    refused(function, name, (IndexError, ValueError), *args, axis=99)
    refused(function, name, TypeError, *args, axis=1.5)
    refused(function, name, TypeError, *args, axis="x")


# ---- sessions ----

# Needed arguments that are no arrays, by their names.
VALUES = {"dtype": xp.float32, "axes": (0, 1), "axis": 0, "source": 0, "destination": 1, "repetitions": (1, 1), "repeats": 2, "shape": (2, 3),
          "window": 2, "classes": 2}
WHOLE = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "shift_left", "shift_right", "one_hot"}
# What asks nothing of a session, or wants arrays of other shapes or types first.
NOTHING = {"broadcast_arrays", "can_cast", "clip", "conj", "result_type", "isdtype", "report", "imag", "real", "searchsorted", "roll", "put_along_axis", "add_at",
           "astype", "full_like", "nextafter", "positive", "take", "take_along_axis", "where"}


@pytest.fixture(scope="module")
def other():
    device = xp._base.Device()
    yield device
    device.context.close()


@pytest.fixture(scope="module")
def closed():
    device = xp._base.Device()
    made = [device.context.full(dtype, (2, 3), 1) for dtype in (xp.float32, xp.int64)]
    device.context.close()
    return made


def beside(parameters, dtype):
    """Arguments behind the first."""
    made = []
    for p in parameters:
        if p.default is p.empty and p.kind in PLACED:
            made.append(VALUES.get(p.name, xp.ones((2, 3), dtype=dtype)))
    return made


def named(name, parameters):
    wanted = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and (p.default is p.empty or name.startswith("cumulative_") and p.name == "axis")]
    return {n: VALUES[n] for n in wanted}


def told_at_the_line(function, name, refusals, /, *args, **keywords):
    with pytest.raises(refusals) as e:
        function(*args, **keywords)
    text = str(e.value)
    assert ROWS.get(name, name) in text or name in text or name.startswith("fused_"), text
    assert text.endswith(f"{__file__}:{e.traceback[0].lineno + 1})") and "\n" not in text and ". " not in text, text
    return text


def asked(name, parameters):
    return parameters and parameters[0].kind in PLACED and parameters[0].name in ARRAYS and name not in NO_ARRAY | NOTHING


@pytest.mark.parametrize("function, parameters", functions())
def test_an_array_of_a_closed_session_is_refused_by_name(request, function, parameters, closed):
    name = name_of(request)
    if asked(name, parameters):
        a = closed[name in WHOLE]
        assert "closed" in told_at_the_line(function, name, xp.StateError, [a] if parameters[0].name == "arrays" else a, *beside(parameters[1:], a.dtype),
                                            **named(name, parameters))


@pytest.mark.parametrize("function, parameters", functions())
def test_an_array_of_another_session_is_refused_by_name(request, function, parameters, other):
    name = name_of(request)
    dtype = xp.int64 if name in WHOLE else xp.float64
    args = beside(parameters[1:], dtype)
    which = [i for i, a in enumerate(args) if isinstance(a, xp.Array)]
    if asked(name, parameters) and which:
        args[which[0]] = other.context.full(dtype, (2, 3), 1)
        told_at_the_line(function, name, xp.ArgumentError, xp.ones((2, 3), dtype=dtype), *args, **named(name, parameters))


def test_the_next_number_is_not_sought_between_sessions(other):
    with pytest.raises(xp.ArgumentError, match="nextafter: argument x2 is of another context"):
        xp.nextafter(xp.ones((2, 3)), other.context.full(xp.float64, (2, 3), 1))

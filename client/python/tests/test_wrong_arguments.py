"""Each argument of each public function, of the wrong type, rank or size: one sentence that begins with the function that the program called and names the
argument. The functions and their arguments are found by their signatures: a new one is tried as well."""
import functools
import inspect
import itertools
import math
import os
import pickle
import re

import pytest

import fusion as xp
import fusion.nn
import fusion.numpy as fnp
import fusion.optim
import fusion.random
import fusion.safetensors

REFUSALS = (TypeError, ValueError, IndexError, OverflowError, xp.FusionError, BufferError)


class Thing:
    """An object that is nothing of what is wanted."""

    def __repr__(self):
        return "Thing()"


UNEVEN = [[1], [1, 2]]
HUGE = 1 << 70
NUMBERS = itertools.count()
# What is wrong for each kind of argument. None is tried where it is no default.
WRONG = {
    "array": ("text", Thing(), UNEVEN, 1j, int, {}, None),
    "like": ("text", Thing(), UNEVEN, 1j, int, {}, None),
    "arrays": ("text", Thing(), 3, None, [UNEVEN], ["text"], [Thing()], []),
    "axis": ("x", Thing(), 1.5, 99, -99, HUGE, b"x", 1j, int, UNEVEN, math.nan, None),
    "axes": ("x", Thing(), 1.5, (99, 0), (0, 0), (HUGE, 0), b"xy", 1j, int, UNEVEN, math.nan, ("x", 0), None),
    "dtype": ("no_such", Thing(), 3, 1.5, [1], b"f4", 1j, complex, xp, None),
    "shape": ("x", "23", (2, "a"), (2, 1.5), (-2, 3), -2, HUGE, (1 << 40, 1 << 40), (HUGE, 0), Thing(), 1.5, b"ab", math.nan, 1j, int, UNEVEN, None),
    "count": ("x", Thing(), 1.5, math.nan, HUGE, -HUGE, b"a", 1j, int, UNEVEN, None),
    "number": ("x", Thing(), 1j, b"1", int, UNEVEN, {}, None),
    "text": (3, Thing(), "no such", b"left", int, [1], None),
    "device": ("no such device", Thing(), 1.5, -5, 99, b"x", True),
    "function": (3, "text", Thing(), None),
    "out": (3, "text", Thing(), [1.0], int),
    "file": (3.5, Thing(), None, ["x"]),
}

# ---- what each argument is ----

ARRAYS = set("a a1 a2 ar ar1 ar2 arr array ary b c condition element f fp indices m obj p q src test_elements v values x x1 x2 xp y weights A first second "
             "sorter index target logits weight bias mask residual scale shift variance mean k prepend append initial".split())
KINDS = {
    **dict.fromkeys("axis1 axis2 source destination".split(), "axis"), "axes": "axes", "tup": "arrays", "choicelist": "arrays", "condlist": "arrays", "shape": "shape", "size": "shape", "dimensions": "shape",
    "device": "device", "out": "out", "where": "like", "from_": "dtype", "to": "dtype", "type": "dtype", "of": "dtype", "function": "function",
    **dict.fromkeys("pad_width repeats reps repetitions indices_or_sections argnums seed number classes groups minlength decimals".split(), "count"),
    **dict.fromkeys("dtype default_real".split(), "dtype"),
    **dict.fromkeys("a_min a_max min max constant_values default dx discont fill_value high left loc low period right start stop step spacing probability eps correction ddof".split(), "number"),
}
# Any object is true or false; and what names have no kind that is wrong, or are asked of the daemon.
FREE = {"bool", "builtins.bool", "bool | None", "builtins.bool | None", "None"}


@functools.cache
def kind_of(p):
    said = str(p.annotation)
    if said in FREE or p.kind is p.VAR_KEYWORD or p.name in ("optimize", "order", "self"):
        return None
    if said.startswith("Iterable[A"):
        return "arrays"
    if said.startswith("Array | None") and p.name == "out":
        return "out"
    if said.startswith("Array") and "Callable" not in said and "DType" not in said or said == "_Array":
        return "array" if "int" not in said else "number"
    if said.startswith("Axes") or p.name == "axis":
        return "axes" if said.startswith("Axes") or "tuple" in said else "axis"
    if "PathLike" in said:
        return "file"
    if said.startswith("Mapping"):
        return "arrays"
    if p.name in KINDS and not (p.name in ("right", "k") and said == "int"):
        return KINDS[p.name]
    if said.startswith("int"):
        return "count"
    if "float" in said:
        return "number"
    if said.startswith("str"):
        return "text"
    return "like" if p.name in ARRAYS else None


SPACES = ((xp, "fusion"), (xp.nn, "fusion.nn"), (xp.optim, "fusion.optim"), (xp.random, "fusion.random"), (xp.safetensors, "fusion.safetensors"), (fnp, "fusion.numpy"),
          (fnp.linalg, "fusion.numpy.linalg"), (fnp.random, "fusion.numpy.random"), (xp.Array, "Array"), (fnp.random.Generator, "Generator"))


def public():
    """(place, name, function) of all that a program may call."""
    for space, place in SPACES:
        for name in sorted(getattr(space, "__all__", dir(space))):
            f = getattr(space, name)
            if not name.startswith("_") and callable(f) and (place == "fusion.optim" or not inspect.isclass(f)) and not isinstance(f, type(xp.float32)):
                yield place, name, f


@functools.cache
def parameters(f):
    if isinstance(f, fnp.ufunc):
        operand = [inspect.Parameter(f"x{i + 1}", inspect.Parameter.POSITIONAL_ONLY, annotation="Any") for i in range(f.nin)]
        return operand + [p for p in inspect.signature(f).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return [p for p in inspect.signature(f).parameters.values() if p.name != "self"]


# ---- a call that is right but for one ----

# Of other functions than those whose name they stand under: what the argument is where nothing else is said.
VALUES = {
    "axis": 0, "axis1": 0, "axis2": 1, "source": 0, "destination": 1, "axes": (0, 1), "dtype": "float32", "from_": "float32", "to": "float32", "type": "float32", "of": "f4",
    "shape": (2, 3), "size": (2, 3), "dimensions": (2, 3), "start": 0, "stop": 5, "num": 3, "N": 3, "n": 2, "n_rows": 3, "low": 0, "high": 5, "probability": 0.5,
    "fill_value": 1, "repetitions": (1, 1), "reps": 2, "repeats": 2, "window": 2, "classes": 3, "pad_width": 1, "indices_or_sections": 1, "obj": 0, "q": 0.5,
    "side": "left", "subscripts": "ij->ji", "number": 3, "kind": "numeric", "spacing": 1.0, "function": xp.sum, "rate": 0.1,
}


def ones(*shape, dtype="float64"):
    return xp.ones(shape, dtype=dtype)


def vectors(*names):
    return lambda: {name: ones(3) for name in names}


def linear():
    return {"x": ones(2, 3), "weight": ones(2, 3), "bias": ones(2), "residual": ones(2, 2), "scale": ones(3), "shift": ones(3), "mean": ones(3), "variance": ones(3)}


SPECIAL = {
    **dict.fromkeys("cumulative_prod cumulative_sum".split(), lambda: {"axis": 0}), "take": lambda: {"indices": xp.asarray([0, 1]), "axis": 0},
    "searchsorted": vectors("x1", "x2", "a", "v"), "interp": vectors("x", "xp", "fp"), "take_along_axis": lambda: {"indices": xp.asarray([[0, 1, 0], [1, 0, 0]])},
    "embedding": lambda: {"index": xp.asarray([0, 1])}, "one_hot": lambda: {"a": xp.asarray([0, 1])}, "cross_entropy": lambda: {"target": xp.asarray([0, 1])},
    "add_at": lambda: {"indices": xp.asarray([0, 1]), "values": ones(2, 3)}, "bincount": lambda: {"x": xp.asarray([0, 1])}, "digitize": vectors("bins"),
    "where": lambda: {"condition": xp.asarray(True), "x": ones(3), "y": ones(3)}, "conv": lambda: {"x": ones(1, 1, 5, 5), "weight": ones(1, 1, 2, 2)},
    **dict.fromkeys("max_pool avg_pool".split(), lambda: {"x": ones(1, 1, 4, 4)}), "matmul": lambda: {"x1": ones(3, 3), "x2": ones(3, 3)}, "diag": vectors("v"),
    **dict.fromkeys("convolve correlate cross vdot outer".split(), vectors("a", "b", "v")), "dot": lambda: {"self": ones(3, 3), "a": ones(3, 3), "b": ones(3, 3)},
    "meshgrid": vectors("arrays", "xi"), "squeeze": lambda: {"x": ones(1, 3), "a": ones(1, 3), "self": ones(1, 3)}, "broadcast_shapes": lambda: {"shapes": (2, 3)},
    "result_type": lambda: {"arrays_and_dtypes": "float32"}, "shuffle": vectors("x"), "reshape": lambda: {"shape": (3, 2)}, "tensordot": lambda: {"axes": 2},
    "select": lambda: {"condlist": [xp.asarray(True)], "choicelist": [ones(2)]}, "choice": vectors("a"), "batch_norm": lambda: {"mean": ones(3), "variance": ones(3), "axes": 1},
    "fromfunction": lambda: {"function": lambda i, j: i}, "attention": lambda: {k: ones(2, 3) for k in "qkv"}, "linear": linear, "copyto": lambda: {"dst": ones(2, 3), "src": ones(2, 3)},
    "item": lambda: {"index": 0}, "isdtype": lambda: {"dtype": xp.float32}, **dict.fromkeys("transpose permute_dims".split(), lambda: {"axes": (1, 0)}), "insert": lambda: {"values": 1.0},
    "append": lambda: {"axis": 0}, "vecdot": lambda: {"axis": -1}, "hsplit": lambda: {"indices_or_sections": 3}, "fill": lambda: {"value": 1.0}, **dict.fromkeys("to_device as_device".split(), lambda: {"device": 0}),
    "iinfo": lambda: {"type": "int32"}, **dict.fromkeys("randint integers".split(), lambda: {"high": 5}), **dict.fromkeys("rand randn".split(), lambda: {"shape": 2}), "on_progress": lambda: {"function": None},
    "roll": lambda: {"shift": 1}, "vjp": lambda: {"args": ones(3)}, "define_op": lambda: {"name": f"own{next(NUMBERS)}", "text": "relu(a)"},
    "define_pattern": lambda: {"name": f"own{next(NUMBERS)}", "text": "relu(a + b)"}, "unwrap": vectors("p"), "can_fuse": lambda: (lambda first, second: {"first": first, "second": second, "results": second * first})(*(lambda e: (e, e + 1))(xp.exp(ones(3)))),
    "fused_matmul_bias_relu": lambda: {"a": ones(2, 3), "b": ones(3, 2), "bias": ones(2)}, "fused_layer_norm_linear": linear, "fused_rms_norm_linear": linear, "fused_batch_norm_relu": linear,
    **dict.fromkeys((n for n in dir(xp.nn) if n.startswith("fused_") and "linear" in n), linear), **dict.fromkeys("fused_affine_relu fused_layer_norm_gelu".split(), linear),
    "save": lambda: {"name": os.devnull, "arrays": {"a": ones(2)}},
}
# Functions that are not called here, and where they are.
APART = {
    "config": "a block, which is refused when it is entered: test_tools.py", "writable": "a block: test_memory.py", "checkpoint": "a block without arguments", "no_grad": "a block without arguments",
    "benchmark_pattern": "measures for seconds: test_benchmark.py", "report": "writes a page: test_report.py", "imag": "refuses all", "forget_pattern": "wants one that is defined: test_tools.py",
    "load": "wants a file: test_standard.py",
}
# Arrays that few functions want.
OTHERS = {"no axes": xp.ones(()), "five axes": xp.ones((1, 2, 1, 3, 1)), "no elements": xp.ones((0, 3)), "truths": xp.ones((2, 3), dtype="bool")}
# What waits for kernels: right calls of these are those of test_numpy_names.py.
WAITING = set("""allclose argwhere array_equal bincount choice delete flatnonzero gcd histogram histogram_bin_edges intersect1d isin insert item lcm nextafter nonzero percentile permutation quantile repeat
              save setdiff1d setxor1d sync tolist union1d unique unique_all unique_counts unique_inverse unique_values wait""".split())
INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "left_shift", "right_shift", "invert", "gcd", "lcm"}
# What is taken, with the reason. It is a value for (function, argument): those of the tables above that are tried there.
TAKEN = {
    ("diff", "n"): "of so many differences none is left", ("eye", "k"): "a diagonal beyond the matrix is empty, as in NumPy", ("rot90", "k"): "four turns are none",
    ("grad", "argnums"): "how many arguments there are is known when the gradient is asked for", ("array", "ndmin"): "fewer axes than there are: nothing to do",
    ("value_and_grad", "argnums"): "as grad", ("dtype", "of"): "NumPy's dtype(None) is its default type", ("result_type", "arrays_and_dtypes"): "int is a type",
    ("roll", "axis"): "rolled twice, as in NumPy", ("tensordot", "axes"): "an axis of each", **{(f, "seed"): "any integer is a seed" for f in ("bernoulli", "integers", "normal", "uniform", "default_rng", "seed")},
    ("seed", "number"): "any integer is a seed", ("explain", "source"): "any object is a truth",
}


def value_of(name, p, given):
    if p.name in given:
        return given[p.name]
    if p.name in VALUES:
        return VALUES[p.name]
    if kind_of(p) == "arrays":
        return [ones(2, 3)]
    return ones(2, 3, dtype="int64" if name in INTEGERS else "float64")


def call_with(place, name, f, wrong=None, value=None):
    """A call that is right but for one argument."""
    args, named, given = [], {}, SPECIAL.get(name, dict)()
    if place in ("Array", "Generator"):
        args.append(given.get("self", ones(2, 3)) if place == "Array" else fnp.random.default_rng(1))
    all_of_them = parameters(f)
    place_of_wrong = next((i for i, p in enumerate(all_of_them) if p.name == wrong), -1)
    skipped = False
    for i, p in enumerate(all_of_them):
        if p.kind is p.VAR_KEYWORD:
            continue
        if p.name != wrong and p.default is not p.empty and p.name not in given:
            if p.kind is p.POSITIONAL_ONLY and i < place_of_wrong and all_of_them[place_of_wrong].kind is p.kind:
                args.append(p.default)
            else:
                skipped = True
            continue
        v = value if p.name == wrong else value_of(name, p, given)
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL) or p.kind is p.POSITIONAL_OR_KEYWORD and not skipped and not named:
            args.append(v)
        else:
            named[p.name] = v
    return f(*args, **named)


def names_the_argument(text, p, several, kind, value):
    if re.search(rf"\b{p.name}\d*\b", text) or not several:
        return True
    # An axis is one, whatever the argument is called, and a shape; of a text the words of it are told.
    return kind in ("axis", "axes") and "axis" in text or kind == "shape" and re.search(r"shape|extent|\[.*\]", text) or kind == "text" and (repr(value) in text or "column" in text)


def complaint(place, name, f, p, kind, value, must):
    """What is wrong with how a mistake is told; None: nothing."""
    try:
        call_with(place, name, f, p.name, value)
    except REFUSALS as e:
        text = str(e)
        called = {name, getattr(f, "__name__", name)}
        if not any(re.match(rf"{c}\b", text) for c in called):
            return f"does not begin with the function: {text}"
        if "\n" in text or ". " in text:
            return f"is more than a sentence: {text}"
        if must and not names_the_argument(text, p, len(parameters(f)) > 1, kind, value):
            return f"does not name the argument: {text}"
        return None
    except Exception as e:
        return f"is of {type(e).__name__}: {e}"
    return "is taken" if must and (name, p.name) not in TAKEN else None


def tried():
    """Each function once: what fusion.numpy has of fusion is the same."""
    seen = set()
    for place, name, f in public():
        key = id(f) if isinstance(f, fnp.ufunc) else (name, id(getattr(f, "__wrapped__", f)))
        if name not in APART and key not in seen:
            seen.add(key)
            yield pytest.param(place, name, f, id=f"{place}.{name}")


@pytest.mark.parametrize("place, name, f", tried())
def test_a_mistake_is_told(place, name, f):
    wrong = []
    if name not in WAITING:
        call_with(place, name, f)
    for p in parameters(f):
        kind = kind_of(p)
        optional = "None" in str(p.annotation) or str(p.annotation) in ("Axes", "Type") or p.default is None
        tries = [(value, repr(value), True) for value in WRONG.get(kind, ()) if value is not None or not optional]
        if name not in WAITING and (kind in ("array", "like", "out") or "Array" in str(p.annotation) and kind != "arrays"):
            tries += [(value, what, False) for what, value in OTHERS.items()]
        for value, what, must in tries:
            why = complaint(place, name, f, p, kind, value, must)
            if why:
                wrong.append(f"{p.name} = {what} {why}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("made", [xp.optim.SGD(0.1), xp.optim.SGD(0.1, momentum=0.5), xp.optim.Adam(), xp.optim.AdamW()])
@pytest.mark.parametrize("parameters, gradients", [(3, [ones(2)]), ([ones(2)], None), (["text"], [ones(2)]), ([ones(2)], [Thing()]), ([ones(2)], []), ([], [ones(2)]), ([ones(2)], [ones(2), ones(2)])])
def test_a_step_of_what_is_none_is_told(made, parameters, gradients):
    with pytest.raises((TypeError, ValueError), match="step: .*(parameters|gradients)"):
        made.step(parameters, gradients)
    with pytest.raises((TypeError, ValueError), match="step: .*parameter 0 has not the shape of its gradient"):
        made.step([ones(2)], [ones(3)])


KEYS = ("a", 1.5, Thing(), b"a", HUGE, 99, slice("a"), slice(0, 2, 0), (0, 0, 0), UNEVEN, ["a"], [1.5], xp.ones(2), xp.ones((2, 2), dtype="bool"), (..., ...), 1j, int, math.nan, {}, [9])


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_a_key_that_is_none_is_told(key):
    x = xp.ones((2, 3))
    for use in (lambda: x[key], lambda: x.__setitem__(key, 1)):
        with pytest.raises((IndexError, TypeError, ValueError), match="^(index|assignment)\\b"):
            use()
    assert x.tolist() == [[1, 1, 1]] * 2


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_a_value_that_is_none_is_told(dtype):
    x = xp.ones((2, 3), dtype=dtype)
    for value in ("a", b"a", Thing(), UNEVEN, None, 1j, {}, int, xp.ones(4), *((HUGE, math.nan, math.inf) if dtype == "int64" else ())):
        with pytest.raises((TypeError, ValueError, OverflowError), match="^assignment: "):
            x[0] = value
    for value in ("a", Thing(), UNEVEN, None, 1j, {}, int):
        with pytest.raises((TypeError, ValueError), match=f"^{dtype}: value is "):
            x.dtype(value)
    assert bool(xp.all(x == 1))
    with pytest.raises(TypeError, match="Device: which is 3"):
        xp.Device(3)


def test_what_is_apart_is_there():
    names = {name for _, name, _ in public()}
    assert {n for n, why in APART.items() if why} <= names and {f for f, _ in TAKEN} <= names


@pytest.mark.parametrize("name", "max amax amin around asanyarray concat trapz sum".split())
def test_functions_are_pickled_by_the_name_that_they_are_called_by(name):
    function = getattr(fnp, name)
    assert pickle.loads(pickle.dumps(function)) is function and function.__name__ == name


def test_an_axis_is_what_is_an_index():
    class One:
        def __index__(self):
            return 1

    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    for axis in (One(), xp.asarray(1), (One(),)):
        assert xp.sum(x, axis=axis).tolist() == [3, 7]
    assert xp.vecdot(x, x, axis=xp.asarray(-1)).tolist() == [5, 25]
    assert xp.concat([x, x], axis=One()).shape == (2, 4) and xp.expand_dims(x, axis=One()).shape == (2, 1, 2)


def test_what_a_program_s_own_index_says_is_not_changed():
    class Mine:
        def __index__(self):
            raise ValueError("mine")

    for use in (lambda: xp.ones(3)[Mine()], lambda: xp.ones(3).__setitem__(Mine(), 1), lambda: xp.sum(xp.ones(3), axis=Mine())):
        with pytest.raises(ValueError, match="^mine$"):
            use()


def test_what_cannot_be_shown_is_refused_all_the_same():
    class Mute:
        def __repr__(self):
            raise RuntimeError("mute")

    for call in (lambda: xp.sum(xp.ones(3), axis=Mute()), lambda: xp.eye(Mute()), lambda: fnp.round(xp.ones(3), Mute())):
        with pytest.raises(TypeError, match="Mute instance"):
            call()
    with pytest.raises(TypeError, match=r"eye: n_rows is an array of shape \(3,\)"):
        xp.eye(xp.ones(3))

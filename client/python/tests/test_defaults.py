"""What stands for an argument that is left out, beside what PyTorch, NumPy and the array API standard document for it. The values are written here, from
their manuals: of PyTorch 2.5 torch.nn.functional and torch.optim, of NumPy 2 its reference, of the standard 2025.12. Where ours is another one, the reason
is here, and the table of client/python/README.md has it."""
import inspect
import math

import numpy
import pytest

import fusion as xp
import fusion.nn
import fusion.numpy as fnp
import fusion.optim
import fusion.random

NEEDED = inspect.Parameter.empty

# The array API standard: function: {argument: value}.
STANDARD = {
    **dict.fromkeys("sum prod max min mean all any count_nonzero argmax argmin".split(), {"axis": None, "keepdims": False}),
    **dict.fromkeys("std var".split(), {"axis": None, "correction": 0.0, "keepdims": False}),
    **dict.fromkeys("cumulative_sum cumulative_prod".split(), {"axis": None, "dtype": None, "include_initial": False}),
    **dict.fromkeys("sort argsort".split(), {"axis": -1, "descending": False, "stable": True}),
    "arange": {"stop": None, "step": 1, "dtype": None, "device": None}, "asarray": {"dtype": None, "device": None, "copy": None}, "astype": {"copy": True, "device": None},
    **dict.fromkeys("zeros ones empty full zeros_like ones_like empty_like full_like".split(), {"dtype": None, "device": None}), "eye": {"n_cols": None, "k": 0, "dtype": None, "device": None},
    "linspace": {"dtype": None, "device": None, "endpoint": True}, "meshgrid": {"indexing": "xy"}, "tril": {"k": 0}, "triu": {"k": 0}, "concat": {"axis": 0}, "stack": {"axis": 0},
    "unstack": {"axis": 0}, "flip": {"axis": None}, "roll": {"axis": None}, "repeat": {"axis": None}, "reshape": {"copy": None}, "diff": {"axis": -1, "n": 1, "prepend": None, "append": None},
    "searchsorted": {"side": "left", "sorter": None}, "take_along_axis": {"axis": -1}, "tensordot": {"axes": 2}, "vecdot": {"axis": -1}, "clip": {"min": None, "max": None},
    "isin": {"invert": False}, "expand_dims": {"axis": 0}, "from_dlpack": {"device": None, "copy": None},
}

# PyTorch: what its functions of networks and its optimizers take where nothing is said.
TORCH = {
    "nn.layer_norm": {"eps": 1e-5, "weight": None, "bias": None}, "nn.batch_norm": {"eps": 1e-5, "weight": None, "bias": None}, "nn.group_norm": {"eps": 1e-5, "weight": None, "bias": None},
    "nn.linear": {"bias": None}, "nn.conv": {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}, "nn.max_pool": {"stride": None, "padding": 0},
    "nn.avg_pool": {"stride": None, "padding": 0}, "nn.attention": {"mask": None, "scale": None, "causal": False},
    "optim.SGD": {"momentum": 0.0, "decay": 0.0}, "optim.Adam": {"rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.0},
    "optim.AdamW": {"rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decay": 1e-2}, "random.uniform": {"low": 0.0, "high": 1.0}, "random.normal": {"mean": 0.0, "std": 1.0},
    "leaky_relu": {"slope": 0.01}, "elu": {"alpha": 1.0}, "nn.rms_norm": {"weight": None},
}
# One number for each axis is what None stands for there.
SAID_BY_NONE = {("nn.conv", "stride"): 1, ("nn.conv", "padding"): 0, ("nn.conv", "dilation"): 1, ("nn.max_pool", "padding"): 0, ("nn.avg_pool", "padding"): 0}

# fusion.numpy beside NumPy: reasons where the signature says another value.
OTHERWISE = {
    ("einsum", "optimize"): "any order of products gives the same here", ("cross", "axis"): "NumPy's axisa, axisb and axisc are -1", ("copy", "order"): "arrays have one order",
    ("identity", "dtype"): "None is float", ("ones", "dtype"): "None is float", ("clip", "a_min"): "None since NumPy 2.1", ("clip", "a_max"): "None since NumPy 2.1",
    ("take_along_axis", "axis"): "-1 since NumPy 2.3", ("histogram", "density"): "None was that of another argument",
}


def function_of(name):
    found = xp
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name, theirs", STANDARD.items(), ids=str)
def test_defaults_are_those_of_the_standard(name, theirs):
    ours = inspect.signature(getattr(xp, name)).parameters
    assert {n: ours[n].default for n in theirs} == theirs
    # What must be given there must be here.
    assert {n for n, p in ours.items() if p.default is not NEEDED} == set(theirs) | ({"dtype"} if name in ("sum", "prod") else set())


@pytest.mark.parametrize("name, theirs", TORCH.items(), ids=str)
def test_defaults_are_those_of_pytorch(name, theirs):
    ours = inspect.signature(function_of(name)).parameters
    for argument, value in theirs.items():
        assert SAID_BY_NONE.get((name, argument), value) == value and (ours[argument].default == value or ours[argument].default is None and (name, argument) in SAID_BY_NONE), argument


def test_none_stands_for_one_of_each_axis():
    x, w = xp.reshape(xp.arange(32, dtype="float64"), (1, 2, 4, 4)), xp.ones((3, 2, 2, 2))
    assert xp.nn.conv(x, w).tolist() == xp.nn.conv(x, w, stride=1, padding=0, dilation=1, groups=1).tolist()
    for pool in (xp.nn.max_pool, xp.nn.avg_pool):
        assert pool(x, window=2).tolist() == pool(x, window=2, stride=2, padding=0).tolist()


def test_axes_that_are_left_out_are_those_of_the_table():
    x = xp.asarray([[1.0, 2.0, 4.0], [0.0, 5.0, 3.0]])
    for f in (xp.nn.softmax, xp.nn.log_softmax, xp.nn.layer_norm, xp.nn.rms_norm):
        assert f(x).tolist() == f(x, axis=-1).tolist()
    for f in (xp.nn.logsumexp, xp.nn.l1_norm, xp.nn.l2_norm, xp.sum, xp.mean, xp.var):
        assert f(x).tolist() == f(x, axis=(0, 1)).tolist() and f(x).ndim == 0
    mean, variance = xp.asarray([1.0, 2.0, 3.0]), xp.asarray([1.0, 4.0, 9.0])
    assert xp.nn.batch_norm(x, mean, variance).tolist() == xp.nn.batch_norm(x, mean, variance, axis=1).tolist()
    targets = xp.asarray([2, 1])
    assert xp.nn.cross_entropy(x, targets).tolist() == xp.nn.cross_entropy(x, targets, axis=-1).tolist() and xp.nn.cross_entropy(x, targets).shape == (2,)


def test_gelu_is_the_exact_one():
    x = [-3.0, -0.5, 0.0, 1.0, 2.5]
    exact = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x]
    rough = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3))) for v in x]
    assert numpy.allclose(numpy.asarray(xp.gelu(xp.asarray(x))), exact, rtol=1e-12) and numpy.allclose(numpy.asarray(xp.gelu_tanh(xp.asarray(x))), rough, rtol=1e-12)
    assert not numpy.allclose(exact, rough, rtol=1e-6)


def test_the_slopes_of_activations_are_those_of_pytorch():
    x = xp.asarray([-2.0, 0.0, 3.0])
    assert xp.leaky_relu(x).tolist() == xp.leaky_relu(x, 0.01).tolist() == [-0.02, 0, 3]
    assert xp.elu(x).tolist() == xp.elu(x, 1.0).tolist() and xp.nn.leaky_relu(x).tolist() == xp.leaky_relu(x).tolist()
    # selu's constants, and softplus' beta of 1
    assert numpy.allclose(numpy.asarray(xp.selu(x)), [1.0507009873554805 * 1.6732632423543772 * numpy.expm1(-2), 0, 3 * 1.0507009873554805])
    assert numpy.allclose(numpy.asarray(xp.softplus(x)), numpy.log1p(numpy.exp([-2.0, 0.0, 3.0])))


def shared():
    for name in sorted(set(dir(fnp)) & set(dir(numpy)) - {"bool"}):
        f, g = getattr(fnp, name), getattr(numpy, name)
        if name.startswith("_") or not callable(f) or isinstance(f, (fnp.ufunc, type)) or not callable(g) or isinstance(g, type):
            continue
        try:
            theirs = inspect.signature(g).parameters
        except ValueError:          # written in C
            continue
        yield pytest.param(name, inspect.signature(f).parameters, theirs, id=name)


@pytest.mark.parametrize("name, ours, theirs", shared())
def test_defaults_are_those_of_numpy(name, ours, theirs):
    for argument, p in ours.items():
        if argument in theirs and (name, argument) not in OTHERWISE:
            default = theirs[argument].default
            # NumPy's "<no value>": left out, as None, False or all elements are.
            assert p.default == default or "no value" in str(default) and p.default in (None, False, True, 0), argument

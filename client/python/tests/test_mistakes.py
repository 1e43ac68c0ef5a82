"""What who is new to it tries: each is as in NumPy, or one sentence that says which call, which argument and what to do."""
import copy
import datetime
import fractions
import pickle

import numpy as np
import pytest

import fusion as xp


@pytest.fixture
def x():
    return xp.asarray([3.0, 1.0, 2.0])


# ---- other things than arrays and numbers beside an array ----


class Adds:
    def __radd__(self, other):
        return "added"


@pytest.mark.parametrize("other", ["text", None, {}, object(), fractions.Fraction(1, 2), b"a", datetime.timedelta(1)])
def test_an_array_in_place_with_what_is_none_stays_an_array(x, other):
    kept = x
    for operator in ("+", "-", "*", "/", "//", "%", "**", "@"):
        if operator == "**" and isinstance(other, fractions.Fraction):
            continue        # which makes a number of itself
        with pytest.raises(TypeError):
            exec(f"x {operator}= other", {"x": x, "other": other})
    with pytest.raises(TypeError, match="add: an operand is"):
        x += other
    assert x is kept and x.tolist() == [3, 1, 2]


def test_what_knows_how_to_be_added_to_an_array_is(x):
    x += Adds()
    assert x == "added"


@pytest.mark.parametrize("other", [[3.0, 1.0, 2.0], (3.0, 1.0, 2.0), [np.float32(3), 1, 2.0], [True, False, True], [4, 5, 6]])
def test_a_list_beside_an_array_is_one(x, other):
    theirs, numpys = np.asarray(x), np.asarray(other)
    for operator in ("+", "-", "*", "==", "!=", "<", "<=", ">", ">=") + (() if False in other else ("/", "//", "%", "**")):
        ours = eval(f"x {operator} other", {"x": x, "other": other})
        assert np.allclose(np.asarray(ours), eval(f"x {operator} other", {"x": theirs, "other": numpys})) and isinstance(ours, xp.Array), operator
        ours = eval(f"other {operator} x", {"x": x, "other": other})
        assert np.allclose(np.asarray(ours), eval(f"other {operator} x", {"x": theirs, "other": numpys})) and isinstance(ours, xp.Array), operator
    x += other
    assert np.array_equal(np.asarray(x), theirs + numpys)
    assert xp.asarray([1, 2]).dtype == (xp.asarray([1, 2]) + [1, 2]).dtype == xp.int64
    assert (xp.asarray([1, 2]) @ [3, 4]).item() == 11 and xp.maximum(x, [[0.0], [9.0]]).shape == (2, 3)
    assert (x == None) is False and (x != None) is True      # noqa: E711
    assert x in [x] and "a" not in [x]


@pytest.mark.parametrize("other", [["a", 1, 2], [None, 1, 2], [{}, 1, 2], [1 + 2j, 1, 2], [[1], [1, 2]]])
def test_a_list_of_what_is_no_number_is_refused(x, other):
    for compare in (lambda: x == other, lambda: x != other, lambda: x < other, lambda: x + other, lambda: other + x):
        with pytest.raises((TypeError, ValueError), match=r"asarray"):
            compare()
    with pytest.raises(xp.ShapeError):
        x + [1, 2]


def test_truths_add_up_to_truths():
    a, b = xp.asarray([True, True, False, False]), xp.asarray([True, False, True, False])
    for f in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a + True, lambda a, b: False * b, lambda a, b: a + [True] * 4):
        ours, theirs = f(a, b), f(np.asarray(a), np.asarray(b))
        assert ours.dtype == xp.bool and ours.tolist() == theirs.tolist()
    assert xp.maximum(a, b).tolist() == [True, True, True, False] and xp.minimum(a, b).dtype == xp.bool
    a += xp.asarray([False, False, True, False])
    assert a.dtype == xp.bool and a.tolist() == [True, True, True, False]
    with pytest.raises(xp.DTypeError, match="sub: takes numbers, not bool"):
        a - b


@pytest.mark.parametrize("made", [np.datetime64("2020-01-01"), np.timedelta64(3, "D"), np.asarray(["2020-01-01"], dtype="M8[D]")])
def test_dates_are_no_bytes(made):
    with pytest.raises(xp.DTypeError, match=r"asarray: no element type of fusion holds .*view\('int64'\)"):
        xp.asarray(made)


# ---- what NumPy's functions call ----


@pytest.mark.parametrize("function", [np.sum, np.prod, np.mean, np.var, np.std, np.max, np.min, np.any])
def test_functions_of_numpy_that_call_methods(x, function):
    made = function(x)
    assert isinstance(made, xp.Array) and np.allclose(float(made), function(np.asarray(x)))
    with pytest.raises(TypeError, match=f"{function.__name__.removeprefix('a')}: out is no fusion array"):
        function(x, out=np.zeros(()))


def test_names_of_numpy_for_what_spreads_are_taken(x):
    assert np.allclose(float(x.std(ddof=1)), np.std(np.asarray(x), ddof=1)) and np.allclose(float(np.var(x, ddof=1)), np.var(np.asarray(x), ddof=1))


@pytest.mark.parametrize("name", sorted(xp._OTHERS))
def test_names_of_others_lead_to_ours(name):
    with pytest.raises(AttributeError, match=f"see fusion.{xp._OTHERS[name]}$"):
        getattr(xp, name)
    assert hasattr(xp, xp._OTHERS[name]) and not hasattr(xp, name)


# ---- what a call is given ----


@pytest.mark.parametrize("call, said", [
    (lambda x: xp.zeros("a"), "zeros: the shape is 'a'"), (lambda x: xp.zeros(3.0), "zeros: the shape is 3.0"), (lambda x: xp.ones((2, 3.0)), "ones: the shape is"),
    (lambda x: xp.full(None, 1), "full: the shape is None"), (lambda x: xp.concat([x, 1]), "concat: not a fusion array, but int"),
    (lambda x: xp.stack([x, [1]]), "stack: not a fusion array, but list"), (lambda x: xp.jit(3), "jit: int is not a function"), (lambda x: xp.grad(x), "grad: Array is not a function"),
    (lambda x: xp.vjp(None, x), "vjp: NoneType is not a function"), (lambda x: xp.grad(xp.sum, argnums=1)(x), "grad: argnums names argument 1, of 1"),
    (lambda x: xp.full_like(x, "a"), "full_like: fill_value is 'a'"), (lambda x: xp.full(3, "a"), "full: fill_value is 'a'"),
    (lambda x: xp.benchmark_pattern("linear", "a"), "benchmark_pattern: size is 'a', not an integer"), (lambda x: xp.linspace(0, 1, 2.5), "linspace: num is 2.5"),
    (lambda x: xp.benchmark_pattern("linear", seconds="a"), "benchmark_pattern: seconds is 'a', not a number"), (lambda x: f"{x:.2f}", r"format: .*\(3,\)"), (lambda x: x.__delitem__(0), "del: an array keeps its elements"),
])
def test_what_is_wrong_is_told_with_the_call(x, call, said):
    with pytest.raises(TypeError, match=said):
        call(x)


@pytest.mark.parametrize("call, said", [
    (lambda m: m @ xp.zeros(4), r"matmul of f64\[2,3\] and f64\[4\]: the last axis of a and the axis of b differ"), (lambda m: xp.zeros(4) @ m, r"matmul of f64\[4\] and f64\[2,3\]"),
    (lambda m: xp.zeros(4) @ xp.zeros(3), r"matmul of f64\[4\] and f64\[3\]"), (lambda m: xp.zeros(()) @ xp.zeros(3), r"matmul of f64\[\] and f64\[3\]: a and b need at least 1"),
    (lambda m: xp.stack([m, xp.zeros((2, 4))]), r"stack: array 0 \(f64\[2,3\]\) and array 1 \(f64\[2,4\]\) are of different shapes"),
    (lambda m: xp.stack([m, m, xp.zeros(3)]), r"array 2 \(f64\[3\]\) are of different ranks"),
    (lambda m: xp.concat([m, xp.zeros(3)]), r"array 0 \(f64\[2,3\]\) and array 1 \(f64\[3\]\) are of 2 and 1 dimensions"),
    (lambda m: xp.concat([m] * 40 + [xp.zeros((2, 4))]), r"array 0 \(f64\[2,3\]\) and array 40 \(f64\[2,4\]\) are of different extents on another axis"),
])
def test_shapes_are_told_as_they_were_given(call, said):
    with pytest.raises(xp.ShapeError, match=said):
        call(xp.zeros((2, 3)))
    assert xp.concat([xp.zeros((2, 3))] * 40 + [xp.zeros((1, 3))]).shape == (81, 3)


def test_one_value_may_be_an_array(x):
    assert xp.full_like(x, xp.asarray(2.5)).tolist() == [2.5, 2.5, 2.5] and xp.full_like(x, xp.asarray([1.5, 2, 3]), dtype=float).tolist() == [1.5, 2, 3]
    with pytest.raises(xp.ShapeError, match="full_like: .*does not broadcast"):
        xp.full_like(x, xp.ones(2))
    with pytest.raises(ValueError, match="linspace: num is -1, below 0"):
        xp.linspace(0, 1, -1)


def test_elements_are_not_deleted(x):
    with pytest.raises(TypeError, match="del:"):
        del x[0]
    assert x.tolist() == [3, 1, 2]


# ---- numbers asked for while a function is recorded ----


@pytest.mark.parametrize("ask", [float, bool, lambda a: a.item(), lambda a: a.tolist(), np.asarray, repr, memoryview])
def test_an_argument_has_no_value_while_a_function_is_recorded(ask):
    """It would be that of the first call, in all calls."""
    one = xp.asarray(1.0)
    recorded = xp.jit(lambda a: a * 2 if ask(a) is not None else a)
    with pytest.raises(xp.StateError, match=r"where\(\).*test_mistakes.py"):
        recorded(one)
    assert ask(one) is not None and xp.jit(lambda a: a * 2)(one).item() == 2


def test_what_is_no_argument_has_a_value_while_a_function_is_recorded():
    outer = xp.asarray(3.0)
    assert xp.jit(lambda a: a * float(outer))(xp.asarray(2.0)).item() == 6


def accumulate(outer, a):
    outer += a


def assign(outer, a):
    outer[...] = a * 2


def assign_element(outer, a):
    outer[0] = a[0]


def write_to_a_view(outer, a):
    outer[1:] += 1


def write_to_a_row(outer, a):
    v = xp.reshape(outer, (1, 3))
    v[0] = a


def write_to_what_a_view_shows(outer, a):
    SHOWN[0] *= 2


SHOWN = [None]


@pytest.mark.parametrize("write", [accumulate, assign, assign_element, write_to_a_view, write_to_a_row, write_to_what_a_view_shows])
def test_an_array_from_outside_keeps_its_values_while_a_function_is_recorded(write):
    outer = xp.asarray([1.0, 2.0, 3.0])
    seen = SHOWN[0] = outer[:2]

    def f(a):
        write(outer, a)
        return a + outer
    with pytest.raises(xp.StateError, match=": an array from outside cannot be written"):
        xp.jit(f)(xp.ones(3))
    assert outer.tolist() == [1, 2, 3] and seen.tolist() == [1, 2]
    outer[0] = 5
    assert outer.tolist() == [5, 2, 3] and seen.tolist() == [5, 2]


def test_what_a_recorded_function_made_it_may_write():
    def f(a):
        a += 1
        y = xp.zeros(3)
        y[1:] = a[1:]
        v = y.T if y.ndim == 2 else y[:1]
        v -= 1
        copied = outer.copy()
        copied *= 2
        return y + copied, a
    outer, x = xp.ones(3), xp.asarray([1.0, 2.0, 3.0])
    for _ in range(2):
        y, a = xp.jit(f)(x)
        assert y.tolist() == [1, 5, 6] and a.tolist() == [2, 3, 4] and x.tolist() == [1, 2, 3] and outer.tolist() == [1, 1, 1]


# ---- what programs do with any object ----


def test_arrays_in_containers(x):
    assert copy.deepcopy({"a": [x, x]})["a"][0].tolist() == [3, 1, 2]
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1] and twice[0] is not x
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(x, protocol)).tolist() == [3, 1, 2]
    assert {"a": x} == {"a": x} and [x] == [x]
    for call in (lambda: hash(x), lambda: {x}, lambda: {"a": x} == {"a": x + 0}, lambda: sorted([x, x]), lambda: 1 < x < 3, lambda: x.index):
        with pytest.raises((TypeError, AttributeError)):
            call()
    assert [float(v) for v in sorted(x)] == [1, 2, 3] and float(sum(x)) == 6 and float(max(x)) == 3


def test_arrays_in_numpy(x):
    assert np.array(x).tolist() == [3, 1, 2] and np.array([x, x]).shape == (2, 3) and np.array([x[0], x[1]]).tolist() == [3, 1]
    assert np.concatenate([x, x]).shape == (6,) and np.allclose(x, x) and np.array(x, dtype=np.float32).dtype == np.float32
    y = np.zeros(3)
    y[:] = x
    y[0] = x[1]
    assert y.tolist() == [1, 1, 2]
    assert (np.float32(2) * x).tolist() == [6, 2, 4] == (x * np.int8(2)).tolist()
    written = np.array(x)
    written[0] = 5
    assert x.tolist() == [3, 1, 2]
    with pytest.raises(ValueError):
        np.asarray(x)[0] = 5


def test_a_default_argument_is_one_array():
    def f(x, kept=xp.zeros(3)):
        kept += x
        return kept
    one = xp.ones(3)
    f(one)
    assert f(one).tolist() == [2, 2, 2]


def test_what_is_large_is_cut_where_it_is_printed():
    text = str(xp.zeros((10000, 1000)))
    assert len(text) < 1000 and "..." in text

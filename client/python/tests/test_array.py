"""Arrays: what goes in comes out, operators by the standard's rules of types, errors, conversions. NumPy is the oracle."""
import numpy as np
import pytest

import fusion as xp

REALS = [xp.float32, xp.float64]
TYPES = [xp.bool, xp.int8, xp.uint8, xp.int16, xp.uint16, xp.int32, xp.uint32, xp.int64, xp.uint64, xp.float16, *REALS]


def of(array):
    """By NumPy's buffer protocol."""
    return np.asarray(array)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_numpy_goes_in_and_comes_out(dtype):
    data = np.arange(12).reshape(3, 4).astype(dtype.name)
    x = xp.asarray(data)
    assert x.dtype is dtype and x.shape == (3, 4) and x.size == 12 and x.ndim == 2
    back = of(x)
    assert back.dtype == data.dtype and np.array_equal(back, data)
    assert x.tolist() == data.tolist()
    assert np.array_equal(of(xp.asarray(data.T)), data.T)


def test_lists_become_arrays():
    assert xp.asarray([[1, 2], [3, 4]]).dtype is xp.int64
    assert xp.asarray([True, False]).dtype is xp.bool
    assert xp.asarray([1, 2.5]).dtype is xp.float64
    assert xp.asarray([2**63]).tolist() == [2**63]
    assert xp.asarray(3, dtype=xp.int8).dtype is xp.int8
    assert xp.asarray([1.5, 2], dtype="float16").tolist() == [1.5, 2.0]
    assert xp.asarray([]).shape == (0,)
    with pytest.raises(ValueError):
        xp.asarray([[1, 2], [3]])
    with pytest.raises(OverflowError):
        xp.asarray([300], dtype=xp.uint8)


def test_numpy_reads_the_arrays_own_memory():
    x = xp.asarray([1.0, 2.0, 3.0]) * 2
    a, b = of(x), of(x)
    assert a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    assert not a.flags.writeable
    x += 1
    assert a.tolist() == [2.0, 4.0, 6.0] and of(x).tolist() == [3.0, 5.0, 7.0]


def test_numbers_take_the_type_of_the_array():
    f, i, b = xp.ones(2, dtype=xp.float32), xp.ones(2, dtype=xp.int8), xp.ones(2, dtype=xp.bool)
    assert (f + 1).dtype is xp.float32 and (1.5 * f).dtype is xp.float32
    assert (i + 1).dtype is xp.int8 and (i + 1.5).dtype is xp.float64
    assert (b & True).dtype is xp.bool and (2 - i).tolist() == [1, 1]
    with pytest.raises(OverflowError):
        i + 200
    with pytest.raises(TypeError):
        f + 1j
    with pytest.raises(TypeError):
        b - b


@pytest.mark.parametrize("a", TYPES[1:9], ids=str)
def test_integers_meet_as_in_numpy(a):
    for b in TYPES[1:9]:
        if {a, b} & {xp.uint64} and "i" in (a.kind, b.kind):
            continue
        want = np.result_type(a.name, b.name)
        assert xp.result_type(a, b).name == want and (xp.ones(1, dtype=a) + xp.ones(1, dtype=b)).dtype.name == want


def test_operators_as_numpy():
    a, b = np.array([[7.0, -3.0], [2.5, 4.0]]), np.array([2.0, -5.0])
    x, y = xp.asarray(a), xp.asarray(b)
    for f in (lambda p, q: p + q * p - q / p, lambda p, q: p // q + p % q, lambda p, q: abs(p) ** q, lambda p, q: -p @ q,
              lambda p, q: (p < q) | (p >= 2 * q) ^ (p == q), lambda p, q: 3 - p / 2):
        assert np.allclose(of(f(x, y)), f(a, b), rtol=1e-15)
    i = np.array([5, -6, 7])
    z = xp.asarray(i)
    for f in (lambda p: ~p, lambda p: p << 2, lambda p: p >> 1, lambda p: p & 6, lambda p: p | 9, lambda p: p ^ 3, lambda p: 100 // p):
        assert np.array_equal(of(f(z)), f(i))


def test_in_place_keeps_the_object_and_its_type():
    x = xp.asarray([1, 2, 3], dtype=xp.int16)
    y = x
    x += xp.asarray([1, 1, 1], dtype=xp.int32)
    assert x is y and y.dtype is xp.int16 and y.tolist() == [2, 3, 4]
    with pytest.raises(TypeError):
        x += 1.5
    with pytest.raises(ValueError):
        x += xp.ones((2, 3), dtype=xp.int16)
    assert y.tolist() == [2, 3, 4]


def test_conversions_compute():
    x = xp.asarray([1.5, 2.0]) * 2
    assert float(x[0]) == 3.0 and int(x[1]) == 4 and bool(x[0] == 3) and x[1].item() == 4.0
    assert [10, 20, 30][xp.asarray(1)] == 20
    with pytest.raises(TypeError):
        float(x)
    with pytest.raises(TypeError):
        [1, 2][x[0]]
    assert 3.0 in x and 5.0 not in x and len(x) == 2
    assert [float(v) for v in x] == [3.0, 4.0]


def test_scalars_of_numpy_are_numbers_and_its_arrays_are_operands():
    x = xp.asarray([1.0, 2.0], dtype=xp.float32)
    for two in (np.float32(2), np.int64(2), np.asarray(2.0), np.float64(2)):
        for y in (x * two, two * x, xp.multiply(x, two), x + x * (two - 1), xp.where(x > 0, x * two, two)):
            assert y.dtype is xp.float32 and y.tolist() == [2.0, 4.0]
    x **= np.float32(2)
    assert x.tolist() == [1.0, 4.0] and (x > np.int8(1)).tolist() == [False, True] and xp.clip(x, np.float32(2)).tolist() == [2.0, 4.0]
    assert xp.full(np.int64(2), np.int64(3)).tolist() == [3, 3] and xp.arange(np.int64(3)).dtype is xp.int64
    assert (x + np.ones(2)).tolist() == (np.ones(2) + x).tolist() == [2.0, 5.0]
    with pytest.raises(TypeError, match="complex"):
        x * np.complex64(1)
    with pytest.raises(TypeError, match="obj, of str, is no number"):
        xp.asarray("abc")


def test_repr_shows_values_type_shape_and_device():
    text = repr(xp.asarray([[1.0, 2.5], [3.0, 4.0]], dtype=xp.float32))
    assert text.split() == [*"fusion.array([[ 1., 2.5], [ 3., 4.]],".split(), "dtype=float32,", "shape=(2,", "2),", *f"device={xp.ones(1).device.name!r})".split()]
    assert str(xp.asarray([1e20, -0.5])) == "[1e+20  -0.5]"
    assert "shape=(100, 100)" in repr(xp.zeros((100, 100))) and "..." in str(xp.zeros(2000))
    assert str(xp.asarray(True)) == "True" and repr(xp.asarray([])).startswith("fusion.array([]")


def test_errors_are_of_the_right_class_and_name_the_users_line():
    with pytest.raises(ValueError) as e:
        xp.ones((2, 3)) + xp.ones(4)                                          # this line
    with open(__file__, encoding="utf-8") as file:
        line = next(n for n, text in enumerate(file, 1) if text.rstrip().endswith("# this" + " line"))
    assert "add" in str(e.value) and "[2,3]" in str(e.value) and f"{__file__}:{line}" in str(e.value)
    assert isinstance(e.value, xp.ShapeError) and isinstance(e.value, xp.FusionError)
    with pytest.raises(TypeError) as e:
        xp.sum("no array")
    assert "sum" in str(e.value)
    with pytest.raises(xp.ShapeError) as e:
        xp.concat([xp.ones((2, 3)), xp.ones((2, 4))])
    assert __file__ in str(e.value)
    with pytest.raises(AttributeError, match="complex"):
        xp.complex64
    with pytest.raises(TypeError, match="complex"):
        xp.asarray(1j)


def test_an_error_that_the_daemon_finds_names_the_line_too(run_python):
    status, text = run_python("import fusion as xp\nx = xp.ones(4)\ny = xp.log(x - 2)\nz = y + 1\nprint(z)", FUSION_DEBUG="1")
    assert status and "NonFiniteError" in text and "<string>:3" in text


def test_pickling_and_copies():
    import copy
    import pickle
    for dtype in (xp.bool, xp.int16, xp.uint64, xp.float16, xp.bfloat16, xp.float32, xp.float64):
        x = xp.asarray([[1, 0], [1, 1]], dtype=xp.float32).astype(dtype)
        y = pickle.loads(pickle.dumps(x))
        assert y.dtype is dtype and y.shape == x.shape and y.tolist() == x.tolist()
    y = copy.copy(x)
    x += 1
    assert y.tolist() == [[1, 0], [1, 1]]

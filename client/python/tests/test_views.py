"""Indexing and assignment, and arrays that share memory: each program runs on NumPy and on fusion, to the same values."""
import numpy as np
import pytest

import fusion as xp

SHAPE = (4, 5, 3)


def data():
    return np.arange(60.0).reshape(SHAPE)


def same(program):
    """Runs program(library, x) on both; what it returns, or x, must agree."""
    a = data()
    x = xp.asarray(a)
    want, got = program(np, a), program(xp, x)
    want, got = (a if want is None else want), (x if got is None else got)
    got = np.asarray(got)
    assert got.shape == np.shape(want) and np.array_equal(got, want), (got, want)


KEYS = [
    0, -1, (1, 2), (1, 2, -3), slice(None), slice(1, 3), slice(None, None, -1), slice(3, 0, -2), slice(2, 2), Ellipsis, None,
    (Ellipsis, 0), (slice(None), None, 1), (None, Ellipsis, None), (0, Ellipsis, slice(1, None)), (slice(-2, None), slice(None, None, 2)),
    (slice(None, None, 3), slice(4, None, -2), -1), [0, 2], [-1, 0, 0], ([0, 1], [2, 3]), ([[0, 1], [2, 3]], 1), (slice(None), [0, 4]),
    (slice(None), [0, 4], [1, 2]), ([0, 1], slice(None), [1, 2]), (0, slice(None), [2, 0]), (slice(1, 3), [1, 1], None), (Ellipsis, [0, 2]),
    (slice(None), [[0], [1]], [[0, 2]]),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading_as_numpy(key):
    same(lambda lib, x: x[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assigning_a_number_as_numpy(key):
    def program(lib, x):
        x[key] = -1.0
    same(program)


@pytest.mark.parametrize("key", KEYS[::2], ids=str)
def test_assigning_an_array_as_numpy(key):
    def program(lib, x):
        x[key] = lib.asarray(100.0 + np.arange(np.size(data()[key])).reshape(np.shape(data()[key])))
    same(program)


def test_masks_as_numpy():
    same(lambda lib, x: x[x > 30])
    same(lambda lib, x: x[x[:, :, 0] > 30])
    same(lambda lib, x: x[:, x[0, :, 0] > 5])
    same(lambda lib, x: x[lib.asarray([True, False, False, True]), 1])
    same(lambda lib, x: x[x > 1000])
    same(lambda lib, x: x[lib.asarray(np.zeros((0, 5), dtype=bool))])

    def number(lib, x):
        x[x > 30] = 0.0
    same(number)

    def values(lib, x):
        x[x % 7 == 0] = lib.asarray(np.arange(9.0))
    same(values)

    def rows(lib, x):
        x[lib.asarray([True, False, False, True])] = lib.asarray(np.arange(15.0).reshape(5, 3))
    same(rows)

    def beside(lib, x):
        x[:, x[0, :, 0] > 5] = 3.0
    same(beside)


def test_arrays_of_the_device_index():
    x, i = xp.asarray(data()), xp.asarray([3, 0])
    assert np.array_equal(np.asarray(x[i]), data()[[3, 0]])
    assert np.array_equal(np.asarray(x[i, 1]), data()[[3, 0], 1])
    x[i] = xp.zeros((5, 3))
    assert float(xp.sum(x[0])) == 0


def test_what_is_out_of_bounds_is_refused():
    x = xp.asarray(data())
    for key in (4, -5, (0, 5), (0, 0, 0, 0), [4], ([0], [5]), 1.5, "a", (Ellipsis, Ellipsis)):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(ValueError):
        x[0] = xp.ones((2, 2))
    with pytest.raises(IndexError):
        x[xp.asarray([True, False])]
    assert np.array_equal(np.asarray(x), data())


WRITES = [
    lambda x: x.__setitem__(slice(1, 3), -1.0),
    lambda x: x.__setitem__((Ellipsis, 1), -2.0),
    lambda x: x.__setitem__((slice(None, None, 2), slice(None, None, -2)), -3.0),
    lambda x: x.__iadd__(100.0),
]
VIEWS = [
    lambda lib, x: x[1:3],
    lambda lib, x: x[::-1, 1],
    lambda lib, x: x.reshape((12, 5)),
    lambda lib, x: lib.squeeze(x[:, :1], axis=1),
    lambda lib, x: x.T if x.ndim == 2 else (x.mT if lib is xp else np.swapaxes(x, -1, -2)),
    lambda lib, x: lib.expand_dims(x, axis=1)[2],
    lambda lib, x: x[1:][::2][..., 1:],
]


@pytest.mark.parametrize("make", range(len(VIEWS)))
def test_writes_to_an_array_are_seen_in_its_views(make):
    def program(lib, x):
        v = VIEWS[make](lib, x)
        for write in WRITES:
            write(x)
        return v
    same(program)


@pytest.mark.parametrize("make", range(len(VIEWS)))
def test_writes_to_a_view_are_seen_in_the_array(make):
    def program(lib, x):
        v = VIEWS[make](lib, x)
        other = x[2]
        v += 0.5
        v[..., :2] = -7.0
        return lib.concat([x.reshape(60), other.reshape(15)]) if lib is xp else np.concatenate([x.reshape(60), other.reshape(15)])
    same(program)


def test_views_outlive_their_array():
    def program(lib, x):
        y = x + 0
        a, b, c = y[1:], y[:3], y[::2, 1]
        del y
        a[0] = -1.0
        b *= 2
        return [np.asarray(v) for v in (a, b, c)]
    want, got = program(np, data()), program(xp, xp.asarray(data()))
    assert all(np.array_equal(w, g) for w, g in zip(want, got))


def test_chained_indexing_writes_through():
    def program(lib, x):
        x[1][2][0] = 99.0
        x[0, 1:][::2] += 1000.0
        for row in x[3]:
            row[0] = 5.0
    same(program)


def test_copies_share_nothing():
    x = xp.asarray(data())
    y, z = x.copy(), xp.reshape(x, (60,), copy=True)
    x[...] = 0.0
    assert np.array_equal(np.asarray(y), data()) and np.array_equal(np.asarray(z), data().reshape(60))


# ---- found by tests/aliasing: random programs ----


@pytest.mark.parametrize("make", [lambda x: x.T.reshape(-1), lambda x: x[:, ::2].reshape(-1), lambda x: x.T.ravel(), lambda x: x.ravel(), lambda x: x[:, 1].ravel(),
                                  lambda x: x[:, 1].reshape(1, -1), lambda x: x[::-1, ::-1].reshape(-1), lambda x: x[::-1, ::-1].ravel(), lambda x: x.T.reshape(5, 2, 2),
                                  lambda x: x[1:].reshape(3, 5, 1), lambda x: x[None, :, None].reshape(2, 2, 5), lambda x: x[:, :0].reshape(0, 7), lambda x: x[1].reshape(())])
@pytest.mark.parametrize("shape", [(4, 5), (4, 1)])
def test_another_shape_is_a_view_where_numpy_has_one(make, shape):
    def program(lib, x):
        x = lib.asarray(np.arange(float(np.prod(shape))).reshape(shape))
        try:
            v = make(x)
        except (ValueError, IndexError):
            return x
        x += 100
        return v
    same(program)


def test_a_copy_that_is_forbidden_is_refused():
    x = xp.asarray(np.arange(6.0).reshape(2, 3))
    assert xp.reshape(x, (3, 2), copy=False).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="copy=False"):
        xp.reshape(x.T, (6,), copy=False)


def test_what_was_broadcast_is_a_view_for_reading():
    def program(lib, x):
        wide, (first, _) = lib.broadcast_to(x[0], (4, 5, 3)), lib.broadcast_arrays(x[:, :1], x)
        rows = wide[1:, 2]
        x *= 2
        for part in (wide, rows):
            with pytest.raises(ValueError, match="read"):
                part[0] = 1
            with pytest.raises(ValueError, match="read"):
                part += 1
        wide.copy()[...] = 5
        return [np.asarray(v).tolist() for v in (wide, first, rows)]
    assert program(np, data()) == program(xp, xp.asarray(data()))


@pytest.mark.parametrize("make", [lambda lib, x: x.sum(axis=()), lambda lib, x: x.prod(axis=()), lambda lib, x: x.max(axis=()), lambda lib, x: +x,
                                  lambda lib, x: lib.clip(x, None, 1000), lambda lib, x: lib.roll(x, 0), lambda lib, x: lib.tile(x, (1, 1)), lambda lib, x: lib.repeat(x, 1, axis=0),
                                  lambda lib, x: x.astype(x.dtype), lambda lib, x: lib.flip(x[0, 0])])
def test_what_nothing_was_done_to_is_another_array(make):
    def program(lib, x):
        x = lib.asarray(np.arange(12).reshape(3, 4))
        made = make(lib, x)
        x += 1
        return made
    same(program)


def test_dots_that_stand_for_no_axis_part_arrays():
    x = data()
    for key in ((0, slice(None), ..., [0]), (slice(None), -1, ..., [0, 1]), ([0, 1], ..., slice(None), 0), (..., 0, slice(None), [1])):
        same(lambda lib, x: x[key])
    assert xp.asarray(x)[:, -1, ..., [0, 1]].shape == (2, 4)


@pytest.mark.parametrize("i, j", [([0], [7]), ([1], [-6]), ([3], [0]), ([-4], [1]), ([0, 9], [4, 0])])
def test_an_index_beyond_one_of_several_axes_hits_no_other_element(i, j):
    i, j = xp.asarray(i), xp.asarray(j)
    x = xp.reshape(xp.arange(1.0, 13.0), (3, 4))
    before = x.tolist()
    assert x[i, j].tolist() == [0.0] * i.size
    x[i, j] = 99
    x[i, j] += 1
    assert x.tolist() == before
    with xp.config(debug=True), pytest.raises(xp.FusionError, match="is beyond axis 0 of f64"):
        x[i, j].wait()

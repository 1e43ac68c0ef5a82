"""The functions of the standard against NumPy, on few shapes: what is compiled costs most. The standard's own suite is run by hand."""
import numpy as np
import pytest

import fusion as xp


def close(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and np.allclose(got, want, rtol=1e-12, atol=1e-12, equal_nan=True), (got, want)


A = np.array([[3.0, -1.0, 2.5, 0.0], [7.0, 3.0, -4.0, 2.5], [0.5, 0.5, 9.0, -1.0]])
X = xp.asarray(A)
I = np.array([[3, 1, 3], [0, 2, 1]])
J = xp.asarray(I)


def test_every_name_of_the_standard_is_there():
    names = """abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
        bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_shapes
        broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide e
        empty empty_like equal exp expand_dims expm1 eye finfo flip float32 float64 floor floor_divide from_dlpack full full_like
        greater greater_equal hypot iinfo imag inf int16 int32 int64 int8 isdtype isfinite isin isinf isnan less less_equal
        linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum
        mean meshgrid min minimum moveaxis multiply nan negative newaxis nextafter nonzero not_equal ones ones_like permute_dims
        pi positive pow prod real reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh
        sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc uint16 uint32
        uint64 uint8 unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like
        __array_namespace_info__ __array_api_version__""".split()
    assert [n for n in names if not hasattr(xp, n)] == []
    assert X.__array_namespace__() is xp and xp.__array_namespace_info__().default_dtypes()["real floating"] is xp.float64


def test_statistics():
    for axis in (None, 0, (0, 1)):
        for name in ("sum", "prod", "max", "min", "mean", "std", "var", "any", "all"):
            close(getattr(xp, name)(X, axis=axis), getattr(np, name)(A, axis=axis))
    close(xp.var(X, axis=1, correction=1, keepdims=True), np.var(A, axis=1, ddof=1, keepdims=True))
    assert xp.sum(J).dtype is xp.int64 and xp.sum(J, dtype=xp.float32).dtype is xp.float32
    close(xp.cumulative_sum(X, axis=1, include_initial=True), np.concatenate([np.zeros((3, 1)), np.cumsum(A, axis=1)], axis=1))
    close(xp.diff(X, axis=0), np.diff(A, axis=0))


def test_searching_sorting_and_sets():
    close(xp.argmax(X, axis=1), np.argmax(A, axis=1))
    close(xp.argmin(X), np.argmin(A))
    close(xp.sort(X, axis=0, descending=True), -np.sort(-A, axis=0))
    close(xp.argsort(X, axis=1), np.argsort(A, axis=1, kind="stable"))
    close(xp.count_nonzero(X, axis=0), np.count_nonzero(A, axis=0))
    for got, want in zip(xp.nonzero(X), np.nonzero(A)):
        close(got, want)
    v = np.sort(A.ravel())
    for side in ("left", "right"):
        close(xp.searchsorted(xp.asarray(v), X, side=side), np.searchsorted(v, A, side=side))
    values, places, inverse, counts = xp.unique_all(J)
    want = np.unique(I, return_index=True, return_inverse=True, return_counts=True)
    close(values, want[0])
    close(places, want[1])
    close(inverse, want[2].reshape(I.shape))
    close(counts, want[3])
    close(xp.isin(J, xp.asarray([1, 2])), np.isin(I, [1, 2]))
    close(xp.isin(J, xp.asarray([1, 2]), invert=True), np.isin(I, [1, 2], invert=True))
    close(xp.where(X > 0, X, 0.0), np.where(A > 0, A, 0.0))


def test_moving():
    close(xp.concat([X, X], axis=1), np.concatenate([A, A], axis=1))
    close(xp.concat([X, X], axis=None), np.concatenate([A, A], axis=None))
    close(xp.stack([X, X], axis=-1), np.stack([A, A], axis=-1))
    close(xp.flip(X, axis=1), np.flip(A, axis=1))
    close(xp.roll(X, (1, 2), axis=(0, 1)), np.roll(A, (1, 2), axis=(0, 1)))
    close(xp.roll(X, 3), np.roll(A, 3))
    close(xp.tile(X, (2, 1, 2)), np.tile(A, (2, 1, 2)))
    close(xp.repeat(X, 2, axis=0), np.repeat(A, 2, axis=0))
    close(xp.repeat(X, xp.asarray([2, 0, 1]), axis=0), np.repeat(A, [2, 0, 1], axis=0))
    close(xp.moveaxis(xp.reshape(X, (3, 2, 2)), 0, -1), np.moveaxis(A.reshape(3, 2, 2), 0, -1))
    close(xp.broadcast_to(X[0], (2, 4)), np.broadcast_to(A[0], (2, 4)))
    close(xp.take(X, xp.asarray([2, 0]), axis=0), A[[2, 0]])
    close(xp.take_along_axis(X, xp.argsort(X, axis=0), axis=0), np.sort(A, axis=0))
    close(xp.tril(X, k=1), np.tril(A, 1))
    close(xp.triu(X), np.triu(A))
    for got, want in zip(xp.meshgrid(X[0], X[1], indexing="xy"), np.meshgrid(A[0], A[1])):
        close(got, want)


def test_making():
    close(xp.arange(2, 20, 3), np.arange(2, 20, 3))
    close(xp.arange(5, -5, -2.5), np.arange(5, -5, -2.5))
    close(xp.linspace(-1, 2, 7), np.linspace(-1, 2, 7))
    close(xp.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False))
    close(xp.eye(3, 4, k=1), np.eye(3, 4, k=1))
    close(xp.full((2, 2), 7), np.full((2, 2), 7))
    assert xp.zeros(3).dtype is xp.float64 and xp.ones_like(J).dtype is xp.int64


def test_products():
    close(X @ X.T, A @ A.T)
    close(xp.tensordot(X, X, axes=((0,), (0,))), np.tensordot(A, A, axes=((0,), (0,))))
    close(xp.vecdot(X, X), np.sum(A * A, axis=-1))
    close(J @ J.T, I @ I.T)


def test_the_rest_of_the_elementwise_functions():
    close(xp.clip(X, -1, 2), np.clip(A, -1, 2))
    close(xp.clip(X, max=xp.asarray([1.0, 2.0, 3.0, 4.0])), np.clip(A, None, [1, 2, 3, 4]))
    close(xp.signbit(X * 0.0), np.signbit(A * 0.0))
    assert np.array_equal(np.asarray(xp.nextafter(X, xp.asarray(np.inf))), np.nextafter(A, np.inf))
    close(xp.divide(J, 2), I / 2)
    close(xp.round(X), np.round(A))
    with pytest.raises(TypeError):
        xp.imag(X)


def test_types():
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.float64, xp.float32) and not xp.can_cast(xp.int32, xp.uint32)
    assert xp.isdtype(xp.uint8, ("bool", "integral")) and not xp.isdtype(xp.float32, "integral")
    for name in ("float32", "float64"):
        a, b = xp.finfo(getattr(xp, name)), np.finfo(name)
        assert (a.eps, a.max, a.min, a.smallest_normal, a.bits) == (b.eps, b.max, b.min, b.tiny, b.bits)
    assert xp.iinfo(xp.int8)[:3] == (8, 127, -128)
    assert xp.result_type(xp.int32, 1.5) is xp.float64 and xp.result_type(xp.float32, 1) is xp.float32

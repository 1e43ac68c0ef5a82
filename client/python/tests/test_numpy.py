"""fusion.numpy against NumPy: the same calls, the same values, shapes and element types."""
import os

import numpy
import pytest

import fusion
import fusion.numpy as fnp

_random = numpy.random.default_rng(7)
# What a call may name: m, n matrices; v, w vectors; i, j integers; b truths; t of three axes; h a matrix with NaN and infinities; s a square one.
DATA = {
    "m": _random.standard_normal((4, 5)), "n": _random.standard_normal((5, 3)), "v": _random.standard_normal(6), "w": _random.standard_normal(6),
    "i": _random.integers(-9, 9, (3, 4)), "j": _random.integers(1, 7, (3, 4)), "b": _random.random((3, 4)) > 0.5,
    "t": _random.standard_normal((2, 3, 4)), "h": numpy.array([[numpy.nan, 1, -2], [numpy.inf, -numpy.inf, 3]]), "s": _random.standard_normal((3, 3)),
    "f": _random.standard_normal((3, 4)).astype("f4"), "e": numpy.zeros((0, 3)), "u": numpy.array([3, 1, 1, 2, 3, 3]),
}
# One call a line; each is evaluated with both modules as np.
CALLS = """
np.add(m, 1) | np.add(j, v[0]) | np.add([1, 2], [3, 4]) | np.add(2, 3) | np.subtract.outer(v, w) | np.multiply.reduce(m) | np.add.reduce(t, axis=(0, 2))
np.add.reduce(m, axis=None) | np.add.accumulate(m, axis=1) | np.multiply.accumulate(v) | np.maximum.accumulate(m) | np.minimum.accumulate(v)
np.maximum.reduce(m, axis=1, keepdims=True) | np.logical_or.reduce(b, axis=0) | np.logical_and.reduce(b, axis=None) | np.subtract.reduce(m, axis=1)
np.add.reduce(v, initial=3.0) | np.subtract.accumulate(v) | np.bitwise_or.reduce(j, axis=1) | np.maximum.accumulate(e) | np.power(2.0, v) | np.power(m, 2)
np.mod(i, 3) | np.remainder(v, 0.7) | np.fmod(v, 0.7) | np.fmod(i, 3) | np.fmod(5.5, v) | np.arctan2(v, w) | np.sqrt(j) | np.sqrt(2.0)
np.fmax(h, 0) | np.fmin(h, h[::-1]) | np.heaviside(v, 0.5) | np.heaviside(h, 0.5) | np.fabs(i) | np.absolute(i) | np.abs(v) | np.hypot(v, 1) | np.degrees(v)
np.deg2rad(v) | np.sign(i) | np.rint(v * 3) | np.floor(v) | np.invert(b) | np.invert(i) | np.left_shift(j, 2) | np.equal(v, w) | np.isnan(h) | np.isfinite(h)
np.add(m, 1, where=m > 0, out=np.zeros((4, 5))) | np.true_divide(i, j) | np.divide(1, v) | np.floor_divide(i, j) | np.reciprocal(v) | np.logaddexp(v, w)
np.add(i, 1, dtype=np.float32) | np.clip(m, 0, 1) | np.clip(m, None, 0.5) | np.round(m, 2) | np.round(m) | np.round(i) | np.around(v * 100, -1) | np.round(j * 7, -1)
np.where(b, i, 0) | np.where(i, 1.0, f) | np.where(b) | np.nan_to_num(h) | np.nan_to_num(h, nan=7, posinf=1, neginf=2) | np.isclose(h, h) | np.isclose(v, v + 1e-9)
np.isclose(h, h, equal_nan=True) | np.allclose(m, m + 1e-12) | np.array_equal(h, h) | np.array_equal(h, h, equal_nan=True) | np.array_equal(m, n)
np.sum(m, 0) | np.sum(i) | np.sum(b, 1) | np.sum(m, axis=1, keepdims=True) | np.sum(f, dtype=np.float64) | np.sum(m, where=m > 0) | np.prod(j, 1) | np.mean(i, 0)
np.mean(m) | np.mean(f, 1) | np.var(m, 0, ddof=1) | np.std(m, (0, 1)) | np.max(m, 1) | np.amax(h) | np.min(t, (0, 2)) | np.ptp(m, 0) | np.all(b, 0) | np.any(b)
np.argmax(m) | np.argmax(m, 1) | np.argmin(m, 0, keepdims=True) | np.count_nonzero(b) | np.count_nonzero(i, 1) | np.cumsum(m) | np.cumsum(m, 1) | np.cumprod(j, 0)
np.average(m, 0) | np.average(m, 1, weights=[1, 2, 3, 4, 5]) | np.average(v, weights=w * w, returned=True) | np.median(m) | np.median(m, 0) | np.median(h, 1)
np.percentile(m, 30, 1) | np.percentile(v, [10, 50, 99]) | np.quantile(t, 0.25, (0, 1)) | np.quantile(m, [0, 1], axis=0, keepdims=True) | np.cov(m) | np.cov(m, rowvar=False)
np.cov(v, w) | np.cov(m, bias=True) | np.corrcoef(m) | np.cov(v) | np.corrcoef(v, w)
np.array([[1, 2], [3, 4]]) | np.array([1, 2], np.float32) | np.array(3.0, ndmin=2) | np.zeros(3) | np.zeros((2, 3), np.int32) | np.ones((2,), 'f4') | np.full((2, 2), 7)
np.full((2,), 1, float) | np.empty((0, 3)) | np.zeros_like(i) | np.ones_like(m, dtype='i4') | np.full_like(i, 3) | np.arange(5) | np.arange(1, 2, 0.25) | np.arange(9, 0, -2)
np.arange(0, 5, 1, np.float32) | np.linspace(0, 1) | np.linspace(0, 1, 5, False) | np.linspace(0, 1, 5, retstep=True) | np.logspace(0, 2, 4) | np.eye(3) | np.eye(2, 3, 1)
np.identity(2) | np.tri(3) | np.tri(2, 4, 1) | np.tril(m, -1) | np.triu(m, 1) | np.meshgrid(v, [1.0, 2.0]) | np.meshgrid(v, w, indexing='ij', sparse=True) | np.mgrid[0:3, 1:3]
np.mgrid[0:1:5j] | np.ogrid[0:3, 0:2] | np.indices((2, 3)) | np.fromfunction(lambda a, b: a + 10 * b, (2, 3)) | np.diag(v) | np.diag(v, 2) | np.diag(v, -1) | np.diag(s)
np.diag(m, 1) | np.diag(m, -2) | np.ndarray((0, 2)) | np.float32(2) * f | np.copy(m)
np.shape(m) | np.ndim(3) | np.size(m, 1) | np.reshape(m, (5, -1)) | np.ravel(m.T) | np.transpose(t) | np.transpose(t, (1, 0, 2)) | np.swapaxes(t, 0, 2) | np.expand_dims(v, 1)
np.squeeze(np.reshape(v, (1, 6, 1))) | np.broadcast_to(v, (2, 6)) | np.atleast_2d(v) | np.atleast_3d(m) | np.atleast_1d(3) | np.concatenate([m, m]) | np.concatenate((i, j), 1)
np.concatenate([m, v], None) | np.stack([v, w], 1) | np.hstack([v, w]) | np.hstack((m, m)) | np.vstack([v, w]) | np.dstack([m, m]) | np.column_stack([v, w]) | np.append(v, [1.0])
np.append(m, m, 0) | np.split(v, 3) | np.split(v, [1, 4]) | np.array_split(v, 4) | np.hsplit(m, [2]) | np.vsplit(m, 2) | np.tile(v, 2) | np.tile(m, (2, 1)) | np.repeat(v, 2)
np.repeat(m, 2, 1) | np.repeat(v, u) | np.roll(v, 2) | np.roll(m, 1, 0) | np.roll(m, (1, 2), (0, 1)) | np.flip(m) | np.flip(m, 0) | np.fliplr(m) | np.flipud(m) | np.rot90(m)
np.rot90(m, 2) | np.rot90(m, -1) | np.pad(m, 1) | np.pad(v, (1, 2), constant_values=5.0) | np.pad(m, ((0, 1), (2, 0)), 'edge') | np.pad(v, 8, 'reflect') | np.pad(v, 7, 'symmetric')
np.pad(v, 9, 'wrap') | np.moveaxis(t, 0, -1) | np.pad(m, (1, 2), 'reflect')
np.dot(v, w) | np.dot(m, n) | np.dot(t, n[:4]) | np.dot(t, np.transpose(t, (0, 2, 1))) | np.dot(3, m) | np.inner(m, m) | np.outer(v, w) | np.outer(m, v) | np.vdot(m, m)
np.tensordot(t, t, ([1, 2], [1, 2])) | np.tensordot(m, n, 1) | np.kron(m, s) | np.kron(v, m) | np.cross(s, s[::-1]) | np.cross(s, s[0]) | np.trace(s) | np.trace(m, 1)
np.diagonal(t, 1, 1, 2) | np.diagonal(t) | np.matmul(m, n) | m @ n | np.linalg.norm(m) | np.linalg.norm(m, axis=1) | np.linalg.norm(v, 1) | np.linalg.norm(v, np.inf) | np.linalg.norm(v, 3)
np.einsum('ij,jk->ik', m, n) | np.einsum('ij->ji', m) | np.einsum('ii', s) | np.einsum('ii->i', s) | np.einsum('ij,ij->', m, m) | np.einsum('i,j', v, w) | np.einsum('ij', m)
np.einsum('abc,abd->acd', t, t) | np.einsum('...c,cd', t, n[:4]) | np.einsum('a...,a...->...', t, t) | np.einsum('ij,jk,kl->il', m, n, s) | np.einsum('ijk->k', t) | np.einsum('ba', m)
np.einsum('abc,dbc,d->a', t, t, v[:2]) | np.einsum('ij,kj->ik', m[:, :1], m) | np.einsum('iij->j', np.stack([s, s, s], 1)) | np.einsum('i->', v) | np.einsum(',ij', 2.0, m)
np.nonzero(b) | np.argwhere(b) | np.flatnonzero(b) | np.sort(m) | np.sort(m, None) | np.sort(m, 0) | np.argsort(v) | np.argsort(m, axis=0) | np.searchsorted([1, 2, 3], [0, 2, 9])
np.searchsorted(np.sort(v), v, 'right') | np.digitize(v, [-1.0, 0.0, 1.0]) | np.unique(u) | np.unique(u, return_index=True, return_inverse=True, return_counts=True) | np.isin(u, [1, 2])
np.take(m, [0, 2]) | np.take(m, [[0, -1], [1, 1]], 1) | np.take_along_axis(m, np.argsort(m, 1), 1) | np.select([v > 1, v > 0], [v, -v], 9.0) | np.bincount(u) | np.bincount(u, minlength=9)
np.bincount(u, weights=v) | np.histogram(v) | np.histogram(v, 4, (-1, 1)) | np.histogram(v, [-2.0, 0.0, 0.5, 3.0]) | np.histogram(m, 5, density=True) | np.histogram(v, 3, weights=w)
np.histogram(np.ones(5), 4) | np.diff(v) | np.diff(m, 2, 0) | np.diff(v, prepend=0.0, append=[1.0]) | np.gradient(v) | np.gradient(m) | np.gradient(v, 0.5) | np.gradient(m, axis=1) | np.histogram(u, bins=3)
m.sum(0) | m.sum(axis=1, keepdims=True) | m.mean(1) | m.dot(n) | v.cumsum() | m.cumsum(1) | m.clip(0, 1) | m.round(1) | v.argsort() | m.swapaxes(0, 1) | m.T | v.repeat(2) | m.take([1, 3])
b.nonzero() | s.diagonal() | s.trace() | m.max(1) | b.all(0) | m.argmax(1) | m.reshape(5, 4) | m.ravel() | m.flatten() | i.astype('f4') | i.sum(dtype=float) | v.squeeze() | f.mean(dtype='f8')
np.mean(m, where=m > 0) | np.mean(i, 0, where=i > -99) | np.mean(i, 1, keepdims=True, where=[True, False, True, True]) | np.var(m, 1, where=m > -1) | np.std(m, ddof=1, where=m > -1)
np.max(m, 0, where=m < 0, initial=-9.0) | np.min(m, where=m > 0, initial=9.0) | np.all(b, 0, where=[True, False, True, True]) | np.any(b, where=~b) | np.nanprod(h, 0)
np.nanvar(h[:1]) | np.nanstd(h[:1], 1, ddof=1) | np.nanmax(i) | np.nanmin(j, 0) | np.nansum(i, 1) | np.heaviside(i, 2) | np.rint(i) | np.reciprocal(j) | np.cov(f)
np.insert(v, 2, 9.0) | np.insert(v, [1, 3], [8.0, 9.0]) | np.insert(v, [3, 1, 3], [7.0, 8.0, 9.0]) | np.insert(m, 1, 5.0, 1) | np.insert(m, 4, v[:5], 0) | np.insert(m, [0, 2], v[:4, None], 1)
np.insert(m, 1, [[1.0], [2.0], [3.0], [4.0]], axis=1) | np.insert(m, [1], [[1.0], [2.0], [3.0], [4.0]], axis=1) | np.insert(v, slice(0, 4, 2), 1.0) | np.insert(i, -1, 2.7)
np.insert(v, [], 1.0) | np.insert(m, [1], m[:, :2], 1) | np.delete(v, 2) | np.delete(v, [0, -1]) | np.delete(m, slice(1, 3), 1) | np.delete(m, 0, 0) | np.delete(m, [1, 1])
np.delete(v, v > 0) | np.delete(v, []) | np.interp(v, [-1.0, 0.0, 2.0], [3.0, 1.0, 5.0]) | np.interp(m, np.sort(w), v, left=-7.0, right=9) | np.interp(0.5, [0, 1], [1, 2])
np.interp(v, [0.5], [2.0]) | np.interp(h, [0, 1, 2], [1, 2, 9]) | np.interp(v * 100, [-190, -190, 190, -190], [5, 10, 3, 4], period=360) | np.interp(v, [190.0, 10.0, 100.0], [1.0, 2.0, 3.0], period=360)
np.meshgrid(u, v) | np.meshgrid(i[0], f[0], b[0], indexing='ij') | np.array_split(v, 4) | np.array_split(m, 3, -1) | v + [1, 2, 3, 4, 5, 6] | [1.5, 0, 0, 0, 0, 2] * u | b + b | b * ~b | b[0] + [True, False, 0, 1]
np.abs(b) | np.isnan(b) | np.isfinite(b) | np.signbit(i) | np.signbit(b) | np.square(b) | np.power(b, b[0]) | np.floor_divide(b, [True] * 4) | np.fmod(b, j) | np.left_shift(b, b)
np.isclose(b, b[0]) | np.allclose(b, i) | np.nextafter(i, 9) | np.nextafter(f, f[0]) | np.mod(b, True) | np.reciprocal(~(b & ~b)) | b < b[0] | b >= ~b | b > True | np.greater(b, b[1])
np.add(b, b) | np.multiply(b, True) | np.maximum(b, ~b) | np.minimum(b, b[0]) | b + True | np.add.outer(b[0], b[1]) | np.add.reduce(b, 1) | np.diff(b) | np.power(i, 2) | u * True
np.convolve(v, w) | np.convolve(v, m[0], 'same') | np.convolve(m[0], v, 'valid') | np.convolve(i[0], v) | np.convolve(u, i[0], 'same') | np.convolve(b[0], b[1]) | np.convolve(f[0], f[1])
np.correlate(v, w) | np.correlate(v, m[0], 'full') | np.correlate(m[0], v, 'full') | np.correlate(m[0], v, 'same') | np.correlate(v, [1.0, 2.0], 'same') | np.correlate(b[0], b[1], 'full')
np.convolve(v, h[1]) | np.convolve([2], v) | np.convolve(3, [1, 2]) | np.gcd(i, j) | np.lcm(i, j) | np.gcd(12, i) | np.gcd.reduce(j[0]) | np.lcm.reduce([4, 6, 9]) | np.logaddexp2(v, w)
np.logaddexp2([1, np.inf, -np.inf], [np.inf, np.inf, -np.inf]) | np.logaddexp2(f, 1) | np.unwrap(v * 5) | np.unwrap(m * 9, axis=0) | np.unwrap(i, period=5) | np.unwrap(j * 3, period=6) | np.unwrap(i) | np.unwrap(v * 9, 4.0)
np.union1d(u, i) | np.union1d(v, u) | np.intersect1d(i, j) | np.intersect1d(u, j, return_indices=True) | np.intersect1d([1, 4, 2], [2, 3, 4], True, True) | np.intersect1d(e, v)
np.setdiff1d(i, j) | np.setdiff1d(u, [2, 9]) | np.setdiff1d([5, 1, 3], [1], True) | np.setxor1d(i, j) | np.setxor1d(u, v) | np.setxor1d(e, e) | np.divmod(i, j) | np.divmod(v, 0.7)
divmod(i, j) | divmod(7.5, v) | divmod(v, w) | divmod(i, 3) | np.linspace(0, 1, 0) | np.full_like(m, v[:5])
np.pi * v | v ** 2 | 2 ** j | -i | i // j | i % j | v > w | (v > w) & (v > 0) | ~b | i / j | f * 2 | i + v[0] | b * 1.5 | v[u] | m[m > 0] | m[[0, 1], [2, 3]]
"""
CALLS = [call.strip() for line in CALLS.strip().split("\n") for call in line.split(" | ")]
# Of a slice (tests/slice.sh) one in three, in turn.
if os.environ.get("FUSION_SLICE"):
    CALLS = CALLS[int(os.environ["FUSION_SLICE"].split("/")[0]) % 3::3]


def _plain(x):
    return tuple(map(_plain, x)) if isinstance(x, (tuple, list)) else numpy.asarray(x)


def _same(ours, theirs, call):
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(theirs), call
        for a, b in zip(ours, theirs):
            _same(a, b, call)
        return
    assert ours.shape == theirs.shape, f"{call}: {ours.shape}, NumPy {theirs.shape}"
    assert ours.dtype == theirs.dtype, f"{call}: {ours.dtype}, NumPy {theirs.dtype}"
    # The order of sums is another, and functions are within their bounds of rounding.
    exact = theirs.dtype.kind != "f"
    numpy.testing.assert_allclose(ours, theirs, rtol=0 if exact else 3e-6 if theirs.dtype == "f4" else 1e-12, atol=0 if exact else 1e-13 if theirs.dtype == "f8" else 1e-6,
                                  err_msg=call)


@pytest.mark.parametrize("call", CALLS)
def test_as_numpy_has_it(call):
    theirs = eval(call, {"np": numpy, **{k: v.copy() for k, v in DATA.items()}})
    ours = eval(call, {"np": fnp, **{k: fnp.array(v) for k, v in DATA.items()}})
    _same(_plain(ours), _plain(theirs), call)


def test_arrays_and_types_are_known_by_their_names_there():
    assert isinstance(fnp.zeros(3), fnp.ndarray) and not isinstance(numpy.zeros(3), fnp.ndarray)
    assert fnp.zeros(3).dtype == "float64" == fnp.dtype("f8") and fnp.zeros(3).dtype == float and fnp.zeros(3).dtype == numpy.float64
    assert fnp.zeros(3).dtype != "float32" and fnp.float32 != "no type"


def test_out_is_where_the_result_goes():
    x, out = fnp.arange(4.0), fnp.zeros(4)
    view = out[1:3]
    assert fnp.add(x, 1, out) is out and fnp.multiply(out, 2, out=(out,)) is out
    assert out.tolist() == [2, 4, 6, 8] and view.tolist() == [4, 6]
    assert fnp.sum(fnp.ones((2, 4)), 0, out=out) is out and out.tolist() == [2, 2, 2, 2]
    with pytest.raises(ValueError, match="add: out is of shape"):
        fnp.add(x, 1, out=fnp.zeros(3))
    for out in (fnp.zeros((1, 4)), fnp.zeros((2, 4)), fnp.zeros(())):
        with pytest.raises(ValueError, match="add: out is of shape"):
            fnp.add(x, [[1], [2], [3]], out=out)
    for add in (lambda: fnp.add(i, i, out=u), lambda: u.__iadd__(i), lambda: fnp.sum(i, out=u[0]), lambda: fnp.copyto(u, i)):
        i, u = fnp.array([1, 2]), fnp.array([1, 2], "u4")
        with pytest.raises(TypeError, match="uint32"):
            add()
    with pytest.raises(TypeError, match="out is no fusion array, but ndarray"):
        fnp.add(x, 1, out=numpy.zeros(4))


def test_sums_at_places_and_what_is_in_place():
    x, i = fnp.zeros((3, 4)), [0, 2, 0]
    fnp.add.at(x, i, fnp.ones((3, 4)))
    fnp.subtract.at(x, ([1, 1], [-1, 3]), 2.0)
    theirs = numpy.zeros((3, 4))
    numpy.add.at(theirs, i, numpy.ones((3, 4)))
    numpy.subtract.at(theirs, ([1, 1], [-1, 3]), 2.0)
    assert x.tolist() == theirs.tolist()
    y = fnp.array([3, 1, 2])
    y.sort()
    assert y.tolist() == [1, 2, 3]
    y.fill(7)
    assert y.tolist() == [7, 7, 7]
    fnp.copyto(y, 1, where=[True, False, True])
    assert y.tolist() == [1, 7, 1]


@pytest.mark.parametrize("call", """
np.histogram([-0.5, 0.5, 1.5, 3.4], bins=[0, 1, 2, 3]) | np.clip(j, 0, 2.5) | np.equal(j, 3, dtype=bool) | np.trapz(m, np.cumsum(m * m, 0), axis=0) | np.median([1.0, np.inf])
np.linalg.norm(m, 'fro') | np.digitize([3, 2], [3, 2, 1]) | np.digitize(v, [1.0, 0.0, -1.0], right=True) | b.mean() | b.std(0) | np.argmax(b, 1) | np.nansum(h[:1], 1) | np.nanmean(h[:, 1:])
np.nanmax(h, 0) | np.nanmin(h) | np.tile(v, np.int64(2)) | np.split(v, np.int64(3)) | np.pad(v, np.int64(1)) | np.histogram(v, np.int64(4)) | np.add(i, 1, dtype=float)
""".replace("\n", " | ").strip(" |").split(" | "))
def test_what_is_rare_is_as_numpy_has_it_too(call):
    test_as_numpy_has_it(call)


def test_random_numbers_have_the_shape_of_what_they_are_drawn_by():
    made = fnp.random.default_rng(1).normal([0.0, 10.0, 20.0], 0.001)
    assert made.shape == (3,) and len(set((made - fnp.array([0.0, 10.0, 20.0])).tolist())) == 3
    assert fnp.random.uniform(0, [[1.0], [2.0]]).shape == (2, 1)


def test_arrays_of_numpy_are_operands():
    x, n = fusion.ones((2, 3)), numpy.arange(6.0).reshape(2, 3)
    for ours in (x + n, n + x, x * n, n @ x.T, x @ n.T, x == n, fusion.where(x > 0, n, 0)):
        assert isinstance(ours, fusion.Array)
    assert (n - x).tolist() == (n - 1).tolist() and (x @ n[:, ::-1].T).tolist() == (numpy.ones((2, 3)) @ n.T).tolist()
    x += n
    assert x.tolist() == (n + 1).tolist()
    with pytest.raises(TypeError, match="complex numbers are not supported"):
        x + n.astype(complex)


def test_random_numbers_are_those_of_their_seed():
    a, b = fnp.random.default_rng(3), fnp.random.default_rng(3)
    assert fnp.array_equal(a.normal(1, 2, (50,)), b.normal(1, 2, (50,))) and not fnp.array_equal(a.random(50), b.standard_normal(50))
    fnp.random.seed(1)
    first = fnp.random.rand(2, 3)
    fnp.random.seed(1)
    assert first.shape == (2, 3) and fnp.array_equal(first, fnp.random.rand(2, 3))
    drawn = a.integers(2, 5, 200).tolist()
    assert set(drawn) == {2, 3, 4} and set(fnp.random.randint(3, size=200).tolist()) == {0, 1, 2}


def test_what_is_drawn_is_of_what_there_is():
    random = fnp.random.default_rng(5)
    assert sorted(random.permutation(7).tolist()) == list(range(7)) == sorted(random.choice(7, 7, replace=False).tolist())
    m = fnp.array([[1, 2, 3], [4, 5, 6]])
    assert sorted(random.permutation(m).tolist()) == m.tolist() and sorted(fnp.transpose(random.permutation(m, axis=1)).tolist()) == m.T.tolist()
    assert random.choice(m, (2, 4), axis=1).shape == (2, 2, 4) and random.choice(5).shape == () and random.choice(m).shape == (3,)
    drawn = random.choice([10.0, 20.0, 30.0], 300, p=[0.0, 0.25, 0.75]).tolist()
    assert set(drawn) == {20.0, 30.0} and drawn.count(30.0) > drawn.count(20.0)
    for _ in range(20):
        assert random.choice(3, 2, replace=False, p=[0.0, 0.5, 0.5]).tolist() in ([1, 2], [2, 1])
    x = fnp.arange(20)
    random.shuffle(x)
    assert sorted(x.tolist()) == list(range(20)) != x.tolist()
    fnp.random.seed(2)
    first = fnp.random.choice(100, 9).tolist()
    fnp.random.seed(2)
    assert first == fnp.random.choice(100, 9).tolist() and fnp.random.permutation(3).shape == (3,)
    fnp.random.shuffle(x)


@pytest.mark.parametrize("name, said", [
    ("complex128", "complex numbers are not supported"), ("savez", "fusion.safetensors does it"), ("concatenat", "is 'concatenate' meant"),
    ("vander", r"numpy.vander of numpy.asarray\(x\) does it"), ("partition", "numpy.partition of numpy.asarray"), ("fromiter", "of a list does it"),
    ("vectorize", "written with arrays"), ("errstate", "without a warning"), ("in1d", "isin"), ("no_such_thing_at_all", "fusion.numpy has no 'no_such_thing_at_all'"),
])
def test_what_is_missing_says_what_is_there(name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(fnp, name)
    with pytest.raises(AttributeError, match=r"numpy.linalg.svd of numpy.asarray\(x\) does it"):
        fnp.linalg.svd


@pytest.mark.parametrize("wrong, said", [
    ("np.einsum('ij,jk', m)", "has 2 operands, 1 are given"), ("np.einsum('ijk', m)", "operand 1 has 2 axes, 3 of them named"),
    ("np.einsum('ij,ij->ik', m, m)", "no operand has the axis 'k'"), ("np.einsum('ij,jk->ik', m, m)", "the axis 'j' has the extents 5 and 4"),
    ("np.split(v, 4)", "6 elements along axis 0 are not 4 equal parts"), ("np.pad(v, 1, 'nothing')", "the mode 'nothing' is none of"),
    ("np.add(v)", "takes 2 operands, not 1"), ("np.where(b, 1)", "either both x and y"), ("np.take(m, [0.5])", "indices are of float64"),
    ("np.reshape(v, (2, 3), order='F')", "order='F' is not provided"), ("np.divide(i, 2, out=i)", "the result is float64, which out, of int64, does not hold"),
    ("np.linalg.norm(m, 2)", "norms of matrices are not provided"), ("np.bincount([1, -1])", "a number below 0"),
    ("np.array_split(v, -1)", "array_split: indices_or_sections is -1"), ("np.array_split(v, 0)", "array_split: indices_or_sections is 0"), ("np.max(m, where=m > 0)", "max: where= wants initial="),
    ("np.sort(v, order='x')", "sort: order='x' names fields"), ("np.insert(v, 7, 1.0)", "insert: obj names place 7, which is out of bounds for 6 elements"), ("b - b", "takes numbers, not bool"),
    ("np.delete(v, [0, 6])", "delete: obj names place 6, which is out of bounds"), ("np.interp(v, [1, 2], [1])", "interp: xp and fp are vectors"), ("np.copyto(i, 1.5 * j)", "copyto: dst, of int64"),
    ("np.random.choice(3, 4, replace=False)", "choice: 4 of 3 elements"), ("np.random.choice(3, p=[0.5, 0.2, 0.2])", "choice: p is of shape"), ("np.subtract(b, True)", "takes numbers"),
    ("np.convolve(m, v)", r"convolve: a is of shape \(4, 5\), not a vector"), ("np.correlate(v, e[:, 0])", r"correlate: v is of shape \(0,\)"), ("np.convolve(v, v, 'some')", "the mode 'some' is none of"),
    ("np.linspace(0, 1, -1)", "linspace: num is -1, below 0"), ("np.linspace(0, 1, 2.5)", "linspace: num is 2.5, not an integer"), ("np.gcd(v, 2)", "gcd: takes integers, not float64 and int"),
    ("m.item(20)", "index 20 is out of bounds"), ("m.item(1, 2, 3)", "item: 3 indices of an array of 2 axes"), ("m.item()", "item: only an array without dimensions"),
    ("np.vdot(m, v)", r"vdot: arrays of the shapes \(4, 5\) and \(6,\)"), ("np.inner(m, v)", r"inner: the last axes of the shapes \(4, 5\) and \(6,\) differ"),
    ("np.dot(t, v)", r"dot: the last axis of the shape \(2, 3, 4\) and axis 0 of \(6,\) differ"), ("np.dot(m, v)", r"matmul of f64\[4,5\] and f64\[6\]"),
    ("np.vstack([m, v])", r"vstack: arrays 0 and 1 of the shapes \(4, 5\) and \(6,\)"), ("np.dstack([m, v])", r"shapes \(4, 5\) and \(6,\)"), ("np.hstack([m, [v]])", r"\(4, 5\) and \(1, 6\)"),
    ("np.column_stack([v, m])", r"shapes \(6,\) and \(4, 5\)"), ("np.cov(v, m[0])", r"cov: m is of shape \(6,\) and y of \(5,\)"),
    ("np.sqrt.reduce(v)", "only functions of two operands"), ("np.quantile(v, 2)", "no share between 0 and 1"), ("np.zeros(3, 'f3')", "not an element type"),
])
def test_mistakes_are_told(wrong, said):
    with pytest.raises((ValueError, TypeError, IndexError), match=said):
        eval(wrong, {"np": fnp, **{k: fnp.array(v) for k, v in DATA.items()}})


def test_sums_at_places_beyond_an_axis_are_none():
    x = fnp.zeros((3, 4))
    fnp.add.at(x, (fnp.array([0, 1, 5]), fnp.array([7, -1, 0])), 1)
    assert x.tolist() == [[0.0] * 4, [0.0, 0.0, 0.0, 1.0], [0.0] * 4]


def test_an_element_is_had_by_its_place():
    m = fnp.array([[1, 2], [3, 4]])
    assert [m.item(1), m.item(-1), m.item(1, 0), m.item((0, 1)), fnp.array([[5]]).item(), m[0].item(1), m[1, 1].item()] == [2, 4, 3, 2, 5, 2, 4]


def test_hundredths_are_as_exact_as_shares():
    x = numpy.arange(1000001.0)
    with fusion.config(default_real="float32"):
        assert float(fnp.percentile(x, 99.9)) == numpy.percentile(x, 99.9)

"""Sums, extremes, quantiles and covariances."""
from __future__ import annotations

import builtins
import math as _math

from .. import _core, _creation as _c, _functions as _f
from .._array import Array as _Array
from .._base import as_dtype as _as_dtype, bool as _truth, default_real as _default_real, float64 as _float64, real as _real, uint8 as _uint8, whole as _whole
from .._errors import ShapeError as _ShapeError
from .._ufunc import array_of as _array, operand_of as _operand
from .._store import stored as _stored
from .create import array
from .elementwise import clip
from .shapes import _flat, diagonal, squeeze

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

    from .._base import Axes, Like, Type

__all__ = [
    "all", "amax", "amin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "any", "argmax", "argmin", "average", "corrcoef", "count_nonzero", "cov", "cumprod", "cumsum", "max", "mean", "median",
    "min", "percentile", "prod", "ptp", "quantile", "std", "sum", "trace", "var",
]


def _over(a, where, neutral):
    """a with what does not take part replaced by what changes nothing."""
    a = _array(a)
    if where is True:
        return a
    mask = _core.broadcast(_core.cast(_array(where), _truth), a.shape)
    return _core.where(mask, a, _core.cast(_array(neutral), a.dtype))


def _begun(made, initial, function):
    """With the first value; among integers its whole part."""
    if initial is None:
        return made
    initial = _operand(initial)
    return function(made, int(initial) if made.dtype.kind in "iu" and isinstance(initial, float) else initial)


def sum(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, keepdims: builtins.bool = False, initial: Like | None = None,
        where: Like = True) -> _Array:
    """The sum over axes; of integers in int64 or uint64."""
    made = _f.sum(_over(a, where, 0), axis=axis, dtype=dtype, keepdims=keepdims)
    return _stored(_begun(made, initial, _core.add), out, "sum")


def prod(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, keepdims: builtins.bool = False, initial: Like | None = None,
         where: Like = True) -> _Array:
    """The product over axes; of integers in int64 or uint64."""
    made = _f.prod(_over(a, where, 1), axis=axis, dtype=dtype, keepdims=keepdims)
    return _stored(_begun(made, initial, _core.mul), out, "prod")


def _chosen(a, where, initial, what):
    """Of those that do not take part, what is there at first."""
    if where is not True and initial is None:
        raise ValueError(f"{what}: where= wants initial=, which is the result where no element takes part")
    return _over(a, where, initial)


def _largest(function, a, axis, keepdims, initial):
    """Of no elements it is what is there at first."""
    axes = _f._axes(axis, a.ndim, "max" if function is _f.max else "min")
    if initial is None or _math.prod(a.shape[d] for d in axes):
        return function(a, axis=axes, keepdims=keepdims)
    kept = tuple(1 if d in axes else n for d, n in enumerate(a.shape) if keepdims or d not in axes)
    return _core.broadcast(_core.cast(_array(initial), a.dtype), kept)


def max(a: Like, axis: Axes = None, out: Any = None, keepdims: builtins.bool = False, initial: Like | None = None, where: Like = True) -> _Array:
    """The largest element over axes; NaN wins."""
    made = _largest(_f.max, _chosen(a, where, initial, "max"), axis, keepdims, initial)
    return _stored(_begun(made, initial, _core.maximum), out, "max")


def min(a: Like, axis: Axes = None, out: Any = None, keepdims: builtins.bool = False, initial: Like | None = None, where: Like = True) -> _Array:
    """The smallest element over axes; NaN wins."""
    made = _largest(_f.min, _chosen(a, where, initial, "min"), axis, keepdims, initial)
    return _stored(_begun(made, initial, _core.minimum), out, "min")


amax, amin = max, min


def ptp(a: Like, axis: Axes = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The largest element less the smallest one, over axes."""
    return _stored(_core.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims)), out, "ptp")


def _as_real(a, dtype):
    a = _array(a)
    if dtype is not None:
        return _core.cast(a, _as_dtype(dtype))
    return a if a.dtype.kind == "f" else _core.cast(a, _default_real())


def _taking_part(a, where, axis, keepdims):
    """How many elements over the axes do, in the type of a."""
    mask = _core.broadcast(_core.cast(_array(where), _truth), a.shape)
    return _core.cast(sum(mask, axis, keepdims=keepdims), a.dtype)


def _mean_of(a, where, axis, keepdims):
    return _core.div(sum(_over(a, where, 0), axis, keepdims=keepdims), _taking_part(a, where, axis, keepdims))


def mean(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, keepdims: builtins.bool = False, *, where: Like = True) -> _Array:
    """The mean over axes."""
    if where is True:
        return _array(a).mean(axis, dtype, out, keepdims)
    return _stored(_mean_of(_as_real(a, dtype), where, axis, keepdims), out, "mean")


def average(a: Like, axis: Axes = None, weights: Like | None = None, returned: builtins.bool = False, *, keepdims: builtins.bool = False) -> Any:
    """The mean over axes; each element counts by its weight."""
    if weights is not None:
        weights = _array(weights)
        a = _core.cast(_as_real(a, None), _f.result_type(_as_real(a, None), weights))
    a = _as_real(a, None)
    if weights is None:
        made, total = mean(a, axis, keepdims=keepdims), array(_math.prod(a.shape[d] for d in _f._axes(axis, a.ndim, "average")), a.dtype)
    else:
        weights = _core.cast(weights, a.dtype)
        if weights.shape != a.shape and weights.ndim == 1 and isinstance(axis, int):
            weights = _core.reshape(weights, tuple(weights.size if d == _f._axis(axis, a.ndim, "average") else 1 for d in range(a.ndim)))
        weights = _core.broadcast(weights, a.shape)
        total = sum(weights, axis, keepdims=keepdims)
        made = _core.div(sum(_core.mul(a, weights), axis, keepdims=keepdims), total)
    return (made, _core.broadcast(total, made.shape)) if returned else made


def _variance(a, dtype, where, axis, less, keepdims):
    a = _as_real(a, dtype)
    apart = _core.sub(a, _mean_of(a, where, axis, True))
    count = _core.maximum(_core.sub(_taking_part(a, where, axis, keepdims), _real(less, "ddof")), 0.0)
    return _core.div(sum(_over(_core.mul(apart, apart), where, 0), axis, keepdims=keepdims), count)


def var(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, ddof: float = 0, keepdims: builtins.bool = False, *,
        where: Like = True, correction: float | None = None) -> _Array:
    """The variance over axes: squares of the distances from the mean, over their number less ddof."""
    if where is True:
        return _array(a).var(axis, dtype, out, ddof, keepdims, correction=correction)
    return _stored(_variance(a, dtype, where, axis, ddof if correction is None else correction, keepdims), out, "var")


def std(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, ddof: float = 0, keepdims: builtins.bool = False, *,
        where: Like = True, correction: float | None = None) -> _Array:
    """The square root of the variance."""
    if where is not True:
        return _stored(_core.sqrt(_variance(a, dtype, where, axis, ddof if correction is None else correction, keepdims)), out, "std")
    return _array(a).std(axis, dtype, out, ddof, keepdims, correction=correction)


def all(a: Like, axis: Axes = None, out: Any = None, keepdims: builtins.bool = False, *, where: Like = True) -> _Array:
    """True where no element over the axes is zero."""
    return _over(a, where, 1).all(axis, out, keepdims)


def any(a: Like, axis: Axes = None, out: Any = None, keepdims: builtins.bool = False, *, where: Like = True) -> _Array:
    """True where an element over the axes is not zero."""
    return _over(a, where, 0).any(axis, out, keepdims)


def _numbers(a):
    a = _array(a)
    return _core.cast(a, _uint8) if a.dtype is _truth else a


def nansum(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The sum over axes of what is not NaN."""
    a = _array(a)
    return sum(_core.where(_core.ne(a, a), 0, a), axis, dtype, out, keepdims)


def nanmean(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The mean over axes of what is not NaN; NaN where there is nothing else."""
    a = _as_real(a, dtype)
    count = _core.cast(sum(_core.eq(a, a), axis, keepdims=keepdims), a.dtype)
    return _stored(_core.div(nansum(a, axis, keepdims=keepdims), count), out, "nanmean")


def nanprod(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The product over axes of what is not NaN."""
    a = _array(a)
    return prod(_core.where(_core.ne(a, a), 1, a), axis, dtype, out, keepdims)


def nanvar(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, ddof: float = 0, keepdims: builtins.bool = False) -> _Array:
    """The variance over axes of what is not NaN."""
    return _stored(_variance(a, dtype, _core.eq(_array(a), _array(a)), axis, ddof, keepdims), out, "nanvar")


def nanstd(a: Like, axis: Axes = None, dtype: Type = None, out: Any = None, ddof: float = 0, keepdims: builtins.bool = False) -> _Array:
    """The square root of the variance over axes of what is not NaN."""
    return _stored(_core.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims)), out, "nanstd")


def _but_nan(a, axis, keepdims, function, beyond):
    a = _array(a)
    if a.dtype.kind != "f":
        return function(a, axis, keepdims=keepdims)
    made = function(_core.where(_core.ne(a, a), beyond, a), axis, keepdims=keepdims)
    return _core.where(all(_core.ne(a, a), axis, keepdims=keepdims), _math.nan, made)


def nanmax(a: Like, axis: Axes = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The largest over axes of what is not NaN; NaN where there is nothing else."""
    return _stored(_but_nan(a, axis, keepdims, max, -_math.inf), out, "nanmax")


def nanmin(a: Like, axis: Axes = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The smallest over axes of what is not NaN; NaN where there is nothing else."""
    return _stored(_but_nan(a, axis, keepdims, min, _math.inf), out, "nanmin")


def argmax(a: Like, axis: int | None = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The place of the largest element: the first of equal ones; NaN wins."""
    axis = axis if axis is None else _whole(axis, "argmax: the axis")
    return _stored(_f.argmax(_numbers(a), axis=axis, keepdims=keepdims), out, "argmax")


def argmin(a: Like, axis: int | None = None, out: Any = None, keepdims: builtins.bool = False) -> _Array:
    """The place of the smallest element: the first of equal ones; NaN wins."""
    axis = axis if axis is None else _whole(axis, "argmin: the axis")
    return _stored(_f.argmin(_numbers(a), axis=axis, keepdims=keepdims), out, "argmin")


def count_nonzero(a: Like, axis: Axes = None, *, keepdims: builtins.bool = False) -> _Array:
    """How many elements over the axes are not zero."""
    return _f.count_nonzero(_array(a), axis=axis, keepdims=keepdims)


def cumsum(a: Like, axis: int | None = None, dtype: Type = None, out: Any = None) -> _Array:
    """The sums of the elements up to each along an axis; None: of all in a row."""
    a, axis = _flat(a, axis)
    return _stored(_f.cumulative_sum(a, axis=axis, dtype=dtype), out, "cumsum")


def cumprod(a: Like, axis: int | None = None, dtype: Type = None, out: Any = None) -> _Array:
    """The products of the elements up to each along an axis; None: of all in a row."""
    a, axis = _flat(a, axis)
    return _stored(_f.cumulative_prod(a, axis=axis, dtype=dtype), out, "cumprod")


def quantile(a: Like, q: Like, axis: Axes = None, out: Any = None, *, keepdims: builtins.bool = False) -> _Array:
    """What the share q of the elements over the axes is at most, between neighbours in a straight line. NaN wins."""
    return _quantile(a, *_shares(q), axis, out, keepdims)


def _quantile(a, shape, q, axis, out, keepdims, middle=False):
    """Of shares in a list, in that shape."""
    given, a = _array(a).dtype, _as_real(a, None)
    axes = _f._axes(axis, a.ndim, "quantile")
    rest = [d for d in range(a.ndim) if d not in axes]
    count = _math.prod(a.shape[d] for d in axes)
    if not count:
        raise ValueError(f"quantile: there is no element in an array of shape {a.shape}")
    ordered = _core.sort(_core.reshape(_core.permute(a, rest + list(axes)), tuple(a.shape[d] for d in rest) + (count,)), len(rest), False)
    last = ordered[..., count - 1]
    parts = [_at_share(ordered, count, p, middle) for p in q]
    parts = [_core.where(_core.ne(last, last), _math.nan, p) for p in parts]
    if keepdims:
        parts = [_core.reshape(p, tuple(1 if d in axes else n for d, n in enumerate(a.shape))) for p in parts]
    # The shares 0 and 1 as integers name elements.
    if given.kind != "f" and builtins.all(isinstance(p, int) for p in q):
        parts = [_core.cast(p, given) for p in parts]
    kept = tuple(1 if d in axes else n for d, n in enumerate(a.shape) if keepdims or d not in axes)
    made = _core.stack(parts, 0) if parts else a.device.context.full(a.dtype, (0,) + kept, 0)
    return _stored(_core.reshape(made, shape + kept), out, "quantile")


def _shares(q):
    """The shape of one number, or of an array of them, and the numbers in a list. Waits."""
    q = _operand(q)
    return (q.shape, q.flatten().tolist()) if isinstance(q, _core.Array) else ((), [q])


def _at_share(ordered, count, share, middle):
    if not 0 <= share <= 1:
        raise ValueError(f"quantile: {share} is no share between 0 and 1")
    place = share * (count - 1)
    low = builtins.min(int(place), count - 1)
    high, t = builtins.min(low + 1, count - 1), place - low
    a, b = ordered[..., low], ordered[..., high]
    if not t:
        return a
    if middle:
        return _core.mul(_core.add(a, b), 0.5)
    step = _core.sub(b, a)
    return _core.sub(b, _core.mul(step, 1 - t)) if t >= 0.5 else _core.add(a, _core.mul(step, t))


def percentile(a: Like, q: Like, axis: Axes = None, out: Any = None, *, keepdims: builtins.bool = False) -> _Array:
    """quantile() by hundredths."""
    shape, q = _shares(q)
    return _quantile(a, shape, [p / 100 for p in q], axis, out, keepdims)


def median(a: Like, axis: Axes = None, out: Any = None, *, keepdims: builtins.bool = False) -> _Array:
    """The one in the middle of the elements over the axes, or the mean of the two there."""
    return _quantile(a, (), [0.5], axis, out, keepdims, middle=True)


def _joined(m, y, rowvar):
    m = _as_real(m, None)
    m = _core.reshape(m, (1, m.size)) if m.ndim < 2 else m if rowvar else _f.matrix_transpose(m)
    return m if y is None else _f.concat([m, _joined(y, None, rowvar)], axis=0)


def cov(m: Like, y: Like | None = None, rowvar: builtins.bool = True, bias: builtins.bool = False, ddof: int | None = None) -> _Array:
    """The covariances of the rows (columns, without rowvar), which are variables, over the observations. In float64, as in NumPy."""
    m, y = _array(m), None if y is None else _array(y)
    for x, name in ((m, "m"), (y, "y")):
        if x is not None and x.ndim > 2:
            raise ValueError(f"cov: {name} is of shape {x.shape}, of more than two axes")
    if y is not None and (m.shape[-1:] != y.shape[-1:] if rowvar or m.ndim < 2 else m.shape[0] != y.shape[0]):
        raise _ShapeError(f"cov: m is of shape {m.shape} and y of {y.shape}, of other numbers of observations")
    x = _core.cast(_joined(m, y, rowvar), _float64)
    less = ddof if ddof is not None else 0 if bias else 1
    apart = _core.sub(x, _core.reduce_mean(x, (1,), True))
    return squeeze(_core.div(_core.matmul(apart, _f.matrix_transpose(apart)), float(x.shape[1] - _real(less, "ddof"))))


def corrcoef(x: Like, y: Like | None = None, rowvar: builtins.bool = True) -> _Array:
    """The covariances over the roots of both variances."""
    c = cov(x, y, rowvar)
    if not c.ndim:
        return _core.div(c, c)
    root = _core.sqrt(diagonal(c))
    return clip(_core.div(_core.div(c, _core.reshape(root, (root.size, 1))), root), -1, 1)


def trace(a: Like, offset: int = 0, axis1: int = 0, axis2: int = 1) -> _Array:
    """The sum of the diagonal."""
    return sum(diagonal(a, offset, axis1, axis2), -1)

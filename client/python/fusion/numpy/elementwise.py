"""Elementwise functions: NumPy's ufuncs, and others of its names."""
from __future__ import annotations

import builtins
import math as _math

from .. import _core, _functions as _f, _rows as _r
from .._array import Array as _Array
from .._base import bool as _truth, default_real as _default_real, float64 as _float64, int8 as _int8, int64 as _int64, real as _real, uint8 as _uint8, whole as _whole
from .._ufunc import array_of as _array, operand_of as _operand, ufunc
from .._store import stored as _stored

TYPE_CHECKING = False
if TYPE_CHECKING:               # typing itself takes milliseconds to import
    from typing import Any

    from .._base import Like

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "allclose", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "around",
    "array_equal", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "copysign", "cos", "cosh", "deg2rad", "degrees", "divide", "equal", "exp", "exp2", "expm1",
    "divmod", "fabs", "floor", "floor_divide", "fmax", "fmin", "fmod", "gcd", "greater", "greater_equal", "heaviside", "hypot", "invert", "isclose", "isfinite",
    "isinf", "isnan", "lcm", "left_shift", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "mod", "multiply", "nan_to_num", "negative", "nextafter", "nonzero", "not_equal", "positive", "pow", "power",
    "rad2deg", "radians", "reciprocal", "remainder", "right_shift", "rint", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract",
    "tan", "tanh", "true_divide", "trunc", "ufunc", "where",
]


def _degrees(x):
    return _core.mul(x, 180 / _math.pi)


def _radians(x):
    return _core.mul(x, _math.pi / 180)


def _fabs(x):
    return _core.abs(x if x.dtype.kind == "f" else _core.cast(x, _default_real()))


def _counted(function):
    """Of truths, which it does not take, as of the integers that NumPy makes of them there: of the type beside them, or the smallest."""
    def of(*operands):
        beside = [x.dtype for x in operands if isinstance(x, _core.Array) and x.dtype is not _truth]
        if not beside and builtins.any(not isinstance(x, (_core.Array, builtins.bool)) for x in operands):
            beside = [_default_real() if builtins.any(isinstance(x, float) for x in operands) else _int64]
        small = beside[0] if beside else _int8
        return function(*[_core.cast(x, small) if isinstance(x, _core.Array) and x.dtype is _truth else x for x in operands])
    of.__doc__ = function.__doc__
    return of


def _abs(x):
    return _core.same(x) if x.dtype is _truth else _r.abs(x)


def _signbit(x):
    """Whether the sign is minus."""
    return _f.signbit(x) if x.dtype.kind == "f" else _core.lt(_core.cast(x, _uint8) if x.dtype is _truth else x, 0)


def _in_reals(a, b):
    """Two operands, of which no type has fractions, in one that has them; numbers stay numbers."""
    if builtins.any(x.dtype.kind == "f" for x in (a, b) if isinstance(x, _core.Array)):
        return a, b
    return (_core.cast(x, _default_real()) if isinstance(x, _core.Array) else x for x in (a, b))


def _nextafter(a, b):
    """The next number of the type after a towards b."""
    return _f.nextafter(*_in_reals(a, b))


def _rint(x):
    return _core.round(x if x.dtype.kind == "f" else _core.cast(x, _default_real()))


def _reciprocal(x):
    """1 / x; of integers the whole part."""
    if x.dtype.kind not in "iu":
        return _r.reciprocal(x)
    return _core.where(_core.logical_or(_core.eq(x, 1), _core.eq(x, -1) if x.dtype.kind == "i" else False), x, 0)


def _fmod(a, b):
    """The remainder that has the sign of a."""
    made = _r.remainder(builtins.abs(a), builtins.abs(b))
    return _core.where(_core.lt(a, 0), _core.neg(made), made) if isinstance(a, _core.Array) else -made if a < 0 else made


def _one_that_is(function, a, b):
    """Of two, one of which may be NaN, the other one."""
    made = function(a, b)
    if made.dtype.kind != "f":
        return made
    a = a if isinstance(a, _core.Array) else _core.cast(_array(a), made.dtype)
    b = b if isinstance(b, _core.Array) else _core.cast(_array(b), made.dtype)
    return function(_core.where(_core.ne(a, a), b, a), _core.where(_core.ne(b, b), a, b))


def _fmax(a, b):
    return _one_that_is(_core.maximum, a, b)


def _fmin(a, b):
    return _one_that_is(_core.minimum, a, b)


def _heaviside(a, b):
    """0 below 0, 1 above it, and b there."""
    a, b = _in_reals(a, b)
    a = a if isinstance(a, _core.Array) else _core.cast(_array(a), b.dtype)
    a = _core.cast(a, b.dtype) if a.dtype.kind != "f" else a
    return _core.where(_core.eq(a, 0), b, _core.where(_core.ne(a, a), a, _core.cast(_core.gt(a, 0), a.dtype)))


def _logaddexp2(a, b):
    """The logarithm to the base 2 of 2^a + 2^b."""
    a, b = _in_reals(a, b)
    largest, apart = _core.maximum(a, b), _core.log1p(_core.exp2(_core.neg(_core.abs(_core.sub(a, b)))))
    # Equal ones on their own: the difference of two infinities is NaN.
    return _core.add(largest, _core.where(_core.eq(a, b), 1.0, _core.div(apart, _math.log(2))))


def _whole_ones(a, b, what):
    """Two operands as arrays of integers of one type and shape, without signs."""
    if builtins.any(x.dtype.kind not in "iu" for x in (a, b) if isinstance(x, _core.Array)) or builtins.any(isinstance(x, float) for x in (a, b)):
        raise TypeError(f"{what}: takes integers, not {' and '.join(str(getattr(x, 'dtype', type(x).__name__)) for x in (a, b))}")
    a, b = _f._pair(a, b, what)
    shape = _f.broadcast_shapes(a.shape, b.shape)
    return (_core.broadcast(x if x.dtype.kind == "u" else _core.abs(x), shape) for x in (a, b))


def _gcd(a, b):
    """The greatest common divisor. Waits, a time for each step of Euclid's."""
    a, b = _whole_ones(a, b, "gcd")
    while builtins.bool(_f.any(b)):
        a, b = _core.where(_core.eq(b, 0), a, b), _core.where(_core.eq(b, 0), 0, _core.remainder(a, b))
    return a


def _lcm(a, b):
    """The least common multiple. Waits as gcd() does."""
    a, b = _whole_ones(a, b, "lcm")
    common = _gcd(a, b)
    return _core.where(_core.eq(common, 0), 0, _core.mul(_core.floor_divide(a, common), b))


absolute = abs = ufunc("absolute", _abs, 1)
arccos = acos = ufunc("arccos", _r.acos, 1)
arccosh = acosh = ufunc("arccosh", _r.acosh, 1)
arcsin = asin = ufunc("arcsin", _r.asin, 1)
arcsinh = asinh = ufunc("arcsinh", _r.asinh, 1)
arctan = atan = ufunc("arctan", _r.atan, 1)
arctanh = atanh = ufunc("arctanh", _r.atanh, 1)
ceil = ufunc("ceil", _r.ceil, 1)
cos = ufunc("cos", _r.cos, 1)
cosh = ufunc("cosh", _r.cosh, 1)
degrees = rad2deg = ufunc("degrees", _degrees, 1)
exp = ufunc("exp", _r.exp, 1)
exp2 = ufunc("exp2", _r.exp2, 1)
expm1 = ufunc("expm1", _r.expm1, 1)
fabs = ufunc("fabs", _fabs, 1)
floor = ufunc("floor", _r.floor, 1)
invert = bitwise_invert = bitwise_not = ufunc("invert", _r.bitwise_invert, 1)
isfinite = ufunc("isfinite", _counted(_r.isfinite), 1)
isinf = ufunc("isinf", _counted(_r.isinf), 1)
isnan = ufunc("isnan", _counted(_r.isnan), 1)
log = ufunc("log", _r.log, 1)
log10 = ufunc("log10", _r.log10, 1)
log1p = ufunc("log1p", _r.log1p, 1)
log2 = ufunc("log2", _r.log2, 1)
logical_not = ufunc("logical_not", _r.logical_not, 1)
negative = ufunc("negative", _r.negative, 1)
positive = ufunc("positive", _f.positive, 1)
radians = deg2rad = ufunc("radians", _radians, 1)
reciprocal = ufunc("reciprocal", _counted(_reciprocal), 1)
rint = ufunc("rint", _rint, 1)
sign = ufunc("sign", _r.sign, 1)
signbit = ufunc("signbit", _signbit, 1)
sin = ufunc("sin", _r.sin, 1)
sinh = ufunc("sinh", _r.sinh, 1)
sqrt = ufunc("sqrt", _r.sqrt, 1)
square = ufunc("square", _counted(_r.square), 1)
tan = ufunc("tan", _r.tan, 1)
tanh = ufunc("tanh", _r.tanh, 1)
trunc = ufunc("trunc", _r.trunc, 1)
add = ufunc("add", _r.add, 2, reduce=_f.sum, scan=_f.cumulative_sum, identity=0)
arctan2 = atan2 = ufunc("arctan2", _r.atan2, 2)
bitwise_and = ufunc("bitwise_and", _r.bitwise_and, 2, identity=-1)
bitwise_or = ufunc("bitwise_or", _r.bitwise_or, 2, identity=0)
bitwise_xor = ufunc("bitwise_xor", _r.bitwise_xor, 2, identity=0)
copysign = ufunc("copysign", _r.copysign, 2)
equal = ufunc("equal", _r.equal, 2)
floor_divide = ufunc("floor_divide", _counted(_r.floor_divide), 2)
fmax = ufunc("fmax", _fmax, 2)
fmin = ufunc("fmin", _fmin, 2)
fmod = ufunc("fmod", _counted(_fmod), 2)
gcd = ufunc("gcd", _counted(_gcd), 2)
greater = ufunc("greater", _r.greater, 2)
greater_equal = ufunc("greater_equal", _r.greater_equal, 2)
heaviside = ufunc("heaviside", _heaviside, 2)
hypot = ufunc("hypot", _r.hypot, 2)
lcm = ufunc("lcm", _counted(_lcm), 2)
left_shift = bitwise_left_shift = ufunc("left_shift", _counted(_r.bitwise_left_shift), 2)
less = ufunc("less", _r.less, 2)
less_equal = ufunc("less_equal", _r.less_equal, 2)
logaddexp = ufunc("logaddexp", _r.logaddexp, 2)
logaddexp2 = ufunc("logaddexp2", _logaddexp2, 2)
logical_and = ufunc("logical_and", _r.logical_and, 2, reduce=_f.all, identity=True)
logical_or = ufunc("logical_or", _r.logical_or, 2, reduce=_f.any, identity=False)
logical_xor = ufunc("logical_xor", _r.logical_xor, 2)
maximum = ufunc("maximum", _r.maximum, 2, reduce=_f.max, steps=True)
minimum = ufunc("minimum", _r.minimum, 2, reduce=_f.min, steps=True)
multiply = ufunc("multiply", _r.multiply, 2, reduce=_f.prod, scan=_f.cumulative_prod, identity=1)
nextafter = ufunc("nextafter", _nextafter, 2)
not_equal = ufunc("not_equal", _r.not_equal, 2)
power = pow = ufunc("power", _counted(_r.pow), 2)
remainder = mod = ufunc("remainder", _counted(_r.remainder), 2)
right_shift = bitwise_right_shift = ufunc("right_shift", _counted(_r.bitwise_right_shift), 2)
subtract = ufunc("subtract", _r.subtract, 2)
true_divide = divide = ufunc("true_divide", _r.divide, 2)


def divmod(x1: Like, x2: Like) -> tuple[_Array, _Array]:
    """The whole part of the quotient, and the remainder."""
    return floor_divide(x1, x2), remainder(x1, x2)


def clip(a: Like, a_min: Like | None = None, a_max: Like | None = None, out: Any = None, *, min: Like | None = None, max: Like | None = None) -> _Array:
    """a limited to [a_min, a_max]; a bound that is None does not limit."""
    a, low, high = _array(a), a_min if min is None else min, a_max if max is None else max
    low, high = (b if b is None else _operand(b) for b in (low, high))
    if a.dtype.kind in "iu" and builtins.any(isinstance(b, float) for b in (low, high)):
        a = _core.cast(a, _default_real())
    return _stored(_f.clip(a, low, high), out, "clip")


def round(a: Like, decimals: int = 0, out: Any = None) -> _Array:
    """To so many decimals, halves to the even one."""
    a, decimals = _array(a), _whole(decimals, "decimals")
    if a.dtype is _truth and decimals:
        raise TypeError("round: takes numbers, not bool")
    if a.dtype is _truth:
        a = _core.cast(a, _default_real())
    if decimals and a.dtype.kind == "f":
        scale = 10.0 ** builtins.abs(decimals)
        made = _core.div(_core.round(_core.mul(a, scale)), scale) if decimals > 0 else _core.mul(_core.round(_core.div(a, scale)), scale)
    elif decimals < 0:
        scale = 10 ** -decimals
        made = _core.cast(round(_core.cast(a, _float64), decimals), a.dtype)
    else:
        made = _core.round(a) if a.dtype.kind == "f" else _core.same(a)
    return _stored(made, out, "round")


around = round


def where(condition: Like, x: Like | None = None, y: Like | None = None, /) -> Any:
    """x where the condition is true, else y; of the condition alone the indices where it is true, which waits."""
    condition = _array(condition)
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("where: either both x and y are given or neither")
    return _core.where(_core.cast(condition, _truth), _operand(x), _operand(y))


def nan_to_num(x: Like, copy: builtins.bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> _Array:
    """NaN and infinities replaced by numbers: the largest ones of the type where none are given."""
    if not copy and isinstance(x, _core.Array):
        x[...] = nan_to_num(x, True, nan, posinf, neginf)
        return x
    x = _array(x)
    if x.dtype.kind != "f":
        return _core.same(x)
    limits = _f.finfo(x.dtype)
    made = _core.where(_core.ne(x, x), _real(nan, "nan"), x)
    made = _core.where(_core.eq(made, _math.inf), limits.max if posinf is None else _real(posinf, "posinf"), made)
    return _core.where(_core.eq(made, -_math.inf), limits.min if neginf is None else _real(neginf, "neginf"), made)


def isclose(a: Like, b: Like, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: builtins.bool = False) -> _Array:
    """Whether |a - b| <= atol + rtol * |b|, elementwise."""
    rtol, atol = (t if isinstance(t, _Array) else _real(t, name) for t, name in ((rtol, "rtol"), (atol, "atol")))
    a, b = (_core.cast(x, _uint8) if x.dtype is _truth else x for x in (_array(a), _array(b)))
    near = less_equal(absolute(subtract(a, b)), add(multiply(absolute(b), rtol), atol))
    made = logical_or(equal(a, b), logical_and(isfinite(b), near))
    return logical_or(made, logical_and(isnan(a), isnan(b))) if equal_nan else made


def allclose(a: Like, b: Like, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: builtins.bool = False) -> builtins.bool:
    """Whether all are close. Waits."""
    return builtins.bool(_f.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Like, a2: Like, equal_nan: builtins.bool = False) -> builtins.bool:
    """Whether shapes and elements are the same. Waits."""
    a1, a2 = _array(a1), _array(a2)
    if a1.shape != a2.shape:
        return False
    same = equal(a1, a2)
    return builtins.bool(_f.all(logical_or(same, logical_and(isnan(a1), isnan(a2))) if equal_nan else same))


def nonzero(a: Like) -> tuple[_Array, ...]:
    """The indices of the elements that are not zero, an array for each axis. Waits."""
    a = _array(a)
    return _f.nonzero(a if a.ndim else _core.reshape(a, (1,)))

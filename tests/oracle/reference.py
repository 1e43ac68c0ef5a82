"""What every operation must give, in NumPy.

Written from the documents alone (protocol/ops.def, the rules "Same bits", the comment of daemon/plan/kernel.h,
kernels/README.md), never from the kernels: where both agree, two people read the same rule in the same way.

Values are held in the register type of their element type: f16 and bf16 as float32 arrays of already rounded
values, bool as np.bool_. to_storage() and to_register() convert from and to what lies in memory.

Two kinds of operations:
  exact        everything but the functions of kernels/ulp.def. The reference gives the bits (all NaNs are one).
  approximate  the rows of ulp.def on floating-point types. The reference computes in long double, which must have
               more than 60 bits, and check() allows the error of the row; 16-bit results must be what rounding
               some value within that error gives.
Both come from the oracle column of ops.def, evaluated with the namespace `m` of this file.
"""
import ctypes
import ctypes.util
import math

import mpmath
import numpy as np

from tables import DTYPES, OPS, ULP

LONG = np.longdouble
if np.finfo(LONG).nmant < 60:
    raise ImportError("the reference needs a long double of more than 60 bits")

BLOCK, COLUMNS, GROUP = 8192, 64, 16

STORAGE = {
    "bool": np.uint8, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f16": np.uint16, "bf16": np.uint16, "f32": np.float32,
    "f64": np.float64,
}
REGISTER = {**STORAGE, "bool": np.bool_, "f16": np.float32, "bf16": np.float32}
# Digits of the significand, exponents of the smallest and of the largest normal number.
FORMAT = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}


def is_real(dtype):
    return DTYPES[dtype].kind == "REAL"


def is_integer(dtype):
    return DTYPES[dtype].kind in ("SINT", "UINT")


# ---- element types ----


def spacing(exact, dtype):
    """The unit of the last place of a real number in a format, as long double."""
    digits, lowest, highest = FORMAT[dtype]
    exponent = np.clip(np.frexp(np.where(np.isfinite(exact), exact, 1))[1] - 1, lowest, highest)
    return np.ldexp(LONG(1), exponent - (digits - 1))


def round_to(x, dtype):
    """Rounds long double or narrower values once, to nearest even, to a format; keeps the values' type."""
    unit = spacing(np.asarray(x, LONG), dtype)
    limit = np.ldexp(LONG(1), FORMAT[dtype][2] + 1)
    with np.errstate(all="ignore"):
        rounded = np.rint(np.asarray(x, LONG) / unit) * unit
        rounded = np.where(np.abs(rounded) >= limit, np.copysign(LONG(np.inf), rounded), rounded)
        return np.where(np.isfinite(x), rounded, x)


def to_register(dtype, storage):
    storage = np.asarray(storage, STORAGE[dtype])
    if not storage.ndim:
        return to_register(dtype, storage.reshape(1)).reshape(())
    if dtype == "bool":
        return storage != 0
    if dtype == "f16":
        return storage.view(np.float16).astype(np.float32)
    if dtype == "bf16":
        return (storage.astype(np.uint32) << 16).view(np.float32)
    return storage


def to_storage(dtype, values):
    """The bits in memory; values must be rounded already."""
    values = np.asarray(values, REGISTER[dtype])
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    if dtype == "bf16":
        return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).reshape(values.shape)
    return values.astype(STORAGE[dtype])


def rounded(dtype, values):
    """The rounding after an operation: f16 and bf16 are computed in f32."""
    if dtype == "f16":
        with np.errstate(all="ignore"):
            return values.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        return round_to(values, "bf16").astype(np.float32)
    return values


def bits(dtype, values):
    """Register values as integers that are equal where the values' bits are, all NaNs being one."""
    values = np.ascontiguousarray(np.asarray(values, REGISTER[dtype]))
    if not is_real(dtype):
        return values
    integer = {4: np.uint32, 8: np.uint64}[values.dtype.itemsize]
    return np.where(np.isnan(values), integer(~integer(0)), values.view(integer).reshape(values.shape))


def float_to_integer(dtype, x):
    """Truncates and saturates; NaN gives 0."""
    info = np.iinfo(STORAGE[dtype])
    x = np.atleast_1d(np.trunc(x.astype(LONG)))
    low, high = x <= LONG(info.min), x >= LONG(info.max)
    inside = np.where(np.isnan(x) | low | high, 0, x)
    # long double holds every 64-bit integer, but its conversion to uint64 goes through int64 on some machines.
    half = LONG(2) ** 63
    above = inside >= half
    result = np.where(above, inside - half, inside).astype(np.int64).astype(np.uint64) + above * np.uint64(1 << 63)
    result = result.astype(STORAGE[dtype])
    result[low], result[high] = info.min, info.max
    return result


def cast(source, target, x):
    """Register values of one type as those of another."""
    if target == "bool":
        return x != 0
    if is_integer(target):
        return float_to_integer(target, x).reshape(x.shape) if is_real(source) else x.astype(STORAGE[target])
    if source == target:
        return x
    return round_to(x.astype(LONG), target).astype(REGISTER[target])


def promote(a, b):
    """The type two operands meet in, as protocol/dtype.h says."""
    kinds = (DTYPES[a].kind, DTYPES[b].kind)
    wider = a if DTYPES[a].size >= DTYPES[b].size else b
    if "BOOL" in kinds:
        return b if kinds[0] == "BOOL" else a
    if kinds == ("REAL", "REAL"):
        return "f32" if a != b and DTYPES[a].size == DTYPES[b].size == 2 else wider
    if "REAL" in kinds:
        return a if kinds[0] == "REAL" else b
    if kinds[0] == kinds[1]:
        return wider
    signed, unsigned = (a, b) if kinds[0] == "SINT" else (b, a)
    holds_both = [d for d in ("i16", "i32", "i64") if DTYPES[d].size > DTYPES[unsigned].size and
                  DTYPES[d].size >= DTYPES[signed].size]
    return holds_both[0] if holds_both else "i64"


def fits(dtype, value):
    """Is this number one of the type's values, so that it may stand as a scalar?"""
    if is_real(dtype):
        return True
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(STORAGE[dtype]).min, np.iinfo(STORAGE[dtype]).max)
    return math.isfinite(value) and value == int(value) and low <= int(value) <= high


def scalar(dtype, value):
    """A Python number as a register value of rank 0."""
    if isinstance(value, int) and abs(value) >= 1 << 53:
        return np.array(value, REGISTER[dtype])
    return cast("f64", dtype, np.array([float(value)])).reshape(())


# ---- functions that NumPy lacks ----

_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_libm.fma.restype = ctypes.c_double
_libm.fma.argtypes = [ctypes.c_double] * 3
_fma_double = np.frompyfunc(_libm.fma, 3, 1)


def fma_float(a, b, c):
    """a * b + c for float32, rounded once: the product is exact in double, the sum is rounded to odd, so that
    the second rounding sees on which side of a tie the value lay."""
    p, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s = p + c
    t = s - p
    lost = (p - (s - t)) + (c - t)
    fix = np.isfinite(s) & np.isfinite(p) & (lost != 0) & ((s.view(np.int64) & 1) == 0)
    away = (lost > 0) == (s > 0)
    odd = (s.view(np.int64) + np.where(away, 1, -1)).view(np.float64)
    return np.where(fix, odd, s).astype(np.float32)


def fma(a, b, c):
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        if a.dtype == np.float32:
            return fma_float(a, b, c)
        return _fma_double(a, b, c).astype(np.float64)


def exp_of_minus_half_square(a):
    """exp(-a*a/2) without the rounding of a*a, which the exponential would magnify."""
    a = np.clip(a, -200, 200)
    high = a.astype(np.float32).astype(LONG)
    return np.exp(-high * high / 2) * np.exp(-(a - high) * (a + high) / 2)


def erf_series(x):
    """erf for |x| <= 3: a series of positive terms."""
    x = np.clip(x, -3, 3)
    term = total = x
    for n in range(1, 110):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    return 2 / np.sqrt(LONG(np.pi) + LONG(PI_REST)) * np.exp(-x * x) * total


PI_REST = 1.2246467991473532e-16


def erfc_scaled(x):
    """erfc(x) exp(x*x) for x >= 1: a continued fraction, from its end."""
    x = np.maximum(x, 1)
    f = x
    for k in range(700 if np.any(x < 2) else 160, 0, -1):
        f = x + k / (LONG(2) * f)
    return 1 / (np.sqrt(LONG(np.pi) + LONG(PI_REST)) * f)


def erf(a):
    a = np.asarray(a, LONG)
    far = 1 - erfc_scaled(np.abs(a)) * np.exp(-np.minimum(a * a, 12000))
    return np.where(np.abs(a) <= 3, erf_series(a), np.copysign(far, a))


def gelu(a):
    x = -a / np.sqrt(LONG(2))
    near = 1 - erf_series(x)
    far = erfc_scaled(np.abs(x)) * exp_of_minus_half_square(a)
    erfc = np.where(np.isnan(x), x, np.where(np.abs(x) < 1, near, np.where(x > 0, far, 2 - far)))
    return a * (erfc / 2)


def gelu_tanh_precise(a):
    with mpmath.workprec(160):
        a = mpmath.mpf(float(a))
        u = mpmath.sqrt(2 / mpmath.pi) * (a + mpmath.mpf("0.044715") * a ** 3)
        fraction, exponent = mpmath.frexp(a / (1 + mpmath.exp(-2 * u)))
        high = float(fraction)
        return np.ldexp(LONG(high) + LONG(float(fraction - high)), int(exponent))


def gelu_tanh(a):
    """Left of -3 the exponential magnifies the rounding of its argument: those few in high precision."""
    c = np.sqrt(2 / (LONG(np.pi) + LONG(PI_REST)))
    result = a / (1 + np.exp(-2 * c * (a + a * a * a * 44715 / LONG(1000000))))
    for i in np.argwhere((a < -3) & (a > -60)):
        result[tuple(i)] = gelu_tanh_precise(a[tuple(i)])
    return result


def selu(a):
    scale, alpha = LONG("1.0507009873554804934193349852946"), LONG("1.6732632423543772848170429916717")
    return np.where(a < 0, scale * alpha * np.expm1(np.minimum(a, 0)), scale * a)


def maximum(a, b):
    """NaN wins, -0 is below +0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), a, larger)


def minimum(a, b):
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return -maximum(-a, -b)


def integral(function, a):
    return function(a) if a.dtype.kind == "f" else a


def sign(a):
    one = a.dtype.type(1)
    return np.where(a > 0, one, np.where(a < 0, neg(one), a))


def neg(a):
    return -a if a.dtype.kind == "f" else (a.dtype.type(0) - a).astype(a.dtype)


def power(a, b):
    if a.dtype.kind == "f":
        return np.power(a, b)
    result, base, left = np.ones_like(a), a, np.where(b < 0, 0, b).astype(np.uint64)
    while np.any(left):
        result = np.where(left & np.uint64(1), result * base, result)
        base, left = base * base, left >> np.uint64(1)
    of_minus_one = np.where(b & b.dtype.type(1), a, a * a)
    inverse = np.where(a == 1, a, np.where(neg(a) == 1, of_minus_one, 0))
    return np.where(b < 0, inverse, result).astype(a.dtype)


def integer_divide(a, b):
    """Quotient and remainder, rounded down, by Python's integers; by 0 both are 0."""
    pairs = [(x // y, x - y * (x // y)) if y else (0, 0) for x, y in zip(a.ravel().tolist(), b.ravel().tolist())]
    mask = (1 << 8 * a.dtype.itemsize) - 1
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return [np.array([p[i] & mask for p in pairs], unsigned).view(a.dtype).reshape(a.shape) for i in (0, 1)]


def floor_divide(a, b):
    """Floats: the floor of the exact quotient where |a/b| is below 2^24 (f64: 2^53), else a/b rounded."""
    if a.dtype.kind != "f":
        return integer_divide(a, b)[0]
    quotient = a / b
    floor = np.floor(quotient)
    over = fma(floor, b, -a)
    one_less = np.where(b > 0, over > 0, over < 0)
    one_less |= np.isinf(b) & np.isfinite(a) & (a != 0) & (np.signbit(a) != np.signbit(b))
    exact = np.where(one_less, floor - a.dtype.type(1), floor)
    return np.where(np.abs(quotient) < 2.0 ** (np.finfo(a.dtype).nmant + 1), exact, quotient)


def remainder(a, b):
    """Floats: a - b floor(a / b), exact, rounded once, with the sign of b."""
    if a.dtype.kind != "f":
        return integer_divide(a, b)[1]
    r = np.fmod(a, b)
    r = np.where(r == 0, np.copysign(a.dtype.type(0), b), np.where((r < 0) != (b < 0), r + b, r))
    return r


def shift_left(a, b):
    zero, width = np.zeros_like(a), 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < width)
    return np.where(inside, a << np.where(inside, b, zero), zero)


def shift_right(a, b):
    zero, width = np.zeros_like(a), 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < width)
    return np.where(inside, a >> np.where(inside, b, zero), np.where(a < 0, ~zero, zero))


# ---- random bits ----


def philox_block(counter, key):
    """Philox 4x32-10 by its paper: four words of counter and two of key, as lists of Python integers."""
    mask = (1 << 32) - 1
    c, k = list(counter), list(key)
    for _ in range(10):
        x, y = 0xd2511f53 * c[0], 0xcd9e8d57 * c[2]
        c = [(y >> 32) ^ c[1] ^ k[0], y & mask, (x >> 32) ^ c[3] ^ k[1], x & mask]
        k = [(k[0] + 0x9e3779b9) & mask, (k[1] + 0xbb67ae85) & mask]
    return c


def philox(a, b):
    word, mask = (1 << 64) - 1, (1 << 32) - 1
    out = []
    for i, key in zip(a.ravel().tolist(), b.ravel().tolist()):
        block, key = (i & word) >> 2, key & word
        out.append(philox_block([block & mask, block >> 32, 0, 0], [key & mask, key >> 32])[i & 3])
    return np.array(out, np.uint64).astype(f"u{a.dtype.itemsize}").view(a.dtype).reshape(a.shape)


def words(count, of, which, seed):
    """Word `which` of the `of` words of each element."""
    counter = np.arange(count, dtype=np.int64) * of + which
    return philox(counter, np.full(count, seed, np.uint64).view(np.int64)).astype(np.uint64)


def random_uniform(dtype, count, seed, of=None, which=0):
    """client/random.c: the highest bits of a word, of two for f64."""
    if dtype == "f64":
        high, low = (words(count, of or 2, which + i, seed) for i in (0, 1))
        return ((high >> np.uint64(5)) * np.uint64(1 << 26) + (low >> np.uint64(6))).astype(np.float64) * 2.0 ** -53
    digits = FORMAT[dtype][0]
    return (words(count, of or 1, which, seed) >> np.uint64(32 - digits)).astype(np.float32) * np.float32(2.0 ** -digits)


def random_integers(dtype, count, low, high, seed):
    span = high - low
    if span <= 1 << 31:
        offset = [w * span >> 32 for w in words(count, 1, 0, seed).tolist()]
    else:
        pairs = zip(words(count, 2, 0, seed).tolist(), words(count, 2, 1, seed).tolist())
        offset = [((a << 32) | b) % span for a, b in pairs]
    return np.array([low + o for o in offset], STORAGE[dtype])


# ---- views ----


def windows(a, axis, size, step, dilation):
    """result[..., o, ..., k] = a[..., o * step + k * dilation, ...]"""
    count = (a.shape[axis] - (size - 1) * dilation - 1) // step + 1
    return np.stack([np.take(a, np.arange(count) * step + k * dilation, axis) for k in range(size)], axis=-1)


# ---- parts ----


def pad(a, margins, value=0):
    """margins: (before, after) of each axis"""
    result = np.full([before + n + after for n, (before, after) in zip(a.shape, margins)], value, a.dtype)
    result[tuple(slice(before, before + n) for n, (before, _) in zip(a.shape, margins))] = a
    return result


# ---- gathers ----


def places(index, extent):
    """What an index names on an axis, and whether that is there."""
    index = index.astype(object)
    at = np.where(index < 0, index + extent, index)
    inside = ((at >= 0) & (at < extent)).astype(bool)
    return np.where(inside, at, 0).astype(np.int64), inside


def take(a, index, axis):
    axis %= a.ndim
    at, inside = places(index, a.shape[axis])
    if not a.shape[axis]:
        return np.zeros(a.shape[:axis] + index.shape + a.shape[axis + 1:], a.dtype)
    inside = inside.reshape(inside.shape + (1,) * (a.ndim - 1 - axis))
    return np.where(inside, np.take(a, at, axis), a.dtype.type(0))


def take_along(a, index, axis):
    axis %= a.ndim
    at, inside = places(index, a.shape[axis])
    one = tuple(1 if d == axis else n for d, n in enumerate(a.shape))
    shape = np.broadcast_shapes(one, index.shape)
    if not a.shape[axis]:
        return np.zeros(shape, a.dtype)
    whole = np.broadcast_to(a, shape[:axis] + (a.shape[axis],) + shape[axis + 1:])
    taken = np.take_along_axis(whole, np.broadcast_to(at, shape), axis)
    return np.where(np.broadcast_to(inside, shape), taken, a.dtype.type(0))


def put_along(a, index, updates, axis, add=None):
    """Update after update along the axis: the last of equal indices stays, or each is added with a rounding."""
    result = np.moveaxis(a, axis, 0).copy()
    where, inside = (np.moveaxis(v, axis, 0) for v in places(index, a.shape[axis]))
    updates = np.moveaxis(updates, axis, 0)
    others = np.indices(result.shape[1:])
    if not result.shape[0]:
        return np.moveaxis(result, 0, axis)
    for j in range(where.shape[0]):
        at = (where[j],) + tuple(others)
        new = updates[j] if add is None else add(result[at], updates[j])
        result[tuple(i[inside[j]] for i in at)] = new[inside[j]]
    return np.moveaxis(result, 0, axis)


def add_along(dtype, a, index, updates, axis):
    with np.errstate(all="ignore"):
        return put_along(a, index, updates, axis, lambda x, y: rounded(dtype, x + y))


# ---- order ----


def argsort(a, axis, descending=False):
    """Stable; NaN is above all, and -0 equals +0. Descending: sorted from behind, and read from behind."""
    if not descending:
        return np.argsort(a, axis, kind="stable")
    return a.shape[axis] - 1 - np.flip(np.argsort(np.flip(a, axis), axis, kind="stable"), axis)


def sort(a, axis, descending=False):
    return np.take_along_axis(a, argsort(a, axis, descending), axis)


def searchsorted(a, values, right=False):
    return np.searchsorted(a, values, "right" if right else "left")


# ---- reductions and products ----


def reduced_last(a, axes):
    """The reduced axes, row-major, as one last axis."""
    kept = [d for d in range(a.ndim) if d not in axes]
    extent = math.prod(a.shape[d] for d in axes)
    return a.transpose(kept + sorted(axes)).reshape([a.shape[d] for d in kept] + [extent])


def tree_of_block(x, combine, neutral):
    """Element j goes to column j % 64, in order, from the neutral; then column c takes c + h for h = 32 ... 1."""
    rows = max(1, -(-x.shape[-1] // COLUMNS))
    padded = np.full(x.shape[:-1] + (rows * COLUMNS,), neutral, x.dtype)
    padded[..., :x.shape[-1]] = x
    column = np.full(x.shape[:-1] + (COLUMNS,), neutral, x.dtype)
    for row in range(rows):
        column = combine(column, padded[..., row * COLUMNS:(row + 1) * COLUMNS])
    half = COLUMNS // 2
    while half:
        column = combine(column[..., :half], column[..., half:2 * half])
        half //= 2
    return column[..., 0]


def tree(x, combine, neutral):
    """Over the last axis, in blocks of 8192 elements, then over the blocks' results likewise."""
    while x.shape[-1] > BLOCK:
        x = np.stack([tree_of_block(x[..., i:i + BLOCK], combine, neutral) for i in range(0, x.shape[-1], BLOCK)],
                     axis=-1)
    return tree_of_block(x, combine, neutral)


def tree_sum(x):
    return tree(x, np.add, -0.0)


def reduce_sum(a, axes):
    if a.dtype.kind == "f":
        return tree_sum(reduced_last(a, axes)) if a.size else np.zeros(reduced_last(a, axes).shape[:-1], a.dtype)
    wide = np.uint64 if a.dtype.kind == "u" else np.int64
    return reduced_last(a.astype(wide), axes).sum(axis=-1, dtype=wide)


def reduce_prod(a, axes):
    if a.dtype.kind == "f":
        return tree(reduced_last(a, axes), np.multiply, 1.0)
    wide = np.uint64 if a.dtype.kind == "u" else np.int64
    return reduced_last(a.astype(wide), axes).prod(axis=-1, dtype=wide)


def reduce_fold(function, a, axes):
    x = reduced_last(a, axes)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        rest = x[..., 2 * half:]
        x = np.concatenate([function(x[..., :half], x[..., half:2 * half]), rest], axis=-1)
    return x[..., 0] if x.shape[-1] else np.zeros(x.shape[:-1], a.dtype)


def reduce_mean(a, axes):
    extent = a.dtype.type(math.prod(a.shape[d] for d in axes))
    return reduce_sum(a, axes) / extent


def scan_of_block(x, function):
    """Over the last axis: doubling steps in groups of 16, then the last of each group carried to the next."""
    groups = []
    for first in range(0, x.shape[-1], GROUP):
        group = x[..., first:first + GROUP]
        for h in (1, 2, 4, 8):
            group = np.concatenate([group[..., :h], function(group[..., :-h], group[..., h:])], axis=-1)
        groups.append(function(groups[-1][..., -1:], group) if groups else group)
    return np.concatenate(groups, axis=-1) if groups else x


def scan(x, function, reduce):
    """Blocks of 8192; each takes in the scan of the reductions of those before it."""
    blocks = [x[..., i:i + BLOCK] for i in range(0, x.shape[-1], BLOCK)]
    results = [scan_of_block(b, function) for b in blocks]
    if len(blocks) > 1:
        carries = scan(np.stack([reduce(b, [b.ndim - 1]) for b in blocks], axis=-1), function, reduce)
        results[1:] = [function(carries[..., i:i + 1], r) for i, r in enumerate(results[1:])]
    return np.concatenate(results, axis=-1) if results else x


def scan_axis(a, axis, function, reduce, widen=False):
    if widen and a.dtype.kind != "f":
        a = a.astype(np.uint64 if a.dtype.kind == "u" else np.int64)
    return np.moveaxis(scan(np.ascontiguousarray(np.moveaxis(a, axis, -1)), function, reduce), -1, axis)


def matmul(dtype, a, b):
    """c = fma(a, b, c) over k in order from 0, in the register type; rounded once. Few elements and a long k: the tree."""
    if is_integer(dtype):
        return np.matmul(a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = np.zeros(batch + (a.shape[-2], b.shape[-1]), REGISTER[dtype])
    k = a.shape[-1]
    if c.shape[-2:] == (1, 1) and k >= 1024 and c.size:
        products = a.astype(c.dtype) * np.swapaxes(b, -1, -2).astype(c.dtype)
        return rounded(dtype, reduce_sum(products, [products.ndim - 1])[..., None])
    if dtype in ("f32", "f64") and k >= 32768 and 0 < c.size <= 4096 and max(a.ndim, b.ndim) < 8:
        blocks = [matmul(dtype, a[..., i:i + BLOCK], b[..., i:i + BLOCK, :]) for i in range(0, k, BLOCK)]
        return tree_sum(np.stack(blocks, axis=-1))
    for k in range(a.shape[-1]):
        c = fma(a[..., :, k, None], b[..., k, None, :], c)
    return rounded(dtype, c)


class m:
    """The names that the oracle column of ops.def uses beside np."""
    neg, sign, integral, power, fma = neg, sign, integral, power, fma
    erf, gelu, gelu_tanh, selu = erf, gelu, gelu_tanh, selu
    maximum, minimum, floor_divide, remainder = maximum, minimum, floor_divide, remainder
    shift_left, shift_right, philox = shift_left, shift_right, philox
    sum, mean, prod = reduce_sum, reduce_mean, reduce_prod

    @staticmethod
    def cumsum(a, axis):
        return scan_axis(a, axis, np.add, reduce_sum, widen=True)

    @staticmethod
    def cumprod(a, axis):
        return scan_axis(a, axis, np.multiply, reduce_prod, widen=True)

    @staticmethod
    def cummax(a, axis):
        return scan_axis(a, axis, maximum, m.max)

    @staticmethod
    def cummin(a, axis):
        return scan_axis(a, axis, minimum, m.min)

    @staticmethod
    def relu(a):
        return np.where(a < 0, a.dtype.type(0), a)

    @staticmethod
    def max(a, axes):
        return reduce_fold(maximum, a, axes)

    @staticmethod
    def min(a, axes):
        return reduce_fold(minimum, a, axes)

    @staticmethod
    def any(a, axes):
        return (reduced_last(a, axes) != 0).any(axis=-1)

    @staticmethod
    def all(a, axes):
        return (reduced_last(a, axes) != 0).all(axis=-1)


_oracles = {name: compile(op.oracle, f"oracle of {name}", "eval") for name, op in OPS.items() if op.oracle}


def evaluate(name, **operands):
    with np.errstate(all="ignore"):
        return eval(_oracles[name], {"np": np, "m": m, "__builtins__": {}}, operands)


# ---- what the tests call ----


def is_approximate(name, dtype):
    return name in ULP and is_real(dtype)


def operand_dtype(name, dtypes):
    """The element type an elementwise operation or product works in."""
    return dtypes[1] if name == "where" else dtypes[0]


def broadcast(values):
    """At least one axis each: NumPy promotes arrays of rank 0 by other rules."""
    shape = np.broadcast_shapes(*[v.shape for v in values])
    return shape, [np.ascontiguousarray(np.broadcast_to(v, shape)).reshape(shape or (1,)) for v in values]


def exact(name, dtype, values):
    """An exact elementwise operation on operands of one type (where: the last two): register values."""
    op = OPS[name]
    shape, values = broadcast(values)
    result = np.asarray(evaluate(name, **dict(zip("abc", values))))
    if op.result == "BOOL":
        return result.astype(np.bool_).reshape(shape)
    if result.dtype != REGISTER[dtype]:
        raise TypeError(f"the oracle of {name} made {result.dtype} of {dtype}")
    return rounded(dtype, result).reshape(shape)


def reduction(name, dtype, values, axes, keepdims):
    axes = sorted(d % values.ndim for d in axes) if axes else range(values.ndim)
    result_dtype = OPS[name].result_dtype(dtype)
    result = np.asarray(evaluate(name, a=values, axes=list(axes))).astype(REGISTER[result_dtype])
    kept = [1 if d in axes else n for d, n in enumerate(values.shape)] if keepdims else \
        [n for d, n in enumerate(values.shape) if d not in axes]
    return rounded(result_dtype, result).reshape(kept)


def scanned(name, dtype, values, axis):
    """One of the operations of kind SCAN."""
    result_dtype = OPS[name].result_dtype(dtype)
    result = np.asarray(evaluate(name, a=values, axis=axis % values.ndim)).astype(REGISTER[result_dtype])
    return rounded(result_dtype, result)


def arange(dtype, count, start, step):
    register = REGISTER[dtype]
    index = np.arange(count, dtype=np.int64).astype(register)
    with np.errstate(all="ignore"):
        return rounded(dtype, (scalar(dtype, start) + index * scalar(dtype, step)).astype(register))


def high_precision(name, values):
    """An approximate function of register values, as long double."""
    shape, values = broadcast(values)
    operands = dict(zip("abc", [v.astype(LONG) for v in values]))
    return np.asarray(evaluate(name, **operands), LONG).reshape(shape)


def error_in_units(name, dtype, values, got):
    """Errors in units of the last place of the type the function is computed in, and the exact result."""
    want = high_precision(name, values)
    unit = spacing(want, dtype)
    if name == "logaddexp":
        for v in values:
            unit = np.maximum(unit, spacing(v.astype(LONG), dtype))
    # An infinity counts as the number after the largest.
    beyond = np.ldexp(LONG(1), FORMAT[dtype][2] + 1)
    with np.errstate(all="ignore"):
        difference = np.abs(np.clip(got.astype(LONG), -beyond, beyond) - np.clip(want, -beyond, beyond))
    return difference / unit, want, unit


def same_class(name, got, want):
    """NaN for NaN, the infinity for an infinity, and the right sign of a zero (not of one that a sum came close to)."""
    signless = (got != 0) | ((want != 0) & (name == "logaddexp"))
    return (np.isnan(got) == np.isnan(want)) & (~np.isinf(want) | (got == want)) & \
        (signless | (np.signbit(got) == np.signbit(want)))


def narrow(want):
    """For messages."""
    with np.errstate(all="ignore"):
        return want.astype(np.float64)


def check_approximate(name, dtype, values, got):
    """Which elements are right, what they should be, and the largest error in units."""
    computed = "f64" if dtype == "f64" else "f32"
    bound = ULP[name][computed]
    error, want, unit = error_in_units(name, computed, values, got)
    right = same_class(name, got, want)
    special = ~np.isfinite(want)
    if dtype == computed:
        right &= special | (error <= bound)
        return right, narrow(want), float(np.max(error, initial=0, where=~special))
    with np.errstate(all="ignore"):
        low, high = round_to(want - bound * unit, dtype), round_to(want + bound * unit, dtype)
    right &= special | ((got >= low) & (got <= high))
    return right, narrow(round_to(want, dtype)), 0.0


def check_exact(dtype, want, got):
    return bits(dtype, got) == bits(dtype, want)

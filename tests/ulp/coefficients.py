#!/usr/bin/python3
"""The polynomial coefficients of kernels/math_f32.cl and math_f64.cl, computed from nothing.

Each approximation is a row of TABLE: a function g on an interval, the powers of its variable, and a
weight such that |weight * (g - p)| is the relative error of the final result. A Remez exchange in 60
digits finds the minimax polynomial; its coefficients are rounded to the format, and then moved by last
places while that helps.

    coefficients.py [NAME...]      prints the rows whose names begin so (all without arguments)
"""
import sys
import numpy
from mpmath import mp, mpf

mp.dps = 60
GRID = 24       # points a basis function on which extrema are sought


def rounded(x, bits):
    """x to a binary float of that many bits (no subnormals here)."""
    if x == 0:
        return mpf(0)
    m, e = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(m, bits)), e - bits)


def solve(xs, values, powers, weights):
    """Coefficients and levelled error of the alternating system on len(powers) + 1 nodes."""
    n = len(powers)
    a = mp.matrix(n + 1, n + 1)
    b = mp.matrix(n + 1, 1)
    for i, x in enumerate(xs):
        for j, p in enumerate(powers):
            a[i, j] = x ** p
        a[i, n] = (-1) ** i / weights[i]
        b[i] = values[i]
    s = mp.lu_solve(a, b)
    return [s[j] for j in range(n)], s[n]


def alternating(errors, count):
    """Indices of `count` alternating extrema, the largest there are."""
    runs = []
    for i, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > count:
        if len(runs) == count + 1:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
            continue
        weakest = min(range(len(runs) - 1), key=lambda i: max(abs(errors[runs[i]]), abs(errors[runs[i + 1]])))
        del runs[weakest:weakest + 2]
    return runs


def remez(g, weight, low, high, powers):
    """Minimax coefficients over the powers, and the weighted error."""
    n = len(powers)
    count = GRID * (n + 2)
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * i / (count - 1))) / 2 for i in range(count)]
    values = [g(x) for x in grid]
    weights = [max(abs(weight(x)), mpf("1e-6")) for x in grid]
    nodes = [round(i * (count - 1) / n) for i in range(n + 1)]
    best = None
    for _ in range(40):
        c, level = solve([grid[i] for i in nodes], [values[i] for i in nodes], powers,
                         [weights[i] for i in nodes])
        errors = [w * (v - sum(ci * x ** p for ci, p in zip(c, powers)))
                  for x, v, w in zip(grid, values, weights)]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[1]:
            best = (c, worst)
        if worst < abs(level) * mpf("1.001"):
            break
        new = alternating(errors, n + 1)
        if len(new) < n + 1 or new == nodes:
            break
        nodes = new
    return best


def one_by_one(g, weight, low, high, powers, bits, order):
    """Rounds the first or last coefficient left, and fits the others again, so that they make up for it."""
    fixed, left = [], list(powers)
    while left:
        c, _ = remez(lambda x: g(x) - sum(c * x ** p for p, c in fixed), weight, low, high, left)
        fixed.append((left.pop(order), rounded(c[order], bits)))
    return [c for _, c in sorted(fixed)]


def fit(g, weight, low, high, powers, bits, parts):
    """
    Coefficients rounded to `bits` (the lowest to `parts` times as many), and the error: the best
    found from several starts by moving coefficients by last places.
    """
    c, _ = remez(g, weight, low, high, powers)
    head = []
    if parts > 1:
        head, first, powers = [rounded(c[0], parts * bits)], g, powers[1:]
        g = lambda x: first(x) - head[0] * x ** (powers[0] - 1)
        c = c[1:]
    starts = [[rounded(ci, bits) for ci in c]]
    starts += [one_by_one(g, weight, low, high, powers, bits, order) for order in (0, -1)]
    best = min((polish(g, weight, low, high, powers, bits, s) for s in starts), key=lambda b: b[1])
    return head + best[0], best[1]


def polish(g, weight, low, high, powers, bits, c):
    xs = [low + (high - low) * (1 - mp.cos(mp.pi * (mpf(i) + 0.5) / 500)) / 2 for i in range(500)]
    weights = [abs(weight(x)) for x in xs]
    errors = [w * (g(x) - sum(ci * x ** p for p, ci in zip(powers, c))) for x, w in zip(xs, weights)]
    steps = [mp.ldexp(1, int(mp.frexp(ci)[1]) - bits) if ci else mpf(2) ** -bits for ci in c]
    moves = numpy.array([[float(w * s * x ** p) for x, w in zip(xs, weights)] for p, s in zip(powers, steps)])
    taken, worst = descend(numpy.array([float(e) for e in errors]), moves)
    return [ci + s * int(k) for ci, s, k in zip(c, steps, taken)], mpf(worst)


def descend(errors, moves):
    """
    How many last places to move each coefficient by, so that the largest error falls: one or two
    at a time until nothing helps. An error is linear in the coefficients, so doubles suffice.
    """
    n = len(moves)
    taken = [0] * n
    choices = [(i, j, a, b) for i in range(n) for j in range(i, min(n, i + 3)) for a in (-3, -2, -1, 1, 2, 3)
               for b in ((-3, -2, -1, 0, 1, 2, 3) if j > i else (0,))]
    worst = abs(errors).max()
    while True:
        best = None
        for i, j, a, b in choices:
            e = abs(errors - a * moves[i] - b * moves[j]).max()
            if e < worst * (1 - 1e-6):
                worst, best = e, (i, j, a, b)
        if best is None:
            return taken, worst
        i, j, a, b = best
        errors = errors - a * moves[i] - b * moves[j]
        taken[i] += a
        taken[j] += b


def series(f, order):
    """f by its Taylor polynomial near 0, where quotients of small numbers lose digits."""
    coefficients = mp.taylor(f, 0, order)
    return lambda x: mp.polyval(coefficients[::-1], x)


def near_zero(f, taylor, radius=mpf("1e-3")):
    return lambda x: taylor(x) if abs(x) < radius else f(x)


LN2_HALF = mp.log(2) / 2 * mpf("1.0001")
R2 = mp.sqrt(2) * mpf("1.0001")


def expm1_tail():
    t = series(lambda r: sum(r ** k / mp.factorial(k + 2) for k in range(24)), 20)
    return near_zero(lambda r: (mp.expm1(r) - r) / r ** 2, t)


def log1p_tail():
    """(log(1+f) - f + f^2/2) / f^3"""
    t = lambda f: sum((-1) ** k * f ** k / (k + 3) for k in range(24))
    return near_zero(lambda f: (mp.log1p(f) - f + f ** 2 / 2) / f ** 3, t)


def log_weight(f):
    return f ** 3 / mp.log1p(f) if f != 0 else mpf(0)


def atanh_tail():
    """(atanh(s)/s - 1) / s^2 in u = s^2"""
    def g(u):
        if u < mpf("1e-4"):
            return sum(u ** k / (2 * k + 3) for k in range(16))
        s = mp.sqrt(u)
        return (mp.atanh(s) / s - 1) / u
    return g


def log2_rest(u):
    """((atanh(s)/s - 1) / u - 1/3) / u times 2 log2(e)"""
    if u < mpf("1e-5"):
        return 2 / mp.log(2) * sum(u ** k / (2 * k + 5) for k in range(16))
    return 2 / mp.log(2) * (atanh_tail()(u) - mpf(1) / 3) / u


def log2_rest_f64(u):
    """(((atanh(s)/s - 1) / u - 1/3) / u - 1/5) / u times 2 log2(e)"""
    return 2 / mp.log(2) * sum(u ** k / (2 * k + 7) for k in range(50))


def sin_tail(u):
    return sum((-1) ** (k + 1) * u ** k / mp.factorial(2 * k + 3) for k in range(24))


def cos_tail(u):
    return sum((-1) ** k * u ** k / mp.factorial(2 * k + 4) for k in range(24))


def tan_tail(u):
    if u < mpf("1e-6"):
        return mpf(1) / 3 + 2 * u / 15 + 17 * u ** 2 / 315 + 62 * u ** 3 / 2835 + 1382 * u ** 4 / 155925
    x = mp.sqrt(u)
    return (mp.tan(x) / x - 1) / u


def asin_tail(u):
    if u < mpf("1e-6"):
        return mpf(1) / 6 + 3 * u / 40 + 15 * u ** 2 / 336 + 105 * u ** 3 / 3456 + 945 * u ** 4 / 42240
    x = mp.sqrt(u)
    return (mp.asin(x) / x - 1) / u


def atan_tail(u):
    if u < mpf("1e-6"):
        return sum((-1) ** (k + 1) * u ** k / (2 * k + 3) for k in range(10))
    x = mp.sqrt(u)
    return (mp.atan(x) / x - 1) / u


def erf_head(u):
    """erf(x)/x - 1 in u = x^2"""
    return 2 / mp.sqrt(mp.pi) * sum((-u) ** k / (mp.factorial(k) * (2 * k + 1)) for k in range(60)) - 1


def half_erfcx(k):
    """(b + k) exp(b^2) erfc(b) / 2 in z = (b - k) / (b + k), after Shepherd and Laframboise (1981)"""
    def g(z):
        b = k * (1 + z) / (1 - z)
        return (b + k) * mp.exp(b * b) * mp.erfc(b) / 2
    return g


# name: arguments of fit(); parts is 2 where the lowest coefficient is a sum of two floats
TABLE = {}


def row(name, bits, g, weight, low, high, powers, parts=1):
    TABLE[name] = (g, weight, mpf(low), mpf(high), list(powers), bits, parts)


def expm1_weight(r):
    return r * r / mp.expm1(r) if r else mpf(0)


def exp2_head(r):
    """(2^r - 1) / r"""
    return mp.expm1(r * mp.log(2)) / r if r else mp.log(2)


def relative(tail):
    """The weight of an odd function x + x u tail(u), u = x^2."""
    return lambda u: u / (1 + u * tail(u))


def cos_weight(u):
    return u * u / mp.cos(mp.sqrt(u))


def erf_weight(u):
    return 1 / (1 + erf_head(u))


OCTANT = (mp.pi / 4) ** 2 * mpf("1.01")
TAN_PI_8 = mp.tan(mp.pi / 8) ** 2 * mpf("1.01")

# exp: r^2 times this, plus r, is expm1(r); the weight is that of expm1, so both share it
row("f32_expm1", 24, expm1_tail(), expm1_weight, -LN2_HALF, LN2_HALF, range(0, 5))
row("f64_expm1", 53, expm1_tail(), expm1_weight, -LN2_HALF, LN2_HALF, range(0, 11))
# exp2: r times this is 2^r - 1
row("f32_exp2", 24, exp2_head, lambda r: r / mpf(2) ** r, -0.5001, 0.5001, range(0, 6))
# one term less, for the weights of attention
row("f32_weight", 24, exp2_head, lambda r: r / mpf(2) ** r, -0.5001, 0.5001, range(0, 5))
row("f64_exp2", 53, exp2_head, lambda r: r / mpf(2) ** r, -0.5001, 0.5001, range(0, 12), 2)
# log: f - f^2/2 + f^3 times this
row("f32_log", 24, log1p_tail(), log_weight, 1 / R2 - 1, R2 - 1, range(0, 8))
# 2 atanh(s) = 2s + 2s u times this
row("f64_atanh", 53, atanh_tail(), lambda u: u, 0, 0.02945, range(0, 8))
# the same beyond u / 3 and u / 5, in binary logarithms, for pow
row("f32_log2_double", 24, log2_rest, lambda u: u * u * mp.log(2) / 2, "1e-9", 0.02945, range(0, 3))
row("f64_log2_double", 53, log2_rest_f64, lambda u: u ** 3 * mp.log(2) / 2, "1e-9", 0.02945, range(0, 8))
row("f32_sin", 24, sin_tail, lambda u: u, 0, OCTANT, range(0, 4))
row("f64_sin", 53, sin_tail, lambda u: u, 0, OCTANT, range(0, 7))
row("f32_cos", 24, cos_tail, cos_weight, 0, OCTANT, range(0, 3))
row("f64_cos", 53, cos_tail, cos_weight, 0, OCTANT, range(0, 6))
row("f32_tan", 24, tan_tail, relative(tan_tail), 0, OCTANT, range(0, 6))
row("f32_asin", 24, asin_tail, relative(asin_tail), 0, "0.2501", range(0, 5))
row("f64_asin", 53, asin_tail, relative(asin_tail), 0, "0.2501", range(0, 13))
row("f32_atan", 24, atan_tail, relative(atan_tail), 0, 1, range(0, 9))
row("f64_atan", 53, atan_tail, relative(atan_tail), 0, TAN_PI_8, range(0, 12))
row("f32_erf", 24, erf_head, erf_weight, 0, 1, range(0, 7))
row("f64_erf", 53, erf_head, erf_weight, 0, 1, range(0, 13))
# erfc, for gelu and the f64 erf; -log(erfc(x)) for the f32 erf, where the weight is that of erf
row("f32_erfc", 24, half_erfcx(2), lambda z: 1 / half_erfcx(2)(z), -1, "0.6749", range(0, 11), 2)
row("f64_erfc", 53, half_erfcx(4), lambda z: 1 / half_erfcx(4)(z), -1, "0.7446", range(0, 23), 2)
row("f32_erfc_log", 24, lambda x: -mp.log(mp.erfc(x)), lambda x: mp.erfc(x) / mp.erf(x), 0.99, 4, range(0, 8))


# Constants in several parts: each but the last has `bits` bits, then the rest.
CONSTANTS = {
    "f32 log2(e)": (lambda: 1 / mp.log(2), 24, 2),
    "f32 ln 2": (lambda: mp.log(2), 24, 2),
    "f32 log10(e)": (lambda: 1 / mp.log(10), 24, 2),
    "f32 log10(2), 12 bits first": (lambda: mp.log(2, 10), 12, 2),
    "f32 2 log2(e)": (lambda: 2 / mp.log(2), 24, 2),
    "f32 2/3 log2(e)": (lambda: 2 / mp.log(2) / 3, 24, 2),
    "f32 pi/2": (lambda: mp.pi / 2, 24, 4),
    "f32 2/pi": (lambda: 2 / mp.pi, 24, 2),
    "f32 sqrt(1/2)": (lambda: mp.sqrt(mpf(1) / 2), 24, 2),
    "f32 2 sqrt(2/pi)": (lambda: 2 * mp.sqrt(2 / mp.pi), 24, 2),
    "f32 2 sqrt(2/pi) 0.044715": (lambda: 2 * mp.sqrt(2 / mp.pi) * mpf("0.044715"), 24, 2),
    "f64 log2(e)": (lambda: 1 / mp.log(2), 53, 2),
    "f64 ln 2, 42 bits first": (lambda: mp.log(2), 42, 2),
    "f64 ln 2": (lambda: mp.log(2), 53, 2),
    "f64 log10(e)": (lambda: 1 / mp.log(10), 53, 2),
    "f64 log10(2), 40 bits first": (lambda: mp.log(2, 10), 40, 2),
    "f64 2 log2(e)": (lambda: 2 / mp.log(2), 53, 2),
    "f64 2/3 log2(e)": (lambda: 2 / mp.log(2) / 3, 53, 2),
    "f64 2/5 log2(e)": (lambda: 2 / mp.log(2) / 5, 53, 2),
    "f64 pi/2": (lambda: mp.pi / 2, 53, 4),
    "f64 2/pi": (lambda: 2 / mp.pi, 53, 2),
    "f64 sqrt(1/2)": (lambda: mp.sqrt(mpf(1) / 2), 53, 2),
    "f64 2 sqrt(2/pi)": (lambda: 2 * mp.sqrt(2 / mp.pi), 53, 2),
    "f64 2 sqrt(2/pi) 0.044715": (lambda: 2 * mp.sqrt(2 / mp.pi) * mpf("0.044715"), 53, 2),
}


def show_constants():
    for name, (value, bits, parts) in CONSTANTS.items():
        kind = 24 if name.startswith("f32") else 53
        value = value()
        text = []
        for i in range(parts):
            part = rounded(value, bits if i + 1 < parts else kind)
            text.append(hexfloat(part, kind))
            value -= part
        print("%s: %s" % (name, "  ".join(text)))
    words = int(mp.floor(mp.ldexp(2 / mp.pi, 1280)))
    print("2/pi, 32 bits a word: " + " ".join("%08x" % (words >> (1280 - 32 * (i + 1)) & 0xffffffff)
          for i in range(40)))


def hexfloat(x, bits):
    if x == 0:
        return "0.0"
    m, e = mp.frexp(abs(x))
    digits = 13 if bits == 53 else 6
    scaled = int(mp.ldexp(m * 2 - 1, digits * 4))
    text = ("%0*x" % (digits, scaled)).rstrip("0") or "0"
    return "%s0x1.%sp%d" % ("-" if x < 0 else "", text, int(e) - 1) + ("f" if bits == 24 else "")


def show(name):
    c, worst = fit(*TABLE[name])
    bits, powers = TABLE[name][5], TABLE[name][4]
    print("%s: error 2^%.1f" % (name, float(mp.log(worst, 2))))
    for p, ci in zip(powers, c):
        top = rounded(ci, bits)
        tail = ci - top
        print("  %2d  %s%s" % (p, hexfloat(top, bits), "  + " + hexfloat(tail, bits) if tail else ""))


def main():
    wanted = sys.argv[1:]
    mp.dps = 500
    show_constants()
    mp.dps = 60
    for name in TABLE:
        if not wanted or any(name.startswith(w) for w in wanted):
            show(name)
            sys.stdout.flush()


if __name__ == "__main__":
    main()

/*
 * section:  math_f32
 * requires: types real
 * provides: exp_ expm1_ exp2_ sigmoid_ tanh_ sinh_ cosh_ log_ log1p_ log2_ log10_ softplus_ logaddexp_
 *           silu_ mish_ elu_ selu_ erf_ gelu_ gelu_tanh_ sin_ cos_ tan_ asin_ acos_ atan_ atan2_
 *           asinh_ acosh_ atanh_ pow_ hypot_
 * on:       f32v
 *
 * Elementary functions in single precision, without doubles and without the driver's.
 *
 * Built of + - * / fma sqrt and integer operations on bits alone, with the same steps in every lane: a
 * result depends on its argument only. Rare slow paths are entered when any lane needs them and
 * taken over by that lane alone. Results underflow gradually, overflow at the right argument, keep
 * the sign of zero, and NaN stays NaN. The worst errors stand in ulp.def; all of them were found by
 * trying every float (tests/ulp). Coefficients come from tests/ulp/coefficients.py.
 *
 * Methods: argument reduction after Cody and Waite (1980) and, for huge angles, Payne and Hanek
 * (1983); error-free sums and products after Dekker (1971) with fma; the argument transformation of
 * erfc after Shepherd and Laframboise (1981); polynomials by Remez exchange.
 */
#define STEP(y, x, c) fma(y, x, (f32v)(c))

/* Adding this rounds to an integer, which then stands in the low bits. */
#define ROUNDER 0x1.8p23f
#define ROUNDER_BITS 0x4b400000

#define LOG2_E 0x1.715476p0f
#define LN2_HIGH 0x1.62e43p-1f
#define LN2_LOW -0x1.05c61p-29f

OVL f32v within(f32v x, float low, float high) {
	x = x < low ? (f32v)low : x;
	return x > high ? (f32v)high : x;
}

/* NaN stays NaN, as above. */
OVL f32v at_most(f32v x, float high) { return x > high ? (f32v)high : x; }
OVL f32v at_least(f32v x, float low) { return x < low ? (f32v)low : x; }

/* y 2^n, rounded once also where that is subnormal; |n| up to 252. One instruction where there is such. */
#if W == 16 && defined(__AVX512F__) && defined(__has_builtin) && !defined(WITHOUT_SCALE)
#if __has_builtin(__builtin_ia32_scalefps512_mask)
#define SCALE_VECTOR
#endif
#endif
#ifdef SCALE_VECTOR
typedef float scale_vector __attribute__((vector_size(64)));
OVL f32v scale(f32v y, i32v n) {
	scale_vector s = (scale_vector)y, exponent = (scale_vector)CONVERT(float, n);

	return AS(float, __builtin_ia32_scalefps512_mask(s, exponent, s, (ushort)0xffff, 4 /* to nearest */));
}
#else
OVL f32v scale(f32v y, i32v n) {
	i32v halved = n >> 1;

	return y * power_of_two(halved) * power_of_two(n - halved);
}
#endif

/* x = n ln 2 + r with |r| at most ln 2 / 2; |x| below 2^20. */
OVL f32v exp_reduce(f32v x, private i32v *np) {
	f32v t = STEP(x, (f32v)LOG2_E, ROUNDER);
	f32v n = t - ROUNDER;

	*np = AS(int, t) - ROUNDER_BITS;
	return fma(n, (f32v)-LN2_LOW, fma(n, (f32v)-LN2_HIGH, x));
}

/* (exp(r) - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2]. */
OVL f32v exp_tail(f32v r) {
	f32v y = (f32v)0x1.6bec4p-10f;

	y = STEP(y, r, 0x1.122866p-7f);
	y = STEP(y, r, 0x1.5556c4p-5f);
	y = STEP(y, r, 0x1.5554bp-3f);
	return STEP(y, r, 0x1.fffffep-2f);
}

/* exp(x + x_low) = y 2^n with y in [0.7, 1.42], for an x_low far below 1. */
OVL f32v exp_parts(f32v x, f32v x_low, private i32v *np) {
	f32v r = exp_reduce(x, np) + x_low;

	return STEP(STEP(exp_tail(r), r, 1.0f), r, 1.0f);
}

OVL f32v exp_parts(f32v x, private i32v *np) {
	f32v r = exp_reduce(x, np);

	return STEP(STEP(exp_tail(r), r, 1.0f), r, 1.0f);
}

/* exp(x) = (1 + q) 2^n. */
OVL f32v expm1_parts(f32v x, private i32v *np) {
	f32v r = exp_reduce(x, np);

	return fma(exp_tail(r), r * r, r);
}

/* exp(-|x|), in [0, 1]. */
OVL f32v exp_of_minus(f32v magnitude) {
	i32v n;
	f32v y = exp_parts(at_least(-magnitude, -104.0f), &n);

	return scale(y, n);
}

OVL f32v exp_(f32v x) {
	i32v n;
	f32v y = exp_parts(within(x, -104.0f, 89.0f), &n);

	return scale(y, n);
}

OVL f32v exp2_(f32v x) {
	f32v z = within(x, -151.0f, 129.0f);
	f32v t = z + ROUNDER;
	f32v r = z - (t - ROUNDER);
	f32v y = (f32v)0x1.41fbf8p-13f;

	y = STEP(y, r, 0x1.5f3e9cp-10f);
	y = STEP(y, r, 0x1.3b2d78p-7f);
	y = STEP(y, r, 0x1.c6af2ap-5f);
	y = STEP(y, r, 0x1.ebfbdcp-3f);
	y = STEP(y, r, 0x1.62e43p-1f);
	return scale(STEP(y, r, 1.0f), AS(int, t) - ROUNDER_BITS);
}

/* Half of 2^n (1 + q) - 1 first, since 2^128 is no float. */
OVL f32v expm1_(f32v x) {
	i32v n;
	f32v q = expm1_parts(within(x, -20.0f, 89.0f), &n);
	f32v s = power_of_two(n - 1);
	f32v y = fma(q, s, s - 0.5f);

	return abs_(x) < 0x1p-25f ? x : y + y;
}

/* (E - 1) / (E + 1) with E = exp(2 |x|), from E - 1 so that nothing cancels. */
OVL f32v tanh_(f32v x) {
	i32v n;
	f32v q = expm1_parts(at_most(abs_(x), 9.2f) * 2.0f, &n);
	f32v s = power_of_two(n);
	f32v y = fma(q, s, s - 1.0f);

	return copysign_(y / (y + 2.0f), x);
}

OVL f32v sigmoid_(f32v x) {
	f32v e = exp_of_minus(abs_(x));

	return (x < 0.0f ? e : (f32v)1.0f) / (e + 1.0f);
}

/* With t = expm1(|x|) / 4: 2 t + 2 t / (4 t + 1). */
OVL f32v sinh_(f32v x) {
	i32v n;
	f32v q = expm1_parts(at_most(abs_(x), 89.5f), &n);
	f32v s = power_of_two(n - 2);
	f32v t = fma(q, s, s - 0.25f);
	f32v y = (t + t) + (t + t) / STEP(t, (f32v)4.0f, 1.0f);

	y = t > 0x1p126f ? t + t : y;
	return abs_(x) < 0x1p-12f ? x : copysign_(y, x);
}

OVL f32v cosh_(f32v x) {
	i32v n;
	f32v y = exp_parts(at_most(abs_(x), 90.0f), &n);
	f32v halved = scale(y, n - 1);

	return halved + (f32v)0.25f / halved;
}

/* x = 2^n (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), for x above 0; returns f. */
OVL f32v log_reduce(f32v x, private f32v *np) {
	m32v subnormal = x < 0x1p-126f;
	i32v bits = AS(int, subnormal ? x * 0x1p25f : x) - 0x3f3504f3;

	*np = CONVERT(float, (bits >> 23) - (subnormal ? (i32v)25 : (i32v)0));
	return AS(float, (bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
}

/* log(1 + f) - f on [sqrt 1/2 - 1, sqrt 2 - 1]. */
OVL f32v log_tail(f32v f) {
	f32v y = (f32v)-0x1.38a47ep-4f;

	y = STEP(y, f, 0x1.055c3ap-3f);
	y = STEP(y, f, -0x1.0d89p-3f);
	y = STEP(y, f, 0x1.22da3ap-3f);
	y = STEP(y, f, -0x1.5471fp-3f);
	y = STEP(y, f, 0x1.99a00cp-3f);
	y = STEP(y, f, -0x1.000228p-2f);
	y = STEP(y, f, 0x1.555554p-2f);
	return STEP(y, f, -0.5f) * (f * f);
}

/* n ln 2 + log(1 + f) */
OVL f32v log_sum(f32v n, f32v f) {
	f32v y = fma(n, (f32v)LN2_LOW, log_tail(f)) + f;

	return fma(n, (f32v)LN2_HIGH, y);
}

/* What a logarithm is outside of (0, infinity): y elsewhere. */
OVL f32v log_edges(f32v x, f32v y) {
	y = x < INFINITY ? y : x;
	y = x == 0.0f ? (f32v)-INFINITY : y;
	return x < 0.0f ? (f32v)NAN : y;
}

OVL f32v log_(f32v x) {
	f32v n;
	f32v f = log_reduce(x, &n);

	return log_edges(x, log_sum(n, f));
}

/* n (one_high + one_low) + log(1 + f) (scale_high + scale_low); n one_high is exact. */
OVL f32v log_scaled(f32v n, f32v f, float scale_high, float scale_low, float one_high, float one_low) {
	f32v high = f * scale_high;
	f32v low = fma(f, (f32v)scale_high, -high);
	f32v whole = n * one_high;
	f32v sum = whole + high;

	low = fma(f, (f32v)scale_low, low);
	low = fma(log_tail(f), (f32v)scale_high, low);
	low = fma(n, (f32v)one_low, low);
	return sum + (((whole - sum) + high) + low);
}

OVL f32v log2_(f32v x) {
	f32v n;
	f32v f = log_reduce(x, &n);

	return log_edges(x, log_scaled(n, f, LOG2_E, 0x1.4ae0cp-26f, 1.0f, 0.0f));
}

OVL f32v log10_(f32v x) {
	f32v n;
	f32v f = log_reduce(x, &n);

	return log_edges(x, log_scaled(n, f, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f, 0x1.344p-2f, 0x1.3509f8p-18f));
}

/*
 * log(1 + x) for x above -1: f is (1 + x) 2^-n - 1 with one rounding; beyond 2^30 the 1 is lost anyway, and
 * 2^-n might be no float.
 */
OVL f32v log1p_inside(f32v x) {
	i32v bits = AS(int, x + 1.0f) - 0x3f3504f3;
	i32v exponent = bits & ~0x7fffff;
	f32v s = AS(float, 0x3f800000 - exponent);
	f32v large = AS(float, (bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
	f32v f = fma(x, s, s - 1.0f);

	return log_sum(CONVERT(float, exponent >> 23), x > 0x1p30f ? large : f);
}

OVL f32v log1p_(f32v x) {
	f32v y = log1p_inside(x);

	y = log_edges(x + 1.0f, y);
	return abs_(x) < 0x1p-25f ? x : y;
}

OVL f32v softplus_(f32v x) {
	f32v e = exp_of_minus(abs_(x));
	f32v y = e < 0x1p-25f ? e : log1p_inside(e);

	return relu_(x) + y;
}

OVL f32v logaddexp_(f32v a, f32v b) {
	f32v difference = a == b ? (f32v)0.0f : a - b;
	f32v e = exp_of_minus(abs_(difference));
	f32v y = e < 0x1p-25f ? e : log1p_inside(e);

	return max_(a, b) + y;
}

/*
 * x e^z / (1 + e^z) = x / (1 + e^-z) with e = exp(-|z|) = p 2^n: the power of two comes last, since a
 * subnormal e has few bits.
 */
OVL f32v times_sigmoid(f32v x, f32v z, f32v z_low) {
	i32v n;
	m32v below = z < 0.0f;
	f32v p = exp_parts(at_least(-abs_(z), -120.0f), below ? z_low : -z_low, &n);
	f32v y;

	y = (x < -120.0f ? (f32v)-120.0f : x) * (below ? p : (f32v)1.0f) / (scale(p, n) + 1.0f);
	y = scale(y, below ? n : (i32v)0);
	return x == -INFINITY ? (f32v)NAN : y;
}

OVL f32v silu_(f32v x) {
	return times_sigmoid(x, x, (f32v)0.0f);
}

/* x sigmoid(z), z = 2 sqrt(2/pi) (x + 0.044715 x^3), computed as a sum of two floats. */
OVL f32v gelu_tanh_(f32v x) {
	f32v y = within(x, -12.0f, 12.0f);
	f32v s = y * y;
	f32v s_low = fma(y, y, -s);
	f32v cubic = s * 0x1.2444f2p-4f;
	f32v cubic_low = fma(s, (f32v)0x1.2444f2p-4f, -cubic);
	f32v t, t_low, z, z_low;

	cubic_low = fma(s, (f32v)0x1.49b16ap-29f, fma(s_low, (f32v)0x1.2444f2p-4f, cubic_low));
	t = cubic + 0x1.988454p0f;
	t_low = s < 22.0f ? (0x1.988454p0f - t) + cubic : (cubic - t) + 0x1.988454p0f;
	t_low += cubic_low - 0x1.857936p-25f;
	z = y * t;
	z_low = fma(y, t, -z);
	z_low = fma(y, t_low, z_low);
	return times_sigmoid(x, z, z_low);
}

/* tanh(softplus(x)) = e (e + 2) / (e (e + 2) + 2), e = exp(x) = p 2^n; scaled last as above. */
OVL f32v mish_(f32v x) {
	i32v n;
	m32v below = x < 0.0f;
	f32v z = within(x, -110.0f, 40.0f);
	f32v p = exp_parts(z, &n);
	f32v e = scale(p, n);
	f32v factor = below ? p : e;
	f32v y = fma(factor, e, factor + factor) / fma(e, e + 2.0f, (f32v)2.0f);

	y = scale(y * (below ? z : x), below ? n : (i32v)0);
	return x == -INFINITY ? (f32v)NAN : y;
}

OVL f32v elu_(f32v a, f32v b) {
	return a < 0.0f ? b * expm1_(a) : a;
}

OVL f32v selu_(f32v x) {
	f32v y = 0x1.c212ccp0f * expm1_(x);

	return x < 0.0f ? y : x * 0x1.0cfabep0f;
}

/* Below 1 an odd polynomial, above 1 - exp(polynomial). */
OVL f32v erf_(f32v x) {
	f32v a = at_most(abs_(x), 4.0f);
	f32v u = a * a;
	f32v y = (f32v)0x1.4771fcp-14f;
	f32v z = (f32v)0x1.57c874p-16f;
	i32v n;

	y = STEP(y, u, -0x1.a3515ep-11f);
	y = STEP(y, u, 0x1.53f224p-8f);
	y = STEP(y, u, -0x1.b7f71ap-6f);
	y = STEP(y, u, 0x1.ce2ce6p-4f);
	y = STEP(y, u, -0x1.81273ep-2f);
	y = STEP(y, u, 0x1.06eba8p-3f);
	y = fma(y, a, a);
	z = STEP(z, a, -0x1.c027cp-12f);
	z = STEP(z, a, 0x1.0f146p-8f);
	z = STEP(z, a, -0x1.9a093ep-6f);
	z = STEP(z, a, 0x1.baeaep-4f);
	z = STEP(z, a, 0x1.4457cp-1f);
	z = STEP(z, a, 0x1.21236cp0f);
	z = STEP(z, a, -0x1.4ff18cp-13f);
	z = exp_parts(-z, &n);
	z = 1.0f - z * power_of_two(n);
	return copysign_(a < 1.0f ? y : z, x);
}

/*
 * x Phi(x). Phi(-|x|) = exp(-x^2 / 2) g(b), b = |x| / sqrt 2, g(b) = exp(b^2) erfc(b) / 2, which
 * times b + 2 is a polynomial in (b - 2) / (b + 2). The square and 1 / (b + 2) are sums of two
 * floats; the power of two comes last.
 */
OVL f32v gelu_(f32v x) {
	f32v a = at_most(abs_(x), 14.5f);
	f32v d = STEP(a, (f32v)0x1.6a09e6p-1f, 2.0f);
	f32v d_low = fma(a, (f32v)0x1.6a09e6p-1f, 2.0f - d);
	f32v t = (f32v)1.0f / d;
	f32v rest = fma(-t, d_low, STEP(-t, d, 1.0f));
	f32v z = fma(t * rest, (f32v)-4.0f, STEP(t, (f32v)-4.0f, 1.0f));
	f32v s = a * a, s_low = fma(a, a, -s);
	f32v y = (f32v)0x1.269b0ep-15f;
	f32v p, tail, upper;
	i32v n;

	y = STEP(y, z, 0x1.95af2p-16f);
	y = STEP(y, z, -0x1.36b346p-12f);
	y = STEP(y, z, -0x1.b4e9eep-12f);
	y = STEP(y, z, 0x1.916116p-10f);
	y = STEP(y, z, 0x1.a86dbap-9f);
	y = STEP(y, z, -0x1.60591cp-7f);
	y = STEP(y, z, -0x1.2a882ap-6f);
	y = STEP(y, z, 0x1.1e2dd8p-3f);
	y = STEP(y, z, -0x1.5fd386p-2f);
	y = STEP(y, z, -0x1.dc195p-28f) + 0x1.058672p-1f;
	p = exp_parts(s * -0.5f, fma(s_low, (f32v)-0.5f, rest), &n);
	tail = y * t * p;
	upper = 1.0f - scale(tail, n);
	y = scale(x < 0.0f ? -a * tail : x * upper, x < 0.0f ? n : (i32v)0);
	return x == -INFINITY ? (f32v)NAN : y;
}

/*
 * Angles. x = q pi/2 + r, |r| at most pi/4, q modulo 4 in the low bits of *qp.
 */
#define HALF_PI_HIGH 0x1.921fb6p0f
#define HALF_PI_LOW -0x1.777a5cp-25f
#define HALF_PI_LAST -0x1.ee59dap-50f

/* The k-th 32-bit word of the fraction of 2/pi behind one empty word, for k = index + k0, index 0..4. */
#define WORD(index, w0, w1, w2, w3, w4) \
	((index) == 0u ? (u32v)w0 : ((index) == 1u ? (u32v)w1 : ((index) == 2u ? (u32v)w2 : \
		((index) == 3u ? (u32v)w3 : (u32v)w4))))

/*
 * For 2^17 <= |x| < infinity: the fraction of x 2/pi from the 96 bits of 2/pi that matter (those before them
 * only add multiples of 4); 62 bits of it remain, of which at most 30 are zeros.
 */
OVL f32v reduce_huge_angle(f32v x, private u32v *qp) {
	u32v bits = AS(uint, x);
	u32v first = ((bits >> 23) & 0xffu) - (127u - 32u + 25u);
	u32v index = first >> 5;
	u64v shift = CONVERT(ulong, first & 31u);
	u64v mantissa = CONVERT(ulong, (bits & 0x7fffffu) | 0x800000u);
	u32v w0 = WORD(index, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u);
	u32v w1 = WORD(index, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u);
	u32v w2 = WORD(index, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
	u32v w3 = WORD(index, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
	u64v v0 = ((CONVERT(ulong, w0) << (u64v)32 | CONVERT(ulong, w1)) << shift) >> (u64v)32;
	u64v v1 = ((CONVERT(ulong, w1) << (u64v)32 | CONVERT(ulong, w2)) << shift) >> (u64v)32;
	u64v v2 = ((CONVERT(ulong, w2) << (u64v)32 | CONVERT(ulong, w3)) << shift) >> (u64v)32;
	u64v p1 = mantissa * v1 + ((mantissa * v2) >> (u64v)32);
	u64v p = (mantissa * v0 << (u64v)32) + p1;
	u64v q = (p + ((u64v)1 << (u64v)61)) >> (u64v)62;
	i64v fraction = AS(long, p << (u64v)2) >> (i64v)1;
	f32v high = CONVERT(float, fraction);
	f32v low = CONVERT(float, fraction - CONVERT(long, high));
	f32v r = fma(high, (f32v)HALF_PI_HIGH, fma(high, (f32v)HALF_PI_LOW, low * HALF_PI_HIGH)) * 0x1p-63f;

	*qp = AS(int, x) < 0 ? 0u - CONVERT(uint, q) : CONVERT(uint, q);
	return AS(int, x) < 0 ? -r : r;
}

OVL f32v reduce_angle(f32v x, private u32v *qp) {
	f32v t = STEP(x, (f32v)0x1.45f306p-1f, ROUNDER);
	f32v n = t - ROUNDER;
	f32v r = fma(n, (f32v)-HALF_PI_HIGH, x);
	f32v a = abs_(x);
	m32v huge = (a >= 0x1p17f) & (a < INFINITY);

	r = fma(n, (f32v)-HALF_PI_LOW, r);
	r = fma(n, (f32v)-HALF_PI_LAST, r);
	*qp = AS(uint, t);
	if (ANY(huge)) {
		u32v q;
		f32v y = reduce_huge_angle(huge ? x : (f32v)0x1p17f, &q);

		r = huge ? y : r;
		*qp = huge ? q : *qp;
	}
	return r;
}

/* sin(r) and cos(r) on [-pi/4, pi/4], u = r^2. */
OVL f32v sin_inside(f32v r, f32v u) {
	f32v y = (f32v)0x1.7bffbp-19f;

	y = STEP(y, u, -0x1.a059p-13f);
	y = STEP(y, u, 0x1.111174p-7f);
	y = STEP(y, u, -0x1.555556p-3f);
	return fma(y * u, r, r);
}

OVL f32v cos_inside(f32v u) {
	f32v y = (f32v)0x1.99e42cp-16f;

	y = STEP(y, u, -0x1.6c0c2p-10f);
	y = STEP(y, u, 0x1.55554ap-5f);
	y = STEP(y, u, -0.5f);
	return STEP(y, u, 1.0f);
}

/* sin(r + q pi/2) */
OVL f32v sin_of_quadrant(f32v r, u32v q) {
	f32v u = r * r;
	f32v y = (q & 1u) != 0u ? cos_inside(u) : sin_inside(r, u);

	return AS(float, AS(uint, y) ^ ((q & 2u) << 30));
}

OVL f32v sin_(f32v x) {
	u32v q;
	f32v r = reduce_angle(x, &q);

	return x == 0.0f ? x : sin_of_quadrant(r, q);
}

OVL f32v cos_(f32v x) {
	u32v q;
	f32v r = reduce_angle(x, &q);

	return sin_of_quadrant(r, q + 1u);
}

OVL f32v tan_(f32v x) {
	u32v q;
	f32v r = reduce_angle(x, &q);
	f32v u = r * r;
	f32v y = (f32v)0x1.36e7aep-7f;

	y = STEP(y, u, 0x1.8265a8p-9f);
	y = STEP(y, u, 0x1.9200dcp-6f);
	y = STEP(y, u, 0x1.b54dd6p-5f);
	y = STEP(y, u, 0x1.112f9p-3f);
	y = STEP(y, u, 0x1.5554d6p-2f);
	y = fma(y * u, r, r);
	y = (q & 1u) != 0u ? (f32v)-1.0f / y : y;
	return x == 0.0f ? x : y;
}

/* asin(s) on [0, 1/2], u = s^2. */
OVL f32v asin_inside(f32v s, f32v u) {
	f32v y = (f32v)0x1.596e06p-5f;

	y = STEP(y, u, 0x1.8c2d04p-6f);
	y = STEP(y, u, 0x1.747d0cp-5f);
	y = STEP(y, u, 0x1.3301fcp-4f);
	y = STEP(y, u, 0x1.5555c8p-3f);
	return fma(y * u, s, s);
}

/* Above 1/2: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). */
OVL f32v asin_(f32v x) {
	f32v a = abs_(x);
	m32v large = a > 0.5f;
	f32v u = large ? (1.0f - a) * 0.5f : a * a;
	f32v y = asin_inside(large ? sqrt(u) : a, u);

	y = large ? STEP(y, (f32v)-2.0f, HALF_PI_HIGH) + HALF_PI_LOW : y;
	return copysign_(y, x);
}

OVL f32v acos_(f32v x) {
	f32v a = abs_(x);
	m32v large = a > 0.5f;
	f32v u = large ? (1.0f - a) * 0.5f : a * a;
	f32v y = asin_inside(large ? sqrt(u) : a, u);
	f32v inner = (HALF_PI_LOW - copysign_(y, x)) + HALF_PI_HIGH;
	f32v outer = y + y;

	outer = x < 0.0f ? (2.0f * HALF_PI_LOW - outer) + 2.0f * HALF_PI_HIGH : outer;
	return large ? outer : inner;
}

/* atan(x) on [0, 1]. */
OVL f32v atan_inside(f32v x) {
	f32v u = x * x;
	f32v y = (f32v)-0x1.d3bb2cp-10f;

	y = STEP(y, u, 0x1.6447cap-7f);
	y = STEP(y, u, -0x1.fd902cp-6f);
	y = STEP(y, u, 0x1.da2dfp-5f);
	y = STEP(y, u, -0x1.58095ep-4f);
	y = STEP(y, u, 0x1.c08c4ap-4f);
	y = STEP(y, u, -0x1.242086p-3f);
	y = STEP(y, u, 0x1.9991e4p-3f);
	y = STEP(y, u, -0x1.55553ep-2f);
	return fma(y * u, x, x);
}

OVL f32v atan_(f32v x) {
	f32v a = abs_(x);
	f32v y = atan_inside(a > 1.0f ? (f32v)1.0f / a : a);

	y = a > 1.0f ? (HALF_PI_LOW - y) + HALF_PI_HIGH : y;
	return copysign_(y, x);
}

/* y is the ordinate. The smaller over the larger magnitude, then by octant. */
OVL f32v atan2_(f32v y, f32v x) {
	f32v a = abs_(x), b = abs_(y);
	m32v steep = b > a;
	f32v larger = steep ? b : a, smaller = steep ? a : b;
	f32v q = smaller / larger;
	f32v r;

	q = larger == 0.0f ? (f32v)0.0f : q;
	q = smaller == INFINITY ? (f32v)1.0f : q;
	r = atan_inside(q);
	r = steep ? (HALF_PI_LOW - r) + HALF_PI_HIGH : r;
	r = AS(int, x) < 0 ? (2.0f * HALF_PI_LOW - r) + 2.0f * HALF_PI_HIGH : r;
	return copysign_(((x != x) | (y != y)) ? (f32v)NAN : r, y);
}

/* log(|x| + sqrt(x^2 + 1)) = log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))), log(2 |x|) where it is huge. */
OVL f32v asinh_(f32v x) {
	f32v a = abs_(x);
	m32v huge = a > 0x1p40f;
	f32v u = a * a;
	f32v t = huge ? a : a + u / (1.0f + sqrt(u + 1.0f));
	f32v y = log1p_inside(t);

	y = huge ? (y + LN2_LOW) + LN2_HIGH : y;
	y = a < 0x1p-12f ? a : y;
	return copysign_(a < INFINITY ? y : a, x);
}

/* log1p(t + sqrt(t (t + 2))), t = x - 1. */
OVL f32v acosh_(f32v x) {
	m32v huge = x > 0x1p40f;
	f32v t = x - 1.0f;
	f32v y = log1p_inside(huge ? t : t + sqrt(fma(t, t, t + t)));

	y = huge ? (y + LN2_LOW) + LN2_HIGH : y;
	y = x < INFINITY ? y : x;
	return x < 1.0f ? (f32v)NAN : y;
}

/* log1p(2 a / (1 - a)) / 2 */
OVL f32v atanh_(f32v x) {
	f32v a = abs_(x);
	f32v y = log1p_inside((a + a) / (1.0f - a)) * 0.5f;

	y = a < 0x1p-12f ? a : y;
	y = a == 1.0f ? (f32v)INFINITY : y;
	return copysign_(a > 1.0f ? (f32v)NAN : y, x);
}

/*
 * log2(x) as a sum of two floats, for 0 < x < infinity: with s = f / (2 + f) in two floats,
 * log(1 + f) = 2 atanh(s) = 2 s (1 + s^2 (1/3 + s^2 ...)), and the terms of s and s^3 in two.
 */
OVL f32v log2_double(f32v x, private f32v *lowp) {
	f32v n, f = log_reduce(x, &n);
	f32v below = f + 2.0f, below_low = f - (below - 2.0f);
	f32v reciprocal = (f32v)1.0f / below;
	f32v s = f * reciprocal;
	f32v s_low = reciprocal * fma(-s, below_low, fma(-s, below, f));
	f32v u = s * s, u_low = fma(s + s, s_low, fma(s, s, -u));
	f32v y = (f32v)0x1.59eea8p-2f;
	f32v c, c_low, p, p_low, t;

	/* 2 log2(e) (1/3 + u y), then times u */
	y = STEP(y, u, 0x1.a5bbf6p-2f);
	y = STEP(y, u, 0x1.27770ep-1f) * u;
	c = y + 0x1.ec709ep-1f;
	c_low = ((0x1.ec709ep-1f - c) + y) - 0x1.e2fe02p-28f;
	p = c * u;
	p_low = fma(c, u, -p);
	p_low = fma(c, u_low, fma(c_low, u, p_low));
	/* 2 log2(e) + that, times s */
	c = p + 0x1.715476p1f;
	c_low = ((0x1.715476p1f - c) + p) + (p_low + 0x1.4ae0cp-25f);
	p = c * s;
	p_low = fma(c, s, -p);
	p_low = fma(c, s_low, fma(c_low, s, p_low));
	t = n + p;
	p_low += (n - t) + p;
	*lowp = p_low;
	return t;
}

/* 2^(high + low) */
OVL f32v exp2_double(f32v high, f32v low) {
	f32v z = within(high, -160.0f, 140.0f);
	f32v t = z + ROUNDER;
	f32v r = (z - (t - ROUNDER)) + low;
	f32v y = (f32v)0x1.41fbf8p-13f;

	y = STEP(y, r, 0x1.5f3e9cp-10f);
	y = STEP(y, r, 0x1.3b2d78p-7f);
	y = STEP(y, r, 0x1.c6af2ap-5f);
	y = STEP(y, r, 0x1.ebfbdcp-3f);
	y = STEP(y, r, 0x1.62e43p-1f);
	return scale(STEP(y, r, 1.0f), AS(int, t) - ROUNDER_BITS);
}

/* The cases of IEEE 754's pow; a is |x|, y the power of a. */
OVL f32v pow_edges(f32v x, f32v y, f32v a, f32v power) {
	f32v halved = y * 0.5f;
	m32v whole = rint(y) == y;
	m32v odd = whole & (rint(halved) != halved);
	m32v negative = AS(int, x) < 0;
	m32v edge = (a == 0.0f) | (a == INFINITY) | (abs_(y) == INFINITY);
	f32v limit = (((a > 1.0f) & (y > 0.0f)) | ((a < 1.0f) & (y < 0.0f))) ? (f32v)INFINITY : (f32v)0.0f;

	power = edge ? limit : power;
	power = (negative & odd) ? -power : power;
	power = ((x < 0.0f) & !whole & (a < INFINITY)) ? (f32v)NAN : power;
	power = ((x != x) | (y != y)) ? (f32v)NAN : power;
	power = ((a == 1.0f) & (abs_(y) == INFINITY)) ? (f32v)1.0f : power;
	return ((x == 1.0f) | (y == 0.0f)) ? (f32v)1.0f : power;
}

OVL f32v pow_(f32v x, f32v y) {
	f32v a = abs_(x);
	f32v low, high = log2_double(a, &low);
	f32v z = y * high;
	f32v z_low = fma(y, low, fma(y, high, -z));

	z_low = abs_(z) < 200.0f ? z_low : (f32v)0.0f;
	return pow_edges(x, y, a, exp2_double(z, z_low));
}

/* Scaled by a power of two where the squares would leave the normal range. */
OVL f32v hypot_(f32v x, f32v y) {
	f32v a = abs_(x), b = abs_(y);
	f32v larger = a > b ? a : b, smaller = a > b ? b : a;
	m32v high = larger > 0x1p60f, low = larger < 0x1p-60f;
	f32v down = high ? (f32v)0x1p-80f : (low ? (f32v)0x1p80f : (f32v)1.0f);
	f32v up = high ? (f32v)0x1p80f : (low ? (f32v)0x1p-80f : (f32v)1.0f);
	f32v s = larger * down, t = smaller * down;
	f32v r = sqrt(fma(s, s, t * t)) * up;

	r = ((x != x) | (y != y)) ? (f32v)NAN : r;
	return ((a == INFINITY) | (b == INFINITY)) ? (f32v)INFINITY : r;
}

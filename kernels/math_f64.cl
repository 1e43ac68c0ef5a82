/*
 * section:  math_f64
 * requires: types real
 * provides: exp_ expm1_ exp2_ sigmoid_ tanh_ sinh_ cosh_ log_ log1p_ log2_ log10_ softplus_ logaddexp_
 *           silu_ mish_ elu_ selu_ erf_ gelu_ gelu_tanh_ sin_ cos_ tan_ asin_ acos_ atan_ atan2_
 *           asinh_ acosh_ atanh_ pow_ hypot_
 * on:       f64v, and only where HAS_F64 is defined
 *
 * Elementary functions in double precision, by the promises and methods of math_f32.cl; neither
 * file needs the other. Where they differ: logarithms divide (the atanh form that fdlibm, 1993,
 * describes), atan reduces to tan(pi/8), tan is a quotient, erf and gelu share one erfc.
 */
#ifdef HAS_F64
#define STEP64(y, x, c) fma(y, x, (f64v)(c))

/* Adding this rounds to an integer, which then stands in the low bits. */
#define ROUNDER64 0x1.8p52
#define ROUNDER64_BITS 0x4338000000000000L

#define LOG2_E64 0x1.71547652b82fep0
#define LN2_HIGH64 0x1.62e42fefa39efp-1
#define LN2_LOW64 0x1.abc9e3b39803fp-56

OVL f64v within(f64v x, double low, double high) {
	x = x < low ? (f64v)low : x;
	return x > high ? (f64v)high : x;
}

/* y 2^n, rounded once also where that is subnormal; |n| up to 2044. */
OVL f64v scale(f64v y, i64v n) {
	i64v halved = n >> 1;

	return y * power_of_two(halved) * power_of_two(n - halved);
}

/* x = n ln 2 + r with |r| at most ln 2 / 2; |x| below 2^50. */
OVL f64v exp_reduce(f64v x, private i64v *np) {
	f64v t = STEP64(x, (f64v)LOG2_E64, ROUNDER64);
	f64v n = t - ROUNDER64;

	*np = AS(long, t) - ROUNDER64_BITS;
	return fma(n, (f64v)-LN2_LOW64, fma(n, (f64v)-LN2_HIGH64, x));
}

/* (exp(r) - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2]. */
OVL f64v exp_tail(f64v r) {
	f64v y = (f64v)0x1.1fecec8940045p-29;

	y = STEP64(y, r, 0x1.af62ced29df29p-26);
	y = STEP64(y, r, 0x1.27e49bccee0bcp-22);
	y = STEP64(y, r, 0x1.71ddf64fb484bp-19);
	y = STEP64(y, r, 0x1.a01a01bd00e54p-16);
	y = STEP64(y, r, 0x1.a01a01b08ab01p-13);
	y = STEP64(y, r, 0x1.6c16c16c134dcp-10);
	y = STEP64(y, r, 0x1.111111110f58cp-7);
	y = STEP64(y, r, 0x1.5555555555559p-5);
	y = STEP64(y, r, 0x1.5555555555559p-3);
	return STEP64(y, r, 0x1p-1);
}

/* exp(x + x_low) = y 2^n with y in [0.7, 1.42], for an x_low far below 1. */
OVL f64v exp_parts(f64v x, f64v x_low, private i64v *np) {
	f64v r = exp_reduce(x, np) + x_low;

	return STEP64(STEP64(exp_tail(r), r, 1.0), r, 1.0);
}

OVL f64v exp_parts(f64v x, private i64v *np) {
	f64v r = exp_reduce(x, np);

	return STEP64(STEP64(exp_tail(r), r, 1.0), r, 1.0);
}

/* exp(x) = (1 + q) 2^n. */
OVL f64v expm1_parts(f64v x, private i64v *np) {
	f64v r = exp_reduce(x, np);

	return fma(exp_tail(r), r * r, r);
}

/* exp(-|x|), in [0, 1]. */
OVL f64v exp_of_minus(f64v magnitude) {
	i64v n;
	f64v y = exp_parts(within(-magnitude, -746.0, 0.0), &n);

	return scale(y, n);
}

OVL f64v exp_(f64v x) {
	i64v n;
	f64v y = exp_parts(within(x, -746.0, 710.0), &n);

	return scale(y, n);
}

/* 2^r on [-1/2, 1/2], ln 2 as a sum of two. */
OVL f64v exp2_inside(f64v r) {
	f64v y = (f64v)0x1.cc9031d34debfp-36;

	y = STEP64(y, r, 0x1.ea154b32a7891p-32);
	y = STEP64(y, r, 0x1.e4ca3f758f82cp-28);
	y = STEP64(y, r, 0x1.b524d1e7c1365p-24);
	y = STEP64(y, r, 0x1.62c023387d73dp-20);
	y = STEP64(y, r, 0x1.ffcbfc7927e7dp-17);
	y = STEP64(y, r, 0x1.430912f84d4e1p-13);
	y = STEP64(y, r, 0x1.5d87fe78a1d82p-10);
	y = STEP64(y, r, 0x1.3b2ab6fba4e45p-7);
	y = STEP64(y, r, 0x1.c6b08d704a0dp-5);
	y = STEP64(y, r, 0x1.ebfbdff82c58fp-3);
	y = STEP64(y, r, 0x1.9badc039d25dcp-56);
	return fma(r, (f64v)0x1.62e42fefa39efp-1, y * r) + 1.0;
}

OVL f64v exp2_(f64v x) {
	f64v z = within(x, -1076.0, 1025.0);
	f64v t = z + ROUNDER64;

	return scale(exp2_inside(z - (t - ROUNDER64)), AS(long, t) - ROUNDER64_BITS);
}

/* Half of 2^n (1 + q) - 1 first, since 2^1024 is no double. */
OVL f64v expm1_(f64v x) {
	i64v n;
	f64v q = expm1_parts(within(x, -40.0, 710.0), &n);
	f64v s = power_of_two(n - 1);
	f64v y = fma(q, s, s - 0.5);

	return abs_(x) < 0x1p-54 ? x : y + y;
}

/* (E - 1) / (E + 1) with E = exp(2 |x|), from E - 1 so that nothing cancels. */
OVL f64v tanh_(f64v x) {
	i64v n;
	f64v q = expm1_parts(within(abs_(x), 0.0, 20.0) * 2.0, &n);
	f64v s = power_of_two(n);
	f64v y = fma(q, s, s - 1.0);

	return copysign_(y / (y + 2.0), x);
}

OVL f64v sigmoid_(f64v x) {
	f64v e = exp_of_minus(abs_(x));

	return (x < 0.0 ? e : (f64v)1.0) / (e + 1.0);
}

/* With t = expm1(|x|) / 4: 2 t + 2 t / (4 t + 1). */
OVL f64v sinh_(f64v x) {
	i64v n;
	f64v q = expm1_parts(within(abs_(x), 0.0, 710.6), &n);
	f64v s = power_of_two(n - 2);
	f64v t = fma(q, s, s - 0.25);
	f64v y = (t + t) + (t + t) / STEP64(t, (f64v)4.0, 1.0);

	y = t > 0x1p1022 ? t + t : y;
	return abs_(x) < 0x1p-27 ? x : copysign_(y, x);
}

OVL f64v cosh_(f64v x) {
	i64v n;
	f64v y = exp_parts(within(abs_(x), 0.0, 710.6), &n);
	f64v halved = scale(y, n - 1);

	return halved + (f64v)0.25 / halved;
}

/* x = 2^n (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), for x above 0; returns f. */
OVL f64v log_reduce(f64v x, private f64v *np) {
	m64v subnormal = x < 0x1p-1022;
	i64v bits = AS(long, subnormal ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcdL;

	*np = CONVERT(double, (bits >> (i64v)52) - (subnormal ? (i64v)54 : (i64v)0));
	return AS(double, (bits & 0xfffffffffffffL) + 0x3fe6a09e667f3bcdL) - 1.0;
}

/*
 * log(1 + f) - f on [sqrt 1/2 - 1, sqrt 2 - 1]: with s = f / (2 + f), log(1 + f) is 2 atanh(s), and
 * 2 s is f - s f, so that the terms beyond f are s (f^2/2 + 2 u y) - f^2/2.
 */
OVL f64v log_tail(f64v f) {
	f64v s = f / (f + 2.0);
	f64v u = s * s;
	f64v square = 0.5 * f * f;
	f64v y = (f64v)0x1.0f0fb3aed71b6p-4;

	y = STEP64(y, u, 0x1.0f670fb5b6fbfp-4);
	y = STEP64(y, u, 0x1.3b2026cc0ed79p-4);
	y = STEP64(y, u, 0x1.745ce1bbbc6b5p-4);
	y = STEP64(y, u, 0x1.c71c724b8e2d4p-4);
	y = STEP64(y, u, 0x1.2492492439626p-3);
	y = STEP64(y, u, 0x1.9999999999d12p-3);
	y = STEP64(y, u, 0x1.5555555555555p-2);
	return fma(s, fma(u + u, y, square), -square);
}

/* n ln 2 + log(1 + f) */
OVL f64v log_sum(f64v n, f64v f) {
	f64v y = fma(n, (f64v)LN2_LOW64, log_tail(f)) + f;

	return fma(n, (f64v)LN2_HIGH64, y);
}

/* What a logarithm is outside of (0, infinity): y elsewhere. */
OVL f64v log_edges(f64v x, f64v y) {
	y = x < INFINITY ? y : x;
	y = x == 0.0 ? (f64v)-INFINITY : y;
	return x < 0.0 ? (f64v)NAN : y;
}

OVL f64v log_(f64v x) {
	f64v n;
	f64v f = log_reduce(x, &n);

	return log_edges(x, log_sum(n, f));
}

/* n (one_high + one_low) + log(1 + f) (scale_high + scale_low); n one_high is exact. */
OVL f64v log_scaled(f64v n, f64v f, double scale_high, double scale_low, double one_high, double one_low) {
	f64v high = f * scale_high;
	f64v low = fma(f, (f64v)scale_high, -high);
	f64v whole = n * one_high;
	f64v sum = whole + high;

	low = fma(f, (f64v)scale_low, low);
	low = fma(log_tail(f), (f64v)scale_high, low);
	low = fma(n, (f64v)one_low, low);
	return sum + (((whole - sum) + high) + low);
}

OVL f64v log2_(f64v x) {
	f64v n;
	f64v f = log_reduce(x, &n);

	return log_edges(x, log_scaled(n, f, LOG2_E64, 0x1.777d0ffda0d24p-56, 1.0, 0.0));
}

OVL f64v log10_(f64v x) {
	f64v n;
	f64v f = log_reduce(x, &n);

	return log_edges(x, log_scaled(n, f, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f8p-2,
		-0x1.80433b83b532ap-44));
}

/*
 * log(1 + x) for x above -1: f is (1 + x) 2^-n - 1 with one rounding; beyond 2^60 the 1 is lost anyway, and
 * 2^-n might be no float.
 */
OVL f64v log1p_inside(f64v x) {
	i64v bits = AS(long, x + 1.0) - 0x3fe6a09e667f3bcdL;
	i64v exponent = bits & ~0xfffffffffffffL;
	f64v s = AS(double, 0x3ff0000000000000L - exponent);
	f64v large = AS(double, (bits & 0xfffffffffffffL) + 0x3fe6a09e667f3bcdL) - 1.0;
	f64v f = fma(x, s, s - 1.0);

	return log_sum(CONVERT(double, exponent >> (i64v)52), x > 0x1p60 ? large : f);
}

OVL f64v log1p_(f64v x) {
	f64v y = log1p_inside(x);

	y = log_edges(x + 1.0, y);
	return abs_(x) < 0x1p-54 ? x : y;
}

OVL f64v softplus_(f64v x) {
	f64v e = exp_of_minus(abs_(x));
	f64v y = e < 0x1p-54 ? e : log1p_inside(e);

	return relu_(x) + y;
}

OVL f64v logaddexp_(f64v a, f64v b) {
	f64v difference = a == b ? (f64v)0.0 : a - b;
	f64v e = exp_of_minus(abs_(difference));
	f64v y = e < 0x1p-54 ? e : log1p_inside(e);

	return max_(a, b) + y;
}

/*
 * x e^z / (1 + e^z) = x / (1 + e^-z) with e = exp(-|z|) = p 2^n: the power of two comes last, since a
 * subnormal e has few bits.
 */
OVL f64v times_sigmoid(f64v x, f64v z, f64v z_low) {
	i64v n;
	m64v below = z < 0.0;
	f64v p = exp_parts(within(-abs_(z), -800.0, 0.0), below ? z_low : -z_low, &n);
	f64v y;

	y = (x < -800.0 ? (f64v)-800.0 : x) * (below ? p : (f64v)1.0) / (scale(p, n) + 1.0);
	y = scale(y, below ? n : (i64v)0);
	return x == -INFINITY ? (f64v)NAN : y;
}

OVL f64v silu_(f64v x) {
	return times_sigmoid(x, x, (f64v)0.0);
}

/* x sigmoid(z), z = 2 sqrt(2/pi) (x + 0.044715 x^3), computed as a sum of two doubles. */
OVL f64v gelu_tanh_(f64v x) {
	f64v y = within(x, -22.0, 22.0);
	f64v s = y * y;
	f64v s_low = fma(y, y, -s);
	f64v cubic = s * 0x1.2444f2a4d8b4bp-4;
	f64v cubic_low = fma(s, (f64v)0x1.2444f2a4d8b4bp-4, -cubic);
	f64v t, t_low, z, z_low;

	cubic_low = fma(s, (f64v)-0x1.6c843a29d1c7p-61, fma(s_low, (f64v)0x1.2444f2a4d8b4bp-4, cubic_low));
	t = cubic + 0x1.9884533d43651p0;
	t_low = s < 22.0 ? (0x1.9884533d43651p0 - t) + cubic : (cubic - t) + 0x1.9884533d43651p0;
	t_low += cubic_low - 0x1.cbc0d30ebfd15p-54;
	z = y * t;
	z_low = fma(y, t, -z);
	z_low = fma(y, t_low, z_low);
	return times_sigmoid(x, z, z_low);
}

/* tanh(softplus(x)) = e (e + 2) / (e (e + 2) + 2), e = exp(x) = p 2^n; scaled last as above. */
OVL f64v mish_(f64v x) {
	i64v n;
	m64v below = x < 0.0;
	f64v z = within(x, -760.0, 40.0);
	f64v p = exp_parts(z, &n);
	f64v e = scale(p, n);
	f64v factor = below ? p : e;
	f64v y = fma(factor, e, factor + factor) / fma(e, e + 2.0, (f64v)2.0);

	y = scale(y * (below ? z : x), below ? n : (i64v)0);
	return x == -INFINITY ? (f64v)NAN : y;
}

OVL f64v elu_(f64v a, f64v b) {
	return a < 0.0 ? b * expm1_(a) : a;
}

OVL f64v selu_(f64v x) {
	f64v y = 0x1.c212cc640f030p+0 * expm1_(x);

	return x < 0.0 ? y : x * 0x1.0cfabd6a91132p+0;
}

/*
 * erfc(b) / 2 = exp(-b^2) g(b), where (b + 4) g(b) is a polynomial in (b - 4) / (b + 4). Given
 * t + t_low = 1 / (b + 4), returns t times the polynomial.
 */
OVL f64v erfc_factor(f64v t, f64v t_low) {
	f64v z = fma(t_low, (f64v)-8.0, STEP64(t, (f64v)-8.0, 1.0));
	f64v y = (f64v)0x1.07960648f053cp-31;

	y = STEP64(y, z, -0x1.0e83dd5e5dfc6p-32);
	y = STEP64(y, z, -0x1.05fcdfc7bd1a6p-27);
	y = STEP64(y, z, 0x1.96b60ef02de3bp-30);
	y = STEP64(y, z, 0x1.09e5265e4ab54p-24);
	y = STEP64(y, z, -0x1.50f7b53a7920ap-25);
	y = STEP64(y, z, -0x1.c62e99b2c4976p-22);
	y = STEP64(y, z, 0x1.7ee98439da9b7p-21);
	y = STEP64(y, z, 0x1.3b08634d37abp-19);
	y = STEP64(y, z, -0x1.3c737bc063653p-17);
	y = STEP64(y, z, -0x1.e7e772c248154p-20);
	y = STEP64(y, z, 0x1.72cdd4774c99bp-14);
	y = STEP64(y, z, -0x1.dd28463cb78bdp-13);
	y = STEP64(y, z, -0x1.269b564c8c343p-13);
	y = STEP64(y, z, 0x1.908f472718287p-9);
	y = STEP64(y, z, -0x1.b00c052a5e0d1p-7);
	y = STEP64(y, z, 0x1.38dbd2c8dda48p-5);
	y = STEP64(y, z, -0x1.645fd8a4bf9bdp-4);
	y = STEP64(y, z, 0x1.52cac2371024ep-3);
	y = STEP64(y, z, -0x1.14eacb1ad02dap-2);
	y = STEP64(y, z, 0x1.8be202d26c703p-2);
	y = STEP64(y, z, -0x1.f3fe31ecb49cp-2);
	return (STEP64(y, z, 0x1.0e8610d5ec75ap-55) + 0x1.18932bf08e154p-1) * t;
}

/* Below 1 an odd polynomial, above 1 - erfc. */
OVL f64v erf_(f64v x) {
	f64v a = within(abs_(x), 0.0, 6.0);
	f64v u = a * a;
	i64v n;
	f64v z = erfc_factor((f64v)1.0 / (a + 4.0), (f64v)0.0) * exp_parts(-u, &n);
	f64v y = (f64v)0x1.0579ad11bc57ep-34;

	y = STEP64(y, u, -0x1.386ac45633fd6p-30);
	y = STEP64(y, u, 0x1.f7a4147c0b7c1p-27);
	y = STEP64(y, u, -0x1.5f1d371cbb6cp-23);
	y = STEP64(y, u, 0x1.b9def1ae0c66dp-20);
	y = STEP64(y, u, -0x1.f4d1df3b17801p-17);
	y = STEP64(y, u, 0x1.f9a321a13efb2p-14);
	y = STEP64(y, u, -0x1.c02db3d8eeaep-11);
	y = STEP64(y, u, 0x1.565bcd0db039ap-8);
	y = STEP64(y, u, -0x1.b82ce312849a3p-6);
	y = STEP64(y, u, 0x1.ce2f21a042b24p-4);
	y = STEP64(y, u, -0x1.812746b0379e7p-2);
	y = STEP64(y, u, 0x1.06eba8214db69p-3);
	y = fma(y, a, a);
	return copysign_(a < 1.0 ? y : 1.0 - z * power_of_two(n + 1), x);
}

/*
 * x Phi(x). Phi(-|x|) = erfc(b) / 2, b = |x| / sqrt 2. The square and 1 / (b + 4) are sums of two; the
 * power of two comes last.
 */
OVL f64v gelu_(f64v x) {
	f64v a = within(abs_(x), 0.0, 38.6);
	f64v d = STEP64(a, (f64v)0x1.6a09e667f3bcdp-1, 4.0);
	f64v d_low = fma(a, (f64v)0x1.6a09e667f3bcdp-1, 4.0 - d);
	f64v t = (f64v)1.0 / d;
	f64v rest = fma(-t, d_low, STEP64(-t, d, 1.0));
	f64v s = a * a, s_low = fma(a, a, -s);
	f64v p, tail, y;
	i64v n;

	p = exp_parts(s * -0.5, fma(s_low, (f64v)-0.5, rest), &n);
	tail = erfc_factor(t, t * rest) * p;
	y = scale(x < 0.0 ? -a * tail : x * (1.0 - scale(tail, n)), x < 0.0 ? n : (i64v)0);
	return x == -INFINITY ? (f64v)NAN : y;
}

/*
 * Angles. x = q pi/2 + r, |r| at most pi/4, q modulo 4 in the low bits of *qp.
 */
#define HALF_PI_HIGH64 0x1.921fb54442d18p0
#define HALF_PI_LOW64 0x1.1a62633145c07p-54
#define HALF_PI_LAST64 -0x1.f1976b7ed8fbcp-110

/* 2/pi in words of 64 bits behind an empty one. */
constant ulong two_over_pi[20] = {
	0, 0xa2f9836e4e441529UL, 0xfc2757d1f534ddc0UL, 0xdb6295993c439041UL, 0xfe5163abdebbc561UL,
	0xb7246e3a424dd2e0UL, 0x06492eea09d1921cUL, 0xfe1deb1cb129a73eUL, 0xe88235f52ebb4484UL,
	0xe99c7026b45f7e41UL, 0x3991d639835339f4UL, 0x9c845f8bbdf9283bUL, 0x1ff897ffde05980fUL,
	0xef2f118b5a0a6d1fUL, 0x6d367ecf27cb09b7UL, 0x4f463f669e5fea2dUL, 0x7527bac7ebe5f17bUL,
	0x3d0739f78a5292eaUL, 0x6bfb5fb11f8d5d08UL, 0x56033046fc7b6babUL,
};

/* 64 bits of high:low from bit `shift` on, counted from the top; shift below 64. */
OVL u64v bits_between(u64v high, u64v low, u64v shift) {
	return (high << shift) | ((low >> (u64v)1) >> ((u64v)63 - shift));
}

/*
 * For 2^27 <= |x| < infinity: the fraction of x 2/pi from the 192 bits of 2/pi that matter (those
 * before them only add multiples of 4); 126 bits of it remain, of which at most 62 are zeros. The
 * words are selected in a loop over the table, which is the same for every lane.
 */
OVL f64v reduce_huge_angle(f64v x, private u64v *qp) {
	u64v bits = AS(ulong, x);
	u64v first = ((bits >> (u64v)52) & (u64v)0x7ff) - (u64v)(1023 - 64 + 54);
	u64v index = first >> (u64v)6, shift = first & (u64v)63;
	u64v mantissa = (bits & (u64v)0xfffffffffffffUL) | (u64v)0x10000000000000UL;
	u64v w0 = (u64v)0, w1 = (u64v)0, w2 = (u64v)0, w3 = (u64v)0;

	for (int i = 0; i < 17; i++) {
		m64v here = index == (u64v)(ulong)i;

		w0 = here ? (u64v)two_over_pi[i] : w0;
		w1 = here ? (u64v)two_over_pi[i + 1] : w1;
		w2 = here ? (u64v)two_over_pi[i + 2] : w2;
		w3 = here ? (u64v)two_over_pi[i + 3] : w3;
	}
	w0 = bits_between(w0, w1, shift);
	w1 = bits_between(w1, w2, shift);
	w2 = bits_between(w2, w3, shift);
	/* The upper 128 of the low 192 bits of mantissa times w0:w1:w2. */
	u64v low = mantissa * w1 + mul_hi(mantissa, w2);
	u64v high = mantissa * w0 + mul_hi(mantissa, w1) + (low < mantissa * w1 ? (u64v)1 : (u64v)0);
	u64v q = (high + ((u64v)1 << (u64v)61)) >> (u64v)62;
	i64v fraction = AS(long, bits_between(high, low, (u64v)2)) >> (i64v)1;
	f64v f = CONVERT(double, fraction);
	f64v f_low = CONVERT(double, fraction - CONVERT(long, f)) + CONVERT(double, low << (u64v)1) * 0x1p-64;
	f64v sum = f + f_low;
	f64v r;

	f_low = (f - sum) + f_low;
	r = fma(sum, (f64v)HALF_PI_LOW64, f_low * HALF_PI_HIGH64);
	r = fma(sum, (f64v)HALF_PI_HIGH64, r) * 0x1p-63;
	*qp = AS(long, x) < (i64v)0 ? (u64v)0 - q : q;
	return AS(long, x) < (i64v)0 ? -r : r;
}

OVL f64v reduce_angle(f64v x, private u64v *qp) {
	f64v t = STEP64(x, (f64v)0x1.45f306dc9c883p-1, ROUNDER64);
	f64v n = t - ROUNDER64;
	f64v r = fma(n, (f64v)-HALF_PI_HIGH64, x);
	f64v a = abs_(x);
	m64v huge = (a >= 0x1p27) & (a < INFINITY);

	r = fma(n, (f64v)-HALF_PI_LOW64, r);
	r = fma(n, (f64v)-HALF_PI_LAST64, r);
	*qp = AS(ulong, t);
	if (ANY(huge)) {
		u64v q;
		f64v y = reduce_huge_angle(huge ? x : (f64v)0x1p27, &q);

		r = huge ? y : r;
		*qp = huge ? q : *qp;
	}
	return r;
}

/* sin(r) and cos(r) on [-pi/4, pi/4], u = r^2. */
OVL f64v sin_inside(f64v r, f64v u) {
	f64v y = (f64v)-0x1.9ff15ed00a484p-41;

	y = STEP64(y, u, 0x1.6109942987672p-33);
	y = STEP64(y, u, -0x1.ae642bfa98a4fp-26);
	y = STEP64(y, u, 0x1.71de3a3357829p-19);
	y = STEP64(y, u, -0x1.a01a019ffe15cp-13);
	y = STEP64(y, u, 0x1.1111111111068p-7);
	y = STEP64(y, u, -0x1.5555555555555p-3);
	return fma(y * u, r, r);
}

OVL f64v cos_inside(f64v u) {
	f64v y = (f64v)-0x1.8f99fa8b79cebp-37;

	y = STEP64(y, u, 0x1.1ee9c37cbf2d6p-29);
	y = STEP64(y, u, -0x1.27e4f7cd7cd11p-22);
	y = STEP64(y, u, 0x1.a01a019c5c786p-16);
	y = STEP64(y, u, -0x1.6c16c16c14e01p-10);
	y = STEP64(y, u, 0x1.555555555554ap-5);
	y = STEP64(y, u, -0.5);
	return STEP64(y, u, 1.0);
}

/* sin(r + q pi/2) */
OVL f64v sin_of_quadrant(f64v r, u64v q) {
	f64v u = r * r;
	f64v y = (q & (u64v)1) != (u64v)0 ? cos_inside(u) : sin_inside(r, u);

	return AS(double, AS(ulong, y) ^ ((q & (u64v)2) << (u64v)62));
}

OVL f64v sin_(f64v x) {
	u64v q;
	f64v r = reduce_angle(x, &q);

	return x == 0.0 ? x : sin_of_quadrant(r, q);
}

OVL f64v cos_(f64v x) {
	u64v q;
	f64v r = reduce_angle(x, &q);

	return sin_of_quadrant(r, q + (u64v)1);
}

OVL f64v tan_(f64v x) {
	u64v q;
	f64v r = reduce_angle(x, &q);
	f64v u = r * r;
	f64v s = sin_inside(r, u), c = cos_inside(u);
	f64v y = (q & (u64v)1) != (u64v)0 ? -c / s : s / c;

	return x == 0.0 ? x : y;
}

/* asin(s) on [0, 1/2], u = s^2. */
OVL f64v asin_inside(f64v s, f64v u) {
	f64v y = (f64v)0x1.0b75883b6a729p-5;

	y = STEP64(y, u, -0x1.588e26b528fa6p-6);
	y = STEP64(y, u, 0x1.63fee1d4acd47p-6);
	y = STEP64(y, u, 0x1.e4bf71f78ddf7p-9);
	y = STEP64(y, u, 0x1.6150152cefef8p-7);
	y = STEP64(y, u, 0x1.75823fd141016p-7);
	y = STEP64(y, u, 0x1.ca1fed614f37cp-7);
	y = STEP64(y, u, 0x1.1c49ecb15fcb8p-6);
	y = STEP64(y, u, 0x1.6e8bdf0f07c6fp-6);
	y = STEP64(y, u, 0x1.f1c71a938663p-6);
	y = STEP64(y, u, 0x1.6db6db7215662p-5);
	y = STEP64(y, u, 0x1.333333332e109p-4);
	y = STEP64(y, u, 0x1.5555555555577p-3);
	return fma(y * u, s, s);
}

/* Above 1/2: asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). */
OVL f64v asin_(f64v x) {
	f64v a = abs_(x);
	m64v large = a > 0.5;
	f64v u = large ? (1.0 - a) * 0.5 : a * a;
	f64v y = asin_inside(large ? sqrt(u) : a, u);

	y = large ? STEP64(y, (f64v)-2.0, HALF_PI_HIGH64) + HALF_PI_LOW64 : y;
	return copysign_(y, x);
}

OVL f64v acos_(f64v x) {
	f64v a = abs_(x);
	m64v large = a > 0.5;
	f64v u = large ? (1.0 - a) * 0.5 : a * a;
	f64v y = asin_inside(large ? sqrt(u) : a, u);
	f64v inner = (HALF_PI_LOW64 - copysign_(y, x)) + HALF_PI_HIGH64;
	f64v outer = y + y;

	outer = x < 0.0 ? (2.0 * HALF_PI_LOW64 - outer) + 2.0 * HALF_PI_HIGH64 : outer;
	return large ? outer : inner;
}

/* atan(x) on [-tan(pi/8), tan(pi/8)]. */
OVL f64v atan_inside(f64v x) {
	f64v u = x * x;
	f64v y = (f64v)0x1.e8539103520ddp-7;

	y = STEP64(y, u, -0x1.0fd67735a021cp-5);
	y = STEP64(y, u, 0x1.6fe539450cc9cp-5);
	y = STEP64(y, u, -0x1.ab3bfb41ee833p-5);
	y = STEP64(y, u, 0x1.e167bb55a068bp-5);
	y = STEP64(y, u, -0x1.110beb6be364ep-4);
	y = STEP64(y, u, 0x1.3b1364ef26eb5p-4);
	y = STEP64(y, u, -0x1.745d14503dbc9p-4);
	y = STEP64(y, u, 0x1.c71c71b458a4ap-4);
	y = STEP64(y, u, -0x1.249249246f58bp-3);
	y = STEP64(y, u, 0x1.9999999999584p-3);
	y = STEP64(y, u, -0x1.5555555555554p-2);
	return fma(y * u, x, x);
}

/*
 * atan(above / below) for 0 <= above <= below, below not 0: beyond tan(pi/8) it is
 * pi/4 + atan((above - below) / (above + below)).
 */
OVL f64v atan_of_quotient(f64v above, f64v below) {
	m64v far = above > below * 0x1.a827999fcef32p-2;
	f64v y = atan_inside((far ? above - below : above) / (far ? above + below : below));

	return far ? (0.5 * HALF_PI_LOW64 + y) + 0.5 * HALF_PI_HIGH64 : y;
}

OVL f64v atan_(f64v x) {
	f64v a = abs_(x);
	m64v steep = a > 1.0;
	f64v y = atan_of_quotient(steep ? (f64v)1.0 : a, steep ? a : (f64v)1.0);

	y = steep ? (HALF_PI_LOW64 - y) + HALF_PI_HIGH64 : y;
	return copysign_(y, x);
}

/* y is the ordinate. The smaller over the larger magnitude, then by octant. */
OVL f64v atan2_(f64v y, f64v x) {
	f64v a = abs_(x), b = abs_(y);
	m64v steep = b > a;
	f64v larger = steep ? b : a, smaller = steep ? a : b;
	f64v down = larger > 0x1p1000 ? (f64v)0x1p-10 : (f64v)1.0;
	m64v diagonal = smaller == INFINITY;
	f64v r;

	smaller = diagonal ? (f64v)1.0 : smaller * down;
	larger = (diagonal | (larger == 0.0)) ? (f64v)1.0 : larger * down;
	r = atan_of_quotient(smaller, larger);
	r = steep ? (HALF_PI_LOW64 - r) + HALF_PI_HIGH64 : r;
	r = AS(long, x) < (i64v)0 ? (2.0 * HALF_PI_LOW64 - r) + 2.0 * HALF_PI_HIGH64 : r;
	return copysign_(((x != x) | (y != y)) ? (f64v)NAN : r, y);
}

/* log(|x| + sqrt(x^2 + 1)) = log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))), log(2 |x|) where it is huge. */
OVL f64v asinh_(f64v x) {
	f64v a = abs_(x);
	m64v huge = a > 0x1p100;
	f64v u = a * a;
	f64v t = huge ? a : a + u / (1.0 + sqrt(u + 1.0));
	f64v y = log1p_inside(t);

	y = huge ? (y + LN2_LOW64) + LN2_HIGH64 : y;
	y = a < 0x1p-28 ? a : y;
	return copysign_(a < INFINITY ? y : a, x);
}

/* log1p(t + sqrt(t (t + 2))), t = x - 1. */
OVL f64v acosh_(f64v x) {
	m64v huge = x > 0x1p100;
	f64v t = x - 1.0;
	f64v y = log1p_inside(huge ? t : t + sqrt(fma(t, t, t + t)));

	y = huge ? (y + LN2_LOW64) + LN2_HIGH64 : y;
	y = x < INFINITY ? y : x;
	return x < 1.0 ? (f64v)NAN : y;
}

/* log1p(2 a / (1 - a)) / 2 */
OVL f64v atanh_(f64v x) {
	f64v a = abs_(x);
	f64v y = log1p_inside((a + a) / (1.0 - a)) * 0.5;

	y = a < 0x1p-28 ? a : y;
	y = a == 1.0 ? (f64v)INFINITY : y;
	return copysign_(a > 1.0 ? (f64v)NAN : y, x);
}

/* Error-free sums and products of pairs high + low; the low parts are left in *lowp. */
OVL f64v pair_multiply(f64v a, f64v a_low, f64v b, f64v b_low, private f64v *lowp) {
	f64v p = a * b;

	*lowp = fma(a, b_low, fma(a_low, b, fma(a, b, -p)));
	return p;
}

/* Requires |c| >= |a| in about. */
OVL f64v pair_add(double c, double c_low, f64v a, f64v a_low, private f64v *lowp) {
	f64v s = a + c;

	*lowp = ((c - s) + a) + (a_low + c_low);
	return s;
}

/*
 * log2(x) as a sum of two doubles, for 0 < x < infinity: with s = f / (2 + f) in two doubles,
 * log(1 + f) = 2 atanh(s) = 2 s (1 + s^2 (1/3 + s^2 (1/5 ...))), and the terms up to s^5 in two.
 */
OVL f64v log2_double(f64v x, private f64v *lowp) {
	f64v n, f = log_reduce(x, &n);
	f64v below = f + 2.0, below_low = f - (below - 2.0);
	f64v reciprocal = (f64v)1.0 / below;
	f64v s = f * reciprocal;
	f64v s_low = reciprocal * fma(-s, below_low, fma(-s, below, f));
	f64v u_low, u = pair_multiply(s, s_low, s, s_low, &u_low);
	f64v p_low, p, t;
	f64v y = (f64v)0x1.3c394cb1bc4cbp-3;

	y = STEP64(y, u, 0x1.352be753b4863p-3);
	y = STEP64(y, u, 0x1.5ba7bfb9963ecp-3);
	y = STEP64(y, u, 0x1.89f37eb3986dbp-3);
	y = STEP64(y, u, 0x1.c68f56f9a5c9p-3);
	y = STEP64(y, u, 0x1.0c9a849906d51p-2);
	y = STEP64(y, u, 0x1.484b13d7c0421p-2);
	y = STEP64(y, u, 0x1.a61762a7aded9p-2);
	p = pair_add(0x1.2776c50ef9bfep-1, 0x1.e4b29ccc535d4p-55, y * u, (f64v)0.0, &p_low);
	p = pair_multiply(p, p_low, u, u_low, &p_low);
	p = pair_add(0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55, p, p_low, &p_low);
	p = pair_multiply(p, p_low, u, u_low, &p_low);
	p = pair_add(0x1.71547652b82fep1, 0x1.777d0ffda0d24p-55, p, p_low, &p_low);
	p = pair_multiply(p, p_low, s, s_low, &p_low);
	t = n + p;
	*lowp = p_low + ((n - t) + p);
	return t;
}

/* 2^(high + low) */
OVL f64v exp2_double(f64v high, f64v low) {
	f64v z = within(high, -1200.0, 1100.0);
	f64v t = z + ROUNDER64;

	return scale(exp2_inside((z - (t - ROUNDER64)) + low), AS(long, t) - ROUNDER64_BITS);
}

/* The cases of IEEE 754's pow; a is |x|, y the power of a. */
OVL f64v pow_edges(f64v x, f64v y, f64v a, f64v power) {
	f64v halved = y * 0.5;
	m64v whole = rint(y) == y;
	m64v odd = whole & (rint(halved) != halved);
	m64v negative = AS(long, x) < (i64v)0;
	m64v edge = (a == 0.0) | (a == INFINITY) | (abs_(y) == INFINITY);
	f64v limit = (((a > 1.0) & (y > 0.0)) | ((a < 1.0) & (y < 0.0))) ? (f64v)INFINITY : (f64v)0.0;

	power = edge ? limit : power;
	power = (negative & odd) ? -power : power;
	power = ((x < 0.0) & !whole & (a < INFINITY)) ? (f64v)NAN : power;
	power = ((x != x) | (y != y)) ? (f64v)NAN : power;
	power = ((a == 1.0) & (abs_(y) == INFINITY)) ? (f64v)1.0 : power;
	return ((x == 1.0) | (y == 0.0)) ? (f64v)1.0 : power;
}

OVL f64v pow_(f64v x, f64v y) {
	f64v a = abs_(x);
	f64v low, high = log2_double(a, &low);
	f64v z = y * high;
	f64v z_low = fma(y, low, fma(y, high, -z));

	z_low = abs_(z) < 1200.0 ? z_low : (f64v)0.0;
	return pow_edges(x, y, a, exp2_double(z, z_low));
}

/* Scaled by a power of two where the squares would leave the normal range. */
OVL f64v hypot_(f64v x, f64v y) {
	f64v a = abs_(x), b = abs_(y);
	f64v larger = a > b ? a : b, smaller = a > b ? b : a;
	m64v high = larger > 0x1p500, low = larger < 0x1p-500;
	f64v down = high ? (f64v)0x1p-600 : (low ? (f64v)0x1p600 : (f64v)1.0);
	f64v up = high ? (f64v)0x1p600 : (low ? (f64v)0x1p-600 : (f64v)1.0);
	f64v s = larger * down, t = smaller * down;
	f64v r = sqrt(fma(s, s, t * t)) * up;

	r = ((x != x) | (y != y)) ? (f64v)NAN : r;
	return ((a == INFINITY) | (b == INFINITY)) ? (f64v)INFINITY : r;
}
#endif

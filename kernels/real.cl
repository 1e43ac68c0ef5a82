/*
 * section:  real
 * requires: types declare
 * provides: zero_ one_ abs_ neg_ sign_ relu_ sqrt_ rsqrt_ floor_ ceil_ round_ trunc_ isnan_ isinf_
 *           isfinite_ hardsigmoid_ add_ sub_ mul_ div_ max_ min_ copysign_ signed_as_ floor_divide_ remainder_
 *           eq_ ne_ lt_ le_ leaky_relu_ where_ fma_ max_key min_key key_max key_min of_max_key of_min_key
 *
 * The operations on f32 and f64 that are exact or rounded once; bit patterns decide signs.
 *
 * NaN wins in max and min and passes through the rest; -0 is below +0 in max and min. x < 0 ? 0 : x
 * keeps NaN and -0 where fmax would not. signed_as_ takes any NaN for positive: devices make NaNs of either sign.
 */

/* T a register of floats E, U the unsigned one of UE; SIGN its top bit; LIMIT ends exact integers. */
#define REAL(T, E, U, UE, SIGN, LIMIT, MASK, C) \
	OVL T zero_(T a) { return (T)C(0.0); } \
	OVL T one_(T a) { return (T)C(1.0); } \
	OVL T abs_(T a) { return AS(E, AS(UE, a) & (U)~SIGN); } \
	OVL T neg_(T a) { return AS(E, AS(UE, a) ^ (U)SIGN); } \
	OVL T copysign_(T a, T b) { return AS(E, (AS(UE, a) & (U)~SIGN) | (AS(UE, b) & (U)SIGN)); } \
	OVL T signed_as_(T a, T b) { return copysign_(a, b != b ? (T)C(0.0) : b); } \
	OVL T sign_(T a) { return a < (T)C(0.0) ? (T)C(-1.0) : (a > (T)C(0.0) ? (T)C(1.0) : a); } \
	OVL T relu_(T a) { return a < (T)C(0.0) ? (T)C(0.0) : a; } \
	OVL T sqrt_(T a) { return sqrt(a); } \
	OVL T rsqrt_(T a) { return (T)C(1.0) / sqrt(a); } \
	OVL T floor_(T a) { return floor(a); } \
	OVL T ceil_(T a) { return ceil(a); } \
	OVL T round_(T a) { return rint(a); } \
	OVL T trunc_(T a) { return trunc(a); } \
	OVL u8v isnan_(T a) { return TRUTH(a != a); } \
	OVL u8v isinf_(T a) { return TRUTH(abs_(a) == (T)INFINITY); } \
	OVL u8v isfinite_(T a) { return TRUTH(abs_(a) < (T)INFINITY); } \
	OVL T add_(T a, T b) { return a + b; } \
	OVL T sub_(T a, T b) { return a - b; } \
	OVL T mul_(T a, T b) { return a * b; } \
	OVL T div_(T a, T b) { return a / b; } \
	OVL T fma_(T a, T b, T c) { return fma(a, b, c); } \
	OVL u8v eq_(T a, T b) { return TRUTH(a == b); } \
	OVL u8v ne_(T a, T b) { return TRUTH(a != b); } \
	OVL u8v lt_(T a, T b) { return TRUTH(a < b); } \
	OVL u8v le_(T a, T b) { return TRUTH(a <= b); } \
	OVL T where_(u8v c, T a, T b) { return MASK(c) ? a : b; } \
	OVL T leaky_relu_(T a, T b) { return a < (T)C(0.0) ? a * b : a; } \
	OVL T hardsigmoid_(T a) { \
		T y = a / (T)C(6.0) + (T)C(0.5); \
		y = y < (T)C(0.0) ? (T)C(0.0) : y; \
		return y > (T)C(1.0) ? (T)C(1.0) : y; \
	} \
	/* Equal operands differ at most in the sign of zero, which the bits decide. */ \
	OVL T max_(T a, T b) { \
		T y = a > b ? a : b; \
		y = a == b ? AS(E, AS(UE, a) & AS(UE, b)) : y; \
		return a != a ? a : y; \
	} \
	OVL T min_(T a, T b) { \
		T y = a < b ? a : b; \
		y = a == b ? AS(E, AS(UE, a) | AS(UE, b)) : y; \
		return a != a ? a : y; \
	} \
	/* \
	 * The rounded quotient can only be an integer too high, which the sign of the exact rest \
	 * shows. Also for an infinite divisor, where q is 0 and the rest is a. \
	 */ \
	OVL T floor_divide_(T a, T b) { \
		T quotient = a / b; \
		T q = floor(quotient); \
		T rest = q == (T)C(0.0) ? a : fma(-q, b, a); \
		T low = rest < (T)C(0.0) ? -b : b; \
		T down = rest != (T)C(0.0) ? (low < (T)C(0.0) ? q - (T)C(1.0) : q) : q; \
		return abs_(q) < (T)LIMIT ? down : quotient; \
	}

/*
 * The rest of a division whose quotient has more bits than an exact integer, by long division: each
 * step takes away a multiple of d 2^n such that the quotient is exact, or one too high. Requires
 * finite 0 < d; I is the signed integer register of IE, F the bits of the fraction.
 */
#define LONG_DIVISION(T, E, I, IE, F, BIAS, C) \
	OVL I exponent_of(T x) { \
		I normal = AS(IE, x) >> (I)F; \
		I subnormal = (AS(IE, x * (T)C(0x1p60)) >> (I)F) - (I)60; \
		return normal == (I)0 ? subnormal : normal; \
	} \
	OVL T power_of_two(I n) { return AS(E, (n + (I)BIAS) << (I)F); } \
	OVL T long_division_rest(T x, T d) { \
		while (ANY(x >= d)) { \
			I n = exponent_of(x) - exponent_of(d) - (I)(F - 1); \
			n = n < (I)0 ? (I)0 : n; \
			T t = d * power_of_two(n >> (I)1) * power_of_two(n - (n >> (I)1)); \
			T rest = fma(-floor(x / t), t, x); \
			rest = rest < (T)C(0.0) ? rest + t : rest; \
			x = x >= d ? rest : x; \
		} \
		return x; \
	} \
	OVL T remainder_(T a, T b) { \
		T quotient = a / b; \
		T q = floor_divide_(a, b); \
		T r = q == (T)C(0.0) ? a : fma(-q, b, a); \
		JOIN(MASK_TYPE_, E) finite = (abs_(a) < (T)INFINITY) & (b != (T)C(0.0)); \
		JOIN(MASK_TYPE_, E) large = finite & (abs_(b) < (T)INFINITY) & \
			!(abs_(quotient) < (T)LONG_DIVISION_LIMIT_##E); \
		if (ANY(large)) { \
			T rest = long_division_rest(large ? abs_(a) : (T)C(0.0), large ? abs_(b) : (T)C(1.0)); \
			rest = copysign_(rest, a); \
			rest = rest != (T)C(0.0) ? (rest * copysign_(one_(b), b) < (T)C(0.0) ? rest + b : rest) : rest; \
			r = large ? rest : r; \
		} \
		r = r == (T)C(0.0) ? copysign_(r, b) : r; \
		return finite ? r : (T)NAN; \
	}

#define F32_CONSTANT(x) x##f
REAL(f32v, float, u32v, uint, 0x80000000u, 0x1p24f, MASK32, F32_CONSTANT)
#define MASK_TYPE_float m32v
#define LONG_DIVISION_LIMIT_float 0x1p24f
LONG_DIVISION(f32v, float, i32v, int, 23, 127, F32_CONSTANT)
#ifdef HAS_F64
#define F64_CONSTANT(x) x
REAL(f64v, double, u64v, ulong, 0x8000000000000000UL, 0x1p53, MASK64, F64_CONSTANT)
#define MASK_TYPE_double m64v
#define LONG_DIVISION_LIMIT_double 0x1p53
LONG_DIVISION(f64v, double, i64v, long, 52, 1023, F64_CONSTANT)
#endif
#undef REAL
#undef LONG_DIVISION

/*
 * max_ and min_ of many f32 in fewer steps: on keys, bits which as integers stand in the order of the values. A NaN of
 * either sign is beyond all others: the integers are shifted by as many as there are NaN of one sign, and wrap around.
 */
#define KEY_SHIFT 0x7fffffu
OVL u32v key_turned(u32v bits) { return bits ^ AS(uint, (AS(int, bits) >> 31) & 0x7fffffff); }
OVL f32v max_key(f32v a) { return AS(float, key_turned(AS(uint, a)) - KEY_SHIFT); }
OVL f32v min_key(f32v a) { return AS(float, key_turned(AS(uint, a)) + KEY_SHIFT); }
OVL f32v of_max_key(f32v key) { return AS(float, key_turned(AS(uint, key) + KEY_SHIFT)); }
OVL f32v of_min_key(f32v key) { return AS(float, key_turned(AS(uint, key) - KEY_SHIFT)); }
OVL f32v key_max(f32v a, f32v b) { return AS(float, AS(int, a) > AS(int, b) ? AS(int, a) : AS(int, b)); }
OVL f32v key_min(f32v a, f32v b) { return AS(float, AS(int, a) < AS(int, b) ? AS(int, a) : AS(int, b)); }

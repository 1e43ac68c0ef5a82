/*
 * Checks of what is exact. See exact.h.
 *
 * A group is one kernel that computes many results of the same operands, and a host function for each
 * that gives the bits expected. Operands and results travel as elements of their own size; the
 * results of row k begin at 8 k n bytes. References are C in wider types: __int128 for integers,
 * __float128 for floats.
 */
#include "exact.h"

#include <math.h>
#include <quadmath.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES = 1 << 16,          /* all pairs of 8 bits, all patterns of 16 */
	SLOT_BYTES = 8,
	MAX_ROWS = 48,
	TEXT_BYTES = 1 << 16,
	LANES_FEW = 1,
};

typedef uint64_t (*expected_fn)(uint64_t a, uint64_t b);

struct row {
	const char *type;            /* dtype the result is stored as */
	const char *expr;            /* over a and b */
	expected_fn expected;
};

struct group {
	const char *name, *type;     /* dtype of both operands */
	const struct row *rows;
	size_t count;
};

static size_t bytes_of(const char *type) {
	if (!strcmp(type, "bool"))
		return 1;
	return (size_t)(atoi(type + (type[0] == 'b' ? 2 : 1)) / 8);
}

static bool is_float(const char *type) {
	return strchr(type, 'f') != NULL;
}

static uint64_t mask_of(size_t bytes) {
	return bytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * bytes)) - 1;
}

static uint64_t load(const void *p, size_t bytes, size_t i) {
	uint64_t word = 0;

	memcpy(&word, (const char *)p + i * bytes, bytes);
	return word;
}

static float f32_of(uint64_t bits) {
	uint32_t word = (uint32_t)bits;
	float x;

	memcpy(&x, &word, sizeof x);
	return x;
}

static double f64_of(uint64_t bits) {
	double x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static uint64_t bits_f32(float x) {
	uint32_t word;

	memcpy(&word, &x, sizeof word);
	return word;
}

static uint64_t bits_f64(double x) {
	uint64_t word;

	memcpy(&word, &x, sizeof word);
	return word;
}

/*
 * The value of a 16-bit format nearest to an exact number: scaled so that its last bit is 1, rounded to
 * even by rint. fraction counts its bits, lowest is the exponent of its least normal number.
 */
static __float128 nearest(__float128 x, int fraction, int lowest) {
	__float128 unit, y, limit = ldexpq(2, 1 - lowest);

	if (x == 0 || isinfq(x) || isnanq(x))
		return x;
	unit = ldexpq(1, (ilogbq(x) < lowest ? lowest : ilogbq(x)) - fraction);
	y = copysignq(rintq(x / unit) * unit, x);
	return fabsq(y) >= limit ? copysignq((__float128)INFINITY, x) : y;
}

static uint64_t bits_bf16(__float128 x) {
	return bits_f32((float)nearest(x, 7, -126)) >> 16;
}

static uint64_t bits_f16(__float128 x) {
	__float128 y = nearest(x, 10, -14), magnitude = fabsq(y);
	uint64_t sign = signbitq(y) ? 0x8000 : 0;

	if (isnanq(y))
		return 0x7e00;
	if (isinfq(y))
		return sign | 0x7c00;
	if (magnitude < 0x1p-14)
		return sign | (uint64_t)ldexpq(magnitude, 24);
	return sign + ((uint64_t)(ilogbq(y) + 14) << 10) + (uint64_t)ldexpq(magnitude, 10 - ilogbq(y));
}

static bool is_nan(const char *type, uint64_t bits) {
	if (!strcmp(type, "f64"))
		return isnan(f64_of(bits));
	if (!strcmp(type, "f32"))
		return isnan(f32_of(bits));
	if (!strcmp(type, "f16"))
		return (bits & 0x7fff) > 0x7c00;
	return !strcmp(type, "bf16") && (bits & 0x7fff) > 0x7f80;
}

/* Holds every intermediate result of an integer operation exactly. */
__extension__ typedef __int128 wide;

static bool is_negative(wide x) {
	return x < 0;
}

#define INTEGER_REFERENCES(D, T) \
	static uint64_t D##_neg(uint64_t a, uint64_t b) { \
		(void)b; \
		return (uint64_t)-(wide)(T)a; \
	} \
	static uint64_t D##_abs(uint64_t a, uint64_t b) { \
		return is_negative((T)a) ? D##_neg(a, b) : a; \
	} \
	static uint64_t D##_sign(uint64_t a, uint64_t b) { \
		(void)b; \
		return (uint64_t)(((T)a > 0) - is_negative((T)a)); \
	} \
	static uint64_t D##_relu(uint64_t a, uint64_t b) { \
		(void)b; \
		return is_negative((T)a) ? 0 : a; \
	} \
	static uint64_t D##_not(uint64_t a, uint64_t b) { \
		(void)b; \
		return ~a; \
	} \
	static uint64_t D##_and(uint64_t a, uint64_t b) { return a & b; } \
	static uint64_t D##_or(uint64_t a, uint64_t b) { return a | b; } \
	static uint64_t D##_xor(uint64_t a, uint64_t b) { return a ^ b; } \
	static uint64_t D##_add(uint64_t a, uint64_t b) { return a + b; } \
	static uint64_t D##_sub(uint64_t a, uint64_t b) { return a - b; } \
	static uint64_t D##_mul(uint64_t a, uint64_t b) { return a * b; } \
	static uint64_t D##_max(uint64_t a, uint64_t b) { return (T)a > (T)b ? a : b; } \
	static uint64_t D##_min(uint64_t a, uint64_t b) { return (T)a < (T)b ? a : b; } \
	static uint64_t D##_eq(uint64_t a, uint64_t b) { return (T)a == (T)b; } \
	static uint64_t D##_ne(uint64_t a, uint64_t b) { return (T)a != (T)b; } \
	static uint64_t D##_lt(uint64_t a, uint64_t b) { return (T)a < (T)b; } \
	static uint64_t D##_le(uint64_t a, uint64_t b) { return (T)a <= (T)b; } \
	static uint64_t D##_shl(uint64_t a, uint64_t b) { \
		wide by = (wide)(T)b; \
		return by < 0 || by >= (wide)sizeof(T) * 8 ? 0 : a << by; \
	} \
	static uint64_t D##_shr(uint64_t a, uint64_t b) { \
		wide by = (wide)(T)b; \
		bool out = by < 0 || by >= (wide)sizeof(T) * 8; \
		return (uint64_t)((wide)(T)a >> (out ? 100 : by)); \
	} \
	static uint64_t D##_floor_divide(uint64_t a, uint64_t b) { \
		wide x = (T)a, y = (T)b; \
		wide q = y ? x / y : 0; \
		return (uint64_t)(y && x % y && (x < 0) != (y < 0) ? q - 1 : q); \
	} \
	static uint64_t D##_remainder(uint64_t a, uint64_t b) { \
		wide x = (T)a, y = (T)b; \
		wide r = y ? x % y : 0; \
		return (uint64_t)(r && (r < 0) != (y < 0) ? r + y : r); \
	} \
	static uint64_t D##_pow(uint64_t a, uint64_t b) { \
		uint64_t r = 1, base = a, e = b & mask_of(sizeof(T)); \
		wide x = (T)a, minus_one = -1; \
		if (is_negative((T)b)) \
			return x == 1 ? 1 : (x == minus_one ? (b & 1 ? a : 1) : 0); \
		for (; e; e >>= 1, base *= base) \
			r = e & 1 ? r * base : r; \
		return r; \
	} \
	static const struct row D##_rows[] = { \
		{ #D, "neg_(a)", D##_neg }, { #D, "abs_(a)", D##_abs }, { #D, "sign_(a)", D##_sign }, \
		{ #D, "relu_(a)", D##_relu }, { #D, "not_(a)", D##_not }, { #D, "and_(a, b)", D##_and }, \
		{ #D, "or_(a, b)", D##_or }, { #D, "xor_(a, b)", D##_xor }, { #D, "add_(a, b)", D##_add }, \
		{ #D, "sub_(a, b)", D##_sub }, { #D, "mul_(a, b)", D##_mul }, { #D, "max_(a, b)", D##_max }, \
		{ #D, "min_(a, b)", D##_min }, { "bool", "eq_(a, b)", D##_eq }, { "bool", "ne_(a, b)", D##_ne }, \
		{ "bool", "lt_(a, b)", D##_lt }, { "bool", "le_(a, b)", D##_le }, \
		{ #D, "shl_(a, b)", D##_shl }, { #D, "shr_(a, b)", D##_shr }, { #D, "pow_(a, b)", D##_pow }, \
		{ #D, "floor_divide_(a, b)", D##_floor_divide }, { #D, "remainder_(a, b)", D##_remainder }, \
		{ #D, "where_(lt_(a, b), a, b)", D##_min }, { #D, "floor_(a)", same }, { #D, "ceil_(a)", same }, \
		{ #D, "round_(a)", same }, { #D, "trunc_(a)", same }, { "bool", "isnan_(a)", zero }, \
		{ "bool", "isinf_(a)", zero }, { "bool", "isfinite_(a)", one }, { #D, "zero_(a)", zero }, \
		{ #D, "one_(a)", one }, \
	};

static uint64_t same(uint64_t a, uint64_t b) {
	(void)b;
	return a;
}

static uint64_t zero(uint64_t a, uint64_t b) {
	(void)a;
	(void)b;
	return 0;
}

static uint64_t one(uint64_t a, uint64_t b) {
	(void)a;
	(void)b;
	return 1;
}

INTEGER_REFERENCES(i8, int8_t) /* NOLINT(bugprone-signed-char-misuse): the sign is meant to extend */
INTEGER_REFERENCES(u8, uint8_t)
INTEGER_REFERENCES(i16, int16_t)
INTEGER_REFERENCES(u16, uint16_t)
INTEGER_REFERENCES(i32, int32_t)
INTEGER_REFERENCES(u32, uint32_t)
INTEGER_REFERENCES(i64, int64_t)
INTEGER_REFERENCES(u64, uint64_t)

/* Floats: T in its own arithmetic, which rounds once; quotients and rests from quad. */
#define REAL_REFERENCES(D, T, F, LIMIT) \
	static uint64_t D##_make(T x) { return bits_##D(x); } \
	static uint64_t D##_add(uint64_t a, uint64_t b) { return D##_make(D##_of(a) + D##_of(b)); } \
	static uint64_t D##_sub(uint64_t a, uint64_t b) { return D##_make(D##_of(a) - D##_of(b)); } \
	static uint64_t D##_mul(uint64_t a, uint64_t b) { return D##_make(D##_of(a) * D##_of(b)); } \
	static uint64_t D##_div(uint64_t a, uint64_t b) { return D##_make(D##_of(a) / D##_of(b)); } \
	static uint64_t D##_sqrt(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(F(sqrt)(D##_of(a))); \
	} \
	static uint64_t D##_rsqrt(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(1 / F(sqrt)(D##_of(a))); \
	} \
	static uint64_t D##_fma(uint64_t a, uint64_t b) { \
		return D##_make(F(fma)(D##_of(a), D##_of(b), D##_of(a))); \
	} \
	static uint64_t D##_floor(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(F(floor)(D##_of(a))); \
	} \
	static uint64_t D##_ceil(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(F(ceil)(D##_of(a))); \
	} \
	static uint64_t D##_round(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(F(rint)(D##_of(a))); \
	} \
	static uint64_t D##_trunc(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(F(trunc)(D##_of(a))); \
	} \
	static uint64_t D##_abs(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(F(fabs)(D##_of(a))); \
	} \
	static uint64_t D##_neg(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_make(-D##_of(a)); \
	} \
	static uint64_t D##_sign(uint64_t a, uint64_t b) { \
		T x = D##_of(a); \
		(void)b; \
		return x == 0 || isnan(x) ? a : D##_make(x < 0 ? -1 : 1); \
	} \
	static uint64_t D##_relu(uint64_t a, uint64_t b) { \
		(void)b; \
		return D##_of(a) < 0 ? 0 : a; \
	} \
	static uint64_t D##_signed_as(uint64_t a, uint64_t b) { \
		return D##_make(F(copysign)(D##_of(a), D##_of(b) != D##_of(b) ? 0 : D##_of(b))); \
	} \
	static uint64_t D##_copysign(uint64_t a, uint64_t b) { \
		return D##_make(F(copysign)(D##_of(a), D##_of(b))); \
	} \
	static uint64_t D##_leaky(uint64_t a, uint64_t b) { \
		return D##_of(a) < 0 ? D##_make(D##_of(a) * D##_of(b)) : a; \
	} \
	static uint64_t D##_hardsigmoid(uint64_t a, uint64_t b) { \
		T y = D##_of(a) / 6 + (T)0.5; \
		(void)b; \
		return D##_make(y < 0 ? 0 : (y > 1 ? 1 : y)); \
	} \
	static uint64_t D##_max(uint64_t a, uint64_t b) { \
		T x = D##_of(a), y = D##_of(b); \
		if (isnan(x) || isnan(y)) \
			return D##_make(x + y); \
		return x > y || (x == y && !signbit(x)) ? a : b; \
	} \
	static uint64_t D##_min(uint64_t a, uint64_t b) { \
		T x = D##_of(a), y = D##_of(b); \
		if (isnan(x) || isnan(y)) \
			return D##_make(x + y); \
		return x < y || (x == y && signbit(x)) ? a : b; \
	} \
	static uint64_t D##_eq(uint64_t a, uint64_t b) { return D##_of(a) == D##_of(b); } \
	static uint64_t D##_ne(uint64_t a, uint64_t b) { return D##_of(a) != D##_of(b); } \
	static uint64_t D##_lt(uint64_t a, uint64_t b) { return D##_of(a) < D##_of(b); } \
	static uint64_t D##_le(uint64_t a, uint64_t b) { return D##_of(a) <= D##_of(b); } \
	static uint64_t D##_where(uint64_t a, uint64_t b) { return D##_of(a) < D##_of(b) ? a : b; } \
	static uint64_t D##_isnan(uint64_t a, uint64_t b) { \
		(void)b; \
		return isnan(D##_of(a)) != 0; \
	} \
	static uint64_t D##_isinf(uint64_t a, uint64_t b) { \
		(void)b; \
		return isinf(D##_of(a)) != 0; \
	} \
	static uint64_t D##_isfinite(uint64_t a, uint64_t b) { \
		(void)b; \
		return isfinite(D##_of(a)) != 0; \
	} \
	static uint64_t D##_one(uint64_t a, uint64_t b) { \
		(void)a; \
		(void)b; \
		return D##_make(1); \
	} \
	static uint64_t D##_floor_divide(uint64_t a, uint64_t b) { \
		T x = D##_of(a), y = D##_of(b); \
		__float128 q = (__float128)x / y; \
		if (isnanq(q) || fabsq(floorq(q)) >= LIMIT) \
			return D##_make(x / y); \
		if (isinf(y)) \
			return D##_make(x != 0 && (x < 0) != (y < 0) ? -1 : (T)q); \
		return D##_make((T)floorq(q)); \
	} \
	static uint64_t D##_remainder(uint64_t a, uint64_t b) { \
		T x = D##_of(a), y = D##_of(b); \
		T r = F(fmod)(x, y); \
		if (r != 0 && (r < 0) != (y < 0)) \
			r += y; \
		return D##_make(r == 0 ? F(copysign)(r, y) : r); \
	} \
	static const struct row D##_rows[] = { \
		{ #D, "add_(a, b)", D##_add }, { #D, "sub_(a, b)", D##_sub }, { #D, "mul_(a, b)", D##_mul }, \
		{ #D, "div_(a, b)", D##_div }, { #D, "sqrt_(a)", D##_sqrt }, { #D, "rsqrt_(a)", D##_rsqrt }, \
		{ #D, "fma_(a, b, a)", D##_fma }, { #D, "floor_(a)", D##_floor }, { #D, "ceil_(a)", D##_ceil }, \
		{ #D, "round_(a)", D##_round }, { #D, "trunc_(a)", D##_trunc }, { #D, "abs_(a)", D##_abs }, \
		{ #D, "neg_(a)", D##_neg }, { #D, "sign_(a)", D##_sign }, { #D, "relu_(a)", D##_relu }, \
		{ #D, "copysign_(a, b)", D##_copysign }, { #D, "signed_as_(a, b)", D##_signed_as }, { #D, "leaky_relu_(a, b)", D##_leaky }, \
		{ #D, "hardsigmoid_(a)", D##_hardsigmoid }, { #D, "max_(a, b)", D##_max }, \
		{ #D, "min_(a, b)", D##_min }, { "bool", "eq_(a, b)", D##_eq }, { "bool", "ne_(a, b)", D##_ne }, \
		{ "bool", "lt_(a, b)", D##_lt }, { "bool", "le_(a, b)", D##_le }, \
		{ #D, "where_(lt_(a, b), a, b)", D##_where }, { "bool", "isnan_(a)", D##_isnan }, \
		{ "bool", "isinf_(a)", D##_isinf }, { "bool", "isfinite_(a)", D##_isfinite }, \
		{ #D, "zero_(a)", zero }, { #D, "one_(a)", D##_one }, \
		{ #D, "floor_divide_(a, b)", D##_floor_divide }, { #D, "remainder_(a, b)", D##_remainder }, \
	};

#define FLOAT_FUNCTION(name) name##f
#define DOUBLE_FUNCTION(name) name
REAL_REFERENCES(f32, float, FLOAT_FUNCTION, 0x1p24)
REAL_REFERENCES(f64, double, DOUBLE_FUNCTION, 0x1p53)

/* An integer, sign-extended where its type is signed. */
static int64_t number_of_int(const char *type, uint64_t bits) {
	unsigned unused = 64 - 8 * (unsigned)bytes_of(type);

	return type[0] == 'i' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

/* A number of any source type, exactly. */
static __float128 number_of(const char *type, uint64_t bits) {
	if (!strcmp(type, "f64"))
		return f64_of(bits);
	if (!strcmp(type, "f32"))
		return f32_of(bits);
	if (type[0] == 'i')
		return number_of_int(type, bits);
	return bits;
}

static uint64_t saturated(__float128 x, __float128 low, __float128 high) {
	if (isnanq(x))
		return 0;
	x = truncq(x < low ? low : (x > high ? high : x));
	return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

/* The bits that a number of type `from` has as type `to`. */
static uint64_t converted(const char *from, const char *to, uint64_t bits) {
	__float128 x = number_of(from, bits), two = 2;
	int width = (int)bytes_of(to) * 8;

	if (!strcmp(to, "bool"))
		return x != 0;
	if (!strcmp(to, "f64"))
		return bits_f64((double)x);
	if (!strcmp(to, "f32"))
		return bits_f32((float)x);
	if (!strcmp(to, "f16"))
		return bits_f16(x);
	if (!strcmp(to, "bf16"))
		return bits_bf16(x);
	if (!is_float(from))
		return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
	if (to[0] == 'u')
		return saturated(x, 0, ldexpq(two, width - 1) - 1);
	return saturated(x, -ldexpq(two, width - 2), ldexpq(two, width - 2) - 1);
}

#define CONVERSIONS(S) \
	{ "bool", "to_bool(a)", NULL }, { "i8", "to_i8(a)", NULL }, { "u8", "to_u8(a)", NULL }, \
	{ "i16", "to_i16(a)", NULL }, { "u16", "to_u16(a)", NULL }, { "i32", "to_i32(a)", NULL }, \
	{ "u32", "to_u32(a)", NULL }, { "i64", "to_i64(a)", NULL }, { "u64", "to_u64(a)", NULL }, \
	{ "f32", "to_f32(a)", NULL }, { "f16", "to_f16(a)", NULL }, { "bf16", "to_bf16(a)", NULL }
static const struct row conversion_rows[] = {
	CONVERSIONS(any),
};
static const struct row conversion_rows_f64[] = {
	CONVERSIONS(any),
	{ "f64", "to_f64(a)", NULL },
};

/* 16-bit formats: every pattern to f32 and f64 and back. */
static uint64_t f16_value(uint64_t a, uint64_t b) {
	int e = (int)(a >> 10 & 31);
	double m = (double)(a & 1023), y = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);

	(void)b;
	if (e == 31)
		y = m != 0 ? (double)NAN : (double)INFINITY;
	return bits_f32((float)(a >> 15 & 1 ? -y : y));
}

static uint64_t bf16_value(uint64_t a, uint64_t b) {
	(void)b;
	return a << 16;
}

static uint64_t not_zero(uint64_t a, uint64_t b) {
	(void)b;
	return a != 0;
}

static const struct row f16_rows[] = {
	{ "f32", "a", f16_value }, { "f16", "a", same }, { "f16", "round_f16(a)", same },
	{ "f16", "to_f16(a)", same },
};
static const struct row bf16_rows[] = {
	{ "f32", "a", bf16_value }, { "bf16", "a", same }, { "bf16", "round_bf16(a)", same },
	{ "bf16", "to_bf16(a)", same },
};
static const struct row bool_rows[] = {
	{ "bool", "a", not_zero }, { "u8", "where_(a, (u8v)(uchar)7, (u8v)(uchar)9)", NULL },
};

#define GROUP(name, type, rows) { name, type, rows, sizeof rows / sizeof *rows }
static const struct group groups[] = {
	GROUP("i8", "i8", i8_rows), GROUP("u8", "u8", u8_rows), GROUP("i16", "i16", i16_rows),
	GROUP("u16", "u16", u16_rows), GROUP("i32", "i32", i32_rows), GROUP("u32", "u32", u32_rows),
	GROUP("i64", "i64", i64_rows), GROUP("u64", "u64", u64_rows), GROUP("f32", "f32", f32_rows),
	GROUP("f16", "f16", f16_rows), GROUP("bf16", "bf16", bf16_rows), { "bool", "bool", bool_rows, 1 },
	GROUP("convert_i8", "i8", conversion_rows), GROUP("convert_u8", "u8", conversion_rows),
	GROUP("convert_i16", "i16", conversion_rows), GROUP("convert_u16", "u16", conversion_rows),
	GROUP("convert_i32", "i32", conversion_rows), GROUP("convert_u32", "u32", conversion_rows),
	GROUP("convert_i64", "i64", conversion_rows), GROUP("convert_u64", "u64", conversion_rows),
	GROUP("convert_f32", "f32", conversion_rows),
};
static const struct group groups_f64[] = {
	GROUP("f64", "f64", f64_rows), GROUP("convert64_i8", "i8", conversion_rows_f64),
	GROUP("convert64_i32", "i32", conversion_rows_f64), GROUP("convert64_u32", "u32", conversion_rows_f64),
	GROUP("convert64_i64", "i64", conversion_rows_f64), GROUP("convert64_u64", "u64", conversion_rows_f64),
	GROUP("convert64_f32", "f32", conversion_rows_f64), GROUP("convert64_f64", "f64", conversion_rows_f64),
	GROUP("divide64_i32", "i32", i32_rows), GROUP("divide64_u32", "u32", u32_rows),
};

static uint64_t next_random(uint64_t *state) {
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Near powers of two of both signs, the ends of every integer type, and any size of number. */
static uint64_t random_integer(uint64_t *state) {
	uint64_t r = next_random(state), shift = next_random(state) % 64, y = r >> shift;

	if (r % 4 == 0)
		y = (UINT64_C(1) << shift) + (r >> 8) % 5 - 2;
	return (r >> 4) % 2 ? 0 - y : y;
}

/* Numbers that are integers, halves, close to rounding boundaries of the 16-bit formats, or any bits. */
static double random_real(uint64_t *state, bool f64) {
	uint64_t r = next_random(state);
	uint64_t tie = (r & 0xffff000000000000u) | (UINT64_C(1) << (next_random(state) % 2 ? 41 : 44));
	double half;

	switch (r % 8) {
	case 0:
		return (double)(int64_t)random_integer(state);
	case 1:
		return (double)(int64_t)(random_integer(state) >> 40) + 0.5;
	case 2:
		half = f32_of(f16_value(r >> 16 & 0xffff, 0));
		return half + (r >> 33 & 1 ? 1 : -1) * ldexp(fabs(half), (int)(r >> 34 & 7) - 14);
	case 3:
		return f32_of((r >> 32 & 0xffff0000u) | 0x8000u | (r >> 20 & 1));
	case 4:
		return f64_of(bits_f64(f32_of(r >> 32)) + (f64 ? (r >> 20 & 3) - 1 : 0));
	case 5:
		return f64 ? f64_of(tie + (r >> 30 & 3) - 1) : f32_of(r >> 32);
	case 6:
		return ldexp((double)(r >> 11), (int)(next_random(state) % 190) - 160 - 53);
	default:
		return f64 ? f64_of(r) : f32_of(r >> 32);
	}
}

static const double real_special[] = {
	0, -0.0, 1, -1, 0.5, -0.5, 0.1, -0.1, 1.5, 2.5, -2.5, 3, -3, INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-149,
	0x1p-126, 0x1p-1074, 0x1p-25, 0x1.8p-25, 0x1p-24, 1e-30, 127, 127.5, 128, -128, -128.5, 255, 256, 32767,
	65504, 65519, 65520, -65520, 65535, 65536, 0x1p23, 0x1p24, 0x1p31, -0x1p31, 2147483647, 0x1p32, 4294967295,
	0x1.fffffffffffffp62, 0x1p63, -0x1p63, 0x1p64, 1e30, 0x1.fffffep127, 3.38953139e38, 1e300,
};
enum { REAL_SPECIALS = sizeof real_special / sizeof *real_special };

static void store_real(void *p, size_t bytes, size_t i, double x) {
	float narrow = (float)x;

	memcpy((char *)p + i * bytes, bytes == 4 ? (void *)&narrow : (void *)&x, bytes);
}

static void fill(const char *type, void *a, void *b) {
	size_t bytes = bytes_of(type), pairs = (size_t)REAL_SPECIALS * REAL_SPECIALS;
	uint64_t state = 7;

	for (size_t i = 0; i < SAMPLES; i++) {
		uint64_t x = bytes == 1 ? i >> 8 : (bytes == 2 && i % 2 ? i : random_integer(&state));
		uint64_t y = bytes == 1 ? i : random_integer(&state);

		if (bytes == 2 && is_float(type))
			x = i;
		if (i % 8 == 7 && bytes > 1)
			y >>= 40;
		memcpy((char *)a + i * bytes, &x, bytes);
		memcpy((char *)b + i * bytes, &y, bytes);
		if (bytes < 4 || !is_float(type))
			continue;
		store_real(a, bytes, i, i < pairs ? real_special[i / REAL_SPECIALS] : random_real(&state, bytes == 8));
		store_real(b, bytes, i, i < pairs ? real_special[i % REAL_SPECIALS] : random_real(&state, bytes == 8));
	}
}

static uint64_t expected_of(const struct group *g, const struct row *r, uint64_t a, uint64_t b) {
	uint64_t y = r->expected ? r->expected(a, b) : converted(g->type, r->type, a);

	return y & mask_of(bytes_of(r->type));
}

/* Compares one row of both programs' results; prints the first difference. */
static bool check_row(const struct group *g, size_t k, const void *a, const void *b, const char *few,
	const char *many) {
	const struct row *r = &g->rows[k];
	size_t bytes = bytes_of(g->type), out = bytes_of(r->type), at = k * SLOT_BYTES * SAMPLES;

	for (size_t i = 0; i < SAMPLES; i++) {
		uint64_t x = load(a, bytes, i), y = load(b, bytes, i), want = expected_of(g, r, x, y);
		uint64_t got_few = load(few + at, out, i), got_many = load(many + at, out, i);
		bool nan = is_nan(r->type, want);
		bool ok = nan ? is_nan(r->type, got_few) && is_nan(r->type, got_many) :
			want == got_few && want == got_many;

		if (ok)
			continue;
		printf("FAIL %s %s to %s of %#llx, %#llx: want %#llx, with 1 lane %#llx, with more %#llx\n", g->name,
			r->expr, r->type, (unsigned long long)x, (unsigned long long)y, (unsigned long long)want,
			(unsigned long long)got_few, (unsigned long long)got_many);
		return false;
	}
	return true;
}

static size_t group_text(const struct group *g, char *text, size_t used) {
	size_t bytes = bytes_of(g->type);

	used += (size_t)snprintf(text + used, TEXT_BYTES - used,
		"kernel void exact_%s(global const uchar *p, global const uchar *q, global const uchar *r, "
		"global uchar *o, uint count) {\n"
		"ulong n = get_global_size(0) * (ulong)count, at = get_global_id(0) * (ulong)count;\n"
		"for (uint i = 0; i < count; i += W, at += W) {\n"
		"__typeof__(load_%s(p)) a = load_%s(p + at * %zu), b = load_%s(q + at * %zu);\n",
		g->name, g->type, g->type, bytes, g->type, bytes);
	for (size_t k = 0; k < g->count; k++)
		used += (size_t)snprintf(text + used, TEXT_BYTES - used, "store_%s(o + n * %zu + at * %zu, %s);\n",
			g->rows[k].type, k * SLOT_BYTES, bytes_of(g->rows[k].type), g->rows[k].expr);
	return used + (size_t)snprintf(text + used, TEXT_BYTES - used, "} }\n");
}

static void check_group(const struct group *g, struct program *few, struct program *many, int *passedp,
	int *failedp) {
	size_t bytes = bytes_of(g->type), out = g->count * SLOT_BYTES;
	void *a = malloc(SAMPLES * bytes), *b = malloc(SAMPLES * bytes);
	char *got_few = malloc(SAMPLES * out), *got_many = malloc(SAMPLES * out);
	const void *in[DEVICE_MAX_INPUTS] = { a, b };
	const size_t sizes[DEVICE_MAX_INPUTS] = { bytes, bytes };
	int failed = *failedp;
	char name[64];

	fill(g->type, a, b);
	snprintf(name, sizeof name, "exact_%s", g->name);
	program_run(few, name, SAMPLES, in, sizes, got_few, out);
	program_run(many, name, SAMPLES, in, sizes, got_many, out);
	for (size_t k = 0; k < g->count; k++)
		++*(check_row(g, k, a, b, got_few, got_many) ? passedp : failedp);
	if (failed == *failedp)
		printf("ok   %-13s %zu functions\n", g->name, g->count);
	free(a);
	free(b);
	free(got_few);
	free(got_many);
}

static void check_groups(struct device *d, int lanes, bool f64, const struct group *first, size_t count,
	int *passedp, int *failedp) {
	char *text = malloc(TEXT_BYTES);
	size_t used = 0;
	struct program *few, *many;

	if (!text)
		exit(2);
	for (size_t i = 0; i < count; i++)
		used = group_text(&first[i], text, used);
	few = program_build(d, LANES_FEW, f64, text);
	many = program_build(d, lanes, f64, text);
	for (size_t i = 0; i < count; i++)
		check_group(&first[i], few, many, passedp, failedp);
	program_free(few);
	program_free(many);
	free(text);
}

/*
 * Accessors. For each dtype and each n up to W one record of results, each of up to 48 lanes of 8 bytes,
 * from the same input: loadn, gather with stride 3, gather backwards, storen and scatter over bytes of
 * 0x55, uniform, stream, scalar, and iota.
 */
enum { RECORD_LANES = 16 };
static const size_t results = 9, result_bytes = (size_t)3 * RECORD_LANES * SLOT_BYTES;

static const char *const memory_types[] = {
	"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64",
};
enum { MEMORY_TYPES = sizeof memory_types / sizeof *memory_types };

static size_t memory_text(char *text, size_t used, const char *type) {
	return used + (size_t)snprintf(text + used, TEXT_BYTES - used,
		"kernel void memory_%s(global const uchar *p, global const uchar *q, global const uchar *r, "
		"global uchar *o, uint count) {\n"
		"const int B = %zu, R = %zu, N = %zu;\n"
		"if (get_global_id(0) != 0) return;\n"
		"for (int i = 0; i < N * R * 16; i++) o[i] = 0x55;\n"
		"for (int n = 1; n <= W; n++, o += N * R) {\n"
		"store_%s(o, loadn_%s(p + n * B, n)); store_%s(o + R, gather_%s(p + n * B, 3, n));\n"
		"store_%s(o + 2 * R, gather_%s(p + 40 * B, -2, n));\n"
		"storen_%s(o + 3 * R, load_%s(p + n * B), n); scatter_%s(o + 4 * R, load_%s(p + n * B), 3, n);\n"
		"store_%s(o + 5 * R, uniform_%s(p + n * B)); stream_%s(o + 6 * R, load_%s(p + n * B));\n"
		"store_%s(o + 7 * R, scalar_%s(((global const ulong *)q)[n]));\n"
		"store_i64(o + 8 * R, iota_i64(n, -3));\n"
		"} }\n",
		type, bytes_of(type), result_bytes, results, type, type, type, type, type, type, type, type, type,
		type, type, type, type, type, type, type);
}

/* Whether lane `to` of result k of a record is element `from` of the input. */
static bool lane_is(const char *in, const char *record, size_t k, size_t bytes, long from, long to) {
	return !memcmp(in + from * (long)bytes, record + k * result_bytes + to * (long)bytes, bytes);
}

static bool untouched(const char *record, size_t k, size_t bytes, long lane) {
	const char *p = record + k * result_bytes + lane * (long)bytes;

	for (size_t i = 0; i < bytes; i++)
		if (p[i] != 0x55)
			return false;
	return true;
}

static bool loads_right(const char *in, const char *record, size_t bytes, long l, long n) {
	long c = l < n ? l : n - 1;

	return lane_is(in, record, 0, bytes, n + c, l) && lane_is(in, record, 1, bytes, n + 3 * c, l) &&
		lane_is(in, record, 2, bytes, 40 - 2 * c, l) && lane_is(in, record, 5, bytes, n, l);
}

static bool stores_right(const char *in, const char *record, size_t bytes, long l, long n) {
	bool ok = l < n ? lane_is(in, record, 3, bytes, n + l, l) && lane_is(in, record, 4, bytes, n + l, 3 * l) :
		untouched(record, 3, bytes, l) && untouched(record, 4, bytes, 3 * l);

	return ok && untouched(record, 4, bytes, 3 * l + 1) && untouched(record, 4, bytes, 3 * l + 2) &&
		lane_is(in, record, 6, bytes, n + l, l);
}

static bool record_right(const char *in, const char *record, size_t bytes, long lanes, long n) {
	bool ok = untouched(record, 3, bytes, lanes) && untouched(record, 6, bytes, lanes);

	for (long l = 0; l < lanes; l++) {
		int64_t count;

		memcpy(&count, record + 8 * result_bytes + (size_t)l * sizeof count, sizeof count);
		ok = ok && loads_right(in, record, bytes, l, n) && stores_right(in, record, bytes, l, n) &&
			lane_is(in, record, 7, bytes, n, l) && count == n - 3 * l;
	}
	return ok;
}

/* A scalar as protocol/dtype.h encodes it. */
static uint64_t scalar_word(const char *type, uint64_t element) {
	if (!strcmp(type, "f16"))
		return f16_value(element, 0);
	if (!strcmp(type, "bf16"))
		return bf16_value(element, 0);
	return is_float(type) ? element : (uint64_t)number_of_int(type, element);
}

static bool memory_right(struct program *p, const char *type, int lanes) {
	size_t bytes = bytes_of(type), per_element = results * result_bytes * RECORD_LANES / PROGRAM_CHUNK + 1;
	size_t input = (size_t)PROGRAM_CHUNK * SLOT_BYTES;
	char *in = malloc(input), *out = malloc(PROGRAM_CHUNK * per_element);
	uint64_t words[PROGRAM_CHUNK];
	const void *const inputs[DEVICE_MAX_INPUTS] = { in, words };
	const size_t sizes[DEVICE_MAX_INPUTS] = { SLOT_BYTES, SLOT_BYTES };
	char name[64];
	bool ok = true;

	/* Bytes 0 and 1 are bools; elsewhere every eighth number is negative, and none is a NaN. */
	for (size_t i = 0; i < input; i++)
		in[i] = (char)(!strcmp(type, "bool") ? i * 7 % 3 % 2 : (i * 37 + i / 128) % 0x38 + (i / 8 % 8 ? 0 : 0x80));
	for (size_t i = 0; i < PROGRAM_CHUNK; i++)
		words[i] = scalar_word(type, load(in, bytes, i));
	snprintf(name, sizeof name, "memory_%s", type);
	program_run(p, name, PROGRAM_CHUNK, inputs, sizes, out, per_element);
	for (int n = 1; n <= lanes; n++)
		ok = ok && record_right(in, out + (size_t)(n - 1) * results * result_bytes, bytes, lanes, n);
	free(in);
	free(out);
	return ok;
}

static void check_memory(struct device *d, int lanes, int *passedp, int *failedp) {
	size_t types = device_has_f64(d) ? MEMORY_TYPES : MEMORY_TYPES - 1, used = 0;
	char *text = malloc(TEXT_BYTES);
	struct program *p;
	int failed = *failedp;

	if (!text)
		exit(2);
	for (size_t i = 0; i < types; i++)
		used = memory_text(text, used, memory_types[i]);
	p = program_build(d, lanes, device_has_f64(d), text);
	for (size_t i = 0; i < types; i++) {
		bool ok = memory_right(p, memory_types[i], lanes);

		++*(ok ? passedp : failedp);
		if (!ok)
			printf("FAIL memory of %s with %d lanes\n", memory_types[i], lanes);
	}
	if (failed == *failedp)
		printf("ok   memory        %zu types with %d lanes\n", types, lanes);
	program_free(p);
	free(text);
}

void exact_run(struct device *d, int lanes, int *passedp, int *failedp) {
	check_groups(d, lanes, false, groups, sizeof groups / sizeof *groups, passedp, failedp);
	if (device_has_f64(d))
		check_groups(d, lanes, true, groups_f64, sizeof groups_f64 / sizeof *groups_f64, passedp, failedp);
	check_memory(d, LANES_FEW, passedp, failedp);
	check_memory(d, 4, passedp, failedp);
	check_memory(d, lanes, passedp, failedp);
}

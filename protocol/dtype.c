/*
 * Element types: the table, promotion, and scalars as words.
 *
 * The 16-bit floats are converted by hand, in integer arithmetic, so that client and daemon agree
 * to the bit whatever their compilers and processors think of half precision. Rounding is to
 * nearest, ties to even, everywhere; a NaN stays a (quiet) NaN.
 *
 * A double becomes a 16-bit float in two steps, and two roundings can differ from one. The first
 * step therefore rounds to odd: it truncates and, where anything was lost, sets the last bit. A
 * float carries far more than two bits beyond either 16-bit type, so the second rounding sees on
 * which side of a tie the value was.
 */
#include "dtype.h"

#include <math.h>
#include <string.h>

static const struct dtype_info rows[DTYPE_COUNT] = {
#define DTYPE(id, name, bytes, kind, reg, ctype, doc)                                                        \
	[id] = { #name, bytes, DTYPE_KIND_##kind, DTYPE_##reg, doc },
#include "dtypes.def"
#undef DTYPE
};

#define DTYPE(id, name, bytes, kind, reg, ctype, doc)                                                        \
	_Static_assert(sizeof(ctype) == (bytes), "the C type of " #name " has another size");
#include "dtypes.def"
#undef DTYPE

const struct dtype_info *dtype_info(enum dtype id) {
	return &rows[id];
}

int dtype_find(const char *name) {
	for (int id = 0; id < DTYPE_COUNT; id++)
		if (!strcmp(rows[id].name, name))
			return id;
	return -1;
}

static enum dtype wider(enum dtype a, enum dtype b) {
	return rows[a].bytes >= rows[b].bytes ? a : b;
}

static enum dtype promote_floats(enum dtype a, enum dtype b) {
	if (a != b && rows[a].bytes == 2 && rows[b].bytes == 2)
		return DTYPE_f32;
	return wider(a, b);
}

static enum dtype promote_signed_with_unsigned(enum dtype s, enum dtype u) {
	if (rows[s].bytes > rows[u].bytes)
		return s;
	switch (rows[u].bytes) {
	case 1:
		return DTYPE_i16;
	case 2:
		return DTYPE_i32;
	default:
		return DTYPE_i64;
	}
}

enum dtype dtype_promote(enum dtype a, enum dtype b) {
	enum dtype_kind ka = rows[a].kind, kb = rows[b].kind;

	if (ka == DTYPE_KIND_BOOL)
		return b;
	if (kb == DTYPE_KIND_BOOL)
		return a;
	if (ka == DTYPE_KIND_REAL && kb == DTYPE_KIND_REAL)
		return promote_floats(a, b);
	if (ka == DTYPE_KIND_REAL)
		return a;
	if (kb == DTYPE_KIND_REAL)
		return b;
	if (ka == kb)
		return wider(a, b);
	return ka == DTYPE_KIND_SINT ? promote_signed_with_unsigned(a, b)
				     : promote_signed_with_unsigned(b, a);
}

static uint32_t float_bits(float value) {
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float float_of_bits(uint32_t bits) {
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint64_t double_bits(double value) {
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static double double_of_bits(uint64_t bits) {
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* value >> shift for 0 < shift < 32, to nearest, ties to even. */
static uint32_t shift_right_rounding(uint32_t value, unsigned shift) {
	uint32_t half = UINT32_C(1) << (shift - 1);
	uint32_t lost = value & (2 * half - 1);
	uint32_t kept = value >> shift;

	return kept + (lost > half || (lost == half && (kept & 1)));
}

uint16_t dtype_f16_from_float(float value) {
	uint32_t bits = float_bits(value);
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
	uint32_t magnitude = bits & 0x7fffffff;
	uint32_t exponent = magnitude >> 23;

	if (magnitude > 0x7f800000) /* NaN: keep it quiet, and what fits of its payload */
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= 0x477ff000) /* 65520, half way to the power after the largest: infinity */
		return sign | 0x7c00;
	if (exponent < 102) /* below 2^-25, half of the smallest */
		return sign;
	if (exponent < 113) /* subnormal: count in units of 2^-24 */
		return (uint16_t)(sign |
				  shift_right_rounding((magnitude & 0x7fffff) | 0x800000, 126 - exponent));
	return (uint16_t)(sign | shift_right_rounding(magnitude - (UINT32_C(112) << 23), 13));
}

float dtype_f16_to_float(uint16_t bits) {
	uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
	uint32_t exponent = bits >> 10 & 0x1f;
	uint32_t fraction = bits & 0x3ff;
	float subnormal;

	if (exponent == 0x1f)
		return float_of_bits(sign | 0x7f800000 | fraction << 13);
	if (exponent)
		return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
	subnormal = (float)fraction * 0x1p-24f;
	return sign ? -subnormal : subnormal;
}

uint16_t dtype_bf16_from_float(float value) {
	uint32_t bits = float_bits(value);

	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)shift_right_rounding(bits, 16);
}

float dtype_bf16_to_float(uint16_t bits) {
	return float_of_bits((uint32_t)bits << 16);
}

/* value as a float, rounded to odd; infinities and NaN stay. */
static float float_rounded_to_odd(double value) {
	float nearest = (float)value;
	uint32_t bits = float_bits(nearest);

	if (isnan(value) || isinf(value) || (double)nearest == value)
		return nearest;
	if (fabs((double)nearest) > fabs(value))
		bits--;
	return float_of_bits(bits | 1);
}

/* value as a double, rounded to odd. */
static double double_rounded_to_odd(int64_t value) {
	uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	double rounded;

	if (magnitude >> 53)
		magnitude = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
	rounded = (double)magnitude;
	return value < 0 ? -rounded : rounded;
}

static uint64_t real_from_double(enum dtype type, double value) {
	switch (type) {
	case DTYPE_f16:
		return float_bits(dtype_f16_to_float(dtype_f16_from_float(float_rounded_to_odd(value))));
	case DTYPE_bf16:
		return float_bits(dtype_bf16_to_float(dtype_bf16_from_float(float_rounded_to_odd(value))));
	case DTYPE_f32:
		return float_bits((float)value);
	default:
		return double_bits(value);
	}
}

static int64_t signed_largest(enum dtype type) {
	return (int64_t)(UINT64_MAX >> (65 - 8 * rows[type].bytes));
}

static uint64_t unsigned_largest(enum dtype type) {
	return UINT64_MAX >> (64 - 8 * rows[type].bytes);
}

/* Truncates; saturates; NaN gives 0. The bounds are powers of two, so exact as doubles. */
static uint64_t signed_from_double(enum dtype type, double value) {
	int64_t largest = signed_largest(type);
	double beyond = ldexp(1, 8 * rows[type].bytes - 1);

	if (isnan(value))
		return 0;
	if (value >= beyond)
		return (uint64_t)largest;
	if (value <= -beyond)
		return (uint64_t)(-largest - 1);
	return (uint64_t)(int64_t)value;
}

static uint64_t unsigned_from_double(enum dtype type, double value) {
	if (!(value > 0))
		return 0;
	if (value >= ldexp(1, 8 * rows[type].bytes))
		return unsigned_largest(type);
	return (uint64_t)value;
}

uint64_t dtype_scalar_from_double(enum dtype type, double value) {
	switch (rows[type].kind) {
	case DTYPE_KIND_BOOL:
		return value != 0;
	case DTYPE_KIND_SINT:
		return signed_from_double(type, value);
	case DTYPE_KIND_UINT:
		return unsigned_from_double(type, value);
	default:
		return real_from_double(type, value);
	}
}

static uint64_t signed_from_int(enum dtype type, int64_t value) {
	int64_t largest = signed_largest(type);

	if (value > largest)
		return (uint64_t)largest;
	if (value < -largest - 1)
		return (uint64_t)(-largest - 1);
	return (uint64_t)value;
}

static uint64_t unsigned_from_int(enum dtype type, int64_t value) {
	uint64_t largest = unsigned_largest(type);

	if (value < 0)
		return 0;
	return (uint64_t)value > largest ? largest : (uint64_t)value;
}

uint64_t dtype_scalar_from_int(enum dtype type, int64_t value) {
	switch (rows[type].kind) {
	case DTYPE_KIND_BOOL:
		return value != 0;
	case DTYPE_KIND_SINT:
		return signed_from_int(type, value);
	case DTYPE_KIND_UINT:
		return unsigned_from_int(type, value);
	default:
		if (type == DTYPE_f64)
			return double_bits((double)value);
		return real_from_double(type, double_rounded_to_odd(value));
	}
}

double dtype_scalar_to_double(enum dtype type, uint64_t bits) {
	switch (rows[type].kind) {
	case DTYPE_KIND_BOOL:
		return bits != 0;
	case DTYPE_KIND_SINT:
		return (double)(int64_t)bits;
	case DTYPE_KIND_UINT:
		return (double)bits;
	default:
		return type == DTYPE_f64 ? double_of_bits(bits) : (double)float_of_bits((uint32_t)bits);
	}
}

static bool real_is_canonical(enum dtype type, uint64_t bits) {
	double value = dtype_scalar_to_double(type, bits);

	if (type == DTYPE_f64)
		return true;
	if (bits >> 32)
		return false;
	return isnan(value) || real_from_double(type, value) == bits;
}

bool dtype_scalar_exact(enum dtype type, double value, uint64_t *bitsp) {
	*bitsp = dtype_scalar_from_double(type, value);
	if (dtype_info(type)->kind == DTYPE_KIND_REAL)
		return true;
	/* The largest values of the 64-bit types round up to powers of two that are none of them. */
	if ((type == DTYPE_i64 && value >= 0x1p63) || (type == DTYPE_u64 && value >= 0x1p64))
		return false;
	return dtype_scalar_to_double(type, *bitsp) == value;
}

bool dtype_scalar_valid(enum dtype type, uint64_t bits) {
	switch (rows[type].kind) {
	case DTYPE_KIND_BOOL:
		return bits <= 1;
	case DTYPE_KIND_SINT:
		return signed_from_int(type, (int64_t)bits) == bits;
	case DTYPE_KIND_UINT:
		return bits <= unsigned_largest(type);
	default:
		return real_is_canonical(type, bits);
	}
}

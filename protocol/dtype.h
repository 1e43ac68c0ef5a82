/*
 * Element types: the table of dtypes.def, promotion, and scalars as 64-bit words.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
#define DTYPE(id, name, ...) DTYPE_##name = id,
#include "dtypes.def"
#undef DTYPE
	DTYPE_COUNT,
};

enum dtype_kind {
	DTYPE_KIND_BOOL,
	DTYPE_KIND_SINT,
	DTYPE_KIND_UINT,
	DTYPE_KIND_REAL,
};

struct dtype_info {
	const char *name;
	uint8_t bytes;
	enum dtype_kind kind;
	enum dtype reg;        /* the type a kernel holds it in */
	const char *doc;
};

/* The row of a type; id must be below DTYPE_COUNT. */
const struct dtype_info *dtype_info(enum dtype id);

/* The type with a name, or -1. */
int dtype_find(const char *name);

/*
 * The type two operands meet in. Within a kind: the wider; signed with unsigned: the narrowest
 * signed type that holds both (i64 with u64: f64 in NumPy, here i64); bool with anything: the
 * other; an integer with a float: the float; f16 with bf16: f32.
 */
enum dtype dtype_promote(enum dtype a, enum dtype b);

/*
 * A scalar travels as the bits of its register type, zero-extended to 64: a float for f16, bf16
 * and f32 (already rounded to the type), a double for f64, the two's complement value for
 * integers (i8..i64 sign-extended), 0 or 1 for bool. Values that do not fit clamp to the nearest
 * that does, fractions are cut off, NaN as an integer is 0: the rules of `cast`.
 */
uint64_t dtype_scalar_from_double(enum dtype type, double value);
uint64_t dtype_scalar_from_int(enum dtype type, int64_t value);
double dtype_scalar_to_double(enum dtype type, uint64_t bits);

/* Leaves the word of value; false where an integer type or bool does not have it (fractions, out of range, NaN). */
bool dtype_scalar_exact(enum dtype type, double value, uint64_t *bitsp);

/* Is this word a value of the type: in range, rounded, unused high bits as described above? */
bool dtype_scalar_valid(enum dtype type, uint64_t bits);

/* Conversions between float and the bits of the 16-bit types, rounding to nearest even. */
uint16_t dtype_f16_from_float(float value);
float dtype_f16_to_float(uint16_t bits);
uint16_t dtype_bf16_from_float(float value);
float dtype_bf16_to_float(uint16_t bits);

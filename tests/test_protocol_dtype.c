/*
 * Element types against references that share no code with them: the compiler's own _Float16, and
 * for bfloat16 and integers a choice between the two neighbours in wider arithmetic.
 */
#include "protocol/dtype.h"

#include <math.h>
#include <string.h>

#include "tests/test_protocol.h"

static uint32_t bits_of(float value) {
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float float_of(uint32_t bits) {
	float value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static double double_of(uint64_t bits) {
	double value;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static float scalar_float(enum dtype type, uint64_t bits) {
	return (float)dtype_scalar_to_double(type, bits);
}

START_TEST(names_are_found_and_unique) {
	for (int id = 0; id < DTYPE_COUNT; id++)
		ck_assert_int_eq(dtype_find(dtype_info((enum dtype)id)->name), id);
	ck_assert_int_eq(dtype_find("f128"), -1);
	ck_assert_int_eq(dtype_find(""), -1);
}
END_TEST

START_TEST(promotion_is_symmetric_and_never_narrows) {
	for (enum dtype a = 0; a < DTYPE_COUNT; a++) {
		ck_assert_int_eq(dtype_promote(a, a), a);
		for (enum dtype b = 0; b < DTYPE_COUNT; b++) {
			enum dtype p = dtype_promote(a, b);

			ck_assert_int_eq(p, dtype_promote(b, a));
			if (dtype_info(a)->kind == DTYPE_KIND_REAL)
				ck_assert_int_eq(dtype_info(p)->kind, DTYPE_KIND_REAL);
			if (dtype_info(p)->kind != DTYPE_KIND_REAL)
				ck_assert_int_ge(dtype_info(p)->bytes, dtype_info(a)->bytes);
		}
	}
}
END_TEST

START_TEST(promotion_follows_the_documented_table) {
	static const enum dtype rows[][3] = {
		{ DTYPE_bool, DTYPE_i8, DTYPE_i8 },
		{ DTYPE_bool, DTYPE_f16, DTYPE_f16 },
		{ DTYPE_i8, DTYPE_u8, DTYPE_i16 },
		{ DTYPE_i16, DTYPE_u8, DTYPE_i16 },
		{ DTYPE_i16, DTYPE_u16, DTYPE_i32 },
		{ DTYPE_i8, DTYPE_u32, DTYPE_i64 },
		{ DTYPE_i64, DTYPE_u64, DTYPE_i64 },
		{ DTYPE_i8, DTYPE_u64, DTYPE_i64 },
		{ DTYPE_i64, DTYPE_f16, DTYPE_f16 },
		{ DTYPE_u8, DTYPE_bf16, DTYPE_bf16 },
		{ DTYPE_f16, DTYPE_bf16, DTYPE_f32 },
		{ DTYPE_f16, DTYPE_f32, DTYPE_f32 },
		{ DTYPE_bf16, DTYPE_f64, DTYPE_f64 },
		{ DTYPE_u16, DTYPE_u32, DTYPE_u32 },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		ck_assert_int_eq(dtype_promote(rows[i][0], rows[i][1]), rows[i][2]);
}
END_TEST

START_TEST(every_f16_pattern_survives_a_round_trip) {
	for (unsigned bits = 0; bits <= UINT16_MAX; bits++) {
		uint16_t back = dtype_f16_from_float(dtype_f16_to_float((uint16_t)bits));

		if ((bits & 0x7fff) > 0x7c00) /* a signalling NaN turns quiet */
			must(back == (bits | 0x200));
		else
			must(back == bits);
	}
}
END_TEST

START_TEST(every_bf16_pattern_survives_a_round_trip) {
	for (unsigned bits = 0; bits <= UINT16_MAX; bits++) {
		uint16_t back = dtype_bf16_from_float(dtype_bf16_to_float((uint16_t)bits));

		if ((bits & 0x7fff) > 0x7f80)
			must(back == (bits | 0x40));
		else
			must(back == bits);
	}
}
END_TEST

#ifdef __FLT16_MANT_DIG__
__extension__ typedef _Float16 half;

static uint16_t half_bits(half value) {
	uint16_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static void check_f16(float value) {
	uint16_t got = dtype_f16_from_float(value);

	if (isnan(value))
		must((got & 0x7fff) > 0x7c00);
	else
		must(got == half_bits((half)value));
}

START_TEST(f16_widens_as_the_compiler_does) {
	for (unsigned bits = 0; bits <= UINT16_MAX; bits++) {
		uint16_t pattern = (uint16_t)bits;
		half value;

		memcpy(&value, &pattern, sizeof value);
		if ((bits & 0x7fff) <= 0x7c00)
			must(bits_of(dtype_f16_to_float(pattern)) == bits_of((float)value));
		else
			must(isnan(dtype_f16_to_float(pattern)));
	}
}
END_TEST

START_TEST(f16_rounds_as_the_compiler_does_around_every_tie) {
	for (unsigned bits = 0; bits < 0x7c00; bits++) {
		float low = dtype_f16_to_float((uint16_t)bits);
		float high = bits == 0x7bff ? 65536.0F : dtype_f16_to_float((uint16_t)(bits + 1));
		float tie = (low + high) / 2;

		for (int sign = -1; sign <= 1; sign += 2) {
			check_f16((float)sign * low);
			check_f16((float)sign * tie);
			check_f16((float)sign * nextafterf(tie, low));
			check_f16((float)sign * nextafterf(tie, high));
			check_f16((float)sign * nextafterf(low, high));
		}
	}
}
END_TEST

START_TEST(f16_rounds_as_the_compiler_does_on_random_floats) {
	uint64_t state = 1;

	for (int i = 0; i < 1000000; i++)
		check_f16(float_of((uint32_t)random_word(&state)));
}
END_TEST

/* Doubles a little beside a tie: a step through float would land on the tie and go the wrong way. */
START_TEST(doubles_become_f16_in_one_rounding) {
	for (unsigned bits = 0; bits < 0x7bff; bits++) {
		double low = (double)dtype_f16_to_float((uint16_t)bits);
		double high = (double)dtype_f16_to_float((uint16_t)(bits + 1));
		double tie = (low + high) / 2;
		double values[] = { tie, nextafter(tie, 0), nextafter(tie, 1e9), nextafter(low, 1e9) };

		for (int i = 0; i < 4; i++) {
			uint64_t got = dtype_scalar_from_double(DTYPE_f16, values[i]);

			must(got == bits_of((float)(half)values[i]));
			got = dtype_scalar_from_double(DTYPE_f16, -values[i]);
			must(got == bits_of((float)(half)-values[i]));
		}
	}
}
END_TEST
#endif

/* The neighbour of |value| that is nearer, by exact comparison in long double. */
static float nearest_bf16(long double value) {
	uint32_t low = bits_of((float)value), high;
	long double magnitude = fabsl(value), below, above;

	low &= 0x7fff0000;
	while ((long double)float_of(low) > magnitude)
		low -= 0x10000;
	high = low + 0x10000;
	below = magnitude - (long double)float_of(low);
	/* Beyond the largest stands, for rounding, the next power of two. */
	above = (high == 0x7f800000 ? 0x1p128L : (long double)float_of(high)) - magnitude;
	if (above < below || (above == below && (low >> 16 & 1)))
		low = high;
	return copysignf(float_of(low), value < 0 ? -1 : 1);
}

START_TEST(bf16_rounds_to_the_nearest_neighbour) {
	uint64_t state = 2;

	for (int i = 0; i < 1000000; i++) {
		float value = float_of((uint32_t)random_word(&state) & (i & 1 ? 0xffff8000 : 0xffffffff));

		if (!isfinite(value))
			continue;
		must(dtype_bf16_to_float(dtype_bf16_from_float(value)) == nearest_bf16((long double)value));
	}
	ck_assert_uint_eq(dtype_bf16_from_float(INFINITY), 0x7f80);
	must(dtype_bf16_from_float(-INFINITY) == 0xff80);
	must((dtype_bf16_from_float(float_of(0x7f800001)) & 0x7fff) > 0x7f80);
}
END_TEST

START_TEST(integers_become_bf16_in_one_rounding) {
	uint64_t state = 3;

	for (int i = 0; i < 200000; i++) {
		int64_t tie = (int64_t)((random_word(&state) | UINT64_C(1) << 63) >> 1 &
					~((UINT64_C(1) << 54) - 1));
		int64_t value = (tie | INT64_C(1) << 54) + (int64_t)random_below(&state, 3) - 1;
		uint64_t got = dtype_scalar_from_int(DTYPE_bf16, value);

		must(got == bits_of(nearest_bf16((long double)value)));
		value = -random_extreme(&state);
		if (value)
			must(dtype_scalar_from_int(DTYPE_bf16, value) ==
				bits_of(nearest_bf16((long double)value)));
	}
	must(dtype_scalar_from_int(DTYPE_bf16, INT64_MIN) == bits_of(-0x1p63F));
}
END_TEST

START_TEST(integers_become_f32_in_one_rounding) {
	uint64_t state = 4;

	for (int i = 0; i < 200000; i++) {
		int64_t value = random_extreme(&state);

		must(dtype_scalar_from_int(DTYPE_f32, value) == bits_of((float)value));
	}
}
END_TEST

START_TEST(doubles_out_of_range_clamp_and_nan_is_zero) {
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i8, 1e30), 127);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i8, -1e30), (uint64_t)-128);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i8, -128.9), (uint64_t)-128);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i8, 127.9), 127);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i32, -1.9), (uint64_t)-1);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_u8, -3), 0);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_u8, 255.9), 255);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_u8, 256), 255);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i64, 0x1p63), INT64_MAX);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i64, -INFINITY), (uint64_t)INT64_MIN);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_u64, 0x1p64), UINT64_MAX);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_u64, 0x1p63), UINT64_C(1) << 63);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_i32, NAN), 0);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_u32, NAN), 0);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_bool, NAN), 1);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_bool, 0.25), 1);
	ck_assert_uint_eq(dtype_scalar_from_double(DTYPE_bool, -0.0), 0);
	ck_assert_float_infinite(scalar_float(DTYPE_f16, dtype_scalar_from_double(DTYPE_f16, 1e300)));
	ck_assert_float_infinite(scalar_float(DTYPE_bf16, dtype_scalar_from_double(DTYPE_bf16, 3.4e38)));
	ck_assert(isnan(scalar_float(DTYPE_f16, dtype_scalar_from_double(DTYPE_f16, NAN))));
}
END_TEST

START_TEST(integers_out_of_range_clamp) {
	ck_assert_uint_eq(dtype_scalar_from_int(DTYPE_i16, 40000), 32767);
	ck_assert_uint_eq(dtype_scalar_from_int(DTYPE_i16, -40000), (uint64_t)-32768);
	ck_assert_uint_eq(dtype_scalar_from_int(DTYPE_u16, -1), 0);
	ck_assert_uint_eq(dtype_scalar_from_int(DTYPE_u16, 70000), 65535);
	ck_assert_uint_eq(dtype_scalar_from_int(DTYPE_u64, -1), 0);
	ck_assert_uint_eq(dtype_scalar_from_int(DTYPE_bool, -7), 1);
	ck_assert_uint_eq(dtype_scalar_from_int(DTYPE_f16, 70000), bits_of(INFINITY));
}
END_TEST

/* What one side makes the other side accepts, and doubles that fit come back unchanged. */
START_TEST(scalars_that_are_made_are_valid) {
	uint64_t state = 5;

	for (int i = 0; i < 300000; i++) {
		enum dtype type = (enum dtype)random_below(&state, DTYPE_COUNT);
		int64_t number = random_extreme(&state);
		uint64_t bits = dtype_scalar_from_double(type, double_of(random_word(&state)));

		must(dtype_scalar_valid(type, bits));
		if (!isnan(dtype_scalar_to_double(type, bits)) && dtype_info(type)->bytes < 8)
			must(dtype_scalar_from_double(type, dtype_scalar_to_double(type, bits)) == bits);
		must(dtype_scalar_valid(type, dtype_scalar_from_int(type, number)));
	}
}
END_TEST

START_TEST(words_that_are_no_value_are_not_valid) {
	ck_assert(!dtype_scalar_valid(DTYPE_bool, 2));
	ck_assert(!dtype_scalar_valid(DTYPE_i8, 128));
	ck_assert(dtype_scalar_valid(DTYPE_i8, (uint64_t)-128));
	ck_assert(!dtype_scalar_valid(DTYPE_i8, 0xff));
	ck_assert(!dtype_scalar_valid(DTYPE_u8, 256));
	ck_assert(!dtype_scalar_valid(DTYPE_u32, UINT64_MAX));
	ck_assert(!dtype_scalar_valid(DTYPE_f32, UINT64_C(1) << 32));
	ck_assert(!dtype_scalar_valid(DTYPE_f16, bits_of(1.0001F)));
	ck_assert(!dtype_scalar_valid(DTYPE_f16, bits_of(70000.0F)));
	ck_assert(!dtype_scalar_valid(DTYPE_bf16, bits_of(1.0001F)));
	ck_assert(dtype_scalar_valid(DTYPE_f16, bits_of(65504.0F)));
	ck_assert(dtype_scalar_valid(DTYPE_f16, bits_of(NAN)));
}
END_TEST

#ifdef __FLT16_MANT_DIG__
#define HALF_TESTS                                                                                           \
	f16_widens_as_the_compiler_does, f16_rounds_as_the_compiler_does_around_every_tie,                   \
		f16_rounds_as_the_compiler_does_on_random_floats, doubles_become_f16_in_one_rounding,
#else
#define HALF_TESTS
#endif

RUN_TESTS("protocol_dtype", names_are_found_and_unique, promotion_is_symmetric_and_never_narrows,
	promotion_follows_the_documented_table, every_f16_pattern_survives_a_round_trip,
	every_bf16_pattern_survives_a_round_trip, HALF_TESTS bf16_rounds_to_the_nearest_neighbour,
	integers_become_bf16_in_one_rounding, integers_become_f32_in_one_rounding,
	doubles_out_of_range_clamp_and_nan_is_zero, integers_out_of_range_clamp,
	scalars_that_are_made_are_valid, words_that_are_no_value_are_not_valid)

/*
 * Random numbers, made of the operation philox.
 *
 * Element i takes words i * W to i * W + W - 1 of Philox 4x32-10 under the seed as key, W being 1, 2
 * or 4; what is done with them is ordinary operations. So the numbers depend on the seed, the shape's
 * order and the element type alone, and the counter, an arange, is never in memory.
 *
 *   uniform   W = 1: as many of the word's highest bits as the type has digits (f16: 11, bf16: 8,
 *             f32: 24), times 2^-digits. f64: W = 2, 27 bits and 26
 *   normal    Box and Muller's sqrt(-2 log(1 - u)) cos(2 pi v) of two uniform numbers, in f32 (W = 2)
 *             or f64 (W = 4), rounded once to the type
 *   integers  W = 1: low + word * (high - low) / 2^32, off by 2^-32 of the range at most; ranges above
 *             2^31: W = 2, low + the 64 bits modulo the range
 */
#include <math.h>
#include <stdio.h>

#include "context.h"
#include "error.h"
#include "record.h"

enum {
	WORD_BITS = 32,
	/* Ranges up to this multiply a word without overflow. */
	RANGE_BITS = 31,
	/* 27 and 26 bits of two words are the digits of an f64. */
	HIGH_BITS = 27,
	LOW_BITS = 26,
};

/* What all numbers of one call share. */
struct drawing {
	fusion_context *context;
	const char *what;
	int rank;
	const int64_t *dims;
	uint64_t seed;
	unsigned words;              /* an element */
};

/* Lets go of an operand once it has been used. */
static fusion_array *then(fusion_array *made, fusion_array *used) {
	fusion_release(used);
	return made;
}

static int64_t count_elements(const struct drawing *d) {
	int64_t n = 1;

	for (int i = 0; i < d->rank; i++)
		if (d->dims[i] < 0 || __builtin_mul_overflow(n, d->dims[i], &n))
			return -1;
	return n;
}

static const char *type_name(enum fusion_dtype dtype) {
	return (unsigned)dtype < DTYPE_COUNT ? dtype_info((enum dtype)dtype)->name : "no element type";
}

/* Word `which` of those of each element, as i64. */
static fusion_array *draw(const struct drawing *d, unsigned which) {
	fusion_array *counter, *key, *bits;
	int64_t count;

	if (d->rank < 0 || d->rank > LIMIT_RANK)
		return error_refuse_array(FAULT_RANK, d->what, "rank %d is not between 0 and %d", d->rank, LIMIT_RANK);
	if (d->rank && !d->dims)
		return error_refuse_array(FAULT_ARGUMENT, d->what, "dims is NULL");
	count = count_elements(d);
	if (count < 0)
		return error_refuse_array(FAULT_SHAPE, d->what, "the extents of dims are negative, or their product does not fit 63 bits");
	counter = fusion_arange(d->context, FUSION_I64, count, which, d->words);
	counter = then(fusion_reshape(counter, d->rank, d->dims), counter);
	key = fusion_full_int(d->context, FUSION_I64, 0, NULL, (int64_t)d->seed);
	bits = fusion_philox(counter, key);
	fusion_release(key);
	return then(bits, counter);
}

/* The highest bits of a word. */
static fusion_array *draw_bits(const struct drawing *d, unsigned which, int bits) {
	fusion_array *word = draw(d, which);

	return then(fusion_shift_right_scalar(word, WORD_BITS - bits), word);
}

static int digits_of(enum fusion_dtype dtype) {
	switch (dtype) {
	case FUSION_F16:
		return 11;
	case FUSION_BF16:
		return 8;
	case FUSION_F64:
		return HIGH_BITS + LOW_BITS;
	default:
		return 24;
	}
}

/* In [0, 1), of one word, or two for f64, from word `first` on. */
static fusion_array *draw_uniform(const struct drawing *d, enum fusion_dtype dtype, unsigned first) {
	int digits = digits_of(dtype);
	fusion_array *bits = draw_bits(d, first, dtype == FUSION_F64 ? HIGH_BITS : digits), *low;

	if (dtype == FUSION_F64) {
		bits = then(fusion_shift_left_scalar(bits, LOW_BITS), bits);
		low = draw_bits(d, first + 1, LOW_BITS);
		bits = then(fusion_add(bits, low), bits);
		fusion_release(low);
	}
	bits = then(fusion_cast(bits, dtype), bits);
	return then(fusion_mul_scalar(bits, ldexp(1, -digits)), bits);
}

static bool is_real(enum fusion_dtype dtype) {
	return (unsigned)dtype < DTYPE_COUNT && dtype_info((enum dtype)dtype)->kind == DTYPE_KIND_REAL;
}

fusion_array *fusion_random_uniform(
	fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, uint64_t seed) {
	struct drawing d = { context, "random_uniform", rank, dims, seed, dtype == FUSION_F64 ? 2 : 1 };

	if (!context_given(context, d.what))
		return NULL;
	if (!is_real(dtype))
		return error_refuse_array(FAULT_DTYPE, d.what, "dtype is %s, no floating-point type", type_name(dtype));
	return draw_uniform(&d, dtype, 0);
}

fusion_array *fusion_random_normal(
	fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims, uint64_t seed) {
	struct drawing d = { context, "random_normal", rank, dims, seed, dtype == FUSION_F64 ? 4 : 2 };
	enum fusion_dtype computed = dtype == FUSION_F64 ? FUSION_F64 : FUSION_F32;
	fusion_array *radius, *angle;

	if (!context_given(context, d.what))
		return NULL;
	if (!is_real(dtype))
		return error_refuse_array(FAULT_DTYPE, d.what, "dtype is %s, no floating-point type", type_name(dtype));
	radius = draw_uniform(&d, computed, 0);
	radius = then(fusion_scalar_sub(1, radius), radius);
	radius = then(fusion_log(radius), radius);
	radius = then(fusion_mul_scalar(radius, -2), radius);
	radius = then(fusion_sqrt(radius), radius);
	angle = draw_uniform(&d, computed, d.words / 2);
	angle = then(fusion_mul_scalar(angle, 2 * M_PI), angle);
	angle = then(fusion_cos(angle), angle);
	radius = then(fusion_mul(radius, angle), radius);
	fusion_release(angle);
	return dtype == computed ? radius : then(fusion_cast(radius, dtype), radius);
}

fusion_array *fusion_random_bernoulli(
	fusion_context *context, int rank, const int64_t *dims, double probability, uint64_t seed) {
	struct drawing d = { context, "random_bernoulli", rank, dims, seed, 1 };
	fusion_array *u;

	if (!context_given(context, d.what))
		return NULL;
	if (!(probability >= 0 && probability <= 1))
		return error_refuse_array(FAULT_ARGUMENT, d.what, "the probability is not between 0 and 1");
	u = draw_uniform(&d, FUSION_F32, 0);
	return then(fusion_lt_scalar(u, probability), u);
}

/* ---- integers ---- */

static bool holds(enum fusion_dtype dtype, int64_t value) {
	const struct dtype_info *info = dtype_info((enum dtype)dtype);

	if (info->kind == DTYPE_KIND_UINT && value < 0)
		return false;
	return (int64_t)dtype_scalar_from_int((enum dtype)dtype, value) == value;
}

/* Below a range of at most 2^31. */
static fusion_array *draw_below(const struct drawing *d, uint64_t range) {
	fusion_array *word = draw(d, 0);

	word = then(fusion_mul_scalar(word, (double)range), word);
	return then(fusion_shift_right_scalar(word, WORD_BITS), word);
}

/* Below any range. */
static fusion_array *draw_below_large(const struct drawing *d, uint64_t range) {
	fusion_array *high = draw(d, 0), *low = draw(d, 1), *limit;

	high = then(fusion_shift_left_scalar(high, WORD_BITS), high);
	high = then(fusion_bitwise_or(high, low), high);
	fusion_release(low);
	high = then(fusion_cast(high, FUSION_U64), high);
	limit = fusion_from(d->context, FUSION_U64, 0, NULL, &range);
	high = then(fusion_remainder(high, limit), high);
	fusion_release(limit);
	return then(fusion_cast(high, FUSION_I64), high);
}

fusion_array *fusion_random_integers(fusion_context *context, enum fusion_dtype dtype, int rank, const int64_t *dims,
	int64_t low, int64_t high, uint64_t seed) {
	struct drawing d = { context, "random_integers", rank, dims, seed, 1 };
	uint64_t range = (uint64_t)high - (uint64_t)low;
	fusion_array *made, *first;

	if (!context_given(context, d.what))
		return NULL;
	if ((unsigned)dtype >= DTYPE_COUNT || dtype == FUSION_BOOL || is_real(dtype))
		return error_refuse_array(FAULT_DTYPE, d.what, "dtype is %s, no integer type", type_name(dtype));
	if (low >= high || !holds(dtype, low) || !holds(dtype, high - 1))
		return error_refuse_array(FAULT_ARGUMENT, d.what, "low %lld to below high %lld is empty, or not within %s", (long long)low, (long long)high, type_name(dtype));
	d.words = range > UINT64_C(1) << RANGE_BITS ? 2 : 1;
	made = d.words == 2 ? draw_below_large(&d, range) : draw_below(&d, range);
	first = fusion_full_int(context, FUSION_I64, 0, NULL, low);
	made = then(fusion_add(made, first), made);
	fusion_release(first);
	return then(fusion_cast(made, dtype), made);
}

/* ---- dropout ---- */

fusion_array *fusion_dropout(fusion_array *a, double probability, uint64_t seed) {
	fusion_array *kept, *scaled, *zero, *made;
	fusion_context *context;

	if (!array_given(a, "dropout", "argument a"))
		return NULL;
	if (!is_real(fusion_dtype_of(a)))
		return error_refuse_array(FAULT_DTYPE, "dropout", "argument a is of %s, no floating-point type", type_name(fusion_dtype_of(a)));
	if (!(probability >= 0 && probability < 1))
		return error_refuse_array(FAULT_ARGUMENT, "dropout", "the probability is not at least 0 and below 1");
	context = fusion_context_of(a);
	kept = fusion_random_bernoulli(context, fusion_rank(a), fusion_dims(a), 1 - probability, seed);
	scaled = fusion_mul_scalar(a, 1 / (1 - probability));
	zero = fusion_scalar(context, fusion_dtype_of(a), 0);
	made = fusion_where(kept, scaled, zero);
	fusion_release(kept);
	fusion_release(zero);
	return then(made, scaled);
}

/* Values of arrays. See values.h for what each kind means. */
#include "values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"

/* ---- reading ---- */

enum {
	/* V*N: more than any array has. */
	REPEAT_MOST = 1 << 30,
};

/* How a kind is named and what may follow. */
static const struct form {
	const char *word;
	unsigned least, most; /* arguments */
	bool repeats;         /* V*N is understood */
	bool seed;            /* the first argument is a whole number, not an element */
	const char *wants;
} forms[] = {
	[VALUES_LIST] = { "=", 0, UINT32_MAX, true, false, "values" },
	[VALUES_CYCLE] = { "cycle", 1, UINT32_MAX, true, false, "at least one value" },
	[VALUES_RAMP] = { "ramp", 0, 2, false, false, "a start and a step" },
	[VALUES_RANDOM] = { "random", 1, 3, false, true, "a seed, then a lowest and a highest value" },
	[VALUES_SPECIAL] = { "special", 0, 1, false, true, "the number of the first" },
};

enum {
	FORMS = sizeof forms / sizeof *forms
};

static int find_form(struct values *v, struct lex *l, struct fault *f) {
	for (unsigned i = 0; i < FORMS; i++)
		if (lex_at(l, forms[i].word)) {
			v->kind = (enum values_kind)i;
			v->at = l->token;
			return lex_next(l, f);
		}
	return lex_expected(l, "= and values, cycle, ramp, random or special", f);
}

static int parse_repeat(struct values_item *item, const struct form *form, struct lex *l, struct fault *f) {
	int64_t repeat = 1;
	bool star;
	int r;

	if (!form->repeats)
		return 0;
	r = lex_try(l, "*", &star, f);
	if (!r && star)
		r = lex_take_integer(l, "a number of repetitions", 0, REPEAT_MOST, &repeat, f);
	item->repeat = (uint64_t)repeat;
	return r;
}

static int parse_item(struct values *v, const struct form *form, struct lex *l, struct fault *f) {
	struct values_item *last = v->items ? &v->item[v->items - 1] : NULL;
	struct values_item item = { .repeat = 1, .before = last ? last->before + last->repeat : 0 };
	int r = lex_take_kind(l, LEX_NUMBER, "a value", &item.token, f);

	if (!r)
		r = parse_repeat(&item, form, l, f);
	if (r)
		return r;
	/* Doubles at each power of two, so that no capacity need be kept. */
	if (!(v->items & (v->items + 1))) {
		struct values_item *more = realloc(v->item, (2 * (size_t)v->items + 1) * sizeof item);

		if (!more)
			return -ENOMEM;
		v->item = more;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without items there was room made for one */
	v->item[v->items++] = item;
	return 0;
}

static int take_seed(struct values *v, const struct form *form, const struct lex *l, struct fault *f) {
	int r;

	if (!form->seed || !v->items)
		return 0;
	r = element_read(DTYPE_u64, v->item[0].token.text, v->item[0].token.length, &v->seed, f);
	if (r)
		lex_locate(l->path, &v->item[0].token, f);
	return r;
}

int values_parse(struct values *v, struct lex *l, struct fault *f) {
	const struct form *form;
	int r;

	*v = (struct values){ 0 };
	r = find_form(v, l, f);
	if (r)
		return r;
	form = &forms[v->kind];
	while (!r && l->token.kind == LEX_NUMBER && v->items < form->most)
		r = parse_item(v, form, l, f);
	if (!r && (v->items < form->least || (v->kind == VALUES_RANDOM && v->items == 2)))
		r = lex_expected(l, form->wants, f);
	return r ? r : take_seed(v, form, l, f);
}

void values_free(struct values *v) {
	free(v->item);
	*v = (struct values){ 0 };
}

/* ---- special values ---- */

static const double special_reals[] = { 0, -0.0, 1, -1, (double)INFINITY, -(double)INFINITY, (double)NAN, 0.5,
	-0.5, 1.5, -1.5, 2.5, -2.5, 2, -3, 0.1, -10, 100, 12345.678 };
static const int64_t special_integers[] = { 0, 1, -1, 2, -2, 3, -7, 7, 8, 9, 10, 16, 31, 32, 63, 64, 100,
	-100 };

enum {
	REALS = sizeof special_reals / sizeof *special_reals,
	INTEGERS = sizeof special_integers / sizeof *special_integers,
	/* After these: limits of the type, see limit_of_real() and limit_of_integer(). */
	REAL_LIMITS = 6,
	INTEGER_LIMITS = 2,
};

/* Exponents of the smallest number, the smallest normal one and the largest power; digits. */
static const struct {
	int smallest, normal, largest, digits;
} real_forms[DTYPE_COUNT] = {
	[DTYPE_f16] = { -24, -14, 15, 11 },
	[DTYPE_bf16] = { -133, -126, 127, 8 },
	[DTYPE_f32] = { -149, -126, 127, 24 },
	[DTYPE_f64] = { -1074, -1022, 1023, 53 },
};

/* The smallest, the smallest normal one, the largest, and their opposites. */
static double limit_of_real(enum dtype dtype, unsigned which) {
	double limits[REAL_LIMITS / 2] = {
		ldexp(1, real_forms[dtype].smallest),
		ldexp(1, real_forms[dtype].normal),
		ldexp(2 - ldexp(1, 1 - real_forms[dtype].digits), real_forms[dtype].largest),
	};

	return which & 1 ? -limits[which / 2] : limits[which / 2];
}

/* The smallest and the largest. */
static int64_t limit_of_integer(enum dtype dtype, unsigned which) {
	unsigned width = 8 * dtype_info(dtype)->bytes;
	bool is_signed = dtype_info(dtype)->kind == DTYPE_KIND_SINT;
	uint64_t largest = UINT64_MAX >> (64 - width + is_signed);

	return which ? (int64_t)largest : is_signed ? -(int64_t)largest - 1 : 0;
}

unsigned values_specials(enum dtype dtype) {
	switch (dtype_info(dtype)->kind) {
	case DTYPE_KIND_BOOL:
		return 2;
	case DTYPE_KIND_REAL:
		return REALS + REAL_LIMITS;
	default:
		return INTEGERS + INTEGER_LIMITS;
	}
}

static void write_special(enum dtype dtype, uint64_t number, void *memory) {
	unsigned which = (unsigned)(number % values_specials(dtype));

	if (dtype_info(dtype)->kind == DTYPE_KIND_BOOL)
		element_from_int(dtype, which, memory);
	else if (dtype_info(dtype)->kind == DTYPE_KIND_REAL)
		element_from_double(dtype,
			which < REALS ? special_reals[which] : limit_of_real(dtype, which - REALS), memory);
	else
		element_from_int(dtype,
			which < INTEGERS ? special_integers[which]
					 : limit_of_integer(dtype, which - INTEGERS),
			memory);
}

/* ---- random values ---- */

/* Word i of splitmix64 from a seed. */
static uint64_t random_word(uint64_t seed, uint64_t i) {
	uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The top bits of the word, as many as the type has digits. */
static void write_random(enum dtype dtype, uint64_t word, void *memory) {
	int digits = real_forms[dtype].digits;

	if (dtype_info(dtype)->kind == DTYPE_KIND_REAL)
		element_from_double(dtype, ldexp((double)(word >> (64 - digits)), 1 - digits) - 1, memory);
	else
		element_from_int(dtype, (int64_t)(dtype == DTYPE_bool ? word >> 63 : word), memory);
}

struct span {
	int64_t low_integer, high_integer;
	double low, high;
};

static void write_random_between(enum dtype dtype, uint64_t word, const struct span *s, void *memory) {
	uint64_t count = (uint64_t)s->high_integer - (uint64_t)s->low_integer + 1;

	if (dtype_info(dtype)->kind == DTYPE_KIND_REAL)
		element_from_double(
			dtype, s->low + ldexp((double)(word >> 11), -53) * (s->high - s->low), memory);
	else
		element_from_int(
			dtype, (int64_t)((uint64_t)s->low_integer + (count ? word % count : word)), memory);
}

/* ---- writing ---- */

struct target {
	const struct values *values;
	const char *path;
	enum dtype dtype;
	int64_t count;
	char *memory;
};

static char *element_at(const struct target *t, int64_t i) {
	return t->memory + (size_t)i * dtype_info(t->dtype)->bytes;
}

static int read_argument(
	const struct target *t, unsigned i, enum dtype dtype, void *memory, struct fault *f) {
	const struct lex_token *token = &t->values->item[i].token;
	int r = element_read(dtype, token->text, token->length, memory, f);

	if (r)
		lex_locate(t->path, token, f);
	return r;
}

/* Every item once, repeated as it says, until the array is full; *writtenp elements. */
static int write_items(const struct target *t, int64_t *writtenp, struct fault *f) {
	size_t bytes = dtype_info(t->dtype)->bytes;
	int64_t at = 0;

	for (unsigned i = 0; i < t->values->items; i++) {
		char element[ELEMENT_BYTES];
		int r = read_argument(t, i, t->dtype, element, f);

		if (r)
			return r;
		for (uint64_t n = 0; n < t->values->item[i].repeat && at < t->count; n++)
			memcpy(element_at(t, at++), element, bytes);
	}
	*writtenp = at;
	return 0;
}

static uint64_t list_length(const struct values *v) {
	const struct values_item *last = v->items ? &v->item[v->items - 1] : NULL;

	return last ? last->before + last->repeat : 0;
}

static int write_list(const struct target *t, struct fault *f) {
	uint64_t length = list_length(t->values);
	int64_t written;

	if (length != (uint64_t)t->count)
		return lex_refuse(t->path, &t->values->at, FAULT_SYNTAX, f,
			"%" PRIu64 " values stand here for an array of %" PRId64, length, t->count);
	return write_items(t, &written, f);
}

static int write_cycle(const struct target *t, struct fault *f) {
	int64_t period = (int64_t)list_length(t->values), written;
	int r = write_items(t, &written, f);

	if (!r && !period)
		return lex_refuse(t->path, &t->values->at, FAULT_SYNTAX, f, "a cycle of no values");
	for (int64_t i = period; !r && i < t->count; i++)
		memcpy(element_at(t, i), element_at(t, i - period), dtype_info(t->dtype)->bytes);
	return r;
}

static int write_ramp(const struct target *t, struct fault *f) {
	double argument[2] = { 0, 1 };

	for (unsigned i = 0; i < t->values->items; i++) {
		int r = read_argument(t, i, DTYPE_f64, &argument[i], f);

		if (r)
			return r;
	}
	for (int64_t i = 0; i < t->count; i++)
		element_from_double(t->dtype, argument[0] + (double)i * argument[1], element_at(t, i));
	return 0;
}

static int read_span(const struct target *t, struct span *s, struct fault *f) {
	bool real = dtype_info(t->dtype)->kind == DTYPE_KIND_REAL;
	enum dtype dtype = real                                            ? DTYPE_f64
			   : dtype_info(t->dtype)->kind == DTYPE_KIND_UINT ? DTYPE_u64
									   : DTYPE_i64;
	int r = read_argument(t, 1, dtype, real ? (void *)&s->low : &s->low_integer, f);

	return r ? r : read_argument(t, 2, dtype, real ? (void *)&s->high : &s->high_integer, f);
}

static int write_randoms(const struct target *t, struct fault *f) {
	bool ranged = t->values->items > 1;
	struct span s = { 0 };
	int r = ranged ? read_span(t, &s, f) : 0;

	for (int64_t i = 0; !r && i < t->count; i++) {
		uint64_t word = random_word(t->values->seed, (uint64_t)i);

		if (ranged)
			write_random_between(t->dtype, word, &s, element_at(t, i));
		else
			write_random(t->dtype, word, element_at(t, i));
	}
	return r;
}

static int write_specials(const struct target *t, struct fault *f) {
	(void)f;
	for (int64_t i = 0; i < t->count; i++)
		write_special(t->dtype, t->values->seed + (uint64_t)i, element_at(t, i));
	return 0;
}

int values_write(const struct values *v, const char *path, enum dtype dtype, int64_t count, void *memory,
	struct fault *f) {
	static int (*const writers[])(const struct target *t, struct fault *f) = {
		[VALUES_LIST] = write_list,
		[VALUES_CYCLE] = write_cycle,
		[VALUES_RAMP] = write_ramp,
		[VALUES_RANDOM] = write_randoms,
		[VALUES_SPECIAL] = write_specials,
	};
	struct target t = { v, path, dtype, count, memory };

	return writers[v->kind](&t, f);
}

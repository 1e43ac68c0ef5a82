/* The range allocator against a map of units that is searched from end to end. */
#include "protocol/range.h"

#include <errno.h>
#include <string.h>

#include "tests/test_protocol.h"

enum {
	UNITS = 500,
	SPAN = UNITS * LIMIT_ALIGNMENT,
	LIVE = 200,
};

struct model {
	bool taken[UNITS];
	unsigned used;
};

/* The first of the smallest holes of at least `size` units, or -1; *largestp is the largest hole. */
static int model_best(const struct model *m, unsigned size, unsigned *largestp) {
	unsigned best = UNITS + 1, largest = 0;
	int found = -1;

	for (unsigned i = 0; i < UNITS;) {
		unsigned start = i;

		while (i < UNITS && !m->taken[i])
			i++;
		if (i - start >= size && i - start < best) {
			best = i - start;
			found = (int)start;
		}
		if (i - start > largest)
			largest = i - start;
		while (i < UNITS && m->taken[i])
			i++;
	}
	*largestp = largest;
	return found;
}

static void model_mark(struct model *m, unsigned start, unsigned size, bool taken) {
	for (unsigned i = start; i < start + size; i++) {
		ck_assert(m->taken[i] != taken);
		m->taken[i] = taken;
	}
	m->used = taken ? m->used + size : m->used - size;
}

static unsigned units(uint64_t bytes) {
	return bytes ? (unsigned)((bytes + LIMIT_ALIGNMENT - 1) / LIMIT_ALIGNMENT) : 1;
}

struct live {
	uint64_t offset, bytes;
};

static void take_and_compare(
	struct range *r, struct model *m, uint64_t bytes, struct live *live, unsigned *countp) {
	unsigned largest;
	int expected = model_best(m, units(bytes), &largest);
	uint64_t offset;
	int got;

	ck_assert_uint_eq(range_largest(r), (uint64_t)largest * LIMIT_ALIGNMENT);
	got = range_take(r, bytes, &offset);
	if (expected < 0) {
		ck_assert_int_eq(got, -ENOSPC);
		return;
	}
	ck_assert_int_eq(got, 0);
	ck_assert_uint_eq(offset, (uint64_t)expected * LIMIT_ALIGNMENT);
	model_mark(m, (unsigned)expected, units(bytes), true);
	live[(*countp)++] = (struct live){ offset, bytes };
}

static void give(struct range *r, struct model *m, struct live *live, unsigned which, unsigned *countp) {
	struct live l = live[which];

	ck_assert_int_eq(range_give(r, l.offset, l.bytes), 0);
	model_mark(m, (unsigned)(l.offset / LIMIT_ALIGNMENT), units(l.bytes), false);
	live[which] = live[--*countp];
}

START_TEST(ranges_are_handed_out_as_an_exhaustive_search_would) {
	static struct model m;
	static struct live live[LIVE];
	uint64_t state = 1;
	unsigned count = 0;
	struct range *r;

	ck_assert_int_eq(range_new(SPAN, &r), 0);
	for (int i = 0; i < 100000; i++) {
		bool grow = random_below(&state, 1000) < (i / 5000 % 2 ? 700U : 400U);

		if (grow && count < LIVE)
			take_and_compare(r, &m,
				random_word(&state) % (random_below(&state, 8) ? 1000 : 20000), live, &count);
		else if (count)
			give(r, &m, live, random_below(&state, count), &count);
		ck_assert_uint_eq(range_used(r), (uint64_t)m.used * LIMIT_ALIGNMENT);
		ck_assert(range_empty(r) == !m.used);
	}
	while (count)
		give(r, &m, live, random_below(&state, count), &count);
	ck_assert_uint_eq(range_largest(r), SPAN);
	ck_assert(range_empty(r));
	ck_assert_ptr_null(range_free_all(r));
}
END_TEST

/* As an engine does that finds another one's arrays in an arena. */
START_TEST(very_bytes_are_taken_where_they_are_free) {
	static struct model m;
	static struct live live[LIVE];
	uint64_t state = 7;
	unsigned count = 0, taken = 0;
	struct range *r;

	memset(&m, 0, sizeof m);
	ck_assert_int_eq(range_new(SPAN, &r), 0);
	for (int i = 0; i < 20000; i++) {
		struct live l = { random_below(&state, SPAN / LIMIT_ALIGNMENT) * (uint64_t)LIMIT_ALIGNMENT, random_word(&state) % 1000 };
		unsigned first = (unsigned)(l.offset / LIMIT_ALIGNMENT), size = units(l.bytes);
		bool free = first + size <= SPAN / LIMIT_ALIGNMENT;

		for (unsigned u = first; free && u < first + size; u++)
			free = !m.taken[u];
		if (count == LIVE || (count && random_below(&state, 3) == 0)) {
			give(r, &m, live, random_below(&state, count), &count);
			continue;
		}
		ck_assert_int_eq(range_take_at(r, l.offset, l.bytes), free ? 0 : -ENOSPC);
		if (!free)
			continue;
		model_mark(&m, first, size, true);
		live[count++] = l;
		taken++;
		ck_assert_uint_eq(range_used(r), (uint64_t)m.used * LIMIT_ALIGNMENT);
	}
	ck_assert_uint_gt(taken, 1000);
	ck_assert_int_eq(range_take_at(r, 1, 1), -EINVAL);
	while (count)
		give(r, &m, live, random_below(&state, count), &count);
	ck_assert_uint_eq(range_largest(r), SPAN);
	ck_assert_ptr_null(range_free_all(r));
}
END_TEST

START_TEST(what_was_not_taken_cannot_be_given_back) {
	struct range *r;
	uint64_t a, b;

	ck_assert_int_eq(range_new(SPAN, &r), 0);
	ck_assert_int_eq(range_give(r, 0, LIMIT_ALIGNMENT), -EINVAL);
	ck_assert_int_eq(range_take(r, 1000, &a), 0);
	ck_assert_int_eq(range_take(r, 1000, &b), 0);
	ck_assert_int_eq(range_give(r, a + LIMIT_ALIGNMENT, 1000), -EINVAL);
	ck_assert_int_eq(range_give(r, a + 1, 1000), -EINVAL);
	ck_assert_int_eq(range_give(r, a, 2000), -EINVAL);
	ck_assert_int_eq(range_give(r, a, UINT64_MAX), -EINVAL);
	ck_assert_int_eq(range_give(r, UINT64_MAX, 1000), -EINVAL);
	ck_assert_int_eq(range_give(r, a, 1000), 0);
	ck_assert_int_eq(range_give(r, a, 1000), -EINVAL);
	ck_assert_int_eq(range_give(r, b, 1000), 0);
	ck_assert_uint_eq(range_largest(r), SPAN);
	range_free_all(r);
}
END_TEST

START_TEST(sizes_that_cannot_fit_are_refused) {
	struct range *r;
	uint64_t a;

	ck_assert_int_eq(range_new(SPAN, &r), 0);
	ck_assert_int_eq(range_take(r, SPAN + 1, &a), -ENOSPC);
	ck_assert_int_eq(range_take(r, UINT64_MAX, &a), -ENOSPC);
	ck_assert_int_eq(range_take(r, UINT64_MAX - LIMIT_ALIGNMENT, &a), -ENOSPC);
	ck_assert_int_eq(range_take(r, SPAN, &a), 0);
	ck_assert_int_eq(range_take(r, 0, &a), -ENOSPC);
	range_free_all(r);
}
END_TEST

START_TEST(nothing_takes_one_unit_and_gives_it_back) {
	struct range *r;
	uint64_t a, b;

	ck_assert_int_eq(range_new(2 * LIMIT_ALIGNMENT + 1, &r), 0);
	ck_assert_int_eq(range_take(r, 0, &a), 0);
	ck_assert_int_eq(range_take(r, 0, &b), 0);
	ck_assert_uint_ne(a, b);
	ck_assert_int_eq(range_take(r, 0, &b), -ENOSPC);
	ck_assert_int_eq(range_give(r, a, 0), 0);
	ck_assert_uint_eq(range_used(r), LIMIT_ALIGNMENT);
	range_free_all(r);
}
END_TEST

START_TEST(a_span_below_one_unit_is_empty) {
	struct range *r;
	uint64_t a;

	ck_assert_int_eq(range_new(LIMIT_ALIGNMENT - 1, &r), 0);
	ck_assert_int_eq(range_take(r, 0, &a), -ENOSPC);
	ck_assert_uint_eq(range_largest(r), 0);
	range_free_all(r);
	range_free_all(NULL);
}
END_TEST

RUN_TESTS("protocol_range", ranges_are_handed_out_as_an_exhaustive_search_would, very_bytes_are_taken_where_they_are_free,
	what_was_not_taken_cannot_be_given_back, sizes_that_cannot_fit_are_refused,
	nothing_takes_one_unit_and_gives_it_back, a_span_below_one_unit_is_empty)

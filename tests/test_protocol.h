/*
 * What the tests of protocol/ share: a generator of repeatable random numbers, and the main
 * function of a test program with one suite.
 */
#pragma once

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/suite.h"

enum {
	TEST_TIMEOUT_SECONDS = 120
}; /* sanitizers are slow */

/* As ck_assert, for inner loops: check's own writes to a pipe each time it is passed. */
#define must(expression)                                                                                     \
	do {                                                                                                 \
		if (!(expression))                                                                           \
			ck_abort_msg("%s", "not true: " #expression);                                        \
	} while (0)

/* splitmix64 */
static inline uint64_t random_word(uint64_t *state) {
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* In [0, n). */
static inline unsigned random_below(uint64_t *state, unsigned n) {
	return (unsigned)(random_word(state) % n);
}

/* An integer of any magnitude: small ones, the limits of 64 bits, and everything between. */
static inline int64_t random_extreme(uint64_t *state) {
	int64_t value = (int64_t)(random_word(state) >> random_below(state, 64));

	return random_word(state) & 1 ? value : (int64_t)(0 - (uint64_t)value);
}

static inline int run_tests(const char *name, const TTest *const *tests, size_t count) {
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, TEST_TIMEOUT_SECONDS);
	for (size_t i = 0; i < count; i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}

#define RUN_TESTS(name, ...)                                                                                 \
	int main(void) {                                                                                     \
		const TTest *const tests[] = { __VA_ARGS__ };                                                \
                                                                                                             \
		return run_tests(name, tests, sizeof tests / sizeof *tests);                                 \
	}

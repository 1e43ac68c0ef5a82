/*
 * The slice of the slow cases that this run takes.
 *
 * FUSION_SLICE=1/30 in the environment: of cases that are numbered from 0 those whose number leaves 1 when it is divided
 * by 30. Without it: all of them. tests/check.sh chooses a slice by the count of commits, so that thirty in a row take every
 * case, says which, and `SLICE=all` takes all.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline bool slice_has(unsigned number) {
	const char *text = getenv("FUSION_SLICE");
	unsigned which, of;

	if (!text || sscanf(text, "%u/%u", &which, &of) != 2 || !of)
		return true;
	return number % of == which % of;
}

/* The rounds of a loop test that are in the slice; at least one. */
#define tcase_add_slice_test(tcase, test, rounds) \
	do { \
		bool any_ = false; \
		for (int i_ = 0; i_ < (rounds); i_++) { \
			if (!slice_has((unsigned)i_) && (any_ || i_ + 1 < (rounds))) \
				continue; \
			any_ = true; \
			tcase_add_loop_test(tcase, test, i_, i_ + 1); \
		} \
	} while (0)

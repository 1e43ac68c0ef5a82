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

static inline bool slice_read(unsigned *which, unsigned *of) {
	const char *text = getenv("FUSION_SLICE");

	return text && sscanf(text, "%u/%u", which, of) == 2 && *of;
}

static inline bool slice_has(unsigned number) {
	unsigned which, of;

	return !slice_read(&which, &of) || number % of == which % of;
}

/* A larger slice, one in `parts`; where these divide the number of slices, as many commits take every case. */
static inline bool slice_part(unsigned number, unsigned parts) {
	unsigned which, of;

	return !slice_read(&which, &of) || number % parts == which % parts;
}

static inline bool slice_is_all(void) {
	unsigned which, of;

	return !slice_read(&which, &of);
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

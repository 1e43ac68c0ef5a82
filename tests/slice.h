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

enum {
	SLICES = 30    /* as in tests/slice.sh */
};

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

/* Of a loop's rounds those of this turn, where `parts` turns take every round; of fewer rounds than turns there is one in each. */
static inline bool slice_round(unsigned number, unsigned rounds, unsigned parts) {
	unsigned which, of;

	if (!slice_read(&which, &of))
		return true;
	return rounds < parts ? number == which % parts % rounds : number % parts == which % parts;
}

/* Of the forms of a case one, for as many slices in a row as leave each form as many: with slice_round() and that many parts every round meets every form. */
static inline bool slice_form(unsigned form, unsigned forms) {
	unsigned which, of;

	return !slice_read(&which, &of) || which / (SLICES / forms) % forms == form;
}

#define tcase_add_part_test(tcase, test, rounds, parts) \
	do { \
		for (int i_ = 0; i_ < (rounds); i_++) \
			if (slice_round((unsigned)i_, (rounds), (parts))) \
				tcase_add_loop_test(tcase, test, i_, i_ + 1); \
	} while (0)

#define tcase_add_slice_test(tcase, test, rounds) tcase_add_part_test(tcase, test, rounds, SLICES)

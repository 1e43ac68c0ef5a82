/* What tests measure and print; no claim hangs on it. */
#pragma once

#include <time.h>

static inline double now_ms(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* For qsort(), of doubles. */
static inline int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

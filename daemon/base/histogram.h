/* How long something took, counted in steps of about three: for quantiles over any time, as Prometheus makes them of counters. */
#pragma once

#include <stdint.h>

enum {
	/* Up to 10 s; the last step has no end. */
	HISTOGRAM_STEPS = 14,
};

struct histogram {
	uint64_t count[HISTOGRAM_STEPS];     /* of each step alone */
	uint64_t sum_ns;
};

/* Where the step ends, in nanoseconds; UINT64_MAX for the last. */
static inline uint64_t histogram_end_ns(unsigned step) {
	uint64_t ns = step % 2 ? 30000 : 10000;

	if (step + 1 >= HISTOGRAM_STEPS)
		return UINT64_MAX;
	for (unsigned i = 0; i < step / 2; i++)
		ns *= 10;
	return ns;
}

static inline void histogram_add(struct histogram *h, uint64_t ns) {
	unsigned step = 0;

	while (ns > histogram_end_ns(step))
		step++;
	h->count[step]++;
	h->sum_ns += ns;
}

/* How many numbers metrics.def has. */
#pragma once

#include "histogram.h"

enum {
#define METRIC(name, type, per, value, doc) METRIC_##name,
#include "metrics.def"
	METRICS,
};

enum {
#define HISTOGRAM(name, value, doc) HISTOGRAM_##name,
#include "metrics.def"
	HISTOGRAMS,
	/* Of one: its steps, and the sum. */
	HISTOGRAM_NUMBERS = HISTOGRAM_STEPS + 1,
};

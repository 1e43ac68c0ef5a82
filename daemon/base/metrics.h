/* How many numbers metrics.def has. */
#pragma once

enum {
#define METRIC(name, type, per, value, doc) METRIC_##name,
#include "metrics.def"
#undef METRIC
	METRICS,
};

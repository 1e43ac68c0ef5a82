/* The counters of counters.def, and those of fusion patterns. */
#pragma once

#include <stdint.h>

struct counters {
#define COUNTER(name, doc) uint64_t name;
#include "counters.def"
#undef COUNTER
};

/* Of kernels that ran, by pattern. horizontal and memory_ops: of launches that several kernels shared. */
struct pattern_counters {
	uint64_t count;
	uint64_t kernels_before, kernels_after;
	uint64_t bytes_saved, buffers_eliminated;
	double estimated_ns, estimated_unfused_ns, measured_ns, measured_unfused_ns;
};

static inline void pattern_counters_add(struct pattern_counters *to, const struct pattern_counters *from) {
	to->count += from->count;
	to->kernels_before += from->kernels_before;
	to->kernels_after += from->kernels_after;
	to->bytes_saved += from->bytes_saved;
	to->buffers_eliminated += from->buffers_eliminated;
	to->estimated_ns += from->estimated_ns;
	to->estimated_unfused_ns += from->estimated_unfused_ns;
	to->measured_ns += from->measured_ns;
	to->measured_unfused_ns += from->measured_unfused_ns;
}

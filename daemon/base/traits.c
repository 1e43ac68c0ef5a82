/* Typical figures of devices, for those that have not been measured yet; and what may be believed of a file. */
#include "traits.h"

#include <math.h>

/* A processor of two units with vectors of 512 bits, and a large graphics processor: only a start. */
static const struct rates typical[] = {
	[STRATEGY_CPU] = {
		.launch_ns = 4e3, .wait_ns = 30e3, .start_ns = 300,
		.bytes = { 64 << 10, 512 << 10, 4 << 20, 20 << 20, 128 << 20 },
		.memory = {
			{ { 60, 40, 30, 20, 12 }, { 40, 30, 20, 12, 8 }, { 80, 50, 30, 20, 12 } },
			{ { 100, 75, 50, 35, 20 }, { 80, 55, 35, 25, 15 }, { 150, 90, 60, 40, 20 } },
		},
		.op_ns = {
			{ { 0.02, 0.15, 0.6, 0.7, 1.1, 2.6 }, { 0.04, 0.4, 1.8, 2.2, 2.4, 6.8 } },
			{ { 0.01, 0.08, 0.3, 0.35, 0.55, 1.3 }, { 0.02, 0.2, 0.9, 1.1, 1.2, 3.4 } },
		},
		.product_ns = { { 0.015, 0.03 }, { 0.008, 0.016 } },
		.strided_ns = { 1, 0.5 },
		.row_ns = { 20, 10 },
	},
	[STRATEGY_GPU] = {
		.launch_ns = 5e3, .wait_ns = 12e3, .start_ns = 2e3,
		.bytes = { 4 << 20, 12 << 20, 32 << 20, 90 << 20, 256 << 20 },
		.memory = {
			{ { 30, 25, 25, 20, 20 }, { 30, 25, 25, 20, 20 }, { 30, 25, 25, 20, 20 } },
			{ { 3000, 3000, 2500, 2000, 2000 }, { 3000, 3000, 2500, 2000, 2000 },
				{ 3000, 3000, 2500, 2000, 2000 } },
		},
		.op_ns = {
			{ { 0.05, 0.2, 0.4, 0.4, 0.4, 1 }, { 0.1, 0.4, 1, 1, 1, 2 } },
			{ { 1e-4, 1e-3, 1e-3, 1e-3, 1e-3, 3e-3 }, { 2e-4, 2e-3, 3e-3, 3e-3, 3e-3, 8e-3 } },
		},
		.product_ns = { { 0.02, 0.04 }, { 1e-4, 2e-4 } },
		.strided_ns = { 0.5, 2e-3 },
		.row_ns = { 500, 5 },
	},
};

const struct rates *rates_typical(enum strategy s) {
	return &typical[s];
}

static bool all_positive(const double *figure, unsigned count) {
	for (unsigned i = 0; i < count; i++)
		if (!(figure[i] > 0) || !isfinite(figure[i]))
			return false;
	return true;
}

bool rates_sound(const struct rates *r) {
	for (unsigned i = 1; i < RATE_SIZES; i++)
		if (!(r->bytes[i - 1] < r->bytes[i]))
			return false;
	return all_positive(&r->launch_ns, 1) && all_positive(&r->wait_ns, 1) &&
		all_positive(&r->start_ns, 1) &&
		all_positive(r->bytes, RATE_SIZES) &&
		all_positive(&r->memory[0][0][0], RATE_UNITS * RATE_TRAFFICS * RATE_SIZES) &&
		all_positive(&r->op_ns[0][0][0], RATE_UNITS * RATE_FLOATS * RATE_CLASSES) &&
		all_positive(&r->product_ns[0][0], RATE_UNITS * RATE_FLOATS) &&
		all_positive(r->strided_ns, RATE_UNITS) && all_positive(r->row_ns, RATE_UNITS);
}

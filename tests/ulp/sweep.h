/*
 * All 2^32 floats through one function: in blocks that threads take one after the other, each with a queue of its own,
 * so that the device computes while others judge.
 */
#pragma once

#include "device.h"
#include "reference.h"

/* One operand and what came of it, as bits. */
struct sweep_point {
	uint32_t a, few, many;
};

struct sweep_result {
	double worst;                 /* against the reference in double, nearly exact */
	uint64_t wrong, unequal;      /* as struct outcome */
	uint64_t digest;              /* of the results of many lanes */
	struct sweep_point worst_at, first_wrong, first_unequal;
};

/* Runs kernel `name` of both programs over every float, on so many threads. */
struct sweep_result sweep_run(struct program *few, struct program *many, const char *name,
	const struct reference *reference, unsigned threads);

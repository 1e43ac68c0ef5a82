/*
 * Why an array has no value: a fault, shared by everything that would be computed from it.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"

struct poison {
	uint32_t references;
	uint64_t seq;                /* of the operation to blame; 0: not known */
	int64_t node;
	struct fault fault;
};

/* Never NULL: where memory is short, one that all share and that says so. */
struct poison *poison_new(const struct fault *f, uint64_t seq, int64_t node);
struct poison *poison_ref(struct poison *p);
struct poison *poison_unref(struct poison *p);        /* returns NULL; NULL is allowed */

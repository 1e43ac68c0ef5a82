/*
 * The value of fusion.apart: pairs of operations that share no kernel where the second reads the first. "matmul:relu, exp:sum".
 * Names are those of the operations that kernels are made of: a composite such as softmax is several.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"

enum {
	/* More are no text of a setting. */
	OP_PAIRS = 16,
};

struct op_pairs {
	unsigned count;
	struct op_pair {
		uint16_t first, second;      /* enum op_id */
	} pair[OP_PAIRS];
};

/* 0, or a fault that names the word; then there are no pairs. */
int op_pairs_parse(const char *text, struct op_pairs *pairs, struct fault *f) FAULT_MUST_USE;
/* A text that reads as they do, of no more bytes than that which they were read from. */
void op_pairs_print(const struct op_pairs *pairs, char *text, size_t size);
bool op_pairs_have(const struct op_pairs *pairs, unsigned first, unsigned second);
/* Equal where all of them are; 0 of none. */
uint64_t op_pairs_hash(const struct op_pairs *pairs);

/*
 * Small kernels for the tests of device and exec, made by hand so that they need no planner.
 */
#pragma once

#include <string.h>

#include "daemon/plan/kernel.h"

/* out[i] = op(a[i], b[i]): operands 0 and 1 are read, operand 2 is written; rank 1, f32. */
static inline void kernel_binary(struct kernel *k, unsigned op, unsigned width) {
	memset(k, 0, sizeof *k);
	k->root = KERNEL_MAP;
	k->width = (uint8_t)width;
	k->rank = 1;
	k->block_dim = 0xff;
	k->root_value = KERNEL_NONE;
	k->values = 3;
	k->operands = 3;
	for (uint16_t i = 0; i < 2; i++) {
		k->value[i] = (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = DTYPE_f32, .index = i };
		k->operand[i] = (struct kernel_operand){ .dtype = DTYPE_f32, .value = KERNEL_NONE };
	}
	k->value[2] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = (uint16_t)op, .arg = { 0, 1 } };
	k->operand[2] = (struct kernel_operand){ .dtype = DTYPE_f32, .output = true, .value = 2 };
}

/* out[i] = (a[i] + b[i]) * ... : `ops` operations in a row, so that kernels of many kinds can be made. */
static inline void kernel_chain(struct kernel *k, unsigned ops, unsigned kind, unsigned width) {
	kernel_binary(k, OP_add, width);
	for (unsigned i = 1; i < ops; i++) {
		uint16_t op = (kind >> (i % 16)) & 1 ? OP_mul : OP_add;

		k->value[k->values] = (struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = op,
			.arg = { (uint16_t)(k->values - 1), (uint16_t)(i & 1) } };
		k->values++;
	}
	k->operand[2].value = (uint16_t)(k->values - 1);
}

/*
 * Expressions become operations.
 *
 * The operations are made in a target: a graph of the daemon, a recording of a client, or types alone.
 * What is made depends on the expression, the operands' types and the attributes, never on the target,
 * so that an operation that a user defined gives the bits of the same thing in the daemon.
 *
 * Rules: f16 and bf16 operands are cast to f32 when they are first used. Operands of an elementwise
 * operation are cast to the type they meet in; a number takes the type of the arrays beside it, and must
 * be one of its values. + - * / of numbers alone are computed here, in double. Reductions keep the axes they
 * reduce. Only what the result needs is made.
 */
#pragma once

#include "expr.h"
#include "op.h"

struct expand_target {
	void *into;
	/* Makes an operation on values made before. */
	int (*op)(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr,
		uint32_t *valuep, struct fault *f);
	const struct tensor_type *(*type)(void *into, uint32_t value);
};

/* A call of an expression. Operands beyond `operands` are absent: given() finds out. */
struct expand_call {
	const char *name; /* for messages */
	const struct expr *expr;
	unsigned operands;
	const uint32_t *operand;
	const struct op_attr *attr;
	const struct tensor_type *result; /* what it becomes at the end, or NULL: see expand() */
};

/*
 * Makes the operations. The last value is cast and reshaped to `result`; without one it is cast to the type
 * that the floating-point operands meet in, where the text made f32 of f16 or bf16. A fault
 * names the call and the column.
 */
int expand(const struct expand_call *call, const struct expand_target *target, uint32_t *valuep,
	struct fault *f) FAULT_MUST_USE;

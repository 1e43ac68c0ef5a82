/*
 * One operation on the wire: [op, operand..., attribute...].
 *
 * An operand is an integer: i >= 0 is the result of the i-th operation of the same list, and
 * -1 - h is handle h. Attributes follow in the order of this table (see struct op_attr):
 *   load      dtype, dims, arena, offset        reshape, broadcast  dims
 *   fill      dtype, dims, value                permute             perm
 *   arange    dtype, n, start, step             slice               start, step, dims
 *   cast      dtype                             flip                axes
 *   reductions  axes, keepdims                  scans               axes
 *   all others  nothing
 *   composites  those of their row, in the order of attributes.def
 */
#pragma once

#include "op.h"
#include "wire.h"

struct coded_op {
	uint16_t op;
	uint16_t theirs;             /* to be written: what the reader's number is, where it is another; else 0 */
	uint8_t arity;
	int64_t in[LIMIT_OPERANDS];
	struct op_attr attr;
};

void codec_put_op(struct wire_writer *w, const struct coded_op *o);

/*
 * Reads one operation: checks that it exists, that an own one may be called, its arity, that operands refer to operations before
 * `position` or to handles, and the form of its attributes (ranks, dtypes); not shapes.
 */
int codec_get_op(struct wire_cursor *c, uint32_t position, struct coded_op *op, struct fault *f) FAULT_MUST_USE;

/* How many attributes follow the operands of an operation that exists. */
unsigned codec_attributes(unsigned op);

/* [dtype, dims] of a tensor. */
void codec_put_type(struct wire_writer *w, const struct tensor_type *t);
int codec_get_type(struct wire_cursor *c, struct tensor_type *t, struct fault *f) FAULT_MUST_USE;

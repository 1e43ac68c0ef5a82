/*
 * Composites: the shapes of their results, by the rules that ops.def names.
 *
 * A rule checks everything that the composite's text would trip over, so that a user reads of the
 * operation that was called and not of a part of it. That rule and text agree is tested.
 */
#pragma once

#include "op.h"

/*
 * Rank and extents of op(in[0..n)); element types and the existence of axes are checked already. Called
 * by op_infer() alone.
 */
int composite_shape(unsigned op, unsigned n, const struct tensor_type *const *in, const struct op_attr *attr,
	struct tensor_type *outp, struct fault *f) FAULT_MUST_USE;

/* What ops.def says after the colon of an operand's name: an enum op_types, or -1 where nothing. */
int composite_operand_types(const struct op_info *info, unsigned operand);

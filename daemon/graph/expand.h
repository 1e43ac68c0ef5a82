/* Composites in a graph: replaced by the operations of their text when they arrive. */
#pragma once

#include "graph.h"

/* What the kernel of convolutions takes on: it holds so much in private memory. Larger ones go by their text. */
enum {
	/* The product of the strides: planes that a row and a column fall into. */
	CONV_STEP_MOST = 16,
	/* Columns a filter reaches over beyond the first. */
	CONV_OVER_MOST = 32,
	/* Rows it reaches over and one, times those planes. */
	CONV_PLANES_MOST = 96,
	/* Places of a filter: bounds the kernel's table of offsets. */
	CONV_TAPS_MOST = 1024,
};

/*
 * Is a composite that op_infer() accepted for these operands a node like a basic operation? Its kernel then computes
 * what its text says in an order of its own, which fusion-ops(7) defines.
 */
bool graph_keeps_whole(unsigned op, const struct tensor_type *const *in, const struct op_attr *attr,
	const struct tensor_type *type);

/* Is a matrix product that op_infer() accepted with this type made of other operations? See product.c. */
bool graph_divides(unsigned op, const struct tensor_type *const *in, const struct tensor_type *type);

/* These operations. As graph_op(), which calls it. */
int graph_divide(struct graph *g, const uint32_t *in, const struct tensor_type *type, uint32_t note, uint32_t *nodep,
	struct fault *f) FAULT_MUST_USE;

/* The nodes of a composite that op_infer() accepted with this type. As graph_op(), which calls it. */
int graph_expand(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	const struct tensor_type *type, uint32_t note, uint32_t *nodep, struct fault *f) FAULT_MUST_USE;

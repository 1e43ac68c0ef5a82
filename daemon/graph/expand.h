/* Composites in a graph: replaced by the operations of their text when they arrive. */
#pragma once

#include "graph.h"

/* The nodes of a composite that op_infer() accepted with this type. As graph_op(), which calls it. */
int graph_expand(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	const struct tensor_type *type, uint32_t note, uint32_t *nodep, struct fault *f) FAULT_MUST_USE;

/*
 * Composites become the operations of their text; see protocol/expand.h for how.
 *
 * Each text is parsed once in the life of the process and kept: graphs belong to one thread, the
 * engine's. A text of ours that does not parse is a defect, which tests find.
 */
#include "expand.h"

#include <errno.h>
#include <stdlib.h>

#include "protocol/expand.h"

struct site {
	struct graph *graph;
	uint32_t note;
};

static int parsed(unsigned op, const struct expr **exprp, struct fault *f) {
	static struct expr *kept[OP_COUNT];
	const struct op_info *info = op_info(op);
	int r = 0;

	if (!kept[op]) {
		struct expr *e = malloc(sizeof *e);

		r = e ? expr_parse(info->expr, info->operands, e, f) : -ENOMEM;
		if (r > 0 && f) {
			fault_prefix(f, "the text of %s", info->name);
			r = f->code = FAULT_INTERNAL;
		}
		if (!r)
			kept[op] = e;
		else
			free(e);
	}
	*exprp = kept[op];
	return r;
}

static int make(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr,
	uint32_t *nodep, struct fault *f) {
	struct site *s = into;

	return graph_op(s->graph, op, n, in, attr, s->note, nodep, f);
}

static const struct tensor_type *type_of(void *into, uint32_t node) {
	struct site *s = into;

	return &graph_node(s->graph, node)->type;
}

/* Nothing is computed of a composite without elements, so its text need not care for them. */
static int expand_empty(struct site *s, const struct tensor_type *type, uint32_t *nodep, struct fault *f) {
	struct op_attr attr = { .dtype = type->dtype, .rank = type->rank };

	for (unsigned d = 0; d < type->rank; d++)
		attr.dims[d] = type->dims[d];
	return graph_op(s->graph, OP_fill, 0, NULL, &attr, s->note, nodep, f);
}

/* Along axis d of a filter: how far it reaches beyond the first of elements that are a stride apart. */
static int64_t reaches_over(const struct tensor_type *weight, const struct op_attr *attr, unsigned d) {
	return (weight->dims[d + 2] - 1) * attr->dims[d] / attr->step[d];
}

/* What the kernel of convolutions has memory for: any but very large filters, dilations and strides. */
static bool conv_fits(const struct tensor_type *weight, const struct op_attr *attr, const struct tensor_type *type) {
	unsigned x = attr->rank - 1u;
	int64_t planes = attr->step[x], taps = weight->dims[weight->rank - 1];

	if (dtype_info(type->dtype)->kind != DTYPE_KIND_REAL || attr->rank > 2 || !shape_elements(weight))
		return false;
	if (planes > CONV_STEP_MOST || reaches_over(weight, attr, x) > CONV_OVER_MOST)
		return false;
	if (attr->rank == 2) {
		if (attr->step[0] > CONV_STEP_MOST || reaches_over(weight, attr, 0) >= CONV_PLANES_MOST)
			return false;
		planes *= attr->step[0] * (1 + reaches_over(weight, attr, 0));
		taps *= weight->dims[2];
	}
	return planes <= CONV_PLANES_MOST && taps <= CONV_TAPS_MOST;
}

bool graph_keeps_whole(unsigned op, const struct tensor_type *const *in, const struct op_attr *attr,
	const struct tensor_type *type) {
	if (!shape_elements(type))
		return false;
	if (op == OP_conv)
		return conv_fits(in[1], attr, type);
	/* A key without places has no score that a product could begin with: its text does. */
	return op == OP_attention && in[0]->dims[in[0]->rank - 1];
}

int graph_expand(struct graph *g, unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr,
	const struct tensor_type *type, uint32_t note, uint32_t *nodep, struct fault *f) {
	struct expand_call call = { .name = op_info(op)->name, .operands = arity, .operand = in, .attr = attr,
		.result = type };
	struct site site = { g, note };
	const struct expand_target target = { &site, make, type_of };
	int r;

	if (shape_elements(type) == 0)
		return expand_empty(&site, type, nodep, f);
	r = parsed(op, &call.expr, f);
	return r ? r : expand(&call, &target, nodep, f);
}

/*
 * A graph as a text graph, for a person who repeats it: fusion-graph(5) has the language.
 *
 * Operations and shapes are all there. Values are not: leaves are random, and numbers count up, so that those that differ
 * still do. A leaf that is a view is an array of that shape.
 */
#include "graph.h"

#include <inttypes.h>

enum {
	/* Numbers that every element type but bool has. */
	TEXT_NUMBERS = 100,
};

static void put_set(struct str *t, const char *before, unsigned axes) {
	for (unsigned d = 0; d < LIMIT_RANK; d++)
		if (axes & 1U << d) {
			str_printf(t, "%s%u", before, d);
			before = ",";
		}
}

static void put_list(struct str *t, const char *before, const int64_t *value, unsigned count) {
	for (unsigned d = 0; d < count; d++)
		str_printf(t, "%s%" PRId64, d ? "," : before, value[d]);
}

static void put_dims(struct str *t, const struct tensor_type *type) {
	str_append(t, " [");
	put_list(t, "", type->dims, type->rank);
	str_append(t, "]");
}

/* Python's ranges: the one after the last place, which is left out where that would be before the first. */
static void put_ranges(struct str *t, const struct graph_node *n) {
	const struct op_attr *a = n->attr;

	str_append(t, " [");
	for (unsigned d = 0; d < n->type.rank; d++) {
		int64_t extent = n->type.dims[d], step = extent > 1 ? a->step[d] : 1;
		int64_t stop = extent ? a->start[d] + (extent - 1) * step + (step > 0 ? 1 : -1) : a->start[d];

		str_printf(t, "%s%" PRId64 ":", d ? "," : "", a->start[d]);
		if (stop >= 0)
			str_printf(t, "%" PRId64, stop);
		str_printf(t, ":%" PRId64, step);
	}
	str_append(t, "]");
}

static void put_margins(struct str *t, const struct graph_node *n, const struct tensor_type *in) {
	str_append(t, " [");
	for (unsigned d = 0; d < n->type.rank; d++)
		str_printf(t, "%s%" PRId64 ":%" PRId64, d ? "," : "", n->attr->start[d],
			n->type.dims[d] - in->dims[d] - n->attr->start[d]);
	str_append(t, "]");
}

static void put_conv(struct str *t, const struct op_attr *a) {
	put_list(t, " stride=[", a->step, a->rank);
	put_list(t, "] padding=[", a->start, a->rank);
	put_list(t, "] dilation=[", a->dims, a->rank);
	str_printf(t, "] groups=%" PRId64, a->whole);
}

static void put_axis(struct str *t, const struct graph_node *n) {
	if (op_info(n->op)->class == OP_CLASS_SCAN)
		put_set(t, " axis=", n->attr->axes);
	else
		str_printf(t, " axis=%u", n->attr->axis);
	if (op_sorts(n->op) && n->attr->flag)
		str_append(t, " descending");
}

static void put_windows(struct str *t, const struct op_attr *a) {
	str_printf(t, " axis=%u size=%" PRId64 " step=%" PRId64 " dilation=%" PRId64, a->axis, a->window.size, a->window.step,
		a->window.dilation);
}

static void put_permutation(struct str *t, const struct graph_node *n) {
	for (unsigned d = 0; d < n->type.rank; d++)
		str_printf(t, "%s%u", d ? "," : " ", n->attr->perm[d]);
}

static void put_reduction(struct str *t, const struct op_attr *a) {
	if (!a->axes)
		str_append(t, " axes=none");
	put_set(t, " axes=", a->axes);
	if (a->keepdims)
		str_append(t, " keepdims");
}

static void put_number(struct str *t, const struct graph_node *n) {
	char type[SHAPE_TEXT];

	str_printf(t, " %s %u", shape_text(&n->type, type), n->type.dtype == DTYPE_bool ? n->index % 2 : n->index % TEXT_NUMBERS + 1);
}

/* The language has no flip along no axis, and no permutation of none: both are the array itself. */
static bool names_no_axis(const struct graph_node *n) {
	return (n->op == OP_flip && !n->attr->axes) || (n->op == OP_permute && !n->type.rank);
}

/* What stands behind the operands of an operation that has attributes. */
static void put_attributes(struct str *t, const struct graph *g, const struct graph_node *n) {
	const struct op_attr *a = n->attr;

	if (names_no_axis(n)) {
		put_dims(t, &n->type);
		return;
	}
	switch (n->op) {
	case OP_cast:
		str_printf(t, " %s", dtype_info(n->type.dtype)->name);
		return;
	case OP_reshape:
	case OP_broadcast:
		put_dims(t, &n->type);
		return;
	case OP_permute:
		put_permutation(t, n);
		return;
	case OP_flip:
		put_set(t, " ", a->axes);
		return;
	case OP_slice:
		put_ranges(t, n);
		return;
	case OP_pad:
		put_margins(t, n, &graph_node(g, n->in[0])->type);
		return;
	case OP_windows:
		put_windows(t, a);
		return;
	case OP_conv:
		put_conv(t, a);
		return;
	case OP_attention:
		str_printf(t, " scale=%a%s", a->number, a->flag ? " causal" : "");
		return;
	case OP_searchsorted:
		str_append(t, a->flag ? " right" : "");
		return;
	case OP_take:
	case OP_concat:
	case OP_take_along:
	case OP_put_along:
	case OP_add_along:
	case OP_sort:
	case OP_argsort:
		put_axis(t, n);
		return;
	default:
		break;
	}
	if (op_info(n->op)->class == OP_CLASS_SCAN)
		put_axis(t, n);
	else if (op_info(n->op)->class == OP_CLASS_REDUCE)
		put_reduction(t, a);
}

static void put_node(struct str *t, const struct graph *g, uint32_t node) {
	const struct graph_node *n = graph_node(g, node);
	char type[SHAPE_TEXT];

	if (n->op == OP_load) {
		str_printf(t, "n%u = input %s random %u\n", node, shape_text(&n->type, type), node + 1);
		return;
	}
	str_printf(t, "n%u = %s%s", node, op_is_own(n->op) ? "call " : "", op_info(names_no_axis(n) ? OP_reshape : n->op)->name);
	if (n->op == OP_fill)
		put_number(t, n);
	else if (n->op == OP_arange)
		str_printf(t, " %s 0 1", shape_text(&n->type, type));
	for (unsigned i = 0; i < n->arity; i++)
		str_printf(t, " n%u", n->in[i]);
	put_attributes(t, g, n);
	str_printf(t, "   # %s\n", shape_text(&n->type, type));
}

void graph_put_text(struct str *t, const struct graph *g, size_t most) {
	for (uint32_t i = 0; i < graph_nodes(g) && t->length < most; i++)
		put_node(t, g, i);
	str_append(t, "output");
	for (uint32_t i = 0; i < graph_outputs(g); i++)
		str_printf(t, " n%u", graph_output_at(g, i)->node);
	str_append(t, "\n");
}

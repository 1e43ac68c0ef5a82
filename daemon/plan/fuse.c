/*
 * "Would these two be one kernel?", answered by asking the planner itself about a small graph, so
 * that the answer cannot differ from what it does.
 */
#include "plan.h"

#include <string.h>

enum { PROBE_EXTENT = 64 };

static const struct traits probe_traits = {
	.strategy = STRATEGY_CPU, .width = 16, .f64 = true, .exact_division = true, .units = 1, .pools = 1,
	.kernel_operands = KERNEL_OPERANDS, .kernel_values = KERNEL_VALUES / 4,
};

static uint8_t probe_dtype(const struct op_info *o) {
	if (o->types == OP_TYPES_INT || o->types == OP_TYPES_BITS)
		return DTYPE_i32;
	return o->types == OP_TYPES_BOOL ? DTYPE_bool : DTYPE_f32;
}

/* Attributes under which every operation accepts a square of PROBE_EXTENT. */
static struct op_attr probe_attr(unsigned op) {
	struct op_attr a = { .dtype = DTYPE_f32, .rank = 2, .dims = { PROBE_EXTENT, PROBE_EXTENT },
		.perm = { 1, 0 }, .axes = 2, .step = { 1, 1 }, .window = { 2, 1, 1 } };

	if (op == OP_arange) {
		a.rank = 1;
		a.dims[0] = PROBE_EXTENT;
	}
	return a;
}

static int leaf_of(struct graph *g, uint8_t dtype, uint32_t *nodep) {
	struct tensor_type t = { .dtype = dtype, .rank = 2, .dims = { PROBE_EXTENT, PROBE_EXTENT } };
	static int buffer;
	struct view v;

	view_contiguous(&t, &v);
	return graph_leaf(g, &buffer, &t, &v, nodep);
}

/* All elements of a node one after the other. */
static int vector_of(struct graph *g, uint32_t from, uint32_t *nodep, struct fault *f) {
	struct op_attr attr = { .rank = 1, .dims = { (int64_t)PROBE_EXTENT * PROBE_EXTENT } };

	return graph_op(g, OP_reshape, 1, &from, &attr, 0, nodep, f);
}

/* Applies op with `from` wherever its type fits, else with a fresh leaf of the type wanted. */
static int apply(struct graph *g, unsigned op, uint32_t from, uint32_t *nodep, struct fault *f) {
	struct op_attr attr = probe_attr(op);
	uint32_t in[LIMIT_OPERANDS];
	int r = 0;

	for (unsigned i = 0; i < LIMIT_OPERANDS; i++)
		in[i] = from;
	if (op == OP_load)
		return leaf_of(g, DTYPE_f32, nodep);
	if (op == OP_where)
		r = leaf_of(g, DTYPE_bool, &in[0]);
	if (op == OP_searchsorted)
		r = vector_of(g, in[1], &in[0], f);
	else if (op_gathers(op) || op_scatters(op))
		r = leaf_of(g, DTYPE_i64, &in[1]);
	return r ? r : graph_op(g, op, op_least(op), in, &attr, 0, nodep, f);
}

/* A cast to what `op` takes, where the value is of another type. */
static int adapt(struct graph *g, unsigned op, uint32_t *nodep, struct fault *f) {
	struct op_attr attr = { .dtype = probe_dtype(op_info(op)) };
	uint8_t have = graph_node(g, *nodep)->type.dtype;

	if (op_info(op)->types == OP_TYPES_ANY || have == attr.dtype || op_info(op)->class == OP_CLASS_STRUCT)
		return 0;
	return graph_op(g, OP_cast, 1, nodep, &attr, 0, nodep, f);
}

static bool verdict(const struct plan *p, uint32_t first, uint32_t second, const char **reasonp) {
	for (uint32_t i = 0; i < p->steps; i++) {
		bool has[2] = { false, false };

		for (uint32_t k = 0; k < p->step[i].ops; k++) {
			has[0] |= p->step[i].op[k] == first;
			has[1] |= p->step[i].op[k] == second;
		}
		if (has[0] && has[1]) {
			*reasonp = "both run in one kernel";
			return true;
		}
	}
	*reasonp = p->notes ? p->note[p->notes - 1].reason : "the second reads memory through a view, which costs no kernel";
	return false;
}

static int probe(struct graph *g, unsigned first, unsigned second, bool *fusesp, const char **reasonp) {
	struct plan_options o = { .fuse = true, .notes = true, .traits = &probe_traits };
	struct fault f = { 0 };
	struct plan *p = NULL;
	uint32_t a, b;
	int r = leaf_of(g, probe_dtype(op_info(first)), &a);

	if (!r)
		r = apply(g, first, a, &a, &f);
	b = a;
	if (!r)
		r = adapt(g, second, &b, &f);
	if (!r)
		r = apply(g, second, b, &b, &f);
	if (!r)
		r = graph_output(g, b, 0);
	if (!r)
		r = plan_make(g, &o, &p, &f);
	if (r) {
		*reasonp = "the second does not take the first's result";
		return r;
	}
	*fusesp = verdict(p, a, b, reasonp);
	plan_unref(p);
	return 0;
}

bool plan_can_fuse(unsigned first, unsigned second, const char **reasonp) {
	struct graph *g = NULL;
	bool fuses = false;

	*reasonp = "no such operation";
	if (!op_info(first) || !op_info(second))
		return false;
	*reasonp = "out of memory";
	if (graph_new(&g) < 0)
		return false;
	if (probe(g, first, second, &fuses, reasonp))
		fuses = false;
	graph_free(g);
	return fuses;
}

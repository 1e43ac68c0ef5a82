/*
 * What a plan was made from: its operations, so that it can be explained when the graph is long gone; and what its steps are for that compute
 * no operation of the graph, or a part of some.
 * Shapes are shared with a neighbour where they are equal, as they mostly are.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/str.h"

static const struct tensor_type *keep_type(struct plan *plan, uint32_t node, const struct tensor_type *t) {
	struct tensor_type *own;

	if (node && plan->node[node - 1].type && plan->node[node - 1].type->dtype == t->dtype &&
		shape_equal(plan->node[node - 1].type, t))
		return plan->node[node - 1].type;
	own = arena_alloc(&plan->arena, sizeof *own);
	if (own)
		*own = *t;
	return own;
}

static int keep_node(struct plan *plan, uint32_t i, const struct plan_node *n) {
	struct plan_node *to = &plan->node[i];
	uint32_t *in = arena_alloc(&plan->arena, n->arity ? n->arity * sizeof *in : sizeof *in);

	*to = *n;
	to->in = in;
	to->type = keep_type(plan, i, n->type);
	if (!in || !to->type)
		return -ENOMEM;
	if (n->arity)
		memcpy(in, n->in, n->arity * sizeof *in);
	return 0;
}

static int begin(struct plan *plan, uint32_t nodes) {
	plan->node = arena_alloc(&plan->arena, (nodes + 1u) * sizeof *plan->node);
	if (!plan->node)
		return -ENOMEM;
	plan->nodes = nodes;
	return 0;
}

int planner_describe(struct planner *p) {
	uint32_t own = graph_nodes(p->g);
	int r = begin(p->plan, p->nodes);

	for (uint32_t i = 0; !r && i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		bool parts = n->kind == NODE_PARTS;

		r = keep_node(p->plan, i, &(struct plan_node){ .op = i < own && !n->parts ? graph_node(p->g, i)->op : n->op,
			.arity = parts ? graph_node(p->g, i)->arity : n->arity,
			.dead = n->kind == NODE_DEAD || n->whole != GRAPH_NONE, .output = i < own && graph_node(p->g, i)->output,
			.note = i < own ? graph_node(p->g, i)->note : PLAN_NONE, .in = n->in, .type = n->type });
	}
	return r;
}

int plan_copy_description(const struct plan *from, struct plan *to) {
	int r = begin(to, from->nodes);

	for (uint32_t i = 0; !r && i < from->nodes; i++)
		r = keep_node(to, i, &from->node[i]);
	to->note = calloc(from->notes + 1u, sizeof *to->note);
	if (!to->note)
		return -ENOMEM;
	if (from->notes)
		memcpy(to->note, from->note, from->notes * sizeof *to->note);
	to->notes = from->notes;
	return r;
}

/* ---- what steps are for ---- */

/* Steps before one that names operations are of the same ones. */
static const struct plan_step *whole_of(const struct plan *p, uint32_t step) {
	while (!p->step[step].ops && step + 1 < p->steps)
		step++;
	return &p->step[step];
}

static bool goes_on(const struct plan *p, uint32_t step) {
	return step && !p->step[step - 1].ops;
}

static void put_reduction(const struct plan *p, uint32_t step, struct str *text) {
	const struct plan_step *s = &p->step[step];
	const struct kernel *whole = whole_of(p, step)->kernel;
	const char *what = whole->root == KERNEL_SCAN ? "scan" : "reduction", *op = op_info(whole->op)->name;

	if (!s->ops && !goes_on(p, step))
		str_printf(text, "first pass of a %s, %s: its blocks, side by side", what, op);
	else if (!s->ops)
		str_printf(text, "next pass of a %s, %s: of what the pass before left of each block", what, op);
	else if (goes_on(p, step) && whole->root == KERNEL_SCAN)
		str_printf(text, "last pass of a scan, %s: its blocks, each from what those before it give", op);
	else if (goes_on(p, step))
		str_printf(text, "last pass of a reduction, %s: of what the pass before left of each block", op);
}

static void put_sort(const struct plan_step *s, struct str *text) {
	static const char *const words[] = { [KERNEL_STAGE_BLOCKS] = "first pass of a sort: its blocks", [KERNEL_STAGE_MERGE] = "next pass of a sort: sorted blocks are merged, two by two",
		[KERNEL_STAGE_LAST] = "last pass of a sort: the last two blocks are merged" };

	if (s->kernel->stage != KERNEL_STAGE_ROWS)
		str_append(text, words[s->kernel->stage]);
}

/* The first slot that it stores to; PLAN_NONE: none. */
static uint32_t stored_by(const struct plan_step *s) {
	for (unsigned i = 0; i < s->kernel->operands; i++)
		if (s->kernel->operand[i].output)
			return s->operand[i].slot;
	return PLAN_NONE;
}

static const char *reader_of(const struct plan *p, uint32_t step, uint32_t slot) {
	for (uint32_t i = step + 1; i < p->steps; i++)
		for (unsigned k = 0; k < p->step[i].kernel->operands; k++)
			if (!p->step[i].kernel->operand[k].output && !p->step[i].kernel->operand[k].iota && p->step[i].operand[k].slot == slot)
				return kernel_root_name(p->step[i].kernel);
	return "a later kernel";
}

/* Does it compute what the planner added alone? */
static bool only_added(const struct plan *p, const struct plan_step *s) {
	for (uint32_t i = 0; i < s->ops; i++)
		if (p->node[s->op[i]].note != PLAN_NONE)
			return false;
	return true;
}

/* ... and no part of an operation, as a cast before a product of an attention is one. */
static bool only_copies(const struct plan *p, const struct plan_step *s) {
	for (uint32_t i = 0; i < s->ops; i++)
		if (p->node[s->op[i]].op != OP_copy)
			return false;
	return s->ops;
}

static void put_copy(const struct plan *p, uint32_t step, struct str *text) {
	uint32_t slot = stored_by(&p->step[step]);
	const char *reader = slot == PLAN_NONE ? NULL : reader_of(p, step, slot);

	if (!reader || !only_added(p, &p->step[step]))
		return;
	if (p->slot[slot].packed && p->slot[slot].packed_of != PLAN_NONE)
		str_printf(text, "packing of weights: into panels, as %s reads them, once for all runs", reader);
	else if (p->slot[slot].packed)
		str_printf(text, "packing of a factor: into panels, as %s reads it", reader);
	else if (only_copies(p, &p->step[step]))
		str_printf(text, "copy of what %s reads, as it must lie in memory for that", reader);
	else if (!p->step[step].ops)
		str_printf(text, "first half of a kernel that could not be built as one");
}

void plan_put_purpose(const struct plan *p, uint32_t step, struct str *text) {
	const struct plan_step *s = &p->step[step];

	if (s->kernel->root == KERNEL_REDUCE || s->kernel->root == KERNEL_SCAN)
		put_reduction(p, step, text);
	else if (s->kernel->root == KERNEL_SORT)
		put_sort(s, text);
	else if (s->kernel->root == KERNEL_MAP)
		put_copy(p, step, text);
}

/*
 * What a plan was made from: its operations, so that it can be explained when the graph is long gone.
 * Shapes are shared with a neighbour where they are equal, as they mostly are.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

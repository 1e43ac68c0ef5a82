/*
 * attention: elementwise operations on the result of attention run where it ends, before it is stored: dropout,
 * a gate, a residual of the same shape.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	if (g->kind != NODE_ATTENTION || n->kind != NODE_MAP)
		return false;
	*reasonp = "the shape is not that of the attention's result";
	return space_equal(g->space, n->space);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	if (into->kind != NODE_ATTENTION || g->kind != NODE_MAP || g->read_by_rows)
		return false;
	*reasonp = "the shape is not that of the attention's result";
	return space_equal(g->space, into->space);
}

PLAN_RULE(attention, .doc = "attention, then elementwise operations on its result", .join = join, .sink = sink);

/*
 * attention: elementwise operations on the result of attention run where it ends, before it is stored: dropout,
 * a gate, a residual of the same shape.
 */
#include "daemon/plan/planner.h"

static const char other_shape[] = "the shape is not that of the attention's result";

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	return rule_joins(g, n, NODE_ATTENTION, other_shape, reasonp);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	return !g->read_by_rows && rule_sinks(g, into, NODE_ATTENTION, other_shape, reasonp);
}

PLAN_RULE(attention, .doc = "attention, then elementwise operations on its result", .join = join, .sink = sink);

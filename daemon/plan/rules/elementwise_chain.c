/*
 * elementwise_chain: any DAG of elementwise operations over one shape is one kernel: not only
 * chains, also values used twice, broadcasts and strided views of memory, casts, several outputs.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	if (g->kind != NODE_MAP || n->kind != NODE_MAP)
		return false;
	*reasonp = "the shapes differ";
	return space_equal(g->space, n->space);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	if (into->kind != NODE_MAP || g->kind != NODE_MAP)
		return false;
	*reasonp = "the shapes differ";
	return space_equal(g->space, into->space);
}

PLAN_RULE(elementwise_chain, .doc = "any DAG of elementwise operations over one shape", .join = join, .sink = sink);

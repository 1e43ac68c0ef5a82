/*
 * reduce_epilogue: elementwise operations on the result of a reduction run where it ends, before it
 * is stored; what else they read, of the result's shape, is computed there too.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	if (g->kind != NODE_REDUCE)
		return false;
	*reasonp = "the shape is not the reduction's";
	return space_equal(g->space, n->space);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	if (into->kind != NODE_REDUCE || g->read_before_root)
		return false;
	*reasonp = "the shape is not the reduction's";
	return space_equal(g->space, into->space);
}

PLAN_RULE(reduce_epilogue, .doc = "a reduction, then elementwise operations on its result", .join = join, .sink = sink);

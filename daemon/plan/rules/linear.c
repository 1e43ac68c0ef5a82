/*
 * linear: bias, activation, residual and any other elementwise operations on a matrix product run
 * on its accumulators, before they are stored; so the product keeps its best tiling.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	if (g->kind != NODE_MATMUL || n->kind != NODE_MAP)
		return false;
	*reasonp = "the shape is not the product's";
	return space_equal(g->space, n->space);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	if (into->kind != NODE_MATMUL || g->kind != NODE_MAP || g->read_by_rows)
		return false;
	*reasonp = "the shape is not the product's";
	return space_equal(g->space, into->space);
}

PLAN_RULE(linear, .doc = "a matrix product, then elementwise operations on it", .join = join, .sink = sink);

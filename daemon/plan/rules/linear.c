/*
 * linear: bias, activation, residual and any other elementwise operations on a matrix product run
 * on its accumulators, before they are stored; so the product keeps its best tiling.
 */
#include "daemon/plan/planner.h"

static const char other_shape[] = "the shape is not the product's";

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	return rule_joins(g, n, NODE_MATMUL, other_shape, reasonp);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	return !g->read_by_rows && rule_sinks(g, into, NODE_MATMUL, other_shape, reasonp);
}

PLAN_RULE(linear, .doc = "a matrix product, then elementwise operations on it", .join = join, .sink = sink);

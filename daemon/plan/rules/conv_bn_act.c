/*
 * conv_bn_act: batch normalisation, activation, residual and any other elementwise operations on a convolution run on
 * its accumulators, before they are stored.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	if (g->kind != NODE_CONV || n->kind != NODE_MAP)
		return false;
	*reasonp = "the shape is not the convolution's";
	return space_equal(g->space, n->space);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	if (into->kind != NODE_CONV || g->kind != NODE_MAP || g->read_by_rows)
		return false;
	*reasonp = "the shape is not the convolution's";
	return space_equal(g->space, into->space);
}

PLAN_RULE(conv_bn_act, .doc = "a convolution, then elementwise operations on it", .join = join, .sink = sink);

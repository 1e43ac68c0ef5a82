/*
 * sort: elementwise operations are computed as a sort loads, where nobody else wants their results: a sort reads each
 * element once, and stores nothing but its own result.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	(void)n;
	if (g->kind == NODE_SORT)
		*reasonp = "a sort is complete only when its last element is in place";
	return false;
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	if (into->kind != NODE_SORT || g->kind != NODE_MAP)
		return false;
	*reasonp = g->outputs ? "a sort stores only its own result" : "the shape is not the sort's";
	return !g->outputs && space_equal(g->space, into->space);
}

PLAN_RULE(sort, .doc = "elementwise operations before a sort", .join = join, .sink = sink);

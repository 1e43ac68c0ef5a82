/*
 * scan: elementwise operations are computed as a scan loads, and on its result before it is stored. All
 * of them see the same elements, so one that is read before and after the scan, or wanted besides, is in
 * the kernel too.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	if (g->kind != NODE_SCAN || n->kind != NODE_MAP)
		return false;
	*reasonp = "the shape is not the scan's";
	return space_equal(g->space, n->space);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	if (into->kind != NODE_SCAN || g->kind != NODE_MAP)
		return false;
	*reasonp = "the shape is not the scan's";
	return space_equal(g->space, into->space);
}

PLAN_RULE(scan, .doc = "elementwise operations before and after a scan", .join = join, .sink = sink);

/*
 * scan: elementwise operations are computed as a scan loads, and on its result before it is stored. All
 * of them see the same elements, so one that is read before and after the scan, or wanted besides, is in
 * the kernel too.
 */
#include "daemon/plan/planner.h"

static const char other_shape[] = "the shape is not the scan's";

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	return rule_joins(g, n, NODE_SCAN, other_shape, reasonp);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	return rule_sinks(g, into, NODE_SCAN, other_shape, reasonp);
}

PLAN_RULE(scan, .doc = "elementwise operations before and after a scan", .join = join, .sink = sink);

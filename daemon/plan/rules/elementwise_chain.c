/*
 * elementwise_chain: any DAG of elementwise operations over one shape is one kernel: not only
 * chains, also values used twice, broadcasts and strided views of memory, casts, several outputs.
 */
#include "daemon/plan/planner.h"

static const char other_shape[] = "the shapes differ";

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	return rule_joins(g, n, NODE_MAP, other_shape, reasonp);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)p;
	return rule_sinks(g, into, NODE_MAP, other_shape, reasonp);
}

PLAN_RULE(elementwise_chain, .doc = "any DAG of elementwise operations over one shape", .join = join, .sink = sink);

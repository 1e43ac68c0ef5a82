/*
 * reduce_prologue: elementwise operations that only a reduction reads are computed as it loads, and
 * never stored, or stored on the way where they are wanted too and the rows are walked whole. Not for
 * reduced axes with a kept one between them on a CPU: that form works one element at a time.
 */
#include "daemon/plan/planner.h"

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	struct rows r;

	if (into->kind != NODE_REDUCE || g->kind != NODE_MAP || !p->node[g->first].row)
		return false;
	r = rows_of(p, &p->node[into->root]);
	*reasonp = "its result is needed in memory";
	if (g->outputs && !rows_pay(p, &r))
		return false;
	*reasonp = "the reduced axes are not adjacent";
	return p->o->traits->strategy != STRATEGY_CPU || rows_adjacent(&r);
}

PLAN_RULE(reduce_prologue, .doc = "elementwise operations, then a reduction", .sink = sink);

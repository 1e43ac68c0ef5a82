/*
 * reduce_broadcast: a reduction whose result goes back over its rows, and what else is done with
 * them: softmax, norms, variance and logsumexp are one kernel that walks each row a few times while it
 * lies in the cache. Any number of reductions over the same rows, in any order. Not for few long rows,
 * which are reduced in blocks side by side, and on a CPU not with a kept axis between reduced ones.
 */
#include "daemon/plan/planner.h"

static bool pays(const struct planner *p, const struct rows *r, const char **reasonp) {
	*reasonp = "too few rows for their length";
	if (!rows_pay(p, r))
		return false;
	*reasonp = "the reduced axes are not adjacent";
	return p->o->traits->strategy != STRATEGY_CPU || rows_adjacent(r);
}

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	struct rows r, own;

	if (g->kind != NODE_REDUCE || (n->kind == NODE_MAP && !n->row))
		return false;
	r = rows_of(p, &p->node[g->root]);
	if (n->kind == NODE_REDUCE) {
		own = rows_of(p, n);
		*reasonp = "it reduces other rows";
		if (!rows_same(&r, &own))
			return false;
	}
	return pays(p, &r, reasonp);
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	struct rows r, own;

	if (into->kind != NODE_REDUCE)
		return false;
	r = rows_of(p, &p->node[into->root]);
	if (g->kind == NODE_REDUCE) {
		own = rows_of(p, &p->node[g->root]);
		*reasonp = "it reduces other rows";
		return rows_same(&r, &own) && pays(p, &r, reasonp);
	}
	return g->kind == NODE_MAP && !p->node[g->first].row && g->read_by_rows && pays(p, &r, reasonp);
}

PLAN_RULE(reduce_broadcast, .doc = "reductions and elementwise operations over the same rows", .join = join, .sink = sink);

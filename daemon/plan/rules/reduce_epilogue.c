/*
 * reduce_epilogue: elementwise operations on the result of a reduction run where it ends, before it
 * is stored; what else they read, of the result's shape, is computed there too.
 */
#include "daemon/plan/planner.h"

static bool join(const struct planner *p, const struct group *g, const struct node *n, const char **reasonp) {
	(void)p;
	(void)reasonp;
	return g->kind == NODE_REDUCE && n->kind == NODE_MAP && !n->row;
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	(void)reasonp;
	return into->kind == NODE_REDUCE && g->kind == NODE_MAP && !p->node[g->first].row && !g->read_by_rows;
}

PLAN_RULE(reduce_epilogue, .doc = "a reduction, then elementwise operations on its result", .join = join, .sink = sink);

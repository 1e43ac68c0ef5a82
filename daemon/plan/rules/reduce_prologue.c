/*
 * reduce_prologue: elementwise operations that only a reduction reads are computed as it loads, and
 * never stored. Not where the result is wanted too: it must be in memory then, and reading it
 * costs less than computing it twice. Not for reduced axes with a kept one between them on a CPU:
 * that form of the kernel works one element at a time.
 */
#include "daemon/plan/planner.h"

/* Do the reduced axes, extents of 1 aside, lie side by side? */
static bool axes_adjacent(const struct planner *p, const struct node *root) {
	const struct tensor_type *t = p->node[root->in[0]].type;
	bool inside = false, left = false;

	for (unsigned d = 0; d < t->rank; d++) {
		bool reduced = root->attr->axes >> d & 1;

		if (t->dims[d] == 1)
			continue;
		if (reduced && left)
			return false;
		inside |= reduced;
		left |= inside && !reduced;
	}
	return true;
}

static bool sink(const struct planner *p, const struct group *g, const struct group *into, const char **reasonp) {
	const struct node *root = &p->node[into->root];

	if (into->kind != NODE_REDUCE || g->read_after_root)
		return false;
	*reasonp = "its result is needed in memory";
	if (g->outputs)
		return false;
	*reasonp = "the reduced axes are not adjacent";
	if (p->o->traits->strategy == STRATEGY_CPU && !axes_adjacent(p, root))
		return false;
	*reasonp = "the shape is not what is reduced";
	return space_equal(g->space, root->space);
}

PLAN_RULE(reduce_prologue, .doc = "elementwise operations, then a reduction", .sink = sink);

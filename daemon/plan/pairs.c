/*
 * fusion.apart: pairs of operations that share no kernel where the second reads the first, by itself or through casts.
 *
 * Every merge of two groups, or of a group and a node, is asked about; check.c looks afterwards that none was missed. Cost:
 * linear in the members of both, and nothing where no pair is named.
 */
#include "planner.h"

static bool is_in(const struct planner *p, uint32_t node, const struct group *a, const struct group *b, uint32_t one) {
	const struct node *n = &p->node[node];
	const struct group *g;

	if (node == one)
		return true;
	if (!node_is_computed(n) || n->group == GROUP_NONE)
		return false;
	g = &p->group[group_find(p, n->group)];
	return g == a || g == b;
}

/* Does node n read, from within the groups, an operation that it is kept apart from? */
static bool reads_apart(const struct planner *p, const struct node *n, const struct group *a, const struct group *b, uint32_t one) {
	for (unsigned k = 0; k < n->arity; k++) {
		uint32_t from = planner_edge(p, n, k).base;

		for (; is_in(p, from, a, b, one); from = planner_edge(p, &p->node[from], 0).base) {
			if (op_pairs_have(&p->o->apart, p->node[from].op, n->op))
				return true;
			if (p->node[from].op != OP_cast)
				break;
		}
	}
	return false;
}

static bool member_reads_apart(const struct planner *p, const struct group *of, const struct group *a, const struct group *b, uint32_t one) {
	if (!of)
		return false;
	for (uint32_t m = of->first; m != GRAPH_NONE; m = p->next[m])
		if (reads_apart(p, &p->node[m], a, b, one))
			return true;
	return false;
}

const char *pairs_refuse(const struct planner *p, const struct group *from, const struct group *into, uint32_t node) {
	if (!p->o->apart.count)
		return NULL;
	if (member_reads_apart(p, from, from, into, node) || member_reads_apart(p, into, from, into, node) ||
		(node != GRAPH_NONE && reads_apart(p, &p->node[node], from, into, node)))
		return "fusion.apart keeps these operations in kernels of their own";
	return NULL;
}

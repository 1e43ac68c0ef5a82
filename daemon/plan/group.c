/*
 * Which nodes share a kernel.
 *
 * A group becomes one kernel. Groups carry a rank that is above the rank of every group they read
 * from; a path between groups strictly climbs, so two groups of one rank never depend on each
 * other, and a node may join a group exactly when everything else it reads has a lower rank. That
 * keeps the groups acyclic without a search: the pass is linear in the number of operands.
 *
 * join: nodes in topological order join the highest-ranked group that holds a direct operand.
 * sink: then, consumers first, a MAP group read by one group only is computed inside that group.
 * What a pattern allows is said by rules/; this file keeps limits and order.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const struct plan_rule *const __start_plan_rules[];
extern const struct plan_rule *const __stop_plan_rules[];

uint32_t group_find(struct planner *p, uint32_t group) {
	while (p->group[group].parent != group) {
		p->group[group].parent = p->group[p->group[group].parent].parent;
		group = p->group[group].parent;
	}
	return group;
}

int planner_note(struct planner *p, uint32_t producer, uint32_t consumer, const char *reason) {
	struct plan *plan = p->plan;

	if (!p->o->notes)
		return 0;
	if (plan->notes == p->note_capacity) {
		uint32_t capacity = p->note_capacity ? p->note_capacity * 2 : 16;
		struct plan_note *note = realloc(plan->note, capacity * sizeof *note);

		if (!note)
			return -ENOMEM;
		plan->note = note;
		p->note_capacity = capacity;
	}
	plan->note[plan->notes++] = (struct plan_note){ producer, consumer, reason };
	return 0;
}

static uint32_t max_ops(const struct planner *p) {
	uint32_t limit = p->o->traits->kernel_values;

	return limit < KERNEL_VALUES / 4 ? limit : KERNEL_VALUES / 4;
}

/* ---- sources: what a group reads from outside, each counted once ---- */

static bool has_source(const struct group *g, uint32_t node) {
	for (uint32_t i = 0; i < g->sources; i++)
		if (g->source[i] == node)
			return true;
	return false;
}

static bool add_source(struct group *g, uint32_t node) {
	if (has_source(g, node))
		return true;
	if (g->sources == GROUP_SOURCES)
		return false;
	g->source[g->sources++] = node;
	return true;
}

/* Adds what n reads from outside g; false where that is too much (g is then unchanged). */
static bool add_sources_of(struct planner *p, struct group *g, const struct node *n) {
	uint32_t before = g->sources;

	for (unsigned i = 0; i < n->arity; i++) {
		struct edge e = planner_edge(p, n, i);

		if (e.direct && &p->group[group_find(p, p->node[e.base].group)] == g)
			continue;
		if (!add_source(g, e.node)) {
			g->sources = before;
			return false;
		}
	}
	return true;
}

/* ---- groups ---- */

static void member_add(struct planner *p, struct group *g, uint32_t node) {
	p->next[node] = GRAPH_NONE;
	if (g->first == GRAPH_NONE)
		g->first = node;
	else
		p->next[g->last] = node;
	g->last = node;
	g->ops++;
	g->outputs += p->node[node].stored;
	p->node[node].group = (uint32_t)(g - p->group);
}

static int group_new(struct planner *p, uint32_t node, uint32_t rank) {
	struct node *n = &p->node[node];
	struct group *g;

	if (p->groups == p->group_capacity) {
		uint32_t capacity = p->group_capacity ? p->group_capacity * 2 : 32;

		g = realloc(p->group, capacity * sizeof *g);
		if (!g)
			return -ENOMEM;
		p->group = g;
		p->group_capacity = capacity;
	}
	g = &p->group[p->groups];
	g->kind = n->kind;
	g->parent = p->groups;
	g->rank = rank;
	g->root = node;
	g->space = n->kind == NODE_MAP ? n->space : n->type;
	g->ops = g->outputs = g->sources = 0;
	g->first = g->last = GRAPH_NONE;
	p->groups++;
	add_sources_of(p, g, n);
	member_add(p, g, node);
	return 0;
}

/*
 * Requires rank order to allow it; false where both are too much together. `from` ceases to stand,
 * its members go first: members stay in topological order whether or not `into` reads them.
 */
static bool group_merge(struct planner *p, struct group *into, struct group *from) {
	uint32_t before = into->sources;

	if (into->ops + from->ops > max_ops(p))
		return false;
	for (uint32_t i = 0; i < from->sources; i++) {
		uint32_t base = p->node[from->source[i]].base;

		if (node_is_computed(&p->node[base]) && p->node[base].group != GROUP_NONE &&
			&p->group[group_find(p, p->node[base].group)] == into)
			continue;
		if (!add_source(into, from->source[i])) {
			into->sources = before;
			return false;
		}
	}
	p->next[from->last] = into->first;
	into->first = from->first;
	into->ops += from->ops;
	into->outputs += from->outputs;
	from->parent = (uint32_t)(into - p->group);
	return true;
}

/* ---- join ---- */

static const char *join_reason(const struct planner *p, const struct group *g, const struct node *n) {
	const char *reason = "no fusion pattern takes it", *why = NULL;

	for (const struct plan_rule *const *r = __start_plan_rules; r < __stop_plan_rules; r++) {
		if ((*r)->join && (*r)->join(p, g, n, &why))
			return NULL;
		if (why)
			reason = why;
	}
	return reason;
}

static const char *join_limits(const struct planner *p, const struct group *g, const struct node *n) {
	if (!p->o->fuse)
		return "fusion is off";
	if ((uint64_t)shape_elements(n->type) < p->o->min_elements)
		return "below fusion.min_elements";
	if (g->ops >= max_ops(p))
		return "the kernel is full";
	return join_reason(p, g, n);
}

/* The highest rank among what n reads, 0 where it reads only memory. */
static uint32_t highest_rank(struct planner *p, const struct node *n) {
	uint32_t rank = 0;

	for (unsigned i = 0; i < n->arity; i++) {
		struct edge e = planner_edge(p, n, i);
		uint32_t r;

		if (!node_is_computed(&p->node[e.base]) || p->node[e.base].group == GROUP_NONE)
			continue;
		r = p->group[group_find(p, p->node[e.base].group)].rank;
		rank = r > rank ? r : rank;
	}
	return rank;
}

/* Merges two groups of one rank and shape; a root keeps its place. */
static bool merge_either(struct planner *p, uint32_t *foundp, uint32_t other) {
	uint32_t into = *foundp;

	if (p->group[other].kind != NODE_MAP) {
		into = other;
		other = *foundp;
	}
	*foundp = into;
	return p->group[other].kind == NODE_MAP && group_merge(p, &p->group[into], &p->group[other]);
}

/*
 * The group n may join: it holds a direct operand, has the highest rank, and n reads nothing of
 * that rank another way. Groups of that rank that n connects are merged where rules and limits allow.
 */
static int candidate(struct planner *p, uint32_t node, uint32_t rank, uint32_t *groupp) {
	const struct node *n = &p->node[node];
	uint32_t found = GROUP_NONE;

	*groupp = GROUP_NONE;
	for (unsigned i = 0; i < n->arity; i++) {
		struct edge e = planner_edge(p, n, i);
		const char *reason = NULL;
		uint32_t g;

		if (!node_is_computed(&p->node[e.base]))
			continue;
		g = group_find(p, p->node[e.base].group);
		if (p->group[g].rank < rank || (e.direct && g == found))
			continue;
		if (!e.direct)
			reason = "it is read through a view";
		else
			reason = join_limits(p, &p->group[g], n);
		if (!reason && found != GROUP_NONE && !merge_either(p, &found, g))
			reason = "two kernels it reads cannot be merged";
		if (reason)
			return planner_note(p, e.base, node, reason);
		found = found == GROUP_NONE ? g : found;
	}
	*groupp = found;
	return 0;
}

/* On the CPU a product wants its second factor in rows; a transposed one is copied once. */
static int pack_factor(struct planner *p, uint32_t node) {
	uint32_t b = p->node[node].in[1], copy;
	const struct node *in = &p->node[b];
	unsigned last = in->type->rank - 1u;
	bool rows = in->kind != NODE_FILL && in->kind != NODE_IOTA && in->view.stride[last] == 1;
	int r;

	if (in->kind != NODE_FILL && in->kind != NODE_IOTA &&
		(rows || in->type->dims[last] == 1 || p->o->traits->strategy == STRATEGY_GPU))
		return 0;
	r = planner_add_copy(p, b, &copy);
	if (r)
		return r;
	p->node[node].in[1] = copy;
	return group_new(p, copy, highest_rank(p, &p->node[copy]) + 1);
}

/* The first factor may lie anyhow, but it must lie in memory. */
static int place_factor(struct planner *p, uint32_t node) {
	const struct node *in = &p->node[p->node[node].in[0]];
	uint32_t copy;
	int r;

	if (in->kind != NODE_FILL && in->kind != NODE_IOTA)
		return 0;
	r = planner_add_copy(p, p->node[node].in[0], &copy);
	if (r)
		return r;
	p->node[node].in[0] = copy;
	return group_new(p, copy, 1);
}

static int join(struct planner *p, uint32_t node) {
	uint32_t rank, group = GROUP_NONE;
	int r = 0;

	if (p->node[node].kind == NODE_MATMUL) {
		r = place_factor(p, node);
		if (!r)
			r = pack_factor(p, node);
	}
	rank = highest_rank(p, &p->node[node]);
	if (!r && p->node[node].kind == NODE_MAP && rank)
		r = candidate(p, node, rank, &group);
	if (r)
		return r;
	if (group == GROUP_NONE || !add_sources_of(p, &p->group[group], &p->node[node]))
		return group_new(p, node, rank + 1);
	member_add(p, &p->group[group], node);
	return 0;
}

/* ---- sink ---- */

static int readers_find(struct planner *p) {
	uint32_t *count;

	p->reader_start = arena_alloc(&p->arena, (p->nodes + 2) * sizeof *p->reader_start);
	p->reader = arena_alloc(&p->arena, ((size_t)p->nodes * LIMIT_OPERANDS + 1) * sizeof *p->reader);
	if (!p->reader_start || !p->reader)
		return -ENOMEM;
	count = p->reader_start + 2;
	for (uint32_t i = 0; i < p->nodes; i++)
		for (unsigned k = 0; node_is_computed(&p->node[i]) && k < p->node[i].arity; k++)
			count[planner_edge(p, &p->node[i], k).base]++;
	for (uint32_t i = 1; i < p->nodes; i++)
		count[i] += count[i - 1];
	for (uint32_t i = 0; i < p->nodes; i++)
		for (unsigned k = 0; node_is_computed(&p->node[i]) && k < p->node[i].arity; k++)
			p->reader[p->reader_start[planner_edge(p, &p->node[i], k).base + 1]++] = i;
	return 0;
}

/* Does `reader` read `base` only directly? */
static bool reads_directly(const struct planner *p, uint32_t reader, uint32_t base) {
	for (unsigned i = 0; i < p->node[reader].arity; i++) {
		struct edge e = planner_edge(p, &p->node[reader], i);

		if (e.base == base && !e.direct)
			return false;
	}
	return true;
}

/* The only other group that reads g, and how; GROUP_NONE where there is none or more than one. */
static uint32_t only_reader(struct planner *p, struct group *g) {
	uint32_t self = (uint32_t)(g - p->group), found = GROUP_NONE;

	g->read_before_root = g->read_after_root = false;
	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
		for (uint32_t i = p->reader_start[m]; i < p->reader_start[m + 1]; i++) {
			uint32_t n = p->reader[i], other = group_find(p, p->node[n].group);
			bool before = n == p->group[other].root || p->node[n].prologue;

			if (other == self)
				continue;
			if ((found != GROUP_NONE && other != found) || !reads_directly(p, n, m))
				return GROUP_NONE;
			found = other;
			g->read_before_root |= before;
			g->read_after_root |= !before;
		}
	return found;
}

static bool sink_allowed(struct planner *p, const struct group *g, const struct group *into,
	const char **reasonp) {
	if (!p->o->fuse || (uint64_t)shape_elements(into->space) < p->o->min_elements)
		return false;
	for (const struct plan_rule *const *r = __start_plan_rules; r < __stop_plan_rules; r++)
		if ((*r)->sink && (*r)->sink(p, g, into, reasonp))
			return true;
	return false;
}

static int sink(struct planner *p, uint32_t group) {
	struct group *g = &p->group[group];
	const char *reason = NULL;
	uint32_t into;
	bool before;

	if (g->parent != group || g->kind != NODE_MAP)
		return 0;
	into = only_reader(p, g);
	if (into == GROUP_NONE)
		return 0;
	if (!sink_allowed(p, g, &p->group[into], &reason))
		return reason ? planner_note(p, g->last, p->group[into].root, reason) : 0;
	before = p->group[into].kind != NODE_MAP && g->read_before_root;
	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
		p->node[m].prologue = before;
	if (!group_merge(p, &p->group[into], g))
		for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
			p->node[m].prologue = false;
	return 0;
}

/* What is read by another kernel, or through a view, must be in memory. */
static void store_crossing(struct planner *p) {
	for (uint32_t i = 0; i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		for (unsigned k = 0; node_is_computed(n) && k < n->arity; k++) {
			struct edge e = planner_edge(p, n, k);
			struct node *base = &p->node[e.base];

			if (node_is_computed(base) &&
				(!e.direct || group_find(p, base->group) != group_find(p, n->group)))
				base->stored = true;
		}
	}
}

struct ranked {
	uint32_t rank, group;
};

static int ranked_compare(const void *a, const void *b) {
	const struct ranked *x = a, *y = b;

	return x->rank != y->rank ? (x->rank < y->rank ? 1 : -1) : (x->group < y->group ? 1 : -1);
}

/* Consumers first, so that a chain of groups sinks as a whole. */
static int sink_all(struct planner *p) {
	struct ranked *order = arena_alloc(&p->arena, (p->groups + 1) * sizeof *order);
	int r = order ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < p->groups; i++)
		order[i] = (struct ranked){ p->group[i].rank, i };
	if (!r)
		qsort(order, p->groups, sizeof *order, ranked_compare);
	for (uint32_t i = 0; !r && i < p->groups; i++)
		r = sink(p, order[i].group);
	return r;
}

int planner_group(struct planner *p) {
	int r = 0;

	for (uint32_t i = 0; !r && i < p->nodes; i++)
		if (node_is_computed(&p->node[i]) && p->node[i].group == GROUP_NONE)
			r = join(p, i);
	if (!r)
		r = readers_find(p);
	if (!r)
		r = sink_all(p);
	if (!r)
		store_crossing(p);
	return r;
}

/* ---- shedding ---- */

/* So many members read and store at most 40 of KERNEL_OPERANDS arrays and 60 of KERNEL_SCALARS. */
enum { SHED_OPS = 10 };

static bool stays(const struct group *g, const struct node *n, uint32_t node) {
	return g->kind != NODE_MAP && (node == g->root || n->prologue);
}

/* Moves one member into the newest group, or into a new one where none is new or it is full. */
static int shed_member(struct planner *p, uint32_t old, bool fresh, uint32_t node) {
	struct group *g = &p->group[p->groups - 1];

	if (fresh || g->ops == SHED_OPS)
		return group_new(p, node, p->group[old].rank);
	member_add(p, g, node);
	return 0;
}

int planner_shed(struct planner *p, uint32_t group) {
	uint32_t next, m = p->group[group].first, before = p->groups;
	int r = 0;

	p->group[group].first = p->group[group].last = GRAPH_NONE;
	p->group[group].ops = p->group[group].outputs = 0;
	for (; !r && m != GRAPH_NONE; m = next) {
		next = p->next[m];
		if (stays(&p->group[group], &p->node[m], m))
			member_add(p, &p->group[group], m);
		else
			r = shed_member(p, group, p->groups == before, m);
	}
	if (!r)
		store_crossing(p);
	return r;
}

/*
 * Which nodes share a kernel.
 *
 * A group becomes one kernel. Groups carry a rank that is above the rank of every group they read
 * from; a path between groups strictly climbs, so two groups of one rank never depend on each
 * other, and a node may join a group exactly when everything else it reads has a lower rank. That
 * keeps the groups acyclic without a search: the pass is linear in the number of operands.
 *
 * join: nodes in topological order join the highest-ranked group that holds an operand they reach; what adds two products of one rank
 * up joins the one recorded last, whose rank is lifted above the other's as long as nobody reads it.
 * sink: then, consumers first, a group read by one group only is computed inside that group.
 *
 * A REDUCE group holds any number of reductions over the same rows, what is computed once an element
 * of a row (node->row) before, between and after them, and what is computed once a row.
 * What a pattern allows is said by rules/; this file keeps limits and order.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const struct plan_rule *const __start_plan_rules[];
extern const struct plan_rule *const __stop_plan_rules[];

uint32_t group_find(const struct planner *p, uint32_t group) {
	while (p->group[group].parent != group) {
		p->group[group].parent = p->group[p->group[group].parent].parent;
		group = p->group[group].parent;
	}
	return group;
}

static int add_note(struct planner *p, const struct plan_note *note) {
	struct plan *plan = p->plan;

	if (!p->o->notes)
		return 0;
	if (plan->notes == p->note_capacity) {
		uint32_t capacity = p->note_capacity ? p->note_capacity * 2 : 16;
		struct plan_note *list = realloc(plan->note, capacity * sizeof *list);

		if (!list)
			return -ENOMEM;
		plan->note = list;
		p->note_capacity = capacity;
	}
	plan->note[plan->notes++] = *note;
	return 0;
}

int planner_note(struct planner *p, uint32_t producer, uint32_t consumer, const char *reason) {
	return add_note(p, &(struct plan_note){ producer, consumer, reason, false });
}

int planner_note_beside(struct planner *p, uint32_t producer, uint32_t consumer, const char *reason) {
	return add_note(p, &(struct plan_note){ producer, consumer, reason, true });
}

uint32_t group_max_ops(const struct planner *p) {
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

static bool reach(const struct planner *p, const struct group *g, const struct node *n, unsigned i) {
	unsigned class = n->kind == NODE_REDUCE || n->row ? ROWS_CLASS_ROW : ROWS_CLASS_KEPT;
	uint32_t reduction = n->before ? g->before : n->after ? g->after : g->kind == NODE_REDUCE ? g->root : GRAPH_NONE;
	struct rows r;

	if (!n->before && p->node[planner_edge(p, n, i).base].before)
		return true;
	if (reduction == GRAPH_NONE)
		return planner_edge(p, n, i).direct;
	r = rows_of(p, &p->node[reduction]);
	return rows_reach(p, &r, n, class, i);
}

/* Does n read what a member of the group computes, in whatever way? */
static bool reads_group(struct planner *p, const struct node *n, unsigned i, uint32_t group) {
	const struct node *base = &p->node[planner_edge(p, n, i).base];

	return node_is_computed(base) && base->group != GROUP_NONE && group_find(p, base->group) == group;
}

bool group_inside(struct planner *p, uint32_t group, const struct node *n, unsigned i) {
	return reads_group(p, n, i, group) && reach(p, &p->group[group], n, i);
}

static bool in_group(const struct node *n) {
	return node_is_computed(n) && n->group != GROUP_NONE;
}

bool group_add_sources(struct planner *p, struct group *g, const struct node *n) {
	uint32_t before = g->sources;

	for (unsigned i = 0; i < n->arity; i++) {
		const struct node *base = &p->node[planner_edge(p, n, i).base];

		if (group_inside(p, (uint32_t)(g - p->group), n, i))
			continue;
		if (!add_source(g, planner_edge(p, n, i).node)) {
			g->sources = before;
			return false;
		}
		if (in_group(base))
			p->group[group_find(p, base->group)].read = true;
	}
	return true;
}

/* ---- groups ---- */

void group_add(struct planner *p, struct group *g, uint32_t node) {
	p->next[node] = GRAPH_NONE;
	if (g->first == GRAPH_NONE)
		g->first = node;
	else
		p->next[g->last] = node;
	g->last = node;
	g->ops++;
	g->outputs += p->node[node].stored;
	if (p->node[node].columns) {
		g->columns = p->node[node].columns;
		g->row_dims = p->node[node].row_dims;
	}
	p->node[node].group = (uint32_t)(g - p->group);
}

int group_new(struct planner *p, uint32_t node, uint32_t rank) {
	const struct node *n = &p->node[node];
	uint32_t group = p->groups;
	struct group *g;

	if (p->groups == p->group_capacity) {
		uint32_t capacity = p->group_capacity ? p->group_capacity * 2 : 32;

		g = realloc(p->group, capacity * sizeof *g);
		if (!g)
			return -ENOMEM;
		p->group = g;
		p->group_capacity = capacity;
	}
	p->group[group] = (struct group){
#define GROUP_FIELD(type, name, new, merged, doc) .name = (new),
#include "group.def"
#undef GROUP_FIELD
	};
	g = &p->group[group];
	p->groups++;
	group_add_sources(p, g, n);
	group_add(p, g, node);
	return 0;
}

/* What is stored in panels is computed panel by panel, with all else that its kernel computes. */
static bool layouts_agree(const struct group *a, const struct group *b) {
	if (!a->columns && !b->columns)
		return true;
	return a->kind == NODE_MAP && b->kind == NODE_MAP && (!a->columns || !b->columns ||
		(a->columns == b->columns && a->row_dims == b->row_dims));
}

/* What `from` reads from memory is read by `into`; false, and nothing has changed, where that is too much. */
static bool add_sources_of(struct planner *p, struct group *into, const struct group *from) {
	uint32_t before = into->sources;

	for (uint32_t i = 0; i < from->sources; i++) {
		const struct node *base = &p->node[p->node[from->source[i]].base];

		if (in_group(base) && &p->group[group_find(p, base->group)] == into)
			continue;
		if (!add_source(into, from->source[i])) {
			into->sources = before;
			return false;
		}
	}
	return true;
}

static struct group merged_fields(const struct group *into, const struct group *from) {
	struct group g = {
#define GROUP_FIELD(type, name, new, merged, doc) .name = (merged),
#include "group.def"
#undef GROUP_FIELD
	};

	memcpy(g.source, into->source, into->sources * sizeof *g.source);
	return g;
}

bool group_merge(struct planner *p, struct group *into, struct group *from) {
	if (into->ops + from->ops > group_max_ops(p) || !layouts_agree(into, from))
		return false;
	if (from->parts && from->rank != into->rank)
		return false;
	if (from->scores != GRAPH_NONE || from->before != GRAPH_NONE || from->after != GRAPH_NONE)
		return false;
	if (!add_sources_of(p, into, from))
		return false;
	p->next[from->last] = into->first;
	*into = merged_fields(into, from);
	from->parent = into->parent;
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
	const char *reason;

	if (!p->o->fuse)
		return "fusion is off";
	if ((uint64_t)shape_elements(n->type) < p->o->min_elements)
		return "below fusion.min_elements";
	if (g->ops >= group_max_ops(p))
		return "the kernel is full";
	reason = pattern_refuses(p, g, NULL, (uint32_t)(n - p->node));
	return reason ? reason : join_reason(p, g, n);
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

/* Once an element or once a row: where both are possible, as what n reads there is. */
static bool as_row(struct planner *p, uint32_t group, const struct node *n) {
	struct rows r = rows_of(p, &p->node[p->group[group].root]);
	unsigned classes = rows_classes(&r, n->space);

	if (n->kind != NODE_MAP || classes != (ROWS_CLASS_ROW | ROWS_CLASS_KEPT))
		return n->kind == NODE_MAP && classes == ROWS_CLASS_ROW;
	for (unsigned i = 0; i < n->arity; i++)
		if (reads_group(p, n, i, group) && p->node[planner_edge(p, n, i).base].row)
			return true;
	return false;
}

/* All that n reads of the group it reaches inside the kernel, and a pattern takes n; NULL, or why not. */
static const char *joins(struct planner *p, uint32_t group, struct node *n) {
	struct group *g = &p->group[group];

	n->row = g->kind == NODE_REDUCE && as_row(p, group, n);
	if (g->kind == NODE_REDUCE && n->kind == NODE_MAP && !n->row) {
		struct rows r = rows_of(p, &p->node[g->root]);

		if (!(rows_classes(&r, n->space) & ROWS_CLASS_KEPT))
			return "the shape is neither the rows' nor that of their results";
	}
	for (unsigned i = 0; i < n->arity; i++)
		if (reads_group(p, n, i, group) && !reach(p, g, n, i))
			return "it is read through a view";
	return join_limits(p, g, n);
}

static void set_rows(struct planner *p, const struct group *g, bool row) {
	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
		p->node[m].row = row;
}

/* Gives a MAP group's members their class in a group of reductions; false where they have none. */
static bool take_classes(struct planner *p, const struct group *g, const struct group *into, bool prefer_row) {
	struct rows r = rows_of(p, &p->node[into->root]);
	unsigned classes = rows_classes(&r, g->space);

	set_rows(p, g, classes == ROWS_CLASS_ROW || (classes != ROWS_CLASS_KEPT && prefer_row));
	return classes;
}

/* A group becomes part of a group of reductions. */
static bool merge_into_rows(struct planner *p, uint32_t into, uint32_t other, bool prefer_row) {
	struct rows r, o;

	if (p->group[other].kind == NODE_REDUCE) {
		r = rows_of(p, &p->node[p->group[into].root]);
		o = rows_of(p, &p->node[p->group[other].root]);
		return rows_same(&r, &o) && rows_pay(p, &r) && group_merge(p, &p->group[into], &p->group[other]);
	}
	if (take_classes(p, &p->group[other], &p->group[into], prefer_row) &&
		group_merge(p, &p->group[into], &p->group[other]))
		return true;
	set_rows(p, &p->group[other], false);
	return false;
}

/* Merges two groups of one rank that n reads; a root keeps its place. */
static bool merge_either(struct planner *p, uint32_t *foundp, uint32_t other, const struct node *n) {
	uint32_t into = *foundp;

	if (pattern_refuses(p, &p->group[other], &p->group[into], GRAPH_NONE) ||
		pattern_refuses(p, &p->group[other], &p->group[into], (uint32_t)(n - p->node)))
		return false;
	if (p->group[into].kind == NODE_MAP) {
		into = other;
		other = *foundp;
	}
	*foundp = into;
	if (p->group[other].kind != NODE_MAP && p->group[other].kind != NODE_REDUCE)
		return false;
	if (p->group[into].kind == NODE_REDUCE)
		return merge_into_rows(p, into, other, n->row);
	return p->group[other].kind == NODE_MAP && space_equal(p->group[into].space, p->group[other].space) &&
		group_merge(p, &p->group[into], &p->group[other]);
}

/* The next group of this rank that n reads, after operand *ip; GROUP_NONE at the end. */
static uint32_t next_group(struct planner *p, const struct node *n, uint32_t rank, unsigned *ip) {
	for (; *ip < n->arity; ++*ip) {
		const struct node *base = &p->node[planner_edge(p, n, *ip).base];
		uint32_t g;

		if (!node_is_computed(base) || base->group == GROUP_NONE)
			continue;
		g = group_find(p, base->group);
		if (p->group[g].rank == rank)
			return g;
	}
	return GROUP_NONE;
}

/* The product recorded last of those that n reads and no group does, or GROUP_NONE. */
static uint32_t unread_product(struct planner *p, const struct node *n) {
	uint32_t found = GROUP_NONE;

	for (unsigned i = 0; i < n->arity; i++) {
		const struct node *base = &p->node[planner_edge(p, n, i).base];
		uint32_t g = in_group(base) ? group_find(p, base->group) : GROUP_NONE;

		if (g == GROUP_NONE || p->group[g].read || p->group[g].parts)
			continue;
		if ((p->group[g].kind == NODE_MATMUL || p->group[g].kind == NODE_CONV) && (found == GROUP_NONE || g > found))
			found = g;
	}
	return found;
}

/*
 * Products that are added up: each takes the sum so far into its own kernel, so that neither it nor more than one sum is ever
 * stored beside it. Since no group reads the product, it may rank above all that n reads.
 */
static bool lift(struct planner *p, struct node *n, uint32_t rank, uint32_t *groupp) {
	uint32_t group = unread_product(p, n);

	if (group == GROUP_NONE || joins(p, group, n))
		return false;
	p->group[group].rank = rank + 1;
	p->group[group].lifted = true;
	*groupp = group;
	return true;
}

/*
 * The group n may join: it holds an operand, has the highest rank, and n reads nothing of
 * that rank another way. Groups of that rank that n connects are merged where rules and limits allow.
 */
static int candidate(struct planner *p, uint32_t node, uint32_t rank, uint32_t *groupp) {
	struct node *n = &p->node[node];
	uint32_t found = GROUP_NONE, g;
	const char *reason = NULL;
	bool apart = false;
	unsigned at = 0;

	*groupp = GROUP_NONE;
	for (unsigned i = 0; !reason && (g = next_group(p, n, rank, &i)) != GROUP_NONE; at = i++) {
		if (g == found)
			continue;
		if (n->kind == NODE_REDUCE && p->group[g].kind != NODE_REDUCE)
			return 0;
		reason = joins(p, g, n);
		apart = !reason && found != GROUP_NONE && !merge_either(p, &found, g, n);
		if (apart)
			reason = "two kernels it reads cannot be merged";
		found = found == GROUP_NONE ? g : found;
	}
	if ((apart || (found != GROUP_NONE && p->group[found].lifted)) && lift(p, n, rank, groupp))
		return 0;
	if (!reason)
		reason = joins(p, found, n);
	if (!reason) {
		*groupp = found;
		return 0;
	}
	n->row = false;
	return planner_note(p, planner_edge(p, n, at).base, node, reason);
}

static int join(struct planner *p, uint32_t node);

/* A factor that must lie otherwise is copied once: where it is computed, if its rows stay rows; else that may join the copy. */
static int place_factor(struct planner *p, uint32_t node, unsigned i) {
	uint32_t copy;
	int r = planner_add_factor(p, node, i, &copy);

	if (r || copy == GRAPH_NONE)
		return r;
	p->node[node].in[i] = copy;
	if (p->node[copy].group != GROUP_NONE)
		return 0;
	return p->node[copy].columns ? group_new(p, copy, highest_rank(p, &p->node[copy]) + 1) : join(p, copy);
}

/* The weights of a convolution are row-major. */
static bool lies_badly(const struct node *n, unsigned i, const struct node *in) {
	return n->kind == NODE_CONV && i == CONV_WEIGHT && !in->columns && !view_is_contiguous(in->type, &in->view);
}

/* Weights that a convolution reads in panels. */
static int place_filters(struct planner *p, uint32_t node) {
	uint32_t copy;
	int r = planner_add_filters(p, node, &copy);

	if (r || copy == GRAPH_NONE)
		return r;
	p->node[node].in[CONV_WEIGHT] = copy;
	return group_new(p, copy, highest_rank(p, &p->node[copy]) + 1);
}

/* What is gathered and all of a scatter or attention may lie anyhow, but must lie in memory. */
static int place_operand(struct planner *p, uint32_t node, unsigned i) {
	const struct node *in = &p->node[p->node[node].in[i]];
	uint32_t copy;
	int r;

	if (in->kind != NODE_FILL && in->kind != NODE_IOTA && !lies_badly(&p->node[node], i, in))
		return 0;
	r = planner_add_copy(p, p->node[node].in[i], &copy);
	if (r)
		return r;
	p->node[node].in[i] = copy;
	return group_new(p, copy, highest_rank(p, &p->node[copy]) + 1);
}

static bool reads_all_there(const struct node *n) {
	return n->kind == NODE_SCATTER || n->kind == NODE_ATTENTION || n->kind == NODE_CONV;
}

/* Another reduction of the same array over the same rows: together they read it once. */
static uint32_t sibling(struct planner *p, uint32_t node, uint32_t rank) {
	struct node *n = &p->node[node];
	uint32_t group = p->node[p->node[n->in[0]].base].reduced_by;

	if (n->kind != NODE_REDUCE || group == GROUP_NONE)
		return GROUP_NONE;
	group = group_find(p, group);
	return p->group[group].rank > rank && !joins(p, group, n) ? group : GROUP_NONE;
}

static void note_reduction(struct planner *p, uint32_t node) {
	const struct node *n = &p->node[node];

	if (n->kind == NODE_REDUCE)
		p->node[p->node[n->in[0]].base].reduced_by = n->group;
}

/* The parts first; the whole then ranks as the highest of them, and reads nothing itself. */
static int join_parts(struct planner *p, uint32_t node) {
	uint32_t first, count, rank = 0;
	int r = planner_add_parts(p, node, &first, &count);

	for (uint32_t i = first; !r && i < first + count; i++) {
		struct group *g;

		if (!node_is_computed(&p->node[i]))
			continue;
		r = join(p, i);
		if (r)
			return r;
		g = &p->group[group_find(p, p->node[i].group)];
		g->parts = true;
		rank = g->rank > rank ? g->rank : rank;
	}
	p->node[node].arity = 0;
	return r ? r : group_new(p, node, rank);
}

/*
 * Convolutions and attentions stand so much higher that what follows them may also read what is computed besides, such
 * as the root of a variance: a chain of up to so many groups.
 */
enum { GROUP_LEAD = 8 };

static uint32_t lead_of(const struct node *n) {
	return n->kind == NODE_CONV || n->kind == NODE_ATTENTION ? GROUP_LEAD : 0;
}

static int join(struct planner *p, uint32_t node) {
	uint32_t rank, group = GROUP_NONE;
	int r = 0;

	if (p->node[node].kind == NODE_PARTS)
		return join_parts(p, node);

	if (op_gathers(p->node[node].op))
		r = place_operand(p, node, 0);
	if (!r && p->node[node].kind == NODE_CONV)
		r = place_filters(p, node);
	for (unsigned i = 0; !r && reads_all_there(&p->node[node]) && i < p->node[node].arity; i++)
		r = place_operand(p, node, i);
	for (unsigned i = 0; !r && p->node[node].kind == NODE_MATMUL && i < 2; i++)
		r = place_factor(p, node, i);
	rank = highest_rank(p, &p->node[node]);
	if (!r && (p->node[node].kind == NODE_MAP || p->node[node].kind == NODE_REDUCE) && rank)
		r = candidate(p, node, rank, &group);
	if (r)
		return r;
	if (group == GROUP_NONE)
		group = sibling(p, node, rank);
	if (group == GROUP_NONE || !group_add_sources(p, &p->group[group], &p->node[node])) {
		p->node[node].row = false;
		/* Asked again: what it reads may have been lifted for it, and still had no room. */
		rank = highest_rank(p, &p->node[node]);
		r = group_new(p, node, rank + 1 + lead_of(&p->node[node]));
	} else {
		group_add(p, &p->group[group], node);
	}
	note_reduction(p, node);
	return r;
}

/* ---- sink ---- */

int planner_find_readers(struct planner *p) {
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

/* The only other group that reads g; GROUP_NONE where there is none or more than one. */
static uint32_t only_reader(struct planner *p, const struct group *g) {
	uint32_t self = (uint32_t)(g - p->group), found = GROUP_NONE;

	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
		for (uint32_t i = p->reader_start[m]; i < p->reader_start[m + 1]; i++) {
			uint32_t other = group_find(p, p->node[p->reader[i]].group);

			if (other == self)
				continue;
			if (found != GROUP_NONE && other != found)
				return GROUP_NONE;
			found = other;
		}
	return found;
}

/* How `into` reads g: once an element, once a row, or both. */
static void find_reads(struct planner *p, uint32_t group, uint32_t into) {
	struct group *g = &p->group[group];

	g->read_by_rows = g->read_by_kept = false;
	for (uint32_t m = p->group[into].first; m != GRAPH_NONE; m = p->next[m]) {
		const struct node *n = &p->node[m];

		for (unsigned k = 0; k < n->arity; k++) {
			bool rows = n->kind == NODE_REDUCE || node_is_product(n) || n->row;

			if (!reads_group(p, n, k, group))
				continue;
			g->read_by_rows |= rows;
			g->read_by_kept |= !rows;
		}
	}
}

/* Would all that `into` reads of g be reached, were g computed inside it? */
static bool all_reach(struct planner *p, uint32_t group, uint32_t into) {
	for (uint32_t m = p->group[into].first; m != GRAPH_NONE; m = p->next[m])
		for (unsigned k = 0; k < p->node[m].arity; k++)
			if (reads_group(p, &p->node[m], k, group) && !reach(p, &p->group[into], &p->node[m], k))
				return false;
	return true;
}

static bool sink_allowed(struct planner *p, const struct group *g, const struct group *into,
	const char **reasonp) {
	if (!p->o->fuse || (uint64_t)shape_elements(into->space) < p->o->min_elements)
		return false;
	*reasonp = pattern_refuses(p, g, into, GRAPH_NONE);
	if (*reasonp)
		return false;
	for (const struct plan_rule *const *r = __start_plan_rules; r < __stop_plan_rules; r++)
		if ((*r)->sink && (*r)->sink(p, g, into, reasonp))
			return true;
	return false;
}

bool rule_joins(const struct group *g, const struct node *n, unsigned root, const char *why, const char **reasonp) {
	if (g->kind != root || n->kind != NODE_MAP)
		return false;
	*reasonp = why;
	return space_equal(g->space, n->space);
}

bool rule_sinks(const struct group *g, const struct group *into, unsigned root, const char *why, const char **reasonp) {
	if (into->kind != root || g->kind != NODE_MAP)
		return false;
	*reasonp = why;
	return space_equal(g->space, into->space);
}

const char *group_sink(struct planner *p, uint32_t group, uint32_t into) {
	struct group *g = &p->group[group];
	const char *reason = NULL;

	find_reads(p, group, into);
	if (g->kind == NODE_MAP && p->group[into].kind == NODE_REDUCE &&
		!take_classes(p, g, &p->group[into], g->read_by_rows))
		reason = "the shape is neither the rows' nor that of their results";
	else if (p->group[into].kind == NODE_MATMUL && g->read_by_rows)
		reason = "";               /* a factor: before.c looks at that */
	else if (!all_reach(p, group, into))
		reason = "it is read through a view";
	else if (sink_allowed(p, g, &p->group[into], &reason)) {
		if (group_merge(p, &p->group[into], g))
			return NULL;
		reason = "the kernel is full";
	}
	if (g->kind == NODE_MAP)
		set_rows(p, g, false);
	return reason ? reason : "";
}

static int sink(struct planner *p, uint32_t group) {
	struct group *g = &p->group[group];
	const char *reason;
	uint32_t into;

	if (g->parent != group || g->parts || (g->kind != NODE_MAP && g->kind != NODE_REDUCE))
		return 0;
	into = only_reader(p, g);
	reason = into == GROUP_NONE ? NULL : group_sink(p, group, into);
	return reason && *reason ? planner_note(p, g->last, p->group[into].root, reason) : 0;
}

/* What is read by another kernel, or through a view, must be in memory. */
static void store_crossing(struct planner *p) {
	for (uint32_t i = 0; i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		for (unsigned k = 0; node_is_computed(n) && k < n->arity; k++) {
			struct node *base = &p->node[planner_edge(p, n, k).base];

			if (node_is_computed(base) && !group_inside(p, group_find(p, n->group), n, k))
				base->stored = true;
		}
	}
}

static int ranked_compare(const void *a, const void *b) {
	const struct ranked *x = a, *y = b;

	return x->rank != y->rank ? (x->rank > y->rank ? 1 : -1) : (x->group > y->group ? 1 : -1);
}

void ranked_sort(struct ranked *order, uint32_t count) {
	qsort(order, count, sizeof *order, ranked_compare);
}

/* Consumers first, so that a chain of groups sinks as a whole. */
int planner_sink(struct planner *p) {
	struct ranked *order = arena_alloc(&p->arena, (p->groups + 1) * sizeof *order);
	int r = order ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < p->groups; i++)
		order[i] = (struct ranked){ p->group[i].rank, i };
	if (!r)
		ranked_sort(order, p->groups);
	for (uint32_t i = p->groups; !r && i-- > 0;)
		r = sink(p, order[i].group);
	return r;
}

int planner_join(struct planner *p) {
	int r = 0;

	for (uint32_t i = 0; !r && i < p->nodes; i++)
		if (node_is_computed(&p->node[i]) && p->node[i].group == GROUP_NONE)
			r = join(p, i);
	return r;
}

int planner_store(struct planner *p) {
	store_crossing(p);
	return 0;
}

/* ---- shedding ---- */

/* So many members read and store at most 40 of KERNEL_OPERANDS arrays and 60 of KERNEL_SCALARS. */
enum { SHED_OPS = 10 };

bool group_needs_rows(struct planner *p, uint32_t group) {
	uint32_t reductions = 0;

	for (uint32_t m = p->group[group].first; m != GRAPH_NONE; m = p->next[m]) {
		const struct node *n = &p->node[m];

		reductions += n->kind == NODE_REDUCE;
		if (reductions > 1 || (n->row && n->stored))
			return true;
		for (unsigned i = 0; (n->row || n->kind == NODE_REDUCE) && i < n->arity; i++)
			if (group_inside(p, group, n, i) && !p->node[planner_edge(p, n, i).base].row)
				return true;
	}
	return false;
}

/* May the member follow in the newest group? */
static bool shed_follows(const struct group *g, const struct node *n) {
	return g->kind == NODE_MAP && n->kind == NODE_MAP && g->ops < SHED_OPS && space_equal(g->space, n->space);
}

/* Moves one member into the newest group, or into a new one where it does not fit: products and reductions are taken apart wholly. */
static int shed_member(struct planner *p, uint32_t old, bool fresh, uint32_t node) {
	struct group *g = &p->group[p->groups - 1];
	struct node *n = &p->node[node];

	n->row = n->before = n->after = false;
	if (fresh || !shed_follows(g, n) || pattern_refuses(p, g, NULL, node) || !group_add_sources(p, g, n))
		return group_new(p, node, p->group[old].rank);
	group_add(p, g, node);
	return 0;
}

int planner_shed(struct planner *p, uint32_t group) {
	uint32_t next, m = p->group[group].first, before = p->groups;
	int r = 0;

	p->group[group].first = p->group[group].last = GRAPH_NONE;
	p->group[group].ops = p->group[group].outputs = 0;
	for (; !r && m != GRAPH_NONE; m = next) {
		next = p->next[m];
		r = shed_member(p, group, p->groups == before, m);
	}
	if (!r)
		store_crossing(p);
	return r;
}

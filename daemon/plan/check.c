/*
 * What must hold after each of the planner's passes.
 *
 * A pass that breaks one of these rules has a defect; what follows would read memory that is not there, or launch kernels
 * in a circle. So each is looked at when its pass has ended, in time that grows with nodes and operands alone: NULL, or the
 * rule that is broken. plan_make() then plans the graph again, one kernel an operation.
 *
 * Nothing is believed here that a pass could have got wrong: numbers are compared with their bounds before they are used.
 */
#include "planner.h"

#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

/* The places of memory that a view leads to, from the first one of what it is of. */
struct span {
	int64_t low, high;
};

/* Of an array that has elements; strides are not believed. False where they lead too far to be counted. */
static bool span_of(const int64_t *dims, const int64_t *stride, unsigned rank, int64_t offset, struct span *s) {
	s->low = s->high = offset;
	for (unsigned d = 0; d < rank; d++) {
		int64_t far;

		if (__builtin_mul_overflow(dims[d] - 1, stride[d], &far) ||
			__builtin_add_overflow(far < 0 ? s->low : s->high, far, far < 0 ? &s->low : &s->high))
			return false;
	}
	return true;
}

static bool span_inside(const struct span *s, const struct span *all) {
	return s->low >= all->low && s->high <= all->high;
}

static bool view_span(const struct tensor_type *t, const struct view *v, struct span *s) {
	return span_of(t->dims, v->stride, t->rank, v->offset, s);
}

/* Where what a view is of lies. */
static bool base_span(const struct node *base, struct span *s) {
	if (base->kind == NODE_LEAF)
		return view_span(base->type, &base->view, s);
	*s = (struct span){ 0, shape_elements(base->type) - 1 };
	return true;
}

/* What somebody reads: a node in memory, computed, or a view of one. */
static const char *check_read(const struct planner *p, uint32_t node) {
	const struct node *n = &p->node[node];
	struct span s, all;

	if (node >= p->nodes || n->kind == NODE_DEAD)
		return "an operand is a node that is needed";
	if (n->kind == NODE_FILL)
		return NULL;
	if (n->base >= p->nodes || p->node[n->base].base != n->base || (node_is_computed(n) && n->base != node))
		return "what a view is of is no view";
	if (p->node[n->base].kind == NODE_DEAD)
		return "what a view is of is a node that is needed";
	if (node_is_computed(n) || !shape_elements(n->type))
		return NULL;
	if (!view_span(n->type, &n->view, &s) || !base_span(&p->node[n->base], &all) || !span_inside(&s, &all))
		return "a view leads to places of what it is of";
	return NULL;
}

static const char *check_walked(const struct planner *p, const struct node *n, unsigned i) {
	struct tensor_type t;
	struct view v;

	return planner_seen(p, n, i, &t, &v) ? NULL : "an operand has strides over what its reader is computed over";
}

const char *check_resolved(struct planner *p) {
	const char *broken = NULL;

	for (uint32_t i = 0; !broken && i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		if (!node_is_computed(n))
			continue;
		if (n->arity > LIMIT_OPERANDS)
			return "an operation has no more operands than there may be";
		broken = check_read(p, i);
		for (unsigned k = 0; !broken && k < n->arity; k++) {
			broken = check_read(p, n->in[k]);
			if (!broken)
				broken = check_walked(p, n, k);
		}
	}
	return broken;
}

/* ---- groups ---- */

static const char *check_parents(const struct planner *p) {
	for (uint32_t i = 0; i < p->groups; i++) {
		uint32_t at = i, steps = 0;

		while (p->group[at].parent < p->groups && p->group[at].parent != at && steps++ < p->groups)
			at = p->group[at].parent;
		if (p->group[at].parent != at)
			return "a group became part of one that stands";
	}
	return NULL;
}

/* Writes where each member stands in its group's list, from 1 on. */
static const char *check_list(struct planner *p, uint32_t group, uint32_t *place) {
	const struct group *g = &p->group[group];
	uint32_t count = 0;

	for (uint32_t m = g->first; g->ops && m != GRAPH_NONE; m = p->next[m]) {
		if (m >= p->nodes || place[m] || p->node[m].group >= p->groups || group_find(p, p->node[m].group) != group)
			return "a member is one of its own group, once";
		place[m] = ++count;
	}
	return count == g->ops ? NULL : "a group has as many members as it counts";
}

static const char *check_members(struct planner *p, uint32_t *place) {
	const char *broken = NULL;

	for (uint32_t g = 0; !broken && g < p->groups; g++)
		if (p->group[g].parent == g)
			broken = check_list(p, g, place);
	for (uint32_t i = 0; !broken && i < p->nodes; i++)
		if (node_is_computed(&p->node[i]) && !place[i])
			broken = "an operation is a member of a group";
	return broken;
}

static bool has_source(const struct group *g, uint32_t node) {
	for (uint32_t i = 0; i < g->sources; i++)
		if (g->source[i] == node)
			return true;
	return false;
}

/* What operand k is a view of, as planner_edge() has it, without its other questions. */
static uint32_t base_of(const struct planner *p, const struct node *n, unsigned k) {
	const struct node *in = &p->node[n->in[k]];

	return in->kind == NODE_FILL || in->kind == NODE_IOTA ? n->in[k] : in->base;
}

/* `joining`: no group has sunk into another one. */
static const char *check_edge(struct planner *p, const struct node *n, uint32_t group, unsigned k, const uint32_t *place, bool joining) {
	const struct group *g = &p->group[group];
	uint32_t base = n->in[k] < p->nodes ? base_of(p, n, k) : GRAPH_NONE, from;

	if (base >= p->nodes || p->node[base].kind == NODE_DEAD)
		return "an operand is a node that is needed";
	from = node_is_computed(&p->node[base]) ? group_find(p, p->node[base].group) : GROUP_NONE;
	if (from == group)
		return place[base] < place[n - p->node] ? NULL : "what a member reads stands before it";
	if (!has_source(g, n->in[k]))
		return "what a group reads is among its sources";
	if (from == GROUP_NONE)
		return NULL;
	if (p->group[from].rank >= g->rank)
		return "a group ranks above those it reads";
	return p->group[from].read || !joining ? NULL : "a group that another one reads is marked so";
}

static const char *check_whole(struct planner *p, const struct node *n) {
	if (n->whole >= p->nodes)
		return "a part is of a whole";
	if (p->group[group_find(p, n->group)].rank > p->group[group_find(p, p->node[n->whole].group)].rank)
		return "a whole ranks with its parts, or above them";
	return NULL;
}

static const char *check_edges(struct planner *p, const uint32_t *place, bool joining) {
	const char *broken = NULL;

	for (uint32_t i = 0; !broken && i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		if (!node_is_computed(n))
			continue;
		for (unsigned k = 0; !broken && k < n->arity; k++)
			broken = check_edge(p, n, group_find(p, n->group), k, place, joining);
		if (!broken && n->whole != GRAPH_NONE)
			broken = check_whole(p, n);
	}
	return broken;
}

static const char *check_all(struct planner *p, bool joining) {
	uint32_t *place = arena_alloc(&p->arena, (p->nodes + 1) * sizeof *place);
	const char *broken;

	if (!place)
		return NULL;               /* without memory: whoever needs some next will say so */
	broken = check_parents(p);
	if (!broken)
		broken = check_members(p, place);
	return broken ? broken : check_edges(p, place, joining);
}

const char *check_groups(struct planner *p) {
	return check_all(p, false);
}

const char *check_joined(struct planner *p) {
	const char *broken = check_resolved(p);

	return broken ? broken : check_all(p, true);
}

const char *check_readers(struct planner *p) {
	uint32_t edges = 0;

	for (uint32_t i = 0; i < p->nodes; i++) {
		edges += node_is_computed(&p->node[i]) ? p->node[i].arity : 0;
		for (uint32_t r = p->reader_start[i]; r < p->reader_start[i + 1]; r++) {
			bool reads = false;

			for (unsigned k = 0; p->reader[r] < p->nodes && k < p->node[p->reader[r]].arity; k++)
				reads |= base_of(p, &p->node[p->reader[r]], k) == i;
			if (!reads)
				return "a reader of a node reads it";
		}
	}
	return p->reader_start[p->nodes] == edges ? NULL : "each operand counts as a reader of its node";
}

const char *check_stored(struct planner *p) {
	const char *broken = check_resolved(p);

	for (uint32_t i = 0; !broken && i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		for (unsigned k = 0; node_is_computed(n) && k < n->arity; k++) {
			const struct node *base = &p->node[base_of(p, n, k)];
			uint32_t group = group_find(p, n->group);

			if (!node_is_computed(base) || group_inside(p, group, n, k))
				continue;
			if (group_find(p, base->group) == group)
				broken = "a kernel does not read from memory what it computes itself";
			else if (!base->stored)
				broken = "what another kernel reads is stored";
		}
	}
	for (uint32_t i = 0; !broken && i < p->groups; i++)
		if (p->group[i].parent == i && p->group[i].ops && pairs_refuse(p, &p->group[i], NULL, GRAPH_NONE))
			broken = "what fusion.apart names is in kernels of its own";
	return broken;
}

/* ---- plans ---- */

/*
 * Which operands are walked by the kernel's dims alone: not those in memory to work in or in panels, and not those of blocks,
 * whose last one is shorter, of sorts and scatters, which have an axis of their own.
 */
static bool walks_plainly(const struct kernel *k, unsigned operand) {
	if (k->root == KERNEL_SORT || k->root == KERNEL_SCATTER || k->block_dim != 0xff || kernel_works_in(k, operand))
		return false;
	if (k->scored && (operand == SCORES_LEFT || operand == SCORES_RIGHT))
		return false;
	return !(k->packed && operand == 1);
}

/* How many of the kernel's dims an operand is walked along: what is used once a row is not walked along it, whatever its strides are. */
static unsigned walked_dims(const struct kernel *k, unsigned operand) {
	const struct kernel_operand *o = &k->operand[operand];
	bool kept = k->root == KERNEL_REDUCE && o->output;

	if (k->root == KERNEL_ROWS && o->output)
		kept = k->value[o->value].space == KERNEL_SPACE_KEPT;
	for (unsigned i = 0; k->root == KERNEL_ROWS && !o->output && i < k->values; i++)
		if (kernel_value_loads(&k->value[i]) && k->value[i].index == operand)
			kept = k->value[i].space == KERNEL_SPACE_KEPT;
	return kept ? k->kept : k->rank;
}

/* The constant that a value is; false where it is none of the plan's. */
static bool constant_of(const struct plan *p, const struct plan_step *s, uint16_t value, int64_t *numberp) {
	const struct kernel_value *v = &s->kernel->value[value];
	uint32_t number;

	if (value >= s->kernel->values || v->kind != KERNEL_SCALAR || v->index >= s->kernel->scalars)
		return false;
	number = s->scalar[v->index];
	if (number < p->scalars || number - p->scalars >= p->constants)
		return false;
	*numberp = (int64_t)p->constant[number - p->scalars];
	return true;
}

/* With the axis along which something is gathered, by an index that the kernel compares with its extent. */
static bool gathered_span(const struct plan *p, const struct plan_step *s, unsigned operand, struct span *reach) {
	for (unsigned i = 0; i < s->kernel->values; i++) {
		const struct kernel_value *v = &s->kernel->value[i];
		struct span axis;
		int64_t extent, stride;

		if (!kernel_value_gathers(v) || v->index != operand)
			continue;
		if (!constant_of(p, s, v->arg[1], &extent) || !constant_of(p, s, v->arg[2], &stride) || extent < 1)
			return false;
		if (!span_of(&extent, &stride, 1, 0, &axis))
			return false;
		reach->low += axis.low;
		reach->high += axis.high;
	}
	return true;
}

static const char *check_reach(const struct plan *p, const struct plan_step *s, unsigned o, const struct span *leaf) {
	const struct plan_operand *operand = &s->operand[o];
	unsigned bytes = dtype_info(s->kernel->operand[o].dtype)->bytes;
	struct span reach, all = { 0, (int64_t)(p->slot[operand->slot].bytes / bytes) - 1 };

	if (!walks_plainly(s->kernel, o))
		return NULL;
	if (operand->slot < p->leaves && !leaf)
		return NULL;
	if (operand->slot < p->leaves)
		all = leaf[operand->slot];
	if (!span_of(s->dims, operand->stride, walked_dims(s->kernel, o), operand->offset, &reach) || !gathered_span(p, s, o, &reach) ||
		!span_inside(&reach, &all))
		return "an operand lies within its memory";
	return NULL;
}

static const char *check_operands(const struct plan *p, const struct plan_step *s, bool *written, const struct span *leaf) {
	const struct kernel *k = s->kernel;
	const char *broken = NULL;

	for (unsigned o = 0; !broken && o < k->operands; o++) {
		uint32_t slot = s->operand[o].slot;

		if (k->operand[o].iota)
			continue;
		if (slot >= p->slots)
			return "an operand has memory";
		if (k->operand[o].output ? slot < p->leaves : slot >= p->leaves && !written[slot])
			return k->operand[o].output ? "a kernel writes to no leaf" : "a kernel reads what one before it has written";
		broken = check_reach(p, s, o, leaf);
	}
	for (unsigned o = 0; !broken && o < k->operands; o++)
		if (k->operand[o].output)
			written[s->operand[o].slot] = true;
	return broken;
}

static const char *check_step(const struct plan *p, const struct plan_step *s, bool *written, const struct span *leaf) {
	const struct kernel *k = s->kernel;

	if (k->rank > KERNEL_RANK || k->operands > KERNEL_OPERANDS || k->values > KERNEL_VALUES || k->scalars > KERNEL_SCALARS)
		return "a kernel has no more of anything than there may be";
	for (unsigned d = 0; d < k->rank; d++)
		if (s->dims[d] < 1)
			return "a kernel has something to do";
	for (unsigned i = 0; i < k->scalars; i++)
		if (s->scalar[i] >= p->scalars + p->constants)
			return "a number of a kernel is one of the graph's or of the plan's";
	return check_operands(p, s, written, leaf);
}

static const char *check_outputs(const struct plan *p, const bool *written, const struct span *leaf) {
	for (uint32_t i = 0; i < p->outputs; i++) {
		const struct plan_output *o = &p->output[i];
		struct span s, all;

		if (o->slot >= p->slots)
			return "a result has memory";
		if (!shape_elements(&o->type))
			continue;
		if (o->slot < p->leaves && !leaf)
			continue;
		if (o->slot >= p->leaves && !written[o->slot])
			return "a result is written";
		all = (struct span){ 0, (int64_t)(p->slot[o->slot].bytes / dtype_info(o->type.dtype)->bytes) - 1 };
		if (o->slot < p->leaves)
			all = leaf[o->slot];
		if (!view_span(&o->type, &o->view, &s) || !span_inside(&s, &all))
			return "a result lies within its memory";
	}
	return NULL;
}

/* Memory that is taken over was read for the last time by the step that writes it anew. */
static const char *check_reuse(const struct plan *p) {
	for (uint32_t i = 0; i < p->slots; i++) {
		uint32_t from = p->slot[i].reuse;

		if (from == PLAN_NONE)
			continue;
		if (from >= p->slots || from < p->leaves || from == i || p->slot[from].output || p->slot[i].output ||
			p->slot[from].bytes != p->slot[i].bytes || p->slot[from].last != p->slot[i].first)
			return "memory is taken over from what is not needed any more";
	}
	return NULL;
}

static const char *find_leaves(const struct plan *p, const struct graph *g, struct span *leaf) {
	for (uint32_t i = 0; i < p->leaves; i++) {
		const struct graph_leaf *l = graph_leaf_at(g, i);
		struct view v = l->view;

		v.offset = 0;
		if (!view_span(&graph_node(g, l->node)->type, &v, &leaf[i]))
			return "a leaf lies in memory";
	}
	return NULL;
}

const char *plan_broken(const struct plan *p, const struct graph *g) {
	bool *written = calloc(p->slots + 1, sizeof *written);
	struct span *leaf = calloc(p->leaves + 1, sizeof *leaf);
	const char *broken = NULL;

	/* Without memory: whoever needs some next will say so. */
	if (written && leaf) {
		broken = g ? find_leaves(p, g, leaf) : NULL;
		for (uint32_t i = 0; !broken && i < p->steps; i++)
			broken = check_step(p, &p->step[i], written, g ? leaf : NULL);
		if (!broken)
			broken = check_outputs(p, written, g ? leaf : NULL);
		if (!broken)
			broken = check_reuse(p);
	}
	free(written);
	free(leaf);
	return broken;
}

const char *check_plan(struct planner *p) {
	return plan_broken(p->plan, p->g);
}

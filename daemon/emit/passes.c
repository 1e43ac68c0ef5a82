/*
 * Passes over the rows of a kernel.
 *
 * A reduction is known when the pass that accumulates it ends, so a value can be computed in the pass that
 * comes after as many others as there are reductions one upon the other below it. Pass p accumulates
 * all reductions whose argument is known by then, and stores all outputs that are.
 *
 * A row value that several passes need is computed again in each, because what it is made of lies in the
 * cache; where computing is dear it is held: put into memory of the work-item in the first of
 * the passes and taken from there in the others.
 */
#include "writer.h"

#include "daemon/plan/knobs.h"

#include <string.h>

enum {
	/* Costs are in elementwise instructions. From here on a value is held: that costs a store and loads.
	 */
	COST_HELD = 8,
	COST_CHEAP = 1,
	/* Not held in an output that is stored past the caches: writing and reading that costs as much. */
	COST_MODERATE = 8,
	/* Everything that is not in the table below. */
	COST_DEAR = 16,
	/* One load a lane. */
	COST_GATHER = 16,
	COST_LOAD = 1,
};

/* Operations of few instructions. */
static const uint16_t cheap[] = {
	OP_abs,
	OP_neg,
	OP_sign,
	OP_square,
	OP_relu,
	OP_floor,
	OP_ceil,
	OP_round,
	OP_trunc,
	OP_isnan,
	OP_isinf,
	OP_isfinite,
	OP_logical_not,
	OP_bitwise_not,
	OP_add,
	OP_sub,
	OP_mul,
	OP_maximum,
	OP_minimum,
	OP_copysign,
	OP_eq,
	OP_ne,
	OP_lt,
	OP_le,
	OP_gt,
	OP_ge,
	OP_logical_and,
	OP_logical_or,
	OP_logical_xor,
	OP_bitwise_and,
	OP_bitwise_or,
	OP_bitwise_xor,
	OP_leaky_relu,
	OP_where,
	OP_clamp,
	OP_fma,
	OP_lerp,
	OP_cast,
	OP_copy,
};

/* One or two dozens of instructions. */
static const uint16_t moderate[] = {
	OP_exp,
	OP_exp2,
	OP_div,
	OP_reciprocal,
	OP_sqrt,
	OP_rsqrt,
};

static unsigned cost_of_op(unsigned op) {
	for (size_t i = 0; i < sizeof cheap / sizeof *cheap; i++)
		if (cheap[i] == op)
			return COST_CHEAP;
	for (size_t i = 0; i < sizeof moderate / sizeof *moderate; i++)
		if (moderate[i] == op)
			return COST_MODERATE;
	return COST_DEAR;
}

void passes_hold(const struct writer *w, const struct passes *p, unsigned pass, bool *hold) {
	for (unsigned v = 0; v < w->k->values; v++)
		hold[v] = p->held[v] && w->k->value[v].space == KERNEL_SPACE_ROW && p->first[v] == pass;
}

void passes_held(const struct writer *w, const struct passes *p, unsigned pass, bool *held) {
	for (unsigned v = 0; v < w->k->values; v++)
		held[v] = p->held[v] && (w->k->value[v].space == KERNEL_SPACE_KEPT || p->first[v] < pass);
}

void passes_kept_held(const struct writer *w, const struct passes *p, unsigned pass, bool *held) {
	for (unsigned v = 0; v < w->k->values; v++)
		held[v] = p->held[v] && w->k->value[v].space == KERNEL_SPACE_KEPT && p->depth[v] < pass;
}

/* ---- depths ---- */

static void find_depths(const struct writer *w, struct passes *p) {
	const struct kernel *k = w->k;

	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];

		p->depth[v] = 0;
		for (unsigned i = 0; i < kernel_value_args(value); i++)
			if (p->depth[value->arg[i]] > p->depth[v])
				p->depth[v] = p->depth[value->arg[i]];
		p->depth[v] += value->kind == KERNEL_REDUCED;
	}
}

bool passes_reduces(const struct writer *w, const struct passes *p, unsigned pass, unsigned v) {
	return w->outer.value[v] && w->k->value[v].kind == KERNEL_REDUCED && p->depth[v] == pass + 1;
}

/* Is operand o an output of this space that is known in this pass? */
static bool is_stored(
	const struct kernel *k, const struct passes *p, unsigned pass, unsigned space, unsigned o) {
	unsigned v = k->operand[o].value;

	return k->operand[o].output && k->value[v].space == space && p->depth[v] == pass;
}

static unsigned count_passes(const struct writer *w, const struct passes *p) {
	const struct kernel *k = w->k;
	unsigned count = 0;

	for (unsigned v = 0; v < k->values; v++)
		if (w->outer.value[v] && p->depth[v] > count)
			count = p->depth[v];
	for (unsigned o = 0; o < k->operands; o++)
		if (is_stored(k, p, count, KERNEL_SPACE_ROW, o))
			return count + 1;
	return count;
}

/* ---- needs ---- */

/* Adds the arguments of what is needed and not held, and what it is read from or held in. */
static void close_needs(const struct kernel *k, const struct passes *p, const bool *held, struct needs *n) {
	for (unsigned v = k->values; v-- > 0;) {
		const struct kernel_value *value = &k->value[v];

		if (n->value[v] && p->held[v] && p->home[v] != KERNEL_NONE)
			n->operand[p->home[v]] = true;
		if (!n->value[v] || held[v])
			continue;
		if (kernel_value_loads(value))
			n->operand[value->index] = true;
		for (unsigned i = 0; value->kind != KERNEL_REDUCED && i < kernel_value_args(value); i++)
			n->value[value->arg[i]] = true;
	}
}

static void need_outputs(
	const struct kernel *k, const struct passes *p, unsigned pass, unsigned space, struct needs *n) {
	for (unsigned o = 0; o < k->operands; o++)
		if (is_stored(k, p, pass, space, o)) {
			n->operand[o] = true;
			n->value[k->operand[o].value] = true;
		}
}

void passes_needs(const struct writer *w, const struct passes *p, unsigned pass, struct needs *n) {
	bool held[KERNEL_VALUES];

	passes_held(w, p, pass, held);
	memset(n, 0, sizeof *n);
	need_outputs(w->k, p, pass, KERNEL_SPACE_ROW, n);
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, p, pass, v))
			n->value[w->k->value[v].arg[0]] = true;
	close_needs(w->k, p, held, n);
}

void passes_kept_needs(const struct writer *w, const struct passes *p, unsigned pass, struct needs *n) {
	bool held[KERNEL_VALUES];

	passes_kept_held(w, p, pass, held);
	memset(n, 0, sizeof *n);
	need_outputs(w->k, p, pass, KERNEL_SPACE_KEPT, n);
	for (unsigned v = 0; v < w->k->values; v++)
		if (p->held[v] && w->k->value[v].space == KERNEL_SPACE_KEPT && p->depth[v] == pass)
			n->value[v] = true;
	close_needs(w->k, p, held, n);
}

/* ---- what is held ---- */

/* What it costs to compute each row value in a pass. */
static void find_costs(const struct kernel *k, const bool *held, unsigned *cost) {
	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];

		cost[v] = 0;
		if (value->space == KERNEL_SPACE_KEPT || held[v])
			continue;
		if (value->kind == KERNEL_LOAD)
			cost[v] = k->operand[value->index].access == KERNEL_STRIDED ? COST_GATHER : COST_LOAD;
		if (value->kind != KERNEL_OP && !kernel_value_gathers(value))
			continue;
		cost[v] = value->kind == KERNEL_OP ? cost_of_op(value->op) : COST_GATHER;
		for (unsigned i = 0; i < kernel_value_args(value); i++)
			cost[v] += cost[value->arg[i]];
		/* Counted more than once, a shared argument could else double at every use. */
		if (cost[v] > COST_DEAR)
			cost[v] = COST_DEAR;
	}
}

/* An output that a row value can be held in: one that holds it anyway, or that is stored in the last pass. */
static unsigned find_home(const struct kernel *k, const struct passes *p, unsigned v, unsigned cost) {
	for (unsigned o = 0; o < k->operands; o++) {
		const struct kernel_operand *operand = &k->operand[o];
		bool taken = false;

		if (!is_stored(k, p, p->count - 1, KERNEL_SPACE_ROW, o) && operand->value != v)
			continue;
		if (operand->stream && operand->value != v && cost < COST_DEAR)
			continue;
		for (unsigned u = 0; u < k->values; u++)
			taken = taken || (p->held[u] && p->home[u] == o);
		if (operand->output && operand->dtype == k->value[v].dtype &&
			operand->access == KERNEL_CONTIGUOUS && !taken)
			return o;
	}
	return KERNEL_NONE;
}

struct hold_options {
	unsigned room;
	bool homes;
};

/* Finds a place for a value that would be dear to compute again. */
static bool find_place(
	const struct kernel *k, unsigned v, unsigned cost, struct hold_options *o, struct passes *p) {
	unsigned bytes = KERNEL_BLOCK * dtype_info(dtype_info(k->value[v].dtype)->reg)->bytes;

	if (bytes <= o->room) {
		o->room -= bytes;
		return true;
	}
	if (o->homes)
		p->home[v] = (uint16_t)find_home(k, p, v, cost);
	return p->home[v] != KERNEL_NONE;
}

/* Holds what this pass needs again and would be dear, the last values first: they save the most. */
static void hold(const struct writer *w, unsigned pass, struct hold_options *o, struct passes *p) {
	/* By KNOB_hold: the rule, nothing, all but loads. */
	static const unsigned held_from[KNOB_VALUES] = { COST_HELD, COST_DEAR + 1, COST_LOAD + 1 };
	const struct kernel *k = w->k;
	unsigned cost[KERNEL_VALUES];
	bool held[KERNEL_VALUES];
	struct needs n;

	passes_held(w, p, pass, held);
	find_costs(k, held, cost);
	for (unsigned v = k->values; v-- > 0;) {
		passes_needs(w, p, pass, &n);
		if (n.value[v] && !held[v] && p->first[v] < pass && cost[v] >= held_from[k->hold])
			p->held[v] = find_place(k, v, cost[v], o, p);
	}
	passes_needs(w, p, pass, &n);
	for (unsigned v = 0; v < k->values; v++)
		if (n.value[v] && p->first[v] > pass)
			p->first[v] = (uint16_t)pass;
}

void passes_find(const struct writer *w, unsigned room, bool homes, struct passes *p) {
	struct hold_options o = { .room = room, .homes = homes };

	memset(p, 0, sizeof *p);
	memset(p->first, 0xff, sizeof p->first);
	memset(p->home, 0xff, sizeof p->home);
	find_depths(w, p);
	p->count = count_passes(w, p);
	for (unsigned pass = 0; pass < p->count; pass++)
		hold(w, pass, &o, p);
}

/* Is a value made of scalars alone? */
static void find_constants(const struct kernel *k, bool *constant) {
	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];

		constant[v] = value->kind == KERNEL_SCALAR || value->kind == KERNEL_OP;
		for (unsigned i = 0; value->kind == KERNEL_OP && i < op_info(value->op)->arity; i++)
			constant[v] = constant[v] && constant[value->arg[i]];
	}
}

void passes_hold_kept(const struct writer *w, struct passes *p) {
	const struct kernel *k = w->k;
	bool constant[KERNEL_VALUES];

	find_constants(k, constant);
	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];

		for (unsigned i = 0; w->outer.value[v] && i < kernel_value_args(value); i++) {
			unsigned a = value->arg[i];

			if (k->value[a].space == KERNEL_SPACE_KEPT && !constant[a] &&
				(value->space == KERNEL_SPACE_ROW || p->depth[a] < p->depth[v]))
				p->held[a] = true;
		}
	}
}

/*
 * Patterns by name: what a kernel is, from the operations it holds, whichever mechanism put them
 * together.
 *
 * A sight is what recognisers look at: the members of a group, where each stands by what is reduced
 * or multiplied there, and some counts. The rows of `forms` are asked in their order, the most
 * particular first; the first that fits names the kernel. A pattern that is switched off is kept
 * from arising: a merge whose result would be of it is refused (pattern_refuses). So switching one
 * off leaves what is not of it fused, and changes no operation and no bit.
 *
 * What users define are further names of the same kernels: named.c.
 *
 * Cost: linear in the members of a group, once a group; once a merge only where a pattern is off.
 */
#include "planner.h"

#include <string.h>

enum {
	/* Two groups and a node: more than a kernel holds is no kernel, and its merge is refused anyway. */
	SIGHT_MEMBERS = KERNEL_VALUES / 2 + 1,
};

enum place {
	PLACE_BEFORE = 1,      /* something reduced or multiplied here depends on it */
	PLACE_FACTOR = 4,      /* a product here depends on it */
	PLACE_AFTER = 2,       /* it depends on something reduced or multiplied here */
	PLACE_CONDITION = 8,   /* an activation chooses by it: a part of that */
};

struct sight {
	const struct planner *p;
	uint32_t member[SIGHT_MEMBERS];
	uint8_t place[SIGHT_MEMBERS];
	unsigned members;
	unsigned work;                 /* members that compute: neither casts nor moves */
	unsigned moves;
	unsigned products, reductions, roots;
	unsigned arithmetic, activations;
	bool before, after;            /* elementwise members before and after a root */
	bool active_before;            /* an activation that a product here depends on */
	bool before_product;           /* elementwise members that do */
	bool active_factor;            /* an activation whose result a product of another kernel reads */
	bool factor;                   /* something that one reads */
	bool wide_after;               /* a result of a reduction is used over a larger shape */
	bool scalar;                   /* arithmetic with a scalar */
	bool residual;                 /* an array of the product's shape is added to it */
	bool normalises;               /* divides by a square root */
	bool centred, scaled;          /* by an array that is repeated over the shape */
	const struct node *first, *last;   /* of what computes */
};

/* ---- kinds of operations ---- */

/* Whose operands are numbers, but for one. */
static bool is_bounded_by_numbers(const struct planner *p, const struct node *n) {
	unsigned numbers = 0;

	for (unsigned i = 0; i < n->arity; i++)
		numbers += p->node[n->in[i]].kind == NODE_FILL;
	return numbers + 1u == n->arity;
}

static bool is_order(unsigned op) {
	return op == OP_lt || op == OP_le || op == OP_gt || op == OP_ge;
}

/* Of a `where`: does its condition compare with a number one of the values that it chooses? */
static bool chooses_by_order(const struct planner *p, const struct node *n) {
	const struct node *condition = &p->node[planner_edge(p, n, 0).base];
	uint32_t of;

	if (condition->kind != NODE_MAP || !is_order(condition->op) || !is_bounded_by_numbers(p, condition))
		return false;
	of = planner_edge(p, condition, p->node[condition->in[0]].kind == NODE_FILL).base;
	return planner_edge(p, n, 1).base == of || planner_edge(p, n, 2).base == of;
}

static bool is_activation(const struct planner *p, const struct node *n) {
	if (n->kind != NODE_MAP)
		return false;
	switch (op_info(n->op)->activation) {
	case OP_ACTIVE_PLAIN: return false;
	case OP_ACTIVE_ACTIVE: return true;
	case OP_ACTIVE_BOUND: return is_bounded_by_numbers(p, n);
	case OP_ACTIVE_CHOICE: return chooses_by_order(p, n);
	}
	return false;
}

static bool is_arithmetic(unsigned op) {
	return op == OP_add || op == OP_sub || op == OP_mul || op == OP_div;
}

/* What puts values elsewhere and computes none. */
static bool is_move(const struct node *n) {
	return n->kind == NODE_MAP && n->op != OP_cast && op_info(n->op)->class == OP_CLASS_STRUCT;
}

static bool is_root(const struct node *n) {
	return n->kind != NODE_MAP;
}

static bool holds_op(const struct sight *s, unsigned op) {
	for (unsigned i = 0; i < s->members; i++)
		if (s->p->node[s->member[i]].op == op)
			return true;
	return false;
}

/* ---- a sight ---- */

/* The place among the members of a node, from `end` down; members where it is none. */
static unsigned find_member(const struct sight *s, uint32_t node, unsigned end) {
	for (unsigned i = end; i-- > 0;)
		if (s->member[i] == node)
			return i;
	return s->members;
}

static void mark_after(struct sight *s, unsigned i) {
	const struct node *n = &s->p->node[s->member[i]];

	for (unsigned k = 0; k < n->arity; k++) {
		unsigned from = find_member(s, planner_edge(s->p, n, k).base, i);

		if (from < s->members && (is_root(&s->p->node[s->member[from]]) || s->place[from] & PLACE_AFTER))
			s->place[i] |= PLACE_AFTER;
	}
}

static void mark_before(struct sight *s, unsigned i) {
	const struct node *n = &s->p->node[s->member[i]];

	for (unsigned k = 0; k < n->arity && (is_root(n) || s->place[i] & PLACE_BEFORE); k++) {
		unsigned from = find_member(s, planner_edge(s->p, n, k).base, i);

		if (from >= s->members)
			continue;
		s->place[from] |= PLACE_BEFORE;
		if (n->kind == NODE_MATMUL || s->place[i] & PLACE_FACTOR)
			s->place[from] |= PLACE_FACTOR;
	}
}

/* A value that is here before n, and depends on nothing reduced or multiplied here: from outside, or computed beside. */
static bool stands_beside(const struct sight *s, const struct node *n, unsigned i) {
	unsigned from = find_member(s, planner_edge(s->p, n, i).base, s->members);

	return from == s->members || !(is_root(&s->p->node[s->member[from]]) || s->place[from] & PLACE_AFTER);
}

/* A whole array of n's shape, not one that is repeated over it, which n reads beside what was reduced or multiplied. */
static bool reads_whole_array(const struct sight *s, const struct node *n) {
	for (unsigned i = 0; i < n->arity; i++) {
		const struct node *in = &s->p->node[n->in[i]];
		bool whole = in->kind != NODE_FILL && in->kind != NODE_IOTA && space_equal(in->type, n->type) && stands_beside(s, n, i);

		for (unsigned d = 0; whole && d < in->type->rank && in->base != GRAPH_NONE; d++)
			whole = in->view.stride[d] || in->type->dims[d] == 1;
		if (whole)
			return true;
	}
	return false;
}

static bool has_scalar(const struct planner *p, const struct node *n) {
	for (unsigned i = 0; i < n->arity; i++)
		if (p->node[n->in[i]].kind == NODE_FILL)
			return true;
	return false;
}

/* Is one of n's operands an array repeated over its shape, as the statistics of a norm are? */
static bool reads_repeated(const struct planner *p, const struct node *n) {
	for (unsigned i = 0; i < n->arity; i++) {
		const struct node *in = &p->node[n->in[i]];

		if (in->kind == NODE_FILL || in->kind == NODE_IOTA)
			continue;
		if (shape_elements(in->type) < shape_elements(n->type))
			return true;
	}
	return false;
}

static void look_at_work(struct sight *s, unsigned i, uint64_t kept) {
	const struct node *n = &s->p->node[s->member[i]];
	uint8_t place = s->place[i];
	bool active = is_activation(s->p, n);

	s->first = s->first ? s->first : n;
	s->last = n;
	s->work++;
	s->products += n->kind == NODE_MATMUL;
	s->reductions += n->kind == NODE_REDUCE;
	s->roots += is_root(n);
	s->arithmetic += is_arithmetic(n->op);
	s->activations += active;
	s->factor |= n->factor;
	if (is_root(n))
		return;
	s->active_factor |= n->factor && active;
	s->before_product |= (place & PLACE_FACTOR) != 0;
	s->active_before |= place & PLACE_FACTOR && active;
	s->wide_after |= place & PLACE_AFTER && (uint64_t)shape_elements(n->type) > kept;
	s->scalar |= is_arithmetic(n->op) && has_scalar(s->p, n);
	s->centred |= n->op == OP_sub && reads_repeated(s->p, n);
	s->scaled |= (n->op == OP_mul || n->op == OP_div) && reads_repeated(s->p, n);
	s->residual |= place & PLACE_AFTER && n->op == OP_add && reads_whole_array(s, n);
}

/* The largest result of a root. */
static uint64_t kept_elements(const struct sight *s) {
	uint64_t most = 0;

	for (unsigned i = 0; i < s->members; i++) {
		const struct node *n = &s->p->node[s->member[i]];
		uint64_t here = is_root(n) ? (uint64_t)shape_elements(n->type) : 0;

		most = here > most ? here : most;
	}
	return most;
}

static void mark_conditions(struct sight *s) {
	for (unsigned i = 0; i < s->members; i++) {
		const struct node *n = &s->p->node[s->member[i]];
		unsigned from = s->members;

		if (n->kind == NODE_MAP && op_info(n->op)->activation == OP_ACTIVE_CHOICE && is_activation(s->p, n))
			from = find_member(s, planner_edge(s->p, n, 0).base, i);
		if (from < s->members)
			s->place[from] |= PLACE_CONDITION;
	}
}

/* Requires the members in topological order. */
static void look(struct sight *s) {
	uint64_t kept = kept_elements(s);

	for (unsigned i = 0; i < s->members; i++)
		mark_after(s, i);
	for (unsigned i = s->members; i-- > 0;)
		mark_before(s, i);
	mark_conditions(s);
	for (unsigned i = 0; i < s->members; i++) {
		const struct node *n = &s->p->node[s->member[i]];

		s->before |= !is_root(n) && s->place[i] & PLACE_BEFORE;
		s->after |= !is_root(n) && s->place[i] & PLACE_AFTER;
		if (is_move(n))
			s->moves++;
		else if (n->op != OP_cast && !(s->place[i] & PLACE_CONDITION))
			look_at_work(s, i, kept);
	}
	s->normalises = holds_op(s, OP_rsqrt) || (holds_op(s, OP_sqrt) && holds_op(s, OP_div));
}

/* ---- the forms ---- */

static bool ends_active(const struct sight *s) {
	return s->last && is_activation(s->p, s->last);
}

/* In the product's kernel, or one of its own that is there for the product. */
static bool is_norm_linear(const struct sight *s) {
	return s->normalises && (s->products ? s->before_product : s->reductions && s->factor);
}

static bool is_attention(const struct sight *s) {
	return holds_op(s, OP_attention) || (s->products > 1 && s->reductions);
}

static bool is_conv(const struct sight *s) {
	return holds_op(s, OP_conv);
}

static bool is_activation_linear(const struct sight *s) {
	return s->products ? s->active_before : s->active_factor;
}

static bool is_linear_residual(const struct sight *s) {
	return s->products && s->residual;
}

static bool is_linear(const struct sight *s) {
	return s->products;
}

static bool is_scan(const struct sight *s) {
	for (unsigned i = 0; i < s->members; i++)
		if (s->p->node[s->member[i]].kind == NODE_SCAN)
			return true;
	return false;
}

static bool is_sort(const struct sight *s) {
	for (unsigned i = 0; i < s->members; i++)
		if (s->p->node[s->member[i]].kind == NODE_SORT)
			return true;
	return false;
}

static bool is_norm_activation(const struct sight *s) {
	return ends_active(s) && ((s->reductions && s->normalises) || (!s->roots && s->centred && s->scaled));
}

static bool is_reduce_broadcast(const struct sight *s) {
	return s->reductions > 1 || (s->reductions && s->wide_after);
}

static bool is_reduce_prologue(const struct sight *s) {
	return s->reductions && s->before;
}

static bool is_reduce_epilogue(const struct sight *s) {
	return s->reductions && s->after;
}

static bool is_affine_activation(const struct sight *s) {
	bool product_and_sum = s->work == 3 && s->first->op == OP_mul && holds_op(s, OP_add);

	return !s->roots && ends_active(s) && (product_and_sum || (s->work == 2 && s->first->op == OP_fma));
}

static bool is_scalar_activation(const struct sight *s) {
	return !s->roots && s->work == 2 && s->arithmetic == 1 && ends_active(s) && s->scalar;
}

static bool is_binary_activation(const struct sight *s) {
	return !s->roots && s->work == 2 && s->arithmetic == 1 && ends_active(s);
}

static bool is_memory_ops(const struct sight *s) {
	return s->moves == s->members;
}

static bool is_any(const struct sight *s) {
	(void)s;
	return true;
}

/* The first that fits. horizontal is of launches. */
static const struct {
	enum pattern pattern;
	bool (*fits)(const struct sight *s);
} forms[] = {
	{ PATTERN_scan, is_scan },
	{ PATTERN_sort, is_sort },
	{ PATTERN_attention, is_attention },
	{ PATTERN_conv_bn_act, is_conv },
	{ PATTERN_norm_linear, is_norm_linear },
	{ PATTERN_activation_linear, is_activation_linear },
	{ PATTERN_linear_residual, is_linear_residual },
	{ PATTERN_linear, is_linear },
	{ PATTERN_norm_activation, is_norm_activation },
	{ PATTERN_reduce_broadcast, is_reduce_broadcast },
	{ PATTERN_reduce_prologue, is_reduce_prologue },
	{ PATTERN_reduce_epilogue, is_reduce_epilogue },
	{ PATTERN_affine_activation, is_affine_activation },
	{ PATTERN_scalar_activation, is_scalar_activation },
	{ PATTERN_binary_activation, is_binary_activation },
	{ PATTERN_memory_ops, is_memory_ops },
	{ PATTERN_elementwise_chain, is_any },
};

/* Leaves the sight looked at. */
static enum pattern recognise(struct sight *s) {
	unsigned i = 0;

	if (s->members < 2)
		return s->members && s->p->node[s->member[0]].attended ? PATTERN_attention : PATTERN_NONE;
	look(s);
	while (!forms[i].fits(s))
		i++;
	return forms[i].pattern;
}

/* ---- groups ---- */

static bool sight_add(struct sight *s, const struct group *g) {
	for (uint32_t m = g->first; m != GRAPH_NONE; m = s->p->next[m]) {
		if (s->members == SIGHT_MEMBERS)
			return false;
		s->member[s->members++] = m;
	}
	return true;
}

static const char *off_reason(enum pattern pattern) {
	static const char *const reasons[] = {
#define PATTERN(id, name, doc) [id] = "the pattern " #name " is switched off",
#include "protocol/patterns.def"
#undef PATTERN
	};

	return reasons[pattern];
}

/* A reduction with operations before and after it is of two patterns. */
static const char *refused(const struct sight *s, enum pattern pattern, pattern_set off) {
	if (pattern == PATTERN_reduce_prologue && s->after && off & pattern_bit(PATTERN_reduce_epilogue))
		pattern = PATTERN_reduce_epilogue;
	return pattern && off & pattern_bit(pattern) ? off_reason(pattern) : NULL;
}

const char *pattern_refuses(const struct planner *p, const struct group *from, const struct group *into,
	uint32_t node) {
	const char *reason = named_refuses(p, from, into, node);
	struct sight s;

	if (!reason)
		reason = pairs_refuse(p, from, into, node);
	if (reason || !p->o->patterns_off)
		return reason;
	memset(&s, 0, sizeof s);
	s.p = p;
	if ((from && !sight_add(&s, from)) || (into && !sight_add(&s, into)) || s.members == SIGHT_MEMBERS)
		return NULL;
	if (node != GRAPH_NONE)
		s.member[s.members++] = node;
	return refused(&s, recognise(&s), p->o->patterns_off);
}

/* What a member would read and write as a kernel of its own. */
static uint64_t bytes_alone(const struct planner *p, const struct node *n) {
	uint64_t bytes = (uint64_t)shape_bytes(n->type);

	for (unsigned i = 0; i < n->arity; i++) {
		const struct node *in = &p->node[n->in[i]];

		if (in->kind != NODE_FILL && in->kind != NODE_IOTA)
			bytes += (uint64_t)shape_bytes(in->type);
	}
	return bytes;
}

/* A copy that the planner added, as for a packing, or an operation that is computed again: no work of the client's, which fusing would save. */
static bool is_helper(const struct planner *p, uint32_t node) {
	return p->node[node].origin != GRAPH_NONE || (node >= graph_nodes(p->g) && p->node[node].op == OP_copy);
}

static bool only_helpers(const struct planner *p, const struct group *g) {
	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
		if (!is_helper(p, m))
			return false;
	return true;
}

static enum pattern pattern_of_group(const struct planner *p, const struct group *g) {
	struct sight s = { .p = p };

	if (only_helpers(p, g))
		return PATTERN_NONE;
	return sight_add(&s, g) ? recognise(&s) : PATTERN_elementwise_chain;
}

void pattern_mark(const struct planner *p, const struct group *g, uint32_t first) {
	struct plan_step *last = &p->plan->step[p->plan->steps - 1];
	enum pattern pattern = pattern_of_group(p, g);
	named_set named = named_of_group(p, g);

	for (uint32_t i = first; i < p->plan->steps; i++) {
		struct plan_step *step = &p->plan->step[i];

		step->pattern = (uint8_t)pattern;
		step->named = named;
		last->bytes_fused += step->bytes_read + step->bytes_written;
	}
	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m]) {
		if (is_helper(p, m))
			continue;
		last->bytes_unfused += bytes_alone(p, &p->node[m]);
		last->buffers_eliminated += !p->node[m].stored;
	}
}

/* ---- kernels, where there is no group any more ---- */

enum pattern pattern_of_kernel(const struct kernel *k) {
	static const uint8_t by_root[] = { [KERNEL_MAP] = PATTERN_elementwise_chain,
		[KERNEL_REDUCE] = PATTERN_reduce_prologue, [KERNEL_MATMUL] = PATTERN_linear,
		[KERNEL_ROWS] = PATTERN_reduce_broadcast, [KERNEL_SCAN] = PATTERN_scan,
		[KERNEL_ATTENTION] = PATTERN_attention, [KERNEL_CONV] = PATTERN_conv_bn_act,
		[KERNEL_SORT] = PATTERN_sort };
	unsigned ops = 0;

	for (unsigned v = 0; v < k->values; v++)
		ops += k->value[v].kind != KERNEL_LOAD && k->value[v].kind != KERNEL_SCALAR;
	if (ops < 2)
		return PATTERN_NONE;
	if (k->root == KERNEL_REDUCE && k->value[k->root_value ? k->root_value - 1 : 0].kind != KERNEL_OP)
		return PATTERN_reduce_epilogue;
	return (enum pattern)by_root[k->root];
}

enum pattern pattern_of_launch(const struct plan_step *s) {
	for (unsigned v = 0; v < s->kernel->values; v++)
		if (s->kernel->value[v].kind != KERNEL_LOAD && s->kernel->value[v].kind != KERNEL_SCALAR)
			return PATTERN_horizontal;
	return PATTERN_memory_ops;
}

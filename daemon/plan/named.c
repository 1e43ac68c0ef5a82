/*
 * Where the patterns of a book (book.h) arise in a graph, and what kernels are of them.
 *
 * Templates are matched against the graph as it came, before anything of it is resolved: from an operation that is the
 * pattern's result down to its operands. Exactly commutative operations are tried in both orders; operands are
 * bound to any value. Between operations may stand what people and libraries put there without meaning it: casts
 * between floating-point types and to wider ones, broadcasts, extents of 1 in front, and reshapes that give a reduction
 * its axes back. Numbers are compared by value, though a plan knows none: every comparison is kept as a test
 * of the plan (plan_test), which then serves graphs alone whose numbers give the same outcomes.
 *
 * What is found is a site: its operations. A kernel that computes all operations of a site is of its pattern
 * (named_mark). Sites of patterns that are switched off refuse the merge that would make one (named_refuses).
 *
 * Cost: linear in the graph; a match takes at most NAMED_STEPS comparisons, and all together NAMED_STEPS_NODE for each
 * node. Where this does not do, what is beyond is not looked for, and the plan says so.
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Comparisons of one match: both orders of a dozen commutative operations that lead astray. */
	NAMED_STEPS = 512,
	NAMED_STEPS_NODE = 64,
	NAMED_STEPS_LEAST = 4096,
	/* Comparisons of numbers that one plan may depend on: each run of it repeats them. */
	NAMED_TESTS = 256,
	/* Of an operand: what this leaf is the transpose of. No graph has so many nodes. */
	NAMED_TRANSPOSED = 1 << 30,
	/* Goals of a match: arguments of all its operations. */
	NAMED_GOALS = TEMPLATE_NODES * TEMPLATE_ARGUMENTS,
};

/* Operations that together are of a pattern. */
struct named_site {
	uint8_t pattern;
	uint8_t members;
	bool replaced;                     /* its result is computed by the pattern's own operation */
	uint32_t first;                    /* of its members in named_sites.member */
	uint32_t next;                     /* another site with this result, or GRAPH_NONE */
};

struct named_sites {
	struct named_site *site;
	uint32_t sites, site_capacity;
	uint32_t *member;
	uint32_t members, member_capacity;
	uint32_t nodes;                    /* of the graph */
	uint32_t *at;                      /* the first site whose result a node is, or GRAPH_NONE */
	uint32_t *stamp, now;              /* nodes that are being looked at together */
	named_set off, found_off;          /* switched off; of them, those with a site */
};

struct goal {
	uint8_t part;
	uint32_t node;
};

struct search {
	struct planner *p;
	const struct named *named;
	const struct template *t;
	uint32_t map[TEMPLATE_NODES];      /* the node of each part, or GRAPH_NONE */
	uint32_t given[TEMPLATE_NODES];    /* the same as it is read first; an operation: itself */
	bool axes_known;
	uint16_t axes;                     /* of the operand's last axes: bit 0 the last one */
	unsigned steps;
	struct goal goal[NAMED_GOALS];
};

/* ---- what stands between operations ---- */

static const struct node *node_at(const struct search *s, uint32_t node) {
	return &s->p->node[node];
}

static bool is_real(uint8_t dtype) {
	return dtype_info(dtype)->kind == DTYPE_KIND_REAL;
}

/* Does a cast keep every value, or round as storing in a narrower floating-point type would? */
static bool is_harmless_cast(uint8_t from, uint8_t to) {
	return (is_real(from) && is_real(to)) || dtype_promote((enum dtype)from, (enum dtype)to) == (enum dtype)to;
}

/* The same extents, but for those of 1 in front. */
static bool same_extents(const struct tensor_type *a, const struct tensor_type *b) {
	unsigned most = a->rank > b->rank ? a->rank : b->rank;

	for (unsigned d = 1; d <= most; d++)
		if ((d <= a->rank ? a->dims[a->rank - d] : 1) != (d <= b->rank ? b->dims[b->rank - d] : 1))
			return false;
	return true;
}

/* The type of a reduction whose axes stay, with extent 1. */
static struct tensor_type kept_type(const struct search *s, const struct node *n) {
	struct tensor_type t = *node_at(s, n->in[0])->type;

	for (unsigned d = 0; d < t.rank; d++)
		if (n->attr->axes >> d & 1)
			t.dims[d] = 1;
	return t;
}

static bool is_reduction(const struct node *n) {
	return op_info(n->op)->class == OP_CLASS_REDUCE;
}

/* Is it a reduction that gave up its axes, which this shape gives back? */
static bool gives_axes_back(const struct search *s, uint32_t node, const struct tensor_type *shape) {
	const struct node *n = node_at(s, node);
	struct tensor_type kept;

	while (n->op == OP_cast)
		n = node_at(s, n->in[0]);
	if (!is_reduction(n) || n->attr->keepdims)
		return false;
	kept = kept_type(s, n);
	return same_extents(&kept, shape);
}

static bool stands_between(const struct search *s, const struct node *n) {
	const struct tensor_type *from = node_at(s, n->in[0])->type;

	if (n->op == OP_cast)
		return is_harmless_cast(from->dtype, n->type->dtype);
	if (n->op == OP_reshape)
		return same_extents(from, n->type) || gives_axes_back(s, n->in[0], n->type);
	return n->op == OP_broadcast;
}

/* Through what changes no value, or rounds it, and keeps its place by NumPy's rules of broadcasting. */
static uint32_t through(const struct search *s, uint32_t node) {
	while (stands_between(s, node_at(s, node)))
		node = node_at(s, node)->in[0];
	return node;
}

/* What stays where a reduction is read without its axes: the last ones must not be among them. */
static bool lies_as_kept(const struct search *s, uint32_t read, const struct node *reduction) {
	struct tensor_type kept = kept_type(s, reduction);

	if (reduction->attr->keepdims || same_extents(reduction->type, &kept))
		return true;
	/* Somewhere on the way a reshape gave them back. */
	for (const struct node *n = node_at(s, read); n != reduction; n = node_at(s, n->in[0]))
		if (n->op == OP_reshape && same_extents(n->type, &kept))
			return true;
	return false;
}

/* The number without memory that a node is, whatever its shape; GRAPH_NONE: none. */
static uint32_t number_of(const struct search *s, uint32_t node) {
	const struct node *n = node_at(s, node);

	while (op_is_view(n->op) || (n->op == OP_cast && is_harmless_cast(node_at(s, n->in[0])->type->dtype, n->type->dtype))) {
		node = n->in[0];
		n = node_at(s, node);
	}
	return n->op == OP_fill ? node : GRAPH_NONE;
}

/* ---- operations ---- */

/* Whose first two arguments may change places without a bit changing. */
static bool commutes(unsigned op) {
	static const uint16_t ops[] = { OP_add, OP_mul, OP_maximum, OP_minimum, OP_eq, OP_ne, OP_logical_and, OP_logical_or,
		OP_logical_xor, OP_bitwise_and, OP_bitwise_or, OP_bitwise_xor, OP_fma };

	for (unsigned i = 0; i < sizeof ops / sizeof *ops; i++)
		if (ops[i] == op)
			return true;
	return false;
}

/* A set of axes, counted from the last one. */
static uint16_t axes_from_last(uint16_t axes, unsigned rank) {
	uint16_t set = 0;

	for (unsigned d = 0; d < rank; d++)
		if (axes >> d & 1)
			set |= (uint16_t)(1U << (rank - 1 - d));
	return set;
}

static bool axes_fit(struct search *s, const struct template_node *t, const struct node *n) {
	unsigned rank = node_at(s, n->in[0])->type->rank;
	uint16_t axes = 0;

	if (t->axes == TEMPLATE_AXES_ALL)
		return n->attr->axes == (1U << rank) - 1;
	if (t->axes == TEMPLATE_AXES_LISTED) {
		for (unsigned i = 0; i < t->listed; i++) {
			int axis = t->axis[i] < 0 ? t->axis[i] + (int)rank : t->axis[i];

			if (axis < 0 || axis >= (int)rank)
				return false;
			axes |= (uint16_t)(1U << axis);
		}
		return n->attr->axes == axes;
	}
	axes = axes_from_last(n->attr->axes, rank);
	if (s->axes_known)
		return s->axes == axes;
	s->axes = axes;
	s->axes_known = true;
	return true;
}

static bool is_transpose(const struct node *n) {
	unsigned rank = n->type->rank;

	if (n->op != OP_permute || rank < 2)
		return false;
	for (unsigned d = 0; d + 2 < rank; d++)
		if (n->attr->perm[d] != d)
			return false;
	return n->attr->perm[rank - 1] == rank - 2;
}

/* ---- numbers ---- */

/* One comparison of a number, which the plan then depends on. */
static bool test_number(struct search *s, uint32_t node, double number, bool *equalp) {
	const struct node *n = node_at(s, node);
	struct plan *plan = s->p->plan;
	struct plan_test test = { .scalar = n->index };

	*equalp = false;
	if (!dtype_scalar_exact((enum dtype)n->type->dtype, number, &test.value))
		return true;
	test.equal = graph_scalar_values(s->p->g)[test.scalar] == test.value;
	*equalp = test.equal;
	for (uint32_t i = 0; i < plan->tests; i++)
		if (plan->test[i].scalar == test.scalar && plan->test[i].value == test.value)
			return true;
	if (!plan->test)
		plan->test = arena_alloc(&plan->arena, NAMED_TESTS * sizeof *plan->test);
	if (!plan->test || plan->tests == NAMED_TESTS)
		return false;
	plan->test[plan->tests++] = test;
	return true;
}

/* Once all else fits. */
static bool numbers_fit(struct search *s) {
	bool equal = true;

	for (unsigned i = 0; equal && i < s->t->nodes; i++) {
		if (s->t->node[i].kind != TEMPLATE_NUMBER)
			continue;
		if (!test_number(s, s->map[i], s->t->node[i].number, &equal)) {
			s->p->plan->patterns_cut = true;
			return false;
		}
	}
	return equal;
}

/* ---- matching ---- */

static bool solve(struct search *s, unsigned goals);

/* A part that is bound already must be met again; else it is bound while the rest is solved. */
static bool solve_bound(struct search *s, unsigned goals, unsigned part, uint32_t node, uint32_t given) {
	if (s->map[part] != GRAPH_NONE)
		return s->map[part] == node && solve(s, goals);
	s->map[part] = node;
	s->given[part] = given;
	if (solve(s, goals))
		return true;
	s->map[part] = GRAPH_NONE;
	return false;
}

/* The arguments of an operation, the first two in this order or the other one. */
static bool solve_arguments(struct search *s, unsigned goals, unsigned part, uint32_t node, bool swapped) {
	const struct template_node *t = &s->t->node[part];
	const struct node *n = node_at(s, node);

	for (unsigned i = t->arity; i-- > 0;) {
		unsigned from = swapped && i < 2 ? 1 - i : i;

		s->goal[goals++] = (struct goal){ t->in[i], n->in[from] };
	}
	return solve_bound(s, goals, part, node, node);
}

static bool operation_fits(struct search *s, const struct template_node *t, uint32_t read, uint32_t node) {
	const struct node *n = node_at(s, node);

	if (n->op != t->op || n->arity != t->arity || n->attended)
		return false;
	return !is_reduction(n) || (axes_fit(s, t, n) && lies_as_kept(s, read, n));
}

static bool solve_operation(struct search *s, unsigned goals, struct goal g) {
	const struct template_node *t = &s->t->node[g.part];
	uint32_t node = through(s, g.node);
	uint16_t axes = s->axes;
	bool known = s->axes_known, done;

	if (s->map[g.part] != GRAPH_NONE)
		return s->map[g.part] == node && solve(s, goals);
	if (!operation_fits(s, t, g.node, node) || goals + t->arity > NAMED_GOALS)
		done = false;
	else
		done = solve_arguments(s, goals, g.part, node, false) ||
			(commutes(t->op) && solve_arguments(s, goals, g.part, node, true));
	if (!done) {
		s->axes = axes;
		s->axes_known = known;
	}
	return done;
}

/* An array in memory that is read transposed is a leaf of such strides: it is the transpose of one that nobody reads. */
static bool lies_transposed(const struct search *s, const struct node *n) {
	unsigned rank = n->type->rank;
	const struct view *v;

	if (n->op != OP_load || rank < 2)
		return false;
	v = &graph_leaf_at(s->p->g, n->index)->view;
	return llabs(v->stride[rank - 2]) < llabs(v->stride[rank - 1]);
}

static bool solve_leaf_transposed(struct search *s, unsigned goals, unsigned part, uint32_t node) {
	unsigned operand = s->t->node[part].in[0];

	if (s->t->node[operand].kind != TEMPLATE_OPERAND)
		return false;
	if (s->map[part] != GRAPH_NONE)
		return s->map[part] == node && solve(s, goals);
	s->map[part] = node;
	if (solve_bound(s, goals, operand, node | NAMED_TRANSPOSED, node))
		return true;
	s->map[part] = GRAPH_NONE;
	return false;
}

static bool solve_transpose(struct search *s, unsigned goals, struct goal g) {
	uint32_t node = through(s, g.node);
	const struct node *n = node_at(s, node);

	if (lies_transposed(s, n))
		return solve_leaf_transposed(s, goals, g.part, node);
	if (!is_transpose(n) || goals + 1 > NAMED_GOALS)
		return false;
	return solve_arguments(s, goals, g.part, node, false);
}

static bool solve_number(struct search *s, unsigned goals, struct goal g) {
	uint32_t node = number_of(s, g.node);

	return node != GRAPH_NONE && solve_bound(s, goals, g.part, node, g.node);
}

/* The goals below `goals` are left as they were, whether it succeeds or not. */
static bool solve(struct search *s, unsigned goals) {
	struct goal g;
	bool done;

	if (!goals)
		return numbers_fit(s);
	if (!s->steps)
		return false;
	s->steps--;
	g = s->goal[--goals];
	switch (s->t->node[g.part].kind) {
	case TEMPLATE_OPERAND:
		done = solve_bound(s, goals, g.part, through(s, g.node), g.node);
		break;
	case TEMPLATE_OPERATION:
		done = solve_operation(s, goals, g);
		break;
	case TEMPLATE_TRANSPOSE:
		done = solve_transpose(s, goals, g);
		break;
	default:
		done = solve_number(s, goals, g);
		break;
	}
	s->goal[goals] = g;
	return done;
}

static bool match(struct search *s, uint32_t node) {
	memset(s->map, 0xff, sizeof s->map);
	s->axes_known = false;
	s->goal[0] = (struct goal){ (uint8_t)(s->t->nodes - 1), node };
	return solve(s, 1);
}

/* ---- sites ---- */

static int grow(struct planner *p, void **itemsp, uint32_t count, uint32_t *capacityp, size_t size) {
	uint32_t capacity = *capacityp ? 2 * *capacityp : 64;
	void *items;

	if (count < *capacityp)
		return 0;
	items = arena_alloc(&p->arena, capacity * size);
	if (!items)
		return -ENOMEM;
	if (count)
		memcpy(items, *itemsp, count * size);
	*itemsp = items;
	*capacityp = capacity;
	return 0;
}

static bool is_member(const struct named_sites *all, const struct named_site *s, uint32_t node) {
	for (unsigned i = 0; i < s->members; i++)
		if (all->member[s->first + i] == node)
			return true;
	return false;
}

/* Two parts may be one node. */
static int add_members(struct search *s, struct named_sites *all, struct named_site *site) {
	int r = 0;

	for (unsigned i = 0; !r && i < s->t->nodes; i++) {
		if (s->t->node[i].kind != TEMPLATE_OPERATION || is_member(all, site, s->map[i]))
			continue;
		r = grow(s->p, (void **)&all->member, all->members, &all->member_capacity, sizeof *all->member);
		if (r)
			break;
		all->member[all->members++] = s->map[i];
		site->members++;
	}
	return r;
}

static int add_site(struct search *s, unsigned pattern, uint32_t node, bool replaced) {
	struct named_sites *all = s->p->named;
	struct named_site site = { .pattern = (uint8_t)pattern, .replaced = replaced, .first = all->members, .next = all->at[node] };
	int r = grow(s->p, (void **)&all->site, all->sites, &all->site_capacity, sizeof *all->site);

	if (!r)
		r = add_members(s, all, &site);
	if (r)
		return r;
	/* All of it is one operation: x + x where a + b was meant to be of two. */
	if (site.members < TEMPLATE_LEAST) {
		all->members = site.first;
		return 0;
	}
	all->site[all->sites] = site;
	all->at[node] = all->sites++;
	if (all->off & named_bit(pattern))
		all->found_off |= named_bit(pattern);
	return 0;
}

/* ---- an own operation in the place of an expression ---- */

static bool reads(const struct node *n, uint32_t node) {
	for (unsigned i = 0; i < n->arity; i++)
		if (n->in[i] == node)
			return true;
	return false;
}

/* Does an operation read what the pattern says without anything between? */
static bool is_direct(const struct search *s, const struct template_node *t, const struct node *n) {
	for (unsigned i = 0; i < t->arity; i++) {
		unsigned kind = s->t->node[t->in[i]].kind;

		if ((kind == TEMPLATE_OPERATION || kind == TEMPLATE_OPERAND) && !reads(n, s->given[t->in[i]]))
			return false;
	}
	return true;
}

/* Nothing but what the pattern says, in one type: what stands between is not in the own operation. */
static bool is_strict(const struct search *s, uint8_t dtype) {
	for (unsigned i = 0; i < s->t->nodes; i++) {
		const struct template_node *t = &s->t->node[i];
		const struct node *n = node_at(s, s->map[i]);

		if (t->kind == TEMPLATE_OPERATION &&
			((n->type->dtype != dtype && n->type->dtype != DTYPE_bool) || !is_direct(s, t, n)))
			return false;
		if (t->kind == TEMPLATE_OPERAND && node_at(s, s->given[i])->type->dtype != dtype)
			return false;
	}
	return true;
}

static bool replacement_fits(const struct search *s, const struct node *n, uint32_t in[static LIMIT_OPERANDS]) {
	const struct tensor_type *type[LIMIT_OPERANDS];
	struct tensor_type made;
	unsigned bound = 0;

	for (unsigned i = 0; i < s->t->nodes; i++)
		if (s->t->node[i].kind == TEMPLATE_OPERAND) {
			in[s->t->node[i].operand] = s->given[i];
			type[s->t->node[i].operand] = node_at(s, s->given[i])->type;
			bound++;
		}
	return bound == s->named->arity && !op_infer(s->named->op, bound, type, NULL, &made, NULL) &&
		space_equal(&made, n->type) && made.dtype == n->type->dtype;
}

static bool may_replace(const struct search *s, uint8_t dtype) {
	return s->named->exact >> dtype & 1 || (s->named->inexact && s->p->o->fast);
}

static bool replace(const struct search *s, struct node *n) {
	uint32_t in[LIMIT_OPERANDS] = { 0 };

	if (!s->named->op || !may_replace(s, n->type->dtype) || !is_strict(s, n->type->dtype) || !replacement_fits(s, n, in))
		return false;
	n->op = (uint16_t)s->named->op;
	n->arity = (uint8_t)s->named->arity;
	n->attr = NULL;
	n->parts = s->t->operations;
	memcpy(n->in, in, sizeof n->in);
	return true;
}

/* ---- the pass ---- */

static int find_at(struct search *s, const struct book *b, uint32_t node, unsigned *leftp) {
	struct node *n = &s->p->node[node];
	int r = 0;

	for (unsigned i = 0; !r && i < b->patterns; i++) {
		const struct template *t = &b->pattern[i]->template;
		bool off = s->p->named->off & named_bit(i), found;

		if (t->node[t->nodes - 1].op != n->op)
			continue;
		if (!*leftp) {
			s->p->plan->patterns_cut = true;
			break;
		}
		s->named = b->pattern[i];
		s->t = t;
		s->steps = *leftp < NAMED_STEPS ? *leftp : NAMED_STEPS;
		*leftp -= s->steps;
		found = match(s, node);
		*leftp += s->steps;
		if (found)
			r = add_site(s, i, node, !off && replace(s, n));
	}
	return r;
}

static int sites_new(struct planner *p) {
	struct named_sites *all = arena_alloc(&p->arena, sizeof *all);

	if (!all)
		return -ENOMEM;
	all->nodes = p->nodes;
	all->off = p->o->named_off;
	all->at = arena_alloc(&p->arena, (p->nodes + 1) * sizeof *all->at);
	all->stamp = arena_alloc(&p->arena, (p->nodes + 1) * sizeof *all->stamp);
	if (!all->at || !all->stamp)
		return -ENOMEM;
	memset(all->at, 0xff, (p->nodes + 1) * sizeof *all->at);
	p->named = all;
	return 0;
}

int planner_find_named(struct planner *p) {
	unsigned left = NAMED_STEPS_LEAST + NAMED_STEPS_NODE * p->nodes;
	const struct book *b = p->o->book;
	struct search *s;
	int r;

	if (!b || !b->patterns || !p->o->fuse)
		return 0;
	s = arena_alloc(&p->arena, sizeof *s);
	r = s ? sites_new(p) : -ENOMEM;
	if (r)
		return r;
	s->p = p;
	for (uint32_t i = 0; !r && i < p->nodes; i++)
		r = find_at(s, b, i, &left);
	return r;
}

/* ---- kernels ---- */

/* What is computed again counts as what it is a copy of. */
static uint32_t original(const struct planner *p, uint32_t node) {
	return p->node[node].origin == GRAPH_NONE ? node : p->node[node].origin;
}

static void stamp_node(const struct planner *p, uint32_t node) {
	node = original(p, node);
	if (node < p->named->nodes)
		p->named->stamp[node] = p->named->now;
}

static void stamp_group(const struct planner *p, const struct group *g) {
	for (uint32_t m = g ? g->first : GRAPH_NONE; m != GRAPH_NONE; m = p->next[m])
		stamp_node(p, m);
}

/* Are all operations of a site among those that are stamped? */
static bool is_whole(const struct named_sites *all, const struct named_site *s) {
	if (s->replaced)
		return true;
	for (unsigned i = 0; i < s->members; i++)
		if (all->stamp[all->member[s->first + i]] != all->now)
			return false;
	return true;
}

/* The patterns of which a node that is stamped is the result, with all else. */
static named_set whole_at(const struct planner *p, uint32_t node) {
	const struct named_sites *all = p->named;
	named_set set = 0;

	node = original(p, node);
	for (uint32_t i = node < all->nodes ? all->at[node] : GRAPH_NONE; i != GRAPH_NONE; i = all->site[i].next)
		if (is_whole(all, &all->site[i]))
			set |= named_bit(all->site[i].pattern);
	return set;
}

static named_set whole_in(const struct planner *p, const struct group *g) {
	named_set set = 0;

	for (uint32_t m = g ? g->first : GRAPH_NONE; m != GRAPH_NONE; m = p->next[m])
		set |= whole_at(p, m);
	return set;
}

const char *named_refuses(const struct planner *p, const struct group *from, const struct group *into, uint32_t node) {
	named_set off;

	if (!p->named || !p->named->found_off)
		return NULL;
	p->named->now++;
	stamp_group(p, from);
	stamp_group(p, into);
	if (node != GRAPH_NONE)
		stamp_node(p, node);
	off = whole_in(p, from) | whole_in(p, into);
	if (node != GRAPH_NONE)
		off |= whole_at(p, node);
	off &= p->named->off;
	return off ? p->o->book->pattern[__builtin_ctzll(off)]->off : NULL;
}

named_set named_of_group(const struct planner *p, const struct group *g) {
	if (!p->named || !p->named->sites)
		return 0;
	p->named->now++;
	stamp_group(p, g);
	return whole_in(p, g);
}

/* ---- what was found ---- */

int named_count(struct planner *p) {
	const struct named_sites *all = p->named;
	struct plan *plan = p->plan;

	if (!all || !all->sites)
		return 0;
	plan->found = arena_alloc(&plan->arena, p->o->book->patterns * sizeof *plan->found);
	if (!plan->found)
		return -ENOMEM;
	for (uint32_t i = 0; i < all->sites; i++)
		plan->found[all->site[i].pattern] += p->node[all->member[all->site[i].first + all->site[i].members - 1]].kind != NODE_DEAD;
	return 0;
}

bool plan_tests_hold(const struct plan *p, const struct graph *g) {
	const uint64_t *value = graph_scalar_values(g);

	for (uint32_t i = 0; i < p->tests; i++)
		if ((value[p->test[i].scalar] == p->test[i].value) != p->test[i].equal)
			return false;
	return true;
}

/*
 * What computes the first factor of a product, row by row, becomes part of the product's kernel: layer_norm, rms_norm,
 * softmax and any other reductions and elementwise operations over its rows, or elementwise operations alone.
 *
 * A kernel of tiles reads each row of that factor as often as there are panels of the second one, so rows are computed
 * first, a block of them at a time, into memory that stays in the cache (emit/matmul_before.c): once an element, and nothing
 * as large as the factor is stored.
 *
 * Then, the other way round, what reduces the rows of a product - a softmax of it, a norm, the largest of each - becomes part of
 * its kernel, where it is all that reads them: the rows of a block stay in the cache until they are walked.
 *
 * Refused, with a note, where it would be computed more than once or stored besides: another kernel reads it, or it is an output;
 * the product has a matrix of it for several of the second factor. Many short rows would leave most lanes idle. Few long rows are reduced in blocks side by side, and
 * the GPU strategy computes tiles by groups of which none has whole rows: both keep kernels of their own.
 *
 * Requires groups that nothing joins any more. No bit of a result changes.
 */
#include "planner.h"

#include <errno.h>

enum {
	/*
	 * Members and sources of what may be computed before a product, and of both together: a source may be an operand before the
	 * product and another after it, and such a kernel must fit, for it cannot be taken apart where it is lowered.
	 */
	BEFORE_OPS = 32,
	BEFORE_ALL = 48,
	BEFORE_SOURCES = 20,
	/*
	 * A row before a product begins with a vector of its own. Where it fills half of that at most, many of them cost more than a
	 * kernel by itself, which fills all lanes, and what that stores (65,536 rows of 1 to 8 elements: 1.2 to 5 times as much).
	 */
	BEFORE_SHORT = 8,
	BEFORE_SHORT_ROWS = 1024,
	/* After a product: rows of a block, which reads all of the second factor, and of a compute unit. */
	AFTER_BLOCK = 48,
	/* The same where rows are made of a product, whose matrix of them is not stored then; places of each row of a factor. */
	SCORES_BLOCK = 32,
	SCORES_DEPTH = 512,
};

/* How often members of a group are read by those of others. */
static uint32_t *count_reads(struct planner *p) {
	uint32_t *reads = arena_alloc(&p->arena, (p->groups + 1) * sizeof *reads);

	for (uint32_t i = 0; reads && i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		for (unsigned k = 0; node_is_computed(n) && k < n->arity; k++) {
			const struct node *base = &p->node[planner_edge(p, n, k).base];
			uint32_t from;

			if (!node_is_computed(base) || base->group == GROUP_NONE)
				continue;
			from = group_find(p, base->group);
			reads[from] += from != group_find(p, n->group);
		}
	}
	return reads;
}

/* Are these the rows of a factor: all of it but for its last axis? */
static bool rows_are_factors(const struct rows *r, const struct tensor_type *factor) {
	return space_equal(r->type, factor) && r->axes == 1u << (factor->rank - 1u);
}

/* Is it read as it is computed, and has the product one matrix of it for each of its own? */
static bool one_for_one(const struct planner *p, const struct node *product, const struct tensor_type *factor) {
	const struct node *in = &p->node[product->in[0]];

	if (in->view.offset || !space_equal(in->type, factor) || !view_is_contiguous(in->type, &in->view))
		return false;
	if (factor->rank != product->type->rank)
		return false;
	for (unsigned d = 0; d + 1u < factor->rank; d++)
		if (factor->dims[d] != product->type->dims[d])
			return false;
	return true;
}

static bool rows_are_short(const struct tensor_type *factor) {
	int64_t n = factor->dims[factor->rank - 1u];

	return n <= BEFORE_SHORT && shape_elements(factor) > n * BEFORE_SHORT_ROWS;
}

static const char *refuses_rows(const struct planner *p, const struct group *from, const struct node *factor) {
	struct rows r;

	/* A copy into another shape walks what it copies. */
	if (from->kind != NODE_REDUCE)
		return space_equal(from->space, factor->type) ? NULL : "it is computed over another shape than the product's first factor";
	r = rows_of(p, &p->node[from->root]);
	if (!factor->row || !rows_are_factors(&r, factor->type))
		return "what it reduces are not the rows of the product's first factor";
	return rows_pay(p, &r) ? NULL : "too few rows for their length";
}

static bool is_too_much(const struct group *from, const struct group *into) {
	return from->ops > BEFORE_OPS || from->ops + into->ops > BEFORE_ALL || from->sources + into->sources > BEFORE_SOURCES;
}

/* NULL, or why what computes the first factor keeps a kernel of its own. */
static const char *refuses(struct planner *p, const struct group *from, const struct group *into, uint32_t reads) {
	const struct node *product = &p->node[into->root];
	struct edge e = planner_edge(p, product, 0);
	const struct node *factor = &p->node[e.base];
	const char *reason;

	if (p->o->traits->strategy != STRATEGY_CPU)
		return "the tiles of a group share rows with those of others";
	if ((from->kind != NODE_MAP && from->kind != NODE_REDUCE) || from->parts || from->columns)
		return "only elementwise operations and reductions are computed before a product";
	if (!one_for_one(p, product, factor->type))
		return "it is read through a view";
	if (reads != 1 || from->outputs)
		return "its result is needed in memory";
	if (rows_are_short(factor->type))
		return "its rows are many and too short to fill vectors";
	reason = refuses_rows(p, from, factor);
	if (reason)
		return reason;
	if (is_too_much(from, into))
		return "before the product it would be too much for one kernel";
	return pattern_refuses(p, from, into, GRAPH_NONE);
}

static bool merges(struct planner *p, uint32_t from, uint32_t into) {
	const struct group *g = &p->group[from];
	uint32_t reduction = g->kind == NODE_REDUCE ? g->root : GRAPH_NONE, last = g->last;

	if (!group_merge(p, &p->group[into], &p->group[from]))
		return false;
	p->group[into].before = reduction;
	for (uint32_t m = p->group[into].first; m != GRAPH_NONE; m = m == last ? GRAPH_NONE : p->next[m])
		p->node[m].before = true;
	return true;
}

/* Of first factors those whose kernels reduce rows where `rows`, else the others. */
static int consider(struct planner *p, uint32_t into, const uint32_t *reads, bool rows) {
	const struct node *product = &p->node[p->group[into].root];
	struct edge e = planner_edge(p, product, 0);
	const struct node *base = &p->node[e.base];
	const char *reason;
	uint32_t from;

	if (!node_is_computed(base) || base->group == GROUP_NONE || !shape_elements(product->type) || !shape_elements(base->type) ||
		(uint64_t)shape_elements(product->type) < p->o->min_elements)
		return 0;
	from = group_find(p, base->group);
	if (from == into || (p->group[from].kind == NODE_REDUCE) != rows)
		return 0;
	reason = refuses(p, &p->group[from], &p->group[into], reads[from]);
	if (!reason && !merges(p, from, into))
		reason = "the kernel is full";
	return reason ? planner_note(p, e.base, p->group[into].root, reason) : 0;
}

/* ---- rows after a product ---- */

/* The product whose result elementwise members and reductions of a group read: the first, or GROUP_NONE. */
static uint32_t product_read(struct planner *p, const struct group *g) {
	for (uint32_t m = g->first; m != GRAPH_NONE; m = p->next[m])
		for (unsigned k = 0; !node_is_product(&p->node[m]) && k < p->node[m].arity; k++) {
			const struct node *base = &p->node[planner_edge(p, &p->node[m], k).base];
			uint32_t from = node_is_computed(base) && base->group != GROUP_NONE ? group_find(p, base->group) : GROUP_NONE;

			if (from != GROUP_NONE && p->group[from].kind == NODE_MATMUL)
				return from;
		}
	return GROUP_NONE;
}

static void mark_after(struct planner *p, const struct group *product, const struct group *rows, bool mark) {
	for (uint32_t m = product->first; m != GRAPH_NONE; m = p->next[m]) {
		p->node[m].row = mark;
		p->node[m].after = mark && m != product->root;
	}
	for (uint32_t m = rows->first; m != GRAPH_NONE; m = p->next[m])
		p->node[m].after = mark;
}

/* Is all that anybody reads of the product read by these reductions, within its rows? Requires members to be marked. */
static bool reads_rows(struct planner *p, uint32_t product, uint32_t into, uint32_t reduction, uint32_t reads) {
	struct rows r = rows_of(p, &p->node[reduction]);
	uint32_t seen = 0;

	for (uint32_t m = p->group[into].first; m != GRAPH_NONE; m = p->next[m]) {
		const struct node *n = &p->node[m];
		unsigned class = n->kind == NODE_REDUCE || n->row ? ROWS_CLASS_ROW : ROWS_CLASS_KEPT;

		for (unsigned k = 0; k < n->arity; k++) {
			const struct node *base = &p->node[planner_edge(p, n, k).base];

			if (!node_is_computed(base) || base->group == GROUP_NONE || group_find(p, base->group) != product)
				continue;
			if (!rows_reach(p, &r, n, class, k))
				return false;
			seen++;
		}
	}
	return seen == reads;
}

static const char *refuses_shape(const struct planner *p, const struct group *product, const struct group *into) {
	const struct tensor_type *t = p->node[product->root].type;
	struct rows r = rows_of(p, &p->node[into->root]);
	int64_t n = t->dims[t->rank - 1u];

	if (!space_equal(r.type, t) || r.axes != 1u << (t->rank - 1u))
		return "what it reduces are not the rows of the product";
	if (n <= KERNEL_TURNED || n > KERNEL_KEPT_ELEMENTS / AFTER_BLOCK)
		return "the rows of the product are too short or too long to be kept";
	if (shape_elements(t) / n < AFTER_BLOCK * (int64_t)p->o->traits->units)
		return "the product has too few rows for all compute units";
	return NULL;
}

/* NULL, or why what reduces a product keeps a kernel of its own. */
static const char *refuses_after(struct planner *p, const struct group *product, const struct group *into) {
	const char *reason;

	if (p->o->traits->strategy != STRATEGY_CPU)
		return "the tiles of a group share rows with those of others";
	if (into->parts || into->columns || product->before != GRAPH_NONE || product->after != GRAPH_NONE ||
		p->node[planner_edge(p, &p->node[product->root], 0).base].before)
		return "the product's kernel has rows before it";
	if (product->parts)
		return "the product's kernel stores a part of an array that others read";
	reason = refuses_shape(p, product, into);
	if (reason)
		return reason;
	if (is_too_much(product, into))
		return "after the product it would be too much for one kernel";
	return pattern_refuses(p, product, into, GRAPH_NONE);
}

static int consider_after(struct planner *p, uint32_t into, const uint32_t *reads) {
	uint32_t product = product_read(p, &p->group[into]), root, reduction = p->group[into].root;
	const char *reason;

	if (product == GROUP_NONE || (uint64_t)shape_elements(p->group[into].space) < p->o->min_elements)
		return 0;
	root = p->group[product].root;
	reason = refuses_after(p, &p->group[product], &p->group[into]);
	if (reason)
		return planner_note(p, root, reduction, reason);
	mark_after(p, &p->group[product], &p->group[into], true);
	if (!reads_rows(p, product, into, reduction, reads[product]) || !group_merge(p, &p->group[into], &p->group[product])) {
		mark_after(p, &p->group[product], &p->group[into], false);
		return planner_note(p, root, reduction, "the product is read elsewhere, or through a view");
	}
	p->group[into].kind = NODE_MATMUL;
	p->group[into].root = root;
	p->group[into].space = p->node[root].type;
	p->group[into].after = reduction;
	return 0;
}

/* ---- rows of a product before another ---- */

/* Scores of attention that is written out: each product is as an attention's. */
static const char *refuses_scores(const struct planner *p, const struct group *scores, const struct group *into) {
	const struct node *s = &p->node[scores->root], *a = &p->node[s->in[0]], *b = &p->node[s->in[1]];
	const struct tensor_type *t = s->type;
	int64_t n = t->dims[t->rank - 1u], depth = a->type->dims[a->type->rank - 1u];
	struct rows r = rows_of(p, &p->node[into->before]);

	if (p->node[planner_edge(p, s, 0).base].before || scores->before != GRAPH_NONE || scores->after != GRAPH_NONE || into->after != GRAPH_NONE || into->scores != GRAPH_NONE)
		return "one of the products has rows before it";
	if (!space_equal(r.type, t) || planner_accumulator(t) != planner_accumulator(p->node[into->root].type))
		return "what is reduced are not the rows of the product";
	if (!b->columns || a->kind == NODE_FILL || a->kind == NODE_IOTA || (a->view.stride[a->type->rank - 1u] != 1 && depth > 1))
		return "the factors of the product lie otherwise";
	if (n > KERNEL_KEPT_ELEMENTS / SCORES_BLOCK || depth > SCORES_DEPTH)
		return "the rows of the product are too long to be kept";
	if (shape_elements(t) / n < AFTER_BLOCK * (int64_t)p->o->traits->units)
		return "the product has too few rows for all compute units";
	return is_too_much(scores, into) ? "before the product it would be too much for one kernel" : NULL;
}

/* Has the rows before a product computed from those of another in its kernel, where these are all that is read of that. */
static int consider_scores(struct planner *p, uint32_t into, const uint32_t *reads) {
	uint32_t from, root;
	const char *reason;

	if (p->group[into].before == GRAPH_NONE)
		return 0;
	from = product_read(p, &p->group[into]);
	if (from == GROUP_NONE || from == into || p->group[from].outputs)
		return 0;
	root = p->group[from].root;
	reason = refuses_scores(p, &p->group[from], &p->group[into]);
	if (!reason)
		reason = pattern_refuses(p, &p->group[from], &p->group[into], GRAPH_NONE);
	if (reason)
		return planner_note(p, root, p->group[into].root, reason);
	for (uint32_t m = p->group[from].first; m != GRAPH_NONE; m = p->next[m])
		p->node[m].row = p->node[m].before = true;
	if (reads_rows(p, from, into, p->group[into].before, reads[from]) && group_merge(p, &p->group[into], &p->group[from])) {
		p->group[into].scores = root;
		return 0;
	}
	for (uint32_t m = p->group[from].first; m != GRAPH_NONE; m = p->next[m])
		p->node[m].row = p->node[m].before = false;
	return planner_note(p, root, p->group[into].root, "the product is read elsewhere, or through a view");
}

static bool is_product(const struct planner *p, uint32_t g) {
	return p->group[g].parent == g && p->group[g].kind == NODE_MATMUL && p->group[g].ops;
}

/*
 * Elementwise operations before a product come after the products that compute rows for another: an attention whose queries
 * are multiplied by the scale, or are of 16 bits, has one kernel for its scores then, and that multiplication or cast, which is
 * small beside a matrix of scores, has one of its own.
 */
int planner_before(struct planner *p) {
	uint32_t *reads = NULL;
	int r = 0;

	for (uint32_t g = 0; !r && p->o->fuse && g < p->groups; g++) {
		if (!is_product(p, g))
			continue;
		if (!reads)
			reads = count_reads(p);
		r = reads ? consider(p, g, reads, true) : -ENOMEM;
	}
	for (uint32_t g = 0; !r && reads && g < p->groups; g++)
		r = is_product(p, g) ? consider_scores(p, g, reads) : 0;
	for (uint32_t g = 0; !r && reads && g < p->groups; g++)
		r = is_product(p, g) ? consider(p, g, reads, false) : 0;
	for (uint32_t g = 0; !r && reads && g < p->groups; g++)
		if (p->group[g].parent == g && p->group[g].kind == NODE_REDUCE && p->group[g].ops)
			r = consider_after(p, g, reads);
	return r;
}

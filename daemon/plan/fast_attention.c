/*
 * Attention found from its parts, where the client asked for `fast`: its kernel rounds in another order than they.
 *
 * What is looked for ends in a product with the values: of weights, exponentials over their sums, or of exponentials,
 * which are then divided. The exponentials are of scores, or of scores less their largest; scores are a product
 * of queries and keys, then multiplied or divided by numbers (or the queries or keys were), then masked: something is added, or
 * `where` puts a number in the place of some. Casts between floating-point types may stand anywhere between. Numbers may be of
 * any value, since plans do not know values. Keys may be a transposed array, or lie across.
 *
 * The last node becomes an attention; the parts that nobody else reads are then dead. Anything else is left alone: two masks,
 * a scale after a mask, a softmax over another axis, a mask that makes the scores larger.
 */
#include "planner.h"

#include <errno.h>

struct search {
	struct planner *p;
	struct attended found;
	uint32_t queries, keys, values, mask;
	uint32_t parts;
};

static const struct node *node_at(const struct search *s, uint32_t node) {
	return &s->p->node[node];
}

static bool is_real(const struct node *n) {
	return dtype_info(n->type->dtype)->kind == DTYPE_KIND_REAL;
}

/* Does it change how numbers are rounded, and nothing else? */
static bool is_real_cast(const struct search *s, uint32_t node) {
	const struct node *n = node_at(s, node);

	return n->op == OP_cast && is_real(n) && is_real(node_at(s, n->in[0]));
}

/* Through casts between floating-point types. */
static uint32_t through_casts(struct search *s, uint32_t node) {
	while (is_real_cast(s, node)) {
		node = node_at(s, node)->in[0];
		s->parts++;
	}
	return node;
}

/* The number that a node is everywhere, whatever its shape; GRAPH_NONE where it is none. */
static uint32_t number_of(const struct search *s, uint32_t node) {
	while (op_is_view(node_at(s, node)->op) || is_real_cast(s, node))
		node = node_at(s, node)->in[0];
	return node_at(s, node)->op == OP_fill ? node : GRAPH_NONE;
}

/* The extent of the axis that is `d` before the last one; there are as many of extent 1 in front as wanted. */
static int64_t extent_from_last(const struct tensor_type *t, unsigned d) {
	return d < t->rank ? t->dims[t->rank - 1u - d] : 1;
}

/* Does an array of this type, broadcast to that of the rows, give each row one element? */
static bool is_column_of(const struct tensor_type *t, const struct tensor_type *rows) {
	bool same = extent_from_last(t, 0) == 1;

	for (unsigned d = 1; same && (d < t->rank || d < rows->rank); d++)
		same = extent_from_last(t, d) == extent_from_last(rows, d);
	return same;
}

/* Is it this reduction over the last axis of `of`, one element for each row? */
static bool reduces_rows(struct search *s, uint32_t node, unsigned op, uint32_t of) {
	const struct tensor_type *rows = node_at(s, of)->type;
	const struct node *n;

	if (!is_column_of(node_at(s, node)->type, rows))
		return false;
	while (node_at(s, node)->op == OP_reshape || is_real_cast(s, node)) {
		node = node_at(s, node)->in[0];
		s->parts++;
	}
	n = node_at(s, node);
	s->parts++;
	return n->op == op && n->attr->axes == 1U << (rows->rank - 1) && through_casts(s, n->in[0]) == of;
}

static bool add_scale(struct search *s, uint32_t number, bool divides) {
	struct attended *a = &s->found;

	if (number == GRAPH_NONE || a->scales == ATTENDED_SCALES)
		return false;
	a->divides[a->scales] = divides;
	a->scale[a->scales++] = number;
	s->parts++;
	return true;
}

/* x * number, number * x or x / number: what is left is in *nodep. */
static bool take_scale(struct search *s, uint32_t *nodep) {
	const struct node *n = node_at(s, *nodep);

	if (n->op != OP_mul && n->op != OP_div)
		return false;
	for (unsigned i = n->op == OP_div; i < 2; i++) {
		if (!space_equal(node_at(s, n->in[1 - i])->type, n->type))
			continue;
		if (add_scale(s, number_of(s, n->in[i]), n->op == OP_div)) {
			*nodep = n->in[1 - i];
			return true;
		}
	}
	return false;
}

/* The last two axes of something else change places. */
static bool is_transposed(const struct node *n) {
	if (n->op != OP_permute)
		return false;
	for (unsigned d = 0; d + 2 < n->type->rank; d++)
		if (n->attr->perm[d] != d)
			return false;
	return n->attr->perm[n->type->rank - 1] == n->type->rank - 2;
}

static bool match_product(struct search *s, uint32_t node) {
	const struct node *n = node_at(s, node);

	if (n->op != OP_matmul)
		return false;
	s->parts++;
	s->queries = n->in[0];
	s->keys = n->in[1];
	while (take_scale(s, &s->queries))
		continue;
	while (take_scale(s, &s->keys))
		continue;
	s->found.across = !is_transposed(node_at(s, s->keys));
	if (!s->found.across)
		s->keys = node_at(s, s->keys)->in[0];
	return true;
}

static bool match_scaled(struct search *s, uint32_t node) {
	node = through_casts(s, node);
	while (take_scale(s, &node))
		node = through_casts(s, node);
	return match_product(s, node);
}

/* Scores + mask, or mask + scores. */
static bool match_added(struct search *s, const struct node *n) {
	struct search before = *s;

	for (unsigned i = 0; i < 2; i++) {
		*s = before;
		s->parts++;
		s->mask = n->in[1 - i];
		if (is_real(node_at(s, s->mask)) && space_equal(node_at(s, n->in[i])->type, n->type) &&
			match_scaled(s, n->in[i]))
			return true;
	}
	*s = before;
	return false;
}

static bool match_where(struct search *s, const struct node *n) {
	s->parts++;
	s->mask = n->in[0];
	s->found.hidden = number_of(s, n->in[2]);
	return s->found.hidden != GRAPH_NONE && space_equal(node_at(s, n->in[1])->type, n->type) &&
		match_scaled(s, n->in[1]);
}

static bool match_scores(struct search *s, uint32_t node) {
	const struct node *n = node_at(s, through_casts(s, node));

	if (n->op == OP_add)
		return match_added(s, n);
	if (n->op == OP_where)
		return match_where(s, n);
	return match_scaled(s, node);
}

/* exp(scores), or exp(scores - their largest). */
static bool match_exponentials(struct search *s, uint32_t node) {
	const struct node *n = node_at(s, node), *d;
	uint32_t inside;

	if (n->op != OP_exp)
		return false;
	s->parts++;
	inside = through_casts(s, n->in[0]);
	d = node_at(s, inside);
	if (d->op != OP_sub)
		return match_scores(s, inside);
	s->parts++;
	inside = through_casts(s, d->in[0]);
	return reduces_rows(s, d->in[1], OP_reduce_max, inside) && match_scores(s, inside);
}

/* A division of something by the sums of these exponentials. */
static bool divides_by_sums(struct search *s, const struct node *n, uint32_t exponentials) {
	return n->op == OP_div && reduces_rows(s, n->in[1], OP_reduce_sum, exponentials);
}

/* softmax(scores) @ values */
static bool match_softmax_first(struct search *s, const struct node *last) {
	const struct node *weights;
	uint32_t exponentials;

	if (last->op != OP_matmul)
		return false;
	weights = node_at(s, through_casts(s, last->in[0]));
	if (weights->op != OP_div)
		return false;
	s->parts += 2;
	s->values = last->in[1];
	exponentials = through_casts(s, weights->in[0]);
	return space_equal(weights->type, node_at(s, exponentials)->type) &&
		divides_by_sums(s, weights, exponentials) && match_exponentials(s, exponentials);
}

/* exp(scores) @ values / sums */
static bool match_division_last(struct search *s, const struct node *last) {
	const struct node *product;
	uint32_t exponentials;

	if (last->op != OP_div)
		return false;
	product = node_at(s, through_casts(s, last->in[0]));
	if (product->op != OP_matmul || !space_equal(product->type, last->type))
		return false;
	s->parts += 2;
	s->values = product->in[1];
	exponentials = through_casts(s, product->in[0]);
	return divides_by_sums(s, last, exponentials) && match_exponentials(s, exponentials);
}

/* All that the kernel needs of what was found: types that meet in one register, and something to do. */
static bool fits(const struct search *s, const struct node *last) {
	const struct node *keys = node_at(s, s->keys);
	unsigned reg = dtype_info(last->type->dtype)->reg;

	for (unsigned i = 0; i < 3; i++) {
		const struct node *n = node_at(s, i == 0 ? s->queries : i == 1 ? s->keys : s->values);

		if (!is_real(n) || dtype_info(n->type->dtype)->reg != reg)
			return false;
	}
	return is_real(last) && shape_elements(last->type) && shape_elements(keys->type);
}

/* Makes the node an attention on what was found. */
static int replace(struct search *s, struct node *n) {
	struct attended *a = arena_alloc(&s->p->arena, sizeof *a);

	if (!a)
		return -ENOMEM;
	*a = s->found;
	a->parts = s->parts;
	n->attended = a;
	n->op = OP_attention;
	n->attr = &a->attr;
	n->arity = s->mask == GRAPH_NONE ? 3 : 4;
	n->in[ATTENTION_Q] = s->queries;
	n->in[ATTENTION_K] = s->keys;
	n->in[ATTENTION_V] = s->values;
	n->in[ATTENTION_MASK] = s->mask;
	return 0;
}

static bool found(struct search *s, struct planner *p, const struct node *n) {
	static bool (*const match[])(struct search *, const struct node *) = { match_softmax_first, match_division_last };

	for (unsigned i = 0; i < sizeof match / sizeof *match; i++) {
		*s = (struct search){ .p = p, .mask = GRAPH_NONE, .found.hidden = GRAPH_NONE };
		if (match[i](s, n) && fits(s, n))
			return true;
	}
	return false;
}

int fast_attention(struct planner *p) {
	struct search s;
	int r = 0;

	if (!p->o->fast || !p->o->fuse || p->o->patterns_off & pattern_bit(PATTERN_attention) || p->o->apart.count)
		return 0;
	for (uint32_t i = 0; !r && i < p->nodes; i++)
		if ((p->node[i].op == OP_matmul || p->node[i].op == OP_div) && found(&s, p, &p->node[i]))
			r = replace(&s, &p->node[i]);
	return r;
}

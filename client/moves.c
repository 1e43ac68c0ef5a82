/*
 * Gradients of operations that move elements or go along an axis: views, gathers, scatters, scans, sorting, windows;
 * and of the matrix product and of clamp, which asks what its bounds are. Texts of ops.def say the rest (rule.h).
 *
 * Where PyTorch has made a choice it is ours, too: of equal maxima of a window the first takes the gradient, of
 * equal elements of a running maximum the last, and updates of one place that others overwrite get none.
 */
#include <stdlib.h>
#include <string.h>

#include "rule.h"

enum {
	READS_RESULT = RULE_RESULT,
	READS_A = 1 << RULE_OPERANDS,
	READS_B = READS_A << 1,
	READS_C = READS_A << 2,
};

#define IN(i) (&c->in[i]->type)

/* ---- the same elements ---- */

static int same(const struct rule_call *c, struct value **gradp) {
	gradp[0] = c->g;
	return 0;
}

static int back_cast(const struct rule_call *c, struct value **gradp) {
	gradp[0] = site_cast(c->site, c->g, (enum dtype)IN(0)->dtype);
	return c->site->failed;
}

static int back_reshape(const struct rule_call *c, struct value **gradp) {
	gradp[0] = site_reshape(c->site, c->g, IN(0)->rank, IN(0)->dims);
	return c->site->failed;
}

static int back_permute(const struct rule_call *c, struct value **gradp) {
	struct op_attr attr = { .rank = c->attr->rank };

	for (unsigned d = 0; d < attr.rank; d++)
		attr.perm[c->attr->perm[d]] = (uint8_t)d;
	gradp[0] = site_op(c->site, OP_permute, &attr, 1, &c->g);
	return c->site->failed;
}

static int back_flip(const struct rule_call *c, struct value **gradp) {
	gradp[0] = site_op(c->site, OP_flip, c->attr, 1, &c->g);
	return c->site->failed;
}

/* ---- slices, pads, joins ---- */

/* g between zeros: low elements before it, and so many in all. */
static struct value *between(struct site *s, struct value *g, const int64_t *low, const int64_t *dims) {
	struct op_attr attr = { 0 };

	if (!g)
		return NULL;
	attr.rank = g->type.rank;
	memcpy(attr.dims, dims, attr.rank * sizeof *dims);
	memcpy(attr.start, low, attr.rank * sizeof *low);
	if (!memcmp(dims, g->type.dims, attr.rank * sizeof *dims))
		return g;
	return site_op(s, OP_pad, &attr, 1, &g);
}

/* step - 1 zeros behind each element of an axis, but the last. */
static struct value *apart(struct site *s, struct value *g, unsigned axis, int64_t step) {
	int64_t dims[LIMIT_RANK + 1], low[LIMIT_RANK + 1] = { 0 }, n;
	unsigned rank;

	if (!g || step == 1 || g->type.dims[axis] < 2)
		return g;
	rank = g->type.rank;
	n = g->type.dims[axis];
	if (rank == LIMIT_RANK) {
		s->failed = fault_set(&s->recording->fault, FAULT_RANK, "%s: a slice with steps of %d dimensions has no gradient",
			s->recording->what, LIMIT_RANK);
		return NULL;
	}
	for (unsigned d = 0; d <= rank; d++)
		dims[d] = d == axis + 1 ? 1 : g->type.dims[d > axis ? d - 1 : d];
	g = site_reshape(s, g, rank + 1, dims);
	dims[axis + 1] = step;
	g = between(s, g, low, dims);
	dims[axis] = n * step;
	memmove(&dims[axis + 1], &dims[axis + 2], (rank - axis - 1) * sizeof *dims);
	g = site_reshape(s, g, rank, dims);
	return site_slice(s, g, axis, 0, (n - 1) * step + 1, 1);
}

static int back_slice(const struct rule_call *c, struct value **gradp) {
	struct op_attr flip = { 0 };
	struct value *g = c->g;
	int64_t low[LIMIT_RANK];

	for (unsigned d = 0; d < IN(0)->rank; d++) {
		int64_t step = c->attr->step[d], n = c->attr->dims[d];

		low[d] = c->attr->start[d];
		if (step >= 0 || n < 2)
			continue;
		flip.axes |= (uint16_t)(1U << d);
		low[d] += step * (n - 1);
	}
	if (flip.axes)
		g = site_op(c->site, OP_flip, &flip, 1, &g);
	for (unsigned d = 0; d < IN(0)->rank; d++)
		g = apart(c->site, g, d, c->attr->step[d] < 0 ? -c->attr->step[d] : c->attr->step[d]);
	gradp[0] = between(c->site, g, low, IN(0)->dims);
	return c->site->failed;
}

/* The part of g where the operand of a pad stands. */
static struct value *inner(const struct rule_call *c) {
	struct op_attr attr = { .rank = IN(0)->rank };

	for (unsigned d = 0; d < attr.rank; d++) {
		attr.start[d] = c->attr->start[d];
		attr.dims[d] = IN(0)->dims[d];
		attr.step[d] = 1;
	}
	return site_op(c->site, OP_slice, &attr, 1, &c->g);
}

/* The value stands where the operand does not. */
static struct value *outer(const struct rule_call *c) {
	struct tensor_type t = *IN(0);
	struct value *in[2] = { site_full(c->site, &t, 0), site_number(c->site, c->g, 1) };
	struct value *around = site_op(c->site, OP_pad, c->attr, 2, in);

	return site_sum(c->site, site_binary(c->site, OP_mul, c->g, around), (uint16_t)((1U << t.rank) - 1), false);
}

static int back_pad(const struct rule_call *c, struct value **gradp) {
	if (c->tracked & 1)
		gradp[0] = inner(c);
	if (c->tracked & 2)
		gradp[1] = outer(c);
	return c->site->failed;
}

static int back_concat(const struct rule_call *c, struct value **gradp) {
	unsigned axis = c->attr->axis;
	int64_t start = 0;

	for (unsigned i = 0; i < c->arity; i++) {
		int64_t n = IN(i)->dims[axis];

		if (c->tracked >> i & 1)
			gradp[i] = site_slice(c->site, c->g, axis, start, n, 1);
		start += n;
	}
	return c->site->failed;
}

/* ---- windows ---- */

/* At each place the sum of what its windows hold of it; of a stride's places only so many windows can. */
struct folding {
	struct site *s;
	int64_t size, step, dilation, extent, windows;
	int64_t candidates;          /* windows, or elements of one, that may hold a place */
};

/* For place i and candidate j the number o * size + k of the element of a window, beyond them all where there is none. */
static struct value *fold_index(const struct folding *f) {
	struct site *s = f->s;
	struct value *i = site_places(s, 2, 0, f->extent), *j = site_places(s, 2, 1, f->candidates), *o, *k, *ok, *place;
	struct value *step = site_number(s, i, (double)f->step), *zero = site_number(s, i, 0);

	if (f->dilation == 1) {
		o = site_binary(s, OP_sub, site_binary(s, OP_floor_divide, i, step), j);
		k = site_binary(s, OP_sub, i, site_binary(s, OP_mul, o, step));
		ok = site_binary(s, OP_lt, k, site_number(s, i, (double)f->size));
	} else {
		struct value *at = site_binary(s, OP_sub, i, site_binary(s, OP_mul, j, site_number(s, i, (double)f->dilation)));

		o = site_binary(s, OP_floor_divide, at, step);
		k = j;
		ok = site_binary(s, OP_eq, site_binary(s, OP_remainder, at, step), zero);
	}
	ok = site_binary(s, OP_logical_and, ok, site_binary(s, OP_ge, o, zero));
	ok = site_binary(s, OP_logical_and, ok, site_binary(s, OP_lt, o, site_number(s, i, (double)f->windows)));
	place = site_binary(s, OP_add, site_binary(s, OP_mul, o, site_number(s, i, (double)f->size)), k);
	return site_where(s, ok, place, site_number(s, i, (double)f->windows * (double)f->size));
}

/* Brings the last axis behind `axis` and joins the two. */
static struct value *join_windows(struct site *s, struct value *g, unsigned axis) {
	struct op_attr attr = { 0 };
	int64_t dims[LIMIT_RANK];
	unsigned rank;

	if (!g)
		return NULL;
	attr.rank = g->type.rank;
	rank = attr.rank - 1U;
	for (unsigned d = 0; d < attr.rank; d++)
		attr.perm[d] = (uint8_t)(d <= axis ? d : d == axis + 1 ? rank : d - 1);
	for (unsigned d = 0; d < rank; d++)
		dims[d] = g->type.dims[d] * (d == axis ? g->type.dims[rank] : 1);
	return site_reshape(s, site_op(s, OP_permute, &attr, 1, &g), rank, dims);
}

static int back_windows(const struct rule_call *c, struct value **gradp) {
	unsigned axis = c->attr->axis;
	struct folding f = { c->site, c->attr->window.size, c->attr->window.step, c->attr->window.dilation,
		IN(0)->dims[axis], c->g->type.dims[axis], 0 };
	struct value *in[2], *all;

	if (!f.windows || !shape_elements(&c->g->type)) {
		gradp[0] = NULL;
		return 0;
	}
	f.candidates = f.dilation == 1 ? (f.size + f.step - 1) / f.step : f.size;
	in[0] = join_windows(c->site, c->g, axis);
	in[1] = fold_index(&f);
	all = site_axis(c->site, OP_take, axis, 2, in);
	gradp[0] = site_sum(c->site, all, (uint16_t)(1U << (axis + 1)), false);
	return c->site->failed;
}

/* ---- gathers ---- */

/* Zeros of a shape, to which g is added along an axis where index says. */
static struct value *add_back(struct site *s, const struct tensor_type *to, struct value *index, struct value *g, unsigned axis) {
	return site_axis(s, OP_add_along, axis, 3, (struct value *[]){ site_full(s, to, 0), index, g });
}

/* The axes of the index become one, and the others are put around it. */
static int take_back(const struct rule_call *c, unsigned axis, struct value **gradp) {
	struct value *g = c->g, *index = c->in[1];
	int64_t dims[LIMIT_RANK], one[LIMIT_RANK], n = shape_elements(IN(1));
	unsigned rank = IN(0)->rank;

	for (unsigned d = 0; d < rank; d++) {
		dims[d] = d == axis ? n : IN(0)->dims[d];
		one[d] = d == axis ? n : 1;
	}
	g = site_reshape(c->site, g, rank, dims);
	index = site_broadcast(c->site, site_reshape(c->site, index, rank, one), rank, dims);
	gradp[0] = add_back(c->site, IN(0), index, g, axis);
	return c->site->failed;
}

static int back_take(const struct rule_call *c, struct value **gradp) {
	return take_back(c, c->attr->axis, gradp);
}

static int back_embedding(const struct rule_call *c, struct value **gradp) {
	return take_back(c, 0, gradp);
}

static int back_take_along(const struct rule_call *c, struct value **gradp) {
	struct tensor_type wide = c->g->type;
	struct value *index = site_broadcast(c->site, c->in[1], wide.rank, wide.dims);

	wide.dims[c->attr->axis] = IN(0)->dims[c->attr->axis];
	gradp[0] = add_back(c->site, &wide, index, c->g, c->attr->axis);
	return c->site->failed;
}

/* ---- scatters ---- */

static struct value *gathered(const struct rule_call *c, struct value *a) {
	return site_axis(c->site, OP_take_along, c->attr->axis, 2, (struct value *[]){ a, c->in[1] });
}

static int back_add_along(const struct rule_call *c, struct value **gradp) {
	if (c->tracked & 1)
		gradp[0] = c->g;
	if (c->tracked & 4)
		gradp[2] = gathered(c, c->g);
	return c->site->failed;
}

/* The update that stayed at each place, by its number; -1: none. */
static struct value *last_updates(const struct rule_call *c, struct value *number) {
	struct tensor_type t = *IN(0);

	t.dtype = DTYPE_i64;
	return site_axis(c->site, OP_put_along, c->attr->axis, 3,
		(struct value *[]){ site_full(c->site, &t, -1), c->in[1], number });
}

static int back_put_along(const struct rule_call *c, struct value **gradp) {
	unsigned axis = c->attr->axis;
	struct value *number, *stayed;

	if (c->tracked & 1)
		gradp[0] = site_axis(c->site, OP_put_along, axis, 3,
			(struct value *[]){ c->g, c->in[1], site_full(c->site, IN(2), 0) });
	if (c->tracked & 4) {
		number = site_places(c->site, IN(2)->rank, axis, IN(2)->dims[axis]);
		number = site_broadcast(c->site, number, IN(2)->rank, IN(2)->dims);
		stayed = site_binary(c->site, OP_eq, gathered(c, last_updates(c, number)), number);
		gradp[2] = site_where(c->site, stayed, gathered(c, c->g), site_number(c->site, c->g, 0));
	}
	return c->site->failed;
}

/* The elements went to where argsort took them from. */
static int back_sort(const struct rule_call *c, struct value **gradp) {
	struct value *places = site_op(c->site, OP_argsort, c->attr, 1, &c->in[0]);

	gradp[0] = site_axis(c->site, OP_put_along, c->attr->axis, 3,
		(struct value *[]){ site_full(c->site, IN(0), 0), places, c->g });
	return c->site->failed;
}

/* ---- scans ---- */

static unsigned scan_axis(const struct rule_call *c) {
	return (unsigned)__builtin_ctz(c->attr->axes);
}

/* Sums from each element on. */
static struct value *sums_behind(const struct rule_call *c, struct value *a) {
	unsigned axis = scan_axis(c);
	struct value *back = site_axis(c->site, OP_flip, axis, 1, &a);

	back = site_axis(c->site, OP_cumsum, axis, 1, &back);
	return site_axis(c->site, OP_flip, axis, 1, &back);
}

static int back_cumsum(const struct rule_call *c, struct value **gradp) {
	gradp[0] = sums_behind(c, c->g);
	return c->site->failed;
}

/*
 * Before the first 0 of a row an element stands in every product behind it as a factor, which is divided out. The first 0
 * itself gets the products as if it were 1, and what is behind it nothing.
 */
static int back_cumprod(const struct rule_call *c, struct value **gradp) {
	struct site *s = c->site;
	unsigned axis = scan_axis(c);
	struct value *a = c->in[0], *zero = site_number(s, a, 0), *one = site_number(s, a, 1);
	struct value *is_zero = site_binary(s, OP_eq, a, zero), *safe = site_where(s, is_zero, one, a);
	struct value *zeros = site_axis(s, OP_cumsum, axis, 1, &is_zero), *first, *products, *all, *as_one;

	first = site_binary(s, OP_logical_and, is_zero, site_binary(s, OP_eq, zeros, site_number(s, zeros, 1)));
	products = site_where(s, first, one, a);
	products = site_axis(s, OP_cumprod, axis, 1, &products);
	all = site_binary(s, OP_div, sums_behind(c, site_binary(s, OP_mul, c->g, c->y)), safe);
	as_one = sums_behind(c, site_binary(s, OP_mul, c->g, products));
	gradp[0] = site_where(s, first, as_one,
		site_where(s, site_binary(s, OP_eq, zeros, site_number(s, zeros, 0)), all, zero));
	return s->failed;
}

/* Each result is the element at the last place so far that reached it. */
static int back_cumulative(const struct rule_call *c, struct value **gradp) {
	struct site *s = c->site;
	unsigned axis = scan_axis(c);
	struct value *place = site_places(s, IN(0)->rank, axis, IN(0)->dims[axis]), *reached;

	reached = site_where(s, site_binary(s, OP_eq, c->in[0], c->y), place, site_number(s, place, 0));
	reached = site_axis(s, OP_cummax, axis, 1, &reached);
	gradp[0] = add_back(s, IN(0), reached, c->g, axis);
	return s->failed;
}

/* ---- the matrix product ---- */

/* Leading axes and rows as one, where all matrices meet the same other one. */
static struct value *as_rows(struct site *s, struct value *a) {
	int64_t dims[2] = { 1, 0 };

	if (!a)
		return NULL;
	for (unsigned d = 0; d + 1U < a->type.rank; d++)
		dims[0] *= a->type.dims[d];
	dims[1] = a->type.dims[a->type.rank - 1];
	return site_reshape(s, a, 2, dims);
}

static int back_matmul(const struct rule_call *c, struct value **gradp) {
	struct site *s = c->site;
	struct value *a = c->in[0], *b = c->in[1], *g = c->g;

	if (c->tracked & 1)
		gradp[0] = site_binary(s, OP_matmul, g, site_transpose(s, b));
	if (!(c->tracked & 2))
		return s->failed;
	if (b->type.rank == 2 && a->type.rank > 2) {
		a = as_rows(s, a);
		g = as_rows(s, g);
	}
	gradp[1] = site_binary(s, OP_matmul, site_transpose(s, a), g);
	return s->failed;
}

/* ---- clamp ---- */

/* Numbers, which nobody differentiates by, take all of the gradient at themselves, as PyTorch has it; infinite ones bound nothing. */
static const char within_numbers[] =
	"where(logical_and(logical_or(gt(a, b), eq(b, -inf)), logical_or(lt(a, c), eq(c, inf))), g, 0)";

static bool is_number(const struct value *v) {
	return v->op == OP_fill && v->type.rank == 0;
}

/* Arrays share it with what is equal to them: that is the text of ops.def. */
static int back_clamp(const struct rule_call *c, struct value **gradp) {
	struct value *const operand[] = { c->g, c->in[0], c->in[1], c->in[2] };
	const struct op_info *info = op_info(c->op);
	bool numbers = is_number(c->in[1]) && is_number(c->in[2]);
	int failed = 0;

	for (unsigned i = 0; !failed && i < c->arity; i++) {
		struct expr *e;

		if (!(c->tracked >> i & 1))
			continue;
		e = rule_text(c->site, numbers && i == 0 ? within_numbers : info->gradient[i], "g, a, b, c");
		failed = e ? site_expand(c->site, info->name, e, 4, operand, c->attr, NULL, &gradp[i]) : c->site->failed;
		free(e);
	}
	return failed;
}

/* ---- the table ---- */

static const struct rule_code rules[OP_COUNT] = {
	[OP_cast] = { back_cast, { 0 } },
	[OP_copy] = { same, { 0 } },
	[OP_reshape] = { back_reshape, { 0 } },
	[OP_permute] = { back_permute, { 0 } },
	[OP_broadcast] = { same, { 0 } },
	[OP_slice] = { back_slice, { 0 } },
	[OP_flip] = { back_flip, { 0 } },
	[OP_windows] = { back_windows, { 0 } },
	[OP_pad] = { back_pad, { 0 } },
	[OP_concat] = { back_concat, { 0 } },
	[OP_take] = { back_take, { READS_B } },
	[OP_embedding] = { back_embedding, { READS_B } },
	[OP_take_along] = { back_take_along, { READS_B } },
	[OP_put_along] = { back_put_along, { READS_B, 0, READS_B } },
	[OP_add_along] = { back_add_along, { 0, 0, READS_B } },
	[OP_sort] = { back_sort, { READS_A } },
	[OP_cumsum] = { back_cumsum, { 0 } },
	[OP_cumprod] = { back_cumprod, { READS_A | READS_RESULT } },
	[OP_cummax] = { back_cumulative, { READS_A | READS_RESULT } },
	[OP_cummin] = { back_cumulative, { READS_A | READS_RESULT } },
	[OP_matmul] = { back_matmul, { READS_B, READS_A } },
	[OP_clamp] = { back_clamp, { READS_A | READS_B | READS_C, READS_A | READS_B | READS_C, READS_A | READS_B | READS_C } },
};

const struct rule_code *rule_code(unsigned op) {
	static const struct rule_code none;

	if (rule_kept(op))
		return rule_kept(op);
	return op < OP_COUNT ? &rules[op] : &none;
}

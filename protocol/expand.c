/*
 * Expressions become operations; see expand.h for the rules.
 *
 * An evaluation walks from the result to what it needs and keeps each node's value, so every node is made
 * once and branches that given() does not take are not made at all. The recursion is as deep as the
 * expression, which the parser bounds.
 */
#include "expand.h"

#include <string.h>

#include "attribute.h"

enum value_kind {
	VALUE_NONE,     /* not evaluated yet */
	VALUE_ARRAY,
	VALUE_NUMBER,
	VALUE_LIST,
	VALUE_DTYPE,
};

struct value {
	enum value_kind kind;
	uint32_t array;
	unsigned count;                  /* LIST */
	double number;                   /* NUMBER; DTYPE: enum dtype */
	int64_t list[LIMIT_RANK];
};

/* A narrow float in f32; each is cast once. */
struct widened {
	uint32_t from, to;
};

struct run {
	const struct expand_call *call;
	const struct expand_target *target;
	struct value value[EXPR_NODES];
	struct widened widened[EXPR_NODES];
	unsigned wide;
	struct fault *fault;
};

static const char *const value_words[] = {
	[VALUE_NONE] = "nothing",
	[VALUE_ARRAY] = "an array",
	[VALUE_NUMBER] = "a number",
	[VALUE_LIST] = "a list",
	[VALUE_DTYPE] = "an element type",
};

static int evaluate(struct run *r, unsigned node, const struct value **valuep);

/* ---- refusing ---- */

static const struct expr_node *node_of(const struct run *r, unsigned node) {
	return &r->call->expr->node[node];
}

static const char *node_name(const struct expr_node *n) {
	if (n->kind == EXPR_FUNCTION)
		return expr_function_name((enum expr_function)n->which);
	return n->kind == EXPR_OPERATION ? op_info(n->which)->name : "the list";
}

/* Says where in the text a fault of an operation came up. */
static int located(const struct run *r, unsigned node, int failed) {
	if (failed > 0 && r->fault)
		fault_prefix(r->fault, "%s, column %u", r->call->name, node_of(r, node)->at + 1U);
	return failed;
}

static int refuse_value(struct run *r, unsigned node, unsigned argument, enum value_kind is, const char *wanted) {
	return located(r, node,
		fault_set(r->fault, FAULT_ARGUMENT, "argument %u of %s is %s, not %s", argument + 1,
			node_name(node_of(r, node)), value_words[is], wanted));
}

/* ---- arguments ---- */

static int take(struct run *r, unsigned node, unsigned argument, enum value_kind kind, const struct value **valuep) {
	int failed = evaluate(r, node_of(r, node)->in[argument], valuep);

	if (failed || (*valuep)->kind == kind)
		return failed;
	return refuse_value(r, node, argument, (*valuep)->kind, value_words[kind]);
}

static const struct tensor_type *type_of(const struct run *r, uint32_t array) {
	return r->target->type(r->target->into, array);
}

static int make(struct run *r, unsigned node, unsigned op, unsigned n, const uint32_t *in,
	const struct op_attr *attr, uint32_t *arrayp) {
	return located(r, node, r->target->op(r->target->into, op, n, in, attr, arrayp, r->fault));
}

static int make_cast(struct run *r, unsigned node, enum dtype dtype, uint32_t *arrayp) {
	struct op_attr attr = { .dtype = (uint8_t)dtype };

	if (type_of(r, *arrayp)->dtype == dtype)
		return 0;
	return make(r, node, OP_cast, 1, arrayp, &attr, arrayp);
}

/* Whatever computes takes f16 and bf16 in f32; views and gathers leave them as they are. */
static int widen(struct run *r, unsigned node, uint32_t *arrayp) {
	enum dtype dtype = type_of(r, *arrayp)->dtype;
	uint32_t from = *arrayp;
	int failed;

	if (dtype_info(dtype)->kind != DTYPE_KIND_REAL || dtype_info(dtype)->reg == dtype)
		return 0;
	for (unsigned i = 0; i < r->wide; i++)
		if (r->widened[i].from == from) {
			*arrayp = r->widened[i].to;
			return 0;
		}
	failed = make_cast(r, node, dtype_info(dtype)->reg, arrayp);
	if (!failed && r->wide < EXPR_NODES)
		r->widened[r->wide++] = (struct widened){ from, *arrayp };
	return failed;
}

static int make_number(struct run *r, unsigned node, enum dtype dtype, double number, uint32_t *arrayp) {
	struct op_attr attr = { .dtype = (uint8_t)dtype };

	if (!dtype_scalar_exact(dtype, number, &attr.value[0]))
		return located(r, node,
			fault_set(r->fault, FAULT_DTYPE, "%.17g is no value of %s", number, dtype_info(dtype)->name));
	return make(r, node, OP_fill, 0, NULL, &attr, arrayp);
}

static int make_shape(struct run *r, unsigned node, unsigned op, uint32_t array, unsigned rank, const int64_t *dims,
	uint32_t *arrayp) {
	struct op_attr attr = { .rank = (uint8_t)rank };

	memcpy(attr.dims, dims, rank * sizeof *dims);
	return make(r, node, op, 1, &array, &attr, arrayp);
}

/* The type in which an expression computes where no array says it. */
static enum dtype working_dtype(const struct run *r) {
	for (unsigned i = 0; i < r->call->operands; i++)
		if (type_of(r, r->call->operand[i])->dtype == DTYPE_f64)
			return DTYPE_f64;
	return DTYPE_f32;
}

/* An axis of a rank; negative ones count from the end. */
static int check_axis(struct run *r, unsigned node, int64_t axis, unsigned rank, unsigned *axisp) {
	if (axis < -(int64_t)rank || axis >= (int64_t)rank)
		return located(r, node,
			fault_set(r->fault, FAULT_ARGUMENT, "axis %lld does not exist where there are %u",
				(long long)axis, rank));
	*axisp = (unsigned)(axis < 0 ? axis + rank : axis);
	return 0;
}

/* A list of axes, or one, as a set. */
static int take_axes(struct run *r, unsigned node, unsigned argument, unsigned rank, uint16_t *axesp) {
	const struct value *v;
	int failed = evaluate(r, node_of(r, node)->in[argument], &v);
	unsigned axis = 0, count;

	*axesp = 0;
	if (!failed && v->kind != VALUE_LIST && v->kind != VALUE_NUMBER)
		return refuse_value(r, node, argument, v->kind, "axes");
	if (failed)
		return failed;
	count = v->kind == VALUE_LIST ? v->count : 1;
	for (unsigned i = 0; !failed && i < count; i++) {
		failed = check_axis(r, node, v->kind == VALUE_LIST ? v->list[i] : (int64_t)v->number, rank, &axis);
		if (!failed)
			*axesp |= (uint16_t)(1U << axis);
	}
	return failed;
}

/* ---- functions: each is described where it is defined ---- */

typedef int function(struct run *r, unsigned node, struct value *v);

static int take_array(struct run *r, unsigned node, unsigned argument, uint32_t *arrayp,
	struct tensor_type *typep) {
	const struct value *v;
	int failed = take(r, node, argument, VALUE_ARRAY, &v);

	if (failed)
		return failed;
	*arrayp = v->array;
	*typep = *type_of(r, v->array);
	return 0;
}

static void give_number(struct value *v, double number) {
	v->kind = VALUE_NUMBER;
	v->number = number;
}

static void give_array(struct value *v, uint32_t array) {
	v->kind = VALUE_ARRAY;
	v->array = array;
}

/* The shape of an array, or one given as a list. */
static int take_shape(struct run *r, unsigned node, struct tensor_type *typep) {
	const struct value *v;
	int failed = evaluate(r, node_of(r, node)->in[0], &v);

	if (!failed && v->kind != VALUE_ARRAY && v->kind != VALUE_LIST)
		return refuse_value(r, node, 0, v->kind, "an array or a list");
	if (failed)
		return failed;
	if (v->kind == VALUE_ARRAY) {
		*typep = *type_of(r, v->array);
		return 0;
	}
	typep->rank = (uint8_t)v->count;
	memcpy(typep->dims, v->list, v->count * sizeof *v->list);
	return 0;
}

/* count(a, axes): how many elements a has over the axes, or in all. */
static int call_count(struct run *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	uint16_t axes = UINT16_MAX;
	double count = 1;
	int failed = take_shape(r, node, &t);

	if (!failed && node_of(r, node)->arity == 2)
		failed = take_axes(r, node, 1, t.rank, &axes);
	for (unsigned d = 0; !failed && d < t.rank; d++)
		if (axes >> d & 1)
			count *= (double)t.dims[d];
	give_number(v, count);
	return failed;
}

/* extent(a, axis) */
static int call_extent(struct run *r, unsigned node, struct value *v) {
	const struct value *which;
	struct tensor_type t = { 0 };
	unsigned axis = 0;
	int failed = take_shape(r, node, &t);

	if (!failed)
		failed = take(r, node, 1, VALUE_NUMBER, &which);
	if (!failed)
		failed = check_axis(r, node, (int64_t)which->number, t.rank, &axis);
	if (!failed)
		give_number(v, (double)t.dims[axis]);
	return failed;
}

/* shape(a): the list of its extents. */
static int call_shape(struct run *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (failed)
		return failed;
	v->kind = VALUE_LIST;
	v->count = t.rank;
	memcpy(v->list, t.dims, t.rank * sizeof *t.dims);
	return 0;
}

/* 0, 1, ... n - 1 in the narrowest of i32 and i64 that also holds n. */
static int make_iota(struct run *r, unsigned node, int64_t n, uint32_t *arrayp) {
	struct op_attr attr = { .dtype = n <= INT32_MAX ? DTYPE_i32 : DTYPE_i64, .rank = 1, .dims = { n } };

	attr.value[1] = 1;
	return make(r, node, OP_arange, 0, NULL, &attr, arrayp);
}

/* index(a, axes): the place of each element over the axes in row-major order; of extent 1 elsewhere. */
static int call_index(struct run *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK], n = 1;
	struct tensor_type t = { 0 };
	uint16_t axes;
	uint32_t array = 0;
	int failed = take_shape(r, node, &t);

	if (!failed)
		failed = take_axes(r, node, 1, t.rank, &axes);
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank; d++) {
		dims[d] = axes >> d & 1 ? t.dims[d] : 1;
		n *= dims[d];
	}
	failed = make_iota(r, node, n, &array);
	if (!failed)
		failed = make_shape(r, node, OP_reshape, array, t.rank, dims, &array);
	give_array(v, array);
	return failed;
}

/* iota(n): 0, 1, ... n - 1. */
static int call_iota(struct run *r, unsigned node, struct value *v) {
	const struct value *n;
	uint32_t array = 0;
	int failed = take(r, node, 0, VALUE_NUMBER, &n);

	if (!failed)
		failed = make_iota(r, node, (int64_t)n->number, &array);
	give_array(v, array);
	return failed;
}

/* transpose(a): the last two axes change places. */
static int call_transpose(struct run *r, unsigned node, struct value *v) {
	struct op_attr attr = { 0 };
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (!failed && t.rank < 2)
		return located(r, node, fault_set(r->fault, FAULT_SHAPE, "transpose needs at least 2 dimensions"));
	if (failed)
		return failed;
	attr.rank = t.rank;
	for (unsigned d = 0; d < t.rank; d++)
		attr.perm[d] = (uint8_t)d;
	attr.perm[t.rank - 1] = (uint8_t)(t.rank - 2);
	attr.perm[t.rank - 2] = (uint8_t)(t.rank - 1);
	failed = make(r, node, OP_permute, 1, &array, &attr, &array);
	give_array(v, array);
	return failed;
}

/* along(w, a, axis): the vector w so that it lies along that axis of a. */
static int call_along(struct run *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK];
	struct tensor_type t = { 0 }, vector = { 0 };
	uint16_t axes;
	uint32_t array, beside;
	int failed = take_array(r, node, 0, &array, &vector);

	if (!failed)
		failed = take_array(r, node, 1, &beside, &t);
	if (!failed)
		failed = take_axes(r, node, 2, t.rank, &axes);
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank; d++)
		dims[d] = axes >> d & 1 ? shape_elements(&vector) : 1;
	failed = make_shape(r, node, OP_reshape, array, t.rank, dims, &array);
	give_array(v, array);
	return failed;
}

static unsigned members(unsigned set) {
	return (unsigned)__builtin_popcount(set);
}

/* How many axes an argument names: a list's length, or one. */
static int count_axes(struct run *r, unsigned node, unsigned argument, unsigned *countp) {
	const struct value *v;
	int failed = evaluate(r, node_of(r, node)->in[argument], &v);

	*countp = failed ? 0 : v->kind == VALUE_LIST ? v->count : 1;
	return failed;
}

/* insert(a, axes): a with axes of extent 1 put in; they are axes of the result. */
static int call_insert(struct run *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK];
	struct tensor_type t = { 0 };
	uint16_t axes;
	uint32_t array = 0;
	unsigned more = 0, from = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = count_axes(r, node, 1, &more);
	if (!failed && t.rank + more > LIMIT_RANK)
		return located(r, node, fault_set(r->fault, FAULT_RANK, "more than %d dimensions", LIMIT_RANK));
	if (!failed)
		failed = take_axes(r, node, 1, t.rank + more, &axes);
	if (!failed && members(axes) != more)
		return located(r, node, fault_set(r->fault, FAULT_ARGUMENT, "an axis is named twice"));
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank + more; d++)
		dims[d] = axes >> d & 1 ? 1 : t.dims[from++];
	failed = make_shape(r, node, OP_reshape, array, t.rank + more, dims, &array);
	give_array(v, array);
	return failed;
}

/* drop(a, axes): a without these axes, whose extents are 1. */
static int call_drop(struct run *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK];
	struct tensor_type t = { 0 };
	uint16_t axes;
	uint32_t array = 0;
	unsigned rank = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = take_axes(r, node, 1, t.rank, &axes);
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank; d++)
		if (!(axes >> d & 1))
			dims[rank++] = t.dims[d];
	failed = make_shape(r, node, OP_reshape, array, rank, dims, &array);
	give_array(v, array);
	return failed;
}

static bool is_absent(const struct run *r, const struct expr_node *n) {
	return n->kind == EXPR_OPERAND && n->which >= r->call->operands;
}

/* given(c, a, b): a where the operand c is there, or the number c is not 0; else b. Only that is made. */
static int call_given(struct run *r, unsigned node, struct value *v) {
	const struct expr_node *n = node_of(r, node), *condition = node_of(r, n->in[0]);
	const struct value *chosen;
	bool is = !is_absent(r, condition);
	int failed = 0;

	if (condition->kind != EXPR_OPERAND) {
		failed = take(r, node, 0, VALUE_NUMBER, &chosen);
		is = !failed && chosen->number != 0;
	}
	if (!failed)
		failed = evaluate(r, n->in[is ? 1 : 2], &chosen);
	if (!failed)
		*v = *chosen;
	return failed;
}

static int take_number(struct run *r, unsigned node, unsigned argument, double *numberp) {
	const struct value *v;
	int failed = take(r, node, argument, VALUE_NUMBER, &v);

	*numberp = failed ? 0 : v->number;
	return failed;
}

/* range(a, b): a, a + 1, ... b - 1. */
static int call_range(struct run *r, unsigned node, struct value *v) {
	double first, end;
	int failed = take_number(r, node, 0, &first);

	if (!failed)
		failed = take_number(r, node, 1, &end);
	if (failed)
		return failed;
	if (end - first > LIMIT_RANK)
		return located(r, node,
			fault_set(r->fault, FAULT_RANK, "the list has more than %d entries", LIMIT_RANK));
	v->kind = VALUE_LIST;
	while (first + v->count < end) {
		v->list[v->count] = (int64_t)first + v->count;
		v->count++;
	}
	return 0;
}

/* length(list) */
static int call_length(struct run *r, unsigned node, struct value *v) {
	const struct value *list;
	int failed = take(r, node, 0, VALUE_LIST, &list);

	if (!failed)
		give_number(v, list->count);
	return failed;
}

/* part(list, from, to): its entries from one index, up to but without another. */
static int call_part(struct run *r, unsigned node, struct value *v) {
	const struct value *list;
	double from, to;
	int failed = take(r, node, 0, VALUE_LIST, &list);

	if (!failed)
		failed = take_number(r, node, 1, &from);
	to = failed ? 0 : list->count;
	if (!failed && node_of(r, node)->arity == 3)
		failed = take_number(r, node, 2, &to);
	if (failed)
		return failed;
	if (!(from >= 0 && to >= from && to <= list->count))
		return located(r, node, fault_set(r->fault, FAULT_ARGUMENT, "no part from %g to %g of a list of %u",
						from, to, list->count));
	v->kind = VALUE_LIST;
	v->count = (unsigned)to - (unsigned)from;
	memcpy(v->list, list->list + (unsigned)from, v->count * sizeof *v->list);
	return 0;
}

/* The spatial axes of an operand are those from 2 on; a list says something of each. */
static int take_spatial(struct run *r, unsigned node, unsigned argument, const struct tensor_type *t,
	const struct value **listp) {
	int failed = take(r, node, argument, VALUE_LIST, listp);

	if (failed || (*listp)->count + 2 == t->rank)
		return failed;
	return located(r, node, fault_set(r->fault, FAULT_ARGUMENT, "%u entries for the axes behind the first two of %u",
					(*listp)->count, t->rank));
}

/* unfold(a, window, stride, dilation): windows along the spatial axes, their elements on new axes at the end. */
static int call_unfold(struct run *r, unsigned node, struct value *v) {
	const struct value *window = NULL, *stride = NULL, *dilation = NULL;
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = take_spatial(r, node, 1, &t, &window);
	if (!failed)
		failed = take_spatial(r, node, 2, &t, &stride);
	if (!failed && node_of(r, node)->arity == 4)
		failed = take_spatial(r, node, 3, &t, &dilation);
	for (unsigned d = 2; !failed && d < t.rank; d++) {
		struct op_attr attr = { .axis = (uint8_t)d };

		attr.window.size = window->list[d - 2];
		attr.window.step = stride->list[d - 2];
		attr.window.dilation = dilation ? dilation->list[d - 2] : 1;
		failed = make(r, node, OP_windows, 1, &array, &attr, &array);
	}
	give_array(v, array);
	return failed;
}

/* A binary operation with a number of the array's type. */
static int make_with(struct run *r, unsigned node, unsigned op, uint32_t array, double number, uint32_t *arrayp) {
	uint32_t in[2] = { array };
	int failed = make_number(r, node, type_of(r, array)->dtype, number, &in[1]);

	return failed ? failed : make(r, node, op, 2, in, NULL, arrayp);
}

/* where(condition, number, array) */
static int make_choice(struct run *r, unsigned node, uint32_t condition, double number, uint32_t array,
	uint32_t *arrayp) {
	uint32_t in[3] = { condition, 0, array };
	int failed = make_number(r, node, type_of(r, array)->dtype, number, &in[1]);

	return failed ? failed : make(r, node, OP_where, 3, in, NULL, arrayp);
}

/* One axis with `padding` more elements of a value on either side: gathered, what lies outside being 0. */
static int make_border(struct run *r, unsigned node, unsigned axis, int64_t padding, double value,
	uint32_t *arrayp) {
	const struct tensor_type t = *type_of(r, *arrayp);
	struct op_attr attr = { .axis = (uint8_t)axis };
	int64_t n = t.dims[axis], dims[LIMIT_RANK];
	uint32_t in[2] = { *arrayp }, index = 0, outside = 0;
	int failed = make_iota(r, node, n + 2 * padding, &index);

	for (unsigned d = 0; d < t.rank; d++)
		dims[d] = d == axis ? n + 2 * padding : 1;
	if (!failed)
		failed = make_with(r, node, OP_sub, index, (double)padding, &index);
	if (!failed)
		failed = make_with(r, node, OP_lt, index, 0, &outside);
	if (!failed)
		failed = make_choice(r, node, outside, (double)n, index, &in[1]);
	if (!failed)
		failed = make(r, node, OP_take, 2, in, &attr, arrayp);
	if (failed || value == 0)
		return failed;
	failed = make_with(r, node, OP_ge, in[1], (double)n, &outside);
	if (!failed)
		failed = make_shape(r, node, OP_reshape, outside, t.rank, dims, &outside);
	return failed ? failed : make_choice(r, node, outside, value, *arrayp, arrayp);
}

/* border(a, padding, value): the spatial axes with so many elements of a value on either side. */
static int call_border(struct run *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	const struct value *padding = NULL;
	uint32_t array = 0;
	double value = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = take_spatial(r, node, 1, &t, &padding);
	if (!failed)
		failed = take_number(r, node, 2, &value);
	for (unsigned d = 2; !failed && d < t.rank; d++)
		if (padding->list[d - 2])
			failed = make_border(r, node, d, padding->list[d - 2], value, &array);
	give_array(v, array);
	return failed;
}

/* How many zeros a filter that runs backwards meets before the first element; below 0, elements that it leaves out. */
static int64_t reach_of(int64_t window, int64_t padding, int64_t dilation) {
	return (window - 1) * dilation - padding;
}

static int take_reach(struct run *r, unsigned node, unsigned first, const struct value **list) {
	int failed = 0;

	for (unsigned i = 0; !failed && i < 3; i++) {
		failed = take(r, node, first + i, VALUE_LIST, &list[i]);
		if (!failed && list[i]->count != list[0]->count)
			failed = located(r, node, fault_set(r->fault, FAULT_ARGUMENT, "lists of %u and %u entries", list[0]->count,
							list[i]->count));
		for (unsigned d = 0; !failed && d < list[i]->count; d++)
			if (list[i]->list[d] < 0 || list[i]->list[d] > INT32_MAX)
				failed = located(r, node, fault_set(r->fault, FAULT_ARGUMENT, "the entry %lld of a list of extents",
								(long long)list[i]->list[d]));
	}
	return failed;
}

/* reach(window, padding, dilation): the padding of the convolution that takes one of this padding back. */
static int call_reach(struct run *r, unsigned node, struct value *v) {
	const struct value *list[3] = { NULL };
	int failed = take_reach(r, node, 0, list);

	if (failed)
		return failed;
	v->kind = VALUE_LIST;
	v->count = list[0]->count;
	for (unsigned d = 0; d < v->count; d++) {
		int64_t reach = reach_of(list[0]->list[d], list[1]->list[d], list[2]->list[d]);

		v->list[d] = reach > 0 ? reach : 0;
	}
	return 0;
}

/* Behind each element along an axis step - 1 zeros: taken from beyond a new axis of one element. */
static int make_steps(struct run *r, unsigned node, unsigned axis, int64_t step, uint32_t *arrayp) {
	struct tensor_type t = *type_of(r, *arrayp);
	struct op_attr attr = { .axis = (uint8_t)(axis + 1) };
	uint32_t in[2] = { 0 };
	int failed;

	memmove(&t.dims[axis + 1], &t.dims[axis], (t.rank - axis) * sizeof *t.dims);
	t.dims[axis + 1] = 1;
	failed = make_shape(r, node, OP_reshape, *arrayp, t.rank + 1U, t.dims, &in[0]);
	if (!failed)
		failed = make_iota(r, node, step, &in[1]);
	if (!failed)
		failed = make(r, node, OP_take, 2, in, &attr, arrayp);
	t.dims[axis + 1] = step * t.dims[axis];
	memmove(&t.dims[axis], &t.dims[axis + 1], (t.rank - axis) * sizeof *t.dims);
	return failed ? failed : make_shape(r, node, OP_reshape, *arrayp, t.rank, t.dims, arrayp);
}

/* So many elements along an axis, without the first `skip`; zeros behind the last. */
static int make_range(struct run *r, unsigned node, unsigned axis, int64_t skip, int64_t extent, uint32_t *arrayp) {
	struct op_attr attr = { .axis = (uint8_t)axis };
	uint32_t in[2] = { *arrayp };
	int failed;

	if (!skip && extent == type_of(r, *arrayp)->dims[axis])
		return 0;
	failed = make_iota(r, node, extent, &in[1]);
	if (!failed && skip)
		failed = make_with(r, node, OP_add, in[1], (double)skip, &in[1]);
	return failed ? failed : make(r, node, OP_take, 2, in, &attr, arrayp);
}

/*
 * spread(g, extents, stride, window, padding, dilation): what a convolution reads that takes one back which slid so over
 * these extents, with the result g: its elements a stride apart, zeros between and behind them.
 */
static int call_spread(struct run *r, unsigned node, struct value *v) {
	const struct value *extents = NULL, *stride = NULL, *list[3] = { NULL };
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = take_spatial(r, node, 1, &t, &extents);
	if (!failed)
		failed = take_spatial(r, node, 2, &t, &stride);
	if (!failed)
		failed = take_spatial(r, node, 3, &t, &list[0]);
	if (!failed)
		failed = take_reach(r, node, 3, list);
	for (unsigned d = 2; !failed && d < t.rank; d++) {
		int64_t over = reach_of(list[0]->list[d - 2], 0, list[2]->list[d - 2]), reach = over - list[1]->list[d - 2];

		if (stride->list[d - 2] > 1)
			failed = make_steps(r, node, d, stride->list[d - 2], &array);
		if (!failed)
			failed = make_range(r, node, d, reach < 0 ? -reach : 0,
				extents->list[d - 2] + over - 2 * (reach > 0 ? reach : 0), &array);
	}
	give_array(v, array);
	return failed;
}

/* is_bool(a): 1 or 0. */
static int call_is_bool(struct run *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = take_array(r, node, 0, &array, &t);

	give_number(v, !failed && t.dtype == DTYPE_bool);
	return failed;
}

static function *const functions[] = {
#define FUNCTION(name, least, most) [EXPR_##name] = call_##name,
	EXPR_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* ---- elementwise operations ---- */

static bool is_number(const struct value *v) {
	return v->kind == VALUE_NUMBER;
}

/* + - * / of numbers; b is not looked at where there is one. False: the operation is not one of these. */
static bool fold(unsigned op, double a, double b, double *resultp) {
	switch (op) {
	case OP_neg:
		*resultp = -a;
		return true;
	case OP_add:
		*resultp = a + b;
		return true;
	case OP_sub:
		*resultp = a - b;
		return true;
	case OP_mul:
		*resultp = a * b;
		return true;
	case OP_div:
		*resultp = a / b;
		return true;
	case OP_maximum:
		*resultp = a > b ? a : b;
		return true;
	default:
		return false;
	}
}

/* The type in which the arrays of an operation meet and are computed. */
static enum dtype meet(const struct run *r, unsigned first, unsigned count, const struct value *const *in) {
	int dtype = -1;

	for (unsigned i = first; i < count; i++) {
		if (in[i]->kind != VALUE_ARRAY)
			continue;
		dtype = dtype < 0 ? type_of(r, in[i]->array)->dtype
				  : (int)dtype_promote((enum dtype)dtype, type_of(r, in[i]->array)->dtype);
	}
	if (dtype < 0)
		return working_dtype(r);
	return dtype_info((enum dtype)dtype)->kind == DTYPE_KIND_REAL ? dtype_info((enum dtype)dtype)->reg
								       : (enum dtype)dtype;
}

static int to_array(struct run *r, unsigned node, const struct value *v, enum dtype dtype, uint32_t *arrayp) {
	int failed;

	if (is_number(v))
		return make_number(r, node, dtype, v->number, arrayp);
	*arrayp = v->array;
	failed = widen(r, node, arrayp);
	return failed ? failed : make_cast(r, node, dtype, arrayp);
}

static int take_operands(struct run *r, unsigned node, const struct value **in, bool *foldedp) {
	const struct expr_node *n = node_of(r, node);
	int failed = 0;

	*foldedp = true;
	for (unsigned i = 0; !failed && i < n->arity; i++) {
		failed = evaluate(r, n->in[i], &in[i]);
		if (!failed && in[i]->kind != VALUE_ARRAY && !is_number(in[i]))
			return refuse_value(r, node, i, in[i]->kind, "an array or a number");
		*foldedp = *foldedp && !failed && is_number(in[i]);
	}
	return failed;
}

static int make_elementwise(struct run *r, unsigned node, struct value *v) {
	const struct expr_node *n = node_of(r, node);
	const struct value *in[EXPR_ARGUMENTS] = { NULL };
	uint32_t array[EXPR_ARGUMENTS] = { 0 };
	unsigned first = n->which == OP_where;
	enum dtype dtype;
	bool numbers;
	int failed = take_operands(r, node, in, &numbers);

	if (failed)
		return failed;
	if (numbers && n->arity && fold(n->which, in[0]->number, in[n->arity - 1]->number, &v->number)) {
		v->kind = VALUE_NUMBER;
		return 0;
	}
	dtype = meet(r, first, n->arity, in);
	for (unsigned i = 0; !failed && i < n->arity; i++)
		failed = to_array(r, node, in[i], i < first ? DTYPE_bool : dtype, &array[i]);
	if (!failed)
		failed = make(r, node, n->which, n->arity, array, NULL, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

/* ---- other operations ---- */

static int make_reduction(struct run *r, unsigned node, struct value *v) {
	const struct expr_node *n = node_of(r, node);
	struct op_attr attr = { .keepdims = true };
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = take_array(r, node, 0, &array, &t);

	if (failed)
		return failed;
	attr.axes = (uint16_t)((1U << t.rank) - 1);
	if (n->arity == 2)
		failed = take_axes(r, node, 1, t.rank, &attr.axes);
	if (!failed)
		failed = widen(r, node, &array);
	if (!failed)
		failed = make(r, node, n->which, 1, &array, &attr, &array);
	give_array(v, array);
	return failed;
}

static int set_dtype(struct run *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	const struct value *v;
	int failed = take(r, node, 1, VALUE_DTYPE, &v);

	(void)t;
	if (!failed)
		attr->dtype = (uint8_t)v->number;
	return failed;
}

/* One extent may be -1: it follows from the others. */
static int set_dims(struct run *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	int64_t known = 1, elements = shape_elements(t);
	const struct value *v;
	int failed = take(r, node, 1, VALUE_LIST, &v), open = -1;

	if (failed)
		return failed;
	attr->rank = (uint8_t)v->count;
	for (unsigned d = 0; d < v->count; d++) {
		attr->dims[d] = v->list[d];
		if (v->list[d] == -1 && node_of(r, node)->which == OP_reshape)
			open = (int)d;
		else if (__builtin_mul_overflow(known, v->list[d], &known))
			return located(r, node, fault_set(r->fault, FAULT_OVERFLOW, "the shape is too large"));
	}
	if (open >= 0 && (known <= 0 || elements % known))
		return located(r, node,
			fault_set(r->fault, FAULT_SHAPE, "%lld elements do not divide by the other extents, %lld",
				(long long)elements, (long long)known));
	if (open >= 0)
		attr->dims[open] = elements / known;
	return 0;
}

static int set_permutation(struct run *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	const struct value *v;
	int failed = take(r, node, 1, VALUE_LIST, &v);
	unsigned axis = 0;

	if (failed)
		return failed;
	attr->rank = (uint8_t)v->count;
	for (unsigned d = 0; !failed && d < v->count; d++) {
		failed = check_axis(r, node, v->list[d], t->rank, &axis);
		if (!failed)
			attr->perm[d] = (uint8_t)axis;
	}
	return failed;
}

static int set_axes(struct run *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	return take_axes(r, node, 1, t->rank, &attr->axes);
}

static int set_axis(struct run *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	const struct value *v;
	int failed = take(r, node, 2, VALUE_NUMBER, &v);
	unsigned axis = 0;

	if (!failed)
		failed = check_axis(r, node, (int64_t)v->number, t->rank, &axis);
	attr->axis = (uint8_t)axis;
	return failed;
}

/* What the last argument of a view or a gather is; the parser lets nothing else pass. */
static int (*const setters[OP_COUNT])(struct run *r, unsigned node, const struct tensor_type *t,
	struct op_attr *attr) = {
	[OP_cast] = set_dtype,
	[OP_reshape] = set_dims,
	[OP_broadcast] = set_dims,
	[OP_permute] = set_permutation,
	[OP_flip] = set_axes,
	[OP_take] = set_axis,
	[OP_take_along] = set_axis,
};

static int make_matmul(struct run *r, unsigned node, struct value *v) {
	const struct value *in[2];
	uint32_t array[2] = { 0 };
	enum dtype dtype;
	int failed = take(r, node, 0, VALUE_ARRAY, &in[0]);

	if (!failed)
		failed = take(r, node, 1, VALUE_ARRAY, &in[1]);
	if (failed)
		return failed;
	dtype = meet(r, 0, 2, in);
	for (unsigned i = 0; !failed && i < 2; i++)
		failed = to_array(r, node, in[i], dtype, &array[i]);
	if (!failed)
		failed = make(r, node, OP_matmul, 2, array, NULL, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

static int make_structural(struct run *r, unsigned node, struct value *v) {
	const struct expr_node *n = node_of(r, node);
	uint32_t array[LIMIT_OPERANDS] = { 0 };
	struct tensor_type t = { 0 }, other;
	struct op_attr attr = { 0 };
	int failed;

	if (n->which == OP_matmul)
		return make_matmul(r, node, v);
	failed = take_array(r, node, 0, &array[0], &t);
	for (unsigned i = 1; !failed && i < op_info(n->which)->arity; i++)
		failed = take_array(r, node, i, &array[i], &other);
	if (!failed && setters[n->which])
		failed = setters[n->which](r, node, &t, &attr);
	if (!failed)
		failed = make(r, node, n->which, op_info(n->which)->arity, array, &attr, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

static int set_list(struct run *r, unsigned node, unsigned argument, const struct value *v, struct op_attr *attr) {
	enum op_attribute which = (enum op_attribute)node_of(r, node)->name[argument];

	if (v->kind != VALUE_LIST)
		return refuse_value(r, node, argument, v->kind, "a list");
	attr->rank = (uint8_t)v->count;
	memcpy(attribute_list(attr, which), v->list, v->count * sizeof *v->list);
	return 0;
}

/* An argument given by name. */
static int set_named(struct run *r, unsigned node, unsigned argument, unsigned rank, struct op_attr *attr) {
	const struct expr_node *n = node_of(r, node);
	enum op_attribute which = (enum op_attribute)n->name[argument];
	const struct value *v;
	int failed;

	if (!(op_info(n->which)->attributes >> which & 1))
		return located(r, node, fault_set(r->fault, FAULT_ARGUMENT, "%s has no %s", op_info(n->which)->name,
						attribute_info(which)->name));
	if (attribute_info(which)->kind == ATTRIBUTE_KIND_AXES)
		return take_axes(r, node, argument, rank, &attr->axes);
	failed = evaluate(r, n->in[argument], &v);
	if (!failed && attribute_info(which)->kind == ATTRIBUTE_KIND_LIST)
		return set_list(r, node, argument, v, attr);
	if (!failed && v->kind != VALUE_NUMBER && v->kind != VALUE_DTYPE)
		return refuse_value(r, node, argument, v->kind, "a number");
	return failed ? failed : located(r, node, attribute_set(attr, which, v->number, r->fault));
}

/* A composite inside an expression. Operands of one type are cast to the one they meet in. */
static int make_composite(struct run *r, unsigned node, struct value *v) {
	const struct expr_node *n = node_of(r, node);
	struct op_attr attr = { 0 };
	uint32_t array[EXPR_ARGUMENTS] = { 0 };
	unsigned count = 0;
	int failed = 0;

	for (unsigned i = 0; !failed && i < n->arity; i++) {
		const struct value *in;

		if (n->name[i] != EXPR_POSITIONAL)
			continue;
		failed = take(r, node, i, VALUE_ARRAY, &in);
		if (failed)
			break;
		array[count] = in->array;
		failed = widen(r, node, &array[count++]);
	}
	for (unsigned i = 0; !failed && i < n->arity; i++)
		if (n->name[i] != EXPR_POSITIONAL)
			failed = set_named(r, node, i, count ? type_of(r, array[0])->rank : 0, &attr);
	if (!failed)
		failed = make(r, node, n->which, count, array, &attr, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

static function *const operations[] = {
	[OP_CLASS_UNARY] = make_elementwise,
	[OP_CLASS_BINARY] = make_elementwise,
	[OP_CLASS_TERNARY] = make_elementwise,
	[OP_CLASS_REDUCE] = make_reduction,
	[OP_CLASS_STRUCT] = make_structural,
	[OP_CLASS_COMPOSITE] = make_composite,
};

/* ---- values ---- */

static int value_operand(struct run *r, unsigned node, struct value *v) {
	const struct expr_node *n = node_of(r, node);

	if (is_absent(r, n))
		return located(r, node, fault_set(r->fault, FAULT_ARITY, "operand %u is missing", n->which + 1U));
	v->kind = VALUE_ARRAY;
	v->array = r->call->operand[n->which];
	return 0;
}

static int value_attribute(struct run *r, unsigned node, struct value *v) {
	enum op_attribute which = (enum op_attribute)node_of(r, node)->which;
	struct op_attr attr = *r->call->attr;

	switch (attribute_info(which)->kind) {
	case ATTRIBUTE_KIND_LIST:
		v->kind = VALUE_LIST;
		v->count = attr.rank;
		memcpy(v->list, attribute_list(&attr, which), attr.rank * sizeof *v->list);
		return 0;
	case ATTRIBUTE_KIND_AXES:
		v->kind = VALUE_LIST;
		for (unsigned d = 0; d < LIMIT_RANK; d++)
			if (attr.axes >> d & 1)
				v->list[v->count++] = d;
		return 0;
	case ATTRIBUTE_KIND_DTYPE:
		v->kind = VALUE_DTYPE;
		v->number = attribute_get(&attr, which);
		return 0;
	default:
		give_number(v, attribute_get(&attr, which));
		return 0;
	}
}

static bool is_whole(double number) {
	const double limit = (double)(INT64_C(1) << 62);

	return number >= -limit && number <= limit && number == (double)(int64_t)number;
}

/* Lists inside a list are part of it: [shape(a), 1]. */
static int value_list(struct run *r, unsigned node, struct value *v) {
	const struct expr_node *n = node_of(r, node);
	int failed = 0;

	v->kind = VALUE_LIST;
	for (unsigned i = 0; !failed && i < n->arity; i++) {
		const struct value *in;
		unsigned count;

		failed = evaluate(r, n->in[i], &in);
		if (failed)
			return failed;
		if (in->kind != VALUE_LIST && (in->kind != VALUE_NUMBER || !is_whole(in->number)))
			return refuse_value(r, node, i, in->kind, "an integer");
		count = in->kind == VALUE_LIST ? in->count : 1;
		if (v->count + count > LIMIT_RANK)
			return located(r, node,
				fault_set(r->fault, FAULT_RANK, "the list has more than %d entries", LIMIT_RANK));
		if (in->kind == VALUE_NUMBER)
			v->list[v->count] = (int64_t)in->number;
		else
			memcpy(v->list + v->count, in->list, count * sizeof *in->list);
		v->count += count;
	}
	return failed;
}

static int value_number(struct run *r, unsigned node, struct value *v) {
	give_number(v, node_of(r, node)->number);
	return 0;
}

static int value_dtype(struct run *r, unsigned node, struct value *v) {
	v->kind = VALUE_DTYPE;
	v->number = node_of(r, node)->which;
	return 0;
}

static int value_operation(struct run *r, unsigned node, struct value *v) {
	return operations[op_info(node_of(r, node)->which)->class](r, node, v);
}

static int value_function(struct run *r, unsigned node, struct value *v) {
	return functions[node_of(r, node)->which](r, node, v);
}

static function *const kinds[] = {
	[EXPR_NUMBER] = value_number,
	[EXPR_OPERAND] = value_operand,
	[EXPR_ATTRIBUTE] = value_attribute,
	[EXPR_DTYPE] = value_dtype,
	[EXPR_LIST] = value_list,
	[EXPR_OPERATION] = value_operation,
	[EXPR_FUNCTION] = value_function,
};

static int evaluate(struct run *r, unsigned node, const struct value **valuep) {
	struct value v = { .kind = VALUE_NONE };
	int failed;

	*valuep = &r->value[node];
	if (r->value[node].kind != VALUE_NONE)
		return 0;
	failed = kinds[node_of(r, node)->kind](r, node, &v);
	if (!failed)
		r->value[node] = v;
	return failed;
}

/* ---- the result ---- */

/* What the floating-point operands meet in, where that is narrower than what the text computed in. */
static enum dtype result_dtype(const struct run *r, uint32_t array) {
	enum dtype made = type_of(r, array)->dtype;
	int met = -1;

	for (unsigned i = 0; i < r->call->operands; i++) {
		enum dtype d = type_of(r, r->call->operand[i])->dtype;

		if (dtype_info(d)->kind == DTYPE_KIND_REAL)
			met = met < 0 ? (int)d : (int)dtype_promote((enum dtype)met, d);
	}
	if (met < 0 || made != DTYPE_f32 || dtype_info((enum dtype)met)->reg != DTYPE_f32)
		return made;
	return (enum dtype)met;
}

static bool same_dims(const struct tensor_type *a, const struct tensor_type *b) {
	return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

static int finish(struct run *r, const struct value *v, uint32_t *valuep) {
	const struct tensor_type *wanted = r->call->result;
	unsigned node = r->call->expr->result;
	int failed = 0;

	*valuep = v->array;
	if (is_number(v))
		failed = make_number(r, node, working_dtype(r), v->number, valuep);
	if (!failed)
		failed = make_cast(r, node, wanted ? wanted->dtype : result_dtype(r, *valuep), valuep);
	if (failed || !wanted || same_dims(type_of(r, *valuep), wanted))
		return failed;
	return make_shape(r, node, OP_reshape, *valuep, wanted->rank, wanted->dims, valuep);
}

int expand(const struct expand_call *call, const struct expand_target *target, uint32_t *valuep,
	struct fault *f) {
	struct run r;
	const struct value *v;
	int failed;

	r.call = call;
	r.target = target;
	r.wide = 0;
	r.fault = f;
	for (unsigned i = 0; i < call->expr->count; i++)
		r.value[i].kind = VALUE_NONE;
	failed = evaluate(&r, call->expr->result, &v);
	if (!failed && v->kind != VALUE_ARRAY && v->kind != VALUE_NUMBER)
		failed = fault_set(f, FAULT_ARGUMENT, "%s: the result is %s, not an array", call->name, value_words[v->kind]);
	return failed ? failed : finish(&r, v, valuep);
}

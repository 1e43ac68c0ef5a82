/*
 * Functions of expressions over the spatial axes, those from 2 on: windows, borders, and what takes a
 * convolution back.
 */
#include "expand_run.h"

#include "attribute.h"

/* The spatial axes of an operand are those from 2 on; a list says something of each. */
static int take_spatial(struct expansion *r, unsigned node, unsigned argument, const struct tensor_type *t,
	const struct value **listp) {
	int failed = expand_take(r, node, argument, VALUE_LIST, listp);

	if (failed || (*listp)->count + 2 == t->rank)
		return failed;
	return expand_locate(r, node,
		fault_set(r->fault, FAULT_ARGUMENT, "%u entries for the axes behind the first two of %u",
			(*listp)->count, t->rank));
}

/* unfold(a, window, stride, dilation): windows along the spatial axes, their elements on new axes at the end.
 */
int call_unfold(struct expansion *r, unsigned node, struct value *v) {
	const struct value *window = NULL, *stride = NULL, *dilation = NULL;
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = take_spatial(r, node, 1, &t, &window);
	if (!failed)
		failed = take_spatial(r, node, 2, &t, &stride);
	if (!failed && expand_node(r, node)->arity == 4)
		failed = take_spatial(r, node, 3, &t, &dilation);
	for (unsigned d = 2; !failed && d < t.rank; d++) {
		struct op_attr attr = { .axis = (uint8_t)d };

		attr.window.size = window->list[d - 2];
		attr.window.step = stride->list[d - 2];
		attr.window.dilation = dilation ? dilation->list[d - 2] : 1;
		failed = expand_make(r, node, OP_windows, 1, &array, &attr, &array);
	}
	give_array(v, array);
	return failed;
}

/* A binary operation with a number of the array's type. */
static int make_with(
	struct expansion *r, unsigned node, unsigned op, uint32_t array, double number, uint32_t *arrayp) {
	uint32_t in[2] = { array };
	int failed = expand_make_number(r, node, expand_type(r, array)->dtype, number, &in[1]);

	return failed ? failed : expand_make(r, node, op, 2, in, NULL, arrayp);
}

/* where(condition, number, array) */
static int make_choice(struct expansion *r, unsigned node, uint32_t condition, double number, uint32_t array,
	uint32_t *arrayp) {
	uint32_t in[3] = { condition, 0, array };
	int failed = expand_make_number(r, node, expand_type(r, array)->dtype, number, &in[1]);

	return failed ? failed : expand_make(r, node, OP_where, 3, in, NULL, arrayp);
}

/* One axis with `padding` more elements of a value on either side: gathered, what lies outside being 0. */
static int make_border(
	struct expansion *r, unsigned node, unsigned axis, int64_t padding, double value, uint32_t *arrayp) {
	const struct tensor_type t = *expand_type(r, *arrayp);
	struct op_attr attr = { .axis = (uint8_t)axis };
	int64_t n = t.dims[axis], dims[LIMIT_RANK];
	uint32_t in[2] = { *arrayp }, index = 0, outside = 0;
	int failed = expand_make_iota(r, node, n + 2 * padding, &index);

	for (unsigned d = 0; d < t.rank; d++)
		dims[d] = d == axis ? n + 2 * padding : 1;
	if (!failed)
		failed = make_with(r, node, OP_sub, index, (double)padding, &index);
	if (!failed)
		failed = make_with(r, node, OP_lt, index, 0, &outside);
	if (!failed)
		failed = make_choice(r, node, outside, (double)n, index, &in[1]);
	if (!failed)
		failed = expand_make(r, node, OP_take, 2, in, &attr, arrayp);
	if (failed || value == 0)
		return failed;
	failed = make_with(r, node, OP_ge, in[1], (double)n, &outside);
	if (!failed)
		failed = expand_make_shape(r, node, OP_reshape, outside, t.rank, dims, &outside);
	return failed ? failed : make_choice(r, node, outside, value, *arrayp, arrayp);
}

/* border(a, padding, value): the spatial axes with so many elements of a value on either side. */
int call_border(struct expansion *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	const struct value *padding = NULL;
	uint32_t array = 0;
	double value = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = take_spatial(r, node, 1, &t, &padding);
	if (!failed)
		failed = expand_take_number(r, node, 2, &value);
	for (unsigned d = 2; !failed && d < t.rank; d++)
		if (padding->list[d - 2])
			failed = make_border(r, node, d, padding->list[d - 2], value, &array);
	give_array(v, array);
	return failed;
}

/* How many zeros a filter that runs backwards meets before the first element; below 0, elements that it
 * leaves out. */
static int64_t reach_of(int64_t window, int64_t padding, int64_t dilation) {
	return (window - 1) * dilation - padding;
}

static int take_reach(struct expansion *r, unsigned node, unsigned first, const struct value **list) {
	int failed = 0;

	for (unsigned i = 0; !failed && i < 3; i++) {
		failed = expand_take(r, node, first + i, VALUE_LIST, &list[i]);
		if (!failed && list[i]->count != list[0]->count)
			failed = expand_locate(r, node,
				fault_set(r->fault, FAULT_ARGUMENT, "lists of %u and %u entries",
					list[0]->count, list[i]->count));
		for (unsigned d = 0; !failed && d < list[i]->count; d++)
			if (list[i]->list[d] < 0 || list[i]->list[d] > INT32_MAX)
				failed = expand_locate(r, node,
					fault_set(r->fault, FAULT_ARGUMENT,
						"the entry %lld of a list of extents",
						(long long)list[i]->list[d]));
	}
	return failed;
}

/* reach(window, padding, dilation): the padding of the convolution that takes one of this padding back. */
int call_reach(struct expansion *r, unsigned node, struct value *v) {
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
static int make_steps(struct expansion *r, unsigned node, unsigned axis, int64_t step, uint32_t *arrayp) {
	struct tensor_type t = *expand_type(r, *arrayp);
	struct op_attr attr = { .axis = (uint8_t)(axis + 1) };
	uint32_t in[2] = { 0 };
	int failed;

	memmove(&t.dims[axis + 1], &t.dims[axis], (t.rank - axis) * sizeof *t.dims);
	t.dims[axis + 1] = 1;
	failed = expand_make_shape(r, node, OP_reshape, *arrayp, t.rank + 1U, t.dims, &in[0]);
	if (!failed)
		failed = expand_make_iota(r, node, step, &in[1]);
	if (!failed)
		failed = expand_make(r, node, OP_take, 2, in, &attr, arrayp);
	t.dims[axis + 1] = step * t.dims[axis];
	memmove(&t.dims[axis], &t.dims[axis + 1], (t.rank - axis) * sizeof *t.dims);
	return failed ? failed : expand_make_shape(r, node, OP_reshape, *arrayp, t.rank, t.dims, arrayp);
}

/* So many elements along an axis, without the first `skip`; zeros behind the last. */
static int make_range(
	struct expansion *r, unsigned node, unsigned axis, int64_t skip, int64_t extent, uint32_t *arrayp) {
	struct op_attr attr = { .axis = (uint8_t)axis };
	uint32_t in[2] = { *arrayp };
	int failed;

	if (!skip && extent == expand_type(r, *arrayp)->dims[axis])
		return 0;
	failed = expand_make_iota(r, node, extent, &in[1]);
	if (!failed && skip)
		failed = make_with(r, node, OP_add, in[1], (double)skip, &in[1]);
	return failed ? failed : expand_make(r, node, OP_take, 2, in, &attr, arrayp);
}

/*
 * spread(g, extents, stride, window, padding, dilation): what a convolution reads that takes one back which
 * slid so over these extents, with the result g: its elements a stride apart, zeros between and behind them.
 */
int call_spread(struct expansion *r, unsigned node, struct value *v) {
	const struct value *extents = NULL, *stride = NULL, *list[3] = { NULL };
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = take_spatial(r, node, 1, &t, &extents);
	if (!failed)
		failed = take_spatial(r, node, 2, &t, &stride);
	if (!failed)
		failed = take_spatial(r, node, 3, &t, &list[0]);
	if (!failed)
		failed = take_reach(r, node, 3, list);
	for (unsigned d = 2; !failed && d < t.rank; d++) {
		int64_t over = reach_of(list[0]->list[d - 2], 0, list[2]->list[d - 2]),
			reach = over - list[1]->list[d - 2];

		if (stride->list[d - 2] > 1)
			failed = make_steps(r, node, d, stride->list[d - 2], &array);
		if (!failed)
			failed = make_range(r, node, d, reach < 0 ? -reach : 0,
				extents->list[d - 2] + over - 2 * (reach > 0 ? reach : 0), &array);
	}
	give_array(v, array);
	return failed;
}

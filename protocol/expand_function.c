/*
 * Functions of expressions: numbers and lists of shapes, views that follow from them, and given(). Each is
 * described where it is defined.
 */
#include "expand_run.h"

#include <string.h>

/* The shape of an array, or one given as a list. */
static int take_shape(struct expansion *r, unsigned node, struct tensor_type *typep) {
	const struct value *v;
	int failed = expand_value(r, expand_node(r, node)->in[0], &v);

	if (!failed && v->kind != VALUE_ARRAY && v->kind != VALUE_LIST)
		return expand_refuse(r, node, 0, v->kind, "an array or a list");
	if (failed)
		return failed;
	if (v->kind == VALUE_ARRAY) {
		*typep = *expand_type(r, v->array);
		return 0;
	}
	typep->rank = (uint8_t)v->count;
	memcpy(typep->dims, v->list, v->count * sizeof *v->list);
	return 0;
}

/* count(a, axes): how many elements a has over the axes, or in all. */
static int call_count(struct expansion *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	uint16_t axes = UINT16_MAX;
	double count = 1;
	int failed = take_shape(r, node, &t);

	if (!failed && expand_node(r, node)->arity == 2)
		failed = expand_take_axes(r, node, 1, t.rank, &axes);
	for (unsigned d = 0; !failed && d < t.rank; d++)
		if (axes >> d & 1)
			count *= (double)t.dims[d];
	give_number(v, count);
	return failed;
}

/* extent(a, axis) */
static int call_extent(struct expansion *r, unsigned node, struct value *v) {
	const struct value *which;
	struct tensor_type t = { 0 };
	unsigned axis = 0;
	int failed = take_shape(r, node, &t);

	if (!failed)
		failed = expand_take(r, node, 1, VALUE_NUMBER, &which);
	if (!failed)
		failed = expand_check_axis(r, node, (int64_t)which->number, t.rank, &axis);
	if (!failed)
		give_number(v, (double)t.dims[axis]);
	return failed;
}

/* shape(a): the list of its extents. */
static int call_shape(struct expansion *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (failed)
		return failed;
	v->kind = VALUE_LIST;
	v->count = t.rank;
	memcpy(v->list, t.dims, t.rank * sizeof *t.dims);
	return 0;
}

/* index(a, axes): the place of each element over the axes in row-major order; of extent 1 elsewhere. */
static int call_index(struct expansion *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK], n = 1;
	struct tensor_type t = { 0 };
	uint16_t axes;
	uint32_t array = 0;
	int failed = take_shape(r, node, &t);

	if (!failed)
		failed = expand_take_axes(r, node, 1, t.rank, &axes);
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank; d++) {
		dims[d] = axes >> d & 1 ? t.dims[d] : 1;
		n *= dims[d];
	}
	failed = expand_make_iota(r, node, n, &array);
	if (!failed)
		failed = expand_make_shape(r, node, OP_reshape, array, t.rank, dims, &array);
	give_array(v, array);
	return failed;
}

/* iota(n): 0, 1, ... n - 1. */
static int call_iota(struct expansion *r, unsigned node, struct value *v) {
	const struct value *n;
	uint32_t array = 0;
	int failed = expand_take(r, node, 0, VALUE_NUMBER, &n);

	if (!failed)
		failed = expand_make_iota(r, node, (int64_t)n->number, &array);
	give_array(v, array);
	return failed;
}

/* transpose(a): the last two axes change places. */
static int call_transpose(struct expansion *r, unsigned node, struct value *v) {
	struct op_attr attr = { 0 };
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (!failed && t.rank < 2)
		return expand_locate(
			r, node, fault_set(r->fault, FAULT_SHAPE, "transpose needs at least 2 dimensions"));
	if (failed)
		return failed;
	attr.rank = t.rank;
	for (unsigned d = 0; d < t.rank; d++)
		attr.perm[d] = (uint8_t)d;
	attr.perm[t.rank - 1] = (uint8_t)(t.rank - 2);
	attr.perm[t.rank - 2] = (uint8_t)(t.rank - 1);
	failed = expand_make(r, node, OP_permute, 1, &array, &attr, &array);
	give_array(v, array);
	return failed;
}

/* along(w, a, axis): the vector w so that it lies along that axis of a. */
static int call_along(struct expansion *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK];
	struct tensor_type t = { 0 }, vector = { 0 };
	uint16_t axes;
	uint32_t array, beside;
	int failed = expand_take_array(r, node, 0, &array, &vector);

	if (!failed)
		failed = expand_take_array(r, node, 1, &beside, &t);
	if (!failed)
		failed = expand_take_axes(r, node, 2, t.rank, &axes);
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank; d++)
		dims[d] = axes >> d & 1 ? shape_elements(&vector) : 1;
	failed = expand_make_shape(r, node, OP_reshape, array, t.rank, dims, &array);
	give_array(v, array);
	return failed;
}

static unsigned members(unsigned set) {
	return (unsigned)__builtin_popcount(set);
}

/* How many axes an argument names: a list's length, or one. */
static int count_axes(struct expansion *r, unsigned node, unsigned argument, unsigned *countp) {
	const struct value *v;
	int failed = expand_value(r, expand_node(r, node)->in[argument], &v);

	*countp = failed ? 0 : v->kind == VALUE_LIST ? v->count : 1;
	return failed;
}

/* insert(a, axes): a with axes of extent 1 put in; they are axes of the result. */
static int call_insert(struct expansion *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK];
	struct tensor_type t = { 0 };
	uint16_t axes;
	uint32_t array = 0;
	unsigned more = 0, from = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = count_axes(r, node, 1, &more);
	if (!failed && t.rank + more > LIMIT_RANK)
		return expand_locate(
			r, node, fault_set(r->fault, FAULT_RANK, "more than %d dimensions", LIMIT_RANK));
	if (!failed)
		failed = expand_take_axes(r, node, 1, t.rank + more, &axes);
	if (!failed && members(axes) != more)
		return expand_locate(r, node, fault_set(r->fault, FAULT_ARGUMENT, "an axis is named twice"));
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank + more; d++)
		dims[d] = axes >> d & 1 ? 1 : t.dims[from++];
	failed = expand_make_shape(r, node, OP_reshape, array, t.rank + more, dims, &array);
	give_array(v, array);
	return failed;
}

/* drop(a, axes): a without these axes, whose extents are 1. */
static int call_drop(struct expansion *r, unsigned node, struct value *v) {
	int64_t dims[LIMIT_RANK];
	struct tensor_type t = { 0 };
	uint16_t axes;
	uint32_t array = 0;
	unsigned rank = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (!failed)
		failed = expand_take_axes(r, node, 1, t.rank, &axes);
	if (failed)
		return failed;
	for (unsigned d = 0; d < t.rank; d++)
		if (!(axes >> d & 1))
			dims[rank++] = t.dims[d];
	failed = expand_make_shape(r, node, OP_reshape, array, rank, dims, &array);
	give_array(v, array);
	return failed;
}

/* given(c, a, b): a where the operand c is there, or the number c is not 0; else b. Only that is made. */
static int call_given(struct expansion *r, unsigned node, struct value *v) {
	const struct expr_node *n = expand_node(r, node), *condition = expand_node(r, n->in[0]);
	const struct value *chosen;
	bool is = !expand_absent(r, condition);
	int failed = 0;

	if (condition->kind != EXPR_OPERAND) {
		failed = expand_take(r, node, 0, VALUE_NUMBER, &chosen);
		is = !failed && chosen->number != 0;
	}
	if (!failed)
		failed = expand_value(r, n->in[is ? 1 : 2], &chosen);
	if (!failed)
		*v = *chosen;
	return failed;
}

/* range(a, b): a, a + 1, ... b - 1. */
static int call_range(struct expansion *r, unsigned node, struct value *v) {
	double first, end;
	int failed = expand_take_number(r, node, 0, &first);

	if (!failed)
		failed = expand_take_number(r, node, 1, &end);
	if (failed)
		return failed;
	if (end - first > LIMIT_RANK)
		return expand_locate(r, node,
			fault_set(r->fault, FAULT_RANK, "the list has more than %d entries", LIMIT_RANK));
	v->kind = VALUE_LIST;
	while (first + v->count < end) {
		v->list[v->count] = (int64_t)first + v->count;
		v->count++;
	}
	return 0;
}

/* length(list) */
static int call_length(struct expansion *r, unsigned node, struct value *v) {
	const struct value *list;
	int failed = expand_take(r, node, 0, VALUE_LIST, &list);

	if (!failed)
		give_number(v, list->count);
	return failed;
}

/* part(list, from, to): its entries from one index, up to but without another. */
static int call_part(struct expansion *r, unsigned node, struct value *v) {
	const struct value *list;
	double from, to;
	int failed = expand_take(r, node, 0, VALUE_LIST, &list);

	if (!failed)
		failed = expand_take_number(r, node, 1, &from);
	to = failed ? 0 : list->count;
	if (!failed && expand_node(r, node)->arity == 3)
		failed = expand_take_number(r, node, 2, &to);
	if (failed)
		return failed;
	if (!(from >= 0 && to >= from && to <= list->count))
		return expand_locate(r, node,
			fault_set(r->fault, FAULT_ARGUMENT, "no part from %g to %g of a list of %u", from, to,
				list->count));
	v->kind = VALUE_LIST;
	v->count = (unsigned)to - (unsigned)from;
	memcpy(v->list, list->list + (unsigned)from, v->count * sizeof *v->list);
	return 0;
}

/* is_bool(a): 1 or 0. */
static int call_is_bool(struct expansion *r, unsigned node, struct value *v) {
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	give_number(v, !failed && t.dtype == DTYPE_bool);
	return failed;
}

expand_rule *const expand_functions[] = {
#define FUNCTION(name, least, most) [EXPR_##name] = call_##name,
	EXPR_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

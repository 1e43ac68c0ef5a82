/*
 * Operations inside expressions: operands meet in one type, numbers of elementwise ones are folded, and
 * arguments become attributes.
 */
#include "expand_run.h"

#include <string.h>

#include "attribute.h"

/* ---- elementwise operations ---- */

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
static enum dtype meet(
	const struct expansion *r, unsigned first, unsigned count, const struct value *const *in) {
	int dtype = -1;

	for (unsigned i = first; i < count; i++) {
		if (in[i]->kind != VALUE_ARRAY)
			continue;
		dtype = dtype < 0
				? expand_type(r, in[i]->array)->dtype
				: (int)dtype_promote((enum dtype)dtype, expand_type(r, in[i]->array)->dtype);
	}
	if (dtype < 0)
		return expand_dtype(r);
	return dtype_info((enum dtype)dtype)->kind == DTYPE_KIND_REAL ? dtype_info((enum dtype)dtype)->reg
								      : (enum dtype)dtype;
}

static int to_array(
	struct expansion *r, unsigned node, const struct value *v, enum dtype dtype, uint32_t *arrayp) {
	int failed;

	if (is_number(v))
		return expand_make_number(r, node, dtype, v->number, arrayp);
	*arrayp = v->array;
	failed = expand_widen(r, node, arrayp);
	return failed ? failed : expand_make_cast(r, node, dtype, arrayp);
}

static int take_operands(struct expansion *r, unsigned node, const struct value **in, bool *foldedp) {
	const struct expr_node *n = expand_node(r, node);
	int failed = 0;

	*foldedp = true;
	for (unsigned i = 0; !failed && i < n->arity; i++) {
		failed = expand_value(r, n->in[i], &in[i]);
		if (!failed && in[i]->kind != VALUE_ARRAY && !is_number(in[i]))
			return expand_refuse(r, node, i, in[i]->kind, "an array or a number");
		*foldedp = *foldedp && !failed && is_number(in[i]);
	}
	return failed;
}

static int make_elementwise(struct expansion *r, unsigned node, struct value *v) {
	const struct expr_node *n = expand_node(r, node);
	const struct value *in[EXPR_ARGUMENTS] = { NULL };
	uint32_t array[EXPR_ARGUMENTS] = { 0 };
	unsigned first = n->which == OP_where;
	enum dtype dtype;
	bool numbers;
	int failed = take_operands(r, node, in, &numbers);

	if (failed)
		return failed;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): take_operands() found all of them */
	if (numbers && n->arity && fold(n->which, in[0]->number, in[n->arity - 1]->number, &v->number)) {
		v->kind = VALUE_NUMBER;
		return 0;
	}
	dtype = meet(r, first, n->arity, in);
	for (unsigned i = 0; !failed && i < n->arity; i++)
		failed = to_array(r, node, in[i], i < first ? DTYPE_bool : dtype, &array[i]);
	if (!failed)
		failed = expand_make(r, node, n->which, n->arity, array, NULL, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

/* ---- other operations ---- */

static int make_reduction(struct expansion *r, unsigned node, struct value *v) {
	const struct expr_node *n = expand_node(r, node);
	struct op_attr attr = { .keepdims = true };
	struct tensor_type t = { 0 };
	uint32_t array = 0;
	int failed = expand_take_array(r, node, 0, &array, &t);

	if (failed)
		return failed;
	attr.axes = (uint16_t)((1U << t.rank) - 1);
	if (n->arity == 2)
		failed = expand_take_axes(r, node, 1, t.rank, &attr.axes);
	if (!failed)
		failed = expand_widen(r, node, &array);
	if (!failed)
		failed = expand_make(r, node, n->which, 1, &array, &attr, &array);
	give_array(v, array);
	return failed;
}

static int set_dtype(struct expansion *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	const struct value *v;
	int failed = expand_take(r, node, 1, VALUE_DTYPE, &v);

	(void)t;
	if (!failed)
		attr->dtype = (uint8_t)v->number;
	return failed;
}

/* One extent may be -1: it follows from the others. */
static int set_dims(struct expansion *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	int64_t known = 1, elements = shape_elements(t);
	const struct value *v;
	int failed = expand_take(r, node, 1, VALUE_LIST, &v), open = -1;

	if (failed)
		return failed;
	attr->rank = (uint8_t)v->count;
	for (unsigned d = 0; d < v->count; d++) {
		attr->dims[d] = v->list[d];
		if (v->list[d] == -1 && expand_node(r, node)->which == OP_reshape)
			open = (int)d;
		else if (__builtin_mul_overflow(known, v->list[d], &known))
			return expand_locate(
				r, node, fault_set(r->fault, FAULT_OVERFLOW, "the shape is too large"));
	}
	if (open >= 0 && (known <= 0 || elements % known))
		return expand_locate(r, node,
			fault_set(r->fault, FAULT_SHAPE,
				"%lld elements do not divide by the other extents, %lld", (long long)elements,
				(long long)known));
	if (open >= 0)
		attr->dims[open] = elements / known;
	return 0;
}

static int set_permutation(
	struct expansion *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	const struct value *v;
	int failed = expand_take(r, node, 1, VALUE_LIST, &v);
	unsigned axis = 0;

	if (failed)
		return failed;
	attr->rank = (uint8_t)v->count;
	for (unsigned d = 0; !failed && d < v->count; d++) {
		failed = expand_check_axis(r, node, v->list[d], t->rank, &axis);
		if (!failed)
			attr->perm[d] = (uint8_t)axis;
	}
	return failed;
}

static int set_axes(struct expansion *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	return expand_take_axes(r, node, 1, t->rank, &attr->axes);
}

static int set_axis(struct expansion *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) {
	const struct value *v;
	int failed = expand_take(r, node, 2, VALUE_NUMBER, &v);
	unsigned axis = 0;

	if (!failed)
		failed = expand_check_axis(r, node, (int64_t)v->number, t->rank, &axis);
	attr->axis = (uint8_t)axis;
	return failed;
}

/* What the last argument of a view or a gather is; the parser lets nothing else pass. */
static int (*const setters[OP_COUNT])(
	struct expansion *r, unsigned node, const struct tensor_type *t, struct op_attr *attr) = {
	[OP_cast] = set_dtype,
	[OP_reshape] = set_dims,
	[OP_broadcast] = set_dims,
	[OP_permute] = set_permutation,
	[OP_flip] = set_axes,
	[OP_take] = set_axis,
	[OP_take_along] = set_axis,
};

static int make_matmul(struct expansion *r, unsigned node, struct value *v) {
	const struct value *in[2];
	uint32_t array[2] = { 0 };
	enum dtype dtype;
	int failed = expand_take(r, node, 0, VALUE_ARRAY, &in[0]);

	if (!failed)
		failed = expand_take(r, node, 1, VALUE_ARRAY, &in[1]);
	if (failed)
		return failed;
	dtype = meet(r, 0, 2, in);
	for (unsigned i = 0; !failed && i < 2; i++)
		failed = to_array(r, node, in[i], dtype, &array[i]);
	if (!failed)
		failed = expand_make(r, node, OP_matmul, 2, array, NULL, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

static int make_structural(struct expansion *r, unsigned node, struct value *v) {
	const struct expr_node *n = expand_node(r, node);
	uint32_t array[LIMIT_OPERANDS] = { 0 };
	struct tensor_type t = { 0 }, other;
	struct op_attr attr = { 0 };
	int failed;

	if (n->which == OP_matmul)
		return make_matmul(r, node, v);
	failed = expand_take_array(r, node, 0, &array[0], &t);
	for (unsigned i = 1; !failed && i < op_info(n->which)->arity; i++)
		failed = expand_take_array(r, node, i, &array[i], &other);
	if (!failed && setters[n->which])
		failed = setters[n->which](r, node, &t, &attr);
	if (!failed)
		failed = expand_make(r, node, n->which, op_info(n->which)->arity, array, &attr, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

static int set_list(
	struct expansion *r, unsigned node, unsigned argument, const struct value *v, struct op_attr *attr) {
	enum op_attribute which = (enum op_attribute)expand_node(r, node)->name[argument];

	if (v->kind != VALUE_LIST)
		return expand_refuse(r, node, argument, v->kind, "a list");
	attr->rank = (uint8_t)v->count;
	memcpy(attribute_list(attr, which), v->list, v->count * sizeof *v->list);
	return 0;
}

/* An argument given by name. */
static int set_named(
	struct expansion *r, unsigned node, unsigned argument, unsigned rank, struct op_attr *attr) {
	const struct expr_node *n = expand_node(r, node);
	enum op_attribute which = (enum op_attribute)n->name[argument];
	const struct value *v;
	int failed;

	if (!(op_info(n->which)->attributes >> which & 1))
		return expand_locate(r, node,
			fault_set(r->fault, FAULT_ARGUMENT, "%s has no %s", op_info(n->which)->name,
				attribute_info(which)->name));
	if (attribute_info(which)->kind == ATTRIBUTE_KIND_AXES)
		return expand_take_axes(r, node, argument, rank, &attr->axes);
	failed = expand_value(r, n->in[argument], &v);
	if (!failed && attribute_info(which)->kind == ATTRIBUTE_KIND_LIST)
		return set_list(r, node, argument, v, attr);
	if (!failed && v->kind != VALUE_NUMBER && v->kind != VALUE_DTYPE)
		return expand_refuse(r, node, argument, v->kind, "a number");
	return failed ? failed : expand_locate(r, node, attribute_set(attr, which, v->number, r->fault));
}

/* A composite inside an expression. Operands of one type are cast to the one they meet in. */
static int make_composite(struct expansion *r, unsigned node, struct value *v) {
	const struct expr_node *n = expand_node(r, node);
	struct op_attr attr = { 0 };
	uint32_t array[EXPR_ARGUMENTS] = { 0 };
	unsigned count = 0;
	int failed = 0;

	for (unsigned i = 0; !failed && i < n->arity; i++) {
		const struct value *in;

		if (n->name[i] != EXPR_POSITIONAL)
			continue;
		failed = expand_take(r, node, i, VALUE_ARRAY, &in);
		if (failed)
			break;
		array[count] = in->array;
		failed = expand_widen(r, node, &array[count++]);
	}
	for (unsigned i = 0; !failed && i < n->arity; i++)
		if (n->name[i] != EXPR_POSITIONAL)
			failed = set_named(r, node, i, count ? expand_type(r, array[0])->rank : 0, &attr);
	if (!failed)
		failed = expand_make(r, node, n->which, count, array, &attr, &v->array);
	v->kind = VALUE_ARRAY;
	return failed;
}

expand_rule *const expand_operations[] = {
	[OP_CLASS_UNARY] = make_elementwise,
	[OP_CLASS_BINARY] = make_elementwise,
	[OP_CLASS_TERNARY] = make_elementwise,
	[OP_CLASS_REDUCE] = make_reduction,
	[OP_CLASS_STRUCT] = make_structural,
	[OP_CLASS_COMPOSITE] = make_composite,
};

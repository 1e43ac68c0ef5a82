/*
 * What the parts of an expansion share: taking arguments of the kind that they must have, and making
 * operations. A refusal names the column of the text.
 */
#include "expand_run.h"

#include <string.h>

/* ---- refusing ---- */

const char *value_word(enum value_kind kind) {
	static const char *const words[] = {
		[VALUE_NONE] = "nothing",
		[VALUE_ARRAY] = "an array",
		[VALUE_NUMBER] = "a number",
		[VALUE_LIST] = "a list",
		[VALUE_DTYPE] = "an element type",
	};

	return words[kind];
}

const struct expr_node *expand_node(const struct expansion *r, unsigned node) {
	return &r->call->expr->node[node];
}

static const char *node_name(const struct expr_node *n) {
	if (n->kind == EXPR_FUNCTION)
		return expr_function_name((enum expr_function)n->which);
	return n->kind == EXPR_OPERATION ? op_info(n->which)->name : "the list";
}

int expand_locate(const struct expansion *r, unsigned node, int failed) {
	if (failed > 0 && r->fault)
		fault_prefix(r->fault, "%s, column %u", r->call->name, expand_node(r, node)->at + 1U);
	return failed;
}

int expand_refuse(
	struct expansion *r, unsigned node, unsigned argument, enum value_kind is, const char *wanted) {
	return expand_locate(r, node,
		fault_set(r->fault, FAULT_ARGUMENT, "argument %u of %s is %s, not %s", argument + 1,
			node_name(expand_node(r, node)), value_word(is), wanted));
}

/* ---- arguments ---- */

int expand_take(struct expansion *r, unsigned node, unsigned argument, enum value_kind kind,
	const struct value **valuep) {
	int failed = expand_value(r, expand_node(r, node)->in[argument], valuep);

	if (failed || (*valuep)->kind == kind)
		return failed;
	return expand_refuse(r, node, argument, (*valuep)->kind, value_word(kind));
}

const struct tensor_type *expand_type(const struct expansion *r, uint32_t array) {
	return r->target->type(r->target->into, array);
}

int expand_take_array(
	struct expansion *r, unsigned node, unsigned argument, uint32_t *arrayp, struct tensor_type *typep) {
	const struct value *v;
	int failed = expand_take(r, node, argument, VALUE_ARRAY, &v);

	if (failed)
		return failed;
	*arrayp = v->array;
	*typep = *expand_type(r, v->array);
	return 0;
}

int expand_take_number(struct expansion *r, unsigned node, unsigned argument, double *numberp) {
	const struct value *v;
	int failed = expand_take(r, node, argument, VALUE_NUMBER, &v);

	*numberp = failed ? 0 : v->number;
	return failed;
}

int expand_check_axis(struct expansion *r, unsigned node, int64_t axis, unsigned rank, unsigned *axisp) {
	if (axis < -(int64_t)rank || axis >= (int64_t)rank)
		return expand_locate(r, node,
			fault_set(r->fault, FAULT_ARGUMENT, "axis %lld does not exist where there are %u",
				(long long)axis, rank));
	*axisp = (unsigned)(axis < 0 ? axis + rank : axis);
	return 0;
}

int expand_take_axes(struct expansion *r, unsigned node, unsigned argument, unsigned rank, uint16_t *axesp) {
	const struct value *v;
	int failed = expand_value(r, expand_node(r, node)->in[argument], &v);
	unsigned axis = 0, count;

	*axesp = 0;
	if (!failed && v->kind != VALUE_LIST && v->kind != VALUE_NUMBER)
		return expand_refuse(r, node, argument, v->kind, "axes");
	if (failed)
		return failed;
	count = v->kind == VALUE_LIST ? v->count : 1;
	for (unsigned i = 0; !failed && i < count; i++) {
		failed = expand_check_axis(
			r, node, v->kind == VALUE_LIST ? v->list[i] : (int64_t)v->number, rank, &axis);
		if (!failed)
			*axesp |= (uint16_t)(1U << axis);
	}
	return failed;
}

/* ---- making ---- */

int expand_make(struct expansion *r, unsigned node, unsigned op, unsigned n, const uint32_t *in,
	const struct op_attr *attr, uint32_t *arrayp) {
	return expand_locate(r, node, r->target->op(r->target->into, op, n, in, attr, arrayp, r->fault));
}

int expand_make_cast(struct expansion *r, unsigned node, enum dtype dtype, uint32_t *arrayp) {
	struct op_attr attr = { .dtype = (uint8_t)dtype };

	if (expand_type(r, *arrayp)->dtype == dtype)
		return 0;
	return expand_make(r, node, OP_cast, 1, arrayp, &attr, arrayp);
}

int expand_widen(struct expansion *r, unsigned node, uint32_t *arrayp) {
	enum dtype dtype = expand_type(r, *arrayp)->dtype;
	uint32_t from = *arrayp;
	int failed;

	if (dtype_info(dtype)->kind != DTYPE_KIND_REAL || dtype_info(dtype)->reg == dtype)
		return 0;
	for (unsigned i = 0; i < r->wide; i++)
		if (r->widened[i].from == from) {
			*arrayp = r->widened[i].to;
			return 0;
		}
	failed = expand_make_cast(r, node, dtype_info(dtype)->reg, arrayp);
	if (!failed && r->wide < EXPR_NODES)
		r->widened[r->wide++] = (struct widened){ from, *arrayp };
	return failed;
}

int expand_make_number(
	struct expansion *r, unsigned node, enum dtype dtype, double number, uint32_t *arrayp) {
	struct op_attr attr = { .dtype = (uint8_t)dtype };

	if (!dtype_scalar_exact(dtype, number, &attr.value[0]))
		return expand_locate(r, node,
			fault_set(r->fault, FAULT_DTYPE, "%.17g is no value of %s", number,
				dtype_info(dtype)->name));
	return expand_make(r, node, OP_fill, 0, NULL, &attr, arrayp);
}

int expand_make_shape(struct expansion *r, unsigned node, unsigned op, uint32_t array, unsigned rank,
	const int64_t *dims, uint32_t *arrayp) {
	struct op_attr attr = { .rank = (uint8_t)rank };

	memcpy(attr.dims, dims, rank * sizeof *dims);
	return expand_make(r, node, op, 1, &array, &attr, arrayp);
}

enum dtype expand_dtype(const struct expansion *r) {
	for (unsigned i = 0; i < r->call->operands; i++)
		if (expand_type(r, r->call->operand[i])->dtype == DTYPE_f64)
			return DTYPE_f64;
	return DTYPE_f32;
}

int expand_make_iota(struct expansion *r, unsigned node, int64_t n, uint32_t *arrayp) {
	struct op_attr attr = { .dtype = n <= INT32_MAX ? DTYPE_i32 : DTYPE_i64, .rank = 1, .dims = { n } };

	attr.value[1] = 1;
	return expand_make(r, node, OP_arange, 0, NULL, &attr, arrayp);
}

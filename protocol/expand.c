/*
 * Expressions become operations; see expand.h for the rules.
 *
 * An evaluation walks from the result to what it needs and keeps each node's value, so every node is made
 * once and branches that given() does not take are not made at all. The recursion is as deep as the
 * expression, which the parser bounds.
 */
#include "expand_run.h"

#include <string.h>

#include "attribute.h"

/* ---- values ---- */

bool expand_absent(const struct expansion *r, const struct expr_node *n) {
	return n->kind == EXPR_OPERAND && n->which >= r->call->operands;
}

static int value_operand(struct expansion *r, unsigned node, struct value *v) {
	const struct expr_node *n = expand_node(r, node);

	if (expand_absent(r, n))
		return expand_locate(
			r, node, fault_set(r->fault, FAULT_ARITY, "operand %u is missing", n->which + 1U));
	v->kind = VALUE_ARRAY;
	v->array = r->call->operand[n->which];
	return 0;
}

static int value_attribute(struct expansion *r, unsigned node, struct value *v) {
	enum op_attribute which = (enum op_attribute)expand_node(r, node)->which;
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
static int value_list(struct expansion *r, unsigned node, struct value *v) {
	const struct expr_node *n = expand_node(r, node);
	int failed = 0;

	v->kind = VALUE_LIST;
	for (unsigned i = 0; !failed && i < n->arity; i++) {
		const struct value *in;
		unsigned count;

		failed = expand_value(r, n->in[i], &in);
		if (failed)
			return failed;
		if (in->kind != VALUE_LIST && (in->kind != VALUE_NUMBER || !is_whole(in->number)))
			return expand_refuse(r, node, i, in->kind, "an integer");
		count = in->kind == VALUE_LIST ? in->count : 1;
		if (v->count + count > LIMIT_RANK)
			return expand_locate(r, node,
				fault_set(r->fault, FAULT_RANK, "the list has more than %d entries",
					LIMIT_RANK));
		if (in->kind == VALUE_NUMBER)
			v->list[v->count] = (int64_t)in->number;
		else
			memcpy(v->list + v->count, in->list, count * sizeof *in->list);
		v->count += count;
	}
	return failed;
}

static int value_number(struct expansion *r, unsigned node, struct value *v) {
	give_number(v, expand_node(r, node)->number);
	return 0;
}

static int value_dtype(struct expansion *r, unsigned node, struct value *v) {
	v->kind = VALUE_DTYPE;
	v->number = expand_node(r, node)->which;
	return 0;
}

static int value_operation(struct expansion *r, unsigned node, struct value *v) {
	return expand_operations[op_info(expand_node(r, node)->which)->class](r, node, v);
}

static int value_function(struct expansion *r, unsigned node, struct value *v) {
	return expand_functions[expand_node(r, node)->which](r, node, v);
}

static expand_rule *const kinds[] = {
	[EXPR_NUMBER] = value_number,
	[EXPR_OPERAND] = value_operand,
	[EXPR_ATTRIBUTE] = value_attribute,
	[EXPR_DTYPE] = value_dtype,
	[EXPR_LIST] = value_list,
	[EXPR_OPERATION] = value_operation,
	[EXPR_FUNCTION] = value_function,
};

int expand_value(struct expansion *r, unsigned node, const struct value **valuep) {
	struct value v = { .kind = VALUE_NONE };
	int failed;

	*valuep = &r->value[node];
	if (r->value[node].kind != VALUE_NONE)
		return 0;
	failed = kinds[expand_node(r, node)->kind](r, node, &v);
	if (!failed)
		r->value[node] = v;
	return failed;
}

/* ---- the result ---- */

/* What the floating-point operands meet in, where that is narrower than what the text computed in. */
static enum dtype result_dtype(const struct expansion *r, uint32_t array) {
	enum dtype made = expand_type(r, array)->dtype;
	int met = -1;

	for (unsigned i = 0; i < r->call->operands; i++) {
		enum dtype d = expand_type(r, r->call->operand[i])->dtype;

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

static int finish(struct expansion *r, const struct value *v, uint32_t *valuep) {
	const struct tensor_type *wanted = r->call->result;
	unsigned node = r->call->expr->result;
	int failed = 0;

	*valuep = v->array;
	if (is_number(v))
		failed = expand_make_number(r, node, expand_dtype(r), v->number, valuep);
	if (!failed)
		failed = expand_make_cast(r, node, wanted ? wanted->dtype : result_dtype(r, *valuep), valuep);
	if (failed || !wanted || same_dims(expand_type(r, *valuep), wanted))
		return failed;
	return expand_make_shape(r, node, OP_reshape, *valuep, wanted->rank, wanted->dims, valuep);
}

int expand(const struct expand_call *call, const struct expand_target *target, uint32_t *valuep,
	struct fault *f) {
	struct expansion r;
	const struct value *v;
	int failed;

	r.call = call;
	r.target = target;
	r.wide = 0;
	r.fault = f;
	for (unsigned i = 0; i < call->expr->count; i++)
		r.value[i].kind = VALUE_NONE;
	failed = expand_value(&r, call->expr->result, &v);
	if (!failed && v->kind != VALUE_ARRAY && v->kind != VALUE_NUMBER)
		failed = fault_set(f, FAULT_ARGUMENT, "%s: the result is %s, not an array", call->name,
			value_word(v->kind));
	return failed ? failed : finish(&r, v, valuep);
}

/*
 * Composites: operations with a name, operands of which the last may be absent, and attributes.
 *
 * A composite is recorded as one operation; the daemon makes its parts. Rows of ops.def decide
 * everything: the functions of fusion_ops.h come from them through fusion_calls.h.
 */
#include <stddef.h>
#include <string.h>

#include "protocol/attribute.h"
#include "protocol/composite.h"
#include "context.h"
#include "define.h"
#include "record.h"

/* ---- attributes ---- */

/* Where struct fusion_attributes has each attribute. */
static const size_t places[OP_ATTRIBUTES] = {
#define ATTRIBUTE(id, name, ...) [id] = offsetof(struct fusion_attributes, name),
#include "protocol/attributes.def"
#undef ATTRIBUTE
};

static double given_number(const struct fusion_attributes *a, enum op_attribute which) {
	const void *place = (const char *)a + places[which];

	switch (attribute_info(which)->kind) {
	case ATTRIBUTE_KIND_FLAG:
		return *(const bool *)place;
	case ATTRIBUTE_KIND_REAL:
		return *(const double *)place;
	case ATTRIBUTE_KIND_WHOLE:
		return (double)*(const int64_t *)place;
	case ATTRIBUTE_KIND_DTYPE:
		return (double)*(const enum fusion_dtype *)place;
	default:
		return 0;
	}
}

/* A list that is left out has the standard's entries, as many as the others. */
static int take_list(struct recording *r, const struct fusion_attributes *a, enum op_attribute which,
	struct op_attr *attr) {
	const int64_t *list = *(const int64_t *const *)(const void *)((const char *)a + places[which]);

	if (a->rank < 0 || a->rank > LIMIT_RANK)
		return fault_set(&r->fault, FAULT_RANK, "%s: rank %d of %s is not between 0 and %d", r->what,
			a->rank, attribute_info(which)->name, LIMIT_RANK);
	attr->rank = (uint8_t)a->rank;
	for (int d = 0; d < a->rank; d++)
		attribute_list(attr, which)[d] = list ? list[d] : attribute_info(which)->standard;
	return 0;
}

/* A scalar has no axis, and its axis 0, or -1, is none, as in PyTorch: softmax of a number is 1. */
static bool is_axis_of_scalar(const struct recording *r, const struct fusion_attributes *a) {
	return r->count && !r->in[0]->type.rank && a->axis_count == 1 && a->axes && (a->axes[0] == 0 || a->axes[0] == -1);
}

static int take_attribute(struct recording *r, const struct fusion_attributes *a, enum op_attribute which,
	struct op_attr *attr) {
	int failed;

	if (attribute_info(which)->kind == ATTRIBUTE_KIND_AXES && is_axis_of_scalar(r, a))
		return 0;
	if (attribute_info(which)->kind == ATTRIBUTE_KIND_AXES)
		return record_axes(r, a->axis_count, a->axes, &attr->axes);
	if (attribute_info(which)->kind == ATTRIBUTE_KIND_LIST)
		return take_list(r, a, which, attr);
	failed = attribute_set(attr, which, given_number(a, which), &r->fault);
	if (failed)
		fault_prefix(&r->fault, "%s", r->what);
	return failed;
}

static int take_attributes(struct recording *r, const struct fusion_attributes *a, uint32_t attributes,
	struct op_attr *attr) {
	static const struct fusion_attributes none;
	int failed = 0;

	for (; !failed && attributes; attributes &= attributes - 1)
		failed = take_attribute(r, a ? a : &none, (enum op_attribute)__builtin_ctz(attributes), attr);
	return failed;
}

/* ---- operands ---- */

/* Those that share an element type are cast to the one they meet in. */
static int promote(struct recording *r, const struct op_info *info) {
	int dtype = -1, failed = 0;

	for (unsigned i = 0; i < r->count; i++) {
		enum dtype d = r->in[i]->type.dtype;

		if (composite_operand_types(info, i) < 0)
			dtype = dtype < 0 ? (int)d : (int)dtype_promote((enum dtype)dtype, d);
	}
	for (unsigned i = 0; !failed && i < r->count; i++)
		if (composite_operand_types(info, i) < 0)
			failed = record_cast(r, i, (enum dtype)dtype);
	return failed;
}

/* Absent operands are the last ones, and NULL. */
static unsigned count_operands(const struct op_info *info, unsigned op, unsigned count, fusion_array *const *operand) {
	if (count > info->arity)
		return count;
	while (count > op_least(op) && !operand[count - 1])
		count--;
	return count;
}

static bool begin(struct recording *r, const char *what, fusion_context *c, unsigned count,
	fusion_array *const *operand) {
	return count ? record_begin(r, what, count, operand) : record_begin_source(r, what, c);
}

static fusion_array *call_composite(fusion_context *context, unsigned op, unsigned count,
	fusion_array *const *operand, const struct fusion_attributes *attributes) {
	const struct op_info *info = op_info(op);
	struct op_attr attr = { 0 };
	struct value *v = NULL;
	struct recording r;
	int failed;

	count = count_operands(info, op, count, operand);
	if (count > LIMIT_OPERANDS)
		return error_refuse_array(FAULT_ARITY, info->name, "these are more operands than any operation has");
	if (!begin(&r, info->name, context, count, operand))
		return NULL;
	failed = take_attributes(&r, attributes, info->attributes, &attr);
	if (!failed)
		failed = promote(&r, info);
	if (!failed)
		failed = record_value(&r, op, r.count, r.in, &attr, &v);
	return record_end(&r, failed, v);
}

static fusion_array *call_defined(fusion_context *context, const char *name, unsigned count,
	fusion_array *const *operand, const struct fusion_attributes *attributes) {
	const struct defined *d;
	struct op_attr attr = { 0 };
	struct value *v = NULL;
	struct recording r;
	int failed;

	if (count > LIMIT_OPERANDS)
		return error_refuse_array(FAULT_ARITY, name, "these are more operands than any operation has");
	if (!begin(&r, name, context, count, operand))
		return NULL;
	failed = defined_find(&r, name, &d);
	if (!failed)
		failed = take_attributes(&r, attributes, defined_attributes(d), &attr);
	if (!failed)
		failed = defined_record(d, &r, &attr, &v);
	return record_end(&r, failed, v);
}

/* ---- by name ---- */

fusion_array *fusion_call(fusion_context *context, const char *name, int count, fusion_array *const *operand,
	const struct fusion_attributes *attributes) {
	int op = name ? op_find(name) : -1;

	if (!name)
		return error_refuse_array(FAULT_ARGUMENT, "call", "name is NULL");
	if (op >= 0 && op_info((unsigned)op)->class != OP_CLASS_COMPOSITE)
		return error_refuse_array(FAULT_OPERATION, name, "it has a function of its own");
	if (count < 0)
		return error_refuse_array(FAULT_ARGUMENT, name, "the count of operands is negative");
	if (count && !operand)
		return error_refuse_array(FAULT_ARGUMENT, name, "operand is NULL");
	/* Operands say which context it is. */
	if (context && !context_given(context, name))
		return NULL;
	if (attributes && error_reserved(name, attributes->reserved))
		return NULL;
	if (op < 0)
		return call_defined(context, name, (unsigned)count, operand, attributes);
	return call_composite(context, (unsigned)op, (unsigned)count, operand, attributes);
}

#include "fusion_calls.h"

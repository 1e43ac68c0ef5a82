/* Several operations at once. See site.h for the contract. */
#include "site.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

int site_keep(struct site *s, struct value *v, uint32_t *numberp) {
	if (s->count == s->capacity) {
		uint32_t capacity = s->capacity ? 2 * s->capacity : 32;
		struct value **value = realloc(s->value, capacity * sizeof(struct value *));

		if (!value)
			return -ENOMEM;
		s->value = value;
		s->capacity = capacity;
	}
	*numberp = s->count;
	s->value[s->count++] = v;
	return 0;
}

void site_end(struct site *s) {
	for (uint32_t i = 0; i < s->count; i++)
		value_drop(s->recording->context, s->value[i]);
	free(s->value);
	s->value = NULL;
	s->count = s->capacity = 0;
}

/* ---- texts ---- */

static int expand_op(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr,
	uint32_t *numberp, struct fault *f) {
	struct site *s = into;
	struct value *operand[LIMIT_OPERANDS], *v;
	int r;

	for (unsigned i = 0; i < n; i++)
		operand[i] = s->value[in[i]];
	r = record_value(s->recording, op, n, operand, attr, &v);
	if (r) {
		if (r > 0)
			*f = s->recording->fault;
		return r;
	}
	r = site_keep(s, v, numberp);
	if (r)
		value_drop(s->recording->context, v);
	return r;
}

static const struct tensor_type *expand_type(void *into, uint32_t number) {
	return &((struct site *)into)->value[number]->type;
}

int site_expand(struct site *s, const char *name, const struct expr *e, unsigned count, struct value *const *operand,
	const struct op_attr *attr, const struct tensor_type *wanted, struct value **vp) {
	const struct expand_target target = { s, expand_op, expand_type };
	uint32_t number[EXPR_OPERANDS + 2], result;
	const struct expand_call call = { name, e, count, number, attr, wanted };
	struct fault f = { 0 };
	int failed = s->failed;

	for (unsigned i = 0; !failed && i < count; i++) {
		failed = site_keep(s, operand[i], &number[i]);
		if (!failed)
			value_ref(operand[i]);
	}
	if (!failed)
		failed = expand(&call, &target, &result, &f);
	if (failed > 0)
		s->recording->fault = f;
	if (failed)
		return s->failed = failed;
	*vp = s->value[result];
	return 0;
}

/* ---- operations ---- */

struct value *site_op(struct site *s, unsigned op, const struct op_attr *attr, unsigned n, struct value *const *in) {
	struct value *v = NULL;
	uint32_t number;

	for (unsigned i = 0; !s->failed && i < n; i++)
		if (!in[i])
			s->failed = -ENOMEM;
	if (!s->failed)
		s->failed = record_value(s->recording, op, n, in, attr, &v);
	if (s->failed)
		return NULL;
	s->failed = site_keep(s, v, &number);
	if (!s->failed)
		return v;
	value_drop(s->recording->context, v);
	return NULL;
}

struct value *site_unary(struct site *s, unsigned op, struct value *a) {
	return site_op(s, op, NULL, 1, &a);
}

struct value *site_binary(struct site *s, unsigned op, struct value *a, struct value *b) {
	return site_op(s, op, NULL, 2, (struct value *[]){ a, b });
}

struct value *site_where(struct site *s, struct value *condition, struct value *a, struct value *b) {
	return site_op(s, OP_where, NULL, 3, (struct value *[]){ condition, a, b });
}

struct value *site_full(struct site *s, const struct tensor_type *like, double number) {
	struct op_attr attr = { .dtype = like->dtype, .rank = like->rank };

	memcpy(attr.dims, like->dims, like->rank * sizeof *like->dims);
	if (!s->failed)
		s->failed = record_word(s->recording, (enum dtype)like->dtype, number, &attr.value[0]);
	return site_op(s, OP_fill, &attr, 0, NULL);
}

struct value *site_number(struct site *s, const struct value *like, double number) {
	struct tensor_type scalar = { .dtype = like ? like->type.dtype : (uint8_t)DTYPE_f32 };

	return like ? site_full(s, &scalar, number) : NULL;
}

struct value *site_cast(struct site *s, struct value *a, enum dtype dtype) {
	struct op_attr attr = { .dtype = (uint8_t)dtype };

	return a && a->type.dtype == dtype ? a : site_op(s, OP_cast, &attr, 1, &a);
}

static struct value *with_dims(struct site *s, unsigned op, struct value *a, unsigned rank, const int64_t *dims) {
	struct op_attr attr = { .rank = (uint8_t)rank };

	if (a && a->type.rank == rank && !memcmp(a->type.dims, dims, rank * sizeof *dims))
		return a;
	memcpy(attr.dims, dims, rank * sizeof *dims);
	return site_op(s, op, &attr, 1, &a);
}

struct value *site_reshape(struct site *s, struct value *a, unsigned rank, const int64_t *dims) {
	return with_dims(s, OP_reshape, a, rank, dims);
}

struct value *site_broadcast(struct site *s, struct value *a, unsigned rank, const int64_t *dims) {
	return with_dims(s, OP_broadcast, a, rank, dims);
}

struct value *site_transpose(struct site *s, struct value *a) {
	struct op_attr attr = { .rank = a ? a->type.rank : (uint8_t)0 };

	for (unsigned d = 0; d < attr.rank; d++)
		attr.perm[d] = (uint8_t)(d + 2 < attr.rank ? d : 2U * attr.rank - 3 - d);
	return site_op(s, OP_permute, &attr, 1, &a);
}

struct value *site_sum(struct site *s, struct value *a, uint16_t axes, bool keepdims) {
	struct op_attr attr = { .axes = axes, .keepdims = keepdims };

	return axes ? site_op(s, OP_reduce_sum, &attr, 1, &a) : a;
}

struct value *site_slice(struct site *s, struct value *a, unsigned axis, int64_t start, int64_t count, int64_t step) {
	struct op_attr attr = { 0 };

	if (!a)
		return NULL;
	attr.rank = a->type.rank;
	for (unsigned d = 0; d < attr.rank; d++) {
		attr.dims[d] = a->type.dims[d];
		attr.step[d] = 1;
	}
	attr.start[axis] = start;
	attr.dims[axis] = count;
	attr.step[axis] = step;
	return site_op(s, OP_slice, &attr, 1, &a);
}

struct value *site_axis(struct site *s, unsigned op, unsigned axis, unsigned n, struct value *const *in) {
	struct op_attr attr = { .axis = (uint8_t)axis };

	if (op == OP_flip || op_info(op)->class == OP_CLASS_SCAN)
		attr = (struct op_attr){ .axes = (uint16_t)(1U << axis) };
	return site_op(s, op, &attr, n, in);
}

struct value *site_places(struct site *s, unsigned rank, unsigned axis, int64_t n) {
	struct op_attr attr = { .dtype = DTYPE_i64, .rank = 1, .dims = { n }, .value = { 0, 1 } };
	int64_t dims[LIMIT_RANK];

	for (unsigned d = 0; d < rank; d++)
		dims[d] = d == axis ? n : 1;
	return site_reshape(s, site_op(s, OP_arange, &attr, 0, NULL), rank, dims);
}

struct value *site_unbroadcast(struct site *s, struct value *a, const struct tensor_type *like) {
	unsigned more;
	uint16_t axes = 0;

	if (!a)
		return NULL;
	a = site_cast(s, a, (enum dtype)like->dtype);
	if (!a || shape_equal(&a->type, like))
		return a;
	more = a->type.rank > like->rank ? a->type.rank - (unsigned)like->rank : 0;
	for (unsigned d = 0; d < a->type.rank; d++)
		if (d < more || (like->dims[d - more] == 1 && a->type.dims[d] != 1))
			axes |= (uint16_t)(1U << d);
	a = site_sum(s, a, axes, true);
	return site_reshape(s, a, like->rank, like->dims);
}

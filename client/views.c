/*
 * Operations with arguments of their own: casts, views, gathers, matrix products and reductions.
 *
 * Arguments in Python's manner (negative axes, left-out bounds, an extent of -1) become the plain
 * ones of protocol/op.h here; op_infer() checks the rest.
 */
#include <inttypes.h>

#include "context.h"
#include "record.h"

static fusion_array *record_one(struct recording *r, int failed, unsigned op, const struct op_attr *attr) {
	struct value *v = NULL;

	if (!failed)
		failed = record_value(r, op, 1, r->in, attr, &v);
	return record_end(r, failed, v);
}

static const struct tensor_type *operand_type(const struct recording *r) {
	return &r->in[0]->type;
}

fusion_array *fusion_cast(fusion_array *a, enum fusion_dtype dtype) {
	struct op_attr attr = { 0 };
	struct recording r;
	int failed = 0;

	if (!record_begin(&r, "cast", 1, &a))
		return NULL;
	if ((unsigned)dtype >= DTYPE_COUNT)
		failed = fault_set(&r.fault, FAULT_DTYPE, "cast: element type %d does not exist", (int)dtype);
	attr.dtype = (uint8_t)dtype;
	return record_one(&r, failed, OP_cast, &attr);
}

fusion_array *fusion_copy(fusion_array *a) {
	struct recording r;

	if (!record_begin(&r, "copy", 1, &a))
		return NULL;
	return record_one(&r, 0, OP_copy, NULL);
}

/* --- shapes ------------------------------------------------------------------------------ */

static int take_dims(struct recording *r, int rank, const int64_t *dims, struct op_attr *attr) {
	if (rank < 0 || rank > LIMIT_RANK)
		return fault_set(&r->fault, FAULT_RANK, "%s: rank %d is not between 0 and %d", r->what, rank,
			LIMIT_RANK);
	if (rank && !dims)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: dims is NULL", r->what);
	attr->rank = (uint8_t)rank;
	for (int d = 0; d < rank; d++)
		attr->dims[d] = dims[d];
	return 0;
}

/* Replaces the extent -1 by what the others leave. */
static int infer_extent(struct recording *r, struct op_attr *attr) {
	int64_t elements = shape_elements(operand_type(r)), known = 1;
	int open = -1;

	for (int d = 0; d < attr->rank; d++) {
		if (attr->dims[d] != -1) {
			if (__builtin_mul_overflow(known, attr->dims[d], &known))
				return fault_set(
					&r->fault, FAULT_OVERFLOW, "reshape: the extents do not fit 63 bits");
			continue;
		}
		if (open >= 0)
			return fault_set(
				&r->fault, FAULT_ARGUMENT, "reshape: axes %d and %d are both -1", open, d);
		open = d;
	}
	if (open < 0)
		return 0;
	if (known <= 0 || elements % known)
		return fault_set(&r->fault, FAULT_SHAPE,
			"reshape: %" PRId64 " elements do not divide by the other extents, %" PRId64,
			elements, known);
	attr->dims[open] = elements / known;
	return 0;
}

fusion_array *fusion_reshape(fusion_array *a, int rank, const int64_t *dims) {
	struct op_attr attr = { 0 };
	struct recording r;
	int failed;

	if (!record_begin(&r, "reshape", 1, &a))
		return NULL;
	failed = take_dims(&r, rank, dims, &attr);
	if (!failed)
		failed = infer_extent(&r, &attr);
	return record_one(&r, failed, OP_reshape, &attr);
}

fusion_array *fusion_broadcast(fusion_array *a, int rank, const int64_t *dims) {
	struct op_attr attr = { 0 };
	struct recording r;
	int failed;

	if (!record_begin(&r, "broadcast", 1, &a))
		return NULL;
	failed = take_dims(&r, rank, dims, &attr);
	return record_one(&r, failed, OP_broadcast, &attr);
}

/* --- axes -------------------------------------------------------------------------------- */

/* An axis that may count from the end. */
static int take_axis(struct recording *r, int axis, unsigned *axisp) {
	int rank = operand_type(r)->rank;
	char text[SHAPE_TEXT];

	if (axis < -rank || axis >= rank)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: axis %d does not exist in %s", r->what, axis,
			shape_text(operand_type(r), text));
	*axisp = (unsigned)(axis < 0 ? axis + rank : axis);
	return 0;
}

/* Axes as a set of bits; each may be named once. */
static int take_axes(struct recording *r, int count, const int *axes, uint16_t *setp) {
	char text[SHAPE_TEXT];
	unsigned axis;
	int failed;

	*setp = 0;
	/* One is looked at whatever the rank, to be told that it does not exist. */
	if (count < 0 || count > (operand_type(r)->rank ? operand_type(r)->rank : 1))
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: a count of %d axes does not fit %s", r->what, count,
			shape_text(operand_type(r), text));
	if (count && !axes)
		return fault_set(&r->fault, FAULT_ARGUMENT, "%s: axes is NULL", r->what);
	for (int i = 0; i < count; i++) {
		failed = take_axis(r, axes[i], &axis);
		if (failed)
			return failed;
		if (*setp >> axis & 1)
			return fault_set(
				&r->fault, FAULT_ARGUMENT, "%s: axis %u is named twice", r->what, axis);
		*setp |= (uint16_t)(1U << axis);
	}
	return 0;
}

/* No list at all stands for every axis. */
static int take_axes_or_all(struct recording *r, int count, const int *axes, uint16_t *setp) {
	if (count || axes)
		return take_axes(r, count, axes, setp);
	*setp = (uint16_t)((1U << operand_type(r)->rank) - 1);
	return 0;
}

int record_axes(struct recording *r, int count, const int *axes, uint16_t *setp) {
	if (!r->count)
		return fault_set(&r->fault, FAULT_ARITY, "%s: axes are those of an operand, and there is none", r->what);
	return take_axes_or_all(r, count, axes, setp);
}

fusion_array *fusion_permute(fusion_array *a, const int *axes) {
	struct op_attr attr = { 0 };
	struct recording r;
	unsigned axis = 0;
	int failed = 0;

	if (!record_begin(&r, "permute", 1, &a))
		return NULL;
	attr.rank = operand_type(&r)->rank;
	for (int d = 0; !failed && d < attr.rank; d++) {
		failed = take_axis(&r, axes ? axes[d] : attr.rank - 1 - d, &axis);
		if (!failed)
			attr.perm[d] = (uint8_t)axis;
	}
	return record_one(&r, failed, OP_permute, &attr);
}

fusion_array *fusion_transpose(fusion_array *a) {
	struct op_attr attr = { 0 };
	struct recording r;
	char text[SHAPE_TEXT];
	int failed = 0;

	if (!record_begin(&r, "transpose", 1, &a))
		return NULL;
	attr.rank = operand_type(&r)->rank;
	for (uint8_t d = 0; d < attr.rank; d++)
		attr.perm[d] = d;
	if (attr.rank < 2) {
		failed = fault_set(&r.fault, FAULT_SHAPE, "transpose: %s has fewer than 2 dimensions",
			shape_text(operand_type(&r), text));
	} else {
		attr.perm[attr.rank - 1] = (uint8_t)(attr.rank - 2);
		attr.perm[attr.rank - 2] = (uint8_t)(attr.rank - 1);
	}
	return record_one(&r, failed, OP_permute, &attr);
}

fusion_array *fusion_flip(fusion_array *a, int count, const int *axes) {
	struct op_attr attr = { 0 };
	struct recording r;
	int failed;

	if (!record_begin(&r, "flip", 1, &a))
		return NULL;
	failed = take_axes_or_all(&r, count, axes, &attr.axes);
	return record_one(&r, failed, OP_flip, &attr);
}

fusion_array *fusion_windows(fusion_array *a, int axis, int64_t size, int64_t step, int64_t dilation) {
	struct op_attr attr = { .window = { size, step, dilation } };
	struct recording r;
	unsigned at = 0;
	int failed;

	if (!record_begin(&r, "windows", 1, &a))
		return NULL;
	failed = take_axis(&r, axis, &at);
	attr.axis = (uint8_t)at;
	return record_one(&r, failed, OP_windows, &attr);
}

/* --- slices ------------------------------------------------------------------------------ */

/* A bound of a slice as Python reads it: negative ones count from the end, all are clipped. */
static int64_t clip_bound(int64_t bound, int64_t extent, int64_t lowest, int64_t highest) {
	if (bound < 0)
		bound = bound < -extent ? lowest : bound + extent;
	return bound < lowest ? lowest : bound > highest ? highest : bound;
}

static void slice_axis(
	int64_t extent, int64_t start, int64_t stop, int64_t step, int64_t *startp, int64_t *countp) {
	int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? extent - 1 : extent;
	int64_t first = start == FUSION_END ? (step < 0 ? highest : lowest)
					    : clip_bound(start, extent, lowest, highest);
	int64_t last = stop == FUSION_END ? (step < 0 ? lowest : highest)
					  : clip_bound(stop, extent, lowest, highest);
	uint64_t span = step < 0 ? (uint64_t)(first - last) : (uint64_t)(last - first);
	uint64_t stride = step < 0 ? -(uint64_t)step : (uint64_t)step;
	bool some = step < 0 ? first > last : last > first;

	*countp = some ? (int64_t)((span - 1) / stride + 1) : 0;
	*startp = some ? first : 0;
}

fusion_array *fusion_slice(fusion_array *a, const int64_t *start, const int64_t *stop, const int64_t *step) {
	struct op_attr attr = { 0 };
	struct recording r;
	int failed = 0;

	if (!record_begin(&r, "slice", 1, &a))
		return NULL;
	attr.rank = operand_type(&r)->rank;
	if (attr.rank && (!start || !stop))
		failed = fault_set(&r.fault, FAULT_ARGUMENT, "slice: %s is NULL", start ? "stop" : "start");
	for (unsigned d = 0; !failed && d < attr.rank; d++) {
		attr.step[d] = step ? step[d] : 1;
		if (!attr.step[d])
			failed = fault_set(&r.fault, FAULT_ARGUMENT, "slice: the step on axis %u is 0", d);
		else
			slice_axis(operand_type(&r)->dims[d], start[d], stop[d], attr.step[d], &attr.start[d],
				&attr.dims[d]);
	}
	return record_one(&r, failed, OP_slice, &attr);
}

/* --- gathers ----------------------------------------------------------------------------- */

static fusion_array *record_gather(unsigned op, fusion_array *a, fusion_array *index, int axis) {
	fusion_array *operand[] = { a, index };
	struct op_attr attr = { 0 };
	struct value *v = NULL;
	struct recording r;
	unsigned at = 0;
	int failed;

	if (!record_begin(&r, op_info(op)->name, 2, operand))
		return NULL;
	failed = take_axis(&r, axis, &at);
	attr.axis = (uint8_t)at;
	if (!failed)
		failed = record_value(&r, op, 2, r.in, &attr, &v);
	return record_end(&r, failed, v);
}

fusion_array *fusion_take(fusion_array *a, fusion_array *index, int axis) {
	return record_gather(OP_take, a, index, axis);
}

fusion_array *fusion_take_along(fusion_array *a, fusion_array *index, int axis) {
	return record_gather(OP_take_along, a, index, axis);
}

/* --- scatters ---------------------------------------------------------------------------- */

static fusion_array *record_scatter(
	unsigned op, fusion_array *a, fusion_array *index, fusion_array *updates, int axis) {
	fusion_array *operand[] = { a, index, updates };
	struct op_attr attr = { 0 };
	struct value *v = NULL;
	struct recording r;
	unsigned at = 0;
	int failed;

	if (!record_begin(&r, op_info(op)->name, 3, operand))
		return NULL;
	failed = take_axis(&r, axis, &at);
	attr.axis = (uint8_t)at;
	if (!failed)
		failed = record_cast(&r, 2, r.in[0]->type.dtype);
	if (!failed)
		failed = record_value(&r, op, 3, r.in, &attr, &v);
	return record_end(&r, failed, v);
}

fusion_array *fusion_put_along(fusion_array *a, fusion_array *index, fusion_array *updates, int axis) {
	return record_scatter(OP_put_along, a, index, updates, axis);
}

fusion_array *fusion_add_along(fusion_array *a, fusion_array *index, fusion_array *updates, int axis) {
	return record_scatter(OP_add_along, a, index, updates, axis);
}

/* --- matmul ------------------------------------------------------------------------------ */

/* Of a vector and what does not fit it, by the shapes that the caller gave; of matrices the operation itself says so. */
static int refuse_vectors(struct recording *r) {
	const struct tensor_type *a = &r->in[0]->type, *b = &r->in[1]->type;
	char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

	if (!a->rank || !b->rank)
		return fault_set(&r->fault, FAULT_SHAPE, "matmul of %s and %s: a and b need at least 1 dimension", shape_text(a, ta), shape_text(b, tb));
	if (a->rank > 1 && b->rank > 1)
		return 0;
	if (a->dims[a->rank - 1] == b->dims[b->rank > 1 ? b->rank - 2 : 0])
		return 0;
	return fault_set(&r->fault, FAULT_SHAPE, "matmul of %s and %s: the last axis of a and the %s of b differ", shape_text(a, ta),
		shape_text(b, tb), b->rank > 1 ? "last but one" : "axis");
}

/* A vector becomes a matrix of one row (operand 0) or one column (operand 1). */
static int make_matrix(struct recording *r, unsigned i) {
	struct op_attr attr = { .rank = 2, .dims = { 1, 1 } };
	struct value *matrix;
	int failed;

	if (r->in[i]->type.rank != 1)
		return 0;
	attr.dims[1 - i] = r->in[i]->type.dims[0];
	failed = record_value(r, OP_reshape, 1, &r->in[i], &attr, &matrix);
	if (failed)
		return failed;
	value_drop(r->context, r->in[i]);
	r->in[i] = matrix;
	return 0;
}

/* Takes the axes out again that make_matrix() put in. */
static int drop_axes(struct recording *r, bool row, bool column, struct value **vp) {
	struct value *product = *vp;
	struct op_attr attr = { 0 };
	int failed;

	if (!row && !column)
		return 0;
	for (unsigned d = 0; d < product->type.rank; d++) {
		bool drop = (row && d + 2 == product->type.rank) || (column && d + 1 == product->type.rank);

		if (!drop)
			attr.dims[attr.rank++] = product->type.dims[d];
	}
	failed = record_value(r, OP_reshape, 1, &product, &attr, vp);
	value_drop(r->context, product);
	return failed;
}

fusion_array *fusion_matmul(fusion_array *a, fusion_array *b) {
	fusion_array *operand[] = { a, b };
	struct recording r;
	struct value *v = NULL;
	bool row, column;
	int failed;

	if (!record_begin(&r, "matmul", 2, operand))
		return NULL;
	row = r.in[0]->type.rank == 1;
	column = r.in[1]->type.rank == 1;
	failed = refuse_vectors(&r);
	if (!failed)
		failed = make_matrix(&r, 0);
	if (!failed)
		failed = make_matrix(&r, 1);
	if (!failed)
		failed = record_promoted(&r, OP_matmul, NULL, &v);
	if (!failed)
		failed = drop_axes(&r, row, column, &v);
	return record_end(&r, failed, v);
}

/* --- reductions -------------------------------------------------------------------------- */

static fusion_array *record_reduction(
	unsigned op, fusion_array *a, int count, const int *axes, bool keepdims) {
	struct op_attr attr = { .keepdims = keepdims };
	struct recording r;
	int failed;

	if (!record_begin(&r, op_info(op)->name, 1, &a))
		return NULL;
	failed = take_axes_or_all(&r, count, axes, &attr.axes);
	return record_one(&r, failed, op, &attr);
}

static fusion_array *record_scan(unsigned op, fusion_array *a, int axis) {
	struct op_attr attr = { 0 };
	struct recording r;
	int failed;

	if (!record_begin(&r, op_info(op)->name, 1, &a))
		return NULL;
	failed = take_axes(&r, 1, &axis, &attr.axes);
	return record_one(&r, failed, op, &attr);
}

/* Every REDUCE and SCAN line of ops.def is a function fusion_NAME declared in fusion.h. */
#define REDUCE(id, name, ...)                                                                                \
	fusion_array *fusion_##name(fusion_array *a, int count, const int *axes, bool keepdims) {            \
		return record_reduction(OP_reduce_##name, a, count, axes, keepdims);                         \
	}
#define SCAN(id, name, ...)                                                                                  \
	fusion_array *fusion_##name(fusion_array *a, int axis) {                                             \
		return record_scan(OP_##name, a, axis);                                                      \
	}
#include "protocol/ops.def"

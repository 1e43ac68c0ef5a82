/*
 * Arrays put together and taken apart: concat and pad, and what is made of them and of views.
 *
 * More arrays than an operation takes are joined as a tree. stack, tile, roll, repeat and split are
 * views and concat: a view costs nothing, concat writes each part once.
 */
#include <errno.h>
#include <string.h>

#include "context.h"
#include "error.h"
#include "record.h"

/* An axis that may count from the end of `rank`; -1, with an error, where it does not exist. */
static int axis_of(const char *what, int axis, int rank) {
	if (axis >= -rank && axis < rank)
		return axis < 0 ? axis + rank : axis;
	error_refuse(FAULT_ARGUMENT, what, "axis %d does not exist in an array of %d dimension%s", axis, rank, rank == 1 ? "" : "s");
	return -1;
}

/* A count below 1, or a list that is NULL. */
static fusion_array *refuse_list(const char *what, int count, const char *list) {
	return count < 1 ? error_refuse_array(FAULT_ARGUMENT, what, "count is %d, below 1", count) : error_refuse_array(FAULT_ARGUMENT, what, "%s is NULL", list);
}

/* ---- concat ---- */

static fusion_array *concat_few(const char *what, unsigned count, fusion_array *const *array, int axis) {
	struct op_attr attr = { 0 };
	struct value *v = NULL;
	struct recording r;
	char text[SHAPE_TEXT];
	int rank, failed = 0;

	if (!record_begin(&r, what, count, array))
		return NULL;
	rank = r.in[0]->type.rank;
	if (axis < -rank || axis >= rank)
		failed = fault_set(&r.fault, FAULT_ARGUMENT, "%s: axis %d does not exist in %s", what, axis,
			shape_text(&r.in[0]->type, text));
	attr.axis = (uint8_t)(axis < 0 ? axis + rank : axis);
	if (!failed)
		failed = record_as(&r, OP_concat, record_promoted(&r, OP_concat, &attr, &v));
	return record_end(&r, failed, v);
}

static fusion_array *concat_all(const char *what, int count, fusion_array *const *array, int axis) {
	fusion_array *group[LIMIT_OPERANDS] = { NULL }, *made;
	int groups = 0, each = 1;

	if (count <= LIMIT_OPERANDS)
		return concat_few(what, (unsigned)count, array, axis);
	while (each * LIMIT_OPERANDS < count)
		each *= LIMIT_OPERANDS;
	for (int i = 0; i < count; i += each)
		group[groups++] = concat_all(what, count - i < each ? count - i : each, array + i, axis);
	made = concat_few(what, (unsigned)groups, group, axis);
	for (int i = 0; i < groups; i++)
		fusion_release(group[i]);
	return made;
}

static bool array_found(const char *what, fusion_array *const *array, int i) {
	char text[sizeof "array -2147483648"];

	snprintf(text, sizeof text, "array %d", i);
	return array_given(array[i], what, text);
}

static struct tensor_type type_of(const fusion_array *a) {
	struct tensor_type t = { .dtype = (uint8_t)fusion_dtype_of(a), .rank = (uint8_t)fusion_rank(a) };

	memcpy(t.dims, fusion_dims(a), t.rank * sizeof *t.dims);
	return t;
}

/* Array i is as the first one, but for the extent along an axis (-1: without exception); else told by the shapes that the caller gave: those of
 * concat's own operands are of groups, stack's have an axis more. */
static bool array_fits(const char *what, fusion_array *const *array, int i, int axis) {
	struct tensor_type first, t;
	char a[SHAPE_TEXT], b[SHAPE_TEXT];
	bool same;

	if (!array_found(what, array, i))
		return false;
	first = type_of(array[0]);
	t = type_of(array[i]);
	same = t.rank == first.rank;
	for (int d = 0; same && d < t.rank; d++)
		same = d == axis || t.dims[d] == first.dims[d];
	if (!same)
		error_refuse(FAULT_SHAPE, what, "array 0 (%s) and array %d (%s) are of different %s", shape_text(&first, a), i, shape_text(&t, b),
			t.rank != first.rank ? "ranks" : axis < 0 ? "shapes" : "extents on another axis");
	return same;
}

fusion_array *fusion_concat(int count, fusion_array *const *array, int axis) {
	if (count < 1 || !array)
		return refuse_list("concat", count, "array");
	for (int i = 0; count > LIMIT_OPERANDS && i < count; i++)
		if (!array_fits("concat", array, i, axis < 0 ? axis + fusion_rank(array[0]) : axis))
			return NULL;
	return concat_all("concat", count, array, axis);
}

/* ---- pad ---- */

static int take_margins(struct recording *r, const int64_t *low, const int64_t *high, struct op_attr *attr) {
	const struct tensor_type *t = &r->in[0]->type;

	attr->rank = t->rank;
	for (unsigned d = 0; d < t->rank; d++) {
		int64_t before = low ? low[d] : 0, after = high ? high[d] : 0;

		attr->start[d] = before;
		if (before < 0 || after < 0 || __builtin_add_overflow(t->dims[d], before, &attr->dims[d]) ||
			__builtin_add_overflow(attr->dims[d], after, &attr->dims[d]))
			return fault_set(&r->fault, FAULT_ARGUMENT,
				"pad: low %lld and high %lld of axis %u are negative or too many", (long long)before, (long long)after, d);
	}
	return 0;
}

fusion_array *fusion_pad(fusion_array *a, const int64_t *low, const int64_t *high, fusion_array *value) {
	fusion_array *operand[] = { a, value };
	struct op_attr attr = { 0 };
	struct value *v = NULL;
	struct recording r;
	int failed;

	if (!record_begin(&r, "pad", value ? 2 : 1, operand))
		return NULL;
	failed = take_margins(&r, low, high, &attr);
	if (!failed && value)
		failed = record_cast(&r, 1, r.in[0]->type.dtype);
	if (!failed)
		failed = record_value(&r, OP_pad, r.count, r.in, &attr, &v);
	return record_end(&r, failed, v);
}

/* ---- stack and split ---- */

fusion_array *fusion_stack(int count, fusion_array *const *array, int axis) {
	fusion_array **one, *made;
	int64_t dims[LIMIT_RANK + 1];
	int rank, at;

	if (count < 1 || !array)
		return refuse_list("stack", count, "array");
	one = calloc((size_t)count, sizeof *one);
	if (!one)
		return error_refuse_array(FAULT_ARGUMENT, "stack", "out of memory");
	for (int i = 0; i < count && array_fits("stack", array, i, -1); i++) {
		rank = fusion_rank(array[i]);
		if (rank == LIMIT_RANK)
			error_refuse(FAULT_ARGUMENT, "stack", "array %d has no room for one more than its %d dimensions", i, rank);
		at = rank < LIMIT_RANK ? axis_of("stack", axis, rank + 1) : -1;
		if (at < 0)
			break;
		memcpy(dims, fusion_dims(array[i]), (size_t)at * sizeof *dims);
		memcpy(dims + at + 1, fusion_dims(array[i]) + at, (size_t)(rank - at) * sizeof *dims);
		dims[at] = 1;
		one[i] = fusion_reshape(array[i], rank + 1, dims);
	}
	made = one[count - 1] ? concat_all("stack", count, one, axis) : NULL;
	for (int i = 0; i < count; i++)
		fusion_release(one[i]);
	free(one);
	return made;
}

/* Elements [from, to) along an axis. */
static fusion_array *part_of(fusion_array *a, int axis, int64_t from, int64_t to) {
	int64_t start[LIMIT_RANK], stop[LIMIT_RANK];

	for (int d = 0; d < fusion_rank(a); d++) {
		start[d] = d == axis ? from : FUSION_END;
		stop[d] = d == axis ? to : FUSION_END;
	}
	return fusion_slice(a, start, stop, NULL);
}

int fusion_split(fusion_array *a, int count, const int64_t *extent, int axis, fusion_array **arrayp) {
	int64_t from = 0, all = 0;

	if (!array_given(a, "split", "argument a"))
		return fusion_error_code();
	axis = axis_of("split", axis, fusion_rank(a));
	if (axis < 0)
		return fusion_error_code();
	if (count < 1 || !extent || !arrayp) {
		refuse_list("split", count, extent ? "arrayp" : "extent");
		return fusion_error_code();
	}
	for (int i = 0; i < count && all >= 0; i++)
		if (extent[i] < 0 || __builtin_add_overflow(all, extent[i], &all))
			all = -1;
	if (all != fusion_dims(a)[axis]) {
		error_refuse(FAULT_ARGUMENT, "split", "the count of %d of extent, at least 0 each, do not add up to the %lld of axis %d", count, (long long)fusion_dims(a)[axis], axis);
		return fusion_error_code();
	}
	for (int i = 0; i < count; from += extent[i++]) {
		arrayp[i] = part_of(a, axis, from, from + extent[i]);
		if (arrayp[i])
			continue;
		while (i-- > 0) {
			fusion_release(arrayp[i]);
			arrayp[i] = NULL;
		}
		return fusion_error_code();
	}
	return FUSION_OK;
}

/* ---- repetition ---- */

/* Each element of an axis (outer: the whole axis) `times` times; one view, and one copy where it is read so. */
static fusion_array *repeat_axis(const char *what, fusion_array *a, int64_t times, int axis, bool outer) {
	int64_t apart[LIMIT_RANK + 1], wide[LIMIT_RANK + 1], together[LIMIT_RANK];
	int rank = fusion_rank(a), at = outer ? axis : axis + 1;
	fusion_array *split, *repeated, *made;

	if (rank == LIMIT_RANK)
		return error_refuse_array(FAULT_ARGUMENT, what, "argument a has %d dimensions, which leaves no room for the axis that repeats", rank);
	memcpy(together, fusion_dims(a), (size_t)rank * sizeof *together);
	memcpy(apart, together, (size_t)at * sizeof *apart);
	memcpy(apart + at + 1, together + at, (size_t)(rank - at) * sizeof *apart);
	apart[at] = 1;
	memcpy(wide, apart, sizeof wide);
	wide[at] = times;
	if (times < 0 || __builtin_mul_overflow(together[axis], times, &together[axis]))
		return error_refuse_array(FAULT_ARGUMENT, what, "times is %lld for axis %d, which is negative or too many", (long long)times, axis);
	split = fusion_reshape(a, rank + 1, apart);
	repeated = fusion_broadcast(split, rank + 1, wide);
	made = fusion_reshape(repeated, rank, together);
	fusion_release(split);
	fusion_release(repeated);
	return made;
}

fusion_array *fusion_repeat(fusion_array *a, int64_t times, int axis) {
	if (!array_given(a, "repeat", "argument a"))
		return NULL;
	axis = axis_of("repeat", axis, fusion_rank(a));
	return axis < 0 ? NULL : repeat_axis("repeat", a, times, axis, false);
}

fusion_array *fusion_tile(fusion_array *a, const int64_t *times) {
	fusion_array *made;

	if (!array_given(a, "tile", "argument a"))
		return NULL;
	if (fusion_rank(a) && !times)
		return error_refuse_array(FAULT_ARGUMENT, "tile", "times is NULL");
	made = fusion_retain(a);
	for (int d = 0; made && d < fusion_rank(a); d++) {
		fusion_array *before = made;

		if (times[d] == 1)
			continue;
		made = repeat_axis("tile", before, times[d], d, true);
		fusion_release(before);
	}
	return made;
}

fusion_array *fusion_roll(fusion_array *a, int64_t by, int axis) {
	fusion_array *half[2], *made;
	int64_t extent, cut;

	if (!array_given(a, "roll", "argument a"))
		return NULL;
	axis = axis_of("roll", axis, fusion_rank(a));
	if (axis < 0)
		return NULL;
	extent = fusion_dims(a)[axis];
	if (!extent || by % extent == 0)
		return fusion_retain(a);
	cut = by % extent < 0 ? -(by % extent) : extent - by % extent;
	half[0] = part_of(a, axis, cut, extent);
	half[1] = part_of(a, axis, 0, cut);
	made = fusion_concat(2, half, axis);
	fusion_release(half[0]);
	fusion_release(half[1]);
	return made;
}

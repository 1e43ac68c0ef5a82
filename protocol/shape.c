/*
 * Shapes, views and broadcasting. See shape.h for what holds of a checked shape.
 *
 * Arithmetic here needs no overflow checks once shape_check() has passed: extents multiply to less
 * than 2^63, and a stride times an index inside its axis stays inside the buffer it came from. The
 * one exception is guarded where it stands: the step of a slice with fewer than two elements on an
 * axis is any number, and is never multiplied.
 */
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "op.h"

int64_t shape_elements(const struct tensor_type *t) {
	int64_t n = 1;

	for (unsigned d = 0; d < t->rank; d++)
		n *= t->dims[d];
	return n;
}

int64_t shape_bytes(const struct tensor_type *t) {
	return shape_elements(t) * dtype_info(t->dtype)->bytes;
}

char *shape_text(const struct tensor_type *t, char text[static SHAPE_TEXT]) {
	const char *dtype = t->dtype < DTYPE_COUNT ? dtype_info(t->dtype)->name : "unknown";
	int used = snprintf(text, SHAPE_TEXT, "%s[", dtype);

	for (unsigned d = 0; d < t->rank && d < LIMIT_RANK; d++)
		used += snprintf(
			text + used, SHAPE_TEXT - (size_t)used, "%s%" PRId64, d ? "," : "", t->dims[d]);
	snprintf(text + used, SHAPE_TEXT - (size_t)used, "%s]", t->rank > LIMIT_RANK ? ",..." : "");
	return text;
}

static int refuse_size(const struct tensor_type *t, struct fault *f) {
	char text[SHAPE_TEXT];

	return fault_set(f, FAULT_OVERFLOW,
		"the size of %s exceeds the limit of one array, %" PRId64 " bytes", shape_text(t, text),
		LIMIT_ARRAY_BYTES);
}

static int check_extents(const struct tensor_type *t, struct fault *f) {
	char text[SHAPE_TEXT];

	for (unsigned d = 0; d < t->rank; d++)
		if (t->dims[d] < 0)
			return fault_set(f, FAULT_SHAPE, "the extent of axis %u of %s is negative", d,
				shape_text(t, text));
	return 0;
}

int shape_check(const struct tensor_type *t, struct fault *f) {
	int64_t bytes;
	bool empty = false;
	int r;

	if (t->dtype >= DTYPE_COUNT)
		return fault_set(f, FAULT_DTYPE, "element type %u does not exist", t->dtype);
	if (t->rank > LIMIT_RANK)
		return fault_set(
			f, FAULT_RANK, "%u dimensions are more than the limit of %d", t->rank, LIMIT_RANK);
	r = check_extents(t, f);
	if (r)
		return r;
	bytes = dtype_info(t->dtype)->bytes;
	for (unsigned d = 0; d < t->rank; d++) {
		if (t->dims[d] == 0)
			empty = true;
		else if (__builtin_mul_overflow(bytes, t->dims[d], &bytes))
			return refuse_size(t, f);
	}
	return !empty && bytes > LIMIT_ARRAY_BYTES ? refuse_size(t, f) : 0;
}

bool shape_equal(const struct tensor_type *a, const struct tensor_type *b) {
	return a->dtype == b->dtype && a->rank == b->rank &&
	       !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

static int refuse_broadcast(const struct tensor_type *a, const struct tensor_type *b, unsigned axis,
	int64_t m, int64_t n, struct fault *f) {
	char ta[SHAPE_TEXT], tb[SHAPE_TEXT];

	return fault_set(f, FAULT_SHAPE,
		"shapes %s and %s do not broadcast (axis %u: %" PRId64 " against %" PRId64 ")",
		shape_text(a, ta), shape_text(b, tb), axis, m, n);
}

/* The extent of axis d of t when its shape is padded with ones on the left to `rank`. */
static int64_t padded_extent(const struct tensor_type *t, unsigned rank, unsigned d) {
	unsigned missing = rank - t->rank;

	return d < missing ? 1 : t->dims[d - missing];
}

void shape_reduce(const struct tensor_type *in, uint16_t axes, bool keepdims, struct tensor_type *outp) {
	outp->rank = 0;
	for (unsigned d = 0; d < in->rank; d++) {
		if (!(axes >> d & 1))
			outp->dims[outp->rank++] = in->dims[d];
		else if (keepdims)
			outp->dims[outp->rank++] = 1;
	}
}

int shape_broadcast(struct tensor_type *ap, const struct tensor_type *b, struct fault *f) {
	unsigned rank = ap->rank > b->rank ? ap->rank : b->rank;
	int64_t dims[LIMIT_RANK] = { 0 };

	for (unsigned d = 0; d < rank; d++) {
		int64_t m = padded_extent(ap, rank, d), n = padded_extent(b, rank, d);

		if (m != n && m != 1 && n != 1)
			return refuse_broadcast(ap, b, d, m, n, f);
		dims[d] = m == 1 ? n : m;
	}
	ap->rank = (uint8_t)rank;
	memcpy(ap->dims, dims, rank * sizeof *dims);
	return 0;
}

int shape_check_some(const struct tensor_type *in, uint16_t axes, const char *what, struct fault *f) {
	char text[SHAPE_TEXT];

	for (unsigned d = 0; d < in->rank; d++)
		if ((axes >> d & 1) && in->dims[d] == 0)
			return fault_set(f, FAULT_SHAPE, "%s of nothing: axis %u of %s is empty", what, d, shape_text(in, text));
	return 0;
}

void view_contiguous(const struct tensor_type *t, struct view *v) {
	int64_t stride = 1;

	v->offset = 0;
	for (unsigned d = t->rank; d-- > 0;) {
		v->stride[d] = stride;
		stride *= t->dims[d] ? t->dims[d] : 1;
	}
}

bool view_is_contiguous(const struct tensor_type *t, const struct view *v) {
	int64_t stride = 1;

	if (shape_elements(t) == 0)
		return true;
	for (unsigned d = t->rank; d-- > 0;) {
		if (t->dims[d] != 1 && v->stride[d] != stride)
			return false;
		stride *= t->dims[d];
	}
	return true;
}

/* Axes of extent above 1 of a tensor, outermost first. */
struct axes {
	unsigned count;
	int64_t extent[LIMIT_RANK];
	int64_t stride[LIMIT_RANK];
};

/* Drops axes of extent 1 and merges neighbours that are one longer axis. Requires t not empty. */
static struct axes merge_axes(const struct tensor_type *t, const struct view *v) {
	struct axes a = { 0 };

	for (unsigned d = 0; d < t->rank; d++) {
		if (t->dims[d] == 1)
			continue;
		if (a.count && a.stride[a.count - 1] == v->stride[d] * t->dims[d]) {
			a.extent[a.count - 1] *= t->dims[d];
		} else {
			a.extent[a.count++] = t->dims[d];
		}
		a.stride[a.count - 1] = v->stride[d];
	}
	return a;
}

/*
 * After merging, a new shape can be expressed by strides exactly where each merged axis is the
 * product of a run of new axes: walked from the innermost outwards, every new axis must divide
 * what is left of the merged axis it falls into.
 */
static bool view_reshape(const struct tensor_type *in, const struct view *v, const struct tensor_type *out,
	struct view *outp) {
	struct axes a;
	int64_t left = 1, stride = 1;

	if (shape_elements(in) == 0) {
		view_contiguous(out, outp);
		outp->offset = v->offset;
		return true;
	}
	a = merge_axes(in, v);
	for (unsigned d = out->rank; d-- > 0;) {
		if (left == 1 && out->dims[d] != 1 && a.count) {
			a.count--;
			left = a.extent[a.count];
			stride = a.stride[a.count];
		}
		if (left % out->dims[d])
			return false;
		outp->stride[d] = stride;
		left /= out->dims[d];
		stride *= out->dims[d];
	}
	outp->offset = v->offset;
	return true;
}

static void view_permute(
	const struct op_attr *attr, const struct tensor_type *in, const struct view *v, struct view *outp) {
	outp->offset = v->offset;
	for (unsigned d = 0; d < in->rank; d++)
		outp->stride[d] = v->stride[attr->perm[d]];
}

static void view_broadcast(const struct tensor_type *in, const struct view *v, const struct tensor_type *out,
	struct view *outp) {
	unsigned missing = out->rank - in->rank;

	outp->offset = v->offset;
	for (unsigned d = 0; d < out->rank; d++) {
		bool repeated = d < missing || in->dims[d - missing] != out->dims[d];

		outp->stride[d] = repeated ? 0 : v->stride[d - missing];
	}
}

static void view_slice(
	const struct op_attr *attr, const struct tensor_type *in, const struct view *v, struct view *outp) {
	outp->offset = v->offset;
	for (unsigned d = 0; d < in->rank; d++) {
		outp->offset += attr->dims[d] ? attr->start[d] * v->stride[d] : 0;
		outp->stride[d] = attr->dims[d] > 1 ? attr->step[d] * v->stride[d] : v->stride[d];
	}
}

static void view_flip(
	const struct op_attr *attr, const struct tensor_type *in, const struct view *v, struct view *outp) {
	outp->offset = v->offset;
	for (unsigned d = 0; d < in->rank; d++) {
		bool flipped = (attr->axes >> d & 1) && in->dims[d] > 1;

		outp->offset += flipped ? (in->dims[d] - 1) * v->stride[d] : 0;
		outp->stride[d] = flipped ? -v->stride[d] : v->stride[d];
	}
}

/* A step along an axis with fewer than two elements is any number, and is not multiplied. */
static void view_windows(const struct op_attr *attr, const struct tensor_type *in, const struct view *v,
	const struct tensor_type *out, struct view *outp) {
	int64_t stride = v->stride[attr->axis];

	*outp = *v;
	outp->stride[attr->axis] = out->dims[attr->axis] > 1 ? stride * attr->window.step : stride;
	outp->stride[in->rank] = attr->window.size > 1 ? stride * attr->window.dilation : stride;
}

bool view_apply(unsigned op, const struct op_attr *attr, const struct tensor_type *in, const struct view *v,
	const struct tensor_type *out, struct view *outp) {
	struct view result = { 0 };

	switch (op) {
	case OP_reshape:
		if (!view_reshape(in, v, out, &result))
			return false;
		break;
	case OP_permute:
		view_permute(attr, in, v, &result);
		break;
	case OP_broadcast:
		view_broadcast(in, v, out, &result);
		break;
	case OP_slice:
		view_slice(attr, in, v, &result);
		break;
	case OP_flip:
		view_flip(attr, in, v, &result);
		break;
	case OP_windows:
		view_windows(attr, in, v, out, &result);
		break;
	default:
		return false;
	}
	*outp = result;
	return true;
}

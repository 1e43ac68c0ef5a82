/*
 * Shapes, strided views and broadcasting by NumPy's rules.
 *
 * Extents are not negative, a rank is at most LIMIT_RANK, and the product of the extents of a
 * tensor_type that passed shape_check() fits 63 bits, also when empty axes are counted as 1.
 * Strides count elements and may be zero or negative.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "dtype.h"
#include "fault.h"

struct tensor_type {
	uint8_t dtype;               /* enum dtype */
	uint8_t rank;
	int64_t dims[LIMIT_RANK];
};

/* Where the elements of a tensor lie inside a buffer. */
struct view {
	int64_t offset;              /* of element (0, ..., 0), in elements */
	int64_t stride[LIMIT_RANK];
};

/* Number of elements. */
int64_t shape_elements(const struct tensor_type *t);

/* Bytes of the elements in row-major order. */
int64_t shape_bytes(const struct tensor_type *t);

/* Refuses negative extents, ranks above the limit and sizes that overflow or exceed LIMIT_ARRAY_BYTES. */
int shape_check(const struct tensor_type *t, struct fault *f) FAULT_MUST_USE;

bool shape_equal(const struct tensor_type *a, const struct tensor_type *b);

/* The dims of `in` without the axes (bit d for axis d), or with extents of 1 there, into *outp: rank and dims only. */
void shape_reduce(const struct tensor_type *in, uint16_t axes, bool keepdims, struct tensor_type *outp);

/* Broadcasts b's shape into *ap in place (rank and dims only); the fault names both shapes. */
int shape_broadcast(struct tensor_type *ap, const struct tensor_type *b, struct fault *f) FAULT_MUST_USE;

/* Refuses to choose from nothing: an axis without extent. `what` begins the sentence. */
int shape_check_some(const struct tensor_type *in, uint16_t axes, const char *what, struct fault *f) FAULT_MUST_USE;

/* Row-major strides. */
void view_contiguous(const struct tensor_type *t, struct view *v);
bool view_is_contiguous(const struct tensor_type *t, const struct view *v);

/*
 * The view of a view operation (op_is_view() of op.h) applied to a
 * tensor `in` seen through v. Returns false where a reshape cannot be expressed by strides.
 */
struct op_attr;
bool view_apply(unsigned op, const struct op_attr *attr, const struct tensor_type *in, const struct view *v,
	const struct tensor_type *out, struct view *outp);

/* "f32[4,8]"; returns text. */
enum { SHAPE_TEXT = 256 };
char *shape_text(const struct tensor_type *t, char text[static SHAPE_TEXT]);

/*
 * Results whose size is known only once values are: the number is computed on the device and read, then
 * the result is made by operations like any other. So these functions wait for the daemon, and take no
 * part in a capture.
 */
#include "context.h"
#include "error.h"

enum {
	/* Where fewer than one in so many elements is true, each place is searched; else all are sorted. */
	SPARSE = 8,
};

/* Releases what was made on the way, NULL where it was not. */
static fusion_array *drop_both(fusion_array *a, fusion_array *b, fusion_array *result) {
	fusion_release(a);
	fusion_release(b);
	return result;
}

/* Place j is the first with j + 1 true elements up to it. */
static fusion_array *search_places(fusion_array *truth, int64_t count) {
	fusion_array *so_far = fusion_cumsum(truth, 0), *all, *result;

	all = so_far ? fusion_arange(fusion_context_of(so_far), FUSION_I64, count, 1, 1) : NULL;
	result = fusion_searchsorted(so_far, all, false);
	return drop_both(so_far, all, result);
}

/* A stable sort puts the true elements first, in their order. */
static fusion_array *sort_places(fusion_array *truth, int64_t count) {
	fusion_array *all = fusion_argsort(truth, 0, true), *first, *result;

	first = fusion_slice(all, (const int64_t[]){ 0 }, (const int64_t[]){ count }, NULL);
	/* A view would keep the memory of all. */
	result = fusion_copy(first);
	return drop_both(all, first, result);
}

static int read_count(fusion_array *truth, int64_t *countp) {
	fusion_array *sum = fusion_sum(truth, 0, NULL, false);
	int code = sum ? fusion_read(sum, countp, sizeof *countp) : fusion_error_code();

	fusion_release(sum);
	return code;
}

fusion_array *fusion_flatnonzero(fusion_array *a) {
	fusion_array *truth, *flat, *result = NULL;
	int64_t count = 0, n;

	if (!array_given(a, "flatnonzero", "argument a"))
		return NULL;
	truth = fusion_cast(a, FUSION_BOOL);
	flat = truth ? fusion_reshape(truth, 1, (const int64_t[]){ fusion_elements(truth) }) : NULL;
	if (flat && !read_count(flat, &count)) {
		n = fusion_elements(flat);
		result = count < n / SPARSE || n > UINT32_MAX ? search_places(flat, count) : sort_places(flat, count);
	}
	return drop_both(truth, flat, result);
}

/* ---- several axes ---- */

/* The index along an axis of places in a row-major array: `below` elements stand behind each of its own. */
static fusion_array *index_along(fusion_array *flat, int64_t below, int64_t extent) {
	fusion_array *quotient = fusion_floor_divide_scalar(flat, (double)below);
	fusion_array *result = fusion_remainder_scalar(quotient, (double)extent);

	fusion_release(quotient);
	return result;
}

/* One array an axis, or none. */
static int split_places(fusion_array *flat, fusion_array *a, fusion_array **placep) {
	int rank = fusion_rank(a);
	int64_t below = 1;

	for (int d = rank; d-- > 0;) {
		int64_t extent = fusion_dims(a)[d];

		/* Of an axis of nothing there are no places; a division by 0 is 0. */
		placep[d] = index_along(flat, below, extent);
		if (!placep[d]) {
			while (++d < rank) {
				fusion_release(placep[d]);
				placep[d] = NULL;
			}
			return fusion_error_code();
		}
		below *= extent;
	}
	return 0;
}

int fusion_nonzero(fusion_array *a, fusion_array **placep) {
	fusion_array *flat;
	int code;

	if (!array_given(a, "nonzero", "argument a"))
		return fusion_error_code();
	if (!placep)
		return error_refuse(FAULT_ARGUMENT, "nonzero", "placep is NULL");
	if (!fusion_rank(a))
		return error_refuse(FAULT_SHAPE, "nonzero", "an array of rank 0 has no places");
	flat = fusion_flatnonzero(a);
	code = flat ? split_places(flat, a, placep) : fusion_error_code();
	fusion_release(flat);
	return code;
}

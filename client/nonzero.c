/*
 * Results whose size is known only once values are: the number is computed on the device and read, then
 * the result is made by operations like any other. So these functions wait for the daemon, and take no
 * part in a capture.
 */
#include "context.h"

/* Releases what was made on the way, NULL where it was not. */
static fusion_array *drop_both(fusion_array *a, fusion_array *b, fusion_array *result) {
	fusion_release(a);
	fusion_release(b);
	return result;
}

/* Where each true element goes: one less than the count so far; all others lie beyond the axis of `count`. */
static fusion_array *destinations(fusion_array *truth, int64_t count) {
	fusion_array *so_far = fusion_cumsum(truth, 0), *place = fusion_sub_scalar(so_far, 1), *beyond, *to;

	fusion_release(so_far);
	beyond = place ? fusion_full_int(fusion_context_of(place), FUSION_I64, 0, NULL, count) : NULL;
	to = fusion_where(truth, place, beyond);
	return drop_both(place, beyond, to);
}

static fusion_array *gather_places(fusion_array *truth, int64_t count) {
	fusion_context *c = fusion_context_of(truth);
	fusion_array *to = destinations(truth, count), *all, *none, *result;

	all = fusion_arange(c, FUSION_I64, fusion_elements(truth), 0, 1);
	none = fusion_full_int(c, FUSION_I64, 1, &count, 0);
	result = fusion_put_along(none, to, all, 0);
	fusion_release(to);
	return drop_both(all, none, result);
}

static int read_count(fusion_array *truth, int64_t *countp) {
	fusion_array *sum = fusion_sum(truth, 0, NULL, false);
	int code = sum ? fusion_read(sum, countp, sizeof *countp) : fusion_error_code();

	fusion_release(sum);
	return code;
}

fusion_array *fusion_flatnonzero(fusion_array *a) {
	fusion_array *truth = fusion_cast(a, FUSION_BOOL), *flat, *result = NULL;
	int64_t count = 0;

	flat = truth ? fusion_reshape(truth, 1, (const int64_t[]){ fusion_elements(truth) }) : NULL;
	if (flat && !read_count(flat, &count))
		result = gather_places(flat, count);
	return drop_both(truth, flat, result);
}

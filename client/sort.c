/*
 * Sorting, and what is made of it: a topk is a part of a sort, values at the places that argsort gives.
 */
#include "context.h"
#include "record.h"

static fusion_array *record_sort(unsigned op, fusion_array *a, int axis, bool descending) {
	struct op_attr attr = { .flag = descending };
	struct value *v = NULL;
	struct recording r;
	uint16_t set = 0;
	int failed;

	if (!record_begin(&r, op_info(op)->name, 1, &a))
		return NULL;
	failed = record_axes(&r, 1, &axis, &set);
	attr.axis = set ? (uint8_t)__builtin_ctz(set) : 0;
	if (!failed)
		failed = record_value(&r, op, 1, r.in, &attr, &v);
	return record_end(&r, failed, v);
}

fusion_array *fusion_sort(fusion_array *a, int axis, bool descending) {
	return record_sort(OP_sort, a, axis, descending);
}

fusion_array *fusion_argsort(fusion_array *a, int axis, bool descending) {
	return record_sort(OP_argsort, a, axis, descending);
}

fusion_array *fusion_searchsorted(fusion_array *sorted, fusion_array *values, bool right) {
	fusion_array *operand[] = { sorted, values };
	struct op_attr attr = { .flag = right };
	struct value *v = NULL;
	struct recording r;
	int failed;

	if (!record_begin(&r, "searchsorted", 2, operand))
		return NULL;
	failed = record_promoted(&r, OP_searchsorted, &attr, &v);
	return record_end(&r, failed, v);
}

/* Places 0 to k - 1 of an axis. */
static fusion_array *first_places(fusion_array *places, int64_t k, int axis) {
	int64_t start[LIMIT_RANK], stop[LIMIT_RANK];

	for (int d = 0; d < LIMIT_RANK; d++) {
		start[d] = FUSION_END;
		stop[d] = d == axis ? k : FUSION_END;
	}
	return fusion_slice(places, start, stop, NULL);
}

/* 0, or the code of the error. */
static int check_topk(fusion_array *a, int64_t k, int axis) {
	struct recording r;
	uint16_t set;
	int failed;

	if (!record_begin(&r, "topk", 1, &a))
		return fusion_error_code();
	failed = record_axes(&r, 1, &axis, &set);
	if (!failed && (k < 0 || k > r.in[0]->type.dims[__builtin_ctz(set)]))
		failed = fault_set(&r.fault, FAULT_ARGUMENT, "topk: %lld elements of an axis of %lld", (long long)k,
			(long long)r.in[0]->type.dims[__builtin_ctz(set)]);
	return record_end_code(&r, failed);
}

int fusion_topk(fusion_array *a, int64_t k, int axis, bool largest, fusion_array **valuesp, fusion_array **placesp) {
	fusion_array *all, *places, *values = NULL;
	int code = check_topk(a, k, axis);

	if (code)
		return code;
	axis += axis < 0 ? fusion_rank(a) : 0;
	all = fusion_argsort(a, axis, largest);
	places = first_places(all, k, axis);
	fusion_release(all);
	if (places && valuesp)
		values = fusion_take_along(a, places, axis);
	if (!places || (valuesp && !values)) {
		fusion_release(places);
		return fusion_error_code();
	}
	if (valuesp)
		*valuesp = values;
	if (placesp)
		*placesp = places;
	else
		fusion_release(places);
	return 0;
}

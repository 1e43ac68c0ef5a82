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

/* ---- topk ---- */

/*
 * The k first elements of a sorted row lie in those k blocks of the row that have the k first elements of all
 * blocks' own first ones; of equal ones the earlier. So a long row is reduced to one element a block, and
 * only the elements of k blocks are sorted, with what is left behind the last block. Rows stand last here.
 */
struct topk {
	fusion_array *a;
	int rank;
	int64_t n, k, block, blocks;
	bool largest;
};

enum {
	/* Elements of a block at least. */
	TOPK_BLOCK = 64,
	/* Sorting blocks and candidates instead of all pays where these are so many times fewer. */
	TOPK_PAYS = 4,
};

/* Takes the first array away. */
static fusion_array *instead(fusion_array *old, fusion_array *new) {
	fusion_release(old);
	return new;
}

/* Elements [from, to) of the last axis. */
static fusion_array *part_of(fusion_array *a, int64_t from, int64_t to) {
	int64_t start[LIMIT_RANK], stop[LIMIT_RANK];
	int last = fusion_rank(a) - 1;

	for (int d = 0; d < LIMIT_RANK; d++) {
		start[d] = d == last ? from : FUSION_END;
		stop[d] = d == last ? to : FUSION_END;
	}
	return fusion_slice(a, start, stop, NULL);
}

static fusion_array *with_last(fusion_array *a, int rank, int64_t before, int64_t last) {
	int64_t dims[LIMIT_RANK];

	for (int d = 0; d < LIMIT_RANK; d++)
		dims[d] = d < fusion_rank(a) ? fusion_dims(a)[d] : 1;
	if (before)
		dims[rank - 2] = before;
	dims[rank - 1] = last;
	return fusion_reshape(a, rank, dims);
}

/* The block that takes the fewest elements to be sorted in all; 0: none pays. */
static int64_t topk_block(int64_t n, int64_t k, int rank) {
	int64_t block = TOPK_BLOCK;

	while (k > 0 && block * block < n / k)
		block *= 2;
	return k > 0 && rank < LIMIT_RANK && (n / block + (k + 1) * block) * TOPK_PAYS <= n ? block : 0;
}

/* What the first element of each block is: NaN stands above all, so it is the least only where there is nothing else. */
static fusion_array *block_firsts(const struct topk *t, fusion_array *blocks) {
	enum fusion_dtype dtype = fusion_dtype_of(blocks);
	fusion_array *in = dtype == FUSION_BOOL ? fusion_cast(blocks, FUSION_U8) : fusion_retain(blocks), *nan, *all, *first;
	bool real = dtype == FUSION_F16 || dtype == FUSION_BF16 || dtype == FUSION_F32 || dtype == FUSION_F64;
	fusion_context *c = in ? fusion_context_of(in) : NULL;
	fusion_array *infinity, *nothing;
	int axis = -1;

	if (t->largest || !real)
		return instead(in, t->largest ? fusion_max(in, 1, &axis, false) : fusion_min(in, 1, &axis, false));
	infinity = c ? fusion_scalar(c, dtype, __builtin_inf()) : NULL;
	nothing = c ? fusion_scalar(c, dtype, __builtin_nan("")) : NULL;
	nan = fusion_isnan(in);
	in = instead(in, fusion_where(nan, infinity, in));
	first = instead(in, fusion_min(in, 1, &axis, false));
	all = fusion_all(nan, 1, &axis, false);
	first = instead(first, fusion_where(all, nothing, first));
	fusion_release(infinity);
	fusion_release(nothing);
	fusion_release(nan);
	fusion_release(all);
	return first;
}

/* The blocks to be sorted, in their order, as an index along the last axis but one: [..., k, 1]. */
static fusion_array *choose_blocks(const struct topk *t, fusion_array *blocks) {
	fusion_array *first = blocks ? block_firsts(t, blocks) : NULL, *order, *chosen;

	order = fusion_argsort(first, -1, t->largest);
	fusion_release(first);
	chosen = instead(order, part_of(order, 0, t->k));
	chosen = instead(chosen, fusion_sort(chosen, -1, false));
	return instead(chosen, chosen ? with_last(chosen, t->rank + 1, t->k, 1) : NULL);
}

/* Places of the whole row, of places among the candidates: k blocks, then what is behind the last block. */
static fusion_array *whole_places(const struct topk *t, fusion_array *at, fusion_array *chosen) {
	fusion_array *many = fusion_floor_divide_scalar(at, (double)t->block);
	/* Those behind the last block have none; what is read for them is not used. */
	fusion_array *number = fusion_minimum_scalar(many, (double)(t->k - 1));
	fusion_array *inside = fusion_remainder_scalar(at, (double)t->block);
	fusion_array *flat = chosen ? with_last(chosen, t->rank, 0, t->k) : NULL;
	fusion_array *block = fusion_take_along(flat, number, -1), *begin, *there, *behind, *is_behind, *result;

	begin = fusion_mul_scalar(block, (double)t->block);
	there = fusion_add(begin, inside);
	behind = fusion_add_scalar(at, (double)((t->blocks - t->k) * t->block));
	is_behind = fusion_ge_scalar(at, (double)(t->k * t->block));
	result = fusion_where(is_behind, behind, there);
	fusion_release(many);
	fusion_release(number);
	fusion_release(inside);
	fusion_release(flat);
	fusion_release(block);
	fusion_release(begin);
	fusion_release(there);
	fusion_release(behind);
	fusion_release(is_behind);
	return result;
}

/* The elements of the chosen blocks, and those behind the last block. */
static fusion_array *candidates(const struct topk *t, fusion_array *blocks, fusion_array *chosen) {
	fusion_array *taken = fusion_take_along(blocks, chosen, -2), *pair[2], *result;

	pair[0] = taken ? with_last(taken, t->rank, 0, t->k * t->block) : NULL;
	pair[1] = part_of(t->a, t->blocks * t->block, t->n);
	result = fusion_concat(2, pair, -1);
	fusion_release(taken);
	fusion_release(pair[0]);
	fusion_release(pair[1]);
	return result;
}

static fusion_array *places_by_blocks(const struct topk *t) {
	fusion_array *even = part_of(t->a, 0, t->blocks * t->block), *blocks, *chosen, *few, *at, *result;

	blocks = even ? with_last(even, t->rank + 1, t->blocks, t->block) : NULL;
	chosen = choose_blocks(t, blocks);
	few = candidates(t, blocks, chosen);
	at = fusion_argsort(few, -1, t->largest);
	at = instead(at, part_of(at, 0, t->k));
	result = whole_places(t, at, chosen);
	fusion_release(even);
	fusion_release(blocks);
	fusion_release(chosen);
	fusion_release(few);
	fusion_release(at);
	return result;
}

static fusion_array *topk_places(fusion_array *a, int64_t k, bool largest) {
	struct topk t = { .a = a, .rank = fusion_rank(a), .k = k, .largest = largest };
	fusion_array *all;

	t.n = fusion_dims(a)[t.rank - 1];
	t.block = topk_block(t.n, k, t.rank);
	if (t.block) {
		t.blocks = t.n / t.block;
		return places_by_blocks(&t);
	}
	all = fusion_argsort(a, -1, largest);
	return instead(all, part_of(all, 0, k));
}

/* 0, or the code of the error; *axisp does not count from the end. */
static int check_topk(fusion_array *a, int64_t k, int axis, int *axisp) {
	struct recording r;
	uint16_t set = 0;
	int failed;

	if (!record_begin(&r, "topk", 1, &a))
		return fusion_error_code();
	failed = record_axes(&r, 1, &axis, &set);
	*axisp = set ? __builtin_ctz(set) : 0;
	if (!failed && (k < 0 || k > r.in[0]->type.dims[*axisp]))
		failed = fault_set(&r.fault, FAULT_ARGUMENT, "topk: k is %lld, not between 0 and the %lld elements of the axis", (long long)k,
			(long long)r.in[0]->type.dims[*axisp]);
	return record_end_code(&r, failed);
}

/* Moves an axis behind all others, or back. */
static fusion_array *move_axis(fusion_array *a, int rank, int axis, bool back) {
	int axes[LIMIT_RANK];

	for (int d = 0; d < rank; d++) {
		int from = d + 1 == rank ? axis : d + (d >= axis);

		axes[back ? from : d] = back ? d : from;
	}
	return fusion_permute(a, axes);
}

int fusion_topk(fusion_array *a, int64_t k, int axis, bool largest, fusion_array **valuesp, fusion_array **placesp) {
	fusion_array *moved, *places, *values = NULL;
	int code = check_topk(a, k, axis, &axis);

	if (code)
		return code;
	moved = move_axis(a, fusion_rank(a), axis, false);
	places = moved ? topk_places(moved, k, largest) : NULL;
	if (places && valuesp) {
		values = fusion_take_along(moved, places, -1);
		values = instead(values, move_axis(values, fusion_rank(a), axis, true));
	}
	fusion_release(moved);
	places = instead(places, move_axis(places, fusion_rank(a), axis, true));
	if (!places || (valuesp && !values)) {
		fusion_release(places);
		fusion_release(values);
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

/*
 * Scans and sorts by generic kernels: see generic.c.
 *
 * Both go along rows that lie row-major, [rows][elements]. A scan of rows longer than a block is three steps in the
 * plan that this one is made from, too (split.c): a reduction of blocks, a scan of what they give, and one that goes
 * block by block and takes in what the blocks before it gave. A sort that is merged from blocks is one of whole rows here: its
 * result is the same.
 */
#include "generic_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- scans ---- */

/* [rows][extent], or [rows][blocks][extent] where there are blocks: the carry lies as [rows][blocks]. */
static void draw_scan(struct draft *d, unsigned op, uint8_t accumulator, const int64_t *dims,
	const struct plan_operand *from, const struct plan_operand *carry, struct plan_operand to) {
	struct kernel *k = &d->kernel;
	struct plan_operand o = *carry;

	generic_draw_rows(d, KERNEL_SCAN, op, accumulator, dims, *from);
	memcpy(to.stride, d->operand[0].stride, sizeof to.stride);
	draft_store(d, k->root_value, &to);
	if (!dims[1])
		return;
	memset(o.stride, 0, sizeof o.stride);
	o.stride[0] = dims[1];
	o.stride[1] = 1;
	k->carry = (uint8_t)draft_operand(d, accumulator, &o);
}

/* Rows along the lanes, whatever their extents. */
static void finish_scan(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;
	int64_t dims[KERNEL_RANK];

	memcpy(dims, d->dims, sizeof dims);
	for (unsigned i = 0; i < k->kept; i++)
		d->dims[i] = 1;
	draft_finish(d, t);
	memcpy(d->dims, dims, sizeof dims);
}

/* What the blocks give, row-major with the dim of blocks last, at *at. */
static int lay_carry(struct generic *g, const struct draft *d, struct plan_operand *at) {
	const struct kernel *k = &d->kernel;
	struct plan_operand from = d->operand[k->carry];
	struct draft *map = malloc(sizeof *map);
	unsigned last = k->kept - 1u;
	int r;

	if (!map)
		return -ENOMEM;
	generic_new_map(map, k->kept);
	memcpy(map->dims, d->dims, k->kept * sizeof *map->dims);
	for (unsigned i = k->block_dim; i < last; i++) {
		map->dims[i] = d->dims[i + 1];
		from.stride[i] = d->operand[k->carry].stride[i + 1];
	}
	map->dims[last] = d->dims[k->block_dim];
	from.stride[last] = d->operand[k->carry].stride[k->block_dim];
	*at = from;
	r = generic_lay_map(g, map, k->accumulator, k->accumulator, at);
	free(map);
	return r;
}

/* What is scanned lies at *from, and what the blocks before gave at *carry, in that type, for a result at `to`. */
static int add_scanned(struct generic *g, const struct kernel *k, uint8_t type, const int64_t *dims, const struct plan_operand *from,
	const struct plan_operand *carry, struct plan_operand to) {
	struct draft *one = malloc(sizeof *one);
	int r;

	if (!one)
		return -ENOMEM;
	draw_scan(one, k->op, type, dims, from, carry, to);
	finish_scan(one, g->t);
	r = plan_add_step(g->p, one, g->step->op, 0);
	free(one);
	return r;
}

int generic_add_scan(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	bool blocks = k->block_dim != 0xff, compares = k->op == OP_reduce_max || k->op == OP_reduce_min;
	uint8_t type = compares ? generic_ordered_as(k->accumulator) : generic_wrapped_as(k->accumulator);
	int64_t dims[3] = { generic_product_of(d->dims, k->kept), blocks ? d->dims[k->block_dim] : 0, d->dims[k->kept] }, elements;
	struct plan_operand from, carry = { 0 }, to, wide;
	struct draft *plain = malloc(sizeof *plain);
	uint16_t direct = KERNEL_NONE;
	int r;

	if (!plain)
		return -ENOMEM;
	/* Over the elements alone, without the dim that counts blocks. */
	*plain = *d;
	plain->kernel.root = KERNEL_MAP;
	draft_drop_blocks(plain);
	dims[0] /= blocks ? dims[1] : 1;
	elements = dims[0] * dims[2];
	r = generic_lay_value(g, d, k->reduced_value, elements, type, &from);
	if (!r && blocks)
		r = lay_carry(g, d, &carry);
	carry.stride[0] = 1;
	if (!r && blocks)
		r = generic_lay_as(g, dims[0] * dims[1], k->accumulator, type, &carry);
	if (!r)
		r = generic_lay_result(g, plain, k->root_value, plain->kernel.rank, &direct, &to);
	if (!r)
		r = generic_begin_wide(g, elements, k->accumulator, type, to, &wide);
	if (!r)
		r = add_scanned(g, k, type, dims, &from, &carry, wide);
	if (!r)
		r = generic_end_wide(g, elements, k->accumulator, type, wide, to);
	if (!r)
		r = generic_add_copies(g, plain, k->root_value, &to, direct);
	free(plain);
	return r;
}

void generic_draw_scan(unsigned op, uint8_t accumulator, bool blocks, const struct traits *t, struct draft *d) {
	static const struct plan_operand from = { .slot = 0 }, carry = { .slot = 2 };
	const int64_t dims[3] = { 1, blocks ? 2 : 0, 2 };

	draw_scan(d, op, accumulator, dims, &from, &carry, (struct plan_operand){ .slot = 1 });
	finish_scan(d, t);
}

/* ---- sorts ---- */

/*
 * The type that a kernel sorts: of few types, but on GPUs, where fewer wide elements have room in local memory, and but for values of
 * 16-bit floats, which would not keep which NaN they are.
 */
static uint8_t sorted_as(const struct kernel *k, const struct traits *t) {
	bool half = k->accumulator == DTYPE_f16 || k->accumulator == DTYPE_bf16;

	return t->strategy == STRATEGY_GPU || (half && k->op == OP_sort) ? k->accumulator : generic_ordered_as(k->accumulator);
}

const char *generic_sorts_not(const struct kernel *k, const struct traits *t) {
	if (t->strategy == STRATEGY_GPU && k->stage != KERNEL_STAGE_ROWS)
		return "there is no generic kernel that sorts rows in blocks on this kind of device";
	return NULL;
}

/* [rows][elements] from one place to another; the memory to work in comes with the steps (sort.c). */
static void draw_sort(struct draft *d, const struct kernel *like, uint8_t type, const int64_t *dims,
	const struct plan_operand *from, struct plan_operand to) {
	struct kernel *k = &d->kernel;
	struct plan_operand o = *from;

	memset(d, 0, sizeof *d);
	k->root = KERNEL_SORT;
	k->rank = 2;
	k->kept = 1;
	k->block_dim = 0xff;
	k->op = like->op;
	k->accumulator = type;
	k->descending = like->descending;
	memcpy(d->dims, dims, 2 * sizeof *dims);
	d->extent = (uint64_t)dims[1];
	memset(o.stride, 0, sizeof o.stride);
	o.stride[0] = dims[1];
	o.stride[1] = 1;
	memcpy(to.stride, o.stride, sizeof to.stride);
	k->reduced_value = draft_load(d, k->accumulator, &o);
	k->root_value = k->values;
	draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE,
		.dtype = like->op == OP_sort ? k->accumulator : DTYPE_i64 });
	draft_store(d, k->root_value, &to);
}

/* The value's rows, sorted, at `to`, row-major and of its own type; places are of one. */
static int add_sorted(struct generic *g, const struct draft *d, struct plan_operand to) {
	const struct kernel *k = &d->kernel;
	int64_t dims[2] = { generic_product_of(d->dims, k->kept), d->dims[k->kept] }, elements = dims[0] * dims[1];
	uint8_t type = sorted_as(k, g->t), result = k->value[k->root_value].dtype;
	uint8_t wide_type = k->op == OP_sort ? type : result;
	struct plan_operand from, wide;
	struct draft *one;
	int r = generic_lay_value(g, d, k->reduced_value, elements, type, &from);

	if (!r)
		r = generic_begin_wide(g, elements, result, wide_type, to, &wide);
	one = r ? NULL : malloc(sizeof *one);
	if (!one)
		return r ? r : -ENOMEM;
	draw_sort(one, k, type, dims, &from, wide);
	r = plan_add_sort_rows(g->p, one, g->t, g->step->op);
	free(one);
	return r ? r : generic_end_wide(g, elements, result, wide_type, wide, to);
}

static int add_rows(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	struct plan_operand to;
	uint16_t direct;
	int r = generic_lay_result(g, d, k->root_value, k->rank, &direct, &to);

	if (!r)
		r = add_sorted(g, d, to);
	return r ? r : generic_add_copies(g, d, k->root_value, &to, direct);
}

/* Where its blocks would be, the plan that this one is made from has them; merges hand that on. */
static int add_blocks(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	struct plan_operand to;
	int r;

	if (!g->sorted)
		g->sorted = calloc(g->slots, sizeof *g->sorted);
	if (!g->sorted)
		return -ENOMEM;
	r = plan_add_temporary(g->p, k->value[k->root_value].dtype, d->dims, k->rank, &to);
	if (!r)
		r = add_sorted(g, d, to);
	g->sorted[d->operand[k->carry].slot] = to;
	return r;
}

/* What a merge reads comes first, and what it writes next. */
int generic_add_sort(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;

	switch (k->stage) {
	case KERNEL_STAGE_ROWS:
		return add_rows(g, d);
	case KERNEL_STAGE_BLOCKS:
		return add_blocks(g, d);
	case KERNEL_STAGE_MERGE:
		g->sorted[d->operand[1].slot] = g->sorted[d->operand[0].slot];
		return 0;
	default:
		return generic_add_copies(g, d, k->root_value, &g->sorted[d->operand[0].slot], KERNEL_NONE);
	}
}

int generic_draw_sort(unsigned op, uint8_t accumulator, bool descending, const struct traits *t, struct draft *d) {
	struct plan_operand from = { .slot = 0 };
	const struct kernel like = { .op = (uint16_t)op, .accumulator = accumulator, .descending = descending };
	static const int64_t dims[2] = { 1, 2 };
	struct plan *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	p->references = 1;
	r = plan_add_slot(p, UINT64_C(2) * dtype_info(accumulator)->bytes, false, &from.slot);
	draw_sort(d, &like, accumulator, dims, &from, from);
	if (!r)
		r = plan_add_sort_rows(p, d, t, NULL);
	if (!r)
		d->kernel = *p->step[0].kernel;
	plan_unref(p);
	return r;
}

/*
 * Reductions by generic kernels: see generic.c.
 *
 * They go along rows that lie row-major, [rows][elements]. What a kernel of rows does besides its only reduction becomes maps.
 */
#include "generic_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- drawings ---- */

void generic_draw_rows(struct draft *d, unsigned root, unsigned op, uint8_t accumulator, const int64_t *dims,
	struct plan_operand from) {
	struct kernel *k = &d->kernel;
	bool blocks = dims[1];

	memset(d, 0, sizeof *d);
	k->root = (uint8_t)root;
	k->rank = blocks ? 3 : 2;
	k->kept = (uint8_t)(k->rank - 1u);
	k->block_dim = blocks ? 1 : 0xff;
	k->op = (uint16_t)op;
	k->accumulator = accumulator;
	d->dims[0] = dims[0];
	d->dims[1] = dims[1];
	d->dims[k->rank - 1u] = dims[2];
	d->extent = (uint64_t)dims[2];
	memset(from.stride, 0, sizeof from.stride);
	from.stride[0] = dims[2];
	from.stride[k->rank - 1u] = 1;
	k->reduced_value = draft_load(d, accumulator, &from);
	k->root_value = k->values;
	draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = accumulator });
}

/* Where its results lie: row-major. */
static void store_reduction(struct draft *d, struct plan_operand to) {
	memset(to.stride, 0, sizeof to.stride);
	to.stride[0] = d->kernel.kept > 1 ? d->dims[1] : 1;
	to.stride[1] = d->kernel.kept > 1;
	draft_store(d, d->kernel.root_value, &to);
}

/* Rows along the lanes, whatever their extents: short ones, too. */
static void finish_reduction(struct draft *d, const struct traits *t) {
	int64_t dims[KERNEL_RANK];

	memcpy(dims, d->dims, sizeof dims);
	for (unsigned i = 0; i < d->kernel.rank; i++)
		d->dims[i] = 1;
	draft_finish(d, t);
	memcpy(d->dims, dims, sizeof dims);
}

/* ---- steps ---- */

/* What is reduced in a draft in which nothing else is done. */
struct reduction {
	uint16_t value, of;
	unsigned op;
	uint8_t accumulator;
};

static struct reduction reduction_of(const struct kernel *k) {
	struct reduction n = { k->root_value, k->reduced_value, k->op, k->accumulator };

	for (uint16_t v = 0; k->root == KERNEL_ROWS && v < k->values; v++)
		if (k->value[v].kind == KERNEL_REDUCED)
			n = (struct reduction){ v, k->value[v].arg[0], k->value[v].op, k->value[v].dtype };
	return n;
}

/* The steps between results of a generic reduction, over the dims of d: those of blocks come last. */
static void result_strides(const struct draft *d, int64_t *stride) {
	const struct kernel *k = &d->kernel;
	int64_t step = 1;

	memset(stride, 0, KERNEL_RANK * sizeof *stride);
	if (k->block_dim != 0xff) {
		stride[k->block_dim] = step;
		step *= d->dims[k->block_dim];
	}
	for (unsigned i = k->kept; i-- > 0;)
		if (i != k->block_dim) {
			stride[i] = step;
			step *= d->dims[i];
		}
}

static bool same_steps(const struct draft *d, const int64_t *a, const int64_t *b) {
	for (unsigned i = 0; i < d->kernel.kept; i++)
		if (d->dims[i] != 1 && a[i] != b[i])
			return false;
	return true;
}

/* The output that is the reduction's result where a generic one leaves it, or KERNEL_NONE. */
static uint16_t direct_output(const struct draft *d, uint16_t value) {
	const struct kernel *k = &d->kernel;
	int64_t stride[KERNEL_RANK];

	result_strides(d, stride);
	for (uint16_t i = 0; i < k->operands; i++)
		if (k->operand[i].output && k->operand[i].value == value && same_steps(d, d->operand[i].stride, stride))
			return i;
	return KERNEL_NONE;
}

/* Is there an output of this space but `done`? */
static bool is_left(const struct kernel *k, uint16_t i, uint16_t done, uint8_t space) {
	return i != done && k->operand[i].output && k->value[k->operand[i].value].space == space;
}

/* The other outputs of one space, from the result at *from. */
static int add_outputs(struct generic *g, const struct draft *d, const struct reduction *n, const struct plan_operand *from,
	uint16_t done, uint8_t space) {
	const struct kernel *k = &d->kernel;
	struct draft *map = malloc(sizeof *map);
	struct cut c;
	int r = 0;

	if (!map)
		return -ENOMEM;
	if (k->root == KERNEL_ROWS) {
		cut_begin(&c, d, map);
	} else {
		generic_begin_map(&c, d, map);
		map->kernel.rank = k->kept;
		map->kernel.block_dim = 0xff;
		if (!k->kept)
			map->dims[map->kernel.rank++] = 1;
	}
	cut_import(&c, n->value, from);
	for (uint16_t i = 0; i < k->operands; i++)
		if (is_left(k, i, done, space))
			cut_output(&c, i);
	draft_settle_rows(map);
	if (map->kernel.operands > 1)
		r = generic_add_map(g, map);
	free(map);
	return r;
}

/* The type of a kernel of the list. Most integers that are compared are narrow. */
static uint8_t reduced_as(const struct reduction *n) {
	uint8_t type = n->accumulator;

	if (type == DTYPE_bool)
		return type;
	if (n->op != OP_reduce_max && n->op != OP_reduce_min)
		return generic_wrapped_as(type);
	return generic_ordered_as(type) == DTYPE_i64 && type != DTYPE_i64 && type != DTYPE_u32 ? DTYPE_i32 : generic_ordered_as(type);
}

/* What is reduced, at `from`, to what the reduction leaves at `to`. */
static int add_reduced(struct generic *g, const struct draft *d, const struct reduction *n, uint8_t type, struct plan_operand from,
	struct plan_operand to) {
	const struct kernel *k = &d->kernel;
	bool blocks = k->block_dim != 0xff;
	int64_t dims[3] = { generic_product_of(d->dims, k->kept), blocks ? d->dims[k->block_dim] : 0, generic_product_of(&d->dims[k->kept], k->rank - k->kept) };
	struct draft *one = malloc(sizeof *one);
	int r;

	if (!one)
		return -ENOMEM;
	dims[0] /= blocks ? dims[1] : 1;
	generic_draw_rows(one, KERNEL_REDUCE, n->op, type, dims, from);
	store_reduction(one, to);
	finish_reduction(one, g->t);
	r = blocks ? plan_add_step(g->p, one, g->step->op, 0) : plan_add_blocks(g->p, one, g->t, g->step->op, 0);
	free(one);
	return r;
}

static int add_reduction(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	struct reduction n = reduction_of(k);
	uint16_t direct = direct_output(d, n.value);
	uint8_t type = reduced_as(&n);
	int64_t results = generic_product_of(d->dims, k->kept), elements = generic_product_of(d->dims, k->rank);
	struct plan_operand from, wide = { 0 }, to = { 0 };
	int r;

	if (k->block_dim != 0xff)
		elements /= d->dims[k->block_dim];
	r = generic_lay_value(g, d, n.of, elements, type, &from);
	if (direct != KERNEL_NONE)
		to = d->operand[direct];
	else if (!r)
		r = plan_add_temporary(g->p, n.accumulator, d->dims, k->kept, &to);
	if (!r)
		r = generic_begin_wide(g, results, n.accumulator, type, to, &wide);
	if (!r)
		r = add_reduced(g, d, &n, type, from, wide);
	if (!r)
		r = generic_end_wide(g, results, n.accumulator, type, wide, to);
	result_strides(d, to.stride);
	if (!r && k->root == KERNEL_ROWS)
		r = add_outputs(g, d, &n, &to, direct, KERNEL_SPACE_KEPT);
	/* Values of other roots are of no space, which is this one's number. */
	return r ? r : add_outputs(g, d, &n, &to, direct, KERNEL_SPACE_ROW);
}

/* Rows in which nothing is reduced, but results of both spaces are stored. */
static int add_row_maps(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	struct draft *map = malloc(sizeof *map);
	struct cut c;
	int r = map ? 0 : -ENOMEM;

	for (uint8_t space = KERNEL_SPACE_ROW; !r && space <= KERNEL_SPACE_KEPT; space++) {
		cut_begin(&c, d, map);
		for (uint16_t i = 0; i < k->operands; i++)
			if (is_left(k, i, KERNEL_NONE, space))
				cut_output(&c, i);
		draft_settle_rows(map);
		if (map->kernel.operands)
			r = generic_add_map(g, map);
	}
	free(map);
	return r;
}

int generic_add_reduction(struct generic *g, const struct draft *d) {
	return d->kernel.root == KERNEL_ROWS && reduction_of(&d->kernel).value == KERNEL_NONE ? add_row_maps(g, d) : add_reduction(g, d);
}

/* ---- the list ---- */

void generic_draw_reduction(unsigned op, uint8_t type, bool blocks, const struct traits *t, struct draft *d) {
	static const int64_t rows[2][3] = { { 1, 0, 1 }, { 1, 2, 2 } };

	generic_draw_rows(d, KERNEL_REDUCE, op, type, rows[blocks], (struct plan_operand){ .slot = PLAN_NONE });
	store_reduction(d, (struct plan_operand){ 0 });
	finish_reduction(d, t);
}

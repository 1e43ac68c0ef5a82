/*
 * Convolutions by generic kernels: see generic.c.
 *
 * A kernel of a convolution has its sizes in the record anyway. What its text still depends on besides what is fused into it is what a
 * tile holds; so tiles are as tall here as they may be, however few places would fill a lower one better.
 */
#include "generic_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of operands of the accumulator's type; its result at `to`, its scalars those of the convolution that it is `like`. */
static void draw_conv(const struct kernel *like, const uint32_t *scalar, const int64_t *dims, uint64_t extent, const struct plan_operand *operand,
	struct plan_operand to, const struct traits *t, struct draft *d) {
	struct kernel *k = &d->kernel;

	memset(d, 0, sizeof *d);
	k->root = KERNEL_CONV;
	k->op = OP_conv;
	k->rank = CONV_DIMS;
	k->block_dim = 0xff;
	k->accumulator = like->accumulator;
	k->packed = like->packed;
	k->minimal = like->minimal;
	k->alone = like->alone;
	/* Where a group has one channel of the input these are the rows of a filter that the text knows: none. GPUs have no use for them. */
	k->inputs = like->alone || t->strategy == STRATEGY_GPU ? 0 : like->inputs;
	memcpy(d->dims, dims, CONV_DIMS * sizeof *dims);
	d->extent = extent;
	for (unsigned i = 0; i < CONV_SCALARS; i++)
		draft_scalar(d, DTYPE_i64, scalar[i]);
	for (unsigned i = CONV_INPUT; i <= CONV_WEIGHT; i++)
		draft_operand(d, like->accumulator, &operand[i]);
	k->root_value = k->values;
	draft_store(d, draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator }), &to);
}

enum {
	/* With one channel of the input a group: lines of a tile, and vectors of each; what lies beyond a block is computed and not stored. */
	ALONE_LINES = 4,
	ALONE_VECTORS = KERNEL_ALONE / ALONE_LINES,
};

/* Of middle size, so that neither few nor many places waste much. */
static uint8_t group_tile(const struct traits *t) {
	return kernel_tile_items(KERNEL_TILE_MEDIUM) <= t->local_size ? KERNEL_TILE_MEDIUM : KERNEL_TILE_TINY;
}

static void finish_conv(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;
	int64_t places = minimal_tiles(k, d->extent), most;

	draft_finish(d, t);
	if (t->strategy == STRATEGY_GPU) {
		k->tile = group_tile(t);
		return;
	}
	if (k->alone) {
		k->rows = ALONE_LINES;
		k->vectors = ALONE_VECTORS;
		return;
	}
	most = k->packed ? kernel_most_rows(k->width, k->accumulator, k->vectors) : 0;
	if (k->packed && places >= most)
		k->rows = (uint8_t)most;
}

/* The first output of a convolution that does nothing else. */
static unsigned first_output(const struct draft *d) {
	unsigned i = CONV_WEIGHT + 1u;

	while (!d->kernel.operand[i].output)
		i++;
	return i;
}

/* The others, where the result is wanted besides what goes on with it: copies of the first. */
static int copy_outputs(struct generic *g, const struct draft *d) {
	unsigned first = first_output(d);
	struct draft *map = malloc(sizeof *map);
	int r = map ? 0 : -ENOMEM;

	for (unsigned i = first + 1; i < d->kernel.operands && !r; i++) {
		if (!d->kernel.operand[i].output)
			continue;
		generic_new_map(map, CONV_OW + 1);
		memcpy(map->dims, d->dims, (CONV_OW + 1) * sizeof *map->dims);
		draft_store(map, draft_load(map, d->kernel.operand[first].dtype, &d->operand[first]), &d->operand[i]);
		r = generic_add_map(g, map);
	}
	free(map);
	return r;
}

/* ---- where operands lie ---- */

/* Dims that an operand steps along, in the order in which it is copied. */
static const uint8_t input_dims[] = { CONV_N, CONV_GROUP, CONV_CI, CONV_IH, CONV_IW };
static const uint8_t weight_dims[] = { CONV_CO, CONV_CI, CONV_KH, CONV_KW };

static const uint8_t *dims_of(unsigned operand, unsigned *countp) {
	*countp = operand == CONV_INPUT ? sizeof input_dims : sizeof weight_dims;
	return operand == CONV_INPUT ? input_dims : weight_dims;
}

/* An operand in the accumulator's type, to which what is narrower is made in any case: a copy at *at. */
static int widen(struct generic *g, const struct draft *d, unsigned operand, struct plan_operand *at) {
	const struct plan_operand *from = &d->operand[operand];
	struct plan_operand lies = { .slot = from->slot, .offset = from->offset };
	struct draft *map = malloc(sizeof *map);
	unsigned count;
	const uint8_t *dim = dims_of(operand, &count);
	int r;

	if (!map)
		return -ENOMEM;
	generic_new_map(map, count);
	for (unsigned i = 0; i < count; i++) {
		map->dims[i] = d->dims[dim[i]];
		lies.stride[i] = from->stride[dim[i]];
	}
	r = generic_lay_map(g, map, d->kernel.operand[operand].dtype, d->kernel.accumulator, &lies);
	*at = (struct plan_operand){ .slot = lies.slot, .offset = lies.offset };
	for (unsigned i = 0; i < count; i++)
		at->stride[dim[i]] = lies.stride[i];
	free(map);
	return r;
}

int generic_add_conv(struct generic *g, const struct draft *d) {
	struct draft *one = malloc(sizeof *one);
	struct plan_operand operand[CONV_WEIGHT + 1];
	int r = one ? 0 : -ENOMEM;

	for (unsigned i = CONV_INPUT; i <= CONV_WEIGHT && !r; i++) {
		operand[i] = d->operand[i];
		if (d->kernel.operand[i].dtype != d->kernel.accumulator)
			r = widen(g, d, i, &operand[i]);
	}
	if (!r) {
		draw_conv(&d->kernel, d->scalar, d->dims, d->extent, operand, d->operand[first_output(d)], g->t, one);
		finish_conv(one, g->t);
		r = plan_add_step(g->p, one, g->step->op, 0);
	}
	free(one);
	return r ? r : copy_outputs(g, d);
}

/* ---- the list ---- */

/* Sizes that fill a tile of that form. */
void generic_draw_conv(uint8_t accumulator, enum generic_conv form, const struct traits *t, struct draft *d) {
	static const uint32_t scalar[CONV_SCALARS] = { 0, 1, 2, 3, 4, 5 };
	int64_t dims[CONV_DIMS] = { [CONV_N] = 2, [CONV_OH] = 2, [CONV_OW] = CONV_PLACES, [CONV_GROUP] = 1,
		[CONV_CI] = 2, [CONV_KH] = 2, [CONV_KW] = 2, [CONV_IH] = 3, [CONV_IW] = CONV_PLACES + 1 };
	static const int64_t line = CONV_PLACES + 1, place = CONV_PLACES;
	bool wide = form < GENERIC_CONV_LINES;
	const struct plan_operand to = { .stride = { [CONV_N] = 128 * place, [CONV_CO] = 2 * place, [CONV_OH] = place, [CONV_OW] = 1 } };
	const struct plan_operand operand[] = {
		[CONV_INPUT] = { .stride = { [CONV_N] = 6 * line, [CONV_GROUP] = 6 * line, [CONV_CI] = 3 * line, [CONV_IH] = line, [CONV_IW] = 1 } },
		[CONV_WEIGHT] = { .stride = { [CONV_CO] = 8, [CONV_CI] = 4, [CONV_KH] = 2, [CONV_KW] = 1 } },
	};
	const struct plan_operand panels[] = {
		[CONV_INPUT] = operand[CONV_INPUT],
		[CONV_WEIGHT] = { .stride = { [CONV_CO] = 512, [CONV_CI] = 256, [CONV_KH] = 128, [CONV_KW] = 64, [CONV_OW] = 1 } },
	};
	struct kernel like = { .root = KERNEL_CONV, .accumulator = accumulator, .packed = wide, .inputs = CONV_ROWS,
		.alone = form == GENERIC_CONV_ALONE };

	dims[CONV_CO] = (int64_t)t->width << (wide ? form : 0);
	draw_conv(&like, scalar, dims, 1 << 16 | CONV_PLACES, wide ? panels : operand, to, t, d);
	finish_conv(d, t);
}

/*
 * Where arrays lie for generic kernels, and of which type: see generic.c.
 *
 * What is not row-major, or not of the type that a kernel of the list is for, is copied by maps.
 */
#include "generic_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

uint8_t generic_ordered_as(uint8_t type) {
	if (dtype_info(type)->kind == DTYPE_KIND_REAL)
		return type == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
	return type == DTYPE_u64 ? DTYPE_u64 : DTYPE_i64;
}

uint8_t generic_wrapped_as(uint8_t type) {
	return dtype_info(type)->kind == DTYPE_KIND_REAL ? generic_ordered_as(type) : DTYPE_i64;
}

/* ---- places ---- */

bool generic_lies_row_major(const int64_t *dims, const int64_t *stride, unsigned rank) {
	int64_t step = 1;

	for (unsigned d = rank; d-- > 0; step *= dims[d])
		if (dims[d] != 1 && stride[d] != step)
			return false;
	return true;
}

int64_t generic_product_of(const int64_t *dims, unsigned count) {
	int64_t n = 1;

	while (count-- > 0)
		n *= dims[count];
	return n;
}

void generic_new_map(struct draft *map, unsigned rank) {
	memset(map, 0, sizeof *map);
	map->kernel.root = KERNEL_MAP;
	map->kernel.rank = (uint8_t)rank;
	map->kernel.block_dim = 0xff;
	map->kernel.root_value = KERNEL_NONE;
}

int generic_keep_value(struct generic *g, struct draft *map, uint16_t value, struct plan_operand *at) {
	int r = plan_add_temporary(g->p, map->kernel.value[value].dtype, map->dims, map->kernel.rank, at);

	if (r)
		return r;
	draft_store(map, value, at);
	return generic_add_map(g, map);
}

int generic_lay_map(struct generic *g, struct draft *map, uint8_t type, uint8_t wanted, struct plan_operand *at) {
	uint16_t value;

	if (type == wanted && generic_lies_row_major(map->dims, at->stride, map->kernel.rank))
		return 0;
	value = draft_load(map, type, at);
	if (type != wanted)
		value = draft_op(map, OP_cast, wanted, 1, &value);
	return generic_keep_value(g, map, value, at);
}

static void take_out(int64_t *list, unsigned at, unsigned count) {
	memmove(&list[at], &list[at + 1], (count - at - 1u) * sizeof *list);
}

/* A value of d, row-major over all dims but that of blocks, at *at. */
static int lay_value(struct generic *g, const struct draft *d, uint16_t value, struct plan_operand *at) {
	const struct kernel_value *v = &d->kernel.value[value];
	struct draft *map;
	struct cut c;
	int r;

	if (v->kind == KERNEL_LOAD) {
		int64_t dims[KERNEL_RANK];
		unsigned rank = d->kernel.rank;

		*at = d->operand[v->index];
		memcpy(dims, d->dims, sizeof dims);
		if (d->kernel.block_dim != 0xff) {
			take_out(dims, d->kernel.block_dim, rank);
			take_out(at->stride, d->kernel.block_dim, rank--);
		}
		if (generic_lies_row_major(dims, at->stride, rank))
			return 0;
	}
	map = malloc(sizeof *map);
	if (!map)
		return -ENOMEM;
	generic_begin_map(&c, d, map);
	value = cut_value(&c, value);
	draft_drop_blocks(map);
	r = generic_keep_value(g, map, value, at);
	free(map);
	return r;
}

/* Is it where a result goes, and no memory that a sort works in? Merges work in none. */
static bool is_result(const struct kernel *k, uint16_t operand) {
	bool works = k->root == KERNEL_SORT && k->stage <= KERNEL_STAGE_BLOCKS;

	return k->operand[operand].output && !(works && operand >= k->carry);
}

/* The output that stores a value row-major over the first dims, or KERNEL_NONE. */
static uint16_t row_major_output(const struct draft *d, uint16_t value, unsigned rank) {
	const struct kernel *k = &d->kernel;

	for (uint16_t i = 0; i < k->operands; i++)
		if (is_result(k, i) && k->operand[i].value == value && generic_lies_row_major(d->dims, d->operand[i].stride, rank))
			return i;
	return KERNEL_NONE;
}

int generic_lay_result(struct generic *g, const struct draft *d, uint16_t value, unsigned rank, uint16_t *directp,
	struct plan_operand *to) {
	*directp = row_major_output(d, value, rank);
	if (*directp == KERNEL_NONE)
		return plan_add_temporary(g->p, d->kernel.value[value].dtype, d->dims, rank, to);
	*to = d->operand[*directp];
	return 0;
}

int generic_lay_as(struct generic *g, int64_t elements, uint8_t type, uint8_t wanted, struct plan_operand *at) {
	struct draft *map = malloc(sizeof *map);
	int r;

	if (!map)
		return -ENOMEM;
	generic_new_map(map, 1);
	map->dims[0] = elements;
	r = generic_lay_map(g, map, type, wanted, at);
	free(map);
	return r;
}

int generic_lay_value(struct generic *g, const struct draft *d, uint16_t value, int64_t elements, uint8_t wanted,
	struct plan_operand *at) {
	int r = lay_value(g, d, value, at);

	at->stride[0] = 1;
	return r ? r : generic_lay_as(g, elements, d->kernel.value[value].dtype, wanted, at);
}

int generic_begin_wide(struct generic *g, int64_t elements, uint8_t type, uint8_t wide_type, struct plan_operand to,
	struct plan_operand *wide) {
	*wide = to;
	return type == wide_type ? 0 : plan_add_temporary(g->p, wide_type, &elements, 1, wide);
}

int generic_end_wide(struct generic *g, int64_t elements, uint8_t type, uint8_t wide_type, struct plan_operand wide,
	struct plan_operand to) {
	struct draft *map;
	uint16_t value;
	int r;

	if (type == wide_type)
		return 0;
	map = malloc(sizeof *map);
	if (!map)
		return -ENOMEM;
	generic_new_map(map, 1);
	map->dims[0] = elements;
	wide.stride[0] = to.stride[0] = 1;
	value = draft_load(map, wide_type, &wide);
	draft_store(map, draft_op(map, OP_cast, type, 1, &value), &to);
	r = generic_add_map(g, map);
	free(map);
	return r;
}

int generic_add_copies(struct generic *g, const struct draft *d, uint16_t value, const struct plan_operand *from,
	uint16_t done) {
	struct draft *map = malloc(sizeof *map);
	struct cut c;
	int r = 0;

	if (!map)
		return -ENOMEM;
	generic_begin_map(&c, d, map);
	map->kernel.rank = (uint8_t)(map->kernel.rank - kernel_inner_dims(&d->kernel));
	cut_import(&c, value, from);
	for (uint16_t i = 0; i < d->kernel.operands; i++)
		if (is_result(&d->kernel, i) && i != done)
			cut_output(&c, i);
	if (map->kernel.operands > 1)
		r = generic_add_map(g, map);
	free(map);
	return r;
}

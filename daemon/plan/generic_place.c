/*
 * Gathers, searches and scatters by generic kernels: see generic.c.
 *
 * A gather may read any operand along any axis, at an index that is itself computed. Maps, which run as byte
 * code, make of all that one number an element: where it lies, counted from the first element that the gather could
 * read. What is left is a kernel that reads a vector at such places; elements go through it as words of their size.
 * What lies beyond the axis has the place behind the last one.
 *
 * A search is in a vector that lies side by side, for values that do.
 *
 * A scatter's operands are copied until they lie row-major over [rows][axis].
 */
#include "generic_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- gathers ---- */

/* The element type that a gather of this one is computed in. A bool is not what its byte is: any but 0 is true. */
static uint8_t word_of(uint8_t dtype) {
	static const uint8_t words[] = { [1] = DTYPE_u8, [2] = DTYPE_u16, [4] = DTYPE_u32, [8] = DTYPE_u64 };

	return dtype == DTYPE_bool ? DTYPE_bool : words[dtype_info(dtype)->bytes];
}

/* Extents and steps of gathers are numbers of the plan's own (lower.c). */
static int64_t constant_of(const struct plan *p, const struct draft *d, uint16_t value) {
	return (int64_t)p->constant[d->scalar[d->kernel.value[value].index] - p->scalars];
}

/* A number of the plan's own as a value of d. */
static int add_number(struct plan *p, struct draft *d, int64_t number, uint16_t *valuep) {
	uint64_t *more = realloc(p->constant, (p->constants + 1u) * sizeof *more);

	if (!more)
		return -ENOMEM;
	p->constant = more;
	more[p->constants] = (uint64_t)number;
	*valuep = draft_scalar(d, DTYPE_i64, p->scalars + p->constants++);
	return 0;
}

/* [elements] of a vector at places in another one, whose extent and step are the numbers in arg. */
static void draw_gather(struct draft *d, uint8_t word, int64_t elements, const struct plan_operand *places,
	const struct plan_operand *from) {
	struct kernel *k = &d->kernel;

	generic_new_map(d, 1);
	d->dims[0] = elements;
	draft_load(d, DTYPE_i64, places);
	draft_operand(d, word, from);
	k->operand[1].gathered = 1;
}

static void finish_gather(struct draft *d, const struct traits *t, const uint16_t *arg, struct plan_operand to) {
	struct kernel *k = &d->kernel;
	uint16_t v = draft_value(d, (struct kernel_value){ .kind = KERNEL_GATHER, .dtype = k->operand[1].dtype,
		.arg = { arg[0], arg[1], arg[2] }, .index = 1 });

	memset(to.stride, 0, sizeof to.stride);
	to.stride[0] = 1;
	draft_store(d, v, &to);
	draft_finish(d, t);
	/* One kernel for any size. */
	k->operand[2].stream = false;
}

/* What a gather could read of its operand: from `low` on, counted from the operand's offset, so many elements. */
struct span {
	int64_t low, count;
};

static struct span span_of(const struct draft *d, const struct plan_operand *o, int64_t extent, int64_t step) {
	int64_t low = 0, high = 0, reach = (extent - 1) * step;

	*(reach < 0 ? &low : &high) += reach;
	for (unsigned i = 0; i < d->kernel.rank; i++) {
		reach = (d->dims[i] - 1) * o->stride[i];
		*(reach < 0 ? &low : &high) += reach;
	}
	return (struct span){ low, high - low + 1 };
}

/* Appends to a map the place of each element in the span, or one behind it. */
static int add_place(struct generic *g, struct draft *map, const struct plan_operand *o, const uint16_t *arg, struct span span,
	uint16_t *placep) {
	struct plan_operand from_low = { .slot = PLAN_NONE, .offset = -span.low };
	uint16_t zero, behind, index, beyond, under, at;
	int r = add_number(g->p, map, 0, &zero);

	memcpy(from_low.stride, o->stride, sizeof from_low.stride);
	if (!r)
		r = add_number(g->p, map, span.count, &behind);
	if (r)
		return r;
	at = draft_op(map, OP_add, DTYPE_i64, 2, (uint16_t[]){ arg[0], arg[1] });
	under = draft_op(map, OP_lt, DTYPE_bool, 2, (uint16_t[]){ arg[0], zero });
	index = draft_op(map, OP_where, DTYPE_i64, 3, (uint16_t[]){ under, at, arg[0] });
	at = draft_op(map, OP_mul, DTYPE_i64, 2, (uint16_t[]){ index, arg[2] });
	at = draft_op(map, OP_add, DTYPE_i64, 2, (uint16_t[]){ at, draft_iota(map, &from_low) });
	under = draft_op(map, OP_lt, DTYPE_bool, 2, (uint16_t[]){ index, zero });
	beyond = draft_op(map, OP_ge, DTYPE_bool, 2, (uint16_t[]){ index, arg[1] });
	at = draft_op(map, OP_where, DTYPE_i64, 3, (uint16_t[]){ beyond, behind, at });
	*placep = draft_op(map, OP_where, DTYPE_i64, 3, (uint16_t[]){ under, behind, at });
	return 0;
}

/* The map that computes the places of gather v into *placesp. */
static int add_places(struct generic *g, const struct draft *d, const struct kernel_value *v, struct span span,
	struct plan_operand *placesp) {
	struct draft *map = malloc(sizeof *map);
	uint16_t arg[KERNEL_ARGS], place;
	struct cut c;
	int r;

	if (!map)
		return -ENOMEM;
	generic_begin_map(&c, d, map);
	for (unsigned i = 0; i < KERNEL_ARGS; i++)
		arg[i] = cut_value(&c, v->arg[i]);
	r = add_place(g, map, &d->operand[v->index], arg, span, &place);
	if (!r)
		r = generic_keep_value(g, map, place, placesp);
	free(map);
	return r;
}

static int add_gather(struct generic *g, const struct draft *d, const struct kernel_value *v) {
	const struct kernel *k = &d->kernel;
	int64_t extent = constant_of(g->p, d, v->arg[1]), step = constant_of(g->p, d, v->arg[2]);
	struct span span = span_of(d, &d->operand[v->index], extent, step);
	struct plan_operand places, to, from = d->operand[v->index], one = { .stride = { 1 } };
	uint16_t value = (uint16_t)(v - k->value), direct, arg[KERNEL_ARGS] = { 0 };
	struct draft *gather;
	int r = add_places(g, d, v, span, &places);

	if (!r)
		r = generic_lay_result(g, d, value, k->rank, &direct, &to);
	gather = r ? NULL : malloc(sizeof *gather);
	if (!gather)
		return r ? r : -ENOMEM;
	one.slot = places.slot;
	from.offset += span.low;
	memset(from.stride, 0, sizeof from.stride);
	draw_gather(gather, word_of(v->dtype), generic_product_of(d->dims, k->rank), &one, &from);
	r = add_number(g->p, gather, span.count, &arg[1]);
	if (!r)
		r = add_number(g->p, gather, 1, &arg[2]);
	if (!r) {
		finish_gather(gather, g->t, arg, to);
		r = plan_add_step(g->p, gather, g->step->op, 0);
	}
	free(gather);
	return r ? r : generic_add_copies(g, d, value, &to, direct);
}

void generic_draw_gather(uint8_t word, const struct traits *t, struct draft *d) {
	static const struct plan_operand places = { .slot = 0, .stride = { 1 } }, from = { .slot = 1 };
	uint16_t arg[KERNEL_ARGS] = { 0 };

	draw_gather(d, word, 1, &places, &from);
	arg[1] = draft_scalar(d, DTYPE_i64, 0);
	arg[2] = draft_scalar(d, DTYPE_i64, 1);
	finish_gather(d, t, arg, (struct plan_operand){ .slot = 2 });
}

/* ---- searches ---- */

/* Where each of a vector's elements goes in another one, whose extent and step are values of the drawing in arg[1] and arg[2]. */
static void finish_search(struct draft *d, uint8_t type, bool right, const struct traits *t, struct plan_operand in,
	const uint16_t *arg, struct plan_operand to) {
	memset(in.stride, 0, sizeof in.stride);
	memset(to.stride, 0, sizeof to.stride);
	to.stride[0] = 1;
	draft_store(d, draft_search(d, type, &in, arg, right), &to);
	draft_finish(d, t);
	/* One kernel for any size. */
	d->kernel.operand[2].stream = false;
}

static void begin_search(struct draft *d, uint8_t type, int64_t elements, struct plan_operand of) {
	generic_new_map(d, 1);
	d->dims[0] = elements;
	memset(of.stride, 0, sizeof of.stride);
	of.stride[0] = 1;
	draft_load(d, type, &of);
}

static int add_search(struct generic *g, const struct draft *d, const struct kernel_value *v) {
	const struct kernel *k = &d->kernel;
	int64_t extent = constant_of(g->p, d, v->arg[1]), elements = generic_product_of(d->dims, k->rank);
	uint8_t type = k->operand[v->index].dtype, wanted = generic_ordered_as(type);
	uint16_t value = (uint16_t)(v - k->value), direct, arg[KERNEL_ARGS] = { 0 };
	struct plan_operand of, to, in = d->operand[v->index];
	struct draft *search;
	int r;

	in.stride[0] = constant_of(g->p, d, v->arg[2]);
	r = generic_lay_as(g, extent, type, wanted, &in);
	if (!r)
		r = generic_lay_value(g, d, v->arg[0], elements, wanted, &of);
	if (!r)
		r = generic_lay_result(g, d, value, k->rank, &direct, &to);
	search = r ? NULL : malloc(sizeof *search);
	if (!search)
		return r ? r : -ENOMEM;
	begin_search(search, wanted, elements, of);
	r = add_number(g->p, search, extent, &arg[1]);
	if (!r)
		r = add_number(g->p, search, 1, &arg[2]);
	if (!r) {
		finish_search(search, wanted, v->right, g->t, in, arg, to);
		r = plan_add_step(g->p, search, g->step->op, 0);
	}
	free(search);
	return r ? r : generic_add_copies(g, d, value, &to, direct);
}

void generic_draw_search(uint8_t type, bool right, const struct traits *t, struct draft *d) {
	static const struct plan_operand of = { .slot = 0 }, in = { .slot = 1 }, to = { .slot = 2 };
	uint16_t arg[KERNEL_ARGS] = { 0 };

	begin_search(d, type, 1, of);
	arg[1] = draft_scalar(d, DTYPE_i64, 0);
	arg[2] = draft_scalar(d, DTYPE_i64, 1);
	finish_search(d, type, right, t, in, arg, to);
}

int generic_add_gather(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	uint16_t v = 0;

	while (!kernel_value_gathers(&k->value[v]))
		v++;
	return k->value[v].kind == KERNEL_SEARCH ? add_search(g, d, &k->value[v]) : add_gather(g, d, &k->value[v]);
}

/* ---- scatters ---- */

enum {
	SCATTER_BASE,
	SCATTER_INDEX,
	SCATTER_UPDATES,
	SCATTER_INPUTS,
};

/* [rows][axis], of row-major operands; the index is i64. */
static void draw_scatter(struct draft *d, unsigned op, uint8_t accumulator, const int64_t *dims, uint64_t updates,
	const struct plan_operand *operand, struct plan_operand to) {
	const uint8_t type[SCATTER_INPUTS] = { accumulator, DTYPE_i64, accumulator };
	struct kernel *k = &d->kernel;

	memset(d, 0, sizeof *d);
	k->root = KERNEL_SCATTER;
	k->rank = 2;
	k->kept = 1;
	k->block_dim = 0xff;
	k->op = (uint16_t)op;
	k->accumulator = accumulator;
	memcpy(d->dims, dims, 2 * sizeof *dims);
	d->extent = updates;
	for (unsigned i = 0; i < SCATTER_INPUTS; i++) {
		struct plan_operand o = operand[i];

		memset(o.stride, 0, sizeof o.stride);
		o.stride[0] = i == SCATTER_BASE ? dims[1] : (int64_t)updates;
		o.stride[1] = 1;
		draft_operand(d, type[i], &o);
	}
	draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = accumulator });
	memset(to.stride, 0, sizeof to.stride);
	to.stride[0] = dims[1];
	to.stride[1] = 1;
	draft_store(d, 0, &to);
}

/* Sums of 16-bit floats are rounded each time. */
static uint8_t scattered_as(const struct kernel *k) {
	bool rounds = k->accumulator == DTYPE_f16 || k->accumulator == DTYPE_bf16;

	return rounds && k->op == OP_add_along ? k->accumulator : generic_wrapped_as(k->accumulator);
}

/* Operand i of a scatter, row-major and of that type, at *at. */
static int lay_operand(struct generic *g, const struct draft *d, unsigned i, uint8_t of, struct plan_operand *at) {
	const struct kernel *k = &d->kernel;
	uint8_t type = k->operand[i].dtype, wanted = i == SCATTER_INDEX ? DTYPE_i64 : of;
	struct draft *map = malloc(sizeof *map);
	int r;

	if (!map)
		return -ENOMEM;
	*at = d->operand[i];
	generic_new_map(map, k->rank);
	for (unsigned dim = 0; dim < k->rank; dim++)
		map->dims[dim] = kernel_walked(k, i, dim, d->dims, d->extent);
	r = generic_lay_map(g, map, type, wanted, at);
	free(map);
	return r;
}

/* Values of u64 that i64 has not are beyond every axis. */
bool generic_scatters(const struct kernel *k) {
	return k->operand[SCATTER_INDEX].dtype != DTYPE_u64;
}

int generic_add_scatter(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	int64_t dims[2] = { generic_product_of(d->dims, k->kept), d->dims[k->kept] }, elements = dims[0] * dims[1];
	struct plan_operand operand[SCATTER_INPUTS], to, wide;
	uint8_t type = scattered_as(k);
	uint16_t direct = KERNEL_NONE;
	struct draft *one = malloc(sizeof *one);
	int r = one ? 0 : -ENOMEM;

	for (unsigned i = 0; i < SCATTER_INPUTS && !r; i++)
		r = lay_operand(g, d, i, type, &operand[i]);
	if (!r)
		r = generic_lay_result(g, d, k->root_value, k->rank, &direct, &to);
	if (!r)
		r = generic_begin_wide(g, elements, k->accumulator, type, to, &wide);
	if (!r) {
		draw_scatter(one, k->op, type, dims, d->extent, operand, wide);
		draft_finish(one, g->t);
		r = plan_add_step(g->p, one, g->step->op, 0);
	}
	free(one);
	if (!r)
		r = generic_end_wide(g, elements, k->accumulator, type, wide, to);
	return r ? r : generic_add_copies(g, d, k->root_value, &to, direct);
}

void generic_draw_scatter(unsigned op, uint8_t accumulator, const struct traits *t, struct draft *d) {
	static const struct plan_operand operand[SCATTER_INPUTS] = { { .slot = 0 }, { .slot = 1 }, { .slot = 2 } };
	static const int64_t dims[2] = { 2, 2 };

	draw_scatter(d, op, accumulator, dims, 2, operand, (struct plan_operand){ .slot = 3 });
	draft_finish(d, t);
}

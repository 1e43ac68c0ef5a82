/* What the files share that make plans of generic kernels: generic.c and generic_*.c. */
#pragma once

#include "generic.h"
#include "planner.h"

struct generic {
	struct plan *p;
	const struct traits *t;
	plan_runs *runs;
	const struct plan_step *step;      /* of the plan it is made from */
	bool changed;
	/* By slot of that plan, of which there are so many: where the sorted rows lie whose blocks are there; NULL before there are such. */
	struct plan_operand *sorted;
	uint32_t slots;
};

/* A part of d as a map over all its dims, and a step of it. */
void generic_begin_map(struct cut *c, const struct draft *d, struct draft *map);
int generic_add_map(struct generic *g, struct draft *d) FAULT_MUST_USE;

/* ---- generic_lay.c ---- */

/*
 * Kernels are of few types, to which narrower ones are cast, and from which results are cast back. The first keeps the order and each
 * value; the second each value, or the bits of what integers wrap to.
 */
uint8_t generic_ordered_as(uint8_t type);
uint8_t generic_wrapped_as(uint8_t type);

/* Along an extent of 1 an operand may step in any way. */
bool generic_lies_row_major(const int64_t *dims, const int64_t *stride, unsigned rank);
int64_t generic_product_of(const int64_t *dims, unsigned count);
/* A map of nothing yet; its dims are the caller's to set. */
void generic_new_map(struct draft *map, unsigned rank);
/* A value of a map to memory of its own, row-major, at *at; and the map as a step. */
int generic_keep_value(struct generic *g, struct draft *map, uint16_t value, struct plan_operand *at) FAULT_MUST_USE;
/* What lies at *at, as the dims of such a map walk it, row-major over these and of the wanted type: itself, or a copy. */
int generic_lay_map(struct generic *g, struct draft *map, uint8_t type, uint8_t wanted, struct plan_operand *at) FAULT_MUST_USE;
/* A value of d, which a map may compute, of so many elements, of the wanted type and row-major over all dims but that of blocks, at *at. */
int generic_lay_value(struct generic *g, const struct draft *d, uint16_t value, int64_t elements, uint8_t wanted,
	struct plan_operand *at) FAULT_MUST_USE;
/* A vector at *at, whose first step says how it lies, side by side and of the wanted type: itself or a copy. */
int generic_lay_as(struct generic *g, int64_t elements, uint8_t type, uint8_t wanted, struct plan_operand *at) FAULT_MUST_USE;
/*
 * A result that is to lie at `to`, side by side, and is of that type: where a kernel of a wider type, perhaps the same, leaves it; and
 * the cast that comes behind it.
 */
int generic_begin_wide(struct generic *g, int64_t elements, uint8_t type, uint8_t wide_type, struct plan_operand to,
	struct plan_operand *wide) FAULT_MUST_USE;
int generic_end_wide(struct generic *g, int64_t elements, uint8_t type, uint8_t wide_type, struct plan_operand wide,
	struct plan_operand to) FAULT_MUST_USE;
/*
 * Where a root's value goes, row-major over the first dims: to an output that lies so, whose number is then *directp, or to a
 * temporary, with KERNEL_NONE. At *to.
 */
int generic_lay_result(struct generic *g, const struct draft *d, uint16_t value, unsigned rank, uint16_t *directp,
	struct plan_operand *to) FAULT_MUST_USE;
/* Copies a root's value from where it lies to all outputs of d but `done`. */
int generic_add_copies(struct generic *g, const struct draft *d, uint16_t value, const struct plan_operand *from,
	uint16_t done) FAULT_MUST_USE;

/* ---- generic_reduce.c ---- */

/* Steps of a reduction, or of rows that are reduced once or not at all. */
int generic_add_reduction(struct generic *g, const struct draft *d) FAULT_MUST_USE;
/* A reduction or scan of [rows][blocks][extent], or without blocks where these are 0, of what lies row-major at `from`, but for its store. */
void generic_draw_rows(struct draft *d, unsigned root, unsigned op, uint8_t accumulator, const int64_t *dims,
	struct plan_operand from);

void generic_draw_reduction(unsigned op, uint8_t type, bool blocks, const struct traits *t, struct draft *d);

/* ---- generic_conv.c ---- */

/* A step of a convolution in which nothing else is done. */
int generic_add_conv(struct generic *g, const struct draft *d) FAULT_MUST_USE;

enum generic_conv {
	/* Weights in panels of one vector of channels, of two or of four. */
	GENERIC_CONV_ONE,
	GENERIC_CONV_TWO,
	GENERIC_CONV_FOUR,
	/* Lanes along the lines; the same with one channel of the input a group. */
	GENERIC_CONV_LINES,
	GENERIC_CONV_ALONE,
};
void generic_draw_conv(uint8_t accumulator, enum generic_conv form, const struct traits *t, struct draft *d);

/* ---- generic_product.c ---- */

/* Steps of a product or an attention in which nothing else is done. 0, -ENOMEM or -EOVERFLOW. */
int generic_add_product(struct generic *g, const struct draft *d) FAULT_MUST_USE;
/* Is an attention one of those that generic kernels compute? */
bool generic_attends(const struct kernel *k);

/* Rows of the list, of factors of a type: of one product, or a batch of them. */
void generic_draw_product(uint8_t type, bool batch, const struct traits *t, struct draft *d);

/* Forms of attention are these together. */
enum {
	GENERIC_ATTENTION_CAUSAL = 1,
	GENERIC_ATTENTION_MASKED = 2,      /* by a mask of bool */
	GENERIC_ATTENTION_DEEP = 4,        /* by instructions on matrices: keys have more places than most */
};
void generic_draw_attention(uint8_t type, unsigned form, const struct traits *t, struct draft *d);

/* ---- generic_place.c ---- */

/* A map of one gather or search; a scatter. */
int generic_add_gather(struct generic *g, const struct draft *d) FAULT_MUST_USE;
int generic_add_scatter(struct generic *g, const struct draft *d) FAULT_MUST_USE;
bool generic_scatters(const struct kernel *k);

/* word: the type that elements of a size are moved as. */
void generic_draw_gather(uint8_t word, const struct traits *t, struct draft *d);
void generic_draw_search(uint8_t type, bool right, const struct traits *t, struct draft *d);
void generic_draw_scatter(unsigned op, uint8_t accumulator, const struct traits *t, struct draft *d);

/* ---- generic_order.c ---- */

/*
 * A scan or a sort in which nothing else is done. A sort in blocks is done whole in the place of its first step, into memory of its
 * own, and copied in that of its last.
 */
int generic_add_scan(struct generic *g, const struct draft *d) FAULT_MUST_USE;
int generic_add_sort(struct generic *g, const struct draft *d) FAULT_MUST_USE;
/* Why not, or NULL. */
const char *generic_sorts_not(const struct kernel *k, const struct traits *t);

void generic_draw_scan(unsigned op, uint8_t accumulator, bool blocks, const struct traits *t, struct draft *d);
int generic_draw_sort(unsigned op, uint8_t accumulator, bool descending, const struct traits *t, struct draft *d)
	FAULT_MUST_USE;

/* What the files share that make plans of generic kernels: generic.c, generic_product.c. */
#pragma once

#include "generic.h"
#include "planner.h"

struct generic {
	struct plan *p;
	const struct traits *t;
	plan_runs *runs;
	const struct plan_step *step;      /* of the plan it is made from */
	bool changed;
};

/* Along an extent of 1 an operand may step in any way. */
bool generic_lies_row_major(const int64_t *dims, const int64_t *stride, unsigned rank);
int64_t generic_product_of(const int64_t *dims, unsigned count);
/* A part of d as a map over all its dims, and a step of it. */
void generic_begin_map(struct cut *c, const struct draft *d, struct draft *map);
int generic_add_map(struct generic *g, struct draft *d) FAULT_MUST_USE;

/* ---- generic_conv.c ---- */

/* A step of a convolution in which nothing else is done. */
int generic_add_conv(struct generic *g, const struct draft *d) FAULT_MUST_USE;

enum generic_conv {
	/* Weights in panels of one vector of channels, of two or of four. */
	GENERIC_CONV_ONE,
	GENERIC_CONV_TWO,
	GENERIC_CONV_FOUR,
	/* Lanes along the lines. */
	GENERIC_CONV_LINES,
};
void generic_draw_conv(uint8_t accumulator, enum generic_conv form, const struct traits *t, struct draft *d);

/* ---- generic_product.c ---- */

/* Steps of a product or an attention in which nothing else is done. 0, -ENOMEM or -EOVERFLOW. */
int generic_add_product(struct generic *g, const struct draft *d) FAULT_MUST_USE;
/* Is an attention one of those that generic kernels compute? */
bool generic_attends(const struct kernel *k);

/* Rows of the list: of one product, or a batch of them. */
void generic_draw_product(uint8_t accumulator, bool batch, const struct traits *t, struct draft *d);

enum generic_attention {
	GENERIC_ATTENTION_PLAIN,
	GENERIC_ATTENTION_CAUSAL,
	GENERIC_ATTENTION_MASKED,          /* by a mask of bool */
};
void generic_draw_attention(uint8_t accumulator, enum generic_attention form, const struct traits *t, struct draft *d);

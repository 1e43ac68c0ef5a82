/* The list of generic kernels (generic.def), and which of them a device has: see generic.c. */
#include "generic_parts.h"

#include <errno.h>
#include <stdlib.h>

static const struct {
	uint16_t op;
	uint8_t type, form;
} listed[] = {
#define GENERIC(op, type, form) { OP_##op, DTYPE_##type, form },
#define FIRST
#include "generic.def"
#undef GENERIC
#undef FIRST
};

enum {
	LISTED = sizeof listed / sizeof *listed,
};

/* How many rows stand before FIRST. */
enum {
#define GENERIC(op, type, form) ROW_##op##_##type##_##form,
#define FIRST ROWS_FIRST, ROWS_AFTER = ROWS_FIRST - 1,
#include "generic.def"
#undef GENERIC
#undef FIRST
};

unsigned plan_generic_kernels(void) {
	return LISTED;
}

unsigned plan_generic_first(void) {
	return ROWS_FIRST;
}

static unsigned root_of(unsigned op) {
	static const uint8_t roots[] = { [OP_matmul] = KERNEL_MATMUL, [OP_attention] = KERNEL_ATTENTION, [OP_conv] = KERNEL_CONV,
		[OP_take] = KERNEL_MAP, [OP_searchsorted] = KERNEL_MAP, [OP_put_along] = KERNEL_SCATTER, [OP_add_along] = KERNEL_SCATTER, [OP_sort] = KERNEL_SORT,
		[OP_argsort] = KERNEL_SORT };

	if (op_info(op)->class == OP_CLASS_SCAN)
		return KERNEL_SCAN;
	return op_info(op)->class == OP_CLASS_REDUCE ? KERNEL_REDUCE : roots[op];
}

static int draw_listed(unsigned op, uint8_t type, uint8_t form, const struct traits *t, struct draft *d) {
	switch (root_of(op)) {
	case KERNEL_MATMUL:
		generic_draw_product(type, form, t, d);
		break;
	case KERNEL_CONV:
		generic_draw_conv(type, form, t, d);
		break;
	case KERNEL_ATTENTION:
		generic_draw_attention(type, form, t, d);
		break;
	case KERNEL_MAP:
		if (op == OP_searchsorted)
			generic_draw_search(type, form, t, d);
		else
			generic_draw_gather(type, t, d);
		break;
	case KERNEL_SCATTER:
		generic_draw_scatter(op, type, t, d);
		break;
	case KERNEL_SCAN:
		generic_draw_scan(op_scan_reduction(op), type, form, t, d);
		break;
	case KERNEL_SORT:
		return generic_draw_sort(op, type, form, t, d);
	default:
		generic_draw_reduction(op, type, form, t, d);
	}
	return 0;
}

/* Is row i of the list for such a device? */
static bool is_for(unsigned i, const struct traits *t) {
	unsigned root = root_of(listed[i].op);

	if (listed[i].type == DTYPE_f64)
		return t->f64;
	/* Elsewhere factors are made the accumulator's type first. */
	if ((root == KERNEL_MATMUL || root == KERNEL_ATTENTION) && dtype_info(listed[i].type)->reg != listed[i].type)
		return t->matrix;
	return root != KERNEL_CONV || t->strategy == STRATEGY_CPU || listed[i].form >= GENERIC_CONV_LINES;
}

int plan_generic_kernel(unsigned i, const struct traits *t, struct kernel *k) {
	struct draft *d;
	int r;

	if (!is_for(i, t))
		return FAULT_DEVICE;
	d = malloc(sizeof *d);
	if (!d)
		return -ENOMEM;
	r = draw_listed(listed[i].op, listed[i].type, listed[i].form, t, d);
	if (!r)
		*k = d->kernel;
	free(d);
	return r;
}

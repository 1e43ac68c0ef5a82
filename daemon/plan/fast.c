/*
 * What `fast` allows, for graphs whose client asked for it: results may then differ in their last bits
 * from those of the single operations, and so from one way of fusing to another.
 *
 * - 16-bit floats are rounded where they are stored, not after each operation.
 * - A division by what is the same for many elements (a scalar, a result of a row) is one division and
 *   a product for each element: on CPUs a division takes as long as ten products.
 *
 * - Attention from its parts runs as the operation does (fast_attention.c): what would overflow where nobody subtracted the
 *   largest score does not.
 *
 * - Convolutions of 3x3 are Winograd convolutions on CPUs, where their shape makes that pay (minimal.c). What is not finite
 *   spreads over a tile of results there.
 *
 * Apart from that, NaN, infinities and integers are as ever.
 */
#include "planner.h"

/* The type a value of this one is held in while nothing rounds it. */
uint8_t fast_dtype(const struct planner *p, uint8_t dtype) {
	const struct dtype_info *t = dtype_info(dtype);

	return p->o->fast && t->kind == DTYPE_KIND_REAL ? (uint8_t)t->reg : dtype;
}

/* Computed less often than once an element. */
static bool is_shared(const struct kernel *k, uint16_t value) {
	const struct kernel_value *v = &k->value[value];

	if (k->root == KERNEL_ROWS)
		return v->space == KERNEL_SPACE_KEPT;
	if (v->kind != KERNEL_OP)
		return v->kind == KERNEL_SCALAR;
	for (unsigned i = 0; i < op_info(v->op)->arity; i++)
		if (!is_shared(k, v->arg[i]))
			return false;
	return true;
}

static uint16_t divide(struct draft *d, uint8_t dtype, const uint16_t *arg) {
	uint16_t inverse;

	if (!is_shared(&d->kernel, arg[1]) || is_shared(&d->kernel, arg[0]))
		return draft_op(d, OP_div, dtype, 2, arg);
	inverse = draft_op(d, OP_reciprocal, dtype, 1, &arg[1]);
	return draft_op(d, OP_mul, dtype, 2, (uint16_t[]){ arg[0], inverse });
}

uint16_t fast_op(const struct planner *p, struct draft *d, unsigned op, uint8_t dtype, unsigned arity, uint16_t *arg) {
	for (unsigned i = 0; i < arity; i++) {
		uint8_t have = d->kernel.value[arg[i]].dtype, want = fast_dtype(p, have);

		if (have != want)
			arg[i] = draft_op(d, OP_cast, want, 1, &arg[i]);
	}
	dtype = fast_dtype(p, dtype);
	return op == OP_div ? divide(d, dtype, arg) : draft_op(d, op, dtype, arity, arg);
}

/*
 * Drafts are built by appending; parts of one are copied into another. A copied value brings its
 * arguments, loads and scalars along, unless it was imported: then it is a load from where an
 * earlier step left it. Splitting a kernel and reducing in blocks are both such copies.
 */
#include "planner.h"

#include <string.h>

/* ROWS: once an element where anything it is made of is; a load as its strides say. */
static uint8_t space_of(const struct draft *d, const struct kernel_value *v) {
	const struct kernel *k = &d->kernel;

	if (k->root != KERNEL_ROWS)
		return 0;
	for (unsigned i = k->kept; kernel_value_loads(v) && i < k->rank; i++)
		if (d->operand[v->index].stride[i])
			return KERNEL_SPACE_ROW;
	if (v->kind == KERNEL_OP && v->op == OP_copy)
		return KERNEL_SPACE_ROW;
	for (unsigned i = 0; v->kind != KERNEL_REDUCED && i < kernel_value_args(v); i++)
		if (k->value[v->arg[i]].space == KERNEL_SPACE_ROW)
			return KERNEL_SPACE_ROW;
	return KERNEL_SPACE_KEPT;
}

uint16_t draft_value(struct draft *d, struct kernel_value v) {
	v.space = space_of(d, &v);
	if (d->kernel.values == KERNEL_VALUES) {
		d->full = true;
		return 0;
	}
	d->kernel.value[d->kernel.values] = v;
	return d->kernel.values++;
}

static bool operand_equal(const struct draft *d, const struct plan_operand *a, const struct plan_operand *b) {
	return a->slot == b->slot && a->offset == b->offset &&
		!memcmp(a->stride, b->stride, d->kernel.rank * sizeof *a->stride);
}

uint16_t draft_operand(struct draft *d, uint8_t dtype, const struct plan_operand *o) {
	struct kernel *k = &d->kernel;

	if (k->operands == KERNEL_OPERANDS) {
		d->full = true;
		return 0;
	}
	d->operand[k->operands] = *o;
	k->operand[k->operands] = (struct kernel_operand){ .dtype = dtype, .value = KERNEL_NONE };
	return k->operands++;
}

/* Values before the root live in its loop; what comes after finds or makes its own. */
static uint16_t stage_start(const struct kernel *k) {
	return k->root_value == KERNEL_NONE ? 0 : k->root_value;
}

uint16_t draft_scalar(struct draft *d, uint8_t dtype, uint32_t number) {
	struct kernel *k = &d->kernel;

	for (uint16_t v = stage_start(k); v < k->values; v++)
		if (k->value[v].kind == KERNEL_SCALAR && k->value[v].dtype == dtype &&
			d->scalar[k->value[v].index] == number)
			return v;
	if (k->scalars == KERNEL_SCALARS) {
		d->full = true;
		return 0;
	}
	d->scalar[k->scalars] = number;
	return draft_value(d, (struct kernel_value){ .kind = KERNEL_SCALAR, .dtype = dtype, .index = k->scalars++ });
}

/* Equal values of a stage are one: views and scalars may have become equal only here. */
uint16_t draft_op(struct draft *d, unsigned op, uint8_t dtype, unsigned arity, const uint16_t *arg) {
	struct kernel_value v = { .kind = KERNEL_OP, .dtype = dtype, .op = (uint16_t)op };
	const struct kernel *k = &d->kernel;

	memcpy(v.arg, arg, arity * sizeof *arg);
	v.space = space_of(d, &v);
	for (uint16_t i = stage_start(k); i < k->values; i++)
		if (!memcmp(&k->value[i], &v, sizeof v))
			return i;
	return draft_value(d, v);
}

uint16_t draft_iota(struct draft *d, const struct plan_operand *o) {
	const struct kernel *k = &d->kernel;
	uint16_t operand;

	for (uint16_t i = stage_start(k); i < k->values; i++)
		if (k->value[i].kind == KERNEL_IOTA && operand_equal(d, &d->operand[k->value[i].index], o))
			return i;
	operand = draft_operand(d, DTYPE_i64, o);
	if (!d->full)
		d->kernel.operand[operand].iota = 1;
	return draft_value(d, (struct kernel_value){ .kind = KERNEL_IOTA, .dtype = DTYPE_i64, .index = operand });
}

uint16_t draft_load(struct draft *d, uint8_t dtype, const struct plan_operand *o) {
	const struct kernel *k = &d->kernel;

	for (uint16_t v = stage_start(k); v < k->values; v++)
		if (k->value[v].kind == KERNEL_LOAD && k->value[v].dtype == dtype &&
			operand_equal(d, &d->operand[k->value[v].index], o))
			return v;
	return draft_value(d, (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = dtype,
		.index = draft_operand(d, dtype, o) });
}

uint16_t draft_gather(struct draft *d, uint8_t dtype, const struct plan_operand *o, const uint16_t arg[static 3]) {
	struct kernel_value v = { .kind = KERNEL_GATHER, .dtype = dtype, .arg = { arg[0], arg[1], arg[2] } };

	v.index = draft_operand(d, dtype, o);
	if (!d->full)
		d->kernel.operand[v.index].gathered = 1;
	return draft_value(d, v);
}

uint16_t draft_search(struct draft *d, uint8_t dtype, const struct plan_operand *o, const uint16_t arg[static 3],
	bool right) {
	struct kernel_value v = { .kind = KERNEL_SEARCH, .dtype = DTYPE_i64, .arg = { arg[0], arg[1], arg[2] },
		.right = right };

	v.index = draft_operand(d, dtype, o);
	if (!d->full)
		d->kernel.operand[v.index].gathered = 1;
	return draft_value(d, v);
}

void draft_store(struct draft *d, uint16_t value, const struct plan_operand *o) {
	uint16_t operand = draft_operand(d, d->kernel.value[value].dtype, o);

	if (d->full)
		return;
	d->kernel.operand[operand].output = true;
	d->kernel.operand[operand].value = value;
}

void cut_begin(struct cut *c, const struct draft *from, struct draft *to) {
	const struct kernel *k = &from->kernel;

	c->from = from;
	c->to = to;
	memset(c->map, 0xff, sizeof c->map);
	memset(to, 0, sizeof *to);
	to->kernel.root = k->root;
	to->kernel.rank = k->rank;
	to->kernel.kept = k->kept;
	to->kernel.block_dim = k->block_dim;
	to->kernel.op = k->op;
	to->kernel.long_rows = k->long_rows;
	to->kernel.blocks = k->blocks;
	to->kernel.packed = k->packed;
	to->kernel.stage = k->stage;
	to->kernel.descending = k->descending;
	to->kernel.accumulator = k->accumulator;
	to->kernel.inputs = k->inputs;
	to->kernel.causal = k->causal;
	to->kernel.alone = k->alone;
	to->kernel.root_value = KERNEL_NONE;
	to->extent = from->extent;
	memcpy(to->dims, from->dims, sizeof to->dims);
}

/* What computes the first factor of a product. */
static void cut_before(struct cut *c) {
	struct kernel *k = &c->to->kernel;
	uint16_t value;

	k->root = KERNEL_ROWS;
	k->kept = (uint8_t)(k->rank - 1u);
	value = cut_value(c, c->from->kernel.operand[0].value);
	k->root = KERNEL_MATMUL;
	k->kept = 0;
	k->operand[0].output = true;
	k->operand[0].value = value;
}

static uint16_t cut_root(struct cut *c) {
	struct kernel *k = &c->to->kernel;
	const struct kernel *from = &c->from->kernel;

	if (from->root == KERNEL_SCAN && from->block_dim != 0xff && c->to->kernel.root == KERNEL_SCAN)
		k->carry = (uint8_t)draft_operand(c->to, from->accumulator, &c->from->operand[from->carry]);
	if (from->root == KERNEL_REDUCE || from->root == KERNEL_SCAN || from->root == KERNEL_SORT)
		k->reduced_value = cut_value(c, from->reduced_value);
	for (uint16_t i = 0; from->root == KERNEL_CONV && i < CONV_SCALARS; i++)
		draft_scalar(c->to, DTYPE_i64, c->from->scalar[i]);
	if (from->root == KERNEL_ATTENTION) {
		k->reduced_value = cut_value(c, from->reduced_value);
		k->hidden = from->hidden == KERNEL_NONE ? KERNEL_NONE : cut_value(c, from->hidden);
	}
	for (unsigned i = 0; i < kernel_root_operands(from); i++)
		draft_operand(c->to, from->operand[i].dtype, &c->from->operand[i]);
	if (kernel_computes_factor(from))
		cut_before(c);
	k->root_value = k->values;
	return draft_value(c->to, from->value[from->root_value]);
}

static uint16_t cut_fresh(struct cut *c, const struct kernel_value *v) {
	const struct draft *from = c->from;
	uint16_t arg[KERNEL_ARGS] = { 0 };

	for (unsigned i = 0; i < kernel_value_args(v); i++)
		arg[i] = cut_value(c, v->arg[i]);
	switch (v->kind) {
	case KERNEL_LOAD:
		return draft_load(c->to, v->dtype, &from->operand[v->index]);
	case KERNEL_SCALAR:
		return draft_scalar(c->to, v->dtype, from->scalar[v->index]);
	case KERNEL_IOTA:
		return draft_iota(c->to, &from->operand[v->index]);
	case KERNEL_ROOT_VALUE:
		return cut_root(c);
	case KERNEL_REDUCED:
		return draft_value(c->to, (struct kernel_value){ .kind = KERNEL_REDUCED, .dtype = v->dtype, .op = v->op,
			.arg = { arg[0] } });
	case KERNEL_GATHER:
		return draft_gather(c->to, v->dtype, &from->operand[v->index], arg);
	case KERNEL_SEARCH:
		return draft_search(c->to, from->kernel.operand[v->index].dtype, &from->operand[v->index], arg, v->right);
	default:
		return draft_op(c->to, v->op, v->dtype, op_info(v->op)->arity, arg);
	}
}

/* A value of the prologue that the epilogue needs too (a scalar) is made again after the root, but a scan's is there still. */
static bool is_stale(const struct cut *c, uint16_t value) {
	const struct kernel *k = &c->to->kernel;

	return k->root != KERNEL_SCAN && c->map[value] != KERNEL_NONE && k->root_value != KERNEL_NONE && c->map[value] < k->root_value;
}

uint16_t cut_value(struct cut *c, uint16_t value) {
	if (c->map[value] == KERNEL_NONE || is_stale(c, value))
		c->map[value] = cut_fresh(c, &c->from->kernel.value[value]);
	return c->map[value];
}

void cut_import(struct cut *c, uint16_t value, const struct plan_operand *o) {
	c->map[value] = draft_load(c->to, c->from->kernel.value[value].dtype, o);
}

void cut_output(struct cut *c, uint16_t operand) {
	draft_store(c->to, cut_value(c, c->from->kernel.operand[operand].value), &c->from->operand[operand]);
}

/*
 * A plan of generic kernels: for as long as the kernels of a plan are not built.
 *
 * Each step that is no map is cut into parts, until what is reduced or multiplied stands alone; then arrays are copied until
 * they lie as one of few kernels wants them. So all that remains is maps, which run as bytecode, and kernels of this list:
 *
 *   a reduction of [rows][elements], of each operation and accumulator; one of blocks of such rows
 *   a product of [M][K] by [K][N], of each accumulator; the same of [batch][M][K]; where a device multiplies matrices of 16-bit floats, of those
 *   attention of [batch][M][D], plain, causal or with a mask
 *   a convolution with many channels, or with lanes along its lines; on GPUs by tiles, or a lane a result
 *   a gather from one vector by another, a search in one for another; a scatter into [rows][elements]
 *   a scan of [rows][elements], whole or by blocks; a sort of such rows, on CPUs whether it is whole or in blocks
 *
 * which are built while nobody waits (exec/interpret.c). Parts keep the order of every accumulation, which is a function of
 * extents alone (kernel.h), so results keep their bits. It takes more memory and time than the plan it is made from,
 * but no compiler.
 *
 * A map of types that no interpreter holds together is cut likewise. What is not in the list stays as it is: plan_generic_reason().
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "generic.h"
#include "generic_parts.h"

/* ---- maps ---- */

/* Begins a drawing of one operation, of operands as they lie nowhere in particular. */
static struct plan_operand begin_operation(struct draft *d) {
	generic_new_map(d, 1);
	d->dims[0] = 1;
	return (struct plan_operand){ .stride = { 1 } };
}

/* A value alone. */
static void draw_operation(const struct kernel *k, const struct kernel_value *v, struct draft *d) {
	struct plan_operand o = begin_operation(d);
	uint16_t arg[KERNEL_ARGS] = { 0 };

	for (unsigned i = 0; i < kernel_value_args(v); i++, o.slot++)
		arg[i] = draft_load(d, k->value[v->arg[i]].dtype, &o);
	draft_store(d, draft_op(d, v->op, v->dtype, op_info(v->op)->arity, arg), &o);
}

static bool cast_runs(uint8_t from, uint8_t to, const struct traits *t, plan_runs *runs, struct draft *d) {
	struct plan_operand o = begin_operation(d);
	uint16_t arg = draft_load(d, from, &o);

	o.slot++;
	draft_store(d, draft_op(d, OP_cast, to, 1, &arg), &o);
	draft_finish(d, t);
	return runs(&d->kernel, t);
}

/* A type between two that no interpreter holds together, through which a cast has the same result; or that of the operand. */
static uint8_t between(const struct kernel *k, const struct kernel_value *v) {
	uint8_t from = k->value[v->arg[0]].dtype;
	const struct dtype_info *type = dtype_info(from);

	if (v->op != OP_cast || from == DTYPE_f32 || from == DTYPE_f64)
		return from;
	if (type->kind == DTYPE_KIND_REAL)
		return DTYPE_f32;
	if (type->bytes < 4)
		return DTYPE_i32;
	/* Integers wrap among each other. */
	return from != DTYPE_u64 || dtype_info(v->dtype)->kind == DTYPE_KIND_SINT || dtype_info(v->dtype)->kind == DTYPE_KIND_UINT ?
		DTYPE_i64 : from;
}

/* Does an operation run by itself, perhaps as two? */
static bool operation_runs(const struct kernel *k, const struct kernel_value *v, const struct traits *t, plan_runs *runs, struct draft *d) {
	uint8_t from = k->value[v->arg[0]].dtype, hub = between(k, v);

	draw_operation(k, v, d);
	draft_finish(d, t);
	if (runs(&d->kernel, t))
		return true;
	return hub != from && hub != v->dtype && cast_runs(from, hub, t, runs, d) && cast_runs(hub, v->dtype, t, runs, d);
}

/* Would each operation of a map run by itself? Gathers and searches do, by kernels of the list. */
static bool operations_run(const struct kernel *k, const struct traits *t, plan_runs *runs) {
	struct draft *one = malloc(sizeof *one);
	bool run = one;

	for (uint16_t v = 0; run && v < k->values; v++)
		if (k->value[v].kind == KERNEL_OP)
			run = operation_runs(k, &k->value[v], t, runs, one);
	free(one);
	return run;
}

static bool gathers(const struct kernel *k) {
	for (uint16_t v = 0; v < k->values; v++)
		if (kernel_value_gathers(&k->value[v]))
			return true;
	return false;
}

/* In two halves, of whatever form they need. */
static int add_halves(struct generic *g, const struct draft *d, int (*add)(struct generic *g, struct draft *d), struct draft half[static 2]) {
	int r = draft_split(g->p, d, &half[0], &half[1]);

	for (unsigned i = 0; i < 2 && !r; i++)
		r = half[i].full ? -EOVERFLOW : add(g, &half[i]);
	return r;
}

/* A map of one cast, as two. */
static int add_casts(struct generic *g, const struct draft *d, uint16_t value) {
	const struct kernel_value *v = &d->kernel.value[value];
	uint8_t hub = between(&d->kernel, v);
	struct draft *map = malloc(sizeof *map);
	struct plan_operand at;
	uint16_t arg;
	struct cut c;
	int r;

	if (!map)
		return -ENOMEM;
	generic_begin_map(&c, d, map);
	arg = cut_value(&c, v->arg[0]);
	r = generic_keep_value(g, map, draft_op(map, OP_cast, hub, 1, &arg), &at);
	if (!r) {
		generic_begin_map(&c, d, map);
		arg = draft_load(map, hub, &at);
		c.map[value] = draft_op(map, OP_cast, v->dtype, 1, &arg);
		for (uint16_t i = 0; i < d->kernel.operands; i++)
			if (d->kernel.operand[i].output)
				cut_output(&c, i);
		r = generic_add_map(g, map);
	}
	free(map);
	return r;
}

/* A map that is one operation, which no interpreter has as it is. */
static int add_one(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;

	if (gathers(k))
		return generic_add_gather(g, d);
	for (uint16_t v = 0; v < k->values; v++)
		if (k->value[v].kind == KERNEL_OP && between(k, &k->value[v]) != k->value[k->value[v].arg[0]].dtype)
			return add_casts(g, d, v);
	return plan_add_step(g->p, d, g->step->op, 0);
}

int generic_add_map(struct generic *g, struct draft *d) {
	struct draft *half;
	int r;

	if (d->full)
		return -EOVERFLOW;
	draft_collapse(d);
	draft_finish(d, g->t);
	if (g->runs(&d->kernel, g->t) || !operations_run(&d->kernel, g->t, g->runs))
		return plan_add_step(g->p, d, g->step->op, 0);
	half = calloc(2, sizeof *half);
	if (!half)
		return -ENOMEM;
	r = add_halves(g, d, generic_add_map, half);
	free(half);
	return r == FAULT_BUILD ? add_one(g, d) : r;
}

void generic_begin_map(struct cut *c, const struct draft *d, struct draft *map) {
	struct kernel *k = &map->kernel;

	cut_begin(c, d, map);
	k->root = KERNEL_MAP;
	k->kept = k->accumulator = k->inputs = 0;
	k->op = 0;
	k->packed = k->long_rows = k->alone = false;
	k->minimal = 0;
	k->blocks = 0;
	map->extent = 0;
}

/* ---- the plan ---- */

/* Why a kernel of this root has no generic one, or NULL. */
static const char *reason_of(const struct kernel *k, const struct traits *t) {
	if (k->root == KERNEL_ATTENTION && !generic_attends(k))
		return "there is no generic kernel of attention found from its parts";
	if (k->root == KERNEL_SCATTER && !generic_scatters(k))
		return "there is no generic kernel that scatters by an index of u64";
	return k->root == KERNEL_SORT ? generic_sorts_not(k, t) : NULL;
}

const char *plan_generic_reason(const struct kernel *k, const struct traits *t, plan_runs *runs) {
	if (k->root != KERNEL_MAP)
		return reason_of(k, t);
	return runs(k, t) || operations_run(k, t, runs) ? NULL :
		"there is an operation in it that no interpreter and no generic kernel has";
}

static int add_bare(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;

	if (k->root == KERNEL_MATMUL || k->root == KERNEL_ATTENTION)
		return generic_add_product(g, d);
	if (k->root == KERNEL_CONV)
		return generic_add_conv(g, d);
	if (k->root == KERNEL_SCAN)
		return generic_add_scan(g, d);
	if (k->root == KERNEL_SCATTER)
		return generic_add_scatter(g, d);
	if (k->root == KERNEL_SORT)
		return generic_add_sort(g, d);
	return generic_add_reduction(g, d);
}

static int add_draft(struct generic *g, struct draft *d) {
	struct draft *half;
	int r;

	if (d->kernel.root == KERNEL_MAP)
		return generic_add_map(g, d);
	half = calloc(2, sizeof *half);
	if (!half)
		return -ENOMEM;
	r = add_halves(g, d, add_draft, half);
	free(half);
	return r == FAULT_BUILD ? add_bare(g, d) : r;
}

/* Stays a step as it is in this plan? */
static bool stays(const struct generic *g, const struct kernel *k) {
	return (k->root == KERNEL_MAP && g->runs(k, g->t)) || plan_generic_reason(k, g->t, g->runs);
}

static int add_step(struct generic *g) {
	const struct plan_step *s = g->step;
	struct draft *d;
	int r;

	if (stays(g, s->kernel))
		return plan_copy_step(g->p, s);
	d = malloc(sizeof *d);
	if (!d)
		return -ENOMEM;
	draft_of_step(s, d);
	g->changed = true;
	r = add_draft(g, d);
	free(d);
	return r;
}

int plan_generic(const struct plan *from, const struct traits *t, plan_runs *runs, struct plan **planp) {
	struct plan *to = calloc(1, sizeof *to);
	struct generic g = { .p = to, .t = t, .runs = runs, .slots = from->slots };
	int r;

	*planp = NULL;
	if (!to)
		return -ENOMEM;
	to->references = 1;
	to->generic = true;
	r = plan_copy_lists(from, to);
	for (uint32_t i = 0; i < from->steps && !r; i++) {
		g.step = &from->step[i];
		r = add_step(&g);
	}
	free(g.sorted);
	/* A part that holds too much for a kernel, and a plan whose steps are all as they were, are of no use. */
	if (r || !g.changed) {
		plan_unref(to);
		return r == -EOVERFLOW ? 0 : r;
	}
	plan_lifetimes(to);
	if (plan_is_broken(to, "the plan of generic kernels")) {
		plan_unref(to);
		return 0;
	}
	plan_estimate(to, t);
	*planp = to;
	return 0;
}

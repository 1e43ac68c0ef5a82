/*
 * A plan of generic kernels: for as long as the kernels of a plan are not built.
 *
 * Each step that is no map is cut into parts, until what is reduced or multiplied stands alone; then arrays are copied until
 * they lie as one of few kernels wants them. So all that remains is maps, which run as byte code, and kernels of this list:
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

/* ---- the kernels ---- */

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

/* ---- types ---- */

uint8_t generic_ordered_as(uint8_t type) {
	if (dtype_info(type)->kind == DTYPE_KIND_REAL)
		return type == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
	return type == DTYPE_u64 ? DTYPE_u64 : DTYPE_i64;
}

uint8_t generic_wrapped_as(uint8_t type) {
	return dtype_info(type)->kind == DTYPE_KIND_REAL ? generic_ordered_as(type) : DTYPE_i64;
}

/* ---- where arrays lie ---- */

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

static void take_out(int64_t *list, unsigned at, unsigned count) {
	memmove(&list[at], &list[at + 1], (count - at - 1u) * sizeof *list);
}

/* Begins a drawing of one operation, of operands as they lie nowhere in particular. */
static struct plan_operand begin_operation(struct draft *d) {
	memset(d, 0, sizeof *d);
	d->kernel.root = KERNEL_MAP;
	d->kernel.rank = 1;
	d->kernel.block_dim = 0xff;
	d->kernel.root_value = KERNEL_NONE;
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
	r = plan_add_temporary(g->p, hub, map->dims, map->kernel.rank, &at);
	if (!r) {
		draft_store(map, draft_op(map, OP_cast, hub, 1, &arg), &at);
		r = generic_add_map(g, map);
	}
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
	k->blocks = 0;
	map->extent = 0;
}

int generic_lay_value(struct generic *g, const struct draft *d, uint16_t value, struct plan_operand *at) {
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
	r = plan_add_temporary(g->p, v->dtype, map->dims, map->kernel.rank, at);
	if (!r) {
		draft_store(map, value, at);
		r = generic_add_map(g, map);
	}
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

/* A vector, whose first step says how it lies, to one side by side. */
static int add_cast(struct generic *g, int64_t elements, uint8_t type, struct plan_operand from, uint8_t wanted,
	struct plan_operand to) {
	struct draft *map = calloc(1, sizeof *map);
	int64_t step = from.stride[0];
	uint16_t value;
	int r;

	if (!map)
		return -ENOMEM;
	map->kernel.root = KERNEL_MAP;
	map->kernel.rank = 1;
	map->kernel.block_dim = 0xff;
	map->kernel.root_value = KERNEL_NONE;
	map->dims[0] = elements;
	memset(from.stride, 0, sizeof from.stride);
	memset(to.stride, 0, sizeof to.stride);
	from.stride[0] = step;
	to.stride[0] = 1;
	value = draft_load(map, type, &from);
	if (type != wanted)
		value = draft_op(map, OP_cast, wanted, 1, &value);
	draft_store(map, value, &to);
	r = generic_add_map(g, map);
	free(map);
	return r;
}

int generic_lay_as(struct generic *g, int64_t elements, uint8_t type, uint8_t wanted, struct plan_operand *at) {
	struct plan_operand to;
	int r;

	if (type == wanted && at->stride[0] == 1)
		return 0;
	r = plan_add_temporary(g->p, wanted, &elements, 1, &to);
	if (!r)
		r = add_cast(g, elements, type, *at, wanted, to);
	*at = to;
	return r;
}

int generic_begin_wide(struct generic *g, int64_t elements, uint8_t type, uint8_t wide_type, struct plan_operand to,
	struct plan_operand *wide) {
	*wide = to;
	return type == wide_type ? 0 : plan_add_temporary(g->p, wide_type, &elements, 1, wide);
}

int generic_end_wide(struct generic *g, int64_t elements, uint8_t type, uint8_t wide_type, struct plan_operand wide,
	struct plan_operand to) {
	wide.stride[0] = 1;
	return type == wide_type ? 0 : add_cast(g, elements, wide_type, wide, type, to);
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

/* ---- reductions ---- */

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
	int r = generic_lay_value(g, d, n.of, &from);

	if (k->block_dim != 0xff)
		elements /= d->dims[k->block_dim];
	from.stride[0] = 1;
	if (!r)
		r = generic_lay_as(g, elements, n.accumulator, type, &from);
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
	if (k->root == KERNEL_ROWS && reduction_of(k).value == KERNEL_NONE)
		return add_row_maps(g, d);
	return add_reduction(g, d);
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
	plan_estimate(to, t);
	*planp = to;
	return 0;
}

/* ---- the list ---- */

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
	FORMS = 2,
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
	static const int64_t rows[FORMS][3] = { { 1, 0, 1 }, { 1, 2, 2 } };

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
		generic_draw_rows(d, KERNEL_REDUCE, op, type, rows[form], (struct plan_operand){ .slot = PLAN_NONE });
		store_reduction(d, (struct plan_operand){ 0 });
		finish_reduction(d, t);
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

/*
 * A plan of generic kernels: for as long as the kernels of a plan are not built.
 *
 * Each step that is no map is cut into parts, until what is reduced or multiplied stands alone; then arrays are copied until
 * they lie as one of few kernels wants them. So all that remains is maps, which run as byte code, and kernels of this list:
 *
 *   a reduction of [rows][elements], of each operation and accumulator; one of blocks of such rows
 *   a product of [M][K] by [K][N], of each accumulator; the same of [batch][M][K]
 *
 * which are built while nobody waits (exec/interpret.c). Parts keep the order of every accumulation, which is a function of
 * extents alone (kernel.h), so results keep their bits. It takes more memory and time than the plan it is made from,
 * but no compiler.
 *
 * What is not in the list stays as it is: plan_generic_reason().
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "generic.h"

struct generic {
	struct plan *p;
	const struct traits *t;
	const struct plan_step *step;      /* of the plan it is made from */
	bool changed;
};

/* ---- the kernels ---- */

enum {
	/* Any extent that makes a product neither small nor of few rows or columns. */
	GENERIC_EXTENT = 1024,
};

/* [rows][blocks][extent], or without blocks where these are 0; the load has no slot yet. */
static void draw_reduction(struct draft *d, unsigned op, uint8_t accumulator, const int64_t *dims) {
	struct kernel *k = &d->kernel;
	struct plan_operand from = { .slot = PLAN_NONE };
	bool blocks = dims[1];

	memset(d, 0, sizeof *d);
	k->root = KERNEL_REDUCE;
	k->rank = blocks ? 3 : 2;
	k->kept = (uint8_t)(k->rank - 1u);
	k->block_dim = blocks ? 1 : 0xff;
	k->op = (uint16_t)op;
	k->accumulator = accumulator;
	d->dims[0] = dims[0];
	d->dims[1] = dims[1];
	d->dims[k->rank - 1u] = dims[2];
	d->extent = (uint64_t)dims[2];
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

/* [batch][M][N][K], of row-major operands; a factor's batch step is 0 where all use the same one. */
static void draw_product(struct draft *d, uint8_t accumulator, const int64_t *dims, const struct plan_operand *factor) {
	struct kernel *k = &d->kernel;

	memset(d, 0, sizeof *d);
	k->root = KERNEL_MATMUL;
	k->op = OP_matmul;
	k->rank = 4;
	k->block_dim = 0xff;
	k->accumulator = accumulator;
	memcpy(d->dims, dims, 4 * sizeof *dims);
	d->extent = (uint64_t)dims[3];
	draft_operand(d, accumulator, &factor[0]);
	draft_operand(d, accumulator, &factor[1]);
	k->root_value = draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = accumulator });
}

static void store_product(struct draft *d, struct plan_operand to) {
	memset(to.stride, 0, sizeof to.stride);
	to.stride[0] = d->dims[1] * d->dims[2];
	to.stride[1] = d->dims[2];
	to.stride[2] = 1;
	draft_store(d, d->kernel.root_value, &to);
}

/* As a product that is large every way is computed, whatever its extents. */
static void finish_product(struct draft *d, const struct traits *t) {
	int64_t dims[KERNEL_RANK];

	draft_collapse(d);
	memcpy(dims, d->dims, sizeof dims);
	for (unsigned i = 1; i <= 3; i++)
		d->dims[d->kernel.rank - i] = GENERIC_EXTENT;
	draft_finish(d, t);
	memcpy(d->dims, dims, sizeof dims);
}

/* ---- where arrays lie ---- */

/* Along an extent of 1 an operand may step in any way. */
static bool lies_row_major(const int64_t *dims, const int64_t *stride, unsigned rank) {
	int64_t step = 1;

	for (unsigned d = rank; d-- > 0; step *= dims[d])
		if (dims[d] != 1 && stride[d] != step)
			return false;
	return true;
}

static int64_t product_of(const int64_t *dims, unsigned count) {
	int64_t n = 1;

	while (count-- > 0)
		n *= dims[count];
	return n;
}

static void take_out(int64_t *list, unsigned at, unsigned count) {
	memmove(&list[at], &list[at + 1], (count - at - 1u) * sizeof *list);
}

static int add_map(struct generic *g, struct draft *d) {
	if (d->full)
		return -EOVERFLOW;
	draft_collapse(d);
	draft_finish(d, g->t);
	return plan_add_step(g->p, d, g->step->op, 0);
}

/* A part of d as a map over all its dims. */
static void begin_map(struct cut *c, const struct draft *d, struct draft *map) {
	struct kernel *k = &map->kernel;

	cut_begin(c, d, map);
	k->root = KERNEL_MAP;
	k->kept = k->accumulator = k->inputs = 0;
	k->op = 0;
	k->packed = k->long_rows = k->alone = false;
	k->blocks = 0;
	map->extent = 0;
}

/* A value of d, which a map may compute, row-major over all dims but that of blocks, at *at. */
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
		if (lies_row_major(dims, at->stride, rank))
			return 0;
	}
	map = malloc(sizeof *map);
	if (!map)
		return -ENOMEM;
	begin_map(&c, d, map);
	value = cut_value(&c, value);
	draft_drop_blocks(map);
	r = plan_add_temporary(g->p, v->dtype, map->dims, map->kernel.rank, at);
	if (!r) {
		draft_store(map, value, at);
		r = add_map(g, map);
	}
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
		begin_map(&c, d, map);
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
		r = add_map(g, map);
	free(map);
	return r;
}

static int add_reduction(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	struct reduction n = reduction_of(k);
	uint16_t direct = direct_output(d, n.value);
	bool blocks = k->block_dim != 0xff;
	int64_t dims[3] = { product_of(d->dims, k->kept), blocks ? d->dims[k->block_dim] : 0, product_of(&d->dims[k->kept], k->rank - k->kept) };
	struct plan_operand from, to = { 0 };
	struct draft *one;
	int r = lay_value(g, d, n.of, &from);

	if (r)
		return r;
	if (direct != KERNEL_NONE)
		to = d->operand[direct];
	else
		r = plan_add_temporary(g->p, n.accumulator, d->dims, k->kept, &to);
	one = r ? NULL : malloc(sizeof *one);
	if (!one)
		return r ? r : -ENOMEM;
	dims[0] /= blocks ? dims[1] : 1;
	draw_reduction(one, n.op, n.accumulator, dims);
	one->operand[0].slot = from.slot;
	one->operand[0].offset = from.offset;
	store_reduction(one, to);
	draft_finish(one, g->t);
	r = blocks ? plan_add_step(g->p, one, g->step->op, 0) : plan_add_blocks(g->p, one, g->t, g->step->op, 0);
	free(one);
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
			r = add_map(g, map);
	}
	free(map);
	return r;
}

/* ---- products ---- */

/* Dims of the drawing at the ends of a factor's rows and columns: [M][K], [K][N]. */
static const uint8_t factor_rows[] = { 1, 3 }, factor_columns[] = { 3, 2 };

/* A factor read in panels, as [batch][panel][K][column]: the dims of a map, of whole panels or of the last one. */
static void unpack_dims(const struct draft *d, bool many, int64_t panels, int64_t columns, struct draft *map) {
	unsigned m = d->kernel.rank - 3u;

	for (unsigned b = 0; !many && b < m; b++)
		map->dims[b] = 1;
	map->dims[m] = panels;
	map->dims[m + 1] = d->dims[m + 2];
	map->dims[m + 2] = columns;
}

/* Copies `panels` panels from the first on to row-major memory at *to. */
static int add_unpacked(struct generic *g, const struct draft *d, bool many, int64_t first, int64_t panels, int64_t columns,
	const struct plan_operand *to) {
	const struct kernel *k = &d->kernel;
	unsigned m = k->rank - 3u;
	struct plan_operand from = d->operand[1], at = *to;
	struct draft *map = malloc(sizeof *map);
	struct cut c;
	int r;

	if (!map)
		return -ENOMEM;
	begin_map(&c, d, map);
	unpack_dims(d, many, panels, columns, map);
	from.offset += first * from.stride[m];
	from.stride[m + 1] = from.stride[m + 2];
	from.stride[m + 2] = 1;
	at.offset += first * (int64_t)kernel_columns(k);
	at.stride[m] = kernel_columns(k);
	at.stride[m + 1] = d->dims[m + 1];
	at.stride[m + 2] = 1;
	draft_store(map, draft_load(map, k->operand[1].dtype, &from), &at);
	r = add_map(g, map);
	free(map);
	return r;
}

/* Steps of row-major matrices over batch dims; all 0 where there is one matrix. */
static void batch_strides(const struct draft *d, bool many, int64_t elements, int64_t *stride) {
	for (unsigned i = d->kernel.rank - 3u; i-- > 0; elements *= d->dims[i])
		stride[i] = many ? elements : 0;
}

/* A second factor in panels, row-major at *at. */
static int unpack(struct generic *g, const struct draft *d, bool many, struct plan_operand *at) {
	const struct kernel *k = &d->kernel;
	unsigned m = k->rank - 3u;
	int64_t columns = kernel_columns(k), n = d->dims[m + 1], whole = n / columns, rest = n % columns;
	int64_t dims[3] = { many ? product_of(d->dims, m) : 1, d->dims[m + 2], n };
	int r = plan_add_temporary(g->p, k->operand[1].dtype, dims, 3, at);

	batch_strides(d, many, dims[1] * dims[2], at->stride);
	if (!r && whole)
		r = add_unpacked(g, d, many, 0, whole, columns, at);
	if (!r && rest)
		r = add_unpacked(g, d, many, whole, 1, rest, at);
	return r;
}

/* Is there a matrix for each product, or one for all? */
static bool has_many(const struct draft *d, unsigned i) {
	for (unsigned b = 0; b + 3u < d->kernel.rank; b++)
		if (d->dims[b] != 1 && d->operand[i].stride[b])
			return true;
	return false;
}

/* A factor as a map walks it: its batch where there are many matrices, rows and columns. */
static void factor_map(const struct draft *d, unsigned i, bool many, struct draft *map, struct plan_operand *from) {
	unsigned m = d->kernel.rank - 3u, row = m + factor_rows[i] - 1u, column = m + factor_columns[i] - 1u;
	unsigned rank = many ? m : 0;
	int64_t steps[2] = { from->stride[row], from->stride[column] };

	memset(map, 0, sizeof *map);
	map->kernel.root = KERNEL_MAP;
	map->kernel.rank = (uint8_t)(rank + 2u);
	map->kernel.block_dim = 0xff;
	map->kernel.root_value = KERNEL_NONE;
	memcpy(map->dims, d->dims, rank * sizeof *map->dims);
	map->dims[rank] = d->dims[row];
	map->dims[rank + 1] = d->dims[column];
	memcpy(&from->stride[rank], steps, sizeof steps);
}

/* Copies it to row-major memory at *at, in the accumulator's type. */
static int copy_factor(struct generic *g, const struct draft *d, unsigned i, struct draft *map, struct plan_operand *at) {
	uint8_t type = d->kernel.operand[i].dtype, accumulator = d->kernel.accumulator;
	uint16_t value = draft_load(map, type, at);
	int r = plan_add_temporary(g->p, accumulator, map->dims, map->kernel.rank, at);

	if (r)
		return r;
	if (type != accumulator)
		value = draft_op(map, OP_cast, accumulator, 1, &value);
	draft_store(map, value, at);
	return add_map(g, map);
}

/* Factor i, row-major and of the accumulator's type, at *at: steps over the drawing's dims. */
static int lay_factor(struct generic *g, const struct draft *d, unsigned i, struct plan_operand *at) {
	const struct kernel *k = &d->kernel;
	unsigned m = k->rank - 3u;
	int64_t rows = d->dims[m + factor_rows[i] - 1u], columns = d->dims[m + factor_columns[i] - 1u];
	bool many = has_many(d, i);
	struct draft *map = malloc(sizeof *map);
	int r = map ? 0 : -ENOMEM;

	*at = d->operand[i];
	if (!r && i && k->packed) {
		r = unpack(g, d, many, at);
		at->stride[m + factor_rows[i] - 1u] = columns;
		at->stride[m + factor_columns[i] - 1u] = 1;
	}
	if (!r) {
		factor_map(d, i, many, map, at);
		if (k->operand[i].dtype != k->accumulator || !lies_row_major(map->dims, at->stride, map->kernel.rank))
			r = copy_factor(g, d, i, map, at);
	}
	memset(at->stride, 0, sizeof at->stride);
	at->stride[0] = many ? rows * columns : 0;
	at->stride[factor_rows[i]] = columns;
	at->stride[factor_columns[i]] = 1;
	free(map);
	return r;
}

/* The product's result at *from goes to all its outputs but `done`. */
static int add_product_outputs(struct generic *g, const struct draft *d, const struct plan_operand *from, uint16_t done) {
	struct draft *map = malloc(sizeof *map);
	struct cut c;
	int r = 0;

	if (!map)
		return -ENOMEM;
	begin_map(&c, d, map);
	map->kernel.rank--;
	cut_import(&c, d->kernel.root_value, from);
	for (uint16_t i = 0; i < d->kernel.operands; i++)
		if (d->kernel.operand[i].output && i != done)
			cut_output(&c, i);
	if (map->kernel.operands > 1)
		r = add_map(g, map);
	free(map);
	return r;
}

static int add_product(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	unsigned m = k->rank - 3u;
	int64_t dims[4] = { product_of(d->dims, m), d->dims[m], d->dims[m + 1], d->dims[m + 2] };
	struct plan_operand factor[2], to = { 0 };
	uint16_t direct = KERNEL_NONE;
	struct draft *one = malloc(sizeof *one);
	int r = one ? 0 : -ENOMEM;

	for (unsigned i = 0; i < 2 && !r; i++)
		r = lay_factor(g, d, i, &factor[i]);
	for (uint16_t i = 2; i < k->operands; i++)
		if (k->operand[i].output && lies_row_major(d->dims, d->operand[i].stride, m + 2))
			direct = i;
	if (!r && direct == KERNEL_NONE)
		r = plan_add_temporary(g->p, k->accumulator, d->dims, m + 2, &to);
	else if (!r)
		to = d->operand[direct];
	if (!r) {
		draw_product(one, k->accumulator, dims, factor);
		store_product(one, to);
		finish_product(one, g->t);
		r = plan_add_step(g->p, one, g->step->op, 0);
	}
	free(one);
	return r ? r : add_product_outputs(g, d, &to, direct);
}

/* ---- the plan ---- */

const char *plan_generic_reason(const struct kernel *k, const struct traits *t) {
	static const char *const reasons[] = {
		[KERNEL_SCAN] = "there is no generic kernel of scans",
		[KERNEL_SCATTER] = "there is no generic kernel that scatters",
		[KERNEL_SORT] = "there is no generic kernel that sorts",
		[KERNEL_ATTENTION] = "there is no generic kernel of attention",
		[KERNEL_CONV] = "there is no generic kernel of convolutions",
		[KERNEL_INTERPRETER] = NULL,
	};

	if (k->root == KERNEL_MATMUL && t->strategy != STRATEGY_CPU)
		return "there is no generic kernel of products on this kind of device";
	return reasons[k->root];
}

static int add_bare(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;

	if (k->root == KERNEL_MATMUL)
		return add_product(g, d);
	if (k->root == KERNEL_ROWS && reduction_of(k).value == KERNEL_NONE)
		return add_row_maps(g, d);
	return add_reduction(g, d);
}

static int add_draft(struct generic *g, struct draft *d) {
	struct draft *half;
	int r;

	if (d->kernel.root == KERNEL_MAP)
		return add_map(g, d);
	half = calloc(2, sizeof *half);
	if (!half)
		return -ENOMEM;
	r = draft_split(g->p, d, &half[0], &half[1]);
	if (r == FAULT_BUILD) {
		r = add_bare(g, d);
	} else {
		for (unsigned i = 0; i < 2 && !r; i++)
			r = half[i].full ? -EOVERFLOW : add_draft(g, &half[i]);
	}
	free(half);
	return r;
}

static int add_step(struct generic *g) {
	const struct plan_step *s = g->step;
	struct draft *d;
	int r;

	if (s->kernel->root == KERNEL_MAP || plan_generic_reason(s->kernel, g->t))
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

int plan_generic(const struct plan *from, const struct traits *t, struct plan **planp) {
	struct plan *to = calloc(1, sizeof *to);
	struct generic g = { .p = to, .t = t };
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
	uint8_t accumulator, form;
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

int plan_generic_kernel(unsigned i, const struct traits *t, struct kernel *k) {
	static const int64_t rows[FORMS][3] = { { 1, 0, 1 }, { 1, 2, 2 } };
	static const int64_t product[FORMS][4] = { { 1, 2, 2, 2 }, { 2, 2, 2, 2 } };
	static const struct plan_operand factor[2] = { { .stride = { 4, 2, 0, 1 } }, { .stride = { 4, 0, 1, 2 } } };
	unsigned form = listed[i].form;
	struct draft *d;

	if (listed[i].accumulator == DTYPE_f64 && !t->f64)
		return FAULT_DEVICE;
	if (listed[i].op == OP_matmul && t->strategy != STRATEGY_CPU)
		return FAULT_DEVICE;
	d = malloc(sizeof *d);
	if (!d)
		return -ENOMEM;
	if (listed[i].op == OP_matmul) {
		draw_product(d, listed[i].accumulator, product[form], factor);
		store_product(d, (struct plan_operand){ 0 });
		finish_product(d, t);
	} else {
		draw_reduction(d, listed[i].op, listed[i].accumulator, rows[form]);
		store_reduction(d, (struct plan_operand){ 0 });
		draft_finish(d, t);
	}
	*k = d->kernel;
	free(d);
	return 0;
}

/*
 * Products and attentions by generic kernels: see generic.c.
 *
 * What the root reads is copied, by maps, until it lies row-major and is of the accumulator's type, over one batch dim; the kernel then
 * has no more to know than its sizes, which stand in the record. Who attends sees bools as they are.
 */
#include "generic_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Any extent that makes a product neither small nor of few rows or columns. */
	GENERIC_EXTENT = 1024,
	/* What an attention reads. */
	GENERIC_FACTORS = ATTENTION_MASK + 1,
};

/* Dims of the drawing at the ends of a factor's rows and columns: [batch][M][N][K]; [batch][M][N][S][D]. */
struct ends {
	uint8_t row, column;
};

static const struct ends product_ends[] = { { 1, 3 }, { 3, 2 } };
static const struct ends attention_ends[] = { [ATTENTION_Q] = { 1, 4 }, [ATTENTION_K] = { 3, 4 }, [ATTENTION_V] = { 3, 2 },
	[ATTENTION_MASK] = { 1, 3 } };

static struct ends ends_of(const struct kernel *k, unsigned i) {
	return k->root == KERNEL_ATTENTION ? attention_ends[i] : product_ends[i];
}

/* Dims of a batch, before those that the root names. */
static unsigned batch_dims(const struct kernel *k) {
	return k->rank - kernel_own_dims(k);
}

/* The type in which a factor is read: the accumulator's, but for a mask of bools. */
static uint8_t type_of(const struct kernel *k, unsigned i) {
	return k->operand[i].dtype == DTYPE_bool && k->root == KERNEL_ATTENTION ? DTYPE_bool : k->accumulator;
}

/* ---- drawings ---- */

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

/* [batch][M][N][S][D], of operands likewise. What is `like` it may have any order and types. */
static void draw_attention(struct draft *d, const struct kernel *like, uint32_t scale, const int64_t *dims, const struct plan_operand *factor) {
	struct kernel *k = &d->kernel;

	memset(d, 0, sizeof *d);
	k->root = KERNEL_ATTENTION;
	k->op = OP_attention;
	k->rank = 5;
	k->block_dim = 0xff;
	k->accumulator = like->accumulator;
	k->inputs = like->inputs;
	k->causal = like->causal;
	k->hidden = KERNEL_NONE;
	memcpy(d->dims, dims, 5 * sizeof *dims);
	d->extent = (uint64_t)dims[3];
	for (unsigned i = 0; i < k->inputs; i++)
		draft_operand(d, type_of(like, i), &factor[i]);
	k->reduced_value = draft_scalar(d, k->accumulator, scale);
	k->root_value = k->values;
	draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = k->accumulator });
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

/* ---- where factors lie ---- */

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
	generic_begin_map(&c, d, map);
	unpack_dims(d, many, panels, columns, map);
	from.offset += first * from.stride[m];
	from.stride[m + 1] = from.stride[m + 2];
	from.stride[m + 2] = 1;
	at.offset += first * (int64_t)kernel_columns(k);
	at.stride[m] = kernel_columns(k);
	at.stride[m + 1] = d->dims[m + 1];
	at.stride[m + 2] = 1;
	draft_store(map, draft_load(map, k->operand[1].dtype, &from), &at);
	r = generic_add_map(g, map);
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
	int64_t dims[3] = { many ? generic_product_of(d->dims, m) : 1, d->dims[m + 2], n };
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
	for (unsigned b = 0; b < batch_dims(&d->kernel); b++)
		if (d->dims[b] != 1 && d->operand[i].stride[b])
			return true;
	return false;
}

/* A factor as a map walks it: its batch where there are many matrices, rows and columns. */
static void factor_map(const struct draft *d, unsigned i, bool many, struct draft *map, struct plan_operand *from) {
	struct ends ends = ends_of(&d->kernel, i);
	unsigned m = batch_dims(&d->kernel), row = m + ends.row - 1u, column = m + ends.column - 1u;
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

/* Copies it to row-major memory at *at, in that type. */
static int copy_factor(struct generic *g, const struct draft *d, unsigned i, struct draft *map, struct plan_operand *at) {
	uint8_t type = d->kernel.operand[i].dtype, wanted = type_of(&d->kernel, i);
	uint16_t value = draft_load(map, type, at);
	int r = plan_add_temporary(g->p, wanted, map->dims, map->kernel.rank, at);

	if (r)
		return r;
	if (type != wanted)
		value = draft_op(map, OP_cast, wanted, 1, &value);
	draft_store(map, value, at);
	return generic_add_map(g, map);
}

/* Factor i, row-major and of that type, at *at: steps over the drawing's dims. */
static int lay_factor(struct generic *g, const struct draft *d, unsigned i, struct plan_operand *at) {
	const struct kernel *k = &d->kernel;
	struct ends ends = ends_of(k, i);
	unsigned m = batch_dims(k);
	int64_t rows = d->dims[m + ends.row - 1u], columns = d->dims[m + ends.column - 1u];
	bool many = has_many(d, i);
	struct draft *map = malloc(sizeof *map);
	int r = map ? 0 : -ENOMEM;

	*at = d->operand[i];
	if (!r && i && k->packed) {
		r = unpack(g, d, many, at);
		at->stride[m + ends.row - 1u] = columns;
		at->stride[m + ends.column - 1u] = 1;
	}
	if (!r) {
		factor_map(d, i, many, map, at);
		if (k->operand[i].dtype != type_of(k, i) || !generic_lies_row_major(map->dims, at->stride, map->kernel.rank))
			r = copy_factor(g, d, i, map, at);
	}
	memset(at->stride, 0, sizeof at->stride);
	at->stride[0] = many ? rows * columns : 0;
	at->stride[ends.row] = columns;
	at->stride[ends.column] = 1;
	free(map);
	return r;
}

/* The kernel itself, from its factors to *to. */
static void draw(const struct draft *d, const struct traits *t, const struct plan_operand *factor, struct plan_operand to, struct draft *one) {
	const struct kernel *k = &d->kernel;
	unsigned m = batch_dims(k);
	int64_t dims[5] = { generic_product_of(d->dims, m) };

	memcpy(&dims[1], &d->dims[m], (k->root == KERNEL_ATTENTION ? 4 : 3) * sizeof *dims);
	if (k->root == KERNEL_ATTENTION)
		draw_attention(one, k, d->scalar[k->value[k->reduced_value].index], dims, factor);
	else
		draw_product(one, k->accumulator, dims, factor);
	store_product(one, to);
	if (k->root == KERNEL_ATTENTION)
		draft_finish(one, t);
	else
		finish_product(one, t);
}

int generic_add_product(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	unsigned inputs = kernel_root_operands(k), rank = batch_dims(k) + 2;
	struct plan_operand factor[GENERIC_FACTORS], to = { 0 };
	uint16_t direct;
	struct draft *one = malloc(sizeof *one);
	int r = one ? 0 : -ENOMEM;

	for (unsigned i = 0; i < inputs && !r; i++)
		r = lay_factor(g, d, i, &factor[i]);
	if (!r)
		r = generic_lay_result(g, d, k->root_value, rank, &direct, &to);
	if (!r) {
		draw(d, g->t, factor, to, one);
		r = plan_add_step(g->p, one, g->step->op, 0);
	}
	free(one);
	return r ? r : generic_add_copies(g, d, k->root_value, &to, direct);
}

bool generic_attends(const struct kernel *k) {
	return k->hidden == KERNEL_NONE && k->value[k->reduced_value].kind == KERNEL_SCALAR;
}

/* ---- the list ---- */

void generic_draw_product(uint8_t accumulator, bool batch, const struct traits *t, struct draft *d) {
	static const struct plan_operand factor[2] = { { .stride = { 4, 2, 0, 1 } }, { .stride = { 4, 0, 1, 2 } } };
	const int64_t dims[4] = { batch ? 2 : 1, 2, 2, 2 };

	draw_product(d, accumulator, dims, factor);
	store_product(d, (struct plan_operand){ 0 });
	finish_product(d, t);
}

/* Of one query, key and place: the text is that of any number. */
void generic_draw_attention(uint8_t accumulator, enum generic_attention form, const struct traits *t, struct draft *d) {
	static const struct plan_operand factor[] = { [ATTENTION_Q] = { .stride = { 1, 1, 0, 0, 1 } },
		[ATTENTION_K] = { .stride = { 1, 0, 0, 1, 1 } }, [ATTENTION_V] = { .stride = { 1, 0, 1, 1, 0 } },
		[ATTENTION_MASK] = { .stride = { 1, 1, 0, 1, 0 } } };
	static const int64_t dims[5] = { 1, 1, 1, 1, 1 };
	struct kernel like = { .root = KERNEL_ATTENTION, .accumulator = accumulator };

	like.inputs = form == GENERIC_ATTENTION_MASKED ? ATTENTION_MASK + 1 : ATTENTION_MASK;
	like.causal = form == GENERIC_ATTENTION_CAUSAL;
	for (unsigned i = 0; i < like.inputs; i++)
		like.operand[i].dtype = i == ATTENTION_MASK ? DTYPE_bool : accumulator;
	draw_attention(d, &like, 0, dims, factor);
	store_product(d, (struct plan_operand){ 0 });
	draft_finish(d, t);
}

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
	/* Places of a key that kernels of instructions on matrices are for, at most: of most models; else all there may be. */
	GENERIC_PLACES = 64,
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

/* The type that a kernel of the list multiplies. Most integers are narrow. */
static uint8_t multiplied_as(const struct kernel *k) {
	bool narrow = dtype_info(k->accumulator)->kind != DTYPE_KIND_REAL && dtype_info(k->accumulator)->bytes <= 4;

	return narrow ? DTYPE_i32 : generic_wrapped_as(k->accumulator);
}

/* The type in which a factor is read: the kernel's, but for a mask of bools, and for what instructions on matrices read. */
static uint8_t type_of(const struct draft *d, unsigned i, const struct traits *t) {
	const struct kernel *k = &d->kernel;
	uint8_t type = k->operand[i].dtype;

	if (k->root == KERNEL_MATMUL)
		return kernel_multiplies_matrices(k, t) ? type : multiplied_as(k);
	if (i == ATTENTION_MASK)
		return type == DTYPE_bool ? DTYPE_bool : k->accumulator;
	return kernel_attends_matrices(k, t, d->dims[k->rank - 1u]) ? type : k->accumulator;
}

/* ---- drawings ---- */

/* [batch][M][N][K], of row-major operands; a factor's batch step is 0 where all use the same one. */
static void draw_product(struct draft *d, uint8_t accumulator, uint8_t type, const int64_t *dims, const struct plan_operand *factor) {
	struct kernel *k = &d->kernel;

	memset(d, 0, sizeof *d);
	k->root = KERNEL_MATMUL;
	k->op = OP_matmul;
	k->rank = 4;
	k->block_dim = 0xff;
	k->accumulator = accumulator;
	memcpy(d->dims, dims, 4 * sizeof *dims);
	d->extent = (uint64_t)dims[3];
	draft_operand(d, type, &factor[0]);
	draft_operand(d, type, &factor[1]);
	k->root_value = draft_value(d, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = accumulator });
}

/* [batch][M][N][S][D], of operands likewise, of those types. What is `like` it may have any order and types. */
static void draw_attention(struct draft *d, const struct kernel *like, const uint8_t *type, uint32_t scale, const int64_t *dims,
	const struct plan_operand *factor) {
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
		draft_operand(d, type[i], &factor[i]);
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
	for (unsigned i = 0; i < d->kernel.rank; i++)
		d->dims[i] = i + 3u < d->kernel.rank ? 1 : GENERIC_EXTENT;
	draft_finish(d, t);
	memcpy(d->dims, dims, sizeof dims);
}

/* Likewise: with as many queries as a group has at most, and as few columns. Only those of matrices know of places. */
static void finish_attention(struct draft *d, const struct traits *t) {
	int64_t dims[5], places = d->dims[4] <= GENERIC_PLACES ? GENERIC_PLACES : 16 * KERNEL_ATTENTION_STEPS;

	memcpy(dims, d->dims, sizeof dims);
	d->dims[0] = d->dims[1] = GENERIC_EXTENT;
	d->dims[2] = KERNEL_ATTENTION_BLOCK;
	if (kernel_attends_matrices(&d->kernel, t, d->dims[4]))
		d->dims[4] = places;
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

	generic_new_map(map, rank + 2u);
	memcpy(map->dims, d->dims, rank * sizeof *map->dims);
	map->dims[rank] = d->dims[row];
	map->dims[rank + 1] = d->dims[column];
	memcpy(&from->stride[rank], steps, sizeof steps);
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
		r = generic_lay_map(g, map, k->operand[i].dtype, type_of(d, i, g->t), at);
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
	uint8_t type[GENERIC_FACTORS] = { 0 };

	for (unsigned i = 0; i < kernel_root_operands(k); i++)
		type[i] = type_of(d, i, t);
	memcpy(&dims[1], &d->dims[m], (k->root == KERNEL_ATTENTION ? 4 : 3) * sizeof *dims);
	if (k->root == KERNEL_ATTENTION)
		draw_attention(one, k, type, d->scalar[k->value[k->reduced_value].index], dims, factor);
	else
		draw_product(one, multiplied_as(k), type[0], dims, factor);
	store_product(one, to);
	if (k->root == KERNEL_ATTENTION)
		finish_attention(one, t);
	else
		finish_product(one, t);
}

int generic_add_product(struct generic *g, const struct draft *d) {
	const struct kernel *k = &d->kernel;
	unsigned inputs = kernel_root_operands(k), rank = batch_dims(k) + 2;
	int64_t elements = generic_product_of(d->dims, rank);
	struct plan_operand factor[GENERIC_FACTORS], to = { 0 }, wide;
	uint16_t direct = KERNEL_NONE;
	struct draft *one = malloc(sizeof *one);
	int r = one ? 0 : -ENOMEM;

	for (unsigned i = 0; i < inputs && !r; i++)
		r = lay_factor(g, d, i, &factor[i]);
	if (!r)
		r = generic_lay_result(g, d, k->root_value, rank, &direct, &to);
	if (!r)
		r = generic_begin_wide(g, elements, k->accumulator, multiplied_as(k), to, &wide);
	if (!r) {
		draw(d, g->t, factor, wide, one);
		r = plan_add_step(g->p, one, g->step->op, 0);
	}
	free(one);
	if (!r)
		r = generic_end_wide(g, elements, k->accumulator, multiplied_as(k), wide, to);
	return r ? r : generic_add_copies(g, d, k->root_value, &to, direct);
}

bool generic_attends(const struct kernel *k) {
	return k->hidden == KERNEL_NONE && k->value[k->reduced_value].kind == KERNEL_SCALAR;
}

/* ---- the list ---- */

void generic_draw_product(uint8_t type, bool batch, const struct traits *t, struct draft *d) {
	static const struct plan_operand factor[2] = { { .stride = { 4, 2, 0, 1 } }, { .stride = { 4, 0, 1, 2 } } };
	const int64_t dims[4] = { batch ? 2 : 1, 2, 2, 2 };

	draw_product(d, dtype_info(type)->reg, type, dims, factor);
	store_product(d, (struct plan_operand){ 0 });
	finish_product(d, t);
}

/* Of one query and key, and as few or as many places as that kernel is for: the text is that of any number. */
void generic_draw_attention(uint8_t type, unsigned form, const struct traits *t, struct draft *d) {
	int64_t places = form & GENERIC_ATTENTION_DEEP ? GENERIC_PLACES + 1 : 1;
	const struct plan_operand factor[] = { [ATTENTION_Q] = { .stride = { places, places, 0, 0, 1 } },
		[ATTENTION_K] = { .stride = { places, 0, 0, places, 1 } }, [ATTENTION_V] = { .stride = { 1, 0, 1, 1, 0 } },
		[ATTENTION_MASK] = { .stride = { 1, 1, 0, 1, 0 } } };
	const uint8_t types[] = { [ATTENTION_Q] = type, [ATTENTION_K] = type, [ATTENTION_V] = type, [ATTENTION_MASK] = DTYPE_bool };
	const int64_t dims[5] = { 1, 1, 1, 1, places };
	struct kernel like = { .root = KERNEL_ATTENTION, .accumulator = dtype_info(type)->reg };

	like.inputs = form & GENERIC_ATTENTION_MASKED ? ATTENTION_MASK + 1 : ATTENTION_MASK;
	like.causal = form & GENERIC_ATTENTION_CAUSAL;
	draw_attention(d, &like, types, 0, dims, factor);
	store_product(d, (struct plan_operand){ 0 });
	finish_attention(d, t);
}

/*
 * Matrix products, GPU strategy: every output is the sum over k, in order, in the accumulator's type.
 *
 * A unit is a tile of the result, and a group computes it. It copies a few k of both factors to local memory, where
 * the first factor lies turned so that an item reads rows as it reads columns, in whole vectors. While it multiplies, what
 * follows of the factors is on its way into registers. Each item keeps its outputs in registers over all of K.
 *
 * Factors may lie in any way. Where vectors of one lie whole in memory, along K or across, they are read so;
 * elsewhere element by element. What lies outside the matrix is not read, and what an item computes from it
 * is not stored; the loop over K ends where K does, since even a product of zeros may change the sign of a zero.
 *
 * Tiles are taken in bands of GROUP_BAND rows of tiles, so that groups that run at the same time read the same
 * parts of the factors. Which tile is taken (plan/layout.c) changes no bit.
 */
#include "matmul_group.h"

#include <stdio.h>

enum {
	GROUP_BAND = 8,
	/* Items of a block, each way. */
	BLOCK_ROWS = 4,
	BLOCK_COLUMNS = 8,
	LANES = 4,
};

_Static_assert(BLOCK_ROWS * BLOCK_COLUMNS == KERNEL_TILE_BLOCK, "items of a block");

/* ---- what both kinds of tiles share ---- */

const struct kernel_tile_info *factor_tile(const struct writer *w) {
	return &kernel_tiles[w->k->tile];
}

struct factor factor_of(const struct writer *w, unsigned o) {
	const struct kernel *k = w->k;
	bool contiguous = k->operand[o].access == KERNEL_CONTIGUOUS;

	return (struct factor){ .o = o, .name = o ? 'b' : 'a', .deep = o ? !contiguous : contiguous,
		.across = o ? factor_tile(w)->columns : factor_tile(w)->rows,
		.lanes = kernel_tile_is_matrix(k->tile) ? 8 : LANES };
}

/* Vectors of a tile that lie side by side as the factor does. */
static unsigned vectors_along(const struct writer *w, const struct factor *f) {
	return (f->deep ? factor_tile(w)->depth : f->across) / f->lanes;
}

/* Every tile has as many for each item. */
unsigned factor_copies(const struct writer *w, const struct factor *f) {
	return f->across * factor_tile(w)->depth / f->lanes / kernel_tile_items(w->k->tile);
}

/* Across K (deep), or along it, from one vector of an item to its next. */
static unsigned vectors_apart(const struct writer *w, const struct factor *f) {
	return kernel_tile_items(w->k->tile) / vectors_along(w, f);
}

void factor_open_vectors(struct writer *w, const struct factor *f) {
	unsigned along = vectors_along(w, f), apart = vectors_apart(w, f);

	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", factor_copies(w, f));
	text_line(w, "const int %c = item / %u + i * %u, %c = item %% %u * %u;", f->deep ? 'x' : 'k', along, apart,
		f->deep ? 'k' : 'x', along, f->lanes);
}

void factor_open_fetch(struct writer *w, const struct factor *f) {
	unsigned bytes = dtype_info(w->k->operand[f->o].dtype)->bytes, apart = vectors_apart(w, f);

	factor_open_vectors(w, f);
	text_line(w, "global const uchar *const p = from + i * (%u * %s);", bytes * apart, f->deep ? "across" : "down");
	text_line(w, "const int n = i * %u < %s ? clamp(%s, 0, %u) : 0;", apart, f->deep ? "left" : "deep",
		f->deep ? "deep" : "left", f->lanes);
}

void factor_unit(struct writer *w) {
	const struct kernel *k = w->k;
	const struct kernel_tile_info *tile = factor_tile(w);

	text_line(w, "ulong rest = get_group_id(0);");
	text_line(w, "const ulong over = (d%u + %u) / %u;", matmul_dim_n(k), tile->columns - 1u, tile->columns);
	text_line(w, "const ulong down = (d%u + %u) / %u;", matmul_dim_m(k), tile->rows - 1u, tile->rows);
	text_line(w, "ulong band = take(&rest, down * over), at = take(&band, %u * over);", GROUP_BAND);
	text_line(w, "const long m0 = (band * %u + take(&at, min(down - band * %u, %uul))) * %u;", GROUP_BAND, GROUP_BAND,
		GROUP_BAND, tile->rows);
	text_line(w, "const long n0 = at * %u;", tile->columns);
	frame_indices(w, 0, k->rank - 3u);
}

/* The stride of a factor across K or along it, which has no name where it is known. */
static const char *stride_of(const struct writer *w, const struct factor *f, bool along, char name[static 16]) {
	const struct kernel *k = w->k;
	unsigned d = along ? matmul_dim_k(k) : f->o ? matmul_dim_n(k) : matmul_dim_m(k);

	if (f->o && !along && k->operand[f->o].access != KERNEL_STRIDED)
		return k->operand[f->o].access == KERNEL_CONTIGUOUS ? "1l" : "0l";
	snprintf(name, 16, "s%u_%u", f->o, d);
	return name;
}

void factor_declare(struct writer *w, const struct factor *f) {
	const struct kernel *k = w->k;
	unsigned bytes = dtype_info(k->operand[f->o].dtype)->bytes, along = vectors_along(w, f);
	char name[16];

	matmul_place(w, f->o, "start", f->o ? NULL : "m0", f->o ? "n0" : NULL, NULL);
	text_line(w, "const int %s%u = item / %u, %s%u = item %% %u * %u;", f->deep ? "side" : "foot", f->o, along,
		f->deep ? "foot" : "side", f->o, along, f->lanes);
	text_line(w, "const long across%u = %s;", f->o, stride_of(w, f, false, name));
	text_line(w, "const long down%u = %s;", f->o, stride_of(w, f, true, name));
	text_line(w, "global const uchar *from%u = start%u + %u * (side%u * across%u + foot%u * down%u);", f->o, f->o, bytes, f->o,
		f->o, f->o, f->o);
	text_line(w, "const int left%u = min(d%u - %s, (long)%u) - side%u;", f->o, f->o ? matmul_dim_n(k) : matmul_dim_m(k),
		f->o ? "n0" : "m0", f->across, f->o);
	text_line(w, "const int whole%u = %s%u == 1 && %s%u %% %u == 0 && ((ulong)start%u & %u) == 0;", f->o,
		f->deep ? "down" : "across", f->o, f->deep ? "across" : "down", f->o, f->lanes, f->o, f->lanes * bytes - 1);
}

void factor_zero(struct writer *w, unsigned rows, unsigned vectors) {
	const char *type = value_register(w->k->accumulator);

	text_line(w, "%s c[%u][%u];", type, rows, vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", rows * vectors);
	text_line(w, "\tc[e / %u][e %% %u] = (%s)(0);", vectors, vectors, type);
}

/* ---- tiles by fma ---- */

/* Rows of an item, and its vectors side by side. */
static unsigned item_rows(const struct writer *w) {
	return factor_tile(w)->block_rows / BLOCK_ROWS;
}

static unsigned item_vectors(const struct writer *w) {
	return factor_tile(w)->block_columns / (BLOCK_COLUMNS * LANES);
}

/* Vectors from one k to the next in local memory; one is left free, so that neighbours along K are in other banks. */
static unsigned pitch_of(const struct factor *f) {
	return f->across / LANES + 1;
}

/*
 * "fetch": the item's vectors of a tile, the first of which begins at `from`; from there on `left` elements across and
 * `deep` along K are in the matrix; `whole` says whether vectors lie whole and aligned.
 */
static void define_fetch(struct writer *w, const struct factor *f) {
	const struct kernel *k = w->k;
	const char *type = dtype_info(k->operand[f->o].dtype)->name, *to = dtype_info(k->accumulator)->name;
	unsigned bytes = dtype_info(k->operand[f->o].dtype)->bytes;

	text_line(w, "static inline void fetch_%c(%s *held, global const uchar *from, int item, int left, int deep,", f->name,
		value_register(k->accumulator));
	text_open(w, "\tlong across, long down, int whole)");
	factor_open_fetch(w, f);
	text_line(w, "if (whole && n == W)");
	text_line(w, "\theld[i] = to_%s(aligned_%s(p));", to, type);
	text_open(w, "else");
	for (unsigned lane = 0; lane < LANES; lane++) {
		text_line(w, "if (n > %u)", lane);
		text_line(w, "\theld[i].s%u = to_%s(uniform_%s(p + %u * %s)).s%u;", lane, to, type, lane * bytes,
			f->deep ? "down" : "across", lane);
	}
	text_close(w);
	text_close(w);
	text_close(w);
}

/* "put": them into local memory. */
static void define_put(struct writer *w, const struct factor *f) {
	text_open(w, "static inline void put_%c(local %s *tile, const %s *held, int item)", f->name,
		value_register(w->k->accumulator), value_register(w->k->accumulator));
	factor_open_vectors(w, f);
	if (f->deep) {
		text_line(w, "local %s *const at = (local %s *)(tile + k * %u) + x;", value_lane(w->k->accumulator),
			value_lane(w->k->accumulator), pitch_of(f));
		for (unsigned lane = 0; lane < LANES; lane++)
			text_line(w, "at[%u] = held[i].s%u;", lane * pitch_of(f) * LANES, lane);
	} else {
		text_line(w, "tile[k * %u + x / W] = held[i];", pitch_of(f));
	}
	text_close(w);
	text_close(w);
}

/* "multiply": one k; a and b are where the item's vectors of it begin. */
static void define_multiply(struct writer *w) {
	const char *type = value_register(w->k->accumulator);
	char left[24], c[16];

	text_open(w, "static inline void multiply(%s (*c)[%u], local const %s *a, local const %s *b)", type, item_vectors(w),
		type, type);
	for (unsigned i = 0; i < item_rows(w) / LANES; i++)
		text_line(w, "const %s a%u = a[%u];", type, i, i * BLOCK_ROWS);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", item_vectors(w));
	text_line(w, "const %s right = b[v * %u];", type, BLOCK_COLUMNS);
	for (unsigned i = 0; i < item_rows(w); i++) {
		snprintf(left, sizeof left, "(%s)a%u.s%u", type, i / LANES, i % LANES);
		snprintf(c, sizeof c, "c[%u][v]", i);
		value_add_product(w, c, left, "right");
	}
	text_close(w);
	text_close(w);
}

/* Sends the pieces that begin at `at` of K on their way; what is beyond K is none. */
static void write_fetch(struct writer *w, const struct factor *f, const char *at) {
	for (unsigned o = 0; o < 2; o++)
		text_line(w, "fetch_%c(held%u, from%u, item, left%u, min(d%u - (%s), depth) - foot%u, across%u, down%u, whole%u);",
			f[o].name, o, o, o, matmul_dim_k(w->k), at, o, o, o, o);
}

static void write_put(struct writer *w, const struct factor *f) {
	for (unsigned o = 0; o < 2; o++)
		text_line(w, "put_%c(tile_%c, held%u, item);", f[o].name, f[o].name, o);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

/* Pieces of a whole depth in one loop; what is left of K is a piece of its own, so that it costs the loop no registers. */
static void write_pieces(struct writer *w, const struct factor *f) {
	unsigned depth = factor_tile(w)->depth, k = matmul_dim_k(w->k);

	text_line(w, "long k0 = 0;");
	text_line(w, "#pragma unroll 1");
	text_open(w, "for (; d%u - k0 >= %u; k0 += %u)", k, depth, depth);
	write_put(w, f);
	for (unsigned o = 0; o < 2; o++)
		text_line(w, "from%u += %u * down%u;", o, depth * dtype_info(w->k->operand[o].dtype)->bytes, o);
	write_fetch(w, f, "k0 + depth");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int k = 0; k < %u; k++)", depth);
	text_line(w, "\tmultiply(c, tile_a + k * %u + y, tile_b + k * %u + x);", pitch_of(&f[0]), pitch_of(&f[1]));
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
	text_open(w, "if (k0 < d%u)", k);
	write_put(w, f);
	text_line(w, "#pragma unroll 1");
	text_line(w, "for (int k = 0; k < d%u - k0; k++)", k);
	text_line(w, "\tmultiply(c, tile_a + k * %u + y, tile_b + k * %u + x);", pitch_of(&f[0]), pitch_of(&f[1]));
	text_close(w);
}

/* The sums of a tile: c of row i and vector v of the item. */
static void write_sums(struct writer *w) {
	const struct factor f[] = { factor_of(w, 0), factor_of(w, 1) };

	factor_zero(w, item_rows(w), item_vectors(w));
	for (unsigned o = 0; o < 2; o++) {
		factor_declare(w, &f[o]);
		text_line(w, "%s held%u[%u];", value_register(w->k->accumulator), o, factor_copies(w, &f[o]));
	}
	text_line(w, "const long depth = %u;", factor_tile(w)->depth);
	write_fetch(w, f, "0");
	write_pieces(w, f);
}

static void write_fma_groups(struct writer *w) {
	const struct factor a = factor_of(w, 0), b = factor_of(w, 1);
	const struct kernel_tile_info *tile = factor_tile(w);
	const char *type = value_register(w->k->accumulator);
	unsigned wide = tile->columns / tile->block_columns;
	char row[48];

	text_line(w, "local %s tile_a[%u], tile_b[%u];", type, tile->depth * pitch_of(&a), tile->depth * pitch_of(&b));
	text_line(w, "const int item = get_local_id(0), block = item / %u;", KERNEL_TILE_BLOCK);
	text_line(w, "const int x = block %% %u * %u + item %% %u;", wide, tile->block_columns / LANES, BLOCK_COLUMNS);
	text_line(w, "const int y = block / %u * %u + item %% %u / %u;", wide, tile->block_rows / LANES, KERNEL_TILE_BLOCK,
		BLOCK_COLUMNS);
	factor_unit(w);
	write_sums(w);
	text_line(w, "const long column = n0 + x * W;");
	snprintf(row, sizeof row, "m0 + (y + i / W * %d) * W + i %% W", BLOCK_ROWS);
	sums_outputs(w, &(struct sums){ .dim = matmul_dim_m(w->k), .rows = item_rows(w), .row = row, .vectors = item_vectors(w),
		.apart = LANES * BLOCK_COLUMNS, .value = "c[i][v]" });
}

/* ---- all ---- */

void matmul_group_functions(struct writer *w) {
	if (kernel_tile_is_matrix(w->k->tile)) {
		matrix_functions(w);
		return;
	}
	for (unsigned o = 0; o < 2; o++) {
		struct factor f = factor_of(w, o);

		define_fetch(w, &f);
		define_put(w, &f);
	}
	define_multiply(w);
	text_blank(w);
}

void matmul_groups(struct writer *w) {
	if (kernel_tile_is_matrix(w->k->tile))
		matrix_groups(w);
	else
		write_fma_groups(w);
}

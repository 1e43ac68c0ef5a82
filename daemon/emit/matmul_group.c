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
#include "writer.h"

#include <stdio.h>

enum {
	/* Items that share what they read lie in blocks of so many rows and columns. */
	BLOCK_ROWS = 4,
	BLOCK_COLUMNS = 8,
	GROUP_BAND = 8,
};

/* A factor: its extent across K is that of rows (0) or columns (1) of the result. */
struct factor {
	unsigned o;
	char name;                   /* of variables: a, b */
	unsigned across;             /* elements of a tile */
	bool deep;                   /* vectors lie along K, else across it */
};

static const struct kernel_tile_info *tile_of(const struct writer *w) {
	return &kernel_tiles[w->k->tile];
}

static struct factor factor_of(const struct writer *w, unsigned o) {
	const struct kernel *k = w->k;
	bool contiguous = k->operand[o].access == KERNEL_CONTIGUOUS;

	return (struct factor){ .o = o, .name = o ? 'b' : 'a', .deep = o ? !contiguous : contiguous,
		.across = o ? tile_of(w)->columns : tile_of(w)->rows };
}

/* Vectors of a factor's tile, and how many of them an item copies. */
static unsigned vectors_of(const struct writer *w, const struct factor *f) {
	return f->across * tile_of(w)->depth / KERNEL_TILE_LANES;
}

static unsigned copies_of(const struct writer *w, const struct factor *f) {
	return (vectors_of(w, f) + tile_of(w)->items - 1) / tile_of(w)->items;
}

/* Vectors from one k to the next in local memory; one is left free, so that neighbours along K are in other banks. */
static unsigned pitch_of(const struct factor *f) {
	return f->across / KERNEL_TILE_LANES + 1;
}

/* ---- functions ---- */

/* "for each vector e of the item: x across, k along K". */
static void open_vectors(struct writer *w, const struct factor *f) {
	unsigned along = (f->deep ? tile_of(w)->depth : f->across) / KERNEL_TILE_LANES;

	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", copies_of(w, f));
	text_line(w, "const int e = item + i * %u;", tile_of(w)->items);
	if (vectors_of(w, f) % tile_of(w)->items) {
		text_line(w, "if (e >= %u)", vectors_of(w, f));
		text_line(w, "\tcontinue;");
	}
	text_line(w, "const int %c = e / %u, %c = e %% %u * W;", f->deep ? 'x' : 'k', along, f->deep ? 'k' : 'x', along);
}

/*
 * "fetch": the item's vectors of a tile that begins at `from`, of which `left` elements across and `deep` along K are in
 * the matrix; `whole` says whether vectors lie whole and aligned.
 */
static void define_fetch(struct writer *w, const struct factor *f) {
	const struct kernel *k = w->k;
	const char *type = dtype_info(k->operand[f->o].dtype)->name, *to = dtype_info(k->accumulator)->name;
	unsigned bytes = dtype_info(k->operand[f->o].dtype)->bytes;

	text_line(w, "static inline void fetch_%c(%s *held, global const uchar *from, int item, int left, int deep,", f->name,
		value_register(k->accumulator));
	text_open(w, "\tlong across, long down, int whole)");
	open_vectors(w, f);
	text_line(w, "const int n = %s;", f->deep ? "x < left ? min(deep - k, W) : 0" : "k < deep ? min(left - x, W) : 0");
	text_line(w, "global const uchar *const p = from + %u * (x * across + k * down);", bytes);
	text_line(w, "if (whole && n == W)");
	text_line(w, "\theld[i] = to_%s(aligned_%s(p));", to, type);
	text_line(w, "else if (n > 0)");
	text_line(w, "\theld[i] = to_%s(gather_%s(p, %s, n));", to, type, f->deep ? "down" : "across");
	text_close(w);
	text_close(w);
}

/* "put": them into local memory. */
static void define_put(struct writer *w, const struct factor *f) {
	text_open(w, "static inline void put_%c(local %s *tile, const %s *held, int item)", f->name,
		value_register(w->k->accumulator), value_register(w->k->accumulator));
	open_vectors(w, f);
	if (f->deep) {
		text_line(w, "local %s *const at = (local %s *)(tile + k * %u) + x;", value_lane(w->k->accumulator),
			value_lane(w->k->accumulator), pitch_of(f));
		for (unsigned lane = 0; lane < KERNEL_TILE_LANES; lane++)
			text_line(w, "at[%u] = held[i].s%u;", lane * pitch_of(f) * KERNEL_TILE_LANES, lane);
	} else {
		text_line(w, "tile[k * %u + x / W] = held[i];", pitch_of(f));
	}
	text_close(w);
	text_close(w);
}

/* "multiply": one k; a and b are where the item's vectors of it begin. */
static void define_multiply(struct writer *w) {
	const struct kernel_tile_info *tile = tile_of(w);
	const char *type = value_register(w->k->accumulator);

	text_open(w, "static inline void multiply(%s (*c)[%u], local const %s *a, local const %s *b)", type, tile->item_vectors,
		type, type);
	for (unsigned i = 0; i < tile->item_rows / KERNEL_TILE_LANES; i++)
		text_line(w, "const %s a%u = a[%u];", type, i, i * BLOCK_ROWS);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", tile->item_vectors);
	text_line(w, "const %s right = b[v * %u];", type, BLOCK_COLUMNS);
	for (unsigned i = 0; i < tile->item_rows; i++) {
		char left[24], c[16];

		snprintf(left, sizeof left, "(%s)a%u.s%u", type, i / KERNEL_TILE_LANES, i % KERNEL_TILE_LANES);
		snprintf(c, sizeof c, "c[%u][v]", i);
		text_begin(w);
		text_part(w, "%s = ", c);
		value_multiply_add(w, left, "right", c);
		text_part(w, ";");
		text_end(w);
	}
	text_close(w);
	text_close(w);
}

void matmul_group_functions(struct writer *w) {
	for (unsigned o = 0; o < 2; o++) {
		struct factor f = factor_of(w, o);

		define_fetch(w, &f);
		define_put(w, &f);
	}
	define_multiply(w);
	text_blank(w);
}

/* ---- the kernel ---- */

/* Where the unit's tile of the result begins: batch indices, m0, n0. */
static void write_unit(struct writer *w) {
	const struct kernel *k = w->k;
	const struct kernel_tile_info *tile = tile_of(w);

	text_line(w, "ulong rest = unit;");
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

/* Declares fromN, leftN, acrossN, downN and wholeN of a factor. */
static void declare_factor(struct writer *w, const struct factor *f) {
	const struct kernel *k = w->k;
	unsigned bytes = dtype_info(k->operand[f->o].dtype)->bytes;
	char name[16];

	matmul_place(w, f->o, "start", f->o ? NULL : "m0", f->o ? "n0" : NULL, NULL);
	text_line(w, "global const uchar *from%u = start%u;", f->o, f->o);
	text_line(w, "const int left%u = min(d%u - %s, (long)%u);", f->o, f->o ? matmul_dim_n(k) : matmul_dim_m(k),
		f->o ? "n0" : "m0", f->across);
	text_line(w, "const long across%u = %s;", f->o, stride_of(w, f, false, name));
	text_line(w, "const long down%u = %s;", f->o, stride_of(w, f, true, name));
	text_line(w, "const int whole%u = %s%u == 1 && %s%u %% W == 0 && ((ulong)from%u & %u) == 0;", f->o,
		f->deep ? "down" : "across", f->o, f->deep ? "across" : "down", f->o, f->o, KERNEL_TILE_LANES * bytes - 1);
	text_line(w, "%s held%u[%u];", value_register(k->accumulator), f->o, copies_of(w, f));
}

static void write_fetch(struct writer *w, const struct factor *f, const char *depth) {
	text_line(w, "fetch_%c(held%u, from%u, item, left%u, %s, across%u, down%u, whole%u);", f->name, f->o, f->o, f->o, depth,
		f->o, f->o, f->o);
}

static void write_steps(struct writer *w, const struct factor *a, const struct factor *b) {
	unsigned depth = tile_of(w)->depth;

	text_open(w, "if (depth == %u)", depth);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int k = 0; k < %u; k++)", depth);
	text_line(w, "\tmultiply(c, tile_a + k * %u + y, tile_b + k * %u + x);", pitch_of(a), pitch_of(b));
	text_close(w);
	text_open(w, "else");
	text_line(w, "for (int k = 0; k < depth; k++)");
	text_line(w, "\tmultiply(c, tile_a + k * %u + y, tile_b + k * %u + x);", pitch_of(a), pitch_of(b));
	text_close(w);
}

/* The sums of a tile: c of row i and vector v of the item. */
static void write_sums(struct writer *w) {
	const struct factor f[] = { factor_of(w, 0), factor_of(w, 1) };
	const struct kernel_tile_info *tile = tile_of(w);
	const char *type = value_register(w->k->accumulator);

	text_line(w, "%s c[%u][%u];", type, tile->item_rows, tile->item_vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", tile->item_rows * tile->item_vectors);
	text_line(w, "\tc[e / %u][e %% %u] = (%s)(0);", tile->item_vectors, tile->item_vectors, type);
	for (unsigned o = 0; o < 2; o++)
		declare_factor(w, &f[o]);
	text_line(w, "int depth = min(d%u, (long)%u);", matmul_dim_k(w->k), tile->depth);
	for (unsigned o = 0; o < 2; o++)
		write_fetch(w, &f[o], "depth");
	text_open(w, "for (long k0 = 0; k0 < d%u; k0 += %u)", matmul_dim_k(w->k), tile->depth);
	text_line(w, "const int next = min(d%u - k0 - %u, (long)%u);", matmul_dim_k(w->k), tile->depth, tile->depth);
	for (unsigned o = 0; o < 2; o++)
		text_line(w, "put_%c(tile_%c, held%u, item);", f[o].name, f[o].name, o);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	for (unsigned o = 0; o < 2; o++)
		text_line(w, "from%u += %u * down%u;", o, tile->depth * dtype_info(w->k->operand[o].dtype)->bytes, o);
	for (unsigned o = 0; o < 2; o++)
		write_fetch(w, &f[o], "next");
	write_steps(w, &f[0], &f[1]);
	text_line(w, "depth = next;");
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
}

/* What follows the root, of one vector of the result; operands lie whole, or are reached lane by lane. */
static void write_vector(struct writer *w, struct scope *s, bool aligned) {
	s->aligned = aligned;
	value_write(w, s, LEVEL_ELEMENT);
	value_store(w, s);
	value_forget(w, s, LEVEL_ELEMENT);
}

/* What follows the root, from row to row; columns of vector v are v * W * BLOCK_COLUMNS beyond the first. */
static void write_outputs(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "q", .lane = "l", .count = "n", .hoist = true };
	struct frame_names index = frame_names(w->k->rank - 3u);
	const struct kernel_tile_info *tile = tile_of(w);

	index.name[matmul_dim_m(w->k)] = "row";
	index.name[matmul_dim_n(w->k)] = "column";
	text_line(w, "const long column = n0 + x * W;");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", tile->item_rows);
	text_line(w, "const long row = m0 + (y + i / W * %u) * W + i %% W;", BLOCK_ROWS);
	text_line(w, "if (row >= d%u)", matmul_dim_m(w->k));
	text_line(w, "\tcontinue;");
	operand_place(w, &w->outer, "q", index.name);
	operand_whole(w, &w->outer, "q");
	value_write(w, &s, LEVEL_UNIT);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", tile->item_vectors);
	text_line(w, "const int l = v * (W * %u), n = min(d%u - column - l, (long)W);", BLOCK_COLUMNS, matmul_dim_n(w->k));
	text_line(w, "if (n <= 0)");
	text_line(w, "\tcontinue;");
	value_root(w, "c[i][v]");
	text_open(w, "if (aligned && n == W)");
	write_vector(w, &s, true);
	text_close(w);
	text_open(w, "else");
	write_vector(w, &s, false);
	text_close(w);
	text_close(w);
	text_close(w);
}

void matmul_groups(struct writer *w) {
	const struct factor a = factor_of(w, 0), b = factor_of(w, 1);
	const struct kernel_tile_info *tile = tile_of(w);
	const char *type = value_register(w->k->accumulator);
	unsigned wide = tile->columns / (BLOCK_COLUMNS * KERNEL_TILE_LANES * tile->item_vectors);

	text_line(w, "local %s tile_a[%u], tile_b[%u];", type, tile->depth * pitch_of(&a), tile->depth * pitch_of(&b));
	text_line(w, "const int item = get_local_id(0), block = item / %u;", BLOCK_ROWS * BLOCK_COLUMNS);
	text_line(w, "const int x = block %% %u * %u + item %% %u;", wide, BLOCK_COLUMNS * tile->item_vectors, BLOCK_COLUMNS);
	text_line(w, "const int y = block / %u * %u + item %% %u / %u;", wide,
		BLOCK_ROWS * (tile->item_rows / KERNEL_TILE_LANES), BLOCK_ROWS * BLOCK_COLUMNS, BLOCK_COLUMNS);
	frame_units(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_unit(w);
	write_sums(w);
	write_outputs(w);
	text_close(w);
}

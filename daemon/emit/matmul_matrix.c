/*
 * Products of 16-bit floats, GPU strategy, by instructions that multiply matrices of 16 by 16 and 16 by 8 elements in f32
 * (kernels/matrix.cl), on devices that have them (traits.matrix).
 *
 * Pieces of both factors are copied to local memory as they lie, up to `stages` of them at the same time, without passing
 * through registers. A block of 32 items multiplies a part of the tile; each item holds pairs of neighbours of it, 8 rows
 * apart. Elements that do not lie whole are copied one by one.
 *
 * K is filled up with zeros to a multiple of 16, never further: results are the same bits in tiles of all sizes.
 */
#include "matmul_group.h"

#include <stdio.h>

enum {
	/* What an instruction multiplies: rows, columns, and of K. */
	STEP_ROWS = 16,
	STEP_COLUMNS = 8,
	STEP_DEPTH = 16,
};

_Static_assert(KERNEL_TILE_BLOCK == 32, "what kernels/matrix.cl speaks of");

void matrix_defines(const struct writer *w, struct str *text) {
	enum dtype type = w->k->operand[0].dtype;

	str_printf(text, "#define MATRIX_TYPE \"%s\"\n", dtype_info(type)->name);
	str_printf(text, "#define MATRIX_ONES %s\n", type == DTYPE_f16 ? "0x3c003c00" : "0x3f803f80");
}

/* ---- functions ---- */

/* "matrix_deep(32, x, k)": where (x, k) of a factor lies in its piece. */
static void place(struct writer *w, const struct factor *f, const char *x, const char *k) {
	if (!f->deep && kernel_tile_is_wgmma(w->k->tile)) {
		text_part(w, "wgmma_across(%u, %s, %s)", factor_tile(w)->depth, x, k);
		return;
	}
	text_part(w, f->deep ? "matrix_deep(%u, %s, %s)" : "matrix_across(%u, %s, %s)",
		f->deep ? factor_tile(w)->depth : f->across, x, k);
}

static void define_fetch(struct writer *w, const struct factor *f) {
	text_line(w, "static inline void fetch_%c(local ushort *tile, global const uchar *from, int item, int left, int deep,",
		f->name);
	text_open(w, "\tlong across, long down, int whole)");
	factor_open_fetch(w, f);
	text_begin(w);
	text_part(w, "local ushort *const to = tile + ");
	place(w, f, "x", "k");
	text_part(w, ";");
	text_end(w);
	text_open(w, "if (whole)");
	text_line(w, "matrix_copy(to, p, n);");
	text_line(w, "continue;");
	text_close(w);
	text_open(w, "if (%s == 1 && ((ulong)p & 3) == 0)", f->deep ? "down" : "across");
	text_line(w, "matrix_copy_pairs(to, p, n);");
	text_line(w, "continue;");
	text_close(w);
	text_line(w, "#pragma unroll 1");
	text_line(w, "for (int j = 0; j < 8; j++)");
	text_line(w, "\tto[j] = j < n ? *(global const ushort *)(p + 2 * j * %s) : 0;", f->deep ? "down" : "across");
	text_close(w);
	text_close(w);
}

/* Reads what an instruction needs of a factor at once: 16 across by 16 along K. */
static void load(struct writer *w, const struct factor *f) {
	/* The row of its piece that an item names: 8 rows of the first piece, of the second... */
	static const char *const rows[2][2] = {
		{ "y + i * 16 + lane / 8 % 2 * 8", "y + i * 16 + lane % 16" },
		{ "x + i * 16 + lane / 16 * 8", "x + i * 16 + lane % 8 + lane / 16 * 8" },
	};
	static const char *const depths[2][2] = {
		{ "k + lane % 8 + lane / 16 * 8", "k + lane / 16 * 8" },
		{ "k + lane % 16", "k + lane / 8 % 2 * 8" },
	};

	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", (f->o ? factor_tile(w)->block_columns : factor_tile(w)->block_rows) / 16u);
	text_begin(w);
	/* The first factor's rows lie along K in registers, the second's columns. */
	text_part(w, "\tmatrix_load%s(%c[i], tile_%c + ", f->deep ? "" : "_turned", f->name, f->name);
	place(w, f, rows[f->o][f->deep], depths[f->o][f->deep]);
	text_part(w, ");");
	text_end(w);
}

/* "multiply": 16 of K from k on of pieces in local memory, of the block at row y and column x. */
static void define_multiply(struct writer *w) {
	const struct factor a = factor_of(w, 0), b = factor_of(w, 1);
	const struct kernel_tile_info *tile = factor_tile(w);

	text_line(w, "static inline void multiply(f32v (*c)[%u], local const ushort *tile_a, local const ushort *tile_b, int lane,",
		tile->block_columns / STEP_COLUMNS);
	text_open(w, "\tint x, int y, int k)");
	text_line(w, "uint a[%u][4], b[%u][4];", tile->block_rows / 16, tile->block_columns / 16);
	load(w, &a);
	load(w, &b);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", tile->block_rows / STEP_ROWS);
	text_line(w, "#pragma unroll");
	text_line(w, "\tfor (int v = 0; v < %u; v++)", tile->block_columns / STEP_COLUMNS);
	text_line(w, "\t\tmatrix_multiply(&c[2 * i][v], &c[2 * i + 1][v], a[i], b[v / 2] + v %% 2 * 2);");
	text_close(w);
}

void matrix_functions(struct writer *w) {
	for (unsigned o = 0; o < 2; o++) {
		struct factor f = factor_of(w, o);

		define_fetch(w, &f);
	}
	if (kernel_tile_is_wgmma(w->k->tile))
		wgmma_functions(w);
	else
		define_multiply(w);
	text_blank(w);
}

/* ---- the kernel ---- */

/* Sends the next pieces on their way to a stage, if there are any. */
static void write_fetch(struct writer *w, const char *stage) {
	unsigned depth = factor_tile(w)->depth;

	text_line(w, "const int deep = min(d%u - fetched, (long)%u);", matmul_dim_k(w->k), depth);
	text_open(w, "if (deep > 0)");
	for (unsigned o = 0; o < 2; o++) {
		text_line(w, "fetch_%c(tile_%c[%s], from%u, item, left%u, deep - foot%u, across%u, down%u, whole%u);", "ab"[o],
			"ab"[o], stage, o, o, o, o, o, o);
		text_line(w, "from%u += %u * down%u;", o, 2 * depth, o);
	}
	text_line(w, "fetched += %u;", depth);
	text_close(w);
	text_line(w, "MATRIX_GROUP();");
}

/* Waits for the piece of this stage; all have then done with the one before. Instructions of four blocks read it by another way than items write. */
static void write_wait(struct writer *w) {
	text_line(w, "MATRIX_WAIT(%u);", factor_tile(w)->stages - 2u);
	if (kernel_tile_is_wgmma(w->k->tile))
		text_line(w, "WGMMA_WRITTEN();");
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

static void write_products(struct writer *w, const char *depth, bool whole) {
	if (kernel_tile_is_wgmma(w->k->tile)) {
		wgmma_products(w, depth, whole);
		return;
	}
	text_line(w, whole ? "#pragma unroll" : "#pragma unroll 1");
	text_line(w, "for (int k = 0; k < %s; k += %u)", depth, STEP_DEPTH);
	text_line(w, "\tmultiply(c, tile_a[stage], tile_b[stage], lane, x, y, k);");
}

/* The products of a whole piece, and the next one on its way: before them, but instructions of four blocks go on meanwhile. */
static void write_piece(struct writer *w, const char *depth) {
	bool wgmma = kernel_tile_is_wgmma(w->k->tile);

	if (!wgmma)
		write_fetch(w, "next");
	write_products(w, depth, true);
	if (!wgmma)
		return;
	write_fetch(w, "next");
	text_line(w, "WGMMA_WAIT(0);");
}

/* Pieces of a whole depth in one loop; what is left of K is a piece of its own, so that it costs the loop no registers. */
static void write_pieces(struct writer *w) {
	unsigned depth = factor_tile(w)->depth, last = factor_tile(w)->stages - 1u, k = matmul_dim_k(w->k);
	bool wgmma = kernel_tile_is_wgmma(w->k->tile);
	char whole[16], left[32];

	snprintf(whole, sizeof whole, "%u", depth);
	snprintf(left, sizeof left, "d%u - k0", k);
	if (wgmma)
		text_line(w, "WGMMA_TWO_GROUPS();");
	text_line(w, "int stage = 0, next = %u;", last);
	text_line(w, "long k0 = 0;");
	text_line(w, "#pragma unroll 1");
	text_open(w, "for (; d%u - k0 >= %u; k0 += %u)", k, depth, depth);
	write_wait(w);
	write_piece(w, whole);
	text_line(w, "stage = stage == %u ? 0 : stage + 1;", last);
	text_line(w, "next = next == %u ? 0 : next + 1;", last);
	text_close(w);
	text_open(w, "if (k0 < d%u)", k);
	write_wait(w);
	write_products(w, left, false);
	text_close(w);
	if (wgmma)
		text_line(w, "settle(c);");
}

static void write_sums(struct writer *w) {
	const struct kernel_tile_info *tile = factor_tile(w);

	factor_zero(w, tile->block_rows / 8u, tile->block_columns / STEP_COLUMNS);
	for (unsigned o = 0; o < 2; o++) {
		struct factor f = factor_of(w, o);

		factor_declare(w, &f);
	}
	text_line(w, "long fetched = 0;");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int s = 0; s < %u; s++)", tile->stages - 1u);
	write_fetch(w, "s");
	text_close(w);
}

void matrix_groups(struct writer *w) {
	const struct kernel_tile_info *tile = factor_tile(w);
	unsigned wide = tile->columns / tile->block_columns;
	bool wgmma = kernel_tile_is_wgmma(w->k->tile);

	/* Instructions of four blocks count from where their pieces lie whole. */
	text_line(w, "local ushort tile_a[%u][%u] __attribute__((aligned(%u)));", tile->stages, tile->rows * tile->depth, wgmma ? 1024 : 128);
	text_line(w, "local ushort tile_b[%u][%u] __attribute__((aligned(%u)));", tile->stages, tile->columns * tile->depth, wgmma ? 1024 : 128);
	text_line(w, "const int item = get_local_id(0), block = item / %u, lane = item %% %u;", KERNEL_TILE_BLOCK,
		KERNEL_TILE_BLOCK);
	text_line(w, "const int x = block %% %u * %u, y = block / %u * %u;", wide, tile->block_columns, wide, tile->block_rows);
	factor_unit(w);
	write_sums(w);
	write_pieces(w);
	text_line(w, "const long column = n0 + x + lane %% 4 * W;");
	sums_outputs(w, &(struct sums){ .dim = matmul_dim_m(w->k), .rows = tile->block_rows / 8u, .row = "m0 + y + i * 8 + lane / 4",
		.vectors = tile->block_columns / STEP_COLUMNS, .apart = STEP_COLUMNS, .value = "c[i][v]" });
}

/*
 * Matrix products: every output is the sum over k, in order, in the accumulator's type.
 *
 * CPU strategy: a unit is a block of rows by the columns of one tile. Tiles of it keep their accumulators in
 * registers over up to TILE_DEPTH of k, so that what they read of B stays in the second level of cache, and in
 * private memory in between. B is read in place where its rows lie side by side, or from panels
 * (kernel.h): then what a tile reads is one run of memory. Vectors are read whole: what lies beyond the last
 * column is computed with, and not stored. What follows the root runs once a tile, while it is in the nearest cache.
 * Where rows are few and B comes from memory, a unit is a strip of B, read in runs of 4 KiB. Where columns are
 * few, lanes lie along M: rows of A are turned into columns in registers. A unit of a small product is all of it, or some
 * of its rows with all their columns: accumulators never leave the registers.
 *
 * The GPU strategy is in matmul_group.c.
 */
#include "writer.h"

#include <stdio.h>

void matmul_place(struct writer *w, unsigned o, const char *prefix, const char *row, const char *column,
	const char *depth) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->rank - 3u);
	struct needs one = { .operand = { false } };

	if (o == 0 && kernel_computes_factor(k)) {
		before_place(w, prefix, row, depth);
		return;
	}
	one.operand[o] = true;
	index.name[k->rank - 3] = row;
	index.name[k->rank - 2] = column;
	index.name[k->rank - 1] = depth;
	operand_place(w, &one, prefix, index.name);
}

/* Writes "name = to_f32(load...);": an element or a vector of a factor in the accumulator's type. */
static void matmul_load(struct writer *w, const char *name, unsigned o, const struct scope *s) {
	text_begin(w);
	text_part(w, "%s = to_%s(", name, dtype_info(w->k->accumulator)->name);
	operand_load(w, s, o);
	text_part(w, ");");
	text_end(w);
}

/* ---- CPU strategy ---- */

/* Where the rows of a tile of A lie. Rows beyond the last repeat it; nothing of them is stored. */
static void write_tile_rows(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "global const uchar *row[%u];", k->rows);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_line(w, "const long at = m0 + min(t + i, height - 1);");
	matmul_place(w, 0, "a_", "at", NULL, "k0");
	text_line(w, "row[i] = a_0;");
	text_close(w);
}

/* One row of B: `columns` of it, whatever lies beyond the last column. */
static void write_tile_b(struct writer *w) {
	const struct kernel *k = w->k;
	struct scope s = { .pointer = "b", .lane = "v * W", .count = "n" };

	if (k->packed)
		text_line(w, "global const uchar *const b1 = b_1 + k * %u;",
			kernel_columns(k) * dtype_info(k->operand[1].dtype)->bytes);
	else
		text_line(w, "global const uchar *const b1 = b_1 + k * (%u * s1_%u);",
			dtype_info(k->operand[1].dtype)->bytes, matmul_dim_k(k));
	text_line(w, "%s b[%u];", value_register(k->accumulator), k->vectors);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", k->vectors);
	if (k->operand[1].access == KERNEL_STRIDED) {
		text_line(w, "const int n = min(width - v * W, W);");
		text_line(w, "b[v] = (%s)(0);", value_register(k->accumulator));
		text_line(w, "if (n > 0)");
	}
	matmul_load(w, "b[v]", 1, &s);
	text_close(w);
}

/*
 * Where A steps along K by more than an element, steps side by side would each take an address a row: a compiler then keeps
 * addresses and accumulators in memory.
 */
static void write_unrolling(struct writer *w) {
	text_line(w, "#pragma unroll %u", w->k->operand[0].access == KERNEL_CONTIGUOUS ? TILE_UNROLL : 1);
}

static void write_tile_step(struct writer *w) {
	const struct kernel *k = w->k;
	char at[32];

	write_tile_b(w);
	if (k->lined) {
		matmul_lines_step(w);
		return;
	}
	snprintf(at, sizeof at, "k * (%u * step)", dtype_info(k->operand[0].dtype)->bytes);
	value_tile_step(w, 0, at, k->rows, k->vectors);
}

/* What follows the root, over the rows of a tile whose last k is done. */
static void write_tile_outputs(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "q", .lane = "l", .count = "n", .hoist = true };
	struct frame_names index = frame_names(w->k->rank - 3u);

	index.name[matmul_dim_m(w->k)] = "row";
	index.name[matmul_dim_n(w->k)] = "n0";
	text_open(w, "for (int i = t; i < min(t + %u, height); i++)", w->k->rows);
	text_line(w, "const long row = m0 + i;");
	operand_place(w, &w->outer, "q", index.name);
	value_write(w, &s, LEVEL_UNIT);
	text_open(w, "for (int l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, W);");
	value_root(w, "block[i][l / W]");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
	text_close(w);
}

/* The same where rows are kept until all of them are there. */
static void write_tile_kept(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "q", .lane = "l", .count = "n" };

	text_open(w, "for (int i = t; i < min(t + %u, height); i++)", w->k->rows);
	after_place(w, "q", "i", "n0");
	text_open(w, "for (int l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, W);");
	value_root(w, "block[i][l / W]");
	operand_store(w, &s, w->k->carry, w->k->root_value);
	text_close(w);
	text_close(w);
}

/* What follows the root reads and stores lines of memory that nobody foresees: they come while the last sums are made. */
static void write_tile_ahead(struct writer *w) {
	struct frame_names index = frame_names(w->k->rank - 3u);
	struct needs lines = { .operand = { false } };
	unsigned count = 0;

	for (unsigned o = 0; o < w->k->operands; o++) {
		const struct kernel_operand *p = &w->k->operand[o];

		lines.operand[o] = w->outer.operand[o] && !p->iota && !p->gathered && p->access == KERNEL_CONTIGUOUS;
		count += lines.operand[o] && !p->output;
	}
	if (!count)
		return;
	index.name[matmul_dim_m(w->k)] = "row";
	index.name[matmul_dim_n(w->k)] = "n0";
	text_open(w, "for (int i = t; i < min(t + %u, height) && k0 + depth >= d%u; i++)", w->k->rows, matmul_dim_k(w->k));
	text_line(w, "const long row = m0 + i;");
	operand_place(w, &lines, "n", index.name);
	text_open(w, "for (int l = 0; l < width; l += W)");
	for (unsigned o = 0; o < w->k->operands; o++)
		if (lines.operand[o])
			text_line(w, "AHEAD(n%u + %u * l);", o, dtype_info(w->k->operand[o].dtype)->bytes);
	text_close(w);
	text_close(w);
}

static void write_tile(struct writer *w) {
	const struct kernel *k = w->k;
	const char *type = value_register(k->accumulator);

	text_line(w, "%s c[%u][%u];", type, k->rows, k->vectors);
	value_each_sum(w);
	text_line(w, "\t\tc[i][v] = k0 ? block[t + i][v] : (%s)(0);", type);
	if (k->lined)
		matmul_lines_tile(w);
	else
		write_tile_rows(w);
	if (!kernel_keeps_rows(k))
		write_tile_ahead(w);
	write_unrolling(w);
	text_open(w, "for (long k = 0; k < depth; k++)");
	write_tile_step(w);
	text_close(w);
	value_each_sum(w);
	text_line(w, "\t\tblock[t + i][v] = c[i][v];");
	text_line(w, "if (k0 + depth < d%u)", matmul_dim_k(k));
	text_line(w, "\tcontinue;");
	kernel_keeps_rows(k) ? write_tile_kept(w) : write_tile_outputs(w);
}

/* What tiles of one panel need of B, over one depth. */
static void write_panel(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "const long n0 = panel * %u;", kernel_columns(k));
	text_line(w, "const int width = min(d%u - n0, (long)%u);", matmul_dim_n(k), kernel_columns(k));
	matmul_place(w, 1, "b_", k->packed ? "panel" : NULL, k->packed ? NULL : "n0", "k0");
}

/* How A steps along K. */
static void write_step(struct writer *w) {
	if (w->k->operand[0].access == KERNEL_CONTIGUOUS)
		text_line(w, "const long step = 1;");
	else
		text_line(w, "const long step = s0_%u;", matmul_dim_k(w->k));
}

/* The tiles of one panel, over one depth. */
static void write_tiles(struct writer *w) {
	const struct kernel *k = w->k;

	write_panel(w);
	text_open(w, "for (int t = 0; t < height; t += %u)", k->rows);
	write_tile(w);
	text_close(w);
}

static unsigned block_rows(const struct kernel *k) {
	return (k->strips ? KERNEL_STRIP_ROWS : TILE_BLOCK) + k->rows;
}

/*
 * Depth by depth, so that what a depth takes of B stays in the cache for all tiles of the block. In a strip
 * depths are short, and each goes over all its panels, so that B is read as it lies.
 */
static void write_block(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned depth = k->strips ? STRIP_DEPTH : TILE_DEPTH;

	text_line(w, "%s held[%u][%u];", value_register(k->accumulator),
		block_rows(k) * (k->strips ? STRIP_PANELS : 1), k->vectors);
	if (k->lined)
		matmul_lines_open(w);
	write_step(w);
	text_open(w, "for (long k0 = 0; k0 == 0 || k0 < d%u; k0 += %u)", matmul_dim_k(k), depth);
	text_line(w, "const long depth = min(d%u - k0, (long)%u);", matmul_dim_k(k), depth);
	if (k->lined)
		matmul_lines_begin(w);
	if (k->strips)
		text_open(w, "for (long panel = left; panel < right; panel++)");
	text_line(w, k->strips ? "%s (*const block)[%u] = held + (panel - left) * %u;" : "%s (*const block)[%u] = held;",
		value_register(k->accumulator), k->vectors, block_rows(k)); 
	write_tiles(w);
	if (k->strips)
		text_close(w);
	text_close(w);
}

/* ---- CPU strategy, rows before the product or after it ---- */

/* An item's units of the same rows follow each other, and the first of them computes these. */
static void write_before(struct writer *w, struct before *b, const char *first) {
	text_open(w, "if (%s == 0 || unit == begin)", first);
	before_rows(b, w);
	text_close(w);
}

/* Pieces that the panels are cut into, and the panels of one. */
static void write_pieces(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "const long panels = (d%u + %u) / %u;", matmul_dim_n(k), kernel_columns(k) - 1, kernel_columns(k));
	text_line(w, "const ulong blocks = (d%u + rows - 1) / rows;", matmul_dim_m(k));
	text_begin(w);
	text_part(w, "const ulong pieces = r[%u] / (blocks", KERNEL_WORD_UNITS);
	for (unsigned d = 0; d + 3u < k->rank; d++)
		text_part(w, " * d%u", d);
	text_part(w, ");");
	text_end(w);
	text_line(w, "const long wide = (panels + pieces - 1) / pieces;");
}

static void write_block(struct writer *w);

/* A block of rows with all their panels, or a piece of these. */
static void write_whole_unit(struct writer *w, struct before *b) {
	const struct kernel *k = w->k;

	text_line(w, "const long left = take(&rest, pieces) * wide;");
	text_line(w, "const long m0 = take(&rest, blocks) * rows;");
	frame_indices(w, 0, k->rank - 3u);
	text_line(w, "const int height = min(d%u - m0, rows);", matmul_dim_m(k));
	if (kernel_computes_factor(k))
		write_before(w, b, "left");
	text_open(w, "for (long panel = left; panel < min(left + wide, panels); panel++)");
	write_block(w);
	text_close(w);
	if (kernel_keeps_rows(k))
		after_rows(b, w);
}

/* A block of rows of one panel. */
static void write_block_unit(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "const long m0 = take(&rest, (d%u + rows - 1) / rows) * rows;", matmul_dim_m(k));
	text_line(w, "const long panel = take(&rest, (d%u + %u) / %u);", matmul_dim_n(k), kernel_columns(k) - 1,
		kernel_columns(k));
	frame_indices(w, 0, k->rank - 3u);
	text_line(w, "const int height = min(d%u - m0, rows);", matmul_dim_m(k));
}

/* All rows, which are few, of several panels. */
static void write_strip_unit(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "const long panels = (d%u + %u) / %u;", matmul_dim_n(k), kernel_columns(k) - 1, kernel_columns(k));
	text_line(w, "const long left = take(&rest, (panels + rows - 1) / rows) * rows;");
	text_line(w, "const long right = min(left + rows, panels);");
	frame_indices(w, 0, k->rank - 3u);
	text_line(w, "const long m0 = 0;");
	text_line(w, "const int height = min(d%u, (long)%u);", matmul_dim_m(k), KERNEL_STRIP_ROWS);
}

/* ---- CPU strategy, small products ---- */

/* Operations after the root, up to which they are written once for each vector of a tile. */
enum { SMALL_UNROLLED = 6 };

static bool unrolls(const struct kernel *k) {
	unsigned ops = 0;

	for (unsigned v = k->root_value + 1u; v < k->values; v++)
		ops += k->value[v].kind == KERNEL_OP;
	return ops <= SMALL_UNROLLED;
}

static void write_small_outputs(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "q", .lane = "l", .count = "n", .hoist = true };
	struct frame_names index = frame_names(w->k->rank - 3u);
	bool unroll = unrolls(w->k);

	index.name[matmul_dim_m(w->k)] = "at";
	index.name[matmul_dim_n(w->k)] = "n0";
	if (unroll)
		text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", w->k->rows);
	text_line(w, "if (t + i >= height)");
	text_line(w, "\tbreak;");
	text_line(w, "const long at = m0 + t + i;");
	operand_place(w, &w->outer, "q", index.name);
	value_write(w, &s, LEVEL_UNIT);
	if (unroll)
		text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", w->k->vectors);
	text_line(w, "const int l = v * W, n = min(width - l, W);");
	text_line(w, "if (n <= 0)");
	text_line(w, "\tbreak;");
	value_root(w, unroll ? "c[i][v]" : "held[i][v]");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
	text_close(w);
}

static void write_small_tile(struct writer *w) {
	const struct kernel *k = w->k;
	const char *type = value_register(k->accumulator);

	text_line(w, "%s c[%u][%u];", type, k->rows, k->vectors);
	value_each_sum(w);
	text_line(w, "\t\tc[i][v] = (%s)(0);", type);
	write_tile_rows(w);
	write_unrolling(w);
	text_open(w, "for (long k = 0; k < d%u; k++)", matmul_dim_k(k));
	write_tile_step(w);
	text_close(w);
	if (!unrolls(k)) {
		text_line(w, "%s held[%u][%u];", type, k->rows, k->vectors);
		value_each_sum(w);
		text_line(w, "\t\theld[i][v] = c[i][v];");
	}
	write_small_outputs(w);
}

void matmul_small(struct writer *w) {
	const struct kernel *k = w->k;
	struct before b;

	frame_units(w);
	write_step(w);
	text_line(w, "const long k0 = 0, rows = r[%u] * %u;", KERNEL_WORD_PIECES, k->rows);
	text_line(w, "const ulong blocks = (d%u + rows - 1) / rows;", matmul_dim_m(k));
	if (kernel_computes_factor(k))
		before_open(&b, w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long m0 = take(&rest, blocks) * rows;");
	frame_indices(w, 0, k->rank - 3u);
	text_line(w, "const int height = min(d%u - m0, rows);", matmul_dim_m(k));
	if (kernel_computes_factor(k))
		before_rows(&b, w);
	text_open(w, "for (long panel = 0; panel * %u < d%u; panel++)", kernel_columns(k), matmul_dim_n(k));
	write_panel(w);
	text_open(w, "for (int t = 0; t < height; t += %u)", k->rows);
	write_small_tile(w);
	text_close(w);
	text_close(w);
	text_close(w);
}

/* ---- CPU strategy, larger products ---- */

void matmul_tiles(struct writer *w) {
	const struct kernel *k = w->k;
	bool before = kernel_computes_factor(k), after = kernel_keeps_rows(k), whole = (before || after) && !k->strips;
	struct before b;

	frame_units(w);
	if (k->strips)
		text_line(w, "const long rows = min(r[%u], %uul);", KERNEL_WORD_PIECES, STRIP_PANELS);
	else
		text_line(w, "const long rows = r[%u] * %u;", KERNEL_WORD_PIECES, k->rows);
	if (before)
		before_open(&b, w);
	if (after)
		after_open(&b, w);
	if (whole)
		write_pieces(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	if (whole) {
		write_whole_unit(w, &b);
	} else {
		k->strips ? write_strip_unit(w) : write_block_unit(w);
		if (before)
			write_before(w, &b, "left");
		write_block(w);
	}
	text_close(w);
}

/* ---- CPU strategy, few columns ---- */

/* One of the two vectors that x and y become where lanes that differ in bit h are exchanged between them. */
static void write_exchanged(struct writer *w, unsigned h, bool upper) {
	for (unsigned l = 0; l < w->k->width; l++) {
		unsigned from = upper ? (l & h ? l : l + h) : (l & h ? l - h : l);

		text_part(w, "%s%c.s%x", l ? ", " : "", l & h ? 'y' : 'x', from);
	}
}

void matmul_turn(struct writer *w, unsigned dtype) {
	const char *type = value_register(dtype);

	text_open(w, "OVL void turn(%s *a)", type);
	for (unsigned h = 1; h < w->k->width; h *= 2) {
		text_line(w, "#pragma unroll");
		text_open(w, "for (int e = 0; e < %u; e++)", w->k->width / 2);
		text_line(w, "const int i = e / %u * %u + e %% %u;", h, 2 * h, h);
		text_line(w, "const %s x = a[i], y = a[i + %u];", type, h);
		for (unsigned upper = 0; upper < 2; upper++) {
			text_begin(w);
			text_part(w, "a[i + %u] = (%s)(", upper * h, type);
			write_exchanged(w, h, upper);
			text_part(w, ");");
			text_end(w);
		}
		text_close(w);
	}
	text_close(w);
}

void matmul_functions(struct writer *w) {
	if (kernel_computes_factor(w->k))
		before_functions(w);
	if (kernel_keeps_rows(w->k))
		after_functions(w);
	if (w->k->lined)
		matmul_lines_functions(w);
	if (w->k->turned && w->k->operand[0].access != KERNEL_CONTIGUOUS)
		matmul_turn(w, w->k->accumulator);
}

/* One k: `a` holds it for all lanes. */
static void write_turned_step(struct writer *w, const char *a, const char *at) {
	const struct kernel *k = w->k;
	unsigned bytes = dtype_info(k->operand[1].dtype)->bytes;

	text_line(w, "#pragma unroll");
	text_open(w, "for (int j = 0; j < %u; j++)", k->rows);
	text_line(w, "const %s b = to_%s(uniform_%s(column[j] + %u * (%s) * s1_%u));", value_register(k->accumulator),
		dtype_info(k->accumulator)->name, dtype_info(k->operand[1].dtype)->name, bytes, at, matmul_dim_k(k));
	value_add_product(w, "c[j]", a, "b");
	text_close(w);
}

/* W rows of W elements along K become W vectors along M; those read beyond the last k are not used. */
static void write_turned_block(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "%s a[W];", value_register(k->accumulator));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < W; i++)");
	text_line(w, "const long at = m0 + min(i, height - 1);");
	matmul_place(w, 0, "a_", "at", NULL, "k0");
	text_line(w, "a[i] = to_%s(load_%s(a_0));", dtype_info(k->accumulator)->name,
		dtype_info(k->operand[0].dtype)->name);
	text_close(w);
	text_line(w, "turn(a);");
}

static void write_turned_sum(struct writer *w) {
	const struct kernel *k = w->k;

	if (k->operand[0].access == KERNEL_CONTIGUOUS) {
		text_open(w, "for (long k = 0; k < d%u; k++)", matmul_dim_k(k));
		matmul_place(w, 0, "a_", "m0", NULL, "k");
		text_line(w, "const %s a = to_%s(load_%s(a_0));", value_register(k->accumulator),
			dtype_info(k->accumulator)->name, dtype_info(k->operand[0].dtype)->name);
		write_turned_step(w, "a", "k");
		text_close(w);
		return;
	}
	text_open(w, "for (long k0 = 0; k0 < d%u; k0 += W)", matmul_dim_k(k));
	write_turned_block(w);
	text_open(w, "if (d%u - k0 >= W)", matmul_dim_k(k));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int l = 0; l < W; l++)");
	write_turned_step(w, "a[l]", "k0 + l");
	text_close(w);
	text_line(w, "continue;");
	text_close(w);
	text_open(w, "for (int l = 0; l < d%u - k0; l++)", matmul_dim_k(k));
	write_turned_step(w, "a[l]", "k0 + l");
	text_close(w);
	text_close(w);
}

static void write_turned_outputs(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "q", .lane = "0", .count = "height", .hoist = true };
	struct frame_names index = frame_names(w->k->rank - 3u);

	index.name[matmul_dim_m(w->k)] = "m0";
	index.name[matmul_dim_n(w->k)] = "at";
	text_open(w, "for (int j = 0; j < width; j++)");
	text_line(w, "const long at = n0 + j;");
	operand_place(w, &w->outer, "q", index.name);
	value_write(w, &s, LEVEL_UNIT);
	value_root(w, "c[j]");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

/* A unit is a vector of rows by all columns, up to so many. B is small, and read from the nearest cache. */
void matmul_turned(struct writer *w) {
	const struct kernel *k = w->k;
	struct before b;

	frame_units(w);
	if (kernel_computes_factor(k))
		before_open(&b, w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long m0 = take(&rest, (d%u + W - 1) / W) * W;", matmul_dim_m(k));
	text_line(w, "const long n0 = take(&rest, (d%u + %u) / %u) * %u;", matmul_dim_n(k), k->rows - 1u, k->rows, k->rows);
	frame_indices(w, 0, k->rank - 3u);
	text_line(w, "const int height = min(d%u - m0, (long)W), width = min(d%u - n0, (long)%u);", matmul_dim_m(k), matmul_dim_n(k),
		k->rows);
	if (kernel_computes_factor(k))
		before_rows(&b, w);
	text_line(w, "%s c[%u];", value_register(k->accumulator), k->rows);
	text_line(w, "global const uchar *column[%u];", k->rows);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int j = 0; j < %u; j++)", k->rows);
	text_line(w, "const long at = n0 + min(j, width - 1);");
	matmul_place(w, 1, "b_", NULL, "at", NULL);
	text_line(w, "column[j] = b_1;");
	text_line(w, "c[j] = (%s)(0);", value_register(k->accumulator));
	text_close(w);
	write_turned_sum(w);
	write_turned_outputs(w);
	text_close(w);
}

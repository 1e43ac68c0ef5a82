/*
 * Rows before a product, CPU strategy: what computes the first factor, such as a norm, runs in the product's kernel.
 *
 * An item computes the rows of a block, each as a kernel of ROWS does, whose text this is (rows.c, passes.c), and puts them
 * into memory of its own, operand 0, one after the other; they are in the cache when its tiles read them. An item that does
 * several blocks uses that memory again. So nothing is as large as the factor, and each of its elements is computed
 * once, or once for each piece of the columns where rows are so few that they are cut into pieces for all compute units.
 *
 * What is computed may itself be made of the rows of a product, as attention is that is written out: then the tiles of that
 * product come first, a block of rows by all columns, into memory of the item, too, and no matrix of scores is stored.
 *
 * Rows after a product (a softmax of its result, the largest of each row) are the same the other way round: an item keeps the
 * rows of a block in memory of its own, operand `carry`, and when all their tiles are done walks them.
 *
 * The order of every accumulation is that of the kernels apart: bits are the same.
 */
#include "writer.h"

#include <stdio.h>

static void derive(struct before *b, const struct writer *w) {
	kernel_before(w->k, &b->k);
	b->w = *w;
	b->w.k = &b->k;
	b->w.lane_dim = w->k->rank - 1u;
	b->w.outer = w->inner;
	b->w.outer.operand[0] = true;
}

void before_functions(const struct writer *w) {
	struct before b;

	derive(&b, w);
	rows_functions(&b.w);
}

void before_open(struct before *b, const struct writer *w) {
	derive(b, w);
	text_line(&b->w, "const long own = %s * min(d%u, (long)%u);", frame_item(w), matmul_dim_m(w->k), KERNEL_BLOCK_ROWS);
	rows_open(&b->w, &b->p);
}

void before_place(struct writer *w, const char *prefix, const char *row, const char *depth) {
	text_line(w, "global uchar *const %s0 = a0 + %u * ((%s - m0 + own) * d%u + %s);", prefix,
		dtype_info(w->k->operand[0].dtype)->bytes, row, w->k->rank - 1u, depth ? depth : "0");
}

/* ---- rows of a product before them ---- */

static void place_work(struct writer *w, const char *prefix, unsigned o, const char *row, const char *column) {
	text_line(w, "global uchar *const %s%u = a%u + %u * ((%s + own) * d%u + %s);", prefix, o, o,
		dtype_info(w->k->operand[o].dtype)->bytes, row, w->k->rank - 1u, column);
}

/* The pointer of an operand at the indices of the batch, and at one of another dim. */
static void place_score(struct writer *w, unsigned o, unsigned d, const char *at) {
	struct frame_names index = frame_names(w->k->rank - 3u);
	struct needs one = { .operand = { false } };

	one.operand[o] = true;
	index.name[d] = at;
	operand_place(w, &one, "s", index.name);
}

/* Rows of a tile, whose vectors are those of its own panels. */
static unsigned score_rows(const struct kernel *k) {
	return kernel_most_rows(k->width, k->accumulator, k->inputs);
}

static void write_score_step(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned bytes = dtype_info(k->operand[SCORES_RIGHT].dtype)->bytes;
	char at[16];

	text_line(w, "%s b[%u];", value_lanes(w), k->inputs);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", k->inputs);
	text_line(w, "\tb[v] = to_%s(load_%s(s%u + %u * ((k * %u + v) * W)));", dtype_info(k->accumulator)->name,
		dtype_info(k->operand[SCORES_RIGHT].dtype)->name, SCORES_RIGHT, bytes, k->inputs);
	snprintf(at, sizeof at, "%u * k", dtype_info(k->operand[SCORES_LEFT].dtype)->bytes);
	value_tile_step(w, SCORES_LEFT, at, score_rows(k), k->inputs);
}

static void write_score_tile(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "%s c[%u][%u];", value_lanes(w), score_rows(k), k->inputs);
	text_line(w, "global const uchar *row[%u];", score_rows(k));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", score_rows(k));
	text_line(w, "const long at = m0 + min(t + i, height - 1);");
	place_score(w, SCORES_LEFT, k->rank - 3u, "at");
	text_line(w, "row[i] = s%u;", SCORES_LEFT);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", k->inputs);
	text_line(w, "\tc[i][v] = (%s)(0);", value_lanes(w));
	text_close(w);
	text_line(w, "#pragma unroll %u", TILE_UNROLL);
	text_open(w, "for (long k = 0; k < deep; k++)");
	write_score_step(w);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", score_rows(k));
	text_line(w, "if (t + i >= height)");
	text_line(w, "\tbreak;");
	place_work(w, "q", SCORES_WORK, "t + i", "n0");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", k->inputs);
	text_line(w, "\tif (wide > v * W)");
	text_line(w, k->width > 1 ? "\t\tstoren_%s(q%u + %u * W * v, c[i][v], min(wide - v * W, W));" : "\t\tstore_%s(q%u + %u * W * v, c[i][v]);",
		dtype_info(k->accumulator)->name, SCORES_WORK, dtype_info(k->accumulator)->bytes);
	text_close(w);
}

/* Of rows m0 to m0 + height, all columns. */
static void write_scores(struct writer *w) {
	unsigned last = w->k->rank - 1u, columns = w->k->inputs * w->k->width;

	text_line(w, "const long deep = s%u_%u / %u;", SCORES_RIGHT, last, columns);
	text_open(w, "for (long panel = 0; panel * %u < d%u; panel++)", columns, last);
	text_line(w, "const long n0 = panel * %u;", columns);
	text_line(w, "const int wide = min(d%u - n0, (long)%u);", last, columns);
	place_score(w, SCORES_RIGHT, last, "panel");
	text_open(w, "for (int t = 0; t < height; t += %u)", score_rows(w->k));
	write_score_tile(w);
	text_close(w);
	text_close(w);
}

void before_rows(struct before *b, const struct writer *in) {
	struct writer *w = &b->w;
	struct frame_names index = frame_names(w->k->rank - 3u);
	struct needs n = w->outer;

	w->depth = in->depth;
	n.operand[0] = false;
	index.name[matmul_dim_m(w->k)] = "at";
	if (w->k->scored) {
		struct writer scores = *in;

		n.operand[SCORES_WORK] = false;
		write_scores(&scores);
	}
	text_open(w, "for (int i = 0; i < height; i++)");
	text_line(w, "const long at = m0 + i;");
	before_place(w, "p", "at", NULL);
	if (w->k->scored)
		place_work(w, "p", SCORES_WORK, "i", "0");
	rows_place(w, &n, "p", index.name, KERNEL_SPACE_KEPT);
	rows_place(w, &n, "p", index.name, KERNEL_SPACE_ROW);
	rows_walk(w, &b->p);
	text_close(w);
}

/* ---- after the product ---- */

static void derive_after(struct before *b, const struct writer *w) {
	kernel_after(w->k, &b->k);
	b->w = *w;
	b->w.k = &b->k;
	b->w.lane_dim = matmul_dim_n(w->k);
	b->w.outer.operand[w->k->carry] = true;
}

void after_functions(const struct writer *w) {
	struct before b;

	derive_after(&b, w);
	rows_functions(&b.w);
}

void after_open(struct before *b, const struct writer *w) {
	derive_after(b, w);
	text_line(&b->w, "const long own = %s * min(d%u, clamp(%ul / d%u, %ul, %ul));", frame_item(w), matmul_dim_m(w->k),
		KERNEL_KEPT_ELEMENTS, matmul_dim_n(w->k), KERNEL_KEPT_ROWS, KERNEL_BLOCK_ROWS);
	rows_open(&b->w, &b->p);
}

void after_place(struct writer *w, const char *prefix, const char *row, const char *column) {
	text_line(w, "global uchar *const %s%u = a%u + %u * ((%s + own) * d%u + %s);", prefix, w->k->carry, w->k->carry,
		dtype_info(w->k->accumulator)->bytes, row, matmul_dim_n(w->k), column);
}

void after_rows(struct before *b, const struct writer *in) {
	struct writer *w = &b->w, outer = *in;
	struct frame_names index = frame_names(in->k->rank - 3u);
	struct needs n = w->outer;

	w->depth = in->depth;
	n.operand[in->k->carry] = false;
	index.name[matmul_dim_m(in->k)] = "at";
	text_open(w, "for (int i = 0; i < height; i++)");
	text_line(w, "const long at = m0 + i;");
	outer.depth = w->depth;
	after_place(&outer, "p", "i", "0");
	rows_place(w, &n, "p", index.name, KERNEL_SPACE_KEPT);
	rows_place(w, &n, "p", index.name, KERNEL_SPACE_ROW);
	rows_walk(w, &b->p);
	text_close(w);
}

/*
 * Attention: blocks of 64 keys with a running maximum and sum, never a matrix of scores.
 *
 * CPU strategy: a unit is up to 132 queries by up to 256 columns of the result. For each block of keys it
 * copies the keys to a panel in which those of one place lie side by side, computes the scores of all its queries
 * in tiles of 6 queries by a strip of keys with the accumulators in registers, turns scores into weights in steps over all rows,
 * and adds the weighted values in tiles of 6 by a strip of columns. What is copied may be of any type and stride, and
 * costs little against what all queries of the unit do with it. Causal, a query leaves out the blocks whose keys all come
 * after it, whatever unit it is in.
 *
 * On a processor with 16 lanes of f32 the two products take 73 of 100 parts of the time, at the peak of its multipliers; 12 are
 * exponentials, 7 copies of keys and values, 5 the ends of tiles. Units of twice and four times as many queries halve the
 * copies, but their rows leave the nearer caches: 0 to 2 % faster and 10 % slower.
 *
 * What the root reads: queries over batch and M, D; keys over batch and S, D; values over batch and S, N; a mask
 * over batch and M, S. Results are over batch, M and N.
 */
#include "writer.h"

#include <stdio.h>

enum {
	/* Places of keys that lie in a panel at once. */
	ATTENTION_DEPTH = 128,
};

struct stride {
	char name[24];
};

static unsigned last_dims(const struct kernel *k) {
	return k->rank - 4u;
}

unsigned attention_queries(const struct kernel *k) {
	return last_dims(k);
}

unsigned attention_columns(const struct kernel *k) {
	return last_dims(k) + 1;
}

unsigned attention_keys(const struct kernel *k) {
	return last_dims(k) + 2;
}

unsigned attention_depth(const struct kernel *k) {
	return last_dims(k) + 3;
}

struct attention_text attention_hidden(const struct writer *w) {
	struct attention_text t;

	if (w->k->hidden == KERNEL_NONE)
		snprintf(t.text, sizeof t.text, "(%s)(-INFINITY)", value_register(w->k->accumulator));
	else
		snprintf(t.text, sizeof t.text, "v%u", w->k->hidden);
	return t;
}

bool attention_walks(const struct kernel *k, unsigned o, unsigned d) {
	static const uint8_t walks[] = { [ATTENTION_Q] = 1 | 8, [ATTENTION_K] = 4 | 8, [ATTENTION_V] = 2 | 4,
		[ATTENTION_MASK] = 1 | 4 };

	return d < last_dims(k) || o >= k->inputs || walks[o] >> (d - last_dims(k)) & 1;
}

void attention_place(struct writer *w, unsigned o, const char *prefix, const char *row, const char *column) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(last_dims(k));
	struct needs one = { .operand = { false } };

	one.operand[o] = true;
	index.name[o == ATTENTION_Q || o == ATTENTION_MASK ? attention_queries(k) : attention_keys(k)] = row;
	if (o == ATTENTION_V)
		index.name[attention_columns(k)] = column;
	else
		index.name[o == ATTENTION_MASK ? attention_keys(k) : attention_depth(k)] = column;
	operand_place(w, &one, prefix, index.name);
}

bool attention_masks(const struct kernel *k) {
	return k->inputs > ATTENTION_MASK;
}

/* Vectors of a tile: with 32 registers 24 accumulators, with 16 of them 12. */
static unsigned tile_width(const struct kernel *k) {
	return k->width == 16 && dtype_info(k->accumulator)->bytes == 4 ? 4 : 2;
}

static struct stride stride_of(unsigned o, unsigned d) {
	struct stride s;

	snprintf(s.name, sizeof s.name, "s%u_%u", o, d);
	return s;
}

/* Writes "to_f32(load_bf16(p + 2 * ...))": W elements of an operand from a pointer, or fewer that lie apart. */
static void write_vector(struct writer *w, unsigned o, const char *from, const char *at, const char *stride,
	const char *count) {
	const struct dtype_info *type = dtype_info(w->k->operand[o].dtype);

	text_part(w, "to_%s(%s_%s(%s + %u * (%s)", dtype_info(w->k->accumulator)->name, stride ? "gather" : "load",
		type->name, from, type->bytes, at);
	if (stride)
		text_part(w, " * %s, %s, %s", stride, stride, count);
	text_part(w, "))");
}

/* "x = side by side ? ... : ...;" of elements `at` and on from a pointer, by their stride. */
static void write_either(struct writer *w, unsigned o, const char *to, const char *from, const char *at,
	const char *stride, const char *count) {
	text_line(w, "if (%s == 1)", stride);
	text_begin(w);
	text_part(w, "\t%s = ", to);
	write_vector(w, o, from, at, NULL, NULL);
	text_part(w, ";");
	text_end(w);
	text_line(w, "else");
	text_begin(w);
	text_part(w, "\t%s = ", to);
	write_vector(w, o, from, at, stride, count);
	text_part(w, ";");
	text_end(w);
}

/* ---- what is copied ---- */

static void write_queries(struct writer *w) {

	struct stride stride = stride_of(ATTENTION_Q, attention_depth(w->k));
	text_open(w, "for (int i = 0; i < height; i++)");
	text_line(w, "const long row = m0 + i;");
	attention_place(w, ATTENTION_Q, "q", "row", "place");
	text_open(w, "for (int d = 0; d < depth; d += W)");
	text_line(w, "const int n = min(depth - d, W);");
	write_either(w, ATTENTION_Q, "query[i][d / W]", "q0", "d", stride.name, "n");
	text_close(w);
	text_close(w);
}

/* Vectors of keys become vectors of places: W by W elements change places in registers. */
static void write_turned(struct writer *w) {
	text_open(w, "for (int v = 0; v < SCORES && v * W < keys; v++)");
	text_open(w, "for (int d = 0; d < depth; d += W)");
	text_line(w, "%s x[W];", value_lanes(w));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < W; i++)");
	text_line(w, "const long key = j0 + min(v * W + i, keys - 1), at = place + d;");
	attention_place(w, ATTENTION_K, "k", "key", "at");
	text_begin(w);
	text_part(w, "x[i] = ");
	write_vector(w, ATTENTION_K, "k1", "0", NULL, NULL);
	text_part(w, ";");
	text_end(w);
	text_close(w);
	text_line(w, "transpose_lanes(x);");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < W; i++)");
	text_line(w, "\tpanel[d + i][v] = x[i];");
	text_close(w);
	text_close(w);
}

/* Keys that do not lie side by side along their places: those of one place may. */
static void write_across(struct writer *w) {

	struct stride stride = stride_of(ATTENTION_K, attention_keys(w->k));
	text_open(w, "for (int d = 0; d < depth; d++)");
	text_line(w, "const long at = place + d;");
	attention_place(w, ATTENTION_K, "k", "j0", "at");
	text_open(w, "for (int v = 0; v < SCORES && v * W < keys; v++)");
	text_line(w, "const int n = min(keys - v * W, W);");
	write_either(w, ATTENTION_K, "panel[d][v]", "k1", "v * W", stride.name, "n");
	text_close(w);
	text_close(w);
}

static void write_keys(struct writer *w) {

	struct stride stride = stride_of(ATTENTION_K, attention_depth(w->k));
	text_open(w, "if (%s == 1)", stride.name);
	write_turned(w);
	w->depth--;
	text_open(w, "} else");
	write_across(w);
	text_close(w);
}

static void write_values(struct writer *w) {
	struct scope s = { .pointer = "w", .lane = "v * W", .count = "n" };

	text_open(w, "for (int j = 0; j < keys; j++)");
	text_line(w, "const long key = j0 + j, left = n0 + s * W;");
	attention_place(w, ATTENTION_V, "w", "key", "left");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", tile_width(w->k));
	text_line(w, "const int n = min(width - (s + v) * W, W);");
	text_line(w, "value[j][v] = (%s)(0);", value_lanes(w));
	text_line(w, "if (n <= 0)");
	text_line(w, "\tcontinue;");
	text_begin(w);
	text_part(w, "value[j][v] = to_%s(", dtype_info(w->k->accumulator)->name);
	operand_load(w, &s, ATTENTION_V);
	text_part(w, ");");
	text_end(w);
	text_close(w);
	text_close(w);
}

/* ---- tiles ---- */

/* sum = fma(left[t + i][k], right, sum) for k below `end`, a tile in registers; it begins at 0 unless `more`. */
static void write_tile(struct writer *w, unsigned vectors, const char *more, const char *sum, const char *left,
	const char *right, const char *end) {
	text_line(w, "%s c[%u][%u];", value_lanes(w), ATTENTION_ROWS, vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", ATTENTION_ROWS * vectors);
	text_line(w, "\tc[e / %u][e %% %u] = (%s)(0);", vectors, vectors, value_lanes(w));
	text_line(w, "if (%s)", more);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", ATTENTION_ROWS * vectors);
	text_line(w, "\tc[e / %u][e %% %u] = %s;", vectors, vectors, sum);
	text_open(w, "for (int k = 0; k < %s; k++)", end);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", ATTENTION_ROWS);
	text_line(w, "const %s a = (%s)(((private const %s *)%s[t + i])[k]);", value_lanes(w), value_lanes(w),
		value_lane(w->k->accumulator), left);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", vectors);
	value_add_product(w, "c[i][v]", "a", right);
	text_close(w);
	text_close(w);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", ATTENTION_ROWS * vectors);
	text_line(w, "\t%s = c[e / %u][e %% %u];", sum, vectors, vectors);
}

static void write_scores(struct writer *w) {
	unsigned vectors = tile_width(w->k);
	char sum[64];

	text_open(w, "for (long place = 0; place < d%u; place += %u)", attention_depth(w->k), ATTENTION_DEPTH);
	text_line(w, "const int depth = min(d%u - place, (long)%u);", attention_depth(w->k), ATTENTION_DEPTH);
	write_keys(w);
	text_open(w, "if (j0 == 0 || d%u > %u)", attention_depth(w->k), ATTENTION_DEPTH);
	write_queries(w);
	text_close(w);
	text_open(w, "for (int t = live; t < height; t += %u)", ATTENTION_ROWS);
	text_open(w, "for (int s = 0; s < SCORES; s += %u)", vectors);
	snprintf(sum, sizeof sum, "score[t + e / %u][s + e %% %u]", vectors, vectors);
	write_tile(w, vectors, "place > 0", sum, "query", "panel[k][s + v]", "depth");
	text_close(w);
	text_close(w);
	text_close(w);
}

/* What a mask does to vector v of a row of scores. */
static void write_mask(struct writer *w) {
	bool truth = w->k->operand[ATTENTION_MASK].dtype == DTYPE_bool;

	struct stride stride = stride_of(ATTENTION_MASK, attention_keys(w->k));
	text_open(w, "for (int v = 0; v < SCORES && v * W < keys; v++)");
	text_line(w, "const int n = min(keys - v * W, W);");
	text_line(w, "%s seen;", truth ? "u8v" : value_lanes(w));
	if (truth) {
		text_line(w, "if (%s == 1)", stride.name);
		text_line(w, "\tseen = load_bool(m3 + v * W);");
		text_line(w, "else");
		text_line(w, "\tseen = gather_bool(m3 + v * W * %s, %s, n);", stride.name, stride.name);
		text_line(w, "s[v] = where_(seen, s[v], %s);", attention_hidden(w).text);
	} else {
		write_either(w, ATTENTION_MASK, "seen", "m3", "v * W", stride.name, "n");
		text_line(w, "s[v] = s[v] + seen;");
	}
	text_close(w);
}

static void write_weights(struct writer *w) {
	text_open(w, "for (int i = live; i < height; i++)");
	text_line(w, "%s *const s = score[i];", value_lanes(w));
	if (w->k->causal)
		text_line(w, "const int seen = min((long)keys, m0 + i - j0 + 1);");
	else
		text_line(w, "const int seen = keys;");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < SCORES; v++)");
	text_line(w, "\ts[v] = s[v] * v%u;", w->k->reduced_value);
	if (attention_masks(w->k)) {
		text_line(w, "const long row = m0 + i;");
		attention_place(w, ATTENTION_MASK, "m", "row", "j0");
		write_mask(w);
	}
	text_line(w, "for (int v = seen / W; seen < %u && v < SCORES; v++)", KERNEL_ATTENTION_BLOCK);
	text_line(w, "\ts[v] = hide(max(seen - v * W, 0), s[v]);");
	text_line(w, "top[i] = highest(s);");
	text_close(w);
	text_line(w, "look(height - live, top + live, largest + live, base + live, shrink + live);");
	text_line(w, "for (int i = live; i < height; i++)");
	text_line(w, "\ttop[i] = weigh(score[i], base[i]);");
	text_line(w, "take_in(height - live, total + live, shrink + live, top + live);");
	text_line(w, "for (int i = live; j0 > 0 && i < height; i++)");
	text_line(w, "\tfor (int v = 0; shrink[i] != 1 && v < across; v++)");
	text_line(w, "\t\tsum[i * across + v] *= (%s)(shrink[i]);", value_lanes(w));
}

static void write_strip(struct writer *w, unsigned vectors) {
	char sum[80];

	text_open(w, "for (int t = live; across - s %s %u && t < height; t += %u)",
		vectors == tile_width(w->k) ? ">=" : "==", vectors, ATTENTION_ROWS);
	snprintf(sum, sizeof sum, "sum[(t + e / %u) * across + s + e %% %u]", vectors, vectors);
	write_tile(w, vectors, "j0 > 0", sum, "score", "value[k][v]", "keys");
	text_close(w);
}

/* The last strip is as wide as what is left, so that no width of a head is paid for as a wider one. */
static void write_sums(struct writer *w) {
	text_open(w, "for (int s = 0; s < across; s += %u)", tile_width(w->k));
	write_values(w);
	for (unsigned vectors = tile_width(w->k); vectors; vectors--)
		write_strip(w, vectors);
	text_close(w);
}

static void write_block(struct writer *w) {
	text_line(w, "const int keys = min(d%u - j0, (long)%u);", attention_keys(w->k), KERNEL_ATTENTION_BLOCK);
	text_line(w, "const int live = %s;", w->k->causal ? "max(j0 - m0, 0l)" : "0");
	write_scores(w);
	write_weights(w);
	write_sums(w);
}

/* ---- a unit ---- */

static void write_outputs(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "o", .lane = "l", .count = "n", .hoist = true };
	struct frame_names index = frame_names(last_dims(w->k));
	char root[80];

	index.name[attention_queries(w->k)] = "row";
	index.name[attention_columns(w->k)] = "n0";
	text_open(w, "for (int i = 0; i < height; i++)");
	text_line(w, "const long row = m0 + i;");
	operand_place(w, &w->outer, "o", index.name);
	value_write(w, &s, LEVEL_UNIT);
	text_open(w, "for (int l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, W);");
	snprintf(root, sizeof root, "div_(sum[i * across + l / W], (%s)(total[i]))", value_lanes(w));
	value_root(w, root);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
	text_close(w);
}

/* Rows beyond the last query are of the last tile, and of no result. */
static void write_memory(struct writer *w) {
	unsigned rows = (ATTENTION_TILES + 1) * ATTENTION_ROWS, vectors = tile_width(w->k);
	const char *type = value_lanes(w), *lane = value_lane(w->k->accumulator);

	text_line(w, "%s query[%u][%u / W], score[%u][SCORES], sum[%u * (%u / W)];", type, rows, ATTENTION_DEPTH, rows,
		rows, ATTENTION_COLUMNS);
	text_line(w, "%s panel[%u][SCORES], value[%u][%u];", type, ATTENTION_DEPTH, KERNEL_ATTENTION_BLOCK, vectors);
	/* Of rows, W at a time. */
	text_line(w, "%s largest[%u + W], total[%u + W], top[%u + W], base[%u + W], shrink[%u + W];", lane, rows, rows, rows, rows, rows);
}

/* Sets what no block has been added to. */
static void write_begin(struct writer *w) {
	text_line(w, "for (int i = height; i < height + %u; i++)", ATTENTION_ROWS);
	text_line(w, "\tfor (int v = 0; v < %u / W; v++)", ATTENTION_DEPTH);
	text_line(w, "\t\tquery[i][v] = (%s)(0);", value_lanes(w));
	text_open(w, "for (int i = 0; i < height + W; i++)");
	text_line(w, "largest[i] = -INFINITY;");
	text_line(w, "total[i] = top[i] = 0;");
	text_close(w);
}

void attention_lanes(struct writer *w) {
	const struct kernel *k = w->k;

	frame_units(w);
	text_line(w, "const long rows = r[%u] * %u;", KERNEL_WORD_PIECES, ATTENTION_ROWS);
	write_memory(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long m0 = take(&rest, (d%u + rows - 1) / rows) * rows;", attention_queries(k));
	text_line(w, "const long n0 = take(&rest, (d%u + %u) / %u) * %u;", attention_columns(k), ATTENTION_COLUMNS - 1,
		ATTENTION_COLUMNS, ATTENTION_COLUMNS);
	frame_indices(w, 0, last_dims(k));
	text_line(w, "const int height = min(d%u - m0, rows), width = min(d%u - n0, (long)%u);", attention_queries(k),
		attention_columns(k), ATTENTION_COLUMNS);
	text_line(w, "const int across = (width + W - 1) / W;");
	text_line(w, k->causal ? "const long seen = min(d%u, m0 + height);" : "const long seen = d%u;", attention_keys(k));
	write_begin(w);
	text_open(w, "for (long j0 = 0; j0 < seen; j0 += %u)", KERNEL_ATTENTION_BLOCK);
	write_block(w);
	text_close(w);
	write_outputs(w);
	text_close(w);
}

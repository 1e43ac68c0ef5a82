/*
 * Attention: blocks of 64 keys with a running maximum and sum, never a matrix of scores.
 *
 * CPU strategy: a unit is up to 192 queries by up to 256 columns of the result, and the lanes of scores and weights are queries.
 * The queries are turned once, so that those of one place lie side by side, times the scale. For each block of keys their scores are computed in
 * tiles of keys by vectors of queries with the accumulators in registers; scores become weights in steps that never leave their lanes, because the
 * keys of a query are below each other; and the weighted values are added up in tiles of 4 queries by a strip of columns. What is copied may be of
 * any type and stride, and costs little against what all queries of the unit do with it. Causal, a query leaves out the blocks whose keys all come
 * after it, whatever unit it is in.
 *
 * On a processor with 16 lanes of f32 the two products take 79 of 100 parts of the time, at the peak of its multipliers; 8 are
 * exponentials, 7 copies, 4 the ends of tiles. Reading keys and values where they lie instead of copies of them is 1 % faster, and two texts.
 * Lanes along keys cost a turn of each block of keys in each unit, and two trees over lanes a query and block: 8 % more in all.
 *
 * What the root reads: queries over batch and M, D; keys over batch and S, D; values over batch and S, N; a mask
 * over batch and M, S. Results are over batch, M and N.
 */
#include "writer.h"

#include <stdio.h>

enum {
	/* Places of keys that lie in a panel at once. */
	ATTENTION_DEPTH = 128,
	/* Vectors of queries of a tile of scores. */
	ATTENTION_ABREAST = 3,
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

static bool many_registers(const struct kernel *k) {
	return k->width == 16 && dtype_info(k->accumulator)->bytes == 4;
}

/* Columns of a tile of sums, in vectors: with 32 registers 16 accumulators, with 16 of them 12. */
static unsigned tile_width(const struct kernel *k) {
	return many_registers(k) ? 4 : 3;
}

/* Keys of a tile of scores, a part of a block: 24 accumulators, or 12. */
static unsigned tile_keys(const struct kernel *k) {
	return many_registers(k) ? 8 : 4;
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

/* Vectors of places become vectors of queries: W by W elements change places in registers. Behind the last query it is read again. */
static void write_turned(struct writer *w) {
	text_open(w, "for (int d = 0; d < depth; d += W)");
	text_line(w, "%s x[W];", value_lanes(w));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < W; i++)");
	text_line(w, "const long row = m0 + min(v * W + i, height - 1), at = place + d;");
	attention_place(w, ATTENTION_Q, "q", "row", "at");
	text_begin(w);
	text_part(w, "x[i] = ");
	write_vector(w, ATTENTION_Q, "q0", "0", NULL, NULL);
	text_part(w, ";");
	text_end(w);
	text_close(w);
	text_line(w, "transpose_lanes(x);");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < W; i++)");
	text_line(w, "\tquery[d + i][v] = x[i] * v%u;", w->k->reduced_value);
	text_close(w);
}

/* Queries that do not lie side by side along their places: those of one place may. */
static void write_across(struct writer *w) {
	struct stride stride = stride_of(ATTENTION_Q, attention_queries(w->k));

	text_line(w, "const int n = min(height - v * W, W);");
	text_open(w, "for (int d = 0; d < depth; d++)");
	text_line(w, "const long row = m0 + v * W, at = place + d;");
	attention_place(w, ATTENTION_Q, "q", "row", "at");
	write_either(w, ATTENTION_Q, "query[d][v]", "q0", "0", stride.name, "n");
	text_line(w, "query[d][v] *= v%u;", w->k->reduced_value);
	text_close(w);
}

static void write_queries(struct writer *w) {
	struct stride stride = stride_of(ATTENTION_Q, attention_depth(w->k));

	text_open(w, "for (int v = 0; v < deep; v++)");
	text_open(w, "if (%s == 1)", stride.name);
	write_turned(w);
	w->depth--;
	text_open(w, "} else");
	write_across(w);
	text_close(w);
	text_close(w);
}

static void write_keys(struct writer *w) {
	struct stride stride = stride_of(ATTENTION_K, attention_depth(w->k));

	text_open(w, "for (int j = 0; j < keys; j++)");
	text_line(w, "const long key = j0 + j;");
	attention_place(w, ATTENTION_K, "k", "key", "place");
	text_open(w, "for (int d = 0; d < depth; d += W)");
	text_line(w, "const int n = min(depth - d, W);");
	write_either(w, ATTENTION_K, "panel[j][d / W]", "k1", "d", stride.name, "n");
	text_close(w);
	text_close(w);
}

static void write_values(struct writer *w, unsigned vectors) {
	struct scope s = { .pointer = "w", .lane = "v * W", .count = "n" };

	text_open(w, "for (int j = 0; j < keys; j++)");
	text_line(w, "const long key = j0 + j, left = n0 + s * W;");
	attention_place(w, ATTENTION_V, "w", "key", "left");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", vectors);
	text_line(w, "const int n = min(width - (s + v) * W, W);");
	text_begin(w);
	text_part(w, "value[j][v] = to_%s(", dtype_info(w->k->accumulator)->name);
	operand_load(w, &s, ATTENTION_V);
	text_part(w, ");");
	text_end(w);
	text_close(w);
	text_close(w);
}

/* ---- tiles ---- */

struct tile {
	unsigned rows, vectors;
	const char *more, *before; /* it begins at `before` where there is `more`, else at 0 */
	const char *left, *right;  /* lane (k, t + i) and vector (k, v) */
	const char *to, *end;
};

/* to = before + the sum of left * right for k below `end`, in order: a tile in registers. */
static void write_tile(struct writer *w, const struct tile *tile) {
	unsigned vectors = tile->vectors, all = tile->rows * vectors;

	text_line(w, "%s c[%u][%u];", value_lanes(w), tile->rows, vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", all);
	text_line(w, "\tc[e / %u][e %% %u] = (%s)(0);", vectors, vectors, value_lanes(w));
	text_line(w, "if (%s)", tile->more);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", all);
	text_line(w, "\tc[e / %u][e %% %u] = %s;", vectors, vectors, tile->before);
	text_open(w, "for (int k = 0; k < %s; k++)", tile->end);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", tile->rows);
	text_line(w, "const %s a = (%s)(%s);", value_lanes(w), value_lanes(w), tile->left);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", vectors);
	value_add_product(w, "c[i][v]", "a", tile->right);
	text_close(w);
	text_close(w);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", all);
	text_line(w, "\t%s = c[e / %u][e %% %u];", tile->to, vectors, vectors);
}

/*
 * "for each strip of so many vectors of `all`, from `first` on": as many as a tile has, or what is left; but none is one vector where
 * it can be two, for that has too few accumulators to hide how long a product takes.
 */
static void open_strips(struct writer *w, const char *at, const char *first, const char *all, unsigned most) {
	text_open(w, "for (int %s = %s, wide; %s < %s; %s += wide)", at, first, at, all, at);
	text_line(w, "wide = %s - %s == %u ? %u : min(%s - %s, %u);", all, at, most + 1, most - 1, all, at, most);
}

static void write_score_tiles(struct writer *w, unsigned vectors) {
	unsigned rows = tile_keys(w->k);
	char left[64], to[64];

	snprintf(left, sizeof left, "((private const %s *)panel[t + i])[k]", value_lane(w->k->accumulator));
	snprintf(to, sizeof to, "score[t + e / %u][q + e %% %u]", vectors, vectors);
	text_open(w, "for (int t = 0; wide == %u && t < keys; t += %u)", vectors, rows);
	write_tile(w, &(struct tile){ .rows = rows, .vectors = vectors, .more = "place > 0", .before = to, .left = left,
		.right = "query[k][q + v]", .to = to, .end = "depth" });
	text_close(w);
}

static void write_scores(struct writer *w) {
	text_open(w, "for (long place = 0; place < d%u; place += %u)", attention_depth(w->k), ATTENTION_DEPTH);
	text_line(w, "const int depth = min(d%u - place, (long)%u);", attention_depth(w->k), ATTENTION_DEPTH);
	write_keys(w);
	text_open(w, "if (j0 == 0 || d%u > %u)", attention_depth(w->k), ATTENTION_DEPTH);
	write_queries(w);
	text_close(w);
	open_strips(w, "q", "live / W", "deep", ATTENTION_ABREAST);
	for (unsigned vectors = ATTENTION_ABREAST; vectors; vectors--)
		write_score_tiles(w, vectors);
	text_close(w);
	text_close(w);
}

/* ---- scores become weights ---- */

/* Vector x[i] of a mask: what query i of vector v has for the keys from `at` on. */
static void write_seen(struct writer *w, bool truth) {
	struct stride stride = stride_of(ATTENTION_MASK, attention_keys(w->k));

	text_line(w, "const long row = m0 + min(v * W + i, height - 1);");
	attention_place(w, ATTENTION_MASK, "m", "row", "first");
	if (!truth) {
		write_either(w, ATTENTION_MASK, "x[i]", "m3", "0", stride.name, "n");
		return;
	}
	text_line(w, "u8v seen;");
	text_line(w, "if (%s == 1)", stride.name);
	text_line(w, "\tseen = load_bool(m3);");
	text_line(w, "else");
	text_line(w, "\tseen = gather_bool(m3, %s, n);", stride.name);
	text_line(w, "x[i] = where_(seen, (%s)(1), (%s)(0));", value_lanes(w), value_lanes(w));
}

/* What a mask does to vector v of all keys' scores: W queries of it by W keys change places. */
static void write_mask(struct writer *w) {
	bool truth = w->k->operand[ATTENTION_MASK].dtype == DTYPE_bool;

	text_open(w, "for (int at = 0; at < keys; at += W)");
	text_line(w, "const long first = j0 + at;");
	text_line(w, "const int n = min(keys - at, W);");
	text_line(w, "%s x[W];", value_lanes(w));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < W; i++)");
	write_seen(w, truth);
	text_close(w);
	text_line(w, "transpose_lanes(x);");
	text_open(w, "for (int i = 0; i < n; i++)");
	if (truth)
		text_line(w, "score[at + i][v] = x[i] != (%s)(0) ? score[at + i][v] : %s;", value_lanes(w), attention_hidden(w).text);
	else
		text_line(w, "score[at + i][v] += x[i];");
	text_close(w);
	text_close(w);
}

static void write_weights(struct writer *w) {
	text_open(w, "for (int v = live / W; v < deep; v++)");
	if (attention_masks(w->k))
		write_mask(w);
	if (w->k->causal) {
		text_line(w, "const int before = m0 - j0 + v * W;");
		text_line(w, "for (int j = max(before + 1, 0); j < keys; j++)");
		text_line(w, "\tscore[j][v] = hide(j - before, score[j][v]);");
	}
	text_line(w, "for (int j = keys; j < %u; j++)", KERNEL_ATTENTION_BLOCK);
	text_line(w, "\tscore[j][v] = (%s)(-INFINITY);", value_lanes(w));
	text_line(w, "weigh(score[0] + v, %u / W, largest + v, shrink + v, total + v);", ATTENTION_QUERIES);
	text_close(w);
}

static void write_strip(struct writer *w, unsigned vectors) {
	const char *lane = value_lane(w->k->accumulator);
	char to[80], before[160], left[64];

	snprintf(to, sizeof to, "sum[(t + e / %u) * across + s + e %% %u]", vectors, vectors);
	snprintf(before, sizeof before, "%s * (%s)(((private const %s *)shrink)[t + e / %u])", to, value_lanes(w), lane, vectors);
	snprintf(left, sizeof left, "((private const %s *)score[k])[t + i]", lane);
	text_open(w, "if (wide == %u)", vectors);
	write_values(w, vectors);
	text_open(w, "for (int t = live; t < height; t += %u)", ATTENTION_ROWS);
	write_tile(w, &(struct tile){ .rows = ATTENTION_ROWS, .vectors = vectors, .more = "j0 > 0", .before = before, .left = left,
		.right = "value[k][v]", .to = to, .end = "keys" });
	text_close(w);
	text_close(w);
}

/* The last strip is as wide as what is left, so that no width of a head is paid for as a wider one. */
static void write_sums(struct writer *w) {
	open_strips(w, "s", "0", "across", tile_width(w->k));
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
	char root[120];

	index.name[attention_queries(w->k)] = "row";
	index.name[attention_columns(w->k)] = "n0";
	text_open(w, "for (int i = 0; i < height; i++)");
	text_line(w, "const long row = m0 + i;");
	operand_place(w, &w->outer, "o", index.name);
	value_write(w, &s, LEVEL_UNIT);
	text_open(w, "for (int l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, W);");
	snprintf(root, sizeof root, "div_(sum[i * across + l / W], (%s)(((private const %s *)total)[i]))", value_lanes(w),
		value_lane(w->k->accumulator));
	value_root(w, root);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
	text_close(w);
}

/* Queries beyond the last one are of its vector, or of its tile, and of no result. */
static void write_memory(struct writer *w) {
	unsigned all = ATTENTION_QUERIES;
	const char *type = value_lanes(w);

	text_line(w, "%s query[%u][%u / W], score[%u][%u / W], sum[%u * (%u / W)];", type, ATTENTION_DEPTH, all, KERNEL_ATTENTION_BLOCK, all,
		all, ATTENTION_COLUMNS);
	text_line(w, "%s panel[%u][%u / W], value[%u][%u];", type, KERNEL_ATTENTION_BLOCK, ATTENTION_DEPTH, KERNEL_ATTENTION_BLOCK,
		tile_width(w->k));
	text_line(w, "%s largest[%u / W], total[%u / W], shrink[%u / W];", type, all, all, all);
}

/* Sets what no block has been added to. */
static void write_begin(struct writer *w) {
	text_open(w, "for (int v = 0; v < deep; v++)");
	text_line(w, "largest[v] = (%s)(-INFINITY);", value_lanes(w));
	text_line(w, "total[v] = (%s)(0);", value_lanes(w));
	text_close(w);
}

void attention_lanes(struct writer *w) {
	const struct kernel *k = w->k;

	frame_units(w);
	text_line(w, "const long rows = r[%u] * %u;", KERNEL_WORD_PIECES, ATTENTION_PIECE);
	write_memory(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long m0 = take(&rest, (d%u + rows - 1) / rows) * rows;", attention_queries(k));
	text_line(w, "const long n0 = take(&rest, (d%u + %u) / %u) * %u;", attention_columns(k), ATTENTION_COLUMNS - 1,
		ATTENTION_COLUMNS, ATTENTION_COLUMNS);
	frame_indices(w, 0, last_dims(k));
	text_line(w, "const int height = min(d%u - m0, rows), width = min(d%u - n0, (long)%u);", attention_queries(k),
		attention_columns(k), ATTENTION_COLUMNS);
	text_line(w, "const int across = (width + W - 1) / W, deep = (height + W - 1) / W;");
	text_line(w, k->causal ? "const long seen = min(d%u, m0 + height);" : "const long seen = d%u;", attention_keys(k));
	write_begin(w);
	text_open(w, "for (long j0 = 0; j0 < seen; j0 += %u)", KERNEL_ATTENTION_BLOCK);
	write_block(w);
	text_close(w);
	write_outputs(w);
	text_close(w);
}

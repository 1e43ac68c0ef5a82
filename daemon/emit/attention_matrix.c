/*
 * Attention of 16-bit floats, GPU strategy, by instructions that multiply matrices in f32 (kernels/matrix.cl), on devices
 * that have them: the steps of attention.c, with weights rounded to the type of the values, as the instructions want them.
 *
 * A block of 32 items has 16 queries, or two times 16. What it multiplies stays in registers: the queries all the time, the scores of
 * a block of 64 keys, which become weights and then, as they lie, the first factor of the second product, and its sums. An
 * item holds pairs of neighbours, of rows that are 8 apart. Keys and values are copied to local memory as they lie without passing through registers:
 * the values of a block while its scores are computed, the keys of the next one while its values are added up. The sum of the weights
 * is that of one more column of values, all 1, so that what the weights are rounded by is divided out again.
 *
 * Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023, has the structure.
 */
#include "writer.h"

#include <stdio.h>

enum {
	/* What an instruction multiplies: rows, columns, and of K. */
	STEP_ROWS = 16,
	STEP_COLUMNS = 8,
	STEP_DEPTH = 16,
	/* Elements that are copied at once. */
	LANES = 8,
	/* Elements from one key to the next, of which a block's bytes are an int. */
	ALONG_MOST = 1 << 23,
	KEYS = KERNEL_ATTENTION_BLOCK,
	SCORES = KEYS / STEP_COLUMNS,
};

_Static_assert(KERNEL_TILE_BLOCK == 32, "what kernels/matrix.cl speaks of");

/* Columns of the result of an item's rows, by STEP_COLUMNS. */
static unsigned columns(const struct writer *w) {
	return w->k->wide * (STEP_DEPTH / STEP_COLUMNS);
}

/* Those of a key that lie side by side in local memory. */
static unsigned across(const struct writer *w) {
	return w->k->wide <= 4 ? 64 : 128;
}

/* Places of a key that lie side by side in local memory. */
static unsigned chunk(const struct writer *w) {
	return w->k->steps * STEP_DEPTH <= 32 ? 32 : 64;
}

/* ... how many such pieces of a key: a power of two, so that items copy the same place of several keys. */
static unsigned chunks(const struct writer *w) {
	unsigned places = w->k->steps * STEP_DEPTH;

	return places <= 64 ? 1 : places <= 128 ? 2 : 4;
}

/* Rows of an item: 8 apart. */
static unsigned rows(const struct writer *w) {
	return 2 * kernel_attention_blocks(w->k);
}

/* ---- what is copied ---- */

/*
 * "fetch_keys": a block of them, of which so many are left. The item's first vector, at `from`, is of key `first` from
 * `place` on, of which n elements are there; its others are of keys behind that.
 */
static void define_fetch(struct writer *w, const char *name, unsigned vectors, const char *to) {
	unsigned items = kernel_attention_items(w->k), apart = items / vectors;

	text_line(w, "static inline void fetch_%s(local ushort *tile, global const uchar *from, int first, int place, int n, int left,", name);
	text_open(w, "\tlong along, long over, int whole)");
	for (unsigned whole = 2; whole-- > 0;) {
		text_open(w, whole ? "if (whole)" : "else");
		text_line(w, "const %s step = along * %u;", whole ? "int" : "long", 2 * apart);
		text_line(w, whole ? "#pragma unroll" : "#pragma unroll 1");
		text_open(w, "for (int i = 0; i < %u; i++)", KEYS * vectors / items);
		text_line(w, "const int key = first + i * %u, m = key < left ? n : 0;", apart);
		text_line(w, "matrix_%s(tile + %s, from + i * step, m%s);", whole ? "copy" : "gather", to, whole ? "" : ", over");
		text_close(w);
		text_close(w);
	}
	text_close(w);
}

static void define_fetches(struct writer *w) {
	char to[96];

	snprintf(to, sizeof to, "place / %u * %u + matrix_deep(%u, key, place %% %u)", chunk(w), chunk(w) * KEYS, chunk(w), chunk(w));
	define_fetch(w, "keys", chunk(w) * chunks(w) / LANES, to);
	snprintf(to, sizeof to, "matrix_across(%u, place, key)", across(w));
	define_fetch(w, "values", across(w) / LANES, to);
}

/* ---- products ---- */

/* "scores": of the block's queries by the keys in local memory. */
static void define_scores(struct writer *w) {
	text_open(w, "static inline void scores(f32v (*s)[%u], const uint (*query)[%u][4], local const ushort *tile, int lane)", SCORES,
		w->k->steps);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", rows(w) * SCORES);
	text_line(w, "\ts[e / %u][e %% %u] = 0;", SCORES, SCORES);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int t = 0; t < %u; t++)", w->k->steps);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v += 2)", SCORES);
	text_line(w, "const int key = v * %u + lane %% 8 + lane / 16 * 8, k = t * %u + lane / 8 %% 2 * 8;", STEP_COLUMNS, STEP_DEPTH);
	text_line(w, "uint b[4];");
	text_line(w, "matrix_load(b, tile + k / %u * %u + matrix_deep(%u, key, k %% %u));", chunk(w), chunk(w) * KEYS, chunk(w), chunk(w));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", kernel_attention_blocks(w->k));
	text_line(w, "matrix_multiply(&s[2 * i][v], &s[2 * i + 1][v], query[i][t], b);");
	text_line(w, "matrix_multiply(&s[2 * i][v + 1], &s[2 * i + 1][v + 1], query[i][t], b + 2);");
	text_close(w);
	text_close(w);
	text_close(w);
	text_close(w);
}

/* "add_values": the values in local memory by the weights s; total, the weights themselves. */
static void define_add_values(struct writer *w) {
	text_open(w, "static inline void add_values(f32v (*sum)[%u], f32v *total, f32v (*s)[%u], local const ushort *tile, int lane)",
		columns(w), SCORES);
	text_line(w, "const uint ones[2] = { MATRIX_ONES, MATRIX_ONES };");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int t = 0; t < %u; t++)", KEYS / STEP_DEPTH);
	text_line(w, "uint a[%u][4];", kernel_attention_blocks(w->k));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", kernel_attention_blocks(w->k));
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < 4; e++)");
	text_line(w, "\ta[i][e] = matrix_pack(s[2 * i + e %% 2][2 * t + e / 2]);");
	text_line(w, "matrix_multiply(&total[2 * i], &total[2 * i + 1], a[i], ones);");
	text_close(w);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v += 2)", columns(w));
	text_line(w, "uint b[4];");
	text_line(w, "matrix_load_turned(b, tile + matrix_across(%u, v * %u + lane / 16 * 8, t * %u + lane %% 16));", across(w),
		STEP_COLUMNS, STEP_DEPTH);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", kernel_attention_blocks(w->k));
	text_line(w, "matrix_multiply(&sum[2 * i][v], &sum[2 * i + 1][v], a[i], b);");
	text_line(w, "matrix_multiply(&sum[2 * i][v + 1], &sum[2 * i + 1][v + 1], a[i], b + 2);");
	text_close(w);
	text_close(w);
	text_close(w);
	text_close(w);
}

void attention_matrix_functions(struct writer *w) {
	define_fetches(w);
	define_scores(w);
	define_add_values(w);
	text_blank(w);
}

/* ---- scores become weights ---- */

static void open_rows(struct writer *w) {
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", rows(w));
}

static void open_scores(struct writer *w) {
	open_rows(w);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", SCORES);
}

/* The mask's part of one score. */
static void write_mask(struct writer *w, unsigned lane) {
	const struct kernel *k = w->k;
	bool truth = k->operand[ATTENTION_MASK].dtype == DTYPE_bool;

	text_open(w, "if (query < d%u && key + %u < d%u)", attention_queries(k), lane, attention_keys(k));
	text_line(w, "const long there = key + %u;", lane);
	attention_place(w, ATTENTION_MASK, "m", "query", "there");
	text_begin(w);
	text_part(w, truth ? "if (!(" : "s[i][v].s%u += (to_%s(", lane, dtype_info(k->accumulator)->name);
	operand_load(w, &(struct scope){ .pointer = "m" }, ATTENTION_MASK);
	text_part(w, truth ? ").s0)" : ")).s0;");
	text_end(w);
	if (truth)
		text_line(w, "\ts[i][v].s%u = hidden;", lane);
	text_close(w);
}

static void write_masks(struct writer *w) {
	const struct kernel *k = w->k;

	open_scores(w);
	text_line(w, "s[i][v] *= scale;");
	if (attention_masks(k)) {
		text_line(w, "const long query = own_row + i * 8, key = j0 + pair + v * %u;", STEP_COLUMNS);
		for (unsigned lane = 0; lane < 2; lane++)
			write_mask(w, lane);
	}
	text_close(w);
	text_close(w);
}

/* Keys that the block's first query does not see, or that are none. */
static void write_hidden(struct writer *w) {
	const struct kernel *k = w->k;

	text_open(w, k->causal ? "if (j0 + %u > min(last, top_row + 1))" : "if (j0 + %u > last)", KEYS);
	text_line(w, "MATRIX_APART();");
	open_scores(w);
	text_line(w, "const int key = j0 + pair + v * %u, beyond = %s;", STEP_COLUMNS, k->causal ? "min(last, own_row + i * 8 + 1)" : "last");
	for (unsigned lane = 0; lane < 2; lane++) {
		text_line(w, "if (key + %u >= beyond)", lane);
		text_line(w, "\ts[i][v].s%u = -INFINITY;", lane);
	}
	text_close(w);
	text_close(w);
	text_close(w);
}

/* The four items of a row find its largest score; then all weights. */
static void write_weights(struct writer *w) {
	const char *unit = attention_masks(w->k) ? "LOG2_E * " : "";

	open_rows(w);
	text_line(w, "float top = matrix_max(s[i][0].s0, s[i][0].s1);");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 1; v < %u; v++)", SCORES);
	text_line(w, "\ttop = matrix_max(top, matrix_max(s[i][v].s0, s[i][v].s1));");
	text_line(w, "top = matrix_max(top, matrix_beside(top, 1));");
	text_line(w, "top = matrix_max(matrix_max(top, matrix_beside(top, 2)), largest[i]);");
	text_line(w, "const float base = top == -INFINITY ? 0 : top;");
	text_line(w, "const float shrink = top == largest[i] ? 1 : matrix_exp2(%s(largest[i] - base));", unit);
	text_line(w, "largest[i] = top;");
	text_line(w, "total[i] *= shrink;");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", columns(w));
	text_line(w, "\tsum[i][v] *= shrink;");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", SCORES);
	text_line(w, "\ts[i][v] = (f32v)(matrix_exp2(%s(s[i][v].s0 - base)), matrix_exp2(%s(s[i][v].s1 - base)));", unit, unit);
	text_close(w);
}

/* ---- a unit ---- */

/* A stride that has no name where it is known. */
static void write_stride(struct writer *w, const char *name, unsigned o, unsigned d) {
	uint8_t access = d == w->lane_dim ? w->k->operand[o].access : KERNEL_STRIDED;

	if (access == KERNEL_STRIDED)
		text_line(w, "const long %s = s%u_%u;", name, o, d);
	else
		text_line(w, "const long %s = %u;", name, access == KERNEL_CONTIGUOUS ? 1 : 0);
}

/* Where the item's first vectors of keys and values lie, and how they step. */
static void write_places(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned deep = chunk(w) * chunks(w) / LANES, wide = across(w) / LANES;

	attention_place(w, ATTENTION_K, "k", "none", "none");
	write_stride(w, "key_along", ATTENTION_K, attention_keys(k));
	write_stride(w, "key_down", ATTENTION_K, attention_depth(k));
	text_line(w, "const int key_whole = key_down == 1 && key_along %% %u == 0 && key_along < %u && ((ulong)k%u & 15) == 0;", LANES, ALONG_MOST, ATTENTION_K);
	text_line(w, "const int key_first = item / %u, key_place = item %% %u * %u, key_n = clamp(depth - key_place, 0, %u);", deep, deep, LANES, LANES);
	text_line(w, "global const uchar *key_from = k%u + 2 * (key_first * key_along + key_place * key_down);", ATTENTION_K);
	attention_place(w, ATTENTION_V, "w", "none", "n0");
	write_stride(w, "value_along", ATTENTION_V, attention_keys(k));
	write_stride(w, "value_over", ATTENTION_V, attention_columns(k));
	text_line(w, "const int value_whole = value_over == 1 && value_along %% %u == 0 && value_along < %u && ((ulong)w%u & 15) == 0;", LANES,
		ALONG_MOST, ATTENTION_V);
	text_line(w, "const int value_first = item / %u, value_place = item %% %u * %u, value_n = clamp(width - value_place, 0, %u);", wide, wide, LANES,
		LANES);
	text_line(w, "global const uchar *value_from = w%u + 2 * (value_first * value_along + value_place * value_over);", ATTENTION_V);
}

static void write_queries(struct writer *w) {
	const struct kernel *k = w->k;

	write_stride(w, "query_down", ATTENTION_Q, attention_depth(k));
	text_line(w, "uint query[%u][%u][4];", kernel_attention_blocks(k), k->steps);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int e = 0; e < %u; e++)", kernel_attention_blocks(k) * k->steps * 4);
	text_line(w, "const int i = e / %u, t = e / 4 %% %u, right = e / 2 %% 2;", k->steps * 4, k->steps);
	text_line(w, "const long row = own_row + i * %u + e %% 2 * 8;", STEP_ROWS);
	text_line(w, "const int at = t * %u + right * 8 + pair;", STEP_DEPTH);
	attention_place(w, ATTENTION_Q, "q", "row", "at");
	text_line(w, "query[i][t][e %% 4] = matrix_pair(q%u, query_down, row < d%u ? depth - at : 0);", ATTENTION_Q,
		attention_queries(k));
	text_close(w);
}

static void write_zeros(struct writer *w) {
	text_line(w, "f32v s[%u][%u], sum[%u][%u], total[%u];", rows(w), SCORES, rows(w), columns(w), rows(w));
	text_line(w, "float largest[%u];", rows(w));
	open_rows(w);
	text_line(w, "largest[i] = -INFINITY;");
	text_line(w, "total[i] = 0;");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", columns(w));
	text_line(w, "\tsum[i][v] = 0;");
	text_close(w);
}

/* Sends the block of keys that begins at `from` on its way. */
static void write_fetch_keys(struct writer *w, const char *from) {
	text_line(w, "fetch_keys(tile_k, key_from, key_first, key_place, key_n, min(last - (%s), %u), key_along, key_down, key_whole);", from, KEYS);
	text_line(w, "key_from += %u * key_along;", 2 * KEYS);
	text_line(w, "MATRIX_GROUP();");
}

static void write_fetch_values(struct writer *w) {
	text_line(w, "fetch_values(tile_v, value_from, value_first, value_place, value_n, min(last - j0, %u), value_along, value_over, value_whole);",
		KEYS);
	text_line(w, "value_from += %u * value_along;", 2 * KEYS);
	text_line(w, "MATRIX_GROUP();");
}

/* What all items have copied is there, and all have done with what was read before. */
static void write_wait(struct writer *w) {
	text_line(w, "MATRIX_WAIT(0);");
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

/* Causal, blocks of items leave out the keys that all come after their queries. */
static void open_live(struct writer *w) {
	if (w->k->causal)
		text_open(w, "if (j0 < top_row + %u)", kernel_attention_blocks(w->k) * STEP_ROWS);
}

static void close_live(struct writer *w) {
	if (w->k->causal)
		text_close(w);
}

static void write_blocks(struct writer *w) {
	const struct kernel *k = w->k;
	char next[24];

	text_line(w, k->causal ? "const int seen = min((long)last, m0 + %u);" : "const int seen = last;", k->rows);
	write_fetch_keys(w, "0");
	text_line(w, "#pragma unroll 1");
	text_open(w, "for (int j0 = 0; j0 < seen; j0 += %u)", KEYS);
	write_wait(w);
	write_fetch_values(w);
	open_live(w);
	text_line(w, "scores(s, query, tile_k, lane);");
	write_masks(w);
	write_hidden(w);
	write_weights(w);
	close_live(w);
	write_wait(w);
	snprintf(next, sizeof next, "j0 + %u", (unsigned)KEYS);
	text_open(w, "if (%s < seen)", next);
	write_fetch_keys(w, next);
	text_close(w);
	open_live(w);
	text_line(w, "add_values(sum, total, s, tile_v, lane);");
	close_live(w);
	text_close(w);
}

static void write_outputs(struct writer *w) {
	/* Where results go is read again, so that no register holds it all the time. */
	text_line(w, "MATRIX_APART();");
	frame_record(w);
	operand_declare(w);
	text_line(w, "const long column = n0 + pair;");
	sums_outputs(w, &(struct sums){ .dim = attention_queries(w->k), .rows = rows(w), .row = "own_row + i * 8", .vectors = columns(w),
		.apart = STEP_COLUMNS, .of_row = "const f32v share = div_((f32v)(1), total[i]);", .value = "sum[i][v] * share" });
}

void attention_matrix(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned group = kernel_attention_columns(k);

	text_line(w, "local ushort tile_k[%u] __attribute__((aligned(128)));", KEYS * chunk(w) * chunks(w));
	text_line(w, "local ushort tile_v[%u] __attribute__((aligned(128)));", KEYS * across(w));
	text_line(w, "const int item = get_local_id(0), lane = item %% %u, pair = lane %% 4 * 2;", KERNEL_TILE_BLOCK);
	text_line(w, "const long none = 0;");
	text_line(w, "const int last = d%u, depth = d%u;", attention_keys(k), attention_depth(k));
	text_line(w, "#define LOG2_E 1.44269504f");
	/* Scores are logarithms to base 2, but for those that a mask is added to, which may be the least number there is. */
	text_line(w, attention_masks(k) ? "const float scale = v%u.s0;" : "const float scale = v%u.s0 * LOG2_E;", k->reduced_value);
	if (attention_masks(k) && k->operand[ATTENTION_MASK].dtype == DTYPE_bool)
		text_line(w, "const float hidden = (%s).s0;", attention_hidden(w).text);
	/* A group has one unit: a loop over more would hold registers. */
	text_line(w, "ulong rest = get_group_id(0);");
	text_line(w, "const long n0 = take(&rest, (d%u + %u) / %u) * %u;", attention_columns(k), group - 1, group, group);
	text_line(w, "const long tiles = (d%u + %u) / %u, tile = take(&rest, tiles);", attention_queries(k), k->rows - 1u, k->rows);
	text_line(w, "const long m0 = %s * %u;", k->causal ? "(tiles - 1 - tile)" : "tile", k->rows);
	frame_indices(w, 0, k->rank - 4u);
	text_line(w, "const int width = min(d%u - n0, (long)%u);", attention_columns(k), group);
	text_line(w, "const int top_row = m0 + item / %u * %u, own_row = top_row + lane / 4;", KERNEL_TILE_BLOCK,
		kernel_attention_blocks(k) * STEP_ROWS);
	write_places(w);
	write_queries(w);
	write_zeros(w);
	write_blocks(w);
	text_line(w, "{");
	w->depth++;
	write_outputs(w);
	text_close(w);
}

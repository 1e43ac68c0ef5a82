/*
 * Attention, GPU strategy: the arithmetic of attention.c, in the same order.
 *
 * A group has `rows` queries, four for every 16 items, and 64 columns of the result. For a block of 64 keys it computes the
 * scores as a product, 4 queries by 4 keys an item, from tiles in local memory in which what an item reads lies side by side:
 * queries turned, and of keys those that are 16 apart. So the first two steps of the sum's tree stay in an item's registers and
 * the last four are those of a row of items. The weights go to local memory, turned as well, where all items of their row read
 * them while they add up 4 queries by 4 columns.
 *
 * What comes next in a block is on its way into registers while a tile is multiplied. A result of more than 64 columns has 8 of them an item, 4
 * apart from 4; one of more than 128 is so many units, each of which computes the scores. Where queries see the keys before them alone,
 * those that see most come first, so that none begins when all others are done.
 */
#include "writer.h"

#include <stdio.h>

enum {
	GROUP_WIDE = GROUP_LANES * GROUP_COLUMNS,
	LANES = 4,
	KEYS = 4,                    /* of an item */
	/* Of a tile in local memory, along K: all of it stays within 48 KiB. */
	DEPTH = 32,
	DEPTH_WIDE = 8,
};

_Static_assert((int)KERNEL_ATTENTION_ITEMS * (int)GROUP_ROWS == (int)GROUP_LANES, "items of a query");
_Static_assert((int)KERNEL_ATTENTION_BLOCK == (int)GROUP_WIDE, "an item has as many keys as columns");

static unsigned group_items(const struct writer *w) {
	return w->k->rows * KERNEL_ATTENTION_ITEMS;
}

static unsigned group_depth(const struct writer *w) {
	return dtype_info(w->k->accumulator)->bytes == 8 ? DEPTH_WIDE : DEPTH;
}

/* Elements from one k to the next in local memory: a vector more, for other banks. */
static unsigned left_pitch(const struct writer *w) {
	return w->k->rows + LANES;
}

/* Columns of an item, and of a group. */
static unsigned item_columns(const struct writer *w) {
	return w->k->vectors * LANES;
}

static unsigned group_columns(const struct writer *w) {
	return item_columns(w) * GROUP_LANES;
}

static unsigned right_pitch(const struct writer *w) {
	return group_columns(w) + LANES;
}

/* Vectors of an item in a tile of so many rows. */
static unsigned tile_copies(const struct writer *w, unsigned rows) {
	unsigned vectors = rows * group_depth(w) / LANES, items = group_items(w);

	return (vectors + items - 1) / items;
}

static void barrier_line(struct writer *w) {
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

/* "for (int i ...) {": each of an item's queries. */
static void open_rows(struct writer *w) {
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", GROUP_ROWS);
}

static void open_keys(struct writer *w) {
	text_line(w, "#pragma unroll");
	text_open(w, "for (int j = 0; j < %u; j++)", KEYS);
}

static void declare_row(struct writer *w) {
	text_line(w, "const int row = y * %u + i;", GROUP_ROWS);
}

/* ---- functions ---- */

/* "read_q": up to four elements of an operand, so many apart. */
static void define_read(struct writer *w, unsigned o, char name) {
	const struct dtype_info *from = dtype_info(w->k->operand[o].dtype);
	const char *acc = dtype_info(w->k->accumulator)->name;

	text_open(w, "static inline E4 read_%c(global const uchar *p, long apart, long left)", name);
	if (w->k->operand[o].dtype == w->k->accumulator) {
		text_line(w, "if (apart == 1 && left >= %u && ((ulong)p & %u) == 0)", LANES, LANES * from->bytes - 1);
		text_line(w, "\treturn *(global const E4 *)p;");
	}
	text_line(w, "E4 v = 0;");
	for (unsigned l = 0; l < LANES; l++) {
		text_line(w, "if (left > %u)", l);
		text_line(w, "\tv.s%u = to_%s(uniform_%s(p + %u * apart));", l, acc, from->name, l * from->bytes);
	}
	text_line(w, "return v;");
	text_close(w);
	text_blank(w);
}

void attention_group_functions(struct writer *w) {
	outer_types(w);
	outer_function(w, "score_step", &(struct outer){ .rows = GROUP_ROWS, .columns = KEYS, .row_lanes = LANES, .column_lanes = LANES });
	outer_function(w, "value_step", &(struct outer){ .rows = GROUP_ROWS, .columns = item_columns(w), .row_lanes = LANES,
		.column_lanes = LANES, .columns_apart = GROUP_WIDE });
	define_read(w, ATTENTION_Q, 'q');
	define_read(w, ATTENTION_K, 'k');
	define_read(w, ATTENTION_V, 'v');
}

/* "for each vector of the item in a tile of so many rows": neighbours are neighbours across K. */
static void open_tile(struct writer *w, unsigned rows) {
	unsigned copies = tile_copies(w, rows), items = group_items(w);

	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", copies);
	text_line(w, "const int e = lane + i * %u;", items);
	if (copies * items != rows * group_depth(w) / LANES) {
		text_line(w, "if (e >= %u)", rows * group_depth(w) / LANES);
		text_line(w, "\tcontinue;");
	}
}

static void write_steps(struct writer *w, const char *step, const char *to, const char *left) {
	text_line(w, "#pragma unroll %u", outer_unroll(GROUP_ROWS * KEYS));
	text_line(w, "for (int k = 0; k < depth; k++)");
	text_line(w, "\t%s(%s, %s + k * %u + y * %u, right + k * %u + x * %u);", step, to, left, left_pitch(w), LANES, right_pitch(w), LANES);
}

/* ---- scores ---- */

/* Queries and keys of the block, from `place` of them on, on their way. */
static void fetch_scores(struct writer *w, const char *place) {
	const struct kernel *k = w->k;

	open_tile(w, k->rows);
	text_line(w, "const long row = m0 + e %% %u, at = %s + e / %u * %u;", k->rows, place, k->rows, LANES);
	text_line(w, "held_left[i] = 0;");
	text_open(w, "if (row < d%u)", attention_queries(k));
	attention_place(w, ATTENTION_Q, "q", "row", "at");
	text_line(w, "held_left[i] = read_q(q0, s0_%u, d%u - at) * v%u;", attention_depth(k), attention_depth(k), k->reduced_value);
	text_close(w);
	text_close(w);
	open_tile(w, GROUP_WIDE);
	text_line(w, "const long key = j0 + e %% %u, at = %s + e / %u * %u;", GROUP_WIDE, place, GROUP_WIDE, LANES);
	text_line(w, "held_right[i] = 0;");
	text_open(w, "if (key < d%u)", attention_keys(k));
	attention_place(w, ATTENTION_K, "k", "key", "at");
	text_line(w, "held_right[i] = read_k(k1, s1_%u, d%u - at);", attention_depth(k), attention_depth(k));
	text_close(w);
	text_close(w);
}

static void put_scores(struct writer *w) {
	open_tile(w, w->k->rows);
	text_line(w, "local E *const to = left + e / %u * %u + e %% %u;", w->k->rows, LANES * left_pitch(w), w->k->rows);
	for (unsigned l = 0; l < LANES; l++)
		text_line(w, "to[%u] = held_left[i].s%u;", l * left_pitch(w), l);
	text_close(w);
	open_tile(w, GROUP_WIDE);
	text_line(w, "const int key = e %% %u;", GROUP_WIDE);
	text_line(w, "local E *const to = right + e / %u * %u + key %% %u * %u + key / %u;", GROUP_WIDE, LANES * right_pitch(w), GROUP_LANES,
		KEYS, GROUP_LANES);
	for (unsigned l = 0; l < LANES; l++)
		text_line(w, "to[%u] = held_right[i].s%u;", l * right_pitch(w), l);
	text_close(w);
}

static void fetch_values(struct writer *w, const char *from);

static void write_scores(struct writer *w) {
	const struct kernel *k = w->k;
	char next[32];

	snprintf(next, sizeof next, "place + %u", group_depth(w));
	outer_zero(w, "c", GROUP_ROWS, KEYS);
	text_line(w, "#pragma unroll 1");
	/* At least once, for it sends the values on their way. */
	text_open(w, "for (long place = 0; place == 0 || place < d%u; place += %u)", attention_depth(k), group_depth(w));
	text_line(w, "const int depth = min(d%u - place, (long)%u);", attention_depth(k), group_depth(w));
	put_scores(w);
	barrier_line(w);
	text_open(w, "if (%s < d%u)", next, attention_depth(k));
	fetch_scores(w, next);
	text_close(w);
	text_open(w, "else");
	fetch_values(w, "0");
	text_close(w);
	write_steps(w, "score_step", "c", "left");
	barrier_line(w);
	text_close(w);
}

/* ---- weights ---- */

/* Masks a score; what the query does not see is -infinity. */
static void write_seen(struct writer *w) {
	const struct kernel *k = w->k;
	bool truth = attention_masks(k) && k->operand[ATTENTION_MASK].dtype == DTYPE_bool;

	text_line(w, "const long query = m0 + row, key = j0 + x + j * %u;", GROUP_LANES);
	if (attention_masks(k)) {
		text_open(w, "if (query < d%u && key < d%u)", attention_queries(k), attention_keys(k));
		attention_place(w, ATTENTION_MASK, "m", "query", "key");
		text_begin(w);
		text_part(w, truth ? "if (!" : "c[i][j] += to_%s(", dtype_info(k->accumulator)->name);
		operand_load(w, &(struct scope){ .pointer = "m" }, ATTENTION_MASK);
		text_part(w, truth ? ")" : ");");
		text_end(w);
		if (truth)
			text_line(w, "\tc[i][j] = %s;", attention_hidden(w).text);
		text_close(w);
	}
	text_line(w, "if (key >= d%u%s)", attention_keys(k), k->causal ? " || key > query" : "");
	text_line(w, "\tc[i][j] = -INFINITY;");
}

/* What the items of a row have put there. */
static void declare_all(struct writer *w) {
	_Static_assert(GROUP_LANES == 4 * LANES, "the tree of write_totals()");
	for (unsigned l = 0; l < GROUP_LANES; l += LANES)
		text_line(w, "const E4 all%u = *(local const E4 *)(left + row * %u + %u);", l / LANES, GROUP_LANES, l);
}

/* The largest of the item's keys goes to the row's items. */
static void write_largest(struct writer *w) {
	open_rows(w);
	declare_row(w);
	open_keys(w);
	write_seen(w);
	text_close(w);
	text_line(w, "left[row * %u + x] = LARGER(LARGER(c[i][0], c[i][1]), LARGER(c[i][2], c[i][3]));", GROUP_LANES);
	text_close(w);
	barrier_line(w);
	open_rows(w);
	declare_row(w);
	declare_all(w);
	text_line(w, "top[i] = largest[i];");
	for (unsigned l = 0; l < GROUP_LANES; l++)
		text_line(w, "top[i] = LARGER(all%u.s%u, top[i]);", l / LANES, l % LANES);
	text_close(w);
	barrier_line(w);
}

static void write_weights(struct writer *w) {
	const char *type = value_register(w->k->accumulator);

	open_rows(w);
	declare_row(w);
	text_line(w, "const %s base = top[i] == -INFINITY ? 0 : top[i];", type);
	open_keys(w);
	text_line(w, "c[i][j] = weight(c[i][j] - base);");
	text_line(w, "score[(x + j * %u) * %u + row] = c[i][j];", GROUP_LANES, left_pitch(w));
	text_close(w);
	text_line(w, "left[row * %u + x] = (c[i][0] + c[i][2]) + (c[i][1] + c[i][3]);", GROUP_LANES);
	text_close(w);
	barrier_line(w);
}

/* The last four steps of the sum's tree, by every item of a row alike; then what was summed before shrinks. */
static void write_totals(struct writer *w) {
	const char *type = value_register(w->k->accumulator);

	open_rows(w);
	declare_row(w);
	declare_all(w);
	text_line(w, "const E4 four = (all0 + all2) + (all1 + all3);");
	text_line(w, "const %s base = top[i] == -INFINITY ? 0 : top[i];", type);
	text_line(w, "const %s shrink = top[i] == largest[i] ? 1 : weight(largest[i] - base);", type);
	text_line(w, "total[i] = fma(total[i], shrink, (four.s0 + four.s2) + (four.s1 + four.s3));");
	text_line(w, "largest[i] = top[i];");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int j = 0; j < %u; j++)", item_columns(w));
	text_line(w, "\tsum[i][j] *= shrink;");
	text_close(w);
	barrier_line(w);
}

/* ---- values ---- */

/* Keys lie along K here, and columns as an item reads them. */
static void open_value_tile(struct writer *w) {
	open_tile(w, group_columns(w));
	text_line(w, "const int key = e / %u, column = e %% %u * %u;", group_columns(w) / LANES, group_columns(w) / LANES, LANES);
}

/* Values of the block, from key `from` of it on, on their way. */
static void fetch_values(struct writer *w, const char *from) {
	const struct kernel *k = w->k;
	uint8_t access = k->operand[ATTENTION_V].access;

	open_value_tile(w);
	text_line(w, "const long at = j0 + %s + key, across = n0 + column;", from);
	text_line(w, "held_right[i] = 0;");
	text_open(w, "if (at < d%u && across < d%u)", attention_keys(k), attention_columns(k));
	attention_place(w, ATTENTION_V, "w", "at", "across");
	text_begin(w);
	text_part(w, "held_right[i] = read_v(w2, ");
	if (access == KERNEL_STRIDED)
		text_part(w, "s2_%u", attention_columns(k));
	else
		text_part(w, access == KERNEL_CONTIGUOUS ? "1" : "0");
	text_part(w, ", d%u - across);", attention_columns(k));
	text_end(w);
	text_close(w);
	text_close(w);
}

static void write_sums(struct writer *w) {
	const struct kernel *k = w->k;
	char left[48], next[32];

	snprintf(left, sizeof left, "score + from * %u", left_pitch(w));
	snprintf(next, sizeof next, "from + %u", group_depth(w));
	text_line(w, "const int keys = min(d%u - j0, (long)%u);", attention_keys(k), KERNEL_ATTENTION_BLOCK);
	text_line(w, "#pragma unroll 1");
	text_open(w, "for (int from = 0; from < keys; from += %u)", group_depth(w));
	text_line(w, "const int depth = min(keys - from, %u);", group_depth(w));
	open_value_tile(w);
	text_line(w, "*(local E4 *)(right + key * %u + column) = held_right[i];", right_pitch(w));
	text_close(w);
	barrier_line(w);
	text_open(w, "if (%s < keys)", next);
	fetch_values(w, next);
	text_close(w);
	write_steps(w, "value_step", "sum", left);
	barrier_line(w);
	text_close(w);
}

/* ---- a unit ---- */

static void write_outputs(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "o" };
	struct frame_names index = frame_names(w->k->rank - 4u);

	index.name[attention_queries(w->k)] = "row";
	index.name[attention_columns(w->k)] = "column";
	text_line(w, "#pragma unroll");
	text_open(w, "for (int e = 0; e < %u; e++)", GROUP_ROWS * item_columns(w));
	text_line(w, "const int i = e / %u, j = e %% %u;", item_columns(w), item_columns(w));
	text_line(w, "const long row = m0 + y * %u + i, column = n0 + j / %u * %u + x * %u + j %% %u;", GROUP_ROWS, LANES, GROUP_WIDE, LANES,
		LANES);
	text_line(w, "if (row >= d%u || column >= d%u)", attention_queries(w->k), attention_columns(w->k));
	text_line(w, "\tcontinue;");
	operand_place(w, &w->outer, "o", index.name);
	text_line(w, "const %s v%u = div_(sum[i][j], total[i]);", value_register(w->k->accumulator), w->k->root_value);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

static void write_unit(struct writer *w) {
	const struct kernel *k = w->k;
	const char *type = value_register(k->accumulator);

	outer_zero(w, "sum", GROUP_ROWS, item_columns(w));
	text_line(w, "E4 held_left[%u], held_right[%u];", tile_copies(w, k->rows), tile_copies(w, group_columns(w)));
	text_line(w, "%s largest[%u], total[%u], top[%u];", type, GROUP_ROWS, GROUP_ROWS, GROUP_ROWS);
	open_rows(w);
	text_line(w, "largest[i] = -INFINITY;");
	text_line(w, "total[i] = 0;");
	text_close(w);
	text_line(w, k->causal ? "const long seen = min(d%u, m0 + %u);" : "const long seen = d%u;", attention_keys(k),
		w->k->rows);
	text_line(w, "#pragma unroll 1");
	text_open(w, "for (long j0 = 0; j0 < seen; j0 += %u)", KERNEL_ATTENTION_BLOCK);
	fetch_scores(w, "0");
	write_scores(w);
	write_largest(w);
	write_weights(w);
	write_totals(w);
	write_sums(w);
	text_close(w);
	write_outputs(w);
}

void attention_groups(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned tile = group_depth(w) * left_pitch(w), row = k->rows * GROUP_LANES;

	text_line(w, "local E4 tile_a[%u], tile_b[%u], tile_c[%u];", (tile > row ? tile : row) / LANES, group_depth(w) * right_pitch(w) / LANES,
		KERNEL_ATTENTION_BLOCK * left_pitch(w) / LANES);
	text_line(w, "local E *const left = (local E *)tile_a, *const right = (local E *)tile_b, *const score = (local E *)tile_c;");
	text_line(w, "const int lane = get_local_id(0), x = lane %% %u, y = lane / %u;", GROUP_LANES, GROUP_LANES);
	frame_units(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long n0 = take(&rest, (d%u + %u) / %u) * %u;", attention_columns(k), group_columns(w) - 1,
		group_columns(w), group_columns(w));
	text_line(w, "const long tiles = (d%u + %u) / %u, tile = take(&rest, tiles);", attention_queries(k), k->rows - 1u, k->rows);
	text_line(w, "const long m0 = %s * %u;", k->causal ? "(tiles - 1 - tile)" : "tile", k->rows);
	frame_indices(w, 0, k->rank - 4u);
	write_unit(w);
	text_close(w);
}

/*
 * Attention, GPU strategy: the arithmetic of attention.c, in the same order.
 *
 * A group of 16 by L/16 items has L/4 queries and 64 columns of the result. For a block of 64 keys it computes the
 * scores as the product of matmul_groups: 4 queries by 4 keys an item, from tiles in local memory. Keys of an item are 16
 * apart, so the first two steps of the sum's tree stay in its registers and the last four are those of a row of items. The
 * weights go to local memory, where all items of their row read them while they add up 4 queries by 4 columns.
 *
 * A result wider than 64 columns is so many units, each of which computes the scores.
 */
#include "writer.h"

enum {
	GROUP_WIDE = GROUP_LANES * GROUP_COLUMNS,
};

static unsigned group_rows(const struct writer *w) {
	return w->t->local_size / GROUP_LANES * GROUP_ROWS;
}

/* "for every element of a tile of so many rows": row and column of each are e / columns and e % columns. */
static void open_tile(struct writer *w, unsigned elements) {
	text_open(w, "for (int e = lane; e < %u; e += %u)", elements, w->t->local_size);
}

static void write_load(struct writer *w, const char *to, unsigned o, const char *prefix) {
	struct scope s = { .pointer = prefix };

	text_begin(w);
	text_part(w, "%s = to_%s(", to, dtype_info(w->k->accumulator)->name);
	operand_load(w, &s, o);
	text_part(w, ");");
	text_end(w);
}

static void barrier_line(struct writer *w) {
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

/* "for (int i ...) {": each of an item's queries. */
static void open_rows(struct writer *w) {
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", GROUP_ROWS);
}

static void open_columns(struct writer *w) {
	text_line(w, "#pragma unroll");
	text_open(w, "for (int j = 0; j < %u; j++)", GROUP_COLUMNS);
}

static void declare_row(struct writer *w) {
	text_line(w, "const int row = y + i * %u;", group_rows(w) / GROUP_ROWS);
}

/* ---- scores ---- */

static void write_tiles(struct writer *w) {
	const struct kernel *k = w->k;

	open_tile(w, group_rows(w) * GROUP_DEPTH);
	text_line(w, "const long row = m0 + e / %u, at = place + e %% %u;", GROUP_DEPTH, GROUP_DEPTH);
	text_line(w, "if (row >= d%u || at >= d%u)", attention_queries(k), attention_depth(k));
	text_line(w, "\tcontinue;");
	attention_place(w, ATTENTION_Q, "q", "row", "at");
	write_load(w, "left[e]", ATTENTION_Q, "q");
	text_close(w);
	open_tile(w, GROUP_WIDE * GROUP_DEPTH);
	text_line(w, "const long key = j0 + e / %u, at = place + e %% %u;", GROUP_DEPTH, GROUP_DEPTH);
	text_line(w, "if (key >= d%u || at >= d%u)", attention_keys(k), attention_depth(k));
	text_line(w, "\tcontinue;");
	attention_place(w, ATTENTION_K, "k", "key", "at");
	text_begin(w);
	text_part(w, "right[e %% %u * %u + e / %u]", GROUP_DEPTH, GROUP_WIDE, GROUP_DEPTH);
	text_part(w, " = to_%s(", dtype_info(k->accumulator)->name);
	operand_load(w, &(struct scope){ .pointer = "k" }, ATTENTION_K);
	text_part(w, ");");
	text_end(w);
	text_close(w);
}

static void write_scores(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "%s c[%u][%u];", value_register(k->accumulator), GROUP_ROWS, GROUP_COLUMNS);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", GROUP_ROWS * GROUP_COLUMNS);
	text_line(w, "\tc[e / %u][e %% %u] = 0;", GROUP_COLUMNS, GROUP_COLUMNS);
	text_open(w, "for (long place = 0; place < d%u; place += %u)", attention_depth(k), GROUP_DEPTH);
	text_line(w, "const int depth = min(d%u - place, (long)%u);", attention_depth(k), GROUP_DEPTH);
	write_tiles(w);
	barrier_line(w);
	text_open(w, "for (int k = 0; k < depth; k++)");
	open_rows(w);
	declare_row(w);
	open_columns(w);
	value_add_product(w, "c[i][j]", "left[row * 16 + k]", "right[k * 64 + x + j * 16]");
	text_close(w);
	text_close(w);
	text_close(w);
	barrier_line(w);
	text_close(w);
}

/* ---- weights ---- */

/* Scales and masks a score; what the query does not see is -infinity. */
static void write_seen(struct writer *w) {
	const struct kernel *k = w->k;
	bool truth = attention_masks(k) && k->operand[ATTENTION_MASK].dtype == DTYPE_bool;

	text_line(w, "const long query = m0 + row, key = j0 + x + j * %u;", GROUP_LANES);
	text_line(w, "c[i][j] *= v%u;", k->reduced_value);
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

/* The largest of the item's keys goes to the row's items. */
static void write_largest(struct writer *w) {
	open_rows(w);
	declare_row(w);
	open_columns(w);
	write_seen(w);
	text_close(w);
	text_line(w, "left[row * %u + x] = LARGER(LARGER(c[i][0], c[i][1]), LARGER(c[i][2], c[i][3]));", GROUP_LANES);
	text_close(w);
	barrier_line(w);
	open_rows(w);
	declare_row(w);
	text_line(w, "top[i] = largest[i];");
	text_line(w, "for (int l = 0; l < %u; l++)", GROUP_LANES);
	text_line(w, "\ttop[i] = LARGER(left[row * %u + l], top[i]);", GROUP_LANES);
	text_close(w);
	barrier_line(w);
}

static void write_weights(struct writer *w) {
	const char *type = value_register(w->k->accumulator);

	open_rows(w);
	declare_row(w);
	text_line(w, "const %s base = top[i] == -INFINITY ? 0 : top[i];", type);
	open_columns(w);
	text_line(w, "c[i][j] = weight(c[i][j] - base);");
	text_line(w, "score[row * %u + x + j * %u] = c[i][j];", GROUP_WIDE, GROUP_LANES);
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
	if (w->k->causal) {
		text_line(w, "if (m0 + row < j0)");
		text_line(w, "\tcontinue;");
	}
	text_line(w, "%s all[%u];", type, GROUP_LANES);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int l = 0; l < %u; l++)", GROUP_LANES);
	text_line(w, "\tall[l] = left[row * %u + l];", GROUP_LANES);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int h = %u; h > 0; h /= 2)", GROUP_LANES / 2);
	text_line(w, "\tfor (int l = 0; l < h; l++)");
	text_line(w, "\t\tall[l] += all[l + h];");
	text_line(w, "const %s base = top[i] == -INFINITY ? 0 : top[i];", type);
	text_line(w, "const %s shrink = top[i] == largest[i] ? 1 : weight(largest[i] - base);", type);
	text_line(w, "total[i] = fma(total[i], shrink, all[0]);");
	text_line(w, "largest[i] = top[i];");
	open_columns(w);
	text_line(w, "sum[i][j] *= shrink;");
	text_close(w);
	text_close(w);
	barrier_line(w);
}

/* ---- values ---- */

static void write_value_tile(struct writer *w) {
	const struct kernel *k = w->k;

	open_tile(w, GROUP_WIDE * GROUP_DEPTH);
	text_line(w, "const long key = j0 + from + e / %u, column = n0 + e %% %u;", GROUP_WIDE, GROUP_WIDE);
	text_line(w, "if (key >= d%u || column >= d%u)", attention_keys(k), attention_columns(k));
	text_line(w, "\tcontinue;");
	attention_place(w, ATTENTION_V, "w", "key", "column");
	write_load(w, "right[e]", ATTENTION_V, "w");
	text_close(w);
}

static void write_sums(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "const int keys = min(d%u - j0, (long)%u);", attention_keys(k), KERNEL_ATTENTION_BLOCK);
	text_open(w, "for (int from = 0; from < keys; from += %u)", GROUP_DEPTH);
	write_value_tile(w);
	barrier_line(w);
	text_open(w, "for (int k = 0; k < %u && from + k < keys; k++)", GROUP_DEPTH);
	open_rows(w);
	declare_row(w);
	if (k->causal) {
		text_line(w, "if (m0 + row < j0)");
		text_line(w, "\tcontinue;");
	}
	open_columns(w);
	value_add_product(w, "sum[i][j]", "score[row * 64 + from + k]", "right[k * 64 + x + j * 16]");
	text_close(w);
	text_close(w);
	text_close(w);
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
	text_open(w, "for (int e = 0; e < %u; e++)", GROUP_ROWS * GROUP_COLUMNS);
	text_line(w, "const long row = m0 + y + e / %u * %u, column = n0 + x + e %% %u * %u;", GROUP_COLUMNS,
		group_rows(w) / GROUP_ROWS, GROUP_COLUMNS, GROUP_LANES);
	text_line(w, "if (row >= d%u || column >= d%u)", attention_queries(w->k), attention_columns(w->k));
	text_line(w, "\tcontinue;");
	operand_place(w, &w->outer, "o", index.name);
	text_line(w, "const %s v%u = div_(sum[e / %u][e %% %u], total[e / %u]);", value_register(w->k->accumulator),
		w->k->root_value, GROUP_COLUMNS, GROUP_COLUMNS, GROUP_COLUMNS);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

static void write_unit(struct writer *w) {
	const struct kernel *k = w->k;
	const char *type = value_register(k->accumulator);

	text_line(w, "%s sum[%u][%u], largest[%u], total[%u], top[%u];", type, GROUP_ROWS, GROUP_COLUMNS, GROUP_ROWS,
		GROUP_ROWS, GROUP_ROWS);
	open_rows(w);
	text_line(w, "largest[i] = -INFINITY;");
	text_line(w, "total[i] = 0;");
	text_line(w, "for (int j = 0; j < %u; j++)", GROUP_COLUMNS);
	text_line(w, "\tsum[i][j] = 0;");
	text_close(w);
	text_line(w, k->causal ? "const long seen = min(d%u, m0 + %u);" : "const long seen = d%u;", attention_keys(k),
		group_rows(w));
	text_open(w, "for (long j0 = 0; j0 < seen; j0 += %u)", KERNEL_ATTENTION_BLOCK);
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
	const char *lane = value_lane(k->accumulator);
	unsigned rows = group_rows(w);

	text_line(w, "local %s left[%u], right[%u], score[%u];", lane, rows * GROUP_DEPTH, GROUP_WIDE * GROUP_DEPTH,
		rows * KERNEL_ATTENTION_BLOCK);
	text_line(w, "const int lane = get_local_id(0), x = lane %% %u, y = lane / %u;", GROUP_LANES, GROUP_LANES);
	frame_units(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long n0 = take(&rest, (d%u + %u) / %u) * %u;", attention_columns(k), GROUP_WIDE - 1, GROUP_WIDE,
		GROUP_WIDE);
	text_line(w, "const long m0 = take(&rest, (d%u + %u) / %u) * %u;", attention_queries(k), rows - 1, rows, rows);
	frame_indices(w, 0, k->rank - 4u);
	write_unit(w);
	text_close(w);
}

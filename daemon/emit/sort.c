/*
 * Sorts: kernels/sort.cl does the work on elements; here they are loaded, computed by what goes before the sort,
 * and given their places in memory.
 *
 * CPU strategy, rows and blocks: a unit is a row or a block, sorted by its digits (or one by one where there are
 * few) between two pieces of memory. Merges: a unit is a piece of the result, whose ends in the two runs are found by
 * bisection. GPU strategy: a work-group sorts rows or a block in a tile of local memory, each lane a few elements,
 * which are then merged; a unit of a merge is a tile of the result.
 */
#include "writer.h"

static bool loads(const struct kernel *k) {
	return k->stage == KERNEL_STAGE_ROWS || k->stage == KERNEL_STAGE_BLOCKS;
}

static bool is_final(const struct kernel *k) {
	return k->stage == KERNEL_STAGE_ROWS || k->stage == KERNEL_STAGE_LAST;
}

static bool in_groups(const struct writer *w) {
	return w->t->strategy == STRATEGY_GPU;
}

void sort_defines(const struct writer *w, struct str *text) {
	static const char *const raw[] = { [1] = "uchar", [2] = "ushort", [4] = "uint", [8] = "ulong" };
	static const char *const infinity[DTYPE_COUNT] = { [DTYPE_f16] = "0x7c00", [DTYPE_bf16] = "0x7f80",
		[DTYPE_f32] = "0x7f800000", [DTYPE_f64] = "0x7ff0000000000000" };
	static const unsigned kinds[] = { [DTYPE_KIND_BOOL] = 0, [DTYPE_KIND_UINT] = 0, [DTYPE_KIND_SINT] = 1,
		[DTYPE_KIND_REAL] = 2 };
	const struct kernel *k = w->k;
	const struct dtype_info *type = dtype_info(k->accumulator);

	str_printf(text, "#define SORT_RAW %s\n#define SORT_BITS %u\n#define SORT_KIND %u\n", raw[type->bytes],
		8 * type->bytes, kinds[type->kind]);
	if (infinity[k->accumulator])
		str_printf(text, "#define SORT_INFINITY %s\n", infinity[k->accumulator]);
	str_printf(text, "#define SORT_DESCENDING %u\n#define SORT_PLACES %u\n#define SORT_FINAL %u\n", k->descending,
		k->op == OP_argsort, is_final(k));
	if (in_groups(w))
		str_printf(text, "#define SORT_TILE %u\n#define SORT_EACH %u\n", kernel_sort_tile(k, w->t), kernel_sort_each(k));
}

/* ---- parts ---- */

/* The bits of a value, which is of one lane. */
static void write_raw(struct writer *w, unsigned v) {
	static const char *const bits[DTYPE_COUNT] = { [DTYPE_f16] = "pack_f16", [DTYPE_bf16] = "pack_bf16",
		[DTYPE_f32] = "as_uint", [DTYPE_f64] = "as_ulong" };
	const char *name = bits[w->k->accumulator];

	text_part(w, "%s(v%u)", name ? name : "(SORT_RAW)", v);
}

/* Declares `from`, `stop` and `count`: what of the row is sorted. */
static void write_range(struct writer *w) {
	unsigned axis = w->k->rank - 1u;

	if (w->k->stage == KERNEL_STAGE_ROWS)
		text_line(w, "const long from = 0, stop = d%u;", axis);
	else
		text_line(w, "const long from = piece * r[%u], stop = min(from + (long)r[%u], d%u);", KERNEL_WORD_EXTENT,
			KERNEL_WORD_EXTENT, axis);
	text_line(w, "const long count = stop - from;");
}

/* Begins the loop over units; indices of the row, and `piece` of it. */
static void open_units(struct writer *w) {
	frame_units(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	if (w->k->stage != KERNEL_STAGE_ROWS)
		text_line(w, "const long piece = take(&rest, r[%u]);", KERNEL_WORD_PIECES);
	frame_indices(w, 0, w->k->kept);
}

static void place_one(struct writer *w, unsigned operand, const char *prefix) {
	struct frame_names index = frame_names(w->k->kept);
	struct needs one = { .operand = { false } };

	one.operand[operand] = true;
	operand_place(w, &one, prefix, index.name);
}

/* Declares a pointer to elements: of this row, or of this item's own memory. */
static void write_elements(struct writer *w, const char *name, unsigned operand, const char *constant) {
	const struct kernel *k = w->k;
	const char *at = k->stage == KERNEL_STAGE_BLOCKS && operand <= k->carry + 1u ? " + from" : "";

	if (k->stage == KERNEL_STAGE_ROWS) {
		text_line(w, "global sort_element *const %s = (global sort_element *)a%u + %s * d%u;", name, operand,
			frame_item(w), k->rank - 1u);
		return;
	}
	place_one(w, operand, "p");
	text_line(w, "global %ssort_element *const %s = (global %ssort_element *)p%u%s;", constant, name, constant, operand,
		at);
}

/* Where the results of the stage go; work memory stands behind all else. */
static unsigned result_of(const struct kernel *k) {
	unsigned o = 0;

	if (k->stage == KERNEL_STAGE_BLOCKS)
		return k->carry;
	while (!k->operand[o].output)
		o++;
	return o;
}

/* Declares `out` and `stride`, where the row's results go. */
static void write_result(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned o = result_of(k), axis = k->rank - 1u;

	place_one(w, o, "q");
	text_line(w, "global sort_result *const out = (global sort_result *)q%u;", o);
	if (!is_final(k) || k->operand[o].access != KERNEL_STRIDED)
		text_line(w, "const long stride = 1;");
	else
		text_line(w, "const long stride = s%u_%u;", o, axis);
}

/* ---- CPU strategy ---- */

/* Values [first, first + count) of the row into memory, side by side. */
static void write_loads(struct writer *w, const char *memory, const char *count) {
	const struct kernel *k = w->k;
	struct scope s = { .needs = &w->inner, .pointer = "p", .lane = "l", .count = "n", .hoist = true };
	const struct dtype_info *type = dtype_info(k->accumulator);
	const char *wide = k->width > 1 ? "n" : "";

	text_open(w, "for (long l = 0; l < %s; l += W)", count);
	text_line(w, "const int n = min(%s - l, (long)W);", count);
	value_write(w, &s, LEVEL_ELEMENT);
	text_line(w, "store%s_%s((global uchar *)%s + %u * l, v%u%s);", wide, type->name, memory, type->bytes,
		k->reduced_value, k->width > 1 ? ", n" : "");
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
}

static void write_places(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	struct scope s = { .needs = &w->inner, .pointer = "p", .lane = "l", .count = "n", .hoist = true };

	index.name[k->rank - 1] = "at";
	text_line(w, "global JOIN(SORT_RAW, _element) *const chunk = (global JOIN(SORT_RAW, _element) *)a%u + %s * %u;",
		k->carry + 2u, k->stage == KERNEL_STAGE_ROWS ? frame_item(w) : "unit", KERNEL_SORT_CHUNK);
	text_open(w, "for (long at = from; at < stop; at += %u)", KERNEL_SORT_CHUNK);
	text_line(w, "const long some = min(stop - at, (long)%u);", KERNEL_SORT_CHUNK);
	operand_place(w, &w->inner, "p", index.name);
	value_write(w, &s, LEVEL_UNIT);
	write_loads(w, "chunk", "some");
	text_line(w, "for (long i = 0; i < some; i++)");
	text_line(w, "\tx[at - from + i] = SORT_PACK(chunk[i], at + i);");
	value_forget(w, &s, LEVEL_UNIT);
	text_close(w);
}

static void write_values(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	struct scope s = { .needs = &w->inner, .pointer = "p", .lane = "l", .count = "n", .hoist = true };

	index.name[k->rank - 1] = "from";
	operand_place(w, &w->inner, "p", index.name);
	value_write(w, &s, LEVEL_UNIT);
	write_loads(w, "x", "count");
	text_line(w, "for (long i = 0; i < count; i++)");
	text_line(w, "\tx[i] = SORT_PACK(x[i], i);");
	value_forget(w, &s, LEVEL_UNIT);
}

static void sort_units(struct writer *w) {
	const struct kernel *k = w->k;

	open_units(w);
	write_range(w);
	write_elements(w, "x", k->carry, "");
	write_elements(w, "y", k->carry + 1u, "");
	k->op == OP_sort ? write_values(w) : write_places(w);
	text_line(w, "sort_elements(x, y, count);");
	if (is_final(k)) {
		write_result(w);
		text_line(w, "for (long i = 0; i < count; i++)");
		text_line(w, "\tout[i * stride] = SORT_OUT(x[i]);");
	}
	text_close(w);
}

static void merge_units(struct writer *w) {
	open_units(w);
	write_elements(w, "x", 0, "const ");
	write_result(w);
	text_line(w, "const long length = (d%u + r[%u] - 1) / r[%u];", w->k->rank - 1u, KERNEL_WORD_PIECES, KERNEL_WORD_PIECES);
	text_line(w, "const long low = piece * length, high = min(low + length, d%u);", w->k->rank - 1u);
	text_line(w, "sort_merge_runs(x, d%u, r[%u], low, high, out, stride);", w->k->rank - 1u, KERNEL_WORD_EXTENT);
	text_close(w);
}

/* ---- GPU strategy ---- */

/* Begins a loop over the elements of the tile that there are; `at` is the place of element e in its row. */
static void open_elements(struct writer *w, const char *first) {
	const struct kernel *k = w->k;
	bool rows = k->stage == KERNEL_STAGE_ROWS;

	text_open(w, "for (int e = get_local_id(0); e < SORT_TILE; e += %u)", w->t->local_size);
	if (rows)
		text_line(w, "ulong rest = unit * (SORT_TILE / slot) + e / slot;");
	text_line(w, rows ? "const long at = e %% slot;" : "const long at = from + e;");
	if (*first)
		text_line(w, "%s", first);
	if (rows)
		text_line(w, "if (rest >= r[%u] || at >= d%u)", KERNEL_WORD_EXTENT, k->rank - 1u);
	else
		text_line(w, "if (e >= count)");
	text_line(w, "\tcontinue;");
	if (rows)
		frame_indices(w, 0, k->kept);
}

static void write_tile_loads(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	struct scope s = { .needs = &w->inner, .pointer = "p" };

	index.name[k->rank - 1] = "at";
	open_elements(w, "tile[e] = SORT_LAST;");
	operand_place(w, &w->inner, "p", index.name);
	value_write(w, &s, LEVEL_ELEMENT);
	text_begin(w);
	text_part(w, "tile[e] = SORT_PACK(");
	write_raw(w, k->reduced_value);
	text_part(w, ", at);");
	text_end(w);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

/* Then the tile may be filled again. */
static void write_tile_stores(struct writer *w) {
	open_elements(w, "");
	write_result(w);
	text_line(w, "out[at * stride] = SORT_OUT(tile[e]);");
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
}

static void sort_groups(struct writer *w) {
	text_line(w, "local sort_element tile[SORT_TILE];");
	if (w->k->stage == KERNEL_STAGE_ROWS) {
		frame_units(w);
		text_line(w, "const int slot = r[%u];", KERNEL_WORD_PIECES);
		text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	} else {
		open_units(w);
		write_range(w);
	}
	write_tile_loads(w);
	text_line(w, "sort_tile(tile, %s);", w->k->stage == KERNEL_STAGE_ROWS ? "slot" : "SORT_TILE");
	write_tile_stores(w);
	text_close(w);
}

static void merge_groups(struct writer *w) {
	text_line(w, "local sort_element tile[SORT_TILE];");
	text_line(w, "local long cut[2];");
	open_units(w);
	write_elements(w, "x", 0, "const ");
	write_result(w);
	text_line(w, "const long low = piece * SORT_TILE;");
	text_line(w, "const int count = sort_merge_tile(tile, cut, x, d%u, r[%u], low);", w->k->rank - 1u, KERNEL_WORD_EXTENT);
	text_line(w, "for (int e = get_local_id(0); e < count; e += %u)", w->t->local_size);
	text_line(w, "\tout[(low + e) * stride] = SORT_OUT(tile[e]);");
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
}

void sort(struct writer *w) {
	if (in_groups(w))
		loads(w->k) ? sort_groups(w) : merge_groups(w);
	else
		loads(w->k) ? sort_units(w) : merge_units(w);
}

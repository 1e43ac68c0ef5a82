/*
 * Convolutions, GPU strategy: a product whose second factor is never laid out. Its rows are the channels of a group, its columns
 * the places of all images, and K goes through the channels of the input, in each through the filter in row-major order: the
 * order of accumulation is that of conv.c.
 *
 * A unit is a tile of such a product, and a group computes it as in matmul_group.c: pieces of both factors go to local memory while
 * what follows is on its way into registers. An item copies elements of one place alone, so that it finds out once where that lies in
 * its image; where a step of K lies from there is the same for all places, and a table in local memory, one piece long, has it: so no
 * element costs a division. Steps beyond K are far outside every image.
 *
 * Places of an item are BLOCK_COLUMNS apart, so that neighbours store side by side, and neighbours in local memory, so that it
 * reads them as a vector.
 *
 * Where a group has few channels (`alone`) a lane computes one result.
 */
#include "writer.h"

#include <stdio.h>

enum {
	/* Items of a block, each way. */
	BLOCK_ROWS = 4,
	BLOCK_COLUMNS = 8,
	LANES = 4,
};

/* What an item computes, and how much of that lies in one vector. */
struct item {
	const struct kernel_tile_info *tile;
	unsigned rows, columns;
	unsigned row_lanes, column_lanes;
};

static struct item item_of(const struct writer *w) {
	const struct kernel_tile_info *tile = &kernel_tiles[w->k->tile];
	unsigned rows = tile->block_rows / BLOCK_ROWS, columns = tile->block_columns / BLOCK_COLUMNS;

	return (struct item){ .tile = tile, .rows = rows, .columns = columns, .row_lanes = rows < LANES ? rows : LANES,
		.column_lanes = columns < LANES ? columns : LANES };
}

/* Vectors from one k to the next in local memory, one of them free, so that neighbours along K are in other banks. */
static unsigned pitch(unsigned across) {
	return across / LANES + 1;
}

static unsigned items_of(const struct writer *w) {
	return kernel_tile_items(w->k->tile);
}

/* Elements of the weights that an item copies are whole vectors along K; of the input single ones. */
static unsigned weight_copies(const struct writer *w) {
	return kernel_tiles[w->k->tile].rows * kernel_tiles[w->k->tile].depth / LANES / items_of(w);
}

static unsigned input_copies(const struct writer *w) {
	return kernel_tiles[w->k->tile].columns * kernel_tiles[w->k->tile].depth / items_of(w);
}

void conv_group_functions(struct writer *w) {
	struct item it = item_of(w);

	if (w->k->alone)
		return;
	outer_types(w);
	outer_function(w, "multiply", &(struct outer){ .rows = it.rows, .columns = it.columns, .row_lanes = it.row_lanes,
		.column_lanes = it.column_lanes, .rows_apart = BLOCK_ROWS * it.row_lanes, .columns_apart = BLOCK_COLUMNS * it.column_lanes });
}

/* ---- pieces ---- */

/* An item goes from its step of one piece to that of the next without a division. */
static void declare_steps(struct writer *w) {
	unsigned depth = item_of(w).tile->depth;

	text_line(w, "const int wide = d%u, high = d%u, over = %u %% (wide * high);", CONV_KW, CONV_KH, depth);
	text_line(w, "const int next_x = over %% wide, next_y = over / wide, next_channel = %u / (wide * high);", depth);
	text_line(w, "int tap_x = item %% wide, tap_y = item / wide %% high, channel = item / (wide * high);");
}

/* Where the steps of a piece lie from a place on: y and x of the filter in its image, and bytes. */
static void write_steps(struct writer *w, const char *at) {
	text_open(w, "if (item < %u)", item_of(w).tile->depth);
	text_line(w, "const int y = tap_y * (int)apart_y, x = tap_x * (int)apart_x;");
	text_line(w, "const long reach = %u * (channel * s0_%u + y * s0_%u + x * s0_%u);",
		dtype_info(w->k->operand[CONV_INPUT].dtype)->bytes, CONV_CI, CONV_IH, CONV_IW);
	text_line(w, "steps[item] = (int4)((%s) + item < depth ? y : NOWHERE, x, (int)reach, (int)(reach >> 32));", at);
	text_line(w, "tap_x += next_x;");
	text_line(w, "tap_y += next_y + (tap_x >= wide);");
	text_line(w, "tap_x -= tap_x >= wide ? wide : 0;");
	text_line(w, "channel += next_channel + (tap_y >= high);");
	text_line(w, "tap_y -= tap_y >= high ? high : 0;");
	text_close(w);
}

/* The item's vectors of weights, which lie along K. */
static void fetch_weights(struct writer *w, const char *at) {
	const struct dtype_info *by = dtype_info(w->k->operand[CONV_WEIGHT].dtype);
	const char *acc = dtype_info(w->k->accumulator)->name;
	unsigned along = item_of(w).tile->depth / LANES;

	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", weight_copies(w));
	text_line(w, "const int y = item / %u + i * %u, left = y < height ? depth - (%s) - item %% %u * %u : 0;", along,
		items_of(w) / along, at, along, LANES);
	text_line(w, "global const uchar *const p = weights + %u * (y * s1_%u + (%s));", by->bytes, CONV_CO, at);
	if (w->k->operand[CONV_WEIGHT].dtype == w->k->accumulator) {
		text_line(w, "if (whole && left >= %u)", LANES);
		text_line(w, "\theld_weights[i] = *(global const E4 *)p;");
		text_open(w, "else");
	} else {
		text_line(w, "{");
		w->depth++;
	}
	text_line(w, "held_weights[i] = 0;");
	for (unsigned l = 0; l < LANES; l++) {
		text_line(w, "if (left > %u)", l);
		text_line(w, "\theld_weights[i].s%u = to_%s(uniform_%s(p + %u));", l, acc, by->name, l * by->bytes);
	}
	text_close(w);
	text_close(w);
}

/* The item's elements of the input, all of one place. */
static void fetch_input(struct writer *w) {
	const struct dtype_info *in = dtype_info(w->k->operand[CONV_INPUT].dtype);
	unsigned columns = item_of(w).tile->columns;

	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", input_copies(w));
	text_line(w, "const int4 step = steps[item / %u + i * %u];", columns, items_of(w) / columns);
	text_line(w, "held_input[i] = 0;");
	text_line(w, "if ((uint)(place_y + step.s0) < (uint)d%u && (uint)(place_x + step.s1) < (uint)d%u)", CONV_IH, CONV_IW);
	text_line(w, "\theld_input[i] = to_%s(uniform_%s(place + as_long(step.s23)));", dtype_info(w->k->accumulator)->name, in->name);
	text_close(w);
}

static void write_put(struct writer *w) {
	struct item it = item_of(w);
	unsigned along = it.tile->depth / LANES, run = BLOCK_COLUMNS * it.column_lanes;

	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", weight_copies(w));
	text_line(w, "local E *const to = left + item %% %u * %u + item / %u + i * %u;", along, LANES * LANES * pitch(it.tile->rows),
		along, items_of(w) / along);
	for (unsigned l = 0; l < LANES; l++)
		text_line(w, "to[%u] = held_weights[i].s%u;", l * LANES * pitch(it.tile->rows), l);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", input_copies(w));
	text_line(w, "const int k = item / %u + i * %u, p = item %% %u;", it.tile->columns, items_of(w) / it.tile->columns,
		it.tile->columns);
	text_line(w, "right[k * %u + p / %u * %u + p %% %u * %u + p %% %u / %u] = held_input[i];", LANES * pitch(it.tile->columns),
		run, run, BLOCK_COLUMNS, it.column_lanes, run, BLOCK_COLUMNS);
	text_close(w);
}

static void write_products(struct writer *w, const char *count) {
	struct item it = item_of(w);

	text_line(w, "for (int k = 0; k < %s; k++)", count);
	text_line(w, "\tmultiply(c, left + k * %u + left_at, right + k * %u + right_at);", LANES * pitch(it.tile->rows),
		LANES * pitch(it.tile->columns));
}

/* Pieces of a whole depth, and what is left of K: a product of zeros may change the sign of a zero. */
static void write_pieces(struct writer *w) {
	struct item it = item_of(w);
	char depth[16], next[32];

	snprintf(depth, sizeof depth, "%u", item_of(w).tile->depth);
	snprintf(next, sizeof next, "k0 + %s", depth);
	declare_steps(w);
	write_steps(w, "0");
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	fetch_weights(w, "0");
	fetch_input(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_line(w, "int k0 = 0;");
	text_line(w, "#pragma unroll 1");
	text_open(w, "for (; depth - k0 >= %s; k0 += %s)", depth, depth);
	write_put(w);
	write_steps(w, next);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	fetch_weights(w, next);
	fetch_input(w);
	text_line(w, "#pragma unroll %u", outer_unroll(it.rows * it.columns));
	write_products(w, depth);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
	text_open(w, "if (k0 < depth)");
	write_put(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_line(w, "#pragma unroll 1");
	write_products(w, "depth - k0");
	text_close(w);
}

/* ---- a unit ---- */

static void write_outputs(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "o" };
	struct frame_names index = { { NULL } };
	struct item it = item_of(w);

	index.name[CONV_N] = "image";
	index.name[CONV_CO] = "channel";
	index.name[CONV_OH] = "line";
	index.name[CONV_OW] = "column";
	text_line(w, "#pragma unroll");
	text_open(w, "for (int j = 0; j < %u; j++)", it.columns);
	text_line(w, "ulong at = n0 + first_column + j / %u * %u + j %% %u * %u;", it.column_lanes, BLOCK_COLUMNS * it.column_lanes,
		it.column_lanes, BLOCK_COLUMNS);
	text_line(w, "if (at >= places)");
	text_line(w, "\tcontinue;");
	text_line(w, "const long column = take(&at, d%u), line = take(&at, d%u), image = at;", CONV_OW, CONV_OH);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", it.rows);
	text_line(w, "const int row = left_at + i / %u * %u + i %% %u;", it.row_lanes, BLOCK_ROWS * it.row_lanes, it.row_lanes);
	text_line(w, "if (row >= height)");
	text_line(w, "\tcontinue;");
	text_line(w, "const long channel = from + row;");
	operand_place(w, &w->outer, "o", index.name);
	value_root(w, "c[i][j]");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
	text_close(w);
}

/* Which channels and places the group has, and where the item's own place lies. */
static void write_unit(struct writer *w) {
	const struct kernel_tile_info *tile = item_of(w).tile;
	unsigned bytes = dtype_info(w->k->operand[CONV_WEIGHT].dtype)->bytes;

	text_line(w, "const ulong places = d%u * d%u * d%u;", CONV_N, CONV_OH, CONV_OW);
	text_line(w, "ulong rest = get_group_id(0);");
	text_line(w, "const long m0 = take(&rest, (each + %u) / %u) * %u;", tile->rows - 1u, tile->rows, tile->rows);
	text_line(w, "const ulong n0 = take(&rest, (places + %u) / %u) * %u;", tile->columns - 1u, tile->columns, tile->columns);
	text_line(w, "const long group = rest, from = group * each + m0;");
	text_line(w, "const int height = min(each - m0, %ul);", tile->rows);
	text_line(w, "const int depth = d%u * taps;", CONV_CI);
	text_line(w, "ulong at = n0 + item %% %u;", tile->columns);
	text_line(w, "const int there = at < places;");
	text_line(w, "const long column = take(&at, d%u), line = take(&at, d%u), image = at;", CONV_OW, CONV_OH);
	text_line(w, "const int place_y = there ? line * step_y - border_y : NOWHERE, place_x = column * step_x - border_x;");
	text_line(w, "global const uchar *const place = a0 + %u * (image * s0_%u + group * s0_%u + (line * step_y - border_y) * s0_%u +",
		dtype_info(w->k->operand[CONV_INPUT].dtype)->bytes, CONV_N, CONV_GROUP, CONV_IH);
	text_line(w, "\t(column * step_x - border_x) * s0_%u);", CONV_IW);
	text_line(w, "global const uchar *const weights = a1 + %u * (from * s1_%u + item %% %u * %u);", bytes, CONV_CO,
		tile->depth / LANES, LANES);
	text_line(w, "const int whole = depth %% %u == 0 && ((ulong)a1 & %u) == 0;", LANES, LANES * bytes - 1);
}

static void write_tile(struct writer *w) {
	struct item it = item_of(w);
	unsigned wide = it.tile->columns / it.tile->block_columns;

	text_line(w, "local E4 tile_a[%u], tile_b[%u];", it.tile->depth * pitch(it.tile->rows),
		it.tile->depth * pitch(it.tile->columns));
	text_line(w, "local int4 steps[%u];", it.tile->depth);
	text_line(w, "local E *const left = (local E *)tile_a, *const right = (local E *)tile_b;");
	text_line(w, "const int NOWHERE = -(1 << 30);");
	text_line(w, "const int item = get_local_id(0), block = item / %u;", KERNEL_TILE_BLOCK);
	text_line(w, "const int left_at = block / %u * %u + item %% %u / %u * %u;", wide, it.tile->block_rows, KERNEL_TILE_BLOCK,
		BLOCK_COLUMNS, it.row_lanes);
	text_line(w, "const int first_column = block %% %u * %u + item %% %u;", wide, it.tile->block_columns, BLOCK_COLUMNS);
	text_line(w, "const int right_at = block %% %u * %u + item %% %u * %u;", wide, it.tile->block_columns, BLOCK_COLUMNS,
		it.column_lanes);
	write_unit(w);
	outer_zero(w, "c", it.rows, it.columns);
	text_line(w, "E4 held_weights[%u];", weight_copies(w));
	text_line(w, "E held_input[%u];", input_copies(w));
	write_pieces(w);
	write_outputs(w);
}

/* ---- a lane a result ---- */

static void write_sum(struct writer *w) {
	const struct kernel *k = w->k;
	const struct dtype_info *in = dtype_info(k->operand[CONV_INPUT].dtype), *by = dtype_info(k->operand[CONV_WEIGHT].dtype);
	const char *acc = dtype_info(k->accumulator)->name;

	text_line(w, "const long iy = line * step_y - border_y, ix = column * step_x - border_x;");
	text_line(w, "global const uchar *weight = a1 + %u * (channel * s1_%u);", by->bytes, CONV_CO);
	text_line(w, "%s sum = 0;", value_lanes(w));
	text_open(w, "for (long c = 0; c < d%u; c++)", CONV_CI);
	text_open(w, "for (int y = 0; y < (int)d%u; y++)", CONV_KH);
	text_line(w, "const long at_y = iy + y * apart_y;");
	text_line(w, "const int inside = at_y >= 0 && at_y < d%u;", CONV_IH);
	text_line(w, "global const uchar *const from = a0 + %u * (image * s0_%u + group * s0_%u + c * s0_%u + at_y * s0_%u + ix * s0_%u);",
		in->bytes, CONV_N, CONV_GROUP, CONV_CI, CONV_IH, CONV_IW);
	text_open(w, "for (int x = 0; x < (int)d%u; x++)", CONV_KW);
	text_line(w, "const long at_x = ix + x * apart_x;");
	text_line(w, "const %s a = to_%s(uniform_%s(weight));", value_lanes(w), acc, by->name);
	text_line(w, "%s b = 0;", value_lanes(w));
	text_line(w, "if (inside && at_x >= 0 && at_x < d%u)", CONV_IW);
	text_line(w, "\tb = to_%s(uniform_%s(from + %u * (x * apart_x * s0_%u)));", acc, in->name, in->bytes, CONV_IW);
	value_add_product(w, "sum", "a", "b");
	text_line(w, "weight += %u;", by->bytes);
	text_close(w);
	text_close(w);
	text_close(w);
}

static void write_lane(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "o" };
	struct frame_names index = { { NULL } };

	index.name[CONV_N] = "image";
	index.name[CONV_CO] = "channel";
	index.name[CONV_OH] = "line";
	index.name[CONV_OW] = "column";
	text_line(w, "if (get_global_id(0) >= r[%u])", KERNEL_WORD_UNITS);
	text_line(w, "\treturn;");
	text_line(w, "ulong rest = get_global_id(0);");
	text_line(w, "const long column = take(&rest, d%u), line = take(&rest, d%u);", CONV_OW, CONV_OH);
	text_line(w, "const long channel = take(&rest, d%u), image = rest, group = channel / each;", CONV_CO);
	write_sum(w);
	operand_place(w, &w->outer, "o", index.name);
	value_root(w, "sum");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
}

void conv_groups(struct writer *w) {
	conv_sizes(w);
	if (w->k->alone)
		write_lane(w);
	else
		write_tile(w);
}

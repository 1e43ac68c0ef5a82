/*
 * How a task is cut into units, and units into work-items.
 *
 * Units are as the forms of this folder define them. An item gets so many that starting it costs
 * nothing against its work, while all compute units have several items to share. A task too small to
 * be worth sharing is one item.
 */
#include "writer.h"

#include "emit.h"

#include <string.h>

enum {
	/* Elements of an item of a large array. 64 KiB of f32 are read in about 4 us. */
	ITEM_ELEMENTS = 16384,
	/* Below this an item is not worth the time it takes to start (about 0.3 us). */
	ITEM_ELEMENTS_LEAST = 2048,
	/* Some drivers have other machine code for wider launches; no CPU has use for them. */
	ITEMS_MOST = 65534,
	/* Items a compute unit, so that one that is late does not leave the others idle. */
	ITEMS_PER_UNIT = 8,
	/* ... and of an array so large that they still get more than ITEM_ELEMENTS: long runs of memory are read faster. */
	ITEMS_PER_UNIT_MOST = 64,
	/* Pieces begin at multiples of this, where vectors of every type are aligned. */
	PIECE_ALIGNMENT = 64,
	/* GPU strategy, MAP: elements a lane, once there are many more lanes than the device runs at once. */
	GROUP_ELEMENTS = 4,
	/* ... and vectors, where what begins and ends with one vector would not read while it computes (H200: 1,055 us with one, 975 with 4). */
	GROUP_VECTORS_DEAR = 4,
	GROUP_LANES_MANY = 1 << 20,
	/* Blocks of a product a compute unit, where there are so many tiles. */
	MATMUL_PER_UNIT = 4,
	/* With rows before a product or after it: tiles of a block, which reads all of the second factor, unless a compute unit had none then. */
	WHOLE_TILES = 4,
	/* ... columns that cost so much more than an element of such a row that it may be computed once for each so many. */
	WHOLE_COLUMNS = 1024,
	/* CPU strategy, SORT: elements that an item sorts at least; elements of a piece of a merge; pieces a unit. */
	SORT_ELEMENTS_LEAST = 512,
	SORT_PIECE = 8192,
	SORT_PIECES = 16,
	/* Attention: units a compute unit before a unit is as large as may be; causal, they are unequal. */
	ATTENTION_UNITS = 4,
};

/* Everything about a task that its cut depends on. */
struct cut {
	const struct kernel *k;
	const struct traits *t;
	const int64_t *dims;
	uint64_t extent;
	const struct knobs *knobs;
	uint64_t *record;
};

static uint64_t least(uint64_t a, uint64_t b) {
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

static uint64_t ceil_divide(uint64_t a, uint64_t b) {
	return (a + b - 1) / b;
}

static uint64_t round_up(uint64_t a, uint64_t b) {
	return ceil_divide(a, b) * b;
}

static uint64_t product(const int64_t *dims, unsigned first, unsigned end) {
	uint64_t n = 1;

	for (unsigned d = first; d < end; d++)
		n *= (uint64_t)dims[d];
	return n;
}

static uint64_t items_wanted(const struct traits *t) {
	return (uint64_t)ITEMS_PER_UNIT * most(t->units, 1);
}

/* Elements an item should get of a task of so many: a rule, or a part or a multiple of what it says (KNOB_share). */
static uint64_t grain(const struct cut *c, uint64_t elements) {
	static const struct {
		uint8_t times, parts;
	} shares[KNOB_VALUES] = { { 1, 1 }, { 1, 4 }, { 4, 1 }, { 1, 1 } };
	uint64_t share = elements / items_wanted(c->t);
	uint64_t large = most(ITEM_ELEMENTS, elements / (ITEMS_PER_UNIT_MOST * most(c->t->units, 1)));

	return most(most(ITEM_ELEMENTS_LEAST, least(large, share)) * shares[c->knobs->value[KNOB_share]].times / shares[c->knobs->value[KNOB_share]].parts, 1);
}

/* Tiles that are one unit: as the rule says, or a part of them (KNOB_tiles). */
static uint64_t unit_tiles(const struct cut *c, uint64_t tiles) {
	static const uint8_t parts[KNOB_VALUES] = { 1, 2, 4, 1 };

	return ceil_divide(tiles, parts[c->knobs->value[KNOB_tiles]]);
}

/* In the CPU strategy no task has more than ITEMS_MOST items, however many units. */
static void set_units_per_item(const struct cut *c, uint64_t per) {
	per = most(per, ceil_divide(c->record[KERNEL_WORD_UNITS], ITEMS_MOST));
	c->record[KERNEL_WORD_UNITS_PER_ITEM] = per;
	c->record[KERNEL_WORD_ITEMS] = ceil_divide(c->record[KERNEL_WORD_UNITS], per);
}

/* The words of `units` units of about `elements` elements each. */
static void set_units(const struct cut *c, uint64_t units, uint64_t elements) {
	c->record[KERNEL_WORD_UNITS] = units;
	set_units_per_item(c, most(grain(c, units * elements) / most(elements, 1), 1));
}

/* A work-group a unit. */
static void set_groups(const struct cut *c, uint64_t units) {
	c->record[KERNEL_WORD_UNITS] = units;
	c->record[KERNEL_WORD_UNITS_PER_ITEM] = 1;
	c->record[KERNEL_WORD_ITEMS] = units * frame_local(c->k, c->t);
}

static void cut_map(const struct cut *c) {
	unsigned rows = c->k->rank ? c->k->rank - 1u : 0;
	uint64_t n = c->k->rank ? (uint64_t)c->dims[rows] : 1;
	uint64_t count = product(c->dims, 0, rows);
	uint64_t longest = least(MAP_PIECE, grain(c, count * n));
	uint64_t length = round_up(ceil_divide(n, most(ceil_divide(n, longest), 1)), PIECE_ALIGNMENT);
	uint64_t pieces = ceil_divide(n, most(length, 1));

	c->record[KERNEL_WORD_PIECES] = most(pieces, 1);
	c->record[KERNEL_WORD_EXTENT] = length;
	set_units(c, count * pieces, least(n, length));
	if (map_may_cross(c->k) && count * pieces >= MAP_STRIP_ROWS * items_wanted(c->t))
		set_units_per_item(c, round_up(c->record[KERNEL_WORD_UNITS_PER_ITEM], MAP_STRIP_ROWS));
}

/* Blocks of as many rows as a vector has lanes, in pieces along the lanes; those of one piece follow each other. */
static void cut_map_turned(const struct cut *c) {
	unsigned lanes = c->k->rank - 1u;
	uint64_t n = (uint64_t)c->dims[lanes], width = c->k->width, batch = product(c->dims, 0, lanes - 1);
	uint64_t blocks = ceil_divide((uint64_t)c->dims[lanes - 1], width);
	uint64_t longest = most(least(MAP_PIECE, grain(c, batch * blocks * width * n)) / width, PIECE_ALIGNMENT);
	uint64_t length = round_up(ceil_divide(n, ceil_divide(n, longest)), PIECE_ALIGNMENT);
	uint64_t pieces = ceil_divide(n, length);

	c->record[KERNEL_WORD_PIECES] = pieces;
	c->record[KERNEL_WORD_EXTENT] = length;
	set_units(c, batch * blocks * pieces, width * least(n, length));
}

static void cut_map_groups(const struct cut *c) {
	unsigned rows = c->k->rank ? c->k->rank - 1u : 0;
	uint64_t vectors = c->k->rank ? ceil_divide((uint64_t)c->dims[rows], c->k->width) : 1;
	uint64_t elements = product(c->dims, 0, rows) * vectors;
	uint64_t many = map_is_dear(c->k) ? GROUP_VECTORS_DEAR : most(GROUP_ELEMENTS / c->k->width, 1);
	uint64_t per = elements > GROUP_LANES_MANY ? many : 1;

	c->record[KERNEL_WORD_PIECES] = most(vectors, 1);
	c->record[KERNEL_WORD_UNITS] = elements;
	c->record[KERNEL_WORD_UNITS_PER_ITEM] = per;
	c->record[KERNEL_WORD_ITEMS] = round_up(ceil_divide(elements, per), c->t->local_size);
}

/* Elements that one output is made of. */
static uint64_t reduced(const struct cut *c) {
	return least(most(c->extent, KERNEL_COLUMNS), KERNEL_BLOCK);
}

static void cut_reduce(const struct cut *c) {
	set_units(c, product(c->dims, 0, c->k->kept), reduced(c));
}

/* Rows are whole, however long. */
static void cut_rows(const struct cut *c) {
	set_units(c, product(c->dims, 0, c->k->kept), most(c->extent, KERNEL_COLUMNS));
}

static void cut_reduce_groups(const struct cut *c) {
	set_groups(c, product(c->dims, 0, c->k->kept));
}

/*
 * Strips of rows: those that all units together are done with first. A strip takes as long as its vectors, and a little more for
 * the jumps from row to row.
 */
static uint64_t strips_of_rows(const struct cut *c, uint64_t rows, uint64_t n) {
	uint64_t best = 0, strips = 1;

	for (uint64_t vectors = COLUMN_VECTORS; vectors >= COLUMN_VECTORS / 2; vectors--) {
		uint64_t count = ceil_divide(n, vectors * c->k->width);
		uint64_t time = ceil_divide(count * rows, most(c->t->units, 1)) * (vectors + 1);

		if (!best || time < best) {
			best = time;
			strips = count;
		}
	}
	return strips;
}

/*
 * Strips are as wide as may be, since every row of a strip is a jump in memory; narrower where
 * there would not be one for each compute unit. The kernel finds their width from their number.
 */
static void cut_column(const struct cut *c) {
	unsigned lanes = c->k->kept - 1u;
	uint64_t n = (uint64_t)c->dims[lanes], rows = product(c->dims, 0, lanes), width = c->k->width;
	bool several = c->k->root == KERNEL_ROWS;
	uint64_t elements = several ? most(c->extent, KERNEL_COLUMNS) : reduced(c);
	uint64_t vectors = c->k->root == KERNEL_SCAN ? SCAN_VECTORS : COLUMN_VECTORS;
	uint64_t strips = several ? strips_of_rows(c, rows, n) : ceil_divide(n, vectors * width), wide;

	while (strips * rows < c->t->units && strips < ceil_divide(n, width) &&
		elements * n > strips * 2 * ITEM_ELEMENTS_LEAST)
		strips++;
	wide = round_up(ceil_divide(n, most(strips, 1)), width);
	strips = ceil_divide(n, most(wide, 1));
	c->record[KERNEL_WORD_PIECES] = most(strips, 1);
	set_units(c, rows * strips, elements * wide);
}

static void cut_column_groups(const struct cut *c) {
	unsigned lanes = c->k->kept - 1u;
	uint64_t strips = ceil_divide((uint64_t)c->dims[lanes], COLUMN_LANES);

	c->record[KERNEL_WORD_PIECES] = most(strips, 1);
	set_groups(c, product(c->dims, 0, lanes) * strips);
}

/* A group of lanes side by side, each with a column of its own. */
static void cut_scan_column_groups(const struct cut *c) {
	unsigned lanes = c->k->kept - 1u;
	uint64_t strips = ceil_divide((uint64_t)c->dims[lanes], c->t->local_size);

	c->record[KERNEL_WORD_PIECES] = most(strips, 1);
	set_groups(c, product(c->dims, 0, lanes) * strips);
}

/*
 * The result is cut along its axis only where there would not be a unit for everybody, since each
 * piece looks at all indices. GPU strategy: a unit is a lane.
 */
static void cut_scatter(const struct cut *c) {
	bool groups = c->t->strategy == STRATEGY_GPU;
	unsigned last = c->k->rank - 1u, kept = c->k->kept;
	uint64_t lanes = kept ? (uint64_t)c->dims[kept - 1] : 1;
	uint64_t rows = kept ? product(c->dims, 0, kept - 1) : 1, n = (uint64_t)c->dims[last];
	uint64_t count = rows * (groups ? lanes : ceil_divide(lanes, KERNEL_SCATTER_LANES));
	uint64_t wanted = groups ? (uint64_t)c->t->units * c->t->local_size * KERNEL_SCATTER_GROUPS : c->t->units;
	uint64_t pieces = most(least(ceil_divide(wanted, most(count, 1)), n), 1);

	c->record[KERNEL_WORD_PIECES] = pieces;
	c->record[KERNEL_WORD_UNITS] = n ? count * pieces : 0;
	set_units_per_item(c, 1);
	if (groups)
		c->record[KERNEL_WORD_ITEMS] = round_up(c->record[KERNEL_WORD_UNITS], c->t->local_size);
}

/* A row an item's own memory at a time: no more items than have such memory. */
static void cut_sort_rows(const struct cut *c) {
	uint64_t rows = product(c->dims, 0, c->k->kept);

	c->record[KERNEL_WORD_UNITS] = rows;
	set_units_per_item(c, most(ceil_divide(rows, kernel_sort_items(c->t)), SORT_ELEMENTS_LEAST / most(c->extent, 1)));
}

/* Blocks as the plan says; merges in pieces of a row. */
static void cut_sort(const struct cut *c) {
	uint64_t rows = product(c->dims, 0, c->k->kept), n = (uint64_t)c->dims[c->k->rank - 1];
	bool merges = c->k->stage == KERNEL_STAGE_MERGE || c->k->stage == KERNEL_STAGE_LAST;
	uint64_t length = merges ? most(SORT_PIECE, ceil_divide(rows * n, SORT_PIECES * most(c->t->units, 1))) : c->extent;
	uint64_t pieces = most(ceil_divide(n, length), 1);

	c->record[KERNEL_WORD_PIECES] = pieces;
	c->record[KERNEL_WORD_UNITS] = rows * pieces;
	set_units_per_item(c, 1);
}

/* Several rows a tile: the words tell how many elements of it each has, a power of two, and how many rows there are. */
static void cut_sort_tiles(const struct cut *c) {
	uint64_t rows = product(c->dims, 0, c->k->kept), slot = kernel_sort_each(c->k);

	while (slot < (uint64_t)c->dims[c->k->rank - 1])
		slot *= 2;
	c->record[KERNEL_WORD_PIECES] = slot;
	c->record[KERNEL_WORD_EXTENT] = rows;
	set_groups(c, ceil_divide(rows, most(kernel_sort_tile(c->k, c->t) / slot, 1)));
}

static void cut_sort_groups(const struct cut *c) {
	uint64_t rows = product(c->dims, 0, c->k->kept), n = (uint64_t)c->dims[c->k->rank - 1];
	uint64_t pieces = ceil_divide(n, kernel_sort_tile(c->k, c->t));

	c->record[KERNEL_WORD_PIECES] = pieces;
	set_groups(c, rows * pieces);
}

/* With rows before the product or after it items have memory of their own: no more of them than that. */
static void limit_items(const struct cut *c) {
	if (kernel_computes_factor(c->k) || kernel_keeps_rows(c->k))
		set_units_per_item(c, most(c->record[KERNEL_WORD_UNITS_PER_ITEM],
			ceil_divide(c->record[KERNEL_WORD_UNITS], kernel_work_items(c->t))));
}

/*
 * Rows before the product: pieces that the panels of a block are cut into. Rows are computed once for each, so there is one,
 * but where each has so many columns that this is little beside them, and other blocks than are needed for the memory of an
 * item would each read all of the second factor; or where there are fewer blocks than compute units.
 */
static uint64_t matmul_pieces(const struct cut *c, uint64_t blocks, uint64_t tiles) {
	uint64_t n = (uint64_t)c->dims[c->k->rank - 2u], panels = most(ceil_divide(n, kernel_columns(c->k)), 1);
	uint64_t pieces = least(ceil_divide(kernel_work_items(c->t), blocks), most(n / WHOLE_COLUMNS, 1));

	if (kernel_keeps_rows(c->k) || c->k->scored)
		return 1;
	pieces = most(pieces, ceil_divide(c->t->units, most(tiles, 1)));
	return ceil_divide(panels, ceil_divide(panels, least(pieces, panels)));
}

/* The tiles that a compute unit has when each takes the next block of so many as soon as it is free. */
static uint64_t busiest(const struct cut *c, uint64_t tiles, uint64_t each, uint64_t count) {
	return ceil_divide(count * ceil_divide(tiles, each), most(c->t->units, 1)) * each;
}

/*
 * Tiles of a block, at least so many and at most `hold`: those with which the busiest compute unit has least to do. Few blocks
 * that differ by a tile leave less waiting at the end than many of which the last one is nearly empty.
 */
static uint64_t even_tiles(const struct cut *c, uint64_t tiles, uint64_t least_each, uint64_t hold, uint64_t count) {
	uint64_t best = least_each;

	for (uint64_t each = least_each + 1; each <= hold; each++)
		if (busiest(c, tiles, each, count) < busiest(c, tiles, best, count))
			best = each;
	return best;
}

/* A unit is a block of rows with all columns, or a piece of them. As many blocks as leave all items the same. */
static void cut_matmul_whole(const struct cut *c) {
	const struct kernel *k = c->k;
	unsigned batch = k->rank - 3u;
	uint64_t rows = most(k->rows, 1), m = (uint64_t)c->dims[batch], tiles = most(ceil_divide(m, rows), 1);
	uint64_t count = most(product(c->dims, 0, batch), 1), hold = kernel_keeps_rows(k) || k->scored ? kernel_kept_rows(c->dims, k) : TILE_BLOCK;
	uint64_t blocks = count * ceil_divide(tiles, most(hold / rows, 1)), pieces = matmul_pieces(c, blocks, count * tiles);
	uint64_t wanted = least(kernel_work_items(c->t) / pieces, most(c->t->units, count * tiles / WHOLE_TILES));

	blocks = round_up(blocks, most(wanted, 1)) / count;
	tiles = unit_tiles(c, even_tiles(c, tiles, ceil_divide(tiles, least(most(blocks, 1), tiles)), most(hold / rows, 1), count * pieces));
	c->record[KERNEL_WORD_PIECES] = tiles;
	set_units(c, count * ceil_divide(m, tiles * rows) * pieces,
		least(tiles * rows, most(m, 1)) * (c->extent + 1) * most((uint64_t)c->dims[batch + 1] / pieces, 1) / c->k->width);
	limit_items(c);
}

/* Blocks of equal numbers of tiles; more of them where else there would not be enough for all compute units. */
static void cut_matmul(const struct cut *c) {
	const struct kernel *k = c->k;
	unsigned batch = k->rank - 3u;
	uint64_t rows = most(k->rows, 1), m = (uint64_t)c->dims[batch], tiles = most(ceil_divide(m, rows), 1);
	uint64_t count = product(c->dims, 0, batch) * ceil_divide((uint64_t)c->dims[batch + 1], most(kernel_columns(k), 1));
	uint64_t blocks = ceil_divide(tiles, TILE_BLOCK / rows);
	uint64_t wanted = ceil_divide(MATMUL_PER_UNIT * (uint64_t)c->t->units, most(count, 1));

	tiles = unit_tiles(c, ceil_divide(tiles, least(most(most(blocks, wanted), 1), tiles)));
	c->record[KERNEL_WORD_PIECES] = tiles;
	count *= ceil_divide(m, tiles * rows);
	/* A multiplication and addition is less than an element of MAP, as nothing is loaded for it. */
	set_units(c, count, least(tiles * rows, most(m, 1)) * (c->extent + 1) * k->vectors);
}

/* All rows of a matrix, but enough units for all. */
static void cut_matmul_small(const struct cut *c) {
	const struct kernel *k = c->k;
	unsigned batch = k->rank - 3u;
	uint64_t m = (uint64_t)c->dims[batch], tiles = most(ceil_divide(m, k->rows), 1), count = product(c->dims, 0, batch);
	uint64_t blocks = ceil_divide(MATMUL_PER_UNIT * (uint64_t)c->t->units, most(count, 1));

	tiles = unit_tiles(c, ceil_divide(tiles, least(most(blocks, 1), tiles)));
	c->record[KERNEL_WORD_PIECES] = tiles;
	count *= c->dims[batch + 1] ? ceil_divide(m, tiles * k->rows) : 0;
	set_units(c, count, least(tiles * k->rows, most(m, 1)) * (c->extent + 1) *
		ceil_divide((uint64_t)c->dims[batch + 1], k->width));
	limit_items(c);
}

/* Panels side by side, but enough strips for all. */
static void cut_matmul_strips(const struct cut *c) {
	unsigned batch = c->k->rank - 3u;
	uint64_t panels = ceil_divide((uint64_t)c->dims[batch + 1], kernel_columns(c->k));
	uint64_t count = c->dims[batch] ? product(c->dims, 0, batch) : 0;
	uint64_t strips = most(ceil_divide(panels, STRIP_PANELS),
		least(panels, ceil_divide(2 * (uint64_t)c->t->units, most(count, 1))));
	uint64_t wide = most(ceil_divide(panels, most(strips, 1)), 1);

	c->record[KERNEL_WORD_PIECES] = wide;
	set_units(c, count * ceil_divide(panels, wide), wide * c->k->vectors * (c->extent + 1) * c->k->rows);
	limit_items(c);
}

static void cut_matmul_turned(const struct cut *c) {
	unsigned batch = c->k->rank - 3u;

	set_units(c, product(c->dims, 0, batch) * ceil_divide((uint64_t)c->dims[batch], c->k->width) *
			ceil_divide((uint64_t)c->dims[batch + 1], c->k->rows), c->k->width * (c->extent + 1));
	limit_items(c);
}

static void cut_matmul_groups(const struct cut *c) {
	unsigned batch = c->k->rank - 3u;
	const struct kernel_tile_info *tile = &kernel_tiles[c->k->tile];

	set_groups(c, product(c->dims, 0, batch) * ceil_divide((uint64_t)c->dims[batch], tile->rows) *
			      ceil_divide((uint64_t)c->dims[batch + 1], tile->columns));
}

/* As many queries a unit as leave some for all compute units: what is copied serves them all. */
static void cut_attention(const struct cut *c) {
	unsigned batch = c->k->rank - 4u;
	uint64_t m = (uint64_t)c->dims[batch], pieces = ATTENTION_PIECES;
	uint64_t count = product(c->dims, 0, batch) * ceil_divide((uint64_t)c->dims[batch + 1], ATTENTION_COLUMNS);

	while (pieces > 1 && count * ceil_divide(m, pieces * ATTENTION_PIECE) < ATTENTION_UNITS * (uint64_t)c->t->units)
		pieces /= 2;
	pieces = unit_tiles(c, ceil_divide(ceil_divide(m, ATTENTION_PIECE), ceil_divide(m, pieces * ATTENTION_PIECE)));
	c->record[KERNEL_WORD_PIECES] = pieces;
	set_units(c, count * ceil_divide(m, pieces * ATTENTION_PIECE),
		pieces * ATTENTION_PIECE * (c->extent + 1) * (uint64_t)(c->dims[batch + 3] + 1));
}

/* As many channels a unit as leave some units for everybody: what is copied of the input serves them all. */
static void cut_conv(const struct cut *c) {
	uint64_t lines = most(c->extent >> 16, 1), columns = most(c->extent & 0xffff, 1), tiles = CONV_TILES, rows = c->k->inputs;
	uint64_t each = (uint64_t)(c->dims[CONV_CO] / c->dims[CONV_GROUP]);
	uint64_t count = (uint64_t)(c->dims[CONV_N] * c->dims[CONV_GROUP]) * ceil_divide((uint64_t)c->dims[CONV_OH], lines) *
		ceil_divide((uint64_t)c->dims[CONV_OW], columns);

	if (c->k->alone) {
		tiles = 1;
		rows = each;
	}
	if (c->k->packed) {
		tiles = CONV_PANELS;
		rows = kernel_columns(c->k);
	}
	while (tiles > 1 && count * ceil_divide(each, tiles * rows) < ATTENTION_UNITS * (uint64_t)c->t->units)
		tiles--;
	tiles = unit_tiles(c, tiles);
	c->record[KERNEL_WORD_PIECES] = tiles;
	set_units(c, count * ceil_divide(each, tiles * rows),
		lines * columns * least(each, tiles * rows) * product(c->dims, CONV_CI, CONV_IH));
}

static void cut_conv_tiles(const struct cut *c) {
	const struct kernel_tile_info *tile = &kernel_tiles[c->k->tile];
	uint64_t each = (uint64_t)(c->dims[CONV_CO] / c->dims[CONV_GROUP]);
	uint64_t places = (uint64_t)(c->dims[CONV_N] * c->dims[CONV_OH] * c->dims[CONV_OW]);

	set_groups(c, (uint64_t)c->dims[CONV_GROUP] * ceil_divide(each, tile->rows) * ceil_divide(places, tile->columns));
}

static void cut_conv_groups(const struct cut *c) {
	if (!c->k->alone) {
		cut_conv_tiles(c);
		return;
	}
	c->record[KERNEL_WORD_UNITS] = product(c->dims, 0, CONV_GROUP);
	c->record[KERNEL_WORD_UNITS_PER_ITEM] = 1;
	c->record[KERNEL_WORD_ITEMS] = round_up(c->record[KERNEL_WORD_UNITS], c->t->local_size);
}

static void cut_attention_groups(const struct cut *c) {
	unsigned batch = c->k->rank - 4u;

	set_groups(c, product(c->dims, 0, batch) * ceil_divide((uint64_t)c->dims[batch], c->k->rows) *
			      ceil_divide((uint64_t)c->dims[batch + 1], kernel_attention_columns(c->k)));
}

typedef void cut_function(const struct cut *c);

static cut_function *const sort_cuts[2][2] = { { cut_sort, cut_sort_rows }, { cut_sort_groups, cut_sort_tiles } };

static cut_function *product_cut(const struct kernel *k) {
	if (k->small)
		return cut_matmul_small;
	if (k->turned || k->strips)
		return k->turned ? cut_matmul_turned : cut_matmul_strips;
	return kernel_computes_factor(k) || kernel_keeps_rows(k) ? cut_matmul_whole : cut_matmul;
}

static cut_function *find_cut(const struct kernel *k, const struct traits *t) {
	bool groups = t->strategy == STRATEGY_GPU;

	if (k->root == KERNEL_MAP)
		return groups ? cut_map_groups : k->turned ? cut_map_turned : cut_map;
	if (k->root == KERNEL_MATMUL)
		return groups ? cut_matmul_groups : product_cut(k);
	if (k->root == KERNEL_CONV)
		return groups ? cut_conv_groups : cut_conv;
	if (k->root == KERNEL_ATTENTION)
		return groups ? cut_attention_groups : cut_attention;
	if (k->root == KERNEL_ROWS)
		return groups ? cut_reduce_groups : k->form == KERNEL_FORM_COLUMN ? cut_column : cut_rows;
	if (k->root == KERNEL_SCATTER)
		return cut_scatter;
	if (k->root == KERNEL_SORT)
		return sort_cuts[groups][k->stage == KERNEL_STAGE_ROWS];
	if (k->root == KERNEL_SCAN && groups && k->form == KERNEL_FORM_COLUMN)
		return cut_scan_column_groups;
	if (k->form == KERNEL_FORM_COLUMN)
		return groups ? cut_column_groups : cut_column;
	return groups ? cut_reduce_groups : cut_reduce;
}

struct emit_launch emit_geometry(const struct kernel *k, const struct traits *t, const int64_t *dims,
	uint64_t extent, uint64_t *record) {
	static const struct knobs rules;

	return emit_geometry_turned(k, t, dims, extent, &rules, record);
}

struct emit_launch emit_geometry_turned(const struct kernel *k, const struct traits *t, const int64_t *dims,
	uint64_t extent, const struct knobs *knobs, uint64_t *record) {
	struct cut c = { .k = k, .t = t, .dims = dims, .extent = extent, .knobs = knobs, .record = record };
	struct emit_launch launch = { .local = frame_local(k, t) };

	record[KERNEL_WORD_PIECES] = 1;
	record[KERNEL_WORD_EXTENT] = extent;
	record[KERNEL_WORD_BEGIN] = 0;
	if (k->root == KERNEL_INTERPRETER) {
		/* What it runs is cut by bytecode_geometry(). */
		record[KERNEL_WORD_ITEMS] = 0;
		launch.items = launch.local;
		return launch;
	}
	find_cut(k, t)(&c);
	launch.items = most(record[KERNEL_WORD_ITEMS], launch.local);
	return launch;
}

bool emit_divisible(const struct kernel *k, const struct traits *t) {
	return t->strategy == STRATEGY_CPU && k->root != KERNEL_SORT && k->root != KERNEL_SCATTER;
}

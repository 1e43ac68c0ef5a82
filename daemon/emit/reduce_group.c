/*
 * Reductions in the GPU strategy.
 *
 * ROW and GENERAL: a work-group of 64 lanes an output, lane c owns column c; or as many groups of 64 as there are `blocks`, each
 * with a block of its own. COLUMN: a group holds 16
 * outputs side by side and splits their 64 columns among its rows of 16 lanes. The last levels of the
 * tree go through local memory. All lanes of a group meet every barrier.
 */
#include "writer.h"

#include <stdio.h>

/* The elements of one column, from `from`, into `sum`. */
static void write_column_sum(struct writer *w, const char *from, const char *const *index) {
	const struct kernel *k = w->k;
	struct scope s = { .needs = &w->inner, .pointer = "p" };
	const struct reduction root = reduce_root(w);
	char value[16];

	snprintf(value, sizeof value, "v%u", k->reduced_value);
	text_line(w, "%s sum = neutral;", value_register(k->accumulator));
	/* Loads of several elements are then on their way at a time. */
	text_line(w, "#pragma unroll %u", k->blocks ? GROUP_UNROLL_ALONE : GROUP_UNROLL);
	text_open(w, "for (long j = start + %s; j < stop; j += %u)", from, KERNEL_COLUMNS);
	text_line(w, "ulong rest = j;");
	frame_indices(w, k->kept, k->rank);
	operand_place(w, &w->inner, "p", index);
	value_write(w, &s, LEVEL_ELEMENT);
	value_combine(w, &root, "sum", value);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
}

/* Halves `lanes` rows of `stride` partial results in local memory down to the first. */
static void write_local_tree(struct writer *w, const char *row, unsigned rows, unsigned stride) {
	const struct reduction root = reduce_root(w);

	text_line(w, "partial[lane] = sum;");
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_open(w, "for (int h = %u; h > 0; h /= 2)", rows / 2);
	text_open(w, "if (%s < h)", row);
	text_line(w, "const %s other = partial[lane + h * %u];", value_register(w->k->accumulator), stride);
	value_combine(w, &root, "partial[lane]", "other");
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
}

static void open_units(struct writer *w) {
	const struct reduction root = reduce_root(w);

	text_line(w, "local %s partial[%u];", value_lane(w->k->accumulator), frame_local(w->k, w->t));
	text_line(w, "const int lane = get_local_id(0);");
	frame_units(w);
	walk_neutral(w, &root);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
}

/* The results of blocks, side by side in local memory, as the columns that they are of the second level of the tree. */
static void write_blocks_tree(struct writer *w) {
	const struct reduction root = reduce_root(w);

	for (unsigned h = w->k->blocks / 2u; h > 0; h /= 2) {
		text_open(w, "if (column == 0 && block < %u)", h);
		text_line(w, "const %s other = partial[lane + %u];", value_register(w->k->accumulator), h * KERNEL_COLUMNS);
		value_combine(w, &root, "partial[lane]", "other");
		text_close(w);
		text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	}
}

/* What a lane reads: of the group's block, or of its own. */
static void write_range(struct writer *w) {
	if (!w->k->blocks) {
		reduce_range(w);
		return;
	}
	/* Blocks beyond the last are empty. */
	text_line(w, "const long start = (long)block * %u;", KERNEL_BLOCK);
	text_line(w, "const long stop = min(start + %u, (long)r[%u]);", KERNEL_BLOCK, KERNEL_WORD_EXTENT);
}

void reduce_groups(struct writer *w) {
	struct frame_names inner = frame_names(w->k->rank), outer = frame_names(w->k->kept);

	open_units(w);
	text_line(w, "const int column = lane %% %u;", KERNEL_COLUMNS);
	if (w->k->blocks)
		text_line(w, "const int block = lane / %u;", KERNEL_COLUMNS);
	frame_indices(w, 0, w->k->kept);
	write_range(w);
	write_column_sum(w, "column", inner.name);
	write_local_tree(w, "column", KERNEL_COLUMNS, 1);
	if (w->k->blocks)
		write_blocks_tree(w);
	text_open(w, "if (lane == 0)");
	reduce_outputs(w, outer.name, "partial[lane]");
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
}

/* The columns row, row + rows, ... of an output, combined as the tree does before its last levels. */
static void write_row_of_columns(struct writer *w, unsigned rows, const char *const *inner) {
	const char *type = value_register(w->k->accumulator);
	const struct reduction root = reduce_root(w);
	unsigned own = KERNEL_COLUMNS / rows;

	text_line(w, "%s column[%u];", type, own);
	text_open(w, "for (int c = 0; c < %u; c++)", own);
	text_line(w, "const int from = row + c * %u;", rows);
	write_column_sum(w, "from", inner);
	text_line(w, "column[c] = sum;");
	text_close(w);
	text_line(w, "for (int h = %u; h > 0; h /= 2)", own / 2);
	w->depth++;
	text_line(w, "for (int c = 0; c < h; c++)");
	w->depth++;
	value_combine(w, &root, "column[c]", "column[c + h]");
	w->depth -= 2;
	text_line(w, "const %s sum = column[0];", type);
}

void reduce_column_groups(struct writer *w) {
	struct frame_names inner = frame_names(w->k->rank), outer = frame_names(w->k->kept);
	unsigned rows = w->t->local_size / COLUMN_LANES, lanes = w->k->kept - 1u;

	inner.name[lanes] = outer.name[lanes] = "at";
	open_units(w);
	text_line(w, "const int row = lane / %u;", COLUMN_LANES);
	text_line(w, "const long left = take(&rest, r[%u]) * %u + lane %% %u;", KERNEL_WORD_PIECES,
		COLUMN_LANES, COLUMN_LANES);
	text_line(w, "const long at = min(left, d%u - 1);", lanes);
	frame_indices(w, 0, lanes);
	reduce_range(w);
	write_row_of_columns(w, rows, inner.name);
	write_local_tree(w, "row", rows, COLUMN_LANES);
	text_open(w, "if (row == 0 && left < d%u)", lanes);
	reduce_outputs(w, outer.name, "partial[lane]");
	text_close(w);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
}

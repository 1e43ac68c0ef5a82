/*
 * Reductions in the CPU strategy: a work-item computes whole outputs.
 *
 * Element j goes to column j % 64. ROW and GENERAL hold the columns in 64 / W vectors and fill lanes
 * beyond the row with the neutral element, which changes no bit. COLUMN gives each lane an output of its
 * own and keeps 64 vectors a strip in private memory; columns that no element reaches are left
 * out of the tree, since combining with the neutral element changes nothing.
 */
#include "writer.h"

#include <stdio.h>

struct reduction reduce_root(const struct writer *w) {
	struct reduction r = value_reduction(w, w->k->op, w->k->accumulator);

	/* What a scan has so far is stored at each step. */
	r.keyed = r.keyed && w->k->root == KERNEL_REDUCE;
	return r;
}

void reduce_range(struct writer *w) {
	const struct kernel *k = w->k;

	if (k->block_dim >= k->kept) {
		text_line(w, "const long start = 0, stop = r[%u];", KERNEL_WORD_EXTENT);
		return;
	}
	text_line(w, "const long start = i%u * %u;", k->block_dim, KERNEL_BLOCK);
	text_line(w, "const long stop = min(start + %u, (long)r[%u]);", KERNEL_BLOCK, KERNEL_WORD_EXTENT);
}

void reduce_outputs(struct writer *w, const char *const *index, const char *root) {
	struct scope s = { .needs = &w->outer, .pointer = "q" };

	operand_place(w, &w->outer, "q", index);
	value_root(w, root);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
}

/* ---- ROW and GENERAL ---- */

static void write_row(struct writer *w) {
	struct frame_names index = frame_names(w->k->kept);
	struct walk walk = {
		.scope = { .needs = &w->inner, .pointer = "p", .lane = "l", .hoist = true },
		.limit = "count",
		.reductions = 1,
		.reduction = { reduce_root(w) },
		.reduced = { w->k->reduced_value },
	};

	reduce_range(w);
	if (w->k->form == KERNEL_FORM_GENERAL) {
		walk.scope.hoist = false;
		walk.limit = "stop";
		text_line(w, "long j = start;");
		text_line(w, "ulong rest = start;");
		frame_indices(w, w->k->kept, w->k->rank);
	} else {
		index.name[w->k->rank - 1] = "start";
		text_line(w, "const long count = stop - start;");
		operand_place(w, &w->inner, "p", index.name);
		value_write(w, &walk.scope, LEVEL_UNIT);
		text_line(w, "long j = 0;");
	}
	walk_row(w, &walk);
}

void reduce_row(struct writer *w) {
	struct frame_names index = frame_names(w->k->kept);
	const struct reduction root = reduce_root(w);

	frame_units(w);
	walk_neutral(w, &root);
	text_line(w, "ulong rest = begin;");
	frame_indices(w, 0, w->k->kept);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_row(w);
	reduce_outputs(w, index.name, walk_result(w, &root).text);
	if (w->k->kept)
		frame_step(w, 0, w->k->kept);
	text_close(w);
}

/* ---- COLUMN ---- */

/* The loop over the vectors of a strip, of one output a lane. */
static void open_strip(struct writer *w) {
	text_open(w, "for (long l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, (long)W);");
}

static void write_column_element(struct writer *w, const char *const *index) {
	struct scope s = { .needs = &w->inner, .pointer = "p", .lane = "l", .count = "n" };
	const struct reduction root = reduce_root(w);
	char value[16];

	snprintf(value, sizeof value, "v%u", w->k->reduced_value);
	operand_place(w, &w->inner, "p", index);
	open_strip(w);
	value_write(w, &s, LEVEL_ELEMENT);
	text_line(w, "%s *const sum = &acc[j %% %u * %u + l / W];", value_register(w->k->accumulator),
		KERNEL_COLUMNS, COLUMN_VECTORS);
	value_accumulate(w, &root, "*sum", value);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
}

/* Walks the reduced dimensions in row-major order, the last one in runs. */
static void write_column_loop(struct writer *w, const char *const *index) {
	const struct kernel *k = w->k;
	unsigned last = k->rank - 1u;

	text_line(w, "rest = start;");
	frame_indices(w, k->kept, k->rank);
	text_open(w, "for (long j = 0; j < count;)");
	text_line(w, "const long run = min(d%u, i%u + count - j);", last, last);
	text_open(w, "for (; i%u < run; i%u++, j++)", last, last);
	write_column_element(w, index);
	text_close(w);
	text_line(w, "i%u = 0;", last);
	if (last > k->kept)
		frame_step(w, k->kept, last);
	text_close(w);
}

static void write_column_tree(struct writer *w) {
	const struct reduction root = reduce_root(w);

	text_open(w, "for (int h = %u; h > 0; h /= 2)", KERNEL_COLUMNS / 2);
	text_open(w, "for (int c = 0; c < h && c + h < columns; c++)");
	text_line(w, "%s *const sum = &acc[c * %u + l / W];", value_register(w->k->accumulator), COLUMN_VECTORS);
	text_line(w, "const %s other = sum[h * %u];", value_register(w->k->accumulator), COLUMN_VECTORS);
	value_combine(w, &root, "*sum", "other");
	text_close(w);
	text_close(w);
}

static void write_column_outputs(struct writer *w, const char *const *index) {
	struct scope s = { .needs = &w->outer, .pointer = "q", .lane = "l", .count = "n" };
	const struct reduction root = reduce_root(w);

	operand_place(w, &w->outer, "q", index);
	open_strip(w);
	write_column_tree(w);
	value_root(w, value_of_key(&root, "acc[l / W]").text);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

static void write_column(struct writer *w, const char *const *inner, const char *const *outer) {
	const struct kernel *k = w->k;

	reduce_range(w);
	text_line(w, "const long count = stop - start;");
	text_line(w, "const int columns = clamp(count, 1l, %ul);", KERNEL_COLUMNS);
	text_line(w, "%s acc[%u];", value_register(k->accumulator), KERNEL_COLUMNS * COLUMN_VECTORS);
	text_line(w, "for (int c = 0; c < columns; c++)");
	text_line(w, "\tfor (long l = 0; l < width; l += W)");
	text_line(w, "\t\tacc[c * %u + l / W] = neutral;", COLUMN_VECTORS);
	write_column_loop(w, inner);
	write_column_outputs(w, outer);
}

void reduce_column(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names inner = frame_names(k->rank), outer = frame_names(k->kept);
	const struct reduction root = reduce_root(w);
	unsigned lanes = k->kept - 1u;

	inner.name[lanes] = outer.name[lanes] = "left";
	frame_units(w);
	walk_neutral(w, &root);
	text_line(w, "const long strip = ((d%u + r[%u] - 1) / r[%u] + W - 1) / W * W;", lanes, KERNEL_WORD_PIECES,
		KERNEL_WORD_PIECES);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long left = take(&rest, r[%u]) * strip;", KERNEL_WORD_PIECES);
	text_line(w, "const long width = min(d%u - left, strip);", lanes);
	frame_indices(w, 0, lanes);
	write_column(w, inner.name, outer.name);
	text_close(w);
}

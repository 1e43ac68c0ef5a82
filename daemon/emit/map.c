/*
 * Elementwise kernels.
 *
 * CPU strategy: a unit is a piece of a row (the last dimension), walked in vectors; a work-item
 * does several. The last vector of a piece holds fewer lanes: loads may read past them, gathers repeat
 * the last one, stores count. One loop serves both, which costs nothing next to the memory and
 * halves what there is to compile.
 *
 * GPU strategy: one element a lane, those of a group side by side, so that accesses coalesce.
 */
#include "writer.h"

static void write_lanes(struct writer *w) {
	struct scope s = {
		.needs = &w->outer, .pointer = "p", .lane = "j", .count = "n", .hoist = true, .stream = true,
	};

	value_write(w, &s, LEVEL_UNIT);
	text_open(w, "for (long j = 0; j < count; j += W)");
	text_line(w, "const int n = min(count - j, (long)W);");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

/* A rank-0 kernel has one element and no loop. */
static void write_scalar(struct writer *w) {
	struct scope s = { .needs = &w->outer, .pointer = "a" };

	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
}

void map_lanes(struct writer *w) {
	struct frame_names index = frame_names(w->k->rank);
	unsigned rows = w->k->rank - 1u;

	if (w->k->rank == 0) {
		write_scalar(w);
		return;
	}
	index.name[rows] = "left";
	frame_units(w);
	text_line(w, "const long length = r[%u];", KERNEL_WORD_EXTENT);
	text_line(w, "ulong rest = begin;");
	text_line(w, "long piece = take(&rest, r[%u]);", KERNEL_WORD_PIECES);
	frame_indices(w, 0, rows);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "const long left = piece * length;");
	text_line(w, "const long count = min(d%u - left, length);", rows);
	operand_place(w, &w->outer, "p", index.name);
	operand_aligned(w, "p");
	write_lanes(w);
	text_line(w, "if (++piece < (long)r[%u])", KERNEL_WORD_PIECES);
	text_line(w, "\tcontinue;");
	text_line(w, "piece = 0;");
	frame_step(w, 0, rows);
	text_close(w);
}

void map_groups(struct writer *w) {
	struct frame_names index = frame_names(w->k->rank);
	struct scope s = { .needs = &w->outer, .pointer = "p" };

	text_line(w, "const ulong begin = get_group_id(0) * r[%u] * %u + get_local_id(0);",
		KERNEL_WORD_UNITS_PER_ITEM, w->t->local_size);
	text_line(w, "const ulong end = min(begin + r[%u] * %u, r[%u]);", KERNEL_WORD_UNITS_PER_ITEM,
		w->t->local_size, KERNEL_WORD_UNITS);
	text_open(w, "for (ulong unit = begin; unit < end; unit += %u)", w->t->local_size);
	text_line(w, "ulong rest = unit;");
	frame_indices(w, 0, w->k->rank);
	operand_place(w, &w->outer, "p", index.name);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

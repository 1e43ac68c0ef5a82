/*
 * Elementwise kernels.
 *
 * CPU strategy: a unit is a piece of a row (the last dimension), walked in vectors; a work-item
 * does several. The last vector of a piece holds fewer lanes: loads may read past them, gathers repeat
 * the last one, stores count. One loop serves both, which costs nothing next to the memory and
 * halves what there is to compile. Where the values of a vector are a long chain of dear operations, each waiting for the one
 * before, a loop before that one computes several vectors side by side: a processor looks ahead by about a hundred
 * operations, which a chain of that length fills with waiting.
 *
 * GPU strategy: one element or vector a lane, those of a group side by side, so that accesses coalesce.
 */
#include "writer.h"

#include <stdio.h>

static bool is_strided(const struct kernel *k, unsigned o) {
	return !k->operand[o].output && !k->operand[o].iota && k->operand[o].access == KERNEL_STRIDED;
}

bool map_may_cross(const struct kernel *k) {
	for (unsigned o = 0; o < k->operands; o++)
		if (k->rank >= 2 && is_strided(k, o))
			return true;
	return false;
}

/* Operations that take many steps, each of which waits for the one before. */
static bool is_dear(unsigned op) {
	static const bool dear[OP_COUNT] = {
#define WEIGHT(op, class, times) [OP_##op] = RATE_##class != RATE_CHEAP,
#define WEIGHT_INTEGER(op, class, times)
#include "daemon/plan/weights.def"
#undef WEIGHT
#undef WEIGHT_INTEGER
	};

	return op < OP_COUNT && dear[op];
}

bool map_is_dear(const struct kernel *k) {
	for (unsigned v = 0; v < k->values; v++)
		if (k->value[v].kind == KERNEL_OP && is_dear(k->value[v].op))
			return true;
	return false;
}

/* How many vectors are computed side by side. 64 bits a lane take two registers a vector. */
static unsigned vectors_beside(const struct writer *w, const struct scope *s) {
	unsigned dear = 0, bytes = 0, registers = value_registers(w, s), n;

	for (unsigned v = 0; v < w->k->values; v++) {
		const struct kernel_value *value = &w->k->value[v];
		unsigned size = dtype_info(dtype_info(value->dtype)->reg)->bytes;

		if (!s->needs->value[v])
			continue;
		dear += value->kind == KERNEL_OP && is_dear(value->op);
		bytes = size > bytes ? size : bytes;
	}
	/* Without any, all elements are the same. */
	if (!registers || !value_may_be_beside(w))
		return 1;
	if (w->k->beside)
		return w->k->beside;
	if (dear < MAP_DEAR)
		return 1;
	n = (MAP_REGISTERS - MAP_TEMPORARIES) / registers / (bytes > 4 ? 2 : 1);
	return n > MAP_BESIDE ? MAP_BESIDE : n;
}

/* Leaves j where what remains of the piece begins. */
static void write_beside(struct writer *w, const struct scope *s, unsigned count) {
	struct scope vector[MAP_BESIDE];
	char lane[MAP_BESIDE][sizeof "(j + 9 * W)"];

	for (unsigned i = 0; i < count; i++) {
		snprintf(lane[i], sizeof lane[i], i ? "(j + %u * W)" : "j", i);
		vector[i] = *s;
		vector[i].lane = lane[i];
		vector[i].count = "W";
	}
	text_line(w, "long j = 0;");
	text_open(w, "for (; count - j >= %u * W; j += %u * W)", count, count);
	value_write_beside(w, vector, count);
	for (w->twin = 0; w->twin < count; w->twin++)
		value_store(w, &vector[w->twin]);
	w->twin = 0;
	value_forget(w, s, LEVEL_ELEMENT);
	text_close(w);
}

static void write_lanes(struct writer *w) {
	struct scope s = {
		.needs = &w->outer,
		.pointer = "p",
		.lane = "j",
		.count = "n",
		.hoist = true,
		.stream = true,
	};
	unsigned beside;

	value_write(w, &s, LEVEL_UNIT);
	beside = vectors_beside(w, &s);
	if (beside > 1)
		write_beside(w, &s, beside);
	text_open(w, beside > 1 ? "for (; j < count; j += W)" : "for (long j = 0; j < count; j += W)");
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

/*
 * An operand whose elements lie closer together down the rows than along them (a transposed one) is read
 * in narrow strips, so that the lines of memory it touches are used again in the next row.
 */
static void open_strips(struct writer *w, unsigned rows) {
	text_begin(w);
	text_part(w, "const int across = 0");
	for (unsigned o = 0; o < w->k->operands; o++)
		if (is_strided(w->k, o) && w->outer.operand[o])
			text_part(w, " || abs(s%u_%u) < abs(s%u_%u)", o, rows - 1, o, rows);
	text_part(w, ";");
	text_end(w);
	text_line(w, "const long width = across ? %u : length;", MAP_STRIP);
	text_open(w, "for (long strip = 0; strip < length; strip += width)");
}

static void write_units(struct writer *w, unsigned rows, bool strips) {
	struct frame_names index = frame_names(w->k->rank);

	index.name[rows] = "left";
	text_line(w, "ulong rest = begin;");
	text_line(w, "long piece = take(&rest, r[%u]);", KERNEL_WORD_PIECES);
	frame_indices(w, 0, rows);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "const long left = piece * length%s;", strips ? " + strip" : "");
	text_line(w, "const long count = min(d%u - left, %s);", rows,
		strips ? "min(length - strip, width)" : "length");
	operand_place(w, &w->outer, "p", index.name);
	operand_aligned(w, &w->outer, "p");
	write_lanes(w);
	text_line(w, "if (++piece < (long)r[%u])", KERNEL_WORD_PIECES);
	text_line(w, "\tcontinue;");
	text_line(w, "piece = 0;");
	frame_step(w, 0, rows);
	text_close(w);
}

void map_lanes(struct writer *w) {
	bool strips = map_may_cross(w->k);
	unsigned rows = w->k->rank - 1u;

	if (w->k->rank == 0) {
		write_scalar(w);
		return;
	}
	frame_units(w);
	text_line(w, "const long length = r[%u];", KERNEL_WORD_EXTENT);
	if (strips)
		open_strips(w, rows);
	write_units(w, rows, strips);
	if (strips)
		text_close(w);
}

/* A vector a lane: through whole vectors where they lie on them, else element by element. */
static void map_vectors(struct writer *w) {
	struct frame_names index = frame_names(w->k->rank);
	struct scope s = { .needs = &w->outer, .pointer = "p", .lane = "0", .count = "n" };
	unsigned rows = w->k->rank - 1u;

	index.name[rows] = "left";
	text_line(w, "ulong rest = unit;");
	if (rows)
		text_line(w, "const long left = take(&rest, r[%u]) * W;", KERNEL_WORD_PIECES);
	else
		text_line(w, "const long left = rest * W;");
	frame_indices(w, 0, rows);
	text_line(w, "const int n = min(d%u - left, (long)W);", rows);
	operand_place(w, &w->outer, "p", index.name);
	operand_whole(w, &w->outer, "p");
	value_vector(w, &s, LEVEL_UNIT);
}

void map_groups(struct writer *w) {
	struct frame_names index = frame_names(w->k->rank);
	struct scope s = { .needs = &w->outer, .pointer = "p" };

	text_line(w, "const ulong begin = get_group_id(0) * r[%u] * %u + get_local_id(0);",
		KERNEL_WORD_UNITS_PER_ITEM, w->t->local_size);
	text_line(w, "const ulong end = min(begin + r[%u] * %u, r[%u]);", KERNEL_WORD_UNITS_PER_ITEM,
		w->t->local_size, KERNEL_WORD_UNITS);
	text_open(w, "for (ulong unit = begin; unit < end; unit += %u)", w->t->local_size);
	if (w->k->width > 1) {
		map_vectors(w);
		text_close(w);
		return;
	}
	text_line(w, "ulong rest = unit;");
	frame_indices(w, 0, w->k->rank);
	operand_place(w, &w->outer, "p", index.name);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
}

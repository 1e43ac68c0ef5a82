/*
 * Elementwise kernels that read transposed inputs, CPU strategy.
 *
 * Such an input lies side by side down the rows, where all else lies along them. Gathered lane by lane, each element of a
 * vector is a load and an insertion of its own. Here a unit is a block of as many rows as a vector has lanes: of each such
 * input a vector is read down the rows for each lane, and these are turned in registers into vectors along the lanes,
 * one a row, from which the rows are computed as in map.c.
 *
 * Requires what plan/layout.c chooses: every strided input has stride 1 along the dim before the lanes, and elements that
 * are words in registers; no output is strided. Vectors are read whole, beyond the last row, too.
 */
#include "writer.h"

static bool is_turned(const struct kernel *k, unsigned o) {
	return !k->operand[o].output && !k->operand[o].iota && k->operand[o].access == KERNEL_STRIDED;
}

/* Values that are loaded from such an input. */
static bool holds(const struct writer *w, unsigned v) {
	const struct kernel_value *value = &w->k->value[v];

	return w->outer.value[v] && value->kind == KERNEL_LOAD && is_turned(w->k, value->index);
}

void map_turned_functions(struct writer *w) {
	bool there[DTYPE_COUNT] = { false };

	for (unsigned v = 0; v < w->k->values; v++) {
		enum dtype reg = dtype_info(w->k->value[v].dtype)->reg;

		if (!holds(w, v) || there[reg])
			continue;
		there[reg] = true;
		matmul_turn(w, reg);
	}
}

/* A vector down the rows for each lane; those beyond the last lane repeat it. */
static void write_turned(struct writer *w, unsigned v) {
	unsigned o = w->k->value[v].index, bytes = dtype_info(w->k->operand[o].dtype)->bytes;

	text_line(w, "%s held%u[W];", value_register(w->k->value[v].dtype), v);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < W; i++)");
	text_line(w, "\theld%u[i] = load_%s(b%u + %u * ((j + min(i, n - 1)) * s%u_%u));", v,
		dtype_info(w->k->operand[o].dtype)->name, o, bytes, o, w->lane_dim);
	text_line(w, "turn(held%u);", v);
}

/* What is not turned is read where the row lies. */
static void write_row(struct writer *w, struct frame_names index) {
	bool held[KERNEL_VALUES] = { false };
	struct needs others = w->outer;
	struct scope s = { .needs = &w->outer, .pointer = "p", .lane = "j", .count = "n", .stream = true, .held = held,
		.held_at = "i" };

	for (unsigned v = 0; v < w->k->values; v++)
		held[v] = holds(w, v);
	for (unsigned o = 0; o < w->k->operands; o++)
		others.operand[o] &= !is_turned(w->k, o);
	text_line(w, "const long row = top + i;");
	index.name[w->lane_dim - 1] = "row";
	operand_place(w, &others, "p", index.name);
	operand_aligned(w, &others, "p");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	value_forget(w, &s, LEVEL_UNIT);
}

static void place_turned(struct writer *w, struct frame_names index) {
	struct needs turned = w->outer;

	for (unsigned o = 0; o < w->k->operands; o++)
		turned.operand[o] &= is_turned(w->k, o);
	index.name[w->lane_dim - 1] = "top";
	operand_place(w, &turned, "b", index.name);
}

void map_turned(struct writer *w) {
	struct frame_names index = frame_names(w->lane_dim - 1);

	index.name[w->lane_dim] = "left";
	frame_units(w);
	text_line(w, "const long length = r[%u];", KERNEL_WORD_EXTENT);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long top = take(&rest, (d%u + W - 1) / W) * W;", w->lane_dim - 1);
	text_line(w, "const long left = take(&rest, r[%u]) * length;", KERNEL_WORD_PIECES);
	frame_indices(w, 0, w->lane_dim - 1);
	text_line(w, "const long count = min(d%u - left, length);", w->lane_dim);
	text_line(w, "const int height = min(d%u - top, (long)W);", w->lane_dim - 1);
	place_turned(w, index);
	text_open(w, "for (long j = 0; j < count; j += W)");
	text_line(w, "const int n = min(count - j, (long)W);");
	for (unsigned v = 0; v < w->k->values; v++)
		if (holds(w, v))
			write_turned(w, v);
	text_open(w, "for (int i = 0; i < height; i++)");
	write_row(w, index);
	text_close(w);
	text_close(w);
	text_close(w);
}

/*
 * Reductions in the CPU strategy: a work-item computes whole outputs.
 *
 * Element j goes to column j % 64. ROW holds the columns in 64 / W vectors and fills lanes
 * beyond the row with the neutral element, which changes no bit. COLUMN gives each lane an output of its
 * own and keeps 64 vectors a strip in private memory, GENERAL is the same with one lane; columns that
 * no element reaches are left out of the tree, since combining with the neutral element changes nothing.
 */
#include "writer.h"

#include <stdio.h>

static unsigned vectors(const struct kernel *k) {
	return (unsigned)KERNEL_COLUMNS / k->width;
}

void reduce_neutral(struct writer *w) {
	const struct kernel *k = w->k;
	const char *type = value_register(k->accumulator), *neutral = value_neutral(k);

	if (k->op == OP_reduce_sum && dtype_info(k->accumulator)->kind == DTYPE_KIND_REAL)
		text_line(w, "const %s neutral = (%s)(r[%u] ? %s : 0.0f);", type, type, KERNEL_WORD_EXTENT,
			neutral);
	else
		text_line(w, "const %s neutral = (%s)(%s);", type, type, neutral);
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

/* ---- ROW ---- */

/* Puts the accumulators into registers; as single lanes they would be too many. */
static void unroll_vectors(struct writer *w) {
	if (w->k->width > 1)
		text_line(w, "#pragma unroll");
}

/* The lanes of a vector, each taking the one h further on: ".s89ab...". */
static void write_halving(struct writer *w, unsigned h) {
	char half[KERNEL_COLUMNS + 16] = "sum.s";
	unsigned n = 5;

	for (unsigned lane = 0; lane < w->k->width; lane++)
		half[n++] = "0123456789abcdef"[h + lane % h];
	half[n] = 0;
	value_combine(w, "sum", half);
}

static void write_row_tree(struct writer *w) {
	unsigned width = w->k->width;

	unroll_vectors(w);
	text_open(w, "for (int h = %u; h > 0; h /= 2)", vectors(w->k) / 2);
	unroll_vectors(w);
	text_open(w, "for (int c = 0; c < h; c++)");
	value_combine(w, "acc[c]", "acc[c + h]");
	text_close(w);
	text_close(w);
	text_line(w, "%s sum = acc[0];", value_register(w->k->accumulator));
	for (unsigned h = width / 2; h > 0; h /= 2)
		write_halving(w, h);
}

/* Whole blocks of 64 elements, one to each column. */
static void write_row_blocks(struct writer *w, struct scope *s) {
	char value[16];

	snprintf(value, sizeof value, "v%u", w->k->reduced_value);
	text_open(w, "for (; count - j >= %u; j += %u)", KERNEL_COLUMNS, KERNEL_COLUMNS);
	unroll_vectors(w);
	text_open(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "const long l = j + c * W;");
	s->count = "W";
	value_write(w, s, LEVEL_ELEMENT);
	value_combine(w, "acc[c]", value);
	value_forget(w, s, LEVEL_ELEMENT);
	text_close(w);
	text_close(w);
}

/* What is left over: at most 63 elements. */
static void write_row_rest(struct writer *w, struct scope *s) {
	const struct kernel *k = w->k;

	text_open(w, "if (j < count)");
	text_line(w, "%s last[%u];", value_register(k->accumulator), vectors(k));
	text_open(w, "for (int c = 0; c < %u; c++)", vectors(k));
	text_line(w, "const long l = j + c * W;");
	text_line(w, "const int n = min(count - l, (long)W);");
	text_line(w, "last[c] = neutral;");
	text_line(w, "if (n <= 0)");
	text_line(w, "\tcontinue;");
	s->count = "n";
	value_write(w, s, LEVEL_ELEMENT);
	text_line(w, k->width > 1 ? "last[c] = first_lanes(n, v%u, neutral);" : "last[c] = v%u;",
		k->reduced_value);
	value_forget(w, s, LEVEL_ELEMENT);
	text_close(w);
	unroll_vectors(w);
	text_open(w, "for (int c = 0; c < %u; c++)", vectors(k));
	value_combine(w, "acc[c]", "last[c]");
	text_close(w);
	text_close(w);
}

static void write_row(struct writer *w) {
	struct frame_names index = frame_names(w->k->kept);
	struct scope s = { .needs = &w->inner, .pointer = "p", .lane = "l", .hoist = true };

	index.name[w->k->rank - 1] = "start";
	reduce_range(w);
	text_line(w, "const long count = stop - start;");
	operand_place(w, &w->inner, "p", index.name);
	value_write(w, &s, LEVEL_UNIT);
	text_line(w, "%s acc[%u];", value_register(w->k->accumulator), vectors(w->k));
	unroll_vectors(w);
	text_line(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "\tacc[c] = neutral;");
	text_line(w, "long j = 0;");
	write_row_blocks(w, &s);
	write_row_rest(w, &s);
	write_row_tree(w);
}

void reduce_outputs(struct writer *w, const char *const *index, const char *root) {
	struct scope s = { .needs = &w->outer, .pointer = "q" };

	operand_place(w, &w->outer, "q", index);
	value_root(w, root);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
}

void reduce_functions(struct writer *w) {
	const char *type = value_register(w->k->accumulator);

	if (w->k->width == 1 || w->k->form != KERNEL_FORM_ROW)
		return;
	text_line(w, "/* The first n lanes of v, then those of rest. */");
	text_begin(w);
	text_part(w, "static inline %s first_lanes(int n, %s v, %s rest) { return where_(TRUTH((u8v)(", type,
		type, type);
	for (unsigned lane = 0; lane < w->k->width; lane++)
		text_part(w, "%s%u", lane ? ", " : "", lane);
	text_part(w, ") < (u8v)((uchar)n)), v, rest); }");
	text_end(w);
	text_blank(w);
}

void reduce_row(struct writer *w) {
	struct frame_names index = frame_names(w->k->kept);

	frame_units(w);
	reduce_neutral(w);
	text_line(w, "ulong rest = begin;");
	frame_indices(w, 0, w->k->kept);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_row(w);
	reduce_outputs(w, index.name, w->k->width > 1 ? "sum.s0" : "sum");
	if (w->k->kept)
		frame_step(w, 0, w->k->kept);
	text_close(w);
}

/* ---- COLUMN and GENERAL ---- */

/* Vectors of a strip: those of one output each in COLUMN, the only one in GENERAL. */
static unsigned strip(const struct kernel *k) {
	return k->form == KERNEL_FORM_COLUMN ? COLUMN_VECTORS : 1;
}

/* The loop over the vectors of a strip; GENERAL has one lane and none. `slot` tells accumulators apart. */
static const char *open_strip(struct writer *w) {
	if (w->k->form != KERNEL_FORM_COLUMN)
		return "";
	text_open(w, "for (long l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, (long)W);");
	return " + l / W";
}

static void close_strip(struct writer *w) {
	if (w->k->form == KERNEL_FORM_COLUMN)
		text_close(w);
}

static void write_column_element(struct writer *w, const char *const *index) {
	bool column = w->k->form == KERNEL_FORM_COLUMN;
	struct scope s = { .needs = &w->inner, .pointer = "p", .lane = column ? "l" : NULL, .count = "n" };
	char value[16];
	const char *slot;

	snprintf(value, sizeof value, "v%u", w->k->reduced_value);
	operand_place(w, &w->inner, "p", index);
	slot = open_strip(w);
	value_write(w, &s, LEVEL_ELEMENT);
	text_line(w, "%s *const sum = &acc[j %% %u * %u%s];", value_register(w->k->accumulator),
		KERNEL_COLUMNS, strip(w->k), slot);
	value_combine(w, "*sum", value);
	value_forget(w, &s, LEVEL_ELEMENT);
	close_strip(w);
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

static void write_column_tree(struct writer *w, const char *slot) {
	text_open(w, "for (int h = %u; h > 0; h /= 2)", KERNEL_COLUMNS / 2);
	text_open(w, "for (int c = 0; c < h && c + h < columns; c++)");
	text_line(w, "%s *const sum = &acc[c * %u%s];", value_register(w->k->accumulator), strip(w->k), slot);
	text_line(w, "const %s other = sum[h * %u];", value_register(w->k->accumulator), strip(w->k));
	value_combine(w, "*sum", "other");
	text_close(w);
	text_close(w);
}

static void write_column_outputs(struct writer *w, const char *const *index) {
	bool column = w->k->form == KERNEL_FORM_COLUMN;
	struct scope s = { .needs = &w->outer, .pointer = "q", .lane = column ? "l" : NULL, .count = "n" };

	operand_place(w, &w->outer, "q", index);
	write_column_tree(w, open_strip(w));
	value_root(w, column ? "acc[l / W]" : "acc[0]");
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	close_strip(w);
}

static void write_column(struct writer *w, const char *const *inner, const char *const *outer) {
	const struct kernel *k = w->k;

	reduce_range(w);
	text_line(w, "const long count = stop - start;");
	text_line(w, "const int columns = clamp(count, 1l, %ul);", KERNEL_COLUMNS);
	text_line(w, "%s acc[%u];", value_register(k->accumulator), KERNEL_COLUMNS * strip(k));
	text_line(w, "for (int c = 0; c < columns; c++)");
	if (k->form == KERNEL_FORM_COLUMN) {
		text_line(w, "\tfor (long l = 0; l < width; l += W)");
		text_line(w, "\t\tacc[c * %u + l / W] = neutral;", strip(k));
	} else {
		text_line(w, "\tacc[c] = neutral;");
	}
	write_column_loop(w, inner);
	write_column_outputs(w, outer);
}

void reduce_column(struct writer *w) {
	const struct kernel *k = w->k;
	bool column = k->form == KERNEL_FORM_COLUMN;
	struct frame_names inner = frame_names(k->rank), outer = frame_names(k->kept);
	unsigned rows = column ? k->kept - 1u : k->kept;

	if (column)
		inner.name[rows] = outer.name[rows] = "left";
	frame_units(w);
	reduce_neutral(w);
	if (column)
		text_line(w, "const long strip = ((d%u + r[%u] - 1) / r[%u] + W - 1) / W * W;", rows,
			KERNEL_WORD_PIECES, KERNEL_WORD_PIECES);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	if (column) {
		text_line(w, "const long left = take(&rest, r[%u]) * strip;", KERNEL_WORD_PIECES);
		text_line(w, "const long width = min(d%u - left, strip);", rows);
	}
	frame_indices(w, 0, rows);
	write_column(w, inner.name, outer.name);
	text_close(w);
}

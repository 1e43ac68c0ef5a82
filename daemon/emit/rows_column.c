/*
 * Kernels over rows in the CPU strategy, form COLUMN.
 *
 * The rows lie across the lanes, so a work-item takes a strip of rows side by side and walks all of
 * them together, pass by pass. A pass that reduces takes one of the 64 columns after the other, so that
 * accumulators stay in registers; what it reads of a row of the strip are whole lines of memory, which it asks
 * for in time where they are far. Values of the kept space stand in heldN, one vector each.
 */
#include "writer.h"

#include <stdio.h>
#include <string.h>

enum {
	/* How many rows of memory are asked for before they are needed: nothing else foresees rows that lie 64 apart. */
	AHEAD_ROWS = 4,
};

static void open_strip(struct writer *w) {
	text_open(w, "for (long l = 0; l < width; l += W)");
	text_line(w, "const int n = min(width - l, (long)W);");
}

static struct scope make_scope(const struct needs *n, const char *pointer, const bool *held) {
	return (struct scope){
		.needs = n,
		.pointer = pointer,
		.lane = "l",
		.count = "n",
		.held = held,
		.held_at = "l / W",
	};
}

/* ---- between passes ---- */

/* Values of the kept space that are known before a pass: stored where they are outputs, and held. */
static void write_kept(struct writer *w, const struct passes *p, unsigned pass) {
	bool held[KERNEL_VALUES], hold[KERNEL_VALUES];
	struct needs n = { 0 };
	struct scope s = make_scope(&n, "q", held);

	passes_kept_held(w, p, pass, held);
	passes_kept_needs(w, p, pass, &n);
	for (unsigned v = 0; v < w->k->values; v++)
		hold[v] = n.value[v] && p->held[v] && !held[v];
	s.hold = hold;
	value_write(w, &s, LEVEL_ELEMENT);
	value_remember(w, &s);
	value_store(w, &s);
	value_forget(w, &s, LEVEL_UNIT);
	for (unsigned v = 0; v < w->k->values; v++)
		if (w->k->value[v].kind == KERNEL_REDUCED)
			w->written[v] = false;
}

static void declare_held(struct writer *w, const struct passes *p) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (p->held[v] && p->home[v] == KERNEL_NONE)
			text_line(w, "%s held%u[%u];", value_register(w->k->value[v].dtype), v, COLUMN_VECTORS);
}

/* ---- a pass ---- */

static bool reduces_any(const struct writer *w, const struct passes *p, unsigned pass) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, p, pass, v))
			return true;
	return false;
}

/* Is a pass to ask for rows before it reads them? */
static bool reads_ahead(const struct writer *w, const struct passes *p, unsigned pass) {
	return w->k->far && reduces_any(w, p, pass) && w->k->rank == w->k->kept + 1u;
}

/* Declares nN, where the operands are that far on: in this column of the 64, or in those after it. */
static void place_ahead(struct writer *w, const struct passes *p, unsigned pass, const char *const *names) {
	struct frame_names index;
	struct needs n = { 0 };

	memcpy(&index, names, sizeof index);
	index.name[w->k->kept] = "next";
	text_line(w, "long next = j + %u;", AHEAD_ROWS * KERNEL_COLUMNS);
	text_line(w, "while (next >= stop)");
	text_line(w, "\tnext -= turn;");
	passes_needs(w, p, pass, &n);
	operand_place_ahead(w, &n, "n", index.name);
}

/* What a pass does with element j of the row: `at` is where the accumulators of its column are. */
static void write_element(
	struct writer *w, const struct passes *p, unsigned pass, const char *stem, const char *at, bool streams) {
	bool held[KERNEL_VALUES], hold[KERNEL_VALUES];
	struct needs n = { 0 };
	struct scope s = make_scope(&n, "p", held);

	s.stream = true;
	s.streams = streams;
	s.hold = hold;
	s.home = p->home;
	passes_hold(w, p, pass, hold);
	passes_needs(w, p, pass, &n);
	passes_held(w, p, pass, held);
	if (reads_ahead(w, p, pass))
		operand_ahead(w, &s, "n");
	value_write(w, &s, LEVEL_ELEMENT);
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, p, pass, v))
			rows_accumulate(w, v, stem, at);
	value_remember(w, &s);
	value_store(w, &s);
	value_forget(w, &s, LEVEL_ELEMENT);
}

/* A loop over the vectors of a strip whose accumulators stay in registers. */
static void open_vectors(struct writer *w) {
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", COLUMN_VECTORS);
}

/* "if (width == 8 * W && aligned3) {" */
static void open_whole(struct writer *w, const struct needs *needs) {
	text_begin(w);
	text_part(w, "if (width == %u * W", COLUMN_VECTORS);
	for (unsigned o = 0; o < w->k->operands; o++)
		if (operand_streams(w, needs, o))
			text_part(w, " && aligned%u", o);
	text_part(w, ") {");
	text_end(w);
	w->depth++;
}

/* A row of the strip. In whole ones nothing is asked between the vectors, so that they are computed side by side. */
static void write_strip(struct writer *w, const struct passes *p, unsigned pass, const char *stem, const char *at) {
	struct needs n;

	passes_needs(w, p, pass, &n);
	open_whole(w, &n);
	open_vectors(w);
	text_line(w, "const long l = v * W;");
	text_line(w, "int n = W;");
	write_element(w, p, pass, stem, at, true);
	text_close(w);
	text_close(w);
	text_open(w, "else");
	open_vectors(w);
	text_line(w, "const long l = v * W;");
	text_open(w, "if (l < width)");
	text_line(w, "const int n = min(width - l, (long)W);");
	write_element(w, p, pass, stem, at, false);
	text_close(w);
	text_close(w);
	text_close(w);
}

/* The operands of the row space at the indices of the row. */
static void place_row(struct writer *w, const struct passes *p, unsigned pass, const char *const *index) {
	struct needs n;

	passes_needs(w, p, pass, &n);
	rows_place(w, &n, "p", index, KERNEL_SPACE_ROW);
	operand_aligned(w, &n, "p");
}

/* Walks the dims of a row, where nothing is reduced. */
static void write_walk(struct writer *w, const struct passes *p, unsigned pass, const char *const *index) {
	const struct kernel *k = w->k;
	unsigned last = k->rank - 1u;

	text_open(w, "for (long j = start; j < stop;)");
	text_line(w, "const long run = min(d%u, i%u + stop - j);", last, last);
	text_open(w, "for (; i%u < run; i%u++, j++)", last, last);
	place_row(w, p, pass, index);
	write_strip(w, p, pass, NULL, NULL);
	text_close(w);
	text_line(w, "if (i%u < d%u)", last, last);
	text_line(w, "\tbreak;");
	text_line(w, "i%u = 0;", last);
	if (last > k->kept)
		frame_step(w, k->kept, last);
	text_close(w);
}

/* Column c of all reductions of a pass, before and after its elements. */
static void open_column(struct writer *w, const struct passes *p, unsigned pass) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, p, pass, v))
			text_line(w, "%s sum%u[%u];", value_register(w->k->value[v].dtype), v, COLUMN_VECTORS);
	open_vectors(w);
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, p, pass, v))
			text_line(w, "sum%u[v] = neutral%u;", v, v);
	text_close(w);
}

static void close_column(struct writer *w, const struct passes *p, unsigned pass) {
	open_vectors(w);
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, p, pass, v))
			text_line(w, "acc%u[c * %u + v] = sum%u[v];", v, COLUMN_VECTORS, v);
	text_close(w);
}

/* Finds the indices of element j. */
static void find_row(struct writer *w, struct frame_names *index) {
	const struct kernel *k = w->k;

	if (k->rank == k->kept + 1u) {
		index->name[k->kept] = "j";
		return;
	}
	text_line(w, "ulong rest = j;");
	frame_indices(w, k->kept, k->rank);
}

/* One column after the other, each in registers: its elements are 64 rows apart, but whole lines. */
static void write_columns(struct writer *w, const struct passes *p, unsigned pass, const char *const *names) {
	struct frame_names index;

	memcpy(&index, names, sizeof index);
	text_open(w, "for (long c = 0; c < columns; c++)");
	open_column(w, p, pass);
	if (reads_ahead(w, p, pass))
		text_line(w, "const long turn = (stop - start - c + %u) / %u * %u - 1;", KERNEL_COLUMNS - 1, KERNEL_COLUMNS,
			KERNEL_COLUMNS);
	text_open(w, "for (long j = start + c; j < stop; j += %u)", KERNEL_COLUMNS);
	find_row(w, &index);
	place_row(w, p, pass, index.name);
	if (reads_ahead(w, p, pass))
		place_ahead(w, p, pass, index.name);
	write_strip(w, p, pass, "sum", "[v]");
	text_close(w);
	close_column(w, p, pass);
	text_close(w);
}

/* Elements from `start` to `stop` of the row. */
static void write_elements(
	struct writer *w, const struct passes *p, unsigned pass, const char *const *index) {
	if (reduces_any(w, p, pass))
		write_columns(w, p, pass, index);
	else
		write_walk(w, p, pass, index);
}

/* Halves the columns of one vector; those that no element reached would change nothing. */
static void write_tree(struct writer *w, unsigned v) {
	struct reduction r = rows_reduction(w, v);
	const char *type = value_register(r.dtype);

	text_open(w, "for (int h = %u; h > 0; h /= 2)", KERNEL_COLUMNS / 2);
	text_open(w, "for (int c = 0; c < h && c + h < columns; c++)");
	text_line(w, "%s *const sum = &acc%u[c * %u + l / W];", type, v, COLUMN_VECTORS);
	text_line(w, "const %s other = sum[h * %u];", type, COLUMN_VECTORS);
	value_combine(w, &r, "*sum", "other");
	text_close(w);
	text_close(w);
}

static void write_result(struct writer *w, const struct reduction *r, unsigned v, const char *expression) {
	text_line(w, "const %s v%u = %s;", value_register(r->dtype), v, value_of_key(r, expression).text);
	w->written[v] = true;
}

static void write_short(struct writer *w, const struct passes *p, unsigned pass, const char *const *index) {
	char acc[32];

	text_line(w, "const long start = 0, stop = length;");
	write_elements(w, p, pass, index);
	open_strip(w);
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (!passes_reduces(w, p, pass, v))
			continue;
		write_tree(w, v);
		snprintf(acc, sizeof acc, "acc%u[l / W]", v);
		write_result(w, &r, v, acc);
	}
	write_kept(w, p, pass + 1);
	text_close(w);
}

/* "level3 + l / W * 192": the levels of one vector. */
static void name_levels(unsigned v, char name[static 40]) {
	snprintf(name, 40, "level%u + l / W * %u", v, (unsigned)(ROWS_LEVELS * KERNEL_COLUMNS));
}

static void write_block(struct writer *w, const struct passes *p, unsigned pass, const char *const *index) {
	char carry[40], levels[40];

	text_line(w, "const long stop = min(length, start + %u);", KERNEL_BLOCK);
	write_elements(w, p, pass, index);
	open_strip(w);
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (!passes_reduces(w, p, pass, v))
			continue;
		write_tree(w, v);
		rows_name("carry", &r, carry);
		name_levels(v, levels);
		text_line(w, "%s(%s, block, acc%u[l / W], neutral%u);", carry, levels, v, v);
	}
	text_close(w);
}

static void write_long(struct writer *w, const struct passes *p, unsigned pass, const char *const *index) {
	char total[40], levels[40], expression[96];

	for (unsigned v = 0; v < w->k->values; v++) {
		unsigned n = ROWS_LEVELS * KERNEL_COLUMNS * COLUMN_VECTORS;

		if (!passes_reduces(w, p, pass, v))
			continue;
		text_line(w, "%s level%u[%u];", value_register(w->k->value[v].dtype), v, n);
		text_line(w, "for (int c = 0; c < %u; c++)", n);
		text_line(w, "\tlevel%u[c] = neutral%u;", v, v);
	}
	text_line(w, "ulong block = 0;");
	text_open(
		w, "for (long start = 0; start == 0 || start < length; start += %u, block++)", KERNEL_BLOCK);
	write_block(w, p, pass, index);
	text_close(w);
	open_strip(w);
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (!passes_reduces(w, p, pass, v))
			continue;
		rows_name("total", &r, total);
		name_levels(v, levels);
		snprintf(expression, sizeof expression, "%s(%s, block)", total, levels);
		write_result(w, &r, v, expression);
	}
	write_kept(w, p, pass + 1);
	text_close(w);
}

static void write_pass(struct writer *w, const struct passes *p, unsigned pass, const char *const *index) {
	const struct kernel *k = w->k;

	text_open(w, "/* pass %u */", pass);
	for (unsigned v = 0; v < k->values; v++)
		if (passes_reduces(w, p, pass, v))
			text_line(w, "%s acc%u[%u];", value_register(k->value[v].dtype), v,
				KERNEL_COLUMNS * COLUMN_VECTORS);
	for (unsigned d = k->kept; d < k->rank && !reduces_any(w, p, pass); d++)
		text_line(w, "long i%u = 0;", d);
	if (k->long_rows && reduces_any(w, p, pass))
		write_long(w, p, pass, index);
	else
		write_short(w, p, pass, index);
	text_close(w);
}

static void write_unit(
	struct writer *w, const struct passes *p, const char *const *row, const char *const *kept) {
	rows_place(w, &w->outer, "q", kept, KERNEL_SPACE_KEPT);
	declare_held(w, p);
	open_strip(w);
	write_kept(w, p, 0);
	text_close(w);
	for (unsigned pass = 0; pass < p->count; pass++)
		write_pass(w, p, pass, row);
}

void rows_column(struct writer *w) {
	const struct kernel *k = w->k;
	struct frame_names row = frame_names(k->rank), kept = frame_names(k->kept);
	unsigned outer = k->kept - 1u;
	struct passes p;

	passes_find(w, 0, true, &p);
	passes_hold_kept(w, &p);
	row.name[outer] = kept.name[outer] = "left";
	frame_units(w);
	text_line(w, "const long length = r[%u];", KERNEL_WORD_EXTENT);
	text_line(w, "const int columns = clamp(length, 1l, %ul);", KERNEL_COLUMNS);
	rows_declare_neutrals(w);
	text_line(w, "const long strip = ((d%u + r[%u] - 1) / r[%u] + W - 1) / W * W;", outer, KERNEL_WORD_PIECES,
		KERNEL_WORD_PIECES);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long left = take(&rest, r[%u]) * strip;", KERNEL_WORD_PIECES);
	text_line(w, "const long width = min(d%u - left, strip);", outer);
	frame_indices(w, 0, outer);
	write_unit(w, &p, row.name, kept.name);
	text_close(w);
}

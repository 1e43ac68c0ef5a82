/*
 * Along a row in the CPU strategy: the 64 columns of a row's reductions.
 *
 * Element j goes to column j % 64. The columns of each reduction are 64 / W vectors, which a compiler keeps
 * in registers; lanes beyond the row are filled with the neutral element, which changes no bit. Any number of
 * reductions and outputs share one pass over the row, so that what they have in common is read and computed
 * once.
 *
 * A row of several dims (GENERAL) is walked in runs along the last one. A run may begin at any column, so the
 * columns lie in memory; whole blocks of 64 that begin at the first are done in registers, the rest in pieces of
 * a vector at most that end where the run or the columns do.
 */
#include "writer.h"

#include <stdio.h>

static unsigned vectors(const struct kernel *k) {
	return (unsigned)KERNEL_COLUMNS / k->width;
}

static bool in_runs(const struct writer *w) {
	return w->k->form == KERNEL_FORM_GENERAL;
}

/* W columns from any one on: vectors of less alignment, as in kernels/memory.cl. */
static void write_column_functions(struct writer *w, unsigned reg) {
	const char *type = value_register(reg), *lane = value_lane(dtype_info(reg)->reg);
	const char *name = dtype_info(dtype_info(reg)->reg)->name;

	if (w->k->width == 1)
		text_line(w, "typedef %s %s_columns;", lane, name);
	else
		text_line(w, "typedef %s %s_columns __attribute__((ext_vector_type(W), aligned(%u), may_alias));", lane, name,
			dtype_info(dtype_info(reg)->reg)->bytes);
	text_line(w, "OVL %s get_columns(const %s *c, int at) { return *(const %s_columns *)(c + at); }", type, lane, name);
	text_line(w, "OVL void put_columns(%s v, %s *c, int at) { *(%s_columns *)(c + at) = v; }", type, lane, name);
	text_blank(w);
}

void walk_functions(struct writer *w, unsigned reg) {
	const char *type = value_register(reg);

	if (in_runs(w))
		write_column_functions(w, reg);
	if (w->k->width == 1)
		return;
	text_line(w, "/* The first n lanes of v, then those of rest. */");
	text_begin(w);
	text_part(
		w, "OVL %s first_lanes(int n, %s v, %s rest) { return where_(TRUTH((u8v)(", type, type, type);
	for (unsigned lane = 0; lane < w->k->width; lane++)
		text_part(w, "%s%u", lane ? ", " : "", lane);
	text_part(w, ") < (u8v)((uchar)n)), v, rest); }");
	text_end(w);
	text_blank(w);
}

void walk_neutral(struct writer *w, const struct reduction *r) {
	const char *type = value_register(r->dtype), *neutral = value_neutral(r);
	char value[64];

	snprintf(value, sizeof value, "(%s)(%s)", type, neutral);
	if (r->op == OP_reduce_sum && dtype_info(r->dtype)->kind == DTYPE_KIND_REAL)
		text_line(w, "const %s neutral%s = (%s)(r[%u] ? %s : 0.0f);", type, r->tag, type,
			KERNEL_WORD_EXTENT, neutral);
	else
		text_line(w, "const %s neutral%s = %s;", type, r->tag, value_key(r, value).text);
}

struct value_text walk_accumulator(const struct writer *w, const struct reduction *r) {
	struct value_text t;

	snprintf(t.text, sizeof t.text, "sum%s%s", r->tag, w->k->width > 1 ? ".s0" : "");
	return t;
}

struct value_text walk_result(const struct writer *w, const struct reduction *r) {
	char sum[64];

	if (w->k->width > 1)
		snprintf(sum, sizeof sum, "(%s)(ALONE(%s, sum%s.s0))", value_register(r->dtype), value_lane(r->dtype), r->tag);
	else
		snprintf(sum, sizeof sum, "(%s)(sum%s)", value_register(r->dtype), r->tag);
	return value_of_key(r, sum);
}

/* Puts the accumulators into registers; as single lanes they would be too many. */
static void unroll_vectors(struct writer *w) {
	if (w->k->width > 1)
		text_line(w, "#pragma unroll");
}

static void open_accumulators(struct writer *w, const struct reduction *r) {
	text_line(w, "%s acc%s[%u];", value_register(r->dtype), r->tag, vectors(w->k));
	unroll_vectors(w);
	text_line(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "\tacc%s[c] = neutral%s;", r->tag, r->tag);
}

/* "acc3[2]" */
static struct value_text accumulator(const struct reduction *r, const char *at) {
	struct value_text t;

	snprintf(t.text, sizeof t.text, "acc%s[%s]", r->tag, at);
	return t;
}

/* The lanes of a vector, each taking the one h further on: ".s89ab...". */
static void write_halving(struct writer *w, const struct reduction *r, unsigned h) {
	char sum[16], half[KERNEL_COLUMNS];
	int n = snprintf(half, sizeof half, "sum%s.s", r->tag);

	for (unsigned lane = 0; lane < w->k->width; lane++)
		half[n++] = "0123456789abcdef"[h + lane % h];
	half[n] = 0;
	snprintf(sum, sizeof sum, "sum%s", r->tag);
	value_combine(w, r, sum, half);
}

/* Step by step: a compiler leaves a loop within a loop as it is, and the accumulators in memory. */
static void write_upper_tree(struct writer *w, const struct reduction *r) {
	char at[16], other[16];

	for (unsigned h = vectors(w->k) / 2; h > 0; h /= 2)
		for (unsigned c = 0; c < h; c++) {
			snprintf(at, sizeof at, "%u", c);
			snprintf(other, sizeof other, "%u", c + h);
			value_combine(w, r, accumulator(r, at).text, accumulator(r, other).text);
		}
}

static void write_lane_tree(struct writer *w, const struct reduction *r) {
	text_open(w, "for (int h = %u; h > 0; h /= 2)", vectors(w->k) / 2);
	text_open(w, "for (int c = 0; c < h; c++)");
	value_combine(w, r, accumulator(r, "c").text, accumulator(r, "c + h").text);
	text_close(w);
	text_close(w);
}

static void write_tree(struct writer *w, const struct reduction *r) {
	unsigned width = w->k->width;

	if (width > 1)
		write_upper_tree(w, r);
	else
		write_lane_tree(w, r);
	text_line(w, "%s sum%s = acc%s[0];", value_register(r->dtype), r->tag, r->tag);
	for (unsigned h = width / 2; h > 0; h /= 2)
		write_halving(w, r, h);
}

/* Whole blocks of 64 elements from `at` on, one to each column. */
static void write_blocks(struct writer *w, const struct walk *walk, const char *at, const char *limit) {
	struct scope s = walk->scope;
	char value[16];

	s.count = "W";
	text_open(w, "for (; %s - %s >= %u; %s += %u)", limit, at, KERNEL_COLUMNS, at, KERNEL_COLUMNS);
	unroll_vectors(w);
	text_open(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "const long l = %s + c * W;", at);
	if (walk->ahead)
		operand_ahead(w, &s, "n");
	value_write(w, &s, LEVEL_ELEMENT);
	for (unsigned i = 0; i < walk->reductions; i++) {
		snprintf(value, sizeof value, "v%u", walk->reduced[i]);
		value_accumulate(w, &walk->reduction[i], accumulator(&walk->reduction[i], "c").text, value);
	}
	value_remember(w, &s);
	value_store(w, &s);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
	text_close(w);
}

/* The values of the last block, filled up with the neutral element. */
static void write_last(struct writer *w, const struct walk *walk) {
	struct scope s = walk->scope;
	char value[16];

	s.count = "n";
	text_open(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "const long l = j + c * W;");
	text_line(w, "const int n = min(%s - l, (long)W);", walk->limit);
	for (unsigned i = 0; i < walk->reductions; i++)
		text_line(w, "last%s[c] = neutral%s;", walk->reduction[i].tag, walk->reduction[i].tag);
	text_line(w, "if (n <= 0)");
	text_line(w, "\tcontinue;");
	value_write(w, &s, LEVEL_ELEMENT);
	for (unsigned i = 0; i < walk->reductions; i++) {
		const char *tag = walk->reduction[i].tag;
		struct value_text key;

		snprintf(value, sizeof value, "v%u", walk->reduced[i]);
		key = value_key(&walk->reduction[i], value);
		if (w->k->width > 1)
			text_line(w, "last%s[c] = first_lanes(n, %s, neutral%s);", tag, key.text, tag);
		else
			text_line(w, "last%s[c] = %s;", tag, key.text);
	}
	value_remember(w, &s);
	value_store(w, &s);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
}

/* What is left over: at most 63 elements. */
static void write_rest(struct writer *w, const struct walk *walk) {
	char last[24];

	text_open(w, "if (j < %s)", walk->limit);
	for (unsigned i = 0; i < walk->reductions; i++)
		text_line(w, "%s last%s[%u];", value_register(walk->reduction[i].dtype),
			walk->reduction[i].tag, vectors(w->k));
	write_last(w, walk);
	if (walk->reductions) {
		unroll_vectors(w);
		text_open(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
		for (unsigned i = 0; i < walk->reductions; i++) {
			snprintf(last, sizeof last, "last%s[c]", walk->reduction[i].tag);
			value_combine(w, &walk->reduction[i], accumulator(&walk->reduction[i], "c").text, last);
		}
		text_close(w);
	}
	text_close(w);
}

/* ---- in runs ---- */

/* The columns in memory, and a vector more, which pieces at the end reach into and leave as it is. */
static void open_columns(struct writer *w, const struct reduction *r) {
	const char *lane = value_lane(dtype_info(r->dtype)->reg);

	text_line(w, "%s column%s[%u + W];", lane, r->tag, KERNEL_COLUMNS);
	text_line(w, "for (int c = 0; c <= %u; c += W)", KERNEL_COLUMNS);
	text_line(w, "\tput_columns(neutral%s, column%s, c);", r->tag, r->tag);
}

static void load_columns(struct writer *w, const struct reduction *r) {
	text_line(w, "%s acc%s[%u];", value_register(r->dtype), r->tag, vectors(w->k));
	unroll_vectors(w);
	text_line(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "\tacc%s[c] = get_columns(column%s, c * W);", r->tag, r->tag);
}

static void store_columns(struct writer *w, const struct reduction *r) {
	unroll_vectors(w);
	text_line(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "\tput_columns(acc%s[c], column%s, c * W);", r->tag, r->tag);
}

/* At least 64 elements that begin at the first column. */
static void write_run_blocks(struct writer *w, const struct walk *walk) {
	if (walk->scope.stream)
		operand_aligned(w, walk->scope.needs, "p");
	text_line(w, "taken = 0;");
	for (unsigned i = 0; i < walk->reductions; i++)
		load_columns(w, &walk->reduction[i]);
	write_blocks(w, walk, "taken", "run");
	for (unsigned i = 0; i < walk->reductions; i++)
		store_columns(w, &walk->reduction[i]);
}

/* At most a vector, up to the last column. */
static void write_run_piece(struct writer *w, const struct walk *walk) {
	struct scope s = walk->scope;
	char acc[16], value[16];

	s.count = "n";
	s.stream = false;
	text_line(w, "const long l = 0;");
	if (walk->reductions)
		text_line(w, "const int n = min(run, (long)min((int)W, %u - first));", KERNEL_COLUMNS);
	else
		text_line(w, "const int n = min(run, (long)W);");
	value_write(w, &s, LEVEL_ELEMENT);
	for (unsigned i = 0; i < walk->reductions; i++) {
		const struct reduction *r = &walk->reduction[i];

		snprintf(acc, sizeof acc, "acc%s", r->tag);
		snprintf(value, sizeof value, "v%u", walk->reduced[i]);
		text_line(w, "const %s old%s = get_columns(column%s, first);", value_register(r->dtype), r->tag, r->tag);
		text_line(w, "%s %s = old%s;", value_register(r->dtype), acc, r->tag);
		value_accumulate(w, r, acc, value);
		if (w->k->width > 1)
			text_line(w, "%s = first_lanes(n, %s, old%s);", acc, acc, r->tag);
		text_line(w, "put_columns(%s, column%s, first);", acc, r->tag);
	}
	value_remember(w, &s);
	value_store(w, &s);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_line(w, "taken = n;");
}

/* Requires j and the indices of element j, which it steps. */
static void write_runs(struct writer *w, const struct walk *walk) {
	struct frame_names index = frame_names(w->k->rank);
	unsigned last = w->k->rank - 1u;

	for (unsigned i = 0; i < walk->reductions; i++)
		open_columns(w, &walk->reduction[i]);
	text_open(w, "while (j < %s)", walk->limit);
	text_line(w, "const long run = min(d%u - i%u, %s - j);", last, last, walk->limit);
	if (walk->reductions)
		text_line(w, "const int first = j %% %u;", KERNEL_COLUMNS);
	text_line(w, "long taken;");
	rows_place(w, walk->scope.needs, "p", index.name, KERNEL_SPACE_ROW);
	text_open(w, walk->reductions ? "if (first == 0 && run >= %u)" : "if (run >= %u)", KERNEL_COLUMNS);
	write_run_blocks(w, walk);
	text_close(w);
	text_open(w, "else");
	write_run_piece(w, walk);
	text_close(w);
	text_line(w, "j += taken;");
	text_line(w, "i%u += taken;", last);
	text_line(w, "if (i%u < d%u)", last, last);
	text_line(w, "\tcontinue;");
	text_line(w, "i%u = 0;", last);
	if (last > w->k->kept)
		frame_step(w, w->k->kept, last);
	text_close(w);
	for (unsigned i = 0; i < walk->reductions; i++)
		load_columns(w, &walk->reduction[i]);
}

void walk_row(struct writer *w, const struct walk *walk) {
	if (in_runs(w)) {
		write_runs(w, walk);
	} else {
		for (unsigned i = 0; i < walk->reductions; i++)
			open_accumulators(w, &walk->reduction[i]);
		write_blocks(w, walk, "j", walk->limit);
		write_rest(w, walk);
	}
	for (unsigned i = 0; i < walk->reductions; i++)
		write_tree(w, &walk->reduction[i]);
}

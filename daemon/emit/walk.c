/*
 * Along a row in the CPU strategy: the 64 columns of a row's reductions.
 *
 * Element j goes to column j % 64. The columns of each reduction are 64 / W vectors, which a compiler keeps
 * in registers; lanes beyond the row are filled with the neutral element, which changes no bit. Any number of
 * reductions and outputs share one pass over the row, so that what they have in common is read and computed
 * once.
 */
#include "writer.h"

#include <stdio.h>

static unsigned vectors(const struct kernel *k) {
	return (unsigned)KERNEL_COLUMNS / k->width;
}

void walk_functions(struct writer *w, unsigned reg) {
	const char *type = value_register(reg);

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

	if (r->op == OP_reduce_sum && dtype_info(r->dtype)->kind == DTYPE_KIND_REAL)
		text_line(w, "const %s neutral%s = (%s)(r[%u] ? %s : 0.0f);", type, r->tag, type,
			KERNEL_WORD_EXTENT, neutral);
	else
		text_line(w, "const %s neutral%s = (%s)(%s);", type, r->tag, type, neutral);
}

void walk_result(const struct writer *w, const struct reduction *r, char result[static 16]) {
	snprintf(result, 16, "sum%s%s", r->tag, w->k->width > 1 ? ".s0" : "");
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

/* "acc3[c]" = combine("acc3[c]", y) */
static void accumulate(struct writer *w, const struct reduction *r, const char *y) {
	char acc[16];

	snprintf(acc, sizeof acc, "acc%s[c]", r->tag);
	value_combine(w, r, acc, y);
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

static void write_tree(struct writer *w, const struct reduction *r) {
	unsigned width = w->k->width;
	char other[24];

	snprintf(other, sizeof other, "acc%s[c + h]", r->tag);
	unroll_vectors(w);
	text_open(w, "for (int h = %u; h > 0; h /= 2)", vectors(w->k) / 2);
	unroll_vectors(w);
	text_open(w, "for (int c = 0; c < h; c++)");
	accumulate(w, r, other);
	text_close(w);
	text_close(w);
	text_line(w, "%s sum%s = acc%s[0];", value_register(r->dtype), r->tag, r->tag);
	for (unsigned h = width / 2; h > 0; h /= 2)
		write_halving(w, r, h);
}

/* Whole blocks of 64 elements, one to each column. */
static void write_blocks(struct writer *w, const struct walk *walk) {
	struct scope s = walk->scope;
	char value[16];

	s.count = "W";
	text_open(w, "for (; %s - j >= %u; j += %u)", walk->limit, KERNEL_COLUMNS, KERNEL_COLUMNS);
	unroll_vectors(w);
	text_open(w, "for (int c = 0; c < %u; c++)", vectors(w->k));
	text_line(w, "const long l = j + c * W;");
	value_write(w, &s, LEVEL_ELEMENT);
	for (unsigned i = 0; i < walk->reductions; i++) {
		snprintf(value, sizeof value, "v%u", walk->reduced[i]);
		accumulate(w, &walk->reduction[i], value);
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

		if (w->k->width > 1)
			text_line(
				w, "last%s[c] = first_lanes(n, v%u, neutral%s);", tag, walk->reduced[i], tag);
		else
			text_line(w, "last%s[c] = v%u;", tag, walk->reduced[i]);
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
			accumulate(w, &walk->reduction[i], last);
		}
		text_close(w);
	}
	text_close(w);
}

void walk_row(struct writer *w, const struct walk *walk) {
	for (unsigned i = 0; i < walk->reductions; i++)
		open_accumulators(w, &walk->reduction[i]);
	write_blocks(w, walk);
	write_rest(w, walk);
	for (unsigned i = 0; i < walk->reductions; i++)
		write_tree(w, &walk->reduction[i]);
}

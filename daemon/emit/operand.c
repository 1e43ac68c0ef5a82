/*
 * Operands: where they lie, and the loads and stores that reach them.
 *
 * Strides and addresses are copied into constants once a task: a compiler must assume that stores
 * change the record.
 */
#include "writer.h"

static bool is_reduced(const struct kernel *k, unsigned d) {
	if (kernel_inner_dims(k))
		return d >= k->rank - kernel_inner_dims(k);
	return k->root == KERNEL_REDUCE && d >= k->kept;
}

/* What a scan in blocks begins each with. */
static bool is_carry(const struct kernel *k, unsigned o) {
	return k->root == KERNEL_SCAN && k->block_dim < k->kept && o == k->carry;
}

/* Which operands the part before the root reads. A product reads its two factors. */
static bool is_inner(const struct writer *w, unsigned o) {
	if (is_carry(w->k, o))
		return true;
	if (w->k->root == KERNEL_SCATTER || w->k->root == KERNEL_SORT)
		return true;
	if (kernel_root_operands(w->k))
		return o < kernel_root_operands(w->k) || kernel_loads_before(w->k, o);
	return w->inner.operand[o];
}

bool operand_is_kept(const struct kernel *k, unsigned o) {
	if (k->root != KERNEL_ROWS)
		return false;
	if (k->operand[o].output)
		return k->value[k->operand[o].value].space == KERNEL_SPACE_KEPT;
	for (unsigned v = 0; v < k->values; v++)
		if (kernel_value_loads(&k->value[v]) && k->value[v].index == o)
			return k->value[v].space == KERNEL_SPACE_KEPT;
	return false;
}

/* Does the operand have a stride of its own in the text? Along the lanes only where it is neither 0 nor 1. */
static bool has_stride(const struct writer *w, unsigned o, unsigned d) {
	const struct kernel *k = w->k;

	if (kernel_loads_before(k, o))
		return d + 2u != k->rank;
	if (is_reduced(k, d) && !is_inner(w, o))
		return false;
	if (d >= k->kept && operand_is_kept(k, o))
		return false;
	if (k->root == KERNEL_REDUCE && d == k->block_dim && !w->outer.operand[o])
		return false;
	if (k->root == KERNEL_SCAN && d == (is_carry(k, o) ? k->rank - 1u : k->block_dim))
		return false;
	if (k->root == KERNEL_MATMUL && o < 2 && d == (o == 0 ? k->rank - 2u : k->rank - 3u))
		return o == 1 && k->packed;
	if (k->root == KERNEL_CONV && !conv_walks(k, o, d))
		return false;
	if (k->root == KERNEL_ATTENTION && !attention_walks(k, o, d))
		return false;
	return d != w->lane_dim || k->operand[o].access == KERNEL_STRIDED;
}

static void describe(struct writer *w, unsigned o) {
	static const char *const access[] = { "contiguous", "uniform", "strided" };
	const struct kernel_operand *p = &w->k->operand[o];
	const char *kind = p->iota ? "iota" : p->output ? "output" : p->gathered ? "gathered" : "input";

	text_line(w, "/* operand %u: %s, %s, %s */", o, kind, dtype_info(p->dtype)->name, access[p->access]);
}

static void declare(struct writer *w, unsigned o) {
	const struct kernel *k = w->k;
	unsigned word = kernel_word_operand(k, o);

	describe(w, o);
	if (k->operand[o].iota)
		text_line(w, "const long a%u = r[%u];", o, word);
	else
		text_line(w, "global uchar *const a%u = ADDRESS(r[%u]);", o, word);
	for (unsigned d = 0; d < k->rank; d++)
		if (has_stride(w, o, d))
			text_line(w, "const long s%u_%u = r[%u];", o, d, word + 1 + d);
}

void operand_declare(struct writer *w) {
	const struct kernel *k = w->k;

	for (unsigned d = 0; d < k->rank; d++)
		text_line(w, "const long d%u = r[%u];", d, kernel_word_dim(d));
	for (unsigned o = 0; o < k->operands; o++)
		if (is_inner(w, o) || w->outer.operand[o] || kernel_works_in(k, o))
			declare(w, o);
}

/* " + i0 * s2_0": the terms of a position. */
static void add_terms(struct writer *w, unsigned o, const char *const *index) {
	const char *join = "";

	for (unsigned d = 0; d < w->k->rank; d++) {
		bool lanes = d == w->lane_dim && w->k->operand[o].access == KERNEL_CONTIGUOUS;

		if (!index[d] || !(lanes || has_stride(w, o, d)))
			continue;
		text_part(w, "%s%s", join, index[d]);
		if (!lanes)
			text_part(w, " * s%u_%u", o, d);
		join = " + ";
	}
	if (!*join)
		text_part(w, "0");
}

static void place(struct writer *w, const char *prefix, unsigned o, const char *const *index) {
	const struct kernel_operand *p = &w->k->operand[o];

	text_begin(w);
	text_part(w, "%s%s%u = a%u + ", p->iota ? "const long " : "global uchar *const ", prefix, o, o);
	if (!p->iota && dtype_info(p->dtype)->bytes > 1)
		text_part(w, "%u * ", dtype_info(p->dtype)->bytes);
	text_part(w, "(");
	add_terms(w, o, index);
	text_part(w, ");");
	text_end(w);
}

void operand_place(
	struct writer *w, const struct needs *needs, const char *prefix, const char *const *index) {
	for (unsigned o = 0; o < w->k->operands; o++)
		if (needs->operand[o])
			place(w, prefix, o, index);
}

static bool may_stream(const struct kernel_operand *p) {
	return p->output && p->stream && p->access == KERNEL_CONTIGUOUS;
}

bool operand_streams(const struct writer *w, const struct needs *needs, unsigned o) {
	return w->k->width > 1 && needs->operand[o] && may_stream(&w->k->operand[o]);
}

void operand_aligned(struct writer *w, const struct needs *needs, const char *prefix) {
	for (unsigned o = 0; o < w->k->operands; o++)
		if (operand_streams(w, needs, o))
			text_line(w, "const int aligned%u = ((ulong)%s%u & (W * %u - 1)) == 0;", o, prefix, o,
				dtype_info(w->k->operand[o].dtype)->bytes);
}

/* "const int aligned = (0 | ((ulong)p0 & 15) | ((ulong)p1 & 15)) == 0;" */
void operand_whole(struct writer *w, const struct needs *needs, const char *prefix) {
	text_begin(w);
	text_part(w, "const int aligned = (0");
	for (unsigned o = 0; o < w->k->operands; o++)
		if (needs->operand[o] && !w->k->operand[o].iota && w->k->operand[o].access == KERNEL_CONTIGUOUS)
			text_part(w, " | ((ulong)%s%u & %u)", prefix, o,
				w->k->width * dtype_info(w->k->operand[o].dtype)->bytes - 1);
	text_part(w, ") == 0;");
	text_end(w);
}

/* The address of the first lane: "p0 + 4 * (j * s0_1)". */
static void lane_address(struct writer *w, const struct scope *s, unsigned o) {
	const struct kernel_operand *p = &w->k->operand[o];
	unsigned bytes = p->iota ? 1 : dtype_info(p->dtype)->bytes;

	text_part(w, "%s%u", s->pointer, o);
	if (!s->lane || p->access == KERNEL_UNIFORM)
		return;
	text_part(w, " + ");
	if (bytes > 1)
		text_part(w, "%u * ", bytes);
	text_part(w, "%s", s->lane);
	if (p->access == KERNEL_STRIDED)
		text_part(w, " * s%u_%u", o, w->lane_dim);
}

/* Is it one that a pass over rows reads, side by side along the lanes? */
static bool is_read(const struct writer *w, const struct needs *needs, unsigned o) {
	const struct kernel_operand *p = &w->k->operand[o];

	return needs->operand[o] && !p->output && !p->iota && !p->gathered && p->access == KERNEL_CONTIGUOUS &&
		!operand_is_kept(w->k, o);
}

void operand_place_ahead(struct writer *w, const struct needs *needs, const char *prefix, const char *const *index) {
	for (unsigned o = 0; o < w->k->operands; o++)
		if (is_read(w, needs, o))
			place(w, prefix, o, index);
}

void operand_ahead(struct writer *w, const struct scope *s, const char *prefix) {
	struct scope there = *s;

	there.pointer = prefix;
	for (unsigned o = 0; o < w->k->operands; o++) {
		if (!is_read(w, s->needs, o))
			continue;
		text_begin(w);
		text_part(w, "AHEAD(");
		lane_address(w, &there, o);
		text_part(w, ");");
		text_end(w);
	}
}

static void load_iota(struct writer *w, const struct scope *s, unsigned o) {
	const struct kernel_operand *p = &w->k->operand[o];
	bool varies = s->lane && p->access != KERNEL_UNIFORM;

	text_part(w, varies ? "iota_i64(" : "(i64v)(");
	lane_address(w, s, o);
	if (varies && p->access == KERNEL_STRIDED)
		text_part(w, ", s%u_%u", o, w->lane_dim);
	else if (varies)
		text_part(w, ", 1");
	text_part(w, ")");
}

void operand_there(struct writer *w, const struct scope *s, unsigned operand, unsigned stride) {
	text_line(w, "global uchar *const g%u = %s%u + %u * (max(at%u, 0l) * v%u%s);", operand, s->pointer, operand,
		dtype_info(w->k->operand[operand].dtype)->bytes, operand, stride, w->k->width > 1 ? ".s0" : "");
}

void operand_take(struct writer *w, const struct scope *s, const struct kernel_value *gather) {
	const struct kernel_operand *p = &w->k->operand[gather->index];

	text_part(w, "take_%s(", dtype_info(p->dtype)->name);
	lane_address(w, s, gather->index);
	text_part(w, ", position(v%u, v%u), v%u.s0, ", gather->arg[0], gather->arg[1], gather->arg[2]);
	if (p->access == KERNEL_STRIDED)
		text_part(w, "s%u_%u", gather->index, w->lane_dim);
	else
		text_part(w, p->access == KERNEL_CONTIGUOUS ? "1" : "0");
	text_part(w, ", %s)", s->count);
}

void operand_load(struct writer *w, const struct scope *s, unsigned operand) {
	const struct kernel_operand *p = &w->k->operand[operand];
	const char *name = dtype_info(p->dtype)->name;
	bool gather = s->lane && p->access == KERNEL_STRIDED && w->k->width > 1;

	if (p->iota) {
		load_iota(w, s, operand);
		return;
	}
	if (gather)
		text_part(w, "gather_%s(", name);
	else if (!s->lane || p->access == KERNEL_UNIFORM)
		text_part(w, "uniform_%s(", name);
	else
		text_part(w, s->aligned ? "aligned_%s(" : "load_%s(", name);
	lane_address(w, s, operand);
	if (gather)
		text_part(w, ", s%u_%u, %s", operand, w->lane_dim, s->count);
	text_part(w, ")");
}

/* One element, or lanes that lie side by side. */
static void store_plain(
	struct writer *w, const struct scope *s, unsigned o, unsigned value, const char *count) {
	const struct kernel_operand *p = &w->k->operand[o];

	text_part(w, "store%s_%s(", count ? "n" : "", dtype_info(p->dtype)->name);
	lane_address(w, s, o);
	text_part(w, ", %s", value_name(w, value).text);
	if (count)
		text_part(w, ", %s", count);
	text_part(w, ");");
}

/* Past the caches, where this vector is whole and aligned. */
static void store_stream(struct writer *w, const struct scope *s, unsigned o, unsigned value) {
	const struct kernel_operand *p = &w->k->operand[o];

	if (!s->streams)
		text_line(w, "if (aligned%u && %s == W)", o, s->count);
	text_begin(w);
	text_part(w, s->streams ? "stream_%s(" : "\tstream_%s(", dtype_info(p->dtype)->name);
	lane_address(w, s, o);
	text_part(w, ", %s);", value_name(w, value).text);
	text_end(w);
	if (s->streams)
		return;
	text_line(w, "else");
	text_begin(w);
	text_part(w, "\t");
	store_plain(w, s, o, value, s->count);
	text_end(w);
}

void operand_store(struct writer *w, const struct scope *s, unsigned operand, unsigned value) {
	const struct kernel_operand *p = &w->k->operand[operand];

	/* What is read again soon belongs in the cache. */
	if (w->k->width > 1 && s->stream && may_stream(p) && value == p->value) {
		store_stream(w, s, operand, value);
		return;
	}
	text_begin(w);
	if (s->aligned && p->access == KERNEL_CONTIGUOUS) {
		text_part(w, "stream_%s(", dtype_info(p->dtype)->name);
		lane_address(w, s, operand);
		text_part(w, ", v%u);", value);
	} else if (w->k->width == 1) {
		store_plain(w, s, operand, value, NULL);
	} else if (!s->lane || p->access == KERNEL_UNIFORM) {
		store_plain(w, s, operand, value, "1");
	} else if (p->access == KERNEL_STRIDED) {
		text_part(w, "scatter_%s(", dtype_info(p->dtype)->name);
		lane_address(w, s, operand);
		text_part(w, ", %s, s%u_%u, %s);", value_name(w, value).text, operand, w->lane_dim, s->count);
	} else {
		store_plain(w, s, operand, value, s->count);
	}
	text_end(w);
}

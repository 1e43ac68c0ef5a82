/*
 * Kernels over rows in the GPU strategy: a work-group of 64 lanes a row, lane c owns column c.
 *
 * The halves of the tree meet in local memory, and all lanes take the result from there. Of rows longer than
 * a block lane c also owns column c of the levels above. All lanes of a group meet every barrier:
 * loops that hold one depend on the row alone.
 */
#include "writer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static void write_tree_function(struct writer *w, const struct reduction *r) {
	const char *type = value_register(r->dtype);
	char name[40];

	rows_name("tree", r, name);
	text_line(w, "/* The columns of all lanes, halved until one is left. */");
	text_open(w, "static inline %s %s(local %s *partial, int lane, %s x)", type, name, type, type);
	text_line(w, "partial[lane] = x;");
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_open(w, "for (int h = %u; h > 0; h /= 2)", KERNEL_COLUMNS / 2);
	text_line(w, "if (lane < h)");
	w->depth++;
	value_combine(w, r, "partial[lane]", "partial[lane + h]");
	w->depth--;
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_close(w);
	/* PoCL 7.1 would load it again where x is used, behind what the next tree writes there: volatile is loaded once. */
	text_line(w, "x = *(volatile local %s *)partial;", type);
	text_line(w, "barrier(CLK_LOCAL_MEM_FENCE);");
	text_line(w, "return x;");
	text_close(w);
	text_blank(w);
}

void rows_group_functions(struct writer *w) {
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (rows_reduces_first(w, v, false))
			write_tree_function(w, &r);
	}
}

static void declare_locals(struct writer *w) {
	for (unsigned v = 0; v < w->k->values; v++) {
		enum dtype reg = dtype_info(w->k->value[v].dtype)->reg;

		if (rows_reduces_first(w, v, true))
			text_line(w, "local %s partial_%s[%u];", value_register(reg), dtype_info(reg)->name,
				KERNEL_COLUMNS);
	}
}

/* "tree_sum_f32(partial_f32, lane, x)" */
static void write_tree(struct writer *w, const struct reduction *r, const char *result, const char *x) {
	char name[40];

	rows_name("tree", r, name);
	text_line(w, "%s = %s(partial_%s, lane, %s);", result, name,
		dtype_info(dtype_info(r->dtype)->reg)->name, x);
}

/* ---- rows that stay in local memory ---- */

/*
 * What several passes load is kept in local memory where the row fits: the caches of a compute unit would
 * have to hold the rows of all its groups. What is dear to compute again is kept too, in the place of a load
 * that is not needed any more where there is one. A lane reads only what it wrote itself. Longer rows take the same
 * kernel's other branch, in which only what is loaded may be taken from there.
 */
enum {
	/* Leaves room for as many groups as hide the memory's latency, on devices of 48 KiB a group and more. */
	GROUP_ROW_BYTES = 32 << 10,
	/* passes_find() counts in blocks: one value of 32 bits. */
	GROUP_DEAR_ROOM = KERNEL_BLOCK * 4,
	/* Elements and bytes that a lane has on their way from memory: 16 and 32 floats took 5 and 7 % less time than 8. */
	GROUP_UNROLL_DEEP = 32,
	GROUP_FLIGHT_BYTES = 128,
};

/* Are the kept rows used: in no row, where the row fits, or in all rows that come here? */
enum kept { KEPT_NEVER, KEPT_MAYBE, KEPT_ALWAYS };

/* How a row goes. */
struct branch {
	struct passes passes;
	enum kept kept;
	unsigned first[KERNEL_VALUES];     /* the pass that writes the value; UINT_MAX: it is not kept */
	unsigned slot[KERNEL_VALUES];      /* the value whose array holds it */
};

/* The passes that need a value: how many, the first and the last. */
static unsigned needed_in(const struct writer *w, const struct passes *p, unsigned v, unsigned *firstp, unsigned *lastp) {
	unsigned count = 0;
	struct needs n;

	for (unsigned pass = p->count; pass-- > 0;) {
		passes_needs(w, p, pass, &n);
		if (!n.value[v])
			continue;
		if (!count++)
			*lastp = pass;
		*firstp = pass;
	}
	return count;
}

static bool is_row_value(const struct writer *w, unsigned v, unsigned kind) {
	return w->k->value[v].kind == kind && w->k->value[v].space == KERNEL_SPACE_ROW;
}

static unsigned row_bytes(const struct writer *w, unsigned v) {
	return KERNEL_GROUP_ROW * dtype_info(dtype_info(w->k->value[v].dtype)->reg)->bytes;
}

static void keep(struct branch *b, unsigned v, unsigned slot, unsigned first) {
	b->first[v] = first;
	b->slot[v] = slot;
	if (b->kept == KEPT_NEVER)
		b->kept = KEPT_MAYBE;
}

static void keep_loads(const struct writer *w, unsigned *roomp, struct branch *b) {
	unsigned first, last;

	memset(b->first, 0xff, sizeof b->first);
	for (unsigned v = 0; v < w->k->values; v++) {
		if (!is_row_value(w, v, KERNEL_LOAD) || row_bytes(w, v) > *roomp ||
			needed_in(w, &b->passes, v, &first, &last) < 2)
			continue;
		keep(b, v, v, first);
		*roomp -= row_bytes(w, v);
	}
}

/* Does a value already take the place of load u? It may be needed as long as any other: a place is given away once. */
static bool has_guest(const struct writer *w, const struct branch *b, unsigned u) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (v != u && b->first[v] != UINT_MAX && b->slot[v] == u)
			return true;
	return false;
}

/* A kept load of the same type that no pass needs after the one which first computes v; else v itself. */
static unsigned find_slot(const struct writer *w, const struct branch *b, unsigned v) {
	enum dtype reg = dtype_info(w->k->value[v].dtype)->reg;
	unsigned first, last;

	for (unsigned u = 0; u < v; u++)
		if (is_row_value(w, u, KERNEL_LOAD) && b->first[u] != UINT_MAX && !has_guest(w, b, u) &&
			dtype_info(w->k->value[u].dtype)->reg == reg &&
			needed_in(w, &b->passes, u, &first, &last) && last <= b->passes.first[v])
			return u;
	return v;
}

/* Keeps what the passes hold; false where there is nothing to hold, or no room. */
static bool keep_dear(const struct writer *w, unsigned room, struct branch *b) {
	bool any = false;

	for (unsigned v = 0; v < w->k->values; v++) {
		unsigned slot;

		if (!b->passes.held[v])
			continue;
		slot = find_slot(w, b, v);
		if (slot == v && row_bytes(w, v) > room)
			return false;
		room -= slot == v ? row_bytes(w, v) : 0;
		keep(b, v, slot, b->passes.first[v]);
		any = true;
	}
	return any;
}

/* One branch for all rows where only loads are kept; else [0] for rows that fit and [1] for the others. */
static unsigned find_branches(const struct writer *w, struct branch *b) {
	unsigned room = w->k->long_rows ? 0 : GROUP_ROW_BYTES;

	b[0].kept = b[1].kept = KEPT_NEVER;
	passes_find(w, w->k->long_rows ? 0 : GROUP_DEAR_ROOM, false, &b[0].passes);
	passes_find(w, 0, false, &b[1].passes);
	keep_loads(w, &room, &b[0]);
	if (keep_dear(w, room, &b[0])) {
		b[0].kept = KEPT_ALWAYS;
		memset(b[1].first, 0xff, sizeof b[1].first);
		return 2;
	}
	room = w->k->long_rows ? 0 : GROUP_ROW_BYTES;
	b[0] = b[1];
	keep_loads(w, &room, &b[0]);
	return 1;
}

static void declare_kept_rows(struct writer *w, const struct branch *b) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (b->first[v] != UINT_MAX && b->slot[v] == v)
			text_line(w, "local %s row%u[%u];", value_register(w->k->value[v].dtype), v, KERNEL_GROUP_ROW);
	if (b->kept != KEPT_NEVER)
		text_line(w, "const int held = length <= %u;", KERNEL_GROUP_ROW);
}

/* Did an earlier pass keep it? */
static bool is_kept(const struct branch *b, unsigned pass, unsigned v) {
	return b->first[v] != UINT_MAX && b->first[v] < pass;
}

/* Loads of the row, and what an earlier pass kept: what is there before a pass computes. */
static bool is_early(const struct writer *w, const struct branch *b, const struct needs *n, unsigned pass, unsigned v) {
	return n->value[v] && (is_row_value(w, v, KERNEL_LOAD) || is_kept(b, pass, v));
}

static void load_early(struct writer *w, const struct branch *b, const struct scope *s, unsigned pass, unsigned v) {
	bool kept = is_kept(b, pass, v);

	text_begin(w);
	text_part(w, "early%u[u] = ", v);
	if (kept)
		text_part(w, "%srow%u[at]", b->kept == KEPT_MAYBE ? "held ? " : "", b->slot[v]);
	if (kept && b->kept == KEPT_MAYBE)
		text_part(w, " : ");
	if (!kept || b->kept == KEPT_MAYBE)
		operand_load(w, s, w->k->value[v].index);
	text_part(w, ";");
	text_end(w);
}

/* The operands that are loaded early, or all others. */
static void place_some(struct writer *w, const struct needs *needs, const char *const *index, bool early) {
	bool loaded[KERNEL_OPERANDS] = { false };
	struct needs n = *needs;

	for (unsigned v = 0; v < w->k->values; v++)
		if (needs->value[v] && is_row_value(w, v, KERNEL_LOAD))
			loaded[w->k->value[v].index] = true;
	for (unsigned o = 0; o < w->k->operands; o++)
		n.operand[o] &= loaded[o] == early;
	rows_place(w, &n, "p", index, KERNEL_SPACE_ROW);
}

static void place_at(struct writer *w, const struct needs *n, bool early) {
	struct frame_names index = frame_names(w->k->rank);

	if (w->k->rank == w->k->kept + 1u) {
		index.name[w->k->kept] = "at";
	} else {
		text_line(w, "ulong rest = at;");
		frame_indices(w, w->k->kept, w->k->rank);
	}
	place_some(w, n, index.name, early);
}

/*
 * Loads all that several elements of a lane need before the first of them is used: a compiler must
 * assume that a store changes what is loaded after it.
 */
static void write_early(struct writer *w, const struct branch *b, const struct needs *n, unsigned pass,
	unsigned count) {
	struct scope s = { .needs = n, .pointer = "p" };
	bool any = false;

	for (unsigned v = 0; v < w->k->values; v++) {
		if (!is_early(w, b, n, pass, v))
			continue;
		text_line(w, "%s early%u[%u];", value_register(w->k->value[v].dtype), v, count);
		any = true;
	}
	if (!any)
		return;
	text_line(w, "#pragma unroll");
	text_open(w, "for (int u = 0; u < %u; u++)", count);
	text_line(w, "const long at = j + u * %u;", KERNEL_COLUMNS);
	place_at(w, n, true);
	for (unsigned v = 0; v < w->k->values; v++)
		if (is_early(w, b, n, pass, v))
			load_early(w, b, &s, pass, v);
	text_close(w);
}

static void take_early(struct writer *w, const struct branch *b, const struct needs *n, unsigned pass) {
	for (unsigned v = 0; v < w->k->values; v++) {
		if (!is_early(w, b, n, pass, v))
			continue;
		text_line(w, "const %s v%u = early%u[u];", value_register(w->k->value[v].dtype), v, v);
		w->written[v] = true;
	}
}

static void keep_rows(struct writer *w, const struct branch *b, unsigned pass) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (b->first[v] == pass)
			text_line(w, "%srow%u[at] = v%u;", b->kept == KEPT_MAYBE ? "if (held) " : "", b->slot[v], v);
}

/* ---- a pass ---- */

/* Elements of a lane from j on, while so many are left before the limit. */
static void write_some(struct writer *w, const struct branch *b, unsigned pass, const char *limit, unsigned count) {
	struct needs n;
	struct scope s = { .needs = &n, .pointer = "p" };

	passes_needs(w, &b->passes, pass, &n);
	text_open(w, "for (; %s - j > %u; j += %u)", limit, KERNEL_COLUMNS * (count - 1), KERNEL_COLUMNS * count);
	write_early(w, b, &n, pass, count);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int u = 0; u < %u; u++)", count);
	text_line(w, "const long at = j + u * %u;", KERNEL_COLUMNS);
	place_at(w, &n, false);
	take_early(w, b, &n, pass);
	value_write(w, &s, LEVEL_ELEMENT);
	keep_rows(w, b, pass);
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, &b->passes, pass, v))
			rows_accumulate(w, v, "acc", "");
	value_store(w, &s);
	value_forget(w, &s, LEVEL_ELEMENT);
	text_close(w);
	text_close(w);
}

/* Bytes that an element's loads from memory take in registers; what local memory holds is there at once. */
static unsigned loaded_bytes(const struct writer *w, const struct branch *b, unsigned pass) {
	unsigned bytes = 0;
	struct needs n;

	passes_needs(w, &b->passes, pass, &n);
	for (unsigned v = 0; v < w->k->values; v++)
		if (n.value[v] && is_row_value(w, v, KERNEL_LOAD) && !is_kept(b, pass, v))
			bytes += dtype_info(dtype_info(w->k->value[v].dtype)->reg)->bytes;
	return bytes;
}

/*
 * What a lane does with its elements from j up to the limit: as many at a time as hide the memory's latency, then
 * fewer, then one by one.
 */
static void write_column(struct writer *w, const struct branch *b, unsigned pass, const char *limit) {
	unsigned bytes = loaded_bytes(w, b, pass), deep = GROUP_UNROLL_DEEP;

	while (bytes && bytes * deep > GROUP_FLIGHT_BYTES)
		deep /= 2;
	if (bytes && deep > GROUP_UNROLL)
		write_some(w, b, pass, limit, deep);
	write_some(w, b, pass, limit, GROUP_UNROLL);
	write_some(w, b, pass, limit, 1);
}

static void write_short(struct writer *w, const struct branch *b, unsigned pass) {
	text_line(w, "long j = lane;");
	write_column(w, b, pass, "length");
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);
		char result[16], acc[16];

		snprintf(result, sizeof result, "v%u", v);
		snprintf(acc, sizeof acc, "acc%u", v);
		if (passes_reduces(w, &b->passes, pass, v))
			write_tree(w, &r, result, acc);
	}
}

/* The result of a block goes to the lane that owns its column above, and what that completes further up. */
static void write_carry(struct writer *w, const struct reduction *r) {
	char level[24], acc[16];

	snprintf(level, sizeof level, "level%s[l]", r->tag);
	snprintf(acc, sizeof acc, "acc%s", r->tag);
	write_tree(w, r, acc, acc);
	text_line(w, "n = block;");
	text_open(w, "for (int l = 0;; l++, n /= %u)", KERNEL_BLOCK);
	text_line(w, "if (lane == n %% %u)", KERNEL_COLUMNS);
	w->depth++;
	value_combine(w, r, level, acc);
	w->depth--;
	text_line(w, "if ((n + 1) %% %u)", KERNEL_BLOCK);
	text_line(w, "\tbreak;");
	write_tree(w, r, acc, level);
	text_line(w, "%s = neutral%s;", level, r->tag);
	text_close(w);
	text_line(w, "acc%s = neutral%s;", r->tag, r->tag);
}

/* Levels that are not full are carried upwards. */
static void write_total(struct writer *w, const struct reduction *r) {
	char level[24], result[16];

	snprintf(level, sizeof level, "level%s[l]", r->tag);
	snprintf(result, sizeof result, "v%s", r->tag);
	text_line(w, "%s = neutral%s;", result, r->tag);
	text_line(w, "n = block;");
	text_line(w, "open = 0;");
	text_open(w, "for (int l = 0; l < %u; l++, n = (n + %u) / %u)", ROWS_LEVELS, KERNEL_BLOCK - 1,
		KERNEL_BLOCK);
	text_line(w, "if (open && lane == (n - 1) %% %u)", KERNEL_COLUMNS);
	w->depth++;
	value_combine(w, r, level, result);
	w->depth--;
	text_line(w, "open |= n %% %u != 0;", KERNEL_BLOCK);
	text_open(w, "if (open)");
	write_tree(w, r, result, level);
	text_close(w);
	text_close(w);
}

static void write_long(struct writer *w, const struct branch *b, unsigned pass) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, &b->passes, pass, v))
			text_line(w, "%s level%u[%u] = { neutral%u, neutral%u, neutral%u };",
				value_register(w->k->value[v].dtype), v, ROWS_LEVELS, v, v, v);
	text_line(w, "ulong block = 0, n;");
	text_line(w, "int open;");
	text_open(
		w, "for (long start = 0; start == 0 || start < length; start += %u, block++)", KERNEL_BLOCK);
	text_line(w, "const long stop = min(length, start + %u);", KERNEL_BLOCK);
	text_line(w, "long j = start + lane;");
	write_column(w, b, pass, "stop");
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (passes_reduces(w, &b->passes, pass, v))
			write_carry(w, &r);
	}
	text_close(w);
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (passes_reduces(w, &b->passes, pass, v))
			write_total(w, &r);
	}
}

/* Values that are the same for a whole row are computed by all its lanes. */
static void write_kept(struct writer *w, const struct needs *n) {
	struct scope s = { .needs = n, .pointer = "q" };

	value_write(w, &s, LEVEL_UNIT);
}

static void write_body(struct writer *w, const struct branch *b, unsigned pass, bool reduces) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (passes_reduces(w, &b->passes, pass, v))
			text_line(w, "%s acc%u = neutral%u;", value_register(w->k->value[v].dtype), v, v);
	if (w->k->long_rows && reduces)
		write_long(w, b, pass);
	else
		write_short(w, b, pass);
}

/* What needs nothing kept needs most: its uniform values are those of both branches. */
static void write_pass(struct writer *w, const struct branch *b, unsigned branches, unsigned pass) {
	bool reduces;
	struct needs n;

	passes_needs(w, &b[branches - 1].passes, pass, &n);
	write_kept(w, &n);
	reduces = rows_declare_results(w, &b->passes, pass);
	text_open(w, branches > 1 ? "/* pass %u */ if (held)" : "/* pass %u */", pass);
	write_body(w, b, pass, reduces);
	text_close(w);
	if (branches == 1)
		return;
	text_open(w, "else");
	write_body(w, b + 1, pass, reduces);
	text_close(w);
}

static void write_kept_outputs(struct writer *w, const struct passes *p, unsigned pass) {
	struct needs n;
	struct scope s = { .needs = &n, .pointer = "q" };

	passes_kept_needs(w, p, pass, &n);
	write_kept(w, &n);
	text_open(w, "if (lane == 0)");
	value_store(w, &s);
	text_close(w);
}

void rows_groups(struct writer *w) {
	struct frame_names index = frame_names(w->k->kept);
	struct branch branch[2];
	unsigned branches = find_branches(w, branch), count = branch[0].passes.count;

	declare_locals(w);
	text_line(w, "const int lane = get_local_id(0);");
	frame_units(w);
	text_line(w, "const long length = r[%u];", KERNEL_WORD_EXTENT);
	declare_kept_rows(w, branch);
	rows_declare_neutrals(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	frame_indices(w, 0, w->k->kept);
	rows_place(w, &w->outer, "q", index.name, KERNEL_SPACE_KEPT);
	for (unsigned pass = 0; pass < count; pass++) {
		write_kept_outputs(w, &branch[0].passes, pass);
		write_pass(w, branch, branches, pass);
	}
	write_kept_outputs(w, &branch[0].passes, count);
	text_close(w);
}

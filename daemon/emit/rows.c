/*
 * Kernels over rows in the CPU strategy, forms ROW and GENERAL: a work-item does whole rows, pass by pass.
 *
 * All columns of a row are accumulated at once (walk.c), so a row of up to KERNEL_BLOCK elements needs
 * no memory but for the values that are held. Longer rows are walked block by block; the results of
 * the blocks go up a level and are reduced there by the same rule, and nothing is held.
 */
#include "writer.h"

#include <stdio.h>

enum {
	/* Memory of a work-item for held values, within the first or second level of cache. */
	ROWS_HELD_BYTES = 64 << 10,
};

struct reduction rows_reduction(const struct writer *w, unsigned v) {
	struct reduction r = value_reduction(w, w->k->value[v].op, w->k->value[v].dtype);

	snprintf(r.tag, sizeof r.tag, "%u", v);
	return r;
}

/* ---- what the strategies share ---- */

void rows_name(const char *verb, const struct reduction *r, char name[static 40]) {
	snprintf(name, 40, "%s_%s_%s", verb, op_info(r->op)->name, dtype_info(r->dtype)->name);
}

void rows_declare_neutrals(struct writer *w) {
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (w->outer.value[v] && w->k->value[v].kind == KERNEL_REDUCED)
			walk_neutral(w, &r);
	}
}

bool rows_declare_results(struct writer *w, const struct passes *p, unsigned pass) {
	bool any = false;

	for (unsigned v = 0; v < w->k->values; v++) {
		if (!passes_reduces(w, p, pass, v))
			continue;
		text_line(w, "%s v%u;", value_register(w->k->value[v].dtype), v);
		w->written[v] = any = true;
	}
	return any;
}

void rows_place(struct writer *w, const struct needs *needs, const char *prefix, const char *const *index,
	enum kernel_space space) {
	struct needs n = *needs;

	for (unsigned o = 0; o < w->k->operands; o++)
		if (operand_is_kept(w->k, o) != (space == KERNEL_SPACE_KEPT))
			n.operand[o] = false;
	operand_place(w, &n, prefix, index);
}

bool rows_reduces_first(const struct writer *w, unsigned v, bool by_register) {
	const struct kernel_value *value = w->k->value;

	if (!w->outer.value[v] || value[v].kind != KERNEL_REDUCED)
		return false;
	for (unsigned u = 0; u < v; u++) {
		if (!w->outer.value[u] || value[u].kind != KERNEL_REDUCED)
			continue;
		if (by_register ? dtype_info(value[u].dtype)->reg == dtype_info(value[v].dtype)->reg
				: value[u].op == value[v].op && value[u].dtype == value[v].dtype)
			return false;
	}
	return true;
}

void rows_accumulate(struct writer *w, unsigned v, const char *stem, const char *slot) {
	struct reduction r = rows_reduction(w, v);
	char acc[64], value[16];

	snprintf(acc, sizeof acc, "%s%u%s", stem, v, slot);
	snprintf(value, sizeof value, "v%u", w->k->value[v].arg[0]);
	value_accumulate(w, &r, acc, value);
}

/* ---- ROW and GENERAL ---- */

static bool in_runs(const struct writer *w) {
	return w->k->form == KERNEL_FORM_GENERAL;
}

/* Element j of the row, where several dims are to be stepped. */
static void declare_start(struct writer *w) {
	text_line(w, "long j = 0;");
	for (unsigned d = w->k->kept; in_runs(w) && d < w->k->rank; d++)
		text_line(w, "long i%u = 0;", d);
}

static void declare_held(struct writer *w, const struct passes *p) {
	for (unsigned v = 0; v < w->k->values; v++)
		if (p->held[v] && p->home[v] == KERNEL_NONE)
			text_line(w, "%s held%u[%u / W];", value_register(w->k->value[v].dtype), v,
				KERNEL_BLOCK);
}

/* ---- a pass ---- */

static void plan_walk(const struct writer *w, const struct passes *p, unsigned pass, struct walk *walk) {
	for (unsigned v = 0; v < w->k->values; v++) {
		if (!passes_reduces(w, p, pass, v))
			continue;
		walk->reduction[walk->reductions] = rows_reduction(w, v);
		walk->reduced[walk->reductions++] = w->k->value[v].arg[0];
	}
}

static void write_short(struct writer *w, const struct walk *walk) {
	declare_start(w);
	walk_row(w, walk);
	for (unsigned i = 0; i < walk->reductions; i++) {
		const struct reduction *r = &walk->reduction[i];

		text_line(w, "v%s = %s;", r->tag, walk_result(w, r).text);
	}
}

static void open_levels(struct writer *w, const struct walk *walk) {
	for (unsigned i = 0; i < walk->reductions; i++) {
		const struct reduction *r = &walk->reduction[i];

		text_line(
			w, "%s level%s[%u];", value_register(r->dtype), r->tag, ROWS_LEVELS * KERNEL_COLUMNS);
		text_line(w, "for (int c = 0; c < %u; c++)", ROWS_LEVELS * KERNEL_COLUMNS);
		text_line(w, "\tlevel%s[c] = neutral%s;", r->tag, r->tag);
	}
}

static void write_block(struct writer *w, const struct walk *walk) {
	char carry[40];

	text_line(w, "const long stop = min(length, j + %u);", KERNEL_BLOCK);
	walk_row(w, walk);
	text_line(w, "j = stop;");
	for (unsigned i = 0; i < walk->reductions; i++) {
		const struct reduction *r = &walk->reduction[i];

		rows_name("carry", r, carry);
		text_line(w, "%s(level%s, block, (%s)(%s), neutral%s);", carry, r->tag,
			value_register(r->dtype), walk_accumulator(w, r).text, r->tag);
	}
}

static void write_long(struct writer *w, struct walk *walk) {
	char total[40], expression[64];

	walk->limit = "stop";
	open_levels(w, walk);
	declare_start(w);
	text_line(w, "ulong block = 0;");
	text_open(w, "for (; block == 0 || j < length; block++)");
	write_block(w, walk);
	text_close(w);
	for (unsigned i = 0; i < walk->reductions; i++) {
		rows_name("total", &walk->reduction[i], total);
		snprintf(expression, sizeof expression, "%s(level%s, block)", total, walk->reduction[i].tag);
		text_line(w, "v%s = %s;", walk->reduction[i].tag, value_of_key(&walk->reduction[i], expression).text);
	}
}

/* Is the next row to be asked for in this pass? The last one has its own near, and waits for nothing. */
static bool reads_ahead(const struct writer *w, const struct passes *p, unsigned pass) {
	return w->k->far && !w->k->long_rows && !in_runs(w) && pass > 0 && pass + 1 == p->count;
}

/* Declares nN, where the operands of the next row begin. */
static void place_ahead(struct writer *w, const struct needs *needs) {
	struct frame_names index = frame_names(w->k->kept);
	char next[16];

	snprintf(next, sizeof next, "(i%u + 1)", w->k->kept - 1u);
	index.name[w->k->kept - 1u] = next;
	operand_place_ahead(w, needs, "n", index.name);
}

/* Requires the uniform values of the pass to be written. */
static void write_pass(struct writer *w, const struct passes *p, unsigned pass) {
	bool hold[KERNEL_VALUES];
	struct needs n;
	struct walk walk = {
		.scope = { .needs = &n,
			.pointer = "p",
			.lane = "l",
			.hoist = !in_runs(w),
			.stream = true,
			.home = p->home,
			.held_at = "l / W" },
		.limit = "length",
	};
	bool held[KERNEL_VALUES];

	passes_needs(w, p, pass, &n);
	passes_held(w, p, pass, held);
	walk.scope.held = held;
	passes_hold(w, p, pass, hold);
	walk.scope.hold = hold;
	plan_walk(w, p, pass, &walk);
	value_write(w, &walk.scope, LEVEL_UNIT);
	rows_declare_results(w, p, pass);
	text_open(w, "/* pass %u */", pass);
	walk.ahead = w->k->kept && reads_ahead(w, p, pass);
	if (walk.ahead)
		place_ahead(w, &n);
	if (w->k->long_rows && walk.reductions)
		write_long(w, &walk);
	else
		write_short(w, &walk);
	text_close(w);
}

/* Stores what is one element a row and known before this pass. */
static void write_kept(struct writer *w, const struct passes *p, unsigned pass) {
	struct needs n;
	struct scope s = { .needs = &n, .pointer = "p", .hoist = true };

	passes_kept_needs(w, p, pass, &n);
	value_write(w, &s, LEVEL_UNIT);
	value_store(w, &s);
}

void rows_open(struct writer *w, struct passes *p) {
	passes_find(w, w->k->long_rows || in_runs(w) ? 0 : ROWS_HELD_BYTES, true, p);
	if (in_runs(w))
		text_line(w, "const long length = r[%u];", KERNEL_WORD_EXTENT);
	else
		text_line(w, "const long length = d%u;", w->lane_dim);
	rows_declare_neutrals(w);
	declare_held(w, p);
}

void rows_walk(struct writer *w, const struct passes *p) {
	for (unsigned pass = 0; pass < p->count; pass++) {
		write_kept(w, p, pass);
		write_pass(w, p, pass);
	}
	write_kept(w, p, p->count);
}

void rows_lanes(struct writer *w) {
	struct frame_names index = frame_names(w->k->kept);
	struct passes p;

	frame_units(w);
	rows_open(w, &p);
	text_line(w, "ulong rest = begin;");
	frame_indices(w, 0, w->k->kept);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	rows_place(w, &w->outer, "p", index.name, KERNEL_SPACE_KEPT);
	if (!in_runs(w)) {
		rows_place(w, &w->outer, "p", index.name, KERNEL_SPACE_ROW);
		operand_aligned(w, &w->outer, "p");
	}
	rows_walk(w, &p);
	if (w->k->kept)
		frame_step(w, 0, w->k->kept);
	text_close(w);
}

/* ---- functions ---- */

static void write_level_functions(struct writer *w, const struct reduction *r) {
	const char *type = value_register(r->dtype);
	char name[40];

	rows_name("tree", r, name);
	text_open(w, "static inline %s %s(%s *c)", type, name, type);
	text_line(w, "for (int h = %u; h > 0; h /= 2)", KERNEL_COLUMNS / 2);
	text_line(w, "\tfor (int i = 0; i < h; i++)");
	w->depth += 2;
	value_combine(w, r, "c[i]", "c[i + h]");
	w->depth -= 2;
	text_line(w, "return c[0];");
	text_close(w);
	text_line(w, "/* Adds result n of a level to the one above, and what that completes to the next. */");
	text_open(w, "static inline void carry_%s(%s *c, ulong n, %s x, %s neutral)", name + 5, type, type,
		type);
	text_open(w, "for (;; c += %u, n /= %u)", KERNEL_COLUMNS, KERNEL_BLOCK);
	value_combine(w, r, "c[n % 64]", "x");
	text_line(w, "if ((n + 1) %% %u)", KERNEL_BLOCK);
	text_line(w, "\treturn;");
	text_line(w, "x = %s(c);", name);
	text_line(w, "for (int i = 0; i < %u; i++)", KERNEL_COLUMNS);
	text_line(w, "\tc[i] = neutral;");
	text_close(w);
	text_close(w);
	text_line(w, "/* What n results are together: levels that are not full are carried upwards. */");
	text_open(w, "static inline %s total_%s(%s *c, ulong n)", type, name + 5, type);
	text_line(w, "%s x = c[0];", type);
	text_line(w, "int open = 0;");
	text_open(w, "for (int l = 0; l < %u; l++, c += %u, n = (n + %u) / %u)", ROWS_LEVELS, KERNEL_COLUMNS,
		KERNEL_BLOCK - 1, KERNEL_BLOCK);
	text_line(w, "if (open)");
	w->depth++;
	value_combine(w, r, "c[(n - 1) % 64]", "x");
	w->depth--;
	text_line(w, "open |= n %% %u != 0;", KERNEL_BLOCK);
	text_line(w, "if (open)");
	text_line(w, "\tx = %s(c);", name);
	text_close(w);
	text_line(w, "return x;");
	text_close(w);
	text_blank(w);
}

void rows_functions(struct writer *w) {
	for (unsigned v = 0; v < w->k->values; v++) {
		struct reduction r = rows_reduction(w, v);

		if (w->k->form != KERNEL_FORM_COLUMN && rows_reduces_first(w, v, true))
			walk_functions(w, r.dtype);
		if (w->k->long_rows && rows_reduces_first(w, v, false))
			write_level_functions(w, &r);
	}
}

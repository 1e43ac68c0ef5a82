/*
 * Scatters: a copy of the base, in which updates replace or are added to what their index names.
 *
 * A unit owns a piece of the result: a range of the axis, by a strip of lanes along the last kept dim (GPU
 * strategy: by one lane). It copies its piece of the base, then looks at all indices in order and does
 * what falls into its range. So no two units write one element, nothing is atomic, and the order of
 * additions is that of the index. What lies beyond the axis falls into no range.
 */
#include "writer.h"

enum {
	SCATTER_BASE,
	SCATTER_INDEX,
	SCATTER_UPDATES,
	SCATTER_RESULT,
};

/* Declares the pointer of an operand at the kept indices and a place along its axis. */
static void place(struct writer *w, unsigned operand, const char *prefix, const char *along) {
	const struct kernel *k = w->k;
	struct frame_names index = frame_names(k->kept);
	struct needs one = { .operand = { false } };

	if (k->kept)
		index.name[k->kept - 1] = "lane";
	index.name[k->rank - 1] = along;
	one.operand[operand] = true;
	operand_place(w, &one, prefix, index.name);
}

static void load(struct writer *w, unsigned operand, const char *prefix) {
	struct scope s = { .pointer = prefix };

	operand_load(w, &s, operand);
}

static void store(struct writer *w) {
	struct scope s = { .pointer = "q" };

	operand_store(w, &s, SCATTER_RESULT, w->k->root_value);
}

static void open_lanes(struct writer *w) {
	text_open(w, "for (long l = 0; l < width; l++)");
	if (w->k->kept)
		text_line(w, "const long lane = left + l;");
}

static void write_copy(struct writer *w) {
	text_open(w, "for (long i = low; i < high; i++)");
	open_lanes(w);
	place(w, SCATTER_BASE, "p", "i");
	place(w, SCATTER_RESULT, "q", "i");
	text_begin(w);
	text_part(w, "const %s v%u = ", value_register(w->k->accumulator), w->k->root_value);
	load(w, SCATTER_BASE, "p");
	text_part(w, ";");
	text_end(w);
	store(w);
	text_close(w);
	text_close(w);
}

/* Declares `i`, the place an index names: negative ones count from the end, u64 beyond i64 lies beyond the axis. */
static void write_index(struct writer *w) {
	unsigned type = w->k->operand[SCATTER_INDEX].dtype, axis = w->k->rank - 1u;

	place(w, SCATTER_INDEX, "p", "j");
	text_begin(w);
	text_part(w, type == DTYPE_u64 ? "long i = min(" : "long i = to_i64(");
	load(w, SCATTER_INDEX, "p");
	text_part(w, type == DTYPE_u64 ? ", (ulong)LONG_MAX);" : ");");
	text_end(w);
	text_line(w, "i += i < 0 ? d%u : 0;", axis);
	text_line(w, "if (i < low || i >= high)");
	text_line(w, "\tcontinue;");
}

static void write_updates(struct writer *w) {
	bool add = w->k->op == OP_add_along;

	text_open(w, "for (long j = 0; j < (long)r[%u]; j++)", KERNEL_WORD_EXTENT);
	open_lanes(w);
	write_index(w);
	place(w, SCATTER_UPDATES, "p", "j");
	place(w, SCATTER_RESULT, "q", "i");
	text_begin(w);
	text_part(w, "const %s v%u = ", value_register(w->k->accumulator), w->k->root_value);
	if (add) {
		value_function_name(w, OP_add, w->k->accumulator);
		text_part(w, "(");
		load(w, SCATTER_RESULT, "q");
		text_part(w, ", ");
	}
	load(w, SCATTER_UPDATES, "p");
	text_part(w, add ? ");" : ";");
	text_end(w);
	store(w);
	text_close(w);
	text_close(w);
}

void scatter(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned lanes = w->t->strategy == STRATEGY_GPU ? 1 : KERNEL_SCATTER_LANES, axis = k->rank - 1u;

	if (lanes == 1) {
		text_line(w, "const ulong begin = get_global_id(0);");
		text_line(w, "const ulong end = min(begin + 1, r[%u]);", KERNEL_WORD_UNITS);
	} else {
		frame_units(w);
	}
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	text_line(w, "ulong rest = unit;");
	if (k->kept) {
		text_line(w, "const long left = take(&rest, (d%u + %u) / %u) * %u;", k->kept - 1, lanes - 1, lanes, lanes);
		text_line(w, "const long width = min(d%u - left, (long)%u);", k->kept - 1, lanes);
	} else {
		text_line(w, "const long width = 1;");
	}
	text_line(w, "const long length = (d%u + r[%u] - 1) / r[%u];", axis, KERNEL_WORD_PIECES, KERNEL_WORD_PIECES);
	text_line(w, "const long low = take(&rest, r[%u]) * length;", KERNEL_WORD_PIECES);
	text_line(w, "const long high = min(low + length, d%u);", axis);
	if (k->kept)
		frame_indices(w, 0, k->kept - 1u);
	write_copy(w);
	write_updates(w);
	text_close(w);
}

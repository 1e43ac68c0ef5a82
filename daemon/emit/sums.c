/* What follows a root, GPU strategy, where each item of a group holds sums of its own in registers. */
#include "writer.h"

void sums_outputs(struct writer *w, const struct sums *sums) {
	struct scope s = { .needs = &w->outer, .pointer = "o", .lane = "l", .count = "n", .hoist = true };
	struct frame_names index = frame_names(sums->dim);

	index.name[sums->dim] = "row";
	index.name[sums->dim + 1u] = "column";
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", sums->rows);
	text_line(w, "const long row = %s;", sums->row);
	text_line(w, "if (row >= d%u)", sums->dim);
	text_line(w, "\tcontinue;");
	operand_place(w, &w->outer, "o", index.name);
	operand_whole(w, &w->outer, "o");
	value_write(w, &s, LEVEL_UNIT);
	if (sums->of_row)
		text_line(w, "%s", sums->of_row);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", sums->vectors);
	text_line(w, "const int l = v * %u, n = min(d%u - column - l, (long)W);", sums->apart, sums->dim + 1u);
	text_line(w, "if (n <= 0)");
	text_line(w, "\tcontinue;");
	value_root(w, sums->value);
	value_vector(w, &s, LEVEL_ELEMENT);
	text_close(w);
	text_close(w);
}

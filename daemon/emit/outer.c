/* A step of a tile, GPU strategy: what an item adds to its sums is the outer product of two runs in local memory. */
#include "writer.h"

#include <stdio.h>

static const char *scalar(const struct writer *w) {
	return dtype_info(w->k->accumulator)->bytes == 8 ? "double" : "float";
}

void outer_types(struct writer *w) {
	text_line(w, "typedef %s E;", scalar(w));
	text_line(w, "typedef %s4 E4;", scalar(w));
	text_blank(w);
}

void outer_function(struct writer *w, const char *name, const struct outer *o) {
	char to[32], left[24], right[24];

	text_open(w, "static inline void %s(E (*c)[%u], local const E *a, local const E *b)", name, o->columns);
	for (unsigned i = 0; i < o->rows / o->row_lanes; i++)
		text_line(w, "const %s%u a%u = *(local const %s%u *)(a + %u);", scalar(w), o->row_lanes, i, scalar(w), o->row_lanes,
			i * o->rows_apart);
	for (unsigned v = 0; v < o->columns / o->column_lanes; v++) {
		text_line(w, "const %s%u b%u = *(local const %s%u *)(b + %u);", scalar(w), o->column_lanes, v, scalar(w), o->column_lanes,
			v * o->columns_apart);
		for (unsigned e = 0; e < o->rows * o->column_lanes; e++) {
			unsigned i = e / o->column_lanes, l = e % o->column_lanes;

			snprintf(to, sizeof to, "c[%u][%u]", i, v * o->column_lanes + l);
			snprintf(left, sizeof left, "a%u.s%u", i / o->row_lanes, i % o->row_lanes);
			snprintf(right, sizeof right, "b%u.s%u", v, l);
			value_add_product(w, to, left, right);
		}
	}
	text_close(w);
	text_blank(w);
}

unsigned outer_unroll(unsigned products) {
	return products < OUTER_PRODUCTS ? OUTER_PRODUCTS / products : 1;
}

void outer_zero(struct writer *w, const char *name, unsigned rows, unsigned columns) {
	text_line(w, "E %s[%u][%u];", name, rows, columns);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", rows * columns);
	text_line(w, "\t%s[e / %u][e %% %u] = 0;", name, columns, columns);
}

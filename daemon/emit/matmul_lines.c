/*
 * A transposed first factor of a product, CPU strategy: its rows lie side by side, so a tile reads one line a step of K.
 *
 * As many tiles as a line has places for, divided by their rows, read the same lines. Where these are a large power of two apart, a
 * cache has room for few of them, and the second of these tiles finds them gone. So whoever reads a line first, which the
 * sums that are made meanwhile hide, also copies it into memory of the item (k->lined), whose lines are an odd number of vectors
 * apart; it does so for the next tile, so that nobody waits for what is being stored.
 *
 * Vectors are read whole. Those beyond the last row end with it instead, and so hold again what is there already, or rows before
 * the block, for which each line of the copy has a vector of room. That vector also takes what is read by who has nothing to copy.
 */
#include "writer.h"

/* Steps of K that a line is asked for before it is read: sums of so many take as long as memory. */
enum { LINES_AHEAD = 24 };

static unsigned bytes_of(const struct kernel *k) {
	return dtype_info(k->accumulator)->bytes;
}

/* Elements between two lines of the copy. */
static unsigned pitch_of(const struct kernel *k) {
	return ((TILE_BLOCK + k->rows + 2u * k->width - 1u) / k->width | 1u) * k->width;
}

/* Vectors that a tile copies for the next one. */
static unsigned vectors_of(const struct kernel *k) {
	return (k->rows + k->width - 1u) / k->width;
}

void matmul_lines_functions(struct writer *w) {
	text_line(w, "/* A vector to private memory, wherever it begins. */");
	text_line(w, "OVL void put_line(private %s *p, %s v) { *(private %s_loose *)p = v; }", value_lane(w->k->accumulator), value_lanes(w),
		bytes_of(w->k) == 8 ? "double" : "float");
	text_blank(w);
}

void matmul_lines_open(struct writer *w) {
	text_line(w, "%s copied[%u * %u];", value_lane(w->k->accumulator), TILE_DEPTH, pitch_of(w->k));
	text_line(w, "private %s *const line = copied + W;", value_lane(w->k->accumulator));
}

/* What the first tile reads, over one depth. */
void matmul_lines_begin(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "const long last = d%u - m0 - W;", matmul_dim_m(k));
	text_line(w, "int got = 0;");
	matmul_place(w, 0, "a_", "m0", NULL, "k0");
	text_open(w, "for (; got < %u; got += W)", k->rows);
	text_line(w, "const long at = min((long)got, last);");
	text_line(w, "for (long k = 0; k < depth; k++)");
	text_line(w, "\tput_line(line + k * %u + at, load_%s(a_0 + k * (%u * step) + at * %u));", pitch_of(k),
		dtype_info(k->accumulator)->name, bytes_of(k), bytes_of(k));
	text_close(w);
}

void matmul_lines_tile(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "private const %s *const row = line + t;", value_lane(k->accumulator));
	text_line(w, "const bool more = got < height && t + %u > got;", 2u * k->rows);
	text_line(w, "const long along = more ? %u * step : 0;", bytes_of(k));
	text_line(w, "global const uchar *from[%u];", vectors_of(k));
	text_line(w, "private %s *to[%u];", value_lane(k->accumulator), vectors_of(k));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", vectors_of(k));
	text_line(w, "const long at = min((long)got + v * W, last);");
	text_line(w, "from[v] = a_0 + (more ? at * %u : 0);", bytes_of(k));
	text_line(w, "to[v] = line + (more ? at : -W);");
	text_close(w);
	text_line(w, "got += more ? %u * W : 0;", vectors_of(k));
}

void matmul_lines_step(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", vectors_of(k));
	text_line(w, "AHEAD(from[v] + (k + %u) * along);", LINES_AHEAD);
	text_line(w, "put_line(to[v] + k * %u, load_%s(from[v] + k * along));", pitch_of(k), dtype_info(k->accumulator)->name);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_line(w, "const %s a = (%s)(row[k * %u + i]);", value_lanes(w), value_lanes(w), pitch_of(k));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", k->vectors);
	value_add_product(w, "c[i][v]", "a", "b[v]");
	text_close(w);
	text_close(w);
}

/*
 * Convolutions whose groups have one channel of the input (depthwise), CPU strategy: lanes lie along the lines of the result.
 *
 * A unit is a block of places of one group: mostly all of an image. It copies the channel to a panel as conv.c does, planes
 * by the remainders of the strides, border included. A tile is a few vectors of places, on one line or several, and takes in
 * one element of the filter after the other; as there is no other channel, its sums are results at once. They lie in memory of the
 * unit, line upon line, until all are there: what follows the root is then computed over whole lines, mostly as one.
 *
 * The order of accumulation is that of conv.c.
 */
#include "writer.h"

#include <stdio.h>

/* What is read behind the last plane: lines that do not exist, and vectors beyond the end of one. */
_Static_assert(CONV_REGION + KERNEL_ALONE * (CONV_COLUMNS + CONV_OVER_MOST + 16) <= CONV_PANEL, "a tile may read beyond the block");

/* c[line][v] takes in the filter's element `at`, times b[v]. */
static void write_multiply(struct writer *w, const char *line, const char *at) {
	char to[64], a[64];

	snprintf(to, sizeof to, "c[%s][v]", line);
	snprintf(a, sizeof a, "(%s)(f[%s])", value_lanes(w), at);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", w->k->vectors);
	value_add_product(w, to, a, "b[v]");
	text_close(w);
}

static void write_load(struct writer *w, const char *at) {
	text_line(w, "%s b[%u];", value_lanes(w), w->k->vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", w->k->vectors);
	text_line(w, "\tb[v] = get_vector(from + %s + v * W);", at);
}

/* A row of the panel is loaded once for all lines that a filter of so many rows, one behind the other, has it in. */
static void write_rows(struct writer *w) {
	const struct kernel *k = w->k;
	char at[32];

	snprintf(at, sizeof at, "y * d%u + j", (unsigned)CONV_KW);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", k->rows + k->inputs - 1);
	text_open(w, "for (int j = 0; j < d%u; j++)", CONV_KW);
	write_load(w, "offset[j] + i * pitch");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int y = 0; y < %u; y++)", k->inputs);
	text_line(w, "if (i - y < 0 || i - y >= %u)", k->rows);
	text_line(w, "\tcontinue;");
	write_multiply(w, "i - y", at);
	text_close(w);
	text_close(w);
	text_close(w);
}

/* Any filter. */
static void write_taps(struct writer *w) {
	text_open(w, "for (int k = 0; k < taps; k++)");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", w->k->rows);
	write_load(w, "offset[k] + i * pitch");
	write_multiply(w, "i", "k");
	text_close(w);
	text_close(w);
}

/*
 * Lines beyond the last of the block are computed with what lies behind it, and not stored. Vectors write beyond the end of a
 * line: so the last come first, and lines one after the other.
 */
static void write_tile(struct writer *w) {
	const struct kernel *k = w->k;

	text_open(w, "for (int x = (width - 1) / (%u * W) * (%u * W); x >= 0; x -= %u * W)", k->vectors, k->vectors, k->vectors);
	text_line(w, "private const E *const from = panel + t * pitch + x;");
	text_line(w, "%s c[%u][%u];", value_lanes(w), k->rows, k->vectors);
	value_each_sum(w);
	text_line(w, "\t\tc[i][v] = (%s)(0);", value_lanes(w));
	if (k->inputs)
		write_rows(w);
	else
		write_taps(w);
	value_each_sum(w);
	text_line(w, "\t\tput_vector(result + (t + i) * columns + x + v * W, c[i][v]);");
	text_close(w);
}

/* The filter, in the accumulator's type. */
static void write_filter(struct writer *w) {
	const struct dtype_info *by = dtype_info(w->k->operand[CONV_WEIGHT].dtype);

	text_line(w, "for (int k = 0; k < taps; k++)");
	text_line(w, "\tf[k] = to_%s(uniform_%s(a1 + %u * (channel * s1_%u + k)))%s;", dtype_info(w->k->accumulator)->name,
		by->name, by->bytes, CONV_CO, w->k->width > 1 ? ".s0" : "");
}

static void write_unit(struct writer *w) {
	const struct dtype_info *in = dtype_info(w->k->operand[CONV_INPUT].dtype);

	text_line(w, "ulong rest = unit;");
	text_line(w, "const long x0 = take(&rest, (d%u + columns - 1) / columns) * columns;", CONV_OW);
	text_line(w, "const long y0 = take(&rest, (d%u + lines - 1) / lines) * lines;", CONV_OH);
	text_line(w, "const long group = take(&rest, d%u), image = rest;", CONV_GROUP);
	text_line(w, "const int bottom = min(d%u - y0, lines), width = min(d%u - x0, columns);", CONV_OH, CONV_OW);
	text_line(w, "const int length = runs ? bottom * columns : width;");
	text_line(w, "global const uchar *const in = a0 + %u * (image * s0_%u + group * s0_%u);", in->bytes, CONV_N, CONV_GROUP);
	conv_panel(w);
	text_open(w, "for (long channel = group * each; channel < (group + 1) * each; channel++)");
	write_filter(w);
	text_open(w, "for (int t = 0; t < bottom; t += %u)", w->k->rows);
	write_tile(w);
	text_close(w);
	conv_outputs(w, "0", "runs ? 1 : bottom", "length", "get_vector(result + y * columns + l)");
	text_close(w);
}

void conv_alone(struct writer *w) {
	frame_units(w);
	conv_sizes(w);
	text_line(w, "const long over_x = (d%u - 1) * apart_x / step_x, over_y = (d%u - 1) * apart_y / step_y;", CONV_KW,
		CONV_KH);
	text_line(w, "const int pitch = columns + over_x, plane = (lines + over_y) * pitch, chunk = 1, count = 1;");
	conv_runs(w);
	text_line(w, "E panel[%u], result[%u], f[%u];", CONV_PANEL, CONV_REGION + KERNEL_ALONE * (CONV_COLUMNS + w->k->width),
		CONV_TAPS_MOST);
	text_line(w, "int offset[%u];", CONV_TAPS_MOST);
	conv_offsets(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_unit(w);
	text_close(w);
}

/*
 * Convolutions whose groups have one channel of the input (depthwise), CPU strategy: lanes lie along the lines of the result.
 *
 * A unit is a block of places of one group: mostly all of an image. It copies the channel to a panel as conv.c does, planes
 * by the remainders of the strides, border included. A tile is a vector of places on each of a few lines, and takes in
 * one element of the filter after the other; as there is no other channel, its sums are results at once. They lie in memory of the
 * unit, line upon line, until all are there: what follows the root is then computed over whole lines, mostly as one.
 *
 * The order of accumulation is that of conv.c.
 */
#include "writer.h"

static const char *lanes(const struct writer *w) {
	return value_register(w->k->accumulator);
}

/* A vector at column x of each line of the tile. */
static void write_vector(struct writer *w) {
	const struct kernel *k = w->k;
	const struct dtype_info *by = dtype_info(k->operand[CONV_WEIGHT].dtype);

	text_line(w, "%s c[%u];", lanes(w), k->rows);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_line(w, "\tc[i] = (%s)(0);", lanes(w));
	text_open(w, "for (int k = 0; k < taps; k++)");
	text_line(w, "const %s a = to_%s(uniform_%s(filter + %u * k));", lanes(w), dtype_info(k->accumulator)->name, by->name,
		by->bytes);
	text_line(w, "private const E *const from = panel + offset[k] + x;");
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_begin(w);
	text_part(w, "c[i] = ");
	value_multiply_add(w, "a", "get_vector(from + at[i])", "c[i]");
	text_part(w, ";");
	text_end(w);
	text_close(w);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_line(w, "\tput_vector(result + (t + i) * columns + x, c[i]);");
}

/*
 * Lines beyond the last of the block repeat it, and are not stored. Vectors write beyond the end of a line: so the last
 * come first, and lines one after the other.
 */
static void write_tile(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "const int height = min(bottom - t, %u);", k->rows);
	text_line(w, "int at[%u];", k->rows);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_line(w, "\tat[i] = (t + min(i, height - 1)) * pitch;");
	text_open(w, "for (int x = (width - 1) / W * W; x >= 0; x -= W)");
	write_vector(w);
	text_close(w);
}

static void write_unit(struct writer *w) {
	const struct dtype_info *in = dtype_info(w->k->operand[CONV_INPUT].dtype);
	const struct dtype_info *by = dtype_info(w->k->operand[CONV_WEIGHT].dtype);

	text_line(w, "ulong rest = unit;");
	text_line(w, "const long x0 = take(&rest, (d%u + columns - 1) / columns) * columns;", CONV_OW);
	text_line(w, "const long y0 = take(&rest, (d%u + lines - 1) / lines) * lines;", CONV_OH);
	text_line(w, "const long group = take(&rest, d%u), image = rest;", CONV_GROUP);
	text_line(w, "const int bottom = min(d%u - y0, lines), width = min(d%u - x0, columns);", CONV_OH, CONV_OW);
	text_line(w, "const int length = runs ? bottom * columns : width;");
	text_line(w, "global const uchar *const in = a0 + %u * (image * s0_%u + group * s0_%u);", in->bytes, CONV_N, CONV_GROUP);
	conv_panel(w);
	text_open(w, "for (long channel = group * each; channel < (group + 1) * each; channel++)");
	text_line(w, "global const uchar *const filter = a1 + %u * channel * s1_%u;", by->bytes, CONV_CO);
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
	text_line(w, "const int pitch = columns + over_x, plane = (lines + over_y) * pitch + 2 * W, chunk = 1, count = 1;");
	conv_runs(w);
	text_line(w, "E panel[%u], result[%u + W];", CONV_PANEL, CONV_REGION + w->k->rows * CONV_COLUMNS);
	text_line(w, "int offset[%u];", CONV_TAPS_MOST);
	conv_offsets(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_unit(w);
	text_close(w);
}

/*
 * Convolutions with packed weights, CPU strategy: lanes lie along the channels of the result.
 *
 * A unit is a block of places, `lines` by `columns`, of up to CONV_PANELS panels of channels. It copies the part of the input
 * that a few channels give to the block, border included, to memory of its own: then an offset for each element of a filter
 * serves all places, whatever the stride and the distance, and nothing in the loop asks where the border is. A tile of
 * places by the channels of a panel has its accumulators in registers; a step of it loads vectors of weights, which are one
 * run of memory, and takes in an element of each place. The input is copied once for all panels of the unit: that is
 * a small part of the work, so nothing is laid out in memory for it, and there is nothing that a following convolution could keep.
 *
 * At the end vectors of channels are turned into vectors of places in registers: what follows the root sees, and
 * stores, lines as they lie in memory. Where all it touches steps evenly over whole lines, they are one.
 *
 * The order of accumulation is that of conv.c.
 */
#include "writer.h"

enum {
	/* Elements of the input that the channels taken in together should be: with their weights they stay in the second cache. */
	CHANNELS_USED = 12288,
};

_Static_assert(CHANNELS_USED <= CONV_PANEL - 64 && CONV_REGION <= CONV_PANEL - 64, "vectors may write beyond the last element");

/* ---- the input ---- */

/* A row of one channel, from what is inside the input. */
static void write_row(struct writer *w) {
	const struct dtype_info *from = dtype_info(w->k->operand[CONV_INPUT].dtype);
	const char *acc = dtype_info(w->k->accumulator)->name;

	text_line(w, "const long iy = top + y;");
	text_line(w, "if (iy < 0 || iy >= d%u)", CONV_IH);
	text_line(w, "\tcontinue;");
	text_line(w, "global const uchar *const row = in + %u * (c * s0_%u + iy * s0_%u);", from->bytes, CONV_CI, CONV_IH);
	text_line(w, "private E *const to = region + c * plane + y * pitch + low;");
	text_open(w, "for (int x = 0; x < inside; x += W)");
	text_line(w, "const int n = min(inside - x, W);");
	text_line(w, "%s v;", value_lanes(w));
	text_line(w, "if (s0_%u == 1)", CONV_IW);
	text_line(w, "\tv = to_%s(load_%s(row + %u * x));", acc, from->name, from->bytes);
	text_line(w, "else");
	text_line(w, "\tv = to_%s(gather_%s(row + %u * x * s0_%u, s0_%u, n));", acc, from->name, from->bytes, CONV_IW, CONV_IW);
	text_line(w, "put_vector(to + x, n < W ? first_lanes(v, n) : v);");
	text_close(w);
}

void conv_region(struct writer *w, const char *room, const char *count) {
	text_line(w, "for (int e = 0; e < %s * plane; e += W)", room);
	text_line(w, "\tput_vector(region + e, (%s)(0));", value_lanes(w));
	text_open(w, "for (int c = 0; c < %s; c++)", count);
	text_open(w, "for (int y = 0; y < high; y++)");
	write_row(w);
	text_close(w);
	text_close(w);
}

/* Where in the region the element of each channel and place of the filter lies, and that of each place of the block. */
static void write_offsets(struct writer *w) {
	text_open(w, "for (int c = 0; c < chunk; c++)");
	text_open(w, "for (int y = 0; y < d%u; y++)", CONV_KH);
	text_line(w, "for (int x = 0; x < d%u; x++)", CONV_KW);
	text_line(w, "\toffset[(c * d%u + y) * d%u + x] = c * plane + y * apart_y * pitch + x * apart_x;", CONV_KH, CONV_KW);
	text_close(w);
	text_close(w);
	text_line(w, "for (int p = 0; p < lines * columns + %u; p++) {", w->k->rows);
	text_line(w, "\tconst int q = min((long)p, lines * columns - 1);");
	text_blank(w);
	text_line(w, "\tat[p] = q / (int)columns * step_y * pitch + q %% (int)columns * step_x;");
	text_line(w, "}");
}

/* ---- tiles ---- */

static void write_step(struct writer *w) {
	const struct kernel *k = w->k;
	const struct dtype_info *by = dtype_info(k->operand[CONV_WEIGHT].dtype);

	text_line(w, "const int o = offset[k];");
	text_line(w, "%s b[%u];", value_lanes(w), k->vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", k->vectors);
	text_line(w, "\tb[v] = load_%s(filter + k * %u + v * (%u * W));", by->name, kernel_columns(k) * by->bytes, by->bytes);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_line(w, "const %s a = (%s)(place[i][o]);", value_lanes(w), value_lanes(w));
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", k->vectors);
	value_add_product(w, "c[i][v]", "b[v]", "a");
	text_close(w);
	text_close(w);
}

static void write_tile(struct writer *w) {
	const struct kernel *k = w->k;

	text_line(w, "private const E *place[%u];", k->rows);
	text_line(w, "%s c[%u][%u];", value_lanes(w), k->rows, k->vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", k->rows);
	text_line(w, "\tplace[i] = region + at[t + i];");
	value_each_sum(w);
	text_line(w, "\t\tc[i][v] = c0 > 0 ? sum[q][t + i][v] : (%s)(0);", value_lanes(w));
	text_line(w, "#pragma unroll %u", TILE_UNROLL);
	text_open(w, "for (int k = 0; k < count * taps; k++)");
	write_step(w);
	text_close(w);
	value_each_sum(w);
	text_line(w, "\t\tsum[q][t + i][v] = c[i][v];");
}

/* All panels of the unit, over the channels that the region holds. */
static void write_tiles(struct writer *w) {
	const struct kernel *k = w->k;

	text_open(w, "for (int q = 0; q < panels; q++)");
	text_line(w, "global const uchar *const filter = a1 + %u * (group * s1_%u + (panel + q) * s1_%u + c0 * s1_%u);",
		dtype_info(k->operand[CONV_WEIGHT].dtype)->bytes, CONV_GROUP, CONV_CO, CONV_CI);
	text_open(w, "for (int t = 0; t < places; t += %u)", k->rows);
	write_tile(w);
	text_close(w);
	text_close(w);
}

/* ---- results ---- */

/* Vectors of W channels at W places become such of W places, of one channel each. */
static void write_turned(struct writer *w, const char *vector) {
	text_open(w, "for (int p = 0; p < places; p += W)");
	text_line(w, "%s a[W];", value_lanes(w));
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < W; i++)");
	text_line(w, "\ta[i] = %s;", vector);
	text_line(w, "turn(a);");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < W; i++)");
	text_line(w, "\tput_vector(turned[i] + p, a[i]);");
	text_close(w);
}

void conv_turned(struct writer *w, const char *vector, unsigned places) {
	text_line(w, "const long first = (panel + q) * %u + v * W;", kernel_columns(w->k));
	text_line(w, "E turned[W][%u + W];", places);
	write_turned(w, vector);
	text_open(w, "for (int i = 0; i < W && first + i < each; i++)");
	text_line(w, "const long channel = group * each + first + i;");
	conv_outputs(w, "0", "runs ? 1 : bottom", "width", "get_vector(turned[i] + y * columns + l)");
	text_close(w);
}

static void write_results(struct writer *w) {
	text_open(w, "for (int q = 0; q < panels; q++)");
	text_open(w, "for (int v = 0; v < %u; v++)", w->k->vectors);
	conv_turned(w, "sum[q][p + i][v]", CONV_PLACES);
	text_close(w);
	text_close(w);
}

/* ---- a unit ---- */

void conv_held(struct writer *w) {
	text_line(w, "const long all = (each + %u) / %u, held = min(r[%u], %uul);", kernel_columns(w->k) - 1, kernel_columns(w->k),
		KERNEL_WORD_PIECES, CONV_PANELS);
}

void conv_block_of_unit(struct writer *w) {
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long x0 = take(&rest, (d%u + columns - 1) / columns) * columns;", CONV_OW);
	text_line(w, "const long y0 = take(&rest, (d%u + lines - 1) / lines) * lines;", CONV_OH);
	text_line(w, "const long panel = take(&rest, (all + held - 1) / held) * held;");
	text_line(w, "const long group = take(&rest, d%u), image = rest;", CONV_GROUP);
	text_line(w, "const long top = y0 * step_y - border_y, left = x0 * step_x - border_x;");
	text_line(w, "const int panels = min(all - panel, held), bottom = min(d%u - y0, lines), places = bottom * columns;",
		CONV_OH);
	text_line(w, "const int width = runs ? places : min(d%u - x0, columns);", CONV_OW);
	text_line(w, "const int low = min((long)pitch, max(0l, -left)), inside = min((long)pitch, d%u - left) - low;", CONV_IW);
}

static void write_unit(struct writer *w) {
	const struct dtype_info *from = dtype_info(w->k->operand[CONV_INPUT].dtype);

	conv_block_of_unit(w);
	text_line(w, "global const uchar *in = a0 + %u * (image * s0_%u + group * s0_%u + (left + low) * s0_%u);", from->bytes,
		CONV_N, CONV_GROUP, CONV_IW);
	text_open(w, "for (long c0 = 0; c0 < d%u; c0 += chunk)", CONV_CI);
	text_line(w, "const int count = min(d%u - c0, (long)chunk);", CONV_CI);
	conv_region(w, "count", "count");
	text_line(w, "in += %u * count * s0_%u;", from->bytes, CONV_CI);
	write_tiles(w);
	text_close(w);
	write_results(w);
}

void conv_channels(struct writer *w) {
	const struct kernel *k = w->k;

	frame_units(w);
	conv_sizes(w);
	conv_held(w);
	text_line(w, "const int pitch = (columns - 1) * step_x + (d%u - 1) * apart_x + 1;", CONV_KW);
	text_line(w, "const int high = (lines - 1) * step_y + (d%u - 1) * apart_y + 1, plane = high * pitch;", CONV_KH);
	text_line(w, "const int chunk = max(1l, min(d%u, min((long)%u / plane, (long)%u / taps)));", CONV_CI, CHANNELS_USED,
		CONV_TAPS_MOST);
	conv_runs(w);
	text_line(w, "%s sum[%u][%u + W][%u];", value_lanes(w), CONV_PANELS, CONV_PLACES, k->vectors);
	text_line(w, "E region[%u];", CONV_PANEL);
	text_line(w, "int offset[%u], at[%u];", CONV_TAPS_MOST, CONV_PLACES + k->rows);
	write_offsets(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_unit(w);
	text_close(w);
}

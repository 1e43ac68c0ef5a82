/*
 * Convolutions: each result begins at 0 and takes in fma(weight, element, c) for each channel, and in it each place of
 * the filter in row-major order; elements of the border are zeros.
 *
 * CPU strategy: where a group has channels enough, its weights are packed and lanes lie along them (conv_channels.c).
 * Else a unit is a block of places, `lines` by `columns`, of up to 96 results' channels of one group. It copies
 * what a few channels of the input give to the block, border included, to a panel in which elements that are `stride` apart
 * are neighbours: for each remainder of a row and a column by the strides one plane. Then the elements that neighbouring
 * places need for one place of the filter are neighbours too, at an offset that is the same for all: a place of the block
 * counts through its lines, a line being as long as the panel's. So tiles of 6 channels by a strip of places have their
 * accumulators in registers, weights are read where they lie, and nothing is laid out in memory before. Where a group has one
 * channel of the input, the places of a unit are many more, and each result is stored as soon as it is there (conv_alone.c).
 *
 * The GPU strategy is in conv_group.c.
 *
 * What is too large for that goes by its text (graph/expand.h).
 */
#include "writer.h"

#include <stdio.h>

enum {
	/* Elements of the panel that a few channels should fill: half of a first level of cache. */
	CONV_PANEL_USED = 6144,
};

static const char *lane(const struct writer *w) {
	return value_lane(w->k->accumulator);
}

/* Vectors of a tile: with 32 registers 24 accumulators, with 16 of them 12. */
static unsigned strip(const struct kernel *k) {
	return k->width == 16 && dtype_info(k->accumulator)->bytes == 4 ? 4 : 2;
}

bool conv_walks(const struct kernel *k, unsigned o, unsigned d) {
	static const uint16_t input = 1U << CONV_N | 1U << CONV_GROUP | 1U << CONV_CI | 1U << CONV_IH | 1U << CONV_IW;
	static const uint16_t weight = 1U << CONV_CO | 1U << CONV_CI, packed = weight | 1U << CONV_GROUP;

	if (o > CONV_WEIGHT)
		return d < CONV_GROUP;
	if (o == CONV_WEIGHT && k->minimal && d == CONV_KW)
		return true;
	return (o == CONV_INPUT ? input : k->packed ? packed : weight) >> d & 1;
}

/* What plan chose (kernel.h), and what follows from it. */
void conv_sizes(struct writer *w) {
	static const char *const names[] = { "step_y", "step_x", "apart_y", "apart_x", "border_y", "border_x" };

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		text_line(w, "const long %s = r[%u];", names[i], kernel_word_scalar(w->k, i));
	text_line(w, "const long columns = r[%u] & 0xffff, lines = r[%u] >> 16, taps = d%u * d%u;", KERNEL_WORD_EXTENT,
		KERNEL_WORD_EXTENT, CONV_KH, CONV_KW);
	text_line(w, "const long each = d%u / d%u;", CONV_CO, CONV_GROUP);
}

/* ---- the panel ---- */

/* What is inside the input of a row of a plane: columns 0 to `pitch`. */
static void write_row(struct writer *w) {
	const struct dtype_info *from = dtype_info(w->k->operand[CONV_INPUT].dtype);
	const char *acc = dtype_info(w->k->accumulator)->name;

	text_line(w, "private E *const to = panel + ((c * step_y + py) * step_x + px) * plane + y * pitch;");
	text_line(w, "const long iy = (y0 + y) * step_y + py - border_y, left = x0 * step_x + px - border_x;");
	text_line(w, "if (iy < 0 || iy >= d%u)", CONV_IH);
	text_line(w, "\tcontinue;");
	text_line(w, "const int low = max(0l, (step_x - 1 - left) / step_x);");
	text_line(w, "const int high = min((long)pitch, (d%u - left + step_x - 1) / step_x);", CONV_IW);
	text_line(w, "global const uchar *const row = in + %u * (c * s0_%u + iy * s0_%u + left * s0_%u);", from->bytes,
		CONV_CI, CONV_IH, CONV_IW);
	text_line(w, "const long apart = step_x * s0_%u;", CONV_IW);
	text_open(w, "for (int x = low; x < high; x += W)");
	text_line(w, "const int n = min(high - x, W);");
	text_line(w, "%s v;", value_lanes(w));
	text_line(w, "if (apart == 1)");
	text_line(w, "\tv = to_%s(load_%s(row + %u * x));", acc, from->name, from->bytes);
	text_line(w, "else");
	text_line(w, "\tv = to_%s(gather_%s(row + %u * x * apart, apart, n));", acc, from->name, from->bytes);
	text_line(w, "put_vector(to + x, n < W ? first_lanes(v, n) : v);");
	text_close(w);
}

void conv_panel(struct writer *w) {
	text_line(w, "for (int e = 0; e < count * step_y * step_x * plane; e += W)");
	text_line(w, "\tput_vector(panel + e, (%s)(0));", value_lanes(w));
	text_open(w, "for (int c = 0; c < count; c++)");
	text_open(w, "for (int py = 0; py < step_y; py++)");
	text_open(w, "for (int px = 0; px < step_x; px++)");
	text_open(w, "for (int y = 0; y < lines + over_y; y++)");
	write_row(w);
	text_close(w);
	text_close(w);
	text_close(w);
	text_close(w);
}

/* Where in the panel the elements of the first place lie, for each channel and place of the filter. */
void conv_offsets(struct writer *w) {
	text_open(w, "for (int c = 0; c < chunk; c++)");
	text_open(w, "for (int y = 0; y < d%u; y++)", CONV_KH);
	text_open(w, "for (int x = 0; x < d%u; x++)", CONV_KW);
	text_line(w, "const long at_y = y * apart_y, at_x = x * apart_x;");
	text_line(w, "offset[(c * d%u + y) * d%u + x] = ((c * step_y + at_y %% step_y) * step_x + at_x %% step_x) * plane +",
		CONV_KH, CONV_KW);
	text_line(w, "\tat_y / step_y * pitch + at_x / step_x;");
	text_close(w);
	text_close(w);
	text_close(w);
}

/* ---- tiles ---- */

static void write_step(struct writer *w, unsigned rows, unsigned vectors) {
	char at[32];

	text_line(w, "private const %s *const from = panel + offset[k] + s * W;", lane(w));
	text_line(w, "%s b[%u];", value_lanes(w), vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", vectors);
	text_line(w, "\tb[v] = get_vector(from + v * W);");
	snprintf(at, sizeof at, "%u * k", dtype_info(w->k->operand[CONV_WEIGHT].dtype)->bytes);
	value_tile_step(w, CONV_WEIGHT, at, rows, vectors);
}

static void write_tiles(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned rows = k->inputs, vectors = strip(k), bytes = dtype_info(k->operand[CONV_WEIGHT].dtype)->bytes;

	text_open(w, "for (int t = 0; t < height; t += %u)", rows);
	text_line(w, "global const uchar *row[%u];", rows);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", rows);
	text_line(w, "\trow[i] = a1 + %u * ((first + min(t + i, height - 1)) * s1_%u + c0 * s1_%u);", bytes, CONV_CO, CONV_CI);
	text_open(w, "for (int s = 0; s < across; s += %u)", vectors);
	text_line(w, "%s c[%u][%u];", value_lanes(w), rows, vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", rows * vectors);
	text_line(w, "\tc[e / %u][e %% %u] = (%s)(0);", vectors, vectors, value_lanes(w));
	text_line(w, "if (c0 > 0)");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", rows * vectors);
	text_line(w, "\tc[e / %u][e %% %u] = sum[t + e / %u][s + e %% %u];", vectors, vectors, vectors, vectors);
	text_open(w, "for (int k = 0; k < count * taps; k++)");
	write_step(w, rows, vectors);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", rows * vectors);
	text_line(w, "\tsum[t + e / %u][s + e %% %u] = c[e / %u][e %% %u];", vectors, vectors, vectors, vectors);
	text_close(w);
	text_close(w);
}

/* ---- a unit ---- */

void conv_runs(struct writer *w) {
	text_begin(w);
	text_part(w, "const int runs = columns == d%u", CONV_OW);
	for (unsigned o = CONV_WEIGHT + 1; o < w->k->operands; o++) {
		if (!w->outer.operand[o])
			continue;
		text_part(w, " && s%u_%u == ", o, CONV_OH);
		if (w->k->operand[o].access == KERNEL_UNIFORM)
			text_part(w, "0");
		else if (w->k->operand[o].access == KERNEL_CONTIGUOUS)
			text_part(w, "d%u", CONV_OW);
		else
			text_part(w, "d%u * s%u_%u", CONV_OW, o, CONV_OW);
	}
	text_part(w, ";");
	text_end(w);
}

void conv_outputs(struct writer *w, const char *from, const char *to, const char *length, const char *vector) {
	struct scope s = { .needs = &w->outer, .pointer = "o", .lane = "l", .count = "n", .hoist = true };
	struct frame_names index = { { NULL } };

	index.name[CONV_N] = "image";
	index.name[CONV_CO] = "channel";
	index.name[CONV_OH] = "line";
	index.name[CONV_OW] = "x0";
	text_open(w, "for (int y = %s; y < (%s); y++)", from, to);
	text_line(w, "const long line = y0 + y;");
	operand_place(w, &w->outer, "o", index.name);
	value_write(w, &s, LEVEL_UNIT);
	text_open(w, "for (int l = 0; l < %s; l += W)", length);
	text_line(w, "const int n = min(%s - l, W);", length);
	value_root(w, vector);
	value_write(w, &s, LEVEL_ELEMENT);
	value_store(w, &s);
	text_close(w);
	text_close(w);
}

static void write_outputs(struct writer *w) {
	text_open(w, "for (int i = 0; i < height; i++)");
	text_line(w, "const long channel = first + i;");
	conv_outputs(w, "0", "bottom", "width", "get_vector((private const E *)sum[i] + y * pitch + l)");
	text_close(w);
}

static void write_unit(struct writer *w) {
	text_line(w, "ulong rest = unit;");
	text_line(w, "const long x0 = take(&rest, (d%u + columns - 1) / columns) * columns;", CONV_OW);
	text_line(w, "const long y0 = take(&rest, (d%u + lines - 1) / lines) * lines;", CONV_OH);
	text_line(w, "const long begins = take(&rest, (each + rows - 1) / rows) * rows;");
	text_line(w, "const long group = take(&rest, d%u), image = rest, first = group * each + begins;", CONV_GROUP);
	text_line(w, "const int height = min(each - begins, rows), width = min(d%u - x0, columns);", CONV_OW);
	text_line(w, "const int bottom = min(d%u - y0, lines);", CONV_OH);
	text_line(w, "global const uchar *in = a0 + %u * (image * s0_%u + group * s0_%u);",
		dtype_info(w->k->operand[CONV_INPUT].dtype)->bytes, CONV_N, CONV_GROUP);
	text_open(w, "for (long c0 = 0; c0 < d%u; c0 += chunk)", CONV_CI);
	text_line(w, "const int count = min(d%u - c0, chunk);", CONV_CI);
	conv_panel(w);
	text_line(w, "in += %u * count * s0_%u;", dtype_info(w->k->operand[CONV_INPUT].dtype)->bytes, CONV_CI);
	write_tiles(w);
	text_close(w);
	write_outputs(w);
}

void conv_functions(struct writer *w) {
	text_line(w, "/* Vectors in private memory, wherever they begin; one whose lanes from n on are zeros. */");
	text_line(w, "typedef %s E;", lane(w));
	text_line(w, "OVL %s get_vector(private const E *p) { return *(private const %s_loose *)p; }", value_lanes(w),
		dtype_info(w->k->accumulator)->bytes == 8 ? "double" : "float");
	text_line(w, "OVL void put_vector(private E *p, %s v) { *(private %s_loose *)p = v; }", value_lanes(w),
		dtype_info(w->k->accumulator)->bytes == 8 ? "double" : "float");
	text_blank(w);
	text_begin(w);
	text_part(w, "OVL %s first_lanes(%s v, int n) { return (", value_lanes(w), value_lanes(w));
	text_part(w, "(%s)(0", dtype_info(w->k->accumulator)->bytes == 8 ? "i64v" : "i32v");
	for (unsigned l = 1; l < w->k->width; l++)
		text_part(w, ", %u", l);
	text_part(w, ") < n) ? v : (%s)(0); }", value_lanes(w));
	text_end(w);
	text_blank(w);
	if (w->k->packed)
		matmul_turn(w, w->k->accumulator);
	if (w->k->minimal)
		conv_minimal_functions(w);
}

void conv_lanes(struct writer *w) {
	unsigned rows = CONV_TILES * w->k->inputs, vectors = strip(w->k);

	frame_units(w);
	conv_sizes(w);
	text_line(w, "const long rows = r[%u] * %u;", KERNEL_WORD_PIECES, w->k->inputs);
	text_line(w, "const long over_x = (d%u - 1) * apart_x / step_x, over_y = (d%u - 1) * apart_y / step_y;", CONV_KW,
		CONV_KH);
	text_line(w, "const long pitch = columns + over_x, plane = over_y * pitch + over_x + %u;", CONV_PLACES);
	text_line(w, "const int across = (lines * pitch - over_x + %u * W - 1) / (%u * W) * %u;", vectors, vectors, vectors);
	text_line(w, "const long chunk = max(1l, min(d%u, min((long)%u / (step_y * step_x * plane), (long)%u / taps)));",
		CONV_CI, CONV_PANEL_USED, CONV_TAPS_MOST);
	text_line(w, "%s sum[%u][%u / W];", value_lanes(w), rows + w->k->inputs, CONV_PLACES);
	text_line(w, "E panel[%u];", CONV_PANEL);
	text_line(w, "int offset[%u];", CONV_TAPS_MOST);
	conv_offsets(w);
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_unit(w);
	text_close(w);
}

/*
 * Winograd convolutions of 3x3, CPU strategy (plan/minimal.c): lanes lie along the channels of the result, as in
 * conv_channels.c, and weights are there transformed.
 *
 * A unit is a block of tiles of up to CONV_PANELS panels of channels. W channels of the input at a time are copied to memory of its own,
 * border included, and turned, so that a vector holds a place of all of them: then each tile's places are transformed and kept, a
 * transformed place of all tiles being a matrix of tiles by channels. As many channels as stay in the second level of cache with what is made of them
 * are taken in at once. Then each of the (m + 2)^2 places is a product of such a matrix by a panel's, tiles by channels of the result, which has its
 * accumulators in registers: channels are taken in one after the other, by fma. At last vectors of channels of each tile are
 * transformed to results, and turned to lines.
 *
 * Each line of what is transformed takes the same steps in the same order, so results do not depend on the block, or on where a tile stands in it.
 */
#include "writer.h"

enum {
	/* Elements of the input, of one transformed place, that are kept: with what they are multiplied to they stay in the second cache. */
	MINIMAL_KEPT_TWO = 4096,
	MINIMAL_KEPT_FOUR = 2048,
};

_Static_assert((int)MINIMAL_KEPT_TWO >= MINIMAL_TILES_TWO * 16 && (int)MINIMAL_KEPT_FOUR >= MINIMAL_TILES_FOUR * 16,
	"a vector of channels of each tile is kept");

static unsigned side(const struct writer *w) {
	return w->k->minimal;
}

static unsigned points(const struct writer *w) {
	return w->k->minimal + 2u;
}

static unsigned most_tiles(const struct writer *w) {
	return side(w) == 2 ? MINIMAL_TILES_TWO : MINIMAL_TILES_FOUR;
}

static unsigned most_kept(const struct writer *w) {
	return side(w) == 2 ? MINIMAL_KEPT_TWO : MINIMAL_KEPT_FOUR;
}

/* The next line, for each of so many e. */
static void write_each(struct writer *w, unsigned count) {
	text_line(w, "#pragma unroll");
	text_line(w, "for (int e = 0; e < %u; e++)", count);
}

/* ---- transforms of a line, its elements `step` apart, in place ---- */

/* Values at 0, at pairs, at infinity, of polynomials that vanish at all other points. */
static void write_spread(struct writer *w) {
	const double p = MINIMAL_NEAR * MINIMAL_NEAR, q = MINIMAL_FAR * MINIMAL_FAR;
	const char *v = value_lanes(w);

	text_open(w, "OVL void spread(private %s *x, int step)", v);
	text_line(w, "const %s x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];", v);
	if (side(w) == 2) {
		text_line(w, "x[0] = x2 - x0;");
		text_line(w, "x[step] = x2 + x1;");
		text_line(w, "x[2 * step] = x2 - x1;");
		text_line(w, "x[3 * step] = x3 - x1;");
	} else {
		text_line(w, "const %s x4 = x[4 * step], x5 = x[5 * step];", v);
		text_line(w, "const %s near = fma(x2, (%s)(%.9ff), x4), far = fma(x2, (%s)(%.9ff), x4);", v, v, -q, v, -p);
		text_line(w, "const %s by_near = fma(x1, (%s)(%.9ff), x3), by_far = fma(x1, (%s)(%.9ff), x3);", v, v, -q, v, -p);
		text_line(w, "x[0] = fma(x0, (%s)(%.9ff), fma(x2, (%s)(%.9ff), x4));", v, p * q, v, -(p + q));
		text_line(w, "x[step] = fma(by_near, (%s)(%.9ff), near);", v, MINIMAL_NEAR);
		text_line(w, "x[2 * step] = fma(by_near, (%s)(%.9ff), near);", v, -MINIMAL_NEAR);
		text_line(w, "x[3 * step] = fma(by_far, (%s)(%.9ff), far);", v, MINIMAL_FAR);
		text_line(w, "x[4 * step] = fma(by_far, (%s)(%.9ff), far);", v, -MINIMAL_FAR);
		text_line(w, "x[5 * step] = fma(x1, (%s)(%.9ff), fma(x3, (%s)(%.9ff), x5));", v, p * q, v, -(p + q));
	}
	text_close(w);
	text_blank(w);
}

/* Each result is the sum over the points of a power of the point by what is there. */
static void write_gather(struct writer *w) {
	const double a = MINIMAL_NEAR, b = MINIMAL_FAR;
	const char *v = value_lanes(w);

	text_open(w, "OVL void gather_tile(private %s *x, int step)", v);
	text_line(w, "const %s near = x[step] + x[2 * step], by_near = x[step] - x[2 * step];", v);
	if (side(w) == 2) {
		text_line(w, "x[0] = x[0] + near;");
		text_line(w, "x[step] = by_near + x[3 * step];");
	} else {
		text_line(w, "const %s far = x[3 * step] + x[4 * step], by_far = x[3 * step] - x[4 * step];", v);
		text_line(w, "x[0] = x[0] + (near + far);");
		text_line(w, "x[step] = fma(by_far, (%s)(%.9ff), by_near * (%s)(%.9ff));", v, b, v, a);
		text_line(w, "x[2 * step] = fma(far, (%s)(%.9ff), near * (%s)(%.9ff));", v, b * b, v, a * a);
		text_line(w, "x[3 * step] = fma(by_far, (%s)(%.9ff), fma(by_near, (%s)(%.9ff), x[5 * step]));", v, b * b * b, v, a * a * a);
	}
	text_close(w);
	text_blank(w);
}

void conv_minimal_functions(struct writer *w) {
	write_spread(w);
	write_gather(w);
}

/* ---- the input ---- */

/* The places of a tile, of W channels: their transforms to where those of tile t are. */
static void write_tile_spread(struct writer *w) {
	unsigned m = side(w), n = points(w);

	text_line(w, "%s x[%u];", value_lanes(w), n * n);
	write_each(w, n * n);
	text_line(w, "\tx[e] = seen[(ty * %u + e / %u) * pitch + tx * %u + e %% %u];", m, n, m, n);
	write_each(w, n);
	text_line(w, "\tspread(x + e, %u);", n);
	write_each(w, n);
	text_line(w, "\tspread(x + e * %u, 1);", n);
	write_each(w, n * n);
	text_line(w, "\tput_vector(kept + e * apart + (ty * wide + tx) * deep + cb, x[e]);");
}

static void write_input(struct writer *w) {
	unsigned bytes = dtype_info(w->k->operand[CONV_INPUT].dtype)->bytes;

	text_open(w, "for (int cb = 0; cb < count; cb += W)");
	text_line(w, "const int some = min(count - cb, W);");
	text_line(w, "global const uchar *const in = from + %u * ((c0 + cb) * s0_%u);", bytes, CONV_CI);
	conv_region(w, "W", "some");
	text_open(w, "for (int e = 0; e < plane; e += W)");
	text_line(w, "%s a[W];", value_lanes(w));
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < W; i++)");
	text_line(w, "\ta[i] = get_vector(region + i * plane + e);");
	text_line(w, "turn(a);");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < W; i++)");
	text_line(w, "\tseen[e + i] = a[i];");
	text_close(w);
	text_open(w, "for (int ty = 0; ty < tiles / wide; ty++)");
	text_open(w, "for (int tx = 0; tx < wide; tx++)");
	write_tile_spread(w);
	text_close(w);
	text_close(w);
	text_close(w);
}

/* ---- products ---- */

/* Tiles [t, t + count) by the channels of a panel, at one transformed place. */
static void write_products(struct writer *w, unsigned count) {
	const struct kernel *k = w->k;
	const char *v = value_lanes(w);

	text_line(w, "private const E *place[%u];", count);
	text_line(w, "%s c[%u][%u];", v, count, k->vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", count);
	text_line(w, "\tplace[i] = kept + e * apart + min(t + i, tiles - 1) * deep;");
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", count);
	text_line(w, "#pragma unroll");
	text_line(w, "\tfor (int v = 0; v < %u; v++)", k->vectors);
	text_line(w, "\t\tc[i][v] = c0 > 0 ? sum[e][t + i][v] : (%s)(0);", v);
	text_line(w, "#pragma unroll %u", TILE_UNROLL);
	text_open(w, "for (int k = 0; k < count; k++)");
	text_line(w, "%s b[%u];", v, k->vectors);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int v = 0; v < %u; v++)", k->vectors);
	text_line(w, "\tb[v] = load_f32(filter + k * %u + v * (4 * W));", kernel_columns(k) * 4);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int i = 0; i < %u; i++)", count);
	text_line(w, "const %s a = (%s)(place[i][k]);", v, v);
	text_line(w, "#pragma unroll");
	text_open(w, "for (int v = 0; v < %u; v++)", k->vectors);
	value_add_product(w, "c[i][v]", "b[v]", "a");
	text_close(w);
	text_close(w);
	text_close(w);
	text_line(w, "#pragma unroll");
	text_line(w, "for (int i = 0; i < %u; i++)", count);
	text_line(w, "#pragma unroll");
	text_line(w, "\tfor (int v = 0; v < %u; v++)", k->vectors);
	text_line(w, "\t\tsum[e][t + i][v] = c[i][v];");
}

/* As many tiles at a time as a group has, or one less where that leaves none over. */
static void write_all_products(struct writer *w) {
	const struct kernel *k = w->k;

	text_open(w, "for (int e = 0; e < %u; e++)", points(w) * points(w));
	text_line(w, "global const uchar *const filter = a1 + 4 * (group * s1_%u + (panel + q) * s1_%u + e * s1_%u + c0 * s1_%u);",
		CONV_GROUP, CONV_CO, CONV_KW, CONV_CI);
	if (k->rows < 2) {
		text_open(w, "for (int t = 0; t < tiles; t++)");
		write_products(w, 1);
		text_close(w);
		text_close(w);
		return;
	}
	text_open(w, "for (int t = 0; t < tiles;)");
	text_open(w, "if ((tiles - t) %% %u)", k->rows);
	write_products(w, k->rows - 1u);
	text_line(w, "t += %u;", k->rows - 1u);
	text_line(w, "continue;");
	text_close(w);
	write_products(w, k->rows);
	text_line(w, "t += %u;", k->rows);
	text_close(w);
	text_close(w);
}

/* ---- results ---- */

static void write_results(struct writer *w) {
	unsigned m = side(w), n = points(w);

	text_open(w, "for (int v = 0; v < %u; v++)", w->k->vectors);
	text_open(w, "for (int ty = 0; ty < tiles / wide; ty++)");
	text_open(w, "for (int tx = 0; tx < wide; tx++)");
	text_line(w, "%s x[%u];", value_lanes(w), n * n);
	write_each(w, n * n);
	text_line(w, "\tx[e] = sum[e][ty * wide + tx][v];");
	write_each(w, n);
	text_line(w, "\tgather_tile(x + e, %u);", n);
	write_each(w, m);
	text_line(w, "\tgather_tile(x + e * %u, 1);", n);
	write_each(w, m * m);
	text_line(w, "\tline[(ty * %u + e / %u) * columns + tx * %u + e %% %u] = x[e / %u * %u + e %% %u];", m, m, m, m, m, n, m);
	text_close(w);
	text_close(w);
	conv_turned(w, "line[p + i]", most_tiles(w) * m * m);
	text_close(w);
}

/* ---- a unit ---- */

static void write_unit(struct writer *w) {
	const struct dtype_info *from = dtype_info(w->k->operand[CONV_INPUT].dtype);
	unsigned m = side(w);

	conv_block_of_unit(w);
	text_line(w, "const int wide = (min(d%u - x0, columns) + %u) / %u, tiles = (bottom + %u) / %u * wide;", CONV_OW, m - 1, m, m - 1, m);
	text_line(w, "const int high = (bottom + %u) / %u * %u + 2, plane = high * pitch;", m - 1, m, m);
	text_line(w, "const int deep = min((d%u + W - 1) / W * W, (long)(%u / tiles / W * W)), apart = tiles * deep + W;", CONV_CI,
		most_kept(w));
	text_line(w, "global const uchar *const from = a0 + %u * (image * s0_%u + group * s0_%u + (left + low) * s0_%u);", from->bytes,
		CONV_N, CONV_GROUP, CONV_IW);
	text_open(w, "for (int q = 0; q < panels; q++)");
	text_open(w, "for (long c0 = 0; c0 < d%u; c0 += deep)", CONV_CI);
	text_line(w, "const int count = min(d%u - c0, (long)deep);", CONV_CI);
	/* What is kept of all channels serves all panels. */
	text_open(w, "if (q == 0 || deep < d%u)", CONV_CI);
	write_input(w);
	text_close(w);
	write_all_products(w);
	text_close(w);
	write_results(w);
	text_close(w);
}

void conv_minimal(struct writer *w) {
	const struct kernel *k = w->k;
	unsigned all = points(w) * points(w);

	frame_units(w);
	conv_sizes(w);
	conv_held(w);
	text_line(w, "const int pitch = columns + 2;");
	conv_runs(w);
	text_line(w, "%s sum[%u][%u][%u], seen[%u + W], line[%u + W];", value_lanes(w), all, most_tiles(w) + k->rows, k->vectors, MINIMAL_PLANE,
		most_tiles(w) * side(w) * side(w));
	text_line(w, "E region[W * %u + W], kept[%u * (%u + W)];", MINIMAL_PLANE, all, most_kept(w));
	text_open(w, "for (ulong unit = begin; unit < end; unit++)");
	write_unit(w);
	text_close(w);
}

/*
 * Winograd convolutions of 3x3, where the client asked for `fast` (CPU strategy): a tile of m by m results takes (m + 2)^2
 * products of a channel instead of 9 m^2 (Winograd 1980; Lavin and Gray 2015): 16 instead of 36, or 36 instead of 144.
 *
 * Results of a line of m places are the coefficients of a product of two polynomials, the filter's and one of m numbers, turned around. A
 * product of that degree is known from its values at m + 2 points, one of which may be infinity: there the highest coefficients stand. So
 * each of three lines of a filter and each of m + 2 of the input becomes m + 2 numbers, these are multiplied one by one and summed over
 * the channels, and the sums become m results. With lines of columns it is the same the other way.
 *
 * Points are 0, infinity and pairs +-p, whose transforms share their halves. How large numbers become on the way decides how much is lost:
 * for m = 4 the usual points +-1 and +-2 lose 4 times as much as those here (1.7e-6 against 7.7e-7 of the results' spread, in the mean of
 * 64 channels; a plain sum of the products loses 4.3e-7, and m = 2 2.7e-7). All their powers that occur are exact in f32.
 *
 * A filter's numbers carry the divisors of the interpolation, so only they have inexact factors. They are made when weights are packed,
 * by the copy into panels, [group][panel][(m + 2)^2][channel][channel of the result], and stay with them; emit/conv_minimal.c has the rest.
 *
 * What is not finite spreads over the tile that it is in, where it becomes NaN.
 */
#include "planner.h"

#include <math.h>

/* ---- where it pays ---- */

enum {
	/* As products of elements, on a processor of 16 lanes: an element of the weights that comes from memory while others are multiplied. */
	WEIGHT_PRODUCTS = 5,
	/* ... and a channel of a tile, transformed, turned and copied. */
	TRANSFORM_TWO = 100,
	TRANSFORM_FOUR = 300,
	/* Channels of a result that go through transformed input at once, when few blocks are there to share it; lanes of the transforms. */
	PASS_CHANNELS = 64,
	TRANSFORM_LANES = 16,
};

/* What must be won, in percent of the filter as it is: estimates are coarse. */
#define LEAST_WON 120

struct shape {
	double images, lines, columns, channels, results; /* channels of a group; of the result of a group */
};

static int64_t tiles_of(int64_t places, int64_t side) {
	return (places + side - 1) / side;
}

static double plain_cost(const struct shape *s) {
	return 9 * s->channels * s->results * (s->images * s->lines * s->columns + WEIGHT_PRODUCTS);
}

static double minimal_cost(const struct shape *s, unsigned side) {
	double tiles = s->images * ceil(s->lines / side) * ceil(s->columns / side), points = (side + 2) * (side + 2);
	double passes = ceil(s->results / PASS_CHANNELS), channels = ceil(s->channels / TRANSFORM_LANES) * TRANSFORM_LANES;
	double transforms = (side == 2 ? TRANSFORM_TWO : TRANSFORM_FOUR) * (channels * passes + s->results);

	return points * s->channels * s->results * (tiles + WEIGHT_PRODUCTS) + tiles * transforms;
}

/* By the shape alone, so that a convolution has the same bits whatever is fused to it. */
static uint8_t cheapest_side(const struct shape *s) {
	double two = minimal_cost(s, 2), four = minimal_cost(s, 4), least = two < four ? two : four;

	if (plain_cost(s) * 100 < least * LEAST_WON)
		return 0;
	return two < four ? 2 : 4;
}

static bool is_minimal_form(const struct node *conv, const struct node *w) {
	const struct op_attr *a = conv->attr;

	if (a->rank != 2 || w->type->dims[2] != 3 || w->type->dims[3] != 3)
		return false;
	return a->step[0] == 1 && a->step[1] == 1 && a->dims[0] == 1 && a->dims[1] == 1 && dtype_info(conv->type->dtype)->reg == DTYPE_f32;
}

uint8_t minimal_side(const struct planner *p, const struct node *conv) {
	const struct node *w = &p->node[conv->in[CONV_WEIGHT]];
	const int64_t *dims = conv->type->dims;
	double groups = conv->attr->whole ? (double)conv->attr->whole : 1;
	struct shape s;

	if (!p->o->fast || !is_minimal_form(conv, w))
		return 0;
	s = (struct shape){ (double)dims[0], (double)dims[2], (double)dims[3], (double)w->type->dims[1], (double)dims[1] / groups };
	return cheapest_side(&s);
}

double minimal_products(const int64_t *dims, unsigned side) {
	double tiles = (double)tiles_of(dims[CONV_OH], side) * (double)tiles_of(dims[CONV_OW], side);

	return tiles * (side + 2) * (side + 2) * (double)dims[CONV_N] * (double)dims[CONV_CO] * (double)dims[CONV_CI];
}

uint64_t minimal_block(const int64_t *dims, unsigned side) {
	int64_t most = side == 2 ? MINIMAL_TILES_TWO : MINIMAL_TILES_FOUR;
	int64_t columns = even_piece(tiles_of(dims[CONV_OW], side), most);
	int64_t lines = even_piece(tiles_of(dims[CONV_OH], side), most / columns);

	return (uint64_t)(lines * side) << 16 | (uint64_t)(columns * side);
}

int64_t minimal_tiles(const struct kernel *k, uint64_t block) {
	int64_t side = k->minimal ? k->minimal : 1;

	return (int64_t)(block >> 16) / side * ((int64_t)(block & 0xffff) / side);
}

/* ---- filters ---- */

/* What an element of a panel is made of: the elements of its filter, then so many numbers of each line, then of each column. */
struct filters {
	struct planner *p;
	struct draft *d;
	unsigned side;
	int error;
};

static uint16_t number(struct filters *f, double value) {
	uint32_t at = 0;

	if (!f->error)
		f->error = planner_constant(f->p, dtype_scalar_from_double(DTYPE_f32, value), &at);
	return draft_scalar(f->d, DTYPE_f32, at);
}

static uint16_t op(struct filters *f, unsigned op, unsigned arity, uint16_t a, uint16_t b, uint16_t c) {
	return draft_op(f->d, op, DTYPE_f32, arity, (uint16_t[]){ a, b, c });
}

/* The values at +p and -p, over what the interpolation divides them by: twice p^2 (p^2 - q^2), or of one pair alone twice p^2. */
static void at_pair(struct filters *f, double p, double q, const uint16_t *x, uint16_t *to) {
	double by = f->side == 2 ? 2 * p * p : 2 * p * p * (p * p - q * q);
	uint16_t even = op(f, OP_fma, 3, x[2], number(f, p * p / by), op(f, OP_mul, 2, x[0], number(f, 1 / by), 0));
	uint16_t odd = op(f, OP_mul, 2, x[1], number(f, p / by), 0);

	to[0] = op(f, OP_add, 2, even, odd, 0);
	to[1] = op(f, OP_sub, 2, even, odd, 0);
}

/* Three numbers of a line at all points, in the order of emit/conv_minimal.c. */
static void at_points(struct filters *f, const uint16_t *x, uint16_t *to) {
	const double p = MINIMAL_NEAR, q = MINIMAL_FAR;

	if (f->side == 2) {
		to[0] = op(f, OP_neg, 1, x[0], 0, 0);
		at_pair(f, MINIMAL_POINT_TWO, 0, x, &to[1]);
	} else {
		to[0] = op(f, OP_mul, 2, x[0], number(f, 1 / (p * p * q * q)), 0);
		at_pair(f, p, q, x, &to[1]);
		at_pair(f, q, p, x, &to[3]);
	}
	to[f->side + 1u] = x[2];
}

int minimal_filters(struct planner *p, struct draft *d, const struct node *n, struct plan_operand in, struct plan_operand to) {
	const struct node *seen = &p->node[n->in[0]], *w = &p->node[seen->in[0]];
	struct filters f = { .p = p, .d = d, .side = n->minimal };
	uint16_t x[MINIMAL_SIDE][MINIMAL_SIDE], line[3], value[MINIMAL_SIDE];
	unsigned points = f.side + 2u;

	for (unsigned c = 0; c < 3; c++) {
		for (unsigned r = 0; r < 3; r++) {
			struct plan_operand tap = in;

			tap.offset += (int64_t)r * w->view.stride[2] + (int64_t)c * w->view.stride[3];
			line[r] = draft_load(d, w->type->dtype, &tap);
			if (w->type->dtype != DTYPE_f32)
				line[r] = draft_op(d, OP_cast, DTYPE_f32, 1, &line[r]);
		}
		at_points(&f, line, value);
		for (unsigned r = 0; r < points; r++)
			x[r][c] = value[r];
	}
	for (unsigned r = 0; r < points; r++) {
		at_points(&f, x[r], value);
		for (unsigned c = 0; c < points; c++) {
			struct plan_operand at = to;

			at.offset += (int64_t)(r * points + c) * panels_inner(n);
			draft_store(d, value[c], &at);
		}
	}
	return f.error;
}

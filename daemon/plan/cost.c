/*
 * How long a kernel takes, estimated from what the device was measured to do.
 *
 * A kernel takes a launch and a start on the device, and then the longer of moving its memory and computing its values, each at the
 * rate of as many compute units as it has work for.
 *
 * Memory: what an operand touches moves once, at the rate measured for the footprint of the whole kernel,
 * which says which cache holds it. What is touched again (broadcasts) comes from the cache that holds that
 * operand; what is read across the rows costs what that was measured to cost. Rows that are walked several times
 * come from the cache that holds those under way.
 * Arithmetic: each value as often as its kernel computes it, by the weight of its operation and type.
 *
 * It promises an order of magnitude for anything, and on what fusion-bench runs a median error below 30 %
 * (fusion-bench --steps). It knows no device: every figure comes from struct rates. Estimates choose
 * among plans of equal bits, never what is computed.
 */
#include "planner.h"

#include <math.h>
#include <string.h>

enum {
	/* Elements below which a kernel of the CPU strategy is not cut (emit/geometry.c); of a lane of a GPU. */
	COST_ITEM = 2048,
	COST_LANES = 8,
	/* A line of memory: what is read at least. */
	COST_LINE = 64,
};

/* Of a cheap operation: rounding to 16 bits after each, loading and storing it, a scalar's place in a vector. */
#define COST_ROUND 4.0

/* Of a cheap operation: four steps, each a shift and an operation, and two carries. */
#define COST_SCAN 10.0
/* SORT: times each element is read and put somewhere else besides once for each of its digits; in a tile of a group. */
#define COST_SORT 2.0
#define COST_SORT_TILE 4.0
/*
 * SCATTER: what looking at an index takes, in cheap operations on a lane of a processor; of a GPU, which waits for each, bytes of a lane's read that
 * takes as long: it has none other under way.
 */
#define COST_LOOK 8.0
#define COST_LOOK_BYTES 6.0

/*
 * Instructions on matrices of 16-bit floats, times as fast as products by fma: what the speeds of their tiles are counted in (kernel.c), and of
 * attention (H200: 220 to 320 against 30 TFLOP/s); the exponentials of that.
 */
#define COST_MATRICES 10.0
#define COST_MATRICES_ATTENTION 8.0
#define COST_MATRIX_EXP 4.0

struct weight {
	uint8_t class;
	float times;
};

static const struct weight weights[OP_COUNT] = {
#define WEIGHT(op, class, times) [OP_##op] = { RATE_##class, times },
#define WEIGHT_INTEGER(op, class, times)
#include "weights.def"
#undef WEIGHT
#undef WEIGHT_INTEGER
};

static const struct weight integer_weights[OP_COUNT] = {
#define WEIGHT(op, class, times)
#define WEIGHT_INTEGER(op, class, times) [OP_##op] = { RATE_##class, times },
#include "weights.def"
#undef WEIGHT
#undef WEIGHT_INTEGER
};

struct cost {
	const struct kernel *k;
	const int64_t *dims;
	const struct plan_operand *operand;
	const struct traits *t;
	uint64_t extent;
	double elements;               /* of the iteration, blocks filled up not counted */
	double outputs;                /* kept ones; of a map and a product all */
	double spread;                 /* 0: one compute unit is busy, 1: all are */
};

/* ---- rates ---- */

/* A time an element, between what one unit and what all together take. */
static double shared_ns(const struct cost *c, double one, double all) {
	return 1 / ((1 - c->spread) / one + c->spread / all);
}

/* A rate at a footprint: between the times measured for a byte, by the logarithm of the sizes. */
static double at_footprint(const struct rates *r, const double *rate, double bytes) {
	unsigned i = 1;
	double part;

	if (bytes <= r->bytes[0])
		return rate[0];
	while (i < RATE_SIZES && bytes > r->bytes[i])
		i++;
	if (i == RATE_SIZES)
		return rate[RATE_SIZES - 1];
	part = log(bytes / r->bytes[i - 1]) / log(r->bytes[i] / r->bytes[i - 1]);
	return 1 / ((1 - part) / rate[i - 1] + part / rate[i]);
}

static double traffic_rate(const struct cost *c, enum rate_traffic kind, double bytes) {
	const struct rates *r = &c->t->rates;
	double one = at_footprint(r, r->memory[RATE_ONE][kind], bytes);
	double all = at_footprint(r, r->memory[RATE_ALL][kind], bytes);

	return one + c->spread * (all - one);
}

static double class_ns(const struct cost *c, uint8_t dtype, enum rate_class class) {
	const struct rates *r = &c->t->rates;
	enum rate_float f = dtype_info(dtype_info(dtype)->reg)->bytes == 8 ? RATE_F64 : RATE_F32;

	return shared_ns(c, r->op_ns[RATE_ONE][f][class], r->op_ns[RATE_ALL][f][class]);
}

/* ---- how much there is to do ---- */

static double product_of(const int64_t *dims, unsigned first, unsigned end) {
	double n = 1;

	for (unsigned d = first; d < end; d++)
		n *= (double)dims[d];
	return n;
}

/* The iteration without the padding of the last block. */
static double iteration(const struct cost *c) {
	const struct kernel *k = c->k;

	if ((k->root == KERNEL_REDUCE || k->root == KERNEL_SCAN) && k->block_dim < k->kept)
		return product_of(c->dims, 0, k->kept) / (double)c->dims[k->block_dim] * (double)c->extent;
	if (k->root == KERNEL_CONV && k->minimal)
		return minimal_products(c->dims, k->minimal);
	if (k->root == KERNEL_CONV)
		return product_of(c->dims, 0, CONV_GROUP) * product_of(c->dims, CONV_CI, CONV_IH);
	if (k->root == KERNEL_ATTENTION)
		return product_of(c->dims, 0, k->rank - 3u) * (double)c->dims[k->rank - 2] *
			(double)(c->dims[k->rank - 3] + c->dims[k->rank - 1]) * (k->causal ? 0.5 : 1);
	return product_of(c->dims, 0, k->rank);
}

static double outputs_of(const struct cost *c) {
	const struct kernel *k = c->k;

	if (k->root == KERNEL_REDUCE || k->root == KERNEL_ROWS)
		return product_of(c->dims, 0, k->kept);
	return product_of(c->dims, 0, k->rank - kernel_inner_dims(k));
}

/* Attention: scores, each of which becomes a weight. */
static double scores_of(const struct cost *c) {
	return c->outputs / (double)c->dims[c->k->rank - 3] * (double)c->extent * (c->k->causal ? 0.5 : 1);
}

/* Parts that can be worked on side by side. */
static double parts_of(const struct cost *c) {
	double work = c->elements, parts, each = COST_ITEM;

	if (c->t->strategy == STRATEGY_GPU)
		each = (double)c->t->local_size * COST_LANES;
	if (kernel_inner_dims(c->k))
		each *= COST_LANES;
	parts = work / each;
	if (c->k->root == KERNEL_REDUCE || c->k->root == KERNEL_ROWS)
		parts = fmin(parts, c->outputs);
	return fmax(parts, 1);
}

/* A GPU is only as fast as all its units were measured to be with as many groups as they had then. */
static double spread_of(const struct cost *c) {
	double units = c->t->units > 1 ? c->t->units : 1;

	if (c->t->strategy == STRATEGY_GPU)
		units *= RATE_GROUPS;
	return units > 1 ? (fmin(parts_of(c), units) - 1) / (units - 1) : 1;
}

/* ---- memory ---- */

/* What an operand is walked by, and what of it is touched: of what is gathered a place an element. */
struct walk {
	double accesses, bytes;        /* elements; bytes of memory */
	bool strided;                  /* along the lanes */
};

/* The dims that an operand is walked over: those of a row's results are only the kept ones. */
static unsigned walked_rank(const struct cost *c, unsigned o) {
	const struct kernel *k = c->k;
	bool kept = k->operand[o].output && (k->root == KERNEL_REDUCE ||
		(k->root == KERNEL_ROWS && k->value[k->operand[o].value].space == KERNEL_SPACE_KEPT));

	return kept ? k->kept : k->rank;
}

static struct walk walk_of(const struct cost *c, unsigned o) {
	const struct kernel_operand *operand = &c->k->operand[o];
	const int64_t *stride = c->operand[o].stride;
	double size = dtype_info(operand->dtype)->bytes, touched = 1, reach = 1, step = INFINITY;
	unsigned rank = walked_rank(c, o);
	struct walk w = { .strided = operand->access == KERNEL_STRIDED };

	for (unsigned d = 0; d < rank; d++) {
		double s = fabs((double)stride[d]), n = (double)kernel_walked(c->k, o, d, c->dims, c->extent);

		if (s == 0 || n < 2)
			continue;
		touched *= n;
		reach += s * (n - 1);
		step = fmin(step, s);
	}
	w.accesses = rank == c->k->rank ? c->elements : c->outputs;
	if (operand->gathered) {
		w.strided = operand->access != KERNEL_CONTIGUOUS;
		w.bytes = w.accesses * size;
		return w;
	}
	touched = fmin(touched, fmin(reach, w.accesses));
	w.bytes = touched * (isfinite(step) ? fmin(step * size, fmax(size, COST_LINE)) : size);
	return w;
}

/* Reading and writing disturb each other: between what each takes alone and what a copy takes. */
static double moving_ns(const struct cost *c, double read, double written, double footprint) {
	double all = read + written, part = all > 0 ? written / all : 0;
	double copy = 1 / traffic_rate(c, RATE_COPY, footprint);

	if (part < 0.5)
		return all * ((1 - 2 * part) / traffic_rate(c, RATE_READ, footprint) + 2 * part * copy);
	return all * ((2 - 2 * part) * copy + (2 * part - 1) / traffic_rate(c, RATE_WRITE, footprint));
}

/* A product's factors are read again and again; that is part of what products were measured to take. */
static double again_ns(const struct cost *c, const struct walk *w, double size) {
	double ns = 0;

	if (kernel_inner_dims(c->k))
		return 0;
	/* What is turned in registers is reached once a vector. */
	if (w->strided)
		ns = w->accesses / (c->k->root == KERNEL_MAP && c->k->turned ? c->k->width : 1) * shared_ns(c, c->t->rates.strided_ns[RATE_ONE], c->t->rates.strided_ns[RATE_ALL]);
	else if (w->accesses * size > w->bytes)
		ns = (w->accesses * size - w->bytes) / traffic_rate(c, RATE_READ, w->bytes);
	return ns;
}

/* How often a kernel over rows walks them: once for each level of reductions, and for what follows the last. */
static unsigned walks_of(const struct kernel *k) {
	unsigned depth[KERNEL_VALUES], most = 0, last = 0;

	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *value = &k->value[v];

		depth[v] = 0;
		for (unsigned i = 0; i < kernel_value_args(value); i++)
			if (depth[value->arg[i]] > depth[v])
				depth[v] = depth[value->arg[i]];
		depth[v] += value->kind == KERNEL_REDUCED;
		most = depth[v] > most ? depth[v] : most;
	}
	for (unsigned o = 0; o < k->operands; o++)
		if (k->operand[o].output && k->value[k->operand[o].value].space == KERNEL_SPACE_ROW)
			last = depth[k->operand[o].value] + 1 > last ? depth[k->operand[o].value] + 1 : last;
	return most > last ? most : last;
}

/*
 * The walks of rows but for the first: of each unit, its row and what lies beside it in the lanes is still near.
 * In a GPU's local memory they cost no more than their arithmetic.
 */
static double walks_ns(const struct cost *c, double read) {
	double lanes = c->k->form == KERNEL_FORM_COLUMN ? c->t->width : 1;
	double near = fmin(c->outputs, fmax(c->t->units, 1) * lanes) / fmax(c->outputs, 1);
	unsigned walks = c->k->root == KERNEL_ROWS ? walks_of(c->k) : 1;

	if (c->t->strategy == STRATEGY_GPU && !c->k->long_rows && c->extent <= KERNEL_GROUP_ROW)
		return 0;
	return walks < 2 ? 0 : (walks - 1) * read / traffic_rate(c, RATE_READ, read * near);
}

static double memory_ns(const struct cost *c) {
	double moved[2] = { 0, 0 }, again = 0;

	for (unsigned o = 0; o < c->k->operands; o++) {
		const struct kernel_operand *operand = &c->k->operand[o];
		struct walk w;

		if (operand->iota || kernel_works_in(c->k, o))
			continue;
		w = walk_of(c, o);
		moved[operand->output] += w.bytes;
		if (operand->access != KERNEL_UNIFORM || operand->gathered)
			again += again_ns(c, &w, dtype_info(operand->dtype)->bytes);
	}
	return moving_ns(c, moved[0], moved[1], moved[0] + moved[1]) + again + walks_ns(c, moved[0]);
}

/* ---- arithmetic ---- */

static bool is_integer(uint8_t dtype) {
	return dtype_info(dtype)->kind != DTYPE_KIND_REAL;
}

/* Nobody knows what an administrator's body costs: it counts as a cheap operation. */
static struct weight weight_of(unsigned op, bool integer) {
	if (op >= OP_COUNT)
		return (struct weight){ RATE_CHEAP, 1 };
	return integer ? integer_weights[op] : weights[op];
}

/* An element of an operation on operands of type `from`, the last of them, with a result of type `to`. */
static double op_ns(const struct cost *c, unsigned op, uint8_t from, uint8_t to) {
	uint8_t dtype = op == OP_cast ? to : from;
	struct weight w = weight_of(op, is_integer(dtype));
	double ns = class_ns(c, dtype, w.times > 0 ? w.class : RATE_CHEAP) * (w.times > 0 ? (double)w.times : 1);

	if (dtype_info(to)->reg != to && dtype_info(to)->kind == DTYPE_KIND_REAL)
		ns += COST_ROUND * class_ns(c, to, RATE_CHEAP);
	return ns;
}

static double value_ns(const struct cost *c, const struct kernel_value *v) {
	unsigned last = op_info(v->op)->arity - 1u;

	return op_ns(c, v->op, c->k->value[v->arg[last]].dtype, v->dtype);
}

/* How often a value changes: with each element, with each row of the lanes, or never. */
enum change { CHANGE_NEVER, CHANGE_ROW, CHANGE_ELEMENT };

static enum change change_of(const struct cost *c, unsigned v, const uint8_t *change) {
	const struct kernel_value *value = &c->k->value[v];
	enum change most = CHANGE_NEVER;

	if (kernel_value_loads(value) && value->kind != KERNEL_IOTA)
		most = c->k->operand[value->index].access == KERNEL_UNIFORM ? CHANGE_ROW : CHANGE_ELEMENT;
	if (value->kind == KERNEL_IOTA || value->kind == KERNEL_ROOT_VALUE || value->kind == KERNEL_REDUCED)
		return CHANGE_ELEMENT;
	if (value->kind == KERNEL_SCALAR)
		return CHANGE_NEVER;
	for (unsigned i = 0; i < kernel_value_args(value); i++)
		most = change[value->arg[i]] > most ? change[value->arg[i]] : most;
	return most;
}

/* Elements that a vector's last lanes are filled up to, as a share of those there are. */
static double filled(const struct cost *c, unsigned dim) {
	double n = (double)c->dims[dim], width = c->k->root == KERNEL_MATMUL && c->k->vectors ? kernel_columns(c->k) : c->k->width;

	return n > 0 ? ceil(n / width) * width / n : 1;
}

/* Times a value is computed; one for a whole row takes as long as a vector. */
static double times_of(const struct cost *c, unsigned v, enum change change) {
	const struct kernel *k = c->k;
	unsigned last = k->rank - 1u;
	bool kept = k->root == KERNEL_ROWS ? k->value[v].space == KERNEL_SPACE_KEPT
					   : k->root == KERNEL_REDUCE && v >= k->root_value;

	if (change == CHANGE_NEVER || !k->rank)
		return 0;
	if (kept)
		return c->outputs * (k->form == KERNEL_FORM_COLUMN ? 1 : k->width);
	if (kernel_inner_dims(k))
		return c->outputs * filled(c, last - kernel_inner_dims(k));
	if (change == CHANGE_ROW)
		return c->elements / fmax((double)c->dims[last], 1) * k->width;
	return c->elements * (k->form == KERNEL_FORM_COLUMN ? 1 : filled(c, last));
}

/* One reduction: an operation an element, and the end of each row. */
static double reduction_ns(const struct cost *c, uint8_t dtype) {
	const struct rates *r = &c->t->rates;
	double row = fmax((double)c->extent, 1), cheap = class_ns(c, dtype, RATE_CHEAP);
	double tree = fmin(row, KERNEL_COLUMNS) * c->outputs * cheap;

	if (c->k->form == KERNEL_FORM_ROW || (c->k->form == KERNEL_FORM_GENERAL && c->t->strategy == STRATEGY_CPU))
		tree = c->outputs * shared_ns(c, r->row_ns[RATE_ONE], r->row_ns[RATE_ALL]);
	return c->elements * cheap + tree;
}

/*
 * A group computes a tile, at its edge as much as inside, and units that have none in the last round wait. Products were measured in
 * the largest tile of their type.
 */
static double tiles_ns(const struct cost *c, enum rate_float f) {
	const struct kernel *k = c->k;
	const struct kernel_tile_info *tile = &kernel_tiles[k->tile];
	const int64_t *m = &c->dims[k->rank - 3u];
	double units = fmax(c->t->units, 1), tiles = product_of(c->dims, 0, k->rank - 3u);
	double measured = kernel_tiles[f == RATE_F64 ? KERNEL_TILE_LARGE : KERNEL_TILE_HUGE].speed;
	double speed = tile->speed / measured * (kernel_tile_is_matrix(k->tile) ? COST_MATRICES : 1);

	tiles *= ceil((double)m[0] / tile->rows) * ceil((double)m[1] / tile->columns);
	return ceil(tiles / units) * units * tile->rows * tile->columns * (double)m[2] / speed * c->t->rates.product_ns[RATE_ALL][f];
}

/* Tiles at the edge do the work of whole ones. */
static double product_ns(const struct cost *c) {
	const struct rates *r = &c->t->rates;
	enum rate_float f = dtype_info(c->k->accumulator)->bytes == 8 ? RATE_F64 : RATE_F32;

	if (c->t->strategy == STRATEGY_GPU && c->k->root == KERNEL_MATMUL)
		return tiles_ns(c, f);

	return c->elements * filled(c, c->k->rank - 1u - kernel_inner_dims(c->k)) / (kernel_uses_matrices(c->k) ? COST_MATRICES_ATTENTION : 1) *
		shared_ns(c, r->product_ns[RATE_ONE][f], r->product_ns[RATE_ALL][f]);
}

/* What moves goes where nothing foresees: as dear as a walk across the rows. A merge moves each element once. */
static double sort_ns(const struct cost *c) {
	const struct kernel *k = c->k;
	const struct rates *r = &c->t->rates;
	double passes = 1;

	if (k->stage == KERNEL_STAGE_ROWS || k->stage == KERNEL_STAGE_BLOCKS)
		passes = c->t->strategy == STRATEGY_GPU ? COST_SORT_TILE : COST_SORT + dtype_info(k->accumulator)->bytes;
	return passes * c->elements * shared_ns(c, r->strided_ns[RATE_ONE], r->strided_ns[RATE_ALL]);
}

/* Of one index, of a unit that is alone. */
static double look_ns(const struct cost *c) {
	const struct rates *r = &c->t->rates;

	if (c->t->strategy == STRATEGY_GPU)
		return COST_LOOK_BYTES * c->t->local_size / r->memory[RATE_ONE][RATE_READ][0];
	return COST_LOOK * c->t->width * r->op_ns[RATE_ONE][RATE_F32][RATE_CHEAP];
}

/*
 * Every unit looks at all indices, one after the other, whatever falls into its piece (emit/scatter.c, and geometry.c of how many pieces
 * there are); each update reads and writes what nothing foresees.
 */
static double scatter_ns(const struct cost *c) {
	const struct kernel *k = c->k;
	const struct rates *r = &c->t->rates;
	double lanes = k->kept ? (double)c->dims[k->kept - 1] : 1, rows = k->kept ? product_of(c->dims, 0, k->kept - 1u) : 1;
	double strip = c->t->strategy == STRATEGY_GPU ? 1 : KERNEL_SCATTER_LANES, units = rows * ceil(lanes / strip), wanted = fmax(c->t->units, 1);
	double pieces;

	if (c->t->strategy == STRATEGY_GPU)
		wanted *= c->t->local_size * KERNEL_SCATTER_GROUPS;
	pieces = fmax(fmin(ceil(wanted / fmax(units, 1)), (double)c->dims[k->rank - 1u]), 1);
	return ceil(units * pieces / wanted) * fmin(lanes, strip) * (double)c->extent * look_ns(c) +
		2 * rows * lanes * (double)c->extent * shared_ns(c, r->strided_ns[RATE_ONE], r->strided_ns[RATE_ALL]);
}

static double arithmetic_ns(const struct cost *c);

/* Rows before a product or after it, as the kernel that they are, over dims without one of the product's. */
static double rows_ns(const struct cost *c, const struct kernel *rows, unsigned without) {
	struct cost b = *c;
	int64_t dims[KERNEL_RANK];

	memcpy(dims, c->dims, sizeof dims);
	dims[without] = 1;
	b.k = rows;
	b.dims = dims;
	b.extent = (uint64_t)dims[rows->rank - 1u];
	b.elements = iteration(&b);
	b.outputs = outputs_of(&b);
	return arithmetic_ns(&b);
}

static double product_ns(const struct cost *c);

/* The product that rows before another are made of. */
static double scores_ns(const struct cost *c) {
	const struct kernel *k = c->k;
	struct cost s = *c;
	int64_t dims[KERNEL_RANK];

	if (!k->scored)
		return 0;
	memcpy(dims, c->dims, sizeof dims);
	dims[k->rank - 2u] = c->dims[k->rank - 1u];
	dims[k->rank - 1u] = kernel_scores_depth(k, c->operand[SCORES_RIGHT].stride[k->rank - 1u]);
	s.dims = dims;
	s.elements = iteration(&s);
	return product_ns(&s);
}

static double before_ns(const struct cost *c) {
	struct kernel rows;

	if (!kernel_computes_factor(c->k))
		return 0;
	kernel_before(c->k, &rows);
	return rows_ns(c, &rows, rows.rank - 2u) + scores_ns(c);
}

static double after_ns(const struct cost *c) {
	struct kernel rows;

	if (!kernel_keeps_rows(c->k))
		return 0;
	kernel_after(c->k, &rows);
	return rows_ns(c, &rows, rows.rank);
}

static double arithmetic_ns(const struct cost *c) {
	const struct kernel *k = c->k;
	uint8_t change[KERNEL_VALUES];
	double ns = before_ns(c) + after_ns(c);
	unsigned end = kernel_keeps_rows(k) ? k->root_value : k->values;

	for (unsigned v = kernel_computes_factor(k) ? k->root_value : 0; v < end; v++) {
		change[v] = (uint8_t)change_of(c, v, change);
		if (k->value[v].kind == KERNEL_OP)
			ns += times_of(c, v, change[v]) * value_ns(c, &k->value[v]);
		else if (k->value[v].kind == KERNEL_REDUCED)
			ns += reduction_ns(c, k->value[v].dtype);
	}
	if (k->root == KERNEL_REDUCE)
		ns += reduction_ns(c, k->accumulator);
	if (k->root == KERNEL_SORT)
		ns += sort_ns(c);
	if (k->root == KERNEL_SCATTER)
		ns += scatter_ns(c);
	if (k->root == KERNEL_SCAN)
		ns += COST_SCAN * c->elements * class_ns(c, k->accumulator, RATE_CHEAP);
	if (kernel_inner_dims(k))
		ns += product_ns(c);
	if (k->root == KERNEL_ATTENTION)
		ns += scores_of(c) * class_ns(c, k->accumulator, RATE_EXP) / (k->steps ? COST_MATRIX_EXP : 1);
	return ns;
}

static void estimate_step(struct plan_step *s, const struct traits *t) {
	struct cost c = { .k = s->kernel, .dims = s->dims, .operand = s->operand, .t = t, .extent = s->extent };
	struct traits guess;

	if (!(t->rates.launch_ns > 0)) {
		guess = *t;
		guess.rates = *rates_typical(t->strategy);
		c.t = &guess;
	}
	c.elements = iteration(&c);
	c.outputs = outputs_of(&c);
	c.spread = spread_of(&c);
	s->memory_ns = memory_ns(&c);
	s->arithmetic_ns = arithmetic_ns(&c);
	s->estimate_ns = rates_kernel_ns(&c.t->rates) + fmax(s->memory_ns, s->arithmetic_ns);
}

/* ---- before there is a kernel ---- */

/* An elementwise kernel of so many elements, of which only that is known. */
static struct cost cost_of_elements(const struct traits *t, double elements) {
	static const struct kernel plain = { .root = KERNEL_MAP };
	struct cost c = { .k = &plain, .t = t, .elements = elements };

	c.outputs = elements;
	c.spread = spread_of(&c);
	return c;
}

double cost_bytes(const struct traits *t, double bytes, double footprint) {
	struct cost c = cost_of_elements(t, bytes / sizeof(float));

	return bytes / traffic_rate(&c, RATE_COPY, footprint);
}

double cost_op(const struct traits *t, unsigned op, uint8_t from, uint8_t to, double elements) {
	struct cost c = cost_of_elements(t, elements);

	return elements * op_ns(&c, op, from, to);
}

double cost_map(const struct traits *t, double elements, double read, double written, double footprint,
	double arithmetic) {
	struct cost c = cost_of_elements(t, elements);

	return rates_kernel_ns(&t->rates) + fmax(moving_ns(&c, read, written, footprint), arithmetic);
}

void plan_estimate(struct plan *p, const struct traits *t) {
	for (uint32_t i = 0; i < p->steps; i++)
		estimate_step(&p->step[i], t);
}

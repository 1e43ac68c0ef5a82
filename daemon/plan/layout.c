/*
 * Dims of a kernel: fewer is faster, and lets more calls share one program.
 *
 * Dims stand in groups that may not mix: a map's all in one; a reduction's, rows' and a scan's kept ones, then its
 * reduced ones; a product's and attention's batch dims, then each other one by one. Inside a group extents of 1
 * vanish, and neighbours merge where every operand steps evenly over both.
 */
#include "planner.h"

#include <math.h>
#include <string.h>

enum {
	/* Arrays are far, or go past the caches by strips, from this part of the size on at which maps store past them. */
	FAR_PARTS = 4,
};

static bool has_rows(const struct kernel *k) {
	return k->root == KERNEL_REDUCE || k->root == KERNEL_ROWS || k->root == KERNEL_SCAN ||
		k->root == KERNEL_SCATTER || k->root == KERNEL_SORT;
}

/* The first dim of each group that dim d may merge into: equal for dims of one group. */
static unsigned dim_group(const struct kernel *k, unsigned d) {
	if (has_rows(k))
		return d >= k->kept;
	return d + kernel_own_dims(k) >= k->rank ? d + kernel_own_dims(k) - k->rank + 1 : 0;
}

static bool dim_is_fixed(const struct kernel *k, unsigned d) {
	/* The updates of a scatter step along it, whatever the extent of the result. */
	if (k->root == KERNEL_SCATTER)
		return d + 1 == k->rank;
	return d + kernel_own_dims(k) >= k->rank;
}

static void dim_remove(struct draft *d, unsigned dim) {
	struct kernel *k = &d->kernel;

	memmove(&d->dims[dim], &d->dims[dim + 1], (k->rank - dim - 1u) * sizeof *d->dims);
	for (unsigned i = 0; i < k->operands; i++)
		memmove(&d->operand[i].stride[dim], &d->operand[i].stride[dim + 1],
			(k->rank - dim - 1u) * sizeof *d->operand[i].stride);
	k->kept -= has_rows(k) && dim < k->kept;
	k->rank--;
}

static bool dims_even(const struct draft *d, unsigned dim) {
	for (unsigned i = 0; i < d->kernel.operands; i++) {
		const int64_t *s = &d->operand[i].stride[dim];

		if (s[0] != s[1] * d->dims[dim + 1])
			return false;
	}
	return true;
}

/* Inserts an extent-1 dim where a form needs one and none is left. */
static void dim_insert(struct draft *d, unsigned dim) {
	struct kernel *k = &d->kernel;

	memmove(&d->dims[dim + 1], &d->dims[dim], (k->rank - dim) * sizeof *d->dims);
	d->dims[dim] = 1;
	for (unsigned i = 0; i < k->operands; i++) {
		int64_t *s = d->operand[i].stride;

		memmove(&s[dim + 1], &s[dim], (k->rank - dim) * sizeof *s);
		s[dim] = 0;
	}
	k->rank++;
}

/* Do all operands but the second factor step evenly over the last batch dim and M, and that one not at all? */
static bool batch_folds(const struct draft *d, unsigned m) {
	for (unsigned i = 0; i < d->kernel.operands; i++) {
		const int64_t *s = &d->operand[i].stride[m - 1];

		if (i == 1 ? s[0] != 0 : d->dims[m] != 1 && s[0] != s[1] * d->dims[m])
			return false;
	}
	return true;
}

/* A batch of products with one second factor is one product of more rows. */
static void fold_batches(struct draft *d) {
	struct kernel *k = &d->kernel;

	while (k->root == KERNEL_MATMUL && k->rank > 3 && batch_folds(d, k->rank - 3U)) {
		unsigned m = k->rank - 3U;

		/* Along an extent of 1 an operand may step in any way; the second factor's step is from panel to panel. */
		for (unsigned i = 0; i < k->operands; i++)
			if (i != 1 && d->dims[m] == 1)
				d->operand[i].stride[m] = d->operand[i].stride[m - 1];
		d->dims[m] *= d->dims[m - 1];
		dim_remove(d, m - 1);
	}
}

void draft_collapse(struct draft *d) {
	struct kernel *k = &d->kernel;

	for (unsigned i = k->rank; i-- > 0;)
		if (d->dims[i] == 1 && !dim_is_fixed(k, i))
			dim_remove(d, i);
	for (unsigned i = k->rank; i-- > 1;) {
		if (dim_group(k, i) != dim_group(k, i - 1) || dim_is_fixed(k, i) || !dims_even(d, i - 1))
			continue;
		for (unsigned o = 0; o < k->operands; o++)
			d->operand[o].stride[i - 1] = d->operand[o].stride[i];
		d->dims[i - 1] *= d->dims[i];
		memmove(&d->dims[i], &d->dims[i + 1], (k->rank - i - 1u) * sizeof *d->dims);
		for (unsigned o = 0; o < k->operands; o++)
			memmove(&d->operand[o].stride[i], &d->operand[o].stride[i + 1],
				(k->rank - i - 1u) * sizeof *d->operand[o].stride);
		k->kept -= has_rows(k) && i < k->kept;
		k->rank--;
	}
	fold_batches(d);
	if (k->root == KERNEL_MAP && !k->rank)
		dim_insert(d, 0);
	if (has_rows(k) && k->rank == k->kept)
		dim_insert(d, k->rank);
}

static bool is_loaded(const struct kernel_value *v, unsigned operand) {
	return kernel_value_loads(v) && v->index == operand;
}

/* Is an operand touched once an element of a row? REDUCE: every load of the prologue and no other. */
static bool is_of_row(const struct kernel *k, unsigned operand) {
	if (k->root == KERNEL_ROWS && k->operand[operand].output)
		return k->value[k->operand[operand].value].space == KERNEL_SPACE_ROW;
	for (unsigned v = 0; v < k->values; v++) {
		if (k->root == KERNEL_REDUCE && v >= k->root_value)
			return false;
		if (is_loaded(&k->value[v], operand))
			return k->root != KERNEL_ROWS || k->value[v].space == KERNEL_SPACE_ROW;
	}
	return false;
}

static void swap_dims(int64_t *dims, unsigned a, unsigned b) {
	int64_t kept = dims[a];

	dims[a] = dims[b];
	dims[b] = kept;
}

enum {
	/* A column reduction pays where neighbours in memory are neighbours among the kept. */
	COLUMN_MINIMUM = 8,
	/* ... and where rows are so short, on a CPU: softmax of 2, 8 and 16 takes 0.2, 0.75 and 1.4 times as long then. */
	COLUMN_SHORT = 8,

};

/* Elements of an operand, each counted once however often it is broadcast. */
static uint64_t operand_elements(const struct draft *d, unsigned operand) {
	uint64_t n = 1;

	for (unsigned i = 0; i < d->kernel.rank; i++)
		if (d->operand[operand].stride[i])
			n *= (uint64_t)d->dims[i];
	return n;
}

/* How much of what a row touches lies along a dim: such as the weights of a norm, it counts by its size. */
static uint64_t elements_along(const struct draft *d, unsigned dim) {
	const struct kernel *k = &d->kernel;
	uint64_t n = 0;

	for (unsigned i = 0; i < k->operands; i++)
		if (is_of_row(k, i) && d->operand[i].stride[dim] == 1)
			n += operand_elements(d, i);
	return n;
}

static bool columns_pay(const struct draft *d) {
	const struct kernel *k = &d->kernel;

	if (!k->kept || d->dims[k->kept - 1] < COLUMN_MINIMUM)
		return false;
	return elements_along(d, k->kept - 1u) > elements_along(d, k->rank - 1u);
}

/* Runs of a few elements fill no vector; then even rows that jump are better across the lanes. */
static bool runs_are_short(const struct draft *d) {
	const struct kernel *k = &d->kernel;

	return k->kept && d->dims[k->rank - 1] < COLUMN_MINIMUM && d->dims[k->kept - 1] >= COLUMN_MINIMUM;
}

/*
 * A row of so few elements leaves most lanes of a vector idle, and its tree and its end cost more than they do: then as many rows
 * as there are lanes are better walked together, although each lane reads from a place of its own.
 */
static bool rows_are_short(const struct draft *d) {
	const struct kernel *k = &d->kernel;

	return (k->root == KERNEL_REDUCE || k->root == KERNEL_ROWS) && k->kept && k->rank - k->kept == 1 && k->width > 1 &&
		d->dims[k->rank - 1] <= COLUMN_SHORT && d->dims[k->kept - 1] >= k->width;
}

/* The order of the kept dims is nobody's business: the one that most lies along comes last. */
static void order_kept(struct draft *d) {
	struct kernel *k = &d->kernel;
	unsigned best, last = k->kept - 1u;

	if ((k->root != KERNEL_REDUCE && k->root != KERNEL_ROWS) || k->kept < 2 || k->block_dim < k->kept)
		return;
	best = last;
	for (unsigned dim = 0; dim < last; dim++)
		if (d->dims[dim] >= COLUMN_MINIMUM && elements_along(d, dim) > elements_along(d, best))
			best = dim;
	if (best == last)
		return;
	swap_dims(d->dims, best, last);
	for (unsigned i = 0; i < k->operands; i++)
		swap_dims(d->operand[i].stride, best, last);
}

static unsigned lane_dim(const struct kernel *k) {
	if (kernel_inner_dims(k))
		return k->rank - kernel_inner_dims(k) - (k->turned ? 2u : 1u);
	if (k->form == KERNEL_FORM_COLUMN)
		return k->kept - 1u;
	return k->rank - 1u;
}

static uint8_t access_of(int64_t stride) {
	return stride == 1 ? KERNEL_CONTIGUOUS : stride ? KERNEL_STRIDED : KERNEL_UNIFORM;
}

/* What fills the last tile best; the widest where that makes no great difference, since it reads the first factor least. */
uint8_t tile_vectors(uint8_t width, uint8_t accumulator, int64_t n) {
	int64_t most = kernel_most_vectors(width, accumulator), best = most, vectors = (n + width - 1) / width;

	if (vectors <= most)
		return vectors ? (uint8_t)vectors : 1;
	for (int64_t v = most; v > most / 2; v--)
		if ((vectors + v - 1) / v * v * 20 < (vectors + best - 1) / best * best * 19)
			best = v;
	return (uint8_t)best;
}

/* As many as a tile may have, or fewer where that wastes less of few rows. */
static uint8_t tile_rows(const struct kernel *k, int64_t m) {
	int64_t most = kernel_most_rows(k->width, k->accumulator, k->vectors);

	if (m > KERNEL_STRIP_ROWS)
		return (uint8_t)most;
	if (m <= 2)
		return (uint8_t)(m > 1 ? m : 1);
	return (m + 3) / 4 * 4 < (m + most - 1) / most * most ? 4 : (uint8_t)most;
}

bool tile_turns(uint8_t width, int64_t m, int64_t n, int64_t step_m, int64_t step_k) {
	return width > 1 && n <= KERNEL_TURNED && m >= width && (step_m == 1 || step_k == 1);
}

/* Rows of B are read in strips where they come from memory, for few rows of A, each once. */
enum { STRIP_BYTES = 256 << 10 };

enum {
	/*
	 * A second level of cache, and the steps of K between which a tile saves its sums. Lines of a first factor that lies along M, one a
	 * step, are too many for the sets that they share where their distance's largest power of two, times their number, is as much.
	 */
	LINES_CACHE = 1 << 20,
	LINES_DEPTH = 512,
	/* Fewer stay in the first one, whatever their distance. */
	LINES_LEAST = 256,
};

static bool lines_meet(const struct draft *d, const int64_t *dims, const int64_t *stride) {
	const struct kernel *k = &d->kernel;
	const struct dtype_info *by = dtype_info(k->accumulator);
	int64_t apart = stride[2] * by->bytes, deep = dims[2] < LINES_DEPTH ? dims[2] : LINES_DEPTH;

	if (k->small || k->strips || k->scored || k->operand[0].output || k->operand[0].iota)
		return false;
	if (k->operand[0].dtype != k->accumulator || by->kind != DTYPE_KIND_REAL || dims[0] < k->width)
		return false;
	return stride[0] == 1 && stride[2] > 1 && deep >= LINES_LEAST && (apart & -apart) * deep >= LINES_CACHE;
}

static void choose_tile(struct draft *d) {
	struct kernel *k = &d->kernel;
	const int64_t *dims = &d->dims[k->rank - 3u], *a = &d->operand[0].stride[k->rank - 3u];
	uint64_t bytes = (uint64_t)dims[1] * (uint64_t)dims[2] * dtype_info(k->operand[1].dtype)->bytes;

	k->lined = false;
	k->turned = !k->packed && !k->carry && !k->scored && tile_turns(k->width, dims[0], dims[1], a[0], a[2]);
	if (k->turned) {
		k->vectors = 1;
		k->rows = dims[1] > 4 ? KERNEL_TURNED : dims[1] > 2 ? 4 : dims[1] > 1 ? 2 : 1;
		return;
	}
	k->vectors = tile_vectors(k->width, k->accumulator, dims[1]);
	k->strips = !k->packed && !k->carry && !k->scored && dims[0] <= KERNEL_STRIP_ROWS && bytes > STRIP_BYTES;
	k->rows = tile_rows(k, dims[0]);
	k->small = !k->strips && !k->carry && dims[0] <= KERNEL_SMALL && dims[1] <= KERNEL_SMALL && dims[2] <= KERNEL_SMALL;
	k->lined = lines_meet(d, dims, a);
}

/* Places of a tile, of as many channels as a panel: fewer than may be where that fills the last one better. */
static void choose_places(struct draft *d) {
	struct kernel *k = &d->kernel;
	int64_t places = minimal_tiles(k, d->extent), most, best;

	k->vectors = tile_vectors(k->width, k->accumulator, d->dims[CONV_CO] / d->dims[CONV_GROUP]);
	most = best = kernel_most_rows(k->width, k->accumulator, k->vectors);
	for (int64_t n = most - 1; n > most / 2; n--)
		if ((places + n - 1) / n * n * 20 < (places + best - 1) / best * best * 19)
			best = n;
	k->rows = (uint8_t)(places < best ? places : best);
}

int64_t even_piece(int64_t extent, int64_t most) {
	int64_t pieces = (extent + most - 1) / most;

	return (extent + pieces - 1) / pieces;
}

/* One channel of the input a group: lines first, vectors of them where these are few. */
static void choose_lines(struct draft *d) {
	struct kernel *k = &d->kernel;
	int64_t most = ((int64_t)(d->extent & 0xffff) + k->width - 1) / k->width, vectors;

	k->rows = (uint8_t)even_piece((int64_t)(d->extent >> 16), KERNEL_ALONE);
	vectors = KERNEL_ALONE / k->rows;
	k->vectors = (uint8_t)(vectors < most ? vectors : most);
}

/* ---- tiles of the GPU strategy ---- */

/* A double: all tiles together may have room for more outputs than there can be. */
static double tiles_of(const struct draft *d, unsigned tile) {
	const int64_t *m = &d->dims[d->kernel.rank - 3u];
	double n = ceil((double)m[0] / kernel_tiles[tile].rows) * ceil((double)m[1] / kernel_tiles[tile].columns);

	for (const int64_t *batch = d->dims; batch < m; batch++)
		n *= (double)*batch;
	return n;
}

/* What the unit with the most tiles does, of outputs, whether they are there or not. */
static double tiles_time(const struct draft *d, const struct traits *t, unsigned tile) {
	double rounds = ceil(tiles_of(d, tile) / (t->units ? t->units : 1));

	return rounds * kernel_tiles[tile].rows * kernel_tiles[tile].columns / kernel_tiles[tile].speed;
}

static void choose_group_tile(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;
	unsigned tile = kernel_tile_largest(k, t), next;

	k->tile = (uint8_t)tile;
	while ((next = kernel_tiles[tile].smaller) != tile) {
		tile = next;
		if (tiles_time(d, t, tile) < tiles_time(d, t, k->tile))
			k->tile = (uint8_t)tile;
	}
	k->width = kernel_tiles[k->tile].lanes;
}

/* What a tile has to do, of channels and places, as above. */
static double conv_tiles_time(const struct draft *d, const struct traits *t, unsigned tile) {
	double places = (double)d->dims[CONV_N] * (double)d->dims[CONV_OH] * (double)d->dims[CONV_OW];
	double each = (double)d->dims[CONV_CO] / (double)d->dims[CONV_GROUP];
	double n = ceil(each / kernel_tiles[tile].rows) * ceil(places / kernel_tiles[tile].columns) * (double)d->dims[CONV_GROUP];

	return ceil(n / (t->units ? t->units : 1)) * kernel_tiles[tile].rows * kernel_tiles[tile].columns / kernel_tiles[tile].speed;
}

static void choose_conv_tile(struct draft *d, const struct traits *t) {
	static const uint8_t tiles[] = { KERNEL_TILE_DEEP, KERNEL_TILE_MEDIUM, KERNEL_TILE_LARGE };
	struct kernel *k = &d->kernel;

	k->tile = KERNEL_TILE_TINY;
	for (unsigned i = 0; i < sizeof tiles; i++)
		if (kernel_tile_items(tiles[i]) <= t->local_size && conv_tiles_time(d, t, tiles[i]) <= conv_tiles_time(d, t, k->tile))
			k->tile = tiles[i];
}

enum {
	/* What a group of so many queries reads of keys and values costs it about as much as so many queries more. */
	ATTENTION_READS = 16,
	/* Local memory that the most queries take, of any type; half as many stay within 32 KiB, the least that OpenCL 1.2 asks for. */
	ATTENTION_LOCAL_BYTES = 48 << 10,
};

/* Queries of a group by instructions on matrices: twice as many share their keys where registers hold them and there are groups for all units. */
static void choose_matrix_queries(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;
	const int64_t *dims = &d->dims[k->rank - 4u];
	int64_t columns = dims[1] > 0 ? dims[1] : 1, groups = (columns + KERNEL_ATTENTION_WIDE - 1) / KERNEL_ATTENTION_WIDE;
	double batch = (double)groups;

	for (const int64_t *b = d->dims; b < dims; b++)
		batch *= (double)*b;
	k->steps = (uint8_t)((dims[3] + 15) / 16);
	k->wide = (uint8_t)(((columns + groups - 1) / groups + 15) / 16);
	k->width = kernel_tiles[KERNEL_TILE_MATRIX_MEDIUM].lanes;
	k->rows = KERNEL_ATTENTION_MOST;
	if (kernel_attention_blocks(k) < 2 || batch * ceil((double)dims[0] / k->rows) < t->units)
		k->rows = KERNEL_ATTENTION_MOST / 2;
}

/* As many queries a group as there are groups enough for all units. */
static void choose_queries(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;
	const int64_t *dims = &d->dims[k->rank - 4u];
	double batch, least = INFINITY;

	/* Twice the columns in one go where they are: the scores are computed once for all. Those of 8 bytes have no room. */
	k->vectors = dims[1] > KERNEL_ATTENTION_BLOCK && dtype_info(k->accumulator)->bytes < 8 ? 2 : 1;
	batch = ceil((double)dims[1] / (KERNEL_ATTENTION_BLOCK * k->vectors));
	for (const int64_t *b = d->dims; b < dims; b++)
		batch *= (double)*b;
	for (unsigned rows = KERNEL_ATTENTION_BLOCK; rows >= KERNEL_ATTENTION_ROWS; rows /= 2) {
		bool fits = rows < KERNEL_ATTENTION_BLOCK || t->local_bytes >= ATTENTION_LOCAL_BYTES;
		double time = ceil(batch * ceil((double)dims[0] / rows) / (t->units ? t->units : 1)) * (rows + ATTENTION_READS);

		if (!fits || rows * KERNEL_ATTENTION_ITEMS > t->local_size || time >= least)
			continue;
		k->rows = (uint8_t)rows;
		least = time;
	}
}

/* ---- transposed inputs of maps ---- */

/* Inputs that are turned: each keeps as many vectors as a block has rows. */
enum { TURNED_INPUTS = 4 };

/* May it be read down the rows along this dim and turned in registers, whose elements are words there? */
static bool turns_along(const struct draft *d, unsigned operand, unsigned dim) {
	uint8_t reg = dtype_info(d->kernel.operand[operand].dtype)->reg;

	return d->operand[operand].stride[dim] == 1 && dtype_info(reg)->bytes == 4;
}

/* The dim along which all strided inputs of a map are contiguous, blocks of both dims being whole, or the rank. */
static unsigned turned_dim(const struct draft *d) {
	const struct kernel *k = &d->kernel;
	unsigned lanes = k->rank - 1u, best = k->rank, count = 0;

	if (k->rank < 2 || d->dims[lanes] < k->width)
		return k->rank;
	for (unsigned o = 0; o < k->operands; o++) {
		const struct kernel_operand *p = &k->operand[o];
		int64_t step = d->operand[o].stride[lanes];

		if (p->gathered)
			return k->rank;
		if (p->iota || step == 0 || step == 1)
			continue;
		for (unsigned dim = 0; !count && dim < lanes; dim++)
			if (d->dims[dim] >= k->width && turns_along(d, o, dim))
				best = dim;
		if (p->output || best == k->rank || !turns_along(d, o, best) || ++count > TURNED_INPUTS)
			return k->rank;
	}
	return best;
}

/* The order of a map's dims is nobody's business, but for the lanes. */
static void choose_turned(struct draft *d) {
	struct kernel *k = &d->kernel;
	unsigned dim = turned_dim(d), rows = k->rank - 2u;

	k->turned = dim < k->rank;
	if (!k->turned)
		return;
	swap_dims(d->dims, dim, rows);
	for (unsigned o = 0; o < k->operands; o++)
		swap_dims(d->operand[o].stride, dim, rows);
}

static void choose_form(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;

	k->width = t->width;
	k->form = KERNEL_FORM_PLAIN;
	if (k->root == KERNEL_MATMUL && t->strategy == STRATEGY_CPU)
		choose_tile(d);
	else if (k->root == KERNEL_MATMUL)
		choose_group_tile(d, t);
	if (k->root == KERNEL_MAP && t->strategy == STRATEGY_CPU && k->width > 1)
		choose_turned(d);
	if (k->root == KERNEL_ATTENTION && t->strategy == STRATEGY_GPU)
		kernel_attends_matrices(k, t, d->dims[k->rank - 1u]) ? choose_matrix_queries(d, t) : choose_queries(d, t);
	if (k->root == KERNEL_CONV && t->strategy == STRATEGY_GPU) {
		k->width = 1;
		choose_conv_tile(d, t);
		return;
	}
	if (k->root == KERNEL_CONV && k->packed)
		choose_places(d);
	if (k->root == KERNEL_CONV && k->alone)
		choose_lines(d);
	if (!has_rows(k))
		return;
	if (k->root == KERNEL_SCATTER) {
		k->width = 1;
		return;
	}
	k->form = KERNEL_FORM_ROW;
	if (k->root == KERNEL_SORT) {
		k->width = k->stage == KERNEL_STAGE_ROWS || k->stage == KERNEL_STAGE_BLOCKS ? t->width : 1;
		return;
	}
	if (columns_pay(d) && (k->root != KERNEL_SCAN || k->rank - k->kept == 1))
		k->form = KERNEL_FORM_COLUMN;
	else if (t->strategy == STRATEGY_CPU && rows_are_short(d))
		k->form = KERNEL_FORM_COLUMN;
	else if (k->rank - k->kept > 1)
		k->form = t->strategy == STRATEGY_CPU && runs_are_short(d) ? KERNEL_FORM_COLUMN : KERNEL_FORM_GENERAL;
	/* A vector along the scanned dim must be a group of the rule, or its lanes go one by one. */
	if ((k->form == KERNEL_FORM_GENERAL && t->strategy == STRATEGY_GPU) ||
		(k->root == KERNEL_SCAN && k->form == KERNEL_FORM_ROW && k->width != KERNEL_GROUP))
		k->width = 1;
}

/* Outputs as large as the iteration. */
static bool may_stream(const struct kernel *k, unsigned output) {
	return k->root == KERNEL_MAP || (k->root == KERNEL_ROWS && is_of_row(k, output));
}

/*
 * On a GPU the lanes of a group lie side by side; where every operand is contiguous or the same for
 * all, each lane takes a vector.
 */

static bool vector_pays(const struct kernel *k) {
	bool contiguous = false;

	for (unsigned i = 0; i < k->operands; i++) {
		if (k->operand[i].access == KERNEL_STRIDED)
			return false;
		contiguous |= !k->operand[i].iota && k->operand[i].access == KERNEL_CONTIGUOUS;
	}
	for (unsigned v = 0; v < k->values; v++)
		if (kernel_value_gathers(&k->value[v]))
			return false;
	return k->root == KERNEL_MAP && contiguous;
}

/* Do whole vectors of an operand lie alike at all places? */
static bool steps_whole(const struct draft *d, unsigned operand) {
	const struct kernel *k = &d->kernel;

	for (unsigned i = 0; i < k->rank; i++)
		if (i != lane_dim(k) && d->operand[operand].stride[i] % k->width)
			return false;
	return true;
}

/*
 * Is an output better stored past the caches? A strip of columns is walked pass by pass before the next one begins, so that
 * what is stored of it pushes out what is still to be read; but one where few vectors are aligned better waits there.
 */
static bool is_streamed(const struct draft *d, unsigned operand, const struct traits *t) {
	const struct kernel *k = &d->kernel;
	const struct kernel_operand *o = &k->operand[operand];
	uint64_t bytes = draft_elements(d) * dtype_info(o->dtype)->bytes;

	if (!o->output || !may_stream(k, operand) || !t->stream_bytes || o->access != KERNEL_CONTIGUOUS)
		return false;
	if (k->root == KERNEL_ROWS && k->form == KERNEL_FORM_COLUMN && steps_whole(d, operand))
		return bytes >= t->stream_bytes / FAR_PARTS;
	return bytes >= t->stream_bytes;
}

/*
 * Is an array that is read along the lanes so large that little of it is in the caches of a compute unit? Where rows lie along the
 * lanes a device foresees what is read, and stores keep it busy meanwhile: asking pays only where rows are reduced, and no more.
 */
static bool reads_far(const struct draft *d, const struct traits *t) {
	const struct kernel *k = &d->kernel;
	uint64_t elements = draft_elements(d), least = t->stream_bytes / FAR_PARTS;

	if (k->root != KERNEL_ROWS || k->form == KERNEL_FORM_GENERAL || t->strategy != STRATEGY_CPU || !least)
		return false;
	for (unsigned i = 0; i < k->operands; i++)
		if (k->form == KERNEL_FORM_ROW && k->operand[i].output && is_of_row(k, i))
			return false;
	for (unsigned i = 0; i < k->operands; i++)
		if (!k->operand[i].output && k->operand[i].access == KERNEL_CONTIGUOUS && !k->operand[i].iota &&
			elements * dtype_info(k->operand[i].dtype)->bytes >= least)
			return true;
	return false;
}

void draft_access(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;

	for (unsigned i = 0; i < k->operands; i++) {
		struct kernel_operand *o = &k->operand[i];
		bool rows = k->form == KERNEL_FORM_ROW || k->form == KERNEL_FORM_GENERAL;
		bool one = (k->form == KERNEL_FORM_GENERAL && t->strategy == STRATEGY_GPU) ||
			(k->root != KERNEL_SCAN && k->root != KERNEL_SORT && rows && !is_of_row(k, i));

		if (kernel_loads_before(k, i)) {
			o->access = access_of(d->operand[i].stride[k->rank - 1u]);
			o->stream = false;
			continue;
		}
		o->access = one ? KERNEL_UNIFORM : access_of(d->operand[i].stride[lane_dim(k)]);
		/* What matters of the first factor is how it steps along K. */
		if (k->root == KERNEL_MATMUL && i == 0 && !k->turned)
			o->access = d->operand[i].stride[k->rank - 1u] == 1 ? KERNEL_CONTIGUOUS : KERNEL_UNIFORM;
		/* One column lies however it steps; what is read beyond it is not used. */
		if (k->root == KERNEL_MATMUL && i == 1 && d->dims[k->rank - 2u] == 1 && !k->turned)
			o->access = KERNEL_CONTIGUOUS;
		o->stream = is_streamed(d, i, t);
	}
	k->far = reads_far(d, t);
}

void draft_finish(struct draft *d, const struct traits *t) {
	struct kernel *k = &d->kernel;

	order_kept(d);
	choose_form(d, t);
	draft_access(d, t);
	if (t->strategy == STRATEGY_GPU && vector_pays(k))
		k->width = KERNEL_GPU_VECTOR;
}

uint64_t draft_elements(const struct draft *d) {
	unsigned rank = d->kernel.root == KERNEL_CONV ? CONV_IH : d->kernel.rank;
	uint64_t n = 1;

	/* More than 64 bits count is much, not nothing: each extent is below them, but not all that a product sums. */
	for (unsigned i = 0; i < rank; i++)
		if (!d->dims[i])
			return 0;
	for (unsigned i = 0; i < rank; i++)
		if (__builtin_mul_overflow(n, (uint64_t)d->dims[i], &n))
			return UINT64_MAX;
	return n;
}

/*
 * A kernel, as plan hands it to emit: canonical, without sizes, addresses or scalar values.
 *
 * Two steps with equal kernels share one program, so everything that varies from call to call
 * (extents, strides, addresses, scalars) stands in a task record instead. Every kernel has the
 * signature
 *
 *     kernel void fused(global const ulong *records, ulong first, global uchar *pool0, ... poolN-1)
 *
 * and behind that, where kernel_own_words(), a structure of as many words, which is the record of the only task where `first` is KERNEL_OWN,
 * One launch runs get_global_size(1) tasks: task t reads the kernel_record_words() words at
 * records + first + t * words. `first` lets every launch share one ring of records, so that a launch
 * sets only this one argument. A work-item whose number is not below the task's KERNEL_WORD_ITEMS
 * does nothing; a record of zeros is a task without work (programs are warmed up with one).
 * Dimension 0 counts work-items (CPU) or work-items of whole groups (GPU).
 *
 * A kernel iterates over `rank` dimensions, collapsed by the planner, the last varying fastest:
 *   MAP     rank dims; every value is computed once an element
 *   REDUCE  `kept` dims, then rank - kept reduced ones; values before the root are computed over
 *           all dims, the root and later ones over the kept dims
 *   ROWS    `kept` dims, then those of a row. Values of KERNEL_SPACE_ROW are computed over all dims,
 *           those of KERNEL_SPACE_KEPT over the kept ones. Any number of KERNEL_REDUCED values turn
 *           a row value into a kept one, and may build on each other; outputs are of either space
 *   SCAN    `kept` dims, then the scanned one; all values are computed over all dims, those after the
 *           root from the scanned result at the same place
 *   MATMUL  batch dims, M, N, K; operands 0 and 1 are the factors; the root and later values are
 *           computed over batch, M, N
 *
 *   SCATTER `kept` dims, then the axis of the result; operands are the base, the index, the updates and
 *           the result, in this order. The index and the updates step along their own axis, of
 *           KERNEL_WORD_EXTENT elements. Each element of the base is copied; then update j goes to, or
 *           is added (OP_add_along) at, index j, for each j in order. What counts from the end or
 *           lies beyond the axis is as in GATHER. The root value is what is stored
 *
 *   SORT    `kept` dims, then the sorted one. Each row of the reduced_value is sorted by (op) its values, or
 *           by the places of its values; what is sorted is of the accumulator's type. Stable, so there is one
 *           right answer; -0 equals +0, NaN is above all. A row is sorted whole (STAGE_ROWS), or in blocks of
 *           KERNEL_WORD_EXTENT elements (STAGE_BLOCKS), which are merged two by two (STAGE_MERGE) until they
 *           are one (STAGE_LAST); the extent is then that of the runs that are read. Between the steps, and in
 *           memory to work in, elements stand row-major: values as bits of their order (kernels/sort.cl); for
 *           places words of key << 32 | place, or for types of 8 bytes two words, key and place. Operands from
 *           `carry` on hold such elements: ROWS and BLOCKS two of work memory, the first of them BLOCKS' result, and
 *           for places one of KERNEL_SORT_CHUNK values, each an item's own but for BLOCKS' first two (GPU
 *           strategy: BLOCKS' result alone); MERGE what is read, what is written; LAST what is read
 *   ATTENTION batch dims, M (queries), N (columns of a value), S (keys), D (places of a key); operands are
 *           queries over batch, M, D, keys over batch, S, D, values over batch, S, N and, where `inputs` is 4, a
 *           mask over batch, M, S (bool: seen or not; else added to the scores). The root and later values are
 *           computed over batch, M, N; reduced_value is the scale, a scalar
 *
 *   CONV    the dims CONV_N to CONV_IW below; operands are the input over CONV_N, CONV_GROUP, CONV_CI, CONV_IH, CONV_IW
 *           and the weights, whose channels of the result are row-major. The root and later values are computed over
 *           the first four dims. Scalars 0 to 5 are i64: steps, distances in the filter and borders, each of rows and
 *           columns. KERNEL_WORD_EXTENT is what the CPU strategy computes at once: lines << 16 | columns, at most
 *           CONV_PLACES, where `alone` any number by CONV_COLUMNS. Its lanes lie along the last dim, places between the lines counting too, and `inputs` is the channels
 *           of a tile; or, where `packed`, along CONV_CO: then the weights lie in panels of kernel_columns() channels of the
 *           result, [group][panel][CONV_CI][CONV_KH][CONV_KW][channel], of the accumulator's type, a stride along CONV_CO
 *           being from one panel to the next, and what a channel of the input gives to a block is at most CONV_REGION elements,
 *           as it is where `alone`: then `inputs` is the rows of the filter where it has at most CONV_KNOWN_ROWS, and steps and
 *           distances of rows are 1; else 0
 *
 * A GATHER value is a load whose place along one axis is itself a value: arg[0] is the index, arg[1]
 * the extent of the axis, arg[2] its stride in elements (all i64, the last two scalars); strides of
 * the operand are those of the other axes. A negative index counts from the end; one beyond the axis
 * gives 0, and reads nothing: the extent is the plan's, not the client's. Extents are above 0.
 *
 * A SEARCH value is the place, i64, where arg[0] goes in a sorted vector: operand `index`, whose extent and stride
 * are arg[1] and arg[2]. Nothing outside it is read, whatever it holds.
 *
 * The lane dimension is the one along which a CPU kernel holds `width` elements in a vector: MAP
 * the last, REDUCE, ROWS and SCAN of the form ROW the (single) reduced one, GENERAL the last of several,
 * COLUMN the last kept one, MATMUL and ATTENTION N. An operand's access is its stride along the lane dimension;
 * in the forms ROW and GENERAL operands of the kept space (REDUCE: used after the root) are UNIFORM.
 *
 * Reductions: element j (row-major over the reduced dims) of a block of KERNEL_BLOCK elements is
 * accumulated, in order, into column j % KERNEL_COLUMNS, starting from the neutral element (-0 for
 * a float sum, 1 for a product); then column c takes column c + h for h = 32, 16, 8, 4, 2, 1. An extent above
 * KERNEL_BLOCK is planned as two or more kernels: the first has a kept dim `block_dim` whose index
 * b selects elements b * KERNEL_BLOCK up to the extent, and writes one partial result a block. ROWS
 * with long_rows does the same inside, and so does REDUCE with `blocks`: the results of the blocks are reduced by the same rule. The
 * tree is thus a function of the extent alone, in every form and strategy.
 *
 * Scans: the elements of a block of KERNEL_BLOCK are taken in groups of KERNEL_GROUP. In a group, for
 * h = 1, 2, 4, 8, element i >= h takes in element i - h as it was before that step; then each takes in
 * the carry, which is the last element of the group before, so far. Elements of later blocks then take
 * in the scan, by the same rule, of what the reduction of this kind gives for each block before
 * theirs. An extent above KERNEL_BLOCK is planned as these steps: a REDUCE with a block_dim, a SCAN of
 * its results, and a SCAN with a block_dim whose operand `carry` is loaded at block b - 1, for b > 0.
 *
 * Matrix products: c = fma(a, b, c) over k in order, from 0 (integers: wrapping multiply and add; 16-bit floats
 * where traits.matrix: the device's own sum of 16 products, and c, in this order). In a turned
 * one operand 0 is CONTIGUOUS along M or, where it is not, steps by one along K.
 * In the GPU strategy operand 0's access is its stride along K.
 * A packed operand 1 lies in panels of kernel_columns() columns, [batch][panel][K][column], of the accumulator's
 * type; its stride along M is from one panel to the next. Columns beyond N are there, but of any value.
 *
 * Rows before a product, CPU strategy: where operand 0 of a MATMUL is an output, it is memory to work in and holds a value
 * that the kernel computes itself, of those before the root: they are over batch, M and K as in ROWS with all dims but K kept, of
 * a space each. An item computes KERNEL_BLOCK_ROWS rows at a time, or all if they are fewer, each of K elements, into a place of its own before its
 * tiles read them; there are kernel_work_items() of them at most.
 *
 * Where it is `scored`, what those values load from operand SCORES_WORK is a product too, of each row of SCORES_LEFT by SCORES_RIGHT, which lies
 * in panels of `inputs` vectors, one a step along K of the kernel: kernel_scores_depth() elements of each are multiplied, and those of a row of
 * SCORES_LEFT lie side by side. It is memory to work in as operand 0 is.
 *
 * Rows after a product, likewise: where kernel_keeps_rows(), operand `carry` is an output and memory to work in; an item
 * keeps the product's rows there, kernel_kept_rows() at a time, of N elements each. The values after the root are then those of a kernel of ROWS over
 * batch, M and N with all dims but N kept, in which the root is loaded from there.
 *
 * Claims: where traits.claims, a launch whose `first` has KERNEL_CLAIMED set is one of several that do the work of one together. Words from the
 * rest of `first` on are then KERNEL_CLAIM_ below, the records behind them. Every item, of whichever launch, goes on taking the next of the
 * KERNEL_CLAIM_ITEMS items of the KERNEL_CLAIM_ALL there are, those of the first task first, until there are none.
 *
 * Attention: fusion-ops(7) has the arithmetic, in blocks of KERNEL_ATTENTION_BLOCK keys.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/op.h"
#include "daemon/base/traits.h"
#include "daemon/graph/expand.h"

enum {
	KERNEL_BLOCK = 8192,
	KERNEL_COLUMNS = 64,
	KERNEL_GROUP = 16,
	/* ROWS, GPU strategy: elements of a row that a group keeps in local memory. */
	KERNEL_GROUP_ROW = 4096,
	/* Elements of a vector in a GPU's maps: 16 bytes of f32 are the widest access there is. */
	KERNEL_GPU_VECTOR = 4,
	/* SORT, CPU strategy: values loaded at once before they are put together with their places. */
	KERNEL_SORT_CHUNK = 256,
	/* ... and items a compute unit that sort whole rows, each with memory of its own to work in. */
	KERNEL_SORT_ITEMS = 4,
	KERNEL_ATTENTION_BLOCK = 64,
	/* ATTENTION, GPU strategy: fewest queries of a group; as many as a block has keys at most, so that no row of it sees none of a block. */
	KERNEL_ATTENTION_ROWS = 16,
	/* ... items for each of them. */
	KERNEL_ATTENTION_ITEMS = 4,
	/* ... by instructions that multiply matrices: most queries of a group; most columns of it, and steps of 16 places of a key, that registers hold. */
	KERNEL_ATTENTION_MOST = 128,
	KERNEL_ATTENTION_WIDE = 128,
	KERNEL_ATTENTION_STEPS = 16,
	/* batch, M, N, K of a rank-8 product; kept, block and reduced dims of a reduction. */
	KERNEL_RANK = LIMIT_RANK + 2,
	/* where, clamp, fma and lerp are the widest elementwise operations; index, extent and stride of a gather. */
	KERNEL_ARGS = 3,
	KERNEL_OPERANDS = 48,
	KERNEL_VALUES = 256,
	KERNEL_SCALARS = 64,
	KERNEL_NONE = 0xffff,
	/* SCATTER: lanes of a unit in the CPU strategy, as many neighbours as are reached while an update is read; groups a compute unit of a GPU, to hide the time that an index takes to come. */
	KERNEL_SCATTER_LANES = 64,
	KERNEL_SCATTER_GROUPS = 4,
	/* MATMUL, GPU strategy: items that share what they read, or an instruction. */
	KERNEL_TILE_BLOCK = 32,
	/* MATMUL: most rows of a product in strips, and columns of a turned one. */
	KERNEL_STRIP_ROWS = 16,
	KERNEL_TURNED = 8,
	/* MATMUL: largest extent of a small product: one matrix of it stays in the nearest cache. */
	KERNEL_SMALL = 64,
	/* MATMUL, CPU strategy: rows of a block of tiles; with rows before the product, items a compute unit. */
	KERNEL_BLOCK_ROWS = 96,
	KERNEL_WORK_ITEMS = 4,
	/* ... and elements of a block of rows that are kept, within the second level of cache; rows of it at least: a tile's. */
	KERNEL_KEPT_ELEMENTS = 1 << 17,
	KERNEL_KEPT_ROWS = 8,
};

enum kernel_root {
	KERNEL_MAP,
	KERNEL_REDUCE,
	KERNEL_MATMUL,
	KERNEL_ROWS,
	KERNEL_SCAN,
	KERNEL_SCATTER,
	KERNEL_SORT,
	KERNEL_ATTENTION,
	KERNEL_CONV,
	KERNEL_INTERPRETER,            /* no kernel of a plan: runs those of root MAP, see daemon/emit/bytecode.h */
};

/* Operands and dims of CONV. */
enum {
	CONV_INPUT,
	CONV_WEIGHT,
};

enum {
	CONV_N,
	CONV_CO,
	CONV_OH,
	CONV_OW,
	CONV_GROUP,
	CONV_CI,                       /* of a group */
	CONV_KH,
	CONV_KW,
	CONV_IH,
	CONV_IW,
	CONV_DIMS,
};

enum {
	/* Places that a unit's accumulators stand for, those between its lines counted. */
	CONV_PLACES = 128,
	CONV_ROWS = 6,
	CONV_REGION = 12288,
	CONV_COLUMNS = 512,
	/* `alone`: vectors of a tile, on one line or several; they keep the multipliers busy. Rows of a filter that the text knows. */
	KERNEL_ALONE = 8,
	CONV_KNOWN_ROWS = 7,
	CONV_SCALARS = 6,
};

/*
 * Winograd convolutions (plan/minimal.c): tiles of the result of `minimal` by `minimal` places are made from so many products of
 * a place of the input and a filter, both of them transformed. The input's transform takes differences between the points below,
 * of which one is 0, one is beyond all, and the others come in pairs +-.
 */
enum {
	/* Most tiles of a block, of either side; elements of the input that it needs of a channel: 16 tiles in one line. */
	MINIMAL_TILES_TWO = 32,
	MINIMAL_TILES_FOUR = 16,
	MINIMAL_PLANE = 6 * (4 * MINIMAL_TILES_FOUR + 2),
	MINIMAL_SIDE = 6,
};

#define MINIMAL_POINT_TWO 1.0
#define MINIMAL_NEAR 0.625
#define MINIMAL_FAR 1.5

/* Operands of a MATMUL that is `scored`. */
enum {
	SCORES_LEFT = 2,
	SCORES_RIGHT,
	SCORES_WORK,
};

/* Operands of ATTENTION. */
enum {
	ATTENTION_Q,
	ATTENTION_K,
	ATTENTION_V,
	ATTENTION_MASK,
};

/*
 * MATMUL, GPU strategy: what a group computes at once, from the least to the largest, by fma and by instructions
 * that multiply matrices of 16-bit floats (kernels/matrix.cl).
 */
enum kernel_tile {
	KERNEL_TILE_SMALL,
	KERNEL_TILE_MEDIUM,
	KERNEL_TILE_LARGE,             /* of 8-byte elements, and of convolutions */
	KERNEL_TILE_HUGE,              /* of smaller ones */
	KERNEL_TILE_TINY,              /* of convolutions alone, as is */
	KERNEL_TILE_DEEP,              /* the small one of them */
	KERNEL_TILE_MATRIX_MEDIUM,
	KERNEL_TILE_MATRIX_LARGE,
	KERNEL_TILE_WGMMA,             /* by instructions of four blocks of items together (kernels/wgmma.cl) */
	KERNEL_TILES,
};

struct kernel_tile_info {
	uint8_t smaller;               /* the next smaller tile, or itself */
	uint8_t speed;                 /* of a unit at work on such tiles, against others of the same elements */
	uint16_t rows, columns;        /* of the result */
	uint16_t block_rows, block_columns; /* of KERNEL_TILE_BLOCK items */
	uint8_t depth;                 /* of K, in local memory */
	uint8_t lanes;                 /* vectors of the result: kernel.width */
	uint8_t stages;                /* depths in local memory at the same time */
};
extern const struct kernel_tile_info kernel_tiles[KERNEL_TILES];

static inline bool kernel_tile_is_matrix(unsigned tile) {
	return tile >= KERNEL_TILE_MATRIX_MEDIUM;
}

static inline bool kernel_tile_is_wgmma(unsigned tile) {
	return tile >= KERNEL_TILE_WGMMA;
}

enum kernel_stage {
	KERNEL_STAGE_ROWS,
	KERNEL_STAGE_BLOCKS,
	KERNEL_STAGE_MERGE,
	KERNEL_STAGE_LAST,
};

enum kernel_form {
	KERNEL_FORM_PLAIN,             /* MAP, MATMUL */
	KERNEL_FORM_ROW,
	KERNEL_FORM_COLUMN,
	KERNEL_FORM_GENERAL,
};

enum kernel_access {
	KERNEL_CONTIGUOUS,             /* stride 1 along the lane dimension */
	KERNEL_UNIFORM,                /* stride 0 */
	KERNEL_STRIDED,                /* any other */
};

enum kernel_value_kind {
	KERNEL_LOAD,                   /* operand `index` */
	KERNEL_SCALAR,                 /* scalar `index`, encoded as dtype_scalar_* says */
	KERNEL_IOTA,                   /* i64: offset + sum of index * stride, the words of operand `index` */
	KERNEL_OP,                     /* op(arg...); OP_cast converts arg[0] to dtype */
	KERNEL_ROOT_VALUE,             /* the reduction's, scan's or product's result, in the accumulator type */
	KERNEL_GATHER,                 /* operand `index`, at arg[0] along an axis */
	KERNEL_SEARCH,                 /* where arg[0] goes in operand `index` */
	KERNEL_REDUCED,                /* ROWS: op (OP_reduce_*) over the row of arg[0], both of dtype */
};

/* ROWS: how often a value is computed. A load's space is that of its operand, a scalar's is KEPT. */
enum kernel_space {
	KERNEL_SPACE_ROW,
	KERNEL_SPACE_KEPT,
};

/* Values stand in order: arguments before uses. */
struct kernel_value {
	uint8_t kind;                  /* enum kernel_value_kind */
	uint8_t dtype;                 /* of the result; f16 and bf16 are rounded after each op */
	uint8_t space;                 /* enum kernel_space; 0 where the root is not ROWS */
	bool right;                    /* KERNEL_SEARCH: behind equal elements */
	uint16_t op;                   /* KERNEL_OP, KERNEL_REDUCED */
	uint16_t arg[KERNEL_ARGS];
	uint16_t index;
};

/* How many of arg[] a value has. */
static inline unsigned kernel_value_args(const struct kernel_value *v) {
	if (v->kind == KERNEL_OP)
		return op_info(v->op)->arity;
	return v->kind == KERNEL_GATHER || v->kind == KERNEL_SEARCH ? 3 : v->kind == KERNEL_REDUCED;
}

/* Does a value read its operand at places that are known only then? */
static inline bool kernel_value_gathers(const struct kernel_value *v) {
	return v->kind == KERNEL_GATHER || v->kind == KERNEL_SEARCH;
}

/* Is a value read from operand `index`, or counted by it? */
static inline bool kernel_value_loads(const struct kernel_value *v) {
	return v->kind == KERNEL_LOAD || v->kind == KERNEL_IOTA || kernel_value_gathers(v);
}

struct kernel_operand {
	uint8_t dtype;
	uint8_t access;                /* enum kernel_access */
	bool output;
	bool stream;                   /* output: store past the caches */
	uint16_t value;                /* output: the value stored; else KERNEL_NONE */
	uint8_t iota;                  /* 1: no memory; address word is the offset */
	uint8_t gathered;              /* 1: read by a GATHER or SEARCH value, at any place of its axis */
};

struct kernel {
	uint8_t root;                  /* enum kernel_root */
	uint8_t form;                  /* enum kernel_form */
	uint8_t width;                 /* lanes */
	uint8_t rank;
	uint8_t kept;                  /* REDUCE, ROWS, SCAN: kept dims */
	uint8_t block_dim;             /* REDUCE, SCAN: the kept dim that counts blocks, or 0xff */
	uint16_t op;                   /* REDUCE, SCAN: OP_reduce_ but not _mean; else the operation itself */
	uint8_t accumulator;           /* REDUCE, SCAN, MATMUL, ATTENTION: dtype of the root value; SORT: of what is sorted */
	bool long_rows;                /* ROWS: a row may have more than KERNEL_BLOCK elements */
	uint8_t blocks;                /* REDUCE, GPU strategy: most blocks, which the lanes of a group reduce side by side, 2 or 4; 0: one */
	/* Knobs (knobs.h): ROWS, KNOB_hold at this value; MAP, vectors side by side, or 0 where the rule says it. */
	uint8_t hold, beside;
	bool far;                      /* ROWS, CPU strategy: memory is asked for before it is read */
	uint8_t carry;                 /* SCAN with a block_dim: the operand that the blocks before give; SORT, MATMUL: see above */
	/*
	 * MATMUL and packed CONV, CPU strategy: vectors side by side in a tile, and its rows; turned: columns; `alone`: lines.
	 * ATTENTION, GPU strategy: queries of a group, at least KERNEL_ATTENTION_ROWS, and columns of it, by KERNEL_ATTENTION_BLOCK.
	 */
	uint8_t vectors, rows;
	uint8_t steps, wide;           /* ATTENTION by instructions that multiply matrices: places of a key, and columns of a group, by 16; else 0 */
	bool packed;                   /* operand 1 lies in panels */
	bool strips;                   /* few rows: operand 1 is read row by row */
	uint8_t tile;                  /* MATMUL, CONV, GPU strategy: enum kernel_tile */
	bool scored;                   /* MATMUL: its rows before it are made of another product: see above */
	/* MATMUL, few columns: lanes lie along M. MAP, CPU strategy: strided inputs are contiguous down the rows. */
	bool turned;
	bool small;                    /* all of K, and all columns of some rows, at once */
	bool lined;                    /* MATMUL, CPU strategy: lines of operand 0, contiguous along M, are put side by side first */
	uint8_t stage;                 /* SORT: enum kernel_stage */
	bool descending;               /* SORT */
	uint8_t minimal;               /* CONV, packed weights: Winograd convolution, results of a tile's side (plan/minimal.c); or 0 */
	bool alone;                    /* CONV: a group has one channel of the input, unpacked weights; GPU strategy: few of the result */
	uint8_t inputs;                /* ATTENTION: operands of the root: 4 with a mask, else 3; CONV: channels of a tile, at most CONV_ROWS */
	bool causal;                   /* ATTENTION: a query sees no key after its own place */
	uint16_t hidden;               /* ATTENTION: the value, a scalar, of scores that a bool mask hides; KERNEL_NONE: -infinity */
	uint16_t root_value;           /* index of KERNEL_ROOT_VALUE, or KERNEL_NONE (MAP, ROWS) */
	uint16_t reduced_value;        /* REDUCE, SCAN, SORT (ROWS, BLOCKS): what is reduced, of the accumulator's dtype; ATTENTION: the scale */
	uint16_t values;
	uint16_t operands;
	uint16_t scalars;
	struct kernel_value value[KERNEL_VALUES];
	struct kernel_operand operand[KERNEL_OPERANDS];
};

/* Operands, the first ones, that the root of a product or attention reads. */
static inline unsigned kernel_root_operands(const struct kernel *k) {
	return k->root == KERNEL_MATMUL || k->root == KERNEL_CONV ? 2 : k->root == KERNEL_ATTENTION ? k->inputs : 0;
}

/* MATMUL: does it compute its first factor itself, row by row? */
static inline bool kernel_computes_factor(const struct kernel *k) {
	return k->root == KERNEL_MATMUL && k->operand[0].output;
}

/* MATMUL: does it reduce its own rows? */
static inline bool kernel_keeps_rows(const struct kernel *k) {
	return k->root == KERNEL_MATMUL && k->carry;
}

/* Is operand o memory to work in, that nobody else sees? */
static inline bool kernel_works_in(const struct kernel *k, unsigned o) {
	return (o == 0 && kernel_computes_factor(k)) || (kernel_keeps_rows(k) && o == k->carry) || (k->scored && o == SCORES_WORK);
}

/* Is operand o loaded by what computes the first factor? */
static inline bool kernel_loads_before(const struct kernel *k, unsigned o) {
	if (!kernel_computes_factor(k) || o < kernel_root_operands(k))
		return false;
	if (k->scored && (o == SCORES_LEFT || o == SCORES_RIGHT))
		return true;
	for (unsigned v = 0; v < k->root_value; v++)
		if (kernel_value_loads(&k->value[v]) && k->value[v].index == o)
			return true;
	return false;
}

/* Dims, at the end, that the root walks and its result does not have. */
static inline unsigned kernel_inner_dims(const struct kernel *k) {
	return k->root == KERNEL_MATMUL ? 1 : k->root == KERNEL_ATTENTION ? 2 : k->root == KERNEL_CONV ? CONV_DIMS - CONV_GROUP : 0;
}

/* Dims, at the end, that never vanish or merge, because a kernel of this root names each. */
static inline unsigned kernel_own_dims(const struct kernel *k) {
	return k->root == KERNEL_MATMUL ? 3 : k->root == KERNEL_ATTENTION ? 4 : k->root == KERNEL_CONV ? CONV_DIMS : 0;
}

/* ---- the task record: 64-bit words ---- */

enum {
	/* Set by emit_geometry(): work-items of this task, units of work, units an item, units a row. */
	KERNEL_WORD_ITEMS,
	KERNEL_WORD_UNITS,
	KERNEL_WORD_UNITS_PER_ITEM,
	KERNEL_WORD_PIECES,
	/* Elements reduced or scanned (all blocks together) or of a row, updates, K or keys; MAP: elements of a piece, set by emit_geometry(). */
	KERNEL_WORD_EXTENT,
	/* The first unit: 0, but where a task is launched in slices (see emit_divisible()). */
	KERNEL_WORD_BEGIN,
	KERNEL_WORD_DIMS,
};

/* Of `first`: the launch is claimed. */
#define KERNEL_CLAIMED (1ull << 63)

/* Before the records of a claimed launch; what is counted is a 32-bit number on a cache line of its own. */
enum {
	KERNEL_CLAIM_NEXT = 0,         /* items taken, and vain attempts */
	KERNEL_CLAIM_DONE = 8,         /* items whose results are there */
	KERNEL_CLAIM_ITEMS = 16,       /* of a task: whole words, as the next one */
	KERNEL_CLAIM_ALL,
	KERNEL_CLAIM_WORDS = 24,
};

static inline unsigned kernel_word_dim(unsigned d) {
	return KERNEL_WORD_DIMS + d;
}

/* The address word: pool << KERNEL_POOL_SHIFT | byte offset; its strides, in elements, follow. */
static inline unsigned kernel_word_operand(const struct kernel *k, unsigned operand) {
	return KERNEL_WORD_DIMS + k->rank + operand * (1u + k->rank);
}

static inline unsigned kernel_word_scalar(const struct kernel *k, unsigned scalar) {
	return kernel_word_operand(k, k->operands) + scalar;
}

static inline unsigned kernel_record_words(const struct kernel *k) {
	return kernel_word_scalar(k, k->scalars);
}

/* `first` of a launch whose record is an argument. */
#define KERNEL_OWN UINT64_MAX

/* Words of the record that it takes as an argument, or 0. Interpreters read theirs as it says where. */
static inline unsigned kernel_own_words(const struct kernel *k, const struct traits *t) {
	unsigned words = k->root == KERNEL_INTERPRETER ? 0 : kernel_record_words(k);

	return words <= t->own_words ? words : 0;
}

/* Most rows of a tile: their accumulators leave room in the register file, and their lines in the nearest cache. */
static inline unsigned kernel_most_rows(unsigned width, unsigned accumulator, unsigned vectors) {
	unsigned rows = (width >= 16 ? 24u : 12u) / (vectors * (dtype_info(accumulator)->bytes > 4 ? 2u : 1u));

	return rows < 8 ? rows : 8;
}

/*
 * Most vectors side by side in a tile of a product: 6 rows of 4 fill 24 of the 32 registers that vectors of 64
 * bytes come with, 6 of 2 12 of 16; a vector of 8-byte elements takes two.
 */
static inline unsigned kernel_most_vectors(unsigned width, unsigned accumulator) {
	return (width >= 16 ? 4u : 2u) / (dtype_info(accumulator)->bytes > 4 ? 2u : 1u);
}

_Static_assert(LIMIT_ARENA_SLACK >= 4 * 16 * 4, "a tile of a product may be read whole at the end of an arena");

/* Columns of a tile of a product, which are those of a panel. */
static inline unsigned kernel_columns(const struct kernel *k) {
	return (unsigned)k->vectors * k->width;
}

/*
 * Elements along dim d that an operand is walked over: a scatter's index and updates step along an axis of
 * their own, a packed factor along its panels in the place of M, packed weights in that of channels, and in each along
 * its columns.
 */
static inline int64_t kernel_walked(const struct kernel *k, unsigned operand, unsigned d, const int64_t *dims,
	uint64_t extent) {
	int64_t columns = kernel_columns(k);

	if (k->root == KERNEL_SCATTER && d + 1u == k->rank && (operand == 1 || operand == 2))
		return (int64_t)extent;
	if (k->scored && operand == SCORES_RIGHT && d + 1u == k->rank)
		return (dims[d] + (int64_t)k->inputs * k->width - 1) / ((int64_t)k->inputs * k->width);
	if (!k->packed || operand != 1)
		return dims[d];
	if (k->root == KERNEL_CONV && d == CONV_CO)
		return (dims[d] / dims[CONV_GROUP] + columns - 1) / columns;
	if (k->root == KERNEL_CONV && k->minimal && (d == CONV_KH || d == CONV_KW))
		return k->minimal + 2;
	if (k->root == KERNEL_CONV)
		return d == CONV_OW ? columns : dims[d];
	if (d + 3u < k->rank || d + 1u == k->rank)
		return dims[d];
	if (d + 2u == k->rank)
		return columns;
	return (dims[d + 1] + columns - 1) / columns;
}

/* MATMUL, GPU strategy: items of a group. */
static inline unsigned kernel_tile_items(unsigned tile) {
	const struct kernel_tile_info *i = &kernel_tiles[tile];

	return i->rows / i->block_rows * (i->columns / i->block_columns) * KERNEL_TILE_BLOCK;
}

/* ATTENTION by instructions on matrices: times 16 queries that KERNEL_TILE_BLOCK items have; two share what they read, where registers hold both. */
static inline unsigned kernel_attention_blocks(const struct kernel *k) {
	return k->rows == KERNEL_ATTENTION_MOST && k->wide <= 4 && k->steps <= 4 ? 2 : 1;
}

/* ATTENTION, GPU strategy: columns of the result of a group. */
static inline unsigned kernel_attention_columns(const struct kernel *k) {
	return k->steps ? 16u * k->wide : (unsigned)KERNEL_ATTENTION_BLOCK * k->vectors;
}

static inline unsigned kernel_attention_items(const struct kernel *k) {
	return k->rows / (16u * kernel_attention_blocks(k)) * KERNEL_TILE_BLOCK;
}

/* Does it need what kernels/matrix.cl has? */
static inline bool kernel_uses_matrices(const struct kernel *k) {
	return k->root == KERNEL_ATTENTION ? k->steps : k->root == KERNEL_MATMUL && kernel_tile_is_matrix(k->tile);
}

/* Is a product of these types one for the device's instructions on matrices? By the types alone, whatever else a kernel does. */
static inline bool kernel_multiplies_matrices(const struct kernel *k, const struct traits *t) {
	uint8_t a = k->operand[0].dtype, b = k->operand[1].dtype;

	return t->matrix && k->accumulator == DTYPE_f32 && a == b && (a == DTYPE_f16 || a == DTYPE_bf16);
}

/* The same of an attention, whose keys have so many places. */
static inline bool kernel_attends_matrices(const struct kernel *k, const struct traits *t, int64_t places) {
	return kernel_multiplies_matrices(k, t) && k->operand[ATTENTION_V].dtype == k->operand[0].dtype &&
		places <= INT64_C(16) * KERNEL_ATTENTION_STEPS;
}

/* The largest tile of a product, for groups of so many items. */
static inline uint8_t kernel_tile_largest(const struct kernel *k, const struct traits *t) {
	unsigned tile = dtype_info(k->accumulator)->bytes > 4 ? KERNEL_TILE_LARGE : KERNEL_TILE_HUGE;

	if (kernel_multiplies_matrices(k, t))
		tile = t->wgmma ? KERNEL_TILE_WGMMA : KERNEL_TILE_MATRIX_LARGE;
	while (kernel_tile_items(tile) > t->local_size && tile != kernel_tiles[tile].smaller)
		tile = kernel_tiles[tile].smaller;
	return (uint8_t)tile;
}

/* MATMUL that is scored: extent that its first product is over; the stride is that of SCORES_RIGHT along K. */
static inline int64_t kernel_scores_depth(const struct kernel *k, int64_t stride) {
	return stride / ((int64_t)k->inputs * k->width);
}

/* SORT: bytes of an element between steps, and the type of its words. */
static inline unsigned kernel_sort_bytes(const struct kernel *k) {
	unsigned bytes = dtype_info(k->accumulator)->bytes;

	return k->op == OP_sort ? bytes : bytes == 8 ? 16 : 8;
}

static inline uint8_t kernel_sort_dtype(const struct kernel *k) {
	return k->op == OP_sort ? k->accumulator : DTYPE_u64;
}

/* SORT, CPU strategy: most items that sort rows. GPU strategy: elements of a lane, and of a group's tile. */
static inline uint64_t kernel_sort_items(const struct traits *t) {
	return (uint64_t)KERNEL_SORT_ITEMS * (t->units ? t->units : 1);
}

static inline unsigned kernel_sort_each(const struct kernel *k) {
	return kernel_sort_bytes(k) == 16 ? 4 : 8;
}

static inline unsigned kernel_sort_tile(const struct kernel *k, const struct traits *t) {
	return t->local_size * kernel_sort_each(k);
}

/* MATMUL with rows before or after it: most items, rows of one after it, and bytes of such an operand for all of them. */
static inline uint64_t kernel_work_items(const struct traits *t) {
	return (uint64_t)KERNEL_WORK_ITEMS * (t->units ? t->units : 1);
}

static inline uint64_t kernel_kept_rows(const int64_t *dims, const struct kernel *k) {
	uint64_t n = (uint64_t)dims[k->rank - (k->scored ? 1u : 2u)], rows = KERNEL_KEPT_ELEMENTS / (n ? n : 1);

	rows = rows < KERNEL_BLOCK_ROWS ? rows : KERNEL_BLOCK_ROWS;
	return rows > KERNEL_KEPT_ROWS ? rows : KERNEL_KEPT_ROWS;
}

static inline uint64_t kernel_work_bytes(const struct kernel *k, unsigned o, const struct traits *t, const int64_t *dims) {
	uint64_t rows = (uint64_t)dims[k->rank - 3u], most;
	bool kept = kernel_keeps_rows(k) && o == k->carry;

	most = kept ? kernel_kept_rows(dims, k) : KERNEL_BLOCK_ROWS;
	rows = rows < most ? rows : most;
	return kernel_work_items(t) * rows * (uint64_t)dims[k->rank - (kept ? 2u : 1u)] * dtype_info(k->operand[o].dtype)->bytes;
}

enum { KERNEL_POOL_SHIFT = 56 };

/* What kind of kernel it is, in a word. */
const char *kernel_root_name(const struct kernel *k);
/* Hash over the parts in use, and equality. Unused parts need not be cleared. */
uint64_t kernel_hash(const struct kernel *k);
bool kernel_equal(const struct kernel *a, const struct kernel *b);
/* What computes the first factor of a product, as a kernel of ROWS over the same dims, operands and scalars. */
void kernel_before(const struct kernel *k, struct kernel *rows);
/* What follows a product that keeps its rows, as a kernel of ROWS whose rank is one less: operands keep their numbers. */
void kernel_after(const struct kernel *k, struct kernel *rows);
/* A copy of only the parts in use would be smaller; size of the whole for now. NULL: out of memory. */
struct kernel *kernel_dup(const struct kernel *k);
/* As bytes, of which another process of the same program makes it again; NULL where they are none, or memory is short. */
size_t kernel_bytes(const struct kernel *k);
void kernel_pack(const struct kernel *k, unsigned char *bytes);
struct kernel *kernel_unpack(const unsigned char *bytes, size_t size);

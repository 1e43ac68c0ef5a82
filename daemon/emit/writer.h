/*
 * What the forms share while they write a kernel: indented text, operands and values.
 *
 * Names in the text: r the task's record, dN extents, iN indices, aN the address of operand N
 * (a long for an iota), sN_D its stride along dimension D, pN the operand where a unit of work
 * begins, qN where the part after the root does, gN one moved to the place atN that is gathered,
 * vN values, vN_M those of the Mth of several vectors side by side.
 *
 * A form writes loops and, inside them, asks for the values of a scope. Values are written once,
 * as far out as they can stand: those of scalars at the top of the kernel (LEVEL_TASK), those
 * that do not change along the lanes a unit of work (LEVEL_UNIT), the rest in the innermost loop.
 */
#pragma once

#include "daemon/base/str.h"
#include "daemon/base/traits.h"
#include "daemon/plan/kernel.h"

enum level {
	LEVEL_TASK,
	LEVEL_UNIT,
	LEVEL_ELEMENT,
};

/* Values and operands that a part of the kernel computes and touches. */
struct needs {
	bool value[KERNEL_VALUES];
	bool operand[KERNEL_OPERANDS];
};

struct writer {
	struct str *text;
	const struct kernel *k;
	const struct traits *t;
	unsigned depth;              /* of indentation */
	unsigned lane_dim;           /* or KERNEL_RANK where the form has no lanes */
	struct needs inner;          /* before the root */
	struct needs outer;          /* what the outputs need, up to the root; all of a MAP */
	bool written[KERNEL_VALUES]; /* values whose names are in scope */
	unsigned twin;               /* which of the vectors side by side is being written (value_write_beside) */
	bool twins[KERNEL_VALUES];   /* values that each of them has */
};

/* How operands are reached at a place in the kernel. */
struct scope {
	const struct needs *needs;
	const char *pointer; /* "p" or "q" */
	const char *lane;    /* elements from the pointer along the lanes; NULL: one element for all lanes */
	const char *count;   /* lanes in use */
	bool hoist;          /* uniform operands are of LEVEL_UNIT */
	bool stream;         /* alignedN says whether output N may be streamed */
	bool streams;        /* ... and every alignedN is known to hold, and all lanes to be in use */
	bool aligned;        /* contiguous operands lie on whole vectors, and all lanes are in use */
	const bool *held;    /* values that value_write() finds in memory; NULL: none */
	const bool *hold;    /* values that value_remember() puts there */
	const uint16_t *home; /* where: an output, or KERNEL_NONE for heldN at held_at; NULL: all there */
	const char *held_at;
};

/* A reduction, and what the names of its variables end with. */
struct reduction {
	uint16_t op;         /* OP_reduce_* */
	uint8_t dtype;
	bool keyed;          /* accumulators are keys of kernels/real.cl, not values */
	char tag[8];
};

/* Works out what is needed. */
void writer_open(struct writer *w, const struct kernel *k, const struct traits *t, struct str *text);
/* Is a type held in this register type used anywhere? */
bool writer_uses(const struct writer *w, enum dtype reg);

/* What stands before a kernel's own text: macros, sections of kernels/, helpers (emit.c). */
void prelude_write(const struct writer *w, struct str *text);
/* ... the helpers alone. */
void helpers_write(const struct writer *w, struct str *text);

/* ---- text (text.c) ---- */

/* One line, indented. */
void text_line(struct writer *w, const char *format, ...) FAULT_PRINTF(2, 3);
/* A line that is put together from parts. */
void text_begin(struct writer *w);
void text_part(struct writer *w, const char *format, ...) FAULT_PRINTF(2, 3);
void text_end(struct writer *w);
/* "... {" and "}" */
void text_open(struct writer *w, const char *format, ...) FAULT_PRINTF(2, 3);
void text_close(struct writer *w);
void text_blank(struct writer *w);

/* ---- values (value.c) ---- */

/* "f32v", "f32e": the register a type is held in, and one lane of it. */
const char *value_register(unsigned dtype);
const char *value_lane(unsigned dtype);
/* The register of a root's accumulator. */
const char *value_lanes(const struct writer *w);

/* One function of the text: an operation on operands of these types. */
struct value_function {
	uint16_t op;
	uint8_t arity;
	uint8_t type[KERNEL_ARGS];
	uint8_t result;
};

/* One a value, and two of a product's arithmetic. */
enum { VALUE_FUNCTIONS = KERNEL_VALUES + 2 };

/* The functions in use, each once; returns how many. */
unsigned value_functions(const struct writer *w, struct value_function list[static VALUE_FUNCTIONS]);
/* "op_add_f32": of an operation on operands the last of which has this type. */
void value_function_name(struct writer *w, unsigned op, unsigned dtype);
/* Writes the definition of each function in use; of these. */
void value_define(struct writer *w);
void value_define_functions(struct writer *w, const struct value_function *list, unsigned n);
/* "round_f16" where a result of this type must be rounded, or "". */
const char *value_rounding(unsigned op, unsigned dtype);

/* A reduction; the CPU strategy takes the largest and the smallest in keys. */
struct reduction value_reduction(const struct writer *w, unsigned op, unsigned dtype);
/* Writes "x = combine(x, y);" of two accumulators of the reduction, as a line. */
void value_combine(struct writer *w, const struct reduction *r, const char *x, const char *y);
/* The same of an accumulator and a value. */
void value_accumulate(struct writer *w, const struct reduction *r, const char *x, const char *y);
/* The expressions of a value's accumulator, and of the value of one. */
struct value_text {
	char text[96];
};
struct value_text value_key(const struct reduction *r, const char *value);
struct value_text value_of_key(const struct reduction *r, const char *accumulator);
/* The expression of the reduction's neutral element. */
const char *value_neutral(const struct reduction *r);
/* Writes "to = a * b + to;" in the product's arithmetic, as a line. */
void value_add_product(struct writer *w, const char *to, const char *a, const char *b);
/* "for each row i of a tile, for each of its vectors v", CPU strategy: a statement follows. */
void value_each_sum(struct writer *w);
/*
 * A step of a tile, CPU strategy: c[i][v] takes in the element of operand o at row[i] + `at` bytes, times b[v], for so
 * many rows and vectors.
 */
void value_tile_step(struct writer *w, unsigned o, const char *at, unsigned rows, unsigned vectors);

/* The name of a value: "v5", or "v5_2" of the third of several vectors. */
struct value_text value_name(const struct writer *w, unsigned v);
/* Writes the values of levels up to this one that the scope needs and that are not written yet. */
void value_write(struct writer *w, const struct scope *s, enum level level);
/*
 * The same of `count` vectors at once, value by value, so that neighbours in the text need nothing of each other: scope i is
 * that of vector i. Until value_forget(), w->twin says of which of them value_store() writes.
 */
void value_write_beside(struct writer *w, const struct scope *s, unsigned count);
/* May several vectors be written so? Not where values are read from places that are values. */
bool value_may_be_beside(const struct writer *w);
/* Most values of levels within the lanes that are in use at once, in registers. */
unsigned value_registers(const struct writer *w, const struct scope *s);
/* The names of what the scope wrote at this level end with its block. */
void value_forget(struct writer *w, const struct scope *s, enum level level);
/* Declares the root's value. */
void value_root(struct writer *w, const char *expression);
/* Puts values where value_write() finds them later. */
void value_remember(struct writer *w, const struct scope *s);
/* Writes the stores of the outputs that the scope needs. */
void value_store(struct writer *w, const struct scope *s);
/*
 * Computes and stores a vector, of n elements: whole where `aligned` says that it lies so, else element by element. What
 * is written of levels from `from` on ends with it.
 */
void value_vector(struct writer *w, const struct scope *s, enum level from);

/* ---- operands (operand.c) ---- */

/* Declares extents, addresses and strides. */
void operand_declare(struct writer *w);
/* ROWS: is the operand one of the kept space? */
bool operand_is_kept(const struct kernel *k, unsigned o);
/*
 * Declares pN (prefix "p") of each operand in needs: its address plus the sum of index[d] * stride
 * over the dimensions whose index is not NULL.
 */
void operand_place(struct writer *w, const struct needs *needs, const char *prefix, const char *const *index);
/* Is operand o an output in needs that may be stored past the caches? */
bool operand_streams(const struct writer *w, const struct needs *needs, unsigned o);
/* Declares alignedN of those: whether it lies on a whole vector at its pointer. */
void operand_aligned(struct writer *w, const struct needs *needs, const char *prefix);
/* Declares `aligned`: whether every contiguous operand in needs lies on a whole vector at its pointer. */
void operand_whole(struct writer *w, const struct needs *needs, const char *prefix);
/* Declares gN: pointer N moved along the axis that is gathered to atN, where that is not below 0. */
void operand_there(struct writer *w, const struct scope *s, unsigned operand, unsigned stride);
/* Writes the expression that loads for each lane from a place of its own. */
void operand_take(struct writer *w, const struct scope *s, const struct kernel_value *gather);
/* Declares PREFIXn of the operands that a pass over rows reads side by side: where they lie at other indices, read later. */
void operand_place_ahead(struct writer *w, const struct needs *needs, const char *prefix, const char *const *index);
/* Asks for their lanes there. */
void operand_ahead(struct writer *w, const struct scope *s, const char *prefix);
/* Writes the expression that loads an operand, and the statement that stores a value to one. */
void operand_load(struct writer *w, const struct scope *s, unsigned operand);
void operand_store(struct writer *w, const struct scope *s, unsigned operand, unsigned value);

/* ---- what all kernels begin with (frame.c) ---- */

/* Signature, the task's record, its extents, operands and scalars. text_close() ends it. */
/* The head of every kernel, up to the brace that its text goes behind. */
void frame_signature(struct writer *w, uint32_t local);
/* The number of the work-item (CPU) or work-group (GPU), and of its task, where a kernel's text stands. */
const char *frame_item(const struct writer *w);
const char *frame_task(const struct writer *w);
void frame_open(struct writer *w);
/* Declares `r`, the task's record. */
void frame_record(struct writer *w);
/* Declares `begin` and `end`, the units of this item. */
void frame_units(struct writer *w);
/* Declares iN of dims [first, end) from `rest`, a number of theirs; `rest` is then of no use. */
void frame_indices(struct writer *w, unsigned first, unsigned end);
/* Steps the indices of dims [first, end) as an odometer, `continue` where no higher one changes. */
void frame_step(struct writer *w, unsigned first, unsigned end);
/* The names of indices [0, count), NULL for all others. */
struct frame_names {
	const char *name[KERNEL_RANK];
};
struct frame_names frame_names(unsigned count);

/* ---- forms ---- */

enum {
	/* A piece of a row: small enough that the inputs of a unit stay in the first cache levels. */
	MAP_PIECE = 8192,
	/*
	 * Vectors side by side in a map, where it has so many dear operations. Their values stay in registers, of which the
	 * function that is at work needs a few more. A line of an exponential or tanh each is some 20 operations in 70 cycles, one
	 * waiting for the other, so five of them fill a processor that does two a cycle, if it can look ahead so far.
	 */
	MAP_BESIDE = 8,
	MAP_DEAR = 2,
	MAP_REGISTERS = 28,
	MAP_TEMPORARIES = 4,
	/* Elements of a strip of transposed reading: as many lines stay in the second level of cache. */
	MAP_STRIP = 32,
	/* Rows an item then needs to use a line of f32 wholly, in whole tiles where it is bytecode. */
	MAP_STRIP_ROWS = 16,
	/* Most vectors side by side in a strip of REDUCE_COLUMN: 64 times 8 fill the first level of cache. */
	COLUMN_VECTORS = 8,
	/* The same of scans, which keep two vectors each: long runs of memory, and the first level holds 16 rows. */
	SCAN_VECTORS = 32,
	/* Outputs side by side in a group of REDUCE_COLUMN, GPU strategy. */
	COLUMN_LANES = 16,
	/* CPU product: rows a unit may hold: 64 columns of them take 24 KiB; k between saves. */
	TILE_BLOCK = KERNEL_BLOCK_ROWS,
	TILE_DEPTH = 512,
	/* Of few rows: panels side by side, so that 4 KiB of each row of B are read in one run; k between saves. */
	STRIP_PANELS = 16,
	STRIP_DEPTH = 8,
	/* Steps of k side by side in the text: the loop then costs nothing, and offsets are constants. */
	TILE_UNROLL = 4,
	/* GPU attention: items side by side, outputs of an item each way. */
	GROUP_LANES = 16,
	GROUP_ROWS = 4,
	GROUP_COLUMNS = 4,
	/* CPU convolution: most tiles of channels of a unit; elements of its panel, which the planner keeps planes within. */
	CONV_TILES = 16,
	CONV_PANEL = CONV_PLANES_MOST * 176,
	/* ... with packed weights: most panels of them that a unit goes through. */
	CONV_PANELS = 4,
	/* CPU attention: queries of a tile of sums; of a piece, by which units are cut: whole vectors, whole tiles, a part of a block;
	 * most pieces, so queries, and columns of the result of a unit. */
	ATTENTION_ROWS = 4,
	ATTENTION_PIECE = 16,
	ATTENTION_PIECES = 12,
	ATTENTION_QUERIES = ATTENTION_PIECES * ATTENTION_PIECE,
	ATTENTION_COLUMNS = 256,
	/* GPU reductions: elements a lane reads before it needs the first; more where no other group works meanwhile. */
	GROUP_UNROLL = 8,
	GROUP_UNROLL_ALONE = 16,
};

/* May an operand lie across the rows? */
bool map_may_cross(const struct kernel *k);
/* Does an element take longer than to read it? */
bool map_is_dear(const struct kernel *k);

void map_lanes(struct writer *w);  /* CPU strategy */
void map_groups(struct writer *w); /* GPU strategy */
void map_turned(struct writer *w); /* transposed inputs, CPU strategy */
void map_turned_functions(struct writer *w);
void reduce_row(struct writer *w);    /* ROW and GENERAL, CPU strategy */
void reduce_column(struct writer *w); /* COLUMN */
void reduce_groups(struct writer *w); /* ROW and GENERAL, GPU strategy */
void reduce_column_groups(struct writer *w);
void rows_lanes(struct writer *w); /* ROW and GENERAL, CPU strategy */
void rows_column(struct writer *w); /* COLUMN */
/* Functions that kernels over rows call in the CPU strategy. */
void rows_functions(struct writer *w);
void rows_groups(struct writer *w); /* all forms, GPU strategy */
void rows_group_functions(struct writer *w);
void scan_row(struct writer *w);    /* ROW, CPU strategy */
void scan_column(struct writer *w); /* COLUMN, CPU strategy */
void scan_row_groups(struct writer *w);
void scan_column_groups(struct writer *w);
void scatter(struct writer *w);        /* both strategies */
void sort(struct writer *w);           /* both strategies */
/* What kernels/sort.cl asks for. */
void sort_defines(const struct writer *w, struct str *text);
/* Functions that the scan calls. */
void scan_functions(struct writer *w);
void matmul_tiles(struct writer *w);
void matmul_turned(struct writer *w);
void matmul_small(struct writer *w);
/* "turn", of registers of a type: rows become columns, by exchanging blocks of 1, 2, 4, 8 elements. */
void matmul_turn(struct writer *w, unsigned dtype);
/* Functions that matmul_turned() calls. */
void matmul_functions(struct writer *w);
/* A first factor that lies along M, line by line, CPU strategy: in a unit; before the tiles of a depth; in a tile, before its steps; in a step. */
void matmul_lines_functions(struct writer *w);
void matmul_lines_open(struct writer *w);
void matmul_lines_begin(struct writer *w);
void matmul_lines_tile(struct writer *w);
void matmul_lines_step(struct writer *w);
void matmul_groups(struct writer *w); /* GPU strategy */
/* Functions that matmul_groups() calls. */
void matmul_group_functions(struct writer *w);
void conv_lanes(struct writer *w);       /* CPU strategy */
void conv_functions(struct writer *w);
void conv_groups(struct writer *w);      /* GPU strategy */
void conv_group_functions(struct writer *w);
void conv_channels(struct writer *w);    /* CPU strategy, packed weights */
void conv_minimal(struct writer *w);     /* CPU strategy, transformed weights */
void conv_minimal_functions(struct writer *w);
void conv_alone(struct writer *w);       /* CPU strategy, one channel of the input a group */
/* Declares steps, distances, borders and the rest of what plan chose. */
void conv_sizes(struct writer *w);
/* Fills `offset` with where in `panel` each channel and place of the filter lies from a place on; the panel with `count` channels. */
void conv_offsets(struct writer *w);
void conv_panel(struct writer *w);
/* Declares `runs`: does all that is stored and read besides step evenly from line to line, so that whole lines are one? */
void conv_runs(struct writer *w);
/*
 * What follows the root, of channel `channel`, over lines [from, to) of the block and `length` places of each, all of them
 * expressions: its elements at line y, from lane l on, are `vector`.
 */
void conv_outputs(struct writer *w, const char *from, const char *to, const char *length, const char *vector);
/*
 * Packed weights: how many panels there are, and a unit has; its block, and what of a line of it is inside the input. So many
 * channels of the input to `region`, which has room for some more: zeros everywhere, then what is inside. What follows the root, of
 * panel q's vector v of channels, `vector` being an expression for place p + i of the block, of at most so many places.
 */
void conv_held(struct writer *w);
void conv_block_of_unit(struct writer *w);
void conv_region(struct writer *w, const char *room, const char *count);
void conv_turned(struct writer *w, const char *vector, unsigned places);
/* Does an operand step along a dim? */
bool conv_walks(const struct kernel *k, unsigned o, unsigned d);
void attention_lanes(struct writer *w);  /* CPU strategy */
void attention_groups(struct writer *w); /* GPU strategy */
void attention_group_functions(struct writer *w);
void attention_matrix(struct writer *w); /* ... by instructions that multiply matrices */
void attention_matrix_functions(struct writer *w);

/* ---- outer products, GPU strategy (outer.c) ---- */

/* Products side by side in the text, of several steps: what lies in local memory is read ahead, and a compiler is done in time. */
enum { OUTER_PRODUCTS = 64 };

/* Sums of an item, and how much of its rows and columns lies in one vector, so many elements apart, in local memory. */
struct outer {
	unsigned rows, columns;
	unsigned row_lanes, column_lanes;
	unsigned rows_apart, columns_apart;
};
/* Types E and E4, a lane and four of the accumulator. */
void outer_types(struct writer *w);
/* "name(c, a, b)", which adds one step of K to the sums c; a and b are where the item's vectors of it begin. */
void outer_function(struct writer *w, const char *name, const struct outer *o);
/* Steps of so many products each that stand side by side. */
unsigned outer_unroll(unsigned products);
/* Declares sums, all 0. */
void outer_zero(struct writer *w, const char *name, unsigned rows, unsigned columns);

/* ---- sums that items hold, GPU strategy (sums.c) ---- */

/* Vectors of some rows; texts are of row i of the item and its vector v. */
struct sums {
	unsigned dim;                  /* along which rows lie; their columns lie along the next one */
	unsigned rows, vectors;
	unsigned apart;                /* elements from one vector to the next */
	const char *row;               /* which one i is, an expression */
	const char *of_row;            /* a line that comes before its vectors, or NULL */
	const char *value;             /* what the root is */
};
/* What follows the root. The first vector of a row begins at `column`, which must be declared. */
void sums_outputs(struct writer *w, const struct sums *sums);

/* ---- along a row, in 64 columns (walk.c) ---- */

/*
 * What the CPU strategy does with every vector of a row: it writes the values of the scope, adds
 * some to reductions, and holds and stores what the scope says. A row lies along the last dim (ROW), or over
 * all dims that are not kept (GENERAL): then walk_row() places the operands of the row itself, and steps
 * j and the indices of element j, which must be declared.
 */
struct walk {
	struct scope scope;          /* lane "l", which walk_row declares */
	const char *limit;           /* where the row ends; it begins at j */
	bool ahead;                  /* asks, while it reads a row, for the same places of the next one, from the pointers nN on */
	unsigned reductions;
	struct reduction reduction[KERNEL_VALUES];
	uint16_t reduced[KERNEL_VALUES]; /* the value each reduces */
};

/* Functions that walk_row() calls, for reductions in registers of this type. */
void walk_functions(struct writer *w, unsigned reg);
/* Declares neutralTAG, an accumulator's first value: nothing at all sums to +0. */
void walk_neutral(struct writer *w, const struct reduction *r);
/* From j to the limit, which leaves j anywhere; each reduction's accumulator is then in sumTAG (or its lane 0). */
void walk_row(struct writer *w, const struct walk *walk);
/* "sum3.s0" */
struct value_text walk_accumulator(const struct writer *w, const struct reduction *r);
/* Its value, in all lanes. */
struct value_text walk_result(const struct writer *w, const struct reduction *r);

/* ---- products ---- */

/* The dims of M, N and K. */
static inline unsigned matmul_dim_m(const struct kernel *k) {
	return k->rank - 3u;
}

static inline unsigned matmul_dim_n(const struct kernel *k) {
	return k->rank - 2u;
}

static inline unsigned matmul_dim_k(const struct kernel *k) {
	return k->rank - 1u;
}

/* Declares the pointer of factor o at the batch indices, a row of the first, a column of the second, and a place along K. */
void matmul_place(struct writer *w, unsigned o, const char *prefix, const char *row, const char *column,
	const char *depth);

/* ---- attention ---- */

/* The dims of M, N, S and D. */
unsigned attention_queries(const struct kernel *k);
unsigned attention_columns(const struct kernel *k);
unsigned attention_keys(const struct kernel *k);
unsigned attention_depth(const struct kernel *k);
bool attention_masks(const struct kernel *k);
/* The expression of a hidden score. */
struct attention_text {
	char text[32];
};
struct attention_text attention_hidden(const struct writer *w);
/* Does an operand step along a dim? Those of the root walk only theirs. */
bool attention_walks(const struct kernel *k, unsigned o, unsigned d);
/* Declares the pointer of an operand of the root at a row (a query, or of keys and values a key) and a column of it. */
void attention_place(struct writer *w, unsigned o, const char *prefix, const char *row, const char *column);

/* ---- reductions ---- */

struct reduction reduce_root(const struct writer *w);
/* Declares `start` and `stop`: all reduced elements, or a block of them. */
void reduce_range(struct writer *w);
/* Writes the root's value and what follows it, for one output. */
void reduce_outputs(struct writer *w, const char *const *index, const char *root);

/* ---- passes over the rows of a kernel of ROWS (passes.c) ---- */

/* How often a row is walked, and what each walk is for. */
struct passes {
	unsigned count;
	uint16_t depth[KERNEL_VALUES]; /* reductions that must be finished before a value is known */
	uint16_t first[KERNEL_VALUES]; /* row values: the first pass that computes them */
	bool held[KERNEL_VALUES];      /* row values kept in memory from their first pass on, kept values always */
	uint16_t home[KERNEL_VALUES];  /* in an output that is stored last, or in memory of its own: KERNEL_NONE */
};

/* room: bytes that held row values may take; homes: they may also be held in outputs. */
void passes_find(const struct writer *w, unsigned room, bool homes, struct passes *p);
/* Holds every value of the kept space that is needed after others of its depth. */
void passes_hold_kept(const struct writer *w, struct passes *p);
/* What pass `pass` computes, reads and stores; reductions are stopped at, held values too. */
void passes_needs(const struct writer *w, const struct passes *p, unsigned pass, struct needs *n);
/* What is stored of the kept space, or held, once the reductions of passes before this one are known. */
void passes_kept_needs(const struct writer *w, const struct passes *p, unsigned pass, struct needs *n);
/* The row values that a pass puts into memory. */
void passes_hold(const struct writer *w, const struct passes *p, unsigned pass, bool *hold);
/* Values that a pass over rows takes from memory, and those that what is kept between passes does. */
void passes_held(const struct writer *w, const struct passes *p, unsigned pass, bool *held);
void passes_kept_held(const struct writer *w, const struct passes *p, unsigned pass, bool *held);
/* Is value v a reduction that pass `pass` accumulates? */
bool passes_reduces(const struct writer *w, const struct passes *p, unsigned pass, unsigned v);

/* ---- what the forms of ROWS share (rows.c) ---- */

enum {
	/* Levels above a block: three reach 2^52 elements, more than an array may have. */
	ROWS_LEVELS = 3,
};

/* The reduction that value v is; its variables end with v. */
struct reduction rows_reduction(const struct writer *w, unsigned v);
/* Is v a reduction that is needed, the first of its operation and type (or only of its registers)? */
bool rows_reduces_first(const struct writer *w, unsigned v, bool by_register);
void rows_declare_neutrals(struct writer *w);
/* "carry_sum_f32", of one of the functions on levels. */
void rows_name(const char *verb, const struct reduction *r, char name[static 40]);
/* Declares the values that a pass reduces; are there any? */
bool rows_declare_results(struct writer *w, const struct passes *p, unsigned pass);
/* operand_place() of the operands of one space. */
void rows_place(struct writer *w, const struct needs *needs, const char *prefix, const char *const *index,
	enum kernel_space space);
/* Writes "STEMvSLOT = combine(STEMvSLOT, argument);" of reduction v. */
void rows_accumulate(struct writer *w, unsigned v, const char *stem, const char *slot);

/* CPU strategy: what stands before all rows, forms ROW and GENERAL. */
void rows_open(struct writer *w, struct passes *p);
/* All passes over a row. Operands of the kept space must be placed, of the form ROW all. */
void rows_walk(struct writer *w, const struct passes *p);

/* ---- rows before a product, CPU strategy (matmul_before.c) ---- */

/* What computes the first factor: a kernel of ROWS in the text of the product. */
struct before {
	struct kernel k;
	struct writer w;
	struct passes p;
};

/* Functions that it calls. */
void before_functions(const struct writer *w);
/* Declares what stands before all units. */
void before_open(struct before *b, const struct writer *w);
/* Computes rows m0 to m0 + height at the indices of the batch. */
void before_rows(struct before *b, const struct writer *in);
/*
 * The same of what follows a product that keeps its rows: `b` is then of after_open(), rows are computed when all of them are
 * there, and after_place() declares where row `row` (from m0 on) from a column on is kept.
 */
void after_functions(const struct writer *w);
void after_open(struct before *b, const struct writer *w);
void after_rows(struct before *b, const struct writer *in);
void after_place(struct writer *w, const char *prefix, const char *row, const char *column);
/* Declares the pointer of the first factor at a row of those, and a place along K or NULL. */
void before_place(struct writer *w, const char *prefix, const char *row, const char *depth);

/* Work-group size of a kernel. */
uint32_t frame_local(const struct kernel *k, const struct traits *t);

/* ---- sections of kernels/ (section.c) ---- */

/* Appends the sections that the functions in use come from, in the order they require. */
void section_append(const struct writer *w, struct str *text);
/* The same for these functions, and what `also` provides. */
void section_append_functions(const struct value_function *list, unsigned n, const char *also, struct str *text);

/*
 * The operations of ops.def as a table, and the one rule for the type and shape of a result.
 *
 * op_infer() is called by the client when an operation is recorded, and again by the daemon, which
 * never believes a client: both sides include exactly this code.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "dtype.h"
#include "fault.h"
#include "shape.h"

enum op_class {
	OP_CLASS_NONE = 0,
	OP_CLASS_UNARY,
	OP_CLASS_BINARY,
	OP_CLASS_TERNARY,
	OP_CLASS_REDUCE,
	OP_CLASS_SCAN,
	OP_CLASS_STRUCT,
	OP_CLASS_COMPOSITE,
};

enum op_id {
#define UNARY(id, name, ...) OP_##name = id,
#define BINARY(id, name, ...) OP_##name = id,
#define TERNARY(id, name, ...) OP_##name = id,
#define REDUCE(id, name, ...) OP_reduce_##name = id,
#define SCAN(id, name, ...) OP_##name = id,
#define STRUCT(id, name, ...) OP_##name = id,
#define COMPOSITE(id, name, ...) OP_##name = id,
#include "ops.def"
	OP_COUNT = 256,
	/* Operations whose bodies an administrator wrote, see own.h: numbers from here on. */
	OP_OWN_FIRST = 4096,
	OP_OWN_COUNT = 4096,
};

/* Element types an operation takes; see ops.def. */
enum op_types {
	OP_TYPES_ANY,
	OP_TYPES_NUM,
	OP_TYPES_REAL,
	OP_TYPES_INT,
	OP_TYPES_BITS,
	OP_TYPES_BOOL,
};

enum op_result {
	OP_RESULT_SAME,
	OP_RESULT_BOOL,
	OP_RESULT_ACC,
	OP_RESULT_INDEX,       /* i64 */
	OP_RESULT_DTYPE,       /* the attribute dtype */
};

/* Where patterns count an operation as an activation; see ops.def. */
enum op_active {
	OP_ACTIVE_PLAIN,
	OP_ACTIVE_ACTIVE,
	OP_ACTIVE_BOUND,
	OP_ACTIVE_CHOICE,
};

/* Bits of struct op_info's attributes. */
enum op_attribute {
#define ATTRIBUTE(id, name, ...) OP_ATTRIBUTE_##name = id,
#include "attributes.def"
#undef ATTRIBUTE
	OP_ATTRIBUTES,
};

struct op_info {
	const char *name;      /* "tanh"; reductions: "sum", "max", "min", "mean" */
	enum op_class class;
	uint8_t arity;
	enum op_types types;
	enum op_result result;
	const char *expr;      /* elementwise: OpenCL expression; reductions: the combining operation; scans: the reduction; composites: see expr.h */
	const char *gradient[LIMIT_OPERANDS]; /* NULL: none; "0": zero everywhere */
	const char *oracle;
	const char *doc;
	uint8_t least;         /* composites: arity is the most operands, this the fewest; see op_least() */
	const char *operands;  /* their names, e.g. "x, target:int"; NULL: a, b and c; see ops.def and op_operand() */
	uint32_t attributes;   /* composites: 1 << enum op_attribute, each */
	enum op_active activation; /* elementwise */
	/* Own operations alone: */
	const char *body[DTYPE_KIND_REAL + 1]; /* the daemon's: OpenCL C by the kind of the operands, NULL: none */
	uint64_t identity;     /* a hash of all that it is */
	bool inexact;          /* it need not keep its bits */
	bool one_shape;        /* operands do not broadcast */
};

/* The row of an operation, or NULL where there is none. */
const struct op_info *op_info(unsigned id);

static inline bool op_is_own(unsigned id) {
	return id >= OP_OWN_FIRST && id < OP_OWN_FIRST + OP_OWN_COUNT;
}

/* The operation of ops.def with a name, or -1. */
int op_find(const char *name);

enum { OPERAND_TEXT = 32 };

/* How sentences call operand i of an operation that exists: "index"; "array 2" where they are a list. */
char *op_operand(const struct op_info *o, unsigned i, char text[static OPERAND_TEXT]);

/* The fewest operands of an operation that exists; op_info()'s arity is the most. */
unsigned op_least(unsigned id);

static inline bool op_is_elementwise(const struct op_info *o) {
	return o->class >= OP_CLASS_UNARY && o->class <= OP_CLASS_TERNARY;
}

/* Do operands of these types have elements of this kind? */
bool op_types_take(enum op_types types, enum dtype_kind kind);

/* Views cost nothing: they show the memory of their operand in another order (shape.h, view_apply). */
bool op_is_view(unsigned op);

/* take, take_along and searchsorted: operand 0 is read where operand 1 says. */
bool op_gathers(unsigned op);
/* put_along and add_along: operand 2 goes where operand 1 says, into a copy of operand 0. */
bool op_scatters(unsigned op);
bool op_sorts(unsigned op);

/* What an operation needs besides its operands. Unused members are zero. */
struct op_attr {
	uint8_t dtype;                /* load, fill, arange, cast: enum dtype */
	uint8_t rank;                 /* load, fill, arange, reshape, permute, broadcast, slice: rank of the result */
	bool keepdims;                /* reductions */
	uint16_t axes;                /* reductions, flip: bit d for axis d; scans: one bit */
	uint8_t axis;                 /* windows, take, take_along, concat, put_along, add_along, sort, argsort: one axis of operand a */
	uint8_t perm[LIMIT_RANK];     /* permute: result axis d is operand axis perm[d] */
	int64_t dims[LIMIT_RANK];     /* the result's shape; slice: its extents */
	int64_t start[LIMIT_RANK];    /* slice: first index on each axis; pad: where the operand begins */
	int64_t step[LIMIT_RANK];     /* slice: not 0; may be negative; any where the extent is below 2 */
	struct {
		int64_t size, step, dilation;
	} window;                     /* windows: each at least 1 */
	uint64_t value[2];            /* fill: value; arange: start, step; see dtype_scalar */
	double number;                /* composites: see attributes.def */
	int64_t whole;
	bool flag;                    /* sort, argsort: descending; searchsorted: from the right */
	uint32_t arena;               /* load: arena and byte offset */
	uint64_t offset;
};

/*
 * The type and shape of op(in[0..n)), or a fault that names the operation, the argument and the
 * shapes. Operands must have passed shape_check(); results always do. attr may be NULL where the
 * operation needs none. For load it checks the shape only; who owns the memory checks the rest.
 */
int op_infer(unsigned op, unsigned n, const struct tensor_type *const *in, const struct op_attr *attr,
	struct tensor_type *outp, struct fault *f) FAULT_MUST_USE;

/*
 * The element type in which a reduction of this type accumulates: sums, means and products of f16
 * and bf16 in f32, of integers and bool in i64 or u64; max and min in the type itself; any and all
 * in bool.
 */
enum dtype op_accumulator(unsigned op, enum dtype in);

/* What a reduction over nothing gives: 0, 1 or NaN. Not for max and min, which refuse it. */
double op_of_nothing(unsigned op);

/* The reduction that a scan repeats up to each element. */
unsigned op_scan_reduction(unsigned scan);

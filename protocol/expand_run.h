/*
 * One expansion while it runs, for the files that expand.h's rules are spread over: expand.c walks, the
 * others say what a node of their kind becomes.
 */
#pragma once

#include "expand.h"

enum value_kind {
	VALUE_NONE, /* not evaluated yet */
	VALUE_ARRAY,
	VALUE_NUMBER,
	VALUE_LIST,
	VALUE_DTYPE,
};

struct value {
	enum value_kind kind;
	uint32_t array;
	unsigned count; /* LIST */
	double number;  /* NUMBER; DTYPE: enum dtype */
	int64_t list[LIMIT_RANK];
};

/* A narrow float in f32; each is cast once. */
struct widened {
	uint32_t from, to;
};

struct expansion {
	const struct expand_call *call;
	const struct expand_target *target;
	struct value value[EXPR_NODES];
	struct widened widened[EXPR_NODES];
	unsigned wide;
	struct fault *fault;
};

/* What a node of the text becomes; the value is VALUE_NONE before. */
typedef int expand_rule(struct expansion *r, unsigned node, struct value *v);

extern expand_rule *const expand_functions[];  /* by enum expr_function */
extern expand_rule *const expand_operations[]; /* by enum op_class; NULL: none in expressions */

static inline void give_number(struct value *v, double number) {
	v->kind = VALUE_NUMBER;
	v->number = number;
}

static inline void give_array(struct value *v, uint32_t array) {
	v->kind = VALUE_ARRAY;
	v->array = array;
}

static inline bool is_number(const struct value *v) {
	return v->kind == VALUE_NUMBER;
}

/* ---- expand.c ---- */

/* The value of a node, which is made where it was not yet. */
int expand_value(struct expansion *r, unsigned node, const struct value **valuep);

/* An operand that the call does not have. */
bool expand_absent(const struct expansion *r, const struct expr_node *n);

/* ---- expand_make.c ---- */

/* "an array" */
const char *value_word(enum value_kind kind);

const struct expr_node *expand_node(const struct expansion *r, unsigned node);

/* Returns `failed`, and says where in the text a fault came up. */
int expand_locate(const struct expansion *r, unsigned node, int failed);
int expand_refuse(
	struct expansion *r, unsigned node, unsigned argument, enum value_kind is, const char *wanted);

const struct tensor_type *expand_type(const struct expansion *r, uint32_t array);

/* The type in which an expression computes where no array says it. */
enum dtype expand_dtype(const struct expansion *r);

/* An argument, which must be of the kind. */
int expand_take(struct expansion *r, unsigned node, unsigned argument, enum value_kind kind,
	const struct value **valuep);
int expand_take_array(
	struct expansion *r, unsigned node, unsigned argument, uint32_t *arrayp, struct tensor_type *typep);
int expand_take_number(struct expansion *r, unsigned node, unsigned argument, double *numberp);

/* A list of axes, or one, as a set. */
int expand_take_axes(struct expansion *r, unsigned node, unsigned argument, unsigned rank, uint16_t *axesp);

/* An axis of a rank; negative ones count from the end. */
int expand_check_axis(struct expansion *r, unsigned node, int64_t axis, unsigned rank, unsigned *axisp);

int expand_make(struct expansion *r, unsigned node, unsigned op, unsigned n, const uint32_t *in,
	const struct op_attr *attr, uint32_t *arrayp);
int expand_make_cast(struct expansion *r, unsigned node, enum dtype dtype, uint32_t *arrayp);
int expand_make_number(struct expansion *r, unsigned node, enum dtype dtype, double number, uint32_t *arrayp);

/* A view: a reshape or a broadcast. */
int expand_make_shape(struct expansion *r, unsigned node, unsigned op, uint32_t array, unsigned rank,
	const int64_t *dims, uint32_t *arrayp);

/* 0, 1, ... n - 1 in the narrowest of i32 and i64 that also holds n. */
int expand_make_iota(struct expansion *r, unsigned node, int64_t n, uint32_t *arrayp);

/* What computes takes f16 and bf16 in f32; views and gathers leave them as they are. */
int expand_widen(struct expansion *r, unsigned node, uint32_t *arrayp);

/* ---- expand_spatial.c ---- */

expand_rule call_unfold, call_border, call_reach, call_spread;

/*
 * Where several operations are recorded at once: a definition's text, the gradient of an operation.
 *
 * The values made belong to the site until site_end(); whoever wants one longer takes a reference. Operations are
 * made by site_op() and what stands below it: they take and return borrowed values, NULL where something failed
 * before, so that calls nest and `failed` is looked at once.
 */
#pragma once

#include "protocol/expand.h"
#include "record.h"

struct site {
	struct recording *recording;
	struct value **value;
	uint32_t count, capacity;
	int failed;
};

/* Takes over a reference. */
int site_keep(struct site *s, struct value *v, uint32_t *numberp) FAULT_MUST_USE;
void site_end(struct site *s);

/* Records what a text says of the operands; operands beyond `count` are absent. result NULL: as expand() has it. */
int site_expand(struct site *s, const char *name, const struct expr *e, unsigned count, struct value *const *operand,
	const struct op_attr *attr, const struct tensor_type *result, struct value **vp) FAULT_MUST_USE;

struct value *site_op(struct site *s, unsigned op, const struct op_attr *attr, unsigned n, struct value *const *in);
struct value *site_unary(struct site *s, unsigned op, struct value *a);
struct value *site_binary(struct site *s, unsigned op, struct value *a, struct value *b);
struct value *site_where(struct site *s, struct value *condition, struct value *a, struct value *b);
/* A number in the type of a value, of rank 0; and of its type and shape. */
struct value *site_number(struct site *s, const struct value *like, double number);
struct value *site_full(struct site *s, const struct tensor_type *like, double number);
struct value *site_cast(struct site *s, struct value *a, enum dtype dtype);
struct value *site_reshape(struct site *s, struct value *a, unsigned rank, const int64_t *dims);
struct value *site_broadcast(struct site *s, struct value *a, unsigned rank, const int64_t *dims);
/* The last two axes change places. */
struct value *site_transpose(struct site *s, struct value *a);
struct value *site_sum(struct site *s, struct value *a, uint16_t axes, bool keepdims);
/* count elements from start on along an axis, step apart. */
struct value *site_slice(struct site *s, struct value *a, unsigned axis, int64_t start, int64_t count, int64_t step);
/* An operation with one axis: take, take_along, flip, scans... */
struct value *site_axis(struct site *s, unsigned op, unsigned axis, unsigned n, struct value *const *in);
/* 0, 1, ... n - 1, i64, along an axis of this many. */
struct value *site_places(struct site *s, unsigned rank, unsigned axis, int64_t n);
/* What broadcasting repeated is added up: a in the shape and type `like`. */
struct value *site_unbroadcast(struct site *s, struct value *a, const struct tensor_type *like);

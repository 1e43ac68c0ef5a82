/*
 * Recording operations.
 *
 * An operation of fusion.h is: record_begin (check the operands, lock), one or more record_value
 * (types by op_infer, casts where operands differ), record_end (make the array, unlock). Values
 * come out with one reference, which record_end or record_drop takes back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "value.h"

struct fusion_context;

/* One call of fusion.h under way. */
struct recording {
	struct fusion_context *context;
	const char *what;            /* the function's name without fusion_ */
	bool tracks;                 /* values that depend on watched arrays get tapes */
	unsigned count, first;       /* first: the number of in[0] among the operands, of which a number may be one */
	struct value *in[LIMIT_OPERANDS];    /* one reference each */
	struct fusion_array *array;          /* the first operand, which the call uses until it ends; or NULL */
	struct fault fault;
};

enum {
	ARGUMENT_TEXT = sizeof "argument " + OPERAND_TEXT,
	/* Where the first operand that is given stands among an operation's. */
	RECORD_OPERANDS = 2,
};

/* In an argument's place: the operand of that number, whose name is made where an error tells it, not for each operation that is recorded. */
extern const char record_operands[RECORD_OPERANDS];
/* The argument as it is told: as it is, or the operand's name. */
const char *record_argument(const char *what, const char *argument, char text[static ARGUMENT_TEXT]);
/*
 * Checks the operands and locks their context. False: the error is the thread's already. Where an
 * operand is NULL because of an earlier error, that error stays.
 */
bool record_begin(struct recording *r, const char *what, unsigned count, fusion_array *const *operand);
/* The same for operations without operands. */
bool record_begin_source(struct recording *r, const char *what, fusion_context *context);
/* The same for what is done with an array, which is its user until record_end_code(): NULL: refused. */
struct fusion_array *record_begin_array(struct recording *r, const char *what, fusion_array *array);
/* The same where it is the first of a list: "output 0". */
struct fusion_array *record_begin_list(struct recording *r, const char *what, fusion_array *array, const char *argument);
/* failed: what the last step returned. Makes the array of v (whose reference is taken), unlocks; NULL on
 * failure. */
fusion_array *record_end(struct recording *r, int failed, struct value *v);
/* Unlocks after a step that makes no array; returns the code of the error. */
int record_end_code(struct recording *r, int failed);

/* Records one operation. attr NULL where it needs none. */
int record_value(struct recording *r, unsigned op, unsigned count, struct value *const *in,
	const struct op_attr *attr, struct value **vp) FAULT_MUST_USE;
/* What that or op_infer() refused, as the refusal of the function itself, which is called otherwise. Returns failed. */
int record_as(struct recording *r, unsigned op, int failed);
/* Records it over r->in, cast to the type they meet in. */
int record_promoted(
	struct recording *r, unsigned op, const struct op_attr *attr, struct value **vp) FAULT_MUST_USE;
/* Converts r->in[i] to a type, where it has another. */
int record_cast(struct recording *r, unsigned i, enum dtype dtype) FAULT_MUST_USE;
/* A rank-0 value of a type; refuses what is no value of it. */
int record_scalar(struct recording *r, enum dtype dtype, double value, struct value **vp) FAULT_MUST_USE;
/* The word of a scalar; refuses what is no value of the type. */
int record_word(struct recording *r, enum dtype dtype, double value, uint64_t *wordp) FAULT_MUST_USE;
/* Sends an operation at once and checks what it made, where fusion.debug is on. */
int record_settle(struct recording *r, struct value *v) FAULT_MUST_USE;

/* Axes of the first operand, negative ones counting from the end, as a set of bits; count 0 and NULL: all. */
int record_axes(struct recording *r, int count, const int *axes, uint16_t *setp) FAULT_MUST_USE;

/* Elementwise operations; the generated functions are these with a number. */
fusion_array *record_unary(unsigned op, fusion_array *a);
fusion_array *record_binary(unsigned op, fusion_array *a, fusion_array *b);
fusion_array *record_ternary(unsigned op, fusion_array *a, fusion_array *b, fusion_array *c);
fusion_array *record_binary_scalar(unsigned op, fusion_array *a, double b);
fusion_array *record_scalar_binary(unsigned op, double a, fusion_array *b);

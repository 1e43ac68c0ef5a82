/*
 * Values and arrays.
 *
 * A value is what one operation makes: immutable once recorded (single assignment). It is pending
 * until a batch sends it, then the daemon knows it by its handle. An array is the caller's
 * reference counted name for a value; fusion_copy_into() gives it another one.
 *
 * A value is referenced by arrays and others that need its contents ("holders"), and by values
 * that are pending themselves and take it as an operand. A pending value that nothing references
 * any more disappears and is never sent: that is all that dead code takes. A sent value that
 * nothing references puts its handle on the list of releases. Tapes (tape.h) may also refer to what a value
 * is without its contents: one that only they refer to is spent, and its handle is released, too.
 *
 * All of it is under the lock of the context.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/op.h"
#include "error.h"
#include "object.h"

enum value_state {
	VALUE_PENDING,     /* recorded; in the context's list */
	VALUE_SENT,        /* the daemon has it under `handle` */
	VALUE_SPENT,       /* was sent; its contents are given up */
	VALUE_CAPTURED,    /* stands in a capture; has no contents of its own */
	VALUE_FAILED,      /* `failure` says why */
};

/* What fusion.debug knows about the contents. */
enum value_finite {
	FINITE_UNKNOWN,
	FINITE_YES,
	FINITE_NO,
};

enum {
	/* In place of an operation: the input of a capture. */
	OP_CAPTURE_INPUT = OP_COUNT,
};

/* Why a value cannot be had; shared by all values of a batch that failed. */
struct failure {
	uint32_t references;
	struct fault fault;
};

struct tape;

struct value {
	uint8_t state;               /* enum value_state */
	uint8_t arity;
	uint8_t finite;              /* enum value_finite */
	bool needed;                 /* by the outputs asked for, see value_list_number() */
	uint16_t op;
	uint8_t rights;              /* SHARE_, of a value that other processes may hold, too; else 0 */
	bool exported;               /* ... and this process exported it */
	bool forgone;                /* an engine ended before it said whether it has it under its handle: it is not to have it, and the next one is told so */
	bool leaf;                   /* of a watched array: gradients end here */
	bool counted;                /* its contents are among the bytes that tapes keep */
	bool overfull;               /* it was sent because a batch was full, before anybody asked for it */
	uint16_t lost;               /* the operation without a derivative behind which watched arrays were lost, or 0 */
	struct place place;
	uint32_t references;         /* holders, pending values that take it as an operand, and tapes */
	uint32_t holders;
	uint32_t taped;              /* tapes that need no contents */
	uint32_t kept;               /* tapes among the holders */
	uint32_t shared;             /* ... and the number of its arena */
	uint32_t index;              /* its operation in the batch that sent it, or in the capture */
	uint32_t batch;              /* once sent: operations of that batch ... */
	uint32_t before;             /* ... and of full ones before it that lead there */
	struct value *in[LIMIT_OPERANDS];   /* while pending or being captured */
	struct op_attr *attr;        /* NULL where the operation needs none */
	struct value *previous, *next;      /* list of the context or the capture */
	uint64_t handle;             /* once sent */
	uint64_t seq;                /* the request that makes it */
	uint64_t capture;            /* serial number of the capture it stands in, or 0 */
	struct failure *failure;
	struct tape *tape;           /* how its gradient goes back to its operands, or NULL: see tape.h */
	struct tensor_type type;
};

struct mapping {
	enum fusion_map_mode mode;
	bool asked;                  /* for writing, and not granted yet: other threads keep off */
	uint32_t count;              /* reading maps nest */
	struct value *value;         /* held, so that its memory stays */
	struct arena *arena;         /* pinned */
	void *copy;                  /* of what lies on another machine, at `offset` of arena `id`; or NULL */
	uint32_t id;
	uint64_t offset;
	uint64_t upload;             /* fusion_create: key of the memory, see arena.h */
	struct op_attr load;         /* fusion_create: what unmap records */
	void *memory;
};

struct fusion_array {
	struct object object;
	struct tensor_type type;     /* also read without the lock, see array.c */
	struct value *value;         /* NULL only between fusion_create and fusion_unmap */
	struct mapping *mapping;     /* NULL where it is not mapped */
	uint32_t references;         /* the program's: with the last one the name ends */
	uint32_t users;              /* calls that wait, and recorded graphs */
	bool watched;                /* each of its values is a leaf */
	uint32_t input;              /* its number among the inputs of `capture` */
	uint64_t capture;            /* serial number of the capture that last used it, or 0 */
	uint64_t version;
	struct scope *scope;         /* the scope that releases it, or NULL */
	struct fusion_array *previous, *next;     /* in the scope */
};

/* A chain of values in recording order. */
struct value_list {
	struct value *first, *last;
	uint32_t count;
};

void value_list_append(struct value_list *l, struct value *v);
void value_list_remove(struct value_list *l, struct value *v);
/* Numbers the values that others of the list, or those marked as needed, need; returns how many. */
uint32_t value_list_number(struct value_list *l);
/* The places of those that are marked, malloc'd; NULL: no memory. */
struct place *value_list_places(const struct value_list *l, uint32_t marked);

/* A value without references; attr is copied (NULL where the operation needs none). NULL: no memory. */
struct value *value_new(struct fusion_context *c, unsigned op, const struct tensor_type *type,
	const struct op_attr *attr);
void value_ref(struct value *v);
void value_drop(struct fusion_context *c, struct value *v);
/* As ref and drop, for a reference that needs the contents. */
void value_hold(struct value *v);
void value_unhold(struct fusion_context *c, struct value *v);
/* For tapes: a reference that needs no contents; contents that a gradient needs. tape_forget() is for both. */
void value_tape(struct value *v);
void value_keep(struct value *v);
/* Marks it as failed; operands are dropped, its handle is released when it goes. */
void value_fail(struct fusion_context *c, struct value *v, struct failure *failure);
/* The same with the name of its operation and its place before and behind `why`, which the next call that waits for all tells, too. */
void value_lose(struct fusion_context *c, struct value *v, const struct fault *why);

/* One reference. Never NULL: where there is no memory it is the context's own, which says the first thing that there was none for. */
struct failure *failure_new(struct fusion_context *c, const struct fault *f);
void failure_drop(struct fusion_context *c, struct failure *failure);   /* NULL is allowed */

/* An array of a value, with one reference, in the thread's innermost scope of this context. */
struct fusion_array *array_make(struct fusion_context *c, struct value *v, const struct tensor_type *type);
void mapping_free(struct fusion_context *c, struct mapping *m);  /* NULL is allowed */
/* One reference of the program less: with the last one its name ends, and with the last user the array and its reference to the context. */
void array_drop(struct fusion_array *a);
void array_use(struct fusion_array *a);
void array_unuse(struct fusion_array *a);

fusion_array *array_name(const struct fusion_array *a);          /* NULL where a is */
struct fusion_context *array_context(const struct fusion_array *a);
/* The array of this context that a name holds, `argument` of `what`. */
int array_find(struct fusion_context *c, fusion_array *name, const char *what, const char *argument, struct fusion_array **ap,
	struct fault *f) FAULT_MUST_USE;
/* An array of another context, or of one that was closed. */
int array_refuse_other(const struct fusion_array *a, const char *what, const char *argument, struct fault *f);
/* The same where a list says which: "input 2". */
int array_find_in(struct fusion_context *c, fusion_array *const *list, unsigned i, const char *what, const char *argument,
	struct fusion_array **ap, struct fault *f) FAULT_MUST_USE;
/* Without a lock, for what is made of other calls: does the name hold? Else the error is the thread's; for NULL an earlier one stays. */
bool array_given(const fusion_array *name, const char *what, const char *argument);
bool context_given(const fusion_context *name, const char *what);
/* Gives an array another value of the same type. */
void array_rebind(struct fusion_array *a, struct value *v);
/* Can its contents be used now: not failed, not mapped for writing, not part of a capture? */
int array_usable(const struct fusion_array *a, const char *what, struct fault *f) FAULT_MUST_USE;

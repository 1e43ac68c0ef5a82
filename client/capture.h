/*
 * Graphs recorded once.
 *
 * A capture belongs to the thread that began it: operations of other threads are recorded as ever.
 * Its values are symbols without contents. Inputs are the arrays named at the beginning, and
 * after them the arrays from outside that operations used ("hidden"): replay passes whatever value
 * these have at that time. Uploads inside a capture are outside of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "value.h"

struct fusion_context;

struct recording;
struct wire_writer;

/* What DEFINE says of a recorded graph: outlives it, where a replay may have to be repeated. */
struct capture_text {
	uint32_t references, id;
	uint64_t serial;
	struct place *place;         /* of each operation; NULL: there was no memory for them */
	uint32_t operations;
	bool bound;                  /* it names operations by numbers of one engine's: no other is told it */
	size_t types_at, ops_at, bytes;
	unsigned char text[];        /* its number, types at types_at, operations and outputs at ops_at */
};

struct capture_text *capture_text_ref(struct capture_text *t);       /* NULL is allowed, and returned */
void capture_text_unref(struct capture_text *t);                     /* NULL is allowed */
/* The engine knows the graph under its number, in place of any other. */
int capture_text_tell(struct fusion_context *c, const struct capture_text *t, struct fault *f) FAULT_MUST_USE;

/* Does the text say to the engine that is there what it said to the one before? */
bool capture_text_holds(const struct fusion_context *c, const struct capture_text *t);
/* The refusal where it does not. */
int capture_lost(const char *what, struct fault *f);

/* EXPLAIN of it. */
void capture_text_explain(const struct capture_text *t, struct wire_writer *w, unsigned flags);
/*
 * Begins a call about a recorded graph, which record_end_code() ends: 0, and a reference to its text, or why that is not known. r->context NULL: the
 * call is refused, and the error the thread's.
 */
int capture_definition(struct recording *r, const char *what, fusion_capture *capture, struct capture_text **textp) FAULT_MUST_USE;

/* Is the calling thread recording a capture? */
bool capture_mine(const struct fusion_context *c);
/* A new value belongs to the calling thread's capture. */
void capture_enlist(struct fusion_context *c, struct value *v);
/* A captured value is gone. */
void capture_delist(struct fusion_context *c, struct value *v);
/* What an array stands for as an operand: its value, or a symbol of the thread's capture. */
int capture_operand(struct fusion_context *c, struct fusion_array *a, const char *what, struct value **vp,
	struct fault *f) FAULT_MUST_USE;
/* Refuses arrays that have no contents because they stand in a capture, and in the thread that records those which replay is given. */
int capture_readable(const struct fusion_array *a, const char *what, struct fault *f) FAULT_MUST_USE;
/* Does an array, or any of these values, stand in the graph that the calling thread records? */
bool capture_has(const struct fusion_array *a);
bool capture_among(const struct fusion_context *c, unsigned count, struct value *const *value);
/* Marks and numbers what was recorded so far and leads to those of the values that stand there, *outputsp of them; how many. 0: nothing. */
uint32_t capture_mark(struct fusion_context *c, unsigned count, struct value *const *value, uint32_t *outputsp);
/* EXPLAIN of what is marked. */
void capture_put_explain(struct fusion_context *c, struct wire_writer *w, uint32_t operations, uint32_t outputs, unsigned count, struct value *const *value,
	unsigned flags);
/* All that was recorded. */
const struct value_list *capture_recorded(const struct fusion_context *c);
/* Refuses to give an array from outside a new value inside a capture. */
int capture_writable(const struct fusion_array *a, const char *what, struct fault *f) FAULT_MUST_USE;
/* Gives up the capture under way, if any: the context closes. One that is being ended fails by itself. */
void capture_close(struct fusion_context *c);

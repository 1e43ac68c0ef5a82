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

/* What DEFINE says of a recorded graph: outlives it, where a replay may have to be repeated. */
struct capture_text;

struct capture_text *capture_text_ref(struct capture_text *t);       /* NULL is allowed, and returned */
void capture_text_unref(struct capture_text *t);                     /* NULL is allowed */
/* The engine knows the graph under its number, in place of any other. */
int capture_text_tell(struct fusion_context *c, const struct capture_text *t, struct fault *f) FAULT_MUST_USE;

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
/* Refuses to give an array from outside a new value inside a capture. */
int capture_writable(const struct fusion_array *a, const char *what, struct fault *f) FAULT_MUST_USE;
/* Gives up the capture under way, if any: the context closes. One that is being ended fails by itself. */
void capture_close(struct fusion_context *c);

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

/* Is the calling thread recording a capture? */
bool capture_mine(const struct fusion_context *c);
/* A new value belongs to the calling thread's capture. */
void capture_enlist(struct fusion_context *c, struct value *v);
/* A captured value is gone. */
void capture_delist(struct fusion_context *c, struct value *v);
/* What an array stands for as an operand: its value, or a symbol of the thread's capture. */
int capture_operand(struct fusion_context *c, fusion_array *a, const char *what, struct value **vp,
	struct fault *f) FAULT_MUST_USE;
/* Refuses arrays that have no contents because they stand in a capture. */
int capture_readable(const fusion_array *a, const char *what, struct fault *f) FAULT_MUST_USE;
/* Refuses to give an array from outside a new value inside a capture. */
int capture_writable(const fusion_array *a, const char *what, struct fault *f) FAULT_MUST_USE;
/* Gives up the capture under way, if any: the context closes. */
void capture_abort(struct fusion_context *c);

/*
 * fusion.debug: every operation is sent alone and what it made is read back, so that the first
 * NaN or infinity is found where it arises and named with the caller's line. Loads and fills are
 * the caller's own numbers and never to blame. An index of a gather or scatter that is beyond its axis, which gives 0 or
 * is left out, is an error of the operation as well.
 */
#pragma once

#include "protocol/fault.h"

struct fusion_context;
struct value;

/* The setting of a context that switches it, which no daemon knows. */
#define DEBUG_SETTING "fusion.debug"

/*
 * Sends what is pending and checks a value that is pending or sent. Where it is the first that is
 * not finite the fault is NONFINITE, and the thread's error stays until it is cleared. The value
 * must be held by somebody. An index beyond its axis is an ARGUMENT, and does not stay.
 */
int debug_check(struct fusion_context *c, struct value *v, struct fault *f) FAULT_MUST_USE;

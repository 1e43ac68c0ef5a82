/*
 * fusion.debug: every operation is sent alone and what it made is read back, so that the first
 * NaN or infinity is found where it arises and named with the caller's line. Loads and fills are
 * the caller's own numbers and never to blame.
 */
#pragma once

#include "protocol/fault.h"

struct fusion_context;
struct value;

/*
 * Sends what is pending and checks a value that is pending or sent. Where it is the first that is
 * not finite the fault is NONFINITE, and the thread's error stays until it is cleared. The value
 * must be held by somebody.
 */
int debug_check(struct fusion_context *c, struct value *v, struct fault *f) FAULT_MUST_USE;

/*
 * A trial of an operation that an administrator defined: it is run on random data before anybody may call it.
 *
 * Operands are squares of an odd size that hold every kind of special value, once row-major and once transposed; integers
 * that trap together, as the least and -1 in a division, meet here and not in a client's arrays. What
 * goes before and after shares its kernels. All of it is run as the planner fuses it and one operation at a time,
 * and both must give the same bits (every NaN counts as one), unless the operation is declared inexact; then it need
 * only build and run. One with a body is tried on every element type that it takes and the device computes.
 *
 * A body that is to stand for a pattern is compared with the pattern's own operations, too, in each element type.
 * Types in which the bits differ are not its; where no type is left, and it is not declared inexact, it is refused.
 *
 * An own operation is OWN_TRIED meanwhile (protocol/own.h): op_infer() lets its graph pass, and the codec no client's.
 *
 * Nothing waits here: trial_turn() goes on when exec has called back.
 */
#pragma once

#include <stdbool.h>

#include "protocol/definition.h"
#include "daemon/exec/exec.h"

struct trial;

struct trial_config {
	struct exec *exec;
	const struct traits *traits;
	const char *name;
	const struct definition *definition; /* of an expression, or NULL; must stay */
	unsigned op;                         /* else the number of the operation with a body */
	const struct template *pattern;      /* ... and the expression that the body is to stand for, or NULL; must stay */
	bool inexact;
};

/* Begins. 0, -errno, or the fault of an operation that cannot be tried. */
int trial_new(const struct trial_config *c, struct trial **trialp, struct fault *f) FAULT_MUST_USE;
struct trial *trial_free(struct trial *t);       /* at any time; returns NULL */
/* Has exec called back all that is awaited, so that a turn goes on? */
bool trial_ready(const struct trial *t);
/* The element types (1 << enum dtype) in which a body has given the bits of its pattern so far. */
uint32_t trial_exact(const struct trial *t);
/* Goes on. False while it waits; else the verdict: f->code 0, or why it is refused. */
bool trial_turn(struct trial *t, struct fault *f);

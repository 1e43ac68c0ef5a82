/*
 * Knobs: what of a kernel may be one way or another without a bit of its results changing (daemon/base/knobs.def).
 *
 * Rules and the cost model turn all of them first, as they plan. Which of a knob's values is the fastest for one kernel over
 * one set of extents is learned by trying (tracker.h), and kept by the kernel (tuning.h), not by the graph that it is part of: other
 * graphs with that kernel have it, too. Knobs are turned last, when the steps of a plan are there, so a plan is of the
 * same kernels over the same memory whatever is chosen: only how one of them does its work differs. The setting fusion.knobs says
 * values for all kernels of a session: then nothing is learned of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/knob.h"
#include "daemon/base/traits.h"

struct kernel;
struct plan_step;

/* One knob of one kernel at another value than is chosen. */
struct knob_variant {
	uint64_t kernel;               /* plan_step.identity; 0: none */
	uint8_t knob, value;
};

/* 0 of none. */
uint64_t knobs_pins_hash(const struct knob_pins *pins);

/*
 * Names a kernel over its extents, never 0: a function of what the rules made, the same in every process of this version. Of a product,
 * an attention or a convolution what the root reads counts alone, not what follows it: it is the same kernel fused and not.
 */
uint64_t knobs_kernel(const struct plan_step *s);
/* Does this value, other than the rule's, make the step another one? Requires the step as the rules made it, but for knobs. */
bool knob_applies(unsigned knob, unsigned value, const struct plan_step *s, const struct traits *t);
/* Turns the knobs that apply. `own` is the step's kernel, which nobody else uses. */
void knobs_turn(const struct knobs *knobs, struct plan_step *s, struct kernel *own, const struct traits *t);

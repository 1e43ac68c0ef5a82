/*
 * What was learned of kernels: which values of knobs (knobs.h) they run fastest with, and what was compared.
 *
 * It decides nothing about times; tracker.h does. A kernel that was not compared is as the rules say.
 */
#pragma once

#include <stdio.h>

#include "knobs.h"
#include "protocol/fault.h"

struct plan;

enum {
	/* Kernels remembered; the oldest is forgotten. A line of 100 bytes each on disk. */
	TUNING_KERNELS = 4096,
	/* Comparisons of a value that are counted. */
	TUNING_ROUNDS = 255,
};

struct tuning;

/* NULL: out of memory. */
struct tuning *tuning_new(void);
struct tuning *tuning_free(struct tuning *t);

/* All as the rules say where nothing is known. */
struct knobs tuning_choice(const struct tuning *t, uint64_t kernel);
/* Changes with each choice. */
uint64_t tuning_serial(const struct tuning *t);
/* Kernels with a value other than the rules', and known ones. */
unsigned tuning_turned(const struct tuning *t);
unsigned tuning_kernels(const struct tuning *t);

/*
 * What should be compared next of a plan that runs as is chosen: a value that never was, of the kernel that takes most of the
 * plan's time; or, `again`, the one that was compared least often. False: nothing. Kernels that take little of the time are left alone,
 * since no difference would be seen.
 */
bool tuning_next(const struct tuning *t, const struct plan *p, const struct traits *traits, bool again, struct knob_variant *v);
/* How many values of knobs may be compared with the chosen ones of such a plan's kernels, and how many of these were. */
struct tuning_progress {
	unsigned values, compared;
};
struct tuning_progress tuning_progress(const struct tuning *t, const struct plan *p, const struct traits *traits);
/* A comparison has ended. Where memory is short it is not counted. */
void tuning_compared(struct tuning *t, const struct knob_variant *v);
/* 0 or -ENOMEM. */
int tuning_choose(struct tuning *t, const struct knob_variant *v) FAULT_MUST_USE;

/* A line a kernel, which tuning_read() takes; one that does not read is passed over. */
void tuning_write(const struct tuning *t, FILE *out);
void tuning_read(struct tuning *t, const char *line);

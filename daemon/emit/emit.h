/*
 * From a kernel to OpenCL C, and from extents to a launch.
 *
 * The source is a function of the kernel and the traits alone: the same pair always gives the
 * same text, which is the key of the program cache. emit calls no OpenCL.
 */
#pragma once

#include "daemon/base/str.h"
#include "daemon/base/traits.h"
#include "daemon/plan/kernel.h"
#include "daemon/plan/knobs.h"

/* Appends the whole source; the entry point is `fused`. 0 or -ENOMEM. */
int emit_source(const struct kernel *k, const struct traits *t, struct str *source) FAULT_MUST_USE;

/* Appends what a person wants to read of it: the functions of the operations and the kernel. 0 or -ENOMEM. */
int emit_body(const struct kernel *k, const struct traits *t, struct str *body) FAULT_MUST_USE;

/*
 * The source of the kernel that measures arithmetic (device/rates.c), of f32 or f64:
 *
 *     kernel void rates(global const uchar *in, global uchar *out, uint what, uint count, uint repeat)
 *
 * Each group walks `count` (a power of 2) vectors an item of its own part of `in` and `out`, `repeat`
 * times, and applies class `what` emit_rates_ops() times to each element.
 * Inputs are from 0.1 to 0.9. 0 or -ENOMEM.
 */
int emit_rates(enum rate_float type, const struct traits *t, struct str *source) FAULT_MUST_USE;
unsigned emit_rates_ops(unsigned what, enum strategy s);

/* Options the source is built with. */
void emit_options(const struct traits *t, struct str *options);

struct emit_launch {
	uint64_t items; /* global size in dimension 0; never 0, whole groups */
	uint32_t local; /* local size in dimension 0; a function of kernel and traits */
};

/*
 * How a task of these extents is cut: writes the words KERNEL_WORD_ITEMS to KERNEL_WORD_BEGIN of
 * the record (extent is the caller's: elements reduced, or K; 0 for MAP, where the word then holds
 * the elements of a piece) and returns the launch. When several tasks share a launch, its size is
 * the largest of theirs. A task without elements gets no items and is safe to launch.
 */
struct emit_launch emit_geometry(const struct kernel *k, const struct traits *t, const int64_t *dims,
	uint64_t extent, uint64_t *record);
/* The same where knobs (daemon/plan/knobs.h) may be turned. */
struct emit_launch emit_geometry_turned(const struct kernel *k, const struct traits *t, const int64_t *dims,
	uint64_t extent, const struct knobs *knobs, uint64_t *record);

/*
 * May a task be launched in slices? A slice is a launch of its own with the record of the task, but for two words:
 * KERNEL_WORD_ITEMS, how many items it has, and KERNEL_WORD_BEGIN, the unit that the first of them begins with,
 * a multiple of KERNEL_WORD_UNITS_PER_ITEM. In order, one after the other: items of two slices may share memory of
 * their own. Not where an item finds more than its units by its number, as sorts and scatters do.
 */
bool emit_divisible(const struct kernel *k, const struct traits *t);

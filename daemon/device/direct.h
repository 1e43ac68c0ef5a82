/*
 * Kernels whose code this process loads and calls itself, where a driver does badly with many.
 *
 * PoCL 3.1 keeps what it loaded in a list that it searches from the front at each launch, never lets go of what a launch of several threads used, and
 * beyond 128 closes and opens what runs on the calling thread at every launch (quirks.def). So only the first programs go its way. Of others, the
 * code that it has compiled is loaded by us, and one kernel of the driver's calls whichever it is told to: so the driver has one kernel, launches of
 * the engine's own thread need no driver at all, and what nobody uses is let go of (resident.c).
 *
 * What stands between is tried before: the kernel that calls is called itself, and calls back. Where that fails, all goes the driver's way.
 */
#pragma once

#include "state.h"

/* The function of a kernel's code, as the driver calls it: a pointer to each argument, what is common to all groups, the group. */
typedef void direct_code(void *const *arguments, const void *common, size_t x, size_t y, size_t z);

/* By a builder, which counts a program that goes the driver's way. True: this one shall not. */
bool direct_wanted(struct builder *b);
/* Loads what the entry of the driver's cache holds, which is sealed. False where there is none. */
bool direct_load(struct program *p, const char *entry);
/* The same entry once more; false where it is not there any more, or not as it was. The engine's. */
bool direct_load_again(struct program *p);
void direct_unload(struct program *p);
/* All items of all tasks, on this thread. */
void direct_run(const struct device *d, const struct program *p, uint64_t first, size_t items, size_t tasks);
/* The driver's kernel that calls the program's; NULL: the driver refuses. */
cl_kernel direct_object(struct device *d, const struct program *p, uint64_t first);
void direct_close(struct device *d);

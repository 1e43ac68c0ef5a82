/*
 * Which programs' code stays in memory: the engine's.
 *
 * A program is owned by the device's table, and its users hold it for as long as they like; its code, whoever has loaded it, stays while it is used. Beyond
 * config.programs_bytes the code of those that were launched longest ago is let go of, never of one that runs or may be launched on another thread
 * at the time. The next launch loads it again, from the caches; what they have no more is built again, and the launch is told to come later.
 */
#pragma once

#include "state.h"

/* It has been built. */
void resident_add(struct device *d, struct program *p);
/* Before a launch. 0: its code is there; -EAGAIN: not yet. */
int resident_use(struct device *d, struct program *p) FAULT_MUST_USE;
/* Lets go of what is too much. */
void resident_limit(struct device *d);
/* Of a program that goes, with all its objects. */
void resident_drop(struct device *d, struct program *p);

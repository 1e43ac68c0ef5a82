/*
 * Hands out ranges of a fixed span of bytes: the layout of an arena or of a device pool.
 *
 * Offsets and sizes are multiples of LIMIT_ALIGNMENT. Best fit in O(log n), freed neighbours
 * merge at once. It never touches the memory it describes. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"

struct range;

/* 0 or -ENOMEM. */
int range_new(uint64_t bytes, struct range **rangep) FAULT_MUST_USE;
struct range *range_free_all(struct range *r);    /* returns NULL */
/* *offsetp, or -ENOSPC where no hole is large enough, or -ENOMEM. A size of 0 takes one unit. */
int range_take(struct range *r, uint64_t bytes, uint64_t *offsetp) FAULT_MUST_USE;
/* Takes these very bytes: 0, -ENOSPC where some are taken already or lie outside, -EINVAL where the offset is no multiple, or -ENOMEM. */
int range_take_at(struct range *r, uint64_t offset, uint64_t bytes) FAULT_MUST_USE;
/* Gives back what range_take returned; the same bytes as asked for. -EINVAL where it is not taken. */
int range_give(struct range *r, uint64_t offset, uint64_t bytes) FAULT_MUST_USE;
uint64_t range_used(const struct range *r);
bool range_empty(const struct range *r);
uint64_t range_largest(const struct range *r);

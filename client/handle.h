/*
 * Handles: the names by which the daemon knows values, (generation << 32 | slot).
 *
 * A slot is used again once the request that releases its handle has been written; sequence
 * numbers then keep the two uses apart, and the generation tells a stale handle.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/limits.h"

struct value;

struct slot {
	uint32_t generation;         /* of the current or the last use */
	uint32_t next;               /* in the chain of free slots */
	struct value *value;         /* NULL where it is free or released */
};

struct slots {
	struct slot *slot;
	uint32_t count, room;
	uint32_t free;               /* first free slot, or LIMIT_HANDLES */
	uint32_t free_count;
	uint64_t *released;          /* handles the daemon does not know of yet; room for every slot */
	uint32_t released_count;
	uint64_t released_bytes;
};

/* NULL where memory is short. */
struct slots *slots_new(void);
struct slots *slots_free(struct slots *s);           /* returns NULL */
/* Makes sure that `count` more slots can be taken: 0, FAULT_LIMIT or -ENOMEM. */
int slots_reserve(struct slots *s, uint32_t count, struct fault *f) FAULT_MUST_USE;
/* A reserved handle for a value. */
uint64_t slots_take(struct slots *s, struct value *v);
/* Takes back a handle that the daemon never heard of, or refused. */
void slots_forgo(struct slots *s, uint64_t handle);
/* A handle that the daemon may know or not: its slot stays taken. */
void slots_give_up(struct slots *s, uint64_t *handle);
/* The value is gone: its handle will be released. bytes is its size. */
void slots_release(struct slots *s, uint64_t handle, uint64_t bytes);
/* The first `count` releases have been written: their slots may be used again. */
void slots_recycle(struct slots *s, uint32_t count);
/* Releases that were not written: the daemon needs no word of those that are not kept, and their slots may be used again. */
void slots_keep_released(struct slots *s, bool (*keeps)(void *user, uint64_t handle), void *user);
/* The value in a slot, or NULL. */
struct value *slots_value(const struct slots *s, uint32_t slot);

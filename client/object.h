/*
 * Objects that a program names: contexts, arrays, captures and futures.
 *
 * What fusion.h calls a pointer to one is no address but a name: kind, slot and generation in one word. So a name that was given back, that
 * is of another kind, or that is no name at all is told from one that holds, without looking at any memory but ours:
 *
 *	63     60 59          32 31             0
 *	[ kind   | slot         | generation     ]
 *
 * No address of a program has a kind in its first bits. An object's generation is odd while its name holds; a slot whose generations are used up
 * is never used again, so an old name stays old for ever.
 *
 * Objects lie in chunks, each twice the one before, that are never freed and never move: a name is looked up without a lock, and who comes too late
 * finds an object of the same kind, in whose place its own one was. The lock of a context is valid for ever, too, so to be sure is: find, take the lock of the
 * object's context, and look at the generation once more (context_lock()). What an object refers to is for who has the lock; its type and generation for everybody.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

_Static_assert(sizeof(void *) == 8, "a name is kind, slot and generation");

enum object_kind {
	OBJECT_ARRAY = 1,
	OBJECT_CONTEXT,
	OBJECT_CAPTURE,
	OBJECT_FUTURE,
	OBJECT_KINDS,
};

enum {
	OBJECT_SLOT_BITS = 28,
	OBJECT_SLOTS = 1 << OBJECT_SLOT_BITS,        /* of a kind: as many as a name can tell apart */
	/* The first chunk of a kind has 1 << 3 objects at least. */
	OBJECT_CHUNKS = OBJECT_SLOT_BITS - 3 + 1,
	/* Arrays that a context takes from the table, or gives back, at a time. */
	OBJECT_BATCH = 64,
};

/* The first member of every object; its end is what becomes of it when it is given back. */
struct object {
	_Atomic uint32_t generation;
	uint32_t slot;
	_Atomic(struct fusion_context *) context;    /* whose lock guards it; of a context itself */
	_Atomic uint64_t ended;                      /* where the program gave its last name back, see object.c */
	struct object *next;                         /* in a chain of spare ones */
};

struct object_chain {
	struct object *first, *last;
	uint32_t count;
};

/* Objects of one kind. */
struct object_table {
	_Atomic(char *) chunk[OBJECT_CHUNKS];
	uint32_t size;               /* of an object; known with the first chunk */
	uint32_t first_bits;         /* the first chunk has 1 << first_bits */
	const char *kind, *ended;    /* "an array", "was released" */
	pthread_mutex_t lock;        /* of the rest */
	uint32_t used;               /* slots that were ever taken */
	struct object_chain spare;
};

extern struct object_table object_tables[OBJECT_KINDS];

/* An object without a name: zeros where it is new, else as it was given back. size: that of all of its kind. NULL: no memory, or no slot. */
void *object_take(enum object_kind kind, size_t size);
void object_give(enum object_kind kind, struct object *o);
/* OBJECT_BATCH at once, for who has many; false where there is not even one. `count` of a chain, from its beginning. */
bool object_take_batch(enum object_kind kind, size_t size, struct object_chain *chain);
void object_give_batch(enum object_kind kind, struct object_chain *chain, uint32_t count);

void object_chain_push(struct object_chain *chain, struct object *o);        /* the next that is taken */
void object_chain_append(struct object_chain *chain, struct object *o);      /* the last */
struct object *object_chain_pop(struct object_chain *chain);                 /* NULL: it is empty */

/* From here on its name holds: everything in it is ready. */
void *object_name(enum object_kind kind, struct object *o);
/* The name that holds. */
void *object_name_of(enum object_kind kind, const struct object *o);
/* It does not hold any more, and the place of the call is noted; false where another thread was first. */
bool object_end(struct object *o, const void *name);

/*
 * Why a name is refused: FAULT_STATE where it was given back, else FAULT_ARGUMENT. `what` is the function, `argument` what the name was given as ("the
 * array", "input 2").
 */
int object_refuse(enum object_kind kind, const void *name, const char *what, const char *argument, struct fault *f);
/* The same as the thread's error; for NULL, which an earlier call may have returned, that call's error stays. Returns the code. */
int object_report(enum object_kind kind, const void *name, const char *what, const char *argument);

/* For the handlers of fork(). */
void object_before_fork(void);
void object_after_fork(void);

/* Does the name hold now? */
static inline bool object_is(const struct object *o, const void *name) {
	return atomic_load_explicit(&o->generation, memory_order_acquire) == (uint32_t)(uintptr_t)name;
}

/* The object in the slot of a name, whatever its generation; NULL: there is none. */
static inline struct object *object_at(enum object_kind kind, const void *name) {
	const struct object_table *t = &object_tables[kind];
	uint64_t word = (uintptr_t)name;
	uint32_t slot = (uint32_t)(word >> 32) % OBJECT_SLOTS + (UINT32_C(1) << t->first_bits);
	uint32_t bits = 31 - (uint32_t)__builtin_clz(slot);
	char *chunk;

	if (word >> (32 + OBJECT_SLOT_BITS) != kind || bits - t->first_bits >= OBJECT_CHUNKS)
		return NULL;
	chunk = atomic_load_explicit(&t->chunk[bits - t->first_bits], memory_order_acquire);
	return chunk ? (struct object *)(void *)(chunk + (size_t)(slot - (UINT32_C(1) << bits)) * t->size) : NULL;
}

/* The object of a name that holds now, or NULL. */
static inline struct object *object_find(enum object_kind kind, const void *name) {
	struct object *o = object_at(kind, name);

	return o && (uintptr_t)name % 2 && object_is(o, name) ? o : NULL;
}

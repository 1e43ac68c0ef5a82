/*
 * One session with the daemon: everything that a context owns, and its lock.
 *
 * Functions below the public ones require the lock (context_enter) unless they say otherwise.
 * A thread gives the lock up only inside stream_room(), stream_wait() and the calls of door.h, so whatever is read
 * before one of these is looked at again after it.
 *
 * A context is referenced by its user until fusion_close(), and by every array, capture and
 * future; the last one frees it.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/limits.h"
#include "protocol/wire.h"
#include "arena.h"
#include "door.h"
#include "object.h"
#include "repeat.h"
#include "slab.h"
#include "stream.h"
#include "value.h"

enum {
	DEVICE_TEXT = 256,
	SCALARS_KEPT = 16,
	BATCH_OPS_DEFAULT = 1024,
	/* As many as the door takes with a greeting. */
	SETTINGS_KEPT = 64,
};

struct fusion_context {
	struct object object;
	pthread_mutex_t lock;            /* stays, also where the context is freed: see object.h */
	bool lock_ready;
	/* What is behind this begins as zeros. */
	uint32_t references;
	bool closed;
	fusion_context *name;            /* which the program has, or had until it closed it */
	bool debug;
	uint32_t batch_ops;
	struct fusion_context *next;     /* list for fork(), see context.c */

	struct fusion_options options;   /* what another context needs to find the same daemon; its texts are ours */
	struct door door;
	struct stream stream;
	struct arenas arenas;

	struct slab values, attrs, tapes;
	struct object_chain spare_arrays;
	struct value_list pending;
	uint64_t pending_bytes;          /* bounds the frame, see flush.c */
	uint64_t pending_loads;          /* bytes of uploads that wait to be sent */
	struct value *scalars[SCALARS_KEPT];     /* pending rank-0 fills, by hash; weak */

	struct slots *slots;             /* handles: see handle.h */
	struct repeats repeats;          /* batches that may have to be sent twice */
	struct sent *sent;         /* places of operations on the way: see sent.h */
	struct failure last_failure;     /* of values, where there is no memory for one of their own */
	struct fault deferred;           /* found later, of no array anybody waited for; code 0: none */

	struct rule *rules;              /* of gradients: see rule.h */
	uint64_t kept_bytes, kept_peak;  /* contents that tapes keep */

	struct defined *definitions;     /* of fusion_define_op() and of the daemon, newest first */
	struct own_pattern *patterns;        /* that this session defined: see pattern.h */
	struct fusion_capture *capture;  /* being recorded, or NULL */
	/* Of this session, as they hold now: another engine begins with them. */
	char *setting[SETTINGS_KEPT];    /* the name, and behind its end the value */
	unsigned settings;

	uint64_t captures_made;
	bool capture_used[LIMIT_CAPTURES];
	uint64_t capture_known[LIMIT_CAPTURES];  /* serial numbers of those that the engine knows; 0: none */
	uint64_t capture_engine;         /* counts engines: what one has answered the next one does not know */
};

/*
 * Lock the context of a call, `what`, by the name that the program gave: 0, or the code of the error that is now the thread's. They refuse
 * what is no name (any more), a forked child, a closed context and a lost connection; and give the lock up where another engine is
 * to be told first.
 */
int context_enter(fusion_context *name, const char *what, struct fusion_context **cp) FAULT_MUST_USE;
/* That of an array, `argument`, capture or future: the object, which its name holds now; NULL: refused. */
struct object *context_enter_of(enum object_kind kind, const void *name, const char *what, const char *argument) FAULT_MUST_USE;
/* Ends the call: while it waits another thread may close the context, which lives until the last call has left. */
void context_leave(struct fusion_context *c);
/* Unlocks, where no call was begun; frees the context where nothing refers to it any more. */
void context_unlock(struct fusion_context *c);
/* For release: they lock also a closed or lost context. NULL: refused, or a forked child: touch nothing. */
struct object *context_lock(enum object_kind kind, const void *name, const char *what, const char *argument) FAULT_MUST_USE;

/* Name and value of one that the engine has taken, malloc'd; takes it over. NULL: nothing. */
void context_keep_setting(struct fusion_context *c, char *setting);
/* The settings to go on with, without switches of patterns; how many. Texts are the context's. */
unsigned context_settings(const struct fusion_context *c, struct door_setting setting[static SETTINGS_KEPT]);
/* Of a call whose context another thread closed meanwhile: what came may point to what is the daemon's again. */
int context_refuse_closed(struct fault *f);
/* Of a call with what is of a context that was closed before. */
int context_refuse_closed_of(const char *what, const char *argument, struct fault *f);
/* Without its lock; of a context that has had its name. */
static inline bool context_is_closed(const struct fusion_context *c) {
	return !(atomic_load_explicit(&c->object.generation, memory_order_acquire) % 2);
}
/* True in a process forked from one that had opened a context. */
bool context_forked(void);
int context_forked_fault(struct fault *f);

/*
 * How requests travel: an interface with an implementation over nng, which has threads of its own, one over
 * shared memory, and one to another machine, which have none: there the threads that wait for answers read them.
 *
 * submit() never waits for an answer, and never calls back from inside. Each request that was
 * submitted is answered by exactly one call of reply(), on a thread of the transport or inside wait(), in any
 * order: with result 0 and the bytes (valid during the call), or a negative errno. broken() may be
 * called once, when the connection ends; requests not answered by then may stay so until the
 * transport is freed.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "protocol/fault.h"

#define TRANSPORT_ANY_SLOT (~0U)

struct transport_events {
	void (*reply)(void *user, unsigned slot, int result, const void *bytes, size_t size);
	void (*broken)(void *user);
	void *user;
};

struct transport {
	/* slot is below the count given at creation and has no request under way. 0 or -errno. */
	int (*submit)(struct transport *t, unsigned slot, const void *bytes, size_t size);
	/* Ends the connection and frees t; when it returns nothing calls back any more. Must not be
	 * called from a callback. */
	void (*free)(struct transport *t);

	/* NULL where only broken() tells: has the connection ended? Costs no more than a look. */
	bool (*stale)(const struct transport *t);

	/* What follows is NULL where the transport has threads of its own. */

	/* Wakes the daemon where it sleeps: it may have slept through what was submitted since the last call. 0 or -errno. */
	int (*push)(struct transport *t);
	/*
	 * Reads answers and calls back, sleeping until there are some. 0; -ETIMEDOUT when the deadline (of the
	 * monotonic clock; NULL: none) has passed; another -errno once the connection has ended. One thread at a time.
	 */
	int (*wait)(struct transport *t, const struct timespec *deadline);
	/* Once: from now on a thread of the transport waits, and nobody else may. 0 or -errno. */
	int (*watch)(struct transport *t);
	/* wait() returns now and from now on. To be called before free() where another thread may be inside it. */
	void (*interrupt)(struct transport *t);
	/*
	 * A submit() that waits for room returns -ECANCELED, now and from now on. From any thread, without the lock
	 * that submit() is called under.
	 */
	void (*leave)(struct transport *t);

	/*
	 * Answers of these slots (bits) alone need wake who calls wait() next, and whoever reads after that, until this is called again;
	 * others are read with them. TRANSPORT_ANY_SLOT, as at first: from any thread, also for who is inside wait(). NULL: all wake.
	 */
	void (*await)(struct transport *t, uint32_t slots);
	/* Before a request is submitted in this slot: its answer wakes, too. */
	void (*heed)(struct transport *t, unsigned slot);

	/* What follows is NULL where memory is shared. */

	/* What the other side said before it ended the connection: false: nothing. */
	bool (*last_word)(const struct transport *t, struct fault *f);

	/* Bytes of an arena, which the daemon has before what is submitted next. 0 or -errno. */
	int (*upload)(struct transport *t, uint32_t arena, uint64_t offset, const void *bytes, uint64_t size);
	/* The answer to what is submitted next in this slot brings so many bytes of an array, or is a fault. */
	void (*expect)(struct transport *t, unsigned slot, uint64_t bytes);
	/* Submits the question for an arena, answered by [ARENA, arena, bytes]. 0 or -errno. */
	int (*ask_arena)(struct transport *t, unsigned slot, uint64_t bytes);
	/* Inside reply(): the bytes that came, all that were expected, malloc'd and now the caller's; NULL: none. */
	void *(*result)(struct transport *t, unsigned slot);
};

/* ---- transports without threads of their own: transport.c ---- */

/*
 * What those have in common: who waits for an answer reads, for all requests, until a thread does so for good. The transport
 * is the first member, and this the first one of theirs.
 */
struct transport_reader {
	struct transport base;
	struct transport_events events;
	unsigned slots;
	uint32_t timeout_ms;
	pthread_mutex_t reading;             /* who reads */
	atomic_uint busy;                    /* set of slots */
	atomic_bool interrupted, broken;
	atomic_bool leaving;                 /* nobody is to wait for room any more */
	atomic_bool watching;                /* there is a thread that reads: others must leave */
	bool watched;
	pthread_t watcher;
	/*
	 * Reads answers and calls back, sleeping until there are some; under `reading`. 0; -ETIMEDOUT when deadline_us (of the
	 * monotonic clock; 0: none) has passed; another -errno, -ECANCELED where it is over. 0 also where somebody watches: unless
	 * `watcher`, which is that thread.
	 */
	int (*read)(struct transport_reader *r, uint64_t deadline_us, bool watcher);
	/* Who sleeps in read() looks at the flags. */
	void (*wake)(struct transport_reader *r);
};

/* Also sets wait, watch and interrupt of the transport. */
void transport_reader_init(struct transport_reader *r, unsigned slots, uint32_t timeout_ms, const struct transport_events *events);
/* Ends the watcher, and tells of requests that will not be answered. The memory stays the caller's. */
void transport_reader_end(struct transport_reader *r);
static inline bool transport_over(const struct transport_reader *r) {
	return atomic_load(&r->interrupted) || atomic_load(&r->broken);
}
/* The connection has ended: tells so once; returns -EPIPE. */
int transport_break_off(struct transport_reader *r);
/* The slot's request is under way; has been answered: false where there was none. */
void transport_asked(struct transport_reader *r, unsigned slot);
bool transport_answered(struct transport_reader *r, unsigned slot);

/* What the door gave for a ring; the descriptors stay the caller's, and open until the transport is freed. */
struct transport_ends {
	int memory;                  /* may be closed at once */
	int bell, door;
};

/* Uses the session's ring, with `slots` requests at a time. */
int transport_ring_open(const struct transport_ends *ends, unsigned slots, uint32_t timeout_ms,
	const struct transport_events *events, struct transport **transportp, struct fault *f) FAULT_MUST_USE;
struct link;

/* Uses a connection on which the door was entered; it stays the caller's, and open until the transport is freed. */
int transport_remote_open(struct link *link, unsigned slots, uint32_t timeout_ms, const struct transport_events *events,
	struct transport **transportp, struct fault *f) FAULT_MUST_USE;
/* Connects to a URL of the daemon, with `slots` requests at a time. */
int transport_dial(const char *url, unsigned slots, const struct transport_events *events,
	struct transport **transportp, struct fault *f) FAULT_MUST_USE;

/*
 * Threads that sleep for something of their context, each woken for what it waits for.
 *
 * Where the transport has no thread of its own, one of those that sleep reads the answers for all (leader and followers, elsewhere). It reads on until
 * something has come for itself; then it leaves, and another one takes its place: one that was woken, and comes back to sleep, or has found nothing, else
 * who has slept longest. So wherever somebody sleeps and nobody reads, one of the sleepers is on its way to look; whoever leaves sees to that.
 *
 * All with the context's lock, which is given up while a thread sleeps or reads.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct fusion_context;
struct request;
struct stream;

enum sleeper_reason {
	SLEEPER_ANSWER,              /* to one request */
	SLEEPER_ROOM,                /* for requests; of several who came first */
	SLEEPER_ANYTHING,            /* that has been answered */
};

/* What a thread sleeps for. */
struct sleeper_wish {
	enum sleeper_reason reason;
	const struct request *request;       /* ANSWER */
	unsigned room;               /* ROOM: for so many; where none ends soon one will do */
};

/* In the frame of a thread that sleeps. */
struct sleeper {
	struct sleeper *next;
	struct sleeper_wish wish;
	bool looks;                  /* there is something to look at: it sleeps no longer */
	atomic_uint state;           /* a futex */
};

enum {
	/* Those beyond are woken before the lock is given up. */
	SLEEPERS_AFTERWARDS = 8,
};

/*
 * Threads that are to look, to be woken once the lock is given up, so that they need not wait for it. Zero it. The frame of one that has looked already may be gone by then:
 * to wake a futex that is none does nothing.
 */
struct sleepers_woken {
	atomic_uint *state[SLEEPERS_AFTERWARDS];
	unsigned count;
};

/*
 * Sleeps, or reads, until there is something to look at, or the deadline (NULL: none) has passed: ETIMEDOUT. What the process gives up meanwhile is given up
 * once, whatever the thread does. The caller looks again at all that it knew.
 */
int sleepers_sleep(struct fusion_context *c, const struct sleeper_wish *wish, const struct timespec *deadline);

/* The request has ended: who waited for its answer looks, who waits for anything, and who waits for room as far as there is some. */
void sleepers_ended(struct stream *s, const struct request *q, struct sleepers_woken *woken);
/* The same for who waits for room alone, where somebody who was woken for it does not take it. */
void sleepers_room(struct stream *s, struct sleepers_woken *woken);
void sleepers_all(struct stream *s, struct sleepers_woken *woken);
/* Needs no lock. */
void sleepers_wake(struct sleepers_woken *woken);

/*
 * Memory that is being made for a session, or given back: making.c and leaving.c.
 *
 * Both take as long as they are large, so what is large is done apart from the loop (apart.h), some of a user's at a time: who asks
 * waits, nobody else. Pages are charged to their user from before they are made until they are given back, whoever may still map them:
 * what a process writes there later is its own memory, as any that it could have made by itself. Of a session that is ended while its client is
 * there they go with the client's mappings: who reads them meanwhile would see zeros. Of a session that has ended the engine
 * says when nothing runs on them any more (SESSION_LEFT).
 */
#pragma once

#include <stdatomic.h>

#include "daemon/door/apart.h"
#include "daemon/door/client.h"

/* ---- making.c ---- */

/* An arena on its way. */
struct making {
	struct apart apart;
	struct making *previous, *next;      /* utlist, of the supervisor */
	struct client *client;               /* NULL: the session has ended, or its engine, which wanted it */
	struct user *user;
	struct supervisor *supervisor;
	enum arena_owner owner;
	uint64_t bytes;
	bool charged;                        /* before that it waits for what is being given back */
	bool running, ended;
	atomic_bool stop;
	int fd;                              /* -1 where it failed */
	struct fault fault;                  /* why: code 0: it has not */
};

/* Charges and makes it, at once where it is small: 0 and *fdp; a fault; -errno; or -EAGAIN with *makingp: it comes later. */
int making_begin(struct client *c, uint64_t bytes, enum arena_owner owner, int *fdp, struct making **makingp, struct fault *f) FAULT_MUST_USE;
/* It has ended: takes it out, with the descriptor, or a fault. */
int making_take(struct making *m, int *fdp, struct fault *f) FAULT_MUST_USE;
/* The session ends, or, `engines`, the engine that wanted some has. */
void makings_cancel(struct client *c, bool engines);
/* Starts what can be: something may have been given back. */
void makings_retry(struct supervisor *s);

/* ---- leaving.c ---- */

/* Takes over the session's arenas, which stay charged until they are given back. */
void leaving_begin(struct client *c);
/* Gives this memory back, and its charge with it. */
void leaving_give(struct supervisor *s, struct user *user, int fd, uint64_t bytes);
/* The engine: nothing runs on the memory of a session that has ended. */
void leaving_left(const struct engine *e, uint64_t session);
/* Whose it was, a session that has ended and of which the engine may still have something; NULL: there is none. */
struct user *leaving_user(const struct engine *e, uint64_t session);
/* The engine has ended. */
void leaving_engine_ended(const struct engine *e);
/* Does what is due, for both. */
void arenas_tick(struct supervisor *s);
/* Waits for all that is under way. */
void arenas_close(struct supervisor *s);

/*
 * The op stream over rings: shared memory of one session each (protocol/ring.h), all served by the
 * engine's own thread, which asks them for requests at every turn and sleeps on their sockets.
 *
 * A session loses its ring, and with it its life, by writing what no honest client could; others do not
 * notice. A client that does not read its answers is not read from any more once LIMIT_UNANSWERED of them wait in memory. It may
 * leave a megabyte of them for as long as it likes, for nobody waits for most; one that leaves more and takes none
 * for some seconds loses its session too. That is looked at in rings_poll(), so it is to be called now and then.
 *
 * Only rings that were busy since the engine last slept are looked at; the others' clients send a byte with
 * their next request. So an idle session costs nothing.
 */
#pragma once

#include <stdbool.h>

#include "daemon/serve/transport.h"

struct rings;
struct channel;

/* Tells that a session wrote nonsense: it is to be closed. */
typedef void rings_failed(void *user, uint64_t session);

/* *transportp belongs to the rings; requests arrive through it, and its closing is rings_free(). */
int rings_new(struct rings **ringsp, struct transport **transportp) FAULT_MUST_USE;
/* The engine's thread, which is the one that calls all this, runs where the one client that asks waits (follow.h). */
void rings_follow(struct rings *r);
/* Clients that wait may spin for so long before they sleep (client/linger.h), while no more than `most` sessions are connected. */
void rings_linger(struct rings *r, uint32_t us, uint32_t most);
void rings_on_failure(struct rings *r, rings_failed *failed, void *user);

/* A session's ring: takes over both descriptors, also on failure. 0, -EINVAL where they are none, -errno. */
int rings_add(struct rings *r, uint64_t session, int memory, int bell, struct channel **channelp) FAULT_MUST_USE;
/* The session has ended. What it left unanswered may still be answered, into nowhere. NULL is allowed. */
void rings_remove(struct channel *c);

/* Delivers what has come. */
void rings_poll(struct rings *r);
/* Has something come? Costs no more than a look at each ring that is busy. */
bool rings_waiting(const struct rings *r);
/* Did a request find no memory since this was last asked? It stays in its ring. */
bool rings_starved(struct rings *r);
/* Before sleeping: true where nothing came meanwhile; from then on clients write to their sockets. */
bool rings_sleep(struct rings *r) FAULT_MUST_USE;
/* Readable when a client did. */
int rings_descriptor(const struct rings *r);
/* After it became readable. */
void rings_wake(struct rings *r);

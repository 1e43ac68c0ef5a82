/*
 * What the service manager keeps for the daemon (FileDescriptorStoreMax=, sd_pid_notify_with_fds(3)): a restart, an upgrade or a crash of the
 * supervisor then costs sessions nothing that an engine's end would not.
 *
 * Kept are the memory of sessions and of shared arrays, the catalogues, and of each session a record: what the supervisor
 * knows of it. All is handed over when it is made, and taken back when its session ends, so there is nothing that a process that is
 * killed could have left undone. The next supervisor finds sessions without clients; a client that returns within door.return_us says which one
 * is its own, by number, secret and uid, and goes on as after an engine's end. Rings are made anew then.
 *
 *	session-N       the record
 *	arena-N.A       an arena of the session
 *	shared-A        the memory of a shared array
 *	catalogue-E     of an engine
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"

struct client;
struct client_arena;
struct engine;
struct shared_arena;
struct supervisor;

struct stored;

/* What came with the start. */
struct store {
	bool on;                     /* sessions are kept */
	struct stored *stored;       /* descriptors that came and were not taken yet */
	unsigned count;
};

/* Before anything is made: finds what was kept. Sockets among what came are the door's (door_take()). */
int store_open(struct supervisor *s, struct fault *f) FAULT_MUST_USE;
/* The engines are known: sessions are there again, waiting for their clients. What nobody is there for goes. */
void store_take(struct supervisor *s);
void store_close(struct supervisor *s);

/* ---- as things come and go; nothing happens where the store is off ---- */

void store_catalogue(struct engine *e);
void store_arena(const struct client *c, const struct client_arena *a);
void store_arena_end(const struct client *c, uint32_t arena);
void store_shared(struct supervisor *s, const struct shared_arena *a);
void store_shared_end(struct supervisor *s, uint32_t arena);
/* The session has begun, or something of it is another now. */
void store_session(struct client *c);
void store_session_end(struct client *c);

/*
 * The supervisor: the process that owns the door, the shared memory and the engine's process. It
 * contains no OpenCL and no nng, so that a device, a kernel or a flood of the op stream cannot
 * take it down. One thread, beside those that make memory and give it back (cleared.h, arenas.h), one epoll loop; it waits for nobody.
 *
 * A session lives as long as its connection to the door; the kernel tells of a client's death. It outlives the engine
 * that serves it: its memory is the supervisor's, and the catalogue says what lies there. A client that cannot go on with another engine
 * sees the end of its connection. Where the service manager keeps descriptors, sessions outlive the supervisor, too (store.h).
 * Where there are several devices, each has an engine of its own (engines.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/config.h"
#include "daemon/base/loop.h"
#include "daemon/door/accounts.h"
#include "daemon/door/cache_size.h"
#include "daemon/door/chore.h"
#include "daemon/door/cleared.h"
#include "daemon/door/engines.h"
#include "daemon/door/gateway.h"
#include "daemon/door/idle.h"
#include "daemon/door/metrics.h"
#include "daemon/door/manager.h"
#include "daemon/door/notify.h"
#include "daemon/door/reload.h"
#include "daemon/door/store.h"
#include "daemon/door/user.h"

struct client;
struct leaving;
struct making;
struct shared_arena;

struct supervisor {
	struct config config;
	struct config_origins origins;
	struct rules rules;                  /* of some users only */
	const struct config_source *source;
	struct loop *loop;
	struct engine *engine[ENGINES];
	unsigned engines;
	struct gateway gateway;
	struct metrics metrics;
	struct manager manager;
	struct notify notify;
	struct store store;
	struct chores chores;
	struct cleared cleared;
	struct idle idle;
	struct users users;
	struct accounts accounts;
	struct reload reload;

	/* The door; see door.c. */
	int listener, lock, spare;
	uint64_t listen_us;                  /* when the listener is looked at again; 0: it is */
	bool made_parent;                    /* the socket's folder was missing */
	bool passed;                         /* the socket is the service manager's, who made it and will remove it */
	struct loop_source *listener_source;
	char folder[CONFIG_TEXT];

	/* Its connections; see client.c. */
	struct client *clients;              /* utlist */
	struct client *sessions;             /* uthash by session number */
	uint32_t connections, session_count;
	uint64_t last_session, sessions_total, sessions_lost;
	struct cache_size cache_size;
	struct shared_arena *shared;         /* uthash by number: shared.c */
	uint32_t last_shared;
	struct making *makings;              /* utlists: memory on its way; making.c, leaving.c */
	struct leaving *leaving;
	bool arenas_due;                     /* one of them can go on */
	gid_t admins;                        /* door.admins; NO_ADMINS: there is no such group. admin.c */
	uint64_t silent_us;                  /* when the next silent connection is due; see clients_tick() */

	int signals;
	struct loop_source *signals_source;
	uint64_t started_us;
	bool stopping, served, done;         /* served: the engines have ended, and with them what clients waited for */
	int code;                            /* of the process */
};

/* Runs until it is told to stop; the exit status. `ready` is written to and closed once it serves (-1: none). A sentence that names the cause is on the log. */
int supervisor_run(const struct config_source *source, int ready) FAULT_MUST_USE;

/*
 * Ends everything; the loop goes on until the engines have ended, which first finish what clients have asked for, within
 * engine.drain_us. Connections stay open until then. Said again, nothing is waited for any more.
 */
void supervisor_stop(struct supervisor *s, int code);

/* ---- the door: door.c ---- */

/* Takes the descriptor by which somebody can be told that there is no other. */
void door_reserve(struct supervisor *s);
/* Makes the folder and the socket; refuses where another daemon serves the same path. */
int door_open(struct supervisor *s, struct fault *f) FAULT_MUST_USE;
/*
 * Before that: a socket that the service manager passed is to be the door. It is the supervisor's descriptor from now on, and must be what
 * door.socket names.
 */
int door_take(struct supervisor *s, int fd, const char *name, struct fault *f) FAULT_MUST_USE;
/* Does what is due, and returns when to call again. */
uint64_t door_tick(struct supervisor *s, uint64_t now);
/* Accepts all that wait. */
void door_accept(struct supervisor *s);
/* The end has begun: who connects to a socket of the service manager's from now on waits in it for the next daemon. */
void door_rest(struct supervisor *s);
/* Accepts no more, and removes what door_open() made: never the service manager's socket, which others may be waiting in. */
void door_close(struct supervisor *s);

/* ---- connections: client.c; what engines say of their sessions: wishes.c ---- */

/* Takes over fd. Charges the user, and says why where the limits refuse. */
void client_accept(struct supervisor *s, int fd);
/* Tells it why, and closes it. */
void client_refuse(struct supervisor *s, int fd, const struct fault *f);
/* The same for a client on another machine, which the gateway has found to be this user, in these groups. peer is for people. */
void client_accept_remote(struct supervisor *s, int fd, const struct rule_subject *is, const char *peer);
/* Handles again the requests that waited for the engine. */
void clients_resume(struct supervisor *s);
/* Closes the silent ones; returns when the next one is due, UINT64_MAX where none is. */
uint64_t clients_tick(struct supervisor *s, uint64_t now);
/* Closes those with a session that the engine served (it is gone), or all where it is NULL. */
void clients_close(struct supervisor *s, const struct engine *of);
/* The engine is gone: its sessions wait for the next one where their clients can do so, and are closed where not. */
void clients_drift(struct supervisor *s, struct engine *e);
/* The engine ended while it read a request of this session: after so many times the session ends. */
void clients_blame(const struct engine *e, uint64_t session, unsigned most);
/* Does such a session of the engine wait? */
bool clients_adrift(const struct engine *e, uint64_t session);
/* A packet of the engine about a session. */
int clients_packet(
	const struct engine *e, uint64_t id, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;

/* ---- who may do everything: admin.c ---- */

#define NO_ADMINS ((gid_t)-1)

/* Looks up the group of door.admins: at the start and at a reload, for it may ask other machines. */
void admin_resolve(struct supervisor *s);
/* Every setting with its value and where that comes from: JSON to be freed with cJSON_free(), or NULL. */
char *admin_origins_json(const struct supervisor *s);

/* Rules or the configuration have changed: what holds for each user is found again, and the engines are told. rights.c */
void rights_changed(struct supervisor *s);

/* SPENT of an engine. rights.c */
int rights_spent(struct supervisor *s, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;

/* For who only sums: the next one, and the bytes of its arenas. */
const struct client *client_next(const struct client *c);
uint64_t client_bytes(const struct client *c);

/* ---- the answer to STATUS: status.c ---- */

/* For this client: without sessions that it may not see. JSON to be freed with cJSON_free(), or NULL. */
char *status_json(const struct supervisor *s, const struct client *asks);

/*
 * fusiond-gateway: the process that clients on other machines connect to. The supervisor starts it where remote.listen says
 * so; it is of no use alone.
 *
 * Each connection is a process of its own, and to the rest of the daemon a client of this machine: it enters by the door, as
 * the user whose certificate was shown, has a ring and maps the session's memory. So limits, scheduling and the death of a
 * client are what they always are, the engine knows of no network, and what breaks in here - tls, a frame of nonsense, a
 * client that stands still - ends one connection. Its memory is bounded: a frame, a buffer each way, and what the session
 * maps, which its user is charged for.
 *
 * A process that a client has taken over has the rights of that client and no more (docs/gateway.md). It cannot name a user: each has a clerk, a process
 * without a connection, to whom it shows the certificate that it was shown, once; the clerk looks whether it is right and whose it is, and
 * hands a connection of the door over. And it can open, connect to and run nothing (confine.c, by libseccomp).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "protocol/fault.h"
#include "protocol/limits.h"
#include "daemon/base/config.h"

enum {
	GATEWAY_LISTENERS = 8,
	GATEWAY_PEER = 64,
};

struct gateway_listener {
	int fd;
	bool tls;
};

struct gateway_listeners {
	struct gateway_listener one[GATEWAY_LISTENERS];
	unsigned count;
};

/* ---- where clients connect: listen.c ---- */

/* Listens at all of remote.listen: 0, FAULT_ARGUMENT, or -errno. What is open is closed by listeners_close() in any case. */
int listeners_open(struct gateway_listeners *l, const struct config *c, struct fault *f) FAULT_MUST_USE;
/* Could it? Opens nothing. */
int listeners_check(const struct config *c, struct fault *f) FAULT_MUST_USE;
void listeners_close(struct gateway_listeners *l);
/* Where, with the ports that were given, for people. */
void listeners_text(const struct gateway_listeners *l, struct str *text);
/* Address and port of a peer. */
void address_text(const struct sockaddr_storage *a, char text[static GATEWAY_PEER]);

/* ---- who they are: users.c ---- */

struct link_keys;
struct link_peer;

/* The local user as whom a connection counts: 0, or a fault for the log. */
int remote_user(const struct config *c, const struct link_peer *p, bool tls, uid_t *uidp, struct fault *f) FAULT_MUST_USE;

/* By name or number; uidp: NULL where it is not wanted. */
int remote_user_find(const char *name, uid_t *uidp, struct fault *f) FAULT_MUST_USE;
/* Every line of remote.users: FAULT_ARGUMENT names file and line. */
int users_check(const char *path, struct fault *f) FAULT_MUST_USE;

/* ---- is the configuration right: check.c ---- */

bool gateway_uses_tls(const struct config *c);
/* What is shown and believed; NULL without tls. */
int gateway_keys(const struct config *c, struct link_keys **keysp, struct fault *f) FAULT_MUST_USE;
/* 0 with the keys, FAULT_ARGUMENT that names the place, or -errno. */
int gateway_check(const struct config *c, const struct config_origins *o, struct link_keys **keysp, struct fault *f) FAULT_MUST_USE;

/* ---- who was refused: refused.c ---- */

/* Of all connections' processes; a limit on lines that strangers can have written. */
struct gateway_refusals;
struct gateway_refusals *refusals_new(void);
void refusals_tell(struct gateway_refusals *r, const char *peer, const char *why);

/* ---- what a connection's process may: confine.c ---- */

/*
 * From now on this process opens no file, makes no socket, and reaches no other process, whoever runs in it; `nng`: but that it may connect,
 * as clients without a ring do. 0 or -errno.
 */
int confine(bool nng) FAULT_MUST_USE;

/* ---- who says whose a connection is: clerk.c ---- */

enum {
	/* A chain of certificates; usual ones are of 1 to 5 KiB. */
	CLERK_CHAIN = 32 << 10,
	CLERK_PACKET = CLERK_CHAIN + 64,
	CLERK_ANSWER = LIMIT_SENTENCE + 64,
};

struct gateway_clerk {
	const struct config *config;
	int control;                         /* to the supervisor */
	int session;                         /* to the connection's process */
	bool tls;
	const char *peer;                    /* its address, for people */
	struct link_keys *keys;
	struct gateway_refusals *refusals;
};

/* Answers one claim of the connection's process, and ends with it. */
_Noreturn void clerk_serve(struct gateway_clerk *c);
/* Of the connection's process: it has been shown this chain; *doorp is the connection of the door that it gets. 0, a fault or -errno. */
int clerk_enter(int clerk, const void *chain, size_t size, int *doorp, struct fault *f) FAULT_MUST_USE;
/* The connection was not agreed on, or speaks nonsense. */
void clerk_refused(int clerk, const char *why);

/* ---- one connection: session.c ---- */

struct gateway_session {
	const struct config *config;
	int clerk;                           /* to the clerk of this connection */
	int fd;                              /* of the connection; taken over */
	bool tls;
	char peer[GATEWAY_PEER];
	atomic_bool *entered;                /* set once it has said who it is */
	struct link_keys *keys;              /* NULL without tls; of the process that accepted it */
};

/* Serves it to its end, and does not return. */
_Noreturn void session_serve(struct gateway_session *s);

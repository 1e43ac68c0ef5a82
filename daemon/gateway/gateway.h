/*
 * fusiond-gateway: the process that clients on other machines connect to. The supervisor starts it where remote.listen says
 * so; it is of no use alone.
 *
 * Each connection is a process of its own, and to the rest of the daemon a client of this machine: it enters by the door, as
 * the user whose certificate was shown, has a ring and maps the session's memory. So limits, scheduling and the death of a
 * client are what they always are, the engine knows of no network, and what breaks in here - tls, a frame of nonsense, a
 * client that stands still - ends one connection. Its memory is bounded: a frame, a buffer each way, and what the session
 * maps, which its user is charged for.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "protocol/fault.h"
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
void listeners_close(struct gateway_listeners *l);
/* Where, with the ports that were given, for people. */
void listeners_text(const struct gateway_listeners *l, struct str *text);
/* Address and port of a peer. */
void address_text(const struct sockaddr_storage *a, char text[static GATEWAY_PEER]);

/* ---- who they are: users.c ---- */

struct link;
struct link_keys;

/* The local user as whom a connection counts: 0, or a fault for the log. */
int remote_user(const struct config *c, const struct link *l, bool tls, uid_t *uidp, struct fault *f) FAULT_MUST_USE;

/* ---- one connection: session.c ---- */

struct gateway_session {
	const struct config *config;
	int control;                         /* to the supervisor */
	int fd;                              /* of the connection; taken over */
	bool tls;
	char peer[GATEWAY_PEER];
	atomic_bool *entered;                /* set once it has said who it is */
};

/* Serves it to its end, and does not return. */
_Noreturn void session_serve(struct gateway_session *s);

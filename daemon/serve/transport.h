/*
 * How requests reach the engine and answers leave it. Sessions know nothing of connections: a
 * session's requests may come over any of them, in any order.
 *
 * Contract. receive() is called from any thread, with a request whose bytes stay until it is
 * answered; every request is answered or dropped exactly once, from the engine's thread, unless the transport
 * is closed first. reply() neither waits nor fails: who is gone gets nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/fault.h"

struct transport;

struct transport_request {
	struct transport_request *next;      /* the holder's, e.g. of a queue */
	struct transport *transport;         /* that it came by, and is answered by */
	const void *bytes;
	size_t size;
};

typedef void transport_receive(void *user, struct transport_request *r);

#define TRANSPORT_ALL ((uid_t)-1)

struct transport_functions {
	int (*start)(struct transport *t);
	void (*reply)(struct transport *t, struct transport_request *r, const void *bytes, size_t size);
	/* It is never answered: who asked sees the connection end. */
	void (*drop)(struct transport *t, struct transport_request *r);
	void (*close)(struct transport *t);
	/* The request is this session's: its connection is known. NULL where connections are the sessions' anyway, as are the next two. */
	void (*known)(struct transport *t, struct transport_request *r, uint64_t session);
	/* The session has ended. */
	void (*unknown)(struct transport *t, uint64_t session);
	/* So many connections may be this user's, from now on; TRANSPORT_ALL: every other one's. */
	void (*limit)(struct transport *t, uid_t uid, uint32_t connections);
};

struct transport {
	const struct transport_functions *functions;
	transport_receive *receive;
	void *user;
};

/* Requests arrive from now on. 0 or -errno. */
static inline int transport_start(struct transport *t, transport_receive *receive, void *user) {
	t->receive = receive;
	t->user = user;
	return t->functions->start(t);
}

static inline void transport_reply(struct transport_request *r, const void *bytes, size_t size) {
	r->transport->functions->reply(r->transport, r, bytes, size);
}

static inline void transport_known(struct transport_request *r, uint64_t session) {
	if (r->transport->functions->known)
		r->transport->functions->known(r->transport, r, session);
}

static inline void transport_unknown(struct transport *t, uint64_t session) {
	if (t && t->functions->unknown)
		t->functions->unknown(t, session);
}

static inline void transport_limit(struct transport *t, uid_t uid, uint32_t connections) {
	if (t && t->functions->limit)
		t->functions->limit(t, uid, connections);
}

static inline void transport_drop(struct transport_request *r) {
	r->transport->functions->drop(r->transport, r);
}

/* Returns NULL. Requests not yet answered are gone. NULL is allowed. */
static inline struct transport *transport_close(struct transport *t) {
	if (t)
		t->functions->close(t);
	return NULL;
}

/*
 * What nng's req0 sockets talk to, on an ipc url. mode: permissions of the socket; connections: the most at a time, in all and of a user.
 * Where there are as many, the oldest that is not known makes room. A connection with more than LIMIT_UNANSWERED unanswered requests, or that takes
 * nothing of an answer for a second, or is not known 10 s after it was begun or its session ended, is closed; until it is known,
 * large frames are taken of few of its user's.
 */
struct transport_connections {
	uint32_t all, user;
};

int transport_nng_new(const char *url, unsigned mode, struct transport_connections most, struct transport **transportp) FAULT_MUST_USE;

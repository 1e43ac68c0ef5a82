/*
 * Requests and replies of one session, over a transport.
 *
 * At most STREAM_REQUESTS requests are unanswered; who wants to send another one waits for a
 * reply (stream_room). A request that somebody waits for has an answer in the waiter's frame;
 * others are looked after when their reply comes. A connection that breaks is lost for good: every
 * later call gets the sentence that says why.
 *
 * Functions require the context's lock; stream_room() and stream_wait() give it up while they wait.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/limits.h"
#include "protocol/message.h"
#include "protocol/shape.h"
#include "protocol/wire.h"
#include "transport.h"

struct fusion_context;
struct later;
struct sleeper;
struct value;

enum {
	STREAM_REQUESTS = LIMIT_UNANSWERED - 1,
	/* A request each; and as many maps that were granted to threads which then could not get at the memory. */
	UNDO_MOST = 2 * STREAM_REQUESTS,
};

/* What came back. Only the members of the request's kind are set. */
struct answer {
	bool done;
	bool again;                  /* the engine was replaced: nothing has happened, ask once more */
	struct fault fault;          /* code 0: none */
	uint64_t arena, offset, bytes;     /* READ, MAP; EXPORT, IMPORT: arena; ARENA: arena, bytes */
	void *result;                /* READ, MAP: the bytes, where memory is not shared; to be freed */
	bool truth;                  /* CAN_FUSE */
	uint8_t token[LIMIT_TOKEN_BYTES];  /* EXPORT */
	struct tensor_type type;     /* IMPORT */
	uint64_t version, rights;
	char *text;                  /* EXPLAIN, STATS, CAN_FUSE; to be freed */
};

struct request {
	bool busy;
	bool sent;                   /* taken requests are not the daemon's before */
	bool given_up;               /* by who waited for it: see undo.h */
	enum message_request kind;
	uint64_t seq;                /* its own where it has one; WAIT: the last waited for */
	struct value *value;         /* READ, MAP, UNMAP, an EXPORT that was given up: held while the request is under way */
	uint64_t handle;             /* EXPORT, IMPORT: that the array is to have, or 0 */
	struct value *named;         /* EXPORT, IMPORT: given up, with the handle that it has once it is answered */
	char *setting;               /* CONFIGURE: name and value, as the context keeps them, or NULL; PATTERN: its name */
	bool whole_daemon;           /* PATTERN: for all sessions */
	struct answer *answer;       /* of the thread that waits, or NULL */
	struct later *later;         /* a read that nobody waits for, see read.c */
};

/* What takes back what was given up. */
struct undo {
	enum message_request kind;   /* UNMAP, REVOKE or FORGET_PATTERN */
	struct value *value;         /* held */
	char *pattern;               /* its name, malloc'd */
	bool whole_daemon;
	uint8_t token[LIMIT_TOKEN_BYTES];
};

struct stream {
	struct transport *transport;
	pthread_mutex_t leaving;     /* besides the context's lock: of the pointer, for who closes without that */
	struct request request[STREAM_REQUESTS];
	unsigned busy;
	struct undo undo[UNDO_MOST];
	unsigned undos;
	pthread_cond_t changed;      /* anything but what sleepers.h tells of: for who closes, and the like */
	struct wire_writer writer;
	uint32_t timeout_ms;         /* 0: wait forever */
	uint64_t seq;                /* of the last request that changed the session */
	uint64_t completed;          /* everything up to here has run */
	struct fault lost;           /* code 0 while the connection works */
	bool broken;                 /* the transport said so: nothing will be answered */
	/* The engine is gone; see resume.h. */
	bool adrift;
	bool resuming;               /* a thread is about it */
	pthread_t resumer;
	uint64_t resumes;            /* how often that was */
	/* Where the transport has no threads of its own: */
	bool corked;                 /* see stream_cork() */
	bool watched;                /* it has one now */
	bool reading;                /* a thread that waits reads for all */
	struct sleeper *sleepers;    /* threads that wait, it among them: see sleepers.h */
};

/*
 * Connects: by the ring where the door gave one, else by nng. The transport's threads may call back at once.
 */
int stream_open(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* Ends the connection, after a short wait for what is still to be answered. Requires that the lock is NOT held. */
void stream_close(struct fusion_context *c);
/* Without the lock, before it is taken to close: who holds it and waits for room in the ring gives it up. */
void stream_leave(struct fusion_context *c);
/* Frees what is left; after stream_close. */
void stream_free(struct fusion_context *c);

/*
 * From now on answers are read by a thread of the library, as callbacks need it. Gives the lock up where another
 * thread reads at the moment.
 */
int stream_watch(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* Waits until a request may be sent, and takes it. */
int stream_room(struct fusion_context *c, struct request **requestp, struct fault *f) FAULT_MUST_USE;
/* The same for a request whose answer the caller will wait for: refused inside a callback. */
int stream_room_to_wait(struct fusion_context *c, struct request **requestp, struct fault *f) FAULT_MUST_USE;
/*
 * Waits until two requests may be sent that go together, so that a thread is not woken for each of them; for one where no room comes by itself
 * soon.
 */
int stream_await_pair(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* Behind it, once all is sent or nothing will be: others have what was not taken of the room. */
void stream_end_pair(struct fusion_context *c);
/* Does another thread tell the next engine what there is? Nobody else sends or reads anything then. */
bool stream_resumed_elsewhere(const struct stream *s);
/* Does somebody else than those who wait read the answers? */
bool stream_has_reader(const struct stream *s, const struct transport *t);
/* Was something sent whose answer waits for no device, so that there is more room soon? */
bool stream_frees(const struct stream *s);
bool stream_has_room(const struct fusion_context *c);
/* Gives back a request that was taken and is not sent. */
void stream_forgo(struct fusion_context *c, struct request *q);
/* How many requests under way hold the value. */
unsigned stream_holds(const struct stream *s, const struct value *v);
/* Starts the message of a taken request; `fields` values follow through the writer. */
struct wire_writer *stream_begin(
	struct fusion_context *c, struct request *q, enum message_request kind, uint32_t fields);
/* Starts one that carries the next sequence number, which is its first field (counted in fields). */
struct wire_writer *stream_begin_next(struct fusion_context *c, struct request *q, enum message_request kind,
	uint32_t fields);
/* Sends it. On failure the connection is lost, and the request is given back. */
int stream_send(
	struct fusion_context *c, struct request *q, struct answer *answer, struct fault *f) FAULT_MUST_USE;
/*
 * Between these, requests go without waking the daemon: it is woken once for all of them, by stream_uncork(), or by
 * whoever waits before. Where that fails the connection is lost, as who waits for an answer learns.
 */
void stream_cork(struct fusion_context *c);
void stream_uncork(struct fusion_context *c);
/* Waits for the answer; returns its fault, if any. */
int stream_wait(
	struct fusion_context *c, struct request *q, struct answer *answer, struct fault *f) FAULT_MUST_USE;
/* Sends what was begun, and waits for its answer. */
int stream_ask(struct fusion_context *c, struct request *q, struct answer *answer, struct fault *f) FAULT_MUST_USE;
/*
 * For a daemon on another machine, which shares no memory; elsewhere these do nothing. Bytes of an arena that it has before
 * what is sent next; the answer to what is sent next brings so many bytes.
 */
int stream_upload(struct fusion_context *c, uint32_t arena, uint64_t offset, const void *bytes, uint64_t size,
	struct fault *f) FAULT_MUST_USE;
void stream_expect(struct fusion_context *c, const struct request *q, uint64_t bytes);
/* Asks such a daemon for an arena: a taken request is sent, with no message of its own. */
int stream_send_arena(struct fusion_context *c, struct request *q, uint64_t bytes, struct answer *answer,
	struct fault *f) FAULT_MUST_USE;
/* Does the request carry a sequence number of its own? */
bool stream_ordered(const struct request *q);
/* Waits until a reply comes, whichever; for loops that look at the state again. */
int stream_wait_any(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* The connection is of no use any more; every waiter wakes up. */
void stream_lose(struct fusion_context *c, const struct fault *why);

/* ---- for resume.c ---- */

/* The part of stream_open() and stream_close() that concerns the transport; the lock is given up in between. */
int stream_connect(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
void stream_disconnect(struct fusion_context *c);
/* Ends a request that will not be answered; who waits for it gets the fault, or asks again where there is none. */
void stream_settle(struct fusion_context *c, struct request *q, const struct fault *f);
/* Waits while another thread resumes: 0, or why that is given up. */
int stream_await_resumer(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* Every waiter looks again. */
void stream_wake(struct stream *s);

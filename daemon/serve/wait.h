/*
 * Requests that are answered later, when exec calls back.
 *
 * exec's callbacks only note that they were called; what follows runs from the server's turn, where
 * exec may be called again. A waiter that its session outlives is answered and freed by `then`.
 */
#pragma once

#include "daemon/serve/request.h"

/* What EXPORT asks for. */
struct export {
	uint64_t handle;             /* that the array is to have */
	uint64_t lifetime_us;        /* 0: as long as that */
	unsigned rights;
};

struct question;
struct waiter;
typedef void waiter_function(struct waiter *w);

struct waiter {
	struct waiter *previous, *next;              /* of the session */
	struct waiter **queue;                       /* the list that it is in, or NULL */
	struct waiter *queue_previous, *queue_next;
	struct session *session;
	struct transport_request *frame;
	unsigned id;                 /* of the request */
	bool before;                 /* it came before the daemon was told to end */
	uint64_t since_us;           /* accepted: when, by loop_now() */
	uint64_t seq;
	struct array *array;         /* a reference, or NULL */
	struct buffer *buffer;       /* what is being published: a reference, or NULL */
	int64_t offset;              /* of its elements */
	struct export export;        /* EXPORT; of IMPORT the handle and the rights */
	struct grant grant;          /* EXPORT: memory that has come for the array; fd -1: none, or it is used */
	struct hold *hold;           /* IMPORT: which is asked for */
	struct fault fault;          /* what it was told; code 0: fine */
	struct question *question;   /* that is being answered beside this thread, or NULL */
	waiter_function *then;
};

/* Takes over the request's frame on success. array may be NULL. -ENOMEM. */
int waiter_new(const struct request *r, struct array *a, waiter_function *then, struct waiter **waiterp)
	FAULT_MUST_USE;
/* Ends it after its frame was answered. */
void waiter_free(struct waiter *w);
/* Answers with a fault and ends it. */
void waiter_refuse(struct waiter *w, const struct fault *f);
/* As waiter_refuse() where r is not 0: a code of *f, or a negative errno. True where it did. */
bool waiter_failed(struct waiter *w, int r, struct fault *f);

/* Puts it into a list of the caller's, from the one that it is in. */
void waiter_queue(struct waiter *w, struct waiter **queue);

/* What it waited for has come, or f says why it does not; NULL: it has. `then` runs in the server's turn. For buffer_publish() and lane_fence(), too; user is the waiter. */
void waiter_told(void *user, const struct fault *f);
void waiter_ready(void *user);

/* Has the array's values where clients can read them, then runs `then`. 0 or -ENOMEM. read.c */
int waiter_publish(struct waiter *w, waiter_function *then) FAULT_MUST_USE;

/* Runs `then` of those that were told. */
void waiters_turn(struct server *v);

/*
 * Answers that a batch was accepted, which nobody waits for: they leave after the answers that
 * somebody waits for. A session gets them together with the value that it waits for or is about to ask for, else
 * a little later: sent by itself, each would wake a client for nothing.
 */
int accepted_new(const struct request *r) FAULT_MUST_USE;
/* Sends those whose time has come. */
void accepted_turn(struct server *v);
/* When the next one is due, by loop_now(); UINT64_MAX: there is none. */
uint64_t accepted_deadline(const struct server *v);

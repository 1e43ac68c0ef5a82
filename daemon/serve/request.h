/*
 * One request: from a frame to the function that serves it, and its answer.
 *
 * A function answers by request_reply() or keeps the frame (a waiter), and returns 0; or it returns
 * a fault or a negative errno and has answered nothing: then request.c answers with the fault. -EINPROGRESS: it has changed
 * nothing, and comes again when the session's operations are planned, or another large question of its user is answered.
 * Texts of the body point into the frame and are gone with the answer.
 */
#pragma once

#include "protocol/packed.h"
#include "daemon/serve/server.h"

struct form;

struct request {
	struct session *session;
	struct transport_request *frame;
	unsigned id;
	uint64_t seq; /* numbered requests: their own; READ, MAP, WAIT: the one they come after */
	int64_t node;                /* the operation to blame for a fault, or -1 */
	struct wire_cursor body;
	/* A batch that has come before, see recurring.h; then it has no body. */
	struct form *form;
	struct packed rest;          /* outputs and releases */
	bool urgent;
	bool later;                  /* it asked to come again */
};

typedef int request_function(struct request *r, struct fault *f);

/* A frame of the transport. */
void request_arrived(struct server *v, struct transport_request *frame);
/* Has a client that goes on with another engine its own way with a request of this kind that was not answered? */
bool request_asked_again(unsigned id);
/* The request is held no longer; its frame stays the caller's. */
void request_unhold(struct session *s, struct held *h);
/* Runs held requests whose turn has come. */
void request_progress(struct session *s);

/* Passes by what every frame begins with. */
int request_skip_head(struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;

/* The writer of the answer, which begins with an array of 1 + fields values and the request's number. */
struct wire_writer *request_answer(struct server *v, unsigned id, uint32_t fields);
/* Puts the client memory that is free again. */
void request_put_freed(struct session *s, struct wire_writer *w);
/* Answers with one text: the JSON, which stays the caller's. 0, -ENOMEM, or FAULT_LIMIT where it is too long. */
struct cJSON;
int request_send_json(struct request *r, const struct cJSON *json, struct fault *f) FAULT_MUST_USE;
/* The same for a text that is JSON. */
int request_send_text(struct request *r, const char *text, struct fault *f) FAULT_MUST_USE;
/* Sends what the writer holds. */
void request_send(struct server *v, struct transport_request *frame);
/* A failure that is none of the client's doing; error: a negative errno. */
void fault_of_errno(struct fault *f, int error);
/* Answers with a fault; session may be NULL. seq 0: nobody to blame. */
void request_refuse(struct server *v, struct session *s, struct transport_request *frame,
	const struct fault *f, uint64_t seq, int64_t node);

/*
 * An array that has a value or will have one, and may be read: runs what it needs. Where it has a fault instead, the
 * operation to blame is told. read.c
 */
int request_array(struct request *r, uint64_t handle, struct array **arrayp, struct fault *f) FAULT_MUST_USE;

/*
 * A batch that the library repeats runs by itself, so that its graph is the one that it was: repeated_alone() before it begins, false as flush_session(). repeated_begin()
 * refuses it behind another one that was refused, and from then to repeated_end() a graph that was with an engine when that ended is not run. restore.c
 */
bool repeated_alone(struct session *s, uint64_t flags);
int repeated_begin(struct session *s, uint64_t flags, struct fault *f) FAULT_MUST_USE;
void repeated_end(struct session *s);

/* ---- the functions ---- */

request_function submit_request;     /* submit.c */
request_function define_request;     /* capture.c */
request_function replay_request;
request_function forget_request;
request_function wait_request;       /* wait.c */
request_function read_request;       /* read.c */
request_function map_request;
request_function unmap_request;
request_function export_request;     /* share.c */
request_function import_request;
request_function revoke_request;
request_function explain_request;    /* explain.c */
request_function can_fuse_request;
request_function made_request;
request_function stats_request;      /* stats.c */
request_function configure_request;  /* configure.c */
request_function set_request;
request_function settings_request;
request_function recent_request;     /* explain.c */
request_function operation_request;  /* operations.c */
request_function operations_request;
request_function pattern_request;    /* patterns.c */
request_function forget_pattern_request;
request_function patterns_request;
request_function cancel_request;     /* cancel.c */
request_function resume_request;     /* restore.c */
request_function clients_request;    /* clients.c */
request_function kernels_request;
request_function events_request;     /* events.c */

/*
 * What was sent and may still fail: for each request that makes arrays, the caller's places and
 * the handles, so that an error that comes later names a line and poisons the right arrays.
 *
 * Twelve bytes an operation. A batch goes when a WAIT has found that it ran; where nobody waits,
 * the oldest that are accepted go first, and an error of theirs no longer names a line.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/limits.h"
#include "error.h"

struct fusion_context;
struct wire_cursor;

struct sent_op {
	uint32_t line;
	uint16_t file;
	uint16_t op;
	uint32_t slot;               /* of the handle it made, or SENT_NO_SLOT */
};

enum {
	SENT_NO_SLOT = LIMIT_HANDLES,
};

struct sent_batch {
	struct sent_batch *next;
	uint64_t seq;
	bool accepted;
	bool whole;                  /* entries are outputs, not operations: all fail together */
	uint32_t count;
	struct sent_op ops[];
};

struct sent {
	struct sent_batch *first, *last;
	struct sent_batch *accepted; /* the last that was, where the search for the next begins; or NULL */
	uint32_t ops;                /* in all of them */
	uint64_t done;               /* everything up to here has run */
};

struct sent *sent_new(void);
struct sent *sent_free(struct sent *b);     /* returns NULL */
/* The table of a request that is about to be sent; the caller fills ops. NULL: no memory. */
struct sent_batch *sent_add(struct sent *b, uint64_t seq, uint32_t count, bool whole);
/* A request was accepted. */
void sent_accepted(struct sent *b, uint64_t seq);
/* A request was refused: its arrays fail with this fault, which gets a place where node is known. */
void sent_refused(struct fusion_context *c, uint64_t seq, int64_t node, struct fault *f);
/* Another engine has the session: requests up to seq were accepted, others go, but for those that stay. */
void sent_resumed(struct sent *s, uint64_t seq, bool (*stays)(void *user, uint64_t seq), void *user);
/* A request has another number; numbers stay in their order. */
void sent_renumber(struct sent *s, uint64_t from, uint64_t to);
/* Everything up to seq has run. */
void sent_done(struct sent *b, uint64_t seq);
/* Reads the faults of a WAIT reply: arrays fail, and the first fault is kept in c->deferred. */
int sent_faults(struct fusion_context *c, struct wire_cursor *cursor, struct fault *f) FAULT_MUST_USE;
/* Adds the place of an operation to a fault, where it is still known. */
bool sent_place(const struct sent *b, uint64_t seq, int64_t node, struct fault *f);

/*
 * What a shared array is made of, for the files that share.h is: share.c, share_requests.c, and share_kept.c, by which it outlives an engine.
 */
#pragma once

#include "protocol/hash.h"
#include "daemon/serve/share.h"

struct export;

struct token {
	uint64_t place;              /* in the table: a hash that nobody outside can compute */
	unsigned char bytes[LIMIT_TOKEN_BYTES];
	struct token *previous, *next;       /* of its hold */
	struct hold *hold;           /* of the session that exported */
	unsigned rights;
	uint64_t until_us;           /* by loop_now() */
	uint32_t entry;              /* of the catalogue */
	UT_hash_handle hh;
};

enum {
	/* The version of a share that nobody has written. */
	SHARE_FIRST = 1,
};

struct hold {
	struct hold *previous, *next;                  /* of the share */
	struct hold *session_previous, *session_next;
	struct hold *leaving_previous, *leaving_next;
	struct share *share;
	struct session *session;
	uint32_t arrays;
	bool own;                    /* its session exported the array */
	bool writable;
	bool leaving;                /* in the server's list */
	bool sealed;                 /* no arrays, and a fence was put behind what was queued then */
	uint32_t ends;               /* such fences that have not passed */
	bool fenced;                 /* another one, for who wants to write */
	uint32_t importers;          /* requests that wait for it; and: */
	bool asked;                  /* the supervisor has not said yet that the session may hold it */
	bool refused;                /* it may not */
	struct token *tokens;
	uint32_t entry;              /* of the catalogue */
};

struct share {
	struct share *previous, *next;       /* of the server */
	struct server *server;
	struct space *space;
	struct buffer *buffer;       /* a reference; NULL until there is one */
	struct tensor_type type;
	struct view view;
	uint32_t arena;
	uint64_t bytes;
	uid_t uid;
	uint64_t version;
	struct hold *holds;
	const struct array *writer;  /* NULL: nobody writes */
	struct waiter *waiter;       /* whose MAP waits for fences */
	uint32_t fences;
	uint32_t entry;              /* of the catalogue */
};

/* ---- share.c ---- */

/* A share that nobody holds yet, without memory. NULL: out of memory. */
struct share *share_make(struct server *v, const struct tensor_type *type, uid_t uid, uint64_t bytes);
void share_free(struct share *s);
/* Takes over fd. */
int share_back(struct share *s, uint32_t arena, int fd, uint64_t bytes) FAULT_MUST_USE;
struct share *share_find(struct server *v, uint32_t arena);
/* NULL: out of memory. */
struct hold *hold_new(struct session *s, struct share *share, bool own, bool writable);
struct hold *hold_find(const struct session *s, const struct share *share);
/* Nothing of its session reads the array any more, or its lane is gone. */
void hold_free(struct hold *h);
/* Ends it soon, unless it gets an array. */
void hold_look_at(struct hold *h);
void hold_attach(struct array *a, struct hold *h, bool writable);
/* It opens the share from now on, for whoever knows its bytes. */
int token_enter(struct hold *h, struct token *t);

/* A new one. 0, -ENOMEM or -EIO. */
int token_new(struct hold *h, const struct export *e, struct token **tokenp) FAULT_MUST_USE;
/* The one that these bytes open, or NULL. */
struct token *token_find(struct server *v, const void *bytes);
void token_free(struct token *t);

/* ---- share_kept.c: what the catalogue says of them; each is to be called after a change ---- */

void share_noted(struct share *s);
void hold_noted(struct hold *h);
void token_noted(struct token *t);

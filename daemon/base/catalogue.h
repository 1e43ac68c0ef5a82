/*
 * The catalogue: what must be known of an engine's sessions after the engine has died. Memory that the supervisor makes
 * and keeps, one for each device; the engine writes it as it works, the next engine reads it.
 *
 * It holds entries of one size: a session (which of its requests were accepted, and have run), a buffer (where its value
 * lies, and since when), an array (its handle, type, view and buffer), and of shared arrays the share, who holds it, and tokens
 * that open it. An entry's `kind` is written last where
 * it is made and first where it goes, so that a process that dies at any point leaves whole entries.
 *
 * Entries are a session's, but what belongs to a shared array itself is its memory's: catalogue_owner().
 *
 * Whether a value is there: a buffer says WRITING before the first launch that writes it, then THERE with the number after
 * which the launch has ended; `completed` of the header is the last number that has. So completing costs one store for
 * all of them.
 *
 * The supervisor reads it when the engine is dead (catalogue_settle()) and believes nothing of it but numbers that it
 * compares. The engine that adopts it checks every entry against the memory it names.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/limits.h"
#include "protocol/shape.h"

enum catalogue_kind {
	CATALOGUE_FREE,
	CATALOGUE_SESSION,
	CATALOGUE_BUFFER,
	CATALOGUE_ARRAY,
	CATALOGUE_RUN,
	CATALOGUE_SHARE,             /* an array that sessions hold together */
	CATALOGUE_HOLD,              /* a session holds one */
	CATALOGUE_TOKEN,
};

/* Of a run, as far as it is. */
enum catalogue_step {
	CATALOGUE_PLANNING,          /* the engine is at it */
	CATALOGUE_QUEUED,
	CATALOGUE_LAUNCHED,          /* the device has some of it */
	CATALOGUE_PLANNED_BESIDE,    /* another thread of the engine is at it, and the device at what it has */
};

enum catalogue_state {
	CATALOGUE_WAITING,           /* nothing was launched that writes it */
	CATALOGUE_WRITING,           /* something was */
	CATALOGUE_THERE,             /* in the arena, once `written` has completed */
	CATALOGUE_DEVICE,            /* in memory of the device alone, likewise */
	CATALOGUE_FAILED,            /* it has a fault in place of a value */
};

/* In place of an entry's number. */
#define CATALOGUE_NONE UINT32_MAX

enum {
	/* Graphs that ran lately, for a report: as many as a step of training has, and of each what a person will read. */
	CATALOGUE_TEXTS = 32,
	CATALOGUE_TEXT = 8000,
};

/*
 * Numbers of requests. What was begun is a fact of its own, not the absence of one: `launched` is raised before the device has anything of a batch, and the
 * planner's range is there before it begins. A session's graphs go to the device in their order, so above catalogue_begun() nothing has had any effect.
 */
struct catalogue_session {
	uint64_t accepted, completed;
	uint64_t launched;                   /* the device may have had something of batches up to here */
	uint64_t planning, planned;          /* the planner is at these, from the first to the last; planned 0: at none */
	uint64_t unkept;                     /* not everything that batches up to here read is kept for a second time */
};

struct catalogue_buffer {
	uint32_t state;                      /* enum catalogue_state */
	uint32_t arena;
	uint64_t offset, bytes;
	uint64_t written;
	uint64_t serial;                     /* no other buffer has had it: an entry may be another one's later */
};

struct catalogue_array {
	uint64_t handle, version;
	uint64_t made;                       /* by this batch; 0: not by one */
	uint64_t released;                   /* by this batch, which may not have been begun; 0: it was not */
	uint32_t buffer;                     /* its entry; NONE: it waits for one, or has a fault */
	uint32_t fault;                      /* code; 0: none */
	uint64_t serial;                     /* of that buffer */
	uint32_t share;                      /* arena of the share that it is of; 0: of none */
	uint8_t writable, mapped;            /* ... whether the session may write it, and does */
	struct view view;
	struct tensor_type type;
};

struct catalogue_share {
	uint64_t version;
	uint32_t uid;                        /* of who exported it */
	uint32_t buffer;                     /* its entry */
	struct view view;
	struct tensor_type type;
};

struct catalogue_hold {
	uint32_t arena;                      /* of the share */
	uint32_t own, writable;              /* the session exported it; may write it */
};

struct catalogue_token {
	uint32_t arena, rights;
	uint64_t until_us;                   /* by loop_now(), which goes on from one process to the next */
	unsigned char bytes[LIMIT_TOKEN_BYTES];
};

/* A graph under way: what may be to blame where the engine dies. */
struct catalogue_run {
	uint64_t key[2];                     /* graph_hash(), under the header's seed */
	_Atomic uint32_t step;               /* enum catalogue_step */
	uint32_t alone;                      /* nothing else is with the device */
	uint32_t operations, kernels, at;    /* of its plan; the kernel that was launched last, from 0 */
};

/* A graph that ran lately, as text. */
struct catalogue_text {
	uint64_t key[2];
	uint64_t used;                       /* header's clock when it last ran; 0: none */
	uint32_t length;
	char text[CATALOGUE_TEXT];
};

struct catalogue_entry {
	_Atomic uint32_t kind;               /* enum catalogue_kind */
	uint64_t session;
	union {
		struct catalogue_session of_session;
		struct catalogue_buffer of_buffer;
		struct catalogue_array of_array;
		struct catalogue_run of_run;
		struct catalogue_share of_share;
		struct catalogue_hold of_hold;
		struct catalogue_token of_token;
	};
};

struct catalogue_header {
	uint64_t format;                     /* what catalogue_check() knows */
	_Atomic uint64_t completed;
	_Atomic uint32_t used;               /* those that are taken are among the first so many */
	/* What the supervisor's watch looks at: the number of its last PING; since when the device has answered nothing, loop_now(), 0: it rests. */
	_Atomic uint64_t pong, device_us;
	_Atomic uint64_t seed;               /* of graph_hash(); 0: none yet */
	_Atomic uint64_t reading;            /* session whose request is being read; 0: none */
	uint64_t serials;                    /* that buffers have had */
	uint64_t clock;
	struct catalogue_text text[CATALOGUE_TEXTS];
};

/* A mapping of it. */
struct catalogue {
	struct catalogue_header *header;
	struct catalogue_entry *entry;
	uint64_t text_us;                    /* when a text was last written */
	int fd;
	/* Of the engine: entries have memory, and lose it, some hundred at a time. NULL elsewhere. */
	struct catalogue_step_state *step;
	uint32_t steps;                      /* behind the last one that has memory */
	uint32_t lowest;                     /* none below it lacks memory */
	uint32_t open;                       /* the first of those that have free entries, or NONE */
	uint32_t empty;                      /* that have memory, and no entry that is taken */
	bool frozen;                         /* catalogue_freeze() */
};

/* What catalogue_settle() found of sessions that go on. */
struct catalogue_count {
	uint32_t kept, lost;                 /* arrays that are there; that are not */
};

/* In place of a session's number: an entry is of the shared array with this arena. Sessions are counted from 1, so none is like it. */
static inline uint64_t catalogue_owner(uint32_t arena) {
	return UINT64_C(1) << 63 | arena;
}

static inline bool catalogue_is_share(uint64_t session) {
	return session >> 63;
}

/* Batches above this number were neither planned nor launched. */
static inline uint64_t catalogue_begun(const struct catalogue_session *n) {
	uint64_t begun = n->launched > n->completed ? n->launched : n->completed;

	return n->planned > begun ? n->planned : begun;
}

/* A new one: a descriptor, or -errno. */
int catalogue_create(void);
/* One that a process before this one made, of a release that may be another: is it of this form? 0, -EBADMSG, or another -errno. */
int catalogue_check(int fd) FAULT_MUST_USE;
/* How long its file is: addresses of who maps it, and memory only as far as it is used. */
size_t catalogue_bytes(void);
/* Maps it; fd stays the caller's, and open. 0 or -errno. */
int catalogue_open(int fd, struct catalogue **catalogp) FAULT_MUST_USE;
struct catalogue *catalogue_close(struct catalogue *c);      /* returns NULL; NULL is allowed */

/* ---- the engine ---- */

/* Finds the entries that are free, before the first is taken, and has memory of the others returned. 0 or -ENOMEM. */
int catalogue_adopt(struct catalogue *c) FAULT_MUST_USE;
/* An entry whose contents the caller writes before catalogue_put(). NONE where memory is short, or c is NULL. As dear however many there are. */
uint32_t catalogue_take(struct catalogue *c, uint64_t session);
void catalogue_put(struct catalogue *c, uint32_t entry, enum catalogue_kind kind);
/* The engine ends as it was told to: what it gives up from now on stays, for the next one. */
void catalogue_freeze(struct catalogue *c);
/* NONE is allowed. */
void catalogue_give(struct catalogue *c, uint32_t entry);
/* Where the text of a graph lies, or the one to be overwritten by it (another key). */
struct catalogue_text *catalogue_text(struct catalogue *c, const uint64_t key[2]);
/* Of an array, what is said of its buffer; NULL where that has gone, as that of one that was released may have, or is another owner's. */
const struct catalogue_buffer *catalogue_value(const struct catalogue *c, const struct catalogue_array *n, uint64_t owner);
/* The entry, if it is of this kind and session; else NULL. */
struct catalogue_entry *catalogue_find(const struct catalogue *c, uint32_t entry, enum catalogue_kind kind, uint64_t session);

/* ---- the supervisor, while no engine has it ---- */

/*
 * The engine is dead: what it had completed is THERE for good, the rest never will be. Entries of sessions, and of shared arrays, for which `keeps` says
 * no go. Harmless when done again.
 */
void catalogue_settle(struct catalogue *c, bool (*keeps)(void *user, uint64_t session), void *user,
	struct catalogue_count *count);
/* Calls for each run that was under way; before catalogue_settle(), which forgets them. */
void catalogue_runs(const struct catalogue *c, void (*tell)(void *user, uint64_t session, const struct catalogue_run *r), void *user);

/*
 * The arrays of a session and the handles that name them.
 *
 * A handle is (generation << 32 | slot), chosen by the client. A slot's generation grows with each
 * use, so a handle that was released names nothing again, and a batch that arrives with one is
 * refused with a sentence that says which and why.
 *
 * An array is in one of three states: it has a buffer; it is pending, a node of the session's graph
 * that has not been handed to exec; or it is poisoned and has a fault instead of a value.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/catalogue.h"
#include "daemon/exec/exec.h"
#include "daemon/serve/poison.h"

/* Between MAP and UNMAP an array takes part in nothing. */
enum array_mapped {
	ARRAY_FREE,
	ARRAY_MAPPING,               /* MAP waits for what is queued */
	ARRAY_MAPPED,                /* the client may write it */
	ARRAY_RESTORED,              /* it was so when an engine ended; whether the client has heard of it is not known */
};

struct hold;

struct array {
	uint32_t references;         /* the handle, the window, requests that wait for it */
	uint32_t run;                /* the number of the graph that made it, as recent.h has them; 0: none did, or none that is known */
	uint64_t epoch;              /* of the session's graph in which `node` is its node; 64 bits never come again */
	uint32_t node;
	bool pending;
	uint8_t mapped;              /* enum array_mapped */
	uint64_t version;
	struct buffer *buffer;
	struct buffer *before;       /* where its value lies until a copy of its own has been made; NULL: none is being made */
	struct poison *poison;
	struct hold *hold;           /* it is shared with other sessions: share.h; else NULL */
	bool writable;               /* ... and this session may map it for writing */
	uint32_t entry;              /* of the catalogue, which is NULL where it is in none */
	struct catalogue *catalogue;
	uint64_t made;               /* by this batch; 0: not by one */
	struct view view, view_before;
	struct tensor_type type;
};

/* NULL: out of memory. */
struct array *array_new(const struct tensor_type *t);
struct array *array_ref(struct array *a);
struct array *array_unref(struct array *a);           /* returns NULL; NULL is allowed */
/* Takes over poison and drops the buffer; NULL where there was no memory for one: a text in its place. */
void array_poison(struct array *a, struct poison *p);
/* What has become of it is noted in the catalogue, where it is in one: to be called after each change. */
void array_noted(struct array *a);
/* A copy of its own is about to be made of a buffer, which is its value for the next engine until array_copied(): it has been made, or is not. */
void array_copies(struct array *a);
void array_copied(struct array *a);
/* Why it has no value, or NULL: its own poison, or that of its buffer. The array's own. */
struct poison *array_poisoned(struct array *a);

struct handle_slot {
	uint32_t generation;
	bool lost;                   /* it names what there was no memory for */
	struct array *array;         /* NULL: released, or lost */
};

/* An array that a batch has released: noted until that was begun, since it may have to be run by another engine. */
struct leaving {
	uint64_t seq;
	uint32_t entry;
};

enum { HANDLES_PAGE = 256 };

/* Slots are the client's to choose, and may lie far apart: so they are there by pages, where one of them was used. */
struct handles {
	struct handle_slot **page;   /* NULL: no slot of it was used */
	uint32_t pages, live;
	uint32_t limit;
	uint32_t unnamed;            /* lost ones for which there was not even a slot */
	uint64_t *memory;            /* bytes of all sessions of the user; NULL: nobody counts */
	uint64_t memory_limit;
	uint64_t *users;             /* arrays of all sessions of the user; NULL: nobody counts */
	uint64_t users_limit;
	struct catalogue *catalogue; /* where named arrays are noted, as the session's; NULL: nowhere */
	uint64_t session;
	struct leaving *leaving;     /* from leaving_first to below leavings, in the order of their batches */
	uint32_t leaving_first, leavings, leaving_capacity;
	uint64_t unkept;             /* batch, up to which not all that was released is noted */
};

void handles_init(struct handles *h, uint32_t limit);
/* From now on its arrays are counted in *users, too. The table is empty. */
void handles_account(struct handles *h, uint64_t *users, uint64_t limit);
/* And its bytes in *memory. */
void handles_account_memory(struct handles *h, uint64_t *memory, uint64_t limit);
/* The next slot that names an array, from `slot` to below `end`; `end`: there is none. */
uint64_t handles_next(const struct handles *h, uint64_t slot, uint64_t end);
/* NULL where it was never used. */
const struct handle_slot *handles_slot(const struct handles *h, uint64_t slot);
void handles_free(struct handles *h);
/* 0, FAULT_HANDLE, or FAULT_MEMORY for one that was lost. No reference is taken. */
int handles_get(
	const struct handles *h, uint64_t handle, struct array **arrayp, struct fault *f) FAULT_MUST_USE;
/* Names an array; takes over the reference on success. 0, FAULT_HANDLE, FAULT_LIMIT or -ENOMEM. */
int handles_put(struct handles *h, uint64_t handle, struct array *a, struct fault *f) FAULT_MUST_USE;
/* The same for an array that stands in the catalogue already. */
int handles_adopt(struct handles *h, uint64_t handle, struct array *a, uint32_t entry, struct fault *f) FAULT_MUST_USE;
/* There was no memory to name it: who wants it hears of that, and it may be released as any other. */
void handles_lose(struct handles *h, uint64_t handle);
/* By a batch, or 0: by nothing that could be repeated. 0 or FAULT_HANDLE. */
int handles_release(struct handles *h, uint64_t handle, uint64_t seq, struct fault *f) FAULT_MUST_USE;
/* Batches up to this one were begun: what they have released is forgotten. */
void handles_begun(struct handles *h, uint64_t seq);

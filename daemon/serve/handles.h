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
	uint32_t epoch, node;        /* its node in the session's graph, while that has this epoch */
	bool pending;
	uint8_t mapped;              /* enum array_mapped */
	uint64_t version;
	struct buffer *buffer;
	struct poison *poison;
	struct hold *hold;           /* it is shared with other sessions: share.h; else NULL */
	bool writable;               /* ... and this session may map it for writing */
	uint32_t entry;              /* of the catalogue, which is NULL where it is in none */
	struct catalogue *catalogue;
	struct view view;
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
/*
 * Why it has no value, or NULL: its own poison, or that of its buffer. -ENOMEM cannot be told
 * apart from it, so *poisonp is set only on 0.
 */
int array_check(struct array *a, struct poison **poisonp) FAULT_MUST_USE;

struct handle_slot {
	uint32_t generation;
	struct array *array;         /* NULL: released */
};

struct handles {
	struct handle_slot *slot;
	uint32_t capacity, live;
	uint32_t limit;
	uint64_t *users;             /* arrays of all sessions of the user; NULL: nobody counts */
	uint64_t users_limit;
	struct catalogue *catalogue; /* where named arrays are noted, as the session's; NULL: nowhere */
	uint64_t session;
};

void handles_init(struct handles *h, uint32_t limit);
/* From now on its arrays are counted in *users, too. The table is empty. */
void handles_account(struct handles *h, uint64_t *users, uint64_t limit);
void handles_free(struct handles *h);
/* 0 or FAULT_HANDLE. No reference is taken. */
int handles_get(
	const struct handles *h, uint64_t handle, struct array **arrayp, struct fault *f) FAULT_MUST_USE;
/* Names an array; takes over the reference on success. 0, FAULT_HANDLE, FAULT_LIMIT or -ENOMEM. */
int handles_put(struct handles *h, uint64_t handle, struct array *a, struct fault *f) FAULT_MUST_USE;
/* The same for an array that stands in the catalogue already. */
int handles_adopt(struct handles *h, uint64_t handle, struct array *a, uint32_t entry, struct fault *f) FAULT_MUST_USE;
/* 0 or FAULT_HANDLE. */
int handles_release(struct handles *h, uint64_t handle, struct fault *f) FAULT_MUST_USE;

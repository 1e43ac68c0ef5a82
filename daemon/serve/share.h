/*
 * Arrays that several sessions hold, on purpose.
 *
 * An exported array is a share: it has a space with one arena, memory of the supervisor's that belongs to no session. A
 * session that exported or imported it has a hold, its arrays of it refer to that, and all of them have one buffer. A hold
 * goes when its last array is gone and nothing of its session that is queued reads it any more; with the last hold
 * goes the memory. So a session that ends, however it does, takes nothing from others that hold it too.
 *
 * Tokens belong to the session that exported, and open nothing once it holds the array no more. A token that opens
 * nothing is refused by one sentence, whatever the reason.
 *
 * Writing. Who maps a share for writing waits for what was queued before in every session that holds it; until UNMAP
 * it takes part in nothing anywhere. Views of it that stay in a session get memory of their own as they are made, so
 * a write changes the shared array and nothing else.
 *
 * All of it is in the catalogue, so shared arrays and tokens outlive an engine as other arrays do (share_kept.c): the memory is the
 * supervisor's, and it says who holds it.
 */
#pragma once

#include "daemon/serve/session.h"

struct cJSON;
struct waiter;

/* 0 or -errno. */
int shares_begin(struct server *v) FAULT_MUST_USE;
/* Ends holds that are not needed any more. */
void shares_turn(struct server *v);
/* What the session gathered has run. */
void shares_look_at(struct session *s);
/* The session ends; its lane, its waiters and its handles are gone. */
void shares_end(struct session *s);

/* ---- what the supervisor answers to EXPORT and IMPORT, which go on in the server's turn ---- */

/* Memory for an exported array; takes over fd. */
void share_granted(struct session *s, uint32_t arena, int fd, uint64_t bytes);
/* The session holds that memory. */
void share_held(struct session *s, uint32_t arena);
/* Neither, and why: of what was asked for first. */
void share_not_granted(struct session *s, const struct fault *f);
void share_not_held(struct session *s, const struct fault *f);

/* ---- after an engine's end: share_kept.c ---- */

/* Memory that the session held; takes over fd. 0 or -ENOMEM. */
int share_regained(struct session *s, uint32_t arena, int fd, uint64_t bytes) FAULT_MUST_USE;
/* Takes what the catalogue says of the session's holds and tokens; what it does not know goes back. 0 or -ENOMEM. */
int shares_restore(struct session *s, uint32_t entries) FAULT_MUST_USE;
/* The array becomes one of the share that its entry names: 0, or a fault that says what became of it. */
int share_restored(struct session *s, struct array *a, const struct catalogue_array *n, struct fault *f) FAULT_MUST_USE;
/* Memory that came and was not restored is not wanted any more. */
void shares_forgo(struct session *s);
/* Its arrays have come: a hold without any ends. */
void shares_restored(struct session *s);

/* ---- arrays ---- */

/* For arrays with a hold: the number of its memory. */
uint32_t share_arena(const struct array *a);
/* For arrays with a hold: its last reference goes. */
void share_left(struct array *a);
/* Any array: may it be read, or is it being written elsewhere? 0 or FAULT_STATE. */
int share_check(const struct array *a, struct fault *f) FAULT_MUST_USE;
/* Any array with a buffer: one that lies in a share's memory without being the shared array gets a copy. 0, a fault or -ENOMEM. */
int share_part(struct session *s, struct array *a, struct fault *f) FAULT_MUST_USE;

/* For arrays with a hold. May it be mapped for writing? 0 or FAULT_STATE. */
int share_may_write(const struct array *a, struct fault *f) FAULT_MUST_USE;
/* Before that: what its sessions gathered runs. 0, or -EINPROGRESS as flush_demanded(). */
int share_flush(const struct array *a) FAULT_MUST_USE;
/* Its array is to be written: w->then is called when all that was queued before, in all sessions, has run. 0 or -ENOMEM. */
int share_fence(struct waiter *w) FAULT_MUST_USE;
/* Any array: is it shared, and was written since it was exported? */
bool share_was_written(const struct array *a);
/* It was written, or is not to be after all. share_written() returns the new version. */
uint64_t share_written(struct array *a);
void share_unfenced(struct array *a);

/* Tokens of a session that open something now. */
uint32_t share_tokens(const struct session *s);
void shares_statistics(struct cJSON *json, const struct server *v);

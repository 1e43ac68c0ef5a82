/*
 * Batches that may have to be sent twice: what was sent and is not known to have run, so that it is run by the next engine where this one had not
 * begun it. A program that knows nothing of engines then goes on.
 *
 * A batch goes again only if the daemon's answer to DOOR_RESUME proves that none of its operations was launched or being planned, every batch before it has
 * run, all that it reads is there, and no more than REPEAT_TRIES engines have had it. They go in their order; behind one that does not, none does, and
 * their arrays fail as REPEATABLE. Nothing but operations and replays of recorded graphs is ever repeated.
 *
 * Frames are kept as they were written, up to a number of bytes ($FUSION_REPEAT_BYTES); the oldest go first, and what is behind them is not repeated
 * then. What they read stays in the daemon, which forgets no array that a batch has released before that batch was begun.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/message.h"

struct capture_text;
struct door_resumed;
struct fusion_context;
struct request;

struct repeat_frame;

struct repeats {
	struct repeat_frame *first, *last;
	size_t bytes, limit;         /* limit 0: nothing is kept */
	uint64_t missing;            /* number of a batch that was not kept, or not long enough; 0: none */
	uint64_t settings;           /* counts changes of what results may depend on */
	uint64_t rounds;             /* times that something went again */
};

/* As $FUSION_REPEAT_BYTES says. */
void repeats_init(struct repeats *r);
void repeats_free(struct repeats *r);
/*
 * The frame that the stream's writer holds is about to be sent; its own fields begin at `body`. own: it names operations whose numbers are one engine's; text: the
 * graph that it replays, or NULL.
 */
void repeat_note(struct fusion_context *c, const struct request *q, size_t body, bool own, struct capture_text *text);
/* Batches up to this number have run. */
void repeat_ran(struct repeats *r, uint64_t seq);
/* A batch was refused. */
void repeat_refused(struct repeats *r, uint64_t seq);
/* What was sent until now is not to be repeated; what is sent from now on may give other bits than before. */
void repeat_forget(struct fusion_context *c);
void repeat_settings_changed(struct fusion_context *c);

/* ---- for resume.c, in this order ---- */

/* Another engine has the session: says which batches go again; arrays of the others fail, for this reason. 0 or -ENOMEM. */
int repeat_choose(struct fusion_context *c, const struct door_resumed *resumed, const struct fault *why) FAULT_MUST_USE;
/* Handles by slot, of what the new engine is to keep: what the context holds, and what is read or released by what goes again. NULL: no memory. */
uint64_t *repeat_handles(const struct fusion_context *c);
/* Calls for each upload that is loaded by what goes again. */
void repeat_loads(const struct fusion_context *c, void (*loads)(void *user, uint32_t arena, uint64_t offset), void *user);
/* Sends them. What cannot be sent fails; 0, or that the connection is lost. */
int repeat_send(struct fusion_context *c, const struct fault *why, struct fault *f) FAULT_MUST_USE;

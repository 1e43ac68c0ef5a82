/*
 * Sending what is recorded.
 *
 * A batch holds every pending value: those that nobody reads have gone already (value.h). Those
 * that somebody holds get a handle; the others exist in the daemon only while the batch runs.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/wire.h"
#include "value.h"

struct fusion_context;

/* Sends the pending operations and the releases; may wait for room. flags: SUBMIT_URGENT. */
int flush_send(struct fusion_context *c, unsigned flags, struct fault *f) FAULT_MUST_USE;
/* After an operation was recorded: sends where enough is pending. */
int flush_if_full(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* After a release: sends the releases where they are many and there is room; never waits. */
void flush_releases(struct fusion_context *c);
/* Sends releases that were due and found no room; waits for it. */
int flush_overdue(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* Sends and waits until everything has run. Faults that are of no array go to c->deferred. */
int flush_and_wait(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* Waits until the daemon has run everything up to a request, and we know which were refused. */
int wait_for(struct fusion_context *c, uint64_t seq, struct fault *f) FAULT_MUST_USE;
/* Waits until every request up to a number is accepted or refused. */
int wait_accepted(struct fusion_context *c, uint64_t seq, struct fault *f) FAULT_MUST_USE;

/* Writes one recorded operation; its operands are sent, or have their index. */
void flush_put_value(const struct fusion_context *c, struct wire_writer *w, const struct value *v);
/* Bytes it takes at most. */
uint64_t flush_value_bytes(const struct value *v);
/* What its release gives back: a shared value's goes at once, since others may wait for the memory. */
uint64_t flush_release_bytes(const struct value *v);
/* Of one that is pending: operations in the full batches that lead to its operands, one after the other, nobody having asked for anything of them. */
uint32_t flush_sent_before(const struct value *v);

/* Makes sure the daemon has or gets the value: sends where it is pending. */
int flush_value(struct fusion_context *c, struct value *v, struct fault *f) FAULT_MUST_USE;
/* That, and waits until it is there. */
int flush_and_wait_for(struct fusion_context *c, struct value *v, struct fault *f) FAULT_MUST_USE;

/*
 * What was given up is taken back.
 *
 * Who waits may give up: it is interrupted, or its time is over. The daemon does what was asked all the same, and its answer finds
 * nobody: then a map for writing is unmapped, what was exported is revoked, a pattern that was defined is forgotten, and a handle
 * that an export or an import took is released. Until a map that was given up is taken back nothing that reads the value is sent:
 * it would be refused. A recorded graph needs none of this: its number is forgotten by whoever takes it next (capture.c).
 *
 * Functions require the context's lock.
 */
#pragma once

#include <stdbool.h>

#include "stream.h"

/* Of a request that nobody waits for any more. */
void undo_give_up(struct request *q);
/* Its answer, or why there will be none. */
void undo_answered(struct fusion_context *c, struct request *q, const struct answer *a);
/* A map for writing was granted, and its memory could not be had; or it was unmapped, and an engine ended that may not have heard of it. */
void undo_map(struct fusion_context *c, struct value *v);
/* Sends what takes the oldest of them back by a request that was taken; false where there is nothing to take back. */
bool undo_send(struct fusion_context *c, struct request *q);
bool undo_due(const struct fusion_context *c);
/* Sends all that is owed and finds room. */
void undo_now(struct fusion_context *c);
/* Waits until no engine thinks that the value is mapped. */
int undo_await_unmap(struct fusion_context *c, const struct value *v, struct fault *f) FAULT_MUST_USE;
/* Waits while a map of the value, of any where it is NULL, is given up and not answered. */
int undo_await(struct fusion_context *c, const struct value *v, struct fault *f) FAULT_MUST_USE;

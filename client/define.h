/*
 * Operations that are called by name: those that users define, kept by the context, and those of the daemon's
 * administrator, which the context learns of when one is called for the first time.
 *
 * A call of an expression is recorded as the operations of its text (protocol/expand.c), so the daemon fuses,
 * shares and plans them like any others, and every client gains alike. An operation with a body is one operation
 * (protocol/own.h): a row of this process, by its identity, which each context sends as the number that its daemon has
 * for it. All of it is under the lock of the context.
 */
#pragma once

#include "protocol/wire.h"
#include "record.h"

struct defined;
struct definition;

/* The one with this name; the daemon is asked, which may wait. FAULT_OPERATION where nobody knows it. */
int defined_find(struct recording *r, const char *name, const struct defined **dp) FAULT_MUST_USE;
/* The attributes (1 << enum op_attribute) that its text names. */
uint32_t defined_attributes(const struct defined *d);
/* Records it over r->in. */
int defined_record(const struct defined *d, struct recording *r, const struct op_attr *attr,
	struct value **vp) FAULT_MUST_USE;
/* Records what a definition says once more, over these values; *vp comes with a reference. */
int defined_again(const struct definition *d, struct recording *r, unsigned count, struct value *const *in,
	const struct op_attr *attr, struct value **vp) FAULT_MUST_USE;
/* Another engine has the session, and its own numbers: asks for them. */
int defined_resume(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/* What this context's daemon calls an operation with a body; 0: op is no such. */
unsigned defined_number(const struct fusion_context *c, unsigned op);
/* Takes in the daemon's answer. */
int defined_read(struct fusion_context *c, struct wire_cursor *cursor, struct fault *f) FAULT_MUST_USE;
/* Frees all of a list; returns NULL. */
struct defined *defined_free(struct defined *first);

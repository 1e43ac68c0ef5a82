/*
 * Operations that users define: expressions by name, kept by the context.
 *
 * A call is recorded as the operations of the text (protocol/expand.c), so the daemon fuses, shares and
 * plans them like any others, and every client gains alike. All of it is under the lock of the context.
 */
#pragma once

#include "record.h"

struct definition;

/* The definition with this name, or NULL. */
const struct definition *definition_find(const struct fusion_context *c, const char *name);
/* The attributes (1 << enum op_attribute) that its text names. */
uint32_t definition_attributes(const struct definition *d);
/* Records its operations over r->in. */
int definition_record(const struct definition *d, struct recording *r, const struct op_attr *attr,
	struct value **vp) FAULT_MUST_USE;
/* Frees all of a list; returns NULL. */
struct definition *definitions_free(struct definition *first);

/*
 * Tapes: how gradients go back from a value to what it was made of.
 *
 * A value that depends on a watched array carries a tape: the operation, its operands, and the contents that the
 * gradient needs, no others. What holds:
 *
 *   - Values without watched operands have no tape, so programs that do not differentiate pay a test an operation.
 *   - A tape refers to all its operands and keeps the contents of those that the rule of its operation reads
 *     (rule.h); it also keeps the contents of an operand whose own rule reads its result. So what is kept never
 *     refers to what was made of it, and there is no circle.
 *   - What an elementwise operation makes of contents that are kept anyway is computed again, not kept; within
 *     fusion_checkpoint_begin() and _end() everything is.
 *   - Keeping is a matter of what is sent: while forward and backward pass wait together, nothing is kept that the
 *     planner would not keep by itself.
 *
 * A tape belongs to its value. One that fusion_grad() used up is spent: it leads nowhere, and says so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

struct definition;

struct tape {
	uint16_t op;
	uint8_t arity;
	uint8_t kept;                        /* operands whose contents it keeps */
	uint8_t depth;                       /* operations that make the result of kept contents again; 0: they do not */
	bool self;                           /* the rule reads the result */
	bool tracked;                        /* it depends on watched arrays */
	bool again;                          /* made inside a checkpoint */
	bool spent;
	const struct definition *definition; /* of a user's operation with gradients of its own, or NULL */
	struct op_attr *attr;                /* its attributes; of others the value's */
	struct value *in[LIMIT_OPERANDS];
};

/* A value was recorded: gives it a tape where it needs one. */
int tape_note(struct recording *r, struct value *v) FAULT_MUST_USE;
/* The value is what a definition made of these: its gradients count, not those of its text. */
int tape_define(struct recording *r, const struct definition *d, unsigned count, struct value *const *in,
	const struct op_attr *attr, struct value *v) FAULT_MUST_USE;
/* Makes *vp a value where gradients end: itself, or where it has a tape a view of it. */
int tape_leaf(struct recording *r, struct value **vp) FAULT_MUST_USE;

/* Does a gradient go through this value? */
bool tape_tracks(const struct value *v);
/* Can its contents be used in an operation now? */
bool tape_available(const struct fusion_context *c, const struct value *v);
/* The attributes of the value's operation; never NULL. */
const struct op_attr *tape_attr(const struct value *v);

/* Lets go of all operands, and of what is kept. */
void tape_spend(struct fusion_context *c, struct value *v);
/* For value.c: takes back what operand i was told, and frees a tape without its operands. */
void tape_forget(struct fusion_context *c, struct tape *t, unsigned i);
void tape_free(struct fusion_context *c, struct tape *t);
/* The contents of a value that is sent count while tapes keep them. */
void tape_count(struct fusion_context *c, struct value *v);

/* Is the calling thread between fusion_no_grad_begin() and _end()? */
bool tape_paused(void);

/*
 * Operations that users define, and those that the daemon's administrator did; see define.h.
 */
#include "define.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/definition.h"
#include "protocol/own.h"
#include "context.h"
#include "site.h"
#include "tape.h"

enum {
	/* Definitions of a context: a text of many nodes takes 12 KiB. */
	DEFINITIONS = 256,
};

struct defined {
	struct defined *next;
	struct definition *definition;
	unsigned op;                 /* of an operation with a body: its number here; its definition holds no text */
	unsigned number;             /* and what the daemon calls it */
	bool theirs;                 /* of the daemon; one of the user's own goes before it */
};

struct defined *defined_free(struct defined *first) {
	while (first) {
		struct defined *next = first->next;

		definition_free(first->definition);
		free(first);
		first = next;
	}
	return NULL;
}

static const struct defined *find(const struct fusion_context *c, const char *name) {
	for (const struct defined *d = c->definitions; d; d = d->next)
		if (!strcmp(d->definition->name, name))
			return d;
	return NULL;
}

/* ---- making one ---- */

static int check_room(const struct fusion_context *c, const char *name, struct fault *f) {
	const struct defined *same = find(c, name);
	unsigned count = 0;

	if (same && !same->theirs)
		return fault_set(f, FAULT_ARGUMENT, "%s: it is defined already", name);
	for (const struct defined *each = c->definitions; each; each = each->next)
		count++;
	if (count < DEFINITIONS)
		return 0;
	return fault_set(f, FAULT_LIMIT, "%s: a context has at most %d definitions", name, DEFINITIONS);
}

/* Takes over the definition. */
static int keep(struct fusion_context *c, struct definition *definition, unsigned op, unsigned number, bool theirs) {
	struct defined *d = calloc(1, sizeof *d);

	if (!d) {
		definition_free(definition);
		return -ENOMEM;
	}
	*d = (struct defined){ c->definitions, definition, op, number, theirs };
	c->definitions = d;
	return 0;
}

int fusion_define_op(
	fusion_context *context, const char *name, const char *text, const char *const *gradient) {
	struct definition *d = NULL;
	struct fusion_context *c;
	struct fault f = { 0 };
	int r = context_enter(context, "define_op", &c);

	if (r)
		return r;
	r = definition_new(name, text, gradient, &d, &f);
	if (!r)
		r = check_room(c, d->name, &f);
	if (r > 0)
		fault_prefix(&f, "define_op");
	if (r)
		definition_free(d);
	else
		r = keep(c, d, 0, 0, false);
	context_leave(c);
	return error_report(r, &f);
}

/* ---- those of the daemon ---- */

/* The answer to OPERATION. */
struct theirs {
	char *signature, *text;      /* text: "" of an operation with a body */
	char *gradient[EXPR_OPERANDS];
	unsigned gradients;
	uint64_t op, identity, types, result, shapes;
};

static void theirs_free(struct theirs *t) {
	free(t->signature);
	free(t->text);
	for (unsigned i = 0; i < t->gradients; i++)
		free(t->gradient[i]);
}

static int take_string(struct wire_cursor *c, const char *field, char **textp, struct fault *f) {
	const char *text;
	size_t size;
	int r = wire_get_text(c, field, LIMIT_FRAME_BYTES, &text, &size, f);

	if (r)
		return r;
	*textp = strndup(text, size);
	return *textp ? 0 : -ENOMEM;
}

static int read_gradients(struct wire_cursor *c, struct theirs *t, struct fault *f) {
	struct wire_cursor inside;
	int r = wire_get_array(c, "gradients", UINT32_MAX, &inside, f);

	if (!r && inside.left > EXPR_OPERANDS)
		return fault_set(f, FAULT_PROTOCOL, "there are %u gradients", inside.left);
	while (!r && inside.left) {
		char **textp = &t->gradient[t->gradients];

		r = take_string(&inside, "gradient", textp, f);
		t->gradients += !r;
		if (!r && !**textp) {
			free(*textp);
			*textp = NULL;
		}
	}
	return r;
}

static int read_theirs(struct wire_cursor *c, struct theirs *t, struct fault *f) {
	int r = take_string(c, "signature", &t->signature, f);

	if (!r)
		r = take_string(c, "text", &t->text, f);
	if (!r)
		r = read_gradients(c, t, f);
	if (!r)
		r = wire_get_uint(c, "operation", UINT16_MAX, &t->op, f);
	if (!r)
		r = wire_get_uint(c, "identity", UINT64_MAX, &t->identity, f);
	if (!r)
		r = wire_get_uint(c, "types", OP_TYPES_BOOL, &t->types, f);
	if (!r)
		r = wire_get_uint(c, "result", OP_RESULT_BOOL, &t->result, f);
	return r ? r : wire_get_uint(c, "shapes", 1, &t->shapes, f);
}

/* An operation with a body is a row of op_info(); its definition has a name and operands alone. */
static int take_body(const struct theirs *t, struct definition **dp, unsigned *opp, struct fault *f) {
	struct own_facts facts = { .types = (enum op_types)t->types, .result = (enum op_result)t->result,
		.one_shape = t->shapes };
	struct definition *d = calloc(1, sizeof *d);
	int r = d ? definition_signature(d, t->signature, f) : -ENOMEM;

	if (!r && (!d->arity || d->arity > OWN_OPERANDS))
		r = fault_set(f, FAULT_PROTOCOL, "%s has %u operands", d->name, d->arity);
	if (!r) {
		facts.name = d->name;
		facts.operands = d->operands;
		facts.arity = d->arity;
		for (unsigned i = 0; i < d->arity; i++)
			facts.gradient[i] = t->gradient[i];
		r = own_take(t->identity, &facts, opp, f);
	}
	if (r)
		definition_free(d);
	else
		*dp = d;
	return r;
}

/* The same operation under the engine's number for it. */
static void renumber(const struct fusion_context *c, const char *name, unsigned op, unsigned number) {
	for (struct defined *d = c->definitions; d; d = d->next)
		if (d->theirs && d->op == op && !strcmp(d->definition->name, name))
			d->number = number;
}

int defined_read(struct fusion_context *c, struct wire_cursor *cursor, struct fault *f) {
	struct definition *d = NULL;
	struct theirs t = { 0 };
	unsigned op = 0;
	int r = read_theirs(cursor, &t, f);

	if (!r)
		r = t.op ? take_body(&t, &d, &op, f)
			 : definition_new(t.signature, t.text, (const char *const *)t.gradient, &d, f);
	/* Another thread asked, too, or this is another engine. */
	if (!r && find(c, d->name)) {
		renumber(c, d->name, op, (unsigned)t.op);
		d = definition_free(d);
	}
	if (!r && d)
		r = keep(c, d, op, (unsigned)t.op, true);
	theirs_free(&t);
	return r;
}

static int ask(struct recording *r, const char *name) {
	struct request *q;
	struct answer a = { 0 };
	int failed = stream_room_to_wait(r->context, &q, &r->fault);

	if (failed)
		return failed;
	wire_put_text(stream_begin(r->context, q, REQUEST_OPERATION, 1), name);
	failed = stream_ask(r->context, q, &a, &r->fault);
	if (failed > 0 && a.done)
		fault_prefix(&r->fault, "call");
	return failed;
}

static int ask_again(struct fusion_context *c, const char *name, struct fault *f) {
	struct request *q;
	struct answer a;
	int r = stream_room_to_wait(c, &q, f);

	if (r)
		return r;
	wire_put_text(stream_begin(c, q, REQUEST_OPERATION, 1), name);
	r = stream_ask(c, q, &a, f);
	/* One that is there no more has no number, and is refused when it is used. */
	return r && a.done && !c->stream.lost.code ? 0 : r;
}

int defined_resume(struct fusion_context *c, struct fault *f) {
	int r = 0;

	for (struct defined *d = c->definitions; d; d = d->next)
		if (d->theirs && d->op)
			d->number = 0;
	for (struct defined *d = c->definitions; !r && d; d = d->next)
		if (d->theirs && d->op)
			r = ask_again(c, d->definition->name, f);
	return r;
}

/* ---- those that fused.def names ---- */

#define FUSED_PREFIX "fused_"

static const struct fused {
	const char *name, *signature, *text;
} fused[] = {
#define FUSED(name, operands, text, doc) { FUSED_PREFIX #name, FUSED_PREFIX #name "(" operands ")", text },
#include "protocol/fused.def"
#undef FUSED
};

/* Defines it for the context, as its user could; nothing where the table has no such name. */
static int take_fused(struct fusion_context *c, const char *name, struct fault *f) {
	const struct fused *row = NULL;
	struct definition *d = NULL;
	int r;

	for (unsigned i = 0; i < sizeof fused / sizeof *fused; i++)
		if (!strcmp(fused[i].name, name))
			row = &fused[i];
	if (!row)
		return 0;
	r = definition_new(row->signature, row->text, NULL, &d, f);
	return r ? r : keep(c, d, 0, 0, false);
}

int defined_find(struct recording *r, const char *name, const struct defined **dp) {
	int failed;

	*dp = find(r->context, name);
	if (*dp)
		return 0;
	failed = take_fused(r->context, name, &r->fault);
	if (failed)
		return failed;
	*dp = find(r->context, name);
	if (*dp)
		return 0;
	if (!(r->context->door.features & FEATURE_OPERATIONS))
		return fault_set(&r->fault, FAULT_OPERATION, "call: %s: there is no such operation", name);
	failed = ask(r, name);
	if (!failed)
		*dp = find(r->context, name);
	return failed || *dp ? failed : fault_set(&r->fault, FAULT_PROTOCOL, "call: %s: fusiond told of another operation", name);
}

unsigned defined_number(const struct fusion_context *c, unsigned op) {
	const struct defined *d = op_is_own(op) ? c->definitions : NULL;

	while (d && d->op != op)
		d = d->next;
	return d ? d->number : 0;
}

uint32_t defined_attributes(const struct defined *d) {
	return definition_attributes(d->definition);
}

/* ---- a call ---- */

int defined_again(const struct definition *d, struct recording *r, unsigned count, struct value *const *in,
	const struct op_attr *attr, struct value **vp) {
	struct site s = { .recording = r };
	bool tracks = r->tracks;
	int failed;

	/* Gradients that its author wrote stand for those of its parts. */
	r->tracks = tracks && !definition_differentiates(d);
	failed = site_expand(&s, d->name, &d->expr, count, in, attr, NULL, vp);
	r->tracks = tracks;
	if (!failed && definition_differentiates(d))
		failed = tape_define(r, d, count, in, attr, *vp);
	if (!failed)
		value_ref(*vp);
	site_end(&s);
	return failed;
}

int defined_record(
	const struct defined *d, struct recording *r, const struct op_attr *attr, struct value **vp) {
	unsigned arity = d->definition->arity;

	if (r->count > arity || (d->op && r->count < arity))
		return fault_set(&r->fault, FAULT_ARITY, "%s takes %u operand%s, not %u", d->definition->name, arity,
			arity == 1 ? "" : "s", r->count);
	return d->op ? record_promoted(r, d->op, NULL, vp) : defined_again(d->definition, r, r->count, r->in, attr, vp);
}

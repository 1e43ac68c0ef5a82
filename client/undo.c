/* What was given up is taken back. See undo.h for the contract. */
#include "undo.h"

#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "share.h"
#include "value.h"

void undo_give_up(struct request *q) {
	q->answer = NULL;
	q->given_up = q->sent;
}

/* There is room for each that had a request, as what is owed goes before anything else does. */
static struct undo *owe(struct fusion_context *c, enum message_request kind) {
	struct undo *u = &c->stream.undo[c->stream.undos++];

	*u = (struct undo){ .kind = kind };
	return u;
}

static void unmap_owed(struct fusion_context *c, struct value *v) {
	value_hold(v);
	owe(c, REQUEST_UNMAP)->value = v;
}

void undo_map(struct fusion_context *c, struct value *v) {
	if (c->stream.undos < UNDO_MOST)
		unmap_owed(c, v);
}

static void revoke_owed(struct fusion_context *c, const struct answer *a) {
	memcpy(owe(c, REQUEST_REVOKE)->token, a->token, sizeof a->token);
}

static void forget_owed(struct fusion_context *c, struct request *q) {
	struct undo *u = owe(c, REQUEST_FORGET_PATTERN);

	u->pattern = q->setting;
	u->whole_daemon = q->whole_daemon;
	q->setting = NULL;
}

void undo_answered(struct fusion_context *c, struct request *q, const struct answer *a) {
	if (!q->given_up)
		return;
	if (q->named)
		share_answered(c, q->named, a, q->kind == REQUEST_EXPORT);
	q->named = NULL;
	if (a->fault.code)
		return;
	if (q->kind == REQUEST_MAP && q->value)
		unmap_owed(c, q->value);
	if (q->kind == REQUEST_EXPORT)
		revoke_owed(c, a);
	if (q->kind == REQUEST_PATTERN && q->setting)
		forget_owed(c, q);
}

bool undo_due(const struct fusion_context *c) {
	return c->stream.undos && !c->stream.resuming && c->stream.transport;
}

static void write_undo(struct fusion_context *c, struct request *q, const struct undo *u) {
	struct wire_writer *w;

	switch (u->kind) {
	case REQUEST_UNMAP:
		wire_put_uint(stream_begin_next(c, q, REQUEST_UNMAP, 2), u->value->handle);
		u->value->seq = q->seq;
		return;
	case REQUEST_REVOKE:
		wire_put_bin(stream_begin(c, q, REQUEST_REVOKE, 1), u->token, sizeof u->token);
		return;
	default:
		w = stream_begin(c, q, REQUEST_FORGET_PATTERN, 2);
		wire_put_uint(w, u->whole_daemon);
		wire_put_text(w, u->pattern);
	}
}

/* Nobody is told where it is refused: an engine that was replaced meanwhile need not know of it, but of what was written for others, too. */
bool undo_send(struct fusion_context *c, struct request *q) {
	struct undo u = c->stream.undo[0];
	struct fault f;

	memmove(c->stream.undo, c->stream.undo + 1, --c->stream.undos * sizeof u);
	write_undo(c, q, &u);
	free(u.pattern);
	if (stream_send(c, q, NULL, &f)) {
		if (u.value && u.value->shared)
			unmap_owed(c, u.value);
		if (u.value)
			value_unhold(c, u.value);
		return false;
	}
	q->given_up = true;
	/* The hold is the request's now. */
	q->value = u.value;
	return true;
}

/* The daemon takes back what a session had when that ends. */
static void forget(struct fusion_context *c) {
	while (c->stream.undos) {
		struct undo *u = &c->stream.undo[--c->stream.undos];

		free(u->pattern);
		if (u->value)
			value_unhold(c, u->value);
	}
}

void undo_now(struct fusion_context *c) {
	struct request *q;
	struct fault f;

	if (c->closed)
		forget(c);
	if (!undo_due(c) || !stream_has_room(c) || stream_room(c, &q, &f))
		return;
	stream_forgo(c, q);
}

static bool map_given_up(const struct stream *s, const struct value *v) {
	for (unsigned i = 0; i < STREAM_REQUESTS; i++) {
		const struct request *q = &s->request[i];

		if (q->busy && q->given_up && q->kind == REQUEST_MAP && (!v || q->value == v))
			return true;
	}
	return false;
}

static bool unmap_owes(const struct stream *s, const struct value *v) {
	for (unsigned i = 0; i < s->undos; i++)
		if (s->undo[i].kind == REQUEST_UNMAP && s->undo[i].value == v)
			return true;
	for (unsigned i = 0; i < STREAM_REQUESTS; i++)
		if (s->request[i].busy && s->request[i].kind == REQUEST_UNMAP && s->request[i].value == v)
			return true;
	return false;
}

int undo_await_unmap(struct fusion_context *c, const struct value *v, struct fault *f) {
	int r = 0;

	undo_now(c);
	while (!r && unmap_owes(&c->stream, v)) {
		r = stream_wait_any(c, f);
		undo_now(c);
	}
	return r;
}

int undo_await(struct fusion_context *c, const struct value *v, struct fault *f) {
	int r = 0;

	while (!r && map_given_up(&c->stream, v))
		r = stream_wait_any(c, f);
	return r;
}

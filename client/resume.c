/* Going on with another engine. See resume.h for the contract. */
#include "resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/op.h"
#include "context.h"
#include "define.h"
#include "handle.h"
#include "pattern.h"
#include "repeat.h"
#include "sent.h"
#include "undo.h"
#include "waiting.h"

enum {
	/* Slots whose handles go in one request: a third of a frame. */
	RESUME_SLOTS = 1 << 16,
	/* An engine that is replaced again while it is being resumed. */
	RESUME_TRIES = 16,
};

/* A call at the door that failed because the daemon has ended, or is asked for another engine first: true where it may be made again. */
bool resume_door(struct fusion_context *c, int failed, struct fault *f) {
	bool ended = c->door.features & FEATURE_RETURN && door_ended(&c->door);

	if (failed != FAULT_CONNECT || !(ended || c->stream.adrift || c->stream.resuming) || !resume_possible(c))
		return false;
	c->stream.adrift |= !c->stream.resuming;
	return !resume(c, f);
}

bool resume_possible(const struct fusion_context *c) {
	return c->door.features & FEATURE_RESUME && !c->closed && !c->stream.lost.code;
}

bool resume_due(const struct fusion_context *c) {
	const struct transport *t = c->stream.transport;

	return c->stream.adrift || (t && t->stale && t->stale(t) && resume_possible(c));
}

/* ---- requests that were under way ---- */

/* Whether it had its effect cannot be known: it is none of a batch, and changes something. */
static bool unknowable(const struct request *q) {
	switch (q->kind) {
	case REQUEST_EXPORT:
	case REQUEST_IMPORT:
	case REQUEST_REVOKE:
	case REQUEST_CONFIGURE:
	case REQUEST_SET:
	case REQUEST_PATTERN:
	case REQUEST_FORGET_PATTERN:
		return true;
	default:
		return false;
	}
}

static bool asked_again(const struct request *q) {
	return q->kind == REQUEST_READ || q->kind == REQUEST_MAP || q->kind == REQUEST_WAIT || q->kind == REQUEST_DEFINE;
}

static const struct fault not_begun = { FAULT_REPEATABLE,
	"the engine was replaced before this was begun; what it reads is as it was: it may be asked for again" };

/* The array that it names, which its caller is told not to have: an engine that has it nonetheless lets go of it. */
static void forgo_named(struct fusion_context *c, const struct request *q) {
	struct value *v = q->handle ? slots_value(c->slots, (uint32_t)q->handle) : NULL;

	if (v && v->handle == q->handle)
		v->forgone = true;
}

/*
 * A write of memory has happened already, whoever heard of it; of a shared array the next engine knows from others that it is being written, and has to hear
 * that it is no more. What defines a graph is gone with the engine.
 */
static void settle(struct fusion_context *c, struct request *q, uint64_t accepted) {
	struct fault f = not_begun;

	if (q->kind == REQUEST_UNMAP && q->value && q->seq > accepted) {
		q->value->seq = accepted;
		if (q->value->shared)
			undo_map(c, q->value);
	}
	if (unknowable(q)) {
		forgo_named(c, q);
		fault_set(&f, FAULT_UNKNOWN, "the engine was replaced before it answered; whether this had its effect is not known");
	}
	stream_settle(c, q, asked_again(q) ? NULL : &f);
}

static void settle_all(struct fusion_context *c, uint64_t accepted) {
	for (unsigned i = 0; i < STREAM_REQUESTS; i++)
		if (c->stream.request[i].sent)
			settle(c, &c->stream.request[i], accepted);
}

/* ---- values ---- */

/* What is recorded and reads an array that has failed fails with it. */
static void fail_dependents(struct fusion_context *c) {
	struct value *v = c->pending.first, *next;

	for (; v; v = next) {
		struct value *failed = NULL;

		for (unsigned i = 0; i < v->arity; i++)
			if (v->in[i]->state == VALUE_FAILED)
				failed = v->in[i];
		value_ref(v);
		if (failed)
			value_fail(c, v, failed->failure);
		next = failed ? c->pending.first : v->next;
		value_drop(c, v);
	}
}

static void fail_lost(struct fusion_context *c, struct value *v, int code) {
	struct fault f;

	if (code == FAULT_REPEATABLE)
		f = not_begun;
	else if (code == FAULT_UNKNOWN)
		fault_set(&f, code,
			"the operation was with the device when its engine ended, and may be what ended it; its result is lost, what it reads is as it was");
	else
		fault_set(&f, FAULT_LOST, "the array was on the device alone when its engine ended, or nothing is known of it");
	value_lose(c, v, &f);
}

/* [handle, code, ...] */
static int read_lost(struct fusion_context *c, struct wire_cursor *reply, struct fault *f) {
	struct wire_cursor list;
	uint64_t handle, code;
	int r = wire_get_array(reply, "lost", LIMIT_FRAME_BYTES, &list, f);

	while (!r && list.left) {
		struct value *v;

		r = wire_get_uint(&list, "lost handle", INT64_MAX, &handle, f);
		if (!r)
			r = wire_get_uint(&list, "code", INT32_MAX, &code, f);
		v = r ? NULL : slots_value(c->slots, (uint32_t)handle);
		if (v && v->handle == handle && v->state != VALUE_FAILED)
			fail_lost(c, v, (int)code);
	}
	return r;
}

static void mark_used(void *user, uint32_t arena, uint64_t offset) {
	upload_used(user, arena, offset);
}

int resume_read(struct fusion_context *c, struct wire_cursor *reply, struct fault *f) {
	int r = read_lost(c, reply, f);

	arenas_unused(&c->arenas);
	repeat_loads(c, mark_used, &c->arenas);
	return r ? r : arenas_resumed(&c->arenas, reply, f);
}

/* ---- agreeing ---- */

static uint32_t count_handles(const uint64_t *held, uint32_t first, uint32_t end) {
	uint32_t count = 0;

	for (uint32_t i = first; i < end; i++)
		count += held[i] != 0;
	return count;
}

/* Handles in slots from first to below end; the last part tells of all slots behind it, too. */
static int send_handles(struct fusion_context *c, const uint64_t *held, uint32_t first, uint32_t end, uint32_t slots, struct fault *f) {
	bool last = end >= slots;
	struct wire_writer *w;
	struct request *q;
	struct answer a;
	int r = stream_room_to_wait(c, &q, f);

	if (r)
		return r;
	if (last)
		end = slots;
	w = stream_begin(c, q, REQUEST_RESUME, 3);
	wire_put_uint(w, first);
	wire_put_uint(w, last ? LIMIT_HANDLES : end);
	wire_put_array(w, count_handles(held, first, end));
	for (uint32_t i = first; i < end; i++)
		if (held[i])
			wire_put_uint(w, held[i]);
	return stream_ask(c, q, &a, f);
}

static int agree(struct fusion_context *c, struct fault *f) {
	uint64_t *held = repeat_handles(c);
	uint32_t first = 0, slots = c->slots->count;
	int r = held ? 0 : -ENOMEM;

	while (!r) {
		r = send_handles(c, held, first, first + RESUME_SLOTS, slots, f);
		first += RESUME_SLOTS;
		if (first >= slots || c->stream.adrift)
			break;
	}
	free(held);
	return r;
}

/* ---- one time ---- */

static int ask_door(struct fusion_context *c, struct door_resumed *resumed, struct fault *f) {
	struct door_setting setting[SETTINGS_KEPT];
	unsigned count = context_settings(c, setting);

	return door_resume(&c->door, count, setting, resumed, f);
}

static int call_at_door(struct fusion_context *c, struct door_resumed *resumed, struct fault *f) {
	int r = ask_door(c, resumed, f);

	/* Not the engine has gone but the daemon; one that is started meanwhile may end, too. */
	for (unsigned i = 0; i < RESUME_TRIES && r == FAULT_CONNECT && c->door.features & FEATURE_RETURN && door_ended(&c->door); i++) {
		r = door_return(&c->door, c->options.socket, f);
		if (!r)
			r = ask_door(c, resumed, f);
		else if (r == FAULT_CONNECT && c->door.fd < 0)
			break;
	}
	return r;
}

/* By the door and by numbers; nothing is asked of the engine yet. */
static int reconnect(struct fusion_context *c, struct fault *f) {
	struct door_resumed resumed;
	int r = door_begin(&c->door, f);

	if (!r) {
		r = call_at_door(c, &resumed, f);
		door_end(&c->door);
	}
	if (r)
		return r;
	settle_all(c, resumed.accepted);
	memset(c->capture_known, 0, sizeof c->capture_known);
	c->capture_engine++;
	r = repeat_choose(c, &resumed, &not_begun);
	if (r)
		return r;
	fail_dependents(c);
	c->stream.seq = resumed.accepted;
	if (c->stream.completed > resumed.accepted)
		c->stream.completed = resumed.accepted;
	r = stream_connect(c, f);
	/* The engine that the door told of may have ended before it was called, and its daemon with it: the door is asked again. */
	c->stream.adrift = r == FAULT_CONNECT && resume_possible(c);
	return r;
}

static int resume_once(struct fusion_context *c, struct fault *f) {
	int r;

	stream_disconnect(c);
	if (c->closed)
		return context_refuse_closed(f);
	c->stream.adrift = false;
	r = reconnect(c, f);
	/* None of what is asked of the engine from here on is given up: it would have to be told twice. */
	if (!r)
		r = agree(c, f);
	if (!r)
		r = defined_resume(c, f);
	if (!r)
		r = own_patterns_resume(c, f);
	if (!r && !c->stream.adrift)
		r = repeat_send(c, &not_begun, f);
	/* It has gone, too: once more. */
	return r && c->stream.adrift && resume_possible(c) ? 0 : r;
}

static int resume_all(struct fusion_context *c, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < RESUME_TRIES && (!i || c->stream.adrift); i++)
		r = resume_once(c, f);
	if (!r && c->stream.adrift)
		r = fault_set(f, FAULT_CONNECT, "fusiond's engine ends each time that the session goes on with it");
	return r;
}

int resume(struct fusion_context *c, struct fault *f) {
	struct stream *s = &c->stream;
	int r;

	if (waiting_in_callback())
		return fault_set(f, FAULT_STATE, "the engine is being replaced, for which a callback of libfusion must not wait");
	r = stream_await_resumer(c, f);
	if (r)
		return r;
	if (!resume_due(c)) {
		*f = s->lost;
		return f->code;
	}
	s->resuming = true;
	s->resumer = pthread_self();
	s->adrift = true;
	r = resume_all(c, f);
	/* Asked to stop, or out of time, at the door, which owes the answer: whoever comes next goes on there. */
	if ((r == FAULT_CANCELLED || (r == FAULT_CONNECT && c->door.owed)) && !c->closed) {
		s->adrift = true;
		s->resuming = false;
		stream_wake(s);
		return r;
	}
	if (r < 0)
		r = error_from_errno(f, r, "the session could not go on with another engine");
	s->adrift = false;
	s->resumes++;
	s->resuming = false;
	if (r) {
		stream_lose(c, f);
		for (unsigned i = 0; i < STREAM_REQUESTS; i++)
			if (s->request[i].sent)
				stream_settle(c, &s->request[i], f);
	}
	stream_wake(s);
	fail_dependents(c);
	return r;
}

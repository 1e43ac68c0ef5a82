/* Answers that come later, and WAIT; see wait.h. */
#include "wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "daemon/base/loop.h"
#include "daemon/base/memory.h"
#include "daemon/serve/question.h"

enum {
	/* An accepted batch is told after so long whatever its session waits for: another thread may wait for that. */
	ACCEPTED_US = 2000,
	/* The same where it waits for nothing: the request for a value often comes right behind the batch. */
	ACCEPTED_IDLE_US = 50,
};

static waiter_function answer_accepted;

/* ---- waiters ---- */

int waiter_new(const struct request *r, struct array *a, waiter_function *then, struct waiter **waiterp) {
	struct waiter *w = memory_zeroed(sizeof *w);

	if (!w)
		return -ENOMEM;
	w->session = r->session;
	w->frame = r->frame;
	w->id = r->id;
	w->seq = r->seq;
	w->array = a ? array_ref(a) : NULL;
	w->then = then;
	w->grant.fd = -1;
	if (then != answer_accepted)
		w->session->waiting++;
	DL_APPEND2(w->session->waiters, w, previous, next);
	*waiterp = w;
	return 0;
}

static void unqueue(struct waiter *w) {
	if (w->queue)
		DL_DELETE2(*w->queue, w, queue_previous, queue_next);
	w->queue = NULL;
}

void waiter_queue(struct waiter *w, struct waiter **queue) {
	unqueue(w);
	w->queue = queue;
	DL_APPEND2(*queue, w, queue_previous, queue_next);
}

void waiter_free(struct waiter *w) {
	unqueue(w);
	if (w->then != answer_accepted && !--w->session->waiting)
		w->session->answered_us = loop_now();
	DL_DELETE2(w->session->waiters, w, previous, next);
	array_unref(w->array);
	if (w->question)
		question_forget(w->question);
	if (w->buffer)
		buffer_unref(w->buffer);
	if (w->grant.fd >= 0)
		close(w->grant.fd);
	free(w);
}

void waiter_refuse(struct waiter *w, const struct fault *f) {
	struct session *s = w->session;

	request_refuse(s->server, s, w->frame, f, 0, -1);
	waiter_free(w);
}

bool waiter_failed(struct waiter *w, int r, struct fault *f) {
	if (!r)
		return false;
	if (r < 0)
		fault_of_errno(f, r);
	waiter_refuse(w, f);
	return true;
}

void waiter_told(void *user, const struct fault *f) {
	struct waiter *w = user;

	if (f)
		w->fault = *f;
	waiter_queue(w, &w->session->server->ready);
}

void waiter_ready(void *user) {
	waiter_told(user, NULL);
}

/*
 * What was accepted before goes with the last answer that the client waits for, ahead of it: that wakes the client, which then finds
 * both. Behind it, it might come when the client, that waits for both, sleeps again.
 */
static void tell_accepted(struct session *s) {
	struct waiter *next;

	if (s->waiting > 1)
		return;
	for (struct waiter *w = s->waiters; w; w = next) {
		next = w->next;
		if (w->then == answer_accepted)
			answer_accepted(w);
	}
}

void waiters_turn(struct server *v) {
	while (v->ready) {
		struct waiter *w = v->ready;
		struct session *s = w->session;

		unqueue(w);
		tell_accepted(s);
		w->then(w);
	}
}

/* ---- accepted batches ---- */

static void answer_accepted(struct waiter *w) {
	struct session *s = w->session;
	struct wire_writer *out = request_answer(s->server, w->id, 3);

	wire_put_uint(out, w->seq);
	request_put_freed(s, out);
	wire_put_uint(out, session_completed(s));
	request_send(s->server, w->frame);
	waiter_free(w);
}

int accepted_new(const struct request *r) {
	struct waiter *w;
	int code = waiter_new(r, NULL, answer_accepted, &w);

	if (code)
		return code;
	w->since_us = loop_now();
	waiter_queue(w, &r->session->server->accepted);
	return 0;
}

/* At once where the client has just been told something that it waited for: it is awake. */
static uint64_t accepted_due(const struct waiter *w) {
	const struct session *s = w->session;

	if (s->waiting)
		return w->since_us + ACCEPTED_US;
	return s->answered_us >= w->since_us ? 0 : w->since_us + ACCEPTED_IDLE_US;
}

uint64_t accepted_deadline(const struct server *v) {
	uint64_t first = UINT64_MAX;
	const struct waiter *w;

	DL_FOREACH2(v->accepted, w, queue_next)
		if (accepted_due(w) < first)
			first = accepted_due(w);
	return first;
}

void accepted_turn(struct server *v) {
	uint64_t now = v->accepted ? loop_now() : 0;
	struct waiter *next;

	for (struct waiter *w = v->accepted; w; w = next) {
		next = w->queue_next;
		if (accepted_due(w) <= now)
			answer_accepted(w);
	}
}

/* ---- WAIT ---- */

static void put_failures(struct session *s, struct wire_writer *w) {
	wire_put_array(w, s->failures);
	for (uint32_t i = 0; i < s->failures; i++) {
		wire_put_array(w, 4);
		wire_put_uint(w, s->failure[i].seq);
		wire_put_int(w, s->failure[i].node);
		wire_put_int(w, s->failure[i].fault.code);
		wire_put_text(w, s->failure[i].fault.text);
	}
	s->failures = 0;
}

static void answer_wait(struct waiter *w) {
	struct session *s = w->session;
	struct wire_writer *out = request_answer(s->server, w->id, 3);

	wire_put_uint(out, w->seq);
	request_put_freed(s, out);
	put_failures(s, out);
	request_send(s->server, w->frame);
	waiter_free(w);
}

int wait_request(struct request *r, struct fault *f) {
	struct session *s = r->session;
	struct waiter *w = NULL;
	int code = wire_get_end(&r->body, "WAIT", f);

	if (!code)
		code = flush_demanded(s);
	if (!code)
		code = waiter_new(r, NULL, answer_wait, &w);
	if (code)
		return code;
	code = lane_fence(s->lane, waiter_ready, w);
	if (code)
		waiter_free(w);
	return code;
}

/* Answers that come later, and WAIT; see wait.h. */
#include "wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

/* ---- waiters ---- */

int waiter_new(const struct request *r, struct array *a, waiter_function *then, struct waiter **waiterp) {
	struct waiter *w = calloc(1, sizeof *w);

	if (!w)
		return -ENOMEM;
	w->session = r->session;
	w->frame = r->frame;
	w->id = r->id;
	w->seq = r->seq;
	w->array = a ? array_ref(a) : NULL;
	w->then = then;
	DL_APPEND2(w->session->waiters, w, previous, next);
	*waiterp = w;
	return 0;
}

void waiter_free(struct waiter *w) {
	if (w->ready)
		DL_DELETE2(w->session->server->ready, w, ready_previous, ready_next);
	DL_DELETE2(w->session->waiters, w, previous, next);
	array_unref(w->array);
	if (w->buffer)
		buffer_unref(w->buffer);
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
		fault_set(f, r == -ENOMEM ? FAULT_MEMORY : FAULT_INTERNAL, "the daemon failed: %s", strerror(-r));
	waiter_refuse(w, f);
	return true;
}

static void make_ready(struct waiter *w) {
	w->ready = true;
	DL_APPEND2(w->session->server->ready, w, ready_previous, ready_next);
}

void waiter_fenced(void *user) {
	make_ready(user);
}

void waiter_published(void *user, const struct fault *f) {
	struct waiter *w = user;

	if (f)
		w->fault = *f;
	make_ready(w);
}

void waiters_turn(struct server *v) {
	while (v->ready) {
		struct waiter *w = v->ready;

		DL_DELETE2(v->ready, w, ready_previous, ready_next);
		w->ready = false;
		w->then(w);
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
		code = waiter_new(r, NULL, answer_wait, &w);
	if (code)
		return code;
	if (s->gathered)
		flush_session(s, FLUSH_DEMAND);
	code = lane_fence(s->lane, waiter_fenced, w);
	if (code)
		waiter_free(w);
	return code;
}

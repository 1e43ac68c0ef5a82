/* Questions that take long; see question.h. */
#include "question.h"

#include <errno.h>
#include <stddef.h>

#include "daemon/serve/account.h"
#include "daemon/serve/flight.h"
#include "daemon/serve/planning.h"
#include "daemon/serve/wait.h"

bool question_is_long(uint64_t operations) {
	return operations > PLANNING_NODES;
}

bool question_waits(const struct session *s) {
	return s->account->asks;
}

void question_next(struct question *q, int (*work)(struct question *q, struct fault *f), int (*then)(struct question *q, struct request *r, struct fault *f)) {
	q->work = work;
	q->then = then;
	q->goes_on = true;
}

/* ---- beside the engine's thread ---- */

static struct question *question_of(struct aside_job *j) {
	return (struct question *)(void *)((char *)j - offsetof(struct question, job));
}

static void begin(struct aside_job *j) {
	struct question *q = question_of(j);

	if (q->graph)
		q->note = flight_beside(q->waiter->session, q->graph);
}

static void work(struct aside_job *j) {
	struct question *q = question_of(j);

	q->result = q->work(q, &q->fault);
}

static void drop_note(struct question *q) {
	flight_dropped(q->waiter->session, q->note);
	q->note = 0;
}

/* The user may ask the next one. */
static void leave(struct question *q) {
	q->waiter->question = NULL;
	q->account->asks = false;
	q->server->progress = true;
	q->waiter = NULL;
}

static void go_on(struct question *q) {
	struct waiter *w = q->waiter;
	struct request r = { .session = w->session, .frame = w->frame, .id = w->id, .node = -1 };
	struct fault f = q->fault;
	int code = q->result;

	q->goes_on = false;
	if (!code)
		code = q->then(q, &r, &f);
	if (!code && q->goes_on) {
		aside_ask(q->server->aside, &q->job);
		return;
	}
	leave(q);
	q->end(q);
	if (!waiter_failed(w, code, &f))
		waiter_free(w);
}

static void done(struct aside_job *j) {
	struct question *q = question_of(j);

	if (!q->waiter) {
		q->end(q);
		return;
	}
	drop_note(q);
	go_on(q);
}

void question_forget(struct question *q) {
	drop_note(q);
	leave(q);
	if (aside_withdraw(q->server->aside, &q->job))
		q->end(q);
}

/* ---- the engine's thread ---- */

static int answer_beside(struct question *q, const struct request *r) {
	struct session *s = r->session;
	int code = waiter_new(r, NULL, NULL, &q->waiter);

	if (code) {
		q->end(q);
		return code;
	}
	q->waiter->question = q;
	q->server = s->server;
	q->account = s->account;
	q->account->asks = true;
	q->job = (struct aside_job){ .uid = s->uid, .begin = begin, .work = work, .done = done };
	aside_ask(q->server->aside, &q->job);
	return 0;
}

int question_answer(struct question *q, struct request *r, bool is_long, struct fault *f) {
	int code = 0;

	if (is_long)
		return answer_beside(q, r);
	while (!code && q->goes_on) {
		q->goes_on = false;
		code = q->work(q, f);
		if (!code)
			code = q->then(q, r, f);
	}
	q->end(q);
	return code;
}

/*
 * Requests and replies of one session. See stream.h for the contract.
 *
 * A reply is read on a thread of the transport, under the lock, by the row of its kind; then the
 * request is free again and its waiter wakes. A reply that does not read loses the connection:
 * what the daemon thinks and what we think would no longer agree.
 */
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol/codec.h"
#include "arena.h"
#include "sent.h"
#include "context.h"
#include "define.h"
#include "held.h"
#include "read.h"
#include "resume.h"
#include "sleepers.h"
#include "undo.h"
#include "waiting.h"

enum {
	/* Acceptances take microseconds; reads of long computations are not waited for. */
	CLOSE_WAIT_MS = 500,
};

/* --- replies ----------------------------------------------------------------------------- */

typedef int reply_reader(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f);

static int read_seq(struct request *q, struct wire_cursor *cursor, struct fault *f) {
	uint64_t seq;
	int r = wire_get_uint(cursor, "seq", INT64_MAX, &seq, f);

	if (!r && seq != q->seq)
		r = fault_set(f, FAULT_PROTOCOL, "fusiond answered request %llu with %llu",
			(unsigned long long)q->seq, (unsigned long long)seq);
	return r;
}

/* Told by the way, by a daemon that does so. */
static int read_completed(struct fusion_context *c, struct wire_cursor *cursor, struct fault *f) {
	uint64_t completed = 0;
	int r = cursor->left ? wire_get_uint(cursor, "completed", INT64_MAX, &completed, f) : 0;

	if (!r)
		repeat_ran(&c->repeats, completed);
	return r;
}

static int read_submit(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	int r = read_seq(q, cursor, f);

	(void)a;
	if (r)
		return r;
	sent_accepted(c->sent, q->seq);
	r = arenas_freed(&c->arenas, cursor, f);
	return r ? r : read_completed(c, cursor, f);
}

static int read_wait(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	int r = read_seq(q, cursor, f);

	(void)a;
	if (!r)
		r = arenas_freed(&c->arenas, cursor, f);
	if (!r)
		r = sent_faults(c, cursor, f);
	if (r)
		return r;
	if (c->stream.completed < q->seq)
		c->stream.completed = q->seq;
	sent_done(c->sent, c->stream.completed);
	repeat_ran(&c->repeats, c->stream.completed);
	return 0;
}

static int read_location(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	int r = wire_get_uint(cursor, "arena", UINT32_MAX, &a->arena, f);

	if (!r)
		r = wire_get_uint(cursor, "offset", INT64_MAX, &a->offset, f);
	if (!r)
		r = wire_get_uint(cursor, "bytes", INT64_MAX, &a->bytes, f);
	if (!r)
		r = arenas_freed(&c->arenas, cursor, f);
	if (!r)
		r = read_completed(c, cursor, f);
	if (!r && c->stream.transport && c->stream.transport->result)
		a->result = c->stream.transport->result(c->stream.transport, (unsigned)(q - c->stream.request));
	return r;
}

static int read_arena(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	int r = wire_get_uint(cursor, "arena", LIMIT_ARENA_NUMBERS - 1, &a->arena, f);

	(void)c;
	(void)q;
	return r ? r : wire_get_uint(cursor, "bytes", LIMIT_ARRAY_BYTES, &a->bytes, f);
}

static int read_unmap(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	uint64_t version;
	int r = read_seq(q, cursor, f);

	(void)a;
	if (!r)
		sent_accepted(c->sent, q->seq);
	/* The array waits for nothing any more: whatever number the next engine counts from, it is there. */
	if (!r && q->value && q->value->seq == q->seq)
		q->value->seq = 0;
	return r ? r : wire_get_uint(cursor, "version", UINT64_MAX, &version, f);
}

static int read_define(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	(void)c;
	(void)a;
	return read_seq(q, cursor, f);
}

static int read_text(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	const char *text;
	size_t size;
	int r = wire_get_text(cursor, "text", LIMIT_FRAME_BYTES, &text, &size, f);

	(void)c;
	(void)q;
	if (r)
		return r;
	a->text = strndup(text, size);
	return a->text ? 0 : -ENOMEM;
}

static int read_can_fuse(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	int r = wire_get_bool(cursor, "verdict", &a->truth, f);

	return r ? r : read_text(c, q, cursor, a, f);
}

static int read_operation(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	(void)q;
	(void)a;
	return defined_read(c, cursor, f);
}

static int read_export(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	const void *token;
	int r = wire_get_bin(cursor, "token", sizeof a->token, &token, f);

	(void)c;
	(void)q;
	if (!r)
		memcpy(a->token, token, sizeof a->token);
	return r ? r : wire_get_uint(cursor, "arena", UINT32_MAX, &a->arena, f);
}

static int read_import(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	int r = codec_get_type(cursor, &a->type, f);

	(void)c;
	(void)q;
	if (!r)
		r = wire_get_uint(cursor, "rights", SHARE_READ | SHARE_WRITE, &a->rights, f);
	if (!r)
		r = wire_get_uint(cursor, "version", UINT64_MAX, &a->version, f);
	return r ? r : wire_get_uint(cursor, "arena", UINT32_MAX, &a->arena, f);
}

/* Of what was cancelled; who cancels learns of each array by itself. */
static int read_count(struct fusion_context *c, struct request *q, struct wire_cursor *cursor, struct answer *a, struct fault *f) {
	uint64_t count;
	int r = wire_get_uint(cursor, "count", UINT32_MAX, &count, f);

	(void)c;
	(void)q;
	(void)a;
	return r ? r : wire_get_end(cursor, "the reply", f);
}

static int read_nothing(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	(void)c;
	(void)q;
	(void)a;
	return wire_get_end(cursor, "the reply", f);
}

/* From now on every engine begins with it. */
static int read_configure(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	int r = read_nothing(c, q, cursor, a, f);

	if (r)
		return r;
	context_keep_setting(c, q->setting);
	q->setting = NULL;
	return 0;
}

static int read_resume(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	(void)q;
	(void)a;
	return resume_read(c, cursor, f);
}

static const struct {
	reply_reader *read;
	bool ordered; /* carries a sequence number of its own */
} kinds[] = {
	[REQUEST_SUBMIT] = { read_submit, true },
	[REQUEST_WAIT] = { read_wait, false },
	[REQUEST_READ] = { read_location, false },
	[REQUEST_MAP] = { read_location, false },
	[REQUEST_UNMAP] = { read_unmap, true },
	[REQUEST_DEFINE] = { read_define, true },
	[REQUEST_REPLAY] = { read_submit, true },
	[REQUEST_FORGET] = { read_define, true },
	[REQUEST_EXPLAIN] = { read_text, false },
	[REQUEST_MADE] = { read_text, false },
	[REQUEST_STATS] = { read_text, false },
	[REQUEST_CAN_FUSE] = { read_can_fuse, false },
	[REQUEST_CONFIGURE] = { read_configure, false },
	[REQUEST_CANCEL] = { read_count, false },
	[REQUEST_EXPORT] = { read_export, false },
	[REQUEST_IMPORT] = { read_import, false },
	[REQUEST_REVOKE] = { read_nothing, false },
	[REQUEST_SETTINGS] = { read_text, false },
	[REQUEST_SET] = { read_nothing, false },
	[REQUEST_RECENT] = { read_text, false },
	[REQUEST_OPERATION] = { read_operation, false },
	[REQUEST_OPERATIONS] = { read_text, false },
	[REQUEST_PATTERN] = { read_nothing, false },
	[REQUEST_FORGET_PATTERN] = { read_nothing, false },
	[REQUEST_PATTERNS] = { read_text, false },
	[REQUEST_CLIENTS] = { read_text, false },
	[REQUEST_KERNELS] = { read_text, false },
	[REQUEST_EVENTS] = { read_text, false },
	[REQUEST_ARENA] = { read_arena, false },
	[REQUEST_RESUME] = { read_resume, false },
};

bool stream_ordered(const struct request *q) {
	return kinds[q->kind].ordered;
}

/* A shortage may pass, others stop writing a shared array, or another engine come: it can be asked for again. */
static bool fault_passes(const struct value *v, const struct fault *f) {
	return f->code == FAULT_MEMORY || f->code == FAULT_LIMIT || f->code == FAULT_REPEATABLE ||
	       (v->shared && f->code == FAULT_STATE);
}

static void value_refused(struct fusion_context *c, struct request *q, struct fault *f) {
	struct failure *failure;

	if (q->value->state == VALUE_FAILED)
		*f = q->value->failure->fault; /* the first cause says more */
	held_append(c, f);
	place_append(f, q->value->place);
	if (fault_passes(q->value, f))
		return;
	failure = failure_new(c, f);
	value_fail(c, q->value, failure);
	failure_drop(c, failure);
}

/* The request was refused: gives the fault a place and fails the arrays that depend on it. */
static void refused(
	struct fusion_context *c, struct request *q, uint64_t seq, int64_t node, struct fault *f) {
	if (q->given_up && stream_ordered(q)) {
		sent_accepted(c->sent, q->seq);
		return;
	}
	if (stream_ordered(q)) {
		repeat_refused(&c->repeats, q->seq);
		sent_refused(c, q->seq, node, f);
	}
	if (!stream_ordered(q) && seq)
		sent_place(c->sent, seq, node, f);
	if (q->value && q->kind != REQUEST_EXPORT)
		value_refused(c, q, f);
}

/* [code, sentence], then [seq, node] of the operation to blame where the daemon knows it. */
static int read_refusal(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	uint64_t seq = 0;
	int64_t node = -1;
	int r = message_get_fault(cursor, &a->fault, f);

	if (!r && cursor->left)
		r = wire_get_uint(cursor, "seq", INT64_MAX, &seq, f);
	if (!r && cursor->left)
		r = wire_get_int(cursor, "node", -1, LIMIT_BATCH_OPS, &node, f);
	if (r)
		return r;
	/* The engine knows that a session has ended, the door why. */
	if (a->fault.code == FAULT_CONNECT && door_ended(&c->door) && door_last_word(&c->door, f))
		a->fault = *f;
	refused(c, q, seq, node, &a->fault);
	return 0;
}

static int read_reply(struct fusion_context *c, struct request *q, struct wire_cursor *cursor,
	struct answer *a, struct fault *f) {
	uint64_t id;
	int r = wire_get_uint(cursor, "reply", UINT32_MAX, &id, f);

	if (r)
		return r;
	if (id == MESSAGE_FAULT)
		return read_refusal(c, q, cursor, a, f);
	if (id != q->kind)
		return fault_set(
			f, FAULT_PROTOCOL, "fusiond answered message %u with %u", q->kind, (unsigned)id);
	return kinds[q->kind].read(c, q, cursor, a, f);
}

static void lose_for(struct fusion_context *c, int r, struct fault *f) {
	if (r < 0)
		error_from_errno(f, r, "the connection to fusiond broke, its arrays are lost");
	stream_lose(c, f);
}

/* Reads the bytes of a reply into the answer; whatever goes wrong loses the connection. */
static void take_reply(
	struct fusion_context *c, struct request *q, const void *bytes, size_t size, struct answer *a) {
	struct wire_reader reader;
	struct wire_cursor cursor;
	struct fault f;
	int r = wire_open(&reader, bytes, size, &f);

	if (!r) {
		cursor = wire_root(&reader);
		r = read_reply(c, q, &cursor, a, &f);
		wire_close(&reader);
	}
	if (!r)
		return;
	lose_for(c, r, &f);
	a->fault = c->stream.lost;
}

static void request_end(struct fusion_context *c, struct request *q, struct sleepers_woken *woken) {
	q->busy = q->sent = q->given_up = false;
	q->answer = NULL;
	q->later = NULL;
	q->value = q->named = NULL;
	q->handle = 0;
	free(q->setting);
	q->setting = NULL;
	c->stream.busy--;
	pthread_cond_broadcast(&c->stream.changed);
	sleepers_ended(&c->stream, q, woken);
}

/* Settles a request under the lock; a read that nobody waits for is left to the caller. */
static struct later *settle(struct fusion_context *c, struct request *q, struct answer *a, struct sleepers_woken *woken) {
	struct later *later = q->later;
	struct value *v = q->value;

	a->done = true;
	undo_answered(c, q, a);
	request_end(c, q, woken);
	if (!later && v)
		value_unhold(c, v);
	return later;
}

void stream_wake(struct stream *s) {
	struct sleepers_woken woken = { .count = 0 };

	pthread_cond_broadcast(&s->changed);
	sleepers_all(s, &woken);
	sleepers_wake(&woken);
}

static void replaced(struct fault *f) {
	fault_set(f, FAULT_REPEATABLE, "the engine is being replaced; ask for the array again");
}

static void stream_reply(void *user, unsigned slot, int result, const void *bytes, size_t size) {
	struct fusion_context *c = user;
	struct request *q = &c->stream.request[slot];
	struct answer own = { 0 }, *a;
	struct sleepers_woken woken = { .count = 0 };
	struct later *later;
	struct value *v;
	struct fault f;

	pthread_mutex_lock(&c->lock);
	a = q->answer ? q->answer : &own;
	v = q->value;
	/* Another engine may go on: resume.c knows what becomes of the request. A callback is for this thread. */
	if (result && (c->stream.adrift || resume_possible(c))) {
		c->stream.adrift = true;
		stream_wake(&c->stream);
		if (!q->later) {
			pthread_mutex_unlock(&c->lock);
			return;
		}
		replaced(&a->fault);
	} else if (result) {
		lose_for(c, result, &f);
		a->fault = c->stream.lost;
	} else {
		take_reply(c, q, bytes, size, a);
	}
	later = settle(c, q, a, &woken);
	pthread_mutex_unlock(&c->lock);
	sleepers_wake(&woken);
	waiting_callback(true);
	if (later)
		later_finish(c, later, v, &own);
	waiting_callback(false);
	free(own.text);
	free(own.result);
}

/* Takes the reads that nobody waits for out of their requests: no reply will come. */
static unsigned take_later(struct fusion_context *c, struct later *later[], struct value *value[]) {
	unsigned count = 0;

	for (unsigned i = 0; i < STREAM_REQUESTS; i++) {
		struct request *q = &c->stream.request[i];

		if (!q->busy || !q->later)
			continue;
		later[count] = q->later;
		value[count++] = q->value;
		q->later = NULL;
		q->value = NULL;
	}
	return count;
}

static bool last_word(struct fusion_context *c, struct fault *f) {
	const struct transport *t = c->stream.transport;

	return t && t->last_word ? t->last_word(t, f) : door_last_word(&c->door, f);
}

static void stream_broken(void *user) {
	struct fusion_context *c = user;
	struct later *later[STREAM_REQUESTS];
	struct value *value[STREAM_REQUESTS];
	struct answer a = { 0 };
	unsigned count;

	pthread_mutex_lock(&c->lock);
	if (resume_possible(c)) {
		c->stream.adrift = true;
		replaced(&a.fault);
		stream_wake(&c->stream);
	} else {
		c->stream.broken = true;
		if (!last_word(c, &a.fault))
			fault_set(&a.fault, FAULT_CONNECT, "the connection to fusiond broke; its arrays are lost");
		stream_lose(c, &a.fault);
	}
	count = take_later(c, later, value);
	pthread_mutex_unlock(&c->lock);
	waiting_callback(true);
	for (unsigned i = 0; i < count; i++)
		later_finish(c, later[i], value[i], &a);
	waiting_callback(false);
}

/* --- requests ---------------------------------------------------------------------------- */

static int condition_init(struct stream *s) {
	pthread_condattr_t attributes;
	int r = pthread_condattr_init(&attributes);

	if (r)
		return -r;
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	r = pthread_cond_init(&s->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	return -r;
}

int stream_open(struct fusion_context *c, struct fault *f) {
	int r = condition_init(&c->stream);

	if (!r)
		r = -pthread_mutex_init(&c->stream.leaving, NULL);
	wire_writer_init(&c->stream.writer);
	return r ? r : stream_connect(c, f);
}

int stream_connect(struct fusion_context *c, struct fault *f) {
	struct transport_events events = { .reply = stream_reply, .broken = stream_broken, .user = c };
	struct transport_ends ends = { .memory = c->door.ring, .bell = c->door.bell, .door = c->door.fd };

	if (c->door.link)
		return transport_remote_open(
			c->door.link, STREAM_REQUESTS, c->stream.timeout_ms, &events, &c->stream.transport, f);
	if (c->door.ring < 0)
		return transport_dial(c->door.url, STREAM_REQUESTS, &events, &c->stream.transport, f);
	return transport_ring_open(
		&ends, STREAM_REQUESTS, c->stream.timeout_ms, &events, &c->stream.transport, f);
}

bool stream_has_reader(const struct stream *s, const struct transport *t) {
	return !t->wait || s->watched;
}

void stream_leave(struct fusion_context *c) {
	struct transport *t;

	pthread_mutex_lock(&c->stream.leaving);
	t = c->stream.transport;
	if (t && t->leave)
		t->leave(t);
	pthread_mutex_unlock(&c->stream.leaving);
}

/* The transport is its caller's to free. */
static struct transport *take_transport(struct stream *s) {
	struct transport *t;

	pthread_mutex_lock(&s->leaving);
	t = s->transport;
	s->transport = NULL;
	pthread_mutex_unlock(&s->leaving);
	return t;
}

/* Who reads there leaves first. Callbacks come while it is freed. */
void stream_disconnect(struct fusion_context *c) {
	struct stream *s = &c->stream;
	struct transport *t = take_transport(s);

	if (t && t->interrupt && !s->watched)
		t->interrupt(t);
	while (s->reading)
		pthread_cond_wait(&s->changed, &c->lock);
	s->watched = false;
	pthread_mutex_unlock(&c->lock);
	if (t)
		t->free(t);
	pthread_mutex_lock(&c->lock);
}

void stream_settle(struct fusion_context *c, struct request *q, const struct fault *f) {
	struct answer own = { 0 }, *a = q->answer ? q->answer : &own;
	struct sleepers_woken woken = { .count = 0 };
	struct value *v = q->value;

	if (f)
		a->fault = *f;
	else
		fault_set(&a->fault, FAULT_REPEATABLE, "the engine was replaced; ask again");
	a->again = !f;
	a->done = true;
	undo_answered(c, q, a);
	request_end(c, q, &woken);
	sleepers_wake(&woken);
	if (v)
		value_unhold(c, v);
}

bool stream_resumed_elsewhere(const struct stream *s) {
	return s->resuming && !pthread_equal(s->resumer, pthread_self());
}

void stream_close(struct fusion_context *c) {
	struct timespec deadline = waiting_until(CLOSE_WAIT_MS);
	struct transport *t;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	while (c->stream.resuming)
		pthread_cond_wait(&c->stream.changed, &c->lock);
	t = take_transport(&c->stream);
	if (t && t->interrupt && !c->stream.watched)
		t->interrupt(t);
	while (c->stream.reading)
		pthread_cond_wait(&c->stream.changed, &c->lock);
	while (t && stream_has_reader(&c->stream, t) && c->stream.busy && !c->stream.broken && !r)
		r = pthread_cond_timedwait(&c->stream.changed, &c->lock, &deadline);
	pthread_mutex_unlock(&c->lock);
	if (t)
		t->free(t);
}

void stream_free(struct fusion_context *c) {
	wire_writer_free(&c->stream.writer);
	pthread_cond_destroy(&c->stream.changed);
	pthread_mutex_destroy(&c->stream.leaving);
}

void stream_lose(struct fusion_context *c, const struct fault *why) {
	if (!c->stream.lost.code)
		c->stream.lost = *why;
	stream_wake(&c->stream);
}

static int refuse_lost(const struct fusion_context *c, struct fault *f) {
	*f = c->stream.lost;
	return f->code;
}

/* Does this error mean that another engine will have to go on? Then what was sent is settled by resume.c. */
static bool went_adrift(struct fusion_context *c, int r) {
	if ((r != -EPIPE && r != -ECONNRESET) || !resume_possible(c))
		return false;
	c->stream.adrift = true;
	return true;
}

/* A daemon that cannot be woken is gone; what was sent ends as everything else under way. */
static int push(struct fusion_context *c, struct fault *f) {
	struct transport *t = c->stream.transport;
	int r = t && t->push ? t->push(t) : 0;

	if (!r || went_adrift(c, r))
		return 0;
	lose_for(c, r, f);
	return refuse_lost(c, f);
}

static int refuse_again(struct fault *f) {
	return fault_set(f, FAULT_REPEATABLE, "the engine was replaced once more");
}

/* ---- who waits may be asked to stop ---- */

static bool is_before(const struct timespec *a, const struct timespec *b) {
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static int ask_to_stop(struct fusion_context *c, struct fault *f) {
	bool stop;

	pthread_mutex_unlock(&c->lock);
	stop = waiting_stops();
	pthread_mutex_lock(&c->lock);
	return stop ? waiting_refuse(f) : 0;
}

struct wait {
	struct sleeper_wish wish;
	struct timespec deadline;
};

/*
 * Sleeps as sleep_on() does, until there is something to look at, the deadline passes, or it is time to ask. Who tells the next engine what there is is not asked:
 * half of that is no state to go on with.
 */
static int sleep_or_ask(struct fusion_context *c, const struct wait *w, struct fault *f) {
	struct stream *s = &c->stream;
	bool asks = waiting_is_asked() && (!s->resuming || stream_resumed_elsewhere(s));
	struct timespec question = asks ? waiting_until(WAITING_ASK_MS) : (struct timespec){ 0 };
	const struct timespec *end = s->timeout_ms ? &w->deadline : NULL;
	int r;

	asks = asks && (!end || is_before(&question, end));
	if (asks)
		end = &question;
	r = sleepers_sleep(c, &w->wish, end);
	if (r == ETIMEDOUT && asks)
		return ask_to_stop(c, f);
	if (r == ETIMEDOUT)
		return fault_set(f, FAULT_CONNECT, "fusiond did not answer within %u ms", s->timeout_ms);
	return 0;
}

/* Sleeps until there is something to look at, or the deadline passes. */
static int sleep_on(struct fusion_context *c, const struct wait *w, struct fault *f) {
	struct stream *s = &c->stream;
	uint64_t resumes = s->resumes;
	int r;

	if (stream_resumed_elsewhere(s))
		return sleep_or_ask(c, w, f);
	/* Nobody sleeps before the daemon has heard of what was sent. */
	s->corked = false;
	r = s->resuming ? (s->adrift ? refuse_again(f) : 0) : resume_due(c) ? resume(c, f) : 0;
	if (!r)
		r = push(c, f);
	if (r)
		return r;
	/* What was waited for may have been settled. */
	if (!s->resuming && s->resumes != resumes)
		return 0;
	return sleep_or_ask(c, w, f);
}

/* Without a look at what was sent: for what the context itself does. */
static void await_change(struct fusion_context *c) {
	struct waiting_given given = waiting_sleeps();

	pthread_cond_wait(&c->stream.changed, &c->lock);
	waiting_wakes_with(given, &c->lock);
}

int stream_watch(struct fusion_context *c, struct fault *f) {
	struct stream *s = &c->stream;
	int r = 0;

	if (!s->transport || !s->transport->wait)
		return 0;
	if (!s->watched)
		r = s->transport->watch(s->transport);
	if (r)
		return fault_set(f, FAULT_MEMORY, "no thread can be started to read answers: %s", strerror(-r));
	s->watched = true;
	/* A thread that still reads could get the answer that this caller wants on the library's. */
	while (s->reading)
		await_change(c);
	return 0;
}

static int refuse_callback(struct fault *f) {
	return fault_set(f, FAULT_STATE, "a callback of libfusion must not wait for the daemon");
}

bool stream_has_room(const struct fusion_context *c) {
	return c->stream.busy < STREAM_REQUESTS && !c->stream.lost.code;
}

static int wait_for_any(struct fusion_context *c, struct sleeper_wish wish, struct fault *f) {
	const struct wait w = { .wish = wish, .deadline = waiting_until(c->stream.timeout_ms) };

	if (waiting_in_callback())
		return refuse_callback(f);
	if (c->stream.lost.code)
		return refuse_lost(c, f);
	return sleep_on(c, &w, f);
}

int stream_wait_any(struct fusion_context *c, struct fault *f) {
	return wait_for_any(c, (struct sleeper_wish){ .reason = SLEEPER_ANYTHING }, f);
}

int stream_await_resumer(struct fusion_context *c, struct fault *f) {
	const struct wait w = { .wish = { .reason = SLEEPER_ANYTHING }, .deadline = waiting_until(c->stream.timeout_ms) };
	int r = 0;

	while (!r && stream_resumed_elsewhere(&c->stream))
		r = sleep_or_ask(c, &w, f);
	return r;
}

/* Whoever was about it has given up, and there is nothing to send by. */
static bool abandoned(const struct fusion_context *c) {
	return !c->stream.resuming && !c->stream.transport && resume_due(c);
}

/* Who was woken for room does not take it. */
static void leave_room(struct stream *s) {
	struct sleepers_woken woken = { .count = 0 };

	sleepers_room(s, &woken);
	sleepers_wake(&woken);
}

static unsigned room(const struct stream *s) {
	return STREAM_REQUESTS - s->busy;
}

/* For so many; for one where no more comes soon. */
static bool lacks_room(const struct stream *s, unsigned needs) {
	return !room(s) || (room(s) < needs && stream_frees(s));
}

static int await_room(struct fusion_context *c, unsigned needs, struct fault *f) {
	struct stream *s = &c->stream;
	int r = 0;

	/* Nobody else sends anything while a thread tells the next engine what there is, whatever has room by then. */
	while (!r && (stream_resumed_elsewhere(s) || abandoned(c) || lacks_room(s, needs))) {
		if (stream_resumed_elsewhere(s))
			r = stream_await_resumer(c, f);
		else
			r = abandoned(c) ? resume(c, f) : wait_for_any(c, (struct sleeper_wish){ .reason = SLEEPER_ROOM, .room = needs }, f);
		/* Who was passed over once takes what there is. */
		needs = 1;
	}
	if (!r && s->lost.code)
		r = refuse_lost(c, f);
	if (r)
		leave_room(s);
	return r;
}

static struct request *take(struct stream *s) {
	struct request *q = s->request;

	while (q->busy)
		q++;
	q->busy = true;
	s->busy++;
	return q;
}

/* What was given up is taken back before anything else is asked. */
int stream_room(struct fusion_context *c, struct request **requestp, struct fault *f) {
	int r = await_room(c, 1, f);

	while (!r && undo_due(c)) {
		if (!undo_send(c, take(&c->stream)))
			return refuse_lost(c, f);
		r = await_room(c, 1, f);
	}
	if (!r)
		*requestp = take(&c->stream);
	return r;
}

int stream_room_to_wait(struct fusion_context *c, struct request **requestp, struct fault *f) {
	return waiting_in_callback() ? refuse_callback(f) : stream_room(c, requestp, f);
}

int stream_await_pair(struct fusion_context *c, struct fault *f) {
	return await_room(c, 2, f);
}

void stream_end_pair(struct fusion_context *c) {
	if (c->stream.sleepers)
		leave_room(&c->stream);
}

bool stream_frees(const struct stream *s) {
	for (unsigned i = 0; i < STREAM_REQUESTS; i++)
		if (s->request[i].sent && stream_ordered(&s->request[i]))
			return true;
	return false;
}

unsigned stream_holds(const struct stream *s, const struct value *v) {
	unsigned count = 0;

	for (unsigned i = 0; i < STREAM_REQUESTS; i++)
		count += s->request[i].busy && s->request[i].value == v;
	return count;
}

void stream_forgo(struct fusion_context *c, struct request *q) {
	struct sleepers_woken woken = { .count = 0 };

	request_end(c, q, &woken);
	sleepers_wake(&woken);
}

struct wire_writer *stream_begin(
	struct fusion_context *c, struct request *q, enum message_request kind, uint32_t fields) {
	struct wire_writer *w = &c->stream.writer;

	q->kind = kind;
	q->seq = 0;
	wire_writer_clear(w);
	wire_put_array(w, 3 + fields);
	wire_put_uint(w, kind);
	wire_put_uint(w, c->door.session);
	wire_put_bin(w, c->door.secret, sizeof c->door.secret);
	return w;
}

struct wire_writer *stream_begin_next(
	struct fusion_context *c, struct request *q, enum message_request kind, uint32_t fields) {
	struct wire_writer *w = stream_begin(c, q, kind, fields);

	q->seq = ++c->stream.seq;
	wire_put_uint(w, q->seq);
	return w;
}

/* The request is under way all the same; but nobody waits for it. */
static int push_request(struct fusion_context *c, struct request *q, struct fault *f) {
	int r = push(c, f);

	if (r)
		q->answer = NULL;
	return r;
}

static unsigned slot_of(const struct fusion_context *c, const struct request *q) {
	return (unsigned)(q - c->stream.request);
}

/* May something be sent? */
static int send_begin(struct fusion_context *c, struct request *q, struct answer *answer, struct fault *f) {
	struct stream *s = &c->stream;

	if (answer)
		*answer = (struct answer){ 0 };
	q->answer = answer;
	if (s->lost.code)
		return refuse_lost(c, f);
	q->sent = s->transport != NULL;
	if (!s->transport)
		return context_refuse_closed(f);
	/* Whoever reads meanwhile is woken by the answer, and wakes who waits for it. */
	if (answer && s->reading && s->transport->heed)
		s->transport->heed(s->transport, slot_of(c, q));
	return 0;
}

/* What was submitted, or not, for r. */
static int send_end(struct fusion_context *c, struct request *q, int r, struct fault *f) {
	if (!r && !c->stream.corked)
		return push_request(c, q, f);
	if (!r || went_adrift(c, r))
		return 0;
	stream_forgo(c, q);
	if (r == -ECANCELED)
		r = context_refuse_closed(f);
	lose_for(c, r, f);
	return refuse_lost(c, f);
}

int stream_send(struct fusion_context *c, struct request *q, struct answer *answer, struct fault *f) {
	struct stream *s = &c->stream;
	int r = send_begin(c, q, answer, f);

	if (!r)
		r = wire_finish(&s->writer);
	if (!r)
		r = s->transport->submit(s->transport, slot_of(c, q), s->writer.buffer.data, s->writer.buffer.size);
	return send_end(c, q, r, f);
}

int stream_send_arena(
	struct fusion_context *c, struct request *q, uint64_t bytes, struct answer *answer, struct fault *f) {
	int r = send_begin(c, q, answer, f);

	q->kind = REQUEST_ARENA;
	q->seq = 0;
	if (!r)
		r = c->stream.transport->ask_arena(c->stream.transport, slot_of(c, q), bytes);
	return send_end(c, q, r, f);
}

int stream_upload(struct fusion_context *c, uint32_t arena, uint64_t offset, const void *bytes, uint64_t size,
	struct fault *f) {
	struct transport *t = c->stream.transport;
	int r = t && t->upload ? t->upload(t, arena, offset, bytes, size) : 0;

	if (!r)
		return 0;
	if (r == -ECANCELED)
		r = context_refuse_closed(f);
	lose_for(c, r, f);
	return refuse_lost(c, f);
}

void stream_expect(struct fusion_context *c, const struct request *q, uint64_t bytes) {
	struct transport *t = c->stream.transport;

	if (t && t->expect)
		t->expect(t, slot_of(c, q), bytes);
}

void stream_cork(struct fusion_context *c) {
	c->stream.corked = true;
}

void stream_uncork(struct fusion_context *c) {
	struct fault lost;

	c->stream.corked = false;
	/* Who waits for an answer is told. */
	if (push(c, &lost))
		return;
}

int stream_wait(struct fusion_context *c, struct request *q, struct answer *answer, struct fault *f) {
	const struct wait w = { .wish = { .reason = SLEEPER_ANSWER, .request = q }, .deadline = waiting_until(c->stream.timeout_ms) };
	int r = 0;

	while (!r && !answer->done && !c->stream.lost.code)
		r = sleep_on(c, &w, f);
	if (!answer->done) {
		undo_give_up(q);
		return r ? r : refuse_lost(c, f);
	}
	*f = answer->fault;
	return f->code;
}

int stream_ask(struct fusion_context *c, struct request *q, struct answer *answer, struct fault *f) {
	int r = stream_send(c, q, answer, f);

	return r ? r : stream_wait(c, q, answer, f);
}

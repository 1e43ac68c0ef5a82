#include "sp.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <utlist.h>

enum { GREETING_BYTES = 8, FRAME_MESSAGE = 1 };

enum coming { GREETING, HEAD, MESSAGE };

struct sp {
	struct sp_options options;
	nng_stream *stream;
	nng_aio *receive, *send;
	pthread_mutex_t lock;        /* of what follows, except what is received, which its callback alone touches */
	bool closed;                 /* no operation is begun any more */
	unsigned operations;         /* begun, and their callbacks not yet over */
	struct sp_message *queue;    /* to be sent; once greeted, the first one is under way */
	uint8_t *out;                /* the rest of what is being sent */
	size_t out_left;             /* 0: nothing is */
	enum coming coming;
	struct sp_message *message;
	uint8_t *in;                 /* where the rest of what comes goes */
	size_t in_left;
	uint8_t own[GREETING_BYTES], peer[SP_HEAD_BYTES];
};

static void greeting_put(uint8_t bytes[static GREETING_BYTES], uint16_t protocol) {
	const uint8_t greeting[GREETING_BYTES] = { 0, 'S', 'P', 0, (uint8_t)(protocol >> 8), (uint8_t)protocol };

	memcpy(bytes, greeting, sizeof greeting);
}

/* ---- operations; all under the lock ---- */

static void close_locked(struct sp *s) {
	if (!s->closed)
		nng_stream_close(s->stream);
	s->closed = true;
}

static void begin(struct sp *s, nng_aio *aio, void (*operation)(nng_stream *, nng_aio *), uint8_t *bytes, size_t size) {
	nng_iov iov = { .iov_buf = bytes, .iov_len = size };

	nng_aio_set_iov(aio, 1, &iov);
	operation(s->stream, aio);
}

static void receive_more(struct sp *s) {
	begin(s, s->receive, nng_stream_recv, s->in, s->in_left);
}

static void send_more(struct sp *s) {
	begin(s, s->send, nng_stream_send, s->out, s->out_left);
}

/* False where there is nothing to be sent. */
static bool send_next(struct sp *s) {
	if (!s->queue)
		return false;
	s->out = s->queue->head;
	s->out_left = SP_HEAD_BYTES + s->queue->size;
	send_more(s);
	return true;
}

/* Ends an operation's callback, and unlocks. After the last one nothing may touch s. */
static void operation_over(struct sp *s) {
	bool last = --s->operations == 0;

	pthread_mutex_unlock(&s->lock);
	if (last)
		s->options.ended(s->options.user);
}

/* ---- sending ---- */

static void sent_one(struct sp *s) {
	struct sp_message *m = s->queue;

	/* Nothing queued was in hand while the greeting went. */
	if (!m || s->out != m->bytes + m->size)
		return;
	LL_DELETE(s->queue, m);
	free(m);
}

static void on_sent(void *user) {
	struct sp *s = user;
	size_t n = nng_aio_count(s->send);
	int failed = nng_aio_result(s->send);

	pthread_mutex_lock(&s->lock);
	if (failed || s->closed) {
		close_locked(s);
		operation_over(s);
		return;
	}
	s->out += n;
	s->out_left -= n;
	if (s->out_left) {
		send_more(s);
		pthread_mutex_unlock(&s->lock);
		return;
	}
	sent_one(s);
	if (send_next(s))
		pthread_mutex_unlock(&s->lock);
	else
		operation_over(s);
}

struct sp_message *sp_message_new(size_t size) {
	uint64_t length = htobe64(size);
	struct sp_message *m = size <= SIZE_MAX - sizeof *m ? malloc(sizeof *m + size) : NULL;

	if (!m)
		return NULL;
	m->size = size;
	m->head[0] = FRAME_MESSAGE;
	memcpy(m->head + 1, &length, sizeof length);
	return m;
}

void sp_send(struct sp *s, struct sp_message *m) {
	pthread_mutex_lock(&s->lock);
	if (s->closed) {
		pthread_mutex_unlock(&s->lock);
		free(m);
		return;
	}
	LL_APPEND(s->queue, m);
	if (!s->out_left) {
		s->operations++;
		send_next(s);
	}
	pthread_mutex_unlock(&s->lock);
}

unsigned sp_waiting(struct sp *s) {
	const struct sp_message *m;
	unsigned n;

	pthread_mutex_lock(&s->lock);
	LL_COUNT(s->queue, m, n);
	pthread_mutex_unlock(&s->lock);
	return n > 0 ? n - 1 : 0;
}

/* ---- receiving; in the callback of `receive` alone ---- */

static void expect(struct sp *s, enum coming what, uint8_t *into, size_t size) {
	s->coming = what;
	s->in = into;
	s->in_left = size;
}

static bool greeted(struct sp *s) {
	uint8_t right[GREETING_BYTES];

	greeting_put(right, s->options.peer);
	if (memcmp(s->peer, right, sizeof right) != 0)
		return false;
	nng_aio_set_timeout(s->receive, NNG_DURATION_INFINITE);
	expect(s, HEAD, s->peer, SP_HEAD_BYTES);
	if (s->options.greeted)
		s->options.greeted(s->options.user);
	return true;
}

static bool announced(struct sp *s) {
	uint64_t length;

	memcpy(&length, s->peer + 1, sizeof length);
	length = be64toh(length);
	if (s->peer[0] != FRAME_MESSAGE || length > s->options.limit)
		return false;
	if (s->options.announced && !s->options.announced(s->options.user, (size_t)length))
		return false;
	s->message = sp_message_new((size_t)length);
	if (!s->message)
		return false;
	expect(s, MESSAGE, s->message->bytes, (size_t)length);
	return true;
}

static bool arrived(struct sp *s) {
	struct sp_message *m = s->message;

	s->message = NULL;
	expect(s, HEAD, s->peer, SP_HEAD_BYTES);
	s->options.message(s->options.user, m);
	return true;
}

/* What is complete is used; a message may have no bytes at all. False: the connection has to end. */
static bool take(struct sp *s) {
	static bool (*const complete[])(struct sp *) = { [GREETING] = greeted, [HEAD] = announced, [MESSAGE] = arrived };
	bool fine = true;

	while (fine && !s->in_left)
		fine = complete[s->coming](s);
	return fine;
}

static void on_received(void *user) {
	struct sp *s = user;
	size_t n = nng_aio_count(s->receive);
	bool fine = !nng_aio_result(s->receive);

	if (fine) {
		s->in += n;
		s->in_left -= n;
		fine = take(s);
	}
	pthread_mutex_lock(&s->lock);
	if (!fine)
		close_locked(s);
	if (s->closed) {
		operation_over(s);
		return;
	}
	receive_more(s);
	pthread_mutex_unlock(&s->lock);
}

/* ---- the connection ---- */

struct sp *sp_new(nng_stream *stream, const struct sp_options *options) {
	struct sp *s = calloc(1, sizeof *s);

	if (!s) {
		nng_stream_free(stream);
		return NULL;
	}
	s->stream = stream;
	s->options = *options;
	pthread_mutex_init(&s->lock, NULL);
	if (nng_aio_alloc(&s->receive, on_received, s) || nng_aio_alloc(&s->send, on_sent, s))
		return sp_free(s);
	nng_aio_set_timeout(s->receive, options->greeting_ms);
	nng_aio_set_timeout(s->send, options->send_ms);
	greeting_put(s->own, options->own);
	s->out = s->own;
	s->out_left = GREETING_BYTES;
	expect(s, GREETING, s->peer, GREETING_BYTES);
	return s;
}

void sp_start(struct sp *s) {
	pthread_mutex_lock(&s->lock);
	s->operations = 2;
	send_more(s);
	receive_more(s);
	pthread_mutex_unlock(&s->lock);
}

void sp_close(struct sp *s) {
	pthread_mutex_lock(&s->lock);
	close_locked(s);
	pthread_mutex_unlock(&s->lock);
}

/* nng frees an operation in a thread of its own: its callback, in which this may be, is over then. */
struct sp *sp_free(struct sp *s) {
	struct sp_message *m, *next;

	LL_FOREACH_SAFE(s->queue, m, next)
		free(m);
	free(s->message);
	if (s->receive)
		nng_aio_reap(s->receive);
	if (s->send)
		nng_aio_reap(s->send);
	nng_stream_free(s->stream);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

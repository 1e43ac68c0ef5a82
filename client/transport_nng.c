/*
 * The transport to the engine's socket, as nng's req0 speaks (protocol/sp.h): one connection, a number for each request.
 *
 * The number says the slot, and which of its requests: an answer that nobody awaits is a fault of the other end.
 *
 * nng starts its threads (two for each processor and a few more) at the first use in the process; version 1.5 has no
 * way to ask for fewer.
 */
#include "transport.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>

#include "protocol/limits.h"
#include "protocol/sp.h"

enum {
	/* The engine's answer to the greeting. */
	GREETING_MS = 10000,
	SLOT_BITS = 4,
	SLOT_MASK = (1 << SLOT_BITS) - 1,
};

_Static_assert(LIMIT_UNANSWERED <= SLOT_MASK + 1, "a slot has its bits of a request's number");

struct transport_nng {
	struct transport base;
	struct transport_events events;
	struct sp *sp;
	pthread_mutex_t lock;
	pthread_cond_t told;         /* that it was greeted, or has ended */
	bool greeted, ended, closing;
	uint32_t requests;           /* submitted so far */
	unsigned slots;
	uint32_t under_way[];        /* the number of each slot's request; 0: none */
};

static uint32_t number_get(const uint8_t bytes[static SP_NUMBER_BYTES]) {
	uint32_t n;

	memcpy(&n, bytes, sizeof n);
	return be32toh(n);
}

static void number_put(uint8_t bytes[static SP_NUMBER_BYTES], uint32_t number) {
	uint32_t n = htobe32(number);

	memcpy(bytes, &n, sizeof n);
}

static void on_greeted(void *user) {
	struct transport_nng *t = user;

	pthread_mutex_lock(&t->lock);
	t->greeted = true;
	pthread_cond_signal(&t->told);
	pthread_mutex_unlock(&t->lock);
}

/* From here on another thread may use the slot again. False where no request of this number is under way. */
static bool answered(struct transport_nng *t, uint32_t number) {
	unsigned slot = number & SLOT_MASK;
	bool known;

	pthread_mutex_lock(&t->lock);
	known = number && slot < t->slots && t->under_way[slot] == number;
	if (known)
		t->under_way[slot] = 0;
	pthread_mutex_unlock(&t->lock);
	return known;
}

static void on_message(void *user, struct sp_message *m) {
	struct transport_nng *t = user;
	uint32_t number = m->size >= SP_NUMBER_BYTES ? number_get(m->bytes) : 0;

	if (answered(t, number))
		t->events.reply(t->events.user, number & SLOT_MASK, 0, m->bytes + SP_NUMBER_BYTES, m->size - SP_NUMBER_BYTES);
	else
		sp_close(t->sp);
	free(m);
}

/* What was asked is answered by its failure. */
static void on_ended(void *user) {
	struct transport_nng *t = user;
	bool closing;

	pthread_mutex_lock(&t->lock);
	closing = t->closing || !t->greeted;
	t->ended = true;
	pthread_cond_signal(&t->told);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->slots; i++)
		if (answered(t, t->under_way[i]))
			t->events.reply(t->events.user, i, closing ? -ECANCELED : -ECONNRESET, NULL, 0);
	if (!closing)
		t->events.broken(t->events.user);
	pthread_mutex_lock(&t->lock);
	t->sp = sp_free(t->sp);
	pthread_cond_signal(&t->told);
	pthread_mutex_unlock(&t->lock);
}

static int submit(struct transport *base, unsigned slot, const void *bytes, size_t size) {
	struct transport_nng *t = (struct transport_nng *)base;
	struct sp_message *m;
	int r = 0;

	if (size > LIMIT_FRAME_BYTES - SP_NUMBER_BYTES)
		return -EMSGSIZE;
	m = sp_message_new(SP_NUMBER_BYTES + size);
	if (!m)
		return -ENOMEM;
	memcpy(m->bytes + SP_NUMBER_BYTES, bytes, size);
	pthread_mutex_lock(&t->lock);
	if (t->ended) {
		free(m);
		r = -ECONNRESET;
	} else {
		t->under_way[slot] = UINT32_C(1) << 31 | (++t->requests << SLOT_BITS & INT32_MAX) | slot;
		number_put(m->bytes, t->under_way[slot]);
		sp_send(t->sp, m);
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

static void transport_free(struct transport *base) {
	struct transport_nng *t = (struct transport_nng *)base;

	pthread_mutex_lock(&t->lock);
	t->closing = true;
	if (t->sp)
		sp_close(t->sp);
	while (t->sp)
		pthread_cond_wait(&t->told, &t->lock);
	pthread_mutex_unlock(&t->lock);
	pthread_cond_destroy(&t->told);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* 0, or nng's error. */
static int connect_to(const char *url, nng_stream **streamp) {
	nng_stream_dialer *dialer = NULL;
	nng_aio *aio = NULL;
	int r = nng_stream_dialer_alloc(&dialer, url);

	if (!r)
		r = nng_aio_alloc(&aio, NULL, NULL);
	if (!r) {
		nng_stream_dialer_dial(dialer, aio);
		nng_aio_wait(aio);
		r = nng_aio_result(aio);
	}
	if (!r)
		*streamp = nng_aio_get_output(aio, 0);
	nng_aio_free(aio);
	if (dialer)
		nng_stream_dialer_free(dialer);
	return r;
}

/* False where the engine has no room for another connection, or is none. */
static bool meet(struct transport_nng *t) {
	bool greeted;

	pthread_mutex_lock(&t->lock);
	while (!t->greeted && !t->ended)
		pthread_cond_wait(&t->told, &t->lock);
	greeted = t->greeted;
	pthread_mutex_unlock(&t->lock);
	return greeted;
}

int transport_dial(const char *url, unsigned slots, const struct transport_events *events,
	struct transport **transportp, struct fault *f) {
	struct transport_nng *t = calloc(1, sizeof *t + slots * sizeof *t->under_way);
	struct sp_options options = { .own = SP_REQ0, .peer = SP_REP0, .limit = LIMIT_FRAME_BYTES, .greeting_ms = GREETING_MS,
		.send_ms = NNG_DURATION_INFINITE, .greeted = on_greeted, .message = on_message, .ended = on_ended, .user = t };
	nng_stream *stream;
	int r;

	if (!t)
		return -ENOMEM;
	r = connect_to(url, &stream);
	if (r) {
		free(t);
		return fault_set(f, FAULT_CONNECT, "fusiond's engine does not answer at %s: %s", url, nng_strerror(r));
	}
	t->base = (struct transport){ .submit = submit, .free = transport_free };
	t->events = *events;
	t->slots = slots;
	t->sp = sp_new(stream, &options);
	if (!t->sp) {
		free(t);
		return -ENOMEM;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->told, NULL);
	sp_start(t->sp);
	if (!meet(t)) {
		transport_free(&t->base);
		return fault_set(f, FAULT_CONNECT, "fusiond's engine took no connection at %s", url);
	}
	*transportp = &t->base;
	return 0;
}

/*
 * The op stream at a local socket, where clients speak as nng's req0 sockets do (protocol/sp.h).
 *
 * nng's threads run the callbacks below, those of one connection one at a time. The lock covers the lists, the counts and
 * `closing`; nothing is called back with it held. A connection stays until its end was told and its last request answered.
 */
#include "transport.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/transport/ipc/ipc.h>
#include <utlist.h>

#include "protocol/limits.h"
#include "protocol/sp.h"

enum {
	/* A connection that takes nothing of an answer for this long is closed. */
	NNG_SEND_MS = 1000,
	/* One that does not say for this long what it speaks, too: as long as nng gives it. */
	NNG_GREETING_MS = 10000,
	/* Before connections are accepted again where memory or descriptors are short. */
	NNG_NAP_MS = 50,
	/* Numbers of a request: its own, and one for each of as many proxies as nng lets it pass. */
	NNG_NUMBERS = 8,
};

struct nng_connection {
	struct nng_transport *transport;
	struct sp *sp;
	unsigned users;              /* until its end was told, and each request */
	unsigned unanswered;
	struct nng_connection *prev, *next;
};

struct nng_request {
	struct transport_request request;
	struct nng_connection *connection;
	struct sp_message *message;
	size_t numbers;              /* bytes before the frame */
	struct nng_request *prev, *next;
};

struct nng_transport {
	struct transport base;
	nng_stream_listener *listener;
	nng_aio *accept, *nap;
	pthread_mutex_t lock;
	pthread_cond_t ended;        /* a connection, or the use of it */
	struct nng_connection *connections;
	struct nng_request *requests;
	uint32_t living, limit;      /* connections whose end was not told yet */
	bool closing;
};

static int error_of(int nng) {
	return nng == NNG_ENOMEM       ? -ENOMEM
	       : nng == NNG_EADDRINUSE ? -EADDRINUSE
	       : nng == NNG_EPERM      ? -EACCES
				       : -EIO;
}

/* ---- connections ---- */

/* Unlocks. */
static void connection_leave(struct nng_connection *c) {
	struct nng_transport *t = c->transport;
	bool last = --c->users == 0;

	if (last) {
		DL_DELETE(t->connections, c);
		sp_free(c->sp);
		free(c);
	}
	pthread_cond_signal(&t->ended);
	pthread_mutex_unlock(&t->lock);
}

static void on_ended(void *user) {
	struct nng_connection *c = user;

	pthread_mutex_lock(&c->transport->lock);
	c->transport->living--;
	connection_leave(c);
}

/* Bytes of the numbers before a request's frame; 0 where the message has no end of them. */
static size_t numbers_of(const struct sp_message *m) {
	for (size_t n = 0; n < (size_t)NNG_NUMBERS * SP_NUMBER_BYTES && n + SP_NUMBER_BYTES <= m->size; n += SP_NUMBER_BYTES)
		if (m->bytes[n] & 0x80)
			return n + SP_NUMBER_BYTES;
	return 0;
}

/*
 * False where its connection has too many: requests without an answer, and answers that wait for one it does not take. The answer that
 * is on its way does not count: its request is answered as soon as the client has it, before that is known here.
 */
static bool request_add(struct nng_request *r) {
	struct nng_connection *c = r->connection;
	struct nng_transport *t = c->transport;
	unsigned waiting = sp_waiting(c->sp);
	bool room;

	pthread_mutex_lock(&t->lock);
	room = c->unanswered + waiting < LIMIT_UNANSWERED;
	if (room) {
		DL_APPEND(t->requests, r);
		c->unanswered++;
		c->users++;
	}
	pthread_mutex_unlock(&t->lock);
	return room;
}

/* A request that makes no sense to the transport costs its sender the connection. */
static void on_message(void *user, struct sp_message *m) {
	struct nng_connection *c = user;
	struct nng_transport *t = c->transport;
	struct nng_request *r = calloc(1, sizeof *r);
	size_t numbers = numbers_of(m);

	if (r)
		*r = (struct nng_request){ .connection = c, .message = m, .numbers = numbers,
			.request = { .transport = &t->base, .bytes = m->bytes + numbers, .size = m->size - numbers } };
	if (!r || !numbers || !request_add(r)) {
		sp_close(c->sp);
		free(m);
		free(r);
		return;
	}
	t->base.receive(t->base.user, &r->request);
}

/* NULL where there is no room for it; the stream is gone then. */
static struct nng_connection *connection_new(struct nng_transport *t, nng_stream *stream) {
	struct nng_connection *c = calloc(1, sizeof *c);
	const struct sp_options options = { .own = SP_REP0, .peer = SP_REQ0, .limit = LIMIT_FRAME_BYTES,
		.greeting_ms = NNG_GREETING_MS, .send_ms = NNG_SEND_MS, .message = on_message, .ended = on_ended, .user = c };

	if (!c) {
		nng_stream_free(stream);
		return NULL;
	}
	c->transport = t;
	c->users = 1;
	c->sp = sp_new(stream, &options);
	if (!c->sp) {
		free(c);
		return NULL;
	}
	return c;
}

static void connection_add(struct nng_transport *t, nng_stream *stream) {
	struct nng_connection *c = connection_new(t, stream);
	bool room;

	if (!c)
		return;
	pthread_mutex_lock(&t->lock);
	room = !t->closing && t->living < t->limit;
	if (room) {
		DL_APPEND(t->connections, c);
		t->living++;
		sp_start(c->sp);
	}
	pthread_mutex_unlock(&t->lock);
	if (!room) {
		sp_free(c->sp);
		free(c);
	}
}

/* ---- accepting ---- */

/* Nothing is begun once the listener may be closed. */
static void accept_more(struct nng_transport *t, bool at_once) {
	pthread_mutex_lock(&t->lock);
	if (!t->closing && at_once)
		nng_stream_listener_accept(t->listener, t->accept);
	else if (!t->closing)
		nng_sleep_aio(NNG_NAP_MS, t->nap);
	pthread_mutex_unlock(&t->lock);
}

static void on_accepted(void *user) {
	struct nng_transport *t = user;
	int failed = nng_aio_result(t->accept);

	if (!failed)
		connection_add(t, nng_aio_get_output(t->accept, 0));
	accept_more(t, !failed);
}

static void on_nap(void *user) {
	accept_more(user, true);
}

/* ---- the transport ---- */

static struct sp_message *answer_new(const struct nng_request *r, const void *bytes, size_t size) {
	struct sp_message *m = sp_message_new(r->numbers + size);

	if (m) {
		memcpy(m->bytes, r->message->bytes, r->numbers);
		if (size)
			memcpy(m->bytes + r->numbers, bytes, size);
	}
	return m;
}

/* Unlocks. */
static void request_free(struct nng_request *r) {
	struct nng_connection *c = r->connection;

	DL_DELETE(c->transport->requests, r);
	c->unanswered--;
	free(r->message);
	free(r);
	connection_leave(c);
}

/* Counted as answered before it is sent: the next request may come before that is known here. */
static void nng_reply(struct transport *base, struct transport_request *request, const void *bytes, size_t size) {
	struct nng_transport *t = (struct nng_transport *)base;
	struct nng_request *r = (struct nng_request *)request;
	struct sp_message *m = answer_new(r, bytes, size);

	pthread_mutex_lock(&t->lock);
	if (m)
		sp_send(r->connection->sp, m);
	else
		sp_close(r->connection->sp);
	request_free(r);
}

static int nng_start(struct transport *base) {
	struct nng_transport *t = (struct nng_transport *)base;
	int r = nng_stream_listener_listen(t->listener);

	if (r)
		return error_of(r);
	accept_more(t, true);
	return 0;
}

/* All connections end; then nothing is received any more, and what was not answered goes. */
static void connections_close(struct nng_transport *t) {
	struct nng_connection *c;

	pthread_mutex_lock(&t->lock);
	DL_FOREACH(t->connections, c)
		sp_close(c->sp);
	while (t->living)
		pthread_cond_wait(&t->ended, &t->lock);
	while (t->requests) {
		request_free(t->requests);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
}

static void nng_shut(struct transport *base) {
	struct nng_transport *t = (struct nng_transport *)base;

	pthread_mutex_lock(&t->lock);
	t->closing = true;
	pthread_mutex_unlock(&t->lock);
	if (t->listener)
		nng_stream_listener_close(t->listener);
	if (t->accept)
		nng_aio_stop(t->accept);
	if (t->nap)
		nng_aio_stop(t->nap);
	connections_close(t);
	nng_aio_free(t->accept);
	nng_aio_free(t->nap);
	if (t->listener)
		nng_stream_listener_free(t->listener);
	pthread_cond_destroy(&t->ended);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static int open_listener(struct nng_transport *t, const char *url, unsigned mode) {
	int r = nng_aio_alloc(&t->accept, on_accepted, t);

	if (!r)
		r = nng_aio_alloc(&t->nap, on_nap, t);
	if (!r)
		r = nng_stream_listener_alloc(&t->listener, url);
	if (!r)
		r = nng_stream_listener_set_int(t->listener, NNG_OPT_IPC_PERMISSIONS, (int)mode);
	return r;
}

int transport_nng_new(const char *url, unsigned mode, uint32_t connections, struct transport **transportp) {
	static const struct transport_functions functions = { nng_start, nng_reply, nng_shut };
	struct nng_transport *t = calloc(1, sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->base.functions = &functions;
	t->limit = connections;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->ended, NULL);
	r = open_listener(t, url, mode);
	if (r) {
		nng_shut(&t->base);
		return error_of(r);
	}
	*transportp = &t->base;
	return 0;
}

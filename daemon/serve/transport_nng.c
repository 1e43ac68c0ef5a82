/*
 * The op stream over nng's rep0.
 *
 * A context carries one request from its arrival to its answer. One or two are always receiving;
 * when the last one gets a request another is taken from those at rest, or opened. Contexts
 * reorder requests now and then, which the numbers of requests put right.
 *
 * nng's threads run the callbacks below; the lock covers the lists and the counts of connections.
 * nng is never called with the lock held where it could call back.
 */
#include "transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/transport/ipc/ipc.h>
#include <uthash.h>

#include "protocol/limits.h"

enum {
	/* Contexts that go on receiving after an answer; more are put to rest. */
	NNG_RECEIVING = 2,
	/* An answer that its client does not take for this long costs it the connection. */
	NNG_SEND_MS = 1000,
};

struct nng_work;

struct nng_connection {
	uint32_t id;                 /* nng's pipe */
	uint32_t unanswered;
	UT_hash_handle hh;
};

struct nng_transport {
	struct transport base;
	nng_socket socket;
	nng_listener listener;
	pthread_mutex_t lock;
	struct nng_work *works;      /* all, by `sibling` */
	struct nng_work *rest;       /* neither receiving nor at work, by `next` */
	struct nng_connection *connections;
	uint32_t limit;
	unsigned receiving;
	bool closing;
};

struct nng_work {
	struct transport_request request;
	struct nng_transport *transport;
	struct nng_work *sibling, *next;
	nng_ctx context;
	nng_aio *receive, *send;
	nng_msg *message;
	nng_pipe pipe;
};

static int error_of(int nng) {
	return nng == NNG_ENOMEM       ? -ENOMEM
	       : nng == NNG_EADDRINUSE ? -EADDRINUSE
	       : nng == NNG_EPERM      ? -EACCES
				       : -EIO;
}

/* ---- contexts ---- */

static void on_received(void *user);
static void on_sent(void *user);

static int work_open(struct nng_transport *t, struct nng_work **workp) {
	struct nng_work *w = calloc(1, sizeof *w);
	int r;

	if (!w)
		return -ENOMEM;
	w->transport = t;
	r = nng_aio_alloc(&w->receive, on_received, w);
	if (!r)
		r = nng_aio_alloc(&w->send, on_sent, w);
	if (!r)
		r = nng_ctx_open(&w->context, t->socket);
	if (r) {
		if (w->receive)
			nng_aio_free(w->receive);
		if (w->send)
			nng_aio_free(w->send);
		free(w);
		return error_of(r);
	}
	nng_aio_set_timeout(w->send, NNG_SEND_MS);
	*workp = w;
	return 0;
}

/* One at rest, or a new one; NULL where memory is short or the transport closes. */
static struct nng_work *work_take(struct nng_transport *t) {
	struct nng_work *w;

	pthread_mutex_lock(&t->lock);
	w = t->rest;
	if (w)
		t->rest = w->next;
	pthread_mutex_unlock(&t->lock);
	if (w)
		return w;
	if (work_open(t, &w))
		return NULL;
	pthread_mutex_lock(&t->lock);
	w->sibling = t->works;
	t->works = w;
	pthread_mutex_unlock(&t->lock);
	return w;
}

static void work_rest(struct nng_work *w) {
	struct nng_transport *t = w->transport;

	w->next = t->rest;
	t->rest = w;
}

/* Receives again, or rests where enough others receive. */
static void work_again(struct nng_work *w) {
	struct nng_transport *t = w->transport;
	bool receive;

	pthread_mutex_lock(&t->lock);
	receive = !t->closing && t->receiving < NNG_RECEIVING;
	if (receive)
		t->receiving++;
	else
		work_rest(w);
	pthread_mutex_unlock(&t->lock);
	if (receive)
		nng_ctx_recv(w->context, w->receive);
}

/* Keeps at least one context receiving. */
static void receive_more(struct nng_transport *t) {
	struct nng_work *w;
	bool needed;

	pthread_mutex_lock(&t->lock);
	needed = !t->closing && t->receiving == 0;
	pthread_mutex_unlock(&t->lock);
	w = needed ? work_take(t) : NULL;
	if (w)
		work_again(w);
}

/* ---- connections ---- */

static struct nng_connection *connection_find(struct nng_transport *t, nng_pipe pipe) {
	uint32_t id = (uint32_t)nng_pipe_id(pipe);
	struct nng_connection *c;

	HASH_FIND(hh, t->connections, &id, sizeof id, c);
	return c;
}

/* False where the connection is refused. */
static bool connection_add(struct nng_transport *t, nng_pipe pipe) {
	struct nng_connection *c = calloc(1, sizeof *c);
	bool room;

	if (!c)
		return false;
	c->id = (uint32_t)nng_pipe_id(pipe);
	pthread_mutex_lock(&t->lock);
	room = HASH_COUNT(t->connections) < t->limit;
	if (room)
		HASH_ADD(hh, t->connections, id, sizeof c->id, c);
	pthread_mutex_unlock(&t->lock);
	if (!room)
		free(c);
	return room;
}

static void connection_remove(struct nng_transport *t, nng_pipe pipe) {
	struct nng_connection *c;

	pthread_mutex_lock(&t->lock);
	c = connection_find(t, pipe);
	if (c)
		HASH_DELETE(hh, t->connections, c);
	pthread_mutex_unlock(&t->lock);
	free(c);
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *user) {
	struct nng_transport *t = user;

	if (event == NNG_PIPE_EV_REM_POST)
		connection_remove(t, pipe);
	else if (!connection_add(t, pipe))
		nng_pipe_close(pipe);
}

/* Counts a request; false where its connection has too many. */
static bool count_request(struct nng_transport *t, nng_pipe pipe) {
	struct nng_connection *c;
	bool fine;

	pthread_mutex_lock(&t->lock);
	t->receiving--;
	c = connection_find(t, pipe);
	fine = c && ++c->unanswered <= LIMIT_UNANSWERED;
	pthread_mutex_unlock(&t->lock);
	return fine;
}

static void count_answer(struct nng_transport *t, nng_pipe pipe) {
	struct nng_connection *c;

	pthread_mutex_lock(&t->lock);
	c = connection_find(t, pipe);
	if (c && c->unanswered)
		c->unanswered--;
	pthread_mutex_unlock(&t->lock);
}

/* ---- callbacks of nng ---- */

static void work_stop(struct nng_work *w) {
	pthread_mutex_lock(&w->transport->lock);
	w->transport->receiving--;
	work_rest(w);
	pthread_mutex_unlock(&w->transport->lock);
}

static void on_received(void *user) {
	struct nng_work *w = user;
	struct nng_transport *t = w->transport;

	if (nng_aio_result(w->receive)) {        /* the socket closes */
		work_stop(w);
		return;
	}
	w->message = nng_aio_get_msg(w->receive);
	w->pipe = nng_msg_get_pipe(w->message);
	if (!count_request(t, w->pipe)) {
		nng_pipe_close(w->pipe);
		nng_msg_free(w->message);
		w->message = NULL;
		work_again(w);
		return;
	}
	receive_more(t);
	w->request = (struct transport_request){ .transport = &t->base, .bytes = nng_msg_body(w->message),
		.size = nng_msg_len(w->message) };
	t->base.receive(t->base.user, &w->request);
}

static void on_sent(void *user) {
	struct nng_work *w = user;

	if (nng_aio_result(w->send)) {
		nng_msg_free(nng_aio_get_msg(w->send));
		nng_pipe_close(w->pipe);
	}
	work_again(w);
}

/* ---- the transport ---- */

/* The request's message becomes the answer. Counted first: the next request may come before on_sent(). */
static void nng_reply(struct transport *base, struct transport_request *r, const void *bytes, size_t size) {
	struct nng_work *w = (struct nng_work *)r;
	struct nng_transport *t = (struct nng_transport *)base;
	nng_msg *m = w->message;

	w->message = NULL;
	count_answer(t, w->pipe);
	nng_msg_clear(m);
	if (nng_msg_append(m, bytes, size)) {
		nng_msg_free(m);
		nng_pipe_close(w->pipe);
		work_again(w);
		return;
	}
	nng_aio_set_msg(w->send, m);
	nng_ctx_send(w->context, w->send);
}

static int nng_start(struct transport *base) {
	struct nng_transport *t = (struct nng_transport *)base;
	struct nng_work *w = work_take(t);
	int r;

	if (!w)
		return -ENOMEM;
	work_again(w);
	r = nng_listener_start(t->listener, 0);
	return r ? error_of(r) : 0;
}

static void work_free(struct nng_work *w) {
	nng_aio_stop(w->receive);
	nng_aio_stop(w->send);
	nng_aio_free(w->receive);
	nng_aio_free(w->send);
	if (w->message)
		nng_msg_free(w->message);
	free(w);
}

/* Closing the socket ends every operation; its callbacks have run when nng_aio_stop() returns. */
static void nng_shut(struct transport *base) {
	struct nng_transport *t = (struct nng_transport *)base;
	struct nng_connection *c, *next;

	pthread_mutex_lock(&t->lock);
	t->closing = true;
	pthread_mutex_unlock(&t->lock);
	nng_close(t->socket);
	while (t->works) {
		struct nng_work *w = t->works;

		t->works = w->sibling;
		work_free(w);
	}
	c = t->connections;
	HASH_CLEAR(hh, t->connections);
	for (; c; c = next) {
		next = c->hh.next;
		free(c);
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static int listen_on(struct nng_transport *t, const char *url, unsigned mode) {
	int r = nng_pipe_notify(t->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, t);

	if (!r)
		r = nng_pipe_notify(t->socket, NNG_PIPE_EV_REM_POST, on_pipe, t);
	if (!r)
		r = nng_socket_set_size(t->socket, NNG_OPT_RECVMAXSZ, LIMIT_FRAME_BYTES);
	if (!r)
		r = nng_listener_create(&t->listener, t->socket, url);
	if (!r)
		r = nng_listener_set_int(t->listener, NNG_OPT_IPC_PERMISSIONS, (int)mode);
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
	r = nng_rep0_open(&t->socket);
	if (r) {
		pthread_mutex_destroy(&t->lock);
		free(t);
		return error_of(r);
	}
	r = listen_on(t, url, mode);
	if (r) {
		nng_shut(&t->base);
		return error_of(r);
	}
	*transportp = &t->base;
	return 0;
}

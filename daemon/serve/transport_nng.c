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

#include "protocol/hash.h"
#include "protocol/limits.h"
#include "protocol/sp.h"
#include "daemon/base/loop.h"

enum {
	/* A connection that takes nothing of an answer for this long is closed. */
	NNG_SEND_MS = 1000,
	/* One that does not say for this long what it speaks, too: as long as nng gives it. */
	NNG_GREETING_MS = 10000,
	/* Before connections are accepted again where memory or descriptors are short. */
	NNG_NAP_MS = 50,
	/* Numbers of a request: its own, and one for each of as many proxies as nng lets it pass. */
	NNG_NUMBERS = 8,
	/* A connection is to be a session's within this time; it is looked at so often. */
	NNG_KNOWN_US = 10 * 1000 * 1000,
	NNG_SWEEP_MS = 1000,
	/* Before it is one: longer frames, of which a user has so many at a time. What a client says first is short, or it is one of a few. */
	NNG_LITTLE_BYTES = 64 << 10,
	NNG_LARGE = 4,
};

/* Of one user; one that the kernel does not tell counts as UINT32_MAX. */
struct nng_peer {
	uid_t uid;
	uint32_t connections, large;
	uint32_t limit;              /* 0: as all */
	UT_hash_handle hh;
};

struct nng_connection {
	struct nng_transport *transport;
	struct sp *sp;
	unsigned users;              /* until its end was told, and each request */
	unsigned unanswered;
	struct nng_peer *peer;
	uint64_t session;            /* that it is known for; 0: none */
	uint64_t since_us;           /* it was begun, or its session has ended */
	bool large;                  /* it counts among its user's */
	bool ending;                 /* it was closed, and does not count any more */
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
	nng_aio *accept, *nap, *sweep;
	pthread_mutex_t lock;
	pthread_cond_t ended;        /* a connection, or the use of it */
	struct nng_connection *connections;
	struct nng_request *requests;
	struct nng_peer *peers;      /* uthash */
	uint32_t living, counted;    /* connections whose end was not told yet; without those that were closed here */
	struct transport_connections most;
	bool sweeping;
	bool closing;
};

static int error_of(int nng) {
	return nng == NNG_ENOMEM       ? -ENOMEM
	       : nng == NNG_EADDRINUSE ? -EADDRINUSE
	       : nng == NNG_EPERM      ? -EACCES
				       : -EIO;
}

/* ---- users; all under the lock ---- */

static uid_t peer_of(nng_stream *stream) {
	uint64_t uid = UINT32_MAX;

	(void)nng_stream_get_uint64(stream, NNG_OPT_IPC_PEER_UID, &uid);
	return (uid_t)uid;
}

static struct nng_peer *find_peer(struct nng_transport *t, uid_t uid) {
	struct nng_peer *p;

	HASH_FIND(hh, t->peers, &uid, sizeof uid, p);
	if (p)
		return p;
	p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->uid = uid;
	HASH_ADD(hh, t->peers, uid, sizeof p->uid, p);
	if (HASH_ADDED(hh, p))
		return p;
	free(p);
	return NULL;
}

static void peer_put(struct nng_transport *t, struct nng_peer *p) {
	if (p->connections || p->large || p->limit)
		return;
	HASH_DELETE(hh, t->peers, p);
	free(p);
}

static bool has_too_many(const struct nng_transport *t, const struct nng_peer *p) {
	return p->connections > (p->limit ? p->limit : t->most.user);
}

static void large_end(struct nng_connection *c) {
	c->peer->large -= c->large;
	c->large = false;
}

/* It counts no more. */
static void uncount(struct nng_connection *c) {
	struct nng_peer *p = c->peer;

	if (c->ending)
		return;
	c->ending = true;
	large_end(c);
	c->transport->counted--;
	p->connections--;
	c->peer = NULL;
	peer_put(c->transport, p);
}

/* Of that user, or of all where it is NULL: the oldest that is not known makes room. */
static void make_room(struct nng_transport *t, const struct nng_peer *of) {
	struct nng_connection *c;

	DL_FOREACH(t->connections, c) {
		if (c->session || c->ending || (of && c->peer != of))
			continue;
		uncount(c);
		sp_close(c->sp);
		return;
	}
}

static void sweep_later(struct nng_transport *t) {
	if (t->sweeping || t->closing)
		return;
	t->sweeping = true;
	nng_sleep_aio(NNG_SWEEP_MS, t->sweep);
}

static void on_sweep(void *user) {
	struct nng_transport *t = user;
	struct nng_connection *c;
	uint64_t now = loop_now();
	bool more = false;

	pthread_mutex_lock(&t->lock);
	t->sweeping = false;
	DL_FOREACH(t->connections, c) {
		if (c->session || c->ending)
			continue;
		if (now - c->since_us < NNG_KNOWN_US) {
			more = true;
			continue;
		}
		uncount(c);
		sp_close(c->sp);
	}
	if (more)
		sweep_later(t);
	pthread_mutex_unlock(&t->lock);
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
	uncount(c);
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
	if (!c->ending)
		large_end(c);
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

/* Little memory is taken for who has not said whose he is. */
static bool on_announced(void *user, size_t size) {
	struct nng_connection *c = user;
	bool wanted;

	pthread_mutex_lock(&c->transport->lock);
	wanted = !c->ending && (c->session || size <= NNG_LITTLE_BYTES || c->peer->large < NNG_LARGE);
	if (wanted && !c->session && size > NNG_LITTLE_BYTES) {
		c->large = true;
		c->peer->large++;
	}
	pthread_mutex_unlock(&c->transport->lock);
	return wanted;
}

/* NULL where there is no room for it; the stream is gone then. */
static struct nng_connection *connection_new(struct nng_transport *t, nng_stream *stream) {
	struct nng_connection *c = calloc(1, sizeof *c);
	const struct sp_options options = { .own = SP_REP0, .peer = SP_REQ0, .limit = LIMIT_FRAME_BYTES,
		.greeting_ms = NNG_GREETING_MS, .send_ms = NNG_SEND_MS, .announced = on_announced, .message = on_message,
		.ended = on_ended, .user = c };

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

/* Requires the lock. Counted from the start, so that its user stays while another one of his makes room. */
static bool enter(struct nng_transport *t, struct nng_connection *c, uid_t uid) {
	c->peer = t->closing ? NULL : find_peer(t, uid);
	if (!c->peer)
		return false;
	c->peer->connections++;
	t->counted++;
	if (has_too_many(t, c->peer))
		make_room(t, c->peer);
	else if (t->counted > t->most.all)
		make_room(t, NULL);
	if (has_too_many(t, c->peer) || t->counted > t->most.all) {
		uncount(c);
		return false;
	}
	c->since_us = loop_now();
	t->living++;
	DL_APPEND(t->connections, c);
	sp_start(c->sp);
	sweep_later(t);
	return true;
}

static void connection_add(struct nng_transport *t, nng_stream *stream) {
	uid_t uid = peer_of(stream);
	struct nng_connection *c = connection_new(t, stream);
	bool room;

	if (!c)
		return;
	pthread_mutex_lock(&t->lock);
	room = enter(t, c, uid);
	pthread_mutex_unlock(&t->lock);
	if (!room) {
		sp_free(c->sp);
		free(c);
	}
}

/* ---- whose they are ---- */

static void nng_known(struct transport *base, struct transport_request *request, uint64_t session) {
	struct nng_transport *t = (struct nng_transport *)base;
	struct nng_connection *c = ((struct nng_request *)request)->connection;

	/* Written by this thread alone. */
	if (c->session == session)
		return;
	pthread_mutex_lock(&t->lock);
	c->session = session;
	pthread_mutex_unlock(&t->lock);
}

static void nng_unknown(struct transport *base, uint64_t session) {
	struct nng_transport *t = (struct nng_transport *)base;
	struct nng_connection *c;

	pthread_mutex_lock(&t->lock);
	DL_FOREACH(t->connections, c) {
		if (c->session != session)
			continue;
		c->session = 0;
		c->since_us = loop_now();
		sweep_later(t);
	}
	pthread_mutex_unlock(&t->lock);
}

static void nng_limit(struct transport *base, uid_t uid, uint32_t connections) {
	struct nng_transport *t = (struct nng_transport *)base;
	struct nng_peer *p;

	pthread_mutex_lock(&t->lock);
	if (uid == TRANSPORT_ALL)
		t->most.user = connections;
	p = uid == TRANSPORT_ALL ? NULL : find_peer(t, uid);
	if (p) {
		p->limit = connections == t->most.user ? 0 : connections;
		peer_put(t, p);
	}
	pthread_mutex_unlock(&t->lock);
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

static void nng_drop(struct transport *base, struct transport_request *request) {
	struct nng_transport *t = (struct nng_transport *)base;

	pthread_mutex_lock(&t->lock);
	request_free((struct nng_request *)request);
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

static void peers_free(struct nng_transport *t) {
	struct nng_peer *p, *next;

	HASH_ITER(hh, t->peers, p, next) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the table */
		HASH_DELETE(hh, t->peers, p);
		free(p);
	}
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
	if (t->sweep)
		nng_aio_stop(t->sweep);
	connections_close(t);
	nng_aio_free(t->accept);
	nng_aio_free(t->nap);
	nng_aio_free(t->sweep);
	peers_free(t);
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
		r = nng_aio_alloc(&t->sweep, on_sweep, t);
	if (!r)
		r = nng_stream_listener_alloc(&t->listener, url);
	if (!r)
		r = nng_stream_listener_set_int(t->listener, NNG_OPT_IPC_PERMISSIONS, (int)mode);
	return r;
}

int transport_nng_new(const char *url, unsigned mode, struct transport_connections most, struct transport **transportp) {
	static const struct transport_functions functions = { nng_start, nng_reply, nng_drop, nng_shut, nng_known, nng_unknown, nng_limit };
	struct nng_transport *t = calloc(1, sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->base.functions = &functions;
	t->most = most;
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

/*
 * The transport over nng: a req0 socket with one context for each request under way.
 *
 * The send and the receive of a request are posted together, each with its own aio: nng pairs them
 * by itself and no thread is needed in between. nng must never send a request twice, so its
 * resend time is infinite. A send that still waits must not be aborted before its receive (nng
 * 1.5 asserts): only the receives carry callbacks and are stopped, the sends end with the context.
 *
 * nng starts its threads (two for each processor and a few more) at the first socket of the
 * process; version 1.5 has no way to ask for fewer.
 */
#include "transport.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include "protocol/limits.h"

enum {
	/* nng's own defaults dial again after up to a second. */
	RECONNECT_FIRST_MS = 2,
	RECONNECT_LONGEST_MS = 20,
};

struct call {
	struct transport_nng *transport;
	unsigned slot;
	nng_ctx context;
	nng_aio *send, *receive;
};

struct transport_nng {
	struct transport base;
	struct transport_events events;
	nng_socket socket;
	atomic_bool closing;
	unsigned slots;
	struct call calls[];
};

/* nng's errors that mean something else than "the connection broke" to the user. */
static int errno_of(int nng_error) {
	switch (nng_error) {
	case NNG_ENOMEM:
		return -ENOMEM;
	case NNG_EMSGSIZE:
		return -EMSGSIZE;
	case NNG_ETIMEDOUT:
		return -ETIMEDOUT;
	case NNG_ECANCELED:
	case NNG_ECLOSED:
		return -ECANCELED;
	default:
		return -ECONNRESET;
	}
}

static void call_received(void *user) {
	struct call *call = user;
	struct transport_events *e = &call->transport->events;
	int failed = nng_aio_result(call->receive);
	nng_msg *message;

	if (failed) {
		e->reply(e->user, call->slot, errno_of(failed), NULL, 0);
		return;
	}
	message = nng_aio_get_msg(call->receive);
	nng_aio_set_msg(call->receive, NULL);
	/* From here on another thread may use the call again. */
	e->reply(e->user, call->slot, 0, nng_msg_body(message), nng_msg_len(message));
	nng_msg_free(message);
}

static int submit(struct transport *base, unsigned slot, const void *bytes, size_t size) {
	struct transport_nng *t = (struct transport_nng *)base;
	struct call *call = &t->calls[slot];
	nng_msg *message;

	if (nng_msg_alloc(&message, 0))
		return -ENOMEM;
	if (nng_msg_append(message, bytes, size)) {
		nng_msg_free(message);
		return -ENOMEM;
	}
	nng_aio_wait(call->send); /* of the last request; it was answered, so this is over at once */
	nng_aio_set_msg(call->send, message);
	nng_ctx_send(call->context, call->send);
	nng_ctx_recv(call->context, call->receive);
	return 0;
}

static void call_close(struct call *call) {
	if (call->receive)
		nng_aio_stop(call->receive);
	if (nng_ctx_id(call->context) > 0)
		nng_ctx_close(call->context);
	if (call->send) {
		nng_aio_wait(call->send);
		/* A message that was never sent came back. */
		if (nng_aio_result(call->send) && nng_aio_get_msg(call->send))
			nng_msg_free(nng_aio_get_msg(call->send));
		nng_aio_free(call->send);
	}
	if (call->receive)
		nng_aio_free(call->receive);
}

static void transport_free(struct transport *base) {
	struct transport_nng *t = (struct transport_nng *)base;

	atomic_store(&t->closing, true);
	for (unsigned i = 0; i < t->slots; i++)
		call_close(&t->calls[i]);
	nng_close(t->socket);
	free(t);
}

static void pipe_removed(nng_pipe pipe, nng_pipe_ev event, void *user) {
	struct transport_nng *t = user;

	(void)pipe;
	(void)event;
	if (!atomic_load(&t->closing))
		t->events.broken(t->events.user);
}

static int set_options(struct transport_nng *t) {
	int r = nng_socket_set_ms(t->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);

	if (!r)
		r = nng_socket_set_ms(t->socket, NNG_OPT_RECONNMINT, RECONNECT_FIRST_MS);
	if (!r)
		r = nng_socket_set_ms(t->socket, NNG_OPT_RECONNMAXT, RECONNECT_LONGEST_MS);
	if (!r)
		r = nng_socket_set_size(t->socket, NNG_OPT_RECVMAXSZ, LIMIT_FRAME_BYTES);
	if (!r)
		r = nng_pipe_notify(t->socket, NNG_PIPE_EV_REM_POST, pipe_removed, t);
	return r;
}

static int call_open(struct transport_nng *t, unsigned slot) {
	struct call *call = &t->calls[slot];
	int r = nng_ctx_open(&call->context, t->socket);

	call->transport = t;
	call->slot = slot;
	if (!r)
		r = nng_aio_alloc(&call->send, NULL, NULL);
	if (!r)
		r = nng_aio_alloc(&call->receive, call_received, call);
	return r;
}

int transport_dial(const char *url, unsigned slots, const struct transport_events *events,
	struct transport **transportp, struct fault *f) {
	struct transport_nng *t = calloc(1, sizeof *t + slots * sizeof *t->calls);
	int r;

	if (!t)
		return -ENOMEM;
	t->base = (struct transport){ .submit = submit, .free = transport_free };
	t->events = *events;
	t->slots = slots;
	r = nng_req0_open(&t->socket);
	if (r) {
		free(t);
		return fault_set(f, FAULT_CONNECT, "nng does not start: %s", nng_strerror(r));
	}
	r = set_options(t);
	for (unsigned i = 0; !r && i < slots; i++)
		r = call_open(t, i);
	if (!r)
		r = nng_dial(t->socket, url, NULL, 0);
	if (r) {
		fault_set(
			f, FAULT_CONNECT, "fusiond's engine does not answer at %s: %s", url, nng_strerror(r));
		transport_free(&t->base);
		return FAULT_CONNECT;
	}
	*transportp = &t->base;
	return 0;
}

/*
 * The bare nng round trip that latencies are compared with: req0 to rep0 over ipc, to a process
 * of its own that answers from its callback and does nothing else.
 */
#include "roundtrip.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

enum {
	DIAL_TRIES = 200,
	DIAL_PAUSE_US = 10000,
};

/* ---- the server ---- */

struct server {
	nng_ctx context;
	nng_aio *aio;
	bool replying;
};

static void server_step(void *user) {
	struct server *s = user;

	if (nng_aio_result(s->aio))
		exit(EXIT_FAILURE);
	s->replying = !s->replying;
	if (s->replying)
		nng_ctx_send(s->context, s->aio);
	else
		nng_ctx_recv(s->context, s->aio);
}

int roundtrip_serve(const char *url) {
	struct server s = { .replying = false };
	nng_socket socket;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (nng_rep0_open(&socket) || nng_ctx_open(&s.context, socket) ||
		nng_aio_alloc(&s.aio, server_step, &s))
		return EXIT_FAILURE;
	if (nng_listen(socket, url, NULL, 0))
		return EXIT_FAILURE;
	nng_ctx_recv(s.context, s.aio);
	for (;;)
		pause();
}

/* ---- the client ---- */

int roundtrip_open(struct roundtrip *t, const char *folder) {
	int r = -1;

	snprintf(t->url, sizeof t->url, "ipc://%s/echo", folder);
	t->server = fork();
	if (!t->server) {
		execl("/proc/self/exe", "fusion-bench", "--serve-roundtrip", t->url, (char *)NULL);
		_exit(127);
	}
	if (t->server < 0 || nng_req0_open(&t->socket))
		return bench_fail("no process or socket for the bare round trip");
	t->open = true;
	for (int i = 0; r && i < DIAL_TRIES; i++) {
		r = nng_dial(t->socket, t->url, NULL, 0);
		if (r)
			usleep(DIAL_PAUSE_US);
	}
	return r ? bench_fail("the bare round trip's server does not answer: %s", nng_strerror(r)) : 0;
}

int roundtrip_run(struct roundtrip *t, double *secondsp) {
	char message[ROUNDTRIP_BYTES] = { 0 };
	size_t size = sizeof message;
	double start = bench_now();
	int r = nng_send(t->socket, message, sizeof message, 0);

	if (!r)
		r = nng_recv(t->socket, message, &size, 0);
	*secondsp = bench_now() - start;
	return r ? bench_fail("a bare round trip failed: %s", nng_strerror(r)) : 0;
}

void roundtrip_close(struct roundtrip *t) {
	if (t->open)
		nng_close(t->socket);
	if (t->server > 0) {
		kill(t->server, SIGKILL);
		waitpid(t->server, NULL, 0);
	}
	t->server = 0;
}

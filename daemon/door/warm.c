/*
 * fusiond --warm: the engine's program fills the cache and ends. Nobody is served meanwhile, and daemons may run on the folder. What it
 * builds is compiled by workers, as it is for a daemon: as many at a time, and one that hangs or dies costs one kernel.
 */
#include "supervisor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/message.h"

enum {
	WARM_ARGUMENTS = 8 + 2 * CONFIG_FLAGS,
	/* Between looks at which workers have ended. */
	WARM_LOOK_MS = 500,
};

static int start(struct engine *e, struct fault *f) {
	const char *argument[WARM_ARGUMENTS] = { ENGINE_PROGRAM, "--warm" };
	char program[PATH_MAX], control[32];
	int pair[2];
	int r = child_program(&child_engine, &e->supervisor->config, program, f);

	if (r)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	snprintf(control, sizeof control, "--control=%d", pair[1]);
	argument[2] = control;
	child_settings(argument, 3, &e->source);
	r = child_spawn(program, argument, pair[1], &e->child.pid);
	close(pair[1]);
	e->child.control = pair[0];
	return r;
}

/* All that such an engine asks for are workers. */
static int answer(struct engine *e, const unsigned char *bytes, size_t size, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor body;
	uint64_t id;
	int r = wire_open(&reader, bytes, size, f);

	if (r)
		return r;
	body = wire_root(&reader);
	r = wire_get_uint(&body, "message", UINT32_MAX, &id, f);
	if (!r && id == CONTROL_WORKER_WANT)
		r = workers_want(e, &body, f);
	wire_close(&reader);
	return r;
}

/* Until the engine closes its end. */
static void serve(struct engine *e) {
	struct pollfd p = { .fd = e->child.control, .events = POLLIN };
	unsigned char bytes[CHILD_PACKET];
	ssize_t n = -EAGAIN;
	int passed;

	while (n > 0 || n == -EAGAIN) {
		struct fault f = { 0 };
		int r;

		if (poll(&p, 1, WARM_LOOK_MS) < 0 && errno != EINTR)
			return;
		n = packet_receive(p.fd, bytes, sizeof bytes, &passed, MSG_DONTWAIT);
		if (n > 0 && passed >= 0)
			close(passed);
		r = n > 0 ? answer(e, bytes, (size_t)n, &f) : 0;
		if (r)
			fprintf(stderr, "fusiond: what the engine asked for failed: %s\n", r > 0 ? f.text : strerror(-r));
		workers_reap(e);
	}
}

static int end(struct engine *e) {
	int status = 0;

	close(e->child.control);
	while (waitpid(e->child.pid, &status, 0) < 0 && errno == EINTR) {
	}
	workers_end(e);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr, "fusiond: the engine was killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	return EXIT_FAILURE;
}

int child_warm(const struct config_source *source) {
	struct supervisor *s = calloc(1, sizeof *s);
	struct engine e = { .supervisor = s, .source = *source, .child.control = -1 };
	struct fault f;
	int r = s ? config_load(&s->config, source, &f) : -ENOMEM, status = EXIT_FAILURE;

	if (!r)
		r = start(&e, &f);
	if (r) {
		fprintf(stderr, "fusiond: %s\n", r > 0 ? f.text : strerror(-r));
	} else {
		serve(&e);
		status = end(&e);
	}
	free(s);
	return status;
}

/*
 * Processes that compile for an engine: started here, because this process has no driver in it whose threads and locks a
 * fork would copy.
 *
 * Between the two of them goes a socket that is none of the supervisor's business: the engine gets one end of it,
 * together with a descriptor of the process, by which it kills a worker that hangs. A worker ends where its socket does.
 * The supervisor only collects what is left of them, and ends those of an engine that is gone: one that hangs in
 * a compiler would not notice.
 */
#include "supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/message.h"

static void close_fd(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
	*fdp = -1;
}

static int spawn(const struct engine *e, bool idle, int socket, pid_t *pidp) {
	const char *argument[CHILD_ARGUMENTS + 1] = { ENGINE_PROGRAM };
	char program[PATH_MAX], control[32];
	unsigned count = 1;
	struct fault f;
	int r = child_program(&child_engine, &e->supervisor->config, program, &f);

	if (r)
		return r < 0 ? r : -ENOENT;
	snprintf(control, sizeof control, "--control=%d", socket);
	argument[count++] = control;
	argument[count++] = idle ? "--worker=idle" : "--worker=ordinary";
	child_settings(argument, count, &e->source);
	return child_spawn(program, argument, socket, pidp);
}

/* 0 with the engine's descriptors: the socket, the process. */
static int start(struct engine *e, bool idle, pid_t *place, int fd[PACKET_PAIR]) {
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	fd[0] = pair[0];
	r = spawn(e, idle, pair[1], place);
	close(pair[1]);
	if (r)
		return r;
	fd[1] = pidfd_open(*place, 0);
	return fd[1] < 0 ? -errno : 0;
}

static pid_t *free_place(struct engine *e) {
	for (unsigned i = 0; i < ENGINE_WORKERS; i++)
		if (!e->worker[i])
			return &e->worker[i];
	return NULL;
}

static int answer(struct engine *e, bool idle, int error, const int fd[PACKET_PAIR]) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, CONTROL_WORKER);
	wire_put_uint(&w, idle);
	wire_put_uint(&w, (uint64_t)error);
	r = child_send_pair(&e->child, &w, fd);
	wire_writer_free(&w);
	return r;
}

int workers_want(struct engine *e, struct wire_cursor *body, struct fault *f) {
	uint64_t idle;
	int r = wire_get_uint(body, "idle", 1, &idle, f);

	return r ? r : worker_start(e, idle);
}

int worker_start(struct engine *e, bool idle) {
	pid_t *place = free_place(e);
	int fd[PACKET_PAIR] = { -1, -1 };
	int r;

	r = place ? start(e, idle, place, fd) : -EAGAIN;
	/* One that the engine cannot be told of ends by itself: its socket is closed. */
	if (r)
		close_fd(&fd[0]);
	r = answer(e, idle, -r, fd);
	close_fd(&fd[0]);
	close_fd(&fd[1]);
	return r;
}

void workers_reap(struct engine *e) {
	for (unsigned i = 0; i < ENGINE_WORKERS; i++)
		if (e->worker[i] && waitpid(e->worker[i], NULL, WNOHANG) == e->worker[i])
			e->worker[i] = 0;
}

bool workers_left(const struct engine *e) {
	for (unsigned i = 0; i < ENGINE_WORKERS; i++)
		if (e->worker[i])
			return true;
	return false;
}

void workers_end(struct engine *e) {
	for (unsigned i = 0; i < ENGINE_WORKERS; i++)
		if (e->worker[i])
			kill(e->worker[i], SIGKILL);
}

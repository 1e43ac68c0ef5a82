/*
 * A process of the daemon and the control socket to it; see child.h.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "protocol/message.h"
#include "protocol/shm.h"

#ifndef FUSIOND_LIBEXECDIR
#define FUSIOND_LIBEXECDIR "/usr/libexec/fusiond"
#endif

const struct child_kind child_engine = { ENGINE_PROGRAM, "the engine", "engine" };
const struct child_kind child_gateway = { "fusiond-gateway", "the gateway", "gateway" };

/* What every process of the daemon's has more of in /proc/PID/oom_score_adj, in text for who writes it after fork(). */
static char oom_score[16];

enum {
	/* Until it is tried again, where the system has no memory for a packet. */
	CHILD_STARVED_NS = 10 * 1000 * 1000,
	/* Packets handled in one turn of the loop, so that clients get their turn too. */
	CHILD_BURST = 64,
	/*
	 * Where memory runs out, a process of ours goes before the supervisor, which replaces it. Below what workers give
	 * themselves (device/compile.c) where the supervisor's own is that of the unit.
	 */
	CHILD_OOM_MORE = 400,
	OOM_MOST = 1000,
};

void child_init(struct child *c, const struct child_kind *kind, struct loop *loop, const char *folder, unsigned number,
	const struct child_callbacks *callbacks) {
	*c = (struct child){ .kind = kind, .control = -1, .passed = -1, .loop = loop, .number = number, .callbacks = *callbacks };
	snprintf(c->folder, sizeof c->folder, "%s", folder);
}

/* ---- starting ---- */

/* The folder of the running program, or "" where /proc does not tell. */
static void program_folder(char path[static PATH_MAX]) {
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[n > 0 ? n : 0] = 0;
	slash = strrchr(path, '/');
	if (slash)
		*slash = 0;
}

int child_program(const struct child_kind *kind, const struct config *config, char path[static PATH_MAX], struct fault *f) {
	char folder[PATH_MAX];

	if (kind == &child_engine && *config->engine_path) {
		snprintf(path, PATH_MAX, "%s", config->engine_path);
		if (!access(path, X_OK))
			return 0;
		return fault_set(
			f, FAULT_ARGUMENT, "engine.path %s cannot be run: %s", path, strerror(errno));
	}
	program_folder(folder);
	snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 32, folder, kind->program);
	if (!access(path, X_OK))
		return 0;
	/* As it was installed, under whatever prefix. */
	snprintf(path, PATH_MAX, "%.*s/../libexec/fusiond/%s", PATH_MAX - 64, folder, kind->program);
	if (!access(path, X_OK))
		return 0;
	snprintf(path, PATH_MAX, "%s/%s", FUSIOND_LIBEXECDIR, kind->program);
	if (!access(path, X_OK))
		return 0;
	return fault_set(f, FAULT_ARGUMENT, "%s is neither in %s nor in %s%s", kind->program, folder,
		FUSIOND_LIBEXECDIR, kind == &child_engine ? "; say --engine PATH" : "");
}

/* Before fork(): which score our processes get. Empty where /proc does not tell the own one. */
static void choose_oom_score(void) {
	FILE *f = fopen("/proc/self/oom_score_adj", "re");
	int own;

	if (!f)
		return;
	if (fscanf(f, "%d", &own) == 1)
		snprintf(oom_score, sizeof oom_score, "%d",
			own + CHILD_OOM_MORE < OOM_MOST ? own + CHILD_OOM_MORE : OOM_MOST);
	fclose(f);
}

/* A higher one needs no privilege. What does not work is no reason not to start. */
static void take_oom_score(void) {
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t ignored;

	if (fd < 0)
		return;
	ignored = write(fd, oom_score, strlen(oom_score));
	(void)ignored;
	close(fd);
}

/* In the child, between fork and exec: only calls that are safe there. */
static void become_program(const char *program, const char *const *argument, int control, pid_t parent) {
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || fcntl(control, F_SETFD, 0) < 0)
		_exit(126);
	take_oom_score();
	execv(program, (char *const *)(uintptr_t)argument);
	_exit(127);
}

unsigned child_settings(const char **argument, unsigned count, const struct config_source *source) {
	if (source->file) {
		argument[count++] = "--config";
		argument[count++] = source->file;
	}
	for (unsigned i = 0; i < source->flags; i++) {
		argument[count++] = "--set";
		argument[count++] = source->flag[i];
	}
	return count;
}

struct arguments {
	const char *value[CHILD_ARGUMENTS];
	unsigned count;
	char control[32];
};

static void argument_add(struct arguments *a, const char *value) {
	a->value[a->count++] = value;
}

static void make_arguments(struct arguments *a, const struct child *c, const struct config_source *source,
	int control) {
	snprintf(a->control, sizeof a->control, "--control=%d", control);
	argument_add(a, c->kind->program);
	argument_add(a, a->control);
	argument_add(a, "--url");
	argument_add(a, c->url);
	a->count = child_settings(a->value, a->count, source);
}

int child_spawn(const char *program, const char *const *argument, int control, pid_t *pidp) {
	pid_t parent = getpid(), pid;

	if (!*oom_score)
		choose_oom_score();
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid)
		become_program(program, argument, control, parent);
	*pidp = pid;
	return 0;
}

static int spawn(struct child *c, const char *program, const struct config_source *source, int control) {
	struct arguments a = { .count = 0 };

	make_arguments(&a, c, source, control);
	return child_spawn(program, a.value, control, &c->pid);
}

static void on_control(void *user, uint32_t events);

/* A child that was started but cannot be heard is of no use. */
static int adopt(struct child *c, int control) {
	int r = loop_add(c->loop, control, EPOLLIN, on_control, c, &c->source);

	if (r) {
		kill(c->pid, SIGKILL);
		return r;
	}
	c->control = control;
	return 0;
}

int child_start(
	struct child *c, const struct config *config, const struct config_source *source, struct fault *f) {
	char program[PATH_MAX];
	int pair[2];
	int r = child_program(c->kind, config, program, f);

	if (r)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	c->generation++;
	snprintf(c->url, sizeof c->url, "ipc://%.*s/%s-%u.%u.sock", CHILD_URL - 48, c->folder, c->kind->word, c->number,
		c->generation);
	r = spawn(c, program, source, pair[1]);
	close(pair[1]);
	if (!r)
		r = adopt(c, pair[0]);
	if (r) {
		close(pair[0]);
		return r;
	}
	c->state = CHILD_STARTING;
	c->starts++;
	c->started_us = loop_now();
	c->deadline_us = c->started_us + config->engine_start_us;
	c->killed_us = 0;
	c->failure.code = 0;
	c->rates[0] = 0;
	return 0;
}

int child_move(struct child *to, struct child *from) {
	struct loop_source *source = NULL;
	int r;

	from->source = loop_remove(from->source);
	r = loop_add(from->loop, from->control, EPOLLIN | (from->queue || from->refused ? EPOLLOUT : 0), on_control, to, &source);
	if (r) {
		child_kill(from, loop_now());
		return r;
	}
	*to = *from;
	to->source = source;
	from->state = CHILD_NONE;
	from->control = -1;
	from->queue = NULL;
	return 0;
}

/* ---- ending ---- */

void child_stop(struct child *c, uint64_t limit_us) {
	if (c->state == CHILD_NONE || c->state == CHILD_STOPPING)
		return;
	kill(c->pid, SIGTERM);
	c->state = CHILD_STOPPING;
	c->deadline_us = loop_now() + limit_us;
}

void child_kill(struct child *c, uint64_t now) {
	kill(c->pid, SIGKILL);
	c->deadline_us = 0;
	c->killed_us = now;
}

void child_tick(struct child *c, uint64_t now) {
	if (c->state == CHILD_NONE || !c->deadline_us || now < c->deadline_us)
		return;
	if (c->state == CHILD_STARTING)
		fault_set(&c->failure, FAULT_DEVICE, "%s was not ready within engine.start_us", c->kind->name);
	child_kill(c, now);
}

static void drop_queue(struct child *c) {
	while (c->queue) {
		struct child_packet *p = c->queue;

		c->queue = p->next;
		if (p->fd >= 0)
			close(p->fd);
		free(p);
	}
}

static void drop_control(struct child *c) {
	c->source = loop_remove(c->source);
	if (c->control >= 0)
		close(c->control);
	c->control = -1;
	drop_queue(c);
}

static void describe_end(int status, const struct child *c, struct str *why) {
	if (c->failure.code)
		str_append(why, c->failure.text);
	else if (WIFSIGNALED(status))
		str_printf(why, "%s was killed by signal %d (%s)", c->kind->name, WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		str_printf(why, "%s ended with status %d", c->kind->name, WEXITSTATUS(status));
}

/* What the engine said last may still lie in the socket when its end is known. */
bool child_reap(struct child *c, struct str *why) {
	int status;

	if (c->state == CHILD_NONE || waitpid(c->pid, &status, WNOHANG) != c->pid)
		return false;
	if (c->source)
		on_control(c, EPOLLIN);
	drop_control(c);
	describe_end(status, c, why);
	c->failed = !WIFEXITED(status) || WEXITSTATUS(status);
	c->killed_outside = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !c->killed_us;
	unlink(c->url + strlen("ipc://"));
	c->state = CHILD_NONE;
	c->deadline_us = 0;
	c->last_pid = c->pid;
	c->pid = 0;
	c->refused = false;
	return true;
}

/* ---- receiving ---- */

static int on_ready(struct child *c, struct wire_cursor *body, struct fault *f) {
	int r = wire_copy_text(body, "url", c->url, sizeof c->url, f);

	if (!r)
		r = wire_copy_text(body, "device", c->device, sizeof c->device, f);
	c->driver[0] = 0;
	if (!r && body->left)
		r = wire_copy_text(body, "driver", c->driver, sizeof c->driver, f);
	if (r || c->state != CHILD_STARTING)
		return r;
	c->state = CHILD_READY;
	c->deadline_us = 0;
	c->callbacks.ready(c->callbacks.user);
	return 0;
}

static int on_failed(struct child *c, struct wire_cursor *body, struct fault *f) {
	return message_get_fault(body, &c->failure, f);
}

static int on_rates(struct child *c, struct wire_cursor *body, struct fault *f) {
	return wire_copy_text(body, "rates", c->rates, sizeof c->rates, f);
}

static int dispatch(struct child *c, struct wire_cursor *body, struct fault *f) {
	uint64_t id;
	int r = wire_get_uint(body, "message", UINT32_MAX, &id, f);

	if (r)
		return r;
	if (id == CONTROL_READY)
		return on_ready(c, body, f);
	if (id == CONTROL_FAILED)
		return on_failed(c, body, f);
	if (id == CONTROL_RATES)
		return on_rates(c, body, f);
	return c->callbacks.packet(c->callbacks.user, id, body, f);
}

/* Our own engine speaks the protocol; a packet it got wrong is a defect worth a line. */
static void handle(struct child *c, const void *bytes, size_t size) {
	struct wire_reader reader;
	struct wire_cursor body;
	struct fault f = { 0 };
	int r = wire_open(&reader, bytes, size, &f);

	if (!r) {
		body = wire_root(&reader);
		r = dispatch(c, &body, &f);
		wire_close(&reader);
	}
	if (r)
		log_error("a packet of %s was refused: %s", c->kind->name, r > 0 ? f.text : strerror(-r));
}

/* Returns false once nothing more can be read for now. */
static bool receive_one(struct child *c) {
	unsigned char bytes[CHILD_PACKET];
	ssize_t n = packet_receive(c->control, bytes, sizeof bytes, &c->passed, MSG_DONTWAIT);

	/* An end that was closed with packets unread tells that first, once; what it had said, of why it ends, is behind. */
	if (n == -ECONNRESET)
		n = packet_receive(c->control, bytes, sizeof bytes, &c->passed, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		/* The engine closed its end: it is ending, or broken. */
		c->source = loop_remove(c->source);
		if (c->deadline_us == 0 || c->state == CHILD_READY)
			c->deadline_us = loop_now() + 1000000;
		return false;
	}
	handle(c, bytes, (size_t)n);
	if (c->passed >= 0)
		close(c->passed);
	c->passed = -1;
	return c->source != NULL;
}

static void send_queued(struct child *c) {
	while (c->queue) {
		struct child_packet *p = c->queue;
		int r = packet_send(c->control, p->bytes, p->size, p->fd, MSG_DONTWAIT);

		/* The socket counts as writable then, and would be tried at once. */
		if (r == -ENOMEM)
			nanosleep(&(struct timespec){ .tv_nsec = CHILD_STARVED_NS }, NULL);
		if (r == -EAGAIN || r == -ENOMEM)
			return;
		LL_DELETE(c->queue, p);
		if (p->fd >= 0)
			close(p->fd);
		free(p);
	}
}

static void watch(struct child *c) {
	bool write = c->queue || c->refused;

	if (c->source && loop_change(c->source, EPOLLIN | (write ? EPOLLOUT : 0)))
		log_error("epoll_ctl on the control socket failed: %s", strerror(errno));
}

static void on_writable(struct child *c) {
	send_queued(c);
	if (c->queue)
		return;
	if (c->refused) {
		c->refused = false;
		c->callbacks.writable(c->callbacks.user);
	}
	watch(c);
}

static void on_control(void *user, uint32_t events) {
	struct child *c = user;

	if (events & EPOLLOUT)
		on_writable(c);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		for (int i = 0; i < CHILD_BURST && receive_one(c); i++)
			;
}

/* ---- sending ---- */

int child_send_pair(struct child *c, const struct wire_writer *w, const int fd[PACKET_PAIR]) {
	int r = wire_finish(w);

	if (r)
		return r;
	if (c->control < 0)
		return -EPIPE;
	r = c->queue ? -EAGAIN : packet_send_pair(c->control, w->buffer.data, w->buffer.size, fd, MSG_DONTWAIT);
	/* It has ended with packets unread. */
	if (r == -ECONNRESET)
		r = -EPIPE;
	if (r == -EAGAIN && !c->refused) {
		c->refused = true;
		watch(c);
	}
	return r;
}

int child_send(struct child *c, const struct wire_writer *w, int fd) {
	const int pair[PACKET_PAIR] = { fd, -1 };

	return child_send_pair(c, w, pair);
}

static void queue_packet(struct child *c, struct child_packet *p, const struct wire_writer *w) {
	p->size = w->buffer.size;
	memcpy(p->bytes, w->buffer.data, p->size);
	LL_APPEND(c->queue, p);
	watch(c);
}

/* The engine reads late, or the system has no memory for a packet; not where it could not be written. */
static bool may_wait(const struct wire_writer *w, int r) {
	return r == -EAGAIN || (r == -ENOMEM && !wire_finish(w));
}

int child_queue(struct child *c, const struct wire_writer *w, int fd) {
	struct child_packet *p;
	int r = child_send(c, w, fd);

	if (!may_wait(w, r))
		return r;
	p = malloc(sizeof *p + w->buffer.size);
	if (!p)
		return -ENOMEM;
	p->fd = fd < 0 ? -1 : dup(fd);
	if (fd >= 0 && p->fd < 0) {
		free(p);
		return -errno;
	}
	queue_packet(c, p, w);
	return 0;
}

struct child_packet *child_packet_new(void) {
	struct child_packet *p = malloc(sizeof *p + WIRE_SMALL);

	if (p)
		p->fd = -1;
	return p;
}

int child_queue_in(struct child *c, struct child_packet *p, const struct wire_writer *w) {
	int r = child_send(c, w, -1);

	if (may_wait(w, r)) {
		queue_packet(c, p, w);
		return 0;
	}
	free(p);
	return r;
}

/*
 * A builder's worker: a process that compiles for it; the process itself is compile.c.
 *
 * Compilers hang, eat memory, abort. So they run in processes that the supervisor starts (device_config.want_worker) and that
 * this one kills where they take too long. A builder has one worker, starts it when it first needs it, and ends it after a
 * while without work. What a worker says is little: an error, and a log. What it made is read from the cache on disk,
 * whose entries have checksums; so it needs no memory in common with the engine or its clients, and has none.
 *
 * A program goes to the worker whole, in one message, and one answer comes back; whatever else happens on the socket means
 * that the worker is gone, and then the process is killed, too.
 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log.h"

enum {
	/* From asking for a worker until it has opened its driver; on a busy machine that takes seconds. */
	WORKER_START_MS = 30000,
	/* Starts in a row that came to nothing, before kernels are compiled by builders themselves. */
	WORKER_FAILURES = 3,
	/* A worker ends after so many programs: to start another takes as long as two of them. */
	WORKER_BUILDS = 200,
	/* How often one of idle priority looks whether somebody has begun to wait for its program, */
	HURRY_LOOK_MS = 20,
	/* and how long it may go on then: a build takes twice that on a machine with a processor to spare. */
	HURRY_MS = 100,
};

struct arrival {
	struct arrival *next;
	bool idle;
	int error, socket, process;
};

static int64_t now_ms(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- arriving ---- */

static struct arrival *arrival_free(struct arrival *a) {
	if (a->socket >= 0)
		close(a->socket);
	if (a->process >= 0)
		close(a->process);
	free(a);
	return NULL;
}

void workers_drop(struct programs *s) {
	while (s->arrivals) {
		struct arrival *a = s->arrivals;

		s->arrivals = a->next;
		arrival_free(a);
	}
}

void device_worker(struct device *d, bool idle, int error, int socket, int process) {
	struct programs *s = &d->programs;
	struct arrival *a = malloc(sizeof *a);

	/* Its socket closes, by which it ends; who waits for it gives up some time. */
	if (!a) {
		close(socket);
		close(process);
		return;
	}
	*a = (struct arrival){ .idle = idle, .error = error, .socket = socket, .process = process };
	d->counters.workers_started += !error;
	pthread_mutex_lock(&s->lock);
	a->next = s->arrivals;
	s->arrivals = a;
	pthread_cond_broadcast(&s->arrived);
	pthread_mutex_unlock(&s->lock);
}

static struct arrival *take_arrival(struct programs *s, bool idle) {
	for (struct arrival **ap = &s->arrivals, *a; (a = *ap); ap = &a->next)
		if (a->idle == idle) {
			*ap = a->next;
			return a;
		}
	return NULL;
}

/*
 * A worker of idle priority may get nothing of a busy machine. Who begins to wait for what one builds shall not wait for
 * that: the builder gives up soon, and one of ordinary priority begins anew. Requires the lock of the programs.
 */
static int64_t hurried_end(struct builder *b, int64_t end_ms) {
	int64_t now = now_ms();

	if (!b->worker.idle || !b->program || b->program->rank != PROGRAM_WAITED)
		return end_ms;
	if (!b->hurried_ms)
		b->hurried_ms = now;
	return b->hurried_ms + HURRY_MS < end_ms ? b->hurried_ms + HURRY_MS : end_ms;
}

/* Does somebody wait for a builder, while this one's worker is at what nobody wants any more? Requires the lock of the programs. */
static bool is_in_the_way(const struct builder *b) {
	const struct program *p = b->yields && b->program->rank == PROGRAM_LEFT ? b->device->programs.queue : NULL;

	while (p && p->rank < PROGRAM_LATER)
		p = p->next;
	return p;
}

/* When a builder that may wait until then looks around next. */
static int64_t next_look(const struct builder *b, int64_t end_ms) {
	int64_t look = now_ms() + HURRY_LOOK_MS;

	return (b->worker.idle || b->yields) && look < end_ms ? look : end_ms;
}

/* The next worker of the builder's priority. 0, -ETIMEDOUT, or -ECANCELED. */
static int await_arrival(struct builder *b, int64_t end_ms, struct arrival **ap) {
	struct programs *s = &b->device->programs;
	int r;

	pthread_mutex_lock(&s->lock);
	while (!(*ap = take_arrival(s, b->worker.idle)) && !s->stop && now_ms() < hurried_end(b, end_ms)) {
		int64_t look = next_look(b, end_ms);
		const struct timespec end = { look / 1000, look % 1000 * 1000000 };

		pthread_cond_timedwait(&s->arrived, &s->lock, &end);
	}
	r = *ap ? 0 : s->stop ? -ECANCELED : -ETIMEDOUT;
	pthread_mutex_unlock(&s->lock);
	return r;
}

void workers_early(struct device *d, uint32_t count) {
	for (; d->config.want_worker && count > 0; count--)
		d->programs.early += !d->config.want_worker(d->config.worker_user, false);
}

/* One that was asked for before, or another one. 0 or -errno. */
static int call_worker(const struct builder *b) {
	const struct device_config *c = &b->device->config;
	struct programs *s = &b->device->programs;
	bool early;

	pthread_mutex_lock(&s->lock);
	early = !b->worker.idle && s->early;
	s->early -= early;
	pthread_mutex_unlock(&s->lock);
	return early ? 0 : c->want_worker(c->worker_user, b->worker.idle);
}

/* ---- the socket ---- */

/* Waits until the worker's socket is ready for `events`. 0, -ETIMEDOUT, -ECANCELED, or -EAGAIN where others are to have the builder. */
static int await_socket(struct builder *b, short events, int64_t end_ms) {
	struct programs *s = &b->device->programs;
	struct pollfd p[2] = { { .fd = b->worker.socket, .events = events }, { .fd = s->bell, .events = POLLIN } };
	int64_t left;
	bool yields;

	pthread_mutex_lock(&s->lock);
	end_ms = hurried_end(b, end_ms);
	yields = is_in_the_way(b);
	pthread_mutex_unlock(&s->lock);
	if (yields)
		return -EAGAIN;
	if (end_ms <= now_ms())
		return -ETIMEDOUT;
	left = next_look(b, end_ms) - now_ms();
	if (left < 0)
		left = 0;
	if (poll(p, 2, (int)(left < INT_MAX ? left : INT_MAX)) < 0)
		return errno == EINTR ? 0 : -errno;
	return p[1].revents ? -ECANCELED : 0;
}

/* Moves one piece: bytes moved, 0 where it must wait, or -EPIPE. */
static ssize_t move(int socket, bool out, char *bytes, size_t size) {
	ssize_t n = out ? send(socket, bytes, size, MSG_NOSIGNAL) : recv(socket, bytes, size, 0);

	if (n > 0)
		return n;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
}

/* All of it, or -EPIPE, -ETIMEDOUT, -ECANCELED, -EAGAIN. */
static int transfer(struct builder *b, bool out, void *bytes, size_t size, int64_t end_ms) {
	size_t done = 0;
	int r = 0;

	while (!r && done < size) {
		ssize_t n = move(b->worker.socket, out, (char *)bytes + done, size - done);

		if (n < 0)
			return (int)n;
		done += (size_t)n;
		if (!n)
			r = await_socket(b, out ? POLLOUT : POLLIN, end_ms);
	}
	return r;
}

static int send_text(struct builder *b, const char *text, int64_t end_ms) {
	return transfer(b, true, (void *)(uintptr_t)text, strlen(text), end_ms);
}

static int send_job(struct builder *b, const struct compile_job *j, int64_t end_ms) {
	struct compile_job_header h = { .magic = WORKER_MAGIC,
		.key = j->key,
		.warmup = j->warmup,
		.limit_us = b->device->config.worker_us,
		.near = j->near,
		.source = strlen(j->source),
		.options = strlen(j->options) };
	int r = transfer(b, true, &h, sizeof h, end_ms);

	if (!r)
		r = send_text(b, j->source, end_ms);
	return r ? r : send_text(b, j->options, end_ms);
}

/* -EPIPE also for what is no answer. */
static int receive_answer(struct builder *b, struct compile_answer *a, int64_t end_ms) {
	CLEANUP(cleanup_free) char *log = NULL;
	struct compile_answer_header h;
	int r = transfer(b, false, &h, sizeof h, end_ms);

	if (r)
		return r;
	if (strncmp(h.magic, WORKER_MAGIC, sizeof h.magic) != 0 || h.log > BUILD_LOG_BYTES)
		return -EPIPE;
	log = calloc(1, h.log + 1);
	if (!log)
		return -ENOTCONN;
	r = transfer(b, false, log, h.log, end_ms);
	if (r)
		return r;
	*a = (struct compile_answer){ .error = h.error, .warmups = h.warmups, .log = log };
	log = NULL;
	return 0;
}

/* ---- its life ---- */

/* One that waits for work would end with its socket; one that is at work notices nothing. */
void worker_end(struct worker *w) {
	if (w->process >= 0) {
		pidfd_send_signal(w->process, SIGKILL, NULL, 0);
		close(w->process);
	}
	if (w->socket >= 0)
		close(w->socket);
	w->process = w->socket = -1;
	w->coming = false;
}

/* 0, or -ETIMEDOUT where it was not there in time, and may still come. */
static int adopt(struct builder *b, int64_t end_ms) {
	CLEANUP(cleanup_free) struct arrival *a = NULL;
	struct compile_answer hello = { 0 };
	int r = 0;

	if (b->worker.socket < 0) {
		r = await_arrival(b, end_ms, &a);
		if (r)
			return r;
		b->worker.socket = a->socket;
		b->worker.process = a->process;
		r = a->error;
	}
	if (!r && fcntl(b->worker.socket, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	if (!r)
		r = receive_answer(b, &hello, end_ms);
	free(hello.log);
	return r;
}

/* Builders compile themselves from now on; said once. */
static void give_up(struct device *d, int error) {
	struct programs *s = &d->programs;
	bool said;

	pthread_mutex_lock(&s->lock);
	said = !s->apart;
	s->apart = false;
	pthread_cond_broadcast(&s->work);
	pthread_mutex_unlock(&s->lock);
	if (!said)
		log_warning("no worker process can be had (%s): the engine compiles kernels itself", strerror(-error));
}

/* One of idle priority has no more time to begin than for a program, and goes on beginning afterwards. */
static int start(struct builder *b, int64_t limit_ms) {
	struct device *d = b->device;
	int r = b->worker.coming ? 0 : call_worker(b);

	if (!r)
		r = adopt(b, now_ms() + (b->worker.idle ? limit_ms : WORKER_START_MS));
	b->worker.coming = r == -ETIMEDOUT && b->worker.idle;
	if (b->worker.coming)
		return r;
	if (!r) {
		b->worker.failures = 0;
		return 0;
	}
	worker_end(&b->worker);
	if (r == -ECANCELED)
		return r;
	if (++b->worker.failures == WORKER_FAILURES)
		give_up(d, r);
	return -ENOTCONN;
}

/* One that was killed while it had nothing to do did not die of a program. */
static bool is_there(const struct worker *w) {
	struct pollfd p = { .fd = w->socket, .events = POLLIN };

	return w->socket >= 0 && !poll(&p, 1, 0);
}

int worker_build(struct builder *b, const struct compile_job *j, int64_t limit_ms, struct compile_answer *a) {
	int64_t end_ms;
	int r = 0;

	if (b->worker.coming) {
		r = start(b, limit_ms);
	} else if (!is_there(&b->worker)) {
		worker_end(&b->worker);
		r = start(b, limit_ms);
	}
	if (r)
		return r;
	end_ms = now_ms() + limit_ms;
	b->yields = true;
	r = send_job(b, j, end_ms);
	if (!r)
		r = receive_answer(b, a, end_ms);
	b->yields = false;
	if (!r && a->error == COMPILE_LATE) {
		free(a->log);
		a->log = NULL;
		r = -ETIMEDOUT;
	}
	/* What its driver has loaded it never lets go of, and looks through at each launch. */
	if (r || ++b->built >= WORKER_BUILDS) {
		worker_end(&b->worker);
		b->built = 0;
	}
	return r;
}

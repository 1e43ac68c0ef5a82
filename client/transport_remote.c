/*
 * The transport to a daemon on another machine: frames of protocol/remote.h over a connection of tcp or tls, without a
 * thread where nobody asks for one.
 *
 * Who waits for an answer reads the connection itself, for all requests. The bytes of an array come before the answer that is
 * about them, into memory that belongs to the slot until the answer was taken: no more than the client expects, and in order.
 *
 * submit() waits where the connection has no room. The gateway reads on, whatever else it does, so that ends; with one that is
 * stopped it ends after timeout_ms, or where the context is being closed.
 */
#include "transport.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "protocol/limits.h"
#include "protocol/remote.h"
#include "link.h"

enum {
	WATCHER_STACK = 256 << 10,
};

/* What comes with an answer. */
struct result {
	uint64_t expected, got;
	uint8_t *bytes;
};

struct transport_remote {
	struct transport base;
	struct transport_events events;
	struct link *link;
	uint32_t slots, timeout_ms;
	struct result result[LIMIT_UNANSWERED];
	struct result came;                  /* with the answer that is being handed on */
	pthread_mutex_t reading;             /* who reads the connection */
	atomic_uint busy;                    /* set of slots */
	atomic_bool interrupted, broken;
	atomic_bool leaving;                 /* nobody is to wait for room any more */
	atomic_bool watching;                /* there is a thread that reads: others must leave */
	bool watched;
	int wake;                            /* eventfd: who reads is to look at the flags */
	pthread_t watcher;
};

static struct transport_remote *of(struct transport *base) {
	return (struct transport_remote *)base;
}

static uint64_t patience(const struct transport_remote *t) {
	return t->timeout_ms ? link_now_us() + UINT64_C(1000) * t->timeout_ms : 0;
}

/* ---- requests ---- */

static int send_frame(struct transport_remote *t, const struct remote_head *h, const void *bytes) {
	return link_write_frame(t->link, h, bytes, patience(t), &t->leaving);
}

static int submit_frame(struct transport_remote *t, const struct remote_head *h, const void *bytes) {
	atomic_fetch_or(&t->busy, 1U << h->name);
	return send_frame(t, h, bytes);
}

static int submit(struct transport *base, unsigned slot, const void *bytes, size_t size) {
	struct transport_remote *t = of(base);
	const struct remote_head h = { .kind = REMOTE_REQUEST, .size = (uint32_t)size, .name = slot,
		.offset = t->result[slot].expected };

	return size > LIMIT_FRAME_BYTES ? -EMSGSIZE : submit_frame(t, &h, bytes);
}

static int ask_arena(struct transport *base, unsigned slot, uint64_t bytes) {
	const struct remote_head h = { .kind = REMOTE_ARENA, .name = slot, .offset = bytes };

	return submit_frame(of(base), &h, NULL);
}

static int upload(struct transport *base, uint32_t arena, uint64_t offset, const void *bytes, uint64_t size) {
	const uint8_t *p = bytes;
	int r = 0;

	while (!r && size) {
		uint32_t piece = size < REMOTE_CHUNK_BYTES ? (uint32_t)size : REMOTE_CHUNK_BYTES;
		const struct remote_head h = { .kind = REMOTE_UPLOAD, .size = piece, .name = arena, .offset = offset };

		r = send_frame(of(base), &h, p);
		offset += piece;
		p += piece;
		size -= piece;
	}
	return r;
}

static void expect(struct transport *base, unsigned slot, uint64_t bytes) {
	of(base)->result[slot].expected = bytes;
}

static int push(struct transport *base) {
	struct transport_remote *t = of(base);

	return link_flush(t->link, patience(t), &t->leaving);
}

/* ---- answers ---- */

static bool over(const struct transport_remote *t) {
	return atomic_load(&t->interrupted) || atomic_load(&t->broken);
}

static int break_off(struct transport_remote *t) {
	if (!atomic_exchange(&t->broken, true) && !atomic_load(&t->interrupted))
		t->events.broken(t->events.user);
	return -EPIPE;
}

static int take_result(struct transport_remote *t, const struct remote_head *h) {
	struct result *r = &t->result[h->name];

	if (!(atomic_load(&t->busy) & 1U << h->name) || h->offset != r->got || h->size > r->expected - r->got)
		return -EPROTO;
	if (!r->bytes)
		r->bytes = malloc(r->expected);
	if (!r->bytes)
		return -ENOMEM;
	r->got += h->size;
	return link_read(t->link, r->bytes + h->offset, h->size, patience(t));
}

static void *result(struct transport *base, unsigned slot) {
	struct result *r = &of(base)->came;
	void *bytes = r->got == r->expected ? r->bytes : NULL;

	(void)slot;
	if (bytes)
		r->bytes = NULL;
	return bytes;
}

/* The slot may be used again as soon as its answer is handed on, so what belongs to it is taken before. */
static void hand_on(struct transport_remote *t, unsigned slot, const void *bytes, size_t size) {
	t->events.reply(t->events.user, slot, 0, bytes, size);
	free(t->came.bytes);
	t->came.bytes = NULL;
}

static int take_answer(struct transport_remote *t, const struct remote_head *h) {
	unsigned bit = 1U << h->name;
	uint8_t *bytes;
	int r;

	if (!(atomic_load(&t->busy) & bit))
		return -EPROTO;
	bytes = malloc(h->size);
	r = bytes ? link_read(t->link, bytes, h->size, patience(t)) : -ENOMEM;
	if (!r) {
		t->came = t->result[h->name];
		t->result[h->name] = (struct result){ .bytes = NULL };
		atomic_fetch_and(&t->busy, ~bit);
		hand_on(t, h->name, bytes, h->size);
	}
	free(bytes);
	return r;
}

/* One frame; 1: it was an answer. */
static int take_frame(struct transport_remote *t) {
	struct remote_head h;
	struct fault f;
	int r = link_read_head(t->link, &h, patience(t), &f);

	if (r)
		return r > 0 ? -EPROTO : r;
	if (h.kind == REMOTE_RESULT)
		return take_result(t, &h);
	if (h.kind != REMOTE_REPLY || h.name >= t->slots)
		return -EPROTO;
	r = take_answer(t, &h);
	return r ? r : 1;
}

/* At least one answer, and what has come behind it. */
static int take_answers(struct transport_remote *t) {
	bool answered = false;
	int r = 0;

	while (r >= 0 && (!answered || link_buffered(t->link))) {
		r = take_frame(t);
		answered |= r == 1;
	}
	return r < 0 ? r : 0;
}

/* Until something has come: 0, -ETIMEDOUT, or -ECANCELED where the flags are to be looked at. */
static int await(const struct transport_remote *t, uint64_t deadline_us) {
	struct pollfd p[] = { { .fd = link_descriptor(t->link), .events = POLLIN }, { .fd = t->wake, .events = POLLIN } };
	uint64_t now = deadline_us ? link_now_us() : 0;
	int wait = -1, r;

	if (link_buffered(t->link))
		return 0;
	if (deadline_us && now >= deadline_us)
		return -ETIMEDOUT;
	if (deadline_us && (deadline_us - now) / 1000 < INT32_MAX)
		wait = (int)((deadline_us - now) / 1000 + 1);
	r = poll(p, 2, wait);
	if (!r)
		return -ETIMEDOUT;
	return r < 0 || p[1].revents ? -ECANCELED : 0;
}

/* Requires `reading`. */
static int read_until(struct transport_remote *t, uint64_t deadline_us) {
	int r = -ECANCELED;

	while (r == -ECANCELED && !over(t) && !atomic_load(&t->watching))
		r = await(t, deadline_us);
	if (r)
		return r == -ECANCELED && !over(t) ? 0 : r;
	return take_answers(t) ? break_off(t) : 0;
}

static int wait_for_answers(struct transport *base, const struct timespec *deadline) {
	struct transport_remote *t = of(base);
	uint64_t us = deadline ? (uint64_t)deadline->tv_sec * 1000000 + (uint64_t)deadline->tv_nsec / 1000 : 0;
	int r;

	/* Nobody else reads but the watcher, which keeps it for good. */
	if (pthread_mutex_trylock(&t->reading))
		return 0;
	r = read_until(t, us);
	pthread_mutex_unlock(&t->reading);
	return r;
}

/* Nothing is submitted any more: the caller has been told that the connection is broken, or is closing it. */
static void cancel_the_rest(struct transport_remote *t) {
	unsigned busy = atomic_exchange(&t->busy, 0);

	for (unsigned i = 0; i < t->slots; i++)
		if (busy & 1U << i)
			t->events.reply(t->events.user, i, -ECANCELED, NULL, 0);
}

/* Callbacks run on this thread, also those of what will not be answered. */
static void *watch_loop(void *user) {
	struct transport_remote *t = user;

	pthread_mutex_lock(&t->reading);
	while (!over(t))
		if (link_await(t->link, 0) || take_answers(t))
			break_off(t);
	pthread_mutex_unlock(&t->reading);
	cancel_the_rest(t);
	return NULL;
}

static void wake_reader(const struct transport_remote *t) {
	const uint64_t one = 1;

	/* It cannot be full, and who reads looks at the flags. */
	if (write(t->wake, &one, sizeof one) < 0)
		link_stop(t->link);
}

static int watch(struct transport *base) {
	struct transport_remote *t = of(base);
	pthread_attr_t attributes;
	int r = pthread_attr_init(&attributes);

	if (!r)
		r = pthread_attr_setstacksize(&attributes, WATCHER_STACK);
	if (!r)
		r = pthread_create(&t->watcher, &attributes, watch_loop, t);
	pthread_attr_destroy(&attributes);
	t->watched = !r;
	if (!r) {
		atomic_store(&t->watching, true);
		wake_reader(t);
	}
	return -r;
}

static void interrupt(struct transport *base) {
	struct transport_remote *t = of(base);

	atomic_store(&t->interrupted, true);
	link_stop(t->link);
	wake_reader(t);
}

static void leave(struct transport *base) {
	atomic_store(&of(base)->leaving, true);
}

static void transport_free(struct transport *base) {
	struct transport_remote *t = of(base);

	interrupt(base);
	if (t->watched)
		pthread_join(t->watcher, NULL);
	cancel_the_rest(t);
	for (unsigned i = 0; i < LIMIT_UNANSWERED; i++)
		free(t->result[i].bytes);
	close(t->wake);
	pthread_mutex_destroy(&t->reading);
	free(t);
}

int transport_remote_open(struct link *link, unsigned slots, uint32_t timeout_ms, const struct transport_events *events,
	struct transport **transportp, struct fault *f) {
	struct transport_remote *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->wake < 0) {
		free(t);
		return fault_set(f, FAULT_MEMORY, "no descriptor is left for the connection to fusiond");
	}
	t->base = (struct transport){ .submit = submit, .free = transport_free, .push = push, .wait = wait_for_answers,
		.watch = watch, .interrupt = interrupt, .leave = leave, .upload = upload, .expect = expect,
		.ask_arena = ask_arena, .result = result };
	t->events = *events;
	t->link = link;
	t->slots = slots;
	t->timeout_ms = timeout_ms;
	pthread_mutex_init(&t->reading, NULL);
	*transportp = &t->base;
	return 0;
}

/*
 * What transports without threads have in common; see transport.h.
 *
 * A thread that waits for its answer takes `reading` and reads for all. Another one that finds it taken goes back: the
 * caller's lock tells it when something was answered. Only reads with callbacks and descriptors need a thread, because
 * callbacks run on threads of the library; that one keeps `reading` for good.
 */
#include "transport.h"

#include <errno.h>

enum {
	WATCHER_STACK = 256 << 10,
};

int transport_break_off(struct transport_reader *r) {
	if (!atomic_exchange(&r->broken, true) && !atomic_load(&r->interrupted))
		r->events.broken(r->events.user);
	return -EPIPE;
}

void transport_asked(struct transport_reader *r, unsigned slot) {
	atomic_fetch_or(&r->busy, 1U << slot);
}

bool transport_answered(struct transport_reader *r, unsigned slot) {
	return atomic_fetch_and(&r->busy, ~(1U << slot)) & 1U << slot;
}

static int wait_for_answers(struct transport *base, const struct timespec *deadline) {
	struct transport_reader *r = (struct transport_reader *)base;
	uint64_t us = deadline ? (uint64_t)deadline->tv_sec * 1000000 + (uint64_t)deadline->tv_nsec / 1000 : 0;
	int e;

	/* Nobody else reads but the watcher, which keeps it for good. */
	if (pthread_mutex_trylock(&r->reading))
		return 0;
	e = r->read(r, us, false);
	pthread_mutex_unlock(&r->reading);
	return e;
}

/* Nothing is submitted any more: the caller has been told that the connection is broken, or is closing it. */
static void cancel_the_rest(struct transport_reader *r) {
	unsigned busy = atomic_exchange(&r->busy, 0);

	for (unsigned i = 0; i < r->slots; i++)
		if (busy & 1U << i)
			r->events.reply(r->events.user, i, -ECANCELED, NULL, 0);
}

/* Callbacks run on this thread, also those of what will not be answered. */
static void *watch_loop(void *user) {
	struct transport_reader *r = user;
	int e = 0;

	pthread_mutex_lock(&r->reading);
	while (!e)
		e = r->read(r, 0, true);
	pthread_mutex_unlock(&r->reading);
	cancel_the_rest(r);
	return NULL;
}

static int watch(struct transport *base) {
	struct transport_reader *r = (struct transport_reader *)base;
	pthread_attr_t attributes;
	int e = pthread_attr_init(&attributes);

	if (!e)
		e = pthread_attr_setstacksize(&attributes, WATCHER_STACK);
	if (!e)
		e = pthread_create(&r->watcher, &attributes, watch_loop, r);
	pthread_attr_destroy(&attributes);
	r->watched = !e;
	if (!e) {
		atomic_store(&r->watching, true);
		r->wake(r);
	}
	return -e;
}

static void interrupt(struct transport *base) {
	struct transport_reader *r = (struct transport_reader *)base;

	atomic_store(&r->interrupted, true);
	r->wake(r);
}

void transport_reader_init(struct transport_reader *r, unsigned slots, uint32_t timeout_ms, const struct transport_events *events) {
	r->base.wait = wait_for_answers;
	r->base.watch = watch;
	r->base.interrupt = interrupt;
	r->events = *events;
	r->slots = slots;
	r->timeout_ms = timeout_ms;
	pthread_mutex_init(&r->reading, NULL);
}

void transport_reader_end(struct transport_reader *r) {
	interrupt(&r->base);
	if (r->watched)
		pthread_join(r->watcher, NULL);
	cancel_the_rest(r);
	pthread_mutex_destroy(&r->reading);
}

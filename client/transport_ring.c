/*
 * The transport over the session's ring: shared memory, without a thread where nobody asks for one.
 *
 * Who waits for an answer reads the ring itself (transport.c), and sleeps on a futex in it.
 *
 * A request longer than the ring goes in pieces, and submit() then waits until the engine has read
 * enough. That does not wait for an answer, and the engine waits for no client, so it ends. With an engine that
 * is stopped it ends after timeout_ms, or where the context is being closed.
 *
 * The daemon's end shows as the end of the door, which a sleeper looks at now and then; the engine's, in the ring itself, where the
 * supervisor says so and wakes who sleeps.
 */
#include "transport.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "beside.h"
#include "linger.h"
#include "link.h"
#include "protocol/limits.h"
#include "protocol/ring.h"
#include "protocol/shm.h"

enum {
	/* Between two looks at the door. */
	LOOK_US = 50 * 1000,
};

struct transport_ring {
	struct transport_reader reader;      /* of `replies` */
	void *memory;
	int bell, door;
	struct ring requests, replies;
	struct ring_frame incoming;
	atomic_uint awaited;                 /* slots for whose answers who sleeps is woken */
	bool unheard;                        /* the engine slept when a request was shown */
	struct beside beside;
	struct lingering linger;
	pthread_mutex_t resting;             /* the watcher rests while nothing is to be answered */
	pthread_cond_t rouse;
	atomic_bool rests;
};

/* ---- the daemon's end ---- */

static bool hung_up(const struct pollfd *p) {
	return p->revents & (POLLHUP | POLLERR | POLLNVAL);
}

/* Neither the supervisor nor the engine is gone, of whose end the supervisor tells in the ring. */
static bool door_open(const struct transport_ring *t) {
	struct pollfd p = { .fd = t->door, .events = POLLIN };

	return !ring_ended(t->memory) && (poll(&p, 1, 0) <= 0 || !hung_up(&p));
}

static bool stale(const struct transport *base) {
	const struct transport_ring *t = (const struct transport_ring *)base;

	return ring_ended(t->memory);
}

/* ---- the watcher's rest ---- */

/*
 * Nothing comes that was not asked for, so nothing is looked at until something is. Either side says first what it
 * does (rests; busy, interrupted) and looks then at what the other one said.
 */
static void rest(struct transport_ring *t) {
	pthread_mutex_lock(&t->resting);
	atomic_store(&t->rests, true);
	while (!atomic_load(&t->reader.busy) && !transport_over(&t->reader))
		pthread_cond_wait(&t->rouse, &t->resting);
	atomic_store(&t->rests, false);
	pthread_mutex_unlock(&t->resting);
}

static void rouse(struct transport_ring *t) {
	if (!atomic_load(&t->rests))
		return;
	pthread_mutex_lock(&t->resting);
	pthread_cond_signal(&t->rouse);
	pthread_mutex_unlock(&t->resting);
}

/* ---- requests ---- */

/* A count that is full has been heard of. */
static int ring_bell(struct transport_ring *t) {
	return !eventfd_write(t->bell, 1) || errno == EAGAIN ? 0 : -errno;
}

static void show(struct transport_ring *t) {
	if (ring_publish(&t->requests, RING_ANY_SLOT))
		t->unheard = true;
}

static int push(struct transport *base) {
	struct transport_ring *t = (struct transport_ring *)base;

	if (!t->unheard)
		return 0;
	t->unheard = false;
	beside_asks(&t->beside);
	return ring_bell(t);
}

/* Until the engine has read some. deadline_us 0: none. */
static int await_room(struct transport_ring *t, uint64_t deadline_us) {
	struct ring *r = &t->requests;
	uint32_t read = atomic_load(&r->shared->read), room;
	int failed = ring_room(r, &room);

	if (failed || room)
		return failed;
	if (atomic_load(&t->reader.leaving))
		return -ECANCELED;
	if (!ring_writer_sleeps(r, 0))
		ring_wait(&r->shared->read, read, LOOK_US);
	if (deadline_us && link_now_us() > deadline_us)
		return -ETIMEDOUT;
	return door_open(t) ? 0 : -EPIPE;
}

static int put_pieces(struct transport_ring *t, const uint8_t *bytes, uint32_t size) {
	uint64_t deadline = t->reader.timeout_ms ? link_now_us() + UINT64_C(1000) * t->reader.timeout_ms : 0;
	uint32_t room;
	int r = 0;

	while (!r && size) {
		r = ring_room(&t->requests, &room);
		if (!r && !room) {
			show(t);
			r = push(&t->reader.base);
			if (!r)
				r = await_room(t, deadline);
			continue;
		}
		if (room > size)
			room = size;
		if (!r)
			ring_put(&t->requests, bytes, room);
		bytes += room;
		size -= room;
	}
	return r;
}

static int submit(struct transport *base, unsigned slot, const void *bytes, size_t size) {
	struct transport_ring *t = (struct transport_ring *)base;
	struct ring_head head = { .slot = slot, .size = (uint32_t)size };
	int r;

	if (size > LIMIT_FRAME_BYTES)
		return -EMSGSIZE;
	r = put_pieces(t, (const uint8_t *)&head, sizeof head);
	if (!r)
		r = put_pieces(t, bytes, head.size);
	if (!r) {
		transport_asked(&t->reader, slot);
		show(t);
		rouse(t);
	}
	return r;
}

/* ---- answers ---- */

/* An answer to no request is nonsense. */
static int take_answer(struct transport_ring *t) {
	struct ring_frame frame = t->incoming;

	t->incoming = (struct ring_frame){ .bytes = NULL };
	if (!transport_answered(&t->reader, frame.head.slot)) {
		free(frame.bytes);
		return -EPROTO;
	}
	t->reader.events.reply(t->reader.events.user, frame.head.slot, 0, frame.bytes, frame.head.size);
	free(frame.bytes);
	return 0;
}

/* Everything that has come; how many answers, or -errno. */
static int take_answers(struct transport_ring *t) {
	int count = 0, r;

	for (;;) {
		r = ring_take(&t->replies, &t->incoming, t->reader.slots, LIMIT_FRAME_BYTES, 0);
		if (ring_consume(&t->replies) && ring_bell(t))
			return -EPIPE;
		if (r != 1)
			return r ? r : count;
		r = take_answer(t);
		if (r)
			return r;
		count++;
	}
}

/* Sleeps until something that is awaited has come, or for a while. Who awaits more may have said so just now. */
static void sleep_once(struct transport_ring *t, uint64_t us) {
	uint32_t awaited = atomic_load(&t->awaited);
	struct binding binding = { .at = 0 };
	struct ring *r = &t->replies;

	beside_sleeps(&t->beside, &binding);
	if (!ring_reader_sleeps(r, awaited) && atomic_load(&t->awaited) == awaited && !transport_over(&t->reader) && !ring_ended(t->memory))
		ring_wait(&r->shared->written, r->position, us < LOOK_US ? us : LOOK_US);
	ring_reader_awake(r);
	beside_woke(&t->beside, &binding);
}

static int read_until(struct transport_reader *r, uint64_t deadline_us, bool watcher) {
	struct transport_ring *t = (struct transport_ring *)r;
	int n = 0;

	if (!watcher) {
		beside_waits(&t->beside);
		linger_begin(&t->linger);
	}
	while (!transport_over(r)) {
		uint64_t now = 0;

		if (!watcher && atomic_load(&r->watching))
			return 0;

		n = take_answers(t);
		if (n < 0)
			return transport_break_off(r);
		if (n) {
			if (!watcher)
				linger_end(&t->linger);
			return 0;
		}
		if (deadline_us)
			now = link_now_us();
		if (deadline_us && now >= deadline_us)
			return -ETIMEDOUT;
		if (watcher)
			rest(t);
		else if (linger_look(&t->linger, &t->replies))
			continue;
		sleep_once(t, deadline_us ? deadline_us - now : LOOK_US);
		if (atomic_load(&t->replies.shared->written) == t->replies.position && !door_open(t))
			return transport_break_off(r);
	}
	return -ECANCELED;
}

/* Who names slots is about to sleep; who names all may be another thread, whose answer may have come unheard. */
static void await(struct transport *base, uint32_t slots) {
	struct transport_ring *t = (struct transport_ring *)base;
	uint32_t before = atomic_exchange(&t->awaited, slots);

	if (slots != TRANSPORT_ANY_SLOT || before == slots)
		return;
	if (ring_reader_heeds(&t->replies, RING_ANY_SLOT))
		ring_wake(&t->replies.shared->written);
}

/* Nothing has come of the slot yet, so nobody has to look. */
static void heed(struct transport *base, unsigned slot) {
	struct transport_ring *t = (struct transport_ring *)base;
	uint32_t bit = UINT32_C(1) << slot;

	atomic_fetch_or(&t->awaited, bit);
	ring_reader_heeds(&t->replies, bit);
}

/* The watcher, too, where it rests. */
static void wake(struct transport_reader *r) {
	struct transport_ring *t = (struct transport_ring *)r;

	ring_wake(&t->replies.shared->written);
	rouse(t);
}

static void leave(struct transport *base) {
	struct transport_ring *t = (struct transport_ring *)base;

	atomic_store(&t->reader.leaving, true);
	ring_wake(&t->requests.shared->read);
}

static void transport_free(struct transport *base) {
	struct transport_ring *t = (struct transport_ring *)base;

	transport_reader_end(&t->reader);
	munmap(t->memory, RING_BYTES);
	free(t->incoming.bytes);
	pthread_mutex_destroy(&t->resting);
	pthread_cond_destroy(&t->rouse);
	free(t);
}

int transport_ring_open(const struct transport_ends *ends, unsigned slots, uint32_t timeout_ms,
	const struct transport_events *events, struct transport **transportp, struct fault *f) {
	struct transport_ring *t = calloc(1, sizeof *t);
	int r = t ? 0 : -ENOMEM;

	if (!r && shm_check(ends->memory, RING_BYTES))
		r = fault_set(f, FAULT_PROTOCOL, "the door's ring is no sealed memory of %d bytes", RING_BYTES);
	if (!r)
		r = shm_map(ends->memory, RING_BYTES, NULL, &t->memory);
	if (r) {
		free(t);
		return r;
	}
	/* A child that writes to it would be heard as its parent. */
	madvise(t->memory, RING_BYTES, MADV_DONTFORK);
	t->reader = (struct transport_reader){ .base = { .submit = submit, .free = transport_free, .stale = stale, .push = push, .leave = leave,
		.await = await, .heed = heed },
		.read = read_until, .wake = wake };
	transport_reader_init(&t->reader, slots, timeout_ms, events);
	atomic_init(&t->awaited, RING_ANY_SLOT);
	t->bell = ends->bell;
	t->door = ends->door;
	beside_init(&t->beside, ring_place(t->memory));
	linger_init(&t->linger, ring_place(t->memory));
	t->requests = ring_requests(t->memory);
	t->replies = ring_replies(t->memory);
	pthread_mutex_init(&t->resting, NULL);
	pthread_cond_init(&t->rouse, NULL);
	*transportp = &t->reader.base;
	return 0;
}

/* The op stream over rings; see rings.h. One thread. */
#include "rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utlist.h>

#include "protocol/limits.h"
#include "protocol/ring.h"
#include "protocol/shm.h"
#include "daemon/base/loop.h"
#include "daemon/serve/follow.h"

enum {
	RINGS_EVENTS = 64,
	/*
	 * Of answers that a client may leave unread for as long as it likes: those to SUBMIT, which nobody waits
	 * for, are shorter together.
	 */
	RINGS_QUEUED_BYTES = 1 << 20,
	/*
	 * How long it may leave more than that without taking a whole answer; one of LIMIT_FRAME_BYTES needs
	 * milliseconds.
	 */
	RINGS_CROWDED_US = 3 * 1000 * 1000,
};

/* Lies before the bytes of its frame. */
struct ring_request {
	struct transport_request request;
	struct channel *channel;
	struct ring_request *previous, *following;
	uint32_t slot;
	_Alignas(16) uint8_t bytes[];
};

/* An answer that found no room, or the rest of one. */
struct ring_answer {
	struct ring_answer *next;
	uint32_t size, written;
	uint8_t bytes[];
};

struct channel {
	struct rings *rings;
	struct channel *previous, *next;                 /* of all */
	struct channel *active_previous, *active_next;
	struct channel *crowded_previous, *crowded_next;
	uint64_t session;
	void *memory;                                    /* NULL: ended or broken */
	int bell;
	bool active;
	struct ring requests, replies;
	struct ring_frame incoming;
	struct ring_request *open;                       /* utlist: delivered and not answered */
	uint32_t unanswered;
	uint32_t busy;                                   /* set of their slots */
	struct ring_answer *queue;                       /* utlist, oldest first */
	uint32_t queued;                                 /* how many */
	uint64_t queued_bytes;                           /* not written yet */
	bool crowded;                                    /* they are more than RINGS_QUEUED_BYTES */
	uint64_t taken_us;                               /* while crowded: when an answer was last written whole */
	bool ended;
};

struct rings {
	struct transport base;
	struct channel *channels, *active, *crowded;
	int epoll;
	struct follow follow;
	uint32_t sessions;                               /* that are connected */
	uint32_t linger_us, linger_most;
	bool starved;
	rings_failed *failed;
	void *user;
};

/* ---- beginning and ending ---- */

static void activate(struct channel *c) {
	if (c->active || !c->memory)
		return;
	c->active = true;
	DL_APPEND2(c->rings->active, c, active_previous, active_next);
	ring_reader_awake(&c->requests);
}

static void deactivate(struct channel *c) {
	if (!c->active)
		return;
	c->active = false;
	DL_DELETE2(c->rings->active, c, active_previous, active_next);
}

/* After queued_bytes has changed. */
static void count_crowded(struct channel *c) {
	bool crowded = c->queued_bytes > RINGS_QUEUED_BYTES;

	if (crowded == c->crowded)
		return;
	c->crowded = crowded;
	if (crowded) {
		c->taken_us = loop_now();
		DL_APPEND2(c->rings->crowded, c, crowded_previous, crowded_next);
	} else {
		DL_DELETE2(c->rings->crowded, c, crowded_previous, crowded_next);
	}
}

static uint32_t linger_us(const struct rings *r) {
	return r->sessions <= r->linger_most ? r->linger_us : 0;
}

static void tell_linger(const struct channel *c) {
	atomic_store_explicit(&ring_place(c->memory)->linger_us, linger_us(c->rings), memory_order_relaxed);
}

/* Tells all of them where their number crosses what they may be. */
static void count_session(struct rings *r, int more) {
	uint32_t before = linger_us(r);
	struct channel *c;

	r->sessions += (uint32_t)more;
	if (linger_us(r) == before)
		return;
	DL_FOREACH2(r->channels, c, next)
		if (c->memory)
			tell_linger(c);
}

/* From here on nothing is read from the client or written to it. */
static void disconnect(struct channel *c) {
	struct ring_answer *a = c->queue, *next;

	deactivate(c);
	if (c->memory) {
		follow_forget(&c->rings->follow, ring_place(c->memory));
		munmap(c->memory, RING_BYTES);
		c->memory = NULL;
		count_session(c->rings, -1);
	}
	if (c->bell >= 0) {
		epoll_ctl(c->rings->epoll, EPOLL_CTL_DEL, c->bell, NULL);
		close(c->bell);
	}
	c->bell = -1;
	free(c->incoming.bytes);
	c->incoming = (struct ring_frame){ .bytes = NULL };
	for (c->queue = NULL; a; a = next) {
		next = a->next;
		free(a);
	}
	c->queued = 0;
	c->queued_bytes = 0;
	count_crowded(c);
}

static void free_if_done(struct channel *c) {
	if (!c->ended || c->open)
		return;
	DL_DELETE2(c->rings->channels, c, previous, next);
	free(c);
}

static void fail(struct channel *c) {
	disconnect(c);
	if (c->rings->failed)
		c->rings->failed(c->rings->user, c->session);
}

static int connect_channel(struct channel *c, int memory) {
	/* Each ring is told once, and nothing is read: the client has the same count, and could take it away before us. */
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.ptr = c };
	int r = shm_check(memory, RING_BYTES);

	if (!r)
		r = shm_map(memory, RING_BYTES, NULL, &c->memory);
	if (r)
		return r;
	count_session(c->rings, 1);
	tell_linger(c);
	c->requests = ring_requests(c->memory);
	c->replies = ring_replies(c->memory);
	if (epoll_ctl(c->rings->epoll, EPOLL_CTL_ADD, c->bell, &e))
		return -errno;
	activate(c);
	return 0;
}

int rings_add(struct rings *r, uint64_t session, int memory, int bell, struct channel **channelp) {
	struct channel *c = calloc(1, sizeof *c);
	int failed;

	if (!c) {
		close(memory);
		close(bell);
		return -ENOMEM;
	}
	c->rings = r;
	c->session = session;
	c->bell = bell;
	DL_APPEND2(r->channels, c, previous, next);
	failed = connect_channel(c, memory);
	close(memory);
	if (failed)
		rings_remove(c);
	else
		*channelp = c;
	return failed;
}

void rings_remove(struct channel *c) {
	if (!c)
		return;
	disconnect(c);
	c->ended = true;
	free_if_done(c);
}

/* ---- requests ---- */

static void deliver(struct channel *c) {
	struct ring_request *q = (struct ring_request *)c->incoming.bytes;

	*q = (struct ring_request){ .request = { .transport = &c->rings->base, .bytes = q->bytes,
					    .size = c->incoming.head.size },
		.channel = c,
		.slot = c->incoming.head.slot };
	c->incoming = (struct ring_frame){ .bytes = NULL };
	c->busy |= UINT32_C(1) << q->slot;
	c->unanswered++;
	DL_APPEND2(c->open, q, previous, following);
	follow_heard(&c->rings->follow, ring_place(c->memory));
	c->rings->base.receive(c->rings->base.user, &q->request);
}

/* A client uses a slot again when it has read the answer, so an honest one is always read. */
static bool may_read(const struct channel *c) {
	return c->unanswered + c->queued < LIMIT_UNANSWERED;
}

/* Reads whole frames, as many as the client may have unanswered. -EPROTO; -ENOMEM: later. */
static int read_requests(struct channel *c) {
	int r = 1;

	while (r == 1 && may_read(c)) {
		r = ring_take(&c->requests, &c->incoming, LIMIT_UNANSWERED, LIMIT_FRAME_BYTES,
			sizeof(struct ring_request));
		if (r == 1 && c->busy & UINT32_C(1) << c->incoming.head.slot)
			return -EPROTO;
		if (r == 1)
			deliver(c);
	}
	if (ring_consume(&c->requests))
		ring_wake(&c->requests.shared->read);
	return r < 0 ? r : 0;
}

/* ---- answers ---- */

/* Writes what there is room for of the oldest. True once the queue is empty or the ring full. */
static int write_queued(struct channel *c) {
	struct ring_answer *a;
	uint32_t room = 0;
	int r = 0;

	while (!r && (a = c->queue)) {
		uint32_t piece = a->size - a->written;

		r = ring_room(&c->replies, &room);
		if (r)
			return r;
		if (piece > room)
			piece = room;
		ring_put(&c->replies, a->bytes + a->written, piece);
		a->written += piece;
		c->queued_bytes -= piece;
		if (a->written < a->size) {
			r = ring_writer_sleeps(&c->replies, room - piece) ? 0 : -EAGAIN;
			continue;
		}
		LL_DELETE(c->queue, a);
		c->queued--;
		free(a);
		if (c->crowded)
			c->taken_us = loop_now();
	}
	count_crowded(c);
	if (ring_publish(&c->replies, RING_ANY_SLOT))
		ring_wake(&c->replies.shared->written);
	return r == -EAGAIN ? 0 : r;
}

static int queue_answer(struct channel *c, const struct ring_head *head, const void *bytes) {
	struct ring_answer *a = malloc(sizeof *a + sizeof *head + head->size);

	if (!a)
		return -ENOMEM;
	*a = (struct ring_answer){ .size = (uint32_t)sizeof *head + head->size };
	memcpy(a->bytes, head, sizeof *head);
	memcpy(a->bytes + sizeof *head, bytes, head->size);
	LL_APPEND(c->queue, a);
	c->queued++;
	c->queued_bytes += a->size;
	return write_queued(c);
}

static int write_answer(struct channel *c, uint32_t slot, const void *bytes, size_t size) {
	struct ring_head head = { .slot = slot, .size = (uint32_t)size };
	uint32_t room;
	int r = ring_room(&c->replies, &room);

	if (r)
		return r;
	if (c->queue || room < sizeof head + size)
		return queue_answer(c, &head, bytes);
	ring_put(&c->replies, &head, sizeof head);
	ring_put(&c->replies, bytes, head.size);
	if (ring_publish(&c->replies, UINT32_C(1) << slot))
		ring_wake(&c->replies.shared->written);
	return 0;
}

static void close_request(struct channel *c, struct ring_request *q) {
	DL_DELETE2(c->open, q, previous, following);
	c->unanswered--;
	c->busy &= ~(UINT32_C(1) << q->slot);
}

static void rings_drop(struct transport *t, struct transport_request *r) {
	struct ring_request *q = (struct ring_request *)r;
	struct channel *c = q->channel;

	(void)t;
	close_request(c, q);
	free(q);
	free_if_done(c);
}

static void rings_reply(struct transport *t, struct transport_request *r, const void *bytes, size_t size) {
	struct ring_request *q = (struct ring_request *)r;
	struct channel *c = q->channel;

	(void)t;
	close_request(c, q);
	if (c->memory && write_answer(c, q->slot, bytes, size))
		fail(c);                 /* without its answer the client could not go on */
	free(q);
	activate(c);                     /* its next request is not far */
	free_if_done(c);
}

/* ---- turns ---- */

static void poll_channel(struct channel *c) {
	int r = c->queue ? write_queued(c) : 0;

	if (!r)
		r = read_requests(c);
	c->rings->starved |= r == -ENOMEM;
	if (r == -EPROTO)
		fail(c);
	else if (!may_read(c))
		deactivate(c);           /* until it is answered, or its byte says that there is room */
}

/* Who keeps much of our memory and does not read is not waited for without end. */
static void fail_crowded(struct rings *r) {
	uint64_t now = loop_now();
	struct channel *next;

	for (struct channel *c = r->crowded; c; c = next) {
		next = c->crowded_next;
		if (now - c->taken_us > RINGS_CROWDED_US)
			fail(c);
	}
}

void rings_poll(struct rings *r) {
	struct channel *next;

	if (r->crowded)
		fail_crowded(r);
	for (struct channel *c = r->active; c; c = next) {
		next = c->active_next;
		poll_channel(c);
	}
}

void rings_linger(struct rings *r, uint32_t us, uint32_t most) {
	r->linger_us = us;
	r->linger_most = most;
}

bool rings_starved(struct rings *r) {
	bool starved = r->starved;

	r->starved = false;
	return starved;
}

bool rings_waiting(const struct rings *r) {
	const struct channel *c;

	DL_FOREACH2(r->active, c, active_next)
		if (ring_waiting(&c->requests))
			return true;
	return false;
}

bool rings_sleep(struct rings *r) {
	struct channel *c;

	DL_FOREACH2(r->active, c, active_next)
		if (ring_reader_sleeps(&c->requests, RING_ANY_SLOT))
			return false;
	while (r->active)
		deactivate(r->active);
	return true;
}

int rings_descriptor(const struct rings *r) {
	return r->epoll;
}

void rings_wake(struct rings *r) {
	struct epoll_event event[RINGS_EVENTS];
	int n = epoll_wait(r->epoll, event, RINGS_EVENTS, 0);

	for (int i = 0; i < n; i++)
		activate(event[i].data.ptr);
}

/* ---- the transport ---- */

static int rings_start(struct transport *t) {
	(void)t;
	return 0;
}

static void drop_requests(struct channel *c) {
	while (c->open) {
		struct ring_request *q = c->open;

		DL_DELETE2(c->open, q, previous, following);
		free(q);
	}
}

static void rings_close(struct transport *t) {
	struct rings *r = (struct rings *)t;
	struct channel *next;

	for (struct channel *c = r->channels; c; c = next) {
		next = c->next;
		drop_requests(c);
		rings_remove(c);
	}
	close(r->epoll);
	free(r);
}

void rings_follow(struct rings *r) {
	r->follow.on = true;
}

void rings_on_failure(struct rings *r, rings_failed *failed, void *user) {
	r->failed = failed;
	r->user = user;
}

int rings_new(struct rings **ringsp, struct transport **transportp) {
	static const struct transport_functions functions = { .start = rings_start, .reply = rings_reply, .drop = rings_drop, .close = rings_close };
	struct rings *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->base.functions = &functions;
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0) {
		free(r);
		return -errno;
	}
	*ringsp = r;
	*transportp = &r->base;
	return 0;
}

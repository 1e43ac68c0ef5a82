/*
 * The transport to a daemon on another machine: frames of protocol/remote.h over a connection of tcp or tls, without a
 * thread where nobody asks for one.
 *
 * Who waits for an answer reads the connection itself (transport.c). The bytes of an array come before the answer that is
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
#include "protocol/message.h"
#include "protocol/wire.h"
#include "protocol/remote.h"
#include "link.h"

/* What comes with an answer. */
struct result {
	uint64_t expected, got;
	uint8_t *bytes;
};

struct transport_remote {
	struct transport_reader reader;
	struct link *link;
	struct result result[LIMIT_UNANSWERED];
	struct result came;                  /* with the answer that is being handed on */
	struct fault last;                   /* what the door said; code 0: nothing */
	int wake;                            /* eventfd: who reads is to look at the flags */
};

static struct transport_remote *of(struct transport *base) {
	return (struct transport_remote *)base;
}

static uint64_t patience(const struct transport_remote *t) {
	return t->reader.timeout_ms ? link_now_us() + UINT64_C(1000) * t->reader.timeout_ms : 0;
}

/* ---- requests ---- */

static int send_frame(struct transport_remote *t, const struct remote_head *h, const void *bytes) {
	return link_write_frame(t->link, h, bytes, patience(t), &t->reader.leaving);
}

static int submit_frame(struct transport_remote *t, const struct remote_head *h, const void *bytes) {
	transport_asked(&t->reader, h->name);
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

	return link_flush(t->link, patience(t), &t->reader.leaving);
}

/* ---- answers ---- */

static int take_result(struct transport_remote *t, const struct remote_head *h) {
	struct result *r = &t->result[h->name];

	if (!(atomic_load(&t->reader.busy) & 1U << h->name) || h->offset != r->got || h->size > r->expected - r->got)
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
	t->reader.events.reply(t->reader.events.user, slot, 0, bytes, size);
	free(t->came.bytes);
	t->came.bytes = NULL;
}

static int take_answer(struct transport_remote *t, const struct remote_head *h) {
	uint8_t *bytes;
	int r;

	if (!(atomic_load(&t->reader.busy) & 1U << h->name))
		return -EPROTO;
	bytes = malloc(h->size);
	r = bytes ? link_read(t->link, bytes, h->size, patience(t)) : -ENOMEM;
	if (!r) {
		t->came = t->result[h->name];
		t->result[h->name] = (struct result){ .bytes = NULL };
		transport_answered(&t->reader, h->name);
		hand_on(t, h->name, bytes, h->size);
	}
	free(bytes);
	return r;
}

/* Nobody asks the door, once it was entered: it says why it ends the session. */
static int take_last_word(struct transport_remote *t, const struct remote_head *h) {
	uint8_t bytes[LIMIT_SENTENCE + 64];
	struct wire_reader reader;
	struct wire_cursor c;
	uint64_t id;
	int r = h->size > sizeof bytes ? -EPROTO : link_read(t->link, bytes, h->size, patience(t));

	if (r || wire_open(&reader, bytes, h->size, NULL))
		return r ? r : -EPROTO;
	c = wire_root(&reader);
	if (!wire_get_uint(&c, "message", UINT32_MAX, &id, NULL) && id == MESSAGE_FAULT && message_get_fault(&c, &t->last, NULL))
		t->last.code = 0;
	wire_close(&reader);
	return -ECONNRESET;
}

static bool last_word(const struct transport *base, struct fault *f) {
	const struct transport_remote *t = (const struct transport_remote *)base;

	*f = t->last;
	return f->code;
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
	if (h.kind == REMOTE_DOOR)
		return take_last_word(t, &h);
	if (h.kind != REMOTE_REPLY || h.name >= t->reader.slots)
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

/* The watcher sleeps without a look at the flags: what interrupts it stops the connection. */
static int watch_once(struct transport_remote *t) {
	if (transport_over(&t->reader))
		return -ECANCELED;
	return link_await(t->link, 0) || take_answers(t) ? transport_break_off(&t->reader) : 0;
}

static int read_until(struct transport_reader *reader, uint64_t deadline_us, bool watcher) {
	struct transport_remote *t = (struct transport_remote *)reader;
	int r = -ECANCELED;

	if (watcher)
		return watch_once(t);
	while (r == -ECANCELED && !transport_over(reader) && !atomic_load(&reader->watching))
		r = await(t, deadline_us);
	if (r)
		return r == -ECANCELED && !transport_over(reader) ? 0 : r;
	return take_answers(t) ? transport_break_off(reader) : 0;
}

static void wake(struct transport_reader *reader) {
	const struct transport_remote *t = (struct transport_remote *)reader;
	const uint64_t one = 1;
	bool failed = write(t->wake, &one, sizeof one) < 0;

	/* It cannot be full, and who reads looks at the flags. */
	if (failed || atomic_load(&reader->interrupted))
		link_stop(t->link);
}

static void leave(struct transport *base) {
	atomic_store(&of(base)->reader.leaving, true);
}

static void transport_free(struct transport *base) {
	struct transport_remote *t = of(base);

	transport_reader_end(&t->reader);
	for (unsigned i = 0; i < LIMIT_UNANSWERED; i++)
		free(t->result[i].bytes);
	close(t->wake);
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
	t->reader = (struct transport_reader){ .base = { .last_word = last_word, .submit = submit, .free = transport_free, .push = push, .leave = leave,
		.upload = upload, .expect = expect, .ask_arena = ask_arena, .result = result }, .read = read_until, .wake = wake };
	link_unasked(link);
	t->link = link;
	transport_reader_init(&t->reader, slots, timeout_ms, events);
	*transportp = &t->reader.base;
	return 0;
}

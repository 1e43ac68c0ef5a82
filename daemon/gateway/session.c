/*
 * One connection from another machine, from its handshake to its end; see gateway.h.
 *
 * Two threads: this one reads what comes, writes uploads into the session's memory and puts requests into the session's ring;
 * the ring's takes answers, and sends what they are about before them. So a client that takes no answers is still read, one
 * that sends none is still answered, and neither can wait for the other. Whatever goes wrong ends the process, and
 * with it the session.
 */
#include "gateway.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/limits.h"
#include "protocol/message.h"
#include "protocol/remote.h"
#include "protocol/shm.h"
#include "protocol/wire.h"
#include "client/link.h"
#include "client/transport.h"
#include "daemon/gateway/arenas.h"

enum {
	/* As many as a client of this machine has. */
	SESSION_REQUESTS = LIMIT_UNANSWERED - 1,
	SESSION_URL = 256,
};

struct session {
	struct gateway_session *of;
	struct link *link;
	int door;
	struct transport *transport;
	struct gateway_arenas arenas;
	pthread_mutex_t sending;             /* who writes to the link */
	atomic_uint busy;                    /* set of slots */
	uint64_t awaited[SESSION_REQUESTS];  /* bytes that come with the answer */
	uint8_t *frame;                      /* of LIMIT_FRAME_BYTES, as far as they were touched */
};

static uint64_t patience(const struct session *s) {
	return link_now_us() + s->of->config->remote_stall_us;
}

/* What the door said unasked: why it ends the session. Whoever writes to the link just now has more to say than this. */
static void pass_last_word(struct session *s) {
	unsigned char bytes[GATEWAY_PACKET];
	int fd = -1;
	ssize_t n = s->door >= 0 ? packet_receive(s->door, bytes, sizeof bytes, &fd, MSG_DONTWAIT) : 0;
	struct remote_head h = { .kind = REMOTE_DOOR, .size = (uint32_t)n };

	if (n <= 0 || pthread_mutex_trylock(&s->sending))
		return;
	if (!link_write_frame(s->link, &h, bytes, patience(s), NULL) && link_flush(s->link, patience(s), NULL))
		log_debug("the client at %s was not told why its session ends", s->of->peer);
}

static _Noreturn void end(struct session *s, const char *why) {
	if (atomic_load(s->of->entered))
		pass_last_word(s);
	log_debug("the connection from %s ends: %s", s->of->peer, why);
	_exit(EXIT_SUCCESS);
}

static _Noreturn void fail(struct session *s, int r, const struct fault *f) {
	end(s, r > 0 && f ? f->text : strerror(abs(r)));
}

/* ---- to the client ---- */

/* The last of them is sent on with what waits before it. */
static void send_frame(struct session *s, const struct remote_head *h, const void *bytes, bool last) {
	int r;

	pthread_mutex_lock(&s->sending);
	r = link_write_frame(s->link, h, bytes, patience(s), NULL);
	if (!r && last)
		r = link_flush(s->link, patience(s), NULL);
	pthread_mutex_unlock(&s->sending);
	if (r)
		fail(s, r, NULL);
}

static void send_reply(struct session *s, unsigned slot, const void *bytes, size_t size) {
	const struct remote_head h = { .kind = REMOTE_REPLY, .size = (uint32_t)size, .name = slot };

	atomic_fetch_and(&s->busy, ~(1U << slot));
	send_frame(s, &h, bytes, true);
}

static void send_memory(struct session *s, unsigned slot, const uint8_t *memory, uint64_t bytes) {
	for (uint64_t done = 0; done < bytes;) {
		uint64_t left = bytes - done;
		const struct remote_head h = { .kind = REMOTE_RESULT, .name = slot, .offset = done,
			.size = left < REMOTE_CHUNK_BYTES ? (uint32_t)left : REMOTE_CHUNK_BYTES };

		send_frame(s, &h, memory + done, false);
		done += h.size;
	}
}

/* [READ or MAP, arena, offset, bytes, ...]; *bytesp is 0 where it is another answer. */
static int read_place(const void *reply, size_t size, uint64_t *arenap, uint64_t *offsetp, uint64_t *bytesp, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor c;
	uint64_t id;
	int r = wire_open(&reader, reply, size, f);

	*bytesp = 0;
	if (r)
		return r;
	c = wire_root(&reader);
	r = wire_get_uint(&c, "reply", UINT32_MAX, &id, f);
	if (!r && (id == REQUEST_READ || id == REQUEST_MAP)) {
		r = wire_get_uint(&c, "arena", UINT32_MAX, arenap, f);
		if (!r)
			r = wire_get_uint(&c, "offset", INT64_MAX, offsetp, f);
		if (!r)
			r = wire_get_uint(&c, "bytes", INT64_MAX, bytesp, f);
	}
	wire_close(&reader);
	return r;
}

/* Where they are not as many as the client awaits, it is told by their absence. */
static void send_result(struct session *s, unsigned slot, const void *reply, size_t size) {
	struct gateway_arena *arena;
	uint64_t id, offset, bytes;
	uint8_t *memory;
	struct fault f;
	int r = read_place(reply, size, &id, &offset, &bytes, &f);

	if (!r && bytes && bytes == s->awaited[slot]) {
		r = arenas_reach(&s->arenas, id, offset, bytes, false, &arena, &memory, &f);
		if (!r) {
			send_memory(s, slot, memory, bytes);
			arenas_leave(&s->arenas, arena);
		}
	}
	if (r)
		fail(s, r, &f);
}

static void on_reply(void *user, unsigned slot, int result, const void *bytes, size_t size) {
	struct session *s = user;

	if (result)
		fail(s, result, NULL);
	if (s->awaited[slot])
		send_result(s, slot, bytes, size);
	send_reply(s, slot, bytes, size);
}

static void on_broken(void *user) {
	end(user, "the engine is gone");
}

/* ---- from the client ---- */

static void read_frame(struct session *s, void *bytes, uint32_t size) {
	int r = link_read(s->link, bytes, size, patience(s));

	if (r)
		fail(s, r, NULL);
}

/* An honest client uses a slot again when it has its answer. */
static void take_slot(struct session *s, unsigned slot) {
	if (slot >= SESSION_REQUESTS || atomic_fetch_or(&s->busy, 1U << slot) & 1U << slot)
		end(s, "a request came before the last one of its slot was answered");
}

static void on_request(struct session *s, const struct remote_head *h) {
	int r;

	take_slot(s, h->name);
	read_frame(s, s->frame, h->size);
	s->awaited[h->name] = h->offset;
	r = s->transport->submit(s->transport, h->name, s->frame, h->size);
	if (r)
		fail(s, r, NULL);
}

static void on_arena(struct session *s, const struct remote_head *h) {
	struct wire_writer w;
	struct fault f;
	uint64_t bytes = 0;
	uint32_t id = 0;
	int r;

	take_slot(s, h->name);
	r = arenas_make(&s->arenas, h->offset, &id, &bytes, &f);
	if (r < 0)
		fail(s, r, &f);
	wire_writer_init(&w);
	if (r) {
		wire_put_fault(&w, &f);
	} else {
		wire_put_array(&w, 3);
		wire_put_uint(&w, REQUEST_ARENA);
		wire_put_uint(&w, id);
		wire_put_uint(&w, bytes);
	}
	r = wire_finish(&w);
	if (r)
		fail(s, r, NULL);
	send_reply(s, h->name, w.buffer.data, w.buffer.size);
	wire_writer_free(&w);
}

static void on_upload(struct session *s, const struct remote_head *h) {
	struct gateway_arena *arena;
	uint8_t *memory;
	struct fault f;
	int r = arenas_reach(&s->arenas, h->name, h->offset, h->size, true, &arena, &memory, &f);

	if (r)
		fail(s, r, &f);
	read_frame(s, memory, h->size);
	arenas_leave(&s->arenas, arena);
}

static void on_nonsense(struct session *s, const struct remote_head *h) {
	(void)h;
	end(s, "it sent a frame that clients do not send");
}

static void (*const frames[REMOTE_KINDS])(struct session *s, const struct remote_head *h) = {
	[REMOTE_DOOR] = on_nonsense,
	[REMOTE_REQUEST] = on_request,
	[REMOTE_ARENA] = on_arena,
	[REMOTE_UPLOAD] = on_upload,
	[REMOTE_REPLY] = on_nonsense,
	[REMOTE_RESULT] = on_nonsense,
};

/* Until something comes, or the door says that the session has ended. */
static void await_frame(struct session *s) {
	struct pollfd p[] = { { .fd = link_descriptor(s->link), .events = POLLIN }, { .fd = s->door, .events = POLLRDHUP } };
	int r = s->transport->push ? s->transport->push(s->transport) : 0;

	if (r)
		fail(s, r, NULL);
	if (poll(p, 2, -1) < 0 && errno != EINTR)
		fail(s, -errno, NULL);
	if (p[1].revents)
		end(s, "the session was closed");
}

static _Noreturn void serve(struct session *s) {
	struct remote_head h;
	struct fault f;
	int r;

	for (;;) {
		if (!link_buffered(s->link))
			await_frame(s);
		r = link_read_head(s->link, &h, patience(s), &f);
		if (r)
			fail(s, r, &f);
		frames[h.kind](s, &h);
	}
}

/* ---- beginning ---- */

/* A connection of the door, as the user whose certificate was shown. */
static int enter(struct session *s, struct fault *f) {
	uint8_t chain[CLERK_CHAIN];
	size_t size = link_peer_chain(s->link, chain, sizeof chain);
	int r = clerk_enter(s->of->clerk, chain, size, &s->door, f);

	arenas_open(&s->arenas, s->door);
	return r;
}

/* The number of a packet of the door. */
static int packet_number(const void *bytes, size_t size, uint64_t *idp, struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor c;
	int r = wire_open(&reader, bytes, size, f);

	if (r)
		return r;
	c = wire_root(&reader);
	r = wire_get_uint(&c, "message", UINT32_MAX, idp, f);
	wire_close(&reader);
	return r;
}

static void send_door(struct session *s, const void *bytes, size_t size) {
	const struct remote_head h = { .kind = REMOTE_DOOR, .size = (uint32_t)size };

	send_frame(s, &h, bytes, true);
}

/* Says why, and ends. */
static _Noreturn void refuse(struct session *s, const struct fault *f) {
	struct wire_writer w;

	clerk_refused(s->of->clerk, f->text);
	wire_writer_init(&w);
	wire_put_fault(&w, f);
	if (!wire_finish(&w))
		send_door(s, w.buffer.data, w.buffer.size);
	_exit(EXIT_SUCCESS);
}

/* The first frame: HELLO, or STATUS where that is allowed. Its size. */
static uint32_t read_question(struct session *s, uint64_t deadline, uint64_t *idp) {
	struct remote_head h = { 0 };
	struct fault f;
	int r = link_read_head(s->link, &h, deadline, &f);

	*idp = 0;
	if (!r && (h.kind != REMOTE_DOOR || h.size > GATEWAY_PACKET))
		end(s, "it began with something else than a packet of the door");
	if (!r)
		r = link_read(s->link, s->frame, h.size, deadline);
	if (!r)
		r = packet_number(s->frame, h.size, idp, &f);
	if (r)
		fail(s, r, &f);
	if (*idp == DOOR_STATUS && !s->of->config->remote_status)
		r = fault_set(&f, FAULT_ARGUMENT, "the status is told on the daemon's machine alone (remote.status)");
	else if (*idp != DOOR_HELLO && *idp != DOOR_STATUS)
		r = fault_set(&f, FAULT_PROTOCOL, "a connection begins with HELLO");
	if (r)
		refuse(s, &f);
	return h.size;
}

/* The answer of the door takes as long as the engine does to start; a client that goes meanwhile is noticed. */
static ssize_t ask_door(struct session *s, uint32_t size, int fd[PACKET_PAIR]) {
	struct pollfd p[] = { { .fd = s->door, .events = POLLIN }, { .fd = link_descriptor(s->link), .events = POLLRDHUP } };
	int r = packet_send(s->door, s->frame, size, -1, MSG_NOSIGNAL);
	ssize_t n;

	if (r)
		fail(s, r, NULL);
	while (!p[0].revents) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			fail(s, -errno, NULL);
		if (p[1].revents)
			end(s, "the client went");
	}
	n = packet_receive_pair(s->door, s->frame, REMOTE_DOOR_BYTES, fd, 0);
	if (n <= 0)
		end(s, "the door is closed");
	return n;
}

/* [HELLO, version, features, session, secret, url, device], or a fault. */
static int read_url(const void *bytes, size_t size, char url[static SESSION_URL], struct fault *f) {
	struct wire_reader reader;
	struct wire_cursor c;
	uint64_t number;
	const void *secret;
	const char *text;
	size_t length;
	int r = wire_open(&reader, bytes, size, f);

	if (r)
		return r;
	c = wire_root(&reader);
	for (unsigned i = 0; !r && i < 4; i++)
		r = wire_get_uint(&c, "HELLO", UINT64_MAX, &number, f);
	if (!r)
		r = wire_get_bin(&c, "secret", LIMIT_SECRET_BYTES, &secret, f);
	if (!r)
		r = wire_get_text(&c, "url", SESSION_URL - 1, &text, &length, f);
	if (!r)
		snprintf(url, SESSION_URL, "%.*s", (int)length, text);
	wire_close(&reader);
	return r;
}

/* By the session's ring, or where it has none as any client without. */
static int open_transport(struct session *s, const int fd[PACKET_PAIR], const char *url, struct fault *f) {
	const struct transport_events events = { .reply = on_reply, .broken = on_broken, .user = s };
	const struct transport_ends ends = { .memory = fd[0], .bell = fd[1], .door = s->door };
	uint32_t stall_ms = (uint32_t)(s->of->config->remote_stall_us / 1000);
	int r;

	if (fd[0] < 0 || fd[1] < 0)
		return transport_dial(url, SESSION_REQUESTS, &events, &s->transport, f);
	r = transport_ring_open(&ends, SESSION_REQUESTS, stall_ms, &events, &s->transport, f);
	return r ? r : s->transport->watch(s->transport);
}

static void begin(struct session *s, uint64_t deadline) {
	int fd[PACKET_PAIR] = { -1, -1 };
	char url[SESSION_URL];
	uint64_t question, reply;
	struct fault f;
	uint32_t size = read_question(s, deadline, &question);
	ssize_t n;
	int r = enter(s, &f);

	if (r > 0)
		refuse(s, &f);
	if (r)
		fail(s, r, &f);
	atomic_store(s->of->entered, true);
	n = ask_door(s, size, fd);
	r = packet_number(s->frame, (size_t)n, &reply, &f);
	if (!r && reply == DOOR_HELLO)
		r = read_url(s->frame, (size_t)n, url, &f);
	if (!r && reply == DOOR_HELLO)
		r = open_transport(s, fd, url, &f);
	if (r)
		fail(s, r, &f);
	send_door(s, s->frame, (size_t)n);
	if (reply != DOOR_HELLO)
		end(s, "it was answered");
}

/* Who cannot agree on tls is told by its alert, and the administrator by a line. */
static _Noreturn void refuse_link(const struct session *s, int r, const struct fault *f) {
	clerk_refused(s->of->clerk, r > 0 ? f->text : strerror(-r));
	_exit(EXIT_SUCCESS);
}

void session_serve(struct gateway_session *of) {
	uint64_t deadline = link_now_us() + of->config->remote_hello_us;
	struct session *s = calloc(1, sizeof *s);
	struct fault f = { 0 };
	int r;

	if (!s)
		_exit(EXIT_FAILURE);
	s->of = of;
	s->door = -1;
	s->frame = malloc(LIMIT_FRAME_BYTES);
	pthread_mutex_init(&s->sending, NULL);
	r = s->frame ? 0 : -ENOMEM;
	if (!r && of->tls)
		r = link_keys_renew(of->keys);
	if (!r)
		r = confine(of->config->fusion_transport == TRANSPORT_NNG);
	if (!r)
		r = link_accept(of->fd, of->tls ? of->keys : NULL, deadline, &s->link, &f);
	if (r)
		refuse_link(s, r, &f);
	begin(s, deadline);
	serve(s);
}

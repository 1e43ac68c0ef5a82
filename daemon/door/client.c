/*
 * Connections of the door: identity and limits at accept, packets and who answers them, the end.
 *
 * Every packet gets one answer. A client that does not read its answers, sends what is no packet of
 * the protocol, or stays silent is closed; none of that concerns others. A request that needs the
 * engine while it does not read (or has not started) is kept, and the connection is read again
 * once it was answered.
 */
#include "daemon/door/arenas.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utlist.h>

#include "protocol/shm.h"
#include "daemon/base/descriptors.h"
#include "daemon/base/user_name.h"
#include "daemon/door/chore.h"
#include "daemon/door/closer.h"

/* ---- telling the engine about a session ---- */

void client_tell_begin(const struct client *c, struct wire_writer *w, enum message_control message, uint32_t fields) {
	wire_writer_init(w);
	wire_put_array(w, fields + 2);
	wire_put_uint(w, message);
	wire_put_uint(w, c->session);
}

int client_tell_end(struct client *c, struct wire_writer *w) {
	int r = child_queue(&c->engine->child, w, -1);

	wire_writer_free(w);
	return r;
}

/* ---- ending ---- */

void client_close(struct client *c) {
	struct supervisor *s = c->supervisor;

	client_session_end(c);
	loop_remove(c->source);
	DL_DELETE2(s->clients, c, previous, next);
	closer_take(s, c->fd, c->user);
	free(c->stalled);
	free(c->group);
	free(c->farewell);
	free(c);
}

/* Not by its client's will: what it held is gone. */
static void lose(struct client *c) {
	c->supervisor->sessions_lost += c->hello;
	client_close(c);
}

/* The daemon ends: where the service manager keeps what there is of the session, its client returns to the next one. */
static void leave(struct client *c) {
	c->returns = c->hello && client_comes_back(c);
	/* Who does not hear it in the ring hears the door's end. */
	if (c->returns && client_ring_end(&c->ring))
		log_debug("session %" PRIu64 " is not told in its ring that the daemon ends", c->session);
	client_close(c);
}

void clients_drift(struct supervisor *s, struct engine *e) {
	struct client *next;

	for (struct client *c = s->clients; c; c = next) {
		next = c->next;
		if (!c->hello || c->engine != e)
			continue;
		if (!c->resumes || !e->catalogue || s->stopping) {
			if (s->stopping)
				leave(c);
			else
				lose(c);
			continue;
		}
		c->attachment = CLIENT_ADRIFT;
		makings_cancel(c, true);
		if (!c->away)
			c->deadline_us = 0;
		/* Who sleeps at it would hear of nothing. */
		if (client_ring_end(&c->ring)) {
			lose(c);
			continue;
		}
		client_ring_drop(&c->ring);
	}
	leaving_engine_ended(e);
}

void clients_blame(const struct engine *e, uint64_t session, unsigned most) {
	char user[USER_NAME];
	struct client *c;

	HASH_FIND(hh, e->supervisor->sessions, &session, sizeof session, c);
	if (!c || c->engine != e)
		return;
	c->read = true;
	if (++c->ends < most)
		return;
	log_warning("session %" PRIu64 " of user %s, process %jd is closed: %u engines ended while they read its requests", c->session,
		user_name(c->uid, user), (intmax_t)c->pid, c->ends);
	lose(c);
}

bool clients_adrift(const struct engine *e, uint64_t session) {
	struct client *c;

	HASH_FIND(hh, e->supervisor->sessions, &session, sizeof session, c);
	return c && c->engine == e && c->attachment == CLIENT_ADRIFT;
}

void clients_close(struct supervisor *s, const struct engine *of) {
	struct client *next;

	for (struct client *c = s->clients; c; c = next) {
		next = c->next;
		if (!of)
			leave(c);
		else if (c->hello && c->engine == of)
			lose(c);
	}
}

const struct client *client_next(const struct client *c) {
	return c->next;
}

uint64_t client_bytes(const struct client *c) {
	return c->bytes;
}

/* ---- answering ---- */

/* A client that leaves its answers unread until the socket is full has broken the protocol. */
int client_answer_pair(struct client *c, const struct wire_writer *w, const int fd[PACKET_PAIR]) {
	int r = wire_finish(w);

	if (!r)
		r = packet_send_pair(c->fd, w->buffer.data, w->buffer.size, fd, MSG_DONTWAIT);
	return r == -EAGAIN ? -EPIPE : r;
}

int client_answer(struct client *c, const struct wire_writer *w, int fd) {
	const int pair[PACKET_PAIR] = { fd, -1 };

	return client_answer_pair(c, w, pair);
}

int client_answer_fault(struct client *c, const struct fault *f) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_fault(&w, f);
	r = client_answer(c, &w, -1);
	wire_writer_free(&w);
	return r;
}

int client_answer_nothing(struct client *c, uint32_t id) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, id);
	r = client_answer(c, &w, -1);
	wire_writer_free(&w);
	return r;
}

/* ---- packets ---- */

static client_packet *const packets[] = {
	[DOOR_HELLO] = client_hello,
	[DOOR_ARENA_NEW] = client_asks_arena,
	[DOOR_ARENA_GET] = client_asks_for_arena,
	[DOOR_STATUS] = client_asks_status,
	[DOOR_RESUME] = client_resume,
	[DOOR_KILL] = client_asks_kill,
	[DOOR_ORIGINS] = client_asks_origins,
	[DOOR_QUARANTINE] = client_asks_quarantine,
	[DOOR_CACHE] = client_asks_cache,
	[DOOR_RETURN] = client_return,
	[DOOR_SET] = client_asks_set,
	[DOOR_USERS] = client_asks_users,
};

static int dispatch(struct client *c, struct wire_cursor *body, struct fault *f) {
	uint64_t id;
	int r = wire_get_uint(body, "message", UINT64_MAX, &id, f);

	if (r)
		return r;
	if (id >= sizeof packets / sizeof *packets || !packets[id])
		return fault_set(f, FAULT_PROTOCOL, "the door has no message %" PRIu64, id);
	return packets[id](c, body, f);
}

/* Faults after which a connection is of no more use. */
static bool fault_ends(int code) {
	return code == FAULT_PROTOCOL || code == FAULT_VERSION;
}

/* Answers one packet. 0, -EAGAIN where it must wait, or another -errno where the client must go. */
static int handle(struct client *c, const void *bytes, size_t size) {
	struct wire_reader reader;
	struct wire_cursor body;
	struct fault f = { 0 };
	int r = wire_open(&reader, bytes, size, &f);

	if (!r) {
		body = wire_root(&reader);
		r = dispatch(c, &body, &f);
		wire_close(&reader);
	}
	/* That says nothing of the client, who may ask again. */
	if (descriptors_short(r)) {
		r = descriptors_fault(&f, "what was asked for");
		log_warning("process %jd of user %ju is refused: %s", (intmax_t)c->pid, (uintmax_t)c->uid, f.text);
	}
	if (r <= 0)
		return r;
	log_debug("process %jd of user %ju: %s", (intmax_t)c->pid, (uintmax_t)c->uid, f.text);
	c->closing = fault_ends(r);
	rights_refused(c->supervisor, c->uid, r);
	return client_answer_fault(c, &f);
}

static int stall(struct client *c, const void *bytes, size_t size) {
	c->stalled = malloc(size);
	if (!c->stalled)
		return -ENOMEM;
	memcpy(c->stalled, bytes, size);
	c->stalled_size = size;
	return loop_change(c->source, 0);
}

/* Of no protocol that is spoken here. */
static int refuse_packet(struct client *c, ssize_t r) {
	struct fault f;

	if (r == -EPROTO)
		fault_set(&f, FAULT_PROTOCOL, "the door takes no descriptors");
	else
		fault_set(&f, FAULT_PROTOCOL, "a packet of the door has at most %d bytes", CLIENT_PACKET);
	c->closing = true;
	return client_answer_fault(c, &f);
}

/* One packet: 0, or -errno where the client must go. */
static int receive(struct client *c) {
	unsigned char bytes[CLIENT_PACKET];
	ssize_t n = closer_receive(c->fd, bytes, sizeof bytes);
	int r;

	if (n == -EAGAIN)
		return 0;
	if (n == -EPROTO || n == -EMSGSIZE)
		return refuse_packet(c, n);
	if (n <= 0)
		return -EPIPE;
	c->deadline_us = 0;
	r = handle(c, bytes, (size_t)n);
	return r == -EAGAIN ? stall(c, bytes, (size_t)n) : r;
}

/* With a request stalled nothing is read, but a hang-up is still told. */
static void on_client(void *user, uint32_t events) {
	struct client *c = user;

	if (c->stalled && (events & (EPOLLHUP | EPOLLERR)))
		client_close(c);
	else if (!c->stalled && (receive(c) || c->closing))
		client_close(c);
}

int client_listen(struct client *c) {
	return loop_add(c->supervisor->loop, c->fd, EPOLLIN, on_client, c, &c->source);
}

void client_go_on(struct client *c) {
	unsigned char *bytes = c->stalled;
	int r;

	c->stalled = NULL;
	r = handle(c, bytes, c->stalled_size);
	if (r == -EAGAIN) {
		c->stalled = bytes;
		return;
	}
	free(bytes);
	if (!r && !c->closing)
		r = loop_change(c->source, EPOLLIN);
	if (r || c->closing)
		client_close(c);
}

void clients_resume(struct supervisor *s) {
	struct client *next;

	for (struct client *c = s->clients; c; c = next) {
		next = c->next;
		if (c->stalled)
			client_go_on(c);
	}
}

/* ---- beginning ---- */

static int identify(int fd, struct ucred *who) {
	socklen_t size = sizeof *who;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &size) < 0 ? -errno : 0;
}

static int check_connections(const struct supervisor *s, struct fault *f) {
	if (s->connections < s->config.door_connections)
		return 0;
	return fault_set(f, FAULT_LIMIT, "the daemon has %u connections, as many as door.connections allows",
		s->connections);
}

/* Of a user, or of all where it is NULL: the oldest connection that has not said anything. False where there is none. */
static bool close_silent(struct supervisor *s, const struct user *of) {
	for (struct client *c = s->clients; c; c = c->next) {
		if (!c->deadline_us || c->hello || (of && c->user != of))
			continue;
		client_close(c);
		return true;
	}
	return false;
}

/* Who floods the door with silence keeps nobody out, himself included. */
static int charge_connection(struct supervisor *s, struct user *user, struct fault *f) {
	int r = user_charge_connection(user, f);

	if (r == FAULT_LIMIT && close_silent(s, user))
		r = user_charge_connection(user, f);
	return r;
}

static int client_new(struct supervisor *s, int fd, const struct ucred *who, struct client **clientp, struct fault *f) {
	struct client *c = calloc(1, sizeof *c);
	int r = c ? check_connections(s, f) : -ENOMEM;

	if (r == FAULT_LIMIT && close_silent(s, NULL))
		r = check_connections(s, f);
	if (!r) {
		c->user = users_get(&s->users, who->uid);
		r = c->user ? charge_connection(s, c->user, f) : -ENOMEM;
	}
	if (r) {
		if (c && c->user)
			users_put(&s->users, c->user);
		free(c);
		return r;
	}
	c->supervisor = s;
	c->fd = fd;
	c->record = -1;
	c->ring = (struct client_ring){ -1, -1, -1 };
	c->uid = who->uid;
	c->pid = who->pid;
	c->deadline_us = loop_now() + s->config.door_hello_us;
	*clientp = c;
	return 0;
}

/* The socket of a stranger is written once, without waiting. */
void client_refuse(struct supervisor *s, int fd, const struct fault *f) {
	struct client stranger = { .fd = fd };
	int r = client_answer_fault(&stranger, f);

	log_debug("a connection was refused: %s%s", f->text, r ? " (which it was not told)" : "");
	closer_take(s, fd, NULL);
}

/* who: NULL where the kernel does not tell. remote: the groups of a client on another machine; NULL: it is on this one. */
static void take(struct supervisor *s, int fd, const struct ucred *who, const struct rule_subject *remote, const char *peer) {
	struct fault f = { .code = FAULT_MEMORY, .text = "the daemon is out of memory" };
	struct client *c = NULL;

	if (!who || client_new(s, fd, who, &c, &f)) {
		if (who)
			rights_refused(s, who->uid, f.code);
		client_refuse(s, fd, &f);
		return;
	}
	snprintf(c->peer, sizeof c->peer, "%s", peer);
	rights_groups(c, fd, remote);
	c->admin = !remote && rights_member(c, s->admins);
	rights_identify(c);
	DL_APPEND2(s->clients, c, previous, next);
	s->connections++;
	if (c->deadline_us < s->silent_us)
		s->silent_us = c->deadline_us;
	if (client_listen(c))
		client_close(c);
}

void client_accept(struct supervisor *s, int fd) {
	struct ucred who = { 0 };

	take(s, fd, identify(fd, &who) ? NULL : &who, NULL, "");
}

/* The process is the gateway's; the user is not. */
void client_accept_remote(struct supervisor *s, int fd, const struct rule_subject *is, const char *peer) {
	struct ucred who = { 0 };
	int r = identify(fd, &who);

	who.uid = is->uid;
	take(s, fd, r ? NULL : &who, is, peer);
}

uint64_t clients_tick(struct supervisor *s, uint64_t now) {
	struct client *next;
	uint64_t due = UINT64_MAX;

	if (now < s->silent_us)
		return s->silent_us;
	s->silent_us = UINT64_MAX;
	for (struct client *c = s->clients; c; c = next) {
		next = c->next;
		if (c->deadline_us && now >= c->deadline_us && c->hello && !c->away)
			client_refuse_waiting(c);
		else if (c->deadline_us && now >= c->deadline_us)
			lose(c);
		else if (c->deadline_us && c->deadline_us < due)
			due = c->deadline_us;
	}
	/* Who is to go on waiting has said until when. */
	if (due < s->silent_us)
		s->silent_us = due;
	return s->silent_us;
}

/*
 * Connections of the door: identity and limits at accept, one greeting, arenas, the status.
 *
 * Every packet gets one answer. A client that does not read its answers, sends what is no packet of
 * the protocol, or stays silent is closed; none of that concerns others. A request that needs the
 * engine while it does not read (or has not started) is kept, and the connection is read again
 * once it was answered.
 */
#include "client.h"
#include "blame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <utlist.h>

#include "protocol/message.h"
#include "protocol/shm.h"
#include "daemon/base/version.h"

enum {
	/* A client that says RESUME, and whose engine is well, is told so after this. */
	RESUME_WELL_US = 10 * 1000 * 1000,
};

/* ---- telling the engine about a session ---- */

void client_tell_begin(const struct client *c, struct wire_writer *w, enum message_control message, uint32_t fields) {
	wire_writer_init(w);
	wire_put_array(w, fields + 2);
	wire_put_uint(w, message);
	wire_put_uint(w, c->session);
}

static int tell_end(struct client *c, struct wire_writer *w) {
	int r = child_queue(&c->engine->child, w, -1);

	wire_writer_free(w);
	return r;
}

static void tell_session_end(struct client *c) {
	struct wire_writer w;
	int r;

	client_tell_begin(c, &w, CONTROL_SESSION_END, 0);
	r = tell_end(c, &w);
	if (r && r != -EPIPE)
		log_error("the end of session %" PRIu64 " could not be told: %s", c->session, strerror(-r));
}

/* ---- ending ---- */

static void end_session(struct client *c) {
	struct supervisor *s = c->supervisor;

	if (!c->hello)
		return;
	tell_session_end(c);
	c->hello = false;
	store_session_end(c);
	client_arenas_drop(c);
	HASH_DELETE(hh, s->sessions, c);
	s->session_count--;
	c->engine->sessions--;
	user_refund_session(c->user);
	client_ring_drop(&c->ring);
	explicit_bzero(c->secret, sizeof c->secret);
	log_debug("session %" PRIu64 " of user %ju, process %jd ends", c->session, (uintmax_t)c->uid,
		(intmax_t)c->pid);
}

void client_close(struct client *c) {
	struct supervisor *s = c->supervisor;

	end_session(c);
	loop_remove(c->source);
	if (c->fd >= 0)
		close(c->fd);
	DL_DELETE2(s->clients, c, previous, next);
	s->connections--;
	user_refund_connection(c->user);
	users_put(&s->users, c->user);
	free(c->stalled);
	free(c);
}

/* The daemon ends: where the service manager keeps what there is of the session, its client returns to the next one. */
static void leave(struct client *c) {
	c->returns = c->hello && c->resumes && c->supervisor->store.on;
	if (c->returns)
		client_ring_end(&c->ring);
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
				client_close(c);
			continue;
		}
		c->attachment = CLIENT_ADRIFT;
		if (!c->away)
			c->deadline_us = 0;
		client_ring_end(&c->ring);
		client_ring_drop(&c->ring);
	}
}

void clients_blame(const struct engine *e, uint64_t session, unsigned most) {
	struct client *c;

	HASH_FIND(hh, e->supervisor->sessions, &session, sizeof session, c);
	if (!c || c->engine != e || ++c->ends < most)
		return;
	log_warning("session %" PRIu64 " of user %ju, process %jd is closed: %u engines ended while they read its requests", c->session,
		(uintmax_t)c->uid, (intmax_t)c->pid, c->ends);
	client_close(c);
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
			client_close(c);
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
static int answer_pair(struct client *c, const struct wire_writer *w, const int fd[PACKET_PAIR]) {
	int r = wire_finish(w);

	if (!r)
		r = packet_send_pair(c->fd, w->buffer.data, w->buffer.size, fd, MSG_DONTWAIT);
	return r == -EAGAIN ? -EPIPE : r;
}

static int answer(struct client *c, const struct wire_writer *w, int fd) {
	const int pair[PACKET_PAIR] = { fd, -1 };

	return answer_pair(c, w, pair);
}

static int answer_fault(struct client *c, const struct fault *f) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_fault(&w, f);
	r = answer(c, &w, -1);
	wire_writer_free(&w);
	return r;
}

/* ---- HELLO ---- */

struct greeting {
	uint64_t version, features;
	const char *name;
	size_t name_size;
	struct wire_cursor options;
	char device[CONFIG_TEXT];            /* that it asks for; empty: any */
	unsigned asks;                       /* how often */
};

static int check_version(const struct greeting *g, struct fault *f) {
	if (g->version == PROTOCOL_VERSION)
		return 0;
	return fault_set(f, FAULT_VERSION,
		"the client speaks version %" PRIu64 " of the protocol, fusiond " FUSIOND_VERSION
		" speaks version %d; "
		"install the same release of both",
		g->version, PROTOCOL_VERSION);
}

/* The option that is for the door alone. */
static int read_wish(struct greeting *g, struct fault *f) {
	struct wire_cursor options = g->options;
	const char *name, *value;
	size_t name_size, size;
	int r = 0;

	while (!r && options.left) {
		r = wire_get_text(&options, "option", CONFIG_TEXT - 1, &name, &name_size, f);
		if (!r)
			r = wire_get_text(&options, "value", CONFIG_TEXT - 1, &value, &size, f);
		if (r || name_size != strlen(DOOR_OPTION_DEVICE) || memcmp(name, DOOR_OPTION_DEVICE, name_size) != 0)
			continue;
		snprintf(g->device, sizeof g->device, "%.*s", (int)size, value);
		g->asks++;
	}
	return r;
}

/* The version first: what follows it may be of another form. */
static int read_greeting(struct wire_cursor *body, struct greeting *g, struct fault *f) {
	int r = wire_get_uint(body, "version", UINT64_MAX, &g->version, f);

	if (!r)
		r = check_version(g, f);
	if (!r)
		r = wire_get_uint(body, "features", UINT64_MAX, &g->features, f);
	if (!r)
		r = wire_get_text(body, "name", CLIENT_NAME - 1, &g->name, &g->name_size, f);
	if (!r)
		r = wire_get_map(body, "options", CLIENT_OPTIONS, &g->options, f);
	if (!r)
		r = read_wish(g, f);
	return r ? r : wire_get_end(body, "HELLO", f);
}

/* Copies one option behind the others and tries it on a scratch configuration. */
static int check_option(
	struct wire_cursor *options, struct config *scratch, struct wire_writer *out, struct fault *f) {
	char name[CONFIG_TEXT], value[CONFIG_TEXT];
	const struct setting *setting;
	const char *text;
	size_t size;
	int r = wire_get_text(options, "option", sizeof name - 1, &text, &size, f);

	if (r)
		return r;
	snprintf(name, sizeof name, "%.*s", (int)size, text);
	r = wire_get_text(options, name, sizeof value - 1, &text, &size, f);
	if (r)
		return r;
	snprintf(value, sizeof value, "%.*s", (int)size, text);
	if (!strcmp(name, DOOR_OPTION_DEVICE))
		return 0;
	setting = config_find(name, strlen(name));
	if (setting && setting->applies != SETTING_SESSION)
		return fault_set(f, FAULT_ARGUMENT, "%s is no setting of a session", name);
	wire_put_text(out, name);
	wire_put_text(out, value);
	return config_set(scratch, name, value, f);
}

static int put_options(const struct supervisor *s, const struct greeting *g, struct wire_writer *out, struct fault *f) {
	struct wire_cursor options = g->options;
	struct config scratch = s->config;
	int r = 0;

	wire_put_map(out, options.left / 2 - g->asks);
	while (!r && options.left)
		r = check_option(&options, &scratch, out, f);
	return r;
}

/* What the administrator sees of a name: no control characters that could fool a terminal. */
static void take_name(struct client *c, const struct greeting *g) {
	for (size_t i = 0; i < g->name_size; i++) {
		unsigned char byte = (unsigned char)g->name[i];

		c->name[i] = byte < 0x20 || byte >= 0x7f ? '?' : (char)byte;
	}
	c->name[g->name_size] = 0;
}

static int tell_session_new(
	struct client *c, const struct greeting *g, const struct client_ring *ring, struct fault *f) {
	const int fd[PACKET_PAIR] = { ring->memory, ring->engine };
	struct wire_writer w;
	int r;

	client_tell_begin(c, &w, CONTROL_SESSION_NEW, 8);
	wire_put_bin(&w, c->secret, sizeof c->secret);
	wire_put_uint(&w, c->uid);
	wire_put_uint(&w, (uint64_t)c->pid);
	wire_put_text(&w, c->name);
	wire_put_bool(&w, ring->memory >= 0);
	wire_put_bool(&w, *c->peer != 0);
	wire_put_bool(&w, c->admin);
	r = put_options(c->supervisor, g, &w, f);
	if (!r)
		r = child_send_pair(&c->engine->child, &w, fd);
	wire_writer_free(&w);
	return r;
}

static uint64_t features_of(const struct client *c, const struct greeting *g, const struct client_ring *ring) {
	return (g->features & FEATURES_ALL) | (ring->memory < 0 ? 0 : FEATURE_RING) | (c->resumes ? FEATURE_RESUME : 0) |
	       (c->resumes && c->supervisor->store.on ? FEATURE_RETURN : 0);
}

static int answer_hello(struct client *c, const struct greeting *g, const struct client_ring *ring) {
	const struct child *child = &c->engine->child;
	const int fd[PACKET_PAIR] = { ring->memory, ring->client };
	uint64_t features = features_of(c, g, ring);
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 9);
	wire_put_uint(&w, DOOR_HELLO);
	wire_put_uint(&w, PROTOCOL_VERSION);
	wire_put_uint(&w, features);
	wire_put_uint(&w, c->session);
	wire_put_bin(&w, c->secret, sizeof c->secret);
	wire_put_text(&w, child->url);
	wire_put_text(&w, child->device);
	wire_put_uint(&w, c->engine->number);
	wire_put_uint(&w, c->supervisor->engines);
	r = answer_pair(c, &w, fd);
	wire_writer_free(&w);
	return r;
}

static int begin_session(
	struct client *c, const struct greeting *g, struct client_ring *ring, struct fault *f) {
	struct supervisor *s = c->supervisor;
	int r = user_charge_session(c->user, &s->config, f);

	if (r)
		return r;
	if (getrandom(c->secret, sizeof c->secret, 0) != (ssize_t)sizeof c->secret)
		r = -errno;
	take_name(c, g);
	c->session = s->last_session + 1;
	c->resumes = g->features & FEATURE_RESUME && c->engine->catalogue && !*c->peer;
	if (!r) {
		client_ring_new(c, g->features, ring);
		r = tell_session_new(c, g, ring, f);
	}
	if (r) {
		user_refund_session(c->user);
		/* The engine is gone, which is not known otherwise yet. */
		return r == -EPIPE ? -EAGAIN : r;
	}
	s->last_session++;
	s->sessions_total++;
	s->session_count++;
	c->engine->sessions++;
	c->hello = true;
	HASH_ADD(hh, s->sessions, session, sizeof c->session, c);
	store_session(c);
	log_debug("session %" PRIu64 " of user %ju, process %jd: %s", c->session, (uintmax_t)c->uid,
		(intmax_t)c->pid, c->name);
	return 0;
}

static void close_one(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
	*fdp = -1;
}

/* The memory, of a session that may outlive its engine. */
static void keep_ring(struct client *c, struct client_ring *ring, int failed) {
	if (!failed && c->resumes) {
		c->ring.memory = ring->memory;
		ring->memory = -1;
	}
	client_ring_drop(ring);
}

static int need_session(const struct client *c, struct fault *f) {
	return c->hello ? 0 : fault_set(f, FAULT_STATE, "HELLO comes first");
}

static int on_hello(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client_ring ring = { -1, -1, -1 };
	struct greeting g = { .asks = 0 };
	int r;

	if (c->hello)
		return fault_set(f, FAULT_STATE, "the connection has a session already");
	r = read_greeting(body, &g, f);
	if (!r && c->supervisor->stopping)
		r = fault_set(f, FAULT_CONNECT, "the daemon is stopping");
	if (!r)
		r = engines_choose(c->supervisor, g.device, &c->engine, f);
	if (!r)
		r = begin_session(c, &g, &ring, f);
	if (!r)
		r = answer_hello(c, &g, &ring);
	keep_ring(c, &ring, r);
	return r;
}

/* ---- RESUME ---- */

static int read_resume(struct wire_cursor *body, struct greeting *g, struct fault *f) {
	int r = wire_get_uint(body, "features", UINT64_MAX, &g->features, f);

	if (!r)
		r = wire_get_map(body, "options", CLIENT_OPTIONS, &g->options, f);
	if (!r)
		r = read_wish(g, f);
	return r ? r : wire_get_end(body, "RESUME", f);
}

/* Another engine is told of the session: all of it, or it ends with that one, too. */
static int attach(struct client *c, const struct greeting *g, struct fault *f) {
	struct client_ring ring = { -1, -1, -1 };
	struct wire_writer w;
	int r;

	client_ring_new(c, g->features, &ring);
	r = tell_session_new(c, g, &ring, f);
	if (!r)
		r = client_arenas_tell(c);
	if (!r) {
		client_tell_begin(c, &w, CONTROL_SESSION_RESUME, 0);
		r = tell_end(c, &w);
	}
	if (r) {
		client_ring_drop(&ring);
		return r == -EPIPE ? -EAGAIN : r;
	}
	close_one(&ring.engine);
	c->ring = ring;
	c->attachment = CLIENT_ATTACHING;
	return -EAGAIN;
}

static int answer_resume(struct client *c, const struct greeting *g) {
	const int fd[PACKET_PAIR] = { c->ring.memory, c->ring.client };
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 6);
	wire_put_uint(&w, DOOR_RESUME);
	wire_put_uint(&w, features_of(c, g, &c->ring));
	wire_put_text(&w, c->engine->child.url);
	wire_put_text(&w, c->engine->child.device);
	wire_put_uint(&w, c->accepted);
	wire_put_uint(&w, c->completed);
	r = answer_pair(c, &w, fd);
	wire_writer_free(&w);
	close_one(&c->ring.client);
	c->attachment = CLIENT_ATTACHED;
	return r;
}

/* How long a client may wait for an engine that has not ended: longer than one that hangs goes unasked. */
static uint64_t patience(const struct client *c) {
	uint64_t asked = c->supervisor->config.engine_hang_us / 2;

	return asked > RESUME_WELL_US ? asked : RESUME_WELL_US;
}

static void wait_until(struct client *c, uint64_t deadline) {
	c->deadline_us = deadline;
	if (deadline < c->supervisor->silent_us)
		c->supervisor->silent_us = deadline;
}

/* Its connection to an engine that is well has broken. What the engine has of it cannot be told apart from what it has not, so the session ends. */
static void refuse_waiting(struct client *c) {
	struct fault f;

	if (!engine_answers(c->engine)) {
		wait_until(c, loop_now() + RESUME_WELL_US);
		return;
	}
	fault_set(&f, FAULT_LOST, "the connection to the engine broke, though the engine is well; the session has ended, and its arrays are lost");
	if (answer_fault(c, &f))
		log_debug("session %" PRIu64 " was not told of its end", c->session);
	client_close(c);
}

/*
 * A client may know of its engine's end before we do: so one that is attached waits, too; not for ever, since what it knows may be the
 * end of its connection alone.
 */
static int on_resume(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct greeting g = { .asks = 0 };
	int r = need_session(c, f);

	if (!r && !c->resumes)
		r = fault_set(f, FAULT_STATE, "the session was begun without FEATURE_RESUME");
	if (!r)
		r = read_resume(body, &g, f);
	if (r)
		return r;
	if (c->attachment == CLIENT_RESUMED)
		return answer_resume(c, &g);
	if (c->attachment == CLIENT_ADRIFT && c->engine->child.state == CHILD_READY)
		return attach(c, &g, f);
	if (c->attachment == CLIENT_ATTACHED)
		wait_until(c, loop_now() + patience(c));
	return -EAGAIN;
}

/* ---- arenas and status ---- */

/* With the rights that the session has. */
static int answer_arena(struct client *c, uint32_t id, const struct client_arena *a) {
	struct wire_writer w;
	int reader = -1, r;

	wire_writer_init(&w);
	wire_put_array(&w, 3);
	wire_put_uint(&w, id);
	wire_put_uint(&w, a->id);
	wire_put_uint(&w, a->bytes);
	if (!a->writable)
		reader = shm_reader(a->fd);
	r = !a->writable && reader < 0 ? reader : answer(c, &w, a->writable ? a->fd : reader);
	if (reader >= 0)
		close(reader);
	wire_writer_free(&w);
	return r;
}

static int on_arena_new(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client_arena *a = NULL;
	uint64_t bytes;
	int r = need_session(c, f);

	if (!r)
		r = wire_get_uint(body, "bytes", UINT64_MAX, &bytes, f);
	if (!r)
		r = wire_get_end(body, "ARENA_NEW", f);
	if (!r)
		r = client_arena_new(c, bytes, ARENA_OF_CLIENT, &a, f);
	return r ? r : answer_arena(c, DOOR_ARENA_NEW, a);
}

static int on_arena_get(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client_arena *a;
	uint64_t id;
	int r = need_session(c, f);

	if (!r)
		r = wire_get_uint(body, "arena", UINT32_MAX, &id, f);
	if (!r)
		r = wire_get_end(body, "ARENA_GET", f);
	if (r)
		return r;
	a = client_arena_find(c, id);
	if (!a)
		return fault_set(f, FAULT_HANDLE, "the session has no arena %" PRIu64, id);
	return answer_arena(c, DOOR_ARENA_GET, a);
}

static int on_status(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct wire_writer w;
	char *json;
	int r = wire_get_end(body, "STATUS", f);

	if (r)
		return r;
	json = status_json(c->supervisor, c);
	if (!json)
		return -ENOMEM;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, DOOR_STATUS);
	wire_put_text(&w, json);
	r = answer(c, &w, -1);
	wire_writer_free(&w);
	cJSON_free(json);
	return r;
}

/* ---- administration ---- */

bool client_governs(const struct client *c) {
	return !*c->peer && (c->uid == 0 || c->uid == geteuid() || c->admin);
}

static int need_rights(const struct client *c, const char *what, struct fault *f) {
	if (client_governs(c))
		return 0;
	return fault_set(f, FAULT_PERMISSION, "only root, the daemon's user and members of the group %s may %s",
		*c->supervisor->config.door_admins ? c->supervisor->config.door_admins : "(none)", what);
}

int client_answer_nothing(struct client *c, uint32_t id) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, id);
	r = answer(c, &w, -1);
	wire_writer_free(&w);
	return r;
}

static int on_kill(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client *other = NULL;
	uint64_t session;
	int r = wire_get_uint(body, "session", UINT64_MAX, &session, f);

	if (!r)
		r = wire_get_end(body, "KILL", f);
	if (!r)
		r = need_rights(c, "end a client", f);
	if (r)
		return r;
	HASH_FIND(hh, c->supervisor->sessions, &session, sizeof session, other);
	if (!other)
		return fault_set(f, FAULT_HANDLE, "there is no session %" PRIu64, session);
	log_about(LOG_LEVEL_NOTICE, &(struct log_subject){ .session = session, .uid = other->uid, .pid = other->pid },
		"session %" PRIu64 " of user %ju, process %jd, is ended by user %ju, process %jd", session,
		(uintmax_t)other->uid, (intmax_t)other->pid, (uintmax_t)c->uid, (intmax_t)c->pid);
	if (other == c)
		c->closing = true;
	else
		client_close(other);
	return client_answer_nothing(c, DOOR_KILL);
}

static int on_quarantine(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct wire_writer w;
	uint64_t clears = 0;
	char *json;
	int r = body->left ? wire_get_uint(body, "clear", 1, &clears, f) : 0;

	if (!r)
		r = wire_get_end(body, "QUARANTINE", f);
	if (!r)
		r = need_rights(c, "look at the quarantine", f);
	if (r)
		return r;
	if (clears)
		blame_clear(c->supervisor);
	json = blame_json(c->supervisor);
	if (!json)
		return -ENOMEM;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, DOOR_QUARANTINE);
	wire_put_text(&w, json);
	r = answer(c, &w, -1);
	wire_writer_free(&w);
	cJSON_free(json);
	return r;
}

static int on_origins(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct wire_writer w;
	char *json;
	int r = wire_get_end(body, "ORIGINS", f);

	if (!r)
		r = need_rights(c, "see all settings", f);
	if (r)
		return r;
	json = admin_origins_json(c->supervisor);
	if (!json)
		return -ENOMEM;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, DOOR_ORIGINS);
	wire_put_text(&w, json);
	r = answer(c, &w, -1);
	wire_writer_free(&w);
	cJSON_free(json);
	return r;
}

/* ---- packets ---- */

typedef int packet_function(struct client *c, struct wire_cursor *body, struct fault *f);

static packet_function *const packets[] = {
	[DOOR_HELLO] = on_hello,
	[DOOR_ARENA_NEW] = on_arena_new,
	[DOOR_ARENA_GET] = on_arena_get,
	[DOOR_STATUS] = on_status,
	[DOOR_RESUME] = on_resume,
	[DOOR_KILL] = on_kill,
	[DOOR_ORIGINS] = on_origins,
	[DOOR_QUARANTINE] = on_quarantine,
	[DOOR_RETURN] = client_return,
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
	if (r <= 0)
		return r;
	log_debug("process %jd of user %ju: %s", (intmax_t)c->pid, (uintmax_t)c->uid, f.text);
	c->closing = fault_ends(r);
	return answer_fault(c, &f);
}

static int stall(struct client *c, const void *bytes, size_t size) {
	c->stalled = malloc(size);
	if (!c->stalled)
		return -ENOMEM;
	memcpy(c->stalled, bytes, size);
	c->stalled_size = size;
	return loop_change(c->source, 0);
}

static int refuse_long(struct client *c) {
	struct fault f;

	fault_set(&f, FAULT_PROTOCOL, "a packet of the door has at most %d bytes", CLIENT_PACKET);
	c->closing = true;
	return answer_fault(c, &f);
}

/* One packet: 0, or -errno where the client must go. The daemon takes no descriptors. */
static int receive(struct client *c) {
	unsigned char bytes[CLIENT_PACKET];
	int fd, r;
	ssize_t n = packet_receive(c->fd, bytes, sizeof bytes, &fd, MSG_DONTWAIT);

	if (fd >= 0)
		close(fd);
	if (n == -EAGAIN)
		return 0;
	if (n == -EMSGSIZE)
		return refuse_long(c);
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

static void resume(struct client *c) {
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
			resume(c);
	}
}

/* ---- the engine's packets ---- */

static void refuse_want(struct client *c, const struct fault *f) {
	struct wire_writer w;
	int r;

	client_tell_begin(c, &w, CONTROL_ARENA_REFUSED, 2);
	wire_put_int(&w, f->code);
	wire_put_text(&w, f->text);
	r = tell_end(c, &w);
	if (r)
		log_error("session %" PRIu64 ": the refusal of an arena could not be told: %s", c->session,
			strerror(-r));
}

/* An engine's wish for a session that has just ended needs no answer: SESSION_END is on its way. */
static int want_arena(struct client *c, struct wire_cursor *body, enum arena_owner owner, struct fault *f) {
	struct client_arena *a;
	struct fault refusal;
	uint64_t bytes;
	int r = wire_get_uint(body, "bytes", UINT64_MAX, &bytes, f);

	if (r || !c)
		return r;
	r = client_arena_new(c, bytes, owner, &a, &refusal);
	if (r < 0)
		r = fault_set(&refusal, FAULT_MEMORY, "no shared memory: %s", strerror(-r));
	if (r)
		refuse_want(c, &refusal);
	return 0;
}

static int on_arena_want(struct client *c, struct wire_cursor *body, struct fault *f) {
	return want_arena(c, body, ARENA_OF_ENGINE, f);
}

static int on_share_want(struct client *c, struct wire_cursor *body, struct fault *f) {
	return want_arena(c, body, ARENA_SHARED, f);
}

static int tell_held(struct client *c, uint64_t arena) {
	struct wire_writer w;

	client_tell_begin(c, &w, CONTROL_SHARE_HELD, 1);
	wire_put_uint(&w, arena);
	return tell_end(c, &w);
}

static int on_share_hold(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct fault refusal;
	uint64_t arena, writable;
	int r = wire_get_uint(body, "arena", UINT32_MAX, &arena, f);

	if (!r)
		r = wire_get_uint(body, "writable", 1, &writable, f);
	if (r || !c)
		return r;
	if (client_arena_hold(c, arena, writable, &refusal)) {
		refuse_want(c, &refusal);
		return 0;
	}
	return tell_held(c, arena);
}

static int on_arena_drop(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client_arena *a;
	uint64_t id;
	int r = wire_get_uint(body, "arena", UINT32_MAX, &id, f);

	if (r || !c)
		return r;
	a = client_arena_find(c, id);
	if (!a)
		return fault_set(
			f, FAULT_PROTOCOL, "session %" PRIu64 " has no arena %" PRIu64, c->session, id);
	client_arena_drop(c, a);
	return 0;
}

/* Its ring is of no use any more: the client sees the end of the door, as with any other end. */
static int on_session_bad(struct client *c, struct wire_cursor *body, struct fault *f) {
	int r = wire_get_end(body, "SESSION_BAD", f);

	if (r || !c)
		return r;
	log_about(LOG_LEVEL_WARNING, &(struct log_subject){ .session = c->session, .uid = c->uid, .pid = c->pid },
		"session %" PRIu64 " of user %ju, process %jd wrote nonsense into its ring and is closed", c->session,
		(uintmax_t)c->uid, (intmax_t)c->pid);
	client_close(c);
	return 0;
}

static int on_resumed(struct client *c, struct wire_cursor *body, struct fault *f) {
	uint64_t accepted, completed;
	int r = wire_get_uint(body, "accepted", INT64_MAX, &accepted, f);

	if (!r)
		r = wire_get_uint(body, "completed", INT64_MAX, &completed, f);
	if (r || !c || c->attachment != CLIENT_ATTACHING)
		return r;
	c->accepted = accepted;
	c->completed = completed;
	c->attachment = CLIENT_RESUMED;
	if (c->stalled)
		resume(c);
	return 0;
}

static packet_function *const about_session[] = {
	[CONTROL_ARENA_WANT] = on_arena_want,
	[CONTROL_ARENA_DROP] = on_arena_drop,
	[CONTROL_SESSION_BAD] = on_session_bad,
	[CONTROL_RESUMED] = on_resumed,
	[CONTROL_SHARE_WANT] = on_share_want,
	[CONTROL_SHARE_HOLD] = on_share_hold,
};

int clients_packet(const struct engine *e, uint64_t id, struct wire_cursor *body, struct fault *f) {
	struct client *c;
	uint64_t session;
	int r = wire_get_uint(body, "session", UINT64_MAX, &session, f);

	if (r)
		return r;
	HASH_FIND(hh, e->supervisor->sessions, &session, sizeof session, c);
	/* A session of another engine is none that this one may speak for. */
	if (c && c->engine != e)
		c = NULL;
	if (id >= sizeof about_session / sizeof *about_session || !about_session[id])
		return fault_set(f, FAULT_PROTOCOL, "the supervisor has no message %" PRIu64, id);
	return about_session[id](c, body, f);
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
	int r = user_charge_connection(user, &s->config, f);

	if (r == FAULT_LIMIT && close_silent(s, user))
		r = user_charge_connection(user, &s->config, f);
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
	c->admin = admin_is_member(s, fd);
	c->deadline_us = loop_now() + s->config.door_hello_us;
	*clientp = c;
	return 0;
}

/* What lies unread when a socket is closed would reach the other side as an error before our answer. */
static void discard_input(int fd) {
	char byte;

	while (recv(fd, &byte, sizeof byte, MSG_DONTWAIT) > 0)
		;
}

/* The socket of a stranger is written once, without waiting. */
static void refuse_connection(int fd, const struct fault *f) {
	struct client stranger = { .fd = fd };
	int r = answer_fault(&stranger, f);

	log_debug("a connection was refused: %s%s", f->text, r ? " (which it was not told)" : "");
	discard_input(fd);
	close(fd);
}

/* who: NULL where the kernel does not tell. */
static void take(struct supervisor *s, int fd, const struct ucred *who, const char *peer) {
	struct fault f = { .code = FAULT_MEMORY, .text = "the daemon is out of memory" };
	struct client *c = NULL;

	if (!who || client_new(s, fd, who, &c, &f)) {
		refuse_connection(fd, &f);
		return;
	}
	snprintf(c->peer, sizeof c->peer, "%s", peer);
	/* The groups are the gateway's. */
	c->admin &= !*peer;
	DL_APPEND2(s->clients, c, previous, next);
	s->connections++;
	if (c->deadline_us < s->silent_us)
		s->silent_us = c->deadline_us;
	if (client_listen(c))
		client_close(c);
}

void client_accept(struct supervisor *s, int fd) {
	struct ucred who = { 0 };

	take(s, fd, identify(fd, &who) ? NULL : &who, "");
}

/* The process is the gateway's; the user is not. */
void client_accept_remote(struct supervisor *s, int fd, uid_t uid, const char *peer) {
	struct ucred who = { 0 };
	int r = identify(fd, &who);

	who.uid = uid;
	take(s, fd, r ? NULL : &who, peer);
}

uint64_t clients_tick(struct supervisor *s, uint64_t now) {
	struct client *next;
	uint64_t due = UINT64_MAX;

	if (now < s->silent_us)
		return s->silent_us;
	for (struct client *c = s->clients; c; c = next) {
		next = c->next;
		if (c->deadline_us && now >= c->deadline_us && c->hello && !c->away)
			refuse_waiting(c);
		else if (c->deadline_us && now >= c->deadline_us)
			client_close(c);
		else if (c->deadline_us && c->deadline_us < due)
			due = c->deadline_us;
	}
	s->silent_us = due;
	return due;
}

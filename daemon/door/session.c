/*
 * Sessions of the door: HELLO begins one, RESUME joins it to another engine after its own has ended.
 */
#include "daemon/door/arenas.h"
#include "daemon/door/blame.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/base/version.h"

enum {
	/* A client that says RESUME, and whose engine is well, is told so after this. */
	RESUME_WELL_US = 10 * 1000 * 1000,
	/* Engines that ended at graphs of a user within engine.quarantine_us, before nothing of his is repeated any more: as many as a graph may. */
	SESSION_ENDS = 2,
};

/* ---- HELLO ---- */

struct greeting {
	struct message_versions versions;
	uint64_t version;                    /* that both speak */
	uint64_t features;
	const char *name;
	size_t name_size;
	struct wire_cursor options;
	char device[CONFIG_TEXT];            /* that it asks for; empty: any */
	unsigned asks;                       /* how often */
};

int client_agree(struct message_versions theirs, uint64_t *versionp, struct fault *f) {
	static const struct message_versions own = { PROTOCOL_OLDEST, PROTOCOL_VERSION };
	char spoken[VERSIONS_TEXT], known[VERSIONS_TEXT];

	*versionp = message_agree(theirs, own);
	if (*versionp)
		return 0;
	return fault_set(f, FAULT_VERSION, "the client speaks %s of the protocol, fusiond " FUSIOND_VERSION " %s: install a newer %s",
		message_versions_text(theirs, spoken), message_versions_text(own, known),
		theirs.newest < own.oldest ? "libfusion" : "fusiond");
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

/* The version first: what follows it may be of another form. What stands behind is of a later release, and for those that know it. */
static int read_greeting(struct wire_cursor *body, struct greeting *g, struct fault *f) {
	int r = message_get_versions(body, &g->versions, f);

	if (!r)
		r = client_agree(g->versions, &g->version, f);
	if (!r)
		r = wire_get_uint(body, "features", UINT64_MAX, &g->features, f);
	if (!r)
		r = wire_get_text(body, "name", CLIENT_NAME - 1, &g->name, &g->name_size, f);
	if (!r)
		r = wire_get_map(body, "options", CLIENT_OPTIONS, &g->options, f);
	return r ? r : read_wish(g, f);
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

	r = rights_tell(c->engine, c->user);
	if (r)
		return r;
	client_tell_begin(c, &w, CONTROL_SESSION_NEW, 10);
	wire_put_bin(&w, c->secret, sizeof c->secret);
	wire_put_uint(&w, c->uid);
	wire_put_uint(&w, (uint64_t)c->pid);
	wire_put_text(&w, c->name);
	wire_put_bool(&w, ring->memory >= 0);
	wire_put_bool(&w, *c->peer != 0);
	wire_put_bool(&w, c->admin);
	wire_put_bool(&w, client_comes_back(c));
	wire_put_bool(&w, c->repeats);
	r = put_options(c->supervisor, g, &w, f);
	if (!r)
		r = child_send_pair(&c->engine->child, &w, fd);
	wire_writer_free(&w);
	return r;
}

static uint64_t features_of(const struct client *c, const struct greeting *g, const struct client_ring *ring) {
	return (g->features & FEATURES_ALL) | (ring->memory < 0 ? 0 : FEATURE_RING) | (c->resumes ? FEATURE_RESUME : 0) |
	       (client_comes_back(c) ? FEATURE_RETURN : 0) | (c->repeats ? FEATURE_REPEAT : 0);
}

static int answer_hello(struct client *c, const struct greeting *g, const struct client_ring *ring) {
	const struct child *child = &c->engine->child;
	const int fd[PACKET_PAIR] = { ring->memory, ring->client };
	uint64_t features = features_of(c, g, ring);
	uint8_t operations[MESSAGE_OPERATIONS];
	struct wire_writer w;
	int r;

	message_operations(operations);
	wire_writer_init(&w);
	wire_put_array(&w, 11);
	wire_put_uint(&w, DOOR_HELLO);
	wire_put_uint(&w, g->version);
	wire_put_uint(&w, features);
	wire_put_uint(&w, c->session);
	wire_put_bin(&w, c->secret, sizeof c->secret);
	wire_put_text(&w, child->url);
	wire_put_text(&w, child->device);
	wire_put_uint(&w, c->engine->number);
	wire_put_uint(&w, c->supervisor->engines);
	wire_put_text(&w, FUSIOND_VERSION);
	wire_put_bin(&w, operations, sizeof operations);
	r = client_answer_pair(c, &w, fd);
	wire_writer_free(&w);
	return r;
}

static int begin_session(
	struct client *c, const struct greeting *g, struct client_ring *ring, struct fault *f) {
	struct supervisor *s = c->supervisor;
	int r = rights_admit(c, f);

	if (!r)
		r = blame_admit(s, c->user, f);
	if (!r && !c->farewell)
		c->farewell = child_packet_new();
	if (!r && !c->farewell)
		r = -ENOMEM;
	if (!r)
		r = user_charge_session(c->user, f);

	if (r)
		return r;
	if (getrandom(c->secret, sizeof c->secret, 0) != (ssize_t)sizeof c->secret)
		r = -errno;
	take_name(c, g);
	c->session = s->last_session + 1;
	c->resumes = g->features & FEATURE_RESUME && c->engine->catalogue && !*c->peer;
	c->repeats = c->resumes && g->features & FEATURE_REPEAT;
	if (!r)
		HASH_ADD(hh, s->sessions, session, sizeof c->session, c);
	if (!r && !HASH_ADDED(hh, c))
		r = -ENOMEM;
	if (!r)
		r = client_ring_new(c, g->features, ring);
	if (!r)
		r = tell_session_new(c, g, ring, f);
	if (r) {
		if (HASH_ADDED(hh, c))
			HASH_DELETE(hh, s->sessions, c);
		c->hh.tbl = NULL;
		user_refund_session(c->user);
		/* The engine is gone, which is not known otherwise yet. */
		return r == -EPIPE ? -EAGAIN : r;
	}
	s->last_session++;
	s->sessions_total++;
	accounts_add(&s->accounts, c->uid, &(struct spent){ .sessions = 1 });
	s->session_count++;
	c->engine->sessions++;
	c->hello = true;
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

int client_need_session(const struct client *c, struct fault *f) {
	return c->hello ? 0 : fault_set(f, FAULT_STATE, "HELLO comes first");
}

int client_hello(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client_ring ring = { -1, -1, -1 };
	struct greeting g = { .asks = 0 };
	int r;

	if (c->hello)
		return fault_set(f, FAULT_STATE, "the connection has a session already");
	r = read_greeting(body, &g, f);
	if (!r && c->supervisor->stopping)
		r = client_says_again(c, f);
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

	c->repeats = g->features & FEATURE_REPEAT;
	r = client_ring_new(c, g->features, &ring);
	if (!r)
		r = tell_session_new(c, g, &ring, f);
	if (!r)
		r = client_arenas_tell(c);
	if (!r) {
		client_tell_begin(c, &w, CONTROL_SESSION_RESUME, 0);
		r = client_tell_end(c, &w);
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

/*
 * May what was not begun be asked for by the library itself? Not of who has ended engines, or may have: a person is to look at that first.
 */
static bool may_repeat(const struct client *c) {
	return c->whole && !c->read && user_ends(c->user, loop_now(), c->supervisor->config.engine_quarantine_us, false) < SESSION_ENDS;
}

static int answer_resume(struct client *c, const struct greeting *g) {
	const int fd[PACKET_PAIR] = { c->ring.memory, c->ring.client };
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 7);
	wire_put_uint(&w, DOOR_RESUME);
	wire_put_uint(&w, features_of(c, g, &c->ring));
	wire_put_text(&w, c->engine->child.url);
	wire_put_text(&w, c->engine->child.device);
	wire_put_uint(&w, c->accepted);
	wire_put_uint(&w, c->completed);
	wire_put_bool(&w, may_repeat(c));
	r = client_answer_pair(c, &w, fd);
	wire_writer_free(&w);
	close_one(&c->ring.client);
	c->attachment = CLIENT_ATTACHED;
	c->read = false;
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
void client_refuse_waiting(struct client *c) {
	struct fault f;

	if (c->supervisor->stopping || !engine_answers(c->engine)) {
		wait_until(c, loop_now() + RESUME_WELL_US);
		return;
	}
	fault_set(&f, FAULT_LOST, "the connection to the engine broke, though the engine is well; the session has ended, and its arrays are lost");
	if (client_answer_fault(c, &f))
		log_debug("session %" PRIu64 " was not told of its end", c->session);
	c->supervisor->sessions_lost++;
	client_close(c);
}

/*
 * A client may know of its engine's end before we do: so one that is attached waits, too; not for ever, since what it knows may be the
 * end of its connection alone.
 */
int client_resume(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct greeting g = { .asks = 0 };
	int r = client_need_session(c, f);

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

/* ---- ending ---- */

static void tell_session_end(struct client *c) {
	struct wire_writer w;
	int r;

	client_tell_begin(c, &w, CONTROL_SESSION_END, 0);
	r = child_queue_in(&c->engine->child, c->farewell, &w);
	wire_writer_free(&w);
	c->farewell = NULL;
	if (r && r != -EPIPE)
		log_error("the end of session %" PRIu64 " could not be told: %s", c->session, strerror(-r));
}

void client_session_end(struct client *c) {
	struct supervisor *s = c->supervisor;

	if (!c->hello)
		return;
	tell_session_end(c);
	c->hello = false;
	store_session_end(c);
	makings_cancel(c, false);
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

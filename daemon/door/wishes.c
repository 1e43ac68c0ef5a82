/*
 * What an engine says of a session: memory that it wants or drops, rings with nonsense, and that it has the session again.
 */
#include "daemon/door/arenas.h"

#include <inttypes.h>
#include <string.h>

static void refuse_want(struct client *c, enum arena_owner owner, const struct fault *f) {
	struct wire_writer w;
	int r;

	client_tell_begin(c, &w, CONTROL_ARENA_REFUSED, 3);
	wire_put_int(&w, f->code);
	wire_put_text(&w, f->text);
	wire_put_uint(&w, owner);
	r = client_tell_end(c, &w);
	if (r)
		log_error("session %" PRIu64 ": the refusal of an arena could not be told: %s", c->session,
			strerror(-r));
}

static void answer_want(struct client *c, enum arena_owner owner, int r, struct fault *refusal) {
	if (r < 0)
		r = fault_set(refusal, FAULT_MEMORY, "no shared memory: %s", strerror(-r));
	if (r)
		refuse_want(c, owner, refusal);
}

void client_want_made(struct making *m) {
	enum arena_owner owner = m->owner;
	struct client *c = m->client;
	struct client_arena *a;
	struct fault refusal;

	answer_want(c, owner, client_arena_made(c, m, &a, &refusal), &refusal);
}

/* An engine's wish for a session that has just ended needs no answer: SESSION_END is on its way. */
static int want_arena(struct client *c, struct wire_cursor *body, enum arena_owner owner, struct fault *f) {
	struct making *making = NULL;
	struct client_arena *a;
	struct fault refusal;
	uint64_t bytes;
	int r = wire_get_uint(body, "bytes", UINT64_MAX, &bytes, f);

	if (r || !c)
		return r;
	r = client_arena_new(c, bytes, owner, &making, &a, &refusal);
	if (!making)
		answer_want(c, owner, r, &refusal);
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
	return client_tell_end(c, &w);
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
		refuse_want(c, ARENA_HELD, &refusal);
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
		"session %" PRIu64 " of user %ju, process %jd is closed: it wrote nonsense into its ring, or the engine had no memory for it", c->session,
		(uintmax_t)c->uid, (intmax_t)c->pid);
	client_close(c);
	return 0;
}

/* Its engine has not what it takes: it is the last that the client hears of the door. */
static int on_session_unserved(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct fault why;
	int r = message_get_fault(body, &why, f);

	if (r || !c)
		return r;
	log_about(LOG_LEVEL_WARNING, &(struct log_subject){ .session = c->session, .uid = c->uid, .pid = c->pid },
		"session %" PRIu64 " of user %ju, process %jd cannot be served: %s", c->session, (uintmax_t)c->uid, (intmax_t)c->pid,
		why.text);
	rights_refused(c->supervisor, c->uid, why.code);
	if (client_answer_fault(c, &why))
		log_debug("session %" PRIu64 " was not told of its end", c->session);
	client_close(c);
	return 0;
}

static int on_resumed(struct client *c, struct wire_cursor *body, struct fault *f) {
	uint64_t accepted, completed;
	bool whole;
	int r = wire_get_uint(body, "accepted", INT64_MAX, &accepted, f);

	if (!r)
		r = wire_get_uint(body, "completed", INT64_MAX, &completed, f);
	if (!r)
		r = wire_get_bool(body, "whole", &whole, f);
	if (r || !c || c->attachment != CLIENT_ATTACHING)
		return r;
	c->accepted = accepted;
	c->completed = completed;
	c->whole = whole;
	c->attachment = CLIENT_RESUMED;
	if (c->stalled)
		client_go_on(c);
	return 0;
}

static client_packet *const about_session[] = {
	[CONTROL_ARENA_WANT] = on_arena_want,
	[CONTROL_ARENA_DROP] = on_arena_drop,
	[CONTROL_SESSION_BAD] = on_session_bad,
	[CONTROL_SESSION_UNSERVED] = on_session_unserved,
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
	if (id == CONTROL_SESSION_LEFT) {
		leaving_left(e, session);
		return 0;
	}
	HASH_FIND(hh, e->supervisor->sessions, &session, sizeof session, c);
	/* A session of another engine is none that this one may speak for. */
	if (c && c->engine != e)
		c = NULL;
	if (id >= sizeof about_session / sizeof *about_session || !about_session[id])
		return fault_set(f, FAULT_PROTOCOL, "the supervisor has no message %" PRIu64, id);
	return about_session[id](c, body, f);
}

/*
 * What a client asks of the door: arenas, the status, and what administrators may.
 */
#include "blame.h"
#include "daemon/door/arenas.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "protocol/shm.h"
#include "daemon/base/user_name.h"

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
	r = !a->writable && reader < 0 ? reader : client_answer(c, &w, a->writable ? a->fd : reader);
	if (reader >= 0)
		close(reader);
	wire_writer_free(&w);
	return r;
}

/* It was begun before. */
static int ask_again(struct client *c, struct client_arena **arenap, struct fault *f) {
	struct making *m = c->making;

	if (!m->ended)
		return -EAGAIN;
	c->making = NULL;
	return client_arena_made(c, m, arenap, f);
}

int client_asks_arena(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client_arena *a = NULL;
	uint64_t bytes;
	int r = client_need_session(c, f);

	if (!r)
		r = wire_get_uint(body, "bytes", UINT64_MAX, &bytes, f);
	if (!r)
		r = wire_get_end(body, "ARENA_NEW", f);
	if (!r && !c->making)
		r = client_arena_new(c, bytes, ARENA_OF_CLIENT, &c->making, &a, f);
	else if (!r)
		r = ask_again(c, &a, f);
	return r ? r : answer_arena(c, DOOR_ARENA_NEW, a);
}

int client_asks_for_arena(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client_arena *a;
	uint64_t id;
	int r = client_need_session(c, f);

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

int client_asks_status(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct wire_writer w;
	char *json;
	int r = wire_get_end(body, "STATUS", f);

	if (r)
		return r;
	engines_ask(c->supervisor, loop_now());
	json = status_json(c->supervisor, c);
	if (!json)
		return -ENOMEM;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, DOOR_STATUS);
	wire_put_text(&w, json);
	r = client_answer(c, &w, -1);
	wire_writer_free(&w);
	cJSON_free(json);
	return r;
}

/* ---- administration ---- */

bool client_governs(const struct client *c) {
	return !*c->peer && (c->uid == 0 || c->uid == geteuid() || c->admin);
}

int client_needs_rights(const struct client *c, const char *what, struct fault *f) {
	return client_governs(c) ? 0 : user_refuse(c->supervisor->config.door_admins, what, f);
}

/* The log, and the victim: it is the last that it hears of the door, and reads it when it finds that closed. */
static void tell_killed(const struct client *c, struct client *other) {
	char victim[USER_NAME], by[USER_NAME];
	struct fault f;

	user_name(c->uid, by);
	log_about(LOG_LEVEL_NOTICE, &(struct log_subject){ .session = other->session, .uid = other->uid, .pid = other->pid },
		"session %" PRIu64 " of user %s, process %jd, is ended by user %s, process %jd", other->session,
		user_name(other->uid, victim), (intmax_t)other->pid, by, (intmax_t)c->pid);
	fault_set(&f, FAULT_LOST, "an administrator, user %s, ended this session with fusionctl kill; its arrays are lost", by);
	if (other != c && client_answer_fault(other, &f))
		log_debug("session %" PRIu64 " was not told of its end", other->session);
}

int client_asks_kill(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client *other = NULL;
	uint64_t session;
	int r = wire_get_uint(body, "session", UINT64_MAX, &session, f);

	if (!r)
		r = wire_get_end(body, "KILL", f);
	if (!r)
		r = client_needs_rights(c, "end a client", f);
	if (r)
		return r;
	HASH_FIND(hh, c->supervisor->sessions, &session, sizeof session, other);
	if (!other)
		return fault_set(f, FAULT_HANDLE, "there is no session %" PRIu64, session);
	tell_killed(c, other);
	if (other == c)
		c->closing = true;
	else
		client_close(other);
	return client_answer_nothing(c, DOOR_KILL);
}

int client_asks_quarantine(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct wire_writer w;
	uint64_t clears = 0;
	char *json;
	int r = body->left ? wire_get_uint(body, "clear", 1, &clears, f) : 0;

	if (!r)
		r = wire_get_end(body, "QUARANTINE", f);
	if (!r)
		r = client_needs_rights(c, "look at the quarantine", f);
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
	r = client_answer(c, &w, -1);
	wire_writer_free(&w);
	cJSON_free(json);
	return r;
}

int client_asks_origins(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct wire_writer w;
	char *json;
	int r = wire_get_end(body, "ORIGINS", f);

	if (!r)
		r = client_needs_rights(c, "see all settings", f);
	if (r)
		return r;
	json = admin_origins_json(c->supervisor);
	if (!json)
		return -ENOMEM;
	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, DOOR_ORIGINS);
	wire_put_text(&w, json);
	r = client_answer(c, &w, -1);
	wire_writer_free(&w);
	cJSON_free(json);
	return r;
}

/*
 * Sessions that a daemon before this one had, as the service manager kept them (store.h): they are there without a connection,
 * as if their engine had ended, until their client returns or door.return_us is over. Those whose process has ended before are not waited for.
 *
 * A client returns by a new connection: who knows the secret, and is the user, is who had it. From then on all is as after an engine's end.
 */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "protocol/process.h"

static int charge(struct client *c, struct fault *f) {
	int r = user_charge_connection(c->user, f);

	if (r)
		return r;
	r = user_charge_session(c->user, f);
	if (r)
		user_refund_connection(c->user);
	return r;
}

int client_again(struct supervisor *s, uint64_t session, uid_t uid, pid_t pid, struct engine *e, struct client **clientp, struct fault *f) {
	struct client *c = calloc(1, sizeof *c);
	int r = -ENOMEM;

	if (!c)
		return r;
	*c = (struct client){ .supervisor = s, .engine = e, .fd = -1, .uid = uid, .pid = pid, .user = users_get(&s->users, uid), .resumes = true,
		.away = true, .attachment = CLIENT_ADRIFT, .record = -1, .ring = { -1, -1, -1 },
		.deadline_us = loop_now() + (process_ended(pid) ? 0 : s->config.door_return_us), .farewell = child_packet_new() };
	c->session = session;
	if (c->user && c->farewell)
		HASH_ADD(hh, s->sessions, session, sizeof c->session, c);
	if (HASH_ADDED(hh, c))
		r = charge(c, f);
	if (r) {
		if (HASH_ADDED(hh, c))
			HASH_DELETE(hh, s->sessions, c);
		if (c->user)
			users_put(&s->users, c->user);
		free(c->farewell);
		free(c);
		return r;
	}
	*clientp = c;
	return 0;
}

void client_again_enter(struct client *c) {
	struct supervisor *s = c->supervisor;

	DL_APPEND2(s->clients, c, previous, next);
	s->connections++;
	s->session_count++;
	s->sessions_total++;
	c->engine->sessions++;
	c->hello = true;
	if (c->session > s->last_session)
		s->last_session = c->session;
	if (c->deadline_us < s->silent_us)
		s->silent_us = c->deadline_us;
}

bool client_comes_back(const struct client *c) {
	return c->resumes && c->supervisor->store.on;
}

int client_says_again(const struct client *c, struct fault *f) {
	return fault_set(f, c->supervisor->store.on ? FAULT_AGAIN : FAULT_CONNECT, "the daemon is stopping");
}

/* ---- RETURN ---- */

/* Takes the same time wherever the first difference lies. */
static bool secrets_equal(const unsigned char *a, const unsigned char *b) {
	unsigned difference = 0;

	for (unsigned i = 0; i < LIMIT_SECRET_BYTES; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

/* NULL, with the reason in f. */
static struct client *find_away(const struct client *c, uint64_t session, const void *secret, struct fault *f) {
	struct client *other;

	HASH_FIND(hh, c->supervisor->sessions, &session, sizeof session, other);
	if (other && other->away && other->uid == c->uid && !*c->peer && secrets_equal(other->secret, secret))
		return other;
	fault_set(f, FAULT_LOST, "session %" PRIu64 " did not outlive the daemon that began it, or waited for its client for longer "
		"than door.return_us: its arrays are lost", session);
	return NULL;
}

/* The connection is the session's from now on, and this client nothing. */
static int hand_over(struct client *c, struct client *to) {
	int r;

	loop_remove(c->source);
	c->source = NULL;
	to->fd = c->fd;
	r = client_listen(to);
	if (r) {
		to->fd = -1;
		return r;
	}
	c->fd = -1;
	c->closing = true;
	to->pid = c->pid;
	/* What a daemon before this one knew of the process is not kept: it is as it connected now. */
	free(to->group);
	to->group = c->group;
	to->groups = c->groups;
	c->group = NULL;
	c->groups = 0;
	rights_identify(to);
	to->admin = c->admin;
	to->away = false;
	to->deadline_us = 0;
	store_session(to);
	return 0;
}

int client_return(struct client *c, struct wire_cursor *body, struct fault *f) {
	struct client *other;
	uint64_t version, session;
	const void *secret;
	int r = wire_get_uint(body, "version", UINT64_MAX, &version, f);

	if (!r)
		r = client_agree((struct message_versions){ version, version }, &version, f);
	if (!r)
		r = wire_get_uint(body, "session", UINT64_MAX, &session, f);
	if (!r)
		r = wire_get_bin(body, "secret", LIMIT_SECRET_BYTES, &secret, f);
	if (!r)
		r = wire_get_end(body, "RETURN", f);
	if (!r && c->hello)
		r = fault_set(f, FAULT_STATE, "the connection has a session already");
	/* The session has left already, or is about to: either way the next daemon has it. */
	if (!r && c->supervisor->stopping)
		r = client_says_again(c, f);
	if (r)
		return r;
	other = find_away(c, session, secret, f);
	r = other ? hand_over(c, other) : f->code;
	return r ? r : client_answer_nothing(other, DOOR_RETURN);
}

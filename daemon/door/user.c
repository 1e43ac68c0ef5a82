/* Accounts of users; see user.h. */
#include "user.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include <uthash.h>

enum {
	/* Connections beyond a user's sessions: those that ask for the status, or have not said hello. */
	USER_SPARE_CONNECTIONS = 16,
};

struct user {
	uid_t uid;
	uint64_t connections, sessions, bytes;
	UT_hash_handle hh;
};

struct user *users_get(struct users *u, uid_t uid) {
	struct user *user;

	HASH_FIND(hh, u->by_uid, &uid, sizeof uid, user);
	if (user)
		return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->uid = uid;
	HASH_ADD(hh, u->by_uid, uid, sizeof user->uid, user);
	return user;
}

void users_put(struct users *u, struct user *user) {
	if (user->connections || user->sessions || user->bytes)
		return;
	HASH_DELETE(hh, u->by_uid, user);
	free(user);
}

void users_free(struct users *u) {
	struct user *user = u->by_uid, *next;

	HASH_CLEAR(hh, u->by_uid);
	for (; user; user = next) {
		next = user->hh.next;
		free(user);
	}
}

unsigned users_count(const struct users *u) {
	unsigned count = 0;

	for (const struct user *user = u->by_uid; user; user = user->hh.next)
		count += user->sessions > 0;
	return count;
}

int user_charge_connection(struct user *user, const struct config *c, struct fault *f) {
	if (user->connections >= c->limits_sessions_per_user + USER_SPARE_CONNECTIONS)
		return fault_set(f, FAULT_LIMIT,
			"user %ju has %" PRIu64 " connections, which limits.sessions_per_user=%" PRIu64
			" does not allow",
			(uintmax_t)user->uid, user->connections, c->limits_sessions_per_user);
	user->connections++;
	return 0;
}

void user_refund_connection(struct user *user) {
	user->connections--;
}

int user_charge_session(struct user *user, const struct config *c, struct fault *f) {
	if (user->sessions >= c->limits_sessions_per_user)
		return fault_set(f, FAULT_LIMIT,
			"user %ju has %" PRIu64 " sessions, as many as limits.sessions_per_user allows",
			(uintmax_t)user->uid, user->sessions);
	user->sessions++;
	return 0;
}

void user_refund_session(struct user *user) {
	user->sessions--;
}

uint64_t user_bytes_limit(const struct config *c) {
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (c->limits_user_bytes || pages <= 0 || page <= 0)
		return c->limits_user_bytes;
	return (uint64_t)pages * (uint64_t)page / 2;
}

int user_charge_bytes(struct user *user, const struct config *c, uint64_t bytes, struct fault *f) {
	uint64_t limit = user_bytes_limit(c);

	if (bytes > limit || user->bytes > limit - bytes)
		return fault_set(f, FAULT_MEMORY,
			"%" PRIu64 " bytes more than the %" PRIu64
			" that user %ju holds are above limits.user_bytes=%" PRIu64,
			bytes, user->bytes, (uintmax_t)user->uid, limit);
	user->bytes += bytes;
	return 0;
}

void user_refund_bytes(struct user *user, uint64_t bytes) {
	user->bytes -= bytes;
}

uid_t user_uid(const struct user *user) {
	return user->uid;
}

uint32_t user_sessions(const struct user *user) {
	return (uint32_t)user->sessions;
}

uint64_t user_bytes(const struct user *user) {
	return user->bytes;
}

/* Accounts of users; see user.h. */
#include "user.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/hash.h"
#include "daemon/base/loop.h"

enum {
	/* Connections beyond a user's sessions: those that ask for the status, or have not said hello. */
	USER_SPARE_CONNECTIONS = 16,
	/* Ends of engines that are known: more of them change nothing. */
	USER_ENDS = 8,
	/* Threads that make or give back memory of one user: more of them hinder each other, and who asks for much waits anyway. */
	USER_APART = 2,
	/* Descriptors of a session: its ring's memory and its record. */
	USER_SESSION = 2,
};

struct user_end {
	uint64_t us;                         /* when; 0: there was none */
	bool alone;
};

struct user {
	uid_t uid;
	struct users *users;
	uint64_t connections, sessions, bytes, descriptors;
	uint64_t leaving, giving;            /* of the bytes */
	unsigned apart;
	const struct config *config;         /* what holds: the general one, or */
	struct config *own;
	gid_t *group;                        /* of the process that connected last */
	size_t groups;
	struct user_end end[USER_ENDS];      /* by turns */
	unsigned ends;
	uint64_t known_us;                   /* until when they are known */
	unsigned lingering;                  /* sessions that have ended */
	UT_hash_handle hh;
};

struct user *users_find(const struct users *u, uid_t uid) {
	struct user *user;

	HASH_FIND(hh, u->by_uid, &uid, sizeof uid, user);
	return user;
}

static void user_free(struct user *user) {
	free(user->own);
	free(user->group);
	free(user);
}

struct user *users_get(struct users *u, uid_t uid) {
	struct user *user = users_find(u, uid);

	if (user)
		return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->uid = uid;
	user->users = u;
	user->config = u->config;
	user_refresh(u, user);
	HASH_ADD(hh, u->by_uid, uid, sizeof user->uid, user);
	if (HASH_ADDED(hh, user))
		return user;
	user_free(user);
	return NULL;
}

void users_put(struct users *u, struct user *user) {
	if (user->connections || user->sessions || user->bytes || user->descriptors || user->apart || user->lingering ||
		loop_now() < user->known_us)
		return;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): who is freed has left the table */
	HASH_DELETE(hh, u->by_uid, user);
	user_free(user);
}

void users_free(struct users *u) {
	struct user *user = u->by_uid, *next;

	HASH_CLEAR(hh, u->by_uid);
	for (; user; user = next) {
		next = user->hh.next;
		user_free(user);
	}
}

unsigned users_count(const struct users *u) {
	unsigned count = 0;

	for (const struct user *user = u->by_uid; user; user = user->hh.next)
		count += user->sessions > 0;
	return count;
}

struct user *users_next(const struct users *u, const struct user *user) {
	return user ? user->hh.next : u->by_uid;
}

/* ---- what holds ---- */

const struct config *user_config(const struct user *user) {
	return user->config;
}

struct rule_subject user_subject(const struct user *user) {
	return (struct rule_subject){ .uid = user->uid, .group = user->group, .groups = user->groups };
}

/* Where memory is short, what held before goes on to hold. */
bool user_refresh(const struct users *u, struct user *user) {
	struct rule_subject who = user_subject(user);
	struct config *fresh = u->rules && u->rules->count ? malloc(sizeof *fresh) : NULL;
	bool changed;

	if (fresh) {
		*fresh = *u->config;
		if (!rules_apply(u->rules, &who, fresh)) {
			free(fresh);
			fresh = NULL;
		}
	}
	changed = !fresh != !user->own || (fresh && memcmp(fresh, user->own, sizeof *fresh) != 0);
	free(user->own);
	user->own = fresh;
	user->config = fresh ? fresh : u->config;
	return changed;
}

bool user_identify(const struct users *u, struct user *user, const gid_t *group, size_t groups) {
	gid_t *copy;

	if (groups == user->groups && (!groups || !memcmp(group, user->group, groups * sizeof *group)))
		return false;
	copy = malloc(groups * sizeof *copy + 1);
	if (!copy)
		return false;
	memcpy(copy, group, groups * sizeof *copy);
	free(user->group);
	user->group = copy;
	user->groups = groups;
	return user_refresh(u, user);
}

/* ---- charges ---- */

static uint64_t descriptors_limit(const struct user *user) {
	const struct users *u = user->users;
	uint64_t others = u->descriptors - user->descriptors;

	if (user->config->limits_user_descriptors)
		return user->config->limits_user_descriptors;
	return u->descriptors_most > others ? (u->descriptors_most - others) / 2 : 0;
}

static int charge_descriptors(struct user *user, unsigned count, struct fault *f) {
	if (user->descriptors + count > descriptors_limit(user))
		return fault_set(f, FAULT_LIMIT,
			"user %ju holds %" PRIu64 " descriptors of the daemon, for connections, sessions and memory, as many as "
			"limits.user_descriptors allows%s",
			(uintmax_t)user->uid, user->descriptors,
			user->config->limits_user_descriptors ? "" : ", which is 0: half of what others leave; a higher LimitNOFILE= gives more");
	user->descriptors += count;
	user->users->descriptors += count;
	return 0;
}

static void refund_descriptors(struct user *user, unsigned count) {
	user->descriptors -= count;
	user->users->descriptors -= count;
}

int user_charge_connection(struct user *user, struct fault *f) {
	const struct config *c = user->config;
	int r;

	if (user->connections >= c->limits_sessions_per_user + USER_SPARE_CONNECTIONS)
		return fault_set(f, FAULT_LIMIT,
			"user %ju has %" PRIu64 " connections, which limits.sessions_per_user=%" PRIu64
			" does not allow",
			(uintmax_t)user->uid, user->connections, c->limits_sessions_per_user);
	r = charge_descriptors(user, 1, f);
	user->connections += !r;
	return r;
}

void user_refund_connection(struct user *user) {
	refund_descriptors(user, 1);
	user->connections--;
}

int user_charge_session(struct user *user, struct fault *f) {
	const struct config *c = user->config;
	int r;

	if (user->sessions >= c->limits_sessions_per_user)
		return fault_set(f, FAULT_LIMIT,
			"user %ju has %" PRIu64 " sessions, as many as limits.sessions_per_user allows",
			(uintmax_t)user->uid, user->sessions);
	r = charge_descriptors(user, USER_SESSION, f);
	user->sessions += !r;
	return r;
}

void user_refund_session(struct user *user) {
	refund_descriptors(user, USER_SESSION);
	user->sessions--;
}

uint64_t user_bytes_limit(const struct config *c) {
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (c->limits_user_bytes || pages <= 0 || page <= 0)
		return c->limits_user_bytes;
	return (uint64_t)pages * (uint64_t)page / 2;
}

int user_charge_arena(struct user *user, uint64_t bytes, struct fault *f) {
	uint64_t limit = user_bytes_limit(user->config);
	int r;

	if (bytes > limit || user->bytes > limit - bytes)
		return fault_set(f, FAULT_MEMORY,
			"%" PRIu64 " bytes more than the %" PRIu64
			" that user %ju holds are above limits.user_bytes=%" PRIu64,
			bytes, user->bytes, (uintmax_t)user->uid, limit);
	r = charge_descriptors(user, 1, f);
	user->bytes += r ? 0 : bytes;
	return r;
}

void user_refund_arena(struct user *user, uint64_t bytes) {
	refund_descriptors(user, 1);
	user->bytes -= bytes;
}

void user_leaves(struct user *user, uint64_t bytes) {
	user->leaving += bytes;
}

void user_gives(struct user *user, uint64_t bytes) {
	user->leaving -= bytes;
	user->giving += bytes;
}

void user_gave(struct user *user, uint64_t bytes) {
	user->giving -= bytes;
}

uint64_t user_leaving(const struct user *user, bool now) {
	return user->giving + (now ? 0 : user->leaving);
}

bool user_apart_begin(struct user *user) {
	if (user->apart == USER_APART)
		return false;
	user->apart++;
	return true;
}

void user_apart_end(struct user *user) {
	user->apart--;
}

void user_lingers(struct user *user, bool more) {
	user->lingering += more ? 1 : (unsigned)-1;
}

void user_ended(struct user *user, uint64_t now, uint64_t known_us, bool alone) {
	user->end[user->ends++ % USER_ENDS] = (struct user_end){ now, alone };
	user->known_us = now + known_us;
}

unsigned user_ends(const struct user *user, uint64_t now, uint64_t within_us, bool alone) {
	unsigned count = 0;

	for (unsigned i = 0; i < USER_ENDS; i++)
		count += user->end[i].us && now - user->end[i].us < within_us && (!alone || user->end[i].alone);
	return count;
}

uint64_t user_end_before(const struct user *user, unsigned others) {
	for (unsigned i = 0; i < USER_ENDS; i++) {
		const struct user_end *e = &user->end[(user->ends - 1 - i) % USER_ENDS];

		if (e->us && e->alone && !others--)
			return e->us;
	}
	return 0;
}

void users_forgive(struct users *u) {
	struct user *next;

	for (struct user *user = u->by_uid; user; user = next) {
		next = user->hh.next;
		memset(user->end, 0, sizeof user->end);
		user->known_us = 0;
		users_put(u, user);
	}
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

uint64_t user_descriptors(const struct user *user) {
	return user->descriptors;
}

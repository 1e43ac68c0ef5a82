/*
 * What one user (uid) holds: connections, sessions, descriptors and bytes of shared memory, against the limits
 * of the configuration that holds for him (base/rules.h). An account exists while it holds anything.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/config.h"
#include "daemon/base/rules.h"

struct user;

struct users {
	struct user *by_uid;
	const struct config *config;         /* the general one */
	const struct rules *rules;
	uint64_t descriptors;                /* of all users */
	uint64_t descriptors_most;           /* that there may be for them */
};

/* The account of uid, made where there is none; NULL: out of memory. */
struct user *users_get(struct users *u, uid_t uid);
/* The same, or NULL where there is none. */
struct user *users_find(const struct users *u, uid_t uid);
/* Frees the account if it holds nothing. */
void users_put(struct users *u, struct user *user);
void users_free(struct users *u);
/* Those with sessions. */
unsigned users_count(const struct users *u);

/* The next account, the first where it is NULL; NULL: there is none. */
struct user *users_next(const struct users *u, const struct user *user);

/* What holds for him. */
const struct config *user_config(const struct user *user);
/* He has connected by a process with these groups, and what holds is what holds for them. Has it changed? */
bool user_identify(const struct users *u, struct user *user, const gid_t *group, size_t groups);
/* Rules or the general configuration have changed. */
bool user_refresh(const struct users *u, struct user *user);
struct rule_subject user_subject(const struct user *user);

/*
 * Each charge is 0, or FAULT_LIMIT or FAULT_MEMORY with a sentence that names the setting. A connection and an arena cost a descriptor each, a
 * session two. Of descriptors a user may have half of what others leave, so that the next one always finds some.
 */
int user_charge_connection(struct user *user, struct fault *f) FAULT_MUST_USE;
void user_refund_connection(struct user *user);
int user_charge_session(struct user *user, struct fault *f) FAULT_MUST_USE;
void user_refund_session(struct user *user);
/* Memory, and the descriptor that holds it. */
int user_charge_arena(struct user *user, uint64_t bytes, struct fault *f) FAULT_MUST_USE;
void user_refund_arena(struct user *user, uint64_t bytes);

/* Of what is charged, so much waits to be given back; or is being given back, as no engine uses it; was. */
void user_leaves(struct user *user, uint64_t bytes);
void user_gives(struct user *user, uint64_t bytes);
void user_gave(struct user *user, uint64_t bytes);
/* A session has ended that an engine may still have something of; that is over. */
void user_lingers(struct user *user, bool more);
/* How much that is; `now`: of what waits for no engine. */
uint64_t user_leaving(const struct user *user, bool now);
/* Room for one more thread that works for him; false: he waits for those there are. */
bool user_apart_begin(struct user *user);
void user_apart_end(struct user *user);

/* An engine ended, and a graph of this user was with it; `alone`: it ended it, and nobody else's. Who did so stays known so long. */
void user_ended(struct user *user, uint64_t now, uint64_t known_us, bool alone);
/* How many of the last few did so, within so long before now; `alone`: of them those that were his alone. */
unsigned user_ends(const struct user *user, uint64_t now, uint64_t within_us, bool alone);
/* When the last but so many of the latter was; 0: there are fewer. */
uint64_t user_end_before(const struct user *user, unsigned others);
/* Nobody knows of any of them any more. */
void users_forgive(struct users *u);

uid_t user_uid(const struct user *user);
uint32_t user_sessions(const struct user *user);
uint64_t user_bytes(const struct user *user);
uint64_t user_descriptors(const struct user *user);
/* limits.user_bytes, or half of the machine's memory where it is 0. */
uint64_t user_bytes_limit(const struct config *c);

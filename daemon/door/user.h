/*
 * What one user (uid) holds: connections, sessions and bytes of shared memory, against the limits
 * of the configuration. An account exists while it holds anything.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/config.h"

struct user;

struct users {
	struct user *by_uid;
};

/* The account of uid, made where there is none; NULL: out of memory. */
struct user *users_get(struct users *u, uid_t uid);
/* Frees the account if it holds nothing. */
void users_put(struct users *u, struct user *user);
void users_free(struct users *u);
/* Those with sessions. */
unsigned users_count(const struct users *u);

/* Each charge is 0, or FAULT_LIMIT or FAULT_MEMORY with a sentence that names the setting. */
int user_charge_connection(struct user *user, const struct config *c, struct fault *f) FAULT_MUST_USE;
void user_refund_connection(struct user *user);
int user_charge_session(struct user *user, const struct config *c, struct fault *f) FAULT_MUST_USE;
void user_refund_session(struct user *user);
int user_charge_bytes(
	struct user *user, const struct config *c, uint64_t bytes, struct fault *f) FAULT_MUST_USE;
void user_refund_bytes(struct user *user, uint64_t bytes);

uid_t user_uid(const struct user *user);
uint32_t user_sessions(const struct user *user);
uint64_t user_bytes(const struct user *user);
/* limits.user_bytes, or half of the machine's memory where it is 0. */
uint64_t user_bytes_limit(const struct config *c);

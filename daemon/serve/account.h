/*
 * What the sessions of one user hold together in the engine, and what they may: so that many sessions give nobody
 * more than one large one would. An account is there while its user has a session.
 *
 * Shared memory, sessions and connections are counted at the door (door/user.h), before the engine is asked.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "protocol/fault.h"

struct account {
	uid_t uid;
	uint32_t sessions;
	uint64_t queued;             /* operations handed to exec and not done */
	uint64_t arrays;
	UT_hash_handle hh;
};

/* The account of a user, made where there is none; NULL: out of memory. *accountsp is the table. */
struct account *account_get(struct account **accountsp, uid_t uid);
/* A session has ended, and what it held is taken off. NULL is allowed. */
void account_put(struct account **accountsp, struct account *a);

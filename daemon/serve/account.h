/*
 * What the sessions of one user hold together in the engine, and what they may: so that many sessions give nobody
 * more than one large one would. An account is there while its user has a session, and while kernels are built for him: who
 * goes and comes again finds what he left in the builders' queue.
 *
 * Shared memory, sessions and connections are counted at the door (door/user.h), before the engine is asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "protocol/fault.h"
#include "daemon/base/config.h"

struct builds;
struct lane_group;

struct account {
	uid_t uid;
	uint32_t sessions;
	uint64_t queued;             /* operations handed to exec and not done */
	uint64_t arrays;
	struct builds *builds;       /* kernels that were asked for */
	uint64_t builds_seen;        /* of them, those that were taken off the allowance */
	double allowance;            /* kernels that may be asked for before a minute is over */
	uint64_t allowance_us;       /* when it was looked at */
	struct lane_group *lanes;
	UT_hash_handle hh;
};

/* The account of a user, made where there is none; NULL: out of memory. *accountsp is the table. */
struct account *account_get(struct account **accountsp, uid_t uid);
/* A session has ended, and what it held is taken off. NULL is allowed. */
void account_put(struct account **accountsp, struct account *a);
/* Frees what is left of users without a session; at the end, all. */
void accounts_free(struct account **accountsp, bool all);
/* May he have more kernels built now? */
bool account_may_build(struct account *a, const struct config *c, uint64_t now_us);
/* Being built, or in the queue. */
uint32_t account_builds(const struct account *a);

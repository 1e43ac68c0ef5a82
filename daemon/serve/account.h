/*
 * What the sessions of one user hold together in the engine, and what they may: so that many sessions give nobody
 * more than one large one would. An account is there while its user has a session, and while kernels are built for him. Kernels that
 * nobody waits for any more, because their session has ended or was cancelled, are not begun, and do not count, but for
 * those beyond what device_forgo() takes.
 *
 * Shared memory, sessions and connections are counted at the door (door/user.h), before the engine is asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/fault.h"
#include "protocol/hash.h"
#include "protocol/wire.h"
#include "daemon/base/config.h"

struct builds;
struct lane_group;
struct account_rule;

struct account {
	uid_t uid;
	uint32_t sessions;
	uint64_t queued;             /* operations handed to exec and not done */
	uint64_t arrays;
	uint64_t memory;             /* bytes of the engine's own for these: tables of handles, and what is known of each array */
	uint64_t recent_bytes;       /* of the plans that his sessions keep to tell of: recent.h */
	uint64_t thread_ns;          /* of the engine's thread, for his requests */
	bool asks;                   /* a question of his is being answered beside the engine's thread: question.h */
	struct builds *builds;       /* kernels that were asked for */
	uint64_t builds_seen;        /* of them, those that were taken off the allowance */
	double allowance;            /* kernels that may be asked for before a minute is over */
	uint64_t allowance_us;       /* when it was looked at */
	struct lane_group *lanes;
	struct account_rule *rule;   /* what holds for this user besides the general configuration */
	unsigned rules;
	uint64_t refused, limits;    /* requests that were answered with a fault, and with one of a limit */
	uint64_t told_ns, told_refused, told_limits, told_thread_ns; /* what the supervisor knows of these, and of the device's time */
	struct config *own;          /* with them; NULL: there are none */
	UT_hash_handle hh;
};

/* The account of a user, made where there is none; NULL: out of memory. *accountsp is the table. */
struct account *account_get(struct account **accountsp, uid_t uid);
/* A session has ended, and what it held is taken off. NULL is allowed. */
void account_put(struct account **accountsp, struct account *a);
/* Frees what is left of users without a session; at the end, all. */
void accounts_free(struct account **accountsp, bool all);
/* The account without a session more; of a user who has none it goes with the next account_put(). */
struct account *account_find(struct account **accountsp, uid_t uid);
/* What holds for this user, where `general` holds for all. */
const struct config *account_config(const struct account *a, const struct config *general);
/* It is this from now on, a map of names to values; and where the general one has changed. 0, a fault, or -ENOMEM. */
int account_rules(struct account *a, const struct config *general, struct wire_cursor *map, struct fault *f) FAULT_MUST_USE;
void account_refresh(struct account *a, const struct config *general);
/*
 * Where his kernels are counted. Of those that nobody waits for no more are asked for than he may have, and graphs go on without them: by bytecode and generic
 * kernels, until another run asks again.
 */
struct builds *account_builds_for(struct account *a, const struct config *c);
/* May he have more kernels built now? */
bool account_may_build(struct account *a, const struct config *c, uint64_t now_us);
/* Being built, or in the queue. */
uint32_t account_builds(const struct account *a);

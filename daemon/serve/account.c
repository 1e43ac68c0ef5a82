/* Users; see account.h. */
#include "account.h"

#include <stdlib.h>

#include "daemon/exec/exec.h"

enum {
	MINUTE_US = 60 * 1000 * 1000,
	/* Nobody waits for what is built later: it only has to end some time, and to fit into memory. */
	ACCOUNT_LATER = 16,
};

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it takes the table for an entry that was freed with it. */
static void account_free(struct account **accountsp, struct account *a) {
	HASH_DELETE(hh, *accountsp, a);
	builds_unref(a->builds);
	lane_group_free(a->lanes);
	free(a);
}

void accounts_free(struct account **accountsp, bool all) {
	struct account *a, *next;

	HASH_ITER(hh, *accountsp, a, next)
		if (all || (!a->sessions && !account_builds(a)))
			account_free(accountsp, a);
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

static struct account *account_new(uid_t uid) {
	struct account *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	a->uid = uid;
	a->builds = builds_new();
	a->lanes = lane_group_new();
	if (a->builds && a->lanes)
		return a;
	builds_unref(a->builds);
	lane_group_free(a->lanes);
	free(a);
	return NULL;
}

struct account *account_get(struct account **accountsp, uid_t uid) {
	struct account *a;

	HASH_FIND(hh, *accountsp, &uid, sizeof uid, a);
	if (!a) {
		a = account_new(uid);
		if (!a)
			return NULL;
		HASH_ADD(hh, *accountsp, uid, sizeof a->uid, a);
	}
	a->sessions++;
	return a;
}

void account_put(struct account **accountsp, struct account *a) {
	if (!a || --a->sessions)
		return;
	accounts_free(accountsp, false);
}

uint32_t account_builds(const struct account *a) {
	return a->builds->unfinished;
}

/* An allowance grows to that of a minute, and shrinks by what was asked for: below nothing, since a batch is not cut. */
static bool allows(struct account *a, uint64_t per_minute, uint64_t now_us) {
	double gained = (double)(now_us - a->allowance_us) * (double)per_minute / MINUTE_US;

	if (!a->allowance_us)
		gained = (double)per_minute;
	a->allowance_us = now_us;
	a->allowance += gained - (double)(a->builds->asked - a->builds_seen);
	a->builds_seen = a->builds->asked;
	if (a->allowance > (double)per_minute)
		a->allowance = (double)per_minute;
	return a->allowance > 0;
}

bool account_may_build(struct account *a, const struct config *c, uint64_t now_us) {
	if (a->builds->unfinished - a->builds->later >= c->limits_user_builds ||
		a->builds->later / ACCOUNT_LATER >= c->limits_user_builds)
		return false;
	return !c->limits_user_builds_per_minute || allows(a, c->limits_user_builds_per_minute, now_us);
}

/* Users; see account.h. */
#include "account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/exec/exec.h"

enum {
	MINUTE_US = 60 * 1000 * 1000,
	/* Nobody waits for what is built later: it only has to end some time, and to fit into memory. */
	ACCOUNT_LATER = 16,
	/* No limit is told from one that nobody reaches. */
	ACCOUNT_LATER_MOST = 1 << 24,
};

struct account_rule {
	char name[CONFIG_TEXT], value[CONFIG_TEXT];
};

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it takes the table for an entry that was freed with it. */
static void account_drop(struct account *a) {
	builds_unref(a->builds);
	lane_group_free(a->lanes);
	free(a->rule);
	free(a->own);
	free(a);
}

static void account_free(struct account **accountsp, struct account *a) {
	HASH_DELETE(hh, *accountsp, a);
	account_drop(a);
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

struct account *account_find(struct account **accountsp, uid_t uid) {
	struct account *a;

	HASH_FIND(hh, *accountsp, &uid, sizeof uid, a);
	if (!a) {
		a = account_new(uid);
		if (!a)
			return NULL;
		HASH_ADD(hh, *accountsp, uid, sizeof a->uid, a);
	}
	if (HASH_ADDED(hh, a))
		return a;
	account_drop(a);
	return NULL;
}

struct account *account_get(struct account **accountsp, uid_t uid) {
	struct account *a = account_find(accountsp, uid);

	if (a)
		a->sessions++;
	return a;
}

void account_put(struct account **accountsp, struct account *a) {
	if (!a || --a->sessions)
		return;
	accounts_free(accountsp, false);
}

/* ---- what holds ---- */

const struct config *account_config(const struct account *a, const struct config *general) {
	return a->own ? a->own : general;
}

/* The supervisor has checked them; where memory is short, what held before goes on to hold. */
void account_refresh(struct account *a, const struct config *general) {
	struct config *own = a->rules ? malloc(sizeof *own) : NULL;

	if (a->rules && !own)
		return;
	if (own)
		*own = *general;
	for (unsigned i = 0; i < a->rules; i++) {
		struct fault f;

		if (config_set(own, a->rule[i].name, a->rule[i].value, &f))
			log_error("user %u: %s", a->uid, f.text);
	}
	free(a->own);
	a->own = own;
	lane_group_limit(a->lanes, (uint32_t)account_config(a, general)->limits_user_device_share);
}

int account_rules(struct account *a, const struct config *general, struct wire_cursor *map, struct fault *f) {
	unsigned count = map->left / 2;
	struct account_rule *rule = calloc(count + 1, sizeof *rule);
	int r = rule ? 0 : -ENOMEM;

	for (unsigned i = 0; !r && i < count; i++) {
		r = wire_copy_text(map, "setting", rule[i].name, sizeof rule[i].name, f);
		if (!r)
			r = wire_copy_text(map, "value", rule[i].value, sizeof rule[i].value, f);
	}
	if (r) {
		free(rule);
		return r;
	}
	free(a->rule);
	a->rule = rule;
	a->rules = count;
	account_refresh(a, general);
	return 0;
}

/* ---- builds ---- */

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

struct builds *account_builds_for(struct account *a, const struct config *c) {
	uint64_t most = c->limits_user_builds < ACCOUNT_LATER_MOST ? ACCOUNT_LATER * c->limits_user_builds : 0;

	a->builds->most_later = (uint32_t)most;
	return a->builds;
}

bool account_may_build(struct account *a, const struct config *c, uint64_t now_us) {
	if (a->builds->unfinished - a->builds->later >= c->limits_user_builds)
		return false;
	return !c->limits_user_builds_per_minute || allows(a, c->limits_user_builds_per_minute, now_us);
}

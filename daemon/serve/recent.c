/* What ran last. See recent.h for the contract. */
#include "recent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "daemon/base/loop.h"
#include "daemon/serve/account.h"
#include "daemon/serve/server.h"
#include "daemon/serve/share.h"
#include "daemon/serve/vector.h"

enum {
	/* Of all sessions of one user: the plans of some 20,000 kernels. */
	RECENT_USER_BYTES = 32 << 20,
	/* What exec hangs on a step of a plan, about. */
	RECENT_STEP_BYTES = 512,
	/* Sessions that have ended: of one user, and what they may keep together; of all users. */
	RECENT_PAST = 8,
	RECENT_PAST_BYTES = 4 << 20,
	RECENT_PAST_ALL = 64,
};

/* A session that has ended. */
struct past {
	struct past *previous, *next;        /* of server->past, the newest first */
	uint64_t id;
	uid_t uid;
	pid_t pid;
	uint64_t ended_us;
	char name[SESSION_NAME];
	struct recents recents;
};

/* ---- while a session runs ---- */

static uint64_t cost_of(const struct plan *p) {
	uint64_t bytes = plan_bytes(p) + (uint64_t)p->steps * RECENT_STEP_BYTES;

	return bytes + (p->stand_in ? cost_of(p->stand_in) : 0);
}

/* How many bytes that were. */
static uint64_t drop_oldest(struct recents *r) {
	struct recent *last = &r->graph[--r->count];

	plan_unref(last->plan);
	return last->bytes;
}

static void forget_oldest(struct session *s) {
	s->account->recent_bytes -= drop_oldest(&s->recents);
}

/* Of the user's sessions that keep any, the one that ran longest ago. */
static struct session *least_recent(const struct session *s) {
	struct session *found = NULL;

	for (struct session *one = s->server->sessions; one; one = one->hh.next)
		if (one->account == s->account && one->recents.count && (!found || one->recents.ran_us < found->recents.ran_us))
			found = one;
	return found;
}

/* Room for one graph more, of so many bytes. */
static bool make_room(struct session *s, uint64_t bytes) {
	struct recents *r = &s->recents;
	uint32_t most = s->settings.explain_runs;
	struct session *other;

	while (r->count && r->count >= most)
		forget_oldest(s);
	if (bytes > RECENT_USER_BYTES)
		return false;
	while (s->account->recent_bytes + bytes > RECENT_USER_BYTES) {
		other = least_recent(s);
		if (!other)
			return false;
		forget_oldest(other);
	}
	return !vector_reserve((void **)&r->graph, r->count, &r->capacity, sizeof *r->graph);
}

static void put_first(struct recents *r, uint32_t at, struct recent first) {
	if (at)
		memmove(&r->graph[1], &r->graph[0], at * sizeof *r->graph);
	r->graph[0] = first;
}

static uint32_t place_of(const struct recents *r, const struct plan *p) {
	uint32_t i = 0;

	while (i < r->count && r->graph[i].plan != p)
		i++;
	return i;
}

uint32_t recent_ran(struct session *s, struct plan *p) {
	struct recents *r = &s->recents;
	uint32_t at = place_of(r, p);
	const uint64_t bytes = cost_of(p);
	struct recent one;

	r->ran_us = loop_now();
	if (at < r->count) {
		one = r->graph[at];
		one.runs++;
		/* What stands in for it may have been made since. */
		s->account->recent_bytes += bytes - one.bytes;
		one.bytes = bytes;
		put_first(r, at, one);
		return one.number;
	}
	/* 0 is the number of none. */
	r->number += r->number == UINT32_MAX ? 2 : 1;
	while (r->count && !s->settings.explain_runs)
		forget_oldest(s);
	if (!s->settings.explain_runs)
		return r->number;
	one = (struct recent){ .plan = p, .number = r->number, .bytes = bytes, .runs = 1 };
	if (!make_room(s, bytes))
		return one.number;
	plan_ref(p);
	s->account->recent_bytes += one.bytes;
	put_first(r, r->count++, one);
	return one.number;
}

/* ---- what made an array ---- */

static int refuse_old(const struct session *s, uint32_t number, struct fault *f) {
	uint32_t since = s->recents.number - number;

	return fault_set(f, FAULT_STATE, "the run that made the array is no longer known: %" PRIu32 " other graph%s ran since, and the last %u are kept "
		"(fusion.explain_runs), up to %d MiB of a user; ask before it is computed, or sooner after", since, since == 1 ? "" : "s",
		s->settings.explain_runs, RECENT_USER_BYTES >> 20);
}

static int refuse_unmade(const struct session *s, const struct array *a, struct fault *f) {
	if (a->hold && a->run)
		return fault_set(f, FAULT_STATE, "the shared array was written since a run made it: what it holds now is data that a program gave");
	if (a->hold)
		return fault_set(f, FAULT_STATE, "the array is another program's, which alone may ask how it was made");
	if (s->restored)
		return fault_set(f, FAULT_STATE, "no run is known that made the array: it is data, or an engine before this one made it");
	return fault_set(f, FAULT_STATE, "no operations made the array: it is data that the program gave");
}

static const struct recent *find_number(const struct recents *r, uint32_t number) {
	for (uint32_t i = 0; i < r->count; i++)
		if (r->graph[i].number == number)
			return &r->graph[i];
	return NULL;
}

/* Whoever writes a shared array, what it then holds no run has made. */
static uint32_t run_of(const struct array *a) {
	return share_was_written(a) ? 0 : a->run;
}

int recent_made(const struct session *s, struct array *const *array, uint32_t count, const struct recent **recentp, struct fault *f) {
	uint32_t number = 0;

	/* What is data says nothing. */
	for (uint32_t i = 0; i < count; i++) {
		uint32_t run = run_of(array[i]);

		number = number ? number : run;
		if (run && run != number)
			return fault_set(f, FAULT_STATE, "the arrays were made by different runs; ask for each of them alone");
	}
	if (!number)
		return refuse_unmade(s, array[0], f);
	*recentp = find_number(&s->recents, number);
	return *recentp ? 0 : refuse_old(s, number, f);
}

/* ---- sessions ---- */

static void look_at(struct recent_session *found, uint64_t id, const struct recent_session *one) {
	if (id ? one->id == id : one->recents->count && (!found->recents || one->recents->ran_us > found->recents->ran_us))
		*found = *one;
}

int recent_find(const struct session *s, uint64_t id, struct recent_session *found, struct fault *f) {
	*found = (struct recent_session){ 0 };
	for (const struct session *one = s->server->sessions; one; one = one->hh.next)
		if (session_may_see(s, one->uid) && (id || one != s))
			look_at(found, id, &(struct recent_session){ one->id, one->name, one->pid, 0, &one->recents });
	for (const struct past *one = s->server->past; one; one = one->next)
		if (session_may_see(s, one->uid))
			look_at(found, id, &(struct recent_session){ one->id, one->name, one->pid, one->ended_us, &one->recents });
	if (found->recents)
		return 0;
	if (!id)
		return fault_set(f, FAULT_HANDLE, "no other session that you may see has run a graph");
	return fault_set(f, FAULT_HANDLE, "there is no session %" PRIu64 " that you may see", id);
}

/* ---- when it has ended ---- */

static void recents_drop(struct recents *r) {
	for (uint32_t i = 0; i < r->count; i++)
		plan_unref(r->graph[i].plan);
	free(r->graph);
	*r = (struct recents){ 0 };
}

static uint64_t bytes_of(const struct recents *r) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < r->count; i++)
		bytes += r->graph[i].bytes;
	return bytes;
}

static void past_drop(struct server *v, struct past *p) {
	DL_DELETE2(v->past, p, previous, next);
	recents_drop(&p->recents);
	free(p);
}

/* What is beyond the bounds goes, of the user's and of all. */
static void past_trim(struct server *v, uid_t uid) {
	unsigned own = 0, all = 0;
	uint64_t bytes = 0;
	struct past *next;

	for (struct past *p = v->past; p; p = next) {
		bool fits = all < RECENT_PAST_ALL;

		next = p->next;
		if (fits && p->uid == uid) {
			bytes += bytes_of(&p->recents);
			fits = ++own <= RECENT_PAST && bytes <= RECENT_PAST_BYTES;
		}
		if (fits)
			all++;
		else
			past_drop(v, p);
	}
}

/* Takes the graphs over. */
static struct past *past_of(struct session *s) {
	struct past *p = malloc(sizeof *p);

	if (!p)
		return NULL;
	*p = (struct past){ .id = s->id, .uid = s->uid, .pid = s->pid, .ended_us = loop_now(), .recents = s->recents };
	memcpy(p->name, s->name, sizeof p->name);
	s->recents = (struct recents){ 0 };
	return p;
}

void recent_end(struct session *s) {
	struct server *v = s->server;
	struct past *p;

	if (s->account)
		s->account->recent_bytes -= bytes_of(&s->recents);
	p = s->recents.count && !v->ends ? past_of(s) : NULL;
	if (!p) {
		recents_drop(&s->recents);
		return;
	}
	while (bytes_of(&p->recents) > RECENT_PAST_BYTES)
		drop_oldest(&p->recents);
	DL_PREPEND2(v->past, p, previous, next);
	past_trim(v, s->uid);
}

void recent_free(struct server *v) {
	while (v->past)
		past_drop(v, v->past);
}

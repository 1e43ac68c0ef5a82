/* Sessions begin and end; see session.h. */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "daemon/base/loop.h"
#include "daemon/base/user_name.h"
#include "daemon/serve/account.h"
#include "daemon/serve/capture.h"
#include "daemon/serve/flight.h"
#include "daemon/serve/patterns.h"
#include "daemon/serve/recurring.h"
#include "daemon/serve/rings.h"
#include "daemon/serve/share.h"
#include "daemon/serve/vector.h"
#include "daemon/serve/wait.h"

/* ---- what exec asks of a session ---- */

static int on_grow(void *user, uint64_t bytes) {
	return control_want(user, bytes);
}

static int on_await(void *user) {
	return control_await_arena(user);
}

/* Told to the client with the next answer; where memory is short it learns at the session's end. */
static void on_freed(void *user, uint32_t arena, uint64_t offset, uint64_t bytes) {
	struct session *s = user;

	(void)bytes;
	if (vector_reserve((void **)&s->freed, s->freeds, &s->freed_capacity, sizeof *s->freed))
		return;
	s->freed[s->freeds++] = (struct freed){ .seq = s->next - 1, .arena = arena, .offset = offset };
}

static const struct fault *why_not(void *user) {
	const struct session *s = user;

	return &s->refusal;
}

static void on_drop(void *user, uint32_t arena) {
	control_drop(user, arena);
}

/* ---- beginning ---- */

static void take_facts(struct session *s, const struct session_facts *facts) {
	size_t size = facts->name_size < sizeof s->name ? facts->name_size : sizeof s->name - 1;

	s->id = facts->id;
	memcpy(s->secret, facts->secret, sizeof s->secret);
	s->uid = facts->uid;
	s->remote = facts->remote;
	s->admin = facts->admin;
	s->returns = facts->returns;
	s->repeats = facts->returns && facts->repeats;
	s->pid = facts->pid;
	memcpy(s->name, facts->name, size);
	s->name[size] = 0;
}

static int open_parts(struct session *s) {
	struct server *v = s->server;
	struct space_callbacks callbacks = { .grow = on_grow, .await = on_await, .freed = on_freed, .drop = on_drop, .why = why_not, .user = s };
	const struct config *c;
	int r = graph_new(&s->graph);

	s->account = account_get(&v->accounts, s->uid);
	c = s->account ? account_config(s->account, &v->config) : &v->config;
	s->settings = fusion_settings_of(c);
	handles_init(&s->handles, (uint32_t)c->limits_handles);
	s->handles.catalogue = v->catalogue;
	s->handles.session = s->id;
	if (s->account)
		lane_group_limit(s->account->lanes, (uint32_t)c->limits_user_device_share);
	if (s->account)
		handles_account(&s->handles, &s->account->arrays, c->limits_user_handles);
	else
		r = -ENOMEM;
	if (!r)
		handles_account_memory(&s->handles, &s->account->memory, (uint64_t)c->limits_user_memory);
	if (!r)
		r = lane_new(v->exec, &s->lane);
	if (!r)
		lane_join(s->lane, s->account->lanes);
	if (!r)
		session_share(s);
	if (!r)
		r = space_new(v->exec, &callbacks, c->limits_session_bytes, &s->space);
	if (!r)
		space_note(s->space, s->id);
	return r;
}

int session_new(struct server *v, const struct session_facts *facts, struct session **sessionp) {
	struct session *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->server = v;
	s->next = 1;
	s->epoch = 1;
	s->since_us = loop_now();
	take_facts(s, facts);
	s->entry = CATALOGUE_NONE;
	HASH_ADD(hh, v->sessions, id, sizeof s->id, s);
	if (!HASH_ADDED(hh, s)) {
		explicit_bzero(s->secret, sizeof s->secret);
		free(s);
		return -ENOMEM;
	}
	v->sessions_total++;
	r = open_parts(s);
	if (!r)
		r = session_enter(s);
	if (!r)
		r = patterns_begin(s);
	if (r)
		session_free(s);
	else
		*sessionp = s;
	return r;
}

/* ---- ending ---- */

/*
 * The client is gone, but the transport's requests must end. One whose daemon is started again goes on with another engine, and asks that for what has
 * no answer; an answer that it has none would only keep it from asking.
 */
static void refuse_waiting(struct session *s) {
	bool goes_on = s->server->ends && s->returns;
	struct fault f;

	if (goes_on)
		fault_set(&f, FAULT_REPEATABLE, "the engine ended before this was answered; it may be asked for again");
	else
		fault_set(&f, FAULT_CONNECT, "the session has ended");
	while (s->held) {
		struct transport_request *frame = s->held->frame;
		bool again = request_asked_again(s->held->id);

		request_unhold(s, s->held);
		if (goes_on && again)
			transport_drop(frame);
		else
			request_refuse(s->server, s, frame, &f, 0, -1);
	}
	while (s->waiters) {
		if (goes_on && request_asked_again(s->waiters->id)) {
			transport_drop(s->waiters->frame);
			waiter_free(s->waiters);
		} else {
			waiter_refuse(s->waiters, &f);
		}
	}
}

void session_drop_used(struct session *s) {
	for (uint32_t i = 0; i < s->useds; i++)
		buffer_unref(s->used[i]);
	s->useds = 0;
}

static void drop_gathered(struct session *s) {
	if (s->windowed)
		DL_DELETE2(s->server->gathering, s, window_previous, window_next);
	for (uint32_t i = 0; i < s->pendings; i++)
		array_unref(s->pending[i]);
	session_drop_used(s);
	free(s->pending);
	free(s->used);
	graph_free(s->graph);
}

static void drop_runs(struct session *s) {
	if (s->lane)
		lane_free(s->lane);
	while (s->runs) {
		struct run *run = s->runs;

		s->runs = run->next;
		flight_orphaned(run);
		run_free(run);
	}
}

static void keep_counters(struct session *s) {
	struct server *v = s->server;

#define COUNTER(name, doc) v->ended.name += s->counters.name;
#include "counters.def"
#undef COUNTER
	for (unsigned i = 0; i < PATTERN_COUNT; i++)
		pattern_counters_add(&v->pattern[i], &s->pattern[i]);
	for (unsigned i = 0; i < FAULT_COUNT; i++)
		v->faults[i] += s->faults[i];
}

/* For the journal: what it has used. Of one that did nothing nothing is said, nor where another engine or daemon goes on with it. */
static void tell_end(const struct session *s) {
	const struct log_subject subject = { .session = s->id, .uid = s->uid, .pid = s->pid };
	uint64_t limits = s->faults[FAULT_LIMIT] + s->faults[FAULT_MEMORY];

	if (s->server->ends || !s->lane || !s->space || (!s->counters.runs && !s->counters.refused))
		return;
	log_about(LOG_LEVEL_INFO, &subject,
		"session %llu of user %ju, process %jd (%s) ended after %.1f s: %.3f s of the device, %llu bytes of shared memory, graphs: %llu, "
		"refusals: %llu, of limits: %llu",
		(unsigned long long)s->id, (uintmax_t)s->uid, (intmax_t)s->pid, s->name, (double)(loop_now() - s->since_us) / 1e6,
		(double)lane_usage(s->lane)->device_ns / 1e9, (unsigned long long)space_mapped(s->space), (unsigned long long)s->counters.runs,
		(unsigned long long)s->counters.refused, (unsigned long long)limits);
}

/* The lane first: from then on exec calls nobody back. */
void session_free(struct session *s) {
	tell_end(s);
	flush_forget(s);
	drop_runs(s);
	refuse_waiting(s);
	drop_gathered(s);
	handles_free(&s->handles);
	shares_end(s);
	shares_forgo(s);
	recent_end(s);
	events_session_ends(s->server, s->id);
	if (s->account) {
		s->account->queued -= s->queued;
		control_spent(s->server, s->account);
	}
	account_put(&s->server->accounts, s->account);
	s->server->progress = true;      /* other sessions of the user have room again */
	if (s->space)
		space_free(s->space);
	captures_free(s);
	recurring_free(s);
	keep_counters(s);
	catalogue_give(s->server->catalogue, s->entry);
	patterns_end(s);
	rings_remove(s->channel);
	transport_unknown(s->server->transport, s->id);
	HASH_DELETE(hh, s->server->sessions, s);
	explicit_bzero(s->secret, sizeof s->secret);
	free(s->failure);
	free(s->freed);
	free(s);
}

void session_share(struct session *s) {
	const struct lane_share share = { .weight = s->settings.weight,
		.priority = (enum lane_priority)s->settings.priority };

	lane_set_share(s->lane, &share);
}

/* Nobody takes more of the device than others may, unless it is his to give. */
static int check_share(const struct session *s, const struct fusion_settings *wanted, struct fault *f) {
	const struct config *c = account_config(s->account, &s->server->config);

	if (session_governs(s))
		return 0;
	if (wanted->weight > c->fusion_weight)
		return fault_set(f, FAULT_PERMISSION, "fusion.weight may be at most %llu, that of new sessions",
			(unsigned long long)c->fusion_weight);
	if (wanted->tracker_share > c->fusion_tracker_share)
		return fault_set(f, FAULT_PERMISSION, "fusion.tracker_share may be at most %u, that of new sessions",
			(unsigned)c->fusion_tracker_share);
	if (wanted->priority > c->fusion_priority)
		return fault_set(f, FAULT_PERMISSION, "fusion.priority may be at most %llu, that of new sessions",
			(unsigned long long)c->fusion_priority);
	return 0;
}

int session_configure(struct session *s, const char *name, const char *value, struct fault *f) {
	struct fusion_settings wanted = s->settings;
	int r;

	if (patterns_is_switch(name))
		return patterns_configure(s, name, value, f);
	r = fusion_settings_change(&wanted, name, value, f);
	if (!r)
		r = check_share(s, &wanted, f);
	if (r)
		return r;
	s->settings = wanted;
	s->own[config_number(config_find(name, strlen(name)))] = true;
	session_share(s);
	return 0;
}

bool session_governs(const struct session *s) {
	return !s->remote && (s->uid == 0 || s->uid == geteuid() || s->admin);
}

int session_needs_rights(const struct session *s, const char *what, struct fault *f) {
	return session_governs(s) ? 0 : user_refuse(s->server->config.door_admins, what, f);
}

bool session_may_see(const struct session *s, uid_t uid) {
	return s->uid == uid || session_governs(s);
}

struct plan_options session_plan_options(const struct session *s) {
	const struct traits *t = s->server->traits;

	return (struct plan_options){ .fuse = fusion_settings_enabled(&s->settings, t->strategy), .fast = s->settings.fast, .notes = true, .traits = t,
		.min_elements = s->settings.min_elements,
		.patterns_off = fusion_settings_off(&s->settings, t->strategy), .book = s->book,
		.named_off = s->named_off, .apart = s->settings.apart, .pins = s->settings.pins };
}

/* ---- finding ---- */

/* Takes the same time wherever the first difference lies. */
static bool secrets_equal(const unsigned char *a, const unsigned char *b) {
	unsigned difference = 0;

	for (unsigned i = 0; i < LIMIT_SECRET_BYTES; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

struct session *session_find(struct server *v, uint64_t id, const void *secret) {
	struct session *s;

	HASH_FIND(hh, v->sessions, &id, sizeof id, s);
	return s && secrets_equal(s->secret, secret) ? s : NULL;
}

void session_failed(struct session *s, uint64_t seq, int64_t node, const struct fault *f) {
	if (s->failures == SESSION_FAILURES)
		return;
	if (vector_reserve((void **)&s->failure, s->failures, &s->failure_capacity, sizeof *s->failure))
		return;
	s->failure[s->failures++] = (struct failure){ .seq = seq, .node = node, .fault = *f };
}

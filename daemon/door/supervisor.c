/*
 * The supervisor's life: start, signals, stop. See supervisor.h.
 */
#include "supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "limits.h"
#include "protocol/message.h"
#include "daemon/door/arenas.h"

enum {
	/* For engines, their workers, and packets that wait for one that does not read; of few a quarter. */
	SUPERVISOR_DESCRIPTORS = 512,
};

/* Every arena costs a descriptor, so what the service manager allows is used in full. How many there may be for users. */
static uint64_t raise_descriptors(void) {
	struct rlimit limit, more;
	uint64_t own;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return SUPERVISOR_DESCRIPTORS;
	more = limit;
	more.rlim_cur = limit.rlim_max;
	if (limit.rlim_cur != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &more) < 0)
		log_warning("the limit of descriptors cannot be raised: %s", strerror(errno));
	else
		limit = more;
	own = limit.rlim_cur / 4 < SUPERVISOR_DESCRIPTORS ? limit.rlim_cur / 4 : SUPERVISOR_DESCRIPTORS;
	return limit.rlim_cur - own;
}

void supervisor_stop(struct supervisor *s, int code) {
	if (s->stopping) {
		engines_hurry(s);
		return;
	}
	s->stopping = true;
	s->code = code;
	door_rest(s);
	manager_tell(&s->manager, -1, "STOPPING=1");
	engines_stop(s);
}

/* ---- signals ---- */

static void on_signal(void *user, uint32_t events) {
	struct supervisor *s = user;
	struct signalfd_siginfo info;

	(void)events;
	if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return;
	if (info.ssi_signo == SIGCHLD) {
		gateway_reap(s);
		chores_reap(s);
		reload_reap(s);
		engines_reap(s);
	} else if (info.ssi_signo == SIGHUP) {
		reload_begin(s);
	} else {
		supervisor_stop(s, EXIT_SUCCESS);
	}
}

static int watch_signals(struct supervisor *s) {
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signals < 0)
		return -errno;
	return loop_add(s->loop, s->signals, EPOLLIN, on_signal, s, &s->signals_source);
}

/* ---- the loop ---- */

/* The line that a person sees in systemctl status. */
static void describe(const struct supervisor *s, struct str *text) {
	if (s->stopping) {
		str_append(text, "stopping");
		return;
	}
	engines_status(s, text);
	str_printf(text, "; sessions: %" PRIu32 " of users: %u", s->session_count, users_count(&s->users));
	if (*s->reload.error)
		str_printf(text, "; not reloaded, as it was before: %s", s->reload.error);
}

static uint64_t tell_manager(struct supervisor *s, uint64_t now) {
	bool wanted = notify_wants_status(&s->notify, now);
	struct str text = { 0 };
	uint64_t due;

	if (wanted)
		describe(s, &text);
	due = notify_tick(&s->notify, now, engines_well(s, now), wanted ? str_text(&text) : NULL);
	str_free(&text);
	return due;
}

/* Does what is due, and returns how long to wait; negative: until something happens. */
static int64_t tick(struct supervisor *s) {
	uint64_t now = loop_now(), due;

	arenas_tick(s);
	due = engines_tick(s, now);
	due = loop_sooner(due, gateway_tick(s, now));
	due = loop_sooner(due, clients_tick(s, now));
	due = loop_sooner(due, door_tick(s, now));
	due = loop_sooner(due, idle_tick(s, now));
	due = loop_sooner(due, metrics_tick(s, now));
	due = loop_sooner(due, accounts_tick(&s->accounts, now));
	due = loop_sooner(due, reload_tick(s, now));
	due = loop_sooner(due, tell_manager(s, now));
	if (due == UINT64_MAX)
		return -1;
	return due > now ? (int64_t)(due - now) : 0;
}

static int serve(struct supervisor *s) {
	int r = 0;

	while (!s->done && !r) {
		int64_t wait = tick(s);

		if (!s->done)
			r = loop_turn(s->loop, wait);
	}
	return r;
}

static int open_all(struct supervisor *s, struct fault *f) {
	int r = config_load_checked(&s->config, &s->origins, &s->rules, s->source, f);

	if (!r)
		r = child_check_remote(&s->config, s->source, f);
	if (r)
		return r;
	s->users.config = &s->config;
	s->users.rules = &s->rules;
	log_set_level((enum log_level)s->config.log_level);
	s->users.descriptors_most = raise_descriptors();
	door_reserve(s);
	r = limits_check(f);
	if (r)
		return r;
	accounts_open(&s->accounts, &s->config);
	manager_open(&s->manager);
	r = store_open(s, f);
	admin_resolve(s);
	if (!r)
		r = loop_new(&s->loop);
	if (!r)
		manager_watch(&s->manager, s->loop);
	if (!r)
		r = watch_signals(s);
	if (!r)
		r = apart_open(s->loop);
	if (!r)
		r = door_open(s, f);
	if (!r)
		r = metrics_open(s, f);
	gateway_open(s);
	if (!r)
		r = engines_open(s, f);
	if (!r)
		store_take(s);
	return r;
}

static void close_all(struct supervisor *s) {
	clients_close(s, NULL);
	reload_end(s);
	engines_free(s);
	cleared_close(&s->cleared);
	cache_size_close(&s->cache_size);
	store_close(s);
	metrics_close(s);
	door_close(s);
	arenas_close(s);
	apart_close();
	users_free(&s->users);
	accounts_close(&s->accounts);
	rules_clear(&s->rules);
	manager_close(&s->manager);
	s->signals_source = loop_remove(s->signals_source);
	if (s->signals >= 0)
		close(s->signals);
	s->loop = loop_free(s->loop);
}

/* Not before: a fork waits for who makes memory. */
static void clear_memory(struct supervisor *s) {
	int r = cleared_open(&s->cleared, (uint64_t)s->config.door_cleared_bytes);

	if (r)
		log_warning("no memory is cleared before it is asked for: %s", strerror(-r));
}

int supervisor_run(const struct config_source *source, int ready) {
	struct supervisor s = { .source = source, .listener = -1, .lock = -1, .spare = -1, .signals = -1, .manager = { .fd = -1 }, .metrics = { .listener = -1 }, .accounts = { .lock = -1 }, .reload = { .check.out = -1 },
		.started_us = loop_now(), .silent_us = UINT64_MAX };
	struct fault f = { 0 };
	int r = open_all(&s, &f);

	if (!r) {
		notify_open(&s.notify, &s.manager, s.started_us, ready);
		idle_init(&s.idle);
		engines_start(&s);
		clear_memory(&s);
		cache_size_open(&s.cache_size, &s.config);
		gateway_start(&s);
		r = serve(&s);
	}
	if (r) {
		log_error("%s", r > 0 ? f.text : strerror(-r));
		s.code = config_exit(r);
	}
	close_all(&s);
	return s.code;
}

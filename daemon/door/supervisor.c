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

#include "protocol/message.h"

/* Every arena costs a descriptor, so what the service manager allows is used in full. */
static void raise_descriptors(void) {
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		log_warning("the limit of descriptors cannot be raised: %s", strerror(errno));
}

void supervisor_stop(struct supervisor *s, int code) {
	if (s->stopping) {
		engines_hurry(s);
		return;
	}
	s->stopping = true;
	s->code = code;
	manager_tell(&s->manager, -1, "STOPPING=1");
	engines_stop(s);
}

/* ---- signals ---- */

/* What a reload changes, and what it cannot. */
static void tell_change(const struct config *from, const struct config *to, const struct setting *s) {
	struct str old = { 0 }, new = { 0 };

	config_print(from, s, &old);
	config_print(to, s, &new);
	if (s->applies == SETTING_START)
		log_notice("%s.%s stays \"%s\": it becomes \"%s\" at the next start", s->section, s->name, str_text(&old),
			str_text(&new));
	else
		log_notice("%s.%s becomes \"%s\", was \"%s\"", s->section, s->name, str_text(&new), str_text(&old));
	str_free(&old);
	str_free(&new);
}

/* Settings that only a start may change keep their values. */
static void take_reloaded(struct config *to, const struct config *from) {
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct setting *s = config_setting(i);
		size_t size = s->type == SETTING_TEXT ? CONFIG_TEXT : sizeof(uint64_t);
		char *old = (char *)to + s->offset;
		const char *new = (const char *)from + s->offset;

		if (!memcmp(old, new, size))
			continue;
		tell_change(to, from, s);
		if (s->applies != SETTING_START)
			memcpy(old, new, size);
	}
}

/* Those of settings that a start alone changes stay with their values. */
static void take_origins(struct config_origins *to, const struct config_origins *from) {
	for (unsigned i = 0; i < config_settings(); i++)
		if (config_setting(i)->applies != SETTING_START)
			memcpy(to->text[i], from->text[i], sizeof to->text[i]);
}

static void reload(struct supervisor *s) {
	struct config_origins origins;
	struct config fresh;
	struct fault f;
	int r;

	notify_reloading(&s->notify, loop_now());
	r = config_load_told(&fresh, &origins, s->source, &f);
	if (!r)
		r = config_resolve(&fresh, &f);
	if (r) {
		log_error("the configuration stays as it was: %s", r > 0 ? f.text : strerror(-r));
	} else {
		take_reloaded(&s->config, &fresh);
		take_origins(&s->origins, &origins);
		admin_resolve(s);
		log_set_level((enum log_level)s->config.log_level);
		engines_reload(s);
		gateway_reload(s);
		log_info("the configuration was read again");
	}
	if (s->notify.ready)
		notify_ready(&s->notify);
}

static void on_signal(void *user, uint32_t events) {
	struct supervisor *s = user;
	struct signalfd_siginfo info;

	(void)events;
	if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return;
	if (info.ssi_signo == SIGCHLD) {
		gateway_reap(s);
		chores_reap(s);
		engines_reap(s);
	} else if (info.ssi_signo == SIGHUP) {
		reload(s);
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

	due = engines_tick(s, now);
	due = loop_sooner(due, gateway_tick(s, now));
	due = loop_sooner(due, clients_tick(s, now));
	due = loop_sooner(due, idle_tick(s, now));
	due = loop_sooner(due, metrics_tick(s, now));
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
	int r = config_load_told(&s->config, &s->origins, s->source, f);

	if (!r)
		r = config_resolve(&s->config, f);
	if (r)
		return r;
	log_set_level((enum log_level)s->config.log_level);
	raise_descriptors();
	manager_open(&s->manager);
	store_open(s);
	admin_resolve(s);
	r = loop_new(&s->loop);
	if (!r)
		manager_watch(&s->manager, s->loop);
	if (!r)
		r = watch_signals(s);
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
	engines_free(s);
	cleared_close(&s->cleared);
	store_close(s);
	metrics_close(s);
	door_close(s);
	users_free(&s->users);
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
	struct supervisor s = { .source = source, .listener = -1, .lock = -1, .spare = -1, .signals = -1, .manager = { .fd = -1 }, .metrics = { .listener = -1 },
		.started_us = loop_now(), .silent_us = UINT64_MAX };
	struct fault f = { 0 };
	int r = open_all(&s, &f);

	if (!r) {
		notify_open(&s.notify, &s.manager, s.started_us, ready);
		idle_init(&s.idle);
		engines_start(&s);
		clear_memory(&s);
		gateway_start(&s);
		r = serve(&s);
	}
	if (r) {
		log_error("%s", r > 0 ? f.text : strerror(-r));
		s.code = EXIT_FAILURE;
	}
	close_all(&s);
	return s.code;
}

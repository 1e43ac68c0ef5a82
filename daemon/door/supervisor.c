/*
 * The supervisor's life: start, signals, the engine's ends and restarts, stop. See supervisor.h.
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

enum {
	/* An engine that ended is started again at once, then after growing pauses, until one has lived long.
	 */
	RESTART_FIRST_US = 100 * 1000,
	RESTART_MOST_US = 10 * 1000 * 1000,
	RESTART_LIVED_US = 60 * 1000 * 1000,
};

/* Every arena costs a descriptor, so what the service manager allows is used in full. */
static void raise_descriptors(void) {
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		log_warning("the limit of descriptors cannot be raised: %s", strerror(errno));
}

static void stop(struct supervisor *s, int code) {
	if (s->stopping)
		return;
	s->stopping = true;
	s->code = code;
	s->restart_us = 0;
	notify_stopping();
	clients_close(s, true);
	child_stop(&s->child, s->config.engine_stop_us);
	if (s->child.state == CHILD_NONE)
		s->done = true;
}

/* ---- the engine ---- */

static void start_engine(struct supervisor *s) {
	struct fault f;
	int r = child_start(&s->child, &s->config, s->source, &f);

	s->restart_us = 0;
	if (!r)
		return;
	log_error("the engine cannot be started: %s", r > 0 ? f.text : strerror(-r));
	if (!s->was_ready) {
		stop(s, EXIT_FAILURE);
		return;
	}
	s->restart_us = loop_now() + RESTART_MOST_US;
}

static void on_ready(void *user) {
	struct supervisor *s = user;

	s->was_ready = true;
	log_info("ready at %s: %s", s->config.door_socket, s->child.device);
	notify_ready("%s", s->child.device);
	clients_resume(s);
}

static int on_packet(void *user, uint64_t id, struct wire_cursor *body, struct fault *f) {
	return clients_packet(user, id, body, f);
}

static void on_writable(void *user) {
	clients_resume(user);
}

static void plan_restart(struct supervisor *s, uint64_t lived) {
	if (lived >= RESTART_LIVED_US)
		s->restart_delay_us = 0;
	s->restart_us = loop_now() + s->restart_delay_us;
	s->restart_delay_us = s->restart_delay_us ? 2 * s->restart_delay_us : RESTART_FIRST_US;
	if (s->restart_delay_us > RESTART_MOST_US)
		s->restart_delay_us = RESTART_MOST_US;
}

static void engine_ended(struct supervisor *s, const char *why) {
	uint64_t lived = loop_now() - s->child.started_us;

	clients_close(s, false);
	if (s->stopping) {
		s->done = true;
		return;
	}
	s->engine_ends++;
	snprintf(s->last_end, sizeof s->last_end, "%s", why);
	log_error("%s", why);
	if (!s->was_ready) {
		stop(s, EXIT_FAILURE);
		return;
	}
	notify_status("starting the engine again: %s", why);
	plan_restart(s, lived);
}

static void on_child_signal(struct supervisor *s) {
	struct str why = { 0 };

	if (child_reap(&s->child, &why))
		engine_ended(s, str_text(&why));
	str_free(&why);
}

/* ---- signals ---- */

static void tell_reload(struct supervisor *s) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_RELOAD);
	r = child_queue(&s->child, &w, -1);
	wire_writer_free(&w);
	if (r && r != -EPIPE)
		log_error("the engine was not told to reload: %s", strerror(-r));
}

/* Settings that only a start may change keep their values, and a change of them is told. */
static void take_reloaded(struct config *to, const struct config *from) {
	for (unsigned i = 0; i < config_settings(); i++) {
		const struct setting *s = config_setting(i);
		size_t size = s->type == SETTING_TEXT ? CONFIG_TEXT : sizeof(uint64_t);
		char *old = (char *)to + s->offset;
		const char *new = (const char *)from + s->offset;

		if (!memcmp(old, new, size))
			continue;
		if (s->applies == SETTING_START)
			log_notice("%s.%s changes at the next start", s->section, s->name);
		else
			memcpy(old, new, size);
	}
}

static void reload(struct supervisor *s) {
	struct config fresh;
	struct fault f;
	int r;

	notify_reloading(loop_now());
	r = config_load(&fresh, s->source, &f);
	if (!r)
		r = config_resolve(&fresh, &f);
	if (r) {
		log_error("the configuration stays as it was: %s", r > 0 ? f.text : strerror(-r));
	} else {
		take_reloaded(&s->config, &fresh);
		log_set_level((enum log_level)s->config.log_level);
		tell_reload(s);
		log_info("the configuration was read again");
	}
	notify_ready("%s", s->child.device);
}

static void on_signal(void *user, uint32_t events) {
	struct supervisor *s = user;
	struct signalfd_siginfo info;

	(void)events;
	if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return;
	if (info.ssi_signo == SIGCHLD)
		on_child_signal(s);
	else if (info.ssi_signo == SIGHUP)
		reload(s);
	else
		stop(s, EXIT_SUCCESS);
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

static uint64_t sooner(uint64_t a, uint64_t b) {
	return b && b < a ? b : a;
}

/* Does what is due, and returns how long to wait; negative: until something happens. */
static int64_t tick(struct supervisor *s) {
	uint64_t now = loop_now(), due;

	notify_tick(&s->notify, now);
	child_tick(&s->child, now);
	if (s->restart_us && now >= s->restart_us)
		start_engine(s);
	due = clients_tick(s, now);
	due = sooner(due, s->restart_us);
	due = sooner(due, s->child.deadline_us);
	due = sooner(due, s->notify.every_us ? s->notify.next_us : 0);
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
	static const struct child_callbacks callbacks = { on_ready, on_packet, on_writable, NULL };
	struct child_callbacks mine = callbacks;
	int r = config_load(&s->config, s->source, f);

	if (!r)
		r = config_resolve(&s->config, f);
	if (r)
		return r;
	log_set_level((enum log_level)s->config.log_level);
	raise_descriptors();
	r = loop_new(&s->loop);
	if (!r)
		r = watch_signals(s);
	if (!r)
		r = door_open(s, f);
	mine.user = s;
	child_init(&s->child, s->loop, s->folder, &mine);
	return r;
}

static void close_all(struct supervisor *s) {
	clients_close(s, true);
	door_close(s);
	users_free(&s->users);
	s->signals_source = loop_remove(s->signals_source);
	if (s->signals >= 0)
		close(s->signals);
	s->loop = loop_free(s->loop);
}

int supervisor_run(const struct config_source *source) {
	struct supervisor s = { .source = source, .listener = -1, .lock = -1, .spare = -1, .signals = -1,
		.started_us = loop_now(), .silent_us = UINT64_MAX };
	struct fault f = { 0 };
	int r = open_all(&s, &f);

	if (!r) {
		notify_open(&s.notify, s.started_us);
		start_engine(&s);
		r = serve(&s);
	}
	if (r) {
		log_error("%s", r > 0 ? f.text : strerror(-r));
		s.code = EXIT_FAILURE;
	}
	close_all(&s);
	return s.code;
}

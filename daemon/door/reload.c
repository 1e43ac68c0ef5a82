/* SIGHUP; see reload.h. */
#include "reload.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor.h"

/* ---- what it changes ---- */

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
		size_t size = setting_size(s);
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

/* Takes over the rules. */
static void take(struct supervisor *s, struct reload_fresh *fresh) {
	rules_clear(&s->rules);
	s->rules = fresh->rules;
	fresh->rules = (struct rules){ 0 };
	take_reloaded(&s->config, &fresh->config);
	take_origins(&s->origins, &fresh->origins);
	admin_resolve(s);
	log_set_level((enum log_level)s->config.log_level);
	engines_reload(s);
	rights_changed(s);
	gateway_reload(s);
	log_info("the configuration was read again");
}

/* ---- how it goes ---- */

static struct reload_fresh *fresh_free(struct reload_fresh *fresh) {
	if (fresh)
		rules_clear(&fresh->rules);
	free(fresh);
	return NULL;
}

static void close_output(struct reload *l) {
	l->source = loop_remove(l->source);
	if (l->check.out >= 0)
		close(l->check.out);
	l->check.out = -1;
}

/* r: 0, or why nothing changes. */
static void finish(struct supervisor *s, int r, const struct fault *f) {
	struct reload *l = &s->reload;

	close_output(l);
	l->deadline_us = 0;
	snprintf(l->error, sizeof l->error, "%s", !r ? "" : r > 0 ? f->text : strerror(-r));
	l->failures += r != 0;
	if (r)
		log_error("the configuration stays as it was: %s", l->error);
	else
		take(s, l->fresh);
	l->fresh = fresh_free(l->fresh);
	notify_status_soon(&s->notify);
	if (s->notify.ready)
		notify_ready(&s->notify);
	if (l->again)
		reload_begin(s);
}

/* What more it says than a sentence has room for is not read. */
static void on_output(void *user, uint32_t events) {
	struct reload *l = user;
	size_t left = sizeof l->check.text - 1 - l->got;
	ssize_t n = left ? read(l->check.out, l->check.text + l->got, left) : 0;

	(void)events;
	if (n > 0)
		l->got += (size_t)n;
	else
		l->source = loop_remove(l->source);
}

/* One that was killed and has not ended hangs in the kernel, as on a file of a machine that is gone: another one would, too. */
static int start_check(struct supervisor *s, struct fault *f) {
	struct reload *l = &s->reload;
	int r;

	if (l->check.pid)
		return fault_set(f, FAULT_INTERNAL, "process %d, which looked at remote.* for the reload before, was killed and does not end", (int)l->check.pid);
	l->got = 0;
	r = child_check_begin(&l->check, &l->fresh->config, s->source, f);
	if (r || !l->check.pid)
		return r;
	l->deadline_us = loop_now() + CHECK_US;
	return loop_add(s->loop, l->check.out, EPOLLIN, on_output, l, &l->source);
}

void reload_begin(struct supervisor *s) {
	struct reload *l = &s->reload;
	struct fault f;
	int r;

	l->again = l->fresh != NULL;
	if (l->again || s->stopping)
		return;
	notify_reloading(&s->notify, loop_now());
	l->fresh = calloc(1, sizeof *l->fresh);
	r = l->fresh ? config_load_checked(&l->fresh->config, &l->fresh->origins, &l->fresh->rules, s->source, &f) : -ENOMEM;
	if (!r)
		r = start_check(s, &f);
	if (r || !l->check.pid)
		finish(s, r, &f);
}

void reload_reap(struct supervisor *s) {
	struct reload *l = &s->reload;
	struct fault f;
	int status = 0;

	if (!l->check.pid || waitpid(l->check.pid, &status, WNOHANG) != l->check.pid)
		return;
	l->check.pid = 0;
	while (l->source)
		on_output(l, EPOLLIN);
	l->check.text[l->got] = 0;
	if (l->fresh)
		finish(s, child_check_judge(&l->check, status, &f), &f);
}

uint64_t reload_tick(struct supervisor *s, uint64_t now) {
	struct reload *l = &s->reload;
	struct fault f;

	if (!l->deadline_us)
		return UINT64_MAX;
	if (now < l->deadline_us)
		return l->deadline_us;
	kill(l->check.pid, SIGKILL);
	finish(s, child_check_late(&f), &f);
	return l->deadline_us ? l->deadline_us : UINT64_MAX;
}

void reload_end(struct supervisor *s) {
	struct reload *l = &s->reload;

	if (l->check.pid)
		kill(l->check.pid, SIGKILL);
	close_output(l);
	l->fresh = fresh_free(l->fresh);
}

/*
 * Fusion patterns that users define: the daemon reads and keeps them, so all of it is a question to it. What a session defined goes
 * with its engine, so the context remembers the texts, and tells them to the next one. Patterns for all clients are the administrator's to
 * define again.
 */
#include "pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/message.h"
#include "context.h"
#include "record.h"

/* ---- what is remembered ---- */

static void pattern_free(struct own_pattern *p) {
	free(p->signature);
	free(p->text);
	free(p);
}

struct own_pattern *own_patterns_free(struct own_pattern *first) {
	while (first) {
		struct own_pattern *next = first->next;

		pattern_free(first);
		first = next;
	}
	return NULL;
}

/* "name(a, b)", or a name alone. */
static bool same_name(const char *signature, const char *name) {
	size_t length = strcspn(name, " (");

	return length == strcspn(signature, " (") && !strncmp(signature, name, length);
}

const struct own_pattern *own_pattern_find(const struct own_pattern *first, const char *name) {
	while (first && !same_name(first->signature, name))
		first = first->next;
	return first;
}

static void forget(struct fusion_context *c, const char *name) {
	struct own_pattern **link = &c->patterns, *p;

	while ((p = *link))
		if (same_name(p->signature, name)) {
			*link = p->next;
			pattern_free(p);
		} else {
			link = &p->next;
		}
}

static struct own_pattern *pattern_new(const char *signature, const char *text) {
	struct own_pattern *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->signature = strdup(signature);
	p->text = strdup(text);
	if (p->signature && p->text)
		return p;
	pattern_free(p);
	return NULL;
}

/* At the end: a later one may stand on an earlier one. Where memory is short the next engine does not hear of it. */
static void remember(struct fusion_context *c, const char *signature, const char *text) {
	struct own_pattern **link = &c->patterns;

	while (*link)
		link = &(*link)->next;
	*link = pattern_new(signature, text);
}

int own_patterns_copy(const struct own_pattern *first, struct own_pattern **copyp) {
	struct own_pattern **link = copyp;

	*copyp = NULL;
	for (; first; first = first->next) {
		*link = pattern_new(first->signature, first->text);
		if (!*link) {
			*copyp = own_patterns_free(*copyp);
			return -ENOMEM;
		}
		link = &(*link)->next;
	}
	return 0;
}

/* ---- telling an engine ---- */

/* Returns once it was answered: `words`, behind whom it is for where that is asked. */
static int tell(struct fusion_context *c, enum message_request kind, const bool *whole_daemon, const char *const *word, unsigned words,
	struct answer *a, struct fault *f) {
	struct wire_writer *w;
	struct request *q;
	int r = stream_room_to_wait(c, &q, f);

	if (r)
		return r;
	w = stream_begin(c, q, kind, (whole_daemon != NULL) + words);
	if (whole_daemon)
		wire_put_uint(w, *whole_daemon);
	for (unsigned i = 0; i < words; i++)
		wire_put_text(w, word[i]);
	/* Where there is no memory for it, it cannot be taken back. */
	if (kind == REQUEST_PATTERN && whole_daemon) {
		q->setting = strndup(word[0], strcspn(word[0], "("));
		q->whole_daemon = *whole_daemon;
	}
	return stream_ask(c, q, a, f);
}

/* ---- another engine ---- */

/* A refusal is no reason to end a session: results are the same without the pattern. */
static int answer_or_loss(struct fusion_context *c, int r, const struct answer *a) {
	return r && a->done && !c->stream.lost.code ? 0 : r;
}

static int define_again(struct fusion_context *c, const struct own_pattern *p, struct fault *f) {
	const char *const word[] = { p->signature, p->text };
	const bool whole_daemon = false;
	struct answer a = { 0 };

	return answer_or_loss(c, tell(c, REQUEST_PATTERN, &whole_daemon, word, 2, &a, f), &a);
}

static int switch_again(struct fusion_context *c, const char *name, const char *value, struct fault *f) {
	const char *const word[] = { name, value };
	struct answer a = { 0 };

	return answer_or_loss(c, tell(c, REQUEST_CONFIGURE, NULL, word, 2, &a, f), &a);
}

bool pattern_is_switch(const char *setting) {
	return !strncmp(setting, PATTERN_SWITCH, strlen(PATTERN_SWITCH));
}

int own_patterns_resume(struct fusion_context *c, struct fault *f) {
	int r = 0;

	for (const struct own_pattern *p = c->patterns; !r && p; p = p->next)
		r = define_again(c, p, f);
	for (unsigned i = 0; !r && i < c->settings; i++)
		if (pattern_is_switch(c->setting[i]))
			r = switch_again(c, c->setting[i], c->setting[i] + strlen(c->setting[i]) + 1, f);
	return r;
}

/* ---- questions ---- */

static int send_texts(struct recording *r, enum message_request kind, bool whole_daemon, const char *const *text, unsigned texts) {
	struct answer a = { 0 };
	int failed = door_need_feature(&r->context->door, FEATURE_PATTERNS, r->what, &r->fault);

	if (failed)
		return failed;
	for (unsigned i = 0; i < texts; i++)
		if (!text[i])
			return fault_set(&r->fault, FAULT_ARGUMENT, "%s: %s is NULL", r->what, i ? "text" : "name");
	failed = tell(r->context, kind, &whole_daemon, text, texts, &a, &r->fault);
	/* The daemon begins with the pattern's name. */
	if (failed > 0 && a.done)
		fault_prefix(&r->fault, "%s", r->what);
	return failed;
}

static int ask(fusion_context *context, const char *what, enum message_request kind, bool whole_daemon,
	const char *const *text, unsigned texts) {
	struct fault f = { 0 };
	struct recording r;
	int failed;

	if (!record_begin_source(&r, what, context))
		return fusion_error_code();
	repeat_settings_changed(r.context);
	failed = send_texts(&r, kind, whole_daemon, text, texts);
	f = r.fault;
	if (!failed && !whole_daemon && kind == REQUEST_PATTERN)
		remember(r.context, text[0], text[1]);
	else if (!failed && !whole_daemon)
		forget(r.context, text[0]);
	context_leave(r.context);
	return error_report(failed, &f);
}

int fusion_define_pattern(fusion_context *context, const char *name, const char *text, bool whole_daemon) {
	const char *const texts[] = { name, text };

	return ask(context, "define_pattern", REQUEST_PATTERN, whole_daemon, texts, 2);
}

int fusion_forget_pattern(fusion_context *context, const char *name, bool whole_daemon) {
	return ask(context, "forget_pattern", REQUEST_FORGET_PATTERN, whole_daemon, &name, 1);
}

/*
 * EVENTS: what happened since somebody asked last. The first question begins the recording (base/trace.h), and a few seconds
 * without one end it: who asks may vanish. Of other users' sessions only who governs hears.
 */
#include "request.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "protocol/message.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/str.h"
#include "daemon/base/trace.h"
#include "daemon/base/version.h"

enum {
	/* As long as a reader may take for what it does between two questions. */
	EVENTS_STOP_US = 5 * 1000 * 1000,
	/* In one answer: a frame has room for them, and the loop is not held up for longer than a millisecond or two. */
	EVENTS_ANSWER = 4096,
	/* Of 64 bits; five of these, a kind, a text, and what stands between. */
	EVENT_DIGITS = 20,
	EVENT_LINE = 5 * (EVENT_DIGITS + 1) + TRACE_TEXT + 32,
};

static bool is_visible(const struct session *s, const struct trace_event *e) {
	return !e->session || session_may_see(s, e->uid);
}

/* Thousands of them a second must cost the engine little: printf would be most of it. */
static char *put_number(char *to, uint64_t number) {
	char digit[EVENT_DIGITS];
	char *first = digit + sizeof digit;

	do
		*--first = (char)('0' + number % 10);
	while (number /= 10);
	*to++ = ',';
	memcpy(to, first, (size_t)(digit + sizeof digit - first));
	return to + (digit + sizeof digit - first);
}

/* Texts are names of operations and words of ours: nothing that JSON would need escaped. */
static void put_event(struct str *text, const struct trace_event *e, bool first) {
	char line[EVENT_LINE], *end = stpcpy(line, first ? "[\"" : ",[\"");

	end = stpcpy(end, trace_kind_name(e->kind));
	*end++ = '"';
	end = put_number(end, e->session);
	end = put_number(end, e->begin_ns);
	end = put_number(end, e->end_ns);
	end = put_number(end, e->number[0]);
	end = put_number(end, e->number[1]);
	end = stpcpy(end, ",\"");
	end = stpcpy(end, e->text);
	end = stpcpy(end, "\"]");
	str_append_bytes(text, line, (size_t)(end - line));
}

/* From event `from` on; where that is gone, or the recording has only begun, from the oldest there is. */
static uint64_t put_events(struct str *text, const struct session *s, uint64_t of, uint64_t from, uint64_t *lostp) {
	uint64_t end = trace_count(), next = from;
	bool first = true;
	unsigned put = 0;

	*lostp = 0;
	for (; next < end && put < EVENTS_ANSWER; next++) {
		const struct trace_event *e = trace_at(next);

		*lostp += !e;
		if (!e || !is_visible(s, e) || (of && e->session != of))
			continue;
		put_event(text, e, first);
		first = false;
		put++;
	}
	return next;
}

/* The rest is told without, where the driver keeps no times. */
static void time_launches(struct server *v, uint64_t session) {
	int r = exec_time_launches(v->exec, true);

	v->timed_for = !v->timed_for || v->timed_for == session ? session : UINT64_MAX;
	v->timed_no_more = false;
	if (r)
		log_warning("events do not tell when launches are on the device: %s", strerror(-r));
}

int events_request(struct request *r, struct fault *f) {
	struct server *v = r->session->server;
	struct str text = { 0 };
	uint64_t from, of, device = 0, lost, next;
	int code = wire_get_uint(&r->body, "from", UINT64_MAX, &from, f);

	if (!code)
		code = wire_get_uint(&r->body, "session", UINT64_MAX, &of, f);
	if (!code && r->body.left)
		code = wire_get_uint(&r->body, "device", 1, &device, f);
	if (!code)
		code = wire_get_end(&r->body, "EVENTS", f);
	if (!code)
		code = trace_start();
	if (code)
		return code;
	if (device)
		time_launches(v, r->session->id);
	exec_tell_launches(v->exec);
	v->trace_until_us = loop_now() + EVENTS_STOP_US;
	/* UINT64_MAX: from now on. */
	if (from > trace_count())
		from = trace_count();
	str_append(&text, "{\"events\":[");
	next = put_events(&text, r->session, of, from, &lost);
	str_printf(&text, "],\"next\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"now_ns\":%" PRIu64 "}", next, lost, loop_now_ns());
	code = str_finish(&text);
	if (!code)
		code = request_send_text(r, str_text(&text), f);
	str_free(&text);
	return code;
}

void events_session_ends(struct server *v, uint64_t session) {
	if (v->timed_for != session)
		return;
	v->timed_for = 0;
	v->timed_no_more = true;
}

static void time_no_launches(struct server *v) {
	v->timed_for = 0;
	v->timed_no_more = false;
	if (exec_time_launches(v->exec, false))
		log_error("the device's queue for launches that are timed cannot be left");
}

void events_turn(struct server *v) {
	bool over;

	if (!trace_on)
		return;
	exec_tell_launches(v->exec);
	over = loop_now() > v->trace_until_us;
	if (over)
		trace_stop();
	if (over || v->timed_no_more)
		time_no_launches(v);
}

/*
 * The window: how long operations of a session wait for others to be fused with.
 *
 * Waiting costs nothing while the device has something else to do, and is all cost while it has
 * not. So: a batch that meets an idle device runs at once; while the device is busy, batches
 * gather until it becomes idle, until the settings fusion.window_* say so, or until a value is
 * asked for.
 */
#include "server.h"

#include <utlist.h>

#include "daemon/base/loop.h"

static void open_window(struct session *s) {
	if (s->windowed)
		return;
	s->windowed = true;
	s->deadline_us = loop_now() + s->settings.window_us;
	DL_APPEND2(s->server->gathering, s, window_previous, window_next);
}

/* Why it must not wait; false where it may. */
static bool window_ends(const struct session *s, bool urgent, enum flush_reason *reasonp) {
	const struct fusion_settings *set = &s->settings;

	if (urgent)
		*reasonp = FLUSH_URGENT;
	else if (!exec_busy(s->server->exec))
		*reasonp = FLUSH_IDLE;
	else if (s->gathered >= set->window_ops || !fusion_settings_enabled(set, s->server->traits->strategy) || !set->window_us)
		*reasonp = FLUSH_OPERATIONS;
	else if (graph_bytes(s->graph) >= set->window_bytes)
		*reasonp = FLUSH_BYTES;
	else
		return false;
	return true;
}

bool window_at_once(const struct session *s, bool urgent) {
	return urgent || !exec_busy(s->server->exec) || !fusion_settings_enabled(&s->settings, s->server->traits->strategy) || !s->settings.window_us;
}

void window_added(struct session *s, bool urgent) {
	enum flush_reason reason;

	if (!s->gathered)
		return;
	if (window_ends(s, urgent, &reason))
		flush_session(s, reason);
	else
		open_window(s);
}

void window_turn(struct server *v) {
	struct session *next;
	uint64_t now;
	bool idle;

	if (!v->gathering)
		return;
	idle = !exec_busy(v->exec);
	now = loop_now();
	for (struct session *s = v->gathering; s; s = next) {
		next = s->window_next;
		if (idle || s->deadline_us <= now)
			flush_session(s, idle ? FLUSH_IDLE : FLUSH_TIME);
	}
}

uint64_t window_deadline(const struct server *v) {
	const struct session *s;
	uint64_t first = UINT64_MAX;

	DL_FOREACH2(v->gathering, s, window_next)
		if (s->deadline_us < first)
			first = s->deadline_us;
	return first;
}

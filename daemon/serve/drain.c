/*
 * The end of an engine that is told to end: what clients have asked for is finished, what they ask for from then on is refused
 * with a sentence, and a client that has its results may still read them. All of that is over after engine.drain_us.
 */
#include "daemon/serve/server.h"

#include "daemon/base/loop.h"

enum {
	/* Once nothing is left to do, a client that was woken by one result asks for the next within this. */
	DRAIN_QUIET_US = 100 * 1000,
};

void drain_begin(struct server *v) {
	uint64_t now = loop_now();

	v->drain = (struct drain){ .deadline_us = now + v->config.engine_drain_us, .quiet_us = now, .requests = v->requests };
}

static bool is_busy(const struct session *s) {
	return s->queued || s->windowed || s->held || s->waiters;
}

bool drain_done(struct server *v) {
	bool busy = v->drain.requests != v->requests;
	uint64_t now;

	if (!v->drain.deadline_us)
		return false;
	now = loop_now();
	if (now >= v->drain.deadline_us || !v->sessions)
		return true;
	for (const struct session *s = v->sessions; s && !busy; s = s->hh.next)
		busy = is_busy(s);
	if (busy) {
		v->drain.quiet_us = now;
		v->drain.requests = v->requests;
	}
	return now - v->drain.quiet_us >= DRAIN_QUIET_US;
}

int drain_refuse(const struct server *v, struct fault *f) {
	if (!v->drain.deadline_us)
		return 0;
	return fault_set(f, FAULT_REPEATABLE,
		"the daemon is stopping: it finishes what it was asked for before, and these operations were not run; where it is being "
		"restarted they may be asked for again");
}

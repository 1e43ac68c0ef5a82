/*
 * The end of an engine that is told to end: what clients have asked for is finished, what they ask for from then on is refused
 * with a sentence, and a client that has its results may still read them. All of that is over after engine.drain_us; what the device is at then is waited for.
 *
 * Only what came before counts: who asks on and on, and is refused, holds nothing up. Of a session whose client repeats at the next daemon what this one had
 * not begun, no more operations are accepted, and what the device has is waited for alone; where its arrays are in memory that the next daemon has, too, it has
 * nothing to read here.
 */
#include "daemon/serve/server.h"

#include <utlist.h>

#include "daemon/base/loop.h"
#include "daemon/serve/wait.h"

enum {
	/* Once nothing is left to do, a client that was woken by one result asks for the next within this. */
	DRAIN_QUIET_US = 100 * 1000,
};

static void mark(const struct session *s) {
	struct waiter *w;
	struct held *h;

	DL_FOREACH2(s->waiters, w, next)
		w->before = true;
	DL_FOREACH2(s->held, h, next)
		h->before = true;
}

void drain_begin(struct server *v) {
	uint64_t now = loop_now();

	v->drain = (struct drain){ .deadline_us = now + v->config.engine_drain_us, .quiet_us = now, .results = v->results };
	for (const struct session *s = v->sessions; s; s = s->hh.next)
		mark(s);
}

static bool is_waited_for(const struct session *s) {
	const struct waiter *w;
	const struct held *h;

	DL_FOREACH2(s->waiters, w, next)
		if (w->before)
			return true;
	DL_FOREACH2(s->held, h, next)
		if (h->before)
			return true;
	return false;
}

static bool is_busy(const struct session *s) {
	if (s->repeats)
		return session_under_way(s);
	return s->queued || s->windowed || s->planning || is_waited_for(s);
}

/* Has its client something to fetch before the end? */
static bool fetches(const struct session *s) {
	return !s->repeats || !device_flat(s->server->device);
}

bool drain_done(struct server *v) {
	bool busy = v->drain.results != v->results;
	bool fetched = true;
	uint64_t now;

	if (!v->drain.deadline_us)
		return false;
	now = loop_now();
	if (now >= v->drain.deadline_us || !v->sessions)
		return true;
	for (const struct session *s = v->sessions; s && !busy; s = s->hh.next) {
		busy = is_busy(s);
		fetched &= !fetches(s);
	}
	if (busy) {
		v->drain.quiet_us = now;
		v->drain.results = v->results;
	}
	return !busy && (fetched || now - v->drain.quiet_us >= DRAIN_QUIET_US);
}

/*
 * Memory that the device writes is not given up before it has, so this process waits for it in any case: what comes of it is noted first. A device that
 * never ends is the supervisor's to end, after engine.stop_us.
 */
void drain_end(struct server *v) {
	unsigned late = 0;

	for (const struct session *s = v->sessions; s; s = s->hh.next)
		late += session_under_way(s);
	if (late)
		log_info("engine.drain_us is over, and the device is at something of %u sessions still", late);
	exec_finish(v->exec);
}

bool drain_leaves(const struct session *s) {
	return s->repeats && s->server->drain.deadline_us;
}

int drain_refuse(const struct server *v, struct fault *f) {
	if (!v->drain.deadline_us)
		return 0;
	return fault_set(f, FAULT_REPEATABLE,
		"the daemon is stopping: it finishes what it was asked for before, and these operations were not run; where it is being "
		"restarted they may be asked for again");
}

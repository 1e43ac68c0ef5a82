/*
 * The log of slow graphs: runs that took longer than log.slow_graph_us, from when they were handed to exec until the device was done.
 * One line a second at most, so that no client fills a disk; it says how many were left out.
 */
#include "daemon/serve/server.h"

#include <inttypes.h>

#include "daemon/base/loop.h"

enum {
	SLOW_LINE_US = 1000 * 1000,
};

static uint64_t built(const struct server *v) {
	const struct device_counters *c = device_counters(v->device);

	return c->builds + c->builds_cached;
}

void slow_begin(struct run *run) {
	const struct server *v = run->session->server;

	if (!v->config.log_slow_graph_us)
		return;
	run->began_us = loop_now();
	run->built = built(v);
}

static void write_line(const struct run *run, uint64_t took_us) {
	const struct session *s = run->session;
	const struct plan *p = run->plan;

	log_notice("slow graph: session %" PRIu64 " (%s, process %d of user %u), batches %" PRIu64 " to %" PRIu64 ": %" PRIu64
		   " operations in %u kernels took %.1f ms; %" PRIu64 " programs were made ready meanwhile; %" PRIu64
		   " slow graphs before were not told",
		s->id, s->name, (int)s->pid, (unsigned)s->uid, run->first, run->last, run->operations, p->steps, (double)took_us / 1e3,
		built(s->server) - run->built, s->server->slow.untold);
}

void slow_end(const struct run *run) {
	struct server *v = run->session->server;
	uint64_t now;

	if (!run->began_us || !v->config.log_slow_graph_us)
		return;
	now = loop_now();
	if (now - run->began_us < v->config.log_slow_graph_us)
		return;
	if (now < v->slow.next_us) {
		v->slow.untold++;
		return;
	}
	write_line(run, now - run->began_us);
	v->slow = (struct slow){ .next_us = now + SLOW_LINE_US };
}

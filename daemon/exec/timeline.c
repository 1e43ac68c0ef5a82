/*
 * When launches were on the device, for who draws a timeline.
 *
 * While it is on, all launches go the way of those that are timed (device_timed()), and each leaves the driver's stamp here. Nothing waits
 * for one: who looks whether there are events takes the oldest stamps that can be read, until one cannot. The queue is in order, so none behind that can.
 *
 * The device's clock begins anywhere and may run a little faster or slower than ours, and OpenCL 1.2 has no call that reads both. But a launch
 * bounds what lies between them: it was queued after the call began and before that returned, and ended before its stamp could be read. The
 * distance is kept and moved no farther than each launch wants it; so it follows the clock, and no launch is drawn before its cause.
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/base/trace.h"

enum {
	/* With the device: as many as its queue takes. Two to four KiB of a driver each. */
	TIMELINE_LAUNCHES = 4096,
};

struct timeline_launch {
	struct stamp *stamp;
	const char *kernel;
	uint64_t event;              /* the first of its events, which are as many as sessions have a part in it */
	unsigned events;
	uint64_t begin_ns, end_ns;   /* of the call that queued it, by our clock */
};

struct timeline {
	bool known;                  /* the distance */
	int64_t distance_ns;         /* our clock less the device's */
	uint64_t first, end;         /* launches ever told, and ever noted */
	struct timeline_launch launch[TIMELINE_LAUNCHES];
};

static int64_t apart(uint64_t ours, uint64_t devices) {
	return (int64_t)(ours - devices);
}

/* Some drivers know when a launch ran, but not when it was queued. */
static bool queued_known(const struct stamp_times *at) {
	return at->queued && at->queued <= at->start;
}

static void keep_within(struct timeline *t, int64_t least, int64_t most) {
	if (!t->known || t->distance_ns > most)
		t->distance_ns = most;
	if (t->distance_ns < least)
		t->distance_ns = least;
	t->known = true;
}

static void measure(struct timeline *t, const struct timeline_launch *l, const struct stamp_times *at) {
	bool queued = queued_known(at);

	keep_within(t, apart(l->begin_ns, queued ? at->queued : at->start),
		queued ? apart(l->end_ns, at->queued) : apart(loop_now_ns(), at->end));
}

/* The launch's event, of one session, may have been overwritten meanwhile. */
static void tell_one(const struct timeline *t, const struct timeline_launch *l, const struct stamp_times *at, uint64_t event) {
	const struct trace_event *e = trace_at(event);
	struct trace_event launch;
	struct trace_event *told;

	if (!e)
		return;
	launch = *e;
	told = trace_add(TRACE_DEVICE, &(struct trace_source){ launch.session, launch.uid }, at->start + (uint64_t)t->distance_ns,
		at->end + (uint64_t)t->distance_ns);
	told->number[0] = launch.number[0];
	told->number[1] = launch.number[1];
	/* Of a long list the last names go. */
	snprintf(told->text, sizeof told->text, "%s: %.*s", l->kernel, (int)(sizeof told->text - strlen(l->kernel) - 3), launch.text);
}

static bool tell(struct timeline *t, struct timeline_launch *l) {
	struct stamp_times at;

	if (stamp_read(l->stamp, &at))
		return false;
	measure(t, l, &at);
	for (unsigned i = 0; i < l->events; i++)
		tell_one(t, l, &at, l->event + i);
	l->stamp = stamp_free(l->stamp);
	return true;
}

void exec_tell_launches(struct exec *x) {
	struct timeline *t = x->timeline;

	if (!t)
		return;
	while (t->first < t->end && tell(t, &t->launch[t->first % TIMELINE_LAUNCHES]))
		t->first++;
}

void timeline_launched(struct exec *x, const char *kernel, uint64_t event, unsigned events, uint64_t begin_ns) {
	struct timeline *t = x->timeline;
	struct stamp *stamp;

	if (t->end - t->first == TIMELINE_LAUNCHES)
		exec_tell_launches(x);
	stamp = t->end - t->first < TIMELINE_LAUNCHES ? device_stamp(x->device) : NULL;
	if (stamp)
		t->launch[t->end++ % TIMELINE_LAUNCHES] = (struct timeline_launch){ stamp, kernel, event, events, begin_ns, loop_now_ns() };
}

static void forget(struct exec *x) {
	struct timeline *t = x->timeline;

	for (; t->first < t->end; t->first++)
		stamp_free(t->launch[t->first % TIMELINE_LAUNCHES].stamp);
	free(t);
	x->timeline = NULL;
}

int exec_time_launches(struct exec *x, bool on) {
	if (on == (x->timeline != NULL))
		return 0;
	if (!on) {
		forget(x);
		return device_timed(x->device, false);
	}
	x->timeline = calloc(1, sizeof *x->timeline);
	if (!x->timeline)
		return -ENOMEM;
	if (!device_timed(x->device, true))
		return 0;
	forget(x);
	return -EIO;
}

/* The ring of events; see trace.h. */
#include "trace.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool trace_on;

static struct {
	struct trace_event *event;
	uint64_t count;
} ring;

int trace_start(void) {
	if (trace_on)
		return 0;
	ring.event = calloc(TRACE_EVENTS, sizeof *ring.event);
	if (!ring.event)
		return -ENOMEM;
	trace_on = true;
	return 0;
}

/* The count goes on, so that who reads later knows what is missing. */
void trace_stop(void) {
	trace_on = false;
	free(ring.event);
	ring.event = NULL;
}

struct trace_event *trace_add(enum trace_kind kind, const struct trace_source *who, uint64_t begin_ns, uint64_t end_ns) {
	struct trace_event *e = &ring.event[ring.count++ % TRACE_EVENTS];

	e->begin_ns = begin_ns;
	e->end_ns = end_ns;
	e->session = who ? who->session : 0;
	e->uid = who ? who->uid : 0;
	e->number[0] = e->number[1] = 0;
	e->kind = (uint8_t)kind;
	e->text[0] = 0;
	return e;
}

bool trace_word(struct trace_event *e, const char *word) {
	size_t used = strlen(e->text), length = strlen(word);

	/* " ..." and the zero fit behind what fits. */
	if (used + 1 + length + 5 > TRACE_TEXT) {
		if (used < 4 || strcmp(e->text + used - 4, " ...") != 0)
			strcpy(e->text + used, " ...");
		return false;
	}
	if (used)
		e->text[used++] = ' ';
	memcpy(e->text + used, word, length + 1);
	return true;
}

uint64_t trace_count(void) {
	return ring.count;
}

const struct trace_event *trace_at(uint64_t i) {
	if (!trace_on || i >= ring.count || ring.count - i > TRACE_EVENTS)
		return NULL;
	return &ring.event[i % TRACE_EVENTS];
}

const char *trace_kind_name(enum trace_kind kind) {
	static const char *const names[] = { [TRACE_REQUEST] = "request", [TRACE_WINDOW] = "window", [TRACE_PLAN] = "plan",
		[TRACE_BUILD] = "build", [TRACE_LAUNCH] = "launch", [TRACE_RUN] = "run", [TRACE_COPY] = "copy",
		[TRACE_DEVICE] = "device" };

	return names[kind];
}

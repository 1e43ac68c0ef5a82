/*
 * Events of all engines, asked for ten times a second; see events.h. A session with each engine is held meanwhile.
 */
#include "events.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol/message.h"

enum {
	/* Between two questions. An engine keeps what happens in some tenths of a second of its busiest. */
	FOLLOW_MS = 100,
	FOLLOW_ENGINES = 32,
	/* An answer of more events is followed by another question at once. */
	ASK_AGAIN = 1000,
};

static const struct {
	const char *kind, *number[2];
} kinds[] = {
	{ "request", { "message", "bytes" } },
	{ "window", { "operations", NULL } },
	{ "plan", { "operations", "kernels" } },
	{ "build", { "compiler_us", "values" } },
	{ "launch", { "tasks", "operations" } },
	{ "run", { "operations", "kernels" } },
	{ "copy", { "bytes", NULL } },
	{ "device", { "tasks", "operations" } },
};

enum {
	KINDS = sizeof kinds / sizeof *kinds,
	KIND_DEVICE = KINDS - 1,
};

static int kind_of(const char *kind, size_t length) {
	for (int i = 0; i < KINDS; i++)
		if (strlen(kinds[i].kind) == length && !strncmp(kinds[i].kind, kind, length))
			return i;
	return -1;
}

const char *event_kind_name(unsigned i) {
	return i < KINDS ? kinds[i].kind : NULL;
}

const char *event_number(const char *kind, unsigned i) {
	int k = kind_of(kind, strlen(kind));

	return k < 0 ? NULL : kinds[k].number[i];
}

const char *event_message(double number) {
	switch ((enum message_request)number) {
#define REQUEST(id, name, doc)                                                                                  \
	case id:                                                                                                \
		return #name;
#include "protocol/messages.def"
	default:
		return "?";
	}
}

/* ---- engines ---- */

struct engine {
	unsigned number;
	fusion_context *context;
	double next;                 /* the number of the next event; below 0: from now on */
};

struct follow {
	const struct control *control;
	const struct events_callbacks *to;
	struct engine engine[FOLLOW_ENGINES];
	unsigned engines, wanted;    /* wanted: bits of kinds */
};

static int note_engine(void *user, unsigned engine, fusion_context *context, struct fault *f) {
	struct follow *w = user;

	(void)context;
	(void)f;
	if (w->engines < FOLLOW_ENGINES)
		w->engine[w->engines++] = (struct engine){ .number = engine, .next = -1 };
	return 0;
}

static int open_engines(struct follow *w, struct fault *f) {
	int r = control_each_engine(w->control, note_engine, w, f);

	for (unsigned i = 0; !r && i < w->engines; i++)
		r = control_open_engine(w->control, w->engine[i].number, &w->engine[i].context, f);
	if (!r && !w->engines)
		r = fault_set(f, FAULT_CONNECT, "no engine of the daemon is ready");
	return r;
}

/* ---- rounds ---- */

/*
 * The answer of fusion-protocol(7) is flat and may be a megabyte a second, so it is read in place: making a tree of it would cost
 * the machine that is watched more than what happens there.
 */

/* "..." at *textp, which is ended there; NULL where there is none. */
static char *take_word(char **textp) {
	char *word = strchr(*textp, '"'), *end = word ? strchr(word + 1, '"') : NULL;

	if (!end)
		return NULL;
	*end = 0;
	*textp = end + 1;
	return word + 1;
}

/* ",NUMBER" at *textp. */
static double take_number(char **textp) {
	return (double)strtoull(*textp + (**textp == ','), textp, 10);
}

/* One "[...]" at *textp; false where there is no further one. */
static bool take_event(char **textp, struct event *e) {
	char *text = *textp;

	text += *text == ',';
	if (*text != '[')
		return false;
	e->kind = take_word(&text);
	if (!e->kind)
		return false;
	e->session = take_number(&text);
	e->begin_ns = take_number(&text);
	e->end_ns = take_number(&text);
	e->number[0] = take_number(&text);
	e->number[1] = take_number(&text);
	e->text = take_word(&text);
	*textp = text + (*text == ']');
	return e->text != NULL;
}

static void tell(const struct follow *w, const struct event *e) {
	int kind = kind_of(e->kind, strlen(e->kind));

	if (kind >= 0 && w->wanted & 1U << kind)
		w->to->event(w->to->user, e);
}

/* "NAME":NUMBER behind the events. */
static double field(const char *text, const char *name) {
	const char *at = strstr(text, name);

	return at ? (double)strtoull(at + strlen(name), NULL, 10) : 0;
}

/* All that there is: an answer holds a few thousand. */
static int ask(struct follow *w, struct engine *e, struct fault *f) {
	bool more = true;
	int r = 0;

	while (!r && more) {
		uint64_t from = e->next < 0 ? UINT64_MAX : (uint64_t)e->next;
		enum fusion_inspection what = w->wanted & 1U << KIND_DEVICE ? FUSION_INSPECT_TIMELINE : FUSION_INSPECT_EVENTS;
		char *text = fusion_inspect(e->context, what, from, w->control->session), *at = text;
		struct event event = { .engine = e->number };
		unsigned count = 0;

		if (!text)
			return text_library_fault(f);
		at = strstr(text, "\"events\":[");
		for (at = at ? at + strlen("\"events\":[") : text; take_event(&at, &event); count++)
			tell(w, &event);
		if (field(at, "\"lost\":") > 0 && w->to->lost)
			w->to->lost(w->to->user, e->number, field(at, "\"lost\":"));
		more = count > ASK_AGAIN;
		e->next = field(at, "\"next\":");
		free(text);
	}
	return r;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
	(void)number;
	interrupted = 1;
}

static double now_s(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int follow(struct follow *w, struct fault *f) {
	double end = w->control->seconds > 0 ? now_s() + w->control->seconds : 0;
	const struct timespec pause = { .tv_nsec = FOLLOW_MS * 1000000L };
	bool last = false;
	int r = 0;

	while (!r && !last) {
		/* What happened before the end was reached is asked for once more. */
		last = interrupted || (end > 0 && now_s() >= end) || ferror(stdout);
		for (unsigned i = 0; !r && i < w->engines; i++)
			r = ask(w, &w->engine[i], f);
		if (w->to->round)
			w->to->round(w->to->user);
		if (!r && !last)
			nanosleep(&pause, NULL);
	}
	return r;
}

/* "plan,launch", names of ours alone; all where there is nothing. */
static void read_kinds(struct follow *w) {
	const char *text = w->control->kind;

	if (!text)
		w->wanted = (1U << KINDS) - 1 - (w->to->device ? 0 : 1U << KIND_DEVICE);
	while (text && *text) {
		size_t length = strcspn(text, ",");
		int kind = kind_of(text, length);

		w->wanted |= kind < 0 ? 0 : 1U << kind;
		text += length + (text[length] == ',');
	}
}

int events_follow(const struct control *c, const struct events_callbacks *to, struct fault *f) {
	struct sigaction action = { .sa_handler = on_interrupt };
	struct follow w = { .control = c, .to = to };
	int r;

	read_kinds(&w);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	r = open_engines(&w, f);
	if (!r)
		r = follow(&w, f);
	for (unsigned i = 0; i < w.engines; i++)
		fusion_close(w.engine[i].context);
	return r;
}

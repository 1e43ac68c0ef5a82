/*
 * fusionctl trace record: a timeline in the format of Chrome's trace events, an object with `traceEvents`, which Perfetto and the
 * tracing page of browsers open; or in Perfetto's own, where the file's name ends in .pftrace (perfetto.h).
 *
 * A client is a process of it, whose tracks are its requests, plans and launches, which the engine does one after the other, and
 * what the device then does, in the same order; what overlaps - windows, and graphs until they have passed - are asynchronous events. Builds
 * and copies are the engine's.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients.h"
#include "control.h"
#include "events.h"
#include "output.h"
#include "perfetto.h"
#include "client/json.h"

#define TRACE_SCHEMA "fusionctl.trace/1"

enum {
	/* An engine's process in the trace; clients have the numbers of their sessions. */
	ENGINE_PROCESS = 1000000000,
};

struct recording {
	const struct control *control;
	FILE *out;
	struct perfetto *perfetto;   /* NULL: the other format */
	int failed;                  /* of Perfetto's */
	uint64_t events, lost, asynchronous;
	cJSON *names;                /* of processes that have one, by their number */
};

static void put(struct recording *t, cJSON *event) {
	char *text = cJSON_PrintUnformatted(event);

	if (text)
		fprintf(t->out, "%s%s", t->events++ ? ",\n" : "", text);
	free(text);
	cJSON_Delete(event);
}

static double process_of(const struct event *e) {
	return e->session > 0 ? e->session : ENGINE_PROCESS + (double)e->engine;
}

static cJSON *begin(const char *name, const char *kind, const char *phase, double process, double ns) {
	cJSON *json = cJSON_CreateObject();

	cJSON_AddStringToObject(json, "name", name);
	cJSON_AddStringToObject(json, "cat", kind);
	cJSON_AddStringToObject(json, "ph", phase);
	cJSON_AddNumberToObject(json, "pid", process);
	cJSON_AddNumberToObject(json, "ts", ns / 1e3);
	return json;
}

/* Tracks of a process, by their order on the screen. */
static const struct track {
	const char *kind;
	int number;
	bool asynchronous;
} tracks[] = {
	{ "request", 1, false },
	{ "window", 2, true },
	{ "plan", 3, false },
	{ "launch", 4, false },
	{ "run", 5, true },
	{ "build", 6, true },
	{ "copy", 7, false },
	{ "device", 8, false },
};

static const struct track *track_of(const char *kind) {
	for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++)
		if (!strcmp(tracks[i].kind, kind))
			return &tracks[i];
	return &tracks[0];
}

static void put_name(struct recording *t, double process, const char *what, int track, const char *name) {
	cJSON *json = cJSON_CreateObject();

	cJSON_AddStringToObject(json, "name", what);
	cJSON_AddStringToObject(json, "ph", "M");
	cJSON_AddNumberToObject(json, "pid", process);
	cJSON_AddNumberToObject(json, "tid", track);
	cJSON_AddStringToObject(cJSON_AddObjectToObject(json, "args"), "name", name);
	put(t, json);
}

/* The first event of a process names its tracks; what the client is called is known at the end. */
static void note_process(struct recording *t, double process) {
	char key[32];

	snprintf(key, sizeof key, "%.0f", process);
	if (json_item(t->names, key))
		return;
	cJSON_AddTrueToObject(t->names, key);
	if (t->perfetto)
		return;
	for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++)
		if (!tracks[i].asynchronous)
			put_name(t, process, "thread_name", tracks[i].number, tracks[i].kind);
}

static bool names_kernel(const struct event *e) {
	return !strcmp(e->kind, "launch") || !strcmp(e->kind, "device");
}

static cJSON *new_arguments(const struct event *e) {
	cJSON *arguments = cJSON_CreateObject();

	for (unsigned i = 0; i < 2; i++)
		if (event_number(e->kind, i))
			cJSON_AddNumberToObject(arguments, event_number(e->kind, i), e->number[i]);
	if (*e->text)
		cJSON_AddStringToObject(arguments, names_kernel(e) ? "kernel" : "how", e->text);
	return arguments;
}

static const char *event_name(const struct event *e) {
	if (!strcmp(e->kind, "request"))
		return event_message(e->number[0]);
	return names_kernel(e) && *e->text ? e->text : e->kind;
}

/* The tracks are called as the kinds are. */
static void put_slice(struct recording *t, const struct event *e) {
	cJSON *arguments = new_arguments(e);
	int r = perfetto_slice(t->perfetto, &(struct perfetto_slice){ .process = (uint64_t)process_of(e), .track = track_of(e->kind)->kind,
		.name = event_name(e), .begin_ns = (uint64_t)e->begin_ns, .end_ns = (uint64_t)e->end_ns, .arguments = arguments });

	t->events++;
	t->failed = t->failed ? t->failed : r;
	cJSON_Delete(arguments);
}

static void put_event(struct recording *t, const struct event *e) {
	const struct track *track = track_of(e->kind);
	double process = process_of(e);
	cJSON *json = begin(event_name(e), e->kind, track->asynchronous ? "b" : "X", process, e->begin_ns);

	cJSON_AddNumberToObject(json, "tid", track->number);
	if (track->asynchronous)
		cJSON_AddNumberToObject(json, "id", (double)++t->asynchronous);
	else
		cJSON_AddNumberToObject(json, "dur", (e->end_ns - e->begin_ns) / 1e3);
	cJSON_AddItemToObject(json, "args", new_arguments(e));
	put(t, json);
	if (!track->asynchronous)
		return;
	json = begin(event_name(e), e->kind, "e", process, e->end_ns);
	cJSON_AddNumberToObject(json, "tid", track->number);
	cJSON_AddNumberToObject(json, "id", (double)t->asynchronous);
	put(t, json);
}

static void on_event(void *user, const struct event *e) {
	struct recording *t = user;

	note_process(t, process_of(e));
	if (t->perfetto)
		put_slice(t, e);
	else
		put_event(t, e);
}

static void on_lost(void *user, unsigned engine, double count) {
	struct recording *t = user;

	(void)engine;
	t->lost += (uint64_t)count;
}

/* Of clients that are still there; others go by the number of their session. */
static void put_names(struct recording *t) {
	cJSON *clients = NULL;
	const cJSON *one, *name;
	struct fault f;

	if (clients_ask(t->control, &clients, &f))
		clients = NULL;
	cJSON_ArrayForEach(name, t->names) {
		double process = strtod(name->string, NULL);
		char text[256];

		if (process >= ENGINE_PROCESS)
			snprintf(text, sizeof text, "engine %.0f", process - ENGINE_PROCESS);
		else
			snprintf(text, sizeof text, "session %.0f", process);
		cJSON_ArrayForEach(one, clients) {
			if (json_number(one, "session") == process)
				snprintf(text, sizeof text, "session %.0f: %.180s", process, json_text(one, "command"));
		}
		if (t->perfetto)
			perfetto_process(t->perfetto, (uint64_t)process, text);
		else
			put_name(t, process, "process_name", 0, text);
	}
	cJSON_Delete(clients);
}

static bool ends_in(const char *path, const char *ending) {
	size_t length = strlen(path);

	return length > strlen(ending) && !strcmp(path + length - strlen(ending), ending);
}

static int write_perfetto(struct recording *t, const struct events_callbacks *to, struct fault *f) {
	int r = perfetto_new(t->out, &t->perfetto);

	if (!r)
		r = events_follow(t->control, to, f);
	if (t->perfetto)
		put_names(t);
	r = r ? r : t->failed;
	t->perfetto = perfetto_free(t->perfetto);
	return r < 0 ? fault_set(f, FAULT_MEMORY, "the timeline: %s", strerror(-r)) : r;
}

static int write_trace(struct recording *t, const char *path, struct fault *f) {
	const struct events_callbacks to = { on_event, on_lost, NULL, t, true };
	int r;

	if (ends_in(path, ".pftrace"))
		return write_perfetto(t, &to, f);
	fprintf(t->out, "{\"schema\":\"" TRACE_SCHEMA "\",\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	r = events_follow(t->control, &to, f);
	put_names(t);
	fprintf(t->out, "\n],\"otherData\":{\"lost\":%" PRIu64 "}}\n", t->lost);
	return r;
}

static void report(const struct recording *t, const char *path) {
	char text[PRINT_TEXT];
	cJSON *json;

	if (!t->control->json) {
		printf("%s: %s%s\n", path, print_counted((double)t->events, "event", text), t->lost ? "; more came than could be kept" : "");
		return;
	}
	json = control_json(TRACE_SCHEMA);
	cJSON_AddStringToObject(json, "file", path);
	cJSON_AddNumberToObject(json, "events", (double)t->events);
	cJSON_AddNumberToObject(json, "lost", (double)t->lost);
	control_print_json(json);
}

static int record(const struct control *c, const char *path, struct fault *f) {
	struct recording t = { .control = c, .out = fopen(path, "we"), .names = cJSON_CreateObject() };
	bool failed;
	int r;

	if (!t.out) {
		cJSON_Delete(t.names);
		return fault_set(f, FAULT_FILE, "%s cannot be written: %s", path, strerror(errno));
	}
	if (!c->json && isatty(STDERR_FILENO))
		fprintf(stderr, "recording%s\n", c->seconds > 0 ? "" : "; Ctrl-C ends it");
	r = write_trace(&t, path, f);
	failed = ferror(t.out);
	if ((fclose(t.out) || failed) && !r)
		r = fault_set(f, FAULT_FILE, "%s cannot be written: %s", path, strerror(errno));
	if (!r)
		report(&t, path);
	cJSON_Delete(t.names);
	return r;
}

/* Where nobody answers the file stays as it is. */
static int find_daemon(const struct control *c, struct fault *f) {
	char *text = NULL;
	int r = control_ask_status(c->socket, &text, f);

	free(text);
	return r;
}

int trace_command(const struct control *c) {
	struct fault f;
	bool writing;
	int r = output_refuse(c, c->word[1], false, &f);

	if (!r)
		r = find_daemon(c, &f);
	writing = !r;
	if (!r)
		r = record(c, c->word[1], &f);
	return r ? output_fail(c, r, writing && r == FAULT_FILE, &f) : FUSIONCTL_OK;
}

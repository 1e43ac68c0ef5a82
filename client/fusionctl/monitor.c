/*
 * fusionctl monitor: what the daemon does, line by line, as it happens. With --json a line is an object.
 */
#include <stdio.h>
#include <string.h>

#include "control.h"
#include "events.h"
#include "print.h"

#define MONITOR_SCHEMA "fusionctl.monitor/1"

struct monitor {
	const struct control *control;
	double start_ns;             /* of the first event: times are told from there */
};

static void print_json(const struct event *e) {
	cJSON *json = cJSON_CreateObject();

	cJSON_AddStringToObject(json, "kind", e->kind);
	cJSON_AddNumberToObject(json, "engine", e->engine);
	if (e->session > 0)
		cJSON_AddNumberToObject(json, "session", e->session);
	cJSON_AddNumberToObject(json, "begin_ns", e->begin_ns);
	cJSON_AddNumberToObject(json, "end_ns", e->end_ns);
	for (unsigned i = 0; i < 2; i++)
		if (event_number(e->kind, i))
			cJSON_AddNumberToObject(json, event_number(e->kind, i), e->number[i]);
	if (!strcmp(e->kind, "request"))
		cJSON_AddStringToObject(json, "name", event_message(e->number[0]));
	if (*e->text)
		cJSON_AddStringToObject(json, "text", e->text);
	control_print_json(json);
}

/* What a number of an event is, by its field's name: "SUBMIT", "1.5 KiB", "compiler 377 ms", "2 operations". */
static char *number_text(const char *field, double number, char text[static PRINT_TEXT]) {
	char time[PRINT_TEXT], noun[PRINT_TEXT];

	/* Fields are plurals. */
	snprintf(noun, sizeof noun, "%.*s", (int)strlen(field) - 1, field);
	if (!strcmp(field, "message"))
		snprintf(text, PRINT_TEXT, "%s", event_message(number));
	else if (!strcmp(field, "bytes"))
		print_bytes(number, text);
	else if (!strcmp(field, "compiler_us"))
		snprintf(text, PRINT_TEXT, "compiler %.32s", print_seconds(number / 1e6, time));
	else
		print_counted(number, noun, text);
	return text;
}

static void print_text(const struct monitor *m, const struct event *e) {
	char took[PRINT_TEXT], session[PRINT_TEXT] = "";

	if (e->session > 0)
		snprintf(session, sizeof session, "%.0f", e->session);
	printf("%12.6f %6s  %-7s %9s  ", (e->begin_ns - m->start_ns) / 1e9, session, e->kind,
		print_seconds((e->end_ns - e->begin_ns) / 1e9, took));
	for (unsigned i = 0; i < 2; i++)
		if (event_number(e->kind, i))
			printf("%s%s", i ? ", " : "", number_text(event_number(e->kind, i), e->number[i], took));
	printf("%s%s\n", *e->text ? ": " : "", e->text);
}

static void on_event(void *user, const struct event *e) {
	struct monitor *m = user;

	if (!(m->start_ns > 0))
		m->start_ns = e->begin_ns;
	if (m->control->json)
		print_json(e);
	else
		print_text(m, e);
}

static void on_lost(void *user, unsigned engine, double count) {
	const struct monitor *m = user;
	char text[PRINT_TEXT];
	cJSON *json;

	if (!m->control->json) {
		printf("... %s of engine %u came too fast to be kept\n", print_counted(count, "event", text), engine);
		return;
	}
	json = cJSON_CreateObject();
	cJSON_AddStringToObject(json, "kind", "lost");
	cJSON_AddNumberToObject(json, "engine", engine);
	cJSON_AddNumberToObject(json, "count", count);
	control_print_json(json);
}

static void on_round(void *user) {
	(void)user;
	fflush(stdout);
}

int monitor_command(const struct control *c) {
	struct monitor m = { .control = c };
	const struct events_callbacks to = { on_event, on_lost, on_round, &m, false };
	struct fault f;
	int r;

	if (c->json)
		control_print_json(control_json(MONITOR_SCHEMA));
	else
		printf("%12s %6s  %-7s %9s\n", "SECONDS", "CLIENT", "WHAT", "TOOK");
	fflush(stdout);
	r = events_follow(c, &to, &f);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

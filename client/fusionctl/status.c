/* fusionctl status: how the daemon is, as its door tells. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

enum {
	/* Longer together than what the daemon calls hung (ENGINE_SILENT_US of its status). */
	STATUS_TRIES = 60,
	STATUS_PAUSE_NS = 50 * 1000 * 1000,
	/* A client's name, and what is said of it. */
	SESSION_TEXT = 160,
};

static bool engines_ready(const cJSON *json) {
	const cJSON *engine;

	cJSON_ArrayForEach(engine, json_item(json, "engines")) {
		if (strcmp(json_text(engine, "state"), "ready") != 0)
			return false;
	}
	return true;
}

static void print_engine(const cJSON *engine) {
	char uptime[PRINT_TEXT], ended[PRINT_TEXT], kept[PRINT_TEXT], lost[PRINT_TEXT];

	print_seconds(json_number(engine, "uptime_s"), uptime);
	if (!strcmp(json_text(engine, "state"), "hung"))
		print_line("engine", "HUNG: process %.0f has answered nothing for %s; it is replaced after engine.hang_us",
			json_number(engine, "pid"), print_seconds(json_number(engine, "silent_s"), uptime));
	else if (json_number(engine, "pid") > 0)
		print_line("engine", "%s, process %.0f, generation %.0f, up %s", json_text(engine, "state"),
			json_number(engine, "pid"), json_number(engine, "generation"), uptime);
	else
		print_line("engine", "%s", json_text(engine, "state"));
	if (*json_text(engine, "device"))
		print_line("device", "%s, number %.0f, %s", json_text(engine, "device"), json_number(engine, "number"),
			print_counted(json_number(engine, "sessions"), "session", ended));
	if (*json_text(engine, "rates"))
		print_line("its speed", "%s", json_text(engine, "rates"));
	if (json_number(engine, "ended") > 0)
		print_line("engine ended", "%s; the last time: %s",
			print_counted(json_number(engine, "ended"), "time", ended), json_text(engine, "last_end"));
	if (json_number(engine, "arrays_kept") + json_number(engine, "arrays_lost") > 0)
		print_line("arrays then", "%s kept, %s lost", print_count(json_number(engine, "arrays_kept"), kept),
			print_count(json_number(engine, "arrays_lost"), lost));
}

static void print_daemon(const cJSON *json) {
	char a[PRINT_TEXT], b[PRINT_TEXT], c[PRINT_TEXT];
	const cJSON *engine;

	print_line("fusiond", "%s, protocol %.0f, process %.0f, up %s", json_text(json, "version"),
		json_number(json, "protocol"), json_number(json, "pid"),
		print_seconds(json_number(json, "uptime_s"), a));
	print_line("socket", "%s", json_text(json, "socket"));
	if (*json_text(json, "remote"))
		print_line("other machines", "%s", json_text(json, "remote"));
	print_line("kernel cache", "%s", json_text(json, "cache_dir"));
	if (*json_text(json, "reload_error"))
		print_line("not reloaded", "%s", json_text(json, "reload_error"));
	cJSON_ArrayForEach(engine, json_item(json, "engines"))
		print_engine(engine);
	print_line("sessions", "%s now, %s since the start; %s",
		print_count(json_number(json, "session_count"), a),
		print_count(json_number(json, "sessions_total"), b),
		print_counted(json_number(json, "connections"), "connection", c));
	print_line("shared memory", "%s, of at most %s a user",
		print_bytes(json_number(json, "shared_bytes"), a),
		print_bytes(json_number(json, "user_bytes_limit"), b));
}

static void user_cell(struct print_table *t, double uid) {
	const struct passwd *user = getpwuid((uid_t)uid);
	char text[PRINT_TEXT];

	snprintf(text, sizeof text, "%.0f", uid);
	print_table_cell(t, user ? user->pw_name : text, false);
}

static void number_cell(struct print_table *t, double number) {
	char text[PRINT_TEXT];

	snprintf(text, sizeof text, "%.0f", number);
	print_table_cell(t, text, true);
}

static void print_sessions(const cJSON *json) {
	static const char *const headings[] = { "SESSION", "USER", "PROCESS", "MEMORY", "PROGRAM" };
	const cJSON *sessions = json_item(json, "sessions"), *one;
	struct print_table *t;
	char text[PRINT_TEXT], name[SESSION_TEXT];

	if (!cJSON_GetArraySize(sessions))
		return;
	t = print_table_new(sizeof headings / sizeof *headings);
	for (unsigned i = 0; i < sizeof headings / sizeof *headings; i++)
		print_table_cell(t, headings[i], i != 1 && i != 4);
	cJSON_ArrayForEach(one, sessions) {
		number_cell(t, json_number(one, "session"));
		user_cell(t, json_number(one, "uid"));
		number_cell(t, json_number(one, "pid"));
		print_table_cell(t, print_bytes(json_number(one, "bytes"), text), true);
		snprintf(name, sizeof name, "%s%s", json_text(one, "name"), cJSON_IsTrue(json_item(one, "gone")) ? " (its process is gone)" :
				cJSON_IsTrue(json_item(one, "away")) ? " (away)" : "");
		print_table_cell(t, name, false);
	}
	putchar('\n');
	print_table_end(t, 0);
	if (json_number(json, "session_count") > cJSON_GetArraySize(sessions))
		printf("... and %.0f more\n",
			json_number(json, "session_count") - cJSON_GetArraySize(sessions));
}

/* An engine that serves answers what the daemon asks it within milliseconds; one that left a question open is asked about again. */
static bool any_silent(const cJSON *json) {
	const cJSON *engine;

	cJSON_ArrayForEach(engine, json_item(json, "engines")) {
		if (!strcmp(json_text(engine, "state"), "ready") && json_number(engine, "silent_s") > 0)
			return true;
	}
	return false;
}

static int ask(const struct control *c, cJSON **jsonp, char **textp, struct fault *f) {
	int r = control_ask_status(c->socket, textp, f);

	return r ? r : control_parse(*textp, jsonp, f);
}

/* The first question has the daemon ask its engines, the second hears whether they answered. */
static int ask_settled(const struct control *c, cJSON **jsonp, char **textp, struct fault *f) {
	int r = ask(c, jsonp, textp, f);

	for (unsigned i = 0; !r && (!i || (any_silent(*jsonp) && i < STATUS_TRIES)); i++) {
		const struct timespec pause = { .tv_nsec = STATUS_PAUSE_NS };

		nanosleep(&pause, NULL);
		cJSON_Delete(*jsonp);
		free(*textp);
		*jsonp = NULL;
		*textp = NULL;
		r = ask(c, jsonp, textp, f);
	}
	return r;
}

int status_command(const struct control *c) {
	cJSON *json = NULL;
	char *text = NULL;
	struct fault f;
	int r = ask_settled(c, &json, &text, &f);

	if (r) {
		r = control_fail(c, r, &f);
	} else {
		if (c->json) {
			control_print_answer(c, text);
		} else {
			print_daemon(json);
			print_sessions(json);
		}
		r = engines_ready(json) ? FUSIONCTL_OK : FUSIONCTL_NO_ENGINE;
	}
	cJSON_Delete(json);
	free(text);
	return r;
}

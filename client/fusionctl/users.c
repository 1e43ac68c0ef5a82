/*
 * fusionctl users: what each user has used and holds, and what holds for him. Rules of users and groups are listed below him, each with the place
 * where it stands.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "print.h"
#include "client/json.h"
#include "protocol/message.h"

#define USERS_SCHEMA "fusionctl.users/1"

static void add_names(cJSON *users) {
	cJSON *one;

	cJSON_ArrayForEach(one, users) {
		const struct passwd *user = getpwuid((uid_t)json_number(one, "uid"));
		char text[PRINT_TEXT];

		snprintf(text, sizeof text, "%.0f", json_number(one, "uid"));
		/* Those that the daemon has no room to tell apart. */
		if (json_number(one, "uid") == (double)(uid_t)-1)
			snprintf(text, sizeof text, "(others)");
		cJSON_AddStringToObject(one, "user", user ? user->pw_name : text);
	}
}

static char *print_nanoseconds(double value, char text[static PRINT_TEXT]) {
	return print_seconds(value * 1e-9, text);
}

static char *print_plain(double value, char text[static PRINT_TEXT]) {
	snprintf(text, PRINT_TEXT, "%.0f", value);
	return text;
}

struct column {
	const char *heading, *field;
	char *(*print)(double value, char text[static PRINT_TEXT]);
};

/* What he holds and what holds for him; what he has used. */
static const struct column holds[] = {
	{ "SESSIONS", "sessions", print_plain },
	{ "MOST", "sessions_limit", print_plain },
	{ "MEMORY", "bytes", print_bytes },
	{ "MOST", "bytes_limit", print_bytes },
	{ "WEIGHT", "weight", print_plain },
	{ "PRIORITY", "priority", print_plain },
	{ "SHARE", "device_share", print_plain },
	{ NULL, NULL, NULL },
}, used[] = {
	{ "DEVICE", "device_ns", print_nanoseconds },
	{ "PEAK MEMORY", "bytes_most", print_bytes },
	{ "SESSIONS", "sessions_begun", print_plain },
	{ "REFUSED", "refused", print_plain },
	{ "BY LIMITS", "limits", print_plain },
	{ NULL, NULL, NULL },
};

static void print_columns(const cJSON *users, const struct column *columns) {
	const struct column *c;
	struct print_table *t;
	unsigned count = 0;
	char text[PRINT_TEXT];
	const cJSON *one;

	while (columns[count].heading)
		count++;
	t = print_table_new(1 + count);
	print_table_cell(t, "USER", false);
	for (c = columns; c->heading; c++)
		print_table_cell(t, c->heading, true);
	cJSON_ArrayForEach(one, users) {
		print_table_cell(t, json_text(one, "user"), false);
		for (c = columns; c->heading; c++)
			print_table_cell(t, c->print(json_number(one, c->field), text), true);
	}
	print_table_fold(t, 0);
}

static void print_refused(const cJSON *users) {
	struct print_held line;
	bool any = false;
	const cJSON *one;

	cJSON_ArrayForEach(one, users) {
		if (!cJSON_IsFalse(json_item(one, "admitted")))
			continue;
		if (!any)
			print_hold(&line);
		printf("%s%s", any ? ", " : "not admitted: ", json_text(one, "user"));
		any = true;
	}
	if (any)
		print_let_go(&line);
}

static void print_rules(const cJSON *users) {
	const cJSON *one, *rule;

	cJSON_ArrayForEach(one, users) {
		cJSON_ArrayForEach(rule, json_item(one, "settings")) {
			struct print_held line;

			print_hold(&line);
			printf("%s: %s=%s, of [%s], %s", json_text(one, "user"), json_text(rule, "name"), json_text(rule, "value"),
				json_text(rule, "section"), json_text(rule, "origin"));
			print_let_go(&line);
		}
	}
}

static void print_users(const cJSON *json) {
	const cJSON *users = json_item(json, "users");

	print_columns(users, holds);
	putchar('\n');
	print_columns(users, used);
	print_refused(users);
	print_rules(users);
	if (json_number(json, "count") > cJSON_GetArraySize(users))
		printf("and %.0f more\n", json_number(json, "count") - cJSON_GetArraySize(users));
}

/* ---- since when ---- */

static const struct {
	const char *name;
	double seconds;
} units[] = { { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 }, { "w", 7 * 86400 } };

/* "12h": so much before now. */
static bool read_age(const char *text, time_t now, uint64_t *secondp) {
	char *end;
	double number = strtod(text, &end);

	if (*text < '0' || *text > '9')
		return false;
	for (unsigned i = 0; i < sizeof units / sizeof *units; i++) {
		double age = number * units[i].seconds;

		if (strcmp(end, units[i].name) != 0)
			continue;
		*secondp = age < (double)now ? (uint64_t)((double)now - age) : 1;
		return true;
	}
	return false;
}

/* "2026-11-24": its beginning, here. */
static bool read_day(const char *text, uint64_t *secondp) {
	struct tm day = { .tm_isdst = -1 };
	const char *end = strptime(text, "%Y-%m-%d", &day);
	time_t second = end && !*end ? mktime(&day) : -1;

	*secondp = (uint64_t)second;
	return second > 0;
}

int users_command(const struct control *c) {
	cJSON *answer = NULL, *json;
	char *text = NULL;
	uint64_t since = 0;
	struct fault f;
	int r;

	if (c->since && !read_age(c->since, time(NULL), &since) && !read_day(c->since, &since)) {
		fprintf(stderr, "fusionctl: '%s' is no time: --since takes a day as 2026-11-24, or an age as 30min, 12h, 7d\n", c->since);
		return FUSIONCTL_USAGE;
	}
	r = control_ask_door(c->socket, &(struct control_question){ .message = DOOR_USERS, .about = since }, &text, &f);
	if (!r)
		r = control_parse(text, &answer, &f);
	free(text);
	if (r)
		return control_fail(c, r, &f);
	add_names(cJSON_GetObjectItemCaseSensitive(answer, "users"));
	if (c->json) {
		json = control_json(USERS_SCHEMA);
		cJSON_AddItemToObject(json, "users", cJSON_DetachItemFromObjectCaseSensitive(answer, "users"));
		cJSON_AddItemToObject(json, "count", cJSON_DetachItemFromObjectCaseSensitive(answer, "count"));
		control_print_json(json);
	} else {
		print_users(answer);
	}
	cJSON_Delete(answer);
	return FUSIONCTL_OK;
}

/*
 * fusionctl clients and kill: who uses the daemon, and the end of one.
 */
#include "clients.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"
#include "client/json.h"
#include "protocol/message.h"
#include "protocol/process.h"

#define CLIENTS_SCHEMA "fusionctl.clients/1"
#define KILL_SCHEMA "fusionctl.kill/1"

enum {
	/* As much of a command line as a screen has room for. */
	COMMAND_TEXT = 120,
};

/* ---- columns ---- */

const char *const clients_columns[CLIENTS_COLUMNS] = { "session", "engine", "user", "pid", "memory", "queued", "device", "kernels",
	"command" };

static const struct {
	const char *field;
	char *(*print)(double value, char text[static PRINT_TEXT]);
	double factor;
} columns[CLIENTS_COLUMNS] = {
	{ "session", NULL, 1 },
	{ "engine", NULL, 1 },
	{ "user", NULL, 0 },
	{ "pid", NULL, 1 },
	{ "memory_bytes", print_bytes, 1 },
	{ "operations_queued", print_count, 1 },
	{ "device_ns", print_seconds, 1e-9 },
	{ "kernels_launched", print_count, 1 },
	{ "command", NULL, 0 },
};

static int column_of(const char *name) {
	for (int i = 0; i < CLIENTS_COLUMNS; i++)
		if (!strcmp(clients_columns[i], name))
			return i;
	return -1;
}

/* Does a stand before b? */
static bool goes_before(const cJSON *a, const cJSON *b, int column) {
	const char *field = columns[column].field;

	if (!columns[column].factor)
		return strcmp(json_text(a, field), json_text(b, field)) < 0;
	return json_number(a, field) > json_number(b, field);
}

/* A few hundred at most; equal ones stay in their order. */
cJSON *clients_sort(cJSON *clients, const char *name) {
	int column = name ? column_of(name) : -1;
	cJSON *sorted = column < 0 ? NULL : cJSON_CreateArray();

	while (sorted && clients->child) {
		cJSON *best = clients->child;

		for (cJSON *one = best->next; one; one = one->next)
			if (goes_before(one, best, column))
				best = one;
		cJSON_AddItemToArray(sorted, cJSON_DetachItemViaPointer(clients, best));
	}
	if (sorted)
		cJSON_Delete(clients);
	return sorted ? sorted : clients;
}

static void add_cell(struct print_table *t, const cJSON *one, int column) {
	double value = json_number(one, columns[column].field) * columns[column].factor;
	char text[PRINT_TEXT];

	if (!columns[column].factor) {
		print_table_cell(t, json_text(one, columns[column].field), false);
		return;
	}
	if (columns[column].print)
		columns[column].print(value, text);
	else
		snprintf(text, sizeof text, "%.0f", value);
	print_table_cell(t, text, true);
}

void clients_table(struct print_table *t, const cJSON *clients) {
	const cJSON *one;

	for (int i = 0; i < CLIENTS_COLUMNS; i++) {
		char heading[PRINT_TEXT];

		snprintf(heading, sizeof heading, "%s", clients_columns[i]);
		for (char *p = heading; *p; p++)
			*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
		print_table_cell(t, heading, columns[i].factor != 0);
	}
	cJSON_ArrayForEach(one, clients) {
		for (int i = 0; i < CLIENTS_COLUMNS; i++)
			add_cell(t, one, i);
	}
}

/* ---- asking ---- */

/* The process has ended, and a child of it holds the connection open. */
static bool is_gone(const cJSON *one) {
	return !cJSON_IsTrue(json_item(one, "remote")) && process_ended((pid_t)json_number(one, "pid"));
}

/* Of a process of this machine that we may look at; else the name that the client gave. */
static void add_command(cJSON *one) {
	char path[PRINT_TEXT], text[COMMAND_TEXT] = "";
	FILE *f = NULL;
	size_t n = 0;

	snprintf(path, sizeof path, "/proc/%.0f/cmdline", json_number(one, "pid"));
	if (!cJSON_IsTrue(json_item(one, "remote")))
		f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof text - 1, f);
		fclose(f);
	}
	/* The program without its folder, which would be all that a narrow screen has room for. */
	if (n && *text == '/' && strrchr(text, '/')[1]) {
		size_t folder = (size_t)(strrchr(text, '/') + 1 - text);

		n -= folder;
		memmove(text, text + folder, n);
	}
	/* Arguments end with a zero; what could fool a terminal is left out. */
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0x20 || text[i] >= 0x7f)
			text[i] = text[i] ? '?' : ' ';
	while (n && text[n - 1] == ' ')
		text[--n] = 0;
	cJSON_AddBoolToObject(one, "gone", is_gone(one));
	if (is_gone(one))
		snprintf(text, sizeof text, "(gone) %.100s", json_text(one, "name"));
	cJSON_AddStringToObject(one, "command", n || *text ? text : json_text(one, "name"));
}

static void add_user(cJSON *one) {
	const struct passwd *user = getpwuid((uid_t)json_number(one, "uid"));
	char text[PRINT_TEXT];

	snprintf(text, sizeof text, "%.0f", json_number(one, "uid"));
	cJSON_AddStringToObject(one, "user", user ? user->pw_name : text);
}

/* Our own session is none of the clients. */
static int ask_engine(void *user, unsigned engine, fusion_context *context, struct fault *f) {
	cJSON *list = user, *json = NULL, *clients, *one;
	cJSON *own = NULL;
	char *stats = fusion_stats(context, false);
	int r = control_parse(stats, &own, f);

	free(stats);
	if (!r)
		r = control_inspect(context, FUSION_INSPECT_CLIENTS, 0, 0, &json, f);
	clients = cJSON_GetObjectItemCaseSensitive(json, "clients");
	while (!r && clients && (one = cJSON_DetachItemFromArray(clients, 0))) {
		if (json_number(one, "session") == json_number(own, "session")) {
			cJSON_Delete(one);
			continue;
		}
		cJSON_AddNumberToObject(one, "engine", engine);
		add_user(one);
		add_command(one);
		cJSON_AddItemToArray(list, one);
	}
	cJSON_Delete(json);
	cJSON_Delete(own);
	return r;
}

int clients_ask(const struct control *c, cJSON **jsonp, struct fault *f) {
	cJSON *list = cJSON_CreateArray();
	int r = list ? control_each_engine(c, ask_engine, list, f) : -ENOMEM;

	if (r)
		cJSON_Delete(list);
	else
		*jsonp = clients_sort(list, c->sort);
	return r;
}

int clients_command(const struct control *c) {
	cJSON *list = NULL, *json;
	struct print_table *t;
	struct fault f;
	int r = clients_ask(c, &list, &f);

	if (r)
		return control_fail(c, r, &f);
	if (c->json) {
		json = control_json(CLIENTS_SCHEMA);
		cJSON_AddItemToObject(json, "clients", list);
		control_print_json(json);
		return FUSIONCTL_OK;
	}
	t = print_table_new(CLIENTS_COLUMNS);
	clients_table(t, list);
	print_table_end(t, 0);
	cJSON_Delete(list);
	return FUSIONCTL_OK;
}

/* ---- kill ---- */

/* "SESSION" or "pid=PROCESS". False where it is neither. */
static bool read_client(const char *word, bool *processp, uint64_t *numberp) {
	char *end;

	*processp = !strncmp(word, "pid=", 4);
	word += *processp ? 4 : 0;
	*numberp = strtoull(word, &end, 10);
	return *word >= '0' && *word <= '9' && !*end && *numberp;
}

static int kill_one(const struct control *c, uint64_t session, cJSON *ended, struct fault *f) {
	int r = control_ask_door(c->socket, &(struct control_question){ .message = DOOR_KILL, .about = session }, NULL, f);

	if (!r)
		cJSON_AddItemToArray(ended, cJSON_CreateNumber((double)session));
	return r;
}

/* Every session of a process. */
static int kill_process(const struct control *c, uint64_t process, cJSON *ended, struct fault *f) {
	cJSON *status = NULL;
	const cJSON *one;
	char *text = NULL;
	int r = control_ask_status(c->socket, &text, f);

	if (!r)
		r = control_parse(text, &status, f);
	cJSON_ArrayForEach(one, json_item(status, "sessions")) {
		if (!r && json_number(one, "pid") == (double)process)
			r = kill_one(c, (uint64_t)json_number(one, "session"), ended, f);
	}
	if (!r && !cJSON_GetArraySize(ended))
		r = fault_set(f, FAULT_HANDLE, "process %llu has no session", (unsigned long long)process);
	cJSON_Delete(status);
	free(text);
	return r;
}

int kill_command(const struct control *c) {
	cJSON *json, *ended;
	struct fault f;
	uint64_t number;
	bool process;
	int r;

	if (!read_client(c->word[0], &process, &number)) {
		fprintf(stderr, "fusionctl: kill takes the number of a session, or pid=PROCESS; clients lists both\n");
		return FUSIONCTL_USAGE;
	}
	json = control_json(KILL_SCHEMA);
	ended = cJSON_AddArrayToObject(json, "ended");
	r = process ? kill_process(c, number, ended, &f) : kill_one(c, number, ended, &f);
	if (!r && c->json)
		control_print_json(json);
	else
		cJSON_Delete(json);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

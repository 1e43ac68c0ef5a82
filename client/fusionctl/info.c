/*
 * fusionctl info: what is installed here and what the daemon has: releases, devices, their drivers and their speed, limits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "print.h"
#include "client/json.h"
#include "protocol/dtype.h"
#include "protocol/message.h"
#include "protocol/op.h"

#define INFO_SCHEMA "fusionctl.info/1"

static void copy(cJSON *to, const cJSON *from, const char *name) {
	const cJSON *item = json_item(from, name);

	if (item)
		cJSON_AddItemToObject(to, name, cJSON_Duplicate(item, true));
}

static int add_engine(void *user, unsigned engine, fusion_context *context, struct fault *f) {
	static const char *const fields[] = { "name", "driver", "flat", "exact", "measured", "rates", "notes", "programs_built",
		"programs_cached" };
	cJSON *devices = user, *stats = NULL, *one;
	char *text = fusion_stats(context, true);
	int r = control_parse(text, &stats, f);

	free(text);
	if (r)
		return r;
	one = cJSON_CreateObject();
	cJSON_AddItemToArray(devices, one);
	cJSON_AddNumberToObject(one, "engine", engine);
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		copy(one, json_item(stats, "device"), fields[i]);
	copy(one, stats, "uptime_s");
	copy(one, stats, "sessions");
	copy(one, stats, "memory_bytes");
	cJSON_Delete(stats);
	return 0;
}

static unsigned operations(void) {
	unsigned count = 0;

	for (unsigned i = 0; i < OP_COUNT; i++)
		count += op_info(i) != NULL;
	return count;
}

static void add_client_side(cJSON *json) {
	cJSON *one = cJSON_AddObjectToObject(json, "client");

	cJSON_AddStringToObject(one, "version", FUSION_VERSION);
	cJSON_AddNumberToObject(one, "protocol", PROTOCOL_VERSION);
	cJSON_AddNumberToObject(one, "operations", operations());
	cJSON_AddNumberToObject(one, "element_types", DTYPE_COUNT);
}

static int gather(const struct control *c, cJSON *json, struct fault *f) {
	static const char *const fields[] = { "version", "protocol", "pid", "uptime_s", "socket", "remote", "cache_dir", "connections",
		"session_count", "user_bytes_limit" };
	cJSON *status = NULL, *daemon;
	char *text = NULL;
	int r = control_ask_status(c->socket, &text, f);

	if (!r)
		r = control_parse(text, &status, f);
	free(text);
	if (r)
		return r;
	add_client_side(json);
	daemon = cJSON_AddObjectToObject(json, "daemon");
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		copy(daemon, status, fields[i]);
	cJSON_Delete(status);
	return control_each_engine(c, add_engine, cJSON_AddArrayToObject(json, "devices"), f);
}

/* Lines of the daemon's stand below each other. */
static void print_notes(const char *notes) {
	while (*notes) {
		size_t length = strcspn(notes, "\n");

		print_line("", "%.*s", (int)length, notes);
		notes += length + (notes[length] == '\n');
	}
}

static void print_device(const cJSON *d) {
	printf("\n");
	print_line("device", "%.0f: %s", json_number(d, "engine"), json_text(d, "name"));
	print_line("driver", "%s", json_text(d, "driver"));
	print_line("arithmetic", "%s", cJSON_IsTrue(json_item(d, "exact")) ? "as documented" : "differs in places, see below");
	print_line("memory", "%s", cJSON_IsTrue(json_item(d, "flat")) ? "the host's own" : "of its own");
	print_line("its speed", "%s", *json_text(d, "rates") ? json_text(d, "rates") : "not known");
	print_notes(json_text(d, "notes"));
}

static void print_info(const cJSON *json) {
	const cJSON *client = json_item(json, "client"), *daemon = json_item(json, "daemon"), *device;
	char text[PRINT_TEXT];

	print_line("fusionctl", "%s, protocol %.0f, %.0f operations on %.0f element types", json_text(client, "version"),
		json_number(client, "protocol"), json_number(client, "operations"), json_number(client, "element_types"));
	print_line("fusiond", "%s, protocol %.0f, process %.0f, up %s", json_text(daemon, "version"), json_number(daemon, "protocol"),
		json_number(daemon, "pid"), print_seconds(json_number(daemon, "uptime_s"), text));
	print_line("socket", "%s", json_text(daemon, "socket"));
	if (*json_text(daemon, "remote"))
		print_line("other machines", "%s", json_text(daemon, "remote"));
	print_line("kernel cache", "%s", json_text(daemon, "cache_dir"));
	print_line("a user may have", "%s of shared memory", print_bytes(json_number(daemon, "user_bytes_limit"), text));
	cJSON_ArrayForEach(device, json_item(json, "devices")) {
		print_device(device);
	}
}

int info_command(const struct control *c) {
	cJSON *json = control_json(INFO_SCHEMA);
	struct fault f;
	int r = gather(c, json, &f);

	if (!r && !c->json)
		print_info(json);
	if (!r && c->json)
		control_print_json(json);
	else
		cJSON_Delete(json);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

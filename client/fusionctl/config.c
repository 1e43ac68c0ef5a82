/*
 * fusionctl config: settings. Those that change while the daemon runs are the engine's to tell and to change; a change lasts
 * until the daemon ends or the configuration is reloaded, and what shall stay belongs into fusiond.conf(5). All others,
 * and where each value comes from, the supervisor knows, and tells administrators.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "print.h"
#include "client/json.h"
#include "protocol/message.h"
#include "protocol/nearest.h"

#define CONFIG_SCHEMA "fusionctl.config/1"
#define CHANGED "config set, until the daemon ends or the configuration is reloaded"

/* ---- asking ---- */

/* Name to value: what new sessions begin with. */
static int ask_engine(const struct control *c, cJSON **jsonp, struct fault *f) {
	fusion_context *context = NULL;
	char *text = NULL;
	int r = control_open(c, &context, f);

	if (!r) {
		text = fusion_settings(context, true);
		r = control_parse(text, jsonp, f);
	}
	free(text);
	fusion_close(context);
	return r;
}

/* [{name, value, origin, applies}]: of all. */
static int ask_supervisor(const struct control *c, cJSON **listp, struct fault *f) {
	cJSON *json = NULL;
	char *text = NULL;
	int r = control_ask_door(c->socket, &(struct control_question){ .message = DOOR_ORIGINS }, &text, f);

	if (!r)
		r = control_parse(text, &json, f);
	if (!r)
		*listp = cJSON_DetachItemFromObjectCaseSensitive(json, "settings");
	cJSON_Delete(json);
	free(text);
	return r;
}


/* What the engine has otherwise was changed since. Patterns of users have no setting in the configuration. */
static void merge(cJSON *list, const cJSON *engine) {
	const cJSON *one;

	cJSON_ArrayForEach(one, engine) {
		cJSON *found = NULL, *item;

		cJSON_ArrayForEach(item, list) {
			if (!strcmp(json_text(item, "name"), one->string))
				found = item;
		}
		if (!cJSON_IsString(one) || (found && !strcmp(json_text(found, "value"), one->valuestring)))
			continue;
		if (found) {
			cJSON_ReplaceItemInObjectCaseSensitive(found, "value", cJSON_CreateString(one->valuestring));
			cJSON_ReplaceItemInObjectCaseSensitive(found, "origin", cJSON_CreateString(CHANGED));
			continue;
		}
		item = cJSON_CreateObject();
		cJSON_AddItemToArray(list, item);
		cJSON_AddStringToObject(item, "name", one->string);
		cJSON_AddStringToObject(item, "value", one->valuestring);
		cJSON_AddStringToObject(item, "origin", "a pattern that somebody defined");
		cJSON_AddStringToObject(item, "applies", "session");
	}
}

static int ask_all(const struct control *c, cJSON **listp, struct fault *f) {
	cJSON *engine = NULL;
	int r = ask_supervisor(c, listp, f);

	if (!r)
		r = ask_engine(c, &engine, f);
	if (!r)
		merge(*listp, engine);
	cJSON_Delete(engine);
	return r;
}

/* ---- showing ---- */

static void print_settings(const cJSON *json) {
	struct print_table *t = print_table_new(2);
	const cJSON *one;

	cJSON_ArrayForEach(one, json) {
		print_table_cell(t, one->string, false);
		print_table_cell(t, cJSON_IsString(one) ? one->valuestring : "-", false);
	}
	print_table_end(t, 0);
}

static void print_origins(const cJSON *list, const char *name) {
	struct print_table *t = print_table_new(3);
	const cJSON *one;

	cJSON_ArrayForEach(one, list) {
		if (name && strcmp(json_text(one, "name"), name) != 0)
			continue;
		print_table_cell(t, json_text(one, "name"), false);
		print_table_cell(t, json_text(one, "value"), false);
		print_table_cell(t, json_text(one, "origin"), false);
	}
	print_table_end(t, 0);
}

static const cJSON *find(const cJSON *list, const char *name) {
	const cJSON *one;

	cJSON_ArrayForEach(one, list) {
		if (!strcmp(json_text(one, "name"), name))
			return one;
	}
	return NULL;
}

/* `list`: what the supervisor tells of all. */
static int refuse_name(const cJSON *list, const char *name, struct fault *f) {
	char hint[NEAREST_SENTENCE];
	struct nearest near;
	const cJSON *one;

	nearest_begin(&near, name, strlen(name));
	cJSON_ArrayForEach(one, list) {
		nearest_try(&near, json_text(one, "name"));
	}
	return fault_set(f, FAULT_ARGUMENT, "there is no setting %s%s", name, nearest_text(&near, "", hint));
}

static int show_origins(const struct control *c, const char *name, struct fault *f) {
	cJSON *list = NULL, *json;
	int r = ask_all(c, &list, f);

	if (!r && name && !find(list, name))
		r = refuse_name(list, name, f);
	if (!r && !c->json)
		print_origins(list, name);
	if (!r && c->json) {
		json = control_json(CONFIG_SCHEMA);
		cJSON_AddItemToObject(json, "settings", name ? cJSON_CreateArray() : list);
		if (name)
			cJSON_AddItemToArray(json->child->next, cJSON_Duplicate(find(list, name), true));
		control_print_json(json);
		if (!name)
			list = NULL;
	}
	cJSON_Delete(list);
	return r;
}

static int print_value(const struct control *c, const char *name, const char *value) {
	if (!c->json)
		puts(value);
	control_print_field(c, name, value);
	return 0;
}

/* Of the engine, which anybody may ask; else of the supervisor. */
static int get_one(const struct control *c, const char *name, struct fault *f) {
	cJSON *engine = NULL, *list = NULL;
	const cJSON *one;
	int r = ask_engine(c, &engine, f);

	if (!r && *json_text(engine, name)) {
		r = print_value(c, name, json_text(engine, name));
	} else if (!r) {
		r = ask_supervisor(c, &list, f);
		one = r ? NULL : find(list, name);
		if (!r)
			r = one ? print_value(c, name, json_text(one, "value")) : refuse_name(list, name, f);
	}
	cJSON_Delete(engine);
	cJSON_Delete(list);
	return r;
}

static int get_all(const struct control *c, struct fault *f) {
	fusion_context *context = NULL;
	char *text = NULL;
	int r = control_open(c, &context, f);

	if (!r) {
		text = fusion_settings(context, true);
		r = control_show(c, text, print_settings, f);
	}
	free(text);
	fusion_close(context);
	return r;
}

/* What sessions may change is the engine's; limits, and what holds for some users only, are the supervisor's. */
static bool is_of_sessions(const char *name) {
	return !strncmp(name, "fusion.", strlen("fusion."));
}

static int set(const struct control *c, const char *name, const char *value, struct fault *f) {
	const struct control_question q = { .message = DOOR_SET, .text = { name, value } };
	fusion_context *context = NULL;
	int r;

	if (!is_of_sessions(name))
		return control_ask_door(c->socket, &q, NULL, f);
	r = control_open(c, &context, f);

	if (!r && fusion_configure_daemon(context, name, value))
		r = text_library_fault(f);
	fusion_close(context);
	return r;
}

/* ---- the command ---- */

static bool wants_set(const struct control *c) {
	return c->word[0] && !strcmp(c->word[0], "set");
}

int config_command(const struct control *c) {
	struct fault f;
	int r;

	if (wants_set(c)) {
		r = set(c, c->word[1], c->word[2], &f);
		if (!r)
			control_print_field(c, c->word[1], c->word[2]);
	} else if (c->origin) {
		r = show_origins(c, c->word[1], &f);
	} else {
		r = c->word[1] ? get_one(c, c->word[1], &f) : get_all(c, &f);
	}
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

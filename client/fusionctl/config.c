/*
 * fusionctl config: the settings that change while the daemon runs, those of sessions. A change lasts until
 * the engine starts again or the configuration is reloaded; what shall stay belongs into fusiond.conf(5).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "print.h"

static void print_settings(const cJSON *json) {
	struct print_table *t = print_table_new(2);
	const cJSON *one;

	cJSON_ArrayForEach(one, json) {
		print_table_cell(t, one->string, false);
		print_table_cell(t, cJSON_IsString(one) ? one->valuestring : "-", false);
	}
	print_table_end(t, 0);
}

static int print_one(const cJSON *json, const char *name, struct fault *f) {
	const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));

	if (!value)
		return fault_set(f, FAULT_ARGUMENT, "%s is no setting that changes while the daemon runs", name);
	puts(value);
	return 0;
}

static int get_one(const char *text, const char *name, struct fault *f) {
	cJSON *json;
	int r = control_parse(text, &json, f);

	if (!r)
		r = print_one(json, name, f);
	cJSON_Delete(json);
	return r;
}

static int get(const struct control *c, fusion_context *context, const char *name, struct fault *f) {
	char *text = fusion_settings(context, true);
	int r = name ? get_one(text, name, f) : control_show(c, text, print_settings, f);

	free(text);
	return r;
}

static int set(fusion_context *context, const char *name, const char *value, struct fault *f) {
	return fusion_configure_daemon(context, name, value) ? text_library_fault(f) : 0;
}

static bool wants_set(const struct control *c) {
	return c->word[0] && !strcmp(c->word[0], "set");
}

static bool wants_get(const struct control *c) {
	return !c->word[0] || (!strcmp(c->word[0], "get") && c->word[1] && !c->word[2]);
}

int config_command(const struct control *c) {
	fusion_context *context = NULL;
	struct fault f;
	int r;

	if (!(wants_set(c) ? c->word[2] != NULL : wants_get(c))) {
		fprintf(stderr, "fusionctl: config takes nothing, get NAME, or set NAME VALUE\n");
		return FUSIONCTL_USAGE;
	}
	r = control_open(c, &context, &f);
	if (!r)
		r = wants_set(c) ? set(context, c->word[1], c->word[2], &f) : get(c, context, c->word[1], &f);
	fusion_close(context);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

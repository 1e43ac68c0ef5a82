/* fusionctl operations: what the administrator's files define, and why what is refused is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "print.h"

static const char *text_of(const cJSON *one, const char *name) {
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, name));

	return text ? text : "";
}

static void print_operations(const cJSON *json) {
	struct print_table *t = print_table_new(4);
	const cJSON *one;

	cJSON_ArrayForEach(one, json) {
		const char *reason = text_of(one, "reason");

		print_table_cell(t, *text_of(one, "name") ? text_of(one, "name") : "-", false);
		print_table_cell(t, text_of(one, "kind"), false);
		print_table_cell(t, text_of(one, "state"), false);
		print_table_cell(t, *reason ? reason : text_of(one, "doc"), false);
	}
	print_table_end(t, 0);
}

int operations_command(const struct control *c) {
	fusion_context *context = NULL;
	struct fault f;
	char *text = NULL;
	cJSON *json;
	int r = control_open(c, &context, &f);

	if (!r)
		text = fusion_operations(context);
	if (!r && !text)
		r = text_library_fault(&f);
	json = text ? cJSON_Parse(text) : NULL;
	if (!r && !json)
		r = fault_set(&f, FAULT_PROTOCOL, "the answer of the daemon is no JSON");
	if (!r && c->json)
		puts(text);
	else if (!r)
		print_operations(json);
	cJSON_Delete(json);
	free(text);
	fusion_close(context);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

/* fusionctl operations: what the administrator's files define, and why what is refused is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

static void print_operations(const cJSON *json) {
	struct print_table *t = print_table_new(4);
	const cJSON *one;

	cJSON_ArrayForEach(one, json) {
		const char *reason = json_text(one, "reason");

		print_table_cell(t, *json_text(one, "name") ? json_text(one, "name") : "-", false);
		print_table_cell(t, json_text(one, "kind"), false);
		print_table_cell(t, json_text(one, "state"), false);
		print_table_cell(t, *reason ? reason : json_text(one, "doc"), false);
	}
	print_table_end(t, 0);
}

int operations_command(const struct control *c) {
	fusion_context *context = NULL;
	struct fault f;
	char *text = NULL;
	int r = control_open(c, &context, &f);

	if (!r) {
		text = fusion_operations(context);
		r = control_show(c, text, print_operations, &f);
	}
	free(text);
	fusion_close(context);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

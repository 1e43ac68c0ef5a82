/*
 * fusionctl patterns: the fusion patterns, and where each is on; define and forget are for all clients, until the engine
 * starts again. What shall stay belongs into a file of conf.d, see fusiond.conf(5).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

static void print_patterns(const cJSON *json) {
	struct print_table *t = print_table_new(4);
	const cJSON *one;

	cJSON_ArrayForEach(one, json) {
		print_table_cell(t, json_text(one, "pattern"), false);
		print_table_cell(t, json_text(one, "on"), false);
		print_table_cell(t, json_text(one, "from"), false);
		print_table_cell(t, json_text(one, "doc"), false);
	}
	print_table_end(t, 0);
}

static int list(const struct control *c, fusion_context *context, struct fault *f) {
	char *text = fusion_patterns(context);
	int r = control_show(c, text, print_patterns, f);

	free(text);
	return r;
}

static bool is_word(const struct control *c, const char *word) {
	return c->word[0] && !strcmp(c->word[0], word);
}

int patterns_command(const struct control *c) {
	fusion_context *context = NULL;
	struct fault f;
	int r = control_open(c, &context, &f);

	if (!r && is_word(c, "define"))
		r = fusion_define_pattern(context, c->word[1], c->word[2], true) ? text_library_fault(&f) : 0;
	else if (!r && is_word(c, "forget"))
		r = fusion_forget_pattern(context, c->word[1], true) ? text_library_fault(&f) : 0;
	else if (!r)
		r = list(c, context, &f);
	fusion_close(context);
	if (!r && c->word[0])
		control_print_field(c, is_word(c, "define") ? "defined" : "forgotten", c->word[1]);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

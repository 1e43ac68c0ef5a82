/*
 * fusionctl kernels: the programs that the engines have, with their source on demand.
 */
#include <stdio.h>
#include <string.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

#define KERNELS_SCHEMA "fusionctl.kernels/1"

struct asked {
	cJSON *list;
	uint64_t source;             /* 0: none, 1: with the library's functions, 2: the own text alone */
	double left_out;
};

static int ask_engine(void *user, unsigned engine, fusion_context *context, struct fault *f) {
	cJSON *json = NULL, *kernels, *one;
	struct asked *a = user;
	int r = control_inspect(context, FUSION_INSPECT_KERNELS, a->source, 0, &json, f);

	kernels = cJSON_GetObjectItemCaseSensitive(json, "kernels");
	a->left_out += json_number(json, "sources_left_out");
	while (!r && kernels && (one = cJSON_DetachItemFromArray(kernels, 0))) {
		cJSON_AddNumberToObject(one, "engine", engine);
		cJSON_AddItemToArray(a->list, one);
	}
	cJSON_Delete(json);
	return r;
}

static void number_cell(struct print_table *t, const cJSON *one, const char *name) {
	char text[PRINT_TEXT];

	snprintf(text, sizeof text, "%.0f", json_number(one, name));
	print_table_cell(t, text, true);
}

static void time_cell(struct print_table *t, const cJSON *one, const char *name) {
	char text[PRINT_TEXT];

	print_table_cell(t, json_number(one, name) > 0 ? print_seconds(json_number(one, name) / 1e6, text) : "-", true);
}

static void print_kernels(const cJSON *list) {
	static const char *const headings[] = { "ENGINE", "KERNEL", "RANK", "OPERANDS", "VALUES", "STATE", "WRITTEN", "COMPILED" };
	enum { HEADINGS = sizeof headings / sizeof *headings };
	struct print_table *t = print_table_new(HEADINGS);
	const cJSON *one;

	for (int i = 0; i < HEADINGS; i++)
		print_table_cell(t, headings[i], i != 1 && i != 5);
	cJSON_ArrayForEach(one, list) {
		number_cell(t, one, "engine");
		print_table_cell(t, json_text(one, "kernel"), false);
		number_cell(t, one, "rank");
		number_cell(t, one, "operands");
		number_cell(t, one, "values");
		print_table_cell(t, json_text(one, "state"), false);
		time_cell(t, one, "emit_us");
		time_cell(t, one, "compile_us");
	}
	print_table_fold(t, 0);
}

static void print_sources(const cJSON *list) {
	const cJSON *one;
	unsigned number = 0;

	cJSON_ArrayForEach(one, list) {
		number++;
		if (*json_text(one, "source"))
			printf("\n/* kernel %u: %s */\n%s", number, json_text(one, "kernel"), json_text(one, "source"));
		if (*json_text(one, "log"))
			printf("\nkernel %u could not be built:\n%s\n", number, json_text(one, "log"));
	}
}

int kernels_command(const struct control *c) {
	cJSON *json = control_json(KERNELS_SCHEMA);
	struct asked a = { .list = cJSON_AddArrayToObject(json, "kernels"), .source = c->whole_source ? 1 : c->source ? 2 : 0 };
	char text[PRINT_TEXT];
	struct fault f;
	int r = control_each_engine(c, ask_engine, &a, &f);

	cJSON_AddNumberToObject(json, "sources_left_out", a.left_out);
	if (!r && !c->json) {
		print_kernels(a.list);
		print_sources(a.list);
		if (c->source && a.left_out)
			printf("\n%s left out: not kept, or too long for an answer\n", print_counted(a.left_out, "source", text));
	}
	if (!r && c->json)
		control_print_json(json);
	else
		cJSON_Delete(json);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

/*
 * fusionctl cache: what the cache folder holds, prune, verify and warm. The folder is the business of fusiond itself, which is
 * run for that: it needs no daemon that runs, and the right to write there is the file system's to give. Only warm asks the daemon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "fusiond.h"
#include "json.h"
#include "print.h"

enum {
	ARGUMENTS = 8,
	ARGUMENT_TEXT = 64,
};

/* ---- running fusiond ---- */

/* The folder of the daemon that answers, else the one that fusiond would take. */
static char *cache_folder(const struct control *c) {
	char *text = NULL, *folder = NULL;
	cJSON *status;
	struct fault f;

	if (control_ask_status(c->socket, &text, &f))
		return NULL;
	status = cJSON_Parse(text);
	if (*json_text(status, "cache_dir"))
		folder = strdup(json_text(status, "cache_dir"));
	cJSON_Delete(status);
	free(text);
	return folder;
}

/* ---- stat, prune, verify ---- */

static void print_sum(const cJSON *json, const char *name) {
	const cJSON *one = json_item(json, name);
	char count[PRINT_TEXT], bytes[PRINT_TEXT];

	print_line(name, "%s, %s: %s", print_count(json_number(one, "count"), count),
		print_bytes(json_number(one, "bytes"), bytes), json_text(one, "doc"));
}

static void print_usage(const cJSON *json) {
	static const char *const sums[] = { "programs", "notes", "driver", "leftovers" }, *const losses[] = { "removed", "damaged" };

	print_line("folder", "%s", json_text(json, "folder"));
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
		print_sum(json, sums[i]);
	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
		if (json_number(json_item(json, losses[i]), "count") > 0)
			print_sum(json, losses[i]);
	if (cJSON_IsTrue(json_item(json, "driver_in_memory")))
		print_line("disk", "full: the driver's entries are in memory until there is room at a start");
}

static int ask_fusiond(const struct control *c, const char *action, const char *size) {
	char limit[ARGUMENT_TEXT];
	char *folder = cache_folder(c), *text = NULL;
	const char *argument[ARGUMENTS] = { "--cache", action };
	unsigned n = 2;
	struct fault f;
	int r;

	if (folder) {
		argument[n++] = "--cache-dir";
		argument[n++] = folder;
	}
	if (size) {
		/* 0 in the setting keeps everything. */
		snprintf(limit, sizeof limit, "--set=cache.bytes=%.32s", !strtod(size, NULL) ? "1" : size);
		argument[n++] = limit;
	}
	r = fusiond_run(argument, FUSIOND_ANSWERS, &text);
	free(folder);
	if (!r)
		r = control_show(c, text, print_usage, &f) ? FUSIONCTL_FAILED : FUSIONCTL_OK;
	else
		r = FUSIONCTL_FAILED;
	free(text);
	return r;
}

/* ---- the command ---- */

static int wrong(void) {
	fprintf(stderr, "fusionctl: cache takes stat, prune [--size N], verify or warm FILE...\n");
	return FUSIONCTL_USAGE;
}

int cache_command(const struct control *c) {
	const char *action = c->word[0];

	if (!action)
		return wrong();
	if (!strcmp(action, "warm"))
		return c->word[1] && !c->size ? warm_graphs(c) : wrong();
	if (c->word[1] || (c->size && strcmp(action, "prune") != 0))
		return wrong();
	if (strcmp(action, "stat") != 0 && strcmp(action, "prune") != 0 && strcmp(action, "verify") != 0)
		return wrong();
	return ask_fusiond(c, action, c->size);
}

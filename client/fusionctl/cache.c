/*
 * fusionctl cache: what the cache folder holds, prune, verify, check and warm. The folder is the daemon's, which does it for its administrators. Where
 * none runs, fusiond is run for that, and the right to read and write there is the file system's to give.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "fusiond.h"
#include "print.h"
#include "client/json.h"

enum {
	ARGUMENTS = 8,
	ARGUMENT_TEXT = 64,
};

/* What may follow the number of a setting that counts. */
#define UNITS "KMGT"

/* ---- stat, prune, verify, check ---- */

static void print_sum(const cJSON *json, const char *name) {
	const cJSON *one = json_item(json, name);
	char count[PRINT_TEXT], bytes[PRINT_TEXT];

	print_line(name, "%s, %s: %s", print_count(json_number(one, "count"), count),
		print_bytes(json_number(one, "bytes"), bytes), json_text(one, "doc"));
}

static void print_usage(const cJSON *json) {
	static const char *const sums[] = { "programs", "notes", "driver", "leftovers" }, *const losses[] = { "removed", "damaged", "aside" };

	print_line("folder", "%s", json_text(json, "folder"));
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
		print_sum(json, sums[i]);
	for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
		if (json_number(json_item(json, losses[i]), "count") > 0)
			print_sum(json, losses[i]);
	if (cJSON_IsTrue(json_item(json, "driver_in_memory")))
		print_line("disk", "full: the driver's entries are in memory until there is room at a start");
}

/* It has said on standard error what it could not do. */
static int run_fusiond(const char *action, const char *size, char **textp, struct fault *f) {
	char limit[ARGUMENT_TEXT];
	const char *argument[ARGUMENTS] = { "--cache", action };

	if (size) {
		snprintf(limit, sizeof limit, "--set=cache.bytes=%.32s", size);
		argument[2] = limit;
	}
	if (!fusiond_run(argument, FUSIOND_ANSWERS, textp))
		return 0;
	free(*textp);
	*textp = NULL;
	return fault_set(f, FAULT_INTERNAL, "fusiond --cache %s failed; what it said is on standard error", action);
}

/* Also with a unit. 0 in the setting keeps everything. What is no number is the daemon's to refuse. */
static bool is_zero(const char *size) {
	size_t digits = strspn(size, "0.");

	return digits && (!size[digits] || (strchr(UNITS, size[digits]) && !size[digits + 1]));
}

static int look_after(const struct control *c, const char *action, const char *size) {
	char *text = NULL;
	struct fault f;
	int r = control_ask_cache(c->socket, action, size, &text, &f);

	if (r == FAULT_CONNECT)
		r = run_fusiond(action, size, &text, &f);
	if (!r)
		r = control_show(c, text, print_usage, &f);
	free(text);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

/* ---- the command ---- */

int cache_command(const struct control *c) {
	const char *action = c->word[0];

	if (!strcmp(action, "warm"))
		return warm_graphs(c);
	return look_after(c, action, c->size && is_zero(c->size) ? "1" : c->size);
}

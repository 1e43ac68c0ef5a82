/*
 * fusionctl top: what the daemon does, again and again: its load, how its kernels run, and the queue of builds. --once prints one
 * screen of what there is, for scripts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "json.h"
#include "print.h"

enum {
	TOP_SECONDS = 1,
};

/* Counters of the last screen; rates are against them. */
struct last {
	bool known;
	double when, runs, kernels, operations;
};

static double now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_rates(const cJSON *stats, struct last *last) {
	struct last is = { true, now(), json_number(stats, "runs"), json_number(stats, "kernels_launched"),
		json_number(stats, "operations_executed") };
	double seconds = is.when - last->when;
	char a[PRINT_TEXT], b[PRINT_TEXT], c[PRINT_TEXT];

	if (last->known && seconds > 0)
		print_line("a second", "%s graphs, %s kernels, %s operations", print_count((is.runs - last->runs) / seconds, a),
			print_count((is.kernels - last->kernels) / seconds, b),
			print_count((is.operations - last->operations) / seconds, c));
	else
		print_line("ever", "%s graphs, %s kernels, %s operations", print_count(is.runs, a), print_count(is.kernels, b),
			print_count(is.operations, c));
	*last = is;
}

static void print_tiers(const cJSON *stats) {
	const cJSON *tiers = json_item(stats, "tiers");
	char a[PRINT_TEXT], b[PRINT_TEXT], c[PRINT_TEXT];

	print_line("kernels", "%s as byte code, %s by programs of their own, %s of them tuned",
		print_count(json_number(tiers, "byte_code"), a), print_count(json_number(tiers, "compiled"), b),
		print_count(json_number(tiers, "tuned"), c));
}

static void print_builds(const cJSON *device) {
	const cJSON *one;
	char text[PRINT_TEXT];
	struct print_table *t;

	print_line("programs", "%.0f built, %.0f from the cache, %.0f failed, %.0f in the queue",
		json_number(device, "programs_built"), json_number(device, "programs_cached"),
		json_number(device, "programs_failed"), json_number(device, "programs_building"));
	t = print_table_new(4);
	cJSON_ArrayForEach(one, json_item(device, "builds")) {
		print_table_cell(t, json_text(one, "state"), false);
		print_table_cell(t, json_text(one, "kernel"), false);
		print_table_cell(t, print_count(json_number(one, "values"), text), true);
		print_table_cell(t, print_seconds(json_number(one, "asked_ms") / 1e3, text), true);
	}
	print_table_end(t, 2);
}

static void print_screen(const cJSON *stats, struct last *last) {
	const cJSON *device = json_item(stats, "device");
	char a[PRINT_TEXT], b[PRINT_TEXT];

	print_line("device", "%s", json_text(device, "name"));
	print_line("up", "%s, %s sessions", print_seconds(json_number(stats, "uptime_s"), a),
		print_count(json_number(stats, "sessions"), b));
	print_line("queue", "%s graphs on the device", print_count(json_number(stats, "runs_busy"), a));
	print_rates(stats, last);
	print_tiers(stats);
	print_builds(device);
	fflush(stdout);
}

/* One screen; with --json the statistics themselves. */
static int show(const struct control *c, fusion_context *context, struct last *last, struct fault *f) {
	char *text = fusion_stats(context, true);
	cJSON *stats;
	int r = control_parse(text, &stats, f);

	if (!r && c->json)
		puts(text);
	else if (!r)
		print_screen(stats, last);
	cJSON_Delete(stats);
	free(text);
	return r;
}

int top_command(const struct control *c) {
	fusion_context *context = NULL;
	struct last last = { .known = false };
	struct fault f;
	int r = control_open(c, &context, &f);

	while (!r) {
		if (!c->once && !c->json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		r = show(c, context, &last, &f);
		if (r || c->once || ferror(stdout))
			break;
		sleep(TOP_SECONDS);
	}
	fusion_close(context);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

/*
 * fusionctl tune: which forms of graphs' plans run faster. Without a file, what the daemon has found out by itself; with text graphs,
 * each is run until all its forms and the knobs of its kernels have been compared, which the daemon else does now and then while it works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

enum {
	/* Runs between questions whether all is known. */
	TUNE_RUNS = 32,
	/* A graph that is not settled by then is told as it is: its programs are still being built, or its times come and go. */
	TUNE_SECONDS = 60,
	/* Forms are built beside runs, which take time from that. */
	TUNE_PAUSE_MS = 100,
};

static const char *const forms[] = { "fused", "single", "mixed" };

enum {
	FORMS = sizeof forms / sizeof *forms,
};

/* ---- what the daemon knows ---- */

static void print_changes(const cJSON *stats) {
	const cJSON *tracker = json_item(stats, "tracker"), *one;
	char a[PRINT_TEXT], b[PRINT_TEXT];

	print_line("compared", "%s, of which run with less fusion than planned: %.0f", print_counted(json_number(tracker, "graphs"), "graph", a),
		json_number(tracker, "graphs_that_run_with_less_fusion"));
	print_line("", "%s, of which run otherwise than planned: %.0f", print_counted(json_number(tracker, "kernels"), "kernel", a),
		json_number(tracker, "kernels_that_run_otherwise_than_planned"));
	print_line("trials", "%s, %.2g %% of the time", print_counted(json_number(tracker, "trials"), "run", a), json_number(tracker, "trial_percent"));
	cJSON_ArrayForEach(one, json_item(tracker, "changes")) {
		if (json_item(one, "knob"))
			printf("kernel %s: %s; ", json_text(one, "kernel"), json_text(one, "knob"));
		printf("%s: %s in %s, was %s in %s\n", json_text(one, "graph"), json_text(one, "to"),
			print_seconds(json_number(one, "to_us") / 1e6, a), json_text(one, "from"),
			print_seconds(json_number(one, "from_us") / 1e6, b));
	}
}

static int show_changes(const struct control *c, struct fault *f) {
	fusion_context *context = NULL;
	char *text = NULL;
	int r = control_open(c, &context, f);

	if (!r) {
		text = fusion_stats(context, true);
		r = control_show(c, text, print_changes, f);
	}
	free(text);
	fusion_close(context);
	return r;
}

/* ---- trying ---- */

static double now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run_once(struct control_graph *g, struct fault *f) {
	int r = control_graph_record(g, f);

	for (unsigned i = 0; !r && i < g->text->outputs; i++)
		if (fusion_wait(g->output[i]))
			r = text_library_fault(f);
	control_graph_release(g);
	return r;
}

/* *tuningp of what the daemon explains, to be deleted; NULL where it compares nothing of this graph. */
static int ask_tuning(struct control_graph *g, cJSON **tuningp, struct fault *f) {
	cJSON *plan = NULL;
	char *text = NULL;
	int r = control_graph_record(g, f);

	if (!r) {
		text = fusion_explain(g->context, (int)g->text->outputs, g->output, 0);
		r = control_parse(text, &plan, f);
	}
	control_graph_release(g);

	*tuningp = cJSON_DetachItemFromObjectCaseSensitive(plan, "tuning");
	cJSON_Delete(plan);
	free(text);
	return r;
}

static void pause_for_builds(const struct control_graph *g) {
	const struct timespec t = { .tv_nsec = TUNE_PAUSE_MS * 1000000L };
	char *text = fusion_stats(g->context, true);
	cJSON *stats = text ? cJSON_Parse(text) : NULL;
	const cJSON *device = json_item(stats, "device");

	/* What is built that nobody asked for is no matter of this graph's. */
	if (json_number(device, "programs_building") > json_number(device, "programs_spare"))
		nanosleep(&t, NULL);
	cJSON_Delete(stats);
	free(text);
}

static int try_graph(struct control_graph *g, cJSON **tuningp, struct fault *f) {
	double end = now() + TUNE_SECONDS;
	int r = 0;

	control_graph_release(g);
	if (fusion_configure(g->context, "fusion.tracker_share", "100"))
		r = fusion_error_code() == FUSION_E_PERMISSION ? fault_set(f, FAULT_PERMISSION, "tune FILE is for administrators: %s", fusion_error())
			: text_library_fault(f);
	while (!r && now() < end) {
		for (int i = 0; !r && i < TUNE_RUNS; i++)
			r = run_once(g, f);
		cJSON_Delete(*tuningp);
		*tuningp = NULL;
		if (!r)
			r = ask_tuning(g, tuningp, f);
		if (!*tuningp || cJSON_IsTrue(json_item(*tuningp, "settled")))
			break;
		pause_for_builds(g);
	}
	return r;
}

static void print_tuning(const char *file, const cJSON *tuning) {
	bool settled = !tuning || cJSON_IsTrue(json_item(tuning, "settled"));
	char text[PRINT_TEXT];
	const cJSON *one;

	printf("%s: runs %s%s", file, tuning ? json_text(tuning, "runs") : "as it is, for nothing of it is compared", settled ? "" : " so far");
	for (unsigned i = 0; i < FORMS; i++) {
		const cJSON *form = json_item(tuning, forms[i]);

		if (form)
			printf("; %s %s", forms[i], print_seconds(json_number(form, "us") / 1e6, text));
	}
	cJSON_ArrayForEach(one, json_item(tuning, "knobs"))
		printf("; kernel %.0f (%s) with %s at %s", json_number(one, "kernel"), json_text(one, "root"), json_text(one, "knob"),
			json_text(one, "value"));
	if (tuning)
		printf("; %.0f of %s of knobs compared", json_number(tuning, "values_compared"), print_counted(json_number(tuning, "values"), "value", text));
	if (!settled)
		printf("; after %d s what is left waits for programs to be built, or its times come and go", TUNE_SECONDS);
	putchar('\n');
}

static int tune(const struct control *c, const char *file, cJSON *list, struct fault *f) {
	struct control one = *c;
	struct control_graph g;
	cJSON *tuning = NULL;
	int r;

	one.word[0] = file;
	r = control_graph_open(&one, &g, f);
	if (!r)
		r = try_graph(&g, &tuning, f);
	if (!r && !c->json)
		print_tuning(file, tuning);
	if (tuning)
		cJSON_AddItemToObject(list, file, tuning);
	else
		cJSON_AddNullToObject(list, file);
	control_graph_close(&g);
	return r;
}

int tune_command(const struct control *c) {
	cJSON *list = cJSON_CreateObject();
	struct fault f;
	char *text;
	int r = c->word[0] ? 0 : show_changes(c, &f);

	for (unsigned i = 0; !r && i < CONTROL_WORDS && c->word[i]; i++)
		r = tune(c, c->word[i], list, &f);
	text = !r && c->json && c->word[0] ? cJSON_PrintUnformatted(list) : NULL;
	if (text)
		control_print_answer(c, text);
	free(text);
	cJSON_Delete(list);
	return r ? control_fail(c, r, &f) : FUSIONCTL_OK;
}

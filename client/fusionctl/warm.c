/*
 * fusionctl cache warm: has the kernels of text graphs built, and waits until they are. Graphs are planned, not run: what they read
 * is never sent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "control.h"
#include "json.h"
#include "print.h"

enum {
	TICK_MS = 50,
};

struct warmth {
	double graphs, kernels;
	double building, built, cached, failed;
};

static int ask_builds(fusion_context *context, struct warmth *w, struct fault *f) {
	char *text = fusion_stats(context, true);
	const cJSON *device;
	cJSON *stats;
	int r = control_parse(text, &stats, f);

	device = json_item(stats, "device");
	w->building = json_number(device, "programs_building");
	w->built = json_number(device, "programs_built");
	w->cached = json_number(device, "programs_cached");
	w->failed = json_number(device, "programs_failed");
	cJSON_Delete(stats);
	free(text);
	return r;
}

static int warm_graph(const struct control *c, const char *file, struct warmth *w, struct fault *f) {
	struct control one = *c;
	char *text = NULL;
	cJSON *plan = NULL;
	int r;

	one.word[0] = file;
	r = control_explain(&one, FUSION_EXPLAIN_BUILD, &text, f);
	if (!r)
		r = control_parse(text, &plan, f);
	w->graphs++;
	w->kernels += json_number(plan, "kernel_count");
	cJSON_Delete(plan);
	free(text);
	return r;
}

/* Others' builds are waited for, too: they stand in the same queue. */
static int await_builds(fusion_context *context, struct warmth *w, struct fault *f) {
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
	int r;

	while (!(r = ask_builds(context, w, f)) && w->building > 0)
		nanosleep(&tick, NULL);
	return r;
}

static void print_json(const struct warmth *w, double built, double cached, double failed) {
	cJSON *json = control_json("fusionctl.cache/1");

	cJSON_AddNumberToObject(json, "graphs", w->graphs);
	cJSON_AddNumberToObject(json, "kernels", w->kernels);
	cJSON_AddNumberToObject(json, "built", built);
	cJSON_AddNumberToObject(json, "cached", cached);
	cJSON_AddNumberToObject(json, "failed", failed);
	control_print_json(json);
}

static void print_warmth(const struct control *c, const struct warmth *w, const struct warmth *before) {
	double built = w->built - before->built, cached = w->cached - before->cached, failed = w->failed - before->failed;
	char a[PRINT_TEXT], b[PRINT_TEXT];

	if (c->json)
		print_json(w, built, cached, failed);
	else
		printf("%s of %s: built %.0f, from the cache %.0f, failed %.0f%s\n", print_counted(w->graphs, "graph", a),
			print_counted(w->kernels, "kernel", b), built, cached, failed,
			built + cached + failed < w->kernels ? "; the rest was there" : "");
}

int warm_graphs(const struct control *c) {
	struct warmth before = { .graphs = 0 }, now = { .graphs = 0 };
	fusion_context *context = NULL;
	struct fault f;
	int r = control_open(c, &context, &f);

	if (!r)
		r = ask_builds(context, &before, &f);
	for (unsigned i = 1; !r && i < CONTROL_WORDS && c->word[i]; i++)
		r = warm_graph(c, c->word[i], &now, &f);
	if (!r)
		r = await_builds(context, &now, &f);
	fusion_close(context);
	if (r)
		return control_fail(c, r, &f);
	print_warmth(c, &now, &before);
	return now.failed > before.failed ? FUSIONCTL_FAILED : FUSIONCTL_OK;
}

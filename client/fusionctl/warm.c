/*
 * fusionctl cache warm: has the kernels of text graphs built, and waits until they are, and for no others. Graphs are planned, not run: what they
 * read is never sent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "print.h"
#include "client/json.h"

enum {
	TICK_MS = 50,
};

struct warmed {
	const struct control *control;
	const char *file;
	struct control_graph graph;   /* of standard input, which is read once; else as long as the daemon is asked */
	bool open;
	bool *there;                  /* of each kernel: had it a program before? */
	unsigned kernels;
};

struct warmth {
	unsigned graphs, kernels, built, cached, failed;
};

/* ---- one graph ---- */

static int ask(const struct warmed *w, unsigned what, cJSON **planp, struct fault *f) {
	char *text = fusion_explain(w->graph.context, (int)w->graph.text->outputs, w->graph.output, what);
	int r = control_parse(text, planp, f);

	free(text);
	return r;
}

static int open_graph(struct warmed *w, struct fault *f) {
	struct control one = *w->control;
	int r = 0;

	one.word[0] = w->file;
	if (!w->open)
		r = control_graph_open(&one, &w->graph, f);
	w->open = !r;
	return r;
}

static void close_graph(struct warmed *w) {
	control_graph_close(&w->graph);
	w->open = false;
}

static const char *state_of(const cJSON *kernel) {
	return json_text(json_item(kernel, "program"), "state");
}

/* Notes which kernels are there. */
static int look_before(struct warmed *w, struct fault *f) {
	const cJSON *kernels, *one;
	cJSON *plan = NULL;
	int r = ask(w, 0, &plan, f);

	kernels = json_item(plan, "kernels");
	w->there = r ? NULL : calloc((size_t)cJSON_GetArraySize(kernels) + 1, sizeof *w->there);
	if (!r && !w->there)
		r = -ENOMEM;
	if (!r)
		cJSON_ArrayForEach(one, kernels) {
			w->there[w->kernels++] = !strcmp(state_of(one), "built") || !strcmp(state_of(one), "from the cache");
		}
	cJSON_Delete(plan);
	return r;
}

/* Asks for them all, and waits for none. */
static int begin(struct warmed *w, struct fault *f) {
	cJSON *plan = NULL;
	int r = open_graph(w, f);

	if (!r)
		r = look_before(w, f);
	if (!r)
		r = ask(w, FUSION_EXPLAIN_BUILD, &plan, f);
	cJSON_Delete(plan);
	if (strcmp(w->file, "-") != 0)
		close_graph(w);
	return r;
}

static bool is_building(const cJSON *plan) {
	const cJSON *one;

	cJSON_ArrayForEach(one, json_item(plan, "kernels")) {
		if (!strcmp(state_of(one), "being built"))
			return true;
	}
	return false;
}

static void count(const struct warmed *w, const cJSON *plan, struct warmth *sum) {
	unsigned i = 0;
	const cJSON *one;

	sum->graphs++;
	cJSON_ArrayForEach(one, json_item(plan, "kernels")) {
		bool there = i < w->kernels && w->there[i];
		const char *state = state_of(one);

		i++;
		sum->kernels++;
		sum->built += !there && !strcmp(state, "built");
		sum->cached += !there && !strcmp(state, "from the cache");
		sum->failed += !strcmp(state, "failed");
	}
}

/* With several devices this session may be another one's, whose kernels have not been asked for. */
static int await(struct warmed *w, struct warmth *sum, struct fault *f) {
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
	cJSON *plan = NULL;
	int r = open_graph(w, f);

	if (!r)
		r = ask(w, FUSION_EXPLAIN_BUILD, &plan, f);
	while (!r && is_building(plan)) {
		cJSON_Delete(plan);
		nanosleep(&tick, NULL);
		r = ask(w, FUSION_EXPLAIN_BUILD, &plan, f);
	}
	if (!r)
		count(w, plan, sum);
	cJSON_Delete(plan);
	close_graph(w);
	return r;
}

/* ---- all of them ---- */

static void print_json(const struct warmth *w) {
	cJSON *json = control_json("fusionctl.cache/1");

	cJSON_AddNumberToObject(json, "graphs", w->graphs);
	cJSON_AddNumberToObject(json, "kernels", w->kernels);
	cJSON_AddNumberToObject(json, "built", w->built);
	cJSON_AddNumberToObject(json, "cached", w->cached);
	cJSON_AddNumberToObject(json, "failed", w->failed);
	control_print_json(json);
}

static void print_warmth(const struct control *c, const struct warmth *w) {
	char a[PRINT_TEXT], b[PRINT_TEXT];

	if (c->json)
		print_json(w);
	else
		printf("%s of %s: built %u, from the cache %u, failed %u%s\n", print_counted(w->graphs, "graph", a),
			print_counted(w->kernels, "kernel", b), w->built, w->cached, w->failed,
			w->built + w->cached + w->failed < w->kernels ? "; the rest was there" : "");
}

/* All are asked for before any is waited for: they are built side by side. */
static int warm_all(struct warmed *w, unsigned graphs, struct warmth *sum, struct fault *f) {
	int r = 0;

	for (unsigned i = 0; !r && i < graphs; i++)
		r = begin(&w[i], f);
	for (unsigned i = 0; !r && i < graphs; i++)
		r = await(&w[i], sum, f);
	return r;
}

int warm_graphs(const struct control *c) {
	struct warmed *w = calloc(CONTROL_WORDS, sizeof *w);
	struct warmth sum = { 0 };
	unsigned graphs = 0;
	struct fault f;
	int r;

	for (; w && graphs + 1 < CONTROL_WORDS && c->word[graphs + 1]; graphs++) {
		w[graphs].control = c;
		w[graphs].file = c->word[graphs + 1];
	}
	r = w ? warm_all(w, graphs, &sum, &f) : -ENOMEM;
	for (unsigned i = 0; i < graphs; i++) {
		if (w[i].open)
			close_graph(&w[i]);
		free(w[i].there);
	}
	free(w);
	if (r)
		return control_fail(c, r, &f);
	print_warmth(c, &sum);
	return sum.failed ? FUSIONCTL_FAILED : FUSIONCTL_OK;
}

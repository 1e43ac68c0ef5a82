/*
 * The session of a benchmark: with the engine of the context that asks, its settings and patterns; operands of random numbers, and the pattern as a
 * recorded graph, which is run again and again by one short message. See benchmark.h.
 */
#include "benchmark.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "json.h"

/* What a pattern says that is for any number, or any axes. */
#define ANY_EPS 1e-5

const char *const benchmark_switches[BENCHMARK_SWITCHES] = { "fusion.enabled", "fusion.pattern.horizontal", "fusion.pattern.memory_ops" };

/* ---- settings ---- */

static int configure(struct benchmark *b, const char *name, const char *value) {
	return fusion_configure(b->context, name, value) ? benchmark_refused(b) : 0;
}

/* Those of the context; a switch of a pattern that it has forgotten since is none. */
static int take_settings(struct benchmark *b, const cJSON *known) {
	int r = 0;

	for (unsigned i = 0; !r && i < b->settings; i++) {
		const char *name = b->setting[i];

		if (!pattern_is_switch(name) || cJSON_HasObjectItem(known, name))
			r = configure(b, name, name + strlen(name) + 1);
	}
	return r;
}

/*
 * What would disturb: replays that are planned together are one; the tracker tries other forms; graphs of other sessions may share a launch. And explain
 * --last is to tell of programs, not of this.
 */
static int take_own_settings(struct benchmark *b) {
	static const char *const own[][2] = { { "fusion.enabled", "yes" }, { "fusion.window_us", "0" }, { "fusion.tracker_share", "0" }, { "fusion.together", "no" },
		{ "fusion.explain_runs", "0" } };
	int r = 0;

	for (unsigned i = 0; !r && i < sizeof own / sizeof *own; i++)
		r = configure(b, own[i][0], own[i][1]);
	return r;
}

static int keep_switches(struct benchmark *b) {
	cJSON *settings = NULL;
	int r = benchmark_parse(b, fusion_settings(b->context, false), &settings);

	for (unsigned i = 0; !r && i < BENCHMARK_SWITCHES; i++) {
		const char *value = json_text(settings, benchmark_switches[i]);

		b->fused_as[i] = strdup(*value ? value : "yes");
		if (!b->fused_as[i])
			r = -ENOMEM;
	}
	cJSON_Delete(settings);
	return r;
}

int benchmark_take_form(struct benchmark *b, enum benchmark_form form) {
	int r = 0;

	for (unsigned i = 0; !r && i < BENCHMARK_SWITCHES; i++)
		r = configure(b, benchmark_switches[i], form == BENCHMARK_FUSED ? b->fused_as[i] : "no");
	return r;
}

static int begin_session(struct benchmark *b) {
	struct fusion_context *c;
	cJSON *known = NULL;
	int r = elsewhere_open(&b->where, b->where.number, &b->context) ? benchmark_refused(b) : 0;

	/* $FUSION_DEBUG is for the program's own operations. */
	if (!r)
		r = configure(b, "fusion.debug", "no");
	for (const struct own_pattern *p = b->patterns; !r && p; p = p->next)
		if (fusion_define_pattern(b->context, p->signature, p->text, false))
			r = benchmark_refused(b);
	if (!r)
		r = benchmark_parse(b, fusion_settings(b->context, false), &known);
	if (!r)
		r = take_settings(b, known);
	cJSON_Delete(known);
	if (!r)
		r = take_own_settings(b);
	if (!r)
		r = keep_switches(b);
	if (!r && context_enter(b->context, "benchmark_pattern", &c))
		r = benchmark_refused(b);
	if (r)
		return r;
	b->session = c->door.session;
	context_leave(c);
	return 0;
}

/* ---- what runs ---- */

static fusion_array *random_array(struct benchmark *b, const struct fusion_operand *o, uint64_t seed) {
	/* Numbers that every integer type has. */
	const int64_t below = 100;

	if (o->dtype >= FUSION_F16)
		return fusion_random_uniform(b->context, o->dtype, o->rank, o->dims, seed);
	if (o->dtype == FUSION_BOOL)
		return fusion_random_bernoulli(b->context, o->rank, o->dims, 0.5, seed);
	return fusion_random_integers(b->context, o->dtype, o->rank, o->dims, 0, below, seed);
}

static int make_inputs(struct benchmark *b) {
	for (unsigned i = 0; i < b->copies * b->operands; i++) {
		b->input[i] = random_array(b, &b->operand[i % b->operands], i + 1);
		if (!b->input[i])
			return benchmark_refused(b);
	}
	return 0;
}

static int define(struct benchmark *b) {
	char *signature = NULL;
	int r = 0;

	if (b->record)
		return 0;
	if (asprintf(&signature, BENCHMARK_OPERATION "(%s)", b->names) < 0)
		return -ENOMEM;
	if (fusion_define_op(b->context, signature, b->text, NULL))
		r = benchmark_refused(b);
	free(signature);
	return r;
}

static fusion_array *record_one(struct benchmark *b, fusion_array *const *input) {
	static const int last = -1;
	const struct fusion_attributes any = { .axis_count = 1, .axes = &last, .eps = ANY_EPS };

	return b->record ? b->record(*input) : fusion_call(b->context, BENCHMARK_OPERATION, (int)b->operands, input, &any);
}

static int check_result(struct benchmark *b, const fusion_array *result) {
	if (!result)
		return benchmark_refused(b);
	if (fusion_bytes(result) > (size_t)BENCHMARK_BYTES / b->copies)
		return fault_set(&b->fault, FAULT_LIMIT, "benchmark_pattern: its results are more than the %d GiB that one benchmark may be of; ask for smaller operands",
			(int)(BENCHMARK_BYTES >> 30));
	return 0;
}

static int record(struct benchmark *b) {
	fusion_array *output[BENCHMARK_COPIES] = { NULL };
	int r = fusion_capture_begin(b->context, 0, NULL) ? benchmark_refused(b) : 0;

	if (r)
		return r;
	for (b->outputs = 0; !r && b->outputs < b->copies; b->outputs++) {
		output[b->outputs] = record_one(b, &b->input[(size_t)b->outputs * b->operands]);
		r = check_result(b, output[b->outputs]);
	}
	if (r)
		fusion_capture_abort(b->context);
	else if (!(b->capture = fusion_capture_end(b->context, (int)b->outputs, output)))
		r = benchmark_refused(b);
	for (unsigned i = 0; i < b->copies; i++)
		fusion_release(output[i]);
	return r;
}

int benchmark_explain(struct benchmark *b, unsigned what, cJSON **planp) {
	return benchmark_parse(b, fusion_explain_capture(b->capture, what), planp);
}

/* ---- how long it would take ---- */

static double estimate_of(const cJSON *plan) {
	double us = 0;
	const cJSON *one;

	cJSON_ArrayForEach(one, json_item(plan, "kernels")) {
		us += json_number(one, "estimated_us");
	}
	return us / 1e6;
}

/* Nothing has run yet: who asks for hours is told so at once. */
static int check_time(struct benchmark *b) {
	double seconds = 0;
	int r = 0;

	for (int form = 0; !r && form < BENCHMARK_FORMS; form++) {
		r = benchmark_explain(b, form == BENCHMARK_UNFUSED ? FUSION_EXPLAIN_UNFUSED : 0, &b->plan[form]);
		if (!r)
			seconds += BENCHMARK_RUNS_LEAST * estimate_of(b->plan[form]);
	}
	if (r || seconds <= b->seconds)
		return r;
	return fault_set(&b->fault, FAULT_LIMIT, "benchmark_pattern: it would take at least %.3g s, more than the %.3g s that it may (seconds); ask for smaller operands, or for more seconds",
		seconds, b->seconds);
}

int benchmark_open(struct benchmark *b) {
	int r = begin_session(b);

	if (!r)
		r = define(b);
	if (!r)
		r = make_inputs(b);
	if (!r)
		r = record(b);
	if (!r)
		r = check_time(b);
	/* The operands are there before anything is measured. */
	return r || !fusion_sync(b->context) ? r : benchmark_refused(b);
}

void benchmark_close(struct benchmark *b) {
	fusion_capture_free(b->capture);
	for (unsigned i = 0; i < b->copies * b->operands; i++)
		fusion_release(b->input[i]);
	for (unsigned i = 0; i < BENCHMARK_SWITCHES; i++)
		free(b->fused_as[i]);
	fusion_close(b->context);
	b->context = NULL;
}

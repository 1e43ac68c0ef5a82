/*
 * What the daemon estimates for each kernel of a workload, beside what the kernel takes.
 *
 * The daemon waits for every kernel then (engine.time_kernels), and has measured its device before, so that
 * the estimates are not those of a typical one. Both forms of a workload are looked at, fused and unfused:
 * its kernels are many of the shapes that clients send. A launch counts as what many in a row take.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum {
	STEPS_RUNS = 15,
	STEPS_TEXT = 128,
	/* While the daemon measures its device, which it begins once it was idle for 2 s. */
	MEASURE_TICK_MS = 200,
	MEASURE_TICKS = 300,
};

static double number_of(const cJSON *object, const char *name) {
	return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool device_measured(struct bench *b) {
	char *text = fusion_stats(b->context, true);
	cJSON *stats = text ? cJSON_Parse(text) : NULL;
	const cJSON *device = cJSON_GetObjectItemCaseSensitive(stats, "device");
	bool measured = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(device, "measured"));

	if (measured)
		printf("%s\n", cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(device, "rates")));
	cJSON_Delete(stats);
	free(text);
	return measured;
}

static int wait_measured(struct bench *b) {
	const struct timespec tick = { .tv_nsec = MEASURE_TICK_MS * 1000000L };

	for (int i = 0; i < MEASURE_TICKS; i++) {
		if (device_measured(b))
			return 0;
		nanosleep(&tick, NULL);
	}
	return bench_fail("the daemon has not measured its device");
}

/* ---- one workload ---- */

static void print_dims(const cJSON *kernel, char text[static STEPS_TEXT]) {
	const cJSON *dims = cJSON_GetObjectItemCaseSensitive(kernel, "dims");
	size_t at = 0;

	text[0] = 0;
	for (int i = 0; i < cJSON_GetArraySize(dims) && at < STEPS_TEXT - 24; i++)
		at += (size_t)snprintf(text + at, STEPS_TEXT - at, "%s%.0f", i ? "x" : "",
			cJSON_GetArrayItem(dims, i)->valuedouble);
}

static int take_kernel(struct steps *s, const char *workload, const char *form, const cJSON *kernel) {
	double estimated = number_of(kernel, "estimated_us"), measured = number_of(kernel, "measured_us");
	char dims[STEPS_TEXT];
	double error;

	/* What was found packed from an earlier form of the workload has not run. */
	if (!(measured > 0))
		return 0;
	error = fabs(estimated - measured) / measured;
	print_dims(kernel, dims);
	printf("%-22s %-8s %-7s %-8s %-20s %11.1f %11.1f %7.0f%%\n", workload, form,
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kernel, "root")),
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kernel, "form")), dims, estimated,
		measured, 100 * (estimated - measured) / measured);
	return samples_add(&s->error, error);
}

int steps_take(struct steps *s, const char *workload, const char *form, const char *text) {
	cJSON *json = cJSON_Parse(text);
	const cJSON *kernel;
	int r = json ? 0 : -1;

	cJSON_ArrayForEach(kernel, cJSON_GetObjectItemCaseSensitive(json, "kernels")) {
		if (!r)
			r = take_kernel(s, workload, form, kernel);
	}
	cJSON_Delete(json);
	return r;
}

static int run_form(struct bench *b, const struct workload *w, fusion_array *const *in, struct steps *s, bool fused) {
	fusion_array *result = NULL;
	char *text;
	int r = bench_fusion(b, fused);

	for (int i = 0; !r && i < STEPS_RUNS; i++) {
		fusion_scope_begin(b->context);
		result = fusion_keep(w->kind->record(w, in));
		fusion_scope_end(b->context);
		r = result ? fusion_sync(b->context) : -1;
		fusion_release(result);
	}
	if (r)
		return bench_fail("%s: %s", w->name, fusion_error());
	fusion_scope_begin(b->context);
	result = fusion_keep(w->kind->record(w, in));
	fusion_scope_end(b->context);
	text = result ? fusion_explain(b->context, 1, &result, false) : NULL;
	r = text ? steps_take(s, w->name, fused ? "fused" : "unfused", text) :
		   bench_fail("%s: %s", w->name, fusion_error());
	free(text);
	fusion_release(result);
	return r;
}

int steps_workload(struct bench *b, const struct workload *w, struct steps *s) {
	fusion_array *in[WORKLOAD_INPUTS] = { NULL };
	int r = 0;

	for (int i = 0; !r && i < w->kind->inputs; i++) {
		in[i] = workload_input(w, b->context, i, 7 + (uint64_t)i);
		r = in[i] ? 0 : -1;
	}
	if (!r)
		r = run_form(b, w, in, s, true);
	if (!r)
		r = run_form(b, w, in, s, false);
	for (int i = 0; i < WORKLOAD_INPUTS; i++)
		fusion_release(in[i]);
	return r;
}

/* ---- all of them ---- */

int steps_begin(struct bench *b) {
	int r = wait_measured(b);

	if (!r)
		printf("%-22s %-8s %-7s %-8s %-20s %11s %11s %8s\n", "workload", "", "kernel", "", "extents",
			"estimate us", "measured us", "error");
	return r;
}

void steps_end(struct steps *s) {
	if (s->error.count)
		printf("median error of the estimates of %d kernels: %.0f%%\n", s->error.count,
			100 * samples_median(&s->error));
	samples_free(&s->error);
}

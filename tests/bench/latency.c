/*
 * What a synchronous call of one small operation costs: relu of n floats, waited for. The same
 * with the result read back, and a bare nng round trip, take turns with it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "roundtrip.h"

enum {
	WARM_CALLS = 300,
	CALLS_IN_BLOCK = 200,
};

struct latency {
	struct bench *bench;
	fusion_array *x;
	float *memory;
	struct roundtrip roundtrip;
	struct samples wait, read, unfused, bare;
	double first;
	double kernels, unfused_kernels;
};

static int call_wait(struct latency *l, double *secondsp) {
	double start = bench_now();
	fusion_array *y = fusion_relu(l->x);
	int r = y ? fusion_wait(y) : -1;

	*secondsp = bench_now() - start;
	fusion_release(y);
	return r ? bench_fail("%s", fusion_error()) : 0;
}

static int call_read(struct latency *l, double *secondsp) {
	double start = bench_now();
	fusion_array *y = fusion_relu(l->x);
	int r = y ? fusion_read(y, l->memory, fusion_bytes(l->x)) : -1;

	*secondsp = bench_now() - start;
	fusion_release(y);
	return r ? bench_fail("%s", fusion_error()) : 0;
}

static int call_bare(struct latency *l, double *secondsp) {
	return roundtrip_run(&l->roundtrip, secondsp);
}

typedef int call(struct latency *l, double *secondsp);

static int block(struct latency *l, call *function, struct samples *s) {
	double seconds;
	int r = 0;

	for (int i = 0; !r && i < CALLS_IN_BLOCK; i++) {
		r = function(l, &seconds);
		if (!r)
			r = samples_add(s, seconds);
	}
	return r;
}

static int warm(struct latency *l) {
	double seconds;
	int r = call_wait(l, &l->first);

	for (int i = 0; !r && i < WARM_CALLS; i++) {
		r = call_wait(l, &seconds);
		if (!r)
			r = call_read(l, &seconds);
		if (!r)
			r = call_bare(l, &seconds);
	}
	return r;
}

static int count_kernels(struct latency *l, bool fusion, double *kernelsp) {
	double seconds, before;
	int r = bench_fusion(l->bench, fusion);

	before = bench_counter(l->bench, "kernels_launched");
	if (!r)
		r = call_wait(l, &seconds);
	*kernelsp = bench_counter(l->bench, "kernels_launched") - before;
	return r;
}

static int rounds(struct latency *l) {
	double end = bench_now() + 2 * l->bench->budget;
	int r = 0;

	while (!r && (l->bench->repeat ? l->wait.count < l->bench->repeat : bench_now() < end)) {
		r = bench_fusion(l->bench, true);
		if (!r)
			r = block(l, call_wait, &l->wait);
		if (!r)
			r = block(l, call_bare, &l->bare);
		if (!r)
			r = block(l, call_read, &l->read);
		if (!r)
			r = bench_fusion(l->bench, false);
		if (!r)
			r = block(l, call_wait, &l->unfused);
	}
	return r;
}

static int check(struct latency *l, double *errorp) {
	void *x = NULL;
	double seconds, most = 0;
	int r = call_read(l, &seconds);

	if (!r && fusion_map(l->x, FUSION_MAP_READ, &x))
		r = bench_fail("%s", fusion_error());
	for (int64_t i = 0; !r && i < fusion_elements(l->x); i++) {
		float want = ((const float *)x)[i] > 0 ? ((const float *)x)[i] : 0;

		if (l->memory[i] != want)
			most = 1;
	}
	if (!r)
		fusion_unmap(l->x);
	*errorp = most;
	return r;
}

static void report_all(struct latency *l, cJSON *report, double error) {
	double wait = samples_median(&l->wait), bare = samples_median(&l->bare),
	       read = samples_median(&l->read);
	cJSON *details = cJSON_AddArrayToObject(report, "details");
	char line[160];

	figure(report, "ms", 1e3 * samples_best(&l->wait));
	figure(report, "unfused_ms", 1e3 * samples_best(&l->unfused));
	figure(report, "kernels", l->kernels);
	figure(report, "unfused_kernels", l->unfused_kernels);
	figure(report, "first_ms", 1e3 * l->first);
	figure(report, "bytes", 2 * (double)fusion_bytes(l->x));
	figure(report, "max_error", error);
	figure(report, "median_ms", 1e3 * wait);
	figure(report, "read_ms", 1e3 * samples_best(&l->read));
	figure(report, "read_median_ms", 1e3 * read);
	figure(report, "roundtrip_ms", 1e3 * samples_best(&l->bare));
	figure(report, "roundtrip_median_ms", 1e3 * bare);
	figure(report, "roundtrips", wait / bare);
	figure(report, "roundtrips_best", samples_best(&l->wait) / samples_best(&l->bare));
	snprintf(line, sizeof line,
		"a call and its wait take %.1f us, with the result read %.1f us; a bare nng round trip %.1f "
		"us",
		1e6 * wait, 1e6 * read, 1e6 * bare);
	cJSON_AddItemToArray(details, cJSON_CreateString(line));
	snprintf(line, sizeof line, "%.2f bare round trips (medians); %.2f with the result read", wait / bare,
		read / bare);
	cJSON_AddItemToArray(details, cJSON_CreateString(line));
}

static int measure(struct latency *l, int64_t elements, double *errorp) {
	int r = bench_fusion(l->bench, true);

	if (!r)
		r = roundtrip_open(&l->roundtrip, l->bench->folder);
	if (r)
		return r;
	l->x = workload_normal(l->bench->context, 1, &elements, 7);
	l->memory = malloc((size_t)elements * sizeof *l->memory);
	if (!l->x || !l->memory)
		return bench_fail("%s", l->memory ? fusion_error() : "out of memory");
	r = warm(l);
	if (!r)
		r = count_kernels(l, true, &l->kernels);
	if (!r)
		r = count_kernels(l, false, &l->unfused_kernels);
	if (!r)
		r = rounds(l);
	return r ? r : check(l, errorp);
}

int measure_latency(struct bench *b, int64_t elements, cJSON *report) {
	struct latency l = { .bench = b };
	double error = 0;
	int r = measure(&l, elements, &error);

	if (!r)
		report_all(&l, report, error);
	fusion_release(l.x);
	free(l.memory);
	roundtrip_close(&l.roundtrip);
	samples_free(&l.wait);
	samples_free(&l.read);
	samples_free(&l.unfused);
	samples_free(&l.bare);
	return !r && error > 0 ? bench_fail("latency: a result is wrong") : r;
}

/*
 * What planning costs, without running anything: graphs of N operations that the daemon has not seen, planned for
 * an explanation, and a graph that it has, found again.
 *
 * Times are the daemon's own, of its planner alone. The new graphs are of the kind that training makes:
 * elementwise operations of two recent values, reductions that are broadcast back, products, transposed reads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum {
	ROWS = 64,
	INPUTS = 8,
	/* Values that the next operation chooses from. */
	RECENT = 12,
	GRAPHS = 9,
	PASSES = 5,
	/* More than two graphs hold: one that is sent before it is whole is run, not explained. */
	BATCH_OPS = 16384,
};

static uint32_t pick(uint64_t *state, uint32_t n) {
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33) % n;
}

static fusion_array *next_value(uint64_t *state, fusion_array *const *recent) {
	static const int last[] = { 1 }, swap[] = { 1, 0 };
	fusion_array *a = recent[pick(state, RECENT)], *b = recent[pick(state, RECENT)];

	switch (pick(state, 16)) {
	case 0:
		return fusion_sub(a, fusion_sum(b, 1, last, true));
	case 1:
		return fusion_matmul(a, b);
	case 2:
		return fusion_add(a, fusion_permute(b, swap));
	case 3:
		return fusion_tanh(a);
	case 4:
		return fusion_relu(a);
	default:
		return pick(state, 2) ? fusion_mul(a, b) : fusion_add(a, b);
	}
}

/* Operations of the client's; a sum and what uses it are one value. */
static fusion_array *record(fusion_array *const *in, int64_t operations, uint64_t seed) {
	fusion_array *recent[RECENT], *all = NULL;
	uint64_t state = seed;

	for (int i = 0; i < RECENT; i++)
		recent[i] = in[i % INPUTS];
	for (int64_t i = 0; i < operations - RECENT; i++)
		recent[(uint64_t)i % RECENT] = next_value(&state, recent);
	for (int i = 0; i < RECENT; i++)
		all = all ? fusion_add(all, recent[i]) : recent[i];
	return fusion_keep(all);
}

static int plan_new(struct bench *b, fusion_array *const *in, int64_t operations, struct samples *s) {
	int r = 0;

	for (uint64_t seed = 1; !r && seed <= GRAPHS; seed++) {
		double before = bench_counter(b, "plan_miss_ns");
		fusion_array *result;
		char *text;

		fusion_scope_begin(b->context);
		result = record(in, operations, seed);
		fusion_scope_end(b->context);
		text = result ? fusion_explain(b->context, 1, &result, false) : NULL;
		if (!text)
			r = bench_fail("plan: %s", fusion_error());
		else
			r = samples_add(s, (bench_counter(b, "plan_miss_ns") - before) * 1e-9);
		free(text);
		fusion_release(result);
	}
	return r;
}

/* A chain of two operations in turn: a few programs. */
static int run_seen(struct bench *b, fusion_array *const *in, int64_t operations) {
	fusion_array *t;

	fusion_scope_begin(b->context);
	t = in[0];
	for (int64_t i = 0; i < operations; i++)
		t = i % 2 ? fusion_mul(t, in[1]) : fusion_add(t, in[0]);
	fusion_keep(t);
	fusion_scope_end(b->context);
	if (fusion_sync(b->context))
		return bench_fail("plan: %s", fusion_error());
	fusion_release(t);
	return fusion_sync(b->context) ? bench_fail("plan: %s", fusion_error()) : 0;
}

static int plan_seen(struct bench *b, fusion_array *const *in, int64_t operations, struct samples *s) {
	int r = run_seen(b, in, operations);

	for (int i = 0; !r && i < PASSES; i++) {
		double before = bench_counter(b, "plan_hit_ns");

		r = run_seen(b, in, operations);
		if (!r)
			r = samples_add(s, (bench_counter(b, "plan_hit_ns") - before) * 1e-9);
	}
	return r;
}

static int plan_all(struct bench *b, int64_t operations, struct samples *new, struct samples *seen) {
	static const int64_t dims[] = { ROWS, ROWS };
	fusion_array *in[INPUTS] = { NULL };
	int r = 0;

	for (int i = 0; !r && i < INPUTS; i++) {
		in[i] = workload_normal(b->context, 2, dims, 50 + (uint64_t)i);
		r = in[i] ? 0 : bench_fail("plan: %s", fusion_error());
	}
	if (!r && fusion_sync(b->context))
		r = bench_fail("plan: %s", fusion_error());
	if (!r)
		r = plan_new(b, in, operations, new);
	if (!r)
		r = plan_seen(b, in, operations, seen);
	for (int i = 0; i < INPUTS; i++)
		fusion_release(in[i]);
	return r;
}

int measure_plan(struct bench *b, int64_t operations, cJSON *report) {
	struct fusion_options options = { .socket = b->socket, .name = "plan", .batch_ops = BATCH_OPS };
	struct samples new = { .count = 0 }, seen = { .count = 0 };
	struct bench own = *b;
	char line[128];
	int r;

	if (fusion_open(&own.context, &options))
		return bench_fail("plan: %s", fusion_error());
	r = plan_all(&own, operations, &new, &seen);
	if (!r) {
		snprintf(line, sizeof line, "new: the median of %d graphs %.2f ms, the best %.2f ms; seen: %.3f us an operation",
			new.count, 1e3 * samples_median(&new), 1e3 * samples_best(&new),
			1e6 * samples_best(&seen) / (double)operations);
		figure(report, "ms", 1e3 * samples_best(&new));
		figure(report, "median_ms", 1e3 * samples_median(&new));
		figure(report, "seen_us", 1e6 * samples_best(&seen) / (double)operations);
		cJSON_AddItemToArray(cJSON_AddArrayToObject(report, "details"), cJSON_CreateString(line));
	}
	fusion_close(own.context);
	samples_free(&new);
	samples_free(&seen);
	return r;
}

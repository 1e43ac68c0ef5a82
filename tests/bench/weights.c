/*
 * How two sessions share the device's time, by fusion.weight and fusion.priority.
 *
 * Two threads, each with a session of its own, ask for the same graph on arrays that the daemon has: one request at a time, waiting
 * for each, or several under way; long kernels or short ones. What each got of the device is what the daemon measured between two moments
 * in which both were at work: of the time in which both had something to launch, or were awaited (device_contended_ns of its statistics), and
 * of all (device_ns). A client whose thread is kept from a processor, or takes longer to ask than the device to do, has nothing to launch
 * for a while, and weights say nothing of that while.
 */
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	WEIGHTS_LONG = 4 << 20,
	WEIGHTS_SHORT = 64 << 10,
	/* Requests under way of who does not wait for each. */
	WEIGHTS_DEPTH = 8,
	WEIGHTS_WARM_US = 1500 * 1000,
	/* So often at most. */
	WEIGHTS_WARMS = 40,
	WEIGHTS_ROUNDS = 4,
	WEIGHTS_TEXT = 200,
};

static const struct weights_case {
	const char *name;
	int64_t elements;
	int depth;
	const char *setting, *first, *second;
} cases[] = {
	{ "weights 100:100, long, one at a time", WEIGHTS_LONG, 1, "fusion.weight", "100", "100" },
	{ "weights 100:50, long, one at a time", WEIGHTS_LONG, 1, "fusion.weight", "100", "50" },
	{ "weights 100:5, long, one at a time", WEIGHTS_LONG, 1, "fusion.weight", "100", "5" },
	{ "weights 100:5, long, several", WEIGHTS_LONG, WEIGHTS_DEPTH, "fusion.weight", "100", "5" },
	{ "weights 100:5, short, one at a time", WEIGHTS_SHORT, 1, "fusion.weight", "100", "5" },
	{ "weights 100:5, short, several", WEIGHTS_SHORT, WEIGHTS_DEPTH, "fusion.weight", "100", "5" },
	{ "priorities 1:0, long, one at a time", WEIGHTS_LONG, 1, "fusion.priority", "1", "0" },
	{ "priorities 1:0, long, several", WEIGHTS_LONG, WEIGHTS_DEPTH, "fusion.priority", "1", "0" },
	{ "priorities 1:0, short, one at a time", WEIGHTS_SHORT, 1, "fusion.priority", "1", "0" },
	{ "priorities 1:0, short, several", WEIGHTS_SHORT, WEIGHTS_DEPTH, "fusion.priority", "1", "0" },
};

struct weights_client {
	pthread_t thread;
	bool started;
	fusion_context *context;
	fusion_array *x, *y, *under_way[WEIGHTS_DEPTH];
	int depth;
	atomic_int *phase;           /* 0: warm up; 1: count; 2: end */
	double device_ns, contended_ns;
	uint64_t requests;
	int failed;
};

/* What the session has used so far is added `sign` times. */
static void count_used(struct weights_client *k, double sign) {
	char *text = fusion_stats(k->context, false);
	cJSON *stats = text ? cJSON_Parse(text) : NULL;

	k->device_ns += sign * cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stats, "device_ns"));
	k->contended_ns += sign * cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stats, "device_contended_ns"));
	cJSON_Delete(stats);
	free(text);
}

static int ask(struct weights_client *k, fusion_array **arrayp) {
	fusion_array *t = k->x;
	int r = fusion_scope_begin(k->context);

	if (r)
		return r;
	for (int i = 0; i < WEIGHTS_ROUNDS; i++)
		t = fusion_tanh(fusion_mul(fusion_add_scalar(t, 1e-3 * (double)(k->requests % 1000)), k->y));
	*arrayp = fusion_keep(t);
	r = fusion_scope_end(k->context);
	return r ? r : fusion_flush(k->context);
}

/* The oldest under way is waited for, and another one asked for. */
static int turn(struct weights_client *k) {
	fusion_array **a = &k->under_way[k->requests++ % (uint64_t)k->depth];
	int r = *a ? fusion_wait(*a) : 0;

	fusion_release(*a);
	*a = NULL;
	return r ? r : ask(k, a);
}

static void *work(void *user) {
	struct weights_client *k = user;
	int phase, before = 0;

	while (!k->failed && (phase = atomic_load(k->phase)) < 2) {
		if (phase != before) {
			before = phase;
			count_used(k, -1);
			k->requests = 0;
		}
		if (turn(k)) {
			bench_fail("weights: %s", fusion_error());
			k->failed = 1;
		}
	}
	count_used(k, 1);
	return NULL;
}

static int begin(const struct bench *b, const struct weights_case *e, const char *value, struct weights_client *k) {
	const struct fusion_options o = { .socket = b->socket, .name = "weights" };
	const int64_t dims[] = { e->elements };
	int r = fusion_open(&k->context, &o);

	if (!r)
		r = fusion_configure(k->context, e->setting, value);
	/* Requests are not to be planned together. */
	if (!r)
		r = fusion_configure(k->context, "fusion.window_us", "0");
	if (r)
		return bench_fail("weights: %s", fusion_error());
	k->depth = e->depth;
	k->x = fusion_full(k->context, FUSION_F32, 1, dims, 0.5);
	k->y = fusion_full(k->context, FUSION_F32, 1, dims, 0.25);
	if (!k->x || !k->y || fusion_sync(k->context) || pthread_create(&k->thread, NULL, work, k))
		return bench_fail("weights: a client could not begin: %s", fusion_error());
	k->started = true;
	return 0;
}

static int end(struct weights_client *k) {
	if (k->started)
		pthread_join(k->thread, NULL);
	for (int i = 0; i < WEIGHTS_DEPTH; i++)
		fusion_release(k->under_way[i]);
	fusion_release(k->x);
	fusion_release(k->y);
	fusion_close(k->context);
	return k->failed;
}

static void tell(const struct weights_case *e, const struct weights_client *k, double seconds, cJSON *report) {
	double sum = k[0].device_ns + k[1].device_ns, both = k[0].contended_ns + k[1].contended_ns, percent = 100 * k[0].contended_ns / both;
	char text[WEIGHTS_TEXT];

	snprintf(text, sizeof text, "%-38s %5.1f : %4.1f while both want it, for %3.0f %% of the time; of all %5.1f, for %3.0f %%; answers %5.0f : %5.0f a second", e->name,
		percent, 100 - percent, 1e-7 * both / seconds, 100 * k[0].device_ns / sum, 1e-7 * sum / seconds, (double)k[0].requests / seconds,
		(double)k[1].requests / seconds);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(report, "details"), cJSON_CreateString(text));
	figure(report, e->name, percent);
}

/* Until the daemon has built what both ask for, what nobody waits for aside: bytecode and compilers have the device's processors before. */
static void warm_up(const struct weights_client *k) {
	double building = 1;

	for (int i = 0; i < WEIGHTS_WARMS && building; i++) {
		char *text;
		cJSON *stats, *device;

		usleep(WEIGHTS_WARM_US);
		text = fusion_stats(k->context, true);
		stats = text ? cJSON_Parse(text) : NULL;
		device = cJSON_GetObjectItemCaseSensitive(stats, "device");
		building = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_building")) -
			cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(device, "programs_spare"));
		cJSON_Delete(stats);
		free(text);
	}
}

static int measure_case(const struct bench *b, const struct weights_case *e, double seconds, cJSON *report) {
	struct weights_client k[2] = { 0 };
	atomic_int phase = 0;
	double start = 0;
	int r = 0;

	for (int i = 0; i < 2 && !r; i++) {
		k[i].phase = &phase;
		r = begin(b, e, i ? e->second : e->first, &k[i]);
	}
	if (!r) {
		warm_up(&k[0]);
		atomic_store(&phase, 1);
		start = bench_now();
		usleep((useconds_t)(1e6 * seconds));
	}
	atomic_store(&phase, 2);
	for (int i = 0; i < 2; i++)
		if (end(&k[i]))
			r = -1;
	if (!r)
		tell(e, k, bench_now() - start, report);
	return r;
}

int measure_weights(const struct bench *b, double seconds, cJSON *report) {
	int r = 0;

	cJSON_AddArrayToObject(report, "details");
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !r; i++)
		r = measure_case(b, &cases[i], seconds, report);
	return r;
}

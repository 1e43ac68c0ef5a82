/*
 * A benchmark's runs. A round is so many replays of one form, after one that does not count, and tells what a run took on average; the forms take turns, so
 * that a machine that is busy for a while disturbs both. First by our clock, with launches as they are; then by the device's, for which the daemon has its
 * driver keep times, as for fusionctl trace, until the session ends. See benchmark.h.
 */
#include "benchmark.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "waiting.h"

enum {
	/* Replays of a round: so many that they take about so long, within bounds. By the device's clock, each is some events, of which the daemon keeps 32,768. */
	ROUND_US = 10000,
	ROUND_REPLAYS = 1000,
	ROUND_REPLAYS_TOLD = 50,
	/* Kernels that are being built are asked about so often, for so long at most: a compiler that takes longer hangs. */
	BUILD_TICK_MS = 20,
	BUILD_SECONDS = 120,
};

static double now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- times ---- */

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double benchmark_best(const struct benchmark_times *t) {
	double best = NAN;

	for (unsigned i = 0; i < t->count; i++)
		best = fmin(best, t->second[i]);
	return best;
}

double benchmark_median(struct benchmark_times *t) {
	if (!t->count)
		return NAN;
	qsort(t->second, t->count, sizeof *t->second, ascending);
	return (t->second[(t->count - 1) / 2] + t->second[t->count / 2]) / 2;
}

/* ---- runs ---- */

static void release_all(const struct benchmark *b, fusion_array **output) {
	for (unsigned i = 0; i < b->outputs; i++)
		fusion_release(output[i]);
}

static int replay(struct benchmark *b, unsigned times, double *secondsp) {
	fusion_array *output[BENCHMARK_COPIES];
	double start = now();

	for (unsigned i = 0; i < times; i++) {
		if (fusion_replay(b->capture, NULL, output))
			return benchmark_refused(b);
		release_all(b, output);
	}
	if (fusion_sync(b->context))
		return benchmark_refused(b);
	*secondsp = now() - start;
	return 0;
}

static bool is_built(const cJSON *plan) {
	const cJSON *one;

	cJSON_ArrayForEach(one, json_item(plan, "kernels")) {
		if (!strcmp(json_text(json_item(one, "program"), "state"), "being built"))
			return false;
	}
	return true;
}

/* One run asks for what is not there; the one behind the last build is the first of the kernels themselves. */
static int run_built(struct benchmark *b, enum benchmark_form form) {
	double end = now() + BUILD_SECONDS, seconds = 0;
	bool built = false, came;
	cJSON *plan;
	int r = benchmark_take_form(b, form);

	if (!r)
		r = replay(b, 1, &seconds);
	while (!r && !built && now() < end) {
		r = benchmark_explain(b, 0, &plan);
		if (r)
			break;
		built = is_built(plan);
		cJSON_Delete(plan);
		if (!built)
			r = waiting_fault(waiting_look(-1, 0, BUILD_TICK_MS, &came), &b->fault);
	}
	if (!r && !built)
		r = fault_set(&b->fault, FAULT_TIMEOUT, "benchmark_pattern: its kernels are still being built after %d s", BUILD_SECONDS);
	return r ? r : replay(b, 1, &seconds);
}

/* ---- the same bits ---- */

/* A NaN is as good as another one. */
static bool is_nan(enum fusion_dtype dtype, const void *element) {
	uint16_t half;
	float f32;
	double f64;

	if (dtype == FUSION_F32)
		return isnan(*(const float *)memcpy(&f32, element, sizeof f32));
	if (dtype == FUSION_F64)
		return isnan(*(const double *)memcpy(&f64, element, sizeof f64));
	if (dtype != FUSION_F16 && dtype != FUSION_BF16)
		return false;
	memcpy(&half, element, sizeof half);
	return (half & 0x7fff) > (dtype == FUSION_F16 ? 0x7c00 : 0x7f80);
}

static bool same_bits(const fusion_array *array, const char *a, const char *b) {
	size_t bytes = fusion_bytes(array), each = bytes / (size_t)(fusion_elements(array) ? fusion_elements(array) : 1);
	enum fusion_dtype dtype = fusion_dtype_of(array);

	if (!memcmp(a, b, bytes))
		return true;
	for (size_t at = 0; at < bytes; at += each)
		if (memcmp(a + at, b + at, each) != 0 && !(is_nan(dtype, a + at) && is_nan(dtype, b + at)))
			return false;
	return true;
}

static int compare(struct benchmark *b, fusion_array *fused, fusion_array *unfused) {
	void *a, *c;
	int r;

	if (fusion_map(fused, FUSION_MAP_READ, &a))
		return benchmark_refused(b);
	r = fusion_map(unfused, FUSION_MAP_READ, &c) ? benchmark_refused(b) : 0;
	if (!r) {
		b->same_bits &= same_bits(fused, a, c);
		r = fusion_unmap(unfused) ? benchmark_refused(b) : 0;
	}
	return fusion_unmap(fused) && !r ? benchmark_refused(b) : r;
}

static int compare_forms(struct benchmark *b) {
	fusion_array *output[BENCHMARK_FORMS][BENCHMARK_COPIES] = { { NULL } };
	int r = 0;

	for (int form = 0; !r && form < BENCHMARK_FORMS; form++) {
		r = benchmark_take_form(b, (enum benchmark_form)form);
		if (!r && fusion_replay(b->capture, NULL, output[form]))
			r = benchmark_refused(b);
	}
	b->same_bits = true;
	for (unsigned i = 0; !r && i < b->outputs; i++)
		r = compare(b, output[BENCHMARK_FUSED][i], output[BENCHMARK_UNFUSED][i]);
	for (int form = 0; form < BENCHMARK_FORMS; form++)
		release_all(b, output[form]);
	return r;
}

/* ---- the device's clock ---- */

/* What the session's launches took since the last call. */
struct told {
	unsigned events;
	double launches, seconds;
	bool lost;                   /* some were overwritten before they were read */
};

/* [kind, session, begin_ns, end_ns, ...] */
static void take_event(struct told *t, const cJSON *event) {
	const char *kind = cJSON_GetStringValue(cJSON_GetArrayItem(event, 0));

	t->events++;
	if (!kind || strcmp(kind, "device") != 0)
		return;
	t->launches++;
	t->seconds += 1e-9 * (cJSON_GetNumberValue(cJSON_GetArrayItem(event, 3)) - cJSON_GetNumberValue(cJSON_GetArrayItem(event, 2)));
}

/* One answer has some of them; the last has none. */
static int ask_events(struct benchmark *b, struct told *t) {
	const cJSON *one;
	cJSON *json;
	int r = benchmark_parse(b, fusion_inspect(b->context, FUSION_INSPECT_TIMELINE, b->next_event, b->session), &json);

	if (r)
		return r;
	cJSON_ArrayForEach(one, json_item(json, "events")) {
		take_event(t, one);
	}
	t->lost |= json_number(json, "lost") > 0;
	b->next_event = (uint64_t)json_number(json, "next");
	cJSON_Delete(json);
	return 0;
}

static int take_events(struct benchmark *b, struct told *t) {
	unsigned before = 0;
	int r;

	*t = (struct told){ 0 };
	do {
		before = t->events;
		r = ask_events(b, t);
	} while (!r && t->events > before);
	return r;
}

/* ---- rounds ---- */

static void keep(struct benchmark_times *t, double seconds) {
	if (t->count < BENCHMARK_ROUNDS)
		t->second[t->count++] = seconds;
}

static int wall_round(struct benchmark *b, enum benchmark_form form, unsigned times) {
	double seconds = 0;
	int r = replay(b, times, &seconds);

	if (!r)
		keep(&b->times[BENCHMARK_WALL][form], seconds / times);
	return r;
}

static int device_round(struct benchmark *b, enum benchmark_form form, unsigned times) {
	struct told t = { 0 };
	double seconds = 0;
	int r = take_events(b, &t);

	if (!r)
		r = replay(b, times, &seconds);
	if (!r)
		r = take_events(b, &t);
	if (r || t.lost || t.launches < times)
		return r;
	keep(&b->times[BENCHMARK_DEVICE][form], t.seconds / times);
	b->launches[form] = t.launches / times;
	return 0;
}

static int one_round(struct benchmark *b, enum benchmark_clock clock, enum benchmark_form form) {
	double seconds = 0;
	unsigned most = clock == BENCHMARK_DEVICE ? ROUND_REPLAYS_TOLD : ROUND_REPLAYS, times;
	/* Most rounds never sleep as long as who waits is asked. */
	int r = waiting_stops() ? waiting_refuse(&b->fault) : benchmark_take_form(b, form);

	/* The first run after a switch finds nothing where it was. */
	if (!r)
		r = replay(b, 1, &seconds);
	if (r)
		return r;
	times = (unsigned)fmin(most, 1 + ROUND_US / (1e6 * seconds + 1));
	return clock == BENCHMARK_DEVICE ? device_round(b, form, times) : wall_round(b, form, times);
}

/* At least one, and as many as fit. */
static int rounds(struct benchmark *b, enum benchmark_clock clock, double seconds) {
	double end = now() + seconds;
	int r = 0;

	for (unsigned i = 0; !r && i < BENCHMARK_ROUNDS && (!i || now() < end); i++) {
		enum benchmark_form first = i & 1 ? BENCHMARK_UNFUSED : BENCHMARK_FUSED;

		r = one_round(b, clock, first);
		if (!r)
			r = one_round(b, clock, first == BENCHMARK_FUSED ? BENCHMARK_UNFUSED : BENCHMARK_FUSED);
	}
	return r;
}

int benchmark_measure(struct benchmark *b) {
	struct told t = { 0 };
	int r = 0;

	for (int form = 0; !r && form < BENCHMARK_FORMS; form++)
		r = run_built(b, (enum benchmark_form)form);
	if (!r)
		r = compare_forms(b);
	if (!r)
		r = rounds(b, BENCHMARK_WALL, b->seconds / 2);
	/* From now on. */
	b->next_event = UINT64_MAX;
	if (!r)
		r = ask_events(b, &t);
	return r ? r : rounds(b, BENCHMARK_DEVICE, b->seconds / 2);
}

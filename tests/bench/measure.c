/*
 * Times one workload: fused, unfused and, where memory bounds it, plain kernels, block by block.
 *
 * Pipelined, a run is as many of the workload as --pipelined says, each with a first input of its own, and one wait
 * for all of them; times are of one. So nothing is computed once for several, and weights are the same.
 *
 * Captured, its operations are recorded once, and each run is a replay: what others compile before they time it.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough for kernels built in the background to take over. */
#define WARM_SECONDS 0.6

enum {
	WARM_RUNS = 3,
	RUNS_LEAST = 5,
};

struct measurement {
	struct bench *bench;
	const struct workload *workload;
	fusion_array *in[WORKLOAD_INPUTS];
	fusion_array **first_input;            /* of each of the pipelined ones; the first of them is in[0] */
	fusion_array **result;
	fusion_capture *capture;               /* NULL: operations are recorded each time */
	struct samples fused, unfused, plain[PLAINS];
	double first; /* seconds of the very first run */
	double kernels, unfused_kernels;
	double error;
	int64_t checked;
	bool same_bits;
};

/* ---- data ---- */

static int input_make(struct measurement *m, int i, uint64_t seed, fusion_array **inputp) {
	*inputp = workload_input(m->workload, m->bench->context, i, seed);
	return *inputp ? 0 : -1;
}

static int capture_make(struct measurement *m) {
	fusion_context *c = m->bench->context;
	fusion_array *result = NULL;

	if (fusion_capture_begin(c, m->workload->kind->inputs, m->in))
		return -1;
	fusion_scope_begin(c);
	result = fusion_keep(m->workload->kind->record(m->workload, m->in));
	fusion_scope_end(c);
	m->capture = fusion_capture_end(c, 1, &result);
	fusion_release(result);
	return m->capture ? 0 : -1;
}

static int inputs_make(struct measurement *m) {
	const struct kind *k = m->workload->kind;
	int count = m->bench->pipelined, r = 0;

	m->first_input = calloc((size_t)count, sizeof *m->first_input);
	m->result = calloc((size_t)count, sizeof *m->result);
	if (!m->first_input || !m->result)
		return bench_fail("out of memory");
	for (int i = 0; !r && i < k->inputs; i++)
		r = input_make(m, i, 7 + (uint64_t)i, &m->in[i]);
	for (int i = 1; !r && i < count; i++)
		r = input_make(m, 0, 1000 + (uint64_t)i, &m->first_input[i]);
	if (r)
		return r;
	m->first_input[0] = fusion_retain(m->in[0]);
	if (m->bench->captured && capture_make(m))
		return bench_fail("%s: %s", m->workload->name, fusion_error());
	return fusion_sync(m->bench->context) ? bench_fail("%s", fusion_error()) : 0;
}

static void inputs_free(struct measurement *m) {
	for (int i = 0; i < WORKLOAD_INPUTS; i++)
		fusion_release(m->in[i]);
	for (int i = 0; m->first_input && i < m->bench->pipelined; i++)
		fusion_release(m->first_input[i]);
	fusion_capture_free(m->capture);
	free(m->first_input);
	free(m->result);
}

/* ---- runs ---- */

static fusion_array *record_one(struct measurement *m, fusion_array *const *in) {
	fusion_array *result = NULL;

	if (!m->capture)
		return m->workload->kind->record(m->workload, in);
	return fusion_replay(m->capture, in, &result) ? NULL : result;
}

static int record_all(struct measurement *m) {
	fusion_array *in[WORKLOAD_INPUTS];
	int missing = 0;

	memcpy(in, m->in, sizeof in);
	for (int i = 0; i < m->bench->pipelined; i++) {
		in[0] = m->first_input[i];
		fusion_scope_begin(m->bench->context);
		m->result[i] = fusion_keep(record_one(m, in));
		fusion_scope_end(m->bench->context);
		missing += !m->result[i];
	}
	return missing ? -1 : 0;
}

/* One run, waited for. The caller releases *resultp, outside the time. */
static int run(struct measurement *m, fusion_array **resultp, double *secondsp) {
	double start = bench_now();
	int r = record_all(m);

	r = r ? r : fusion_sync(m->bench->context);
	*secondsp = (bench_now() - start) / m->bench->pipelined;
	for (int i = 1; i < m->bench->pipelined; i++)
		fusion_release(m->result[i]);
	*resultp = m->result[0];
	return r ? bench_fail("%s: %s", m->workload->name, fusion_error()) : 0;
}

static int run_and_drop(struct measurement *m, double *secondsp) {
	fusion_array *result = NULL;
	int r = run(m, &result, secondsp);

	fusion_release(result);
	return r;
}

static int warm(struct measurement *m) {
	double end = bench_now() + fmin(WARM_SECONDS, m->bench->budget), seconds;
	int r = 0;

	for (int i = 0; !r && (i < WARM_RUNS || bench_now() < end); i++)
		r = run_and_drop(m, &seconds);
	return r;
}

static int block(struct measurement *m, bool fused) {
	struct samples *s = fused ? &m->fused : &m->unfused;
	double end = bench_now() + fmin(BLOCK_SECONDS, m->bench->budget);
	int r = bench_fusion(m->bench, fused);

	for (int i = 0; !r && (i < BLOCK_RUNS || bench_now() < end) && (!m->bench->repeat || s->count < m->bench->repeat); i++) {
		double seconds;

		r = run_and_drop(m, &seconds);
		if (!r)
			r = samples_add(s, seconds);
	}
	return r;
}

static int plain_block(struct measurement *m, enum plain kernel) {
	int r = 0;

	for (int i = 0; !r && i < BLOCK_RUNS; i++) {
		double seconds;

		r = reference_run(m->bench, kernel, workload_elements(m->workload, 0), &seconds);
		if (!r)
			r = samples_add(&m->plain[kernel], seconds);
	}
	return r;
}

static bool needs_plain(const struct measurement *m, enum plain kernel) {
	const struct kind *k = m->workload->kind;

	if (m->workload->dtype != FUSION_F32 || !reference_useful(workload_elements(m->workload, 0)))
		return false;
	return (kernel == PLAIN_ADD && k->adds) || (kernel == PLAIN_COPY && k->copies) ||
	       (kernel == PLAIN_READ && k->reads);
}

static int plain_blocks(struct measurement *m) {
	int r = 0;

	for (int k = 0; !r && k < PLAINS; k++)
		if (needs_plain(m, (enum plain)k))
			r = plain_block(m, (enum plain)k);
	return r;
}

static bool enough(const struct measurement *m, double start) {
	if (m->bench->repeat)
		return m->fused.count >= m->bench->repeat;
	return (m->fused.count >= RUNS_LEAST && bench_now() - start > 2 * m->bench->budget) ||
	       m->fused.count >= RUNS_MOST;
}

static int rounds(struct measurement *m) {
	double start = bench_now();
	int r = 0;

	while (!r && !enough(m, start)) {
		r = block(m, true);
		if (!r)
			r = block(m, false);
		if (!r)
			r = plain_blocks(m);
	}
	return r;
}

/* Kernels of one run, by the daemon's own count. */
static int count_kernels(struct measurement *m, double *kernelsp) {
	double before = bench_counter(m->bench, "kernels_launched"), seconds;
	int r = run_and_drop(m, &seconds);

	*kernelsp = bench_counter(m->bench, "kernels_launched") - before;
	return r;
}

/* ---- results ---- */

/* In f32, which holds all elements of the types of workloads. unseen() lets go of it. */
static const float *seen(fusion_array *a, fusion_array **wide) {
	void *memory = NULL;

	*wide = fusion_dtype_of(a) == FUSION_F32 ? fusion_retain(a) : fusion_cast(a, FUSION_F32);
	return !*wide || fusion_map(*wide, FUSION_MAP_READ, &memory) ? NULL : memory;
}

static void unseen(fusion_array *wide) {
	if (wide)
		fusion_unmap(wide);
	fusion_release(wide);
}

static int check_error(struct measurement *m, fusion_array *result) {
	const float *in[WORKLOAD_INPUTS], *got;
	fusion_array *wide[WORKLOAD_INPUTS + 1];
	int inputs = m->workload->kind->inputs;
	bool all;

	got = seen(result, &wide[inputs]);
	all = got;
	for (int i = 0; i < inputs; i++) {
		in[i] = seen(m->in[i], &wide[i]);
		all = all && in[i];
	}
	if (all)
		m->error = workload_error(m->workload, in, got, &m->checked);
	for (int i = 0; i <= inputs; i++)
		unseen(wide[i]);
	return all ? 0 : bench_fail("%s: %s", m->workload->name, fusion_error());
}

#define INFINITY_BITS UINT32_C(0x7f800000)

static bool nan_bits(uint32_t bits) {
	return (bits & INT32_MAX) > INFINITY_BITS;
}

/* NaNs count as one value. */
static bool bits_equal(const void *a, const void *b, int64_t n) {
	const uint32_t *x = a, *y = b;

	for (int64_t i = 0; i < n; i++)
		if (x[i] != y[i] && !(nan_bits(x[i]) && nan_bits(y[i])))
			return false;
	return true;
}

static int compare_bits(struct measurement *m, fusion_array *fused, fusion_array *unfused) {
	fusion_array *wide[2];
	const float *a = seen(fused, &wide[0]), *b = seen(unfused, &wide[1]);
	bool all = a && b;

	if (all)
		m->same_bits = bits_equal(a, b, fusion_elements(fused));
	unseen(wide[0]);
	unseen(wide[1]);
	return all ? 0 : bench_fail("%s: %s", m->workload->name, fusion_error());
}

static int check_results(struct measurement *m) {
	fusion_array *fused = NULL, *unfused = NULL;
	double seconds;
	int r = bench_fusion(m->bench, true);

	if (!r)
		r = run(m, &fused, &seconds);
	if (!r)
		r = bench_fusion(m->bench, false);
	if (!r)
		r = run(m, &unfused, &seconds);
	if (!r)
		r = check_error(m, fused);
	if (!r)
		r = compare_bits(m, fused, unfused);
	fusion_release(fused);
	fusion_release(unfused);
	return r;
}

/* ---- the report ---- */

/* The time plain kernels would take for these many of each. */
static double plain_seconds(struct measurement *m, int adds, int copies, int reads) {
	double seconds = 0;

	if (adds)
		seconds += adds * samples_best(&m->plain[PLAIN_ADD]);
	if (copies)
		seconds += copies * samples_best(&m->plain[PLAIN_COPY]);
	if (reads)
		seconds += reads * samples_best(&m->plain[PLAIN_READ]);
	return seconds;
}

/* What one plain kernel of the same traffic takes: a map of two arrays and more counts as adds. */
static double fused_plain_seconds(struct measurement *m) {
	const struct kind *k = m->workload->kind;

	if (k->reads)
		return plain_seconds(m, 0, 0, 1);
	if (!k->adds)
		return plain_seconds(m, 0, 1, 0);
	return plain_seconds(m, 1, 0, 0) * (k->inputs + 1) / 3;
}

static void report_plain(struct measurement *m, cJSON *report) {
	const struct kind *k = m->workload->kind;
	double plain;

	if (!reference_useful(workload_elements(m->workload, 0)) || !(k->adds || k->copies || k->reads))
		return;
	plain = fused_plain_seconds(m);
	figure(report, "reference_ms", 1e3 * plain);
	figure(report, "ratio", plain / samples_best(&m->fused));
	figure(report, "unfused_ratio",
		plain_seconds(m, k->adds, k->copies, k->reads) / samples_best(&m->unfused));
}

static double traffic(const struct measurement *m) {
	double bytes = (double)workload_elements(m->workload, -1) * sizeof(float);

	for (int i = 0; i < m->workload->kind->inputs; i++)
		bytes += (double)workload_elements(m->workload, i) * sizeof(float);
	return bytes;
}

static void report_all(struct measurement *m, cJSON *report) {
	double best = samples_best(&m->fused), unfused = samples_best(&m->unfused);

	figure(report, "ms", 1e3 * best);
	figure(report, "unfused_ms", 1e3 * unfused);
	figure(report, "kernels", m->kernels);
	figure(report, "unfused_kernels", m->unfused_kernels);
	figure(report, "first_ms", 1e3 * m->first);
	figure(report, "bytes", traffic(m));
	figure(report, "max_error", m->error);
	figure(report, "checked", (double)m->checked);
	cJSON_AddBoolToObject(report, "same_bits", m->same_bits);
	figure(report, "median_ms", 1e3 * samples_median(&m->fused));
	figure(report, "unfused_median_ms", 1e3 * samples_median(&m->unfused));
	figure(report, "speedup", unfused / best);
	figure(report, "runs", m->fused.count);
	report_plain(m, report);
}

static int measure(struct measurement *m) {
	int r = inputs_make(m);

	if (!r)
		r = bench_fusion(m->bench, true);
	if (!r)
		r = run_and_drop(m, &m->first);
	if (!r)
		r = warm(m);
	if (!r)
		r = count_kernels(m, &m->kernels);
	if (!r)
		r = bench_fusion(m->bench, false);
	if (!r)
		r = warm(m);
	if (!r)
		r = count_kernels(m, &m->unfused_kernels);
	if (!r)
		r = rounds(m);
	return r ? r : check_results(m);
}

/* In 16 bits: of an element, some roundings of it. */
static double error_most(enum fusion_dtype dtype) {
	return dtype == FUSION_BF16 ? 0x1p-6 : dtype == FUSION_F16 ? 0x1p-9 : ERROR_MOST;
}

int measure_workload(struct bench *b, const struct workload *w, cJSON *report) {
	struct measurement m = { .bench = b, .workload = w };
	int r = measure(&m);

	if (!r)
		report_all(&m, report);
	inputs_free(&m);
	samples_free(&m.fused);
	samples_free(&m.unfused);
	for (int k = 0; k < PLAINS; k++)
		samples_free(&m.plain[k]);
	if (!r && !(m.error <= error_most(w->dtype)))
		return bench_fail("%s: a result is wrong by %g", w->name, m.error);
	if (!r && !m.same_bits)
		return bench_fail("%s: fusion changed the bits of the result", w->name);
	return r;
}

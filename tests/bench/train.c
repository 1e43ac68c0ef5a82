/*
 * train_mlp: steps of training a network of three layers, 64-256-256-10, on batches of 256, captured once and replayed.
 *
 * A step is the network forwards, cross entropy, fusion_grad() and fusion_sgd() with momentum; it gives new parameters and
 * velocities, which the next one takes. peers_train.py has the same for JAX and PyTorch. Steps follow each other without
 * waiting, as in training; the last of STEPS is waited for, and its time is theirs. Fused and unfused must give the same
 * bits, and the loss must fall.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BATCH = 256,
	LAYERS = 3,
	PARAMETERS = 2 * LAYERS,
	STATES = 2 * PARAMETERS,     /* parameters and their velocities */
	INPUTS = STATES + 2,
	OUTPUTS = STATES + 1,
	STEPS = 50,
	CLASSES = 10,
	WARM_STEPS = 3,
};

static const int64_t widths[LAYERS + 1] = { 64, 256, 256, CLASSES };

struct training {
	struct bench *bench;
	fusion_capture *step;
	fusion_array *state[STATES], *image, *label;
	float loss;
};

static int failed(void) {
	return bench_fail("train_mlp: %s", fusion_error());
}

/* ---- one step ---- */

static fusion_array *scores(fusion_array *const *parameter, fusion_array *x) {
	for (int i = 0; i < LAYERS; i++) {
		x = fusion_add(fusion_matmul(x, parameter[2 * i]), parameter[2 * i + 1]);
		if (i + 1 < LAYERS)
			x = fusion_relu(x);
	}
	return x;
}

/* New parameters and velocities, and the loss. */
static int record(fusion_array *const *in, fusion_array **out) {
	const struct fusion_sgd_options options = { .rate = 0.05, .momentum = 0.9 };
	fusion_array *slope[PARAMETERS], *loss;

	for (int i = 0; i < PARAMETERS; i++)
		fusion_watch(in[i]);
	loss = fusion_cross_entropy(scores(in, in[STATES]), in[STATES + 1], 1, (const int[]){ -1 });
	loss = fusion_mean(loss, 0, NULL, false);
	if (fusion_grad(loss, NULL, in, PARAMETERS, slope) ||
		fusion_sgd(PARAMETERS, in, slope, in + PARAMETERS, &options, out))
		return -1;
	out[STATES] = loss;
	return 0;
}

static void inputs(const struct training *t, fusion_array **in) {
	memcpy(in, t->state, sizeof t->state);
	in[STATES] = t->image;
	in[STATES + 1] = t->label;
}

static int capture(struct training *t) {
	fusion_context *c = t->bench->context;
	fusion_array *in[INPUTS], *out[OUTPUTS];
	int r;

	inputs(t, in);
	fusion_scope_begin(c);
	r = fusion_capture_begin(c, INPUTS, in);
	if (!r)
		r = record(in, out);
	if (!r)
		t->step = fusion_capture_end(c, OUTPUTS, out);
	fusion_scope_end(c);
	return t->step ? 0 : failed();
}

/* Bytes that the kernels of a plan read and write. */
static double plan_bytes(const char *text) {
	cJSON *plan = cJSON_Parse(text), *kernel;
	double bytes = 0;

	cJSON_ArrayForEach(kernel, cJSON_GetObjectItemCaseSensitive(plan, "kernels")) {
		bytes += cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(kernel, "bytes_read"));
		bytes += cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(kernel, "bytes_written"));
	}
	cJSON_Delete(plan);
	return bytes;
}

/* What a step moves, as the daemon plans it. */
static int moved(struct training *t, unsigned what, double *bytesp) {
	fusion_array *in[INPUTS], *out[OUTPUTS];
	char *text = NULL;

	inputs(t, in);
	fusion_scope_begin(t->bench->context);
	if (!record(in, out))
		text = fusion_explain(t->bench->context, OUTPUTS, out, what);
	*bytesp = text ? plan_bytes(text) : 0;
	free(text);
	fusion_scope_end(t->bench->context);
	return text ? 0 : failed();
}

/* ---- the state ---- */

static fusion_array *weight(fusion_context *c, int layer) {
	fusion_array *normal = workload_normal(c, 2, (const int64_t[]){ widths[layer], widths[layer + 1] }, 7 + (uint64_t)layer);
	fusion_array *small = fusion_mul_scalar(normal, 0.0625);

	fusion_release(normal);
	return small;
}

static fusion_array *labels(fusion_context *c) {
	static int32_t label[BATCH];
	static const int64_t dims[] = { BATCH };

	for (int i = 0; i < BATCH; i++)
		label[i] = i % CLASSES;
	return fusion_from(c, FUSION_I32, 1, dims, label);
}

static void forget(struct training *t) {
	for (int i = 0; i < STATES; i++) {
		fusion_release(t->state[i]);
		t->state[i] = NULL;
	}
}

static int begin(struct training *t) {
	fusion_context *c = t->bench->context;

	forget(t);
	for (int i = 0; i < LAYERS; i++) {
		t->state[2 * i] = weight(c, i);
		t->state[2 * i + 1] = fusion_full(c, FUSION_F32, 1, &widths[i + 1], 0);
	}
	for (int i = 0; i < PARAMETERS; i++)
		t->state[PARAMETERS + i] = fusion_full(c, FUSION_F32, fusion_rank(t->state[i]), fusion_dims(t->state[i]), 0);
	return fusion_sync(c) ? failed() : 0;
}

static int begin_all(struct training *t) {
	t->image = workload_normal(t->bench->context, 2, (const int64_t[]){ BATCH, widths[0] }, 3);
	t->label = labels(t->bench->context);
	return t->image && t->label ? begin(t) : failed();
}

static void end_all(struct training *t) {
	forget(t);
	fusion_release(t->image);
	fusion_release(t->label);
}

/* ---- running ---- */

static int steps(struct training *t, int count) {
	for (int k = 0; k < count; k++) {
		fusion_array *in[INPUTS], *out[OUTPUTS];

		inputs(t, in);
		if (fusion_replay(t->step, in, out))
			return failed();
		forget(t);
		memcpy(t->state, out, sizeof t->state);
		if (k + 1 == count && fusion_read(out[STATES], &t->loss, sizeof t->loss))
			return failed();
		fusion_release(out[STATES]);
	}
	return 0;
}

static int timed(struct training *t, struct samples *s) {
	double start = bench_now();
	int r = steps(t, STEPS);

	return r ? r : samples_add(s, (bench_now() - start) / STEPS);
}

struct figures {
	struct samples fused, unfused;
	double kernels, kernels_unfused, bytes, bytes_unfused;      /* of a step */
	float loss[2];
};

/* The loss after as many steps from the same beginning, and how fused ones ran. */
static int compare(struct training *t, struct figures *f, bool fused) {
	double launched, unfused;
	int r = bench_fusion(t->bench, fused);

	if (!r)
		r = begin(t);
	if (!r)
		r = steps(t, WARM_STEPS);
	launched = bench_counter(t->bench, "kernels_launched");
	unfused = bench_counter(t->bench, "kernels_unfused");
	if (!r)
		r = steps(t, STEPS);
	f->loss[fused] = t->loss;
	if (!fused)
		return r;
	f->kernels = (bench_counter(t->bench, "kernels_launched") - launched) / STEPS;
	f->kernels_unfused = (bench_counter(t->bench, "kernels_unfused") - unfused) / STEPS;
	return r;
}

static int time_both(struct training *t, struct figures *f) {
	double end = bench_now() + 2 * t->bench->budget;
	int r = 0;

	while (!r && (bench_now() < end || f->unfused.count < BLOCK_RUNS)) {
		bool fused = f->fused.count <= f->unfused.count;

		r = bench_fusion(t->bench, fused);
		if (!r)
			r = steps(t, WARM_STEPS);
		for (int i = 0; !r && i < BLOCK_RUNS; i++)
			r = timed(t, fused ? &f->fused : &f->unfused);
	}
	return r;
}

static void report_figures(struct figures *f, cJSON *report) {
	char line[160];

	figure(report, "ms", 1e3 * samples_best(&f->fused));
	figure(report, "median_ms", 1e3 * samples_median(&f->fused));
	figure(report, "unfused_ms", 1e3 * samples_best(&f->unfused));
	figure(report, "speedup", samples_best(&f->unfused) / samples_best(&f->fused));
	figure(report, "kernels", f->kernels);
	figure(report, "kernels_unfused", f->kernels_unfused);
	figure(report, "bytes", f->bytes);
	figure(report, "bytes_unfused", f->bytes_unfused);
	figure(report, "loss", (double)f->loss[1]);
	snprintf(line, sizeof line, "a step: %.1f kernels instead of %.1f, %.0f KiB moved instead of %.0f; loss %.5f after %d steps",
		f->kernels, f->kernels_unfused, f->bytes / 1024, f->bytes_unfused / 1024, (double)f->loss[1], WARM_STEPS + STEPS);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(report, "details"), cJSON_CreateString(line));
}

/* ---- its kernels ---- */

/* What the daemon tells of the graph that ran last: another session may ask. */
static char *last_graph(const struct training *t) {
	struct fusion_options options = { .socket = t->bench->socket, .name = "fusion-bench" };
	fusion_context *other = NULL;
	char *text = NULL, *graph = NULL;
	cJSON *recent;

	if (!fusion_open(&other, &options))
		text = fusion_recent(other, 0, 0);
	recent = cJSON_Parse(text);
	if (recent)
		graph = cJSON_PrintUnformatted(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(recent, "graphs"), 0));
	cJSON_Delete(recent);
	free(text);
	fusion_close(other);
	return graph;
}

/* Runs a step often enough for its kernels to have been timed, and tells of them. */
static int steps_form(struct training *t, struct steps *s, bool fused) {
	char *text = NULL;
	int r = bench_fusion(t->bench, fused);

	if (!r)
		r = begin(t);
	if (!r)
		r = steps(t, STEPS);
	if (!r)
		text = last_graph(t);
	r = text ? steps_take(s, "train_mlp", fused ? "fused" : "unfused", text) : failed();
	free(text);
	return r;
}

int steps_train(struct bench *b, struct steps *s) {
	struct training t = { .bench = b };
	int r = begin_all(&t);

	if (!r)
		r = capture(&t);
	if (!r)
		r = steps_form(&t, s, true);
	if (!r)
		r = steps_form(&t, s, false);
	end_all(&t);
	fusion_capture_free(t.step);
	return r;
}

/* ---- its time ---- */

int measure_train(struct bench *b, cJSON *report) {
	struct training t = { .bench = b };
	struct figures f = { .kernels = 0 };
	int r = begin_all(&t);

	if (!r)
		r = capture(&t);
	if (!r)
		r = compare(&t, &f, false);
	if (!r)
		r = compare(&t, &f, true);
	if (!r && memcmp(&f.loss[0], &f.loss[1], sizeof f.loss[0]) != 0)
		r = bench_fail("train_mlp: the loss is %.9g unfused and %.9g fused", (double)f.loss[0], (double)f.loss[1]);
	if (!r)
		r = moved(&t, 0, &f.bytes);
	if (!r)
		r = moved(&t, FUSION_EXPLAIN_UNFUSED, &f.bytes_unfused);
	if (!r)
		r = time_both(&t, &f);
	if (!r)
		report_figures(&f, report);
	end_all(&t);
	fusion_capture_free(t.step);
	samples_free(&f.fused);
	samples_free(&f.unfused);
	return r;
}

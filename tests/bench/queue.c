/*
 * What one queued small operation costs in CPU time, of the client and of the daemon, without the
 * kernels themselves: N operations on 1,024 floats are recorded and waited for once.
 *
 * There is nothing to fold or share. `queue_N` adds two of about sqrt(2 N) different arrays, every
 * pair once, and holds all results; `queue_chain_N` is a chain of which only the end is held. The
 * first pass is a graph the daemon has not seen; later ones are the same graph again.
 *
 * The client's time is its whole process's. The daemon's is that of the engine's main thread and of
 * nng's threads in it; the driver's threads, which run the kernels, and the compiler threads are
 * reported beside it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

enum {
	FLOATS = 1024,
	PASSES_SEEN = 7,
	CHECKED_ARRAYS = 64,
};

struct cost {
	double wall, client, engine, driver, compiler; /* seconds */
};

struct queue {
	struct bench *bench;
	bool chain;
	int64_t operations;
	fusion_array **source;
	int64_t sources;
	fusion_array **result;
	int64_t results;
};

static double client_seconds(void) {
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the operations ---- */

static int64_t sources_needed(int64_t operations, bool chain) {
	int64_t n = 2;

	while (!chain && n * (n - 1) / 2 < operations)
		n++;
	return n;
}

static int queue_new(struct queue *q) {
	const int64_t dims[] = { FLOATS };

	q->sources = sources_needed(q->operations, q->chain);
	q->results = q->chain ? 1 : q->operations;
	q->source = calloc((size_t)q->sources, sizeof(fusion_array *));
	q->result = calloc((size_t)q->results, sizeof(fusion_array *));
	if (!q->source || !q->result)
		return bench_fail("out of memory");
	for (int64_t i = 0; i < q->sources; i++) {
		q->source[i] = workload_normal(q->bench->context, 1, dims, 100 + (uint64_t)i);
		if (!q->source[i])
			return bench_fail("%s", fusion_error());
	}
	return fusion_sync(q->bench->context) ? bench_fail("%s", fusion_error()) : 0;
}

static void drop_results(struct queue *q) {
	for (int64_t i = 0; q->result && i < q->results; i++) {
		fusion_release(q->result[i]);
		q->result[i] = NULL;
	}
}

static void queue_free(struct queue *q) {
	drop_results(q);
	for (int64_t i = 0; q->source && i < q->sources; i++)
		fusion_release(q->source[i]);
	free(q->source);
	free(q->result);
}

/* Every pair once, in an order without runs of the same operand. */
static void record_pairs(struct queue *q) {
	int64_t n = 0;

	for (int64_t distance = 1; distance < q->sources; distance++)
		for (int64_t i = 0; i + distance < q->sources && n < q->operations; i++)
			q->result[n++] = fusion_add(q->source[i], q->source[i + distance]);
}

/* t - a and b - t in turns: each differs from all before, and values stay bounded, as four of them cancel. */
static void record_chain(struct queue *q) {
	fusion_array *t = fusion_retain(q->source[0]);

	for (int64_t i = 0; i < q->operations; i++) {
		fusion_array *next = i % 2 ? fusion_sub(q->source[1], t) : fusion_sub(t, q->source[0]);

		fusion_release(t);
		t = next;
	}
	q->result[0] = t;
}

/* ---- passes ---- */

static int pass(struct queue *q, struct cost *c) {
	struct thread_times before, after;
	double client = client_seconds(), start;
	int r = threads_read(q->bench->engine, &before);

	if (r)
		return r;
	start = bench_now();
	if (q->chain)
		record_chain(q);
	else
		record_pairs(q);
	if (fusion_error_code() || fusion_sync(q->bench->context))
		return bench_fail("%s", fusion_error());
	c->wall = bench_now() - start;
	drop_results(q);
	if (fusion_sync(q->bench->context))
		return bench_fail("%s", fusion_error());
	c->client = client_seconds() - client;
	r = threads_read(q->bench->engine, &after);
	c->engine = after.work - before.work;
	c->driver = after.driver - before.driver;
	c->compiler = after.compiler - before.compiler;
	return r;
}

static int compare_costs(const void *a, const void *b) {
	const struct cost *x = a, *y = b;
	double tx = x->client + x->engine, ty = y->client + y->engine;

	return (tx > ty) - (tx < ty);
}

/* The median, by CPU time, of several passes over a graph the daemon knows. */
static int passes_seen(struct queue *q, struct cost *median, double *bestp) {
	struct cost c[PASSES_SEEN] = { { .wall = 0 } };
	int r = 0;

	*bestp = INFINITY;
	for (int i = 0; !r && i < PASSES_SEEN; i++) {
		r = pass(q, &c[i]);
		*bestp = fmin(*bestp, c[i].wall);
	}
	if (r)
		return r;
	qsort(c, PASSES_SEEN, sizeof *c, compare_costs);
	*median = c[PASSES_SEEN / 2];
	return 0;
}

/* ---- checking ---- */

static int check_pair(struct queue *q, int64_t wanted, float *got, double *errorp) {
	int64_t distance = 1, i = wanted;
	float x[FLOATS], y[FLOATS];

	while (i >= q->sources - distance)
		i -= q->sources - distance++;
	if (fusion_read(q->source[i], x, sizeof x) || fusion_read(q->source[i + distance], y, sizeof y))
		return -1;
	for (int k = 0; k < FLOATS; k++)
		*errorp = fmax(*errorp, fabs((double)got[k] - ((double)x[k] + (double)y[k])));
	return 0;
}

static int check_chain(struct queue *q, const float *got, double *errorp) {
	float x[FLOATS], y[FLOATS];

	if (fusion_read(q->source[0], x, sizeof x) || fusion_read(q->source[1], y, sizeof y))
		return -1;
	for (int k = 0; k < FLOATS; k++) {
		double t = (double)x[k];

		for (int64_t i = 0; i < q->operations; i++)
			t = i % 2 ? (double)y[k] - t : t - (double)x[k];
		*errorp = fmax(*errorp, fabs((double)got[k] - t) / fmax(1, fabs(t)));
	}
	return 0;
}

static int check(struct queue *q, double *errorp) {
	int64_t stride = q->results / CHECKED_ARRAYS + 1;
	float got[FLOATS];
	int r = 0;

	*errorp = 0;
	if (q->chain)
		record_chain(q);
	else
		record_pairs(q);
	for (int64_t i = 0; !r && i < q->results; i += stride) {
		r = fusion_read(q->result[i], got, sizeof got);
		if (!r)
			r = q->chain ? check_chain(q, got, errorp) : check_pair(q, i, got, errorp);
	}
	drop_results(q);
	return r ? bench_fail("%s", fusion_error()) : 0;
}

/* ---- the report ---- */

static void report_cost(const struct queue *q, cJSON *report, const char *which, const struct cost *c) {
	double unit = 1e6 / (double)q->operations;
	cJSON *part = cJSON_AddObjectToObject(report, which);
	char line[160];

	figure(part, "client_us", unit * c->client);
	figure(part, "engine_us", unit * c->engine);
	figure(part, "total_us", unit * (c->client + c->engine));
	figure(part, "driver_us", unit * c->driver);
	figure(part, "compiler_us", unit * c->compiler);
	figure(part, "wall_ms", 1e3 * c->wall);
	snprintf(line, sizeof line,
		"%-10s us an operation: client %.2f + daemon %.2f = %.2f; beside it driver %.2f, compilers "
		"%.2f",
		which, unit * c->client, unit * c->engine, unit * (c->client + c->engine), unit * c->driver,
		unit * c->compiler);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(report, "details"), cJSON_CreateString(line));
}

struct passes {
	struct cost first, seen, unfused;
	double best, unfused_best, kernels, unfused_kernels, error;
};

static int count_kernels(struct queue *q, double *kernelsp) {
	double before = bench_counter(q->bench, "kernels_launched");
	struct cost c;
	int r = pass(q, &c);

	*kernelsp = bench_counter(q->bench, "kernels_launched") - before;
	return r;
}

static int measure(struct queue *q, struct passes *p) {
	int r = bench_fusion(q->bench, true);

	if (!r)
		r = queue_new(q);
	if (!r)
		r = pass(q, &p->first);
	if (!r)
		r = count_kernels(q, &p->kernels);
	if (!r)
		r = passes_seen(q, &p->seen, &p->best);
	if (!r)
		r = check(q, &p->error);
	if (!r)
		r = bench_fusion(q->bench, false);
	if (!r)
		r = count_kernels(q, &p->unfused_kernels);
	return r ? r : passes_seen(q, &p->unfused, &p->unfused_best);
}

static void report_all(const struct queue *q, cJSON *report, const struct passes *p) {
	figure(report, "ms", 1e3 * p->best);
	figure(report, "unfused_ms", 1e3 * p->unfused_best);
	figure(report, "kernels", p->kernels);
	figure(report, "unfused_kernels", p->unfused_kernels);
	figure(report, "first_ms", 1e3 * p->first.wall);
	figure(report, "bytes", 3.0 * FLOATS * sizeof(float) * (double)q->operations);
	figure(report, "max_error", p->error);
	cJSON_AddArrayToObject(report, "details");
	report_cost(q, report, "new", &p->first);
	report_cost(q, report, "seen", &p->seen);
	report_cost(q, report, "unfused", &p->unfused);
}

int measure_queue(struct bench *b, int64_t operations, bool chain, cJSON *report) {
	struct queue q = { .bench = b, .operations = operations, .chain = chain };
	struct passes p = { .best = 0 };
	int r = measure(&q, &p);

	if (!r)
		report_all(&q, report, &p);
	queue_free(&q);
	return !r && !(p.error <= ERROR_MOST) ? bench_fail("queue: a result is wrong by %g", p.error) : r;
}

/*
 * Many processes on one daemon: each sends two arrays of 64 KiB, asks for operations on them (those of
 * a small activation, four times over) and reads the result, again and again.
 *
 * Some of them may be heavy: those ask for the same operations on 16M floats that the daemon has, and wait. What is
 * told of requests is then of those of the light ones.
 *
 * A client is this program started again. It says when it has its first result, goes on until all
 * others are warm and the daemon builds no more kernels, then counts for so many seconds. Every client compares its first result
 * with the host's arithmetic. How long a new process takes to its first result is measured afterwards, with
 * nothing else under way, by processes that end there; it counts from just before the fork.
 */
#include "bench.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	SHARE_ELEMENTS = 16384,
	SHARE_ROUNDS = 4,
	SHARE_WARM = 200,
	SHARE_HEAVY_ELEMENTS = 16 << 20,
	SHARE_HEAVY_WARM = 3,
	SHARE_FIRSTS = 7,
	SHARE_ARGUMENT = 160,
	SHARE_LINE = 128,
	/* Builders stand still when they have for so many ticks; looked at for at most so many. */
	SHARE_TICK_US = 200 * 1000,
	SHARE_STILL = 8,
	SHARE_TICKS = 100,
};

#define SHARE_STILL_CPU 1e-3

/* What a client tells: `first` at once, the rest when its time is over. */
struct share_first {
	double when;             /* bench_now() of the machine */
};

struct share_end {
	double cpu;              /* seconds, while it counted */
	int count;               /* of latencies that follow, doubles */
};

/* ---- a client ---- */

struct share_work {
	fusion_context *context;
	float x[SHARE_ELEMENTS], w[SHARE_ELEMENTS], got[SHARE_ELEMENTS];
	fusion_array *t, *u;     /* of a heavy one */
};

static void fill(struct share_work *k) {
	uint32_t state = 1;

	for (int i = 0; i < SHARE_ELEMENTS; i++) {
		float sum = 0;

		for (int j = 0; j < 4; j++) {
			state = state * 1664525 + 1013904223;
			sum += (float)(state >> 8) / 16777216.0f - 0.5f;
		}
		k->x[i] = 1.7f * sum;
		k->w[i] = 0.5f * k->x[i];
	}
}

static double expected(double t, double u) {
	double v = t;

	for (int i = 0; i < SHARE_ROUNDS; i++)
		v = tanh(v * u + 0.5) - u;
	return fmax(v, 0) + u;
}

static int check(const struct share_work *k) {
	for (int i = 0; i < SHARE_ELEMENTS; i++)
		if (!(fabs(k->got[i] - expected(k->x[i], k->w[i])) < ERROR_MOST))
			return bench_fail("share: element %d is %g, not %g", i, (double)k->got[i],
				expected(k->x[i], k->w[i]));
	return 0;
}

static fusion_array *record(fusion_array *t, fusion_array *u) {
	for (int i = 0; i < SHARE_ROUNDS; i++) {
		t = fusion_add_scalar(fusion_mul(t, u), 0.5);
		t = fusion_sub(fusion_tanh(t), u);
	}
	return fusion_add(fusion_maximum_scalar(t, 0), u);
}

/* What is computed on the way goes with the scope, before the result is asked for, so it need not be stored. */
static int light_request(struct share_work *k) {
	static const int64_t dims[] = { SHARE_ELEMENTS };
	fusion_array *t, *u, *y;
	int r = fusion_scope_begin(k->context);

	if (r)
		return r;
	t = fusion_from(k->context, FUSION_F32, 1, dims, k->x);
	u = fusion_from(k->context, FUSION_F32, 1, dims, k->w);
	y = fusion_keep(record(t, u));
	r = fusion_scope_end(k->context);
	if (!r)
		r = fusion_read(y, k->got, sizeof k->got);
	fusion_release(y);
	return r;
}

static int heavy_request(struct share_work *k) {
	fusion_array *y;
	int r = fusion_scope_begin(k->context);

	if (r)
		return r;
	y = fusion_keep(record(k->t, k->u));
	r = fusion_scope_end(k->context);
	if (!r)
		r = fusion_wait(y);
	fusion_release(y);
	return r;
}

static int request(struct share_work *k) {
	return k->t ? heavy_request(k) : light_request(k);
}

static int become_heavy(struct share_work *k) {
	static const int64_t dims[] = { SHARE_HEAVY_ELEMENTS };

	k->t = fusion_full(k->context, FUSION_F32, 1, dims, 0.5);
	k->u = fusion_full(k->context, FUSION_F32, 1, dims, 0.25);
	return k->t && k->u ? 0 : -1;
}

static int repeat(struct share_work *k, double seconds, struct samples *s) {
	double end = bench_now() + seconds, start, now = 0;

	while (now < end) {
		start = bench_now();
		if (request(k))
			return -1;
		now = bench_now();
		if (samples_add(s, now - start))
			return -1;
	}
	return 0;
}

static double cpu_seconds(void) {
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return bench_cpu(&u);
}

/* Goes on until it is told to count. */
static int warm_up(struct share_work *k) {
	struct pollfd told = { .fd = STDIN_FILENO, .events = POLLIN };

	for (int i = 0; i < (k->t ? SHARE_HEAVY_WARM : SHARE_WARM); i++)
		if (request(k))
			return -1;
	if (process_put("", 1))
		return -1;
	while (!poll(&told, 1, 0))
		if (request(k))
			return -1;
	return told.revents & POLLIN ? 0 : -1;
}

static int count(struct share_work *k, double seconds) {
	struct samples s = { .count = 0 };
	struct share_end end = { .cpu = -cpu_seconds() };
	int r = repeat(k, seconds, &s);

	end.cpu += cpu_seconds();
	end.count = s.count;
	if (!r)
		r = process_put(&end, sizeof end);
	if (!r)
		r = process_put(s.value, (size_t)s.count * sizeof *s.value);
	samples_free(&s);
	return r;
}

/* argument: "SECONDS SOCKET"; 0 seconds: the first result only; negative: a heavy one. */
int share_client(const char *argument) {
	static struct share_work k;
	char *socket;
	double seconds = strtod(argument, &socket);
	struct fusion_options options = { .socket = socket + 1, .name = "share" };
	struct share_first first;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fill(&k);
	r = fusion_open(&k.context, &options);
	if (!r)
		r = light_request(&k);
	first.when = bench_now();
	if (!r)
		r = check(&k);
	if (!r)
		r = process_put(&first, sizeof first);
	if (!r && seconds < 0)
		r = become_heavy(&k);
	if (!r && seconds != 0)
		r = warm_up(&k);
	if (!r && seconds != 0)
		r = count(&k, fabs(seconds));
	if (r && fusion_error_code())
		bench_fail("share: %s", fusion_error());
	fusion_close(k.context);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- its parent ---- */

static int client_start(const struct bench *b, double seconds, struct process *p) {
	char argument[SHARE_ARGUMENT];

	snprintf(argument, sizeof argument, "%g %s", seconds, b->socket);
	return process_start(p, "--share-client", argument);
}

/* Until the threads and the processes that build kernels have stood still for a while. */
static int await_builders(const struct bench *b) {
	struct thread_times t;
	double before = -1, now;
	int still = 0;

	for (int i = 0; still < SHARE_STILL && i < SHARE_TICKS; i++, before = now) {
		if (threads_read(b->engine, &t))
			return -1;
		now = t.compiler + threads_workers(b->supervisor, b->engine);
		/* Less where a worker has ended. */
		still = fabs(now - before) < SHARE_STILL_CPU ? still + 1 : 0;
		usleep(SHARE_TICK_US);
	}
	return 0;
}

/* Everybody is warm; all begin. */
static int start_all(const struct bench *b, struct process *p, int clients) {
	struct share_first first;
	char warm;

	for (int i = 0; i < clients; i++)
		if (process_get(&p[i], &first, sizeof first) || process_get(&p[i], &warm, 1))
			return -1;
	if (await_builders(b))
		return -1;
	for (int i = 0; i < clients; i++)
		if (process_tell(&p[i], 0))
			return -1;
	return 0;
}

struct share_result {
	struct samples latency;  /* of all light ones */
	struct samples heavy;    /* of the others */
	double sum, squares;     /* of the requests of each light client */
	double cpu;
};

static int collect(struct process *p, bool heavy, struct share_result *x) {
	struct share_end end;
	double value;

	if (process_get(p, &end, sizeof end))
		return -1;
	for (int i = 0; i < end.count; i++)
		if (process_get(p, &value, sizeof value) || samples_add(heavy ? &x->heavy : &x->latency, value))
			return -1;
	if (heavy)
		return 0;
	x->cpu += end.cpu;
	x->sum += end.count;
	x->squares += (double)end.count * end.count;
	return 0;
}

static int measure_first(const struct bench *b, double *secondsp) {
	struct samples s = { .count = 0 };
	int r = 0;

	for (int i = 0; !r && i < SHARE_FIRSTS; i++) {
		struct process p = { .pid = 0 };
		struct share_first first = { .when = 0 };

		r = client_start(b, 0, &p);
		if (!r)
			r = process_get(&p, &first, sizeof first);
		if (!r)
			r = samples_add(&s, first.when - p.started);
		process_end(&p);
	}
	*secondsp = samples_median(&s);
	samples_free(&s);
	return r;
}

static double quantile(const struct samples *sorted, double share) {
	return sorted->value[(int)(share * sorted->count)];
}

static void tell(cJSON *report, const char *what, double value) {
	cJSON *details = cJSON_GetObjectItemCaseSensitive(report, "details");
	char text[SHARE_LINE];

	snprintf(text, sizeof text, "%-46s %10.1f", what, value);
	cJSON_AddItemToArray(details, cJSON_CreateString(text));
}

/* Of a request; driver and compiler are threads of the engine. */
static void report_cpu(cJSON *report, const struct share_result *x, const struct thread_times *t) {
	double client = 1e6 * x->cpu / x->sum, engine = 1e6 * t->work / x->sum;
	double driver = 1e6 * (t->driver + t->compiler) / x->sum;

	figure(report, "client_cpu_us", client);
	figure(report, "engine_cpu_us", engine);
	figure(report, "driver_cpu_us", driver);
	tell(report, "processor time of a request, client, us", client);
	tell(report, "  engine, its own thread and nng's", engine);
	tell(report, "  engine, the driver's threads", driver);
}

static void report_result(cJSON *report, struct share_result *x, int clients, double seconds, double first) {
	double p50 = 1e6 * samples_median(&x->latency), p99 = 1e6 * quantile(&x->latency, 0.99);
	double jain = x->sum * x->sum / (clients * x->squares);

	figure(report, "clients", clients);
	figure(report, "requests_per_s", x->sum / seconds);
	figure(report, "p50_us", p50);
	figure(report, "p99_us", p99);
	figure(report, "jain", jain);
	figure(report, "first_result_ms", 1e3 * first);
	tell(report, "clients", clients);
	tell(report, "requests a second, all clients together", x->sum / seconds);
	tell(report, "half of them within, us", p50);
	tell(report, "99 of 100 within, us", p99);
	tell(report, "Jain's index, percent", 100 * jain);
	tell(report, "first result of a new process, us", 1e6 * first);
	if (!x->heavy.count)
		return;
	figure(report, "heavy_ms", 1e3 * samples_median(&x->heavy));
	tell(report, "half of the heavy ones' requests within, us", 1e6 * samples_median(&x->heavy));
}

static int run_all(const struct bench *b, struct process *p, int clients, double seconds,
	struct share_result *x, struct thread_times *t) {
	struct thread_times before = { .work = 0 };
	int r = 0;

	for (int i = 0; !r && i < clients; i++)
		r = client_start(b, i < b->heavy ? -seconds : seconds, &p[i]);
	if (!r)
		r = start_all(b, p, clients);
	if (!r)
		r = threads_read(b->engine, &before);
	for (int i = 0; !r && i < clients; i++)
		r = collect(&p[i], i < b->heavy, x);
	if (!r)
		r = threads_read(b->engine, t);
	t->work -= before.work;
	t->driver -= before.driver;
	t->compiler -= before.compiler;
	return r;
}

int measure_share(struct bench *b, int clients, double seconds, cJSON *report) {
	struct process *p = calloc((size_t)clients, sizeof *p);
	struct share_result x = { .sum = 0 };
	struct thread_times t = { .work = 0 };
	double first = 0;
	int r;

	if (!p)
		return bench_fail("out of memory");
	cJSON_AddArrayToObject(report, "details");
	r = run_all(b, p, clients, seconds, &x, &t);
	for (int i = 0; i < clients; i++)
		process_end(&p[i]);
	if (!r)
		r = measure_first(b, &first);
	if (!r && !x.latency.count)
		r = bench_fail("share: not one request ended in time");
	if (!r) {
		report_result(report, &x, clients - b->heavy, seconds, first);
		if (!b->heavy)
			report_cpu(report, &x, &t);
	}
	samples_free(&x.latency);
	samples_free(&x.heavy);
	free(p);
	return r;
}

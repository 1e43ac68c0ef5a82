/*
 * What a daemon's age costs: after so many different kernels (100, 1,000, 10,000, or those named) the time of a request that launches one of the
 * newest 1,000, in turn, what the engine has in memory, and how many mappings.
 *
 * Each kernel is a chain of elementwise operations that no other one is, over few elements, so that the launch is what takes time. With
 * FUSIOND_ENGINE_NEAR_US=0 it is the driver's threads that are looked at, instead of the engine's own. Where kernels are not in the cache, building them
 * takes a compiler a fifth of a second each.
 */
#include "age.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "client/examples/demo/private_daemon.h"

enum {
	AGE_ELEMENTS = 1024,
	/* Kernels in use: as many as a busy machine's programs have. */
	AGE_USED = 1000,
	/* Built at a time: workers have something to do. */
	AGE_AHEAD = 32,
	/* Of eight functions each. */
	AGE_CHAIN = 6,
	AGE_FUNCTIONS = 8,
	AGE_ROUNDS = 5,
	AGE_LEAST = 1000,
	AGE_PATH = 64,
	AGE_LINE = 4096,
	AGE_MOST = 100000,
	AGE_PARTS = 16,
};

typedef fusion_array *unary(fusion_array *a);

static unary *const functions[AGE_FUNCTIONS] = { fusion_tanh, fusion_sigmoid, fusion_relu, fusion_abs, fusion_sin, fusion_cos, fusion_square,
	fusion_neg };

struct aging {
	fusion_context *context;
	fusion_array *x;
	pid_t engine;
	bool json;
	double first_us, first_bytes;
	const volatile sig_atomic_t *stop;
};

bool age_is_part(const char *name) {
	char *end;
	long n = strtol(name, &end, 10);

	return *name && !*end && n > 0 && n <= AGE_MOST;
}

static fusion_array *chain(const struct aging *a, int number) {
	fusion_array *t = a->x;

	for (int i = 0; i < AGE_CHAIN; i++, number /= AGE_FUNCTIONS)
		t = functions[number % AGE_FUNCTIONS](fusion_add(t, a->x));
	return t;
}

/* Kernels from `from` to `to`, which are asked for together. */
static int build(const struct aging *a, int from, int to) {
	fusion_array *y[AGE_AHEAD] = { NULL };
	int r = 0;

	for (int i = from; !r && i < to; i++) {
		fusion_scope_begin(a->context);
		y[i - from] = fusion_keep(chain(a, i));
		fusion_scope_end(a->context);
		r = y[i - from] ? fusion_flush(a->context) : -1;
	}
	for (int i = from; !r && i < to; i++)
		r = fusion_wait(y[i - from]);
	for (int i = from; i < to; i++)
		fusion_release(y[i - from]);
	return r ? bench_fail("%s", fusion_error()) : 0;
}

static int request(const struct aging *a, int number, struct samples *to) {
	double begin = bench_now();
	fusion_array *y;
	int r;

	fusion_scope_begin(a->context);
	y = fusion_keep(chain(a, number));
	fusion_scope_end(a->context);
	r = y ? fusion_wait(y) : -1;
	fusion_release(y);
	return r ? bench_fail("%s", fusion_error()) : samples_add(to, (bench_now() - begin) * 1e6);
}

/* The newest ones, in turn; at least so many requests in all. */
static int use(const struct aging *a, int kernels, struct samples *to) {
	int used = kernels < AGE_USED ? kernels : AGE_USED, rounds = AGE_ROUNDS, r = 0;

	while (rounds * used < AGE_LEAST)
		rounds++;
	for (int i = 0; !r && i < rounds * used && !*a->stop; i++)
		r = request(a, kernels - used + i % used, to);
	return r;
}

static int mappings(pid_t pid) {
	char path[AGE_PATH], line[AGE_LINE];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		n++;
	if (f)
		fclose(f);
	return n;
}

static void report(struct aging *a, int kernels, struct samples *s) {
	double us = samples_median(s), bytes = threads_memory(a->engine, "VmRSS");

	if (!(a->first_us > 0)) {
		a->first_us = us;
		a->first_bytes = bytes;
	}
	printf(a->json ? "{\"workload\":\"age\",\"kernels\":%d,\"us\":%.2f,\"rss\":%.0f,\"mappings\":%d,\"us_ratio\":%.3f,\"rss_ratio\":%.3f}\n" :
			 "after %6d kernels: %8.2f us a request in the median, %7.1f MB in memory, %6d mappings; beside the first %.3f and %.3f\n",
		kernels, us, a->json ? bytes : bytes / 1e6, mappings(a->engine), us / a->first_us, bytes / a->first_bytes);
	fflush(stdout);
}

static int grow(struct aging *a, int from, int to) {
	int r = 0;

	for (int next; !r && from < to && !*a->stop; from = next) {
		next = from + AGE_AHEAD < to ? from + AGE_AHEAD : to;
		r = build(a, from, next);
	}
	return r;
}

static int measure(struct aging *a, const int *mark, int marks) {
	const int64_t dims[1] = { AGE_ELEMENTS };
	int r = 0, kernels = 0;

	a->x = fusion_full(a->context, FUSION_F32, 1, dims, 0.5);
	if (!a->x)
		return bench_fail("%s", fusion_error());
	for (int i = 0; !r && i < marks && !*a->stop; i++) {
		struct samples warm = { 0 }, s = { 0 };

		r = grow(a, kernels, mark[i]);
		kernels = mark[i];
		if (!r)
			r = use(a, kernels, &warm) || use(a, kernels, &s) ? -1 : 0;
		if (!r)
			report(a, kernels, &s);
		samples_free(&warm);
		samples_free(&s);
	}
	fusion_release(a->x);
	return r;
}

int age(const char *fusiond, bool json, const char *const *part, int parts, const volatile sig_atomic_t *stop) {
	int mark[AGE_PARTS] = { 100, 1000, 10000 }, marks = parts ? parts : 3, r;
	struct private_daemon daemon = { 0 };
	struct aging a = { .json = json, .stop = stop };
	char why[PRIVATE_DAEMON_TEXT];
	struct fusion_options options = { .socket = daemon.socket, .name = "fusion-bench" };

	for (int i = 0; i < parts && i < AGE_PARTS; i++)
		mark[i] = atoi(part[i]);
	/* Bytecode would run them all. */
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	if (private_daemon_start(&daemon, fusiond, stop, why))
		return bench_fail("%s", why);
	a.engine = threads_child(daemon.pid, "fusiond-engine");
	r = fusion_open(&a.context, &options) ? bench_fail("%s", fusion_error()) : measure(&a, mark, marks > AGE_PARTS ? AGE_PARTS : marks);
	fusion_close(a.context);
	private_daemon_stop(&daemon);
	return r;
}

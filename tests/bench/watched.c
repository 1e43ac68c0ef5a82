/*
 * What watching the daemon costs its clients: small requests, which have most events for their time, with somebody who asks for
 * events ten times a second, as fusionctl monitor does, and with nobody. Blocks of both take turns in one run; the recording ends
 * between them.
 */
#include "watched.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "client/examples/demo/private_daemon.h"

enum {
	ELEMENTS = 1024,
	ROUNDS = 6,
	/* So many requests are one sample, and so many samples a block. */
	REQUESTS = 500,
	SAMPLES = 20,
	WATCH_MS = 100,
	/* The daemon records for five seconds more after the last question. */
	FORGET_MS = 5500,
};

static void pause_ms(long ms) {
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* ---- who watches ---- */

struct watcher {
	fusion_context *context;
	atomic_bool stop;
	uint64_t bytes;              /* of answers */
	bool failed;
};

/* It stands behind the events, which fusionctl reads in place. */
static uint64_t next_event(const char *text) {
	const char *next = strstr(text, "\"next\":");

	return next ? strtoull(next + strlen("\"next\":"), NULL, 10) : UINT64_MAX;
}

static void *watch(void *argument) {
	struct watcher *w = argument;
	uint64_t from = UINT64_MAX;

	while (!atomic_load(&w->stop) && !w->failed) {
		char *text = fusion_inspect(w->context, FUSION_INSPECT_EVENTS, from, 0);

		w->failed = !text;
		if (text) {
			from = next_event(text);
			w->bytes += strlen(text);
		}
		free(text);
		pause_ms(WATCH_MS);
	}
	return NULL;
}

/* ---- who is watched ---- */

static int sample(fusion_array *x, double *secondsp) {
	double start = bench_now();

	for (int i = 0; i < REQUESTS; i++) {
		fusion_array *y = fusion_relu(x);
		int r = y ? fusion_wait(y) : -1;

		fusion_release(y);
		if (r)
			return bench_fail("%s", fusion_error());
	}
	*secondsp = (bench_now() - start) / REQUESTS;
	return 0;
}

static int block(fusion_array *x, struct samples *to, const volatile sig_atomic_t *stop) {
	double seconds = 0;

	for (int i = 0; i < SAMPLES; i++) {
		if (*stop)
			return bench_fail("interrupted");
		if (sample(x, &seconds) || samples_add(to, seconds))
			return -1;
	}
	return 0;
}

static int watched_block(fusion_context *watches, fusion_array *x, struct samples *to, uint64_t *bytesp, const volatile sig_atomic_t *stop) {
	struct watcher w = { .context = watches };
	pthread_t thread;
	int r;

	if (pthread_create(&thread, NULL, watch, &w))
		return bench_fail("no thread");
	r = block(x, to, stop);
	atomic_store(&w.stop, true);
	pthread_join(thread, NULL);
	*bytesp += w.bytes;
	return w.failed ? bench_fail("%s", fusion_error()) : r;
}

/* ---- both ---- */

struct result {
	struct samples alone, watched;
	uint64_t bytes;
};

static int measure(fusion_context *context, fusion_context *watches, struct result *to, const volatile sig_atomic_t *stop) {
	const int64_t dims[1] = { ELEMENTS };
	fusion_array *x = fusion_full(context, FUSION_F32, 1, dims, 1);
	struct samples warm = { 0 };
	int r = x ? block(x, &warm, stop) : bench_fail("%s", fusion_error());

	samples_free(&warm);
	for (int i = 0; !r && i < ROUNDS; i++) {
		r = block(x, &to->alone, stop);
		if (!r)
			r = watched_block(watches, x, &to->watched, &to->bytes, stop);
		pause_ms(FORGET_MS);
	}
	fusion_release(x);
	return r;
}

static void report(struct result *r, bool json) {
	double alone = samples_median(&r->alone), watched = samples_median(&r->watched);
	double best = samples_best(&r->watched) / samples_best(&r->alone);

	if (json)
		printf("{\"workload\":\"watched\",\"alone_us\":%.3f,\"watched_us\":%.3f,\"ratio\":%.4f,\"ratio_of_best\":%.4f,\"answers_bytes\":%llu}\n",
			alone * 1e6, watched * 1e6, watched / alone, best, (unsigned long long)r->bytes);
	else
		printf("a small request: %.2f us alone, %.2f us watched, ratio %.4f (of the best %.4f); %llu bytes of events\n", alone * 1e6,
			watched * 1e6, watched / alone, best, (unsigned long long)r->bytes);
}

int watched(const char *fusiond, bool json, const volatile sig_atomic_t *stop) {
	fusion_context *context = NULL, *watches = NULL;
	struct private_daemon daemon = { 0 };
	char why[PRIVATE_DAEMON_TEXT];
	struct fusion_options options = { .socket = daemon.socket, .name = "fusion-bench" };
	struct result result = { 0 };
	int r;

	if (private_daemon_start(&daemon, fusiond, stop, why))
		return bench_fail("%s", why);
	r = fusion_open(&context, &options) || fusion_open(&watches, &options) ? bench_fail("%s", fusion_error()) : 0;
	if (!r)
		r = measure(context, watches, &result, stop);
	if (!r)
		report(&result, json);
	samples_free(&result.alone);
	samples_free(&result.watched);
	fusion_close(watches);
	fusion_close(context);
	private_daemon_stop(&daemon);
	return r;
}

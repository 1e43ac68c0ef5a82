/*
 * What watching the daemon costs its clients: small requests, which have most events for their time, with somebody who asks for
 * events ten times a second, as fusionctl monitor does, with one who asks for times on the device, too, as fusionctl trace does,
 * and with nobody. Blocks of these take turns in one run; the recording ends after each turn.
 *
 * Time from call to answer, and the processor time of the daemon, supervisor and engine with the driver's threads, which a busy machine changes less.
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

/* Nobody asks; events; events with times on the device. */
enum way { ALONE, WATCHED, TIMELINE, WAYS };

static const char *const way_names[] = { "alone", "watched", "timeline" };

struct measured {
	struct samples time, processor;      /* seconds of a request */
	struct samples more;                 /* processor's median of a block, to that of the block of its round in which nobody asked */
};

struct watching {
	pid_t supervisor, engine;
	fusion_context *context, *watches;
	const volatile sig_atomic_t *stop;
	struct measured way[WAYS];
	uint64_t bytes;                      /* of answers */
};

static void pause_ms(long ms) {
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* ---- who watches ---- */

struct watcher {
	fusion_context *context;
	enum fusion_inspection what;
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
		char *text = fusion_inspect(w->context, w->what, from, 0);

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

static int processor_seconds(const struct watching *b, double *secondsp) {
	struct thread_times engine, supervisor;
	int r = threads_read(b->engine, &engine) || threads_read(b->supervisor, &supervisor) ? -1 : 0;

	*secondsp = r ? 0 : engine.work + engine.driver + supervisor.work + supervisor.driver;
	return r;
}

static int requests(fusion_array *x) {
	for (int i = 0; i < REQUESTS; i++) {
		fusion_array *y = fusion_relu(x);
		int r = y ? fusion_wait(y) : -1;

		fusion_release(y);
		if (r)
			return bench_fail("%s", fusion_error());
	}
	return 0;
}

static int sample(const struct watching *b, fusion_array *x, struct measured *to) {
	double before, after, start;

	if (processor_seconds(b, &before))
		return -1;
	start = bench_now();
	if (requests(x) || samples_add(&to->time, (bench_now() - start) / REQUESTS) || processor_seconds(b, &after))
		return -1;
	return samples_add(&to->processor, (after - before) / REQUESTS);
}

static void measured_free(struct measured *m) {
	samples_free(&m->time);
	samples_free(&m->processor);
	samples_free(&m->more);
}

static int measured_add(struct measured *to, struct measured *block) {
	int r = 0;

	for (int i = 0; !r && i < block->time.count; i++)
		r = samples_add(&to->time, block->time.value[i]) || samples_add(&to->processor, block->processor.value[i]) ? -1 : 0;
	return r;
}

/* *processorp: the block's median. */
static int block(const struct watching *b, fusion_array *x, struct measured *to, double *processorp) {
	struct measured m = { 0 };
	int r = 0;

	for (int i = 0; !r && i < SAMPLES; i++)
		r = *b->stop ? bench_fail("interrupted") : sample(b, x, &m);
	if (!r)
		r = measured_add(to, &m);
	*processorp = r ? 0 : samples_median(&m.processor);
	measured_free(&m);
	return r;
}

static int watched_block(struct watching *b, fusion_array *x, enum way way, double alone) {
	struct watcher w = { .context = b->watches, .what = way == TIMELINE ? FUSION_INSPECT_TIMELINE : FUSION_INSPECT_EVENTS };
	pthread_t thread;
	double processor;
	int r;

	if (pthread_create(&thread, NULL, watch, &w))
		return bench_fail("no thread");
	/* What the first question turns on takes a moment. */
	pause_ms(WATCH_MS);
	r = block(b, x, &b->way[way], &processor);
	atomic_store(&w.stop, true);
	pthread_join(thread, NULL);
	b->bytes += w.bytes;
	if (!r && w.failed)
		r = bench_fail("%s", fusion_error());
	return r ? r : samples_add(&b->way[way].more, processor / alone);
}

/* ---- all of it ---- */

static int measure(struct watching *b) {
	const int64_t dims[1] = { ELEMENTS };
	fusion_array *x = fusion_full(b->context, FUSION_F32, 1, dims, 1);
	struct measured warm = { 0 };
	double alone;
	int r = x ? block(b, x, &warm, &alone) : bench_fail("%s", fusion_error());

	measured_free(&warm);
	for (int i = 0; !r && i < ROUNDS; i++) {
		r = block(b, x, &b->way[ALONE], &alone);
		if (!r)
			r = samples_add(&b->way[ALONE].more, 1);
		if (!r)
			r = watched_block(b, x, WATCHED, alone);
		if (!r)
			r = watched_block(b, x, TIMELINE, alone);
		pause_ms(FORGET_MS);
	}
	fusion_release(x);
	return r;
}

static double ratio_of_best(struct watching *b, enum way way) {
	return samples_best(&b->way[way].processor) / samples_best(&b->way[ALONE].processor);
}

static void report_text(struct watching *b) {
	for (enum way w = 0; w < WAYS; w++)
		printf("a small request, %-8s %7.2f us, %7.2f us of the daemon's processors: ratio %.4f in the median of rounds, of the best %.4f\n",
			way_names[w], samples_median(&b->way[w].time) * 1e6, samples_median(&b->way[w].processor) * 1e6,
			samples_median(&b->way[w].more), ratio_of_best(b, w));
	printf("%llu bytes of events\n", (unsigned long long)b->bytes);
}

static void report_json(struct watching *b) {
	printf("{\"workload\":\"watched\"");
	for (enum way w = 0; w < WAYS; w++)
		printf(",\"%s\":{\"us\":%.3f,\"processor_us\":%.3f,\"ratio\":%.4f,\"ratio_of_best\":%.4f}", way_names[w],
			samples_median(&b->way[w].time) * 1e6, samples_median(&b->way[w].processor) * 1e6, samples_median(&b->way[w].more),
			ratio_of_best(b, w));
	printf(",\"answers_bytes\":%llu}\n", (unsigned long long)b->bytes);
}

int watched(const char *fusiond, bool json, const volatile sig_atomic_t *stop) {
	struct private_daemon daemon = { 0 };
	struct watching b = { .stop = stop };
	char why[PRIVATE_DAEMON_TEXT];
	struct fusion_options options = { .socket = daemon.socket, .name = "fusion-bench" };
	int r;

	if (private_daemon_start(&daemon, fusiond, stop, why))
		return bench_fail("%s", why);
	b.supervisor = daemon.pid;
	b.engine = threads_child(daemon.pid, "fusiond-engine");
	r = fusion_open(&b.context, &options) || fusion_open(&b.watches, &options) ? bench_fail("%s", fusion_error()) : 0;
	if (!r)
		r = measure(&b);
	if (!r)
		(json ? report_json : report_text)(&b);
	for (enum way w = 0; w < WAYS; w++)
		measured_free(&b.way[w]);
	fusion_close(b.watches);
	fusion_close(b.context);
	private_daemon_stop(&daemon);
	return r;
}

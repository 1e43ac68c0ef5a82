/*
 * What it costs threads to share a context: as many as --clients says, each of which records one small operation and reads its result, again and
 * again, all on one context, and each on one of its own, in turns.
 *
 * Beside rounds a second, which a busy machine spoils, stands what does not depend on it as much: processor time of this process and
 * how often its threads slept, both of a round.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	SHARED_ELEMENTS = 1024,
	/* Turns of each kind. */
	SHARED_TURNS = 8,
	SHARED_WARM = 300,
	SHARED_LINE = 128,
};

struct shared_thread {
	pthread_t thread;
	bool started;
	fusion_context *context;
	pthread_barrier_t *together;
	atomic_bool *over;
	int failed;
	double rounds;
};

/* Of the turns of one kind. */
struct shared_side {
	struct samples round;    /* seconds */
	double rounds, cpu, sleeps;
};

static int round_once(fusion_array *x, float *got) {
	fusion_array *y = fusion_add_scalar(x, 1);
	int r = y ? fusion_read(y, got, SHARED_ELEMENTS * sizeof *got) : -1;

	fusion_release(y);
	return r || got[SHARED_ELEMENTS - 1] == 2 ? r : bench_fail("shared: a result is wrong");
}

static void *work(void *user) {
	static const int64_t dims[] = { SHARED_ELEMENTS };
	struct shared_thread *t = user;
	float got[SHARED_ELEMENTS];
	fusion_array *x = fusion_full(t->context, FUSION_F32, 1, dims, 1);

	t->failed = !x;
	for (int i = 0; !t->failed && i < SHARED_WARM; i++)
		t->failed = round_once(x, got) != 0;
	pthread_barrier_wait(t->together);
	pthread_barrier_wait(t->together);
	/* One at least, however busy the machine is. */
	do {
		t->failed = round_once(x, got) != 0;
		t->rounds++;
	} while (!t->failed && !atomic_load(t->over));
	if (t->failed && fusion_error_code())
		bench_fail("shared: %s", fusion_error());
	fusion_release(x);
	return NULL;
}

/* All threads are started; the caller is one of the barrier. */
static int count(struct shared_thread *t, int threads, double seconds, pthread_barrier_t *together, atomic_bool *over, struct shared_side *s) {
	struct rusage before, after;
	double start, rounds = 0;
	int r = 0;

	pthread_barrier_wait(together);
	getrusage(RUSAGE_SELF, &before);
	start = bench_now();
	pthread_barrier_wait(together);
	usleep((useconds_t)(seconds * 1e6));
	atomic_store(over, true);
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i].thread, NULL);
		rounds += t[i].rounds;
		r |= t[i].failed;
	}
	getrusage(RUSAGE_SELF, &after);
	if (r)
		return -1;
	s->rounds += rounds;
	s->cpu += bench_cpu(&after) - bench_cpu(&before);
	s->sleeps += (double)(after.ru_nvcsw - before.ru_nvcsw);
	return samples_add(&s->round, (bench_now() - start) / rounds);
}

static int turn(const struct bench *b, int threads, bool share, double seconds, struct shared_side *s) {
	const struct fusion_options o = { .socket = b->socket, .name = "shared" };
	struct shared_thread *t = calloc((size_t)threads, sizeof *t);
	pthread_barrier_t together;
	atomic_bool over = false;
	int r = t ? 0 : -1;

	pthread_barrier_init(&together, NULL, (unsigned)threads + 1);
	for (int i = 0; !r && i < threads; i++) {
		t[i] = (struct shared_thread){ .together = &together, .over = &over };
		if (share && i)
			t[i].context = t[0].context;
		else
			r = fusion_open(&t[i].context, &o);
	}
	if (r)
		bench_fail("shared: %s", fusion_error());
	/* One that cannot be started would leave the others at the barrier for ever. */
	for (int i = 0; !r && i < threads; i++)
		if (pthread_create(&t[i].thread, NULL, work, &t[i]))
			exit(bench_fail("shared: no thread can be started") ? EXIT_FAILURE : EXIT_SUCCESS);
	if (!r)
		r = count(t, threads, seconds, &together, &over, s);
	for (int i = 0; t && i < (share ? 1 : threads); i++)
		fusion_close(t[i].context);
	pthread_barrier_destroy(&together);
	free(t);
	return r;
}

static void tell(cJSON *report, const char *what, double one, double own) {
	char text[SHARED_LINE];

	snprintf(text, sizeof text, "%-44s %10.1f %10.1f %8.2f", what, one, own, one / own);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(report, "details"), cJSON_CreateString(text));
}

static void tell_both(cJSON *report, int threads, struct shared_side *one, struct shared_side *own) {
	double median = 1 / samples_median(&one->round), median_own = 1 / samples_median(&own->round);

	figure(report, "threads", threads);
	figure(report, "rounds_per_s", median);
	figure(report, "rounds_per_s_apart", median_own);
	figure(report, "of_apart", median / median_own);
	figure(report, "sleeps", one->sleeps / one->rounds);
	figure(report, "cpu_us", 1e6 * one->cpu / one->rounds);
	tell(report, "one context, one each, ratio: rounds a second", median, median_own);
	tell(report, "  in the best turn", 1 / samples_best(&one->round), 1 / samples_best(&own->round));
	tell(report, "  sleeps of a round, of this process", one->sleeps / one->rounds, own->sleeps / own->rounds);
	tell(report, "  its processor time of a round, us", 1e6 * one->cpu / one->rounds, 1e6 * own->cpu / own->rounds);
}

int measure_shared(const struct bench *b, int threads, double seconds, cJSON *report) {
	struct shared_side one = { .rounds = 0 }, own = { .rounds = 0 };
	int r = 0;

	cJSON_AddArrayToObject(report, "details");
	for (int i = 0; !r && i < SHARED_TURNS; i++) {
		r = turn(b, threads, true, seconds / SHARED_TURNS, &one);
		if (!r)
			r = turn(b, threads, false, seconds / SHARED_TURNS, &own);
	}
	if (!r)
		tell_both(report, threads, &one, &own);
	samples_free(&one.round);
	samples_free(&own.round);
	return r;
}

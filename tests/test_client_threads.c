/* libfusion from several threads, how many requests it keeps unanswered, and what recording costs. */
#include "client/fusion.h"

#include <time.h>

#include "tests/fake_context.h"

enum {
	THREADS = 8,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	ROUNDS = 60,
	OPERATIONS = 5000,
#else
	ROUNDS = 400,
	OPERATIONS = 10000,
#endif
};

static double seconds(clockid_t clock) {
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- many threads ------------------------------------------------------------------------ */

static fusion_array *shared;
static atomic_uint wrong;

#define expect(x)                                                                                            \
	do {                                                                                                 \
		if (!(x)) {                                                                                  \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, fusion_error());                  \
			atomic_fetch_add(&wrong, 1);                                                         \
		}                                                                                            \
	} while (0)

static void count_call(void *user, int code) {
	if (code)
		atomic_fetch_add(&wrong, 1);
	atomic_fetch_add((atomic_uint *)user, 1);
}

/* Everything that a thread may do with arrays of its own and with one that all share. */
static void one_round(unsigned number, atomic_uint *calls) {
	int64_t n = 64 + number;
	float *data = calloc((size_t)n, sizeof *data), *back = malloc((size_t)n * sizeof *back);
	fusion_array *a, *b, *s;
	fusion_future *future;
	void *memory;

	data[n - 1] = (float)number;
	expect(!fusion_scope_begin(context));
	a = fusion_from(context, FUSION_F32, 1, &n, data);
	b = fusion_add_scalar(fusion_mul(a, a), 1);
	s = fusion_sum(shared, 0, NULL, false);
	expect(a && b && s);
	expect(!fusion_read(a, back, (size_t)n * sizeof *back));
	expect(back[n - 1] == (float)number);
	fusion_release(fusion_retain(shared));
	future = fusion_read_begin(a, back, (size_t)n * sizeof *back);
	expect(future);
	if (number % 4 == 0)
		expect(!fusion_fill_into(shared, number));
	if (number % 16 == 1) {
		expect(!fusion_map(b, FUSION_MAP_WRITE, &memory));
		expect(!fusion_unmap(b));
	}
	if (number % 8 == 2)
		expect(!fusion_sync(context));
	if (number % 8 == 3) {
		atomic_fetch_sub(calls, 1);
		expect(!fusion_read_callback(s, data, 4, count_call, calls));
		expect(!fusion_wait(s));
	}
	expect(!fusion_future_finish(future));
	expect(!fusion_scope_end(context));
	while (atomic_load(calls))
		usleep(100);
	free(data);
	free(back);
}

static void *hammer(void *user) {
	atomic_uint calls = 0;

	for (unsigned i = 0; i < ROUNDS; i++)
		one_round(i * THREADS + (unsigned)(uintptr_t)user, &calls);
	return NULL;
}

START_TEST(eight_threads_share_a_context) {
	pthread_t thread[THREADS];
	int64_t n = 100;

	open_context_with((struct fusion_options){ .batch_ops = 40 });
	shared = fusion_full(context, FUSION_F32, 1, &n, 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, hammer, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_le(fake.unanswered_most, LIMIT_UNANSWERED - 1);
	fusion_release(shared);
	close_context();
}
END_TEST

/* --- maps -------------------------------------------------------------------------------- */

static pthread_barrier_t together;

static void *map_to_read(void *user) {
	void *memory;

	(void)user;
	for (unsigned i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&together);
		expect(!fusion_map(shared, FUSION_MAP_READ, &memory));
		expect(((const float *)memory)[99] == 1);
		expect(!fusion_unmap(shared));
	}
	return NULL;
}

static void run_threads(void *(*function)(void *)) {
	pthread_t thread[THREADS];

	pthread_barrier_init(&together, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, function, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&together);
}

START_TEST(threads_map_one_array_for_reading_at_once) {
	int64_t n = 100;

	open_context();
	shared = fusion_full(context, FUSION_F32, 1, &n, 1);
	run_threads(map_to_read);
	ck_assert_uint_eq(wrong, 0);
	/* As many unmaps as maps. */
	ck_assert_int_eq(fusion_unmap(shared), FUSION_E_STATE);
	fusion_release(shared);
	close_context();
}
END_TEST

/* Who is refused is told so; nobody takes away what another thread asks for or has. */
static void *map_and_unmap(void *user) {
	enum fusion_map_mode mode = (uintptr_t)user % 2 ? FUSION_MAP_WRITE : FUSION_MAP_READ;
	void *memory;

	for (unsigned i = 0; i < ROUNDS; i++) {
		int code = fusion_map(shared, mode, &memory);

		expect(!code || code == FUSION_E_STATE);
		code = fusion_unmap(shared);
		expect(!code || code == FUSION_E_STATE);
		fusion_error_clear();
	}
	return NULL;
}

START_TEST(an_array_mapped_and_unmapped_by_all_threads_stays_one) {
	int64_t n = 100;
	float back[100];

	open_context();
	shared = fusion_full(context, FUSION_F32, 1, &n, 1);
	run_threads(map_and_unmap);
	ck_assert_uint_eq(wrong, 0);
	while (!fusion_unmap(shared))
		;
	fusion_error_clear();
	ck_assert_int_eq(fusion_read(shared, back, sizeof back), 0);
	fusion_release(shared);
	close_context();
}
END_TEST

/* --- back-pressure ----------------------------------------------------------------------- */

static void *record_much(void *user) {
	fusion_array *a = user;

	for (int i = 0; i < 2000; i++) {
		fusion_array *b = fusion_neg(a);

		if (!b)
			return a;
		fusion_release(a);
		a = b;
	}
	fusion_release(a);
	return NULL;
}

static unsigned unanswered(void) {
	unsigned n;

	pthread_mutex_lock(&fake.lock);
	n = fake.unanswered;
	pthread_mutex_unlock(&fake.lock);
	return n;
}

START_TEST(at_most_seven_requests_are_unanswered) {
	int64_t n = 10;
	pthread_t thread;
	void *failed;

	open_context_with((struct fusion_options){ .batch_ops = 20 });
	fake_pause(true);
	pthread_create(&thread, NULL, record_much, fusion_full(context, FUSION_F32, 1, &n, 1));
	AWAIT(unanswered() == LIMIT_UNANSWERED - 1);
	fake_pause(false);
	pthread_join(thread, &failed);
	ck_assert_ptr_null(failed);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.unanswered_most, LIMIT_UNANSWERED - 1);
	ck_assert_uint_ge(fake.op_count[OP_neg], 1980);
	close_context();
}
END_TEST

/* --- costs ------------------------------------------------------------------------------- */

/* CPU time of this thread for one operation, recorded, sent and released; the fake reads on others. */
static double cost_of(unsigned operations, fusion_array *a, fusion_array *b) {
	double begin = seconds(CLOCK_THREAD_CPUTIME_ID), spent;
	fusion_array *x = fusion_retain(a);

	for (unsigned i = 0; i < operations; i++) {
		fusion_array *y = i % 2 ? fusion_mul(x, b) : fusion_add(x, b);

		must(y);
		fusion_release(x);
		x = y;
	}
	must(!fusion_flush(context));
	spent = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
	fusion_release(x);
	must(!fusion_sync(context));
	return spent / operations * 1e6;
}

START_TEST(recording_is_cheap_and_linear) {
	int64_t n = 1024;
	fusion_array *a, *b;
	double small, large;

	open_context();
	a = fusion_full(context, FUSION_F32, 1, &n, 1);
	b = fusion_full(context, FUSION_F32, 1, &n, 2);
	cost_of(OPERATIONS, a, b);
	small = cost_of(OPERATIONS, a, b);
	large = cost_of(10 * OPERATIONS, a, b);
	printf("recording and sending: %.3f us an operation of %d, %.3f us of %d, %.1f bytes each\n", small,
		OPERATIONS, large, 10 * OPERATIONS, (double)fake.submit_bytes / (double)fake.ops);
	ck_assert(large < 2.5 * small + 0.5);
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

/* All results are held, as a program does that reads them in the end. */
START_TEST(held_results_cost_little_more) {
	static fusion_array *held[OPERATIONS];
	int64_t n = 1024;
	fusion_array *a;
	double begin;

	open_context();
	a = fusion_full(context, FUSION_F32, 1, &n, 1);
	for (int round = 0; round < 2; round++) {
		begin = seconds(CLOCK_THREAD_CPUTIME_ID);
		for (int i = 0; i < OPERATIONS; i++)
			held[i] = fusion_add_scalar(a, i);
		must(!fusion_flush(context));
		for (int i = 0; i < OPERATIONS; i++)
			fusion_release(held[i]);
		must(!fusion_flush(context));
		if (round)
			printf("with a scalar each, held and released: %.3f us an operation\n",
				(seconds(CLOCK_THREAD_CPUTIME_ID) - begin) / OPERATIONS * 1e6);
		ck_assert(!fusion_sync(context));
	}
	fusion_release(a);
	close_context();
}
END_TEST

RUN_TESTS("client_threads", eight_threads_share_a_context, threads_map_one_array_for_reading_at_once,
	an_array_mapped_and_unmapped_by_all_threads_stays_one, at_most_seven_requests_are_unanswered,
	recording_is_cheap_and_linear, held_results_cost_little_more)

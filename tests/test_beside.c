/*
 * A client that waits beside the engine: protocol/binding, client/beside and daemon/serve/follow, then all of it on a real
 * daemon. Whether it pays is for fusion-bench; here, that nobody's choice of processors is changed by it.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "client/beside.h"
#include "daemon/serve/follow.h"
#include "tests/daemon.h"
#include "tests/skip.h"
#include "tests/suite.h"

enum {
	/* More requests than a client is alone with before it is followed. */
	ENOUGH = 100,
	FLOATS = 16,
	TEST_SECONDS = 120,
};

static cpu_set_t mine;
static struct ring_place place, other;
static struct follow engine;
static struct beside client;

static cpu_set_t processors_of(pid_t pid) {
	cpu_set_t set;

	CPU_ZERO(&set);
	sched_getaffinity(pid, sizeof set, &set);
	return set;
}

static bool same(cpu_set_t a, cpu_set_t b) {
	return CPU_EQUAL(&a, &b);
}

static void expect_mine(void) {
	ck_assert(same(processors_of(0), mine));
}

/* One of ours, counted from 0, as it is said: its number and 1. */
static uint32_t processor(int which) {
	for (uint32_t i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &mine) && !which--)
			return i + 1;
	return 0;
}

static cpu_set_t only(uint32_t at) {
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(at - 1, &set);
	return set;
}

static void setup(void) {
	mine = processors_of(0);
	memset(&place, 0, sizeof place);
	memset(&other, 0, sizeof other);
	engine = (struct follow){ .on = true };
	beside_init(&client, &place);
}

static void teardown(void) {
	sched_setaffinity(0, sizeof mine, &mine);
}

/* ---- a thread on one processor ---- */

START_TEST(a_thread_that_was_bound_runs_where_it_could_before) {
	struct binding b = { .at = 0 };

	for (int i = 0; i < 2; i++) {
		ck_assert(binding_set(&b, processor(i)));
		ck_assert(same(processors_of(0), only(processor(i))));
		ck_assert_uint_eq(binding_here(), processor(i));
	}
	binding_end(&b);
	ck_assert_uint_eq(b.at, 0);
	expect_mine();
	binding_end(&b);
	expect_mine();
}
END_TEST

START_TEST(what_somebody_chose_for_a_bound_thread_stays) {
	cpu_set_t chosen = only(processor(1));
	struct binding b = { .at = 0 };

	ck_assert(binding_set(&b, processor(0)));
	ck_assert_int_eq(sched_setaffinity(0, sizeof chosen, &chosen), 0);
	binding_end(&b);
	ck_assert(same(processors_of(0), chosen));
	/* Who has one processor has no other to go back to. */
	ck_assert(!binding_set(&b, processor(1)));
	ck_assert(!binding_set(&b, processor(0)));
	ck_assert(same(processors_of(0), chosen));
}
END_TEST

START_TEST(a_processor_that_a_thread_may_not_use_binds_nobody) {
	static const uint32_t none[] = { 0, CPU_SETSIZE + 1, UINT32_MAX };
	struct binding b = { .at = 0 };

	for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
		ck_assert(binding_set(&b, processor(0)));
		ck_assert(!binding_set(&b, none[i]));
		expect_mine();
		ck_assert(!binding_set(&b, none[i]));
		expect_mine();
	}
}
END_TEST

/* ---- the engine ---- */

static void hears(struct ring_place *from, int times) {
	while (times--)
		follow_heard(&engine, from);
}

static void is_followed(void) {
	atomic_store(&place.client, processor(0));
	hears(&place, ENOUGH);
	ck_assert(atomic_load(&place.follows));
	ck_assert(same(processors_of(0), only(processor(0))));
}

static void is_left(void) {
	ck_assert(!atomic_load(&place.follows));
	expect_mine();
}

START_TEST(a_client_that_asks_alone_is_followed_after_a_while) {
	atomic_store(&place.client, processor(0));
	hears(&place, 3);
	is_left();
	is_followed();
}
END_TEST

START_TEST(another_client_ends_that) {
	is_followed();
	hears(&other, 1);
	is_left();
	for (int i = 0; i < ENOUGH; i++) {
		hears(&place, 1);
		hears(&other, 1);
	}
	is_left();
}
END_TEST

START_TEST(a_client_that_says_no_place_is_left) {
	is_followed();
	atomic_store(&place.client, 0);
	hears(&place, ENOUGH);
	is_left();
}
END_TEST

START_TEST(a_client_whose_memory_goes_is_forgotten) {
	is_followed();
	follow_forget(&engine, &other);
	ck_assert(atomic_load(&place.follows));
	follow_forget(&engine, &place);
	is_left();
	ck_assert_ptr_null(engine.place);
}
END_TEST

START_TEST(a_client_that_moves_is_followed_now_and_then) {
	is_followed();
	hears(&place, ENOUGH);
	atomic_store(&place.client, processor(1));
	hears(&place, 1);
	ck_assert(same(processors_of(0), only(processor(1))));
	atomic_store(&place.client, processor(0));
	hears(&place, 1);
	ck_assert(same(processors_of(0), only(processor(1))));
}
END_TEST

START_TEST(a_place_that_is_none_follows_nobody) {
	atomic_store(&place.client, UINT32_MAX);
	hears(&place, ENOUGH);
	is_left();
	is_followed();
	atomic_store(&place.client, UINT32_MAX);
	hears(&place, ENOUGH);
	is_left();
}
END_TEST

START_TEST(nobody_is_followed_where_that_is_off) {
	engine.on = false;
	atomic_store(&place.client, processor(0));
	hears(&place, ENOUGH);
	is_left();
}
END_TEST

/* ---- the client ---- */

static void asks_and_waits(void) {
	beside_asks(&client);
	beside_waits(&client);
}

START_TEST(who_asks_and_waits_says_where_it_is) {
	for (int i = 0; i < 3; i++) {
		asks_and_waits();
		ck_assert_uint_ne(atomic_load(&place.client), 0);
	}
	/* Releases may go before a request. */
	beside_asks(&client);
	beside_asks(&client);
	ck_assert_uint_ne(atomic_load(&place.client), 0);
	beside_asks(&client);
	ck_assert_uint_eq(atomic_load(&place.client), 0);
}
END_TEST

START_TEST(who_waits_sleeps_bound_where_the_engine_follows) {
	struct binding b = { .at = 0 };

	asks_and_waits();
	beside_sleeps(&client, &b);
	expect_mine();
	beside_woke(&client, &b);
	atomic_store(&place.follows, 1);
	asks_and_waits();
	beside_sleeps(&client, &b);
	ck_assert(same(processors_of(0), only(atomic_load(&place.client))));
	beside_woke(&client, &b);
	expect_mine();
}
END_TEST

static void counts(int times, uint64_t us) {
	while (times--)
		beside_counts(&client, us, 1);
}

START_TEST(who_waits_long_lets_the_system_choose_for_a_while) {
	asks_and_waits();
	counts(1000, 200);
	ck_assert_uint_ne(atomic_load(&place.client), 0);
	/* A long round now and then is nobody's fault. */
	counts(95, 200);
	counts(1, 1500);
	ck_assert_uint_ne(atomic_load(&place.client), 0);
	ck_assert_uint_eq(atomic_load(&client.apart_us), 0);
	counts(7, 3000);
	ck_assert_uint_eq(atomic_load(&place.client), 0);
	ck_assert_uint_gt(atomic_load(&client.apart_us), 1);
	/* The while is not over, then it is. */
	atomic_store(&client.apart_us, UINT64_MAX);
	asks_and_waits();
	ck_assert_uint_eq(atomic_load(&place.client), 0);
	atomic_store(&client.apart_us, 1);
	asks_and_waits();
	ck_assert_uint_ne(atomic_load(&place.client), 0);
}
END_TEST

START_TEST(a_round_counts_from_asking_to_waking) {
	struct binding b = { .at = 0 };

	atomic_store(&place.follows, 1);
	asks_and_waits();
	ck_assert_uint_ne(atomic_load(&client.asked_us), 0);
	beside_sleeps(&client, &b);
	ck_assert_uint_ne(b.at, 0);
	atomic_fetch_sub(&client.asked_us, 100000);
	beside_woke(&client, &b);
	ck_assert_uint_eq(atomic_load(&place.client), 0);
	ck_assert_uint_ne(atomic_load(&client.apart_us), 0);
	expect_mine();
}
END_TEST

/* An engine that is awake is not woken, so such a round has no beginning. */
START_TEST(a_round_that_woke_nobody_does_not_count) {
	struct binding b = { .at = 0 };

	atomic_store(&place.follows, 1);
	asks_and_waits();
	atomic_fetch_sub(&client.asked_us, 100000);
	beside_waits(&client);
	beside_sleeps(&client, &b);
	ck_assert_uint_ne(b.at, 0);
	beside_woke(&client, &b);
	ck_assert_uint_ne(atomic_load(&place.client), 0);
	ck_assert_uint_eq(atomic_load(&client.apart_us), 0);
	expect_mine();
}
END_TEST

/* ---- both, on a daemon ---- */

static void ask(fusion_context *c, double value) {
	const int64_t dims[] = { FLOATS };
	fusion_array *x = fusion_full(c, FUSION_F32, 1, dims, value), *y = fusion_add_scalar(x, 1);
	float got[FLOATS];

	ck_assert_msg(!fusion_read(y, got, sizeof got), "%s", fusion_error());
	ck_assert_float_eq(got[FLOATS - 1], (float)value + 1);
	fusion_release(x);
	fusion_release(y);
}

static bool is_bound(pid_t pid) {
	cpu_set_t set = processors_of(pid);

	return CPU_COUNT(&set) == 1;
}

static time_t seconds(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* Kernels run on the processors. */
static bool is_flat(fusion_context *c) {
	char *text = fusion_stats(c, true);
	cJSON *json = cJSON_Parse(text);
	bool flat = cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "device"), "flat"));

	cJSON_Delete(json);
	free(text);
	return flat;
}

/* Alone, the client asks until the engine's thread is bound. Only its own requests can end that, so one look is enough. */
static void ask_until_bound(fusion_context *c, pid_t pid) {
	time_t end = seconds() + PATIENCE_S;

	for (int i = 0; !is_bound(pid); i++) {
		ck_assert(seconds() < end);
		ask(c, i % 7);
		expect_mine();
	}
}

static void wait_until_free(pid_t pid, cpu_set_t engines) {
	time_t end = seconds() + PATIENCE_S;

	while (!same(processors_of(pid), engines)) {
		ck_assert(seconds() < end);
		usleep(1000);
	}
}

START_TEST(an_engine_follows_the_client_that_is_alone) {
	fusion_context *one, *two;
	cpu_set_t engines;
	pid_t pid;

	daemon_start("engine.beside=yes", NULL);
	one = connect_client();
	two = connect_client();
	pid = engine_pid();
	engines = processors_of(pid);
	if (is_flat(one)) {
		ask_until_bound(one, pid);
		for (int i = 0; i < ENOUGH; i++) {
			ask(one, i);
			expect_mine();
			ask(two, i);
		}
		ck_assert(same(processors_of(pid), engines));
		ask_until_bound(two, pid);
		fusion_close(two);
		/* The engine hears of it from the supervisor. */
		wait_until_free(pid, engines);
		ask_until_bound(one, pid);
	} else {
		skip_says(__func__, "the device has memory of its own");
		fusion_close(two);
	}
	fusion_close(one);
	daemon_stop();
}
END_TEST

START_TEST(an_engine_follows_nobody_unless_it_is_told_to) {
	fusion_context *c;
	cpu_set_t engines;

	daemon_start("log.level=notice", NULL);
	c = connect_client();
	engines = processors_of(engine_pid());
	for (int i = 0; i < ENOUGH; i++)
		ask(c, i);
	ck_assert(same(processors_of(engine_pid()), engines));
	expect_mine();
	fusion_close(c);
	daemon_stop();
}
END_TEST

/* Who may use one processor alone follows nobody to another one. */
#define ADD(tcase, test) \
	do { \
		if (alone) \
			skip_says(#test, "there is one processor only"); \
		else \
			tcase_add_test(tcase, test); \
	} while (0)

int main(void) {
	Suite *s = suite_create("beside");
	TCase *parts = tcase_create("parts"), *whole = tcase_create("whole");
	cpu_set_t all = processors_of(0);
	bool alone = CPU_COUNT(&all) < 2;

	tcase_add_checked_fixture(parts, setup, teardown);
	ADD(parts, a_thread_that_was_bound_runs_where_it_could_before);
	ADD(parts, what_somebody_chose_for_a_bound_thread_stays);
	ADD(parts, a_processor_that_a_thread_may_not_use_binds_nobody);
	ADD(parts, a_client_that_asks_alone_is_followed_after_a_while);
	ADD(parts, another_client_ends_that);
	ADD(parts, a_client_that_says_no_place_is_left);
	ADD(parts, a_client_whose_memory_goes_is_forgotten);
	ADD(parts, a_client_that_moves_is_followed_now_and_then);
	ADD(parts, a_place_that_is_none_follows_nobody);
	ADD(parts, nobody_is_followed_where_that_is_off);
	ADD(parts, who_asks_and_waits_says_where_it_is);
	ADD(parts, who_waits_sleeps_bound_where_the_engine_follows);
	ADD(parts, who_waits_long_lets_the_system_choose_for_a_while);
	ADD(parts, a_round_counts_from_asking_to_waking);
	ADD(parts, a_round_that_woke_nobody_does_not_count);
	suite_add_tcase(s, parts);
	tcase_add_checked_fixture(whole, setup, teardown);
	tcase_set_timeout(whole, TEST_SECONDS);
	ADD(whole, an_engine_follows_the_client_that_is_alone);
	ADD(whole, an_engine_follows_nobody_unless_it_is_told_to);
	suite_add_tcase(s, whole);
	return alone ? EXIT_SUCCESS : suite_run(s);
}

/*
 * A daemon that is restarted, upgraded or killed under its clients, where a service manager keeps descriptors: sessions wait for their
 * clients, which come back by themselves and have their arrays bit for bit. keeper.py stands in for the manager; tests/e2e/systemd.sh has a real one.
 */
#include <pthread.h>
#include <signal.h>
#include <sysexits.h>

#include "client/context.h"
#include "tests/busy.h"
#include "tests/keeper.h"
#include "tests/suite.h"

enum {
	ELEMENTS = 1000,
	MUCH = 1 << 20,
	TEST_SECONDS = 600,
	RESTARTS = 4,
	BUSY = 4,
	MANY_SESSIONS = 150,
	/* Of limits.user_bytes: less than one array of so many numbers. */
	GROUP_BYTES = 32 << 20,
};

static fusion_context *context;

static fusion_context *open_context(void) {
	fusion_context *c;

	ck_assert_msg(!fusion_open(&c, NULL), "%s", fusion_error());
	return c;
}

/* ---- the daemon under a manager ---- */

static void begin(void) {
	keeper_folder("return");
	keeper_start("60s", NULL);
	context = open_context();
}

static void end(void) {
	fusion_close(context);
	keeper_end();
}

/* ---- arrays ---- */

static fusion_array *numbers(fusion_context *c, float first) {
	float value[ELEMENTS];
	int64_t n = ELEMENTS;

	for (int i = 0; i < ELEMENTS; i++)
		value[i] = first + (float)i * 0.37F;
	return fusion_from(c, FUSION_F32, 1, &n, value);
}

static void must_be(fusion_array *a, const float *expected) {
	float value[ELEMENTS];

	ck_assert_msg(!fusion_read(a, value, sizeof value), "%s", fusion_error());
	ck_assert_int_eq(memcmp(value, expected, sizeof value), 0);
}

/* ---- claims ---- */

static const int signals[] = { SIGHUP, SIGUSR1 };

START_TEST(a_restart_keeps_sessions_and_arrays) {
	float uploaded[ELEMENTS], computed[ELEMENTS];
	struct fusion_token token;
	fusion_context *other = open_context(), *third;
	fusion_array *a = numbers(context, 1), *b = fusion_exp(a), *shared = fusion_neg(a), *theirs, *late;
	float *much = calloc(MUCH, sizeof *much);
	int64_t large = MUCH;

	ck_assert_msg(!fusion_read(a, uploaded, sizeof uploaded), "%s", fusion_error());
	ck_assert_msg(!fusion_read(b, computed, sizeof computed), "%s", fusion_error());
	ck_assert_msg(!fusion_export(shared, FUSION_SHARE_READ, 0, &token), "%s", fusion_error());
	theirs = fusion_import(other, &token);
	ck_assert_msg(theirs != NULL, "%s", fusion_error());
	for (int i = 0; i < 2; i++) {
		float value[ELEMENTS];
		fusion_array *sum, *room;

		keeper_restart(signals[_i]);
		must_be(a, uploaded);
		must_be(b, computed);
		ck_assert_msg(!fusion_read(theirs, value, sizeof value), "%s", fusion_error());
		for (int k = 0; k < ELEMENTS; k++)
			ck_assert_float_eq(value[k], -uploaded[k]);
		/* The session is a session: memory, results, another upload that needs an arena of its own. */
		sum = fusion_add(a, b);
		ck_assert_msg(!fusion_wait(sum), "%s", fusion_error());
		fusion_release(sum);
		room = fusion_from(context, FUSION_F32, 1, &large, much);
		ck_assert_msg(!fusion_wait(room), "%s", fusion_error());
		fusion_release(room);
		fusion_release(numbers(context, 8));
		ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	}
	third = open_context();
	late = fusion_import(third, &token);
	ck_assert_msg(late != NULL, "%s", fusion_error());
	fusion_release(late);
	fusion_close(third);
	ck_assert_int_eq((int)status_number("session_count"), 2);
	free(much);
	fusion_release(theirs);
	fusion_close(other);
	fusion_release(shared);
	fusion_release(a);
	fusion_release(b);
}
END_TEST

START_TEST(what_is_kept_goes_with_its_session) {
	fusion_context *other = open_context();
	fusion_array *a = numbers(other, 1), *b = fusion_neg(a);
	struct fusion_token token;

	ck_assert_msg(!fusion_export(b, FUSION_SHARE_READ, 0, &token), "%s", fusion_error());
	expect_kept("session-", 2);
	expect_kept("shared-", 1);
	ck_assert_int_gt(count_kept("arena-"), 0);
	keeper_restart(SIGHUP);
	ck_assert_int_eq(fusion_sync(other), 0);
	ck_assert_int_eq(fusion_sync(context), 0);
	expect_kept("shared-", 1);
	fusion_release(a);
	fusion_release(b);
	fusion_close(other);
	expect_kept("session-", 1);
	expect_kept("shared-", 0);
	fusion_close(context);
	expect_kept("session-", 0);
	expect_kept("arena-", 0);
	expect_kept("catalogue-", 1);
	context = open_context();
}
END_TEST

static bool has_ring(fusion_context *name) {
	struct fusion_context *c;
	bool has;

	ck_assert_int_eq(context_enter(name, "the test", &c), 0);
	has = c->door.ring >= 0;
	context_leave(c);
	return has;
}

START_TEST(a_session_has_a_ring_of_the_next_daemon_where_it_asked_for_one) {
	fusion_context *without;
	fusion_array *a = numbers(context, 1);
	float value[ELEMENTS];

	setenv("FUSION_TRANSPORT", "nng", 1);
	without = open_context();
	unsetenv("FUSION_TRANSPORT");
	ck_assert_msg(!fusion_read(a, value, sizeof value), "%s", fusion_error());
	for (int i = 0; i < RESTARTS; i++) {
		keeper_restart(signals[i % 2]);
		must_be(a, value);
		ck_assert_msg(!fusion_sync(without), "%s", fusion_error());
		ck_assert(has_ring(context));
		ck_assert(!has_ring(without));
	}
	fusion_release(a);
	fusion_close(without);
}
END_TEST

/* ---- clients that work meanwhile ---- */

START_TEST(busy_clients_go_on_across_restarts) {
	busy_begin(BUSY);
	for (int i = 0; i < RESTARTS; i++) {
		keeper_restart(signals[i % 2]);
		busy_await(i % 2);
	}
	busy_end();
	expect_kept("session-", 1);
}
END_TEST

/* ---- clients that do not come back ---- */

static void stand_still(int i, int said) {
	fusion_context *c = open_context();
	fusion_array *a = numbers(c, 1);
	float value[ELEMENTS];
	int code;

	(void)i;
	if (fusion_read(a, value, sizeof value) || write(said, "r", 1) != 1)
		_exit(1);
	raise(SIGSTOP);
	code = fusion_read(a, value, sizeof value);
	_exit(code == FUSION_E_LOST && strstr(fusion_error(), "door.return_us") ? 0 : 100);
}

static struct victim slow;

static void begin_with(const char *return_us) {
	keeper_folder("return");
	victim_new(&slow, 0, stand_still);
	keeper_start(return_us, NULL);
	context = open_context();
}

static void begin_with_slow(void) {
	begin_with("1s");
}

/* Nothing ends because its time is over. */
static void begin_with_patience(void) {
	begin_with("60min");
}

/* Its queue takes a few hundred messages; each session here has three or four, and as many when it ends. */
START_TEST(a_manager_that_does_not_listen_delays_nobody) {
	float x[ELEMENTS] = { 1 };
	int64_t n = ELEMENTS;
	fusion_context *last;
	char name[32];

	ck_assert_int_eq(kill(keeper, SIGSTOP), 0);
	for (int i = 0; i < MANY_SESSIONS; i++) {
		fusion_context *c = open_context();
		fusion_array *a = fusion_from(c, FUSION_F32, 1, &n, x);

		ck_assert_msg(!fusion_read(a, x, sizeof x), "%s", fusion_error());
		fusion_release(a);
		fusion_close(c);
	}
	ck_assert_int_eq(kill(keeper, SIGCONT), 0);
	/* What is told comes in order: once the last one is kept all else has come, and what remains then is the one session that is there. */
	snprintf(name, sizeof name, "session-%d", MANY_SESSIONS + 2);
	last = open_context();
	expect_kept(name, 1);
	fusion_close(last);
	expect_kept("session-", 1);
	keeper_restart(SIGHUP);
	expect_kept("session-", 1);
}
END_TEST

START_TEST(a_daemon_that_refuses_its_settings_is_not_waited_for) {
	const char *refused[2] = { "FUSIOND_DOOR_MODE=none", NULL };
	char program[256];

	keeper_folder("refused");
	snprintf(program, sizeof program, "%s/fusiond", build_folder());
	keeper_begin(program, false, "60s", refused);
	ck_assert_int_eq(child_exit(keeper), EX_CONFIG);
	ck_assert_msg(strstr(keeper_log(), "FUSIOND_DOOR_MODE") != NULL, "it said: %s", keeper_log());
	remove_folder();
}
END_TEST

/* Kills it, and keeps the manager from starting another one until go_on(). How many were ready before. */
static int stand_without(void) {
	struct keeper_event e;
	int ready = keeper_event("ready", &e);

	/* The first one says so after its socket is there. */
	for (int i = 0; i < START_TRIES && !ready; i++) {
		usleep(20000);
		ready = keeper_event("ready", &e);
	}
	ck_assert_int_eq(kill(keeper, SIGSTOP), 0);
	ck_assert_int_eq(kill((pid_t)status_number("pid"), SIGKILL), 0);
	return ready;
}

static void go_on(int ready) {
	struct keeper_event e;

	ck_assert_int_eq(kill(keeper, SIGCONT), 0);
	for (int i = 0; i < START_TRIES && keeper_event("ready", &e) == ready; i++)
		usleep(20000);
	ck_assert_int_gt(keeper_event("ready", &e), ready);
}

static void *read_one(void *array) {
	float x[ELEMENTS];

	return fusion_read(array, x, sizeof x) || x[0] != 1 ? array : NULL;
}

/* 45 s, if it was told nothing: the second context, which waits since before, has not heard of it, and is still waiting when the first has given up. */
START_TEST(a_client_waits_for_a_daemon_as_long_as_it_was_told) {
	float x[ELEMENTS] = { 1 };
	fusion_context *hasty;
	int64_t n = ELEMENTS;
	fusion_array *a, *b;
	pthread_t thread;
	void *failed;
	int ready, r;

	setenv("FUSION_RETURN_MS", "200", 1);
	hasty = open_context();
	unsetenv("FUSION_RETURN_MS");
	a = fusion_from(hasty, FUSION_F32, 1, &n, x);
	b = fusion_from(context, FUSION_F32, 1, &n, x);
	ck_assert_int_eq(fusion_read(a, x, sizeof x), 0);
	ck_assert_int_eq(fusion_read(b, x, sizeof x), 0);
	ready = stand_without();
	ck_assert_int_eq(pthread_create(&thread, NULL, read_one, b), 0);
	/* The engine may outlive its supervisor for a moment. */
	do
		r = fusion_read(a, x, sizeof x);
	while (!r);
	ck_assert_int_eq(r, FUSION_E_CONNECT);
	ck_assert_msg(strstr(fusion_error(), "was not started again within") != NULL, "%s", fusion_error());
	/* Its thread may have had an answer of the last one, so that nobody waits for the next but this. */
	go_on(ready);
	ck_assert_int_eq(pthread_join(thread, &failed), 0);
	ck_assert_ptr_null(failed);
	fusion_release(a);
	fusion_release(b);
	fusion_close(hasty);
}
END_TEST

/* ---- clients that do not wait for the next daemon, or not always ---- */

static bool always(void) {
	return true;
}

static bool is_adrift(const fusion_context *c) {
	return ((const struct fusion_context *)object_find(OBJECT_CONTEXT, c))->stream.adrift;
}

/* Its engine may outlive it for a moment; until then what is read may be there. */
static void ask_to_stop_until_adrift(fusion_context *c, fusion_array *a) {
	float x[ELEMENTS];

	fusion_on_wait(always);
	do {
		int r = fusion_read(a, x, sizeof x);

		ck_assert_msg(!r || r == FUSION_E_CANCELLED, "%s", fusion_error());
	} while (!is_adrift(c));
	/* And once more, where another call has been before. */
	ck_assert_int_eq(fusion_read(a, x, sizeof x), FUSION_E_CANCELLED);
	ck_assert_int_eq(fusion_sync(c), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
}

START_TEST(who_waits_for_the_next_daemon_may_be_asked_to_stop) {
	float computed[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_exp(a), *sum;

	ck_assert_msg(!fusion_read(b, computed, sizeof computed), "%s", fusion_error());
	for (int i = 0; i < 2; i++) {
		int ready = stand_without();

		ask_to_stop_until_adrift(context, b);
		go_on(ready);
		must_be(b, computed);
		sum = fusion_add(a, b);
		ck_assert_msg(!fusion_wait(sum), "%s", fusion_error());
		fusion_release(sum);
	}
	fusion_release(a);
	fusion_release(b);
}
END_TEST

START_TEST(a_context_may_be_closed_beside_who_waits_for_the_next_daemon) {
	float x[ELEMENTS];
	fusion_context *other = open_context();
	fusion_array *a = numbers(other, 1);
	pthread_t thread;
	void *failed;
	int ready;

	ck_assert_msg(!fusion_read(a, x, sizeof x), "%s", fusion_error());
	ready = stand_without();
	ask_to_stop_until_adrift(other, a);
	/* Before or after it is there: it ends. */
	ck_assert_int_eq(pthread_create(&thread, NULL, read_one, a), 0);
	fusion_close(other);
	ck_assert_int_eq(pthread_join(thread, &failed), 0);
	ck_assert_ptr_nonnull(failed);
	go_on(ready);
	fusion_release(a);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
}
END_TEST

START_TEST(a_session_whose_client_stays_away_ends) {
	float value[ELEMENTS];
	fusion_array *a = numbers(context, 1);

	victim_go(&slow);
	ck_assert_int_eq(fusion_sync(context), 0);
	ck_assert_msg(!fusion_read(a, value, sizeof value), "%s", fusion_error());
	expect_kept("session-", 2);
	keeper_restart(SIGUSR1);
	ck_assert_msg(!fusion_read(a, value, sizeof value), "%s", fusion_error());
	expect_kept("session-", 1);
	ck_assert_int_eq(kill(slow.pid, SIGCONT), 0);
	ck_assert_int_eq(child_exit(slow.pid), 0);
	ck_assert_msg(!fusion_read(a, value, sizeof value), "%s", fusion_error());
	fusion_release(a);
}
END_TEST

/* What the daemon says of the session of this process: is it so? */
static bool says_of(pid_t pid, const char *word) {
	char text[STATUS_TEXT];
	cJSON *json = door_answer(text), *one;
	bool so = false;

	cJSON_ArrayForEach(one, cJSON_GetObjectItem(json, "sessions")) {
		if (cJSON_GetObjectItem(one, "pid")->valuedouble == pid)
			so = cJSON_IsTrue(cJSON_GetObjectItem(one, word));
	}
	cJSON_Delete(json);
	return so;
}

/* Nobody has asked for its end, so it is a zombie, which has a number. */
START_TEST(a_session_whose_process_was_killed_is_marked_and_goes) {
	victim_go(&slow);
	keeper_restart(SIGHUP);
	ck_assert_int_eq(fusion_sync(context), 0);
	ck_assert(says_of(slow.pid, "away") && !says_of(slow.pid, "gone"));
	ck_assert_int_eq(kill(slow.pid, SIGKILL), 0);
	for (int i = 0; i < START_TRIES && !says_of(slow.pid, "gone"); i++)
		usleep(20000);
	ck_assert(says_of(slow.pid, "away") && says_of(slow.pid, "gone"));
	expect_kept("session-", 2);
	keeper_restart(SIGHUP);
	expect_kept("session-", 1);
	ck_assert_int_eq(fusion_sync(context), 0);
	victim_kill(&slow);
}
END_TEST

static void begin_in_a_group(void) {
	static char rule[64];

	snprintf(rule, sizeof rule, "group:%u.limits.user_bytes=%d", (unsigned)getgid(), GROUP_BYTES);
	keeper_setting = rule;
	begin();
}

static void expect_group_limit(void) {
	int64_t n = GROUP_BYTES;
	void *memory;

	ck_assert_ptr_null(fusion_create(context, FUSION_F32, 1, &n, &memory));
	ck_assert_msg(strstr(fusion_error(), "limits.user_bytes") != NULL, "%s", fusion_error());
}

START_TEST(what_holds_for_groups_holds_for_sessions_that_come_back) {
	expect_group_limit();
	for (int i = 0; i < 2; i++) {
		keeper_restart(signals[i]);
		ck_assert_int_eq(fusion_sync(context), 0);
		expect_group_limit();
	}
}
END_TEST

/* ---- for tests/e2e/systemd.sh ---- */

/* Holds an array; says "there" for each line that is read in which it has its values. */
static int hold(void) {
	fusion_context *c;
	fusion_array *a, *b;
	float first[ELEMENTS], value[ELEMENTS];
	char line[16];
	bool known = false;

	if (fusion_open(&c, NULL))
		return 1;
	a = numbers(c, 1);
	b = fusion_neg(a);
	while (fgets(line, sizeof line, stdin)) {
		bool same = !fusion_read(b, value, sizeof value) && (!known || !memcmp(first, value, sizeof value));

		puts(same ? "there" : fusion_error());
		fflush(stdout);
		if (!known)
			memcpy(first, value, sizeof value);
		known = true;
	}
	fusion_release(a);
	fusion_release(b);
	fusion_close(c);
	return 0;
}

int main(int argc, char **argv) {
	Suite *s = suite_create("return");
	TCase *kept = tcase_create("kept"), *away = tcase_create("away"), *patient = tcase_create("patient"), *refused = tcase_create("refused");
	TCase *groups = tcase_create("groups");

	if (argc > 1 && !strcmp(argv[1], "hold"))
		return hold();
	tcase_set_timeout(kept, TEST_SECONDS);
	tcase_add_checked_fixture(kept, begin, end);
	tcase_add_loop_test(kept, a_restart_keeps_sessions_and_arrays, 0, 2);
	tcase_add_test(kept, what_is_kept_goes_with_its_session);
	tcase_add_test(kept, a_session_has_a_ring_of_the_next_daemon_where_it_asked_for_one);
	tcase_add_test(kept, a_manager_that_does_not_listen_delays_nobody);
	tcase_add_test(kept, a_client_waits_for_a_daemon_as_long_as_it_was_told);
	tcase_add_test(kept, who_waits_for_the_next_daemon_may_be_asked_to_stop);
	tcase_add_test(kept, a_context_may_be_closed_beside_who_waits_for_the_next_daemon);
	tcase_add_test(kept, busy_clients_go_on_across_restarts);
	suite_add_tcase(s, kept);
	tcase_set_timeout(away, TEST_SECONDS);
	tcase_add_checked_fixture(away, begin_with_slow, end);
	tcase_add_test(away, a_session_whose_client_stays_away_ends);
	suite_add_tcase(s, away);
	tcase_set_timeout(patient, TEST_SECONDS);
	tcase_add_checked_fixture(patient, begin_with_patience, end);
	tcase_add_test(patient, a_session_whose_process_was_killed_is_marked_and_goes);
	suite_add_tcase(s, patient);
	tcase_set_timeout(groups, TEST_SECONDS);
	tcase_add_checked_fixture(groups, begin_in_a_group, end);
	tcase_add_test(groups, what_holds_for_groups_holds_for_sessions_that_come_back);
	suite_add_tcase(s, groups);
	tcase_set_timeout(refused, TEST_SECONDS);
	tcase_add_test(refused, a_daemon_that_refuses_its_settings_is_not_waited_for);
	suite_add_tcase(s, refused);
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	setenv("FUSIOND_DEVICE_MEASURE", "no", 1);
	return suite_run(s);
}

/*
 * Compilers in processes of their own: what one of them does to itself costs the one kernel it was at, and what it was at is
 * not tried for ever. The driver is interposed, so that compiling one operation ends as a test wants it to.
 *
 * Bytecode is off: with it nobody would notice that a kernel is not built.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/daemon.h"
#include "tests/skip.h"
#include "tests/driver_cache.h"
#include "tests/suite.h"

enum {
	ELEMENTS = 100,
	TEST_SECONDS = 300,
};

/* In the source of a kernel that computes it, and of no other. */
#define BAD_OPERATION "op_atanh_f32"

static char rule[64], library[320];

static const char **environment(const char *what) {
	static const char *variables[2];

	snprintf(library, sizeof library, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	snprintf(rule, sizeof rule, "FUSION_INTERPOSE_COMPILER=%s:" BAD_OPERATION, what);
	variables[0] = library;
	variables[1] = rule;
	return variables;
}

/* On a cache folder of its own, with the common cache of the driver. */
static void start_with(const char *set, const char *what) {
	snprintf(folder, sizeof folder, "/tmp/fusion-worker-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	daemon_start_again(set, environment(what));
}

/* The first is computed by a kernel of its own. 0, or the client's error. */
static int atanh_of_half(fusion_context *c) {
	float x[ELEMENTS], y[ELEMENTS];
	int64_t n = ELEMENTS;
	fusion_array *a;
	int r;

	for (int i = 0; i < ELEMENTS; i++)
		x[i] = 0.5f;
	fusion_scope_begin(c);
	a = fusion_from(c, FUSION_F32, 1, &n, x);
	r = fusion_read(fusion_atanh(a), y, sizeof y);
	fusion_scope_end(c);
	if (!r)
		ck_assert_float_eq_tol(y[ELEMENTS - 1], atanhf(0.5f), 1e-6f);
	return r;
}

static void expect_square(fusion_context *c) {
	float x[ELEMENTS], y[ELEMENTS];
	int64_t n = ELEMENTS;

	for (int i = 0; i < ELEMENTS; i++)
		x[i] = (float)i;
	fusion_scope_begin(c);
	ck_assert_msg(!fusion_read(fusion_square(fusion_from(c, FUSION_F32, 1, &n, x)), y, sizeof y), "%s", fusion_error());
	fusion_scope_end(c);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq(y[i], x[i] * x[i]);
}

static void expect_refusal(fusion_context *c, const char *why) {
	ck_assert_int_ne(atanh_of_half(c), 0);
	ck_assert_msg(strstr(fusion_error(), why) != NULL, "\"%s\" does not say \"%s\"", fusion_error(), why);
}

static void expect_survival(const char *set, const char *what) {
	fusion_context *c;
	pid_t engine;

	start_with(set, what);
	c = connect_client();
	engine = engine_pid();
	expect_refusal(c, "the compiler died of it");
	ck_assert_double_ge(stat_of(c, "workers_lost"), 1);
	expect_square(c);
	ck_assert_double_ge(stat_of(c, "programs_built_by_workers"), 1);
	ck_assert_int_eq(engine_pid(), engine);
	fusion_close(c);
	daemon_stop();
}

START_TEST(a_compiler_that_aborts_costs_its_kernel_alone) {
	expect_survival("log.level=error", "abort");
}
END_TEST

START_TEST(a_compiler_that_crashes_costs_its_kernel_alone) {
	expect_survival("log.level=error", "crash");
}
END_TEST

START_TEST(a_compiler_that_eats_memory_costs_its_kernel_alone) {
	expect_survival("device.worker_bytes=512M", "eat");
}
END_TEST

/* All that is to succeed is built before, with time enough: so the limit can be short on however busy a machine. */
START_TEST(a_compiler_that_hangs_delays_nobody_and_is_killed) {
	float x[ELEMENTS] = { 0.5f }, y[ELEMENTS];
	fusion_context *c, *other;
	int64_t n = ELEMENTS;
	fusion_array *half, *bad;
	pid_t engine;

	start_with("log.level=error", "hang");
	c = connect_client();
	expect_square(c);
	fusion_close(c);
	daemon_end();
	daemon_start_again("device.worker_us=2s", environment("hang"));
	c = connect_client();
	other = connect_client();
	engine = engine_pid();
	half = fusion_from(c, FUSION_F32, 1, &n, x);
	bad = fusion_atanh(half);
	ck_assert_int_eq(fusion_flush(c), 0);
	expect_square(other);
	ck_assert_int_ne(fusion_read(bad, y, sizeof y), 0);
	ck_assert_msg(strstr(fusion_error(), "the compiler took longer") != NULL, "%s", fusion_error());
	ck_assert_double_eq(stat_of(other, "workers_lost"), 1);
	expect_square(c);
	ck_assert_int_eq(engine_pid(), engine);
	fusion_release(bad);
	fusion_release(half);
	fusion_close(c);
	fusion_close(other);
	daemon_stop();
}
END_TEST

/* It is killed then, in spite of all the time that it may take. */
START_TEST(a_compiler_that_hangs_for_who_was_killed_makes_room) {
	fusion_context *other;
	pid_t client;

	setenv("FUSIOND_DEVICE_BUILDERS", "1", 1);
	start_with("device.worker_us=60min", "hang");
	client = fork();
	ck_assert_int_ge(client, 0);
	if (!client) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		atanh_of_half(connect_client());
		_exit(0);
	}
	other = connect_client();
	AWAIT(stat_of(other, "workers_started") >= 1);
	ck_assert_int_eq(kill(client, SIGKILL), 0);
	ck_assert_int_eq(waitpid(client, NULL, 0), client);
	expect_square(other);
	ck_assert_double_eq(stat_of(other, "workers_lost"), 0);
	fusion_close(other);
	daemon_stop();
	unsetenv("FUSIOND_DEVICE_BUILDERS");
}
END_TEST

/* Drivers make machine code when a kernel is first launched, which a worker does before the engine. */
START_TEST(a_kernel_that_hangs_when_it_is_tried_costs_itself_alone) {
	fusion_context *c;
	pid_t engine;

	start_with("log.level=error", "launch");
	c = connect_client();
	expect_square(c);
	fusion_close(c);
	daemon_end();
	daemon_start_again("device.worker_us=2s", environment("launch"));
	c = connect_client();
	engine = engine_pid();
	expect_refusal(c, "the compiler took longer");
	ck_assert_double_eq(stat_of(c, "workers_lost"), 1);
	expect_square(c);
	ck_assert_int_eq(engine_pid(), engine);
	fusion_close(c);
	daemon_stop();
}
END_TEST

/* No thread can be taken out of a driver: so the engine ends, once. */
START_TEST(where_there_are_no_workers_it_costs_one_engine) {
	fusion_context *c, *other;
	pid_t engine;

	start_with("device.workers=no", "launch");
	c = connect_client();
	other = connect_client();
	expect_square(other);
	fusion_close(c);
	fusion_close(other);
	daemon_end();
	setenv("FUSIOND_DEVICE_WORKER_US", "300ms", 1);
	daemon_start_again("device.workers=no", environment("launch"));
	c = connect_client();
	other = connect_client();
	engine = engine_pid();
	ck_assert_int_ne(atanh_of_half(c), 0);
	ck_assert_int_ne(engine_pid(), engine);
	engine = engine_pid();
	expect_refusal(c, "too often");
	expect_square(other);
	ck_assert_int_eq(engine_pid(), engine);
	fusion_close(c);
	fusion_close(other);
	unsetenv("FUSIOND_DEVICE_WORKER_US");
	daemon_stop();
}
END_TEST

/* Waits for the supervisor to have started another engine. */
static fusion_context *kill_engine(fusion_context *c) {
	pid_t dead = engine_pid(), now = dead;

	fusion_close(c);
	ck_assert_int_eq(kill(dead, SIGKILL), 0);
	AWAIT((now = child_of_supervisor()) && now != dead);
	return connect_client();
}

START_TEST(what_killed_three_compilers_is_not_tried_again) {
	fusion_context *c;

	start_with("log.level=error", "abort");
	c = connect_client();
	expect_refusal(c, "the compiler died of it");
	ck_assert_double_eq(stat_of(c, "workers_lost"), 2);
	expect_refusal(c, "the compiler died of it");
	ck_assert_double_eq(stat_of(c, "workers_lost"), 2);
	c = kill_engine(c);
	expect_refusal(c, "the compiler died of it");
	ck_assert_double_eq(stat_of(c, "workers_lost"), 1);
	c = kill_engine(c);
	expect_refusal(c, "too often");
	ck_assert_double_eq(stat_of(c, "workers_started"), 0);
	ck_assert_double_eq(stat_of(c, "programs_refused"), 1);
	expect_square(c);
	fusion_close(c);
	daemon_stop();
}
END_TEST

START_TEST(a_worker_killed_while_it_waits_is_no_programs_fault) {
	fusion_context *c;
	pid_t worker;

	start_with("log.level=error", "abort:nothing");
	c = connect_client();
	expect_square(c);
	worker = first_child(true);
	ck_assert_int_gt(worker, 0);
	ck_assert_int_eq(kill(worker, SIGKILL), 0);
	AWAIT(kill(worker, 0));
	ck_assert_int_eq(atanh_of_half(c), 0);
	ck_assert_double_eq(stat_of(c, "workers_lost"), 0);
	ck_assert_double_eq(stat_of(c, "programs_built_by_workers"), 2);
	fusion_close(c);
	daemon_stop();
}
END_TEST

START_TEST(workers_end_with_their_engine) {
	fusion_context *c;
	pid_t worker;

	start_with("log.level=error", "abort:nothing");
	c = connect_client();
	expect_square(c);
	worker = first_child(true);
	ck_assert_int_gt(worker, 0);
	c = kill_engine(c);
	AWAIT(kill(worker, 0));
	ck_assert_int_eq(kill(worker, 0), -1);
	ck_assert_int_eq(errno, ESRCH);
	/* What they compiled is in the cache, and needs none of them. */
	expect_square(c);
	ck_assert_double_eq(stat_of(c, "workers_started"), 0);
	fusion_close(c);
	daemon_stop();
}
END_TEST

START_TEST(without_workers_the_engine_compiles) {
	fusion_context *c;

	start_with("device.workers=no", "abort:nothing");
	c = connect_client();
	expect_square(c);
	ck_assert_double_eq(stat_of(c, "workers_started"), 0);
	ck_assert_double_ge(stat_of(c, "programs_built"), 1);
	fusion_close(c);
	daemon_stop();
}
END_TEST

/* Something on every processor that leaves idle priority nothing. */
static void keep_processors(pid_t *child, unsigned count) {
	for (unsigned i = 0; i < count; i++) {
		child[i] = fork();
		ck_assert_int_ge(child[i], 0);
		if (child[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			__asm__ volatile("");
	}
}

static void end_children(const pid_t *child, unsigned count) {
	for (unsigned i = 0; i < count; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
}

static bool launches_near(fusion_context *c) {
	char *text = fusion_stats(c, true);
	bool near = text && strstr(text, "small launches run on the engine's thread");

	free(text);
	return near;
}

/* It has another form, which nobody waits for; but a busy machine must not keep it from it for ever. */
START_TEST(what_is_launched_all_the_time_comes_to_the_engines_thread_on_a_busy_machine) {
	enum { CHILDREN_MOST = 16, ROUNDS = 200 };
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned count = processors > CHILDREN_MOST ? CHILDREN_MOST : (unsigned)processors;
	pid_t child[CHILDREN_MOST];
	fusion_context *c;

	start_with("log.level=error", "abort:nothing");
	c = connect_client();
	expect_square(c);
	if (!launches_near(c)) {
		fusion_close(c);
		daemon_stop();
		SKIP("the driver has no device that computes on the engine's thread");
	}
	keep_processors(child, count);
	while (stat_of(c, "launches_near") < 1)
		for (unsigned i = 0; i < ROUNDS; i++)
			expect_square(c);
	end_children(child, count);
	fusion_close(c);
	daemon_stop();
}
END_TEST

/* Interpreters have the operation in their texts. */
START_TEST(a_cache_is_filled_although_compilers_die) {
	char command[1024], line[256] = "", cache[96];
	unsigned long built, apart, cached, failed;
	const char **with = environment("abort");
	FILE *f;

	snprintf(folder, sizeof folder, "/tmp/fusion-worker-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(cache, sizeof cache, "%s/cache", folder);
	ck_assert(driver_cache_link(cache));
	snprintf(command, sizeof command, "%s %s %s/fusiond --warm --config /dev/null --cache-dir %s --set device.measure=no --set log.level=error "
		"--set fusion.interpreter=auto", with[0],
		with[1], build_folder(), cache);
	f = popen(command, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f) && !strstr(line, " programs built"))
		continue;
	ck_assert_int_eq(pclose(f), 0);
	ck_assert_msg(strrchr(line, ':') && sscanf(strrchr(line, ':'), ": %lu programs built, %lu of them by workers, %lu were in the cache, %lu failed",
						    &built, &apart, &cached, &failed) == 4, "it said \"%s\"", line);
	ck_assert_uint_gt(apart, 0);
	ck_assert_uint_gt(failed, 0);
	remove_folder();
}
END_TEST

static Suite *worker_suite(void) {
	Suite *suite = suite_create("worker");
	TCase *t = tcase_create("compilers");

	tcase_set_timeout(t, TEST_SECONDS);
	tcase_add_test(t, a_compiler_that_aborts_costs_its_kernel_alone);
	tcase_add_test(t, a_compiler_that_crashes_costs_its_kernel_alone);
	tcase_add_test(t, a_compiler_that_eats_memory_costs_its_kernel_alone);
	tcase_add_test(t, a_compiler_that_hangs_delays_nobody_and_is_killed);
	tcase_add_test(t, a_compiler_that_hangs_for_who_was_killed_makes_room);
	tcase_add_test(t, a_kernel_that_hangs_when_it_is_tried_costs_itself_alone);
	tcase_add_test(t, where_there_are_no_workers_it_costs_one_engine);
	tcase_add_test(t, what_killed_three_compilers_is_not_tried_again);
	tcase_add_test(t, a_worker_killed_while_it_waits_is_no_programs_fault);
	tcase_add_test(t, workers_end_with_their_engine);
	tcase_add_test(t, without_workers_the_engine_compiles);
	tcase_add_test(t, a_cache_is_filled_although_compilers_die);
	tcase_add_test(t, what_is_launched_all_the_time_comes_to_the_engines_thread_on_a_busy_machine);
	suite_add_tcase(suite, t);
	return suite;
}

int main(void) {
	return suite_run(worker_suite());
}

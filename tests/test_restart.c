/*
 * A daemon that is ended and started again while its clients work and kernels are being built: no session is lost. keeper.py stands in for the
 * service manager.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/busy.h"
#include "tests/interpose/interpose.h"
#include "tests/keeper.h"
#include "tests/load.h"
#include "tests/stopwatch.h"
#include "tests/suite.h"

enum {
	TEST_SECONDS = 300,
	BUILDERS = 4,
	RESTARTS = 3,
	/* More than the daemon has after a stop: what a client builds is never ready before the daemon ends. */
	BUILD_MS = 1500,
};

static char interpose[300], slow_builds[64], counts_path[160];

/* ---- clients for whom kernels are built ---- */

typedef fusion_array *unary(fusion_array *a);
static unary *const unaries[] = { fusion_neg, fusion_exp, fusion_sin, fusion_cos, fusion_tanh, fusion_sqrt, fusion_abs, fusion_square, fusion_sigmoid,
	fusion_log, fusion_floor, fusion_ceil, fusion_sign, fusion_relu };

enum { UNARIES = sizeof unaries / sizeof *unaries };

/* Another operation in each round, of all clients, so that kernels are built as long as there are such. */
static void build_something(struct busy *b, fusion_context *c, fusion_array *a, fusion_array *kept) {
	fusion_array *fresh = unaries[(atomic_load(&b->rounds) * BUILDERS + (unsigned)b->number) % UNARIES](kept);
	float value[BUSY_ELEMENTS];

	(void)a;
	busy_may(b, fusion_read(fresh, value, sizeof value));
	fusion_release(fresh);
	busy_end_round(b, c, kept);
	atomic_fetch_add(&b->rounds, 1);
}

/* ---- claims ---- */

static void begin_slow(void) {
	const char *environment[2] = { interpose, slow_builds };

	snprintf(interpose, sizeof interpose, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	snprintf(slow_builds, sizeof slow_builds, "FUSION_INTERPOSE_BUILD_MS=%d", BUILD_MS);
	keeper_folder("restart");
	keeper_start("60s", environment);
}

static void end(void) {
	keeper_end();
}

START_TEST(a_restart_while_kernels_are_built_loses_no_session) {
	busy_begin_with(BUILDERS, build_something);
	for (int i = 0; i < RESTARTS; i++) {
		keeper_restart(SIGHUP);
		busy_await(1);
	}
	expect_kept("session-", BUILDERS);
	busy_end();
	expect_kept("session-", 0);
}
END_TEST

/* ---- a driver that builds in the engine itself ---- */

static char gate[128];

static void begin_held(void) {
	const char *environment[2] = { interpose, NULL };

	snprintf(interpose, sizeof interpose, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	keeper_folder("restart");
	snprintf(gate, sizeof gate, "%s/gate", folder);
	setenv("FUSION_INTERPOSE_COMPILER", "hold:op_exp", 1);
	setenv("FUSION_INTERPOSE_GATE", gate, 1);
	setenv("FUSIOND_DEVICE_WORKERS", "no", 1);
	keeper_start("60s", environment);
}

/* The one that is held, and no other any more. */
static bool is_building(fusion_context *c) {
	char *text = fusion_stats(c, true);
	cJSON *json = cJSON_Parse(text), *builds = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "device"), "builds");
	const char *state = cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(builds, 0), "state"));
	bool building = cJSON_GetArraySize(builds) == 1 && state && !strcmp(state, "is built");

	cJSON_Delete(json);
	free(text);
	return building;
}

/* The kernel is not there before the gate is opened, which is after the daemon that was asked for it has ended. */
START_TEST(a_driver_that_builds_holds_no_restart_up) {
	fusion_context *c = connect_client();
	float value[BUSY_ELEMENTS], expected[BUSY_ELEMENTS];
	fusion_array *a = busy_numbers(c, 1), *b = fusion_sin(a), *d, *e;

	ck_assert_msg(!fusion_read(b, expected, sizeof expected), "%s", fusion_error());
	file_appears(gate, "");
	d = fusion_exp(b);
	ck_assert_msg(!fusion_flush(c), "%s", fusion_error());
	AWAIT(is_building(c));
	keeper_restart(SIGHUP);
	ck_assert_int_eq(unlink(gate), 0);
	e = fusion_log(d);
	ck_assert_msg(!fusion_read(e, value, sizeof value), "%s", fusion_error());
	for (int i = 0; i < BUSY_ELEMENTS; i++)
		ck_assert_float_eq_tol(value[i], expected[i], 1e-3F);
	fusion_release(a);
	fusion_release(b);
	fusion_release(d);
	fusion_release(e);
	fusion_close(c);
}
END_TEST

/* ---- clients that ask on and on ---- */

enum { REPEAT_US = 20 * 1000 };

static atomic_bool repeats_enough;

static void *repeat_work(void *user) {
	fusion_context *c = user;
	fusion_array *a = busy_numbers(c, 1);
	float value[BUSY_ELEMENTS];

	while (!atomic_load(&repeats_enough)) {
		fusion_array *b = fusion_neg(a);

		if (fusion_read(b, value, sizeof value) || fusion_sync(c))
			fusion_error_clear();
		fusion_release(b);
		usleep(REPEAT_US);
	}
	fusion_release(a);
	fusion_close(c);
	return NULL;
}

/* Were it waited for, this would take ten minutes. */
START_TEST(who_asks_on_and_on_holds_no_stop_up) {
	pthread_t thread;

	setenv("FUSIOND_ENGINE_DRAIN_US", "10min", 1);
	daemon_start("fusion.enabled=no", NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, repeat_work, connect_client()), 0);
	daemon_end();
	atomic_store(&repeats_enough, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	remove_folder();
	atomic_store(&repeats_enough, false);
	keeper_folder("restart");
	keeper_start("60s", NULL);
	ck_assert_int_eq(pthread_create(&thread, NULL, repeat_work, connect_client()), 0);
	keeper_restart(SIGHUP);
	expect_kept("session-", 1);
	atomic_store(&repeats_enough, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	keeper_end();
}
END_TEST

/* ---- a device that is at something when the time is over ---- */

enum { LATE_ELEMENTS = 1000 };

static void begin_late(void) {
	/* A second or so for each kernel. */
	const char *environment[2] = { interpose, "FUSION_INTERPOSE_ITEM_LOOPS=300000000" };

	snprintf(interpose, sizeof interpose, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	setenv("FUSIOND_ENGINE_DRAIN_US", "0", 1);
	/* The engine's thread is to hear of the stop meanwhile. */
	setenv("FUSIOND_ENGINE_NEAR_US", "0", 1);
	keeper_folder("restart");
	snprintf(counts_path, sizeof counts_path, "%s/counts", folder);
	setenv("FUSION_INTERPOSE_COUNTS", counts_path, 1);
	keeper_start("60s", environment);
}

static const struct interpose_counts *counts_of_driver(void) {
	int fd = open(counts_path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, sizeof(struct interpose_counts), PROT_READ, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	close(fd);
	return p;
}

/* The kernel is there by the first result; what is counted then is the launch for the second. */
START_TEST(what_the_device_is_at_when_the_time_is_over_is_there) {
	const struct interpose_counts *driver;
	fusion_context *c = connect_client();
	float value[LATE_ELEMENTS];
	int64_t n = LATE_ELEMENTS;
	fusion_array *a, *b, *again;
	uint64_t before;

	for (int i = 0; i < LATE_ELEMENTS; i++)
		value[i] = (float)i;
	a = fusion_from(c, FUSION_F32, 1, &n, value);
	b = fusion_neg(a);
	ck_assert_msg(!fusion_wait(b), "%s", fusion_error());
	driver = counts_of_driver();
	before = driver->launches;
	again = fusion_neg(b);
	ck_assert_msg(!fusion_flush(c), "%s", fusion_error());
	AWAIT(driver->launches > before);
	keeper_restart(SIGHUP);
	ck_assert_msg(!fusion_read(again, value, sizeof value), "%s", fusion_error());
	for (int i = 0; i < LATE_ELEMENTS; i++)
		ck_assert_float_eq(value[i], (float)i);
	ck_assert_double_eq(stat_of(c, "batches_repeated"), 0);
	fusion_release(a);
	fusion_release(b);
	fusion_release(again);
	fusion_close(c);
}
END_TEST

/* ---- a load that is compared with itself, undisturbed ---- */

enum { LOAD_RESTARTS = 3 };

static unsigned restarts_wanted(void) {
	const char *value = getenv("RESTARTS");

	return value ? (unsigned)strtoul(value, NULL, 10) : LOAD_RESTARTS;
}

/*
 * By hand: each restart is a command, $UPGRADE, which brings the fusiond that PATH finds anew and has it started again
 * (keeper_restart_by()). tests/upgrades.sh does so with packages.
 */
static const char *upgrade(void) {
	return getenv("UPGRADE");
}

static char installed[2][256];

/*
 * Where the daemon's programs are: $OLD, those of another build that understands the same catalogues, and ours; else both are ours, one in a folder of
 * its own. `now` is the one that is started next.
 */
static void install(void) {
	const char *old = getenv("OLD"), *programs[] = { "fusiond", "fusiond-engine", "fusiond-gateway" };
	char command[800];

	snprintf(installed[0], sizeof installed[0], "%s/old", folder);
	snprintf(command, sizeof command, "mkdir %s", installed[0]);
	ck_assert_int_eq(system(command), 0);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(command, sizeof command, "cp %s/%s %s", old ? old : build_folder(), programs[i], installed[0]);
		ck_assert_int_eq(system(command), 0);
	}
	ck_assert_ptr_nonnull(realpath(build_folder(), installed[1]));
}

static void choose(unsigned which) {
	char now[128], next[128], program[300];

	snprintf(now, sizeof now, "%s/now", folder);
	snprintf(next, sizeof next, "%s/next", folder);
	snprintf(program, sizeof program, "%s/fusiond", installed[which]);
	unlink(next);
	ck_assert_int_eq(symlink(program, next), 0);
	ck_assert_int_eq(rename(next, now), 0);
}

static void begin_load(void) {
	char now[128];

	keeper_folder("restart");
	if (upgrade()) {
		keeper_start_program("fusiond", true, "60s", NULL);
		return;
	}
	install();
	choose(0);
	snprintf(now, sizeof now, "%s/now", folder);
	keeper_start_program(now, true, "60s", NULL);
}

/* Of one restart, in ms: what a client waited between two results, and of that until the daemon had ended, and until the next one was ready. */
struct gap {
	double whole, stop, start, start_processor;
};

enum { GAP_PARTS = sizeof(struct gap) / sizeof(double) };

static void restart_and_measure(struct load *l, struct gap *g) {
	struct load_chain *c = &l->chain[0];
	struct keeper_event told = { 0 }, ended = { 0 }, started = { 0 }, ready = { 0 };
	unsigned rounds;

	atomic_store(&c->longest_ms, 0);
	if (upgrade())
		keeper_restart_by(upgrade());
	else
		keeper_restart(SIGHUP);
	/* The one that was under way may have begun before. */
	rounds = atomic_load(&c->rounds);
	while (atomic_load(&c->rounds) < rounds + 2 && !*c->wrong)
		usleep(1000);
	keeper_event("told", &told);
	keeper_event("ended", &ended);
	keeper_event("started", &started);
	keeper_event("ready", &ready);
	*g = (struct gap){ atomic_load(&c->longest_ms), ended.ms - told.ms, ready.ms - started.ms, ready.processor_ms };
}

static double gap_part(const struct gap *g, unsigned part) {
	const double value[GAP_PARTS] = { g->whole, g->stop, g->start, g->start_processor };

	return value[part];
}

static void print_gaps(const struct gap *gap, unsigned count) {
	static const char *const what[GAP_PARTS] = { "between two results of a client", "from the word to stop to the end", "from there until the next is ready",
		"of that, the daemon's processor time" };
	double *value = calloc(count, sizeof *value);

	ck_assert_ptr_nonnull(value);
	for (unsigned part = 0; part < GAP_PARTS; part++) {
		for (unsigned i = 0; i < count; i++)
			value[i] = gap_part(&gap[i], part);
		qsort(value, count, sizeof *value, by_value);
		printf("note:   %-36s best %.0f, median %.0f, 90 %% %.0f, most %.0f ms\n", what[part], value[0], value[count / 2], value[count * 9 / 10],
			value[count - 1]);
	}
	free(value);
}

static unsigned disturb(struct load *l, unsigned chains) {
	unsigned count = restarts_wanted(), done = 0;
	struct gap *gap = calloc(count + 1, sizeof *gap);
	bool wrong = false;

	ck_assert_ptr_nonnull(gap);
	while (done < count && !wrong) {
		if (!upgrade())
			choose((done + 1) % 2);
		restart_and_measure(l, &gap[done++]);
		/* Each goes on, now and then only some do before the next one. */
		load_await(l, done % 4 ? chains : 1, 1);
		for (unsigned i = 0; i < chains; i++)
			wrong |= *l->chain[i].wrong != 0;
	}
	printf("note: %u %s, under %u chains of %d programs\n", done, upgrade() ? "upgrades" : "restarts, each of the other build", chains, LOAD_PROGRAMS);
	if (done)
		print_gaps(gap, done);
	free(gap);
	return done;
}

START_TEST(restarts_under_load_change_no_bit_and_end_no_program) {
	struct load *disturbed = load_new(), *quiet = load_new();
	struct keeper_event failed;
	pid_t pid[LOAD_PROGRAMS];
	unsigned chains = load_start(disturbed, pid);

	load_await(disturbed, chains, 1);
	disturb(disturbed, chains);
	/* Neither a daemon nor an engine of one has ended otherwise than it was to. */
	ck_assert_int_eq(keeper_event("failed", &failed), 0);
	ck_assert(!keeper_said("while the daemon stops"));
	atomic_store(&disturbed->enough, true);
	load_end(disturbed, pid, chains);
	expect_kept("session-", 0);
	for (unsigned i = 0; i < chains; i++)
		quiet->target[i] = atomic_load(&disturbed->chain[i].rounds);
	load_start(quiet, pid);
	load_end(quiet, pid, chains);
	for (unsigned i = 0; i < chains; i++)
		ck_assert_msg(quiet->chain[i].digest == disturbed->chain[i].digest, "chain %u has other bits after %u rounds", i, quiet->target[i]);
}
END_TEST

int main(void) {
	Suite *s = suite_create("restart");
	TCase *slow = tcase_create("while kernels are built"), *stop = tcase_create("stop"), *load = tcase_create("under load");
	TCase *late = tcase_create("late"), *held = tcase_create("held");

	tcase_set_timeout(slow, TEST_SECONDS);
	tcase_add_checked_fixture(slow, begin_slow, end);
	tcase_add_test(slow, a_restart_while_kernels_are_built_loses_no_session);
	suite_add_tcase(s, slow);
	tcase_set_timeout(held, TEST_SECONDS);
	tcase_add_checked_fixture(held, begin_held, end);
	tcase_add_test(held, a_driver_that_builds_holds_no_restart_up);
	suite_add_tcase(s, held);
	tcase_set_timeout(late, TEST_SECONDS);
	tcase_add_checked_fixture(late, begin_late, end);
	tcase_add_test(late, what_the_device_is_at_when_the_time_is_over_is_there);
	suite_add_tcase(s, late);
	/* By hand, RESTARTS=100 take a while. */
	tcase_set_timeout(load, TEST_SECONDS + 30 * (int)restarts_wanted());
	tcase_add_checked_fixture(load, begin_load, end);
	tcase_add_test(load, restarts_under_load_change_no_bit_and_end_no_program);
	suite_add_tcase(s, load);
	tcase_set_timeout(stop, TEST_SECONDS);
	tcase_add_test(stop, who_asks_on_and_on_holds_no_stop_up);
	suite_add_tcase(s, stop);
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 0);
	setenv("FUSIOND_DEVICE_MEASURE", "no", 1);
	setenv("FUSIOND_ENGINE_DRAIN_US", "500ms", 1);
	/* An engine that ends is not killed, however busy the machine is. */
	setenv("FUSIOND_ENGINE_STOP_US", "10min", 1);
	return suite_run(s);
}

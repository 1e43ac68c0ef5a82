/*
 * A start on an empty cache: the engine asks for workers before it opens its driver, and they build the probes of arithmetic, which it
 * then finds in the driver's cache (daemon/device/exact.c). Whatever becomes of them, the device opens and is found to be what it is.
 *
 * Each test runs in a process of its own, in which no driver is up when it forks a worker.
 */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/device/state.h"
#include "tests/driver_cache.h"
#include "tests/interpose/interpose.c"
#include "tests/skip.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum {
	TIMEOUT = 240,              /* seconds; a first build on a busy machine takes several */
	WORKER_BYTES = 1 << 30,
};

static char root[64], folder[96];

/* ---- what the engine saw ---- */

/* In the engine's process: how it found the cache when it first compiled. */
static unsigned own_builds;
static bool noted;

static void look(void) {
	const struct cache c = { .programs = folder };

	if (!own_builds++)
		noted = !cache_is_empty(&c);
}

/* ---- workers ---- */

static unsigned asked;
static pid_t worker;
static int engines_end = -1;

static void wake(void *user) {
	(void)user;
}

static struct device_config config(void) {
	return (struct device_config){ .cache_dir = root, .wake = wake, .builders = 1, .workers_early = true };
}

/* Does what device_work() does, in another process. */
static int start_worker(void *user, bool idle) {
	struct device_config c = config();
	struct fault f = { 0 };
	int pair[2];

	(void)user;
	asked += !idle;
	if (idle || worker || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -ENOSYS;
	worker = fork();
	if (!worker) {
		building = NULL;
		close(pair[0]);
		_exit(device_work(&c, pair[1], false, WORKER_BYTES, &f) ? 1 : 0);
	}
	close(pair[1]);
	engines_end = pair[0];
	return worker < 0 ? -ENOSYS : 0;
}

/* One that the system started, and that ended before it compiled anything. */
static int start_worker_that_dies(void *user, bool idle) {
	(void)user;
	asked += !idle;
	return idle ? -ENOSYS : 0;
}

static int start_no_worker(void *user, bool idle) {
	(void)user;
	asked += !idle;
	return -ENOSYS;
}

static void end_worker(void) {
	int status = 0;

	close(engines_end);
	ck_assert_int_eq(waitpid(worker, &status, 0), worker);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the worker ended with %#x", status);
}

/* ---- the engine ---- */

/* What device_open() found, and what there was of its notes on other devices. */
struct opened {
	bool exact, flat;
	unsigned flags;
};

static struct opened open_with(int (*want)(void *user, bool idle)) {
	struct device_config c = config();
	struct device *d = NULL;
	struct fault f = { 0 };
	struct opened o;

	c.want_worker = want;
	building = look;
	asked = own_builds = 0;
	noted = false;
	ck_assert_msg(!device_open(&c, &d, &f), "%s", f.text);
	building = NULL;
	o = (struct opened){ device_exact(d), device_flat(d), d->quirks->flags };
	device_close(d);
	return o;
}

static void expect_alike(struct opened a, struct opened b) {
	ck_assert_int_eq(a.exact, b.exact);
	ck_assert_int_eq(a.flat, b.flat);
}

/* Does the driver read so much at a process's first build that a worker is waited for? */
static bool waits(struct opened o) {
	return o.flags & QUIRK_LIBRARY;
}

static bool forks_none(void) {
	const char *fork = getenv("CK_FORK");

	return fork && !strcmp(fork, "no");
}

static void empty_cache(void);

START_TEST(the_engine_builds_its_probes_when_a_worker_has_built_them) {
	struct opened o;

	if (forks_none())
		SKIP("drivers are up in this process");
	o = open_with(start_worker);
	end_worker();
	ck_assert_uint_eq(asked, 1);
	ck_assert_uint_gt(own_builds, 0);
	ck_assert_int_eq(noted, waits(o));
	empty_cache();
	expect_alike(o, open_with(NULL));
}
END_TEST

/* Does a worker note that it has built the probes? */
static bool worker_notes(void) {
	const struct cache c = { .programs = folder };

	worker = 0;
	ck_assert_int_eq(start_worker(NULL, false), 0);
	end_worker();
	return !cache_is_empty(&c);
}

START_TEST(one_worker_at_a_time_is_at_the_probes) {
	int other;

	if (forks_none())
		SKIP("drivers are up in this process");
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	other = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(other, 0);
	ck_assert_int_eq(flock(other, LOCK_EX | LOCK_NB), 0);
	ck_assert(!worker_notes());
	close(other);
	/* Where it is at nothing that others wait for, it has nothing to note. */
	ck_assert_int_eq(worker_notes(), waits(open_with(NULL)));
}
END_TEST

START_TEST(a_worker_that_dies_keeps_no_engine_from_starting) {
	struct opened o = open_with(start_worker_that_dies);

	ck_assert_uint_eq(asked, 1);
	ck_assert_uint_gt(own_builds, 0);
	ck_assert(!noted);
	empty_cache();
	expect_alike(o, open_with(NULL));
}
END_TEST

START_TEST(where_no_worker_can_be_had_the_engine_builds_them_itself) {
	struct opened o = open_with(start_no_worker);

	ck_assert_uint_gt(own_builds, 0);
	empty_cache();
	expect_alike(o, open_with(NULL));
}
END_TEST

START_TEST(on_a_cache_that_is_not_empty_nobody_is_asked) {
	struct opened o = open_with(NULL);

	expect_alike(o, open_with(start_no_worker));
	ck_assert_uint_eq(asked, 0);
	/* One that is inexact is tried again at each start. */
	ck_assert_uint_eq(own_builds > 0, !o.exact);
}
END_TEST

/* ---- folders ---- */

/* The driver's own is everybody's (driver_cache.h). */
static void empty_cache(void) {
	tree_remove(folder);
}

static void setup(void) {
	snprintf(root, sizeof root, "/tmp/fusion-early-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert(driver_cache_link(root));
	snprintf(folder, sizeof folder, "%s/programs", root);
	worker = 0;
}

static void teardown(void) {
	tree_remove(root);
}

int main(void) {
	Suite *s = suite_create("early");
	TCase *c = tcase_create("probes");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, TIMEOUT);
	tcase_add_test(c, the_engine_builds_its_probes_when_a_worker_has_built_them);
	tcase_add_test(c, one_worker_at_a_time_is_at_the_probes);
	tcase_add_test(c, a_worker_that_dies_keeps_no_engine_from_starting);
	tcase_add_test(c, where_no_worker_can_be_had_the_engine_builds_them_itself);
	tcase_add_test(c, on_a_cache_that_is_not_empty_nobody_is_asked);
	suite_add_tcase(s, c);
	return suite_run(s);
}

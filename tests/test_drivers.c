/*
 * Drivers that are played: those that die of what they are asked, say that they have what they do not take, are too old, several at a time,
 * none. What the daemon makes of it is a device, or one sentence that names the driver and what mends it.
 *
 * Each test runs in a process of its own, whose driver is not up yet, and has a cache folder of its own.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/device/device.h"
#include "daemon/device/state.h"
#include "tests/driver_cache.h"
#include "tests/interpose/interpose.c"
#include "tests/test_device_kernels.h"
#include "tests/skip.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum {
	TIMEOUT = 240,              /* seconds; some open several drivers, each with a first build */
	TICK_US = 1000,
	PATH = 512,
	AHEAD = 1,                  /* the first row of trials.def, as a bit */
	EVERY = (1 << TRIALS) - 1,
};

static char root[64], folder[96], vendors[128], played[PATH];

/* ---- cache folders and lists of drivers ---- */

static void wake(void *user) {
	(void)user;
}

static struct device_config config(void) {
	return (struct device_config){ .cache_dir = folder, .wake = wake, .memory = 1 << 30 };
}

/* Where the loader looks here, unless the environment says where. */
static const char *own_vendors(void) {
	const char *given = getenv("OCL_ICD_VENDORS");

	return given && *given ? given : "/etc/OpenCL/vendors";
}

static void setup(void) {
	snprintf(folder, sizeof folder, "%s/XXXXXX", root);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert(driver_cache_link(folder));
	snprintf(vendors, sizeof vendors, "%s/vendors", folder);
	ck_assert_int_eq(mkdir(vendors, 0700), 0);
}

static void teardown(void) {
	tree_remove(folder);
}

/* A list of drivers: those of this machine, if asked for, behind the played one, if asked for. */
static void list(bool plays, bool own) {
	char path[PATH], from[PATH];
	const struct dirent *e;
	DIR *all = own ? opendir(own_vendors()) : NULL;
	FILE *f;

	snprintf(path, sizeof path, "%s/00-played.icd", vendors);
	f = plays ? fopen(path, "we") : NULL;
	if (f) {
		fprintf(f, "%s\n", played);
		ck_assert_int_eq(fclose(f), 0);
	}
	while (all && (e = readdir(all))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(from, sizeof from, "%s/%.200s", own_vendors(), e->d_name);
		snprintf(path, sizeof path, "%s/%.200s", vendors, e->d_name);
		ck_assert_int_eq(symlink(from, path), 0);
	}
	if (all)
		closedir(all);
	setenv("OCL_ICD_VENDORS", vendors, 1);
}

static struct device *open_with(struct device_config c) {
	struct device *d = NULL;
	struct fault f = { 0 };
	int r = device_open(&c, &d, &f);

	ck_assert_msg(!r, "device_open: %d %s", r, f.text);
	return d;
}

static const char *refusal(struct device_config c) {
	static struct fault f;
	struct device *d = NULL;

	ck_assert_int_eq(device_open(&c, &d, &f), FAULT_DEVICE);
	ck_assert_ptr_null(d);
	return f.text;
}

/* One sentence, with all of these words. */
static void expect_words(const char *text, const char *const *word) {
	ck_assert_ptr_null(strchr(text, '\n'));
	for (; *word; word++)
		ck_assert_msg(strstr(text, *word) != NULL, "not \"%s\": %s", *word, text);
}
#define EXPECT(text, ...) expect_words(text, (const char *const[]){ __VA_ARGS__, NULL })

/* ---- compilers that do not take what they say they have ---- */

/* A driver of which nothing is known, and whose compiler does `what` when it meets one. */
static void play(const char *what) {
	char rule[64];

	snprintf(rule, sizeof rule, "%s:__builtin_prefetch", what);
	setenv("FUSION_INTERPOSE_PLATFORM", "Played", 1);
	setenv("FUSION_INTERPOSE_COMPILER", rule, 1);
	setenv("FUSION_INTERPOSE_SPARE", "-DWITHOUT_AHEAD", 1);
}

static void expect_program(struct device *d) {
	struct program *p = NULL;
	struct kernel k;

	kernel_binary(&k, OP_add, device_traits(d)->width);
	ck_assert_int_eq(device_program(d, &k, &p), 0);
	while (program_state(p) == PROGRAM_BUILDING) {
		usleep(TICK_US);
		device_poll(d);
	}
	ck_assert_msg(program_state(p) == PROGRAM_READY, "%s", program_log(p) ? program_log(p) : "it is not built");
}

static const char *const ends[] = { "exit", "abort", "crash", "refuse" };

START_TEST(what_a_compiler_does_not_take_although_it_says_so_is_left_out) {
	struct device *d;

	play(ends[_i]);
	d = open_with(config());
	ck_assert_uint_eq(d->lacks, AHEAD);
	ck_assert_ptr_nonnull(strstr(device_notes(d), "has __builtin_prefetch, and does not take it"));
	ck_assert_str_eq(device_traits(d)->without, "-DWITHOUT_AHEAD");
	expect_program(d);
	device_close(d);
}
END_TEST

/* In a process of its own, where nothing is up. */
static int in_child(int (*does)(void)) {
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(does());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static int lacks(void) {
	struct device *d = open_with(config());
	uint32_t found = d->lacks;

	device_close(d);
	return (int)found;
}

START_TEST(what_a_trial_showed_is_not_tried_again) {
	play("exit");
	ck_assert_int_eq(WEXITSTATUS(in_child(lacks)), AHEAD);
	/* A trial would end at its first kernel now. */
	setenv("FUSION_INTERPOSE_COMPILER", "exit:global float *a) {", 1);
	unsetenv("FUSION_INTERPOSE_SPARE");
	ck_assert_int_eq(WEXITSTATUS(in_child(lacks)), AHEAD);
}
END_TEST

START_TEST(a_compiler_that_takes_all_is_given_all) {
	setenv("FUSION_INTERPOSE_PLATFORM", "Played", 1);
	ck_assert_int_eq(WEXITSTATUS(in_child(lacks)), 0);
}
END_TEST

START_TEST(a_compiler_without_a_function_that_all_need_is_refused) {
	setenv("FUSION_INTERPOSE_PLATFORM", "rusticl", 1);
	setenv("FUSION_INTERPOSE_COMPILER", "refuse:fma(", 1);
	EXPECT(refusal(config()), "does not take the function fma", "(rusticl, driver ", "mesa-opencl-icd");
}
END_TEST

/* ---- drivers that die ---- */

static const struct {
	const char *where, *words;
} deaths[] = { { "context", "asked for a context" }, { "build", "asked for a first kernel" } };

START_TEST(a_driver_that_dies_is_named_with_its_version_and_package) {
	setenv("FUSION_INTERPOSE_PLATFORM", "rusticl", 1);
	setenv("FUSION_INTERPOSE_DIE", deaths[_i].where, 1);
	EXPECT(refusal(config()), "(rusticl, driver ", "died (signal 6)", deaths[_i].words, "mesa-opencl-icd");
}
END_TEST

static int refuses(void) {
	struct device_config c = config();
	struct device *d = NULL;
	struct fault f = { 0 };

	c.tried_again = true;
	return device_open(&c, &d, &f) == FAULT_DEVICE && strstr(f.text, "died (signal 6)") && strstr(f.text, "asked for a ");
}

static int is_known(void) {
	struct device_config c = config();
	struct device d = { .config = c };
	struct fault f = { 0 };

	if (probe_choose_here(&c, &d.choice, &f))
		return 0;
	d.quirks = quirks_of(d.choice.platform_name, d.choice.name);
	return trials_are_needless(&d);
}

/* Of one that is known to take all nothing is tried; it costs one engine, which the supervisor starts again. */
START_TEST(a_driver_that_is_known_and_dies_gives_a_sentence_the_next_time) {
	int status;

	if (!WEXITSTATUS(in_child(is_known))) {
		skip_says(__func__, "of the driver here nothing is known beforehand");
		return;
	}
	setenv("FUSION_INTERPOSE_DIE", deaths[_i].where, 1);
	status = in_child(refuses);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	ck_assert_int_eq(WEXITSTATUS(in_child(refuses)), 1);
	unsetenv("FUSION_INTERPOSE_DIE");
	ck_assert_int_eq(WEXITSTATUS(in_child(lacks)), 0);
}
END_TEST

START_TEST(of_several_drivers_the_one_that_dies_is_named) {
	list(true, true);
	setenv("FUSION_DRIVER", "crash", 1);
	EXPECT(refusal(config()), "driver.so died (signal 6) while it listed its devices", "00-played.icd");
}
END_TEST

/* ---- old ones, several, none ---- */

START_TEST(a_driver_that_is_too_old_is_named_with_its_version_and_package) {
	setenv("FUSION_INTERPOSE_PLATFORM", "NVIDIA CUDA", 1);
	setenv("FUSION_INTERPOSE_VERSION", "OpenCL 1.1 worn out", 1);
	EXPECT(refusal(config()), "(NVIDIA CUDA, driver ", "is too old: it has OpenCL 1.1, and fusiond needs 1.2", "nvidia-opencl-icd");
}
END_TEST

START_TEST(of_several_platforms_the_first_that_is_of_use_is_taken) {
	struct device *d;

	list(true, true);
	d = open_with(config());
	ck_assert_str_ne(device_name(d), "Played device");
	device_close(d);
}
END_TEST

START_TEST(a_platform_that_was_asked_for_and_is_too_old_is_named) {
	struct device_config c = config();

	list(true, true);
	c.platform = "Played";
	EXPECT(refusal(c), "Played device (Played, driver 0.1) is too old: it has OpenCL 1.1");
	c.platform = "Nonesuch";
	EXPECT(refusal(c), "no OpenCL platform is named \"Nonesuch\"", "\"Played\", \"");
}
END_TEST

START_TEST(without_any_driver_the_sentence_names_a_package) {
	list(false, false);
	EXPECT(refusal(config()), "no OpenCL platform was found; install pocl-opencl-icd");
}
END_TEST

static TCase *add_case(Suite *s, const char *name) {
	TCase *c = tcase_create(name);

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, TIMEOUT);
	suite_add_tcase(s, c);
	return c;
}

/* Beside this program. */
static bool find_played(void) {
	ssize_t n = readlink("/proc/self/exe", played, sizeof played - sizeof "/driver.so");
	char *slash = n > 0 ? strrchr(played, '/') : NULL;

	if (slash)
		strcpy(slash, "/driver.so");
	return slash;
}

int main(void) {
	Suite *s = suite_create("drivers");
	TCase *c = add_case(s, "compilers");
	int failed;

	strcpy(root, "/tmp/fusiond-test-drivers-XXXXXX");
	if (!mkdtemp(root) || !find_played())
		return EXIT_FAILURE;
	tcase_add_loop_test(c, what_a_compiler_does_not_take_although_it_says_so_is_left_out, 0, (int)(sizeof ends / sizeof *ends));
	tcase_add_test(c, what_a_trial_showed_is_not_tried_again);
	tcase_add_test(c, a_compiler_that_takes_all_is_given_all);
	tcase_add_test(c, a_compiler_without_a_function_that_all_need_is_refused);
	c = add_case(s, "deaths");
	tcase_add_loop_test(c, a_driver_that_dies_is_named_with_its_version_and_package, 0, (int)(sizeof deaths / sizeof *deaths));
	tcase_add_loop_test(c, a_driver_that_is_known_and_dies_gives_a_sentence_the_next_time, 0, (int)(sizeof deaths / sizeof *deaths));
	tcase_add_test(c, of_several_drivers_the_one_that_dies_is_named);
	c = add_case(s, "choice");
	tcase_add_test(c, a_driver_that_is_too_old_is_named_with_its_version_and_package);
	tcase_add_test(c, of_several_platforms_the_first_that_is_of_use_is_taken);
	tcase_add_test(c, a_platform_that_was_asked_for_and_is_too_old_is_named);
	tcase_add_test(c, without_any_driver_the_sentence_names_a_package);
	failed = suite_run(s);
	tree_remove(root);
	return failed;
}

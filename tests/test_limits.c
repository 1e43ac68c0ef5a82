/*
 * Limits that people have: few descriptors, small files, few addresses, long paths, any umask. Whatever a daemon lacks it says so in one
 * sentence that names the limit, at its start and when the limit comes later, while it serves; and no session ends for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* prlimit */
#endif

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "suite.h"
#include "daemon.h"

enum {
	/* Of each limit: what ends a start must never be lost between two processes. */
	STARTS = 50,
	PROCESSES = 64,
	N = 1 << 20,             /* more than what is left of a session's first arena */
	WORDS = 8192,
};

/* ---- a daemon that cannot start ---- */

struct start {
	int resource;            /* -1: none is limited */
	rlim_t most;
	const char *argument[3];
	const char *words;       /* that it must say */
};

static void become_daemon(const struct start *s, const char *log) {
	const struct rlimit limit = { s->most, s->most };
	char program[256], cache[128];
	int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	snprintf(program, sizeof program, "%s/fusiond", build_folder());
	snprintf(cache, sizeof cache, "%s/cache", folder);
	dup2(fd, 1);
	dup2(fd, 2);
	if (s->resource >= 0)
		setrlimit((__rlimit_resource_t)s->resource, &limit);
	execl(program, program, "--config", "/dev/null", "--cache-dir", cache, "--socket", s->argument[0] ? s->argument[0] : door,
		s->argument[1], s->argument[2], (char *)NULL);
	_exit(127);
}

static void read_file(const char *path, char text[static WORDS]) {
	FILE *f = fopen(path, "re");

	ck_assert_ptr_nonnull(f);
	text[fread(text, 1, WORDS - 1, f)] = 0;
	fclose(f);
}

/* It ends by itself, with its reason, which says nothing of processes that end or of logs that are empty. */
static void expect_reason(const struct start *s) {
	char text[WORDS], log[128];
	pid_t pid;
	int status;

	snprintf(log, sizeof log, "%s/log", folder);
	pid = fork();
	if (!pid)
		become_daemon(s, log);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	read_file(log, text);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status), "it ended with %#x and said: %s", status, text);
	ck_assert_msg(strstr(text, s->words) != NULL, "it did not say \"%s\" but: %s", s->words, text);
	ck_assert_msg(!strstr(text, "ended with status") && !strstr(text, "no word"), "the cause is lost: %s", text);
}

static void make_folder(void) {
	snprintf(folder, sizeof folder, "/tmp/fusion-limits-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(door, sizeof door, "%s/door", folder);
	setenv("FUSION_SOCKET", door, 1);
}

static void expect_reasons(const struct start *s) {
	make_folder();
	for (unsigned i = 0; i < STARTS; i++)
		expect_reason(s);
	remove_folder();
}

START_TEST(few_descriptors_are_named_at_each_start) {
	expect_reasons(&(struct start){ .resource = RLIMIT_NOFILE, .most = 16, .words = "16 descriptors may be open here" });
}
END_TEST

START_TEST(small_files_are_named_at_each_start) {
	expect_reasons(&(struct start){ .resource = RLIMIT_FSIZE, .most = 1 << 20, .words = "a file may have 1 MiB here" });
}
END_TEST

START_TEST(few_addresses_are_named_at_each_start) {
	expect_reasons(&(struct start){ .resource = RLIMIT_AS, .most = (rlim_t)4 << 30, .words = "may have 4096 MiB of addresses here" });
}
END_TEST

START_TEST(what_keeps_the_engine_from_starting_is_told_at_each_start) {
	expect_reasons(&(struct start){
		.resource = -1, .argument = { NULL, "--set", "device.platform=none-such" }, .words = "none-such" });
}
END_TEST

START_TEST(the_length_of_a_path_is_named) {
	char path[256];

	snprintf(path, sizeof path, "/tmp/%0200d/door", 0);
	expect_reasons(&(struct start){ .resource = -1, .argument = { path }, .words = "door.socket has 210 bytes, at most" });
}
END_TEST

START_TEST(the_library_names_the_length_of_a_path) {
	fusion_context *c;
	char path[256];

	snprintf(path, sizeof path, "/tmp/%0200d/door", 0);
	setenv("FUSION_SOCKET", path, 1);
	ck_assert_int_eq(fusion_open(&c, NULL), FUSION_E_ARGUMENT);
	ck_assert_msg(strstr(fusion_error(), "has 210 bytes, and Linux allows 107") != NULL, "%s", fusion_error());
}
END_TEST

/* Between what is refused and what is enough: it serves, or says what it lacks. */
START_TEST(with_few_addresses_a_daemon_serves_or_says_why) {
	const struct start s = { .resource = RLIMIT_AS, .most = ((rlim_t)13568 << 20) + (rlim_t)_i * (512 << 20) };
	char text[WORDS], log[128];
	bool answers = false;
	int status;

	make_folder();
	snprintf(log, sizeof log, "%s/log", folder);
	close(open(log, O_WRONLY | O_CREAT, 0600));
	daemon_pid = fork();
	if (!daemon_pid)
		become_daemon(&s, log);
	for (int i = 0; i < START_TRIES && !has_ended(daemon_pid) && !answers; i++) {
		read_file(log, text);
		answers = strstr(text, "ready at") != NULL;
		usleep(100000);
	}
	if (answers) {
		daemon_stop();
		return;
	}
	ck_assert_int_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
	read_file(log, text);
	ck_assert_msg(strstr(text, "addresses") != NULL, "it said: %s", text);
	remove_folder();
}
END_TEST

/* ---- a umask ---- */

static void expect_modes(const char *path, mode_t mode) {
	struct stat st;

	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_msg((st.st_mode & 07777) == mode, "%s has the mode %04o", path, st.st_mode & 07777u);
}

/* Does the folder hold anything that others may read or write, whatever its own mode is? */
static bool is_open(const char *path) {
	char command[512];

	snprintf(command, sizeof command, "test -n \"$(find '%s' ! -type l -perm /077 | head -n 1)\"", path);
	return !system(command);
}

static void expect_one(fusion_context *c, float value) {
	const int64_t n = 4;
	fusion_array *a = fusion_full(c, FUSION_F32, 1, &n, value), *b = fusion_mul(a, a);
	float got[4] = { 0 };

	ck_assert_msg(!fusion_read(b, got, sizeof got), "%s", fusion_error());
	ck_assert(got[0] == value * value && got[3] == got[0]);
	fusion_release(a);
	fusion_release(b);
}

START_TEST(a_umask_changes_nobodys_rights) {
	static const mode_t masks[] = { 000, 077, 0777 };
	char path[128];
	fusion_context *c;

	umask(masks[_i]);
	own_driver_cache = true;
	make_folder();
	ck_assert_int_eq(chmod(folder, 0755), 0);
	/* The log is the test's own. */
	snprintf(path, sizeof path, "%s/log", folder);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	ck_assert_int_eq(chmod(path, 0600), 0);
	daemon_start_again("log.level=notice", NULL);
	c = connect_client();
	expect_one(c, 3);
	expect_modes(door, 0666);
	snprintf(path, sizeof path, "%s/door.d", folder);
	expect_modes(path, 0711);
	snprintf(path, sizeof path, "%s/door.d/lock", folder);
	expect_modes(path, 0600);
	snprintf(path, sizeof path, "%s/door.d/engine-0.1.sock", folder);
	expect_modes(path, 0666);
	snprintf(path, sizeof path, "%s/cache", folder);
	expect_modes(path, 0700);
	ck_assert(!is_open(path));
	fusion_close(c);
	umask(022);
	daemon_stop();
}
END_TEST

/* ---- a limit that comes later ---- */

struct processes {
	pid_t pid[PROCESSES];
	struct rlimit before[PROCESSES];
	unsigned count;
};

static void list_processes(struct processes *p) {
	char path[64];
	FILE *f;
	int pid;

	*p = (struct processes){ .pid = { daemon_pid }, .count = 1 };
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", daemon_pid, daemon_pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (p->count < PROCESSES && fscanf(f, "%d", &pid) == 1)
		p->pid[p->count++] = pid;
	fclose(f);
}

/* Of the daemon and all that it has started; a worker may end meanwhile. */
static void limit_all(struct processes *p, __rlimit_resource_t resource, rlim_t most) {
	list_processes(p);
	for (unsigned i = 0; i < p->count; i++) {
		struct rlimit limit;

		if (prlimit(p->pid[i], resource, NULL, &p->before[i]))
			continue;
		limit = (struct rlimit){ most, p->before[i].rlim_max };
		ck_assert(!prlimit(p->pid[i], resource, &limit, NULL) || errno == ESRCH);
	}
}

static void unlimit_all(const struct processes *p, __rlimit_resource_t resource) {
	for (unsigned i = 0; i < p->count; i++)
		ck_assert(!prlimit(p->pid[i], resource, &p->before[i], NULL) || errno == ESRCH);
}

/* A kernel that nobody has built, on memory that is still to be asked for. What it answers is right, or it fails. */
static int use(fusion_context *c, unsigned turn) {
	const int64_t n = N;
	float *values = malloc(N * sizeof *values), expected = 4;
	fusion_array *a, *b, *next;
	int r;

	ck_assert_ptr_nonnull(values);
	for (unsigned i = 0; i < N; i++)
		values[i] = 2;
	fusion_error_clear();
	a = fusion_from(c, FUSION_F32, 1, &n, values);
	b = fusion_add(a, a);
	for (unsigned i = 0; i < turn; i++, expected = expected * 2 - 2) {
		next = fusion_mul(b, a);
		fusion_release(b);
		b = fusion_sub(next, a);
		fusion_release(next);
	}
	r = b ? fusion_read(b, values, N * sizeof *values) : fusion_error_code();
	ck_assert_msg(r || (values[0] == expected && values[N - 1] == expected), "%g, not %g", values[N - 1], expected);
	free(values);
	fusion_release(a);
	fusion_release(b);
	return r;
}

/* What fails is refused for the daemon's limit, in these words. */
static void expect_limit(int code, const char *words) {
	ck_assert_msg(!code || (code == FUSION_E_LIMIT && strstr(fusion_error(), words)), "%d: %s", code, fusion_error());
}

static int use_another(unsigned turn) {
	fusion_context *c;
	int r = fusion_open(&c, NULL);

	if (r)
		return r;
	r = use(c, turn);
	fusion_close(c);
	return r;
}

/* An administrator sees the same sentence, or the status. */
static void expect_status(const char *words) {
	char text[STATUS_TEXT];
	cJSON *json = door_answer(text);

	ck_assert_msg(cJSON_GetObjectItem(json, "engines") || strstr(text, words), "status: %s", text);
	cJSON_Delete(json);
}

/* What is not said of anybody in the log. */
static void expect_no_blame(void) {
	char text[WORDS], log[128];

	snprintf(log, sizeof log, "%s/log", folder);
	read_file(log, text);
	ck_assert_msg(!strstr(text, "nonsense") && !strstr(text, "supervisor was refused") && !strstr(text, "has no ring") && !strstr(text, "generation 2"),
		"%s", text);
}

/* A session that is there goes on, others come and go; some of what they ask for is refused, and nothing afterwards. */
static void live_with(__rlimit_resource_t resource, rlim_t most, const char *words) {
	fusion_context *old;
	struct processes p;

	daemon_start("log.level=notice", NULL);
	old = connect_client();
	ck_assert_msg(!use(old, 0), "%s", fusion_error());
	limit_all(&p, resource, most);
	for (unsigned i = 1; i < 4; i++) {
		expect_limit(use(old, 2 * i), words);
		expect_limit(use_another(2 * i + 1), words);
	}
	expect_status(words);
	unlimit_all(&p, resource);
	for (unsigned i = 1; i < 10; i++)
		ck_assert_msg(!use(old, i), "%s", fusion_error());
	ck_assert_msg(!use_another(10), "%s", fusion_error());
	expect_no_blame();
	fusion_close(old);
	daemon_stop();
}

START_TEST(few_descriptors_later_are_nobodys_fault) {
	static const rlim_t most[] = { 8, 16, 18, 20, 24, 32, 47, 49, 51, 54 };

	live_with(RLIMIT_NOFILE, most[_i], "descriptor left for");
}
END_TEST

START_TEST(small_files_later_are_nobodys_fault) {
	live_with(RLIMIT_FSIZE, 1 << 20, "may have files of 1048576 bytes");
}
END_TEST

/* As many sessions as there are numbers for: the next one is refused, and those that are there have all that they need. */
START_TEST(sessions_leave_the_daemon_what_it_needs) {
	fusion_context *c[64];
	struct processes p;
	unsigned n = 0;

	daemon_start("log.level=notice", NULL);
	limit_all(&p, RLIMIT_NOFILE, 80);
	while (n < 64 && !fusion_open(&c[n], NULL))
		n++;
	ck_assert_int_gt(n, 2);
	ck_assert_int_lt(n, 64);
	expect_limit(fusion_error_code(), "descriptor left for");
	/* Each wants some memory, too. */
	for (unsigned half = n / 2; n > half;)
		fusion_close(c[--n]);
	for (unsigned i = 0; i < n; i++)
		expect_one(c[i], (float)i);
	ck_assert_msg(!use(c[0], 3), "%s", fusion_error());
	expect_no_blame();
	for (unsigned i = 0; i < n; i++)
		fusion_close(c[i]);
	unlimit_all(&p, RLIMIT_NOFILE);
	daemon_stop();
}
END_TEST

int main(void) {
	Suite *suite = suite_create("limits");
	TCase *starts = tcase_create("starts"), *serving = tcase_create("serving");

	tcase_set_timeout(starts, 120);
	tcase_add_test(starts, few_descriptors_are_named_at_each_start);
	tcase_add_test(starts, small_files_are_named_at_each_start);
	tcase_add_test(starts, few_addresses_are_named_at_each_start);
	tcase_add_test(starts, what_keeps_the_engine_from_starting_is_told_at_each_start);
	tcase_add_test(starts, the_length_of_a_path_is_named);
	tcase_add_test(starts, the_library_names_the_length_of_a_path);
	suite_add_tcase(suite, starts);
	tcase_set_timeout(serving, 120);
	tcase_add_loop_test(serving, with_few_addresses_a_daemon_serves_or_says_why, 0, 4);
	tcase_add_loop_test(serving, a_umask_changes_nobodys_rights, 0, 3);
	tcase_add_loop_test(serving, few_descriptors_later_are_nobodys_fault, 0, 10);
	tcase_add_test(serving, small_files_later_are_nobodys_fault);
	tcase_add_test(serving, sessions_leave_the_daemon_what_it_needs);
	suite_add_tcase(suite, serving);
	return suite_run(suite);
}

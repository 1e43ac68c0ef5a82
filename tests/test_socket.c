/*
 * A daemon that a socket unit starts: the socket is the service manager's, here keeper.py's, who made it and passes it. It is there before and after each
 * daemon, which never removes, renames or changes it; who connects while there is no daemon is served by the next.
 */
#include <stdatomic.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/keeper.h"
#include "tests/suite.h"

enum {
	TEST_SECONDS = 600,
	RESTARTS = 3,
	IDLE_TURNS = 12,
	IDLE_US = 50 * 1000,
	FIRST_PASSED = 3,        /* SD_LISTEN_FDS_START */
	CONFIG_EXIT = 78,
};

static char idle[64];

static void begin_with(const char *first) {
	const char *environment[2] = { first, NULL };

	keeper_listens = true;
	keeper_folder("socket");
	keeper_start("60s", environment);
}

static void begin(void) {
	begin_with(NULL);
}

static void begin_idle(void) {
	snprintf(idle, sizeof idle, "FUSIOND_DOOR_IDLE_EXIT_US=%d", IDLE_US);
	begin_with(idle);
}

static fusion_context *open_context(void) {
	fusion_context *c;

	ck_assert_msg(!fusion_open(&c, NULL), "%s", fusion_error());
	return c;
}

static void must_compute(fusion_context *c) {
	const float two[2] = { 1, 2 };
	float got[2];
	int64_t n = 2;
	fusion_array *a = fusion_from(c, FUSION_F32, 1, &n, two), *b = fusion_neg(a);

	ck_assert_msg(!fusion_read(b, got, sizeof got), "%s", fusion_error());
	ck_assert(got[0] == -1 && got[1] == -2);
	fusion_release(a);
	fusion_release(b);
}

static struct stat socket_now(void) {
	struct stat st;

	ck_assert_msg(!lstat(door, &st), "the socket is gone");
	ck_assert(S_ISSOCK(st.st_mode));
	return st;
}

static void must_be_the_same(const struct stat *before) {
	struct stat now = socket_now();

	ck_assert(now.st_ino == before->st_ino && now.st_mode == before->st_mode && now.st_ctim.tv_sec == before->st_ctim.tv_sec &&
		  now.st_ctim.tv_nsec == before->st_ctim.tv_nsec);
}

static bool log_says(const char *words) {
	char command[256];

	snprintf(command, sizeof command, "grep -q -e '%s' %s/log", words, folder);
	return !system(command);
}

/* ---- claims ---- */

START_TEST(the_socket_of_a_unit_is_served_and_left) {
	const int signals[] = { SIGHUP, SIGUSR1 };
	struct stat before = socket_now();
	fusion_context *c = open_context();
	const float two[2] = { 3, 4 };
	float got[2];
	int64_t n = 2;
	fusion_array *kept = fusion_from(c, FUSION_F32, 1, &n, two);
	int status;

	for (int i = 0; i < 2; i++) {
		must_compute(c);
		keeper_restart(signals[i]);
		/* What is kept came with the socket, and neither is taken for the other. */
		ck_assert_msg(!fusion_read(kept, got, sizeof got), "%s", fusion_error());
		ck_assert(got[0] == 3 && got[1] == 4);
		must_be_the_same(&before);
	}
	ck_assert(log_says("door.mode is 0666, but the socket is its unit.s, and has 0640"));
	fusion_release(kept);
	fusion_close(c);
	kill(keeper, SIGTERM);
	ck_assert_int_eq(waitpid(keeper, &status, 0), keeper);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the daemon ended with %#x", status);
	must_be_the_same(&before);
	remove_folder();
}
END_TEST

static atomic_bool enough;
static atomic_uint opened;

static void *open_and_open(void *user) {
	(void)user;
	while (!atomic_load(&enough)) {
		fusion_close(open_context());
		atomic_fetch_add(&opened, 1);
	}
	return NULL;
}

START_TEST(who_comes_during_a_restart_waits_for_it) {
	struct stat before = socket_now();
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, open_and_open, NULL), 0);
	for (int i = 0; i < RESTARTS; i++) {
		unsigned now = atomic_load(&opened);

		while (atomic_load(&opened) < now + 2)
			usleep(5000);
		keeper_restart(SIGHUP);
	}
	atomic_store(&enough, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	must_be_the_same(&before);
	keeper_end();
}
END_TEST

/* The clients come about when the daemon ends, before and after. */
START_TEST(who_comes_to_one_that_ends_starts_another) {
	struct stat before = socket_now();
	struct keeper_event e;

	for (int i = 0; i < IDLE_TURNS; i++) {
		fusion_context *c = open_context();

		if (!i)
			must_compute(c);
		fusion_close(c);
		usleep((useconds_t)(IDLE_US / 2 + i * IDLE_US / IDLE_TURNS));
	}
	for (int i = 0; i < START_TRIES && keeper_event("ended", &e) < keeper_event("started", &e); i++)
		usleep(20000);
	ck_assert_int_ge(keeper_event("ended", &e), 1);
	must_be_the_same(&before);
	fusion_close(open_context());
	keeper_end();
}
END_TEST

/* ---- what is no door ---- */

static int socket_at(int type, const char *path, bool listens) {
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type, 0);

	ck_assert_int_ge(fd, 0);
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
	ck_assert(!listens || !listen(fd, 1));
	return fd;
}

/* By hand, as systemd does it. */
static void must_be_refused(unsigned count, int *fd, const char *words) {
	char program[256], log[128], pid[32], number[32];
	int status;
	pid_t child = fork();

	if (!child) {
		snprintf(log, sizeof log, "%s/log", folder);
		for (unsigned i = 0; i < count; i++)
			fd[i] = fcntl(fd[i], F_DUPFD, 100);
		for (unsigned i = 0; i < count; i++)
			dup2(fd[i], FIRST_PASSED + (int)i);
		dup2(open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		snprintf(pid, sizeof pid, "%d", getpid());
		snprintf(number, sizeof number, "%u", count);
		setenv("LISTEN_PID", pid, 1);
		setenv("LISTEN_FDS", number, 1);
		snprintf(program, sizeof program, "%s/fusiond", build_folder());
		execl(program, program, "--config", "/dev/null", "--socket", door, (char *)NULL);
		_exit(127);
	}
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == CONFIG_EXIT, "it ended with %#x", status);
	ck_assert_msg(log_says(words), "the log does not say: %s", words);
}

START_TEST(a_socket_that_is_no_door_is_refused) {
	char other[120];
	int fd[2];

	keeper_folder("socket");
	fd[0] = socket_at(SOCK_STREAM, door, true);
	must_be_refused(1, fd, "which is not what the door is: ListenSequentialPacket=");
	socket_now();
	unlink(door);
	fd[0] = socket_at(SOCK_SEQPACKET, door, false);
	must_be_refused(1, fd, "which is not what the door is");
	unlink(door);
	snprintf(other, sizeof other, "%s/other", folder);
	fd[0] = socket_at(SOCK_SEQPACKET, other, true);
	must_be_refused(1, fd, "/other, but door.socket is .*/door: say the same");
	fd[0] = socket_at(SOCK_SEQPACKET, door, true);
	unlink(other);
	fd[1] = socket_at(SOCK_SEQPACKET, other, true);
	must_be_refused(2, fd, "and another one before: the door is one");
	socket_now();
	unlink(door);
	fd[0] = socket_at(SOCK_SEQPACKET, door, true);
	unlink(door);
	must_be_refused(1, fd, "is not at .*/door any more: restart its unit");
	remove_folder();
}
END_TEST

int main(void) {
	Suite *s = suite_create("socket");
	TCase *served = tcase_create("served"), *ends = tcase_create("ends"), *refused = tcase_create("refused");

	tcase_set_timeout(served, TEST_SECONDS);
	tcase_add_checked_fixture(served, begin, NULL);
	tcase_add_test(served, the_socket_of_a_unit_is_served_and_left);
	tcase_add_test(served, who_comes_during_a_restart_waits_for_it);
	suite_add_tcase(s, served);
	tcase_set_timeout(ends, TEST_SECONDS);
	tcase_add_checked_fixture(ends, begin_idle, NULL);
	tcase_add_test(ends, who_comes_to_one_that_ends_starts_another);
	suite_add_tcase(s, ends);
	tcase_set_timeout(refused, TEST_SECONDS);
	tcase_add_test(refused, a_socket_that_is_no_door_is_refused);
	suite_add_tcase(s, refused);
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	setenv("FUSIOND_DEVICE_MEASURE", "no", 1);
	return suite_run(s);
}

/*
 * libfusion and processes: a daemon that dies, and fork().
 *
 * The tests that have the fake daemon in a process of its own come first, so that they also run
 * where check does not fork: nng must not have been used before.
 */
#include "client/fusion.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/fake_context.h"

enum {
	FAKE_READY_US = 20000,
};

/* Runs the fake in a child; door gets its path. It answers until it is told to pause, by pausep, a pipe that it closes when it does. */
static pid_t fake_process(int *pausep, char door[96]) {
	int ends[2], told[2], did[2];
	pid_t pid;

	ck_assert(!pipe(ends) && !pipe(told) && !pipe(did));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fake_start();
		if (write(ends[1], fake.door, 96) != 96)
			_exit(1);
		close(told[1]);
		close(did[0]);
		/* The end of it, where nobody tells. */
		if (read(told[0], door, 1) == 1)
			fake_pause(true);
		close(did[1]);
		for (;;)
			pause();
	}
	close(told[0]);
	close(did[1]);
	pausep[0] = did[0];
	pausep[1] = told[1];
	ck_assert_int_eq(read(ends[0], door, 96), 96);
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void fake_kill(pid_t pid, char door[96]) {
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(door);
	strcpy(strrchr(door, '/'), "/ops");
	unlink(door);
	*strrchr(door, '/') = '\0';
	rmdir(door);
}

START_TEST(a_child_of_a_process_that_used_nothing_may_open) {
	struct fusion_options options = { 0 };
	char door[96];
	int pauses[2];
	pid_t daemon = fake_process(pauses, door), child;
	int status;

	options.socket = door;
	child = fork();
	if (!child) {
		if (fusion_open(&context, &options) || fusion_sync(context))
			_exit(1);
		fusion_close(context);
		_exit(0);
	}
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	fake_kill(daemon, door);
}
END_TEST

START_TEST(a_daemon_that_dies_ends_every_wait_with_a_sentence) {
	struct fusion_options options = { 0 };
	char door[96], byte;
	int pauses[2];
	pid_t daemon = fake_process(pauses, door);
	fusion_future *future;
	fusion_array *a;
	float back[3];

	options.socket = door;
	ck_assert_msg(!fusion_open(&context, &options), "%s", fusion_error());
	a = vector(3, 0);
	ck_assert(!fusion_sync(context));
	ck_assert_int_eq(write(pauses[1], "p", 1), 1);
	ck_assert_int_eq(read(pauses[0], &byte, 1), 0);
	future = fusion_read_begin(a, back, sizeof back);
	ck_assert_ptr_nonnull(future);
	fake_kill(daemon, door);
	ck_assert_int_eq(fusion_future_finish(future), FUSION_E_CONNECT);
	expect_error(FUSION_E_CONNECT, "broke");
	ck_assert_int_eq(fusion_read(a, back, sizeof back), FUSION_E_CONNECT);
	ck_assert_ptr_null(fusion_neg(a));
	expect_error(FUSION_E_CONNECT, "broke");
	fusion_release(a);
	fusion_close(context);
}
END_TEST

/* --- fork() ------------------------------------------------------------------------------ */

/* What the child tries; the number of the first thing that did not go as it should. */
static int try_in_child(fusion_array *a, fusion_capture *capture, fusion_future *future) {
	fusion_context *second;
	fusion_array *out;
	int64_t n = 3;
	float back[3];
	void *memory;

	if (fusion_neg(a) || fusion_error_code() != FUSION_E_FORKED || !strstr(fusion_error(), "fork()"))
		return 1;
	fusion_error_clear();
	if (fusion_read(a, back, sizeof back) != FUSION_E_FORKED)
		return 2;
	if (fusion_sync(context) != FUSION_E_FORKED || fusion_flush(context) != FUSION_E_FORKED)
		return 3;
	if (fusion_open(&second, NULL) != FUSION_E_FORKED || second)
		return 4;
	if (fusion_map(a, FUSION_MAP_READ, &memory) != FUSION_E_FORKED || fusion_wait(a) != FUSION_E_FORKED)
		return 5;
	if (fusion_from(context, FUSION_F32, 1, &n, back) || fusion_full(context, FUSION_F32, 1, &n, 1))
		return 6;
	if (fusion_replay(capture, &a, &out) != FUSION_E_FORKED ||
		fusion_future_finish(future) != FUSION_E_FORKED)
		return 7;
	if (fusion_stats(context, false) || fusion_scope_begin(context) != FUSION_E_FORKED)
		return 8;
	if (fusion_elements(a) != 3 || fusion_dims(a)[0] != 3)
		return 9;
	fusion_release(fusion_retain(a));
	fusion_release(a);
	fusion_capture_free(capture);
	fusion_close(context);
	return 0;
}

START_TEST(the_child_of_a_fork_gets_an_error_and_may_exit) {
	struct fusion_options options = { 0 };
	fusion_array *a, *b;
	fusion_capture *capture;
	fusion_future *future;
	float back[3];
	int status;
	pid_t child;

	fake_start();
	options.socket = fake.door;
	ck_assert(!fusion_open(&context, &options));
	a = vector(3, 0);
	ck_assert(!fusion_capture_begin(context, 1, &a));
	b = fusion_neg(a);
	capture = fusion_capture_end(context, 1, &b);
	fusion_release(b);
	future = fusion_read_begin(a, back, sizeof back);
	child = fork();
	if (!child) {
		alarm(PATIENCE_S);
		status = try_in_child(a, capture, future);
#if defined(__SANITIZE_ADDRESS__)
		_exit(status); /* or what the parent holds would be found leaked here */
#endif
		exit(status);
	}
	waitpid(child, &status, 0);
	ck_assert_msg(WIFEXITED(status), "the child was ended by signal %d", WTERMSIG(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	/* The parent goes on. */
	ck_assert(!fusion_future_finish(future));
	ck_assert(!fusion_read(a, back, sizeof back));
	fusion_capture_free(capture);
	fusion_release(a);
	fusion_close(context);
	fake_stop();
}
END_TEST

START_TEST(a_child_does_not_keep_the_session_alive) {
	struct fusion_options options = { 0 };
	unsigned open = 1;
	pid_t child;

	fake_start();
	options.socket = fake.door;
	ck_assert(!fusion_open(&context, &options));
	child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	usleep(FAKE_READY_US);
	fusion_close(context);
	for (int ms = 0; ms < PATIENCE_MS && open; ms += 10) {
		usleep(10000);
		pthread_mutex_lock(&fake.lock);
		open = fake.doors_open;
		pthread_mutex_unlock(&fake.lock);
	}
	ck_assert_uint_eq(open, 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	fake_stop();
}
END_TEST

/* fork() while other threads hold every lock of the library now and then. */
static atomic_bool enough;

static void *keep_busy(void *user) {
	fusion_array *a = user;

	while (!atomic_load(&enough)) {
		fusion_release(fusion_neg(a));
		fusion_reshape(a, 9, NULL);
	}
	return NULL;
}

START_TEST(a_fork_among_busy_threads_does_not_hang_the_child) {
	struct fusion_options options = { 0 };
	pthread_t thread[3];
	fusion_array *a;

	fake_start();
	options.socket = fake.door;
	ck_assert(!fusion_open(&context, &options));
	a = vector(3, 0);
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, keep_busy, a);
	for (int i = 0; i < 40; i++) {
		int status;
		pid_t child = fork();

		if (!child) {
			alarm(PATIENCE_S);
			_exit(fusion_neg(a) != NULL || fusion_error_code() != FUSION_E_FORKED);
		}
		waitpid(child, &status, 0);
		ck_assert_int_eq(status, 0);
	}
	atomic_store(&enough, true);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	fusion_release(a);
	fusion_close(context);
	fake_stop();
}
END_TEST

RUN_TESTS("client_process", a_child_of_a_process_that_used_nothing_may_open,
	a_daemon_that_dies_ends_every_wait_with_a_sentence, the_child_of_a_fork_gets_an_error_and_may_exit,
	a_child_does_not_keep_the_session_alive, a_fork_among_busy_threads_does_not_hang_the_child)

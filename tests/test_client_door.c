/*
 * Calls that wait for the door: without the context's lock, so that others go on; until somebody asks them to stop, their time is over, or another thread closes the
 * context. What was asked and given up is answered all the same, and taken for no other answer.
 */
#include "client/fusion.h"

#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/context.h"
#include "tests/fake_context.h"
#include "tests/skip.h"

enum {
	ELEMENTS = 3,
	MANY = 1 << 20,      /* more than any arena of a context that has done little */
	LATE_MS = 100,
	A_MOMENT_US = 1000,
};

static fusion_array *small;

static void begin(void) {
	float back[ELEMENTS];

	open_context();
	small = vector(ELEMENTS, 0);
	/* All that it needs of the door is there. */
	ck_assert_msg(!fusion_read(small, back, sizeof back), "%s", fusion_error());
}

static void end(void) {
	fusion_release(small);
	close_context();
}

static bool is_holding(void) {
	return atomic_load(&fake.holding);
}

static void await_hold(void) {
	for (int i = 0; i < PATIENCE_MS && !is_holding(); i++)
		usleep(A_MOMENT_US);
	ck_assert(is_holding());
}

/* ---- calls that need the door ---- */

/* An arena of one's own. */
static int upload(void) {
	static const float data[MANY];
	int64_t n = MANY;
	fusion_array *a = fusion_from(context, FUSION_F32, 1, &n, data);
	int code = a ? 0 : fusion_error_code();

	fusion_release(a);
	return code;
}

/* An arena of the engine's, which the context has not mapped yet. */
static int download(void) {
	float back[ELEMENTS];
	fusion_array *a = fusion_exp(small);
	int code = fusion_read(a, back, sizeof back);

	fusion_release(a);
	return code;
}

static int map_to_write(void) {
	fusion_array *a = fusion_exp(small);
	void *memory;
	int code = fusion_map(a, FUSION_MAP_WRITE, &memory);

	if (!code)
		code = fusion_unmap(a);
	fusion_release(a);
	return code;
}

static const struct {
	const char *name;
	int (*call)(void);
	unsigned nth;        /* of its requests and packets: that of the door */
} calls[] = {
	{ "upload", upload, 1 },
	{ "download", download, 3 },
	{ "map", map_to_write, 3 },
};

enum { CALLS = sizeof calls / sizeof *calls };

/* All of them work, whatever was given up before. */
static void everything_goes_on(void) {
	for (unsigned i = 0; i < CALLS; i++) {
		int code = calls[i].call();

		ck_assert_msg(!code, "%s: %s", calls[i].name, fusion_error());
	}
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	while (fake_unanswered())
		usleep(A_MOMENT_US);
	ck_assert_uint_eq(fake.mapped, 0);
}

static unsigned arenas_made(void) {
	unsigned count;

	pthread_mutex_lock(&fake.lock);
	count = fake.arenas;
	pthread_mutex_unlock(&fake.lock);
	return count;
}

struct caller {
	pthread_t thread;
	unsigned which;
	int code;
	char error[256];
};

static void *call_once(void *user) {
	struct caller *c = user;

	c->code = calls[c->which].call();
	snprintf(c->error, sizeof c->error, "%s", fusion_error());
	return NULL;
}

static void caller_begin(struct caller *c, unsigned which) {
	c->which = which;
	pthread_create(&c->thread, NULL, call_once, c);
}

static int caller_end(struct caller *c) {
	pthread_join(c->thread, NULL);
	return c->code;
}

/* Until its call at the door is held. */
static void caller_held(struct caller *c, unsigned which) {
	fake_hold(calls[which].nth);
	caller_begin(c, which);
	await_hold();
}

/* ---- claims ---- */

START_TEST(who_is_asked_to_stop_leaves_the_door) {
	unsigned arenas;

	begin();
	fusion_on_wait(is_holding);
	fake_hold(calls[_i].nth);
	ck_assert_int_eq(calls[_i].call(), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
	expect_error(FUSION_E_CANCELLED, "interrupted");
	fake_let_go();
	arenas = arenas_made();
	everything_goes_on();
	/* Where one was made after all, that is the one which is used. */
	ck_assert_uint_le(arenas_made(), arenas + 1);
	end();
}
END_TEST

START_TEST(who_has_waited_long_enough_leaves_the_door) {
	struct fusion_context *c;

	begin();
	c = (struct fusion_context *)object_find(OBJECT_CONTEXT, context);
	fake_hold(calls[_i].nth);
	/* Of the door alone: a busy machine takes longer for others. */
	c->door.timeout_ms = LATE_MS;
	ck_assert_int_eq(calls[_i].call(), FUSION_E_CONNECT);
	c->door.timeout_ms = 0;
	expect_error(FUSION_E_CONNECT, "100 ms");
	fake_let_go();
	everything_goes_on();
	end();
}
END_TEST

START_TEST(a_context_may_be_closed_while_somebody_is_at_the_door) {
	struct caller c;

	begin();
	caller_held(&c, (unsigned)_i);
	fusion_close(context);
	ck_assert_int_eq(caller_end(&c), FUSION_E_STATE);
	ck_assert_msg(strstr(c.error, "closed"), "%s", c.error);
	fusion_release(small);
	fake_let_go();
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}
END_TEST

START_TEST(calls_that_need_no_door_go_on_beside_one_that_waits_there) {
	float back[ELEMENTS];
	struct caller c;
	fusion_array *y;

	begin();
	caller_held(&c, (unsigned)_i);
	for (unsigned turn = 0; turn < 3; turn++) {
		ck_assert_msg(!fusion_read(small, back, sizeof back), "%s", fusion_error());
		ck_assert(back[2] == 2);
		y = fusion_add(small, small);
		ck_assert_msg(!fusion_wait(y), "%s", fusion_error());
		fusion_release(y);
		ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	}
	ck_assert(is_holding());
	fake_let_go();
	ck_assert_msg(!caller_end(&c), "%s", c.error);
	everything_goes_on();
	end();
}
END_TEST

/* The one that comes second waits for the first, and is asked to stop there. */
START_TEST(who_waits_for_another_at_the_door_is_asked_to_stop) {
	struct caller c;

	begin();
	caller_held(&c, 0);
	fusion_on_wait(is_holding);
	ck_assert_int_eq(upload(), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
	fusion_error_clear();
	fake_let_go();
	/* The first one may have been asked, too. */
	ck_assert_msg(!caller_end(&c) || c.code == FUSION_E_CANCELLED, "%s", c.error);
	everything_goes_on();
	end();
}
END_TEST

START_TEST(who_waits_for_another_at_the_door_makes_no_second_arena_for_the_same) {
	enum { THREADS = 6 };
	struct caller c[THREADS];
	unsigned arenas;

	begin();
	arenas = arenas_made();
	caller_held(&c[0], 0);
	for (int i = 1; i < THREADS; i++)
		caller_begin(&c[i], 0);
	fake_let_go();
	for (int i = 0; i < THREADS; i++)
		ck_assert_msg(!caller_end(&c[i]), "%s", c[i].error);
	/* Each has all that it needs, and three times as much as before is asked for. */
	ck_assert_uint_le(arenas_made(), arenas + 3);
	everything_goes_on();
	end();
}
END_TEST

/* ---- opening ---- */

START_TEST(who_opens_is_asked_to_stop_while_the_door_does_not_answer) {
	fusion_context *other;

	begin();
	fusion_on_wait(is_holding);
	fake_hold(1);
	ck_assert_int_eq(fusion_open(&other, &(struct fusion_options){ .socket = fake.door }), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
	expect_error(FUSION_E_CANCELLED, "interrupted");
	ck_assert_ptr_null(other);
	fake_let_go();
	fusion_release(small);
	fusion_close(context);
	fake_stop();
}
END_TEST

/* As many as may wait for a daemon that takes nobody wait already: the next one cannot even connect. */
START_TEST(who_opens_is_asked_to_stop_while_the_queue_of_the_door_is_full) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[] = "/tmp/full-XXXXXX";
	fusion_context *other;
	int listener, waiting[2];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/door", folder);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert(!bind(listener, (struct sockaddr *)&address, sizeof address) && !listen(listener, 0));
	for (int i = 0; i < 2; i++) {
		waiting[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(waiting[i], (struct sockaddr *)&address, sizeof address))
			ck_assert_int_eq(errno, EAGAIN);
	}
	atomic_store(&fake.holding, true);
	fusion_on_wait(is_holding);
	ck_assert_int_eq(fusion_open(&other, &(struct fusion_options){ .socket = address.sun_path }), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
	expect_error(FUSION_E_CANCELLED, "interrupted");
	ck_assert_int_eq(
		fusion_open(&other, &(struct fusion_options){ .socket = address.sun_path, .timeout_ms = LATE_MS }), FUSION_E_CONNECT);
	expect_error(FUSION_E_CONNECT, "100 ms");
	close(waiting[0]);
	close(waiting[1]);
	close(listener);
	unlink(address.sun_path);
	rmdir(folder);
}
END_TEST

/* It listens, and never says a word. */
static int listen_in_silence(char url[static 64]) {
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof a;

	ck_assert(!bind(listener, (struct sockaddr *)&a, sizeof a) && !listen(listener, 1));
	ck_assert(!getsockname(listener, (struct sockaddr *)&a, &size));
	snprintf(url, 64, "tcp://127.0.0.1:%u", ntohs(a.sin_port));
	return listener;
}

static bool always(void) {
	return true;
}

static unsigned slept, woke;

static void *count_sleeps(void *given_up) {
	if (given_up)
		woke++;
	else
		slept++;
	return &slept;
}

/* What a program gives up while threads sleep is given up here, too. */
static void expect_stopped(const char *socket) {
	fusion_context *other;

	slept = woke = 0;
	fusion_on_sleep(count_sleeps);
	fusion_on_wait(always);
	ck_assert_int_eq(fusion_open(&other, &(struct fusion_options){ .socket = socket }), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
	fusion_on_sleep(NULL);
	expect_error(FUSION_E_CANCELLED, "interrupted");
	ck_assert_ptr_null(other);
	ck_assert_uint_gt(slept, 0);
	ck_assert_uint_eq(woke, slept);
}

START_TEST(who_opens_is_asked_to_stop_while_another_machine_does_not_answer) {
	fusion_context *other;
	char url[64];
	int listener = listen_in_silence(url);

	expect_stopped(url);
	ck_assert_int_eq(fusion_open(&other, &(struct fusion_options){ .socket = url, .timeout_ms = LATE_MS }), FUSION_E_CONNECT);
	expect_error(FUSION_E_CONNECT, "100 ms");
	close(listener);
}
END_TEST

START_TEST(who_opens_is_asked_to_stop_while_a_daemon_of_his_own_is_started) {
	char folder[] = "/tmp/start-XXXXXX", program[64], own[64];
	FILE *file;

	if (!access("/run/fusiond", F_OK))
		SKIP("the machine has a daemon");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(program, sizeof program, "%s/daemon", folder);
	file = fopen(program, "we");
	fputs("#!/bin/sh\nexec sleep 1000000\n", file);
	ck_assert(!fchmod(fileno(file), 0700) && !fclose(file));
	unsetenv("FUSION_SOCKET");
	setenv("FUSION_DAEMON", program, 1);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	expect_stopped(NULL);
	/* The lock is free again, and the program has gone: no child is left. */
	expect_stopped(NULL);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	unlink(program);
	snprintf(own, sizeof own, "rm -r %s", folder);
	ck_assert_int_eq(system(own), 0);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("client_door");
	TCase *tcase = tcase_create("door");

	tcase_set_timeout(tcase, TEST_TIMEOUT_SECONDS);
	tcase_add_loop_test(tcase, who_is_asked_to_stop_leaves_the_door, 0, CALLS);
	tcase_add_loop_test(tcase, who_has_waited_long_enough_leaves_the_door, 0, CALLS);
	tcase_add_loop_test(tcase, a_context_may_be_closed_while_somebody_is_at_the_door, 0, CALLS);
	tcase_add_loop_test(tcase, calls_that_need_no_door_go_on_beside_one_that_waits_there, 0, CALLS);
	tcase_add_test(tcase, who_waits_for_another_at_the_door_is_asked_to_stop);
	tcase_add_test(tcase, who_waits_for_another_at_the_door_makes_no_second_arena_for_the_same);
	tcase_add_test(tcase, who_opens_is_asked_to_stop_while_the_door_does_not_answer);
	tcase_add_test(tcase, who_opens_is_asked_to_stop_while_the_queue_of_the_door_is_full);
	tcase_add_test(tcase, who_opens_is_asked_to_stop_while_another_machine_does_not_answer);
	tcase_add_test(tcase, who_opens_is_asked_to_stop_while_a_daemon_of_his_own_is_started);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}

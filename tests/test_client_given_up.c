/*
 * Calls that wait, given up at each request that they make: by who is asked to stop, because their time is over, by another thread that closes the context, and with
 * the daemon's end. Whatever was given up is taken back at the daemon: afterwards every array is what it was, nothing is mapped, exported
 * or held there that the program does not have, and nothing is used after it has gone (AddressSanitizer).
 */
#include "client/fusion.h"

#include <signal.h>
#include <sys/mman.h>

#include "client/context.h"
#include "tests/fake_context.h"

enum {
	ELEMENTS = 3,
	TIMEOUT_MS = 700,
	LATE_MS = 50,
	A_MOMENT_US = 20000,
	/* Calls until what was given up is taken back: two by a ring, some more by nng. More than that are never needed. */
	CALLS_MOST = 1000,
	STEPS_MOST = 40,     /* more than any call makes requests */
};

static fusion_array *x, *other;
static struct fusion_token token;     /* of `other` */

static void arrays_begin(void) {
	x = vector(ELEMENTS, 0);
	other = vector(ELEMENTS, 5);
	ck_assert_msg(!fusion_export(other, FUSION_SHARE_READ_WRITE, 0, &token), "%s", fusion_error());
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
}

static void arrays_end(void) {
	fusion_release(x);
	fusion_release(other);
}

/* ---- the calls: 0, or the error's code ---- */

static int code_of(fusion_array *made) {
	int code = made ? 0 : fusion_error_code();

	fusion_release(made);
	return code;
}

static int code_of_text(char *text) {
	int code = text ? 0 : fusion_error_code();

	free(text);
	return code;
}

static int call_read(void) {
	float back[ELEMENTS];
	fusion_array *y = fusion_exp(x);
	int code = fusion_read(y, back, sizeof back);

	fusion_release(y);
	return code;
}

static int call_read_x(void) {
	float back[ELEMENTS];

	return fusion_read(x, back, sizeof back);
}

static int call_wait(void) {
	fusion_array *y = fusion_exp(x);
	int code = fusion_wait(y);

	fusion_release(y);
	return code;
}

static int call_sync(void) {
	fusion_array *y = fusion_exp(x);
	int code = fusion_sync(context);

	fusion_release(y);
	return code;
}

static int map_of(fusion_array *a, enum fusion_map_mode mode) {
	void *memory;
	int code = fusion_map(a, mode, &memory);

	return code ? code : fusion_unmap(a);
}

static int call_map_to_read(void) {
	return map_of(x, FUSION_MAP_READ);
}

static int call_map_to_write(void) {
	return map_of(x, FUSION_MAP_WRITE);
}

static int call_map_what_was_not_sent(void) {
	fusion_array *y = fusion_exp(x);
	int code = map_of(y, FUSION_MAP_WRITE);

	fusion_release(y);
	return code;
}

static int call_map_shared(void) {
	return map_of(other, FUSION_MAP_WRITE);
}

static int revoked(int code, const struct fusion_token *t) {
	return code ? code : fusion_revoke(context, t);
}

static int call_export(void) {
	fusion_array *y = fusion_exp(x);
	struct fusion_token t;
	int code = revoked(fusion_export(y, FUSION_SHARE_READ, 0, &t), &t);

	fusion_release(y);
	return code;
}

static int call_export_again(void) {
	struct fusion_token t;

	return revoked(fusion_export(other, FUSION_SHARE_READ, 0, &t), &t);
}

static int call_import(void) {
	return code_of(fusion_import(context, &token));
}

static int call_capture(void) {
	fusion_capture *capture = NULL;
	fusion_array *y, *z = NULL;
	int code = fusion_capture_begin(context, 1, &x);

	if (code)
		return code;
	y = fusion_exp(x);
	capture = y ? fusion_capture_end(context, 1, &y) : NULL;
	code = capture ? fusion_replay(capture, &x, &z) : fusion_error_code();
	if (capture && !code)
		code = call_read();
	fusion_release(z);
	fusion_release(y);
	fusion_capture_free(capture);
	return code;
}

static int call_future(void) {
	float back[ELEMENTS];
	fusion_future *future = fusion_read_begin(x, back, sizeof back);

	return future ? fusion_future_finish(future) : fusion_error_code();
}

static int call_explain(void) {
	fusion_array *y = fusion_exp(x);
	int code = code_of_text(fusion_explain(context, 1, &y, 0));

	fusion_release(y);
	return code;
}

static int call_stats(void) {
	return code_of_text(fusion_stats(context, false));
}

static int call_can_fuse(void) {
	fusion_array *y = fusion_exp(x), *z = fusion_neg(y);
	int code = fusion_can_fuse(context, y, z, 0, NULL, NULL) < 0 ? fusion_error_code() : 0;

	fusion_release(y);
	fusion_release(z);
	return code;
}

static int call_configure(void) {
	return fusion_configure(context, "fusion.enabled", "1");
}

static int call_operation(void) {
	return code_of(fusion_call(context, "swish3", 1, &x, NULL));
}

static int call_pattern(void) {
	int code = fusion_define_pattern(context, "twice_(a)", "a + a", false);

	return code ? code : fusion_forget_pattern(context, "twice_", false);
}

/* More batches than may be unanswered. */
static int call_many(void) {
	int code = 0;

	for (int i = 0; !code && i < 2 * LIMIT_UNANSWERED; i++) {
		fusion_array *y = fusion_exp(x);

		code = y ? fusion_flush(context) : fusion_error_code();
		fusion_release(y);
	}
	return code ? code : fusion_sync(context);
}

static const struct {
	const char *name;
	int (*call)(void);
} calls[] = {
	{ "read", call_read },
	{ "wait", call_wait },
	{ "sync", call_sync },
	{ "map to read", call_map_to_read },
	{ "map to write", call_map_to_write },
	{ "map what was not sent", call_map_what_was_not_sent },
	{ "map a shared array", call_map_shared },
	{ "export", call_export },
	{ "export once more", call_export_again },
	{ "import", call_import },
	{ "capture and replay", call_capture },
	{ "future", call_future },
	{ "explain", call_explain },
	{ "stats", call_stats },
	{ "can_fuse", call_can_fuse },
	{ "configure", call_configure },
	{ "an operation of the daemon", call_operation },
	{ "a pattern", call_pattern },
	{ "many batches", call_many },
};

enum { CALLS = sizeof calls / sizeof *calls };

/* ---- giving up ---- */

static bool is_holding(void) {
	return atomic_load(&fake.holding);
}

/* Has the daemon something that was given up? */
static bool is_owed(void) {
	bool owed;

	pthread_mutex_lock(&fake.lock);
	owed = fake.tokens != 1 || fake.mapped || *fake.pattern;
	pthread_mutex_unlock(&fake.lock);
	return owed;
}

/* All arrays are there, may be written and given to others, and so may new ones. */
static void everything_goes_on(const char *name, unsigned step) {
	float back[ELEMENTS];
	struct fusion_token t;
	fusion_array *y;

	ck_assert_msg(!fusion_read(x, back, sizeof back), "%s, request %u: %s", name, step, fusion_error());
	ck_assert(back[0] == 0 && back[2] == 2);
	ck_assert_msg(!map_of(x, FUSION_MAP_WRITE), "%s, request %u: %s", name, step, fusion_error());
	ck_assert_msg(!map_of(other, FUSION_MAP_WRITE), "%s, request %u: %s", name, step, fusion_error());
	y = fusion_add(x, other);
	ck_assert_msg(!fusion_export(y, FUSION_SHARE_READ, 0, &t), "%s, request %u: %s", name, step, fusion_error());
	ck_assert(!fusion_revoke(context, &t));
	fusion_release(y);
	ck_assert_msg(!call_capture(), "%s, request %u: %s", name, step, fusion_error());
	ck_assert_msg(!fusion_sync(context), "%s, request %u: %s", name, step, fusion_error());
	/* Each answer is read before the next one's call ends; by nng's own threads somewhat later. */
	for (int i = 0; i < 2 || (is_owed() && i < CALLS_MOST); i++) {
		while (fake_unanswered())
			usleep(A_MOMENT_US);
		ck_assert(!call_stats());
	}
	while (fake_unanswered())
		usleep(A_MOMENT_US);
	ck_assert_msg(fake.tokens == 1, "%s, request %u: %u tokens", name, step, fake.tokens);
	ck_assert_msg(!fake.mapped, "%s, request %u: %u mapped", name, step, fake.mapped);
	ck_assert_msg(!*fake.pattern, "%s, request %u: pattern %s", name, step, fake.pattern);
}

static void *let_go_soon(void *unused) {
	usleep(A_MOMENT_US);
	fake_let_go();
	return unused;
}

/* The call with its nth request unanswered until it was given up, or until something else is asked; false where it makes fewer. */
static bool given_up_at(unsigned which, unsigned nth, bool late) {
	const char *name = calls[which].name;
	pthread_t thread;
	bool held;
	int code;

	open_context();
	arrays_begin();
	fusion_on_wait(is_holding);
	fake_hold(nth);
	code = calls[which].call();
	fusion_on_wait(NULL);
	held = is_holding();
	ck_assert_msg(!code || (held && code == FUSION_E_CANCELLED), "%s, request %u: %s", name, nth, fusion_error());
	fusion_error_clear();
	if (late)
		pthread_create(&thread, NULL, let_go_soon, NULL);
	else
		fake_let_go();
	everything_goes_on(name, nth);
	if (late)
		pthread_join(thread, NULL);
	arrays_end();
	close_context();
	return held;
}

/* The call's first request stays unanswered until it was given up. */
static void give_up(int (*call)(void)) {
	fusion_on_wait(is_holding);
	fake_hold(1);
	ck_assert_int_eq(call(), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
	fusion_error_clear();
	fake_let_go();
}

static struct fusion_context *inside(void) {
	return (struct fusion_context *)object_find(OBJECT_CONTEXT, context);
}

/* The same, with the time of the call over; on a busy machine perhaps at another request, before that. */
static bool late_at(unsigned which, unsigned nth) {
	const char *name = calls[which].name;
	bool held;
	int code;

	open_context();
	arrays_begin();
	fake_hold(nth);
	inside()->stream.timeout_ms = inside()->door.timeout_ms = LATE_MS;
	code = calls[which].call();
	inside()->stream.timeout_ms = inside()->door.timeout_ms = 0;
	held = is_holding();
	ck_assert_msg(!code || code == FUSION_E_CONNECT, "%s, request %u: %s", name, nth, fusion_error());
	fusion_error_clear();
	fake_let_go();
	everything_goes_on(name, nth);
	arrays_end();
	close_context();
	return held || code;
}

static void *end_what_waits(void *unused) {
	while (!is_holding() && !atomic_load(&fake.stopping))
		usleep(1000);
	if (is_holding())
		fake_goes();
	return unused;
}

/* The daemon ends with the nth request unanswered, and no other comes. */
static bool ended_at(unsigned which, unsigned nth) {
	pthread_t thread;
	bool held;
	int code;

	open_context();
	inside()->door.return_ms = 1;
	arrays_begin();
	fake_hold(nth);
	pthread_create(&thread, NULL, end_what_waits, NULL);
	code = calls[which].call();
	held = is_holding();
	/* Nobody waits for the answer to an unmap; what the door was asked before is answered. */
	ck_assert_msg(held || !code, "%s, request %u: %s", calls[which].name, nth, fusion_error());
	fusion_error_clear();
	arrays_end();
	fusion_close(context);
	fake_stop();
	pthread_join(thread, NULL);
	return held;
}

static void *close_what_waits(void *unused) {
	while (!is_holding() && !atomic_load(&fake.stopping))
		usleep(1000);
	if (is_holding())
		fusion_close(context);
	return unused;
}

static bool closed_at(unsigned which, unsigned nth) {
	pthread_t thread;
	bool held;
	int code;

	open_context();
	arrays_begin();
	fake_hold(nth);
	pthread_create(&thread, NULL, close_what_waits, NULL);
	code = calls[which].call();
	held = fake_held();
	ck_assert_msg(!code || held, "%s, request %u: %s", calls[which].name, nth, fusion_error());
	fake_let_go();
	if (!held) {
		fusion_error_clear();
		arrays_end();
		fusion_close(context);
	}
	fake_stop();
	pthread_join(thread, NULL);
	fusion_error_clear();
	if (held)
		arrays_end();
	ck_assert_str_eq(fake.problem, "");
	return held;
}

START_TEST(what_is_given_up_is_taken_back) {
	unsigned nth = 1;

	for (; nth < STEPS_MOST && given_up_at((unsigned)_i, nth, false); nth++)
		given_up_at((unsigned)_i, nth, true);
	ck_assert_uint_gt(nth, 1);
	ck_assert_uint_lt(nth, STEPS_MOST);
	printf("note: %s: given up at each of %u requests\n", calls[_i].name, nth - 1);
}
END_TEST

START_TEST(what_is_late_is_taken_back) {
	unsigned nth = 1;

	while (nth < STEPS_MOST && late_at((unsigned)_i, nth))
		nth++;
	ck_assert_uint_gt(nth, 1);
	ck_assert_uint_lt(nth, STEPS_MOST);
}
END_TEST

START_TEST(the_daemon_may_end_at_every_wait) {
	unsigned nth = 1;

	while (nth < STEPS_MOST && ended_at((unsigned)_i, nth))
		nth++;
	ck_assert_uint_gt(nth, 1);
	ck_assert_uint_lt(nth, STEPS_MOST);
}
END_TEST

START_TEST(each_is_taken_back_once_whatever_was_before_it) {
	open_context();
	arrays_begin();
	for (unsigned turn = 0; turn < 4; turn++) {
		give_up(call_map_to_write);
		everything_goes_on("map to write", turn);
		give_up(call_export_again);
		everything_goes_on("export once more", turn);
	}
	arrays_end();
	close_context();
}
END_TEST

START_TEST(a_context_may_be_closed_beside_every_wait) {
	unsigned nth = 1;

	while (nth < STEPS_MOST && closed_at((unsigned)_i, nth))
		nth++;
	ck_assert_uint_gt(nth, 1);
}
END_TEST

START_TEST(a_map_that_timed_out_is_taken_back) {
	void *memory;
	int code;

	open_context();
	arrays_begin();
	fake_hold(1);
	/* Of this one call: a busy machine takes longer for others. */
	((struct fusion_context *)object_find(OBJECT_CONTEXT, context))->stream.timeout_ms = TIMEOUT_MS;
	code = fusion_map(x, FUSION_MAP_WRITE, &memory);
	((struct fusion_context *)object_find(OBJECT_CONTEXT, context))->stream.timeout_ms = 0;
	ck_assert_int_eq(code, FUSION_E_CONNECT);
	expect_error(FUSION_E_CONNECT, "700 ms");
	fake_let_go();
	everything_goes_on("map", 1);
	arrays_end();
	close_context();
}
END_TEST

static void *sync_once(void *code) {
	*(int *)code = fusion_sync(context);
	return NULL;
}

START_TEST(a_context_may_be_closed_beside_threads_that_wait) {
	enum { THREADS = 6 };
	pthread_t thread[THREADS];
	int code[THREADS];
	unsigned before;
	fusion_array *y;

	open_context();
	arrays_begin();
	before = fake_requests(REQUEST_WAIT);
	fake_pause(true);
	/* So that there is something to wait for. */
	y = fusion_exp(x);
	ck_assert(!fusion_flush(context));
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, sync_once, &code[i]);
	/* Who enters later would use what is closed. */
	while (fake_requests(REQUEST_WAIT) < before + THREADS)
		usleep(A_MOMENT_US);
	fusion_close(context);
	fusion_release(y);
	arrays_end();
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		ck_assert_int_ne(code[i], 0);
	}
	fusion_error_clear();
	fake_pause(false);
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}
END_TEST

/* ---- closed by another thread, at a moment that only luck would find ---- */

static void *close_now(void *unused) {
	fusion_close(context);
	return unused;
}

static void close_from_another_thread(void) {
	pthread_t thread;

	pthread_create(&thread, NULL, close_now, NULL);
	pthread_join(thread, NULL);
}

static bool is_waited_for(struct fusion_context *c) {
	bool busy;

	pthread_mutex_lock(&c->lock);
	busy = c->stream.busy;
	pthread_mutex_unlock(&c->lock);
	return busy;
}

static struct fusion_context *own_context;

/* Asked by the thread that waits: when it looks again it has its answer, and no context. */
static bool answer_and_close(void) {
	static atomic_bool once;

	if (atomic_load(&once) || !is_holding())
		return false;
	atomic_store(&once, true);
	fake_let_go();
	while (is_waited_for(own_context))
		usleep(1000);
	close_from_another_thread();
	return false;
}

/* The library's own thread reads answers from here on. */
static void watch_answers(void) {
	float back[ELEMENTS];

	ck_assert(!fusion_future_finish(fusion_read_begin(x, back, sizeof back)));
}

START_TEST(what_came_just_before_the_end_of_the_context_is_no_success) {
	static int (*const call[])(void) = { call_read_x, call_map_to_read, call_map_to_write };
	int code;

	open_context();
	arrays_begin();
	watch_answers();
	own_context = (struct fusion_context *)object_find(OBJECT_CONTEXT, context);
	fusion_on_wait(answer_and_close);
	fake_hold(1);
	code = call[_i]();
	fusion_on_wait(NULL);
	ck_assert_int_eq(code, FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "the context was closed");
	arrays_end();
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}
END_TEST

enum { LARGE_ELEMENTS = 1 << 18 };

static void *target;
static size_t target_bytes;

/* The copy met its first page. */
static void close_while_copying(int signal) {
	(void)signal;
	close_from_another_thread();
	if (mprotect(target, target_bytes, PROT_READ | PROT_WRITE))
		_exit(1);
}

START_TEST(what_is_copied_while_the_context_ends_is_no_success) {
	struct sigaction before, sa = { .sa_handler = close_while_copying };
	fusion_array *large;
	int code;

	open_context();
	large = vector(LARGE_ELEMENTS, 1);
	target_bytes = LARGE_ELEMENTS * sizeof(float);
	target = mmap(NULL, target_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(target, MAP_FAILED);
	ck_assert(!sigaction(SIGSEGV, &sa, &before));
	code = fusion_read(large, target, target_bytes);
	ck_assert(!sigaction(SIGSEGV, &before, NULL));
	ck_assert_int_eq(code, FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "the context was closed");
	fusion_release(large);
	munmap(target, target_bytes);
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}
END_TEST

int main(void) {
	Suite *suite = suite_create("client_given_up");
	TCase *tcase = tcase_create("given up");

	tcase_set_timeout(tcase, TEST_TIMEOUT_SECONDS);
	tcase_add_loop_test(tcase, what_is_given_up_is_taken_back, 0, CALLS);
	tcase_add_loop_test(tcase, a_context_may_be_closed_beside_every_wait, 0, CALLS);
	tcase_add_loop_test(tcase, what_is_late_is_taken_back, 0, CALLS);
	tcase_add_loop_test(tcase, the_daemon_may_end_at_every_wait, 0, CALLS);
	tcase_add_test(tcase, each_is_taken_back_once_whatever_was_before_it);
	tcase_add_test(tcase, a_map_that_timed_out_is_taken_back);
	tcase_add_test(tcase, a_context_may_be_closed_beside_threads_that_wait);
	tcase_add_loop_test(tcase, what_came_just_before_the_end_of_the_context_is_no_success, 0, 3);
	tcase_add_test(tcase, what_is_copied_while_the_context_ends_is_no_success);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}

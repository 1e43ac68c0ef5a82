/*
 * What an engine had not begun when it ended is run by the next one, without a word to the program; what it had begun is not, nor what is behind it.
 */
#include <signal.h>

#include "tests/busy.h"
#include "tests/suite.h"

enum {
	ELEMENTS = 1000,
	TEST_SECONDS = 300,
	FRAMES = 40,
};

static fusion_context *context;
static char gate[96], faults[96];

static double engine_number(const char *name) {
	cJSON *json = door_status();
	double value = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), name)->valuedouble;

	cJSON_Delete(json);
	return value;
}

/* Returns once the supervisor knows that it is gone. */
static void await_end(double before) {
	for (int i = 0; i < START_TRIES && engine_number("ended") == before; i++)
		usleep(20000);
	ck_assert(engine_number("ended") > before);
}

static void kill_engine(void) {
	double before = engine_number("ended");

	ck_assert_int_eq(kill((pid_t)engine_number("pid"), SIGKILL), 0);
	await_end(before);
}

/* Kernels with exp in them are not built before open_gate(). */
static void close_gate(void) {
	file_appears(gate, "");
}

static void open_gate(void) {
	ck_assert_int_eq(unlink(gate), 0);
}

/* Returns once the engine has accepted all that was sent. */
static void await_accepted(fusion_context *c) {
	char *text = fusion_stats(c, false);

	ck_assert_msg(text != NULL, "%s", fusion_error());
	free(text);
}

static fusion_array *numbers(fusion_context *c, float first) {
	float value[ELEMENTS];
	int64_t n = ELEMENTS;

	for (int i = 0; i < ELEMENTS; i++)
		value[i] = first + (float)i * 0.0037F;
	return fusion_from(c, FUSION_F32, 1, &n, value);
}

static void read_all(fusion_array *a, float *value) {
	ck_assert_msg(!fusion_read(a, value, ELEMENTS * sizeof *value), "%s", fusion_error());
}

static void flush(fusion_context *c) {
	ck_assert_msg(!fusion_flush(c), "%s", fusion_error());
}

/* ---- begin and end ---- */

static void begin(void) {
	static char library[300];
	const char *environment[2] = { library, NULL };

	snprintf(gate, sizeof gate, "%s/gate", folder);
	snprintf(faults, sizeof faults, "%s/fault", folder);
	snprintf(library, sizeof library, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	setenv("FUSION_INTERPOSE_COMPILER", "hold:op_exp", 1);
	setenv("FUSION_INTERPOSE_GATE", gate, 1);
	setenv("FUSION_INTERPOSE_FAULTS", faults, 1);
	/* What the engine has and the driver had: each test is the first to build. */
	daemon_start_again("fusion.enabled=no", environment);
	context = connect_client();
}

static void begin_by_nng(void) {
	setenv("FUSION_TRANSPORT", "nng", 1);
	begin();
	unsetenv("FUSION_TRANSPORT");
}

static void end(void) {
	char command[128];

	unlink(gate);
	fusion_close(context);
	daemon_end();
	snprintf(command, sizeof command, "rm -rf %s/cache", folder);
	ck_assert_int_eq(system(command), 0);
}

/* ---- claims ---- */

/* The engine stands still, so it has not heard of what is sent then. */
START_TEST(what_was_not_heard_of_is_run_by_the_next_engine) {
	float value[ELEMENTS], expected[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a), *c, *d;
	pid_t engine;

	read_all(b, expected);
	engine = stop_engine();
	c = fusion_square(b);
	flush(context);
	fusion_release(b);
	d = fusion_add(c, a);
	fusion_release(a);
	flush(context);
	fusion_release(c);
	ck_assert_int_eq(kill(engine, SIGKILL), 0);
	read_all(d, value);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq(value[i], expected[i] * expected[i] - expected[i]);
	fusion_release(d);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	ck_assert_double_ge(stat_of(context, "batches_repeated"), 2);
	expect_back(context, "arrays", 0);
}
END_TEST

/* Accepted, and waiting for a kernel; operands were released meanwhile, and their places are others' by now. */
START_TEST(what_waits_for_a_kernel_is_run_by_the_next_engine) {
	float value[ELEMENTS], expected[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a), *c, *d, *e, *f, *again;

	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	close_gate();
	c = fusion_exp(b);
	flush(context);
	fusion_release(b);
	d = fusion_add(c, a);
	fusion_release(c);
	flush(context);
	/* Goes to the place of b, and later ones to those of c and a. */
	e = numbers(context, 3);
	f = fusion_mul(d, e);
	fusion_release(a);
	flush(context);
	fusion_release(d);
	fusion_release(e);
	again = numbers(context, 5);
	flush(context);
	await_accepted(context);
	kill_engine();
	open_gate();
	read_all(f, value);
	read_all(again, expected);
	ck_assert_float_eq(expected[0], 5);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	ck_assert_double_ge(stat_of(context, "batches_repeated"), 4);
	/* The same undisturbed. */
	a = numbers(context, 1);
	b = fusion_neg(a);
	c = fusion_exp(b);
	d = fusion_add(c, a);
	e = numbers(context, 3);
	fusion_release(again);
	again = fusion_mul(d, e);
	read_all(again, expected);
	ck_assert_int_eq(memcmp(value, expected, sizeof value), 0);
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
	fusion_release(d);
	fusion_release(e);
	fusion_release(f);
	fusion_release(again);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	expect_back(context, "arrays", 0);
}
END_TEST

/* Once more, while it is being repeated; and what was done before is done once. */
START_TEST(it_outlives_several_engines) {
	float value[ELEMENTS], before[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a), *c[FRAMES];

	read_all(b, before);
	close_gate();
	for (int i = 0; i < FRAMES; i++) {
		fusion_array *e = fusion_exp(i ? c[i - 1] : b);

		c[i] = fusion_log(e);
		fusion_release(e);
		flush(context);
	}
	for (int i = 0; i < 2; i++) {
		await_accepted(context);
		kill_engine();
	}
	open_gate();
	read_all(c[FRAMES - 1], value);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq_tol(value[i], before[i], 1e-3F);
	for (int i = 0; i < FRAMES; i++)
		fusion_release(c[i]);
	fusion_release(a);
	fusion_release(b);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	expect_back(context, "arrays", 0);
}
END_TEST

static fusion_capture *record(fusion_array *in, fusion_array *(*inside)(fusion_array *a)) {
	fusion_array *x, *y;
	fusion_capture *p;

	ck_assert_msg(!fusion_capture_begin(context, 1, &in), "%s", fusion_error());
	x = fusion_exp(in);
	y = inside(x);
	p = fusion_capture_end(context, 1, &y);
	ck_assert_msg(p != NULL, "%s", fusion_error());
	fusion_release(x);
	fusion_release(y);
	return p;
}

/* The second graph has the number of the first, which is gone when its replay is repeated. */
START_TEST(replays_are_repeated_with_their_graphs) {
	float first[ELEMENTS], second[ELEMENTS], value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *x, *y, *z;
	fusion_capture *p;

	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	close_gate();
	p = record(a, fusion_neg);
	ck_assert_msg(!fusion_replay(p, &a, &x), "%s", fusion_error());
	fusion_capture_free(p);
	p = record(a, fusion_square);
	ck_assert_msg(!fusion_replay(p, &a, &y), "%s", fusion_error());
	await_accepted(context);
	kill_engine();
	open_gate();
	read_all(x, first);
	read_all(y, second);
	ck_assert_msg(!fusion_replay(p, &a, &z), "%s", fusion_error());
	read_all(z, value);
	ck_assert_int_eq(memcmp(value, second, sizeof value), 0);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq(first[i] * first[i], second[i]);
	fusion_capture_free(p);
	fusion_release(a);
	fusion_release(x);
	fusion_release(y);
	fusion_release(z);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	expect_back(context, "arrays", 0);
}
END_TEST

static int code_of(fusion_array *a) {
	float value[ELEMENTS];

	return fusion_read(a, value, sizeof value);
}

static void expect_code(fusion_array *a, int code, const char *sentence) {
	int is = code_of(a);

	ck_assert_msg(is == code, "%s, not %s: %s", fusion_code_name(is), fusion_code_name(code), is ? fusion_error() : "");
	ck_assert_msg(strstr(fusion_error(), sentence) != NULL, "%s", fusion_error());
}

/* The engine that stop_engine() has stopped goes on, and ends with the first launch. */
static void end_at_launch(pid_t engine) {
	double before = engine_number("ended");
	char path[128];

	snprintf(path, sizeof path, "%s.launch", faults);
	file_appears(path, "abort");
	ck_assert_int_eq(kill(engine, SIGCONT), 0);
	await_end(before);
}

START_TEST(what_the_device_had_is_not_repeated_nor_what_is_behind_it) {
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a), *c, *d;
	pid_t engine;

	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	engine = stop_engine();
	c = fusion_square(b);
	flush(context);
	d = fusion_abs(a);
	flush(context);
	end_at_launch(engine);
	expect_code(c, FUSION_E_UNKNOWN, "square");
	expect_code(d, FUSION_E_REPEATABLE, "abs");
	ck_assert_double_eq(stat_of(context, "batches_repeated"), 0);
	/* The program does. */
	fusion_release(d);
	d = fusion_abs(a);
	ck_assert_msg(!code_of(d), "%s", fusion_error());
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
	fusion_release(d);
}
END_TEST

/* Of two sessions with one graph the engine has that of one, and ends. */
START_TEST(a_graph_that_may_have_ended_an_engine_is_not_repeated) {
	fusion_context *other = connect_client(), *of[] = { context, other };
	fusion_array *a[2], *b[2];
	unsigned unknown = 0;
	pid_t engine;

	for (int i = 0; i < 2; i++) {
		ck_assert_msg(!fusion_configure(of[i], "fusion.together", "no"), "%s", fusion_error());
		a[i] = numbers(of[i], 1);
		ck_assert_msg(!fusion_sync(of[i]), "%s", fusion_error());
	}
	engine = stop_engine();
	for (int i = 0; i < 2; i++) {
		b[i] = fusion_square(a[i]);
		flush(of[i]);
	}
	end_at_launch(engine);
	for (int i = 0; i < 2; i++) {
		int code = code_of(b[i]);

		unknown += code == FUSION_E_UNKNOWN;
		ck_assert_msg(code == FUSION_E_UNKNOWN || (code == FUSION_E_REPEATABLE && strstr(fusion_error(), "had this graph")), "%s: %s",
			fusion_code_name(code), fusion_error());
		fusion_release(a[i]);
		fusion_release(b[i]);
	}
	ck_assert_uint_eq(unknown, 1);
	fusion_close(other);
}
END_TEST

/* Sent, and waiting for its kernel until open_gate(). */
static fusion_array *held_exp(fusion_array *a) {
	fusion_array *b;

	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	close_gate();
	b = fusion_exp(a);
	flush(context);
	return b;
}

/* It would be run under another one. */
START_TEST(what_was_asked_for_under_another_setting_is_not_repeated) {
	fusion_array *a = numbers(context, 1), *b = held_exp(a), *c;
	pid_t engine;

	ck_assert_msg(!fusion_configure(context, "fusion.weight", "77"), "%s", fusion_error());
	kill_engine();
	expect_code(b, FUSION_E_REPEATABLE, "exp");
	open_gate();
	engine = stop_engine();
	c = fusion_neg(a);
	flush(context);
	ck_assert_int_eq(kill(engine, SIGKILL), 0);
	ck_assert_msg(!code_of(c), "%s", fusion_error());
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
}
END_TEST

/* What does not fit is not repeated, and nothing behind it. */
START_TEST(no_more_is_kept_than_the_limit_says) {
	fusion_array *a, *c[FRAMES];
	fusion_context *small;

	setenv("FUSION_REPEAT_BYTES", "3000", 1);
	small = connect_client();
	unsetenv("FUSION_REPEAT_BYTES");
	a = numbers(small, 1);
	ck_assert_msg(!fusion_sync(small), "%s", fusion_error());
	close_gate();
	for (int i = 0; i < FRAMES; i++) {
		c[i] = fusion_exp(i ? c[i - 1] : a);
		flush(small);
	}
	await_accepted(small);
	kill_engine();
	open_gate();
	for (int i = 0; i < FRAMES; i++) {
		expect_code(c[i], FUSION_E_REPEATABLE, "exp");
		fusion_release(c[i]);
	}
	ck_assert_msg(!code_of(a), "%s", fusion_error());
	fusion_release(a);
	fusion_close(small);
}
END_TEST

/* What was cancelled stays so. */
START_TEST(what_was_cancelled_is_not_repeated) {
	fusion_array *a = numbers(context, 1), *b = held_exp(a);

	ck_assert_msg(!fusion_cancel(context), "%s", fusion_error());
	kill_engine();
	open_gate();
	ck_assert_int_ne(code_of(b), 0);
	ck_assert_double_eq(stat_of(context, "batches_repeated"), 0);
	ck_assert_msg(!code_of(a), "%s", fusion_error());
	fusion_release(a);
	fusion_release(b);
}
END_TEST

static void add_tests(TCase *t) {
	tcase_set_timeout(t, TEST_SECONDS);
	tcase_add_test(t, what_was_not_heard_of_is_run_by_the_next_engine);
	tcase_add_test(t, what_waits_for_a_kernel_is_run_by_the_next_engine);
	tcase_add_test(t, it_outlives_several_engines);
	tcase_add_test(t, replays_are_repeated_with_their_graphs);
}

int main(void) {
	char remove[128];
	int failed;
	Suite *s = suite_create("repeat");
	TCase *ring = tcase_create("by the ring"), *nng = tcase_create("by nng");

	tcase_add_checked_fixture(ring, begin, end);
	add_tests(ring);
	tcase_add_test(ring, what_the_device_had_is_not_repeated_nor_what_is_behind_it);
	tcase_add_test(ring, a_graph_that_may_have_ended_an_engine_is_not_repeated);
	tcase_add_test(ring, what_was_asked_for_under_another_setting_is_not_repeated);
	tcase_add_test(ring, no_more_is_kept_than_the_limit_says);
	tcase_add_test(ring, what_was_cancelled_is_not_repeated);
	suite_add_tcase(s, ring);
	tcase_add_checked_fixture(nng, begin_by_nng, end);
	add_tests(nng);
	suite_add_tcase(s, nng);
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	setenv("FUSIOND_DEVICE_MEASURE", "no", 1);
	snprintf(folder, sizeof folder, "/tmp/fusion-repeat-XXXXXX");
	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	failed = suite_run(s);
	snprintf(remove, sizeof remove, "rm -rf %s", folder);
	return system(remove) ? EXIT_FAILURE : failed;
}

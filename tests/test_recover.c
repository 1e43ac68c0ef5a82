/*
 * Engines that die under their clients: another one goes on with the sessions, arrays that were in shared memory are there
 * bit for bit, and what is not says why.
 *
 * Nothing is fused where that is not the point: a handful of kernels serves all of it.
 */
#include <signal.h>

#include "client/context.h"
#include "client/fusion.h"
#include "tests/daemon.h"
#include "tests/suite.h"

enum {
	ELEMENTS = 1000,
	TEST_SECONDS = 600,
};

static fusion_context *context;

static fusion_context *open_context(void) {
	const struct fusion_options options = { .name = "recover" };
	fusion_context *c;

	ck_assert_msg(!fusion_open(&c, &options), "%s", fusion_error());
	return c;
}

/* ---- the daemon, as STATUS tells of it ---- */

static double engine_number(const char *name) {
	char command[320], text[16384];
	cJSON *json;
	double value;
	size_t size;
	FILE *f;

	snprintf(command, sizeof command, "%s/fusionctl --socket %s status --json", build_folder(), door);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	size = fread(text, 1, sizeof text - 1, f);
	ck_assert_int_eq(pclose(f), 0);
	text[size] = 0;
	json = cJSON_Parse(text);
	ck_assert_msg(json != NULL, "%s", text);
	value = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), name)->valuedouble;
	cJSON_Delete(json);
	return value;
}

static void kill_engine(int signal) {
	pid_t pid = (pid_t)engine_number("pid");

	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(kill(pid, signal), 0);
}

/* ---- arrays ---- */

static fusion_array *numbers(fusion_context *c, float first) {
	float value[ELEMENTS];
	int64_t n = ELEMENTS;

	for (int i = 0; i < ELEMENTS; i++)
		value[i] = first + (float)i * 0.37F;
	return fusion_from(c, FUSION_F32, 1, &n, value);
}

static void read_all(fusion_array *a, float *value) {
	ck_assert_msg(!fusion_read(a, value, ELEMENTS * sizeof *value), "%s", fusion_error());
}

static void must_be(fusion_array *a, const float *expected) {
	float value[ELEMENTS];

	read_all(a, value);
	ck_assert_msg(!memcmp(value, expected, sizeof value), "%g is %g", (double)expected[1], (double)value[1]);
}

/* ---- begin and end ---- */

/* All tests have one folder, and so one cache of kernels. */
static void begin_with(const char *set) {
	daemon_start_again(set, NULL);
	context = open_context();
}

static void end(void) {
	fusion_close(context);
	daemon_end();
}

static void begin_by_ring(void) {
	begin_with("fusion.enabled=no");
}

static void begin_by_nng(void) {
	setenv("FUSION_TRANSPORT", "nng", 1);
	begin_with("fusion.enabled=no");
	unsetenv("FUSION_TRANSPORT");
}

/* ---- claims ---- */

START_TEST(arrays_in_shared_memory_outlive_the_engine) {
	float expected[ELEMENTS], uploaded[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_exp(a), *strided;
	int64_t back[] = { ELEMENTS / 10, 10 };

	read_all(b, expected);
	read_all(a, uploaded);
	strided = fusion_reshape(b, 2, back);
	ck_assert_int_eq(fusion_sync(context), 0);
	for (int i = 0; i < 3; i++) {
		fusion_array *next;

		kill_engine(SIGKILL);
		must_be(b, expected);
		must_be(a, uploaded);
		must_be(strided, expected);
		next = fusion_sub(fusion_add(b, a), a);
		ck_assert_ptr_nonnull(next);
		ck_assert_msg(!fusion_wait(next), "%s", fusion_error());
		fusion_release(next);
	}
	ck_assert_int_eq((int)engine_number("ended"), 3);
	fusion_release(strided);
	fusion_release(a);
	fusion_release(b);
}
END_TEST

/* The engine stands still, so it has not heard of what is sent then. */
START_TEST(what_was_not_begun_may_be_asked_for_again) {
	float expected[ELEMENTS], value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a), *c, *d;
	pid_t engine;

	read_all(b, expected);
	engine = stop_engine();
	(fusion_here)(__FILE__, __LINE__);
	c = fusion_square(b);
	ck_assert_int_eq(fusion_flush(context), 0);
	d = fusion_add(c, a);
	ck_assert_ptr_nonnull(d);
	ck_assert_int_eq(kill(engine, SIGKILL), 0);
	ck_assert_int_eq(fusion_read(c, value, sizeof value), FUSION_E_REPEATABLE);
	ck_assert_msg(strstr(fusion_error(), "square") != NULL, "%s", fusion_error());
	ck_assert_msg(strstr(fusion_error(), "test_recover.c:") != NULL, "%s", fusion_error());
	ck_assert_int_eq(fusion_read(d, value, sizeof value), FUSION_E_REPEATABLE);
	ck_assert_int_eq(fusion_sync(context), FUSION_E_REPEATABLE);
	ck_assert_int_eq(fusion_sync(context), 0);
	fusion_release(c);
	fusion_release(d);
	must_be(b, expected);
	c = fusion_square(b);
	read_all(c, value);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq(value[i], expected[i] * expected[i]);
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
}
END_TEST

/* Memory of uploads comes back, also of those that the daemon never heard of. */
START_TEST(memory_of_uploads_is_used_again) {
	float expected[ELEMENTS];
	fusion_array *kept = numbers(context, 5), *view;
	unsigned arenas = 0;

	for (int round = 0; round < 3; round++) {
		pid_t engine;

		for (int i = 0; i < 40; i++) {
			fusion_array *a = numbers(context, (float)i), *b = fusion_add(a, kept);

			fusion_release(a);
			read_all(b, expected);
			fusion_release(b);
		}
		if (!round)
			arenas = context->arenas.count;
		view = fusion_flip(kept, 1, (int[]){ 0 });
		ck_assert_int_eq(fusion_sync(context), 0);
		engine = stop_engine();
		fusion_release(numbers(context, 3));
		fusion_release(fusion_exp(kept));
		ck_assert_int_eq(fusion_flush(context), 0);
		ck_assert_int_eq(kill(engine, SIGKILL), 0);
		read_all(view, expected);
		for (int i = 0; i < ELEMENTS; i++)
			ck_assert_float_eq(expected[i], 5 + (float)(ELEMENTS - 1 - i) * 0.37F);
		fusion_release(view);
	}
	ck_assert_uint_le(context->arenas.count, arenas + 1);
	fusion_release(kept);
}
END_TEST

START_TEST(recorded_graphs_and_settings_are_the_next_engines_too) {
	float expected[ELEMENTS];
	fusion_array *a = numbers(context, 2), *in[] = { a }, *symbol, *out, *again;
	fusion_capture *capture;
	char *settings;

	ck_assert_msg(!fusion_capture_begin(context, 1, in), "%s", fusion_error());
	symbol = fusion_mul(a, a);
	capture = fusion_capture_end(context, 1, &symbol);
	ck_assert_msg(capture != NULL, "%s", fusion_error());
	fusion_release(symbol);
	ck_assert_int_eq(fusion_configure(context, "fusion.weight", "77"), 0);
	ck_assert_msg(!fusion_replay(capture, in, &out), "%s", fusion_error());
	read_all(out, expected);
	kill_engine(SIGSEGV);
	ck_assert_msg(!fusion_replay(capture, in, &again), "%s", fusion_error());
	must_be(again, expected);
	must_be(out, expected);
	settings = fusion_settings(context, false);
	ck_assert_msg(strstr(settings, "77") != NULL, "%s", settings);
	free(settings);
	fusion_release(again);
	fusion_release(out);
	fusion_release(a);
	fusion_capture_free(capture);
	ck_assert_int_eq(fusion_sync(context), 0);
}
END_TEST

int main(void) {
	char remove[128];
	int failed;
	Suite *s = suite_create("recover");
	TCase *ring = tcase_create("by the ring"), *nng = tcase_create("by nng");

	tcase_set_timeout(ring, TEST_SECONDS);
	tcase_add_checked_fixture(ring, begin_by_ring, end);
	tcase_add_test(ring, arrays_in_shared_memory_outlive_the_engine);
	tcase_add_test(ring, what_was_not_begun_may_be_asked_for_again);
	tcase_add_test(ring, memory_of_uploads_is_used_again);
	tcase_add_test(ring, recorded_graphs_and_settings_are_the_next_engines_too);
	suite_add_tcase(s, ring);
	tcase_set_timeout(nng, TEST_SECONDS);
	tcase_add_checked_fixture(nng, begin_by_nng, end);
	tcase_add_test(nng, arrays_in_shared_memory_outlive_the_engine);
	tcase_add_test(nng, what_was_not_begun_may_be_asked_for_again);
	suite_add_tcase(s, nng);
	/* What a new engine builds unasked would be most of the time. */
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	setenv("FUSIOND_DEVICE_MEASURE", "no", 1);
	snprintf(folder, sizeof folder, "/tmp/fusion-recover-XXXXXX");
	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	failed = suite_run(s);
	snprintf(remove, sizeof remove, "rm -rf %s", folder);
	return system(remove) ? EXIT_FAILURE : failed;
}

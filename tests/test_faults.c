/*
 * Engines that end at each stage of their work, in each way there is, with eight clients busy: what clients have is there bit for bit, what was under
 * way says what became of it, and everybody goes on. Stages are those of tests/faults/points.def, by which the engine that runs here was linked.
 *
 * A slice is part of make check; make check-faults takes all.
 */
#include <limits.h>
#include <signal.h>

#include "tests/busy.h"
#include "tests/slice.h"
#include "tests/suite.h"

enum {
	CLIENTS = 8,
	TEST_SECONDS = 600,
};

static const char *const stages[] = {
#define POINT(stage, result, function, parameters, arguments) #stage,
#include "tests/faults/points.def"
#undef POINT
};

static const char *const ways[] = { "abort", "crash", "kill", "hang" };

enum { STAGES = sizeof stages / sizeof *stages, WAYS = sizeof ways / sizeof *ways };

static fusion_context *context;
static char faults[96];

/* ---- the daemon ---- */

/* All tests have one folder, and so one cache of kernels. */
static void begin(void) {
	static char flag[PATH_MAX + 64], variable[128], build[PATH_MAX];
	const char *environment[2] = { flag, variable };

	ck_assert_ptr_nonnull(realpath(build_folder(), build));
	snprintf(faults, sizeof faults, "%s/fault", folder);
	snprintf(flag, sizeof flag, "FUSIOND_ENGINE_PATH=%s/tests/fusiond-engine-faults", build);
	snprintf(variable, sizeof variable, "FUSION_FAULTS=%s", faults);
	daemon_start_again("fusion.enabled=no", environment);
	context = connect_client();
}

static void end(void) {
	fusion_close(context);
	daemon_end();
}

static double engine_number(const char *name) {
	char text[STATUS_TEXT];
	double value = -1;
	cJSON *json = door_answer(text);

	if (json)
		value = cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), name));
	cJSON_Delete(json);
	return value;
}

/* ---- faults ---- */

static void arm(const char *stage, const char *way) {
	char path[128];

	snprintf(path, sizeof path, "%s.%s", faults, stage);
	file_appears(path, way);
}

static bool is_armed(const char *stage) {
	char path[128];

	snprintf(path, sizeof path, "%s.%s", faults, stage);
	return !access(path, F_OK);
}

static bool is_of_replacement(const char *stage) {
	return !strcmp(stage, "take_over") || !strcmp(stage, "recovery");
}

/* A graph that the engine has not seen, so that it is planned and its kernels are asked for. */
static void ask_for_something_new(fusion_array *a) {
	float value[BUSY_ELEMENTS];
	fusion_array *b = fusion_maximum(fusion_keep(a), a), *c = fusion_hypot(b, a);
	int code = fusion_read(c, value, sizeof value);

	ck_assert_msg(!code || lost_with_an_engine(code), "%s: %s", fusion_code_name(code), fusion_error());
	fusion_release(b);
	fusion_release(c);
	code = fusion_sync(context);
	ck_assert_msg(!code || lost_with_an_engine(code), "%s: %s", fusion_code_name(code), fusion_error());
}

START_TEST(an_engine_may_end_at_any_stage_in_any_way) {
	const char *stage = stages[_i / WAYS], *way = ways[_i % WAYS];
	float expected[BUSY_ELEMENTS], value[BUSY_ELEMENTS];
	fusion_array *mine = busy_numbers(context, 20);
	double before;

	ck_assert_msg(!fusion_read(mine, expected, sizeof expected), "%s", fusion_error());
	busy_begin(CLIENTS);
	before = engine_number("ended");
	arm(stage, way);
	if (is_of_replacement(stage))
		ck_assert_int_eq(kill((pid_t)engine_number("pid"), SIGKILL), 0);
	ask_for_something_new(mine);
	for (int i = 0; i < START_TRIES && (is_armed(stage) || engine_number("ended") < before + 1 + is_of_replacement(stage)); i++)
		usleep(50000);
	ck_assert_msg(!is_armed(stage), "nothing came to the stage %s", stage);
	ck_assert_msg(engine_number("ended") >= before + 1 + is_of_replacement(stage), "no engine ended at %s by %s", stage, way);
	busy_await(2);
	ask_for_something_new(mine);
	busy_end();
	ck_assert_msg(!fusion_read(mine, value, sizeof value), "%s", fusion_error());
	ck_assert_int_eq(memcmp(value, expected, sizeof value), 0);
	fusion_release(mine);
	/* Nothing of the others is left. */
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	expect_back(context, "sessions", 1);
}
END_TEST

int main(void) {
	Suite *s = suite_create("faults");
	TCase *matrix = tcase_create("matrix");
	char remove[128];
	int failed;

	tcase_set_timeout(matrix, TEST_SECONDS);
	tcase_add_checked_fixture(matrix, begin, end);
	tcase_add_slice_test(matrix, an_engine_may_end_at_any_stage_in_any_way, STAGES * WAYS);
	suite_add_tcase(s, matrix);
	/* What a new engine builds unasked would be most of the time. */
	setenv("FUSIOND_FUSION_INTERPRETER", "off", 1);
	setenv("FUSIOND_DEVICE_MEASURE", "no", 1);
	/* For who hangs; one that waits for a processor for so long is replaced, which is as good here. */
	setenv("FUSIOND_ENGINE_HANG_US", "5s", 1);
	/* Graphs of busy clients are under way whenever an engine ends. */
	setenv("FUSIOND_ENGINE_QUARANTINE_US", "0", 1);
	snprintf(folder, sizeof folder, "/tmp/fusion-faults-XXXXXX");
	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	failed = suite_run(s);
	snprintf(remove, sizeof remove, "rm -rf %s", folder);
	return system(remove) ? EXIT_FAILURE : failed;
}

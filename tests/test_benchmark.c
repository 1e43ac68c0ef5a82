/*
 * fusion_benchmark_pattern() on a daemon: each pattern is of a kernel that the planner makes, results of both forms have the same bits, the context that
 * asks is as it was, and what is too much, or makes no sense, is refused. Nothing is said of how fast anything is.
 *
 * Kernels run as bytecode and generic ones, so that none is built: tests/e2e/fusionctl.sh waits for some.
 */
#include <math.h>

#include "tests/daemon.h"
#include "tests/driver_cache.h"
#include "tests/suite.h"

enum {
	TEST_SECONDS = 300,
	SIZE = 16,
};

/* Short: a round of each form by each clock. */
#define SECONDS 0.01
/* Of the user: a benchmark of some arrays of 16 MiB is more. */
#define USER_BYTES "FUSIOND_LIMITS_USER_BYTES=64M"

static const struct fusion_benchmark_options brief = { .size = SIZE, .seconds = SECONDS };

static void start_without_builds(void) {
	const char *environment[2] = { "FUSIOND_FUSION_INTERPRETER=always", USER_BYTES };
	char cache[96];

	snprintf(folder, sizeof folder, "/tmp/fusion-benchmark-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(cache, sizeof cache, "%s/cache", folder);
	ck_assert(driver_cache_link(cache));
	daemon_start_again("device.measure=no", environment);
}

static cJSON *measure(fusion_context *c, const char *pattern, const struct fusion_benchmark_options *o) {
	char *text = fusion_benchmark_pattern(c, pattern, o);
	cJSON *json = text ? cJSON_Parse(text) : NULL;

	ck_assert_msg(json != NULL, "%s: %s", pattern, fusion_error());
	free(text);
	return json;
}

static double number_of(const cJSON *json, const char *name) {
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);

	ck_assert_msg(cJSON_IsNumber(item), "there is no %s", name);
	return item->valuedouble;
}

static void expect_clock(const cJSON *clock) {
	ck_assert_ptr_nonnull(clock);
	ck_assert_double_ge(number_of(clock, "rounds"), 1);
	ck_assert_double_gt(number_of(clock, "fused_us"), 0);
	ck_assert_double_ge(number_of(clock, "fused_median_us"), number_of(clock, "fused_us"));
	ck_assert_double_ge(number_of(clock, "unfused_median_us"), number_of(clock, "unfused_us"));
	ck_assert_double_eq_tol(number_of(clock, "speedup") * number_of(clock, "fused_us"), number_of(clock, "unfused_us"), 1e-6);
	ck_assert_double_eq_tol(number_of(clock, "median_speedup") * number_of(clock, "fused_median_us"), number_of(clock, "unfused_median_us"), 1e-6);
}

/* Those of two clocks, whatever they say. */
static void expect_times(const cJSON *json) {
	expect_clock(cJSON_GetObjectItemCaseSensitive(json, "wall"));
	expect_clock(cJSON_GetObjectItemCaseSensitive(json, "device"));
	ck_assert_double_gt(number_of(json, "launches"), 0);
}

static void expect_refusal(fusion_context *c, const char *pattern, const struct fusion_benchmark_options *o, int code, const char *sentence) {
	fusion_error_clear();
	ck_assert_ptr_null(fusion_benchmark_pattern(c, pattern, o));
	ck_assert_msg(fusion_error_code() == code, "%d: %s", fusion_error_code(), fusion_error());
	ck_assert_msg(strstr(fusion_error(), sentence) && !strncmp(fusion_error(), "benchmark_pattern: ", 19), "%s", fusion_error());
	ck_assert_msg(strstr(fusion_error(), "test_benchmark.c:") != NULL, "%s", fusion_error());
}

/* ---- what is measured ---- */

START_TEST(each_built_in_pattern_is_measured_on_a_kernel_of_it) {
	fusion_context *c = connect_client();
	char *text = fusion_patterns(c);
	cJSON *patterns = cJSON_Parse(text);
	const cJSON *one;

	ck_assert_int_gt(cJSON_GetArraySize(patterns), 0);
	cJSON_ArrayForEach(one, patterns) {
		const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "pattern"));
		cJSON *json = measure(c, name, &brief);

		ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "pattern")), name);
		ck_assert_msg(number_of(json, "kernels_of_pattern") >= 1, "%s", name);
		ck_assert_msg(number_of(json, "kernels") <= number_of(json, "unfused_kernels"), "%s", name);
		ck_assert_msg(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "same_bits")), "%s", name);
		expect_times(json);
		cJSON_Delete(json);
	}
	cJSON_Delete(patterns);
	free(text);
	fusion_close(c);
}
END_TEST

START_TEST(a_pattern_of_the_users_is_measured_with_his_types_and_switches) {
	const struct fusion_operand operand[] = { { FUSION_F64, 2, { 5, 7 } }, { FUSION_F64, 1, { 7 } } };
	const struct fusion_benchmark_options o = { .operands = 2, .operand = operand, .seconds = SECONDS };
	fusion_context *c = connect_client();
	const cJSON *second;
	cJSON *json;

	ck_assert_int_eq(fusion_define_pattern(c, "swish_here(x, beta)", "x * sigmoid(beta * x)", false), 0);
	json = measure(c, "swish_here", &o);
	second = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "operands"), 1);
	ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(second, "name")), "beta");
	ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(second, "type")), "f64[7]");
	ck_assert_double_eq(number_of(json, "kernels"), 1);
	ck_assert_double_eq(number_of(json, "unfused_kernels"), 3);
	ck_assert_double_eq(number_of(json, "kernels_of_pattern"), 1);
	cJSON_Delete(json);
	ck_assert_int_eq(fusion_configure(c, "fusion.pattern.swish_here", "off"), 0);
	json = measure(c, "swish_here", &brief);
	ck_assert_double_eq(number_of(json, "kernels_of_pattern"), 0);
	cJSON_Delete(json);
	/* The switch is there yet, its pattern is not. */
	ck_assert_int_eq(fusion_forget_pattern(c, "swish_here", false), 0);
	cJSON_Delete(measure(c, "binary_activation", &brief));
	fusion_close(c);
}
END_TEST

/* Not a NaN of one form and another one of the other, either. */
START_TEST(results_that_are_no_numbers_are_the_same_bits_too) {
	fusion_context *c = connect_client();
	cJSON *json;

	ck_assert_int_eq(fusion_define_pattern(c, "no_number(x, y)", "log(x - 2) * sqrt(y - 2)", false), 0);
	json = measure(c, "no_number", &brief);
	ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "same_bits")));
	cJSON_Delete(json);
	fusion_close(c);
}
END_TEST

START_TEST(what_a_pattern_says_for_any_axes_and_any_number_is_given) {
	fusion_context *c = connect_client();

	ck_assert_int_eq(fusion_define_pattern(c, "own_norm(x)", "d = x - mean(x, axes); d * rsqrt(mean(square(d), axes) + eps)", false), 0);
	cJSON_Delete(measure(c, "own_norm", &brief));
	fusion_close(c);
}
END_TEST

/* ---- the context that asks ---- */

static cJSON *clients_of(fusion_context *c) {
	char *text = fusion_inspect(c, FUSION_INSPECT_CLIENTS, 0, 0);
	cJSON *json = text ? cJSON_Parse(text) : NULL;

	ck_assert_msg(json != NULL, "%s", fusion_error());
	free(text);
	return json;
}

static int sessions_of(fusion_context *c) {
	cJSON *json = clients_of(c);
	int count = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "clients"));

	cJSON_Delete(json);
	return count;
}

/* The engine hears of the end of a session from the supervisor. */
static void expect_one_session(fusion_context *c) {
	for (int i = 0; i < START_TRIES && sessions_of(c) != 1; i++)
		usleep(100000);
	ck_assert_int_eq(sessions_of(c), 1);
}

START_TEST(the_context_that_asks_is_as_it_was) {
	fusion_context *c = connect_client();
	const int64_t dims[] = { 8 };
	fusion_array *x = fusion_full(c, FUSION_F32, 1, dims, 1), *y;
	char *before, *after;
	float element[8];

	ck_assert_int_eq(fusion_configure(c, "fusion.enabled", "no"), 0);
	ck_assert_int_eq(fusion_scope_begin(c), 0);
	y = fusion_keep(fusion_exp(x));
	before = fusion_settings(c, false);
	cJSON_Delete(measure(c, "linear", &brief));
	after = fusion_settings(c, false);
	ck_assert_str_eq(before, after);
	ck_assert_int_eq(fusion_error_code(), 0);
	ck_assert_int_eq(fusion_scope_end(c), 0);
	ck_assert_int_eq(fusion_read(y, element, sizeof element), 0);
	expect_one_session(c);
	free(before);
	free(after);
	fusion_release(x);
	fusion_release(y);
	fusion_close(c);
}
END_TEST

static unsigned events_of(fusion_context *c, uint64_t first, const char *kind, uint64_t *nextp) {
	char *text = fusion_inspect(c, FUSION_INSPECT_EVENTS, first, 0);
	cJSON *json = text ? cJSON_Parse(text) : NULL;
	const cJSON *one;
	unsigned count = 0;

	ck_assert_msg(json != NULL, "%s", fusion_error());
	free(text);
	cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(json, "events")) {
		count += !strcmp(cJSON_GetStringValue(cJSON_GetArrayItem(one, 0)), kind);
	}
	*nextp = (uint64_t)number_of(json, "next");
	cJSON_Delete(json);
	return count;
}

/* What times launches makes them dearer for all. */
START_TEST(launches_are_timed_no_longer_than_it_takes) {
	fusion_context *c = connect_client();
	const int64_t dims[] = { 8 };
	fusion_array *x = fusion_full(c, FUSION_F32, 1, dims, 1), *y;
	uint64_t next;

	cJSON_Delete(measure(c, "linear", &brief));
	expect_one_session(c);
	events_of(c, UINT64_MAX, "device", &next);
	y = fusion_exp(x);
	ck_assert_int_eq(fusion_wait(y), 0);
	ck_assert_uint_eq(events_of(c, next, "device", &next), 0);
	fusion_release(x);
	fusion_release(y);
	fusion_close(c);
}
END_TEST

START_TEST(what_is_recorded_meanwhile_goes_on) {
	fusion_context *c = connect_client();
	const int64_t dims[] = { 8 };
	fusion_array *x = fusion_full(c, FUSION_F32, 1, dims, 1), *y;
	fusion_capture *capture;

	ck_assert_int_eq(fusion_capture_begin(c, 0, NULL), 0);
	y = fusion_exp(x);
	cJSON_Delete(measure(c, "scalar_activation", &brief));
	capture = fusion_capture_end(c, 1, &y);
	ck_assert_msg(capture != NULL, "%s", fusion_error());
	fusion_capture_free(capture);
	fusion_release(x);
	fusion_release(y);
	fusion_close(c);
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_makes_no_sense_is_refused_with_a_reason) {
	static const struct fusion_operand two[] = { { FUSION_F32, 2, { 4, 4 } }, { FUSION_F32, 2, { 4, 4 } } };
	static const struct fusion_operand bad_rank[] = { { FUSION_F32, 9, { 4 } } }, empty[] = { { FUSION_F32, 2, { 4, 0 } } }, negative[] = { { FUSION_F32, 1, { -4 } } },
		bad_type[] = { { (enum fusion_dtype)77, 1, { 4 } } }, vast[] = { { FUSION_F32, 3, { INT64_MAX, INT64_MAX, 3 } } },
		unlike[] = { { FUSION_F32, 2, { 4, 4 } }, { FUSION_F32, 2, { 5, 4 } }, { FUSION_F32, 1, { 4 } } };
	fusion_context *c = connect_client();
#define REFUSED(pattern, code, sentence, ...) expect_refusal(c, pattern, &(struct fusion_benchmark_options){ __VA_ARGS__ }, FUSION_E_##code, sentence)

	expect_refusal(c, NULL, NULL, FUSION_E_ARGUMENT, "pattern is NULL");
	expect_refusal(c, "", NULL, FUSION_E_ARGUMENT, "there is no pattern ''");
	expect_refusal(c, "linera", NULL, FUSION_E_ARGUMENT, "do you mean linear?");
	REFUSED("linear", ARGUMENT, "the size is -1", .size = -1);
	REFUSED("linear", ARGUMENT, "the size is 99999", .size = 99999);
	REFUSED("linear", DTYPE, "77 is no element type", .dtype = (enum fusion_dtype)77);
	REFUSED("linear", ARGUMENT, "seconds is nan", .seconds = NAN);
	REFUSED("linear", ARGUMENT, "seconds is -1", .seconds = -1);
	REFUSED("linear", ARGUMENT, "seconds is 1e+09", .seconds = 1e9);
	REFUSED("linear", ARGUMENT, "operand NULL", .operands = 3);
	REFUSED("linear", ARGUMENT, "operands is -3", .operands = -3, .operand = two);
	REFUSED("linear", ARITY, "linear has 3 operands (x, w, b), not 2", .operands = 2, .operand = two);
	REFUSED("linear", ARITY, "not 2147483647", .operands = INT32_MAX, .operand = two);
	REFUSED("scalar_activation", RANK, "operand 0: rank 9", .operands = 1, .operand = bad_rank);
	REFUSED("scalar_activation", SHAPE, "operand 0: extent 0", .operands = 1, .operand = empty);
	REFUSED("scalar_activation", SHAPE, "operand 0: extent -4", .operands = 1, .operand = negative);
	REFUSED("scalar_activation", DTYPE, "operand 0: 77 is no element type", .operands = 1, .operand = bad_type);
	REFUSED("scalar_activation", LIMIT, "more than the 4 GiB", .operands = 1, .operand = vast);
	REFUSED("linear", SHAPE, "matmul of f32[4,4] and f32[5,4]", .operands = 3, .operand = unlike);
	REFUSED("linear", SHAPE, "benchmark_pattern: linear, column", .operands = 3, .operand = unlike);
	REFUSED("reduce_broadcast", DTYPE, "softmax", .dtype = FUSION_I32);
	expect_refusal(c, "linear", &(struct fusion_benchmark_options){ .reserved = { 1 } }, FUSION_E_VERSION, "begin with zeros");
	expect_one_session(c);
	cJSON_Delete(measure(c, "linear", &brief));
	fusion_close(c);
#undef REFUSED
}
END_TEST

/* By estimates, before anything of it has run: so many operations on so much take longer, however fast the device is. */
static int asked;

static bool stops_soon(void) {
	return ++asked > 3;
}

/* Its runs are too short for any of them to be asked in. */
START_TEST(who_waits_for_it_is_asked_whether_to_stop) {
	const struct fusion_benchmark_options long_one = { .size = SIZE, .seconds = TEST_SECONDS };
	fusion_context *c = connect_client();

	fusion_on_wait(stops_soon);
	ck_assert_ptr_null(fusion_benchmark_pattern(c, "binary_activation", &long_one));
	ck_assert_int_eq(fusion_error_code(), FUSION_E_CANCELLED);
	fusion_on_wait(NULL);
	cJSON_Delete(measure(c, "binary_activation", &brief));
	fusion_close(c);
}
END_TEST

START_TEST(what_would_take_too_long_is_refused_at_once) {
	fusion_context *c = connect_client();

	expect_refusal(c, "linear", &(struct fusion_benchmark_options){ .size = 1024, .seconds = 1e-6 }, FUSION_E_LIMIT, "it would take at least");
	expect_one_session(c);
	fusion_close(c);
}
END_TEST

START_TEST(its_memory_is_the_users) {
	fusion_context *c = connect_client();

	expect_refusal(c, "binary_activation", &(struct fusion_benchmark_options){ .size = 4096 }, FUSION_E_MEMORY, "67108864");
	expect_one_session(c);
	cJSON_Delete(measure(c, "binary_activation", &brief));
	fusion_close(c);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("benchmark");
	TCase *t = tcase_create("measured"), *refused = tcase_create("refused");

	tcase_set_timeout(t, TEST_SECONDS);
	tcase_set_timeout(refused, TEST_SECONDS);
	tcase_add_unchecked_fixture(t, start_without_builds, daemon_stop);
	tcase_add_unchecked_fixture(refused, start_without_builds, daemon_stop);
	tcase_add_test(t, each_built_in_pattern_is_measured_on_a_kernel_of_it);
	tcase_add_test(t, a_pattern_of_the_users_is_measured_with_his_types_and_switches);
	tcase_add_test(t, results_that_are_no_numbers_are_the_same_bits_too);
	tcase_add_test(t, what_a_pattern_says_for_any_axes_and_any_number_is_given);
	tcase_add_test(t, the_context_that_asks_is_as_it_was);
	tcase_add_test(t, launches_are_timed_no_longer_than_it_takes);
	tcase_add_test(t, what_is_recorded_meanwhile_goes_on);
	tcase_add_test(refused, what_makes_no_sense_is_refused_with_a_reason);
	tcase_add_test(refused, who_waits_for_it_is_asked_whether_to_stop);
	tcase_add_test(refused, what_would_take_too_long_is_refused_at_once);
	tcase_add_test(refused, its_memory_is_the_users);
	suite_add_tcase(suite, t);
	suite_add_tcase(suite, refused);
	return suite_run(suite);
}

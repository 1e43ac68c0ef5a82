/*
 * Several devices behind one door: which engine a session gets, and what the end of one is to the others.
 *
 * PoCL shows as many devices as $POCL_DEVICES names; a driver that does not has one only, and all but the refusals are
 * passed by.
 */
#include "tests/daemon.h"
#include "tests/skip.h"

enum {
	TEST_SECONDS = 120,
	SESSIONS = 6,
	N = 1000,
	NAME = 200,
};

static const char *environment[2] = { "POCL_DEVICES=pthread basic", NULL };

static double number_of(int engine, const char *name) {
	cJSON *json = door_status(), *list = cJSON_GetObjectItem(json, "engines");
	const cJSON *item = cJSON_GetObjectItem(cJSON_GetArrayItem(list, engine), name);
	double value = item ? item->valuedouble : -1;

	cJSON_Delete(json);
	return value;
}

static int engines(void) {
	cJSON *json = door_status();
	int n = cJSON_GetArraySize(cJSON_GetObjectItem(json, "engines"));

	cJSON_Delete(json);
	return n;
}

/* False where the driver has but one. */
static bool start_devices_of(const char *test, const char *set) {
	daemon_start(set, environment);
	if (engines() == 2)
		return true;
	skip_says(test, "the driver has one device only");
	daemon_stop();
	return false;
}
/* The case that asks is skipped. */
#define start_devices(set) start_devices_of(__func__, set)

static fusion_context *connect_to(const char *device) {
	const struct fusion_options o = { .device = device };
	fusion_context *c;

	ck_assert_msg(!fusion_open(&c, &o), "%s", fusion_error());
	return c;
}

/* Releases of a driver call them differently. */
static void name_of(const char *device, char name[static NAME]) {
	fusion_context *c = connect_to(device);

	ck_assert_uint_lt(strlen(fusion_device(c)), NAME);
	strcpy(name, fusion_device(c));
	fusion_close(c);
}

static void compute(fusion_context *c) {
	static const int64_t dims[] = { N };
	fusion_array *a = fusion_full(c, FUSION_F32, 1, dims, 2), *b = fusion_mul(a, a), *sum = fusion_sum(b, 0, NULL, false);
	float got = 0;

	ck_assert_msg(!fusion_read(sum, &got, sizeof got), "%s", fusion_error());
	ck_assert(got == 4 * N);
	fusion_release(a);
	fusion_release(b);
	fusion_release(sum);
}

START_TEST(sessions_go_to_the_device_that_has_the_fewest) {
	fusion_context *c[SESSIONS];

	if (!start_devices("device.device=*"))
		return;
	for (int i = 0; i < SESSIONS; i++)
		c[i] = connect_to(NULL);
	ck_assert(number_of(0, "sessions") == SESSIONS / 2);
	ck_assert(number_of(1, "sessions") == SESSIONS / 2);
	for (int i = 0; i < SESSIONS; i++)
		compute(c[i]);
	fusion_close(c[0]);
	fusion_close(c[2]);
	for (int i = 0; i < START_TRIES && number_of(0, "sessions") > 1; i++)
		usleep(50000);
	c[0] = connect_to(NULL);
	c[2] = connect_to(NULL);
	ck_assert(number_of(0, "sessions") == SESSIONS / 2);
	for (int i = 0; i < SESSIONS; i++)
		fusion_close(c[i]);
	daemon_stop();
}
END_TEST

START_TEST(a_session_gets_the_device_it_asks_for) {
	fusion_context *named, *numbered, *c;
	struct fusion_options o = { .device = "no such" };
	char name[2][NAME], set[3 * NAME];

	if (!start_devices("device.device=*"))
		return;
	name_of("0", name[0]);
	name_of("1", name[1]);
	daemon_stop();
	snprintf(set, sizeof set, "device.device=%s,%s", name[0], name[1]);
	daemon_start(set, environment);
	named = connect_to(name[1]);
	numbered = connect_to("1");
	ck_assert_ptr_nonnull(strstr(fusion_device(named), name[1]));
	ck_assert_str_eq(fusion_device(numbered), fusion_device(named));
	setenv("FUSION_DEVICE", name[0], 1);
	c = connect_to(NULL);
	unsetenv("FUSION_DEVICE");
	ck_assert_ptr_nonnull(strstr(fusion_device(c), name[0]));
	ck_assert(number_of(1, "sessions") == 2);
	compute(named);
	compute(c);
	fusion_close(named);
	fusion_close(numbered);
	fusion_close(c);
	ck_assert_int_ne(fusion_open(&c, &o), 0);
	ck_assert_msg(strstr(fusion_error(), "no such") && strstr(fusion_error(), name[1]), "%s", fusion_error());
	daemon_stop();
}
END_TEST

START_TEST(the_end_of_one_engine_is_no_trouble_of_the_others_sessions) {
	fusion_context *dies, *lives, *again;
	pid_t before;

	if (!start_devices("device.device=*"))
		return;
	dies = connect_to("0");
	lives = connect_to("1");
	compute(dies);
	compute(lives);
	before = (pid_t)number_of(0, "pid");
	ck_assert_int_eq(kill(before, SIGKILL), 0);
	for (int i = 0; i < START_TRIES && number_of(0, "ended") < 1; i++)
		usleep(50000);
	compute(lives);
	again = connect_to("0"); /* waits for the new engine */
	compute(again);
	compute(lives);
	ck_assert_int_ne((pid_t)number_of(0, "pid"), before);
	ck_assert(number_of(1, "ended") == 0);
	fusion_close(dies);
	fusion_close(lives);
	fusion_close(again);
	daemon_stop();
}
END_TEST

/* What fusiond says before it ends, started with this list. */
static void refused(const char *list, const char *because) {
	char command[512], text[4096];
	int status;
	FILE *f;

	snprintf(folder, sizeof folder, "/tmp/fusion-service-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(command, sizeof command,
		"POCL_DEVICES='pthread basic' %s/fusiond --socket %s/door --cache-dir %s/cache --set 'device.device=%s' 2>&1",
		build_folder(), folder, folder, list);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	status = pclose(f);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status), "%s was taken", list);
	ck_assert_msg(strstr(text, because) != NULL, "%s: %s", list, text);
	remove_folder();
}

static fusion_array *arange(fusion_context *c) {
	fusion_array *a = fusion_arange(c, FUSION_F32, N, 0, 1);

	ck_assert_msg(a != NULL, "%s", fusion_error());
	return a;
}

static void expect_values(fusion_array *a, float first, float last) {
	float got[N];

	ck_assert_msg(!fusion_read(a, got, sizeof got), "%s", fusion_error());
	ck_assert(got[0] == first && got[N - 1] == last);
}

START_TEST(an_array_exported_on_another_device_is_imported_as_a_copy) {
	struct fusion_token token, wrong;
	fusion_context *first, *second;
	fusion_array *a, *b, *sum;
	float *memory;

	if (!start_devices("device.device=*"))
		return;
	first = connect_to("0");
	second = connect_to("1");
	a = arange(first);
	ck_assert_int_eq(fusion_export(a, FUSION_SHARE_READ_WRITE, 0, &token), 0);
	b = fusion_import(second, &token);
	ck_assert_msg(b != NULL, "%s", fusion_error());
	ck_assert_int_eq(fusion_error_code(), 0);
	ck_assert_int_eq(fusion_rank(b), 1);
	ck_assert_int_eq(fusion_dims(b)[0], N);
	expect_values(b, 0, N - 1);
	sum = fusion_add(b, b);
	expect_values(sum, 0, 2 * (N - 1));
	ck_assert_int_eq(fusion_map(a, FUSION_MAP_WRITE, (void **)&memory), 0);
	memory[0] = 42;
	ck_assert_int_eq(fusion_unmap(a), 0);
	expect_values(a, 42, N - 1);
	expect_values(b, 0, N - 1);
	memcpy(&wrong, &token, sizeof wrong);
	wrong.bytes[3] ^= 1;
	ck_assert_ptr_null(fusion_import(second, &wrong));
	ck_assert_int_eq(fusion_error_code(), FUSION_E_TOKEN);
	fusion_error_clear();
	ck_assert_int_eq(fusion_revoke(first, &token), 0);
	ck_assert_ptr_null(fusion_import(second, &token));
	ck_assert_int_eq(fusion_error_code(), FUSION_E_TOKEN);
	fusion_error_clear();
	for (int i = 0; i < START_TRIES && number_of(0, "sessions") != 1; i++)
		usleep(50000);
	ck_assert(number_of(0, "sessions") == 1 && number_of(1, "sessions") == 1);
	fusion_release(a);
	fusion_release(b);
	fusion_release(sum);
	fusion_close(first);
	fusion_close(second);
	daemon_stop();
}
END_TEST

START_TEST(a_list_of_devices_that_are_not_there_ends_the_daemon) {
	refused("no such", "no usable OpenCL device is named \"no such\"");
	refused("no such:*", "no usable OpenCL device is named \"no such\"");
	refused(":200", "no device number 200");
	refused(":0,:0", "names a device twice");
	refused("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,A,B,C,D,E,F,G", "more than 32 devices");
}
END_TEST

int main(void) {
	Suite *s = suite_create("devices");
	TCase *c = tcase_create("devices");
	SRunner *runner;
	int failed;

	tcase_set_timeout(c, TEST_SECONDS);
	tcase_add_test(c, sessions_go_to_the_device_that_has_the_fewest);
	tcase_add_test(c, a_session_gets_the_device_it_asks_for);
	tcase_add_test(c, the_end_of_one_engine_is_no_trouble_of_the_others_sessions);
	tcase_add_test(c, an_array_exported_on_another_device_is_imported_as_a_copy);
	tcase_add_test(c, a_list_of_devices_that_are_not_there_ends_the_daemon);
	suite_add_tcase(s, c);
	runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

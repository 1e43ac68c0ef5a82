/*
 * Engines that die under their clients: another one goes on with the sessions, arrays that were in shared memory are there
 * bit for bit, and what is not says why.
 *
 * Nothing is fused where that is not the point: a handful of kernels serves all of it.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/context.h"
#include "tests/busy.h"
#include "tests/stopwatch.h"
#include "tests/suite.h"

enum {
	ELEMENTS = 1000,
	SENT_US = 200000,
	WRITES = 200,                /* by two in turn: the daemon looks at the wrong connection first now and then */
	TEST_SECONDS = 600,
	LATE_MS = 100,
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
	cJSON *json = door_status();
	double value = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), name)->valuedouble;

	cJSON_Delete(json);
	return value;
}

static int ctl(const char *words, char *text, size_t size) {
	char command[320];
	size_t n;
	FILE *f;

	snprintf(command, sizeof command, "%s/fusionctl --socket %s %s 2>&1", build_folder(), door, words);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, size - 1, f);
	text[n] = 0;
	return pclose(f);
}

/* Returns once the supervisor knows that another engine has gone than those before. */
static void await_end(double before) {
	for (int i = 0; i < START_TRIES && engine_number("ended") == before; i++)
		usleep(20000);
	ck_assert(engine_number("ended") > before);
}

/* Returns once the supervisor knows that it is gone. Drivers have handlers for the signals of faults, which are left to faults. */
static void kill_engine(int signal) {
	char text[16384];
	double before;
	pid_t pid;

	/* One that starts is not looked after by the same limits. */
	for (int i = 0; i < START_TRIES && ctl("status --json", text, sizeof text); i++)
		usleep(20000);
	pid = (pid_t)engine_number("pid");
	before = engine_number("ended");
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(kill(pid, signal), 0);
	await_end(before);
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

/* Engines are ended at random here, whatever graph was under way. */
static void begin_busy(void) {
	setenv("FUSIOND_ENGINE_QUARANTINE_US", "0", 1);
	/* For those that are stopped; another that is ended for waiting so long for a processor is one more. */
	setenv("FUSIOND_ENGINE_HANG_US", "5s", 1);
	begin_with("fusion.enabled=no");
	unsetenv("FUSIOND_ENGINE_QUARANTINE_US");
	unsetenv("FUSIOND_ENGINE_HANG_US");
}

static void begin_discrete(void) {
	begin_with("device.discrete=yes");
}

static void begin_with_spare(void) {
	begin_with("engine.spare=1");
}

/* The limit of an engine that hangs is what a client waits for whose connection breaks. */
static void begin_by_nng(void) {
	setenv("FUSION_TRANSPORT", "nng", 1);
	setenv("FUSIOND_ENGINE_HANG_US", "15s", 1);
	begin_with("fusion.enabled=no");
	unsetenv("FUSIOND_ENGINE_HANG_US");
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
		fusion_array *sum, *next;

		kill_engine(SIGKILL);
		must_be(b, expected);
		must_be(a, uploaded);
		must_be(strided, expected);
		sum = fusion_add(b, a);
		next = fusion_sub(sum, a);
		fusion_release(sum);
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

static bool always(void) {
	return true;
}

/* The supervisor stands still, so that its door does not answer. */
START_TEST(who_waits_for_the_next_engine_may_be_asked_to_stop) {
	float expected[ELEMENTS], value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_exp(a), *sum;

	read_all(b, expected);
	for (int i = 0; i < 2; i++) {
		kill_engine(SIGKILL);
		ck_assert_int_eq(kill(daemon_pid, SIGSTOP), 0);
		fusion_on_wait(always);
		ck_assert_int_eq(fusion_read(b, value, sizeof value), FUSION_E_CANCELLED);
		ck_assert_int_eq(fusion_sync(context), FUSION_E_CANCELLED);
		fusion_on_wait(NULL);
		ck_assert_int_eq(kill(daemon_pid, SIGCONT), 0);
		must_be(b, expected);
		sum = fusion_add(b, a);
		ck_assert_msg(!fusion_wait(sum), "%s", fusion_error());
		fusion_release(sum);
	}
	fusion_release(a);
	fusion_release(b);
}
END_TEST

/* Engines end again and again, and the next one comes later than the client has time: it says so, and the session goes on. */
START_TEST(who_has_no_time_for_the_next_engine_keeps_his_session) {
	struct fusion_context *c = (struct fusion_context *)object_find(OBJECT_CONTEXT, context);
	float expected[ELEMENTS], value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_exp(a), *sum;

	read_all(b, expected);
	for (int i = 0; i < 2; i++) {
		kill_engine(SIGKILL);
		ck_assert_int_eq(kill(daemon_pid, SIGSTOP), 0);
		c->door.timeout_ms = LATE_MS;
		ck_assert_int_eq(fusion_read(b, value, sizeof value), FUSION_E_CONNECT);
		ck_assert_msg(strstr(fusion_error(), "fusiond's door did not answer within"), "%s", fusion_error());
		ck_assert_int_eq(fusion_sync(context), FUSION_E_CONNECT);
		c->door.timeout_ms = 0;
		ck_assert_int_eq(kill(daemon_pid, SIGCONT), 0);
		must_be(b, expected);
		sum = fusion_add(b, a);
		ck_assert_msg(!fusion_wait(sum), "%s", fusion_error());
		fusion_release(sum);
	}
	fusion_release(a);
	fusion_release(b);
}
END_TEST

/* The engine stands still, so it has not heard of what is sent then; of a library that repeats nothing. test_repeat.c has the others. */
START_TEST(what_was_not_begun_may_be_asked_for_again) {
	float expected[ELEMENTS], value[ELEMENTS];
	fusion_array *a, *b, *c, *d;
	pid_t engine;

	fusion_close(context);
	setenv("FUSION_REPEAT_BYTES", "0", 1);
	context = open_context();
	unsetenv("FUSION_REPEAT_BYTES");
	a = numbers(context, 1);
	b = fusion_neg(a);
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

static uint32_t arenas_of(const fusion_context *of) {
	return (uint32_t)((const struct fusion_context *)object_find(OBJECT_CONTEXT, of))->arenas.count;
}

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
			arenas = arenas_of(context);
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
	ck_assert_uint_le(arenas_of(context), arenas + 1);
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
	kill_engine(SIGKILL);
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

/* Patterns of the session, and whether they are on, are the next engine's, too. */
START_TEST(patterns_and_their_switches_are_the_next_engines_too) {
	char *before, *after, *settings;

	ck_assert_msg(!fusion_define_pattern(context, "thrice_(a)", "a + a + a", false), "%s", fusion_error());
	ck_assert_msg(!fusion_define_pattern(context, "gone_(a, b)", "a * b - a", false), "%s", fusion_error());
	ck_assert_int_eq(fusion_forget_pattern(context, "gone_", false), 0);
	ck_assert_msg(!fusion_configure(context, "fusion.pattern.thrice_", "off"), "%s", fusion_error());
	before = fusion_patterns(context);
	ck_assert_ptr_nonnull(strstr(before, "thrice_"));
	kill_engine(SIGKILL);
	after = fusion_patterns(context);
	ck_assert_msg(after != NULL, "%s", fusion_error());
	ck_assert_str_eq(after, before);
	settings = fusion_settings(context, false);
	ck_assert_msg(strstr(settings, "thrice_") != NULL, "%s", settings);
	free(settings);
	free(before);
	free(after);
}
END_TEST

/* ---- shared arrays ---- */

/* In place in the shared memory. */
static void write_all(fusion_array *a, float first) {
	void *memory = NULL;
	float *value;

	ck_assert_msg(!fusion_map(a, FUSION_MAP_WRITE, &memory), "%s", fusion_error());
	value = memory;
	for (int i = 0; i < ELEMENTS; i++)
		value[i] = first + (float)i;
	ck_assert_msg(!fusion_unmap(a), "%s", fusion_error());
}

static void *unmap(void *array) {
	return (void *)(intptr_t)fusion_unmap(array);
}

/* An engine that ends before it hears of it leaves nobody with an array that is being written for ever. */
START_TEST(others_see_a_write_that_an_engine_did_not_live_to_hear_of) {
	float expected[ELEMENTS];
	struct fusion_token token;
	fusion_context *other = open_context();
	fusion_array *a = numbers(context, 3), *theirs;
	void *memory = NULL, *failed;
	const pid_t engine = (pid_t)engine_number("pid");
	const double before = engine_number("ended");
	pthread_t thread;

	ck_assert_msg(!fusion_export(a, FUSION_SHARE_READ_WRITE, 0, &token), "%s", fusion_error());
	theirs = fusion_import(other, &token);
	ck_assert_msg(theirs != NULL, "%s", fusion_error());
	ck_assert_msg(!fusion_map(a, FUSION_MAP_WRITE, &memory), "%s", fusion_error());
	for (int i = 0; i < ELEMENTS; i++)
		expected[i] = (float)i;
	memcpy(memory, expected, sizeof expected);
	ck_assert_int_eq(kill(engine, SIGSTOP), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, unmap, a), 0);
	/* Most times it has been sent by then; where not, the next engine hears it first. */
	usleep(SENT_US);
	ck_assert_int_eq(kill(engine, SIGKILL), 0);
	await_end(before);
	ck_assert_int_eq(pthread_join(thread, &failed), 0);
	ck_assert_ptr_null(failed);
	must_be(theirs, expected);
	must_be(a, expected);
	write_all(theirs, 7);
	kill_engine(SIGKILL);
	for (int i = 0; i < ELEMENTS; i++)
		expected[i] = 7 + (float)i;
	must_be(a, expected);
	fusion_release(theirs);
	fusion_release(a);
	fusion_close(other);
}
END_TEST

START_TEST(shared_arrays_and_tokens_outlive_the_engine) {
	float expected[ELEMENTS], value[ELEMENTS];
	struct fusion_token reading, writing;
	fusion_context *other = open_context(), *third;
	fusion_array *a = numbers(context, 3), *b = fusion_exp(a), *theirs, *late;

	read_all(b, expected);
	ck_assert_msg(!fusion_export(b, FUSION_SHARE_READ, 0, &reading), "%s", fusion_error());
	ck_assert_msg(!fusion_export(b, FUSION_SHARE_READ_WRITE, 0, &writing), "%s", fusion_error());
	theirs = fusion_import(other, &writing);
	ck_assert_msg(theirs != NULL, "%s", fusion_error());
	for (int i = 0; i < 2; i++) {
		kill_engine(SIGKILL);
		must_be(b, expected);
		must_be(theirs, expected);
	}
	/* They are still one array, which both may use, each as soon as the other has unmapped it. */
	for (int w = 0; w < WRITES; w++) {
		write_all(w % 2 ? b : theirs, (float)w);
		for (int i = 0; i < ELEMENTS; i++)
			expected[i] = (float)(w + i);
		must_be(w % 2 ? theirs : b, expected);
	}
	late = fusion_add(b, a);
	read_all(late, value);
	fusion_release(late);
	/* Tokens open it, and no more than they say. */
	third = open_context();
	late = fusion_import(third, &reading);
	ck_assert_msg(late != NULL, "%s", fusion_error());
	must_be(late, expected);
	ck_assert_int_eq(fusion_map(late, FUSION_MAP_WRITE, (void *[]){ NULL }), FUSION_E_STATE);
	ck_assert_msg(!fusion_revoke(context, &reading), "%s", fusion_error());
	ck_assert_ptr_null(fusion_import(third, &reading));
	/* It goes with its last holder. */
	kill_engine(SIGKILL);
	fusion_release(b);
	must_be(theirs, expected);
	must_be(late, expected);
	fusion_close(third);
	fusion_release(late);
	must_be(theirs, expected);
	fusion_release(theirs);
	ck_assert_int_eq(fusion_sync(other), 0);
	expect_back(context, "shared_arrays", 0);
	fusion_release(a);
	fusion_close(other);
}
END_TEST

/* Who writes it when the engine ends goes on, and others are kept off meanwhile. */
START_TEST(a_shared_array_that_is_being_written_stays_so) {
	float expected[ELEMENTS], value[ELEMENTS];
	struct fusion_token token;
	fusion_context *other = open_context();
	fusion_array *a = numbers(context, 3), *theirs;
	void *memory = NULL;

	ck_assert_msg(!fusion_export(a, FUSION_SHARE_READ_WRITE, 0, &token), "%s", fusion_error());
	theirs = fusion_import(other, &token);
	ck_assert_msg(theirs != NULL, "%s", fusion_error());
	ck_assert_msg(!fusion_map(theirs, FUSION_MAP_WRITE, &memory), "%s", fusion_error());
	kill_engine(SIGKILL);
	/* The next engine knows of the writer once its session has come. */
	ck_assert_int_eq(fusion_sync(other), 0);
	ck_assert_int_eq(fusion_read(a, value, sizeof value), FUSION_E_STATE);
	for (int i = 0; i < ELEMENTS; i++)
		((float *)memory)[i] = expected[i] = (float)i;
	ck_assert_msg(!fusion_unmap(theirs), "%s", fusion_error());
	ck_assert_int_eq(fusion_sync(other), 0);
	must_be(a, expected);
	fusion_release(a);
	fusion_release(theirs);
	fusion_close(other);
}
END_TEST

/* What a client of another make would send: the library knows that the array is not mapped. */
static int unmap_unasked(fusion_context *of, const fusion_array *array) {
	const struct fusion_array *a = (const struct fusion_array *)object_find(OBJECT_ARRAY, array);
	struct fusion_context *c;
	struct answer answer = { 0 };
	struct request *q;
	struct fault f;
	int r = context_enter(of, "unmap", &c);

	ck_assert_int_eq(r, 0);
	r = stream_room_to_wait(c, &q, &f);
	ck_assert_int_eq(r, 0);
	wire_put_uint(stream_begin_next(c, q, REQUEST_UNMAP, 2), a->value->handle);
	r = stream_ask(c, q, &answer, &f);
	free(answer.result);
	context_leave(c);
	return r;
}

/* The catalogue says of shared arrays which are mapped; nothing is guessed after an engine's end. */
START_TEST(a_shared_array_that_is_not_mapped_is_not_unmapped_after_an_engine_s_end) {
	float expected[ELEMENTS];
	struct fusion_token token;
	fusion_context *other = open_context();
	fusion_array *a = numbers(context, 3), *theirs;
	uint64_t version;

	ck_assert_int_eq(fusion_read(a, expected, sizeof expected), 0);
	ck_assert_msg(!fusion_export(a, FUSION_SHARE_READ, 0, &token), "%s", fusion_error());
	theirs = fusion_import(other, &token);
	ck_assert_msg(theirs != NULL, "%s", fusion_error());
	version = fusion_version(theirs);
	kill_engine(SIGKILL);
	ck_assert_int_eq(fusion_sync(other), 0);
	must_be(theirs, expected);
	ck_assert_int_eq(unmap_unasked(other, theirs), FUSION_E_STATE);
	ck_assert_uint_eq(fusion_version(theirs), version);
	must_be(a, expected);
	fusion_release(a);
	fusion_release(theirs);
	fusion_close(other);
}
END_TEST

/* ---- a connection that breaks, under an engine that is well ---- */

/* Those of this process to the engine's socket; how many. */
static int break_connections(void) {
	int broken = 0;

	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_un peer = { .sun_family = AF_UNSPEC };
		socklen_t size = sizeof peer;

		if (getpeername(fd, (struct sockaddr *)&peer, &size) || peer.sun_family != AF_UNIX || !strstr(peer.sun_path, "/engine-"))
			continue;
		broken += !shutdown(fd, SHUT_RDWR);
	}
	return broken;
}

START_TEST(a_client_whose_connection_breaks_is_told_so) {
	fusion_context *other;
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a);
	float value[ELEMENTS];

	read_all(b, value);
	ck_assert_int_gt(break_connections(), 0);
	ck_assert_int_eq(fusion_read(b, value, sizeof value), FUSION_E_LOST);
	ck_assert_msg(strstr(fusion_error(), "connection to the engine broke") != NULL, "%s", fusion_error());
	/* Nobody else is concerned. */
	other = open_context();
	fusion_release(b);
	fusion_release(a);
	a = numbers(other, 1);
	b = fusion_neg(a);
	read_all(b, value);
	fusion_release(b);
	fusion_release(a);
	fusion_close(other);
	ck_assert_int_eq((int)engine_number("ended"), 0);
}
END_TEST

/* ---- faults in the driver ---- */

static char faults[96];

/* What the engine's next launches, or what stands in `where`, do. */
static void fault(const char *where, const char *what) {
	char path[128];

	snprintf(path, sizeof path, "%s.%s", faults, where);
	file_appears(path, what);
}

static void begin_with_faults(void) {
	static char library[300], variable[128];
	const char *environment[2] = { library, variable };

	snprintf(faults, sizeof faults, "%s/fault", folder);
	snprintf(library, sizeof library, "LD_PRELOAD=%s/tests/interpose.so", build_folder());
	snprintf(variable, sizeof variable, "FUSION_INTERPOSE_FAULTS=%s", faults);
	daemon_start_again("fusion.enabled=no", environment);
	context = open_context();
}

/* Longer than a healthy engine waits for a processor on the busiest machine, short enough to be waited for: a test that knows which engine ends. */
static void begin_with_limits(void) {
	setenv("FUSIOND_ENGINE_HANG_US", "12s", 1);
	setenv("FUSIOND_ENGINE_LAUNCH_US", "12s", 1);
	begin_with_faults();
	unsetenv("FUSIOND_ENGINE_HANG_US");
	unsetenv("FUSIOND_ENGINE_LAUNCH_US");
}

/* The last two by the limits. */
enum { WAYS_TO_END = 3 };
static const char *const ways[] = { "abort", "crash", "kill", "hang", "endless" };

START_TEST(a_launch_that_ends_the_engine_costs_its_own_results) {
	float expected[ELEMENTS], value[ELEMENTS], other[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a), *c;
	fusion_context *neighbour = open_context();
	fusion_array *mine = numbers(neighbour, 9), *kept = fusion_neg(mine);
	int code;

	ck_assert_msg(!fusion_read(kept, other, sizeof other), "%s", fusion_error());
	read_all(b, expected);
	c = fusion_square(b);
	fault("launch", ways[_i]);
	code = fusion_read(c, value, sizeof value);
	ck_assert_msg(code == FUSION_E_UNKNOWN, "%s: %s", fusion_code_name(code), fusion_error());
	fusion_release(c);
	must_be(b, expected);
	must_be(kept, other);
	/* By itself it does no harm, and is suspected no more. */
	c = fusion_square(b);
	read_all(c, value);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq(value[i], expected[i] * expected[i]);
	fusion_release(mine);
	fusion_release(kept);
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
	fusion_close(neighbour);
}
END_TEST

START_TEST(an_engine_that_dies_while_it_takes_over_is_replaced_too) {
	float expected[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a);

	read_all(b, expected);
	fault("start", ways[_i]);
	kill_engine(SIGKILL);
	must_be(b, expected);
	ck_assert_int_ge((int)engine_number("ended"), 2);
	fusion_release(a);
	fusion_release(b);
}
END_TEST

/* Its drivers were listed before, so it lists them by itself; the next one tries them in a child. */
START_TEST(a_first_engine_that_dies_of_a_driver_is_started_once_more) {
	fusion_array *a, *b;
	float value[ELEMENTS];

	fusion_close(context);
	daemon_end();
	fault("start", ways[_i]);
	begin_with_faults();
	a = numbers(context, 1);
	b = fusion_neg(a);
	read_all(b, value);
	ck_assert_int_eq((int)engine_number("ended"), 1);
	fusion_release(a);
	fusion_release(b);
}
END_TEST

START_TEST(a_graph_that_ends_two_engines_is_refused_until_it_is_cleared) {
	float expected[ELEMENTS], value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a), *c;
	char text[4096], report[160];

	read_all(b, expected);
	for (int i = 0; i < 2; i++) {
		fault("launch", "abort");
		c = fusion_square(b);
		ck_assert_int_eq(fusion_read(c, value, sizeof value), FUSION_E_UNKNOWN);
		fusion_release(c);
	}
	c = fusion_square(b);
	ck_assert_int_eq(fusion_read(c, value, sizeof value), FUSION_E_QUARANTINE);
	ck_assert_msg(strstr(fusion_error(), "quarantine clear") != NULL, "%s", fusion_error());
	fusion_release(c);
	/* Others are not. */
	c = fusion_exp(b);
	read_all(c, value);
	fusion_release(c);
	ck_assert_int_eq(ctl("quarantine", text, sizeof text), 0);
	ck_assert_msg(strstr(text, "refused") != NULL, "%s", text);
	ck_assert_int_eq(ctl("quarantine clear", text, sizeof text), 0);
	/* The engine hears of it before the next request, or soon after. */
	for (int i = 0; i < START_TRIES; i++) {
		c = fusion_square(b);
		if (!fusion_read(c, value, sizeof value))
			break;
		fusion_release(c);
		usleep(10000);
	}
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq(value[i], expected[i] * expected[i]);
	snprintf(report, sizeof report, "grep -l 'square' %s/cache/crash/engine-* >/dev/null", folder);
	ck_assert_msg(!system(report), "no report names the graph");
	snprintf(report, sizeof report, "test -z \"$(find %s/cache/crash -type f ! -perm 600)\"", folder);
	ck_assert_int_eq(system(report), 0);
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
}
END_TEST

enum { USER_ENDS = 4 };

/* Another graph each time, whose hash says nothing of the next one's. */
static fusion_array *vary(fusion_array *a, int i) {
	fusion_array *(*const operation[])(fusion_array *) = { fusion_square, fusion_exp, fusion_abs, fusion_sqrt, fusion_neg };

	return operation[i](a);
}

static int end_by_varied_graphs(int times) {
	float value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *c;
	int code = 0;

	read_all(a, value);
	for (int i = 0; i < times; i++) {
		fault("launch", "abort");
		c = vary(a, i);
		code = fusion_read(c, value, sizeof value);
		fusion_release(c);
	}
	fusion_release(a);
	return code;
}

START_TEST(a_user_who_varies_graphs_that_end_engines_is_refused_until_it_is_cleared) {
	fusion_context *again;
	float value[ELEMENTS];
	fusion_array *a;
	char text[4096];
	int code;

	code = end_by_varied_graphs(USER_ENDS - 1);
	ck_assert_msg(code == FUSION_E_UNKNOWN, "%s: %s", fusion_code_name(code), fusion_error());
	fusion_close(open_context());
	end_by_varied_graphs(1);
	ck_assert_int_eq((int)engine_number("ended"), USER_ENDS);
	code = fusion_open(&again, NULL);
	ck_assert_msg(code == FUSION_E_QUARANTINE && strstr(fusion_error(), "engine.user_ends") && strstr(fusion_error(), "quarantine clear"),
		"%s: %s", fusion_code_name(code), fusion_error());
	ck_assert_int_eq(ctl("quarantine", text, sizeof text), 0);
	ck_assert_msg(strstr(text, "4 of them alone, refused for") != NULL, "%s", text);
	ck_assert_int_eq(ctl("quarantine clear", text, sizeof text), 0);
	again = open_context();
	a = numbers(again, 1);
	read_all(a, value);
	fusion_release(a);
	fusion_close(again);
}
END_TEST

enum { PAUSE_US = 100000, PAUSES = 12000 };

/* Of a graph that did it twice, and is innocent now: a minute at most until it runs. */
START_TEST(a_refused_graph_runs_again_when_its_time_is_over) {
	float value[ELEMENTS], expected[ELEMENTS];
	fusion_array *a, *c;
	int code = FUSION_E_QUARANTINE;

	fusion_close(context);
	daemon_end();
	setenv("FUSIOND_ENGINE_QUARANTINE_US", "5s", 1);
	begin_with_faults();
	unsetenv("FUSIOND_ENGINE_QUARANTINE_US");
	for (int i = 0; i < 2; i++) {
		a = numbers(context, 1);
		read_all(a, value);
		c = fusion_square(a);
		fault("launch", "abort");
		ck_assert_int_eq(fusion_read(c, expected, sizeof expected), FUSION_E_UNKNOWN);
		fusion_release(c);
		fusion_release(a);
	}
	for (int i = 0; i < PAUSES && code == FUSION_E_QUARANTINE; i++) {
		a = numbers(context, 1);
		c = fusion_square(a);
		code = fusion_read(c, expected, sizeof expected);
		fusion_release(c);
		fusion_release(a);
		usleep(PAUSE_US);
	}
	ck_assert_msg(!code, "%s: %s", fusion_code_name(code), fusion_error());
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_float_eq(expected[i], value[i] * value[i]);
}
END_TEST

/* A restart of the daemon makes no graph innocent; a list that somebody changed is not believed. */
START_TEST(a_refused_graph_is_refused_by_the_next_daemon_too) {
	float value[ELEMENTS];
	char text[4096], command[200];
	fusion_array *a, *c;
	int code;

	for (int i = 0; i < 2; i++) {
		a = numbers(context, 1);
		read_all(a, value);
		c = fusion_square(a);
		fault("launch", "abort");
		ck_assert_int_eq(fusion_read(c, value, sizeof value), FUSION_E_UNKNOWN);
		fusion_release(c);
		fusion_release(a);
	}
	snprintf(command, sizeof command, "test \"$(stat -c %%a %s/cache/quarantine)\" = 600", folder);
	ck_assert_int_eq(system(command), 0);
	for (int i = 0; i < 2; i++) {
		fusion_close(context);
		daemon_end();
		if (i) {
			snprintf(command, sizeof command, "sed -i 's/ 2 / 3 /' %s/cache/quarantine", folder);
			ck_assert_int_eq(system(command), 0);
		}
		begin_with_faults();
		a = numbers(context, 1);
		c = fusion_square(a);
		code = fusion_read(c, value, sizeof value);
		ck_assert_msg(code == (i ? 0 : FUSION_E_QUARANTINE), "%s: %s", fusion_code_name(code), fusion_error());
		fusion_release(c);
		fusion_release(a);
		ck_assert_int_eq(ctl("quarantine", text, sizeof text), 0);
		ck_assert_msg((strstr(text, "refused") == NULL) == (i == 1), "%s", text);
	}
}
END_TEST

/* ---- how long it takes ---- */

enum { TAKEOVERS = 5 };

static void engine_word(const char *name, char *word, size_t size) {
	char text[16384];
	cJSON *json;

	if (ctl("status --json", text, sizeof text))
		text[0] = 0;
	json = cJSON_Parse(text);
	snprintf(word, size, "%s", json ? cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "engines"), 0), name)) : "");
	cJSON_Delete(json);
}

static void await_word(const char *name, const char *wanted) {
	char word[64] = "";

	for (int i = 0; i < START_TRIES && strcmp(word, wanted) != 0; i++) {
		usleep(20000);
		engine_word(name, word, sizeof word);
	}
	ck_assert_str_eq(word, wanted);
}

/* From the engine's death to the next result that a client has. No limit on it: other tests run beside this one. */
static void measure_takeovers(bool spare) {
	double ms[TAKEOVERS];
	float expected[ELEMENTS], value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a);

	read_all(b, expected);
	for (int i = 0; i < TAKEOVERS; i++) {
		fusion_array *c;
		double start;

		/* One that dies soon after it was started is started again after a pause. */
		for (int k = 0; k < START_TRIES && engine_number("uptime_s") < 2.1; k++)
			usleep(50000);
		await_word("state", "ready");
		if (spare)
			await_word("spare", "ready");
		ck_assert_int_eq(kill((pid_t)engine_number("pid"), SIGKILL), 0);
		start = now_ms();
		/* Until the client notices, what it asks for is told to be repeatable. */
		for (int code = -1; code;) {
			c = fusion_neg(a);
			code = fusion_read(c, value, sizeof value);
			ck_assert_msg(!code || lost_with_an_engine(code), "%s", fusion_error());
			fusion_release(c);
		}
		ms[i] = now_ms() - start;
		ck_assert_int_eq(memcmp(value, expected, sizeof value), 0);
		must_be(b, expected);
		/* What was lost is told once more. */
		for (int k = 0; k < 2 && fusion_sync(context); k++)
			;
	}
	qsort(ms, TAKEOVERS, sizeof *ms, by_value);
	printf("note: from an engine's death to the next result, %s a spare: %.1f ms in the median of %d, best %.1f, worst %.1f\n", spare ? "with" : "without",
		ms[TAKEOVERS / 2], TAKEOVERS, ms[0], ms[TAKEOVERS - 1]);
	fusion_release(a);
	fusion_release(b);
}

START_TEST(a_spare_takes_over) {
	measure_takeovers(true);
}
END_TEST

START_TEST(without_a_spare_another_engine_starts) {
	measure_takeovers(false);
}
END_TEST

/* What the engine has programs of the spare makes ready by itself: nobody has asked the one that took over for any. */
START_TEST(a_spare_has_the_engines_programs) {
	float value[ELEMENTS];
	fusion_array *a = numbers(context, 1), *b = fusion_neg(a);

	read_all(b, value);
	await_word("spare", "ready");
	kill_engine(SIGKILL);
	expect_more(context, "programs_cached", 0);
	fusion_release(a);
	fusion_release(b);
}
END_TEST

/* A spare that dies by itself costs nobody anything, and the daemon's end takes it along. */
START_TEST(a_spare_that_dies_is_nobodys_loss) {
	float expected[ELEMENTS];
	fusion_array *a = numbers(context, 1);
	pid_t engine = (pid_t)engine_number("pid"), spare = 0;
	char path[64];
	FILE *f;

	read_all(a, expected);
	await_word("spare", "ready");
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", daemon_pid, daemon_pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	for (int pid; fscanf(f, "%d", &pid) == 1;)
		if (pid != engine && !is_worker(pid))
			spare = pid;
	fclose(f);
	ck_assert_int_gt(spare, 0);
	ck_assert_int_eq(kill(spare, SIGKILL), 0);
	await_word("spare", "gone");
	must_be(a, expected);
	ck_assert_int_eq((int)engine_number("ended"), 0);
	fusion_release(a);
}
END_TEST

/* ---- many at once ---- */

enum { BUSY = 8, BUSY_KILLS = 8 };

START_TEST(busy_clients_keep_what_they_have) {
	static const int signals[] = { SIGKILL, SIGKILL, SIGSTOP, SIGKILL };
	unsigned state = 1;

	busy_begin(BUSY);
	for (int i = 0; i < BUSY_KILLS; i++) {
		state = state * 1103515245U + 12345U;
		usleep(state / 65536U % 40000U);
		kill_engine(signals[i % 4]);
	}
	busy_end();
	expect_back(context, "sessions", 1);
	ck_assert_int_eq((int)engine_number("sessions"), 1);
}
END_TEST

int main(void) {
	char remove[128];
	int failed;
	Suite *s = suite_create("recover");
	TCase *ring = tcase_create("by the ring"), *discrete = tcase_create("discrete"), *spare = tcase_create("spare"), *nng = tcase_create("by nng"),
		*faulty = tcase_create("faults"), *hangs = tcase_create("hangs"),
		*busy_clients = tcase_create("busy");

	tcase_set_timeout(ring, TEST_SECONDS);
	tcase_add_checked_fixture(ring, begin_by_ring, end);
	tcase_add_test(ring, arrays_in_shared_memory_outlive_the_engine);
	tcase_add_test(ring, who_waits_for_the_next_engine_may_be_asked_to_stop);
	tcase_add_test(ring, who_has_no_time_for_the_next_engine_keeps_his_session);
	tcase_add_test(ring, what_was_not_begun_may_be_asked_for_again);
	tcase_add_test(ring, memory_of_uploads_is_used_again);
	tcase_add_test(ring, recorded_graphs_and_settings_are_the_next_engines_too);
	tcase_add_test(ring, patterns_and_their_switches_are_the_next_engines_too);
	tcase_add_test(ring, shared_arrays_and_tokens_outlive_the_engine);
	tcase_add_test(ring, others_see_a_write_that_an_engine_did_not_live_to_hear_of);
	tcase_add_test(ring, a_shared_array_that_is_being_written_stays_so);
	tcase_add_test(ring, a_shared_array_that_is_not_mapped_is_not_unmapped_after_an_engine_s_end);
	suite_add_tcase(s, ring);
	tcase_set_timeout(discrete, TEST_SECONDS);
	tcase_add_checked_fixture(discrete, begin_discrete, end);
	tcase_add_test(discrete, shared_arrays_and_tokens_outlive_the_engine);
	suite_add_tcase(s, discrete);
	tcase_set_timeout(spare, TEST_SECONDS);
	tcase_add_checked_fixture(spare, begin_with_spare, end);
	tcase_add_test(spare, a_spare_takes_over);
	tcase_add_test(spare, a_spare_has_the_engines_programs);
	tcase_add_test(spare, a_spare_that_dies_is_nobodys_loss);
	suite_add_tcase(s, spare);
	tcase_add_test(ring, without_a_spare_another_engine_starts);
	tcase_set_timeout(nng, TEST_SECONDS);
	tcase_add_checked_fixture(nng, begin_by_nng, end);
	tcase_add_test(nng, arrays_in_shared_memory_outlive_the_engine);
	tcase_add_test(nng, what_was_not_begun_may_be_asked_for_again);
	tcase_add_test(nng, a_client_whose_connection_breaks_is_told_so);
	suite_add_tcase(s, nng);
	tcase_set_timeout(faulty, TEST_SECONDS);
	tcase_add_checked_fixture(faulty, begin_with_faults, end);
	tcase_add_loop_test(faulty, a_launch_that_ends_the_engine_costs_its_own_results, 0, WAYS_TO_END);
	tcase_add_loop_test(faulty, an_engine_that_dies_while_it_takes_over_is_replaced_too, 0, WAYS_TO_END);
	tcase_add_loop_test(faulty, a_first_engine_that_dies_of_a_driver_is_started_once_more, 0, WAYS_TO_END);
	tcase_add_test(faulty, a_graph_that_ends_two_engines_is_refused_until_it_is_cleared);
	tcase_add_test(faulty, a_user_who_varies_graphs_that_end_engines_is_refused_until_it_is_cleared);
	tcase_add_test(faulty, a_refused_graph_runs_again_when_its_time_is_over);
	tcase_add_test(faulty, a_refused_graph_is_refused_by_the_next_daemon_too);
	suite_add_tcase(s, faulty);
	tcase_set_timeout(hangs, TEST_SECONDS);
	tcase_add_checked_fixture(hangs, begin_with_limits, end);
	tcase_add_loop_test(hangs, a_launch_that_ends_the_engine_costs_its_own_results, WAYS_TO_END, sizeof ways / sizeof *ways);
	suite_add_tcase(s, hangs);
	tcase_set_timeout(busy_clients, TEST_SECONDS);
	tcase_add_checked_fixture(busy_clients, begin_busy, end);
	tcase_add_test(busy_clients, busy_clients_keep_what_they_have);
	suite_add_tcase(s, busy_clients);
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

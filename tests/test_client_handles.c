/*
 * Handles that are none: released, closed, of another kind, garbage, NULL. Every function of the library, with one for each of its arguments that
 * is a handle or a list of them (tests/handle_calls.sh makes the calls from the installed headers, and what the library exports is looked up among them),
 * refuses it with its own name and the caller's line, and says where the handle was given back.
 */
#include "client/fusion.h"

#include "client/object.h"
#include "tests/fake_context.h"
#include "tests/good_arguments.h"

enum {
	REUSES = 1 << 16,
	THREADS = 4,
	ROUNDS = 2000,
	OPENS = 20,
	NAME_TEXT = 64,
};

#define WRONG(number, code, sole, name, argument, call)
#define NAME(name)
#define CALL(kind, name, argument, call)                 \
	static void name##_with_##argument(void *bad) {  \
		(void)(call);                            \
	}
#include "handle_calls.h"
#undef CALL

static const struct {
	enum object_kind kind;
	const char *name, *argument;
	void (*call)(void *bad);
} calls[] = {
#define CALL(kind, name, argument, call) { OBJECT_##kind, #name, #argument, name##_with_##argument },
#include "handle_calls.h"
#undef CALL
};
#undef NAME

static const char *const names[] = {
#define CALL(kind, name, argument, call)
#define NAME(name) "fusion_" #name,
#include "handle_calls.h"
};

enum {
	CALLS = sizeof calls / sizeof *calls,
	NAMES = sizeof names / sizeof *names,
};

/* ---- what is in order, and what was ---- */

static void setup(void) {
	open_context();
	good_arguments();
	ck_assert(!fusion_watch(good.array));
}

static void teardown(void) {
	fusion_error_clear();
	fusion_capture_free(good.capture);
	fusion_release(good.array);
	fusion_release(good.step);
	close_context();
}

/* ---- calls ---- */

static bool is(unsigned i, const char *name) {
	return !strcmp(calls[i].name, name);
}

/* What a call makes of NULL, which some arguments may be, goes with a scope; capture_end has something to end. */
static void call(unsigned i, void *handle) {
	bool records = is(i, "capture_end");

	fusion_error_clear();
	if (records)
		ck_assert(!fusion_capture_begin(context, 0, NULL));
	calls[i].call(handle);
	if (records && strstr(fusion_error(), "the context"))
		ck_assert(!fusion_capture_abort(context));
}

/* "add: " of add_scalar() and scalar_add(), too, which are one operation. */
static void error_start(unsigned i, char start[static NAME_TEXT]) {
	const char *name = is(i, "call") ? "softmax" : calls[i].name;
	size_t before = strncmp(name, "scalar_", 7) ? 0 : 7, size = strlen(name + before);
	const char *end = strstr(name, "_scalar");

	if (end && !end[strlen("_scalar")])
		size -= strlen("_scalar");
	snprintf(start, NAME_TEXT, "%.*s: ", (int)size, name + before);
}

static void expect_refused(unsigned i, void *handle, int code, const char *part) {
	char start[NAME_TEXT];

	call(i, handle);
	error_start(i, start);
	ck_assert_msg(fusion_error_code() == code, "%s, %s: %s: %s", calls[i].name, calls[i].argument, fusion_code_name(fusion_error_code()),
		fusion_error());
	ck_assert_msg(!strncmp(fusion_error(), start, strlen(start)), "%s, %s: %s", calls[i].name, calls[i].argument, fusion_error());
	ck_assert_msg(strstr(fusion_error(), part) != NULL, "%s, %s: \"%s\" lacks \"%s\"", calls[i].name, calls[i].argument, fusion_error(), part);
	ck_assert_msg(strstr(fusion_error(), " (at ") != NULL, "%s, %s: %s", calls[i].name, calls[i].argument, fusion_error());
}

START_TEST(every_exported_function_is_called) {
	FILE *file = fopen("debian/libfusion1.symbols", "r");
	char line[256], symbol[128];
	unsigned found = 0;

	ck_assert(file != NULL);
	while (fgets(line, sizeof line, file)) {
		bool known = false;

		if (sscanf(line, " %127[a-z0-9_]@", symbol) != 1 || strncmp(symbol, "fusion_", 7) != 0)
			continue;
		for (unsigned i = 0; i < NAMES; i++)
			known |= !strcmp(names[i], symbol);
		ck_assert_msg(known, "%s is exported, and stands in no header", symbol);
		found++;
	}
	fclose(file);
	ck_assert_uint_ge(found, NAMES);
	ck_assert_uint_gt(CALLS, NAMES);
}
END_TEST

/* Its line is the one that is named. */
static int line;

static void *given_back(enum object_kind kind) {
	fusion_array *a = array_new();
	fusion_capture *p;
	fusion_future *future;

	switch (kind) {
	case OBJECT_CAPTURE:
		p = capture_new();
		line = __LINE__ + 1;
		fusion_capture_free(p);
		fusion_release(a);
		return p;
	case OBJECT_FUTURE:
		future = fusion_read_begin(a, good.memory, BYTES);
		ck_assert(future != NULL);
		line = __LINE__ + 1;
		ck_assert(!fusion_future_finish(future));
		fusion_release(a);
		return future;
	default:
		line = __LINE__ + 1;
		fusion_release(a);
		return a;
	}
}

START_TEST(what_was_given_back_is_refused_by_every_function) {
	char part[NAME_TEXT];

	for (unsigned i = 0; i < CALLS; i++) {
		void *handle;

		if (calls[i].kind == OBJECT_CONTEXT)
			continue;
		handle = given_back(calls[i].kind);
		snprintf(part, sizeof part, "test_client_handles.c:%d", line);
		expect_refused(i, handle, FUSION_E_STATE, part);
		expect_refused(i, handle, FUSION_E_STATE, object_tables[calls[i].kind].ended);
	}
}
END_TEST

START_TEST(a_closed_context_is_refused_by_every_function) {
	fusion_context *closed = context;
	char part[NAME_TEXT];
	fusion_context *other;

	fusion_scope_begin(context);
	fusion_capture_free(good.capture);
	fusion_release(good.array);
	fusion_release(good.step);
	ck_assert(array_new() != NULL);
	line = __LINE__ + 1;
	fusion_close(closed);
	ck_assert(!fusion_scope_end(closed));
	fake_stop();
	fake_start();
	ck_assert(!fusion_open(&other, &(struct fusion_options){ .socket = fake.door }));
	context = other;
	good_arguments();
	snprintf(part, sizeof part, "was closed at tests/test_client_handles.c:%d", line);
	for (unsigned i = 0; i < CALLS; i++)
		if (calls[i].kind == OBJECT_CONTEXT)
			expect_refused(i, closed, FUSION_E_STATE, part);
}
END_TEST

static void *with_bits(const void *handle, uint64_t bits) {
	return (void *)((uintptr_t)handle ^ bits);
}

START_TEST(what_is_no_handle_is_refused_by_every_function) {
	static char here[64];
	char *heap = malloc(64);
	int stack = 0;
	void *const own[OBJECT_KINDS] = { [OBJECT_ARRAY] = good.array, [OBJECT_CONTEXT] = good.context, [OBJECT_CAPTURE] = good.capture,
		[OBJECT_FUTURE] = with_bits(good.capture, UINT64_C(7) << 60) };

	for (unsigned i = 0; i < CALLS; i++) {
		enum object_kind kind = calls[i].kind;
		void *const garbage[] = { (void *)1, (void *)16, here, heap, &stack, (void *)UINTPTR_MAX, (void *)INTPTR_MIN,
			(void *)UINT64_C(0xcdcdcdcdcdcdcdcd), (void *)UINT64_C(0xdeadbeefdeadbeef), with_bits(own[kind], UINT64_C(1) << 31),
			with_bits(own[kind], UINT64_C(1) << 40), with_bits(own[kind], UINT64_C(1) << 59), with_bits(own[kind], 1),
			with_bits(own[kind], (uint32_t)(uintptr_t)own[kind]) };

		for (unsigned k = 0; k < sizeof garbage / sizeof *garbage; k++)
			expect_refused(i, garbage[k], FUSION_E_ARGUMENT, "is no handle of libfusion");
		expect_refused(i, kind == OBJECT_CONTEXT ? (void *)good.array : (void *)good.context, FUSION_E_ARGUMENT,
			kind == OBJECT_CONTEXT ? "is an array, not a context" : "is a context, not a");
	}
	free(heap);
}
END_TEST

START_TEST(null_is_refused_or_allowed_by_every_function) {
	for (unsigned i = 0; i < CALLS; i++) {
		ck_assert(!fusion_scope_begin(context));
		call(i, NULL);
		/* Of call(), operands say which it is. */
		if (calls[i].kind == OBJECT_CONTEXT && !is(i, "close") && !is(i, "call"))
			ck_assert_msg(fusion_error_code() == FUSION_E_ARGUMENT, "%s: %s", calls[i].name, fusion_error());
		ck_assert(!fusion_scope_end(context));
		fusion_error_clear();
		/* What grad() and the like have made. */
		for (int k = 0; k < PLACES; k++)
			good.place[k] = NULL;
	}
}
END_TEST

START_TEST(an_old_handle_is_never_another_array) {
	fusion_array **old = malloc(REUSES * sizeof *old);
	fusion_array *now;

	for (int i = 0; i < REUSES; i++) {
		old[i] = fusion_scalar(context, FUSION_F32, i);
		fusion_release(old[i]);
	}
	now = array_new();
	fusion_error_clear();
	for (int i = 0; i < REUSES; i++) {
		ck_assert(old[i] != now);
		ck_assert(fusion_elements(old[i]) == 0);
		ck_assert_int_eq(fusion_error_code(), FUSION_E_STATE);
		fusion_error_clear();
	}
	ck_assert_int_eq(fusion_elements(now), ELEMENTS);
	fusion_release(now);
	free(old);
}
END_TEST

/* A slot whose generations are used up is left alone. */
START_TEST(a_generation_does_not_begin_anew) {
	fusion_array *last, *next;
	struct object *o = object_at(OBJECT_ARRAY, array_new());
	fusion_array *early = object_name_of(OBJECT_ARRAY, o);

	atomic_store(&o->generation, UINT32_MAX - 2);
	last = object_name_of(OBJECT_ARRAY, o);
	fusion_release(last);
	next = array_new();
	for (int i = 0; i < 4 * OBJECT_BATCH; i++) {
		fusion_array *a = array_new();

		ck_assert(a != early && a != last);
		fusion_release(a);
	}
	fusion_error_clear();
	ck_assert_uint_eq(fusion_bytes(early), 0);
	expect_error(FUSION_E_STATE, "was released");
	fusion_release(next);
}
END_TEST

START_TEST(a_scope_says_where_it_ended) {
	char part[NAME_TEXT];
	fusion_array *a;
	float back[ELEMENTS];

	ck_assert(!fusion_scope_begin(context));
	a = array_new();
	snprintf(part, sizeof part, "released at tests/test_client_handles.c:%d", __LINE__ + 1);
	ck_assert(!fusion_scope_end(context));
	ck_assert_int_eq(fusion_read(a, back, sizeof back), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, part);
}
END_TEST

/* With fusion.debug the place is known when others were made since. */
START_TEST(debug_knows_for_long_where_it_was) {
	struct fusion_options options = { .debug = FUSION_ON };
	fusion_context *debugged;
	char part[NAME_TEXT];
	fusion_array *a;

	teardown();
	open_context_with(options);
	debugged = context;
	a = fusion_scalar(debugged, FUSION_F32, 1);
	ck_assert_msg(a != NULL, "%s", fusion_error());
	snprintf(part, sizeof part, "released at tests/test_client_handles.c:%d", __LINE__ + 1);
	fusion_release(a);
	for (int i = 0; i < 1000; i++)
		fusion_release(fusion_scalar(debugged, FUSION_F32, i));
	ck_assert(fusion_exp(a) == NULL);
	expect_error(FUSION_E_STATE, part);
	close_context();
	setup();
}
END_TEST

/* ---- threads ---- */

static _Atomic(fusion_array *) shared_array;
static _Atomic(fusion_context *) shared_context;
static atomic_bool finished;
static atomic_uint released, refused, closes;
static pthread_barrier_t turn;

static void *release_what_all_release(void *unused) {
	for (int i = 0; i < ROUNDS; i++) {
		fusion_array *a;

		pthread_barrier_wait(&turn);
		a = atomic_load(&shared_array);
		fusion_error_clear();
		fusion_rank(a);
		fusion_release(fusion_exp(a));
		fusion_error_clear();
		fusion_release(a);
		atomic_fetch_add(fusion_error_code() ? &refused : &released, 1);
		fusion_elements(a);
		fusion_version(a);
		pthread_barrier_wait(&turn);
	}
	return unused;
}

START_TEST(of_many_threads_one_releases) {
	pthread_t thread[THREADS];

	pthread_barrier_init(&turn, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, release_what_all_release, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		atomic_store(&shared_array, fusion_scalar(context, FUSION_F32, i));
		pthread_barrier_wait(&turn);
		/* It may come into the place of the one that is released meanwhile. */
		fusion_release(fusion_scalar(context, FUSION_F64, i));
		pthread_barrier_wait(&turn);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&turn);
	ck_assert_uint_eq(atomic_load(&released), ROUNDS);
	ck_assert_uint_eq(atomic_load(&refused), (THREADS - 1) * ROUNDS);
}
END_TEST

static void *use_what_is_closed(void *unused) {
	while (!atomic_load(&finished)) {
		fusion_context *c = atomic_load(&shared_context);
		fusion_array *a = atomic_load(&shared_array);

		fusion_error_clear();
		fusion_flush(c);
		fusion_release(fusion_scalar(c, FUSION_F32, 1));
		fusion_elements(a);
		fusion_context_of(a);
		fusion_release(fusion_exp(a));
		fusion_error_clear();
		fusion_close(c);
		if (c && !fusion_error_code())
			atomic_fetch_add(&closes, 1);
		fusion_error_clear();
		fusion_release(a);
	}
	return unused;
}

START_TEST(of_many_threads_one_closes) {
	pthread_t thread[THREADS];

	teardown();
	fake_start();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, use_what_is_closed, NULL);
	for (unsigned i = 0; i < OPENS; i++) {
		fusion_context *c;

		ck_assert_msg(!fusion_open(&c, &(struct fusion_options){ .socket = fake.door }), "%s", fusion_error());
		atomic_store(&shared_array, fusion_scalar(c, FUSION_F32, 1));
		atomic_store(&shared_context, c);
		while (atomic_load(&closes) <= i)
			sched_yield();
	}
	atomic_store(&finished, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(atomic_load(&closes), OPENS);
	fake_stop();
	setup();
}
END_TEST

int main(void) {
	Suite *suite = suite_create("client_handles");
	TCase *tcase = tcase_create("handles");

	tcase_set_timeout(tcase, TEST_TIMEOUT_SECONDS);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, every_exported_function_is_called);
	tcase_add_test(tcase, what_was_given_back_is_refused_by_every_function);
	tcase_add_test(tcase, a_closed_context_is_refused_by_every_function);
	tcase_add_test(tcase, what_is_no_handle_is_refused_by_every_function);
	tcase_add_test(tcase, null_is_refused_or_allowed_by_every_function);
	tcase_add_test(tcase, an_old_handle_is_never_another_array);
	tcase_add_test(tcase, a_generation_does_not_begin_anew);
	tcase_add_test(tcase, a_scope_says_where_it_ended);
	tcase_add_test(tcase, debug_knows_for_long_where_it_was);
	tcase_add_test(tcase, of_many_threads_one_releases);
	tcase_add_test(tcase, of_many_threads_one_closes);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}

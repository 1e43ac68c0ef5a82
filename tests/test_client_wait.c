/* Waiting with libfusion: errors that come later, reads without waiting, maps, captures, fusion.debug. */
#include "client/fusion.h"

#include <poll.h>
#include <semaphore.h>

#include "client/context.h"
#include "client/sent.h"
#include "tests/fake_context.h"

enum { TIMEOUT_MS = 700 };

static char *place_of(char text[96], int line) {
	snprintf(text, 96, "(at %s:%d)", __FILE__, line);
	return text;
}

/* --- errors that come later -------------------------------------------------------------- */

START_TEST(a_refused_batch_names_the_line_of_the_operation) {
	fusion_array *a, *b, *c;
	char place[96];
	float back[3];
	int line;

	open_context();
	fake.refuse_op = OP_tanh;
	a = vector(3, 0);
	b = fusion_exp(a);
	line = __LINE__ + 1;
	c = fusion_tanh(b);
	ck_assert_int_eq(fusion_read(c, back, sizeof back), FUSION_E_DEVICE);
	expect_error(FUSION_E_DEVICE, "the fake refuses it");
	/* The sentence is the array's from now on. */
	ck_assert_ptr_null(fusion_neg(c));
	expect_error(FUSION_E_DEVICE, place_of(place, line));
	ck_assert_int_eq(fusion_sync(context), FUSION_E_DEVICE);
	expect_error(FUSION_E_DEVICE, place);
	ck_assert(!fusion_sync(context));
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
	close_context();
}
END_TEST

START_TEST(a_fault_of_a_run_names_the_line_at_the_next_sync) {
	fusion_array *a, *b, *c;
	char place[96];
	int line;

	open_context();
	fake.fault_op = OP_exp;
	a = vector(3, 0);
	line = __LINE__ + 1;
	b = fusion_exp(a);
	c = fusion_neg(a);
	ck_assert_int_eq(fusion_sync(context), FUSION_E_DEVICE);
	expect_error(FUSION_E_DEVICE, place_of(place, line));
	ck_assert_ptr_null(fusion_neg(b));
	expect_error(FUSION_E_DEVICE, place);
	/* Others of the batch are as before. */
	fusion_release(c);
	c = fusion_neg(a);
	ck_assert_ptr_nonnull(c);
	fusion_release(a);
	fusion_release(b);
	fusion_release(c);
	close_context();
}
END_TEST

START_TEST(waiting_for_an_array_reports_its_fault_once) {
	fusion_array *a, *b;

	open_context();
	fake.fault_op = OP_exp;
	a = vector(3, 0);
	b = fusion_exp(a);
	ck_assert(!fusion_wait(a) || fusion_error_code() == FUSION_E_DEVICE);
	fusion_error_clear();
	ck_assert_int_eq(fusion_wait(b), FUSION_E_DEVICE);
	fusion_release(a);
	fusion_release(b);
	fusion_error_clear();
	fusion_sync(context);
	close_context();
}
END_TEST

START_TEST(a_daemon_that_does_not_answer_in_time_is_an_error) {
	fusion_array *a;
	fusion_future *future;
	float back[3] = { 7, 7, 7 };

	open_context();
	a = vector(3, 0);
	fake_pause(true);
	((struct fusion_context *)object_find(OBJECT_CONTEXT, context))->stream.timeout_ms = TIMEOUT_MS;
	ck_assert_int_eq(fusion_read(a, back, sizeof back), FUSION_E_CONNECT);
	expect_error(FUSION_E_CONNECT, "700 ms");
	future = fusion_read_begin(a, back, sizeof back);
	ck_assert_ptr_nonnull(future);
	ck_assert_int_eq(fusion_future_finish(future), FUSION_E_CONNECT);
	fusion_error_clear();
	((struct fusion_context *)object_find(OBJECT_CONTEXT, context))->stream.timeout_ms = 0;
	fake_pause(false);
	ck_assert(!fusion_sync(context));
	/* The answer that came too late has not touched the memory. */
	ck_assert(back[1] == 7.0F);
	ck_assert(!fusion_read(a, back, sizeof back));
	ck_assert(back[1] == 1.0F);
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(closing_ends_reads_under_way) {
	fusion_array *a;
	fusion_future *future;
	float back[3];

	open_context();
	a = vector(3, 0);
	fake_pause(true);
	future = fusion_read_begin(a, back, sizeof back);
	fusion_close(context);
	ck_assert_int_ne(fusion_future_finish(future), 0);
	fusion_release(a);
	fake_stop();
}
END_TEST

START_TEST(closing_right_after_sending_does_not_hang) {
	struct fusion_options options = { 0 };

	fake_start();
	options.socket = fake.door;
	for (int i = 0; i < 50; i++) {
		fusion_array *a;

		ck_assert(!fusion_open(&context, &options));
		a = vector(3, 0);
		for (int k = 0; k < i % 7; k++) {
			fusion_release(a);
			a = vector(3, 0);
			ck_assert(!fusion_flush(context));
		}
		fusion_release(a);
		fusion_close(context);
	}
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}
END_TEST

/* --- reads that do not wait -------------------------------------------------------------- */

static sem_t called;
static int called_code, called_wait;

static void note_call(void *user, int code) {
	float back[3];

	called_code = code;
	/* A callback must not wait. */
	called_wait = fusion_read(user, back, sizeof back);
	sem_post(&called);
}

START_TEST(a_callback_gets_the_elements) {
	fusion_array *a;
	float back[3];

	open_context();
	sem_init(&called, 0, 0);
	a = vector(3, 5);
	ck_assert(!fusion_read_callback(a, back, sizeof back, note_call, a));
	sem_wait(&called);
	ck_assert_int_eq(called_code, 0);
	ck_assert(back[2] == 7.0F);
	ck_assert_int_eq(called_wait, FUSION_E_STATE);
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(a_descriptor_becomes_readable) {
	fusion_array *a;
	fusion_future *future;
	float *back = malloc(1000000 * sizeof *back);
	struct pollfd p = { .events = POLLIN };

	open_context();
	a = vector(1000000, 5);
	fake_pause(true);
	future = fusion_read_begin(a, back, 1000000 * sizeof *back);
	ck_assert_ptr_nonnull(future);
	/* The future holds what it needs. */
	fusion_release(a);
	p.fd = fusion_future_fd(future);
	ck_assert_int_eq(poll(&p, 1, 50), 0);
	fake_pause(false);
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	ck_assert(!fusion_future_finish(future));
	ck_assert(back[999999] == 1000004.0F);
	free(back);
	close_context();
}
END_TEST

START_TEST(many_reads_may_be_under_way) {
	enum {
		READS = 100
	};
	fusion_future *future[READS];
	fusion_array *a[READS];
	float back[READS];
	int64_t one = 1;

	open_context();
	for (int i = 0; i < READS; i++) {
		float x = (float)i;

		a[i] = fusion_from(context, FUSION_F32, 1, &one, &x);
		future[i] = fusion_read_begin(a[i], &back[i], sizeof back[i]);
		ck_assert_msg(future[i] != NULL, "%s", fusion_error());
	}
	for (int i = 0; i < READS; i++) {
		ck_assert(!fusion_future_finish(future[i]));
		ck_assert(back[i] == (float)i);
		fusion_release(a[i]);
	}
	ck_assert_uint_le(fake.unanswered_most, LIMIT_UNANSWERED - 1);
	close_context();
}
END_TEST

static void *read_in_thread(void *user) {
	float back[3];

	return fusion_read(user, back, sizeof back) ? user : NULL;
}

START_TEST(the_read_follows_the_batch_without_waiting_for_its_acceptance) {
	fusion_array *a;
	pthread_t thread;
	void *failed;

	open_context();
	a = vector(3, 5);
	fake_pause(true);
	pthread_create(&thread, NULL, read_in_thread, a);
	AWAIT(fake_requests(REQUEST_SUBMIT) == 1 && fake_requests(REQUEST_READ) == 1);
	fake_pause(false);
	pthread_join(thread, &failed);
	ck_assert_ptr_null(failed);
	fusion_release(a);
	close_context();
}
END_TEST

/* --- writing ----------------------------------------------------------------------------- */

START_TEST(a_map_for_writing_changes_the_array_and_its_version) {
	fusion_array *a, *view;
	float *memory, back[3];

	open_context();
	a = vector(3, 5);
	view = fusion_flip(a, 0, NULL);
	ck_assert_int_eq(fusion_version(a), 1);
	ck_assert(!fusion_map(a, FUSION_MAP_WRITE, (void **)&memory));
	ck_assert_ptr_null(fusion_neg(a));
	expect_error(FUSION_E_STATE, "mapped for writing");
	ck_assert_int_eq(fusion_map(a, FUSION_MAP_READ, (void **)&memory), FUSION_E_STATE);
	fusion_error_clear();
	/* The view was sent before, so that it keeps the old values. */
	ck_assert_uint_eq(fake.op_count[OP_flip], 1);
	memory[1] = 42;
	ck_assert(!fusion_unmap(a));
	ck_assert_int_eq(fusion_version(a), 2);
	ck_assert(!fusion_read(a, back, sizeof back));
	ck_assert(back[1] == 42.0F);
	ck_assert_int_eq(fusion_unmap(a), FUSION_E_STATE);
	fusion_error_clear();
	fusion_release(a);
	fusion_release(view);
	close_context();
}
END_TEST

START_TEST(nothing_is_remembered_of_what_was_written_and_has_run) {
	fusion_array *a;
	void *memory;

	open_context();
	a = vector(4, 0);
	for (int i = 0; i < 3; i++) {
		fusion_array *b;

		ck_assert_msg(!fusion_map(a, FUSION_MAP_WRITE, &memory), "%s", fusion_error());
		ck_assert_msg(!fusion_unmap(a), "%s", fusion_error());
		b = fusion_exp(a);
		ck_assert_msg(!fusion_wait(b), "%s", fusion_error());
		fusion_release(b);
		ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
		ck_assert_ptr_null(((struct fusion_context *)object_find(OBJECT_CONTEXT, context))->sent->first);
	}
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(a_value_that_two_arrays_share_is_copied_before_it_is_written) {
	fusion_array *a, *b;
	float *memory;

	open_context();
	a = vector(3, 5);
	b = vector(3, 0);
	ck_assert(!fusion_copy_into(b, a));
	ck_assert_int_eq(fusion_version(b), 2);
	ck_assert(!fusion_map(b, FUSION_MAP_WRITE, (void **)&memory));
	ck_assert_uint_eq(fake.op_count[OP_copy], 1);
	ck_assert(!fusion_unmap(b));
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

START_TEST(maps_for_reading_nest) {
	fusion_array *a;
	float *memory, *again;

	open_context();
	a = vector(3, 5);
	ck_assert(!fusion_map(a, FUSION_MAP_READ, (void **)&memory));
	ck_assert(!fusion_map(a, FUSION_MAP_READ, (void **)&again));
	ck_assert_ptr_eq(memory, again);
	/* Contents that the array gets meanwhile are elsewhere. */
	ck_assert(!fusion_fill_into(a, 1));
	ck_assert(!fusion_sync(context));
	ck_assert(memory[0] == 5.0F);
	ck_assert(!fusion_unmap(a));
	ck_assert(!fusion_unmap(a));
	ck_assert_int_eq(fusion_unmap(a), FUSION_E_STATE);
	fusion_error_clear();
	ck_assert_int_eq(fusion_version(a), 2);
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(copy_into_converts_and_broadcasts) {
	int64_t dims[] = { 2, 3 };
	fusion_array *a, *row;

	open_context();
	a = fusion_full(context, FUSION_I32, 2, dims, 0);
	row = vector(3, 5);
	ck_assert(!fusion_copy_into(a, row));
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.op_count[OP_cast], 1);
	ck_assert_uint_eq(fake.op_count[OP_broadcast], 1);
	ck_assert_uint_eq(fake.op_count[OP_fill], 0); /* what it held before is dead */
	ck_assert_int_eq(fusion_dtype_of(a), FUSION_I32);
	ck_assert_int_eq(fusion_copy_into(row, a), FUSION_E_SHAPE);
	expect_error(FUSION_E_SHAPE, "broadcast");
	ck_assert_int_eq(fusion_fill_into(a, 1.5), FUSION_E_DTYPE);
	expect_error(FUSION_E_DTYPE, "1.5");
	fusion_release(a);
	fusion_release(row);
	close_context();
}
END_TEST

/* --- captures ---------------------------------------------------------------------------- */

START_TEST(a_capture_holds_what_its_outputs_need) {
	fusion_array *x, *w, *unused, *y, *dead, *out = NULL;
	fusion_capture *capture;
	float back[3];

	open_context();
	x = vector(3, 0);
	w = vector(3, 1);
	unused = vector(3, 2);
	ck_assert(!fusion_capture_begin(context, 1, &x));
	dead = fusion_exp(unused);
	ck_assert(!fusion_scope_begin(context));
	y = fusion_keep(fusion_tanh(fusion_mul(x, w)));
	ck_assert(!fusion_scope_end(context));
	ck_assert_int_eq(fusion_read(y, back, sizeof back), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "a graph is being recorded");
	ck_assert_int_eq(fusion_capture_begin(context, 0, NULL), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "nest");
	capture = fusion_capture_end(context, 1, &y);
	ck_assert_msg(capture != NULL, "%s", fusion_error());
	ck_assert_uint_eq(fake.capture_ops, 2);
	ck_assert_uint_eq(fake.capture_inputs, 2); /* x, and w from outside; unused is not needed */
	ck_assert_uint_eq(fake.ops, 0);
	ck_assert_ptr_null(fusion_neg(y));
	expect_error(FUSION_E_STATE, "replay");
	fusion_release(y);
	fusion_release(dead);
	for (int i = 0; i < 20; i++) {
		ck_assert_msg(!fusion_replay(capture, &x, &out), "%s", fusion_error());
		ck_assert_int_eq(fusion_elements(out), 3);
		ck_assert(!fusion_read(out, back, sizeof back));
		fusion_release(x);
		x = out;
	}
	ck_assert_uint_eq(fake.requests[REQUEST_REPLAY], 20);
	ck_assert_uint_eq(fake.requests[REQUEST_DEFINE], 1);
	fusion_capture_free(capture);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.captures, 0);
	fusion_release(x);
	fusion_release(w);
	fusion_release(unused);
	close_context();
}
END_TEST

START_TEST(an_array_from_outside_is_bound_at_replay) {
	fusion_array *x, *w, *y, *out;
	fusion_capture *capture;
	uint64_t before;

	open_context();
	x = vector(3, 0);
	w = vector(3, 1);
	ck_assert(!fusion_capture_begin(context, 1, &x));
	y = fusion_mul(x, w);
	ck_assert_int_eq(fusion_copy_into(w, y), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "outside");
	capture = fusion_capture_end(context, 1, &y);
	ck_assert_ptr_nonnull(capture);
	fusion_release(y);
	ck_assert(!fusion_replay(capture, &x, &out));
	fusion_release(out);
	ck_assert(!fusion_sync(context));
	before = fake.replay_inputs[1];
	ck_assert(!fusion_fill_into(w, 3));
	ck_assert(!fusion_replay(capture, &x, &out));
	ck_assert(!fusion_sync(context));
	ck_assert_uint_ne(fake.replay_inputs[1], before);
	fusion_release(out);
	fusion_capture_free(capture);
	fusion_release(x);
	fusion_release(w);
	close_context();
}
END_TEST

START_TEST(inputs_may_be_outputs_and_change_in_between) {
	fusion_array *x, *acc, *next, *output[2], *out[2];
	fusion_capture *capture;

	open_context();
	x = vector(3, 0);
	ck_assert(!fusion_capture_begin(context, 1, &x));
	acc = fusion_neg(x);
	next = fusion_exp(acc);
	ck_assert(!fusion_copy_into(acc, next));
	fusion_release(next);
	output[0] = x;
	output[1] = acc;
	capture = fusion_capture_end(context, 2, output);
	ck_assert_msg(capture != NULL, "%s", fusion_error());
	ck_assert_uint_eq(fake.capture_ops, 3); /* neg, exp, and a copy of x */
	ck_assert(!fusion_replay(capture, &x, out));
	fusion_release(out[0]);
	fusion_release(out[1]);
	fusion_release(acc);
	fusion_release(x);
	fusion_capture_free(capture);
	close_context();
}
END_TEST

START_TEST(replay_refuses_other_shapes) {
	fusion_array *x, *y, *z, *out;
	fusion_capture *capture;

	open_context();
	x = vector(3, 0);
	z = vector(4, 0);
	ck_assert(!fusion_capture_begin(context, 1, &x));
	y = fusion_neg(x);
	capture = fusion_capture_end(context, 1, &y);
	ck_assert_int_eq(fusion_replay(capture, &z, &out), FUSION_E_SHAPE);
	expect_error(FUSION_E_SHAPE, "recorded as f32[3] and is f32[4]");
	ck_assert_ptr_null(fusion_capture_end(context, 1, &y));
	expect_error(FUSION_E_STATE, "records no graph");
	fusion_release(x);
	fusion_release(y);
	fusion_release(z);
	fusion_capture_free(capture);
	close_context();
}
END_TEST

START_TEST(a_capture_that_fails_leaves_the_context_as_it_was) {
	fusion_array *x, *y;

	open_context();
	x = vector(3, 0);
	ck_assert(!fusion_capture_begin(context, 1, &x));
	y = fusion_neg(x);
	ck_assert_ptr_null(fusion_capture_end(context, 0, NULL));
	expect_error(FUSION_E_ARGUMENT, "at least one output");
	fusion_release(y);
	y = fusion_neg(x);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.op_count[OP_neg], 1);
	fusion_release(x);
	fusion_release(y);
	close_context();
}
END_TEST

/* What it is at the recording would stand for what it is at each replay. */
START_TEST(an_input_is_not_read_while_a_graph_is_recorded) {
	fusion_array *x, *other;
	float values[3], *memory;

	open_context();
	x = vector(3, 0);
	other = vector(3, 0);
	ck_assert(!fusion_sync(context));
	ck_assert(!fusion_capture_begin(context, 1, &x));
	ck_assert_int_eq(fusion_read(x, values, sizeof values), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "stands for what each replay passes");
	ck_assert_int_eq(fusion_map(x, FUSION_MAP_READ, (void **)&memory), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "map: a graph is being recorded");
	ck_assert(!fusion_read(other, values, sizeof values));
	ck_assert(!fusion_capture_abort(context));
	ck_assert(!fusion_read(x, values, sizeof values));
	fusion_release(x);
	fusion_release(other);
	close_context();
}
END_TEST

START_TEST(a_context_may_close_while_it_records) {
	fusion_array *x, *y;

	open_context();
	x = vector(3, 0);
	ck_assert(!fusion_capture_begin(context, 1, &x));
	y = fusion_neg(x);
	fusion_close(context);
	fusion_release(x);
	fusion_release(y);
	fake_stop();
}
END_TEST

/* --- fusion.debug ------------------------------------------------------------------------ */

START_TEST(debug_names_the_operation_that_made_the_first_nan) {
	struct fusion_options options = { .debug = FUSION_ON };
	fusion_array *a, *b;
	int64_t dims[] = { 4, 8 };
	char sentence[160];

	open_context_with(options);
	ck_assert_str_eq(fake.options, "fusion.enabled=0");
	fake.nan_op = OP_tanh;
	fake.nan_at = 17;
	a = fusion_full(context, FUSION_F32, 2, dims, 1);
	b = fusion_exp(a);
	ck_assert_msg(b != NULL, "%s", fusion_error());
	snprintf(sentence, sizeof sentence, "tanh at %s:%d made the first NaN (element 17 of f32[4,8])",
		__FILE__, __LINE__ + 1);
	ck_assert_ptr_null(fusion_tanh(b));
	ck_assert_int_eq(fusion_error_code(), FUSION_E_NONFINITE);
	ck_assert_str_eq(fusion_error(), sentence);
	/* It stays until it is cleared, whatever follows. */
	ck_assert_ptr_null(fusion_neg(a));
	ck_assert_int_eq(fusion_sync(context), FUSION_E_NONFINITE);
	ck_assert_str_eq(fusion_error(), sentence);
	fusion_error_clear();
	fusion_release(fusion_neg(a));
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

START_TEST(debug_is_a_setting_at_run_time) {
	fusion_array *a, *b;
	int64_t dims[] = { 4, 8 };

	open_context();
	fake.nan_op = OP_tanh;
	fake.nan_at = 17;
	a = fusion_full(context, FUSION_F32, 2, dims, 1);
	b = fusion_tanh(a);
	ck_assert(!fusion_sync(context));
	fusion_release(b);
	ck_assert(!fusion_configure(context, "fusion.debug", "yes"));
	ck_assert_ptr_null(fusion_tanh(a));
	expect_error(FUSION_E_NONFINITE, "made the first NaN (element 17 of f32[4,8])");
	fusion_error_clear();
	ck_assert_int_eq(fusion_configure(context, "fusion.debug", "perhaps"), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "configure: fusion.debug is 'perhaps', but wants yes or no");
	ck_assert(!fusion_configure(context, "fusion.debug", "off"));
	b = fusion_tanh(a);
	ck_assert(!fusion_sync(context));
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

START_TEST(debug_blames_nothing_that_was_given_a_nan) {
	struct fusion_options options = { .debug = FUSION_ON };
	fusion_array *a, *b;
	float data[3] = { 1, __builtin_nanf(""), 2 };
	int64_t n = 3;

	open_context_with(options);
	fake.nan_op = OP_tanh;
	fake.nan_at = 1;
	a = fusion_from(context, FUSION_F32, 1, &n, data);
	ck_assert_ptr_nonnull(a);
	b = fusion_tanh(a);
	ck_assert_msg(b != NULL, "%s", fusion_error());
	fusion_release(a);
	fusion_release(b);
	a = fusion_full(context, FUSION_F32, 1, &n, __builtin_inff());
	b = fusion_tanh(a);
	ck_assert_msg(b != NULL, "%s", fusion_error());
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

RUN_TESTS("client_wait", a_refused_batch_names_the_line_of_the_operation,
	a_fault_of_a_run_names_the_line_at_the_next_sync, waiting_for_an_array_reports_its_fault_once,
	a_daemon_that_does_not_answer_in_time_is_an_error, closing_ends_reads_under_way,
	closing_right_after_sending_does_not_hang, a_callback_gets_the_elements,
	a_descriptor_becomes_readable, many_reads_may_be_under_way,
	the_read_follows_the_batch_without_waiting_for_its_acceptance,
	a_map_for_writing_changes_the_array_and_its_version, nothing_is_remembered_of_what_was_written_and_has_run,
	a_value_that_two_arrays_share_is_copied_before_it_is_written, maps_for_reading_nest,
	copy_into_converts_and_broadcasts, a_capture_holds_what_its_outputs_need,
	an_array_from_outside_is_bound_at_replay, inputs_may_be_outputs_and_change_in_between,
	replay_refuses_other_shapes, a_capture_that_fails_leaves_the_context_as_it_was, an_input_is_not_read_while_a_graph_is_recorded,
	a_context_may_close_while_it_records, debug_names_the_operation_that_made_the_first_nan,
	debug_blames_nothing_that_was_given_a_nan, debug_is_a_setting_at_run_time)

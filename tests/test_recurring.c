/*
 * daemon/serve/recurring.c: batches that come again do what they did, and what does not fit goes the way of any other.
 *
 * Every batch is sent often enough that its form is used, and each test looks at the counter, so that it tests what it says.
 */
#include "test_serve_engine.h"

#include "protocol/packed.h"
#include "tests/driver_cache.h"
#include "tests/suite.h"

static struct client client;
static uint32_t slots;

static void setup(void) {
	engine_open();
	client_begin(&client, 1);
	slots = 0;
}

static void teardown(void) {
	answer_close();
	engine_close();
}

static uint64_t fresh(void) {
	return handle_of(slots++, 1);
}

static unsigned again(void) {
	return (unsigned)statistic(&client, 0, "batches_again");
}

static uint32_t ask(const struct batch_text *b) {
	return submit_as(&client, ++client.seq, SUBMIT_URGENT, b);
}

static void run(const struct batch_text *b) {
	expect(ask(b), REQUEST_SUBMIT);
}

/* f32[n] of a value, stored. */
static uint64_t constant(int64_t n, double value) {
	struct batch_text b = { 0 };
	uint64_t h = fresh();

	batch_name(&b, batch_op(&b, OP_copy, batch_fill(&b, n, value), 0), h);
	run(&b);
	return h;
}

/* The values of one array and 100 times those of the other. */
static uint64_t ask_sum(uint64_t x, uint64_t y) {
	struct batch_text b = { 0 };
	uint64_t h = fresh();
	int64_t scaled = batch_op(&b, OP_mul, on_handle(y), batch_fill(&b, 1, 100));

	batch_name(&b, batch_op(&b, OP_add, on_handle(x), scaled), h);
	run(&b);
	return h;
}

static float first_of(uint64_t handle, unsigned count) {
	return read_floats(&client, handle, count)[0];
}

/* After two of a kind a third one comes again. */
static unsigned know_sums(void) {
	for (unsigned i = 0; i < 2; i++)
		ask_sum(constant(4, i), constant(4, i + 1));
	return again();
}

/* ---- what fits ---- */

START_TEST(the_third_batch_of_a_structure_comes_again_on_other_arrays) {
	unsigned known = know_sums();

	for (unsigned i = 0; i < 5; i++) {
		uint64_t x = constant(4, i), y = constant(4, 2 * i + 1);

		ck_assert_float_eq(first_of(ask_sum(x, y), 4), (float)(i + 100 * (2 * i + 1)));
	}
	ck_assert_uint_ge(again(), known + 5);
	ck_assert_double_ge(statistic(&client, 0, "plan_hits"), 5);
}
END_TEST

START_TEST(numbers_of_a_batch_may_differ) {
	for (unsigned i = 0; i < 6; i++) {
		struct batch_text b = { 0 };
		uint64_t h = fresh();

		batch_name(&b, batch_op(&b, OP_sub, batch_fill(&b, 4, 10 * i), batch_fill(&b, 4, i + 0.5)), h);
		run(&b);
		ck_assert_float_eq(first_of(h, 4), (float)(10 * i - (i + 0.5)));
	}
	/* With 0 and 0.5 both differ, as ever after. */
	ck_assert_uint_eq(again(), 4);
}
END_TEST

START_TEST(numbers_that_become_equal_are_another_graph) {
	for (unsigned i = 0; i < 5; i++) {
		struct batch_text b = { 0 };
		uint64_t h = fresh();

		batch_name(&b, batch_op(&b, OP_sub, batch_fill(&b, 4, 7), batch_fill(&b, 4, i == 3 ? 7 : i)), h);
		run(&b);
		ck_assert_float_eq(first_of(h, 4), i == 3 ? 0.0F : 7 - (float)i);
	}
	ck_assert_uint_eq(again(), 2);
}
END_TEST

/* The 0 of tril is not the client's, though the two are one node where they are equal. */
START_TEST(a_number_of_a_composite_does_not_follow_the_client_s) {
	for (unsigned i = 0; i < 8; i++) {
		double value = i < 4 ? 0 : i;
		struct batch_text b = { 0 };
		int64_t square = batch_fill(&b, 2, 3), number = batch_fill(&b, 1, value), lower;
		uint64_t h = fresh();

		b.op[square].attr.rank = 2;
		b.op[square].attr.dims[1] = 2;
		b.op[number].attr.rank = 0;
		lower = batch_op(&b, OP_tril, batch_op(&b, OP_copy, square, 0), 0);
		batch_name(&b, batch_op(&b, OP_add, lower, number), h);
		run(&b);
		ck_assert_float_eq(read_floats(&client, h, 4)[0], 3 + (float)value);
		ck_assert_float_eq(read_floats(&client, h, 4)[1], (float)value);
	}
	ck_assert_uint_eq(again(), 2);
}
END_TEST

START_TEST(uploads_go_to_other_places) {
	unsigned known;

	for (unsigned i = 0; i < 6; i++) {
		struct batch_text b = { 0 };
		uint64_t h = fresh();
		int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 8 });
		float *memory = (float *)(client.arena->base + b.op[load].attr.offset);

		memory[0] = (float)i;
		batch_name(&b, batch_op(&b, OP_neg, load, 0), h);
		run(&b);
		ck_assert_float_eq(first_of(h, 8), -(float)i);
		ck_assert_float_eq(read_floats(&client, h, 8)[7], -7);
	}
	known = again();
	ck_assert_uint_eq(known, 4);
}
END_TEST

/* A slice of what is uploaded, and that itself. */
START_TEST(views_follow_their_arrays) {
	for (unsigned i = 0; i < 5; i++) {
		struct batch_text b = { 0 };
		uint64_t h = fresh();
		int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 8 });
		int64_t slice = batch_op(&b, OP_slice, load, 0), flipped = batch_op(&b, OP_flip, load, 0);

		b.op[slice].attr = (struct op_attr){ .rank = 1, .start = { 2 }, .step = { 1 }, .dims = { 4 } };
		b.op[flipped].attr.axes = 1;
		slice = batch_op(&b, OP_add, slice, batch_fill(&b, 1, i));
		batch_name(&b, slice, h);
		batch_name(&b, flipped, fresh());
		run(&b);
		ck_assert_float_eq(read_floats(&client, h, 4)[3], 5 + (float)i);
		ck_assert_float_eq(read_floats(&client, handle_of(slots - 1, 1), 8)[0], 7);
	}
	ck_assert_uint_eq(again(), 3);
}
END_TEST

/* Some hundred operations, as of many small requests that are sent at once: each array is named again and again. */
START_TEST(a_batch_of_many_operands_comes_again) {
	enum { ARRAYS = 7, TERMS = BATCH_TEXT_OPS };
	unsigned known = 0;

	for (unsigned i = 0; i < 4; i++) {
		struct batch_text b = { 0 };
		uint64_t h = fresh(), x[ARRAYS];
		float sum = 0;
		int64_t all;

		for (unsigned k = 0; k < ARRAYS; k++)
			x[k] = constant(4, k * (i + 1) + i);
		if (i == 2)
			known = again();
		all = on_handle(x[0]);
		sum += (float)i;
		for (unsigned k = 1; k <= TERMS; k++) {
			all = batch_op(&b, OP_add, all, on_handle(x[k % ARRAYS]));
			sum += (float)(k % ARRAYS * (i + 1) + i);
		}
		batch_name(&b, all, h);
		run(&b);
		ck_assert_float_eq(first_of(h, 4), sum);
	}
	/* The constants of the last round come again, too. */
	ck_assert_uint_eq(again(), known + 2 + ARRAYS);
}
END_TEST

/* Numbers, which have attributes, make the form a large one. */
START_TEST(a_batch_of_many_numbers_comes_again) {
	unsigned known = 0;

	for (unsigned i = 0; i < 4; i++) {
		struct batch_text b = { 0 };
		uint64_t h = fresh(), x = constant(4, i);
		int64_t all = on_handle(x);
		float sum = (float)i;

		if (i == 2)
			known = again();
		while (b.ops < BATCH_TEXT_OPS) {
			float value = (float)(b.ops + i);

			sum += value;
			all = batch_op(&b, OP_add, all, batch_fill(&b, 4, value));
		}
		batch_name(&b, all, h);
		run(&b);
		ck_assert_float_eq(first_of(h, 4), sum);
	}
	/* The constant of the last round comes again, too. */
	ck_assert_uint_eq(again(), known + 2 + 1);
}
END_TEST

START_TEST(what_is_released_with_a_batch_is_gone) {
	know_sums();
	for (unsigned i = 0; i < 4; i++) {
		uint64_t x = constant(4, 3), y = constant(4, 4), h = fresh();
		struct batch_text b = { .release = { x, y }, .releases = 2 };
		int64_t scaled = batch_op(&b, OP_mul, on_handle(y), batch_fill(&b, 1, 100));
		unsigned before = again();

		batch_name(&b, batch_op(&b, OP_add, on_handle(x), scaled), h);
		run(&b);
		ck_assert_uint_eq(again(), before + 1);
		ck_assert_float_eq(first_of(h, 4), 403);
		expect_fault(ask_read(&client, x), FAULT_HANDLE);
	}
}
END_TEST

/* The first input and 100 times the second, recorded as graph 0. */
static void define_sum(void) {
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = 1, .dims = { 4 } };
	struct wire_writer *w = request_begin(&client, REQUEST_DEFINE, 5);
	struct batch_text b = { 0 };
	int64_t scaled = batch_op(&b, OP_mul, on_handle(1), batch_fill(&b, 1, 100));

	batch_op(&b, OP_add, on_handle(0), scaled);
	wire_put_uint(w, ++client.seq);
	wire_put_uint(w, 0);
	wire_put_array(w, 2);
	codec_put_type(w, &t);
	codec_put_type(w, &t);
	put_batch_ops(w, &b);
	put_list(w, 1, (uint64_t[]){ b.ops - 1 });
	expect(request_finish(), REQUEST_DEFINE);
}

static uint32_t ask_replay(uint64_t x, uint64_t y, uint64_t h) {
	struct wire_writer *w = request_begin(&client, REQUEST_REPLAY, 6);

	wire_put_uint(w, ++client.seq);
	wire_put_uint(w, SUBMIT_URGENT);
	wire_put_uint(w, 0);
	put_list(w, 2, (uint64_t[]){ x, y });
	put_list(w, 1, &h);
	put_list(w, 0, NULL);
	return request_finish();
}

static float replay(uint64_t x, uint64_t y) {
	uint64_t h = fresh();

	expect(ask_replay(x, y, h), REQUEST_REPLAY);
	return first_of(h, 4);
}

START_TEST(a_recorded_graph_is_kept_from_its_first_replay) {
	uint64_t x[4], y[4];
	unsigned known;

	define_sum();
	for (unsigned i = 0; i < 4; i++) {
		x[i] = constant(4, i);
		y[i] = constant(4, i + 2);
		ck_assert_float_eq(replay(x[i], y[i]), (float)(i + 100 * (i + 2)));
	}
	known = again();
	for (unsigned i = 0; i < 4; i++)
		ck_assert_float_eq(replay(x[i], y[3 - i]), (float)(i + 100 * (5 - i)));
	ck_assert_uint_eq(again(), known + 4);
	ck_assert_double_eq(statistic(&client, 0, "replays"), 8);
}
END_TEST

START_TEST(replays_that_do_not_fit_go_the_old_way) {
	uint64_t x = constant(4, 2), y = constant(4, 3);
	unsigned known;

	define_sum();
	ck_assert_float_eq(replay(x, x), 202);
	ck_assert_float_eq(replay(x, y), 302);
	known = again();
	ck_assert_float_eq(replay(y, y), 303);
	ck_assert_uint_eq(again(), known);
	expect_fault(ask_replay(x, constant(8, 1), fresh()), FAULT_SHAPE);
	expect_fault(ask_replay(handle_of(999, 1), y, fresh()), FAULT_HANDLE);
	ck_assert_float_eq(replay(y, x), 203);
	ck_assert_uint_ge(again(), known + 1);
	expect(request_numbers(&client, REQUEST_FORGET, 2, (uint64_t[]){ ++client.seq, 0 }), REQUEST_FORGET);
	define_sum();
	ck_assert_float_eq(replay(x, y), 302);
}
END_TEST

/* ---- what does not ---- */

START_TEST(arrays_of_another_shape_are_another_form) {
	unsigned known = know_sums();

	ck_assert_float_eq(first_of(ask_sum(constant(8, 1), constant(8, 2)), 8), 201);
	ck_assert_float_eq(first_of(ask_sum(constant(4, 1), constant(4, 2)), 4), 201);
	ck_assert_uint_ge(again(), known + 1);
}
END_TEST

START_TEST(one_array_twice_is_another_graph) {
	uint64_t x = constant(4, 2), y = constant(4, 3);
	unsigned known = know_sums();

	ck_assert_float_eq(first_of(ask_sum(x, x), 4), 202);
	ck_assert_uint_eq(again(), known);
	ck_assert_float_eq(first_of(ask_sum(x, y), 4), 302);
	ck_assert_uint_eq(again(), known + 1);
}
END_TEST

START_TEST(arrays_that_are_not_there_are_told_as_ever) {
	uint64_t x = constant(4, 2);
	struct batch_text b = { 0 };
	int64_t scaled;
	uint64_t h = fresh();

	know_sums();
	scaled = batch_op(&b, OP_mul, on_handle(handle_of(4711, 1)), batch_fill(&b, 1, 100));
	batch_name(&b, batch_op(&b, OP_add, on_handle(x), scaled), h);
	ck_assert_ptr_nonnull(strstr(expect_fault(ask(&b), FAULT_HANDLE), "mul, argument a: handle 4711"));
	expect_fault(ask_read(&client, h), FAULT_HANDLE);
	ck_assert_float_eq(first_of(ask_sum(x, constant(4, 1)), 4), 102);
}
END_TEST

/* What a form was bound to before it did not fit is let go of by the next batch. */
START_TEST(refused_batches_keep_no_arrays) {
	uint64_t x = constant(8, 2);
	struct session *s = session_find(engine.server, client.session, client.secret);

	for (unsigned i = 0; i < 50; i++) {
		struct batch_text b = { 0 };
		int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 8 });

		if (i >= 3)
			b.op[load].attr.offset = ENGINE_ARENA_BYTES;
		batch_name(&b, batch_op(&b, OP_add, load, on_handle(x)), fresh());
		if (i < 3)
			run(&b);
		else
			expect_fault(ask(&b), FAULT_ARGUMENT);
		ck_assert_uint_le(s->useds, 2);
	}
	ck_assert_float_eq(first_of(ask_sum(x, constant(8, 1)), 8), 102);
}
END_TEST

START_TEST(a_place_beyond_the_arena_is_told_as_ever) {
	for (unsigned i = 0; i < 4; i++) {
		struct batch_text b = { 0 };
		uint64_t h = fresh();
		int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 8 });

		if (i == 3)
			b.op[load].attr.offset = ENGINE_ARENA_BYTES;
		batch_name(&b, batch_op(&b, OP_neg, load, 0), h);
		if (i < 3)
			run(&b);
		else
			expect_fault(ask(&b), FAULT_ARGUMENT);
	}
	ck_assert_float_eq(first_of(ask_sum(constant(4, 1), constant(4, 1)), 4), 101);
}
END_TEST

START_TEST(a_handle_in_use_refuses_the_batch) {
	uint64_t x = constant(4, 2), y = constant(4, 3), h = ask_sum(x, y);
	struct batch_text b = { 0 };
	int64_t scaled;
	unsigned known = know_sums();

	scaled = batch_op(&b, OP_mul, on_handle(y), batch_fill(&b, 1, 100));
	batch_name(&b, batch_op(&b, OP_add, on_handle(x), scaled), h);
	ck_assert_ptr_nonnull(strstr(expect_fault(ask(&b), FAULT_HANDLE), "in use"));
	ck_assert_uint_eq(again(), known + 1);
	ck_assert_float_eq(first_of(h, 4), 302);
	ck_assert_float_eq(first_of(ask_sum(x, y), 4), 302);
}
END_TEST

/* The second finds the device busy and waits; so the third, which has come before, joins it. */
START_TEST(batches_that_join_others_go_the_old_way) {
	uint64_t x = constant(4, 2), y = constant(4, 3);
	uint32_t number[3];
	uint64_t handle[3];
	unsigned known;

	know_sums();
	configure(&client, "fusion.window_us", "1s");
	engine_turn_until(engine_is_idle, 0);
	known = again();
	for (unsigned i = 0; i < 3; i++) {
		struct batch_text b = { 0 };
		int64_t scaled = batch_op(&b, OP_mul, on_handle(y), batch_fill(&b, 1, 100));

		handle[i] = fresh();
		batch_name(&b, batch_op(&b, OP_add, on_handle(x), scaled), handle[i]);
		number[i] = i == 1 ? submit(&client, &b) : ask(&b);
	}
	for (unsigned i = 0; i < 3; i++) {
		expect(number[i], REQUEST_SUBMIT);
		ck_assert_float_eq(first_of(handle[i], 4), 302);
	}
	ck_assert_uint_eq(again(), known + 1);
}
END_TEST

/* A form is a session's own, and goes with it. */
START_TEST(sessions_know_their_own_forms_alone) {
	struct client first, other;

	know_sums();
	first = client;
	client_begin(&other, 2);
	client = other;
	ck_assert_float_eq(first_of(ask_sum(constant(4, 1), constant(4, 2)), 4), 201);
	ck_assert_uint_eq(again(), 0);
	client_end(&client);
	client = first;
	ck_assert_float_eq(first_of(ask_sum(constant(4, 1), constant(4, 3)), 4), 301);
	ck_assert_uint_gt(again(), 0);
}
END_TEST

START_TEST(it_can_be_switched_off) {
	unsigned known = know_sums();

	configure(&client, "fusion.recurring", "no");
	ck_assert_float_eq(first_of(ask_sum(constant(4, 1), constant(4, 2)), 4), 201);
	ck_assert_uint_eq(again(), known);
	configure(&client, "fusion.recurring", "yes");
	ck_assert_float_eq(first_of(ask_sum(constant(4, 1), constant(4, 2)), 4), 201);
	ck_assert_uint_gt(again(), known);
}
END_TEST

/* More than are kept, in turns, each with the number of its operations. */
START_TEST(who_was_used_longest_ago_is_forgotten) {
	for (unsigned round = 0; round < 3; round++) {
		for (int length = 1; length <= 24; length++) {
			struct batch_text b = { 0 };
			int64_t v = batch_fill(&b, 4, length);
			uint64_t h = fresh();

			for (int i = 0; i < length; i++)
				v = batch_op(&b, OP_neg, v, 0);
			batch_name(&b, v, h);
			run(&b);
			ck_assert_float_eq(first_of(h, 4), (float)(length % 2 ? -length : length));
		}
	}
	ck_assert_uint_eq(again(), 0);
	for (unsigned i = 0; i < 3; i++)
		constant(4, i);
	ck_assert_uint_ge(again(), 1);
}
END_TEST

/* ---- frames that nobody honest sends ---- */

static void put_sum(struct wire_writer *w, uint64_t seq, uint64_t x, uint64_t y, uint64_t h) {
	struct batch_text b = { 0 };
	int64_t scaled = batch_op(&b, OP_mul, on_handle(y), batch_fill(&b, 1, 100));

	batch_name(&b, batch_op(&b, OP_add, on_handle(x), scaled), h);
	wire_put_uint(w, seq);
	wire_put_uint(w, SUBMIT_URGENT);
	put_batch_ops(w, &b);
	put_list(w, b.outputs, b.output);
	put_list(w, 0, NULL);
}

/* Its number: behind three small ones and the secret with its head. With another one it would be held, and run later. */
static bool is_number(size_t at, uint64_t seq) {
	const size_t begin = 3 + 2 + LIMIT_SECRET_BYTES;

	return at == begin || (at == begin + 1 && seq > 127);
}

/* Every byte of a frame that fits, changed: answered, and what was there stays. */
START_TEST(frames_with_a_changed_byte_change_nothing) {
	uint64_t x = constant(4, 2), y = constant(4, 3);
	unsigned char bytes[512];
	size_t size;

	know_sums();
	for (size_t at = 0; at < sizeof bytes; at++) {
		struct wire_writer *w = request_begin(&client, REQUEST_SUBMIT, 5);
		uint32_t number;

		put_sum(w, client.seq + 1, x, y, fresh());
		size = w->buffer.size;
		ck_assert_uint_le(size, sizeof bytes);
		memcpy(bytes, w->buffer.data, size);
		wire_writer_free(w);
		if (at == size)
			break;
		if (is_number(at, client.seq + 1))
			continue;
		bytes[at] ^= (unsigned char)(1U << (at % 8));
		number = transport_memory_send(engine.transport, bytes, size);
		server_turn(engine.server);
		if (engine.server->sessions->next == client.seq + 2) {
			client.seq++;
			answer_wait(number);
		}
	}
	ck_assert_float_eq(first_of(x, 4), 2);
	ck_assert_float_eq(first_of(ask_sum(x, y), 4), 302);
}
END_TEST

/* ... and cut short anywhere. */
START_TEST(frames_that_end_early_are_refused) {
	uint64_t x = constant(4, 2), y = constant(4, 3), h = fresh();
	struct wire_writer *w;
	unsigned char bytes[512];
	size_t size;

	know_sums();
	w = request_begin(&client, REQUEST_SUBMIT, 5);
	put_sum(w, client.seq + 1, x, y, h);
	size = w->buffer.size;
	ck_assert_uint_le(size, sizeof bytes);
	memcpy(bytes, w->buffer.data, size);
	wire_writer_free(w);
	for (size_t i = 1; i < size; i++)
		expect_fault(transport_memory_send(engine.transport, bytes, i), FAULT_PROTOCOL);
	client.seq++;
	expect(transport_memory_send(engine.transport, bytes, size), REQUEST_SUBMIT);
	ck_assert_float_eq(first_of(h, 4), 302);
}
END_TEST

/* ---- the reader ---- */

/* What it makes of any bytes is what msgpack-c does. */
START_TEST(numbers_are_read_as_msgpack_reads_them) {
	static const int64_t numbers[] = { 0, 1, 127, 128, 255, 256, 65535, 65536, UINT32_MAX, (int64_t)UINT32_MAX + 1, INT64_MAX, -1,
		-32, -33, -128, -129, -32768, -32769, INT32_MIN, (int64_t)INT32_MIN - 1, INT64_MIN };
	struct wire_writer w;

	wire_writer_init(&w);
	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		struct packed p, q;
		uint64_t positive = 0;
		int64_t negative = 0;

		wire_writer_clear(&w);
		wire_put_int(&w, numbers[i]);
		p = q = (struct packed){ (uint8_t *)w.buffer.data, (uint8_t *)w.buffer.data + w.buffer.size };
		ck_assert_int_eq(packed_uint(&p, &positive), numbers[i] >= 0);
		ck_assert_int_eq(packed_negative(&q, &negative), numbers[i] < 0);
		ck_assert_int_eq(numbers[i] < 0 ? negative : (int64_t)positive, numbers[i]);
		for (size_t size = 0; size < w.buffer.size; size++) {
			p = q = (struct packed){ (uint8_t *)w.buffer.data, (uint8_t *)w.buffer.data + size };
			ck_assert(!packed_uint(&p, &positive));
			ck_assert(!packed_negative(&q, &negative));
			ck_assert(!packed_skip(&p) || !size || p.next > p.end - size);
		}
	}
	wire_writer_free(&w);
}
END_TEST

/* Bytes by chance: what wire_open() accepts is passed by whole, and nothing is read beyond the end. */
START_TEST(any_value_is_passed_by_as_a_whole) {
	unsigned char *bytes;
	uint32_t state = 1;
	unsigned accepted = 0;

	for (unsigned i = 0; i < 20000; i++) {
		size_t size = 1 + i % 24;
		struct wire_reader r;
		struct packed p;
		struct fault f;

		/* Of exactly this size, for the address sanitizer. */
		bytes = malloc(size);
		ck_assert_ptr_nonnull(bytes);
		for (size_t k = 0; k < size; k++) {
			state = state * 1664525 + 1013904223;
			bytes[k] = (unsigned char)(state >> 24);
		}
		bytes[0] = (unsigned char)(0x90 | (bytes[0] & 7));
		p = (struct packed){ bytes, bytes + size };
		if (!wire_open(&r, bytes, size, &f)) {
			bool maps = memchr(bytes, 0x80, size) != NULL;

			for (size_t k = 0; k < size; k++)
				maps |= (bytes[k] & 0xf0) == 0x80 || bytes[k] == 0xde || bytes[k] == 0xdf;
			accepted++;
			ck_assert(maps || (packed_skip(&p) && p.next == p.end));
			wire_close(&r);
		} else if (packed_skip(&p)) {
			ck_assert(p.next <= p.end);
		}
		free(bytes);
	}
	ck_assert_uint_gt(accepted, 100);
}
END_TEST

static void add_tests(TCase *t) {
	tcase_add_test(t, the_third_batch_of_a_structure_comes_again_on_other_arrays);
	tcase_add_test(t, numbers_of_a_batch_may_differ);
	tcase_add_test(t, numbers_that_become_equal_are_another_graph);
	tcase_add_test(t, a_number_of_a_composite_does_not_follow_the_client_s);
	tcase_add_test(t, uploads_go_to_other_places);
	tcase_add_test(t, views_follow_their_arrays);
	tcase_add_test(t, a_batch_of_many_operands_comes_again);
	tcase_add_test(t, a_batch_of_many_numbers_comes_again);
	tcase_add_test(t, what_is_released_with_a_batch_is_gone);
	tcase_add_test(t, a_recorded_graph_is_kept_from_its_first_replay);
	tcase_add_test(t, replays_that_do_not_fit_go_the_old_way);
	tcase_add_test(t, arrays_of_another_shape_are_another_form);
	tcase_add_test(t, one_array_twice_is_another_graph);
	tcase_add_test(t, arrays_that_are_not_there_are_told_as_ever);
	tcase_add_test(t, refused_batches_keep_no_arrays);
	tcase_add_test(t, a_place_beyond_the_arena_is_told_as_ever);
	tcase_add_test(t, a_handle_in_use_refuses_the_batch);
	tcase_add_test(t, batches_that_join_others_go_the_old_way);
	tcase_add_test(t, sessions_know_their_own_forms_alone);
	tcase_add_test(t, it_can_be_switched_off);
	tcase_add_test(t, who_was_used_longest_ago_is_forgotten);
	tcase_add_test(t, frames_with_a_changed_byte_change_nothing);
	tcase_add_test(t, frames_that_end_early_are_refused);
}

int main(void) {
	Suite *suite = suite_create("recurring");
	TCase *tests = tcase_create("recurring"), *reader = tcase_create("packed");
	char command[128];
	int failed;

	strcpy(engine_cache, "/tmp/test_recurring_XXXXXX");
	if (!mkdtemp(engine_cache) || !driver_cache_link(engine_cache))
		return 2;
	log_set_level(LOG_LEVEL_ERROR);
	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, setup, teardown);
	add_tests(tests);
	tcase_add_test(reader, numbers_are_read_as_msgpack_reads_them);
	tcase_add_test(reader, any_value_is_passed_by_as_a_whole);
	suite_add_tcase(suite, tests);
	suite_add_tcase(suite, reader);
	failed = suite_run(suite);
	snprintf(command, sizeof command, "rm -rf %s", engine_cache);
	return system(command) || failed;
}

/*
 * daemon/serve: sessions, their order, handles, the window and every request, on the real device.
 */
#include "test_serve_engine.h"

#include <fcntl.h>

#include "daemon/serve/account.h"
#include "daemon/serve/wait.h"
#include "tests/driver_cache.h"
#include "tests/suite.h"

static struct client client;

static void setup(void) {
	engine_open();
	client_begin(&client, 1);
}

static void teardown(void) {
	answer_close();
	engine_close();
}

/* Names f32[4] of a value as slot 0 and so on, and waits until it was accepted. */
static uint64_t make(struct client *c, uint32_t slot, double value) {
	struct batch_text b = { 0 };
	int64_t node = batch_fill(&b, 4, value);

	batch_name(&b, batch_op(&b, OP_copy, node, 0), handle_of(slot, 1));
	expect(submit(c, &b), REQUEST_SUBMIT);
	return handle_of(slot, 1);
}

static void release(struct client *c, uint64_t handle) {
	struct batch_text b = { .release = { handle }, .releases = 1 };

	expect(submit(c, &b), REQUEST_SUBMIT);
}

/* ---- frames ---- */

START_TEST(garbage_is_refused_and_changes_nothing) {
	static const char *const garbage[] = { "\xc1", "x", "\x90", "\x91\x01", "\x93\x01\x02\x03",
		"\xdd\xff\xff\xff\xff", "\x81\x01\x02", "\x91\x91\x91\x91\x91\x91\x91\x91\x01",
		"\xdb\xff\xff\xff\xff" };

	for (unsigned i = 0; i < sizeof garbage / sizeof *garbage; i++)
		expect_fault(transport_memory_send(engine.transport, garbage[i], strlen(garbage[i])),
			FAULT_PROTOCOL);
	expect_fault(transport_memory_send(engine.transport, "", 0), FAULT_PROTOCOL);
	ck_assert_float_eq(read_floats(&client, make(&client, 0, 3), 4)[3], 3);
}
END_TEST

/* The bytes of a batch that exercises loads, handles, attributes and releases. */
static size_t a_good_frame(unsigned char *bytes, size_t room) {
	struct batch_text b = { 0 };
	struct wire_writer *w = request_begin(&client, REQUEST_SUBMIT, 5);
	int64_t load = batch_load(&client, &b, 2, (int64_t[]){ 2, 3 });
	int64_t sum = batch_op(&b, OP_add, load, load);
	int64_t slice = batch_op(&b, OP_slice, sum, 0);
	size_t size;

	b.op[slice].attr =
		(struct op_attr){ .rank = 2, .dims = { 1, 2 }, .start = { 1, 2 }, .step = { 1, -1 } };
	batch_name(&b, slice, handle_of(5, 1));
	wire_put_uint(w, client.seq + 1);
	wire_put_uint(w, 0);
	put_batch_ops(w, &b);
	put_list(w, b.outputs, b.output);
	put_list(w, 0, NULL);
	size = w->buffer.size;
	ck_assert_uint_le(size, room);
	memcpy(bytes, w->buffer.data, size);
	wire_writer_free(w);
	return size;
}

START_TEST(every_truncation_of_a_batch_is_refused_and_changes_nothing) {
	unsigned char bytes[512];
	size_t size = a_good_frame(bytes, sizeof bytes);

	for (size_t n = 0; n < size; n++)
		expect_fault(transport_memory_send(engine.transport, bytes, n), FAULT_PROTOCOL);
	expect(transport_memory_send(engine.transport, bytes, size), REQUEST_SUBMIT);
	client.seq++;
	ck_assert_float_eq(read_floats(&client, handle_of(5, 1), 2)[0], 10);
}
END_TEST

/* A byte changed at random: whatever it means now, the daemon lives and other sessions go on. */
START_TEST(mutated_batches_harm_nobody_else) {
	unsigned char good[512], bad[512];
	size_t size = a_good_frame(good, sizeof good);
	struct client other;
	unsigned seed = 1;

	client_begin(&other, 2);
	for (unsigned i = 0; i < 4000; i++) {
		memcpy(bad, good, size);
		for (unsigned k = 0; k <= i % 3; k++)
			bad[rand_r(&seed) % size] = (unsigned char)rand_r(&seed);
		transport_memory_send(engine.transport, bad, size);
		server_turn(engine.server);
	}
	ck_assert_float_eq(read_floats(&other, make(&other, 0, 7), 4)[0], 7);
}
END_TEST

START_TEST(a_wrong_secret_and_an_unknown_session_are_refused_alike) {
	struct client wrong = client, unknown = client;
	char first[LIMIT_SENTENCE];

	wrong.secret[LIMIT_SECRET_BYTES - 1] ^= 1;
	unknown.session = 99;
	strcpy(first,
		expect_fault(request_numbers(&wrong, REQUEST_STATS, 1, (uint64_t[]){ 0 }), FAULT_CONNECT));
	ck_assert_ptr_nonnull(strstr(first, "session 1"));
	expect_fault(request_numbers(&unknown, REQUEST_STATS, 1, (uint64_t[]){ 0 }), FAULT_CONNECT);
}
END_TEST

START_TEST(a_message_that_does_not_exist_is_refused) {
	expect_fault(request_numbers(&client, 0, 1, (uint64_t[]){ 0 }), FAULT_PROTOCOL);
	expect_fault(request_numbers(&client, 77, 1, (uint64_t[]){ 0 }), FAULT_PROTOCOL);
}
END_TEST

/* The supervisor's packets lie in the socket when the request arrives; no turn has read them. */
START_TEST(a_session_and_an_arena_on_their_way_are_waited_for) {
	struct batch_text b = { 0 };
	struct client fresh;
	uint32_t number;

	server_turn(engine.server);
	client_begin(&fresh, 2);
	batch_name(&b, batch_load(&fresh, &b, 1, (int64_t[]){ 4 }), handle_of(0, 1));
	number = submit(&fresh, &b);
	request_arrived(engine.server, inbox_take(&engine.inbox));
	usleep(1000); /* a value may be asked for right behind it */
	accepted_turn(engine.server);
	ck_assert(answered(number));
	expect(number, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&fresh, handle_of(0, 1), 4)[3], 3);
}
END_TEST

/* ---- order ---- */

static bool is_bad(uint64_t session) {
	return atomic_load(&engine.bad) == session;
}

START_TEST(a_session_whose_ring_did_not_come_is_ended) {
	struct transport *transport;
	struct client deaf;

	ck_assert_int_eq(rings_new(&engine.server->rings, &transport), 0);
	client_announce(&deaf, 2, true);
	engine_turn_until(is_bad, 2);
	client_end(&deaf);
	transport_close(transport);
	engine.server->rings = NULL;
}
END_TEST

static void say_arena(uint64_t session, unsigned arena, int fd) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, CONTROL_ARENA);
	wire_put_uint(&w, session);
	wire_put_uint(&w, arena);
	wire_put_uint(&w, ENGINE_ARENA_BYTES);
	wire_put_uint(&w, ARENA_OF_CLIENT);
	supervisor_say(&w, fd);
}

START_TEST(a_session_whose_memory_cannot_be_mapped_is_ended) {
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct client c;

	client_announce(&c, 2, false);
	say_arena(2, 1, fd);
	close(fd);
	engine_turn_until(is_bad, 2);
	client_end(&c);
}
END_TEST

/* A process without room for more descriptors gets the packet without it. */
START_TEST(memory_that_came_without_its_descriptor_is_missed_where_it_is_used) {
	struct batch_text b = { 0 };
	int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 4 });

	say_arena(client.session, 55, -1);
	b.op[load].attr.arena = 55;
	batch_name(&b, load, handle_of(0, 1));
	ck_assert_ptr_nonnull(strstr(expect_fault(submit(&client, &b), FAULT_LIMIT), "no descriptor left for a session's memory"));
	ck_assert_float_eq(read_floats(&client, make(&client, 1, 3), 4)[3], 3);
	ck_assert(!is_bad(client.session));
}
END_TEST

START_TEST(batches_run_in_the_order_of_their_numbers) {
	struct batch_text first = { 0 }, second = { 0 };
	uint32_t early, late;

	batch_name(&first, batch_fill(&first, 4, 2), handle_of(0, 1));
	batch_name(&second, batch_op(&second, OP_add, on_handle(handle_of(0, 1)), on_handle(handle_of(0, 1))),
		handle_of(1, 1));
	early = submit_as(&client, 2, 0, &second);
	server_turn(engine.server);
	ck_assert(!answered(early));
	late = submit_as(&client, 1, 0, &first);
	client.seq = 2;
	expect(late, REQUEST_SUBMIT);
	expect(early, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(1, 1), 4)[0], 4);
}
END_TEST

START_TEST(a_read_waits_for_the_batch_it_comes_after) {
	struct batch_text b = { 0 };
	uint32_t number;

	batch_name(&b, batch_fill(&b, 4, 2), handle_of(0, 1));
	number = request_numbers(&client, REQUEST_READ, 2, (uint64_t[]){ 1, handle_of(0, 1) });
	server_turn(engine.server);
	ck_assert(!answered(number));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	expect(number, REQUEST_READ);
}
END_TEST

START_TEST(a_number_that_was_used_is_refused) {
	struct batch_text b = { 0 };

	expect(submit_as(&client, 1, 0, &b), REQUEST_SUBMIT);
	expect_fault(submit_as(&client, 1, 0, &b), FAULT_STATE);
	expect_fault(submit_as(&client, 0, 0, &b), FAULT_STATE);
	expect(submit_as(&client, 2, 0, &b), REQUEST_SUBMIT);
}
END_TEST

START_TEST(a_number_that_is_held_already_is_refused) {
	struct batch_text b = { 0 };
	uint32_t held = submit_as(&client, 2, 0, &b);

	expect_fault(submit_as(&client, 2, 0, &b), FAULT_STATE);
	expect(submit_as(&client, 1, 0, &b), REQUEST_SUBMIT);
	expect(held, REQUEST_SUBMIT);
}
END_TEST

START_TEST(a_number_too_far_ahead_is_refused) {
	struct batch_text b = { 0 };

	expect_fault(submit_as(&client, 1000, 0, &b), FAULT_PROTOCOL);
}
END_TEST

START_TEST(what_is_held_is_bounded) {
	for (unsigned i = 0; i < SESSION_HELD; i++)
		request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ 1 });
	expect_fault(request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ 1 }), FAULT_LIMIT);
}
END_TEST

START_TEST(a_refused_batch_uses_its_number_up) {
	struct batch_text bad = { 0 }, good = { 0 };

	batch_op(&bad, OP_add, on_handle(77), on_handle(77));
	expect_fault(submit(&client, &bad), FAULT_HANDLE);
	expect(submit(&client, &good), REQUEST_SUBMIT);
}
END_TEST

/* ---- handles ---- */

START_TEST(a_handle_that_was_never_used_is_refused) {
	ck_assert_ptr_nonnull(
		strstr(expect_fault(ask_read(&client, handle_of(9, 1)), FAULT_HANDLE), "handle 9"));
	make(&client, 0, 1);
	expect_fault(ask_read(&client, handle_of(0, 2)), FAULT_HANDLE);
	expect_fault(ask_read(&client, handle_of(0, 0)), FAULT_HANDLE);
	expect_fault(ask_read(&client, INT64_MAX), FAULT_HANDLE);
}
END_TEST

START_TEST(a_released_handle_is_refused) {
	uint64_t handle = make(&client, 0, 1);

	release(&client, handle);
	ck_assert_ptr_nonnull(strstr(expect_fault(ask_read(&client, handle), FAULT_HANDLE), "released"));
}
END_TEST

START_TEST(a_stale_handle_is_refused_with_the_generation_of_its_slot) {
	uint64_t handle = make(&client, 0, 1);
	struct batch_text b = { .release = { handle }, .releases = 1 };

	expect(submit(&client, &b), REQUEST_SUBMIT);
	b = (struct batch_text){ 0 };
	batch_name(&b, batch_fill(&b, 4, 2), handle_of(0, 5));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	ck_assert_ptr_nonnull(strstr(expect_fault(ask_read(&client, handle), FAULT_HANDLE), "generation 5"));
	ck_assert_float_eq(read_floats(&client, handle_of(0, 5), 4)[0], 2);
}
END_TEST

/* Slots are the client's to choose, and what lies between is free. */
START_TEST(an_array_at_the_last_slot_costs_no_table) {
	uint32_t last = (uint32_t)engine.server->config.limits_handles - 1;
	struct client other;
	double before;

	client_begin(&other, 2);
	before = statistic(&other, 0, "memory_of_user");
	make(&client, last, 3);
	ck_assert_float_eq(read_floats(&client, handle_of(last, 1), 4)[0], 3);
	ck_assert_double_lt(statistic(&other, 0, "memory_of_user") - before, 64 << 10);
	expect_fault(ask_read(&client, handle_of(last - 1000, 1)), FAULT_HANDLE);
	client_end(&client);
	ck_assert_double_eq(statistic(&other, 0, "memory_of_user"), before);
}
END_TEST

START_TEST(memory_for_arrays_beyond_the_users_limit_is_refused) {
	struct batch_text b = { 0 };
	struct client scattered;
	uint32_t slot = 0;

	engine.server->config.limits_user_memory = 1 << 20;
	client_begin(&scattered, 2);
	for (bool refused = false; !refused; slot += 1000) {
		ck_assert_uint_lt(slot, 300 * 1000);
		b = (struct batch_text){ 0 };
		batch_name(&b, batch_fill(&b, 4, 1), handle_of(slot, 1));
		refused = statistic(&scattered, 0, "memory_of_user") > (1 << 20) - 6000;
		if (!refused)
			expect(submit(&scattered, &b), REQUEST_SUBMIT);
	}
	ck_assert_ptr_nonnull(strstr(expect_fault(submit(&scattered, &b), FAULT_LIMIT), "limits.user_memory"));
	ck_assert_float_eq(read_floats(&scattered, handle_of(0, 1), 4)[0], 1);
	client_end(&scattered);
}
END_TEST

START_TEST(a_handle_of_another_session_is_refused) {
	struct client other;
	uint64_t handle = make(&client, 0, 1);
	struct batch_text b = { 0 };

	client_begin(&other, 2);
	expect_fault(ask_read(&other, handle), FAULT_HANDLE);
	batch_op(&b, OP_neg, on_handle(handle), 0);
	expect_fault(submit(&other, &b), FAULT_HANDLE);
}
END_TEST

START_TEST(an_output_needs_a_free_slot_and_a_new_generation) {
	struct batch_text b = { 0 };
	uint64_t handle = make(&client, 0, 1);

	batch_name(&b, batch_fill(&b, 4, 2), handle_of(0, 2));
	ck_assert_ptr_nonnull(strstr(expect_fault(submit(&client, &b), FAULT_HANDLE), "in use"));
	release(&client, handle);
	b.output[1] = handle;
	ck_assert_ptr_nonnull(strstr(expect_fault(submit(&client, &b), FAULT_HANDLE), "generation"));
}
END_TEST

START_TEST(a_slot_beyond_the_limit_is_refused) {
	struct batch_text b = { 0 };

	batch_name(&b, batch_fill(&b, 4, 2), handle_of(LIMIT_HANDLES, 1));
	expect_fault(submit(&client, &b), FAULT_LIMIT);
}
END_TEST

START_TEST(a_release_twice_is_refused) {
	uint64_t handle = make(&client, 0, 1);
	struct batch_text b = { .release = { handle }, .releases = 1 };

	release(&client, handle);
	expect_fault(submit(&client, &b), FAULT_HANDLE);
}
END_TEST

static bool nothing_used(uint64_t unused) {
	(void)unused;
	return space_used(engine.server->sessions->space) == 0;
}

/* Memory is taken when a run is launched, once its program is built. */
static bool something_used(uint64_t unused) {
	return !nothing_used(unused);
}

START_TEST(releases_give_memory_back) {
	for (uint32_t i = 0; i < 20; i++)
		make(&client, i, i);
	ck_assert_double_eq(statistic(&client, 0, "arrays"), 20);
	engine_turn_until(something_used, 0);
	ck_assert_double_gt(statistic(&client, 0, "memory_bytes"), 0);
	for (uint32_t i = 0; i < 20; i++)
		release(&client, handle_of(i, 1));
	ck_assert_double_eq(statistic(&client, 0, "arrays"), 0);
	engine_turn_until(nothing_used, 0);
}
END_TEST

START_TEST(client_memory_is_told_as_free_once_nothing_uses_it) {
	struct batch_text b = { 0 };
	struct wire_cursor freed;
	struct fault f;
	int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 100 });

	batch_name(&b, load, handle_of(0, 1));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	expect(request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ client.seq }), REQUEST_WAIT);
	answer_number();
	ck_assert_int_eq(wire_get_array(&answer.body, "freed", 1000, &freed, &f), 0);
	ck_assert_uint_eq(freed.left, 0);
	release(&client, handle_of(0, 1));
	engine_turn_until(engine_is_idle, 0);
	expect(request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ client.seq }), REQUEST_WAIT);
	answer_number();
	ck_assert_int_eq(wire_get_array(&answer.body, "freed", 1000, &freed, &f), 0);
	if (!freed.left) {               /* it came with the release's own answer */
		ck_assert_double_eq(statistic(&client, 0, "arrays"), 0);
		return;
	}
	ck_assert_uint_eq(freed.left, 2);
}
END_TEST

/* ---- batches ---- */

START_TEST(a_refused_batch_poisons_its_outputs_and_names_the_operation) {
	struct batch_text b = { 0 };
	char sentence[LIMIT_SENTENCE];
	int64_t four = batch_fill(&b, 4, 1), five = batch_fill(&b, 5, 1),
		bad = batch_op(&b, OP_add, four, five);

	batch_name(&b, four, handle_of(0, 1));
	batch_name(&b, bad, handle_of(1, 1));
	strcpy(sentence, expect_fault(submit(&client, &b), FAULT_SHAPE));
	ck_assert_ptr_nonnull(strstr(sentence, "add"));
	ck_assert_uint_eq(answer_number(), client.seq);
	ck_assert_uint_eq(answer_number(), (uint64_t)bad);
	ck_assert_str_eq(expect_fault(ask_read(&client, handle_of(0, 1)), FAULT_SHAPE), sentence);
	ck_assert_str_eq(expect_fault(ask_read(&client, handle_of(1, 1)), FAULT_SHAPE), sentence);
}
END_TEST

START_TEST(poison_spreads_to_what_depends_on_it_and_no_further) {
	struct batch_text b = { 0 };
	uint64_t good = make(&client, 10, 3);

	batch_name(&b, batch_op(&b, OP_tanh, on_handle(77), 0), handle_of(0, 1));
	expect_fault(submit(&client, &b), FAULT_HANDLE);
	b = (struct batch_text){ 0 };
	batch_name(&b, batch_op(&b, OP_add, on_handle(handle_of(0, 1)), on_handle(good)), handle_of(1, 1));
	batch_name(&b, batch_op(&b, OP_neg, 0, 0), handle_of(2, 1));
	batch_name(&b, batch_op(&b, OP_neg, on_handle(good), 0), handle_of(3, 1));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	expect_fault(ask_read(&client, handle_of(1, 1)), FAULT_HANDLE);
	expect_fault(ask_read(&client, handle_of(2, 1)), FAULT_HANDLE);
	ck_assert_float_eq(read_floats(&client, handle_of(3, 1), 4)[0], -3);
}
END_TEST

START_TEST(unknown_operations_and_wrong_arities_are_refused) {
	struct wire_writer *w;

	for (unsigned wrong = 0; wrong < 2; wrong++) {
		w = request_begin(&client, REQUEST_SUBMIT, 5);
		wire_put_uint(w, ++client.seq);
		wire_put_uint(w, 0);
		wire_put_array(w, 1);
		wire_put_array(w, 2);
		wire_put_uint(w, wrong ? OP_add : 250);
		wire_put_int(w, on_handle(0));
		put_list(w, 0, NULL);
		put_list(w, 0, NULL);
		expect_fault(request_finish(), wrong ? FAULT_ARITY : FAULT_OPERATION);
	}
}
END_TEST

START_TEST(loads_beyond_the_arena_are_refused) {
	struct batch_text b = { 0 };
	int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 4 });

	b.op[load].attr.offset = ENGINE_ARENA_BYTES - 8;
	batch_name(&b, load, handle_of(0, 1));
	submit(&client, &b);
	answer_wait(0);
	ck_assert_uint_eq(answer.id, MESSAGE_FAULT);
	b.op[load].attr.offset = 0;
	b.op[load].attr.arena = 55;
	submit(&client, &b);
	answer_wait(1);
	ck_assert_uint_eq(answer.id, MESSAGE_FAULT);
}
END_TEST

/* Where the engine is short of memory, too: but an arena may then be on its way. */
START_TEST(a_load_beyond_its_arena_is_told_so_while_memory_is_short) {
	for (unsigned i = 0; i < 3; i++) {
		struct batch_text b = { 0 };
		int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 4 });
		struct op_attr *a = &b.op[load].attr;

		if (i == 0)
			a->offset = 4;
		else if (i == 1)
			a->offset = ENGINE_ARENA_BYTES;
		else
			a->arena = 99;
		engine.server->starved = true;
		expect_fault(submit(&client, &b), i < 2 ? FAULT_ARGUMENT : FAULT_MEMORY);
	}
}
END_TEST

START_TEST(f64_is_refused_where_the_device_lacks_it) {
	struct traits traits = *engine.server->traits;
	struct batch_text b = { 0 };
	int64_t cast = batch_op(&b, OP_cast, batch_fill(&b, 4, 1), 0);

	traits.f64 = false;
	engine.server->traits = &traits;
	b.op[cast].in[0] = 0;
	b.op[cast].attr.dtype = DTYPE_f64;
	ck_assert_ptr_nonnull(strstr(expect_fault(submit(&client, &b), FAULT_DEVICE), "f64"));
}
END_TEST

START_TEST(memory_that_is_refused_poisons_and_is_told_by_wait) {
	struct batch_text b = { 0 };
	struct wire_cursor faults, first;
	struct fault f;

	engine.refuse_arenas = true;
	batch_name(&b, batch_op(&b, OP_copy, batch_fill(&b, 4, 2), 0), handle_of(0, 1));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	expect_fault(ask_read(&client, handle_of(0, 1)), FAULT_MEMORY);
	expect(request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ client.seq }), REQUEST_WAIT);
	answer_number();
	ck_assert_int_eq(wire_get_array(&answer.body, "freed", 1000, &faults, &f), 0);
	ck_assert_int_eq(wire_get_array(&answer.body, "faults", 1000, &faults, &f), 0);
	ck_assert_uint_eq(faults.left, 1);
	ck_assert_int_eq(wire_get_array(&faults, "fault", 4, &first, &f), 0);
	engine.refuse_arenas = false;
	ck_assert_float_eq(read_floats(&client, make(&client, 1, 9), 4)[0], 9);
}
END_TEST

/* ---- reading and mapping ---- */

static uint64_t make_transposed(struct client *c, uint64_t *originalp) {
	struct batch_text b = { 0 };
	int64_t load = batch_load(c, &b, 2, (int64_t[]){ 2, 3 }), t = batch_op(&b, OP_permute, load, 0);

	b.op[t].attr = (struct op_attr){ .rank = 2, .perm = { 1, 0 } };
	batch_name(&b, load, handle_of(0, 1));
	batch_name(&b, t, handle_of(1, 1));
	expect(submit(c, &b), REQUEST_SUBMIT);
	*originalp = handle_of(0, 1);
	return handle_of(1, 1);
}

START_TEST(a_strided_view_is_read_in_row_major_order) {
	static const float wanted[] = { 0, 3, 1, 4, 2, 5 };
	uint64_t original, view = make_transposed(&client, &original);

	ck_assert_mem_eq(read_floats(&client, view, 6), wanted, sizeof wanted);
	ck_assert_float_eq(read_floats(&client, original, 6)[1], 1);
}
END_TEST

START_TEST(a_slice_of_whole_rows_is_read_without_a_copy) {
	struct batch_text b = { 0 };
	int64_t load = batch_load(&client, &b, 2, (int64_t[]){ 4, 3 }), s = batch_op(&b, OP_slice, load, 0);

	b.op[s].attr = (struct op_attr){ .rank = 2, .dims = { 2, 3 }, .start = { 1, 0 }, .step = { 1, 1 } };
	batch_name(&b, s, handle_of(0, 1));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(0, 1), 6)[0], 3);
	ck_assert_double_eq(statistic(&client, 0, "copies"), 0);
}
END_TEST

static float *map_floats(const struct client *c, uint64_t handle, unsigned count) {
	uint64_t arena, offset;

	expect(request_numbers(c, REQUEST_MAP, 2, (uint64_t[]){ c->seq, handle }), REQUEST_MAP);
	arena = answer_number();
	offset = answer_number();
	ck_assert_uint_eq(answer_number(), count * sizeof(float));
	return (float *)(uintptr_t)arena_floats(c, arena, offset);
}

static uint32_t ask_unmap(struct client *c, uint64_t handle) {
	return request_numbers(c, REQUEST_UNMAP, 2, (uint64_t[]){ ++c->seq, handle });
}

START_TEST(writing_makes_a_version_and_views_keep_the_old_one) {
	uint64_t original, view = make_transposed(&client, &original);
	float *memory = map_floats(&client, original, 6);

	for (unsigned i = 0; i < 6; i++)
		memory[i] = 100;
	expect(ask_unmap(&client, original), REQUEST_UNMAP);
	ck_assert_uint_eq(answer_number(), client.seq);
	ck_assert_uint_eq(answer_number(), 1);
	ck_assert_float_eq(read_floats(&client, original, 6)[4], 100);
	ck_assert_float_eq(read_floats(&client, view, 6)[1], 3);
	map_floats(&client, original, 6);
	expect(ask_unmap(&client, original), REQUEST_UNMAP);
	answer_number();
	ck_assert_uint_eq(answer_number(), 2);
}
END_TEST

START_TEST(what_was_queued_before_a_map_sees_the_old_values) {
	uint64_t handle = make(&client, 0, 1);
	struct batch_text b = { 0 };

	batch_name(&b, batch_op(&b, OP_neg, on_handle(handle), 0), handle_of(1, 1));
	submit(&client, &b);
	map_floats(&client, handle, 4)[0] = 50;
	expect(ask_unmap(&client, handle), REQUEST_UNMAP);
	ck_assert_float_eq(read_floats(&client, handle_of(1, 1), 4)[0], -1);
	ck_assert_float_eq(read_floats(&client, handle, 4)[0], 50);
}
END_TEST

START_TEST(a_mapped_array_takes_part_in_nothing) {
	uint64_t handle = make(&client, 0, 1);
	struct batch_text b = { 0 };

	map_floats(&client, handle, 4);
	batch_op(&b, OP_neg, on_handle(handle), 0);
	expect_fault(submit(&client, &b), FAULT_STATE);
	expect_fault(ask_read(&client, handle), FAULT_STATE);
	expect_fault(
		request_numbers(&client, REQUEST_MAP, 2, (uint64_t[]){ client.seq, handle }), FAULT_STATE);
	expect(ask_unmap(&client, handle), REQUEST_UNMAP);
	expect_fault(ask_unmap(&client, handle), FAULT_STATE);
}
END_TEST

/* ---- recorded graphs ---- */

/* out = -(in0 + in1) */
static uint32_t ask_define(struct client *c, uint64_t capture, bool load) {
	struct wire_writer *w = request_begin(c, REQUEST_DEFINE, 5);
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = 1, .dims = { 4 } };
	struct batch_text b = { 0 };

	batch_op(&b, OP_neg, batch_op(&b, OP_add, on_handle(0), on_handle(1)), 0);
	b.op[1].in[0] = 0;
	if (load)
		batch_load(c, &b, 1, (int64_t[]){ 4 });
	wire_put_uint(w, ++c->seq);
	wire_put_uint(w, capture);
	wire_put_array(w, 2);
	codec_put_type(w, &t);
	codec_put_type(w, &t);
	put_batch_ops(w, &b);
	put_list(w, 1, (uint64_t[]){ 1 });
	return request_finish();
}

static uint32_t ask_replay(
	struct client *c, uint64_t capture, unsigned inputs, const uint64_t *input, uint64_t output) {
	struct wire_writer *w = request_begin(c, REQUEST_REPLAY, 6);

	wire_put_uint(w, ++c->seq);
	wire_put_uint(w, 0);
	wire_put_uint(w, capture);
	put_list(w, inputs, input);
	put_list(w, 1, &output);
	put_list(w, 0, NULL);
	return request_finish();
}

START_TEST(a_recorded_graph_runs_with_new_inputs) {
	uint64_t a = make(&client, 0, 1), b = make(&client, 1, 2);

	expect(ask_define(&client, 3, false), REQUEST_DEFINE);
	expect(ask_replay(&client, 3, 2, (uint64_t[]){ a, b }, handle_of(2, 1)), REQUEST_REPLAY);
	expect(ask_replay(&client, 3, 2, (uint64_t[]){ b, handle_of(2, 1) }, handle_of(3, 1)),
		REQUEST_REPLAY);
	ck_assert_float_eq(read_floats(&client, handle_of(2, 1), 4)[0], -3);
	ck_assert_float_eq(read_floats(&client, handle_of(3, 1), 4)[0], 1);
	expect(request_numbers(&client, REQUEST_FORGET, 2, (uint64_t[]){ ++client.seq, 3 }), REQUEST_FORGET);
	expect_fault(ask_replay(&client, 3, 2, (uint64_t[]){ a, b }, handle_of(4, 1)), FAULT_HANDLE);
	ck_assert_double_eq(statistic(&client, 0, "recorded_graph_bytes"), 0);
}
END_TEST

/* out = op(in0), with attributes of its own. */
static uint32_t ask_define_one(struct client *c, uint64_t capture, unsigned op, const struct op_attr *attr) {
	struct wire_writer *w = request_begin(c, REQUEST_DEFINE, 5);
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = 1, .dims = { 4 } };
	struct batch_text b = { 0 };

	batch_op(&b, op, on_handle(0), 0);
	b.op[0].attr = *attr;
	wire_put_uint(w, ++c->seq);
	wire_put_uint(w, capture);
	wire_put_array(w, 1);
	codec_put_type(w, &t);
	put_batch_ops(w, &b);
	put_list(w, 1, (uint64_t[]){ 0 });
	return request_finish();
}

START_TEST(recorded_operations_keep_their_attributes) {
	const struct op_attr axis = { .axes = 1 }, last = { .rank = 1, .start = { 3 }, .step = { -1 }, .dims = { 4 } };
	uint64_t a = make(&client, 0, 1);

	expect(ask_define_one(&client, 0, OP_cumsum, &axis), REQUEST_DEFINE);
	expect(ask_define_one(&client, 1, OP_slice, &last), REQUEST_DEFINE);
	expect(ask_replay(&client, 0, 1, &a, handle_of(2, 1)), REQUEST_REPLAY);
	expect(ask_replay(&client, 1, 1, (uint64_t[]){ handle_of(2, 1) }, handle_of(3, 1)), REQUEST_REPLAY);
	for (int i = 0; i < 4; i++) {
		ck_assert_float_eq(read_floats(&client, handle_of(2, 1), 4)[i], (float)(i + 1));
		ck_assert_float_eq(read_floats(&client, handle_of(3, 1), 4)[i], (float)(4 - i));
	}
}
END_TEST

START_TEST(a_replay_with_other_types_is_refused_and_poisons_its_outputs) {
	uint64_t a = make(&client, 0, 1);
	struct batch_text b = { 0 };

	batch_name(&b, batch_fill(&b, 5, 1), handle_of(1, 1));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	expect(ask_define(&client, 0, false), REQUEST_DEFINE);
	expect_fault(
		ask_replay(&client, 0, 2, (uint64_t[]){ a, handle_of(1, 1) }, handle_of(2, 1)), FAULT_SHAPE);
	expect_fault(ask_read(&client, handle_of(2, 1)), FAULT_SHAPE);
	expect_fault(ask_replay(&client, 0, 1, &a, handle_of(3, 1)), FAULT_ARGUMENT);
}
END_TEST

START_TEST(a_recorded_graph_that_loads_or_exists_is_refused) {
	expect_fault(ask_define(&client, 0, true), FAULT_ARGUMENT);
	expect(ask_define(&client, 0, false), REQUEST_DEFINE);
	expect_fault(ask_define(&client, 0, false), FAULT_STATE);
}
END_TEST

/* ---- the window ---- */

/* Enough work that messages come while it runs: sines of 16M different elements; of one value they would cost nothing. */
static void keep_busy(struct client *c) {
	struct batch_text b = { 0 };
	int64_t node = batch_fill(&b, 16 << 20, 0);

	b.op[node].op = OP_arange;
	b.op[node].attr.value[1] = dtype_scalar_from_double(DTYPE_f32, 1);
	for (unsigned i = 0; i < 40; i++)
		node = batch_op(&b, OP_sin, node, 0);
	batch_name(&b, node, handle_of(1000, 1));
	expect(submit(c, &b), REQUEST_SUBMIT);
	ck_assert(!engine_is_idle(0));
}

static uint32_t submit_small(struct client *c, uint32_t slot, unsigned flags) {
	struct batch_text b = { 0 };

	batch_name(&b, batch_op(&b, OP_neg, batch_fill(&b, 4, slot), 0), handle_of(slot, 1));
	b.op[1].in[0] = 0;
	return submit_as(c, ++c->seq, flags, &b);
}

static bool window_closed(uint64_t unused) {
	(void)unused;
	return engine.server->gathering == NULL;
}

START_TEST(a_batch_that_meets_an_idle_device_runs_at_once) {
	submit_small(&client, 0, 0);
	server_turn(engine.server);
	ck_assert_ptr_null(engine.server->gathering);
	ck_assert_double_eq(statistic(&client, 0, "flush_idle"), 1);
}
END_TEST

START_TEST(batches_gather_while_the_device_is_busy_and_run_as_one) {
	struct client worker;

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1s");
	keep_busy(&worker);
	for (uint32_t i = 0; i < 3; i++)
		expect(submit_small(&client, i, 0), REQUEST_SUBMIT);
	ck_assert_double_eq(statistic(&client, 0, "runs"), 0);
	ck_assert_double_eq(statistic(&client, 0, "operations_queued"), 6);
	engine_turn_until(window_closed, 0);
	ck_assert_double_eq(statistic(&client, 0, "runs"), 1);
	ck_assert_float_eq(read_floats(&client, handle_of(2, 1), 4)[0], -2);
}
END_TEST

/* out = -(-(... in0)), so many times. */
static uint32_t ask_define_chain(struct client *c, uint64_t capture, unsigned count) {
	struct wire_writer *w = request_begin(c, REQUEST_DEFINE, 5);
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = 1, .dims = { 4 } };
	struct batch_text b = { 0 };
	int64_t node = on_handle(0);

	for (unsigned i = 0; i < count; i++)
		node = batch_op(&b, OP_neg, node, 0);
	for (unsigned i = 1; i < count; i++)
		b.op[i].in[0] = i - 1;
	wire_put_uint(w, ++c->seq);
	wire_put_uint(w, capture);
	wire_put_array(w, 1);
	codec_put_type(w, &t);
	put_batch_ops(w, &b);
	put_list(w, 1, (uint64_t[]){ count - 1 });
	return request_finish();
}

START_TEST(a_large_recorded_graph_joins_no_others) {
	uint64_t a = make(&client, 7, 5);
	struct client worker;

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1s");
	expect(ask_define_chain(&client, 0, 3), REQUEST_DEFINE);
	expect(ask_define_chain(&client, 1, 33), REQUEST_DEFINE);
	ck_assert_float_eq(read_floats(&client, a, 4)[0], 5);
	keep_busy(&worker);
	expect(ask_replay(&client, 0, 1, &a, handle_of(2, 1)), REQUEST_REPLAY);
	ck_assert_ptr_nonnull(engine.server->gathering);
	expect(ask_replay(&client, 1, 1, &a, handle_of(3, 1)), REQUEST_REPLAY);
	expect(ask_replay(&client, 1, 1, (uint64_t[]){ handle_of(3, 1) }, handle_of(4, 1)), REQUEST_REPLAY);
	ck_assert_ptr_null(engine.server->gathering);
	ck_assert_double_eq(statistic(&client, 0, "flush_operations"), 3);
	ck_assert_float_eq(read_floats(&client, handle_of(2, 1), 4)[0], -5);
	ck_assert_float_eq(read_floats(&client, handle_of(4, 1), 4)[0], 5);
}
END_TEST

START_TEST(a_read_ends_the_window) {
	struct client worker;

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1s");
	keep_busy(&worker);
	expect(submit_small(&client, 0, 0), REQUEST_SUBMIT);
	ask_read(&client, handle_of(0, 1));
	server_turn(engine.server);
	ck_assert_ptr_null(engine.server->gathering);
	ck_assert_double_eq(statistic(&client, 0, "flush_demand"), 1);
}
END_TEST

START_TEST(what_is_cancelled_fails_and_later_operations_run) {
	struct client worker;
	struct batch_text b = { 0 };

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1s");
	make(&client, 5, 3);
	keep_busy(&worker);
	expect(submit_small(&client, 0, 0), REQUEST_SUBMIT);
	expect(request_numbers(&client, REQUEST_CANCEL, 0, NULL), REQUEST_CANCEL);
	expect_fault(ask_read(&client, handle_of(0, 1)), FAULT_CANCELLED);
	batch_name(&b, batch_fill(&b, 4, 7), handle_of(7, 1));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(7, 1), 4)[1], 7);
	ck_assert_double_ge(statistic(&worker, 1, "runs_cancelled"), 1);
}
END_TEST

START_TEST(the_urgent_flag_ends_the_window) {
	struct client worker;

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1s");
	keep_busy(&worker);
	expect(submit_small(&client, 0, SUBMIT_URGENT), REQUEST_SUBMIT);
	ck_assert_double_eq(statistic(&client, 0, "flush_urgent"), 1);
}
END_TEST

START_TEST(operations_and_bytes_end_the_window) {
	struct client worker;

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1s");
	configure(&client, "fusion.window_ops", "4");
	keep_busy(&worker);
	expect(submit_small(&client, 0, 0), REQUEST_SUBMIT);
	expect(submit_small(&client, 1, 0), REQUEST_SUBMIT);
	ck_assert_double_eq(statistic(&client, 0, "flush_operations"), 1);
	configure(&client, "fusion.window_bytes", "16");
	expect(submit_small(&client, 2, 0), REQUEST_SUBMIT);
	ck_assert_double_eq(statistic(&client, 0, "flush_bytes"), 1);
}
END_TEST

START_TEST(time_ends_the_window) {
	struct client worker;

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1ms");
	keep_busy(&worker);
	expect(submit_small(&client, 0, 0), REQUEST_SUBMIT);
	usleep(2000);
	server_turn(engine.server);
	ck_assert_double_eq(statistic(&client, 0, "flush_time"), 1);
}
END_TEST

/* Else a client that waits for both is woken twice. */
START_TEST(a_batch_is_accepted_ahead_of_the_answer_that_is_waited_for) {
	for (uint32_t i = 0; i < 20; i++) {
		uint32_t batch = submit_small(&client, i, 0);
		uint32_t waiting = request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ client.seq });

		expect(waiting, REQUEST_WAIT);
		ck_assert(transport_memory_in_order(engine.transport, batch, waiting));
	}
}
END_TEST

START_TEST(what_is_released_before_it_runs_is_not_computed) {
	struct client worker;

	client_begin(&worker, 2);
	configure(&client, "fusion.window_us", "1s");
	keep_busy(&worker);
	expect(submit_small(&client, 0, 0), REQUEST_SUBMIT);
	release(&client, handle_of(0, 1));
	expect(request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ client.seq }), REQUEST_WAIT);
	ck_assert_double_eq(statistic(&client, 0, "runs"), 0);
}
END_TEST

/* ---- what the next engine would know ---- */

/* Of sessions that begin from now on. */
static void supervisor_gives(int catalogue) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_CATALOGUE);
	supervisor_say(&w, catalogue);
}

static void supervisor_catalogue(void) {
	int fd = catalogue_create();

	ck_assert_int_ge(fd, 0);
	supervisor_gives(fd);
	close(fd);
}

static const struct catalogue_session *progress(const struct client *c) {
	const struct session *s = session_find(engine.server, c->session, c->secret);

	ck_assert_ptr_nonnull(s);
	return &engine.server->catalogue->entry[s->entry].of_session;
}

/* Nothing is to be computed for a load, nor for what is released before it runs. Who is told that it has run does not ask for it again. */
START_TEST(what_is_told_to_have_run_is_begun_for_the_next_engine) {
	struct client noted, worker;
	struct batch_text b = { 0 };
	int64_t n = 4;

	client_begin(&worker, 2);
	supervisor_catalogue();
	client_begin(&noted, 3);
	configure(&noted, "fusion.window_us", "1s");
	keep_busy(&worker);
	batch_name(&b, batch_load(&noted, &b, 1, &n), handle_of(0, 1));
	expect(submit(&noted, &b), REQUEST_SUBMIT);
	expect(request_numbers(&noted, REQUEST_WAIT, 1, (uint64_t[]){ noted.seq }), REQUEST_WAIT);
	ck_assert_uint_ge(catalogue_begun(progress(&noted)), noted.seq);
	expect(submit_small(&noted, 1, 0), REQUEST_SUBMIT);
	release(&noted, handle_of(1, 1));
	expect(request_numbers(&noted, REQUEST_WAIT, 1, (uint64_t[]){ noted.seq }), REQUEST_WAIT);
	ck_assert_uint_ge(catalogue_begun(progress(&noted)), noted.seq);
}
END_TEST

/* As its process would, after the one that had the sessions. */
static void next_engine(int catalogue) {
	engine_close();
	engine_open();
	supervisor_gives(catalogue);
}

static void resume_session(const struct client *c) {
	struct wire_writer w;

	wire_writer_init(&w);
	wire_put_array(&w, 2);
	wire_put_uint(&w, CONTROL_SESSION_RESUME);
	wire_put_uint(&w, c->session);
	supervisor_say(&w, -1);
}

/* The entry that it made for the session lies before the one that tells how far that was. */
START_TEST(an_engine_that_ends_before_it_has_a_session_loses_nothing_of_it) {
	int catalogue = catalogue_create();
	struct client before, c;
	uint64_t seq;

	ck_assert_int_ge(catalogue, 0);
	supervisor_gives(catalogue);
	client_begin(&before, 2);
	client_begin(&c, 3);
	make(&c, 0, 5);
	make(&c, 1, 6);
	expect(request_numbers(&c, REQUEST_WAIT, 1, (uint64_t[]){ c.seq }), REQUEST_WAIT);
	seq = c.seq;
	client_end(&before);
	next_engine(catalogue);
	client_announce(&c, 3, false);
	server_turn(engine.server);
	next_engine(catalogue);
	client_announce(&c, 3, false);
	resume_session(&c);
	server_turn(engine.server);
	ck_assert_uint_eq(catalogue_begun(progress(&c)), seq);
	ck_assert_uint_eq(session_find(engine.server, c.session, c.secret)->handles.live, 2);
	close(catalogue);
}
END_TEST

/* Where the next engine would find the array's value. */
static const struct catalogue_buffer *noted_value(const struct client *c, uint64_t handle) {
	const struct session *s = session_find(engine.server, c->session, c->secret);
	const struct catalogue_entry *entry = engine.server->catalogue->entry;
	struct array *a = NULL;
	struct fault f;

	ck_assert_msg(!handles_get(&s->handles, handle, &a, &f), "%s", f.text);
	ck_assert_uint_ne(entry[a->entry].of_array.buffer, CATALOGUE_NONE);
	return &entry[entry[a->entry].of_array.buffer].of_buffer;
}

START_TEST(a_value_is_where_it_was_until_a_copy_of_it_is_there) {
	struct client noted, worker;
	uint64_t original, view, offset;
	uint32_t read;

	client_begin(&worker, 2);
	supervisor_catalogue();
	client_begin(&noted, 3);
	view = make_transposed(&noted, &original);
	expect(request_numbers(&noted, REQUEST_WAIT, 1, (uint64_t[]){ noted.seq }), REQUEST_WAIT);
	ck_assert_ptr_eq(noted_value(&noted, view), noted_value(&noted, original));
	keep_busy(&worker);
	read = ask_read(&noted, view);
	server_turn(engine.server);
	ck_assert_int_eq(noted_value(&noted, view)->state, CATALOGUE_THERE);
	expect(read, REQUEST_READ);
	answer_number();
	offset = answer_number();
	ck_assert_int_eq(noted_value(&noted, view)->state, CATALOGUE_THERE);
	ck_assert_uint_eq(noted_value(&noted, view)->offset, offset);
	ck_assert_ptr_ne(noted_value(&noted, view), noted_value(&noted, original));
}
END_TEST

/*
 * An array that a batch has released which was not begun is noted still. Its buffer has gone, since nobody reads it any more, and its
 * entry is the next one's: what is noted of the array must not lead there.
 */
START_TEST(a_released_array_does_not_lead_to_the_buffer_of_another) {
	const struct catalogue_entry *e[2];
	struct client noted, worker;
	struct batch_text b = { 0 };
	struct session *s;
	uint32_t buffer[2];
	int64_t n = 4;
	unsigned reused = 0;
	struct fault f;

	client_begin(&worker, 2);
	supervisor_catalogue();
	client_begin(&noted, 3);
	make(&noted, 0, 5);
	make(&noted, 1, 6);
	expect(request_numbers(&noted, REQUEST_WAIT, 1, (uint64_t[]){ noted.seq }), REQUEST_WAIT);
	s = session_find(engine.server, noted.session, noted.secret);
	for (unsigned i = 0; i < 2; i++) {
		struct array *a = NULL;

		ck_assert_int_eq(handles_get(&s->handles, handle_of(i, 1), &a, &f), 0);
		e[i] = &engine.server->catalogue->entry[a->entry];
		buffer[i] = e[i]->of_array.buffer;
		ck_assert_ptr_nonnull(catalogue_value(engine.server->catalogue, &e[i]->of_array, noted.session));
	}
	configure(&noted, "fusion.window_us", "1s");
	keep_busy(&worker);
	expect(submit_small(&noted, 2, 0), REQUEST_SUBMIT);
	release(&noted, handle_of(0, 1));
	release(&noted, handle_of(1, 1));
	ck_assert_uint_eq(e[0]->of_array.buffer, buffer[0]);
	ck_assert_uint_eq(e[1]->of_array.buffer, buffer[1]);
	/* A load has its buffer at once. */
	batch_name(&b, batch_load(&noted, &b, 1, &n), handle_of(3, 1));
	expect(submit(&noted, &b), REQUEST_SUBMIT);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_ne(e[i]->of_array.released, 0);
		reused += catalogue_find(engine.server->catalogue, buffer[i], CATALOGUE_BUFFER, noted.session) != NULL;
		ck_assert_ptr_null(catalogue_value(engine.server->catalogue, &e[i]->of_array, noted.session));
	}
	ck_assert_uint_gt(reused, 0);
}
END_TEST

/* A batch that has what was gathered before it run is none of that. */
static void expect_runs_of_one(const struct client *c) {
	const struct session *s = session_find(engine.server, c->session, c->secret);

	for (const struct run *r = s->runs; r; r = r->next)
		ck_assert_uint_eq(r->last, r->first);
}

START_TEST(a_batch_is_not_begun_with_those_that_run_before_it) {
	struct client noted, worker;
	uint64_t a;

	client_begin(&noted, 3);
	a = make(&noted, 7, 5);
	expect(ask_define_chain(&noted, 0, 33), REQUEST_DEFINE);
	configure(&noted, "fusion.window_us", "1s");
	client_begin(&worker, 2);
	keep_busy(&worker);
	expect(submit_small(&noted, 0, 0), REQUEST_SUBMIT);
	expect(submit_small(&noted, 1, SUBMIT_REPEATED), REQUEST_SUBMIT);
	expect_runs_of_one(&noted);
	expect(submit_small(&noted, 2, 0), REQUEST_SUBMIT);
	expect(ask_replay(&noted, 0, 1, &a, handle_of(3, 1)), REQUEST_REPLAY);
	expect_runs_of_one(&noted);
	ck_assert_float_eq(read_floats(&noted, handle_of(1, 1), 4)[0], -1);
	ck_assert_float_eq(read_floats(&noted, handle_of(3, 1), 4)[0], -5);
}
END_TEST

START_TEST(batches_beyond_the_queue_of_their_user_wait_for_his_other_sessions) {
	struct client worker;
	uint32_t first;

	client_begin(&worker, 2);
	engine.server->config.limits_user_queued_ops = 2;
	keep_busy(&worker);
	first = submit_small(&client, 0, SUBMIT_URGENT);
	server_turn(engine.server);
	ck_assert(!answered(first));
	expect(first, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(0, 1), 4)[0], 0);
}
END_TEST

/* A kernel whose text depends on the number. */
static uint32_t submit_named(struct client *c, uint32_t number, uint32_t slot) {
	struct batch_text b = { 0 };
	int64_t node = batch_fill(&b, 4, 0);

	for (unsigned i = 0; i <= number; i++)
		node = batch_op(&b, i % 2 ? OP_cos : OP_floor, node, 0);
	batch_name(&b, node, handle_of(slot, 1));
	return submit_as(c, ++c->seq, SUBMIT_URGENT, &b);
}

/* Nobody has had it built before. */
static uint32_t submit_new_kernel(struct client *c, uint32_t slot) {
	return submit_named(c, slot, slot);
}

START_TEST(batches_wait_while_their_user_has_as_many_kernels_built_as_he_may) {
	struct client other;
	uint32_t second;

	client_begin(&other, 2);
	engine.server->config.limits_user_builds = 1;
	expect(submit_new_kernel(&client, 4), REQUEST_SUBMIT);
	second = submit_new_kernel(&other, 5);
	server_turn(engine.server);
	ck_assert_uint_eq(account_builds(engine.server->accounts), 1);
	ck_assert(!answered(second));
	expect(second, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&other, handle_of(5, 1), 4)[0], 1);
}
END_TEST

static void count_build(void *user, const struct device_build *b) {
	(void)b;
	++*(unsigned *)user;
}

/* Kernels that are built, or will be. */
static unsigned kernels_to_come(void) {
	unsigned count = 0;

	device_each_build(engine.device, count_build, &count);
	return count;
}

static void have_built(struct client *c, uint32_t first, uint32_t end) {
	for (uint32_t slot = first; slot < end; slot++)
		expect(submit_new_kernel(c, slot), REQUEST_SUBMIT);
}

/* At most the one that the builder has begun is, and it holds nobody up. */
START_TEST(kernels_of_who_has_gone_are_not_built_and_do_not_count) {
	struct client gone;

	client_begin(&gone, 2);
	have_built(&gone, 10, 16);
	client_end(&gone);
	ck_assert_uint_eq(account_builds(engine.server->accounts), 0);
	ck_assert_uint_eq(kernels_to_come(), 0);
	/* Until somebody wants one again. */
	expect(submit_new_kernel(&client, 13), REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(13, 1), 4)[0], 1);
}
END_TEST

START_TEST(a_kernel_that_another_session_waits_for_is_built_though_who_asked_first_has_gone) {
	struct client gone;

	client_begin(&gone, 2);
	have_built(&gone, 16, 22);
	expect(submit_new_kernel(&client, 21), REQUEST_SUBMIT);
	client_end(&gone);
	ck_assert_float_eq(read_floats(&client, handle_of(21, 1), 4)[0], 1);
}
END_TEST

START_TEST(kernels_of_what_is_cancelled_are_not_built) {
	struct client other;

	client_begin(&other, 2);
	have_built(&client, 22, 28);
	expect(request_numbers(&client, REQUEST_CANCEL, 0, NULL), REQUEST_CANCEL);
	engine_turn_until(engine_is_idle, 0);
	ck_assert_uint_eq(account_builds(engine.server->accounts), 0);
	ck_assert_uint_eq(kernels_to_come(), 0);
	/* What waits until nothing is built does not wait for them. */
	ck_assert_uint_eq(device_wanted(engine.device), 0);
	/* They count again for who had them built. */
	expect(submit_new_kernel(&other, 25), REQUEST_SUBMIT);
	ck_assert_uint_eq(account_builds(engine.server->accounts), device_wanted(engine.device));
	ck_assert_float_eq(read_floats(&other, handle_of(25, 1), 4)[0], 1);
	ck_assert_uint_eq(account_builds(engine.server->accounts), 0);
}
END_TEST

static bool may_begin(uint64_t unused) {
	(void)unused;
	return exec_prepared(engine.exec);
}

static bool nothing_is_built(uint64_t unused) {
	(void)unused;
	return !account_builds(engine.server->accounts);
}

/* What nobody waits for is not built for now, and holds up nothing; a later run has it built. */
START_TEST(kernels_that_nobody_waits_for_hold_up_no_batch) {
	const struct builds *b;
	enum { MOST = 16, GRAPHS = MOST + 8, FIRST = 32 };

	teardown();
	engine_interpreter = INTERPRETER_AUTO;
	setup();
	engine_turn_until(may_begin, 0);
	engine.server->config.limits_user_builds = 1;
	for (uint32_t i = FIRST; i < FIRST + GRAPHS; i++) {
		expect(submit_new_kernel(&client, i), REQUEST_SUBMIT);
		ck_assert(!engine.server->waits_for_builds);
		b = engine.server->accounts->builds;
		ck_assert_uint_le(b->later, MOST);
		ck_assert_uint_eq(b->later, b->unfinished);
	}
	b = engine.server->accounts->builds;
	ck_assert_uint_lt(b->asked, GRAPHS);
	for (uint32_t i = FIRST; i < FIRST + GRAPHS; i++) {
		engine_turn_until(nothing_is_built, 0);
		expect(submit_named(&client, i, GRAPHS + i), REQUEST_SUBMIT);
	}
	ck_assert_uint_eq(b->asked, GRAPHS);
	engine_interpreter = INTERPRETER_OFF;
}
END_TEST

START_TEST(kernels_of_a_minute_are_limited) {
	struct account *table = NULL, *a = account_get(&table, 1000);
	struct config c = engine.config;
	const uint64_t minute = 60 * 1000 * 1000, now = 1000 * minute;

	c.limits_user_builds_per_minute = 6;
	ck_assert(account_may_build(a, &c, now));
	a->builds->asked = 10;                   /* one batch of ten: it was not cut */
	ck_assert(!account_may_build(a, &c, now + 1));
	ck_assert(!account_may_build(a, &c, now + minute / 2));
	ck_assert(account_may_build(a, &c, now + minute));
	account_put(&table, a);
	ck_assert_ptr_null(table);
}
END_TEST

START_TEST(arrays_beyond_those_of_their_user_are_refused_until_a_session_ends) {
	struct batch_text b = { 0 };
	struct client one, other;

	engine.server->config.limits_user_handles = 3;
	client_begin(&one, 2);
	client_begin(&other, 3);
	make(&one, 0, 1);
	make(&one, 1, 1);
	make(&other, 0, 1);
	batch_name(&b, batch_op(&b, OP_copy, batch_fill(&b, 4, 2), 0), handle_of(1, 1));
	expect_fault(submit(&other, &b), FAULT_LIMIT);
	ck_assert_double_eq(statistic(&other, 0, "arrays_of_user"), 3);
	client_end(&one);
	ck_assert_double_eq(statistic(&other, 0, "arrays_of_user"), 1);
	ck_assert_float_eq(read_floats(&other, make(&other, 2, 5), 4)[0], 5);
}
END_TEST

/* 0: operations, 1: bytes. */
START_TEST(batches_beyond_the_queue_are_accepted_as_others_complete) {
	struct client worker;
	uint32_t second;

	client_begin(&worker, 2);
	if (_i)
		engine.server->config.limits_queued_bytes = 1;
	else
		engine.server->config.limits_queued_ops = 2;
	keep_busy(&worker);
	expect(submit_small(&client, 0, SUBMIT_URGENT), REQUEST_SUBMIT);
	second = submit_small(&client, 1, 0);
	server_turn(engine.server);
	ck_assert(!answered(second));
	expect(second, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(1, 1), 4)[0], -1);
}
END_TEST

/* ---- the other requests ---- */

START_TEST(settings_of_a_session_change_and_others_are_refused) {
	configure(&client, "fusion.enabled", "no");
	expect_fault(ask_configure(&client, "fusion.enabled", "perhaps"), FAULT_ARGUMENT);
	expect_fault(ask_configure(&client, "limits.handles", "3"), FAULT_ARGUMENT);
	expect_fault(ask_configure(&client, "fusion.nothing", "3"), FAULT_ARGUMENT);
	configure(&client, "fusion.pattern.linear", "gpu");
	expect_fault(ask_configure(&client, "fusion.pattern.linear", "some"), FAULT_ARGUMENT);
	expect_fault(ask_configure(&client, "fusion.pattern.nothing", "no"), FAULT_ARGUMENT);
}
END_TEST

/* A number of EXPLAIN's answer for a batch. */
static double explained_batch(struct client *c, const struct batch_text *b, int64_t output, uint64_t flags, const char *name) {
	struct wire_writer *w = request_begin(c, REQUEST_EXPLAIN, 3);
	cJSON *json;
	double value;

	put_batch_ops(w, b);
	put_list(w, 1, (uint64_t[]){ (uint64_t)output });
	wire_put_uint(w, flags);
	expect(request_finish(), REQUEST_EXPLAIN);
	json = cJSON_Parse(answer_text());
	ck_assert_ptr_nonnull(json);
	ck_assert(cJSON_HasObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "kernels"), 0),
			  "source") == !!(flags & EXPLAIN_SOURCE));
	value = cJSON_GetObjectItem(json, name)->valuedouble;
	cJSON_Delete(json);
	return value;
}

static double explained(struct client *c, uint64_t flags, const char *name) {
	struct batch_text b = { 0 };
	int64_t load = batch_load(c, &b, 1, (int64_t[]){ 1000 }), node;

	node = batch_op(&b, OP_mul, load, load);
	node = batch_op(&b, OP_add, node, load);
	node = batch_op(&b, OP_relu, node, 0);
	return explained_batch(c, &b, node, flags, name);
}

START_TEST(explain_plans_and_runs_nothing) {
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 1);
	ck_assert_double_eq(explained(&client, EXPLAIN_SOURCE, "unfused_kernel_count"), 3);
	ck_assert_double_eq(explained(&client, EXPLAIN_UNFUSED, "kernel_count"), 3);
	ck_assert_double_eq(statistic(&client, 0, "runs"), 0);
	ck_assert_double_eq(statistic(&client, 0, "arrays"), 0);
}
END_TEST

/* Of so many kernels as there may be; and what to ask for instead. */
START_TEST(an_explanation_longer_than_a_message_is_refused_while_it_is_made) {
	const uint64_t flags[] = { EXPLAIN_SOURCE | EXPLAIN_UNFUSED, EXPLAIN_NODES | EXPLAIN_UNFUSED };
	const char *const instead[] = { "without sources", "without the operations one by one" };
	struct coded_op o = { .op = OP_relu, .arity = 1 };
	struct batch_text b = { 0 };
	struct wire_writer *w;

	batch_fill(&b, 100, 1);
	w = request_begin(&client, REQUEST_EXPLAIN, 3);
	wire_put_array(w, LIMIT_BATCH_OPS);
	codec_put_op(w, &b.op[0]);
	for (int64_t i = 1; i < LIMIT_BATCH_OPS; i++) {
		o.in[0] = i - 1;
		codec_put_op(w, &o);
	}
	put_list(w, 1, (uint64_t[]){ LIMIT_BATCH_OPS - 1 });
	wire_put_uint(w, flags[_i]);
	ck_assert_ptr_nonnull(strstr(expect_fault(request_finish(), FAULT_LIMIT), instead[_i]));
	ck_assert_double_eq(explained(&client, EXPLAIN_SOURCE, "kernel_count"), 1);
}
END_TEST

START_TEST(a_pattern_is_switched_off_for_the_devices_that_are_not_named) {
	bool gpu = engine.server->traits->strategy == STRATEGY_GPU;

	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 1);
	configure(&client, "fusion.pattern.affine_activation", gpu ? "gpu" : "cpu");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 1);
	configure(&client, "fusion.pattern.affine_activation", gpu ? "cpu" : "gpu");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 2);
	configure(&client, "fusion.pattern.affine_activation", "on");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 1);
}
END_TEST

START_TEST(fusion_is_switched_off_for_the_devices_that_are_not_named) {
	bool gpu = engine.server->traits->strategy == STRATEGY_GPU;

	configure(&client, "fusion.enabled", gpu ? "gpu" : "cpu");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 1);
	configure(&client, "fusion.enabled", gpu ? "cpu" : "gpu");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 3);
	configure(&client, "fusion.enabled", "yes");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 1);
}
END_TEST

START_TEST(pairs_of_operations_are_kept_apart) {
	configure(&client, "fusion.apart", "mul:add");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 2);
	configure(&client, "fusion.apart", "mul:add add:relu");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 3);
	expect_fault(ask_configure(&client, "fusion.apart", "mul:softmax"), FAULT_ARGUMENT);
	configure(&client, "fusion.fast", "no");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 3);
	configure(&client, "fusion.apart", "");
	ck_assert_double_eq(explained(&client, 0, "kernel_count"), 1);
}
END_TEST

/* exp, the sum of that, and its root: are two of them in one kernel? The answer's JSON follows the verdict. */
static void ask_pair(uint64_t first, uint64_t second) {
	struct wire_writer *w = request_begin(&client, REQUEST_CAN_FUSE, 4);
	struct batch_text b = { 0 };
	int64_t node = batch_load(&client, &b, 2, (int64_t[]){ 64, 64 });

	node = batch_op(&b, OP_exp, node, 0);
	node = batch_op(&b, OP_reduce_sum, node, 0);
	b.op[node].attr.axes = 2;
	node = batch_op(&b, OP_sort, node, 0);
	put_batch_ops(w, &b);
	put_list(w, 1, (uint64_t[]){ (uint64_t)node });
	wire_put_uint(w, first);
	wire_put_uint(w, second);
}

START_TEST(can_fuse_answers_of_the_plan) {
	struct fault f;
	bool can;

	ask_pair(1, 2);
	expect(request_finish(), REQUEST_CAN_FUSE);
	ck_assert_int_eq(wire_get_bool(&answer.body, "can", &can, &f), 0);
	ck_assert(can);
	ck_assert_ptr_nonnull(strstr(answer_text(), "\"fused\":true"));
	ask_pair(1, 3);
	expect(request_finish(), REQUEST_CAN_FUSE);
	ck_assert_int_eq(wire_get_bool(&answer.body, "can", &can, &f), 0);
	ck_assert(!can);
	configure(&client, "fusion.enabled", "no");
	ask_pair(1, 2);
	expect(request_finish(), REQUEST_CAN_FUSE);
	ck_assert_int_eq(wire_get_bool(&answer.body, "can", &can, &f), 0);
	ck_assert(!can);
	ask_pair(1, 4);
	expect_fault(request_finish(), FAULT_ARGUMENT);
}
END_TEST

/* The answer's JSON, to be deleted. */
static cJSON *answer_json(void) {
	cJSON *json = cJSON_Parse(answer_text());

	ck_assert_ptr_nonnull(json);
	return json;
}

static void expect_setting(struct client *c, uint64_t scope, const char *name, const char *value) {
	cJSON *json;

	expect(request_numbers(c, REQUEST_SETTINGS, 1, &scope), REQUEST_SETTINGS);
	json = answer_json();
	ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(json, name)), value);
	cJSON_Delete(json);
}

static void set_uid(uint64_t id, uid_t uid) {
	struct session *s;

	HASH_FIND(hh, engine.server->sessions, &id, sizeof id, s);
	ck_assert_ptr_nonnull(s);
	s->uid = uid;
}

START_TEST(a_setting_of_the_daemon_is_for_those_who_have_not_chosen) {
	struct client other, later;

	client_begin(&other, 2);
	configure(&other, "fusion.pattern.linear", "gpu");
	set_uid(client.session, geteuid());
	expect(ask_texts(&client, REQUEST_SET, "fusion.pattern.linear", "off"), REQUEST_SET);
	expect_setting(&client, 0, "fusion.pattern.linear", "no");
	expect_setting(&client, 1, "fusion.pattern.linear", "no");
	expect_setting(&other, 0, "fusion.pattern.linear", "gpu");
	client_begin(&later, 3);
	expect_setting(&later, 0, "fusion.pattern.linear", "no");
	expect_fault(ask_texts(&client, REQUEST_SET, "fusion.pattern.linear", "some"), FAULT_ARGUMENT);
	expect_fault(ask_texts(&client, REQUEST_SET, "door.mode", "0600"), FAULT_ARGUMENT);
}
END_TEST

START_TEST(texts_that_a_session_has_chosen_are_its_own_and_stay) {
	static const char *const texts[] = { "fusion.knobs", "fusion.apart" }, *const own[] = { "share=quarter hold=least", "mul:add" },
		*const all[] = { "hold=most", "exp:sum add:relu" };
	struct client other;

	client_begin(&other, 2);
	for (unsigned i = 0; i < 2; i++) {
		configure(&client, texts[i], own[i]);
		configure(&client, "fusion.fast", "no");
		expect_setting(&client, 0, texts[i], own[i]);
		expect_setting(&client, 1, texts[i], "");
		set_uid(client.session, geteuid());
		expect(ask_texts(&client, REQUEST_SET, texts[i], all[i]), REQUEST_SET);
		expect_setting(&client, 0, texts[i], own[i]);
		expect_setting(&other, 0, texts[i], all[i]);
		expect_fault(ask_texts(&client, REQUEST_SET, texts[i], "share=half"), FAULT_ARGUMENT);
		expect_setting(&other, 0, texts[i], all[i]);
	}
}
END_TEST

START_TEST(other_users_change_nothing_and_see_nothing_of_others) {
	struct client other;

	make(&client, 0, 1);
	read_floats(&client, handle_of(0, 1), 4);
	client_begin(&other, 2);
	expect_setting(&other, 0, "fusion.pattern.linear", "yes");
	set_uid(other.session, geteuid() + 1);
	expect_fault(ask_texts(&other, REQUEST_SET, "fusion.pattern.linear", "off"), FAULT_PERMISSION);
	expect_setting(&client, 0, "fusion.pattern.linear", "yes");
	expect_fault(request_numbers(&other, REQUEST_RECENT, 2, (uint64_t[]){ 0, 0 }), FAULT_HANDLE);
	expect_fault(request_numbers(&other, REQUEST_RECENT, 2, (uint64_t[]){ client.session, 0 }), FAULT_HANDLE);
	set_uid(client.session, geteuid() + 1);
	expect(request_numbers(&other, REQUEST_RECENT, 2, (uint64_t[]){ client.session, 0 }), REQUEST_RECENT);
}
END_TEST

START_TEST(the_last_graphs_of_a_session_are_told) {
	struct client other;
	cJSON *json, *graphs, *kernel, *nodes;

	client_begin(&other, 2);
	expect_fault(request_numbers(&other, REQUEST_RECENT, 2, (uint64_t[]){ 0, 0 }), FAULT_HANDLE);
	for (uint32_t i = 0; i < 3; i++)
		read_floats(&client, make(&client, i, 1), 4);
	expect(request_numbers(&other, REQUEST_RECENT, 2, (uint64_t[]){ 0, EXPLAIN_SOURCE | EXPLAIN_NODES }),
		REQUEST_RECENT);
	json = answer_json();
	ck_assert_double_eq(cJSON_GetObjectItem(json, "session")->valuedouble, (double)client.session);
	graphs = cJSON_GetObjectItem(json, "graphs");
	ck_assert_int_eq(cJSON_GetArraySize(graphs), 1);
	ck_assert_double_eq(cJSON_GetObjectItem(graphs->child, "runs")->valuedouble, 3);
	kernel = cJSON_GetObjectItem(graphs->child, "kernels")->child;
	ck_assert_ptr_nonnull(strstr(cJSON_GetStringValue(cJSON_GetObjectItem(kernel, "source")), "kernel"));
	nodes = cJSON_GetObjectItem(graphs->child, "nodes");
	ck_assert_int_ge(cJSON_GetArraySize(nodes), 2);
	cJSON_Delete(json);
}
END_TEST

static double tracker_statistic(const char *name) {
	cJSON *json;
	double value;

	expect(request_numbers(&client, REQUEST_STATS, 1, (uint64_t[]){ 1 }), REQUEST_STATS);
	json = answer_json();
	value = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "tracker"), name)->valuedouble;
	cJSON_Delete(json);
	return value;
}

/* relu(3 * 3) of many elements, so that a run takes longer than what surrounds it. */
static void run_fused_pair(uint32_t slot) {
	struct batch_text b = { 0 };
	int64_t fill = batch_fill(&b, 100000, 3), node = batch_op(&b, OP_mul, fill, fill);

	batch_name(&b, batch_op(&b, OP_relu, node, 0), handle_of(slot, 1));
	expect(submit(&client, &b), REQUEST_SUBMIT);
	read_floats(&client, handle_of(slot, 1), 100000);
	release(&client, handle_of(slot, 1));
}

START_TEST(a_graph_that_runs_often_is_tried_in_other_forms) {
	configure(&client, "fusion.tracker_share", "0");
	run_fused_pair(0);
	ck_assert_double_eq(tracker_statistic("graphs"), 0);
	/* More than new sessions have is an administrator's to give. */
	set_uid(client.session, geteuid());
	configure(&client, "fusion.tracker_share", "100");
	/* A machine that is busy makes a trial slow, and then the share has to grow first. */
	for (uint32_t i = 1; i < 20000 && tracker_statistic("trials") < TRACK_SAMPLES; i++)
		run_fused_pair(i);
	ck_assert_double_eq(tracker_statistic("graphs"), 1);
	ck_assert_double_ge(tracker_statistic("trials"), TRACK_SAMPLES);
	ck_assert_double_gt(tracker_statistic("trial_percent"), 0);
}
END_TEST

START_TEST(opportunities_are_told_with_their_gain) {
	struct wire_writer *w = request_begin(&client, REQUEST_EXPLAIN, 3);
	struct batch_text b = { 0 };
	int64_t load = batch_load(&client, &b, 1, (int64_t[]){ 1000 }), node = batch_op(&b, OP_mul, load, load);
	cJSON *json, *list;

	node = batch_op(&b, OP_relu, node, 0);
	put_batch_ops(w, &b);
	put_list(w, 1, (uint64_t[]){ (uint64_t)node });
	wire_put_uint(w, EXPLAIN_OPPORTUNITIES);
	expect(request_finish(), REQUEST_EXPLAIN);
	json = answer_json();
	list = cJSON_GetObjectItem(json, "opportunities");
	ck_assert_int_eq(cJSON_GetArraySize(list), 1);
	ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(list->child, "pattern")), "binary_activation");
	ck_assert_double_eq(cJSON_GetObjectItem(list->child, "kernels_before")->valuedouble, 2);
	ck_assert_double_eq(cJSON_GetObjectItem(list->child, "buffers_eliminated")->valuedouble, 1);
	ck_assert_double_ge(cJSON_GetObjectItem(list->child, "bytes_saved")->valuedouble, 8000);
	cJSON_Delete(json);
	ck_assert_double_eq(statistic(&client, 0, "runs"), 0);
}
END_TEST

START_TEST(statistics_count_what_happened) {
	uint64_t handle = make(&client, 0, 1);

	read_floats(&client, handle, 4);
	expect_fault(ask_read(&client, 99), FAULT_HANDLE);
	ck_assert_double_eq(statistic(&client, 0, "operations_received"), 2);
	ck_assert_double_eq(statistic(&client, 0, "reads"), 1);
	ck_assert_double_eq(statistic(&client, 0, "refused"), 1);
	ck_assert_double_eq(statistic(&client, 1, "sessions"), 1);
	ck_assert_double_ge(statistic(&client, 1, "kernels_launched"), 1);
	client_begin(&client, 2);
	ck_assert_double_eq(statistic(&client, 1, "sessions_total"), 2);
}
END_TEST

START_TEST(counters_of_ended_sessions_stay_in_the_daemons) {
	struct client other;

	client_begin(&other, 2);
	make(&other, 0, 1);
	client_end(&other);
	ck_assert_double_eq(statistic(&client, 1, "operations_received"), 2);
	ck_assert_double_eq(statistic(&client, 1, "sessions"), 1);
}
END_TEST

/* ---- ends ---- */

START_TEST(a_session_that_ends_in_the_middle_answers_everything_it_held) {
	uint32_t held, waiting, reading;

	configure(&client, "fusion.window_us", "1s");
	keep_busy(&client);
	submit_small(&client, 0, 0);
	reading = ask_read(&client, handle_of(1000, 1));
	waiting = request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ client.seq });
	held = request_numbers(&client, REQUEST_WAIT, 1, (uint64_t[]){ client.seq + 1 });
	server_turn(engine.server);
	submit_small(&client, 1, 0);
	server_turn(engine.server);
	client_end(&client);
	expect_fault(held, FAULT_CONNECT);
	expect_fault(waiting, FAULT_CONNECT);
	expect_fault(reading, FAULT_CONNECT);
	expect_fault(ask_read(&client, handle_of(1000, 1)), FAULT_CONNECT);
	client_begin(&client, 2);
	ck_assert_float_eq(read_floats(&client, make(&client, 0, 5), 4)[0], 5);
}
END_TEST

START_TEST(many_sessions_come_and_go_without_a_trace) {
	for (uint64_t i = 2; i < 30; i++) {
		struct client c;

		client_begin(&c, i);
		ck_assert_float_eq(read_floats(&c, make(&c, 0, (double)i), 4)[0], (float)i);
		client_end(&c);
	}
	engine_turn_until(engine_is_idle, 0);
	ck_assert_double_eq(statistic(&client, 1, "sessions"), 1);
	ck_assert_double_eq(statistic(&client, 1, "memory_bytes"), 0);
}
END_TEST

/* ---- patterns of users ---- */

static uint32_t ask_pattern(const struct client *c, uint64_t scope, const char *signature, const char *text) {
	struct wire_writer *w = request_begin(c, REQUEST_PATTERN, 3);

	wire_put_uint(w, scope);
	wire_put_text(w, signature);
	wire_put_text(w, text);
	return request_finish();
}

static uint32_t ask_forget(const struct client *c, uint64_t scope, const char *name) {
	struct wire_writer *w = request_begin(c, REQUEST_FORGET_PATTERN, 2);

	wire_put_uint(w, scope);
	wire_put_text(w, name);
	return request_finish();
}

/* What a session, or the daemon, has counted of a pattern. */
static double counted(const struct client *c, uint64_t scope, const char *pattern, const char *name) {
	const cJSON *one;
	double value = 0;
	cJSON *json;

	expect(request_numbers(c, REQUEST_STATS, 1, &scope), REQUEST_STATS);
	json = answer_json();
	cJSON_ArrayForEach(one, cJSON_GetObjectItem(json, "patterns")) {
		if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(one, "pattern")), pattern))
			value += cJSON_GetObjectItem(one, name)->valuedouble;
	}
	cJSON_Delete(json);
	return value;
}

/* (1 + exp(4 * x)) - 2 of so many x that are 0; as a handle of this slot. */
static uint32_t submit_expression(struct client *c, uint32_t slot, int64_t n, double factor) {
	struct batch_text b = { 0 };
	int64_t x = batch_fill(&b, n, 0), node;

	b.op[x].op = OP_arange;
	b.op[x].attr.value[1] = 0;
	node = batch_op(&b, OP_mul, batch_fill(&b, n, factor), x);
	node = batch_op(&b, OP_exp, node, 0);
	node = batch_op(&b, OP_add, batch_fill(&b, n, 1), node);
	node = batch_op(&b, OP_sub, node, batch_fill(&b, n, 2));
	batch_name(&b, node, handle_of(slot, 1));
	return submit(c, &b);
}

static void run_expression(struct client *c, uint32_t slot, double factor) {
	expect(submit_expression(c, slot, 1000, factor), REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(c, handle_of(slot, 1), 1000)[999], 0);
}

/* A sum in two passes: more kernels than operations. */
static int64_t long_sum(struct batch_text *b, uint32_t slot) {
	int64_t x = batch_fill(b, 1 << 20, 1), node = batch_op(b, OP_neg, x, 0);

	node = batch_op(b, OP_reduce_sum, node, 0);
	b->op[node].attr.axes = 1;
	batch_name(b, node, handle_of(slot, 1));
	return node;
}

START_TEST(statistics_and_explain_count_the_kernels_of_the_plan_without_fusion) {
	struct batch_text b = { 0 };
	int64_t node = long_sum(&b, 0);
	double unfused = explained_batch(&client, &b, node, EXPLAIN_UNFUSED, "kernel_count");

	ck_assert_double_eq(unfused, 3);
	ck_assert_double_eq(explained_batch(&client, &b, node, 0, "unfused_kernel_count"), unfused);
	ck_assert_double_eq(explained_batch(&client, &b, node, EXPLAIN_UNFUSED, "unfused_kernel_count"), unfused);
	for (uint32_t run = 0; run < 2; run++) {
		memset(&b, 0, sizeof b);
		long_sum(&b, run);
		expect(submit(&client, &b), REQUEST_SUBMIT);
		ck_assert_float_eq(read_floats(&client, handle_of(run, 1), 1)[0], -(1 << 20));
		ck_assert_double_eq(statistic(&client, 0, "kernels_launched"), 2 * (run + 1));
		ck_assert_double_eq(statistic(&client, 0, "kernels_unfused"), unfused * (run + 1));
		ck_assert_double_eq(statistic(&client, 0, "operations_executed"), 2 * (run + 1));
		ck_assert_double_eq(statistic(&client, 0, "fusions"), run + 1);
		ck_assert_double_eq(statistic(&client, 0, "reductions"), run + 1);
		ck_assert_double_eq(statistic(&client, 0, "reduce_fused"), run + 1);
		ck_assert_double_eq(statistic(&client, 0, "reduce_single"), 0);
		ck_assert_double_gt(statistic(&client, 0, "estimated_speedup"), 0);
		ck_assert_double_eq(counted(&client, 0, "reduce_prologue", "kernels_before"), unfused * (run + 1));
		ck_assert_double_eq(counted(&client, 0, "reduce_prologue", "kernels_after"), 2 * (run + 1));
	}
}
END_TEST

/* What fusing gained in the last graphs. */
START_TEST(opportunities_of_what_has_run_are_told) {
	struct client other;
	cJSON *json, *graph, *list;

	client_begin(&other, 2);
	run_expression(&client, 0, 4);
	expect(request_numbers(&other, REQUEST_RECENT, 2, (uint64_t[]){ 0, EXPLAIN_OPPORTUNITIES }), REQUEST_RECENT);
	json = answer_json();
	graph = cJSON_GetObjectItem(json, "graphs")->child;
	list = cJSON_GetObjectItem(graph, "opportunities");
	ck_assert_int_eq(cJSON_GetArraySize(list), 1);
	ck_assert(!cJSON_HasObjectItem(graph, "kernels"));
	ck_assert_double_gt(cJSON_GetObjectItem(list->child, "estimated_gain_us")->valuedouble, 0);
	ck_assert_double_eq(cJSON_GetObjectItem(list->child, "kernel")->valuedouble, 1);
	ck_assert_int_gt(cJSON_GetArraySize(cJSON_GetObjectItem(list->child, "operations")), 2);
	ck_assert(cJSON_HasObjectItem(cJSON_GetObjectItem(list->child, "operations")->child, "id"));
	cJSON_Delete(json);
}
END_TEST

static const char text[] = "exp(4 * x) + 1";

START_TEST(a_pattern_of_a_client_is_counted_and_switched_in_its_session_alone) {
	struct client other;
	double launched;

	client_begin(&other, 2);
	expect(ask_pattern(&client, 0, "mine(x)", text), REQUEST_PATTERN);
	run_expression(&client, 0, 4);
	run_expression(&other, 0, 4);
	run_expression(&client, 1, 3);
	run_expression(&client, 2, 4);
	ck_assert_double_eq(counted(&client, 0, "mine", "count"), 2);
	ck_assert_double_eq(counted(&client, 0, "mine", "found"), 2);
	ck_assert_double_eq(counted(&client, 0, "mine", "kernels_before"), 8);
	ck_assert_double_eq(counted(&client, 0, "mine", "kernels_after"), 2);
	ck_assert_double_gt(counted(&client, 0, "mine", "saved_bytes"), 0);
	ck_assert_double_eq(counted(&client, 0, "elementwise_chain", "count"), 3);
	ck_assert_double_eq(counted(&other, 0, "mine", "found"), 0);
	ck_assert_double_eq(counted(&client, 1, "mine", "count"), 2);
	expect_setting(&client, 0, "fusion.pattern.mine", "yes");
	configure(&client, "fusion.pattern.mine", "no");
	launched = statistic(&client, 0, "kernels_launched");
	run_expression(&client, 3, 4);
	ck_assert_double_gt(statistic(&client, 0, "kernels_launched"), launched + 1);
	ck_assert_double_eq(counted(&client, 0, "mine", "found"), 3);
	ck_assert_double_eq(counted(&client, 0, "mine", "count"), 2);
	expect_fault(ask_configure(&other, "fusion.pattern.mine", "no"), FAULT_ARGUMENT);
	expect_fault(ask_configure(&client, "fusion.pattern.mine", "sometimes"), FAULT_ARGUMENT);
	/* The other one's plans are those of before. */
	launched = statistic(&other, 0, "kernels_launched");
	run_expression(&other, 1, 4);
	ck_assert_double_eq(statistic(&other, 0, "kernels_launched"), launched + 1);
	client_end(&client);
	ck_assert_double_eq(counted(&other, 1, "mine", "count"), 0);
}
END_TEST

START_TEST(what_is_no_pattern_is_refused) {
	char name[32];

	expect(ask_pattern(&client, 0, "mine(x)", text), REQUEST_PATTERN);
	expect_fault(ask_pattern(&client, 0, "mine(x)", text), FAULT_ARGUMENT);
	expect_fault(ask_pattern(&client, 0, "horizontal(x)", text), FAULT_ARGUMENT);
	expect_fault(ask_pattern(&client, 0, "softmax(x)", text), FAULT_ARGUMENT);
	expect_fault(ask_pattern(&client, 0, "again(x)", "again(x) + again(x)"), FAULT_SYNTAX);
	expect_fault(ask_forget(&client, 0, "yours"), FAULT_ARGUMENT);
	for (unsigned i = 1; i < BOOK_OWN; i++) {
		snprintf(name, sizeof name, "p%u(x)", i);
		expect(ask_pattern(&client, 0, name, text), REQUEST_PATTERN);
	}
	expect_fault(ask_pattern(&client, 0, "one_more(x)", text), FAULT_LIMIT);
	expect(ask_forget(&client, 0, "mine"), REQUEST_FORGET_PATTERN);
	expect(ask_pattern(&client, 0, "one_more(x)", text), REQUEST_PATTERN);
	run_expression(&client, 0, 4);
	ck_assert_double_eq(counted(&client, 0, "one_more", "count"), 1);
	ck_assert_double_eq(counted(&client, 0, "p31", "count"), 1);
	ck_assert_double_eq(counted(&client, 0, "mine", "count"), 0);
}
END_TEST

START_TEST(a_pattern_may_go_while_its_graph_runs) {
	struct client other;

	client_begin(&other, 2);
	expect(ask_pattern(&client, 0, "mine(x)", text), REQUEST_PATTERN);
	expect(ask_pattern(&client, 0, "too(x)", "exp(x) + 1"), REQUEST_PATTERN);
	keep_busy(&other);
	expect(submit_expression(&client, 0, 1 << 20, 4), REQUEST_SUBMIT);
	expect(ask_forget(&client, 0, "mine"), REQUEST_FORGET_PATTERN);
	ck_assert_float_eq(read_floats(&client, handle_of(0, 1), 1 << 20)[7], 0);
	ck_assert_double_eq(counted(&client, 0, "mine", "count"), 0);
	ck_assert_double_eq(counted(&client, 0, "too", "count"), 1);
	/* Nor does a session that ends wait for it. */
	expect(submit_expression(&client, 1, 1 << 20, 4), REQUEST_SUBMIT);
	client_end(&client);
	run_expression(&other, 0, 4);
}
END_TEST

START_TEST(a_pattern_for_all_is_for_who_governs) {
	struct client other, later;

	client_begin(&other, 2);
	run_expression(&client, 0, 4);
	set_uid(client.session, geteuid() + 1);
	expect_fault(ask_pattern(&client, 1, "common(x)", text), FAULT_PERMISSION);
	set_uid(client.session, geteuid());
	expect(ask_pattern(&other, 0, "shadow(x)", "exp(x) + 1"), REQUEST_PATTERN);
	expect(ask_pattern(&client, 1, "common(x)", text), REQUEST_PATTERN);
	expect(ask_pattern(&client, 1, "shadow(x)", text), REQUEST_PATTERN);
	expect_fault(ask_pattern(&other, 0, "common(x)", text), FAULT_ARGUMENT);
	run_expression(&client, 1, 4);
	run_expression(&other, 0, 3);
	/* A client's own one of a name goes before. */
	ck_assert_double_eq(counted(&client, 0, "shadow", "count"), 1);
	ck_assert_double_eq(counted(&other, 0, "shadow", "count"), 1);
	configure(&other, "fusion.pattern.common", "yes");
	expect(ask_texts(&client, REQUEST_SET, "fusion.pattern.common", "off"), REQUEST_SET);
	expect_setting(&client, 0, "fusion.pattern.common", "no");
	expect_setting(&client, 1, "fusion.pattern.common", "no");
	expect_setting(&other, 0, "fusion.pattern.common", "yes");
	client_begin(&later, 3);
	expect_setting(&later, 0, "fusion.pattern.common", "no");
	expect_fault(ask_texts(&client, REQUEST_SET, "fusion.pattern.nobodys", "off"), FAULT_ARGUMENT);
	ck_assert_double_eq(counted(&client, 1, "common", "count"), 1);
	client_end(&later);
	expect(ask_forget(&other, 0, "shadow"), REQUEST_FORGET_PATTERN);
	run_expression(&other, 1, 4);
	ck_assert_double_eq(counted(&other, 0, "shadow", "count"), 1);
	expect(ask_forget(&client, 1, "common"), REQUEST_FORGET_PATTERN);
	expect_fault(ask_configure(&other, "fusion.pattern.common", "no"), FAULT_ARGUMENT);
	expect(request_numbers(&client, REQUEST_PATTERNS, 0, NULL), REQUEST_PATTERNS);
	ck_assert_ptr_nonnull(strstr(answer_text(), "\"shadow\",\"from\":\"the administrator\""));
}
END_TEST

static void add_pattern_tests(TCase *tests) {
	tcase_add_test(tests, a_pattern_of_a_client_is_counted_and_switched_in_its_session_alone);
	tcase_add_test(tests, what_is_no_pattern_is_refused);
	tcase_add_test(tests, a_pattern_may_go_while_its_graph_runs);
	tcase_add_test(tests, a_pattern_for_all_is_for_who_governs);
}

static void add_order_tests(TCase *tests) {
	tcase_add_test(tests, garbage_is_refused_and_changes_nothing);
	tcase_add_test(tests, every_truncation_of_a_batch_is_refused_and_changes_nothing);
	tcase_add_test(tests, mutated_batches_harm_nobody_else);
	tcase_add_test(tests, a_wrong_secret_and_an_unknown_session_are_refused_alike);
	tcase_add_test(tests, a_message_that_does_not_exist_is_refused);
	tcase_add_test(tests, a_session_and_an_arena_on_their_way_are_waited_for);
	tcase_add_test(tests, a_session_whose_ring_did_not_come_is_ended);
	tcase_add_test(tests, a_session_whose_memory_cannot_be_mapped_is_ended);
	tcase_add_test(tests, memory_that_came_without_its_descriptor_is_missed_where_it_is_used);
	tcase_add_test(tests, batches_run_in_the_order_of_their_numbers);
	tcase_add_test(tests, a_read_waits_for_the_batch_it_comes_after);
	tcase_add_test(tests, a_number_that_was_used_is_refused);
	tcase_add_test(tests, a_number_that_is_held_already_is_refused);
	tcase_add_test(tests, a_number_too_far_ahead_is_refused);
	tcase_add_test(tests, what_is_held_is_bounded);
	tcase_add_test(tests, a_refused_batch_uses_its_number_up);
}

static void add_handle_tests(TCase *tests) {
	tcase_add_test(tests, a_handle_that_was_never_used_is_refused);
	tcase_add_test(tests, a_released_handle_is_refused);
	tcase_add_test(tests, a_stale_handle_is_refused_with_the_generation_of_its_slot);
	tcase_add_test(tests, an_array_at_the_last_slot_costs_no_table);
	tcase_add_test(tests, memory_for_arrays_beyond_the_users_limit_is_refused);
	tcase_add_test(tests, a_handle_of_another_session_is_refused);
	tcase_add_test(tests, an_output_needs_a_free_slot_and_a_new_generation);
	tcase_add_test(tests, a_slot_beyond_the_limit_is_refused);
	tcase_add_test(tests, a_release_twice_is_refused);
	tcase_add_test(tests, releases_give_memory_back);
	tcase_add_test(tests, client_memory_is_told_as_free_once_nothing_uses_it);
	tcase_add_test(tests, a_refused_batch_poisons_its_outputs_and_names_the_operation);
	tcase_add_test(tests, poison_spreads_to_what_depends_on_it_and_no_further);
	tcase_add_test(tests, unknown_operations_and_wrong_arities_are_refused);
	tcase_add_test(tests, a_pattern_is_switched_off_for_the_devices_that_are_not_named);
	tcase_add_test(tests, fusion_is_switched_off_for_the_devices_that_are_not_named);
	tcase_add_test(tests, pairs_of_operations_are_kept_apart);
	tcase_add_test(tests, loads_beyond_the_arena_are_refused);
	tcase_add_test(tests, a_load_beyond_its_arena_is_told_so_while_memory_is_short);
	tcase_add_test(tests, f64_is_refused_where_the_device_lacks_it);
	tcase_add_test(tests, memory_that_is_refused_poisons_and_is_told_by_wait);
}

static void add_value_tests(TCase *tests) {
	tcase_add_test(tests, a_strided_view_is_read_in_row_major_order);
	tcase_add_test(tests, a_slice_of_whole_rows_is_read_without_a_copy);
	tcase_add_test(tests, writing_makes_a_version_and_views_keep_the_old_one);
	tcase_add_test(tests, what_was_queued_before_a_map_sees_the_old_values);
	tcase_add_test(tests, a_mapped_array_takes_part_in_nothing);
	tcase_add_test(tests, a_recorded_graph_runs_with_new_inputs);
	tcase_add_test(tests, a_replay_with_other_types_is_refused_and_poisons_its_outputs);
	tcase_add_test(tests, recorded_operations_keep_their_attributes);
	tcase_add_test(tests, a_recorded_graph_that_loads_or_exists_is_refused);
	tcase_add_test(tests, settings_of_a_session_change_and_others_are_refused);
	tcase_add_test(tests, explain_plans_and_runs_nothing);
	tcase_add_loop_test(tests, an_explanation_longer_than_a_message_is_refused_while_it_is_made, 0, 2);
	tcase_add_test(tests, can_fuse_answers_of_the_plan);
	tcase_add_test(tests, a_setting_of_the_daemon_is_for_those_who_have_not_chosen);
	tcase_add_test(tests, texts_that_a_session_has_chosen_are_its_own_and_stay);
	tcase_add_test(tests, other_users_change_nothing_and_see_nothing_of_others);
	tcase_add_test(tests, the_last_graphs_of_a_session_are_told);
	tcase_add_test(tests, a_graph_that_runs_often_is_tried_in_other_forms);
	tcase_add_test(tests, opportunities_are_told_with_their_gain);
	tcase_add_test(tests, opportunities_of_what_has_run_are_told);
	tcase_add_test(tests, statistics_and_explain_count_the_kernels_of_the_plan_without_fusion);
	tcase_add_test(tests, statistics_count_what_happened);
	tcase_add_test(tests, counters_of_ended_sessions_stay_in_the_daemons);
}

static void add_window_tests(TCase *tests) {
	tcase_add_test(tests, a_batch_that_meets_an_idle_device_runs_at_once);
	tcase_add_test(tests, batches_gather_while_the_device_is_busy_and_run_as_one);
	tcase_add_test(tests, a_large_recorded_graph_joins_no_others);
	tcase_add_test(tests, a_read_ends_the_window);
	tcase_add_test(tests, the_urgent_flag_ends_the_window);
	tcase_add_test(tests, what_is_cancelled_fails_and_later_operations_run);
	tcase_add_test(tests, operations_and_bytes_end_the_window);
	tcase_add_test(tests, time_ends_the_window);
	tcase_add_test(tests, a_batch_is_accepted_ahead_of_the_answer_that_is_waited_for);
	tcase_add_test(tests, what_is_released_before_it_runs_is_not_computed);
	tcase_add_test(tests, what_is_told_to_have_run_is_begun_for_the_next_engine);
	tcase_add_test(tests, an_engine_that_ends_before_it_has_a_session_loses_nothing_of_it);
	tcase_add_test(tests, a_value_is_where_it_was_until_a_copy_of_it_is_there);
	tcase_add_test(tests, a_released_array_does_not_lead_to_the_buffer_of_another);
	tcase_add_test(tests, a_batch_is_not_begun_with_those_that_run_before_it);
	tcase_add_loop_test(tests, batches_beyond_the_queue_are_accepted_as_others_complete, 0, 2);
	tcase_add_test(tests, batches_beyond_the_queue_of_their_user_wait_for_his_other_sessions);
	tcase_add_test(tests, arrays_beyond_those_of_their_user_are_refused_until_a_session_ends);
	tcase_add_test(tests, batches_wait_while_their_user_has_as_many_kernels_built_as_he_may);
	tcase_add_test(tests, kernels_of_who_has_gone_are_not_built_and_do_not_count);
	tcase_add_test(tests, a_kernel_that_another_session_waits_for_is_built_though_who_asked_first_has_gone);
	tcase_add_test(tests, kernels_of_what_is_cancelled_are_not_built);
	tcase_add_test(tests, kernels_that_nobody_waits_for_hold_up_no_batch);
	tcase_add_test(tests, kernels_of_a_minute_are_limited);
	tcase_add_test(tests, a_session_that_ends_in_the_middle_answers_everything_it_held);
	tcase_add_test(tests, many_sessions_come_and_go_without_a_trace);
}

int main(void) {
	Suite *suite = suite_create("serve");
	TCase *tests = tcase_create("serve"), *patterns = tcase_create("patterns");
	char command[128];
	int failed;

	strcpy(engine_cache, "/tmp/test_serve_XXXXXX");
	if (!mkdtemp(engine_cache) || !driver_cache_link(engine_cache))
		return 2;
	log_set_level(LOG_LEVEL_ERROR);
	tcase_set_timeout(tests, 120);
	tcase_set_timeout(patterns, 120);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_checked_fixture(patterns, setup, teardown);
	add_order_tests(tests);
	add_handle_tests(tests);
	add_value_tests(tests);
	add_window_tests(tests);
	add_pattern_tests(patterns);
	suite_add_tcase(suite, tests);
	suite_add_tcase(suite, patterns);
	failed = suite_run(suite);
	snprintf(command, sizeof command, "rm -rf %s", engine_cache);
	return system(command) || failed;
}

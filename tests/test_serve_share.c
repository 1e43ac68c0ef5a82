/*
 * EXPORT and IMPORT on the engine's one thread: what the supervisor is to give comes when it comes, and nobody else waits for it.
 */
#include "test_serve_engine.h"

#include "tests/descriptors.h"
#include "tests/driver_cache.h"
#include "tests/planner_gate.h"
#include "tests/suite.h"
#include "tests/tree.h"

enum {
	ELEMENTS = 4,
	/* Operations of a graph that is planned beside the engine's thread. */
	MANY = 2 * PLANNING_NODES,
};

static struct client owner, other;

static void setup(void) {
	engine_open();
	client_begin(&owner, 1);
	client_begin(&other, 2);
	engine.late = true;
}

static void teardown(void) {
	answer_close();
	engine_close();
}

/* f32[4] of a value. */
static uint64_t make(struct client *c, uint32_t slot, double value) {
	struct batch_text b = { 0 };

	batch_name(&b, batch_op(&b, OP_copy, batch_fill(&b, ELEMENTS, value), 0), handle_of(slot, 1));
	expect(submit(c, &b), REQUEST_SUBMIT);
	return handle_of(slot, 1);
}

static void release(struct client *c, uint64_t handle) {
	struct batch_text b = { .release = { handle }, .releases = 1 };

	expect(submit(c, &b), REQUEST_SUBMIT);
}

static bool has_asked(uint64_t times) {
	return atomic_load(&engine.asks) >= times;
}

static uint32_t ask_export(const struct client *c, uint64_t handle, uint64_t own) {
	return request_numbers(c, REQUEST_EXPORT, 5, (uint64_t[]){ c->seq, handle, own, SHARE_READ | SHARE_WRITE, 0 });
}

struct token_bytes {
	unsigned char bytes[LIMIT_TOKEN_BYTES];
};

static struct token_bytes token_of(uint32_t number) {
	struct token_bytes t;
	const void *bytes;
	struct fault f;

	expect(number, REQUEST_EXPORT);
	ck_assert_int_eq(wire_get_bin(&answer.body, "token", sizeof t.bytes, &bytes, &f), 0);
	memcpy(t.bytes, bytes, sizeof t.bytes);
	return t;
}

/* Exports the array, with the supervisor's answer. */
static struct token_bytes export_of(struct client *c, uint64_t handle, uint64_t own) {
	unsigned asks = atomic_load(&engine.asks);
	uint32_t number = ask_export(c, handle, own);

	engine_turn_until(has_asked, asks + 1);
	supervisor_answer(asks, false);
	return token_of(number);
}

static uint32_t ask_import(const struct client *c, const struct token_bytes *t, uint64_t handle) {
	struct wire_writer *w = request_begin(c, REQUEST_IMPORT, 3);

	wire_put_uint(w, c->seq);
	wire_put_bin(w, t->bytes, sizeof t->bytes);
	wire_put_uint(w, handle);
	return request_finish();
}

static float *place_of(uint32_t number, unsigned id) {
	uint64_t arena, offset;

	expect(number, id);
	arena = answer_number();
	offset = answer_number();
	return (float *)(void *)(engine.arena[arena - 1].base + offset);
}

static float value_of(const struct client *c, uint64_t handle) {
	return place_of(ask_read(c, handle), REQUEST_READ)[ELEMENTS - 1];
}

static void write_over(struct client *c, uint64_t handle, float value) {
	float *memory = place_of(request_numbers(c, REQUEST_MAP, 2, (uint64_t[]){ c->seq, handle }), REQUEST_MAP);

	for (int i = 0; i < ELEMENTS; i++)
		memory[i] = value;
	expect(request_numbers(c, REQUEST_UNMAP, 2, (uint64_t[]){ ++c->seq, handle }), REQUEST_UNMAP);
}

/* A graph of many operations whose result is the array, negated. */
static void submit_many(struct client *c, uint64_t handle, uint64_t result) {
	struct wire_writer *w = request_begin(c, REQUEST_SUBMIT, 5);
	struct coded_op op = { .op = OP_neg, .arity = 1, .in = { on_handle(handle) } };

	wire_put_uint(w, ++c->seq);
	wire_put_uint(w, 0);
	wire_put_array(w, MANY + 1);
	for (int64_t i = 0; i <= MANY; i++) {
		codec_put_op(w, &op);
		op.in[0] = i;
	}
	put_list(w, 2, (uint64_t[]){ MANY, result });
	put_list(w, 0, NULL);
	request_finish();
}

START_TEST(memory_of_an_export_is_waited_for_by_nobody_else) {
	uint32_t number = ask_export(&owner, make(&owner, 0, 5), handle_of(1, 1));
	struct token_bytes t;

	engine_turn_until(has_asked, 1);
	ck_assert_float_eq(value_of(&other, make(&other, 0, 7)), 7);
	ck_assert_float_eq(value_of(&owner, make(&owner, 2, 8)), 8);
	ck_assert(!answered(number));
	supervisor_answer(0, false);
	t = token_of(number);
	ck_assert_float_eq(value_of(&owner, handle_of(1, 1)), 5);
	/* The same for who opens it. */
	number = ask_import(&other, &t, handle_of(1, 1));
	engine_turn_until(has_asked, 2);
	ck_assert_float_eq(value_of(&owner, make(&owner, 3, 9)), 9);
	ck_assert(!answered(number));
	supervisor_answer(1, false);
	expect(number, REQUEST_IMPORT);
	ck_assert_float_eq(value_of(&other, handle_of(1, 1)), 5);
}
END_TEST

START_TEST(an_export_is_of_the_array_as_it_was_then) {
	uint64_t written = make(&owner, 0, 5), released = make(&owner, 1, 6);
	uint32_t first = ask_export(&owner, written, handle_of(2, 1)), second = ask_export(&owner, released, handle_of(3, 1));

	engine_turn_until(has_asked, 1);
	write_over(&owner, written, 50);
	release(&owner, released);
	/* Of memory one piece is asked for at a time. */
	ck_assert(!has_asked(2));
	supervisor_answer(0, false);
	token_of(first);
	engine_turn_until(has_asked, 2);
	supervisor_answer(1, false);
	token_of(second);
	ck_assert_float_eq(value_of(&owner, handle_of(2, 1)), 5);
	ck_assert_float_eq(value_of(&owner, handle_of(3, 1)), 6);
	ck_assert_float_eq(value_of(&owner, written), 50);
}
END_TEST

START_TEST(refused_memory_is_told_to_the_export_that_asked) {
	uint64_t handle = make(&owner, 0, 5);
	uint32_t first = ask_export(&owner, handle, handle_of(1, 1)), second = ask_export(&owner, handle, handle_of(2, 1));

	engine_turn_until(has_asked, 1);
	supervisor_answer(0, true);
	ck_assert_str_eq(expect_fault(first, FAULT_MEMORY), "there is no memory for the shared array: no");
	engine_turn_until(has_asked, 2);
	supervisor_answer(1, false);
	token_of(second);
	ck_assert_float_eq(value_of(&owner, handle_of(2, 1)), 5);
}
END_TEST

/* They wait for one answer. What is refused may be asked for again. */
START_TEST(imports_of_one_array_have_one_answer) {
	struct token_bytes t = export_of(&owner, make(&owner, 0, 5), handle_of(1, 1));
	uint32_t number[2];

	for (unsigned refuse = 2; refuse-- > 0;) {
		unsigned asks = atomic_load(&engine.asks);

		for (unsigned i = 0; i < 2; i++)
			number[i] = ask_import(&other, &t, handle_of(i, 1));
		engine_turn_until(has_asked, asks + 1);
		ck_assert_float_eq(value_of(&owner, make(&owner, 2 + refuse, 9)), 9);
		ck_assert_uint_eq(atomic_load(&engine.asks), asks + 1);
		supervisor_answer(asks, refuse);
		for (unsigned i = 0; i < 2; i++)
			if (refuse)
				expect_fault(number[i], FAULT_MEMORY);
			else
				expect(number[i], REQUEST_IMPORT);
	}
	ck_assert_float_eq(value_of(&other, handle_of(1, 1)), 5);
}
END_TEST

START_TEST(what_is_being_imported_stays_where_its_owner_lets_go_of_it) {
	struct token_bytes t = export_of(&owner, make(&owner, 0, 5), handle_of(1, 1));
	uint32_t number = ask_import(&other, &t, handle_of(0, 1));

	engine_turn_until(has_asked, 2);
	release(&owner, handle_of(1, 1));
	client_end(&owner);
	supervisor_answer(1, false);
	expect(number, REQUEST_IMPORT);
	ck_assert_float_eq(value_of(&other, handle_of(0, 1)), 5);
}
END_TEST

/* What comes again of several sessions is looked at once each time that something has happened. */
START_TEST(writers_wait_while_what_reads_their_array_is_planned) {
	struct token_bytes t = export_of(&owner, make(&owner, 0, 5), handle_of(1, 1));
	unsigned asks = atomic_load(&engine.asks);
	struct client writer[2];
	uint32_t map[2];

	for (unsigned i = 0; i < 2; i++) {
		uint32_t number;

		client_begin(&writer[i], 3 + i);
		number = ask_import(&writer[i], &t, handle_of(0, 1));
		engine_turn_until(has_asked, asks + 1 + i);
		supervisor_answer(asks + i, false);
		expect(number, REQUEST_IMPORT);
	}
	gate_close();
	submit_many(&owner, handle_of(1, 1), handle_of(2, 1));
	engine_turn_until(is_planning, 1);
	gate_await();
	for (unsigned i = 0; i < 2; i++)
		map[i] = request_numbers(&writer[i], REQUEST_MAP, 2, (uint64_t[]){ writer[i].seq, handle_of(0, 1) });
	ck_assert_float_eq(value_of(&other, make(&other, 0, 7)), 7);
	ck_assert(!answered(map[0]) && !answered(map[1]));
	gate_open();
	expect(map[0], REQUEST_MAP);
	expect_fault(map[1], FAULT_STATE);
	ck_assert_float_eq(value_of(&owner, handle_of(2, 1)), -5);
}
END_TEST

static double shared_arrays(void) {
	return statistic(&other, 1, "shared_arrays");
}

static bool has_left(uint64_t times) {
	return atomic_load(&engine.left) >= times;
}

/* What a driver's thread has open for a moment is not counted. */
static bool has_no_more_descriptors(uint64_t than) {
	return (uint64_t)open_descriptors(getpid()) <= than;
}

/* An answer that comes then is nobody's. */
START_TEST(a_session_that_ends_meanwhile_leaves_nothing) {
	struct token_bytes t = export_of(&other, make(&other, 0, 5), handle_of(1, 1));
	int descriptors = open_descriptors(getpid());

	for (unsigned early = 0; early < 2; early++) {
		unsigned asks = atomic_load(&engine.asks);
		struct client gone;
		uint32_t number[3];

		client_begin(&gone, 3 + early);
		number[0] = ask_export(&gone, make(&gone, 0, 5), handle_of(1, 1));
		number[1] = ask_export(&gone, handle_of(0, 1), handle_of(2, 1));
		number[2] = ask_import(&gone, &t, handle_of(3, 1));
		engine_turn_until(has_asked, asks + 2);
		for (unsigned i = 0; early && i < 2; i++)
			supervisor_answer(asks + i, false);
		client_end(&gone);
		for (unsigned i = 0; !early && i < 2; i++)
			supervisor_answer(asks + i, false);
		for (unsigned i = 0; i < 3; i++)
			answer_wait(number[i]);
		engine_turn_until(has_left, early + 1);
	}
	ck_assert_double_eq(shared_arrays(), 1);
	engine_turn_until(has_no_more_descriptors, (uint64_t)descriptors);
}
END_TEST

static uint32_t ask_made(const struct client *c, uint64_t handle, uint64_t flags) {
	struct wire_writer *w = request_begin(c, REQUEST_MADE, 2);

	put_list(w, 1, &handle);
	wire_put_uint(w, flags);
	return request_finish();
}

START_TEST(a_shared_array_that_another_session_wrote_is_none_that_a_run_made) {
	struct token_bytes t = export_of(&owner, make(&owner, 0, 5), handle_of(1, 1));
	uint32_t number = ask_import(&other, &t, handle_of(1, 1));

	engine_turn_until(has_asked, 2);
	supervisor_answer(1, false);
	expect(number, REQUEST_IMPORT);
	expect(ask_made(&owner, handle_of(1, 1), 0), REQUEST_MADE);
	write_over(&other, handle_of(1, 1), 50);
	ck_assert_ptr_nonnull(strstr(expect_fault(ask_made(&owner, handle_of(1, 1), 0), FAULT_STATE), "was written since a run made it"));
	ck_assert_ptr_nonnull(strstr(expect_fault(ask_made(&other, handle_of(1, 1), 0), FAULT_STATE), "is another program's"));
	/* What the run made besides is as it was. */
	expect(ask_made(&owner, handle_of(0, 1), 0), REQUEST_MADE);
}
END_TEST

START_TEST(what_ran_is_told_as_it_ran_or_not_at_all) {
	uint64_t handle = make(&owner, 0, 5);

	ck_assert_ptr_nonnull(strstr(expect_fault(ask_made(&owner, handle, EXPLAIN_UNFUSED), FAULT_ARGUMENT), "as it ran"));
	ck_assert_ptr_nonnull(strstr(expect_fault(ask_made(&owner, handle, EXPLAIN_BUILD | EXPLAIN_NODES), FAULT_ARGUMENT), "as it ran"));
	ck_assert_ptr_nonnull(strstr(expect_fault(ask_made(&owner, handle, EXPLAIN_ALL + 1), FAULT_ARGUMENT), "older than the program"));
	ck_assert_ptr_nonnull(strstr(expect_fault(request_numbers(&other, REQUEST_RECENT, 2, (uint64_t[]){ owner.session, EXPLAIN_BUILD }), FAULT_ARGUMENT), "as it ran"));
	expect(ask_made(&owner, handle, EXPLAIN_NODES | EXPLAIN_SOURCE), REQUEST_MADE);
}
END_TEST

/* The engine ends with what it waits for. */
START_TEST(an_engine_that_ends_meanwhile_waits_for_nothing) {
	struct token_bytes t = export_of(&other, make(&other, 0, 5), handle_of(1, 1));

	ask_export(&owner, make(&owner, 0, 5), handle_of(1, 1));
	ask_import(&owner, &t, handle_of(2, 1));
	engine_turn_until(has_asked, 3);
}
END_TEST

START_TEST(shared_arrays_that_are_on_their_way_count) {
	uint64_t handle = make(&owner, 0, 5);
	uint32_t first, second;

	engine.server->config.limits_shared_arrays = 1;
	first = ask_export(&owner, handle, handle_of(1, 1));
	second = ask_export(&owner, handle, handle_of(2, 1));
	engine_turn_until(has_asked, 1);
	supervisor_answer(0, false);
	token_of(first);
	expect_fault(second, FAULT_LIMIT);
	ck_assert(!has_asked(2));
}
END_TEST

int main(void) {
	Suite *s = suite_create("serve_share");
	TCase *c = tcase_create("answers of the supervisor");

	int failed;

	strcpy(engine_cache, "/tmp/fusiond-test-serve-share-XXXXXX");
	if (!mkdtemp(engine_cache) || !driver_cache_link(engine_cache))
		return EXIT_FAILURE;
	gate_build();
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, memory_of_an_export_is_waited_for_by_nobody_else);
	tcase_add_test(c, an_export_is_of_the_array_as_it_was_then);
	tcase_add_test(c, refused_memory_is_told_to_the_export_that_asked);
	tcase_add_test(c, imports_of_one_array_have_one_answer);
	tcase_add_test(c, what_is_being_imported_stays_where_its_owner_lets_go_of_it);
	tcase_add_test(c, writers_wait_while_what_reads_their_array_is_planned);
	tcase_add_test(c, a_session_that_ends_meanwhile_leaves_nothing);
	tcase_add_test(c, a_shared_array_that_another_session_wrote_is_none_that_a_run_made);
	tcase_add_test(c, what_ran_is_told_as_it_ran_or_not_at_all);
	tcase_add_test(c, an_engine_that_ends_meanwhile_waits_for_nothing);
	tcase_add_test(c, shared_arrays_that_are_on_their_way_count);
	suite_add_tcase(s, c);
	failed = suite_run(s);
	tree_remove(engine_cache);
	return failed;
}

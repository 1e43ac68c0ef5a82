/*
 * How long the engine's one thread takes for a turn of its loop, of its own processor time, where a client sends the most that a message may hold.
 *
 * The longest turn of each message is printed. Nothing is asserted of times, which a slow machine would make false; what is, is that others are
 * served in between.
 */
#include "test_serve_engine.h"

#include <time.h>

#include "daemon/serve/account.h"
#include "tests/driver_cache.h"
#include "tests/planner_gate.h"
#include "tests/suite.h"

enum {
	/* As many as a message may hold. */
	MOST_OPS = LIMIT_BATCH_OPS,
	/* Values that the next operation chooses from, and side of the matrices. */
	RECENT_VALUES = 12,
	SIDE = 8,
	/* Whose sessions they are. */
	USER = 1000,
	OTHER_USER = 1001,
};

static struct client client;
/* Of the test's own: what batch_text holds is for small ones. */
static struct coded_op big[MOST_OPS];

/* ---- turns ---- */

static struct {
	uint64_t longest_ns, total_ns;
	unsigned turns;
} spent;

static uint64_t thread_ns(void) {
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void one_turn(void) {
	struct pollfd p = { .fd = engine.inbox.bell, .events = POLLIN };
	uint64_t start;

	inbox_rung(&engine.inbox);
	start = thread_ns();
	server_turn(engine.server);
	start = thread_ns() - start;
	spent.turns++;
	spent.total_ns += start;
	if (start > spent.longest_ns)
		spent.longest_ns = start;
	if (getenv("TURNS_ALL") && start > 1000000)
		printf("   turn %u: %.2f ms\n", spent.turns, (double)start / 1e6);
	if (inbox_sleep(&engine.inbox))
		poll(&p, 1, 1);
	inbox_wake(&engine.inbox, true);
}

/* Until it is answered and nothing is left to be done. */
static void drive(uint32_t number, const char *what) {
	uint64_t end = loop_now() + UINT64_C(1000) * PATIENCE_MS;

	memset(&spent, 0, sizeof spent);
	while (!answered(number) || !engine_is_idle(0)) {
		ck_assert_msg(loop_now() < end, "%s: waited too long", what);
		one_turn();
	}
	printf("note: %-36s longest turn %7.2f ms, %5u turns, %8.2f ms in all\n", what, (double)spent.longest_ns / 1e6, spent.turns,
		(double)spent.total_ns / 1e6);
}

/* ---- graphs ---- */

static uint64_t state;

static unsigned below(unsigned n) {
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(state >> 33) % n;
}

static int64_t put(unsigned *count, unsigned op, int64_t x, int64_t y) {
	big[*count] = (struct coded_op){ .op = (uint16_t)op, .arity = op_info(op)->arity, .in = { x, y } };
	return (*count)++;
}

static int64_t put_fill(unsigned *count, double value) {
	int64_t node = put(count, OP_fill, 0, 0);
	struct op_attr *a = &big[node].attr;

	a->dtype = DTYPE_f32;
	a->rank = 2;
	a->dims[0] = a->dims[1] = SIDE;
	a->value[0] = dtype_scalar_from_double(DTYPE_f32, value);
	return node;
}

/* As training makes them: elementwise operations of recent values, sums that are broadcast back, products, or elementwise ones alone. */
static unsigned make_graph(uint64_t seed, bool elementwise) {
	int64_t recent[RECENT_VALUES];
	unsigned n = 0;

	state = seed;
	for (unsigned i = 0; i < RECENT_VALUES; i++)
		recent[i] = put_fill(&n, 1.0 / (1 + i));
	while (n + RECENT_VALUES + 2 < MOST_OPS) {
		int64_t a = recent[below(RECENT_VALUES)], b = recent[below(RECENT_VALUES)], *to = &recent[below(RECENT_VALUES)];
		unsigned kind = below(16);

		if (kind == 0 && !elementwise) {
			int64_t sum = put(&n, OP_reduce_sum, b, 0);

			big[sum].attr.axes = 2;
			big[sum].attr.keepdims = 1;
			*to = put(&n, OP_sub, a, sum);
		} else if (kind == 1 && !elementwise) {
			*to = put(&n, OP_matmul, a, b);
		} else if (kind < 4) {
			*to = put(&n, kind == 2 ? OP_tanh : OP_relu, a, 0);
		} else {
			*to = put(&n, kind & 1 ? OP_mul : OP_add, a, b);
		}
	}
	for (unsigned i = 1; i < RECENT_VALUES; i++)
		recent[0] = put(&n, OP_add, recent[0], recent[i]);
	return n;
}

static void put_ops(struct wire_writer *w, unsigned n) {
	wire_put_array(w, n);
	for (unsigned i = 0; i < n; i++)
		codec_put_op(w, &big[i]);
}

static uint32_t submit_big(unsigned n, uint64_t handle) {
	struct wire_writer *w = request_begin(&client, REQUEST_SUBMIT, 5);

	wire_put_uint(w, ++client.seq);
	wire_put_uint(w, 0);
	put_ops(w, n);
	put_list(w, 2, (uint64_t[]){ n - 1, handle });
	put_list(w, 0, NULL);
	return request_finish();
}

static uint32_t explain_of(const struct client *c, unsigned n, uint64_t flags) {
	struct wire_writer *w = request_begin(c, REQUEST_EXPLAIN, 3);

	put_ops(w, n);
	put_list(w, 1, (uint64_t[]){ n - 1 });
	wire_put_uint(w, flags);
	return request_finish();
}

static uint32_t explain_big(unsigned n, uint64_t flags) {
	return explain_of(&client, n, flags);
}

/* ---- tests ---- */

static void setup(void) {
	engine_interpreter = INTERPRETER_ALWAYS;
	engine_open();
	client_begin(&client, 1);
}

static void teardown(void) {
	answer_close();
	engine_close();
}

/* ---- while a graph is planned ---- */

enum { CHAIN = 1000 };

/* f32[SIDE, SIDE] of 1 + CHAIN * value. */
static uint32_t submit_chain(struct client *c, double value, uint64_t handle) {
	struct wire_writer *w = request_begin(c, REQUEST_SUBMIT, 5);
	unsigned n = 0;
	int64_t at = put_fill(&n, 1), more = put_fill(&n, value);

	for (unsigned i = 0; i < CHAIN; i++)
		at = put(&n, OP_add, at, more);
	wire_put_uint(w, ++c->seq);
	wire_put_uint(w, 0);
	put_ops(w, n);
	put_list(w, 2, (uint64_t[]){ (uint64_t)at, handle });
	put_list(w, 0, NULL);
	return request_finish();
}

/* The client's chain is with the thread, which is held. */
static uint32_t begin_planning(struct client *c, double value, uint64_t handle) {
	uint32_t number;

	gate_close();
	number = submit_chain(c, value, handle);
	engine_turn_until(is_planning, c->session);
	gate_await();
	return number;
}

static uint64_t small(struct client *c, uint32_t slot, double value) {
	struct batch_text b = { 0 };

	batch_name(&b, batch_op(&b, OP_copy, batch_fill(&b, 4, value), 0), handle_of(slot, 1));
	expect(submit(c, &b), REQUEST_SUBMIT);
	return handle_of(slot, 1);
}

static bool has_ended(uint64_t unused) {
	return engine_is_idle(unused) && !aside_busy(engine.server->aside);
}

START_TEST(others_are_served_while_a_large_graph_is_planned) {
	struct client other;
	uint32_t number;

	client_begin(&other, 2);
	number = begin_planning(&client, 2, handle_of(0, 1));
	ck_assert_float_eq(read_floats(&other, small(&other, 0, 5), 4)[3], 5);
	ck_assert_double_eq(statistic(&client, 0, "plan_misses"), 0);
	ck_assert(is_planning(1));
	gate_open();
	expect(number, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(0, 1), SIDE * SIDE)[0], 1 + 2 * CHAIN);
	engine_turn_until(has_ended, 0);
	ck_assert_double_eq(statistic(&client, 0, "plan_misses"), 1);
	ck_assert_double_eq(statistic(&client, 0, "plan_hits"), 0);
}
END_TEST

START_TEST(what_the_client_asks_for_meanwhile_comes_behind_it) {
	uint32_t first = begin_planning(&client, 2, handle_of(0, 1)), second, read, wait, change;
	struct batch_text b = { 0 };

	read = ask_read(&client, handle_of(0, 1));
	wait = request_numbers(&client, REQUEST_WAIT, 1, &client.seq);
	change = ask_configure(&client, "fusion.enabled", "off");
	batch_name(&b, batch_op(&b, OP_neg, on_handle(handle_of(0, 1)), 0), handle_of(1, 1));
	second = submit(&client, &b);
	/* It may be explained. */
	{
		struct wire_writer *w = request_begin(&client, REQUEST_EXPLAIN, 3);

		put_batch_ops(w, &b);
		put_list(w, 1, (uint64_t[]){ 0 });
		wire_put_uint(w, 0);
		expect(request_finish(), REQUEST_EXPLAIN);
	}
	ck_assert(!answered(read) && !answered(wait) && !answered(change) && !answered(second));
	gate_open();
	expect(first, REQUEST_SUBMIT);
	expect(read, REQUEST_READ);
	expect(wait, REQUEST_WAIT);
	expect(change, REQUEST_CONFIGURE);
	expect(second, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(1, 1), SIDE * SIDE)[1], -1 - 2 * CHAIN);
}
END_TEST

START_TEST(what_is_being_planned_can_be_cancelled) {
	begin_planning(&client, 2, handle_of(0, 1));
	expect(request_numbers(&client, REQUEST_CANCEL, 0, NULL), REQUEST_CANCEL);
	ck_assert_uint_eq(answer_number(), 1);
	gate_open();
	expect_fault(ask_read(&client, handle_of(0, 1)), FAULT_CANCELLED);
	ck_assert_float_eq(read_floats(&client, small(&client, 1, 5), 4)[3], 5);
}
END_TEST

/* Of two, the second one's graph was not begun. */
START_TEST(sessions_may_end_while_their_graphs_are_planned) {
	struct client other, third;
	uint32_t read;

	client_begin(&other, 2);
	client_begin(&third, 3);
	begin_planning(&client, 2, handle_of(0, 1));
	submit_chain(&other, 3, handle_of(0, 1));
	engine_turn_until(is_planning, 2);
	read = ask_read(&client, handle_of(0, 1));
	client_end(&client);
	client_end(&other);
	expect_fault(read, FAULT_CONNECT);
	gate_open();
	engine_turn_until(has_ended, 0);
	ck_assert_float_eq(read_floats(&third, small(&third, 0, 5), 4)[3], 5);
	ck_assert_double_eq(statistic(&third, 1, "sessions"), 1);
}
END_TEST

static uint32_t replay_chain(uint64_t handle, uint64_t output) {
	struct wire_writer *w = request_begin(&client, REQUEST_REPLAY, 6);

	wire_put_uint(w, ++client.seq);
	wire_put_uint(w, 0);
	wire_put_uint(w, 7);
	put_list(w, 1, &handle);
	put_list(w, 1, &output);
	put_list(w, 0, NULL);
	return request_finish();
}

static void define_chain(void) {
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = 1, .dims = { 4 } };
	struct wire_writer *w = request_begin(&client, REQUEST_DEFINE, 5);
	unsigned n = 0;
	int64_t at = on_handle(0);

	for (unsigned i = 0; i < CHAIN; i++)
		at = put(&n, OP_add, at, on_handle(0));
	wire_put_uint(w, ++client.seq);
	wire_put_uint(w, 7);
	wire_put_array(w, 1);
	codec_put_type(w, &t);
	put_ops(w, n);
	put_list(w, 1, (uint64_t[]){ (uint64_t)at });
	expect(request_finish(), REQUEST_DEFINE);
}

/* A recorded graph is kept, and is planned once more where it is to be planned otherwise. */
START_TEST(a_recorded_graph_is_planned_beside_and_stays) {
	uint64_t x = small(&client, 9, 3);

	define_chain();
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_float_eq(read_floats(&client, (expect(replay_chain(x, handle_of(i, 1)), REQUEST_REPLAY), handle_of(i, 1)), 4)[2], 3 + 3 * CHAIN);
	configure(&client, "fusion.min_elements", "1000");
	gate_close();
	replay_chain(x, handle_of(3, 1));
	engine_turn_until(is_planning, 1);
	gate_await();
	gate_open();
	ck_assert_float_eq(read_floats(&client, handle_of(3, 1), 4)[2], 3 + 3 * CHAIN);
	ck_assert_float_eq(read_floats(&client, (expect(replay_chain(x, handle_of(4, 1)), REQUEST_REPLAY), handle_of(4, 1)), 4)[2], 3 + 3 * CHAIN);
	ck_assert_double_ge(statistic(&client, 0, "batches_again"), 2);
	configure(&client, "fusion.min_elements", "2000");
	gate_close();
	replay_chain(x, handle_of(5, 1));
	engine_turn_until(is_planning, 1);
	gate_await();
	client_end(&client);
	gate_open();
	engine_turn_until(has_ended, 0);
}
END_TEST

/* ---- while a graph is explained ---- */

static bool is_asking(uint64_t uid) {
	uid_t key = (uid_t)uid;
	struct account *a;

	HASH_FIND(hh, engine.server->accounts, &key, sizeof key, a);
	return a && a->asks;
}

static void begin_as(struct client *c, uint64_t session, uint64_t uid) {
	client_uid = uid;
	client_begin(c, session);
	client_uid = USER;
}

static uint32_t ask_pair(const struct client *c, unsigned first, unsigned second) {
	struct wire_writer *w = request_begin(c, REQUEST_CAN_FUSE, 4);

	make_graph(3, true);
	put_ops(w, CHAIN);
	put_list(w, 1, (uint64_t[]){ CHAIN - 1 });
	wire_put_uint(w, first);
	wire_put_uint(w, second);
	return request_finish();
}

static uint32_t ask_made(const struct client *c, uint64_t handle) {
	struct wire_writer *w = request_begin(c, REQUEST_MADE, 2);

	put_list(w, 1, &handle);
	wire_put_uint(w, EXPLAIN_NODES);
	return request_finish();
}

static uint32_t ask_recent(const struct client *c, uint64_t session) {
	struct wire_writer *w = request_begin(c, REQUEST_RECENT, 2);

	wire_put_uint(w, session);
	wire_put_uint(w, EXPLAIN_NODES);
	return request_finish();
}

static uint32_t explain_some(const struct client *c, unsigned ops) {
	make_graph(3, true);
	return explain_of(c, ops, 0);
}

/* The client's question is with the thread, which is held. */
static uint32_t begin_explaining(const struct client *c) {
	uint32_t number;

	gate_close();
	number = explain_some(c, CHAIN);
	gate_await();
	return number;
}

static void nothing_is_left(void) {
	struct client last;

	engine_turn_until(has_ended, 0);
	begin_as(&last, 99, USER);
	ck_assert(!is_asking(USER) && !is_asking(OTHER_USER));
	ck_assert_float_eq(read_floats(&last, small(&last, 0, 5), 4)[3], 5);
}

START_TEST(others_are_served_while_a_large_graph_is_explained) {
	uint32_t number = begin_explaining(&client);
	struct client other;

	client_begin(&other, 2);
	ck_assert_float_eq(read_floats(&other, small(&other, 0, 5), 4)[3], 5);
	ck_assert_float_eq(read_floats(&client, small(&client, 0, 6), 4)[3], 6);
	/* Small ones are answered at once. */
	expect(explain_some(&client, 50), REQUEST_EXPLAIN);
	ck_assert(!answered(number) && is_asking(USER));
	gate_open();
	expect(number, REQUEST_EXPLAIN);
	ck_assert_ptr_nonnull(strstr(answer_text(), "kernel_count"));
	nothing_is_left();
}
END_TEST

/* Each takes much memory. What waits keeps its place beside what is answered at once. */
START_TEST(a_user_has_one_large_graph_explained_at_a_time) {
	uint32_t first = begin_explaining(&client), second, pair, of_other;
	struct client other, stranger;

	client_begin(&other, 2);
	begin_as(&stranger, 3, OTHER_USER);
	second = explain_some(&client, CHAIN);
	pair = ask_pair(&other, 100, 101);
	of_other = explain_some(&stranger, CHAIN);
	ck_assert_float_eq(read_floats(&other, small(&other, 1, 7), 4)[3], 7);
	ck_assert_float_eq(read_floats(&client, small(&client, 1, 8), 4)[3], 8);
	ck_assert(!answered(first) && !answered(second) && !answered(pair) && !answered(of_other));
	gate_open();
	expect(first, REQUEST_EXPLAIN);
	/* Users take turns. */
	expect(of_other, REQUEST_EXPLAIN);
	ck_assert(!answered(second) || !answered(pair));
	expect(second, REQUEST_EXPLAIN);
	expect(pair, REQUEST_CAN_FUSE);
	nothing_is_left();
}
END_TEST

/* One that is being answered, one that waits for the same user's, and one that waits for the thread. */
START_TEST(a_question_ends_with_its_session) {
	uint32_t asked = begin_explaining(&client), held, waits;
	struct client other, stranger;

	client_begin(&other, 2);
	begin_as(&stranger, 3, OTHER_USER);
	held = explain_some(&other, CHAIN);
	waits = explain_some(&stranger, CHAIN);
	engine_turn_until(is_asking, OTHER_USER);
	client_end(&stranger);
	expect_fault(waits, FAULT_CONNECT);
	ck_assert(!is_asking(OTHER_USER));
	client_end(&client);
	expect_fault(asked, FAULT_CONNECT);
	/* The next one may wait for the thread. */
	engine_turn_until(is_asking, USER);
	client_end(&other);
	expect_fault(held, FAULT_CONNECT);
	gate_open();
	nothing_is_left();
}
END_TEST

/* In whatever step, of the planning, the telling and the printing. */
START_TEST(a_session_may_end_at_any_turn_of_its_question) {
	for (unsigned turns = 0; turns < 12; turns++) {
		struct client other;
		uint32_t number;

		client_begin(&other, 10 + turns);
		number = explain_some(&other, 300);
		for (unsigned i = 0; i < turns && !answered(number); i++)
			one_turn();
		client_end(&other);
		engine_turn_until(answered, number);
	}
	nothing_is_left();
}
END_TEST

static uint32_t run_chain(void) {
	uint32_t number = submit_chain(&client, 2, handle_of(0, 1));

	expect(number, REQUEST_SUBMIT);
	ck_assert_float_eq(read_floats(&client, handle_of(0, 1), SIDE * SIDE)[0], 1 + 2 * CHAIN);
	engine_turn_until(has_ended, 0);
	return number;
}

/* The thread has another user's; the run's session ends, too, and its graphs stay. */
START_TEST(what_ran_is_told_of_beside) {
	uint32_t made, recent, asked;
	struct client other, stranger;

	run_chain();
	client_begin(&other, 2);
	begin_as(&stranger, 3, OTHER_USER);
	asked = begin_explaining(&stranger);
	made = ask_made(&client, handle_of(0, 1));
	recent = ask_recent(&other, client.session);
	ck_assert_float_eq(read_floats(&other, small(&other, 0, 5), 4)[3], 5);
	ck_assert(is_asking(USER) && !answered(made) && !answered(recent));
	client_end(&client);
	expect_fault(made, FAULT_CONNECT);
	gate_open();
	expect(recent, REQUEST_RECENT);
	ck_assert_ptr_nonnull(strstr(answer_text(), "\"runs\":1,"));
	expect(asked, REQUEST_EXPLAIN);
	nothing_is_left();
}
END_TEST

/* It is told of as it was when that was asked for. */
START_TEST(a_graph_may_run_while_it_is_told_of) {
	uint32_t made, number;

	run_chain();
	for (uint32_t i = 1; i <= 4; i++) {
		made = ask_made(&client, handle_of(0, 1));
		engine_turn_until(is_asking, USER);
		number = submit_chain(&client, 2, handle_of(i, 1));
		ck_assert_float_eq(read_floats(&client, handle_of(i, 1), SIDE * SIDE)[0], 1 + 2 * CHAIN);
		expect(number, REQUEST_SUBMIT);
		expect(made, REQUEST_MADE);
		ck_assert_ptr_nonnull(strstr(answer_text(), "\"runs\":"));
	}
	nothing_is_left();
}
END_TEST

/* Of sessions that begin from now on. */
static void give_catalogue(void) {
	int fd = catalogue_create();
	struct wire_writer w;

	ck_assert_int_ge(fd, 0);
	wire_writer_init(&w);
	wire_put_array(&w, 1);
	wire_put_uint(&w, CONTROL_CATALOGUE);
	supervisor_say(&w, fd);
	close(fd);
}

static void count_beside(void *user, uint64_t session, const struct catalogue_run *r) {
	unsigned *count = user;

	*count += session == client.session && atomic_load(&r->step) == CATALOGUE_PLANNED_BESIDE;
}

static unsigned planned_beside(void) {
	unsigned count = 0;

	catalogue_runs(engine.server->catalogue, count_beside, &count);
	return count;
}

/* Where planning it ends the engine, the supervisor is to know whose it was. */
START_TEST(a_question_is_noted_while_it_is_planned) {
	uint32_t number;

	give_catalogue();
	client_begin(&client, 2);
	number = begin_explaining(&client);
	ck_assert_uint_eq(planned_beside(), 1);
	gate_open();
	expect(number, REQUEST_EXPLAIN);
	ck_assert_uint_eq(planned_beside(), 0);
	number = begin_explaining(&client);
	client_end(&client);
	expect_fault(number, FAULT_CONNECT);
	ck_assert_uint_eq(planned_beside(), 0);
	gate_open();
	nothing_is_left();
}
END_TEST

/* What is wrong with it is told as of a small one. */
START_TEST(a_large_question_may_be_refused) {
	struct wire_writer *w = request_begin(&client, REQUEST_EXPLAIN, 3);

	make_graph(3, true);
	put_ops(w, CHAIN);
	put_list(w, 1, (uint64_t[]){ CHAIN });
	wire_put_uint(w, 0);
	expect_fault(request_finish(), FAULT_ARGUMENT);
	expect_fault(ask_pair(&client, 100, CHAIN), FAULT_ARGUMENT);
	/* Longer than a message, which is found where it is told. */
	expect_fault(explain_big(make_graph(4, false), EXPLAIN_SOURCE | EXPLAIN_UNFUSED), FAULT_LIMIT);
	nothing_is_left();
}
END_TEST

/* ---- the longest turns ---- */

START_TEST(the_largest_batches) {
	drive(submit_big(make_graph(1, true), handle_of(1, 1)), "SUBMIT, elementwise");
	drive(submit_big(make_graph(1, true), handle_of(2, 1)), "SUBMIT, elementwise, again");
	drive(submit_big(make_graph(2, false), handle_of(3, 1)), "SUBMIT, as training makes them");
	drive(submit_big(make_graph(2, false), handle_of(4, 1)), "SUBMIT, as training, again");
}
END_TEST

START_TEST(the_largest_explanations) {
	drive(explain_big(make_graph(3, true), 0), "EXPLAIN, elementwise");
	drive(explain_big(make_graph(4, false), 0), "EXPLAIN, as training makes them");
	drive(explain_big(make_graph(4, false), EXPLAIN_NODES), "EXPLAIN, with the operations");
	drive(explain_big(make_graph(4, false), EXPLAIN_SOURCE), "EXPLAIN, with sources");
	drive(explain_big(make_graph(4, false), EXPLAIN_UNFUSED | EXPLAIN_OPPORTUNITIES), "EXPLAIN, a kernel an operation");
	drive(submit_big(make_graph(4, false), handle_of(1, 1)), "SUBMIT, to be told of");
	drive(ask_made(&client, handle_of(1, 1)), "MADE, with the operations");
}
END_TEST

int main(void) {
	Suite *suite = suite_create("turns");
	TCase *tests = tcase_create("turns");
	char command[128];
	int failed;

	strcpy(engine_cache, "/tmp/test_turns_XXXXXX");
	if (!mkdtemp(engine_cache) || !driver_cache_link(engine_cache))
		return 2;
	log_set_level(LOG_LEVEL_ERROR);
	gate_build();
	tcase_set_timeout(tests, 600);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, others_are_served_while_a_large_graph_is_planned);
	tcase_add_test(tests, what_the_client_asks_for_meanwhile_comes_behind_it);
	tcase_add_test(tests, what_is_being_planned_can_be_cancelled);
	tcase_add_test(tests, sessions_may_end_while_their_graphs_are_planned);
	tcase_add_test(tests, a_recorded_graph_is_planned_beside_and_stays);
	tcase_add_test(tests, others_are_served_while_a_large_graph_is_explained);
	tcase_add_test(tests, a_user_has_one_large_graph_explained_at_a_time);
	tcase_add_test(tests, a_question_ends_with_its_session);
	tcase_add_test(tests, a_session_may_end_at_any_turn_of_its_question);
	tcase_add_test(tests, what_ran_is_told_of_beside);
	tcase_add_test(tests, a_graph_may_run_while_it_is_told_of);
	tcase_add_test(tests, a_question_is_noted_while_it_is_planned);
	tcase_add_test(tests, a_large_question_may_be_refused);
	tcase_add_test(tests, the_largest_batches);
	tcase_add_test(tests, the_largest_explanations);
	suite_add_tcase(suite, tests);
	failed = suite_run(suite);
	snprintf(command, sizeof command, "rm -rf %s", engine_cache);
	return system(command) || failed;
}

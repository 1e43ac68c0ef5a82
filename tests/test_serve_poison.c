/* daemon/serve where memory is short: an array still has a fault, and a graph reads nothing that nobody keeps. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* serve has a struct run, too. */
#define run run_of_exec
#include "daemon/exec/state.h"
#undef run
#include "daemon/serve/batch.h"
#include "daemon/serve/server.h"
#include "tests/suite.h"

/* The linker leads malloc() and realloc() here, so that a test can make them fail. */
static bool refused;
static long fails;               /* so many calls are left until one fails; 0: none does */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool failing(void) {
	return refused || (fails && !--fails);
}

void *__wrap_malloc(size_t size) {
	return failing() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size) {
	return failing() ? NULL : __real_realloc(old, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

START_TEST(an_array_has_a_fault_without_memory_for_one) {
	static const struct tensor_type type;
	struct fault f;
	struct array *a = array_new(&type);

	ck_assert_ptr_nonnull(a);
	fault_set(&f, FAULT_LOST, "it is gone");
	for (unsigned i = 0; i < 100; i++) {
		refused = true;
		array_poison(a, poison_new(&f, 1, 2));
		refused = false;
		ck_assert_ptr_nonnull(array_poisoned(a));
		ck_assert_int_eq(array_poisoned(a)->fault.code, FAULT_MEMORY);
	}
	array_poison(a, poison_new(&f, 1, 2));
	ck_assert_int_eq(array_poisoned(a)->fault.code, FAULT_LOST);
	array_unref(a);
}
END_TEST

enum { OPERANDS = 200 };

/* What a batch needs of an engine, with arrays whose values are nobody's. */
static struct server server;
static struct session session;
static struct buffer buffer[OPERANDS];

static void session_up(void) {
	struct fault f;

	server = (struct server){ 0 };
	session = (struct session){ .server = &server, .epoch = 1 };
	ck_assert_int_eq(batch_scratch_new(&server.scratch), 0);
	ck_assert_int_eq(graph_new(&session.graph), 0);
	handles_init(&session.handles, LIMIT_HANDLES);
	for (unsigned i = 0; i < OPERANDS; i++) {
		static const struct tensor_type vector = { .dtype = DTYPE_i64, .rank = 1, .dims = { 8 } };
		struct array *a = array_new(&vector);

		ck_assert_ptr_nonnull(a);
		buffer[i] = (struct buffer){ .references = 2 };
		a->buffer = &buffer[i];
		a->view = (struct view){ .stride = { 1 } };
		ck_assert_int_eq(handles_put(&session.handles, UINT64_C(1) << 32 | i, a, &f), 0);
	}
}

static void session_down(void) {
	for (unsigned i = 0; i < session.useds; i++)
		session.used[i]->references--;
	free(session.used);
	graph_free(session.graph);
	handles_free(&session.handles);
	batch_scratch_free(server.scratch);
}

START_TEST(a_leaf_s_buffer_is_kept_or_there_is_no_leaf) {
	struct batch b;
	unsigned refusals = 0;

	session_up();
	b = batch_begin(&session, 1);
	for (unsigned i = 0; i < OPERANDS; i++) {
		const struct coded_op op = { .op = OP_neg, .arity = 1, .in = { -1 - (int64_t)(UINT64_C(1) << 32 | i) } };
		int r = -ENOMEM;

		for (long nth = 1; r; nth++) {
			struct fault f;

			fails = nth;
			r = batch_add(&b, &op, &f);
			fails = 0;
			refusals += r != 0;
			ck_assert(r == 0 || r == -ENOMEM);
			ck_assert_uint_eq(session.useds, graph_leaves(session.graph));
			for (unsigned k = 0; k < session.useds; k++)
				ck_assert_ptr_eq(session.used[k], graph_leaf_at(session.graph, k)->buffer);
		}
	}
	ck_assert_uint_eq(graph_leaves(session.graph), OPERANDS);
	ck_assert_uint_gt(refusals, 10);
	session_down();
}
END_TEST

int main(void) {
	Suite *suite = suite_create("serve_poison");
	TCase *t = tcase_create("serve_poison");

	tcase_add_test(t, an_array_has_a_fault_without_memory_for_one);
	tcase_add_test(t, a_leaf_s_buffer_is_kept_or_there_is_no_leaf);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}

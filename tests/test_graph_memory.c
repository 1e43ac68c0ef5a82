/*
 * daemon/graph where memory is short: an operation or leaf that was refused for that has left nothing, and may be added again.
 *
 * The linker puts allocators of ours before the C library's (--wrap): the one that is counted down to fails.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/suite.h"
#include "daemon/graph/graph.h"

static long fails;               /* so many allocations are left until one fails; 0: none does */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool failing(void) {
	return fails && !--fails;
}

void *__wrap_malloc(size_t size) {
	return failing() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
	return failing() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
	return failing() ? NULL : __real_realloc(old, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static const struct tensor_type vector = { .dtype = DTYPE_i64, .rank = 1, .dims = { 8 } };

/* A leaf, a number, and a reduction with attributes, which differ from those of other rounds. */
static int add_some(struct graph *g, uint32_t round, uint32_t node[static 3]) {
	struct op_attr number = { .dtype = DTYPE_i64, .rank = 1, .dims = { 8 }, .value = { round } };
	struct op_attr axes = { .axes = 1, .keepdims = round % 2 };
	struct view v = { .stride = { 1 }, .offset = round };
	struct fault f;
	int r = graph_leaf(g, g, &vector, &v, &node[0]);

	if (!r)
		r = graph_op(g, OP_fill, 0, NULL, &number, 0, &node[1], &f);
	return r ? r : graph_op(g, OP_reduce_sum, 1, &node[0], &axes, 0, &node[2], &f);
}

START_TEST(what_was_refused_for_memory_is_not_there) {
	enum { ROUNDS = 200 };
	struct graph *g;
	uint32_t node[3];
	unsigned refused = 0;

	ck_assert_int_eq(graph_new(&g), 0);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		int r = 1;

		for (long nth = 1; r; nth++) {
			uint32_t leaves;

			fails = nth;
			r = add_some(g, round, node);
			fails = 0;
			refused += r != 0;
			ck_assert(!r || r == -ENOMEM);
			leaves = graph_leaves(g);
			for (uint32_t i = 0; i < graph_nodes(g); i++) {
				const struct graph_node *n = graph_node(g, i);

				ck_assert(n->op != OP_load || n->index < leaves);
				ck_assert(n->op == OP_load || n->attr);
			}
		}
	}
	ck_assert_uint_gt(refused, 10);
	ck_assert_uint_eq(graph_nodes(g), 3 * ROUNDS);
	graph_free(g);
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("graph_memory");
	TCase *t = tcase_create("graph_memory");

	tcase_add_test(t, what_was_refused_for_memory_is_not_there);
	suite_add_tcase(s, t);
	return s;
}

int main(void) {
	return suite_run(suite());
}

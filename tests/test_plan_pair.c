/*
 * plan_pair(): "do these two run in one kernel?" says what the plan does.
 *
 * Asked of each two operations of all text graphs and of random graphs, for CPUs and GPUs, fused and not. What is compared with is the list of
 * kernels and their operations that explain prints, read in another way than pair.c does.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/plan.h"
#include "tests/random_graph.h"
#include "tests/suite.h"
#include "tests/text_graph.h"

enum {
	GRAPHS = 60,
	OPERATIONS = 30,
	/* Pairs are many: of larger graphs those that stand near each other. */
	NEAR = 40,
	SHAPES = 3,
};

static const struct traits cpu = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1,
	.kernel_operands = 48, .kernel_values = 256 };
static const struct traits gpu = { .strategy = STRATEGY_GPU, .width = 1, .local_size = 256, .local_bytes = 48 << 10, .f64 = true, .units = 16,
	.pools = 1, .kernel_operands = 32, .kernel_values = 64 };
static const struct traits *const machines[] = { &cpu, &gpu };

static struct graph *g;
static struct fault fault;
static unsigned yes, no;

static void setup(void) {
	ck_assert_int_eq(graph_new(&g), 0);
}

static void teardown(void) {
	g = graph_free(g);
}

/* The kernels of each operation's number, as explain's "operations" have them. */
static bool together(const struct plan *p, uint32_t first, uint32_t second) {
	for (uint32_t i = 0; i < p->steps; i++) {
		unsigned found = 0;

		for (uint32_t k = 0; k < p->step[i].ops; k++)
			found |= (p->step[i].op[k] == first ? 1U : 0U) | (p->step[i].op[k] == second ? 2U : 0U);
		if (found == 3)
			return true;
	}
	return false;
}

static bool is_told(const struct plan *p, const char *reason) {
	struct plan_note *note;
	uint32_t count;
	bool found = false;

	ck_assert_int_eq(plan_apart(p, &note, &count), 0);
	for (uint32_t i = 0; i < count; i++)
		found |= note[i].reason == reason;
	free(note);
	return found;
}

static void check_pair(const struct plan *p, uint32_t first, uint32_t second, const char *name) {
	struct plan_pair pair;

	ck_assert_int_eq(plan_pair(p, (struct plan_member){ first, PLAN_NONE }, (struct plan_member){ second, PLAN_NONE }, &pair), 0);
	ck_assert_msg(pair.fused == together(p, first, second), "%s: %u and %u: %s", name, first, second, pair.reason);
	ck_assert_ptr_nonnull(pair.reason);
	ck_assert(pair.fused == (pair.step != PLAN_NONE));
	/* What names two operations is what explain says of them. */
	if (pair.consumer != PLAN_NONE)
		ck_assert_msg(is_told(p, pair.reason), "%s: %u and %u: %s", name, first, second, pair.reason);
	*(pair.fused ? &yes : &no) += 1;
}

static void check_graph(const char *name, const struct traits *t, bool fuse) {
	struct plan_options o = { .fuse = fuse, .notes = true, .traits = t };
	struct plan *p;

	if (plan_make(g, &o, &p, &fault))
		return;
	for (uint32_t b = 1; b < p->nodes; b++)
		for (uint32_t a = b > NEAR ? b - NEAR : 0; a < b; a++)
			if (!p->node[a].dead && !p->node[b].dead) {
				check_pair(p, a, b, name);
				check_pair(p, b, a, name);
			}
	plan_unref(p);
}

static void check_all(const char *name) {
	for (unsigned m = 0; m < sizeof machines / sizeof *machines; m++)
		for (unsigned fuse = 0; fuse < 2; fuse++)
			check_graph(name, machines[m], fuse);
}

START_TEST(each_pair_of_a_text_graph_is_answered_as_the_plan_is) {
	struct dirent **entry;
	int count = scandir("tests/graphs", &entry, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char path[512];
		struct text *t;

		snprintf(path, sizeof path, "tests/graphs/%s", entry[i]->d_name);
		free(entry[i]);
		if (!strstr(path, ".fz") || text_load(path, &t, &fault))
			continue;
		graph_reset(g);
		if (!text_graph_make(t, g, &fault))
			check_all(path);
		text_free(t);
	}
	free(entry);
	printf("note: %u pairs in one kernel, %u not\n", yes, no);
	ck_assert_uint_gt(yes, 1000);
	ck_assert_uint_gt(no, 1000);
}
END_TEST

START_TEST(each_pair_of_a_random_graph_is_answered_as_the_plan_is) {
	static struct random_graph r;

	for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
		char name[64];

		r.most = RANDOM_ELEMENTS;
		r.in_f64 = seed % 5 == 0;
		graph_reset(g);
		ck_assert(random_graph_make(&r, g, seed, OPERATIONS));
		snprintf(name, sizeof name, "random graph %u", (unsigned)seed);
		check_all(name);
	}
}
END_TEST

/* ---- composites ---- */

static uint32_t node_of[16];
static unsigned made;
static char buffers[16];

static uint32_t array(unsigned rank, const int64_t *dims) {
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = (uint8_t)rank };
	struct view v;
	uint32_t node;

	memcpy(t.dims, dims, rank * sizeof *dims);
	view_contiguous(&t, &v);
	ck_assert_int_eq(graph_leaf(g, &buffers[made], &t, &v, &node), 0);
	node_of[made++] = node;
	return node;
}

static uint32_t op(unsigned id, unsigned arity, const uint32_t *in, const struct op_attr *attr) {
	uint32_t node;

	ck_assert_msg(!graph_op(g, id, arity, in, attr, made, &node, &fault), "%s", fault.text);
	node_of[made++] = node;
	return node;
}

static struct plan_pair asked(const struct plan *p, unsigned first, unsigned second) {
	struct plan_pair pair;

	ck_assert_int_eq(plan_pair(p, (struct plan_member){ node_of[first], first }, (struct plan_member){ node_of[second], second }, &pair), 0);
	return pair;
}

/* x @ w + b, relu, a sum of its rows, a sort of those: numbers 3, 4, 5, 6, 7. */
static struct plan *layers(const struct traits *t, int64_t n, int64_t k, int64_t m) {
	struct plan_options o = { .fuse = true, .notes = true, .traits = t };
	struct op_attr rows = { .axes = 2 };
	uint32_t x, w, b, y;
	struct plan *p;

	graph_reset(g);
	made = 0;
	x = array(2, (int64_t[]){ n, k });
	w = array(2, (int64_t[]){ k, m });
	b = array(1, (int64_t[]){ m });
	y = op(OP_matmul, 2, (uint32_t[]){ x, w }, NULL);
	y = op(OP_add, 2, (uint32_t[]){ y, b }, NULL);
	y = op(OP_relu, 1, &y, NULL);
	y = op(OP_reduce_sum, 1, &y, &rows);
	y = op(OP_sort, 1, &y, &(struct op_attr){ .axis = 0 });
	ck_assert_int_eq(graph_output(g, y, 0), 0);
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	return p;
}

START_TEST(operations_three_apart_are_answered_in_any_shape) {
	static const int64_t shape[SHAPES][3] = { { 4, 8, 16 }, { 33, 100, 7 }, { 256, 64, 512 } };

	for (unsigned i = 0; i < SHAPES; i++)
		for (unsigned m = 0; m < sizeof machines / sizeof *machines; m++) {
			struct plan *p = layers(machines[m], shape[i][0], shape[i][1], shape[i][2]);

			ck_assert(asked(p, 3, 4).fused);
			ck_assert(asked(p, 3, 5).fused);
			ck_assert(asked(p, 5, 3).fused);
			for (unsigned a = 0; a < 8; a++)
				for (unsigned b = 0; b < 8; b++)
					ck_assert(a == b || asked(p, a, b).fused == together(p, node_of[a], node_of[b]));
			ck_assert(!asked(p, 3, 7).fused);
			ck_assert_uint_ne(asked(p, 3, 7).producer, PLAN_NONE);
			ck_assert_uint_ne(asked(p, 7, 3).consumer, PLAN_NONE);
			plan_unref(p);
		}
}
END_TEST

START_TEST(what_costs_no_kernel_is_told_so) {
	struct plan *p = layers(&cpu, 4, 8, 16);

	ck_assert(!asked(p, 0, 3).fused);
	ck_assert_ptr_nonnull(strstr(asked(p, 0, 3).reason, "costs no kernel"));
	plan_unref(p);
}
END_TEST

/* conv -> batch_norm -> relu, and softmax: each of several operations, with one number. */
START_TEST(a_composite_is_all_of_its_operations) {
	struct plan_options o = { .fuse = true, .notes = true, .traits = &cpu };
	struct op_attr rows = { .axes = 2 };
	uint32_t x, y;
	struct plan *p;

	graph_reset(g);
	made = 0;
	x = array(2, (int64_t[]){ 64, 100 });
	y = op(OP_exp, 1, &x, NULL);
	y = op(OP_softmax, 1, &y, &rows);
	y = op(OP_relu, 1, &y, NULL);
	ck_assert_int_eq(graph_output(g, y, 0), 0);
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	ck_assert(asked(p, 1, 2).fused);
	ck_assert(asked(p, 2, 3).fused);
	plan_unref(p);
	o.fuse = false;
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	ck_assert(!asked(p, 1, 2).fused);
	ck_assert(!asked(p, 2, 3).fused);
	plan_unref(p);
}
END_TEST

/*
 * A kernel for each operation of the longest list; what is told is the first edge of the way from one end to the other. The
 * search looks at each edge once: at all of them for each kernel it would take the engine's thread for seconds.
 */
START_TEST(of_the_longest_way_the_first_edge_is_told) {
	struct plan_options o = { .fuse = true, .notes = true, .traits = &cpu };
	struct op_attr none = { 0 }, first = { .axes = 1 };
	uint32_t node[LIMIT_BATCH_OPS / 2], sum = 0;
	struct plan_pair pair;
	struct plan *p;

	graph_reset(g);
	made = 0;
	node[0] = array(1, (int64_t[]){ 64 });
	for (unsigned i = 1; i < LIMIT_BATCH_OPS / 2; i++) {
		uint32_t in[2] = { node[i - 1], node[i > 2 ? i - 2 : i - 1] };

		ck_assert_int_eq(graph_op(g, OP_searchsorted, 2, in, &none, 2 * i, &sum, &fault), 0);
		ck_assert_int_eq(graph_op(g, OP_cumsum, 1, &sum, &first, 2 * i + 1, &node[i], &fault), 0);
	}
	ck_assert_int_eq(graph_output(g, node[LIMIT_BATCH_OPS / 2 - 1], 0), 0);
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	ck_assert_int_eq(plan_pair(p, (struct plan_member){ node[1], PLAN_NONE }, (struct plan_member){ node[LIMIT_BATCH_OPS / 2 - 1], PLAN_NONE }, &pair), 0);
	ck_assert(!pair.fused);
	ck_assert_uint_eq(pair.producer, node[1]);
	plan_unref(p);
}
END_TEST

int main(void) {
	Suite *suite = suite_create("plan_pair");
	TCase *t = tcase_create("pairs");

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_pair_of_a_text_graph_is_answered_as_the_plan_is);
	tcase_add_test(t, each_pair_of_a_random_graph_is_answered_as_the_plan_is);
	tcase_add_test(t, operations_three_apart_are_answered_in_any_shape);
	tcase_add_test(t, what_costs_no_kernel_is_told_so);
	tcase_add_test(t, a_composite_is_all_of_its_operations);
	tcase_add_test(t, of_the_longest_way_the_first_edge_is_told);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}

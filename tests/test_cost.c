/*
 * What the planner believes kernels take: more work takes longer, what was measured counts, and nothing of
 * it changes a plan's results.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/plan.h"
#include "tests/suite.h"

static const struct traits two_units = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1,
	.kernel_operands = 32, .kernel_values = 64 };
static struct traits cpu;

static struct graph *g;
static struct fault fault;
static int buffers[16];

static void setup(void) {
	ck_assert_int_eq(graph_new(&g), 0);
	cpu = two_units;
	cpu.rates = *rates_typical(STRATEGY_CPU);
}

/* For the rest of a test. */
static void become_gpu(void) {
	cpu.strategy = STRATEGY_GPU;
	cpu.width = 1;
	cpu.local_size = 256;
	cpu.units = 128;
	cpu.rates = *rates_typical(STRATEGY_GPU);
}

static void teardown(void) {
	g = graph_free(g);
}

static uint32_t leaf(int buffer, uint8_t dtype, int64_t rows, int64_t columns) {
	struct tensor_type t = { .dtype = dtype, .rank = 2, .dims = { rows, columns } };
	struct view v;
	uint32_t node;

	view_contiguous(&t, &v);
	ck_assert_int_eq(graph_leaf(g, &buffers[buffer], &t, &v, &node), 0);
	return node;
}

static uint32_t op(unsigned id, uint32_t a, uint32_t b, struct op_attr attr) {
	uint32_t node, in[LIMIT_OPERANDS] = { a, b };

	ck_assert_msg(!graph_op(g, id, op_info(id)->arity, in, &attr, 0, &node, &fault), "%s", fault.text);
	return node;
}

static const struct op_attr none;

/* The whole estimate of a plan of the graph, which is forgotten. */
static double estimate_of(uint32_t result, bool fuse) {
	struct plan_options o = { .fuse = fuse, .traits = &cpu };
	struct plan *p = NULL;
	double ns = 0;

	ck_assert_int_eq(graph_output(g, result, 0), 0);
	ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s", fault.text);
	for (uint32_t i = 0; i < p->steps; i++) {
		ck_assert(isfinite(p->step[i].estimate_ns));
		ck_assert(p->step[i].estimate_ns >= cpu.rates.launch_ns);
		ns += p->step[i].estimate_ns;
	}
	plan_unref(p);
	graph_reset(g);
	return ns;
}

static double unary(unsigned id, uint8_t dtype, int64_t rows, int64_t columns) {
	return estimate_of(op(id, leaf(0, dtype, rows, columns), 0, none), true);
}

static double product(int64_t m, int64_t k, int64_t n) {
	return estimate_of(op(OP_matmul, leaf(0, DTYPE_f32, m, k), leaf(1, DTYPE_f32, k, n), none), true);
}

static double sum(int64_t rows, int64_t columns, uint16_t axes) {
	return estimate_of(op(OP_reduce_sum, leaf(0, DTYPE_f32, rows, columns), 0, (struct op_attr){ .axes = axes }), true);
}

START_TEST(more_elements_take_longer) {
	double last = 0;

	for (int64_t n = 1; n <= 1 << 14; n *= 4) {
		double ns = unary(OP_neg, DTYPE_f32, n, 1024);

		ck_assert_msg(ns > last, "%g after %g", ns, last);
		last = ns;
	}
}
END_TEST

START_TEST(a_small_kernel_takes_a_launch_and_a_start) {
	double least = cpu.rates.launch_ns + cpu.rates.start_ns;

	ck_assert_double_ge(unary(OP_neg, DTYPE_f32, 1, 1), least);
	ck_assert_double_lt(unary(OP_neg, DTYPE_f32, 1, 1), 1.1 * least);
	cpu.rates.start_ns *= 10;
	ck_assert_double_ge(unary(OP_neg, DTYPE_f32, 1, 1), least + 0.9 * cpu.rates.start_ns);
}
END_TEST

/* A group on each unit is an eighth of what all units were measured with. */
START_TEST(few_groups_leave_a_gpu_idle) {
	double launch, few, many;

	become_gpu();
	launch = cpu.rates.launch_ns + cpu.rates.start_ns;
	few = sum(128, 8192, 2) - launch;
	many = sum(1024, 8192, 2) - launch;
	ck_assert_msg(many < 3 * few, "%g ns for 128 rows, %g ns for 1024", few, many);
}
END_TEST

/* Units look at each index, one after the other. */
START_TEST(a_scatter_takes_time_by_its_updates) {
	const struct op_attr first = { .axis = 0 };
	double ns[2];

	for (unsigned i = 0; i < 2; i++) {
		int64_t updates = i ? 40000 : 10000;
		uint32_t node, in[] = { leaf(0, DTYPE_f32, 1000, 64), leaf(1, DTYPE_i64, updates, 64), leaf(2, DTYPE_f32, updates, 64) };

		ck_assert_msg(!graph_op(g, OP_add_along, 3, in, &first, 0, &node, &fault), "%s", fault.text);
		ns[i] = estimate_of(node, true) - cpu.rates.launch_ns - cpu.rates.start_ns;
	}
	ck_assert_double_gt(ns[0], 4.0 * 3 * 1000 * 64 / cpu.rates.memory[RATE_ALL][RATE_COPY][0]);
	ck_assert_double_eq_tol(ns[1] / ns[0], 4, 0.1);
}
END_TEST

/* A tile at the edge is a whole one, and units without one wait. */
START_TEST(few_tiles_leave_units_of_a_gpu_idle) {
	double launch, few, many;

	become_gpu();
	launch = cpu.rates.launch_ns + cpu.rates.start_ns;
	few = product(16, 4096, 512) - launch;
	many = product(512, 4096, 512) - launch;
	ck_assert_msg(many < 3 * few, "%g ns for 16 rows, %g ns for 512", few, many);
}
END_TEST

START_TEST(rows_that_are_walked_again_come_from_the_nearest_cache) {
	const struct op_attr row = { .axes = 2, .keepdims = true };
	double once = unary(OP_neg, DTYPE_f32, 4096, 4096), twice, near;
	uint32_t x = leaf(0, DTYPE_f32, 4096, 4096), d;

	d = op(OP_sub, x, op(OP_reduce_mean, x, 0, row), none);
	twice = estimate_of(d, true);
	near = 4.0 * 4096 * 4096 / cpu.rates.memory[RATE_ALL][RATE_READ][0];
	ck_assert_double_ge(twice, once + 0.9 * near);
	ck_assert_double_le(twice, once + 1.1 * near);
}
END_TEST

START_TEST(large_arrays_move_at_the_rate_of_memory) {
	double bytes = 2.0 * 4 * (1 << 26), ns = unary(OP_neg, DTYPE_f32, 1 << 13, 1 << 13);

	ck_assert_double_eq_tol(ns, bytes / cpu.rates.memory[RATE_ALL][RATE_COPY][RATE_SIZES - 1], 0.01 * ns);
}
END_TEST

START_TEST(dear_operations_take_longer_in_cache) {
	ck_assert_double_gt(unary(OP_exp, DTYPE_f32, 64, 1024), 2 * unary(OP_neg, DTYPE_f32, 64, 1024));
	ck_assert_double_gt(unary(OP_tanh, DTYPE_f64, 64, 1024), 1.5 * unary(OP_tanh, DTYPE_f32, 64, 1024));
	ck_assert_double_gt(unary(OP_gelu, DTYPE_f32, 64, 1024), unary(OP_exp, DTYPE_f32, 64, 1024));
}
END_TEST

START_TEST(a_fused_chain_takes_less_than_its_parts) {
	double ns[2];

	for (int fuse = 0; fuse < 2; fuse++) {
		uint32_t v = leaf(0, DTYPE_f32, 1024, 1024);

		for (int i = 0; i < 8; i++)
			v = op(i % 2 ? OP_neg : OP_abs, v, 0, none);
		ns[fuse] = estimate_of(v, fuse);
	}
	ck_assert_double_lt(4 * ns[1], ns[0]);
}
END_TEST

/* How many times as long as along them. */
static double across(enum dtype dtype) {
	struct op_attr swap = { .rank = 2, .perm = { 1, 0 } };
	double plain = estimate_of(op(OP_copy, leaf(0, dtype, 1024, 1024), 0, none), true);

	return estimate_of(op(OP_copy, op(OP_permute, leaf(0, dtype, 1024, 1024), 0, swap), 0, none), true) / plain;
}

START_TEST(reading_across_the_rows_takes_longer) {
	ck_assert_double_gt(across(DTYPE_f64), 2);
	ck_assert_double_gt(across(DTYPE_f32), 1);
}
END_TEST

START_TEST(words_are_turned_in_registers_which_takes_less) {
	ck_assert_double_lt(1.5 * across(DTYPE_f32), across(DTYPE_f64));
}
END_TEST

START_TEST(a_broadcast_operand_moves_once) {
	double whole = estimate_of(op(OP_add, leaf(0, DTYPE_f32, 8192, 8192), leaf(1, DTYPE_f32, 8192, 8192), none), true);
	double row = estimate_of(op(OP_add, leaf(0, DTYPE_f32, 8192, 8192), leaf(1, DTYPE_f32, 1, 8192), none), true);

	ck_assert_double_lt(1.2 * row, whole);
}
END_TEST

START_TEST(products_take_time_by_their_volume) {
	ck_assert_double_eq_tol(product(1024, 1024, 1024) / product(512, 512, 512), 8, 0.5);
	/* A tile's lanes are filled up. */
	ck_assert_double_gt(product(512, 512, 1), 0.9 / 16 * product(512, 512, 16));
}
END_TEST

START_TEST(short_rows_cost_their_ends) {
	ck_assert_double_gt(sum(1 << 18, 4, 2), 2 * sum(256, 4096, 2));
	/* Over the leading axis there is no row to end. */
	ck_assert_double_lt(sum(4, 1 << 18, 1), sum(1 << 18, 4, 2));
}
END_TEST

START_TEST(a_device_without_figures_is_taken_as_typical) {
	double known = unary(OP_exp, DTYPE_f32, 512, 512);

	memset(&cpu.rates, 0, sizeof cpu.rates);
	ck_assert_double_eq(estimate_of(op(OP_exp, leaf(0, DTYPE_f32, 512, 512), 0, none), true) > 0, true);
	cpu.rates = *rates_typical(STRATEGY_CPU);
	ck_assert_double_eq(unary(OP_exp, DTYPE_f32, 512, 512), known);
}
END_TEST

START_TEST(every_operation_and_type_has_an_estimate) {
	for (unsigned id = 0; id < OP_COUNT; id++)
		for (uint8_t dtype = 0; dtype < DTYPE_COUNT; dtype++) {
			const struct op_info *o = op_info(id);
			uint32_t in[LIMIT_OPERANDS], node;

			if (!o || !op_is_elementwise(o))
				continue;
			graph_reset(g);
			for (unsigned i = 0; i < o->arity; i++)
				in[i] = leaf((int)i, id == OP_where && !i ? DTYPE_bool : dtype, 64, 1000);
			if (graph_op(g, id, o->arity, in, NULL, 0, &node, &fault))
				continue;
			ck_assert_double_gt(estimate_of(node, true), cpu.rates.launch_ns);
		}
}
END_TEST

START_TEST(what_is_not_a_rate_is_not_believed) {
	struct rates r = *rates_typical(STRATEGY_CPU);

	ck_assert(rates_sound(&r));
	ck_assert(rates_sound(rates_typical(STRATEGY_GPU)));
	r.op_ns[RATE_ALL][RATE_F64][RATE_POW] = NAN;
	ck_assert(!rates_sound(&r));
	r = *rates_typical(STRATEGY_CPU);
	r.memory[RATE_ONE][RATE_COPY][1] = 0;
	ck_assert(!rates_sound(&r));
	r = *rates_typical(STRATEGY_CPU);
	r.bytes[2] = r.bytes[1];
	ck_assert(!rates_sound(&r));
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("cost");
	TCase *c = tcase_create("cost");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, more_elements_take_longer);
	tcase_add_test(c, a_small_kernel_takes_a_launch_and_a_start);
	tcase_add_test(c, few_groups_leave_a_gpu_idle);
	tcase_add_test(c, rows_that_are_walked_again_come_from_the_nearest_cache);
	tcase_add_test(c, large_arrays_move_at_the_rate_of_memory);
	tcase_add_test(c, dear_operations_take_longer_in_cache);
	tcase_add_test(c, a_fused_chain_takes_less_than_its_parts);
	tcase_add_test(c, reading_across_the_rows_takes_longer);
	tcase_add_test(c, words_are_turned_in_registers_which_takes_less);
	tcase_add_test(c, a_broadcast_operand_moves_once);
	tcase_add_test(c, products_take_time_by_their_volume);
	tcase_add_test(c, a_scatter_takes_time_by_its_updates);
	tcase_add_test(c, few_tiles_leave_units_of_a_gpu_idle);
	tcase_add_test(c, short_rows_cost_their_ends);
	tcase_add_test(c, a_device_without_figures_is_taken_as_typical);
	tcase_add_test(c, every_operation_and_type_has_an_estimate);
	tcase_add_test(c, what_is_not_a_rate_is_not_believed);
	suite_add_tcase(s, c);
	return s;
}

int main(void) {
	return suite_run(suite());
}

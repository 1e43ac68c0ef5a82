/*
 * plan: which operations share a kernel, and that plans compute what graphs say.
 *
 * The second half runs plans on a simulator of kernel.h (64-bit integers, no device) and compares
 * every output of random graphs with an evaluation node by node: fused, unfused, and with every
 * step split as far as it goes.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/str.h"
#include "daemon/plan/generic.h"
#include "daemon/plan/plan.h"
#include "tests/suite.h"

static const struct traits cpu = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1,
	.kernel_operands = 32, .kernel_values = 64 };
static const struct traits no_f64 = { .strategy = STRATEGY_GPU, .width = 1, .local_size = 64, .units = 2,
	.pools = 1, .kernel_operands = 32, .kernel_values = 64 };
static const struct traits multiplies = { .strategy = STRATEGY_GPU, .width = 1, .local_size = 256, .local_bytes = 48 << 10, .f64 = true,
	.matrix = true, .wgmma = true, .units = 16, .pools = 1, .kernel_operands = 32, .kernel_values = 64 };

static struct graph *g;
static struct fault fault;
/* Leaves of a test have one each; most have attention in blocks. */
static int buffers[32];

static void setup(void) {
	ck_assert_int_eq(graph_new(&g), 0);
}

static void teardown(void) {
	g = graph_free(g);
}

static struct tensor_type type_of(uint8_t dtype, unsigned rank, const int64_t *dims) {
	struct tensor_type t = { .dtype = dtype, .rank = (uint8_t)rank };

	memcpy(t.dims, dims, rank * sizeof *dims);
	return t;
}

#define DIMS(...) (sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ }

static uint32_t leaf(int buffer, uint8_t dtype, unsigned rank, const int64_t *dims) {
	struct tensor_type t = type_of(dtype, rank, dims);
	struct view v;
	uint32_t node;

	view_contiguous(&t, &v);
	ck_assert_int_eq(graph_leaf(g, &buffers[buffer], &t, &v, &node), 0);
	return node;
}

static uint32_t op(unsigned id, uint32_t a, uint32_t b) {
	uint32_t node, in[2] = { a, b };

	ck_assert_msg(!graph_op(g, id, op_info(id)->arity, in, NULL, 0, &node, &fault), "%s", fault.text);
	return node;
}

static uint32_t op_attr(unsigned id, uint32_t a, struct op_attr attr) {
	uint32_t node;

	ck_assert_msg(!graph_op(g, id, op_info(id)->arity, &a, &attr, 0, &node, &fault), "%s", fault.text);
	return node;
}

static uint32_t sum(uint32_t a, uint16_t axes) {
	return op_attr(OP_reduce_sum, a, (struct op_attr){ .axes = axes });
}

static uint32_t reshape(uint32_t a, unsigned rank, const int64_t *dims) {
	struct op_attr attr = { .rank = (uint8_t)rank };

	memcpy(attr.dims, dims, rank * sizeof *dims);
	return op_attr(OP_reshape, a, attr);
}

static uint32_t transpose(uint32_t a) {
	return op_attr(OP_permute, a, (struct op_attr){ .rank = 2, .perm = { 1, 0 } });
}

static void output(uint32_t node) {
	ck_assert_int_eq(graph_output(g, node, node), 0);
}

static struct plan *plan_with(const struct traits *t, bool fuse) {
	struct plan_options o = { .fuse = fuse, .notes = true, .traits = t };
	struct plan *p;

	ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s", fault.text);
	return p;
}

static void expect_steps(uint32_t fused, uint32_t unfused) {
	struct plan *p = plan_with(&cpu, true), *q = plan_with(&cpu, false);

	ck_assert_uint_eq(p->steps, fused);
	ck_assert_uint_eq(q->steps, unfused);
	plan_unref(p);
	plan_unref(q);
}

START_TEST(a_dag_with_a_value_used_twice_is_one_kernel) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(4, 8)), y = leaf(1, DTYPE_f32, DIMS(8));
	uint32_t s = op(OP_add, x, y), t = op(OP_tanh, s, 0);

	output(op(OP_mul, s, t));
	expect_steps(1, 3);
}
END_TEST

START_TEST(several_outputs_leave_one_kernel) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(100));
	uint32_t a = op(OP_exp, x, 0), b = op(OP_neg, a, 0);
	struct plan *p;

	output(a);
	output(b);
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert_uint_eq(p->outputs, 2);
	ck_assert_uint_ne(p->output[0].slot, p->output[1].slot);
	plan_unref(p);
}
END_TEST

START_TEST(dead_code_is_not_planned) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(100));

	op(OP_exp, x, 0);
	output(op(OP_neg, x, 0));
	expect_steps(1, 1);
}
END_TEST

START_TEST(equal_operations_are_shared) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(100));

	ck_assert_uint_eq(op(OP_exp, x, 0), op(OP_exp, x, 0));
	ck_assert_uint_eq(graph_received(g), 2);
	ck_assert_uint_eq(graph_nodes(g), 2);
}
END_TEST

static uint32_t attention(double scale, bool causal) {
	uint32_t in[3] = { leaf(0, DTYPE_f32, DIMS(2, 70, 5)), leaf(1, DTYPE_f32, DIMS(2, 90, 5)),
		leaf(2, DTYPE_f32, DIMS(90, 3)) }, node;
	struct op_attr attr = { .number = scale, .flag = causal };

	ck_assert_msg(!graph_op(g, OP_attention, 3, in, &attr, 0, &node, &fault), "%s", fault.text);
	return node;
}

START_TEST(attentions_are_shared_where_scale_and_causal_agree) {
	uint32_t first = attention(0.5, false);

	ck_assert_uint_eq(first, attention(0.5, false));
	ck_assert_uint_ne(first, attention(0.25, false));
	ck_assert_uint_ne(first, attention(0.5, true));
}
END_TEST

/* Tiles of 64 queries take more than the 32 KiB that every device has. */
START_TEST(attention_takes_as_many_queries_as_local_memory_has_room_for) {
	const uint64_t bytes[] = { 32 << 10, 48 << 10 };
	const unsigned rows[] = { 32, 64 };

	for (unsigned i = 0; i < 2; i++) {
		struct traits gpu = no_f64;
		uint32_t q = leaf(0, DTYPE_f32, DIMS(64, 512, 64)), in[3] = { q, q, q };
		struct op_attr attr = { .number = 0.125 };
		struct plan *p;
		uint32_t node;

		gpu.local_size = 256;
		gpu.local_bytes = bytes[i];
		ck_assert(!graph_op(g, OP_attention, 3, in, &attr, 0, &node, &fault));
		output(node);
		p = plan_with(&gpu, true);
		ck_assert_uint_eq(p->steps, 1);
		ck_assert_uint_eq(p->step[0].kernel->rows, rows[i]);
		plan_unref(p);
		graph_reset(g);
	}
}
END_TEST

START_TEST(attention_is_one_kernel_that_keeps_no_scores) {
	uint32_t r = leaf(3, DTYPE_f32, DIMS(2, 70, 3));
	struct plan *p, *halves;

	output(op(OP_relu, op(OP_add, attention(0, true), r), 0));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert_uint_eq(p->step[0].kernel->root, KERNEL_ATTENTION);
	ck_assert_uint_eq(p->step[0].pattern, PATTERN_attention);
	ck_assert_uint_eq(p->peak_bytes, 2 * 70 * 3 * 4);
	/* A kernel too large for a driver is cut after its root. */
	ck_assert_int_eq(plan_split(p, 0, &cpu, &halves, &fault), 0);
	ck_assert_uint_eq(halves->steps, 2);
	ck_assert_uint_eq(halves->step[0].kernel->root, KERNEL_ATTENTION);
	ck_assert_uint_eq(halves->step[0].kernel->inputs, 3);
	ck_assert(halves->step[0].kernel->causal);
	ck_assert_uint_eq(halves->step[1].kernel->root, KERNEL_MAP);
	ck_assert_uint_eq(halves->step[1].elements, 2 * 70 * 3);
	plan_unref(p);
	plan_unref(halves);
}
END_TEST

START_TEST(scalars_of_other_value_are_other_nodes_of_the_same_structure) {
	struct op_attr two = { .dtype = DTYPE_f32, .value = { 2 } }, three = { .dtype = DTYPE_f32, .value = { 3 } };
	struct graph_hash first, second;
	uint32_t a, b;

	ck_assert_int_eq(graph_op(g, OP_fill, 0, NULL, &two, 0, &a, &fault), 0);
	output(a);
	first = graph_hash(g);
	ck_assert_int_eq(graph_op(g, OP_fill, 0, NULL, &three, 0, &b, &fault), 0);
	ck_assert_uint_ne(a, b);
	graph_reset(g);
	ck_assert_int_eq(graph_op(g, OP_fill, 0, NULL, &three, 0, &b, &fault), 0);
	output(b);
	second = graph_hash(g);
	ck_assert(first.low == second.low && first.high == second.high);
}
END_TEST

START_TEST(views_cost_no_kernel) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(4, 8));

	output(transpose(x));
	expect_steps(0, 0);
}
END_TEST

START_TEST(a_reshape_that_strides_cannot_say_is_one_copy) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(4, 8));

	output(op(OP_neg, reshape(transpose(x), DIMS(32)), 0));
	expect_steps(1, 2);
}
END_TEST

START_TEST(a_reshape_between_elementwise_operations_ends_no_kernel) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(6, 10)), y = leaf(1, DTYPE_f32, DIMS(10)), t = op(OP_tanh, x, 0);

	/* All of them over [3, 2, 10]. */
	output(op(OP_neg, reshape(t, DIMS(60)), 0));
	output(op(OP_exp, reshape(t, DIMS(3, 20)), 0));
	output(op(OP_add, reshape(t, DIMS(6, 1, 10)), y));
	expect_steps(1, 4);
}
END_TEST

START_TEST(shapes_whose_cuts_lie_across_each_other_are_two_kernels) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(6, 10)), y = leaf(1, DTYPE_f32, DIMS(4)), z = leaf(2, DTYPE_f32, DIMS(10));

	/* A row of 10 has no strides over rows of 4. */
	output(op(OP_add, reshape(op(OP_mul, x, z), DIMS(15, 4)), y));
	expect_steps(2, 2);
}
END_TEST

START_TEST(long_rows_are_not_cut_into_short_ones) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(1024, 96)), y = leaf(1, DTYPE_f32, DIMS(3)), z = leaf(2, DTYPE_f32, DIMS(8, 1)), e = op(OP_exp, x, 0);

	output(op(OP_add, reshape(e, DIMS(1024, 32, 3)), y));
	expect_steps(2, 2);
	output(op(OP_add, reshape(e, DIMS(128, 8, 96)), z));
	expect_steps(2, 3);
}
END_TEST

START_TEST(a_number_follows_to_any_shape) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(6, 10));

	output(op(OP_neg, reshape(op(OP_tanh, x, 0), DIMS(15, 4)), 0));
	expect_steps(1, 2);
}
END_TEST

START_TEST(a_reshape_before_a_reduction_ends_no_kernel) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(24, 32)), y = leaf(1, DTYPE_f32, DIMS(4, 6, 1)), s;

	s = sum(reshape(op(OP_tanh, x, 0), DIMS(4, 6, 32)), 4);
	output(op(OP_mul, s, reshape(y, DIMS(4, 6))));
	expect_steps(1, 3);
}
END_TEST

START_TEST(a_product_keeps_its_epilogue_before_a_reshape) {
	uint32_t a = leaf(0, DTYPE_f32, DIMS(24, 32)), b = leaf(1, DTYPE_f32, DIMS(32, 64)), bias = leaf(2, DTYPE_f32, DIMS(64)), y;

	y = op(OP_relu, op(OP_matmul, a, b), 0);
	output(op(OP_add, reshape(y, DIMS(4, 6, 64)), bias));
	expect_steps(1, 3);
}
END_TEST

START_TEST(a_reduction_takes_prologue_and_epilogue) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64, 100)), s;

	s = sum(op(OP_exp, x, 0), 2);
	output(op(OP_sqrt, s, 0));
	expect_steps(1, 3);
}
END_TEST

START_TEST(a_prologue_that_is_also_wanted_is_stored_on_the_way) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64, 100)), e = op(OP_exp, x, 0);

	output(sum(e, 2));
	output(e);
	expect_steps(1, 2);
}
END_TEST

static uint32_t reduce_rows(unsigned id, uint32_t a, uint16_t axes) {
	return op_attr(id, a, (struct op_attr){ .axes = axes, .keepdims = true });
}

static uint32_t softmax(uint32_t x, uint16_t axes) {
	uint32_t e = op(OP_exp, op(OP_sub, x, reduce_rows(OP_reduce_max, x, axes)), 0);

	return op(OP_div, e, reduce_rows(OP_reduce_sum, e, axes));
}

static uint32_t layer_norm(uint32_t x, uint32_t weight, uint32_t bias, uint16_t axes) {
	uint32_t d = op(OP_sub, x, reduce_rows(OP_reduce_mean, x, axes));
	uint32_t v = reduce_rows(OP_reduce_mean, op(OP_mul, d, d), axes);

	return op(OP_add, op(OP_mul, op(OP_mul, d, op(OP_rsqrt, v, 0)), weight), bias);
}

START_TEST(a_softmax_is_one_kernel_over_any_axes_side_by_side) {
	static const uint16_t axes[] = { 4, 1, 2, 3, 6 };

	for (unsigned i = 0; i < sizeof axes / sizeof *axes; i++) {
		graph_reset(g);
		output(softmax(leaf(0, DTYPE_f32, DIMS(8, 30, 100)), axes[i]));
		expect_steps(1, 5);
	}
}
END_TEST

START_TEST(a_norm_with_what_goes_before_and_after_is_one_kernel) {
	uint32_t x = op(OP_add, leaf(0, DTYPE_f32, DIMS(64, 100)), leaf(1, DTYPE_f32, DIMS(64, 100)));

	output(op(OP_relu, layer_norm(x, leaf(2, DTYPE_f32, DIMS(100)), leaf(3, DTYPE_f32, DIMS(100)), 2), 0));
	output(x);
	expect_steps(1, 10);
}
END_TEST

START_TEST(reductions_that_meet_after_they_ended_are_one_kernel) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64, 100));
	uint32_t mean = op_attr(OP_reduce_mean, x, (struct op_attr){ .axes = 2 });
	uint32_t squares = op_attr(OP_reduce_mean, op(OP_mul, x, x), (struct op_attr){ .axes = 2 });

	output(op(OP_sub, squares, op(OP_mul, mean, mean)));
	expect_steps(1, 5);
}
END_TEST

START_TEST(reductions_of_the_same_rows_read_them_once) {
	uint32_t x = op(OP_neg, leaf(0, DTYPE_f32, DIMS(64, 100)), 0);

	output(sum(x, 2));
	output(reduce_rows(OP_reduce_max, x, 2));
	expect_steps(1, 3);
	graph_reset(g);
	x = leaf(0, DTYPE_f32, DIMS(64, 100));
	output(sum(x, 2));
	output(sum(x, 1));
	expect_steps(2, 2);
}
END_TEST

START_TEST(a_mean_reshaped_to_go_back_over_its_rows_needs_no_memory) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64, 100));
	uint32_t mean = op_attr(OP_reduce_mean, x, (struct op_attr){ .axes = 2 });

	output(op(OP_sub, x, reshape(mean, DIMS(64, 1))));
	expect_steps(1, 2);
}
END_TEST

START_TEST(a_result_broadcast_along_other_axes_is_another_kernel) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(100, 100));

	output(op(OP_sub, x, op_attr(OP_reduce_mean, x, (struct op_attr){ .axes = 2 })));
	expect_steps(2, 2);
}
END_TEST

/* Over the columns of a matrix in memory, whose result takes an eighth of what maps store past the caches, or half of it. */
START_TEST(strips_of_large_columns_are_read_ahead_and_stored_past_the_caches) {
	static const struct { int64_t rows, columns; bool far, stream; } cases[] = {
		{ 256, 1024, false, false }, { 1024, 1024, true, true }, { 1025, 1023, true, false },
	};
	struct traits t = cpu;

	t.stream_bytes = 8 << 20;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct plan *p;

		graph_reset(g);
		output(softmax(leaf(0, DTYPE_f32, DIMS(cases[i].rows, cases[i].columns)), 1));
		p = plan_with(&t, true);
		ck_assert_uint_eq(p->steps, 1);
		ck_assert_uint_eq(p->step[0].kernel->form, KERNEL_FORM_COLUMN);
		ck_assert_uint_eq(p->step[0].kernel->far, cases[i].far);
		ck_assert_uint_eq(p->step[0].kernel->operand[1].stream, cases[i].stream);
		plan_unref(p);
	}
}
END_TEST

START_TEST(large_rows_are_read_ahead_where_they_are_only_reduced) {
	struct traits t = cpu;
	uint32_t x = leaf(0, DTYPE_f32, DIMS(1024, 1024));
	struct plan *p;

	t.stream_bytes = 8 << 20;
	output(reduce_rows(OP_reduce_sum, op(OP_exp, op(OP_sub, x, op_attr(OP_reduce_max, x,
		(struct op_attr){ .axes = 2, .keepdims = true })), 0), 2));
	p = plan_with(&t, true);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert(p->step[0].kernel->far);
	plan_unref(p);
	graph_reset(g);
	output(softmax(leaf(0, DTYPE_f32, DIMS(1024, 1024)), 2));
	p = plan_with(&t, true);
	ck_assert(!p->step[0].kernel->far);
	plan_unref(p);
}
END_TEST

START_TEST(a_few_long_rows_are_reduced_side_by_side) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(2, 100000));
	struct plan *p;

	output(softmax(x, 2));
	p = plan_with(&cpu, true);
	for (uint32_t i = 0; i < p->steps; i++)
		ck_assert_uint_ne(p->step[i].kernel->root, KERNEL_ROWS);
	plan_unref(p);
	graph_reset(g);
	output(softmax(leaf(0, DTYPE_f32, DIMS(64, 10000)), 2));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert(p->step[0].kernel->long_rows);
	plan_unref(p);
}
END_TEST

START_TEST(a_long_reduction_runs_in_blocks) {
	output(sum(leaf(0, DTYPE_f32, DIMS(100000)), 1));
	expect_steps(2, 2);
}
END_TEST

START_TEST(a_product_takes_its_epilogue) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(16, 32)), w = leaf(1, DTYPE_f32, DIMS(32, 8)), b = leaf(2, DTYPE_f32, DIMS(8));

	output(op(OP_relu, op(OP_add, op(OP_matmul, x, w), b), 0));
	expect_steps(1, 3);
}
END_TEST

START_TEST(a_transposed_second_factor_is_copied_once) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(16, 32)), w = leaf(1, DTYPE_f32, DIMS(20, 32));

	output(op(OP_matmul, x, transpose(w)));
	expect_steps(2, 2);
}
END_TEST

/* The tile of a product of N by N by N on a device of 132 units, whose instructions multiply matrices or do not. */
static const struct {
	uint8_t dtype;
	bool matrix, wgmma;
	int64_t n;
	unsigned local_size, tile;
} tiles[] = {
	{ DTYPE_f32, true, false, 256, 256, KERNEL_TILE_SMALL },
	{ DTYPE_f32, true, true, 1024, 256, KERNEL_TILE_MEDIUM },
	{ DTYPE_f32, true, false, 2048, 256, KERNEL_TILE_HUGE },
	{ DTYPE_f32, true, false, 3072, 256, KERNEL_TILE_MEDIUM },
	{ DTYPE_f32, true, false, 8192, 64, KERNEL_TILE_SMALL },
	{ DTYPE_f64, true, true, 4096, 256, KERNEL_TILE_LARGE },
	{ DTYPE_bf16, true, true, 512, 256, KERNEL_TILE_MATRIX_MEDIUM },
	{ DTYPE_f16, true, false, 4096, 256, KERNEL_TILE_MATRIX_LARGE },
	{ DTYPE_f16, true, true, 4096, 256, KERNEL_TILE_WGMMA },
	{ DTYPE_bf16, true, true, 4096, 128, KERNEL_TILE_MATRIX_MEDIUM },
	{ DTYPE_f16, false, false, 4096, 256, KERNEL_TILE_HUGE },
};

START_TEST(a_tile_is_chosen_by_types_and_shape) {
	struct traits t = no_f64;
	struct plan_options o = { .fuse = true, .traits = &t };
	uint32_t x = leaf(0, tiles[_i].dtype, DIMS(tiles[_i].n, tiles[_i].n));
	struct plan *p;

	t.f64 = true;
	t.units = 132;
	t.local_size = tiles[_i].local_size;
	t.matrix = tiles[_i].matrix;
	t.wgmma = tiles[_i].wgmma;
	output(op(OP_relu, op(OP_matmul, x, x), 0));
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	ck_assert_uint_eq(p->step[0].kernel->tile, tiles[_i].tile);
	plan_unref(p);
}
END_TEST

START_TEST(kernels_never_depend_on_each_other_in_a_circle) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(32, 32)), a = op(OP_exp, x, 0);
	uint32_t m = op(OP_matmul, a, a);

	output(op(OP_add, a, m));
	expect_steps(2, 3);
}
END_TEST

START_TEST(small_kernels_are_left_alone_below_min_elements) {
	struct plan_options o = { .fuse = true, .min_elements = 1000, .traits = &cpu };
	uint32_t x = leaf(0, DTYPE_f32, DIMS(100));
	struct plan *p;

	output(op(OP_neg, op(OP_exp, x, 0), 0));
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	ck_assert_uint_eq(p->steps, 2);
	plan_unref(p);
}
END_TEST

START_TEST(f64_is_refused_where_the_device_lacks_it) {
	struct plan_options o = { .fuse = true, .traits = &no_f64 };
	struct plan *p;

	output(op(OP_neg, leaf(0, DTYPE_f64, DIMS(3)), 0));
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), FAULT_DEVICE);
	ck_assert_msg(strstr(fault.text, "neg of f64"), "%s", fault.text);
}
END_TEST

START_TEST(sizes_do_not_change_the_kernel) {
	struct plan *p[2];

	for (int i = 0; i < 2; i++) {
		uint32_t x, y;

		graph_reset(g);
		x = leaf(0, DTYPE_f32, DIMS(4 + i, 7 + 10 * i));
		y = leaf(1, DTYPE_f32, DIMS(7 + 10 * i));
		output(op(OP_add, x, y));
		p[i] = plan_with(&cpu, true);
	}
	ck_assert(kernel_equal(p[0]->step[0].kernel, p[1]->step[0].kernel));
	plan_unref(p[0]);
	plan_unref(p[1]);
}
END_TEST

START_TEST(too_many_outputs_for_one_kernel_are_cut_into_several) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(100));
	struct plan *p;

	for (int i = 0; i < 60; i++) {
		x = op(i & 1 ? OP_neg : OP_square, x, 0);
		output(x);
	}
	p = plan_with(&cpu, true);
	ck_assert_uint_gt(p->steps, 1);
	ck_assert_uint_lt(p->steps, 12);
	ck_assert_uint_eq(p->outputs, 60);
	plan_unref(p);
}
END_TEST

START_TEST(a_temporary_read_for_the_last_time_is_overwritten) {
	struct plan *p;
	uint32_t x = leaf(0, DTYPE_f32, DIMS(100));

	output(op(OP_exp, op(OP_neg, op(OP_abs, x, 0), 0), 0));
	p = plan_with(&cpu, false);
	ck_assert_uint_eq(p->steps, 3);
	ck_assert_uint_eq(p->slot[p->step[1].operand[1].slot].reuse, p->step[0].operand[1].slot);
	ck_assert_uint_eq(p->slot[p->output[0].slot].reuse, PLAN_NONE);
	plan_unref(p);
}
END_TEST

START_TEST(a_cached_plan_is_found_by_structure) {
	struct plan_options o = { .fuse = true, .traits = &cpu };
	struct plan_cache *c;
	struct plan *p, *q;
	bool hit;

	ck_assert_int_eq(plan_cache_new(2, &c), 0);
	output(op(OP_neg, leaf(0, DTYPE_f32, DIMS(10)), 0));
	ck_assert_int_eq(plan_cache_get(c, g, &o, &p, &hit, &fault), 0);
	ck_assert(!hit);
	graph_reset(g);
	output(op(OP_neg, leaf(5, DTYPE_f32, DIMS(10)), 0));
	ck_assert_int_eq(plan_cache_get(c, g, &o, &q, &hit, &fault), 0);
	ck_assert(hit);
	ck_assert_ptr_eq(p, q);
	plan_unref(q);
	graph_reset(g);
	output(op(OP_neg, leaf(0, DTYPE_f32, DIMS(11)), 0));
	ck_assert_int_eq(plan_cache_get(c, g, &o, &q, &hit, &fault), 0);
	ck_assert(!hit);
	plan_unref(p);
	plan_unref(q);
	plan_cache_free(c);
}
END_TEST

/* ---- patterns ---- */

static struct plan *plan_without(pattern_set off) {
	struct plan_options o = { .fuse = true, .patterns_off = off, .traits = &cpu };
	struct plan *p;

	ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s", fault.text);
	return p;
}

static uint32_t relu_of(uint32_t a) {
	return op(OP_relu, a, 0);
}

static uint32_t with_scalar(unsigned id, uint32_t a) {
	struct op_attr two = { .dtype = DTYPE_f32, .value = { 2 } };
	uint32_t scalar;

	ck_assert_int_eq(graph_op(g, OP_fill, 0, NULL, &two, 0, &scalar, &fault), 0);
	return op(id, a, scalar);
}

static uint32_t make_pattern(enum pattern pattern) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(16, 32)), y = leaf(1, DTYPE_f32, DIMS(16, 32)), row = leaf(2, DTYPE_f32, DIMS(32));
	uint32_t w = leaf(3, DTYPE_f32, DIMS(32, 32)), other = leaf(4, DTYPE_f32, DIMS(32));

	switch (pattern) {
	case PATTERN_elementwise_chain:
		return op(OP_exp, op(OP_neg, op(OP_abs, x, 0), 0), 0);
	case PATTERN_binary_activation:
		return relu_of(op(OP_div, x, y));
	case PATTERN_scalar_activation:
		return relu_of(with_scalar(OP_mul, x));
	case PATTERN_affine_activation:
		return relu_of(op(OP_add, op(OP_mul, x, row), other));
	case PATTERN_linear:
		return relu_of(op(OP_add, op(OP_matmul, x, w), row));
	case PATTERN_linear_residual:
		return relu_of(op(OP_add, op(OP_add, op(OP_matmul, x, w), row), y));
	case PATTERN_norm_activation:
		return relu_of(op(OP_add, op(OP_mul, op(OP_sub, x, row), other), row));
	case PATTERN_reduce_prologue:
		return sum(op(OP_exp, x, 0), 2);
	case PATTERN_reduce_epilogue:
		return op(OP_sqrt, sum(x, 2), 0);
	case PATTERN_sort:
		return op_attr(OP_sort, op(OP_exp, x, 0), (struct op_attr){ .axis = 1 });
	default:
		return UINT32_MAX;
	}
}

static uint32_t steps_of(const struct plan *p, enum pattern pattern) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		n += p->step[i].pattern == pattern;
	return n;
}

START_TEST(a_kernel_is_of_the_most_particular_pattern) {
	for (enum pattern pattern = 1; pattern < PATTERN_COUNT; pattern++) {
		struct plan *p;
		uint32_t node;

		graph_reset(g);
		node = make_pattern(pattern);
		if (node == UINT32_MAX)
			continue;
		output(node);
		p = plan_without(0);
		ck_assert_uint_eq(p->steps, 1);
		ck_assert_msg(p->step[0].pattern == pattern, "%s is taken for %s", pattern_name(pattern),
			pattern_name(p->step[0].pattern));
		ck_assert_uint_eq(p->step[0].buffers_eliminated, p->step[0].ops - 1);
		ck_assert_uint_gt(plan_step_saved(&p->step[0]), 0);
		plan_unref(p);
	}
}
END_TEST

START_TEST(a_pattern_that_is_off_is_not_made) {
	for (enum pattern pattern = 1; pattern < PATTERN_COUNT; pattern++) {
		struct plan *p;
		uint32_t node;

		graph_reset(g);
		node = make_pattern(pattern);
		if (node == UINT32_MAX)
			continue;
		output(node);
		p = plan_without(pattern_bit(pattern));
		ck_assert_msg(p->steps > 1, "%s", pattern_name(pattern));
		ck_assert_uint_eq(steps_of(p, pattern), 0);
		plan_unref(p);
	}
}
END_TEST

START_TEST(without_a_residual_the_rest_of_a_linear_layer_is_still_one_kernel) {
	struct plan *p;

	output(make_pattern(PATTERN_linear_residual));
	p = plan_without(pattern_bit(PATTERN_linear_residual));
	ck_assert_uint_eq(p->steps, 2);
	ck_assert_uint_eq(steps_of(p, PATTERN_linear), 1);
	plan_unref(p);
}
END_TEST

START_TEST(why_a_pattern_was_not_made_is_told) {
	struct plan_options o = { .fuse = true, .notes = true, .patterns_off = pattern_bit(PATTERN_linear), .traits = &cpu };
	struct plan *p;

	output(make_pattern(PATTERN_linear));
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	ck_assert_uint_gt(p->notes, 0);
	ck_assert_str_eq(p->note[0].reason, "the pattern linear is switched off");
	plan_unref(p);
}
END_TEST

static struct plan *plan_keeping_apart(const char *pairs) {
	struct plan_options o = { .fuse = true, .notes = true, .traits = &cpu };
	struct plan *p;

	ck_assert_msg(!op_pairs_parse(pairs, &o.apart, &fault), "%s", fault.text);
	ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s", fault.text);
	return p;
}

START_TEST(operations_that_are_kept_apart_are_in_kernels_of_their_own) {
	struct plan *p;

	output(make_pattern(PATTERN_linear));
	p = plan_keeping_apart("matmul:relu");
	ck_assert_uint_eq(p->steps, 1); /* relu reads the sum */
	plan_unref(p);
	p = plan_keeping_apart("matmul:add");
	ck_assert_uint_eq(p->steps, 2);
	ck_assert_str_eq(p->note[0].reason, "fusion.apart keeps these operations in kernels of their own");
	plan_unref(p);
	p = plan_keeping_apart("matmul:add, add:relu");
	ck_assert_uint_eq(p->steps, 3);
	plan_unref(p);
	p = plan_keeping_apart("relu:add add:matmul");
	ck_assert_uint_eq(p->steps, 1);
	plan_unref(p);
}
END_TEST

START_TEST(casts_between_operations_keep_nothing_together) {
	uint32_t x = leaf(0, DTYPE_f16, DIMS(16, 32));
	struct op_attr wide = { .dtype = DTYPE_f32 };
	struct plan *p;

	output(op(OP_exp, op_attr(OP_cast, op(OP_neg, x, 0), wide), 0));
	p = plan_keeping_apart("neg:exp");
	ck_assert_uint_eq(p->steps, 2);
	plan_unref(p);
	p = plan_keeping_apart("exp:neg");
	ck_assert_uint_eq(p->steps, 1);
	plan_unref(p);
}
END_TEST

START_TEST(pairs_are_operations_that_kernels_compute) {
	static const struct { const char *text, *why; } wrong[] = {
		{ "matmul", "matmul is not two operations with : between them" }, { "matmul:reluu", "there is no operation reluu" },
		{ "softmax:relu", "softmax is made of other operations" }, { "reshape:relu", "reshape is computed by no kernel" },
		{ "a:b:c", "there is no operation a" },
	};
	struct op_pairs pairs;
	char text[64];

	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		ck_assert_int_eq(op_pairs_parse(wrong[i].text, &pairs, &fault), FAULT_ARGUMENT);
		ck_assert_msg(strstr(fault.text, wrong[i].why) != NULL, "%s", fault.text);
		ck_assert_uint_eq(pairs.count, 0);
	}
	ck_assert_int_eq(op_pairs_parse(" ,sum:exp,matmul:relu attention:mul ", &pairs, &fault), 0);
	op_pairs_print(&pairs, text, sizeof text);
	ck_assert_str_eq(text, "sum:exp matmul:relu attention:mul");
}
END_TEST

START_TEST(plans_without_a_pattern_are_kept_apart) {
	struct plan_options all = { .fuse = true, .traits = &cpu }, less = all;
	struct plan_cache *c;
	struct plan *p, *q;
	bool hit;

	less.patterns_off = pattern_bit(PATTERN_binary_activation);
	output(make_pattern(PATTERN_binary_activation));
	ck_assert_int_eq(plan_cache_new(2, &c), 0);
	ck_assert_int_eq(plan_cache_get(c, g, &all, &p, &hit, &fault), 0);
	ck_assert_int_eq(plan_cache_get(c, g, &less, &q, &hit, &fault), 0);
	ck_assert(!hit);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert_uint_eq(q->steps, 2);
	plan_unref(p);
	plan_unref(q);
	plan_cache_free(c);
}
END_TEST

START_TEST(slices_of_an_array_share_one_structure) {
	struct graph_hash hash[2];

	for (int i = 0; i < 2; i++) {
		struct op_attr rows = { .rank = 2, .dims = { 10, 8 }, .start = { 10 * i, 0 }, .step = { 1, 1 } };

		graph_reset(g);
		output(op(OP_neg, op_attr(OP_slice, leaf(0, DTYPE_f32, DIMS(100, 8)), rows), 0));
		hash[i] = graph_hash(g);
	}
	ck_assert(hash[0].low == hash[1].low && hash[0].high == hash[1].high);
}
END_TEST

static unsigned count_ops_of(const struct plan *p, unsigned id) {
	unsigned n = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		for (unsigned v = 0; v < p->step[i].kernel->values; v++)
			n += p->step[i].kernel->value[v].kind == KERNEL_OP && p->step[i].kernel->value[v].op == id;
	return n;
}

static struct plan *plan_fast(bool fast) {
	struct plan_options o = { .fuse = true, .fast = fast, .traits = &cpu };
	struct plan *p;

	ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s", fault.text);
	return p;
}

START_TEST(fast_divides_once_a_row_and_only_when_asked) {
	struct plan *p;

	output(softmax(leaf(0, DTYPE_f32, DIMS(64, 100)), 2));
	p = plan_fast(false);
	ck_assert_uint_eq(count_ops_of(p, OP_div), 1);
	ck_assert_uint_eq(count_ops_of(p, OP_reciprocal), 0);
	plan_unref(p);
	p = plan_fast(true);
	ck_assert_uint_eq(count_ops_of(p, OP_div), 0);
	ck_assert_uint_eq(count_ops_of(p, OP_reciprocal), 1);
	plan_unref(p);
	graph_reset(g);
	output(op(OP_div, leaf(0, DTYPE_f32, DIMS(64)), leaf(1, DTYPE_f32, DIMS(64))));
	p = plan_fast(true);
	ck_assert_uint_eq(count_ops_of(p, OP_div), 1);
	plan_unref(p);
}
END_TEST

START_TEST(fast_rounds_16_bit_floats_only_where_they_are_stored) {
	uint32_t x = leaf(0, DTYPE_bf16, DIMS(64)), y = op(OP_exp, op(OP_mul, x, x), 0);
	const struct kernel *k;
	struct plan *p;

	output(op(OP_tanh, y, 0));
	p = plan_fast(true);
	k = p->step[0].kernel;
	for (unsigned v = 0; v < k->values; v++)
		ck_assert(k->value[v].kind != KERNEL_OP || k->value[v].op == OP_cast || k->value[v].dtype == DTYPE_f32);
	ck_assert_uint_eq(k->operand[k->operands - 1].dtype, DTYPE_bf16);
	ck_assert_uint_eq(count_ops_of(p, OP_cast), 2);
	plan_unref(p);
}
END_TEST

/* A part stands in the memory of the whole, whose type is that of every store and load. */
START_TEST(fast_rounds_parts_of_a_whole_where_they_are_stored) {
	static const struct op_attr first = { .axis = 0 };
	uint32_t x = leaf(0, DTYPE_bf16, DIMS(64)), in[2], node;
	struct plan *p;

	in[0] = op(OP_tanh, op(OP_exp, op(OP_mul, x, x), 0), 0);
	in[1] = op(OP_div, leaf(1, DTYPE_bf16, DIMS(32)), op_attr(OP_broadcast, leaf(2, DTYPE_bf16, DIMS(1)),
		((struct op_attr){ .rank = 1, .dims = { 32 } })));
	ck_assert_msg(!graph_op(g, OP_concat, 2, in, &first, 0, &node, &fault), "%s", fault.text);
	output(op(OP_neg, node, 0));
	output(node);
	p = plan_fast(true);
	ck_assert_uint_ge(p->steps, 2);
	for (uint32_t i = 0; i < p->steps; i++) {
		const struct kernel *k = p->step[i].kernel;

		for (unsigned v = 0; v < k->values; v++)
			ck_assert(k->value[v].kind != KERNEL_OP || k->value[v].op == OP_cast || k->value[v].op == OP_copy ||
				  k->value[v].dtype == DTYPE_f32);
		for (unsigned o = 0; o < k->operands; o++)
			ck_assert_uint_eq(k->operand[o].dtype, DTYPE_bf16);
	}
	ck_assert_uint_eq(count_ops_of(p, OP_tanh), 1);
	plan_unref(p);
	p = plan_fast(false);
	for (uint32_t i = 0; i < p->steps; i++)
		for (unsigned v = 0; v < p->step[i].kernel->values; v++)
			ck_assert_uint_eq(p->step[i].kernel->value[v].dtype, DTYPE_bf16);
	plan_unref(p);
}
END_TEST

/* ---- the simulator ---- */

enum { SIMULATED_LEAVES = 6, RANDOM_GRAPHS = 1500 };

/* As ck_assert_msg(), which writes to a file each time, for what is checked millions of times. */
#define must(condition, ...) \
	do { \
		if (!(condition)) \
			ck_abort_msg(__VA_ARGS__); \
	} while (0)

/* All arithmetic wraps, as the device's does. */
static int64_t multiply_add(int64_t a, int64_t b, int64_t c) {
	return (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c);
}

static int64_t apply(unsigned id, const int64_t *a) {
	switch (id) {
	case OP_add:
		return (int64_t)((uint64_t)a[0] + (uint64_t)a[1]);
	case OP_sub:
		return (int64_t)((uint64_t)a[0] - (uint64_t)a[1]);
	case OP_maximum:
	case OP_reduce_max:
		return a[0] > a[1] ? a[0] : a[1];
	case OP_minimum:
	case OP_reduce_min:
		return a[0] < a[1] ? a[0] : a[1];
	case OP_neg:
		return (int64_t)-(uint64_t)a[0];
	case OP_mul:
	case OP_reduce_prod:
		return (int64_t)((uint64_t)a[0] * (uint64_t)a[1]);
	case OP_reduce_sum:
		return (int64_t)((uint64_t)a[0] + (uint64_t)a[1]);
	case OP_cast:
	case OP_copy:
		return a[0];
	default:
		ck_abort_msg("%s is not simulated", op_info(id)->name);
	}
}

/* What a reduction starts from. */
static int64_t first_of(unsigned id) {
	if (id == OP_reduce_max || id == OP_reduce_min)
		return id == OP_reduce_max ? INT64_MIN : INT64_MAX;
	return id == OP_reduce_prod;
}

struct machine {
	const struct plan *plan;
	const struct plan_step *step;
	int64_t **slot;
	const uint64_t *scalar;
	int64_t index[KERNEL_RANK];
	int64_t value[KERNEL_VALUES];
	int64_t carried;                   /* SCAN: of the elements of the block so far */
};

static int64_t address(const struct machine *m, unsigned operand) {
	const struct plan_operand *o = &m->step->operand[operand];
	int64_t at = o->offset;

	for (unsigned d = 0; d < m->step->kernel->rank; d++)
		at += o->stride[d] * m->index[d];
	return at;
}

static uint64_t scalar_of(const struct machine *m, uint32_t number) {
	return number < m->plan->scalars ? m->scalar[number] : m->plan->constant[number - m->plan->scalars];
}

static int64_t load(const struct machine *m, unsigned operand) {
	return m->slot[m->step->operand[operand].slot][address(m, operand)];
}

/* From slot memory, at a place along an axis; 0 where there is none. */
static int64_t gather(const struct machine *m, unsigned operand, const int64_t *arg) {
	int64_t at = arg[0] < 0 ? arg[0] + arg[1] : arg[0];

	must(m->step->kernel->operand[operand].gathered, "not an array of a gather");
	if (at < 0 || at >= arg[1])
		return 0;
	return m->slot[m->step->operand[operand].slot][address(m, operand) + at * arg[2]];
}

static void values(struct machine *m, unsigned from, unsigned to) {
	const struct kernel *k = m->step->kernel;

	for (unsigned v = from; v < to; v++) {
		const struct kernel_value *x = &k->value[v];
		int64_t arg[3] = { m->value[x->arg[0]], m->value[x->arg[1]], m->value[x->arg[2]] };

		switch (x->kind) {
		case KERNEL_LOAD:
			m->value[v] = load(m, x->index);
			break;
		case KERNEL_SCALAR:
			m->value[v] = (int64_t)scalar_of(m, m->step->scalar[x->index]);
			break;
		case KERNEL_IOTA:
			m->value[v] = address(m, x->index);
			break;
		case KERNEL_GATHER:
			m->value[v] = gather(m, x->index, arg);
			break;
		case KERNEL_OP:
			m->value[v] = apply(x->op, arg);
			break;
		default:
			break;
		}
	}
}

static void stores(struct machine *m) {
	const struct kernel *k = m->step->kernel;

	for (unsigned i = kernel_computes_factor(k); i < k->operands; i++)
		if (k->operand[i].output)
			m->slot[m->step->operand[i].slot][address(m, i)] = m->value[k->operand[i].value];
}

static void finish(struct machine *m) {
	const struct kernel *k = m->step->kernel;

	values(m, k->root_value == KERNEL_NONE ? 0 : k->root_value + 1u, k->values);
	stores(m);
}

/* Visits indices of dims [from, to), calling at each. */
static void each(struct machine *m, unsigned from, unsigned to, void (*at)(struct machine *)) {
	if (from == to) {
		at(m);
		return;
	}
	for (m->index[from] = 0; m->index[from] < m->step->dims[from]; m->index[from]++)
		each(m, from + 1, to, at);
	m->index[from] = 0;
}

static int64_t position;

static void accumulate(struct machine *m) {
	const struct kernel *k = m->step->kernel;
	int64_t block = k->block_dim == 0xff ? 0 : m->index[k->block_dim];
	int64_t pair[2] = { m->value[k->root_value], 0 };

	if (position++ / KERNEL_BLOCK != block)
		return;
	values(m, 0, k->root_value);
	pair[1] = m->value[k->reduced_value];
	m->value[k->root_value] = apply(k->op, pair);
}

static void reduce(struct machine *m) {
	const struct kernel *k = m->step->kernel;

	position = 0;
	m->value[k->root_value] = first_of(k->op);
	each(m, k->kept, k->rank, accumulate);
	finish(m);
}

/* How many reductions deep each value of rows is. */
static unsigned level[KERNEL_VALUES];

static void find_values_levels(const struct kernel *k) {
	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *x = &k->value[v];
		unsigned arity = kernel_value_args(x);

		level[v] = 0;
		for (unsigned i = 0; i < arity; i++) {
			must(x->arg[i] < v, "value %u is used before it is there", x->arg[i]);
			level[v] = level[x->arg[i]] > level[v] ? level[x->arg[i]] : level[v];
		}
		level[v] += x->kind == KERNEL_REDUCED;
	}
}

static unsigned pass;

#define must_space(condition) must(condition, "a value of the wrong space")

static void check_spaces(const struct plan_step *s) {
	const struct kernel *k = s->kernel;

	for (unsigned v = 0; v < k->values; v++) {
		const struct kernel_value *x = &k->value[v];
		unsigned arity = x->kind == KERNEL_REDUCED ? 0 : kernel_value_args(x);

		must_space(x->kind != KERNEL_REDUCED || (x->space == KERNEL_SPACE_KEPT &&
			k->value[x->arg[0]].space == KERNEL_SPACE_ROW && k->value[x->arg[0]].dtype == x->dtype));
		for (unsigned i = 0; i < arity; i++)
			must_space(x->space == KERNEL_SPACE_ROW || k->value[x->arg[i]].space == KERNEL_SPACE_KEPT);
		for (unsigned d = k->kept; x->kind == KERNEL_LOAD && d < k->rank; d++)
			must_space(x->space == KERNEL_SPACE_ROW || !s->operand[x->index].stride[d]);
	}
}

static void store_space(struct machine *m, unsigned space) {
	const struct kernel *k = m->step->kernel;

	for (unsigned i = 0; i < k->operands; i++)
		if (k->operand[i].output && k->value[k->operand[i].value].space == space)
			m->slot[m->step->operand[i].slot][address(m, i)] = m->value[k->operand[i].value];
}

/* All values but reductions; those of the kept space are the same at every element. */
static void row_element(struct machine *m) {
	const struct kernel *k = m->step->kernel;

	values(m, 0, k->values);
	for (unsigned v = 0; v < k->values; v++)
		if (k->value[v].kind == KERNEL_REDUCED && level[v] == pass + 1) {
			int64_t pair[2] = { m->value[v], m->value[k->value[v].arg[0]] };

			m->value[v] = apply(k->value[v].op, pair);
		}
}

static void row_last(struct machine *m) {
	values(m, 0, m->step->kernel->values);
	store_space(m, KERNEL_SPACE_ROW);
}

static void rows(struct machine *m) {
	const struct kernel *k = m->step->kernel;
	unsigned last = 0;

	for (unsigned v = 0; v < k->values; v++)
		last = level[v] > last ? level[v] : last;
	for (pass = 0; pass < last; pass++) {
		for (unsigned v = 0; v < k->values; v++)
			if (k->value[v].kind == KERNEL_REDUCED && level[v] == pass + 1)
				m->value[v] = first_of(k->value[v].op);
		each(m, k->kept, k->rank, row_element);
	}
	each(m, k->kept, k->rank, row_last);
	values(m, 0, k->values);
	store_space(m, KERNEL_SPACE_KEPT);
}

static void each_row(struct machine *m) {
	find_values_levels(m->step->kernel);
	check_spaces(m->step);
	each(m, 0, m->step->kernel->kept, rows);
}

/* Where the second factor is packed, its stride along M is from one panel to the next. */
static int64_t load_second(struct machine *m) {
	const struct kernel *k = m->step->kernel;
	int64_t *row = &m->index[k->rank - 3], *column = &m->index[k->rank - 2], at[2] = { *row, *column }, value;

	if (k->packed) {
		*row = at[1] / kernel_columns(k);
		*column = at[1] % kernel_columns(k);
	}
	value = load(m, 1);
	*row = at[0];
	*column = at[1];
	return value;
}

static void multiply(struct machine *m) {
	int64_t *sum = &m->value[m->step->kernel->root_value];

	*sum = multiply_add(load(m, 0), load_second(m), *sum);
}

static void product(struct machine *m) {
	unsigned k = m->step->kernel->rank - 1u;

	m->value[m->step->kernel->root_value] = 0;
	each(m, k, k + 1, multiply);
	finish(m);
}

/* A row of the product that rows of a factor are made of. */
static void score_row(struct machine *m) {
	const struct kernel *k = m->step->kernel;
	unsigned last = k->rank - 1u, columns = k->inputs * (unsigned)k->width;
	int64_t depth = kernel_scores_depth(k, m->step->operand[SCORES_RIGHT].stride[last]);
	const int64_t *left = &m->slot[m->step->operand[SCORES_LEFT].slot][address(m, SCORES_LEFT)];

	for (int64_t s = 0; s < m->step->dims[last]; s++) {
		const int64_t *right;
		int64_t sum = 0;

		m->index[last] = s / columns;
		right = &m->slot[m->step->operand[SCORES_RIGHT].slot][address(m, SCORES_RIGHT) + s % columns];
		for (int64_t d = 0; d < depth; d++)
			sum = multiply_add(left[d], right[d * columns], sum);
		m->slot[m->step->operand[SCORES_WORK].slot][s] = sum;
	}
	m->index[last] = 0;
}

/* A row of the first factor, then what the product makes of it: the next one takes its place. */
static void product_row(struct machine *m) {
	const struct plan_step *whole = m->step;
	struct plan_step before = *whole;
	struct kernel k;

	if (whole->kernel->scored)
		score_row(m);
	kernel_before(whole->kernel, &k);
	before.kernel = &k;
	m->step = &before;
	find_values_levels(&k);
	check_spaces(&before);
	rows(m);
	m->step = whole;
	each(m, k.rank - 2u, k.rank - 1u, product);
}

static void product_kept(struct machine *m) {
	const struct kernel *k = m->step->kernel;
	int64_t *sum = &m->value[k->root_value];

	*sum = 0;
	each(m, k->rank - 1u, k->rank, multiply);
	m->slot[m->step->operand[k->carry].slot][address(m, k->carry)] = *sum;
}

/* A row of the product, then what is made of it. */
static void kept_row(struct machine *m) {
	const struct plan_step *whole = m->step;
	struct plan_step after = *whole;
	struct kernel k;

	each(m, whole->kernel->rank - 2u, whole->kernel->rank - 1u, product_kept);
	kernel_after(whole->kernel, &k);
	after.kernel = &k;
	m->step = &after;
	find_values_levels(&k);
	check_spaces(&after);
	rows(m);
	m->step = whole;
}

/* In order; the rule of kernel.h groups in another way, which integers do not see. */
static void scan_element(struct machine *m) {
	const struct kernel *k = m->step->kernel;
	int64_t at = m->index[k->rank - 1], block = k->block_dim == 0xff ? at / KERNEL_BLOCK : m->index[k->block_dim];
	int64_t pair[2] = { m->carried, 0 };

	must(k->block_dim != 0xff || m->step->extent <= KERNEL_BLOCK, "a long scan without blocks");
	if (at / KERNEL_BLOCK != block)
		return;
	values(m, 0, k->root_value);
	pair[1] = m->value[k->reduced_value];
	m->carried = at % KERNEL_BLOCK ? apply(k->op, pair) : pair[1];
	m->value[k->root_value] = m->carried;
	if (block > 0) {
		m->index[k->block_dim]--;
		pair[0] = load(m, k->carry);
		m->index[k->block_dim]++;
		pair[1] = m->carried;
		m->value[k->root_value] = apply(k->op, pair);
	}
	finish(m);
}

static void scatter_base(struct machine *m) {
	m->value[0] = load(m, 0);
	stores(m);
}

/* The updates of a row, in order; the last index is that of the updates, then that of the result. */
static void scatter_row(struct machine *m) {
	const struct kernel *k = m->step->kernel;
	int64_t *last = &m->index[k->rank - 1], extent = m->step->dims[k->rank - 1];

	for (int64_t j = 0; j < (int64_t)m->step->extent; j++) {
		int64_t at, update;

		*last = j;
		at = load(m, 1);
		update = load(m, 2);
		at += at < 0 ? extent : 0;
		*last = at;
		if (at < 0 || at >= extent)
			continue;
		m->value[0] = k->op == OP_add_along ? update + m->slot[m->step->operand[3].slot][address(m, 3)] : update;
		stores(m);
	}
	*last = 0;
}

static void run_step(struct machine *m) {
	const struct kernel *k = m->step->kernel;

	memset(m->index, 0, sizeof m->index);
	if (k->root == KERNEL_MAP)
		each(m, 0, k->rank, finish);
	else if (k->root == KERNEL_SCAN)
		each(m, 0, k->rank, scan_element);
	else if (k->root == KERNEL_SCATTER) {
		each(m, 0, k->rank, scatter_base);
		each(m, 0, k->kept, scatter_row);
	}
	else if (k->root == KERNEL_REDUCE)
		each(m, 0, k->kept, reduce);
	else if (k->root == KERNEL_ROWS)
		each_row(m);
	else if (kernel_computes_factor(k))
		each(m, 0, k->rank - 2u, product_row);
	else if (kernel_keeps_rows(k))
		each(m, 0, k->rank - 2u, kept_row);
	else
		each(m, 0, k->rank - 1u, product);
}

/* Runs a plan; *slotp is the memory of every slot, to be freed by slots_free(). */
static int64_t *leaf_data(uint32_t i, int64_t *const *leaves) {
	const struct graph_leaf *l = graph_leaf_at(g, i);

	return leaves[(int *)l->buffer - buffers] + l->view.offset;
}

static int64_t **simulate(const struct plan *p, int64_t *const *leaves) {
	struct machine m = { .plan = p, .scalar = graph_scalar_values(g) };

	m.slot = calloc(p->slots + 1, sizeof *m.slot);
	for (uint32_t i = 0; i < p->slots; i++)
		if (p->slot[i].reuse == PLAN_NONE)
			m.slot[i] = i < p->leaves ? leaf_data(i, leaves) : calloc(p->slot[i].bytes + 1, 1);
	for (uint32_t i = 0; i < p->slots; i++) {
		uint32_t from = i;

		while (p->slot[from].reuse != PLAN_NONE)
			from = p->slot[from].reuse;
		m.slot[i] = m.slot[from];
	}
	for (uint32_t i = 0; i < p->steps; i++) {
		m.step = &p->step[i];
		run_step(&m);
	}
	return m.slot;
}

static void slots_free(const struct plan *p, int64_t **slot) {
	for (uint32_t i = p->leaves; i < p->slots; i++)
		if (p->slot[i].reuse == PLAN_NONE)
			free(slot[i]);
	free(slot);
}

/* ---- evaluation node by node ---- */

static int64_t element(const int64_t *data, const struct tensor_type *t, const struct tensor_type *as, int64_t flat) {
	int64_t at = 0, scale = 1, index[LIMIT_RANK] = { 0 };

	for (unsigned d = as->rank; d-- > 0; flat /= as->dims[d])
		index[d] = flat % as->dims[d];
	for (unsigned d = t->rank; d-- > 0; scale *= t->dims[d])
		at += (t->dims[d] == 1 ? 0 : index[as->rank - t->rank + d]) * scale;
	return data[at];
}

static void reference_walk(const struct tensor_type *t, struct view v, const int64_t *a, int64_t *out) {
	for (int64_t i = 0; i < shape_elements(t); i++) {
		int64_t at = v.offset, flat = i;

		for (unsigned d = t->rank; d-- > 0; flat /= t->dims[d])
			at += flat % t->dims[d] * v.stride[d];
		out[i] = a[at];
	}
}

static void reference_view(const struct graph_node *n, const struct tensor_type *in, const int64_t *a, int64_t *out) {
	struct view from, v;

	view_contiguous(in, &from);
	ck_assert(view_apply(n->op, n->attr, in, &from, &n->type, &v));
	reference_walk(&n->type, v, a, out);
}

static void reference_reduce(const struct graph_node *n, const struct tensor_type *in, const int64_t *a, int64_t *out) {
	for (int64_t i = 0; i < shape_elements(&n->type); i++)
		out[i] = first_of(n->op);
	for (int64_t i = 0; i < shape_elements(in); i++) {
		int64_t at = 0, scale = 1, flat = i, pair[2];

		for (unsigned d = in->rank; d-- > 0; flat /= in->dims[d]) {
			if (n->attr->axes >> d & 1)
				continue;
			at += flat % in->dims[d] * scale;
			scale *= in->dims[d];
		}
		pair[0] = out[at];
		pair[1] = a[i];
		out[at] = apply(n->op, pair);
	}
}

static void reference_scatter(const struct graph_node *n, const struct tensor_type *ti, int64_t *const *value, int64_t *out) {
	const int64_t *index = value[n->in[1]], *updates = value[n->in[2]];
	int64_t inner = 1, extent = n->type.dims[n->attr->axis], many = ti->dims[n->attr->axis];

	memcpy(out, value[n->in[0]], (size_t)shape_elements(&n->type) * sizeof *out);
	for (unsigned d = n->attr->axis + 1u; d < n->type.rank; d++)
		inner *= n->type.dims[d];
	for (int64_t k = 0; k < shape_elements(ti); k++) {
		int64_t at = index[k] + (index[k] < 0 ? extent : 0), *place = &out[(k / inner / many * extent + at) * inner + k % inner];

		if (at >= 0 && at < extent)
			*place = updates[k] + (n->op == OP_add_along ? *place : 0);
	}
}

static void reference_scan(const struct graph_node *n, const int64_t *a, int64_t *out) {
	unsigned axis = (unsigned)__builtin_ctz(n->attr->axes);
	int64_t step = 1;

	for (unsigned d = axis + 1; d < n->type.rank; d++)
		step *= n->type.dims[d];
	for (int64_t i = 0; i < shape_elements(&n->type); i++) {
		int64_t pair[2] = { 0, a[i] };

		out[i] = a[i];
		if (i / step % n->type.dims[axis] == 0)
			continue;
		pair[0] = out[i - step];
		out[i] = apply(op_scan_reduction(n->op), pair);
	}
}

static void reference_matmul(const struct graph_node *n, const struct tensor_type *ta, const int64_t *a,
	const struct tensor_type *tb, const int64_t *b, int64_t *out) {
	int64_t rows = n->type.dims[n->type.rank - 2], columns = n->type.dims[n->type.rank - 1], depth = ta->dims[ta->rank - 1];

	for (int64_t i = 0; i < shape_elements(&n->type); i++) {
		int64_t column = i % columns, row = i / columns % rows, batch = i / columns / rows;

		out[i] = 0;
		for (int64_t k = 0; k < depth; k++)
			out[i] = multiply_add(a[(ta->rank > 2 ? batch * rows * depth : 0) + row * depth + k],
				b[(tb->rank > 2 ? batch * depth * columns : 0) + k * columns + column], out[i]);
	}
}

/* Element by element: the index's own index is the result's without the axes that come from a. */
static void reference_gather(const struct graph_node *n, const struct tensor_type *ta, const int64_t *a,
	const struct tensor_type *ti, const int64_t *index, int64_t *out) {
	unsigned axis = n->attr->axis, width = n->op == OP_take ? ti->rank : 1;

	for (int64_t k = 0; k < shape_elements(&n->type); k++) {
		int64_t at[LIMIT_RANK] = { 0 }, flat = k, where = 0, from = 0, place;

		for (unsigned d = n->type.rank; d-- > 0; flat /= n->type.dims[d])
			at[d] = flat % n->type.dims[d];
		for (unsigned d = 0; d < ti->rank; d++) {
			unsigned own = n->op == OP_take ? axis + d : d;

			where = where * ti->dims[d] + (ti->dims[d] == 1 ? 0 : at[own]);
		}
		place = index[where] + (index[where] < 0 ? ta->dims[axis] : 0);
		out[k] = 0;
		if (place < 0 || place >= ta->dims[axis])
			continue;
		for (unsigned d = 0; d < ta->rank; d++) {
			unsigned own = d < axis ? d : d + width - 1;

			from = from * ta->dims[d] + (d == axis ? place : ta->dims[d] == 1 ? 0 : at[own]);
		}
		out[k] = a[from];
	}
}

/* Each operand, element by element, to its place; the margins are there already. */
static void reference_parts(const struct graph_node *n, int64_t *const *value, int64_t *out) {
	int64_t start[LIMIT_RANK] = { 0 };

	for (int64_t k = 0; n->op == OP_pad && k < shape_elements(&n->type); k++)
		out[k] = n->arity > 1 ? value[n->in[1]][0] : 0;
	if (n->op == OP_pad)
		memcpy(start, n->attr->start, sizeof start);
	for (unsigned i = 0; i < (n->op == OP_pad ? 1U : n->arity); i++) {
		const struct tensor_type *t = &graph_node(g, n->in[i])->type;

		for (int64_t k = 0; k < shape_elements(t); k++) {
			int64_t to = 0, scale = 1, flat = k;

			for (unsigned d = t->rank; d-- > 0; flat /= t->dims[d]) {
				to += (start[d] + flat % t->dims[d]) * scale;
				scale *= n->type.dims[d];
			}
			out[to] = value[n->in[i]][k];
		}
		start[n->attr->axis] += t->dims[n->attr->axis];
	}
}

static int64_t *reference_node(uint32_t i, int64_t **value, int64_t *const *leaves) {
	const struct graph_node *n = graph_node(g, i);
	int64_t count = shape_elements(&n->type), *out = calloc((size_t)count + 1, sizeof *out);
	const struct tensor_type *in[LIMIT_OPERANDS] = { 0 };

	for (unsigned k = 0; k < n->arity; k++)
		in[k] = &graph_node(g, n->in[k])->type;
	if (n->op == OP_load) {
		reference_walk(&n->type, graph_leaf_at(g, n->index)->view, leaves[(int *)graph_leaf_at(g, n->index)->buffer - buffers], out);
	} else if (n->op == OP_fill || n->op == OP_arange) {
		const uint64_t *s = graph_scalar_values(g) + n->index;

		for (int64_t k = 0; k < count; k++)
			out[k] = (int64_t)s[0] + (n->op == OP_arange ? k * (int64_t)s[1] : 0);
	} else if (op_info(n->op)->class == OP_CLASS_REDUCE) {
		reference_reduce(n, in[0], value[n->in[0]], out);
	} else if (n->op == OP_concat || n->op == OP_pad) {
		reference_parts(n, value, out);
	} else if (op_gathers(n->op)) {
		reference_gather(n, in[0], value[n->in[0]], in[1], value[n->in[1]], out);
	} else if (op_scatters(n->op)) {
		reference_scatter(n, in[1], value, out);
	} else if (op_info(n->op)->class == OP_CLASS_SCAN) {
		reference_scan(n, value[n->in[0]], out);
	} else if (n->op == OP_matmul) {
		reference_matmul(n, in[0], value[n->in[0]], in[1], value[n->in[1]], out);
	} else if (op_is_elementwise(op_info(n->op)) || n->op == OP_copy) {
		for (int64_t k = 0; k < count; k++) {
			int64_t arg[3] = { 0 };

			for (unsigned o = 0; o < n->arity; o++)
				arg[o] = element(value[n->in[o]], in[o], &n->type, k);
			out[k] = apply(n->op, arg);
		}
	} else {
		reference_view(n, in[0], value[n->in[0]], out);
	}
	return out;
}

/* ---- random graphs ---- */

static uint64_t state;

static uint32_t pick(uint32_t below) {
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % below;
}

static void random_shape(struct tensor_type *t) {
	static const int64_t extents[] = { 1, 2, 3, 4, 5, 7, 16, 0 };

	t->dtype = DTYPE_i64;
	t->rank = (uint8_t)pick(5);
	for (unsigned d = 0; d < t->rank; d++)
		t->dims[d] = extents[pick(pick(8) ? 7 : 8)];
}

/* Axes are joined, cut, or so long as others are. */
static void random_reshape(const struct tensor_type *t, struct op_attr *attr) {
	unsigned way = pick(4), last = t->rank - 1u;

	if (!t->rank)
		return;
	if (way == 0 && t->rank >= 2) {
		attr->rank = (uint8_t)last;
		attr->dims[0] = t->dims[0] * t->dims[1];
		memmove(&attr->dims[1], &t->dims[2], (t->rank - 2u) * sizeof *attr->dims);
	} else if (way == 1) {
		attr->rank = 1;
		attr->dims[0] = shape_elements(t);
	} else if (way == 2 && t->rank < 5 && t->dims[last] % 2 == 0) {
		attr->dims[last] = t->dims[last] / 2;
		attr->dims[attr->rank++] = 2;
	} else {
		for (unsigned d = 0; d < t->rank; d++)
			attr->dims[d] = t->dims[last - d];
	}
}

static uint32_t random_view(uint32_t a) {
	const struct tensor_type t = graph_node(g, a)->type;
	struct op_attr attr = { .rank = t.rank };
	unsigned id = (const unsigned[]){ OP_reshape, OP_permute, OP_broadcast, OP_slice, OP_flip,
		OP_windows }[pick(6)];

	memcpy(attr.dims, t.dims, sizeof attr.dims);
	for (unsigned d = 0; d < t.rank; d++) {
		unsigned other = pick(d + 1u);

		attr.perm[d] = attr.perm[other];
		attr.perm[other] = (uint8_t)d;
		attr.step[d] = 1;
		if (id == OP_broadcast && t.dims[d] == 1)
			attr.dims[d] = 3;
		if (id == OP_slice && t.dims[d] > 2) {
			bool down = pick(2);

			attr.step[d] = down ? -2 : 2;
			attr.start[d] = down ? t.dims[d] - 1 : 1;
			attr.dims[d] = (t.dims[d] - !down + 1) / 2;
		}
	}
	attr.axes = (uint16_t)pick(1u << t.rank);
	if (id == OP_windows) {
		attr.axis = (uint8_t)(t.rank ? pick(t.rank) : 0);
		if (!t.rank || t.rank > 5 || t.dims[attr.axis] < 2)
			return a;
		attr.window.size = 1 + pick(2);
		attr.window.step = 1 + pick(2);
		attr.window.dilation = 1;
	}
	if (id == OP_reshape)
		random_reshape(&t, &attr);
	return op_attr(id, a, attr);
}

static uint32_t random_op(uint32_t a, uint32_t b) {
	static const unsigned ids[] = { OP_add, OP_sub, OP_maximum, OP_minimum, OP_neg, OP_copy };
	unsigned id = ids[pick(6)];
	uint32_t node, in[2] = { a, b };

	if (graph_op(g, id, op_info(id)->arity, in, NULL, 0, &node, &fault))
		return a;
	return node;
}

static uint32_t random_reduce(uint32_t a) {
	static const unsigned ids[] = { OP_reduce_sum, OP_reduce_max, OP_reduce_min, OP_reduce_prod };
	struct op_attr attr = { .axes = (uint16_t)pick(1u << graph_node(g, a)->type.rank), .keepdims = pick(2) };
	uint32_t node;

	return graph_op(g, ids[pick(4)], 1, &a, &attr, 0, &node, &fault) ? a : node;
}

/* A reduction that goes back over its rows, with a value made of both or of their results. */
static uint32_t random_rows(uint32_t a) {
	static const unsigned ids[] = { OP_add, OP_sub, OP_maximum, OP_minimum };
	const struct tensor_type t = graph_node(g, a)->type;
	struct op_attr attr = { .axes = (uint16_t)pick(1u << t.rank), .keepdims = pick(4) };
	unsigned id = pick(2) ? OP_reduce_sum : OP_reduce_max;
	uint32_t in[2] = { a, a }, node;

	if (graph_op(g, id, 1, &a, &attr, 0, &in[1], &fault) || graph_op(g, ids[pick(4)], 2, in, NULL, 0, &node, &fault))
		return a;
	return pick(2) ? node : random_op(node, in[pick(2)]);
}

static uint32_t random_scan(uint32_t a) {
	static const unsigned ids[] = { OP_cumsum, OP_cummax, OP_cummin };
	unsigned rank = graph_node(g, a)->type.rank;
	struct op_attr attr = { .axes = (uint16_t)(1u << pick(rank ? rank : 1)) };
	uint32_t node;

	return graph_op(g, ids[pick(3)], 1, &a, &attr, 0, &node, &fault) ? a : node;
}

static uint32_t random_product(uint32_t a) {
	const struct tensor_type t = graph_node(g, a)->type;
	uint32_t b = a, in[2], node;

	if (t.rank != 2)
		return a;
	if (t.dims[0] != t.dims[1] || pick(2))
		b = transpose(a);
	in[0] = pick(2) ? random_rows(a) : a;
	in[1] = b;
	return graph_op(g, OP_matmul, 2, in, NULL, 0, &node, &fault) ? a : node;
}

static uint32_t random_scatter(uint32_t a, uint32_t b) {
	unsigned rank = graph_node(g, a)->type.rank;
	struct op_attr attr = { .axis = (uint8_t)(rank ? pick(rank) : 0) };
	uint32_t node, in[3] = { a, b, pick(2) ? a : b };

	return graph_op(g, pick(2) ? OP_put_along : OP_add_along, 3, in, &attr, 0, &node, &fault) ? a : node;
}

static uint32_t random_gather(uint32_t a, uint32_t b) {
	const struct tensor_type t = graph_node(g, a)->type;
	struct op_attr attr = { .axis = (uint8_t)(t.rank ? pick(t.rank) : 0) };
	uint32_t node, in[2] = { a, pick(2) ? b : a };

	return graph_op(g, pick(2) ? OP_take : OP_take_along, 2, in, &attr, 0, &node, &fault) ? a : node;
}

/* Of arrays that may be joined: a, and views and results of it. */
static uint32_t random_concat(uint32_t a, uint32_t b) {
	const struct tensor_type t = graph_node(g, a)->type;
	struct op_attr attr = { .axis = (uint8_t)(t.rank ? pick(t.rank) : 0) };
	uint32_t in[3] = { a, pick(2) ? b : op(OP_neg, a, 0), pick(2) ? b : a }, node;

	if (graph_op(g, OP_concat, 1 + pick(3), in, &attr, 0, &node, &fault))
		return a;
	return node;
}

static uint32_t random_pad(uint32_t a) {
	const struct tensor_type t = graph_node(g, a)->type;
	struct op_attr attr = { .rank = t.rank };
	uint32_t in[2] = { a, sum(a, (uint16_t)((1u << t.rank) - 1)) }, node;

	for (unsigned d = 0; d < t.rank; d++) {
		attr.start[d] = pick(3);
		attr.dims[d] = t.dims[d] + attr.start[d] + pick(3);
	}
	return graph_op(g, OP_pad, 1 + pick(2), in, &attr, 0, &node, &fault) ? a : node;
}

static uint32_t random_source(void) {
	struct op_attr attr = { .dtype = DTYPE_i64, .rank = 1, .dims = { 3 }, .value = { pick(5), pick(3) } };
	uint32_t node;

	attr.rank = (uint8_t)pick(2);
	if (pick(2)) {
		attr.rank = 1;
		attr.dims[0] = (const int64_t[]){ 1, 4, 7 }[pick(3)];
		ck_assert_int_eq(graph_op(g, OP_arange, 0, NULL, &attr, 0, &node, &fault), 0);
	} else {
		ck_assert_int_eq(graph_op(g, OP_fill, 0, NULL, &attr, 0, &node, &fault), 0);
	}
	return node;
}

/* Elements stay few and small: nothing overflows, and an evaluation is cheap. */
static bool is_small(uint32_t node) {
	return shape_elements(&graph_node(g, node)->type) <= 4096;
}

static void random_graph(void) {
	uint32_t node[64], n = 0;

	for (int i = 0; i < SIMULATED_LEAVES; i++) {
		struct tensor_type t;
		struct view v;

		random_shape(&t);
		view_contiguous(&t, &v);
		ck_assert_int_eq(graph_leaf(g, &buffers[i], &t, &v, &node[n++]), 0);
	}
	while (n < 20 + pick(30)) {
		uint32_t a = node[pick(n)], b = node[pick(n)];
		uint32_t kind = pick(24), made = kind < 6 ? random_op(a, b) : kind < 8 ? random_view(a) :
			kind < 10 ? random_reduce(a) : kind < 11 ? random_product(a) : kind < 14 ? random_rows(a) :
			kind < 16 ? random_gather(a, b) : kind < 18 ? random_scan(a) :
			kind < 20 ? random_scatter(a, pick(2) ? a : b) : kind < 22 ? random_concat(a, b) :
			kind < 23 ? random_pad(a) : random_source();

		if (!is_small(made))
			break;
		node[n++] = made;
	}
	for (uint32_t i = 0; i < 4; i++)
		output(node[n - 1 - pick(n / 2)]);
}

static void compare(const struct plan *p, int64_t *const *leaves, int64_t *const *value, const char *how) {
	int64_t **slot = simulate(p, leaves);

	for (uint32_t i = 0; i < p->outputs; i++) {
		const struct plan_output *o = &p->output[i];
		const int64_t *want = value[graph_output_at(g, i)->node];

		for (int64_t k = 0; k < shape_elements(&o->type); k++) {
			int64_t at = o->view.offset, flat = k;

			for (unsigned d = o->type.rank; d-- > 0; flat /= o->type.dims[d])
				at += flat % o->type.dims[d] * o->view.stride[d];
			must(slot[o->slot][at] == want[k], "%s: output %u element %ld is %ld, not %ld", how, i,
				(long)k, (long)slot[o->slot][at], (long)want[k]);
		}
	}
	slots_free(p, slot);
}

static struct plan *split_fully(struct plan *p) {
	for (uint32_t i = 0; i < p->steps;) {
		struct plan *q;
		int r = plan_split(p, i, &cpu, &q, &fault);

		must(r >= 0, "a split failed");
		if (r) {
			i++;
			continue;
		}
		plan_unref(p);
		p = q;
	}
	plan_estimate(p, &cpu);
	return p;
}

static unsigned count_factors(const struct plan *p) {
	unsigned n = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		n += kernel_computes_factor(p->step[i].kernel);
	return n;
}

/* norm(x) @ w, whose norm is read `readers` times. */
static void normed_product(unsigned readers) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(40, 30)), w = leaf(1, DTYPE_f32, DIMS(30, 20));
	struct op_attr attr = { .axes = 2, .keepdims = true };
	uint32_t norm = op(OP_div, x, op_attr(OP_reduce_max, x, attr));

	output(op(OP_relu, op(OP_matmul, norm, w), 0));
	if (readers > 1)
		output(norm);
}

START_TEST(what_only_a_product_reads_row_by_row_is_computed_in_its_kernel) {
	struct plan *p;

	normed_product(1);
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert(kernel_computes_factor(p->step[0].kernel));
	ck_assert_uint_eq(p->step[0].pattern, PATTERN_linear);
	/* What it works in is for some rows at a time, and is no traffic. */
	ck_assert_uint_eq(p->step[0].bytes_written, 40 * 20 * 4);
	ck_assert_uint_eq(p->step[0].bytes_read, (40 * 30 + 30 * 20) * 4);
	p = split_fully(p);
	ck_assert_uint_ge(p->steps, 3);
	ck_assert_uint_eq(count_factors(p), 0);
	plan_unref(p);
}
END_TEST

START_TEST(a_number_that_all_is_reduced_to_is_split_from_what_follows) {
	uint32_t x = leaf(0, DTYPE_i64, DIMS(6, 8));
	struct plan *p;

	output(op(OP_neg, op_attr(OP_reduce_sum, x, (struct op_attr){ .axes = 3 }), 0));
	p = split_fully(plan_with(&cpu, true));
	ck_assert_uint_eq(p->steps, 2);
	/* One number: nothing of the reduced dim steps along it. */
	ck_assert(p->step[0].kernel->operand[1].output);
	ck_assert_int_eq(p->step[0].dims[0], 48);
	ck_assert_int_eq(p->step[0].operand[1].stride[0], 0);
	plan_unref(p);
}
END_TEST

START_TEST(what_is_wanted_besides_or_on_a_gpu_is_not_computed_in_the_products_kernel) {
	struct traits gpu = cpu;
	struct plan *p;

	normed_product(2);
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 2);
	ck_assert_uint_eq(count_factors(p), 0);
	plan_unref(p);
	graph_reset(g);
	normed_product(1);
	gpu.strategy = STRATEGY_GPU;
	gpu.local_size = 256;
	p = plan_with(&gpu, true);
	ck_assert_uint_eq(p->steps, 2);
	plan_unref(p);
}
END_TEST

static uint32_t of_three(unsigned id, uint32_t a, uint32_t b, uint32_t c, struct op_attr attr) {
	uint32_t node, in[3] = { a, b, c };

	ck_assert_msg(!graph_op(g, id, op_info(id)->arity, in, &attr, 0, &node, &fault), "%s", fault.text);
	return node;
}

/* Of the only convolution. */
static unsigned minimal_side_of(bool fuse, bool fast) {
	struct plan_options o = { .fuse = fuse, .fast = fast, .traits = &cpu };
	unsigned side = 0, convolutions = 0;
	struct plan *p;

	ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s", fault.text);
	for (uint32_t i = 0; i < p->steps; i++) {
		if (p->step[i].kernel->root != KERNEL_CONV)
			continue;
		convolutions++;
		side = p->step[i].kernel->minimal;
		ck_assert(plan_estimate_of(p, i) > 0);
	}
	ck_assert_uint_eq(convolutions, 1);
	plan_unref(p);
	return side;
}

START_TEST(minimal_filtering_is_chosen_by_the_shape_where_fast_is_asked_for) {
	static const struct {
		int64_t channels, results, lines, columns, taps, step;
		uint8_t dtype, side;
	} of[] = {
		{ 64, 64, 56, 56, 3, 1, DTYPE_f32, 4 },
		{ 512, 512, 7, 7, 3, 1, DTYPE_f32, 4 },
		{ 64, 64, 10, 10, 3, 1, DTYPE_f32, 2 },
		{ 30, 96, 20, 20, 3, 1, DTYPE_f16, 4 },
		/* Too small, or too few channels, to pay. */
		{ 64, 64, 5, 5, 3, 1, DTYPE_f32, 0 },
		{ 3, 64, 224, 224, 3, 1, DTYPE_f32, 0 },
		/* Of other forms. */
		{ 64, 64, 56, 56, 3, 2, DTYPE_f32, 0 },
		{ 64, 64, 56, 56, 5, 1, DTYPE_f32, 0 },
		{ 64, 64, 56, 56, 3, 1, DTYPE_f64, 0 },
	};
	struct op_attr attr = { .rank = 2, .step = { of[_i].step, of[_i].step }, .dims = { 1, 1 }, .start = { 1, 1 }, .whole = 1 };
	uint8_t dtype = of[_i].dtype;
	int64_t taps = of[_i].taps;
	uint32_t x = leaf(0, dtype, DIMS(1, of[_i].channels, of[_i].lines, of[_i].columns));
	uint32_t w = leaf(1, dtype, DIMS(of[_i].results, of[_i].channels, taps, taps));

	output(op(OP_relu, of_three(OP_conv, x, w, leaf(2, dtype, DIMS(of[_i].results)), attr), 0));
	for (unsigned fuse = 0; fuse < 2; fuse++) {
		ck_assert_uint_eq(minimal_side_of(fuse, true), of[_i].side);
		ck_assert_uint_eq(minimal_side_of(fuse, false), 0);
	}
}
END_TEST

START_TEST(what_is_split_off_a_packed_product_knows_nothing_of_panels) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(8, 64, 512)), w = leaf(1, DTYPE_f32, DIMS(8, 512, 2048));
	uint32_t product = op(OP_matmul, x, w);
	unsigned packed = 0;
	struct plan *p;

	output(op(OP_relu, op(OP_add, product, leaf(2, DTYPE_f32, DIMS(8, 64, 2048))), 0));
	p = plan_with(&cpu, true);
	for (uint32_t i = 0; i < p->steps; i++)
		packed += p->step[i].kernel->packed;
	ck_assert_uint_eq(packed, 1);
	p = split_fully(p);
	for (uint32_t i = 0; i < p->steps; i++) {
		ck_assert(!p->step[i].kernel->packed || p->step[i].kernel->root == KERNEL_MATMUL);
		ck_assert(plan_estimate_of(p, i) > 0);
	}
	plan_unref(p);
}
END_TEST

static void compare_without(pattern_set off, int64_t *const *leaves, int64_t *const *value) {
	struct plan *p = plan_without(off);

	for (uint32_t i = 0; i < p->steps; i++)
		ck_assert_msg(!p->step[i].pattern || !(off & pattern_bit(p->step[i].pattern)), "%s is off",
			pattern_name(p->step[i].pattern));
	compare(p, leaves, value, "without patterns");
	plan_unref(p);
}

static unsigned count_rows(const struct plan *p) {
	unsigned n = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		n += p->step[i].kernel->root == KERNEL_ROWS;
	return n;
}

START_TEST(the_peak_counts_what_is_alive_at_once) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64, 64)), v = x;
	struct plan *p;

	/* Unfused, each temporary but the first is written over the one before. */
	for (unsigned i = 0; i < 5; i++)
		v = op(i % 2 ? OP_neg : OP_sqrt, v, 0);
	output(sum(v, 3));
	p = plan_with(&cpu, false);
	ck_assert_uint_eq(p->peak_bytes, 64 * 64 * 4 + 4);
	plan_unref(p);
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->peak_bytes, 4);
	plan_unref(p);
}
END_TEST

START_TEST(results_are_alive_to_the_end) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64)), y = leaf(1, DTYPE_f32, DIMS(32));
	struct plan *p;

	output(op(OP_sqrt, x, 0));
	output(op(OP_neg, y, 0));
	p = plan_with(&cpu, false);
	ck_assert_uint_eq(p->peak_bytes, 4 * (64 + 32));
	plan_unref(p);
}
END_TEST

/*
 * Each branch keeps a product in memory, of which another is made, once as it is and once packed; long enough that no two steps are one launch.
 * The packed factor of all first products is there, too.
 */
START_TEST(one_branch_ends_before_the_next_begins) {
	enum { BRANCHES = 4, SIDE = 2048 };
	const uint64_t product = UINT64_C(4) * SIDE * SIDE;
	uint32_t b = leaf(0, DTYPE_f32, DIMS(SIDE, SIDE));
	struct plan *p;

	for (int i = 0; i < BRANCHES; i++) {
		uint32_t a = leaf(1 + i, DTYPE_f32, DIMS(SIDE, SIDE)), first = op(OP_matmul, a, b);

		output(sum(op(OP_matmul, first, first), 3));
	}
	p = plan_with(&cpu, false);
	ck_assert_uint_ge(p->steps, 3 * BRANCHES);
	ck_assert_uint_ge(p->peak_bytes, 4 * product);
	ck_assert_uint_lt(p->peak_bytes, 5 * product);
	plan_unref(p);
}
END_TEST

/*
 * Attention goes back in blocks of queries: what joins all blocks is the last operation of each, its part of the whole. So the weights of
 * all blocks are never in memory at once.
 */
START_TEST(blocks_of_a_whole_end_before_the_next_begin) {
	enum { BLOCKS = 8, ROWS = 1024, KEYS = 2048, WIDTH = 256 };
	const uint64_t scores = UINT64_C(4) * ROWS * KEYS;
	uint32_t k = leaf(0, DTYPE_f32, DIMS(KEYS, WIDTH)), v = leaf(1, DTYPE_f32, DIMS(KEYS, WIDTH)), part[BLOCKS], whole;
	uint32_t of_keys = GRAPH_NONE, of_values = GRAPH_NONE;
	struct op_attr first_axis = { 0 };
	struct plan *p;

	for (int i = 0; i < BLOCKS; i++) {
		uint32_t q = leaf(2 + 2 * i, DTYPE_f32, DIMS(ROWS, WIDTH)), dy = leaf(3 + 2 * i, DTYPE_f32, DIMS(ROWS, WIDTH));
		uint32_t weights = softmax(op(OP_matmul, q, transpose(k)), 2), a, b;
		uint32_t back = op(OP_mul, weights, op(OP_matmul, dy, transpose(v)));

		part[i] = op(OP_matmul, back, k);
		a = op(OP_matmul, transpose(back), q);
		b = op(OP_matmul, transpose(weights), dy);
		of_keys = i ? op(OP_add, of_keys, a) : a;
		of_values = i ? op(OP_add, of_values, b) : b;
	}
	ck_assert_msg(!graph_op(g, OP_concat, BLOCKS, part, &first_axis, 0, &whole, &fault), "%s", fault.text);
	output(whole);
	output(of_keys);
	output(of_values);
	p = plan_with(&cpu, true);
	/* With the results and copies of the factors it is less than the weights of all blocks alone. */
	ck_assert_uint_lt(p->peak_bytes, BLOCKS * scores);
	plan_unref(p);
}
END_TEST

static uint32_t product_of_leaves(int i, int64_t side) {
	return op(OP_matmul, leaf(2 * i, DTYPE_f32, DIMS(side, side)), leaf(2 * i + 1, DTYPE_f32, DIMS(side, side)));
}

START_TEST(a_sum_of_products_has_no_kernel_of_its_own) {
	enum { PRODUCTS = 6, SIDE = 128 };
	uint32_t s = product_of_leaves(0, SIDE);
	struct plan *p;

	for (int i = 1; i < PRODUCTS; i++)
		s = op(OP_add, s, product_of_leaves(i, SIDE));
	output(op(OP_tanh, s, 0));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, PRODUCTS);
	/* The sum so far, and that with the next product. */
	ck_assert_uint_le(p->peak_bytes, 2 * 4 * SIDE * SIDE);
	plan_unref(p);
}
END_TEST

/* A product that others read keeps its rank: what reads it may be what the other product is made of. */
START_TEST(products_that_others_read_are_added_up_apart) {
	enum { SIDE = 128 };
	uint32_t a = product_of_leaves(0, SIDE), b = product_of_leaves(1, SIDE);
	struct plan *p;

	output(op(OP_matmul, a, b));
	output(op(OP_add, a, b));
	p = plan_with(&cpu, true);
	ck_assert_uint_ge(p->steps, 4);
	plan_unref(p);
}
END_TEST

/* The sum joins the product that nobody reads, though the other one ranks higher by what reads it. */
START_TEST(one_of_two_products_may_be_read_by_others) {
	enum { SIDE = 128 };
	uint32_t a = product_of_leaves(0, SIDE), b = product_of_leaves(1, SIDE);
	struct plan *p;

	output(op(OP_matmul, a, leaf(4, DTYPE_f32, DIMS(SIDE, SIDE))));
	output(op(OP_add, a, b));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 3);
	plan_unref(p);
}
END_TEST

/* Products that would be one launch stay it, though their results are then in memory at once. */
START_TEST(what_is_one_launch_stays_together) {
	enum { BRANCHES = 3, SIDE = 256 };
	uint32_t a = leaf(0, DTYPE_f32, DIMS(SIDE, SIDE)), b = leaf(1, DTYPE_f32, DIMS(SIDE, SIDE)), c = op(OP_matmul, a, b);
	const struct kernel *k = NULL;
	unsigned side_by_side = 0;
	struct plan *p;

	for (int i = 0; i < BRANCHES; i++) {
		uint32_t other = leaf(2 + i, DTYPE_f32, DIMS(SIDE, SIDE)), first = op(OP_matmul, c, other);

		output(sum(op(OP_exp, first, 0), 3));
	}
	p = plan_with(&cpu, false);
	for (uint32_t i = 0; i < p->steps; i++) {
		side_by_side += k && kernel_equal(p->step[i].kernel, k) && p->step[i].kernel->root == KERNEL_MATMUL;
		k = p->step[i].kernel;
	}
	/* The one that all read is the same kernel, too. */
	ck_assert_uint_eq(side_by_side, BRANCHES);
	plan_unref(p);
}
END_TEST

/* ---- what the cost model decides ---- */

START_TEST(kernels_that_read_one_large_array_are_one) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(4096, 1024));
	struct plan *p;

	output(op(OP_sqrt, x, 0));
	output(op(OP_neg, x, 0));
	output(op(OP_add, x, leaf(1, DTYPE_f32, DIMS(1, 1024))));
	expect_steps(1, 3);
	p = plan_without(pattern_bit(PATTERN_horizontal));
	ck_assert_uint_eq(p->steps, 3);
	plan_unref(p);
}
END_TEST

START_TEST(small_kernels_of_one_program_are_left_to_share_a_launch) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64));

	output(op(OP_add, x, leaf(1, DTYPE_f32, DIMS(64))));
	output(op(OP_add, x, leaf(2, DTYPE_f32, DIMS(64))));
	expect_steps(2, 2);
}
END_TEST

START_TEST(a_cheap_value_is_computed_again_where_it_is_read) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(1024, 1024)), y = op(OP_relu, op(OP_neg, x, 0), 0);
	struct plan *p;

	output(sum(y, 1));
	output(sum(y, 2));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 2);
	for (uint32_t i = 0; i < p->steps; i++) {
		ck_assert_uint_eq(p->step[i].kernel->root, KERNEL_REDUCE);
		ck_assert_uint_eq(p->step[i].ops, 3);
		/* It tells of the graph's own operations. */
		for (uint32_t k = 0; k < p->step[i].ops; k++)
			ck_assert_uint_lt(p->step[i].op[k], graph_nodes(g));
	}
	ck_assert_uint_eq(p->ops, 4);
	ck_assert_uint_eq(p->buffers_eliminated, 2);
	plan_unref(p);
}
END_TEST

START_TEST(a_dear_value_is_stored_instead) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(1024, 1024)), y = op(OP_mish, op(OP_mish, x, 0), 0);
	struct plan *p;
	bool told = false;

	output(sum(y, 1));
	output(sum(y, 2));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 3);
	for (uint32_t i = 0; i < p->notes; i++)
		told |= !strcmp(p->note[i].reason, "storing it costs less than computing it again");
	ck_assert(told);
	plan_unref(p);
}
END_TEST

/* Forces of bodies on each other along one axis, of what is between them and of what all axes have in common. */
static uint32_t forces_along(uint32_t between, uint32_t common) {
	return sum(op(OP_mul, between, common), 2);
}

static uint32_t between(int buffer) {
	uint32_t x = leaf(buffer, DTYPE_f64, DIMS(200));

	return op(OP_sub, reshape(x, 2, (int64_t[]){ 1, 200 }), reshape(x, 2, (int64_t[]){ 200, 1 }));
}

static uint32_t told(const struct plan *p, struct plan_note **notep) {
	uint32_t count;

	ck_assert_int_eq(plan_apart(p, notep, &count), 0);
	return count;
}

START_TEST(why_forces_between_bodies_are_not_computed_in_their_sums_is_told_for_each) {
	uint32_t d[3], common, force[3];
	struct plan_note *note;
	struct plan *p;

	for (int i = 0; i < 3; i++)
		d[i] = between(i);
	common = op(OP_add, op(OP_mul, d[0], d[0]), op(OP_add, op(OP_mul, d[1], d[1]), op(OP_mul, d[2], d[2])));
	common = op(OP_exp, op(OP_sqrt, common, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		output(force[i] = forces_along(d[i], common));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 4);
	ck_assert_uint_eq(told(p, &note), 3);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(note[i].consumer, force[i]);
		ck_assert_uint_eq(note[i].producer, graph_node(g, force[i])->in[0]);
		ck_assert_str_eq(note[i].reason, "it takes too many operations for each kernel that reads it to compute it again");
	}
	free(note);
	plan_unref(p);
}
END_TEST

START_TEST(one_reason_is_told_of_two_kernels_and_none_of_what_is_one) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(1024, 1024)), y = op(OP_mish, op(OP_mish, x, 0), 0), z = op(OP_neg, y, 0);
	struct plan_note *note;
	struct plan *p;

	output(sum(y, 1));
	output(sum(z, 2));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 3);
	ck_assert_uint_eq(told(p, &note), 2);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(note[i].producer, i ? z : y);
		ck_assert_str_eq(note[i].reason, i ? "several kernels read what its kernel computes" : "storing it costs less than computing it again");
	}
	free(note);
	plan_unref(p);
}
END_TEST

/* Each of the two sums would make the logarithm for itself, if that cost less. */
START_TEST(what_a_setting_keeps_apart_is_told_as_that_whatever_else_does) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(1000, 7)), y = op(OP_log, x, 0), z = op(OP_square, y, 0);
	struct plan_note *note;
	unsigned found = 0;
	struct plan *p;

	output(sum(y, 2));
	output(sum(z, 2));
	p = plan_keeping_apart("log:square");
	for (uint32_t i = told(p, &note); i--;) {
		bool named = note[i].producer == y && note[i].consumer == z;

		found += named;
		ck_assert_str_eq(note[i].reason, named ? "fusion.apart keeps these operations in kernels of their own" : "storing it costs less than computing it again");
	}
	ck_assert_uint_eq(found, 1);
	free(note);
	plan_unref(p);
}
END_TEST

START_TEST(what_no_pass_was_asked_of_is_told_by_the_structure) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(300, 300)), y = leaf(1, DTYPE_f32, DIMS(300, 300));
	struct plan_note *note;
	struct plan *p;

	output(op(OP_matmul, x, op(OP_matmul, x, y)));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(told(p, &note), 1);
	ck_assert_str_eq(note[0].reason, "what reads it reads it from memory, at places of its own");
	free(note);
	plan_unref(p);
}
END_TEST

/* The step of this root that follows so many others of it. */
static uint32_t find_root(const struct plan *p, unsigned root, uint32_t after) {
	for (uint32_t i = 0; i < p->steps; i++)
		if (p->step[i].kernel->root == root && !after--)
			return i;
	ck_abort_msg("there is no such step");
}

static uint32_t find_copy(const struct plan *p) {
	for (uint32_t i = 0; i < p->steps; i++)
		if (p->step[i].ops == 1 && p->node[p->step[i].op[0]].note == PLAN_NONE)
			return i;
	ck_abort_msg("there is no copy");
}

static void expect_purpose(const struct plan *p, uint32_t step, const char *purpose) {
	struct str text = { 0 };

	plan_put_purpose(p, step, &text);
	ck_assert_str_eq(str_text(&text), purpose);
	str_free(&text);
}

START_TEST(what_a_kernel_without_operations_is_for_is_told) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(300, 700));
	struct plan *p;

	output(sum(op(OP_exp, leaf(1, DTYPE_f32, DIMS(100000)), 0), 1));
	output(op(OP_matmul, x, leaf(2, DTYPE_f32, DIMS(700, 500))));
	output(op_attr(OP_sort, leaf(3, DTYPE_f32, DIMS(1 << 20)), (struct op_attr){ .axis = 0 }));
	output(op(OP_neg, x, 0));
	p = plan_with(&cpu, true);
	for (uint32_t i = 0; i < p->steps; i++)
		if (!p->step[i].ops)
			ck_assert_uint_lt(i + 1, p->steps);
	expect_purpose(p, find_root(p, KERNEL_REDUCE, 0), "first pass of a reduction, sum: its blocks, side by side");
	expect_purpose(p, find_root(p, KERNEL_REDUCE, 1), "last pass of a reduction, sum: of what the pass before left of each block");
	expect_purpose(p, find_root(p, KERNEL_SORT, 0), "first pass of a sort: its blocks");
	expect_purpose(p, find_root(p, KERNEL_MATMUL, 0), "");
	expect_purpose(p, find_copy(p), "packing of weights: into panels, as matmul reads them, once for all runs");
	plan_unref(p);
}
END_TEST

START_TEST(a_value_that_is_wanted_itself_is_computed_once) {
	uint32_t y = op(OP_neg, leaf(0, DTYPE_f32, DIMS(1024, 1024)), 0);

	output(y);
	output(sum(y, 1));
	output(sum(y, 2));
	output(sum(y, 3));
	for (unsigned i = 0; i < 2; i++) {
		struct plan *p = plan_with(&cpu, true);
		uint32_t computed = 0;

		for (uint32_t k = 0; k < p->steps; k++)
			for (uint32_t o = 0; o < p->step[k].ops; o++)
				computed += p->step[k].op[o] == y;
		ck_assert_uint_eq(computed, 1);
		plan_unref(p);
	}
}
END_TEST

/* Devices that would have everything in one kernel, or nothing: one of them a graph. */
static void compare_rates(unsigned kind, int64_t *const *leaves, int64_t *const *value) {
	struct traits t = cpu;
	struct plan *p;

	t.rates = *rates_typical(kind == 2 ? STRATEGY_GPU : STRATEGY_CPU);
	t.rates.launch_ns = kind ? 1e-3 : 1e9;
	for (unsigned c = 0; kind == 1 && c < RATE_CLASSES; c++)
		t.rates.op_ns[RATE_ONE][RATE_F64][c] = t.rates.op_ns[RATE_ALL][RATE_F64][c] = 1e-9;
	p = plan_with(&t, true);
	compare(p, leaves, value, "with other rates");
	plan_unref(p);
}

START_TEST(what_reduces_a_products_rows_is_in_its_kernel_and_can_be_split_off) {
	uint32_t x = leaf(0, DTYPE_i64, DIMS(100, 6)), w = leaf(1, DTYPE_i64, DIMS(6, 12)), r = leaf(2, DTYPE_i64, DIMS(100, 12));
	struct op_attr attr = { .axes = 2, .keepdims = true };
	uint32_t sum = op(OP_add, op(OP_matmul, x, w), r), most = op_attr(OP_reduce_max, sum, attr);
	int64_t data[3][1200], *leaves[SIMULATED_LEAVES] = { data[0], data[1], data[2] }, *value[16];
	struct plan *p;

	output(op(OP_sub, sum, most));
	output(most);
	state = 7;
	for (unsigned i = 0; i < 3 * 1200; i++)
		data[i / 1200][i % 1200] = (int64_t)pick(9) - 4;
	for (uint32_t i = 0; i < graph_nodes(g); i++)
		value[i] = reference_node(i, value, leaves);
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert(kernel_keeps_rows(p->step[0].kernel));
	ck_assert_uint_eq(p->step[0].bytes_written, 100 * 13 * 8);
	compare(p, leaves, value, "after a product");
	p = split_fully(p);
	ck_assert_uint_ge(p->steps, 4);
	ck_assert(!kernel_keeps_rows(p->step[0].kernel));
	compare(p, leaves, value, "after a product, split");
	plan_unref(p);
	for (uint32_t i = 0; i < graph_nodes(g); i++)
		free(value[i]);
}
END_TEST

START_TEST(rows_between_two_products_are_in_one_kernel_and_can_be_split_apart) {
	uint32_t q = leaf(0, DTYPE_i64, DIMS(2, 60, 6)), k = leaf(1, DTYPE_i64, DIMS(2, 70, 6)), v = leaf(2, DTYPE_i64, DIMS(2, 70, 5));
	struct op_attr attr = { .axes = 4, .keepdims = true }, turned = { .rank = 3, .perm = { 0, 2, 1 } };
	uint32_t scores = op(OP_matmul, q, op_attr(OP_permute, k, turned)), twice = op(OP_add, scores, scores);
	int64_t data[3][840], *leaves[SIMULATED_LEAVES] = { data[0], data[1], data[2] }, *value[16];
	struct plan *p;

	output(op(OP_matmul, op(OP_sub, twice, op_attr(OP_reduce_max, twice, attr)), v));
	state = 7;
	for (unsigned i = 0; i < 3 * 840; i++)
		data[i / 840][i % 840] = (int64_t)pick(9) - 4;
	for (uint32_t i = 0; i < graph_nodes(g); i++)
		value[i] = reference_node(i, value, leaves);
	p = plan_with(&cpu, true);
	ck_assert(p->step[p->steps - 1].kernel->scored);
	ck_assert_uint_eq(p->step[p->steps - 1].pattern, PATTERN_attention);
	compare(p, leaves, value, "rows between products");
	p = split_fully(p);
	ck_assert_uint_eq(count_factors(p), 0);
	compare(p, leaves, value, "rows between products, split");
	plan_unref(p);
	for (uint32_t i = 0; i < graph_nodes(g); i++)
		free(value[i]);
}
END_TEST

START_TEST(plans_of_random_graphs_compute_what_the_graphs_say) {
	unsigned rows_seen = 0, factors_seen = 0;

	for (uint32_t seed = 1; seed <= RANDOM_GRAPHS; seed++) {
		int64_t *leaves[SIMULATED_LEAVES], **value;
		struct plan *p;

		state = seed;
		graph_reset(g);
		random_graph();
		for (uint32_t i = 0; i < SIMULATED_LEAVES; i++) {
			int64_t count = shape_elements(&graph_node(g, graph_leaf_at(g, i)->node)->type);

			leaves[i] = calloc((size_t)count + 1, sizeof **leaves);
			for (int64_t k = 0; k < count; k++)
				leaves[i][k] = (int64_t)pick(9) - 4;
		}
		value = calloc(graph_nodes(g), sizeof *value);
		for (uint32_t i = 0; i < graph_nodes(g); i++)
			value[i] = reference_node(i, value, leaves);
		p = plan_with(&cpu, true);
		compare(p, leaves, value, "fused");
		rows_seen += count_rows(p);
		factors_seen += count_factors(p);
		p = split_fully(p);
		compare(p, leaves, value, "split");
		plan_unref(p);
		p = plan_with(&cpu, false);
		compare(p, leaves, value, "unfused");
		plan_unref(p);
		compare_without(pick(UINT32_MAX) & ~pattern_bit(PATTERN_NONE), leaves, value);
		compare_without(UINT32_MAX, leaves, value);
		compare_rates(seed % 3, leaves, value);
		for (uint32_t i = 0; i < graph_nodes(g); i++)
			free(value[i]);
		for (uint32_t i = 0; i < SIMULATED_LEAVES; i++)
			free(leaves[i]);
		free(value);
	}
	ck_assert_uint_gt(rows_seen, RANDOM_GRAPHS / 4);
	ck_assert_uint_gt(factors_seen, 0);
}
END_TEST

START_TEST(reductions_of_any_length_and_place_in_blocks_are_whole) {
	static const int64_t shapes[][3] = { { 1, 20000, 1 }, { 20000, 1, 20 }, { 3, 8193, 9 }, { 8192, 2, 2 }, { 2, 3, 30000 } };

	for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (uint16_t axes = 1; axes < 8; axes++) {
			int64_t *leaves[1], *value[3] = { 0 }, count = shapes[s][0] * shapes[s][1] * shapes[s][2];
			struct plan *p;

			graph_reset(g);
			output(sum(op(OP_neg, leaf(0, DTYPE_i64, 3, shapes[s]), 0), axes));
			leaves[0] = calloc((size_t)count, sizeof **leaves);
			for (int64_t k = 0; k < count; k++)
				leaves[0][k] = k % 97;
			value[0] = leaves[0];
			value[1] = reference_node(1, value, leaves);
			value[2] = reference_node(2, value, leaves);
			p = plan_with(&cpu, true);
			compare(p, leaves, value, "blocks");
			p = split_fully(p);
			compare(p, leaves, value, "blocks, split");
			plan_unref(p);
			free(value[1]);
			free(value[2]);
			free(leaves[0]);
		}
}
END_TEST

START_TEST(a_scan_takes_what_stands_before_and_after_it) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(64, 100)), e = op(OP_exp, x, 0);

	output(op(OP_sqrt, op(OP_mul, op_attr(OP_cumsum, e, (struct op_attr){ .axes = 2 }), e), 0));
	expect_steps(1, 4);
}
END_TEST

static void expect_stages(const struct plan *p, unsigned count, const uint8_t *stage) {
	ck_assert_uint_eq(p->steps, count);
	for (unsigned i = 0; i < count; i++) {
		ck_assert_uint_eq(p->step[i].kernel->root, KERNEL_SORT);
		ck_assert_uint_eq(p->step[i].kernel->stage, stage[i]);
	}
}

START_TEST(short_rows_are_sorted_whole_and_long_ones_in_blocks) {
	static const uint8_t rows[] = { KERNEL_STAGE_ROWS };
	static const uint8_t blocks[] = { KERNEL_STAGE_BLOCKS, KERNEL_STAGE_MERGE, KERNEL_STAGE_LAST };
	struct plan *p;

	output(op_attr(OP_argsort, leaf(0, DTYPE_f32, DIMS(3, 500)), (struct op_attr){ .axis = 0 }));
	p = plan_with(&cpu, true);
	expect_stages(p, 1, rows);
	plan_unref(p);
	graph_reset(g);
	output(op_attr(OP_sort, leaf(0, DTYPE_f32, DIMS(100001)), (struct op_attr){ .axis = 0, .flag = true }));
	p = plan_with(&cpu, true);
	expect_stages(p, 3, blocks);
	plan_unref(p);
}
END_TEST

/* The kernel of all sizes is one: what varies stands in the record. */
START_TEST(sorts_of_other_sizes_are_the_same_kernels) {
	struct plan *p[2];

	for (int i = 0; i < 2; i++) {
		graph_reset(g);
		output(op_attr(OP_argsort, leaf(0, DTYPE_f32, DIMS(100001 + 1000 * i)), (struct op_attr){ .axis = 0 }));
		p[i] = plan_with(&cpu, true);
	}
	ck_assert_uint_eq(p[0]->steps, p[1]->steps);
	for (uint32_t i = 0; i < p[0]->steps; i++)
		ck_assert(kernel_equal(p[0]->step[i].kernel, p[1]->step[i].kernel));
	plan_unref(p[0]);
	plan_unref(p[1]);
}
END_TEST

START_TEST(a_sort_that_does_not_build_is_split_from_what_goes_before_it) {
	uint32_t x = leaf(0, DTYPE_f32, DIMS(3, 500));
	struct plan *p, *q;
	const struct kernel *k;

	output(op_attr(OP_argsort, op(OP_exp, op(OP_neg, x, 0), 0), (struct op_attr){ .axis = 1 }));
	p = plan_with(&cpu, true);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert_int_eq(plan_split(p, 0, &cpu, &q, &fault), 0);
	ck_assert_uint_eq(q->steps, 2);
	ck_assert_uint_eq(q->step[0].kernel->root, KERNEL_MAP);
	k = q->step[1].kernel;
	ck_assert_uint_eq(k->root, KERNEL_SORT);
	ck_assert_uint_eq(k->operands, 5);
	ck_assert_uint_eq(k->carry, 2);
	ck_assert(k->operand[1].output && k->operand[1].dtype == DTYPE_i64);
	ck_assert_uint_eq(k->operand[2].dtype, DTYPE_u64);
	ck_assert_uint_eq(k->operand[4].dtype, DTYPE_f32);
	plan_unref(p);
	ck_assert_int_eq(plan_split(q, 1, &cpu, &p, &fault), FAULT_BUILD);
	plan_unref(q);
}
END_TEST

START_TEST(scans_of_any_length_and_place_in_blocks_are_whole) {
	static const int64_t shapes[][3] = { { 1, 20000, 1 }, { 20000, 1, 20 }, { 3, 8193, 9 }, { 8192, 2, 2 }, { 2, 3, 30000 } };

	for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
		for (uint16_t axis = 0; axis < 3; axis++) {
			int64_t *leaves[1], *value[5] = { 0 }, count = shapes[s][0] * shapes[s][1] * shapes[s][2];
			uint32_t n, y;
			struct plan *p;

			graph_reset(g);
			n = op(OP_neg, leaf(0, DTYPE_i64, 3, shapes[s]), 0);
			y = op_attr(OP_cumsum, n, (struct op_attr){ .axes = (uint16_t)(1 << axis) });
			output(op(OP_sub, y, n));
			leaves[0] = calloc((size_t)count, sizeof **leaves);
			for (int64_t k = 0; k < count; k++)
				leaves[0][k] = k % 97;
			value[0] = leaves[0];
			for (uint32_t i = 1; i < 4; i++)
				value[i] = reference_node(i, value, leaves);
			p = plan_with(&cpu, true);
			compare(p, leaves, value, "scan in blocks");
			p = split_fully(p);
			compare(p, leaves, value, "scan in blocks, split");
			plan_unref(p);
			for (uint32_t i = 1; i < 4; i++)
				free(value[i]);
			free(leaves[0]);
		}
}
END_TEST

/* ---- generic kernels ---- */

static uint32_t attend(uint32_t q, uint32_t k, bool causal) {
	uint32_t node, in[] = { q, k, q };
	struct op_attr attr = { .flag = causal };

	ck_assert_msg(!graph_op(g, OP_attention, 3, in, &attr, 0, &node, &fault), "%s", fault.text);
	return node;
}

/* Each with work before and behind it, of operands that do not lie as the kernels of the list want them. */
static uint32_t make_root(unsigned kind) {
	uint32_t x = op(OP_exp, transpose(leaf(0, DTYPE_f32, DIMS(30, 40))), 0), index = leaf(1, DTYPE_i32, DIMS(7));
	uint32_t places = leaf(2, DTYPE_i32, DIMS(7, 30)), updates = transpose(leaf(3, DTYPE_f32, DIMS(30, 7)));
	uint32_t weight = leaf(4, DTYPE_f32, DIMS(8, 1, 3, 3)), image = leaf(5, DTYPE_f32, DIMS(2, 8, 12, 13));
	uint32_t bytes = leaf(6, DTYPE_i32, DIMS(40, 5)), halves = leaf(10, DTYPE_f16, DIMS(40, 50)), wide = leaf(12, DTYPE_bf16, DIMS(90, 80));
	struct op_attr each = { .rank = 2, .step = { 1, 1 }, .dims = { 1, 1 }, .start = { 1, 1 }, .whole = 8 };

	switch (kind) {
	case 0:
		return of_three(OP_take, x, index, 0, (struct op_attr){ .axis = 1 });
	case 1:
		return of_three(OP_take_along, x, places, 0, (struct op_attr){ .axis = 0 });
	case 2:
		return of_three(OP_add_along, x, places, updates, (struct op_attr){ .axis = 0 });
	case 3:
		return of_three(OP_put_along, x, places, updates, (struct op_attr){ .axis = 0 });
	case 4:
		return op_attr(OP_cumsum, x, (struct op_attr){ .axes = 1 });
	case 5:
		return op_attr(OP_cumsum, op(OP_neg, transpose(leaf(7, DTYPE_i32, DIMS(9000, 20))), 0), (struct op_attr){ .axes = 2 });
	case 6:
		return op_attr(OP_cumsum, op(OP_neg, leaf(8, DTYPE_f32, DIMS(9000, 20)), 0), (struct op_attr){ .axes = 1 });
	case 7:
		return op_attr(OP_sort, x, (struct op_attr){ .axis = 0 });
	case 8:
		return op_attr(OP_argsort, x, (struct op_attr){ .axis = 1, .flag = true });
	case 9:
		return op(OP_matmul, transpose(bytes), bytes);
	case 10:
		return of_three(OP_conv, image, weight, leaf(9, DTYPE_f32, DIMS(8)), each);
	case 11:
		each.whole = 1;
		return of_three(OP_conv, image, leaf(11, DTYPE_f32, DIMS(9, 8, 3, 3)), leaf(9, DTYPE_f32, DIMS(9)), each);
	case 12:
		return op(OP_matmul, transpose(halves), halves);
	case 13:
		return op(OP_matmul, wide, transpose(wide));
	case 14:
		return attend(halves, op(OP_neg, halves, 0), true);
	case 15:
		return attend(wide, op(OP_neg, wide, 0), false);
	case 16:
		each.whole = 1;
		return of_three(OP_conv, leaf(13, DTYPE_f16, DIMS(2, 8, 12, 13)), leaf(14, DTYPE_f16, DIMS(9, 8, 3, 3)), leaf(15, DTYPE_f16, DIMS(9)), each);
	default:
		return attend(transpose(x), transpose(x), false);
	}
}

/* Likewise, on CPUs. */
static uint32_t make_cpu_root(unsigned kind) {
	switch (kind) {
	case 0:
		return op_attr(OP_sort, transpose(op(OP_neg, leaf(10, DTYPE_f32, DIMS(2, 40000)), 0)), (struct op_attr){ .axis = 0 });
	case 1:
		return op_attr(OP_argsort, leaf(11, DTYPE_i16, DIMS(200000)), (struct op_attr){ .axis = 0, .flag = true });
	case 2:
		return op_attr(OP_sort, op(OP_neg, leaf(12, DTYPE_i8, DIMS(30, 40)), 0), (struct op_attr){ .axis = 0 });
	case 3:
		return op_attr(OP_reduce_max, op(OP_neg, leaf(15, DTYPE_u8, DIMS(4000, 5)), 0), (struct op_attr){ .axes = 2 });
	case 4:
		return op_attr(OP_reduce_sum, leaf(16, DTYPE_f32, DIMS(3, 20000)), (struct op_attr){ .axes = 2 });
	default:
		return of_three(OP_searchsorted, leaf(13, DTYPE_i16, DIMS(90)), op(OP_neg, transpose(leaf(14, DTYPE_i16, DIMS(5, 40))), 0), 0,
			(struct op_attr){ .flag = false });
	}
}

enum { ROOTS = 18, CPU_ROOTS = 6 };

static bool runs_if_map(const struct kernel *k, const struct traits *t) {
	(void)t;
	for (unsigned v = 0; v < k->values; v++)
		if (kernel_value_gathers(&k->value[v]))
			return false;
	return k->root == KERNEL_MAP;
}

static bool is_listed(const struct kernel *k, const struct traits *t) {
	static struct kernel one;

	for (unsigned i = 0; i < plan_generic_kernels(); i++)
		if (!plan_generic_kernel(i, t, &one) && kernel_equal(&one, k))
			return true;
	return false;
}

START_TEST(what_stands_in_for_a_plan_is_maps_and_kernels_of_the_list) {
	static const struct traits *const of[] = { &cpu, &multiplies, &no_f64, &cpu };
	const struct traits *t = of[_i / ROOTS];
	struct plan *p, *made;

	output(op(OP_neg, _i < 3 * ROOTS ? make_root((unsigned)_i % ROOTS) : make_cpu_root((unsigned)_i - 3u * ROOTS), 0));
	p = plan_with(t, true);
	ck_assert_int_eq(plan_generic(p, t, runs_if_map, &made), 0);
	ck_assert_ptr_nonnull(made);
	for (uint32_t i = 0; i < p->steps; i++)
		ck_assert_ptr_null(plan_generic_reason(p->step[i].kernel, t, runs_if_map));
	for (uint32_t i = 0; i < made->steps; i++)
		ck_assert_msg(runs_if_map(made->step[i].kernel, t) || is_listed(made->step[i].kernel, t), "step %u: %s", i,
			kernel_root_name(made->step[i].kernel));
	plan_unref(made);
	plan_unref(p);
}
END_TEST

/* Where there is no generic kernel of it, the plan and the list say so alike. */
START_TEST(no_kernel_is_listed_that_no_plan_would_use) {
	static const struct traits *const of[] = { &cpu, &no_f64, &multiplies };
	static struct kernel k;

	for (unsigned t = 0; t < sizeof of / sizeof *of; t++)
		for (unsigned i = 0; i < plan_generic_kernels(); i++)
			if (!plan_generic_kernel(i, of[t], &k))
				ck_assert_ptr_null(plan_generic_reason(&k, of[t], runs_if_map));
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("plan");
	TCase *t = tcase_create("plan");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 600);
	tcase_add_test(t, a_dag_with_a_value_used_twice_is_one_kernel);
	tcase_add_test(t, several_outputs_leave_one_kernel);
	tcase_add_test(t, dead_code_is_not_planned);
	tcase_add_test(t, equal_operations_are_shared);
	tcase_add_test(t, attentions_are_shared_where_scale_and_causal_agree);
	tcase_add_test(t, attention_takes_as_many_queries_as_local_memory_has_room_for);
	tcase_add_test(t, attention_is_one_kernel_that_keeps_no_scores);
	tcase_add_test(t, scalars_of_other_value_are_other_nodes_of_the_same_structure);
	tcase_add_test(t, views_cost_no_kernel);
	tcase_add_test(t, a_reshape_that_strides_cannot_say_is_one_copy);
	tcase_add_test(t, a_reshape_between_elementwise_operations_ends_no_kernel);
	tcase_add_test(t, shapes_whose_cuts_lie_across_each_other_are_two_kernels);
	tcase_add_test(t, long_rows_are_not_cut_into_short_ones);
	tcase_add_test(t, a_number_follows_to_any_shape);
	tcase_add_test(t, a_reshape_before_a_reduction_ends_no_kernel);
	tcase_add_test(t, a_product_keeps_its_epilogue_before_a_reshape);
	tcase_add_test(t, a_reduction_takes_prologue_and_epilogue);
	tcase_add_test(t, a_prologue_that_is_also_wanted_is_stored_on_the_way);
	tcase_add_test(t, a_softmax_is_one_kernel_over_any_axes_side_by_side);
	tcase_add_test(t, a_norm_with_what_goes_before_and_after_is_one_kernel);
	tcase_add_test(t, reductions_that_meet_after_they_ended_are_one_kernel);
	tcase_add_test(t, reductions_of_the_same_rows_read_them_once);
	tcase_add_test(t, fast_divides_once_a_row_and_only_when_asked);
	tcase_add_test(t, fast_rounds_16_bit_floats_only_where_they_are_stored);
	tcase_add_test(t, fast_rounds_parts_of_a_whole_where_they_are_stored);
	tcase_add_test(t, a_mean_reshaped_to_go_back_over_its_rows_needs_no_memory);
	tcase_add_test(t, a_result_broadcast_along_other_axes_is_another_kernel);
	tcase_add_test(t, a_few_long_rows_are_reduced_side_by_side);
	tcase_add_test(t, strips_of_large_columns_are_read_ahead_and_stored_past_the_caches);
	tcase_add_test(t, large_rows_are_read_ahead_where_they_are_only_reduced);
	tcase_add_test(t, a_long_reduction_runs_in_blocks);
	tcase_add_test(t, a_product_takes_its_epilogue);
	tcase_add_test(t, a_transposed_second_factor_is_copied_once);
	tcase_add_loop_test(t, a_tile_is_chosen_by_types_and_shape, 0, sizeof tiles / sizeof *tiles);
	tcase_add_test(t, kernels_never_depend_on_each_other_in_a_circle);
	tcase_add_test(t, small_kernels_are_left_alone_below_min_elements);
	tcase_add_test(t, f64_is_refused_where_the_device_lacks_it);
	tcase_add_test(t, sizes_do_not_change_the_kernel);
	tcase_add_test(t, too_many_outputs_for_one_kernel_are_cut_into_several);
	tcase_add_test(t, a_temporary_read_for_the_last_time_is_overwritten);
	tcase_add_test(t, a_cached_plan_is_found_by_structure);
	tcase_add_test(t, a_kernel_is_of_the_most_particular_pattern);
	tcase_add_test(t, a_pattern_that_is_off_is_not_made);
	tcase_add_test(t, without_a_residual_the_rest_of_a_linear_layer_is_still_one_kernel);
	tcase_add_test(t, why_a_pattern_was_not_made_is_told);
	tcase_add_test(t, operations_that_are_kept_apart_are_in_kernels_of_their_own);
	tcase_add_test(t, casts_between_operations_keep_nothing_together);
	tcase_add_test(t, pairs_are_operations_that_kernels_compute);
	tcase_add_test(t, plans_without_a_pattern_are_kept_apart);
	tcase_add_test(t, slices_of_an_array_share_one_structure);
	tcase_add_test(t, a_number_that_all_is_reduced_to_is_split_from_what_follows);
	tcase_add_test(t, what_only_a_product_reads_row_by_row_is_computed_in_its_kernel);
	tcase_add_test(t, what_is_wanted_besides_or_on_a_gpu_is_not_computed_in_the_products_kernel);
	tcase_add_test(t, what_reduces_a_products_rows_is_in_its_kernel_and_can_be_split_off);
	tcase_add_test(t, rows_between_two_products_are_in_one_kernel_and_can_be_split_apart);
	tcase_add_loop_test(t, minimal_filtering_is_chosen_by_the_shape_where_fast_is_asked_for, 0, 9);
	tcase_add_test(t, what_is_split_off_a_packed_product_knows_nothing_of_panels);
	tcase_add_test(t, the_peak_counts_what_is_alive_at_once);
	tcase_add_test(t, one_branch_ends_before_the_next_begins);
	tcase_add_test(t, blocks_of_a_whole_end_before_the_next_begin);
	tcase_add_test(t, what_is_one_launch_stays_together);
	tcase_add_test(t, a_sum_of_products_has_no_kernel_of_its_own);
	tcase_add_test(t, products_that_others_read_are_added_up_apart);
	tcase_add_test(t, one_of_two_products_may_be_read_by_others);
	tcase_add_test(t, results_are_alive_to_the_end);
	tcase_add_test(t, kernels_that_read_one_large_array_are_one);
	tcase_add_test(t, small_kernels_of_one_program_are_left_to_share_a_launch);
	tcase_add_test(t, a_cheap_value_is_computed_again_where_it_is_read);
	tcase_add_test(t, a_dear_value_is_stored_instead);
	tcase_add_test(t, why_forces_between_bodies_are_not_computed_in_their_sums_is_told_for_each);
	tcase_add_test(t, one_reason_is_told_of_two_kernels_and_none_of_what_is_one);
	tcase_add_test(t, what_a_setting_keeps_apart_is_told_as_that_whatever_else_does);
	tcase_add_test(t, what_no_pass_was_asked_of_is_told_by_the_structure);
	tcase_add_test(t, what_a_kernel_without_operations_is_for_is_told);
	tcase_add_test(t, a_value_that_is_wanted_itself_is_computed_once);
	tcase_add_test(t, plans_of_random_graphs_compute_what_the_graphs_say);
	tcase_add_test(t, reductions_of_any_length_and_place_in_blocks_are_whole);
	tcase_add_test(t, a_scan_takes_what_stands_before_and_after_it);
	tcase_add_test(t, short_rows_are_sorted_whole_and_long_ones_in_blocks);
	tcase_add_test(t, sorts_of_other_sizes_are_the_same_kernels);
	tcase_add_test(t, a_sort_that_does_not_build_is_split_from_what_goes_before_it);
	tcase_add_test(t, scans_of_any_length_and_place_in_blocks_are_whole);
	tcase_add_loop_test(t, what_stands_in_for_a_plan_is_maps_and_kernels_of_the_list, 0, 3 * ROOTS + CPU_ROOTS);
	tcase_add_test(t, no_kernel_is_listed_that_no_plan_would_use);
	suite_add_tcase(s, t);
	return s;
}

int main(void) {
	return suite_run(suite());
}

/* plan/book and plan/named: patterns that users define, what is refused, where they are found, and what a switch does. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/plan/plan.h"
#include "daemon/plan/tracker.h"
#include "protocol/expand.h"
#include "protocol/own.h"
#include "tests/suite.h"

static const struct traits cpu = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1,
	.kernel_operands = 32, .kernel_values = 64 };

static struct graph *g;
static struct fault fault;
static int buffers[8];

static void setup(void) {
	fault = (struct fault){ 0 };
	ck_assert_int_eq(graph_new(&g), 0);
}

static void teardown(void) {
	g = graph_free(g);
}

/* ---- graphs ---- */

static uint32_t leaf_of(int buffer, uint8_t dtype, unsigned rank, int64_t n) {
	struct tensor_type t = { .dtype = dtype, .rank = (uint8_t)rank, .dims = { n, n, n } };
	struct view v;
	uint32_t node;

	view_contiguous(&t, &v);
	ck_assert_int_eq(graph_leaf(g, &buffers[buffer], &t, &v, &node), 0);
	return node;
}

static uint32_t leaf(int buffer) {
	return leaf_of(buffer, DTYPE_f32, 2, 64);
}

static int make(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr, uint32_t *nodep,
	struct fault *f) {
	return graph_op(into, op, n, in, attr, 0, nodep, f);
}

static const struct tensor_type *type_of(void *into, uint32_t node) {
	return &graph_node(into, node)->type;
}

/* What a text makes of nodes called a, b and c. */
static uint32_t value(const char *text, uint32_t a, uint32_t b, uint32_t c) {
	const struct expand_target target = { g, make, type_of };
	const struct op_attr attr = { .axes = 2 };
	const uint32_t in[] = { a, b, c };
	struct expr *e = malloc(sizeof *e);
	struct expand_call call = { "text", e, 3, in, &attr, NULL };
	uint32_t node;

	ck_assert_ptr_nonnull(e);
	ck_assert_msg(!expr_parse(text, "a, b, c", e, &fault), "%s", fault.text);
	ck_assert_msg(!expand(&call, &target, &node, &fault), "%s", fault.text);
	free(e);
	return node;
}

static void output(uint32_t node) {
	ck_assert_int_eq(graph_output(g, node, node), 0);
}

/* ---- books ---- */

static struct named *pattern(const char *signature, const char *text) {
	struct named *n;

	ck_assert_msg(!named_new(signature, text, 0, &n, &fault), "%s", fault.text);
	return n;
}

/* Takes over the patterns. */
static struct book *book_of(struct named *a, struct named *b) {
	struct named *const both[] = { a, b };
	struct book *book;

	ck_assert_int_eq(book_new(b ? 2 : 1, both, &book), 0);
	named_unref(a);
	named_unref(b);
	return book;
}

static struct book *book(const char *signature, const char *text) {
	return book_of(pattern(signature, text), NULL);
}

static struct plan *plan_of(struct book *b, named_set off) {
	struct plan_options o = { .fuse = true, .notes = true, .traits = &cpu, .book = b, .named_off = off };
	struct plan *p;

	ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s", fault.text);
	return p;
}

static unsigned of_pattern(const struct plan *p, unsigned pattern) {
	unsigned steps = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		steps += (p->step[i].named & named_bit(pattern)) != 0;
	return steps;
}

/* In the graph as it is: how often it is found, and kernels that are of it; with the switch off none is. */
static void expect_found(struct book *b, uint32_t found, unsigned kernels) {
	struct plan *p = plan_of(b, 0), *off = plan_of(b, 1);

	ck_assert_uint_eq(p->found ? p->found[0] : 0, found);
	ck_assert_uint_eq(of_pattern(p, 0), kernels);
	ck_assert_uint_eq(of_pattern(off, 0), 0);
	if (kernels)
		ck_assert_uint_gt(off->steps, p->steps);
	plan_unref(p);
	plan_unref(off);
}

static void expect(const char *signature, const char *text, uint32_t found, unsigned kernels) {
	struct book *b = book(signature, text);

	expect_found(b, found, kernels);
	book_unref(b);
}

/* ---- definitions ---- */

static void expect_refused(const char *signature, const char *text, int code, const char *part) {
	struct named *n = NULL;
	struct fault f = { 0 };

	ck_assert_int_eq(named_new(signature, text, 0, &n, &f), code);
	ck_assert_ptr_null(n);
	ck_assert_msg(strstr(f.text, part) != NULL, "%s", f.text);
}

START_TEST(names_of_others_and_bad_names_are_refused) {
	expect_refused("linear(a, b)", "a * b + a", FAULT_ARGUMENT, "operation of this name");
	expect_refused("elementwise_chain(a, b)", "a * b + a", FAULT_ARGUMENT, "built-in pattern");
	expect_refused("norm_activation(a, b)", "a * b + a", FAULT_ARGUMENT, "built-in pattern");
	expect_refused("2x(a, b)", "a * b + a", FAULT_ARGUMENT, "name");
	expect_refused("a-b(a, b)", "a * b + a", FAULT_ARGUMENT, "parentheses");
	expect_refused("", "a * b + a", FAULT_ARGUMENT, "name");
	expect_refused("a_name_that_is_longer_than_sixty_three_letters_is_refused_as_it_is_for_operations(a)", "exp(a) + a",
		FAULT_ARGUMENT, "name");
}
END_TEST

START_TEST(a_pattern_that_names_itself_is_refused) {
	expect_refused("twice(a)", "twice(a) + twice(a)", FAULT_SYNTAX, "twice");
}
END_TEST

START_TEST(what_depends_on_shapes_is_refused) {
	expect_refused("p(a)", "sum(a) / count(a)", FAULT_ARGUMENT, "column 10: count depends on shapes");
	expect_refused("p(a)", "exp(reshape(a, [-1])) + 1", FAULT_ARGUMENT, "reshape cannot be part");
	expect_refused("p(a)", "exp(cast(a, f16)) + 1", FAULT_ARGUMENT, "cast cannot be part");
	expect_refused("p(a)", "exp(var(a)) + 1", FAULT_ARGUMENT, "column 5: count depends on shapes");
}
END_TEST

START_TEST(a_pattern_has_two_operations_or_more) {
	expect_refused("p(a)", "exp(a)", FAULT_ARGUMENT, "at least 2 operations");
	expect_refused("p(a)", "a", FAULT_ARGUMENT, "at least 2 operations");
	expect_refused("p(a)", "2 + 3", FAULT_ARGUMENT, "at least 2 operations");
	expect_refused("p(a)", "e = exp(a); e * transpose(e); transpose(e)", FAULT_SYNTAX, "column");
	expect_refused("p(a)", "e = exp(a); transpose(e * e)", FAULT_ARGUMENT, "result of a pattern");
}
END_TEST

START_TEST(too_large_a_pattern_is_refused) {
	char text[1024] = "a";

	for (unsigned i = 0; i < 40; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), " + %u * b", i + 2);
	expect_refused("p(a, b)", text, FAULT_LIMIT, "at most 64");
}
END_TEST

START_TEST(a_name_given_again_and_again_costs_no_more_than_its_length) {
	char text[2048] = "v0 = 1 + 1; ", more[64];
	struct named *n;

	for (unsigned i = 1; i < 30; i++) {
		snprintf(more, sizeof more, "v%u = v%u + v%u; ", i, i - 1, i - 1);
		strcat(text, more);
	}
	strcat(text, "exp(a) + v29");
	ck_assert_int_eq(named_new("p(a)", text, 0, &n, &fault), 0);
	ck_assert_double_eq(n->template.node[n->template.nodes - 2].number, 0x1p30);
	named_unref(n);
}
END_TEST

/* ---- finding ---- */

START_TEST(an_expression_is_found_as_a_kernel_and_its_switch_keeps_it_apart) {
	output(value("a * sigmoid(b * a)", leaf(0), leaf(1), 0));
	expect("swish(x, beta)", "x * sigmoid(beta * x)", 1, 1);
}
END_TEST

START_TEST(it_is_found_inside_of_a_larger_kernel) {
	output(value("sqrt(exp(b) * sigmoid(c * exp(b))) - 3", 0, leaf(1), leaf(2)));
	expect("swish(x, beta)", "x * sigmoid(beta * x)", 1, 1);
}
END_TEST

START_TEST(something_else_is_not_found) {
	output(value("a * sigmoid(b * c)", leaf(0), leaf(1), leaf(2)));
	output(value("a * tanh(b * a)", leaf(0), leaf(1), 0));
	output(value("a - sigmoid(b * a)", leaf(0), leaf(1), 0));
	expect("swish(x, beta)", "x * sigmoid(beta * x)", 0, 0);
}
END_TEST

START_TEST(the_order_of_exactly_commutative_operations_does_not_matter) {
	output(value("(b + a) * (a - b)", leaf(0), leaf(1), 0));
	expect("p(u, v)", "(u - v) * (u + v)", 1, 1);
	expect("p(u, v)", "(u + v) * (v - u)", 1, 1);
	expect("p(u, v, w)", "(u - v) * (u + w)", 1, 1);
	expect("p(u, v)", "(u + v) / (u - v)", 0, 0);
}
END_TEST

START_TEST(both_orders_are_tried_wherever_they_stand) {
	/* The first choice at each sum is wrong until the last operand is seen. */
	output(value("((a + b) * (b + c)) * (c - a)", leaf(0), leaf(1), leaf(2)));
	expect("p(x, y, z)", "((y + x) * (z + y)) * (z - x)", 1, 1);
	expect("p(x, y, z)", "((x + y) * (y + z)) * (x - z)", 1, 1);
	expect("p(x, y, z)", "((x + y) * (y + z)) * (x - y)", 0, 0);
}
END_TEST

START_TEST(the_order_of_other_operations_matters) {
	output(value("exp(a - b) / b", leaf(0), leaf(1), 0));
	expect("p(u, v)", "exp(v - u) / v", 0, 0);
	expect("p(u, v)", "exp(u - v) / v", 1, 1);
}
END_TEST

START_TEST(numbers_are_compared_by_value) {
	output(value("tanh(a * 0.5) * 0.5 + 0.5", leaf(0), 0, 0));
	expect("p(x)", "0.5 + 0.5 * tanh(0.5 * x)", 1, 1);
	expect("p(x)", "0.5 + 0.5 * tanh(0.25 * x)", 0, 0);
	expect("p(x)", "1 / 2 + 1 / 2 * tanh(x / 2)", 0, 0);
	expect("p(x, h)", "h + h * tanh(h * x)", 1, 1);
}
END_TEST

START_TEST(the_name_of_an_attribute_stands_for_any_number) {
	output(value("x = a * rsqrt(mean(square(a), 1) + 0.001); x * b", leaf(0), leaf(1), 0));
	expect("p(x, w)", "x * rsqrt(mean(square(x), axes) + eps) * w", 1, 1);
	expect("p(x, w)", "rms_norm(x, axes=axes, eps=eps) * w", 1, 1);
	expect("p(x, w)", "rms_norm(x, axes=[-1], eps=0.001) * w", 1, 1);
	expect("p(x, w)", "rms_norm(x, axes=[0], eps=0.001) * w", 0, 0);
	expect("p(x, w)", "rms_norm(x, axes=axes) * w", 0, 0);
}
END_TEST

START_TEST(a_composite_is_the_operations_of_its_text) {
	output(value("softmax(a * b, axes=[1])", leaf(0), leaf(1), 0));
	expect("scaled_softmax(x, s)", "softmax(x * s, axes=axes)", 1, 1);
	expect("p(x, s)", "t = x * s; e = exp(t - max(t, -1)); e / sum(e, -1)", 1, 1);
	expect("p(x, s)", "t = x * s; e = exp(t - max(t, -1)); e / sum(e, 0)", 0, 0);
	expect("p(x, s)", "t = x * s; e = exp(t - max(t)); e / sum(e)", 0, 0);
}
END_TEST

START_TEST(a_reduction_without_its_axes_is_met_where_they_are_given_back) {
	struct op_attr rows = { .axes = 2 }, column = { .rank = 2, .dims = { 64, 1 } }, row = { .rank = 2, .dims = { 1, 64 } };
	uint32_t x = leaf(0), s, back, turned;

	ck_assert_int_eq(graph_op(g, OP_reduce_sum, 1, &x, &rows, 0, &s, &fault), 0);
	ck_assert_int_eq(graph_op(g, OP_reshape, 1, &s, &column, 0, &back, &fault), 0);
	ck_assert_int_eq(graph_op(g, OP_reshape, 1, &s, &row, 0, &turned, &fault), 0);
	output(value("a - b", x, back, 0));
	expect("p(x)", "x - sum(x, -1)", 1, 1);
	output(value("a / b", x, turned, 0));
	output(value("a * b", x, s, 0));
	expect("p(x)", "x / sum(x, -1)", 0, 0);
	expect("p(x)", "x * sum(x, -1)", 0, 0);
}
END_TEST

START_TEST(the_same_operand_is_the_same_value_at_the_same_places) {
	struct op_attr column = { .rank = 2, .dims = { 64, 1 } }, row = { .rank = 2, .dims = { 1, 64 } };
	uint32_t x = leaf_of(0, DTYPE_f32, 1, 64), a, b;

	ck_assert_int_eq(graph_op(g, OP_reshape, 1, &x, &column, 0, &a, &fault), 0);
	ck_assert_int_eq(graph_op(g, OP_reshape, 1, &x, &row, 0, &b, &fault), 0);
	output(value("exp(a) - b", a, b, 0));
	expect("p(x)", "exp(x) - x", 0, 0);
	expect("p(x, y)", "exp(x) - y", 1, 1);
}
END_TEST

START_TEST(products_and_transposes_are_parts) {
	output(value("relu(matmul(a, transpose(b)) + c)", leaf(0), leaf(1), leaf(2)));
	expect("p(x, w, bias)", "relu(matmul(x, transpose(w)) + bias)", 1, 1);
	expect("p(x, w, bias)", "relu(bias + matmul(x, w))", 1, 1);
	expect("p(x, w, bias)", "relu(matmul(transpose(x), w) + bias)", 0, 0);
}
END_TEST

START_TEST(an_array_that_lies_transposed_is_a_transpose) {
	output(value("relu(matmul(a, b) + c)", leaf(0), leaf(1), leaf(2)));
	expect("p(x, w, bias)", "relu(matmul(x, transpose(w)) + bias)", 0, 0);
	output(value("sqrt(matmul(exp(a), transpose(exp(a))))", leaf(0), 0, 0));
	expect("p(x)", "e = exp(x); sqrt(matmul(e, transpose(e)))", 1, 0);
	output(value("exp(matmul(a, transpose(b)) + b)", leaf(0), leaf(1), 0));
	expect("p(x, w)", "exp(matmul(x, transpose(w)) + w)", 0, 0);
	expect("p(x, w, b)", "exp(matmul(x, transpose(w)) + b)", 1, 1);
}
END_TEST

START_TEST(casts_that_lose_nothing_stand_between) {
	uint32_t x = leaf_of(0, DTYPE_f16, 2, 64);
	struct op_attr wide = { .dtype = DTYPE_f32 }, whole = { .dtype = DTYPE_i32 };
	uint32_t y, z;

	ck_assert_int_eq(graph_op(g, OP_exp, 1, &x, NULL, 0, &y, &fault), 0);
	ck_assert_int_eq(graph_op(g, OP_cast, 1, &y, &wide, 0, &z, &fault), 0);
	output(value("sqrt(a)", z, 0, 0));
	expect("p(x)", "sqrt(exp(x))", 1, 1);
	ck_assert_int_eq(graph_op(g, OP_cast, 1, &y, &whole, 0, &z, &fault), 0);
	output(value("a * 2", z, 0, 0));
	expect("p(x)", "2 * exp(x)", 0, 0);
}
END_TEST

START_TEST(a_value_that_is_used_elsewhere_does_not_hide_it) {
	uint32_t a = leaf(0), e = value("exp(a)", a, 0, 0);

	output(e);
	output(value("a * b", e, a, 0));
	output(value("a - b", e, a, 0));
	expect("p(x)", "x * exp(x)", 1, 1);
}
END_TEST

START_TEST(a_cut_between_kernels_leaves_it_found_and_not_fused) {
	/* A whole array is summed before anything of it is used: two kernels, whatever is fused. */
	uint32_t x = leaf_of(0, DTYPE_f32, 1, 100000);

	output(value("exp(a) / sum(exp(a))", x, 0, 0));
	expect("p(x)", "e = exp(x); e / sum(e)", 1, 0);
}
END_TEST

START_TEST(what_is_dead_is_not_counted) {
	value("a * exp(a)", leaf(0), 0, 0);
	output(value("sqrt(a) - a", leaf(0), 0, 0));
	expect("p(x)", "x * exp(x)", 0, 0);
}
END_TEST

START_TEST(a_kernel_is_of_all_patterns_that_it_holds) {
	struct book *b = book_of(pattern("inside(x)", "exp(x) + 1"), pattern("outside(x)", "log(exp(x) + 1)"));
	struct plan *p, *off;

	output(value("log(exp(a) + 1)", leaf(0), 0, 0));
	p = plan_of(b, 0);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert_uint_eq(p->step[0].named, 3);
	ck_assert_uint_eq(p->step[0].pattern, PATTERN_elementwise_chain);
	/* Without the outer one, the inner one may still be. */
	off = plan_of(b, 2);
	ck_assert_uint_eq(off->steps, 2);
	ck_assert_uint_eq(of_pattern(off, 0), 1);
	ck_assert_uint_eq(of_pattern(off, 1), 0);
	plan_unref(p);
	plan_unref(off);
	book_unref(b);
}
END_TEST

START_TEST(a_switch_leaves_everything_else_fused) {
	struct book *b = book("p(x)", "x * exp(x)");
	struct plan *p, *off;

	output(value("tanh(sqrt(a * exp(a)) - b)", leaf(0), leaf(1), 0));
	p = plan_of(b, 0);
	off = plan_of(b, 1);
	ck_assert_uint_eq(p->steps, 1);
	ck_assert_uint_eq(off->steps, 2);
	ck_assert_uint_gt(off->notes, 0);
	for (uint32_t i = 0; i < off->notes; i++)
		if (!strcmp(off->note[i].reason, "the pattern p is switched off"))
			break;
		else
			ck_assert_uint_lt(i + 1, off->notes);
	plan_unref(p);
	plan_unref(off);
	book_unref(b);
}
END_TEST

START_TEST(what_is_computed_again_does_not_go_round_a_switch) {
	/* exp(a) is cheap to compute in both readers, which are of two shapes. */
	struct book *b = book("p(x)", "sum(exp(x) * x, -1)");
	uint32_t a = leaf(0), e = value("exp(a)", a, 0, 0);
	struct plan *off;

	output(value("sum(a * b, -1)", e, a, 0));
	output(value("sum(a - b, 0)", e, a, 0));
	output(value("max(a * b, 0)", e, a, 0));
	off = plan_of(b, 1);
	ck_assert_uint_eq(of_pattern(off, 0), 0);
	plan_unref(off);
	book_unref(b);
}
END_TEST

START_TEST(a_regular_graph_costs_no_more_than_a_bound) {
	char text[512] = "a";
	struct plan *p;
	struct book *b;
	uint32_t n = leaf(0), m = leaf(1);

	/* Sums of sums: every choice of an order leads on, and to no end. */
	for (unsigned i = 0; i < 40; i++)
		strcat(text, " + b");
	strcat(text, " + exp(a)");
	b = book("p(a, b)", text);
	for (unsigned i = 0; i < 1000; i++) {
		n = value("a + b", n, m, 0);
		m = value("b + a", n, m, 0);
	}
	output(n);
	/* Without a bound this would not end. */
	p = plan_of(b, 0);
	ck_assert(p->patterns_cut);
	plan_unref(p);
	book_unref(b);
}
END_TEST

/* ---- plans and their numbers ---- */

static struct plan *cached(struct plan_cache *c, const char *text, const struct plan_options *o, bool *hitp) {
	struct plan *p;

	graph_reset(g);
	output(value(text, leaf(0), 0, 0));
	ck_assert_int_eq(plan_cache_get(c, g, o, &p, hitp, &fault), 0);
	return p;
}

START_TEST(a_plan_serves_graphs_whose_numbers_decide_alike) {
	struct book *b = book("half(x)", "0.5 * tanh(0.5 * x)");
	struct plan_options o = { .fuse = true, .traits = &cpu, .book = b };
	struct plan *p, *q, *same, *found;
	struct plan_cache *c;
	bool hit;

	ck_assert_int_eq(plan_cache_new(64, &c), 0);
	p = cached(c, "0.5 * tanh(0.5 * a)", &o, &hit);
	ck_assert(!hit);
	ck_assert_uint_eq(p->step[0].named, 1);
	q = cached(c, "0.25 * tanh(0.5 * a)", &o, &hit);
	ck_assert(!hit);
	ck_assert_uint_eq(q->step[0].named, 0);
	same = cached(c, "0.5 * tanh(0.5 * a)", &o, &hit);
	ck_assert(hit);
	ck_assert_ptr_eq(same, p);
	found = plan_cache_find(c, g, &o);
	ck_assert_ptr_eq(found, p);
	plan_unref(found);
	plan_unref(same);
	same = cached(c, "0.25 * tanh(0.75 * a)", &o, &hit);
	plan_unref(same);
	same = cached(c, "0.125 * tanh(0.5 * a)", &o, &hit);
	ck_assert(hit);
	ck_assert_uint_eq(same->step[0].named, 0);
	plan_unref(same);
	plan_unref(p);
	plan_unref(q);
	plan_cache_free(c);
	book_unref(b);
}
END_TEST

START_TEST(more_outcomes_than_are_kept_are_planned_again) {
	struct book *b = book("p(x)", "(x + 1) * 1 - 1 + 2 * x - 3 * x");
	struct plan_options o = { .fuse = true, .traits = &cpu, .book = b };
	struct plan_cache *c;

	ck_assert_int_eq(plan_cache_new(4, &c), 0);
	for (unsigned i = 0; i < 200; i++) {
		char text[128];
		struct plan *p;
		bool hit;

		snprintf(text, sizeof text, "(a + %u) * %u - %u + %u * a - %u * a", 1 + i % 2, 1 + i / 2 % 2, 1 + i / 4 % 2,
			2 + i / 8 % 2, 3 + i / 16 % 2);
		p = cached(c, text, &o, &hit);
		ck_assert_uint_eq(p->step[0].named, i % 32 == 0);
		plan_unref(p);
	}
	plan_cache_free(c);
	book_unref(b);
}
END_TEST

START_TEST(books_and_switches_are_part_of_the_key) {
	struct book *a = book("p(x)", "x * exp(x)"), *b = book("p(x)", "x * exp(x)");
	struct plan_options o = { .fuse = true, .traits = &cpu };
	struct plan *p[4];
	struct plan_cache *c;
	bool hit;

	ck_assert_int_eq(plan_cache_new(64, &c), 0);
	for (unsigned i = 0; i < 4; i++) {
		o.book = i == 0 ? NULL : i == 1 ? a : b;
		o.named_off = i == 3;
		p[i] = cached(c, "a * exp(a)", &o, &hit);
		ck_assert(!hit);
		ck_assert_uint_eq(p[i]->step[0].named, i == 1 || i == 2);
		ck_assert_uint_eq(p[i]->steps, i == 3 ? 2 : 1);
	}
	/* A plan holds its book. */
	book_unref(a);
	book_unref(b);
	for (unsigned i = 0; i < 4; i++)
		plan_unref(p[i]);
	plan_cache_free(c);
}
END_TEST

START_TEST(a_step_that_is_split_is_of_no_pattern_any_more) {
	struct book *b = book("p(x)", "sqrt(exp(tanh(x)))");
	struct plan *p, *halves;

	output(value("sqrt(exp(tanh(a)))", leaf(0), 0, 0));
	p = plan_of(b, 0);
	book_unref(b);
	ck_assert_uint_eq(p->step[0].named, 1);
	ck_assert_int_eq(plan_split(p, 0, &cpu, &halves, &fault), 0);
	ck_assert_uint_eq(of_pattern(halves, 0), 0);
	ck_assert_uint_eq(halves->found[0], 1);
	plan_unref(p);
	ck_assert_str_eq(halves->book->pattern[0]->name, "p");
	plan_unref(halves);
}
END_TEST

/* ---- an own operation for an expression ---- */

static unsigned own(const char *name, unsigned arity, const char *operands) {
	struct own_facts facts = { .name = name, .operands = operands, .arity = arity, .types = OP_TYPES_REAL,
		.result = OP_RESULT_SAME, .body = { [DTYPE_KIND_REAL] = "return x;" } };
	unsigned op;

	ck_assert_int_eq(own_add(&facts, &op, &fault), 0);
	own_set_state(op, OWN_CALLABLE);
	return op;
}

static struct plan *plan_replaced(bool fast, bool exact, named_set off, unsigned op) {
	struct plan_options o = { .fuse = true, .fast = fast, .traits = &cpu, .named_off = off };
	struct named *n;
	struct plan *p;

	ck_assert_msg(!named_new("soft(x, t)", "x * sigmoid(t * x)", op, &n, &fault), "%s", fault.text);
	n->exact = exact ? 1U << DTYPE_f32 : 0;
	n->inexact = !exact;
	o.book = book_of(n, NULL);
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	book_unref(o.book);
	return p;
}

static bool computes(const struct plan *p, unsigned op) {
	for (uint32_t i = 0; i < p->steps; i++)
		for (unsigned v = 0; v < p->step[i].kernel->values; v++)
			if (p->step[i].kernel->value[v].kind == KERNEL_OP && p->step[i].kernel->value[v].op == op)
				return true;
	return false;
}

START_TEST(an_exact_operation_stands_for_its_expression_in_its_types) {
	unsigned op = own("soft_own", 2, "x, t");
	struct plan *p;

	output(value("sqrt(a * sigmoid(b * a))", leaf(0), leaf(1), 0));
	p = plan_replaced(false, true, 0, op);
	ck_assert(computes(p, op));
	plan_unref(p);
	graph_reset(g);
	output(value("sqrt(a * sigmoid(b * a))", leaf_of(0, DTYPE_f64, 2, 64), leaf_of(1, DTYPE_f64, 2, 64), 0));
	p = plan_replaced(false, true, 0, op);
	ck_assert(!computes(p, op));
	plan_unref(p);
}
END_TEST

START_TEST(an_inexact_operation_stands_for_its_expression_where_fast_is_asked_for) {
	unsigned op = own("soft_own", 2, "x, t");
	struct plan *fast, *exact, *off;

	output(value("sqrt(a * sigmoid(b * a))", leaf(0), leaf(1), 0));
	fast = plan_replaced(true, false, 0, op);
	exact = plan_replaced(false, false, 0, op);
	off = plan_replaced(true, false, 1, op);
	ck_assert(computes(fast, op));
	ck_assert_uint_eq(fast->steps, 1);
	ck_assert_uint_eq(fast->step[0].named, 1);
	ck_assert_uint_eq(fast->ops, exact->ops);
	ck_assert(!computes(exact, op));
	ck_assert(!computes(off, op));
	plan_unref(fast);
	plan_unref(exact);
	plan_unref(off);
}
END_TEST

START_TEST(it_does_not_stand_for_what_it_would_compute_otherwise) {
	unsigned op = own("soft_own", 2, "x, t");
	struct op_attr narrow = { .dtype = DTYPE_f16 }, wide = { .dtype = DTYPE_f32 };
	uint32_t a = leaf(0), b = leaf(1), m = value("a * b", a, b, 0);
	struct plan *p;

	/* Rounded to f16 between. */
	ck_assert_int_eq(graph_op(g, OP_cast, 1, &m, &narrow, 0, &m, &fault), 0);
	ck_assert_int_eq(graph_op(g, OP_cast, 1, &m, &wide, 0, &m, &fault), 0);
	output(value("a * sigmoid(b)", a, m, 0));
	p = plan_replaced(true, false, 0, op);
	ck_assert(!computes(p, op));
	plan_unref(p);
}
END_TEST

START_TEST(a_body_stands_for_elementwise_patterns_alone) {
	unsigned op = own("soft_own", 2, "x, t");
	struct named *n = NULL;

	ck_assert_int_eq(named_new("p(x, t)", "x / sum(x * t, -1)", op, &n, &fault), FAULT_ARGUMENT);
	ck_assert_msg(strstr(fault.text, "cannot stand for a pattern with sum") != NULL, "%s", fault.text);
}
END_TEST

/* ---- the tracker ---- */

START_TEST(the_tracker_knows_a_graph_with_a_switch_off_as_another_one) {
	struct book *a = book("p(x)", "x * exp(x)"), *b = book("p(x)", "x * exp(x)");
	struct plan_options o = { .fuse = true, .traits = &cpu, .book = a };
	struct tracked *on, *off;
	struct tracker *t;

	output(value("a * exp(a)", leaf(0), 0, 0));
	ck_assert_int_eq(tracker_new(NULL, "a device", &t), 0);
	on = tracker_find(t, g, &o);
	o.named_off = 1;
	off = tracker_find(t, g, &o);
	ck_assert_ptr_ne(on, off);
	/* What says the same is the same, in another session and after a restart. */
	o.book = b;
	ck_assert_ptr_eq(tracker_find(t, g, &o), off);
	o.named_off = 0;
	ck_assert_ptr_eq(tracker_find(t, g, &o), on);
	tracker_free(t);
	book_unref(a);
	book_unref(b);
}
END_TEST

int main(void) {
	const TTest *const tests[] = { names_of_others_and_bad_names_are_refused, a_pattern_that_names_itself_is_refused,
		what_depends_on_shapes_is_refused, a_pattern_has_two_operations_or_more, too_large_a_pattern_is_refused,
		a_name_given_again_and_again_costs_no_more_than_its_length,
		an_expression_is_found_as_a_kernel_and_its_switch_keeps_it_apart, it_is_found_inside_of_a_larger_kernel,
		something_else_is_not_found, the_order_of_exactly_commutative_operations_does_not_matter,
		both_orders_are_tried_wherever_they_stand, the_order_of_other_operations_matters, numbers_are_compared_by_value,
		the_name_of_an_attribute_stands_for_any_number, a_composite_is_the_operations_of_its_text,
		a_reduction_without_its_axes_is_met_where_they_are_given_back,
		the_same_operand_is_the_same_value_at_the_same_places, products_and_transposes_are_parts,
		an_array_that_lies_transposed_is_a_transpose,
		casts_that_lose_nothing_stand_between, a_value_that_is_used_elsewhere_does_not_hide_it,
		a_cut_between_kernels_leaves_it_found_and_not_fused, what_is_dead_is_not_counted,
		a_kernel_is_of_all_patterns_that_it_holds, a_switch_leaves_everything_else_fused,
		what_is_computed_again_does_not_go_round_a_switch, a_regular_graph_costs_no_more_than_a_bound,
		a_plan_serves_graphs_whose_numbers_decide_alike, more_outcomes_than_are_kept_are_planned_again,
		books_and_switches_are_part_of_the_key, a_step_that_is_split_is_of_no_pattern_any_more,
		an_exact_operation_stands_for_its_expression_in_its_types,
		an_inexact_operation_stands_for_its_expression_where_fast_is_asked_for,
		it_does_not_stand_for_what_it_would_compute_otherwise, a_body_stands_for_elementwise_patterns_alone,
		the_tracker_knows_a_graph_with_a_switch_off_as_another_one };
	Suite *s = suite_create("named");
	TCase *c = tcase_create("named");

	tcase_add_checked_fixture(c, setup, teardown);
	for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	return suite_run(s);
}

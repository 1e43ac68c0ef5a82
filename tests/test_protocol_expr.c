/*
 * Expressions: how they read, what is refused and where, and which operations they become. The last is
 * looked at through a target that writes down what it is asked for.
 */
#include "protocol/expand.h"

#include <stdio.h>
#include <string.h>

#include "tests/test_protocol.h"

enum {
	TEXT = 8192,
	MADE = 256,
};

/* --- reading ------------------------------------------------------------------------------ */

static struct expr expr;
static struct fault fault;

static void append(char *text, const char *more) {
	ck_assert_uint_lt(strlen(text) + strlen(more), TEXT - 1);
	strcat(text, more);
}

static const char *name_of(const struct expr_node *n) {
	if (n->kind == EXPR_FUNCTION)
		return expr_function_name((enum expr_function)n->which);
	return n->kind == EXPR_OPERATION ? op_info(n->which)->name : "list";
}

/* The tree as calls alone: "a" + 2 * "b" is add(a, mul(2, b)). */
static void print(unsigned node, char *text) {
	const struct expr_node *n = &expr.node[node];
	char word[64];

	if (n->kind == EXPR_NUMBER)
		snprintf(word, sizeof word, "%g", n->number);
	else if (n->kind == EXPR_OPERAND)
		snprintf(word, sizeof word, "%c", 'a' + n->which);
	else if (n->kind == EXPR_ATTRIBUTE || n->kind == EXPR_DTYPE)
		snprintf(word, sizeof word, "%s%u", n->kind == EXPR_DTYPE ? "type" : "attribute", n->which);
	else
		snprintf(word, sizeof word, "%s(", name_of(n));
	append(text, word);
	for (unsigned i = 0; i < n->arity; i++) {
		append(text, i ? ", " : "");
		print(n->in[i], text);
	}
	if (n->kind == EXPR_OPERATION || n->kind == EXPR_FUNCTION || n->kind == EXPR_LIST)
		append(text, ")");
}

static const char *read_as(const char *source) {
	static char text[TEXT];

	*text = '\0';
	ck_assert_msg(!expr_parse(source, "a, b:int, c", &expr, &fault), "%s: %s", source, fault.text);
	print(expr.result, text);
	return text;
}

START_TEST(operators_bind_as_in_arithmetic) {
	ck_assert_str_eq(read_as("a + 2 * b"), "add(a, mul(2, b))");
	ck_assert_str_eq(read_as("(a + 2) * b"), "mul(add(a, 2), b)");
	ck_assert_str_eq(read_as("a - b - c"), "sub(sub(a, b), c)");
	ck_assert_str_eq(read_as("a / b / c * 2"), "mul(div(div(a, b), c), 2)");
	ck_assert_str_eq(read_as("a + b <= c * 2"), "le(add(a, b), mul(c, 2))");
	ck_assert_str_eq(read_as("a!=b"), "ne(a, b)");
	ck_assert_str_eq(read_as("-a * b"), "mul(neg(a), b)");
	ck_assert_str_eq(read_as("a--1"), "sub(a, -1)");
	ck_assert_str_eq(read_as("- - a"), "neg(neg(a))");
	ck_assert_str_eq(read_as("2-1"), "sub(2, 1)");
}
END_TEST

START_TEST(numbers_are_decimal) {
	ck_assert_str_eq(read_as("1.5e-3"), "0.0015");
	ck_assert_str_eq(read_as(".5"), "0.5");
	ck_assert_str_eq(read_as("2."), "2");
	ck_assert_str_eq(read_as("-inf"), "-inf");
	ck_assert_str_eq(read_as("maximum(a, 1e2)"), "maximum(a, 100)");
}
END_TEST

START_TEST(calls_name_operations_and_functions) {
	ck_assert_str_eq(read_as("where(a > 0, b, c)"), "where(gt(a, 0), b, c)");
	ck_assert_str_eq(read_as("max(a, [0, -1])"), "max(a, list(0, -1))");
	ck_assert_str_eq(read_as("count(a, axes)"), "count(a, attribute0)");
	ck_assert_str_eq(read_as("cast(a, f32)"), "cast(a, type11)");
	ck_assert_str_eq(read_as("softmax(a, axes=-1)"), "softmax(a, -1)");
	ck_assert_str_eq(read_as("reshape(a, [])"), "reshape(a, list())");
}
END_TEST

START_TEST(a_name_is_the_value_it_was_given) {
	ck_assert_str_eq(read_as("e = exp(a); e / sum(e, 0);"), "div(exp(a), sum(exp(a), 0))");
	ck_assert_uint_eq(expr.operands, 1);
	ck_assert_uint_eq(expr.count, 5);      /* a is one node */
	ck_assert_str_eq(read_as("x = c ; y = x == a; y"), "eq(c, a)");
	ck_assert_uint_eq(expr.operands, 3);
}
END_TEST

#define REFUSED(source, sentence)                                                                            \
	do {                                                                                                 \
		ck_assert_int_eq(expr_parse(source, "a, b:int, c", &expr, &fault), FAULT_SYNTAX);            \
		ck_assert_str_eq(fault.text, sentence);                                                      \
	} while (0)

START_TEST(what_does_not_read_is_refused_with_its_column) {
	REFUSED("", "column 1: expected a value, found the end");
	REFUSED("a +", "column 4: expected a value, found the end");
	REFUSED("a b", "column 3: expected an operator or the end, found 'b'");
	REFUSED("(a", "column 3: expected an operator or ')', found the end");
	REFUSED("a < b < c", "column 7: expected an operator or the end, found '<'");
	REFUSED("exp(a", "column 6: expected ',' or the end of the arguments, found the end");
	REFUSED("1.2.3", "column 1: expected a number, found '1.2.3'");
	REFUSED("2a", "column 1: expected a number, found '2'");
	REFUSED("a; b", "column 4: expected an operator or the end, found 'b'");
	REFUSED("x = a", "column 6: expected an operator or ';', found the end");
	REFUSED("a $ b", "column 3: expected an operator or the end, found '$'");
	REFUSED("*a", "column 1: expected a value, found '*'");
	REFUSED("a[0]", "column 2: expected an operator or the end, found '['");
}
END_TEST

START_TEST(names_that_mean_nothing_or_two_things_are_refused) {
	REFUSED("a + d", "column 5: no operand and no value is called 'd'");
	REFUSED("x + a; x = a; x", "column 1: no operand and no value is called 'x'");
	REFUSED("a = b; a", "column 1: 'a' has a meaning already");
	REFUSED("x = a; x = b; x", "column 8: 'x' has a meaning already");
	REFUSED("axes = a; a", "column 1: 'axes' has a meaning already");
	REFUSED("system(a)", "column 1: there is no operation 'system'");
	REFUSED("load()", "column 1: there is no operation 'load'");
	REFUSED("softmax(a, axis=1)", "column 12: expected the name of an attribute, found 'axis'");
}
END_TEST

START_TEST(wrong_numbers_of_arguments_are_refused) {
	REFUSED("add(a)", "column 1: add takes 2 arguments, not 1");
	REFUSED("exp(a, b)", "column 1: exp takes 1 argument, not 2");
	REFUSED("sum(a, 0, 1)", "column 1: sum takes 1 to 2 arguments, not 3");
	REFUSED("exp()", "column 1: exp takes 1 argument, not 0");
	REFUSED("given(a, b)", "column 1: given takes 3 arguments, not 2");
	REFUSED("exp(axes=a)", "column 1: exp takes no arguments by name");
	REFUSED("fill()", "column 1: fill cannot stand in an expression");
	REFUSED("a + cumsum(a)", "column 5: cumsum cannot stand in an expression");
}
END_TEST

static void fill_with(char *text, const char *first, const char *repeated, int times, const char *last) {
	strcpy(text, first);
	while (times--)
		strcat(text, repeated);
	strcat(text, last);
}

START_TEST(size_depth_and_length_are_limited) {
	static char text[4 * EXPR_BYTES];

	fill_with(text, "a", "+a", EXPR_DEPTH - 1, "");
	ck_assert_int_eq(expr_parse(text, "a", &expr, &fault), 0);
	fill_with(text, "a", "+a", EXPR_DEPTH, "");
	ck_assert_int_eq(expr_parse(text, "a", &expr, &fault), FAULT_LIMIT);
	fill_with(text, "", "(", 2000, "a");
	ck_assert_int_eq(expr_parse(text, "a", &expr, &fault), FAULT_LIMIT);
	fill_with(text, "", "-", 2000, "a");
	ck_assert_int_ne(expr_parse(text, "a", &expr, &fault), 0);
	fill_with(text, "maximum(", "[a],", EXPR_ARGUMENTS + 1, "a)");
	ck_assert_int_ne(expr_parse(text, "a", &expr, &fault), 0);
	fill_with(text, "x = (a < a); ", "", 0, "");
	for (int i = 0; i < EXPR_NODES; i++)
		sprintf(text + strlen(text), "x%d=a;", i);
	strcat(text, "a");
	ck_assert_int_ne(expr_parse(text, "a", &expr, &fault), 0);
	fill_with(text, "", " ", EXPR_BYTES, "a");
	ck_assert_int_eq(expr_parse(text, "a", &expr, &fault), FAULT_LIMIT);
	ck_assert_str_eq(fault.text, "the expression is longer than 4096 bytes");
}
END_TEST

START_TEST(whatever_is_read_ends_in_a_tree_or_a_sentence) {
	static const char *const words[] = { "a", "b", "x", "1", "2.5", "+", "-", "*", "/", "(", ")", ",", ";", "=",
		"==", "<", "exp", "sum", "add", "[", "]", "axes", "f32", "given", " ", "\x80", "e", "." };
	uint64_t state = 7;
	unsigned read = 0;

	for (int i = 0; i < 200000; i++) {
		char text[TEXT] = "";
		int r;

		for (unsigned n = random_below(&state, 12); n; n--)
			strcat(text, words[random_below(&state, sizeof words / sizeof *words)]);
		fault.text[0] = '\0';
		r = expr_parse(text, "a, b", &expr, &fault);
		must(r >= 0 && (!r || strlen(fault.text) > 10));
		must(r || expr.result < expr.count);
		for (unsigned n = 0; !r && n < expr.count; n++)
			for (unsigned k = 0; k < expr.node[n].arity; k++)
				must(expr.node[n].in[k] < n);
		read += !r;
	}
	ck_assert_uint_gt(read, 2000);
}
END_TEST

/* --- operations --------------------------------------------------------------------------- */

struct notes {
	struct tensor_type type[MADE];
	uint32_t count;
	char text[TEXT];
};

static struct notes notes;

static int note_op(void *into, unsigned op, unsigned n, const uint32_t *in, const struct op_attr *attr,
	uint32_t *valuep, struct fault *f) {
	struct notes *made = into;
	const struct tensor_type *type[LIMIT_OPERANDS];
	char line[256], shape[SHAPE_TEXT];
	int r;

	for (unsigned i = 0; i < n; i++)
		type[i] = &made->type[in[i]];
	ck_assert_uint_lt(made->count, MADE);
	r = op_infer(op, n, type, attr, &made->type[made->count], f);
	if (r)
		return r;
	snprintf(line, sizeof line, "%s%s", *made->text ? " " : "", op_info(op)->name);
	append(made->text, line);
	if (op == OP_fill)
		snprintf(line, sizeof line, ":%g", dtype_scalar_to_double(attr->dtype, attr->value[0]));
	else
		snprintf(line, sizeof line, ":%s", shape_text(&made->type[made->count], shape));
	append(made->text, line);
	*valuep = made->count++;
	return 0;
}

static const struct tensor_type *note_type(void *into, uint32_t value) {
	return &((struct notes *)into)->type[value];
}

static int expanded(const char *source, unsigned operands, const struct tensor_type *type,
	const struct op_attr *attr, const struct tensor_type *result) {
	static const uint32_t operand[] = { 0, 1, 2 };
	static const struct op_attr none;
	const struct expand_target target = { &notes, note_op, note_type };
	struct expand_call call = { "test", &expr, operands, operand, attr ? attr : &none, result };
	uint32_t value;

	memset(&notes, 0, sizeof notes);
	for (; notes.count < operands; notes.count++)
		notes.type[notes.count] = type[notes.count];
	ck_assert_msg(!expr_parse(source, "a, b, c", &expr, &fault), "%s: %s", source, fault.text);
	return expand(&call, &target, &value, &fault);
}

#define TYPE(name, ...)                                                                                      \
	{ .dtype = DTYPE_##name, .rank = sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),               \
		.dims = { __VA_ARGS__ } }

#define BECOMES(source, operands, type, attr, result, wanted)                                                \
	do {                                                                                                 \
		int failed = expanded(source, operands, type, attr, result);                                 \
		ck_assert_msg(!failed, "%s: %s", source, fault.text);                                        \
		ck_assert_str_eq(notes.text, wanted);                                                        \
	} while (0)

START_TEST(numbers_take_the_type_beside_them_and_fold_among_themselves) {
	const struct tensor_type real[] = { TYPE(f32, 2, 3) }, whole[] = { TYPE(i8, 2) };

	BECOMES("a * 2 + 1", 1, real, NULL, NULL, "fill:2 mul:f32[2,3] fill:1 add:f32[2,3]");
	BECOMES("a * (1 / 4)", 1, real, NULL, NULL, "fill:0.25 mul:f32[2,3]");
	BECOMES("a / count(a, 1)", 1, real, NULL, NULL, "fill:3 div:f32[2,3]");
	BECOMES("a + 100", 1, whole, NULL, NULL, "fill:100 add:i8[2]");
	ck_assert_int_eq(expanded("a + 300", 1, whole, NULL, NULL), FAULT_DTYPE);
	ck_assert_str_eq(fault.text, "test, column 3: 300 is no value of i8");
	BECOMES("where(1, a, 0)", 1, real, NULL, NULL, "fill:1 fill:0 where:f32[2,3]");
}
END_TEST

START_TEST(narrow_floats_are_computed_in_f32_and_rounded_once) {
	const struct tensor_type half[] = { TYPE(f16, 4), TYPE(bf16, 4) }, mixed[] = { TYPE(f16, 4), TYPE(i32, 4) };

	BECOMES("exp(a) * a", 1, half, NULL, NULL, "cast:f32[4] exp:f32[4] mul:f32[4] cast:f16[4]");
	BECOMES("a + b", 2, half, NULL, NULL, "cast:f32[4] cast:f32[4] add:f32[4]");
	BECOMES("a > 0", 1, half, NULL, NULL, "cast:f32[4] fill:0 gt:bool[4]");
	BECOMES("a + b", 2, mixed, NULL, NULL, "cast:f32[4] cast:f32[4] add:f32[4] cast:f16[4]");
}
END_TEST

START_TEST(operands_meet_in_one_type) {
	const struct tensor_type type[] = { TYPE(f32, 4), TYPE(bool, 4), TYPE(i16, 4) };

	BECOMES("a * b", 2, type, NULL, NULL, "cast:f32[4] mul:f32[4]");
	BECOMES("where(b, a, c)", 3, type, NULL, NULL, "cast:f32[4] where:f32[4]");
}
END_TEST

START_TEST(reductions_keep_their_axes_and_the_result_drops_them) {
	const struct tensor_type type[] = { TYPE(f32, 2, 3) }, result = TYPE(f32, 2);
	const struct op_attr attr = { .axes = 2 };

	BECOMES("sum(a, axes)", 1, type, &attr, NULL, "sum:f32[2,1]");
	BECOMES("sum(a, axes)", 1, type, &attr, &result, "sum:f32[2,1] reshape:f32[2]");
	BECOMES("drop(sum(a, -1), -1)", 1, type, NULL, NULL, "sum:f32[2,1] reshape:f32[2]");
	BECOMES("sum(a)", 1, type, NULL, NULL, "sum:f32[1,1]");
	BECOMES("softmax(a, axes=1)", 1, type, NULL, NULL, "softmax:f32[2,3]");
}
END_TEST

START_TEST(only_what_is_given_and_needed_is_made) {
	const struct tensor_type type[] = { TYPE(f32, 2), TYPE(f32, 2) };
	const struct op_attr causal = { .flag = true };

	BECOMES("unused = exp(a); neg(a)", 1, type, NULL, NULL, "neg:f32[2]");
	BECOMES("given(b, a + b, a * 2)", 2, type, NULL, NULL, "add:f32[2]");
	BECOMES("given(b, a + b, a * 2)", 1, type, NULL, NULL, "fill:2 mul:f32[2]");
	BECOMES("given(causal, exp(a), neg(a))", 1, type, &causal, NULL, "exp:f32[2]");
	BECOMES("given(causal, exp(a), neg(a))", 1, type, NULL, NULL, "neg:f32[2]");
	BECOMES("e = exp(a); e + e", 1, type, NULL, NULL, "exp:f32[2] add:f32[2]");
	ck_assert_int_eq(expanded("a + b", 1, type, NULL, NULL), FAULT_ARITY);
	ck_assert_str_eq(fault.text, "test, column 5: operand 2 is missing");
}
END_TEST

START_TEST(shapes_decide_views_and_indices) {
	const struct tensor_type type[] = { TYPE(f32, 2, 6), TYPE(f32, 2) };

	BECOMES("index(a, [0, 1])", 1, type, NULL, NULL, "arange:i32[12] reshape:i32[2,6]");
	BECOMES("index(a, -1)", 1, type, NULL, NULL, "arange:i32[6] reshape:i32[1,6]");
	BECOMES("reshape(a, [extent(a, 0), 3, -1])", 1, type, NULL, NULL, "reshape:f32[2,3,2]");
	BECOMES("reshape(a, [shape(a), 1])", 1, type, NULL, NULL, "reshape:f32[2,6,1]");
	BECOMES("transpose(a)", 1, type, NULL, NULL, "permute:f32[6,2]");
	BECOMES("a * along(b, a, 0)", 2, type, NULL, NULL, "reshape:f32[2,1] mul:f32[2,6]");
	BECOMES("insert(b, [0, 2])", 2, type, NULL, NULL, "reshape:f32[1,2,1]");
	BECOMES("matmul(a, transpose(a))", 1, type, NULL, NULL, "permute:f32[6,2] matmul:f32[2,2]");
	BECOMES("permute(a, [1, 0])", 1, type, NULL, NULL, "permute:f32[6,2]");
}
END_TEST

START_TEST(lists_are_made_of_lists_and_windows_slide) {
	const struct tensor_type type[] = { TYPE(f32, 1, 2, 5, 6), TYPE(i32, 3) };
	const struct op_attr attr = { .rank = 2, .dims = { 2, 3 }, .step = { 1, 2 }, .start = { 1, 0 } };

	BECOMES("reshape(a, [part(shape(a), 0, 2), 30])", 1, type, NULL, NULL, "reshape:f32[1,2,30]");
	BECOMES("permute(a, [0, range(2, 4), 1])", 1, type, NULL, NULL, "permute:f32[1,5,6,2]");
	BECOMES("a * length(range(1, 4))", 1, type, NULL, NULL, "fill:3 mul:f32[1,2,5,6]");
	BECOMES("unfold(a, window, stride)", 1, type, &attr, NULL, "windows:f32[1,2,4,6,2] windows:f32[1,2,4,2,2,3]");
	BECOMES("border(a, padding, 0)", 1, type, &attr, NULL,
		"arange:i32[7] fill:1 sub:i32[7] fill:0 lt:bool[7] fill:5 where:i32[7] take:f32[1,2,7,6]");
	BECOMES("take(a, b, 3)", 2, type, NULL, NULL, "take:f32[1,2,5,3]");
	BECOMES("spread(a, [5, 6], [1, 1], [3, 1], [1, 0], [1, 1]) + 0", 1, type, NULL, NULL, "fill:0 add:f32[1,2,5,6]");
	BECOMES("spread(a, [9, 5], [2, 1], [3, 1], [1, 1], [1, 1])", 1, type, NULL, NULL,
		"reshape:f32[1,2,5,1,6] arange:i32[2] take:f32[1,2,5,2,6] reshape:f32[1,2,10,6] arange:i32[9] take:f32[1,2,9,6] "
		"arange:i32[5] fill:1 add:i32[5] take:f32[1,2,9,5]");
	BECOMES("reshape(a, [reach([3, 6, 2], [0, 2, 0], [2, 1, 1]), 5])", 1, type, NULL, NULL, "reshape:f32[4,3,1,5]");
	ck_assert_int_eq(expanded("spread(a, [5], [1], [3], [1], [1])", 1, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_int_eq(expanded("reshape(a, reach([3], [1, 1], [1]))", 1, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_int_eq(expanded("reshape(a, range(0, 9))", 1, type, NULL, NULL), FAULT_RANK);
	ck_assert_int_eq(expanded("reshape(a, part(shape(a), 3, 2))", 1, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_int_eq(expanded("unfold(a, [1], [1])", 1, type, NULL, NULL), FAULT_ARGUMENT);
}
END_TEST

START_TEST(gathers_and_views_leave_narrow_floats_as_they_are) {
	const struct tensor_type type[] = { TYPE(f16, 4, 2), TYPE(i32, 3) };

	BECOMES("take(a, b, 0)", 2, type, NULL, NULL, "take:f16[3,2]");
	BECOMES("transpose(a)", 1, type, NULL, NULL, "permute:f16[2,4]");
	BECOMES("max(a, 0)", 1, type, NULL, NULL, "cast:f32[4,2] max:f32[1,2] cast:f16[1,2]");
}
END_TEST

START_TEST(what_does_not_fit_names_the_call_and_the_column) {
	const struct tensor_type type[] = { TYPE(f32, 2, 6), TYPE(bool, 3) };

	ck_assert_int_eq(expanded("a + sum(b, 2)", 2, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_str_eq(fault.text, "test, column 5: axis 2 does not exist where there are 1");
	ck_assert_int_eq(expanded("a + b", 2, type, NULL, NULL), FAULT_SHAPE);
	ck_assert_int_eq(expanded("exp(f32)", 1, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_str_eq(fault.text, "test, column 1: argument 1 of exp is an element type, not an array or a number");
	ck_assert_int_eq(expanded("[1]", 1, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_str_eq(fault.text, "test: the result is a list, not an array");
	ck_assert_int_eq(expanded("max(b)", 2, type, NULL, NULL), FAULT_DTYPE);
	ck_assert_int_eq(expanded("reshape(a, [5, -1])", 1, type, NULL, NULL), FAULT_SHAPE);
	ck_assert_int_eq(expanded("reshape(a, [0.5])", 1, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_int_eq(expanded("softmax(a, eps=1)", 1, type, NULL, NULL), FAULT_ARGUMENT);
	ck_assert_str_eq(fault.text, "test, column 1: softmax has no eps");
}
END_TEST

RUN_TESTS("protocol_expr", operators_bind_as_in_arithmetic, numbers_are_decimal, calls_name_operations_and_functions,
	a_name_is_the_value_it_was_given, what_does_not_read_is_refused_with_its_column,
	names_that_mean_nothing_or_two_things_are_refused, wrong_numbers_of_arguments_are_refused,
	size_depth_and_length_are_limited, whatever_is_read_ends_in_a_tree_or_a_sentence,
	numbers_take_the_type_beside_them_and_fold_among_themselves,
	narrow_floats_are_computed_in_f32_and_rounded_once, operands_meet_in_one_type,
	reductions_keep_their_axes_and_the_result_drops_them, only_what_is_given_and_needed_is_made,
	shapes_decide_views_and_indices, lists_are_made_of_lists_and_windows_slide,
	gathers_and_views_leave_narrow_floats_as_they_are, what_does_not_fit_names_the_call_and_the_column)

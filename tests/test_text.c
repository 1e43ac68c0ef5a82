/*
 * The language of text graphs: what reads, what is refused and where, and what values stand for.
 * Nothing here needs a daemon; tests/run_graphs.c runs graphs.
 */
#include "test_protocol.h"

#include <stdio.h>
#include <string.h>

#include "client/fusionctl/element.h"
#include "client/fusionctl/text.h"

enum {
	ELEMENTS = 64
};

static struct text *parsed(const char *source) {
	struct text *t = NULL;
	struct fault f;
	int r = text_parse("g.fz", source, &t, &f);

	ck_assert_msg(r == 0, "%s", r > 0 ? f.text : "no memory");
	return t;
}

static void refused(const char *source, int code, const char *sentence) {
	struct text *t = NULL;
	struct fault f = { 0 };

	ck_assert_int_eq(text_parse("g.fz", source, &t, &f), code);
	ck_assert_ptr_null(t);
	ck_assert_str_eq(f.text, sentence);
}

/* ---- statements ---- */

START_TEST(every_elementwise_operation_and_reduction_reads) {
	char source[256];

	for (unsigned id = 0; id < OP_COUNT; id++) {
		const struct op_info *o = op_info(id);
		struct text *t;

		if (!o || (!op_is_elementwise(o) && o->class != OP_CLASS_REDUCE))
			continue;
		snprintf(source, sizeof source, "a = input f32[2] ramp\nb = %s%s%s%s\noutput b\n", o->name,
			" a", o->arity > 1 ? " a" : "", o->arity > 2 ? " a" : "");
		t = parsed(source);
		ck_assert_int_eq(t->statement[1].op, (int)id);
		ck_assert_int_eq(t->statement[1].operand[o->arity - 1].statement, 0);
		text_free(t);
	}
}
END_TEST

START_TEST(an_indented_line_continues_the_one_before) {
	struct text *t =
		parsed("x = input i32[4] = 1 2\n   # a remark, and an empty line\n\n\t3\n 4\noutput\n x\n");

	ck_assert_uint_eq(t->statements, 1);
	ck_assert_uint_eq(t->statement[0].values.items, 4);
	ck_assert_uint_eq(t->outputs, 1);
	text_free(t);
}
END_TEST

START_TEST(attributes_are_read_as_written) {
	struct text *t = parsed("x = input f32[2,3,4] ramp\n"
				"s = slice x [1:-1, ::-2, :7]\n"
				"p = permute x 2,0,-2\n"
				"r = sum x keepdims axes=-1,0\n"
				"n = max x axes=none\n"
				"c = reshape x [-1,4]\n"
				"d = cast x bf16\n"
				"output s p r n c d\n");
	const struct text_statement *s = &t->statement[1], *r = &t->statement[3], *n = &t->statement[4];

	ck_assert_int_eq(s->rank, 3);
	ck_assert_int_eq(s->start[0], 1);
	ck_assert_int_eq(s->stop[0], -1);
	ck_assert_int_eq(s->start[1], INT64_MIN);
	ck_assert_int_eq(s->step[1], -2);
	ck_assert_int_eq(s->stop[2], 7);
	ck_assert_int_eq(t->statement[2].axis[2], -2);
	ck_assert(r->keepdims && r->axes_given && r->axes == 2 && r->axis[0] == -1);
	ck_assert(!n->keepdims && n->axes_given && n->axes == 0);
	ck_assert_int_eq(t->statement[5].dims[0], -1);
	ck_assert_int_eq(t->statement[6].dtype, DTYPE_bf16);
	text_free(t);
}
END_TEST

START_TEST(expectations_are_read_as_written) {
	struct text *t = parsed("x = input f32[2] = 1 2\ny = add x 1\noutput y\n"
				"expect kernels 1\nexpect unfused kernel 2: add mul\nexpect y is f32[2]\n"
				"expect y within 1e-3 = 2 3\nexpect error SHAPE \"some words\"\n");

	ck_assert_uint_eq(t->expectations, 5);
	ck_assert_int_eq(t->expectation[0].number, 1);
	ck_assert(t->expectation[1].unfused && t->expectation[1].ops == 2);
	ck_assert_int_eq(t->expectation[1].op[1], OP_mul);
	ck_assert_int_eq(t->expectation[2].type.dims[0], 2);
	ck_assert_double_eq(t->expectation[3].tolerance, 1e-3);
	ck_assert_int_eq(t->expectation[4].code, FAULT_SHAPE);
	ck_assert_uint_eq(t->expectation[4].token.length, strlen("some words"));
	text_free(t);
}
END_TEST

START_TEST(errors_name_the_place_what_was_expected_and_what_was_found) {
	refused("x = input f32[2 3] ramp\n", FAULT_SYNTAX, "g.fz:1:17: expected ',', found '3'");
	refused("x = input f33[2] ramp\n", FAULT_SYNTAX,
		"g.fz:1:11: expected an element type such as f32, found 'f33'");
	refused("x = input f32[2] ramp\n\n  # more\ny = ad x 1\n", FAULT_OPERATION,
		"g.fz:4:5: there is no operation 'ad'; fusion-ops(7) lists them");
	refused("x = input f32[2] ramp\ny = add x\noutput y\n", FAULT_SYNTAX,
		"g.fz:2:10: expected operand 2 of add, an array or a number, found the end of the line");
	refused("y = tanh x\n", FAULT_SYNTAX, "g.fz:1:10: no line before this one defines 'x'");
	refused("x = input f32[2] ramp\noutput x\nexpect x within 1Se-6 = 0 1\n", FAULT_SYNTAX, "g.fz:3:17: 1Se-6 is no value of f64");
	refused("x = input f32[2] ramp\ny = rms_norm x eps=1Se-6\noutput y\n", FAULT_SYNTAX, "g.fz:2:20: 1Se-6 is no value of f64");
	refused("x = input f32[2] ramp\nx = tanh x\n", FAULT_SYNTAX, "g.fz:2:1: 'x' is defined twice");
	refused("x = input f32[2] ramp\nx2 = tanh x 3\n", FAULT_SYNTAX,
		"g.fz:2:13: expected the end of the line, found '3'");
	refused("x = input f32[2] ramp $\n", FAULT_SYNTAX, "g.fz:1:23: the byte 0x24 begins nothing here");
	refused("x = input f32[2] ramp\noutput x\nexpect error SHAPE \"a\n", FAULT_SYNTAX,
		"g.fz:3:20: the text that begins here has no end");
	refused("x = input f32[2] ramp\noutput x x\n", FAULT_SYNTAX, "g.fz:2:10: 'x' is an output already");
	refused("x = input f32[2] ramp\n", FAULT_SYNTAX, "g.fz:2:1: no line names an output");
	refused("", FAULT_SYNTAX, "g.fz:1:1: no line names an output");
}
END_TEST

START_TEST(what_has_no_type_or_no_end_is_refused) {
	refused("y = add 1 2\n", FAULT_SYNTAX,
		"g.fz:1:5: add of numbers alone: one operand must be an array, which gives the element type");
	refused("c = input bool[1] = 1\ny = where c 1 2\n", FAULT_SYNTAX,
		"g.fz:2:5: where of numbers alone: one operand must be an array, which gives the element "
		"type");
	refused("x = input f32[1,1,1,1,1,1,1,1,1] ramp\n", FAULT_RANK, "g.fz:1:31: more than 8 dimensions");
	refused("x = input f32[-1] ramp\n", FAULT_SYNTAX,
		"g.fz:1:15: an extent is -1, outside 0 to 9223372036854775807");
	refused("x = input f32[99999999999999999999] ramp\n", FAULT_SYNTAX,
		"g.fz:1:15: expected an extent, found '99999999999999999999'");
	refused("x = input f32[2] random 1 0\n", FAULT_SYNTAX,
		"g.fz:1:28: expected a seed, then a lowest and a highest value, found the end of the line");
	refused("x = input f32[2] ramp\ny = tanh x\noutput y\nexpect x = 1 2\n", FAULT_SYNTAX,
		"g.fz:4:8: 'x' is no output; name it on an output line before this one");
}
END_TEST

/* No prefix of a good file and no damaged byte of it crashes the parser or leaks. */
START_TEST(damaged_files_are_refused_or_read_but_never_crash) {
	static const char good[] =
		"x = input f32[4,8] random 7 -1 1\ny = slice x [0:2, ::-1]\nz = sum y axes=1 keepdims\n"
		"output y z\nexpect kernels 2\nexpect z within 1e-6 cycle 1*2 0x1p3\n"
		"expect error SHAPE \"text\"\n";
	uint64_t state = 1;

	for (unsigned i = 0; i < 20000; i++) {
		char bytes[sizeof good];
		struct text *t = NULL;
		struct fault f;
		int r;

		memcpy(bytes, good, sizeof good);
		for (unsigned n = random_below(&state, 3); n < 3; n++)
			bytes[random_below(&state, sizeof good - 1)] = (char)(1 + random_below(&state, 127));
		bytes[random_below(&state, sizeof good)] = '\0';
		r = text_parse("g.fz", bytes, &t, &f);
		must(r >= 0 && (r == 0) == (t != NULL));
		text_free(t);
	}
}
END_TEST

/* ---- elements ---- */

START_TEST(every_16_bit_number_reads_back_as_printed) {
	for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
		static const enum dtype types[] = { DTYPE_f16, DTYPE_bf16, DTYPE_i16, DTYPE_u16 };
		uint16_t element = (uint16_t)bits, back;
		char text[ELEMENT_TEXT];
		struct fault f;

		for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
			element_print(types[i], &element, text);
			must(element_read(types[i], text, strlen(text), &back, &f) == 0);
			must(element_equal(types[i], &element, &back));
		}
	}
}
END_TEST

START_TEST(random_words_read_back_as_printed) {
	uint64_t state = 3;

	for (unsigned i = 0; i < 200000; i++) {
		enum dtype dtype = DTYPE_bool + random_below(&state, DTYPE_COUNT);
		uint64_t element = random_word(&state), back = 0;
		char text[ELEMENT_TEXT];
		struct fault f;

		if (dtype == DTYPE_bool)
			element &= 1;
		element_print(dtype, &element, text);
		must(element_read(dtype, text, strlen(text), &back, &f) == 0);
		must(element_equal(dtype, &element, &back));
	}
}
END_TEST

static void no_element(enum dtype dtype, const char *text) {
	char memory[ELEMENT_BYTES];
	struct fault f;

	ck_assert_int_eq(element_read(dtype, text, strlen(text), memory, &f), FAULT_SYNTAX);
}

START_TEST(what_is_no_value_of_the_type_is_refused) {
	no_element(DTYPE_u8, "256");
	no_element(DTYPE_u8, "-1");
	no_element(DTYPE_i8, "-129");
	no_element(DTYPE_i64, "9223372036854775808");
	no_element(DTYPE_u64, "18446744073709551616");
	no_element(DTYPE_i32, "1.5");
	no_element(DTYPE_i32, "--1");
	no_element(DTYPE_i32, "nan");
	no_element(DTYPE_bool, "2");
	no_element(DTYPE_f16, "65520");
	no_element(DTYPE_f32, "1e39");
	no_element(DTYPE_f64, "1e400");
	no_element(DTYPE_f32, "1.0f");
	no_element(DTYPE_f32, "");
}
END_TEST

START_TEST(elements_print_short_and_whole_numbers_in_full) {
	static const struct {
		enum dtype dtype;
		const char *read, *shown;
	} rows[] = {
		{ DTYPE_f32, "0.1", "0.1" },
		{ DTYPE_f64, "0.1", "0.1" },
		{ DTYPE_f16, "0.1", "0.1" },
		{ DTYPE_f32, "16777217", "16777216" },
		{ DTYPE_f32, "-0", "-0" },
		{ DTYPE_f32, "-inf", "-inf" },
		{ DTYPE_f64, "0.30000000000000004", "0.30000000000000004" },
		{ DTYPE_i8, "0x7f", "127" },
		{ DTYPE_f16, "0x1.004p0", "1.001" },
		{ DTYPE_bool, "1", "true" },
		{ DTYPE_f16, "65504", "65504" },
		{ DTYPE_f32, "3e9", "3e+09" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char memory[ELEMENT_BYTES], text[ELEMENT_TEXT];
		struct fault f;

		ck_assert_int_eq(
			element_read(rows[i].dtype, rows[i].read, strlen(rows[i].read), memory, &f), 0);
		ck_assert_str_eq(element_print(rows[i].dtype, memory, text), rows[i].shown);
	}
}
END_TEST

/* ---- values ---- */

/* Element i of an input, as text. */
static const char *value_of(const char *type, const char *values, int64_t count, int64_t i) {
	static char text[ELEMENT_TEXT];
	char memory[ELEMENTS * ELEMENT_BYTES], source[256];
	struct text *t;
	struct fault f;
	enum dtype dtype;

	snprintf(source, sizeof source, "x = input %s[%lld] %s\noutput x\n", type, (long long)count, values);
	t = parsed(source);
	dtype = t->statement[0].dtype;
	ck_assert_int_eq(values_write(&t->statement[0].values, t->path, dtype, count, memory, &f), 0);
	element_print(dtype, memory + (size_t)i * dtype_info(dtype)->bytes, text);
	text_free(t);
	return text;
}

START_TEST(values_stand_for_what_the_manual_says) {
	ck_assert_str_eq(value_of("i32", "= 7*3 -1", 4, 2), "7");
	ck_assert_str_eq(value_of("i32", "= 7*3 -1", 4, 3), "-1");
	ck_assert_str_eq(value_of("i32", "cycle 1*2 5", 10, 8), "5");
	ck_assert_str_eq(value_of("f32", "ramp", 10, 9), "9");
	ck_assert_str_eq(value_of("f16", "ramp -1 0.25", 10, 9), "1.25");
	ck_assert_str_eq(value_of("u8", "ramp 250 3", 10, 9), "255");
	ck_assert_str_eq(value_of("f32", "special", 30, 1), "-0");
	ck_assert_str_eq(value_of("f32", "special 6", 30, 0), "nan");
	ck_assert_str_eq(value_of("f16", "special", 30, 23), "65504");
	ck_assert_str_eq(value_of("i8", "special", 20, 18), "-128");
	ck_assert_str_eq(value_of("u64", "special", 20, 19), "18446744073709551615");
	ck_assert_str_eq(value_of("u8", "special", 20, 2), "255");
	/* splitmix64 from 0 begins with the word 0xe220a8397b1dcdaf. */
	ck_assert_str_eq(value_of("u64", "random 0", 1, 0), "16294208416658607535");
	ck_assert_str_eq(value_of("u8", "random 0", 1, 0), "175");
	ck_assert_str_eq(value_of("i32", "random 0 -3 3", 1, 0), "-1");
	ck_assert_str_eq(value_of("f64", "random 0", 1, 0), "0.7666216164272852");
}
END_TEST

START_TEST(a_wrong_number_of_values_is_refused) {
	char memory[ELEMENTS];
	struct text *t = parsed("x = input u8[3] = 1 2\noutput x\n");
	struct fault f;

	ck_assert_int_eq(
		values_write(&t->statement[0].values, t->path, DTYPE_u8, 3, memory, &f), FAULT_SYNTAX);
	ck_assert_str_eq(f.text, "g.fz:1:17: 2 values stand here for an array of 3");
	text_free(t);
	t = parsed("x = input u8[3] = 1 2 1.5\noutput x\n");
	ck_assert_int_eq(
		values_write(&t->statement[0].values, t->path, DTYPE_u8, 3, memory, &f), FAULT_SYNTAX);
	ck_assert_str_eq(f.text, "g.fz:1:23: 1.5 is no value of u8");
	text_free(t);
}
END_TEST

RUN_TESTS("text", every_elementwise_operation_and_reduction_reads, an_indented_line_continues_the_one_before,
	attributes_are_read_as_written, expectations_are_read_as_written,
	errors_name_the_place_what_was_expected_and_what_was_found, what_has_no_type_or_no_end_is_refused,
	damaged_files_are_refused_or_read_but_never_crash, every_16_bit_number_reads_back_as_printed,
	random_words_read_back_as_printed, what_is_no_value_of_the_type_is_refused,
	elements_print_short_and_whole_numbers_in_full, values_stand_for_what_the_manual_says,
	a_wrong_number_of_values_is_refused)

/* Files of operations, the words of bodies, and the rows that operations with bodies become. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/body.h"
#include "daemon/base/operation_file.h"
#include "protocol/codec.h"
#include "tests/test_protocol.h"

static char folder[64];
static struct operation_source *read_back;

static void open_folder(void) {
	snprintf(folder, sizeof folder, "/tmp/test_operations_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void close_folder(void) {
	char command[128];

	read_back = operation_sources_free(read_back);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const char *text) {
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	chmod(path, 0644);
}

/* The definition with a name, after the files were read. */
static const struct operation_source *find(const char *name) {
	const struct operation_source *s;

	if (!read_back)
		ck_assert_int_eq(operation_files_read(folder, &read_back), 0);
	for (s = read_back; s && strcmp(s->name, name) != 0; s = s->next)
		;
	ck_assert_msg(s != NULL, "there is no %s", name);
	return s;
}

static void expect_fine(const char *name) {
	const struct operation_source *s = find(name);

	ck_assert_msg(!s->fault.code, "%s", s->fault.text);
}

static void expect_refused(const char *name, const char *part) {
	const struct operation_source *s = find(name);

	ck_assert_msg(s->fault.code && strstr(s->fault.text, part) && strstr(s->fault.text, folder),
		"%s: '%s' lacks '%s'", name, s->fault.text, part);
}

START_TEST(a_definition_holds_what_its_lines_say) {
	const struct operation_source *s;

	open_folder();
	write_file("a.op", "# comment\n[swish2]\noperands = x,beta\ntext = s = sigmoid(beta * x);\n\t; comment\n\tx * s\n"
			   "gradient.beta = g\ndoc = swish\n\n[soft]\noperands = x, t\ntypes = number\nresult = bool\n"
			   "shape = same\nexact = no\nbody = return x > t;\nbody.real = return x < t;\n");
	s = find("swish2");
	expect_fine("swish2");
	ck_assert_uint_eq(s->line, 2);
	ck_assert_str_eq(s->operands, "x, beta");
	ck_assert_str_eq(s->text, "s = sigmoid(beta * x);\nx * s");
	ck_assert_str_eq(s->gradient[1], "g");
	ck_assert_ptr_null(s->gradient[0]);
	expect_fine("soft");
	s = find("soft");
	ck_assert_int_eq(s->types, OP_TYPES_NUM);
	ck_assert_int_eq(s->result, OP_RESULT_BOOL);
	ck_assert(s->inexact && s->one_shape);
	ck_assert_str_eq(s->body[DTYPE_KIND_UINT], "return x > t;");
	ck_assert_str_eq(s->body[DTYPE_KIND_REAL], "return x < t;");
	ck_assert_ptr_null(s->body[DTYPE_KIND_BOOL]);
	close_folder();
}
END_TEST

START_TEST(what_is_wrong_is_named_with_file_and_line_and_the_rest_is_fine) {
	open_folder();
	write_file("a.op", "[both]\ntext = a\nbody = return a;\n[none]\ndoc = x\n[key]\ntext = a\ncolour = red\n"
			   "[word]\ntext = a\nexact = perhaps\n[nobody]\noperands = x\ntypes = number\nbody.real = return x;\n"
			   "[four]\noperands = a, b, c, d\nbody = return a;\n[unnamed]\nbody = return a;\n[fine]\ntext = a\n");
	write_file("b.op", "[fine]\ntext = a * 2\n[softmax]\ntext = a\n[twice]\ntext = a\ntext = a\n[gradient]\n"
			   "operands = x\ntext = x\ngradient.y = g\n[cut]\ntext = a ; b\n[2x]\ntext = a\n");
	write_file("c.op", "key = before\n[fine_too]\ntext = a\nnonsense\n");
	write_file("d.conf", "[never]\ntext = a\n");
	expect_refused("both", "a.op:1: it has a text and a body");
	expect_refused("none", "a.op:4: it has neither");
	expect_refused("key", "a.op:8: colour: there is no such key");
	expect_refused("word", "a.op:11: exact: its value is none");
	expect_refused("nobody", "a.op:12: there is no body for integers");
	expect_refused("four", "at most 3 operands");
	expect_refused("unnamed", "names its operands");
	expect_refused("softmax", "b.op:3: softmax: there is an operation of this name");
	expect_refused("twice", "b.op:7: text: it is said twice");
	expect_refused("gradient", "b.op:11: gradient.y: there is no such operand");
	expect_refused("cut", "b.op:13: a ; after a blank");
	expect_refused("2x", "a name is of letters");
	expect_refused("", "c.op:1: a key before the first");
	expect_fine("fine");
	expect_fine("fine_too");
	for (const struct operation_source *s = read_back; s; s = s->next)
		ck_assert_str_ne(s->name, "never");
	close_folder();
}
END_TEST

START_TEST(a_second_definition_of_a_name_is_refused_and_long_lines_are) {
	char text[400];
	unsigned refused = 0;

	open_folder();
	write_file("a.op", "[one]\ntext = a\n");
	write_file("b.op", "[one]\ntext = a * 2\n");
	snprintf(text, sizeof text, "[long]\ntext = %0250d\n[after]\ntext = a\n", 0);
	write_file("c.op", text);
	expect_fine("one");
	expect_fine("after");
	expect_refused("long", "c.op:2: the line has more than 197 bytes");
	for (const struct operation_source *s = read_back; s; s = s->next)
		refused += strstr(s->fault.text, "one is defined already at") != NULL;
	ck_assert_uint_eq(refused, 1);
	close_folder();
}
END_TEST

START_TEST(files_that_others_may_write_are_refused_whole) {
	char path[128];

	open_folder();
	write_file("a.op", "[one]\ntext = a\n");
	snprintf(path, sizeof path, "%s/a.op", folder);
	ck_assert_int_eq(chmod(path, 0664), 0);
	expect_refused("", "others than its owner may write it");
	ck_assert_ptr_null(read_back->next);
	close_folder();
}
END_TEST

START_TEST(a_pipe_is_refused_and_nobody_waits_for_its_writer) {
	char path[128];

	open_folder();
	write_file("b.op", "[one]\ntext = a\n");
	snprintf(path, sizeof path, "%s/a.op", folder);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	expect_refused("", "a.op: it is no regular file");
	expect_fine("one");
	close_folder();
}
END_TEST

START_TEST(huge_files_and_values_are_refused_and_not_joined) {
	enum { LINES = 6000, LINE = 180 };
	char *text = malloc((size_t)LINES * (LINE + 2) + 32), *end = text + sprintf(text, "[endless]\ntext = a\n");

	ck_assert_ptr_nonnull(text);
	for (unsigned i = 0; i < LINES; i++)
		end += sprintf(end, " +%0*d\n", LINE - 2, 1);
	open_folder();
	write_file("huge.op", text);
	end[-1 - (LINE + 1) * 300] = '\0';
	write_file("large.op", text);
	write_file("fine.op", "[whole]\ntext = a\n");
	expect_refused("", "huge.op: it has more than 1 MiB");
	expect_refused("endless", "large.op:25: text: it has more than 4096 bytes");
	expect_fine("whole");
	close_folder();
	free(text);
}
END_TEST

START_TEST(a_folder_that_does_not_open_is_told_of) {
	char path[128];

	open_folder();
	write_file("conf.d", "");
	snprintf(path, sizeof path, "%s/conf.d", folder);
	ck_assert_int_eq(operation_files_read(path, &read_back), 0);
	expect_refused("", "conf.d: Not a directory");
	ck_assert_ptr_null(read_back->next);
	close_folder();
}
END_TEST

START_TEST(a_folder_that_is_not_there_has_no_operations) {
	struct operation_source *list = (struct operation_source *)folder;

	ck_assert_int_eq(operation_files_read("/nowhere/at/all", &list), 0);
	ck_assert_ptr_null(list);
}
END_TEST

START_TEST(bodies_compute_and_nothing_else) {
	static const char *const fine[] = { "return x;", "T y = x * x * 2; return -y * (x + 1) * y;",
		"if (x > 0 && t > 0) { return x; } return (T)popcount(as_uint(x)) & 7;",
		"float a = x, b = fma(a, t, .5f); return !(a < b) ? a & 1 : ~(int)b;", "const T m = fabs(x) - t;\n\treturn m > 0 ? m : 0;",
		"int n = 0; n++; --n; n <<= 2; n %= 3; return (x) + -n;", "return isnan(x) ? INFINITY : clamp(x, (T)0, (T)0x1p-3);",
		"switch (0) { case 1: return x; case 2: { T y = x; return y; } default: return 1.5e-3f * x; }",
		"if (x < 1) return 1; else if (x < 2) { x; } else return 3u; ; return x;" };
	static const char *const bad[] = {
		/* pointers and addresses */
		"return *x;", "T *p = 0; return x;", "float16*y; return x;", "f32e *p = 5; return x;", "return x + *y;",
		"return (*y);", "return fract(x, &y);", "return x && &x;", "return (T)(long)&x;", "return (T)(long)&t;",
		"if (1) *x = 1; return x;", "return (T)*x;", "float a = 1, *b; return x;", "return (float *)x;", "return x[0];",
		"return p->x;", "return &&x;", "return x - -&x;", "float float_element = 1, p = 2; float_element * p = 0, *p = 1; return x;",
		"(long *)x; return x;", "return x ? *x : x;", "return ^x;",
		/* memory, and what the program around it has */
		"STREAM(float, 0x1234, x); return x;", "float_element * p = 0; if (1) *(p + 100000) = 1; return x;",
		"float_element * p = 0; return x;", "M_element; return x;", "M_loose * p = 0; return x;", "M_whole(x); return x;",
		"cl_mem_fence_flags * p = 0; return x;", "store_f32(0, 1.0f); return x;", "return load_f32(0);",
		"put_lanes_f32(0, x, 0, 1); return x;", "return take(0, 0);", "return ADDRESS(0);", "return (T)(long)load_f32;",
		"global T *p; return x;", "local float y; return x;", "static T y; return x;", "extern T y; return x;",
		"typedef float *p; return x;", "struct s { int a; } y; return x;", "return vload4(0, x).x;", "float2 v = x; return v.x;",
		"return x.s0;", "printf(\"\"); return x;", "atomic_inc(1); return x;", "return W;", "return sizeof(x);",
		"volatile float y = x; return y;", "void y; return x;",
		/* places and other elements */
		"return get_global_id(0);", "barrier(1); return x;", "return work_group_any(1);",
		/* no end */
		"for (;;) return x;", "while (1) ; return x;", "do x; while (1); return x;", "x: goto x; return x;",
		"return lane_own5000_f_bool(x);", "return soft(x, t);", "return lane_soft(x);", "return x(x);", "return t (x);",
		"float fabs = 1; return x;", "float f(float); return f(x);", "float sin(float), y = 1; return x;", "return (fabs)(x);",
		"return fabs;", "return fabs + 1;",
		/* another text than what is read */
		"return x; } kernel void f(void) {", "#define x y\nreturn x;", "return x; %:define x", "x<:0:> = 1; return x;",
		"if (x) <% return x; %> return x;", "return x ?\?/\n;", "?\?=define x y\nreturn x;", "return x\\;", "ret\\\nurn x;",
		"return x // comment", "/* */ return x;", "return '1';", "_Pragma(1) return x;", "return __builtin_trap();",
		"asm(\"nop\"); return x;", "return 0xE+load_f32;", "return 1e5q;", "return 1.x;", "return x \x0c;", "return \xc3\xa4;",
		"return x @ 1;", "return $x;",
		/* not whole */
		"T y = x;", "return (x;", "return x", "return x; }", "if (x) { return x;", "return x x;", "return (float y);",
		"return fabs(float);", "return;", "", "{ float y = 1; } return y;", "float T = 1; return x;", "float W = 1; return x;",
		"float _y = 1; return x;", "return y;",
		/* names that C has another use for */
		"int unsigned; { unsigned * x = 0; x += 16777216; return (unsigned) * x; }",
		"int signed; { signed * x = 0; x += 16777216; return (signed) * x; }", "int short; return x;",
		"int restrict; return x;", "float float4; return x;", "int pipe; return x;", "int half; return x;",
		"int half8; return x;", "int float4x4; return x;", "int size_t; return x;", "int a, sizeof; return x;",
		"int image2d_t; return x;", "int __local; return x;", "return fabs();", "const p = 5; return x;" };
	struct fault f;

	for (unsigned i = 0; i < sizeof fine / sizeof *fine; i++)
		ck_assert_msg(!body_check(fine[i], "x, t", &f), "%s: %s", fine[i], f.text);
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		ck_assert_msg(body_check(bad[i], "x, t", &f) > 0, "passed: %s", bad[i]);
	ck_assert_int_eq(body_check("return x;", "x, STREAM", &f), FAULT_SYNTAX);
	ck_assert_int_eq(body_check("return x;", "x, sin", &f), FAULT_SYNTAX);
	ck_assert_int_eq(body_check("return x;", "x, _y", &f), FAULT_SYNTAX);
}
END_TEST

START_TEST(a_compiler_reads_operands_and_variables_under_names_of_ours) {
	struct str out = { 0 };
	struct fault f;

	ck_assert_int_eq(body_write("T y = fabs(x)*2, x2=as_uint(t) ; if(x>t&&true)\n{ float x=y; return (int)-x; } return\ty;",
		"x, t", &out, &f), 0);
	ck_assert_str_eq(str_text(&out), "T v_y = fabs(v_x)*2, v_x2=as_uint(v_t) ; if(v_x>v_t&&true)\n"
		"{ float v_x=v_y; return (int)-v_x; } return\tv_y;");
	str_free(&out);
	ck_assert_int_eq(body_write("return x; return z;", "x, t", &out, &f), FAULT_SYNTAX);
	str_free(&out);
}
END_TEST

START_TEST(what_is_the_same_has_the_same_number) {
	const struct own_facts facts = { .name = "soft", .operands = "x, t", .arity = 2, .types = OP_TYPES_REAL,
		.body = { [DTYPE_KIND_REAL] = "return x;" } };
	struct own_facts other = facts;
	unsigned a, b, c, d;
	struct fault f;

	other.body[DTYPE_KIND_REAL] = "return t;";
	ck_assert_int_eq(own_add(&facts, &a, &f), 0);
	ck_assert_int_eq(own_add(&facts, &b, &f), 0);
	ck_assert_int_eq(own_add(&other, &c, &f), 0);
	ck_assert_uint_eq(a, b);
	ck_assert_uint_ne(a, c);
	ck_assert_str_eq(op_info(a)->body[DTYPE_KIND_REAL], "return x;");
	/* A client goes by what the daemon says it is, whatever the number there. */
	ck_assert_int_eq(own_take(op_info(a)->identity, &facts, &b, &f), 0);
	ck_assert_uint_eq(a, b);
	ck_assert_int_eq(own_take(op_info(a)->identity + 1, &facts, &d, &f), 0);
	ck_assert_uint_ne(d, a);
	ck_assert_uint_ne(d, c);
	ck_assert_int_eq(own_state(d), OWN_CALLABLE);
}
END_TEST

/* [[op, 0, 0]] as a client would write it; what reading it says. */
static int read_call(unsigned op, struct fault *f) {
	struct coded_op got;
	struct wire_writer w;
	struct wire_reader r;
	struct wire_cursor c;
	int code;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	codec_put_op(&w, &(struct coded_op){ .op = (uint16_t)op, .arity = 2 });
	ck_assert_int_eq(wire_open(&r, w.buffer.data, w.buffer.size, f), 0);
	c = wire_root(&r);
	code = codec_get_op(&c, 1, &got, f);
	wire_close(&r);
	wire_writer_free(&w);
	return code;
}

START_TEST(clients_call_what_was_found_right_and_rows_never_vanish) {
	const struct own_facts facts = { .name = "untried", .operands = "x, t", .arity = 2, .types = OP_TYPES_REAL,
		.body = { [DTYPE_KIND_REAL] = "return x;" } };
	const struct tensor_type type = { DTYPE_f32, 1, { 5 } };
	const struct tensor_type *const in[] = { &type, &type };
	struct tensor_type out;
	struct fault f;
	unsigned op;

	ck_assert_int_eq(own_add(&facts, &op, &f), 0);
	ck_assert_int_eq(read_call(op, &f), FAULT_OPERATION);
	ck_assert_ptr_nonnull(strstr(f.text, "untried may not be called"));
	ck_assert_int_eq(op_infer(op, 2, in, NULL, &out, &f), FAULT_OPERATION);
	own_set_state(op, OWN_TRIED);
	ck_assert_int_eq(read_call(op, &f), FAULT_OPERATION);
	ck_assert_int_eq(op_infer(op, 2, in, NULL, &out, &f), 0);
	own_set_state(op, OWN_CALLABLE);
	ck_assert_int_eq(read_call(op, &f), 0);
	own_set_state(op, OWN_WAITS);
	ck_assert_int_eq(read_call(op, &f), FAULT_OPERATION);
	ck_assert_str_eq(op_info(op)->name, "untried");
}
END_TEST

START_TEST(operands_of_one_shape_are_asked_for_where_the_rule_says_so) {
	const struct own_facts facts = { .name = "paired", .operands = "x, t", .arity = 2, .types = OP_TYPES_REAL,
		.result = OP_RESULT_BOOL, .one_shape = true, .body = { [DTYPE_KIND_REAL] = "return x > t;" } };
	const struct tensor_type row = { DTYPE_f32, 1, { 5 } }, matrix = { DTYPE_f32, 2, { 3, 5 } };
	struct tensor_type out;
	struct fault f;
	unsigned op;

	ck_assert_int_eq(own_add(&facts, &op, &f), 0);
	own_set_state(op, OWN_CALLABLE);
	ck_assert_int_eq(op_infer(op, 2, (const struct tensor_type *[]){ &matrix, &matrix }, NULL, &out, &f), 0);
	ck_assert_int_eq(out.dtype, DTYPE_bool);
	ck_assert_int_eq(op_infer(op, 2, (const struct tensor_type *[]){ &matrix, &row }, NULL, &out, &f), FAULT_SHAPE);
}
END_TEST

RUN_TESTS("operation_file", a_definition_holds_what_its_lines_say,
	what_is_wrong_is_named_with_file_and_line_and_the_rest_is_fine,
	a_second_definition_of_a_name_is_refused_and_long_lines_are, files_that_others_may_write_are_refused_whole,
	a_pipe_is_refused_and_nobody_waits_for_its_writer, huge_files_and_values_are_refused_and_not_joined,
	a_folder_that_does_not_open_is_told_of, a_folder_that_is_not_there_has_no_operations, bodies_compute_and_nothing_else,
	a_compiler_reads_operands_and_variables_under_names_of_ours, what_is_the_same_has_the_same_number, clients_call_what_was_found_right_and_rows_never_vanish,
	operands_of_one_shape_are_asked_for_where_the_rule_says_so)

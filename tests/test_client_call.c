/* Composites and operations of users with libfusion: what is sent for them, and what is refused. */
#include "client/fusion.h"

#include "tests/fake_context.h"

/* Reads nothing, but makes the daemon see it; then lets go. */
static void settle(fusion_array *a) {
	ck_assert_msg(a != NULL, "%s", fusion_error());
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	fusion_release(a);
}

/* --- composites --------------------------------------------------------------------------- */

START_TEST(a_composite_is_one_operation_for_the_daemon) {
	static const int last[] = { -1 };
	fusion_array *x;

	open_context();
	x = matrix(FUSION_F32, 3, 5);
	settle(fusion_softmax(x, 1, last));
	settle(fusion_var(x, 0, NULL, false, 1));
	settle(fusion_eye(context, 2, (int64_t[]){ 3, 4 }, 1, FUSION_I8));
	ck_assert_uint_eq(fake.op_count[OP_softmax], 1);
	ck_assert_uint_eq(fake.op_count[OP_var], 1);
	ck_assert_uint_eq(fake.op_count[OP_eye], 1);
	ck_assert_uint_eq(fake.op_count[OP_exp], 0);
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(absent_operands_are_null_and_the_others_meet_in_one_type) {
	static const int last[] = { 1 };
	fusion_array *x, *w, *y;

	open_context();
	x = matrix(FUSION_F16, 3, 5);
	w = matrix(FUSION_F32, 1, 5);
	y = fusion_layer_norm(x, NULL, NULL, 1, last, 1e-5);
	ck_assert_int_eq(fusion_dtype_of(y), FUSION_F16);
	settle(y);
	ck_assert_uint_eq(fake.op_count[OP_cast], 0);
	y = fusion_layer_norm(x, w, NULL, 1, last, 1e-5);
	ck_assert_int_eq(fusion_dtype_of(y), FUSION_F32);
	settle(y);
	ck_assert_uint_eq(fake.op_count[OP_cast], 1);
	ck_assert_ptr_null(fusion_layer_norm(x, NULL, w, 1, last, 1e-5));
	expect_error(FUSION_E_ARGUMENT, "layer_norm: argument weight is NULL");
	ck_assert_ptr_null(fusion_layer_norm(NULL, w, NULL, 1, last, 1e-5));
	expect_error(FUSION_E_ARGUMENT, "layer_norm: argument x is NULL");
	fusion_release(x);
	fusion_release(w);
	close_context();
}
END_TEST

START_TEST(a_named_call_is_the_operations_of_its_text) {
	fusion_array *x, *y;

	open_context();
	x = matrix(FUSION_F32, 3, 5);
	y = fusion_fused_add_relu(x, x);
	ck_assert_msg(y != NULL, "%s", fusion_error());
	settle(y);
	ck_assert_uint_eq(fake.op_count[OP_add], 1);
	ck_assert_uint_eq(fake.op_count[OP_relu], 1);
	ck_assert_ptr_null(fusion_fused_add_relu(x, NULL));
	expect_error(FUSION_E_ARGUMENT, "fused_add_relu: argument b is NULL");
	ck_assert_ptr_null(fusion_call(context, "fused_nothing", 1, &x, NULL));
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(a_call_by_name_is_the_function) {
	const struct fusion_attributes one = { .axis_count = 1, .axes = (const int[]){ 0 } };
	fusion_array *x, *y;

	open_context();
	x = matrix(FUSION_F32, 3, 5);
	y = fusion_call(context, "argmax", 1, &x, &one);
	ck_assert_int_eq(fusion_dtype_of(y), FUSION_I64);
	ck_assert_int_eq(fusion_rank(y), 1);
	ck_assert_int_eq(fusion_dims(y)[0], 5);
	settle(y);
	ck_assert_ptr_null(fusion_call(context, NULL, 1, &x, &one));
	expect_error(FUSION_E_ARGUMENT, "name is NULL");
	ck_assert_ptr_null(fusion_call(context, "argmax", 1, NULL, &one));
	expect_error(FUSION_E_ARGUMENT, "operand is NULL");
	for (int axis_count = 0; axis_count < 2; axis_count++) {
		struct fusion_attributes of_nothing = { .axis_count = axis_count, .axes = axis_count ? &(int){ 0 } : NULL };

		ck_assert_ptr_null(fusion_call(context, "softmax", 0, NULL, &of_nothing));
		expect_error(FUSION_E_ARITY, "there is none");
	}
	ck_assert_ptr_null(fusion_call(context, "add", 1, &x, &one));
	expect_error(FUSION_E_OPERATION, "it has a function of its own");
	ck_assert_ptr_null(fusion_call(context, "argmost", 1, &x, &one));
	expect_error(FUSION_E_OPERATION, "there is no such operation");
	ck_assert_ptr_null(fusion_call(context, "argmax", 100, &x, &one));
	expect_error(FUSION_E_ARITY, "more operands than any operation has");
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(attributes_that_do_not_fit_are_refused) {
	const struct fusion_attributes nan = { .eps = (double)__builtin_nanf("") };
	const struct fusion_attributes far = { .axis_count = 1, .axes = (const int[]){ 2 } };
	fusion_array *x;

	open_context();
	x = matrix(FUSION_F32, 3, 5);
	ck_assert_ptr_null(fusion_call(context, "rms_norm", 1, &x, &nan));
	expect_error(FUSION_E_ARGUMENT, "rms_norm: eps is a number, not nan");
	ck_assert_ptr_null(fusion_call(context, "softmax", 1, &x, &far));
	expect_error(FUSION_E_ARGUMENT, "softmax: axis 2 does not exist in f32[3,5]");
	ck_assert_ptr_null(fusion_eye(context, 9, NULL, 0, FUSION_F32));
	expect_error(FUSION_E_RANK, "eye: rank 9 of dims is not between 0 and 8");
	fusion_release(x);
	close_context();
}
END_TEST

/* --- operations of users ------------------------------------------------------------------ */

/* A program of a later release, whose structures say more, or one that does not begin with zeros. */
START_TEST(structures_that_say_more_than_this_release_knows_are_refused) {
	const struct fusion_attributes attributes = { .eps = 1e-5, .reserved = { [FUSION_RESERVED - 1] = 1 } };
	const struct fusion_sgd_options sgd = { .rate = 1, .reserved = { 1 } };
	const struct fusion_adam_options adam = { .rate = 1, .reserved = { 1 } };
	const struct fusion_options options = { .reserved = { [1] = 1 } };
	fusion_context *other = NULL;
	fusion_array *x, *step;

	open_context();
	x = matrix(FUSION_F32, 3, 5);
	step = fusion_scalar(context, FUSION_F32, 0);
	ck_assert_ptr_null(fusion_call(context, "rms_norm", 1, &x, &attributes));
	expect_error(FUSION_E_VERSION, "rms_norm: libfusion " FUSION_VERSION " does not know all of the structure");
	ck_assert_int_eq(fusion_sgd(1, &x, &x, NULL, &sgd, NULL), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "sgd: ");
	ck_assert_int_eq(fusion_adam(1, &x, &x, &x, &x, step, &adam, NULL), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "adam: ");
	ck_assert_int_eq(fusion_adamw(1, &x, &x, &x, &x, step, &adam, NULL), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "adamw: ");
	ck_assert_int_eq(fusion_open(&other, &options), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "open: ");
	ck_assert_ptr_null(other);
	fusion_release(step);
	fusion_release(x);
	close_context();
}
END_TEST

/* A daemon of an earlier release: what it lacks is refused here, by name, and nothing of it is sent. */
START_TEST(what_an_older_daemon_lacks_is_refused_by_name) {
	struct fusion_options options = { 0 };
	fusion_array *x;

	fake_start();
	fake.features = 0;
	fake.lacks_op = OP_tanh;
	options.socket = fake.door;
	ck_assert_msg(!fusion_open(&context, &options), "%s", fusion_error());
	x = matrix(FUSION_F32, 3, 5);
	ck_assert_ptr_null(fusion_tanh(x));
	expect_error(FUSION_E_VERSION, "tanh: fusiond 0.0.1 has no operation tanh, which this libfusion, " FUSION_VERSION ", knows");
	settle(fusion_exp(x));
	ck_assert_int_eq(fusion_capture_begin(context, 1, &x), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "capture_begin: fusiond 0.0.1 has no feature REPLAY (recorded graphs)");
	ck_assert_int_eq(fusion_define_pattern(context, "swish(a)", "a * sigmoid(a)", false), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "has no feature PATTERNS (fusion patterns of programs)");
	ck_assert_ptr_null(fusion_explain(context, 1, &x, 0));
	expect_error(FUSION_E_VERSION, "explain: fusiond 0.0.1 has no feature EXPLAIN (explanations of plans)");
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(versions_that_do_not_meet_name_what_is_too_old) {
	struct fusion_options options = { 0 };
	fusion_context *other;

	fake_start();
	options.socket = fake.door;
	fake.version = PROTOCOL_VERSION + 1;
	ck_assert_int_eq(fusion_open(&other, &options), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "fusiond speaks version 2 of the protocol, libfusion " FUSION_VERSION " version 1: install a newer libfusion");
	fake.version = PROTOCOL_OLDEST - 1;
	ck_assert_int_eq(fusion_open(&other, &options), FUSION_E_VERSION);
	expect_error(FUSION_E_VERSION, "install a newer fusiond");
	fake_stop();
	ck_assert_str_eq(fake.problem, "");
}
END_TEST

START_TEST(a_definition_is_recorded_as_its_operations) {
	static const char *const gradients[] = { "g * sigmoid(beta * x)", NULL };
	fusion_array *in[2], *y;

	open_context();
	ck_assert_msg(!fusion_define_op(context, "swish2(x, beta)", "x * sigmoid(beta * x)", gradients), "%s",
		fusion_error());
	in[0] = matrix(FUSION_F16, 3, 5);
	in[1] = matrix(FUSION_F16, 1, 5);
	y = fusion_call(context, "swish2", 2, in, NULL);
	ck_assert_int_eq(fusion_dtype_of(y), FUSION_F16);
	settle(y);
	ck_assert_uint_eq(fake.op_count[OP_sigmoid], 1);
	ck_assert_uint_eq(fake.op_count[OP_mul], 2);
	ck_assert_uint_eq(fake.op_count[OP_cast], 3);      /* two to f32, one back */
	ck_assert_ptr_null(fusion_call(context, "swish2", 1, in, NULL));
	expect_error(FUSION_E_ARITY, "swish2, column 13: operand 2 is missing");
	fusion_release(in[0]);
	fusion_release(in[1]);
	close_context();
}
END_TEST

START_TEST(a_definition_takes_the_attributes_its_text_names) {
	const struct fusion_attributes rows = { .axis_count = 1, .axes = (const int[]){ -1 }, .scale = 2 };
	fusion_array *x, *y;

	open_context();
	ck_assert(!fusion_define_op(context, "weights", "e = exp(scale * (a - max(a, axes))); e / sum(e, axes)", NULL));
	ck_assert(!fusion_define_op(context, "energy", "drop(sum(square(a), axes), axes)", NULL));
	x = matrix(FUSION_F32, 3, 5);
	y = fusion_call(context, "energy", 1, &x, &rows);
	ck_assert_int_eq(fusion_rank(y), 1);
	ck_assert_int_eq(fusion_dims(y)[0], 3);
	settle(y);
	settle(fusion_call(context, "weights", 1, &x, &rows));
	ck_assert_uint_eq(fake.op_count[OP_exp], 1);
	ck_assert_uint_eq(fake.op_count[OP_reduce_sum], 2);
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(definitions_may_stand_in_a_capture) {
	fusion_array *x, *y, *z;
	fusion_capture *capture;

	open_context();
	ck_assert(!fusion_define_op(context, "twice", "a + a", NULL));
	x = matrix(FUSION_F32, 2, 2);
	ck_assert_msg(!fusion_capture_begin(context, 1, &x), "%s", fusion_error());
	y = fusion_call(context, "twice", 1, &x, NULL);
	ck_assert_msg(y != NULL, "%s", fusion_error());
	capture = fusion_capture_end(context, 1, &y);
	ck_assert_msg(capture != NULL, "%s", fusion_error());
	ck_assert_msg(!fusion_replay(capture, &x, &z), "%s", fusion_error());
	settle(z);
	fusion_capture_free(capture);
	fusion_release(y);
	fusion_release(x);
	close_context();
}
END_TEST

#define REFUSED(name, text, gradient, code, part)                                                            \
	do {                                                                                                 \
		ck_assert_int_eq(fusion_define_op(context, name, text, gradient), code);                     \
		expect_error(code, part);                                                                    \
	} while (0)

START_TEST(a_definition_is_checked_when_it_is_made) {
	static const char *const bad[] = { "g * q" };

	open_context();
	REFUSED("f", "a + ", NULL, FUSION_E_SYNTAX, "define_op: f: column 5: expected a value, found the end");
	REFUSED("f(x)", "a + x", NULL, FUSION_E_SYNTAX, "column 1: no operand and no value is called 'a'");
	REFUSED("f", "sin(a, b)", NULL, FUSION_E_SYNTAX, "sin takes 1 argument, not 2");
	REFUSED("f", "where(a, b, isnan(where(c, a, b) * 0.5) * -1 == shift_left(0.5, a))", NULL, FUSION_E_DTYPE, "define_op: f");
	REFUSED("f", "a * 2", bad, FUSION_E_SYNTAX, "define_op: f, gradient of operand 1: column 5");
	REFUSED("softmax", "a", NULL, FUSION_E_ARGUMENT, "there is an operation of this name");
	REFUSED("2f", "a", NULL, FUSION_E_ARGUMENT, "a name is of letters");
	REFUSED("f[x]", "x", NULL, FUSION_E_ARGUMENT, "expected a name");
	REFUSED("f(x,y)", "x", NULL, FUSION_E_ARGUMENT, "operands are names");
	REFUSED("f(a, b, c, d, e, g, h, i, j)", "a", NULL, FUSION_E_ARITY, "more than 8 operands");
	REFUSED(NULL, "a", NULL, FUSION_E_ARGUMENT, "name is NULL");
	REFUSED("f", NULL, NULL, FUSION_E_ARGUMENT, "the text is NULL");
	ck_assert(!fusion_define_op(context, "f", "a * 2", NULL));
	REFUSED("f", "a * 3", NULL, FUSION_E_ARGUMENT, "it is defined already");
	close_context();
}
END_TEST

START_TEST(element_types_are_tried_and_shapes_left_to_the_call) {
	fusion_array *x;

	open_context();
	ck_assert_msg(!fusion_define_op(context, "pick", "where(c, a, b)", NULL), "%s", fusion_error());
	ck_assert_msg(!fusion_define_op(context, "low", "bitwise_and(a, 15)", NULL), "%s", fusion_error());
	ck_assert_msg(!fusion_define_op(context, "third", "sum(a, 2)", NULL), "%s", fusion_error());
	x = matrix(FUSION_F32, 2, 2);
	ck_assert_ptr_null(fusion_call(context, "third", 1, &x, NULL));
	expect_error(FUSION_E_ARGUMENT, "third, column 1: axis 2 does not exist");
	ck_assert_ptr_null(fusion_call(context, "low", 1, &x, NULL));
	expect_error(FUSION_E_DTYPE, "low, column 1: bitwise_and takes");
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(definitions_are_limited_in_number) {
	char name[16];

	open_context();
	for (int i = 0; i < 256; i++) {
		snprintf(name, sizeof name, "f%d", i);
		ck_assert_msg(!fusion_define_op(context, name, "a", NULL), "%s", fusion_error());
	}
	ck_assert_int_eq(fusion_define_op(context, "more", "a", NULL), FUSION_E_LIMIT);
	expect_error(FUSION_E_LIMIT, "at most 256 definitions");
	close_context();
}
END_TEST

/* --- operations of the administrator ------------------------------------------------------- */

START_TEST(operations_of_the_daemon_are_asked_for_once) {
	fusion_array *in[2];

	open_context();
	in[0] = matrix(FUSION_F32, 3, 5);
	settle(fusion_call(context, "swish3", 1, in, NULL));
	settle(fusion_call(context, "swish3", 1, in, NULL));
	ck_assert_uint_eq(fake.asked, 1);
	ck_assert_uint_eq(fake.op_count[OP_sigmoid], 2);
	ck_assert_ptr_null(fusion_call(context, "swish4", 1, in, NULL));
	expect_error(FUSION_E_OPERATION, "call: swish4: there is no such operation");
	fusion_release(in[0]);
	close_context();
}
END_TEST

START_TEST(an_operation_with_a_body_is_one_operation_with_checked_types) {
	fusion_array *in[2], *y;

	open_context();
	in[0] = matrix(FUSION_F16, 3, 5);
	in[1] = matrix(FUSION_F32, 1, 5);
	y = fusion_call(context, "soft", 2, in, NULL);
	ck_assert_msg(y != NULL, "%s", fusion_error());
	ck_assert_int_eq(fusion_dtype_of(y), FUSION_F32);
	ck_assert_int_eq(fusion_dims(y)[0], 3);
	settle(y);
	ck_assert_uint_eq(fake.own_count, 1);
	ck_assert_uint_eq(fake.op_count[OP_cast], 1);
	ck_assert_ptr_null(fusion_call(context, "soft", 1, in, NULL));
	expect_error(FUSION_E_ARITY, "soft takes 2 operands, not 1");
	fusion_release(in[0]);
	in[0] = matrix(FUSION_I32, 3, 5);
	fusion_release(in[1]);
	in[1] = matrix(FUSION_I32, 3, 5);
	ck_assert_ptr_null(fusion_call(context, "soft", 2, in, NULL));
	expect_error(FUSION_E_DTYPE, "soft takes floating-point arrays");
	fusion_release(in[0]);
	fusion_release(in[1]);
	close_context();
}
END_TEST

START_TEST(daemons_may_have_one_number_for_different_operations) {
	fusion_array *in[2], *y;

	for (unsigned round = 0; round < 2; round++) {
		open_context();
		in[0] = matrix(FUSION_F32, 3, 5);
		in[1] = matrix(FUSION_F32, 1, 5);
		y = fusion_call(context, round ? "firm" : "soft", 2, in, NULL);
		ck_assert_msg(y != NULL, "%s", fusion_error());
		settle(y);
		ck_assert_uint_eq(fake.own_count, 1);
		fusion_release(in[0]);
		fusion_release(in[1]);
		close_context();
	}
}
END_TEST

START_TEST(a_definition_of_ones_own_goes_before_the_daemons) {
	fusion_array *x;

	open_context();
	x = matrix(FUSION_F32, 2, 2);
	settle(fusion_call(context, "swish3", 1, &x, NULL));
	ck_assert_msg(!fusion_define_op(context, "swish3", "tanh(a)", NULL), "%s", fusion_error());
	settle(fusion_call(context, "swish3", 1, &x, NULL));
	ck_assert_uint_eq(fake.op_count[OP_tanh], 1);
	ck_assert_uint_eq(fake.op_count[OP_sigmoid], 1);
	ck_assert_int_eq(fusion_define_op(context, "swish3", "a", NULL), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "it is defined already");
	fusion_release(x);
	close_context();
}
END_TEST

RUN_TESTS("client_call", operations_of_the_daemon_are_asked_for_once,
	an_operation_with_a_body_is_one_operation_with_checked_types, daemons_may_have_one_number_for_different_operations,
	a_definition_of_ones_own_goes_before_the_daemons, a_composite_is_one_operation_for_the_daemon,
	absent_operands_are_null_and_the_others_meet_in_one_type, a_named_call_is_the_operations_of_its_text, a_call_by_name_is_the_function,
	attributes_that_do_not_fit_are_refused, structures_that_say_more_than_this_release_knows_are_refused,
	what_an_older_daemon_lacks_is_refused_by_name, versions_that_do_not_meet_name_what_is_too_old,
	a_definition_is_recorded_as_its_operations,
	a_definition_takes_the_attributes_its_text_names, definitions_may_stand_in_a_capture,
	a_definition_is_checked_when_it_is_made, element_types_are_tried_and_shapes_left_to_the_call,
	definitions_are_limited_in_number)

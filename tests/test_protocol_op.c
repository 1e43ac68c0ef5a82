/*
 * The table of operations - its ids, names and gradient texts - and the rule for types and shapes:
 * what it refuses, in which words, and what it infers, against a second formulation of the rules.
 */
#include "protocol/op.h"

#include "protocol/attribute.h"
#include "protocol/expr.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "tests/test_protocol.h"

static struct tensor_type shape(enum dtype dtype, unsigned rank, const int64_t *dims) {
	struct tensor_type t = { .dtype = (uint8_t)dtype, .rank = (uint8_t)rank };

	memcpy(t.dims, dims, rank * sizeof *dims);
	return t;
}

#define SHAPE(dtype, ...)                                                                                    \
	shape(DTYPE_##dtype, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                           \
		(const int64_t[]){ __VA_ARGS__ })
#define SCALAR(type) ((struct tensor_type){ .dtype = DTYPE_##type })

/* --- the table --------------------------------------------------------------------------- */

START_TEST(ids_are_unique_and_fit_the_table) {
	static const unsigned ids[] = {
#define UNARY(id, ...) id,
#define BINARY(id, ...) id,
#define TERNARY(id, ...) id,
#define REDUCE(id, ...) id,
#define SCAN(id, ...) id,
#define STRUCT(id, ...) id,
#define COMPOSITE(id, ...) id,
#include "protocol/ops.def"
	};
	unsigned seen[OP_COUNT] = { 0 };

	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		ck_assert_uint_lt(ids[i], OP_COUNT);
		ck_assert_uint_eq(seen[ids[i]]++, 0);
		ck_assert_ptr_nonnull(op_info(ids[i]));
	}
	for (unsigned id = 0; id < OP_COUNT; id++)
		ck_assert(!op_info(id) == !seen[id]);
}
END_TEST

START_TEST(error_and_dtype_numbers_are_unique) {
	unsigned errors[100] = { 0 };

#define ERROR(id, name, doc) ck_assert_uint_eq(errors[id]++, 0);
#include "protocol/errors.def"
#undef ERROR
	unsigned dtypes[DTYPE_COUNT] = { 0 };
#define DTYPE(id, ...) ck_assert_uint_eq(dtypes[id]++, 0);
#include "protocol/dtypes.def"
#undef DTYPE
	for (int id = 0; id < DTYPE_COUNT; id++)
		ck_assert_uint_eq(dtypes[id], 1);
}
END_TEST

START_TEST(names_are_unique_and_found) {
	for (unsigned id = 0; id < OP_COUNT; id++)
		if (op_info(id))
			ck_assert_int_eq(op_find(op_info(id)->name), (int)id);
	ck_assert_int_eq(op_find("conjugate"), -1);
	ck_assert_int_eq(op_find("sum"), OP_reduce_sum);
	ck_assert_ptr_null(op_info(0));
	ck_assert_ptr_null(op_info(OP_COUNT));
	ck_assert_ptr_null(op_info(UINT32_MAX));
}
END_TEST

START_TEST(every_row_has_all_columns_of_its_class) {
	for (unsigned id = 0; id < OP_COUNT; id++) {
		const struct op_info *o = op_info(id);

		if (!o)
			continue;
		ck_assert(o->doc && strlen(o->doc) > 5);
		if (o->class == OP_CLASS_STRUCT)
			continue;
		ck_assert(o->expr && *o->expr && o->oracle && *o->oracle);
		if (o->class == OP_CLASS_COMPOSITE)
			continue;
		ck_assert_uint_eq(o->arity, op_is_elementwise(o) ? (unsigned)o->class : 1);
	}
}
END_TEST

START_TEST(every_gradient_text_parses) {
	static const char *const names[] = { "g y", "g y a", "g y a b", "g y a b c" };
	unsigned parsed = 0;
	struct fault f;

	for (unsigned id = 0; id < OP_COUNT; id++) {
		const struct op_info *o = op_info(id);

		for (unsigned i = 0; o && i < LIMIT_OPERANDS; i++) {
			static struct expr e;
			char composite[128];

			if (!o->gradient[i])
				continue;
			ck_assert_uint_lt(i, o->arity);
			snprintf(composite, sizeof composite, "g, y, %s", o->operands ? o->operands : "");
			ck_assert_msg(!expr_parse(o->gradient[i], o->operands ? composite : names[o->arity], &e, &f), "%s: %s",
				o->name, f.text);
			for (unsigned n = 0; op_is_elementwise(o) && n < e.count; n++)
				ck_assert_msg(e.node[n].kind == EXPR_NUMBER || e.node[n].kind == EXPR_OPERAND ||
						      (e.node[n].kind == EXPR_OPERATION &&
							      op_is_elementwise(op_info(e.node[n].which))),
					"%s: its gradient is not elementwise", o->name);
			parsed++;
		}
	}
	ck_assert_uint_gt(parsed, 50);
}
END_TEST

START_TEST(every_composite_text_parses_over_its_operands) {
	for (unsigned id = 0; id < OP_COUNT; id++) {
		const struct op_info *o = op_info(id);
		static struct expr e;
		struct fault f;

		if (!o || o->class != OP_CLASS_COMPOSITE)
			continue;
		ck_assert_msg(!expr_parse(o->expr, o->operands, &e, &f), "%s: %s", o->name, f.text);
		ck_assert_uint_eq(e.operands, o->arity);
		ck_assert_uint_le(o->least, o->arity);
		for (unsigned n = 0; n < e.count; n++)
			if (e.node[n].kind == EXPR_ATTRIBUTE)
				ck_assert_msg(o->attributes >> e.node[n].which & 1, "%s has no attribute %s", o->name,
					attribute_info((enum op_attribute)e.node[n].which)->name);
	}
}
END_TEST

START_TEST(operations_on_floats_have_a_gradient_for_each_operand) {
	for (unsigned id = 0; id < OP_COUNT; id++) {
		const struct op_info *o = op_info(id);

		if (!o || !op_is_elementwise(o) || o->result == OP_RESULT_BOOL || o->types == OP_TYPES_INT ||
			o->types == OP_TYPES_BITS)
			continue;
		for (unsigned i = id == OP_where; i < o->arity; i++)
			ck_assert_msg(o->gradient[i], "%s has no gradient for operand %u", o->name, i);
	}
}
END_TEST

/* --- refusals ---------------------------------------------------------------------------- */

static struct fault refused(unsigned op, unsigned n, const struct tensor_type *a, const struct tensor_type *b,
	const struct tensor_type *c, const struct op_attr *attr) {
	const struct tensor_type *in[] = { a, b, c };
	struct tensor_type out, untouched;
	struct fault f = { 0 };
	int r;

	memset(&out, 0x55, sizeof out);
	untouched = out;
	r = op_infer(op, n, in, attr, &out, &f);
	ck_assert_int_ne(r, 0);
	ck_assert_int_eq(r, f.code);
	ck_assert_mem_eq(&out, &untouched, sizeof out);
	ck_assert_int_eq(op_infer(op, n, in, attr, &out, NULL), r);
	return f;
}

#define REFUSED(fault_code, sentence, ...)                                                                   \
	do {                                                                                                 \
		struct fault fault_ = refused(__VA_ARGS__);                                                  \
                                                                                                             \
		ck_assert_str_eq(fault_.text, sentence);                                                     \
		ck_assert_int_eq(fault_.code, FAULT_##fault_code);                                           \
	} while (0)

START_TEST(unknown_operations_are_refused) {
	REFUSED(OPERATION, "operation 250 does not exist", 250, 0, NULL, NULL, NULL, NULL);
	REFUSED(OPERATION, "operation 4294967295 does not exist", UINT32_MAX, 0, NULL, NULL, NULL, NULL);
	REFUSED(OPERATION, "operation 0 does not exist", 0, 0, NULL, NULL, NULL, NULL);
}
END_TEST

START_TEST(a_wrong_arity_is_refused) {
	struct tensor_type a = SHAPE(f32, 3);

	REFUSED(ARITY, "add takes 2 operands, not 1", OP_add, 1, &a, NULL, NULL, NULL);
	REFUSED(ARITY, "exp takes 1 operand, not 0", OP_exp, 0, NULL, NULL, NULL, NULL);
	REFUSED(ARITY, "fill takes 0 operands, not 1", OP_fill, 1, &a, NULL, NULL, NULL);
	REFUSED(ARITY, "where takes 3 operands, not 4000000000", OP_where, 4000000000, &a, &a, &a, NULL);
}
END_TEST

START_TEST(shapes_that_do_not_broadcast_are_refused) {
	struct tensor_type a = SHAPE(f32, 3, 4), b = SHAPE(f32, 5), c = SHAPE(f32, 4);

	REFUSED(SHAPE, "add: shapes f32[3,4] and f32[5] do not broadcast (axis 1: 4 against 5)", OP_add, 2,
		&a, &b, NULL, NULL);
	REFUSED(SHAPE, "clamp, argument c: shapes f32[3,4] and f32[5] do not broadcast (axis 1: 4 against 5)",
		OP_clamp, 3, &a, &c, &b, NULL);
}
END_TEST

START_TEST(a_broadcast_that_grows_too_large_is_refused) {
	struct tensor_type a = SHAPE(u8, INT64_C(1) << 40, 1), b = SHAPE(u8, INT64_C(1) << 40);

	REFUSED(OVERFLOW,
		"add: the size of u8[1099511627776,1099511627776] exceeds the limit of one array, "
		"1099511627776 bytes",
		OP_add, 2, &a, &b, NULL, NULL);
}
END_TEST

START_TEST(element_types_an_operation_does_not_take_are_refused) {
	struct tensor_type i = SHAPE(i32, 4), b = SHAPE(bool, 4), r = SHAPE(f32, 4), w = SHAPE(f64, 4);

	REFUSED(DTYPE, "exp takes floating-point arrays; argument a is i32[4]; cast it first", OP_exp, 1, &i,
		NULL, NULL, NULL);
	REFUSED(DTYPE, "add takes arrays of numbers; argument a is bool[4]; cast it first", OP_add, 2, &b, &b,
		NULL, NULL);
	REFUSED(DTYPE, "shift_left takes integer arrays; argument a is f32[4]; cast it first", OP_shift_left,
		2, &r, &r, NULL, NULL);
	REFUSED(DTYPE, "bitwise_and takes integer or bool arrays; argument a is f32[4]; cast it first",
		OP_bitwise_and, 2, &r, &r, NULL, NULL);
	REFUSED(DTYPE, "add: arguments a (f32[4]) and b (f64[4]) differ in element type; cast one first",
		OP_add, 2, &r, &w, NULL, NULL);
	REFUSED(DTYPE, "where takes bool arrays; argument a is f32[4]; cast it first", OP_where, 3, &r, &r,
		&r, NULL);
	REFUSED(DTYPE, "where: arguments b (f32[4]) and c (f64[4]) differ in element type; cast one first",
		OP_where, 3, &b, &r, &w, NULL);
	REFUSED(DTYPE, "mean takes floating-point arrays; argument a is i32[4]; cast it first",
		OP_reduce_mean, 1, &i, NULL, NULL, NULL);
	REFUSED(DTYPE, "cast: element type 99 does not exist", OP_cast, 1, &r, NULL, NULL,
		&(struct op_attr){ .dtype = 99 });
}
END_TEST

START_TEST(a_rank_above_the_limit_is_refused) {
	struct tensor_type a = SCALAR(f32);
	struct op_attr nine = { .rank = 9 };

	REFUSED(RANK, "fill: 9 dimensions are more than the limit of 8", OP_fill, 0, NULL, NULL, NULL, &nine);
	REFUSED(RANK, "load: 9 dimensions are more than the limit of 8", OP_load, 0, NULL, NULL, NULL, &nine);
	REFUSED(RANK, "reshape: 9 dimensions are more than the limit of 8", OP_reshape, 1, &a, NULL, NULL,
		&nine);
	REFUSED(RANK, "broadcast: 9 dimensions are more than the limit of 8", OP_broadcast, 1, &a, NULL, NULL,
		&nine);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused) {
	struct op_attr wraps = {
		.dtype = DTYPE_f32, .rank = 2, .dims = { INT64_C(1) << 32, INT64_C(1) << 32 }
	};
	struct op_attr negative = { .dtype = DTYPE_f32, .rank = 1, .dims = { -1 } };
	struct tensor_type bytes = SHAPE(u8, INT64_C(1) << 40);

	REFUSED(OVERFLOW,
		"load: the size of f32[4294967296,4294967296] exceeds the limit of one array, 1099511627776 "
		"bytes",
		OP_load, 0, NULL, NULL, NULL, &wraps);
	REFUSED(SHAPE, "load: the extent of axis 0 of f32[-1] is negative", OP_load, 0, NULL, NULL, NULL,
		&negative);
	REFUSED(OVERFLOW,
		"cast: the size of f64[1099511627776] exceeds the limit of one array, 1099511627776 bytes",
		OP_cast, 1, &bytes, NULL, NULL, &(struct op_attr){ .dtype = DTYPE_f64 });
	REFUSED(OVERFLOW,
		"sum: the size of u64[1099511627776] exceeds the limit of one array, 1099511627776 bytes",
		OP_reduce_sum, 1, &bytes, NULL, NULL, &(struct op_attr){ 0 });
}
END_TEST

START_TEST(reductions_refuse_axes_that_are_not_there_and_the_largest_of_nothing) {
	struct tensor_type a = SHAPE(f32, 3, 4), e = SHAPE(f32, 3, 0);

	REFUSED(ARGUMENT, "sum: axis 2 does not exist in f32[3,4]", OP_reduce_sum, 1, &a, NULL, NULL,
		&(struct op_attr){ .axes = 1 << 2 });
	REFUSED(ARGUMENT, "sum: axis 15 does not exist in f32[3,4]", OP_reduce_sum, 1, &a, NULL, NULL,
		&(struct op_attr){ .axes = 1 << 15 | 1 });
	REFUSED(SHAPE, "max of nothing: axis 1 of f32[3,0] is empty", OP_reduce_max, 1, &e, NULL, NULL,
		&(struct op_attr){ .axes = 1 << 1 });
	REFUSED(ARGUMENT, "flip: axis 2 does not exist in f32[3,4]", OP_flip, 1, &a, NULL, NULL,
		&(struct op_attr){ .axes = 1 << 2 });
}
END_TEST

START_TEST(scalars_that_are_no_value_of_their_type_are_refused) {
	struct op_attr a = { .dtype = DTYPE_bool, .value = { 2 } };

	REFUSED(ARGUMENT, "fill: the word 0x2 is no value of bool", OP_fill, 0, NULL, NULL, NULL, &a);
	a = (struct op_attr){ .dtype = DTYPE_u8, .rank = 1, .dims = { 4 }, .value = { 0, 256 } };
	REFUSED(ARGUMENT, "arange: the word 0x100 is no value of u8", OP_arange, 0, NULL, NULL, NULL, &a);
	a = (struct op_attr){ .dtype = 77 };
	REFUSED(DTYPE, "fill: element type 77 does not exist", OP_fill, 0, NULL, NULL, NULL, &a);
	a = (struct op_attr){ .dtype = DTYPE_bool, .rank = 1 };
	REFUSED(DTYPE, "arange counts in numbers, not in bool", OP_arange, 0, NULL, NULL, NULL, &a);
	a = (struct op_attr){ .dtype = DTYPE_i32, .rank = 2 };
	REFUSED(SHAPE, "arange makes 1 dimension, not 2", OP_arange, 0, NULL, NULL, NULL, &a);
}
END_TEST

START_TEST(views_that_do_not_fit_are_refused) {
	struct tensor_type a = SHAPE(f32, 3, 4);
	struct op_attr five = { .rank = 1, .dims = { 5 } }, twice = { .rank = 2, .perm = { 1, 1 } };
	struct op_attr far = { .rank = 2, .perm = { 0, 200 } }, one = { .rank = 1 };
	struct op_attr narrow = { .rank = 2, .dims = { 1, 4 } };

	REFUSED(SHAPE, "reshape: f32[3,4] has 12 elements, f32[5] has 5", OP_reshape, 1, &a, NULL, NULL,
		&five);
	REFUSED(ARGUMENT, "permute: axis 1 of f32[3,4] is named twice", OP_permute, 1, &a, NULL, NULL,
		&twice);
	REFUSED(ARGUMENT, "permute: axis 200 of f32[3,4] is not there", OP_permute, 1, &a, NULL, NULL, &far);
	REFUSED(SHAPE, "permute: 1 axes named for the 2 of f32[3,4]", OP_permute, 1, &a, NULL, NULL, &one);
	REFUSED(SHAPE, "broadcast: f32[3,4] does not broadcast to f32[5]", OP_broadcast, 1, &a, NULL, NULL,
		&five);
	REFUSED(SHAPE, "broadcast: f32[3,4] does not broadcast to f32[1,4]", OP_broadcast, 1, &a, NULL, NULL,
		&narrow);
	REFUSED(SHAPE, "slice: ranges of 1 axes given for the 2 of f32[3,4]", OP_slice, 1, &a, NULL, NULL,
		&one);
}
END_TEST

static struct op_attr slice(int64_t start, int64_t step, int64_t count) {
	return (struct op_attr){ .rank = 1, .start = { start }, .step = { step }, .dims = { count } };
}

START_TEST(slices_that_leave_their_axis_are_refused) {
	static const int64_t rows[][3] = { { 0, 1, 11 }, { 10, 1, 1 }, { -1, 1, 1 }, { 1, 3, 4 },
		{ 8, -3, 4 }, { 0, INT64_MAX, 3 }, { 9, INT64_MIN, 2 }, { 0, 1, INT64_MAX }, { 0, 1, -1 },
		{ INT64_MAX, 1, 2 }, { INT64_MIN, INT64_MIN, INT64_MAX } };
	struct tensor_type a = SHAPE(f32, 10);
	struct op_attr still = slice(0, 0, 1);

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct op_attr s = slice(rows[i][0], rows[i][1], rows[i][2]);

		ck_assert_int_eq(refused(OP_slice, 1, &a, NULL, NULL, &s).code, FAULT_SHAPE);
	}
	REFUSED(ARGUMENT, "slice: the step on axis 0 of f32[10] is 0", OP_slice, 1, &a, NULL, NULL, &still);
	still = slice(8, -3, 4);
	REFUSED(SHAPE, "slice: 4 elements from index 8 by -3 leave axis 0 of f32[10]", OP_slice, 1, &a, NULL,
		NULL, &still);
}
END_TEST

START_TEST(windows_that_leave_their_axis_are_refused) {
	struct tensor_type a = SHAPE(f32, 3, 10), deep = SHAPE(f32, 1, 1, 1, 1, 1, 1, 1, 2);
	struct op_attr none = { .axis = 2, .window = { 1, 1, 1 } }, still = { .axis = 1, .window = { 2, 0, 1 } };
	struct op_attr wide = { .axis = 1, .window = { 11, 1, 1 } }, far = { .axis = 1, .window = { 4, 1, 4 } };
	struct op_attr huge = { .axis = 1, .window = { INT64_MAX, 1, INT64_MAX } };
	struct op_attr one = { .axis = 7, .window = { 2, 1, 1 } };

	REFUSED(ARGUMENT, "windows: axis 2 does not exist in f32[3,10]", OP_windows, 1, &a, NULL, NULL, &none);
	REFUSED(ARGUMENT, "windows: size 2, step 0 and dilation 1 must be at least 1", OP_windows, 1, &a, NULL,
		NULL, &still);
	REFUSED(SHAPE, "windows: 11 elements, each 1 further, do not fit axis 1 of f32[3,10]", OP_windows, 1, &a,
		NULL, NULL, &wide);
	REFUSED(SHAPE, "windows: 4 elements, each 4 further, do not fit axis 1 of f32[3,10]", OP_windows, 1, &a,
		NULL, NULL, &far);
	ck_assert_int_eq(refused(OP_windows, 1, &a, NULL, NULL, &huge).code, FAULT_SHAPE);
	REFUSED(RANK, "windows: one more than 8 dimensions is more than the limit of 8", OP_windows, 1, &deep,
		NULL, NULL, &one);
}
END_TEST

START_TEST(gathers_that_do_not_fit_are_refused) {
	struct tensor_type a = SHAPE(f32, 3, 4), i = SHAPE(i32, 5, 3), j = SHAPE(f16, 2), k = SHAPE(u8, 5);
	struct tensor_type b = SHAPE(bool, 2), deep = SHAPE(i32, 1, 1, 1, 1, 1, 1, 1, 1);
	struct op_attr none = { .axis = 2 }, first = { .axis = 0 };

	REFUSED(ARGUMENT, "take: axis 2 does not exist in f32[3,4]", OP_take, 2, &a, &i, NULL, &none);
	REFUSED(DTYPE, "take takes integer arrays; argument index is f16[2]; cast it first", OP_take, 2, &a, &j, NULL,
		&first);
	REFUSED(DTYPE, "take_along takes integer arrays; argument index is bool[2]; cast it first", OP_take_along, 2, &a,
		&b, NULL, &first);
	REFUSED(RANK, "take: index and a make 9 dimensions, more than the limit of 8", OP_take, 2, &a, &deep, NULL, &first);
	REFUSED(SHAPE, "take_along of f32[3,4] by index u8[5]: the axes but 0 do not broadcast", OP_take_along, 2, &a, &k,
		NULL, &first);
	REFUSED(SHAPE, "take_along of f32[3,4] by index i32[5,3]: the axes but 0 do not broadcast", OP_take_along, 2, &a,
		&i, NULL, &first);
}
END_TEST

START_TEST(parts_that_do_not_fit_are_refused) {
	struct tensor_type a = SHAPE(f32, 3, 4), i = SHAPE(i32, 3, 4), b = SHAPE(f32, 2, 5), v = SHAPE(f32, 3);
	struct op_attr none = { .axis = 2 }, first = { .axis = 0 };
	struct op_attr short_ = { .rank = 2, .start = { 1, 0 }, .dims = { 3, 4 } };
	struct op_attr before = { .rank = 2, .start = { -1, 0 }, .dims = { 3, 4 } };
	struct op_attr one = { .rank = 1, .dims = { 3 } }, same = { .rank = 2, .dims = { 3, 4 } };

	REFUSED(ARGUMENT, "concat: axis 2 does not exist in f32[3,4]", OP_concat, 2, &a, &a, NULL, &none);
	REFUSED(DTYPE, "concat: arguments array 0 (f32[3,4]) and array 1 (i32[3,4]) differ in element type; cast one first",
		OP_concat, 2, &a, &i, NULL, &first);
	REFUSED(SHAPE, "concat along axis 0: array 0 (f32[3,4]) and array 1 (f32[2,5]) differ on another axis",
		OP_concat, 2, &a, &b, NULL, &first);
	REFUSED(SHAPE, "concat along axis 0: array 0 (f32[3,4]) and array 2 (f32[3]) are of 2 and 1 dimensions", OP_concat,
		3, &a, &a, &v, &first);
	REFUSED(ARGUMENT, "pad: axis 0 of f32[3,4] does not fit 3 elements after the first 1", OP_pad, 1, &a, NULL,
		NULL, &short_);
	REFUSED(ARGUMENT, "pad: axis 0 of f32[3,4] does not fit 3 elements after the first -1", OP_pad, 1, &a, NULL,
		NULL, &before);
	REFUSED(SHAPE, "pad: 1 axes given for the 2 of f32[3,4]", OP_pad, 1, &a, NULL, NULL, &one);
	REFUSED(SHAPE, "pad: argument value is f32[3], not one element of rank 0", OP_pad, 2, &a, &v, NULL, &same);
}
END_TEST

START_TEST(products_that_do_not_fit_are_refused) {
	struct tensor_type a = SHAPE(f32, 2, 3), b = SHAPE(f32, 4, 5), v = SHAPE(f32, 3),
			   t = SHAPE(bool, 3, 3);
	struct tensor_type x = SHAPE(f32, 2, 5, 3), y = SHAPE(f32, 3, 3, 5);

	REFUSED(SHAPE, "matmul of f32[2,3] and f32[4,5]: the last axis of a and the last but one of b differ",
		OP_matmul, 2, &a, &b, NULL, NULL);
	REFUSED(SHAPE, "matmul of f32[2,3] and f32[3]: a and b need at least 2 dimensions", OP_matmul, 2, &a, &v,
		NULL, NULL);
	REFUSED(SHAPE, "matmul of f32[2,5,3] and f32[3,3,5]: the leading axes do not broadcast", OP_matmul, 2,
		&x, &y, NULL, NULL);
	REFUSED(DTYPE, "matmul takes arrays of numbers; argument a is bool[3,3]; cast it first", OP_matmul, 2,
		&t, &t, NULL, NULL);
}
END_TEST

/* --- results ----------------------------------------------------------------------------- */

static struct tensor_type inferred(unsigned op, unsigned n, const struct tensor_type *a,
	const struct tensor_type *b, const struct tensor_type *c, const struct op_attr *attr) {
	const struct tensor_type *in[] = { a, b, c };
	struct tensor_type out;
	struct fault f;

	if (op_infer(op, n, in, attr, &out, &f))
		ck_abort_msg("%s", f.text);
	return out;
}

#define INFERRED(text, ...)                                                                                  \
	do {                                                                                                 \
		struct tensor_type out_ = inferred(__VA_ARGS__);                                             \
		char got_[SHAPE_TEXT];                                                                       \
                                                                                                             \
		ck_assert_str_eq(shape_text(&out_, got_), text);                                             \
	} while (0)

START_TEST(elementwise_results_broadcast_and_comparisons_are_bool) {
	struct tensor_type a = SHAPE(f32, 3, 1), b = SHAPE(f32, 2, 1, 4), s = SCALAR(f32), m = SHAPE(bool, 4);

	INFERRED("f32[2,3,4]", OP_add, 2, &a, &b, NULL, NULL);
	INFERRED("bool[2,3,4]", OP_lt, 2, &b, &a, NULL, NULL);
	INFERRED("f32[3,1]", OP_mul, 2, &s, &a, NULL, NULL);
	INFERRED("f32[3,4]", OP_where, 3, &m, &a, &s, NULL);
	INFERRED("bool[3,1]", OP_isnan, 1, &a, NULL, NULL, NULL);
	INFERRED("f32[]", OP_exp, 1, &s, NULL, NULL, NULL);
}
END_TEST

START_TEST(every_elementwise_operation_takes_exactly_the_types_of_its_row) {
	static const char *const kinds[] = { [OP_TYPES_ANY] = "bsur",
		[OP_TYPES_NUM] = "sur",
		[OP_TYPES_REAL] = "r",
		[OP_TYPES_INT] = "su",
		[OP_TYPES_BITS] = "bsu",
		[OP_TYPES_BOOL] = "b" };

	for (unsigned id = 0; id < OP_COUNT; id++) {
		const struct op_info *o = op_info(id);

		for (int d = 0; o && op_is_elementwise(o) && d < DTYPE_COUNT; d++) {
			struct tensor_type t = { .dtype = (uint8_t)d, .rank = 1, .dims = { 3 } },
					   m = SHAPE(bool, 3), out;
			const struct tensor_type *in[] = { id == OP_where ? &m : &t, &t, &t };
			bool takes = strchr(kinds[o->types], "bsur"[dtype_info((enum dtype)d)->kind]) != NULL;
			int r = op_infer(id, o->arity, in, NULL, &out, NULL);

			ck_assert_int_eq(r, takes ? 0 : FAULT_DTYPE);
			if (!r)
				ck_assert_int_eq(out.dtype, o->result == OP_RESULT_BOOL ? DTYPE_bool : d);
		}
	}
}
END_TEST

START_TEST(reductions_drop_or_keep_axes_and_sums_widen) {
	struct tensor_type a = SHAPE(i8, 2, 3, 4), u = SHAPE(u16, 5), b = SHAPE(bool, 5),
			   h = SHAPE(f16, 5, 0);
	struct op_attr some = { .axes = 5 }, keep = { .axes = 5, .keepdims = true }, first = { .axes = 1 };
	struct op_attr second = { .axes = 2 };

	INFERRED("i64[3]", OP_reduce_sum, 1, &a, NULL, NULL, &some);
	INFERRED("i64[1,3,1]", OP_reduce_sum, 1, &a, NULL, NULL, &keep);
	INFERRED("i64[3]", OP_reduce_prod, 1, &a, NULL, NULL, &some);
	INFERRED("bool[1,3,1]", OP_reduce_any, 1, &a, NULL, NULL, &keep);
	INFERRED("bool[]", OP_reduce_all, 1, &u, NULL, NULL, &first);
	INFERRED("i8[3]", OP_reduce_max, 1, &a, NULL, NULL, &some);
	INFERRED("u64[]", OP_reduce_sum, 1, &u, NULL, NULL, &first);
	INFERRED("i64[]", OP_reduce_sum, 1, &b, NULL, NULL, &first);
	INFERRED("f16[5]", OP_reduce_mean, 1, &h, NULL, NULL, &second);
	INFERRED("f16[0]", OP_reduce_max, 1, &h, NULL, NULL, &first);
	INFERRED("i64[2,3,4]", OP_reduce_sum, 1, &a, NULL, NULL, NULL);
	ck_assert_int_eq(op_accumulator(OP_reduce_sum, DTYPE_f16), DTYPE_f32);
	ck_assert_int_eq(op_accumulator(OP_reduce_mean, DTYPE_bf16), DTYPE_f32);
	ck_assert_int_eq(op_accumulator(OP_reduce_prod, DTYPE_f16), DTYPE_f32);
	ck_assert_int_eq(op_accumulator(OP_reduce_any, DTYPE_f16), DTYPE_bool);
	ck_assert_int_eq(op_accumulator(OP_reduce_sum, DTYPE_f64), DTYPE_f64);
	ck_assert_int_eq(op_accumulator(OP_reduce_sum, DTYPE_bool), DTYPE_i64);
	ck_assert_int_eq(op_accumulator(OP_reduce_sum, DTYPE_i8), DTYPE_i64);
	ck_assert_int_eq(op_accumulator(OP_reduce_sum, DTYPE_u8), DTYPE_u64);
	ck_assert_int_eq(op_accumulator(OP_reduce_max, DTYPE_f16), DTYPE_f16);
}
END_TEST

START_TEST(structural_results_follow_numpy) {
	struct tensor_type a = SHAPE(f32, 3, 4), x = SHAPE(i32, 7, 1, 2, 3), y = SHAPE(i32, 5, 3, 4),
			   e = SHAPE(f32, 0, 9);
	struct op_attr twelve = { .rank = 3, .dims = { 2, 1, 6 } }, swap = { .rank = 2, .perm = { 1, 0 } };
	struct tensor_type index = SHAPE(i8, 2, 7), column = SHAPE(u64, 2, 1);
	struct op_attr wide = { .rank = 3, .dims = { 5, 3, 4 } },
		       arange = { .dtype = DTYPE_i32, .rank = 1, .dims = { 9 } };
	struct op_attr empty = { .rank = 2, .dims = { 5, 0 } };
	struct op_attr back = { .rank = 2, .start = { 2, 3 }, .step = { -1, -3 }, .dims = { 3, 2 } };
	struct op_attr none = { .rank = 2, .start = { 99, 0 }, .step = { 1, 1 }, .dims = { 0, 4 } };

	INFERRED("f32[2,1,6]", OP_reshape, 1, &a, NULL, NULL, &twelve);
	INFERRED("f32[5,0]", OP_reshape, 1, &e, NULL, NULL, &empty);
	INFERRED("f32[4,3]", OP_permute, 1, &a, NULL, NULL, &swap);
	INFERRED("f32[5,3,4]", OP_broadcast, 1, &a, NULL, NULL, &wide);
	INFERRED("f32[3,2]", OP_slice, 1, &a, NULL, NULL, &back);
	INFERRED("f32[0,4]", OP_slice, 1, &a, NULL, NULL, &none);
	INFERRED("f32[3,4]", OP_flip, 1, &a, NULL, NULL, &(struct op_attr){ .axes = 3 });
	INFERRED("f32[2,4,2]", OP_windows, 1, &a, NULL, NULL,
		&(struct op_attr){ .axis = 0, .window = { 2, 1, 1 } });
	INFERRED("f32[3,1,2]", OP_windows, 1, &a, NULL, NULL,
		&(struct op_attr){ .axis = 1, .window = { 2, INT64_MAX, 3 } });
	INFERRED("f32[3,2,7]", OP_take, 2, &a, &index, NULL, &(struct op_attr){ .axis = 1 });
	INFERRED("f32[2,7,4]", OP_take, 2, &a, &index, NULL, &(struct op_attr){ .axis = 0 });
	INFERRED("f32[2,4]", OP_take_along, 2, &a, &column, NULL, &(struct op_attr){ .axis = 0 });
	INFERRED("f32[3,4]", OP_copy, 1, &a, NULL, NULL, NULL);
	INFERRED("u8[3,4]", OP_cast, 1, &a, NULL, NULL, &(struct op_attr){ .dtype = DTYPE_u8 });
	INFERRED("i32[9]", OP_arange, 0, NULL, NULL, NULL, &arange);
	INFERRED("bool[]", OP_fill, 0, NULL, NULL, NULL, &(struct op_attr){ .value = { 1 } });
	INFERRED("i32[7,5,2,4]", OP_matmul, 2, &x, &y, NULL, NULL);
}
END_TEST

static struct tensor_type random_type(uint64_t *state) {
	struct tensor_type t = { .dtype = (uint8_t)random_below(state, DTYPE_COUNT),
		.rank = (uint8_t)random_below(state, LIMIT_RANK + 1) };

	do {
		for (unsigned d = 0; d < t.rank; d++)
			t.dims[d] = random_below(state, 4) ? random_below(state, 4)
							   : llabs(random_extreme(state) >> 1);
	} while (shape_check(&t, NULL));
	return t;
}

static struct op_attr random_attr(uint64_t *state) {
	struct op_attr a = { .dtype = (uint8_t)random_below(state, DTYPE_COUNT + 1),
		.rank = (uint8_t)random_below(state, 10),
		.keepdims = random_word(state) & 1,
		.axes = (uint16_t)(random_word(state) >> random_below(state, 16)) };

	for (unsigned d = 0; d < LIMIT_RANK; d++) {
		a.perm[d] = (uint8_t)random_below(state, LIMIT_RANK + 1);
		a.dims[d] = random_below(state, 2) ? random_below(state, 4) : random_extreme(state);
		a.start[d] = random_below(state, 2) ? random_below(state, 4) : random_extreme(state);
		a.step[d] = random_below(state, 2) ? 1 : random_extreme(state);
	}
	a.axis = (uint8_t)random_below(state, random_below(state, 9) ? 4 : 256);
	a.window.size = random_below(state, 2) ? random_below(state, 4) : random_extreme(state);
	a.window.step = random_below(state, 2) ? 1 : random_extreme(state);
	a.window.dilation = random_below(state, 2) ? 1 : random_extreme(state);
	a.value[0] = random_word(state) >> random_below(state, 64);
	a.value[1] = random_word(state) >> random_below(state, 64);
	a.whole = random_below(state, 2) ? random_below(state, 4) : random_extreme(state);
	a.number = random_below(state, 3);
	return a;
}

START_TEST(whatever_is_asked_the_answer_is_a_checked_shape_or_a_sentence) {
	unsigned accepted = 0, refusals = 0;
	uint64_t state = 1;

	for (int i = 0; i < 300000; i++) {
		struct tensor_type in[LIMIT_OPERANDS], out;
		const struct tensor_type *inp[LIMIT_OPERANDS];
		struct op_attr attr = random_attr(&state);
		unsigned op = random_below(&state, OP_COUNT);
		struct fault f = { 0 };
		int r;

		for (unsigned k = 0; k < LIMIT_OPERANDS; k++) {
			in[k] = k && random_below(&state, 4) ? in[0] : random_type(&state);
			inp[k] = &in[k];
		}
		r = op_infer(op, op_info(op) ? op_info(op)->arity : 0, inp, &attr, &out, &f);
		must(r >= 0 && (!r || (r == f.code && strlen(f.text) > 10)));
		must(r || !shape_check(&out, NULL));
		accepted += !r;
		refusals += r > 0;
	}
	ck_assert_uint_gt(accepted, 20000);
	ck_assert_uint_gt(refusals, 20000);
}
END_TEST

RUN_TESTS("protocol_op", ids_are_unique_and_fit_the_table, error_and_dtype_numbers_are_unique,
	names_are_unique_and_found, every_row_has_all_columns_of_its_class, every_gradient_text_parses,
	every_composite_text_parses_over_its_operands,
	operations_on_floats_have_a_gradient_for_each_operand, unknown_operations_are_refused,
	a_wrong_arity_is_refused, shapes_that_do_not_broadcast_are_refused,
	a_broadcast_that_grows_too_large_is_refused, element_types_an_operation_does_not_take_are_refused,
	a_rank_above_the_limit_is_refused, sizes_that_overflow_are_refused,
	reductions_refuse_axes_that_are_not_there_and_the_largest_of_nothing,
	scalars_that_are_no_value_of_their_type_are_refused, views_that_do_not_fit_are_refused,
	slices_that_leave_their_axis_are_refused, windows_that_leave_their_axis_are_refused,
	gathers_that_do_not_fit_are_refused, parts_that_do_not_fit_are_refused, products_that_do_not_fit_are_refused,
	elementwise_results_broadcast_and_comparisons_are_bool,
	every_elementwise_operation_takes_exactly_the_types_of_its_row,
	reductions_drop_or_keep_axes_and_sums_widen, structural_results_follow_numpy,
	whatever_is_asked_the_answer_is_a_checked_shape_or_a_sentence)

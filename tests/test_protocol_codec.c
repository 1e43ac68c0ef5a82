/* Operations on the wire: what is put is got, and what is wrong is refused by name. */
#include "protocol/codec.h"

#include "protocol/attribute.h"

#include <string.h>

#include "tests/test_protocol.h"

enum {
	OPERANDS_SEEN = 100
};

/* --- every operation, there and back ------------------------------------------------------ */

static void random_operands(uint64_t *state, struct coded_op *o) {
	for (unsigned i = 0; i < o->arity; i++) {
		int64_t handle = (int64_t)(random_word(state) >> (1 + random_below(state, 63)));

		o->in[i] = random_word(state) & 1 ? random_below(state, OPERANDS_SEEN) : -1 - handle;
	}
}

static void random_named(uint64_t *state, uint32_t attributes, struct op_attr *a) {
	for (; attributes; attributes &= attributes - 1) {
		enum op_attribute which = (enum op_attribute)__builtin_ctz(attributes);
		bool small = attribute_info(which)->kind == ATTRIBUTE_KIND_FLAG;
		struct fault f;

		if (attribute_info(which)->kind == ATTRIBUTE_KIND_LIST) {
			a->rank = a->rank ? a->rank : (uint8_t)(1 + random_below(state, LIMIT_RANK));
			for (unsigned d = 0; d < a->rank; d++)
				attribute_list(a, which)[d] = random_extreme(state);
			continue;
		}
		must(!attribute_set(a, which, random_below(state, small ? 2 : DTYPE_COUNT), &f));
	}
}

/* The attributes codec.h lists for the operation, and no other. */
static void random_attributes(uint64_t *state, struct coded_op *o) {
	const struct op_info *info = op_info(o->op);
	bool typed = o->op == OP_load || o->op == OP_fill || o->op == OP_arange || o->op == OP_cast;
	bool shaped = o->op == OP_load || o->op == OP_fill || o->op == OP_reshape || o->op == OP_broadcast ||
		      o->op == OP_slice || o->op == OP_pad;
	struct op_attr *a = &o->attr;

	if (info->class == OP_CLASS_COMPOSITE) {
		random_named(state, info->attributes, a);
		return;
	}
	if (typed)
		a->dtype = (uint8_t)random_below(state, DTYPE_COUNT);
	if (shaped || o->op == OP_permute)
		a->rank = (uint8_t)random_below(state, LIMIT_RANK + 1);
	for (unsigned d = 0; d < a->rank; d++) {
		a->dims[d] = shaped ? random_extreme(state) & INT64_MAX : 0;
		a->start[d] = o->op == OP_slice || o->op == OP_pad ? random_extreme(state) : 0;
		a->step[d] = o->op == OP_slice ? random_extreme(state) : 0;
		a->perm[d] = o->op == OP_permute ? (uint8_t)random_below(state, LIMIT_RANK) : 0;
	}
	if (info->class == OP_CLASS_REDUCE || info->class == OP_CLASS_SCAN || o->op == OP_flip)
		a->axes = (uint16_t)random_below(state, 1 << LIMIT_RANK);
	if (o->op == OP_windows || o->op == OP_concat || o->op == OP_take || o->op == OP_take_along || op_sorts(o->op))
		a->axis = (uint8_t)random_below(state, LIMIT_RANK);
	if (o->op == OP_windows) {
		a->window.size = random_extreme(state);
		a->window.step = random_extreme(state);
		a->window.dilation = random_extreme(state);
	}
	a->flag = (op_sorts(o->op) || o->op == OP_searchsorted) && (random_word(state) & 1);
	a->keepdims = info->class == OP_CLASS_REDUCE && (random_word(state) & 1);
	if (o->op == OP_fill || o->op == OP_arange)
		a->value[0] = random_word(state);
	if (o->op == OP_arange) {
		a->rank = 1;
		a->dims[0] = random_extreme(state) & INT64_MAX;
		a->value[1] = random_word(state);
	}
	if (o->op == OP_load) {
		a->arena = (uint32_t)random_word(state);
		a->offset = random_word(state);
	}
}

static void expect_equal(const struct coded_op *a, const struct coded_op *b) {
	must(a->op == b->op && a->arity == b->arity);
	must(!memcmp(a->in, b->in, sizeof a->in));
	must(a->attr.dtype == b->attr.dtype && a->attr.rank == b->attr.rank);
	must(a->attr.keepdims == b->attr.keepdims && a->attr.axes == b->attr.axes);
	must(a->attr.axis == b->attr.axis);
	must(!memcmp(&a->attr.window, &b->attr.window, sizeof a->attr.window));
	must(!memcmp(a->attr.perm, b->attr.perm, sizeof a->attr.perm));
	must(!memcmp(a->attr.dims, b->attr.dims, sizeof a->attr.dims));
	must(!memcmp(a->attr.start, b->attr.start, sizeof a->attr.start));
	must(!memcmp(a->attr.step, b->attr.step, sizeof a->attr.step));
	must(!memcmp(a->attr.value, b->attr.value, sizeof a->attr.value));
	must(!memcmp(&a->attr.number, &b->attr.number, sizeof a->attr.number));
	must(a->attr.whole == b->attr.whole && a->attr.flag == b->attr.flag);
	must(a->attr.arena == b->attr.arena && a->attr.offset == b->attr.offset);
}

START_TEST(every_operation_comes_back_as_it_was_put) {
	struct wire_writer w;
	uint64_t state = 1;

	wire_writer_init(&w);
	for (int i = 0; i < 100000; i++) {
		struct coded_op put, got;
		struct wire_reader r;
		struct wire_cursor c;
		struct fault f;

		memset(&put, 0, sizeof put);
		put.op = (uint16_t)random_below(&state, OP_COUNT);
		if (!op_info(put.op))
			continue;
		put.arity = (uint8_t)(op_least(put.op) +
				      random_below(&state, op_info(put.op)->arity - op_least(put.op) + 1));
		random_operands(&state, &put);
		random_attributes(&state, &put);
		wire_writer_clear(&w);
		wire_put_array(&w, 1);
		codec_put_op(&w, &put);
		must(!wire_open(&r, w.buffer.data, w.buffer.size, &f));
		c = wire_root(&r);
		if (codec_get_op(&c, OPERANDS_SEEN, &got, &f))
			ck_abort_msg("%s: %s", op_info(put.op)->name, f.text);
		expect_equal(&put, &got);
		must(!c.left);
		wire_close(&r);
	}
	wire_writer_free(&w);
}
END_TEST

START_TEST(a_type_comes_back_as_it_was_put) {
	struct tensor_type put = { .dtype = DTYPE_i16, .rank = 3, .dims = { 4, 0, 1000000 } }, got;
	struct wire_writer w;
	struct wire_reader r;
	struct wire_cursor c;
	struct fault f;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	codec_put_type(&w, &put);
	ck_assert_int_eq(wire_open(&r, w.buffer.data, w.buffer.size, &f), 0);
	c = wire_root(&r);
	ck_assert_int_eq(codec_get_type(&c, &got, &f), 0);
	ck_assert(shape_equal(&put, &got));
	wire_close(&r);
	wire_writer_free(&w);
}
END_TEST

/* --- refusals ---------------------------------------------------------------------------- */

enum {
	END = INT32_MIN,
	OPEN,
	CLOSE
}; /* in lists of numbers: the end, [ and ] */

/* Writes nested arrays of numbers; returns what follows the closing bracket. */
static const int64_t *write_list(struct wire_writer *w, const int64_t *p) {
	const int64_t *q = p;
	uint32_t count = 0;

	for (int depth = 0; *q != END && (depth || *q != CLOSE); q++) {
		count += !depth && *q != CLOSE;
		depth += *q == OPEN ? 1 : *q == CLOSE ? -1 : 0;
	}
	wire_put_array(w, count);
	while (*p != END && *p != CLOSE) {
		if (*p == OPEN)
			p = write_list(w, p + 1);
		else
			wire_put_int(w, *p++);
	}
	return *p == CLOSE ? p + 1 : p;
}

static int get_written(const int64_t *list, bool type, struct fault *f) {
	struct tensor_type t;
	struct wire_writer w;
	struct wire_reader r;
	struct wire_cursor c;
	struct coded_op o;
	int code;

	wire_writer_init(&w);
	wire_put_array(&w, 1);
	write_list(&w, list);
	ck_assert_int_eq(wire_open(&r, w.buffer.data, w.buffer.size, f), 0);
	c = wire_root(&r);
	code = type ? codec_get_type(&c, &t, f) : codec_get_op(&c, 3, &o, f);
	wire_close(&r);
	wire_writer_free(&w);
	return code;
}

#define REFUSED(fault_code, sentence, ...)                                                                   \
	do {                                                                                                 \
		struct fault fault_ = { 0 };                                                                 \
                                                                                                             \
		ck_assert_int_eq(get_written((const int64_t[]){ __VA_ARGS__, END }, false, &fault_),         \
			FAULT_##fault_code);                                                                 \
		ck_assert_str_eq(fault_.text, sentence);                                                     \
	} while (0)

#define TYPE_REFUSED(fault_code, sentence, ...)                                                              \
	do {                                                                                                 \
		struct fault fault_ = { 0 };                                                                 \
                                                                                                             \
		ck_assert_int_eq(get_written((const int64_t[]){ __VA_ARGS__, END }, true, &fault_),          \
			FAULT_##fault_code);                                                                 \
		ck_assert_str_eq(fault_.text, sentence);                                                     \
	} while (0)

START_TEST(unknown_operations_are_refused) {
	REFUSED(OPERATION, "operation 250 does not exist", 250, 0, 0);
	REFUSED(OPERATION, "operation 0 does not exist", 0);
	REFUSED(OPERATION, "operation 1099511627776 does not exist", INT64_C(1) << 40);
	REFUSED(PROTOCOL, "field operation is an integer instead of an unsigned number", -1);
	REFUSED(PROTOCOL, "field operation is missing", END);
}
END_TEST

START_TEST(a_wrong_arity_is_refused) {
	REFUSED(ARITY, "add takes 2 operands, not 1", OP_add, 0);
	REFUSED(ARITY, "add takes 2 operands, not 3", OP_add, 0, 0, 0);
	REFUSED(ARITY, "exp takes 1 operand, not 0", OP_exp);
	REFUSED(ARITY, "cast takes 1 operand and 1 attribute, not 1 values", OP_cast, 0);
	REFUSED(ARITY, "sum takes 1 operand and 2 attributes, not 4 values", OP_reduce_sum, 0, 0, 0, 0);
}
END_TEST

START_TEST(operands_that_do_not_exist_yet_are_refused) {
	struct fault f;

	ck_assert_int_eq(get_written((const int64_t[]){ OP_add, 2, -1, END }, false, &f), 0);
	REFUSED(PROTOCOL, "field operand is not between -9223372036854775808 and 2", OP_add, 3, 0);
	REFUSED(PROTOCOL, "field operand is an array instead of an integer", OP_add, OPEN, CLOSE, 0);
}
END_TEST

START_TEST(a_rank_above_the_limit_is_refused) {
	REFUSED(RANK, "reshape: field dims has 9 dimensions, more than the limit of 8", OP_reshape, 0, OPEN,
		1, 1, 1, 1, 1, 1, 1, 1, 1, CLOSE);
	REFUSED(RANK, "permute: field perm has 9 dimensions, more than the limit of 8", OP_permute, 0, OPEN,
		0, 1, 2, 3, 4, 5, 6, 7, 0, CLOSE);
	TYPE_REFUSED(RANK, "field dims has 9 dimensions, more than the limit of 8", DTYPE_f32, OPEN, 1, 1, 1,
		1, 1, 1, 1, 1, 1, CLOSE);
}
END_TEST

START_TEST(attributes_that_do_not_read_are_refused) {
	REFUSED(DTYPE, "cast: element type 13 does not exist", OP_cast, 0, DTYPE_COUNT);
	REFUSED(PROTOCOL, "cast: field dtype is 256, more than 255", OP_cast, 0, 256);
	REFUSED(PROTOCOL, "reshape: field dims is not between 0 and 9223372036854775807", OP_reshape, 0, OPEN,
		-1, CLOSE);
	REFUSED(PROTOCOL, "slice: field step has 1 entries instead of 2", OP_slice, 0, OPEN, 0, 0, CLOSE,
		OPEN, 1, CLOSE, OPEN, 1, 1, CLOSE);
	REFUSED(PROTOCOL, "slice: field dims has 3 entries instead of 2", OP_slice, 0, OPEN, 0, 0, CLOSE,
		OPEN, 1, 1, CLOSE, OPEN, 1, 1, 1, CLOSE);
	REFUSED(PROTOCOL, "permute: field perm is 8, more than 7", OP_permute, 0, OPEN, 8, CLOSE);
	REFUSED(PROTOCOL, "flip: field axes is 256, more than 255", OP_flip, 0, 256);
	REFUSED(PROTOCOL, "sum: field keepdims is an integer instead of a truth value", OP_reduce_sum, 0, 1,
		1);
	REFUSED(PROTOCOL, "load: field arena is 4294967296, more than 4294967295", OP_load, DTYPE_f32, OPEN,
		4, CLOSE, INT64_C(1) << 32, 0);
}
END_TEST

START_TEST(types_that_do_not_read_are_refused) {
	TYPE_REFUSED(DTYPE, "element type 13 does not exist", DTYPE_COUNT, OPEN, CLOSE);
	TYPE_REFUSED(PROTOCOL, "field dims is missing", DTYPE_f32);
	TYPE_REFUSED(PROTOCOL, "field type has 3 entries, more than 2", DTYPE_f32, OPEN, CLOSE, 0);
	TYPE_REFUSED(OVERFLOW,
		"the size of f32[4294967296,4294967296] exceeds the limit of one array, 1099511627776 bytes",
		DTYPE_f32, OPEN, INT64_C(1) << 32, INT64_C(1) << 32, CLOSE);
}
END_TEST

/* --- a whole batch, damaged --------------------------------------------------------------- */

/* A batch with one operation of each kind of attribute. */
static void write_batch(struct wire_writer *w) {
	static const struct coded_op ops[] = {
		{ .op = OP_load,
			.attr = { .dtype = DTYPE_f32,
				.rank = 2,
				.dims = { 3, 4 },
				.arena = 1,
				.offset = 128 } },
		{ .op = OP_fill, .attr = { .dtype = DTYPE_f32, .value = { 0x3f800000 } } },
		{ .op = OP_arange,
			.attr = { .dtype = DTYPE_i32, .rank = 1, .dims = { 4 }, .value = { 0, 1 } } },
		{ .op = OP_cast, .arity = 1, .in = { 2 }, .attr = { .dtype = DTYPE_f32 } },
		{ .op = OP_fma, .arity = 3, .in = { 0, 1, 3 } },
		{ .op = OP_slice,
			.arity = 1,
			.in = { 4 },
			.attr = { .rank = 2, .dims = { 2, 2 }, .start = { 0, 3 }, .step = { 2, -2 } } },
		{ .op = OP_permute, .arity = 1, .in = { 5 }, .attr = { .rank = 2, .perm = { 1, 0 } } },
		{ .op = OP_reshape, .arity = 1, .in = { 6 }, .attr = { .rank = 1, .dims = { 4 } } },
		{ .op = OP_flip, .arity = 1, .in = { 7 }, .attr = { .axes = 1 } },
		{ .op = OP_broadcast, .arity = 1, .in = { 8 }, .attr = { .rank = 2, .dims = { 3, 4 } } },
		{ .op = OP_add, .arity = 2, .in = { 9, 0 } },
		{ .op = OP_reduce_sum, .arity = 1, .in = { 10 }, .attr = { .axes = 3, .keepdims = true } },
	};

	wire_put_array(w, sizeof ops / sizeof *ops);
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		codec_put_op(w, &ops[i]);
	ck_assert_int_eq(wire_finish(w), 0);
}

enum {
	MOST_OPS = 64
};

/* Reads and infers as the daemon does; how many operations were good, or -1 for no frame. */
static int read_batch(const void *bytes, size_t size) {
	struct tensor_type types[MOST_OPS] = {
		0
	}; /* handles name the first: before it is written, a scalar */
	struct wire_reader r;
	struct wire_cursor c;
	int n = 0;

	if (wire_open(&r, bytes, size, NULL))
		return -1;
	for (c = wire_root(&r); c.left && n < MOST_OPS; n++) {
		const struct tensor_type *in[LIMIT_OPERANDS];
		struct coded_op o;
		struct fault f;

		if (codec_get_op(&c, (uint32_t)n, &o, &f))
			break;
		for (unsigned i = 0; i < o.arity; i++)
			in[i] = &types[o.in[i] >= 0 ? o.in[i] : 0];
		if (op_infer(o.op, o.arity, in, &o.attr, &types[n], &f))
			break;
		must(!shape_check(&types[n], NULL));
	}
	wire_close(&r);
	return n;
}

START_TEST(every_prefix_of_a_batch_is_refused) {
	struct wire_writer w;

	wire_writer_init(&w);
	write_batch(&w);
	for (size_t n = 0; n < w.buffer.size; n++) {
		void *copy = malloc(n + 1);

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, w.buffer.data, n);
		ck_assert_int_eq(read_batch(copy, n), -1);
		free(copy);
	}
	ck_assert_int_eq(read_batch(w.buffer.data, w.buffer.size), 12);
	wire_writer_free(&w);
}
END_TEST

START_TEST(mutated_batches_never_harm_the_reader) {
	unsigned whole = 0, partly = 0;
	struct wire_writer w;
	uint64_t state = 7;
	uint8_t *copy;
	size_t size;

	wire_writer_init(&w);
	write_batch(&w);
	size = w.buffer.size;
	copy = malloc(size);
	ck_assert_ptr_nonnull(copy);
	for (int i = 0; i < 100000; i++) {
		int n;

		memcpy(copy, w.buffer.data, size);
		for (unsigned k = 1 + random_below(&state, 3); k; k--)
			copy[random_below(&state, (unsigned)size)] =
				(uint8_t)(random_word(&state) >> random_below(&state, 8));
		n = read_batch(copy, size);
		whole += n == 12;
		partly += n >= 0 && n < 12;
	}
	ck_assert_uint_gt(whole, 100);
	ck_assert_uint_gt(partly, 1000);
	free(copy);
	wire_writer_free(&w);
}
END_TEST

RUN_TESTS("protocol_codec", every_operation_comes_back_as_it_was_put, a_type_comes_back_as_it_was_put,
	unknown_operations_are_refused, a_wrong_arity_is_refused, operands_that_do_not_exist_yet_are_refused,
	a_rank_above_the_limit_is_refused, attributes_that_do_not_read_are_refused,
	types_that_do_not_read_are_refused, every_prefix_of_a_batch_is_refused,
	mutated_batches_never_harm_the_reader)

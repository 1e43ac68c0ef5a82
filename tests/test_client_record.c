/* Recording and sending with libfusion: what reaches the daemon, and what never does. */
#include "client/fusion.h"

#include "tests/fake_context.h"

/* --- contents ---------------------------------------------------------------------------- */

START_TEST(an_array_comes_back_as_it_was_given) {
	static const int64_t sizes[] = { 0, 1, 7, 1024, 300000, 3000000 };

	open_context();
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t bytes = (size_t)sizes[i] * sizeof(float);
		fusion_array *a = vector(sizes[i], 1.5F);
		float *back = malloc(bytes + 1);

		ck_assert_uint_eq(fusion_bytes(a), bytes);
		ck_assert_msg(!fusion_read(a, back, bytes), "%s", fusion_error());
		for (int64_t k = 0; k < sizes[i]; k++)
			must(back[k] == 1.5F + (float)k);
		free(back);
		fusion_release(a);
	}
	close_context();
}
END_TEST

START_TEST(results_of_the_engines_memory_are_read) {
	int64_t dims[] = { 3, 5 };
	fusion_array *a;
	float back[15];

	open_context();
	a = fusion_full(context, FUSION_F32, 2, dims, 2.25);
	ck_assert(!fusion_read(a, back, sizeof back));
	for (int i = 0; i < 15; i++)
		ck_assert(back[i] == 2.25F);
	ck_assert_int_eq(fusion_rank(a), 2);
	ck_assert_int_eq(fusion_dims(a)[1], 5);
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(memory_filled_in_place_is_an_array_after_unmap) {
	int64_t n = 100;
	float *memory, back[100];
	fusion_array *a, *b;

	open_context();
	a = fusion_create(context, FUSION_F32, 1, &n, (void **)&memory);
	ck_assert_msg(a != NULL, "%s", fusion_error());
	ck_assert_ptr_null(fusion_neg(a));
	expect_error(FUSION_E_STATE, "unmap");
	for (int i = 0; i < 100; i++)
		memory[i] = (float)i;
	ck_assert_int_eq(fusion_version(a), 0);
	ck_assert(!fusion_unmap(a));
	ck_assert_int_eq(fusion_version(a), 1);
	ck_assert(!fusion_read(a, back, sizeof back));
	ck_assert(back[99] == 99.0F);
	b = fusion_neg(a);
	ck_assert_ptr_nonnull(b);
	fusion_release(a);
	fusion_release(b);
	/* One that is given up while it is mapped leaves nothing behind. */
	a = fusion_create(context, FUSION_F32, 1, &n, (void **)&memory);
	fusion_release(a);
	close_context();
}
END_TEST

/* --- what is sent ------------------------------------------------------------------------ */

START_TEST(nothing_is_sent_before_it_is_needed) {
	fusion_array *a, *b;

	open_context();
	a = vector(10, 0);
	b = fusion_tanh(a);
	ck_assert_uint_eq(fake.requests[REQUEST_SUBMIT], 0);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.requests[REQUEST_SUBMIT], 1);
	ck_assert_uint_eq(fake.ops, 2);
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

START_TEST(dead_code_is_never_sent) {
	fusion_array *a, *b, *c, *d;

	open_context();
	a = vector(10, 0);
	b = fusion_tanh(a);
	c = fusion_exp(b);
	d = fusion_add(c, c);
	fusion_release(d);
	fusion_release(c);
	fusion_release(b);
	b = fusion_sqrt(a);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.ops, 2);
	ck_assert_uint_eq(fake.op_count[OP_tanh] + fake.op_count[OP_exp] + fake.op_count[OP_add], 0);
	ck_assert_uint_eq(fake.op_count[OP_sqrt], 1);
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

START_TEST(what_nobody_holds_gets_no_handle) {
	fusion_array *a, *b;

	open_context();
	a = vector(10, 0);
	for (int i = 0; i < 50; i++) {
		b = fusion_add_scalar(a, 1);
		fusion_release(a);
		a = b;
	}
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.op_count[OP_add], 50);
	ck_assert_uint_eq(fake.op_count[OP_fill], 1);
	ck_assert_uint_eq(fake.outputs, 1);
	ck_assert_uint_eq(fake.live, 1);
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(an_abandoned_upload_gives_its_memory_back) {
	open_context();
	for (int i = 0; i < 1000; i++)
		fusion_release(vector(200000, 0));
	ck_assert_uint_eq(fake.ops, 0);
	ck_assert_uint_eq(fake.arenas, 1);
	close_context();
}
END_TEST

START_TEST(uploads_in_a_loop_run_in_constant_memory) {
	float back;
	uint64_t bytes = 0;

	open_context();
	for (int i = 0; i < 500; i++) {
		fusion_array *a = vector(250000, (float)i), *b = fusion_sum(a, 0, NULL, false);

		fusion_release(a);
		if (i % 10 == 0)
			ck_assert(!fusion_read(b, &back, sizeof back));
		fusion_release(b);
	}
	for (uint32_t i = 1; i <= fake.arenas; i++)
		bytes += fake.arena[i].bytes;
	ck_assert_msg(bytes <= 64 << 20, "%u arenas of %lu bytes for 500 arrays of 1 MB", fake.arenas,
		(unsigned long)bytes);
	close_context();
}
END_TEST

START_TEST(a_full_batch_is_sent_by_itself) {
	struct fusion_options options = { .batch_ops = 100 };
	fusion_array *a, *b;

	open_context_with(options);
	a = vector(10, 0);
	for (int i = 0; i < 1000; i++) {
		b = fusion_neg(a);
		fusion_release(a);
		a = b;
	}
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.op_count[OP_neg], 1000);
	ck_assert_uint_eq(fake.requests[REQUEST_SUBMIT], 11);
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(released_arrays_do_not_pile_up_in_the_daemon) {
	fusion_array *a[20];
	unsigned before;

	open_context();
	for (int i = 0; i < 20; i++)
		a[i] = vector(1000000, 0);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.live, 20);
	before = fake_requests(REQUEST_SUBMIT);
	for (int i = 0; i < 20; i++)
		fusion_release(a[i]);
	for (int i = 0; i < 200 && fake_requests(REQUEST_SUBMIT) == before; i++)
		usleep(10000);
	ck_assert_uint_gt(fake_requests(REQUEST_SUBMIT), before);
	close_context();
}
END_TEST

START_TEST(handles_are_used_again_with_a_new_generation) {
	open_context();
	for (int i = 0; i < 3000; i++) {
		fusion_array *a = vector(4, 0);

		ck_assert(!fusion_flush(context));
		fusion_release(a);
	}
	ck_assert(!fusion_sync(context));
	ck_assert_uint_le(fake.live, 1);
	close_context();
}
END_TEST

/* --- types and shapes -------------------------------------------------------------------- */

static fusion_array *full(enum fusion_dtype dtype, double value) {
	int64_t dims[] = { 2, 3 };
	fusion_array *a = fusion_full(context, dtype, 2, dims, value);

	ck_assert_msg(a != NULL, "%s", fusion_error());
	return a;
}

START_TEST(operands_meet_in_the_wider_type) {
	fusion_array *i, *f, *h, *r, *b;

	open_context();
	i = full(FUSION_I32, 3);
	f = full(FUSION_F16, 2);
	h = full(FUSION_U8, 1);
	r = fusion_mul(i, f);
	ck_assert_int_eq(fusion_dtype_of(r), FUSION_F16);
	fusion_release(r);
	r = fusion_add(h, i);
	ck_assert_int_eq(fusion_dtype_of(r), FUSION_I32);
	b = fusion_lt(h, i);
	ck_assert_int_eq(fusion_dtype_of(b), FUSION_BOOL);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.op_count[OP_cast], 2);
	fusion_release(fusion_where(b, i, f));
	fusion_release(r);
	fusion_release(b);
	fusion_release(i);
	fusion_release(f);
	fusion_release(h);
	close_context();
}
END_TEST

START_TEST(scalars_take_the_type_of_the_array) {
	fusion_array *i, *r;

	open_context();
	i = full(FUSION_I32, 3);
	r = fusion_scalar_sub(10, i);
	ck_assert_int_eq(fusion_dtype_of(r), FUSION_I32);
	ck_assert(!fusion_sync(context));
	ck_assert_int_eq(fake.last[OP_sub].in[1], 0); /* the array was recorded first */
	ck_assert_int_eq(fake.last[OP_sub].in[0], 1);
	fusion_release(r);
	ck_assert_ptr_null(fusion_add_scalar(i, 2.5));
	expect_error(FUSION_E_DTYPE, "2.5 is no value of i32");
	ck_assert_ptr_null(fusion_add_scalar(i, 3e9));
	expect_error(FUSION_E_DTYPE, "3000000000 is no value of i32");
	fusion_release(i);
	close_context();
}
END_TEST

START_TEST(integers_beyond_a_double_are_given_as_integers) {
	fusion_array *a;

	open_context();
	a = fusion_full_int(context, FUSION_I64, 0, NULL, INT64_MAX - 1);
	ck_assert_ptr_nonnull(a);
	ck_assert(!fusion_sync(context));
	ck_assert(fake.last[OP_fill].attr.value[0] == INT64_MAX - 1);
	ck_assert_ptr_null(fusion_full_int(context, FUSION_U64, 0, NULL, -1));
	expect_error(FUSION_E_DTYPE, "-1 is no value of u64");
	ck_assert_ptr_null(fusion_full(context, FUSION_I64, 0, NULL, 0x1p63));
	expect_error(FUSION_E_DTYPE, "i64");
	ck_assert_ptr_null(fusion_full(context, FUSION_U8, 0, NULL, -1));
	expect_error(FUSION_E_DTYPE, "u8");
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(every_operation_of_the_table_is_sent) {
	fusion_array *f, *i, *b;

	open_context();
	f = full(FUSION_F32, 1);
	i = full(FUSION_I32, 1);
	b = full(FUSION_BOOL, 1);
#define PICK(types)                                                                                          \
	(OP_TYPES_##types == OP_TYPES_BITS || OP_TYPES_##types == OP_TYPES_INT ? i                           \
		: OP_TYPES_##types == OP_TYPES_BOOL                            ? b                           \
									       : f)
#define SEEN(id, call)                                                                                       \
	do {                                                                                                 \
		unsigned before = fake.op_count[id];                                                         \
		fusion_array *r = call;                                                                      \
		ck_assert_msg(r != NULL, "%s", fusion_error());                                              \
		ck_assert(!fusion_sync(context));                                                            \
		ck_assert_uint_eq(fake.op_count[id], before + 1);                                            \
		fusion_release(r);                                                                           \
	} while (0);
#define UNARY(id, name, types, ...) SEEN(id, fusion_##name(PICK(types)))
#define BINARY(id, name, types, ...)                                                                         \
	SEEN(id, fusion_##name(PICK(types), PICK(types)))                                                    \
	SEEN(id, fusion_##name##_scalar(PICK(types), 1))                                                     \
	SEEN(id, fusion_scalar_##name(1, PICK(types)))
#define TERNARY(id, name, types, ...)                                                                        \
	SEEN(id, fusion_##name(id == OP_where ? b : PICK(types), PICK(types), PICK(types)))
#define REDUCE(id, name, types, ...) SEEN(id, fusion_##name(PICK(types), 0, NULL, true))
#define SCAN(id, name, types, ...) SEEN(id, fusion_##name(PICK(types), -1))
#include "protocol/ops.def"
	fusion_release(f);
	fusion_release(i);
	fusion_release(b);
	close_context();
}
END_TEST

/* Indices that Python's range(*slice(...).indices(n)) gives. */
static int64_t python_slice(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *firstp) {
	int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n, count = 0;

	if (start == FUSION_END)
		start = step < 0 ? high : low;
	else if (start < 0)
		start = start + n < low ? low : start + n;
	else if (start > high)
		start = high;
	if (stop == FUSION_END)
		stop = step < 0 ? low : high;
	else if (stop < 0)
		stop = stop + n < low ? low : stop + n;
	else if (stop > high)
		stop = high;
	*firstp = start;
	for (int64_t i = start; step < 0 ? i > stop : i < stop; i += step)
		count++;
	return count;
}

START_TEST(slices_follow_python) {
	static const int64_t bounds[] = { FUSION_END, -9, -6, -5, -1, 0, 1, 4, 5, 6, 9 };
	static const int64_t steps[] = { 1, 2, 3, 7, -1, -2, -7 };
	unsigned count = sizeof bounds / sizeof *bounds;
	fusion_array *a;

	open_context();
	a = vector(5, 0);
	for (unsigned i = 0; i < count * count * 7; i++) {
		int64_t start = bounds[i % count], stop = bounds[i / count % count],
			step = steps[i / count / count];
		int64_t first, want = python_slice(5, start, stop, step, &first);
		fusion_array *s = fusion_slice(a, &start, &stop, &step);

		ck_assert_msg(s != NULL, "%s", fusion_error());
		ck_assert_msg(*fusion_dims(s) == want, "[%ld:%ld:%ld] has %ld elements, not %ld", (long)start,
			(long)stop, (long)step, (long)*fusion_dims(s), (long)want);
		ck_assert(!fusion_sync(context));
		if (want)
			ck_assert_int_eq(fake.last[OP_slice].attr.start[0], first);
		fusion_release(s);
	}
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(extreme_slices_neither_overflow_nor_read_outside) {
	int64_t start = 1, stop = INT64_MAX, step = INT64_MAX, back = INT64_MIN + 1, zero = 0;
	fusion_array *a, *s;

	open_context();
	a = vector(5, 0);
	s = fusion_slice(a, &start, &stop, &step);
	ck_assert_int_eq(*fusion_dims(s), 1);
	fusion_release(s);
	s = fusion_slice(a, &stop, &back, &back);
	ck_assert_int_eq(*fusion_dims(s), 1);
	fusion_release(s);
	ck_assert_ptr_null(fusion_slice(a, &start, &stop, &zero));
	expect_error(FUSION_E_ARGUMENT, "step");
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(matmul_takes_vectors_as_numpy_does) {
	int64_t dims[] = { 2, 3, 4 };
	fusion_array *t, *v, *w, *r;

	open_context();
	t = fusion_full(context, FUSION_F32, 3, dims, 1);
	v = vector(4, 0);
	w = vector(3, 0);
	r = fusion_matmul(t, v);
	ck_assert_int_eq(fusion_rank(r), 2);
	ck_assert_int_eq(fusion_dims(r)[1], 3);
	fusion_release(r);
	r = fusion_matmul(w, t);
	ck_assert_int_eq(fusion_rank(r), 2);
	ck_assert_int_eq(fusion_dims(r)[1], 4);
	fusion_release(r);
	r = fusion_matmul(v, v);
	ck_assert_int_eq(fusion_rank(r), 0);
	ck_assert(!fusion_sync(context));
	fusion_release(r);
	ck_assert_ptr_null(fusion_matmul(v, w));
	expect_error(FUSION_E_SHAPE, "matmul");
	fusion_release(t);
	fusion_release(v);
	fusion_release(w);
	close_context();
}
END_TEST

START_TEST(axes_and_extents_in_pythons_manner) {
	int64_t dims[] = { 2, 3, 4 }, open[] = { -1, 4 }, twice[] = { -1, -1 }, uneven[] = { -1, 5 };
	int last = -1, same[] = { 0, -3 }, beyond = 3;
	fusion_array *t, *r;

	open_context();
	t = fusion_full(context, FUSION_F32, 3, dims, 1);
	r = fusion_reshape(t, 2, open);
	ck_assert_int_eq(fusion_dims(r)[0], 6);
	fusion_release(r);
	r = fusion_sum(t, 1, &last, false);
	ck_assert_int_eq(fusion_rank(r), 2);
	fusion_release(r);
	r = fusion_permute(t, NULL);
	ck_assert_int_eq(fusion_dims(r)[0], 4);
	fusion_release(r);
	r = fusion_transpose(t);
	ck_assert_int_eq(fusion_dims(r)[1], 4);
	fusion_release(r);
	r = fusion_flip(t, 0, NULL);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.last[OP_flip].attr.axes, 7);
	fusion_release(r);
	ck_assert_ptr_null(fusion_reshape(t, 2, twice));
	expect_error(FUSION_E_ARGUMENT, "both -1");
	ck_assert_ptr_null(fusion_reshape(t, 2, uneven));
	expect_error(FUSION_E_SHAPE, "do not divide");
	ck_assert_ptr_null(fusion_max(t, 2, same, false));
	expect_error(FUSION_E_ARGUMENT, "twice");
	ck_assert_ptr_null(fusion_flip(t, 1, &beyond));
	expect_error(FUSION_E_ARGUMENT, "axis 3 does not exist");
	ck_assert_ptr_null(fusion_full(context, FUSION_F32, 9, dims, 1));
	expect_error(FUSION_E_RANK, "rank 9");
	fusion_release(t);
	close_context();
}
END_TEST

/* --- errors ------------------------------------------------------------------------------ */

START_TEST(an_error_names_shapes_and_the_callers_line) {
	char place[64];
	fusion_array *a, *b;

	open_context();
	a = vector(3, 0);
	b = vector(4, 0);
	snprintf(place, sizeof place, " (at %s:%d)", __FILE__, __LINE__ + 1);
	ck_assert_ptr_null(fusion_add(a, b));
	ck_assert_int_eq(fusion_error_code(), FUSION_E_SHAPE);
	ck_assert_ptr_nonnull(strstr(fusion_error(), place));
	ck_assert_ptr_nonnull(strstr(fusion_error(), "add"));
	ck_assert_ptr_nonnull(strstr(fusion_error(), "f32[3]"));
	ck_assert_ptr_nonnull(strstr(fusion_error(), "f32[4]"));
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

/* Whatever operations it makes. */
START_TEST(an_error_names_the_call) {
	fusion_array *a, *b;

	open_context();
	a = vector(3, 0);
	b = vector(4, 0);
	ck_assert_ptr_null(fusion_full(context, FUSION_F32, 1, (int64_t[]){ -1 }, 0));
	ck_assert_int_eq(strncmp(fusion_error(), "full: the extent", 16), 0);
	ck_assert_int_eq(fusion_copy_into(a, b), FUSION_E_SHAPE);
	ck_assert_int_eq(strncmp(fusion_error(), "copy_into: f32[4]", 17), 0);
	fusion_close(context);
	ck_assert_ptr_null(fusion_neg(a));
	ck_assert_int_eq(strncmp(fusion_error(), "neg: argument a is of a context that was closed", 47), 0);
	fusion_release(a);
	fusion_release(b);
	fake_stop();
}
END_TEST

/* As a library does that gives its callers one function for several of ours. */
static fusion_array *sum_of_three(fusion_array *a, fusion_array *b, const char *file, int line) {
	fusion_array *ab, *sum;

	fusion_at(file, line);
	fusion_at("within.c", 1);
	ab = fusion_add(a, a);
	fusion_at(NULL, 0);
	sum = fusion_add(ab, b);
	fusion_release(ab);
	fusion_at(NULL, 0);
	return sum;
}

START_TEST(a_wrapper_refuses_as_the_library_does) {
	char sentence[256];

	snprintf(sentence, sizeof sentence, "mine: not so (at %s:%d)", __FILE__, __LINE__ + 1);
	ck_assert_int_eq(fusion_refuse(FUSION_E_SHAPE, "mine: not so"), FUSION_E_SHAPE);
	ck_assert_int_eq(fusion_error_code(), FUSION_E_SHAPE);
	ck_assert_str_eq(fusion_error(), sentence);
	ck_assert_int_eq(fusion_refuse(0, "mine"), FUSION_E_ARGUMENT);
	ck_assert_int_eq(fusion_refuse(-1, NULL), FUSION_E_ARGUMENT);
	ck_assert_int_eq(fusion_refuse(1 << 20, NULL), FUSION_E_ARGUMENT);
	ck_assert_int_eq(fusion_refuse(FUSION_E_SHAPE, ""), FUSION_E_SHAPE);
	ck_assert_int_eq(strncmp(fusion_error(), "refuse: no sentence says why", 28), 0);
	fusion_error_clear();
}
END_TEST

START_TEST(a_wrapper_hands_its_callers_line_down) {
	fusion_array *a, *b;
	char place[64];

	open_context();
	a = vector(3, 0);
	b = vector(4, 0);
	ck_assert_ptr_null(sum_of_three(a, b, "caller.c", 12));
	ck_assert_ptr_nonnull(strstr(fusion_error(), " (at caller.c:12)"));
	/* One end too many is none of another call's. */
	fusion_at(NULL, 0);
	snprintf(place, sizeof place, " (at %s:%d)", __FILE__, __LINE__ + 1);
	ck_assert_ptr_null(fusion_add(a, b));
	ck_assert_ptr_nonnull(strstr(fusion_error(), place));
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

START_TEST(expressions_nest_and_keep_the_first_error) {
	fusion_array *a, *b;

	open_context();
	a = vector(3, 0);
	b = vector(4, 0);
	ck_assert_ptr_null(fusion_tanh(fusion_mul_scalar(fusion_add(a, b), 2)));
	expect_error(FUSION_E_SHAPE, "add");
	ck_assert_ptr_null(fusion_tanh(NULL));
	expect_error(FUSION_E_ARGUMENT, "argument a is NULL");
	ck_assert_int_eq(fusion_read(NULL, NULL, 0), FUSION_E_ARGUMENT);
	fusion_error_clear();
	fusion_release(NULL);
	fusion_release(a);
	fusion_release(b);
	close_context();
}
END_TEST

START_TEST(a_read_of_the_wrong_size_is_refused) {
	float back[4];
	fusion_array *a;

	open_context();
	a = vector(3, 0);
	ck_assert_int_eq(fusion_read(a, back, sizeof back), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "16 bytes were given for an array of 12");
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(where_no_daemon_answers_the_sentence_helps) {
	struct fusion_options options = { .socket = "/nonexistent/door" };

	ck_assert_int_eq(fusion_open(&context, &options), FUSION_E_CONNECT);
	ck_assert_ptr_null(context);
	ck_assert_ptr_nonnull(strstr(fusion_error(), "/nonexistent/door"));
	ck_assert_ptr_nonnull(strstr(fusion_error(), "start fusiond"));
	ck_assert_ptr_nonnull(strstr(fusion_error(), "FUSION_SOCKET"));
	fusion_close(NULL);
}
END_TEST

START_TEST(options_and_environment_reach_the_daemon) {
	struct fusion_options options = { .fusion = FUSION_OFF };

	open_context_with(options);
	ck_assert_str_eq(fake.options, "fusion.enabled=0");
	ck_assert_str_eq(fusion_device(context), "fake device");
	ck_assert(!fusion_configure(context, "fusion.enabled", "1"));
	ck_assert_int_eq(fusion_configure(context, "no.such", "1"), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "no.such");
	fusion_close(context);
	setenv("FUSION_SOCKET", fake.door, 1);
	setenv("FUSION_ENABLED", "1", 1);
	ck_assert(!fusion_open(&context, NULL));
	ck_assert_str_eq(fake.options, "fusion.enabled=1");
	close_context();
}
END_TEST

START_TEST(memory_that_cannot_be_had_is_an_error_not_an_end) {
	fusion_array *a;
	int64_t n = 10, huge = INT64_C(1) << 62;

	open_context();
	fake.refuse_arenas = true;
	ck_assert_ptr_null(fusion_from(context, FUSION_F32, 1, &n, &n));
	expect_error(FUSION_E_MEMORY, "no memory left");
	fake.refuse_arenas = false;
	ck_assert_ptr_null(fusion_from(context, FUSION_F32, 1, &huge, &n));
	expect_error(FUSION_E_OVERFLOW, "from");
	a = vector(10, 0);
	fusion_release(a);
	close_context();
}
END_TEST

/* What was asked, what is held, and whose lines made the oldest of it. */
START_TEST(a_memory_error_says_what_is_held_since_which_lines) {
	static float data[1 << 16];
	int64_t small = 4, large = 1 << 16;
	fusion_array *held[4];
	char text[160];
	int line;

	open_context();
	line = __LINE__ + 1;
	held[0] = fusion_from(context, FUSION_F32, 1, &small, data);
	held[1] = fusion_exp(held[0]);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	for (int i = 2; i < 4; i++)
		held[i] = fusion_tanh(held[1]);
	ck_assert_msg(!fusion_sync(context), "%s", fusion_error());
	fake.refuse_arenas = true;
	for (int i = 0; i < 10000 && !fusion_error_code(); i++)
		fusion_release(fusion_create(context, FUSION_F32, 1, (int64_t[]){ large << (i / 1000) }, &(void *){ NULL }));
	fake.refuse_arenas = false;
	snprintf(text, sizeof text, "; held: 4 arrays of 64 bytes, the oldest from %s:%d, ", __FILE__, line);
	ck_assert_msg(strstr(fusion_error(), text) != NULL, "\"%s\" lacks \"%s\"", fusion_error(), text);
	snprintf(text, sizeof text, "%s:%d, %s:%d (at ", __FILE__, line + 1, __FILE__, line + 4);
	ck_assert_msg(strstr(fusion_error(), text) != NULL, "\"%s\" lacks \"%s\"", fusion_error(), text);
	expect_error(FUSION_E_MEMORY, "create: no room for f32[");
	for (int i = 0; i < 4; i++)
		fusion_release(held[i]);
	close_context();
}
END_TEST

/* --- writing ------------------------------------------------------------------------------ */

static void expect_values(fusion_array *a, int n, const float *values) {
	float back[8];

	ck_assert_msg(!fusion_read(a, back, (size_t)n * sizeof *back), "%s", fusion_error());
	for (int i = 0; i < n; i++)
		ck_assert_float_eq(back[i], values[i]);
}

/* As fusion.h and libfusion(3) say where a beginner looks. */
START_TEST(a_slice_that_is_written_leaves_what_it_was_cut_from) {
	static const float before[] = { 0, 1, 2, 3 }, one[] = { 7, 8 }, two[] = { 5, 5 }, three[] = { 3, 4 }, after[] = { 0, 3, 4, 3 };
	fusion_array *a, *x, *s;
	void *memory;

	open_context();
	a = vector(4, 0);
	x = vector(2, 7);
	s = fusion_slice(a, (int64_t[]){ 1 }, (int64_t[]){ 3 }, NULL);
	ck_assert_msg(!fusion_copy_into(s, x), "%s", fusion_error());
	expect_values(s, 2, one);
	expect_values(a, 4, before);
	ck_assert_msg(!fusion_fill_into(s, 5), "%s", fusion_error());
	expect_values(s, 2, two);
	expect_values(a, 4, before);
	fusion_release(s);
	s = fusion_slice(a, (int64_t[]){ 1 }, (int64_t[]){ 3 }, NULL);
	ck_assert_msg(!fusion_map(s, FUSION_MAP_WRITE, &memory), "%s", fusion_error());
	memcpy(memory, three, sizeof three);
	ck_assert_msg(!fusion_unmap(s), "%s", fusion_error());
	expect_values(s, 2, three);
	expect_values(a, 4, before);
	ck_assert_msg(!fusion_map(a, FUSION_MAP_WRITE, &memory), "%s", fusion_error());
	memcpy((float *)memory + 1, three, sizeof three);
	ck_assert_msg(!fusion_unmap(a), "%s", fusion_error());
	expect_values(a, 4, after);
	fusion_release(s);
	fusion_release(x);
	fusion_release(a);
	close_context();
}
END_TEST

/* --- scopes ------------------------------------------------------------------------------ */

START_TEST(a_scope_releases_what_was_made_in_it) {
	fusion_array *a, *kept;

	open_context();
	a = vector(3, 0);
	ck_assert(!fusion_scope_begin(context));
	kept = fusion_keep(fusion_tanh(fusion_exp(a)));
	ck_assert(!fusion_scope_begin(context));
	fusion_sqrt(a);
	fusion_release(fusion_log(a));
	ck_assert(!fusion_scope_end(context));
	fusion_sin(a);
	ck_assert(!fusion_scope_end(context));
	ck_assert_int_eq(fusion_scope_end(context), FUSION_E_STATE);
	fusion_error_clear();
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.ops, 3);
	ck_assert_uint_eq(fake.outputs, 2);
	fusion_release(kept);
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(arrays_outlive_their_context_to_be_released) {
	fusion_array *a, *b;
	float *memory;

	open_context();
	a = vector(3, 0);
	b = fusion_tanh(a);
	ck_assert(!fusion_sync(context));
	ck_assert(!fusion_map(a, FUSION_MAP_READ, (void **)&memory));
	fusion_close(context);
	ck_assert(memory[2] == 2.0F);
	ck_assert_ptr_null(fusion_neg(a));
	expect_error(FUSION_E_STATE, "closed");
	fusion_release(a);
	fusion_release(b);
	fake_stop();
}
END_TEST

START_TEST(retained_arrays_need_as_many_releases) {
	fusion_array *a;

	open_context();
	a = vector(3, 0);
	ck_assert_ptr_eq(fusion_retain(a), a);
	fusion_release(a);
	ck_assert_int_eq(fusion_elements(a), 3);
	ck_assert_ptr_eq(fusion_context_of(a), context);
	fusion_release(a);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.ops, 0);
	close_context();
}
END_TEST

RUN_TESTS("client_record", an_array_comes_back_as_it_was_given, results_of_the_engines_memory_are_read,
	memory_filled_in_place_is_an_array_after_unmap, nothing_is_sent_before_it_is_needed,
	dead_code_is_never_sent, what_nobody_holds_gets_no_handle, an_abandoned_upload_gives_its_memory_back,
	uploads_in_a_loop_run_in_constant_memory, a_full_batch_is_sent_by_itself,
	released_arrays_do_not_pile_up_in_the_daemon, handles_are_used_again_with_a_new_generation,
	operands_meet_in_the_wider_type, scalars_take_the_type_of_the_array,
	integers_beyond_a_double_are_given_as_integers, every_operation_of_the_table_is_sent,
	slices_follow_python, extreme_slices_neither_overflow_nor_read_outside,
	matmul_takes_vectors_as_numpy_does, axes_and_extents_in_pythons_manner,
	an_error_names_shapes_and_the_callers_line, an_error_names_the_call, a_wrapper_hands_its_callers_line_down, a_wrapper_refuses_as_the_library_does,
	expressions_nest_and_keep_the_first_error,
	a_read_of_the_wrong_size_is_refused, where_no_daemon_answers_the_sentence_helps,
	options_and_environment_reach_the_daemon, memory_that_cannot_be_had_is_an_error_not_an_end,
	a_memory_error_says_what_is_held_since_which_lines, a_slice_that_is_written_leaves_what_it_was_cut_from, a_scope_releases_what_was_made_in_it,
	arrays_outlive_their_context_to_be_released,
	retained_arrays_need_as_many_releases)

/* Gradients with libfusion: what is recorded and kept for them, and what is refused. The values are the oracle's. */
#include "client/fusion.h"

#include "tests/fake_context.h"

/* Not one value, which is made again rather than kept. */
static fusion_array *watched(int64_t rows, int64_t columns) {
	static const float data[15];
	fusion_array *a = fusion_from(context, FUSION_F32, 2, (int64_t[]){ rows, columns }, data);

	ck_assert_msg(a != NULL, "%s", fusion_error());
	ck_assert_msg(!fusion_watch(a), "%s", fusion_error());
	return a;
}

/* tanh(tanh(... a)): each reads its result going back. */
static fusion_array *chain(fusion_array *a, unsigned length) {
	fusion_array *y = fusion_retain(a);

	for (unsigned i = 0; i < length; i++) {
		fusion_array *next = fusion_tanh(y);

		fusion_release(y);
		y = next;
	}
	ck_assert_msg(y != NULL, "%s", fusion_error());
	return y;
}

static fusion_array *gradient(fusion_array *y, fusion_array *x) {
	fusion_array *g;

	ck_assert_msg(!fusion_grad(y, NULL, &x, 1, &g), "%s", fusion_error());
	return g;
}

static uint64_t kept(void) {
	uint64_t now;

	ck_assert(!fusion_kept_bytes(context, &now, NULL));
	return now;
}

START_TEST(nothing_is_kept_where_nothing_is_watched) {
	fusion_array *a, *y;

	open_context();
	a = matrix(FUSION_F32, 3, 5);
	y = chain(a, 4);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.outputs, 2);
	ck_assert_uint_eq(kept(), 0);
	fusion_release(a);
	fusion_release(y);
	close_context();
}
END_TEST

START_TEST(what_the_rules_read_is_kept_until_it_is_differentiated) {
	const uint64_t bytes = 15 * sizeof(float);
	fusion_array *a, *y, *g;
	uint64_t peak;

	open_context();
	a = watched(3, 5);
	y = chain(a, 4);
	ck_assert(!fusion_sync(context));
	/* The first result, of which the next two are made again; the last is the user's. */
	ck_assert_uint_eq(fake.outputs, 3);
	ck_assert_uint_eq(kept(), bytes);
	g = gradient(y, a);
	ck_assert_uint_eq(kept(), 0);
	ck_assert(!fusion_kept_bytes(context, NULL, &peak));
	ck_assert_uint_eq(peak, bytes);
	fusion_release(a);
	fusion_release(y);
	fusion_release(g);
	close_context();
}
END_TEST

START_TEST(forward_and_backward_pass_in_one_batch_keep_nothing) {
	fusion_array *a, *y, *g;

	open_context();
	a = watched(3, 5);
	y = chain(a, 4);
	g = gradient(y, a);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.outputs, 3);
	ck_assert_uint_eq(fake.op_count[OP_tanh], 4);
	fusion_release(a);
	fusion_release(y);
	fusion_release(g);
	close_context();
}
END_TEST

START_TEST(what_is_made_of_what_is_kept_is_made_again) {
	fusion_array *a, *h, *z, *y, *g;

	open_context();
	a = watched(3, 5);
	h = fusion_gelu(a);          /* reads a */
	z = fusion_mul(h, h);        /* reads h, which a gives */
	y = fusion_sum(z, 0, NULL, false);
	fusion_release(h);
	fusion_release(z);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.outputs, 2);
	ck_assert_uint_eq(fake.op_count[OP_gelu], 1);
	g = gradient(y, a);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.op_count[OP_gelu], 2);
	fusion_release(a);
	fusion_release(y);
	fusion_release(g);
	close_context();
}
END_TEST

START_TEST(a_checkpoint_keeps_what_goes_in_alone) {
	fusion_array *a, *y, *g;

	open_context();
	a = watched(3, 5);
	fusion_checkpoint_begin();
	y = chain(a, 4);
	ck_assert(!fusion_checkpoint_end());
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.outputs, 2);
	g = gradient(y, a);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.op_count[OP_tanh], 4 + 3);
	fusion_release(a);
	fusion_release(y);
	fusion_release(g);
	ck_assert_int_eq(fusion_checkpoint_end(), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "there was no checkpoint_begin");
	close_context();
}
END_TEST

START_TEST(a_record_is_used_once_unless_it_is_kept) {
	fusion_array *a, *y, *g;

	open_context();
	a = watched(3, 5);
	y = chain(a, 2);
	ck_assert(!fusion_vjp(1, &y, NULL, 1, &a, &g, FUSION_GRAD_KEEP));
	fusion_release(g);
	fusion_release(gradient(y, a));
	ck_assert_int_eq(fusion_grad(y, NULL, &a, 1, &g), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "FUSION_GRAD_KEEP");
	ck_assert_ptr_null(g);
	fusion_release(a);
	fusion_release(y);
	close_context();
}
END_TEST

START_TEST(what_has_no_gradient_is_refused_by_name) {
	fusion_array *a, *n, *y, *g, *other;

	open_context();
	a = watched(3, 5);
	other = matrix(FUSION_F32, 3, 5);
	n = matrix(FUSION_I32, 3, 5);
	ck_assert_int_eq(fusion_watch(n), FUSION_E_DTYPE);
	expect_error(FUSION_E_DTYPE, "watch: the array is of i32");
	y = fusion_argmax(a, 0, NULL, false);
	ck_assert_int_eq(fusion_grad(y, NULL, &a, 1, &g), FUSION_E_OPERATION);
	expect_error(FUSION_E_OPERATION, "output 0 goes through argmax, which has no derivative");
	fusion_release(y);
	y = fusion_tanh(other);
	ck_assert_int_eq(fusion_grad(y, NULL, &a, 1, &g), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "output 0 depends on no watched array");
	fusion_release(y);
	y = fusion_tanh(a);
	ck_assert_int_eq(fusion_grad(y, NULL, &other, 1, &g), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "input 0 depends on no watched array");
	ck_assert_int_eq(fusion_grad(y, n, &a, 1, &g), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "seed 0 is not of the type and shape");
	ck_assert_int_eq(fusion_grad(y, NULL, &a, 0, &g), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "count is below 1");
	ck_assert_int_eq(fusion_no_grad_end(), FUSION_E_STATE);
	expect_error(FUSION_E_STATE, "there was no no_grad_begin");
	fusion_release(y);
	fusion_release(a);
	fusion_release(n);
	fusion_release(other);
	close_context();
}
END_TEST

START_TEST(a_watched_array_stays_watched_when_it_is_written) {
	fusion_array *a, *y, *g, *next;

	open_context();
	a = watched(3, 5);
	for (unsigned i = 0; i < 3; i++) {
		y = fusion_square(a);
		g = gradient(y, a);
		next = fusion_sub(a, g);
		ck_assert(!fusion_copy_into(a, next));
		fusion_release(y);
		fusion_release(g);
		fusion_release(next);
	}
	ck_assert(!fusion_unwatch(a));
	y = fusion_square(a);
	ck_assert_int_eq(fusion_grad(y, NULL, &a, 1, &g), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, "depends on no watched array");
	fusion_release(y);
	fusion_release(a);
	close_context();
}
END_TEST

/* A record longer than a batch, let go of at once: neither walks the stack. */
START_TEST(long_chains_are_sent_in_parts) {
	enum { LENGTH = 5000 };
	fusion_array *a, *y, *g;

	open_context();
	a = watched(1, 1);
	y = chain(a, LENGTH);
	g = gradient(y, a);
	ck_assert(!fusion_sync(context));
	/* What was sent and not kept is made again, once. */
	ck_assert_uint_ge(fake.op_count[OP_tanh], LENGTH);
	ck_assert_uint_le(fake.op_count[OP_tanh], 2 * LENGTH);
	fusion_release(g);
	fusion_release(y);
	fusion_release(chain(a, LENGTH));
	fusion_release(a);
	close_context();
}
END_TEST

START_TEST(an_optimiser_writes_in_place_or_gives_new_arrays) {
	const struct fusion_sgd_options options = { .rate = 0.1, .momentum = 0.9 };
	const struct fusion_adam_options adam = { .rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8 };
	fusion_array *p, *v, *m, *g, *step, *next[4];

	open_context();
	p = watched(3, 5);
	v = matrix(FUSION_F32, 3, 5);
	m = matrix(FUSION_F32, 3, 5);
	g = matrix(FUSION_F32, 3, 5);
	step = fusion_scalar(context, FUSION_F32, 0);
	ck_assert(!fusion_sgd(1, &p, &g, &v, &options, NULL));
	ck_assert_uint_eq(fusion_version(p), 2);
	ck_assert_uint_eq(fusion_version(v), 2);
	ck_assert(!fusion_adamw(1, &p, &g, &m, &v, step, &adam, next));
	ck_assert_uint_eq(fusion_version(p), 2);
	for (unsigned i = 0; i < 4; i++)
		fusion_release(next[i]);
	ck_assert_int_eq(fusion_sgd(1, &p, &g, NULL, &options, NULL), FUSION_E_ARGUMENT);
	expect_error(FUSION_E_ARGUMENT, " is NULL");
	ck_assert_int_eq(fusion_adam(1, &p, &g, &m, &v, g, &adam, NULL), FUSION_E_SHAPE);
	expect_error(FUSION_E_SHAPE, "not of rank 0");
	fusion_release(p);
	fusion_release(v);
	fusion_release(m);
	fusion_release(g);
	fusion_release(step);
	close_context();
}
END_TEST

RUN_TESTS("client_grad", nothing_is_kept_where_nothing_is_watched, what_the_rules_read_is_kept_until_it_is_differentiated,
	forward_and_backward_pass_in_one_batch_keep_nothing, what_is_made_of_what_is_kept_is_made_again,
	a_checkpoint_keeps_what_goes_in_alone, a_record_is_used_once_unless_it_is_kept, what_has_no_gradient_is_refused_by_name,
	a_watched_array_stays_watched_when_it_is_written, long_chains_are_sent_in_parts,
	an_optimiser_writes_in_place_or_gives_new_arrays)

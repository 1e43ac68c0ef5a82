/* What libfusion asks the daemon about plans: explain, opportunities, can_fuse. */
#include "client/fusion.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/fake_context.h"

enum {
	/* Operations, of which two batches are full. */
	LONG_PROGRAM = 3000,
	BATCH_OPS = 1024,
};

static fusion_array *long_program(fusion_array *x) {
	fusion_array *y = fusion_retain(x);

	for (unsigned i = 0; i < LONG_PROGRAM; i++) {
		fusion_array *next = fusion_tanh(y);

		ck_assert_msg(next != NULL, "%s", fusion_error());
		fusion_release(y);
		y = next;
	}
	return y;
}

static void expect_before(char *text, unsigned before, const char *rest) {
	char begin[64];

	ck_assert_msg(text != NULL, "%s", fusion_error());
	snprintf(begin, sizeof begin, "{\"operations_before\":%u,\"note\":\"%u operations ", before, before);
	ck_assert_msg(!strncmp(text, begin, strlen(begin)) && strstr(text, rest), "%s", text);
	free(text);
}

/* Those that wait for nobody go in full batches, which are planned without the others. */
START_TEST(what_was_sent_before_is_told_with_a_plan) {
	fusion_array *x, *y, *z;
	char *text;
	unsigned before = LONG_PROGRAM / BATCH_OPS * BATCH_OPS;

	open_context();
	x = vector(3, 0);
	ck_assert(!fusion_sync(context));
	y = long_program(x);
	expect_before(fusion_explain(context, 1, &y, 0), before, ",\"operations\":952}");
	expect_before(fusion_opportunities(context, 1, &y), before, ",\"operations\":952}");
	ck_assert_int_eq(fusion_can_fuse(context, x, y, 0, NULL, NULL), -1);
	expect_error(FUSION_E_STATE, "can_fuse: the first operation was sent already; ask before it is read");
	ck_assert(!fusion_wait(y));
	expect_before(fusion_explain(context, 1, &y, 0), before, "the run that made the arrays");
	/* What somebody asked for is known to him. */
	z = fusion_exp(y);
	text = fusion_explain(context, 1, &z, 0);
	ck_assert_str_eq(text, "{\"operations\":1}");
	free(text);
	fusion_release(z);
	fusion_release(y);
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(what_went_with_a_full_batch_cannot_be_asked_about_as_a_pair) {
	fusion_array *x, *y, *z;

	open_context();
	x = vector(3, 0);
	y = fusion_exp(x);
	z = long_program(y);
	ck_assert_int_eq(fusion_can_fuse(context, y, z, 0, NULL, NULL), -1);
	expect_error(FUSION_E_STATE, "can_fuse: the first operation was sent already, with a full batch (batch_ops)");
	fusion_release(z);
	fusion_release(y);
	fusion_release(x);
	close_context();
}
END_TEST

/* An array is NULL where an earlier call failed, whose error says more. */
START_TEST(questions_about_what_failed_tell_the_first_error) {
	fusion_array *x, *y, *failed;
	char *text;

	open_context();
	x = vector(3, 0);
	y = fusion_exp(x);
	failed = fusion_reshape(x, 1, (int64_t[]){ 2 });
	ck_assert_ptr_null(failed);
	ck_assert_ptr_null(fusion_explain(context, 1, &failed, 0));
	ck_assert_ptr_null(fusion_opportunities(context, 1, &failed));
	ck_assert_int_eq(fusion_can_fuse(context, failed, y, 0, NULL, &text), -1);
	ck_assert_int_eq(fusion_can_fuse(context, y, y, 1, &failed, &text), -1);
	ck_assert(!fusion_capture_begin(context, 0, NULL));
	ck_assert_ptr_null(fusion_capture_end(context, 1, &failed));
	ck_assert_int_eq(fusion_capture_begin(context, 1, &failed), FUSION_E_SHAPE);
	expect_error(FUSION_E_SHAPE, "reshape: ");
	ck_assert_ptr_null(fusion_explain(context, 1, &failed, 0));
	expect_error(FUSION_E_ARGUMENT, "explain: array 0 is NULL");
	fusion_release(y);
	fusion_release(x);
	close_context();
}
END_TEST

START_TEST(questions_are_answered) {
	fusion_array *a, *b, *c, *d;
	char *text;

	open_context();
	text = fusion_stats(context, false);
	ck_assert_str_eq(text, "{\"fake\":true}");
	free(text);
	a = vector(3, 0);
	b = fusion_tanh(a);
	c = fusion_exp(a);
	text = fusion_explain(context, 1, &b, true);
	ck_assert_str_eq(text, "{\"operations\":2}");
	free(text);
	ck_assert_uint_eq(fake.ops, 0);
	ck_assert(!fusion_sync(context));
	ck_assert_uint_eq(fake.ops, 3);
	/* What was sent the daemon tells of, as it ran: not otherwise. */
	text = fusion_explain(context, 1, &b, FUSION_EXPLAIN_SOURCE);
	ck_assert_str_eq(text, "{\"fake\":true}");
	free(text);
	ck_assert_ptr_null(fusion_explain(context, 1, &b, FUSION_EXPLAIN_UNFUSED));
	expect_error(FUSION_E_STATE, "sent already");
	ck_assert_int_eq(fusion_can_fuse(context, b, b, 0, NULL, &text), -1);
	expect_error(FUSION_E_STATE, "can_fuse: the first operation was sent already");
	fusion_release(b);
	b = fusion_tanh(a);
	d = fusion_exp(b);
	ck_assert_int_eq(fusion_can_fuse(context, b, d, 0, NULL, &text), 1);
	ck_assert_str_eq(text, "because the fake says so");
	free(text);
	fusion_release(c);
	c = fusion_sum(b, 0, NULL, false);
	ck_assert_int_eq(fusion_can_fuse(context, b, c, 0, NULL, NULL), 0);
	ck_assert_int_eq(fusion_can_fuse(context, b, c, 1, &c, NULL), 0);
	ck_assert_int_eq(fusion_can_fuse(context, d, c, 0, NULL, &text), -1);
	expect_error(FUSION_E_ARGUMENT, "can_fuse: the first array is not among what leads to the results");
	ck_assert_ptr_null(text);
	ck_assert_int_eq(fusion_can_fuse(context, d, c, 2, (fusion_array *[]){ c, d }, NULL), 0);
	ck_assert_int_eq(fusion_can_fuse(context, d, c, 1, NULL, NULL), -1);
	expect_error(FUSION_E_ARGUMENT, "can_fuse: count is negative, or results is NULL");
	fusion_release(a);
	fusion_release(b);
	fusion_release(d);
	fusion_release(c);
	close_context();
}
END_TEST

START_TEST(what_is_asked_for_is_a_sum_of_names) {
	fusion_array *x, *y;

	open_context();
	x = vector(3, 0);
	y = fusion_exp(x);
	ck_assert_ptr_null(fusion_explain(context, 1, &y, 1024));
	expect_error(FUSION_E_ARGUMENT, "explain: what is 1024, which is no sum of FUSION_EXPLAIN_");
	ck_assert_ptr_null(fusion_recent(context, 0, 64));
	expect_error(FUSION_E_ARGUMENT, "recent: what is 64, which is no sum of FUSION_EXPLAIN_");
	ck_assert_ptr_null(fusion_recent(context, 0, FUSION_EXPLAIN_UNFUSED));
	expect_error(FUSION_E_ARGUMENT, "recent: what has run is told of as it ran");
	fusion_release(y);
	fusion_release(x);
	close_context();
}
END_TEST

static void *explain_it(void *array) {
	fusion_array *one = array;

	return fusion_explain(context, 1, &one, 0);
}

/* Releases go with a batch. */
static void submit_one(fusion_array *x) {
	fusion_array *y = fusion_tanh(x);

	ck_assert(!fusion_wait(y));
	fusion_release(y);
}

/* The daemon may read the question late, and batches that come behind it before. */
START_TEST(what_a_question_names_is_released_behind_its_answer) {
	fusion_array *x, *named, *y;
	pthread_t asks;
	uint64_t before;
	void *text;

	open_context();
	x = vector(3, 0);
	named = fusion_exp(x);
	ck_assert(!fusion_wait(named));
	y = fusion_tanh(named);
	fusion_release(named);
	before = fake.releases;
	fake_hold(1);
	ck_assert_int_eq(pthread_create(&asks, NULL, explain_it, y), 0);
	while (!atomic_load(&fake.holding))
		sched_yield();
	fake_held();
	/* What alone needed the array goes with the first. */
	submit_one(x);
	submit_one(y);
	ck_assert_uint_le(fake.releases, before + 1);
	fake_let_go();
	ck_assert_int_eq(pthread_join(asks, &text), 0);
	ck_assert_msg(text != NULL, "%s", fusion_error());
	free(text);
	submit_one(x);
	ck_assert_uint_ge(fake.releases, before + 2);
	fusion_release(y);
	fusion_release(x);
	close_context();
}
END_TEST

RUN_TESTS("client_questions", what_a_question_names_is_released_behind_its_answer, what_is_asked_for_is_a_sum_of_names, questions_are_answered, what_was_sent_before_is_told_with_a_plan,
	what_went_with_a_full_batch_cannot_be_asked_about_as_a_pair, questions_about_what_failed_tell_the_first_error)

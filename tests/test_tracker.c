/* plan/tracker: which form of a plan runs, what trying costs, and what is kept. Times are made up. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/plan/tracker.h"
#include "daemon/base/log.h"
#include "tests/suite.h"

static const struct traits cpu = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1,
	.kernel_operands = 32, .kernel_values = 64 };
static const struct plan_options fused = { .fuse = true, .traits = &cpu };

static struct graph *g;
static struct tracker *t;
static char path[64];

/* relu(x * w + b), then a sum of squares: an affine_activation and a reduction. */
static void make_graph(void) {
	static int buffer;
	struct tensor_type type = { .dtype = DTYPE_f32, .rank = 2, .dims = { 64, 64 } };
	struct op_attr rows = { .axes = 2 };
	struct fault f;
	struct view v;
	uint32_t x, y, n;

	view_contiguous(&type, &v);
	ck_assert_int_eq(graph_leaf(g, &buffer, &type, &v, &x), 0);
	ck_assert_int_eq(graph_op(g, OP_mul, 2, (uint32_t[]){ x, x }, NULL, 0, &y, &f), 0);
	ck_assert_int_eq(graph_op(g, OP_add, 2, (uint32_t[]){ y, x }, NULL, 0, &y, &f), 0);
	ck_assert_int_eq(graph_op(g, OP_relu, 1, &y, NULL, 0, &y, &f), 0);
	ck_assert_int_eq(graph_output(g, y, 0), 0);
	ck_assert_int_eq(graph_op(g, OP_square, 1, &x, NULL, 0, &n, &f), 0);
	ck_assert_int_eq(graph_op(g, OP_reduce_sum, 1, &n, &rows, 0, &n, &f), 0);
	ck_assert_int_eq(graph_output(g, n, 1), 0);
}

static void setup(void) {
	strcpy(path, "/tmp/test_tracker_XXXXXX");
	close(mkstemp(path));
	ck_assert_int_eq(graph_new(&g), 0);
	make_graph();
	ck_assert_int_eq(tracker_new(path, "a device, 1", &t), 0);
}

static void teardown(void) {
	t = tracker_free(t);
	g = graph_free(g);
	unlink(path);
}

static struct tracked *tracked(void) {
	struct tracked *e = tracker_find(t, g, &fused);

	ck_assert_ptr_nonnull(e);
	return e;
}

/* One run, by what the tracker wants, with these times of the forms. */
static enum track_form run(const double ns[static TRACK_FORMS], unsigned share) {
	struct tracked *e = tracked();
	bool timed;
	enum track_form form = tracker_next(t, e, share, &timed);

	if (timed) {
		tracker_tried(t, e, form);
		tracker_sample(t, tracked_id(e), form, 0, ns[form]);
	} else {
		tracker_ran(t, e);
	}
	return form;
}

static void run_many(unsigned runs, const double ns[static TRACK_FORMS], unsigned share) {
	while (runs--)
		run(ns, share);
}

START_TEST(a_graph_that_is_seldom_run_is_not_tried) {
	for (unsigned i = 0; i < TRACK_RUNS; i++)
		ck_assert_int_eq(run((double[]){ 100, 10, 0 }, 100), TRACK_FUSED);
	ck_assert_int_eq(run((double[]){ 100, 10, 0 }, 100), TRACK_SINGLE);
}
END_TEST

START_TEST(trying_stays_within_its_share) {
	run_many(TRACK_AGAIN, (double[]){ 100, 300, 0 }, 1);
	ck_assert_uint_eq(tracker_counters(t).trials, TRACK_SAMPLES);
	ck_assert_double_le(tracker_counters(t).trial_ns, 0.01 * tracker_counters(t).total_ns);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_FUSED);
}
END_TEST

START_TEST(nothing_is_tried_without_a_share) {
	run_many(20000, (double[]){ 100, 10, 0 }, 0);
	ck_assert_uint_eq(tracker_counters(t).trials, 0);
}
END_TEST

START_TEST(what_is_clearly_faster_runs_from_then_on) {
	run_many(20000, (double[]){ 100, 80, 0 }, 1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_SINGLE);
	ck_assert_int_eq(run((double[]){ 100, 80, 0 }, 1), TRACK_SINGLE);
	ck_assert_uint_eq(tracker_counters(t).switched, 1);
	ck_assert(!tracked_options(tracked(), TRACK_SINGLE, fused).fuse);
}
END_TEST

START_TEST(a_small_difference_changes_nothing) {
	run_many(20000, (double[]){ 100, 97, 0 }, 1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_FUSED);
}
END_TEST

START_TEST(a_form_whose_times_get_lost_is_given_up) {
	static const double ns[TRACK_FORMS] = { 1000, 100, 100 };
	unsigned tried = 0;

	for (unsigned i = 0; i < 100000; i++) {
		struct tracked *e = tracked();
		bool timed;
		enum track_form form = tracker_next(t, e, 50, &timed);

		tried += form != TRACK_FUSED;
		if (!timed) {
			tracker_ran(t, e);
			continue;
		}
		tracker_tried(t, e, form);
		if (form == TRACK_FUSED)
			tracker_sample(t, tracked_id(e), form, 0, ns[form]);
	}
	ck_assert_uint_eq(tried, TRACK_TRIES);
}
END_TEST

START_TEST(a_form_that_can_never_run_is_not_asked_for_again) {
	unsigned impossible = 0;

	for (unsigned i = 0; i < 3 * TRACK_AGAIN; i++) {
		struct tracked *e = tracked();
		bool timed;
		enum track_form form = tracker_next(t, e, 100, &timed);

		if (form != TRACK_FUSED) {
			tracker_impossible(t, e, form);
			impossible++;
		} else if (timed) {
			tracker_tried(t, e, form);
			tracker_sample(t, tracked_id(e), form, 0, 1000);
		} else {
			tracker_ran(t, e);
		}
	}
	ck_assert_uint_eq(impossible, 1);
	ck_assert(tracked_tuned(tracked()));
}
END_TEST

START_TEST(one_slow_run_of_several_does_not_decide) {
	struct tracked *e = tracked();
	unsigned fused_runs = 0;

	for (unsigned i = 0; i < 20000; i++) {
		bool timed;
		enum track_form form = tracker_next(t, e, 50, &timed);
		double ns = form == TRACK_SINGLE ? 200 : fused_runs++ % TRACK_SAMPLES ? 100 : 100000;

		if (timed) {
			tracker_tried(t, e, form);
			tracker_sample(t, tracked_id(e), form, 0, ns);
		} else {
			tracker_ran(t, e);
		}
	}
	ck_assert_int_eq(tracked_chosen(e), TRACK_FUSED);
	ck_assert_double_eq(tracked_ns(e, TRACK_FUSED), 100);
}
END_TEST

/* ---- noise: what runs beside us makes runs slower for a while, and each run its own way ---- */

struct weather {
	uint64_t random;
	double slow;                           /* what everything takes more of, just now */
};

static double next_real(struct weather *w) {
	w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(w->random >> 11) / (double)(UINT64_C(1) << 53);
}

/* Up to `noise` more than it takes, now and then three times that; half the time under a load that doubles all. */
static double noisy(struct weather *w, double ns, double noise) {
	if (next_real(w) < 0.01)
		w->slow = next_real(w) < 0.5 ? 1 : 2;
	ns *= w->slow * (1 + noise * next_real(w));
	return next_real(w) < 0.05 ? 3 * ns : ns;
}

static enum track_form noisy_run(struct tracked *e, struct weather *w, const double ns[static TRACK_FORMS], double noise) {
	bool timed;
	enum track_form form = tracker_next(t, e, 100, &timed);

	if (timed) {
		tracker_tried(t, e, form);
		tracker_sample(t, tracked_id(e), form, 0, noisy(w, ns[form], noise));
	} else {
		tracker_ran(t, e);
	}
	return form;
}

static void noisy_runs(unsigned runs, struct weather *w, const double ns[static TRACK_FORMS], double noise) {
	struct tracked *e = tracked();

	while (runs--)
		noisy_run(e, w, ns, noise);
}

static struct tracked *graph_of_options(uint64_t i) {
	struct plan_options o = fused;
	struct tracked *e;

	o.min_elements = i;
	e = tracker_find(t, g, &o);
	ck_assert_ptr_nonnull(e);
	return e;
}

/* Of as many graphs as a daemon sees, whose forms differ by nothing or lose, those that were chosen. */
static unsigned chosen_of_noise(double single, double noise) {
	unsigned chosen = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		struct tracked *e = graph_of_options(i);
		struct weather w = { i + 1, 1 };

		for (unsigned k = 0; k < 300; k++)
			noisy_run(e, &w, (double[]){ 100, single, 0 }, noise);
		chosen += tracked_chosen(e) != TRACK_FUSED;
	}
	return chosen;
}

START_TEST(noise_alone_chooses_nothing) {
	ck_assert_uint_le(chosen_of_noise(100, 0.1), 1);
	t = tracker_free(t);
	ck_assert_int_eq(tracker_new(path, "another device", &t), 0);
	ck_assert_uint_le(chosen_of_noise(100, 0.5), 2);
}
END_TEST

START_TEST(what_loses_is_not_chosen_for_noise) {
	ck_assert_uint_eq(chosen_of_noise(120, 0.5), 0);
}
END_TEST

START_TEST(what_is_faster_than_the_noise_is_chosen) {
	ck_assert_uint_ge(chosen_of_noise(70, 0.1), 900);
}
END_TEST

START_TEST(a_load_that_comes_between_two_forms_does_not_decide) {
	struct tracked *e = tracked();
	bool timed;

	/* All that was timed of FUSED before it is tried was under load. */
	for (unsigned i = 0; i < TRACK_RUNS; i++)
		run((double[]){ 500, 0, 0 }, 100);
	for (unsigned i = 0; i < TRACK_AGAIN / 2; i++)
		ck_assert_int_ne(run((double[]){ 100, 120, 0 }, 100), TRACK_MIXED);
	ck_assert_int_eq(tracked_chosen(e), TRACK_FUSED);
	ck_assert_int_eq(tracker_next(t, e, 100, &timed), TRACK_FUSED);
}
END_TEST

START_TEST(forms_run_in_turns_while_they_are_compared) {
	struct weather w = { 1, 1 };
	enum track_form before = TRACK_SINGLE;
	struct tracked *e = tracked();

	/* All the time may go into trying: nothing keeps them from taking turns. */
	for (unsigned i = 0; i < TRACK_RUNS; i++)
		noisy_run(e, &w, (double[]){ 100, 300, 0 }, 0);
	for (unsigned i = 0; i < TRACK_SAMPLES; i++) {
		enum track_form now = noisy_run(e, &w, (double[]){ 100, 100, 0 }, 0);

		ck_assert_int_ne(now, i ? before : TRACK_FUSED);
		before = now;
	}
}
END_TEST

START_TEST(a_wrong_choice_is_taken_back) {
	struct weather w = { 7, 1 };

	noisy_runs(1000, &w, (double[]){ 100, 70, 0 }, 0.1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_SINGLE);
	noisy_runs(2 * TRACK_AGAIN, &w, (double[]){ 100, 130, 0 }, 0.1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_FUSED);
}
END_TEST

START_TEST(a_right_choice_stays) {
	struct weather w = { 7, 1 };

	noisy_runs(50000, &w, (double[]){ 100, 70, 0 }, 0.1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_SINGLE);
}
END_TEST

START_TEST(what_became_faster_later_is_found) {
	struct weather w = { 7, 1 };

	noisy_runs(1000, &w, (double[]){ 100, 130, 0 }, 0.1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_FUSED);
	noisy_runs(2 * TRACK_AGAIN, &w, (double[]){ 100, 60, 0 }, 0.1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_SINGLE);
}
END_TEST

static void set_times(struct plan *p, double ns) {
	for (uint32_t i = 0; i < p->steps; i++)
		p->step[i].measured_ns = ns;
}

static struct plan *make_plan(bool fuse) {
	struct plan_options o = fused;
	struct fault f;
	struct plan *p;

	o.fuse = fuse;
	ck_assert_int_eq(plan_make(g, &o, &p, &f), 0);
	return p;
}

START_TEST(a_pattern_that_loses_is_left_out_of_the_mixed_form) {
	struct plan *p = make_plan(true), *single = make_plan(false), *mixed;
	double ns[] = { 100, 90, 50 };
	struct plan_options o;
	struct fault f;

	run_many(20000, (double[]){ 100, 130, 50 }, 1);
	ck_assert(tracked_wants_judgement(tracked()));
	/* Three operations at 10 are less than 50 together; two at 10 more than 15. */
	set_times(single, 10);
	for (uint32_t i = 0; i < p->steps; i++)
		p->step[i].measured_ns = p->step[i].pattern == PATTERN_affine_activation ? 50 : 15;
	ck_assert_int_eq(plan_compare(p, single), 0);
	tracker_judge(t, tracked(), p);
	ck_assert(!tracked_wants_judgement(tracked()));
	o = tracked_options(tracked(), TRACK_MIXED, fused);
	ck_assert_uint_eq(o.patterns_off, pattern_bit(PATTERN_affine_activation));
	ck_assert_int_eq(plan_make(g, &o, &mixed, &f), 0);
	ck_assert_uint_gt(mixed->steps, p->steps);
	run_many(20000, ns, 1);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_MIXED);
	plan_unref(p);
	plan_unref(single);
	plan_unref(mixed);
}
END_TEST

START_TEST(steps_learn_what_their_operations_take_alone) {
	struct plan *p = make_plan(true), *single = make_plan(false);

	set_times(single, 10);
	ck_assert_int_eq(plan_compare(p, single), 0);
	for (uint32_t i = 0; i < p->steps; i++) {
		ck_assert_double_eq(p->step[i].measured_unfused_ns, 10.0 * p->step[i].ops);
		ck_assert_double_gt(p->step[i].estimate_unfused_ns, p->step[i].estimate_ns);
	}
	single->step[0].measured_ns = 0;
	ck_assert_int_eq(plan_compare(p, single), 0);
	ck_assert(!(p->step[0].measured_unfused_ns > 0) || !(p->step[1].measured_unfused_ns > 0));
	plan_unref(p);
	plan_unref(single);
}
END_TEST

START_TEST(what_was_learned_is_kept) {
	run_many(20000, (double[]){ 100, 80, 0 }, 1);
	tracker_free(t);
	ck_assert_int_eq(tracker_new(path, "a device, 1", &t), 0);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_SINGLE);
	ck_assert_double_eq(tracked_ns(tracked(), TRACK_FUSED), 100);
	ck_assert(!tracker_changed(t));
}
END_TEST

START_TEST(another_device_learns_anew) {
	run_many(20000, (double[]){ 100, 80, 0 }, 1);
	tracker_free(t);
	ck_assert_int_eq(tracker_new(path, "a device, 2", &t), 0);
	ck_assert_int_eq(tracked_chosen(tracked()), TRACK_FUSED);
}
END_TEST

START_TEST(a_damaged_file_is_passed_over) {
	static const char *const texts[] = { "", "x", "fusiond tracker 1 a device, 1\nzz\n\n1 2 3\n",
		"fusiond tracker 1 a device, 1\n1 2 0 0 9 1 0 5 1 5 1 5 1\n",
		"fusiond tracker 1 a device, 1\n1 2 0 0 1 1 0 5 nan 5 -1 4000000000 inf\n" };

	for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
		FILE *out = fopen(path, "we");

		ck_assert_ptr_nonnull(out);
		fputs(texts[i], out);
		fclose(out);
		tracker_free(t);
		ck_assert_int_eq(tracker_new(path, "a device, 1", &t), 0);
		ck_assert_int_eq(tracked_chosen(tracked()), TRACK_FUSED);
		ck_assert_uint_eq(tracker_counters(t).switched, 0);
	}
}
END_TEST

START_TEST(what_does_not_fuse_or_is_fast_is_not_tracked) {
	struct plan_options o = fused;

	o.fuse = false;
	ck_assert_ptr_null(tracker_find(t, g, &o));
	o.fuse = o.fast = true;
	ck_assert_ptr_null(tracker_find(t, g, &o));
}
END_TEST

START_TEST(times_of_a_graph_that_was_forgotten_are_passed_over) {
	tracker_sample(t, 12345, TRACK_FUSED, 0, 100);
	tracker_sample(t, tracked_id(tracked()), TRACK_FUSED, 0, -1);
	ck_assert_double_eq(tracker_counters(t).total_ns, 0);
}
END_TEST

int main(void) {
	const TTest *const tests[] = { a_graph_that_is_seldom_run_is_not_tried, trying_stays_within_its_share,
		nothing_is_tried_without_a_share, what_is_clearly_faster_runs_from_then_on,
		a_small_difference_changes_nothing, one_slow_run_of_several_does_not_decide,
		noise_alone_chooses_nothing, what_loses_is_not_chosen_for_noise, what_is_faster_than_the_noise_is_chosen,
		a_load_that_comes_between_two_forms_does_not_decide, forms_run_in_turns_while_they_are_compared,
		a_wrong_choice_is_taken_back, a_right_choice_stays, what_became_faster_later_is_found,
		a_form_whose_times_get_lost_is_given_up, a_form_that_can_never_run_is_not_asked_for_again,
		a_pattern_that_loses_is_left_out_of_the_mixed_form, steps_learn_what_their_operations_take_alone,
		what_was_learned_is_kept, another_device_learns_anew, a_damaged_file_is_passed_over,
		what_does_not_fuse_or_is_fast_is_not_tracked,
		times_of_a_graph_that_was_forgotten_are_passed_over };
	Suite *s = suite_create("tracker");
	TCase *c = tcase_create("tracker");

	/* Noise is simulated thousands of times, and each choice is logged. */
	log_set_level(LOG_LEVEL_ERROR);
	tcase_add_checked_fixture(c, setup, teardown);
	for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	return suite_run(s);
}

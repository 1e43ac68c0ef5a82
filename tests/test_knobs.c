/* plan/knobs, tuning and how the tracker compares their values: which kernels are made otherwise, and what is kept. Times are made up. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/plan/tracker.h"
#include "tests/suite.h"

static struct traits cpu = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1, .kernel_operands = 32,
	.kernel_values = 64, .stream_bytes = 8 << 20, .local_size = 64 };
static struct traits gpu = { .strategy = STRATEGY_GPU, .width = 1, .f64 = true, .units = 100, .pools = 1, .kernel_operands = 32,
	.kernel_values = 64, .local_size = 256, .local_bytes = 48 << 10 };
static struct plan_options options = { .fuse = true, .traits = &cpu };

static struct graph *g;
static struct tracker *t;
static char path[64];

static uint32_t leaf(void *buffer, int64_t rows, int64_t columns) {
	struct tensor_type type = { .dtype = DTYPE_f32, .rank = 2, .dims = { rows, columns } };
	struct view v;
	uint32_t x;

	view_contiguous(&type, &v);
	ck_assert_int_eq(graph_leaf(g, buffer, &type, &v, &x), 0);
	return x;
}

static uint32_t op(unsigned what, uint32_t a, uint32_t b, const struct op_attr *attr) {
	struct fault f;
	uint32_t y;

	ck_assert_int_eq(graph_op(g, what, op_info(what)->arity, (uint32_t[]){ a, b }, attr, 0, &y, &f), 0);
	return y;
}

static void output(uint32_t x) {
	ck_assert_int_eq(graph_output(g, x, 0), 0);
}

/* The numerators of a softmax: one kernel of rows. */
static void rows(int64_t n) {
	static int buffer;
	struct op_attr axes = { .axes = 2, .keepdims = true };
	uint32_t x = leaf(&buffer, n, 1024), e = op(OP_exp, op(OP_sub, x, op(OP_reduce_max, x, 0, &axes), NULL), 0, NULL);

	output(op(OP_div, e, op(OP_reduce_sum, e, 0, &axes), NULL));
}

/* A product, and what may follow it. */
static void product(bool relu) {
	static int a, b;
	uint32_t y = op(OP_matmul, leaf(&a, 256, 256), leaf(&b, 256, 256), NULL);

	output(relu ? op(OP_relu, y, 0, NULL) : y);
}

static void open_tracker(void) {
	ck_assert_int_eq(tracker_new(path, "a device, 1", &t), 0);
}

static void setup(void) {
	options = (struct plan_options){ .fuse = true, .traits = &cpu };
	cpu.rates = *rates_typical(STRATEGY_CPU);
	gpu.rates = *rates_typical(STRATEGY_GPU);
	strcpy(path, "/tmp/test_knobs_XXXXXX");
	close(mkstemp(path));
	ck_assert_int_eq(graph_new(&g), 0);
	open_tracker();
}

static void teardown(void) {
	t = tracker_free(t);
	g = graph_free(g);
	unlink(path);
}

static struct plan *make(const struct plan_options *o) {
	struct plan *p;
	struct fault f;

	ck_assert_int_eq(plan_make(g, o, &p, &f), 0);
	return p;
}

/* What a kernel takes, by its knobs. */
typedef double kernel_time(const struct plan_step *s);

static double all_the_same(const struct plan_step *s) {
	(void)s;
	return 1e6;
}

static double by_share(const struct plan_step *s) {
	static const double ns[KNOB_VALUES] = { 1e6, 0.7e6, 1.4e6 };

	return ns[s->knobs.value[KNOB_share]];
}

static double by_the_rule(const struct plan_step *s) {
	return s->knobs.value[KNOB_share] ? 1.2e6 : 1e6;
}

static double take_time(struct plan *p, kernel_time *time) {
	double ns = 0;

	for (uint32_t i = 0; i < p->steps; i++) {
		p->step[i].measured_ns = time(&p->step[i]);
		ns += p->step[i].measured_ns;
	}
	return ns;
}

static struct tracked *tracked(void) {
	struct tracked *e = tracker_find(t, g, &options);

	ck_assert_ptr_nonnull(e);
	return e;
}

static struct plan *make_form(enum track_form form) {
	struct plan_options o = tracked_options(tracked(), form, options);

	return make(&o);
}

/* Runs as serve does it, with made-up times; SINGLE takes five times as long. True: it was a variant. */
static bool run(kernel_time *time, unsigned share) {
	struct tracked *e = tracked();
	bool timed;
	enum track_form form = tracker_next(t, e, share, &timed);
	struct plan *p = make_form(form);
	double ns = take_time(p, time) * (form == TRACK_SINGLE ? 5 : 1);

	if (timed) {
		tracker_tried(t, e, form);
		tracker_sample(t, tracked_id(e), form, tracked_variant(e), ns);
	} else {
		tracker_ran(t, e);
	}
	if (tracked_wants_judgement(e))
		tracker_judge(t, e, p);
	if (form == tracked_chosen(e))
		tracker_offer(t, e, p, options.traits);
	plan_unref(p);
	return form == TRACK_VARIANT;
}

static unsigned run_many(unsigned runs, kernel_time *time, unsigned share) {
	unsigned variants = 0;

	while (runs--)
		variants += run(time, share);
	return variants;
}

/* A value of a knob of the only kernel. */
static unsigned turned(unsigned knob) {
	struct plan *p = make_form(tracked_chosen(tracked()));
	unsigned value = p->step[0].knobs.value[knob];

	ck_assert_uint_eq(p->steps, 1);
	plan_unref(p);
	return value;
}

static uint64_t identity(const struct plan_options *o) {
	struct plan_options tuned = *o;
	struct plan *p;
	uint64_t found;

	tuned.tuning = tracker_tuning(t);
	p = make(&tuned);
	found = p->step[p->steps - 1].identity;
	plan_unref(p);
	return found;
}

START_TEST(what_is_clearly_faster_is_kept) {
	unsigned count;
	const struct track_change *c;

	rows(256);
	run_many(2000, by_share, 100);
	ck_assert_uint_eq(turned(KNOB_share), 1);
	c = tracker_changes(t, &count);
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_ne(c->knob.kernel, 0);
	ck_assert_uint_eq(c->knob.knob, KNOB_share);
	ck_assert_uint_eq(c->from_value, KNOB_RULE);
	ck_assert_double_eq(c->from_ns, 1e6);
	ck_assert_double_eq(c->to_ns, 0.7e6);
	ck_assert_uint_eq(tracker_counters(t).turned, 1);
}
END_TEST

START_TEST(a_restart_keeps_it_and_tries_nothing_again) {
	rows(256);
	run_many(2000, by_share, 100);
	t = tracker_free(t);
	open_tracker();
	ck_assert_uint_eq(turned(KNOB_share), 1);
	ck_assert_uint_eq(run_many(TRACK_AGAIN / 4, by_share, 100), 0);
	ck_assert(tracked_report(tracked()).settled);
	ck_assert_uint_eq(turned(KNOB_share), 1);
}
END_TEST

START_TEST(another_device_learns_anew) {
	rows(256);
	run_many(2000, by_share, 100);
	t = tracker_free(t);
	ck_assert_int_eq(tracker_new(path, "a device, 2", &t), 0);
	ck_assert_uint_eq(turned(KNOB_share), KNOB_RULE);
}
END_TEST

START_TEST(other_graphs_with_the_kernel_have_it) {
	rows(256);
	run_many(2000, by_share, 100);
	/* Planned by itself: no run of it was ever timed. */
	options.min_elements = 1;
	ck_assert_uint_eq(turned(KNOB_share), 1);
}
END_TEST

START_TEST(other_extents_are_another_kernel) {
	rows(256);
	run_many(2000, by_share, 100);
	graph_reset(g);
	rows(512);
	ck_assert_uint_eq(turned(KNOB_share), KNOB_RULE);
}
END_TEST

START_TEST(nothing_changes_where_nothing_differs) {
	rows(256);
	ck_assert_uint_gt(run_many(2000, all_the_same, 100), TRACK_SAMPLES);
	ck_assert(tracked_report(tracked()).settled);
	ck_assert_uint_eq(tracker_counters(t).turned, 0);
	ck_assert_uint_eq(tracker_counters(t).changes, 0);
}
END_TEST

START_TEST(trying_stays_within_its_share) {
	struct tracker_counters c;

	rows(256);
	run_many(4000, by_share, 10);
	c = tracker_counters(t);
	ck_assert_double_le(c.trial_ns, 0.1 * c.total_ns);
	ck_assert_uint_gt(c.trials, TRACK_SAMPLES);
}
END_TEST

START_TEST(nothing_is_tried_without_a_share) {
	rows(256);
	ck_assert_uint_eq(run_many(2000, by_share, 0), 0);
	ck_assert_uint_eq(turned(KNOB_share), KNOB_RULE);
}
END_TEST

START_TEST(a_wrong_choice_is_taken_back) {
	rows(256);
	run_many(2000, by_share, 100);
	ck_assert_uint_eq(turned(KNOB_share), 1);
	run_many(8 * TRACK_AGAIN, by_the_rule, 100);
	ck_assert_uint_eq(turned(KNOB_share), KNOB_RULE);
}
END_TEST

START_TEST(a_variant_that_is_not_built_is_given_up) {
	unsigned refused = 0;

	rows(256);
	for (unsigned i = 0; i < 8 * TRACK_REFUSED && !tracked_report(tracked()).settled; i++) {
		struct tracked *e = tracked();
		bool timed;

		if (!tracked_wants_variants(e) && tracker_next(t, e, 100, &timed) == TRACK_VARIANT) {
			tracker_refused(t, e);
			refused++;
		} else {
			run(by_share, 100);
		}
	}
	ck_assert(tracked_report(tracked()).settled);
	ck_assert_uint_ge(refused, TRACK_REFUSED);
	ck_assert_uint_eq(turned(KNOB_share), KNOB_RULE);
}
END_TEST

START_TEST(times_of_an_older_variant_do_not_count) {
	struct tracked *e;

	rows(256);
	e = tracked();
	while (!tracked_variant(e))
		run(by_share, 100);
	for (unsigned i = 0; i < TRACK_TRIES; i++)
		tracker_sample(t, tracked_id(e), TRACK_VARIANT, tracked_variant(e) - 1, 1);
	ck_assert_double_eq(tracked_ns(e, TRACK_VARIANT), 0);
}
END_TEST

START_TEST(a_short_kernel_is_left_alone) {
	rows(256);
	for (unsigned i = 0; i < 1000; i++) {
		struct tracked *e = tracked();
		struct plan *p = make_form(TRACK_FUSED);
		struct knob_variant v;

		p->step[0].measured_ns = 1e3;
		ck_assert(!tuning_next(tracker_tuning(t), p, &cpu, false, &v));
		p->step[0].measured_ns = 1e6;
		ck_assert(tuning_next(tracker_tuning(t), p, &cpu, false, &v));
		plan_unref(p);
		tracker_ran(t, e);
	}
}
END_TEST

START_TEST(a_product_is_the_same_kernel_fused_and_not) {
	uint64_t alone, followed;

	product(false);
	alone = identity(&options);
	graph_reset(g);
	product(true);
	followed = identity(&options);
	ck_assert_uint_ne(alone, 0);
	ck_assert_uint_eq(alone, followed);
}
END_TEST

START_TEST(a_group_of_a_gpu_may_have_another_tile) {
	struct plan *p;
	unsigned tile;

	options.traits = &gpu;
	product(false);
	p = make(&options);
	tile = p->step[0].kernel->tile;
	plan_unref(p);
	options.pins = (struct knob_pins){ { { [KNOB_tile] = 2 } }, 1u << KNOB_tile };
	p = make(&options);
	ck_assert_uint_ne(p->step[0].kernel->tile, tile);
	ck_assert_uint_gt(kernel_tiles[p->step[0].kernel->tile].rows, kernel_tiles[tile].rows);
	ck_assert_uint_le(kernel_tile_items(p->step[0].kernel->tile), gpu.local_size);
	ck_assert_uint_eq(p->step[0].kernel->width, kernel_tiles[p->step[0].kernel->tile].lanes);
	plan_unref(p);
}
END_TEST

START_TEST(what_is_said_holds_for_all_kernels_and_is_not_tracked) {
	struct fault f;
	struct plan *p;

	rows(256);
	ck_assert_int_eq(knobs_parse("share=fourfold, hold=least", &options.pins, &f), 0);
	p = make(&options);
	ck_assert_uint_eq(p->step[0].knobs.value[KNOB_share], 2);
	ck_assert_uint_eq(p->step[0].kernel->hold, 1);
	ck_assert_ptr_null(tracker_find(t, g, &options));
	plan_unref(p);
}
END_TEST

START_TEST(what_is_no_knob_is_refused_by_its_word) {
	struct knob_pins pins;
	struct fault f;

	ck_assert_int_eq(knobs_parse("share", &pins, &f), FAULT_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(f.text, "share"));
	ck_assert_int_eq(knobs_parse("hold=least, width=16", &pins, &f), FAULT_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(f.text, "width=16"));
	ck_assert_int_eq(knobs_parse("share=half", &pins, &f), FAULT_ARGUMENT);
	ck_assert_int_eq(knobs_parse("", &pins, &f), 0);
	ck_assert_uint_eq(pins.set, 0);
}
END_TEST

START_TEST(knobs_are_printed_as_they_are_read) {
	struct knob_pins pins, again;
	char text[128];
	struct fault f;

	ck_assert_int_eq(knobs_parse("hold=least,share=rule", &pins, &f), 0);
	knobs_print(&pins, text, sizeof text);
	ck_assert_str_eq(text, "share=rule hold=least");
	ck_assert_int_eq(knobs_parse(text, &again, &f), 0);
	ck_assert_mem_eq(&pins, &again, sizeof pins);
	ck_assert_int_eq(knobs_parse("hold=least share=half", &pins, &f), FAULT_ARGUMENT);
	knobs_print(&pins, text, sizeof text);
	ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(lines_that_do_not_read_are_passed_over) {
	static const char *const lines[] = { "kernel", "kernel zz share=quarter", "kernel 0 share=quarter", "kernel 12 share=", "kernel 13 =",
		"kernel 14 quarter:1", "kernel 15 width=wide wide:3 share=fourfold quarter:9999999999 none:1" };
	struct tuning *k = tuning_new();

	ck_assert_ptr_nonnull(k);
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
		tuning_read(k, lines[i]);
	ck_assert_uint_eq(tuning_choice(k, 0x12).value[KNOB_share], KNOB_RULE);
	ck_assert_uint_eq(tuning_choice(k, 0x14).value[KNOB_share], KNOB_RULE);
	ck_assert_uint_eq(tuning_choice(k, 0x15).value[KNOB_share], 2);
	tuning_free(k);
}
END_TEST

int main(void) {
	const TTest *const tests[] = { what_is_clearly_faster_is_kept, a_restart_keeps_it_and_tries_nothing_again, another_device_learns_anew,
		other_graphs_with_the_kernel_have_it, other_extents_are_another_kernel, nothing_changes_where_nothing_differs,
		trying_stays_within_its_share, nothing_is_tried_without_a_share, a_wrong_choice_is_taken_back,
		a_variant_that_is_not_built_is_given_up, times_of_an_older_variant_do_not_count, a_short_kernel_is_left_alone,
		a_product_is_the_same_kernel_fused_and_not, a_group_of_a_gpu_may_have_another_tile,
		what_is_said_holds_for_all_kernels_and_is_not_tracked, what_is_no_knob_is_refused_by_its_word,
		knobs_are_printed_as_they_are_read, lines_that_do_not_read_are_passed_over };
	Suite *s = suite_create("knobs");
	TCase *c = tcase_create("knobs");

	log_set_level(LOG_LEVEL_ERROR);
	tcase_add_checked_fixture(c, setup, teardown);
	for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	return suite_run(s);
}

/*
 * What is said of what fusing gains: "without fusion" is the plan that fusion.enabled=0 makes.
 *
 * Asked of all text graphs and of random graphs, for CPUs and GPUs.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/str.h"
#include "daemon/plan/plan.h"
#include "tests/random_graph.h"
#include "tests/suite.h"
#include "tests/text_graph.h"

enum {
	GRAPHS = 60,
	OPERATIONS = 30,
};

static const struct traits cpu = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1,
	.kernel_operands = 48, .kernel_values = 256 };
static const struct traits gpu = { .strategy = STRATEGY_GPU, .width = 1, .local_size = 256, .local_bytes = 48 << 10, .f64 = true, .units = 16,
	.pools = 1, .kernel_operands = 32, .kernel_values = 64 };
static const struct traits *const machines[] = { &cpu, &gpu };

static struct graph *g;
static struct fault fault;
static unsigned compared, fewer, helpers, cuts;

static void setup(void) {
	ck_assert_int_eq(graph_new(&g), 0);
}

static void teardown(void) {
	g = graph_free(g);
}

/* Fused, and compared with what is unfused. */
static struct plan *plan_compared(const struct traits *t) {
	struct plan_options o = { .fuse = true, .notes = true, .traits = t };
	struct plan *p;

	if (plan_make(g, &o, &p, &fault))
		return NULL;
	ck_assert_int_eq(plan_compare_single(p, g, &o, &fault), 0);
	return p;
}

/* Copies that the planner added, and nothing of the client's. */
static bool is_helper(const struct plan *p, const struct plan_step *s) {
	for (uint32_t i = 0; i < s->ops; i++)
		if (p->node[s->op[i]].note != PLAN_NONE || p->node[s->op[i]].op != OP_copy)
			return false;
	return s->ops;
}

static void check_steps(const struct plan *p, const char *name) {
	for (uint32_t i = 0; i < p->steps; i++) {
		const struct plan_step *s = &p->step[i];
		struct str purpose = { 0 };

		plan_put_purpose(p, i, &purpose);
		ck_assert_int_eq(str_finish(&purpose), 0);
		if (is_helper(p, s)) {
			helpers++;
			ck_assert_msg(!s->pattern && !s->named && !plan_step_saved(s) && !s->buffers_eliminated, "%s: kernel %u: %s, of the pattern %s, saves %u arrays and %u bytes",
				name, i + 1, str_text(&purpose), pattern_name((enum pattern)s->pattern), s->buffers_eliminated, (unsigned)plan_step_saved(s));
		} else if (s->ops) {
			ck_assert_msg(!strstr(str_text(&purpose), "copy of"), "%s: kernel %u, %s of %s, is no %s", name, i + 1,
				kernel_root_name(s->kernel), op_info(p->node[s->op[0]].op)->name, str_text(&purpose));
		}
		str_free(&purpose);
	}
}

/* A plan without fusion gains nothing. */
static uint32_t steps_unfused(const struct traits *t, uint64_t *bytesp) {
	struct plan_options o = { .traits = t };
	struct plan *p;
	uint32_t steps;

	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	steps = p->steps;
	*bytesp = plan_moved(p);
	ck_assert_uint_eq(p->bytes_not_moved, 0);
	check_steps(p, "unfused");
	ck_assert_uint_eq(plan_unfused_steps(p), steps);
	plan_unref(p);
	return steps;
}

/* Cut wherever it can be, as where kernels do not build, it gains that much less; where it gained nothing, nothing. */
static void check_cuts(const struct plan *p, const struct traits *t, uint64_t unfused, const char *name) {
	for (uint32_t i = 0; i < p->steps; i++) {
		struct plan *cut;
		uint64_t moved, saved;

		if (plan_split(p, i, t, &cut, &fault))
			continue;
		moved = plan_moved(cut);
		saved = p->bytes_not_moved && unfused > moved ? unfused - moved : 0;
		ck_assert_msg(cut->bytes_not_moved == saved, "%s, kernel %u cut: %llu bytes are told as saved; %llu move, %llu without fusion",
			name, i + 1, (unsigned long long)cut->bytes_not_moved, (unsigned long long)moved, (unsigned long long)unfused);
		cuts++;
		plan_unref(cut);
	}
}

static void check_graph(const char *name) {
	for (unsigned m = 0; m < sizeof machines / sizeof *machines; m++) {
		struct plan *p = plan_compared(machines[m]);
		uint32_t unfused;
		uint64_t moved;

		if (!p)
			continue;
		unfused = steps_unfused(machines[m], &moved);
		ck_assert_msg(plan_unfused_steps(p) == unfused, "%s: %u kernels without fusion are told, %u are there", name,
			plan_unfused_steps(p), unfused);
		ck_assert_msg(p->steps <= unfused, "%s: %u kernels, %u without fusion", name, p->steps, unfused);
		ck_assert_uint_eq(p->bytes_not_moved, moved > plan_moved(p) ? moved - plan_moved(p) : 0);
		check_steps(p, name);
		check_cuts(p, machines[m], moved, name);
		compared++;
		fewer += p->steps < unfused;
		plan_unref(p);
	}
}

START_TEST(without_fusion_is_told_of_a_text_graph_as_it_is_planned) {
	struct dirent **entry;
	int count = scandir("tests/graphs", &entry, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char path[512];
		struct text *t;

		snprintf(path, sizeof path, "tests/graphs/%s", entry[i]->d_name);
		free(entry[i]);
		if (!strstr(path, ".fz") || text_load(path, &t, &fault))
			continue;
		graph_reset(g);
		if (!text_graph_make(t, g, &fault))
			check_graph(path);
		text_free(t);
	}
	free(entry);
	printf("note: %u plans, %u of them with fewer kernels than without fusion; %u kernels copy for others; %u cuts\n", compared, fewer, helpers, cuts);
	ck_assert_uint_gt(helpers, 10);
	ck_assert_uint_gt(compared, 200);
	ck_assert_uint_gt(fewer, 100);
}
END_TEST

START_TEST(without_fusion_is_told_of_a_random_graph_as_it_is_planned) {
	static struct random_graph r;

	for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
		char name[64];

		r.most = RANDOM_ELEMENTS;
		r.in_f64 = seed % 5 == 0;
		graph_reset(g);
		ck_assert(random_graph_make(&r, g, seed, OPERATIONS));
		snprintf(name, sizeof name, "random graph %u", (unsigned)seed);
		check_graph(name);
	}
}
END_TEST

int main(void) {
	Suite *suite = suite_create("plan_gain");
	TCase *t = tcase_create("gains");

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, without_fusion_is_told_of_a_text_graph_as_it_is_planned);
	tcase_add_test(t, without_fusion_is_told_of_a_random_graph_as_it_is_planned);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}

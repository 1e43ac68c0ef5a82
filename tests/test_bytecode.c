/*
 * emit: bytecode does what its kernel says, and touches nothing else.
 *
 * Elementwise kernels of random graphs and of all text graphs run on tests/bytecode_machine.h, as they are and as a plan of generic
 * kernels has them, for vectors of each width: each access must be within its operand, each result what the kernel's values
 * say, and the results of whole graphs what the graphs say, element by element.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/generic.h"
#include "tests/random_graph.h"
#include "tests/suite.h"
#include "tests/text_graph.h"
/* Behind those whose parameters have the names of what it has. */
#include "tests/bytecode_plan.h"

enum {
	/* Some seconds; FUSION_PROGRAMS in the environment: another number. */
	PROGRAMS = 60,
	OPERATIONS = 40,
	/* Elements of a value. */
	MOST = 20000,
};

static struct traits machines[] = {
	{ .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1, .kernel_operands = 48, .kernel_values = 256 },
	{ .strategy = STRATEGY_CPU, .width = 8, .f64 = true, .units = 1, .pools = 1, .kernel_operands = 32, .kernel_values = 64 },
	{ .strategy = STRATEGY_CPU, .width = 4, .f64 = true, .units = 16, .pools = 1, .kernel_operands = 32, .kernel_values = 64 },
};

static struct fault fault;

static void setup(void) {
	ck_assert_int_eq(graph_new(&g), 0);
}

static void teardown(void) {
	g = graph_free(g);
}

/* ---- the whole ---- */

static bool runs(const struct kernel *k, const struct traits *t) {
	static struct bytecode b;

	return !bytecode_make(k, t, &b);
}

/* What repeats it. */
static void print_graph(void) {
	struct str text = { 0 };

	graph_put_text(&text, g, SIZE_MAX);
	fprintf(stderr, "%s", str_text(&text));
	str_free(&text);
}

static void run_graph(const char *name, bool whole) {
	if (whole)
		evaluate();
	for (unsigned m = 0; m < 2 * sizeof machines / sizeof *machines; m++) {
		const struct traits *t = &machines[m / 2];
		struct plan_options o = { .fuse = m % 2, .traits = t };
		struct plan *p, *generic;

		ck_assert_msg(!plan_make(g, &o, &p, &fault), "%s: %s", name, fault.text);
		ck_assert_int_eq(plan_generic(p, t, runs, &generic), 0);
		large_steps += is_large(p);
		if (!is_large(p))
			run_plan(p, t, m % 4 < 2 ? 4 : 16, whole);
		if (generic && !problem[0] && !is_large(generic))
			run_plan(generic, t, 4, whole && !casts());
		plan_unref(generic);
		plan_unref(p);
		if (problem[0])
			print_graph();
		ck_assert_msg(!problem[0], "%s, width %u, %s: %s", name, t->width, m % 2 ? "fused" : "unfused", problem);
	}
	if (whole)
		evaluate_free();
}

static unsigned number_of(const char *variable, unsigned otherwise) {
	const char *text = getenv(variable);

	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void print_counts(const char *what) {
	printf("note: %s: %llu programs ran, %llu with operands read in place, %llu elements; %llu kernels without code, %llu that are no maps, %llu plans too large\n", what,
		(unsigned long long)ran, (unsigned long long)in_place, (unsigned long long)elements, (unsigned long long)refused,
		(unsigned long long)other_steps, (unsigned long long)large_steps);
}

START_TEST(byte_code_of_random_graphs_computes_what_they_say) {
	unsigned count = number_of("FUSION_PROGRAMS", PROGRAMS), first = number_of("FUSION_SEED", 1);
	static struct random_graph r;

	for (uint64_t seed = first; seed < first + count; seed++) {
		char name[64];

		r.most = seed % 8 ? MOST : 1 << 17;
		r.maps = true;
		r.in_f64 = seed % 4 == 0;
		graph_reset(g);
		ck_assert(random_graph_make(&r, g, seed, 1 + (unsigned)(seed * 7 % OPERATIONS)));
		snprintf(name, sizeof name, "random graph %llu", (unsigned long long)seed);
		run_graph(name, true);
	}
	print_counts("random graphs");
}
END_TEST

START_TEST(byte_code_of_text_graphs_computes_what_their_kernels_say) {
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
			run_graph(path, false);
		text_free(t);
	}
	free(entry);
	print_counts("text graphs");
	ck_assert_uint_gt(ran, 300);
}
END_TEST

/* ---- the machine itself: what it must find ---- */

static void two_uniform_values(void) {
	static char buffer[3];
	static const int64_t dims[3][2] = { { 8, 512 }, { 8, 1 }, { 8, 1 } };
	const struct op_attr wide = { .rank = 2, .dims = { 8, 512 } };
	uint32_t leaf[3], sum;

	for (unsigned i = 0; i < 3; i++) {
		struct tensor_type t = { .dtype = DTYPE_f32, .rank = 2, .dims = { dims[i][0], dims[i][1] } };
		struct view v;

		view_contiguous(&t, &v);
		ck_assert_int_eq(graph_leaf(g, &buffer[i], &t, &v, &leaf[i]), 0);
	}
	for (unsigned i = 1; i < 3; i++)
		ck_assert_int_eq(graph_op(g, OP_broadcast, 1, &leaf[i], &wide, 0, &leaf[i], &fault), 0);
	ck_assert_int_eq(graph_op(g, OP_mul, 2, &leaf[1], NULL, 0, &sum, &fault), 0);
	ck_assert_int_eq(graph_op(g, OP_add, 2, (uint32_t[]){ leaf[0], sum }, NULL, 0, &sum, &fault), 0);
	ck_assert_int_eq(graph_output(g, sum, 0), 0);
}

/* A program of the kernel's with one word turned into another. */
static void expect_found(uint64_t kinds, uint64_t change, uint64_t mask, const char *what) {
	struct plan_options o = { .fuse = true, .traits = &machines[0] };
	static struct bytecode b;
	static struct step x;
	const struct instruction_set *set;
	unsigned outputs, found = 0;
	uint64_t *want;
	struct plan *p;

	two_uniform_values();
	ck_assert_int_eq(plan_make(g, &o, &p, &fault), 0);
	ck_assert_uint_eq(p->steps, 1);
	memory_make(p);
	x.p = p;
	x.s = &p->step[0];
	ck_assert_ptr_null(bytecode_make(x.s->kernel, o.traits, &b));
	set = instructions_of(b.dialect, o.traits);
	for (uint32_t i = 1; i < b.words; i++)
		if (kinds >> set->row[b.word[i] & 0xffff].kind & 1 && !found++)
			b.word[i] = (b.word[i] & ~mask) | change;
	ck_assert_msg(found, "%s: no such instruction", what);
	want = expect(&x, &outputs);
	run_code(&x, o.traits, &b, 16);
	compare(&x, want);
	ck_assert_msg(problem[0], "%s was not found", what);
	problem[0] = '\0';
	free(want);
	memory_free(p);
	plan_unref(p);
	graph_reset(g);
}

START_TEST(the_machine_finds_what_is_wrong) {
	expect_found(1ULL << INSTRUCTION_REACH, 0, UINT64_C(0xff) << 24, "a step in memory of no bytes");
	expect_found(1ULL << INSTRUCTION_REACH, 0, UINT64_C(0xff) << 16, "a register that others use");
	expect_found(1ULL << INSTRUCTION_PLACE, UINT64_C(8) << 24, UINT64_C(0xff) << 24, "elements of another size");
	expect_found(1ULL << INSTRUCTION_LOAD_UNIFORM, UINT64_C(200) << 16, UINT64_C(0xff) << 16, "a register that is none");
	expect_found(1ULL << INSTRUCTION_CHAIN, UINT64_C(23) << 24, UINT64_C(0xff) << 24, "a register that nothing wrote");
	expect_found(1ULL << INSTRUCTION_WRITE | 1ULL << INSTRUCTION_STREAM | 1ULL << INSTRUCTION_STORE | 1ULL << INSTRUCTION_STREAM_STORE, 0, UINT64_C(0xffff) << 48,
		"a store into what is only read");
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("bytecode");
	TCase *t = tcase_create("bytecode");

	machine = calloc(1, sizeof *machine);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 1200);
	tcase_add_test(t, the_machine_finds_what_is_wrong);
	tcase_add_test(t, byte_code_of_text_graphs_computes_what_their_kernels_say);
	tcase_add_test(t, byte_code_of_random_graphs_computes_what_they_say);
	suite_add_tcase(s, t);
	return s;
}

int main(void) {
	return suite_run(suite());
}

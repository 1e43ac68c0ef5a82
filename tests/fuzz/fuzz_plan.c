/*
 * Operations that a client could send -> graph -> plan, fused or not, of a machine or another -> cut to the end, and of generic
 * kernels -> source text and bytecode.
 *
 * The planner breaks none of its rules, and what is cut from a plan breaks none (daemon/plan/check.c: also that each operand lies
 * within its slot); each kernel has a text, twice the same; bytecode reads and writes where its operands are, and computes what its
 * kernel says, and what the graph says where that is known (tests/bytecode_plan.h).
 */
#include "fuzz.h"

#include "daemon/emit/emit.h"
#include "daemon/plan/generic.h"
#include "tests/bytecode_plan.h"
#include "tests/fuzz/program.h"

enum {
	/* Of a value, where elements are computed, and where they are not. */
	FUZZ_COMPUTED = 1 << 11,
	FUZZ_COUNTED = 1 << 30,
	/* Of all values and steps together: some milliseconds. */
	FUZZ_ELEMENTS = 1 << 14,
	/* Plans of larger steps are not run. */
	FUZZ_ITEMS = 64,
	FUZZ_CUTS = 64,
	FUZZ_FUSE = 8, FUZZ_FAST = 16, FUZZ_SMALL = 32, FUZZ_TEXT = 64,
};

static const struct traits fuzz_machines[] = {
	{ .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1, .kernel_operands = 48, .kernel_values = 256 },
	{ .strategy = STRATEGY_CPU, .width = 8, .f64 = true, .units = 1, .pools = 1, .kernel_operands = 32, .kernel_values = 64 },
	{ .strategy = STRATEGY_CPU, .width = 4, .f64 = true, .units = 64, .pools = 1, .kernel_operands = 32, .kernel_values = 64 },
	{ .strategy = STRATEGY_GPU, .width = 1, .local_size = 256, .local_bytes = 48 << 10, .f64 = true, .units = 16, .pools = 1,
		.kernel_operands = 32, .kernel_values = 64 },
	{ .strategy = STRATEGY_GPU, .width = 1, .local_size = 256, .local_bytes = 48 << 10, .f64 = true, .matrix = true, .wgmma = true, .units = 132, .pools = 1,
		.kernel_operands = 32, .kernel_values = 64 },
};

static bool runs(const struct kernel *k, const struct traits *t) {
	static struct bytecode b;

	return !bytecode_make(k, t, &b);
}

static void check_rules(const struct plan *p, const char *what) {
	const char *rule = plan_broken(p, g);

	claim(!rule, "%s: %s", what, rule);
}

/* A text is a function of kernel and traits alone. */
static void check_texts(const struct plan *p, const struct traits *t) {
	for (uint32_t i = 0; i < p->steps; i++) {
		struct str first = { 0 }, second = { 0 };
		uint64_t record[KERNEL_WORD_DIMS + KERNEL_RANK] = { 0 };
		struct emit_launch l = emit_geometry(p->step[i].kernel, t, p->step[i].dims, p->step[i].extent, record);

		claim(l.items, "a launch of no items");
		claim(!emit_source(p->step[i].kernel, t, &first) && !emit_source(p->step[i].kernel, t, &second), "no memory");
		claim(!str_finish(&first) && !str_finish(&second) && !strcmp(str_text(&first), str_text(&second)), "two texts of one kernel");
		claim(strstr(str_text(&first), "fused"), "a text without an entry");
		str_free(&first);
		str_free(&second);
	}
}

static void check_cuts(struct plan *p, const struct traits *t) {
	unsigned cuts = 0;

	plan_ref(p);
	for (uint32_t i = 0; i < p->steps && cuts < FUZZ_CUTS;) {
		struct fault f;
		struct plan *q;
		int r = plan_split(p, i, t, &q, &f);

		if (r == FAULT_BUILD) {
			i++;
			continue;
		}
		claim(!r, "a cut: %d %s", r, f.text);
		plan_unref(p);
		p = q;
		cuts++;
		check_rules(p, "a plan that was cut");
	}
	plan_unref(p);
}

static bool is_small(const struct plan *p) {
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		n += p->step[i].elements * p->step[i].kernel->operands;
	for (uint32_t i = 0; i < p->slots; i++)
		n += p->slot[i].bytes;
	return n <= FUZZ_ELEMENTS * 4 && p->steps <= FUZZ_ITEMS;
}

static void compute(const struct plan *p, const struct traits *t, unsigned together, bool whole) {
	if (t->strategy != STRATEGY_CPU || !is_small(p))
		return;
	run_plan(p, t, together, whole);
	if (!problem[0])
		return;
	struct str text = { 0 };

	graph_put_text(&text, g, SIZE_MAX);
	fprintf(stderr, "%s", str_text(&text));
	claim(false, "%s", problem);
}

static bool is_cheap(void) {
	uint64_t n = 0;

	for (uint32_t i = 0; i < graph_nodes(g); i++)
		n += (uint64_t)shape_elements(&graph_node(g, i)->type);
	return n <= FUZZ_ELEMENTS;
}

static void check(unsigned how, bool maps) {
	const struct traits *t = &fuzz_machines[how % 8 % (sizeof fuzz_machines / sizeof *fuzz_machines)];
	struct plan_options o = { .fuse = how & FUZZ_FUSE, .fast = how & FUZZ_FAST, .traits = t };
	uint64_t before = plan_rules_broken();
	bool whole = how & FUZZ_SMALL && maps && t->strategy == STRATEGY_CPU && is_cheap();
	struct plan *p, *generic;
	struct fault f;
	int r = plan_make(g, &o, &p, &f);

	claim(!r, "no plan: %d %s", r, f.text);
	check_rules(p, "a plan");
	claim(!plan_generic(p, t, runs, &generic), "no memory");
	if (generic)
		check_rules(generic, "a plan of generic kernels");
	check_cuts(p, t);
	claim(plan_rules_broken() == before, "the planner broke a rule");
	if (how & FUZZ_TEXT)
		check_texts(p, t);
	if (whole)
		evaluate();
	if (how & FUZZ_SMALL) {
		compute(p, t, how & FUZZ_TEXT ? 16 : 4, whole && !o.fast);
		if (generic)
			compute(generic, t, 4, whole && !casts() && !o.fast);
	}
	if (whole)
		evaluate_free();
	plan_unref(generic);
	plan_unref(p);
}

void fuzz_one(struct fuzz_bytes *b) {
	unsigned how = fuzz_byte(b);
	struct program p = { .in = b, .maps = true, .most = how & FUZZ_SMALL ? FUZZ_COMPUTED : FUZZ_COUNTED };

	if (!machine)
		machine = machine_allocate(1, sizeof *machine);
	if (!g)
		claim(!graph_new(&g), "no memory");
	graph_reset(g);
	p.g = g;
	problem[0] = '\0';
	if (program_read(&p))
		check(how, p.maps);
}

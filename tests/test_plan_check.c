/*
 * plan: what the planner promises of itself (daemon/plan/check.c).
 *
 * Each rule is broken on purpose and must be found; what is found costs the graph its fusion and nothing else. Then the
 * planner plans graphs as programs make them, thousands of random ones and all text graphs, for CPUs and GPUs, cut to the end
 * and with generic kernels: it breaks none.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/emit/bytecode.h"
#include "daemon/plan/generic.h"
#include "daemon/plan/planner.h"
#include "tests/random_graph.h"
#include "tests/suite.h"
#include "tests/text_graph.h"

enum {
	/* Some seconds; FUSION_PLANS in the environment: another number. */
	PLANS = 400,
	LONG_PLANS = 40,
	LONG_OPERATIONS = 3000,
	RANKS = 6,
};

static const struct traits cpu = { .strategy = STRATEGY_CPU, .width = 16, .f64 = true, .units = 2, .pools = 1,
	.kernel_operands = 48, .kernel_values = 256 };
static const struct traits narrow = { .strategy = STRATEGY_CPU, .width = 8, .f64 = true, .units = 64, .pools = 1,
	.kernel_operands = 32, .kernel_values = 64 };
static const struct traits gpu = { .strategy = STRATEGY_GPU, .width = 1, .local_size = 256, .local_bytes = 48 << 10, .f64 = true, .units = 16,
	.pools = 1, .kernel_operands = 32, .kernel_values = 64 };
static const struct traits matrix = { .strategy = STRATEGY_GPU, .width = 1, .local_size = 256, .local_bytes = 48 << 10, .f64 = true,
	.matrix = true, .wgmma = true, .units = 132, .pools = 1, .kernel_operands = 32, .kernel_values = 64 };
static const struct traits *const machines[] = { &cpu, &narrow, &gpu, &matrix };

static struct graph *g;
static struct fault fault;

static void setup(void) {
	ck_assert_int_eq(graph_new(&g), 0);
}

static void teardown(void) {
	g = graph_free(g);
	planner_meddle = NULL;
}

static char buffers[8];

static uint32_t array(unsigned buffer, unsigned rank, const int64_t *dims) {
	struct tensor_type t = { .dtype = DTYPE_f32, .rank = (uint8_t)rank };
	struct view v;
	uint32_t node;

	memcpy(t.dims, dims, rank * sizeof *dims);
	view_contiguous(&t, &v);
	ck_assert_int_eq(graph_leaf(g, &buffers[buffer], &t, &v, &node), 0);
	return node;
}

#define DIMS(...) (sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ }

static uint32_t made(unsigned op, unsigned arity, const uint32_t *in, const struct op_attr *attr) {
	uint32_t node;

	ck_assert_msg(!graph_op(g, op, arity, in, attr, 0, &node, &fault), "%s", fault.text);
	return node;
}

#define OF(op, ...) made(op, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), (uint32_t[]){ __VA_ARGS__ }, NULL)

/* ---- each rule, broken ---- */

/* x @ x + exp(x) beside a sum, whose result goes back over its rows; a transposed array; a whole of two parts. */
static void make_graph(void) {
	uint32_t x = array(0, DIMS(24, 24)), a = OF(OP_exp, x), m = OF(OP_matmul, x, a), y = OF(OP_add, m, a);
	struct op_attr rows = { .axes = 2, .keepdims = true }, turn = { .rank = 2, .perm = { 1, 0 } };
	uint32_t s = made(OP_reduce_sum, 1, &y, &rows), t = made(OP_permute, 1, &y, &turn), z = OF(OP_mul, OF(OP_div, y, s), t);
	uint32_t parts[] = { z, OF(OP_neg, a) }, whole = made(OP_concat, 2, parts, &(struct op_attr){ .axis = 0 });

	ck_assert_int_eq(graph_output(g, whole, 0), 0);
	ck_assert_int_eq(graph_output(g, OF(OP_tanh, whole), 1), 0);
}

static struct group *group_of(struct planner *p, uint8_t kind) {
	for (uint32_t i = 0; i < p->groups; i++)
		if (p->group[i].parent == i && p->group[i].ops && p->group[i].kind == kind)
			return &p->group[i];
	ck_abort_msg("there is no such group");
}

static struct node *node_of(struct planner *p, unsigned op) {
	for (uint32_t i = 0; i < p->nodes; i++)
		if (p->node[i].kind != NODE_DEAD && p->node[i].op == op)
			return &p->node[i];
	ck_abort_msg("there is no such node");
}

static struct plan_step *step_of(struct planner *p, unsigned root) {
	for (uint32_t i = 0; i < p->plan->steps; i++)
		if (p->plan->step[i].kernel->root == root)
			return &p->plan->step[i];
	ck_abort_msg("there is no such step");
}

static struct plan_operand *operand_of(struct plan_step *s, bool output) {
	for (unsigned i = 0; i < s->kernel->operands; i++)
		if (s->kernel->operand[i].output == output && !kernel_works_in(s->kernel, i))
			return &s->operand[i];
	ck_abort_msg("there is no such operand");
}

static void lose_operand(struct planner *p) {
	node_of(p, OP_exp)->in[0] = UINT32_MAX;
}

static void read_dead(struct planner *p) {
	node_of(p, OP_exp)->in[0] = node_of(p, OP_add)->in[0];
	node_of(p, OP_matmul)->kind = NODE_DEAD;
}

static void view_of_view(struct planner *p) {
	node_of(p, OP_permute)->base = (uint32_t)(node_of(p, OP_permute) - p->node);
	node_of(p, OP_add)->base = (uint32_t)(node_of(p, OP_permute) - p->node);
}

static void view_too_far(struct planner *p) {
	node_of(p, OP_permute)->view.stride[0] = 1000;
}

static void too_many_operands(struct planner *p) {
	node_of(p, OP_exp)->arity = LIMIT_OPERANDS + 1;
}

/* A transposed array has no strides over all its elements in one row. */
static void walk_nowhere(struct planner *p) {
	static const struct tensor_type row = { .dtype = DTYPE_f32, .rank = 1, .dims = { 24 * 24 } };

	node_of(p, OP_mul)->over = node_of(p, OP_mul)->space;
	node_of(p, OP_mul)->space = &row;
}

static void parent_of_nothing(struct planner *p) {
	group_of(p, NODE_MATMUL)->parent = UINT32_MAX;
}

static void parents_in_a_circle(struct planner *p) {
	struct group *a = group_of(p, NODE_MATMUL), *b = group_of(p, NODE_PARTS);

	a->parent = (uint32_t)(b - p->group);
	b->parent = (uint32_t)(a - p->group);
}

static void count_too_many(struct planner *p) {
	group_of(p, NODE_MATMUL)->ops++;
}

static void lose_member(struct planner *p) {
	struct group *g_ = group_of(p, NODE_MATMUL);

	g_->first = g_->last = GRAPH_NONE;
	g_->ops = 0;
}

static void member_of_another(struct planner *p) {
	p->node[group_of(p, NODE_MATMUL)->first].group = (uint32_t)(group_of(p, NODE_PARTS) - p->group);
}

static void members_backwards(struct planner *p) {
	struct group *all = group_of(p, NODE_MATMUL);

	ck_assert_uint_eq(all->ops, 2);
	p->next[all->last] = all->first;
	p->next[all->first] = GRAPH_NONE;
	all->first = all->last;
	all->last = p->next[all->first];
}

static void lose_sources(struct planner *p) {
	group_of(p, NODE_MATMUL)->sources = 0;
}

static void rank_low(struct planner *p) {
	group_of(p, NODE_MATMUL)->rank = 0;
}

static void whole_low(struct planner *p) {
	group_of(p, NODE_PARTS)->rank = 0;
}

static void forget_reader(struct planner *p) {
	for (uint32_t i = 0; i < p->groups; i++)
		p->group[i].read = false;
}

static void wrong_reader(struct planner *p) {
	p->reader[p->reader_start[node_of(p, OP_exp) - p->node]] = 0;
}

static void lose_reader(struct planner *p) {
	p->reader_start[p->nodes]--;
}

static void not_stored(struct planner *p) {
	node_of(p, OP_exp)->stored = false;
}

static void no_memory(struct planner *p) {
	operand_of(step_of(p, KERNEL_MATMUL), false)->slot = PLAN_NONE;
}

static void write_leaf(struct planner *p) {
	operand_of(step_of(p, KERNEL_MATMUL), true)->slot = 0;
}

static void backwards(struct planner *p) {
	struct plan_step first = p->plan->step[0];

	p->plan->step[0] = p->plan->step[p->plan->steps - 1];
	p->plan->step[p->plan->steps - 1] = first;
}

static void reach_too_far(struct planner *p) {
	operand_of(step_of(p, KERNEL_MATMUL), true)->offset = 1;
}

static void reach_before(struct planner *p) {
	operand_of(step_of(p, KERNEL_MATMUL), true)->offset = -1;
}

static void reach_far_leaf(struct planner *p) {
	for (unsigned i = 0; i < p->plan->step[0].kernel->operands; i++)
		if (p->plan->step[0].operand[i].slot < p->plan->leaves)
			p->plan->step[0].operand[i].stride[0] = INT64_MAX / 2;
}

static void nothing_to_do(struct planner *p) {
	p->plan->step[0].dims[0] = 0;
}

static void no_number(struct planner *p) {
	static uint32_t number[KERNEL_SCALARS] = { UINT32_MAX };

	p->plan->step[0].scalar = number;
	p->plan->step[0].kernel->scalars = 1;
}

static void result_nowhere(struct planner *p) {
	p->plan->output[1].slot = PLAN_NONE;
}

static void result_too_far(struct planner *p) {
	p->plan->output[1].view.offset = 1;
}

static void result_not_written(struct planner *p) {
	uint32_t slot;

	ck_assert_int_eq(plan_add_slot(p->plan, 1 << 20, true, &slot), 0);
	p->plan->output[1].slot = slot;
}

static void too_many_dims(struct planner *p) {
	p->plan->step[0].kernel->rank = KERNEL_RANK + 1;
}

static void reuse_needed(struct planner *p) {
	p->plan->slot[p->plan->slots - 1].reuse = p->plan->output[0].slot;
}

/* Somebody names a pair that is in one kernel. */
static void name_a_pair(struct planner *p) {
	struct op_pairs *apart = &((struct plan_options *)(uintptr_t)p->o)->apart;

	for (uint32_t i = 0; i < p->nodes; i++)
		for (unsigned k = 0; node_is_computed(&p->node[i]) && k < p->node[i].arity; k++)
			if (group_inside(p, group_find(p, p->node[i].group), &p->node[i], k))
				*apart = (struct op_pairs){ 1, { { p->node[planner_edge(p, &p->node[i], k).base].op, p->node[i].op } } };
}

static const struct broken {
	const char *pass;
	void (*meddle)(struct planner *p);
	const char *rule;
} broken[] = {
	{ "resolve", lose_operand, "an operand is a node that is needed" },
	{ "resolve", read_dead, "an operand is a node that is needed" },
	{ "resolve", view_of_view, "what a view is of is no view" },
	{ "resolve", view_too_far, "a view leads to places of what it is of" },
	{ "resolve", too_many_operands, "an operation has no more operands than there may be" },
	{ "walk", walk_nowhere, "an operand has strides over what its reader is computed over" },
	{ "join", parent_of_nothing, "a group became part of one that stands" },
	{ "join", parents_in_a_circle, "a group became part of one that stands" },
	{ "sink", count_too_many, "a group has as many members as it counts" },
	{ "sink", lose_member, "an operation is a member of a group" },
	{ "merge", member_of_another, "a member is one of its own group, once" },
	{ "join", members_backwards, "what a member reads stands before it" },
	{ "merge", lose_sources, "what a group reads is among its sources" },
	{ "join", rank_low, "a group ranks above those it reads" },
	{ "before", rank_low, "a group ranks above those it reads" },
	{ "join", whole_low, "a whole ranks with its parts, or above them" },
	{ "join", forget_reader, "a group that another one reads is marked so" },
	{ "readers", wrong_reader, "a reader of a node reads it" },
	{ "readers", lose_reader, "each operand counts as a reader of its node" },
	{ "store", not_stored, "what another kernel reads is stored" },
	{ "store", name_a_pair, "what fusion.apart names is in kernels of its own" },
	{ "results", no_memory, "an operand has memory" },
	{ "results", write_leaf, "a kernel writes to no leaf" },
	{ "results", backwards, "a kernel reads what one before it has written" },
	{ "order", backwards, "a kernel reads what one before it has written" },
	{ "results", reach_too_far, "an operand lies within its memory" },
	{ "results", reach_before, "an operand lies within its memory" },
	{ "results", reach_far_leaf, "an operand lies within its memory" },
	{ "results", nothing_to_do, "a kernel has something to do" },
	{ "results", no_number, "a number of a kernel is one of the graph's or of the plan's" },
	{ "results", too_many_dims, "a kernel has no more of anything than there may be" },
	{ "results", result_nowhere, "a result has memory" },
	{ "results", result_too_far, "a result lies within its memory" },
	{ "results", result_not_written, "a result is written" },
	{ "order", reuse_needed, "memory is taken over from what is not needed any more" },
};

static const struct broken *now;
static bool always;

static void meddle(struct planner *p, const char *pass) {
	if (!strcmp(pass, now->pass) && (p->o->fuse || always))
		now->meddle(p);
}

static int plan_broken_graph(struct plan **planp) {
	struct plan_options o = { .fuse = true, .traits = &cpu };

	planner_meddle = meddle;
	return plan_make(g, &o, planp, &fault);
}

START_TEST(a_broken_rule_costs_its_graph_the_fusion_alone) {
	struct plan_options single = { .traits = &cpu };
	uint64_t before = plan_rules_broken();
	struct plan *p, *q;

	now = &broken[_i];
	always = false;
	make_graph();
	ck_assert_msg(!plan_broken_graph(&p), "%s", fault.text);
	ck_assert_uint_eq(plan_rules_broken(), before + 1);
	ck_assert_int_eq(plan_make(g, &single, &q, &fault), 0);
	ck_assert_uint_eq(p->steps, q->steps);
	plan_unref(p);
	plan_unref(q);
}
END_TEST

START_TEST(what_breaks_rules_unfused_too_is_refused_with_the_rule) {
	struct plan *p;

	now = &broken[_i];
	always = true;
	make_graph();
	/* Some of what is broken here does not arise where nothing is fused. */
	if (now->meddle == members_backwards || now->meddle == name_a_pair)
		return;
	ck_assert_int_eq(plan_broken_graph(&p), FAULT_INTERNAL);
	ck_assert_msg(strstr(fault.text, now->rule) != NULL, "\"%s\" is not: %s", fault.text, now->rule);
	ck_assert_ptr_nonnull(strstr(fault.text, now->pass));
}
END_TEST

/* ---- what must never be broken ---- */

static bool runs(const struct kernel *k, const struct traits *t) {
	struct bytecode b;

	return !bytecode_make(k, t, &b);
}

static uint64_t plans, kernels, cuts, stand_ins;

static const char *check_generic(const struct plan *p, const struct traits *t) {
	struct plan *generic;
	const char *rule = NULL;

	ck_assert_int_eq(plan_generic(p, t, runs, &generic), 0);
	if (generic) {
		rule = plan_broken(generic, g);
		stand_ins++;
	}
	plan_unref(generic);
	return rule;
}

/* Each step is cut in two as long as that goes. */
static const char *check_cuts(struct plan *p, const struct traits *t) {
	const char *rule = NULL;

	plan_ref(p);
	for (uint32_t i = 0; !rule && i < p->steps;) {
		struct plan *q;
		int r = plan_split(p, i, t, &q, &fault);

		if (r == FAULT_BUILD) {
			i++;
			continue;
		}
		ck_assert_msg(!r, "%s", fault.text);
		plan_unref(p);
		p = q;
		cuts++;
		rule = plan_broken(p, g);
	}
	plan_unref(p);
	return rule;
}

/* Ways to plan: fused, single, fast, and with some of its pairs of operations kept apart. */
enum { FUSED, SINGLE, FAST, APART, WAYS };

static void keep_some_apart(struct op_pairs *apart) {
	for (uint32_t i = 0; i < graph_nodes(g) && apart->count < OP_PAIRS; i++) {
		const struct graph_node *n = graph_node(g, i);

		for (unsigned k = 0; k < n->arity && apart->count < OP_PAIRS; k += 2)
			apart->pair[apart->count++] = (struct op_pair){ graph_node(g, n->in[k])->op, n->op };
	}
}

static const char *check_one(const struct traits *t, unsigned way, bool cut) {
	struct plan_options o = { .fuse = way != SINGLE, .fast = way == FAST, .traits = t };
	uint64_t before = plan_rules_broken();
	const char *rule;
	struct plan *p;
	int r;

	if (way == APART)
		keep_some_apart(&o.apart);
	r = plan_make(g, &o, &p, &fault);
	if (r)
		return r < 0 ? strerror(-r) : fault.text;
	plans++;
	kernels += p->steps;
	rule = plan_rules_broken() != before ? "the planner broke a rule, see above" : plan_broken(p, g);
	if (!rule)
		rule = check_generic(p, t);
	if (!rule && cut)
		rule = check_cuts(p, t);
	if (!rule && plan_rules_broken() != before)
		rule = "a plan made of this one broke a rule, see above";
	plan_unref(p);
	return rule;
}

static void check_all(const char *name, bool cut) {
	for (unsigned m = 0; m < sizeof machines / sizeof *machines; m++)
		for (unsigned way = 0; way < WAYS; way++) {
			const char *rule = check_one(machines[m], way, cut);

			ck_assert_msg(!rule, "%s, machine %u, way %u: %s", name, m, way, rule);
		}
}

static unsigned number_of(const char *variable, unsigned otherwise) {
	const char *text = getenv(variable);

	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* How large graphs were, in powers of two. */
static unsigned sizes[16];

static void count_size(void) {
	unsigned n = graph_received(g), size = 0;

	while (n >>= 1)
		size++;
	sizes[size < 16 ? size : 15]++;
}

static void print_sizes(void) {
	printf("note: %llu plans of %llu kernels, %llu cuts, %llu of generic kernels; graphs of", (unsigned long long)plans,
		(unsigned long long)kernels, (unsigned long long)cuts, (unsigned long long)stand_ins);
	for (unsigned i = 0; i < 16; i++)
		if (sizes[i])
			printf(" %u+: %u", 1U << i, sizes[i]);
	printf(" operations\n");
}

static void check_random(uint64_t seed, unsigned operations, bool cut) {
	static struct random_graph r;
	char name[64];

	r.most = seed % 3 ? RANDOM_ELEMENTS : INT64_C(1) << 40;
	r.in_f64 = seed % 5 == 0;
	graph_reset(g);
	ck_assert(random_graph_make(&r, g, seed, operations));
	count_size();
	snprintf(name, sizeof name, "random graph %llu of %u operations", (unsigned long long)seed, operations);
	check_all(name, cut);
}

START_TEST(no_rule_is_broken_by_random_graphs) {
	unsigned count = number_of("FUSION_PLANS", PLANS), first = number_of("FUSION_SEED", 1);

	for (uint64_t seed = first; seed < first + count; seed++) {
		unsigned operations = random_operations(seed);

		check_random(seed, operations > 400 && seed % LONG_PLANS ? operations % 400 : operations, operations < 60);
	}
	/* Once with a leaf of more elements than can be counted. */
	check_random(5106, random_operations(5106), true);
	print_sizes();
}
END_TEST

START_TEST(no_rule_is_broken_by_text_graphs) {
	struct dirent **entry;
	int count = scandir("tests/graphs", &entry, NULL, alphasort);
	unsigned made_ = 0, seen = 0;

	for (int i = 0; i < count; i++) {
		char path[512];
		struct text *t;

		snprintf(path, sizeof path, "tests/graphs/%s", entry[i]->d_name);
		free(entry[i]);
		if (!strstr(path, ".fz") || text_load(path, &t, &fault))
			continue;
		seen++;
		graph_reset(g);
		if (!text_graph_make(t, g, &fault)) {
			made_++;
			check_all(path, true);
		}
		text_free(t);
	}
	free(entry);
	/* The others expect errors, or own operations. */
	printf("note: %u of %u text graphs\n", made_, seen);
	ck_assert_uint_gt(made_, seen * 4 / 5);
}
END_TEST

/* The graph of a broken rule is in the log as text: it repeats what broke. */
START_TEST(a_graph_told_as_text_is_read_again) {
	static struct random_graph r;

	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct str text = { 0 };
		struct graph *again;
		struct text *t;

		r.most = RANDOM_ELEMENTS;
		r.in_f64 = true;
		graph_reset(g);
		ck_assert(random_graph_make(&r, g, seed, 1 + (unsigned)seed % 50));
		graph_put_text(&text, g, SIZE_MAX);
		ck_assert_int_eq(str_finish(&text), 0);
		ck_assert_msg(!text_parse("again.fz", str_text(&text), &t, &fault), "%s\n%s", fault.text, str_text(&text));
		ck_assert_int_eq(graph_new(&again), 0);
		ck_assert_msg(!text_graph_make(t, again, &fault), "%s\n%s", fault.text, str_text(&text));
		ck_assert_uint_eq(graph_outputs(again), graph_outputs(g));
		for (uint32_t i = 0; i < graph_outputs(g); i++)
			ck_assert_msg(shape_equal(&graph_node(again, graph_output_at(again, i)->node)->type, &graph_node(g, graph_output_at(g, i)->node)->type),
				"result %u is of another type:\n%s", i, str_text(&text));
		graph_free(again);
		text_free(t);
		str_free(&text);
	}
}
END_TEST

/* The space of a standard deviation is none of the rows that group_norm() makes of it. */
START_TEST(a_norm_over_a_deviation_of_any_rank_keeps_to_its_memory) {
	unsigned rank = (unsigned)_i;

	for (uint16_t axes = 1; axes < 1U << rank; axes++)
		for (unsigned keepdims = 0; keepdims < 2; keepdims++) {
			static const int64_t extents[] = { 1 << 10, 3, 1 << 9, 2, 5, 7, 1, 4 };
			struct op_attr of = { .axes = axes, .keepdims = keepdims }, groups = { .whole = 1, .number = 1e-5 };
			int64_t dims[LIMIT_RANK];
			uint32_t x, s, y;

			graph_reset(g);
			for (unsigned d = 0; d < rank; d++)
				dims[d] = extents[(d + axes) % 8];
			x = array(0, rank, dims);
			s = made(OP_std, 1, &x, &of);
			if (graph_op(g, OP_group_norm, 1, &s, &groups, 0, &y, &fault))
				continue;
			ck_assert_int_eq(graph_output(g, y, 0), 0);
			check_all("group_norm(std(x))", true);
		}
}
END_TEST

/* 40 results behind a product that has a norm before it, each with an operand of its own: no kernel holds them. */
START_TEST(a_product_with_rows_before_it_that_does_not_fit_is_taken_apart) {
	uint32_t x = array(0, DIMS(64, 64)), w = array(1, DIMS(64, 64)), y;
	struct op_attr rows = { .axes = 2, .keepdims = true };
	static char own[KERNEL_OPERANDS];

	y = OF(OP_matmul, OF(OP_sub, x, made(OP_reduce_mean, 1, &x, &rows)), w);
	for (unsigned i = 0; i < 40; i++) {
		struct tensor_type t = { .dtype = DTYPE_f32, .rank = 2, .dims = { 64, 64 } };
		struct view v;
		uint32_t other;

		view_contiguous(&t, &v);
		ck_assert_int_eq(graph_leaf(g, &own[i % 14], &t, &v, &other), 0);
		y = OF(i % 2 ? OP_add : OP_mul, y, other);
		ck_assert_int_eq(graph_output(g, y, i), 0);
	}
	check_all("a norm, a product and 40 results", true);
}
END_TEST

/*
 * Two products are added up where the one that joins has no room for what it would read: it was lifted for that, and what is
 * made instead must rank above it.
 */
START_TEST(what_a_lifted_product_has_no_room_for_ranks_above_it) {
	static char own[GROUP_SOURCES * 2];
	uint32_t x = array(0, DIMS(32, 32)), w = array(1, DIMS(32, 32)), sum[2], y;

	for (unsigned k = 0; k < 2; k++) {
		sum[k] = OF(OP_matmul, x, k ? w : x);
		for (unsigned i = 0; i < GROUP_SOURCES - 2U; i++) {
			struct tensor_type t = { .dtype = DTYPE_f32, .rank = 2, .dims = { 32, 32 } };
			struct view v;
			uint32_t other;

			view_contiguous(&t, &v);
			ck_assert_int_eq(graph_leaf(g, &own[i + k * GROUP_SOURCES], &t, &v, &other), 0);
			sum[k] = OF(OP_add, sum[k], other);
		}
	}
	y = OF(OP_add, sum[0], sum[1]);
	ck_assert_int_eq(graph_output(g, OF(OP_exp, y), 0), 0);
	check_all("two products and their sum", true);
}
END_TEST

static Suite *suite(void) {
	Suite *s = suite_create("plan_check");
	TCase *t = tcase_create("plan_check");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 1200);
	tcase_add_loop_test(t, a_broken_rule_costs_its_graph_the_fusion_alone, 0, sizeof broken / sizeof *broken);
	tcase_add_loop_test(t, what_breaks_rules_unfused_too_is_refused_with_the_rule, 0, sizeof broken / sizeof *broken);
	tcase_add_loop_test(t, a_norm_over_a_deviation_of_any_rank_keeps_to_its_memory, 3, 3 + RANKS);
	tcase_add_test(t, a_product_with_rows_before_it_that_does_not_fit_is_taken_apart);
	tcase_add_test(t, what_a_lifted_product_has_no_room_for_ranks_above_it);
	tcase_add_test(t, a_graph_told_as_text_is_read_again);
	tcase_add_test(t, no_rule_is_broken_by_text_graphs);
	tcase_add_test(t, no_rule_is_broken_by_random_graphs);
	suite_add_tcase(s, t);
	return s;
}

int main(void) {
	return suite_run(suite());
}

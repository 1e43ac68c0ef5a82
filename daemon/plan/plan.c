/*
 * The driver of the planner's passes, and the plan as a growing list of steps and slots.
 *
 * A pass that broke a rule (check.c) costs its graph the fusion, not the engine its life: it is planned again, one kernel
 * an operation. That is counted and logged with the graph's text. Where these kernels are wrong, too, the request is refused.
 */
#include "planner.h"
#include "tuning.h"

#include "daemon/base/log.h"
#include "daemon/base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int plan_add_slot(struct plan *p, uint64_t bytes, bool output, uint32_t *slotp) {
	if (p->slots == p->slot_capacity) {
		uint32_t capacity = p->slot_capacity ? p->slot_capacity * 2 : 16;
		struct plan_slot *slot = realloc(p->slot, capacity * sizeof *slot);

		if (!slot)
			return -ENOMEM;
		p->slot = slot;
		p->slot_capacity = capacity;
	}
	*slotp = p->slots;
	p->slot[p->slots++] = (struct plan_slot){ .bytes = bytes, .output = output, .reuse = PLAN_NONE,
		.packed_of = PLAN_NONE };
	return 0;
}

static int steps_reserve(struct plan *p) {
	uint32_t capacity = p->step_capacity ? p->step_capacity * 2 : 8;
	struct plan_step *step;

	if (p->steps < p->step_capacity)
		return 0;
	step = realloc(p->step, capacity * sizeof *step);
	if (!step)
		return -ENOMEM;
	p->step = step;
	p->step_capacity = capacity;
	return 0;
}

/* What is nothing may come from nowhere. */
static void *keep(struct plan *p, const void *from, size_t bytes) {
	void *to = arena_alloc(&p->arena, bytes ? bytes : 1);

	if (to && bytes)
		memcpy(to, from, bytes);
	return to;
}

/*
 * Bytes of memory an operand touches: dims along which it does not move count once, windows overlap,
 * and what is gathered may be anywhere.
 */
static uint64_t operand_bytes(const struct plan *p, const struct draft *d, unsigned operand) {
	uint64_t bytes = dtype_info(d->kernel.operand[operand].dtype)->bytes, all;

	if (d->kernel.operand[operand].iota || kernel_works_in(&d->kernel, operand))
		return 0;
	all = p->slot[d->operand[operand].slot].bytes;
	if (d->kernel.scored && (operand == SCORES_LEFT || operand == SCORES_RIGHT))
		return all;
	for (unsigned i = 0; i < d->kernel.rank; i++)
		if (d->operand[operand].stride[i] || d->kernel.operand[operand].gathered)
			bytes *= (uint64_t)d->dims[i];
	return bytes < all ? bytes : all;
}

/* Neighbouring steps often run the same kernel: unfused chains, cut pieces of one long chain. */
enum { KERNEL_MEMORY = 8 };

static struct kernel *keep_kernel(struct plan *p, const struct kernel *k) {
	for (uint32_t i = p->steps; i-- > 0 && i + KERNEL_MEMORY >= p->steps;)
		if (kernel_equal(p->step[i].kernel, k))
			return p->step[i].kernel;
	return keep(p, k, sizeof *k);
}

int plan_add_step(struct plan *p, const struct draft *d, const uint32_t *op, uint32_t ops) {
	const struct kernel *k = &d->kernel;
	struct plan_step *s;
	int r = steps_reserve(p);

	if (r)
		return r;
	for (unsigned i = 0; i < k->operands; i++)
		if (!k->operand[i].iota && d->operand[i].slot >= p->slots)
			return FAULT_INTERNAL;
	s = &p->step[p->steps];
	*s = (struct plan_step){ .ops = ops, .extent = d->extent, .elements = draft_elements(d) };
	memcpy(s->dims, d->dims, sizeof s->dims);
	s->kernel = keep_kernel(p, k);
	s->operand = keep(p, d->operand, k->operands * sizeof *s->operand);
	s->scalar = keep(p, d->scalar, k->scalars * sizeof *s->scalar);
	s->op = keep(p, op, ops * sizeof *op);
	if (!s->kernel || !s->operand || !s->scalar || !s->op)
		return -ENOMEM;
	for (unsigned i = 0; i < k->operands; i++)
		*(k->operand[i].output ? &s->bytes_written : &s->bytes_read) += operand_bytes(p, d, i);
	p->steps++;
	return 0;
}

/* ---- results ---- */

static void output_of(const struct planner *p, uint32_t i, struct plan_output *o) {
	const struct graph_output *out = graph_output_at(p->g, i);
	const struct node *n = &p->node[out->node];

	if (n->copy != GRAPH_NONE)
		n = &p->node[n->copy];
	*o = (struct plan_output){ .slot = p->node[n->base].slot, .type = *n->type, .view = n->view, .tag = i };
}

static int outputs_make(struct planner *p) {
	struct plan *plan = p->plan;

	plan->outputs = graph_outputs(p->g);
	plan->output = calloc(plan->outputs + 1u, sizeof *plan->output);
	if (!plan->output)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->outputs; i++) {
		output_of(p, i, &plan->output[i]);
		plan->slot[plan->output[i].slot].output = true;
	}
	return 0;
}

static int leaves_make(struct planner *p) {
	struct plan *plan = p->plan;
	uint32_t slot;
	int r = 0;

	plan->leaves = graph_leaves(p->g);
	for (uint32_t i = 0; !r && i < plan->leaves; i++) {
		const struct graph_node *n = graph_node(p->g, graph_leaf_at(p->g, i)->node);

		r = plan_add_slot(plan, (uint64_t)shape_bytes(&n->type), false, &slot);
	}
	return r;
}

/* ---- what fusion saved ---- */

/* An operation of the graph that is computed: once, or again where merge.c has put it. */
static bool is_counted(const struct node *n) {
	return n->origin == GRAPH_NONE && (node_is_computed(n) || n->group != GROUP_NONE);
}

static bool is_fused(const struct plan *p) {
	for (uint32_t i = 0; i < p->steps; i++)
		if (p->step[i].ops > 1)
			return true;
	return false;
}

/* Operations of the graph that it stands for. */
static uint32_t operations_of(const struct node *n) {
	if (n->attended)
		return n->attended->parts;
	return n->parts ? n->parts : 1;
}

/* A part of an operation of the graph that has no kernel of its own; parts of one stand side by side, and the first counts. */
static bool is_first_part(const struct planner *p, uint32_t i) {
	const struct node *n = &p->node[i];

	return n->whole != GRAPH_NONE && !node_is_computed(&p->node[n->whole]) && (!i || p->node[i - 1].whole != n->whole);
}

/* What was asked for, as often as it counts: neither copies that the planner added nor what it computes again. */
static void count_operations(struct planner *p) {
	struct plan *plan = p->plan;

	for (uint32_t i = 0; i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		if (i >= graph_nodes(p->g)) {
			plan->operations += is_first_part(p, i);
		} else if (is_counted(n) || n->kind == NODE_PARTS) {
			plan->operations += operations_of(n);
			plan->reductions += n->kind == NODE_REDUCE;
		}
	}
}

static void count_savings(struct planner *p) {
	struct plan *plan = p->plan;
	uint64_t unfused = 0;

	for (uint32_t i = 0; i < p->nodes; i++) {
		const struct node *n = &p->node[i];

		if (!is_counted(n) || n->kind == NODE_PARTS)
			continue;
		plan->ops += operations_of(n);
		plan->buffers_eliminated += !n->stored;
		unfused += (uint64_t)shape_bytes(n->type);
		for (unsigned k = 0; k < n->arity; k++)
			if (p->node[n->in[k]].kind != NODE_FILL && p->node[n->in[k]].kind != NODE_IOTA)
				unfused += (uint64_t)shape_bytes(p->node[n->in[k]].type);
	}
	/* Where nothing shares a kernel this is the plan without fusion. */
	if (!p->o->fuse || !is_fused(plan)) {
		plan->unfused_steps = plan->steps;
		plan->compared = true;
	} else {
		plan_saved(plan, unfused);
	}
}

static int check_device(const struct planner *p, struct fault *f) {
	for (uint32_t i = 0; !p->o->traits->f64 && i < p->nodes; i++)
		if (node_is_computed(&p->node[i]) && p->node[i].type->dtype == DTYPE_f64)
			return fault_set(f, FAULT_DEVICE, "%s of f64: the device does not compute in double precision",
				op_info(p->node[i].op)->name);
	return 0;
}

static void planner_clear(struct planner *p) {
	arena_free(&p->arena);
	free(p->node);
	free(p->next);
	free(p->group);
}

static int put_in_order(struct planner *p) {
	plan_lifetimes(p->plan);
	plan_estimate(p->plan, p->o->traits);
	return plan_order(p->plan, &p->arena);
}

void (*planner_meddle)(struct planner *p, const char *pass);

static const struct pass {
	const char *name;
	int (*run)(struct planner *p);
	const char *(*check)(struct planner *p);
} all_passes[] = {
	{ "leaves", leaves_make, NULL },
	{ "resolve", planner_resolve, check_resolved },
	{ "walk", planner_walk, check_resolved },
	{ "join", planner_join, check_joined },
	{ "readers", planner_find_readers, check_readers },
	{ "sink", planner_sink, check_groups },
	{ "merge", planner_merge, check_groups },
	{ "before", planner_before, check_groups },
	{ "store", planner_store, check_stored },
	{ "lower", planner_lower, NULL },
	{ "results", outputs_make, check_plan },
	{ "describe", planner_describe, NULL },
	{ "patterns", named_count, NULL },
	{ "order", put_in_order, check_plan },
};

/* A pass with its check: what it got wrong is a fault. */
static int pass(struct planner *p, const struct pass *one, struct fault *f) {
	const char *broken = NULL;
	int r = one->run(p);

	if (!r && planner_meddle)
		planner_meddle(p, one->name);
	if (!r && one->check)
		broken = one->check(p);
	if (r == FAULT_INTERNAL)
		broken = "an operand has memory";
	if (broken)
		r = fault_set(f, FAULT_INTERNAL, "the planner's pass %s broke a rule: %s", one->name, broken);
	return r;
}

static int passes(struct planner *p, struct fault *f) {
	int r = 0;

	for (size_t i = 0; !r && i < sizeof all_passes / sizeof *all_passes; i++) {
		r = pass(p, &all_passes[i], f);
		if (!r && all_passes[i].run == planner_resolve)
			r = check_device(p, f);
	}
	return r;
}

/* ---- knobs ---- */

/* As is chosen, but for the variant; or as is said. */
static struct knobs choice_of(const struct plan_options *o, uint64_t identity) {
	struct knobs c = { { 0 } };

	if (o->tuning)
		c = tuning_choice(o->tuning, identity);
	if (o->tuning && o->variant.kernel == identity)
		c.value[o->variant.knob] = o->variant.value;
	for (unsigned i = 0; i < KNOB_COUNT; i++)
		if (o->pins.set >> i & 1)
			c.value[i] = o->pins.knobs.value[i];
	return c;
}

static bool is_ruled(const struct knobs *c) {
	static const struct knobs rules;

	return memcmp(c, &rules, sizeof rules) == 0;
}

/* Panels of a leaf stay when they are made, and are found by what made them. */
static bool is_made_once(const struct plan *p, const struct plan_step *s) {
	for (unsigned i = 0; i < s->kernel->operands; i++)
		if (s->kernel->operand[i].output && p->slot[s->operand[i].slot].packed_of != PLAN_NONE)
			return true;
	return false;
}

/* Kernels that knobs may turn. */
static void identify(struct plan *p) {
	for (uint32_t i = 0; i < p->steps; i++)
		if (!is_made_once(p, &p->step[i]))
			p->step[i].identity = knobs_kernel(&p->step[i]);
}

/* After all that looks at kernels or costs: what is decided there does not depend on what was learned. */
int plan_tune(struct plan *p, const struct plan_options *o) {
	for (uint32_t i = 0; (o->tuning || o->pins.set) && i < p->steps; i++) {
		struct plan_step *s = &p->step[i];
		struct kernel *own;
		struct knobs c;

		if (!s->identity)
			continue;
		c = s->chosen = choice_of(o, s->identity);
		if (is_ruled(&c))
			continue;
		own = keep(p, s->kernel, sizeof *s->kernel);
		if (!own)
			return -ENOMEM;
		knobs_turn(&c, s, own, o->traits);
		if (!kernel_equal(own, s->kernel))
			s->kernel = own;
	}
	p->tuning_serial = o->tuning ? tuning_serial(o->tuning) : 0;
	return 0;
}

void plan_step_turned(struct plan_step *s, enum plan_tier tier) {
	s->tier = (uint8_t)tier;
	s->since_us = loop_now();
}

bool plan_is_tuned(const struct plan *p, const struct tuning *t) {
	for (uint32_t i = 0; i < p->steps; i++) {
		struct knobs c = tuning_choice(t, p->step[i].identity);

		if (memcmp(&c, &p->step[i].chosen, sizeof c) != 0)
			return false;
	}
	return true;
}

static int make(const struct graph *g, const struct plan_options *o, struct plan **planp, struct fault *f) {
	struct planner p = { .g = g, .o = o };
	int r;

	p.plan = calloc(1, sizeof *p.plan);
	if (!p.plan)
		return -ENOMEM;
	p.plan->references = 1;
	p.plan->scalars = graph_scalars(g);
	p.plan->patterns_off = o->patterns_off;
	p.plan->book = book_ref(o->book);
	r = passes(&p, f);
	if (!r && (o->tuning || o->pins.set || o->tuned_later))
		identify(p.plan);
	if (!r && !o->tuned_later)
		r = plan_tune(p.plan, o);
	if (!r) {
		count_savings(&p);
		count_operations(&p);
		*planp = p.plan;
	} else {
		plan_unref(p.plan);
	}
	planner_clear(&p);
	return r;
}

/* ---- what the planner got wrong ---- */

enum {
	/* A graph in the log: some thousand operations, once a minute, since who finds one such graph will send it again. */
	BROKEN_TEXT = 256 << 10,
	BROKEN_TEXT_US = 60 * 1000 * 1000,
};

/* Plans are made by two threads. */
static _Atomic uint64_t plans_broken;

uint64_t plan_rules_broken(void) {
	return plans_broken;
}

bool plan_is_broken(const struct plan *p, const char *made_by) {
	const char *broken = plan_broken(p, NULL);

	if (!broken)
		return false;
	plans_broken++;
	log_error("%s broke a rule of plans: %s", made_by, broken);
	return true;
}

static void log_graph(const struct graph *g) {
	struct str text = { 0 };
	char *line, *rest;

	graph_put_text(&text, g, BROKEN_TEXT);
	for (line = str_finish(&text) ? NULL : strtok_r(text.text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		log_error("    %s", line);
	str_free(&text);
}

static void tell_broken(const struct graph *g, const struct plan_options *o, const struct fault *f) {
	static _Atomic uint64_t told_us;
	uint64_t now = loop_now();

	plans_broken++;
	log_error("%s; the graph %s. Please report this with its text", f->text,
		o->fuse ? "runs as one kernel an operation" : "is refused");
	if (told_us && now - told_us < BROKEN_TEXT_US)
		return;
	told_us = now ? now : 1;
	log_graph(g);
}

int plan_make(const struct graph *g, const struct plan_options *o, struct plan **planp, struct fault *f) {
	struct plan_options single = *o;
	int r = make(g, o, planp, f);

	if (r == FAULT_INTERNAL)
		tell_broken(g, o, f);
	if (r != FAULT_INTERNAL || !o->fuse)
		return r;
	single.fuse = false;
	r = make(g, &single, planp, f);
	if (r == FAULT_INTERNAL)
		tell_broken(g, &single, f);
	return r;
}

struct plan *plan_ref(struct plan *p) {
	p->references++;
	return p;
}

uint64_t plan_bytes(const struct plan *p) {
	return sizeof *p + arena_size(&p->arena) + p->step_capacity * sizeof *p->step + p->slot_capacity * sizeof *p->slot + p->outputs * sizeof *p->output +
		p->constants * sizeof *p->constant + p->notes * sizeof *p->note;
}

struct plan *plan_unref(struct plan *p) {
	if (!p || --p->references)
		return NULL;
	if (p->release)
		p->release(p->prepared);
	plan_unref(p->stand_in);
	free(p->step);
	free(p->slot);
	free(p->output);
	free(p->constant);
	free(p->note);
	book_unref(p->book);
	arena_free(&p->arena);
	free(p);
	return NULL;
}

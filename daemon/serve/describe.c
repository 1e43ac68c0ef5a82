/* See describe.h. */
#include "describe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol/message.h"
#include "daemon/base/loop.h"
#include "daemon/base/str.h"
#include "daemon/emit/emit.h"

/* ---- as it is now ---- */

/* What is known of a step's program. */
struct described_program {
	bool asked;                  /* somebody asked for it */
	struct program_story story;  /* its text is a copy */
};

static int copy_program(struct described *d, struct device *device, uint32_t step) {
	const struct program *p = device_find_program(device, d->plan.step[step].kernel);
	struct described_program *to = &d->program[step];
	size_t bytes;
	char *why;

	if (!p)
		return 0;
	*to = (struct described_program){ true, program_story(p) };
	bytes = strlen(to->story.why) + 1;
	why = arena_alloc(&d->arena, bytes);
	if (!why)
		return -ENOMEM;
	to->story.why = memcpy(why, to->story.why, bytes);
	return 0;
}

int describe_begin(struct described *d, struct plan *p, struct device *device, const struct exec *x) {
	int r = 0;

	*d = (struct described){ .plan = *p, .of = plan_ref(p), .traits = *device_traits(device), .exec = x };
	d->plan.step = arena_alloc(&d->arena, (p->steps + 1u) * sizeof *p->step);
	d->program = arena_alloc(&d->arena, (p->steps + 1u) * sizeof *d->program);
	if (!d->plan.step || !d->program)
		return -ENOMEM;
	memcpy(d->plan.step, p->step, p->steps * sizeof *p->step);
	for (uint32_t i = 0; !r && i < p->steps; i++)
		r = copy_program(d, device, i);
	return r;
}

void describe_end(struct described *d) {
	d->of = plan_unref(d->of);
	arena_free(&d->arena);
}

/* ---- words ---- */

static const char *form_word(const struct kernel *k) {
	static const char *const words[] = { [KERNEL_FORM_PLAIN] = "plain", [KERNEL_FORM_ROW] = "row",
		[KERNEL_FORM_COLUMN] = "column", [KERNEL_FORM_GENERAL] = "general" };

	return words[k->form];
}

static const char *operation_name(const struct plan *p, uint32_t node) {
	return op_info(p->node[node].op)->name;
}

/* The position in the client's list; -1 for a copy that the planner added. */
static double operation_number(const struct plan *p, uint32_t node) {
	return p->node[node].note == PLAN_NONE ? -1.0 : p->node[node].note;
}

/* ---- how much there may be ---- */

enum {
	/* Of a number, and of what stands about a value. */
	DESCRIBE_NUMBER = 24,
	DESCRIBE_SIGNS = 6,
};

/* About the bytes of it as text: never fewer than half of them, as only control characters grow by more. */
static uint64_t printed(const cJSON *item) {
	uint64_t bytes = DESCRIBE_SIGNS + (item->string ? strlen(item->string) : 0) + (item->valuestring ? strlen(item->valuestring) : 0);

	if (cJSON_IsNumber(item))
		bytes += DESCRIBE_NUMBER;
	for (const cJSON *one = item->child; one; one = one->next)
		bytes += printed(one);
	return bytes;
}

static int refuse_longer(uint64_t flags, uint32_t at, uint32_t of, struct fault *f) {
	return fault_set(f, FAULT_LIMIT,
		"the explanation is longer than the %d bytes of a message (LIMIT_FRAME_BYTES): kernel %u of %u was reached; ask %s", LIMIT_FRAME_BYTES,
		at + 1, of,
		flags & (EXPLAIN_SOURCE | EXPLAIN_OWN_SOURCE) ? "without sources, or for fewer operations"
		: flags & EXPLAIN_NODES ? "without the operations one by one, or for fewer of them"
					: "for fewer operations, or only for what fusing them gains");
}

/* Takes the bytes of an item that was added off what there may be. */
static int pay(uint64_t *leftp, const cJSON *item, uint64_t flags, uint32_t at, uint32_t of, struct fault *f) {
	uint64_t bytes = item ? printed(item) : 0;

	if (bytes > *leftp)
		return refuse_longer(flags, at, of, f);
	*leftp -= bytes;
	return item ? 0 : -ENOMEM;
}

/* ---- kernels ---- */

static cJSON *new_operation(cJSON *list, const struct plan *p, uint32_t node) {
	char type[SHAPE_TEXT];
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	cJSON_AddNumberToObject(one, "node", operation_number(p, node));
	cJSON_AddStringToObject(one, "op", operation_name(p, node));
	cJSON_AddStringToObject(one, "type", shape_text(p->node[node].type, type));
	return one;
}

static int add_source(cJSON *kernel, const struct plan_step *s, const struct traits *t, bool whole) {
	struct str source = { 0 };
	int r = whole ? emit_source(s->kernel, t, &source) : emit_body(s->kernel, t, &source);

	if (!r)
		r = str_finish(&source);
	if (!r)
		cJSON_AddStringToObject(kernel, "source", str_text(&source));
	str_free(&source);
	return r;
}

/* Times that are not known are left out. */
static void add_times(cJSON *json, const struct plan *p, uint32_t step) {
	const struct plan_step *s = &p->step[step];
	double estimated = plan_estimate_of(p, step), measured = plan_measured_of(p, step);

	if (s->estimate_ns > 0)
		cJSON_AddNumberToObject(json, "estimated_us", s->estimate_ns / 1e3);
	if (estimated > 0 && s->estimate_unfused_ns > 0)
		cJSON_AddNumberToObject(json, "estimated_speedup", s->estimate_unfused_ns / estimated);
	if (s->memory_ns > 0)
		cJSON_AddNumberToObject(json, "memory_us", s->memory_ns / 1e3);
	if (s->arithmetic_ns > 0)
		cJSON_AddNumberToObject(json, "arithmetic_us", s->arithmetic_ns / 1e3);
	if (s->measured_ns > 0)
		cJSON_AddNumberToObject(json, "measured_us", s->measured_ns / 1e3);
	if (measured > 0 && s->measured_unfused_ns > 0)
		cJSON_AddNumberToObject(json, "measured_speedup", s->measured_unfused_ns / measured);
}

static void add_gain(cJSON *kernel, const struct plan *p, uint32_t step) {
	cJSON_AddNumberToObject(kernel, "bytes_saved", (double)plan_step_saved(&p->step[step]));
	cJSON_AddNumberToObject(kernel, "buffers_eliminated", p->step[step].buffers_eliminated);
	add_times(kernel, p, step);
}

/* Patterns of users that it is of, too. */
static void add_named(cJSON *json, const struct plan *p, const struct plan_step *s) {
	cJSON *list = s->named ? cJSON_AddArrayToObject(json, "named") : NULL;

	for (named_set left = s->named; left; left &= left - 1)
		cJSON_AddItemToArray(list, cJSON_CreateString(p->book->pattern[__builtin_ctzll(left)]->name));
}

double describe_time(uint64_t us) {
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3 - (double)(loop_now() - us);
}

/* Launches of the plan that runs, by the kernel's own program and otherwise; how it runs now, and since when. */
static void add_tiers(cJSON *kernel, const struct plan_step *s) {
	static const char *const tiers[] = { [PLAN_TIER_OWN] = "own program", [PLAN_TIER_CODE] = "bytecode", [PLAN_TIER_GENERIC] = "generic kernels" };

	if (s->tier == PLAN_TIER_NONE)
		return;
	cJSON_AddStringToObject(kernel, "runs_as", tiers[s->tier]);
	cJSON_AddNumberToObject(kernel, "runs_since_us", describe_time(s->since_us));
	cJSON_AddNumberToObject(kernel, "launches_compiled", (double)s->compiled);
	cJSON_AddNumberToObject(kernel, "launches_interpreted", (double)s->interpreted);
}

/* Of what computes no operation of the client's, or a part of some. */
static void add_purpose(cJSON *kernel, const struct plan *p, uint32_t step) {
	struct str text = { 0 };

	plan_put_purpose(p, step, &text);
	if (!str_finish(&text) && text.length)
		cJSON_AddStringToObject(kernel, "purpose", str_text(&text));
	str_free(&text);
}

/* Where its program came from. Nothing where nobody has asked for it. */
static void add_program(cJSON *kernel, const struct described_program *p) {
	static const char *const states[] = { [PROGRAM_BUILDING] = "being built", [PROGRAM_READY] = "built", [PROGRAM_FAILED] = "failed" };
	const struct program_story s = p->story;
	cJSON *one;

	if (!p->asked)
		return;
	one = cJSON_AddObjectToObject(kernel, "program");
	cJSON_AddStringToObject(one, "state", s.state == PROGRAM_READY && s.known ? "from the cache" : states[s.state]);
	if (s.state == PROGRAM_BUILDING)
		return;
	if (!s.known)
		cJSON_AddStringToObject(one, "why", s.why);
	cJSON_AddNumberToObject(one, "emit_us", (double)s.emit_us);
	cJSON_AddNumberToObject(one, "compile_us", (double)s.compile_us);
	cJSON_AddNumberToObject(one, "first_launch_us", (double)s.first_us);
}

/* Where neither bytecode nor generic kernels run it until its program is built. */
static void add_wait(cJSON *kernel, const struct described *d, const struct plan_step *s) {
	const char *reason = exec_waits_because(d->exec, &d->traits, s);

	if (reason)
		cJSON_AddStringToObject(kernel, "waits_because", reason);
}

/* What was found to be faster than what the rules say. */
static void add_knobs(cJSON *kernel, const struct plan_step *s) {
	cJSON *one = NULL;

	for (unsigned i = 0; i < KNOB_COUNT; i++) {
		if (!s->knobs.value[i])
			continue;
		if (!one)
			one = cJSON_AddObjectToObject(kernel, "knobs");
		cJSON_AddStringToObject(one, knob_name(i), knob_value(i, s->knobs.value[i]));
	}
}

static cJSON *add_kernel(cJSON *list, const struct described *about, uint32_t step) {
	const struct plan *p = &about->plan;
	const struct plan_step *s = &p->step[step];
	cJSON *kernel = cJSON_CreateObject(), *dims, *operations;

	cJSON_AddItemToArray(list, kernel);
	cJSON_AddStringToObject(kernel, "root", kernel_root_name(s->kernel));
	cJSON_AddStringToObject(kernel, "form", form_word(s->kernel));
	if (s->pattern)
		cJSON_AddStringToObject(kernel, "pattern", pattern_name((enum pattern)s->pattern));
	add_named(kernel, p, s);
	add_purpose(kernel, p, step);
	dims = cJSON_AddArrayToObject(kernel, "dims");
	for (unsigned d = 0; d < s->kernel->rank; d++)
		cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)s->dims[d]));
	operations = cJSON_AddArrayToObject(kernel, "operations");
	for (uint32_t i = 0; i < s->ops; i++)
		new_operation(operations, p, s->op[i]);
	cJSON_AddNumberToObject(kernel, "elements", (double)s->elements);
	cJSON_AddNumberToObject(kernel, "bytes_read", (double)s->bytes_read);
	cJSON_AddNumberToObject(kernel, "bytes_written", (double)s->bytes_written);
	add_gain(kernel, p, step);
	add_tiers(kernel, s);
	add_knobs(kernel, s);
	add_program(kernel, &about->program[step]);
	add_wait(kernel, about, s);
	return kernel;
}

/* Numbers, names and ids of an operation, as "producer", "producer_op" and "producer_id". */
static void add_end(cJSON *one, const struct plan *p, uint32_t node, const char *number, const char *op, const char *id) {
	cJSON_AddNumberToObject(one, number, operation_number(p, node));
	cJSON_AddStringToObject(one, op, operation_name(p, node));
	cJSON_AddNumberToObject(one, id, node);
}

static cJSON *add_note(cJSON *list, const struct plan *p, const struct plan_note *n) {
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToArray(list, one);
	add_end(one, p, n->producer, "producer", "producer_op", "producer_id");
	add_end(one, p, n->consumer, "consumer", "consumer_op", "consumer_id");
	cJSON_AddStringToObject(one, "reason", n->reason);
	return one;
}

/* How often each pattern of users was found, and in how many kernels it is whole. */
static void add_found(cJSON *json, const struct plan *p) {
	cJSON *list = p->found ? cJSON_AddArrayToObject(json, "found") : NULL;

	for (unsigned i = 0; p->found && i < p->book->patterns; i++) {
		unsigned kernels = 0;
		cJSON *one;

		if (!p->found[i])
			continue;
		for (uint32_t k = 0; k < p->steps; k++)
			kernels += p->step[k].ops && p->step[k].named & named_bit(i);
		one = cJSON_CreateObject();
		cJSON_AddItemToArray(list, one);
		cJSON_AddStringToObject(one, "pattern", p->book->pattern[i]->name);
		cJSON_AddNumberToObject(one, "found", p->found[i]);
		cJSON_AddNumberToObject(one, "kernels", kernels);
	}
	if (p->patterns_cut)
		cJSON_AddBoolToObject(json, "patterns_not_looked_for_everywhere", true);
}

/* Kernels that are one launch, by their numbers, and what that gains. */
static int add_launches(cJSON *json, const struct described *d) {
	const struct plan *p = &d->plan;
	cJSON *list = NULL, *one, *kernels;
	uint32_t end;

	if (exec_find_launches(&d->traits, p))
		return -ENOMEM;
	for (uint32_t first = 0; first < p->steps; first = end) {
		struct plan_launch_times t;

		end = plan_launch_end(p, first);
		if (end - first < 2)
			continue;
		t = plan_launch_times(p, first, &d->traits.rates);
		if (!list)
			list = cJSON_AddArrayToObject(json, "shared_launches");
		one = cJSON_CreateObject();
		cJSON_AddItemToArray(list, one);
		cJSON_AddStringToObject(one, "pattern", pattern_name(pattern_of_launch(&p->step[first])));
		kernels = cJSON_AddArrayToObject(one, "kernels");
		for (uint32_t i = first; i < end; i++)
			cJSON_AddItemToArray(kernels, cJSON_CreateNumber(i + 1));
		if (!(t.together_ns > 0))
			continue;
		cJSON_AddNumberToObject(one, "estimated_us", t.together_ns / 1e3);
		cJSON_AddNumberToObject(one, "estimated_speedup", t.apart_ns / t.together_ns);
	}
	return 0;
}

static void add_totals(cJSON *json, const struct plan *p) {
	add_found(json, p);
	cJSON_AddNumberToObject(json, "kernel_count", p->steps);
	if (p->made_ns > 0)
		cJSON_AddNumberToObject(json, "plan_us", p->made_ns / 1e3);
	cJSON_AddNumberToObject(json, "unfused_kernel_count", plan_unfused_steps(p));
	cJSON_AddNumberToObject(json, "bytes_moved", (double)plan_moved(p));
	cJSON_AddNumberToObject(json, "bytes_not_moved", (double)p->bytes_not_moved);
	cJSON_AddNumberToObject(json, "buffers_eliminated", p->buffers_eliminated);
	cJSON_AddNumberToObject(json, "peak_bytes", (double)p->peak_bytes);
}

/* ---- operations one by one ---- */

/* The kernel that computes each node, from 1; 0 for what costs none. */
static uint32_t *kernels_of(const struct plan *p) {
	uint32_t *kernel = calloc(p->nodes + 1u, sizeof *kernel);

	for (uint32_t i = 0; kernel && i < p->steps; i++)
		for (uint32_t k = 0; k < p->step[i].ops; k++)
			kernel[p->step[i].op[k]] = i + 1;
	return kernel;
}

static cJSON *add_node(cJSON *list, const struct plan *p, uint32_t node, uint32_t kernel) {
	const struct plan_node *n = &p->node[node];
	cJSON *one = new_operation(list, p, node), *inputs;

	cJSON_AddNumberToObject(one, "id", node);
	inputs = cJSON_AddArrayToObject(one, "inputs");
	for (unsigned i = 0; i < n->arity; i++)
		cJSON_AddItemToArray(inputs, cJSON_CreateNumber(n->in[i]));
	cJSON_AddBoolToObject(one, "output", n->output);
	if (kernel)
		cJSON_AddNumberToObject(one, "kernel", kernel);
	return one;
}

static int add_nodes(cJSON *json, const struct plan *p, uint64_t flags, uint64_t *leftp, struct fault *f) {
	cJSON *list = cJSON_AddArrayToObject(json, "nodes");
	uint32_t *kernel = kernels_of(p);
	int r = kernel ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < p->nodes; i++)
		if (!p->node[i].dead)
			r = pay(leftp, add_node(list, p, i, kernel[i]), flags, p->steps - 1, p->steps, f);
	free(kernel);
	return r;
}

/* ---- plans ---- */

static int add_notes(cJSON *json, const struct plan *p, uint64_t flags, uint64_t *leftp, struct fault *f) {
	cJSON *list = cJSON_AddArrayToObject(json, "not_fused");
	struct plan_note *note;
	uint32_t count;
	int r = plan_apart(p, &note, &count);

	if (r)
		return r;
	for (uint32_t i = 0; !r && i < count; i++)
		r = pay(leftp, add_note(list, p, &note[i]), flags, p->steps - 1, p->steps, f);
	free(note);
	return r;
}

int describe_plan(cJSON *json, const struct described *d, uint64_t flags, uint64_t *leftp, struct fault *f) {
	const struct plan *p = &d->plan;
	cJSON *kernels = cJSON_AddArrayToObject(json, "kernels");
	int r = 0;

	for (uint32_t i = 0; !r && i < p->steps; i++) {
		cJSON *kernel = add_kernel(kernels, d, i);

		if (flags & (EXPLAIN_SOURCE | EXPLAIN_OWN_SOURCE))
			r = add_source(kernel, &p->step[i], &d->traits, flags & EXPLAIN_SOURCE);
		if (!r)
			r = pay(leftp, kernel, flags, i, p->steps, f);
	}
	if (!r)
		r = add_notes(json, p, flags, leftp, f);
	if (r)
		return r;
	r = add_launches(json, d);
	if (r)
		return r;
	add_totals(json, p);
	return flags & EXPLAIN_NODES ? add_nodes(json, p, flags, leftp, f) : 0;
}

void describe_pair(cJSON *json, const struct plan *p, const struct plan_pair *pair) {
	const struct plan_step *s = pair->fused ? &p->step[pair->step] : NULL;
	cJSON *operations;

	cJSON_AddBoolToObject(json, "fused", pair->fused);
	cJSON_AddStringToObject(json, "reason", pair->reason);
	if (pair->producer != PLAN_NONE)
		add_end(json, p, pair->producer, "producer", "producer_op", "producer_id");
	if (pair->consumer != PLAN_NONE)
		add_end(json, p, pair->consumer, "consumer", "consumer_op", "consumer_id");
	if (!s)
		return;
	cJSON_AddNumberToObject(json, "kernel", pair->step + 1);
	cJSON_AddStringToObject(json, "root", kernel_root_name(s->kernel));
	if (s->pattern)
		cJSON_AddStringToObject(json, "pattern", pattern_name((enum pattern)s->pattern));
	operations = cJSON_AddArrayToObject(json, "operations");
	for (uint32_t i = 0; i < s->ops; i++)
		new_operation(operations, p, s->op[i]);
	add_gain(json, p, pair->step);
}

/* ---- opportunities ---- */

/* A step of several operations, and what these being one kernel gains; ns 0: not known. */
struct opportunity {
	uint32_t step;
	double ns;
	uint64_t bytes;
};

static struct opportunity opportunity_of(const struct plan *p, uint32_t step) {
	double fused = plan_estimate_of(p, step), unfused = p->step[step].estimate_unfused_ns;

	return (struct opportunity){ .step = step, .ns = fused > 0 && unfused > 0 ? unfused - fused : 0, .bytes = plan_step_saved(&p->step[step]) };
}

/* The greatest gain first; of those that gain as much, what runs first. */
static int by_gain(const void *a, const void *b) {
	const struct opportunity *x = a, *y = b;

	if (x->ns < y->ns || x->ns > y->ns)
		return x->ns < y->ns ? 1 : -1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->step > y->step ? 1 : -1;
}

static uint32_t find_opportunities(const struct plan *p, struct opportunity *found) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		if (p->step[i].ops > 1 && p->step[i].pattern)
			found[count++] = opportunity_of(p, i);
	if (count)
		qsort(found, count, sizeof *found, by_gain);
	return count;
}

static cJSON *add_opportunity(cJSON *list, const struct plan *p, const struct opportunity *o) {
	const struct plan_step *s = &p->step[o->step];
	cJSON *one = cJSON_CreateObject(), *operations;

	cJSON_AddItemToArray(list, one);
	cJSON_AddNumberToObject(one, "kernel", o->step + 1);
	cJSON_AddStringToObject(one, "pattern", pattern_name((enum pattern)s->pattern));
	add_named(one, p, s);
	operations = cJSON_AddArrayToObject(one, "operations");
	for (uint32_t i = 0; i < s->ops; i++)
		cJSON_AddNumberToObject(new_operation(operations, p, s->op[i]), "id", s->op[i]);
	cJSON_AddNumberToObject(one, "kernels_before", plan_step_before(p, o->step));
	cJSON_AddNumberToObject(one, "kernels_after", plan_step_passes(p, o->step));
	add_gain(one, p, o->step);
	if (o->ns > 0 || o->ns < 0)
		cJSON_AddNumberToObject(one, "estimated_gain_us", o->ns / 1e3);
	return one;
}

int describe_opportunities(cJSON *json, const struct plan *p, uint64_t *leftp, struct fault *f) {
	cJSON *list = cJSON_AddArrayToObject(json, "opportunities");
	struct opportunity *found = calloc(p->steps + 1u, sizeof *found);
	uint32_t count = found ? find_opportunities(p, found) : 0;
	int r = found ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < count; i++)
		r = pay(leftp, add_opportunity(list, p, &found[i]), 0, i, count, f);
	free(found);
	add_totals(json, p);
	return r;
}

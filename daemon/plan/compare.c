/*
 * What a plan gains over the one that its graph has without fusion: kernels, memory, and times of the same operations. Both
 * name operations by the graph's nodes; copies that the planner added to one of them are left out, being part of neither's
 * work.
 */
#include "plan.h"

#include <errno.h>
#include <stdlib.h>

/* A step and those before it that begin its operations (a long reduction's blocks). */
static uint32_t first_of(const struct plan *p, uint32_t step) {
	while (step && !p->step[step - 1].ops)
		step--;
	return step;
}

double plan_estimate_of(const struct plan *p, uint32_t step) {
	double ns = 0;

	for (uint32_t i = first_of(p, step); i <= step; i++)
		ns += p->step[i].estimate_ns;
	return ns;
}

double plan_measured_of(const struct plan *p, uint32_t step) {
	double ns = 0;

	for (uint32_t i = first_of(p, step); i <= step; i++) {
		if (!(p->step[i].measured_ns > 0))
			return 0;
		ns += p->step[i].measured_ns;
	}
	return ns;
}

uint64_t plan_moved(const struct plan *p) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		bytes += p->step[i].bytes_read + p->step[i].bytes_written;
	return bytes;
}

void plan_saved(struct plan *p, uint64_t unfused) {
	uint64_t moved = plan_moved(p);

	p->bytes_not_moved = unfused > moved ? unfused - moved : 0;
}

uint32_t plan_unfused_steps(const struct plan *p) {
	return p->compared ? p->unfused_steps : p->ops;
}

uint32_t plan_step_passes(const struct plan *p, uint32_t step) {
	return step - first_of(p, step) + 1;
}

uint32_t plan_step_before(const struct plan *p, uint32_t step) {
	const struct plan_step *s = &p->step[step];

	if (s->kernels_before)
		return s->kernels_before;
	return plan_step_passes(p, step) + (s->ops > 1 ? s->ops - 1 : 0);
}

uint32_t plan_launch_end(const struct plan *p, uint32_t first) {
	uint32_t end = first + 1;

	while (end < p->steps && p->step[end].launch == first)
		end++;
	return end;
}

struct plan_launch_times plan_launch_times(const struct plan *p, uint32_t first, const struct rates *r) {
	struct plan_launch_times t = { 0, 0 };
	uint32_t end = plan_launch_end(p, first);

	for (uint32_t i = first; i < end; i++) {
		if (!(p->step[i].estimate_ns > 0))
			return (struct plan_launch_times){ 0, 0 };
		t.apart_ns += p->step[i].estimate_ns;
	}
	t.together_ns = t.apart_ns - (end - first - 1) * rates_kernel_ns(r);
	return t.together_ns > 0 ? t : (struct plan_launch_times){ 0, 0 };
}

/* Where a plan's operations are computed without fusion. */
struct alone {
	const struct plan *single;     /* the plan without */
	uint32_t *step;                /* by node: its last step there; PLAN_NONE where it has none */
	uint32_t *counted;             /* by step there: the last one of the fused plan that it was counted for, from 1, so that each counts it once */
};

static int find_alone(struct alone *a, const struct plan *single, uint32_t nodes) {
	*a = (struct alone){ .single = single, .step = calloc(nodes + 1u, sizeof *a->step), .counted = calloc(single->steps + 1u, sizeof *a->counted) };
	if (!a->step || !a->counted)
		return -ENOMEM;
	for (uint32_t i = 0; i < nodes; i++)
		a->step[i] = PLAN_NONE;
	for (uint32_t i = 0; i < single->steps; i++)
		for (uint32_t k = 0; k < single->step[i].ops; k++)
			if (single->step[i].op[k] < nodes)
				a->step[single->step[i].op[k]] = i;
	return 0;
}

/* Kernels that the operations of a step take there, the passes of long reductions too. */
static uint32_t kernels_alone(struct alone *a, const struct plan *p, uint32_t step) {
	const struct plan_step *s = &p->step[step];
	uint32_t kernels = 0;

	for (uint32_t i = 0; i < s->ops; i++) {
		uint32_t at = p->node[s->op[i]].note == PLAN_NONE ? PLAN_NONE : a->step[s->op[i]];

		if (at == PLAN_NONE || a->counted[at] == step + 1)
			continue;
		a->counted[at] = step + 1;
		kernels += plan_step_passes(a->single, at);
	}
	return kernels;
}

typedef double time_of(const struct plan *p, uint32_t step);

/* The times of a step's operations together; 0 where one is not known, as of what shares a kernel even there. */
static double sum_alone(const struct alone *a, const struct plan *p, const struct plan_step *s, time_of *time) {
	double sum = 0;

	for (uint32_t i = 0; i < s->ops; i++) {
		uint32_t at = a->step[s->op[i]];
		double ns = at != PLAN_NONE && a->single->step[at].ops == 1 ? time(a->single, at) : 0;

		if (p->node[s->op[i]].note == PLAN_NONE)
			continue;
		if (!(ns > 0))
			return 0;
		sum += ns;
	}
	return sum;
}

int plan_compare(struct plan *p, const struct plan *single) {
	struct alone a;
	int r = find_alone(&a, single, p->nodes);

	p->unfused_steps = single->steps;
	plan_saved(p, plan_moved(single));
	p->compared = true;
	for (uint32_t i = 0; !r && i < p->steps; i++) {
		struct plan_step *s = &p->step[i];

		s->kernels_before = s->ops > 1 ? kernels_alone(&a, p, i) : 0;
		s->estimate_unfused_ns = s->ops > 1 ? sum_alone(&a, p, s, plan_estimate_of) : 0;
		s->measured_unfused_ns = s->ops > 1 ? sum_alone(&a, p, s, plan_measured_of) : 0;
	}
	free(a.step);
	free(a.counted);
	return r;
}

int plan_compare_single(struct plan *p, const struct graph *g, const struct plan_options *o, struct fault *f) {
	struct plan_options options = *o;
	struct plan *single;
	int r;

	options.fuse = options.notes = false;
	r = plan_make(g, &options, &single, f);
	if (r)
		return r;
	r = plan_compare(p, single);
	plan_unref(single);
	return r;
}

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

typedef double time_of(const struct plan *p, uint32_t step);

/* The time of every operation that has a kernel of its own in `single`; 0 where it has not. */
static double *times_alone(const struct plan *single, uint32_t nodes, time_of *time) {
	double *ns = calloc(nodes + 1u, sizeof *ns);

	for (uint32_t i = 0; ns && i < single->steps; i++)
		if (single->step[i].ops == 1 && single->step[i].op[0] < nodes)
			ns[single->step[i].op[0]] = time(single, i);
	return ns;
}

/* The times of a step's operations together; 0 where one is not known. */
static double sum_alone(const struct plan *p, const struct plan_step *s, const double *ns) {
	double sum = 0;

	for (uint32_t i = 0; i < s->ops; i++) {
		if (p->node[s->op[i]].note == PLAN_NONE)
			continue;
		if (!(ns[s->op[i]] > 0))
			return 0;
		sum += ns[s->op[i]];
	}
	return sum;
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

int plan_compare(struct plan *p, const struct plan *single) {
	double *estimate = times_alone(single, p->nodes, plan_estimate_of);
	double *measured = times_alone(single, p->nodes, plan_measured_of);

	p->unfused_steps = single->steps;
	plan_saved(p, plan_moved(single));
	p->compared = true;
	for (uint32_t i = 0; estimate && measured && i < p->steps; i++) {
		struct plan_step *s = &p->step[i];

		s->estimate_unfused_ns = s->ops > 1 ? sum_alone(p, s, estimate) : 0;
		s->measured_unfused_ns = s->ops > 1 ? sum_alone(p, s, measured) : 0;
	}
	free(estimate);
	free(measured);
	return estimate && measured ? 0 : -ENOMEM;
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

/*
 * How long a run and its steps took, by the driver's own times of launches.
 *
 * A launch counts with what it took on the device and what launches were measured to cost: the gaps
 * between timed launches are longer than others, since some drivers take their time over times. Steps
 * that share a launch share its time.
 */
#include "state.h"

#include <stdlib.h>

struct timing *timing_new(struct plan *p) {
	struct timing *t = calloc(1, sizeof *t + p->steps * sizeof *t->launch);

	if (t)
		t->plan = plan_ref(p);
	return t;
}

struct timing *timing_free(struct timing *t) {
	if (!t)
		return NULL;
	for (uint32_t i = 0; i < t->launches; i++)
		stamp_free(t->launch[i].stamp);
	plan_unref(t->plan);
	free(t);
	return NULL;
}

bool timing_launched(struct timing *t, struct device *d, uint32_t first, uint32_t end, uint32_t tasks) {
	struct stamp *s = device_stamp(d);

	if (s)
		t->launch[t->launches++] = (struct timing_launch){ s, first, end, tasks };
	return s != NULL;
}

void timing_tell_steps(struct plan *p, const struct timing_launch *l, double ns, double launch_ns) {
	for (uint32_t i = l->first; l->tasks == l->end - l->first && i < l->end; i++)
		plan_step_measured(&p->step[i], (ns + launch_ns) / l->tasks);
}

void timing_tell(const struct timing *t, const struct exec *x, const struct run *r) {
	double launch_ns = device_traits(x->device)->rates.launch_ns, total = 0;

	for (uint32_t i = 0; i < t->launches; i++) {
		const struct timing_launch *l = &t->launch[i];
		struct stamp_times at;
		double ns;

		if (stamp_read(l->stamp, &at))
			return;
		ns = (double)(at.end - at.start);
		total += ns + launch_ns;
		timing_tell_steps(t->plan, l, ns, launch_ns);
	}
	if (t->launches)
		r->timed(r->item.user, total);
}

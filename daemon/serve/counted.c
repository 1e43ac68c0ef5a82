/* What a graph that ran adds to the statistics of its session. */
#include "server.h"

#include "daemon/serve/patterns.h"

/* Passes that begin operations of a later step are part of that. */
static void count_step(struct counters *c, const struct plan *p, uint32_t i) {
	const struct plan_step *s = &p->step[i];
	bool fused = plan_step_before(p, i) > plan_step_passes(p, i);

	if (!s->ops)
		return;
	c->fusions += fused;
	switch (s->kernel->root) {
	case KERNEL_MAP:
		c->map_fused += fused;
		c->map_single += !fused;
		break;
	case KERNEL_REDUCE:
		c->reduce_fused += fused;
		c->reduce_single += !fused;
		break;
	case KERNEL_ROWS:
		c->rows++;
		break;
	case KERNEL_SORT:
		c->sorts++;
		break;
	case KERNEL_CONV:
		c->convolutions++;
		break;
	case KERNEL_ATTENTION:
		c->attentions++;
		break;
	case KERNEL_SCATTER:
		c->scatters++;
		break;
	case KERNEL_SCAN:
		c->scan_fused += fused;
		c->scan_single += !fused;
		break;
	default:
		c->matmul_fused += fused;
		c->matmul_single += !fused;
		break;
	}
}

/* Times count where those of both ways are known. */
static void count_times(struct pattern_counters *c, const struct plan *p, uint32_t i) {
	const struct plan_step *step = &p->step[i];
	double estimated = plan_estimate_of(p, i), measured = plan_measured_of(p, i);

	if (estimated > 0 && step->estimate_unfused_ns > 0) {
		c->estimated_ns += estimated;
		c->estimated_unfused_ns += step->estimate_unfused_ns;
	}
	if (measured > 0 && step->measured_unfused_ns > 0) {
		c->measured_ns += measured;
		c->measured_unfused_ns += step->measured_unfused_ns;
	}
}

void pattern_counters_count(struct pattern_counters *c, const struct plan *p, uint32_t i) {
	const struct plan_step *step = &p->step[i];

	c->kernels_after++;
	if (!step->ops)
		return;
	c->count++;
	c->kernels_before += plan_step_before(p, i);
	c->bytes_saved += plan_step_saved(step);
	c->buffers_eliminated += step->buffers_eliminated;
	count_times(c, p, i);
}

/* Launches that several steps shared. */
static void count_launches(struct session *s, const struct plan *p) {
	uint32_t end;

	for (uint32_t first = 0; first < p->steps; first = end) {
		struct pattern_counters *c = &s->pattern[pattern_of_launch(&p->step[first])];
		struct plan_launch_times t;

		end = plan_launch_end(p, first);
		if (end - first < 2)
			continue;
		t = plan_launch_times(p, first, &s->server->traits->rates);
		c->estimated_ns += t.together_ns;
		c->estimated_unfused_ns += t.apart_ns;
		c->count++;
		c->kernels_before += end - first;
		c->kernels_after++;
	}
}

void session_count_plan(struct session *s, const struct plan *p) {
	struct counters *c = &s->counters;

	c->kernels_launched += p->steps;
	c->kernels_unfused += plan_unfused_steps(p);
	c->bytes_not_moved += p->bytes_not_moved;
	c->buffers_eliminated += p->buffers_eliminated;
	c->operations_executed += p->operations;
	c->reductions += p->reductions;
	for (uint32_t i = 0; i < p->steps; i++) {
		count_step(c, p, i);
		if (p->step[i].pattern)
			pattern_counters_count(&s->pattern[p->step[i].pattern], p, i);
		patterns_count_step(s, p, i);
	}
	patterns_count_found(s, p);
	count_launches(s, p);
}

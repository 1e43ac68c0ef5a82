/*
 * "Do these two run in one kernel?", asked of a plan that is made as it would be to run.
 *
 * Whoever asks has planned the graph in question with the session's own options, so the answer cannot differ from what runs. Where it is no,
 * the reason is that of the first two kernels on the way from the one to the other (apart.c).
 */
#include "plan.h"

#include <errno.h>
#include <stdlib.h>

/* What is a member's, and the way from the first to the second. */
struct way {
	const struct plan *p;
	uint32_t *step;                /* of each node, the last of them; PLAN_NONE: none */
	uint32_t *came;                /* for each step the note by which it was reached; PLAN_NONE: not yet */
	uint32_t *queue;
	uint32_t *leaving;             /* of each step the first note of which it is the producer; PLAN_NONE: none */
	uint32_t *next;                /* of each note the next of the same producer */
	struct plan_note *note;
	uint32_t notes;
};

/* A composite is many nodes, all with its number; one node may stand for several operations that are the same. */
static bool is_of(const struct plan *p, uint32_t node, struct plan_member m) {
	return node == m.node || (m.note != PLAN_NONE && p->node[node].note == m.note);
}

static bool holds(const struct plan *p, uint32_t step, struct plan_member m) {
	for (uint32_t k = 0; k < p->step[step].ops; k++)
		if (is_of(p, p->step[step].op[k], m))
			return true;
	return false;
}

static bool is_computed(const struct plan *p, struct plan_member m) {
	for (uint32_t i = 0; i < p->steps; i++)
		if (holds(p, i, m))
			return true;
	return false;
}

static const char *without_kernel(const struct plan *p, struct plan_member m) {
	const struct plan_node *n = &p->node[m.node];

	if (n->arity && op_is_view(n->op))
		return "it is a view, which costs no kernel: what reads it reads through it";
	if (!n->arity)
		return "it is memory or a number, which costs no kernel: kernels read it";
	return "no kernel computes it: what is asked for does not need it";
}

/* Is one of `first` among what `second` reads, however far? -ENOMEM, 0 or 1. */
static int leads_to(const struct plan *p, struct plan_member first, struct plan_member second) {
	uint32_t *stack = malloc((p->nodes + 1u) * sizeof *stack), top = 0;
	bool *seen = calloc(p->nodes + 1u, 1);
	int r = stack && seen ? 0 : -ENOMEM;

	for (uint32_t i = 0; !r && i < p->nodes; i++)
		if (is_of(p, i, second)) {
			seen[i] = true;
			stack[top++] = i;
		}
	while (!r && top) {
		const struct plan_node *n = &p->node[stack[--top]];

		for (unsigned i = 0; i < n->arity; i++) {
			r |= is_of(p, n->in[i], first);
			if (!seen[n->in[i]]) {
				seen[n->in[i]] = true;
				stack[top++] = n->in[i];
			}
		}
	}
	free(stack);
	free(seen);
	return r;
}

/* Which notes leave each step, so that a search looks at each of them once: there are as many as steps, and more. */
static int sort_notes(struct way *w) {
	w->next = malloc((w->notes + 1u) * sizeof *w->next);
	if (!w->next)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->p->steps; i++)
		w->leaving[i] = PLAN_NONE;
	for (uint32_t i = w->notes; i--;) {
		uint32_t from = w->step[w->note[i].producer], into = w->step[w->note[i].consumer];

		if (w->note[i].beside || from == PLAN_NONE || into == PLAN_NONE)
			continue;
		w->next[i] = w->leaving[from];
		w->leaving[from] = i;
	}
	return 0;
}

/* Kernels in the order of their distance from those of `first`, until one of `second` is reached: which, or PLAN_NONE. */
static uint32_t search(struct way *w, struct plan_member first, struct plan_member second) {
	const struct plan *p = w->p;
	uint32_t head = 0, tail = 0;

	for (uint32_t i = 0; i < p->steps; i++) {
		w->came[i] = PLAN_NONE;
		if (holds(p, i, first)) {
			w->came[i] = w->notes;
			w->queue[tail++] = i;
		}
	}
	while (head < tail)
		for (uint32_t i = w->leaving[w->queue[head++]]; i != PLAN_NONE; i = w->next[i]) {
			uint32_t into = w->step[w->note[i].consumer];

			if (w->came[into] != PLAN_NONE)
				continue;
			w->came[into] = i;
			if (holds(p, into, second))
				return into;
			w->queue[tail++] = into;
		}
	return PLAN_NONE;
}

/* The first edge of the way to `step`. */
static const struct plan_note *first_edge(const struct way *w, uint32_t step) {
	uint32_t note = w->came[step];

	for (;;) {
		uint32_t from = w->step[w->note[note].producer];

		if (w->came[from] == w->notes)
			return &w->note[note];
		note = w->came[from];
	}
}

/* They might have stood side by side. */
static const struct plan_note *beside(const struct way *w, struct plan_member first, struct plan_member second) {
	for (uint32_t i = 0; i < w->notes; i++) {
		uint32_t a = w->step[w->note[i].producer], b = w->step[w->note[i].consumer];

		if (w->note[i].beside && a != PLAN_NONE && b != PLAN_NONE &&
			((holds(w->p, a, first) && holds(w->p, b, second)) || (holds(w->p, a, second) && holds(w->p, b, first))))
			return &w->note[i];
	}
	return NULL;
}

static void take(struct plan_pair *pair, const struct plan_note *n) {
	pair->reason = n->reason;
	pair->producer = n->producer;
	pair->consumer = n->consumer;
}

/* Two that are in different kernels. */
static int explain_apart(struct way *w, struct plan_member first, struct plan_member second, struct plan_pair *pair) {
	int there = leads_to(w->p, first, second), back = there ? 0 : leads_to(w->p, second, first);
	const struct plan_note *aside;
	uint32_t step;

	if (there < 0 || back < 0)
		return -ENOMEM;
	step = back ? search(w, second, first) : search(w, first, second);
	if (step != PLAN_NONE)
		take(pair, first_edge(w, step));
	else if (there || back)
		pair->reason = "other kernels lie between them";
	else if ((aside = beside(w, first, second)))
		take(pair, aside);
	else
		pair->reason = "neither reads what the other computes";
	return 0;
}

static void find_steps(struct way *w) {
	const struct plan *p = w->p;

	for (uint32_t i = 0; i < p->nodes; i++)
		w->step[i] = PLAN_NONE;
	for (uint32_t i = 0; i < p->steps; i++)
		for (uint32_t k = 0; k < p->step[i].ops; k++)
			w->step[p->step[i].op[k]] = i;
}

static int find_reason(const struct plan *p, struct plan_member first, struct plan_member second, struct plan_pair *pair) {
	struct way w = { .p = p, .step = malloc((p->nodes + 1u) * sizeof *w.step), .came = malloc((p->steps + 1u) * sizeof *w.came),
		.queue = malloc((p->steps + 1u) * sizeof *w.queue), .leaving = malloc((p->steps + 1u) * sizeof *w.leaving) };
	int r = w.step && w.came && w.queue && w.leaving ? plan_apart(p, &w.note, &w.notes) : -ENOMEM;

	if (!r) {
		find_steps(&w);
		r = sort_notes(&w);
	}
	if (!r)
		r = explain_apart(&w, first, second, pair);
	free(w.step);
	free(w.came);
	free(w.queue);
	free(w.leaving);
	free(w.next);
	free(w.note);
	return r;
}

int plan_pair(const struct plan *p, struct plan_member first, struct plan_member second, struct plan_pair *pair) {
	*pair = (struct plan_pair){ .step = PLAN_NONE, .producer = PLAN_NONE, .consumer = PLAN_NONE };
	/* The last of a pair's kernels tells what all of them gain. */
	for (uint32_t i = 0; i < p->steps; i++)
		if (holds(p, i, first) && holds(p, i, second))
			pair->step = i;
	pair->fused = pair->step != PLAN_NONE;
	if (pair->fused) {
		pair->reason = "both run in one kernel";
		return 0;
	}
	for (unsigned i = 0; i < 2; i++) {
		struct plan_member m = i ? second : first;

		if (is_computed(p, m))
			continue;
		pair->producer = m.node;
		pair->reason = without_kernel(p, m);
		return 0;
	}
	return find_reason(p, first, second, pair);
}

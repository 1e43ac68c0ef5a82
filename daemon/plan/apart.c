/*
 * Why kernels of a plan are apart.
 *
 * While it groups operations the planner notes each time it says no (planner_note()). Most of these are overtaken: what one pass
 * refused the next one merges, and what was merged is refused no more. So who asks is told of what is left: for each two kernels of which one
 * reads what the other stores, and for those that might have stood side by side, one reason. Of several notes that is the last one, for
 * each pass is asked only where those before it have refused. Where nobody was asked, the structure says why.
 */
#include "plan.h"

#include <errno.h>
#include <stdlib.h>

/* What was found of two kernels: that one reads the other, or a note. */
struct found {
	uint32_t from, into, order;    /* steps; when it was found: readings before notes */
	struct plan_note note;         /* a reading: no reason */
};

struct search {
	const struct plan *p;
	uint32_t *step;                /* in which each node is computed, the last of them; PLAN_NONE: in none */
	uint32_t *inside;              /* the step that was looked at last, of those that compute the node */
	uint32_t *readers;             /* of each step: other steps that read what it stores */
	struct found *found;
	uint32_t count, capacity;
};

static int add(struct search *s, uint32_t from, uint32_t into, const struct plan_note *note) {
	if (s->count == s->capacity) {
		uint32_t capacity = s->capacity ? 2 * s->capacity : 64;
		struct found *found = realloc(s->found, capacity * sizeof *found);

		if (!found)
			return -ENOMEM;
		s->found = found;
		s->capacity = capacity;
	}
	s->found[s->count] = (struct found){ .from = from, .into = into, .order = s->count, .note = *note };
	s->count++;
	return 0;
}

/* What is in memory or computed behind views. */
static uint32_t base_of(const struct search *s, uint32_t node) {
	const struct plan *p = s->p;

	while (s->step[node] == PLAN_NONE && p->node[node].arity && op_is_view(p->node[node].op))
		node = p->node[node].in[0];
	return node;
}

static void find_steps(struct search *s) {
	for (uint32_t i = 0; i < s->p->nodes; i++)
		s->step[i] = s->inside[i] = PLAN_NONE;
	for (uint32_t i = 0; i < s->p->steps; i++)
		for (uint32_t k = 0; k < s->p->step[i].ops; k++)
			s->step[s->p->step[i].op[k]] = i;
}

/* What the operations of a step read of other steps. */
static int find_readings(struct search *s, uint32_t step) {
	const struct plan *p = s->p;
	int r = 0;

	for (uint32_t k = 0; k < p->step[step].ops; k++)
		s->inside[p->step[step].op[k]] = step;
	for (uint32_t k = 0; !r && k < p->step[step].ops; k++) {
		uint32_t consumer = p->step[step].op[k];

		for (unsigned i = 0; !r && i < p->node[consumer].arity; i++) {
			uint32_t producer = base_of(s, p->node[consumer].in[i]);

			if (s->step[producer] != PLAN_NONE && s->inside[producer] != step)
				r = add(s, s->step[producer], step, &(struct plan_note){ .producer = producer, .consumer = consumer });
		}
	}
	return r;
}

static int find_notes(struct search *s) {
	const struct plan *p = s->p;
	int r = 0;

	for (uint32_t i = 0; !r && i < p->notes; i++) {
		uint32_t from = s->step[p->note[i].producer], into = s->step[p->note[i].consumer];

		if (from != PLAN_NONE && into != PLAN_NONE && from != into)
			r = add(s, from, into, &p->note[i]);
	}
	return r;
}

static int compare(const void *a, const void *b) {
	const struct found *x = a, *y = b;

	if (x->into != y->into)
		return x->into > y->into ? 1 : -1;
	if (x->from != y->from)
		return x->from > y->from ? 1 : -1;
	return x->order > y->order ? 1 : -1;
}

static uint32_t end_of(const struct search *s, uint32_t first) {
	uint32_t end = first + 1;

	while (end < s->count && s->found[end].from == s->found[first].from && s->found[end].into == s->found[first].into)
		end++;
	return end;
}

static void count_readers(struct search *s) {
	for (uint32_t i = 0; i < s->count; i = end_of(s, i))
		s->readers[s->found[i].from] += !s->found[i].note.reason;
}

/* No pass was asked. */
static const char *by_structure(const struct search *s, const struct found *f) {
	unsigned root = s->p->step[f->into].kernel->root;

	if (root != KERNEL_MAP && root != KERNEL_REDUCE && root != KERNEL_ROWS)
		return "what reads it reads it from memory, at places of its own";
	if (s->readers[f->from] > 1)
		return "several kernels read what its kernel computes";
	return "what reads it reads something that is computed later, too";
}

/* The one that decides of two kernels; no reason: none, since nobody reads and nobody might have stood beside the other. */
static struct plan_note decide(const struct search *s, uint32_t first, uint32_t end) {
	struct plan_note last = s->found[end - 1].note, reading = s->found[first].note;

	if (reading.reason)
		return last.beside ? last : (struct plan_note){ .reason = NULL };
	if (!last.reason) {
		reading.reason = by_structure(s, &s->found[first]);
		return reading;
	}
	/* The note may be of another member of the kernel: what is read by what is told as it is. */
	for (uint32_t i = first; i < end && !s->found[i].note.reason; i++)
		if (s->found[i].note.producer == last.producer && s->found[i].note.consumer == last.consumer)
			return last;
	reading.reason = last.reason;
	return reading;
}

static int find(struct search *s) {
	int r = 0;

	find_steps(s);
	for (uint32_t i = 0; !r && i < s->p->steps; i++)
		r = find_readings(s, i);
	if (!r)
		r = find_notes(s);
	if (!r && s->count)
		qsort(s->found, s->count, sizeof *s->found, compare);
	return r;
}

/* In place: there are no more of them than was found. */
static int collect(struct search *s, struct plan_note **notep, uint32_t *countp) {
	struct plan_note *note = calloc(s->count + 1u, sizeof *note);
	uint32_t count = 0;

	if (!note)
		return -ENOMEM;
	count_readers(s);
	for (uint32_t i = 0, end; i < s->count; i = end) {
		end = end_of(s, i);
		note[count] = decide(s, i, end);
		count += note[count].reason != NULL;
	}
	*notep = note;
	*countp = count;
	return 0;
}

int plan_apart(const struct plan *p, struct plan_note **notep, uint32_t *countp) {
	struct search s = { .p = p };
	int r = -ENOMEM;

	s.step = calloc(p->nodes + 1u, sizeof *s.step);
	s.inside = calloc(p->nodes + 1u, sizeof *s.inside);
	s.readers = calloc(p->steps + 1u, sizeof *s.readers);
	if (s.step && s.inside && s.readers)
		r = find(&s);
	if (!r)
		r = collect(&s, notep, countp);
	free(s.step);
	free(s.inside);
	free(s.readers);
	free(s.found);
	return r;
}

/*
 * Lifetimes of memory, temporaries overwritten in place, and how much is alive at once.
 *
 * A map may write over a temporary it reads for the last time, where both have the same layout and
 * element size: an item then reads and writes only its own elements. Nothing that outlives the
 * plan is overwritten: a handle, a mapping or a batch to be repeated may see it.
 */
#include "planner.h"

#include <string.h>

static void touch(struct plan_slot *s, uint32_t step, bool writes) {
	if (writes && s->first == PLAN_NONE)
		s->first = step;
	if (writes)
		s->written = step;
	s->last = step;
}

static bool same_walk(const struct plan_step *s, unsigned a, unsigned b) {
	return s->kernel->operand[a].access == KERNEL_CONTIGUOUS &&
		s->operand[a].offset == s->operand[b].offset &&
		!memcmp(s->operand[a].stride, s->operand[b].stride, s->kernel->rank * sizeof *s->operand[a].stride);
}

/* Is operand a the only way this step reads its slot? */
static bool read_once(const struct plan_step *s, unsigned a) {
	for (unsigned i = 0; i < s->kernel->operands; i++)
		if (i != a && s->operand[i].slot == s->operand[a].slot)
			return false;
	return true;
}

static bool may_overwrite(const struct plan *p, uint32_t step, unsigned read, unsigned write) {
	const struct plan_step *s = &p->step[step];
	const struct plan_slot *from = &p->slot[s->operand[read].slot], *to = &p->slot[s->operand[write].slot];

	return !s->kernel->operand[read].output && !s->kernel->operand[read].iota &&
		!s->kernel->operand[read].gathered && !to->parts &&
		s->operand[read].slot >= p->leaves && !from->output && !to->output && from->last == step && to->first == step &&
		from->bytes == to->bytes && to->reuse == PLAN_NONE &&
		dtype_info(s->kernel->operand[read].dtype)->bytes == dtype_info(s->kernel->operand[write].dtype)->bytes &&
		same_walk(s, read, write) && read_once(s, read);
}

static void reuse_in_place(struct plan *p, uint32_t step) {
	const struct plan_step *s = &p->step[step];
	bool taken[KERNEL_OPERANDS] = { false };

	if (s->kernel->root != KERNEL_MAP)
		return;
	for (unsigned w = 0; w < s->kernel->operands; w++)
		for (unsigned r = 0; s->kernel->operand[w].output && r < s->kernel->operands; r++)
			if (!taken[r] && p->slot[s->operand[w].slot].reuse == PLAN_NONE && may_overwrite(p, step, r, w)) {
				p->slot[s->operand[w].slot].reuse = s->operand[r].slot;
				taken[r] = true;
			}
}

/* Did an operand before this one name the same slot? Is its memory taken over by what the step writes? */
static bool seen_before(const struct plan_step *s, unsigned operand) {
	for (unsigned i = 0; i < operand; i++)
		if (s->operand[i].slot == s->operand[operand].slot)
			return true;
	return false;
}

static bool taken_over(const struct plan *p, const struct plan_step *s, uint32_t slot) {
	for (unsigned i = 0; i < s->kernel->operands; i++)
		if (s->kernel->operand[i].output && p->slot[s->operand[i].slot].reuse == slot)
			return true;
	return false;
}

/* Temporaries live from their first step to their last, results from their first on. */
static void find_peak(struct plan *p) {
	uint64_t now = 0;

	for (uint32_t i = 0; i < p->steps; i++) {
		const struct plan_step *s = &p->step[i];

		for (unsigned o = 0; o < s->kernel->operands; o++) {
			uint32_t slot = s->operand[o].slot;

			if (s->kernel->operand[o].output && p->slot[slot].first == i &&
				p->slot[slot].reuse == PLAN_NONE && !seen_before(s, o))
				now += p->slot[slot].bytes;
		}
		p->peak_bytes = now > p->peak_bytes ? now : p->peak_bytes;
		for (unsigned o = 0; o < s->kernel->operands; o++) {
			uint32_t slot = s->operand[o].slot;

			if (slot != PLAN_NONE && slot >= p->leaves && !p->slot[slot].output &&
				p->slot[slot].last == i && !seen_before(s, o) && !taken_over(p, s, slot))
				now -= p->slot[slot].bytes;
		}
	}
}

static bool writes(const struct plan_step *s, uint32_t slot) {
	for (unsigned i = 0; i < s->kernel->operands; i++)
		if (s->kernel->operand[i].output && s->operand[i].slot == slot)
			return true;
	return false;
}

/* The one leaf that a step reads, where it writes the slot alone, and no number of the graph is in it; or PLAN_NONE. */
static uint32_t packs(const struct plan *p, const struct plan_step *s, uint32_t slot) {
	uint32_t leaf = PLAN_NONE;

	for (unsigned i = 0; i < s->kernel->scalars; i++)
		if (s->scalar[i] < p->scalars)
			return PLAN_NONE;
	for (unsigned i = 0; i < s->kernel->operands; i++) {
		uint32_t of = s->operand[i].slot;

		if (s->kernel->operand[i].iota || (s->kernel->operand[i].output && of == slot))
			continue;
		if (s->kernel->operand[i].output || of >= p->leaves || (leaf != PLAN_NONE && of != leaf))
			return PLAN_NONE;
		leaf = of;
	}
	return leaf;
}

/* Which packed factors are the same whenever their leaf is: exec may keep them. */
static void find_packed(struct plan *p, uint32_t slot) {
	struct plan_slot *s = &p->slot[slot];
	uint32_t leaf = PLAN_NONE;

	s->packed_of = PLAN_NONE;
	if (!s->packed || s->first == PLAN_NONE)
		return;
	for (uint32_t i = s->first; i <= s->written; i++) {
		uint32_t of;

		if (!writes(&p->step[i], slot))
			continue;
		of = packs(p, &p->step[i], slot);
		if (of == PLAN_NONE || (leaf != PLAN_NONE && of != leaf))
			return;
		leaf = of;
	}
	s->packed_of = leaf;
}

void plan_lifetimes(struct plan *p) {
	for (uint32_t i = 0; i < p->slots; i++) {
		p->slot[i].first = p->slot[i].last = p->slot[i].written = PLAN_NONE;
		p->slot[i].reuse = PLAN_NONE;
	}
	for (uint32_t i = 0; i < p->steps; i++)
		for (unsigned o = 0; o < p->step[i].kernel->operands; o++)
			if (p->step[i].operand[o].slot != PLAN_NONE)
				touch(&p->slot[p->step[i].operand[o].slot], i, p->step[i].kernel->operand[o].output);
	for (uint32_t i = 0; i < p->slots; i++)
		find_packed(p, i);
	for (uint32_t i = 0; i < p->steps; i++)
		reuse_in_place(p, i);
	p->peak_bytes = 0;
	find_peak(p);
}

/*
 * What is computed once a plan, so that a run only fills in addresses and scalars.
 *
 * For each step: its program, the launch, and a task record with everything that does not change;
 * then the words that do. For the plan: where temporaries lie in one block of scratch memory, which
 * is packed by their lifetimes here, so that a run takes and gives back one block.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/emit/emit.h"
#include "protocol/limits.h"

/* The span temporaries are packed in; far more than any device has. */
#define PREPARE_SPAN (UINT64_C(1) << 46)

static void prepared_release(void *prepared) {
	struct prepared *p = prepared;

	arena_free(&p->arena);
	free(p);
}

static void prepared_freep(struct prepared **pp) {
	if (*pp)
		prepared_release(*pp);
}

static void *take(struct prepared *p, uint64_t count, size_t size) {
	return arena_alloc(&p->arena, count ? count * size : 1);
}

/* ---- temporaries ---- */

/* While temporaries are packed: what holds memory, and how much of the span was ever used. */
struct packing {
	const struct plan *plan;
	struct prepared *p;
	struct range *span;
	bool *holds;
};

static bool is_temporary(const struct plan *plan, uint32_t slot) {
	return slot >= plan->leaves && !plan->slot[slot].output && plan->slot[slot].first != PLAN_NONE;
}

/* May the slot go on where the one it reuses ends? */
static bool inherits(const struct packing *k, uint32_t slot) {
	uint32_t from = k->plan->slot[slot].reuse;

	return from != PLAN_NONE && is_temporary(k->plan, from) && k->holds[from] &&
		k->plan->slot[from].bytes >= k->plan->slot[slot].bytes &&
		k->plan->slot[from].last <= k->plan->slot[slot].first;
}

static int pack_slot(struct packing *k, uint32_t slot) {
	const struct plan_slot *s = &k->plan->slot[slot];
	uint64_t end;
	int r;

	k->holds[slot] = true;
	r = range_take(k->span, s->bytes, &k->p->place[slot]);
	if (r)
		return r;
	end = k->p->place[slot] + s->bytes;
	if (end > k->p->scratch)
		k->p->scratch = end;
	return 0;
}

/*
 * A slot that inherits keeps the memory of the slot before; the last of such a line gives it back,
 * with the size it was taken with. owner[] names the first.
 */
static int pack_step(struct packing *k, uint32_t step, uint32_t *owner) {
	const struct plan *plan = k->plan;
	int r = 0;

	for (uint32_t s = plan->leaves; s < plan->slots && !r; s++) {
		if (!is_temporary(plan, s) || plan->slot[s].first != step)
			continue;
		owner[s] = s;
		if (inherits(k, s)) {
			k->holds[plan->slot[s].reuse] = false;
			k->holds[s] = true;
			owner[s] = owner[plan->slot[s].reuse];
			k->p->place[s] = k->p->place[owner[s]];
		} else {
			r = pack_slot(k, s);
		}
	}
	for (uint32_t s = plan->leaves; s < plan->slots && !r; s++) {
		if (!is_temporary(plan, s) || plan->slot[s].last != step || !k->holds[s])
			continue;
		k->holds[s] = false;
		r = range_give(k->span, k->p->place[s], plan->slot[owner[s]].bytes);
	}
	return r;
}

static int pack(struct packing *k) {
	uint32_t *owner = take(k->p, k->plan->slots, sizeof *owner);
	int r = owner ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < k->plan->steps && !r; i++)
		r = pack_step(k, i, owner);
	return r;
}

static int pack_temporaries(struct prepared *p, const struct plan *plan) {
	struct packing k = { .plan = plan, .p = p };
	int r;

	p->slots = plan->slots;
	p->place = take(p, plan->slots, sizeof *p->place);
	k.holds = take(p, plan->slots, sizeof *k.holds);
	if (!p->place || !k.holds)
		return -ENOMEM;
	r = range_new(PREPARE_SPAN, &k.span);
	if (!r)
		r = pack(&k);
	range_free_all(k.span);
	return r;
}

/* ---- steps ---- */

/* Which elements an operand touches, from its strides. */
static int operand_reach(const struct plan_step *s, unsigned operand, struct prepared_operand *o) {
	int64_t last;

	o->low = o->high = s->operand[operand].offset;
	for (unsigned d = 0; d < s->kernel->rank; d++) {
		int64_t *end;

		if (s->dims[d] <= 0) {
			o->low = 1;
			o->high = 0;
			return 0;
		}
		if (__builtin_mul_overflow(s->dims[d] - 1, s->operand[operand].stride[d], &last))
			return FAULT_INTERNAL;
		end = last < 0 ? &o->low : &o->high;
		if (__builtin_add_overflow(*end, last, end))
			return FAULT_INTERNAL;
	}
	return o->high > INT64_MAX / LIMIT_ALIGNMENT ? FAULT_INTERNAL : 0;
}

static int prepare_operand(const struct plan *plan, const struct plan_step *s, unsigned operand,
	struct prepared_step *to) {
	const struct plan_operand *from = &s->operand[operand];
	struct prepared_operand *o = &to->operand[to->operands];
	uint32_t word = kernel_word_operand(s->kernel, operand);
	int r;

	for (unsigned d = 0; d < s->kernel->rank; d++)
		to->record[word + 1 + d] = (uint64_t)from->stride[d];
	if (from->slot == PLAN_NONE) {
		to->record[word] = (uint64_t)from->offset;
		return 0;
	}
	if (from->slot >= plan->slots)
		return FAULT_INTERNAL;
	o->word = word;
	o->slot = from->slot;
	o->bytes = dtype_info(s->kernel->operand[operand].dtype)->bytes;
	o->add = (uint64_t)from->offset * o->bytes;
	r = operand_reach(s, operand, o);
	if (r)
		return r;
	if (o->slot >= plan->leaves && o->low <= o->high &&
		(o->low < 0 || ((uint64_t)o->high + 1) * o->bytes > plan->slot[o->slot].bytes))
		return FAULT_INTERNAL;
	to->operands++;
	return 0;
}

/* The plan's own constants go into the record; the graph's scalars are filled in by each run. */
static int prepare_scalar(const struct plan *plan, const struct plan_step *s, unsigned scalar,
	struct prepared_step *to) {
	uint32_t word = kernel_word_scalar(s->kernel, scalar), number = s->scalar[scalar];

	if (number < plan->scalars) {
		to->scalar[to->scalars++] = (struct prepared_scalar){ word, number };
		return 0;
	}
	if (number - plan->scalars >= plan->constants)
		return FAULT_INTERNAL;
	to->record[word] = plan->constant[number - plan->scalars];
	return 0;
}

static int prepare_words(const struct plan *plan, const struct plan_step *s, struct prepared_step *to) {
	int r = 0;

	for (unsigned d = 0; d < s->kernel->rank; d++)
		to->record[kernel_word_dim(d)] = (uint64_t)s->dims[d];
	for (unsigned i = 0; i < s->kernel->operands && !r; i++)
		r = prepare_operand(plan, s, i, to);
	for (unsigned i = 0; i < s->kernel->scalars && !r; i++)
		r = prepare_scalar(plan, s, i, to);
	return r;
}

static int prepare_step(struct exec *x, struct prepared *p, const struct plan *plan, uint32_t step) {
	const struct plan_step *s = &plan->step[step];
	struct prepared_step *to = &p->step[step];
	struct emit_launch launch;
	int r;

	to->words = kernel_record_words(s->kernel);
	to->record = take(p, to->words, sizeof *to->record);
	to->operand = take(p, s->kernel->operands, sizeof *to->operand);
	to->scalar = take(p, s->kernel->scalars, sizeof *to->scalar);
	if (!to->record || !to->operand || !to->scalar)
		return -ENOMEM;
	launch = emit_geometry(s->kernel, device_traits(x->device), s->dims, s->extent, to->record);
	r = prepare_words(plan, s, to);
	if (r || !to->record[KERNEL_WORD_ITEMS])
		return r;
	to->items = launch.items;
	to->local = launch.local;
	return device_program(x->device, s->kernel, &to->program);
}

/* ---- the plan ---- */

static int find_twins(struct prepared *p, const struct plan *plan) {
	p->same = take(p, plan->outputs, sizeof *p->same);
	if (!p->same)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->outputs; i++) {
		if (plan->output[i].slot >= plan->slots)
			return FAULT_INTERNAL;
		p->same[i] = i;
		for (uint32_t j = 0; j < i && p->same[i] == i; j++)
			if (plan->output[j].slot == plan->output[i].slot)
				p->same[i] = j;
	}
	return 0;
}

static int prepare_all(struct exec *x, struct prepared *p, const struct plan *plan) {
	int r;

	p->steps = plan->steps;
	p->step = take(p, plan->steps, sizeof *p->step);
	if (!p->step)
		return -ENOMEM;
	r = find_twins(p, plan);
	if (!r)
		r = pack_temporaries(p, plan);
	for (uint32_t i = 0; i < plan->steps && !r; i++)
		r = prepare_step(x, p, plan, i);
	return r;
}

int prepare(struct exec *x, struct plan *plan, struct prepared **preparedp, struct fault *f) {
	CLEANUP(prepared_freep) struct prepared *p = NULL;
	int r;

	*preparedp = plan->prepared;
	if (plan->prepared)
		return 0;
	p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	r = prepare_all(x, p, plan);
	if (r == FAULT_INTERNAL)
		return fault_set(f, r, "a plan names memory, scalars or elements that do not exist; please report it");
	if (r)
		return r == -ENOSPC ? -ENOMEM : r;
	*preparedp = plan->prepared = p;
	plan->release = prepared_release;
	p = NULL;
	return 0;
}

int prepared_check(struct prepared *p, uint32_t *stepp) {
	for (; p->ready < p->steps; p->ready++) {
		const struct program *program = p->step[p->ready].program;

		if (!program || program_state(program) == PROGRAM_READY)
			continue;
		*stepp = p->ready;
		return program_state(program) == PROGRAM_FAILED ? FAULT_BUILD : -EAGAIN;
	}
	return 0;
}

/*
 * What is computed once a plan, so that a run only fills in addresses and scalars.
 *
 * For each step: its program, the launch, and a task record with everything that does not change;
 * then the words that do. Neighbouring steps of one program that need nothing of each other are
 * joined: they are tasks of one launch. For the plan: where temporaries lie in one block of scratch
 * memory, which is packed by their lifetimes here, so that a run takes and gives back one block.
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

/* ---- steps ---- */

/* Which elements an operand touches, from its strides. */
static int operand_reach(const struct plan_step *s, unsigned operand, struct prepared_operand *o) {
	int64_t last;

	o->low = o->high = s->operand[operand].offset;
	for (unsigned d = 0; d < s->kernel->rank; d++) {
		int64_t *end, extent = kernel_walked(s->kernel, operand, d, s->dims, s->extent);

		if (extent <= 0) {
			o->low = 1;
			o->high = 0;
			return 0;
		}
		if (__builtin_mul_overflow(extent - 1, s->operand[operand].stride[d], &last))
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

/* How it is launched; items: 0 where there is nothing to do. */
static int prepare_size(const struct traits *t, struct prepared *p, const struct plan_step *s, struct prepared_step *to) {
	struct emit_launch launch;

	to->words = kernel_record_words(s->kernel);
	to->record = take(p, to->words, sizeof *to->record);
	if (!to->record)
		return -ENOMEM;
	launch = emit_geometry_turned(s->kernel, t, s->dims, s->extent, &s->knobs, to->record);
	if (!to->record[KERNEL_WORD_ITEMS])
		return 0;
	to->items = launch.items;
	to->local = launch.local;
	to->kernel = s->kernel;
	return 0;
}

static int prepare_step(struct exec *x, struct prepared *p, const struct plan *plan, uint32_t step) {
	const struct plan_step *s = &plan->step[step];
	struct prepared_step *to = &p->step[step];
	int r = prepare_size(device_traits(x->device), p, s, to);

	if (r)
		return r;
	to->operand = take(p, s->kernel->operands, sizeof *to->operand);
	to->scalar = take(p, s->kernel->scalars, sizeof *to->scalar);
	if (!to->operand || !to->scalar)
		return -ENOMEM;
	r = prepare_words(plan, s, to);
	if (r || !to->items)
		return r;
	to->divisible = emit_divisible(s->kernel, device_traits(x->device));
	r = interpret_prepare(x, &p->arena, s, to);
	if (r || (to->code && (plan->generic || x->interpreter_mode == INTERPRETER_ALWAYS)))
		return r;
	if (x->later && !x->soon)
		return device_program_trial(x->device, s->kernel, &to->program);
	if (x->later)
		return device_program_later(x->device, s->kernel, &to->program);
	if (!p->stood_in && !interpret_ready(x, to))
		return device_program(x->device, s->kernel, &to->program);
	r = device_program_later(x->device, s->kernel, &to->program);
	to->postponed = r == -EBUSY;
	p->postponed += to->postponed;
	return to->postponed ? 0 : r;
}

void prepared_ask(struct exec *x, struct prepared *p) {
	for (uint32_t i = 0; p->postponed && i < p->steps; i++) {
		struct prepared_step *s = &p->step[i];

		if (!s->postponed)
			continue;
		/* Where it is still not the time for it, or memory is short, another run of the plan asks. */
		if (!s->program && device_program_later(x->device, s->kernel, &s->program))
			return;
		s->postponed = false;
		p->postponed--;
	}
}

/* ---- launches ---- */

/* Does the step touch anything that another step from `first` on writes? Its own results aside. */
static bool depends_on(const struct plan *plan, uint32_t first, uint32_t step) {
	const struct plan_step *s = &plan->step[step];

	for (unsigned i = 0; i < s->kernel->operands; i++) {
		uint32_t slot = s->operand[i].slot, written;

		if (slot == PLAN_NONE || slot < plan->leaves)
			continue;
		/* Parts of one array lie side by side. */
		if (s->kernel->operand[i].output && plan->slot[slot].parts)
			continue;
		written = plan->slot[slot].written;
		if (written >= first && written != step)
			return true;
	}
	return false;
}

static double estimate(const struct plan_step *s) {
	return s->measured_ns > 0 ? s->measured_ns : s->estimate_ns;
}

static bool joins(const struct prepared *p, const struct plan *plan, uint32_t first, uint32_t step) {
	const struct prepared_step *a = &p->step[first], *b = &p->step[step];

	if (plan->patterns_off & pattern_bit(pattern_of_launch(&plan->step[first])))
		return false;
	return a->items && b->items && (a->kernel == b->kernel || kernel_equal(a->kernel, b->kernel)) &&
		a->items == b->items && a->local == b->local &&
		(step - first + 1) * a->words <= EXEC_LAUNCH_WORDS && !depends_on(plan, first, step);
}

static void join_launches(struct prepared *p, const struct plan *plan) {
	uint32_t first = 0;
	double ns = 0;

	for (uint32_t i = 0; i < p->steps; i++) {
		ns += estimate(&plan->step[i]);
		if (i && (ns > PLAN_LAUNCH_NS || !joins(p, plan, first, i)))
			first = i;
		if (first == i)
			ns = estimate(&plan->step[i]);
		p->step[i].first = plan->step[i].launch = first;
	}
}

int exec_find_launches(const struct traits *t, const struct plan *plan) {
	struct prepared *p;
	int r = 0;

	if (plan->prepared)
		return 0;
	p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	p->steps = plan->steps;
	p->step = take(p, plan->steps, sizeof *p->step);
	r = p->step ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < plan->steps && !r; i++)
		r = prepare_size(t, p, &plan->step[i], &p->step[i]);
	if (!r)
		join_launches(p, plan);
	prepared_release(p);
	return r;
}

/* ---- temporaries ---- */

/*
 * While temporaries are packed: what holds memory, and how much of the span was ever used. Steps of
 * one launch run at the same time, so lifetimes count launches, named by their first step. `born`
 * and `dead` list slots by the launch that begins or ends their life: lists linked by next_*.
 */
struct packing {
	const struct plan *plan;
	struct prepared *p;
	struct range *span;
	bool *holds;
	uint32_t *owner;                      /* the slot whose memory a slot has */
	uint32_t *toucher;                    /* the newest step that touches a slot */
	bool *shared;                         /* so do others of that step's launch */
	uint32_t *born, *next_born, *dead, *next_dead;
};

static bool is_temporary(const struct plan *plan, uint32_t slot) {
	return slot >= plan->leaves && !plan->slot[slot].output && plan->slot[slot].first != PLAN_NONE &&
		plan->slot[slot].packed_of == PLAN_NONE;
}

/*
 * May the slot go on where the one it reuses ends? Not where other tasks of the launch read that one:
 * they run at the same time as the step that would write over it.
 */
static bool inherits(const struct packing *k, uint32_t slot) {
	uint32_t from = k->plan->slot[slot].reuse;

	return from != PLAN_NONE && is_temporary(k->plan, from) && k->holds[from] && !k->shared[from] &&
		k->plan->slot[from].bytes >= k->plan->slot[slot].bytes &&
		k->plan->slot[from].last <= k->plan->slot[slot].first;
}

static int pack_slot(struct packing *k, uint32_t slot) {
	const struct plan_slot *s = &k->plan->slot[slot];
	uint64_t end;
	int r;

	k->owner[slot] = slot;
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
 * with the size it was taken with.
 */
static int pack_born(struct packing *k, uint32_t slot) {
	uint32_t from = k->plan->slot[slot].reuse;

	if (!inherits(k, slot))
		return pack_slot(k, slot);
	k->holds[from] = false;
	k->holds[slot] = true;
	k->owner[slot] = k->owner[from];
	k->p->place[slot] = k->p->place[from];
	return 0;
}

static int pack_dead(struct packing *k, uint32_t slot) {
	if (!k->holds[slot])
		return 0;
	k->holds[slot] = false;
	return range_give(k->span, k->p->place[slot], k->plan->slot[k->owner[slot]].bytes);
}

static int pack_launch(struct packing *k, uint32_t first) {
	int r = 0;

	for (uint32_t s = k->born[first]; !r && s != PLAN_NONE; s = k->next_born[s])
		r = pack_born(k, s);
	for (uint32_t s = k->dead[first]; !r && s != PLAN_NONE; s = k->next_dead[s])
		r = pack_dead(k, s);
	return r;
}

static void link_lifetimes(struct packing *k) {
	const struct plan *plan = k->plan;

	for (uint32_t i = 0; i < plan->steps; i++)
		k->born[i] = k->dead[i] = PLAN_NONE;
	for (uint32_t s = plan->slots; s-- > plan->leaves;) {
		uint32_t first, last;

		if (!is_temporary(plan, s))
			continue;
		first = k->p->step[plan->slot[s].first].first;
		last = k->p->step[plan->slot[s].last].first;
		k->next_born[s] = k->born[first];
		k->born[first] = s;
		k->next_dead[s] = k->dead[last];
		k->dead[last] = s;
	}
}

/* What a slot's last launch does with it is what remains: memory is only inherited there. */
static void find_shared(struct packing *k) {
	const struct plan *plan = k->plan;

	for (uint32_t i = 0; i < plan->slots; i++)
		k->toucher[i] = PLAN_NONE;
	for (uint32_t i = 0; i < plan->steps; i++)
		for (unsigned o = 0; o < plan->step[i].kernel->operands; o++) {
			uint32_t slot = plan->step[i].operand[o].slot, last;

			if (slot == PLAN_NONE || k->toucher[slot] == i)
				continue;
			last = k->toucher[slot];
			k->shared[slot] = last != PLAN_NONE && k->p->step[last].first == k->p->step[i].first;
			k->toucher[slot] = i;
		}
}

static int pack(struct packing *k) {
	int r = 0;

	link_lifetimes(k);
	find_shared(k);
	for (uint32_t i = 0; i < k->plan->steps && !r; i++)
		if (k->p->step[i].first == i)
			r = pack_launch(k, i);
	return r;
}

static int pack_temporaries(struct prepared *p, const struct plan *plan) {
	struct packing k = { .plan = plan, .p = p };
	int r;

	p->slots = plan->slots;
	p->place = take(p, plan->slots, sizeof *p->place);
	k.holds = take(p, plan->slots, sizeof *k.holds);
	k.owner = take(p, plan->slots, sizeof *k.owner);
	k.toucher = take(p, plan->slots, sizeof *k.toucher);
	k.shared = take(p, plan->slots, sizeof *k.shared);
	k.next_born = take(p, plan->slots, sizeof *k.next_born);
	k.next_dead = take(p, plan->slots, sizeof *k.next_dead);
	k.born = take(p, plan->steps, sizeof *k.born);
	k.dead = take(p, plan->steps, sizeof *k.dead);
	if (!p->place || !k.holds || !k.owner || !k.toucher || !k.shared || !k.next_born || !k.next_dead ||
		!k.born || !k.dead)
		return -ENOMEM;
	r = range_new(PREPARE_SPAN, &k.span);
	if (!r)
		r = pack(&k);
	range_free_all(k.span);
	return r;
}

/* ---- the plan ---- */

static uint64_t touched_bytes(const struct plan_step *s, unsigned operand) {
	uint64_t bytes = dtype_info(s->kernel->operand[operand].dtype)->bytes;

	for (unsigned d = 0; d < s->kernel->rank; d++)
		if (__builtin_mul_overflow(bytes, (uint64_t)kernel_walked(s->kernel, operand, d, s->dims, s->extent), &bytes))
			return UINT64_MAX;
	return bytes;
}

/* Is each element touched once, side by side with its neighbours? The results of a plan are only written. */
static bool may_stay(const struct plan *plan, const struct plan_step *s, unsigned operand) {
	const struct kernel_operand *o = &s->kernel->operand[operand];

	if (s->kernel->root != KERNEL_MAP && s->kernel->root != KERNEL_REDUCE)
		return false;
	return o->access != KERNEL_STRIDED && !o->gathered && (o->output || s->operand[operand].slot < plan->leaves);
}

static int find_moved(struct prepared *p, const struct plan *plan) {
	p->moved = take(p, plan->slots, sizeof *p->moved);
	if (!p->moved)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->steps; i++)
		for (unsigned o = 0; o < plan->step[i].kernel->operands; o++) {
			uint32_t slot = plan->step[i].operand[o].slot;
			uint64_t bytes;

			if (slot == PLAN_NONE)
				continue;
			bytes = may_stay(plan, &plan->step[i], o) ? touched_bytes(&plan->step[i], o) : UINT64_MAX;
			if (__builtin_add_overflow(p->moved[slot], bytes, &p->moved[slot]))
				p->moved[slot] = UINT64_MAX;
		}
	return 0;
}

static int find_twins(struct prepared *p, const struct plan *plan) {
	uint32_t *first = take(p, plan->slots, sizeof *first);   /* output + 1 by slot */

	p->same = take(p, plan->outputs, sizeof *p->same);
	if (!p->same || !first)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->outputs; i++) {
		uint32_t slot = plan->output[i].slot;

		if (slot >= plan->slots)
			return FAULT_INTERNAL;
		if (!first[slot])
			first[slot] = i + 1;
		p->same[i] = first[slot] - 1;
	}
	return 0;
}

/* ---- what stays packed ---- */

static bool writes(const struct plan_step *s, uint32_t slot) {
	for (unsigned i = 0; i < s->kernel->operands; i++)
		if (s->kernel->operand[i].output && s->operand[i].slot == slot)
			return true;
	return false;
}

static uint32_t key_words(const struct prepared_step *s) {
	return s->words + s->operands + 1;
}

/* Appends all that tells a step's work from that of another: all of the record but addresses, which are 0 in it. */
static void key_append(struct prepared_packed *k, const struct prepared_step *s) {
	uint64_t *to = k->key + k->words;

	memcpy(to, s->record, s->words * sizeof *to);
	for (uint32_t i = 0; i < s->operands; i++)
		to[s->words + i] = s->operand[i].add;
	to[s->words + s->operands] = s->items ? kernel_hash(s->kernel) : 0;
	k->words += key_words(s);
}

static int prepare_pack(struct prepared *p, const struct plan *plan, uint32_t slot) {
	struct prepared_packed *k = &p->packed[p->packs];
	uint32_t words = 0;

	for (uint32_t i = 0; i < plan->steps; i++)
		words += writes(&plan->step[i], slot) ? key_words(&p->step[i]) : 0;
	*k = (struct prepared_packed){ .slot = slot, .leaf = plan->slot[slot].packed_of };
	k->key = take(p, words, sizeof *k->key);
	if (!k->key)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->steps; i++) {
		if (!writes(&plan->step[i], slot))
			continue;
		key_append(k, &p->step[i]);
		p->step[i].pack = p->packs;
	}
	p->packs++;
	return 0;
}

static int prepare_packed(struct prepared *p, const struct plan *plan) {
	uint32_t count = 0;
	int r = 0;

	for (uint32_t i = 0; i < plan->steps; i++)
		p->step[i].pack = PLAN_NONE;
	for (uint32_t i = 0; i < plan->slots; i++)
		count += plan->slot[i].packed_of != PLAN_NONE;
	p->packed = take(p, count, sizeof *p->packed);
	if (!p->packed)
		return -ENOMEM;
	for (uint32_t i = 0; !r && i < plan->slots; i++)
		if (plan->slot[i].packed_of != PLAN_NONE)
			r = prepare_pack(p, plan, i);
	return r;
}

/* Nobody waits for the plan's own kernels then. */
static bool is_stood_in(struct exec *x, struct plan *plan) {
	struct prepared *p;
	struct plan *generic;
	struct fault f;
	uint32_t step;

	if (x->later || x->interpreter_mode != INTERPRETER_AUTO || plan->generic || interpret_all_maps(plan))
		return false;
	generic = interpret_stand_in(x, plan);
	return generic && !prepare(x, generic, &p, &f) && !prepared_check(x, p, &step);
}

static int prepare_all(struct exec *x, struct prepared *p, const struct plan *plan) {
	int r;

	p->steps = plan->steps;
	p->step = take(p, plan->steps, sizeof *p->step);
	if (!p->step)
		return -ENOMEM;
	r = find_twins(p, plan);
	if (!r)
		r = find_moved(p, plan);
	for (uint32_t i = 0; i < plan->steps && !r; i++)
		r = prepare_step(x, p, plan, i);
	if (r)
		return r;
	r = prepare_packed(p, plan);
	if (r)
		return r;
	join_launches(p, plan);
	r = pack_temporaries(p, plan);
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
	p->stood_in = is_stood_in(x, plan);
	r = prepare_all(x, p, plan);
	if (r == FAULT_INTERNAL)
		return fault_set(
			f, r, "a plan names memory, scalars or elements that do not exist; please report it");
	if (r)
		return r == -ENOSPC ? -ENOMEM : r;
	*preparedp = plan->prepared = p;
	plan->release = prepared_release;
	p = NULL;
	return 0;
}

/* Is there nothing left for an interpreter to do, but what it always does? */
static bool is_built(const struct prepared *p) {
	for (uint32_t i = 0; i < p->steps; i++)
		if (p->step[i].program && program_state(p->step[i].program) == PROGRAM_BUILDING)
			return false;
	return true;
}

int exec_ready(struct exec *x, struct plan *plan, bool soon) {
	struct prepared *p;
	struct fault f;
	uint32_t step;
	int r;

	/* Who asks has another plan to run. */
	x->later = true;
	x->soon = soon;
	r = prepare(x, plan, &p, &f);
	x->later = false;
	if (!r)
		r = prepared_check(x, p, &step);
	if (!r && !is_built(p))
		r = -EAGAIN;
	/* Where memory is short, the next look tries again. */
	return r < 0 ? -EAGAIN : r;
}

/* 0, -EAGAIN, or a fault, as prepared_check(). */
static int check_step(struct exec *x, struct prepared_step *s) {
	struct fault f;
	int r;

	interpret_retry(x, s);
	if (!s->items || (interpret_ready(x, s) && !(x->interpreter_mode == INTERPRETER_SWAP && s->program)))
		return 0;
	/* Both are there before a run begins: where it swaps depends on nothing else. */
	if (x->interpreter_mode == INTERPRETER_SWAP && s->code && !interpret_failed(x, s) && !interpret_ready(x, s))
		return -EAGAIN;
	/* Where memory is short, the next look tries again. */
	if (!s->program && interpret_failed(x, s) && device_program(x->device, s->kernel, &s->program))
		return -EAGAIN;
	if (!s->program || program_state(s->program) == PROGRAM_BUILDING)
		return -EAGAIN;
	if (program_state(s->program) != PROGRAM_FAILED)
		return 0;
	r = device_program_lacks(s->program, &f);
	return r ? r : FAULT_BUILD;
}

int prepared_check(struct exec *x, struct prepared *p, uint32_t *stepp) {
	int r = 0;

	while (!r && p->ready < p->steps) {
		*stepp = p->ready;
		r = check_step(x, &p->step[p->ready]);
		p->ready += !r;
	}
	return r;
}

/*
 * Memory of a run: its temporaries, what it reads, what it writes.
 *
 * All of it is taken before the first step is launched, or none: where runs that are launched in part hold what is
 * missing, the run waits for them. Where nobody does and its arrays still do not fit the device together, each step
 * has its own arrays there while it is launched and the others may move to the host between two steps
 * (residence.c); so a run needs no more than the largest of its steps. One run at a time goes that way: none
 * of those that go can then keep another from what it needs.
 *
 * Where results lie in arenas, places that were found are kept while the run waits for an arena for the rest: what is asked for is what
 * is missing. Where that is refused all of its results go into one arena, once those that are empty have gone: so what is left of
 * arrays before it keeps no run from places that it would find alone.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/memory.h"
#include "protocol/limits.h"

/* ---- what a run may reach ---- */

static bool leaf_reaches(const struct run *r, const struct prepared_operand *o) {
	const struct buffer *b = r->leaf[o->slot];
	int64_t offset = (int64_t)r->leaf_offset[o->slot], low, end;

	if (o->low > o->high)
		return true;
	if (__builtin_add_overflow(offset, o->low, &low) || __builtin_add_overflow(offset, o->high, &end))
		return false;
	return low >= 0 && (uint64_t)end < b->bytes / o->bytes;
}

/* The last line of defence: no kernel may be pointed outside the arrays it was given. */
static bool check_reach(const struct run *r) {
	for (uint32_t i = 0; i < r->prepared->steps; i++) {
		const struct prepared_step *s = &r->prepared->step[i];

		for (uint32_t k = 0; k < s->operands; k++)
			if (s->operand[k].slot < r->leaves && !leaf_reaches(r, &s->operand[k]))
				return false;
	}
	return true;
}

/* ---- all of it ---- */

/* Not a view of a leaf, and not the twin of an output before it. */
static bool is_own_output(const struct run *r, uint32_t i) {
	return r->prepared->same[i] == i && r->plan->output[i].slot >= r->leaves;
}

/* Is the run's result asked for already? What the lane holds next of other runs is not looked through. */
static bool goes_to_client(const struct run *r, const struct buffer *b) {
	for (const struct item *i = r->item.next; i && i->kind != ITEM_RUN; i = i->next)
		if (i->kind == ITEM_PUBLISH && i->buffer == b)
			return true;
	return false;
}

/* A small array that only comes from the host, or only goes there, need not be copied. */
static bool stays_small(const struct run *r, uint32_t slot) {
	return !r->space->exec->flat && r->prepared->moved[slot] <= EXEC_REACH_BYTES;
}

static int take_output(struct run *r, struct buffer *b, uint32_t slot) {
	int e;

	/* It was found before the run had to wait. */
	if (b->space->exec->flat && b->arena) {
		r->base[slot] = b->address;
		return 0;
	}
	if (stays_small(r, slot) && goes_to_client(r, b) && buffer_take_reached(b, &r->base[slot]))
		return 0;
	e = buffer_take(b);
	r->base[slot] = b->address;
	return e;
}

/* *missingp: bytes, where it fails; here as below. */
static int take_what_fits(struct run *r, uint64_t *missingp) {
	int e = 0;

	for (uint32_t i = 0; !e && i < r->outputs; i++) {
		*missingp = r->output[i]->bytes;
		if (is_own_output(r, i))
			e = take_output(r, r->output[i], r->plan->output[i].slot);
	}
	return e;
}

static void untake_outputs(const struct run *r) {
	for (uint32_t i = 0; i < r->outputs; i++)
		if (is_own_output(r, i))
			buffer_untake(r->output[i]);
}

/* What an output that has no place yet will take. */
static uint64_t output_bytes(const struct run *r, uint32_t i) {
	uint64_t bytes = r->output[i]->bytes;

	if (!is_own_output(r, i) || r->output[i]->arena || bytes > LIMIT_ARRAY_BYTES)
		return 0;
	return (bytes + LIMIT_ALIGNMENT - 1) & ~(uint64_t)(LIMIT_ALIGNMENT - 1);
}

static int ask_for_outputs(struct run *r, uint64_t missing) {
	uint64_t rest = 0;

	for (uint32_t i = 0; i < r->outputs; i++)
		rest += output_bytes(r, i);
	return space_ask(r->space, &r->item, r->in_one ? rest : missing, rest);
}

static int take_outputs(const struct exec *x, struct run *r, uint64_t *missingp) {
	int e;

	while ((e = take_what_fits(r, missingp)) == -ENOSPC && x->flat) {
		if (r->in_one)
			untake_outputs(r);
		e = ask_for_outputs(r, *missingp);
		if ((e == -ENOMEM || e == -ENOBUFS) && !r->in_one) {
			r->in_one = true;
			untake_outputs(r);
			e = ask_for_outputs(r, *missingp);
		}
		if (e)
			break;
	}
	return e;
}

static int settle_leaves(struct run *r, uint64_t *missingp) {
	for (uint32_t i = 0; i < r->leaves; i++) {
		int e;

		if (stays_small(r, i) && buffer_reach(r->leaf[i], &r->base[i]))
			continue;
		e = buffer_settle(r->leaf[i]);
		*missingp = r->leaf[i]->bytes;
		if (e)
			return e;
		r->base[i] = r->leaf[i]->address;
	}
	return 0;
}

static int take_scratch(struct exec *x, struct run *r, uint64_t *missingp) {
	const struct prepared *p = r->prepared;
	int e = p->scratch ? scratch_take(x, p->scratch, &r->scratch) : 0;

	*missingp = p->scratch;
	for (uint32_t s = r->leaves; !e && s < p->slots; s++)
		if (!r->plan->slot[s].output && r->plan->slot[s].packed_of == PLAN_NONE)
			r->base[s] = r->scratch.address + p->place[s];
	return e;
}

/* What no client holds. */
static int take_private(struct exec *x, struct run *r, uint64_t *missingp) {
	int e = packed_bind(x, r);

	*missingp = 0;
	return e ? e : take_scratch(x, r, missingp);
}

static void give_private(struct exec *x, struct run *r) {
	packed_release(x, r, r->step == r->prepared->steps);
	scratch_give(x, &r->scratch);
}

static int bind_whole(struct exec *x, struct run *r, uint64_t *missingp) {
	int e;

	residence_hold(r);
	e = take_private(x, r, missingp);
	if (!e)
		e = settle_leaves(r, missingp);
	if (!e)
		e = take_outputs(x, r, missingp);
	if (!e) {
		x->holding++;
		return 0;
	}
	/* Its leaves stay where they are. */
	give_private(x, r);
	if (e != -EAGAIN)
		untake_outputs(r);
	residence_release(r);
	return e == -ENOSPC && x->holding ? -EAGAIN : e;
}

/* ---- step by step ---- */

static int bind_by_steps(struct exec *x, struct run *r, uint64_t *missingp) {
	int e = x->stepwise ? -EAGAIN : take_private(x, r, missingp);

	if (e) {
		give_private(x, r);
		return e;
	}
	x->stepwise = r->stepwise = true;
	r->together = false;
	return 0;
}

/* NULL: no array, but a temporary. */
static struct buffer *array_of(const struct run *r, uint32_t slot) {
	if (slot < r->leaves)
		return r->leaf[slot];
	for (uint32_t i = 0; i < r->outputs; i++)
		if (r->plan->output[i].slot == slot)
			return r->output[i];
	return NULL;
}

/* A part of an output may have been written by an earlier step, and have moved to the host since. */
static int bring(struct run *r, uint32_t slot, struct buffer *b) {
	bool fresh = slot >= r->leaves && !b->taken && !b->hosted;
	int e = fresh ? buffer_take(b) : buffer_settle(b);

	if (!e && slot >= r->leaves)
		b->hosted = false;
	r->base[slot] = b->address;
	return e;
}

/* Arrays that a step names twice count once. */
static uint64_t step_bytes(const struct run *r, const struct prepared_step *s) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < s->operands; i++) {
		const struct buffer *b = array_of(r, s->operand[i].slot);
		uint32_t k = 0;

		while (k < i && array_of(r, s->operand[k].slot) != b)
			k++;
		if (b && k == i)
			bytes += b->bytes;
	}
	return bytes;
}

uint32_t run_oversized(const struct exec *x, const struct run *r) {
	uint64_t room, all = 0;

	if (x->flat)
		return PLAN_NONE;
	room = device_room(x->device);
	for (uint32_t i = 0; i < r->leaves; i++)
		all += r->leaf[i]->bytes;
	for (uint32_t i = 0; i < r->outputs; i++)
		all += r->output[i]->bytes;
	for (uint32_t i = 0; all > room && i < r->prepared->steps; i++)
		if (step_bytes(r, &r->prepared->step[i]) > room)
			return i;
	return PLAN_NONE;
}

uint64_t run_step_bytes(const struct run *r, uint32_t step) {
	return step_bytes(r, &r->prepared->step[step]);
}

int step_bind(struct exec *x, struct run *r) {
	const struct prepared_step *s = &r->prepared->step[r->step];
	struct buffer *b;
	int e = 0;

	for (uint32_t i = 0; i < s->operands; i++)
		if ((b = array_of(r, s->operand[i].slot)))
			b->held++;
	for (uint32_t i = 0; !e && i < s->operands; i++)
		if ((b = array_of(r, s->operand[i].slot)))
			e = bring(r, s->operand[i].slot, b);
	if (!e)
		return 0;
	step_release(r, r->step);
	if (e == -ENOSPC && x->holding)
		return -EAGAIN;
	r->item.sorrow = sorrow_of_error(r->space, e, b->bytes);
	return e;
}

void step_release(const struct run *r, uint32_t step) {
	const struct prepared_step *s = &r->prepared->step[step];
	struct buffer *b;

	for (uint32_t i = 0; i < s->operands; i++)
		if ((b = array_of(r, s->operand[i].slot)))
			b->held--;
}

/* ---- either ---- */

int run_bind(struct exec *x, struct run *r, struct sorrow **sorrowp) {
	uint64_t missing = 0;
	int e;

	if (!check_reach(r)) {
		*sorrowp = sorrow_set(
			FAULT_INTERNAL, "an operation reaches outside its array; please report it");
		return 0;
	}
	free(r->base);
	r->base = memory_zeroed((r->prepared->slots + 1u) * sizeof *r->base);
	e = r->base ? bind_whole(x, r, &missing) : -ENOMEM;
	if (e == -ENOSPC && r->prepared->steps > 1)
		e = bind_by_steps(x, r, &missing);
	if (e == -EAGAIN)
		return e;
	space_forgo(&r->item);
	if (e) {
		*sorrowp = sorrow_of_error(r->space, e, missing);
		return 0;
	}
	for (uint32_t i = 0; i < r->outputs; i++)
		if (r->output[i]->state == BUFFER_PENDING)
			buffer_writing(r->output[i]);
	r->bound = true;
	x->partial++;
	return 0;
}

void run_unbind(struct exec *x, struct run *r) {
	if (!r->bound)
		return;
	r->bound = false;
	x->partial--;
	give_private(x, r);
	if (r->stepwise) {
		x->stepwise = false;
		return;
	}
	x->holding--;
	residence_release(r);
}

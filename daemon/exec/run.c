/*
 * A run: one plan over one set of arrays.
 *
 * It waits, without blocking anybody but its own lane, until its leaves have values and all its
 * programs are built; a program that failed has its step cut in two, and waiting goes on with the new
 * plan. Then memory is taken, all of it or none, and steps are launched (launch.c); where the device has enough to do it
 * stops between two steps and goes on later. With the last step launched it lets go of its
 * leaves and temporaries: what is launched later may have their memory.
 *
 * A run that cannot go on fails alone: its outputs are poisoned with the reason.
 */
#include "state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/base/memory.h"

enum {
	/* Of a build's log, in the sentence. */
	RUN_LOG_TEXT = 200,
};

/* ---- submission ---- */

static struct run *run_alloc(const struct plan *p) {
	size_t words = p->leaves + p->scalars, pointers = p->leaves + p->outputs;
	struct run *r = memory_zeroed(sizeof *r + words * sizeof(uint64_t) + pointers * sizeof(void *));

	if (!r)
		return NULL;
	r->leaf_offset = (uint64_t *)(r + 1);
	r->scalar = r->leaf_offset + p->leaves;
	r->leaf = (struct buffer **)(r->scalar + p->scalars);
	r->output = r->leaf + p->leaves;
	r->leaves = p->leaves;
	r->outputs = p->outputs;
	return r;
}

static void run_free(struct run *r) {
	for (uint32_t i = 0; i < r->leaves; i++)
		buffer_unref(r->leaf[i]);
	for (uint32_t i = 0; i < r->outputs; i++)
		buffer_unref(r->output[i]);
	space_unref(r->space);
	plan_unref(r->plan);
	timing_free(r->timing);
	sorrow_unref(r->item.sorrow);
	free(r->base);
	free(r->packed);
	free(r);
}

static void run_freep(struct run **rp) {
	if (*rp)
		run_free(*rp);
}

/* An output is a leaf seen otherwise, the twin of an earlier output, or new. */
static int make_output(struct run *r, uint32_t i) {
	uint32_t slot = r->plan->output[i].slot, twin = r->prepared->same[i];

	if (slot < r->leaves)
		r->output[i] = buffer_ref(r->leaf[slot]);
	else if (twin != i)
		r->output[i] = buffer_ref(r->output[twin]);
	else
		return buffer_new(r->space, r->plan->slot[slot].bytes, &r->output[i]);
	return 0;
}

static int fill_run(struct run *r, const struct exec_request *q) {
	int e = 0;

	for (uint32_t i = 0; i < r->leaves; i++) {
		r->leaf[i] = buffer_ref(q->leaf[i]);
		r->leaf_offset[i] = q->leaf_offset ? q->leaf_offset[i] : 0;
	}
	for (uint32_t i = 0; i < q->plan->scalars; i++)
		r->scalar[i] = q->scalar[i];
	for (uint32_t i = 0; i < r->outputs && !e; i++)
		e = make_output(r, i);
	return e;
}

/* Runs another plan of the same results; NULL: its own. What that takes says nothing of the plan. */
static void take_stand_in(struct run *r, struct plan *p) {
	if (!p)
		return;
	for (uint32_t i = 0; i < r->plan->steps; i++)
		plan_step_ran(&r->plan->step[i], PLAN_TIER_GENERIC);
	plan_unref(r->plan);
	r->plan = plan_ref(p);
	r->timed = NULL;
}

/* One more launch of each step that has to wait, or do with bytecode; `forgone`: alone of those that nobody else wants any more. */
static void want_programs(struct exec *x, const struct prepared *p, bool forgone) {
	for (uint32_t i = 0; i < p->steps && device_building(x->device); i++)
		if (p->step[i].program && (!forgone || device_forgone(x->device, p->step[i].program)))
			device_want(x->device, p->step[i].program, !p->stood_in && !interpret_ready(x, &p->step[i]));
}

/*
 * For tests: another run of a plan goes on by its own programs from another step on, as if they had been built then; the next
 * one is of generic kernels altogether.
 */
static int swap_next(struct exec *x, struct run *r, struct fault *f) {
	struct prepared *p = r->prepared;
	uint32_t turn = p->turn++ % (p->steps + 2);

	for (uint32_t i = 0; i < p->steps; i++)
		p->step[i].by_code = i < turn;
	if (turn <= p->steps)
		return 0;
	take_stand_in(r, interpret_stand_in(x, r->plan));
	return prepare(x, r->plan, &r->prepared, f);
}

static int new_run(struct exec *x, struct lane *l, const struct exec_request *q, struct run **runp) {
	CLEANUP(run_freep) struct run *r = run_alloc(q->plan);
	struct fault f;
	int e;

	if (!r)
		return -ENOMEM;
	r->item = (struct item){ .kind = ITEM_RUN, .lane = l, .done = q->done, .user = q->user };
	r->timed = q->timed;
	r->together = q->together && !q->alone;
	r->alone = q->alone;
	r->note = q->note;
	r->progress = q->progress;
	r->last = q->last;
	r->source = q->source;
	if (q->timeout_us)
		r->deadline_ns = loop_now_ns() + UINT64_C(1000) * q->timeout_us;
	r->plan = plan_ref(q->plan);
	r->space = space_ref(q->space);
	if (x->interpreter_mode == INTERPRETER_ALWAYS)
		take_stand_in(r, interpret_stand_in(x, r->plan));
	e = prepare(x, r->plan, &r->prepared, &f);
	if (!e && x->interpreter_mode == INTERPRETER_SWAP)
		e = swap_next(x, r, &f);
	if (e > 0)
		r->item.sorrow = sorrow_new(&f);
	else if (e)
		return e;
	else
		e = fill_run(r, q);
	if (e < 0)
		return e;
	if (!e)
		prepared_ask(x, r->prepared);
	if (!e)
		want_programs(x, r->prepared, false);
	*runp = r;
	r = NULL;
	return 0;
}

/* A plan that is not sound: placeholders, so that the caller has what it expects, poisoned. */
static int placeholders(struct run *r) {
	for (uint32_t i = 0; i < r->outputs; i++) {
		int e = buffer_new(r->space, 0, &r->output[i]);

		if (e)
			return e;
		buffer_poison(r->output[i], r->item.sorrow);
	}
	return 0;
}

int exec_submit(struct exec *x, struct lane *l, const struct exec_request *q, struct buffer **bufferp) {
	CLEANUP(run_freep) struct run *r = NULL;
	int e = new_run(x, l, q, &r);

	if (!e && r->item.sorrow)
		e = placeholders(r);
	if (e)
		return e;
	for (uint32_t i = 0; i < r->outputs; i++)
		bufferp[i] = buffer_ref(r->output[i]);
	x->counters.runs++;
	x->deadlines += r->deadline_ns != 0;
	l->timeouts += r->deadline_ns != 0;
	lane_append(l, &r->item);
	r = NULL;
	if (!x->gathering)
		schedule(x);
	if (!x->gathering)
		exec_mark(x);
	return 0;
}

/* ---- waiting ---- */

/* 0, -EAGAIN while a leaf's own run is not launched; *sorrowp where one has no value. */
static int check_leaves(const struct run *r, struct sorrow **sorrowp) {
	for (uint32_t i = 0; i < r->leaves; i++)
		if (r->leaf[i]->state == BUFFER_POISONED) {
			*sorrowp = sorrow_ref(r->leaf[i]->sorrow);
			return 0;
		}
	for (uint32_t i = 0; i < r->leaves; i++)
		if (r->leaf[i]->state == BUFFER_PENDING)
			return -EAGAIN;
	if (r->space->gone)
		*sorrowp = sorrow_set(FAULT_LOST, "the session of the operations has ended");
	return 0;
}

static void append_log(struct fault *f, const char *log) {
	struct fault whole = *f;

	fault_set(f, whole.code, "%.*s: %.*s", LIMIT_SENTENCE / 2, whole.text,
		(int)strcspn(log, "\n") < RUN_LOG_TEXT ? (int)strcspn(log, "\n") : RUN_LOG_TEXT, log);
}

/* The step's program did not build: the plan with that step cut in two takes this plan's place. */
static int run_split(struct exec *x, struct run *r, uint32_t step, struct fault *f) {
	struct plan *cut;
	int e = plan_split(r->plan, step, device_traits(x->device), &cut, f);

	if (e == FAULT_BUILD)
		append_log(f, program_log(r->prepared->step[step].program));
	if (e)
		return e;
	plan_estimate(cut, device_traits(x->device));
	x->counters.kernels_split++;
	if (x->plans)
		plan_cache_replace(x->plans, r->plan, cut);
	plan_unref(r->plan);
	r->plan = cut;
	return prepare(x, cut, &r->prepared, f);
}

/* 0 where generic kernels, which are all built, take the place of the plan's own; else -EAGAIN. */
static int run_stand_in(struct exec *x, struct run *r) {
	struct plan *p = x->interpreter_mode == INTERPRETER_AUTO ? interpret_stand_in(x, r->plan) : NULL;
	struct prepared *prepared;
	struct fault f;
	uint32_t step;

	/* Where memory is short, the next look tries again. */
	if (!p || prepare(x, p, &prepared, &f) || prepared_check(x, prepared, &step))
		return -EAGAIN;
	r->prepared->stood_in = true;
	take_stand_in(r, p);
	r->prepared = prepared;
	return 0;
}

/* 0, -EAGAIN while programs are built; *sorrowp where one cannot be. */
static int check_programs(struct exec *x, struct run *r, struct sorrow **sorrowp) {
	struct fault f = { 0 };
	uint32_t step;
	int e;

	while ((e = prepared_check(x, r->prepared, &step)) == FAULT_BUILD) {
		e = run_split(x, r, step, &f);
		if (!e)
			continue;
		*sorrowp = e > 0 ? sorrow_new(&f) : sorrow_set(FAULT_MEMORY, "the daemon's memory is used up");
		return 0;
	}
	if (e > 0) {
		e = device_program_lacks(r->prepared->step[step].program, &f);
		if (e > 0)
			*sorrowp = sorrow_new(&f);
		return e > 0 ? 0 : -EAGAIN;
	}
	if (e == -EAGAIN)
		want_programs(x, r->prepared, true);
	return e == -EAGAIN ? run_stand_in(x, r) : e;
}

/* ---- the end ---- */

/* What else waits for them is looked at after this, and wants them again. */
static void forgo_programs(struct exec *x, const struct run *r) {
	const struct prepared *p = r->prepared;

	for (uint32_t i = 0; p && !r->bound && i < p->steps && device_building(x->device); i++)
		if (p->step[i].program)
			x->look_again |= device_forgo(x->device, p->step[i].program);
}

/* Lets go of everything but the outputs' places in the caller's hands. */
static void run_release(struct exec *x, struct run *r) {
	run_unbind(x, r);
	space_forgo(&r->item);
	for (uint32_t i = 0; i < r->leaves; i++) {
		if (r->leaf[i])
			buffer_used(r->leaf[i], r->item.sequence);
		r->leaf[i] = buffer_unref(r->leaf[i]);
	}
	for (uint32_t i = 0; i < r->outputs; i++)
		r->output[i] = buffer_unref(r->output[i]);
	if (r->deadline_ns) {
		x->deadlines--;
		if (r->item.lane)
			r->item.lane->timeouts--;
	}
	r->prepared = NULL;
	r->space = space_unref(r->space);
}

void run_end(struct exec *x, struct run *r, struct sorrow *s) {
	r->item.sequence = ++x->sequence;
	forgo_programs(x, r);
	if (!r->item.sorrow)
		r->item.sorrow = sorrow_ref(s);
	for (uint32_t i = 0; i < r->outputs; i++)
		if (r->output[i] && r->output[i]->state == BUFFER_PENDING)
			buffer_poison(r->output[i], r->item.sorrow);
	run_release(x, r);
}

static void run_complete(struct exec *x, struct run *r) {
	r->item.sequence = ++x->sequence;
	for (uint32_t i = 0; i < r->outputs; i++) {
		struct buffer *b = r->output[i];

		if (b->state != BUFFER_PENDING)
			continue;
		b->state = BUFFER_READY;
		b->written = r->item.sequence;
		buffer_noted(b, b->written);
	}
	run_release(x, r);
}

/* A kernel of several operations whose arrays cannot be on the device together is cut until they can. */
static int check_sizes(struct exec *x, struct run *r, struct sorrow **sorrowp) {
	struct fault f = { 0 };
	uint32_t step;
	int e = 0;

	while (!e && !*sorrowp && (step = run_oversized(x, r)) != PLAN_NONE) {
		e = run_split(x, r, step, &f);
		if (!e)
			e = check_programs(x, r, sorrowp);
		else if (e == FAULT_BUILD)
			*sorrowp = sorrow_set(FAULT_MEMORY, "the arrays of one operation, %" PRIu64 " bytes, are more than the device has room for: " DEVICE_MEMORY_LIMIT,
				run_step_bytes(r, step), device_room(x->device));
		else
			*sorrowp = sorrow_of_error(r->space, -ENOMEM, 0);
	}
	return e > 0 ? 0 : e;
}

static bool awaits_memory(const struct run *r) {
	return r->item.asked && space_awaits(r->item.asked);
}

/* Who goes alone waits until the device has nothing; until it is done, what is not begun waits. But others go on while its memory is on its way. */
static int wait_alone(struct exec *x, const struct run *r) {
	if (x->loner && x->loner != r)
		return -EAGAIN;
	if (!r->alone)
		return 0;
	if (awaits_memory(r))
		return -EAGAIN;
	x->loner = r;
	return x->partial || x->completed < x->sequence ? -EAGAIN : 0;
}

static int bind(struct exec *x, struct run *r, struct sorrow **sorrowp) {
	int e = run_bind(x, r, sorrowp);

	/* What waited for it is looked at again. */
	if (e == -EAGAIN && x->loner == r && awaits_memory(r)) {
		x->loner = NULL;
		x->look_again = true;
	}
	return e;
}

int run_ready(struct exec *x, struct run *r) {
	struct sorrow *s = NULL;
	int e;

	if (r->item.sorrow)
		return r->item.sorrow->fault.code;
	/* Looked at again where the run was stopped halfway: a session may have ended meanwhile. */
	e = check_leaves(r, &s);
	if (!e && !s && !r->bound)
		e = check_programs(x, r, &s);
	if (!e && !s && !r->bound)
		e = check_sizes(x, r, &s);
	if (!e && !s && !r->bound)
		e = wait_alone(x, r);
	if (!e && !s && !r->bound)
		e = bind(x, r, &s);
	if (!s)
		return e;
	r->item.sorrow = s;
	return s->fault.code;
}

/* What was launched of a run that waits is with the device, and is heard of. */
static void run_pause(struct exec *x, struct run *r) {
	struct item *slice;

	if (!r->item.cost_ns)
		return;
	slice = calloc(1, sizeof *slice);
	if (slice) {
		*slice = (struct item){ .kind = ITEM_SLICE, .lane = r->item.lane, .sequence = ++x->sequence,
			.cost_ns = r->item.cost_ns, .contended_ns = r->item.contended_ns, .charged = r->item.charged, .user = r };
		x->busy++;
		exec_launched(x, slice);
		if (x->long_ns && slice->cost_ns >= x->long_ns)
			exec_mark(x);
	} else {
		schedule_passed(x, &r->item);
	}
	/* Each part is settled by what it took itself: the last one's estimate may be wrong by another factor than that of the rest. */
	r->item.cost_ns = r->item.contended_ns = r->item.charged = 0;
}

/* 0, or -EAGAIN and -EBUSY where it is to go on later. */
static int run_conclude(struct exec *x, struct run *r, int e) {
	struct sorrow *s;

	if (e == -EAGAIN || e == -EBUSY) {
		run_pause(x, r);
		return e;
	}
	if (!e) {
		run_complete(x, r);
		return 0;
	}
	s = sorrow_of_error(r->space, e, 0);
	run_end(x, r, s);
	sorrow_unref(s);
	return 0;
}

static int crew_launch(struct exec *x, struct run *const *crew, uint32_t n) {
	int e = 0;

	while (!e && crew[0]->step < crew[0]->prepared->steps)
		e = launch_together(x, crew, n);
	for (uint32_t i = 0; i < n; i++)
		run_conclude(x, crew[i], e);
	return e == -EAGAIN ? e : 0;
}

int runs_launch(struct exec *x, struct run *const *crew, uint32_t n) {
	struct run *r = crew[0];

	if (n > 1)
		return crew_launch(x, crew, n);
	return run_conclude(x, r, r->timed && !r->step && !r->went ? launch_timed(x, r) : launch_steps(x, r));
}

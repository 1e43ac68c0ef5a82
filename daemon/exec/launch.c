/*
 * Launches: records of tasks, and what goes to the device together.
 *
 * A step, or several of one plan that run the same program, is a launch; one that takes long goes in slices, each some of
 * its items. A launch may do the work of several runs, a task or more each. Runs of one plan go step by step together. Runs
 * of different plans go together where all that is left of each is one launch of the same program, or of the same interpreter: an
 * interpreter's tasks may each have bytecode of their own, and a program serves all sizes. A task's record is made of its own
 * run's memory alone, so runs know nothing of each other.
 */
#include "state.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "daemon/base/loop.h"

_Static_assert(KERNEL_WORD_DIMS + KERNEL_RANK + KERNEL_OPERANDS * (1 + KERNEL_RANK) + KERNEL_SCALARS <=
		       EXEC_LAUNCH_WORDS,
	"a launch has room for the longest record");

enum {
	/*
	 * Groups that a task of another plan may have more or less than the first one's: a launch has as many as its largest task, and
	 * one that ends at once costs some 0.1 us, a launch by itself 10 us of several threads.
	 */
	LAUNCH_IDLE_GROUPS = 16,
};

/* ---- records ---- */

static void fill_record(const struct run *r, const struct prepared_step *s, bool interpreted, uint64_t *record) {
	memcpy(record, s->record, s->words * sizeof *record);
	if (interpreted)
		interpret_cut(s, record);
	for (uint32_t i = 0; i < s->operands; i++) {
		const struct prepared_operand *o = &s->operand[i];
		uint64_t offset = o->slot < r->leaves ? r->leaf_offset[o->slot] * o->bytes : 0;

		record[o->word] = r->base[o->slot] + o->add + offset;
	}
	for (uint32_t i = 0; i < s->scalars; i++)
		record[s->scalar[i].word] = r->scalar[s->scalar[i].number];
}

/* What a launch consists of so far. */
struct load {
	uint32_t runs, tasks;
	uint32_t words;                       /* of the records */
	uint32_t image;                       /* at most, where an interpreter runs them: words of the tasks, the records and the code */
	uint64_t items;                       /* of the largest task */
	uint64_t began_ns;
};

static const struct prepared_step *next_step(const struct run *r) {
	return &r->prepared->step[r->step];
}

/* The end of the launch that begins with the run's next step; asks each step of it. */
static uint32_t launch_end(const struct run *r) {
	const struct prepared *p = r->prepared;
	uint32_t end = r->step + 1;

	while (!r->stepwise && end < p->steps && p->step[end].first == r->step)
		end++;
	return end;
}

/* Records of the steps up to `end`. Those that would pack what is packed already are left out. */
static void fill_records(struct exec *x, const struct run *r, uint32_t end, struct load *l) {
	const struct prepared_step *s = r->prepared->step;

	for (uint32_t i = r->step; i < end; i++) {
		if (packed_there(r, i))
			continue;
		fill_record(r, &s[i], r->interpreted, x->record + l->words);
		x->task[l->tasks++] = &s[r->step];
		l->words += s[i].words;
	}
}

/* ---- slices ---- */

/* What the best program that is ready would launch; a step that was begun goes on with the program it began with. */
static struct slice whole_step(const struct exec *x, struct run *r, uint32_t end) {
	const struct prepared_step *s = next_step(r);

	if (!r->went)
		r->interpreted = s->items && interpret_chosen(x, s);
	return (struct slice){ .items = r->interpreted ? interpret_items(s, end - r->step) : s->items, .whole = true };
}

/*
 * How long a slice of the next step takes, where it is to be one; else 0. What is timed goes as it is, while nobody waits longer for it than
 * the device may be silent.
 */
static uint64_t slice_ns(const struct exec *x, const struct run *r, uint32_t end) {
	uint64_t ns = schedule_step_ns(r, r->step);

	if (end != r->step + 1 || !r->prepared->step[r->step].divisible || r->stepwise || x->time_kernels)
		return 0;
	if (x->slice_ns && (x->lanes > 1 || r->alone) && !r->timing && ns > x->slice_ns)
		return x->slice_ns;
	return x->long_ns && ns > x->long_ns ? x->long_ns : 0;
}

/* As many items as take about so long, the same number for every compute unit; or all that are left. */
static struct slice next_slice(const struct exec *x, const struct run *r, uint32_t end, uint64_t all) {
	uint64_t units = device_traits(x->device)->units, most = all, ns = slice_ns(x, r, end);

	if (ns) {
		most = (uint64_t)((double)all * (double)ns / (double)schedule_step_ns(r, r->step));
		most = most > units ? most - most % units : units;
	}
	if (most > all - r->went)
		most = all - r->went;
	return (struct slice){ .first = r->went, .items = most, .whole = most == all };
}

/* ---- a launch ---- */

static void trace_launch_of(const struct run *r, uint32_t tasks, uint64_t begin_ns, uint64_t end_ns) {
	struct trace_event *e = trace_add(TRACE_LAUNCH, &r->source, begin_ns, end_ns);
	uint32_t end = launch_end(r);
	bool room = true;

	e->number[0] = tasks;
	for (uint32_t i = r->step; i < end; i++) {
		const struct plan_step *s = &r->plan->step[i];

		e->number[1] += s->ops;
		for (uint32_t k = 0; room && k < s->ops; k++)
			room = trace_word(e, op_info(r->plan->node[s->op[k]].op)->name);
	}
}

static bool source_told(struct run *const *crew, uint32_t k) {
	uint32_t i = 0;

	while (crew[i]->source.session != crew[k]->source.session)
		i++;
	return i < k;
}

/* Each session that has a part in the launch is told of it. */
static void trace_launch(struct exec *x, struct run *const *crew, const struct load *l, uint64_t begin_ns) {
	uint64_t first = trace_count(), end_ns = loop_now_ns();
	const struct run *r = crew[0];

	for (uint32_t k = 0; k < l->runs; k++)
		if (!source_told(crew, k))
			trace_launch_of(crew[k], l->tasks, begin_ns, end_ns);
	if (x->timeline)
		timeline_launched(x, r->interpreted ? "bytecode" : kernel_root_name(r->plan->step[r->step].kernel), first,
			(unsigned)(trace_count() - first), begin_ns);
}

/* Runs of a plan follow each other where they were met so; it counts once for them. */
static void count_launch(struct exec *x, struct run *const *crew, const struct load *l) {
	bool mixed = false;

	x->counters.interpreted += crew[0]->interpreted ? l->tasks : 0;
	for (uint32_t k = 0; k < l->runs; k++) {
		const struct run *r = crew[k];
		uint32_t end = k && r->plan == crew[k - 1]->plan ? r->step : launch_end(r);

		mixed |= r->plan != crew[0]->plan;
		for (uint32_t i = r->step; i < end; i++)
			plan_step_ran(&r->plan->step[i], r->interpreted ? PLAN_TIER_CODE : PLAN_TIER_OWN);
	}
	x->counters.mixed_launches += mixed;
}

static uint64_t groups(const struct prepared_step *s, bool interpreted) {
	return interpreted ? s->code->launch.items / s->code->launch.local : s->items / s->local;
}

/*
 * What it takes to wake the threads of a driver that computes on processors, each on its own, and to hear that they are done; what it takes to
 * have helper threads (device/claim.c) claim with this thread.
 */
#define WAKES_NS 50e3
#define CLAIM_NS 20e3

/* Launches in a row of one lane, after which no other is taken to be at work. */
enum { CLAIM_IN_A_ROW = 16 };

enum way {
	WAY_FAR,                              /* to the driver's threads */
	WAY_NEAR,                             /* on this one */
	WAY_CLAIMED,                          /* on this one and helper threads */
};

/* What is timed is timed by the driver's queue. */
static bool may_be_near(const struct exec *x, const struct run *r, const struct slice *p) {
	return x->near_ns && !r->interpreted && !r->timing && !x->time_kernels && !x->timeline && p->whole && !p->first;
}

/* Whose launches they are. */
static void note_lane(struct exec *x, struct run *const *crew, const struct load *l) {
	const struct lane *lane = l->runs == 1 ? crew[0]->item.lane : NULL;

	x->in_a_row = lane && lane == x->last ? x->in_a_row + 1 : 0;
	x->last = lane;
}

/* Has another lane something to launch, or had it lately? Then its client has work for a processor. */
static bool others_work(const struct exec *x, const struct run *r) {
	uint32_t count = 0;

	if (r->item.lane != x->last || x->in_a_row < CLAIM_IN_A_ROW)
		return true;
	for (unsigned i = 0; i < LANE_PRIORITIES; i++)
		count += x->ready[i].count;
	return count;
}

/* What a launch takes of one unit, as estimated and by what it did take lately, and how many units may share it. */
struct effort {
	double estimate, one, busy;
};

static struct effort effort_of(const struct exec *x, struct run *const *crew, const struct load *l) {
	double units = device_traits(x->device)->units, ns = 0, took = 0, busy;

	busy = fmin((double)(groups(next_step(crew[0]), false) * l->tasks), units);
	for (uint32_t k = 0; k < l->runs; k++) {
		uint32_t end = launch_end(crew[k]);

		for (uint32_t i = crew[k]->step; i < end; i++) {
			ns += schedule_estimate_ns(crew[k], i);
			took += (double)schedule_step_ns(crew[k], i);
		}
	}
	return (struct effort){ .estimate = ns * busy, .one = fmax(ns * busy, took), .busy = busy };
}

/* Is it worth to call others? By the estimate: on a busy machine all takes long, and calling more threads makes that longer. */
static bool claims_pay(const struct exec *x, const struct run *r, const struct effort *e) {
	double parties = fmin(e->busy, device_helpers(x->device) + 1.0), shared = e->one / parties + CLAIM_NS;

	return parties > 1 && e->estimate - e->estimate / parties > CLAIM_NS && shared < (double)x->near_ns && shared < e->one / e->busy + WAKES_NS &&
		!others_work(x, r);
}

/* The one that takes least, if this thread is not held up by it for longer than near_ns; several sessions' runs are done by one processor alone. */
static enum way way_of(const struct exec *x, struct run *const *crew, const struct load *l, const struct slice *p) {
	struct effort e;

	if (!may_be_near(x, crew[0], p))
		return WAY_FAR;
	e = effort_of(x, crew, l);
	if (l->runs == 1 && claims_pay(x, crew[0], &e))
		return WAY_CLAIMED;
	return e.one < (double)x->near_ns && (l->runs > 1 || e.one - e.one / e.busy < WAKES_NS) ? WAY_NEAR : WAY_FAR;
}

static int launch_program(struct exec *x, struct run *const *crew, const struct load *l, const struct slice *p) {
	const struct prepared_step *s = next_step(crew[0]);
	enum way way = way_of(x, crew, l, p);
	int e = -EAGAIN;

	if (way == WAY_NEAR)
		e = device_launch_near(x->device, s->program, x->record, l->tasks, p->items, s->local);
	else if (way == WAY_CLAIMED)
		e = device_launch_claimed(x->device, s->program, x->record, l->tasks, p->items);
	x->ran_here |= !e;
	return e != -EAGAIN ? e : device_launch(x->device, s->program, x->record, l->tasks, p->items, s->local);
}

static int launch_records(struct exec *x, struct run *const *crew, const struct load *l, const struct slice *p) {
	const struct run *r = crew[0];
	int e;

	if (!l->tasks)
		return 0;
	slice_mark(p, x->record);
	if (r->interpreted)
		e = interpret_launch(x, l->tasks, l->words, p);
	else
		e = launch_program(x, crew, l, p);
	if (e)
		return e;
	note_lane(x, crew, l);
	if (trace_on)
		trace_launch(x, crew, l, l->began_ns);
	x->counters.slices += !p->whole;
	if (!p->first)
		count_launch(x, crew, l);
	return 0;
}

static bool same_program(const struct exec *x, const struct prepared_step *a, const struct prepared_step *b) {
	bool interpreted = interpret_chosen(x, a);

	if (interpreted != interpret_chosen(x, b))
		return false;
	if (interpreted ? a->code->dialect != b->code->dialect : a->program != b->program || a->local != b->local)
		return false;
	return groups(a, interpreted) <= groups(b, interpreted) + LAUNCH_IDLE_GROUPS &&
	       groups(b, interpreted) <= groups(a, interpreted) + LAUNCH_IDLE_GROUPS;
}

bool launch_joins(const struct exec *x, const struct run *a, const struct run *b) {
	if (a->prepared == b->prepared)
		return a->step == b->step;
	if (a->step >= a->prepared->steps || launch_end(a) < a->prepared->steps)
		return false;
	if (b->step >= b->prepared->steps || launch_end(b) < b->prepared->steps)
		return false;
	return next_step(a)->items && next_step(b)->items && same_program(x, next_step(a), next_step(b));
}

/* Is there room for the run's tasks, and its bytecode? Counts them in then. */
static bool has_room(struct load *l, const struct run *r, const struct run *before) {
	const struct prepared_step *s = next_step(r);
	uint32_t tasks = launch_end(r) - r->step, words = tasks * s->words, image = tasks + words;

	if (r->interpreted && (!before || s->code != next_step(before)->code))
		image += s->code->words;
	if (before && (l->words + words > EXEC_LAUNCH_WORDS || (r->interpreted && l->image + image > EXEC_IMAGE_WORDS)))
		return false;
	l->image += image;
	return true;
}

/* Those of the runs, from the first on, that join it and fit one launch. */
static void fill_load(struct exec *x, struct run *const *crew, uint32_t n, struct load *l) {
	const struct run *before = NULL;

	for (; l->runs < n; l->runs++) {
		struct run *r = crew[l->runs];
		struct slice all = whole_step(x, r, launch_end(r));

		if ((before && !launch_joins(x, crew[0], r)) || !has_room(l, r, before))
			return;
		l->items = all.items > l->items ? all.items : l->items;
		fill_records(x, r, launch_end(r), l);
		run_noted(r);
		before = r;
	}
}

/* A launch of one run, or of those of several that go with the first; *l says which. What has no items needs none. */
static int launch(struct exec *x, struct run *const *crew, uint32_t n, struct slice p, struct load *l) {
	*l = (struct load){ .runs = n };
	if (!next_step(crew[0])->items)
		return 0;
	l->runs = 0;
	fill_load(x, crew, n, l);
	if (n > 1)
		p.items = l->items;
	l->began_ns = loop_now_ns();
	return launch_records(x, crew, l, &p);
}

/* A part of what the steps cost. */
static void charge(struct exec *x, struct run *r, uint32_t first, uint32_t end, double part, uint64_t began_ns) {
	uint64_t ns = 0;

	for (uint32_t i = first; i < end; i++)
		ns += schedule_step_ns(r, i);
	schedule_charge(x, &r->item, 1 + (uint64_t)((double)ns * part), began_ns);
}

/* Waits for the launch, for its time. */
static int time_steps(struct exec *x, const struct run *r, uint32_t first, uint32_t end, uint32_t tasks) {
	const struct timing_launch l = { NULL, first, end, tasks };
	double ns;
	int e = device_time(x->device, &ns);

	if (!e)
		timing_tell_steps(r->plan, &l, ns, device_traits(x->device)->rates.launch_ns);
	return e;
}

/* Steps [r->step, end), as one launch, or the next slice of one step. */
static int launch_to(struct exec *x, struct run *r, uint32_t end) {
	struct slice all = whole_step(x, r, end), p = next_slice(x, r, end, all.items);
	struct load l;
	int e = launch(x, &r, 1, p, &l);
	uint32_t tasks = l.tasks;

	if (e)
		return e;
	if (tasks)
		charge(x, r, r->step, end, (double)p.items / (double)all.items, l.began_ns);
	r->went += p.items;
	if (r->timing && !p.whole)
		r->timing = timing_free(r->timing);
	if (tasks && r->went < all.items)
		return 0;
	r->went = 0;
	x->counters.steps += tasks;
	/* What an interpreter takes says nothing of the plan. */
	if (r->timing && tasks && plan_step_interpreted(&r->plan->step[r->step]))
		r->timing = timing_free(r->timing);
	if (r->timing && tasks && !timing_launched(r->timing, x->device, r->step, end, tasks))
		r->timing = timing_free(r->timing);
	if (x->time_kernels && tasks && !plan_step_interpreted(&r->plan->step[r->step]))
		e = time_steps(x, r, r->step, end, tasks);
	if (!e)
		r->step = end;
	return e;
}

static int launch_step(struct exec *x, struct run *r) {
	uint32_t step = r->step;
	int e;

	if (!r->stepwise)
		return launch_to(x, r, launch_end(r));
	e = step_bind(x, r);
	if (e)
		return e;
	e = launch_to(x, r, launch_end(r));
	step_release(r, step);
	return e;
}

/* The device is to be heard of before it has had so much: long silence is what tells one that hangs. */
static bool is_long(const struct exec *x, const struct run *r) {
	return r->went && x->long_ns && r->item.cost_ns >= x->long_ns;
}

int launch_steps(struct exec *x, struct run *r) {
	int e = 0;

	while (!e && r->step < r->prepared->steps) {
		e = launch_step(x, r);
		if (!e && !r->timing && r->step < r->prepared->steps && (schedule_pauses(x) || is_long(x, r)))
			e = -EBUSY;
	}
	return e;
}

int launch_together(struct exec *x, struct run *const *crew, uint32_t n) {
	struct load l;

	for (uint32_t i = 0; i < n; i += l.runs) {
		struct slice all = whole_step(x, crew[i], launch_end(crew[i]));
		int e = launch(x, crew + i, n - i, all, &l);

		if (e)
			return e;
		x->counters.steps += l.tasks;
		for (uint32_t k = i; k < i + l.runs; k++) {
			uint32_t end = launch_end(crew[k]);

			if (l.tasks)
				charge(x, crew[k], crew[k]->step, end, 1, l.began_ns);
			crew[k]->step = end;
		}
	}
	return 0;
}

int launch_timed(struct exec *x, struct run *r) {
	int e;

	r->timing = timing_new(r->plan);
	if (r->timing && device_timed(x->device, true))
		r->timing = timing_free(r->timing);
	e = launch_steps(x, r);
	if (e)
		r->timing = timing_free(r->timing);
	return device_timed(x->device, x->timeline != NULL) ? -EIO : e;
}

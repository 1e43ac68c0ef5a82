/*
 * Whose run is launched next.
 *
 * Lanes with a run to launch stand in a heap for each priority, by the device's time they were given so far,
 * divided by their weight: the one that had least is next, and one that comes back after a rest begins where the
 * others are, so that nobody saves up. A higher priority goes first, but where a lower one was not served for
 * SCHEDULE_AGEING_NS it gets a turn.
 *
 * The device is given little more than it needs to stay busy. What waits meanwhile can be overtaken, and
 * runs that are met waiting for the same program become tasks of one launch (launch.c): a crew. So a run that was begun
 * pauses between two launches where those that wait would wait long; what takes long is launched in slices.
 *
 * Where launches run on this thread, requests that came meanwhile are heard before the next one is launched.
 *
 * A lane that is empty for the moment in which its client thinks keeps its turn (await.c): nobody is launched in its place who
 * would go behind the run that is about to come.
 *
 * Lanes of one group, a user's, are charged as many times as there are busy ones among them, so that together they get
 * what one lane gets. A group with a limit owes time for what it used, and none of its runs is launched before that has passed.
 *
 * What a run costs is estimated from its plan, and charged when it is launched. When the device tells that it
 * has passed, the time since it was last heard of is shared among what ran, by these estimates, and the lanes
 * are charged that instead; the plan's next estimate is better for it.
 */
#include "state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "daemon/base/loop.h"

enum {
	/* A lower priority is not served for so long at most. */
	SCHEDULE_AGEING_NS = 50 * 1000 * 1000,
	/*
	 * Runs that take less than so many times what it costs to wait for the device are worth holding back while it
	 * has something to do: those that arrive meanwhile share their launch. On a GPU that has 16 clients with small requests this is
	 * a quarter more of them (launches are what its thread does most); with few clients, or on a CPU, it is nothing either way.
	 */
	SCHEDULE_SMALL = 8,
	/* With the device at most, else: bounds how long others wait. */
	SCHEDULE_SLICE_NS = 1000 * 1000,
	/* A launch of which nothing is known. */
	SCHEDULE_UNKNOWN_NS = 10 * 1000,
	/* Runs of one launch. More save nothing: a launch costs as much as some microseconds of work. */
	SCHEDULE_CREW = 32,
	/* Lanes that are looked at for another one of the same plan. */
	SCHEDULE_LOOKS = 128,
	/* How often lanes are looked through for runs whose time is over. */
	SCHEDULE_EXPIRE_MS = 2,
	/* An estimate is worth so much against one measurement. */
	SCHEDULE_MEMORY = 8,
};

/* An estimate is believed to be wrong by no more; and what one run tells by no more: it may have been the first. */
#define SCHEDULE_SCALE_MOST 64.0
#define SCHEDULE_FACTOR_MOST 4.0

/* ---- the heaps ---- */

static bool before(const struct lane *a, const struct lane *b) {
	return a->charged < b->charged || (a->charged == b->charged && a->asked < b->asked);
}

static void put(struct ready *q, uint32_t at, struct lane *l) {
	q->lane[at] = l;
	l->place = at;
}

static void rise(struct ready *q, uint32_t at, struct lane *l) {
	for (; at && before(l, q->lane[(at - 1) / 2]); at = (at - 1) / 2)
		put(q, at, q->lane[(at - 1) / 2]);
	put(q, at, l);
}

static void sink(struct ready *q, uint32_t at, struct lane *l) {
	for (uint32_t child; (child = 2 * at + 1) < q->count; at = child) {
		if (child + 1 < q->count && before(q->lane[child + 1], q->lane[child]))
			child++;
		if (!before(q->lane[child], l))
			break;
		put(q, at, q->lane[child]);
	}
	put(q, at, l);
}

static struct ready *ready_of(struct lane *l) {
	return &l->exec->ready[l->share.priority];
}

static void enter(struct lane *l) {
	struct ready *q = ready_of(l);

	if (!q->count)
		q->served_ns = loop_now_ns();
	l->state = LANE_READY;
	l->asked = ++l->exec->asked;
	rise(q, q->count++, l);
}

static void leave(struct lane *l) {
	struct ready *q = ready_of(l);
	uint32_t at = l->place;
	struct lane *last = q->lane[--q->count];

	l->state = LANE_IDLE;
	if (last == l)
		return;
	rise(q, at, last);
	sink(q, last->place, last);
}

static void block(struct lane *l) {
	struct exec *x = l->exec;

	l->state = LANE_BLOCKED;
	l->previous = NULL;
	l->next = x->blocked;
	if (l->next)
		l->next->previous = l;
	x->blocked = l;
}

static void unblock(struct lane *l) {
	if (l->next)
		l->next->previous = l->previous;
	if (l->previous)
		l->previous->next = l->next;
	else
		l->exec->blocked = l->next;
	l->state = LANE_IDLE;
}

void schedule_remove(struct lane *l) {
	if (l->state == LANE_READY)
		leave(l);
	else if (l->state == LANE_BLOCKED)
		unblock(l);
}

int schedule_reserve(struct exec *x) {
	for (unsigned p = 0; p < LANE_PRIORITIES; p++) {
		struct ready *q = &x->ready[p];
		struct lane **lane;

		if (x->lanes < q->capacity)
			continue;
		lane = realloc(q->lane, 2 * (size_t)(x->lanes + 1) * sizeof(struct lane *));
		if (!lane)
			return -ENOMEM;
		q->lane = lane;
		q->capacity = 2 * (x->lanes + 1);
	}
	return 0;
}

void schedule_free(struct exec *x) {
	for (unsigned p = 0; p < LANE_PRIORITIES; p++)
		free(x->ready[p].lane);
}

/* ---- what a run costs ---- */

static double step_estimate(const struct plan_step *s) {
	if (s->measured_ns > 0)
		return s->measured_ns;
	return s->estimate_ns > 0 ? s->estimate_ns : SCHEDULE_UNKNOWN_NS;
}

double schedule_estimate_ns(const struct run *r, uint32_t step) {
	return step_estimate(&r->plan->step[step]);
}

uint64_t schedule_step_ns(const struct run *r, uint32_t step) {
	double scale = r->prepared->scale;

	return 1 + (uint64_t)(step_estimate(&r->plan->step[step]) * (scale > 0 ? scale : 1));
}

/* Of its steps that are not launched; beyond `most` it is not counted. */
static uint64_t rest_ns(const struct run *r, uint64_t most) {
	uint64_t ns = 0;

	for (uint32_t i = r->step; i < r->prepared->steps && ns < most; i++)
		ns += schedule_step_ns(r, i);
	return ns;
}

static uint64_t weighed(const struct lane *l, uint64_t ns) {
	uint32_t together = l->group && l->group->busy ? l->group->busy : 1;

	return ns * LANE_WEIGHT / l->share.weight * together;
}

static void note_held(struct exec *x, uint64_t began_ns) {
	uint64_t now = loop_now_ns(), from = began_ns > x->held_until_ns ? began_ns : x->held_until_ns;

	x->held_ns += now - from;
	x->held_until_ns = now;
}

void schedule_charge(struct exec *x, struct item *i, uint64_t ns, uint64_t began_ns) {
	note_held(x, began_ns);
	if (!x->launched_ns)
		x->launched_ns = began_ns;
	if (!x->ahead_ns)
		x->alone = i->lane;
	else if (x->alone != i->lane)
		x->alone = NULL;
	i->cost_ns += ns;
	i->contended_ns += x->contended ? ns : 0;
	x->ahead_ns += ns;
	if (!i->lane)
		return;
	i->charged += weighed(i->lane, ns);
	i->lane->charged += weighed(i->lane, ns);
}

void schedule_passed(struct exec *x, const struct item *i) {
	x->ahead_ns -= i->cost_ns;
}

/* Between 1 / most and most. */
static double limited(double factor, double most) {
	return fmin(fmax(factor, 1 / most), most);
}

/* The last part of a run was estimated to take so long, and took that: by what factor the plan's estimates were wrong, all parts together. */
static void learn(struct run *r, uint64_t cost_ns, uint64_t took_ns) {
	struct prepared *p = r->plan ? r->plan->prepared : NULL;
	double scale, factor = (double)(r->parts_took_ns + took_ns) / (double)(r->parts_cost_ns + cost_ns);

	if (!p)
		return;
	scale = p->scale > 0 ? p->scale : 1;
	factor = limited(factor, SCHEDULE_FACTOR_MOST);
	p->scale = limited(scale + scale * (factor - 1) / SCHEDULE_MEMORY, SCHEDULE_SCALE_MOST);
}

static void group_used(struct lane_group *g, uint64_t ns) {
	g->device_ns += ns;
	if (g->percent >= 100)
		return;
	if (g->owed_ns <= 0) {
		g->owed_ns = 0;
		g->since_ns = loop_now_ns();
	}
	g->owed_ns += (double)ns * 100 / g->percent;
}

/* Time passes for nothing where a group owes none: it does not save up. */
static bool group_owes(struct lane_group *g) {
	uint64_t now;

	if (!g || g->owed_ns <= 0)
		return false;
	now = loop_now_ns();
	g->owed_ns -= (double)(now - g->since_ns);
	g->since_ns = now;
	return g->owed_ns > 0;
}

/* The run of a slice is behind it: in its lane, or in the flight. */
static void settle_part(const struct item *i, uint64_t ns) {
	struct run *r = i->user;

	r->parts_cost_ns += i->cost_ns;
	r->parts_took_ns += ns;
}

static void settle_item(struct item *i, double factor) {
	struct lane *l = i->lane;
	uint64_t ns = (uint64_t)((double)i->cost_ns * factor);
	bool ready;

	if (i->kind == ITEM_RUN)
		learn((struct run *)i, i->cost_ns, ns);
	if (!l)
		return;
	if (i->kind == ITEM_SLICE)
		settle_part(i, ns);
	l->usage.device_ns += ns;
	l->usage.contended_ns += (uint64_t)((double)i->contended_ns * factor);
	l->exec->counters.device_ns += ns;
	if (l->group)
		group_used(l->group, ns);
	ready = l->state == LANE_READY;
	if (ready)
		leave(l);
	l->charged = (l->charged > i->charged ? l->charged - i->charged : 0) + (uint64_t)((double)i->charged * factor);
	if (ready)
		enter(l);
}

void schedule_settle(struct exec *x, uint64_t after, uint64_t began_ns, uint64_t ended_ns) {
	uint64_t cost = 0, from = x->heard_ns > began_ns ? x->heard_ns : began_ns;
	struct item *first = x->flight, *i;

	if (ended_ns < from)
		ended_ns = from;
	while (first && first->sequence <= after)
		first = first->next;
	for (i = first; i && i->sequence <= x->completed; i = i->next)
		cost += i->cost_ns;
	x->counters.busy_ns += cost ? ended_ns - from : 0;
	for (i = first; i && i->sequence <= x->completed; i = i->next)
		if (i->cost_ns)
			settle_item(i, (double)(ended_ns - from) / (double)cost);
	x->heard_ns = ended_ns;
}

/* ---- choosing ---- */

/* The lane that is next, or NULL. */
static struct lane *choose(struct exec *x) {
	struct ready *q = NULL;
	uint64_t now = 0;

	for (unsigned p = LANE_PRIORITIES; p-- > 0;) {
		struct ready *other = &x->ready[p];

		if (!other->count)
			continue;
		if (!q) {
			q = other;
			continue;
		}
		now = now ? now : loop_now_ns();
		if (now - other->served_ns > SCHEDULE_AGEING_NS)
			q = other;
	}
	return q ? q->lane[0] : NULL;
}

/* Would the run that the awaited lane's client is about to ask for be launched before the other's? */
static bool goes_before(struct lane *awaited, const struct lane *l) {
	const struct ready *q = &l->exec->ready[l->share.priority];

	if (group_owes(awaited->group))
		return false;
	if (awaited->share.priority != l->share.priority)
		return awaited->share.priority > l->share.priority && loop_now_ns() - q->served_ns <= SCHEDULE_AGEING_NS;
	return awaited->charged + weighed(awaited, await_work_ns(awaited)) <= l->charged;
}

static struct run *head_run(const struct lane *l) {
	return (struct run *)l->first;
}

static uint64_t wait_ns(const struct exec *x) {
	return (uint64_t)device_traits(x->device)->rates.wait_ns;
}

static bool is_small(const struct exec *x, const struct run *r) {
	uint64_t most = SCHEDULE_SMALL * wait_ns(x);

	return rest_ns(r, most) < most;
}

static uint64_t ahead_most(const struct exec *x, const struct lane *l) {
	const struct run *r = head_run(l);

	return x->alone == l || !r->together || !is_small(x, r) ? SCHEDULE_SLICE_NS : wait_ns(x);
}

static bool has_room(const struct exec *x, const struct lane *l) {
	return !x->ahead_ns || x->ahead_ns < ahead_most(x, l);
}

bool schedule_pauses(const struct exec *x) {
	return x->ahead_ns >= SCHEDULE_SLICE_NS;
}

static bool fits(const struct exec *x, const struct run *leader, const struct run *r) {
	return r->together && !r->timed && !r->item.sorrow && !r->went && !r->stepwise && launch_joins(x, leader, r);
}

/* Binds others that wait for a launch that the first one's can do with it; how many there are with that one. */
static uint32_t gather(struct exec *x, struct run **crew) {
	const struct run *leader = crew[0];
	struct ready *q = &x->ready[leader->item.lane->share.priority];
	uint64_t sum, most;
	uint32_t n = 1;

	if (!leader->together || leader->timed || leader->went || leader->stepwise || x->time_kernels || !q->count)
		return 1;
	sum = rest_ns(leader, SCHEDULE_SLICE_NS);
	/* Who has had much more of its part does not get a seat in others' launches instead of a turn. */
	most = leader->item.lane->charged + SCHEDULE_SLICE_NS;
	for (uint32_t i = 0; i < q->count && i < SCHEDULE_LOOKS && n < SCHEDULE_CREW; i++) {
		struct run *r = head_run(q->lane[i]);
		uint64_t ns = rest_ns(r, SCHEDULE_SLICE_NS);

		if (sum + ns > SCHEDULE_SLICE_NS || q->lane[i]->charged > most)
			continue;
		if (!fits(x, leader, r) || group_owes(q->lane[i]->group) || run_ready(x, r) || !fits(x, leader, r))
			continue;
		crew[n++] = r;
		sum += ns;
	}
	return n;
}

static void empty(struct lane *l) {
	l->state = LANE_IDLE;
	await_begin(l);
	lane_rests(l);
}

/* What needs no launch goes at once; then back to where it waits. */
static void go_on(struct lane *l) {
	while (l->first && !lane_advance(l))
		exec_launched(l->exec, lane_pop(l));
	if (!l->first)
		empty(l);
	else if (l->first->kind == ITEM_RUN)
		enter(l);
	else
		block(l);
}

/* What a crew was launched of: their items are told when their numbers have passed. */
static void crew_went(struct exec *x, struct run **crew, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		struct lane *l = crew[i]->item.lane;

		if (l->state == LANE_READY)
			leave(l);
		exec_launched(x, lane_pop(l));
	}
	/* What follows a run has a higher number than all of the crew. */
	for (uint32_t i = 0; i < n; i++)
		go_on(crew[i]->item.lane);
}

static void count_crew(struct exec *x, struct run **crew, uint32_t n) {
	if (n < 2)
		return;
	x->counters.shared_launches++;
	x->counters.shared_runs += n;
	for (uint32_t i = 0; i < n; i++)
		crew[i]->item.lane->usage.shared++;
}

/* Its first launch. */
static void note_wait(struct exec *x, struct run *r) {
	if (!r->added_ns)
		return;
	histogram_add(&x->counters.waited, loop_now_ns() - r->added_ns);
	r->added_ns = 0;
}

/* Does another lane want the device? The one that is served is in no heap, and not awaited. */
static bool is_contended(const struct exec *x) {
	for (unsigned p = 0; p < LANE_PRIORITIES; p++)
		if (x->ready[p].count)
			return true;
	return await_any(x);
}

static void serve_lane(struct exec *x, struct lane *l) {
	struct run *crew[SCHEDULE_CREW] = { head_run(l) };
	struct ready *q = ready_of(l);
	uint32_t n = 1, step = crew[0]->step;
	int e;

	leave(l);
	x->contended = is_contended(x);
	q->clock = l->charged;
	q->served_ns = loop_now_ns();
	if (group_owes(l->group)) {
		x->held_back = true;
		block(l);
		return;
	}
	e = run_ready(x, crew[0]);
	if (!e) {
		n = gather(x, crew);
		for (uint32_t i = 0; i < n; i++)
			note_wait(x, crew[i]);
		e = runs_launch(x, crew, n);
		if (!step)
			count_crew(x, crew, n);
	} else if (e > 0) {
		run_end(x, crew[0], crew[0]->item.sorrow);
		e = 0;
	}
	if (e == -EBUSY)
		enter(l);
	else if (e == -EAGAIN)
		block(l);
	else
		crew_went(x, crew, n);
}

/* A run that would go before all others may have been asked for while the last launch had this thread. */
static bool hears_first(struct exec *x) {
	if (!x->ran_here || x->lanes < 2 || !x->waits)
		return false;
	if (x->waits(x->waits_user))
		return true;
	x->silent_held_ns = x->held_ns;
	return false;
}

void schedule(struct exec *x) {
	struct lane *l;

	x->await_until_ns = 0;
	await_look(x);
	while ((l = choose(x)) && has_room(x, l) && !await_holds(x, l, goes_before) && !hears_first(x)) {
		/* What was launched is heard of when it has passed, not when what takes long behind it has. */
		if (x->alone != l && !is_small(x, head_run(l)))
			exec_mark(x);
		serve_lane(x, l);
		if (x->look_again)
			schedule_retry(x);
	}
}

/* ---- what has changed meanwhile ---- */

/* Programs may be built, the ring may have room: those that waited for it are looked at again. */
void schedule_retry(struct exec *x) {
	struct lane *l = x->blocked, *next;

	x->held_back = x->look_again = false;
	for (; l; l = next) {
		next = l->next;
		unblock(l);
		go_on(l);
	}
}

/* What it did not use while it had nothing to do is gone, but for a client's moment to think. */
void schedule_added(struct lane *l) {
	if (l->state != LANE_IDLE)
		return;
	if (!await_end(l) && l->charged < ready_of(l)->clock)
		l->charged = ready_of(l)->clock;
	go_on(l);
}

/* Heads that failed meanwhile go at once. */
static void stir(struct lane *l) {
	schedule_remove(l);
	go_on(l);
}

static uint32_t expire(struct lane *l, uint64_t now) {
	uint32_t count = 0;

	for (struct item *i = l->first; i; i = i->next) {
		const struct run *r = (const struct run *)i;

		if (i->kind != ITEM_RUN || i->sorrow || r->bound || !r->deadline_ns || r->deadline_ns > now)
			continue;
		i->sorrow = sorrow_set(FAULT_TIMEOUT,
			"the operations were not begun within fusion.timeout_us after they were asked for");
		count++;
	}
	l->exec->counters.expired += count;
	return count;
}

void schedule_expire(struct exec *x) {
	int64_t ms = exec_now_ms();
	uint64_t now;

	if (!x->deadlines || ms - x->expired_ms < SCHEDULE_EXPIRE_MS)
		return;
	x->expired_ms = ms;
	now = loop_now_ns();
	for (struct lane *l = x->lane; l; l = l->all_next)
		if (l->first && l->timeouts && expire(l, now))
			stir(l);
}

uint32_t schedule_cancel(struct lane *l) {
	struct sorrow *s = sorrow_set(FAULT_CANCELLED, "the operations were cancelled before they were begun");
	uint32_t count = 0;

	for (struct item *i = l->first; i; i = i->next) {
		if (i->kind != ITEM_RUN || i->sorrow || ((struct run *)i)->bound)
			continue;
		i->sorrow = sorrow_ref(s);
		count++;
	}
	sorrow_unref(s);
	if (count)
		stir(l);
	return count;
}

void schedule_set(struct lane *l, const struct lane_share *share) {
	const struct exec *x = l->exec;
	bool ready = l->state == LANE_READY;

	if (ready)
		leave(l);
	/* Each priority has a clock of its own; what it had beyond that of the others it has there, too. */
	if (l->share.priority != share->priority) {
		uint64_t clock = ready_of(l)->clock, beyond = l->charged > clock ? l->charged - clock : 0;

		l->charged = x->ready[share->priority].clock + beyond;
	}
	l->share = *share;
	if (ready)
		enter(l);
}

/*
 * In which order the steps of a plan run, so that little memory is alive at once.
 *
 * Steps are made in order of rank: all that can be computed first, first. Where branches are alike - the heads of attention, the blocks of a
 * network, forward and back - that order keeps something of each branch alive until the last one has come as far. So other orders are
 * tried, and the one with the lowest peak is taken; the first one, where none is lower:
 *
 *   recorded   as the client has recorded the last operation of each: it mostly goes through one branch after the other
 *   begun      by the first operation of each, which is of its branch also where the last one is what joins all branches
 *   least      always the step that takes least memory and gives back most
 *
 * Nothing that somebody measures may change but the peak: what a step computes is its own, and steps that would be one
 * launch (exec/prepare.c) stay side by side. The steps of one group of operations do so, too: others know them by that (compare.c).
 */
#include "planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* What takes less than this in all is short on no device, and stays as it was made. */
	ORDER_LEAST_BYTES = 1 << 20,
	/* Trying takes steps times those that could be next: of many only the first ones that were recorded are looked at closely. */
	ORDER_UNITS = 1 << 11,
	ORDER_CHOICE = 16,
};

/* Steps that stay together. */
struct unit {
	uint32_t first, count;
	uint32_t begun, recorded;             /* the first operation of it and the last one, as the client recorded them */
	uint32_t waits;                       /* for so many others */
	uint32_t after;                       /* list of those that wait for it */
};

/* In lists that grow at the head: units by what they wait for, touches by slot. */
struct link {
	uint32_t unit, next;
};

struct links {
	struct link *link;
	uint32_t count, capacity;
};

struct order {
	struct plan *plan;
	struct plan_step *made;               /* the steps in the order in which they were made */
	struct unit *unit;
	uint32_t units;
	uint32_t *of_step;                    /* a step's unit */
	uint32_t *writers, *readers;          /* lists, by slot */
	struct links links;
	/* while one order is made */
	uint32_t *waits, *ready, *uses, *next;
	uint32_t readies, placed;
	bool *alive;
};

/* Which of those that are ready is next: its place among them. */
typedef uint32_t way_to_choose(const struct order *o);

/* ---- who waits for whom ---- */

static int link_put(struct links *l, uint32_t *list, uint32_t unit) {
	if (l->count == l->capacity) {
		uint32_t capacity = l->capacity ? 2 * l->capacity : 256;
		struct link *link = realloc(l->link, capacity * sizeof *link);

		if (!link)
			return -ENOMEM;
		l->link = link;
		l->capacity = capacity;
	}
	l->link[l->count] = (struct link){ unit, *list };
	*list = l->count++;
	return 0;
}

static int waits_for(struct order *o, uint32_t list, uint32_t unit) {
	int r = 0;

	for (; !r && list != PLAN_NONE; list = o->links.link[list].next) {
		uint32_t before = o->links.link[list].unit;

		if (before == unit)
			continue;
		r = link_put(&o->links, &o->unit[before].after, unit);
		o->unit[unit].waits += !r;
	}
	return r;
}

/* Parts of one array lie side by side. */
static int touch(struct order *o, uint32_t unit, uint32_t slot, bool writes) {
	int r = 0;

	if (!writes || !o->plan->slot[slot].parts)
		r = waits_for(o, o->writers[slot], unit);
	if (!r && writes)
		r = waits_for(o, o->readers[slot], unit);
	return r ? r : link_put(&o->links, writes ? &o->writers[slot] : &o->readers[slot], unit);
}

static int link_step(struct order *o, uint32_t step) {
	const struct plan_step *s = &o->made[step];
	int r = 0;

	for (unsigned i = 0; !r && i < s->kernel->operands; i++)
		if (s->operand[i].slot != PLAN_NONE)
			r = touch(o, o->of_step[step], s->operand[i].slot, s->kernel->operand[i].output);
	return r;
}

static int link_all(struct order *o) {
	int r = 0;

	for (uint32_t i = 0; i < o->plan->slots; i++)
		o->writers[i] = o->readers[i] = PLAN_NONE;
	for (uint32_t i = 0; i < o->units; i++) {
		o->unit[i].waits = 0;
		o->unit[i].after = PLAN_NONE;
	}
	o->links.count = 0;
	for (uint32_t i = 0; !r && i < o->plan->steps; i++)
		r = link_step(o, i);
	return r;
}

/* ---- units ---- */

static void note_ops(struct unit *u, const struct plan_step *s) {
	for (uint32_t i = 0; i < s->ops; i++) {
		u->begun = s->op[i] < u->begun ? s->op[i] : u->begun;
		u->recorded = s->op[i];
	}
}

/* Steps before one that names operations are of the same ones. */
static void group_steps(struct order *o) {
	bool begins = true;

	o->units = 0;
	for (uint32_t i = 0; i < o->plan->steps; i++) {
		if (begins)
			o->unit[o->units++] = (struct unit){ .first = i, .begun = PLAN_NONE, .recorded = PLAN_NONE };
		o->of_step[i] = o->units - 1;
		o->unit[o->units - 1].count++;
		note_ops(&o->unit[o->units - 1], &o->made[i]);
		begins = o->made[i].ops > 0;
	}
}

static bool waits_on(const struct order *o, uint32_t first, uint32_t end, uint32_t unit) {
	for (uint32_t u = first; u < end; u++)
		for (uint32_t l = o->unit[u].after; l != PLAN_NONE; l = o->links.link[l].next)
			if (o->links.link[l].unit == unit)
				return true;
	return false;
}

/* May a step be a task of the launch that begins with step `first`? As exec sees it, or more freely. */
static bool joins(const struct order *o, uint32_t first, uint32_t step, double ns) {
	uint32_t from = o->of_step[first], unit = o->of_step[step];

	return step != first && ns <= PLAN_LAUNCH_NS && kernel_equal(o->made[first].kernel, o->made[step].kernel) &&
		!waits_on(o, from, unit, unit);
}

/* Units that have a launch in common become one. */
static void join_units(struct order *o) {
	uint32_t *joined = o->ready, units = 0, first = 0;
	double ns = 0;

	for (uint32_t i = 0; i < o->plan->steps; i++) {
		uint32_t unit = o->of_step[i];
		bool side_by_side;

		ns += o->made[i].estimate_ns;
		side_by_side = joins(o, first, i, ns);
		if (!side_by_side) {
			first = i;
			ns = o->made[i].estimate_ns;
		}
		if (i == o->unit[unit].first)
			joined[unit] = side_by_side ? units - 1 : units++;
	}
	for (uint32_t i = 0; i < o->plan->steps; i++)
		o->of_step[i] = joined[o->of_step[i]];
}

static void collect_units(struct order *o) {
	uint32_t of = PLAN_NONE;

	o->units = 0;
	for (uint32_t i = 0; i < o->plan->steps; i++) {
		struct unit *u;

		if (o->of_step[i] != of)
			o->unit[o->units++] = (struct unit){ .first = i, .begun = PLAN_NONE, .recorded = PLAN_NONE };
		of = o->of_step[i];
		u = &o->unit[of];
		u->count++;
		note_ops(u, &o->made[i]);
	}
}

/* Copies that the planner added count as what reads them. */
static void find_recorded(struct order *o) {
	for (uint32_t i = o->units; i-- > 0;)
		for (uint32_t l = o->unit[i].after; l != PLAN_NONE; l = o->links.link[l].next) {
			const struct unit *after = &o->unit[o->links.link[l].unit];

			if (after->recorded < o->unit[i].recorded)
				o->unit[i].recorded = after->recorded;
			if (o->unit[i].begun == PLAN_NONE || o->unit[i].begun > o->unit[i].recorded)
				o->unit[i].begun = o->unit[i].recorded;
		}
}

static int find_units(struct order *o) {
	int r;

	group_steps(o);
	if (o->units > ORDER_UNITS)
		return 0;
	r = link_all(o);
	if (r)
		return r;
	join_units(o);
	collect_units(o);
	r = link_all(o);
	if (!r)
		find_recorded(o);
	return r;
}

/* ---- one order ---- */

static bool is_temporary(const struct order *o, uint32_t slot) {
	return slot != PLAN_NONE && slot >= o->plan->leaves && !o->plan->slot[slot].output;
}

/* What is alive more behind the unit than before it. Uses of a slot are counted by operands, so that none is seen twice. */
static int64_t growth(const struct order *o, uint32_t unit) {
	const struct unit *u = &o->unit[unit];
	int64_t bytes = 0;

	for (uint32_t i = u->first; i < u->first + u->count; i++)
		for (unsigned k = 0; k < o->made[i].kernel->operands; k++) {
			uint32_t slot = o->made[i].operand[k].slot;

			if (!is_temporary(o, slot))
				continue;
			if (!o->alive[slot] && o->made[i].kernel->operand[k].output)
				bytes += (int64_t)o->plan->slot[slot].bytes;
			if (o->alive[slot] && o->uses[slot] == 1)
				bytes -= (int64_t)o->plan->slot[slot].bytes;
		}
	return bytes;
}

static bool sooner_recorded(const struct order *o, uint32_t a, uint32_t b) {
	uint32_t x = o->unit[a].recorded, y = o->unit[b].recorded;

	return x != y ? x < y : a < b;
}

static uint32_t soonest_begun(const struct order *o) {
	uint32_t best = 0;

	for (uint32_t i = 1; i < o->readies; i++) {
		uint32_t a = o->unit[o->ready[i]].begun, b = o->unit[o->ready[best]].begun;

		if (a != b ? a < b : sooner_recorded(o, o->ready[i], o->ready[best]))
			best = i;
	}
	return best;
}

static uint32_t soonest_recorded(const struct order *o) {
	uint32_t best = 0;

	for (uint32_t i = 1; i < o->readies; i++)
		if (sooner_recorded(o, o->ready[i], o->ready[best]))
			best = i;
	return best;
}

/* Of the ORDER_CHOICE that were recorded first, in this order: `list` holds their places among those that are ready. */
static uint32_t first_recorded(const struct order *o, uint32_t list[static ORDER_CHOICE]) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < o->readies; i++) {
		uint32_t at = count;

		while (at && sooner_recorded(o, o->ready[i], o->ready[list[at - 1]]))
			at--;
		if (at == ORDER_CHOICE)
			continue;
		count += count < ORDER_CHOICE;
		memmove(&list[at + 1], &list[at], (count - at - 1) * sizeof *list);
		list[at] = i;
	}
	return count;
}

static uint32_t least_growing(const struct order *o) {
	uint32_t list[ORDER_CHOICE], best = 0, count = first_recorded(o, list);
	int64_t least = INT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		int64_t bytes = growth(o, o->ready[list[i]]);

		if (bytes >= least)
			continue;
		least = bytes;
		best = list[i];
	}
	return best;
}

static uint32_t choose(struct order *o, way_to_choose *way) {
	uint32_t best = way(o), unit = o->ready[best];

	o->ready[best] = o->ready[--o->readies];
	return unit;
}

static void count_uses(struct order *o, uint32_t unit, bool begin) {
	const struct unit *u = &o->unit[unit];

	for (uint32_t i = u->first; i < u->first + u->count; i++)
		for (unsigned k = 0; k < o->made[i].kernel->operands; k++) {
			uint32_t slot = o->made[i].operand[k].slot;

			if (!is_temporary(o, slot))
				continue;
			o->uses[slot] += begin ? 1 : UINT32_MAX;
			o->alive[slot] = !begin;
		}
}

static void place(struct order *o, uint32_t unit) {
	const struct unit *u = &o->unit[unit];

	memcpy(o->plan->step + o->placed, o->made + u->first, u->count * sizeof *o->made);
	o->placed += u->count;
	count_uses(o, unit, false);
	for (uint32_t l = u->after; l != PLAN_NONE; l = o->links.link[l].next)
		if (!--o->waits[o->links.link[l].unit])
			o->ready[o->readies++] = o->links.link[l].unit;
}

static void make_order(struct order *o, way_to_choose *way) {
	memset(o->uses, 0, o->plan->slots * sizeof *o->uses);
	o->placed = o->readies = 0;
	for (uint32_t i = 0; i < o->units; i++) {
		o->waits[i] = o->unit[i].waits;
		count_uses(o, i, true);
		if (!o->waits[i])
			o->ready[o->readies++] = i;
	}
	while (o->readies)
		place(o, choose(o, way));
	plan_lifetimes(o->plan);
}

/* ---- the best ---- */

static void choose_order(struct order *o) {
	way_to_choose *const way[] = { soonest_recorded, soonest_begun, least_growing };
	uint64_t least = o->plan->peak_bytes;
	way_to_choose *best = NULL;

	for (unsigned i = 0; i < sizeof way / sizeof *way; i++) {
		make_order(o, way[i]);
		if (o->plan->peak_bytes < least)
			best = way[i];
		least = best == way[i] ? o->plan->peak_bytes : least;
	}
	if (best == way[sizeof way / sizeof *way - 1])
		return;
	if (best) {
		make_order(o, best);
		return;
	}
	memcpy(o->plan->step, o->made, o->plan->steps * sizeof *o->made);
	plan_lifetimes(o->plan);
}

static int reserve(struct order *o, struct arena *a) {
	const struct plan *p = o->plan;

	o->made = arena_alloc(a, p->steps * sizeof *o->made);
	o->unit = arena_alloc(a, p->steps * sizeof *o->unit);
	o->of_step = arena_alloc(a, p->steps * sizeof *o->of_step);
	o->waits = arena_alloc(a, p->steps * sizeof *o->waits);
	o->ready = arena_alloc(a, p->steps * sizeof *o->ready);
	o->writers = arena_alloc(a, p->slots * sizeof *o->writers);
	o->readers = arena_alloc(a, p->slots * sizeof *o->readers);
	o->uses = arena_alloc(a, p->slots * sizeof *o->uses);
	o->alive = arena_alloc(a, p->slots * sizeof *o->alive);
	return o->made && o->unit && o->of_step && o->waits && o->ready && o->writers && o->readers && o->uses && o->alive ? 0 : -ENOMEM;
}

/* Memory of temporaries: what no order changes is no reason to try one. */
static uint64_t temporary_bytes(const struct plan *p) {
	uint64_t bytes = 0;

	for (uint32_t i = p->leaves; i < p->slots; i++)
		bytes += p->slot[i].output || p->slot[i].first == PLAN_NONE ? 0 : p->slot[i].bytes;
	return bytes;
}

int plan_order(struct plan *p, struct arena *a) {
	struct order o = { .plan = p };
	int r;

	if (p->steps < 3 || temporary_bytes(p) < ORDER_LEAST_BYTES)
		return 0;
	r = reserve(&o, a);
	if (r)
		return r;
	memcpy(o.made, p->step, p->steps * sizeof *o.made);
	r = find_units(&o);
	if (!r && o.units > 2 && o.units <= ORDER_UNITS)
		choose_order(&o);
	free(o.links.link);
	return r;
}

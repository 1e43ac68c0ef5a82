/*
 * Lanes whose client is about to ask again.
 *
 * A client that waits for each result leaves its lane empty for the moment between an answer and the next request. Were the device
 * given to others in each such moment, two clients would take turns whatever their weights and priorities. So a lane that has
 * launched all it had is awaited: another one that must not go before it (schedule.c says when) is held back, and the device rests.
 *
 * That pays where the client comes back soon. Its time to think, from the end of its last run to the next request, is learned, and so
 * is what it has the device do in between: a lane is awaited while the first is not above the second, so by itself it would keep the device
 * busy for half of the time. Who does not come is waited for no longer than AWAIT_MOST_NS, and that counts as a long thought.
 */
#include "state.h"

#include "daemon/base/loop.h"

enum {
	/* Of one moment. A launch of what is held back may take as long as this, so that waiting costs no more than not waiting. */
	AWAIT_MOST_NS = 20 * 1000 * 1000,
	/* Thoughts vary, most of all on a busy machine: so many times the usual one is waited for. */
	AWAIT_TIMES = 4,
	/* How long a wake may take on a machine that is not busy. */
	AWAIT_WAKE_NS = 100 * 1000,
	/* What was learned is worth so much against one measurement. */
	AWAIT_MEMORY = 8,
	/* Who was never without work for so long sends ahead, and does not think. */
	AWAIT_STEADY_NS = 50 * 1000 * 1000,
	/* Those that are awaited are looked through this often, so that who is gone no longer counts in its group. */
	AWAIT_LOOK_NS = 1000 * 1000,
	/* Lanes that are looked at for one that goes before another. */
	AWAIT_LOOKS = 128,
};

static uint64_t mean(uint64_t known, uint64_t sample) {
	return known - known / AWAIT_MEMORY + sample / AWAIT_MEMORY;
}

static uint64_t patience_ns(const struct await *a) {
	uint64_t ns = AWAIT_TIMES * a->think_ns + AWAIT_WAKE_NS;

	return ns < AWAIT_MOST_NS ? ns : AWAIT_MOST_NS;
}

static void leave(struct lane *l) {
	struct await *a = &l->await;

	if (!a->awaited)
		return;
	a->awaited = false;
	if (a->next)
		a->next->await.previous = a->previous;
	if (a->previous)
		a->previous->await.next = a->next;
	else
		l->exec->awaited = a->next;
	lane_rests(l);
}

static bool expected(const struct lane *l, uint64_t now) {
	const struct await *a = &l->await;

	return a->known && a->think_ns <= a->work_ns && (a->runs || now - a->quiet_ns < patience_ns(a));
}

/* What was launched since this thread heard of requests, and has run on it, kept it from hearing of this one, which may have been there. */
static uint64_t thought_ns(const struct lane *l, uint64_t now) {
	const struct exec *x = l->exec;
	const struct await *a = &l->await;
	uint64_t since = now - a->quiet_ns, held = x->held_ns - a->quiet_held_ns, unheard = x->unheard_ns + x->held_ns - x->silent_held_ns;

	held = held < unheard ? held : unheard;
	return since > held ? since - held : 0;
}

void await_added(struct lane *l, struct run *r) {
	struct await *a = &l->await;
	uint64_t now = loop_now_ns(), thought = thought_ns(l, now), most = a->known ? patience_ns(a) : AWAIT_MOST_NS;

	if (!a->runs++ && a->quiet_ns) {
		thought = thought < most ? thought : most;
		a->think_ns = a->known ? mean(a->think_ns, thought) : thought;
		a->known = true;
	} else if (a->runs > 1 && !l->first && thought > AWAIT_STEADY_NS) {
		a->think_ns = 0;
		a->known = true;
	}
	if (!a->quiet_ns) {
		a->quiet_ns = now;
		a->quiet_held_ns = l->exec->held_ns;
	}
	r->added_ns = now;
}

void await_passed(struct lane *l) {
	struct await *a = &l->await;
	uint64_t used = l->usage.device_ns - a->used_ns;

	if (--a->runs)
		return;
	a->quiet_ns = loop_now_ns();
	a->quiet_held_ns = l->exec->held_ns;
	a->used_ns = l->usage.device_ns;
	a->work_ns = a->work_ns ? mean(a->work_ns, used) : used;
}

void await_begin(struct lane *l) {
	struct await *a = &l->await;

	if (a->awaited || !expected(l, loop_now_ns()))
		return;
	a->awaited = true;
	a->previous = NULL;
	a->next = l->exec->awaited;
	if (a->next)
		a->next->await.previous = l;
	l->exec->awaited = l;
}

bool await_end(struct lane *l) {
	bool came = l->await.awaited && expected(l, loop_now_ns());

	leave(l);
	return came;
}

void await_look(struct exec *x) {
	struct lane *l, *next;
	uint64_t now;

	if (!x->awaited)
		return;
	now = loop_now_ns();
	if (now - x->awaited_ns < AWAIT_LOOK_NS)
		return;
	x->awaited_ns = now;
	for (l = x->awaited; l; l = next) {
		next = l->await.next;
		if (!expected(l, now))
			leave(l);
	}
}

bool await_holds(struct exec *x, const struct lane *l, bool (*before)(struct lane *awaited, const struct lane *l)) {
	struct lane *a = x->awaited, *next;
	uint64_t now = a ? loop_now_ns() : 0;

	for (unsigned i = 0; a && i < AWAIT_LOOKS; i++, a = next) {
		uint64_t until = a->await.quiet_ns + patience_ns(&a->await);

		next = a->await.next;
		if (!expected(a, now)) {
			leave(a);
			continue;
		}
		if (!before(a, l))
			continue;
		/* While it has runs, their end is heard of. */
		x->await_until_ns = a->await.runs ? 0 : until;
		return true;
	}
	return false;
}

bool await_any(const struct exec *x) {
	uint64_t now = x->awaited ? loop_now_ns() : 0;
	unsigned looks = 0;

	for (const struct lane *a = x->awaited; a && looks++ < AWAIT_LOOKS; a = a->await.next)
		if (expected(a, now))
			return true;
	return false;
}

uint64_t await_work_ns(const struct lane *l) {
	return l->await.work_ns;
}

uint64_t await_wait_us(const struct exec *x) {
	uint64_t now;

	if (!x->await_until_ns)
		return UINT64_MAX;
	now = loop_now_ns();
	return x->await_until_ns > now ? (x->await_until_ns - now) / 1000 + 1 : 1;
}

/* See resident.h. Programs are in a list, the one that was launched last first. */
#include "resident.h"

#include <errno.h>

#include "daemon/base/loop.h"
#include "direct.h"

enum {
	/* What somebody waits for must be there when he comes to launch it; who has gone away does not come. */
	RESIDENT_GRACE_NS = 1000000000,
};

static void take_out(struct residents *s, struct program *p) {
	*(p->before ? &p->before->behind : &s->first) = p->behind;
	*(p->behind ? &p->behind->before : &s->last) = p->before;
	p->before = p->behind = NULL;
}

static void put_first(struct residents *s, struct program *p) {
	p->behind = s->first;
	*(s->first ? &s->first->before : &s->last) = p;
	s->first = p;
}

static void count(struct device *d, struct program *p) {
	struct residents *s = &d->residents;

	p->resident = true;
	p->used = d->work.sequence;
	p->kept_ns = loop_now_ns() + RESIDENT_GRACE_NS;
	put_first(s, p);
	s->bytes += p->bytes;
	s->count++;
	d->counters.programs_bytes = s->bytes;
	d->counters.programs_loaded = s->count;
}

void resident_add(struct device *d, struct program *p) {
	if (program_state(p) == PROGRAM_READY && !p->resident)
		count(d, p);
}

/* Its near form is another program, of which no builder may be at it. */
static bool is_free(const struct device *d, const struct program *p) {
	if (p->uncollected || p->keeping || atomic_load(&d->helpers.busy) || (p->kept_ns && loop_now_ns() < p->kept_ns))
		return false;
	return !p->near_one || program_state(p->near_one) != PROGRAM_BUILDING;
}

static void let_go(struct program *p) {
	if (p->object)
		clReleaseKernel(p->object);
	if (p->claimed)
		clReleaseKernel(p->claimed);
	if (p->program)
		clReleaseProgram(p->program);
	p->object = p->claimed = NULL;
	p->program = NULL;
	p->pools_set = 0;
	direct_unload(p);
}

void resident_drop(struct device *d, struct program *p) {
	struct residents *s = &d->residents;

	let_go(p);
	if (!p->resident)
		return;
	p->resident = false;
	take_out(s, p);
	s->bytes -= p->bytes;
	s->count--;
	d->counters.programs_bytes = s->bytes;
	d->counters.programs_loaded = s->count;
}

void resident_limit(struct device *d) {
	struct residents *s = &d->residents;
	uint64_t most = d->config.programs_bytes;
	struct program *before;

	for (struct program *p = s->last; most && s->bytes > most && p; p = before) {
		before = p->before;
		/* What was launched after it is under way, too. */
		if (p->used > d->work.completed)
			return;
		if (!is_free(d, p))
			continue;
		if (p->near_one)
			p->near_one = program_end(p->near_one);
		resident_drop(d, p);
		d->counters.programs_evicted++;
	}
}

/* From the driver's own cache at once; what is not there is built. */
static int load_again(struct device *d, struct program *p) {
	if (!p->entry || !direct_load_again(p)) {
		programs_again(d, p);
		return -EAGAIN;
	}
	d->counters.programs_reloaded++;
	count(d, p);
	return 0;
}

int resident_use(struct device *d, struct program *p) {
	bool there = p->resident;
	int r = 0;

	/* One that is not collected was built this moment. */
	if (!there && p->uncollected)
		count(d, p);
	else if (!there)
		r = load_again(d, p);
	if (r)
		return r;
	if (d->residents.first != p) {
		take_out(&d->residents, p);
		put_first(&d->residents, p);
	}
	p->kept_ns = 0;
	p->used = d->work.sequence + 1;
	/* From here on this one is under way. */
	if (!there)
		resident_limit(d);
	return 0;
}

/*
 * Numbers, marks and completion; see state.h. Whatever ends, ends here: items are told, client
 * memory is reported free, mappings that nothing runs on are undone.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"

enum {
	/* How often empty memory is looked for. */
	EXEC_TRIM_MS = 250,
	/* ... and runs that were not begun in time. */
	EXEC_EXPIRE_US = 2000,
};

int exec_new(const struct exec_config *c, struct exec **execp) {
	struct exec *x = calloc(1, sizeof *x);

	if (!x)
		return -ENOMEM;
	x->device = c->device;
	x->plans = c->plans;
	x->flat = device_flat(c->device);
	x->scratch_limit = c->scratch_bytes;
	x->packed_limit = c->packed_bytes;
	x->slice_ns = c->slice_ns;
	x->long_ns = c->long_ns;
	x->near_ns = c->near_ns;
	x->time_kernels = c->time_kernels;
	if (interpret_open(x, c->interpreter)) {
		free(x);
		return -ENOMEM;
	}
	*execp = x;
	return 0;
}

/* ---- completion ---- */

static struct item *flight_pop(struct exec *x) {
	struct item *i = x->flight;

	if (!i || i->sequence > x->completed)
		return NULL;
	x->flight = i->next;
	if (!x->flight)
		x->flight_last = NULL;
	x->busy--;
	if ((const void *)x->loner == i)
		x->loner = NULL;
	schedule_passed(x, i);
	if (i->kind == ITEM_RUN && i->lane)
		await_passed(i->lane);
	return i;
}

static void item_tell(const struct exec *x, const struct item *i) {
	const struct run *r = (const struct run *)i;

	if (!i->lane)
		return;
	if (i->kind == ITEM_RUN && r->timing && !i->sorrow)
		timing_tell(r->timing, x, r);
	if (i->kind == ITEM_FENCE && i->passed)
		i->passed(i->user);
	else if (i->kind != ITEM_FENCE && i->kind != ITEM_SLICE && i->done)
		i->done(i->user, i->sorrow ? &i->sorrow->fault : NULL);
}

static void complete(struct exec *x) {
	struct item *i;

	while ((i = flight_pop(x))) {
		item_tell(x, i);
		item_free(i);
	}
	extents_retire(x);
	if (x->dying)
		arenas_bury(x);
}

/* The device failed somewhere in (completed, end]: what was written there is not known. */
static void lose(struct exec *x, uint64_t end) {
	struct sorrow *s = sorrow_set(FAULT_DEVICE, "the device failed while the operation ran");

	packed_forget_all(x);
	for (struct item *i = x->flight; i && i->sequence <= end; i = i->next)
		if (!i->sorrow)
			i->sorrow = sorrow_ref(s);
	for (struct space *p = x->spaces; p; p = p->next)
		for (struct buffer *b = p->buffers; b; b = b->next)
			if (b->state == BUFFER_READY && b->written > x->completed && b->written <= end)
				buffer_poison(b, s);
	sorrow_unref(s);
}

/* Several are often answered together: exec_progress() tells of them. */
static void on_mark(void *user, int error) {
	struct exec *x = user;
	uint64_t end = x->mark[x->mark_first], began_ns = x->mark_launched_ns[x->mark_first], after = x->completed;

	x->mark_first = (x->mark_first + 1) % EXEC_MARKS;
	x->marks--;
	if (error)
		lose(x, end);
	x->completed = end;
	if (began_ns)
		schedule_settle(x, after, began_ns, device_ended_ns(x->device));
	if (!x->catalogue)
		return;
	atomic_store_explicit(&x->catalogue->header->completed, end, memory_order_release);
	atomic_store_explicit(&x->catalogue->header->device_us, x->marks ? loop_now() : 0, memory_order_relaxed);
}

void exec_mark(struct exec *x) {
	uint32_t at = (x->mark_first + x->marks) % EXEC_MARKS;

	/* Where too many are in flight already, the answer of one comes back here. */
	if (x->sequence == x->marked || x->marks == EXEC_MARKS)
		return;
	/* Where memory is short, the next progress tries again. */
	if (device_mark(x->device, on_mark, x))
		return;
	x->mark[at] = x->marked = x->sequence;
	x->mark_launched_ns[at] = x->launched_ns;
	x->launched_ns = 0;
	if (!x->marks++ && x->catalogue)
		atomic_store_explicit(&x->catalogue->header->device_us, loop_now(), memory_order_relaxed);
	/* An error of the flush is one of the launches too, and comes with the mark. */
	if (device_flush(x->device))
		return;
}

void exec_launched(struct exec *x, struct item *i) {
	if (x->flight_last)
		x->flight_last->next = i;
	else
		x->flight = i;
	x->flight_last = i;
}

/* ---- progress ---- */

static void trim(struct exec *x) {
	int64_t now = exec_now_ms();

	if (now - x->trimmed_ms < EXEC_TRIM_MS)
		return;
	x->trimmed_ms = now;
	scratch_trim(x, false);
	for (struct space *s = x->spaces; s; s = s->next)
		space_trim(s, now);
}

void exec_progress(struct exec *x) {
	x->gathering = false;
	complete(x);
	schedule_expire(x);
	if (x->interpreters_wanted)
		interpret_poll(x);
	if (!x->scratch_ready && exec_prepared(x))
		scratch_make_ready(x);
	schedule_retry(x);
	schedule(x);
	exec_mark(x);
	trim(x);
}

void exec_gather(struct exec *x) {
	x->gathering = true;
	x->ran_here = false;
	x->unheard_ns = x->held_ns - x->silent_held_ns;
	x->silent_held_ns = x->held_ns;
}

void exec_heeds(struct exec *x, bool (*waits)(void *user), void *user) {
	x->waits = waits;
	x->waits_user = user;
}

uint64_t exec_wait_us(const struct exec *x) {
	uint64_t us = x->deadlines || x->held_back ? EXEC_EXPIRE_US : interpret_wait_us(x), await = await_wait_us(x);

	return await < us ? await : us;
}

uint32_t exec_busy(const struct exec *x) {
	return x->busy;
}

const struct exec_counters *exec_counters(const struct exec *x) {
	return &x->counters;
}

/* ---- the end ---- */

static void finish(struct exec *x) {
	while (x->completed < x->sequence) {
		exec_mark(x);
		if (!x->marks || device_finish(x->device))
			break;
	}
}

void exec_finish(struct exec *x) {
	finish(x);
	complete(x);
}

/* Waits until everything has completed; nobody is told. */
static void drain(struct exec *x) {
	for (struct item *i = x->flight; i; i = i->next)
		i->lane = NULL;
	finish(x);
	x->completed = x->sequence;
	complete(x);
}

struct exec *exec_free(struct exec *x) {
	if (!x)
		return NULL;
	drain(x);
	while (x->spaces)
		space_free(x->spaces);
	drain(x);
	packed_forget_all(x);
	scratch_trim(x, true);
	schedule_free(x);
	if (exec_time_launches(x, false))
		log_error("the device's queue for launches that are timed cannot be left");
	free(x);
	return NULL;
}

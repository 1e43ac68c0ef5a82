/*
 * Lanes: one session's order of execution.
 *
 * The first item of a lane either goes to the device, and then waits in the flight for its number
 * to complete, or keeps the lane waiting. Other lanes do not care.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>

int lane_new(struct exec *x, struct lane **lanep) {
	struct lane *l = calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	if (schedule_reserve(x)) {
		free(l);
		return -ENOMEM;
	}
	l->exec = x;
	l->share = (struct lane_share){ .weight = LANE_WEIGHT, .priority = LANE_NORMAL };
	l->all_next = x->lane;
	if (l->all_next)
		l->all_next->all_previous = l;
	x->lane = l;
	x->lanes++;
	*lanep = l;
	return 0;
}

struct lane_group *lane_group_new(void) {
	struct lane_group *g = calloc(1, sizeof *g);

	if (g)
		*g = (struct lane_group){ .percent = 100 };
	return g;
}

void lane_group_limit(struct lane_group *g, uint32_t percent) {
	g->percent = percent;
	g->owed_ns = 0;
}

uint64_t lane_group_ns(const struct lane_group *g) {
	return g->device_ns;
}

struct lane_group *lane_group_free(struct lane_group *g) {
	free(g);
	return NULL;
}

void lane_join(struct lane *l, struct lane_group *g) {
	l->group = g;
}

void lane_set_share(struct lane *l, const struct lane_share *share) {
	schedule_set(l, share);
}

const struct lane_usage *lane_usage(const struct lane *l) {
	return &l->usage;
}

uint32_t lane_cancel(struct lane *l) {
	uint32_t count = schedule_cancel(l);

	l->exec->counters.cancelled += count;
	exec_mark(l->exec);
	return count;
}

void item_free(struct item *i) {
	space_forgo(i);
	sorrow_unref(i->sorrow);
	buffer_unref(i->buffer);
	if (i->kind == ITEM_RUN) {
		struct run *r = (struct run *)i;

		free(r->base);
		free(r->packed);
		plan_unref(r->plan);
		timing_free(r->timing);
	}
	free(i);
}

/* ---- waiting and going ---- */

struct item *lane_pop(struct lane *l) {
	struct item *i = l->first;

	l->first = i->next;
	if (!l->first)
		l->last = NULL;
	i->next = NULL;
	return i;
}

void lane_append(struct lane *l, struct item *i) {
	l->exec->busy++;
	if (!l->works && l->group)
		l->group->busy++;
	l->works = true;
	if (i->kind == ITEM_RUN)
		await_added(l, (struct run *)i);
	if (l->last)
		l->last->next = i;
	else
		l->first = i;
	l->last = i;
	schedule_added(l);
}

void lane_rests(struct lane *l) {
	if (!l->works || l->first || l->await.awaited)
		return;
	l->works = false;
	if (l->group)
		l->group->busy--;
}

/* 0, or -EAGAIN while the run that writes the buffer is not launched, or its memory on the host is on its way. */
static int publish_advance(struct exec *x, struct item *i) {
	struct buffer *b = i->buffer;
	int e = 0;

	if (b->state == BUFFER_PENDING)
		return -EAGAIN;
	if (b->state == BUFFER_READY)
		e = buffer_host(b, i);
	if (e == -EAGAIN)
		return e;
	space_forgo(i);
	if (b->state == BUFFER_POISONED)
		i->sorrow = sorrow_ref(b->sorrow);
	else if (e)
		i->sorrow = sorrow_set(e == -EIO ? FAULT_DEVICE : FAULT_MEMORY,
			"no room for %llu bytes where the client could read them",
			(unsigned long long)b->bytes);
	i->sequence = ++x->sequence;
	return 0;
}

int lane_advance(struct lane *l) {
	struct exec *x = l->exec;
	struct item *i = l->first;

	if (i->kind == ITEM_PUBLISH)
		return publish_advance(x, i);
	if (i->kind == ITEM_RUN && !i->sorrow)
		return -EAGAIN;
	if (i->kind == ITEM_RUN)
		run_end(x, (struct run *)i, i->sorrow);
	else
		i->sequence = ++x->sequence;
	return 0;
}

/* ---- fences and publications ---- */

int lane_fence(struct lane *l, void (*done)(void *user), void *user) {
	struct item *i = malloc(sizeof *i);

	if (!i)
		return -ENOMEM;
	*i = (struct item){ .kind = ITEM_FENCE, .lane = l, .passed = done, .user = user };
	lane_append(l, i);
	if (!l->exec->gathering)
		exec_mark(l->exec);
	return 0;
}

int buffer_publish(
	struct lane *l, struct buffer *b, void (*done)(void *user, const struct fault *f), void *user) {
	struct item *i = malloc(sizeof *i);

	if (!i)
		return -ENOMEM;
	*i = (struct item){
		.kind = ITEM_PUBLISH, .lane = l, .done = done, .user = user, .buffer = buffer_ref(b)
	};
	lane_append(l, i);
	if (!l->exec->gathering)
		exec_mark(l->exec);
	return 0;
}

/* ---- the end of a lane ---- */

static void drop_item(struct exec *x, struct item *i, struct sorrow *lost) {
	x->busy--;
	if ((const void *)x->loner == i)
		x->loner = NULL;
	if (i->kind == ITEM_RUN)
		run_end(x, (struct run *)i, lost);
	item_free(i);
}

static void lane_unlink(struct lane *l) {
	struct exec *x = l->exec;

	if (l->all_next)
		l->all_next->all_previous = l->all_previous;
	if (l->all_previous)
		l->all_previous->all_next = l->all_next;
	else
		x->lane = l->all_next;
	x->lanes--;
}

struct lane *lane_free(struct lane *l) {
	struct sorrow *lost;
	struct exec *x;

	if (!l)
		return NULL;
	x = l->exec;
	for (struct item *i = x->flight; i; i = i->next)
		if (i->lane == l)
			i->lane = NULL;
	if (x->alone == l)
		x->alone = NULL;
	schedule_remove(l);
	lost = sorrow_set(FAULT_LOST, "the session of the operations has ended");
	while (l->first)
		drop_item(x, lane_pop(l), lost);
	sorrow_unref(lost);
	await_end(l);
	lane_rests(l);
	lane_unlink(l);
	free(l);
	exec_mark(x);
	return NULL;
}

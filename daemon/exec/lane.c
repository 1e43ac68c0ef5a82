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
	l->exec = x;
	*lanep = l;
	return 0;
}

void item_free(struct item *i) {
	sorrow_unref(i->sorrow);
	buffer_unref(i->buffer);
	if (i->kind == ITEM_RUN) {
		struct run *r = (struct run *)i;

		free(r->base);
		free(r->packed);
		timing_free(r->timing);
	}
	free(i);
}

/* ---- waiting and going ---- */

static void lane_unlink(struct lane *l) {
	if (l->next)
		l->next->previous = l->previous;
	if (l->previous)
		l->previous->next = l->next;
	else
		l->exec->waiting = l->next;
	l->next = l->previous = NULL;
}

static struct item *lane_pop(struct lane *l) {
	struct item *i = l->first;

	l->first = i->next;
	if (!l->first) {
		l->last = NULL;
		lane_unlink(l);
	}
	i->next = NULL;
	return i;
}

void lane_append(struct lane *l, struct item *i) {
	struct exec *x = l->exec;

	x->busy++;
	if (l->last) {
		l->last->next = i;
		l->last = i;
		return;
	}
	l->first = l->last = i;
	l->next = x->waiting;
	if (l->next)
		l->next->previous = l;
	x->waiting = l;
}

/* 0, or -EAGAIN while the run that writes the buffer is not launched. */
static int publish_advance(struct exec *x, struct item *i) {
	struct buffer *b = i->buffer;
	int e = 0;

	if (b->state == BUFFER_PENDING)
		return -EAGAIN;
	if (b->state == BUFFER_READY)
		e = buffer_host(b);
	if (b->state == BUFFER_POISONED)
		i->sorrow = sorrow_ref(b->sorrow);
	else if (e)
		i->sorrow = sorrow_set(e == -EIO ? FAULT_DEVICE : FAULT_MEMORY,
			"no room for %llu bytes where the client could read them",
			(unsigned long long)b->bytes);
	i->sequence = ++x->sequence;
	return 0;
}

static int item_advance(struct exec *x, struct item *i) {
	switch (i->kind) {
	case ITEM_RUN:
		return run_advance(x, (struct run *)i);
	case ITEM_PUBLISH:
		return publish_advance(x, i);
	case ITEM_FENCE:
		break;
	}
	i->sequence = ++x->sequence;
	return 0;
}

uint32_t lane_advance(struct lane *l, uint32_t most) {
	uint32_t went = 0;

	while (l->first && went < most && !item_advance(l->exec, l->first)) {
		exec_launched(l->exec, lane_pop(l));
		went++;
	}
	return went;
}

/* ---- fences and publications ---- */

int lane_fence(struct lane *l, void (*done)(void *user), void *user) {
	struct item *i = calloc(1, sizeof *i);

	if (!i)
		return -ENOMEM;
	*i = (struct item){ .kind = ITEM_FENCE, .lane = l, .passed = done, .user = user };
	lane_append(l, i);
	if (lane_advance(l, UINT32_MAX))
		exec_mark(l->exec);
	return 0;
}

int buffer_publish(
	struct lane *l, struct buffer *b, void (*done)(void *user, const struct fault *f), void *user) {
	struct item *i = calloc(1, sizeof *i);

	if (!i)
		return -ENOMEM;
	*i = (struct item){
		.kind = ITEM_PUBLISH, .lane = l, .done = done, .user = user, .buffer = buffer_ref(b)
	};
	lane_append(l, i);
	if (lane_advance(l, UINT32_MAX))
		exec_mark(l->exec);
	return 0;
}

/* ---- the end of a lane ---- */

static void drop_item(struct exec *x, struct item *i, struct sorrow *lost) {
	x->busy--;
	if (i->kind == ITEM_RUN)
		run_end(x, (struct run *)i, lost);
	item_free(i);
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
	lost = sorrow_set(FAULT_LOST, "the session of the operations has ended");
	while (l->first)
		drop_item(x, lane_pop(l), lost);
	sorrow_unref(lost);
	free(l);
	exec_mark(x);
	return NULL;
}

/*
 * Factors of products that stay packed between runs.
 *
 * A plan says which of its slots is a packed copy of one leaf and of nothing else (plan_slot.packed_of). The first
 * run over an array packs it for itself. From the second on the copy is kept, and later runs whose plan packs the same
 * elements of that array in the same way launch no packing. Weights are thus packed once, and what is new
 * in each run costs no memory for longer than the run.
 *
 * A copy goes with its array, with a new version of it, after a failure of the device, when memory is short, and when
 * those used since come to more than exec_config.packed_bytes. Runs that are bound to it keep its memory until they are
 * launched; since the device's queue is in order that is enough.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct packed {
	struct packed *next, *previous;       /* of exec->packed, the one used last first */
	struct packed *sibling;               /* of the buffer */
	struct buffer *buffer;                /* NULL: no later run may find it */
	uint64_t offset;                      /* elements: where the leaf begins in the array */
	const uint64_t *key;                  /* its own, after this struct */
	uint32_t words;
	uint32_t runs;                        /* that are bound to it */
	bool filled;                          /* all that writes it is launched */
	struct block block;
};

/* ---- life ---- */

static void unlink_packed(struct exec *x, struct packed *c) {
	if (c->previous)
		c->previous->next = c->next;
	else
		x->packed = c->next;
	if (c->next)
		c->next->previous = c->previous;
}

static void link_packed(struct exec *x, struct packed *c) {
	c->previous = NULL;
	c->next = x->packed;
	if (c->next)
		c->next->previous = c;
	x->packed = c;
}

static void packed_free(struct exec *x, struct packed *c) {
	unlink_packed(x, c);
	scratch_give(x, &c->block);
	free(c);
}

/* No later run finds it; its memory goes with the last run that is bound to it. */
static void forget(struct exec *x, struct packed *c) {
	struct packed **link;

	if (c->buffer) {
		for (link = &c->buffer->packed; *link != c; link = &(*link)->sibling)
			;
		*link = c->sibling;
		c->buffer = NULL;
		x->counters.packed_bytes -= c->block.bytes;
	}
	if (!c->runs)
		packed_free(x, c);
}

void packed_forget(struct buffer *b) {
	while (b->packed)
		forget(b->space->exec, b->packed);
	b->packed_before = false;
}

static bool overlap(const struct buffer *a, const struct buffer *b) {
	return a->arena && a->arena == b->arena && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

void packed_forget_overlapping(const struct buffer *b) {
	struct packed *next;

	for (struct packed *c = b->space->exec->packed; c; c = next) {
		next = c->next;
		if (c->buffer && overlap(c->buffer, b))
			forget(b->space->exec, c);
	}
}

void packed_forget_all(struct exec *x) {
	struct packed *next;

	for (struct packed *c = x->packed; c; c = next) {
		next = c->next;
		forget(x, c);
	}
}

/* Forgets those used longest ago until no more than `bytes` are kept; did that free any? */
static bool shrink(struct exec *x, uint64_t bytes) {
	struct packed *c = x->packed, *before;
	bool freed = false;

	while (c && c->next)
		c = c->next;
	for (; c && x->counters.packed_bytes > bytes; c = before) {
		before = c->previous;
		if (!c->buffer || c->runs)
			continue;
		forget(x, c);
		freed = true;
	}
	return freed;
}

bool packed_trim(struct exec *x) {
	return shrink(x, 0);
}

/* ---- binding ---- */

static struct packed *find(const struct buffer *b, uint64_t offset, const struct prepared_packed *p) {
	struct packed *c = b->packed;

	while (c && (c->offset != offset || c->words != p->words ||
		memcmp(c->key, p->key, p->words * sizeof *p->key) != 0))
		c = c->sibling;
	return c;
}

/* From the second run over an array on, where there is room. */
static void keep(struct exec *x, struct packed *c, struct buffer *b) {
	uint64_t bytes = c->block.bytes;

	if (!b->packed_before || bytes > x->packed_limit) {
		b->packed_before = true;
		return;
	}
	shrink(x, x->packed_limit - bytes);
	if (x->counters.packed_bytes > x->packed_limit - bytes)
		return;
	c->buffer = b;
	c->sibling = b->packed;
	b->packed = c;
	x->counters.packed_bytes += bytes;
}

static int packed_new(struct exec *x, uint64_t bytes, const struct prepared_packed *p, struct packed **cp) {
	struct packed *c = calloc(1, sizeof *c + p->words * sizeof *p->key);
	uint64_t *key;
	int r = c ? scratch_take(x, bytes, &c->block) : -ENOMEM;

	if (r) {
		free(c);
		return r;
	}
	key = (uint64_t *)(c + 1);
	memcpy(key, p->key, p->words * sizeof *key);
	c->key = key;
	c->words = p->words;
	link_packed(x, c);
	*cp = c;
	return 0;
}

static int bind(struct exec *x, struct run *r, uint32_t i) {
	const struct prepared_packed *p = &r->prepared->packed[i];
	struct buffer *b = r->leaf[p->leaf];
	struct packed *c = find(b, r->leaf_offset[p->leaf], p), *kept = c;
	int e = 0;

	if (!c || !c->filled)
		e = packed_new(x, r->plan->slot[p->slot].bytes, p, &c);
	if (e)
		return e;
	c->offset = r->leaf_offset[p->leaf];
	c->runs++;
	if (c == kept) {
		unlink_packed(x, c);
		link_packed(x, c);
		x->counters.packed_used++;
	} else {
		x->counters.packed_made++;
		if (!kept)
			keep(x, c, b);
	}
	r->packed[i] = c;
	r->base[p->slot] = c->block.address;
	return 0;
}

int packed_bind(struct exec *x, struct run *r) {
	int e = 0;

	free(r->packed);
	r->packed = NULL;
	/* Most runs pack nothing. */
	if (!r->prepared->packs)
		return 0;
	r->packed = calloc(r->prepared->packs, sizeof(*r->packed));
	if (!r->packed)
		return -ENOMEM;
	for (uint32_t i = 0; !e && i < r->prepared->packs; i++)
		e = bind(x, r, i);
	if (e)
		packed_release(x, r, false);
	return e;
}

bool packed_there(const struct run *r, uint32_t step) {
	uint32_t pack = r->prepared->step[step].pack;

	return pack != PLAN_NONE && r->packed[pack]->filled;
}

void packed_release(struct exec *x, struct run *r, bool launched) {
	for (uint32_t i = 0; r->packed && i < r->prepared->packs; i++) {
		struct packed *c = r->packed[i];

		if (!c)
			continue;
		r->packed[i] = NULL;
		c->runs--;
		c->filled |= launched;
		if (!c->buffer || !c->filled)
			forget(x, c);
	}
}

/* Values: recorded, sent, released. See value.h for the contract. */
#include "value.h"

#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "error.h"
#include "flush.h"
#include "handle.h"
#include "tape.h"

void value_list_append(struct value_list *l, struct value *v) {
	v->previous = l->last;
	v->next = NULL;
	if (l->last)
		l->last->next = v;
	else
		l->first = v;
	l->last = v;
	l->count++;
}

void value_list_remove(struct value_list *l, struct value *v) {
	if (v->previous)
		v->previous->next = v->next;
	else
		l->first = v->next;
	if (v->next)
		v->next->previous = v->previous;
	else
		l->last = v->previous;
	v->previous = v->next = NULL;
	l->count--;
}

uint32_t value_list_number(struct value_list *l) {
	uint32_t index = 0;

	for (struct value *v = l->last; v; v = v->previous)
		for (unsigned i = 0; v->needed && i < v->arity; i++)
			v->in[i]->needed = true;
	for (struct value *v = l->first; v; v = v->next)
		if (v->needed)
			v->index = index++;
	return index;
}

struct place *value_list_places(const struct value_list *l, uint32_t marked) {
	struct place *place = calloc(marked + 1u, sizeof *place);
	uint32_t i = 0;

	for (const struct value *v = l->first; place && v; v = v->next)
		if (v->needed)
			place[i++] = v->place;
	return place;
}

struct value *value_new(
	struct fusion_context *c, unsigned op, const struct tensor_type *type, const struct op_attr *attr) {
	struct value *v = slab_take(&c->values);

	if (!v)
		return NULL;
	*v = (struct value){ .op = (uint16_t)op, .type = *type };
	if (!attr)
		return v;
	v->attr = slab_take(&c->attrs);
	if (!v->attr) {
		slab_give(&c->values, v);
		return NULL;
	}
	*v->attr = *attr;
	return v;
}

struct failure *failure_new(struct fusion_context *c, const struct fault *f) {
	struct failure *failure = malloc(sizeof *failure);

	if (failure) {
		*failure = (struct failure){ .references = 1, .fault = *f };
		return failure;
	}
	if (!c->last_failure.references)
		c->last_failure.fault = *f;
	c->last_failure.references++;
	return &c->last_failure;
}

void failure_drop(struct fusion_context *c, struct failure *failure) {
	if (failure && !--failure->references && failure != &c->last_failure)
		free(failure);
}

static void unlink_pending(struct fusion_context *c, struct value *v) {
	value_list_remove(&c->pending, v);
	c->pending_bytes -= flush_value_bytes(v);
	if (v->op == OP_load)
		c->pending_loads -= (uint64_t)shape_bytes(&v->type);
	for (unsigned i = 0; v->op == OP_fill && i < SCALARS_KEPT; i++)
		if (c->scalars[i] == v)
			c->scalars[i] = NULL;
}

/* Gives up what the value is, so that only its operands are left to be dropped. */
static void value_leave(struct fusion_context *c, struct value *v) {
	bool load = v->op == OP_load && v->attr;
	uint64_t key = load ? upload_key(v->attr->arena, v->attr->offset) : 0;

	if (v->shared)
		arena_forget(&c->arenas, v->shared);
	if (v->state == VALUE_PENDING) {
		unlink_pending(c, v);
		if (load)
			upload_give(&c->arenas, key);
	} else if (v->state == VALUE_CAPTURED) {
		capture_delist(c, v);
	} else if (v->handle) {
		slots_release(c->slots, v->handle, flush_release_bytes(v));
		if (load)
			upload_abandon(&c->arenas, key);
	} else if (load && v->state == VALUE_SENT) {
		upload_abandon(&c->arenas, key);
	}
}

static void value_free(struct fusion_context *c, struct value *v) {
	if (v->attr)
		slab_give(&c->attrs, v->attr);
	failure_drop(c, v->failure);
	slab_give(&c->values, v);
}

/* Only tapes refer to it, and none of them needs the contents. */
static void value_spend(struct fusion_context *c, struct value *v) {
	if (v->state != VALUE_SENT || v->shared)
		return;
	value_leave(c, v);
	v->handle = 0;
	v->state = VALUE_SPENT;
}

/* One reference less; the dead are put before a list of them. */
static struct value *let_go(struct fusion_context *c, struct value *v, struct value *dead) {
	if (--v->references > v->taped)
		return dead;
	if (v->references) {
		value_spend(c, v);
		return dead;
	}
	value_leave(c, v);
	v->next = dead;
	return v;
}

static struct value *tape_let_go(struct fusion_context *c, struct tape *t, struct value *dead) {
	for (unsigned i = 0; i < t->arity; i++) {
		tape_forget(c, t, i);
		dead = let_go(c, t->in[i], dead);
	}
	tape_free(c, t);
	return dead;
}

/* A chain of operands may be as long as a batch, so the dead wait in a list, not on the stack. */
static void value_bury(struct fusion_context *c, struct value *dead) {
	while (dead) {
		struct value *v = dead;

		dead = v->next;
		for (unsigned i = 0; i < v->arity; i++)
			dead = let_go(c, v->in[i], dead);
		if (v->tape)
			dead = tape_let_go(c, v->tape, dead);
		value_free(c, v);
	}
}

void value_ref(struct value *v) {
	v->references++;
}

void value_drop(struct fusion_context *c, struct value *v) {
	value_bury(c, let_go(c, v, NULL));
}

void value_hold(struct value *v) {
	v->references++;
	v->holders++;
}

void value_unhold(struct fusion_context *c, struct value *v) {
	v->holders--;
	value_drop(c, v);
}

void value_tape(struct value *v) {
	v->references++;
	v->taped++;
}

void value_keep(struct value *v) {
	v->kept++;
	value_hold(v);
}

void value_fail(struct fusion_context *c, struct value *v, struct failure *failure) {
	unsigned arity = v->arity;

	if (v->state == VALUE_FAILED)
		return;
	if (v->state == VALUE_PENDING)
		unlink_pending(c, v);
	v->state = VALUE_FAILED;
	v->failure = failure;
	failure->references++;
	v->arity = 0;
	for (unsigned i = 0; i < arity; i++)
		value_drop(c, v->in[i]);
}

void value_lose(struct fusion_context *c, struct value *v, const struct fault *why) {
	struct failure *failure;
	struct fault f = *why;

	fault_prefix(&f, "%s", v->op < OP_COUNT ? op_info(v->op)->name : "replay");
	place_append(&f, v->place);
	if (!c->deferred.code)
		c->deferred = f;
	failure = failure_new(c, &f);
	value_fail(c, v, failure);
	failure_drop(c, failure);
}

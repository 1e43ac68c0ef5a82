/* Arrays and handles; see handles.h. */
#include "handles.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/share.h"
#include "daemon/base/memory.h"

/* ---- arrays ---- */

struct array *array_new(const struct tensor_type *t) {
	struct array *a = memory_zeroed(sizeof *a);

	if (!a)
		return NULL;
	a->references = 1;
	a->type = *t;
	return a;
}

struct array *array_ref(struct array *a) {
	a->references++;
	return a;
}

struct array *array_unref(struct array *a) {
	if (!a || --a->references)
		return NULL;
	if (a->hold)
		share_left(a);
	if (a->buffer)
		buffer_unref(a->buffer);
	poison_unref(a->poison);
	free(a);
	return NULL;
}

void array_poison(struct array *a, struct poison *p) {
	if (a->buffer)
		a->buffer = buffer_unref(a->buffer);
	poison_unref(a->poison);
	a->poison = p;
	a->pending = false;
	array_noted(a);
}

/* The buffer last: what goes before it is then right. */
void array_noted(struct array *a) {
	struct catalogue_array *n = a->catalogue ? &a->catalogue->entry[a->entry].of_array : NULL;

	if (!n || a->catalogue->frozen)
		return;
	n->buffer = CATALOGUE_NONE;
	atomic_signal_fence(memory_order_seq_cst);
	n->version = a->version;
	n->fault = a->poison ? (uint32_t)a->poison->fault.code : 0;
	n->share = a->hold ? share_arena(a) : 0;
	n->writable = a->writable;
	n->mapped = a->hold && (a->mapped == ARRAY_MAPPED || a->mapped == ARRAY_RESTORED);
	n->view = a->view;
	n->type = a->type;
	atomic_thread_fence(memory_order_release);
	if (a->buffer && !n->fault)
		n->buffer = buffer_entry(a->buffer);
}

static void array_enter(struct array *a, struct catalogue *c, uint64_t session, uint64_t handle) {
	uint32_t entry = catalogue_take(c, session);

	if (entry == CATALOGUE_NONE)
		return;
	a->catalogue = c;
	a->entry = entry;
	c->entry[entry].of_array.handle = handle;
	array_noted(a);
	catalogue_put(c, entry, CATALOGUE_ARRAY);
}

static void array_leave(struct array *a) {
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): who finds no array says so before this */
	if (a->catalogue)
		catalogue_give(a->catalogue, a->entry);
	a->catalogue = NULL;
}

int array_check(struct array *a, struct poison **poisonp) {
	const struct fault *f = a->buffer ? buffer_fault(a->buffer) : NULL;

	if (!a->poison && f) {
		a->poison = poison_new(f, 0, -1);
		if (!a->poison)
			return -ENOMEM;
	}
	*poisonp = a->poison;
	return 0;
}

/* ---- handles ---- */

static uint32_t slot_of(uint64_t handle) {
	return (uint32_t)handle;
}

static uint32_t generation_of(uint64_t handle) {
	return (uint32_t)(handle >> 32);
}

void handles_init(struct handles *h, uint32_t limit) {
	*h = (struct handles){ .limit = limit };
}

void handles_account(struct handles *h, uint64_t *users, uint64_t limit) {
	h->users = users;
	h->users_limit = limit;
}

void handles_free(struct handles *h) {
	if (h->users)
		*h->users -= h->live;
	for (uint32_t i = 0; i < h->capacity; i++) {
		if (h->slot[i].array)
			array_leave(h->slot[i].array);
		array_unref(h->slot[i].array);
	}
	free(h->slot);
	*h = (struct handles){ 0 };
}

/* Slots are chosen by the client, so the table reaches as far as the highest one used. */
static int grow(struct handles *h, uint32_t slot) {
	uint32_t capacity = h->capacity ? h->capacity : 64;
	struct handle_slot *slots;

	while (capacity <= slot)
		capacity *= 2;
	if (capacity > h->limit)
		capacity = h->limit;
	slots = realloc(h->slot, capacity * sizeof *slots);
	if (!slots)
		return -ENOMEM;
	memset(slots + h->capacity, 0, (capacity - h->capacity) * sizeof *slots);
	h->slot = slots;
	h->capacity = capacity;
	return 0;
}

static int refuse(uint64_t handle, const char *why, struct fault *f) {
	return fault_set(
		f, FAULT_HANDLE, "handle %u, generation %u, %s", slot_of(handle), generation_of(handle), why);
}

static int refuse_stale(const struct handle_slot *s, uint64_t handle, struct fault *f) {
	if (generation_of(handle) > s->generation || !s->generation)
		return refuse(handle, "names no array of this session", f);
	if (generation_of(handle) == s->generation)
		return refuse(handle, "was released", f);
	return fault_set(f, FAULT_HANDLE, "handle %u, generation %u, is stale: its slot is at generation %u",
		slot_of(handle), generation_of(handle), s->generation);
}

int handles_get(const struct handles *h, uint64_t handle, struct array **arrayp, struct fault *f) {
	const struct handle_slot *s;

	if (slot_of(handle) >= h->capacity)
		return refuse(handle, "names no array of this session", f);
	s = &h->slot[slot_of(handle)];
	if (s->generation != generation_of(handle) || !s->array)
		return refuse_stale(s, handle, f);
	*arrayp = s->array;
	return 0;
}

static int put(struct handles *h, uint64_t handle, struct array *a, struct fault *f) {
	struct handle_slot *s;
	int r = 0;

	if (slot_of(handle) >= h->limit)
		return fault_set(f, FAULT_LIMIT,
			"handle %u is beyond the %u arrays that limits.handles allows", slot_of(handle),
			h->limit);
	if (h->users && *h->users >= h->users_limit)
		return fault_set(f, FAULT_LIMIT,
			"the sessions of the user hold %llu arrays, as many as limits.user_handles allows",
			(unsigned long long)*h->users);
	if (slot_of(handle) >= h->capacity)
		r = grow(h, slot_of(handle));
	if (r)
		return r;
	s = &h->slot[slot_of(handle)];
	if (s->array)
		return refuse(handle, "is wanted for a slot that is in use", f);
	if (generation_of(handle) <= s->generation)
		return refuse(handle, "does not grow the generation of its slot", f);
	s->generation = generation_of(handle);
	s->array = a;
	h->live++;
	if (h->users)
		++*h->users;
	return 0;
}

int handles_put(struct handles *h, uint64_t handle, struct array *a, struct fault *f) {
	int r = put(h, handle, a, f);

	if (!r)
		array_enter(a, h->catalogue, h->session, handle);
	return r;
}

int handles_adopt(struct handles *h, uint64_t handle, struct array *a, uint32_t entry, struct fault *f) {
	int r = put(h, handle, a, f);

	if (r)
		return r;
	a->catalogue = h->catalogue;
	a->entry = entry;
	array_noted(a);
	return 0;
}

int handles_release(struct handles *h, uint64_t handle, struct fault *f) {
	struct array *a = NULL;
	int r = handles_get(h, handle, &a, f);

	if (r)
		return r;
	array_leave(a);
	h->slot[slot_of(handle)].array = NULL;
	h->live--;
	if (h->users)
		--*h->users;
	array_unref(a);
	return 0;
}

/* Handles. See handle.h for the contract. */
#include "handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slots *slots_new(void) {
	struct slots *s = calloc(1, sizeof *s);

	if (s)
		s->free = LIMIT_HANDLES;
	return s;
}

struct slots *slots_free(struct slots *s) {
	if (s) {
		free(s->slot);
		free(s->released);
	}
	free(s);
	return NULL;
}

static int slots_grow(struct slots *s, uint32_t room) {
	struct slot *slot = realloc(s->slot, room * sizeof *slot);
	uint64_t *released;

	if (!slot)
		return -ENOMEM;
	s->slot = slot;
	released = realloc(s->released, room * sizeof *released);
	if (!released)
		return -ENOMEM;
	s->released = released;
	s->room = room;
	return 0;
}

int slots_reserve(struct slots *s, uint32_t count, struct fault *f) {
	uint32_t added = count > s->free_count ? count - s->free_count : 0;
	uint32_t room = s->room ? s->room : 64;

	if (s->count + added <= s->room)
		return 0;
	if (s->count + added > LIMIT_HANDLES)
		return fault_set(f, FAULT_LIMIT, "the session holds %u arrays, the limit is %d: release some",
			s->count - s->free_count, LIMIT_HANDLES);
	while (room < s->count + added)
		room *= 2;
	return slots_grow(s, room);
}

uint64_t slots_take(struct slots *s, struct value *v) {
	uint32_t i = s->free;

	if (i != LIMIT_HANDLES) {
		s->free = s->slot[i].next;
		s->free_count--;
		s->slot[i].generation++;
	} else {
		i = s->count++;
		s->slot[i].generation = 1;
	}
	s->slot[i].value = v;
	return (uint64_t)s->slot[i].generation << 32 | i;
}

static void slot_free(struct slots *s, uint32_t slot) {
	s->slot[slot].next = s->free;
	s->free = slot;
	s->free_count++;
}

void slots_forgo(struct slots *s, uint64_t handle) {
	s->slot[(uint32_t)handle].value = NULL;
	slot_free(s, (uint32_t)handle);
}

void slots_give_up(struct slots *s, uint64_t *handle) {
	s->slot[(uint32_t)*handle].value = NULL;
	*handle = 0;
}

void slots_release(struct slots *s, uint64_t handle, uint64_t bytes) {
	s->slot[(uint32_t)handle].value = NULL;
	s->released[s->released_count++] = handle;
	s->released_bytes += bytes;
}

void slots_recycle(struct slots *s, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		slot_free(s, (uint32_t)s->released[i]);
	s->released_count -= count;
	/* Also where nothing was ever released, and no room was made. */
	if (s->released_count)
		memmove(s->released, s->released + count, s->released_count * sizeof *s->released);
	if (!s->released_count)
		s->released_bytes = 0;
}

void slots_keep_released(struct slots *s, bool (*keeps)(void *user, uint64_t handle), void *user) {
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->released_count; i++) {
		if (keeps(user, s->released[i]))
			s->released[kept++] = s->released[i];
		else
			slot_free(s, (uint32_t)s->released[i]);
	}
	s->released_count = kept;
	if (!kept)
		s->released_bytes = 0;
}

struct value *slots_value(const struct slots *s, uint32_t slot) {
	return slot < s->count ? s->slot[slot].value : NULL;
}

/* A bump allocator; see arena.h. Chunks double, so a request of any size costs O(log n) mallocs. */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_FIRST = 16384, ARENA_ALIGN = 16 };

struct arena_chunk {
	struct arena_chunk *next;
	size_t used;
	size_t size;
	_Alignas(ARENA_ALIGN) char bytes[];
};

static struct arena_chunk *arena_grow(struct arena *a, size_t bytes) {
	size_t size = a->chunk ? a->chunk->size * 2 : ARENA_FIRST;
	struct arena_chunk *c;

	while (size < bytes)
		size *= 2;
	c = malloc(sizeof *c + size);
	if (!c)
		return NULL;
	*c = (struct arena_chunk){ .next = a->chunk, .size = size };
	a->chunk = c;
	return c;
}

void *arena_alloc(struct arena *a, size_t bytes) {
	struct arena_chunk *c = a->chunk;
	void *p;

	bytes = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (!c || c->size - c->used < bytes)
		c = arena_grow(a, bytes);
	if (!c)
		return NULL;
	p = c->bytes + c->used;
	c->used += bytes;
	return memset(p, 0, bytes);
}

void arena_reset(struct arena *a) {
	while (a->chunk && a->chunk->next) {
		struct arena_chunk *c = a->chunk;

		a->chunk = c->next;
		free(c);
	}
	if (a->chunk)
		a->chunk->used = 0;
}

void arena_free(struct arena *a) {
	arena_reset(a);
	free(a->chunk);
	a->chunk = NULL;
}

size_t arena_size(const struct arena *a) {
	size_t bytes = 0;

	for (const struct arena_chunk *c = a->chunk; c; c = c->next)
		bytes += sizeof *c + c->size;
	return bytes;
}

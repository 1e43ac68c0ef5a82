/*
 * Memory that lives as long as one request: allocated by bumping a pointer, freed all at once.
 * Returned memory is zeroed and aligned to 16 bytes.
 */
#pragma once

#include <stddef.h>

struct arena_chunk;

struct arena {
	struct arena_chunk *chunk;
};

/* NULL where memory is short. */
void *arena_alloc(struct arena *a, size_t bytes);
/* Frees everything but the first chunk, which is used again. */
void arena_reset(struct arena *a);
void arena_free(struct arena *a);
/* That it has taken. */
size_t arena_size(const struct arena *a);

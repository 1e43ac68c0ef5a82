/*
 * Objects of one size from large blocks: recording an operation costs no malloc.
 *
 * Not thread-safe. When the last object comes back, every block but one goes back to the system.
 * Under AddressSanitizer each object is a malloc of its own, so that misuse is seen.
 */
#pragma once

#include <stddef.h>

struct slab {
	size_t size;               /* of one object */
	size_t live;               /* objects handed out */
	void *spare;               /* chain of objects handed back */
	char *fresh;               /* objects of the newest block that were never used */
	size_t fresh_left;
	struct slab_block *blocks;
};

void slab_init(struct slab *s, size_t size);
/* Frees the blocks, also under live objects. */
void slab_free(struct slab *s);
/* An object of undefined content, or NULL where memory is short. */
void *slab_take(struct slab *s);
void slab_give(struct slab *s, void *object);

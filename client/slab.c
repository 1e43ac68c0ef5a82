/* Objects of one size from large blocks. See slab.h for the contract. */
#include "slab.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* About 70 recorded operations; small enough to go back to malloc's own lists. */
	BLOCK_BYTES = 16 << 10,
};

struct slab_block {
	struct slab_block *next;
};

void slab_init(struct slab *s, size_t size) {
	*s = (struct slab){ .size = (size + 15) & ~(size_t)15 };
}

#if defined(__SANITIZE_ADDRESS__)

void slab_free(struct slab *s) {
	(void)s;
}

void *slab_take(struct slab *s) {
	return malloc(s->size);
}

void slab_give(struct slab *s, void *object) {
	(void)s;
	free(object);
}

#else

static void blocks_free(struct slab_block *b) {
	while (b) {
		struct slab_block *next = b->next;

		free(b);
		b = next;
	}
}

/* Makes all objects of the newest block fresh again. */
static void block_reset(struct slab *s) {
	s->spare = NULL;
	s->fresh = (char *)s->blocks + 16;
	s->fresh_left = (BLOCK_BYTES - 16) / s->size;
}

void slab_free(struct slab *s) {
	blocks_free(s->blocks);
	slab_init(s, s->size);
}

static int slab_grow(struct slab *s) {
	struct slab_block *b = malloc(BLOCK_BYTES);

	if (!b)
		return 0;
	b->next = s->blocks;
	s->blocks = b;
	s->fresh = (char *)b + 16;
	s->fresh_left = (BLOCK_BYTES - 16) / s->size;
	return 1;
}

void *slab_take(struct slab *s) {
	void *object = s->spare;

	if (object) {
		memcpy(&s->spare, object, sizeof s->spare);
	} else {
		if (!s->fresh_left && !slab_grow(s))
			return NULL;
		object = s->fresh;
		s->fresh += s->size;
		s->fresh_left--;
	}
	s->live++;
	return object;
}

void slab_give(struct slab *s, void *object) {
	memcpy(object, &s->spare, sizeof s->spare);
	s->spare = object;
	if (--s->live || !s->blocks->next)
		return;
	blocks_free(s->blocks->next);
	s->blocks->next = NULL;
	block_reset(s);
}

#endif

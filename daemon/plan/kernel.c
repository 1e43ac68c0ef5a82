/* Hash, equality and copies of kernels; see kernel.h. Only the parts in use count. */
#include "kernel.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HEAD = offsetof(struct kernel, value) };

/*
 * An item of a large tile multiplies 16 pairs of vectors for 4 that it reads from local memory, and two groups fit
 * into a unit's registers; smaller ones are for results that would not keep all units busy.
 */
const struct kernel_tile_info kernel_tiles[KERNEL_TILES] = {
	[KERNEL_TILE_SMALL] = { 32, 32, 4, 1, 16, 64 },
	[KERNEL_TILE_MEDIUM] = { 64, 64, 8, 1, 16, 128 },
	[KERNEL_TILE_LARGE] = { 128, 128, 8, 2, 8, 256 },
};

uint64_t kernel_hash(const struct kernel *k) {
	XXH64_hash_t h = XXH3_64bits(k, HEAD);

	h = XXH3_64bits_withSeed(k->value, k->values * sizeof *k->value, h);
	return XXH3_64bits_withSeed(k->operand, k->operands * sizeof *k->operand, h);
}

bool kernel_equal(const struct kernel *a, const struct kernel *b) {
	return !memcmp(a, b, HEAD) && !memcmp(a->value, b->value, a->values * sizeof *a->value) &&
		!memcmp(a->operand, b->operand, a->operands * sizeof *a->operand);
}

struct kernel *kernel_dup(const struct kernel *k) {
	struct kernel *copy = malloc(sizeof *copy);

	if (!copy)
		return NULL;
	memcpy(copy, k, HEAD);
	memcpy(copy->value, k->value, k->values * sizeof *k->value);
	memcpy(copy->operand, k->operand, k->operands * sizeof *k->operand);
	return copy;
}

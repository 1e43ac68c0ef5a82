/* Hash, equality and copies of kernels; see kernel.h. Only the parts in use count. */
#include "kernel.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HEAD = offsetof(struct kernel, value) };

/*
 * An item of a huge tile multiplies 32 pairs of vectors for 6 that it reads from local memory, one of a medium tile 8 for
 * 3; smaller tiles are for results that would not keep all units busy. What lies in local memory is at most 48 KiB. The speeds
 * were measured on an H200: 26, 38, 44 TFLOP/s of f32, 14 and 18 of f64, 220 and 320 of bf16.
 */
const struct kernel_tile_info kernel_tiles[KERNEL_TILES] = {
	[KERNEL_TILE_SMALL] = { KERNEL_TILE_SMALL, 26, 32, 32, 16, 32, 16, 4, 1 },
	[KERNEL_TILE_MEDIUM] = { KERNEL_TILE_SMALL, 38, 64, 64, 32, 32, 16, 4, 1 },
	[KERNEL_TILE_LARGE] = { KERNEL_TILE_MEDIUM, 49, 128, 128, 32, 64, 8, 4, 1 },
	[KERNEL_TILE_HUGE] = { KERNEL_TILE_MEDIUM, 44, 256, 128, 64, 64, 8, 4, 1 },
	[KERNEL_TILE_MATRIX_MEDIUM] = { KERNEL_TILE_MATRIX_MEDIUM, 22, 64, 64, 32, 32, 64, 2, 3 },
	[KERNEL_TILE_MATRIX_LARGE] = { KERNEL_TILE_MATRIX_MEDIUM, 32, 128, 128, 64, 32, 32, 2, 3 },
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

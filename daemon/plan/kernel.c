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
	[KERNEL_TILE_TINY] = { KERNEL_TILE_TINY, 14, 16, 16, 8, 16, 32, 4, 1 },
	[KERNEL_TILE_DEEP] = { KERNEL_TILE_TINY, 26, 32, 32, 16, 32, 32, 4, 1 },
	[KERNEL_TILE_MATRIX_MEDIUM] = { KERNEL_TILE_MATRIX_MEDIUM, 22, 64, 64, 32, 32, 64, 2, 3 },
	[KERNEL_TILE_MATRIX_LARGE] = { KERNEL_TILE_MATRIX_MEDIUM, 32, 128, 128, 64, 32, 32, 2, 3 },
	[KERNEL_TILE_WGMMA] = { KERNEL_TILE_MATRIX_MEDIUM, 52, 128, 128, 16, 128, 64, 2, 3 },
};

const char *kernel_root_name(const struct kernel *k) {
	static const char *const words[] = { [KERNEL_MAP] = "map", [KERNEL_REDUCE] = "reduce",
		[KERNEL_MATMUL] = "matmul", [KERNEL_ROWS] = "rows", [KERNEL_SCAN] = "scan",
		[KERNEL_SCATTER] = "scatter", [KERNEL_ATTENTION] = "attention", [KERNEL_CONV] = "conv",
		[KERNEL_SORT] = "sort", [KERNEL_INTERPRETER] = "interpreter" };

	return words[k->root];
}

uint64_t kernel_hash(const struct kernel *k) {
	XXH64_hash_t h = XXH3_64bits(k, HEAD);

	h = XXH3_64bits_withSeed(k->value, k->values * sizeof *k->value, h);
	return XXH3_64bits_withSeed(k->operand, k->operands * sizeof *k->operand, h);
}

bool kernel_equal(const struct kernel *a, const struct kernel *b) {
	return !memcmp(a, b, HEAD) && !memcmp(a->value, b->value, a->values * sizeof *a->value) &&
		!memcmp(a->operand, b->operand, a->operands * sizeof *a->operand);
}

size_t kernel_bytes(const struct kernel *k) {
	return HEAD + k->values * sizeof *k->value + k->operands * sizeof *k->operand;
}

void kernel_pack(const struct kernel *k, unsigned char *bytes) {
	memcpy(bytes, k, HEAD);
	memcpy(bytes + HEAD, k->value, k->values * sizeof *k->value);
	memcpy(bytes + HEAD + k->values * sizeof *k->value, k->operand, k->operands * sizeof *k->operand);
}

struct kernel *kernel_unpack(const unsigned char *bytes, size_t size) {
	struct kernel *k = size >= HEAD ? calloc(1, sizeof *k) : NULL;

	if (!k)
		return NULL;
	memcpy(k, bytes, HEAD);
	if (k->values > KERNEL_VALUES || k->operands > KERNEL_OPERANDS || k->scalars > KERNEL_SCALARS || kernel_bytes(k) != size) {
		free(k);
		return NULL;
	}
	memcpy(k->value, bytes + HEAD, k->values * sizeof *k->value);
	memcpy(k->operand, bytes + HEAD + k->values * sizeof *k->value, k->operands * sizeof *k->operand);
	return k;
}

/* With the first of its values alone. */
static void copy_parts(const struct kernel *k, unsigned values, struct kernel *to) {
	memcpy(to, k, HEAD);
	memcpy(to->value, k->value, values * sizeof *k->value);
	memcpy(to->operand, k->operand, k->operands * sizeof *k->operand);
}

struct kernel *kernel_dup(const struct kernel *k) {
	struct kernel *copy = malloc(sizeof *copy);

	if (!copy)
		return NULL;
	copy_parts(k, k->values, copy);
	return copy;
}

/* A kernel over rows made of a product's operands and the first of its values. */
static void rows_of(const struct kernel *k, unsigned values, struct kernel *rows) {
	copy_parts(k, values, rows);
	rows->root = KERNEL_ROWS;
	rows->form = KERNEL_FORM_ROW;
	rows->root_value = KERNEL_NONE;
}

void kernel_before(const struct kernel *k, struct kernel *rows) {
	rows_of(k, k->root_value, rows);
	rows->kept = (uint8_t)(k->rank - 1u);
	rows->values = k->root_value;
	rows->operand[0].access = KERNEL_CONTIGUOUS;
	for (unsigned o = 1; o < rows->operands; o++)
		rows->operand[o].output = false;
}

void kernel_after(const struct kernel *k, struct kernel *rows) {
	rows_of(k, k->values, rows);
	rows->rank = (uint8_t)(k->rank - 1u);
	rows->kept = (uint8_t)(k->rank - 2u);
	rows->long_rows = false;
	rows->carry = 0;
	rows->value[k->root_value] = (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = k->accumulator, .space = KERNEL_SPACE_ROW,
		.index = k->carry };
	rows->operand[k->carry].output = false;
	rows->operand[k->carry].access = KERNEL_CONTIGUOUS;
	rows->operand[0].output = false;
}

/*
 * Does the device multiply matrices of 16-bit floats by instructions of its own, as kernels/matrix.cl writes them?
 *
 * Only where the quirks table says that the compiler may know their names is it tried: a product that emit
 * writes is built and run, and its results, small integers, must be right. A device that fails simply multiplies by fma;
 * nothing here fails the start but want of memory.
 *
 * Then the same of those of kernels/wgmma.cl, whose results on factors of any size must be the others' bit by bit: which of them
 * computes a product is a matter of its shape.
 */
#include "guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/emit/emit.h"

enum {
	/* Larger than a step of the instruction each way, but whole in no dim but N. */
	TRIAL_M = 35,
	TRIAL_N = 24,
	TRIAL_K = 40,
	/* More than a tile each way, and of K more than all its stages and a part of one. */
	TRIAL_WGMMA_M = 136,
	TRIAL_WGMMA_N = 264,
	TRIAL_WGMMA_K = 456,
	TRIAL_WORDS = KERNEL_WORD_DIMS + 3 + 3 * (1 + 3),
};

_Static_assert(TRIAL_M * TRIAL_K % 8 == 0 && TRIAL_WGMMA_M * TRIAL_WGMMA_K % 8 == 0, "operands lie whole");

struct trial {
	struct device *d;
	int64_t m, n, k;
	uint16_t (*factor)(unsigned i);
	struct kernel kernel;
	struct emit_launch launch;
	uint64_t record[TRIAL_WORDS];
	cl_program program;
	cl_kernel object;
	cl_mem records, memory;
	struct guard guard;
	bool cached;
};

static void trial_clear(struct trial *t) {
	guard_leave(&t->guard);
	if (t->object)
		clReleaseKernel(t->object);
	if (t->program)
		clReleaseProgram(t->program);
	if (t->records)
		clReleaseMemObject(t->records);
	if (t->memory)
		clReleaseMemObject(t->memory);
}

/* From -4 to 4. */
static int small(unsigned i) {
	return (int)(i * 7 % 9) - 4;
}

/* The upper half of a float's bits. */
static uint16_t small_factor(unsigned i) {
	float f = (float)small(i);
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return (uint16_t)(bits >> 16);
}

/* bf16 of both signs, and from 2^-8 to 2^7: sums of their products are rounded at each step. */
static uint16_t any_factor(unsigned i) {
	uint32_t x = (i + 1) * 0x9e3779b9U;

	x = (x ^ x >> 16) * 0x7feb352dU;
	x ^= x >> 15;
	return (uint16_t)((x & 0x807f) | (119 + (x >> 8 & 15)) << 7);
}

static unsigned trial_b(const struct trial *t) {
	return (unsigned)(t->m * t->k);
}

static unsigned trial_factors(const struct trial *t) {
	return trial_b(t) + (unsigned)(t->k * t->n);
}

/* Bytes of the results, which stand behind the factors. */
static size_t trial_bytes(const struct trial *t) {
	return (size_t)(t->m * t->n) * sizeof(float);
}

static void write_kernel(struct kernel *k, unsigned tile) {
	k->root = KERNEL_MATMUL;
	k->op = OP_matmul;
	k->rank = 3;
	k->block_dim = 0xff;
	k->accumulator = DTYPE_f32;
	k->tile = (uint8_t)tile;
	k->width = kernel_tiles[k->tile].lanes;
	k->values = 1;
	k->value[0] = (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = DTYPE_f32 };
	k->operands = 3;
	for (unsigned o = 0; o < 2; o++)
		k->operand[o] = (struct kernel_operand){ .dtype = DTYPE_bf16, .access = KERNEL_CONTIGUOUS, .value = KERNEL_NONE };
	k->operand[2] = (struct kernel_operand){ .dtype = DTYPE_f32, .access = KERNEL_CONTIGUOUS, .output = true };
}

static void write_record(struct trial *t) {
	const int64_t dims[KERNEL_RANK] = { t->m, t->n, t->k };
	const uint64_t address[] = { 0, 2ul * trial_b(t), 2ul * trial_factors(t) };
	const uint64_t k = (uint64_t)t->k, n = (uint64_t)t->n, stride[][3] = { { k, 0, 1 }, { 0, 1, n }, { n, 1, 0 } };

	t->launch = emit_geometry(&t->kernel, &t->d->traits, dims, k, t->record);
	for (unsigned d = 0; d < 3; d++)
		t->record[kernel_word_dim(d)] = (uint64_t)dims[d];
	for (unsigned o = 0; o < 3; o++) {
		t->record[kernel_word_operand(&t->kernel, o)] = address[o];
		memcpy(&t->record[kernel_word_operand(&t->kernel, o) + 1], stride[o], sizeof stride[o]);
	}
}

static cl_int trial_build(struct trial *t) {
	CLEANUP(str_free) struct str source = { 0 };
	CLEANUP(str_free) struct str options = { 0 };
	CLEANUP(cleanup_free) char *log = NULL;
	cl_int error;

	emit_options(&t->d->traits, &options);
	if (emit_source(&t->kernel, &t->d->traits, &source) || str_finish(&options))
		return CL_OUT_OF_HOST_MEMORY;
	error = build_source(t->d, str_text(&source), str_text(&options), &t->guard, &t->program, &t->cached, &log);
	if (!error)
		t->object = clCreateKernel(t->program, "fused", &error);
	return error;
}

static cl_int trial_memory(struct trial *t) {
	unsigned factors = trial_factors(t);
	size_t size = sizeof(uint16_t) * factors + trial_bytes(t);
	uint16_t *bytes = malloc(size);
	cl_int error;

	if (!bytes)
		return CL_OUT_OF_HOST_MEMORY;
	memset(bytes, 0xff, size);
	for (unsigned i = 0; i < factors; i++)
		bytes[i] = t->factor(i);
	t->records = clCreateBuffer(t->d->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof t->record, t->record, &error);
	if (!error)
		t->memory = clCreateBuffer(t->d->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, bytes, &error);
	free(bytes);
	return error;
}

static cl_int trial_run(const struct trial *t, float *result) {
	size_t items[2] = { t->launch.items, 1 }, local[2] = { t->launch.local, 1 };
	cl_command_queue queue = t->d->work.queue;
	cl_ulong first = 0;
	cl_int error = clSetKernelArg(t->object, 0, sizeof t->records, &t->records);

	if (!error)
		error = clSetKernelArg(t->object, 1, sizeof first, &first);
	for (unsigned i = 0; i < t->d->traits.pools && !error; i++)
		error = clSetKernelArg(t->object, 2 + i, sizeof t->memory, &t->memory);
	if (!error)
		error = clEnqueueNDRangeKernel(queue, t->object, 2, NULL, items, local, 0, NULL, NULL);
	if (!error)
		error = clEnqueueReadBuffer(queue, t->memory, CL_TRUE, 2ul * trial_factors(t), trial_bytes(t), result, 0, NULL, NULL);
	return error;
}

static bool is_right(const float *result) {
	for (unsigned i = 0; i < TRIAL_M * TRIAL_N; i++) {
		unsigned m = i / TRIAL_N, n = i % TRIAL_N;
		int sum = 0;

		for (unsigned k = 0; k < TRIAL_K; k++)
			sum += small(m * TRIAL_K + k) * small(TRIAL_M * TRIAL_K + k * TRIAL_N + n);
		if (result[i] != (float)sum)
			return false;
	}
	return true;
}

/* What was found lies in the cache beside the trial's program. */
static struct cache_key kept_key(const struct trial *t) {
	CLEANUP(str_free) struct str source = { 0 };
	CLEANUP(str_free) struct str options = { 0 };

	str_append(&source, "instructions on matrices are right\n");
	emit_options(&t->d->traits, &options);
	if (emit_source(&t->kernel, &t->d->traits, &source) || str_finish(&options))
		return build_key(t->d, "instructions on matrices", "");
	return build_key(t->d, str_text(&source), str_text(&options));
}

static bool recall(const struct trial *t, const struct cache_key *key) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	size_t size = 0;

	return !cache_load(&t->d->cache, key, &bytes, &size) && size == 1;
}

/* On a full disk the next start tries again. */
static void keep(const struct trial *t, const struct cache_key *key) {
	if (cache_store(&t->d->cache, key, "1", 1))
		log_debug("that instructions on matrices are right is tried again at the next start");
}

/* A kernel of such tiles, its results, and its program among those that are kept. */
static bool runs(struct trial *t, float *result) {
	write_record(t);
	if (trial_build(t) || trial_memory(t) || trial_run(t, result))
		return false;
	if (!t->cached)
		programs_keep(t->d, NULL, t->program, &t->guard.key);
	return true;
}

static bool is_matrix(struct device *d) {
	CLEANUP(trial_clear) struct trial t = { .d = d, .m = TRIAL_M, .n = TRIAL_N, .k = TRIAL_K, .factor = small_factor };
	float result[TRIAL_M * TRIAL_N];
	struct cache_key key;

	write_kernel(&t.kernel, KERNEL_TILE_MATRIX_MEDIUM);
	key = kept_key(&t);
	if (recall(&t, &key))
		return true;
	if (!runs(&t, result) || !is_right(result))
		return false;
	keep(&t, &key);
	return true;
}

static bool have_the_same_bits(struct trial *t, struct trial *other) {
	float *result = calloc(2, trial_bytes(t));
	bool same = result && runs(t, result) && runs(other, result + t->m * t->n) && !memcmp(result, result + t->m * t->n, trial_bytes(t));

	free(result);
	return same;
}

static bool is_wgmma(struct device *d) {
	CLEANUP(trial_clear) struct trial t = { .d = d, .m = TRIAL_WGMMA_M, .n = TRIAL_WGMMA_N, .k = TRIAL_WGMMA_K, .factor = any_factor };
	CLEANUP(trial_clear) struct trial other = t;
	struct cache_key key;

	write_kernel(&t.kernel, KERNEL_TILE_WGMMA);
	write_kernel(&other.kernel, KERNEL_TILE_MATRIX_MEDIUM);
	key = kept_key(&t);
	if (recall(&t, &key))
		return true;
	if (!have_the_same_bits(&t, &other))
		return false;
	keep(&t, &key);
	return true;
}

void matrix_probe(struct device *d) {
	struct traits *t = &d->traits;

	if (t->strategy != STRATEGY_GPU || !(d->quirks->flags & QUIRK_MATRIX) ||
		t->local_size < kernel_tile_items(KERNEL_TILE_MATRIX_MEDIUM))
		return;
	t->matrix = is_matrix(d);
	t->wgmma = t->matrix && t->local_size >= kernel_tile_items(KERNEL_TILE_WGMMA) && is_wgmma(d);
}

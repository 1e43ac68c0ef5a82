/*
 * Does the device multiply matrices of 16-bit floats by instructions of its own, as kernels/matrix.cl writes them?
 *
 * Only where the quirks table says that the compiler may know their names is it tried: a product that emit
 * writes is built and run, and its results, small integers, must be right. A device that fails simply multiplies by fma;
 * nothing here fails the start but want of memory.
 */
#include "guard.h"

#include <errno.h>
#include <string.h>

#include "daemon/emit/emit.h"

/* Larger than a step of the instruction each way, but whole in no dim but N. */
enum {
	TRIAL_M = 35,
	TRIAL_N = 24,
	TRIAL_K = 40,
	TRIAL_B = TRIAL_M * TRIAL_K,
	TRIAL_FACTORS = TRIAL_B + TRIAL_K * TRIAL_N,
	/* Bytes; results stand behind the factors. */
	TRIAL_RESULT = TRIAL_FACTORS * 2,
	TRIAL_BYTES = TRIAL_RESULT + TRIAL_M * TRIAL_N * 4,
	TRIAL_WORDS = KERNEL_WORD_DIMS + 3 + 3 * (1 + 3),
};

_Static_assert(TRIAL_B % 8 == 0 && TRIAL_RESULT % 16 == 0, "operands lie whole");

struct trial {
	struct device *d;
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
static int factor(unsigned i) {
	return (int)(i * 7 % 9) - 4;
}

/* The upper half of a float's bits. */
static uint16_t to_bf16(int value) {
	float f = (float)value;
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return (uint16_t)(bits >> 16);
}

static void write_kernel(struct kernel *k) {
	k->root = KERNEL_MATMUL;
	k->op = OP_matmul;
	k->rank = 3;
	k->block_dim = 0xff;
	k->accumulator = DTYPE_f32;
	k->tile = KERNEL_TILE_MATRIX_MEDIUM;
	k->width = kernel_tiles[k->tile].lanes;
	k->values = 1;
	k->value[0] = (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = DTYPE_f32 };
	k->operands = 3;
	for (unsigned o = 0; o < 2; o++)
		k->operand[o] = (struct kernel_operand){ .dtype = DTYPE_bf16, .access = KERNEL_CONTIGUOUS, .value = KERNEL_NONE };
	k->operand[2] = (struct kernel_operand){ .dtype = DTYPE_f32, .access = KERNEL_CONTIGUOUS, .output = true };
}

static void write_record(struct trial *t) {
	static const int64_t dims[KERNEL_RANK] = { TRIAL_M, TRIAL_N, TRIAL_K };
	static const uint64_t address[] = { 0, 2ul * TRIAL_B, TRIAL_RESULT };
	static const uint64_t stride[][3] = { { TRIAL_K, 0, 1 }, { 0, 1, TRIAL_N }, { TRIAL_N, 1, 0 } };

	t->launch = emit_geometry(&t->kernel, &t->d->traits, dims, TRIAL_K, t->record);
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
	uint8_t bytes[TRIAL_BYTES];
	cl_int error;

	memset(bytes, 0xff, sizeof bytes);
	for (unsigned i = 0; i < TRIAL_FACTORS; i++) {
		uint16_t element = to_bf16(factor(i));

		memcpy(bytes + 2ul * i, &element, sizeof element);
	}
	t->records = clCreateBuffer(t->d->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof t->record, t->record, &error);
	if (!error)
		t->memory = clCreateBuffer(t->d->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof bytes, bytes, &error);
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
		error = clEnqueueReadBuffer(queue, t->memory, CL_TRUE, TRIAL_RESULT, sizeof *result * TRIAL_M * TRIAL_N, result, 0,
			NULL, NULL);
	return error;
}

static bool is_right(const float *result) {
	for (unsigned i = 0; i < TRIAL_M * TRIAL_N; i++) {
		unsigned m = i / TRIAL_N, n = i % TRIAL_N;
		int sum = 0;

		for (unsigned k = 0; k < TRIAL_K; k++)
			sum += factor(m * TRIAL_K + k) * factor(TRIAL_B + k * TRIAL_N + n);
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

void matrix_probe(struct device *d) {
	CLEANUP(trial_clear) struct trial t = { .d = d };
	float result[TRIAL_M * TRIAL_N];
	struct cache_key key;

	if (d->traits.strategy != STRATEGY_GPU || !(d->quirks->flags & QUIRK_MATRIX) ||
		d->traits.local_size < kernel_tile_items(KERNEL_TILE_MATRIX_MEDIUM))
		return;
	write_kernel(&t.kernel);
	key = kept_key(&t);
	if (recall(&t, &key)) {
		d->traits.matrix = true;
		return;
	}
	write_record(&t);
	if (trial_build(&t) || trial_memory(&t) || trial_run(&t, result) || !is_right(result))
		return;
	d->traits.matrix = true;
	if (!t.cached)
		programs_keep(d, NULL, t.program, &t.guard.key);
	/* On a full disk the next start tries again. */
	if (cache_store(&d->cache, &key, "1", 1))
		return;
}

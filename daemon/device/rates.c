/*
 * How fast the device is: what a launch costs, how much memory moves at which footprint, what operations
 * and products take, each on one compute unit and on all of them.
 *
 * A builder thread measures while the device has nothing else to do, in stages of one program each; a
 * build or a launch of the engine's ends the stage, which is repeated when it is quiet again. Until then
 * traits.rates holds what is typical. The kernels are those that emit writes for clients, so that what is
 * measured is what will run; only arithmetic has a kernel of its own. The result is one entry of the cache
 * of programs, so a device is measured once a driver and version of ours. A pass takes a few hundred
 * milliseconds, besides building ten programs.
 *
 * Of several runs the fastest counts, and of several passes: others may use the machine. It ends with a
 * pass that finds little faster than those before. Nothing here changes a result's bits.
 */
#include "guard.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/log.h"
#include "daemon/emit/emit.h"

enum {
	/* Part of the key: of the meaning of struct rates and of how it is measured. */
	RATES_VERSION = 5,
	/* Nothing was launched or built for this long. */
	RATES_QUIET_MS = 2000,
	/* Runs of which the fastest counts. */
	RATES_SAMPLES = 12,
	RATES_LAUNCHES = 64,
	/* What a run waits for its end is at most one part in so many of what it takes: a figure is never better by more than that. */
	RATES_WAITS = 8,
	/* Of a unit, at a clock: f32 that it adds, bytes of its nearest cache that it reads. No device has more; processors have less. */
	RATES_UNIT_ADDS = 128,
	RATES_UNIT_READS = 128,
	RATES_PASSES = 3,
	/* A run moves this much a unit, so that what starting it costs does not show. */
	RATES_MOVED = 4 << 20,
	/* Footprints: of a unit at first; at last this many times the device's cache, within bounds. */
	RATES_UNIT_BYTES = 32 << 10,
	RATES_CACHES = 4,
	RATES_BYTES_LEAST = 64 << 20,
	RATES_BYTES_MOST = 512 << 20,
	/* Drivers of devices with memory of their own tell the size of another cache than the last one. */
	RATES_BYTES_DISCRETE = RATES_BYTES_MOST,
	/* Work-items or groups a unit where all are at work, as kernels have: one that is late leaves none idle. */
	RATES_GROUPS = RATE_GROUPS,
	/* But each has this many bytes. */
	RATES_PART = 64 << 10,
	RATES_ROW = KERNEL_BLOCK,
	/* Side of a transposed matrix and of a product, times the root of the units; K of the product. */
	RATES_SIDE = 500,
	RATES_PRODUCT = 256,
	/* Arrays of arithmetic, of a group. */
	RATES_ARRAY = 16 << 10,
};

/* A pass is the last where fewer than this share of its figures are better than before by this much. */
#define RATES_BETTER 1.1
#define RATES_SHARE 0.2

/* A run of arithmetic is repeated until it takes this long. */
#define RATES_RUN_NS 1e5

/* What a stage needs: a builder's queue, memory to work on, and the program it measures with. */
struct rates_bench {
	struct builder *builder;
	struct device *device;
	struct measure *measure;
	cl_mem memory, records;
	uint64_t bytes;
	cl_program program;
	cl_kernel object;
	struct guard guard;
	struct kernel kernel;
	uint64_t record[KERNEL_WORD_DIMS + KERNEL_RANK + KERNEL_OPERANDS * (1 + KERNEL_RANK) + KERNEL_SCALARS];
	size_t items, local;
};

static double now_ns(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t most(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

static uint64_t least(uint64_t a, uint64_t b) {
	return a < b ? a : b;
}

static unsigned units_of(const struct rates_bench *b, enum rate_units u) {
	return u == RATE_ONE ? 1 : (unsigned)most(b->device->traits.units, 1);
}

/* Work-items or groups that keep the units busy. */
static unsigned parts_of(const struct rates_bench *b, enum rate_units u) {
	return units_of(b, u) * (u == RATE_ALL ? RATES_GROUPS : 1);
}

/* And share a footprint: as many as there are units where more would be too small. */
static unsigned parts_of_bytes(const struct rates_bench *b, enum rate_units u, uint64_t bytes) {
	bool small = b->device->traits.strategy == STRATEGY_CPU && bytes / parts_of(b, u) < RATES_PART;

	return small ? units_of(b, u) : parts_of(b, u);
}

/* ---- programs ---- */

/* What is measured is not kept, so it is only sealed. */
static void bench_drop(struct rates_bench *b) {
	if (b->object && !guard_end(&b->guard))
		log_debug("what was measured was left by an earlier process");
	guard_leave(&b->guard);
	if (b->object)
		clReleaseKernel(b->object);
	if (b->program)
		clReleaseProgram(b->program);
	b->object = NULL;
	b->program = NULL;
}

static int bench_build(struct rates_bench *b, struct str *source, const char *name) {
	CLEANUP(str_free) struct str options = { 0 };
	CLEANUP(cleanup_free) char *log = NULL;
	bool cached;
	cl_int error;

	bench_drop(b);
	emit_options(&b->device->traits, &options);
	if (str_finish(&options))
		return -ENOMEM;
	error = build_source(b->device, str_text(source), str_text(&options), &b->guard, &b->program, &cached, &log);
	if (!error)
		b->object = clCreateKernel(b->program, name, &error);
	return error ? -EIO : 0;
}

static int bench_kernel(struct rates_bench *b) {
	CLEANUP(str_free) struct str source = { 0 };
	struct traits t = b->device->traits;
	int r;

	/* Launched again and again on one record, which is there. */
	t.own_words = 0;
	r = emit_source(&b->kernel, &t, &source);
	return r ? r : bench_build(b, &source, "fused");
}

static void kernel_begin(struct kernel *k, enum kernel_root root, const struct traits *t, unsigned rank) {
	memset(k, 0, sizeof *k);
	k->root = (uint8_t)root;
	k->width = t->width;
	k->rank = (uint8_t)rank;
	k->block_dim = 0xff;
	k->root_value = KERNEL_NONE;
}

static void kernel_input(struct kernel *k, uint8_t dtype, enum kernel_access access) {
	k->operand[k->operands++] = (struct kernel_operand){ .dtype = dtype, .access = (uint8_t)access,
		.value = KERNEL_NONE };
}

static void kernel_output(struct kernel *k, uint8_t dtype, enum kernel_access access, bool stream) {
	k->operand[k->operands++] = (struct kernel_operand){ .dtype = dtype, .access = (uint8_t)access,
		.output = true, .stream = stream, .value = (uint16_t)(k->values - 1) };
}

static void kernel_value(struct kernel *k, struct kernel_value v) {
	k->value[k->values++] = v;
}

/* As the planner would. */
static uint8_t map_width(const struct traits *t) {
	return t->strategy == STRATEGY_GPU ? KERNEL_GPU_VECTOR : t->width;
}

/* out = -in */
static void kernel_copy(struct kernel *k, const struct traits *t, unsigned rank, enum kernel_access in, bool stream) {
	kernel_begin(k, KERNEL_MAP, t, rank);
	if (in == KERNEL_CONTIGUOUS)
		k->width = map_width(t);
	kernel_input(k, DTYPE_f32, in);
	kernel_value(k, (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = DTYPE_f32 });
	kernel_value(k, (struct kernel_value){ .kind = KERNEL_OP, .dtype = DTYPE_f32, .op = OP_neg });
	kernel_output(k, DTYPE_f32, KERNEL_CONTIGUOUS, stream);
}

static void kernel_fill(struct kernel *k, const struct traits *t, unsigned rank, bool stream) {
	kernel_begin(k, KERNEL_MAP, t, rank);
	k->width = map_width(t);
	k->scalars = 1;
	kernel_value(k, (struct kernel_value){ .kind = KERNEL_SCALAR, .dtype = DTYPE_f32 });
	kernel_output(k, DTYPE_f32, KERNEL_CONTIGUOUS, stream);
}

static void kernel_sum(struct kernel *k, const struct traits *t) {
	kernel_begin(k, KERNEL_REDUCE, t, 4);
	k->kept = 3;
	k->form = KERNEL_FORM_ROW;
	k->op = OP_reduce_sum;
	k->accumulator = DTYPE_f32;
	kernel_input(k, DTYPE_f32, KERNEL_CONTIGUOUS);
	kernel_value(k, (struct kernel_value){ .kind = KERNEL_LOAD, .dtype = DTYPE_f32 });
	k->root_value = k->values;
	kernel_value(k, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = DTYPE_f32 });
	kernel_output(k, DTYPE_f32, KERNEL_UNIFORM, false);
}

static void kernel_product(struct kernel *k, const struct traits *t, uint8_t dtype) {
	kernel_begin(k, KERNEL_MATMUL, t, 3);
	k->op = OP_matmul;
	k->accumulator = dtype;
	if (t->strategy == STRATEGY_CPU) {
		k->vectors = (uint8_t)kernel_most_vectors(t->width, dtype);
		k->rows = (uint8_t)kernel_most_rows(t->width, dtype, k->vectors);
	}
	k->root_value = 0;
	kernel_input(k, dtype, t->strategy == STRATEGY_CPU ? KERNEL_UNIFORM : KERNEL_CONTIGUOUS);
	kernel_input(k, dtype, KERNEL_CONTIGUOUS);
	kernel_value(k, (struct kernel_value){ .kind = KERNEL_ROOT_VALUE, .dtype = dtype });
	kernel_output(k, dtype, KERNEL_CONTIGUOUS, false);
	if (t->strategy == STRATEGY_GPU) {
		k->tile = kernel_tile_largest(k, t);
		k->width = kernel_tiles[k->tile].lanes;
	}
}

/* ---- tasks ---- */

/* Writes dims and the launch; where parts is not 0, the work is cut into so many items or groups. */
static void task_cut(struct rates_bench *b, const int64_t *dims, uint64_t extent, unsigned parts) {
	const struct kernel *k = &b->kernel;
	const struct traits *t = &b->device->traits;
	struct emit_launch launch = emit_geometry(k, t, dims, extent, b->record);
	bool lanes = k->root == KERNEL_MAP && t->strategy == STRATEGY_GPU;

	for (unsigned d = 0; d < k->rank; d++)
		b->record[kernel_word_dim(d)] = (uint64_t)dims[d];
	if (parts) {
		uint64_t share = (uint64_t)parts * (lanes ? launch.local : 1);

		b->record[KERNEL_WORD_UNITS_PER_ITEM] =
			most((b->record[KERNEL_WORD_UNITS] + share - 1) / share, 1);
		b->record[KERNEL_WORD_ITEMS] = launch.items = (uint64_t)parts * launch.local;
	}
	b->items = launch.items;
	b->local = launch.local;
}

/* Where an operand lies, in bytes from the start of the memory, and its strides. */
static void task_operand(struct rates_bench *b, unsigned operand, uint64_t offset, const int64_t *stride) {
	uint64_t *word = &b->record[kernel_word_operand(&b->kernel, operand)];

	word[0] = offset;
	for (unsigned d = 0; d < b->kernel.rank; d++)
		word[1 + d] = (uint64_t)stride[d];
}

static int set_arguments(struct rates_bench *b) {
	cl_ulong first = 0;
	cl_int error = clEnqueueWriteBuffer(
		b->builder->queue, b->records, CL_TRUE, 0, sizeof b->record, b->record, 0, NULL, NULL);

	if (!error)
		error = clSetKernelArg(b->object, 0, sizeof b->records, &b->records);
	if (!error)
		error = clSetKernelArg(b->object, 1, sizeof first, &first);
	for (unsigned i = 0; i < b->device->traits.pools && !error; i++)
		error = clSetKernelArg(b->object, 2 + i, sizeof b->memory, &b->memory);
	return error ? -EIO : 0;
}

/* `launches` launches, waited for once; -EAGAIN where the engine wants the device. */
static int run(struct rates_bench *b, unsigned launches, double *nsp) {
	size_t items[2] = { b->items, 1 }, local[2] = { b->local, 1 };
	double start = now_ns();

	for (unsigned i = 0; i < launches; i++)
		if (clEnqueueNDRangeKernel(
			    b->builder->queue, b->object, 2, NULL, items, local, 0, NULL, NULL))
			return -EIO;
	if (clFinish(b->builder->queue))
		return -EIO;
	*nsp = now_ns() - start;
	return atomic_load(&b->measure->stop) ? -EAGAIN : 0;
}

/*
 * A launch: of the fastest of several runs after one that does not count, without what waiting costs. A run has as many launches as
 * make waiting little beside them: on a device that is waited for 100 us, and does what it is asked for in as much, the difference
 * of two times would be anything.
 */
static int sample(struct rates_bench *b, double *nsp) {
	double wait = b->measure->rates.wait_ns, best = INFINITY, ns = 0;
	unsigned launches = 1;
	int r = run(b, 1, &ns);

	if (!r)
		r = run(b, 1, &ns);
	while (!r && ns < RATES_WAITS * wait && launches < RATES_LAUNCHES) {
		launches *= 2;
		r = run(b, launches, &ns);
	}
	for (unsigned i = 0; !r && i < RATES_SAMPLES; i++) {
		r = run(b, launches, &ns);
		best = fmin(best, ns);
	}
	*nsp = (best - fmin(wait, best / RATES_WAITS)) / launches;
	return r;
}

static int task_sample(struct rates_bench *b, double *nsp) {
	int r = set_arguments(b);

	return r ? r : sample(b, nsp);
}

/* ---- launches ---- */

static int event_ns(cl_event event, double *nsp) {
	cl_ulong start, end;

	if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL) ||
		clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL))
		return -EIO;
	*nsp = end > start ? (double)(end - start) : 1;
	return 0;
}

/* One launch on a queue that keeps times: what the driver says it took on the device. */
static int run_timed(struct rates_bench *b, cl_command_queue queue, double *nsp) {
	size_t items[2] = { b->items, 1 }, local[2] = { b->local, 1 };
	cl_event event = NULL;
	int r;

	if (clEnqueueNDRangeKernel(queue, b->object, 2, NULL, items, local, 0, NULL, &event))
		return -EIO;
	r = clFinish(queue) ? -EIO : event_ns(event, nsp);
	clReleaseEvent(event);
	return r ? r : atomic_load(&b->measure->stop) ? -EAGAIN : 0;
}

/* Of the launch that is set up, which has no work. */
static int measure_start(struct rates_bench *b) {
	cl_int error;
	cl_command_queue queue = clCreateCommandQueue(
		b->device->context, b->device->choice.device, CL_QUEUE_PROFILING_ENABLE, &error);
	double best = INFINITY, ns = 0;
	int r = error ? -EIO : 0;

	for (unsigned i = 0; !r && i < RATES_SAMPLES; i++) {
		r = run_timed(b, queue, &ns);
		best = fmin(best, ns);
	}
	if (!error)
		clReleaseCommandQueue(queue);
	b->measure->rates.start_ns = best;
	return r;
}

static int measure_launch(struct rates_bench *b) {
	struct rates *to = &b->measure->rates;
	double best = INFINITY, alone = INFINITY, ns;
	int r;

	kernel_copy(&b->kernel, &b->device->traits, 3, KERNEL_CONTIGUOUS, false);
	r = bench_kernel(b);
	task_cut(b, (int64_t[KERNEL_RANK]){ 1, 1, 1 }, 0, 1);
	memset(b->record, 0, sizeof b->record);
	if (!r)
		r = set_arguments(b);
	if (!r)
		r = run(b, 1, &ns);
	for (unsigned i = 0; !r && i < RATES_SAMPLES; i++) {
		r = run(b, RATES_LAUNCHES, &ns);
		best = fmin(best, ns / RATES_LAUNCHES);
		if (!r)
			r = run(b, 1, &ns);
		alone = fmin(alone, ns);
	}
	to->launch_ns = best;
	to->wait_ns = alone;
	return r ? r : measure_start(b);
}

/* ---- memory ---- */

/* Where all of a GPU is at work, work is cut as it is cut for clients: no number of groups is the usual one. */
static bool cut_as_usual(const struct rates_bench *b, enum rate_units u) {
	return u == RATE_ALL && b->device->traits.strategy == STRATEGY_GPU;
}

/* Elements of one part's share of a footprint, of one of `arrays` arrays: whole groups and vectors. */
static int64_t share(uint64_t bytes, unsigned parts, unsigned arrays) {
	uint64_t n = bytes / parts / arrays / sizeof(cl_float) & ~(uint64_t)255;

	return (int64_t)most(n, 256);
}

static int64_t repeats(const struct rates_bench *b, enum rate_units u, uint64_t bytes) {
	return (int64_t)most((uint64_t)RATES_MOVED * units_of(b, u) / bytes, 1);
}

/* Repetitions, parts, elements; a GPU's work-items find their place by as few divisions as may be. */
static unsigned map_rank(const struct rates_bench *b) {
	return b->device->traits.strategy == STRATEGY_GPU ? 2 : 3;
}

/*
 * A copy, or without inputs a fill, over a footprint: repetitions by parts by elements. Where a unit has one
 * part, it repeats that, which stays in its own cache.
 */
static int measure_map(struct rates_bench *b, enum rate_units u, unsigned size, double *ratep) {
	uint64_t bytes = (uint64_t)b->measure->rates.bytes[size];
	unsigned parts = parts_of_bytes(b, u, bytes), arrays = b->kernel.operands, skip = 3 - map_rank(b);
	bool own = parts == units_of(b, u);
	int64_t n = share(bytes, parts, arrays), times = repeats(b, u, bytes);
	unsigned cut = own ? parts : parts * (unsigned)times;
	double ns = 1;
	int r;

	if (cut_as_usual(b, u)) {
		n *= parts;
		parts = 1;
		own = true;
		cut = 0;
	}
	task_cut(b, (int64_t[3 + KERNEL_RANK]){ own ? parts : times, own ? times : parts, n } + skip, 0, cut);
	for (unsigned o = 0; o < arrays; o++)
		task_operand(b, o, o * bytes / 2,
			(int64_t[3 + KERNEL_RANK]){ own ? n : 0, own ? 0 : n, 1 } + skip);
	r = task_sample(b, &ns);
	*ratep = (double)parts * (double)times * (double)n * arrays * sizeof(cl_float) / ns;
	return r;
}

/* Sums of rows of `row` elements; they lie behind the rows. */
static int measure_sum(struct rates_bench *b, enum rate_units u, unsigned size, int64_t row, double *nsp,
	double *elementsp) {
	uint64_t bytes = (uint64_t)b->measure->rates.bytes[size];
	unsigned parts = parts_of_bytes(b, u, bytes);
	bool own = parts == units_of(b, u);
	int64_t n = share(bytes, parts, 1), length = (int64_t)least((uint64_t)row, (uint64_t)n);
	int64_t times = repeats(b, u, bytes), rows = n / length;
	int64_t dims[KERNEL_RANK] = { own ? parts : times, own ? times : parts, rows, length };
	int64_t in[KERNEL_RANK] = { own ? n : 0, own ? 0 : n, length, 1 };
	int64_t out[KERNEL_RANK] = { own ? rows : 0, own ? 0 : rows, 1, 0 };

	task_cut(b, dims, (uint64_t)length, cut_as_usual(b, u) ? 0 : own ? parts : parts * (unsigned)times);
	task_operand(b, 0, 0, in);
	task_operand(b, 1, bytes, out);
	*elementsp = (double)(dims[0] * dims[1] * rows * length);
	return task_sample(b, nsp);
}

/* Sizes of a kind of traffic from `first` to `end`, for one unit and for all. */
static int measure_sizes(struct rates_bench *b, enum rate_traffic kind, unsigned first, unsigned end) {
	int r = bench_kernel(b);

	for (unsigned u = 0; !r && u < RATE_UNITS; u++)
		for (unsigned i = first; !r && i < end; i++)
			r = measure_map(b, (enum rate_units)u, i, &b->measure->rates.memory[u][kind][i]);
	return r;
}

/* Does the planner have outputs of the largest size stored past the caches? */
static bool streams(const struct rates_bench *b) {
	uint64_t bytes = b->device->traits.stream_bytes;

	return bytes && (double)bytes <= b->measure->rates.bytes[RATE_SIZES - 1] / 2;
}

static int measure_copy(struct rates_bench *b) {
	unsigned end = RATE_SIZES - streams(b);
	int r;

	kernel_copy(&b->kernel, &b->device->traits, map_rank(b), KERNEL_CONTIGUOUS, false);
	r = measure_sizes(b, RATE_COPY, 0, end);
	if (r || end == RATE_SIZES)
		return r;
	kernel_copy(&b->kernel, &b->device->traits, map_rank(b), KERNEL_CONTIGUOUS, true);
	return measure_sizes(b, RATE_COPY, end, RATE_SIZES);
}

static int measure_write(struct rates_bench *b) {
	unsigned end = RATE_SIZES - streams(b);
	int r;

	kernel_fill(&b->kernel, &b->device->traits, map_rank(b), false);
	r = measure_sizes(b, RATE_WRITE, 0, end);
	if (r || end == RATE_SIZES)
		return r;
	kernel_fill(&b->kernel, &b->device->traits, map_rank(b), true);
	return measure_sizes(b, RATE_WRITE, end, RATE_SIZES);
}

static int measure_read(struct rates_bench *b) {
	struct rates *to = &b->measure->rates;
	double ns = 1, elements = 1;
	int r;

	kernel_sum(&b->kernel, &b->device->traits);
	r = bench_kernel(b);
	for (unsigned u = 0; !r && u < RATE_UNITS; u++) {
		double *rate = to->memory[u][RATE_READ];

		for (unsigned i = 0; !r && i < RATE_SIZES; i++) {
			r = measure_sum(b, (enum rate_units)u, i, RATES_ROW, &ns, &elements);
			rate[i] = elements * sizeof(cl_float) / ns;
		}
		if (!r)
			r = measure_sum(b, (enum rate_units)u, 0, KERNEL_COLUMNS, &ns, &elements);
		ns -= elements * sizeof(cl_float) / rate[0];
		to->row_ns[u] = fmax(ns / elements * KERNEL_COLUMNS, sizeof(cl_float) / rate[0]);
	}
	return r;
}

/* ---- across the rows, products ---- */

/* A side times the root of the units, of squares of which three fit the memory. */
static int64_t side_of(const struct rates_bench *b, enum rate_units u, unsigned side, unsigned bytes) {
	double root = ceil(sqrt(units_of(b, u)));

	return (int64_t)fmin(side * root, floor(sqrt((double)b->bytes / (3.0 * bytes))));
}

static int measure_strided(struct rates_bench *b) {
	struct rates *to = &b->measure->rates;
	int r;

	kernel_copy(&b->kernel, &b->device->traits, 2, KERNEL_STRIDED, false);
	r = bench_kernel(b);
	for (unsigned u = 0; !r && u < RATE_UNITS; u++) {
		int64_t n = side_of(b, (enum rate_units)u, RATES_SIDE, sizeof(cl_float));
		double ns = 1, plain = 2 * sizeof(cl_float) / to->memory[u][RATE_COPY][1];

		task_cut(b, (int64_t[KERNEL_RANK]){ n, n }, 0, u == RATE_ONE ? 1 : 0);
		task_operand(b, 0, 0, (int64_t[KERNEL_RANK]){ 1, n });
		task_operand(b, 1, b->bytes / 2, (int64_t[KERNEL_RANK]){ n, 1 });
		r = task_sample(b, &ns);
		to->strided_ns[u] = fmax(ns / (double)(n * n) - plain, plain / 8);
	}
	return r;
}

static int measure_products(struct rates_bench *b, enum rate_float type) {
	uint8_t dtype = type == RATE_F64 ? DTYPE_f64 : DTYPE_f32;
	unsigned bytes = dtype_info(dtype)->bytes;
	int r;

	kernel_product(&b->kernel, &b->device->traits, dtype);
	r = bench_kernel(b);
	for (unsigned u = 0; !r && u < RATE_UNITS; u++) {
		int64_t n = side_of(b, (enum rate_units)u, RATES_PRODUCT, bytes), k = RATES_PRODUCT;
		double ns = 1;

		/* A group of the GPU strategy computes one tile. */
		if (u == RATE_ONE && b->device->traits.strategy == STRATEGY_GPU)
			n = kernel_tiles[b->kernel.tile].rows;

		task_cut(b, (int64_t[KERNEL_RANK]){ n, n, k }, (uint64_t)k, u == RATE_ONE ? 1 : 0);
		task_operand(b, 0, 0, (int64_t[KERNEL_RANK]){ k, 0, 1 });
		task_operand(b, 1, b->bytes / 3 & ~(uint64_t)127, (int64_t[KERNEL_RANK]){ 0, 1, n });
		task_operand(b, 2, b->bytes / 3 * 2 & ~(uint64_t)127, (int64_t[KERNEL_RANK]){ n, 1, 0 });
		r = task_sample(b, &ns);
		b->measure->rates.product_ns[u][type] = ns / (double)(n * n * k);
	}
	return r;
}

static int measure_product_f32(struct rates_bench *b) {
	return measure_products(b, RATE_F32);
}

static int measure_product_f64(struct rates_bench *b) {
	return measure_products(b, RATE_F64);
}

/* ---- arithmetic ---- */

/* From 0.1 to 0.9, where every class has its usual path. */
static void fill_values(void *values, enum rate_float type, uint64_t n) {
	for (uint64_t i = 0; i < n; i++) {
		double value = 0.1 + 0.8 * (double)(i % 977) / 977;

		if (type == RATE_F64)
			((double *)values)[i] = value;
		else
			((float *)values)[i] = (float)value;
	}
}

static int put_inputs(struct rates_bench *b, enum rate_float type, uint64_t elements) {
	uint64_t size = type == RATE_F64 ? sizeof(double) : sizeof(float);
	void *values = calloc(elements, size);
	cl_int error;

	if (!values)
		return -ENOMEM;
	fill_values(values, type, elements);
	error = clEnqueueWriteBuffer(
		b->builder->queue, b->memory, CL_TRUE, 0, elements * size, values, 0, NULL, NULL);
	free(values);
	return error ? -EIO : 0;
}

static int set_class(struct rates_bench *b, cl_uint what, cl_uint count, cl_uint repeat) {
	cl_int error = clSetKernelArg(b->object, 0, sizeof b->memory, &b->memory);

	if (!error)
		error = clSetKernelArg(b->object, 1, sizeof b->records, &b->records);
	if (!error)
		error = clSetKernelArg(b->object, 2, sizeof what, &what);
	if (!error)
		error = clSetKernelArg(b->object, 3, sizeof count, &count);
	if (!error)
		error = clSetKernelArg(b->object, 4, sizeof repeat, &repeat);
	return error ? -EIO : 0;
}

/* Nanoseconds of one walk over the arrays, in a run long enough to tell. */
static int measure_walk(struct rates_bench *b, cl_uint what, cl_uint count, double *nsp) {
	double ns = 0, enough = RATES_RUN_NS + b->measure->rates.wait_ns;
	cl_uint repeat = 1;
	int r;

	do {
		r = set_class(b, what, count, repeat);
		if (!r)
			r = run(b, 1, &ns);
		repeat *= ns > enough ? 1 : 4;
	} while (!r && ns <= enough && repeat < 1 << 20);
	if (!r)
		r = sample(b, nsp);
	*nsp /= ns > enough ? repeat : repeat / 4;
	return r;
}

/*
 * Loading and storing an element counts as part of its operation: a difference of two short times would be
 * anything on a busy machine.
 */
static int measure_classes(struct rates_bench *b, enum rate_float type, enum rate_units u, uint64_t elements,
	cl_uint count) {
	double *to = b->measure->rates.op_ns[u][type], ns = 1;
	int r = 0;

	for (unsigned c = 0; !r && c < RATE_CLASSES; c++) {
		r = measure_walk(b, c, count, &ns);
		to[c] = ns / (double)elements / emit_rates_ops(c, b->device->traits.strategy);
	}
	return r;
}

static int measure_ops(struct rates_bench *b, enum rate_float type) {
	CLEANUP(str_free) struct str source = { 0 };
	const struct traits *t = &b->device->traits;
	uint64_t lanes = t->strategy == STRATEGY_CPU ? t->width : t->local_size;
	uint64_t elements = RATES_ARRAY / (type == RATE_F64 ? sizeof(double) : sizeof(float));
	int r = emit_rates(type, t, &source);

	if (!r)
		r = bench_build(b, &source, "rates");
	if (!r)
		r = put_inputs(b, type, elements * parts_of(b, RATE_ALL));
	b->local = t->strategy == STRATEGY_CPU ? 1 : t->local_size;
	for (unsigned u = 0; !r && u < RATE_UNITS; u++) {
		unsigned parts = parts_of(b, (enum rate_units)u);

		b->items = parts * b->local;
		r = measure_classes(b, type, (enum rate_units)u, elements * parts, (cl_uint)(elements / lanes));
	}
	return r;
}

static int measure_ops_f32(struct rates_bench *b) {
	return measure_ops(b, RATE_F32);
}

static int measure_ops_f64(struct rates_bench *b) {
	return measure_ops(b, RATE_F64);
}

/* ---- passes ---- */

/* Keeps the better of two figures; counts those that are new by much. */
static void keep_better(double *best, const double *fresh, unsigned count, bool times, unsigned *newp) {
	for (unsigned i = 0; i < count; i++) {
		double ratio = times ? best[i] / fresh[i] : fresh[i] / best[i];

		*newp += ratio > RATES_BETTER;
		if (ratio > 1)
			best[i] = fresh[i];
	}
}

enum {
	RATES_TIMES = 3 + RATE_UNITS * (RATE_FLOATS * RATE_CLASSES + RATE_FLOATS + 2),
	RATES_FIGURES = RATES_TIMES + RATE_UNITS * RATE_TRAFFICS * RATE_SIZES,
};

/* Returns whether much was new. */
static bool merge_pass(struct rates *best, const struct rates *fresh) {
	unsigned new = 0;

	keep_better(&best->launch_ns, &fresh->launch_ns, 1, true, &new);
	keep_better(&best->wait_ns, &fresh->wait_ns, 1, true, &new);
	keep_better(&best->start_ns, &fresh->start_ns, 1, true, &new);
	for (unsigned u = 0; u < RATE_UNITS; u++) {
		for (unsigned k = 0; k < RATE_TRAFFICS; k++)
			keep_better(best->memory[u][k], fresh->memory[u][k], RATE_SIZES, false, &new);
		for (unsigned f = 0; f < RATE_FLOATS; f++)
			keep_better(best->op_ns[u][f], fresh->op_ns[u][f], RATE_CLASSES, true, &new);
		keep_better(best->product_ns[u], fresh->product_ns[u], RATE_FLOATS, true, &new);
	}
	keep_better(best->strided_ns, fresh->strided_ns, RATE_UNITS, true, &new);
	keep_better(best->row_ns, fresh->row_ns, RATE_UNITS, true, &new);
	return new > RATES_SHARE * RATES_FIGURES;
}

/* ---- stages ---- */

static const struct {
	int (*function)(struct rates_bench *b);
	bool f64;
} stages[] = {
	{ measure_launch, false },
	{ measure_read, false },
	{ measure_copy, false },
	{ measure_write, false },
	{ measure_strided, false },
	{ measure_product_f32, false },
	{ measure_product_f64, true },
	{ measure_ops_f32, false },
	{ measure_ops_f64, true },
};

enum { STAGES = sizeof stages / sizeof *stages };

/* Geometric from a unit's nearest cache to well beyond the last one. */
static void choose_sizes(const struct device *d, struct rates *r) {
	cl_ulong cache = 0, largest = 0;
	double low = (double)most(d->traits.units, 1) * RATES_UNIT_BYTES, high;

	if (clGetDeviceInfo(d->choice.device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL))
		cache = 0;
	if (clGetDeviceInfo(d->choice.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL))
		largest = RATES_BYTES_LEAST;
	high = (double)least(most(RATES_CACHES * cache, d->flat ? RATES_BYTES_LEAST : RATES_BYTES_DISCRETE),
		RATES_BYTES_MOST);
	high = fmax(fmin(high, (double)largest / 2), 8 * low);
	for (unsigned i = 0; i < RATE_SIZES; i++)
		r->bytes[i] = low * pow(high / low, (double)i / (RATE_SIZES - 1));
	for (unsigned i = 0; i < RATE_SIZES; i++)
		r->bytes[i] = floor(r->bytes[i] / LIMIT_ALIGNMENT / 2) * LIMIT_ALIGNMENT * 2;
}

static void bench_close(struct rates_bench *b) {
	bench_drop(b);
	if (b->memory)
		clReleaseMemObject(b->memory);
	if (b->records)
		clReleaseMemObject(b->records);
}

/* Records share a buffer with the results of arithmetic. */
static int bench_open(struct rates_bench *b, struct builder *builder) {
	const cl_uint zero = 0;
	uint64_t records;
	cl_int error;

	b->builder = builder;
	b->device = builder->device;
	b->measure = &builder->device->measure;
	if (!b->measure->stage)
		choose_sizes(b->device, &b->measure->rates);
	b->bytes = (uint64_t)b->measure->rates.bytes[RATE_SIZES - 1];
	records = most(sizeof b->record, (uint64_t)RATES_ARRAY * parts_of(b, RATE_ALL));
	/* And a sum of each row of KERNEL_COLUMNS. */
	b->memory = clCreateBuffer(b->device->context, CL_MEM_READ_WRITE,
		b->bytes + b->bytes / KERNEL_COLUMNS + LIMIT_ALIGNMENT, NULL, &error);
	if (!error)
		b->records = clCreateBuffer(b->device->context, CL_MEM_READ_WRITE, records, NULL, &error);
	if (!error)
		error = clEnqueueFillBuffer(
			builder->queue, b->memory, &zero, sizeof zero, 0, b->bytes, 0, NULL, NULL);
	return error || clFinish(builder->queue) ? -EIO : 0;
}

/* All units are at least as fast as one, and at most so many times: what says otherwise was disturbed. */
static void agree(double *one, double *all, unsigned units, bool times) {
	double least_of_one = times ? *all : *all / units, most_of_one = times ? *all * units : *all;

	if (times ? *one > most_of_one : *one < least_of_one)
		*one = times ? most_of_one : least_of_one;
	if (times ? *all > *one : *all < *one)
		*all = *one;
}

/* What lies in a nearer cache is read at least as fast as what lies further away. */
static void nearer_is_faster(double *rate) {
	for (unsigned i = RATE_SIZES - 1; i > 0; i--)
		rate[i - 1] = fmax(rate[i - 1], rate[i]);
}

/* No clock is faster than what a device says, nor a unit wider than any: what says otherwise left out some of its work. */
static void rates_bound(const struct device *d, struct rates *r) {
	cl_uint mhz = 0, units = (cl_uint)most(d->traits.units, 1);
	double clock;

	if (clGetDeviceInfo(d->choice.device, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof mhz, &mhz, NULL) || !mhz)
		return;
	clock = mhz / 1e3 * units;
	for (unsigned u = 0; u < RATE_UNITS; u++) {
		for (unsigned f = 0; f < RATE_FLOATS; f++) {
			for (unsigned c = 0; c < RATE_CLASSES; c++)
				r->op_ns[u][f][c] = fmax(r->op_ns[u][f][c], 1 / (clock * RATES_UNIT_ADDS));
			r->product_ns[u][f] = fmax(r->product_ns[u][f], 1 / (clock * RATES_UNIT_ADDS));
		}
		for (unsigned i = 0; i < RATE_SIZES; i++)
			r->memory[u][RATE_READ][i] = fmin(r->memory[u][RATE_READ][i], clock * RATES_UNIT_READS);
	}
}

static void rates_agree(struct rates *r, unsigned units) {
	for (unsigned k = 0; k < RATE_TRAFFICS; k++)
		for (unsigned i = 0; i < RATE_SIZES; i++)
			agree(&r->memory[RATE_ONE][k][i], &r->memory[RATE_ALL][k][i], units, false);
	for (unsigned f = 0; f < RATE_FLOATS; f++)
		for (unsigned c = 0; c < RATE_CLASSES; c++)
			agree(&r->op_ns[RATE_ONE][f][c], &r->op_ns[RATE_ALL][f][c], units, true);
	for (unsigned f = 0; f < RATE_FLOATS; f++)
		agree(&r->product_ns[RATE_ONE][f], &r->product_ns[RATE_ALL][f], units, true);
	agree(&r->strided_ns[RATE_ONE], &r->strided_ns[RATE_ALL], units, true);
	agree(&r->row_ns[RATE_ONE], &r->row_ns[RATE_ALL], units, true);
	for (unsigned u = 0; u < RATE_UNITS; u++)
		nearer_is_faster(r->memory[u][RATE_READ]);
}

/* Without doubles their figures stand for nothing, but must be sound. */
static void rates_finish(struct device *d) {
	struct rates *r = &d->measure.rates;

	if (!d->traits.f64)
		for (unsigned u = 0; u < RATE_UNITS; u++) {
			memcpy(r->op_ns[u][RATE_F64], r->op_ns[u][RATE_F32], sizeof r->op_ns[u][RATE_F64]);
			r->product_ns[u][RATE_F64] = r->product_ns[u][RATE_F32];
		}
	r->measured = true;
}

/* 0 where the pass was the last, 1 where another shall follow. */
static int end_pass(struct measure *m) {
	bool first = !m->passes++;
	bool more = first;

	if (first)
		m->best = m->rates;
	else
		more = merge_pass(&m->best, &m->rates);
	m->stage = 0;
	return more && m->passes < RATES_PASSES;
}

static int run_stages(struct rates_bench *b) {
	struct measure *m = b->measure;
	int r = 0;

	for (; !r && m->stage < STAGES; m->stage += !r)
		if (!stages[m->stage].f64 || b->device->traits.f64)
			r = stages[m->stage].function(b);
	return r;
}

int rates_measure(struct builder *builder) {
	CLEANUP(bench_close) struct rates_bench b = { 0 };
	struct device *d = builder->device;
	struct cache_key key = rates_key(d);
	int r = bench_open(&b, builder);

	do {
		if (!r)
			r = run_stages(&b);
		if (!r)
			rates_finish(d);
	} while (!r && end_pass(&d->measure));
	if (r)
		return r;
	rates_bound(d, &d->measure.best);
	/* Of a GPU "one" is one group. */
	rates_agree(&d->measure.best, d->traits.strategy == STRATEGY_GPU ? parts_of(&b, RATE_ALL) : units_of(&b, RATE_ALL));
	if (!rates_sound(&d->measure.best))
		return -EIO;
	/* Where it is not kept, the next start measures again. */
	return cache_store(&d->cache, &key, &d->measure.best, sizeof d->measure.best) == -ENOMEM ? -ENOMEM : 0;
}

/* ---- the engine's side ---- */

struct cache_key rates_key(const struct device *d) {
	CLEANUP(str_free) struct str text = { 0 };

	str_printf(&text, "rates %d of %zu bytes, strategy %d, %u lanes, %u units", RATES_VERSION,
		sizeof(struct rates), (int)d->traits.strategy, d->traits.width, d->traits.units);
	return build_key(d, str_finish(&text) ? "rates" : str_text(&text), "");
}

void rates_open(struct device *d) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct cache_key key = rates_key(d);
	size_t size = 0;
	struct rates r;

	d->traits.rates = *rates_typical(d->traits.strategy);
	if (cache_load(&d->cache, &key, &bytes, &size))
		return;
	if (size == sizeof r)
		memcpy(&r, bytes, sizeof r);
	if (size == sizeof r && r.measured && rates_sound(&r)) {
		d->traits.rates = r;
		return;
	}
	cache_remove(&d->cache, &key);
}

void rates_text(const struct rates *r, struct str *text) {
	const double *read = r->memory[RATE_ALL][RATE_READ], *copy = r->memory[RATE_ALL][RATE_COPY];

	str_printf(text, "%s: launch %.1f us, waited for %.1f us, on the device %.1f us; reads %.0f GB/s and copies %.0f GB/s, in the "
			 "nearest cache %.0f and %.0f; ",
		r->measured ? "measured" : "not measured yet, taken as", r->launch_ns / 1e3, r->wait_ns / 1e3, r->start_ns / 1e3,
		read[RATE_SIZES - 1], copy[RATE_SIZES - 1], read[0], copy[0]);
	str_printf(text, "of f32 a nanosecond %.3g additions, %.3g divisions, %.3g exp; products %.3g GFLOP/s",
		1 / r->op_ns[RATE_ALL][RATE_F32][RATE_CHEAP], 1 / r->op_ns[RATE_ALL][RATE_F32][RATE_DIVIDE],
		1 / r->op_ns[RATE_ALL][RATE_F32][RATE_EXP], 2 / r->product_ns[RATE_ALL][RATE_F32]);
}

/* Takes over what a builder has measured; gives up where the driver refuses the kernels. */
static void collect(struct device *d) {
	struct measure *m = &d->measure;

	if (!m->result)
		d->traits.rates = m->best;
	atomic_store(&m->state, m->result == -EAGAIN ? MEASURE_WAITING : MEASURE_NOT);
}

void rates_poll(struct device *d) {
	struct measure *m = &d->measure;

	if (atomic_load(&m->state) == MEASURE_ENDED)
		collect(d);
	if (atomic_load(&m->state) != MEASURE_WAITING || !programs_quiet(d, RATES_QUIET_MS))
		return;
	atomic_store(&m->stop, false);
	pthread_mutex_lock(&d->programs.lock);
	atomic_store(&m->state, MEASURE_WANTED);
	pthread_cond_signal(&d->programs.work);
	pthread_mutex_unlock(&d->programs.lock);
}

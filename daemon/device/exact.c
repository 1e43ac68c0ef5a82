/*
 * Which arithmetic the device computes, and whether it shares the host's addresses: found by trying.
 *
 * Results must be the same bits on every path through fusiond, which rests on four properties:
 * a * b + c is two roundings, / and sqrt round correctly, subnormals are kept, and vectors compute
 * what scalars compute. A device that fails one of them works, but is marked inexact and says so.
 *
 * What was found is kept beside the programs: a device that passed once passes with the same driver, and to load the probes takes a
 * fifth of a warm start. One that failed is tried again each time.
 *
 * A flat device hands kernels the host's own pointer, and lets them look beyond the buffer object
 * that the pointer came from. The second part is only tried on CPUs whose pointer passed the first:
 * anywhere else it could cost the context.
 */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/emit/emit.h"

enum {
	EXACT_VALUES = 256,           /* triples tried; a multiple of the lanes */
	EXACT_TESTS = 4,
	EXACT_RESULTS = EXACT_TESTS * EXACT_VALUES,
	EXACT_FORMS = 2,              /* scalars, vectors */
	/* Where the flat probe looks: behind the ring, in a page mapped for it. */
	EXACT_BEYOND = 64 << 20,
	EXACT_PAGE = 4096,
	/* How long the engine waits for a worker that builds them: twice what one takes on a machine of its own, and how often it looks. */
	EXACT_PATIENCE_MS = 2000,
	EXACT_TICK_MS = 2,
	EXACT_TRIES = 2,
};

/*
 * Scalars first, then vectors. It names no function that DECLARE would have to declare, but for two. Somebody waits for it on an empty
 * cache, so loops stay as they are, and what a kernel does is apart from it, as in emit/frame.c.
 */
static const char exact_source[] =
	"#pragma OPENCL FP_CONTRACT OFF\n"
	"#define ARITHMETIC(name, T, V, lanes) \\\n"
	"static __attribute__((noinline)) void name##_body(global const T *scalars, global T *out, uint n); \\\n"
	"kernel void name(global const T *scalars, global T *out, uint n) { name##_body(scalars, out, n); } \\\n"
	"static void name##_body(global const T *scalars, global T *out, uint n) { \\\n"
	"	global const V *vectors = (global const V *)scalars; \\\n"
	"	FORM(T, scalars, out, n) \\\n"
	"	FORM(V, vectors, (global V *)(out + 4 * n), n / lanes) \\\n"
	"}\n"
	"#define FORM(T, in, out, n) \\\n"
	"	_Pragma(\"clang loop unroll(disable) vectorize(disable)\") for (uint i = 0; i < n; i++) { \\\n"
	"		T a = in[i], b = in[i + n], c = in[i + 2 * n]; \\\n"
	"		(out)[i] = a * b + c; \\\n"
	"		(out)[i + n] = a / b; \\\n"
	"		(out)[i + 2 * n] = sqrt(fabs(a)); \\\n"
	"		(out)[i + 3 * n] = a * (T)(0.25f); \\\n"
	"	}\n"
	"#ifdef HAS_F64\n"
	"#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
	"#endif\n"
	"#ifdef DECLARE\n"
	"#define DECLARE_REAL(T) __attribute__((overloadable, const)) T sqrt(T); \\\n"
	"	__attribute__((overloadable, const)) T fabs(T);\n"
	"DECLARE_REAL(float) DECLARE_REAL(float16)\n"
	"#ifdef HAS_F64\n"
	"DECLARE_REAL(double) DECLARE_REAL(double8)\n"
	"#endif\n"
	"#endif\n"
	"ARITHMETIC(f32, float, float16, 16)\n"
	"#ifdef HAS_F64\n"
	"ARITHMETIC(f64, double, double8, 8)\n"
	"#endif\n"
	"kernel void where_is(global uchar *pool, global ulong *answer, ulong beyond) {\n"
	"	answer[0] = (ulong)pool;\n"
	"	answer[1] = *(global ulong *)(pool + beyond);\n"
	"	*(global ulong *)(pool + beyond) = answer[1] + 1;\n"
	"}\n";

static const char *const test_name[EXACT_TESTS] = { "a * b + c", "division", "square root",
	"subnormal numbers" };

struct bench {
	struct device *d;
	cl_program program;
	struct guard guard;
	bool cached;
	cl_mem in, out;
};

static void bench_clear(struct bench *b) {
	guard_leave(&b->guard);
	if (b->in)
		clReleaseMemObject(b->in);
	if (b->out)
		clReleaseMemObject(b->out);
	if (b->program)
		clReleaseProgram(b->program);
}

static void release_kernel(cl_kernel *kernelp) {
	if (*kernelp)
		clReleaseKernel(*kernelp);
}

/* ---- values and what the host makes of them ---- */

static uint64_t next_random(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Of either sign and a magnitude from 2^low to 2^high. */
static double random_value(uint64_t *state, int low, int high) {
	double mantissa = 1 + (double)(next_random(state) >> 12) * 0x1p-52;
	int exponent = low + (int)(next_random(state) % (unsigned)(high - low));

	return (next_random(state) & 1 ? -1 : 1) * ldexp(mantissa, exponent);
}

/* Three quarters are of common magnitude, the rest are subnormal or lead there. */
static double value_of(uint64_t *state, unsigned i, bool f64) {
	int least = f64 ? -1072 : -147;

	return i % 4 ? random_value(state, -4, 4) : random_value(state, least, least + 24);
}

/* volatile: the host's compiler must not contract either. */
static void expect_f32(const float *in, float *want) {
	const unsigned n = EXACT_VALUES;

	for (unsigned i = 0; i < n; i++) {
		volatile float product = in[i] * in[i + n];
		want[i] = product + in[i + 2 * n];
		want[i + n] = in[i] / in[i + n];
		want[i + 2 * n] = sqrtf(fabsf(in[i]));
		want[i + 3 * n] = in[i] * 0.25f;
	}
}

static void expect_f64(const double *in, double *want) {
	const unsigned n = EXACT_VALUES;

	for (unsigned i = 0; i < n; i++) {
		volatile double product = in[i] * in[i + n];
		want[i] = product + in[i + 2 * n];
		want[i + n] = in[i] / in[i + n];
		want[i + 2 * n] = sqrt(fabs(in[i]));
		want[i + 3 * n] = in[i] * 0.25;
	}
}

/* ---- running ---- */

static cl_int run_arithmetic(const struct bench *b, const char *name, void *got, size_t bytes) {
	CLEANUP(release_kernel) cl_kernel k = NULL;
	cl_command_queue queue = b->d->work.queue;
	cl_uint n = EXACT_VALUES;
	size_t one = 1;
	cl_int error;

	k = clCreateKernel(b->program, name, &error);
	if (!error)
		error = clSetKernelArg(k, 0, sizeof b->in, &b->in);
	if (!error)
		error = clSetKernelArg(k, 1, sizeof b->out, &b->out);
	if (!error)
		error = clSetKernelArg(k, 2, sizeof n, &n);
	if (!error)
		error = clEnqueueNDRangeKernel(queue, k, 1, NULL, &one, &one, 0, NULL, NULL);
	if (!error)
		error = clEnqueueReadBuffer(queue, b->out, CL_TRUE, 0, bytes, got, 0, NULL, NULL);
	return error;
}

/* Bit d is set where test d differs from the host. */
static unsigned compare(const void *want, const void *got, size_t element) {
	const size_t bytes = EXACT_VALUES * element;
	unsigned differs = 0;

	for (size_t t = 0; t < EXACT_TESTS; t++)
		if (memcmp((const char *)want + t * bytes, (const char *)got + t * bytes, bytes) != 0)
			differs |= 1u << t;
	return differs;
}

static void note_differences(struct device *d, const char *form, unsigned differs, bool *exactp) {
	for (unsigned t = 0; t < EXACT_TESTS; t++) {
		if (!(differs & 1u << t))
			continue;
		str_printf(&d->notes, "%s in the %s form differs from IEEE 754\n", test_name[t], form);
		*exactp = false;
	}
}

static cl_int test_f32(const struct bench *b, bool *exactp) {
	float in[3 * EXACT_VALUES], want[EXACT_RESULTS], got[EXACT_FORMS * EXACT_RESULTS];
	uint64_t state = 88172645463325252u;
	cl_int error;

	for (unsigned i = 0; i < 3 * EXACT_VALUES; i++)
		in[i] = (float)value_of(&state, i, false);
	expect_f32(in, want);
	error = clEnqueueWriteBuffer(b->d->work.queue, b->in, CL_TRUE, 0, sizeof in, in, 0, NULL, NULL);
	if (!error)
		error = run_arithmetic(b, "f32", got, sizeof got);
	if (error)
		return error;
	note_differences(b->d, "f32 scalar", compare(want, got, sizeof *got), exactp);
	note_differences(b->d, "f32 vector", compare(want, got + EXACT_RESULTS, sizeof *got), exactp);
	return CL_SUCCESS;
}

static cl_int test_f64(const struct bench *b, bool *exactp) {
	double in[3 * EXACT_VALUES], want[EXACT_RESULTS], got[EXACT_FORMS * EXACT_RESULTS];
	uint64_t state = 88172645463325252u;
	cl_int error;

	for (unsigned i = 0; i < 3 * EXACT_VALUES; i++)
		in[i] = value_of(&state, i, true);
	expect_f64(in, want);
	error = clEnqueueWriteBuffer(b->d->work.queue, b->in, CL_TRUE, 0, sizeof in, in, 0, NULL, NULL);
	if (!error)
		error = run_arithmetic(b, "f64", got, sizeof got);
	if (error)
		return error;
	note_differences(b->d, "f64 scalar", compare(want, got, sizeof *got), exactp);
	note_differences(b->d, "f64 vector", compare(want, got + EXACT_RESULTS, sizeof *got), exactp);
	return CL_SUCCESS;
}

/* ---- addresses ---- */

static cl_int ask_where(const struct bench *b, cl_kernel k, cl_ulong beyond, cl_ulong answer[static 2]) {
	cl_command_queue queue = b->d->work.queue;
	size_t one = 1;
	cl_int error;

	error = clSetKernelArg(k, 0, sizeof(cl_mem), &b->d->work.records);
	if (!error)
		error = clSetKernelArg(k, 1, sizeof b->out, &b->out);
	if (!error)
		error = clSetKernelArg(k, 2, sizeof beyond, &beyond);
	if (!error)
		error = clEnqueueNDRangeKernel(queue, k, 1, NULL, &one, &one, 0, NULL, NULL);
	if (!error)
		error = clEnqueueReadBuffer(
			queue, b->out, CL_TRUE, 0, 2 * sizeof *answer, answer, 0, NULL, NULL);
	return error;
}

/* A kernel changes a word that lies beyond its buffer object. */
static cl_int look_beyond(const struct bench *b, cl_kernel k, bool *flatp) {
	uint64_t *word = (uint64_t *)(b->d->memory.base + EXACT_BEYOND);
	cl_ulong answer[2] = { 0 };
	cl_int error;

	if (mmap(word, EXACT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		MAP_FAILED)
		return CL_OUT_OF_HOST_MEMORY;
	*word = 41;
	error = ask_where(b, k, EXACT_BEYOND, answer);
	*flatp = !error && answer[1] == 41 && *word == 42;
	if (mmap(word, EXACT_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		    0) == MAP_FAILED)
		return CL_OUT_OF_HOST_MEMORY;
	return error;
}

static cl_int test_flat(const struct bench *b, bool *flatp) {
	CLEANUP(release_kernel) cl_kernel k = NULL;
	cl_device_type type = 0;
	cl_ulong answer[2] = { 0 };
	cl_int error;

	*flatp = false;
	error = clGetDeviceInfo(b->d->choice.device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
	if (error || !(type & CL_DEVICE_TYPE_CPU) || b->d->config.discrete)
		return error;
	k = clCreateKernel(b->program, "where_is", &error);
	if (!error)
		error = ask_where(b, k, 0, answer);
	if (error || answer[0] != (uintptr_t)b->d->memory.base)
		return error;
	return look_beyond(b, k, flatp);
}

/* ---- all of it ---- */

static cl_int bench_build(struct bench *b, struct str *log) {
	CLEANUP(cleanup_free) char *text = NULL;
	CLEANUP(str_free) struct str options = { 0 };
	cl_int error;

	emit_options(&b->d->traits, &options);
	str_append(&options, b->d->traits.f64 ? " -DHAS_F64" : "");
	if (str_finish(&options))
		return CL_OUT_OF_HOST_MEMORY;
	guard_leave(&b->guard);
	error = build_source(b->d, exact_source, str_text(&options), &b->guard, &b->program, &b->cached, &text);
	str_clear(log);
	if (error)
		str_printf(log, "OpenCL error %d%s%s", error, text ? ": " : "", text ? text : "");
	return error;
}

/* With the driver's options and the one for correctly rounded division where they build, else without. */
static cl_int bench_build_most(struct bench *b, struct str *log) {
	static const struct {
		bool division, driver;
	} attempt[] = { { true, true }, { true, false }, { false, true }, { false, false } };
	cl_int error = CL_SUCCESS;

	for (size_t i = 0; i < sizeof attempt / sizeof *attempt; i++) {
		if (attempt[i].driver && !b->d->quirks->options)
			continue;
		b->d->traits.exact_division = attempt[i].division;
		b->d->traits.options = attempt[i].driver ? b->d->quirks->options : NULL;
		error = bench_build(b, log);
		if (!error)
			break;
	}
	return error;
}

static cl_int bench_open(struct bench *b, struct str *log) {
	const size_t bytes = sizeof(double) * EXACT_FORMS * EXACT_RESULTS;
	cl_int error = bench_build_most(b, log);

	if (error)
		return error;
	b->in = clCreateBuffer(b->d->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	if (!error)
		b->out = clCreateBuffer(b->d->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	return error;
}

static cl_int run_all(struct bench *b, struct findings *found, struct str *log) {
	cl_int error = bench_open(b, log);

	found->exact = true;
	if (error)
		return error;
	error = test_f32(b, &found->exact);
	if (!error && b->d->traits.f64)
		error = test_f64(b, &found->exact);
	if (!error)
		error = test_flat(b, &found->flat);
	if (!error && !b->cached)
		programs_keep(b->d, NULL, b->program, &b->guard.key);
	return error;
}

/* Once more where what was loaded is of an earlier process that may not have ended it. */
static cl_int run_believed(struct device *d, struct findings *found, struct str *log) {
	cl_int error = CL_SUCCESS;
	bool believed = false;

	for (unsigned i = 0; i < EXACT_TRIES && !error && !believed; i++) {
		CLEANUP(bench_clear) struct bench b = { .d = d };

		*found = (struct findings){ 0 };
		error = run_all(&b, found, log);
		believed = !error && guard_end(&b.guard);
	}
	return error;
}

/* ---- kept ---- */

/* As it lies in the cache. */
struct kept {
	uint8_t flat, division, driver;       /* findings.flat, traits.exact_division, are the driver's options taken? */
};

static struct cache_key kept_key(const struct device *d) {
	CLEANUP(str_free) struct str text = { 0 };

	str_printf(&text, "findings of %zu bytes, %d lanes, %d, %d, options %s\n%s", sizeof(struct kept), d->traits.width, d->traits.f64,
		d->config.discrete, d->quirks->options ? d->quirks->options : "", exact_source);
	return build_key(d, str_finish(&text) ? "findings" : str_text(&text), "");
}

static bool recall(struct device *d, const struct cache_key *key, struct findings *found) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct kept k;
	size_t size = 0;

	if (cache_load(&d->cache, key, &bytes, &size) || size != sizeof k)
		return false;
	memcpy(&k, bytes, sizeof k);
	d->traits.exact_division = k.division;
	d->traits.options = k.driver ? d->quirks->options : NULL;
	*found = (struct findings){ .flat = k.flat, .exact = true };
	return true;
}

static void keep(struct device *d, const struct cache_key *key, const struct findings *found) {
	const struct kept k = { found->flat, d->traits.exact_division, d->traits.options != NULL };

	/* On a full disk the next start tries again. */
	if (cache_store(&d->cache, key, &k, sizeof k))
		return;
}

/* ---- by a worker ---- */

/*
 * A driver that reads a library at the first build of each process (QUIRK_LIBRARY) would do so once more on an empty cache: in the
 * engine, while the first workers do the same. So what one of these builds to have it read is the probes, and the engine waits for
 * the note that it has been at it. One alone: drivers remove what is in their cache before they write it anew, and the engine would
 * find it gone. A worker that dies or hangs leaves none, and costs the start EXACT_PATIENCE_MS; where workers are switched off, or the
 * cache knows more, nobody is waited for. Whatever the note says, the engine builds what it runs: from the driver's cache, or anew.
 */
static struct cache_key tried_key(const struct device *d) {
	return build_key(d, exact_source, "tried");
}

static bool is_tried(const struct device *d) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct cache_key key = tried_key(d);
	size_t size;

	return !cache_load(&d->cache, &key, &bytes, &size);
}

/* False where another process has it. The lock goes with the descriptor, and so with the process. */
static bool lock_probes(const struct device *d, int *fdp) {
	*fdp = open(d->cache.programs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *fdp < 0 || !flock(*fdp, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
}

/* Something that nobody builds, so that the driver knows none of it. */
static void build_nothing(const struct device *d) {
	const char *nothing = "kernel void fused(global unsigned long *records) { records[0] = 0; }\n", *options = d->quirks->options;
	cl_int error;
	CLEANUP(cleanup_program) cl_program program = clCreateProgramWithSource(d->context, 1, &nothing, NULL, &error);

	if (!error && clBuildProgram(program, 1, &d->choice.device, options ? options : "", NULL, NULL))
		log_debug("the compiler does not take an empty kernel");
}

static void build_probes(struct device *d) {
	CLEANUP(bench_clear) struct bench b = { .d = d };
	CLEANUP(str_free) struct str log = { 0 };
	struct cache_key key = tried_key(d);

	/* A driver that cannot even do this says so in the engine, and at the first job. */
	if (bench_build_most(&b, &log))
		log_debug("a worker builds no probes: %s", str_finish(&log) ? "" : str_text(&log));
	if (d->quirks->flags & QUIRK_LIBRARY && !is_tried(d) && cache_store(&d->cache, &key, "tried", sizeof "tried"))
		log_debug("it is not noted that the probes were built");
}

void exact_build(struct device *d) {
	CLEANUP(cleanup_close) int lock = -1;

	if (lock_probes(d, &lock))
		build_probes(d);
	else
		build_nothing(d);
}

static void await_worker(const struct device *d) {
	const struct timespec tick = { .tv_nsec = EXACT_TICK_MS * 1000000L };
	uint64_t end = loop_now_ns() + UINT64_C(1000000) * EXACT_PATIENCE_MS;

	if (!d->programs.early || !(d->quirks->flags & QUIRK_LIBRARY))
		return;
	while (!is_tried(d) && loop_now_ns() < end)
		nanosleep(&tick, NULL);
}

int exact_probe(struct device *d, struct findings *found, struct fault *f) {
	CLEANUP(str_free) struct str log = { 0 };
	struct cache_key key = kept_key(d);
	cl_int error;

	if (recall(d, &key, found))
		return 0;
	await_worker(d);
	error = run_believed(d, found, &log);
	if (!error && found->exact)
		keep(d, &key, found);
	if (error)
		return fault_set(f, FAULT_DEVICE,
			"the device %s does not run the first kernel (OpenCL error %d): %s; mend its "
			"driver",
			d->choice.name, error, str_text(&log));
	return 0;
}

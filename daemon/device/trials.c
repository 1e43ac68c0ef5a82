/*
 * Does the driver give a context, build and run a kernel, and take what its compiler says that it has (trials.def)?
 *
 * Compilers die of that: they abort, or end the process. So it is tried in the child in which drivers are listed (probe.c), which tells
 * the parent after each step that it has come back; where it died the parent knows at which, and asks another child for the rows behind.
 * What was found is kept beside the programs, for this device and driver: it is tried once. A driver for which it is known beforehand
 * (QUIRK_BUILTINS) is tried only where an engine died of it.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"

enum {
	TRIAL_BYTES = 4096,
};

struct row {
	const char *name, *statement, *doc;
};

#define GUARDED(has, statement) "#ifdef __has_builtin\n#if " has "\n" statement "\n#endif\n#endif\n"

static const struct row rows[TRIALS] = {
#define TRIAL(name, has, statement, doc) { #name, GUARDED(has, statement), doc },
#include "trials.def"
#undef TRIAL
};

static const char every_row[] =
#define TRIAL(name, has, statement, doc) "{\n" GUARDED(has, statement) "}\n"
#include "trials.def"
#undef TRIAL
	;

/* Of each product and most functions; a driver whose library lacks it is of no use (Mesa's beside a libclc that is not its own). */
static const char needed[] = "a[0] = fma(a[1], a[2], a[3]); *(global float16 *)a = fma(*(global float16 *)a, (float16)2, (float16)1);\n";

/* ---- what is known ---- */

static struct cache_key kept_key(const struct device *d) {
	return build_key(d, every_row, "trials");
}

bool trials_recall(struct device *d) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct cache_key key = kept_key(d);
	size_t size;

	/* Who only looks has no cache. */
	if (!d->cache.programs || cache_load(&d->cache, &key, &bytes, &size) || size != sizeof d->lacks)
		return false;
	memcpy(&d->lacks, bytes, sizeof d->lacks);
	return true;
}

void trials_keep(struct device *d) {
	struct cache_key key = kept_key(d);

	int r = cache_store(&d->cache, &key, &d->lacks, sizeof d->lacks);

	if (r)
		log_info("what the compiler lacks is tried again at the next start: %s", strerror(-r));
}

bool trials_are_needless(const struct device *d) {
	cl_device_type type = 0;

	return d->quirks->flags & QUIRK_BUILTINS &&
		!clGetDeviceInfo(d->choice.device, CL_DEVICE_TYPE, sizeof type, &type, NULL) && type & CL_DEVICE_TYPE_CPU;
}

void trials_settle(struct device *d) {
	str_clear(&d->without);
	for (unsigned i = 0; i < TRIALS; i++)
		if (d->lacks & 1u << i)
			str_printf(&d->without, "%s-DWITHOUT_%s", d->without.length ? " " : "", rows[i].name);
	d->traits.without = d->without.length && !str_finish(&d->without) ? str_text(&d->without) : NULL;
}

void trials_note(const struct device *d, struct str *notes) {
	for (unsigned i = 0; i < TRIALS; i++)
		if (d->lacks & 1u << i)
			str_printf(notes, "the compiler says that it has %s, and does not take it: kernels go without\n", rows[i].doc);
}

/* ---- in the child ---- */

struct bench {
	cl_device_id device;
	cl_context context;
	cl_command_queue queue;
	cl_mem memory;
	const char *options;
};

static bool open_bench(struct bench *b) {
	cl_int error;

	b->context = clCreateContext(NULL, 1, &b->device, NULL, NULL, &error);
	if (!error)
		b->queue = clCreateCommandQueue(b->context, b->device, 0, &error);
	if (!error)
		b->memory = clCreateBuffer(b->context, CL_MEM_READ_WRITE, TRIAL_BYTES, NULL, &error);
	return !error;
}

static cl_int launch(const struct bench *b, cl_program program) {
	size_t one = 1;
	cl_int error;
	cl_kernel k = clCreateKernel(program, "fused", &error);

	if (!error)
		error = clSetKernelArg(k, 0, sizeof b->memory, &b->memory);
	if (!error)
		error = clEnqueueNDRangeKernel(b->queue, k, 1, NULL, &one, &one, 0, NULL, NULL);
	return error ? error : clFinish(b->queue);
}

/* Nothing is given back: the process ends. */
static bool takes(const struct bench *b, const char *statement) {
	CLEANUP(str_free) struct str source = { 0 };
	const char *text;
	cl_program program;
	cl_int error;

	str_printf(&source, "kernel void fused(global float *a) {\na[0] = 1;\n%s}\n", statement);
	if (str_finish(&source))
		return false;
	text = str_text(&source);
	program = clCreateProgramWithSource(b->context, 1, &text, NULL, &error);
	if (!error)
		error = clBuildProgram(program, 1, &b->device, b->options, NULL, NULL);
	return !error && !launch(b, program);
}

static void tell(int fd, char what) {
	if (write(fd, &what, 1) != 1)
		_exit(1);
}

/* first < 0: all at once, which is mostly all there is to it; else row by row from there. */
void trials_run(const struct device *d, int first, int fd) {
	struct bench b = { .device = d->choice.device, .options = "-cl-std=CL1.2" };
	bool all;

	/* What is refused in order, the engine meets itself, and says so. */
	if (!open_bench(&b))
		return;
	tell(fd, TRIAL_CONTEXT);
	if (!takes(&b, ""))
		return;
	tell(fd, TRIAL_KERNEL);
	if (!takes(&b, needed)) {
		tell(fd, TRIAL_NEEDED);
		return;
	}
	all = first < 0 && takes(&b, every_row);
	for (int i = first < 0 ? 0 : first; i < TRIALS; i++)
		tell(fd, all || takes(&b, rows[i].statement) ? TRIAL_TAKEN : TRIAL_REFUSED);
}

/*
 * One build, on a builder thread: text, cache, compiler, warm-up.
 *
 * What no cache has is compiled by the builder's worker, a process of its own (worker.c); then the caches have it. A worker that
 * dies of a program costs that build. Where there are no workers, it is compiled here, and a driver that does not come back from it ends the engine, once.
 *
 * Some drivers make machine code only at a kernel's first launch and stall every queue meanwhile,
 * so a program is READY only once it has been launched by the worker, which leaves that code in the driver's cache, and here,
 * on the builder's own queue with a record of zeros, for the local size that the engine will use.
 */
#include "direct.h"
#include "guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/descriptors.h"
#include "daemon/base/log.h"
#include "daemon/emit/emit.h"

enum {
	/* Nobody waits for what is built at idle priority; but on a machine that is never idle it would never be built. */
	BUILD_IDLE_MS = 1000,
	/* ... unless nobody wants it: an interpreter takes some seconds of an idle processor. */
	BUILD_SPARE_MS = 30000,
	/*
	 * A worker ends by itself after device.worker_us, not counting what it waits for processors (watchdog.c). One that could not
	 * is killed after so many times that, which is as long as a machine may be busy.
	 */
	BUILD_PATIENCE = 10,
	/* Workers that die may have been killed by somebody else, so one more is tried; */
	BUILD_TRIES = 2,
	/* but no program takes more of them than these, also not in later engines. */
	BUILD_DEATHS = 3,
	/* What a program takes in a driver, where nobody tells: its machine code, and as much again of what the driver knows of it. */
	BUILD_BYTES = 300 << 10,
};

static const char entry_point[] = "fused";

static uint64_t now_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void release_kernel(cl_kernel *kernelp) {
	if (*kernelp)
		clReleaseKernel(*kernelp);
}

/* ---- warming up ---- */

static uint32_t local_size(const struct device *d, const struct kernel *k) {
	uint64_t record[KERNEL_WORD_DIMS + KERNEL_RANK + KERNEL_OPERANDS * (1 + KERNEL_RANK) + KERNEL_SCALARS];
	int64_t dims[KERNEL_RANK];

	for (unsigned i = 0; i < KERNEL_RANK; i++)
		dims[i] = 1;
	return emit_geometry(k, &d->traits, dims, 1, record).local;
}

/* Launches once and waits for it. */
static cl_int launch(const struct builder *b, cl_kernel object, const struct warmup *w) {
	size_t items[2] = { w->items, 1 }, local[2] = { w->local, 1 };
	cl_int error;

	error = clEnqueueNDRangeKernel(b->queue, object, 2, NULL, items, local, 0, NULL, NULL);
	return error ? error : clFinish(b->queue);
}

/*
 * Work-items of the widest launch that is prepared for. The driver keeps a kernel's machine code
 * under the width of the launch that first asked for it, makes it again for a wider one, and then,
 * where a narrower launch is still running, counts the wrong one's users and aborts. So the first
 * launch is as wide as any: GRID_GROUPS in the GPU strategy, which only tests force on such a driver.
 */
enum { GRID_GROUPS = 1 << 20 };

size_t builder_widest(const struct device *d, size_t local) {
	if (!d->quirks->grid_limit)
		return local;
	return d->traits.strategy == STRATEGY_CPU ? (d->quirks->grid_limit - 1) / local * local : GRID_GROUPS;
}

static struct warmup warmup_of(const struct device *d, const struct kernel *k) {
	uint32_t local = local_size(d, k);

	return (struct warmup){ .items = builder_widest(d, local),
		.local = local,
		.launches = d->quirks->grid_limit ? BUILDER_WARMUPS : 1,
		.pools = d->traits.pools,
		.own_words = kernel_own_words(k, &d->traits) };
}

static cl_int warm_up_on(const struct builder *b, cl_kernel object, const struct warmup *w, uint32_t *launchesp) {
	static const cl_ulong own[DEVICE_OWN_WORDS];
	cl_ulong first = 0;
	cl_int error;

	error = clSetKernelArg(object, 0, sizeof b->records, &b->records);
	if (!error)
		error = clSetKernelArg(object, 1, sizeof first, &first);
	for (unsigned i = 0; i < w->pools && !error; i++)
		error = clSetKernelArg(object, 2 + i, sizeof b->records, &b->records);
	if (w->own_words && !error)
		error = clSetKernelArg(object, 2 + w->pools, w->own_words * sizeof *own, own);
	for (*launchesp = 0; *launchesp < w->launches && !error; ++*launchesp)
		error = launch(b, object, w);
	return error;
}

static cl_int open_on(struct builder *b, struct target t) {
	uint64_t zero[KERNEL_WORD_DIMS + KERNEL_RANK + KERNEL_OPERANDS * (1 + KERNEL_RANK) +
		      KERNEL_SCALARS] = { 0 };
	cl_int error;

	b->queue = clCreateCommandQueue(t.context, t.device, 0, &error);
	if (error)
		return error;
	b->records = clCreateBuffer(t.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, zero, &error);
	return error;
}

static void close_queue(struct builder *b) {
	if (b->records)
		clReleaseMemObject(b->records);
	if (b->queue)
		clReleaseCommandQueue(b->queue);
}

static cl_int warm_up_near(struct device *d, cl_kernel object, const struct warmup *w, uint32_t *launchesp) {
	struct builder near = { .device = d };
	cl_int error = open_on(&near, device_target(d, true));

	*launchesp = 0;
	if (!error)
		error = warm_up_on(&near, object, w, launchesp);
	close_queue(&near);
	return error;
}

cl_int builder_warm_up(const struct builder *b, bool near, cl_kernel object, const struct warmup *w, uint32_t *launchesp) {
	return near ? warm_up_near(b->device, object, w, launchesp) : warm_up_on(b, object, w, launchesp);
}

/* ---- the whole ---- */

static int texts_of(const struct device *d, const struct kernel *k, struct str *source, struct str *options) {
	int r = emit_source(k, &d->traits, source);

	if (r)
		return r;
	emit_options(&d->traits, options);
	r = str_finish(source);
	return r ? r : str_finish(options);
}

/* ---- by a worker ---- */

/* Where the cache keeps how many workers a program has killed. */
static struct cache_key deaths_key(struct cache_key key) {
	return (struct cache_key){ key.low, ~key.high };
}

static uint32_t deaths_load(struct device *d, const struct cache_key *key) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct cache_key deaths = deaths_key(*key);
	uint32_t count = 0;
	size_t size;

	if (!cache_load(&d->cache, &deaths, &bytes, &size) && size == sizeof count)
		memcpy(&count, bytes, sizeof count);
	return count;
}

static void deaths_store(struct device *d, const struct cache_key *key, uint32_t count) {
	struct cache_key deaths = deaths_key(*key);

	if (!count)
		cache_remove(&d->cache, &deaths);
	else if (cache_store(&d->cache, &deaths, &count, sizeof count))
		return;                  /* a full disk: the next engine tries again */
}

/* How a builder goes on after it asked its worker. */
enum apart {
	APART_BUILT,                     /* the cache has it */
	APART_FAILED,                    /* the program's error and log say why */
	APART_HERE,                      /* no worker is to be had */
	APART_LATER,                     /* this builder's priority is too low */
};

static enum apart refuse(struct program *p, const char *why) {
	p->log = strdup(why);
	return APART_FAILED;
}

static enum apart take_answer(struct program *p, const struct compile_answer *a, cl_int *errorp) {
	*errorp = a->error;
	p->log = a->log;
	p->warmups = a->warmups;
	p->apart = !a->error;
	if (!a->error)
		return APART_BUILT;
	if (a->error == CL_BUILD_PROGRAM_FAILURE)
		return APART_FAILED;
	/* Short of memory or descriptors, or the device refuses a second process: that says nothing of the program. */
	free(p->log);
	p->log = NULL;
	return APART_HERE;
}

static int64_t limit_of(const struct builder *b, const struct program *p) {
	struct device *d = b->device;
	enum program_rank rank;

	if (!b->worker.idle)
		return (int64_t)(d->config.worker_us / 1000) * BUILD_PATIENCE;
	rank = programs_rank(&d->programs, p);
	return rank < PROGRAM_NEAR ? BUILD_SPARE_MS : BUILD_IDLE_MS;
}

/* What killed a worker may not have been the program, the first time. */
static enum apart try_worker(struct builder *b, struct program *p, const struct compile_job *j, uint32_t died, cl_int *errorp) {
	struct device *d = b->device;
	int64_t limit_ms = limit_of(b, p);
	struct compile_answer a = { 0 };
	int r = -EPIPE;

	b->hurried_ms = 0;
	for (unsigned i = 0; i < BUILD_TRIES && died < BUILD_DEATHS && r == -EPIPE; i++) {
		r = worker_build(b, j, limit_ms, &a);
		if (r == -EAGAIN || (r == -ETIMEDOUT && b->worker.idle))
			return APART_LATER;
		if (r != -EPIPE && r != -ETIMEDOUT)
			break;
		p->deaths++;
		deaths_store(d, &p->key, ++died);
		/* The next one meets nothing of what this one may have left, or have died of. */
		guard_blame(d, &p->key);
	}
	if (r == -ENOTCONN)
		return b->worker.idle ? APART_LATER : APART_HERE;
	p->cancelled = r == -ECANCELED;
	if (r)
		return refuse(p, r == -EPIPE ? "the compiler died of it" :
				 r == -ETIMEDOUT ? "the compiler took longer than device.worker_us" : "the engine stops");
	if (died)
		deaths_store(d, &p->key, 0);
	return take_answer(p, &a, errorp);
}

static enum apart build_apart(struct builder *b, struct program *p, const char *source, const char *options, uint32_t died, cl_int *errorp) {
	const struct compile_job j = { .source = source, .options = options, .key = p->key, .warmup = warmup_of(b->device, p->kernel),
		.near = p->near };

	*errorp = CL_BUILD_PROGRAM_FAILURE;
	/* What is known is in the driver's own cache. */
	if (!programs_apart(&b->device->programs) || p->known)
		return APART_HERE;
	return try_worker(b, p, &j, died, errorp);
}

/* ---- by the engine itself ---- */

/* On the watchdog's thread: the supervisor starts another engine, which does not try this program. */
static void tell_stuck(void *user) {
	const struct builder *b = user;

	deaths_store(b->device, &b->program->key, BUILD_DEATHS);
	log_error("the driver does not come back from a kernel's first launch, or from compiling it: the engine ends, and the next one refuses the kernel");
}

/* Who set no limit, as tests of single modules, has none. */
static void enter_driver(struct builder *b) {
	if (b->device->config.worker_us)
		watchdog_begin(&b->watchdog, b->device->config.worker_us * BUILD_PATIENCE);
}

static void leave_driver(struct builder *b) {
	watchdog_end(&b->watchdog);
}

/* ---- the whole ---- */

static cl_int make_objects(const struct builder *b, struct program *p, cl_program program, cl_kernel *objectp) {
	const struct warmup w = warmup_of(b->device, p->kernel);
	CLEANUP(release_kernel) cl_kernel own = NULL;
	uint64_t begin;
	uint32_t launches;
	cl_int error;

	own = clCreateKernel(program, entry_point, &error);
	if (error)
		return error;
	begin = now_us();
	error = builder_warm_up(b, p->near, own, &w, &launches);
	p->first_us = now_us() - begin;
	p->warmups += launches;
	programs_touch(b->device);
	if (error)
		return error;
	*objectp = clCreateKernel(program, entry_point, &error);
	return error;
}

/* What the driver's own cache is known to have the engine takes from there by itself. */
static enum apart build_elsewhere(struct builder *b, struct program *p, const char *source, const char *options, bool sealed,
	uint32_t died, cl_int *errorp) {
	enum apart how;

	if (p->known && !sealed && b->device->quirks->flags & QUIRK_EXECUTES_CACHE) {
		p->known = false;
		free(p->why);
		p->why = strdup("the driver's own cache has it no more");
	}
	how = build_apart(b, p, source, options, died, errorp);
	/* Nobody needs it so much that the engine would compile it itself. */
	if (p->near && how == APART_HERE && b->device->config.want_worker)
		return APART_FAILED;
	return how;
}

/* With the driver, in this process. */
static cl_int build_here(struct builder *b, struct guard *g, struct program *p, const char *source, const char *options, cl_program *programp) {
	struct target t = device_target(b->device, p->near);
	cl_int error = CL_SUCCESS;

	enter_driver(b);
	if (!*programp)
		*programp = build_cached(b->device, t, options, &p->key);
	if (!*programp)
		error = build_anew(g, t, source, options, programp, &p->log);
	if (!error)
		error = make_objects(b, p, *programp, &p->object);
	leave_driver(b);
	return error;
}

/* What was loaded and is not to be believed is let go of. */
static bool is_believed(struct guard *g, struct program *p, cl_program *programp) {
	if (guard_end(g))
		return true;
	if (p->object)
		clReleaseKernel(p->object);
	p->object = NULL;
	cleanup_program(programp);
	*programp = NULL;
	return false;
}

/* From the cache, or from the source: then a worker's driver has left what takes long in the driver's own cache, if it keeps one. */
static enum apart build(struct builder *b, struct program *p, const char *source, const char *options, cl_int *errorp) {
	CLEANUP(cleanup_program) cl_program program = NULL;
	struct device *d = b->device;
	enum apart how = APART_HERE;
	uint32_t died;
	struct guard g;

	b->program = p;
	p->key = build_key_for(d, device_target(d, p->near), source, options);
	died = deaths_load(d, &p->key);
	if (died >= BUILD_DEATHS) {
		p->refused = true;
		return refuse(p, "it has killed the compiler too often to be tried again");
	}
	guard_begin(&g, d, &p->key);
	program = build_cached(d, device_target(d, p->near), options, &p->key);
	p->cached = program != NULL;
	if (!program) {
		guard_leave(&g);
		how = build_elsewhere(b, p, source, options, g.sealed, died, errorp);
		if (how == APART_FAILED || how == APART_LATER)
			return how;
		guard_begin(&g, d, &p->key);
	}
	if (!program && g.sealed && !p->near && direct_wanted(b) && direct_load(p, g.entry)) {
		guard_leave(&g);
		*errorp = CL_SUCCESS;
		return APART_BUILT;
	}
	*errorp = build_here(b, &g, p, source, options, &program);
	/* Of an earlier process that did not end it, if at all: once more, and then it is this one's. */
	if (!*errorp && !is_believed(&g, p, &program)) {
		guard_begin(&g, d, &p->key);
		*errorp = build_here(b, &g, p, source, options, &program);
		guard_end(&g);
	}
	guard_leave(&g);
	if (*errorp)
		return APART_FAILED;
	p->program = program;
	p->bytes = BUILD_BYTES;
	program = NULL;
	return APART_BUILT;
}

/*
 * Does it say that there was too little of something just then? Some drivers say so, too, of a kernel that takes more than there ever is; it costs a
 * build now and then, while somebody asks for it (program.c).
 */
static bool may_pass(cl_int error) {
	return error == CL_OUT_OF_HOST_MEMORY || error == CL_OUT_OF_RESOURCES || error == CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

static void fail(struct program *p, const char *source, cl_int error) {
	CLEANUP(str_free) struct str log = { 0 };

	str_printf(&log, "OpenCL error %d", error);
	if (p->log && *p->log)
		str_printf(&log, ": %s", p->log);
	free(p->log);
	p->log = str_finish(&log) ? NULL : strdup(str_text(&log));
	p->source = strdup(source);
	p->starved_ms = may_pass(error) ? (int64_t)(now_us() / 1000) : 0;
	atomic_store_explicit(&p->state, PROGRAM_FAILED, memory_order_release);
}

/* What a driver says that finds no descriptor and no room on a disk is said of the program, and would be believed. */
static void fail_lacking(struct program *p, const struct fault *f) {
	free(p->log);
	p->log = strdup(f->text);
	atomic_store_explicit(&p->state, PROGRAM_FAILED, memory_order_release);
}

/* Not the key of the machine code, which the driver's own cache may have. */
static struct cache_key mark_of(struct cache_key key) {
	return (struct cache_key){ ~key.low, ~key.high };
}

bool device_program_known(struct device *d, const struct kernel *k) {
	CLEANUP(str_free) struct str source = { 0 };
	CLEANUP(str_free) struct str options = { 0 };
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct cache_key key;
	size_t size;

	if (texts_of(d, k, &source, &options))
		return false;
	key = mark_of(build_key(d, str_text(&source), str_text(&options)));
	return !cache_load(&d->cache, &key, &bytes, &size);
}

/* What takes seconds to build leaves a mark in the cache, so that the next start knows what it will not take. */
static void mark_built(const struct device *d, const struct program *p) {
	struct cache_key key = mark_of(p->key);

	/* Without it the next start waits until the device is quiet, nothing else. */
	if (p->kernel->root == KERNEL_INTERPRETER && cache_store(&d->cache, &key, "built", sizeof "built"))
		return;
}

static bool build_one(struct builder *b, struct program *p) {
	CLEANUP(str_free) struct str source = { 0 };
	CLEANUP(str_free) struct str options = { 0 };
	uint64_t begin = now_us();
	cl_int error = CL_OUT_OF_HOST_MEMORY;
	enum apart how = APART_FAILED;
	struct fault f;

	p->lacking = device_lacks(b->device, &f) != 0;
	if (p->lacking) {
		fail_lacking(p, &f);
		return true;
	}
	if (!texts_of(b->device, p->kernel, &source, &options)) {
		p->emit_us = now_us() - begin;
		if (!p->near)
			note_ask(b->device, p, str_text(&source), str_text(&options));
		how = build(b, p, str_text(&source), str_text(&options), &error);
	}
	if (how == APART_LATER)
		return false;
	p->build_us = p->cached ? 0 : now_us() - begin;
	if (how == APART_FAILED) {
		fail(p, str_text(&source), error);
		return true;
	}
	/* Notes and marks are of the kernel, whose program was built before. */
	if (!p->near) {
		mark_built(b->device, p);
		note_keep(b->device, p, str_text(&source), str_text(&options));
	}
	atomic_store_explicit(&p->state, PROGRAM_READY, memory_order_release);
	return true;
}

bool builder_build(struct builder *b, struct program *p) {
	bool done;

	atomic_fetch_add(&b->device->building, 1);
	done = build_one(b, p);
	atomic_fetch_sub(&b->device->building, 1);
	return done;
}

int builder_open(struct builder *b, struct device *d) {
	b->device = d;
	b->worker.socket = b->worker.process = -1;
	b->watchdog = (struct watchdog){ .late = tell_stuck, .user = b };
	return open_on(b, device_target(d, false)) ? -EIO : 0;
}

void builder_close(struct builder *b) {
	close_queue(b);
	worker_end(&b->worker);
	watchdog_stop(&b->watchdog);
	*b = (struct builder){ .worker = { .socket = -1, .process = -1 } };
}

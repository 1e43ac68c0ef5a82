/* See direct.h. */
#include "direct.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "guard.h"

#include "daemon/base/log.h"
#include "daemon/emit/emit.h"

enum {
	/* Beside the file's bytes: pages of its segments, and what the loader notes of each object. */
	DIRECT_OVERHEAD = 20480,
	/* Groups of the trial. */
	TRIAL_X = 3,
	TRIAL_Y = 2,
	TRIAL_FIRST = 12345,
	/* The arguments that the calling kernel has, and those of a program's. */
	ARGUMENT_FUNCTION = 3,
	ARGUMENT_COMMON = 4,
	CALLER_ARGUMENTS = 5,
	PROGRAM_ARGUMENTS = 3,
};

/* What PoCL tells a kernel of its launch. Ours ask for nothing of it: their groups are of one item. */
static const struct {
	size_t groups[3], offset[3], local[3];
	void *print[3];
	uint32_t print_bytes, dims;
} common = { .groups = { 1, 1, 1 }, .local = { 1, 1, 1 }, .dims = 2 };

/*
 * OpenCL C has no pointers to functions, nor does the driver link against this process; a call is the one thing that is left to the machine's own
 * language. What was on the stack stays: the function may be called where others keep something below its end.
 */
static const char caller[] =
	"#ifdef DECLARE\n"
	"__attribute__((overloadable, const)) size_t get_group_id(uint);\n"
	"#endif\n"
	"kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
	"void fused(global ulong *records, ulong first, global uchar *pool, ulong function, ulong common) {\n"
	"	volatile ulong r = (ulong)records, f = first, p = (ulong)pool;\n"
	"	volatile ulong arguments[3] = { (ulong)&r, (ulong)&f, (ulong)&p };\n"
	"	ulong a = (ulong)arguments, x = get_group_id(0), y = get_group_id(1);\n"
	"\n"
	"	__asm__ volatile(\"mov %%rsp, %%rbx\\n\\tsub $256, %%rsp\\n\\tand $-64, %%rsp\\n\\t\"\n"
	"		\"xor %%r8d, %%r8d\\n\\tcall *%%rax\\n\\tmov %%rbx, %%rsp\"\n"
	"		: \"+a\"(function), \"+D\"(a), \"+S\"(common), \"+d\"(x), \"+c\"(y)\n"
	"		:\n"
	"		: \"rbx\", \"r8\", \"r9\", \"r10\", \"r11\", \"memory\", \"cc\", \"xmm0\", \"xmm1\", \"xmm2\", \"xmm3\", \"xmm4\", \"xmm5\", \"xmm6\",\n"
	"		\"xmm7\", \"xmm8\", \"xmm9\", \"xmm10\", \"xmm11\", \"xmm12\", \"xmm13\", \"xmm14\", \"xmm15\");\n"
	"}\n";

/* ---- the trial ---- */

static struct trial {
	const void *records;
	atomic_uint right, wrong;
} trial;

static void called_nothing(void *const *arguments, const void *of_all, size_t x, size_t y, size_t z) {
	(void)arguments;
	(void)of_all;
	(void)x;
	(void)y;
	(void)z;
}

static void called_back(void *const *arguments, const void *of_all, size_t x, size_t y, size_t z) {
	bool right = *(void *const *)arguments[0] == trial.records && *(const uint64_t *)arguments[1] == TRIAL_FIRST &&
		     *(void *const *)arguments[2] == trial.records && of_all == &common && x < TRIAL_X && y < TRIAL_Y && !z;

	atomic_fetch_add(right ? &trial.right : &trial.wrong, right ? 1u << (y * TRIAL_X + x) : 1);
}

static bool is_right(void) {
	bool right = atomic_load(&trial.right) == (1u << TRIAL_X * TRIAL_Y) - 1 && !atomic_load(&trial.wrong);

	atomic_store(&trial.right, 0);
	return right;
}

static cl_ulong address_of(direct_code *function) {
	return (uintptr_t)function;
}

static cl_int set(cl_kernel object, direct_code *function) {
	cl_ulong code = address_of(function), of_all = (uintptr_t)&common;
	cl_int error = clSetKernelArg(object, ARGUMENT_FUNCTION, sizeof code, &code);

	return error ? error : clSetKernelArg(object, ARGUMENT_COMMON, sizeof of_all, &of_all);
}

/* As the driver calls it. */
static cl_int try_launch(struct builder *b, cl_kernel object) {
	struct device *d = b->device;
	const struct warmup w = { .items = builder_widest(d, 1), .local = 1, .launches = BUILDER_WARMUPS, .pools = 1 };
	size_t items[2] = { TRIAL_X, TRIAL_Y }, local[2] = { 1, 1 };
	cl_ulong first = TRIAL_FIRST;
	uint32_t launches;
	cl_int error = set(object, called_nothing);

	if (!error)
		error = builder_warm_up(b, false, object, &w, &launches);
	for (cl_uint i = 0; i < 2 && !error; i++)
		error = clSetKernelArg(object, 2 * i, sizeof(cl_mem), &d->work.records);
	if (!error)
		error = clSetKernelArg(object, 1, sizeof first, &first);
	if (!error)
		error = set(object, called_back);
	if (!error)
		error = clEnqueueNDRangeKernel(b->queue, object, 2, NULL, items, local, 0, NULL, NULL);
	return error ? error : clFinish(b->queue);
}

static bool path_of(const struct device *d, const char *entry, char path[static PATH_MAX]) {
	return *entry && snprintf(path, PATH_MAX, "%s/%s/%s", d->cache.driver, entry, d->quirks->object) < PATH_MAX;
}

/* NULL where there is none. Closed by the caller. */
static direct_code *load(const struct device *d, const char *path, void **handlep) {
	direct_code *code = NULL;
	void *symbol;

	*handlep = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	symbol = *handlep ? dlsym(*handlep, d->quirks->symbol) : NULL;
	if (symbol)
		memcpy(&code, &symbol, sizeof code);
	else if (*handlep)
		dlclose(*handlep);
	return code;
}

/* As this process calls it. */
static bool try_call(struct device *d, const char *entry) {
	uint64_t first = TRIAL_FIRST, code_of = address_of(called_back), of_all = (uintptr_t)&common;
	const void *records = d->work.ring;
	void *const arguments[CALLER_ARGUMENTS] = { &records, &first, &records, &code_of, &of_all };
	char path[PATH_MAX];
	void *handle;
	direct_code *code = path_of(d, entry, path) ? load(d, path, &handle) : NULL;

	for (size_t y = 0; code && y < TRIAL_Y; y++)
		for (size_t x = 0; x < TRIAL_X; x++)
			code(arguments, &common, x, y, 0);
	if (code)
		dlclose(handle);
	return code && is_right();
}

/* ---- opening ---- */

static bool build_caller(struct builder *b, struct guard *g) {
	struct device *d = b->device;
	struct direct *t = &d->direct;
	CLEANUP(str_free) struct str options = { 0 };
	CLEANUP(cleanup_free) char *log = NULL;
	cl_int error;
	bool cached;

	emit_options(&d->traits, &options);
	if (str_finish(&options) || build_source(d, caller, str_text(&options), g, &t->program, &cached, &log))
		return false;
	t->object = clCreateKernel(t->program, "fused", &error);
	trial.records = d->work.ring;
	return !error && !try_launch(b, t->object) && is_right() && guard_end(g);
}

/* One that was told apart, since an earlier process had left it, is there by the next start at the latest. */
static bool open_direct(struct builder *b) {
	struct guard g = { 0 };
	bool opened = build_caller(b, &g);

	guard_leave(&g);
	if (opened) {
		guard_begin(&g, b->device, &g.key);
		opened = g.sealed && try_call(b->device, g.entry);
		guard_leave(&g);
	}
	log_debug(opened ? "further programs are called without the driver" : "the driver's code cannot be called: all programs go its way");
	return opened;
}

static bool may_be_direct(const struct device *d) {
#ifdef __x86_64__
	return d->quirks->object && d->flat && d->traits.strategy == STRATEGY_CPU && d->traits.pools == 1 && !d->traits.own_words &&
	       !d->config.keep;
#else
	(void)d;
	return false;
#endif
}

bool direct_wanted(struct builder *b) {
	struct direct *t = &b->device->direct;
	bool wanted;

	if (!b->device->config.driver_programs || !may_be_direct(b->device) ||
		atomic_fetch_add(&t->drivers, 1) < b->device->config.driver_programs)
		return false;
	pthread_mutex_lock(&t->lock);
	if (t->state == DIRECT_NOT)
		t->state = open_direct(b) ? DIRECT_OPEN : DIRECT_NEVER;
	wanted = t->state == DIRECT_OPEN;
	pthread_mutex_unlock(&t->lock);
	return wanted;
}

void direct_close(struct device *d) {
	struct direct *t = &d->direct;

	if (t->object)
		clReleaseKernel(t->object);
	if (t->program)
		clReleaseProgram(t->program);
	t->object = NULL;
	t->program = NULL;
}

/* ---- programs ---- */

static bool load_entry(struct program *p, const char *entry) {
	char path[PATH_MAX];
	struct stat file;

	if (!path_of(p->device, entry, path) || stat(path, &file))
		return false;
	p->code = load(p->device, path, &p->handle);
	p->bytes = (uint64_t)file.st_size + DIRECT_OVERHEAD;
	return p->code != NULL;
}

bool direct_load(struct program *p, const char *entry) {
	char *copy = strdup(entry);

	if (!copy || !load_entry(p, entry)) {
		free(copy);
		return false;
	}
	free(p->entry);
	p->entry = copy;
	programs_touch(p->device);
	return true;
}

bool direct_load_again(struct program *p) {
	struct guard g;
	bool loaded;

	guard_begin(&g, p->device, &p->key);
	loaded = g.sealed && !strcmp(g.entry, p->entry) && load_entry(p, p->entry);
	guard_leave(&g);
	return loaded;
}

void direct_unload(struct program *p) {
	if (p->code)
		dlclose(p->handle);
	p->code = NULL;
	p->handle = NULL;
}

/* ---- launches ---- */

void direct_run(const struct device *d, const struct program *p, uint64_t first, size_t items, size_t tasks) {
	const void *records = d->work.ring;
	void *const arguments[PROGRAM_ARGUMENTS] = { &records, &first, &records };

	for (size_t y = 0; y < tasks; y++)
		for (size_t x = 0; x < items; x++)
			p->code(arguments, &common, x, y, 0);
}

cl_kernel direct_object(struct device *d, const struct program *p, uint64_t first) {
	cl_kernel object = d->direct.object;
	cl_ulong word = first;

	return clSetKernelArg(object, 1, sizeof word, &word) || set(object, p->code) ? NULL : object;
}

/* Opens and closes the device; see device.h for the contract and state.h for the parts. */
#include "direct.h"
#include "guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/limits.h"

enum {
	/* Bounds of the size above which outputs bypass the caches, where the device names its cache. */
	STREAM_LEAST = 4 << 20,
	STREAM_MOST = 32 << 20,
	/* Work-group size of the GPU strategy. */
	LOCAL_LEAST = 64,
	LOCAL_MOST = 256,
	/* Compilers take more than linear time: PoCL needs 0.2 s for 64 values and seconds for 256. */
	VALUES_MOST = 96,
	OPERANDS_MOST = 32,
	/* Of all arguments: what every device has. */
	PARAMETER_BYTES = 1024,
};

/* ---- traits ---- */

static uint64_t info_number(const struct device *d, cl_device_info what) {
	uint64_t value = 0;

	/* Answers of 4 and of 8 bytes: the host is little-endian, the rest stays 0. */
	if (clGetDeviceInfo(d->choice.device, what, sizeof value, &value, NULL))
		return 0;
	return value;
}

static uint32_t local_size(const struct device *d) {
	uint64_t most = info_number(d, CL_DEVICE_MAX_WORK_GROUP_SIZE);
	uint32_t size = LOCAL_MOST;

	while (size > LOCAL_LEAST && size > most)
		size /= 2;
	return size;
}

static uint64_t stream_bytes(const struct device *d) {
	uint64_t cache = info_number(d, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);

	if (cache < STREAM_LEAST)
		return STREAM_LEAST;
	return cache > STREAM_MOST ? STREAM_MOST : cache;
}

/* The device's own strategy, or the one the tests force. */
static int choose_strategy(struct device *d, struct fault *f) {
	const char *forced = d->config.strategy && *d->config.strategy ? d->config.strategy : NULL;
	bool cpu = info_number(d, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;

	if (forced && strcmp(forced, "cpu") != 0 && strcmp(forced, "gpu") != 0)
		return fault_set(f, FAULT_ARGUMENT,
			"the strategy \"%s\" does not exist; set device.strategy to cpu or gpu, or leave it "
			"empty",
			forced);
	if (forced)
		cpu = strcmp(forced, "cpu") == 0;
	d->traits.strategy = cpu ? STRATEGY_CPU : STRATEGY_GPU;
	return 0;
}

static int fill_traits(struct device *d, struct fault *f) {
	struct traits *t = &d->traits;
	int r = choose_strategy(d, f);

	if (r)
		return r;
	t->closing_barrier = d->quirks->flags & QUIRK_CLOSING_BARRIER;
	t->width = t->strategy == STRATEGY_CPU ? d->quirks->lanes : 1;
	t->f64 = info_number(d, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
	t->local_size = local_size(d);
	t->local_bytes = info_number(d, CL_DEVICE_LOCAL_MEM_SIZE);
	t->units = (uint32_t)info_number(d, CL_DEVICE_MAX_COMPUTE_UNITS);
	t->kernel_operands = OPERANDS_MOST;
	t->kernel_values = VALUES_MOST;
	t->stream_bytes = t->strategy == STRATEGY_CPU ? stream_bytes(d) : 0;
	return 0;
}

/* ---- opening, in the order in which the parts need each other ---- */

/* The driver's threads that compute are started where it lists its devices. */
static int choose_device(struct device *d, struct fault *f) {
	CLEANUP(cleanup_free) struct threads *before = threads_now();
	int r = probe_choose(d, listed_take(d), f);

	if (r)
		return r;
	if (d->config.bind && d->quirks->flags & QUIRK_THREADS)
		d->bound = threads_bind(before, (uint32_t)info_number(d, CL_DEVICE_MAX_COMPUTE_UNITS));
	return 0;
}

static int open_choice(struct device *d, struct fault *f) {
	int r = cache_open(&d->cache, d->config.cache_dir, d->config.cache_bytes ? d->config.cache_bytes : UINT64_MAX, f);

	if (!r)
		r = quirks_set_variables(d->cache.driver);
	/* What is compiled at the start takes most of the time until somebody can be served: */
	if (!r && d->config.workers_early && cache_is_empty(&d->cache))
		workers_early(d, programs_builders(d));
	if (!r)
		r = choose_device(d, f);
	if (!r)
		r = cache_keep_small(&d->cache);
	if (r)
		return r;
	guards_settle(d);
	if (d->quirks->flags & QUIRK_EXECUTES_CACHE)
		r = cache_check_executes(&d->cache, f);
	if (!r && d->quirks->flags & QUIRK_NEEDS_LINKER)
		r = cache_check_linker(f);
	return r;
}

static int open_context(struct device *d, struct fault *f) {
	cl_int error;

	d->context = clCreateContext(NULL, 1, &d->choice.device, NULL, NULL, &error);
	if (error)
		return fault_set(f, FAULT_DEVICE,
			"the device %s gives no context (OpenCL error %d); another process may hold "
			"it, or its driver needs mending",
			d->choice.name, error);
	return queue_open(d);
}

static int open_probes(struct device *d, struct fault *f) {
	struct findings found = { 0 };
	int r = memory_reserve(d, (d->work.words + CLAIM_WORDS) * sizeof(uint64_t));

	if (!r)
		r = queue_open_ring(d);
	if (!r)
		r = exact_probe(d, &found, f);
	if (r)
		return r;
	d->flat = found.flat;
	d->exact = found.exact && d->traits.exact_division;
	d->reaches = d->choice.reaches && !d->flat;
	d->traits.pools = d->flat ? 1 : MEMORY_POOLS;
	return d->flat ? 0 : queue_part_ring(d);
}

static void note_findings(struct device *d) {
	const struct traits *t = &d->traits;

	str_printf(&d->notes, "strategy %s, %u lanes, %u compute units\n",
		t->strategy == STRATEGY_CPU ? "cpu" : "gpu", t->width, t->units);
	str_printf(&d->notes, "%s\n", d->flat ? "kernels share the host's addresses" : "memory of its own");
	if (d->bound)
		str_printf(&d->notes, "%u threads of the driver, each bound to a processor\n", d->bound);
	if (d->near.queue)
		str_append(&d->notes, "small launches run on the engine's thread\n");
	if (d->reaches)
		str_append(&d->notes, "small arrays are read and written where they lie in the host's memory\n");
	str_printf(&d->notes, "64-bit floats: %s\n", t->f64 ? "yes" : "no");
	if (t->matrix)
		str_printf(&d->notes, "instructions that multiply matrices of 16-bit floats%s\n",
			t->wgmma ? ", and those of four blocks of items together (wgmma)" : "");
	trials_note(d, &d->notes);
	str_printf(&d->notes, "driver: %s\n", d->quirks->doc);
	if (d->exact)
		str_append(&d->notes,
			"arithmetic is exact: a * b + c, division, square root, subnormal numbers\n");
	else if (!t->exact_division)
		str_append(&d->notes, "the option for correctly rounded division does not build\n");
}

static int open_all(struct device *d, struct fault *f) {
	int r = open_choice(d, f);

	if (!r)
		r = open_context(d, f);
	if (!r)
		r = fill_traits(d, f);
	if (!r)
		r = open_probes(d, f);
	if (!r)
		r = memory_open(d);
	if (r)
		return r;
	/* Without it all goes the other way. */
	if (d->flat && d->config.near && near_open_queue(d))
		near_close(d);
	/* Of texts, and so the same whatever is configured. */
	d->traits.claims = d->flat && d->traits.strategy == STRATEGY_CPU && d->quirks->near;
	/* They may run where this thread may now: later it is bound to where its client is. */
	helpers_open(d);
	matrix_probe(d);
	rates_open(d);
	/* Where a launch would write its record to the device first, or kernels read it from the host's memory. */
	if (!d->flat && d->traits.strategy == STRATEGY_GPU && info_number(d, CL_DEVICE_MAX_PARAMETER_SIZE) >= PARAMETER_BYTES)
		d->traits.own_words = DEVICE_OWN_WORDS;
	atomic_init(&d->measure.state,
		d->config.measure && !d->traits.rates.measured ? MEASURE_WAITING : MEASURE_NOT);
	r = programs_open(d);
	if (r)
		return r;
	listed_note(d);
	note_findings(d);
	return str_finish(&d->notes);
}

int device_open(const struct device_config *c, struct device **devicep, struct fault *f) {
	struct device *d = calloc(1, sizeof *d);
	int r;

	if (!d)
		return -ENOMEM;
	d->config = *c;
	programs_init(d);
	pthread_mutex_init(&d->direct.lock, NULL);
	r = open_all(d, f);
	if (r) {
		listed_forget(d);
		device_close(d);
		return r;
	}
	d->config.platform = d->config.device = d->config.strategy = d->config.cache_dir = NULL;
	*devicep = d;
	return 0;
}

int device_open_compiler(struct device *d, struct fault *f) {
	cl_int error;
	int r = cache_open_beside(&d->cache, d->config.cache_dir, f);

	if (!r)
		r = quirks_set_variables(d->cache.driver);
	if (!r)
		r = probe_choose_here(&d->config, &d->choice, f);
	if (r)
		return r;
	d->quirks = quirks_of(d->choice.platform_name, d->choice.name);
	/* What it builds for others has their options; its own probes use none of it. */
	if (trials_recall(d))
		trials_settle(d);
	d->traits.f64 = info_number(d, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
	d->context = clCreateContext(NULL, 1, &d->choice.device, NULL, NULL, &error);
	return error ? fault_set(f, FAULT_DEVICE, "no context (OpenCL error %d)", error) : 0;
}

int device_count(const struct device_config *c, unsigned *countp, struct fault *f) {
	return probe_count(c, countp, f);
}

struct device *device_close(struct device *d) {
	if (!d)
		return NULL;
	/* An error of what ran last has nobody left to be told. */
	if (d->work.queue && queue_drain(d))
		d->work.running = 0;
	helpers_close(d);
	programs_close(d);
	direct_close(d);
	queue_close(d);
	near_close(d);
	memory_close(d);
	if (d->context)
		clReleaseContext(d->context);
	choice_clear(&d->choice);
	cache_close(&d->cache);
	str_free(&d->notes);
	str_free(&d->without);
	free(d);
	return NULL;
}

/* ---- what others may know ---- */

const struct traits *device_traits(const struct device *d) {
	return &d->traits;
}

const char *device_name(const struct device *d) {
	return d->choice.name;
}

const char *device_driver(const struct device *d) {
	return d->choice.driver;
}

bool device_flat(const struct device *d) {
	return d->flat;
}

bool device_exact(const struct device *d) {
	return d->exact;
}

const char *device_notes(const struct device *d) {
	return str_text(&d->notes);
}

bool device_measuring(const struct device *d) {
	return atomic_load(&d->measure.state) != MEASURE_NOT;
}

void device_rates_text(const struct device *d, struct str *text) {
	rates_text(&d->traits.rates, text);
}

const struct device_counters *device_counters(const struct device *d) {
	return &d->counters;
}

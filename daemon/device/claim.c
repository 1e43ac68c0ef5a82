/*
 * Launches that the engine's thread does together with threads of our own.
 *
 * The driver's threads sleep between launches: one of a fifth of a millisecond waits for them to wake, and for the thread that tells of its end. Where
 * there is a device that computes at once on the thread that asks (near.c), this thread and helper threads beside it each launch the same kernel there, of
 * one item; that claims what the launch's items would have done, one after the other, from a counter that all of them share (kernel.h, Claims), until
 * nothing is left. So whoever is awake does the work: a helper thread that wakes late has less of it, or none, and nobody waits for it. A split fixed
 * beforehand would wait for the last to wake. The driver's own threads would not do as helper threads: each is bound to a processor, and the one that is
 * bound to the engine's takes that from it.
 *
 * What is claimed is counted again when its results are there: then the launch has run. A helper thread that comes after that finds
 * nothing left; until the last of them has, none is launched this way again, and so they share one piece of memory and arguments that never change.
 *
 * A helper thread that is taken from its processor has what it claimed: on a busy machine nothing is claimed for a while.
 *
 * It needs the near program; until that is built, and where it cannot be, the launch goes to the driver. Which thread computes an item changes no bit.
 */
#include "direct.h"
#include "resident.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/base/thread.h"
#include "protocol/ring.h"

enum {
	/*
	 * Who waits for one result often asks for the next one at once. A helper thread that was called so soon after the launch before spins for so
	 * long, which is longer than a client takes to ask and shorter than anybody's turn on a processor.
	 */
	CLAIM_LINGER_NS = 50000,
	/* What a launch takes less than of the driver's threads: 260 us in the median became 180 where those of one are waited for. */
	CLAIM_SAVES_US = 80,
	/* Looks between two at the clock. */
	CLAIM_LOOKS = 64,
	/*
	 * At the end others are at their last item. One that takes twice as long as this thread's items took, and so much more, was taken from its
	 * processor: other programs want that. Then nothing is claimed for a while, and for twice as long each time that this comes again, until
	 * so many launches in a row end in time.
	 */
	CLAIM_LATE_NS = 20000,
	CLAIM_PAUSE_NS = 10000000,
	CLAIM_PAUSE_MOST_NS = 640000000,
	CLAIM_GOOD = 200,
	/* Far from where 32 bits, with an attempt in vain of each thread, are full. */
	CLAIM_ITEMS_MOST = 1 << 30,
};

/* ---- helper threads ---- */

/* What is called without the driver is the program's own code. */
static cl_int claim(const struct helpers *c, struct device *d, cl_command_queue queue) {
	const size_t one[2] = { 1, 1 };
	cl_kernel object = c->object;
	cl_int error;

	if (c->program->code) {
		direct_run(d, c->program, (uint64_t)(d->near.claims - d->work.ring) | KERNEL_CLAIMED, 1, 1);
		return CL_SUCCESS;
	}
	error = clEnqueueNDRangeKernel(queue, object, 2, NULL, one, one, 0, NULL, NULL);

	return error ? error : clFinish(queue);
}

/* Until the next launch, or for a while. */
static void linger(struct helpers *c, unsigned seen, uint64_t end_ns) {
	for (unsigned i = 1; atomic_load_explicit(&c->launch, memory_order_acquire) == seen; i++) {
		ring_relax();
		if (i % CLAIM_LOOKS == 0 && loop_now_ns() > end_ns)
			return;
	}
}

/*
 * *soon: did the launch come soon after the one before? Who was asleep may see it much later. Nothing is launched twice before all helper threads
 * have seen it. False: they stop.
 */
static bool next_launch(struct helpers *c, unsigned *seen, bool *soon) {
	uint64_t begin_ns = loop_now_ns();

	if (*soon)
		linger(c, *seen, begin_ns + CLAIM_LINGER_NS);
	pthread_mutex_lock(&c->lock);
	while (atomic_load(&c->launch) == *seen && !atomic_load(&c->stop))
		pthread_cond_wait(&c->called, &c->lock);
	pthread_mutex_unlock(&c->lock);
	*soon = (int64_t)(c->called_ns - begin_ns) < CLAIM_LINGER_NS;
	++*seen;
	return !atomic_load(&c->stop);
}

static void *helper_main(void *argument) {
	struct helper *one = argument;
	struct helpers *c = &one->device->helpers;
	unsigned seen = 0;
	bool soon = false;

	/* What fails here is claimed by others. */
	while (next_launch(c, &seen, &soon)) {
		if (claim(c, one->device, one->queue))
			atomic_store(&c->stop, true);
		atomic_fetch_sub_explicit(&c->busy, 1, memory_order_release);
	}
	return NULL;
}

static bool start(struct device *d, struct helper *one) {
	cl_int error;

	one->device = d;
	one->queue = clCreateCommandQueue(d->near.context, d->near.device, 0, &error);
	if (error)
		return false;
	if (!thread_start(&one->thread, "helper", helper_main, one))
		return true;
	clReleaseCommandQueue(one->queue);
	return false;
}

void helpers_open(struct device *d) {
	struct helpers *c = &d->helpers;

	if (!d->near.queue || !d->traits.claims)
		return;
	c->open = true;
	pthread_mutex_init(&c->lock, NULL);
	thread_condition_init(&c->called);
	while (c->count < HELPERS_MOST && c->count + 1 < d->traits.units && start(d, &c->helper[c->count]))
		c->count++;
}

unsigned device_helpers(const struct device *d) {
	const struct helpers *c = &d->helpers;
	bool paused = c->pause_ns && loop_now_ns() < c->resume_ns;

	return paused || atomic_load_explicit(&c->stop, memory_order_relaxed) ? 0 : c->count;
}

static void call(struct helpers *c, const struct program *p, cl_kernel object) {
	c->program = p;
	c->object = object;
	c->called_ns = loop_now_ns();
	atomic_store(&c->busy, c->count);
	pthread_mutex_lock(&c->lock);
	atomic_fetch_add(&c->launch, 1);
	pthread_mutex_unlock(&c->lock);
	pthread_cond_broadcast(&c->called);
}

void helpers_close(struct device *d) {
	struct helpers *c = &d->helpers;

	if (!c->open)
		return;
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->stop, true);
	atomic_fetch_add(&c->launch, 1);
	pthread_mutex_unlock(&c->lock);
	pthread_cond_broadcast(&c->called);
	for (unsigned i = 0; i < c->count; i++) {
		pthread_join(c->helper[i].thread, NULL);
		clReleaseCommandQueue(c->helper[i].queue);
	}
	pthread_cond_destroy(&c->called);
	pthread_mutex_destroy(&c->lock);
	c->count = 0;
	c->open = false;
}

/* ---- launches ---- */

static _Atomic uint32_t *counter(uint64_t *claims, unsigned word) {
	return (_Atomic uint32_t *)(claims + word);
}

static void fill(uint64_t *claims, const uint64_t *records, uint64_t words, uint64_t items, uint64_t all) {
	atomic_store_explicit(counter(claims, KERNEL_CLAIM_NEXT), 0, memory_order_relaxed);
	atomic_store_explicit(counter(claims, KERNEL_CLAIM_DONE), 0, memory_order_relaxed);
	claims[KERNEL_CLAIM_ITEMS] = items;
	claims[KERNEL_CLAIM_ALL] = all;
	memcpy(claims + KERNEL_CLAIM_WORDS, records, words * sizeof *records);
}

/* Its arguments are always the same, so helper threads may use it at the same time. */
static cl_kernel object_of(struct device *d, struct program *near) {
	cl_ulong first = (uint64_t)(d->near.claims - d->work.ring) | KERNEL_CLAIMED;
	cl_kernel object;
	cl_int error;

	if (near->claimed)
		return near->claimed;
	object = clCreateKernel(near->program, "fused", &error);
	if (error)
		return NULL;
	for (cl_uint i = 0; i < 2 && !error; i++)
		error = clSetKernelArg(object, 2 * i, sizeof(cl_mem), &d->near.records);
	if (error || clSetKernelArg(object, 1, sizeof first, &first)) {
		clReleaseKernel(object);
		return NULL;
	}
	near->claimed = object;
	return object;
}

/* What each item took this thread, which began at begin_ns and has found nothing left. */
static uint64_t item_ns(const struct helpers *c, uint64_t all, uint64_t begin_ns) {
	return (loop_now_ns() - begin_ns) * (c->count + 1) / all;
}

/* False: somebody was late. */
static bool wait_for_all(uint64_t *claims, uint64_t all, uint64_t patience_ns) {
	uint64_t begin_ns = loop_now_ns();
	bool late = false;

	for (unsigned i = 1; atomic_load_explicit(counter(claims, KERNEL_CLAIM_DONE), memory_order_acquire) < all; i++) {
		ring_relax();
		if (i % CLAIM_LOOKS)
			continue;
		late = loop_now_ns() - begin_ns > patience_ns;
		if (late)
			sched_yield();
	}
	return !late;
}

static void judge(struct helpers *c, bool in_time) {
	uint64_t pause_ns = c->pause_ns * 2;

	if (in_time) {
		if (c->pause_ns && ++c->good >= CLAIM_GOOD)
			c->pause_ns = 0;
		return;
	}
	c->good = 0;
	c->pause_ns = pause_ns < CLAIM_PAUSE_NS ? CLAIM_PAUSE_NS : pause_ns > CLAIM_PAUSE_MOST_NS ? CLAIM_PAUSE_MOST_NS : pause_ns;
	c->resume_ns = loop_now_ns() + c->pause_ns;
}

/* Can it be launched so now? 0 with the object, NULL where its code is called without the driver; -EAGAIN. */
static int object_for(struct device *d, struct program *p, cl_kernel *objectp) {
	struct program *near;

	*objectp = NULL;
	if (!device_helpers(d) || !queue_is_idle(d) || program_state(p) != PROGRAM_READY || resident_use(d, p))
		return -EAGAIN;
	if (!p->code) {
		near = near_program(d, p, CLAIM_SAVES_US);
		*objectp = near ? object_of(d, near) : NULL;
	}
	return (!p->code && !*objectp) || atomic_load_explicit(&d->helpers.busy, memory_order_acquire) ? -EAGAIN : 0;
}

int device_launch_claimed(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items) {
	uint64_t words = (uint64_t)p->words * tasks, all = items * tasks;
	uint64_t begin_ns;
	cl_kernel object;

	if (object_for(d, p, &object) || words > CLAIM_WORDS - KERNEL_CLAIM_WORDS || all > CLAIM_ITEMS_MOST)
		return -EAGAIN;
	fill(d->near.claims, records, words, items, all);
	programs_launching(d);
	begin_ns = loop_now_ns();
	call(&d->helpers, p, object);
	if (claim(&d->helpers, d, d->near.queue))
		return -EIO;
	judge(&d->helpers, wait_for_all(d->near.claims, all, 2 * item_ns(&d->helpers, all, begin_ns) + CLAIM_LATE_NS));
	queue_passed(d);
	d->counters.launches++;
	d->counters.launches_direct += p->code != NULL;
	d->counters.launches_claimed++;
	d->counters.tasks += tasks;
	return 0;
}

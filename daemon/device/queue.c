/*
 * Launches, copies and marks on one in-order queue. Those that are timed go to a second one, whose first
 * command waits for the newest of the other, and so back: together they are one queue in order.
 *
 * The ring of records. A launch's records are copied to the ring's head; what lies between tail
 * and head may still be read by kernels. Flat devices read the ring where it stands, for others
 * each launch writes its part to the device first. A kernel finds its records by the argument
 * `first`, so one buffer object serves every launch.
 *
 * Fences. A fence is the completion of one command, told by an event callback; since the queue is
 * in order, it is the completion of everything before it too. Marks hang on fences, several on one
 * where no command came between. Fences also move the ring's tail, so the queue makes its own
 * where nobody marks. They are answered in order, by device_poll() alone; the callback, which runs
 * on a thread of the driver, only notes the status and wakes the engine.
 *
 * Bounded: no more launches than QUEUE_LAUNCHES and no more words than the ring's are in flight.
 */
#include "direct.h"
#include "resident.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/loop.h"
#include "daemon/base/trace.h"

enum {
	/* Drivers keep 1-2 KiB for each command in flight. */
	QUEUE_LAUNCHES = 4096,
	/* The queue makes a fence of its own after this many launches, or this share of the ring. */
	QUEUE_FENCE_LAUNCHES = 512,
	QUEUE_FENCE_SHARE = 8,
	/* Records begin on cache lines of their own, words. */
	QUEUE_ALIGN = 8,
	/* Of a fence: the callback has not come. Statuses are 0 and negative. */
	FENCE_WAITING = 1,
	/*
	 * Items of a launch whose record is read where the host has it: more read it faster from the device's memory. H200, a map that is
	 * waited for: of 1,024 items 17.1 us from the host's and 17.2 with a write before it, of 4,096 22.5 and 18.0, of 32,768 55 and 16;
	 * 12 to 13 where the record is an argument. Of several tasks, so many groups: the write costs the engine more than they lose.
	 */
	QUEUE_REACH_ITEMS = 1024,
	QUEUE_REACH_GROUPS = 128,
	/* While device_finish() waits for callbacks that the driver has yet to run, nanoseconds. */
	QUEUE_PAUSE_NS = 20000,
};

struct mark {
	struct mark *next;
	void (*done)(void *user, int error);
	void *user;
};

struct fence {
	struct fence *next;
	struct device *device;
	atomic_int status;
	uint64_t sequence;                 /* commands it covers */
	uint64_t head;                     /* of the ring */
	uint32_t launches;                 /* since the fence before */
	uint64_t ended_ns;                 /* set before the status */
	struct mark *first, *last;
};

/* ---- completion ---- */

void queue_signal(struct device *d) {
	if (atomic_exchange(&d->work.signalled, true))
		return;
	if (d->config.wake)
		d->config.wake(d->config.user);
}

/* On a thread of the driver. The fence may be gone as soon as its status is set. */
static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *user) {
	struct fence *f = user;
	struct device *d = f->device;

	(void)event;
	f->ended_ns = loop_now_ns();
	atomic_store_explicit(&f->status, status < 0 ? -EIO : 0, memory_order_release);
	queue_signal(d);
	atomic_fetch_sub(&d->work.callbacks, 1);
}

static int flush(struct queue *q) {
	if (q->flushed == q->sequence)
		return 0;
	if (clFlush(q->queue))
		return -EIO;
	q->flushed = q->sequence;
	return 0;
}

static int watch(struct queue *q, struct fence *f) {
	atomic_fetch_add(&q->callbacks, 1);
	if (q->watcher && !flush(q) && !watcher_add(q->watcher, q->last, on_complete, f))
		return 0;
	if (!q->watcher && !clSetEventCallback(q->last, CL_COMPLETE, on_complete, f))
		return 0;
	atomic_fetch_sub(&q->callbacks, 1);
	return -EIO;
}

/* Takes over the event of the newest command. */
static void queued(struct queue *q, cl_event event) {
	if (q->last)
		clReleaseEvent(q->last);
	q->last = event;
	q->changed = false;
	q->sequence++;
}

/* The event that the next command waits for, where the queue was changed before it. */
static cl_uint waits(const struct queue *q, const cl_event **listp) {
	*listp = q->changed ? &q->last : NULL;
	return q->changed;
}

static uint64_t offset_of(uint64_t address) {
	return address & ((UINT64_C(1) << KERNEL_POOL_SHIFT) - 1);
}

/* The time is that of handing it to the driver; when it passes, runs tell. */
static void trace_copy(const char *direction, uint64_t bytes, uint64_t begin_ns) {
	struct trace_event *e = trace_add(TRACE_COPY, NULL, begin_ns, loop_now_ns());

	e->number[0] = bytes;
	trace_word(e, direction);
}

/* Before any other command: those that follow read what it brings, and its host memory may go once they have run. */
static int queue_upload(struct device *d) {
	struct queue *q = &d->work;
	uint64_t bytes = q->upload_bytes, begin_ns;
	const cl_event *list;
	cl_uint before;
	cl_event event;

	if (!bytes)
		return 0;
	q->upload_bytes = 0;
	begin_ns = trace_on ? loop_now_ns() : 0;
	before = waits(q, &list);
	if (clEnqueueWriteBuffer(q->queue, d->memory.pool[q->upload_address >> KERNEL_POOL_SHIFT], CL_FALSE,
		    offset_of(q->upload_address), bytes, q->upload, before, list, &event))
		return -EIO;
	queued(q, event);
	d->counters.uploads++;
	d->counters.upload_bytes += bytes;
	if (begin_ns)
		trace_copy("upload", bytes, begin_ns);
	return 0;
}

/* A fence behind the newest command, there already or made. */
static int fence_get(struct device *d, struct fence **fencep) {
	struct queue *q = &d->work;
	struct fence *f;
	int r = queue_upload(d);

	if (r)
		return r;
	f = q->newest;
	*fencep = f;
	if (f && f->sequence == q->sequence)
		return 0;
	f = malloc(sizeof *f);
	if (!f)
		return -ENOMEM;
	*f = (struct fence){ .device = d, .sequence = q->sequence, .head = q->head, .launches = q->unfenced };
	atomic_init(&f->status, q->sequence == q->completed ? 0 : FENCE_WAITING);
	if (q->sequence == q->completed)
		f->ended_ns = loop_now_ns();
	else
		r = watch(q, f);
	if (r) {
		free(f);
		return r;
	}
	if (q->newest)
		q->newest->next = f;
	else
		q->first = f;
	q->newest = f;
	q->unfenced = 0;
	q->fenced = q->head;
	*fencep = f;
	return 0;
}

static void fence_add(struct fence *f, struct mark *m) {
	if (f->last)
		f->last->next = m;
	else
		f->first = m;
	f->last = m;
}

int device_mark(struct device *d, void (*done)(void *user, int error), void *user) {
	struct mark *m = malloc(sizeof *m);
	struct fence *f;
	int r;

	if (!m)
		return -ENOMEM;
	*m = (struct mark){ .done = done, .user = user };
	r = fence_get(d, &f);
	if (r) {
		free(m);
		return r;
	}
	fence_add(f, m);
	d->work.pending++;
	if (atomic_load_explicit(&f->status, memory_order_relaxed) != FENCE_WAITING)
		queue_signal(d);
	return 0;
}

/* Takes the first fence out, if it has completed. */
static struct fence *fence_pop(struct queue *q) {
	struct fence *f = q->first;

	if (!f || atomic_load_explicit(&f->status, memory_order_acquire) == FENCE_WAITING)
		return NULL;
	q->first = f->next;
	if (!q->first)
		q->newest = NULL;
	q->tail = f->head;
	q->running -= f->launches;
	/* What went near (near.c) may have passed already. */
	if (f->sequence > q->completed)
		q->completed = f->sequence;
	return f;
}

static void fence_answer(struct queue *q, struct fence *f) {
	int status = atomic_load_explicit(&f->status, memory_order_relaxed);
	struct mark *m;

	q->ended_ns = f->ended_ns;
	while ((m = f->first)) {
		f->first = m->next;
		q->pending--;
		m->done(m->user, status);
		free(m);
	}
	free(f);
}

uint32_t device_poll(struct device *d) {
	struct fence *f;

	atomic_store(&d->work.signalled, false);
	while ((f = fence_pop(&d->work)))
		fence_answer(&d->work, f);
	return programs_poll(d);
}

uint64_t device_ended_ns(const struct device *d) {
	return d->work.ended_ns;
}

uint32_t device_pending(const struct device *d) {
	return d->work.pending;
}

/* ---- commands ---- */

int device_timed(struct device *d, bool timed) {
	struct queue *q = &d->work;
	cl_int error = CL_SUCCESS;

	if (d->config.profile || timed == (q->queue == q->timed))
		return 0;
	if (!q->timed)
		q->timed = clCreateCommandQueue(d->context, d->choice.device, CL_QUEUE_PROFILING_ENABLE, &error);
	/* What a queue waits for in another one must be on its way. */
	if (error || queue_upload(d) || clFlush(q->queue))
		return -EIO;
	q->queue = timed ? q->timed : q->plain;
	q->changed = q->last != NULL;
	return 0;
}

/* Keeps the ring and the driver's own lists from filling up where nobody marks. */
static void fence_now_and_then(struct device *d) {
	struct queue *q = &d->work;
	struct fence *f;

	if (q->unfenced < QUEUE_FENCE_LAUNCHES && q->head - q->fenced < q->words / QUEUE_FENCE_SHARE)
		return;
	/* Where memory is short, the next launch tries again. */
	if (fence_get(d, &f))
		return;
}

/* Room for one launch's records, in one piece; *firstp is its first word. */
static int ring_take(struct queue *q, uint64_t words, uint64_t *firstp) {
	uint64_t need = (words + QUEUE_ALIGN - 1) & ~(uint64_t)(QUEUE_ALIGN - 1);
	uint64_t at = q->head & (q->words - 1);
	uint64_t skip = at + need > q->words ? q->words - at : 0;

	if (need > q->words)
		return -EIO;
	if (q->head + skip + need - q->tail > q->words)
		return -EAGAIN;
	*firstp = (q->head + skip) & (q->words - 1);
	q->head += skip + need;
	return 0;
}

static int put_records(struct device *d, const uint64_t *records, uint64_t words, bool reached, uint64_t *firstp) {
	struct queue *q = &d->work;
	const cl_event *list;
	cl_uint before;
	int r = ring_take(q, words, firstp);

	if (r)
		return r;
	memcpy(q->ring + *firstp, records, words * sizeof *records);
	if (d->flat || reached)
		return 0;
	before = waits(q, &list);
	if (clEnqueueWriteBuffer(q->queue, q->records, CL_FALSE, *firstp * sizeof *records,
		    words * sizeof *records, q->ring + *firstp, before, list, NULL))
		return -EIO;
	q->changed = false;
	return 0;
}

bool queue_is_idle(const struct device *d) {
	const struct queue *q = &d->work;

	return !q->first && q->sequence == q->completed && !q->upload_bytes;
}

int queue_put_records(struct device *d, const uint64_t *records, uint64_t words, uint64_t *firstp) {
	return put_records(d, records, words, true, firstp);
}

void queue_passed(struct device *d) {
	struct queue *q = &d->work;

	q->completed = q->flushed = ++q->sequence;
	q->tail = q->fenced = q->head;
	q->running = q->unfenced = 0;
}

static cl_int set_own(const struct device *d, const struct program *p, const uint64_t *words) {
	return clSetKernelArg(p->object, 2 + d->traits.pools, p->own_words * sizeof *words, words);
}

/* Without a buffer the records begin at address 0, and `first` is the host's address in words. */
static cl_int set_arguments(struct device *d, struct program *p, bool reached, uint64_t first) {
	cl_ulong word = reached ? (uintptr_t)(d->work.ring + first) / sizeof *d->work.ring : first;
	cl_int error = CL_SUCCESS;

	if (p->pools_set != d->memory.generation || p->reaches != reached) {
		error = clSetKernelArg(p->object, 0, sizeof(cl_mem), reached ? NULL : &d->work.records);
		p->reaches = reached;
		if (!error)
			error = memory_set_pools(d, p->object);
		/* An argument must be set, though only launches of one task have it. */
		if (!error && p->own_words)
			error = set_own(d, p, d->work.ring);
		if (error)
			return error;
		p->pools_set = d->memory.generation;
	}
	return clSetKernelArg(p->object, 1, sizeof word, &word);
}

/* Do kernels read the records in the host's memory? */
static bool may_reach(const struct queue *q, uint32_t tasks, uint64_t items, uint32_t local) {
	return q->reached && (tasks > 1 ? items / local * tasks <= QUEUE_REACH_GROUPS : items <= QUEUE_REACH_ITEMS);
}

int device_launch(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items,
	uint32_t local) {
	return device_launch_words(d, p, records, (uint64_t)p->words * tasks, tasks, items, local);
}

int device_launch_words(struct device *d, struct program *p, const uint64_t *words, uint64_t count, uint32_t tasks,
	uint64_t items, uint32_t local) {
	size_t global_size[2] = { items, tasks }, local_size[2] = { local, 1 };
	struct queue *q = &d->work;
	bool own = p->own_words && tasks == 1, reached = !own && may_reach(q, tasks, items, local);
	const cl_event *list;
	cl_uint before;
	cl_event event;
	uint64_t first = KERNEL_OWN;
	cl_kernel object = NULL;
	cl_int error;
	int r;

	if (program_state(p) == PROGRAM_FAILED || !tasks || !items)
		return -EIO;
	/* One that had to be built again. */
	if (program_state(p) == PROGRAM_BUILDING)
		return -EAGAIN;
	if (p->keeping || q->running >= QUEUE_LAUNCHES)
		return -EAGAIN;
	r = resident_use(d, p);
	if (!r)
		r = queue_upload(d);
	if (!r && !own)
		r = put_records(d, words, count, reached, &first);
	if (r)
		return r;
	programs_launching(d);
	if (p->code)
		object = direct_object(d, p, first);
	else if (!set_arguments(d, p, reached, first) && !(own && set_own(d, p, words)))
		object = p->object;
	if (!object)
		return -EIO;
	before = waits(q, &list);
	error = clEnqueueNDRangeKernel(q->queue, object, 2, NULL, global_size, local_size, before, list, &event);
	if (error) {
		program_log_fault(p, error, "the driver refuses to launch");
		return -EIO;
	}
	queued(q, event);
	q->running++;
	q->unfenced++;
	d->counters.launches++;
	d->counters.launches_direct += p->code != NULL;
	d->counters.tasks += tasks;
	fence_now_and_then(d);
	return 0;
}

static int event_times(cl_event event, cl_ulong *startp, cl_ulong *endp) {
	if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof *startp, startp, NULL) ||
		clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *endp, endp, NULL))
		return -EIO;
	return 0;
}

int device_time(struct device *d, double *nsp) {
	cl_event event = d->work.last;
	cl_ulong start, end;

	if (!event || clWaitForEvents(1, &event) || event_times(event, &start, &end))
		return -EIO;
	*nsp = end > start ? (double)(end - start) : 0;
	return 0;
}

/* A stamp is the event itself. */
struct stamp *device_stamp(struct device *d) {
	cl_event event = d->work.last;

	bool timed = d->config.profile || (d->work.timed && d->work.queue == d->work.timed);

	if (!timed || !event || clRetainEvent(event))
		return NULL;
	return (struct stamp *)event;
}

int stamp_read(const struct stamp *s, struct stamp_times *to) {
	cl_event event = (cl_event)(uintptr_t)s;
	cl_ulong queued, start, end;

	if (event_times(event, &start, &end) || end < start ||
		clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED, sizeof queued, &queued, NULL))
		return -EIO;
	*to = (struct stamp_times){ queued, start, end };
	return 0;
}

struct stamp *stamp_free(struct stamp *s) {
	if (s)
		clReleaseEvent((cl_event)s);
	return NULL;
}

int device_upload(struct device *d, uint64_t address, const void *host, uint64_t bytes) {
	struct queue *q = &d->work;
	int r;

	if (d->flat || address >> KERNEL_POOL_SHIFT >= d->memory.pools)
		return -EIO;
	if (!bytes)
		return 0;
	/* What lies side by side here and there is one copy; no array goes over the end of a pool. */
	if (q->upload_bytes && q->upload + q->upload_bytes == host && q->upload_address + q->upload_bytes == address &&
		q->upload_address >> KERNEL_POOL_SHIFT == address >> KERNEL_POOL_SHIFT) {
		q->upload_bytes += bytes;
		return 0;
	}
	r = queue_upload(d);
	q->upload = host;
	q->upload_address = address;
	q->upload_bytes = bytes;
	return r;
}

int device_download(struct device *d, void *host, uint64_t address, uint64_t bytes) {
	unsigned pool = (unsigned)(address >> KERNEL_POOL_SHIFT);
	const cl_event *list;
	uint64_t begin_ns;
	cl_uint before;
	cl_event event;

	if (d->flat || pool >= d->memory.pools)
		return -EIO;
	if (!bytes)
		return 0;
	if (queue_upload(d))
		return -EIO;
	begin_ns = trace_on ? loop_now_ns() : 0;
	before = waits(&d->work, &list);
	if (clEnqueueReadBuffer(d->work.queue, d->memory.pool[pool], CL_FALSE, offset_of(address), bytes,
		    host, before, list, &event))
		return -EIO;
	queued(&d->work, event);
	d->counters.downloads++;
	d->counters.download_bytes += bytes;
	if (begin_ns)
		trace_copy("download", bytes, begin_ns);
	return 0;
}

int device_flush(struct device *d) {
	return flush(&d->work);
}

int queue_drain(struct device *d) {
	const struct timespec pause = { .tv_nsec = QUEUE_PAUSE_NS };
	int r = clFinish(d->work.plain) ? -EIO : 0;

	if (d->work.timed && clFinish(d->work.timed))
		r = -EIO;
	/* Callbacks may come later than clFinish() returns. */
	while (atomic_load(&d->work.callbacks))
		nanosleep(&pause, NULL);
	return r;
}

int device_finish(struct device *d) {
	struct queue *q = &d->work;
	uint64_t sequence;
	int r = queue_upload(d), drained;

	sequence = q->sequence;
	drained = queue_drain(d);
	r = r ? r : drained;
	device_poll(d);
	/* Those that were told may have queued more. */
	if (q->first || q->sequence != sequence)
		return r;
	/* What no fence covered has run as well. */
	q->tail = q->fenced = q->head;
	q->completed = q->sequence;
	q->running = q->unfenced = 0;
	return r;
}

/* ---- opening and closing ---- */

int queue_open(struct device *d) {
	struct queue *q = &d->work;
	cl_int error;

	q->queue = clCreateCommandQueue(
		d->context, d->choice.device, d->config.profile ? CL_QUEUE_PROFILING_ENABLE : 0, &error);
	if (error)
		return -EIO;
	q->plain = q->queue;
	q->words = (uint64_t)d->quirks->ring_kib * 1024 / sizeof *q->ring;
	return d->quirks->flags & QUIRK_LATE_CALLBACKS ? watcher_new(&q->watcher) : 0;
}

int queue_open_ring(struct device *d) {
	struct queue *q = &d->work;
	uint64_t bytes = q->words * sizeof *q->ring;
	cl_int error;

	q->ring = (uint64_t *)d->memory.base;
	q->records =
		clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, q->ring, &error);
	return error ? -EIO : 0;
}

/*
 * Kernels of other devices do not see what the host changes in memory of its own: they get a buffer
 * that each launch writes its records to.
 */
int queue_part_ring(struct device *d) {
	struct queue *q = &d->work;
	cl_int error;
	cl_mem records = clCreateBuffer(d->context, CL_MEM_READ_ONLY, q->words * sizeof *q->ring, NULL, &error);
	uint64_t address;

	if (error)
		return -EIO;
	clReleaseMemObject(q->records);
	q->records = records;
	device_pin(d, q->ring, q->words * sizeof *q->ring, &address);
	q->reached = address != 0;
	return 0;
}

void queue_close(struct device *d) {
	struct queue *q = &d->work;
	struct fence *f;
	struct mark *m;

	while ((f = q->first)) {
		q->first = f->next;
		while ((m = f->first)) {
			f->first = m->next;
			free(m);
		}
		free(f);
	}
	q->watcher = watcher_free(q->watcher);
	if (q->last)
		clReleaseEvent(q->last);
	if (q->records)
		clReleaseMemObject(q->records);
	if (q->timed)
		clReleaseCommandQueue(q->timed);
	if (q->plain)
		clReleaseCommandQueue(q->plain);
	q->queue = q->plain = q->timed = NULL;
}

/*
 * Small launches on the thread that asks for them.
 *
 * A driver that computes on processors hands a launch to threads of its own and tells of its end by another: three wakes, 10 to
 * 30 us of several threads, which is more than a kernel over some ten thousand elements takes. Some have, beside the device, one
 * that computes at once on the thread that enqueues (quirks.def: PoCL's `basic`, which it calls `cpu-minimal` from release 5 on). Nobody may choose that one; it
 * has a context of its own, over the same memory, and what was launched on it has run when near_launch() returns.
 *
 * To the driver it is another device, so its programs are compiled once more. That is done for those alone that were launched small
 * often, as for anybody else by a worker and at low priority; until then, and where it fails, they go the other way.
 *
 * The queue stays one in order: near_launch() refuses while anything is queued or runs there. Both devices have one code generator;
 * which way a launch goes changes no bit.
 */
#include "direct.h"
#include "resident.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	/*
	 * A program is compiled once more when its launches could have saved so much by that: it takes a compiler about twice as long. What they
	 * save is next to nothing for what is launched now and then.
	 */
	NEAR_WORTH_US = 80000,
	/* What a small launch takes less here than of the driver's threads. */
	NEAR_SAVES_US = 20,
	NEAR_DEVICES = 16,
};

/* ---- the device ---- */

/* Does it begin with one of the words? */
static bool begins_with_one(const char *name, const char *words) {
	while (*words) {
		size_t length = strcspn(words, " ");

		if (!strncmp(name, words, length))
			return true;
		words += length;
		words += strspn(words, " ");
	}
	return false;
}

/* Where somebody else said which devices there are, each of them is one to choose. */
bool near_is(const char *platform, const char *device) {
	const struct quirks *q = quirks_of(platform, device);
	const char *devices = q->near ? getenv(q->variable) : NULL;

	return devices && strcmp(devices, q->value) == 0 && begins_with_one(device, q->near);
}

static char *name_of(cl_device_id device) {
	size_t size = 0;
	char *name;

	if (clGetDeviceInfo(device, CL_DEVICE_NAME, 0, NULL, &size) || !size)
		return NULL;
	name = calloc(1, size + 1);
	if (name && !clGetDeviceInfo(device, CL_DEVICE_NAME, size, name, NULL))
		return name;
	free(name);
	return NULL;
}

static int find(struct device *d) {
	cl_device_id device[NEAR_DEVICES];
	struct near *n = &d->near;
	cl_uint devices = 0;

	if (clGetDeviceIDs(d->choice.platform, CL_DEVICE_TYPE_ALL, NEAR_DEVICES, device, &devices))
		return -ENODEV;
	for (cl_uint i = 0; i < devices && i < NEAR_DEVICES; i++) {
		n->name = name_of(device[i]);
		if (n->name && near_is(d->choice.platform_name, n->name)) {
			n->device = device[i];
			return 0;
		}
		free(n->name);
		n->name = NULL;
	}
	return -ENODEV;
}

int near_open(struct device *d) {
	cl_int error;

	if (d->near.context)
		return 0;
	if (!d->quirks->near || find(d))
		return -ENODEV;
	d->near.context = clCreateContext(NULL, 1, &d->near.device, NULL, NULL, &error);
	return error ? -EIO : 0;
}

int near_open_queue(struct device *d) {
	struct near *n = &d->near;
	int r = near_open(d);
	cl_int error;

	if (r)
		return r;
	n->records = clCreateBuffer(n->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, d->work.words * sizeof(uint64_t),
		d->work.ring, &error);
	n->claims = d->work.ring + d->work.words;
	if (!error)
		n->queue = clCreateCommandQueue(n->context, n->device, 0, &error);
	return error ? -EIO : 0;
}

void near_close(struct device *d) {
	struct near *n = &d->near;

	if (n->records)
		clReleaseMemObject(n->records);
	if (n->queue)
		clReleaseCommandQueue(n->queue);
	if (n->context)
		clReleaseContext(n->context);
	free(n->name);
	*n = (struct near){ 0 };
}

struct target device_target(const struct device *d, bool near) {
	if (near)
		return (struct target){ d->near.context, d->near.device, d->near.name };
	return (struct target){ d->context, d->choice.device, d->choice.name };
}

/* ---- launches ---- */

struct program *near_program(struct device *d, struct program *p, uint32_t saves_us) {
	if (p->near_one)
		return program_state(p->near_one) == PROGRAM_READY ? p->near_one : NULL;
	p->saving_us += saves_us;
	if (p->saving_us >= NEAR_WORTH_US) {
		p->near_one = programs_near(d, p);
		p->saving_us = 0;
	}
	return NULL;
}

static cl_int set_arguments(struct device *d, struct program *p, uint64_t first) {
	cl_ulong word = first;
	cl_int error = CL_SUCCESS;

	/* The records and the one pool of a device that shares the host's addresses begin at the same place. */
	for (cl_uint i = 0; !p->pools_set && i < 2 && !error; i++)
		error = clSetKernelArg(p->object, 2 * i, sizeof(cl_mem), &d->near.records);
	p->pools_set = !error;
	return error ? error : clSetKernelArg(p->object, 1, sizeof word, &word);
}

int device_launch_near(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items, uint32_t local) {
	size_t global_size[2] = { items, tasks }, local_size[2] = { local, 1 };
	uint64_t words = (uint64_t)p->words * tasks, first;
	struct program *near;
	int r;

	if (!d->near.queue || !queue_is_idle(d) || program_state(p) != PROGRAM_READY)
		return -EAGAIN;
	r = resident_use(d, p);
	if (r)
		return r;
	near = p->code ? p : near_program(d, p, NEAR_SAVES_US);
	r = near ? queue_put_records(d, records, words, &first) : -EAGAIN;
	if (r)
		return r;
	programs_launching(d);
	if (p->code)
		direct_run(d, p, first, items, tasks);
	else if (set_arguments(d, near, first) ||
		 clEnqueueNDRangeKernel(d->near.queue, near->object, 2, NULL, global_size, local_size, 0, NULL, NULL) ||
		 clFinish(d->near.queue))
		return -EIO;
	queue_passed(d);
	d->counters.launches_direct += p->code != NULL;
	d->counters.launches++;
	d->counters.launches_near++;
	d->counters.tasks += tasks;
	return 0;
}

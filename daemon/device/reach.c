/*
 * Do kernels reach the host's memory?
 *
 * Some devices see host memory that the driver was told of (device_pin()) at the addresses that the process has it at, over the
 * bus. A small array is then read or written where it lies, which costs less than the call that would copy it. OpenCL promises
 * nothing of this, and a device that does not see it loses its context: so it is tried in the child that tries the drivers
 * (probe.c), in the way in which it is then done: a pool argument without a buffer is address 0.
 */
#include "state.h"

#include <string.h>
#include <sys/mman.h>

enum {
	REACH_WORDS = 1024,
	/* More than one page of any size, as an arena. */
	REACH_BYTES = 4 << 20,
	/* The host changes the memory between two launches. */
	REACH_ROUNDS = 2,
};

static const char source[] = "kernel void reach(global uchar *none, ulong at) {\n"
			     "	global uint *const p = (global uint *)(none + at);\n"
			     "	p[get_global_id(0) + 1024] = p[get_global_id(0)] + 1;\n"
			     "}\n";

struct trial {
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_mem pin;
	uint32_t *host;
};

static cl_int trial_build(struct trial *t, cl_device_id device) {
	const char *text = source;
	cl_int error;

	t->program = clCreateProgramWithSource(t->context, 1, &text, NULL, &error);
	if (!error)
		error = clBuildProgram(t->program, 1, &device, "", NULL, NULL);
	if (!error)
		t->kernel = clCreateKernel(t->program, "reach", &error);
	return error;
}

static cl_int trial_open(struct trial *t, cl_device_id device) {
	cl_ulong at = (uintptr_t)t->host;
	cl_int error;

	t->context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	if (!error)
		t->queue = clCreateCommandQueue(t->context, device, 0, &error);
	if (!error)
		error = trial_build(t, device);
	if (!error)
		t->pin = clCreateBuffer(t->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, REACH_BYTES, t->host, &error);
	if (!error)
		error = clSetKernelArg(t->kernel, 0, sizeof(cl_mem), NULL);
	if (!error)
		error = clSetKernelArg(t->kernel, 1, sizeof at, &at);
	return error;
}

static bool trial_round(const struct trial *t, uint32_t round) {
	size_t items = REACH_WORDS;

	for (uint32_t i = 0; i < REACH_WORDS; i++)
		t->host[i] = 3 * i + round;
	if (clEnqueueNDRangeKernel(t->queue, t->kernel, 1, NULL, &items, NULL, 0, NULL, NULL) || clFinish(t->queue))
		return false;
	for (uint32_t i = 0; i < REACH_WORDS; i++)
		if (t->host[REACH_WORDS + i] != 3 * i + round + 1)
			return false;
	return true;
}

bool reach_trial(cl_device_id device) {
	struct trial t = { .host = mmap(NULL, REACH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) };
	bool reaches;

	if (t.host == MAP_FAILED)
		return false;
	reaches = !trial_open(&t, device);
	for (uint32_t i = 0; reaches && i < REACH_ROUNDS; i++)
		reaches = trial_round(&t, i);
	return reaches;                  /* the child ends: nothing is given back */
}

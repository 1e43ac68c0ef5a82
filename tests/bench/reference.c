/*
 * Plain kernels of this process: what memory can do on the device, as the measure for fused ones.
 *
 * Each work-item walks a chunk with vectors of 16 and stores past the caches; where the compiler
 * has no such store (a GPU's), each item handles one vector of 4 instead. They run through OpenCL
 * directly and have nothing of the daemon's in them.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl.h>

enum {
	/* Elements of one work-item: the best of the sizes tried on a CPU. */
	CHUNK = 8192,
	LANES = 4,
	BUFFERS = 3,
	BUILD_LOG = 4096,
};

#define USEFUL_ELEMENTS (INT64_C(1) << 18)

/* Work-items walk chunks (CPU). */
static const char chunk_source[] =
	"typedef float wide __attribute__((ext_vector_type(16), aligned(4)));\n"
	"#define LOAD(p) ((float16)*(__global const wide *)(p))\n"
	"#define STORE(p, v) __builtin_nontemporal_store((float16)(v), (__global float16 *)(p))\n"
	"#define FIRST size_t s = get_global_id(0) * (size_t)CHUNK\n"
	"#define EACH for (size_t i = s; i < s + CHUNK; i += 16)\n"
	"#define ARGUMENTS __global const float *restrict a, __global const float *restrict b, __global "
	"float *restrict c\n"
	"__kernel void add(ARGUMENTS) { FIRST; EACH STORE(c + i, LOAD(a + i) + LOAD(b + i)); }\n"
	"__kernel void copy(ARGUMENTS) { FIRST; EACH STORE(c + i, LOAD(a + i)); }\n"
	"__kernel void read(ARGUMENTS) {\n"
	"  FIRST; float16 t0 = 0, t1 = 0, t2 = 0, t3 = 0;\n"
	"  for (size_t i = s; i < s + CHUNK; i += 64) {\n"
	"    t0 += LOAD(a + i); t1 += LOAD(a + i + 16); t2 += LOAD(a + i + 32); t3 += LOAD(a + i + 48);\n"
	"  }\n"
	"  t0 += t1 + t2 + t3;\n"
	"  float8 u = t0.lo + t0.hi; float4 v = u.lo + u.hi; c[get_global_id(0)] = v.x + v.y + v.z + v.w;\n"
	"}\n";

/* One vector an item (GPU); read has a fixed number of items, so that it writes little. */
static const char lane_source[] =
	"#define ARGUMENTS __global const float *restrict a, __global const float *restrict b, __global "
	"float *restrict c\n"
	"#define I size_t i = get_global_id(0)\n"
	"__kernel void add(ARGUMENTS) { I; vstore4(vload4(i, a) + vload4(i, b), i, c); }\n"
	"__kernel void copy(ARGUMENTS) { I; vstore4(vload4(i, a), i, c); }\n"
	"__kernel void read(ARGUMENTS) {\n"
	"  I; float4 t = 0;\n"
	"  for (uint k = 0; k < CHUNK / 4; k++) t += vload4(i + k * get_global_size(0), a);\n"
	"  c[i] = t.x + t.y + t.z + t.w;\n"
	"}\n";

struct reference {
	cl_context context;
	cl_command_queue queue;
	cl_device_id device;
	cl_program program;
	cl_kernel kernel[PLAINS];
	cl_mem buffer[BUFFERS];
	int64_t elements; /* of each buffer */
	bool lanes;       /* lane_source is in use */
};

static const char *const kernel_name[PLAINS] = {
	[PLAIN_ADD] = "add", [PLAIN_COPY] = "copy", [PLAIN_READ] = "read"
};

bool reference_useful(int64_t elements) {
	return elements >= USEFUL_ELEMENTS;
}

static int check(cl_int code, const char *call) {
	return code ? bench_fail("%s failed with %d", call, code) : 0;
}

/* The device of the daemon, by its name; else the first there is. */
static int find_device(struct reference *r, const char *name) {
	cl_platform_id platform[16];
	cl_device_id device[16];
	cl_uint platforms = 0, devices;
	char text[256];

	if (clGetPlatformIDs(16, platform, &platforms) || !platforms)
		return bench_fail("no OpenCL platform for the plain kernels");
	for (cl_uint p = 0; p < platforms && p < 16; p++) {
		if (clGetDeviceIDs(platform[p], CL_DEVICE_TYPE_ALL, 16, device, &devices))
			continue;
		for (cl_uint i = 0; i < devices && i < 16; i++) {
			if (clGetDeviceInfo(device[i], CL_DEVICE_NAME, sizeof text, text, NULL))
				continue;
			if (!r->device || strstr(name, text))
				r->device = device[i];
		}
	}
	return r->device ? 0 : bench_fail("no OpenCL device for the plain kernels");
}

static int build(struct reference *r, const char *source) {
	char options[64];
	cl_int code;

	snprintf(options, sizeof options, "-DCHUNK=%d", CHUNK);
	r->program = clCreateProgramWithSource(r->context, 1, &source, NULL, &code);
	if (code || clBuildProgram(r->program, 1, &r->device, options, NULL, NULL))
		return -1;
	for (int i = 0; i < PLAINS; i++) {
		r->kernel[i] = clCreateKernel(r->program, kernel_name[i], &code);
		if (code)
			return -1;
	}
	return 0;
}

static void drop_program(struct reference *r) {
	for (int i = 0; i < PLAINS; i++) {
		if (r->kernel[i])
			clReleaseKernel(r->kernel[i]);
		r->kernel[i] = NULL;
	}
	if (r->program)
		clReleaseProgram(r->program);
	r->program = NULL;
}

static int build_either(struct reference *r) {
	cl_device_type type = 0;

	clGetDeviceInfo(r->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
	if (type & CL_DEVICE_TYPE_CPU && !build(r, chunk_source))
		return 0;
	drop_program(r);
	r->lanes = true;
	return build(r, lane_source) ? bench_fail("the plain kernels do not build") : 0;
}

struct reference *reference_free(struct reference *r) {
	if (!r)
		return NULL;
	drop_program(r);
	for (int i = 0; i < BUFFERS; i++)
		if (r->buffer[i])
			clReleaseMemObject(r->buffer[i]);
	if (r->queue)
		clReleaseCommandQueue(r->queue);
	if (r->context)
		clReleaseContext(r->context);
	free(r);
	return NULL;
}

static struct reference *reference_new(const char *device) {
	struct reference *r = calloc(1, sizeof *r);
	cl_int code = 0;

	if (!r || find_device(r, device))
		return reference_free(r);
	r->context = clCreateContext(NULL, 1, &r->device, NULL, NULL, &code);
	if (!check(code, "clCreateContext"))
		r->queue = clCreateCommandQueue(r->context, r->device, 0, &code);
	if (check(code, "clCreateCommandQueue") || build_either(r))
		return reference_free(r);
	return r;
}

/* Pages exist once they are written. */
static int grow(struct reference *r, int64_t elements) {
	const float one = 1;
	size_t bytes = (size_t)elements * sizeof one;
	cl_int code = 0;

	if (elements <= r->elements)
		return 0;
	for (int i = 0; i < BUFFERS && !code; i++) {
		if (r->buffer[i])
			clReleaseMemObject(r->buffer[i]);
		r->buffer[i] = clCreateBuffer(r->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
		if (!code)
			code = clEnqueueFillBuffer(
				r->queue, r->buffer[i], &one, sizeof one, 0, bytes, 0, NULL, NULL);
	}
	r->elements = elements;
	return check(code ? code : clFinish(r->queue), "making buffers");
}

int reference_run(struct bench *b, enum plain kernel, int64_t elements, double *secondsp) {
	int64_t chunks = elements / CHUNK;
	size_t items = (size_t)chunks;
	const size_t one = 1;
	struct reference *r;
	cl_int code = 0;
	double start;

	if (!b->reference)
		b->reference = reference_new(b->device);
	r = b->reference;
	if (!r || grow(r, chunks * CHUNK))
		return -1;
	if (r->lanes)
		items *= kernel == PLAIN_READ ? 1 : CHUNK / LANES;
	for (cl_uint i = 0; i < BUFFERS && !code; i++)
		code = clSetKernelArg(r->kernel[kernel], i, sizeof(cl_mem), &r->buffer[i]);
	start = bench_now();
	if (!code)
		code = clEnqueueNDRangeKernel(
			r->queue, r->kernel[kernel], 1, NULL, &items, r->lanes ? NULL : &one, 0, NULL, NULL);
	if (!code)
		code = clFinish(r->queue);
	*secondsp = (bench_now() - start) * (double)elements / (double)(chunks * CHUNK);
	return check(code, "a plain kernel");
}

/* OpenCL for the tests of the device function library. See device.h. */
#define CL_TARGET_OPENCL_VERSION 120
#include "device.h"

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SOURCE_BYTES = 1 << 20, PADDING_BYTES = 256, MAX_PLATFORMS = 16 };

static const char *const sections[] = {
	"types", "convert", "memory", "integer", "real", "math_f32", "math_f64", NULL,
};

struct device {
	cl_device_id id;
	cl_context context;
	cl_command_queue queue;
	const char *kernels;
	char name[256];
	size_t local;                /* work-items a group */
	bool f64;
};

struct program {
	struct device *device;
	cl_program program;
	double build_ms;
};

static void require(bool ok, const char *what, int code) {
	if (ok)
		return;
	fprintf(stderr, "%s failed with %d\n", what, code);
	exit(2);
}

struct device *device_open(unsigned platform, const char *kernels) {
	struct device *d = calloc(1, sizeof *d);
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_uint n = 0;
	cl_device_type type = 0;
	cl_device_fp_config doubles = 0;
	cl_int r;

	r = clGetPlatformIDs(MAX_PLATFORMS, platforms, &n);
	require(d && !r && platform < n, "finding the OpenCL platform", r);
	r = clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, 1, &d->id, NULL);
	require(!r, "finding a device", r);
	d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &r);
	require(!r, "clCreateContext", r);
	d->queue = clCreateCommandQueue(d->context, d->id, 0, &r);
	require(!r, "clCreateCommandQueue", r);
	clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof d->name, d->name, NULL);
	r = clGetDeviceInfo(d->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
	d->f64 = !r && doubles != 0;
	clGetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
	d->local = type & CL_DEVICE_TYPE_CPU ? 1 : 64;
	d->kernels = kernels;
	return d;
}

void device_close(struct device *d) {
	clReleaseCommandQueue(d->queue);
	clReleaseContext(d->context);
	free(d);
}

const char *device_name(const struct device *d) {
	return d->name;
}

bool device_has_f64(const struct device *d) {
	return d->f64;
}

static size_t append_file(const char *folder, const char *name, char *text, size_t used) {
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s.cl", folder, name);
	f = fopen(path, "r");
	require(f != NULL, path, 0);
	used += fread(text + used, 1, SOURCE_BYTES - used - 1, f);
	fclose(f);
	return used;
}

static double milliseconds(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void print_log(const struct program *p) {
	static char log[1 << 16];

	clGetProgramBuildInfo(p->program, p->device->id, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
	fprintf(stderr, "%.*s\n", (int)sizeof log - 1, log);
}

struct program *program_build(struct device *d, int lanes, bool f64, const char *text) {
	struct program *p = calloc(1, sizeof *p);
	char *source = malloc(SOURCE_BYTES);
	const char *from = source;
	size_t used;
	cl_int r;

	require(p && source, "allocating a program", 0);
	used = (size_t)snprintf(source, SOURCE_BYTES, "#pragma OPENCL FP_CONTRACT OFF\n#define W %d\n%s", lanes,
		f64 ? "#define HAS_F64 1\n" : "");
	for (int i = 0; sections[i]; i++)
		if (f64 || strcmp(sections[i], "math_f64") != 0)
			used = append_file(d->kernels, sections[i], source, used);
	require(used + strlen(text) < SOURCE_BYTES, "fitting the source", 0);
	memcpy(source + used, text, strlen(text) + 1);
	p->device = d;
	p->build_ms = -milliseconds();
	p->program = clCreateProgramWithSource(d->context, 1, &from, NULL, &r);
	require(!r, "clCreateProgramWithSource", r);
	r = clBuildProgram(p->program, 1, &d->id, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt", NULL,
		NULL);
	if (r)
		print_log(p);
	require(!r, "clBuildProgram", r);
	p->build_ms += milliseconds();
	free(source);
	return p;
}

void program_free(struct program *p) {
	clReleaseProgram(p->program);
	free(p);
}

double program_build_ms(const struct program *p) {
	return p->build_ms;
}

static cl_mem buffer_of(struct device *d, size_t bytes, const void *from) {
	cl_int r;
	cl_mem m = clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes + PADDING_BYTES, NULL, &r);

	require(!r, "clCreateBuffer", r);
	if (from)
		r = clEnqueueWriteBuffer(d->queue, m, CL_TRUE, 0, bytes, from, 0, NULL, NULL);
	require(!r, "clEnqueueWriteBuffer", r);
	return m;
}

void program_run(struct program *p, const char *name, size_t n, const void *const in[DEVICE_MAX_INPUTS],
	const size_t bytes[DEVICE_MAX_INPUTS], void *out, size_t out_bytes) {
	struct device *d = p->device;
	cl_mem buffers[DEVICE_MAX_INPUTS + 1];
	size_t items = n / PROGRAM_CHUNK;
	cl_uint count = PROGRAM_CHUNK;
	cl_kernel k;
	cl_int r;

	k = clCreateKernel(p->program, name, &r);
	require(!r, name, r);
	for (cl_uint i = 0; i < DEVICE_MAX_INPUTS; i++)
		buffers[i] = buffer_of(d, in[i] ? n * bytes[i] : 1, in[i] ? in[i] : "");
	buffers[DEVICE_MAX_INPUTS] = buffer_of(d, n * out_bytes, NULL);
	for (cl_uint i = 0; i <= DEVICE_MAX_INPUTS; i++)
		clSetKernelArg(k, i, sizeof(cl_mem), &buffers[i]);
	clSetKernelArg(k, DEVICE_MAX_INPUTS + 1, sizeof count, &count);
	r = clEnqueueNDRangeKernel(d->queue, k, 1, NULL, &items, items % d->local ? NULL : &d->local, 0, NULL, NULL);
	require(!r, "clEnqueueNDRangeKernel", r);
	r = clEnqueueReadBuffer(d->queue, buffers[DEVICE_MAX_INPUTS], CL_TRUE, 0, n * out_bytes, out, 0, NULL,
		NULL);
	require(!r, "clEnqueueReadBuffer", r);
	for (int i = 0; i <= DEVICE_MAX_INPUTS; i++)
		clReleaseMemObject(buffers[i]);
	clReleaseKernel(k);
}

struct runner {
	struct device *device;
	cl_command_queue queue;
	cl_kernel operands, kernels[2];
	cl_mem in, out[2], unused;
	void *mapped[2];
	size_t n;
};

static cl_mem runner_buffer(struct device *d, cl_mem_flags flags, size_t bytes) {
	cl_int r;
	cl_mem m = clCreateBuffer(d->context, CL_MEM_READ_WRITE | flags, bytes, NULL, &r);

	require(!r, "clCreateBuffer", r);
	return m;
}

static cl_kernel runner_kernel(struct program *p, const char *name) {
	cl_int r;
	cl_kernel k = clCreateKernel(p->program, name, &r);

	require(!r, name, r);
	return k;
}

/* As program_run() calls them, with one operand. */
static cl_kernel runner_function(struct runner *r, struct program *p, const char *name, cl_mem out) {
	cl_kernel k = runner_kernel(p, name);
	cl_uint count = PROGRAM_CHUNK;

	clSetKernelArg(k, 0, sizeof(cl_mem), &r->in);
	for (cl_uint i = 1; i < DEVICE_MAX_INPUTS; i++)
		clSetKernelArg(k, i, sizeof(cl_mem), &r->unused);
	clSetKernelArg(k, DEVICE_MAX_INPUTS, sizeof(cl_mem), &out);
	clSetKernelArg(k, DEVICE_MAX_INPUTS + 1, sizeof count, &count);
	return k;
}

struct runner *runner_open(struct program *few, struct program *many, const char *name, size_t n) {
	struct runner *r = calloc(1, sizeof *r);
	struct program *programs[2] = { few, many };
	size_t bytes = n * sizeof(cl_uint);
	cl_int error;

	require(r != NULL, "allocating a runner", 0);
	r->device = many->device;
	r->n = n;
	r->queue = clCreateCommandQueue(r->device->context, r->device->id, 0, &error);
	require(!error, "clCreateCommandQueue", error);
	r->in = runner_buffer(r->device, 0, bytes + PADDING_BYTES);
	r->unused = runner_buffer(r->device, 0, PADDING_BYTES);
	r->operands = runner_kernel(many, "consecutive");
	clSetKernelArg(r->operands, 0, sizeof(cl_mem), &r->in);
	for (int i = 0; i < 2; i++) {
		r->out[i] = runner_buffer(r->device, CL_MEM_ALLOC_HOST_PTR, bytes + PADDING_BYTES);
		r->kernels[i] = runner_function(r, programs[i], name, r->out[i]);
	}
	return r;
}

static void runner_launch(struct runner *r, cl_kernel k, size_t items) {
	size_t local = r->device->local == 1 ? PROGRAM_CHUNK : r->device->local;
	cl_int error;

	/* On CPUs a group is a call: of a function's loop it is one item's, of what is one line many. */
	error = clEnqueueNDRangeKernel(r->queue, k, 1, NULL, &items, k == r->operands ? &local : &r->device->local, 0, NULL,
		NULL);
	require(!error, "clEnqueueNDRangeKernel", error);
}

static void runner_unmap(struct runner *r, int i) {
	if (r->mapped[i])
		clEnqueueUnmapMemObject(r->queue, r->out[i], r->mapped[i], 0, NULL, NULL);
	r->mapped[i] = NULL;
}

void runner_run(struct runner *r, uint32_t first, const uint32_t **fewp, const uint32_t **manyp) {
	cl_int error;

	clSetKernelArg(r->operands, 1, sizeof first, &first);
	runner_launch(r, r->operands, r->n);
	for (int i = 0; i < 2; i++) {
		runner_unmap(r, i);
		runner_launch(r, r->kernels[i], r->n / PROGRAM_CHUNK);
	}
	for (int i = 0; i < 2; i++) {
		r->mapped[i] = clEnqueueMapBuffer(r->queue, r->out[i], CL_FALSE, CL_MAP_READ, 0, r->n * sizeof(cl_uint), 0, NULL,
			NULL, &error);
		require(!error, "clEnqueueMapBuffer", error);
	}
	error = clFinish(r->queue);
	require(!error, "clFinish", error);
	*fewp = r->mapped[0];
	*manyp = r->mapped[1];
}

void runner_close(struct runner *r) {
	for (int i = 0; i < 2; i++) {
		runner_unmap(r, i);
		clReleaseKernel(r->kernels[i]);
		clReleaseMemObject(r->out[i]);
	}
	clReleaseKernel(r->operands);
	clReleaseMemObject(r->in);
	clReleaseMemObject(r->unused);
	clReleaseCommandQueue(r->queue);
	free(r);
}

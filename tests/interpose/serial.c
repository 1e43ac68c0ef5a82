/*
 * Lets one thread at a time into libOpenCL, for drivers that run a launch in the thread that asks for it
 * and cannot bear two (Oclgrind). Preloaded before the driver: LD_PRELOAD=serial.so:liboclgrind-rt.so.
 *
 * Every function that the daemon calls once its device is open. The lock is recursive, because callbacks
 * of events are called from within.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void *enter(const char *name) {
	void *f = dlsym(RTLD_NEXT, name);

	if (!f)
		abort();
	pthread_mutex_lock(&lock);
	return f;
}

/* A pointer to an object is no pointer to a function in C; POSIX says the bits are. */
#define SERIAL(type, name, parameters, arguments)                                                        \
	type name parameters {                                                                           \
		void *symbol = enter(#name);                                                             \
		__typeof__(&name) next;                                                                  \
		type result;                                                                             \
                                                                                                         \
		memcpy(&next, &symbol, sizeof next);                                                     \
		result = next arguments;                                                                 \
		pthread_mutex_unlock(&lock);                                                             \
		return result;                                                                           \
	}

SERIAL(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error),
	(context, flags, size, host, error))
SERIAL(cl_int, clReleaseMemObject, (cl_mem memory), (memory))
SERIAL(cl_int, clBuildProgram,
	(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
		void (*notify)(cl_program, void *), void *user),
	(program, count, devices, options, notify, user))
SERIAL(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *error), (program, name, error))
SERIAL(cl_int, clReleaseKernel, (cl_kernel kernel), (kernel))
SERIAL(cl_int, clReleaseProgram, (cl_program program), (program))
SERIAL(cl_int, clEnqueueNDRangeKernel,
	(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset, const size_t *global,
		const size_t *local, cl_uint count, const cl_event *list, cl_event *event),
	(queue, kernel, rank, offset, global, local, count, list, event))
SERIAL(cl_int, clEnqueueReadBuffer,
	(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes, void *host,
		cl_uint count, const cl_event *list, cl_event *event),
	(queue, memory, blocking, offset, bytes, host, count, list, event))
SERIAL(cl_int, clEnqueueWriteBuffer,
	(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes, const void *host,
		cl_uint count, const cl_event *list, cl_event *event),
	(queue, memory, blocking, offset, bytes, host, count, list, event))
SERIAL(cl_int, clEnqueueFillBuffer,
	(cl_command_queue queue, cl_mem memory, const void *pattern, size_t size, size_t offset, size_t bytes,
		cl_uint count, const cl_event *list, cl_event *event),
	(queue, memory, pattern, size, offset, bytes, count, list, event))
SERIAL(cl_int, clFlush, (cl_command_queue queue), (queue))
SERIAL(cl_int, clFinish, (cl_command_queue queue), (queue))
SERIAL(cl_int, clWaitForEvents, (cl_uint count, const cl_event *list), (count, list))
SERIAL(cl_int, clGetEventInfo,
	(cl_event event, cl_event_info name, size_t size, void *value, size_t *sizep), (event, name, size, value, sizep))
SERIAL(cl_int, clReleaseEvent, (cl_event event), (event))
SERIAL(cl_command_queue, clCreateCommandQueue,
	(cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *error),
	(context, device, properties, error))
SERIAL(cl_int, clReleaseCommandQueue, (cl_command_queue queue), (queue))
SERIAL(cl_program, clCreateProgramWithSource,
	(cl_context context, cl_uint count, const char **text, const size_t *lengths, cl_int *error),
	(context, count, text, lengths, error))
SERIAL(cl_program, clCreateProgramWithBinary,
	(cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
		const unsigned char **binaries, cl_int *status, cl_int *error),
	(context, count, devices, lengths, binaries, status, error))
SERIAL(cl_int, clRetainProgram, (cl_program program), (program))
SERIAL(cl_int, clGetProgramInfo,
	(cl_program program, cl_program_info name, size_t size, void *value, size_t *sizep),
	(program, name, size, value, sizep))
SERIAL(cl_int, clGetProgramBuildInfo,
	(cl_program program, cl_device_id device, cl_program_build_info name, size_t size, void *value, size_t *sizep),
	(program, device, name, size, value, sizep))
SERIAL(cl_int, clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
	(kernel, index, size, value))
SERIAL(cl_int, clGetEventProfilingInfo,
	(cl_event event, cl_profiling_info name, size_t size, void *value, size_t *sizep),
	(event, name, size, value, sizep))

typedef void notify_fn(cl_event event, cl_int state, void *user);

/* Oclgrind forgets a callback of what is complete already, which the standard has called at once. */
cl_int clSetEventCallback(cl_event event, cl_int state, notify_fn *notify, void *user) {
	void *symbol = enter("clSetEventCallback");
	cl_int (*next)(cl_event, cl_int, notify_fn *, void *), status = CL_QUEUED, r = CL_SUCCESS;

	memcpy(&next, &symbol, sizeof next);
	clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
	if (status <= CL_COMPLETE)
		notify(event, status, user);
	else
		r = next(event, state, notify, user);
	pthread_mutex_unlock(&lock);
	return r;
}

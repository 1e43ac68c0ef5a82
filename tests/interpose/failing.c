/* Lets calls fail, one by one; see failing.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/interpose/failing.h"

/* Of the program itself: calls that return to there are its own. */
static uintptr_t own_begin, own_end;
static struct failing *failing;
static enum failing_role role;

/* A pointer to an object is no pointer to a function in C; POSIX says the bits are. */
#define NEXT(name)                                                     \
	__typeof__(&name) next;                                        \
	do {                                                           \
		void *symbol_ = dlsym(RTLD_NEXT, #name);               \
		memcpy(&next, &symbol_, sizeof next);                  \
	} while (0)

static int find_own(struct dl_phdr_info *info, size_t size, void *user) {
	(void)size;
	(void)user;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_LOAD && h->p_flags & PF_X) {
			own_begin = info->dlpi_addr + h->p_vaddr;
			own_end = own_begin + h->p_memsz;
		}
	}
	return 1;
}

/* Of a program that is none of the daemon's: nothing is counted. */
static bool find_role(void) {
	char arguments[512] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, arguments, sizeof arguments - 1);
	const char *name = program_invocation_short_name;

	if (fd >= 0)
		close(fd);
	role = FAILING_engine;
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(arguments + i) + 1)
		if (!strncmp(arguments + i, "--worker", 8))
			role = FAILING_worker;
	if (!strcmp(name, "fusiond"))
		role = FAILING_supervisor;
	if (!strcmp(name, "fusiond-gateway"))
		role = FAILING_gateway;
	return !strncmp(name, "fusiond", 7);
}

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("FUSION_INTERPOSE_FAILING");
	int fd = path && find_role() ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p = fd >= 0 ? mmap(NULL, sizeof *failing, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (fd >= 0)
		close(fd);
	dl_iterate_phdr(find_own, NULL);
	if (p != MAP_FAILED)
		failing = p;
}

/* Does this call fail? Before the constructor none does. */
static bool fails(enum failing_call call, const void *to, const char *name) {
	uint64_t number, n;

	if (!failing || (uintptr_t)to < own_begin || (uintptr_t)to >= own_end)
		return false;
	n = atomic_fetch_add(&failing->count[role][call], 1) + 1;
	number = atomic_load(&failing->number);
	if (!number || role != atomic_load(&failing->role) || call != atomic_load(&failing->call) || n < number ||
		(n > number && !atomic_load(&failing->on)))
		return false;
	if (!atomic_fetch_add(&failing->failed, 1))
		snprintf(failing->place, sizeof failing->place, "%s %#lx", name, (unsigned long)((uintptr_t)to - own_begin));
	return true;
}

#define FAILS(call, name) fails(FAILING_no_##call, __builtin_return_address(0), name)

/* ---- memory ---- */

void *__libc_malloc(size_t size);                                 /* NOLINT(bugprone-reserved-identifier): glibc's names */
void *__libc_calloc(size_t count, size_t size);                   /* NOLINT(bugprone-reserved-identifier) */
void *__libc_realloc(void *old, size_t size);                     /* NOLINT(bugprone-reserved-identifier) */

static void *none(int error) {
	errno = error;
	return NULL;
}

void *malloc(size_t size) {
	return FAILS(memory, "malloc") ? none(ENOMEM) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
	return FAILS(memory, "calloc") ? none(ENOMEM) : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
	return FAILS(memory, "realloc") ? none(ENOMEM) : __libc_realloc(old, size);
}

#undef strdup
char *strdup(const char *text) {
	size_t size = strlen(text) + 1;
	char *copy = FAILS(memory, "strdup") ? none(ENOMEM) : __libc_malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- mappings ---- */

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
	NEXT(mmap);

	if (!FAILS(mapping, "mmap"))
		return next(at, bytes, protection, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

/* ---- descriptors ---- */

#define DESCRIPTOR(name, parameters, arguments)          \
	int name parameters {                            \
		NEXT(name);                              \
		if (!FAILS(descriptor, #name))           \
			return next arguments;           \
		errno = EMFILE;                          \
		return -1;                               \
	}

DESCRIPTOR(socket, (int domain, int type, int protocol), (domain, type, protocol))
DESCRIPTOR(socketpair, (int domain, int type, int protocol, int pair[2]), (domain, type, protocol, pair))
DESCRIPTOR(pipe2, (int pair[2], int flags), (pair, flags))
DESCRIPTOR(eventfd, (unsigned value, int flags), (value, flags))
DESCRIPTOR(epoll_create1, (int flags), (flags))
DESCRIPTOR(signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
DESCRIPTOR(memfd_create, (const char *name, unsigned flags), (name, flags))
DESCRIPTOR(dup, (int fd), (fd))
DESCRIPTOR(accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags), (fd, address, size, flags))
DESCRIPTOR(mkostemp, (char *pattern, int flags), (pattern, flags))

static mode_t mode_of(int flags, va_list list) {
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
	NEXT(open);
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = mode_of(flags, list);
	va_end(list);
	if (!FAILS(descriptor, "open"))
		return next(path, flags, mode);
	errno = EMFILE;
	return -1;
}

int openat(int folder, const char *path, int flags, ...) {
	NEXT(openat);
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = mode_of(flags, list);
	va_end(list);
	if (!FAILS(descriptor, "openat"))
		return next(folder, path, flags, mode);
	errno = EMFILE;
	return -1;
}

FILE *fopen(const char *path, const char *mode) {
	NEXT(fopen);

	return FAILS(descriptor, "fopen") ? none(EMFILE) : next(path, mode);
}

/* ---- threads and processes ---- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user) {
	NEXT(pthread_create);

	return FAILS(thread, "pthread_create") ? EAGAIN : next(thread, attributes, run, user);
}

pid_t fork(void) {
	NEXT(fork);

	if (!FAILS(thread, "fork"))
		return next();
	errno = EAGAIN;
	return -1;
}

/* ---- OpenCL ---- */

/* What is asked for is not there. */
#define MAKES(type, name, parameters, arguments)             \
	type CL_API_CALL name parameters {                   \
		NEXT(name);                                  \
		if (!FAILS(opencl, #name))                   \
			return next arguments;               \
		if (error)                                   \
			*error = CL_OUT_OF_HOST_MEMORY;      \
		return NULL;                                 \
	}

#define CALLS(name, parameters, arguments)                   \
	cl_int CL_API_CALL name parameters {                 \
		NEXT(name);                                  \
		return FAILS(opencl, #name) ? CL_OUT_OF_HOST_MEMORY : next arguments; \
	}

/* What waits or gives back is done, and then said to have failed: nothing is under way that nobody knows of. */
#define ENDS(name, parameters, arguments)                    \
	cl_int CL_API_CALL name parameters {                 \
		NEXT(name);                                  \
		cl_int r = next arguments;                   \
		return FAILS(opencl, #name) ? CL_OUT_OF_RESOURCES : r; \
	}

CALLS(clGetPlatformIDs, (cl_uint most, cl_platform_id *ids, cl_uint *count), (most, ids, count))
CALLS(clGetPlatformInfo, (cl_platform_id p, cl_platform_info what, size_t size, void *value, size_t *sizep), (p, what, size, value, sizep))
CALLS(clGetDeviceIDs, (cl_platform_id p, cl_device_type type, cl_uint most, cl_device_id *ids, cl_uint *count), (p, type, most, ids, count))
CALLS(clGetDeviceInfo, (cl_device_id d, cl_device_info what, size_t size, void *value, size_t *sizep), (d, what, size, value, sizep))
CALLS(clGetProgramInfo, (cl_program p, cl_program_info what, size_t size, void *value, size_t *sizep), (p, what, size, value, sizep))
CALLS(clGetProgramBuildInfo, (cl_program p, cl_device_id d, cl_program_build_info what, size_t size, void *value, size_t *sizep),
	(p, d, what, size, value, sizep))
CALLS(clGetEventProfilingInfo, (cl_event e, cl_profiling_info what, size_t size, void *value, size_t *sizep), (e, what, size, value, sizep))
MAKES(cl_context, clCreateContext, (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
	void(CL_CALLBACK *tell)(const char *, const void *, size_t, void *), void *user, cl_int *error), (properties, count, devices, tell, user, error))
MAKES(cl_command_queue, clCreateCommandQueue, (cl_context c, cl_device_id d, cl_command_queue_properties properties, cl_int *error), (c, d, properties, error))
MAKES(cl_mem, clCreateBuffer, (cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *error), (c, flags, size, host, error))
MAKES(cl_program, clCreateProgramWithSource, (cl_context c, cl_uint count, const char **text, const size_t *sizes, cl_int *error), (c, count, text, sizes, error))
MAKES(cl_program, clCreateProgramWithBinary, (cl_context c, cl_uint count, const cl_device_id *devices, const size_t *sizes, const unsigned char **bytes,
	cl_int *status, cl_int *error), (c, count, devices, sizes, bytes, status, error))
MAKES(cl_kernel, clCreateKernel, (cl_program p, const char *name, cl_int *error), (p, name, error))
CALLS(clBuildProgram, (cl_program p, cl_uint count, const cl_device_id *devices, const char *options, void(CL_CALLBACK *tell)(cl_program, void *), void *user),
	(p, count, devices, options, tell, user))
CALLS(clSetKernelArg, (cl_kernel k, cl_uint index, size_t size, const void *value), (k, index, size, value))
CALLS(clEnqueueNDRangeKernel, (cl_command_queue q, cl_kernel k, cl_uint rank, const size_t *offset, const size_t *global, const size_t *local, cl_uint waits,
	const cl_event *wait, cl_event *event), (q, k, rank, offset, global, local, waits, wait, event))
CALLS(clEnqueueWriteBuffer, (cl_command_queue q, cl_mem m, cl_bool blocks, size_t offset, size_t size, const void *bytes, cl_uint waits, const cl_event *wait,
	cl_event *event), (q, m, blocks, offset, size, bytes, waits, wait, event))
CALLS(clEnqueueReadBuffer, (cl_command_queue q, cl_mem m, cl_bool blocks, size_t offset, size_t size, void *bytes, cl_uint waits, const cl_event *wait,
	cl_event *event), (q, m, blocks, offset, size, bytes, waits, wait, event))
CALLS(clEnqueueFillBuffer, (cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t offset, size_t size, cl_uint waits, const cl_event *wait,
	cl_event *event), (q, m, pattern, pattern_size, offset, size, waits, wait, event))
CALLS(clSetEventCallback, (cl_event e, cl_int type, void(CL_CALLBACK *call)(cl_event, cl_int, void *), void *user), (e, type, call, user))
CALLS(clRetainEvent, (cl_event e), (e))
CALLS(clRetainProgram, (cl_program p), (p))
ENDS(clFinish, (cl_command_queue q), (q))
ENDS(clFlush, (cl_command_queue q), (q))
ENDS(clWaitForEvents, (cl_uint count, const cl_event *event), (count, event))
ENDS(clReleaseEvent, (cl_event e), (e))
ENDS(clReleaseKernel, (cl_kernel k), (k))
ENDS(clReleaseProgram, (cl_program p), (p))
ENDS(clReleaseMemObject, (cl_mem m), (m))
ENDS(clReleaseCommandQueue, (cl_command_queue q), (q))
ENDS(clReleaseContext, (cl_context c), (c))

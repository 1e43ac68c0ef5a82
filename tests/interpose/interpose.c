/*
 * Stands between a program and libOpenCL: counts calls and breaks some of them on demand, so that
 * tests compare the daemon's own statistics with what truly happened, and force what drivers do
 * rarely. See interpose.h. As a library: cc -shared -fPIC -I. -o interpose.so tests/interpose/interpose.c -ldl
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <stdio.h>
#include <signal.h>
#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/interpose/interpose.h"

enum {
	INTERPOSE_PROGRAMS = 4096,      /* remembered at a time */
	INTERPOSE_BUFFERS = 4096,
};

static struct interpose_counts own_counts;
static struct interpose_counts *counts = &own_counts;
static struct interpose_rules rules = { .ops = UINT64_MAX, .memory = UINT64_MAX, .launches = UINT64_MAX };
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Operations in the sources of programs, and sizes of buffers, while they live. */
static struct { cl_program program; uint64_t ops; bool bad; } program[INTERPOSE_PROGRAMS];
static struct { cl_mem buffer; uint64_t bytes; } buffer[INTERPOSE_BUFFERS];
/* Of a program that includes this: called before each build of a source. */
static void (*building)(void);
/* Whose first launch hangs; one at a time, since it does. */
static _Atomic(cl_program) bad_program;
static _Atomic(cl_kernel) bad_kernel;

static void read_rule(const char *name, _Atomic uint64_t *rule) {
	const char *text = getenv(name);

	if (text)
		*rule = strtoull(text, NULL, 0);
}

static void map_counts(const char *path) {
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	void *p;

	if (fd < 0)
		return;
	if (!ftruncate(fd, sizeof *counts)) {
		p = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED)
			counts = p;
	}
	close(fd);
}

static void start(void) {
	const char *path = getenv("FUSION_INTERPOSE_COUNTS");

	if (path)
		map_counts(path);
	read_rule("FUSION_INTERPOSE_OPS", &rules.ops);
	read_rule("FUSION_INTERPOSE_BUILD_MS", &rules.build_ms);
	read_rule("FUSION_INTERPOSE_ITEM_LOOPS", &rules.item_loops);
	read_rule("FUSION_INTERPOSE_MEMORY", &rules.memory);
	read_rule("FUSION_INTERPOSE_LAUNCHES", &rules.launches);
}

/* The driver's own function of this name. */
static void *real(const char *name) {
	void *f;

	pthread_once(&once, start);
	f = dlsym(RTLD_NEXT, name);
	if (!f)
		abort();
	return f;
}

/* A pointer to an object is no pointer to a function in C; POSIX says the bits are. */
#define REAL(name)                                                                                       \
	__typeof__(&name) next;                                                                          \
	do {                                                                                             \
		void *symbol_ = real(#name);                                                             \
		memcpy(&next, &symbol_, sizeof next);                                                    \
	} while (0)

/* A worker is to go on, and a builder's thread that tries a kernel: it is the engine's own thread that is meant. */
static bool is_worker(void) {
	char arguments[512] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, arguments, sizeof arguments - 1);

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(arguments + i) + 1)
		if (!strncmp(arguments + i, "--worker", 8))
			return true;
	return false;
}

/* Drivers have handlers of their own. */
static void kill_self(int number) {
	signal(number, SIG_DFL);
	kill(getpid(), number);
	pause();
}

static bool is_own_thread(void) {
	return gettid() == getpid();
}

/* Does what the file says, if it is there; true: the device is to end nothing any more. */
static bool fault_now(const char *where) {
	const char *folder = getenv("FUSION_INTERPOSE_FAULTS");
	char path[256], what[32] = "";
	ssize_t n;
	int fd;

	if (!folder)
		return false;
	snprintf(path, sizeof path, "%s.%s", folder, where);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, what, sizeof what - 1);
	close(fd);
	if (n <= 0 || is_worker())
		return false;
	unlink(path);
	if (!strcmp(what, "abort"))
		abort();
	if (!strcmp(what, "crash"))
		kill_self(SIGSEGV);
	if (!strcmp(what, "kill"))
		kill_self(SIGKILL);
	while (!strcmp(what, "hang"))
		pause();
	return !strcmp(what, "endless");
}

static void die_at(const char *call) {
	const char *wish = getenv("FUSION_INTERPOSE_DIE");

	if (wish && !strcmp(wish, call))
		abort();
}

cl_int clGetPlatformIDs(cl_uint entries, cl_platform_id *platforms, cl_uint *number) {
	REAL(clGetPlatformIDs);

	if (is_own_thread())
		fault_now("start");
	die_at("platforms");
	return next(entries, platforms, number);
}

/* ---- another driver is played ---- */

static cl_int tell_text(const char *text, size_t size, void *value, size_t *sizep) {
	if (sizep)
		*sizep = strlen(text) + 1;
	if (value && size <= strlen(text))
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, text, strlen(text) + 1);
	return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *sizep) {
	const char *name = getenv("FUSION_INTERPOSE_PLATFORM");
	REAL(clGetPlatformInfo);

	return name && what == CL_PLATFORM_NAME ? tell_text(name, size, value, sizep) : next(platform, what, size, value, sizep);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *sizep) {
	const char *version = getenv("FUSION_INTERPOSE_VERSION");
	REAL(clGetDeviceInfo);

	return version && what == CL_DEVICE_VERSION ? tell_text(version, size, value, sizep) : next(device, what, size, value, sizep);
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint devices, const cl_device_id *device,
	void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *error) {
	REAL(clCreateContext);

	die_at("context");
	return next(properties, devices, device, notify, user, error);
}

/* ---- programs ---- */

static uint64_t count_ops(cl_uint strings, const char **text) {
	uint64_t n = 0;

	for (cl_uint i = 0; i < strings; i++)
		for (const char *at = text[i]; (at = strstr(at, " = op_")); at++)
			n++;
	return n;
}

/* Does the build go without what the compiler does not survive? */
static bool is_spared(const char *options) {
	const char *spare = getenv("FUSION_INTERPOSE_SPARE");

	return spare && options && strstr(options, spare);
}

/* Is it one that the compiler shall not survive? */
static bool is_bad(const char *source) {
	const char *rule = getenv("FUSION_INTERPOSE_COMPILER"), *text = rule ? strchr(rule, ':') : NULL;

	return text && strstr(source, text + 1);
}

enum { EATEN_BYTES = 16 << 20, GATE_US = 10000 };

static void misbehave(void) {
	const char *rule = getenv("FUSION_INTERPOSE_COMPILER"), *gate = getenv("FUSION_INTERPOSE_GATE");
	volatile char *nowhere = NULL;
	void *eaten;

	while (!strncmp(rule, "hang:", 5))
		pause();
	if (!strncmp(rule, "hold:", 5)) {
		while (gate && !access(gate, F_OK))
			usleep(GATE_US);
		return;
	}
	while (!strncmp(rule, "eat:", 4) && (eaten = malloc(EATEN_BYTES)))
		memset(eaten, 1, EATEN_BYTES);
	if (!strncmp(rule, "crash:", 6))
		*nowhere = 1;
	if (!strncmp(rule, "exit:", 5))
		_exit(8);
	abort();
}

static void remember_program(cl_program p, uint64_t ops, bool bad) {
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < INTERPOSE_PROGRAMS; i++)
		if (!program[i].program) {
			program[i].program = p;
			program[i].ops = ops;
			program[i].bad = bad;
			break;
		}
	pthread_mutex_unlock(&lock);
}

/* Is it of source? Then *opsp and *badp are set, and it is forgotten. */
static bool recall_program(cl_program p, uint64_t *opsp, bool *badp) {
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < INTERPOSE_PROGRAMS && !found; i++)
		if (program[i].program == p) {
			*opsp = program[i].ops;
			*badp = program[i].bad;
			program[i].program = NULL;
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

/* What emit/frame.c writes for an item without work, behind which one with work goes on. NULL: it is none of our kernels. */
static char *slowed(const char *text) {
	static const char begin[] = "void fused(", leave[] = "\treturn;\n";
	const char *at = strstr(text, begin);
	char *slow = NULL;

	at = at ? strstr(at, leave) : NULL;
	if (!at)
		return NULL;
	at += strlen(leave);
	if (asprintf(&slow, "%.*s\tfor (volatile uint loops_ = 0; loops_ < %lu; loops_++)\n\t\t;\n%s", (int)(at - text), text,
		(unsigned long)rules.item_loops, at) < 0)
		return NULL;
	return slow;
}

cl_program clCreateProgramWithSource(
	cl_context context, cl_uint strings, const char **text, const size_t *lengths, cl_int *error) {
	cl_program p;
	char *slow;
	REAL(clCreateProgramWithSource);

	slow = rules.item_loops && !lengths && strings == 1 ? slowed(text[0]) : NULL;
	p = next(context, strings, slow ? (const char **)&slow : text, lengths, error);
	free(slow);
	if (p)
		remember_program(p, lengths ? 0 : count_ops(strings, text), !lengths && is_bad(text[0]));
	return p;
}

static void sleep_ms(uint64_t ms) {
	struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

cl_int clBuildProgram(cl_program p, cl_uint devices, const cl_device_id *device, const char *options,
	void(CL_CALLBACK *notify)(cl_program program, void *user), void *user) {
	uint64_t ops = 0;
	bool bad = false;
	cl_int error;
	REAL(clBuildProgram);

	fault_now("load");
	die_at("build");
	if (recall_program(p, &ops, &bad)) {
		counts->builds++;
		if (building)
			building();
		if (bad && !strncmp(getenv("FUSION_INTERPOSE_COMPILER"), "launch:", 7))
			bad_program = p;
		else if (bad && !strncmp(getenv("FUSION_INTERPOSE_COMPILER"), "refuse:", 7))
			ops = is_spared(options) ? ops : UINT64_MAX;
		else if (bad && !is_spared(options))
			misbehave();
		sleep_ms(rules.build_ms);
		while (rules.hold)
			sleep_ms(1);
	} else {
		counts->builds_binary++;
	}
	error = ops > rules.ops || ops == UINT64_MAX ? CL_BUILD_PROGRAM_FAILURE : next(p, devices, device, options, notify, user);
	if (error)
		counts->builds_failed++;
	return error;
}

cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *error) {
	cl_kernel kernel;
	REAL(clCreateKernel);

	counts->kernels++;
	kernel = next(p, name, error);
	if (p == bad_program)
		bad_kernel = kernel;
	return kernel;
}

/* ---- memory ---- */

/* Counts the bytes; false where the rule forbids them. */
static bool charge(uint64_t bytes) {
	if (atomic_fetch_add(&counts->buffer_bytes, bytes) + bytes <= rules.memory)
		return true;
	counts->buffer_bytes -= bytes;
	return false;
}

static void remember_buffer(cl_mem m, uint64_t bytes) {
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < INTERPOSE_BUFFERS; i++)
		if (!buffer[i].buffer) {
			buffer[i].buffer = m;
			buffer[i].bytes = bytes;
			break;
		}
	pthread_mutex_unlock(&lock);
}

static void forget_buffer(cl_mem m) {
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < INTERPOSE_BUFFERS; i++)
		if (buffer[i].buffer == m) {
			buffer[i].buffer = NULL;
			counts->buffer_bytes -= buffer[i].bytes;
			break;
		}
	pthread_mutex_unlock(&lock);
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error) {
	cl_int own = CL_MEM_OBJECT_ALLOCATION_FAILURE;
	cl_mem m = NULL;
	REAL(clCreateBuffer);

	if (charge(bytes))
		m = next(context, flags, bytes, host, &own);
	else
		counts->buffers_refused++;
	if (m) {
		counts->buffers++;
		remember_buffer(m, bytes);
	}
	if (error)
		*error = own;
	return m;
}

cl_int clReleaseMemObject(cl_mem m) {
	REAL(clReleaseMemObject);

	counts->buffers_released++;
	forget_buffer(m);
	return next(m);
}

/* ---- commands ---- */

/* Nobody hears of the end of a command any more, as behind a kernel that never ends. */
static atomic_bool endless;

cl_int clWaitForEvents(cl_uint count, const cl_event *list) {
	REAL(clWaitForEvents);

	while (atomic_load(&endless))
		pause();
	return next(count, list);
}

cl_int clSetEventCallback(cl_event event, cl_int status, void(CL_CALLBACK *done)(cl_event, cl_int, void *), void *user) {
	REAL(clSetEventCallback);

	return atomic_load(&endless) ? CL_SUCCESS : next(event, status, done, user);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
	const size_t *size, const size_t *local, cl_uint waits, const cl_event *wait, cl_event *event) {
	cl_int error = CL_OUT_OF_RESOURCES;
	REAL(clEnqueueNDRangeKernel);

	while (kernel && kernel == bad_kernel)
		pause();
	if (is_own_thread() && fault_now("launch"))
		atomic_store(&endless, true);
	if (counts->launches < rules.launches)
		error = next(queue, kernel, dims, offset, size, local, waits, wait, event);
	if (error) {
		counts->launches_refused++;
		return error;
	}
	counts->launches++;
	counts->items += size[0];
	counts->tasks += dims > 1 ? size[1] : 1;
	return error;
}

/* A write that blocks waits until its source may be used again: what is written may come later than that. */
enum { INTERPOSE_QUEUES = 64 };

static struct {
	cl_command_queue queue;
	uint64_t writes;
} with_writes[INTERPOSE_QUEUES];

static void note_write(cl_command_queue queue) {
	unsigned i = 0, spare = INTERPOSE_QUEUES;

	pthread_mutex_lock(&lock);
	for (; i < INTERPOSE_QUEUES && with_writes[i].queue != queue; i++)
		if (!with_writes[i].queue && spare == INTERPOSE_QUEUES)
			spare = i;
	if (i == INTERPOSE_QUEUES)
		i = spare;
	if (i == INTERPOSE_QUEUES)
		abort();
	with_writes[i].queue = queue;
	with_writes[i].writes++;
	pthread_mutex_unlock(&lock);
}

static uint64_t take_writes(cl_command_queue queue) {
	uint64_t writes = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < INTERPOSE_QUEUES; i++)
		if (with_writes[i].queue == queue) {
			writes = with_writes[i].writes;
			with_writes[i].queue = NULL;
			with_writes[i].writes = 0;
		}
	pthread_mutex_unlock(&lock);
	return writes;
}

cl_int clFinish(cl_command_queue queue) {
	REAL(clFinish);

	take_writes(queue);
	return next(queue);
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
	REAL(clReleaseCommandQueue);

	counts->writes_left += take_writes(queue);
	return next(queue);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem m, cl_bool blocking, size_t offset, size_t bytes,
	const void *host, cl_uint waits, const cl_event *wait, cl_event *event) {
	REAL(clEnqueueWriteBuffer);

	counts->copies++;
	counts->copy_bytes += bytes;
	note_write(queue);
	return next(queue, m, blocking, offset, bytes, host, waits, wait, event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem m, cl_bool blocking, size_t offset, size_t bytes,
	void *host, cl_uint waits, const cl_event *wait, cl_event *event) {
	REAL(clEnqueueReadBuffer);

	counts->copies++;
	counts->copy_bytes += bytes;
	return next(queue, m, blocking, offset, bytes, host, waits, wait, event);
}

/*
 * The worker process: compiles what the engine sends, one program after the other, and leaves the machine code in the cache.
 *
 * It opens the device for itself and shares nothing with the engine but the socket and the cache folder. It has no array of
 * a client's, launches programs on records without work alone, and ends with its socket. It may die at any time: that
 * costs the engine the one build. So it is the first to go where memory is short, leaves no core, may not
 * allocate without end, and ends where a job takes too long (watchdog.c).
 *
 * Priority. What somebody waits for is compiled at ordinary priority: at idle priority it would wait for every program of the
 * machine. What nobody waits for is compiled by a worker that is idle in each way in which Linux parts processors: the
 * policy SCHED_IDLE counts only among processes of one group, and where groups are made of sessions by themselves (sched_autogroup),
 * such a worker would have as much as all of the engine; so it has a session of its own, whose group is as nice as can be. A process
 * cannot go back from there without privileges, hence two kinds of workers.
 */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/descriptors.h"
#include "daemon/base/log.h"

enum {
	/* ioprio_set(2), for which there is no header. */
	IOPRIO_OF_PROCESS = 1,
	IOPRIO_IDLE = 3 << 13,
	/* The second time it is told apart from what an earlier process left. */
	COMPILE_TRIES = 2,
};

/* ---- being modest ---- */

/* What does not work is no reason not to compile. */
static void tell(const char *path, const char *text) {
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		log_debug("%s stays as it is: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void be_idle(void) {
	const struct sched_param none = { 0 };

	if (setsid() >= 0)
		tell("/proc/self/autogroup", "19");
	if (setpriority(PRIO_PROCESS, 0, 19) || sched_setscheduler(0, SCHED_IDLE, &none) ||
		syscall(SYS_ioprio_set, IOPRIO_OF_PROCESS, 0, IOPRIO_IDLE))
		log_debug("a worker's priority stays as it is: %s", strerror(errno));
}

/* Before the driver makes threads, which inherit it. */
static void be_modest(bool idle) {
	const struct rlimit no_core = { 0, 0 };

	/* A terminal's ^C and a service's stop are for the supervisor; the socket tells of the end. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (setrlimit(RLIMIT_CORE, &no_core))
		log_debug("a worker may leave a core: %s", strerror(errno));
	tell("/proc/self/oom_score_adj", "500");
	if (idle)
		be_idle();
}

/* Bytes of private memory that is writable, as RLIMIT_DATA counts it; 0 where /proc does not tell. */
static uint64_t data_bytes(void) {
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/*
 * On top of what the driver has taken when it was opened. Not RLIMIT_AS: drivers reserve far more addresses than memory, some
 * all that there are.
 */
static void limit_memory(uint64_t bytes) {
	uint64_t most = data_bytes();
	struct rlimit limit;

	if (!most || __builtin_add_overflow(most, bytes, &most))
		return;
	limit = (struct rlimit){ most, most };
	if (setrlimit(RLIMIT_DATA, &limit))
		log_debug("a worker's memory is not limited: %s", strerror(errno));
}

/* ---- jobs ---- */

/* Machine code that the driver makes at the first launch and keeps; elsewhere the engine's own launch costs as little. */
static cl_int first_launches(const struct builder *b, cl_program program, const struct compile_job *j, uint32_t *launchesp) {
	cl_kernel object;
	cl_int error;

	if (!b->device->quirks->grid_limit)
		return CL_SUCCESS;
	object = clCreateKernel(program, "fused", &error);
	if (error)
		return error;
	error = builder_warm_up(b, j->near, object, &j->warmup, launchesp);
	clReleaseKernel(object);
	return error;
}

/* False: what was loaded is not to be believed, and has to be built once more. */
static bool compile_once(struct builder *b, const struct compile_job *j, struct compile_answer *a) {
	CLEANUP(cleanup_program) cl_program program = NULL;
	struct device *d = b->device;
	struct guard g;
	bool cached;

	a->error = build_for(d, device_target(d, j->near), j->source, j->options, &g, &program, &cached, &a->log);
	/* Another driver than the engine's, which was replaced meanwhile: what it makes is of no use there. */
	if (!a->error && memcmp(&g.key, &j->key, sizeof g.key) != 0)
		a->error = CL_INVALID_DEVICE;
	if (!a->error)
		a->error = first_launches(b, program, j, &a->warmups);
	if (!a->error && !guard_end(&g))
		return false;
	guard_leave(&g);
	if (!a->error && !cached && !(d->quirks->flags & QUIRK_COSTLY_BINARY))
		build_keep(d, program, &g.key);
	return true;
}

static void compile(struct builder *b, const struct compile_job *j, struct compile_answer *a) {
	if (j->near && near_open(b->device)) {
		a->error = CL_DEVICE_NOT_FOUND;
		return;
	}
	if (!descriptors_left(DESCRIPTORS_BUILD)) {
		a->error = CL_OUT_OF_HOST_MEMORY;
		return;
	}
	for (unsigned i = 0; i < COMPILE_TRIES && !compile_once(b, j, a); i++)
		continue;
}

/* ---- the socket ---- */

/* 0, or -EPIPE at the end of the stream. */
static int receive(int socket, void *bytes, size_t size) {
	return size && recv(socket, bytes, size, MSG_WAITALL) != (ssize_t)size ? -EPIPE : 0;
}

static int send_all(int socket, const void *bytes, size_t size) {
	return size && send(socket, bytes, size, MSG_NOSIGNAL) != (ssize_t)size ? -EPIPE : 0;
}

static int receive_text(int socket, uint64_t size, char **textp) {
	if (size > JOB_TEXT_BYTES)
		return -EPROTO;
	*textp = calloc(1, size + 1);
	return *textp ? receive(socket, *textp, size) : -ENOMEM;
}

static int send_answer(int socket, const struct compile_answer *a) {
	struct compile_answer_header h = { .magic = WORKER_MAGIC,
		.error = a->error,
		.warmups = a->warmups,
		.log = a->log ? strlen(a->log) : 0 };
	int r = send_all(socket, &h, sizeof h);

	return r ? r : send_all(socket, a->log, h.log);
}

/* On the watchdog's thread, while the other one is in the compiler. */
static void tell_late(void *user) {
	const int *socket = user;

	/* Where it cannot be told, the end of the socket tells as much. */
	if (send_answer(*socket, &(const struct compile_answer){ .error = COMPILE_LATE }))
		return;
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it does not know what cleans up */
static int serve_one(struct builder *b, struct watchdog *w, int socket) {
	CLEANUP(cleanup_free) char *source = NULL;
	CLEANUP(cleanup_free) char *options = NULL;
	struct compile_job_header h;
	struct compile_answer a = { 0 };
	int r = receive(socket, &h, sizeof h);

	if (r)
		return r;
	if (strncmp(h.magic, WORKER_MAGIC, sizeof h.magic) != 0)
		return -EPROTO;
	r = receive_text(socket, h.source, &source);
	if (!r)
		r = receive_text(socket, h.options, &options);
	if (r)
		return r;
	watchdog_begin(w, h.limit_us);
	compile(b, &(const struct compile_job){ source, options, h.key, h.warmup, h.near }, &a);
	watchdog_end(w);
	r = send_answer(socket, &a);
	free(a.log);
	return r;
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

static int serve(struct device *d, int socket, uint64_t bytes) {
	const struct compile_answer hello = { 0 };
	static struct watchdog w = { .late = tell_late };   /* its thread never ends */
	struct builder b = { 0 };
	int r = builder_open(&b, d);

	w.user = &socket;
	if (!r)
		r = watchdog_start(&w);
	/* Some drivers read what they link kernels with at the first build, which is done before anybody waits. */
	if (!r)
		exact_build(d);
	limit_memory(bytes);
	if (!r)
		r = send_answer(socket, &hello);
	while (!r)
		r = serve_one(&b, &w, socket);
	builder_close(&b);
	/* NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape): it is at nothing any more, so it tells nobody */
	return r == -EPIPE ? 0 : r;
}

int device_work(const struct device_config *c, int socket, bool idle, uint64_t bytes, struct fault *f) {
	struct device *d = calloc(1, sizeof *d);
	int r;

	if (!d)
		return -ENOMEM;
	be_modest(idle);
	d->config = *c;
	r = device_open_compiler(d, f);
	if (!r)
		r = serve(d, socket, bytes);
	near_close(d);
	if (d->context)
		clReleaseContext(d->context);
	choice_clear(&d->choice);
	cache_close(&d->cache);
	str_free(&d->without);
	free(d);
	return r;
}

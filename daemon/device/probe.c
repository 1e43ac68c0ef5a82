/*
 * Chooses the platform and the device.
 *
 * Drivers die or hang while they are listed (a broken installation, a GPU that fell off the bus),
 * and nothing in a process undoes that. So the whole choice is first made in a child process; only
 * where the child comes back with a device is it made again here. The child is forked from a process
 * that has no other threads yet: device_open() comes first. Who knows that it went well the last time (listed.c) leaves the child out:
 * one that hangs then ends this process.
 *
 * That is done once in a process: where drivers are already up, there is nothing left to protect, and some find no
 * device in the child of a process that they work in.
 */
#include "state.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PROBE_PLATFORMS = 16,
	PROBE_DEVICES = 64,
	/* A driver that has to wake a card up takes seconds; one that takes this long hangs. */
	PROBE_SECONDS = 30,
	/* What the child left is a fault and nothing more. */
	PROBE_EXIT = 0,
};

void cleanup_free(void *pointerp) {
	free(*(void **)pointerp);
}

void cleanup_close(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
}

void cleanup_program(cl_program *programp) {
	if (*programp)
		clReleaseProgram(*programp);
}

void choice_clear(struct choice *c) {
	free(c->platform_name);
	free(c->name);
	free(c->driver);
	*c = (struct choice){ 0 };
}

static char *platform_text(cl_platform_id platform, cl_platform_info what) {
	size_t size = 0;
	char *text;

	if (clGetPlatformInfo(platform, what, 0, NULL, &size) || !size)
		return strdup("");
	text = calloc(1, size + 1);
	if (text && clGetPlatformInfo(platform, what, size, text, NULL))
		text[0] = 0;
	return text;
}

static char *device_text(cl_device_id device, cl_device_info what) {
	size_t size = 0;
	char *text;

	if (clGetDeviceInfo(device, what, 0, NULL, &size) || !size)
		return strdup("");
	text = calloc(1, size + 1);
	if (text && clGetDeviceInfo(device, what, size, text, NULL))
		text[0] = 0;
	return text;
}

static bool usable(cl_device_id device) {
	cl_bool available = CL_FALSE, compiler = CL_FALSE;

	if (clGetDeviceInfo(device, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL))
		return false;
	if (clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL))
		return false;
	return available && compiler;
}

static void note_name(struct str *seen, const char *name) {
	str_printf(seen, "%s\"%s\"", seen->length ? ", " : "", name);
}

/* Takes the device if its name fits and c->skip others that fit were passed by; `seen` collects the names. */
static int try_device(cl_device_id id, const char *wanted, struct choice *c, struct str *seen) {
	c->name = device_text(id, CL_DEVICE_NAME);
	c->driver = device_text(id, CL_DRIVER_VERSION);
	if (!c->name || !c->driver)
		return -ENOMEM;
	if (usable(id) && !near_is(c->platform_name, c->name) && (!wanted || strstr(c->name, wanted))) {
		if (!c->skip) {
			c->device = id;
			return 0;
		}
		c->skip--;
	}
	if (!near_is(c->platform_name, c->name))
		note_name(seen, c->name);
	free(c->name);
	free(c->driver);
	c->name = c->driver = NULL;
	return 0;
}

static int try_devices(cl_platform_id id, const char *wanted, struct choice *c, struct str *seen) {
	cl_device_id device[PROBE_DEVICES];
	cl_uint devices = 0;
	int r = 0;

	if (clGetDeviceIDs(id, CL_DEVICE_TYPE_ALL, PROBE_DEVICES, device, &devices))
		return 0;
	for (cl_uint i = 0; i < devices && i < PROBE_DEVICES && !c->device && !r; i++)
		r = try_device(device[i], wanted, c, seen);
	return r;
}

static int try_platform(cl_platform_id id, const struct device_config *config, struct choice *c,
	struct str *seen, bool *namedp) {
	int r = 0;

	c->platform = id;
	c->platform_name = platform_text(id, CL_PLATFORM_NAME);
	if (!c->platform_name)
		return -ENOMEM;
	if (config->platform && !strstr(c->platform_name, config->platform)) {
		note_name(seen, c->platform_name);
	} else {
		*namedp = true;
		r = try_devices(id, config->device, c, seen);
	}
	if (c->device)
		return r;
	free(c->platform_name);
	c->platform_name = NULL;
	return r;
}

static int refuse(const struct device_config *config, bool named, const struct str *seen, struct fault *f) {
	const char *there = seen->length ? str_text(seen) : "none";

	if (config->platform && *config->platform && !named)
		return fault_set(f, FAULT_DEVICE, "no OpenCL platform is named \"%s\" (there are: %s); correct "
			"device.platform, or install its driver", config->platform, there);
	if (config->number)
		return fault_set(f, FAULT_DEVICE,
			"there is no device number %u, counted from 0, of those named \"%s\" (there are: %s); correct device.device",
			config->number, config->device ? config->device : "", there);
	if (config->device && *config->device)
		return fault_set(f, FAULT_DEVICE,
			"no usable OpenCL device is named \"%s\" (there are: %s); correct "
			"device.device",
			config->device, there);
	return fault_set(f, FAULT_DEVICE,
		"no OpenCL platform has a usable device (there are: %s); install %s or the "
		"driver of the device",
		there, quirks_package());
}

static int choose(const struct device_config *config, struct choice *c, struct fault *f) {
	CLEANUP(str_free) struct str seen = { 0 };
	cl_platform_id platform[PROBE_PLATFORMS];
	cl_uint platforms = 0;
	bool named = false;
	int r;

	c->skip = config->number;
	if (clGetPlatformIDs(PROBE_PLATFORMS, platform, &platforms) || !platforms)
		return fault_set(f, FAULT_DEVICE,
			"no OpenCL platform was found; install %s or the driver of the device",
			quirks_package());
	for (cl_uint i = 0; i < platforms && i < PROBE_PLATFORMS && !c->device; i++) {
		r = try_platform(platform[i], config, c, &seen, &named);
		if (r)
			return r;
	}
	return c->device ? 0 : refuse(config, named, &seen, f);
}

bool probe_tries_more(const struct device_config *config, const struct choice *c) {
	return config->reach &&
		(config->discrete || quirks_of(c->platform_name, c->name)->flags & QUIRK_REACHES_HOST);
}

/*
 * The child: chooses, and leaves the fault (code 0 where it found a device) in the pipe; behind it a byte, where kernels reach
 * host memory.
 */
static void child(const struct device_config *config, int fd) {
	struct choice c = { 0 };
	struct fault f = { 0 };
	int r;

	r = choose(config, &c, &f);
	if (r < 0)
		fault_set(&f, FAULT_DEVICE, "memory is short while OpenCL platforms are listed");
	if (write(fd, &f, sizeof f) != (ssize_t)sizeof f)
		_exit(1);
	if (!r && probe_tries_more(config, &c) && reach_trial(c.device) && write(fd, "", 1) != 1)
		_exit(1);
	_exit(PROBE_EXIT);
}

static int64_t now_ms(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads from the child. 0, -ETIMEDOUT, or -EPIPE where the child ended without all of it. */
static int receive(int fd, void *bytes, size_t size) {
	int64_t end = now_ms() + INT64_C(1000) * PROBE_SECONDS;
	size_t got = 0;

	while (got < size) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - now_ms();
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)left) <= 0)
			continue;
		n = read(fd, (char *)bytes + got, size - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		got += (size_t)n;
	}
	return 0;
}

static int judge(pid_t pid, int received, const struct fault *found, struct fault *f) {
	int status = 0;

	if (received)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (received == -ETIMEDOUT)
		return fault_set(f, FAULT_DEVICE,
			"an OpenCL driver did not list its devices within %d seconds; remove its "
			".icd file from /etc/OpenCL/vendors, or mend the driver",
			PROBE_SECONDS);
	if (received)
		return fault_set(f, FAULT_DEVICE,
			"an OpenCL driver died (signal %d) while it listed its devices; remove its "
			".icd file from /etc/OpenCL/vendors, or mend the driver",
			WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	if (!found->code)
		return 0;
	return fault_set(f, found->code, "%s", found->text);
}

static int probe_in_child(const struct device_config *config, bool *reachesp, struct fault *f) {
	struct fault found = { 0 };
	int fd[2], r;
	char reaches;
	pid_t pid;

	if (pipe(fd))
		return -errno;
	pid = fork();
	if (pid < 0) {
		r = -errno;
		close(fd[0]);
		close(fd[1]);
		return r;
	}
	if (!pid)
		child(config, fd[1]);
	close(fd[1]);
	r = receive(fd[0], &found, sizeof found);
	*reachesp = !r && !found.code && !receive(fd[0], &reaches, sizeof reaches);
	close(fd[0]);
	if (!r && !found.code && !*reachesp)
		kill(pid, SIGKILL);      /* the trial may hang; elsewhere it has ended */
	return judge(pid, r, &found, f);
}

/* No device has that number: how far it was counted is how many there are. */
int probe_count(const struct device_config *config, unsigned *countp, struct fault *f) {
	struct device_config beyond = *config;
	struct choice c = { 0 };
	bool reaches;
	int r;

	r = probe_in_child(config, &reaches, f);
	if (r)
		return r;
	beyond.number = UINT_MAX;
	r = choose(&beyond, &c, f);
	*countp = UINT_MAX - c.skip;
	choice_clear(&c);
	return r == FAULT_DEVICE ? 0 : r;
}

int probe_choose_here(const struct device_config *config, struct choice *c, struct fault *f) {
	int r;

	*c = (struct choice){ 0 };
	r = choose(config, c, f);
	if (r)
		choice_clear(c);
	return r;
}

int probe_choose(const struct device_config *config, bool listed, struct choice *c, struct fault *f) {
	static bool drivers_are_up, reaches;
	int r;

	*c = (struct choice){ 0 };
	r = drivers_are_up || listed ? 0 : probe_in_child(config, &reaches, f);
	if (r)
		return r;
	drivers_are_up = true;
	if (listed)
		alarm(PROBE_SECONDS);
	r = probe_choose_here(config, c, f);
	alarm(0);
	c->reaches = !r && reaches && probe_tries_more(config, c);
	return r;
}

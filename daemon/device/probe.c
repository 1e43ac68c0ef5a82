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
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/log.h"

enum {
	PROBE_PLATFORMS = 16,
	PROBE_DEVICES = 64,
	/* A driver that has to wake a card up takes seconds; one that takes this long hangs. */
	PROBE_SECONDS = 30,
	PROBE_EXIT = 0,
	/* Of names in sentences. */
	PROBE_WHO = 240,
	PROBE_PACKAGE = 64,
	PROBE_END = 64,
	/* The engine calls OpenCL 1.2. */
	PROBE_MAJOR = 100,
	PROBE_LEAST_VERSION = PROBE_MAJOR + 2,
	PROBE_OLD = 480,
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

/* "OpenCL 3.0 ..."; 0 where it names none. */
static unsigned version_of(cl_device_id device) {
	unsigned major, minor;
	char text[PROBE_WHO] = "";

	if (clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof text - 1, text, NULL) ||
		sscanf(text, "OpenCL %u.%u", &major, &minor) != 2)
		return 0;
	return PROBE_MAJOR * major + minor;
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

/* What was passed by. */
struct seen {
	struct str names;
	bool named;                   /* there is the platform that was asked for */
	char old[PROBE_OLD];          /* why the first device that fits is too old, or "" */
};

static void note_old(struct seen *seen, const struct choice *c, unsigned version) {
	if (!*seen->old)
		snprintf(seen->old, sizeof seen->old, "the driver of %.80s (%.60s, driver %.60s) is too old: it has OpenCL %u.%u, and fusiond needs 1.2; "
			"upgrade %s, or set device.platform or device.device to another one", c->name, c->platform_name, c->driver,
			version / PROBE_MAJOR, version % PROBE_MAJOR, driver_package(c->platform_name));
}

/* Takes the device if its name fits and c->skip others that fit were passed by; `seen` collects the names. */
static int try_device(cl_device_id id, const char *wanted, struct choice *c, struct seen *seen) {
	unsigned version = version_of(id);
	bool near, fits;

	c->name = device_text(id, CL_DEVICE_NAME);
	c->driver = device_text(id, CL_DRIVER_VERSION);
	if (!c->name || !c->driver)
		return -ENOMEM;
	near = near_is(c->platform_name, c->name);
	fits = !near && (!wanted || strstr(c->name, wanted));
	if (fits && version >= PROBE_LEAST_VERSION && usable(id)) {
		if (!c->skip) {
			c->device = id;
			return 0;
		}
		c->skip--;
	} else if (fits && version < PROBE_LEAST_VERSION) {
		note_old(seen, c, version);
	}
	if (!near)
		note_name(&seen->names, c->name);
	free(c->name);
	free(c->driver);
	c->name = c->driver = NULL;
	return 0;
}

static int try_devices(cl_platform_id id, const char *wanted, struct choice *c, struct seen *seen) {
	cl_device_id device[PROBE_DEVICES];
	cl_uint devices = 0;
	int r = 0;

	if (clGetDeviceIDs(id, CL_DEVICE_TYPE_ALL, PROBE_DEVICES, device, &devices))
		return 0;
	for (cl_uint i = 0; i < devices && i < PROBE_DEVICES && !c->device && !r; i++)
		r = try_device(device[i], wanted, c, seen);
	return r;
}

static int try_platform(cl_platform_id id, const struct device_config *config, struct choice *c, struct seen *seen) {
	int r = 0;

	c->platform = id;
	c->platform_name = platform_text(id, CL_PLATFORM_NAME);
	if (!c->platform_name)
		return -ENOMEM;
	if (config->platform && !strstr(c->platform_name, config->platform)) {
		note_name(&seen->names, c->platform_name);
	} else {
		seen->named = true;
		r = try_devices(id, config->device, c, seen);
	}
	if (c->device)
		return r;
	free(c->platform_name);
	c->platform_name = NULL;
	return r;
}

static int refuse(const struct device_config *config, const struct seen *seen, struct fault *f) {
	const char *there = seen->names.length ? str_text(&seen->names) : "none";

	if (*seen->old && !config->number)
		return fault_set(f, FAULT_DEVICE, "%s", seen->old);
	if (config->platform && *config->platform && !seen->named)
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

static void seen_clear(struct seen *seen) {
	str_free(&seen->names);
}

static int choose(const struct device_config *config, struct choice *c, struct fault *f) {
	CLEANUP(seen_clear) struct seen seen = { .named = false };
	cl_platform_id platform[PROBE_PLATFORMS];
	cl_uint platforms = 0;
	int r;

	c->skip = config->number;
	if (clGetPlatformIDs(PROBE_PLATFORMS, platform, &platforms) || !platforms)
		return fault_set(f, FAULT_DEVICE,
			"no OpenCL platform was found; install %s or the driver of the device",
			quirks_package());
	for (cl_uint i = 0; i < platforms && i < PROBE_PLATFORMS && !c->device; i++) {
		r = try_platform(platform[i], config, c, &seen);
		if (r)
			return r;
	}
	return c->device ? 0 : refuse(config, &seen, f);
}

bool probe_tries_more(const struct device_config *config, const struct choice *c) {
	return config->reach &&
		(config->discrete || quirks_of(c->platform_name, c->name)->flags & QUIRK_REACHES_HOST);
}

/* ---- the child ---- */

/* What a child is to do. */
struct attempt {
	const struct device_config *config;
	struct device *device;        /* whose driver is tried, too; NULL: drivers are listed, no more */
	bool suspect;                 /* somebody died of it, or wants to know whether one would */
	int first;                    /* row of trials.def to begin with; negative: all at once */
};

/* What it tells when it has listed them; the bytes of enum trial_told follow. */
struct told {
	struct fault fault;           /* code 0: it found a device */
	char who[PROBE_WHO], package[PROBE_PACKAGE];   /* that one, and what to install of it */
};

enum { PROBE_BYTES = TRIALS + 4 };

/* What is heard of it. */
struct heard {
	struct told told;
	char byte[PROBE_BYTES + 1];   /* a text */
	int received;                 /* of what it told: 0, -ETIMEDOUT or -EPIPE */
	bool late;                    /* it was ended */
	int status;                   /* waitpid's */
};

static void tell(int fd, const void *bytes, size_t size) {
	if (write(fd, bytes, size) != (ssize_t)size)
		_exit(1);
}

static void try_driver(const struct attempt *a, int fd) {
	struct device *d = a->device;

	if (a->suspect || a->first >= 0 || (!trials_are_needless(d) && !trials_recall(d)))
		trials_run(d, a->first, fd);
	tell(fd, &(char){ TRIAL_END }, 1);
	if (probe_tries_more(a->config, &d->choice) && reach_trial(d->choice.device))
		tell(fd, &(char){ TRIAL_REACHES }, 1);
}

/* A compiler that dies of what it is given says so, to nobody's use. */
static void be_quiet(void) {
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
		log_debug("what drivers say while they are tried is not kept off the log");
}

/* The device is the child's copy. */
static void child(const struct attempt *a, int fd) {
	struct choice c = { 0 };
	struct told t = { 0 };
	int r;

	be_quiet();
	r = choose(a->config, &c, &t.fault);

	if (r < 0)
		fault_set(&t.fault, FAULT_DEVICE, "memory is short while OpenCL platforms are listed");
	if (!r) {
		snprintf(t.who, sizeof t.who, "%.80s (%.60s, driver %.60s)", c.name, c.platform_name, c.driver);
		snprintf(t.package, sizeof t.package, "%s", driver_package(c.platform_name));
	}
	tell(fd, &t, sizeof t);
	if (!r && a->device) {
		a->device->choice = c;
		a->device->quirks = quirks_of(c.platform_name, c.name);
		try_driver(a, fd);
	}
	_exit(PROBE_EXIT);
}

/* ---- the parent ---- */

static int64_t now_ms(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads from the child until `size` bytes are there. 0, -ETIMEDOUT, or -EPIPE where it ended without all of them. */
static int receive(int fd, void *bytes, size_t size, size_t *gotp) {
	int64_t end = now_ms() + INT64_C(1000) * PROBE_SECONDS;

	for (*gotp = 0; *gotp < size;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - now_ms();
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)left) <= 0)
			continue;
		n = read(fd, (char *)bytes + *gotp, size - *gotp);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		*gotp += (size_t)n;
	}
	return 0;
}

static void hear(pid_t pid, int fd, struct heard *h) {
	size_t got;

	memset(h, 0, sizeof *h);
	h->received = receive(fd, &h->told, sizeof h->told, &got);
	h->late = h->received == -ETIMEDOUT;
	/* Until it ends, or is late: a trial may hang. */
	if (!h->received)
		h->late = receive(fd, h->byte, PROBE_BYTES, &got) == -ETIMEDOUT;
	if (h->late)
		kill(pid, SIGKILL);
	while (waitpid(pid, &h->status, 0) < 0 && errno == EINTR)
		;
}

static int run_child(const struct attempt *a, struct heard *h) {
	int fd[2], r;
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
		child(a, fd[1]);
	close(fd[1]);
	hear(pid, fd[0], h);
	close(fd[0]);
	return 0;
}

/* "died (signal 6)" */
static void name_end(const struct heard *h, char text[static PROBE_END]) {
	if (h->late)
		snprintf(text, PROBE_END, "did not come back within %d seconds", PROBE_SECONDS);
	else if (WIFSIGNALED(h->status))
		snprintf(text, PROBE_END, "died (signal %d)", WTERMSIG(h->status));
	else
		snprintf(text, PROBE_END, "ended its process (status %d)", WEXITSTATUS(h->status));
}

static int refuse_listing(const struct heard *h, struct fault *f) {
	char end[PROBE_END];
	struct culprit c = { .name = "" };

	culprit_find(&c);
	name_end(h, end);
	return fault_set(f, FAULT_DEVICE, "%s %s while it listed its devices; %s", c.name, end, c.mend);
}

static int refuse_driver(const struct heard *h, const char *what, struct fault *f) {
	char end[PROBE_END];

	name_end(h, end);
	return fault_set(f, FAULT_DEVICE,
		"the driver of %s %s when it was asked for %s; upgrade or reinstall %s, or set device.platform or device.device to another one",
		h->told.who, end, what, h->told.package);
}

/* Which rows it refused in order, as bits, and how many it answered. */
static int rows_answered(const struct heard *h, int first, uint32_t *lacksp) {
	int row = first < 0 ? 0 : first;

	for (const char *b = h->byte; *b; b++)
		if (*b == TRIAL_TAKEN || *b == TRIAL_REFUSED) {
			if (*b == TRIAL_REFUSED)
				*lacksp |= 1u << row;
			row++;
		}
	return row;
}

/*
 * Takes what one child told. 0: it came to its end; a fault; -EAGAIN: it died of a row, and another child is to go on, as `a` says.
 */
static int take_told(struct attempt *a, const struct heard *h, uint32_t *lacksp, struct fault *f) {
	int row;

	if (h->received)
		return refuse_listing(h, f);
	if (h->told.fault.code)
		return fault_set(f, h->told.fault.code, "%s", h->told.fault.text);
	if (strchr(h->byte, TRIAL_NEEDED))
		return fault_set(f, FAULT_DEVICE,
			"the compiler of %s does not take the function fma, which kernels need; upgrade or reinstall %s, or set device.platform or "
			"device.device to another one", h->told.who, h->told.package);
	row = rows_answered(h, a->first, lacksp);
	if (!a->device || strchr(h->byte, TRIAL_END))
		return 0;
	if (!strchr(h->byte, TRIAL_CONTEXT))
		return refuse_driver(h, "a context", f);
	if (!strchr(h->byte, TRIAL_KERNEL))
		return refuse_driver(h, "a first kernel", f);
	if (a->first < 0 && !row) {
		a->first = 0;         /* it died of all at once: which one is it? */
		return -EAGAIN;
	}
	*lacksp |= 1u << row;
	a->first = row + 1;
	return a->first < TRIALS ? -EAGAIN : 0;
}

/* *triedp: trials were made, and d->lacks says what they showed. */
static int probe_in_child(struct attempt *a, bool *reachesp, bool *triedp, struct fault *f) {
	uint32_t lacks = 0;
	struct heard h = { .received = 0 };
	int r;

	do {
		r = run_child(a, &h);
		if (!r)
			r = take_told(a, &h, &lacks, f);
	} while (r == -EAGAIN);
	*reachesp = !r && strchr(h.byte, TRIAL_REACHES);
	*triedp = !r && (a->first >= 0 || strchr(h.byte, TRIAL_KERNEL));
	if (*triedp)
		a->device->lacks = lacks;
	return r;
}

/* No device has that number: how far it was counted is how many there are. */
int probe_count(const struct device_config *config, unsigned *countp, struct fault *f) {
	struct attempt a = { .config = config, .first = -1 };
	struct device_config beyond = *config;
	struct choice c = { 0 };
	bool reaches, tried;
	int r;

	r = probe_in_child(&a, &reaches, &tried, f);
	if (r)
		return r;
	beyond.number = UINT_MAX;
	r = choose(&beyond, &c, f);
	*countp = UINT_MAX - c.skip;
	choice_clear(&c);
	return r == FAULT_DEVICE ? 0 : r;
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it does not know what cleans up */
/* As an engine would, but for the cache: nothing is kept, and drivers take their own. */
int device_look(const struct device_config *config, struct str *text, struct fault *f) {
	CLEANUP(cleanup_free) struct device *d = calloc(1, sizeof *d);
	struct attempt a = { .config = config, .device = d, .suspect = true, .first = -1 };
	char version[PROBE_WHO] = "";
	bool reaches, tried;
	int r = d ? quirks_set_variables(NULL) : -ENOMEM;

	if (!r)
		r = probe_in_child(&a, &reaches, &tried, f);
	if (!r)
		r = probe_choose_here(config, &d->choice, f);
	if (r)
		return r;
	clGetDeviceInfo(d->choice.device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
	str_printf(text, "%s\t%s\t%s\t%s", d->choice.platform_name, d->choice.name, version, d->choice.driver);
	choice_clear(&d->choice);
	return str_finish(text);
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

int probe_choose_here(const struct device_config *config, struct choice *c, struct fault *f) {
	int r;

	*c = (struct choice){ 0 };
	r = choose(config, c, f);
	if (r)
		choice_clear(c);
	return r;
}

/* What no trial has told of is left out; so is what a driver may not take that was not tried. */
static void settle_trials(struct device *d, bool tried) {
	if (tried)
		trials_keep(d);
	else if (!trials_recall(d))
		d->lacks = trials_are_needless(d) ? 0 : (1u << TRIALS) - 1;
	trials_settle(d);
}

int probe_choose(struct device *d, enum listed listed, struct fault *f) {
	static bool drivers_are_up, reaches;
	struct attempt a = { .config = &d->config, .device = d, .suspect = listed == LISTED_SUSPECT, .first = -1 };
	bool tried = false;
	int r;

	r = drivers_are_up || listed == LISTED_WELL ? 0 : probe_in_child(&a, &reaches, &tried, f);
	if (r)
		return r;
	drivers_are_up = true;
	if (listed == LISTED_WELL)
		alarm(PROBE_SECONDS);
	r = probe_choose_here(&d->config, &d->choice, f);
	alarm(0);
	if (r)
		return r;
	d->quirks = quirks_of(d->choice.platform_name, d->choice.name);
	d->choice.reaches = reaches && probe_tries_more(&d->config, &d->choice);
	settle_trials(d, tried);
	return 0;
}

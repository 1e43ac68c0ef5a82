/*
 * fusionctl doctor: OpenCL. The loader and its drivers are tried in a process of their own, which may crash or hang: what it
 * finds comes as lines on a pipe.
 */
#include "doctor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CL/cl.h>

#include "fusiond.h"
#include "client/json.h"

enum {
	/* A driver that has found no device by then will not. */
	TRIAL_MS = 30000,
	PLATFORMS = 32,
	DEVICES = 64,
	INFO_BYTES = 256,
	LINE_BYTES = 2048,
	/* The engine calls OpenCL 1.2. */
	LEAST_VERSION = 102,
};

#define VENDORS "/etc/OpenCL/vendors"

static const struct known {
	const char *library, *icd, *platform, *package;
} known[] = {
#define DRIVER(library, icd, platform, package) { library, icd, platform, package },
#include "protocol/drivers.def"
#undef DRIVER
};

static const char *const library_folders[] = { "/usr/lib", "/usr/lib64", "/lib", "/usr/lib/*-linux-gnu", "/usr/lib/*-linux-gnu/*",
	"/usr/local/lib", "/usr/local/lib/*-linux-gnu", "/opt/*/lib", "/opt/*/lib64", "/opt/*/opencl/lib" };

/* ---- the trial, in a process of its own ---- */

struct opencl {
	__typeof__(clGetPlatformIDs) *platforms;
	__typeof__(clGetPlatformInfo) *platform_info;
	__typeof__(clGetDeviceIDs) *devices;
	__typeof__(clGetDeviceInfo) *device_info;
};

/* A pointer to an object is no pointer to a function in C; POSIX says the bits are. */
static bool find_symbol(void *library, const char *name, void *functionp) {
	void *symbol = dlsym(library, name);

	memcpy(functionp, &symbol, sizeof symbol);
	return symbol;
}

static void tell_device(const struct opencl *cl, cl_platform_id platform, cl_device_id device, FILE *out) {
	char text[4][INFO_BYTES] = { "", "", "", "" };

	cl->platform_info(platform, CL_PLATFORM_NAME, INFO_BYTES - 1, text[0], NULL);
	cl->device_info(device, CL_DEVICE_NAME, INFO_BYTES - 1, text[1], NULL);
	cl->device_info(device, CL_DEVICE_VERSION, INFO_BYTES - 1, text[2], NULL);
	cl->device_info(device, CL_DRIVER_VERSION, INFO_BYTES - 1, text[3], NULL);
	fprintf(out, "device\t%s\t%s\t%s\t%s\n", text[0], text[1], text[2], text[3]);
}

static void tell_platforms(const struct opencl *cl, FILE *out) {
	cl_platform_id platform[PLATFORMS];
	cl_uint platforms = 0, devices;

	if (cl->platforms(PLATFORMS, platform, &platforms))
		platforms = 0;
	for (cl_uint i = 0; i < platforms && i < PLATFORMS; i++) {
		cl_device_id device[DEVICES];

		devices = 0;
		if (cl->devices(platform[i], CL_DEVICE_TYPE_ALL, DEVICES, device, &devices))
			devices = 0;
		fprintf(out, "platform\t%u\n", (unsigned)devices);
		for (cl_uint k = 0; k < devices && k < DEVICES; k++)
			tell_device(cl, platform[i], device[k], out);
	}
}

static void try_opencl(FILE *out) {
	void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
	struct opencl cl;

	if (!library) {
		fprintf(out, "loader\t%s\n", dlerror());
	} else if (!find_symbol(library, "clGetPlatformIDs", &cl.platforms) ||
		   !find_symbol(library, "clGetPlatformInfo", &cl.platform_info) ||
		   !find_symbol(library, "clGetDeviceIDs", &cl.devices) ||
		   !find_symbol(library, "clGetDeviceInfo", &cl.device_info)) {
		fprintf(out, "loader\tlibOpenCL.so.1 is no OpenCL loader\n");
	} else {
		tell_platforms(&cl, out);
	}
	fprintf(out, "end\n");
	fflush(out);
}

/* Drivers print what they like; only our lines count. */
static void become_trial(int fd) {
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	FILE *out = fdopen(fd, "w");

	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	if (out)
		try_opencl(out);
	_exit(0);
}

/* ---- what it found ---- */

static void take_device(struct doctor *d, char *line) {
	static const char *const names[] = { "platform", "device", "version", "driver" };
	cJSON *one = cJSON_CreateObject();
	char *word;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		word = strsep(&line, "\t");
		cJSON_AddStringToObject(one, names[i], word ? word : "");
	}
	cJSON_AddItemToArray(d->devices, one);
}

struct trial {
	char loader[LINE_BYTES];     /* why there is none; empty: there is one */
	unsigned platforms;
	bool ended;                  /* it came to its end */
};

static void take_line(struct doctor *d, struct trial *t, char *line) {
	char *rest = line;
	const char *word = strsep(&rest, "\t");

	if (!strcmp(word, "end"))
		t->ended = true;
	else if (!rest)
		return;
	else if (!strcmp(word, "loader"))
		snprintf(t->loader, sizeof t->loader, "%s", rest);
	else if (!strcmp(word, "platform"))
		t->platforms++;
	else if (!strcmp(word, "device"))
		take_device(d, rest);
}

static void read_trial(struct doctor *d, struct trial *t, int fd) {
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char bytes[LINE_BYTES], *text = NULL, *line, *rest;
	size_t size = 0;
	FILE *all = open_memstream(&text, &size);
	ssize_t n = 1;

	while (all && n > 0 && poll(&p, 1, TRIAL_MS) > 0) {
		n = read(fd, bytes, sizeof bytes);
		if (n > 0)
			fwrite(bytes, 1, (size_t)n, all);
	}
	if (!all || fclose(all))
		return;
	rest = text;
	while ((line = strsep(&rest, "\n")))
		take_line(d, t, line);
	free(text);
}

/* The status of the process: not 0 where a driver crashed. */
static int run_trial(struct doctor *d, struct trial *t) {
	int end[2], status = 0;
	pid_t pid;

	*t = (struct trial){ .ended = false };
	if (pipe2(end, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid)
		become_trial(end[1]);
	close(end[1]);
	if (pid > 0)
		read_trial(d, t, end[0]);
	close(end[0]);
	if (pid > 0 && !t->ended)
		kill(pid, SIGKILL);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status;
}

/* ---- files ---- */

/* *pathp of a library in any of the usual folders; false where it is in none. */
static bool find_library(const struct doctor *d, const char *name, char path[static PATH_MAX]) {
	char pattern[PATH_MAX];
	bool found = false;

	for (size_t i = 0; !found && i < sizeof library_folders / sizeof *library_folders; i++) {
		glob_t g = { 0 };

		if (snprintf(pattern, sizeof pattern, "%s%s/%s", d->root, library_folders[i], name) < PATH_MAX &&
			!glob(pattern, 0, NULL, &g) && snprintf(path, PATH_MAX, "%s", g.gl_pathv[0]) < PATH_MAX)
			found = true;
		globfree(&g);
	}
	return found;
}

/* As the loader of Debian looks for them: a folder, or one file. */
static void icd_pattern(const struct doctor *d, char pattern[static PATH_MAX]) {
	const char *given = getenv("OCL_ICD_VENDORS"), *other = getenv("OPENCL_VENDOR_PATH");
	size_t length;

	given = given && *given ? given : other;
	if (*d->root || !given || !*given) {
		snprintf(pattern, PATH_MAX, "%s" VENDORS "/*.icd", d->root);
		return;
	}
	length = strlen(given);
	snprintf(pattern, PATH_MAX, length > 4 && !strcmp(given + length - 4, ".icd") ? "%s" : "%s/*.icd", given);
}

static void first_line(const char *path, char line[static LINE_BYTES]) {
	FILE *f = fopen(path, "re");

	line[0] = 0;
	if (f && !fgets(line, LINE_BYTES, f))
		line[0] = 0;
	line[strcspn(line, "\r\n \t")] = 0;
	if (f)
		fclose(f);
}

static const char *base_name(const char *path) {
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Names up to ".so" are those of one library. */
static bool same_library(const char *a, const char *b) {
	const char *end = strstr(a, ".so");
	size_t length = end ? (size_t)(end - a) : strlen(a);

	return !strncmp(a, b, length) && !strncmp(b + length, ".so", 3);
}

static bool is_named(const glob_t *icds, const char *library) {
	char line[LINE_BYTES];

	for (size_t i = 0; i < icds->gl_pathc; i++) {
		first_line(icds->gl_pathv[i], line);
		if (same_library(library, base_name(line)))
			return true;
	}
	return false;
}

static bool library_there(const struct doctor *d, const char *name) {
	char path[PATH_MAX];

	if (strchr(name, '/'))
		return doctor_path(d, name, path) && !access(path, R_OK);
	return find_library(d, name, path);
}

/* ---- the checks ---- */

void doctor_loader(struct doctor *d) {
	char path[PATH_MAX];
	struct trial t;
	int status;

	if (*d->root) {
		if (find_library(d, "libOpenCL.so.1", path))
			doctor_find(d, DOCTOR_OK, "the loader is %s", path);
		else
			doctor_find(d, DOCTOR_ERROR, "there is no OpenCL loader (libOpenCL.so.1)");
		if (!find_library(d, "libOpenCL.so.1", path))
			doctor_mend(d, "apt install ocl-icd-libopencl1");
		return;
	}
	status = run_trial(d, &t);
	d->crashed = !t.ended && !*t.loader;
	if (*t.loader) {
		doctor_find(d, DOCTOR_ERROR, "there is no OpenCL loader: %s", t.loader);
		doctor_mend(d, "apt install ocl-icd-libopencl1");
	} else if (!t.ended && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
		doctor_find(d, DOCTOR_ERROR, "an OpenCL driver crashes when it is asked for its devices (%s)",
			strsignal(WTERMSIG(status)));
		doctor_mend(d, "for f in " VENDORS "/*.icd; do OCL_ICD_VENDORS=$f clinfo -l || echo \"$f\"; done    # then remove that driver's file");
	} else if (!t.ended) {
		doctor_find(d, DOCTOR_ERROR, "OpenCL gave no list of devices within %d s", TRIAL_MS / 1000);
		doctor_mend(d, "for f in " VENDORS "/*.icd; do OCL_ICD_VENDORS=$f timeout 30 clinfo -l || echo \"$f\"; done    # then remove that driver's file");
	} else {
		doctor_find(d, DOCTOR_OK, "the loader works, with %u platform%s", t.platforms, t.platforms == 1 ? "" : "s");
	}
}

static const struct known *installed(const struct doctor *d) {
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (find_library(d, known[i].library, path))
			return &known[i];
	return NULL;
}

static const char *wanted_package(const struct doctor *d) {
	char path[PATH_MAX];

	return doctor_path(d, "/dev/nvidiactl", path) && !access(path, F_OK) ? "nvidia-opencl-icd" : "pocl-opencl-icd";
}

void doctor_drivers(struct doctor *d) {
	const cJSON *first = cJSON_GetArrayItem(d->devices, 0);
	int count = cJSON_GetArraySize(d->devices);
	const struct known *k = installed(d);

	if (count) {
		doctor_find(d, DOCTOR_OK, "%d device%s, first %s by %s", count, count == 1 ? "" : "s", json_text(first, "device"),
			json_text(first, "platform"));
	} else if (*d->root && k) {
		doctor_find(d, DOCTOR_OK, "the library of a driver is there: %s", k->library);
	} else if (k) {
		/* Why it is of no use, others tell: its file, the nodes of its device. */
		doctor_find(d, DOCTOR_ERROR, "the driver %s is installed, and OpenCL finds no device", k->library);
		doctor_mend(d, "apt install --reinstall %s", k->package);
	} else {
		doctor_find(d, DOCTOR_ERROR, "there is no OpenCL driver");
		doctor_mend(d, "apt install %s", wanted_package(d));
	}
}

static bool judge_icds(struct doctor *d, const glob_t *icds) {
	char line[LINE_BYTES];
	bool good = true;

	for (size_t i = 0; i < icds->gl_pathc; i++) {
		const char *file = icds->gl_pathv[i];

		first_line(file, line);
		if (*line && library_there(d, line))
			continue;
		good = false;
		doctor_find(d, cJSON_GetArraySize(d->devices) ? DOCTOR_WARNING : DOCTOR_ERROR,
			"%s names the driver %s, which is not there", file, *line ? line : "(nothing)");
		doctor_mend(d, "dpkg -S %s && apt install --reinstall PACKAGE    # or, without a package: rm %s", file, file);
	}
	return good;
}

void doctor_icd_files(struct doctor *d) {
	char pattern[PATH_MAX], path[PATH_MAX];
	glob_t icds = { 0 };
	bool good;

	icd_pattern(d, pattern);
	if (glob(pattern, 0, NULL, &icds))
		icds.gl_pathc = 0;
	good = judge_icds(d, &icds);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (!find_library(d, known[i].library, path) || is_named(&icds, known[i].library))
			continue;
		good = false;
		doctor_find(d, cJSON_GetArraySize(d->devices) ? DOCTOR_WARNING : DOCTOR_ERROR,
			"the driver %s is there, but no .icd file names it, so OpenCL does not find it", path);
		doctor_mend(d, "echo %s >" VENDORS "/%s", path + strlen(d->root), known[i].icd);
	}
	if (good && !icds.gl_pathc)
		doctor_find(d, DOCTOR_OK, "there is no .icd file, and no driver that wants one");
	else if (good)
		doctor_find(d, DOCTOR_OK, "%zu .icd file%s, and each names a driver", icds.gl_pathc, icds.gl_pathc == 1 ? "" : "s");
	globfree(&icds);
}

void doctor_driver_version(struct doctor *d) {
	unsigned major, minor, good = 0;
	const cJSON *one;

	cJSON_ArrayForEach(one, d->devices) {
		const char *version = json_text(one, "version");

		if (sscanf(version, "OpenCL %u.%u", &major, &minor) == 2 && 100 * major + minor >= LEAST_VERSION)
			good++;
	}
	cJSON_ArrayForEach(one, d->devices) {
		const char *version = json_text(one, "version");

		if (sscanf(version, "OpenCL %u.%u", &major, &minor) == 2 && 100 * major + minor >= LEAST_VERSION)
			continue;
		doctor_find(d, good ? DOCTOR_WARNING : DOCTOR_ERROR, "the driver of %s is too old: it has %s, fusiond needs OpenCL 1.2",
			json_text(one, "device"), *version ? version : "no version");
		doctor_mend(d, "apt install --only-upgrade %s    # or set device.device to another device",
			installed(d) ? installed(d)->package : wanted_package(d));
	}
	if (good == (unsigned)cJSON_GetArraySize(d->devices))
		doctor_find(d, DOCTOR_OK, good ? "every device has OpenCL 1.2 or newer" : "there is no device to ask");
}

/* Of the driver that a sentence of the daemon names by its package. */
static void mend_device(struct doctor *d, const char *sentence) {
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strstr(sentence, known[i].package)) {
			doctor_mend(d, "apt install %s %s    # or set device.platform and device.device to another device",
				strstr(sentence, "too old") ? "--only-upgrade" : "--reinstall", known[i].package);
			return;
		}
	doctor_mend(d, "fusiond --devices    # after a correction of device.platform or device.device, or of what the sentence names");
}

static void judge_device(struct doctor *d, char *line) {
	const char *state = strsep(&line, "\t"), *platform, *device, *driver;

	if (strcmp(state, "error") == 0 && line) {
		doctor_find(d, DOCTOR_ERROR, "%s", line);
		mend_device(d, line);
		return;
	}
	platform = line ? strsep(&line, "\t") : NULL;
	device = line ? strsep(&line, "\t") : NULL;
	strsep(&line, "\t");
	driver = line;
	if (driver)
		doctor_find(d, DOCTOR_OK, "a daemon takes %s by %s, driver %s", device, platform, driver);
}

/* The daemon's own program chooses, and tries what it chose. */
void doctor_device(struct doctor *d) {
	const char *const argument[] = { "--devices", NULL };
	char *text = NULL, *rest, *line;

	if (*d->root || (!cJSON_GetArraySize(d->devices) && !d->crashed)) {
		doctor_find(d, DOCTOR_OK, "not looked at: %s", *d->root ? "nothing of the tree is run" : "there is no device");
		return;
	}
	if (fusiond_run(argument, FUSIOND_ANSWERS, &text) == -1 || !text) {
		doctor_find(d, DOCTOR_WARNING, "it is not known which device a daemon would take: fusiond does not run");
		free(text);
		return;
	}
	rest = text;
	while ((line = strsep(&rest, "\n")))
		judge_device(d, line);
	free(text);
}

static bool judge_node(struct doctor *d, const char *path) {
	char group[DOCTOR_NAME];
	struct stat st;

	if (stat(path, &st) || S_ISDIR(st.st_mode) || doctor_may_use(d, st.st_uid, st.st_gid, st.st_mode))
		return true;
	doctor_group(st.st_gid, group);
	if ((st.st_mode & (S_IRGRP | S_IWGRP)) == (S_IRGRP | S_IWGRP)) {
		doctor_find(d, DOCTOR_ERROR, "%s may not use %s, which is for the group %s", d->subject.name, path, group);
		doctor_mend(d, "usermod -aG %s %s    # then restart what runs as %s", group, d->subject.name, d->subject.name);
	} else {
		doctor_find(d, DOCTOR_ERROR, "%s may not use %s, whose mode %04o allows it to no group", d->subject.name, path,
			(unsigned)(st.st_mode & 07777));
		doctor_mend(d, "chgrp render %s && chmod 0660 %s    # for good by a rule of udev", path, path);
	}
	return false;
}

void doctor_device_nodes(struct doctor *d) {
	static const char *const nodes[] = { "/dev/nvidiactl", "/dev/nvidia[0-9]*", "/dev/nvidia-uvm", "/dev/dri/renderD*",
		"/dev/kfd" };
	size_t count = 0;
	bool good = true;

	for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
		char pattern[PATH_MAX];
		glob_t found = { 0 };

		if (doctor_path(d, nodes[i], pattern) && !glob(pattern, 0, NULL, &found)) {
			count += found.gl_pathc;
			for (size_t k = 0; k < found.gl_pathc; k++)
				good &= judge_node(d, found.gl_pathv[k]);
		}
		globfree(&found);
	}
	if (good && count)
		doctor_find(d, DOCTOR_OK, "%s may use the %zu nodes of GPUs", d->subject.name, count);
	else if (good)
		doctor_find(d, DOCTOR_OK, "there are no nodes of GPUs; a CPU needs none");
}

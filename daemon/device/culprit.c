/*
 * Which driver it was that died or hung while all were listed: each is listed alone, in a child of its own, by the loader that has been
 * told of no other. The sentence names the library as it lies on the disk, whose number is its version, its .icd file and its package.
 */
#include "state.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	/* Of one driver; what hung before hangs again. */
	CULPRIT_MS = 10000,
	CULPRIT_LINE = 512,
};

static const char vendors[] = "/etc/OpenCL/vendors";

static const struct {
	const char *library, *platform, *package;
} known[] = {
#define DRIVER(library, icd, platform, package) { library, platform, package },
#include "protocol/drivers.def"
#undef DRIVER
};

enum { KNOWN = sizeof known / sizeof *known };

const char *driver_package(const char *platform) {
	for (size_t i = 0; i < KNOWN; i++)
		if (!strncmp(platform, known[i].platform, strlen(known[i].platform)))
			return known[i].package;
	return "its driver";
}

/* Names up to ".so" are those of one library. */
static const char *library_package(const char *library) {
	const char *slash = strrchr(library, '/');

	library = slash ? slash + 1 : library;
	for (size_t i = 0; i < KNOWN; i++)
		if (!strncmp(library, known[i].library, strcspn(known[i].library, ".") + 1))
			return known[i].package;
	return "its package";
}

/* As Debian's loader looks for them: a folder, or one file. */
static void pattern_of(char pattern[static PATH_MAX]) {
	const char *given = getenv("OCL_ICD_VENDORS"), *other = getenv("OPENCL_VENDOR_PATH");
	size_t length;

	given = given && *given ? given : other && *other ? other : vendors;
	length = strlen(given);
	snprintf(pattern, PATH_MAX, length > 4 && !strcmp(given + length - 4, ".icd") ? "%s" : "%s/*.icd", given);
}

static void first_line(const char *path, char line[static CULPRIT_LINE]) {
	FILE *f = fopen(path, "re");

	line[0] = 0;
	if (f && !fgets(line, CULPRIT_LINE, f))
		line[0] = 0;
	line[strcspn(line, "\r\n \t")] = 0;
	if (f)
		fclose(f);
}

/* Where the library lies; then its devices are asked for. The name may be all that is heard. */
static void list_alone(const char *icd, const char *library, int fd) {
	char path[PATH_MAX] = "";
	struct link_map *map = NULL;
	cl_platform_id platform[8];
	cl_device_id device[8];
	cl_uint platforms = 0, devices;
	void *handle = dlopen(library, RTLD_NOW);

	if (handle && !dlinfo(handle, RTLD_DI_LINKMAP, &map) && realpath(map->l_name, path) &&
		write(fd, path, strlen(path)) < 0)
		_exit(1);
	if (setenv("OCL_ICD_VENDORS", icd, 1) || unsetenv("OCL_ICD_FILENAMES") ||
		clGetPlatformIDs(sizeof platform / sizeof *platform, platform, &platforms))
		platforms = 0;
	for (cl_uint i = 0; i < platforms && i < sizeof platform / sizeof *platform; i++)
		if (clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, sizeof device / sizeof *device, device, &devices))
			devices = 0;
	_exit(0);
}

/* Until the child ends; false where it hangs. What it says goes to `library`, if it is anything. */
static bool hear(int fd, char library[static CULPRIT_LINE]) {
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char said[CULPRIT_LINE];
	ssize_t n = 1;

	while (n > 0 || (n < 0 && errno == EINTR)) {
		if (poll(&p, 1, CULPRIT_MS) <= 0)
			return false;
		n = read(fd, said, sizeof said - 1);
		if (n > 0)
			snprintf(library, CULPRIT_LINE, "%.*s", (int)n, said);
	}
	return true;
}

/* Does this one come to no end of its own? */
static bool dies(const char *icd, char library[static CULPRIT_LINE]) {
	int fd[2], status = 0;
	bool heard;
	pid_t pid;

	if (pipe(fd))
		return false;
	pid = fork();
	if (!pid)
		list_alone(icd, library, fd[1]);
	close(fd[1]);
	heard = pid > 0 && hear(fd[0], library);
	close(fd[0]);
	if (pid < 0)
		return false;
	if (!heard)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return !heard || !WIFEXITED(status) || WEXITSTATUS(status);
}

void culprit_find(struct culprit *c) {
	char pattern[PATH_MAX], library[CULPRIT_LINE];
	glob_t icds = { 0 };
	const char *slash;

	snprintf(c->name, sizeof c->name, "an OpenCL driver");
	snprintf(c->mend, sizeof c->mend, "reinstall the driver, or remove its .icd file from %s", vendors);
	pattern_of(pattern);
	if (glob(pattern, 0, NULL, &icds))
		icds.gl_pathc = 0;
	for (size_t i = 0; i < icds.gl_pathc; i++) {
		first_line(icds.gl_pathv[i], library);
		if (!*library || !dies(icds.gl_pathv[i], library))
			continue;
		slash = strrchr(library, '/');
		snprintf(c->name, sizeof c->name, "the OpenCL driver %.80s", slash ? slash + 1 : library);
		snprintf(c->mend, sizeof c->mend, "upgrade or reinstall %s, or remove %.200s", library_package(library), icds.gl_pathv[i]);
		break;
	}
	globfree(&icds);
}

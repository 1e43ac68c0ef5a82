/*
 * Built programs on disk, one file each, named by the key (base/cache_entry.h).
 *
 * What does not read as written is removed and counts as missing: a damaged cache costs a build and nothing else. The
 * key covers device, driver and our version, so a stale entry is never found. cache_keep_small() removes leftovers and what was
 * used longest ago, cache_open() reads everything again after the machine has restarted: what a crash of it can damage is
 * not ours alone, and drivers abort on what they wrote half. A disk that is full is dealt with by base/cache_room.c.
 */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/cache_folder.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"

enum {
	CACHE_PATH = 4096,
};

static char *join(const char *folder, const char *name) {
	char *path = NULL;

	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* mkdir -p; 0 or -errno. */
static int make_folder(const char *path) {
	char part[CACHE_PATH];
	size_t length = strlen(path);

	if (length >= sizeof part)
		return -ENAMETOOLONG;
	for (size_t i = 1; i <= length; i++) {
		if (path[i] != '/' && path[i])
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, 0700) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* 0 or -errno. The file is gone again. */
static int check_writable(const char *folder) {
	CLEANUP(cleanup_free) char *path = join(folder, ".writable-XXXXXX");
	int fd;

	if (!path)
		return -ENOMEM;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	unlink(path);
	return 0;
}

bool cache_is_empty(const struct cache *c) {
	DIR *d = opendir(c->programs);
	const struct dirent *e;
	bool empty = true;

	while (d && empty && (e = readdir(d)))
		empty = e->d_name[0] == '.';
	if (d)
		closedir(d);
	return empty;
}

static int open_folder(const char *path, struct fault *f) {
	int r = make_folder(path);

	if (r == -ENOMEM)
		return r;
	if (r)
		return fault_set(f, FAULT_DEVICE,
			"the cache folder %s cannot be made: %s; set cache.dir to a place "
			"this user may write to",
			path, strerror(-r));
	r = cache_folder_trust(path, f);
	if (r > 0 || r == -ENOMEM)
		return r;
	if (!r)
		r = check_writable(path);
	if (r == -ENOMEM)
		return r;
	if (r)
		return fault_set(f, FAULT_DEVICE,
			"the cache folder %s cannot be written to: %s; set cache.dir to a "
			"place this user may write to",
			path, strerror(-r));
	return 0;
}

/* ---- the folder as a whole ---- */

static void read_line(const char *path, char line[static CACHE_BOOT]) {
	FILE *f = fopen(path, "re");

	line[0] = 0;
	if (f && !fgets(line, CACHE_BOOT, f))
		line[0] = 0;
	if (f)
		fclose(f);
}

static void write_line(const char *path, const char *line) {
	FILE *f = fopen(path, "we");

	if (!f)
		return;
	fputs(line, f);
	fclose(f);
}

/* A file that was renamed is whole, but for a crash of the machine. */
static void verify_after_crash(struct cache *c) {
	CLEANUP(cleanup_free) char *path = join(c->folder, "boot");
	char last[CACHE_BOOT];
	struct cache_usage u;

	read_line("/proc/sys/kernel/random/boot_id", c->boot);
	if (!path || !*c->boot)
		return;
	read_line(path, last);
	if (!strcmp(c->boot, last))
		return;
	if (*last && !cache_folder_verify(c->folder, &u) && u.damaged.count)
		log_notice("%" PRIu64 " damaged entries of the cache were removed after a restart of the machine", u.damaged.count);
	write_line(path, c->boot);
}

static void *keep_small(void *argument) {
	const struct cache *c = argument;
	struct cache_usage u;

	if (!cache_folder_prune(c->folder, c->most, &u) && u.removed.count)
		log_info("%" PRIu64 " entries of the cache, %" PRIu64 " bytes, were removed: leftovers, or used longest ago",
			u.removed.count, u.removed.bytes);
	return NULL;
}

int cache_keep_small(struct cache *c) {
	int r = thread_start(&c->keeper, "cache", keep_small, c);

	c->keeps = !r;
	return r;
}

static int name_folders(struct cache *c, const char *folder, struct fault *f) {
	if (!folder || !*folder)
		return fault_set(f, FAULT_DEVICE,
			"no cache folder is set; set cache.dir to a place this user may "
			"write to");
	c->folder = strdup(folder);
	c->programs = join(folder, "programs");
	c->notes = join(folder, "notes");
	c->driver = join(folder, "driver");
	c->loading = join(folder, "loading");
	c->origins = join(folder, "origins");
	return c->folder && c->programs && c->notes && c->driver && c->loading && c->origins ? 0 : -ENOMEM;
}

/* What is older was left by an earlier process. */
static void note_opening(struct cache *c, bool now) {
	CLEANUP(cleanup_free) char *path = join(c->folder, "opened");
	CLEANUP(cleanup_close) int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	struct stat status = { 0 };

	if (fd < 0 || (now && futimens(fd, NULL)) || fstat(fd, &status))
		log_debug("it is not noted when the cache was opened: %s", strerror(errno));
	c->opened = status.st_mtim;
}

int cache_open(struct cache *c, const char *folder, uint64_t most, struct fault *f) {
	int r = name_folders(c, folder, f);

	if (r)
		return r;
	c->most = most;
	cache_folder_return(folder);
	r = open_folder(folder, f);
	if (!r)
		r = open_folder(c->programs, f);
	if (!r)
		r = open_folder(c->notes, f);
	if (!r)
		r = open_folder(c->driver, f);
	if (!r)
		r = open_folder(c->loading, f);
	if (!r)
		r = open_folder(c->origins, f);
	if (r)
		return r;
	note_opening(c, true);
	verify_after_crash(c);
	return cache_make_room(c, f);
}

int cache_open_beside(struct cache *c, const char *folder, struct fault *f) {
	int r = name_folders(c, folder, f);

	if (!r)
		note_opening(c, false);
	return r;
}

int cache_make_room(const struct cache *c, struct fault *f) {
	int r = cache_folder_make_room(c->folder, f);

	/* Others are said there; the driver may find room yet. */
	return r > 0 ? r : 0;
}

void cache_close(struct cache *c) {
	if (c->keeps)
		pthread_join(c->keeper, NULL);
	free(c->folder);
	free(c->programs);
	free(c->notes);
	free(c->driver);
	free(c->loading);
	free(c->origins);
	*c = (struct cache){ 0 };
}

/* ---- what drivers need of it ---- */

/* Maps a file of the folder for execution, which a file system mounted noexec refuses. 0 or -errno. */
static int try_execute(const char *folder) {
	CLEANUP(cleanup_free) char *path = join(folder, ".executes-XXXXXX");
	CLEANUP(cleanup_close) int fd = -1;
	void *code;
	int r = 0;

	if (!path)
		return -ENOMEM;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	if (ftruncate(fd, 1))
		return -errno;
	code = mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (code == MAP_FAILED)
		r = -errno;
	else
		munmap(code, 1);
	return r;
}

int cache_check_executes(const struct cache *c, struct fault *f) {
	int r = try_execute(c->driver);

	if (!r || r == -ENOMEM)
		return r;
	return fault_set(f, FAULT_DEVICE,
		"the cache folder %s executes nothing (%s), but the OpenCL driver runs code from "
		"it; mount its file system without noexec, or set cache.dir to another place",
		c->driver, strerror(-r));
}

static bool is_program(const char *folder, size_t length, const char *name) {
	char path[CACHE_PATH];
	struct stat status;
	int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name);

	if (n < 0 || (size_t)n >= sizeof path || access(path, X_OK))
		return false;
	return !stat(path, &status) && S_ISREG(status.st_mode);
}

int cache_check_linker(struct fault *f) {
	const char *path = getenv("PATH");
	size_t length;

	for (; path && *path; path += length + (path[length] == ':')) {
		length = strcspn(path, ":");
		if (length && is_program(path, length, "ld"))
			return 0;
	}
	return fault_set(f, FAULT_DEVICE,
		"the OpenCL driver needs the linker `ld`, and no folder of PATH has it; install "
		"binutils, or correct PATH");
}

/* ---- entries ---- */

int cache_load(const struct cache *c, const struct cache_key *key, void **bytesp, size_t *sizep) {
	int r = cache_entry_read(c->programs, key, bytesp, sizep);

	if (r == -EBADMSG)
		cache_entry_remove(c->programs, key);
	return r;
}

int cache_store(const struct cache *c, const struct cache_key *key, const void *bytes, size_t size) {
	return cache_entry_write(c->programs, key, bytes, size);
}

void cache_remove(const struct cache *c, const struct cache_key *key) {
	cache_entry_remove(c->programs, key);
}

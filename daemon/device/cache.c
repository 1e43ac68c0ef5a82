/*
 * Built programs on disk, one file each, named by the key.
 *
 * A file is a header (magic, key, size, checksum) and the driver's bytes. It is written beside its
 * place and renamed, so a reader meets a whole file or none. What does not read as written is
 * removed and counts as missing: a damaged cache costs a build and nothing else. The key covers
 * device, driver and our version, so a stale entry is never found; cache_open() removes the
 * oldest files beyond a number.
 */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
	/* A program of 256 values is 200 KiB on PoCL; anything near this is not a program. */
	CACHE_ENTRY_BYTES = 64 << 20,
	/* Programs kept; the oldest go when the cache is opened. */
	CACHE_ENTRIES = 4096,
	CACHE_PATH = 4096,
};

static const char cache_magic[16] = "fusiond prog 1\n";

struct cache_header {
	char magic[16];
	struct cache_key key;
	uint64_t size;
	XXH128_hash_t checksum;
};

static void close_fd(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
}

static char *join(const char *folder, const char *name) {
	char *path = NULL;

	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static char *entry_path(const struct cache *c, const struct cache_key *key, const char *suffix) {
	char name[64];

	snprintf(name, sizeof name, "%016llx%016llx%s", (unsigned long long)key->high,
		(unsigned long long)key->low, suffix);
	return join(c->programs, name);
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

static int open_folder(const char *path, struct fault *f) {
	int r = make_folder(path);

	if (r == -ENOMEM)
		return r;
	if (r)
		return fault_set(f, FAULT_DEVICE,
			"the cache folder %s cannot be made: %s; set cache.dir to a place "
			"this user may write to",
			path, strerror(-r));
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

/* ---- keeping the folder small ---- */

struct aged {
	char *path;
	struct timespec age;
};

static int newer_first(const void *a, const void *b) {
	const struct timespec *x = &((const struct aged *)a)->age, *y = &((const struct aged *)b)->age;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? 1 : -1;
	return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

static void remove_oldest(const char *folder, struct dirent **entry, int entries) {
	CLEANUP(cleanup_free) struct aged *file = calloc((size_t)entries, sizeof *file);
	int files = 0;

	for (int i = 0; file && i < entries; i++) {
		struct stat status;
		char *path = join(folder, entry[i]->d_name);

		if (path && !stat(path, &status) && S_ISREG(status.st_mode))
			file[files++] = (struct aged){ path, status.st_mtim };
		else
			free(path);
	}
	if (files)
		qsort(file, (size_t)files, sizeof *file, newer_first);
	for (int i = 0; i < files; i++) {
		if (i >= CACHE_ENTRIES)
			unlink(file[i].path);
		free(file[i].path);
	}
}

static void trim(const char *folder) {
	struct dirent **entry;
	int n = scandir(folder, &entry, NULL, NULL);

	if (n < 0)
		return;
	if (n > CACHE_ENTRIES)
		remove_oldest(folder, entry, n);
	for (int i = 0; i < n; i++)
		free(entry[i]);
	free(entry);
}

int cache_open(struct cache *c, const char *folder, struct fault *f) {
	int r;

	if (!folder || !*folder)
		return fault_set(f, FAULT_DEVICE,
			"no cache folder is set; set cache.dir to a place this user may "
			"write to");
	c->programs = join(folder, "programs");
	c->driver = join(folder, "driver");
	if (!c->programs || !c->driver)
		return -ENOMEM;
	r = open_folder(folder, f);
	if (!r)
		r = open_folder(c->programs, f);
	if (!r)
		r = open_folder(c->driver, f);
	if (!r)
		trim(c->programs);
	return r;
}

void cache_close(struct cache *c) {
	free(c->programs);
	free(c->driver);
	*c = (struct cache){ 0 };
}

/* ---- what drivers need of it ---- */

/* Maps a file of the folder for execution, which a file system mounted noexec refuses. 0 or -errno. */
static int try_execute(const char *folder) {
	CLEANUP(cleanup_free) char *path = join(folder, ".executes-XXXXXX");
	CLEANUP(close_fd) int fd = -1;
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

/* 0, or -errno; -EBADMSG where the file ends early. */
static int read_all(int fd, void *bytes, size_t size) {
	size_t got = 0;

	while (got < size) {
		ssize_t n = read(fd, (char *)bytes + got, size - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -EBADMSG;
		got += (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const void *bytes, size_t size) {
	size_t put = 0;

	while (put < size) {
		ssize_t n = write(fd, (const char *)bytes + put, size - put);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		put += (size_t)n;
	}
	return 0;
}

static int read_entry(int fd, const struct cache_key *key, void **bytesp, size_t *sizep) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct cache_header h;
	int r = read_all(fd, &h, sizeof h);

	if (r)
		return r;
	if (memcmp(h.magic, cache_magic, sizeof h.magic) != 0 || memcmp(&h.key, key, sizeof *key) != 0)
		return -EBADMSG;
	if (!h.size || h.size > CACHE_ENTRY_BYTES)
		return -EBADMSG;
	bytes = malloc(h.size);
	if (!bytes)
		return -ENOMEM;
	r = read_all(fd, bytes, h.size);
	if (r)
		return r;
	if (!XXH128_isEqual(XXH3_128bits(bytes, h.size), h.checksum))
		return -EBADMSG;
	*bytesp = bytes;
	*sizep = h.size;
	bytes = NULL;
	return 0;
}

int cache_load(const struct cache *c, const struct cache_key *key, void **bytesp, size_t *sizep) {
	CLEANUP(cleanup_free) char *path = entry_path(c, key, "");
	CLEANUP(close_fd) int fd = -1;
	int r;

	if (!path)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	r = read_entry(fd, key, bytesp, sizep);
	if (r == -EBADMSG)
		unlink(path);
	else if (!r)
		futimens(fd, NULL);
	return r;
}

static int write_entry(int fd, const struct cache_key *key, const void *bytes, size_t size) {
	struct cache_header h = { .key = *key, .size = size, .checksum = XXH3_128bits(bytes, size) };
	int r;

	memcpy(h.magic, cache_magic, sizeof h.magic);
	r = write_all(fd, &h, sizeof h);
	return r ? r : write_all(fd, bytes, size);
}

int cache_store(const struct cache *c, const struct cache_key *key, const void *bytes, size_t size) {
	CLEANUP(cleanup_free) char *path = entry_path(c, key, "");
	CLEANUP(cleanup_free) char *beside = entry_path(c, key, ".XXXXXX");
	int fd, r;

	if (!path || !beside)
		return -ENOMEM;
	if (!size || size > CACHE_ENTRY_BYTES)
		return -EFBIG;
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_entry(fd, key, bytes, size);
	if (close(fd) && !r)
		r = -errno;
	if (!r && rename(beside, path))
		r = -errno;
	if (r)
		unlink(beside);
	return r;
}

void cache_remove(const struct cache *c, const struct cache_key *key) {
	CLEANUP(cleanup_free) char *path = entry_path(c, key, "");

	if (path)
		unlink(path);
}

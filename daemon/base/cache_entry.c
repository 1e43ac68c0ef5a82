/* See cache_entry.h. */
#include "cache_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char entry_magic[16] = "fusiond prog 1\n";

struct entry_header {
	char magic[16];
	struct cache_key key;
	uint64_t size;
	XXH128_hash_t checksum;
};

static char *entry_path(const char *folder, const struct cache_key *key, const char *suffix) {
	char *path = NULL;

	return asprintf(&path, "%s/%016llx%016llx%s", folder, (unsigned long long)key->high, (unsigned long long)key->low,
		       suffix) < 0
		? NULL
		: path;
}

int cache_entry_key(const char *name, struct cache_key *key) {
	char half[CACHE_NAME_DIGITS / 2 + 1] = "";

	if (strlen(name) != CACHE_NAME_DIGITS || strspn(name, "0123456789abcdef") != CACHE_NAME_DIGITS)
		return -EINVAL;
	memcpy(half, name, sizeof half - 1);
	key->high = strtoull(half, NULL, 16);
	key->low = strtoull(name + sizeof half - 1, NULL, 16);
	return 0;
}

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

/* The bytes behind a header that was believed. */
static int read_bytes(int fd, const struct entry_header *h, void **bytesp) {
	void *bytes = malloc(h->size);
	int r = bytes ? read_all(fd, bytes, h->size) : -ENOMEM;

	if (!r && !XXH128_isEqual(XXH3_128bits(bytes, h->size), h->checksum))
		r = -EBADMSG;
	if (r)
		free(bytes);
	else
		*bytesp = bytes;
	return r;
}

static int read_entry(int fd, const struct cache_key *key, void **bytesp, size_t *sizep) {
	struct entry_header h;
	struct stat status;
	int r = read_all(fd, &h, sizeof h);

	if (r)
		return r;
	if (memcmp(h.magic, entry_magic, sizeof h.magic) != 0 || memcmp(&h.key, key, sizeof *key) != 0)
		return -EBADMSG;
	if (fstat(fd, &status))
		return -errno;
	if (!h.size || h.size > CACHE_ENTRY_BYTES || h.size + sizeof h != (uint64_t)status.st_size)
		return -EBADMSG;
	*sizep = h.size;
	return read_bytes(fd, &h, bytesp);
}

static int open_and_read(const char *folder, const struct cache_key *key, void **bytesp, size_t *sizep, bool keep) {
	char *path = entry_path(folder, key, "");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	int r = path ? -errno : -ENOMEM;

	if (fd >= 0) {
		r = read_entry(fd, key, bytesp, sizep);
		if (!r && keep)
			futimens(fd, NULL);
		close(fd);
	}
	free(path);
	return r;
}

int cache_entry_read(const char *folder, const struct cache_key *key, void **bytesp, size_t *sizep) {
	return open_and_read(folder, key, bytesp, sizep, true);
}

int cache_entry_peek(const char *folder, const struct cache_key *key, void **bytesp, size_t *sizep) {
	return open_and_read(folder, key, bytesp, sizep, false);
}

static int write_entry(int fd, const struct cache_key *key, const void *bytes, size_t size) {
	struct entry_header h = { .key = *key, .size = size, .checksum = XXH3_128bits(bytes, size) };
	int r;

	memcpy(h.magic, entry_magic, sizeof h.magic);
	r = write_all(fd, &h, sizeof h);
	return r ? r : write_all(fd, bytes, size);
}

/* `beside` is mkstemp's pattern. */
static int write_beside(char *beside, const char *path, const struct cache_key *key, const void *bytes, size_t size) {
	int fd = mkostemp(beside, O_CLOEXEC), r;

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

int cache_entry_write(const char *folder, const struct cache_key *key, const void *bytes, size_t size) {
	char *path = entry_path(folder, key, ""), *beside = entry_path(folder, key, ".XXXXXX");
	int r = path && beside ? 0 : -ENOMEM;

	if (!r && (!size || size > CACHE_ENTRY_BYTES))
		r = -EFBIG;
	if (!r)
		r = write_beside(beside, path, key, bytes, size);
	free(path);
	free(beside);
	return r;
}

void cache_entry_remove(const char *folder, const struct cache_key *key) {
	char *path = entry_path(folder, key, "");

	if (path)
		unlink(path);
	free(path);
}

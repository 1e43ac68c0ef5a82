/*
 * Texts in files; see kept.h. The first line is a checksum of what follows, so that a file which a crash of the machine cut short,
 * or somebody edited, is told from a whole one. A new one is written beside the old and renamed.
 */
#include "kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
	KEPT_PATH = 4096,
	/* A thousand lines of some hundred bytes. */
	KEPT_MOST = 4 << 20,
	/* "fusiond-kept-1 " with 16 digits, and the end of the line. */
	KEPT_HEAD = 32,
};

static int path_of(char path[static KEPT_PATH], const char *folder, const char *name, const char *end) {
	return snprintf(path, KEPT_PATH, "%s/%s%s", folder, name, end) < KEPT_PATH ? 0 : -ENAMETOOLONG;
}

static void head_of(char head[static KEPT_HEAD + 1], const char *text, size_t length) {
	snprintf(head, KEPT_HEAD + 1, "fusiond-kept-1 %016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, length));
}

static int write_all(int fd, const char *bytes, size_t size) {
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0)
			return -errno;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_file(const char *path, const struct str *text) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), r;
	char head[KEPT_HEAD + 1];

	if (fd < 0)
		return -errno;
	head_of(head, str_text(text), text->length);
	r = fchmod(fd, 0600) < 0 ? -errno : write_all(fd, head, strlen(head));
	if (!r)
		r = write_all(fd, str_text(text), text->length);
	close(fd);
	return r;
}

int kept_write(const char *folder, const char *name, const struct str *text) {
	char path[KEPT_PATH], fresh[KEPT_PATH];
	int r = path_of(path, folder, name, "");

	if (!r)
		r = path_of(fresh, folder, name, ".new");
	if (r)
		return r;
	if (!text)
		return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
	r = write_file(fresh, text);
	if (!r && rename(fresh, path) < 0)
		r = -errno;
	if (r)
		unlink(fresh);
	return r;
}

/* A file of another user's, or one that others may write, says what they like. */
static int check(int fd, size_t *sizep) {
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	if (st.st_size < (off_t)strlen("fusiond-kept-1 ") || st.st_size > KEPT_MOST)
		return -EBADMSG;
	*sizep = (size_t)st.st_size;
	return 0;
}

static int read_all(int fd, size_t size, char **textp) {
	char *text = malloc(size + 1);
	size_t have = 0;

	if (!text)
		return -ENOMEM;
	while (have < size) {
		ssize_t n = read(fd, text + have, size - have);

		if (n <= 0) {
			free(text);
			return n < 0 ? -errno : -EBADMSG;
		}
		have += (size_t)n;
	}
	text[size] = 0;
	*textp = text;
	return 0;
}

/* Cuts the head off. */
static int check_head(char *text, size_t size) {
	char head[KEPT_HEAD + 1];
	size_t length = KEPT_HEAD;

	if (!text || size < length)
		return -EBADMSG;
	head_of(head, text + length, size - length);
	if (strlen(head) != length || memcmp(head, text, length) != 0)
		return -EBADMSG;
	memmove(text, text + length, size - length + 1);
	return 0;
}

int kept_read(const char *folder, const char *name, char **textp) {
	char path[KEPT_PATH];
	size_t size = 0;
	int r = path_of(path, folder, name, ""), fd;

	*textp = NULL;
	if (r)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	r = check(fd, &size);
	if (!r)
		r = read_all(fd, size, textp);
	close(fd);
	if (!r)
		r = check_head(*textp, size);
	if (r) {
		free(*textp);
		*textp = NULL;
	}
	return r;
}

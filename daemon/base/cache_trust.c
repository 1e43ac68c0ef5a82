/*
 * Whose folder a path leads to, step by step. See cache_folder.h.
 *
 * Machine code is loaded from the cache folder, so who may write there, or may give any step of its path to something else, runs code as this
 * user. Each step is opened by its descriptor, links are read and followed here, and owner and mode are those of what was opened.
 */
#include "cache_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	/* As Linux follows. */
	TRUST_LINKS = 40,
};

struct walk {
	const char *path;            /* as it was given, for the sentence */
	char rest[PATH_MAX];         /* what is still to be walked */
	char done[PATH_MAX];         /* the step's own path */
	int at;                      /* the folder that it lies in */
	unsigned links;
	struct fault *fault;
};

/* Whom nobody in this user namespace is: there, root of the machine is seen so. */
static uid_t unmapped_user(void) {
	FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned uid = 0;

	if (f && fscanf(f, "%u", &uid) != 1)
		uid = 0;
	if (f)
		fclose(f);
	return uid;
}

/* Does this user namespace know of every user? */
static bool maps_all_users(void) {
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned inside = 0, outside = 0, count = 0;
	bool all = !f || fscanf(f, "%u %u %u", &inside, &outside, &count) != 3 || count == UINT_MAX;

	if (f)
		fclose(f);
	return all;
}

static bool is_root(uid_t uid) {
	return !uid || (!maps_all_users() && uid == unmapped_user());
}

/* A group of this user's name that has no other member, as many systems give every user one. */
static bool is_private_group(gid_t gid) {
	const struct passwd *user = getpwuid(geteuid());
	const struct group *group = user ? getgrgid(gid) : NULL;

	if (!group || strcmp(group->gr_name, user->pw_name) != 0)
		return false;
	for (char **member = group->gr_mem; *member; member++)
		if (strcmp(*member, user->pw_name) != 0)
			return false;
	return true;
}

static int refuse_owner(const struct walk *w, uid_t uid) {
	return fault_set(w->fault, FAULT_DEVICE,
		"the cache folder %s is not this user's alone: %s belongs to the user %u, who could have code run from it; "
		"give it to the user %u, or set cache.dir to another place",
		w->path, w->done, (unsigned)uid, (unsigned)geteuid());
}

static int refuse_mode(const struct walk *w, mode_t mode) {
	return fault_set(w->fault, FAULT_DEVICE,
		"the cache folder %s is not this user's alone: others may write to %s (mode %o), and have code run from it; "
		"chmod go-w %s, or set cache.dir to another place",
		w->path, w->done, (unsigned)(mode & 07777), w->done);
}

static bool others_write(const struct stat *status) {
	return status->st_mode & S_IWOTH || (status->st_mode & S_IWGRP && !is_private_group(status->st_gid));
}

/* What lies above may be root's, and others may write there where each may remove only what is his. */
static int judge(const struct walk *w, const struct stat *status, bool last) {
	if (status->st_uid != geteuid() && (last || !is_root(status->st_uid)))
		return refuse_owner(w, status->st_uid);
	if (S_ISDIR(status->st_mode) && others_write(status) && (last || !(status->st_mode & S_ISVTX)))
		return refuse_mode(w, status->st_mode);
	return 0;
}

/* ---- walking ---- */

/* The next part of the rest, which it loses. */
static void take_part(struct walk *w, char part[static NAME_MAX + 1]) {
	size_t slashes = strspn(w->rest, "/"), length = strcspn(w->rest + slashes, "/");

	snprintf(part, NAME_MAX + 1, "%.*s", (int)length, w->rest + slashes);
	memmove(w->rest, w->rest + slashes + length, strlen(w->rest + slashes + length) + 1);
}

static bool is_last(const struct walk *w) {
	return !w->rest[strspn(w->rest, "/")];
}

static int start_at_root(struct walk *w) {
	if (w->at >= 0)
		close(w->at);
	w->done[0] = 0;
	w->at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return w->at < 0 ? -errno : 0;
}

/* What the link says comes before the rest. */
static int follow(struct walk *w, int fd) {
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof target - 1);
	char *slash = strrchr(w->done, '/');

	if (n < 0)
		return -errno;
	if (++w->links > TRUST_LINKS)
		return -ELOOP;
	target[n] = 0;
	if ((size_t)snprintf(rest, sizeof rest, "%s/%s", target, w->rest) >= sizeof rest)
		return -ENAMETOOLONG;
	memcpy(w->rest, rest, sizeof w->rest);
	if (slash)
		*slash = 0;
	return target[0] == '/' ? start_at_root(w) : 0;
}

static int add_part(struct walk *w, const char *part) {
	size_t length = strlen(w->done);
	char *slash;

	if (strcmp(part, "..") != 0)
		return (size_t)snprintf(w->done + length, sizeof w->done - length, "/%s", part) >= sizeof w->done - length ? -ENAMETOOLONG : 0;
	slash = strrchr(w->done, '/');
	if (slash)
		*slash = 0;
	return 0;
}

/* A folder is gone into; a link is followed, whose owner is asked before. */
static int step(struct walk *w, const char *part) {
	struct stat status;
	int r = add_part(w, part), fd;

	if (r)
		return r;
	fd = openat(w->at, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fstat(fd, &status) ? -errno : judge(w, &status, is_last(w) && !S_ISLNK(status.st_mode));
	if (!r && S_ISLNK(status.st_mode)) {
		r = follow(w, fd);
		close(fd);
		return r;
	}
	if (!r && !S_ISDIR(status.st_mode))
		r = -ENOTDIR;
	close(w->at);
	w->at = fd;
	return r;
}

static int walk_all(struct walk *w) {
	char part[NAME_MAX + 1];
	struct stat root;
	int r = start_at_root(w);

	if (!r && fstat(w->at, &root))
		r = -errno;
	if (!r) {
		strcpy(w->done, "/");
		r = judge(w, &root, is_last(w));
		w->done[0] = 0;
	}
	while (!r && !is_last(w)) {
		take_part(w, part);
		if (strcmp(part, ".") != 0)
			r = step(w, part);
	}
	return r;
}

int cache_folder_trust(const char *path, struct fault *f) {
	struct walk w = { .path = path, .at = -1, .fault = f };
	char here[PATH_MAX] = "";
	int r;

	if (path[0] != '/' && !getcwd(here, sizeof here))
		return -errno;
	if ((size_t)snprintf(w.rest, sizeof w.rest, "%s/%s", here, path) >= sizeof w.rest)
		return -ENAMETOOLONG;
	r = walk_all(&w);
	if (w.at >= 0)
		close(w.at);
	return r;
}

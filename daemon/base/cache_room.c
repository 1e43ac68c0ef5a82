/* A full disk. See cache_folder.h. */
#include "cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "log.h"

enum {
	ROOM_PATH = 4096,
	ROOM_DESCRIPTORS = 16,
	/* A build writes some hundred KiB; several may run. */
	ROOM_BYTES = 4 << 20,
};

#define ROOM_MEMORY_FOLDER "/dev/shm"
#define ROOM_MEMORY ROOM_MEMORY_FOLDER "/fusiond-cache-"

static bool has_room(const char *folder) {
	struct statvfs s;

	return statvfs(folder, &s) || (uint64_t)s.f_bavail * s.f_frsize >= ROOM_BYTES;
}

static int remove_path(const char *path, const struct stat *status, int kind, struct FTW *at) {
	(void)status;
	(void)kind;
	(void)at;
	remove(path);
	return 0;
}

static void remove_tree(const char *path) {
	nftw(path, remove_path, ROOM_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

/* In `to`, which is there, a link to each entry of `from`. */
static int link_entries(const char *from, const char *to) {
	DIR *d = opendir(from);
	struct dirent *e;
	int r = d ? 0 : -errno;

	while (!r && d && (e = readdir(d))) {
		char target[ROOM_PATH], link[ROOM_PATH];

		if (e->d_name[0] == '.' || snprintf(target, sizeof target, "%s/%s", from, e->d_name) >= (int)sizeof target ||
			snprintf(link, sizeof link, "%s/%s", to, e->d_name) >= (int)sizeof link)
			continue;
		if (symlink(target, link))
			r = -errno;
	}
	if (d)
		closedir(d);
	return r;
}

/* Folders of two letters are made, so that new entries find a place; what they hold is linked. */
static int link_driver(const char *disk, const char *memory) {
	DIR *d = opendir(disk);
	struct dirent *e;
	int r = d ? 0 : -errno;

	while (!r && d && (e = readdir(d))) {
		char from[ROOM_PATH], to[ROOM_PATH];
		struct stat status;

		if (e->d_name[0] == '.' || snprintf(from, sizeof from, "%s/%s", disk, e->d_name) >= (int)sizeof from ||
			snprintf(to, sizeof to, "%s/%s", memory, e->d_name) >= (int)sizeof to || stat(from, &status) ||
			!S_ISDIR(status.st_mode))
			continue;
		r = mkdir(to, 0700) ? -errno : link_entries(from, to);
	}
	if (d)
		closedir(d);
	return r;
}

/* `driver` and a new link to `memory` change places; what was the driver's folder stands at `disk` then. */
static int exchange(const char *driver, const char *disk, const char *memory) {
	if (symlink(memory, disk))
		return -errno;
	if (!renameat2(AT_FDCWD, driver, AT_FDCWD, disk, RENAME_EXCHANGE))
		return 0;
	unlink(disk);
	return -errno;
}

static int move_to_memory(const char *driver, const char *disk) {
	char memory[] = ROOM_MEMORY "XXXXXX";
	int r;

	if (!mkdtemp(memory))
		return -errno;
	/* Its links name the place at which they will find it. */
	r = exchange(driver, disk, memory);
	if (!r && link_driver(disk, memory))
		log_warning("the driver's cache was not linked whole; what is missing is built again");
	if (r)
		remove_tree(memory);
	return r;
}

static int places(const char *folder, char driver[static ROOM_PATH], char disk[static ROOM_PATH]) {
	if (snprintf(driver, ROOM_PATH, "%s/driver", folder) >= ROOM_PATH ||
		snprintf(disk, ROOM_PATH, "%s/driver.disk", folder) >= ROOM_PATH)
		return -ENAMETOOLONG;
	return 0;
}

/* A name in shared memory is free for everybody once what it named is gone, after a restart of the machine or when its user logs out (RemoveIPC). */
static bool is_ours(const char *driver) {
	struct fault f = { 0 };
	int r = cache_folder_trust(driver, &f);

	if (r > 0)
		log_warning("%s", f.text);
	return !r;
}

/* Only a folder that this file makes is ever removed; what is another's stays, as the system sees to. */
static void remove_memory(const char *link) {
	char memory[ROOM_PATH];
	ssize_t n = readlink(link, memory, sizeof memory - 1);

	memory[n > 0 ? n : 0] = '\0';
	if (!strncmp(memory, ROOM_MEMORY, strlen(ROOM_MEMORY)) && !strchr(memory + strlen(ROOM_MEMORY), '/') && is_ours(memory))
		remove_tree(memory);
}

static void take_back(const char *driver, const char *disk) {
	if (renameat2(AT_FDCWD, driver, AT_FDCWD, disk, RENAME_EXCHANGE))
		return;
	remove_memory(disk);
	unlink(disk);
}

/* Compilers abort where they cannot write, so none is to begin. */
static int refuse_both(const char *folder, struct fault *f) {
	return fault_set(f, FAULT_FILE,
		"the disk of %s is full, and " ROOM_MEMORY_FOLDER ", where the driver's cache would go, has less than %d MiB left: make room, "
		"mount -o remount,size=256M " ROOM_MEMORY_FOLDER ", or set cache.dir to another disk",
		folder, ROOM_BYTES >> 20);
}

int cache_folder_make_room(const char *folder, struct fault *f) {
	char driver[ROOM_PATH], disk[ROOM_PATH];
	struct stat status;
	int r = places(folder, driver, disk);

	if (!r && !lstat(driver, &status) && S_ISLNK(status.st_mode) && !lstat(disk, &status) && !is_ours(driver))
		take_back(driver, disk);
	if (r || has_room(folder))
		return r;
	if (lstat(driver, &status))
		return 0;
	if (!has_room(S_ISDIR(status.st_mode) ? ROOM_MEMORY_FOLDER : driver))
		return refuse_both(folder, f);
	if (!S_ISDIR(status.st_mode))
		return 0;
	r = move_to_memory(driver, disk);
	/* Another process was first. */
	if (r == -EEXIST)
		return 0;
	if (r)
		log_warning("the disk of %s is full, and the driver's cache cannot move to memory: %s", folder, strerror(-r));
	else
		log_warning("the disk of %s is full; until the next start the driver's cache is in memory", folder);
	return 0;
}

void cache_folder_return(const char *folder) {
	char driver[ROOM_PATH], disk[ROOM_PATH];
	struct stat status, other;

	if (places(folder, driver, disk) || lstat(driver, &status) || !S_ISLNK(status.st_mode) || lstat(disk, &other))
		return;
	if (has_room(folder) || !is_ours(driver))
		take_back(driver, disk);
}

/* Marks of what drivers are being asked for. See cache_folder.h; who makes them is device/guard.c. */
#include "cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cache_entry.h"

enum { MARK_PATH = 4096 };

bool cache_mark_take(const char *path) {
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	bool taken;

	if (fd < 0)
		return false;
	taken = !flock(fd, LOCK_EX | LOCK_NB) && !unlink(path);
	close(fd);
	return taken;
}

static void let_off(const char *folder) {
	char path[MARK_PATH];
	struct cache_key key;
	const struct dirent *e;
	DIR *all = snprintf(path, sizeof path, "%s/loading", folder) < (int)sizeof path ? opendir(path) : NULL;

	/* One that somebody holds is taken away by him. */
	while (all && (e = readdir(all)))
		if (!cache_entry_key(e->d_name, &key) && snprintf(path, sizeof path, "%s/loading/%s", folder, e->d_name) < (int)sizeof path)
			(void)cache_mark_take(path);
	if (all)
		closedir(all);
}

void cache_folder_let_off(const char *folder) {
	char path[MARK_PATH];
	const struct dirent *e;
	DIR *all = opendir(folder);

	let_off(folder);
	while (all && (e = readdir(all)))
		if (cache_folder_is_part(e->d_name) && snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
			let_off(path);
	if (all)
		closedir(all);
}

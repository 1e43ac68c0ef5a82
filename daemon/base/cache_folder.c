/* Counting, pruning and checking. See cache_folder.h; what is done about a full disk is in cache_room.c. */
#include "cache_folder.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache_entry.h"
#include "cache_seal.h"

enum {
	FOLDER_PATH = 4096,
	FOLDER_DESCRIPTORS = 16,
	/* What is being written takes seconds: older, it is a leftover of somebody who was killed. */
	LEFTOVER_S = 3600,
	/* What was put aside stays for a week. */
	ASIDE_S = 7 * 86400,
};

/* What can be removed by itself. */
struct item {
	char *path;
	struct timespec used;
	uint64_t bytes;
	enum cache_kind kind;
	bool fixed;                  /* of a driver that looks after its cache itself */
	bool tree;                   /* a folder */
};

struct items {
	struct item *item;
	size_t count, room;
	time_t now;
	struct cache_sum aside;
};

static void items_free(struct items *s) {
	for (size_t i = 0; i < s->count; i++)
		free(s->item[i].path);
	free(s->item);
}

static int items_add(struct items *s, const char *path, const struct item *item) {
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 256;
		struct item *grown = realloc(s->item, room * sizeof *grown);

		if (!grown)
			return -ENOMEM;
		s->item = grown;
		s->room = room;
	}
	s->item[s->count] = *item;
	s->item[s->count].path = strdup(path);
	return s->item[s->count].path ? (s->count++, 0) : -ENOMEM;
}

/* ---- walking ---- */

typedef int visit(struct items *s, const char *path, const char *name, const struct stat *status);

/* What vanishes meanwhile is another process's business. */
static int each(struct items *s, const char *folder, visit *function) {
	DIR *d = opendir(folder);
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while (!r && (e = readdir(d))) {
		char path[FOLDER_PATH];
		struct stat status;
		int n = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || n >= (int)sizeof path || stat(path, &status))
			continue;
		r = function(s, path, e->d_name, &status);
	}
	closedir(d);
	return r;
}

static int add_file(struct items *s, const char *path, enum cache_kind kind, const struct stat *status) {
	const struct item item = { .used = status->st_mtim, .bytes = (uint64_t)status->st_size, .kind = kind };

	if (kind == CACHE_LEFTOVER && status->st_mtim.tv_sec > s->now - LEFTOVER_S)
		return 0;
	return items_add(s, path, &item);
}

static bool is_hex(const char *name, size_t digits) {
	return strlen(name) == digits && strspn(name, "0123456789abcdef") == digits;
}

static int visit_program(struct items *s, const char *path, const char *name, const struct stat *status) {
	return add_file(s, path, is_hex(name, CACHE_NAME_DIGITS) ? CACHE_PROGRAM : CACHE_LEFTOVER, status);
}

static int visit_note(struct items *s, const char *path, const char *name, const struct stat *status) {
	return add_file(s, path, is_hex(name, CACHE_NAME_DIGITS) ? CACHE_NOTE : CACHE_LEFTOVER, status);
}

/* nftw() hands nothing on. */
static _Thread_local uint64_t tree_bytes;

static int add_tree_bytes(const char *path, const struct stat *status, int kind, struct FTW *at) {
	(void)path;
	(void)at;
	tree_bytes += kind == FTW_F ? (uint64_t)status->st_size : 0;
	return 0;
}

static uint64_t bytes_of_tree(const char *path) {
	tree_bytes = 0;
	nftw(path, add_tree_bytes, FOLDER_DESCRIPTORS, FTW_PHYS);
	return tree_bytes;
}

/* For people to look at, a while. */
static int visit_aside(struct items *s, const char *path, const char *name, const struct stat *status) {
	struct item item = { .kind = CACHE_LEFTOVER, .used = status->st_ctim, .tree = true };

	(void)name;
	item.bytes = bytes_of_tree(path);
	s->aside.count++;
	s->aside.bytes += item.bytes;
	return item.used.tv_sec > s->now - ASIDE_S ? 0 : items_add(s, path, &item);
}

/* An entry is a folder in a folder of two letters; drivers that note its last use there leave the pruning to others. */
static int visit_driver_entry(struct items *s, const char *path, const char *name, const struct stat *status) {
	struct item item = { .kind = CACHE_DRIVER, .used = status->st_mtim, .fixed = true, .tree = true };
	char used[FOLDER_PATH];
	struct stat file;

	(void)name;
	if (snprintf(used, sizeof used, "%s/last_accessed", path) < (int)sizeof used && !stat(used, &file)) {
		item.used = file.st_mtim;
		item.fixed = false;
	}
	item.bytes = bytes_of_tree(path);
	return items_add(s, path, &item);
}

/* Of files beside the folders, those named so are a build's temporaries. */
static int visit_driver(struct items *s, const char *path, const char *name, const struct stat *status) {
	if (S_ISDIR(status->st_mode))
		return each(s, path, visit_driver_entry);
	return strncmp(name, "tempfile", 8) ? 0 : add_file(s, path, CACHE_LEFTOVER, status);
}

bool cache_folder_is_part(const char *name) {
	return !strncmp(name, "device-", sizeof "device-" - 1);
}

static int visit_part(struct items *s, const char *path, const char *name, const struct stat *status) {
	if (S_ISREG(status->st_mode) && name[0] == '.')
		return add_file(s, path, CACHE_LEFTOVER, status);
	if (!strcmp(name, "programs"))
		return each(s, path, visit_program);
	if (!strcmp(name, "notes") || !strcmp(name, "origins"))
		return each(s, path, visit_note);
	if (!strcmp(name, "driver"))
		return each(s, path, visit_driver);
	if (!strcmp(name, "aside"))
		return each(s, path, visit_aside);
	return cache_folder_is_part(name) ? each(s, path, visit_part) : 0;
}

static int collect(const char *folder, struct items *s, struct cache_usage *u) {
	char disk[FOLDER_PATH];
	struct stat status;
	int r;

	*u = (struct cache_usage){ .in_memory = false };
	*s = (struct items){ .now = time(NULL) };
	r = each(s, folder, visit_part);
	u->aside = s->aside;
	for (size_t i = 0; i < s->count; i++) {
		u->held[s->item[i].kind].count++;
		u->held[s->item[i].kind].bytes += s->item[i].bytes;
	}
	u->in_memory = snprintf(disk, sizeof disk, "%s/driver.disk", folder) < (int)sizeof disk && !lstat(disk, &status);
	return r;
}

int cache_folder_measure(const char *folder, struct cache_usage *u) {
	struct items s;
	int r = collect(folder, &s, u);

	items_free(&s);
	return r;
}

/* ---- removing ---- */

static int remove_path(const char *path, const struct stat *status, int kind, struct FTW *at) {
	(void)status;
	(void)kind;
	(void)at;
	remove(path);
	return 0;
}

static int remove_tree(const char *path) {
	return nftw(path, remove_path, FOLDER_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

/* An entry goes out of its place first, so that nobody finds half of it. */
static void item_remove(const struct item *item, struct cache_sum *sum) {
	char aside[FOLDER_PATH];

	if (!item->tree) {
		sum->count += !unlink(item->path);
		sum->bytes += item->bytes;
		return;
	}
	if (snprintf(aside, sizeof aside, "%s.%d", item->path, (int)getpid()) >= (int)sizeof aside || rename(item->path, aside))
		return;
	remove_tree(aside);
	sum->count++;
	sum->bytes += item->bytes;
}

/* Where the driver's part is elsewhere, it cannot be moved: then it only goes. */
static int move_aside(const char *from, const char *to) {
	struct item item = { .path = (char *)(uintptr_t)from, .tree = true };
	struct cache_sum removed = { 0 };

	if (!rename(from, to))
		return 0;
	if (errno != EXDEV)
		return -errno;
	item_remove(&item, &removed);
	return removed.count ? 0 : -EIO;
}

int cache_folder_put_aside(const char *folder, const char *entry) {
	char from[FOLDER_PATH], to[FOLDER_PATH];
	int n;

	if (snprintf(from, sizeof from, "%s/driver/%s", folder, entry) >= (int)sizeof from)
		return -ENAMETOOLONG;
	n = snprintf(to, sizeof to, "%s/aside", folder);
	if (n >= (int)sizeof to || (mkdir(to, 0700) && errno != EEXIST))
		return -errno;
	if (snprintf(to + n, sizeof to - (size_t)n, "/%lld-%d-%s", (long long)time(NULL), (int)getpid(), entry) >= (int)sizeof to - n)
		return -ENAMETOOLONG;
	for (char *slash = to + n + 1; (slash = strchr(slash, '/'));)
		*slash = '-';
	return move_aside(from, to);
}

static int oldest_first(const void *a, const void *b) {
	const struct timespec *x = &((const struct item *)a)->used, *y = &((const struct item *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

int cache_folder_prune(const char *folder, uint64_t most, struct cache_usage *u) {
	struct items s;
	uint64_t bytes = 0;
	int r = collect(folder, &s, u);

	if (s.count)
		qsort(s.item, s.count, sizeof *s.item, oldest_first);
	for (size_t i = 0; i < s.count; i++)
		bytes += s.item[i].kind == CACHE_LEFTOVER ? 0 : s.item[i].bytes;
	for (size_t i = 0; !r && i < s.count; i++) {
		bool leftover = s.item[i].kind == CACHE_LEFTOVER;

		if (s.item[i].fixed || (!leftover && bytes <= most))
			continue;
		item_remove(&s.item[i], &u->removed);
		bytes -= leftover ? 0 : s.item[i].bytes;
	}
	items_free(&s);
	return r;
}

/* ---- checking ---- */

static bool is_whole_program(const char *path) {
	char folder[FOLDER_PATH];
	struct cache_key key;
	void *bytes = NULL;
	size_t size;
	const char *slash = strrchr(path, '/');
	int r = -EINVAL;

	snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
	if (!cache_entry_key(slash + 1, &key))
		r = cache_entry_peek(folder, &key, &bytes, &size);
	free(bytes);
	return r != -EBADMSG;
}

/* What a loader reads of a library that lies within the file: the table of sections stands last. */
static bool is_whole_library(const Elf64_Ehdr *h, off_t size) {
	return h->e_shoff + (uint64_t)h->e_shnum * h->e_shentsize <= (uint64_t)size &&
	       h->e_phoff + (uint64_t)h->e_phnum * h->e_phentsize <= (uint64_t)size;
}

static int check_driver_file(const char *path, const struct stat *status, int kind, struct FTW *at) {
	static const char *const empty[] = { "last_accessed", "build.log" };
	Elf64_Ehdr h;
	ssize_t n;
	int fd;

	if (kind != FTW_F)
		return 0;
	for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
		if (!strcmp(path + at->base, empty[i]))
			return 0;
	if (!status->st_size)
		return 1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, &h, sizeof h);
	if (fd >= 0)
		close(fd);
	if (n < SELFMAG || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return 0;
	return n < (ssize_t)sizeof h || (h.e_ident[EI_CLASS] == ELFCLASS64 && !is_whole_library(&h, status->st_size));
}

/* What no seal covers is looked at as a loader would. */
static bool is_whole_entry(const char *path) {
	int r = cache_seal_look(path);

	return r == -ENOENT ? !nftw(path, check_driver_file, FOLDER_DESCRIPTORS, FTW_PHYS) : r != -EBADMSG;
}

static bool is_whole(const struct item *item) {
	if (item->kind == CACHE_PROGRAM || item->kind == CACHE_NOTE)
		return is_whole_program(item->path);
	return item->kind != CACHE_DRIVER || is_whole_entry(item->path);
}

static int look_at_all(const char *folder, struct cache_usage *u, bool removes) {
	struct items s;
	int r = collect(folder, &s, u);

	for (size_t i = 0; !r && i < s.count; i++) {
		if (is_whole(&s.item[i]))
			continue;
		if (removes) {
			item_remove(&s.item[i], &u->damaged);
			continue;
		}
		u->damaged.count++;
		u->damaged.bytes += s.item[i].bytes;
	}
	items_free(&s);
	return r;
}

int cache_folder_verify(const char *folder, struct cache_usage *u) {
	return look_at_all(folder, u, true);
}

int cache_folder_check(const char *folder, struct cache_usage *u) {
	return look_at_all(folder, u, false);
}

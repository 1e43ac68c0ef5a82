/* See guard.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif

#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "daemon/base/cache_folder.h"
#include "daemon/base/cache_seal.h"
#include "daemon/base/log.h"

/* ---- what is remembered of a program ---- */

/* As it lies in the cache. */
struct origin {
	uint32_t again;
	char entry[GUARD_ENTRY];
};

static void origin_load(const struct device *d, const struct cache_key *key, struct origin *o) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	size_t size;

	memset(o, 0, sizeof *o);
	if (!cache_entry_read(d->cache.origins, key, &bytes, &size) && size == sizeof *o)
		memcpy(o, bytes, sizeof *o);
	o->entry[GUARD_ENTRY - 1] = 0;
}

static void origin_store(const struct device *d, const struct cache_key *key, uint32_t again, const char *entry) {
	struct origin o = { .again = again };

	snprintf(o.entry, sizeof o.entry, "%s", entry);
	/* On a full disk the next start builds it again. */
	if (cache_entry_write(d->cache.origins, key, &o, sizeof o))
		return;
}

static bool has_seals(const struct device *d) {
	return d->quirks->flags & QUIRK_EXECUTES_CACHE;
}

static bool entry_path(const struct device *d, const char *entry, char path[static PATH_MAX]) {
	return *entry && snprintf(path, PATH_MAX, "%s/%s", d->cache.driver, entry) < PATH_MAX;
}

static void put_aside(const struct device *d, const char *entry, const char *why) {
	if (!*entry)
		return;
	if (!cache_folder_put_aside(d->cache.folder, entry))
		log_notice("an entry of the driver's cache was put aside, %s: %s is built again", why, entry);
}

/* ---- marks ---- */

static bool mark_path(const struct device *d, const char *name, char path[static PATH_MAX]) {
	return snprintf(path, PATH_MAX, "%s/%s", d->cache.loading, name) < PATH_MAX;
}

static void key_name(const struct cache_key *key, char name[static CACHE_NAME_DIGITS + 1]) {
	snprintf(name, CACHE_NAME_DIGITS + 1, "%016llx%016llx", (unsigned long long)key->high, (unsigned long long)key->low);
}

/* Without one an end costs one more engine. */
static int mark(const struct device *d, const struct cache_key *key) {
	char name[CACHE_NAME_DIGITS + 1], path[PATH_MAX];
	int fd;

	key_name(key, name);
	if (!mark_path(d, name, path))
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB))
		log_debug("a program that is loaded is not marked: %s", strerror(errno));
	return fd;
}

static void unmark(struct guard *g) {
	char name[CACHE_NAME_DIGITS + 1], path[PATH_MAX];

	/* One that was never begun is all zeros. */
	if (!g->device || g->mark < 0)
		return;
	key_name(&g->key, name);
	/* Others may be at the same program: the last one takes the mark away. */
	if (!flock(g->mark, LOCK_EX | LOCK_NB) && mark_path(g->device, name, path))
		unlink(path);
	close(g->mark);
	g->mark = -1;
}

static bool take_mark(const struct device *d, const char *name) {
	char path[PATH_MAX];

	return mark_path(d, name, path) && cache_mark_take(path);
}

void guards_settle(const struct device *d) {
	struct cache_key key;
	const struct dirent *e;
	char path[PATH_MAX];
	DIR *all = mark_path(d, "", path) ? opendir(path) : NULL;

	while (all && (e = readdir(all)))
		if (!cache_entry_key(e->d_name, &key) && take_mark(d, e->d_name)) {
			log_notice("a process ended, or was killed, while its driver was at program %s, which is built again", e->d_name);
			guard_blame(d, &key);
		}
	if (all)
		closedir(all);
}

void guard_blame(const struct device *d, const struct cache_key *key) {
	struct origin o;

	origin_load(d, key, &o);
	put_aside(d, o.entry, "a process ended while its driver was at it");
	cache_remove(&d->cache, key);
	origin_store(d, key, o.again + 1, "");
}

/* ---- objects that the driver has loaded ---- */

struct look {
	const struct device *device;
	size_t length;               /* of the driver's folder */
	uintptr_t after;             /* look at those behind this one; 0: at all */
	uintptr_t newest;
	bool behind, several;
	char entry[GUARD_ENTRY];
};

/* The first two parts of a path below the folder. */
static bool entry_of(const char *path, char entry[static GUARD_ENTRY]) {
	const char *end = strchr(path, '/');

	end = end ? strchr(end + 1, '/') : NULL;
	return end && snprintf(entry, GUARD_ENTRY, "%.*s", (int)(end - path), path) < GUARD_ENTRY;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *user) {
	struct look *l = user;
	char entry[GUARD_ENTRY];

	(void)size;
	if (!info->dlpi_name || strncmp(info->dlpi_name, l->device->cache.driver, l->length) != 0 || info->dlpi_name[l->length] != '/')
		return 0;
	l->newest = info->dlpi_addr;
	if (l->behind && entry_of(info->dlpi_name + l->length + 1, entry)) {
		l->several |= *l->entry && strcmp(l->entry, entry) != 0;
		memcpy(l->entry, entry, sizeof entry);
	}
	l->behind |= info->dlpi_addr == l->after;
	return 0;
}

/* The newest object, and the entry of those that came after one; "" where these are of several, or there are none. */
static struct look look(const struct device *d, uintptr_t after) {
	struct look l = { .device = d, .length = strlen(d->cache.driver), .after = after, .behind = !after };

	dl_iterate_phdr(look_at, &l);
	if (l.several)
		*l.entry = 0;
	return l;
}

/* ---- guarding ---- */

static bool is_whole(const struct device *d, const char *entry) {
	char path[PATH_MAX];
	int r = entry_path(d, entry, path) ? cache_seal_check(path) : -ENOENT;

	/* One that is not there any more was pruned. */
	if (r && r != -ENOENT)
		put_aside(d, entry, "since it is not as it was written");
	return !r;
}

void guard_begin(struct guard *g, const struct device *d, const struct cache_key *key) {
	struct origin o;

	*g = (struct guard){ .device = d, .key = *key };
	origin_load(d, key, &o);
	g->again = o.again;
	if (has_seals(d) && *o.entry)
		g->sealed = is_whole(d, o.entry);
	if (g->sealed)
		memcpy(g->entry, o.entry, sizeof g->entry);
	else if (has_seals(d))
		g->newest = look(d, UINTPTR_MAX).newest;
	g->mark = mark(d, key);
}

const char *guard_text(const struct guard *g, const char *source, char **copyp) {
	*copyp = NULL;
	if (!g->again)
		return source;
	/* A declaration, since drivers may look at the text without its comments. */
	return asprintf(copyp, "%s\ntypedef int again_%u;\n", source, g->again) < 0 ? NULL : *copyp;
}

void guard_leave(struct guard *g) {
	unmark(g);
}

static bool seal(const struct guard *g, const char *entry) {
	char path[PATH_MAX];
	int r;

	if (!entry_path(g->device, entry, path))
		return true;
	r = cache_seal_renew(path, &g->device->cache.opened);
	if (r == -EBADMSG) {
		origin_store(g->device, &g->key, g->again + 1, "");
		return false;
	}
	/* What cannot be sealed, on a full disk, is built again at the next start. */
	if (!r && !g->sealed)
		origin_store(g->device, &g->key, g->again, entry);
	return true;
}

bool guard_end(struct guard *g) {
	bool believed = true;

	if (g->sealed)
		believed = seal(g, g->entry);
	else if (has_seals(g->device))
		believed = seal(g, look(g->device, g->newest).entry);
	unmark(g);
	return believed;
}

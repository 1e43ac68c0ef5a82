/* What built the kernels of a cache folder, from its notes (device/note.c writes them, a line each). See cache_folder.h. */
#include "cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_entry.h"

enum {
	MADE_PATH = 4096,
	/* source, options, device, driver, version */
	NOTE_LINES = 5,
	LINE_DEVICE = 2,
	LINE_DRIVER = 3,
	LINE_VERSION = 4,
	/* As many lines as one machine's drivers and releases come to; what is beyond is not told apart. */
	MADE_MOST = 256,
};

static bool is_made(const struct cache_made *made, char *const line[]) {
	return !strcmp(made->device, line[LINE_DEVICE]) && !strcmp(made->driver, line[LINE_DRIVER]) &&
	       !strcmp(made->version, line[LINE_VERSION]);
}

static void made_free(struct cache_made *made) {
	free(made->device);
	free(made->driver);
	free(made->version);
}

static int add_made(struct cache_makers *m, char *const line[]) {
	struct cache_made one = { strdup(line[LINE_DEVICE]), strdup(line[LINE_DRIVER]), strdup(line[LINE_VERSION]), 1 };
	struct cache_made *grown = realloc(m->made, (m->count + 1) * sizeof *grown);

	if (grown)
		m->made = grown;
	if (!grown || !one.device || !one.driver || !one.version) {
		made_free(&one);
		return -ENOMEM;
	}
	m->made[m->count++] = one;
	return 0;
}

static int count_note(struct cache_makers *m, char *text) {
	char *line[NOTE_LINES];

	for (unsigned i = 0; i < NOTE_LINES; i++) {
		line[i] = strsep(&text, "\n");
		if (!line[i])
			return 0;
	}
	for (size_t i = 0; i < m->count; i++)
		if (is_made(&m->made[i], line)) {
			m->made[i].kernels++;
			return 0;
		}
	return m->count == MADE_MOST ? 0 : add_made(m, line);
}

static int read_note(struct cache_makers *m, const char *folder, const char *name) {
	struct cache_key key;
	void *bytes = NULL;
	size_t size;
	int r = 0;

	if (cache_entry_key(name, &key) || cache_entry_peek(folder, &key, &bytes, &size))
		return 0;
	/* The zero at the end is stored, too. */
	if (memchr(bytes, 0, size))
		r = count_note(m, bytes);
	free(bytes);
	return r;
}

static int read_notes(struct cache_makers *m, const char *folder) {
	DIR *d = opendir(folder);
	const struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while (!r && (e = readdir(d)))
		r = read_note(m, folder, e->d_name);
	closedir(d);
	return r;
}

/* Further devices have folders of their own within it. */
int cache_folder_makers(const char *folder, struct cache_makers *m) {
	DIR *d = opendir(folder);
	const struct dirent *e;
	char path[MADE_PATH];
	int r = 0;

	*m = (struct cache_makers){ .count = 0 };
	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while (!r && (e = readdir(d))) {
		if (!strcmp(e->d_name, "notes") && snprintf(path, sizeof path, "%s/notes", folder) < MADE_PATH)
			r = read_notes(m, path);
		else if (cache_folder_is_part(e->d_name) && snprintf(path, sizeof path, "%s/%s/notes", folder, e->d_name) < MADE_PATH)
			r = read_notes(m, path);
	}
	closedir(d);
	return r;
}

void cache_makers_free(struct cache_makers *m) {
	for (size_t i = 0; i < m->count; i++)
		made_free(&m->made[i]);
	free(m->made);
	*m = (struct cache_makers){ .count = 0 };
}

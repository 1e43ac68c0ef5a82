/*
 * Why a program is built: what its kernel was last built from, kept beside the cache, an entry a kernel.
 *
 * A note has a line for each part of the key of programs, so that the part that differs can be named. Where none does, nothing
 * is new: the cache has the program, or the driver's own cache has what takes long about it.
 */
#include "state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/version.h"

static const char *const parts[] = { "source", "options", "device", "driver", "version" };

enum {
	PARTS = sizeof parts / sizeof *parts,
};

/* Structures of kernels have no other name; one that meets another's by chance reads of a difference that is none. */
static struct cache_key note_key(const struct program *p) {
	return (struct cache_key){ p->hash, 0 };
}

static int write_note(const struct device *d, const char *source, const char *options, struct str *note) {
	XXH128_hash_t h = XXH3_128bits(source, strlen(source));

	str_printf(note, "%016" PRIx64 "%016" PRIx64 "\n%s\n%s, %s\n%s\n%s\n", h.high64, h.low64, options,
		d->choice.platform_name, d->choice.name, d->choice.driver, FUSIOND_VERSION);
	return str_finish(note);
}

static char *load_note(const struct device *d, const struct program *p) {
	struct cache_key key = note_key(p);
	void *bytes = NULL;
	size_t size;

	if (cache_entry_read(d->cache.notes, &key, &bytes, &size))
		return NULL;
	/* The zero at the end is stored, too. */
	if (!memchr(bytes, 0, size)) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

/* Line by line; a text of the driver that has several lines only makes the words less exact. */
static void compare(const char *was, const char *is, struct str *why) {
	for (unsigned i = 0; i < PARTS; i++) {
		size_t a = strcspn(was, "\n"), b = strcspn(is, "\n");

		if (a != b || memcmp(was, is, a) != 0) {
			str_printf(why, "%sits %s %s", *str_text(why) ? ", " : "", parts[i], i ? "is another: it was " : "is another");
			if (i)
				str_append_bytes(why, was, a);
		}
		was += a + (was[a] == '\n');
		is += b + (is[b] == '\n');
	}
}

void note_ask(const struct device *d, struct program *p, const char *source, const char *options) {
	CLEANUP(str_free) struct str note = { 0 };
	CLEANUP(str_free) struct str why = { 0 };
	CLEANUP(cleanup_free) char *was = NULL;

	if (write_note(d, source, options, &note))
		return;
	was = load_note(d, p);
	if (!was)
		str_append(&why, "this kernel was not built here before");
	else
		compare(was, str_text(&note), &why);
	p->known = !*str_text(&why) && d->quirks->flags & QUIRK_COSTLY_BINARY && !d->config.keep;
	if (!*str_text(&why) && !p->known)
		str_append(&why, "the cache has it no more");
	free(p->why);             /* of a builder that left it to another */
	p->why = str_finish(&why) ? NULL : strdup(str_text(&why));
}

void note_keep(const struct device *d, const struct program *p, const char *source, const char *options) {
	CLEANUP(str_free) struct str note = { 0 };
	struct cache_key key = note_key(p);

	if (p->known || write_note(d, source, options, &note))
		return;
	/* Without it the next build is told to be the first. */
	if (cache_entry_write(d->cache.notes, &key, str_text(&note), note.length + 1))
		return;
}

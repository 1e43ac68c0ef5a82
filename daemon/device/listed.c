/*
 * Drivers that were opened the last time.
 *
 * The child in which drivers are tried first (probe.c) loads all of them, as the engine does then once more: with a compiler
 * in the driver that is half of the time until a daemon with a full cache can serve. So an entry of the cache says that the device was opened. It
 * says that this begins, before an engine lists drivers, and again that it went well, when the device is open; who finds anything else tries
 * drivers in a child, and where an engine began and was not heard of again (SUSPECT), also what else a driver may die of (trials.c). So what
 * dies or hangs costs one engine, and the next one says whose fault it is: the supervisor always starts a second one.
 *
 * The entry is of one boot of the machine, since cards come and go with those, of one list of drivers, and of the settings that choose among them. Where the
 * child tries more than listing (reach.c), there is none.
 */
#include "state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/version.h"

static const char vendors[] = "/etc/OpenCL/vendors";

static const char *text_of(const char *text) {
	return text ? text : "";
}

/* The folder of the loader's list, and when a driver came or went. */
static void describe_list(struct str *text) {
	const char *folder = getenv("OCL_ICD_VENDORS");
	struct stat s;

	if (!folder)
		folder = vendors;
	if (stat(folder, &s))
		memset(&s, 0, sizeof s);
	str_printf(text, "%s %" PRIu64 " %" PRIu64 "\n", folder, (uint64_t)s.st_mtim.tv_sec, (uint64_t)s.st_mtim.tv_nsec);
	str_printf(text, "%s\n", text_of(getenv("OCL_ICD_FILENAMES")));
}

static int key_of(const struct device *d, struct cache_key *key) {
	const struct device_config *c = &d->config;
	CLEANUP(str_free) struct str text = { 0 };
	XXH128_hash_t h;
	int r;

	str_printf(&text, "listed %s %s\n", FUSIOND_VERSION, d->cache.boot);
	describe_list(&text);
	str_printf(&text, "%s\n%s\n%u %d %d\n", text_of(c->platform), text_of(c->device), c->number, c->discrete, c->reach);
	r = str_finish(&text);
	if (r)
		return r;
	h = XXH3_128bits(str_text(&text), strlen(str_text(&text)));
	*key = (struct cache_key){ h.low64, h.high64 };
	return 0;
}

/* As it lies in the cache: a byte. */
enum {
	NOTE_OPENED = 'o',
	NOTE_OPENING = 'b',
};

/* Without it the next start takes longer. */
static void leave(const struct device *d, const struct cache_key *key, char note) {
	if (cache_store(&d->cache, key, &note, sizeof note))
		return;
}

static bool has_note(const struct device *d, struct cache_key *key) {
	return d->config.tried_again && *d->cache.boot && !key_of(d, key);
}

enum listed listed_take(const struct device *d) {
	CLEANUP(cleanup_free) void *bytes = NULL;
	struct cache_key key;
	size_t size = 0;
	enum listed l;

	if (!has_note(d, &key))
		return LISTED_NOT;
	if (cache_load(&d->cache, &key, &bytes, &size) || size != 1)
		l = LISTED_NOT;
	else
		l = *(const char *)bytes == NOTE_OPENED ? LISTED_WELL : LISTED_SUSPECT;
	leave(d, &key, NOTE_OPENING);
	return l;
}

void listed_note(const struct device *d) {
	struct cache_key key;

	if (!has_note(d, &key))
		return;
	if (probe_tries_more(&d->config, &d->choice))
		cache_remove(&d->cache, &key);
	else
		leave(d, &key, NOTE_OPENED);
}

void listed_forget(const struct device *d) {
	struct cache_key key;

	if (has_note(d, &key))
		cache_remove(&d->cache, &key);
}

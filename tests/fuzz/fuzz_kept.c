/*
 * What is found on disk: entries of the cache and their seals, what the supervisor keeps of graphs that ended engines, accounts, and what was learned of
 * forms of plans. Either whole, with a checksum that is right and whatever behind it, or changed somewhere.
 *
 * What was not written so is not read so; what a checksum does not cover may say what it likes.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/cache_entry.h"
#include "daemon/base/cache_folder.h"
#include "daemon/base/cache_seal.h"
#include "daemon/base/catalogue.h"
#include "daemon/base/log.h"
#include "daemon/base/str.h"
#include "daemon/door/accounts.h"
#include "daemon/door/blame.h"
#include "daemon/door/kept.h"
#include "daemon/door/supervisor.h"
#include "daemon/plan/tracker.h"

enum { PATH = 256, MOST = 1 << 14 };

static void in_folder(char path[static PATH], const char *name) {
	snprintf(path, PATH, "%s/%s", fuzz_folder(), name);
}

static void write_file(const char *name, const void *bytes, size_t size) {
	char path[PATH];
	FILE *f;

	in_folder(path, name);
	f = fopen(path, "we");
	claim(f && fwrite(bytes, 1, size, f) == size && !fclose(f), "%s is not written", path);
}

/* Some of its bytes are others, or not there; true: at least one. */
static bool damage(struct fuzz_bytes *b, const char *name) {
	unsigned char bytes[MOST], before[MOST];
	char path[PATH];
	size_t n, all;
	FILE *f;

	in_folder(path, name);
	f = fopen(path, "re");
	claim(f != NULL, "%s is not there", path);
	n = all = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	memcpy(before, bytes, n);
	for (unsigned i = 0, count = fuzz_byte(b) % 8; n && i < count; i++)
		bytes[fuzz_whole(b, 2) % n] ^= fuzz_byte(b);
	if (fuzz_byte(b) % 4 == 0)
		n -= fuzz_whole(b, 1) % (n + 1);
	write_file(name, bytes, n);
	return n < all || memcmp(before, bytes, n) != 0;
}

/* ---- entries ---- */

static void try_entry(struct fuzz_bytes *b) {
	const struct cache_key key = { 5, 7 };
	static const char name[] = "00000000000000070000000000000005";
	struct fuzz_bytes rest;
	bool whole = fuzz_byte(b) & 1, damaged = false;
	void *bytes = NULL;
	size_t size = 0;
	struct cache_usage u;
	int r;

	if (whole && fuzz_byte(b) & 1) {
		rest = fuzz_take(b, fuzz_left(b) / 2);
		claim(!cache_entry_write(fuzz_folder(), &key, rest.at, fuzz_left(&rest)) || !fuzz_left(&rest), "an entry is not written");
		damaged = fuzz_left(&rest) && damage(b, name);
	} else {
		rest = *b;
		write_file(name, b->at, fuzz_left(b));
		damaged = true;
	}
	r = cache_entry_read(fuzz_folder(), &key, &bytes, &size);
	claim(r || !damaged, "what was changed is read as an entry");
	if (!r)
		claim(size == fuzz_left(&rest) && !memcmp(bytes, rest.at, size), "an entry reads as another");
	if (!r)
		free(bytes);
	claim(!cache_folder_check(fuzz_folder(), &u) && !cache_folder_verify(fuzz_folder(), &u), "a folder that cannot be walked");
	cache_entry_remove(fuzz_folder(), &key);
}

/* Of an entry of the driver's, with one file. */
static void try_seal(struct fuzz_bytes *b) {
	char entry[PATH], path[PATH + 32];
	struct fuzz_bytes file = fuzz_take(b, fuzz_byte(b) % 32);
	const struct timespec never = { 0 };
	int r;

	in_folder(entry, "entry");
	mkdir(entry, 0700);
	write_file("entry/program", file.at, fuzz_left(&file));
	if (fuzz_byte(b) & 1) {
		claim(!cache_seal_renew(entry, &never), "it is not sealed");
		claim(!cache_seal_check(entry), "it is not as it was sealed");
		if (damage(b, "entry/program"))
			claim(cache_seal_check(entry), "what was changed is as it was sealed");
	} else if (fuzz_left(b)) {
		claim(!cache_entry_write(entry, &(struct cache_key){ 1, 0 }, b->at, fuzz_left(b)), "no seal is written");
		r = cache_seal_look(entry);
		claim(r <= 0, "%d", r);
		r = cache_seal_check(entry);
		claim(r <= 0, "%d", r);
	}
	snprintf(path, sizeof path, "%s/program", entry);
	unlink(path);
	cache_entry_remove(entry, &(struct cache_key){ 1, 0 });
}

/* ---- the supervisor's ---- */

static void try_kept(struct fuzz_bytes *b) {
	bool whole = fuzz_byte(b) & 1;
	struct str text = { 0 };
	char *read = NULL, *given = fuzz_text(*b);
	int r;

	str_append(&text, given);
	claim(!str_finish(&text), "no memory");
	if (whole)
		claim(!kept_write(fuzz_folder(), "text", &text), "not written");
	else
		write_file("text", b->at, fuzz_left(b));
	r = kept_read(fuzz_folder(), "text", &read);
	claim(!whole || (!r && !strcmp(read, str_text(&text))), "a text reads as another: %d", r);
	claim(!r || !read, "a text that is not whole");
	free(read);
	free(given);
	str_free(&text);
}

static void try_quarantine(struct fuzz_bytes *b) {
	static struct supervisor s;
	static struct engine e;
	struct str text = { 0 };
	char *given = fuzz_text(*b);
	int fd;

	if (!e.catalogue) {
		config_standard(&s.config);
		snprintf(s.config.cache_dir, sizeof s.config.cache_dir, "%s", fuzz_folder());
		s.engine[0] = &e;
		s.engines = 1;
		e.supervisor = &s;
		fd = catalogue_create();
		claim(fd >= 0 && !catalogue_open(fd, &e.catalogue), "no catalogue");
	}
	str_append(&text, given);
	claim(!str_finish(&text) && !kept_write(fuzz_folder(), "quarantine", &text), "not written");
	blame_open(&s);
	free(blame_json(&s));
	/* What was taken is kept, and taken as the same. */
	claim(blame_refused(&s) <= 1 << 16, "%u graphs", blame_refused(&s));
	blame_close(&s);
	blame_clear(&s);
	blame_free(&e);
	free(given);
	str_free(&text);
}

static void try_accounts(struct fuzz_bytes *b) {
	static struct config c;
	struct accounts a = { .lock = -1 }, again = { .lock = -1 };
	bool damaged;
	uid_t *users, uid = 0;
	unsigned count = 0;

	config_standard(&c);
	snprintf(c.cache_dir, sizeof c.cache_dir, "%s", fuzz_folder());
	snprintf(c.door_accounts, sizeof c.door_accounts, "%s/accounts", fuzz_folder());
	accounts_open(&a, &c);
	for (unsigned i = 0, n = fuzz_byte(b) % 8; i < n; i++) {
		const struct spent s = { fuzz_whole(b, 3), fuzz_whole(b, 2), fuzz_byte(b), fuzz_byte(b), 0 };

		uid = fuzz_byte(b) % 3;
		accounts_add(&a, uid, &s);
		count++;
	}
	struct spent before = accounts_sum(&a, uid, 0);
	accounts_close(&a);
	if (count) {
		damaged = damage(b, "accounts");
		accounts_open(&again, &c);
		struct spent after = accounts_sum(&again, uid, 0);
		claim(!damaged || !memcmp(&after, &(struct spent){ 0 }, sizeof after), "accounts that were changed are believed");
		claim(damaged || !memcmp(&before, &after, sizeof before), "accounts read as others");
		users = accounts_users(&again, &count);
		free(users);
		accounts_close(&again);
	}
	char path[PATH];
	in_folder(path, "accounts");
	unlink(path);
}

/* ---- the engine's ---- */

static void try_tracker(struct fuzz_bytes *b) {
	struct tracker *t = NULL;
	struct str text = { 0 };
	char path[PATH], *given = fuzz_text(*b);

	in_folder(path, "tracker");
	str_append(&text, "fusiond tracker 2 here\n77\n");
	str_append(&text, given);
	claim(!str_finish(&text), "no memory");
	write_file("tracker", str_text(&text), text.length);
	claim(!tracker_new(path, "here", &t), "no memory");
	tracker_free(t);
	claim(!tracker_new(path, "here", &t), "no memory");
	tracker_free(t);
	free(given);
	str_free(&text);
}

void fuzz_one(struct fuzz_bytes *b) {
	static void (*const tries[])(struct fuzz_bytes *b) = { try_entry, try_seal, try_kept, try_quarantine, try_accounts, try_tracker };

	tries[fuzz_below(b, sizeof tries / sizeof *tries)](b);
}

/* What users have used; see accounts.h. */
#include "accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#define HASH_FUNCTION(key, length, hash) ((hash) = (unsigned)XXH3_64bits(key, length))

#include "protocol/hash.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"

enum {
	HOUR = 3600,
	DAY_HOURS = 24,
	KEPT_HOURS = 2 * DAY_HOURS,
	KEPT_DAYS = 62,
	SAVE_US = 60 * 1000 * 1000,
};

#define MAGIC "fusacc1\n"
/* The last one; a clock that goes wrong makes no other. */
#define HOUR_MOST UINT32_MAX

/* As in the file. hour: that it begins with, since 1970; of a day the first; 0: of all before. */
struct entry {
	uint32_t uid, hour;
	struct spent spent;
};

struct head {
	char magic[8];
	uint32_t size, count;                /* of an entry; how many there are */
	uint64_t low, high;                  /* their checksum */
};

struct account_record {
	struct entry entry;
	UT_hash_handle hh;
};

enum { KEY_BYTES = offsetof(struct entry, spent) };

/* ---- records ---- */

static void add(struct spent *to, const struct spent *s) {
	to->device_ns += s->device_ns;
	to->bytes = to->bytes > s->bytes ? to->bytes : s->bytes;
	to->sessions += s->sessions;
	to->refused += s->refused;
	to->limits += s->limits;
}

static struct account_record *find(const struct accounts *a, const struct entry *e) {
	struct account_record *r;

	HASH_FIND(hh, a->record, &e->uid, KEY_BYTES, r);
	return r;
}

static void add_entry(struct accounts *a, const struct entry *e) {
	struct account_record *r = find(a, e);

	if (!r) {
		r = calloc(1, sizeof *r);
		if (!r)
			return;
		r->entry.uid = e->uid;
		r->entry.hour = e->hour;
		HASH_ADD(hh, a->record, entry.uid, KEY_BYTES, r);
		if (!HASH_ADDED(hh, r)) {
			free(r);
			return;
		}
	}
	add(&r->entry.spent, &e->spent);
}

static uint32_t hour_now(void) {
	time_t now = time(NULL);

	return now < 0 ? 0 : now / HOUR < HOUR_MOST ? (uint32_t)(now / HOUR) : HOUR_MOST;
}

/* Where what was used in that hour is kept now. */
static uint32_t kept_at(uint32_t hour, uint32_t now, bool tight) {
	if (hour + KEPT_HOURS >= now)
		return hour;
	return tight || hour + KEPT_DAYS * DAY_HOURS < now ? 0 : hour / DAY_HOURS * DAY_HOURS;
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it takes the table for an entry that was freed with it. */
static void compact(struct accounts *a, bool tight) {
	struct account_record *old = a->record, *r, *next;
	uint32_t now = hour_now();

	a->record = NULL;
	HASH_ITER(hh, old, r, next) {
		struct entry e = r->entry;

		e.hour = kept_at(e.hour, now, tight);
		if (HASH_COUNT(a->record) >= ACCOUNTS_RECORDS)
			e = (struct entry){ .uid = ACCOUNTS_OTHERS, .spent = e.spent };
		add_entry(a, &e);
		HASH_DEL(old, r);
		free(r);
	}
}

/* NOLINTEND(clang-analyzer-unix.Malloc) */

void accounts_add(struct accounts *a, uid_t uid, const struct spent *s) {
	const struct entry e = { .uid = uid, .hour = hour_now(), .spent = *s };

	/* What is old makes room, once an hour: in between nothing becomes old. */
	if (HASH_COUNT(a->record) >= ACCOUNTS_RECORDS && a->compacted != e.hour) {
		a->compacted = e.hour;
		compact(a, true);
	}
	if (HASH_COUNT(a->record) >= ACCOUNTS_RECORDS && !find(a, &e))
		add_entry(a, &(struct entry){ .uid = ACCOUNTS_OTHERS, .spent = *s });
	else
		add_entry(a, &e);
	a->changed = true;
}

/* The hour behind those of the record. */
static uint64_t end_of(const struct entry *e, uint32_t now) {
	if (!e->hour)
		return now > KEPT_HOURS ? now - KEPT_HOURS : 0;
	return e->hour + (e->hour + KEPT_HOURS >= now ? 1 : DAY_HOURS);
}

struct spent accounts_sum(const struct accounts *a, uid_t uid, uint64_t since) {
	struct spent sum = { 0 };
	uint32_t now = hour_now();

	for (const struct account_record *r = a->record; r; r = r->hh.next)
		if (r->entry.uid == uid && (!since || (r->entry.hour && end_of(&r->entry, now) > since / HOUR)))
			add(&sum, &r->entry.spent);
	return sum;
}

bool accounts_knows(const struct accounts *a, uid_t uid) {
	for (const struct account_record *r = a->record; r; r = r->hh.next)
		if (r->entry.uid == uid)
			return true;
	return false;
}

static int compare(const void *a, const void *b) {
	uid_t x = *(const uid_t *)a, y = *(const uid_t *)b;

	return (x > y) - (x < y);
}

uid_t *accounts_users(const struct accounts *a, unsigned *countp) {
	uid_t *uid = malloc((HASH_COUNT(a->record) + 1) * sizeof *uid);
	unsigned all = 0, count = 0;

	*countp = 0;
	if (!uid)
		return NULL;
	for (const struct account_record *r = a->record; r; r = r->hh.next)
		uid[all++] = r->entry.uid;
	qsort(uid, all, sizeof *uid, compare);
	for (unsigned i = 0; i < all; i++)
		if (!i || uid[i] != uid[i - 1])
			uid[count++] = uid[i];
	*countp = count;
	return uid;
}

/* ---- the file ---- */

static void checksum(const struct entry *e, uint32_t count, struct head *h) {
	XXH128_hash_t sum = XXH3_128bits(e, count * sizeof *e);

	h->low = sum.low64;
	h->high = sum.high64;
}

/* -EBADMSG where it is not what was written. */
static int read_entries(FILE *f, struct entry **entryp, uint32_t *countp) {
	struct head h, sum;
	struct entry *e;
	struct stat st;

	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode) || fread(&h, sizeof h, 1, f) != 1)
		return -EBADMSG;
	if (memcmp(h.magic, MAGIC, sizeof h.magic) != 0 || h.size != sizeof *e || h.count > ACCOUNTS_RECORDS + 1 ||
		(uint64_t)st.st_size != sizeof h + (uint64_t)h.count * sizeof *e)
		return -EBADMSG;
	e = calloc(h.count + 1, sizeof *e);
	if (!e)
		return -ENOMEM;
	if (fread(e, sizeof *e, h.count, f) == h.count) {
		checksum(e, h.count, &sum);
		if (sum.low == h.low && sum.high == h.high) {
			*entryp = e;
			*countp = h.count;
			return 0;
		}
	}
	free(e);
	return -EBADMSG;
}

static void put_aside(const struct accounts *a) {
	char aside[ACCOUNTS_PATH + 8];

	snprintf(aside, sizeof aside, "%s.bad", a->path);
	if (rename(a->path, aside))
		log_warning("the accounts of users in %s are damaged, and cannot be put aside: %s", a->path, strerror(errno));
	else
		log_warning("the accounts of users in %s were damaged; they are %s now, and begin anew", a->path, aside);
}

static void load(struct accounts *a) {
	int fd = open(a->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	struct entry *e = NULL;
	uint32_t count = 0;
	int r;

	if (!f) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		if (r != -ENOENT)
			put_aside(a);
		return;
	}
	r = read_entries(f, &e, &count);
	fclose(f);
	if (r == -EBADMSG)
		put_aside(a);
	for (uint32_t i = 0; i < count; i++)
		add_entry(a, &e[i]);
	free(e);
	compact(a, false);
}

static int write_entries(const struct accounts *a, FILE *f) {
	struct head h = { .size = sizeof(struct entry), .count = HASH_COUNT(a->record) };
	struct entry *e = calloc(h.count + 1, sizeof *e);
	uint32_t i = 0;
	int r = 0;

	memcpy(h.magic, MAGIC, sizeof h.magic);
	if (!e)
		return -ENOMEM;
	for (const struct account_record *at = a->record; at; at = at->hh.next)
		e[i++] = at->entry;
	checksum(e, h.count, &h);
	if (fwrite(&h, sizeof h, 1, f) != 1 || fwrite(e, sizeof *e, h.count, f) != h.count)
		r = -EIO;
	free(e);
	return r;
}

/* One daemon has the file. */
static bool take_lock(struct accounts *a) {
	char path[ACCOUNTS_PATH + 8];

	snprintf(path, sizeof path, "%s.lock", a->path);
	a->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (a->lock >= 0 && !flock(a->lock, LOCK_EX | LOCK_NB))
		return true;
	if (a->lock >= 0)
		log_info("the accounts of users are not kept: another fusiond has %s", a->path);
	else if (errno == ENOENT)
		return false;
	else
		log_warning("the accounts of users are not kept: %s: %s", path, strerror(errno));
	*a->path = 0;
	return false;
}

static void save(struct accounts *a) {
	char beside[ACCOUNTS_PATH + 8];
	int fd, r;
	FILE *f;

	a->changed = false;
	/* The folder may have been made since. */
	if (!*a->path || (a->lock < 0 && !take_lock(a)))
		return;
	compact(a, false);
	snprintf(beside, sizeof beside, "%s.new", a->path);
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	r = f ? write_entries(a, f) : -errno;
	if (f && fclose(f) && !r)
		r = -errno;
	else if (!f && fd >= 0)
		close(fd);
	if (!r && rename(beside, a->path))
		r = -errno;
	if (r) {
		unlink(beside);
		log_warning("the accounts of users cannot be kept in %s: %s", a->path, strerror(-r));
	}
}

/* ---- the life ---- */

static bool place(struct accounts *a, const struct config *c) {
	const char *folder = getenv("STATE_DIRECTORY");
	int n;

	if (*c->door_accounts)
		n = snprintf(a->path, sizeof a->path, "%s", c->door_accounts);
	else
		n = snprintf(a->path, sizeof a->path, "%s/accounts", folder && *folder == '/' ? folder : c->cache_dir);
	return n > 0 && (size_t)n < sizeof a->path;
}

void accounts_open(struct accounts *a, const struct config *c) {
	*a = (struct accounts){ .lock = -1, .saved_us = loop_now() };
	if (!place(a, c))
		*a->path = 0;
	else if (take_lock(a))
		load(a);
}

void accounts_close(struct accounts *a) {
	struct account_record *r, *next;

	if (a->changed)
		save(a);
	r = a->record;
	HASH_CLEAR(hh, a->record);
	for (; r; r = next) {
		next = r->hh.next;
		free(r);
	}
	if (a->lock >= 0)
		close(a->lock);
	a->lock = -1;
}

uint64_t accounts_tick(struct accounts *a, uint64_t now) {
	if (!a->changed)
		return UINT64_MAX;
	if (now - a->saved_us >= SAVE_US) {
		a->saved_us = now;
		save(a);
		return UINT64_MAX;
	}
	return a->saved_us + SAVE_US;
}

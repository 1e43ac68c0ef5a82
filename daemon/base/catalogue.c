/* What outlives an engine. See catalogue.h for the contract. */
#include "catalogue.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	/* The header, in whole pages. */
	CATALOGUE_HEADER = (sizeof(struct catalogue_header) + 4095) / 4096 * 4096,
	/* Sessions of a daemon together: 8 million arrays with their buffers. Address space alone; memory is taken in steps. */
	CATALOGUE_ENTRIES = 16 << 20,
	/* 96 KiB at a time. */
	CATALOGUE_STEP = 512,
	/* Another one where the meaning of a field is another, though its size is not. */
	CATALOGUE_FORMAT = 1,
};

#define CATALOGUE_BYTES (CATALOGUE_HEADER + (size_t)CATALOGUE_ENTRIES * sizeof(struct catalogue_entry))

static uint64_t format(void) {
	return (uint64_t)CATALOGUE_FORMAT << 48 | (uint64_t)sizeof(struct catalogue_entry) << 32 | sizeof(struct catalogue_header);
}

static int back(int fd, uint32_t entries) {
	size_t bytes = CATALOGUE_HEADER + (size_t)entries * sizeof(struct catalogue_entry);

	return fallocate(fd, 0, 0, (off_t)bytes) < 0 ? -errno : 0;
}

int catalogue_create(void) {
	int fd = memfd_create("fusiond-catalogue", MFD_CLOEXEC), r = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)CATALOGUE_BYTES) < 0)
		r = -errno;
	if (!r)
		r = back(fd, CATALOGUE_STEP);
	if (!r && pwrite(fd, &(uint64_t){ format() }, sizeof(uint64_t), offsetof(struct catalogue_header, format)) != sizeof(uint64_t))
		r = -EIO;
	if (!r)
		return fd;
	close(fd);
	return r;
}

int catalogue_check(int fd) {
	uint64_t found = 0;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size != (off_t)CATALOGUE_BYTES ||
		pread(fd, &found, sizeof found, offsetof(struct catalogue_header, format)) != sizeof found || found != format())
		return -EBADMSG;
	return 0;
}

int catalogue_open(int fd, struct catalogue **catalogp) {
	struct catalogue *c = calloc(1, sizeof *c);
	void *memory;
	uint32_t used;

	if (!c)
		return -ENOMEM;
	memory = mmap(NULL, CATALOGUE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (memory == MAP_FAILED) {
		free(c);
		return -errno;
	}
	c->header = memory;
	c->entry = (struct catalogue_entry *)((char *)memory + CATALOGUE_HEADER);
	c->fd = fd;
	/* A step is backed before an entry of it is used. */
	used = atomic_load(&c->header->used);
	if (used > CATALOGUE_ENTRIES)
		used = 0;
	c->backed = (used / CATALOGUE_STEP + 1) * CATALOGUE_STEP;
	*catalogp = c;
	return 0;
}

struct catalogue *catalogue_close(struct catalogue *c) {
	if (!c)
		return NULL;
	munmap(c->header, CATALOGUE_BYTES);
	free(c->hole);
	free(c);
	return NULL;
}

static uint32_t used(const struct catalogue *c) {
	uint32_t count = atomic_load_explicit(&c->header->used, memory_order_relaxed);

	return count <= CATALOGUE_ENTRIES ? count : 0;
}

/* ---- the engine ---- */

static int add_hole(struct catalogue *c, uint32_t entry) {
	uint32_t room = c->room ? 2 * c->room : CATALOGUE_STEP;
	uint32_t *hole;

	if (c->holes == c->room) {
		hole = realloc(c->hole, room * sizeof *hole);
		if (!hole)
			return -ENOMEM;
		c->hole = hole;
		c->room = room;
	}
	c->hole[c->holes++] = entry;
	return 0;
}

int catalogue_adopt(struct catalogue *c) {
	int r = 0;

	c->holes = 0;
	for (uint32_t i = used(c); !r && i--;)
		if (atomic_load(&c->entry[i].kind) == CATALOGUE_FREE)
			r = add_hole(c, i);
	return r;
}

static uint32_t take_fresh(struct catalogue *c) {
	uint32_t i = used(c);

	if (i == CATALOGUE_ENTRIES)
		return CATALOGUE_NONE;
	if (i == c->backed) {
		if (back(c->fd, c->backed + CATALOGUE_STEP))
			return CATALOGUE_NONE;
		c->backed += CATALOGUE_STEP;
	}
	atomic_store(&c->header->used, i + 1);
	return i;
}

uint32_t catalogue_take(struct catalogue *c, uint64_t session) {
	uint32_t i;

	if (!c)
		return CATALOGUE_NONE;
	i = c->holes ? c->hole[--c->holes] : take_fresh(c);
	if (i != CATALOGUE_NONE)
		c->entry[i].session = session;
	return i;
}

void catalogue_put(struct catalogue *c, uint32_t entry, enum catalogue_kind kind) {
	if (entry != CATALOGUE_NONE)
		atomic_store_explicit(&c->entry[entry].kind, kind, memory_order_release);
}

void catalogue_freeze(struct catalogue *c) {
	if (c)
		c->frozen = true;
}

/* An entry that no hole can be noted for stays unused until the next engine. */
void catalogue_give(struct catalogue *c, uint32_t entry) {
	if (entry == CATALOGUE_NONE || !c || c->frozen)
		return;
	atomic_store(&c->entry[entry].kind, CATALOGUE_FREE);
	if (add_hole(c, entry))
		return;
}

struct catalogue_entry *catalogue_find(const struct catalogue *c, uint32_t entry, enum catalogue_kind kind, uint64_t session) {
	struct catalogue_entry *e = c && entry < used(c) ? &c->entry[entry] : NULL;

	return e && atomic_load(&e->kind) == kind && e->session == session ? e : NULL;
}

struct catalogue_text *catalogue_text(struct catalogue *c, const uint64_t key[2]) {
	struct catalogue_text *oldest = c->header->text;

	for (unsigned i = 0; i < CATALOGUE_TEXTS; i++) {
		struct catalogue_text *t = &c->header->text[i];

		if (t->used && t->key[0] == key[0] && t->key[1] == key[1])
			return t;
		if (t->used < oldest->used)
			oldest = t;
	}
	return oldest;
}

/* ---- the supervisor ---- */

static void settle_buffer(struct catalogue_buffer *b, uint64_t completed) {
	bool ended = b->state == CATALOGUE_THERE || b->state == CATALOGUE_DEVICE;

	if (ended && b->written > completed)
		b->state = CATALOGUE_WRITING;
	b->written = 0;
}

static void count_array(const struct catalogue *c, const struct catalogue_entry *e, struct catalogue_count *count) {
	uint64_t owner = e->of_array.share ? catalogue_owner(e->of_array.share) : e->session;
	const struct catalogue_entry *b = catalogue_find(c, e->of_array.buffer, CATALOGUE_BUFFER, owner);

	if (b && b->of_buffer.state == CATALOGUE_THERE)
		count->kept++;
	else if (!e->of_array.fault)
		count->lost++;
}

void catalogue_settle(struct catalogue *c, bool (*keeps)(void *user, uint64_t session), void *user,
	struct catalogue_count *count) {
	uint64_t completed = atomic_load(&c->header->completed);
	uint32_t entries = used(c);

	*count = (struct catalogue_count){ 0 };
	for (uint32_t i = 0; i < entries; i++) {
		struct catalogue_entry *e = &c->entry[i];

		uint32_t kind = atomic_load(&e->kind);

		if (kind == CATALOGUE_RUN || (kind != CATALOGUE_FREE && !keeps(user, e->session)))
			atomic_store(&e->kind, CATALOGUE_FREE);
		if (atomic_load(&e->kind) == CATALOGUE_BUFFER)
			settle_buffer(&e->of_buffer, completed);
	}
	for (uint32_t i = 0; i < entries; i++)
		if (atomic_load(&c->entry[i].kind) == CATALOGUE_ARRAY)
			count_array(c, &c->entry[i], count);
	atomic_store(&c->header->completed, 0);
	atomic_store(&c->header->reading, 0);
	atomic_store(&c->header->device_us, 0);
}

void catalogue_runs(const struct catalogue *c, void (*tell)(void *user, uint64_t session, const struct catalogue_run *r), void *user) {
	uint32_t entries = used(c);

	for (uint32_t i = 0; i < entries; i++)
		if (atomic_load(&c->entry[i].kind) == CATALOGUE_RUN)
			tell(user, c->entry[i].session, &c->entry[i].of_run);
}

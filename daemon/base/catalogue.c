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
	/* 108 KiB at a time, in whole pages. */
	CATALOGUE_STEP = 512,
	CATALOGUE_STEPS = CATALOGUE_ENTRIES / CATALOGUE_STEP,
	CATALOGUE_STEP_BYTES = CATALOGUE_STEP * sizeof(struct catalogue_entry),
	/* Another one where the meaning of a field is another, though its size is not. */
	CATALOGUE_FORMAT = 3,
};

#define CATALOGUE_BYTES (CATALOGUE_HEADER + (size_t)CATALOGUE_ENTRIES * sizeof(struct catalogue_entry))

_Static_assert(CATALOGUE_STEP_BYTES % 4096 == 0, "a step is in whole pages, so that its memory can be returned");

/* What an engine knows of CATALOGUE_STEP entries. Those that are free are chained by their field `session`, from `free` on. */
struct catalogue_step_state {
	uint32_t used;                       /* entries that are taken */
	uint32_t free;                       /* the first one that is not; NONE */
	uint32_t previous, next;             /* of those that have memory and free entries */
	bool backed;                         /* has memory */
};

size_t catalogue_bytes(void) {
	return CATALOGUE_BYTES;
}

static uint64_t format(void) {
	return (uint64_t)CATALOGUE_FORMAT << 48 | (uint64_t)sizeof(struct catalogue_entry) << 32 | sizeof(struct catalogue_header);
}

static off_t step_offset(uint32_t step) {
	return (off_t)(CATALOGUE_HEADER + (size_t)step * CATALOGUE_STEP_BYTES);
}

static int back(int fd, uint32_t step) {
	return fallocate(fd, 0, step_offset(step), CATALOGUE_STEP_BYTES) < 0 ? -errno : 0;
}

int catalogue_create(void) {
	int fd = memfd_create("fusiond-catalogue", MFD_CLOEXEC), r = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)CATALOGUE_BYTES) < 0)
		r = -errno;
	/* With a first step, so that no engine is without one. */
	if (!r && fallocate(fd, 0, 0, step_offset(1)) < 0)
		r = -errno;
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
	*catalogp = c;
	return 0;
}

struct catalogue *catalogue_close(struct catalogue *c) {
	if (!c)
		return NULL;
	munmap(c->header, CATALOGUE_BYTES);
	free(c->step);
	free(c);
	return NULL;
}

static uint32_t used(const struct catalogue *c) {
	uint32_t count = atomic_load_explicit(&c->header->used, memory_order_relaxed);

	return count <= CATALOGUE_ENTRIES ? count : 0;
}

/* A hole in the file is not read: that would give it memory. */
static bool has_memory(const struct catalogue *c, uint32_t step) {
	off_t data;

	if (c->step)
		return c->step[step].backed;
	data = lseek(c->fd, step_offset(step), SEEK_DATA);
	return data >= 0 && data < step_offset(step) + (off_t)CATALOGUE_STEP_BYTES;
}

/* The first entry from i on that has memory; `entries` where there is none. */
static uint32_t skip_holes(const struct catalogue *c, uint32_t i, uint32_t entries) {
	while (i < entries && i % CATALOGUE_STEP == 0 && !has_memory(c, i / CATALOGUE_STEP))
		i += CATALOGUE_STEP;
	return i < entries ? i : entries;
}

/* ---- the engine: steps ---- */

static void list_add(struct catalogue *c, uint32_t step) {
	struct catalogue_step_state *t = &c->step[step];

	t->previous = CATALOGUE_NONE;
	t->next = c->open;
	if (c->open != CATALOGUE_NONE)
		c->step[c->open].previous = step;
	c->open = step;
}

static void list_remove(struct catalogue *c, uint32_t step) {
	const struct catalogue_step_state *t = &c->step[step];

	if (t->next != CATALOGUE_NONE)
		c->step[t->next].previous = t->previous;
	if (t->previous != CATALOGUE_NONE)
		c->step[t->previous].next = t->next;
	else
		c->open = t->next;
}

static void chain(struct catalogue *c, uint32_t entry) {
	struct catalogue_step_state *t = &c->step[entry / CATALOGUE_STEP];

	c->entry[entry].session = t->free;
	t->free = entry;
}

/* Readers look no further than the last step that has memory. */
static void set_end(struct catalogue *c) {
	while (c->steps && !c->step[c->steps - 1].backed)
		c->steps--;
	atomic_store(&c->header->used, c->steps * CATALOGUE_STEP);
}

/* A step that has memory: counts its entries, and chains those that are free. */
static void open_step(struct catalogue *c, uint32_t step) {
	struct catalogue_step_state *t = &c->step[step];

	*t = (struct catalogue_step_state){ .free = CATALOGUE_NONE, .backed = true };
	for (uint32_t i = (step + 1) * CATALOGUE_STEP; i-- > step * CATALOGUE_STEP;)
		if (atomic_load(&c->entry[i].kind) == CATALOGUE_FREE)
			chain(c, i);
		else
			t->used++;
	if (t->free != CATALOGUE_NONE)
		list_add(c, step);
	c->empty += !t->used;
	if (step >= c->steps)
		c->steps = step + 1;
}

/* The lowest one that has no memory gets some: 0 or -errno. */
static int grow(struct catalogue *c) {
	int r;

	while (c->lowest < CATALOGUE_STEPS && c->step[c->lowest].backed)
		c->lowest++;
	if (c->lowest == CATALOGUE_STEPS)
		return -ENOSPC;
	r = back(c->fd, c->lowest);
	if (r)
		return r;
	open_step(c, c->lowest);
	set_end(c);
	return 0;
}

/* Nothing of it is taken. One such step keeps its memory, so that who takes and gives at its edge pays for no page. */
static void shrink(struct catalogue *c, uint32_t step) {
	if (c->empty < 2 || fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, step_offset(step), CATALOGUE_STEP_BYTES) < 0)
		return;
	c->empty--;
	list_remove(c, step);
	c->step[step].backed = false;
	if (step < c->lowest)
		c->lowest = step;
	set_end(c);
}

int catalogue_adopt(struct catalogue *c) {
	uint32_t steps = (used(c) + CATALOGUE_STEP - 1) / CATALOGUE_STEP;
	bool *there = calloc(steps + 1, sizeof *there);

	/* As the file has it, before there are states that say so. */
	for (uint32_t i = 0; there && i < steps; i++)
		there[i] = has_memory(c, i);
	c->step = there ? calloc(CATALOGUE_STEPS, sizeof *c->step) : NULL;
	if (!c->step) {
		free(there);
		return -ENOMEM;
	}
	c->open = CATALOGUE_NONE;
	for (uint32_t i = steps; i-- > 0;)
		if (there[i])
			open_step(c, i);
	free(there);
	for (uint32_t i = steps; i-- > 0;)
		if (c->step[i].backed && !c->step[i].used)
			shrink(c, i);
	set_end(c);
	return 0;
}

/* ---- the engine: entries ---- */

uint32_t catalogue_take(struct catalogue *c, uint64_t session) {
	struct catalogue_step_state *t;
	uint32_t i;

	if (!c || (c->open == CATALOGUE_NONE && grow(c)))
		return CATALOGUE_NONE;
	t = &c->step[c->open];
	i = t->free;
	t->free = (uint32_t)c->entry[i].session;
	c->empty -= !t->used++;
	if (t->free == CATALOGUE_NONE)
		list_remove(c, c->open);
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

void catalogue_give(struct catalogue *c, uint32_t entry) {
	struct catalogue_step_state *t;

	if (entry == CATALOGUE_NONE || !c || c->frozen)
		return;
	t = &c->step[entry / CATALOGUE_STEP];
	atomic_store(&c->entry[entry].kind, CATALOGUE_FREE);
	if (t->free == CATALOGUE_NONE)
		list_add(c, entry / CATALOGUE_STEP);
	chain(c, entry);
	if (--t->used)
		return;
	c->empty++;
	shrink(c, entry / CATALOGUE_STEP);
}

struct catalogue_entry *catalogue_find(const struct catalogue *c, uint32_t entry, enum catalogue_kind kind, uint64_t session) {
	struct catalogue_entry *e = c && entry < used(c) && has_memory(c, entry / CATALOGUE_STEP) ? &c->entry[entry] : NULL;

	return e && atomic_load(&e->kind) == kind && e->session == session ? e : NULL;
}

const struct catalogue_buffer *catalogue_value(const struct catalogue *c, const struct catalogue_array *n, uint64_t owner) {
	const struct catalogue_entry *e = catalogue_find(c, n->buffer, CATALOGUE_BUFFER, owner);

	return e && e->of_buffer.serial == n->serial ? &e->of_buffer : NULL;
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
	const struct catalogue_buffer *b = catalogue_value(c, &e->of_array, owner);

	if (e->of_array.released)
		return;
	if (b && b->state == CATALOGUE_THERE)
		count->kept++;
	else if (!e->of_array.fault)
		count->lost++;
}

void catalogue_settle(struct catalogue *c, bool (*keeps)(void *user, uint64_t session), void *user,
	struct catalogue_count *count) {
	uint64_t completed = atomic_load(&c->header->completed);
	uint32_t entries = used(c);

	*count = (struct catalogue_count){ 0 };
	for (uint32_t i = skip_holes(c, 0, entries); i < entries; i = skip_holes(c, i + 1, entries)) {
		struct catalogue_entry *e = &c->entry[i];

		uint32_t kind = atomic_load(&e->kind);

		if (kind == CATALOGUE_RUN || (kind != CATALOGUE_FREE && !keeps(user, e->session)))
			atomic_store(&e->kind, CATALOGUE_FREE);
		if (atomic_load(&e->kind) == CATALOGUE_BUFFER)
			settle_buffer(&e->of_buffer, completed);
	}
	for (uint32_t i = skip_holes(c, 0, entries); i < entries; i = skip_holes(c, i + 1, entries))
		if (atomic_load(&c->entry[i].kind) == CATALOGUE_ARRAY)
			count_array(c, &c->entry[i], count);
	atomic_store(&c->header->completed, 0);
	atomic_store(&c->header->reading, 0);
	atomic_store(&c->header->device_us, 0);
}

void catalogue_runs(const struct catalogue *c, void (*tell)(void *user, uint64_t session, const struct catalogue_run *r), void *user) {
	uint32_t entries = used(c);

	for (uint32_t i = skip_holes(c, 0, entries); i < entries; i = skip_holes(c, i + 1, entries))
		if (atomic_load(&c->entry[i].kind) == CATALOGUE_RUN)
			tell(user, c->entry[i].session, &c->entry[i].of_run);
}

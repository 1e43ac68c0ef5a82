/*
 * A catalogue that an engine left in any state: memory of which each word is whatever it is. The supervisor settles it and tells of its graphs, the next engine
 * adopts it, finds, takes and gives entries; nothing beyond its memory is read, no entry is taken twice, and entries are as many as they say.
 */
#include "fuzz.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/catalogue.h"

enum {
	ACTS = 64,
	/* Entries that are looked at: of two steps and a part. */
	ENTRIES = 1200,
	TAKEN = 600,
	KINDS = CATALOGUE_TOKEN + 3,
};

static struct {
	uint32_t entry[TAKEN];
	unsigned count;
} taken;

static uint32_t some_entry(struct fuzz_bytes *b) {
	return (uint32_t)fuzz_whole(b, 2) % ENTRIES;
}

static void poke(struct fuzz_bytes *b, const struct catalogue *c) {
	struct catalogue_entry *e;
	uint32_t i = some_entry(b);
	uint8_t *at;

	switch (fuzz_below(b, 4)) {
	case 0:
		atomic_store(&c->header->used, fuzz_byte(b) & 1 ? (uint32_t)fuzz_whole(b, 4) : (uint32_t)fuzz_whole(b, 1) * 64);
		return;
	case 1:
		at = (uint8_t *)c->header + fuzz_whole(b, 2) % offsetof(struct catalogue_header, text);
		*at = fuzz_byte(b);
		return;
	default:
		break;
	}
	e = &c->entry[i];
	atomic_store(&e->kind, fuzz_below(b, KINDS));
	e->session = fuzz_byte(b) & 128 ? catalogue_owner(fuzz_byte(b)) : fuzz_byte(b) % 4;
	at = (uint8_t *)&e->of_session;
	for (unsigned n = fuzz_byte(b) % 48, offset = fuzz_byte(b); n; n--, offset++)
		if (offset < sizeof *e - offsetof(struct catalogue_entry, of_session))
			at[offset] = fuzz_byte(b);
}

static bool keeps(void *user, uint64_t session) {
	(void)user;
	return session % 2;
}

static void told(void *user, uint64_t session, const struct catalogue_run *r) {
	(void)session;
	*(uint64_t *)user += r->operations;
}

/* As the supervisor does when the engine is dead. */
static void settle(struct catalogue *c) {
	struct catalogue_count count;
	uint64_t sum = 0;

	catalogue_runs(c, told, &sum);
	catalogue_settle(c, keeps, NULL, &count);
	catalogue_runs(c, told, &sum);
}

static void look(struct fuzz_bytes *b, const struct catalogue *c) {
	uint32_t entry = fuzz_byte(b) & 1 ? (uint32_t)fuzz_whole(b, 4) : some_entry(b);
	uint64_t session = fuzz_byte(b) % 4;
	const struct catalogue_entry *e = catalogue_find(c, entry, CATALOGUE_ARRAY, session);
	const struct catalogue_buffer *v = e ? catalogue_value(c, &e->of_array, session) : NULL;

	claim(!e || (e >= c->entry && atomic_load(&e->kind) == CATALOGUE_ARRAY && e->session == session), "another entry was found");
	claim(!v || v->serial == e->of_array.serial, "a buffer of another array");
}

static void take(struct catalogue *c) {
	uint32_t entry = catalogue_take(c, 1);

	claim(entry != CATALOGUE_NONE, "no entry is left");
	claim(atomic_load(&c->entry[entry].kind) == CATALOGUE_FREE, "an entry that is taken was taken");
	for (unsigned i = 0; i < taken.count; i++)
		claim(taken.entry[i] != entry, "entry %u was taken twice", entry);
	taken.entry[taken.count++] = entry;
	catalogue_put(c, entry, CATALOGUE_ARRAY);
}

static void give(struct fuzz_bytes *b, struct catalogue *c) {
	unsigned i = (unsigned)fuzz_whole(b, 2) % taken.count;

	catalogue_give(c, taken.entry[i]);
	taken.entry[i] = taken.entry[--taken.count];
}

/* The next engine: memory is its own from then on. */
static void adopt(struct fuzz_bytes *b, struct catalogue *c) {
	claim(!catalogue_adopt(c), "no memory");
	taken.count = 0;
	while (fuzz_left(b)) {
		unsigned many = fuzz_byte(b);

		if (many % 4 == 0)
			look(b, c);
		for (unsigned i = 0; many % 4 == 1 && i <= many && taken.count < TAKEN; i++)
			take(c);
		for (unsigned i = 0; many % 4 == 2 && i <= many && taken.count; i++)
			give(b, c);
		if (many % 4 == 3)
			claim(catalogue_text(c, (uint64_t[2]){ fuzz_byte(b), 0 }) < c->header->text + CATALOGUE_TEXTS, "a text that there is not");
	}
	while (taken.count)
		catalogue_give(c, taken.entry[--taken.count]);
}

void fuzz_one(struct fuzz_bytes *b) {
	struct catalogue *c = NULL;
	int fd = catalogue_create();

	claim(fd >= 0 && !catalogue_check(fd) && !catalogue_open(fd, &c), "no catalogue");
	for (unsigned i = 0, acts = fuzz_byte(b) % ACTS; i < acts; i++)
		poke(b, c);
	settle(c);
	for (unsigned i = 0, acts = fuzz_byte(b) % ACTS; i < acts; i++)
		poke(b, c);
	adopt(b, c);
	catalogue_close(c);
	close(fd);
}

/*
 * The shared memory of a session. See arena.h for the contract.
 *
 * Own arenas start small and double in total, so that few are ever needed. Growth is put off
 * where the daemon already has as much on its way back: a loop that uploads and releases then
 * runs in constant memory.
 */
#include "arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/hash.h"
#include "protocol/shm.h"
#include "context.h"
#include "flush.h"
#include "resume.h"

enum {
	/* Most sessions upload little; who uploads more has three times as much at each further step. */
	ARENA_FIRST_BYTES = 16 << 10,
	ARENA_GROWTH = 3,
	/* Below this, growing is cheaper than a round trip for memory on its way back. */
	ARENA_WAIT_BYTES = 16 << 20,
	/* The engine's arenas stay mapped while there are fewer; address space is cheap, entries are not. */
	ARENAS_CACHED = LIMIT_ARENAS / 2,
	/* A key is the number of the arena and the offset in units; offsets stay below 2^40 bytes. */
	KEY_OFFSET_BITS = 40,
};

struct upload {
	uint64_t key;
	uint64_t bytes;
	bool sent, used;             /* the daemon was told; arenas_resumed() */
	bool returning;
	UT_hash_handle hh;
};

static struct arena *arena_free(struct arena *a) {
	if (a->base)
		munmap(a->base, a->bytes);
	if (a->range)
		range_free_all(a->range);
	free(a);
	return NULL;
}

void arenas_free(struct arenas *a) {
	struct upload *u = a->uploads, *next;

	HASH_CLEAR(hh, a->uploads);
	for (; u; u = next) {
		next = u->hh.next;
		free(u);
	}
	for (unsigned i = 0; i < a->count; i++)
		arena_free(a->list[i]);
	a->count = 0;
}

/* Where there is no memory for it, it stays the daemon's, and reads as zeros. */
static void keep(struct arena *a) {
	void *copy = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (copy == MAP_FAILED)
		return;
	memcpy(copy, a->base, a->bytes);
	if (mremap(copy, a->bytes, a->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, a->base) == MAP_FAILED)
		munmap(copy, a->bytes);
}

void arenas_keep_mapped(struct arenas *a) {
	for (unsigned i = 0; i < a->count; i++)
		if (a->list[i]->pins)
			keep(a->list[i]);
}

static struct arena *arena_find(const struct arenas *a, uint64_t id) {
	for (unsigned i = 0; i < a->count; i++)
		if (a->list[i]->id == id)
			return a->list[i];
	return NULL;
}

uint64_t upload_key(uint32_t arena, uint64_t offset) {
	return ((uint64_t)(arena + 1) << KEY_OFFSET_BITS) | offset / LIMIT_ALIGNMENT;
}

void *upload_memory(const struct arenas *a, uint32_t arena, uint64_t offset) {
	return arena_find(a, arena)->base + offset;
}

struct arena *upload_pin(struct arenas *a, uint32_t arena) {
	struct arena *n = arena_find(a, arena);

	n->pins++;
	return n;
}

static struct arena *arena_of_key(const struct arenas *a, uint64_t key, uint64_t *offsetp) {
	*offsetp = (key & ((UINT64_C(1) << KEY_OFFSET_BITS) - 1)) * LIMIT_ALIGNMENT;
	return arena_find(a, (key >> KEY_OFFSET_BITS) - 1);
}

/* Unmaps the engine's arena that was not used for longest, where there are many. */
static void arenas_trim(struct arenas *a) {
	unsigned oldest = a->count;

	if (a->count < ARENAS_CACHED)
		return;
	for (unsigned i = 0; i < a->count; i++)
		if (!a->list[i]->own && !a->list[i]->pins &&
			(oldest == a->count || a->list[i]->used < a->list[oldest]->used))
			oldest = i;
	if (oldest == a->count)
		return;
	arena_free(a->list[oldest]);
	a->list[oldest] = a->list[--a->count];
}

/* fd -1: nobody shares it. */
static int map_memory(int fd, uint64_t bytes, void **basep) {
	int r;

	if (fd < 0) {
		*basep = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		r = *basep == MAP_FAILED ? -errno : 0;
		if (r)
			*basep = NULL;
		return r;
	}
	r = shm_map(fd, bytes, NULL, basep);
	close(fd);
	return r;
}

/* Maps an arena and puts it into the list. Closes fd. */
static int arena_add(struct arenas *a, uint32_t id, bool own, uint64_t bytes, int fd, struct arena **arenap,
	struct fault *f) {
	struct arena *n;
	void *base = NULL;
	int r;

	arenas_trim(a);
	n = a->count < LIMIT_ARENAS ? calloc(1, sizeof *n) : NULL;
	r = map_memory(fd, bytes, &base);
	if (!n && !r) {
		munmap(base, bytes);
		r = -ENOMEM;
	}
	if (a->count == LIMIT_ARENAS)
		return fault_set(f, FAULT_LIMIT, "the session has %d arenas mapped, its limit", LIMIT_ARENAS);
	if (!r && own)
		r = range_new((bytes - LIMIT_ARENA_SLACK) / LIMIT_ALIGNMENT * LIMIT_ALIGNMENT, &n->range);
	if (r) {
		if (base && n)
			munmap(base, bytes);
		free(n);
		return r;
	}
	n->id = id;
	n->own = own;
	n->bytes = bytes;
	n->base = base;
	n->used = ++a->clock;
	a->list[a->count++] = n;
	if (own)
		a->owned += bytes;
	*arenap = n;
	return 0;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
	return (bytes + unit - 1) / unit * unit;
}

/* Of a daemon on another machine; gives the lock up while it waits. */
static int arena_ask(struct fusion_context *c, uint64_t bytes, uint32_t *idp, uint64_t *gotp, struct fault *f) {
	struct request *q;
	struct answer a = { 0 };
	int r = stream_room_to_wait(c, &q, f);

	if (!r)
		r = stream_send_arena(c, q, bytes, &a, f);
	if (!r)
		r = stream_wait(c, q, &a, f);
	if (!r && a.bytes < bytes)
		r = fault_set(f, FAULT_PROTOCOL, "the daemon made an arena that is not what was asked for");
	if (r)
		return r;
	*idp = (uint32_t)a.arena;
	*gotp = a.bytes;
	return 0;
}

/* Of a daemon on this machine, at whose door this thread is. */
static int arena_at_door(struct fusion_context *c, uint64_t bytes, struct fault *f) {
	struct arena *made;
	uint64_t got;
	uint32_t id;
	int fd;
	int r = door_arena_new(&c->door, bytes, &id, &got, &fd, f);

	return r ? r : arena_add(&c->arenas, id, true, got, fd, &made, f);
}

/* Asks for an arena of at least this size. */
static int arena_make(struct fusion_context *c, uint64_t bytes, struct fault *f) {
	struct arena *made;
	uint64_t got;
	uint32_t id;
	int r;

	if (!c->door.link)
		return arena_at_door(c, bytes, f);
	r = arena_ask(c, bytes, &id, &got, f);
	return r ? r : arena_add(&c->arenas, id, true, got, -1, &made, f);
}

/* Makes room for an upload: more than there is, or just enough where that is refused. */
static int arenas_grow(struct fusion_context *c, uint64_t bytes, struct fault *f) {
	uint64_t need =
		round_up(round_up(bytes ? bytes : 1, LIMIT_ALIGNMENT) + LIMIT_ARENA_SLACK, ARENA_FIRST_BYTES);
	uint64_t more = ARENA_GROWTH * c->arenas.owned;
	uint64_t want = more > need ? round_up(more, ARENA_FIRST_BYTES) : need;
	int r = arena_make(c, want, f);

	if (r > 0 && want > need && (f->code == FAULT_MEMORY || f->code == FAULT_LIMIT))
		r = arena_make(c, need, f);
	return r;
}

static bool arenas_take(struct arenas *a, uint64_t bytes, struct upload_place *p) {
	for (unsigned i = 0; i < a->count; i++) {
		struct arena *n = a->list[i];

		if (!n->own || range_take(n->range, bytes, &p->offset))
			continue;
		p->arena = n->id;
		p->memory = n->base + p->offset;
		p->key = upload_key(n->id, p->offset);
		return true;
	}
	return false;
}

/* Grows once for all who want it: who had to wait at the door finds what the one before it has made. */
static int grow_and_take(struct fusion_context *c, uint64_t bytes, struct upload_place *p, struct fault *f) {
	int r = door_begin(&c->door, f);

	if (r)
		return r;
	while (!r && !arenas_take(&c->arenas, bytes, p))
		r = arenas_grow(c, bytes, f);
	door_end(&c->door);
	return r;
}

/* Has the daemon enough on its way back that waiting beats growing? */
static bool worth_waiting(const struct arenas *a, uint64_t bytes) {
	return a->returning >= bytes && a->returning && a->owned >= ARENA_WAIT_BYTES;
}

static int arenas_make_room(
	struct fusion_context *c, uint64_t bytes, struct upload_place *p, struct fault *f) {
	int r;

	if (worth_waiting(&c->arenas, bytes)) {
		r = flush_and_wait(c, f);
		if (r || arenas_take(&c->arenas, bytes, p))
			return r;
	}
	r = grow_and_take(c, bytes, p, f);
	if (resume_door(c, r, f))
		r = grow_and_take(c, bytes, p, f);
	if (r > 0 && c->arenas.returning && (f->code == FAULT_MEMORY || f->code == FAULT_LIMIT)) {
		struct fault ignored;
		int waited = flush_and_wait(c, &ignored);

		if (!waited && arenas_take(&c->arenas, bytes, p))
			return 0;
	}
	return r;
}

int upload_take(struct fusion_context *c, uint64_t bytes, struct upload_place *placep, struct fault *f) {
	struct upload *u = calloc(1, sizeof *u);
	int r = 0;

	if (!u)
		return -ENOMEM;
	if (!arenas_take(&c->arenas, bytes, placep))
		r = arenas_make_room(c, bytes, placep, f);
	if (r) {
		free(u);
		return r;
	}
	u->key = placep->key;
	u->bytes = bytes;
	HASH_ADD(hh, c->arenas.uploads, key, sizeof u->key, u);
	if (HASH_ADDED(hh, u))
		return 0;
	free(u); /* the range stays taken: as good as used up */
	return -ENOMEM;
}

void upload_give(struct arenas *a, uint64_t key) {
	uint64_t offset;
	struct arena *n = arena_of_key(a, key, &offset);
	struct upload *u;

	HASH_FIND(hh, a->uploads, &key, sizeof key, u);
	if (!u || !n)
		return;
	if (range_give(n->range, offset, u->bytes))
		return; /* not as we took it: better never used again than used twice */
	if (u->returning)
		a->returning -= u->bytes;
	HASH_DEL(a->uploads, u);
	free(u);
}

void upload_abandon(struct arenas *a, uint64_t key) {
	struct upload *u;

	HASH_FIND(hh, a->uploads, &key, sizeof key, u);
	if (!u || u->returning)
		return;
	u->returning = true;
	a->returning += u->bytes;
}

void upload_sent(struct arenas *a, uint64_t key) {
	struct upload *u;

	HASH_FIND(hh, a->uploads, &key, sizeof key, u);
	if (u)
		u->sent = true;
}

void arenas_unused(struct arenas *a) {
	for (struct upload *u = a->uploads; u; u = u->hh.next)
		u->used = false;
}

void upload_used(struct arenas *a, uint32_t arena, uint64_t offset) {
	uint64_t key = upload_key(arena, offset);
	struct upload *u;

	HASH_FIND(hh, a->uploads, &key, sizeof key, u);
	if (u)
		u->used = true;
}

static int read_uses(struct arenas *a, struct wire_cursor *list, struct fault *f) {
	uint64_t arena, offset;
	int r = 0;

	while (!r && list->left) {
		r = wire_get_uint(list, "arena in use", LIMIT_ARENA_NUMBERS - 1, &arena, f);
		if (!r)
			r = wire_get_uint(list, "offset in use", (uint64_t)LIMIT_ARRAY_BYTES * 2, &offset, f);
		if (r)
			return r;
		upload_used(a, (uint32_t)arena, offset);
	}
	return r;
}

int arenas_resumed(struct arenas *a, struct wire_cursor *c, struct fault *f) {
	struct upload *u, *next;
	struct wire_cursor list;
	bool whole;
	int r = wire_get_bool(c, "whole", &whole, f);

	if (!r)
		r = wire_get_array(c, "uses", LIMIT_FRAME_BYTES, &list, f);
	if (!r)
		r = read_uses(a, &list, f);
	HASH_ITER(hh, a->uploads, u, next)
		if (!r && whole && u->sent && !u->used)
			upload_give(a, u->key);
	return r;
}

static int freed_one(struct arenas *a, uint64_t arena, uint64_t offset, struct fault *f) {
	uint64_t key = upload_key((uint32_t)arena, offset);
	struct upload *u;

	HASH_FIND(hh, a->uploads, &key, sizeof key, u);
	if (!u)
		return fault_set(f, FAULT_PROTOCOL,
			"fusiond freed memory that was not in use: arena %" PRIu64 ", offset %" PRIu64, arena,
			offset);
	upload_give(a, key);
	return 0;
}

int arenas_freed(struct arenas *a, struct wire_cursor *c, struct fault *f) {
	struct wire_cursor list;
	uint64_t arena, offset;
	int r = wire_get_array(c, "freed", LIMIT_FRAME_BYTES, &list, f);

	while (!r && list.left) {
		r = wire_get_uint(&list, "freed arena", LIMIT_ARENA_NUMBERS - 1, &arena, f);
		if (!r)
			r = wire_get_uint(&list, "freed offset", (uint64_t)LIMIT_ARRAY_BYTES * 2, &offset, f);
		if (!r)
			r = freed_one(a, arena, offset, f);
	}
	return r;
}

/* Who had to wait at the door may find that the one before it has got the same. */
static int arena_fetch(struct fusion_context *c, uint32_t id, struct arena **arenap, struct fault *f) {
	uint64_t bytes;
	int fd, r = door_begin(&c->door, f);

	if (r)
		return r;
	*arenap = arena_find(&c->arenas, id);
	if (!*arenap)
		r = door_arena_get(&c->door, id, &bytes, &fd, f);
	if (!r && !*arenap)
		r = arena_add(&c->arenas, id, false, bytes, fd, arenap, f);
	door_end(&c->door);
	return r;
}

static int arena_get(struct fusion_context *c, uint64_t id, struct arena **arenap, struct fault *f) {
	int r;

	*arenap = arena_find(&c->arenas, id);
	if (*arenap)
		return 0;
	r = arena_fetch(c, (uint32_t)id, arenap, f);
	if (resume_door(c, r, f))
		r = arena_fetch(c, (uint32_t)id, arenap, f);
	return r;
}

int arena_locate(struct fusion_context *c, uint64_t id, uint64_t offset, uint64_t bytes,
	struct arena **arenap, void **memoryp, struct fault *f) {
	int r = arena_get(c, id, arenap, f);

	if (r)
		return r;
	if (offset > (*arenap)->bytes || bytes > (*arenap)->bytes - offset)
		return fault_set(f, FAULT_PROTOCOL, "fusiond named memory outside of arena %" PRIu64, id);
	(*arenap)->pins++;
	(*arenap)->used = ++c->arenas.clock;
	*memoryp = (*arenap)->base + offset;
	return 0;
}

void arena_forget(struct arenas *a, uint32_t id) {
	for (unsigned i = 0; i < a->count; i++) {
		if (a->list[i]->id != id || a->list[i]->pins)
			continue;
		arena_free(a->list[i]);
		a->list[i] = a->list[--a->count];
		return;
	}
}

void arena_unpin(struct arena *a) {
	a->pins--;
}

/*
 * The memory of a session: arenas, and what lies in them.
 *
 * Client-laid-out arenas: the client decides; extents note which parts of them are in use, so that
 * it learns when one is free again. Engine-laid-out arenas: cut by range.h, asked for when there is no
 * room, in growing sizes, and dropped when they were empty for a while.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/limits.h"
#include "protocol/shm.h"

#include "daemon/base/memory.h"

enum {
	SPACE_PAGE = 4096,
	/*
	 * The first arena for results: a session of few small arrays costs no more. Each further one is so many times as
	 * large as all before it, and from a size on as large as these, up to the most, so that who needs much asks seldom. But who asks
	 * waits until all of it is cleared: 0.05 ms a MiB, and 2.5 where the machine is virtual and has not used that memory lately.
	 */
	SPACE_ARENA_LEAST = 16 << 10,
	SPACE_ARENA_GROWTH = 3,
	SPACE_ARENA_LARGE = 1 << 20,
	SPACE_ARENA_MOST = 256 << 20,
	/* An empty arena is kept this long: programs come back with the same sizes. */
	SPACE_KEEP_MS = 2000,
	/* A refusal is for who waited for it, and looks at the next turn; who comes later than this asks anew. */
	SPACE_REFUSAL_MS = 1000,
};

static void close_fd(int *fdp) {
	if (*fdp >= 0)
		close(*fdp);
}

/* ---- spaces ---- */

int space_new(struct exec *x, const struct space_callbacks *c, uint64_t quota, struct space **spacep) {
	struct space *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->exec = x;
	s->references = 1;
	s->callbacks = *c;
	s->quota = quota;
	s->next = x->spaces;
	if (s->next)
		s->next->previous = s;
	x->spaces = s;
	*spacep = s;
	return 0;
}

struct space *space_ref(struct space *s) {
	s->references++;
	return s;
}

struct space *space_unref(struct space *s) {
	if (s && !--s->references)
		free(s);
	return NULL;
}

static void space_unlink(struct space *s) {
	if (s->next)
		s->next->previous = s->previous;
	if (s->previous)
		s->previous->next = s->next;
	else
		s->exec->spaces = s->next;
}

static void tell_left(const struct space *s) {
	const struct exec *x = s->exec;

	if (s->session && x->left)
		x->left(x->left_user, s->session);
}

struct space *space_free(struct space *s) {
	struct sorrow *lost;
	struct space_arena *a;
	struct exec *x;

	if (!s)
		return NULL;
	x = s->exec;
	s->gone = true;
	lost = sorrow_set(FAULT_LOST, "the session that held the array has ended");
	for (struct buffer *b = s->buffers; b; b = b->next)
		buffer_poison(b, lost);
	sorrow_unref(lost);
	/* A number of its own: steps of runs that are launched in part have none yet. */
	x->sequence++;
	/* One of no memory, so that where there is none, too, the end of what runs is told. */
	a = calloc(1, sizeof *a);
	if (a) {
		*a = (struct space_arena){ .space = s, .next = s->arena };
		s->arena = a;
	}
	while ((a = s->arena)) {
		s->arena = a->next;
		a->sequence = x->sequence;
		a->next = x->dying;
		x->dying = a;
		s->dying++;
		space_ref(s);
	}
	if (!s->dying)
		tell_left(s);
	space_unlink(s);
	space_unref(s);
	exec_mark(x);
	return NULL;
}

int space_charge(struct space *s, uint64_t bytes) {
	if (s->quota && (s->used > s->quota || bytes > s->quota - s->used))
		return -EDQUOT;
	s->used += bytes;
	return 0;
}

void space_discharge(struct space *s, uint64_t bytes) {
	s->used -= bytes;
}

uint64_t space_used(const struct space *s) {
	return s->used;
}

uint64_t space_mapped(const struct space *s) {
	uint64_t bytes = 0;

	for (const struct space_arena *a = s->arena; a; a = a->next)
		bytes += a->bytes;
	return bytes;
}

uint32_t space_uses(const struct space *s, void (*tell)(void *user, uint32_t arena, uint64_t offset), void *user) {
	uint32_t count = 0;

	for (const struct space_arena *a = s->arena; a; a = a->next)
		for (const struct extent *e = a->extents; e; e = e->hh.next) {
			tell(user, a->id, e->key.offset);
			count++;
		}
	return count;
}

/* ---- arenas ---- */

struct space_arena *space_arena(const struct space *s, uint32_t id) {
	struct space_arena *a = s->arena;

	while (a && a->id != id)
		a = a->next;
	return a;
}

static int arena_map(struct space_arena *a, int fd) {
	struct exec *x = a->space->exec;
	void *host;
	int r;

	if (x->flat)
		r = device_map(x->device, fd, a->bytes, &a->address, &host);
	else
		r = shm_map(fd, a->bytes, NULL, &host);
	if (r)
		return r;
	a->host = host;
	if (!x->flat)
		device_pin(x->device, host, a->bytes, &a->address);
	return 0;
}

static void arena_unmap(struct space_arena *a) {
	struct exec *x = a->space->exec;

	if (!a->host)
		return;
	if (x->flat) {
		device_unmap(x->device, a->address, a->bytes);
		return;
	}
	device_unpin(x->device, a->host);
	munmap(a->host, a->bytes);
}

/* Takes an arena's extents out of the list of those that wait to be reported. */
static void forget_retired(struct exec *x, const struct space_arena *a) {
	struct extent **link = &x->retired, *last = NULL;

	while (*link) {
		if ((*link)->arena == a) {
			*link = (*link)->next;
			continue;
		}
		last = *link;
		link = &last->next;
	}
	x->retired_last = last;
}

static void arena_drop(struct space_arena *a) {
	struct extent *e, *next;

	arena_unmap(a);
	if (a->extents)
		forget_retired(a->space->exec, a);
	e = a->extents;
	HASH_CLEAR(hh, a->extents);
	for (; e; e = next) {
		next = e->hh.next;
		free(e);
	}
	range_free_all(a->range);
	free(a);
}

static int arena_open(struct space_arena *a, int fd) {
	int r = 0;

	if (a->engine_owned)
		r = range_new(a->bytes - LIMIT_ARENA_SLACK, &a->range);
	return r ? r : arena_map(a, fd);
}

int space_add_arena(struct space *s, uint32_t arena, int fd, uint64_t bytes, bool engine_owned) {
	CLEANUP(close_fd) int owned = fd;
	struct space_arena *a;
	int r;

	if (bytes <= LIMIT_ARENA_SLACK || space_arena(s, arena))
		return -EINVAL;
	a = calloc(1, sizeof *a);
	if (!a)
		return -ENOMEM;
	a->space = s;
	a->id = arena;
	a->bytes = bytes;
	a->engine_owned = engine_owned;
	r = arena_open(a, owned);
	if (r) {
		arena_drop(a);
		return r;
	}
	a->empty_ms = exec_now_ms();
	a->next = s->arena;
	s->arena = a;
	if (engine_owned) {
		s->engine_bytes += bytes;
		s->asked = s->refused = 0;
	}
	return 0;
}

void space_refused(struct space *s, int error) {
	s->refused = s->asked;
	s->refusal = error;
	s->refused_ms = exec_now_ms();
	s->asked = 0;
}

static int take_somewhere(struct space *s, uint64_t bytes, struct space_arena **arenap, uint64_t *offsetp) {
	for (struct space_arena *a = s->arena; a; a = a->next) {
		if (!a->engine_owned || range_take(a->range, bytes, offsetp))
			continue;
		*arenap = a;
		return 0;
	}
	return -ENOSPC;
}

/* Of an arena with room for `bytes`. */
static uint64_t arena_bytes(uint64_t bytes) {
	return (bytes + LIMIT_ALIGNMENT + LIMIT_ARENA_SLACK + SPACE_PAGE - 1) & ~(uint64_t)(SPACE_PAGE - 1);
}

static uint64_t usual_growth(const struct space *s) {
	uint64_t ask = s->engine_bytes < SPACE_ARENA_LARGE ? SPACE_ARENA_GROWTH * s->engine_bytes : s->engine_bytes;

	if (ask > SPACE_ARENA_MOST)
		return SPACE_ARENA_MOST;
	return ask < SPACE_ARENA_LEAST ? SPACE_ARENA_LEAST : ask;
}

static int space_ask(struct space *s, uint64_t bytes, bool now) {
	int r = s->callbacks.grow(s->callbacks.user, bytes, now);

	if (r == -EAGAIN)
		s->asked = bytes;
	return r;
}

/* What was refused since it was asked for; 0: nothing was. */
static uint64_t take_refusal(struct space *s) {
	uint64_t bytes = exec_now_ms() - s->refused_ms < SPACE_REFUSAL_MS ? s->refused : 0;

	s->refused = 0;
	return bytes;
}

/*
 * At least as much as there is already, so that the number of arenas stays small, and as all that is expected; where that is refused,
 * what is needed.
 */
static int space_grow(struct space *s, uint64_t bytes, bool now) {
	uint64_t least = arena_bytes(bytes), most = usual_growth(s), refused;
	int r;

	if (s->asked && !now)
		return -EAGAIN;
	refused = take_refusal(s);
	if (refused && refused <= least)
		return s->refusal;
	if (most < arena_bytes(s->expected))
		most = arena_bytes(s->expected);
	r = most > least && !refused ? space_ask(s, most, now) : -ENOMEM;
	return !r || r == -EAGAIN ? r : space_ask(s, least, now);
}

int space_take(struct space *s, uint64_t bytes, bool now, struct space_arena **arenap, uint64_t *offsetp) {
	int r;

	if (s->gone)
		return -ENOMEM;
	if (!take_somewhere(s, bytes, arenap, offsetp))
		return 0;
	r = s->callbacks.grow ? space_grow(s, bytes, now) : -ENOMEM;
	if (r)
		return r;
	return take_somewhere(s, bytes, arenap, offsetp) ? -ENOMEM : 0;
}

void space_give(struct space_arena *a, uint64_t offset, uint64_t bytes) {
	if (range_give(a->range, offset, bytes))
		return;
	if (!range_empty(a->range))
		return;
	a->sequence = a->space->exec->sequence;
	a->empty_ms = exec_now_ms();
}

void space_trim(struct space *s, int64_t now_ms) {
	struct space_arena **link = &s->arena, *a;
	uint32_t id;

	while (s->callbacks.drop && (a = *link)) {
		if (!a->engine_owned || !range_empty(a->range) || a->sequence > s->exec->completed ||
			now_ms - a->empty_ms < SPACE_KEEP_MS) {
			link = &a->next;
			continue;
		}
		*link = a->next;
		id = a->id;
		s->engine_bytes -= a->bytes;
		arena_drop(a);
		s->callbacks.drop(s->callbacks.user, id);
	}
}

void arenas_bury(struct exec *x) {
	struct space_arena **link = &x->dying, *a;
	struct space *s;

	while ((a = *link)) {
		if (a->sequence > x->completed) {
			link = &a->next;
			continue;
		}
		*link = a->next;
		s = a->space;
		arena_drop(a);
		if (!--s->dying)
			tell_left(s);
		space_unref(s);
	}
}

/* ---- extents ---- */

int extent_get(struct space_arena *a, uint64_t offset, uint64_t bytes, struct extent **extentp) {
	struct extent_key key = { offset, bytes };
	struct extent *e;

	HASH_FIND(hh, a->extents, &key, sizeof key, e);
	if (!e) {
		e = memory_zeroed(sizeof *e);
		if (!e)
			return -ENOMEM;
		e->key = key;
		e->arena = a;
		HASH_ADD(hh, a->extents, key, sizeof e->key, e);
	}
	*extentp = e;
	return 0;
}

void extent_release(struct extent *e) {
	struct exec *x = e->arena->space->exec;

	/* An extent waits in the list but once; one whose space went, goes with its arena. */
	if (e->queued || e->arena->space->gone)
		return;
	e->queued = true;
	e->next = NULL;
	if (x->retired_last)
		x->retired_last->next = e;
	else
		x->retired = e;
	x->retired_last = e;
}

/* Tells serve, unless the memory has come into use again meanwhile. */
static void extent_retire(struct extent *e) {
	struct space_arena *a = e->arena;
	struct space *s = a->space;
	struct extent_key key = e->key;

	e->queued = false;
	if (e->buffer)
		return;
	HASH_DELETE(hh, a->extents, e);
	free(e);
	if (!s->gone && s->callbacks.freed)
		s->callbacks.freed(s->callbacks.user, a->id, key.offset, key.bytes);
}

void extents_retire(struct exec *x) {
	struct extent *e;

	while ((e = x->retired) && (e->buffer || e->sequence <= x->completed)) {
		x->retired = e->next;
		if (!x->retired)
			x->retired_last = NULL;
		extent_retire(e);
	}
}

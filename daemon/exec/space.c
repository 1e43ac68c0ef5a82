/*
 * The memory of a session: arenas, and what lies in them.
 *
 * Client-laid-out arenas: the client decides; extents note which parts of them are in use, so that
 * it learns when one is free again. Engine-laid-out arenas: cut by range.h, asked for when there is no
 * room, in growing sizes, and dropped when they were empty for a while, or where another one is refused.
 *
 * One is asked for at a time (struct wish). Its answer is for the runs and publications that wait for it: they may look late, where their user owes
 * time for instance, so it is kept until the last of them has looked or has ended.
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

bool space_has(const struct space *s, uint32_t arena) {
	return space_arena(s, arena);
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

/* Memory that nobody asked for comes, too: that of an engine before this one. */
static void wish_answered(struct space *s, enum wish_state state) {
	if (s->wish.state == WISH_ASKED)
		s->wish.state = s->wish.waiters ? state : WISH_NONE;
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
		wish_answered(s, WISH_CAME);
	}
	return 0;
}

void space_refused(struct space *s, int error) {
	s->wish.error = error;
	wish_answered(s, WISH_REFUSED);
}

bool space_awaits(const struct space *s) {
	return s->wish.state == WISH_ASKED;
}

int space_take(struct space *s, uint64_t bytes, struct space_arena **arenap, uint64_t *offsetp) {
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

/* Drops what is empty since then; *busyp: and something else is, but for what the device still does there. */
static bool drop_empty(struct space *s, int64_t since_ms, bool *busyp) {
	struct space_arena **link = &s->arena, *a;
	bool some = false;
	uint32_t id;

	while (s->callbacks.drop && (a = *link)) {
		bool empty = a->engine_owned && range_empty(a->range) && a->empty_ms <= since_ms;
		bool busy = empty && a->sequence > s->exec->completed;

		*busyp |= busy;
		if (!empty || busy) {
			link = &a->next;
			continue;
		}
		*link = a->next;
		id = a->id;
		s->engine_bytes -= a->bytes;
		arena_drop(a);
		s->callbacks.drop(s->callbacks.user, id);
		some = true;
	}
	return some;
}

/*
 * At least as much as there is already, so that the number of arenas stays small, and as all that is expected; where that is refused,
 * what is needed; where that is, the same once arenas that are empty have gone. 0, -EAGAIN while the device is at something in one, or why not.
 */
static int next_wish(struct space *s, uint64_t least, uint64_t expected, uint64_t *bytesp) {
	uint64_t usual = usual_growth(s);
	bool busy = false;

	*bytesp = least;
	if (s->wish.state != WISH_REFUSED) {
		*bytesp = usual > *bytesp ? usual : *bytesp;
		*bytesp = expected > *bytesp ? expected : *bytesp;
		return 0;
	}
	if (s->wish.bytes > least || drop_empty(s, INT64_MAX, &busy))
		return 0;
	return busy ? -EAGAIN : s->wish.error;
}

static int wish(struct space *s, uint64_t bytes, uint64_t expected) {
	struct wish *w = &s->wish;
	uint64_t ask;
	int r;

	if (!s->callbacks.grow || s->gone)
		return -ENOMEM;
	if (w->state == WISH_ASKED)
		return -EAGAIN;
	do {
		r = next_wish(s, arena_bytes(bytes), arena_bytes(expected), &ask);
		if (r)
			return r;
		w->bytes = ask;
		w->error = s->callbacks.grow(s->callbacks.user, ask);
		w->state = w->error == -EAGAIN ? WISH_ASKED : w->error ? WISH_REFUSED : WISH_NONE;
	} while (w->state == WISH_REFUSED);
	return w->error;
}

static void wait_begin(struct space *s) {
	s->wish.waiters++;
}

static void wait_end(struct space *s) {
	if (!--s->wish.waiters && s->wish.state != WISH_ASKED)
		s->wish.state = WISH_NONE;
}

int space_ask(struct space *s, struct item *who, uint64_t bytes, uint64_t expected) {
	bool waits = who && who->asked;
	int r;

	if (!waits)
		wait_begin(s);
	r = wish(s, bytes, expected);
	if (who && r)
		who->asked = s;
	else if (!waits)
		wait_end(s);
	return r;
}

void space_forgo(struct item *who) {
	if (who->asked)
		wait_end(who->asked);
	who->asked = NULL;
}

/* Where it was asked for less, or what came was too small, more is asked for. */
int space_take_now(struct space *s, uint64_t bytes, struct space_arena **arenap, uint64_t *offsetp) {
	int r, e = 0;

	wait_begin(s);
	while (!e && (r = space_take(s, bytes, arenap, offsetp)) == -ENOSPC) {
		e = wish(s, bytes, bytes);
		if (e == -EAGAIN)
			e = s->wish.state == WISH_ASKED && s->callbacks.await ? s->callbacks.await(s->callbacks.user) : -ENOMEM;
	}
	wait_end(s);
	return e ? e : r;
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
	bool busy = false;

	if (s->wish.state != WISH_CAME)
		drop_empty(s, now_ms - SPACE_KEEP_MS, &busy);
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
		if (!HASH_ADDED(hh, e)) {
			free(e);
			return -ENOMEM;
		}
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

/*
 * The shared memory of sessions: sealed memfds that are allocated in full when they are made, so
 * that the limits count memory that is really used.
 */
#include "daemon/door/arenas.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/shm.h"
#include "daemon/base/descriptors.h"

enum { ARENA_PAGE = 4096 };

static struct client_arena *free_place(struct client *c) {
	for (unsigned i = 0; i < LIMIT_ARENAS; i++)
		if (!c->arena[i].id)
			return &c->arena[i];
	return NULL;
}

static int check_size(const struct client *c, uint64_t bytes, struct fault *f) {
	uint64_t limit = user_config(c->user)->limits_session_bytes;

	if (bytes == 0 || bytes > (uint64_t)LIMIT_ARRAY_BYTES)
		return fault_set(f, FAULT_ARGUMENT, "an arena has 1 to %" PRId64 " bytes, not %" PRIu64,
			LIMIT_ARRAY_BYTES, bytes);
	if (limit && (bytes > limit || c->bytes > limit - bytes))
		return fault_set(f, FAULT_MEMORY,
			"%" PRIu64 " bytes more than the %" PRIu64
			" that the session holds are above limits.session_bytes=%" PRIu64,
			bytes, c->bytes, limit);
	return 0;
}

/* An arena the engine asked for must reach it; one of a client can be asked for again. */
static int tell_engine(struct client *c, const struct client_arena *a, enum arena_owner owner) {
	struct wire_writer w;
	int r;

	/* The next one is told of all. */
	if (c->attachment == CLIENT_ADRIFT)
		return 0;

	client_tell_begin(c, &w, CONTROL_ARENA, 3);
	wire_put_uint(&w, a->id);
	wire_put_uint(&w, a->bytes);
	wire_put_uint(&w, owner);
	r = (owner != ARENA_OF_CLIENT ? child_queue : child_send)(&c->engine->child, &w, a->fd);
	wire_writer_free(&w);
	return r == -EPIPE && c->resumes ? 0 : r;
}

int client_arenas_tell(struct client *c) {
	int r = 0;

	for (unsigned i = 0; !r && i < LIMIT_ARENAS; i++) {
		struct client_arena *a = &c->arena[i];
		struct wire_writer w;

		if (!a->id)
			continue;
		client_tell_begin(c, &w, CONTROL_ARENA, 3);
		wire_put_uint(&w, a->id);
		wire_put_uint(&w, a->bytes);
		wire_put_uint(&w, a->shared ? ARENA_HELD : a->engine ? ARENA_OF_ENGINE : ARENA_OF_CLIENT);
		r = child_queue(&c->engine->child, &w, a->fd);
		wire_writer_free(&w);
	}
	return r;
}

/* The session's record goes first: it names nothing that the service manager does not keep. */
int client_arena_take(struct client *c, struct client_arena *a) {
	struct client_arena gone = *a;
	int fd = gone.fd;

	*a = (struct client_arena){ .fd = -1 };
	store_session(c);
	c->bytes -= gone.bytes;
	c->arenas--;
	c->shared -= gone.shared != NULL;
	if (!gone.shared)
		store_arena_end(c, gone.id);
	else
		fd = shared_arena_drop(c->supervisor, gone.shared);
	/* The others that hold it are charged for it, too. */
	if (fd < 0)
		user_refund_arena(c->user, gone.bytes);
	return fd;
}

/* A place, and so many bytes of the session's limit. */
static int charge(struct client *c, uint64_t bytes, bool shared, struct fault *f) {
	uint32_t own = c->arenas - c->shared;
	int r;

	if ((!shared && own >= LIMIT_ARENAS - LIMIT_SHARED) || (shared && c->shared >= LIMIT_SHARED))
		return fault_set(f, FAULT_LIMIT, "the session has %u arenas%s, as many as there may be",
			shared ? c->shared : own, shared ? " of shared arrays" : "");
	r = check_size(c, bytes, f);
	if (r)
		return r;
	c->bytes += bytes;
	c->arenas++;
	c->shared += shared;
	return 0;
}

static void discharge(struct client *c, uint64_t bytes, bool shared) {
	c->bytes -= bytes;
	c->arenas--;
	c->shared -= shared;
}

static int give_number(struct client *c, struct client_arena *a, enum arena_owner owner) {
	if (owner != ARENA_SHARED) {
		a->id = ++c->last_arena;
		return 0;
	}
	a->shared = shared_arena_new(c->supervisor, a->fd, a->bytes);
	if (!a->shared)
		return -ENOMEM;
	a->id = a->shared->id;
	return 0;
}

static void store(struct client *c, const struct client_arena *a) {
	if (a->shared)
		store_shared(c->supervisor, a->shared);
	else
		store_arena(c, a);
	store_session(c);
	accounts_add(&c->supervisor->accounts, c->uid, &(struct spent){ .bytes = user_bytes(c->user) });
}

/* It is there, and charged: takes over fd. */
static int enter(struct client *c, uint64_t bytes, enum arena_owner owner, int fd, struct client_arena **arenap, struct fault *f) {
	struct client_arena made = { .bytes = bytes, .fd = fd, .writable = true, .engine = owner == ARENA_OF_ENGINE }, *a = free_place(c);
	int r = owner == ARENA_SHARED ? shm_share(fd) : 0;

	if (!r)
		r = descriptors_raise(&made.fd) ? descriptors_fault(f, "an arena") : 0;
	if (!r)
		r = give_number(c, &made, owner);
	if (r) {
		discharge(c, bytes, owner == ARENA_SHARED);
		leaving_give(c->supervisor, c->user, made.fd, bytes);
		return r;
	}
	*a = made;
	r = tell_engine(c, a, owner);
	if (r) {
		client_arena_drop(c, a);
		return r;
	}
	store(c, a);
	*arenap = a;
	return 0;
}

int client_arena_made(struct client *c, struct making *m, struct client_arena **arenap, struct fault *f) {
	enum arena_owner owner = m->owner;
	uint64_t bytes = m->bytes;
	int fd, r = making_take(m, &fd, f);

	if (!r)
		return enter(c, bytes, owner, fd, arenap, f);
	discharge(c, bytes, owner == ARENA_SHARED);
	return r;
}

int client_arena_new(struct client *c, uint64_t bytes, enum arena_owner owner, struct making **makingp, struct client_arena **arenap,
	struct fault *f) {
	uint64_t whole = bytes <= (uint64_t)LIMIT_ARRAY_BYTES ? (bytes + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE : bytes;
	int fd, r = charge(c, whole, owner == ARENA_SHARED, f);

	if (r)
		return r;
	r = making_begin(c, whole, owner, &fd, makingp, f);
	if (!r)
		return enter(c, whole, owner, fd, arenap, f);
	if (!*makingp)
		discharge(c, whole, owner == ARENA_SHARED);
	return r;
}

int client_arena_again(struct client *c, unsigned place, const struct client_arena *a, struct fault *f) {
	int fd = a->fd, r = user_charge_arena(c->user, a->bytes, f);

	if (r && a->shared)
		fd = shared_arena_drop(c->supervisor, a->shared);
	if (r && fd >= 0)
		close(fd);
	if (r)
		return r;
	c->arena[place] = *a;
	c->bytes += a->bytes;
	c->arenas++;
	c->shared += a->shared != NULL;
	return 0;
}

int client_arena_hold(struct client *c, uint64_t id, bool writable, struct fault *f) {
	struct shared_arena *shared = shared_arena_find(c->supervisor, id);
	struct client_arena *a = client_arena_find(c, id);
	int r;

	if (!shared)
		return fault_set(f, FAULT_HANDLE, "there is no shared array in arena %" PRIu64, id);
	if (a) {
		a->writable |= writable;
		store_session(c);
		return 0;
	}
	r = charge(c, shared->bytes, true, f);
	if (r)
		return r;
	r = user_charge_arena(c->user, shared->bytes, f);
	if (r) {
		discharge(c, shared->bytes, true);
		return r;
	}
	shared->holders++;
	*free_place(c) = (struct client_arena){ .id = shared->id, .fd = shared->fd, .bytes = shared->bytes, .shared = shared,
		.writable = writable };
	store_session(c);
	return 0;
}

struct client_arena *client_arena_find(struct client *c, uint64_t id) {
	for (unsigned i = 0; i < LIMIT_ARENAS; i++)
		if (id && c->arena[i].id == id)
			return &c->arena[i];
	return NULL;
}

void client_arena_drop(struct client *c, struct client_arena *a) {
	uint64_t bytes = a->bytes;
	int fd = client_arena_take(c, a);

	if (fd >= 0)
		leaving_give(c->supervisor, c->user, fd, bytes);
}

/* The next daemon has them; what several sessions hold goes with the last of these. */
static void hand_on(struct client *c, struct client_arena *a) {
	user_refund_arena(c->user, a->bytes);
	if (!a->shared)
		close(a->fd);
	else
		shared_arena_hand_on(c->supervisor, a->shared);
	*a = (struct client_arena){ .fd = -1 };
}

void client_arenas_drop(struct client *c) {
	if (!c->returns) {
		leaving_begin(c);
		return;
	}
	for (unsigned i = 0; i < LIMIT_ARENAS; i++)
		if (c->arena[i].id)
			hand_on(c, &c->arena[i]);
}

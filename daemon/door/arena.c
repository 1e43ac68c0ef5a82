/*
 * The shared memory of sessions: sealed memfds that are allocated in full when they are made, so
 * that the limits count memory that is really used.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "protocol/message.h"
#include "protocol/shm.h"

enum { ARENA_PAGE = 4096 };

static struct client_arena *free_place(struct client *c) {
	for (unsigned i = 0; i < LIMIT_ARENAS; i++)
		if (!c->arena[i].id)
			return &c->arena[i];
	return NULL;
}

static int check_size(const struct client *c, uint64_t bytes, struct fault *f) {
	uint64_t limit = c->supervisor->config.limits_session_bytes;

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

static int create(const struct client *c, uint64_t bytes, enum arena_owner owner, int *fdp, struct fault *f) {
	char name[32];
	int r = 0;

	snprintf(name, sizeof name, "fusiond-%" PRIu64, c->session);
	if (!cleared_take(&c->supervisor->cleared, bytes, fdp))
		r = shm_create(name, bytes, fdp);
	if (!r && owner == ARENA_SHARED)
		r = shm_share(*fdp);
	if (r == -ENOMEM || r == -ENOSPC)
		return fault_set(
			f, FAULT_MEMORY, "the machine has no %" PRIu64 " bytes of memory left", bytes);
	if (r == -EMFILE || r == -ENFILE)
		return fault_set(f, FAULT_LIMIT, "the daemon has no descriptor left for an arena");
	return r;
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

/*
 * Where it is of a shared array, the others that hold it keep it. The session's record goes first: it names nothing that the service manager does
 * not keep.
 */
static void forget(struct client *c, struct client_arena *a) {
	struct client_arena gone = *a;

	*a = (struct client_arena){ .fd = -1 };
	store_session(c);
	user_refund_bytes(c->user, gone.bytes);
	c->bytes -= gone.bytes;
	c->arenas--;
	if (gone.shared) {
		c->shared--;
		shared_arena_drop(c->supervisor, gone.shared, c->returns);
	} else {
		if (!c->returns)
			store_arena_end(c, gone.id);
		close(gone.fd);
	}
}

/* A place, and the right to so many bytes. */
static int charge(struct client *c, uint64_t bytes, bool shared, struct client_arena **arenap, struct fault *f) {
	uint32_t own = c->arenas - c->shared;
	int r;

	*arenap = free_place(c);
	if (!*arenap || (!shared && own >= LIMIT_ARENAS - LIMIT_SHARED) || (shared && c->shared >= LIMIT_SHARED))
		return fault_set(f, FAULT_LIMIT, "the session has %u arenas%s, as many as there may be",
			shared ? c->shared : own, shared ? " of shared arrays" : "");
	r = check_size(c, bytes, f);
	return r ? r : user_charge_bytes(c->user, &c->supervisor->config, bytes, f);
}

static void keep(struct client *c, struct client_arena *a) {
	c->bytes += a->bytes;
	c->arenas++;
	c->shared += a->shared != NULL;
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

int client_arena_new(struct client *c, uint64_t bytes, enum arena_owner owner, struct client_arena **arenap,
	struct fault *f) {
	uint64_t whole = bytes <= (uint64_t)LIMIT_ARRAY_BYTES ? (bytes + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE : bytes;
	struct client_arena made = { .bytes = whole, .fd = -1, .writable = true, .engine = owner == ARENA_OF_ENGINE }, *a;
	int r = charge(c, whole, owner == ARENA_SHARED, &a, f);

	if (r)
		return r;
	r = create(c, whole, owner, &made.fd, f);
	if (!r)
		r = give_number(c, &made, owner);
	if (r) {
		if (made.fd >= 0)
			close(made.fd);
		user_refund_bytes(c->user, whole);
		return r;
	}
	*a = made;
	keep(c, a);
	r = tell_engine(c, a, owner);
	if (r) {
		forget(c, a);
		return r;
	}
	if (a->shared)
		store_shared(c->supervisor, a->shared);
	else
		store_arena(c, a);
	store_session(c);
	*arenap = a;
	return 0;
}

int client_arena_again(struct client *c, unsigned place, const struct client_arena *a, struct fault *f) {
	int r = user_charge_bytes(c->user, &c->supervisor->config, a->bytes, f);

	if (r && a->shared)
		shared_arena_drop(c->supervisor, a->shared, false);
	else if (r)
		close(a->fd);
	if (r)
		return r;
	c->arena[place] = *a;
	keep(c, &c->arena[place]);
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
	r = charge(c, shared->bytes, true, &a, f);
	if (r)
		return r;
	shared->holders++;
	*a = (struct client_arena){ .id = shared->id, .fd = shared->fd, .bytes = shared->bytes, .shared = shared,
		.writable = writable };
	keep(c, a);
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
	/* The client may still map it; without its pages that costs nothing. */
	if (!a->shared && fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)a->bytes) < 0)
		log_warning("memory of session %" PRIu64 " stays: %s", c->session, strerror(errno));
	forget(c, a);
}

void client_arenas_drop(struct client *c) {
	for (unsigned i = 0; i < LIMIT_ARENAS; i++)
		if (c->arena[i].id)
			forget(c, &c->arena[i]);
}

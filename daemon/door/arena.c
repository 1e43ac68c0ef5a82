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

static int create(const struct client *c, uint64_t bytes, int *fdp, struct fault *f) {
	char name[32];
	int r;

	snprintf(name, sizeof name, "fusiond-%" PRIu64, c->session);
	r = shm_create(name, bytes, fdp);
	if (r == -ENOMEM || r == -ENOSPC)
		return fault_set(
			f, FAULT_MEMORY, "the machine has no %" PRIu64 " bytes of memory left", bytes);
	if (r == -EMFILE || r == -ENFILE)
		return fault_set(f, FAULT_LIMIT, "the daemon has no descriptor left for an arena");
	return r;
}

/* An arena the engine asked for must reach it; one of a client can be asked for again. */
static int tell_engine(struct client *c, const struct client_arena *a, bool engine_owned) {
	struct wire_writer w;
	int r;

	wire_writer_init(&w);
	wire_put_array(&w, 5);
	wire_put_uint(&w, CONTROL_ARENA);
	wire_put_uint(&w, c->session);
	wire_put_uint(&w, a->id);
	wire_put_uint(&w, a->bytes);
	wire_put_uint(&w, engine_owned);
	r = (engine_owned ? child_queue : child_send)(&c->supervisor->child, &w, a->fd);
	wire_writer_free(&w);
	return r;
}

static void forget(struct client *c, struct client_arena *a) {
	close(a->fd);
	user_refund_bytes(c->user, a->bytes);
	c->bytes -= a->bytes;
	c->arenas--;
	*a = (struct client_arena){ .fd = -1 };
}

int client_arena_new(struct client *c, uint64_t bytes, bool engine_owned, struct client_arena **arenap,
	struct fault *f) {
	struct client_arena *a = free_place(c);
	int r;

	if (!a)
		return fault_set(
			f, FAULT_LIMIT, "the session has %u arenas, as many as there may be", c->arenas);
	r = check_size(c, bytes, f);
	if (r)
		return r;
	bytes = (bytes + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
	r = user_charge_bytes(c->user, &c->supervisor->config, bytes, f);
	if (r)
		return r;
	r = create(c, bytes, &a->fd, f);
	if (r) {
		user_refund_bytes(c->user, bytes);
		return r;
	}
	a->id = ++c->last_arena;
	a->bytes = bytes;
	c->bytes += bytes;
	c->arenas++;
	r = tell_engine(c, a, engine_owned);
	if (r)
		forget(c, a);
	else
		*arenap = a;
	return r;
}

struct client_arena *client_arena_find(struct client *c, uint64_t id) {
	for (unsigned i = 0; i < LIMIT_ARENAS; i++)
		if (id && c->arena[i].id == id)
			return &c->arena[i];
	return NULL;
}

void client_arena_drop(struct client *c, struct client_arena *a) {
	/* The client may still map it; without its pages that costs nothing. */
	if (fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)a->bytes) < 0)
		log_warning("memory of session %" PRIu64 " stays: %s", c->session, strerror(errno));
	forget(c, a);
}

void client_arenas_drop(struct client *c) {
	for (unsigned i = 0; i < LIMIT_ARENAS; i++)
		if (c->arena[i].id)
			forget(c, &c->arena[i]);
}

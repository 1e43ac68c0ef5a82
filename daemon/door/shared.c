/*
 * The memory of exported arrays: memfds that belong to no session, but to all that hold them.
 *
 * One goes with its last holder, and its pages with it, so that a client that still maps it keeps no memory that
 * nobody is charged for. Nobody but the supervisor can open one anew (shm_share()), so a session gets no more
 * of it than the descriptor it was given.
 */
#include "client.h"

#include <stdlib.h>
#include <unistd.h>

/* Numbers come again after two thousand million exports; those of arenas that live are passed by. */
static uint32_t next_number(struct supervisor *s) {
	do {
		s->last_shared++;
		if (s->last_shared < LIMIT_ARENA_NUMBERS || s->last_shared == UINT32_MAX)
			s->last_shared = LIMIT_ARENA_NUMBERS;
	} while (shared_arena_find(s, s->last_shared));
	return s->last_shared;
}

struct shared_arena *shared_arena_again(struct supervisor *s, uint32_t id, int fd, uint64_t bytes) {
	struct shared_arena *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	*a = (struct shared_arena){ .id = id, .holders = 1, .fd = fd, .bytes = bytes };
	HASH_ADD(hh, s->shared, id, sizeof a->id, a);
	if (!HASH_ADDED(hh, a)) {
		free(a);
		return NULL;
	}
	if (id > s->last_shared)
		s->last_shared = id;
	return a;
}

struct shared_arena *shared_arena_new(struct supervisor *s, int fd, uint64_t bytes) {
	return shared_arena_again(s, next_number(s), fd, bytes);
}

struct shared_arena *shared_arena_find(struct supervisor *s, uint64_t id) {
	struct shared_arena *a = NULL;
	uint32_t number = (uint32_t)id;

	if (id <= UINT32_MAX)
		HASH_FIND(hh, s->shared, &number, sizeof number, a);
	return a;
}

static void shared_free(struct supervisor *s, struct shared_arena *a) {
	HASH_DELETE(hh, s->shared, a);
	free(a);
}

int shared_arena_drop(struct supervisor *s, struct shared_arena *a) {
	int fd = a->fd;

	if (--a->holders)
		return -1;
	store_shared_end(s, a->id);
	shared_free(s, a);
	return fd;
}

void shared_arena_hand_on(struct supervisor *s, struct shared_arena *a) {
	if (--a->holders)
		return;
	close(a->fd);
	shared_free(s, a);
}

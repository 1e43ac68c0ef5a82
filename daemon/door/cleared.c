/* Shared memory that is cleared before anybody asks for it; see cleared.h. */
#include "cleared.h"

#include <string.h>
#include <unistd.h>

#include "protocol/shm.h"

#include "daemon/base/loop.h"

enum {
	/* After one was taken: first calls have ended by then. */
	CLEARED_PAUSE_US = 100000,
	/* After one could not be made, since memory is short. */
	CLEARED_RETRY_US = 1000000,
	/* What is so much smaller than a piece is not worth one. */
	CLEARED_PART = 16,
	CLEARED_PAGE = 4096,
};

/* This thread alone adds pieces, so there is room for one that was made meanwhile. */
static uint64_t finish_one(struct cleared *c, int failed, int fd) {
	uint64_t next;

	pthread_mutex_lock(&c->lock);
	if (failed)
		c->next_us = loop_now() + CLEARED_RETRY_US;
	else
		c->fd[c->count++] = fd;
	next = c->next_us;
	pthread_mutex_unlock(&c->lock);
	return next;
}

static uint64_t make_one(void *user) {
	struct cleared *c = user;
	uint64_t next;
	unsigned count;
	int fd = -1, r;

	pthread_mutex_lock(&c->lock);
	next = c->next_us;
	count = c->count;
	pthread_mutex_unlock(&c->lock);
	if (count == CLEARED_PIECES)
		return UINT64_MAX;
	if (loop_now() < next)
		return next;
	r = shm_prepare("fusiond", c->bytes, &fd);
	return finish_one(c, r, fd);
}

int cleared_open(struct cleared *c, uint64_t bytes) {
	memset(c, 0, sizeof *c);
	c->bytes = bytes / CLEARED_PIECES / CLEARED_PAGE * CLEARED_PAGE;
	if (!c->bytes)
		return 0;
	pthread_mutex_init(&c->lock, NULL);
	return periodic_start(&c->thread, "cleared", make_one, c);
}

/* -1: there is none. */
static int take_piece(struct cleared *c) {
	int fd = -1;

	pthread_mutex_lock(&c->lock);
	if (c->count) {
		fd = c->fd[--c->count];
		c->next_us = loop_now() + CLEARED_PAUSE_US;
	}
	pthread_mutex_unlock(&c->lock);
	if (fd >= 0)
		periodic_wake(&c->thread);
	return fd;
}

bool cleared_take(struct cleared *c, uint64_t bytes, int *fdp) {
	int fd;

	if (!c->thread.started || bytes > c->bytes || bytes < c->bytes / CLEARED_PART)
		return false;
	fd = take_piece(c);
	if (fd < 0)
		return false;
	if (shm_finish(fd, bytes)) {
		close(fd);
		return false;
	}
	*fdp = fd;
	return true;
}

void cleared_close(struct cleared *c) {
	if (!c->thread.started)
		return;
	periodic_end(&c->thread);
	while (c->count > 0)
		close(c->fd[--c->count]);
	pthread_mutex_destroy(&c->lock);
}

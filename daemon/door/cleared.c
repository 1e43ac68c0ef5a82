/* Shared memory that is cleared before anybody asks for it; see cleared.h. */
#include "cleared.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "protocol/shm.h"

#include "daemon/base/loop.h"
#include "daemon/base/thread.h"

enum {
	/* After one was taken: first calls have ended by then. */
	CLEARED_PAUSE_US = 100000,
	/* After one could not be made, since memory is short. */
	CLEARED_RETRY_US = 1000000,
	/* What is so much smaller than a piece is not worth one. */
	CLEARED_PART = 16,
	CLEARED_PAGE = 4096,
};

/* Requires the lock. */
static void sleep_until(struct cleared *c, uint64_t us) {
	const struct timespec t = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };

	pthread_cond_timedwait(&c->wake, &c->lock, &t);
}

/* Requires the lock, and gives it up for as long as it takes. */
static void make_one(struct cleared *c) {
	int fd = -1, r;

	pthread_mutex_unlock(&c->lock);
	r = shm_prepare("fusiond", c->bytes, &fd);
	pthread_mutex_lock(&c->lock);
	if (r)
		c->next_us = loop_now() + CLEARED_RETRY_US;
	else
		c->fd[c->count++] = fd;
}

static void *cleared_main(void *argument) {
	struct cleared *c = argument;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		if (c->count == CLEARED_PIECES)
			pthread_cond_wait(&c->wake, &c->lock);
		else if (loop_now() < c->next_us)
			sleep_until(c, c->next_us);
		else
			make_one(c);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int cleared_open(struct cleared *c, uint64_t bytes) {
	int r;

	memset(c, 0, sizeof *c);
	c->bytes = bytes / CLEARED_PIECES / CLEARED_PAGE * CLEARED_PAGE;
	if (!c->bytes)
		return 0;
	pthread_mutex_init(&c->lock, NULL);
	thread_condition_init(&c->wake);
	r = thread_start(&c->thread, "cleared", cleared_main, c);
	c->started = !r;
	return r;
}

/* -1: there is none. */
static int take_piece(struct cleared *c) {
	int fd = -1;

	pthread_mutex_lock(&c->lock);
	if (c->count) {
		fd = c->fd[--c->count];
		c->next_us = loop_now() + CLEARED_PAUSE_US;
		pthread_cond_signal(&c->wake);
	}
	pthread_mutex_unlock(&c->lock);
	return fd;
}

bool cleared_take(struct cleared *c, uint64_t bytes, int *fdp) {
	int fd;

	if (!c->started || bytes > c->bytes || bytes < c->bytes / CLEARED_PART)
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
	if (!c->started)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	while (c->count > 0)
		close(c->fd[--c->count]);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	c->started = false;
}

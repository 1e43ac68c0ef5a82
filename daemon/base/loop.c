/* An epoll loop; see loop.h. Removed sources wait in `dead` until the turn that may still name them ends. */
#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { LOOP_EVENTS = 64 };

struct loop_source {
	struct loop *loop;
	int fd;
	loop_function *function;       /* NULL once removed */
	void *user;
	struct loop_source *previous, *next;
};

struct loop {
	int epoll;
	struct loop_source *alive, *dead;
};

static void list_push(struct loop_source **headp, struct loop_source *s) {
	s->previous = NULL;
	s->next = *headp;
	if (s->next)
		s->next->previous = s;
	*headp = s;
}

static void list_remove(struct loop_source **headp, struct loop_source *s) {
	if (s->previous)
		s->previous->next = s->next;
	else
		*headp = s->next;
	if (s->next)
		s->next->previous = s->previous;
}

static void list_free(struct loop_source **headp) {
	while (*headp) {
		struct loop_source *s = *headp;

		*headp = s->next;
		free(s);
	}
}

int loop_new(struct loop **loopp) {
	struct loop *l = calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0) {
		free(l);
		return -errno;
	}
	*loopp = l;
	return 0;
}

struct loop *loop_free(struct loop *l) {
	if (!l)
		return NULL;
	list_free(&l->alive);
	list_free(&l->dead);
	close(l->epoll);
	free(l);
	return NULL;
}

int loop_add(struct loop *l, int fd, uint32_t events, loop_function *function, void *user,
	struct loop_source **sourcep) {
	struct loop_source *s = calloc(1, sizeof *s);
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (!s)
		return -ENOMEM;
	*s = (struct loop_source){ .loop = l, .fd = fd, .function = function, .user = user };
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
		free(s);
		return -errno;
	}
	list_push(&l->alive, s);
	*sourcep = s;
	return 0;
}

int loop_change(struct loop_source *s, uint32_t events) {
	struct epoll_event e = { .events = events, .data.ptr = s };

	return epoll_ctl(s->loop->epoll, EPOLL_CTL_MOD, s->fd, &e) < 0 ? -errno : 0;
}

struct loop_source *loop_remove(struct loop_source *s) {
	if (!s)
		return NULL;
	epoll_ctl(s->loop->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	s->function = NULL;
	list_remove(&s->loop->alive, s);
	list_push(&s->loop->dead, s);
	return NULL;
}

/* Rounded up, so that a deadline has passed when the wait for it ends. */
static int milliseconds(int64_t us) {
	if (us < 0)
		return -1;
	if (us > INT64_C(86400000000))
		us = INT64_C(86400000000);
	return (int)((us + 999) / 1000);
}

int loop_turn(struct loop *l, int64_t timeout_us) {
	struct epoll_event event[LOOP_EVENTS];
	int n = epoll_wait(l->epoll, event, LOOP_EVENTS, milliseconds(timeout_us));

	if (n < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < n; i++) {
		struct loop_source *s = event[i].data.ptr;

		if (s->function)
			s->function(s->user, event[i].events);
	}
	list_free(&l->dead);
	return 0;
}

uint64_t loop_now_ns(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t loop_now(void) {
	return loop_now_ns() / 1000;
}

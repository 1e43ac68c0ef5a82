/* A daemon that nobody wants ends; see idle.h. */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
	/* Who holds the lock starts a daemon, finds this one, and is connected soon. */
	IDLE_AGAIN_US = 1000 * 1000,
};

void idle_init(struct idle *i) {
	*i = (struct idle){ .lock = -1 };
}

/* 0 with the lock. One that cannot be made is nobody's: no library can have it either. */
static int take_lock(struct supervisor *s) {
	char path[CONFIG_TEXT + 8];
	char *slash;

	snprintf(path, sizeof path, "%s", s->config.door_socket);
	slash = strrchr(path, '/');
	snprintf(slash, sizeof ".lock", ".lock");
	s->idle.lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->idle.lock < 0 || !flock(s->idle.lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return 0;
	close(s->idle.lock);
	s->idle.lock = -1;
	return -EWOULDBLOCK;
}

static void drop_lock(struct supervisor *s) {
	if (s->idle.lock >= 0)
		close(s->idle.lock);
	s->idle.lock = -1;
}

/* Nobody finds the door any more: false where somebody had come before, and it is found again. */
static bool withdraw(struct supervisor *s) {
	char aside[CONFIG_TEXT + 8];

	snprintf(aside, sizeof aside, "%s.idle", s->config.door_socket);
	if (rename(s->config.door_socket, aside) < 0)
		return true;
	door_accept(s);
	if (!s->connections) {
		unlink(aside);
		return true;
	}
	if (rename(aside, s->config.door_socket) < 0)
		log_error("%s cannot be put back: %s", s->config.door_socket, strerror(errno));
	return false;
}

/* Who comes to a socket of the service manager's waits in it, and has another daemon started: nothing is to be withdrawn. */
static bool let_go(struct supervisor *s, uint64_t now) {
	if (s->passed)
		return true;
	if (take_lock(s)) {
		s->idle.again_us = now + IDLE_AGAIN_US;
		return false;
	}
	if (withdraw(s))
		return true;
	drop_lock(s);
	return false;
}

static void end(struct supervisor *s, uint64_t now) {
	if (!let_go(s, now))
		return;
	log_info("nobody was connected for door.idle_exit_us: the end");
	supervisor_stop(s, EXIT_SUCCESS);
}

uint64_t idle_tick(struct supervisor *s, uint64_t now) {
	struct idle *i = &s->idle;
	uint64_t due;

	if (!s->config.door_idle_exit_us || s->connections || s->stopping) {
		i->since_us = 0;
		return UINT64_MAX;
	}
	if (!i->since_us)
		i->since_us = now;
	due = i->since_us + s->config.door_idle_exit_us;
	if (due < i->again_us)
		due = i->again_us;
	if (now < due)
		return due;
	end(s, now);
	return s->stopping ? UINT64_MAX : now + IDLE_AGAIN_US;
}

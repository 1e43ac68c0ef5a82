/*
 * The socket of the service manager ($NOTIFY_SOCKET, sd_notify(3)), without waiting for it: its queue takes a few hundred messages, and the daemon hands
 * over three or four descriptors for each session, so sd_notify() would stand still with all clients behind it while the manager
 * is busy. What the queue does not take waits here, in order, until it does.
 */
#pragma once

#include <stdbool.h>

#include "daemon/base/loop.h"

struct manager_message;

struct manager {
	int fd;                      /* -1: nobody listens */
	struct loop *loop;           /* NULL: not yet */
	struct loop_source *source;
	struct manager_message *first;
};

void manager_open(struct manager *m);
/* From now on what waits goes when it can; until then only with the next message. */
void manager_watch(struct manager *m, struct loop *loop);
/* Waits up to a second for what waits. */
void manager_close(struct manager *m);

static inline bool manager_listens(const struct manager *m) {
	return m->fd >= 0;
}

/* fd: goes along, as a copy; -1: none. Nothing happens where nobody listens. What cannot be sent is on the log. */
void manager_tell(struct manager *m, int fd, const char *format, ...) __attribute__((format(printf, 3, 4)));

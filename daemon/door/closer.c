/* Sockets of clients are closed here; see closer.h. */
#include "closer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/door/apart.h"
#include "daemon/door/supervisor.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

enum {
	/* Packets that are thrown away by the loop: more than a client that keeps the protocol has under way. */
	CLOSER_PACKETS = 64,
	CLOSER_BYTES = 4096,
};

struct closing {
	struct apart apart;
	struct supervisor *supervisor;
	struct user *user;
	int fd;
};

/* ---- receiving ---- */

void closer_refuse_descriptors(int fd) {
	const int no = 0;

	/* An older kernel does not know it: then packets are looked at. */
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no);
}

ssize_t closer_receive(int fd, void *bytes, size_t size) {
	struct iovec part = { .iov_base = bytes, .iov_len = size };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	/* There is no room for descriptors, so none is made here; that they were there is told. */
	do {
		n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (m.msg_flags & MSG_CTRUNC)
		return -EPROTO;
	/* What was seen and no more: more may have come since. */
	if (n && recv(fd, bytes, (size_t)n, MSG_DONTWAIT) != n)
		return -EIO;
	return m.msg_flags & MSG_TRUNC ? -EMSGSIZE : n;
}

/* Throws away what lies in it. False where that must not be done here. */
static bool drain(int fd) {
	char bytes[CLOSER_BYTES];

	for (unsigned i = 0; i < CLOSER_PACKETS; i++) {
		ssize_t n = closer_receive(fd, bytes, sizeof bytes);

		if (n <= 0 && n != -EMSGSIZE)
			return n != -EPROTO && n != -EIO;
	}
	return false;
}

/* ---- closing ---- */

static void give_back(struct supervisor *s, struct user *user) {
	if (!user)
		return;
	s->connections--;
	user_refund_connection(user);
	users_put(&s->users, user);
}

static void close_now(struct apart *a) {
	close(((struct closing *)a)->fd);
}

static void on_closed(struct apart *a) {
	struct closing *c = (struct closing *)a;

	give_back(c->supervisor, c->user);
	free(c);
}

static int close_apart(struct supervisor *s, int fd, struct user *user) {
	struct closing *c = calloc(1, sizeof *c);
	int r;

	if (!c)
		return -ENOMEM;
	*c = (struct closing){ .apart = { .run = close_now, .done = on_closed }, .supervisor = s, .user = user, .fd = fd };
	r = apart_start(&c->apart, "closing");
	if (r)
		free(c);
	return r;
}

void closer_take(struct supervisor *s, int fd, struct user *user) {
	int r;

	/* From here on nothing more comes. */
	shutdown(fd, SHUT_RDWR);
	if (drain(fd)) {
		close(fd);
		give_back(s, user);
		return;
	}
	r = close_apart(s, fd, user);
	/* Its descriptor and its place among his connections stay taken. */
	if (r)
		log_warning("a connection that holds descriptors cannot be closed: %s", strerror(-r));
}

/* Messages to the service manager; see manager.h. */
#include "manager.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <utlist.h>

#include "daemon/base/log.h"

enum {
	/* The longest is a line of status. */
	MANAGER_TEXT = 640,
	/* At the end of the daemon, for what waits: the manager reads hundreds in a millisecond, or is in no state to care. */
	MANAGER_LAST_MS = 1000,
};

struct manager_message {
	struct manager_message *prev, *next;
	int fd;
	char text[];
};

/* ---- the socket ---- */

/* "/..." or "@...", a name that is no file's. Machines that are told over vsock have no descriptors to keep. */
static socklen_t read_address(const char *path, struct sockaddr_un *address) {
	size_t size = strlen(path);

	if ((*path != '/' && *path != '@') || size < 2 || size >= sizeof address->sun_path)
		return 0;
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path, path, size);
	if (*path == '@')
		address->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
}

/* Connected, so that it can be asked whether there is room at the other end. */
static int connect_to(const char *path) {
	struct sockaddr_un address;
	socklen_t size = read_address(path, &address);
	int fd;

	if (!size)
		return -EPROTONOSUPPORT;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)&address, size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -errno;
}

void manager_open(struct manager *m) {
	const char *path = getenv("NOTIFY_SOCKET");

	*m = (struct manager){ .fd = -1 };
	if (!path || !*path)
		return;
	m->fd = connect_to(path);
	if (m->fd < 0)
		log_warning("the service manager hears nothing of this daemon: %s: %s", path, strerror(-m->fd));
}

/* ---- sending ---- */

/* 0, -EAGAIN where the manager's queue is full, or -errno. */
static int send_now(const struct manager *m, const char *text, int fd) {
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof fd)];
	} control = { 0 };
	struct iovec part = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
		control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	}
	if (sendmsg(m->fd, &message, MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == ENOBUFS ? -EAGAIN : -errno;
}

/* The manager may have made its socket anew. */
static int send_again(struct manager *m, const char *text, int fd) {
	const char *path = getenv("NOTIFY_SOCKET");
	int r = send_now(m, text, fd), fresh = r == -ECONNREFUSED && path ? connect_to(path) : -1;

	if (fresh < 0)
		return r;
	m->source = loop_remove(m->source);
	close(m->fd);
	m->fd = fresh;
	return send_now(m, text, fd);
}

/* A descriptor that is not kept is missing at the next start. */
static void complain(const char *text, int fd, int r) {
	log_message(fd < 0 ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING, "the service manager was not told: %s: %s", text, strerror(-r));
}

static void drop_first(struct manager *m) {
	struct manager_message *x = m->first;

	DL_DELETE(m->first, x);
	if (x->fd >= 0)
		close(x->fd);
	free(x);
}

static void send_waiting(struct manager *m) {
	while (m->first) {
		int r = send_again(m, m->first->text, m->first->fd);

		if (r == -EAGAIN)
			return;
		if (r)
			complain(m->first->text, m->first->fd, r);
		drop_first(m);
	}
}

static void on_room(void *user, uint32_t events);

/* While something waits. */
static void watch(struct manager *m) {
	int r = 0;

	if (!m->first)
		m->source = loop_remove(m->source);
	else if (!m->source && m->loop)
		r = loop_add(m->loop, m->fd, EPOLLOUT, on_room, m, &m->source);
	if (r)
		log_error("the service manager's socket is not watched: %s", strerror(-r));
}

static void on_room(void *user, uint32_t events) {
	struct manager *m = user;

	(void)events;
	send_waiting(m);
	watch(m);
}

void manager_watch(struct manager *m, struct loop *loop) {
	m->loop = loop;
	watch(m);
}

static int keep(struct manager *m, const char *text, int fd) {
	struct manager_message *x = malloc(sizeof *x + strlen(text) + 1);

	if (!x)
		return -ENOMEM;
	x->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0 && x->fd < 0) {
		free(x);
		return -errno;
	}
	strcpy(x->text, text);
	DL_APPEND(m->first, x);
	return 0;
}

void manager_tell(struct manager *m, int fd, const char *format, ...) {
	char text[MANAGER_TEXT];
	va_list list;
	int r;

	if (m->fd < 0)
		return;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	send_waiting(m);
	r = m->first ? -EAGAIN : send_again(m, text, fd);
	if (r == -EAGAIN)
		r = keep(m, text, fd);
	if (r)
		complain(text, fd, r);
	watch(m);
}

void manager_close(struct manager *m) {
	uint64_t end = loop_now() + UINT64_C(1000) * MANAGER_LAST_MS;
	struct pollfd p = { .fd = m->fd, .events = POLLOUT };

	m->source = loop_remove(m->source);
	while (m->fd >= 0 && m->first && loop_now() < end && poll(&p, 1, MANAGER_LAST_MS) > 0)
		send_waiting(m);
	while (m->first)
		drop_first(m);
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

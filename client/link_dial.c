/* Names of daemons on other machines, and how they are called. See link.h. */
#include "link_state.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PORT_MOST = 65535,
};

/* ---- names ---- */

static const char plain_scheme[] = "tcp://", tls_scheme[] = "tls+tcp://";

static bool has_prefix(const char *text, const char *prefix) {
	return !strncmp(text, prefix, strlen(prefix));
}

bool link_is_url(const char *text) {
	size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz+");

	return scheme && has_prefix(text + scheme, "://");
}

int link_url_read(const char *text, struct link_url *u, struct fault *f) {
	const char *host, *colon;
	size_t length;

	u->tls = has_prefix(text, tls_scheme);
	if (!u->tls && !has_prefix(text, plain_scheme))
		return fault_set(f, FAULT_ARGUMENT, "\"%s\" is neither tcp://HOST:PORT nor tls+tcp://HOST:PORT, and no path of a socket", text);
	host = text + strlen(u->tls ? tls_scheme : plain_scheme);
	colon = strrchr(host, ':');
	length = colon ? (size_t)(colon - host) : 0;
	if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
		host++;
		length -= 2;
	}
	if (!length || length >= sizeof u->host || !colon[1] || strlen(colon + 1) >= sizeof u->port)
		return fault_set(f, FAULT_ARGUMENT, "\"%s\" is neither tcp://HOST:PORT nor tls+tcp://HOST:PORT", text);
	if (colon[1 + strspn(colon + 1, "0123456789")] || strtoul(colon + 1, NULL, 10) > PORT_MOST)
		return fault_set(f, FAULT_ARGUMENT, "\"%s\": a port is a number of at most %d, not %s", text, PORT_MOST, colon + 1);
	snprintf(u->host, sizeof u->host, "%.*s", (int)length, host);
	snprintf(u->port, sizeof u->port, "%s", colon + 1);
	return 0;
}

/* ---- dialling ---- */

static int refuse_dial(const char *url, const char *why, struct fault *f) {
	return fault_set(f, FAULT_CONNECT, "no daemon answers at %s (%s)", url, why);
}

static int await_connected(int fd, uint64_t deadline_us, link_sleeps *sleeps) {
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int r = 0;

	while (!r && !poll(&p, 1, 0))
		r = link_wait_by(sleeps, fd, POLLOUT, deadline_us);
	return r;
}

/* One address. The socket, or -errno. */
static int connect_one(const struct addrinfo *a, uint64_t deadline_us, link_sleeps *sleeps) {
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol), error = 0;
	socklen_t size = sizeof error;

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen))
		error = errno;
	if (error == EINPROGRESS)
		error = -await_connected(fd, deadline_us, sleeps);
	if (!error && deadline_us && link_now_us() >= deadline_us)
		error = ETIMEDOUT;
	if (!error && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
		error = errno;
	if (!error)
		return fd;
	close(fd);
	return -error;
}

static int connect_any(const char *url, const struct link_url *u, uint64_t deadline_us, link_sleeps *sleeps, int *fdp, struct fault *f) {
	struct addrinfo *list;
	char why[128];
	int unknown, r = link_addresses(u, deadline_us, sleeps, &list, &unknown);

	if (r)
		return r == -ECANCELED ? r : refuse_dial(url, strerror_r(-r, why, sizeof why), f);
	if (unknown)
		return refuse_dial(url, gai_strerror(unknown), f);
	*fdp = -EHOSTUNREACH;
	for (const struct addrinfo *a = list; a && *fdp < 0 && *fdp != -ECANCELED; a = a->ai_next)
		*fdp = connect_one(a, deadline_us, sleeps);
	freeaddrinfo(list);
	if (*fdp == -ECANCELED)
		return *fdp;
	return *fdp < 0 ? refuse_dial(url, strerror_r(-*fdp, why, sizeof why), f) : 0;
}

int link_dial(const char *url, const struct link_files *files, uint32_t timeout_ms, link_sleeps *sleeps, struct link **linkp,
	struct fault *f) {
	uint64_t deadline = timeout_ms ? link_now_us() + UINT64_C(1000) * timeout_ms : 0;
	struct link_keys *keys = NULL;
	struct link *l = NULL;
	struct link_url u;
	int fd = -1;
	int r = link_url_read(url, &u, f);

	if (!r && u.tls)
		r = link_keys_new(files, false, &keys, f);
	if (!r)
		r = connect_any(url, &u, deadline, sleeps, &fd, f);
	if (!r) {
		l = link_new(fd);
		r = l ? 0 : -ENOMEM;
	}
	if (!r)
		l->sleeps = sleeps;
	if (!r && u.tls)
		r = link_secure(l, keys, u.host, deadline, f);
	if (r) {
		link_free(l);
		link_keys_free(keys);
		return r;
	}
	l->own = keys;
	*linkp = l;
	return 0;
}

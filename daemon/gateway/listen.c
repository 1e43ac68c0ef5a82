/* Where clients of other machines connect; see gateway.h. */
#include "gateway.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/link.h"

enum {
	/* They are accepted at once; a burst of them waits in the kernel. */
	LISTEN_BACKLOG = 64,
};

static bool is_loopback(const struct sockaddr *a) {
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int check_plain(const struct config *c, const char *url, const struct sockaddr *a, struct fault *f) {
	if (!*c->remote_plain_user)
		return fault_set(f, FAULT_ARGUMENT, "remote.listen %s: tcp proves nobody's name; say tls+tcp://, or whose limits hold with "
			"remote.plain_user", url);
	if (!is_loopback(a) && !c->remote_plain_anywhere)
		return fault_set(f, FAULT_ARGUMENT, "remote.listen %s: others read and change what tcp carries between machines; say "
			"tls+tcp://, or remote.plain_anywhere=yes", url);
	return 0;
}

static int refuse(const char *url, const char *why, struct fault *f) {
	return fault_set(f, FAULT_ARGUMENT, "remote.listen %s: %s", url, why);
}

static int open_socket(const struct addrinfo *a, const char *url, int *fdp, struct fault *f) {
	const int on = 1;

	*fdp = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fdp < 0)
		return refuse(url, strerror(errno), f);
	setsockopt(*fdp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (!bind(*fdp, a->ai_addr, a->ai_addrlen) && !listen(*fdp, LISTEN_BACKLOG))
		return 0;
	refuse(url, strerror(errno), f);
	close(*fdp);
	return f->code;
}

/* opens: else it is only looked at. */
static int open_one(struct gateway_listeners *l, const struct config *c, const char *url, bool opens, struct fault *f) {
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct gateway_listener *one = &l->one[l->count];
	struct addrinfo *list;
	struct link_url u;
	int r = link_url_read(url, &u, f);

	if (!r && l->count == GATEWAY_LISTENERS)
		r = fault_set(f, FAULT_ARGUMENT, "remote.listen names more than %d places", GATEWAY_LISTENERS);
	if (r)
		return r;
	r = getaddrinfo(u.host, u.port, &hints, &list);
	if (r)
		return refuse(url, gai_strerror(r), f);
	one->tls = u.tls;
	one->fd = -1;
	if (!u.tls)
		r = check_plain(c, url, list->ai_addr, f);
	if (!r && opens)
		r = open_socket(list, url, &one->fd, f);
	freeaddrinfo(list);
	l->count += !r;
	return r;
}

static int open_all(struct gateway_listeners *l, const struct config *c, bool opens, struct fault *f) {
	char text[CONFIG_TEXT], *rest = text, *url;
	int r = 0;

	snprintf(text, sizeof text, "%s", c->remote_listen);
	while (!r && (url = strtok_r(rest, ", ", &rest)))
		r = open_one(l, c, url, opens, f);
	return r;
}

int listeners_open(struct gateway_listeners *l, const struct config *c, struct fault *f) {
	return open_all(l, c, true, f);
}

int listeners_check(const struct config *c, struct fault *f) {
	struct gateway_listeners l = { .count = 0 };

	return open_all(&l, c, false, f);
}

void listeners_close(struct gateway_listeners *l) {
	while (l->count)
		close(l->one[--l->count].fd);
}

void address_text(const struct sockaddr_storage *a, char text[static GATEWAY_PEER]) {
	char host[GATEWAY_PEER - 12], port[8];
	bool six = a->ss_family == AF_INET6;

	if (getnameinfo((const struct sockaddr *)a, sizeof *a, host, sizeof host, port, sizeof port,
		    NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(text, GATEWAY_PEER, "?");
	else
		snprintf(text, GATEWAY_PEER, six ? "[%s]:%s" : "%s:%s", host, port);
}

void listeners_text(const struct gateway_listeners *l, struct str *text) {
	for (unsigned i = 0; i < l->count; i++) {
		struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
		socklen_t size = sizeof a;
		char where[GATEWAY_PEER] = "?";

		if (!getsockname(l->one[i].fd, (struct sockaddr *)&a, &size))
			address_text(&a, where);
		str_printf(text, "%s%s://%s", i ? ", " : "", l->one[i].tls ? "tls+tcp" : "tcp", where);
	}
}

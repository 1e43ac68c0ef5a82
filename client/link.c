/* Connections of tcp and tls: the stream of bytes. See link.h for the contract. */
#include "link_state.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	/* Between two looks at a flag, while there is no room. */
	LOOK_MS = 50,
	/* A peer whose machine is gone is noticed after about a minute. */
	KEEP_IDLE_S = 30,
	KEEP_BETWEEN_S = 10,
	KEEP_PROBES = 3,
};

uint64_t link_now_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- bytes ---- */

/* How many bytes went or came; 0: none at the moment; -ECONNRESET. */
static ssize_t moved(int r) {
	if (r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE)
		return 0;
	return r > 0 ? r : -ECONNRESET;
}

static ssize_t send_some(struct link *l, const uint8_t *bytes, size_t size) {
	int r;

	if (!l->tls) {
		ssize_t n = send(l->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);

		return n > 0 ? n : n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -ECONNRESET;
	}
	pthread_mutex_lock(&l->lock);
	r = mbedtls_ssl_write(&l->ssl, bytes, size);
	pthread_mutex_unlock(&l->lock);
	return moved(r);
}

static ssize_t receive_some(struct link *l, uint8_t *bytes, size_t size) {
	int r;

	if (!l->tls) {
		ssize_t n = recv(l->fd, bytes, size, MSG_DONTWAIT);

		return n > 0 ? n : n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -ECONNRESET;
	}
	pthread_mutex_lock(&l->lock);
	r = link_tls_read(l, bytes, size);
	pthread_mutex_unlock(&l->lock);
	return moved(r);
}

int link_wait(int fd, short events, uint64_t deadline_us, int at_most_ms) {
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = deadline_us ? link_now_us() : 0;
	int wait = at_most_ms, r;

	if (deadline_us && now >= deadline_us)
		return -ETIMEDOUT;
	if (deadline_us && (wait < 0 || (deadline_us - now) / 1000 < (uint64_t)wait))
		wait = (int)((deadline_us - now) / 1000 + 1);
	r = poll(&p, 1, wait);
	return r < 0 && errno != EINTR ? -errno : 0;
}

int link_wait_by(link_sleeps *sleeps, int fd, short events, uint64_t deadline_us) {
	return sleeps ? sleeps(fd, events, deadline_us) : link_wait(fd, events, deadline_us, -1);
}

void link_unasked(struct link *l) {
	l->sleeps = NULL;
}

/* ---- reading ---- */

void link_stop(struct link *l) {
	shutdown(l->fd, SHUT_RD);
}

int link_descriptor(const struct link *l) {
	return l->fd;
}

bool link_buffered(const struct link *l) {
	return l->in < l->in_size || (l->tls && mbedtls_ssl_get_bytes_avail(&l->ssl));
}

/* Some bytes, at least one. */
static int receive_waiting(struct link *l, uint8_t *bytes, size_t size, uint64_t deadline_us, size_t *gotp) {
	ssize_t n;
	int r;

	for (;;) {
		n = receive_some(l, bytes, size);
		if (n < 0)
			return (int)n;
		*gotp = (size_t)n;
		if (n)
			return 0;
		r = link_wait_by(l->sleeps, l->fd, POLLIN, deadline_us);
		if (r)
			return r;
	}
}

static int fill(struct link *l, uint64_t deadline_us) {
	l->in = l->in_size = 0;
	return receive_waiting(l, l->in_bytes, sizeof l->in_bytes, deadline_us, &l->in_size);
}

int link_await(struct link *l, uint64_t deadline_us) {
	return l->in < l->in_size ? 0 : fill(l, deadline_us);
}

static size_t take_buffered(struct link *l, uint8_t *bytes, size_t size) {
	size_t n = l->in_size - l->in < size ? l->in_size - l->in : size;

	memcpy(bytes, l->in_bytes + l->in, n);
	l->in += n;
	return n;
}

int link_read(struct link *l, void *bytes, size_t size, uint64_t deadline_us) {
	uint8_t *p = bytes;
	int r = 0;

	while (!r && size) {
		size_t n = 0;

		if (l->in < l->in_size) {
			n = take_buffered(l, p, size);
		} else if (size < sizeof l->in_bytes) {
			r = fill(l, deadline_us);
		} else {
			r = receive_waiting(l, p, size, deadline_us, &n);
		}
		if (!r) {
			p += n;
			size -= n;
		}
	}
	return r;
}

int link_read_head(struct link *l, struct remote_head *h, uint64_t deadline_us, struct fault *f) {
	uint8_t bytes[REMOTE_HEAD_BYTES];
	int r = link_read(l, bytes, sizeof bytes, deadline_us);

	return r ? r : remote_head_get(bytes, h, f);
}

/* ---- writing ---- */

static int send_all(struct link *l, const uint8_t *bytes, size_t size, uint64_t deadline_us, const atomic_bool *cancel) {
	while (size) {
		ssize_t n = send_some(l, bytes, size);
		int r = n < 0 ? (int)n : 0;

		if (!n && cancel && atomic_load(cancel))
			return -ECANCELED;
		if (!n)
			r = cancel ? link_wait(l->fd, POLLOUT, deadline_us, LOOK_MS) : link_wait_by(l->sleeps, l->fd, POLLOUT, deadline_us);
		if (r)
			return r;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

int link_flush(struct link *l, uint64_t deadline_us, const atomic_bool *cancel) {
	size_t size = l->out_size;

	l->out_size = 0;
	return send_all(l, l->out_bytes, size, deadline_us, cancel);
}

int link_write(struct link *l, const void *bytes, size_t size, uint64_t deadline_us, const atomic_bool *cancel) {
	int r = 0;

	if (size > sizeof l->out_bytes - l->out_size)
		r = link_flush(l, deadline_us, cancel);
	if (r)
		return r;
	if (size >= sizeof l->out_bytes)
		return send_all(l, bytes, size, deadline_us, cancel);
	memcpy(l->out_bytes + l->out_size, bytes, size);
	l->out_size += size;
	return 0;
}

int link_write_frame(struct link *l, const struct remote_head *h, const void *bytes, uint64_t deadline_us,
	const atomic_bool *cancel) {
	uint8_t head[REMOTE_HEAD_BYTES];
	int r;

	remote_head_put(head, h);
	r = link_write(l, head, sizeof head, deadline_us, cancel);
	return r || !h->size ? r : link_write(l, bytes, h->size, deadline_us, cancel);
}

/* ---- beginning and end ---- */

static void set_options(int fd) {
	const int on = 1, idle = KEEP_IDLE_S, between = KEEP_BETWEEN_S, probes = KEEP_PROBES;

	/* What fails here costs time, not results. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

struct link *link_new(int fd) {
	struct link *l = malloc(sizeof *l);

	if (!l) {
		close(fd);
		return NULL;
	}
	l->fd = fd;
	l->tls = false;
	l->own = NULL;
	l->heard = false;
	l->alert = 0;
	l->sleeps = NULL;
	l->in = l->in_size = l->out_size = 0;
	l->peer = (struct link_peer){ "", "" };
	pthread_mutex_init(&l->lock, NULL);
	set_options(fd);
	return l;
}

struct link *link_free(struct link *l) {
	if (!l)
		return NULL;
	if (l->tls)
		mbedtls_ssl_free(&l->ssl);
	link_keys_free(l->own);
	close(l->fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
	return NULL;
}

int link_accept(int fd, struct link_keys *keys, uint64_t deadline_us, struct link **linkp, struct fault *f) {
	struct link *l = link_new(fd);
	int r = l ? 0 : -ENOMEM;

	if (!r && keys)
		r = link_secure(l, keys, NULL, deadline_us, f);
	if (r)
		link_free(l);
	else
		*linkp = l;
	return r;
}

const struct link_peer *link_peer(const struct link *l) {
	return &l->peer;
}

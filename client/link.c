/* Connections of tcp and tls. See link.h for the contract. */
#include "link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/sha256.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ciphersuites.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>

enum {
	/* Small frames go and come together; larger ones pass by. */
	BUFFER_BYTES = 64 << 10,
	/* Between two looks at a flag, while there is no room. */
	LOOK_MS = 50,
	/* A peer whose machine is gone is noticed after about a minute. */
	KEEP_IDLE_S = 30,
	KEEP_BETWEEN_S = 10,
	KEEP_PROBES = 3,
	DIGEST_BYTES = 32,
};

struct link_keys {
	mbedtls_ssl_config config;
	mbedtls_x509_crt authority, certificate;
	mbedtls_pk_context key;
	mbedtls_entropy_context entropy;
	mbedtls_ctr_drbg_context random;
};

struct link {
	int fd;
	bool tls;
	struct link_keys *own;           /* of one that was dialled */
	pthread_mutex_t lock;            /* of `ssl`: never held while something is waited for */
	mbedtls_ssl_context ssl;
	char name[LINK_NAME], fingerprint[LINK_FINGERPRINT];
	size_t in, in_size, out_size;    /* in_bytes from `in` to in_size are not yet taken */
	uint8_t in_bytes[BUFFER_BYTES], out_bytes[BUFFER_BYTES];
};

uint64_t link_now_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- names ---- */

static const char plain_scheme[] = "tcp://", tls_scheme[] = "tls+tcp://";

static bool has_prefix(const char *text, const char *prefix) {
	return !strncmp(text, prefix, strlen(prefix));
}

bool link_is_url(const char *text) {
	return has_prefix(text, plain_scheme) || has_prefix(text, tls_scheme);
}

int link_url_read(const char *text, struct link_url *u, struct fault *f) {
	const char *host, *colon;
	size_t length;

	u->tls = has_prefix(text, tls_scheme);
	host = text + strlen(u->tls ? tls_scheme : plain_scheme);
	colon = link_is_url(text) ? strrchr(host, ':') : NULL;
	length = colon ? (size_t)(colon - host) : 0;
	if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
		host++;
		length -= 2;
	}
	if (!length || length >= sizeof u->host || !colon[1] || strlen(colon + 1) >= sizeof u->port)
		return fault_set(f, FAULT_ARGUMENT, "\"%s\" is neither tcp://HOST:PORT nor tls+tcp://HOST:PORT", text);
	snprintf(u->host, sizeof u->host, "%.*s", (int)length, host);
	snprintf(u->port, sizeof u->port, "%s", colon + 1);
	return 0;
}

/* ---- certificates ---- */

static int refuse_file(const char *what, const char *path, int code, struct fault *f) {
	char why[128];

	mbedtls_strerror(code, why, sizeof why);
	return fault_set(f, FAULT_ARGUMENT, "the %s %s cannot be used: %s", what, path, why);
}

static bool given(const char *path) {
	return path && *path;
}

static int read_key(struct link_keys *k, const char *path) {
#if MBEDTLS_VERSION_MAJOR >= 3
	return mbedtls_pk_parse_keyfile(&k->key, path, NULL, mbedtls_ctr_drbg_random, &k->random);
#else
	return mbedtls_pk_parse_keyfile(&k->key, path, NULL);
#endif
}

static int read_files(struct link_keys *k, const struct link_files *files, struct fault *f) {
	int r;

	if (!given(files->authority))
		return fault_set(f, FAULT_ARGUMENT, "tls needs the certificate of the authority that signed the other side's");
	r = mbedtls_x509_crt_parse_file(&k->authority, files->authority);
	if (r)
		return refuse_file("certificate of the authority", files->authority, r, f);
	if (given(files->certificate) != given(files->key))
		return fault_set(f, FAULT_ARGUMENT, "a certificate and its key go together");
	if (!given(files->certificate))
		return 0;
	r = mbedtls_x509_crt_parse_file(&k->certificate, files->certificate);
	if (r)
		return refuse_file("certificate", files->certificate, r, f);
	r = read_key(k, files->key);
	return r ? refuse_file("key", files->key, r, f) : 0;
}

/* With forward secrecy; in the order of mbedTLS's speed on x86-64: 350 MB/s of a core, then 260. */
static const int ciphers[] = {
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	0,
};

static int configure(struct link_keys *k, const struct link_files *files, bool server, struct fault *f) {
	int r = mbedtls_ssl_config_defaults(&k->config, server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
		MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);

	if (r)
		return -ENOMEM;
	mbedtls_ssl_conf_min_version(&k->config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
	mbedtls_ssl_conf_authmode(&k->config, MBEDTLS_SSL_VERIFY_REQUIRED);
	mbedtls_ssl_conf_ciphersuites(&k->config, ciphers);
	mbedtls_ssl_conf_rng(&k->config, mbedtls_ctr_drbg_random, &k->random);
	mbedtls_ssl_conf_ca_chain(&k->config, &k->authority, NULL);
	r = given(files->certificate) ? mbedtls_ssl_conf_own_cert(&k->config, &k->certificate, &k->key) : 0;
	return r ? refuse_file("certificate", files->certificate, r, f) : 0;
}

int link_keys_new(const struct link_files *files, bool server, struct link_keys **keysp, struct fault *f) {
	struct link_keys *k = calloc(1, sizeof *k);
	int r;

	if (!k)
		return -ENOMEM;
	mbedtls_ssl_config_init(&k->config);
	mbedtls_x509_crt_init(&k->authority);
	mbedtls_x509_crt_init(&k->certificate);
	mbedtls_pk_init(&k->key);
	mbedtls_entropy_init(&k->entropy);
	mbedtls_ctr_drbg_init(&k->random);
	r = mbedtls_ctr_drbg_seed(&k->random, mbedtls_entropy_func, &k->entropy, NULL, 0) ? -EIO : 0;
	if (!r)
		r = read_files(k, files, f);
	if (!r && server && !given(files->certificate))
		r = fault_set(f, FAULT_ARGUMENT, "tls needs a certificate and its key");
	if (!r)
		r = configure(k, files, server, f);
	if (r)
		link_keys_free(k);
	else
		*keysp = k;
	return r;
}

struct link_keys *link_keys_free(struct link_keys *k) {
	if (!k)
		return NULL;
	mbedtls_ssl_config_free(&k->config);
	mbedtls_x509_crt_free(&k->authority);
	mbedtls_x509_crt_free(&k->certificate);
	mbedtls_pk_free(&k->key);
	mbedtls_ctr_drbg_free(&k->random);
	mbedtls_entropy_free(&k->entropy);
	free(k);
	return NULL;
}

/* ---- bytes ---- */

static int on_send(void *user, const unsigned char *bytes, size_t size) {
	const struct link *l = user;
	ssize_t n = send(l->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n >= 0)
		return (int)n;
	return errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int on_receive(void *user, unsigned char *bytes, size_t size) {
	const struct link *l = user;
	ssize_t n = recv(l->fd, bytes, size, MSG_DONTWAIT);

	if (n >= 0)
		return (int)n;
	return errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_CONN_EOF;
}

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
	r = mbedtls_ssl_read(&l->ssl, bytes, size);
	pthread_mutex_unlock(&l->lock);
	return moved(r);
}

/* Until the socket can do that. 0, -ETIMEDOUT, -errno. at_most_ms < 0: as long as the deadline says. */
static int wait_for(int fd, short events, uint64_t deadline_us, int at_most_ms) {
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
		r = wait_for(l->fd, POLLIN, deadline_us, -1);
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
			r = wait_for(l->fd, POLLOUT, deadline_us, cancel ? LOOK_MS : -1);
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

/* ---- beginning ---- */

static void set_options(int fd) {
	const int on = 1, idle = KEEP_IDLE_S, between = KEEP_BETWEEN_S, probes = KEEP_PROBES;

	/* What fails here costs time, not results. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* Takes over fd. */
static struct link *link_new(int fd) {
	struct link *l = malloc(sizeof *l);

	if (!l) {
		close(fd);
		return NULL;
	}
	l->fd = fd;
	l->tls = false;
	l->own = NULL;
	l->in = l->in_size = l->out_size = 0;
	l->name[0] = l->fingerprint[0] = 0;
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

static int digest(const mbedtls_x509_crt *crt, uint8_t bytes[static DIGEST_BYTES]) {
#if MBEDTLS_VERSION_MAJOR >= 3
	return mbedtls_sha256(crt->raw.p, crt->raw.len, bytes, 0);
#else
	return mbedtls_sha256_ret(crt->raw.p, crt->raw.len, bytes, 0);
#endif
}

/* The common name, where it is printable and alone. */
static void take_name(struct link *l, const mbedtls_x509_crt *crt) {
	const mbedtls_x509_name *found = NULL;

	for (const mbedtls_x509_name *n = &crt->subject; n; n = n->next) {
		if (n->oid.len != sizeof MBEDTLS_OID_AT_CN - 1 || memcmp(n->oid.p, MBEDTLS_OID_AT_CN, n->oid.len) != 0)
			continue;
		if (found)
			return;
		found = n;
	}
	if (!found || found->val.len >= sizeof l->name)
		return;
	for (size_t i = 0; i < found->val.len; i++)
		if (found->val.p[i] < 0x20 || found->val.p[i] >= 0x7f)
			return;
	memcpy(l->name, found->val.p, found->val.len);
	l->name[found->val.len] = 0;
}

static int take_peer(struct link *l) {
	const mbedtls_x509_crt *crt = mbedtls_ssl_get_peer_cert(&l->ssl);
	uint8_t bytes[DIGEST_BYTES];

	if (!crt || digest(crt, bytes))
		return -ECONNRESET;
	for (unsigned i = 0; i < DIGEST_BYTES; i++)
		snprintf(l->fingerprint + 2 * (size_t)i, 3, "%02x", bytes[i]);
	take_name(l, crt);
	return 0;
}

static int refuse_handshake(struct link *l, int code, struct fault *f) {
	uint32_t flags = mbedtls_ssl_get_verify_result(&l->ssl);
	char why[256] = "";
	char *end;

	if (code == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && flags && flags != UINT32_MAX)
		mbedtls_x509_crt_verify_info(why, sizeof why, "", flags);
	else
		mbedtls_strerror(code, why, sizeof why);
	end = strchr(why, '\n');
	if (end)
		*end = 0;
	return fault_set(f, FAULT_CONNECT, "tls was not agreed on: %s", why);
}

static int handshake(struct link *l, uint64_t deadline_us, struct fault *f) {
	int r;

	for (;;) {
		int waited = 0;

		r = mbedtls_ssl_handshake(&l->ssl);
		if (r == MBEDTLS_ERR_SSL_WANT_READ)
			waited = wait_for(l->fd, POLLIN, deadline_us, -1);
		else if (r == MBEDTLS_ERR_SSL_WANT_WRITE)
			waited = wait_for(l->fd, POLLOUT, deadline_us, -1);
		else
			return r ? refuse_handshake(l, r, f) : take_peer(l);
		if (waited)
			return fault_set(f, FAULT_CONNECT, "tls was not agreed on in time");
	}
}

static int secure(struct link *l, struct link_keys *keys, const char *host, uint64_t deadline_us, struct fault *f) {
	int r;

	mbedtls_ssl_init(&l->ssl);
	l->tls = true;
	r = mbedtls_ssl_setup(&l->ssl, &keys->config);
	if (!r && host)
		r = mbedtls_ssl_set_hostname(&l->ssl, host);
	if (r)
		return -ENOMEM;
	mbedtls_ssl_set_bio(&l->ssl, l, on_send, on_receive, NULL);
	return handshake(l, deadline_us, f);
}

int link_accept(int fd, struct link_keys *keys, uint64_t deadline_us, struct link **linkp, struct fault *f) {
	struct link *l = link_new(fd);
	int r = l ? 0 : -ENOMEM;

	if (!r && keys)
		r = secure(l, keys, NULL, deadline_us, f);
	if (r)
		link_free(l);
	else
		*linkp = l;
	return r;
}

static int refuse_dial(const char *url, const char *why, struct fault *f) {
	return fault_set(f, FAULT_CONNECT, "no daemon answers at %s (%s)", url, why);
}

/* One address. The socket, or -errno. */
static int connect_one(const struct addrinfo *a, uint64_t deadline_us) {
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol), error = 0;
	socklen_t size = sizeof error;

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen))
		error = errno;
	if (error == EINPROGRESS)
		error = wait_for(fd, POLLOUT, deadline_us, -1) ? ETIMEDOUT : 0;
	if (!error && deadline_us && link_now_us() >= deadline_us)
		error = ETIMEDOUT;
	if (!error && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
		error = errno;
	if (!error)
		return fd;
	close(fd);
	return -error;
}

static int connect_any(const char *url, const struct link_url *u, uint64_t deadline_us, int *fdp, struct fault *f) {
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	char why[128];
	int r = getaddrinfo(u->host, u->port, &hints, &list);

	if (r)
		return refuse_dial(url, gai_strerror(r), f);
	*fdp = -EHOSTUNREACH;
	for (const struct addrinfo *a = list; a && *fdp < 0; a = a->ai_next)
		*fdp = connect_one(a, deadline_us);
	freeaddrinfo(list);
	return *fdp < 0 ? refuse_dial(url, strerror_r(-*fdp, why, sizeof why), f) : 0;
}

int link_dial(const char *url, const struct link_files *files, uint32_t timeout_ms, struct link **linkp, struct fault *f) {
	uint64_t deadline = timeout_ms ? link_now_us() + UINT64_C(1000) * timeout_ms : 0;
	struct link_keys *keys = NULL;
	struct link *l = NULL;
	struct link_url u;
	int fd = -1;
	int r = link_url_read(url, &u, f);

	if (!r && u.tls)
		r = link_keys_new(files, false, &keys, f);
	if (!r)
		r = connect_any(url, &u, deadline, &fd, f);
	if (!r) {
		l = link_new(fd);
		r = l ? 0 : -ENOMEM;
	}
	if (!r && u.tls)
		r = secure(l, keys, u.host, deadline, f);
	if (r) {
		link_free(l);
		link_keys_free(keys);
		return r;
	}
	l->own = keys;
	*linkp = l;
	return 0;
}

const char *link_peer_name(const struct link *l) {
	return l->name;
}

const char *link_peer_fingerprint(const struct link *l) {
	return l->fingerprint;
}

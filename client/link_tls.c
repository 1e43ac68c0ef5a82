/* How tls is agreed on, or why not. See link.h. */
#include "link_state.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/sha256.h>

#ifdef WITH_TLS_1_3
#include <psa/crypto.h>
#endif

enum {
	DIGEST_BYTES = 32,
	/* For a peer that is refused to hear it. */
	LET_GO_US = 1000 * 1000,
};

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

/* A ticket for other sessions is none of the stream's bytes; what follows it may already be here. */
static bool is_ticket(int r) {
#ifdef WITH_TLS_1_3
	return r == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET;
#else
	(void)r;
	return false;
#endif
}

#ifndef MBEDTLS_PRIVATE
#define MBEDTLS_PRIVATE(member) member
#endif

/* The second byte of an alert says what it is about. */
static uint8_t alert_of(const struct link *l) {
	const unsigned char *message = l->ssl.MBEDTLS_PRIVATE(in_msg);

	return message ? message[1] : 0;
}

int link_tls_read(struct link *l, uint8_t *bytes, size_t size) {
	int r;

	do
		r = mbedtls_ssl_read(&l->ssl, bytes, size);
	while (is_ticket(r));
	l->heard |= r > 0;
	if (r == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
		l->alert = alert_of(l);
	return r;
}

/* ---- who the other side is ---- */

static int digest(const mbedtls_x509_crt *crt, uint8_t bytes[static DIGEST_BYTES]) {
#if MBEDTLS_VERSION_MAJOR >= 3
	return mbedtls_sha256(crt->raw.p, crt->raw.len, bytes, 0);
#else
	return mbedtls_sha256_ret(crt->raw.p, crt->raw.len, bytes, 0);
#endif
}

/* The common name, where it is printable and alone. */
static void take_name(struct link_peer *p, const mbedtls_x509_crt *crt) {
	const mbedtls_x509_name *found = NULL;

	for (const mbedtls_x509_name *n = &crt->subject; n; n = n->next) {
		if (n->oid.len != sizeof MBEDTLS_OID_AT_CN - 1 || memcmp(n->oid.p, MBEDTLS_OID_AT_CN, n->oid.len) != 0)
			continue;
		if (found)
			return;
		found = n;
	}
	if (!found || found->val.len >= sizeof p->name)
		return;
	for (size_t i = 0; i < found->val.len; i++)
		if (found->val.p[i] < 0x20 || found->val.p[i] >= 0x7f)
			return;
	memcpy(p->name, found->val.p, found->val.len);
	p->name[found->val.len] = 0;
}

static int take_peer(struct link_peer *p, const mbedtls_x509_crt *crt) {
	uint8_t bytes[DIGEST_BYTES];

	*p = (struct link_peer){ "", "" };
	if (!crt || digest(crt, bytes))
		return -ECONNRESET;
	for (unsigned i = 0; i < DIGEST_BYTES; i++)
		snprintf(p->fingerprint + 2 * (size_t)i, 3, "%02x", bytes[i]);
	take_name(p, crt);
	return 0;
}

size_t link_peer_chain(const struct link *l, void *bytes, size_t room) {
	const mbedtls_x509_crt *crt = l->tls ? mbedtls_ssl_get_peer_cert(&l->ssl) : NULL;
	size_t size = 0;

	for (; crt; crt = crt->next) {
		if (crt->raw.len > room - size)
			return 0;
		memcpy((uint8_t *)bytes + size, crt->raw.p, crt->raw.len);
		size += crt->raw.len;
	}
	return size;
}

/* ---- why tls was not agreed on ---- */

/* Of the other side's certificate. `alert`: what it is told. */
static const struct {
	uint32_t flag;
	uint8_t alert;
	const char *why;
} verdicts[] = {
	{ MBEDTLS_X509_BADCERT_MISSING | MBEDTLS_X509_BADCERT_SKIP_VERIFY, MBEDTLS_SSL_ALERT_MSG_NO_CERT, "the other side showed no certificate" },
	{ MBEDTLS_X509_BADCERT_REVOKED, MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED, "the other side's certificate was revoked" },
	{ MBEDTLS_X509_BADCERT_EXPIRED, MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED, "the other side's certificate has expired" },
	{ MBEDTLS_X509_BADCERT_FUTURE, MBEDTLS_SSL_ALERT_MSG_BAD_CERT, "the other side's certificate is not valid yet" },
	{ MBEDTLS_X509_BADCERT_NOT_TRUSTED, MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA,
		"the other side's certificate is foreign: it is not signed by an authority that is known here" },
	{ MBEDTLS_X509_BADCERT_CN_MISMATCH, MBEDTLS_SSL_ALERT_MSG_BAD_CERT, "the other side's certificate is of another name than that of its machine" },
};

/* What the other side said of ours. */
static const struct {
	uint8_t alert;
	const char *why;
} alerts[] = {
	{ MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED, "the other side refuses our certificate: it has expired" },
	{ MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED, "the other side refuses our certificate: it was revoked" },
	{ MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA, "the other side refuses our certificate: it is foreign, signed by no authority that is known there" },
	{ MBEDTLS_SSL_ALERT_MSG_BAD_CERT, "the other side refuses our certificate: it is not valid yet, or of another name" },
	{ MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT, "the other side refuses our certificate: it is of a kind that is not used there" },
	{ MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, "the other side refuses our certificate" },
	{ MBEDTLS_SSL_ALERT_MSG_NO_CERT, "the other side wants a certificate, and we have shown none" },
	{ MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, "the other side takes none of the versions of TLS that we have" },
	{ MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE, "the other side takes none of the ciphers and signatures that we have" },
	/* certificate_required of version 1.3 */
	{ 116, "the other side wants a certificate, and we have shown none" },
};

/* NULL: not known. *alertp is what to tell. */
static const char *verdict(uint32_t flags, uint8_t *alertp) {
	for (size_t i = 0; flags != UINT32_MAX && i < sizeof verdicts / sizeof *verdicts; i++)
		if (flags & verdicts[i].flag) {
			*alertp = verdicts[i].alert;
			return verdicts[i].why;
		}
	return NULL;
}

static const char *alert_text(uint8_t alert) {
	for (size_t i = 0; i < sizeof alerts / sizeof *alerts; i++)
		if (alerts[i].alert == alert)
			return alerts[i].why;
	return NULL;
}

/* What lies unread when a socket is closed would reach the other side as an error before our alert: it is read, for a while. */
static void let_go(const struct link *l) {
	uint64_t end = link_now_us() + LET_GO_US;
	char bytes[4096];
	ssize_t n = 1;

	shutdown(l->fd, SHUT_WR);
	while (n > 0 && link_now_us() < end && !link_wait(l->fd, POLLIN, end, -1)) {
		n = recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);
		n = n < 0 && (errno == EAGAIN || errno == EINTR) ? 1 : n;
	}
}

/* late: tls is agreed on, but the other side's certificate is refused. */
static int refuse_handshake(struct link *l, int code, bool late, struct fault *f) {
	uint32_t flags = mbedtls_ssl_get_verify_result(&l->ssl);
	bool none = code == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE;
	const char *known = NULL;
	uint8_t alert = MBEDTLS_SSL_ALERT_MSG_BAD_CERT;
	char why[256];

	if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
		known = alert_text(alert_of(l));
	else if (code == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED || none)
		known = verdict(none ? MBEDTLS_X509_BADCERT_MISSING : flags, &alert);
	/* The library sends the others itself. */
	if (none || late)
		mbedtls_ssl_send_alert_message(&l->ssl, MBEDTLS_SSL_ALERT_LEVEL_FATAL, alert);
	let_go(l);
	if (known)
		return fault_set(f, FAULT_CONNECT, "tls was not agreed on: %s", known);
	if (code == MBEDTLS_ERR_SSL_CONN_EOF)
		return fault_set(f, FAULT_CONNECT, "tls was not agreed on: the other side closed the connection");
	mbedtls_strerror(code, why, sizeof why);
	return fault_set(f, FAULT_CONNECT, "tls was not agreed on: %s", why);
}

/* ---- agreeing ---- */

/*
 * Version 1.3 takes its keys from the process's own generator of random numbers, of which a fork leaves both sides the same: it is
 * seeded anew for every connection. Before 3.6.6 that cannot be asked for; what was forked from a process that had connections
 * then offers 1.2 alone, whose generator belongs to the link's keys.
 */
static int seed_process(mbedtls_ssl_config *config) {
#ifdef WITH_TLS_1_3
	if (psa_crypto_init() != PSA_SUCCESS)
		return -EIO;
#if MBEDTLS_VERSION_NUMBER >= 0x03060600
	(void)config;
	return psa_random_reseed(NULL, 0) == PSA_SUCCESS ? 0 : -EIO;
#else
	static _Atomic pid_t seeded;
	pid_t none = 0;

	if (!atomic_compare_exchange_strong(&seeded, &none, getpid()) && none != getpid())
		mbedtls_ssl_conf_max_tls_version(config, MBEDTLS_SSL_VERSION_TLS1_2);
#endif
#endif
	(void)config;
	return 0;
}

/* See link_keys.c: who calls may be let in here only without an objection of the library's. */
static int judge(struct link *l, struct fault *f) {
	if (mbedtls_ssl_get_verify_result(&l->ssl))
		return refuse_handshake(l, MBEDTLS_ERR_X509_CERT_VERIFY_FAILED, true, f);
	return take_peer(&l->peer, mbedtls_ssl_get_peer_cert(&l->ssl));
}

static int handshake(struct link *l, uint64_t deadline_us, struct fault *f) {
	int r;

	for (;;) {
		int waited = 0;

		r = mbedtls_ssl_handshake(&l->ssl);
		if (r == MBEDTLS_ERR_SSL_WANT_READ)
			waited = link_wait_by(l->sleeps, l->fd, POLLIN, deadline_us);
		else if (r == MBEDTLS_ERR_SSL_WANT_WRITE)
			waited = link_wait_by(l->sleeps, l->fd, POLLOUT, deadline_us);
		else
			return r ? refuse_handshake(l, r, false, f) : judge(l, f);
		if (waited == -ECANCELED)
			return waited;
		if (waited)
			return fault_set(f, FAULT_CONNECT, "tls was not agreed on in time");
	}
}

int link_secure(struct link *l, struct link_keys *keys, const char *host, uint64_t deadline_us, struct fault *f) {
	int r;

	mbedtls_ssl_init(&l->ssl);
	l->tls = true;
	r = seed_process(&keys->config);
	if (r)
		return r;
	r = mbedtls_ssl_setup(&l->ssl, &keys->config);
	if (!r && host)
		r = mbedtls_ssl_set_hostname(&l->ssl, host);
	if (r)
		return -ENOMEM;
	mbedtls_ssl_set_bio(&l->ssl, l, on_send, on_receive, NULL);
	return handshake(l, deadline_us, f);
}

/* In version 1.3 a client has begun to speak before the other side has looked at its certificate. */
int link_ended(const struct link *l, struct fault *f) {
	if (!l->tls || l->heard)
		return fault_set(f, FAULT_CONNECT, "fusiond closed the session (the connection is closed)");
	if (alert_text(l->alert))
		return fault_set(f, FAULT_CONNECT, "tls was not agreed on: %s", alert_text(l->alert));
	return fault_set(f, FAULT_CONNECT,
		"tls was not agreed on: the other side ended it before it said anything, as where it does not accept this side's "
		"certificate, or none");
}

/* ---- what somebody else was shown ---- */

static int parse_chain(mbedtls_x509_crt *first, const uint8_t *bytes, size_t size) {
	size_t at = 0;
	int r = size ? 0 : MBEDTLS_ERR_X509_INVALID_FORMAT;

	while (!r && at < size) {
		const mbedtls_x509_crt *last = first;

		r = mbedtls_x509_crt_parse_der(first, bytes + at, size - at);
		while (last->next)
			last = last->next;
		at += last->raw.len;
	}
	return r;
}

/* As the handshake does it. */
static bool is_for_clients(const mbedtls_x509_crt *crt) {
	return !mbedtls_x509_crt_check_key_usage(crt, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) &&
	       !mbedtls_x509_crt_check_extended_key_usage(crt, MBEDTLS_OID_CLIENT_AUTH, MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH));
}

int link_keys_verify(struct link_keys *k, const void *chain, size_t size, struct link_peer *p, struct fault *f) {
	const char *why = NULL;
	mbedtls_x509_crt crt;
	uint32_t flags = 0;
	uint8_t ignored;
	int r;

	mbedtls_x509_crt_init(&crt);
	r = parse_chain(&crt, chain, size);
	if (!r)
		r = mbedtls_x509_crt_verify(&crt, &k->authority, NULL, NULL, &flags, NULL, NULL);
	if (r == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED)
		why = verdict(flags, &ignored);
	if (!r && !is_for_clients(&crt))
		why = "the other side's certificate is not for clients";
	if (r || why)
		r = fault_set(f, FAULT_CONNECT, "tls was not agreed on: %s", why ? why : "the other side's certificate is none");
	else
		r = take_peer(p, &crt);
	mbedtls_x509_crt_free(&crt);
	return r;
}

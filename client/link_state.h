/*
 * What the files of link.h share: what a link and its keys are. Whoever else includes this knows too much.
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>

#include "link.h"

struct addrinfo;

/* Version 1.3 is offered where its random numbers, which all threads share, are guarded. */
#if defined MBEDTLS_SSL_PROTO_TLS1_3 && defined MBEDTLS_THREADING_C
#define WITH_TLS_1_3
#endif

enum {
	/* Small frames go and come together; larger ones pass by. */
	BUFFER_BYTES = 64 << 10,
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
	bool heard;                      /* something came after tls was agreed on */
	uint8_t alert;                   /* which ended it; 0: none */
	link_sleeps *sleeps;             /* NULL: link_wait() */
	struct link_peer peer;
	size_t in, in_size, out_size;    /* in_bytes from `in` to in_size are not yet taken */
	uint8_t in_bytes[BUFFER_BYTES], out_bytes[BUFFER_BYTES];
};

/* Takes over fd. NULL: no memory. */
struct link *link_new(int fd);
/* Until the socket can do that, a signal comes, or at_most_ms are over (< 0: as long as the deadline says). 0, -ETIMEDOUT or -errno. */
int link_wait(int fd, short events, uint64_t deadline_us, int at_most_ms);
/* The same by `sleeps`, where it is given. */
int link_wait_by(link_sleeps *sleeps, int fd, short events, uint64_t deadline_us);

/* The addresses of its host: *failedp is what getaddrinfo() says, and the list the caller's. 0, -ETIMEDOUT, -errno or -ECANCELED. link_name.c */
int link_addresses(const struct link_url *u, uint64_t deadline_us, link_sleeps *sleeps, struct addrinfo **listp, int *failedp);

/* Agrees on tls, and takes down whose certificate was shown; host: NULL where this side was called. link_tls.c */
int link_secure(struct link *l, struct link_keys *keys, const char *host, uint64_t deadline_us, struct fault *f) FAULT_MUST_USE;
/* With the lock; as mbedtls_ssl_read() answers. */
int link_tls_read(struct link *l, uint8_t *bytes, size_t size);

/*
 * A connection of tcp or tls, as a stream of bytes, with deadlines.
 *
 * tls is mbedTLS's: the library that nng uses for tls+tcp://, called here because nng 1.5 does not tell whose certificate the
 * other side has shown. Versions 1.3, where mbedTLS has it, and 1.2; both sides show a certificate of an authority that the other one knows.
 *
 * One thread reads and one writes at a time; these may be two. Nothing is sent before link_flush(), or before enough waits.
 * Every call that waits is bounded: by its deadline (of the monotonic clock in microseconds; 0: none), by link_stop(), or by the
 * flag that it is given.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/remote.h"

enum {
	LINK_NAME = 128,
	/* A SHA-256 in hexadecimal digits. */
	LINK_FINGERPRINT = 65,
};

struct link;
struct link_keys;

/* Files of PEM; NULL or "": none. */
struct link_files {
	const char *authority, *certificate, *key;
};

/* Does it begin as a URL does, tcp://HOST:PORT or tls+tcp://HOST:PORT or one that link_url_read() refuses? */
bool link_is_url(const char *text);
/* The parts of one; an address of version 6 stands in brackets. FAULT_ARGUMENT. */
struct link_url {
	bool tls;
	char host[LINK_NAME], port[8];
};
int link_url_read(const char *text, struct link_url *u, struct fault *f) FAULT_MUST_USE;

/* What this side shows and believes. 0, FAULT_ARGUMENT that names the file, or -errno. */
int link_keys_new(const struct link_files *files, bool server, struct link_keys **keysp, struct fault *f) FAULT_MUST_USE;
/* The second of 1970 in which its certificate ends; 0 where it has none. */
uint64_t link_keys_until(const struct link_keys *k);
/* In a process that was forked from the one that made them: so that both do not draw the same numbers. */
int link_keys_renew(struct link_keys *k) FAULT_MUST_USE;
struct link_keys *link_keys_free(struct link_keys *k);       /* returns NULL; NULL is allowed */

/* Sleeps until events of fd come: 0, -ETIMEDOUT, -errno, or -ECANCELED where who waits is to stop; deadline_us 0: none. */
typedef int link_sleeps(int fd, short events, uint64_t deadline_us);
/*
 * Connects, and for tls shows and checks certificates: 0, FAULT_CONNECT, FAULT_ARGUMENT or -errno. This, and what waits later, sleeps by `sleeps`
 * where it is given, and ends with its -ECANCELED.
 */
int link_dial(const char *url, const struct link_files *files, uint32_t timeout_ms, link_sleeps *sleeps, struct link **linkp,
	struct fault *f) FAULT_MUST_USE;
/* It is asked no more: for who gives a link to threads that stop otherwise. */
void link_unasked(struct link *l);
/* Takes over fd, also on failure; keys NULL: plain tcp. They stay the caller's, and longer than the link. */
int link_accept(int fd, struct link_keys *keys, uint64_t deadline_us, struct link **linkp, struct fault *f) FAULT_MUST_USE;
struct link *link_free(struct link *l);                       /* returns NULL; NULL is allowed */
/* FAULT_CONNECT, which tells of what it is a sign: for who got -ECONNRESET instead of the first answer. */
int link_ended(const struct link *l, struct fault *f) FAULT_MUST_USE;

/* Of the other side's certificate: its common name, and the SHA-256 of it whole. Empty for plain tcp. */
struct link_peer {
	char name[LINK_NAME], fingerprint[LINK_FINGERPRINT];
};
const struct link_peer *link_peer(const struct link *l);
/* What it has shown: DER, its own certificate first. Bytes; 0 for plain tcp, or where they are more than `room`. */
size_t link_peer_chain(const struct link *l, void *bytes, size_t room);
/* Whose is such a chain, and has an authority signed it? 0, FAULT_CONNECT or -errno. */
int link_keys_verify(struct link_keys *k, const void *chain, size_t size, struct link_peer *p, struct fault *f) FAULT_MUST_USE;

/* Nothing more is read, now and from now on. From any thread. */
void link_stop(struct link *l);
int link_descriptor(const struct link *l);
/* Has something come that no poll() of the descriptor tells of? Of the thread that reads. */
bool link_buffered(const struct link *l);
/* Waits until something can be read: 0, -ETIMEDOUT, -ECONNRESET. */
int link_await(struct link *l, uint64_t deadline_us) FAULT_MUST_USE;
/* All of these bytes: 0, -ETIMEDOUT, -ECONNRESET. */
int link_read(struct link *l, void *bytes, size_t size, uint64_t deadline_us) FAULT_MUST_USE;
/* The head of the next frame. 0, the same, or FAULT_PROTOCOL. */
int link_read_head(struct link *l, struct remote_head *h, uint64_t deadline_us, struct fault *f) FAULT_MUST_USE;

/* 0; -ETIMEDOUT; -ECANCELED where *cancel became true while it waited for room; -ECONNRESET. cancel may be NULL. */
int link_write(struct link *l, const void *bytes, size_t size, uint64_t deadline_us, const atomic_bool *cancel) FAULT_MUST_USE;
int link_write_frame(struct link *l, const struct remote_head *h, const void *bytes, uint64_t deadline_us,
	const atomic_bool *cancel) FAULT_MUST_USE;
int link_flush(struct link *l, uint64_t deadline_us, const atomic_bool *cancel) FAULT_MUST_USE;

uint64_t link_now_us(void);

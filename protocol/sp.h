/*
 * A connection of nng's request-reply protocol over one of nng's byte streams: frames, whole, in order, both ways.
 *
 * The form is nng's SP mapping to local sockets (nng_ipc(7)): each side sends 8 bytes first, then frames of a byte 1,
 * a length in 64 bits, high byte first, and the message. A request begins with its number; the answer, too.
 *
 * Why not nng's own sockets: they lose operations where a connection is closed within a frame, and whoever waits for one waits for ever: no
 * connection is taken apart from then on, and nng_close() does not return. One client that went away within its answer was enough. Byte streams lose
 * no operation that was begun before the stream was closed, and here none is begun after. What tests/nng/lost.c (`make check-nng`) found, in November 2026:
 *
 *	1.5.2 (Debian 12), 1.6.0, 1.8.0     lost in every run: the callback of a part goes on with an operation that closing has ended
 *	1.9.0, 1.10.1 (Debian 13), 1.10.2, 1.11.0     nothing lost, of 1.10.1 in 320,000 connections, of the others in 40,000 each
 *	1.12.4 (sid)     lost in seven of eight runs: req0 does not notice that the peer has gone and connects no more; once nng_close() hung
 *
 * So there is no version from which on they are right: all releases have this file, and one way that is tested.
 *
 * Linked by the engine and by clients, not by the supervisor, which has no nng.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SP_REQ0 = 0x30,
	SP_REP0 = 0x31,
	/* A type of one byte, a length of eight. */
	SP_HEAD_BYTES = 9,
	/* Of a request's number, and of each hop's that a proxy puts before it; the last one has the highest bit set. */
	SP_NUMBER_BYTES = 4,
};

struct nng_stream;
struct sp;

/* malloc'd; the bytes follow the head on the wire, and here. */
struct sp_message {
	struct sp_message *next;
	size_t size;
	uint8_t head[SP_HEAD_BYTES];
	uint8_t bytes[];
};

struct sp_options {
	uint16_t own, peer;          /* SP_REQ0 or SP_REP0: another peer is refused */
	size_t limit;                /* a longer message ends the connection */
	int greeting_ms;             /* the greeting comes within this time */
	int send_ms;                 /* something of what is sent is taken within this time; -1: no limit */
	/* The peer's greeting was right; NULL: nobody asks. On a thread of nng, as the following. */
	void (*greeted)(void *user);
	/* A message of so many bytes comes, for which there is no memory yet; false: the connection ends. NULL: all are wanted. */
	bool (*announced)(void *user, size_t size);
	/* A message, which is now the callee's. One at a time. */
	void (*message)(void *user, struct sp_message *m);
	/* The connection has ended, whoever ended it: once, the last call. */
	void (*ended)(void *user);
	void *user;
};

/* NULL where memory is short. Takes the stream, then too. Nothing is called back before sp_start(). */
struct sp *sp_new(struct nng_stream *stream, const struct sp_options *options);
/* From now on ended() comes for certain, sooner or later. */
void sp_start(struct sp *s);
/* NULL where memory is short, or size beyond what a frame can say. */
struct sp_message *sp_message_new(size_t size);
/* Takes the message and sends it after those before; drops it where the connection has ended. Does not wait. */
void sp_send(struct sp *s, struct sp_message *m);
/* Messages that wait for those before them. */
unsigned sp_waiting(struct sp *s);
/* Ends the connection; ended() follows. Again: nothing. */
void sp_close(struct sp *s);
/* After ended(), also inside it, or where it was never started. Returns NULL. */
struct sp *sp_free(struct sp *s);

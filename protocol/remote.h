/*
 * Frames between a client on another machine and the gateway (daemon/gateway), over one connection of tcp or tls.
 *
 * A client's connection is a session. What is shared memory between processes of one machine travels in chunks: what is
 * uploaded before the request that names it, what is read before its answer. A frame is a head of REMOTE_HEAD_BYTES, its
 * numbers little-endian, and `size` bytes. Nothing in it is believed: remote_head_get() refuses all that the kind cannot have.
 *
 *	kind     name    offset           bytes
 *	DOOR     -       -                a packet of the door, or the answer to one; the first frame each way
 *	REQUEST  slot    its answer's     a frame of the op stream; the answer carries the same slot. offset: how many bytes
 *	                 bytes            of an array the client awaits with it, 0 where none
 *	ARENA    slot    bytes            nothing; an arena whose layout the client decides. Answered as a request: [ARENA, arena, bytes]
 *	UPLOAD   arena   where            of an arena
 *	REPLY    slot    -                the answer to a request
 *	RESULT   slot    where            of the array that the answer to this request is about, which follows
 */
#pragma once

#include <stdint.h>

#include "fault.h"
#include "limits.h"

enum remote_kind {
	REMOTE_DOOR = 1,
	REMOTE_REQUEST,
	REMOTE_ARENA,
	REMOTE_UPLOAD,
	REMOTE_REPLY,
	REMOTE_RESULT,
	REMOTE_KINDS,
};

enum {
	REMOTE_HEAD_BYTES = 24,
	/* One piece of an array: a tenth of a millisecond of a fast network, so that answers come between the pieces of uploads. */
	REMOTE_CHUNK_BYTES = 1 << 20,
	/* The longest packet of the door: the list of sessions. */
	REMOTE_DOOR_BYTES = 1 << 18,
};

struct remote_head {
	uint32_t kind, size, name;
	uint64_t offset;
};

void remote_head_put(uint8_t bytes[static REMOTE_HEAD_BYTES], const struct remote_head *h);
/* 0, or FAULT_PROTOCOL with a sentence. */
int remote_head_get(const uint8_t bytes[static REMOTE_HEAD_BYTES], struct remote_head *h, struct fault *f) FAULT_MUST_USE;

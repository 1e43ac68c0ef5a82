/*
 * A session's ring: shared memory that carries frames both ways between a client and the engine, as a
 * stream of bytes in each direction. A frame is a head and its bytes.
 *
 * Each direction has one writer and one reader. Nothing in the memory is trusted: each side keeps
 * its own position to itself and only ever writes it there; the other's position is checked at every look, and
 * one that no honest peer could have written is -EPROTO: the ring is of no more use. Bytes
 * are copied out before anybody reads them.
 *
 * Sleeping: who is to sleep says so with ring_reader_sleeps() (or ring_writer_sleeps(), for room) and sleeps only if
 * that returns false; ring_publish() and ring_consume() return true where the other one has to be woken. The
 * client sleeps on a futex, the position that it waits to see moved (ring_wait()); the engine, which serves many rings,
 * sleeps on descriptors, so it is woken by a byte on the session's socket.
 *
 * Positions count bytes and wrap at 2^32. Nobody else is allowed to sleep on a ring's memory: another waiter
 * could take a wake that was meant for the client.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault.h"

enum {
	/* Of a direction, powers of two. A batch of some hundred operations goes in one piece. */
	RING_REQUEST_BYTES = 16 << 10,
	RING_REPLY_BYTES = 8 << 10,
	RING_HEADER_BYTES = 4 << 10,
	/* Of the memfd: with its bookkeeping a client stays below 64 KiB in the daemon. */
	RING_BYTES = RING_HEADER_BYTES + RING_REQUEST_BYTES + RING_REPLY_BYTES,
	RING_LINE = 64,
};

/* What both see of a direction; each line has one writer, but for the flags. */
struct ring_shared {
	_Alignas(RING_LINE) _Atomic uint32_t written;    /* by the writer */
	atomic_uint writer_sleeps;                       /* set by the writer, cleared by the reader */
	_Alignas(RING_LINE) _Atomic uint32_t read;       /* by the reader */
	atomic_uint reader_sleeps;                       /* for frames of these slots; set by the reader, cleared by the writer */
};

/*
 * Where both are, so that each can run where the other one did, and how they wait: hints, by which nobody comes to harm. A processor
 * is its number and 1.
 */
struct ring_place {
	_Alignas(RING_LINE) _Atomic uint32_t client;     /* by the client: the processor of who waits, or is about to; 0: it says none */
	_Alignas(RING_LINE) atomic_uint follows;         /* by the engine: it runs there, too */
	_Atomic uint32_t linger_us;                      /* by the engine: a client that waits may spin for so long before it sleeps */
};

struct ring_header {
	struct ring_shared request, reply;
	_Alignas(RING_LINE) atomic_uint ended;           /* by the supervisor: the engine is gone, nothing will be answered */
	struct ring_place place;
};

/* Frames of any slot; the bit of slot i is 1 << i. */
#define RING_ANY_SLOT (~0U)

/* Before the bytes of each frame. */
struct ring_head {
	uint32_t slot;           /* of the request; its answer carries the same */
	uint32_t size;
};

/* One end of one direction. */
struct ring {
	struct ring_shared *shared;
	uint8_t *data;
	uint32_t size;           /* of data */
	uint32_t position;       /* our own: what was written, or read, so far */
	uint32_t shown;          /* as the other sees it */
};

/* The engine is gone: says so to the client, and wakes it. */
void ring_end(void *memory);
bool ring_ended(const void *memory);
struct ring_place *ring_place(void *memory);
/* The ends in memory of RING_BYTES that was all zero when it was made. */
struct ring ring_requests(void *memory);
struct ring ring_replies(void *memory);

/* Between two looks of who spins: leaves the processor to what shares it. */
static inline void ring_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/* ---- the writer ---- */

/* How many bytes may be written; -EPROTO. */
int ring_room(const struct ring *r, uint32_t *roomp) FAULT_MUST_USE;
/* Writes what there is room for; the reader does not see it yet. */
void ring_put(struct ring *r, const void *bytes, uint32_t size);
/* Shows what was written, which is of these slots. True where the reader sleeps and awaits one of them: wake it. */
bool ring_publish(struct ring *r, uint32_t slots) FAULT_MUST_USE;
/* Before sleeping until there is more room than `room`: true where there is by now: do not sleep. */
bool ring_writer_sleeps(struct ring *r, uint32_t room) FAULT_MUST_USE;

/* ---- the reader ---- */

/* Is there anything, sense or nonsense? */
bool ring_waiting(const struct ring *r);
/* How many bytes may be read; -EPROTO. */
int ring_left(const struct ring *r, uint32_t *leftp) FAULT_MUST_USE;
void ring_get(struct ring *r, void *bytes, uint32_t size);
/* Gives the room of what was read back. True where the writer sleeps: wake it. */
bool ring_consume(struct ring *r) FAULT_MUST_USE;
/*
 * Before sleeping until something of these slots is there: true where anything is by now: do not sleep. What comes of other slots
 * wakes nobody, and is read with the rest.
 */
bool ring_reader_sleeps(struct ring *r, uint32_t slots) FAULT_MUST_USE;
/* From any thread: who sleeps does so for these slots, too, from now on. True where somebody may: what is there already has not woken it. */
bool ring_reader_heeds(struct ring *r, uint32_t slots);
/* Sleeps no longer: spares the other a wake. */
void ring_reader_awake(struct ring *r);

/* ---- frames in pieces ---- */

/* A frame on its way in; zero it before the first use. */
struct ring_frame {
	struct ring_head head;
	uint8_t *bytes;          /* malloc'd, head.size of them; NULL: the head is not complete */
	uint32_t got;            /* of the head, then of the bytes */
};

/*
 * Takes in what has come of a frame. 1: it is complete and frame->bytes are the caller's (who zeroes the frame);
 * 0: not yet; -EPROTO for a frame that is empty, longer than `most` or of no slot below `slots`; -ENOMEM, after
 * which it may be called again.
 * reserve: bytes to leave room for before the frame's own.
 */
int ring_take(struct ring *r, struct ring_frame *frame, uint32_t slots, uint32_t most, uint32_t reserve) FAULT_MUST_USE;

/* ---- futexes ---- */

/* Sleeps while *word is `value`, for at most timeout_us, or until woken; spurious returns happen. */
void ring_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_us);
void ring_wake(_Atomic uint32_t *word);

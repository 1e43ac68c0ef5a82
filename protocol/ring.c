/*
 * Rings of bytes in shared memory. See ring.h for the contract.
 *
 * Who sleeps sets its flag and looks once more; who brings something moves its position and then
 * looks at the flag. Both are sequentially consistent, so one of the two sees the other. A flag
 * that an enemy sets or clears costs a wake, or its own sleep: nobody else's.
 */
#include "ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct ring_header) <= RING_HEADER_BYTES, "the header fits");
_Static_assert(!(RING_REQUEST_BYTES & (RING_REQUEST_BYTES - 1)) && !(RING_REPLY_BYTES & (RING_REPLY_BYTES - 1)),
	"positions wrap with the ring");

struct ring ring_requests(void *memory) {
	struct ring_header *h = memory;

	return (struct ring){ .shared = &h->request, .data = (uint8_t *)memory + RING_HEADER_BYTES,
		.size = RING_REQUEST_BYTES };
}

struct ring ring_replies(void *memory) {
	struct ring_header *h = memory;

	return (struct ring){ .shared = &h->reply,
		.data = (uint8_t *)memory + RING_HEADER_BYTES + RING_REQUEST_BYTES, .size = RING_REPLY_BYTES };
}

/* ---- the writer ---- */

int ring_room(const struct ring *r, uint32_t *roomp) {
	uint32_t used = r->position - atomic_load(&r->shared->read);

	if (used > r->size)
		return -EPROTO;
	*roomp = r->size - used;
	return 0;
}

void ring_put(struct ring *r, const void *bytes, uint32_t size) {
	uint32_t at = r->position & (r->size - 1), first = r->size - at;

	if (first > size)
		first = size;
	memcpy(r->data + at, bytes, first);
	memcpy(r->data, (const uint8_t *)bytes + first, size - first);
	r->position += size;
}

bool ring_publish(struct ring *r, uint32_t slots) {
	r->shown = r->position;
	atomic_store(&r->shared->written, r->position);
	return atomic_load(&r->shared->reader_sleeps) & slots && atomic_exchange(&r->shared->reader_sleeps, 0);
}

bool ring_writer_sleeps(struct ring *r, uint32_t room) {
	uint32_t now = 0;

	atomic_store(&r->shared->writer_sleeps, 1);
	return ring_room(r, &now) || now > room;
}

/* ---- the reader ---- */

bool ring_waiting(const struct ring *r) {
	return atomic_load_explicit(&r->shared->written, memory_order_relaxed) != r->position;
}

int ring_left(const struct ring *r, uint32_t *leftp) {
	uint32_t left = atomic_load(&r->shared->written) - r->position;

	if (left > r->size)
		return -EPROTO;
	*leftp = left;
	return 0;
}

void ring_get(struct ring *r, void *bytes, uint32_t size) {
	uint32_t at = r->position & (r->size - 1), first = r->size - at;

	if (first > size)
		first = size;
	memcpy(bytes, r->data + at, first);
	memcpy((uint8_t *)bytes + first, r->data, size - first);
	r->position += size;
}

bool ring_consume(struct ring *r) {
	if (r->shown == r->position)
		return false;
	r->shown = r->position;
	atomic_store(&r->shared->read, r->position);
	return atomic_load(&r->shared->writer_sleeps) && atomic_exchange(&r->shared->writer_sleeps, 0);
}

bool ring_reader_heeds(struct ring *r, uint32_t slots) {
	unsigned before = atomic_load(&r->shared->reader_sleeps);

	while (before && !atomic_compare_exchange_weak(&r->shared->reader_sleeps, &before, before | slots))
		;
	return before != 0;
}

bool ring_reader_sleeps(struct ring *r, uint32_t slots) {
	atomic_store(&r->shared->reader_sleeps, slots);
	return atomic_load(&r->shared->written) != r->position;
}

void ring_reader_awake(struct ring *r) {
	atomic_store_explicit(&r->shared->reader_sleeps, 0, memory_order_relaxed);
}

/* ---- frames in pieces ---- */

static int begin(struct ring_frame *frame, uint32_t slots, uint32_t most, uint32_t reserve) {
	const struct ring_head *h = &frame->head;

	if (!h->size || h->size > most || h->slot >= slots)
		return -EPROTO;
	frame->bytes = malloc((size_t)reserve + h->size);
	if (!frame->bytes)
		return -ENOMEM;          /* the head is kept for the next try */
	frame->got = 0;
	return 0;
}

static uint32_t least(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

int ring_take(struct ring *r, struct ring_frame *frame, uint32_t slots, uint32_t most, uint32_t reserve) {
	uint32_t left, piece;
	int code = ring_left(r, &left);

	if (code)
		return code;
	if (!frame->bytes) {
		piece = least(left, (uint32_t)sizeof frame->head - frame->got);
		ring_get(r, (uint8_t *)&frame->head + frame->got, piece);
		frame->got += piece;
		left -= piece;
		if (frame->got < sizeof frame->head)
			return 0;
		code = begin(frame, slots, most, reserve);
	}
	if (code)
		return code;
	piece = least(left, frame->head.size - frame->got);
	ring_get(r, frame->bytes + reserve + frame->got, piece);
	frame->got += piece;
	return frame->got == frame->head.size;
}

/* ---- the end ---- */

void ring_end(void *memory) {
	struct ring_header *h = memory;

	atomic_store(&h->ended, 1);
	ring_wake(&h->reply.written);
	ring_wake(&h->request.read);
}

bool ring_ended(const void *memory) {
	const struct ring_header *h = memory;

	return atomic_load(&h->ended) != 0;
}

struct ring_place *ring_place(void *memory) {
	struct ring_header *h = memory;

	return &h->place;
}

/* ---- futexes ---- */

void ring_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_us) {
	struct timespec t = { .tv_sec = (time_t)(timeout_us / 1000000), .tv_nsec = (long)(timeout_us % 1000000) * 1000 };

	syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

void ring_wake(_Atomic uint32_t *word) {
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

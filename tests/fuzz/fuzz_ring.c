/*
 * A ring whose writer is an enemy: it writes any position, flag and bytes between any two looks of the reader. Frames are within their
 * limits, nothing beyond the ring is read, and what was refused is not read on.
 */
#include "fuzz.h"

#include "protocol/limits.h"
#include "protocol/ring.h"

enum {
	RESERVE = 64,
	LOOKS = 64,
};

/* What each byte of the input does to the memory that both have. */
static void act(struct fuzz_bytes *b, struct ring *r) {
	uint32_t *words[] = { (uint32_t *)&r->shared->written, (uint32_t *)&r->shared->read, (uint32_t *)&r->shared->reader_sleeps,
		(uint32_t *)&r->shared->writer_sleeps };
	unsigned how = fuzz_byte(b);
	struct ring_head head = { .slot = how >> 4 & 7, .size = fuzz_byte(b) };
	uint32_t at;

	switch (how % 4) {
	case 0:
		*words[how >> 2 & 3] = (uint32_t)fuzz_whole(b, 4);
		return;
	case 1:
		*words[0] += (uint32_t)fuzz_whole(b, 2);
		return;
	case 2:
		/* A frame as an honest one, behind what is there. */
		at = *words[0];
		for (unsigned i = 0; i < sizeof head; i++)
			r->data[(at + i) & (r->size - 1)] = ((uint8_t *)&head)[i];
		*words[0] = at + (uint32_t)sizeof head + head.size;
		return;
	default:
		at = (uint32_t)fuzz_whole(b, 3);
		for (unsigned i = 0; i < 8; i++)
			r->data[(at + i) & (r->size - 1)] = fuzz_byte(b);
	}
}

void fuzz_one(struct fuzz_bytes *b) {
	/* Of its own size, so that what is beyond it is seen. */
	void *memory = aligned_alloc(4096, RING_BYTES);
	struct ring_frame frame = { .bytes = NULL };
	struct ring r;
	uint32_t room;
	int e = 0;

	if (!memory)
		abort();
	memset(memory, 0, RING_HEADER_BYTES);
	r = ring_requests(memory);
	for (unsigned i = 0; i < LOOKS && fuzz_left(b) && e >= 0; i++) {
		act(b, &r);
		e = ring_take(&r, &frame, LIMIT_UNANSWERED, LIMIT_FRAME_BYTES, RESERVE);
		claim(e <= 1, "%d", e);
		if (e != 1)
			continue;
		claim(frame.head.slot < LIMIT_UNANSWERED && frame.head.size && frame.head.size <= LIMIT_FRAME_BYTES, "a frame beyond its limits");
		memset(frame.bytes, 0, RESERVE + frame.head.size);
		free(frame.bytes);
		frame = (struct ring_frame){ .bytes = NULL };
		if (ring_consume(&r) && ring_waiting(&r))
			ring_reader_awake(&r);
		if (!ring_room(&r, &room))
			claim(room <= r.size, "room for %u", room);
	}
	free(frame.bytes);
	free(memory);
}

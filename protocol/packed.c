/* msgpack read where it lies; see packed.h. */
#include "packed.h"


/* The first bytes of values, as msgpack defines them; others hold a small number or count in themselves. */
enum {
	FIRST_ARRAY = 0x90,
	FIRST_STR = 0xa0,
	FIRST_NIL = 0xc0,
	FIRST_FALSE = 0xc2,
	FIRST_TRUE = 0xc3,
	FIRST_BIN8 = 0xc4,
	FIRST_BIN32 = 0xc6,
	FIRST_F32 = 0xca,
	FIRST_UINT8 = 0xcc,
	FIRST_UINT64 = 0xcf,
	FIRST_INT8 = 0xd0,
	FIRST_INT64 = 0xd3,
	FIRST_STR8 = 0xd9,
	FIRST_STR32 = 0xdb,
	FIRST_ARRAY16 = 0xdc,
	FIRST_ARRAY32 = 0xdd,
	FIRST_NEGATIVE = 0xe0,
	SMALL_UINT = 0x80,
	SMALL_COUNT = 0x0f,
	SMALL_LENGTH = 0x1f,
};

static size_t left(const struct packed *p) {
	return (size_t)(p->end - p->next);
}

static bool first(struct packed *p, uint8_t *firstp) {
	if (p->next == p->end)
		return false;
	*firstp = *p->next++;
	return true;
}

/* A number of 1, 2, 4 or 8 bytes, the highest first. */
static bool number(struct packed *p, unsigned bytes, uint64_t *valuep) {
	uint64_t value = 0;

	if (left(p) < bytes)
		return false;
	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | *p->next++;
	*valuep = value;
	return true;
}

static bool skip_bytes(struct packed *p, uint64_t bytes) {
	if (left(p) < bytes)
		return false;
	p->next += bytes;
	return true;
}

bool packed_array(struct packed *p, uint32_t *countp) {
	uint64_t count;
	uint8_t b;

	if (!first(p, &b))
		return false;
	if (b == FIRST_ARRAY16 || b == FIRST_ARRAY32) {
		if (!number(p, b == FIRST_ARRAY16 ? 2 : 4, &count))
			return false;
		*countp = (uint32_t)count;
		return true;
	}
	*countp = b & SMALL_COUNT;
	return b >= FIRST_ARRAY && b < FIRST_STR;
}

bool packed_uint(struct packed *p, uint64_t *valuep) {
	uint8_t b;

	if (!first(p, &b))
		return false;
	*valuep = b;
	if (b < SMALL_UINT)
		return true;
	return b >= FIRST_UINT8 && b <= FIRST_UINT64 && number(p, 1U << (b - FIRST_UINT8), valuep);
}

bool packed_negative(struct packed *p, int64_t *valuep) {
	uint64_t value;
	unsigned bits;
	uint8_t b;

	if (!first(p, &b))
		return false;
	*valuep = (int64_t)b - (UINT8_MAX + 1);
	if (b >= FIRST_NEGATIVE)
		return true;
	if (b < FIRST_INT8 || b > FIRST_INT64 || !number(p, 1U << (b - FIRST_INT8), &value))
		return false;
	bits = 8U << (b - FIRST_INT8);
	*valuep = (int64_t)(value << (64 - bits)) >> (64 - bits);
	return *valuep < 0;
}

bool packed_bin(struct packed *p, size_t size, const void **bytesp) {
	uint64_t length;
	uint8_t b;

	if (!first(p, &b) || b < FIRST_BIN8 || b > FIRST_BIN32 || !number(p, 1U << (b - FIRST_BIN8), &length) || length != size)
		return false;
	*bytesp = p->next;
	return skip_bytes(p, length);
}

/* One value; where it is an array its values are added to those that are still to be passed by. */
static bool skip_one(struct packed *p, uint64_t *openp) {
	uint8_t b = p->next < p->end ? *p->next : FIRST_NIL;
	uint64_t length = 0;
	uint32_t count;

	if ((b >= FIRST_ARRAY && b < FIRST_STR) || b == FIRST_ARRAY16 || b == FIRST_ARRAY32) {
		if (!packed_array(p, &count))
			return false;
		*openp += count;
		return true;
	}
	if (!first(p, &b))
		return false;
	if (b < SMALL_UINT || b >= FIRST_NEGATIVE || b == FIRST_NIL || b == FIRST_FALSE || b == FIRST_TRUE)
		return true;
	if (b >= FIRST_STR && b < FIRST_NIL)
		return skip_bytes(p, b & SMALL_LENGTH);
	if (b >= FIRST_BIN8 && b <= FIRST_BIN32)
		return number(p, 1U << (b - FIRST_BIN8), &length) && skip_bytes(p, length);
	if (b >= FIRST_STR8 && b <= FIRST_STR32)
		return number(p, 1U << (b - FIRST_STR8), &length) && skip_bytes(p, length);
	if (b == FIRST_F32 || b == FIRST_F32 + 1)
		return skip_bytes(p, b == FIRST_F32 ? 4 : 8);
	if (b >= FIRST_UINT8 && b <= FIRST_UINT64)
		return skip_bytes(p, 1U << (b - FIRST_UINT8));
	return b >= FIRST_INT8 && b <= FIRST_INT64 && skip_bytes(p, 1U << (b - FIRST_INT8));
}

bool packed_skip(struct packed *p) {
	uint64_t open = 1;

	/* Each value takes a byte at least, so this ends with the bytes. */
	for (; open; open--)
		if (!skip_one(p, &open))
			return false;
	return true;
}

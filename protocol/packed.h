/*
 * msgpack read where it lies, a value at a time.
 *
 * For who expects to know what comes: nothing is allocated, nothing is said of what is wrong. Each function reads one value from
 * the front and returns false where there is none of that kind, or bytes are missing; what was read
 * then does not matter. wire.h reads what is not known, and says what is wrong with it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packed {
	const uint8_t *next, *end;
};

/* The head of an array; its values follow. */
bool packed_array(struct packed *p, uint32_t *countp);
bool packed_uint(struct packed *p, uint64_t *valuep);
/* A number below 0. */
bool packed_negative(struct packed *p, int64_t *valuep);
/* Bytes, of this length. */
bool packed_bin(struct packed *p, size_t size, const void **bytesp);
/* Passes by any one value. */
bool packed_skip(struct packed *p);

/* Arrays that grow. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

enum { VECTOR_FIRST = 16 };

/* Makes room for one more item of size bytes in *itemsp; capacities double. 0 or -ENOMEM. */
static inline int vector_reserve(void **itemsp, uint32_t used, uint32_t *capacityp, size_t size) {
	uint32_t capacity = *capacityp ? *capacityp * 2 : VECTOR_FIRST;
	void *items;

	if (used < *capacityp)
		return 0;
	items = realloc(*itemsp, capacity * size);
	if (!items)
		return -ENOMEM;
	*itemsp = items;
	*capacityp = capacity;
	return 0;
}

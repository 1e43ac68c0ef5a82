/*
 * Asking for the contents of values: where they lie in shared memory, now or later.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"
#include "stream.h"

struct arena;
struct fusion_context;
struct later;
struct value;

/* Memory of a value: pinned, or a copy of what lies on another machine. */
struct location {
	struct arena *arena;         /* NULL where the value has no elements, or it is a copy */
	void *memory;
	void *copy;                  /* to be freed; else NULL */
	uint32_t id;                 /* of the arena */
	uint64_t offset;
};

/*
 * Sends the value where it is pending, and waits until it is computed and can be read (REQUEST_READ)
 * or written (REQUEST_MAP). The caller holds the value, and releases the location.
 */
int read_locate(struct fusion_context *c, struct value *v, enum message_request kind,
	struct location *location, struct fault *f) FAULT_MUST_USE;

void location_release(struct location *l);

/*
 * A read that nobody waits for is answered. Called without the lock, on a thread of the transport;
 * v is the value, whose hold is given back.
 */
void later_finish(
	struct fusion_context *c, struct later *later, struct value *v, struct answer *answer);

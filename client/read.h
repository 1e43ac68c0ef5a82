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

/* Memory of a value, pinned; bytes is its size. */
struct location {
	struct arena *arena;         /* NULL where the value has no elements */
	void *memory;
};

/*
 * Sends the value where it is pending, and waits until it is computed and can be read (REQUEST_READ)
 * or written (REQUEST_MAP). The caller holds the value, and unpins location->arena.
 */
int read_locate(struct fusion_context *c, struct value *v, enum message_request kind,
	struct location *location, struct fault *f) FAULT_MUST_USE;

/*
 * A read that nobody waits for is answered. Called without the lock, on a thread of the transport;
 * v is the value, whose hold is given back.
 */
void later_finish(
	struct fusion_context *c, struct later *later, struct value *v, const struct answer *answer);

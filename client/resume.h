/*
 * Going on with another engine, where the one that served the session is gone.
 *
 * The door stays open, and with it the session and its memory. The thread that notices waits until the daemon has another
 * engine, connects to it, and both sides agree on what there is: batches that were not begun go again (repeat.h) or have failed as
 * REPEATABLE, arrays that are lost say so (LOST, REPEATABLE, UNKNOWN), handles that the client does not hold are released, uploads
 * that nobody needs are free again. Reads and waits that were under way are asked again; other requests fail as REPEATABLE or
 * UNKNOWN. Nothing that was begun is run again.
 */
#pragma once

#include <stdbool.h>

#include "protocol/fault.h"

struct fusion_context;

/* Can the session go on with another engine? */
bool resume_possible(const struct fusion_context *c);
/* Is the engine known to be gone? */
bool resume_due(const struct fusion_context *c);
/*
 * Does it, or waits for another thread that does; the lock is given up meanwhile. Afterwards the connection works (0) or is lost. Refused inside
 * a callback.
 */
int resume(struct fusion_context *c, struct fault *f) FAULT_MUST_USE;
/*
 * A call at the door failed: where that is because the daemon has ended and another one has the session, that is waited for, and true says that the call may be
 * made again. The lock is given up meanwhile.
 */
bool resume_door(struct fusion_context *c, int failed, struct fault *f) FAULT_MUST_USE;
/* Reads the engine's answer to RESUME. */
struct wire_cursor;
int resume_read(struct fusion_context *c, struct wire_cursor *reply, struct fault *f) FAULT_MUST_USE;

/*
 * Recorded graphs: DEFINE checks and keeps one, REPLAY adds it to the session's graph as if its
 * operations had been sent again, FORGET drops it.
 */
#pragma once

#include "daemon/serve/session.h"

enum {
	/* Of a recorded graph. */
	CAPTURE_INPUTS = 4096,
};

void captures_free(struct session *s);
/* A kept graph of theirs is somebody else's now. */
void captures_leave(struct session *s, const struct graph *g);
/*
 * An input of a recorded graph, of which there are so many, as a leaf of g: an array that cannot be told apart from a real one by what
 * op_infer() looks at. It is known by the place of its type, which must stay. 0, -ENOMEM or FAULT_HANDLE.
 */
int capture_input(struct tensor_type *input, uint32_t inputs, uint64_t number, struct graph *g, uint32_t *nodep, struct fault *f) FAULT_MUST_USE;

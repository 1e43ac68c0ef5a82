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

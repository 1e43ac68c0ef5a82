/*
 * Shared memory that is cleared before anybody asks for it.
 *
 * An arena is allocated and cleared in full when it is made, and who waits for it - the engine, with a result to compute; a client with an array
 * to send - waits for that: 0.05 ms a MiB, and 2.5 where the machine is virtual and has not used that memory lately, so 10 ms
 * for the first result of a million floats. So a thread keeps CLEARED_PIECES pieces of memory ready. One is cut to the size that is
 * asked for; what is larger, or so small that it takes no time, is made as before. The next piece is made a little later, when those who come first
 * have their results.
 *
 * It is nobody's until it is taken: then it counts for the user.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"

#include "daemon/base/periodic.h"

enum {
	/* A first result, and the second one, which is asked for while the first is still held. */
	CLEARED_PIECES = 2,
};

struct cleared {
	uint64_t bytes;              /* of a piece; 0: there are none */
	struct periodic thread;
	pthread_mutex_t lock;        /* over what stands below */
	int fd[CLEARED_PIECES];
	unsigned count;
	uint64_t next_us;            /* the next piece is not made before; by loop_now() */
};

/* `bytes` for all pieces; 0: none. 0 or -errno. */
int cleared_open(struct cleared *c, uint64_t bytes) FAULT_MUST_USE;
/* False where there is none of that size now; else an arena of these bytes, as shm_create() makes them. */
bool cleared_take(struct cleared *c, uint64_t bytes, int *fdp);
/* Safe where it was not opened. */
void cleared_close(struct cleared *c);

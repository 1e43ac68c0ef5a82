/*
 * The memory of one session, as the process of its connection maps it: what comes from the other machine is copied into it,
 * what goes there out of it. Arenas are asked for at the door when they are first met, and the one not used for longest is
 * unmapped when there are many. Any thread may ask.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/limits.h"

enum {
	GATEWAY_ARENAS = LIMIT_ARENAS / 2,
	GATEWAY_PACKET = 8192,
};

struct gateway_arena {
	uint32_t id, pins;                   /* id 0: unused */
	bool writable;
	uint64_t bytes, used;
	uint8_t *base;
};

struct gateway_arenas {
	pthread_mutex_t lock;                /* of all of it, and of the door */
	int door;
	uint64_t clock;
	struct gateway_arena one[GATEWAY_ARENAS];
};

void arenas_open(struct gateway_arenas *a, int door);
/* A new one whose layout the client decides: 0, the door's refusal, or -errno. */
int arenas_make(struct gateway_arenas *a, uint64_t bytes, uint32_t *idp, uint64_t *bytesp, struct fault *f) FAULT_MUST_USE;
/*
 * Bytes of an arena, which stay mapped until arenas_leave(). 0, FAULT_HANDLE where the session has no such memory or may not
 * write it, or -errno.
 */
int arenas_reach(struct gateway_arenas *a, uint64_t id, uint64_t offset, uint64_t bytes, bool write,
	struct gateway_arena **arenap, uint8_t **memoryp, struct fault *f) FAULT_MUST_USE;
void arenas_leave(struct gateway_arenas *a, struct gateway_arena *arena);

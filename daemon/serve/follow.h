/*
 * The engine's thread follows the one client that asks: it runs on the processor where that one waits. Why: client/beside.h.
 *
 * A client that asked so many times while nobody else did, and said each time where it is, is followed until another one asks
 * or it says no place. What it says is a hint from shared memory: a processor that the engine may not use, or one that changes
 * all the time, costs the one who says so its advantage.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/binding.h"
#include "protocol/ring.h"

/* Zero: nobody is followed. */
struct follow {
	bool on;
	struct ring_place *place;            /* of who asked last; NULL: it is gone, or nobody did */
	uint32_t run;                        /* its requests since it began, or since the engine came after it */
	struct binding binding;
};

/* A request came from there. */
void follow_heard(struct follow *w, struct ring_place *place);
/* The memory goes. */
void follow_forget(struct follow *w, const struct ring_place *place);

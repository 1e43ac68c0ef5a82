/*
 * Who waits for the engine spins for a moment before it sleeps, where the engine says that it pays.
 *
 * On a device of its own (a GPU) nothing else wants the processors while a kernel runs, and to be woken costs as much as a small
 * request does: a tenth of a softmax over 32768x4096 and a seventh of a small request on an H200. So the engine says for how long
 * (daemon/serve/linger.h): only on machines that have processors to spare. Whoever has looked in vain sleeps at once from then on,
 * until an answer has come within that time again: long kernels keep no processor busy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/ring.h"

struct lingering {
	const struct ring_place *place;
	/* of who waits; one thread at a time */
	uint64_t began_us;                   /* when it began to; 0: it does not spin */
	bool in_vain;
};

void linger_init(struct lingering *l, const struct ring_place *place);
/* Somebody begins to wait for an answer ... */
void linger_begin(struct lingering *l);
/* ... and spins before it sleeps: true where something is in the ring by then. */
bool linger_look(struct lingering *l, const struct ring *replies);
/* It has its answer. */
void linger_end(struct lingering *l);

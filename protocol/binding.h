/*
 * A thread that stays on one processor for a while, and may then run again where it could before.
 *
 * Who binds a thread that is not only ours must leave no trace: nobody's choice of processors that was made meanwhile is
 * overwritten, and a thread that could run everywhere can run on processors that are added later, too.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Processors have their number and 1: 0 is none. */
struct binding {
	uint32_t at;             /* the calling thread is bound to it; 0: to none by us */
	cpu_set_t before;
};

/* Where the calling thread is; 0 where the system does not tell. */
uint32_t binding_here(void);
/* Binds the calling thread, which may be bound already. False where it may not run there or nowhere else: then it is bound to none by us. */
bool binding_set(struct binding *b, uint32_t at);
/* By the same thread. */
void binding_end(struct binding *b);

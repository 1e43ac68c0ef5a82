/*
 * What may take long is done apart from the loop: a thread does it, and what follows from it is the loop's again. A supervisor's loop
 * waits for nobody, so memory is cleared and given back, and sockets that hold what others sent are closed, by such threads.
 *
 * How many there may be at a time is the caller's to limit.
 */
#pragma once

#include "protocol/fault.h"

struct loop;

/* Part of what describes the work. */
struct apart {
	struct apart *next;
	void (*run)(struct apart *a);        /* by the thread: touches nothing of the loop's */
	void (*done)(struct apart *a);       /* by the loop, when that has ended; frees it */
};

/* One loop a process. 0 or -errno. */
int apart_open(struct loop *loop) FAULT_MUST_USE;
/* A thread that still works goes with the process. */
void apart_close(void);
/* name: of the thread. 0 or -errno, and then nothing has been done. */
int apart_start(struct apart *a, const char *name) FAULT_MUST_USE;
/* Without a loop: waits until some of it has ended, and does what follows. */
void apart_wait(void);

/*
 * Threads beside the main one. They take no signals: those are the main thread's.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "protocol/fault.h"

/* name: at most 15 bytes, as ps and gdb show it. 0 or -errno. */
int thread_start(pthread_t *threadp, const char *name, void *(*run)(void *), void *user) FAULT_MUST_USE;

/* A condition whose waits end by loop_now()'s clock. */
void thread_condition_init(pthread_cond_t *condition);

/*
 * This thread, and those that it makes from now on, take turns on a processor that are as short as can be: who wakes then need not wait until one
 * with longer turns has ended its own, which takes 3 ms, even where that has idle priority, once schedulers part groups. The share of the processor
 * is the same. Before Linux 6.12 that is of no effect. False where it is refused, or the thread's scheduling is not the usual one.
 */
bool thread_be_prompt(void);

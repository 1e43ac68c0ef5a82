/*
 * Threads beside the main one. They take no signals: those are the main thread's.
 */
#pragma once

#include <pthread.h>

#include "protocol/fault.h"

/* name: at most 15 bytes, as ps and gdb show it. 0 or -errno. */
int thread_start(pthread_t *threadp, const char *name, void *(*run)(void *), void *user) FAULT_MUST_USE;

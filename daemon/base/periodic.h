/*
 * A thread that does something now and then: `turn` does it and says when it wants to do so again. It is woken before its time where
 * somebody says so, and ends between two turns.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"

/* When the next turn is, by loop_now(); UINT64_MAX: when it is woken. */
typedef uint64_t periodic_turn(void *user);

struct periodic {
	periodic_turn *turn;
	void *user;
	pthread_t thread;
	pthread_mutex_t lock;        /* over what stands below; never held in a turn */
	pthread_cond_t wake;
	bool started, woken, stop;
};

/* The first turn is at once. 0 or -errno. name: as of thread_start(). */
int periodic_start(struct periodic *p, const char *name, periodic_turn *turn, void *user) FAULT_MUST_USE;
/* The next turn is now, or follows the one that is under way. */
void periodic_wake(struct periodic *p);
/* Waits for the turn that is under way. Safe where it was not started. */
void periodic_end(struct periodic *p);

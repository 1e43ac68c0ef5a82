/*
 * Descriptors, of which a process may have so many (RLIMIT_NOFILE) and no more.
 *
 * What there is one of for each client is moved above the numbers that a process keeps for itself, so that clients, however many,
 * leave it what its driver, its files and the processes that it starts need: who comes when there is no number left is refused, and
 * those who are there go on. The limit may be lowered while the process runs, and then any call may fail: that, too, is told as what it is.
 */
#pragma once

#include <stdbool.h>

#include "protocol/fault.h"
#include "protocol/shm.h"

enum {
	/* Numbers below are the process's own: it has some twenty, an engine two more for each worker that compiles. */
	DESCRIPTORS_OWN = 48,
	/* So many a driver has open at once while it builds or loads a program, with one to spare. */
	DESCRIPTORS_BUILD = 4,
	/* Of as many builds as there are at a time. */
	DESCRIPTORS_PROBED = 8 * DESCRIPTORS_BUILD,
};

/* FAULT_LIMIT: which process may have how many, for what ("a session") none is left, and what raises the limit. */
int descriptors_fault(struct fault *f, const char *what);
/* Is this -errno about descriptors? */
bool descriptors_short(int error);
/* Could so many be opened now? At most DESCRIPTORS_PROBED. */
bool descriptors_left(unsigned count);
/* A client's, to above the own numbers. 0, or -EMFILE where none is left there. */
int descriptors_raise(int *fdp) FAULT_MUST_USE;

/*
 * As many as a packet may bring, taken early, when numbers are low, and given up for as long as a packet is received: the kernel drops
 * those for which it finds no number, and nobody could ask for them again.
 */
struct reserve {
	int fd[PACKET_PAIR];
};

#define RESERVE_NONE { .fd = { -1, -1 } }

/* What is missing is taken where there is a number again. */
void reserve_take(struct reserve *r);
void reserve_give(struct reserve *r);

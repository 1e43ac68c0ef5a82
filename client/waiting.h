/*
 * What holds for every thread that waits for the daemon, whatever it waits at: it is asked, some times a second, whether it is to stop, and
 * its time is bounded. One that runs callbacks is asked nothing: what it does is nobody's own call.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "protocol/fault.h"

enum {
	/* A person who pressed Ctrl-C does not notice it; a processor that waits does not notice twenty turns a second. */
	WAITING_ASK_MS = 50,
};

/* Does anybody ask (fusion_on_wait)? */
bool waiting_is_asked(void);
/* Is the caller asked to stop? Never with a context's lock: who is asked may wait for threads that wait for it. */
bool waiting_stops(void);
int waiting_refuse(struct fault *f);
/* Of -ECANCELED that; else r. */
int waiting_fault(int r, struct fault *f);
/* Milliseconds to sleep until somebody is to be asked, or the time (of the monotonic clock in microseconds; 0: there is none) is over; 0: it is over; -1: neither. */
int waiting_slice(uint64_t until_us);
/* Without a context's lock: one sleep, until `events` of fd, if any, come: 0 and *camep, -errno, or -ECANCELED where the caller is asked to stop. */
int waiting_look(int fd, short events, int ms, bool *camep);
/* The same until they come: 0, -ETIMEDOUT, -errno or -ECANCELED. */
int waiting_poll(int fd, short events, uint64_t until_us);

/*
 * Around every sleep: what the process gives up meanwhile (fusion_on_sleep), which is taken back by the function that gave it up, and without a
 * context's lock, as whoever has it may wait for that. token NULL: nothing was given up.
 */
struct waiting_given {
	void *(*function)(void *token);
	void *token;
};
struct waiting_given waiting_sleeps(void);
void waiting_wakes(struct waiting_given given);
/* The same where the lock was kept: it is given up for as long as that takes. */
void waiting_wakes_with(struct waiting_given given, pthread_mutex_t *lock);

/* The library's thread, between the two, runs callbacks: it must not wait for answers, which it is to read. */
void waiting_callback(bool begins);
bool waiting_in_callback(void);

/* Of the monotonic clock. */
struct timespec waiting_until(uint32_t milliseconds);

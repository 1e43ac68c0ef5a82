/*
 * What holds for every thread that waits for the daemon, whatever it waits at: it is asked, some times a second, whether it is to stop, and
 * its time is bounded. One that runs callbacks is asked nothing: what it does is nobody's own call.
 */
#pragma once

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

/* The library's thread, between the two, runs callbacks: it must not wait for answers, which it is to read. */
void waiting_callback(bool begins);
bool waiting_in_callback(void);

/* Of the monotonic clock. */
struct timespec waiting_until(uint32_t milliseconds);

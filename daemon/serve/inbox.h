/*
 * Requests on their way from the transport's threads to the engine's, and the bell that wakes it.
 *
 * Any thread pushes or rings; one thread takes. A bell is written only while the engine sleeps, so
 * that a busy engine costs its clients no system call.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "daemon/serve/transport.h"

struct inbox {
	_Atomic(struct transport_request *) pushed;      /* newest first */
	struct transport_request *taken;                 /* oldest first; the engine's */
	atomic_bool rung, asleep;
	int bell;                                        /* eventfd */
};

int inbox_open(struct inbox *b) FAULT_MUST_USE;
void inbox_close(struct inbox *b);
/* A transport_receive; user is the inbox. */
void inbox_push(void *user, struct transport_request *r);
/* From any thread: something besides a request is to be looked at. user is the inbox. */
void inbox_ring(void *user);

/* The oldest request, or NULL. */
struct transport_request *inbox_take(struct inbox *b);
/* Is there a request, or has it been rung? Costs no more than a look. */
bool inbox_waiting(struct inbox *b);
/* Has it been rung since the last call? */
bool inbox_rung(struct inbox *b);
/*
 * Before sleeping: true where nothing came meanwhile; from then on the bell is written. To be
 * followed by inbox_wake() in any case.
 */
bool inbox_sleep(struct inbox *b);
void inbox_wake(struct inbox *b, bool bell_readable);

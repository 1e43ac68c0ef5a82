/* The engine's side of test_serve_rings.c, which does not agree with the client's transport on its names. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { ENDS = 2 };

/* What the client of a session has; far is the door's other end. */
extern struct ends {
	uint64_t session;
	int memory, bell, door, far;
} ends[ENDS];

extern atomic_uint failures;
extern atomic_ullong failed_session;

/* A thread that echoes every request of ENDS sessions. */
void engine_start(void);
void engine_stop(void);
/* Keeps requests, or answers those that were kept. */
void engine_withholds(bool on);
/* Stops the thread where it has gone to sleep and all clients are told so, until the gate opens again. */
void engine_gate_shut(void);
void engine_gate_open(void);

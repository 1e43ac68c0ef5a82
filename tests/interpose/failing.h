/*
 * What failing.c counts, and which call it lets fail.
 *
 * Preloaded into a daemon, it stands before what supervisor, engine, workers and gateway call of the system and of OpenCL: their own calls, by the place
 * they return to, not those of libraries. $FUSION_INTERPOSE_FAILING names a file that all of them map: a struct failing, native byte order.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define FAILING_ROLES(X) X(supervisor) X(engine) X(worker) X(gateway)

/* What fails: memory, mappings, descriptors of every kind, threads and processes, and what OpenCL is asked for. */
#define FAILING_CALLS(X) X(memory) X(mapping) X(descriptor) X(thread) X(opencl)

enum failing_role {
#define X(name) FAILING_##name,
	FAILING_ROLES(X)
#undef X
	FAILING_ROLE_COUNT
};

enum failing_call {
#define X(name) FAILING_no_##name,
	FAILING_CALLS(X)
#undef X
	FAILING_CALL_COUNT
};

enum { FAILING_PLACE = 64 };

struct failing {
	/* The number-th of such a role's calls of that kind, from 1 on, whichever of its processes makes it; 0: none. */
	_Atomic uint64_t number;
	_Atomic uint32_t role, call;
	_Atomic uint32_t on;                /* ... and all after it, but what OpenCL gives back */
	_Atomic uint64_t count[FAILING_ROLE_COUNT][FAILING_CALL_COUNT];
	_Atomic uint64_t failed;            /* calls that did */
	char place[FAILING_PLACE];          /* the first of them: its name, and where it returns to */
};

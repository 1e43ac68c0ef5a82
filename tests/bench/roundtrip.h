/* A bare nng round trip between two processes: see roundtrip.c. */
#pragma once

#include <nng/nng.h>

#include "bench.h"

enum {
	/* About what one small operation and a wait send. */
	ROUNDTRIP_BYTES = 128,
	ROUNDTRIP_URL = 128,
};

struct roundtrip {
	pid_t server;
	nng_socket socket;
	bool open;
	char url[ROUNDTRIP_URL];
};

int roundtrip_open(struct roundtrip *t, const char *folder) BENCH_MUST_USE;
int roundtrip_run(struct roundtrip *t, double *secondsp) BENCH_MUST_USE;
void roundtrip_close(struct roundtrip *t);

/*
 * Rings of a daemon that a test plays (tests/fake_daemon.h), which does not agree with the engine's transports on names: some threads answer what comes,
 * each a request at a time, as they do by nng.
 */
#pragma once

#include <stddef.h>

struct wire_writer;

/* Writes the answer; may wait. */
typedef void served_answer(const void *bytes, size_t size, struct wire_writer *w);

void served_start(served_answer *answer);
/* Another session: the client's descriptors, of the memory and the socket, which become the caller's. 0 or -errno. */
int served_add(int fd[2]);
/* After everything that waits in answer() has been told to return. */
void served_stop(void);
/* How many requests have come so far. */
unsigned served_requests(void);

/*
 * Metrics for Prometheus, as text: over HTTP on a Unix socket (metrics.socket) and in a file (metrics.file). Engines are asked
 * when somebody asks, or the file is due; one that does not answer in time is told by its last numbers.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"
#include "protocol/wire.h"

struct engine;
struct supervisor;

enum {
	/* Who collects does so every few seconds, and alone. */
	METRICS_CLIENTS = 16,
	METRICS_REQUEST = 4096,
};

struct metrics_client {
	int fd;                              /* -1: free */
	struct loop_source *source;
	struct supervisor *supervisor;
	uint64_t deadline_us;
	uint64_t round;                      /* waits for the answers to this one; 0: has not asked yet */
	char request[METRICS_REQUEST];
	size_t size;
};

struct metrics {
	int listener;
	struct loop_source *listener_source;
	struct metrics_client client[METRICS_CLIENTS];
	uint64_t round;                      /* of questions to the engines */
	uint64_t answered;                   /* the last one that is over */
	uint64_t round_us;                   /* when it is over at the latest; 0: none is under way */
	uint64_t file_us;                    /* when the file is due; 0: none is wanted */
	uint64_t file_round;                 /* the one it waits for; 0: none */
};

/* 0 where it is off; a fault that names metrics.socket. */
int metrics_open(struct supervisor *s, struct fault *f) FAULT_MUST_USE;
void metrics_close(struct supervisor *s);
/* Does what is due; when the next is, UINT64_MAX where nothing is. */
uint64_t metrics_tick(struct supervisor *s, uint64_t now);
/* An engine's METRICS. */
int metrics_take(struct engine *e, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;

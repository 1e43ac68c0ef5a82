/*
 * What ran last, so that people can ask how it ran: `fusionctl explain --last`, and explain of an array that has its value.
 *
 * A session keeps the plans of its last graphs, as many different ones as fusion.explain_runs says; an array knows by a number which of them
 * made it. A plan is shared with the cache and with whoever else runs it, so that keeping one costs a pointer, and memory once it has gone from there: that is
 * counted in whole for each user, and bounded. When a session ends its graphs stay for a while, bounded as well, for the same user and for administrators.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "protocol/fault.h"

struct array;
struct past;
struct plan;
struct server;
struct session;

/* A graph that was run. */
struct recent {
	struct plan *plan;           /* a reference */
	uint32_t number;             /* from 1, in the order in which they came */
	uint64_t bytes;              /* that it is counted with */
	uint64_t runs;               /* while it was known */
};

struct recents {
	struct recent *graph;        /* the newest first */
	uint32_t count, capacity;
	uint32_t number;             /* of the last one that came */
	uint64_t ran_us;             /* when the newest ran, loop_now(); 0: none has */
};

/* A session and its last graphs. */
struct recent_session {
	uint64_t id;
	const char *name;
	pid_t pid;
	uint64_t ended_us;           /* loop_now(); 0: it has not */
	const struct recents *recents;
};

/* The session has run a graph of this plan: the number for what it made. */
uint32_t recent_ran(struct session *s, struct plan *p);
/* The graph that made all of these arrays of the session. 0, or a fault that says why it is not known. */
int recent_made(const struct session *s, struct array *const *array, uint32_t count, const struct recent **recentp, struct fault *f) FAULT_MUST_USE;
/* A session by its number, also one that has ended, that s may see; 0: the one that ran last, but for s itself. 0 or FAULT_HANDLE. */
int recent_find(const struct session *s, uint64_t id, struct recent_session *found, struct fault *f) FAULT_MUST_USE;
/* The session ends. */
void recent_end(struct session *s);
/* What is left of all sessions that have ended. */
void recent_free(struct server *v);

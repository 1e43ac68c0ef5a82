/*
 * Plans of large graphs, which are made beside the engine's thread (aside.h): planning takes some microseconds an operation.
 *
 * The thread reads the graph, which nobody changes meanwhile, and copies of the options and of what is known of the device. What is learned of kernels, which
 * changes at any time, is looked up when the plan has come.
 */
#pragma once

#include "daemon/base/traits.h"
#include "daemon/plan/plan.h"
#include "daemon/serve/aside.h"

enum {
	/* Planning more nodes takes longer than a millisecond. */
	PLANNING_NODES = 128,
};

struct server;
struct session;

struct planning {
	struct aside_job job;
	struct server *server;
	struct session *session;             /* whose operations wait for it; NULL: nobody's, or that has ended */
	struct session *improves;            /* whose graph runs by another plan meanwhile; NULL as well */
	const struct graph *graph;
	struct graph *own;                   /* the graph, where it goes with this */
	struct plan_options options;         /* the book is a reference */
	struct traits traits;
	bool stand_in;                       /* what would stand in for its kernels is made, too */
	void (*then)(struct planning *p);    /* on the engine's thread; p is freed behind it */
	struct plan *plan;                   /* what was made: a reference */
	struct plan *of;                     /* what that is for: a reference, or NULL */
	int result;                          /* 0, a fault or -errno */
	struct fault fault;
	uint64_t took_ns;
	/* Of a session's: as flush.c goes on with it. */
	uint32_t note;
	bool alone, cancelled;
	unsigned tries;
};

static inline bool planning_is_long(const struct graph *g) {
	return graph_nodes(g) > PLANNING_NODES;
}

/* NULL: out of memory. It is asked for by planning_ask(), which takes it over. */
struct planning *planning_new(struct server *v, uid_t uid, const struct graph *g, const struct plan_options *o);
void planning_ask(struct planning *p, void (*then)(struct planning *p));
struct planning *planning_free(struct planning *p);      /* returns NULL */
/* Its plan into the cache. 0, a fault or -errno. */
int planning_put(struct planning *p) FAULT_MUST_USE;
/* Nobody waits for it any more; `own`: the graph, unless it stays with the caller's. */
void planning_forsake(struct planning *p, struct graph *own);

/* How much better the plan is than one without fusion, which nobody waits for. Takes over the graph. */
void planning_compare(struct session *s, struct graph *g, struct plan *p, const struct plan_options *o);
/* Has the plan of a graph like this one in the cache, or a newer one instead of `old`, some time. One at a time of each session. */
void planning_keep(struct session *s, const struct graph *g, struct plan *old, const struct plan_options *o);

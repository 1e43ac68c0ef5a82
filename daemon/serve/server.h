/*
 * The engine's one thread: sessions, their requests, and the loop that drives exec. What takes long is done beside it (aside.h).
 *
 * Nothing here waits for a client, a compiler, a kernel, or for memory of the supervisor, but where a device's memory is short and an array moves to
 * the host (control_await_arena()).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/wire.h"
#include "daemon/base/config.h"
#include "daemon/base/descriptors.h"
#include "daemon/base/metrics.h"
#include "daemon/plan/tracker.h"
#include "daemon/serve/inbox.h"
#include "daemon/serve/rings.h"
#include "daemon/serve/session.h"

struct server_config {
	const struct config *config;
	const struct config_source *source;  /* read again at RELOAD; NULL: RELOAD changes nothing */
	struct device *device;
	struct plan_cache *plans;
	struct tracker *tracker;
	struct exec *exec;
	struct transport *transport;
	struct rings *rings;                 /* NULL: no session has one */
	uint32_t linger_us;                  /* linger.h */
	struct inbox *inbox;                 /* the device's `wake` rings it */
	int control;                         /* the supervisor's socket */
	struct reserve *reserve;             /* for descriptors that come there; NULL: none */
	const char *url;                     /* where `transport` listens, which the supervisor is told when the engine is ready */
	uint64_t started_us;                 /* when the process began, by loop_now() */
};

/* The end: drain.c. */
struct drain {
	uint64_t deadline_us;                /* when it ends in any case; 0: nobody wants it to end */
	uint64_t quiet_us;                   /* since when nothing was to be done */
	uint64_t results;                    /* as many had been told then */
};

/* The log of slow graphs: slow.c. */
struct slow {
	uint64_t next_us;                    /* when the next line may be written */
	uint64_t untold;                     /* that were not written meanwhile */
};

/* A packet of the supervisor that came while another was awaited. */
struct control_packet;
struct aside;
struct operations;
struct patterns;

struct server {
	struct config config;
	const struct config_source *source;
	struct device *device;
	const struct traits *traits;
	struct plan_cache *plans;
	struct tracker *tracker;
	uint64_t spent_us;                   /* when the supervisor was last told what users have used */
	uint64_t saved_us;                   /* when the tracker was last saved */
	struct exec *exec;
	struct transport *transport;
	struct rings *rings;
	uint32_t linger_us;
	struct inbox *inbox;
	int control;
	struct reserve *reserve;             /* for descriptors that the supervisor sends; NULL: none */
	struct catalogue *catalogue;         /* what outlives this engine; NULL until the supervisor gave it */
	int catalogue_fd;
	struct suspect *suspects;            /* uthash: flight.c */
	struct orphan *orphans;              /* notes of sessions that have ended; flight.c */
	bool users_changed;                  /* what holds for some: their sessions are to hear of it */
	bool orphaned;                       /* the supervisor is gone */
	struct drain drain;
	bool ends;                           /* all sessions go with it */
	struct slow slow;
	uint64_t results;                    /* told to clients that do not go on with another daemon */
	const char *url;                     /* NULL: the supervisor knows that this is ready */
	bool told_rates;                     /* it knows how fast the device is */
	struct control_packet *packets;      /* utlist */
	bool starved;                        /* something that came could not be read for lack of memory, and waits where it is */
	bool unread;                         /* that was a packet of the supervisor: later ones wait until it was read */

	struct session *sessions;            /* uthash by number */
	struct account *accounts;            /* uthash by user */
	struct session *gathering;           /* utlist of those with operations in the window */
	struct waiter *ready;                /* utlist: exec has called back */
	struct operations *operations;       /* that the administrator defined */
	struct patterns *patterns;           /* ... and patterns */
	struct session *holding;             /* utlist: those that hold requests */
	struct waiter *accepted;             /* utlist: batches whose acceptance is still to be told */
	struct share *shares;                /* utlist: exported arrays */
	struct hold *leaving;                /* utlist: share.c looks at them in the next turn */
	struct token *tokens;                /* uthash */
	uint64_t token_seed;                 /* where they lie in that table */
	bool waits_for_builds;               /* requests are held until kernels are built, or time has passed */
	uint64_t builds_seen, builds_us;     /* how many there were, and when, when that was last looked at */
	bool progress;                       /* runs ended: held requests may go on */

	struct past *past;                   /* utlist: recent.h */

	uint64_t trace_until_us;             /* events.c: when its recording ends */
	uint64_t timed_for;                  /* events.c: who asks when launches are on the device; 0: nobody, UINT64_MAX: several do */
	bool timed_no_more;                  /* the only one has ended */

	struct aside *aside;                 /* what is done beside this thread */
	struct graph *graph;                 /* for one plan at a time: copies, checks, EXPLAIN */
	struct wire_writer writer;           /* of answers */
	struct wire_memory memory;    /* of the frame that is being read */
	struct batch_scratch *scratch;       /* submit.c */
	struct flush_scratch *flush;         /* flush.c */

	uint64_t started_us, sessions_total;
	struct histogram took;               /* graphs, from hand-over to the end */
	struct counters ended;               /* of sessions that have ended */
	struct pattern_counters pattern[PATTERN_COUNT];
	uint64_t faults[FAULT_COUNT];
};

int server_new(const struct server_config *c, struct server **serverp) FAULT_MUST_USE;
struct server *server_free(struct server *v);        /* returns NULL */

/* Everything that can be done without waiting. */
void server_turn(struct server *v);
/* Turns until `stop_fd` becomes readable, and what clients have asked for is done, or the supervisor is gone. 0 or -errno. */
int server_run(struct server *v, int stop_fd) FAULT_MUST_USE;
/* Did it return because the supervisor is gone? */
bool server_orphaned(const struct server *v);
/* Are there sessions whose clients go on with the next daemon? */
bool server_goes_on(const struct server *v);

/* ---- the end: drain.c ---- */

void drain_begin(struct server *v);
/* True once everything that was asked for is done and read, or engine.drain_us is over. */
bool drain_done(struct server *v);
/* After that, before the end: what the device is at is there when this returns. */
void drain_end(struct server *v);
/* 0, or FAULT_STATE for new operations once the end has begun. */
int drain_refuse(const struct server *v, struct fault *f) FAULT_MUST_USE;
/* Are the session's new operations left alone, neither accepted nor refused, because its client repeats them at the next daemon? */
bool drain_leaves(const struct session *s);

/* ---- the log of slow graphs: slow.c ---- */

/* Says when the run began, and how much had been built by then. */
void slow_begin(struct run *run);
/* The device is done with it. */
void slow_end(const struct run *run);

/* ---- the supervisor: control.c ---- */

/* Handles every packet that is there. */
void control_turn(struct server *v);
/*
 * Takes in sessions and arenas that are on their way: the supervisor tells the engine of them
 * before it tells the client. Ends no session, so a caller may hold one.
 */
void control_catch_up(struct server *v);
/* Asks for an arena of a session: -EAGAIN, and its space is told of it or of its refusal (s->refusal); or another error. */
int control_want(struct session *s, uint64_t bytes) FAULT_MUST_USE;
/* Waits until its space was told, briefly. 0, -EPIPE or -ETIMEDOUT. */
int control_await_arena(struct session *s) FAULT_MUST_USE;
/* Asks for memory of one array that the session exports, and that it then holds: share_granted() or share_refused(). 0 or -errno; one is asked for at a time. */
int control_share(struct session *s, uint64_t bytes) FAULT_MUST_USE;
/* Asks to hold such memory of another one, until control_drop(): share_held() or share_refused(). 0 or -errno; the answers come in the same order. */
int control_hold(struct session *s, uint32_t arena, bool writable) FAULT_MUST_USE;
/* An engine-laid-out arena is empty, or what it held of a shared array is released. */
void control_drop(struct session *s, uint32_t arena);
int control_ready(int control, const char *url, const char *device, const char *driver) FAULT_MUST_USE;
/* The session wrote nonsense. user is the server. */
void control_bad(void *user, uint64_t session);
/* Nothing of a session that has ended is mapped any more. */
void control_left(void *user, uint64_t session);
/* A process that compiles is to be started; it comes to the device. Any thread. 0 or -errno. */
int control_want_worker(int control, bool idle) FAULT_MUST_USE;
/* For who serves nobody (fusiond --warm): the device takes the workers that have come. */
void control_workers(int control, struct device *d);
/* The engine has a program of this kernel; a spare engine, now or later, makes one ready, too. */
void control_program(int control, const struct kernel *k);
/* An administrator changed something for everybody: the supervisor says it to the engine after this one. kind: enum order_kind. */
void control_order(struct server *v, unsigned kind, const char *name, const char *text);
/* Changes a setting of everybody, or the switch of a pattern. 0 or a fault. */
int configure_all(struct server *v, const char *name, const char *value, struct fault *f) FAULT_MUST_USE;
/* The general configuration has changed: what holds for each user and session is found again. */
void configure_changed(struct server *v);
/* A graph that was suspected ran alone, and nothing happened. */
int control_innocent(struct server *v, const uint64_t key[2], uid_t uid) FAULT_MUST_USE;
/* What an engine before this one left of the session is here. */
int control_resumed(const struct session *s) FAULT_MUST_USE;
int control_rates(struct server *v) FAULT_MUST_USE;
/* What the user's sessions have used since the last time, where there is any. */
void control_spent(const struct server *v, struct account *a);
/* Of all users, now and then. */
void spent_turn(struct server *v);
int control_failed(int control, const struct fault *f) FAULT_MUST_USE;

/* ---- who watches: events.c ---- */

/* Ends a recording that nobody asks for any more. */
void events_turn(struct server *v);
/* What it alone asked for ends with it. */
void events_session_ends(struct server *v, uint64_t session);

/* ---- what is collected: metrics.c ---- */

/* The packet METRICS. */
void metrics_put(const struct server *v, struct wire_writer *w);

/* ---- the window: window.c ---- */

enum flush_reason {
	FLUSH_IDLE,
	FLUSH_TIME,
	FLUSH_OPERATIONS,
	FLUSH_BYTES,
	FLUSH_DEMAND,
	FLUSH_URGENT,
};

/* Would a batch that is added now run now, however small it is? */
bool window_at_once(const struct session *s, bool urgent);
/* A batch was added: runs it now, or lets it wait for others. */
void window_added(struct session *s, bool urgent);
/* Runs what waits because its time is up or the device is idle. */
void window_turn(struct server *v);
/* When the next window ends, by loop_now(); UINT64_MAX: none is open. */
uint64_t window_deadline(const struct server *v);

/* ---- running: flush.c ---- */

/*
 * Hands what a session gathered to exec. Failures poison the arrays and are told by WAIT. False where it is planned first, beside this thread: until then
 * it stays gathered, and request_arrived() holds what the session asks for.
 */
bool flush_session(struct session *s, enum flush_reason reason);
/* For a request that needs it done: 0, or -EINPROGRESS, and the request comes again. */
int flush_demanded(struct session *s) FAULT_MUST_USE;
/* What is being planned will not run. False: nothing is. */
bool flush_cancel(struct session *s);
/* The session ends: what is being planned for it is forgotten. */
void flush_forget(struct session *s);
/* The session's graph is a kept one, which is run at once. */
void flush_graph_take(struct session *s, struct graph *kept);
/* It is its own again: now, or once what is being planned has run. */
void flush_graph_back(struct session *s);
/* Gives an array that has a buffer memory of its own, row-major. 0, a fault or -ENOMEM. */
int flush_copy(struct session *s, struct array *a, struct fault *f) FAULT_MUST_USE;
/*
 * Gives the values of a, which has a buffer, to `to`, an array of the same type without one, in memory of `space`. 0, a fault
 * or -ENOMEM.
 */
int flush_copy_to(struct session *s, const struct array *a, struct array *to, struct space *space,
	struct fault *f) FAULT_MUST_USE;
void flush_scratch_free(struct flush_scratch *x);
void run_free(struct run *run);
/* The plan has run: counted.c */
void session_count_plan(struct session *s, const struct plan *p);

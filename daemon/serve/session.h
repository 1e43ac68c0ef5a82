/*
 * A session: what one client has in the engine. It belongs to no connection.
 *
 * Requests that change a session are numbered; they run in the order of their numbers whatever
 * order they arrive in. Early ones are held, within bounds.
 *
 * The operations of accepted batches gather in `graph` until the window hands them to exec as one
 * run. The session's arrays refer to that graph by (epoch, node); every run begins a new epoch.
 */
#pragma once

#include <sys/types.h>

#include "protocol/hash.h"
#include "daemon/plan/tracker.h"
#include "daemon/serve/configure.h"
#include "daemon/serve/counters.h"
#include "daemon/serve/handles.h"
#include "daemon/serve/recent.h"
#include "daemon/serve/transport.h"

struct account;
struct capture;
struct pattern_use;
struct planning;
struct recurring;
struct server;
struct session;

enum {
	SESSION_NAME = 128,
	/* Requests held because an earlier one has not arrived or too much is queued. */
	SESSION_HELD = 32,
	SESSION_HELD_BYTES = 32 << 20,
	/* Faults of runs kept for the next WAIT. */
	SESSION_FAILURES = 64,
	/* Client memory told as freed in one answer: 2 numbers each. */
	SESSION_FREED = 4096,
	/* Bytes of recorded graphs. */
	SESSION_CAPTURE_BYTES = 64 << 20,
};

/* A request that cannot run yet. */
struct held {
	struct held *previous, *next;
	struct transport_request *frame;
	size_t bytes;                /* of the frame, which goes with its answer */
	unsigned id;
	uint64_t seq;
	bool later;                  /* once what its session gathered is planned */
	bool before;                 /* it came before the daemon was told to end */
};

struct failure {
	uint64_t seq;
	int64_t node;
	struct fault fault;
};

/* Told once batches up to seq were begun: until then one that loads it may have to be repeated. */
struct freed {
	uint64_t seq;
	uint32_t arena;
	uint64_t offset;
};

/* A graph handed to exec and not yet done. */
struct run {
	struct run *previous, *next;
	struct session *session;
	uint64_t first, last;        /* numbers of the batches in it */
	bool copies;                 /* it is of none */
	struct array *copied;        /* it makes a copy of its own for this array; NULL: it does not */
	uint64_t operations, bytes;
	struct plan *plan;           /* a reference: what is counted when it is done */
	uint32_t note;               /* behind its entry of the catalogue; 0: none. flight.c */
	bool alone;                  /* it is suspected, and goes alone */
	struct graph_hash key;       /* ... under this */
	uint64_t tracked;            /* tracked_id(); 0: of none */
	uint32_t variant;            /* tracked_variant() */
	enum track_form form;
	uint64_t submitted_ns;       /* when it was handed over */
	bool tuned;                  /* it won the comparison of all forms of the graph */
	uint64_t began_us;           /* where slow ones are logged: when, by loop_now(); else 0 */
	uint64_t built;              /* programs that had been built by then */
};

/* Memory that the supervisor gave for an exported array. */
struct grant {
	uint32_t arena;
	int fd;
	uint64_t bytes;
};

/* A request that exec will answer; see wait.c. */
struct waiter;

struct session {
	struct server *server;
	uint64_t id;
	unsigned char secret[LIMIT_SECRET_BYTES];
	uid_t uid;
	bool remote;                 /* on another machine */
	bool repeating;              /* a batch that its library repeats is being taken */
	bool repeat_refused;         /* one of those was refused; until an ordinary one comes */
	bool restored;               /* an engine before this one began it */
	bool whole;                  /* ... and has what was not begun then, for a second time */
	uint32_t entry;              /* of the catalogue, or CATALOGUE_NONE */
	bool admin;                  /* of the group door.admins */
	bool returns, repeats;       /* its client goes on with the next daemon; and repeats there what was not begun */
	pid_t pid;
	struct account *account;     /* of its user */
	char name[SESSION_NAME];
	uint64_t since_us;
	UT_hash_handle hh;

	struct fusion_settings settings;
	bool own[CONFIG_SETTINGS];   /* the client has chosen this setting */
	struct book *book;           /* a reference to the patterns of users that hold here, or NULL; patterns.c */
	struct pattern_use *use;     /* of each */
	named_set named_off;
	struct handles handles;
	struct lane *lane;
	struct space *space;
	struct channel *channel;     /* its ring, or NULL */

	uint64_t next;               /* number of the next request that changes the session */
	uint64_t running;            /* of the one that is being run, which is below; 0: none is */
	struct held *held;           /* utlist */
	struct session *holding_previous, *holding_next; /* while there are any: of those that hold some */
	uint32_t held_count;
	size_t held_bytes;

	/* Being gathered; see submit.c, window.c and flush.c. */
	struct graph *graph;
	uint64_t epoch;
	uint64_t gathered;           /* operations */
	uint64_t first, last;        /* numbers of the first and the last batch in it */
	struct array **pending;      /* outputs; each holds a reference */
	uint32_t pendings, pending_capacity;
	struct buffer **used;        /* of leaves; each holds a reference */
	uint32_t useds, used_capacity;
	bool windowed;               /* in the server's list of those that gather */
	struct session *window_previous, *window_next;
	uint64_t deadline_us;
	struct recurring *recurring; /* batches that came before, or NULL */
	struct planning *planning;   /* of what is gathered, beside this thread: until it has ended nothing is added; NULL: none */
	struct graph *own_graph;     /* while that is of a kept graph: the one that `graph` is again afterwards */
	struct planning *improving;  /* another plan of a graph that runs; NULL: none */

	struct run *runs;            /* utlist */
	uint64_t queued;             /* operations in runs */
	uint64_t queued_bytes;       /* that these runs take at their most */
	struct waiter *waiters;      /* utlist */
	uint32_t waiting;            /* of them, those that a client waits for */
	uint64_t answered_us;        /* when there were none of these any more, loop_now() */

	struct failure *failure;
	uint32_t failures, failure_capacity;
	struct freed *freed;
	uint32_t freeds, freed_capacity;

	struct hold *holds;          /* utlist: shared arrays; share.c */
	uint32_t held_shares, tokens;   /* how many there are of each */
	struct fault refusal;        /* why the supervisor gave it no memory, the last time */
	uint32_t lost_arena;         /* the client's, for which this process had no descriptor, or no room; 0: none */
	int lost_error;              /* why */
	struct waiter *exporting;    /* utlist: exports whose memory the supervisor is still to give */
	bool granting;               /* it was asked for the first one's, and what came of that was not taken up yet */
	struct waiter *importing;    /* utlist: imports that it is still to let the session hold */
	struct grant *regained;      /* memory of shares that it held when an engine ended, until that is restored */
	unsigned regains;
	bool ending;                 /* its end has been told, and is handled next */

	struct recents recents;      /* what it ran last */

	struct capture *capture[LIMIT_CAPTURES];
	uint64_t capture_bytes;

	struct counters counters;
	struct pattern_counters pattern[PATTERN_COUNT];
	uint64_t faults[FAULT_COUNT];
};

/* What the supervisor says of a new session. */
struct session_facts {
	uint64_t id;
	const void *secret;
	uid_t uid;
	pid_t pid;
	bool remote;                 /* on another machine */
	bool admin;                  /* of the group door.admins */
	bool returns, repeats;       /* its client goes on with the next daemon, and repeats there what was not begun */
	const char *name;
	size_t name_size;
};

int session_new(
	struct server *v, const struct session_facts *facts, struct session **sessionp) FAULT_MUST_USE;
/* It was begun by an engine before this one, and its arenas are here: takes what the catalogue says of it. restore.c */
int session_restore(struct session *s) FAULT_MUST_USE;
/* It stands in the catalogue from now on. 0 or -ENOMEM. restore.c */
int session_enter(struct session *s) FAULT_MUST_USE;
/* How far its requests are is noted there. */
void session_noted(struct session *s);
/* The planner is about to be at these batches; last 0: at none. */
void session_planning(const struct session *s, uint64_t first, uint64_t last);
/* Batches up to here have run; were begun, or cannot be repeated. */
uint64_t session_completed(const struct session *s);
uint64_t session_begun(const struct session *s);
/* Of some the device has something, and not all of that has ended. */
bool session_under_way(const struct session *s);
/* Answers what it holds with a fault, drops what it runs. */
void session_free(struct session *s);
/* The session with this secret, or NULL. The comparison takes the same time whatever it finds. */
struct session *session_find(struct server *v, uint64_t id, const void *secret);
/* A client's own choice of a setting: 0, or FAULT_ARGUMENT. */
int session_configure(struct session *s, const char *name, const char *value, struct fault *f) FAULT_MUST_USE;
/* What holds for its user has changed. configure.c */
void session_refresh(struct session *s);
/* Tells exec its weight and priority. */
void session_share(struct session *s);
/* The leaves of what is gathered, which is nothing any more. */
void session_drop_used(struct session *s);
/* May it see and change what is not its own? Root, the user of the daemon and administrators may, on this machine. */
bool session_governs(const struct session *s);
/* A fault that says who may do that, unless it may. */
int session_needs_rights(const struct session *s, const char *what, struct fault *f) FAULT_MUST_USE;
/* May it see what is that user's? */
bool session_may_see(const struct session *s, uid_t uid);
/* How the session's graphs are planned. */
struct plan_options session_plan_options(const struct session *s);
/* A fault of a run, for the next WAIT. */
void session_failed(struct session *s, uint64_t seq, int64_t node, const struct fault *f);

#define session_count(s, name, n) ((s)->counters.name += (uint64_t)(n))

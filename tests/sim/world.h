/* Inside the simulation: fibers, actors and the scheduler; see sim.h. */
#pragma once

#include <setjmp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/types.h>
#include <ucontext.h>

#include "sim.h"

enum {
	WORLD_ACTORS = 512,
	WORLD_FIBERS = 256,
	WORLD_FDS = 4096,
	WORLD_STRAYS = 512,
	WORLD_ARGUMENTS = 64,
	FIBER_STACK = 1 << 20,
};

#define NEVER UINT64_MAX

enum actor_kind { ACTOR_SUPERVISOR, ACTOR_ENGINE, ACTOR_CLIENT, ACTOR_KINDS };

struct actor;

/* What a fiber waits for. */
enum waiting { WAIT_NOTHING, WAIT_POLL, WAIT_FUTEX, WAIT_MUTEX, WAIT_COND, WAIT_JOIN, WAIT_CHILD, WAIT_TIME };

struct fiber {
	struct actor *actor;
	unsigned number;                  /* in the order made */
	ucontext_t context;
	char *stack;
	void *(*run)(void *user);
	void *user, *result;
	bool done, detached, woken;
	int saved_errno;
	char *own;                        /* its thread-local memory, while others run */

	enum waiting waits;
	uint64_t deadline_ns;
	struct pollfd *poll;
	unsigned polls;
	uint64_t seen;                    /* count of changes at the last look, */
	bool came;                        /* and what was seen */
	const unsigned *word;             /* of a mutex or condition; of a futex its place: */
	unsigned value;
	uint64_t inode, offset;
	const struct fiber *joined;
	pid_t child;

	/* Between fork() and execv(): the child runs on this stack, then the parent gets it back. */
	bool is_child, returns;
	ucontext_t forked;
	char *stack_copy;
	size_t stack_copied;
	pid_t made;
};

struct mapping {
	uint64_t begin, end, inode, offset;
};

struct instance;

struct actor {
	enum actor_kind kind;
	unsigned number;                  /* of clients: from 1 on */
	pid_t pid, parent;
	unsigned uid;
	struct instance *instance;
	bool alive, ending, reaped, clean, zombie;
	int status;                       /* as waitpid() tells it */
	uint64_t frozen_until_ns;
	uint64_t points, ends_at;         /* it ends at that point; 0: it does not */
	int signals[2];                   /* signalfd: where it reads, where others write; -1 */
	struct mapping *mapping;
	unsigned mappings, mapping_room;
	struct memory {
		void **slot;
		size_t room, used;
	} memory;
	int argc;
	char *argv[WORLD_ARGUMENTS];
	int inherited;                    /* a descriptor it was given, -1 */
	uint64_t unlucky;                 /* faults in calls of its own */
	bool first;                       /* of its kind */
};

/* A call that fails: of the first actor of a kind, the number-th one that may fail so, from 1 on; 0: none does. */
struct point {
	enum actor_kind kind;
	enum sim_fault what;
	uint64_t number;
	bool from_then_on;
};

struct world {
	uint64_t seed, random, now_ns, wall_ns, history, changes, steps;
	struct actor actor[WORLD_ACTORS];
	unsigned actors;
	struct fiber fiber[WORLD_FIBERS];
	unsigned fibers, fiber_numbers;
	pid_t next_pid;
	struct actor *owner[WORLD_FDS];
	struct { pid_t pid; unsigned uid; } peer[WORLD_FDS], connecting[64];
	unsigned connects;
	uint64_t ends;                    /* of engines and supervisors */
	uint64_t calls_failed;
	bool discrete;                    /* values may lie where they end with their engine */
	uint64_t rate[SIM_FAULT_KINDS];   /* once in so many; 0: never */
	uint64_t left;                    /* faults in calls that may still happen, */
	uint64_t calls_from_ns;           /* from then on, */
	unsigned victims;                 /* to these kinds of actors, a bit each */
	uint64_t happened[SIM_FAULT_KINDS];
	struct point point;
	uint64_t counted[ACTOR_KINDS][SIM_FAULT_KINDS]; /* calls of those first actors */
	bool pointing, healed;            /* calls fail by points; none does any more */
	bool verbose, quiet_end;
	const void *traced;               /* who allocates that block is told: the last one of a run had it at its end */
	FILE *trace;                      /* everything that is mixed into the history; or NULL */
	const char *folder, *socket;
};

extern struct world world;
extern struct fiber *me;                  /* NULL: the scheduler */
extern struct actor *current;

/* ---- world.c ---- */

void world_mix(uint64_t x);
void world_mix_text(const char *text);
struct actor *actor_start(enum actor_kind kind, unsigned number, unsigned uid, pid_t parent, int argc, const char *const *argv, int inherited);
/* Signal 0: it ended by itself, with this status. */
void actor_end(struct actor *a, int signal, int status);
struct actor *actor_by_pid(pid_t pid);
struct fiber *fiber_new(struct actor *a, void *(*run)(void *), void *user);
/* Gives way until what fiber->waits says has come or the deadline has passed; true: it has come. */
bool fiber_wait(struct fiber *f);
void fiber_yield(void);
/* The actor has ended, or this fiber of it: never comes back. */
void fiber_leave(void) __attribute__((noreturn));
void world_begin(uint64_t seed);
/* One step; false: nothing is left that could happen. */
bool world_step(void);
void world_end(void);
void signal_send(struct actor *to, int signal);
void world_at(uint64_t ns, void (*call)(void *user), void *user);

/* ---- instances: loaded copies of the shared objects ---- */

int instances_open(const char *folder);
struct instance *instance_take(enum actor_kind kind);
void instance_give(struct instance *i);
sim_entry_function *instance_entry(const struct instance *i);
/* What is thread-local is each fiber's own: it comes in, fresh where *ownp is NULL, and goes out. */
void instance_thread_in(const struct instance *i, char **ownp);
void instance_thread_out(const struct instance *i, char *own);

/* ---- points.c ---- */

/* Each point in a process of its own, those of FUSION_SLICE; or the one that is named. The exit status. */
int points_run(const char *only);

/* ---- main.c ---- */

/* One client after the other runs the script; where a call fails, it fails the first. */
void run_script(const struct point *p);
void folder_make(void);
void folder_remove(void);

/* ---- calls.c ---- */

void calls_close_all(struct actor *a);
size_t calls_open(const struct actor *a);
/* Prints them. */
void calls_list(const struct actor *a);
size_t memory_blocks(const struct actor *a);
/* Is that where a block begins that it has not freed? */
bool memory_has(const struct actor *a, const void *p);

/*
 * The engine as the supervisor sees it, and the gateway likewise: a child process, started by fork and exec, and a socket
 * pair of packets (CONTROL in messages.def).
 *
 * Each start is a generation with an op stream path of its own. The engine dies with the
 * supervisor (PR_SET_PDEATHSIG). Nothing here blocks: child_send() refuses with -EAGAIN while the
 * engine is slow to read, for what a client can repeat; child_queue() keeps what must arrive.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol/shm.h"
#include "protocol/wire.h"
#include "daemon/base/config.h"
#include "daemon/base/loop.h"

enum child_state {
	CHILD_NONE,                  /* no process */
	CHILD_STARTING,              /* has not said READY */
	CHILD_READY,
	CHILD_STOPPING,              /* told to end */
};

/* Of the engine, and of its workers (workers.c). */
#define ENGINE_PROGRAM "fusiond-engine"

enum {
	/* program, five pairs of flags, --set pairs, NULL */
	CHILD_ARGUMENTS = 16 + 2 * CONFIG_FLAGS,
	CHILD_URL = 128,
	CHILD_DEVICE = 256,
	CHILD_RATES = 512,
	/* Longest control packet either way. */
	CHILD_PACKET = 16384,
};

struct child_packet {
	struct child_packet *next;
	int fd;
	size_t size;
	unsigned char bytes[];
};

struct child_callbacks {
	void (*ready)(void *user);
	/* A packet that is not READY or FAILED: the cursor stands behind its number. */
	int (*packet)(void *user, uint64_t id, struct wire_cursor *body, struct fault *f);
	/* The engine reads again after a child_send() was refused. */
	void (*writable)(void *user);
	void *user;
};

/* What a child is. */
struct child_kind {
	const char *program;
	const char *name;                        /* for people */
	const char *word;                        /* of the names of its sockets */
};

extern const struct child_kind child_engine, child_gateway;

struct child {
	const struct child_kind *kind;
	enum child_state state;
	pid_t pid, last_pid;                     /* the one before, once it was reaped */
	int control;
	uint32_t generation;
	uint32_t starts;
	uint64_t started_us, deadline_us;        /* deadline 0: none */
	uint64_t killed_us;                      /* when its deadline had passed; 0: it was not killed */
	bool failed;                             /* the last one did not end with status 0 */
	bool killed_outside;                     /* the last one ended by a SIGKILL that was not ours: a person's, or where memory ran out */
	unsigned number;                         /* among the engines of this daemon */
	char folder[CONFIG_TEXT];                /* of the op stream's socket */
	char url[CHILD_URL], device[CHILD_DEVICE];
	char driver[CHILD_DEVICE];               /* and its version; "" where READY did not say */
	char rates[CHILD_RATES];                 /* how fast the device is; empty until it is measured */
	struct fault failure;                    /* what FAILED said; code 0: nothing */
	struct loop *loop;
	struct loop_source *source;
	struct child_packet *queue;              /* utlist */
	bool refused;                            /* a child_send() met -EAGAIN */
	int passed;                              /* that came with the packet, or -1; taken by who sets it to -1 */
	struct child_callbacks callbacks;
};

void child_init(struct child *c, const struct child_kind *kind, struct loop *loop, const char *folder, unsigned number,
	const struct child_callbacks *callbacks);
/* Starts a process; 0, -errno, or FAULT_ARGUMENT where there is no program. */
int child_start(struct child *c, const struct config *config, const struct config_source *source,
	struct fault *f) FAULT_MUST_USE;
/* Where the program of a kind is: 0, or FAULT_ARGUMENT where there is none. */
int child_program(const struct child_kind *kind, const struct config *config, char path[static PATH_MAX], struct fault *f) FAULT_MUST_USE;
/* fusiond --warm: runs the engine's program that fills the cache, and starts what compiles for it. The exit code. See warm.c. */
int child_warm(const struct config_source *source);
/*
 * Runs the program with these arguments, one of which names `control`; it is killed when this process ends, and the kernel
 * takes it before this process where memory runs out. 0 or -errno.
 */
int child_spawn(const char *program, const char *const *argument, int control, pid_t *pidp) FAULT_MUST_USE;
/* Adds the arguments that give a program these settings; how many there are then. */
unsigned child_settings(const char **argument, unsigned count, const struct config_source *source);
enum {
	/* A sentence, and the ends of line and text. */
	CHECK_TEXT = LIMIT_SENTENCE + 2,
	/* Files on a disk are read in less; where a folder of another machine hangs, all does not hang with it. */
	CHECK_US = 10 * 1000 * 1000,
};

/* Does remote.* say what a gateway can do? A process that looks at it, and what it has said. */
struct child_check {
	pid_t pid;                               /* 0: there is nothing to look at */
	int out;                                 /* where that is read; -1: none */
	char text[CHECK_TEXT];
};
/* 0, -errno, or FAULT_ARGUMENT where there is no program. */
int child_check_begin(struct child_check *k, const struct config *c, const struct config_source *source, struct fault *f) FAULT_MUST_USE;
/* It ended so: 0, FAULT_ARGUMENT that names the place, or FAULT_INTERNAL. */
int child_check_judge(const struct child_check *k, int status, struct fault *f) FAULT_MUST_USE;
/* It did not end within CHECK_US: FAULT_INTERNAL. */
int child_check_late(struct fault *f) FAULT_MUST_USE;
/* All of it; waits. */
int child_check_remote(const struct config *c, const struct config_source *source, struct fault *f) FAULT_MUST_USE;
/* How many devices have `name` in theirs, as that program finds: 0, -errno, or a fault. Waits for it. See count.c. */
int child_count(const struct config *config, const struct config_source *source, const char *name, unsigned *countp,
	struct fault *f) FAULT_MUST_USE;
/* Which device an engine of these settings would take, in one line: 0, -errno, or the fault that it would have. Waits for it. */
int child_look(const struct config *config, const struct config_source *source, char text[static CHECK_TEXT], struct fault *f)
	FAULT_MUST_USE;
/* SIGTERM; SIGKILL follows at the deadline. */
void child_stop(struct child *c, uint64_t limit_us);
/* Kills a child whose deadline has passed. */
void child_tick(struct child *c, uint64_t now);
/* `to` has no process: it becomes that of `from`, which has none then. 0 or -errno. */
int child_move(struct child *to, struct child *from) FAULT_MUST_USE;
/* At once. */
void child_kill(struct child *c, uint64_t now);
/* After SIGCHLD: true if it has ended; the reason is appended to `why`. The state is CHILD_NONE then. */
bool child_reap(struct child *c, struct str *why);
/* 0; -EAGAIN; other errors mean that the engine is gone, which child_reap() will tell. */
int child_send(struct child *c, const struct wire_writer *w, int fd) FAULT_MUST_USE;
int child_send_pair(struct child *c, const struct wire_writer *w, const int fd[PACKET_PAIR]) FAULT_MUST_USE;
/* As child_send(), but keeps the packet (and a copy of fd) until the engine reads. */
int child_queue(struct child *c, const struct wire_writer *w, int fd) FAULT_MUST_USE;
/* For what must arrive however little memory there is: room for a packet of WIRE_SMALL bytes, taken early; to be freed. NULL: out of memory. */
struct child_packet *child_packet_new(void);
/* As child_queue() of no descriptor, in that room, which goes. */
int child_queue_in(struct child *c, struct child_packet *p, const struct wire_writer *w) FAULT_MUST_USE;

/*
 * The engines: one process for each device that device.device names, started, watched and started again alone.
 *
 *	NAME            the first device with NAME in its name; empty: the first of all
 *	NAME:2          the third of them
 *	NAME:* or *     every one, which a run of the engine's program counts when the daemon starts
 *	A, B:1, ...     several of these
 *
 * A session is of one engine as long as it lives. An engine that says why it cannot be ready, or dies twice before it ever was,
 * ends the daemon: who names a device wants it. Later ends are that engine's alone, and of the sessions it served.
 */
#pragma once

#include "daemon/base/catalogue.h"
#include "daemon/base/metrics.h"
#include "daemon/door/child.h"

struct supervisor;

enum {
	/* Devices of one daemon: what one machine has, with room to spare. */
	ENGINES = 32,
	/* What one is told beside the daemon's own settings: device, number, folder. */
	ENGINE_FLAGS = 3,
	/* Workers of one engine: of the most builders that there may be, one more, and as many that are about to end. */
	ENGINE_WORKERS = 2 * 65,
};

struct engine {
	struct supervisor *supervisor;
	struct child child;
	struct child spare;                  /* that takes its place: spare.c; CHILD_NONE: there is none */
	unsigned spare_wants[2];             /* workers that it asked for, by priority */
	uint64_t spare_us;                   /* when to start one; 0: not planned */
	unsigned generation;                 /* of the last process of either */
	unsigned number;
	struct config_source source;         /* the daemon's, and this device */
	char flag[ENGINE_FLAGS][2 * CONFIG_TEXT];
	uint32_t sessions;
	bool was_ready;
	uint64_t restart_us;                 /* when to start it again; 0: not planned */
	uint64_t restart_delay_us;
	uint64_t down_us;                    /* since when it serves nobody; 0: it serves */
	uint32_t ends;
	char last_end[LIMIT_SENTENCE];
	struct catalogue *catalogue;         /* of its sessions; NULL: none outlives it */
	bool catalogue_taken;                /* a daemon before this one began it */
	uint64_t ping, ping_us;              /* the last one, and when */
	struct suspect *suspects;            /* uthash: blame.c */
	struct order *orders;                /* utlist: orders.c */
	struct stocked *stock;               /* utlist: stock.c */
	pid_t last_pid;                      /* of the one that ended last */
	uint64_t arrays_kept, arrays_lost;   /* of sessions that outlived an engine, in all */
	uint64_t metric[METRICS];            /* the last that it told; metrics.c */
	uint64_t histogram[HISTOGRAMS][HISTOGRAM_NUMBERS];
	bool metrics_known, metrics_asked;
	pid_t worker[ENGINE_WORKERS];        /* processes that compile for it (workers.c); 0: none */
};

/* Reads device.device: 0, or a fault that names what is wrong with it. Counts devices where it must. */
int engines_open(struct supervisor *s, struct fault *f) FAULT_MUST_USE;
void engines_free(struct supervisor *s);
/* Takes over fd, a catalogue that a daemon before this one began: 0 or -errno. */
int engine_take_catalogue(struct engine *e, int fd) FAULT_MUST_USE;
/* The sessions of such a one are known: the others' entries go. */
void engines_settle(struct supervisor *s);
void engines_start(struct supervisor *s);
/* They finish what clients have asked for, and are killed once it is time. */
void engines_stop(struct supervisor *s);
/* It is time. */
void engines_hurry(struct supervisor *s);
/* The daemon is done once it is stopping and nothing that it started is left. */
void engines_end(struct supervisor *s);
/* After SIGCHLD. */
void engines_reap(struct supervisor *s);
/* Does what is due; when the next is, UINT64_MAX where nothing is. */
uint64_t engines_tick(struct supervisor *s, uint64_t now);
void engines_reload(struct supervisor *s);
/*
 * Is each engine well, or being replaced within its limit: engine.start_us since it served last, and the longest pause before
 * a start? One that is to end counts as well until then, too: a driver may keep a killed process for ever.
 */
bool engines_well(const struct supervisor *s, uint64_t now);
/* Does it serve, and has it answered what it was asked last? */
bool engine_answers(const struct engine *e);
/* Asks those that have answered; STATUS does so, that the next one knows. */
void engines_ask(struct supervisor *s, uint64_t now);
/* How long it has left the last question unanswered; 0: it has not. */
uint64_t engine_silent_us(const struct engine *e, uint64_t now);
/* All devices in a sentence. */
void engines_text(const struct supervisor *s, struct str *text);
/* The same with the state of those that are not ready. */
void engines_status(const struct supervisor *s, struct str *text);

/*
 * The engine for a new session: the one with the fewest sessions of those whose device's name has `wish` in it, or whose
 * number it is; all where it is empty, and then once each was ready. 0, -EAGAIN while none of them is ready, or a fault that names those there are.
 */
int engines_choose(const struct supervisor *s, const char *wish, struct engine **enginep, struct fault *f)
	FAULT_MUST_USE;

/* ---- spare.c ---- */

void spare_init(struct engine *e);
/* One is to be there soon, where engine.spare says so. */
void spare_plan(struct engine *e);
uint64_t spare_tick(struct engine *e, uint64_t now);
/* After SIGCHLD. */
void spare_reap(struct engine *e);
/* The engine's process is gone: its spare is in its place, READY; false where there is none. */
bool spare_takes_over(struct engine *e);
/* It serves, and gets the workers that it asked for before. */
void spare_wants_again(struct engine *e);

/* ---- workers.c ---- */

/* Starts a process that compiles, and tells the engine of it, or why there is none. 0 or -errno. */
int worker_start(struct engine *e, bool idle) FAULT_MUST_USE;

/* The engine's WORKER_WANT: starts a process that compiles for it, and answers. 0, a fault of the packet, or -errno. */
int workers_want(struct engine *e, struct wire_cursor *body, struct fault *f) FAULT_MUST_USE;
/* After SIGCHLD. */
void workers_reap(struct engine *e);
/* The engine is gone: nobody wants what they do. */
void workers_end(struct engine *e);
/* Is any there that was not reaped? The daemon ends after them, so that nothing has its folders open any more. */
bool workers_left(const struct engine *e);

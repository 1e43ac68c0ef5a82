/*
 * Runs plans: binds slots to buffers, waits (without blocking) for programs, launches, hands back.
 *
 * A lane is one session's order of execution: runs of a lane are launched in the order submitted. All lanes
 * share the device's in-order queue, so memory given back when its last user is launched may be taken by the
 * next launch at once. The queue is kept short; whose run is next is decided by what each lane was given
 * of the device's time (schedule.c), and runs of one plan that wait in several lanes become one launch.
 *
 * A buffer's memory is taken when the run that writes it is launched. Where that fails, or the run
 * fails, the buffer is poisoned: it keeps the fault, and every later run that reads it fails with
 * the same fault, while others of the lane go on.
 *
 * Memory spaces. Each session has one: arenas the client lays out (uploads), and arenas the engine
 * lays out (results), which grow by asking serve. Results lie where the client can map them; on
 * devices with memory of their own a buffer has device memory, and host memory only once published, or moved
 * there because the device has no room for all: it comes back when a run reads it.
 */
#pragma once

#include "daemon/base/histogram.h"
#include "daemon/base/catalogue.h"
#include "daemon/base/config.h"
#include "daemon/base/trace.h"
#include "daemon/device/device.h"
#include "daemon/plan/plan.h"

struct exec;
struct lane;
struct space;
struct buffer;

struct exec_config {
	struct device *device;
	struct plan_cache *plans;     /* where plans that had to be split are replaced */
	uint64_t scratch_bytes;       /* most private memory for temporaries; 0: no limit but the device's */
	uint64_t packed_bytes;        /* most memory of factors that stay packed between runs */
	enum config_interpreter interpreter; /* which elementwise kernels run as bytecode */
	uint64_t near_ns;             /* what one unit does in less may run on this thread; 0: nothing */
	uint64_t slice_ns;            /* while there are other lanes, or a run goes alone, longer launches are made in slices of about that; 0: never */
	uint64_t long_ns;             /* always those that take longer than this; 0: none */
	bool time_kernels;            /* plan_step.measured_ns is wanted: every launch is waited for; device_config.profile */
};

int exec_new(const struct exec_config *c, struct exec **execp) FAULT_MUST_USE;
/* Lanes and buffers must be gone. Waits for the device; spaces that remain are freed. */
struct exec *exec_free(struct exec *x);
/*
 * For who fills the cache and serves nobody: asks for everything that sessions may want before they bring graphs.
 * True once nothing is left; to be asked again while device_poll() is called.
 */
bool exec_warm(struct exec *x);
/*
 * Is what runs graphs that were never seen built, or has it failed? Who is served before waits for compilers. To be asked again while
 * device_poll() is called.
 */
bool exec_prepared(const struct exec *x);
/* Was it built before, so that it comes from the cache in some ten milliseconds? */
bool exec_prepares_known(const struct exec *x);
/* Buffers are noted there from now on. It stays the caller's. */
void exec_note(struct exec *x, struct catalogue *c);
/*
 * From now on it is told, after space_free(), once nothing runs on a space's arenas any more and none is mapped; number: of space_note(), spaces
 * without one are not told. NULL: nobody is.
 */
void exec_left(struct exec *x, void (*left)(void *user, uint64_t number), void *user);
/*
 * Called by the engine's loop after device_poll(), and about every second where nothing happens:
 * goes on with runs whose programs are ready, gives back memory that has been empty for a while.
 */
void exec_progress(struct exec *x);
/* Waits until what was launched has run, and tells of it; launches nothing. */
void exec_finish(struct exec *x);
/* From here to exec_progress() runs are only queued, so that those that arrive together can be launched together. */
void exec_gather(struct exec *x);
/*
 * Launches that have run when they return keep this thread from hearing of what is asked for meanwhile. Behind such a one nothing is launched
 * for the others while waits() says that something is to be heard, until exec_gather() tells that it is.
 */
void exec_heeds(struct exec *x, bool (*waits)(void *user), void *user);
/* Call exec_progress() after so long at the latest; UINT64_MAX: as above. */
uint64_t exec_wait_us(const struct exec *x);
/* Runs submitted and not yet completed, of all lanes. */
uint32_t exec_busy(const struct exec *x);

/* ---- memory ---- */

/*
 * A session's memory. `grow` is called when an engine-laid-out arena of at least `bytes` is needed; it asks for one and returns
 * -EAGAIN, and space_add_arena() or space_refused() is called later: what needs it waits in its lane, and nothing is asked for before that.
 * Or it calls space_add_arena() before it returns 0; or it fails with -ENOMEM, or -ENOBUFS where `why` tells. `await`, for what is needed
 * now, waits until one of these two was called: 0, or another error. `freed` is called
 * when client-laid-out memory is used by no buffer and no launch any more.
 */
struct space_callbacks {
	int (*grow)(void *user, uint64_t bytes);
	int (*await)(void *user);
	void (*freed)(void *user, uint32_t arena, uint64_t offset, uint64_t bytes);
	/* An engine-laid-out arena has been empty for a while and was unmapped. NULL: they stay. */
	void (*drop)(void *user, uint32_t arena);
	const struct fault *(*why)(void *user);
	void *user;
};
int space_new(struct exec *x, const struct space_callbacks *c, uint64_t quota, struct space **spacep) FAULT_MUST_USE;
struct space *space_free(struct space *s);         /* buffers that remain are poisoned as LOST */
/* From now on its buffers may be noted in the catalogue, as this session's. */
void space_note(struct space *s, uint64_t session);
/* The arena that was asked for does not come: -ENOMEM, or -ENOBUFS where `why` tells. */
void space_refused(struct space *s, int error);
/* Has it this arena, whoever lays it out? */
bool space_has(const struct space *s, uint32_t arena);
/* Is one on its way? */
bool space_awaits(const struct space *s);
/* Takes over fd. */
int space_add_arena(struct space *s, uint32_t arena, int fd, uint64_t bytes, bool engine_owned) FAULT_MUST_USE;
uint64_t space_used(const struct space *s);
/* Tells each place in arenas the client lays out that is in use; how many there are. */
uint32_t space_uses(const struct space *s, void (*tell)(void *user, uint32_t arena, uint64_t offset), void *user);
/* Bytes of its arenas. */
uint64_t space_mapped(const struct space *s);

/* Client memory as a buffer: bounds and alignment to the element are checked against the arena (and its slack). */
int buffer_from_arena(struct space *s, uint32_t arena, uint64_t offset, uint64_t bytes, struct buffer **bufferp,
	struct fault *f) FAULT_MUST_USE;
/*
 * Where the catalogue says what becomes of the buffer, from the first call on; CATALOGUE_NONE where it does not: no catalogue, a space without
 * a session, no memory.
 */
uint32_t buffer_entry(struct buffer *b);
/* A buffer whose value an engine before this one left, as the entry says: 0, -ENOMEM, or FAULT_LOST and why it is not there. */
int buffer_adopt(struct space *s, uint32_t entry, struct buffer **bufferp, struct fault *f) FAULT_MUST_USE;
struct buffer *buffer_ref(struct buffer *b);
struct buffer *buffer_unref(struct buffer *b);     /* returns NULL */
struct space *buffer_space(const struct buffer *b);
bool buffer_shared(const struct buffer *b);        /* more references than one */
const struct fault *buffer_fault(const struct buffer *b);   /* NULL, or why it has no value */
/* Where the client finds it; only after buffer_publish() has called back. */
void buffer_location(const struct buffer *b, uint32_t *arenap, uint64_t *offsetp);
/* The client has written its memory (UNMAP): what the device holds is stale. */
void buffer_written(struct buffer *b);

/* ---- runs ---- */

enum lane_priority { LANE_LOW, LANE_NORMAL, LANE_HIGH, LANE_PRIORITIES };
/* The usual weight. */
enum { LANE_WEIGHT = 100 };

/* How a lane shares the device with others that have something to launch. */
struct lane_share {
	uint32_t weight;                   /* its part of the device's time, against theirs; above 0 */
	enum lane_priority priority;       /* a higher one goes first, but for a launch now and then */
};

/*
 * Lanes that have one part of the device's time together, as one lane has: those of one user, who gets no more of it by
 * having many.
 */
struct lane_group;
struct lane_group *lane_group_new(void);                   /* NULL: out of memory */
/* Percent of all time that they may use at most, also where nobody else wants it: their runs wait. 100: no limit. */
void lane_group_limit(struct lane_group *g, uint32_t percent);
uint64_t lane_group_ns(const struct lane_group *g);       /* measured, of all its lanes ever */
/* Its lanes are gone. Returns NULL; NULL is allowed. */
struct lane_group *lane_group_free(struct lane_group *g);

struct lane_usage {
	uint64_t device_ns;                /* measured */
	uint64_t contended_ns;             /* of it, what was launched while another lane had something to launch, or was awaited */
	uint64_t shared;                   /* runs launched together with another lane's */
};

int lane_new(struct exec *x, struct lane **lanep) FAULT_MUST_USE;
/* Nothing was queued in it yet. Without a group it is by itself. */
void lane_join(struct lane *l, struct lane_group *g);
/* From now on; until then LANE_WEIGHT and LANE_NORMAL. */
void lane_set_share(struct lane *l, const struct lane_share *share);
const struct lane_usage *lane_usage(const struct lane *l);
/* Runs that are not begun fail with FAULT_CANCELLED; how many there were. */
uint32_t lane_cancel(struct lane *l);
struct lane *lane_free(struct lane *l);            /* pending runs are dropped, their callbacks not called */

struct exec_request {
	struct plan *plan;                 /* a reference is taken */
	struct buffer *const *leaf;        /* plan->leaves of them */
	const uint64_t *leaf_offset;       /* elements, of each leaf */
	const uint64_t *scalar;            /* plan->scalars values */
	struct space *space;               /* of the outputs */
	struct trace_source source;        /* whose it is, for who watches */
	uint32_t note;                     /* behind the entry of the catalogue, a CATALOGUE_RUN, that says how far it is; 0: none */
	uint32_t progress;                 /* behind that of its session, a CATALOGUE_SESSION, in which `last` is noted before its first launch; 0: none */
	uint64_t last;                     /* batch in it */
	bool alone;                        /* nothing else is with the device while this is */
	bool together;                     /* may be a task of one launch with runs of other lanes */
	uint64_t timeout_us;               /* not begun so long after now: FAULT_TIMEOUT; 0: never */
	/* Not NULL: the run is timed, where the device tells times and nothing came between. Called before done. */
	void (*timed)(void *user, double ns);
	/* Completed or failed; called from exec_progress() or device_poll(). f is NULL for success. */
	void (*done)(void *user, const struct fault *f);
	void *user;
};

/*
 * Queues a run. bufferp receives plan->outputs references: the buffers of plan->output[i].slot, where
 * an output that is a view of a leaf gives the leaf's buffer. 0 or -ENOMEM; faults arrive in done.
 *
 * A step whose kernel does not build is cut in two by plan_split(), in the end into single
 * operations; only a single operation that does not build fails, with FAULT_BUILD.
 */
int exec_submit(struct exec *x, struct lane *l, const struct exec_request *r, struct buffer **bufferp) FAULT_MUST_USE;

/*
 * Any thread: makes what may run in the place of the plan (generic kernels, bytecode), which otherwise its first run does. Nobody else has the plan; t: a
 * copy of the device's.
 */
void exec_stand_in(const struct exec *x, const struct traits *t, struct plan *p);

/* Any thread: which steps share a launch, as step.launch tells: those of a plan that has run as they did, of others as they would. 0 or -ENOMEM. */
int exec_find_launches(const struct traits *t, const struct plan *plan) FAULT_MUST_USE;
/*
 * Any thread: why a step waits for its own program, a constant text; NULL where bytecode or generic kernels run it until that is built (or
 * would, once they are there).
 */
const char *exec_waits_because(const struct exec *x, const struct traits *t, const struct plan_step *s);

/*
 * Asks for the programs of a plan that may be run later, `soon` where somebody does nothing but try it. 0: they are all ready; -EAGAIN:
 * not yet; a fault: one is not possible to build.
 */
int exec_ready(struct exec *x, struct plan *p, bool soon) FAULT_MUST_USE;

/* Calls back when everything submitted to the lane before has completed. */
int lane_fence(struct lane *l, void (*done)(void *user), void *user) FAULT_MUST_USE;
/* As lane_fence, and the buffer's bytes then lie where buffer_location() says. */
int buffer_publish(struct lane *l, struct buffer *b, void (*done)(void *user, const struct fault *f), void *user)
	FAULT_MUST_USE;

/*
 * Whether events tell when launches were on the device (TRACE_DEVICE), which costs some drivers as much as a launch. -ENOMEM, or -EIO where
 * the driver keeps no times; off: 0.
 */
int exec_time_launches(struct exec *x, bool on) FAULT_MUST_USE;
/* Tells of those that have ended. */
void exec_tell_launches(struct exec *x);

struct exec_counters {
	uint64_t runs, steps, kernels_split, scratch_bytes, scratch_peak;
	uint64_t shared_launches, shared_runs;           /* runs of several lanes launched together */
	uint64_t mixed_launches;                         /* ... that were of different plans */
	uint64_t slices;                                 /* launches of a part of a step */
	uint64_t expired, cancelled;
	struct histogram waited;                         /* runs, until their first launch */
	uint64_t busy_ns;                                /* of the device, whoever's work it was */
	uint64_t device_ns;                              /* measured, of all lanes, those that are gone included */
	uint64_t interpreted;                            /* of the steps: those that an interpreter ran */
	uint64_t moved, moved_bytes;                     /* residence.c: arrays that went to the host to make room */
	uint64_t reached;                                /* arrays that kernels touched in the host's memory */
	uint64_t packed_made, packed_used, packed_bytes; /* packed.c: copies made, found there; bytes kept now */
};
const struct exec_counters *exec_counters(const struct exec *x);

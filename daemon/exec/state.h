/*
 * Inside exec: its parts, and what its files share. Nobody outside includes this.
 *
 *   launch.c   what goes to the device in one launch
 *   schedule.c whose run is next, which run together, what each lane was given
 *   await.c    lanes whose client is about to ask again
 *   exec.c     sequence numbers, marks, completion; opening and closing
 *   lane.c     lanes and their items: runs, fences, publications
 *   timing.c   how long a run and its steps took
 *   interpret.c steps that an interpreter runs while their programs are built
 *   run.c      a run: waiting, launching, splitting what does not build
 *   bind.c     its memory
 *   prepare.c  what is computed once a plan: record templates, patches, the layout of temporaries
 *   space.c    arenas of a session
 *   note.c     what the catalogue says of buffers, and buffers that an engine before this one left
 *   buffer.c   arrays: where they lie, who uses them, why they have no value
 *   residence.c  which of them have memory of the device, and who makes room
 *   scratch.c  memory of temporaries
 *   packed.c   factors of products that stay packed between runs
 *
 * Sequence numbers. Whatever is handed to the device, or has nothing to hand over but must be told
 * in its turn, gets the next number of exec->sequence. A mark on the device covers all numbers so
 * far; when it is answered they have completed. Since the device's queue is in order, memory that
 * only the engine lays out may be given away as soon as its last user has a number; memory that
 * others touch (clients, the kernel's page tables) waits until that number has completed.
 *
 * Everything here belongs to the engine's thread.
 */
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>
#define HASH_FUNCTION(key, length, hash) ((hash) = (unsigned)XXH3_64bits(key, length))
#include <pthread.h>

#include "daemon/base/arena.h"
#include "daemon/emit/bytecode.h"
#include "protocol/hash.h"
#include "protocol/range.h"
#include "exec.h"

#define CLEANUP(function) __attribute__((cleanup(function)))

struct run;

/* ---- why something has no value: shared by all it befell ---- */

struct sorrow {
	uint32_t references;
	struct fault fault;
};

/* Never NULL: where memory is short, a constant one that says so. */
struct sorrow *sorrow_new(const struct fault *f);
struct sorrow *sorrow_set(int code, const char *format, ...) FAULT_PRINTF(2, 3);
/* Ends a sentence about device memory: what device_room() says is the number. */
#define DEVICE_MEMORY_LIMIT "all arrays together may take %" PRIu64 " bytes of it (device.memory)"

/* For what a call answered with an errno that wanted so many bytes in that space. */
struct sorrow *sorrow_of_error(const struct space *s, int error, uint64_t bytes);
struct sorrow *sorrow_ref(struct sorrow *s);
struct sorrow *sorrow_unref(struct sorrow *s);   /* returns NULL */

/* ---- scratch.c ---- */

struct piece {
	struct piece *next;
	uint64_t address, bytes;
	void *host;
	struct range *range;
	uint64_t sequence;                    /* of its last user */
	int64_t empty_ms;                     /* when it became empty */
};

struct block {
	struct piece *piece;                  /* NULL on devices with memory of their own */
	uint64_t address, bytes;
};

/* 0, -ENOMEM, -E2BIG beyond engine.scratch_bytes, or -EAGAIN where completion of what is queued will help. */
int scratch_take(struct exec *x, uint64_t bytes, struct block *b) FAULT_MUST_USE;
void scratch_give(struct exec *x, struct block *b);
/* Unmaps pieces that were empty for a while, or all empty ones. */
void scratch_trim(struct exec *x, bool all);
/* Once the engine is ready; later calls do nothing. */
void scratch_make_ready(struct exec *x);

/* ---- space.c ---- */

struct extent_key {
	uint64_t offset, bytes;
};

/* Client-laid-out memory in use. */
struct extent {
	struct extent_key key;
	struct space_arena *arena;
	struct buffer *buffer;                /* NULL: only launches use it */
	uint64_t sequence;                    /* of the last launch or copy that reads it */
	bool queued;                          /* in exec->retired */
	struct extent *next;
	UT_hash_handle hh;
};

struct space_arena {
	struct space_arena *next;
	struct space *space;
	uint32_t id;
	bool engine_owned;
	uint64_t bytes;
	uint64_t address;                     /* where kernels find it; 0: they do not */
	uint8_t *host;
	struct range *range;                  /* engine_owned */
	struct extent *extents;               /* else */
	uint64_t sequence;                    /* when it became empty, or its space went */
	int64_t empty_ms;
};

struct item;

enum wish_state {
	WISH_NONE,
	WISH_ASKED,                           /* the answer is on its way: nothing else is asked for */
	WISH_CAME,                            /* the arena is there, and is kept until who waits has looked */
	WISH_REFUSED,                         /* and who waits has not heard of it yet */
};

/* The one arena that a space asks for at a time. */
struct wish {
	enum wish_state state;
	uint64_t bytes;                       /* that were asked for */
	int error;                            /* REFUSED */
	uint32_t waiters;                     /* who looks when the answer is there; with the last of them it is forgotten */
};

struct space {
	struct exec *exec;
	struct space *next, *previous;        /* of exec */
	uint32_t references;                  /* the owner's, buffers', runs', extents' */
	bool gone;                            /* space_free() was called: no callbacks */
	struct space_callbacks callbacks;
	uint64_t session;                     /* under which its buffers are noted; 0: they are not */
	uint64_t quota, used;
	uint64_t engine_bytes;                /* of engine-laid-out arenas */
	struct wish wish;
	struct space_arena *arena;
	uint32_t dying;                       /* arenas, of one that is gone */
	struct buffer *buffers;
};

struct space *space_ref(struct space *s);
struct space *space_unref(struct space *s);
struct space_arena *space_arena(const struct space *s, uint32_t id);
/* Room in engine-laid-out arenas: 0 or -ENOSPC. */
int space_take(struct space *s, uint64_t bytes, struct space_arena **arenap, uint64_t *offsetp) FAULT_MUST_USE;
/*
 * There was none: asks serve for an arena with room for so many, or for all that are expected. 0: it is there; -EAGAIN: `who` (NULL: nobody)
 * waits, and is to look again; -ENOMEM or -ENOBUFS. But for 0, space_forgo() is to be called once it does not wait any more.
 */
int space_ask(struct space *s, struct item *who, uint64_t bytes, uint64_t expected) FAULT_MUST_USE;
void space_forgo(struct item *who);
/* As space_take(), but waits for more. 0, -ENOMEM, -ENOBUFS, or what serve's `await` says. */
int space_take_now(struct space *s, uint64_t bytes, struct space_arena **arenap, uint64_t *offsetp) FAULT_MUST_USE;
void space_give(struct space_arena *a, uint64_t offset, uint64_t bytes);
/* Counts bytes against the quota: 0 or -EDQUOT. */
int space_charge(struct space *s, uint64_t bytes) FAULT_MUST_USE;
void space_discharge(struct space *s, uint64_t bytes);
/* Drops arenas that were empty for a while. */
void space_trim(struct space *s, int64_t now_ms);
/* Unmaps arenas of spaces that went, once nothing runs on them. */
void arenas_bury(struct exec *x);
int extent_get(struct space_arena *a, uint64_t offset, uint64_t bytes, struct extent **extentp) FAULT_MUST_USE;
/* The buffer no longer uses it; serve is told when launches do not either. */
void extent_release(struct extent *e);
void extents_retire(struct exec *x);

/* ---- buffer.c ---- */

enum buffer_state {
	BUFFER_PENDING,                       /* the run that writes it is not launched */
	BUFFER_READY,                         /* its value is there, or queued */
	BUFFER_POISONED,
};

struct buffer {
	uint32_t references;
	uint8_t state;                        /* enum buffer_state */
	bool taken;                           /* device: has memory of a pool */
	bool resident;                        /* device: that memory has the value */
	bool hosted;                          /* the host's memory has the value */
	bool reached;                         /* a run has read it where the host has it: another uploads it */
	struct space *space;
	struct buffer *next, *previous;       /* of the space */
	struct buffer *older, *newer;         /* taken: of exec->oldest, by last use */
	uint32_t held;                        /* runs that are bound to it, as often as they name it */
	uint64_t bytes;
	struct space_arena *arena;            /* NULL while it has no host memory */
	uint64_t offset;
	struct extent *extent;                /* client-laid-out */
	uint64_t address;                     /* of the device */
	uint64_t written;                     /* sequence number of the run that writes it */
	struct sorrow *sorrow;
	struct packed *packed;                /* copies of it that are kept */
	bool packed_before;                   /* a run has packed this version of it */
	uint32_t entry;                       /* of the catalogue, or CATALOGUE_NONE */
};

/* A buffer that a run will write. */
int buffer_new(struct space *s, uint64_t bytes, struct buffer **bufferp) FAULT_MUST_USE;
/* Memory for the value a launch writes. 0, -EDQUOT or -ENOSPC. */
int buffer_take(struct buffer *b) FAULT_MUST_USE;
/*
 * Devices that reach host memory: reads a value where the host has it, once, for what is read again is faster near the device; or
 * takes memory there for a value that goes to the client next. False: by buffer_settle() or buffer_take(), then.
 */
bool buffer_reach(struct buffer *b, uint64_t *addressp);
bool buffer_take_reached(struct buffer *b, uint64_t *addressp);
/* What was taken for a value that nothing writes yet is given back. */
void buffer_untake(struct buffer *b);
/* The value is where kernels read it: uploaded where it has to be. 0, -ENOSPC, -EDQUOT or -EIO. */
int buffer_settle(struct buffer *b) FAULT_MUST_USE;
/*
 * The value is where the client reads it, or a copy is queued. 0, -ENOMEM, -EDQUOT, -ENOBUFS or -EIO; -EAGAIN while memory for it is on its
 * way, for which `who` waits, as space_ask() has it. NULL: it has to be now.
 */
int buffer_host(struct buffer *b, struct item *who) FAULT_MUST_USE;
/* Something with this sequence number reads it. */
void buffer_used(struct buffer *b, uint64_t sequence);
void buffer_poison(struct buffer *b, struct sorrow *s);
/* How far a run is: launched, a step of it in particular. */
void run_noted(const struct run *r);
/* Something writes it from now on, until buffer_noted(): says so in the catalogue. */
void buffer_writing(const struct buffer *b);
/* What it is now, and where, once sequence has completed; the same. */
void buffer_noted(const struct buffer *b, uint64_t sequence);
/* Gives the device's memory back; the value, if it has one, is on the host. */
void buffer_leave_device(struct buffer *b);

/* ---- residence.c ---- */

/* The buffer got device memory, is used, gives it back. */
void residence_begin(struct buffer *b);
void residence_touch(struct buffer *b);
void residence_end(struct buffer *b);
/* The run's arrays keep their device memory from here to there. */
void residence_hold(const struct run *r);
void residence_release(const struct run *r);
/* Device memory, where need be that of the arrays used longest ago. 0 or -ENOSPC. */
int residence_take(struct exec *x, uint64_t bytes, uint64_t *addressp) FAULT_MUST_USE;

/* ---- prepare.c ---- */

struct prepared_operand {
	uint32_t word;                        /* of the record: the address */
	uint32_t slot;
	uint32_t bytes;                       /* of an element */
	uint64_t add;                         /* bytes beyond the slot's address */
	/* Elements it touches, beyond the leaf's offset: low to high, none where low > high. */
	int64_t low, high;
};

/* A step as bytecode, how an interpreter cuts it, and its launch. */
struct interpreted {
	enum dialect dialect;
	uint64_t cut[KERNEL_WORD_DIMS];
	struct emit_launch launch;
	uint32_t words;
	uint64_t word[];
};

struct prepared_scalar {
	uint32_t word, number;
};

struct prepared_step {
	const struct kernel *kernel;          /* the plan's */
	struct program *program;              /* NULL: nobody wants it, since the interpreter always runs the step */
	struct interpreted *code;             /* NULL: there is none */
	bool postponed;                       /* that program is to be asked for yet: its user has many that nobody waits for */
	bool by_code;                         /* INTERPRETER_SWAP: this run has not swapped yet when it comes here */
	uint64_t items;                       /* 0: nothing to do */
	uint32_t local;
	uint32_t words;
	bool divisible;                       /* may be launched in slices, see emit_divisible() */
	uint32_t first;                       /* the first step of its launch */
	uint32_t pack;                        /* of prepared->packed: what it writes, or PLAN_NONE */
	uint64_t *record;
	struct prepared_operand *operand;
	uint32_t operands;
	struct prepared_scalar *scalar;
	uint32_t scalars;
};

/* A slot that is a packed copy of a leaf, and by what one is told from another: programs, records, offsets. */
struct prepared_packed {
	uint32_t slot, leaf, words;
	uint64_t *key;
};

struct prepared {
	struct prepared_step *step;
	uint32_t steps;
	uint32_t ready;                       /* steps from the first on whose programs are ready */
	uint32_t turn;                        /* INTERPRETER_SWAP: runs so far */
	bool stood_in;                        /* generic kernels that are built do it meanwhile */
	uint32_t postponed;                   /* steps */
	uint32_t slots;
	uint64_t scratch;                     /* bytes of all temporaries */
	uint64_t *place;                      /* a slot's offset there */
	struct prepared_packed *packed;
	uint32_t packs;
	uint64_t *moved;                      /* of leaves and outputs: bytes over the bus where they stay in host memory */
	uint32_t *same;                       /* an output's first twin: outputs of one slot share a buffer */
	double scale;                         /* what runs take against their estimates; 0: not known */
	struct arena arena;                   /* of all this */
};

/* The plan's own; made and kept with the first call. Asks for all programs. 0, -ENOMEM, or FAULT_INTERNAL. */
int prepare(struct exec *x, struct plan *p, struct prepared **preparedp, struct fault *f) FAULT_MUST_USE;
/* Asks for those that were postponed, as long as the user may. */
void prepared_ask(struct exec *x, struct prepared *p);
/* Can all steps be launched? 0, -EAGAIN while a program is built, or FAULT_BUILD with the step whose program failed. */
int prepared_check(struct exec *x, struct prepared *p, uint32_t *stepp) FAULT_MUST_USE;

/* Items of a task that go with one launch. */
struct slice {
	uint64_t first, items;
	bool whole;                           /* all there are */
};

/* Writes into the task's record which they are. */
static inline void slice_mark(const struct slice *p, uint64_t *record) {
	if (p->whole)
		return;
	record[KERNEL_WORD_ITEMS] = p->items;
	record[KERNEL_WORD_BEGIN] = p->first * record[KERNEL_WORD_UNITS_PER_ITEM];
}

/* ---- interpret.c ---- */

/* Asks for the interpreters that the cache has. 0 or -ENOMEM. */
int interpret_open(struct exec *x, enum config_interpreter mode) FAULT_MUST_USE;
/* Asks for interpreters that are wanted, where nobody is disturbed. */
void interpret_poll(struct exec *x);
/* After so long it may have something to ask for. */
uint64_t interpret_wait_us(const struct exec *x);
/* The plan of maps and generic kernels that does what p does, made with the first call; NULL: there is none. Owned by p. */
struct plan *interpret_stand_in(struct exec *x, struct plan *p);
/* Has it nothing but elementwise kernels? */
bool interpret_all_maps(const struct plan *plan);
/* Makes the step's code, where there is such. 0 or -ENOMEM. */
int interpret_prepare(struct exec *x, struct arena *arena, const struct plan_step *s, struct prepared_step *to) FAULT_MUST_USE;
/* Could an interpreter run the step now; never; would the next launch be one's? */
bool interpret_ready(const struct exec *x, const struct prepared_step *s);
/* One that failed for want of descriptors is built again where there are some. */
void interpret_retry(const struct exec *x, const struct prepared_step *s);
bool interpret_failed(const struct exec *x, const struct prepared_step *s);
bool interpret_chosen(const struct exec *x, const struct prepared_step *s);
/* Items of the launch of so many steps; has a record of a step, which has such code, cut as its interpreter wants it. */
uint64_t interpret_items(const struct prepared_step *s, uint32_t steps);
void interpret_cut(const struct prepared_step *s, uint64_t *record);
/* Launches so many tasks of steps that share a launch, whose records stand in exec->record, or a slice of one. As device_launch(). */
int interpret_launch(struct exec *x, uint32_t tasks, uint32_t words, const struct slice *p) FAULT_MUST_USE;

/* ---- packed.c ---- */


/* Binds a run's packed slots to memory: what is kept, or its own. 0, -ENOMEM or -EAGAIN, and then none is bound. */
int packed_bind(struct exec *x, struct run *r) FAULT_MUST_USE;
/* Is what the step would pack there already? */
bool packed_there(const struct run *r, uint32_t step);
/* Lets go of them; all steps of the run were launched, or not. */
void packed_release(struct exec *x, struct run *r, bool launched);
/* The array goes, or has a new version. */
void packed_forget(struct buffer *b);
/* Other arrays on the same bytes of a client's arena have one too. */
void packed_forget_overlapping(const struct buffer *b);
void packed_forget_all(struct exec *x);
/* Memory is short: forgets what no run is bound to; was there any? */
bool packed_trim(struct exec *x);

/* ---- timing.c, lane.c, run.c ---- */

enum item_kind {
	ITEM_RUN,
	ITEM_FENCE,
	ITEM_PUBLISH,
	ITEM_SLICE,                           /* the launched part of a run that paused; nobody is told */
};

struct item {
	struct item *next;                    /* of the lane, then of the flight */
	enum item_kind kind;
	struct lane *lane;                    /* NULL once it is gone: nobody to tell */
	uint64_t sequence;
	uint64_t cost_ns;                     /* of the device, estimated, until it has passed */
	uint64_t contended_ns;                /* of it, what was launched while others wanted the device */
	uint64_t charged;                     /* what its lane was charged for that */
	struct sorrow *sorrow;                /* why it failed */
	struct buffer *buffer;                /* PUBLISH */
	struct space *asked;                  /* whose wish it waits for; NULL: for none */
	union {
		void (*done)(void *user, const struct fault *f);   /* RUN, PUBLISH */
		void (*passed)(void *user);                        /* FENCE */
	};
	void *user;                           /* SLICE: the run, for as long as its lane is there */
};

/* ---- timeline.c ---- */

/*
 * The newest launch, begun by begin_ns, was traced as `events` events from `event` on; the text is that of its kernel. Where memory or
 * the driver does not allow it, the launch is not in the timeline.
 */
void timeline_launched(struct exec *x, const char *kernel, uint64_t event, unsigned events, uint64_t begin_ns);

/* So many tasks of steps [first, end). */
struct timing_launch {
	struct stamp *stamp;
	uint32_t first, end, tasks;
};

/* A run that is timed: a stamp of each launch, and the first of its steps. */
struct timing {
	struct plan *plan;                    /* a reference */
	uint32_t launches;
	struct timing_launch launch[];
};

struct run {
	struct item item;
	void (*timed)(void *user, double ns); /* NULL: nobody asks */
	struct timing *timing;
	struct plan *plan;
	struct prepared *prepared;
	struct space *space;
	struct buffer **leaf, **output;
	uint64_t *leaf_offset, *scalar, *base; /* base: address of each slot, once bound */
	uint32_t leaves, outputs;
	uint32_t step;                        /* the next to launch */
	uint64_t went;                        /* items of it that are launched: it goes in slices */
	bool interpreted;                     /* ... as bytecode */
	bool bound;                           /* memory is taken; steps may have been launched */
	bool stepwise;                        /* but that of each step's arrays, which comes and goes with it */
	bool in_one;                          /* flat: its results want one arena, since they found no places in several */
	struct trace_source source;
	uint32_t note, progress;              /* as exec_request */
	uint64_t last;
	bool alone;                           /* nothing else is to be with the device */
	bool together;                        /* may be launched with runs of other lanes */
	uint64_t added_ns;                    /* when it was queued; 0: it was begun */
	uint64_t deadline_ns;                 /* to be begun before; 0: none */
	uint64_t parts_cost_ns, parts_took_ns; /* of its slices that have passed: as estimated, as measured */
	struct block scratch;
	struct packed **packed;               /* prepared->packs of them, while bound */
};

struct lane_group {
	uint32_t busy;                        /* lanes that have items, or are awaited */
	uint32_t percent;
	uint64_t since_ns;                    /* when what it owes was looked at */
	double owed_ns;                       /* of its time: nothing is launched for it before that has passed */
	uint64_t device_ns;
};

/* What is known of a client's moments between an answer and its next request: await.c. */
struct await {
	struct lane *next, *previous;         /* of exec->awaited */
	bool awaited, known;
	uint32_t runs;                        /* queued, or with the device */
	uint64_t quiet_ns;                    /* when the last of them had passed, or the first came; 0: none yet */
	uint64_t quiet_held_ns;               /* exec->held_ns then */
	uint64_t used_ns;                     /* of the device, until then */
	uint64_t think_ns, work_ns;           /* usual: until the next one comes; of the device between two such moments */
};

enum lane_state {
	LANE_IDLE,                            /* no items, or being served */
	LANE_READY,                           /* in the heap of its priority */
	LANE_BLOCKED,                         /* in exec->blocked: its first item waits for something */
};

struct lane {
	struct exec *exec;
	enum lane_state state;
	struct lane *next, *previous;         /* while blocked */
	struct lane *all_next, *all_previous;
	struct item *first, *last;
	struct lane_group *group;             /* or NULL */
	struct lane_share share;
	struct lane_usage usage;
	uint64_t charged;                     /* nanoseconds of the device over weight */
	uint64_t asked;                       /* order of entry among equals */
	uint32_t place;                       /* in its heap */
	bool works;                           /* counts in group->busy */
	struct await await;
	uint32_t timeouts;                    /* runs that have a deadline */
};

/* A heap of lanes, the one to be served next first. */
struct ready {
	struct lane **lane;
	uint32_t count, capacity;             /* room for all lanes there are */
	uint64_t clock;                       /* charge of the lane that was served last */
	uint64_t served_ns;                   /* when that was, or when the first came */
};

/* NULL where memory is short: the run is not timed then. */
struct timing *timing_new(struct plan *p);
struct timing *timing_free(struct timing *t);    /* returns NULL */
/* The newest launch is of so many of these steps, the others being done already. Where there is no stamp, the timing ends: false. */
bool timing_launched(struct timing *t, struct device *d, uint32_t first, uint32_t end, uint32_t tasks);
/*
 * Tells each step of a launch its share of what it took on the device and of launch_ns, which any launch costs.
 * Of a launch of a part of its steps nothing, which says nothing of each.
 */
void timing_tell_steps(struct plan *p, const struct timing_launch *l, double ns, double launch_ns);
/* Everything has completed: tells the steps' times to the plan, and the run's to who asked. */
void timing_tell(const struct timing *t, const struct exec *x, const struct run *r);

/*
 * Is it to be launched now? 0: it holds all it needs. -EAGAIN while it has to wait. Else a fault: it has a
 * sorrow, and run_end() is all that remains.
 */
int run_ready(struct exec *x, struct run *r) FAULT_MUST_USE;
/*
 * Launches ready runs, of which several must join (launch_joins()), each launch of all of them at once: 0 when
 * they are done with. A single run may pause: -EBUSY where the device has enough for now, -EAGAIN where its
 * ring is full; so may several, for the ring.
 */
int runs_launch(struct exec *x, struct run *const *crew, uint32_t n) FAULT_MUST_USE;
/* Takes back what a run holds; its outputs without a value get the sorrow. */
void run_end(struct exec *x, struct run *r, struct sorrow *s);
/* ---- launch.c ---- */

/* Can all that is left of b be done by the launches of a? Both are prepared. */
bool launch_joins(const struct exec *x, const struct run *a, const struct run *b);
/* The rest of a run: 0, -EBUSY and -EAGAIN as runs_launch() has them. */
int launch_steps(struct exec *x, struct run *r) FAULT_MUST_USE;
/* The same from the first step on, timed. What else the device does until a rest is launched is no part of the run. */
int launch_timed(struct exec *x, struct run *r) FAULT_MUST_USE;
/* A launch of each of the runs, which join; those that find no room in the first one's have another. */
int launch_together(struct exec *x, struct run *const *crew, uint32_t n) FAULT_MUST_USE;

/* Queues an item, which goes at once where nothing has to be launched for it. */
void lane_append(struct lane *l, struct item *i);
struct item *lane_pop(struct lane *l);
/* Where it is empty and not awaited it no longer counts in its group. */
void lane_rests(struct lane *l);
/* Does the first item where that launches nothing: 0, or -EAGAIN. */
int lane_advance(struct lane *l) FAULT_MUST_USE;
void item_free(struct item *i);

/* ---- bind.c ---- */

/* The first step whose arrays are more than the device has room for, even alone; PLAN_NONE where there is none. */
uint32_t run_oversized(const struct exec *x, const struct run *r);
uint64_t run_step_bytes(const struct run *r, uint32_t step);     /* of its arrays */
/* Memory for the run: 0, -EAGAIN until others have gone on or the memory has come, or *sorrowp. */
int run_bind(struct exec *x, struct run *r, struct sorrow **sorrowp) FAULT_MUST_USE;
void run_unbind(struct exec *x, struct run *r);
/* Of a stepwise run, the arrays of the next step: 0, -EAGAIN, or the run has a sorrow. Then that step is done with. */
int step_bind(struct exec *x, struct run *r) FAULT_MUST_USE;
void step_release(const struct run *r, uint32_t step);

/* ---- schedule.c ---- */

/* Room for one lane more. 0 or -ENOMEM. */
int schedule_reserve(struct exec *x) FAULT_MUST_USE;
void schedule_free(struct exec *x);
/* The lane has a first item. */
void schedule_added(struct lane *l);
void schedule_remove(struct lane *l);
void schedule_set(struct lane *l, const struct lane_share *share);
/* Launches for the lanes that are next, until the device has enough. */
void schedule(struct exec *x);
void schedule_retry(struct exec *x);
/* Ends runs whose time is over before they were begun. */
void schedule_expire(struct exec *x);
/* The same at the client's wish; how many there were. */
uint32_t schedule_cancel(struct lane *l);
/* Estimated nanoseconds of a step. */
uint64_t schedule_step_ns(const struct run *r, uint32_t step);
/* The same by plan and measured kernels alone: what was learned of the run is of how it went. */
double schedule_estimate_ns(const struct run *r, uint32_t step);
/*
 * So much was launched for an item, by a launch that was begun then: some have run when they return. Then, when it has passed, and before it is
 * freed.
 */
void schedule_charge(struct exec *x, struct item *i, uint64_t ns, uint64_t began_ns);
void schedule_passed(struct exec *x, const struct item *i);
/* Has the device so much that even a run that was begun has to wait? */
bool schedule_pauses(const struct exec *x);
/*
 * Items beyond number `after` have passed, launched from began_ns on, at ended_ns, and are still in the flight: charges them with the
 * time they took.
 */
void schedule_settle(struct exec *x, uint64_t after, uint64_t began_ns, uint64_t ended_ns);

/* ---- await.c ---- */

/* A run was queued; one has passed, and is settled. */
void await_added(struct lane *l, struct run *r);
void await_passed(struct lane *l);
/* The lane is empty: it is awaited, where that pays. */
void await_begin(struct lane *l);
/* It is not any more; did it come in time? */
bool await_end(struct lane *l);
/* Ends it for those that did not come. */
void await_look(struct exec *x);
/* Is one awaited that goes before l? x->await_until_ns then says for how long. */
bool await_holds(struct exec *x, const struct lane *l, bool (*before)(struct lane *awaited, const struct lane *l));
/* Is one awaited, whoever is to go first? */
bool await_any(const struct exec *x);
/* What it usually has the device do before its client thinks again. */
uint64_t await_work_ns(const struct lane *l);
/* exec_wait_us(), for this. */
uint64_t await_wait_us(const struct exec *x);

/* ---- exec.c ---- */

enum {
	/* Marks in flight: enough that a short run is told before a long one behind it has ended. */
	EXEC_MARKS = 64,
	/* An interpreter and some generic kernels. */
	EXEC_FIRST = 16,
};

enum {
	/* Records of one launch: bounds how long a launch may take, and what waits for room in the ring. */
	EXEC_LAUNCH_WORDS = 8192,
	/*
	 * Bytes of an array, each time they are touched, that a kernel moves over the bus itself. More are as fast copied, and then
	 * lie where they may be touched again.
	 */
	EXEC_REACH_BYTES = 256 << 10,
	/* The same with a word a task, and the code; pieces of code of several plans take what records leave. */
	EXEC_IMAGE_WORDS = EXEC_LAUNCH_WORDS + EXEC_LAUNCH_WORDS / KERNEL_WORD_DIMS + BYTECODE_WORDS,
};

struct exec {
	struct device *device;
	struct catalogue *catalogue;          /* NULL: nothing is noted */
	void (*left)(void *user, uint64_t number);
	void *left_user;
	struct plan_cache *plans;
	bool flat, time_kernels;
	uint64_t scratch_limit, scratch_mapped;
	struct piece *scratch;
	struct piece *scratch_kept;           /* one of them that stays, or NULL */
	pthread_t scratch_clearer;
	bool scratch_ready, scratch_clearing; /* was it tried; is there a thread to join */
	struct buffer *oldest;                /* utlist: those with device memory, by last use */
	struct packed *packed;
	uint64_t packed_limit;
	struct space *spaces;
	struct lane *lane, *blocked;          /* all; those whose first item waits for something */
	struct lane *awaited;
	uint64_t awaited_ns, await_until_ns;  /* when they were looked through; what is held back is held until then, 0: nothing is */
	uint32_t lanes;
	uint64_t slice_ns, long_ns, near_ns;  /* exec_config */
	struct ready ready[LANE_PRIORITIES];
	uint64_t asked;
	uint64_t ahead_ns;                    /* estimated: launched, and not known to have passed */
	const struct lane *alone;             /* all of that is this lane's; NULL: of several */
	const struct lane *last;              /* the last launch was this lane's alone, as those before it were: so many; NULL: of several */
	uint64_t in_a_row;
	uint64_t launched_ns;                 /* first launch since the last mark */
	uint64_t held_ns, held_until_ns;      /* this thread was in launches for so long in all, and until then */
	uint64_t heard_ns;                    /* when what was settled last had passed */
	uint64_t silent_held_ns, unheard_ns; /* held_ns when nothing was to be heard, and how much of it passed until the last exec_gather() */
	bool gathering;                       /* exec_gather() */
	bool contended;                       /* what is being launched is launched while another lane wants the device */
	bool ran_here;                        /* since then a launch has run on this thread */
	bool (*waits)(void *user);            /* exec_heeds() */
	void *waits_user;
	bool look_again;                      /* what other lanes wait for has changed: each is to be looked at in this turn */
	bool held_back;                       /* a lane waits because of its group's limit */
	uint32_t deadlines;                   /* runs that have one */
	int64_t expired_ms;
	uint32_t partial;                     /* runs with some steps launched and some not */
	uint32_t holding;                     /* of them, whose arrays stay on the device */
	bool stepwise;                        /* of them, the one whose arrays do not */
	const struct run *loner;              /* a run that goes alone, and waits for that or is with the device */
	uint64_t sequence, marked, completed;
	uint64_t mark[EXEC_MARKS];            /* what each mark in flight covers */
	uint64_t mark_launched_ns[EXEC_MARKS];
	uint32_t marks, mark_first;
	struct item *flight, *flight_last;    /* in order of their numbers */
	struct extent *retired, *retired_last;
	struct space_arena *dying;
	uint32_t busy;
	int64_t trimmed_ms;
	struct exec_counters counters;
	struct timeline *timeline;            /* while somebody wants to know when launches are on the device; else NULL */
	enum config_interpreter interpreter_mode;
	bool later, soon;                     /* what is prepared is not waited for; but it is tried as soon as it is built */
	uint32_t interpreters_wanted;         /* bits of dialects */
	struct program *interpreter[DIALECTS]; /* NULL: not asked for */
	uint32_t generics;                    /* generic kernels that were asked for: the first ones */
	struct program *first[EXEC_FIRST];    /* that are built before anybody is served */
	unsigned firsts;
	bool firsts_known;                    /* ... and were built before */
	uint64_t image[EXEC_IMAGE_WORDS];     /* of an interpreter's launch */
	uint64_t record[EXEC_LAUNCH_WORDS];   /* of the launch that is being made */
	const struct prepared_step *task[EXEC_LAUNCH_WORDS / KERNEL_WORD_DIMS]; /* whose bytecode each of its tasks would be run by */
};

/* The item is with the device, or has failed: it is told when its number has completed. */
void exec_launched(struct exec *x, struct item *i);
/* Marks and flushes what was launched. */
void exec_mark(struct exec *x);
int64_t exec_now_ms(void);

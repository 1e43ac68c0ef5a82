/*
 * Inside device: its parts, and what its files share. Nobody outside includes this.
 *
 *   device.c   opens and closes, in the order in which the parts need each other
 *   probe.c    which platform and device; tried in a child process first
 *   quirks.c   what is particular about a driver (quirks.def)
 *   exact.c    which arithmetic the device computes, and whether it shares the host's addresses
 *   cache.c    built programs on disk
 *   note.c     what kernels were built from, and so why one is built again
 *   program.c  programs by kernel, and the queue of builds
 *   build.c    from a text to a program
 *   hidden.c   instructions that the compiler does not know
 *   guard.c    what is loaded from the driver's own cache is what was written there
 *   direct.c   code that is called without the driver
 *   resident.c which programs' code stays
 *   builder.c  one build, on a builder thread
 *   worker.c   a builder's worker process: asked for, fed, killed
 *   compile.c  the worker process itself
 *   watchdog.c ends it where it hangs
 *   memory.c   the reserved range of a flat device, the pools of others
 *   trials.c    what the compiler has, and whether it takes it; tried there, too (trials.def)
 *   culprit.c  which driver it was that died while they were listed
 *   listed.c   which drivers need no child, since they were opened before
 *   reach.c    whether kernels reach host memory; tried in the probes' child
 *   queue.c    launches, copies, marks and the ring of records
 *   near.c     small launches, on the thread that asks for them
 *   claim.c    launches that it does together with threads of our own
 *   rates.c    how fast the device is, measured once
 *
 * Threads: the engine's, the builders', the helper threads', and threads of the driver that run event callbacks. The
 * engine's thread owns everything that no comment gives to another.
 */
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/base/str.h"
#include "daemon/base/cache_entry.h"
#include "protocol/range.h"
#include "device.h"

#define CLEANUP(function) __attribute__((cleanup(function)))

void cleanup_free(void *pointerp);            /* of any pointer from malloc */
void cleanup_close(int *fdp);                 /* negative: none */
void cleanup_program(cl_program *programp);   /* NULL: none */

/* ---- quirks.c ---- */

enum {
	QUIRK_NEEDS_LINKER = 1 << 0,          /* runs `ld` in each build */
	QUIRK_EXECUTES_CACHE = 1 << 1,        /* loads code from its cache folder */
	QUIRK_PINNED_UPLOAD = 1 << 2,         /* copies faster where the driver knows the host memory */
	QUIRK_LATE_CALLBACKS = 1 << 3,        /* tells of events sooner to who waits than by callbacks */
	QUIRK_MATRIX = 1 << 4,                /* compiles the instructions of kernels/matrix.cl where the device has them */
	QUIRK_COSTLY_BINARY = 1 << 5,         /* compiles anew for who asks for machine code, and keeps what it built itself */
	QUIRK_REACHES_HOST = 1 << 6,          /* kernels may see pinned host memory at its own addresses: worth a trial */
	QUIRK_THREADS = 1 << 7,               /* computes with a thread for each processor, which it binds to none */
	QUIRK_LIBRARY = 1 << 8,               /* the first build of a process takes half a second more, unless it has built that before */
	QUIRK_BUILTINS = 1 << 10,             /* of processors: what its compiler says that it has, it takes */
	QUIRK_CLOSING_BARRIER = 1 << 9,       /* where a barrier depends on a condition, so does the end of the kernel */
};

enum quirk_property {
	QUIRK_PLATFORM,
	QUIRK_DEVICE,
};

struct quirks {
	enum quirk_property property;
	const char *text;
	uint8_t lanes;
	unsigned flags;
	const char *cache_variable;
	const char *options;
	uint32_t ring_kib;
	uint32_t grid_limit;
	const char *missing;
	const char *variable, *value;
	const char *near;
	const char *object, *symbol;
	const char *doc;
};

const struct quirks *quirks_of(const char *platform, const char *device);
/* Sets the variables of all drivers: caches (folder NULL: as they are), devices. Called before the first call of OpenCL. 0 or -ENOMEM. */
int quirks_set_variables(const char *folder) FAULT_MUST_USE;
/* The package to install where there is no driver at all. */
const char *quirks_package(void);

/* ---- threads.c ---- */

struct threads {
	size_t count;
	pid_t id[];                           /* ascending */
};

/* Those of this process; NULL where the system does not tell. */
struct threads *threads_now(void);
/* Binds those that came since `before` (may be NULL) to a processor each, if they are one for each unit. How many. */
uint32_t threads_bind(const struct threads *before, uint32_t units);

/* ---- listed.c ---- */

enum listed {
	LISTED_NOT,                           /* nothing is known */
	LISTED_WELL,                          /* the last engine opened the device */
	LISTED_SUSPECT,                       /* it began to, and nobody has heard of it since */
};

/* How did it go the last time? It is noted that it begins again, until listed_note() or listed_forget(). */
enum listed listed_take(const struct device *d);
/* The device is open. */
void listed_note(const struct device *d);
/* It is not, for a reason that is told. */
void listed_forget(const struct device *d);

/* ---- trials.c ---- */

enum {
	TRIALS = 0
#define TRIAL(name, has, statement, doc) + 1
#include "trials.def"
#undef TRIAL
};

/* What the child says, a byte each, in this order: TAKEN or REFUSED for each row. */
enum trial_told {
	TRIAL_CONTEXT = 'c',                  /* there is a context */
	TRIAL_KERNEL = 'k',                   /* a kernel was built and has run */
	TRIAL_NEEDED = 'n',                   /* that is all: what no kernel does without is refused */
	TRIAL_TAKEN = 't',
	TRIAL_REFUSED = 'r',
	TRIAL_END = 'e',                      /* all that was to be tried was tried */
	TRIAL_REACHES = 'h',                  /* behind that: kernels reach host memory */
};

/* In the child, with the device chosen: all rows (first < 0), or those from `first` on. */
void trials_run(const struct device *d, int first, int fd);
/* Is known what a trial would show, by the quirk, or from an earlier one (which sets lacks)? */
bool trials_are_needless(const struct device *d);
bool trials_recall(struct device *d);
void trials_keep(struct device *d);
/* Sets traits.without by lacks. */
void trials_settle(struct device *d);
void trials_note(const struct device *d, struct str *notes);

/* ---- culprit.c ---- */

/* For "NAME died; MEND". */
struct culprit {
	char name[128], mend[320];
};
void culprit_find(struct culprit *c);
/* The package of a platform's driver. */
const char *driver_package(const char *platform);

/* ---- probe.c ---- */

struct choice {
	cl_platform_id platform;
	cl_device_id device;
	char *platform_name, *name, *driver;  /* of malloc */
	bool reaches;                         /* kernels see pinned host memory at its own addresses */
	unsigned skip;                        /* that fit are still to be passed by */
};

void choice_clear(struct choice *c);
/*
 * Sets choice, quirks and lacks. Tried in a child first, so that a driver that dies or hangs gives a sentence; not where all went WELL
 * before (listed_take()).
 */
int probe_choose(struct device *d, enum listed listed, struct fault *f) FAULT_MUST_USE;
/* The same without a child: where another process has done it before, and this one may die. */
int probe_choose_here(const struct device_config *config, struct choice *c, struct fault *f) FAULT_MUST_USE;
int probe_count(const struct device_config *config, unsigned *countp, struct fault *f) FAULT_MUST_USE;
/* Does the child try more than listing? */
bool probe_tries_more(const struct device_config *config, const struct choice *c);

/* ---- reach.c ---- */

/* In a process that ends afterwards: where it fails, the driver is of no more use. */
bool reach_trial(cl_device_id device);

/* ---- cache.c ---- */

enum {
	/* A UUID, a newline and more. */
	CACHE_BOOT = 64,
};

struct cache {
	char *folder;
	char *programs;                       /* folder of built programs */
	char *notes;                          /* of what kernels were built from (note.c) */
	char *driver;                         /* folder of the driver's own cache */
	char *origins;                        /* of which entry of the driver's each program came from (guard.c) */
	char *loading;                        /* of marks: which programs drivers are asked for (guard.c) */
	char boot[CACHE_BOOT];                /* which boot of the machine it is, or "" */
	struct timespec opened;               /* when an engine opened it last, by its file system's clock */
	uint64_t most;                        /* bytes that stay */
	pthread_t keeper;
	bool keeps;                           /* the keeper was started */
};

/* Is there no program in it? */
bool cache_is_empty(const struct cache *c);
/* Makes the folders and checks that files can be written there, and by nobody else. */
int cache_open(struct cache *c, const char *folder, uint64_t most, struct fault *f) FAULT_MUST_USE;
/*
 * Of what the folder holds no more than `most` bytes stay, and no leftovers. By a thread, for a large folder takes longer to
 * walk than a start may; so not before the last fork(), whose child could find a lock of the allocator taken for ever.
 */
int cache_keep_small(struct cache *c) FAULT_MUST_USE;
/* Where another process has opened it, and keeps it small. */
int cache_open_beside(struct cache *c, const char *folder, struct fault *f) FAULT_MUST_USE;
/* Before a build: there must be room for what the driver writes. 0 or FAULT_FILE. Any thread. */
int cache_make_room(const struct cache *c, struct fault *f) FAULT_MUST_USE;
void cache_close(struct cache *c);
/* Checks that the driver can execute what it keeps there, and that it finds its linker. */
int cache_check_executes(const struct cache *c, struct fault *f) FAULT_MUST_USE;
int cache_check_linker(struct fault *f) FAULT_MUST_USE;
/* 0, -ENOENT, -EBADMSG (the entry was damaged and is removed), or another errno. Any thread. */
int cache_load(const struct cache *c, const struct cache_key *key, void **bytesp, size_t *sizep) FAULT_MUST_USE;
/* Written beside and renamed: a reader finds the whole entry or none. Any thread. */
int cache_store(
	const struct cache *c, const struct cache_key *key, const void *bytes, size_t size) FAULT_MUST_USE;
void cache_remove(const struct cache *c, const struct cache_key *key);

/* ---- exact.c ---- */

struct findings {
	bool flat;
	bool exact;
};

/*
 * Builds and runs the probes, on the ring as pool 0; what they found also goes to the notes, and which
 * options build to the traits.
 */
int exact_probe(struct device *d, struct findings *found, struct fault *f) FAULT_MUST_USE;
/*
 * By a worker, before it says that it is there: builds the probes, after which the driver's cache has them, and notes that for an engine that
 * waits; or something empty, where another worker is at them.
 */
void exact_build(struct device *d);
/* Sets traits.matrix and traits.wgmma where trials succeed. */
void matrix_probe(struct device *d);

/* ---- near.c ---- */

struct near {
	cl_device_id device;                  /* NULL: there is none */
	char *name;
	cl_context context;
	cl_command_queue queue;
	cl_mem records;                       /* the ring */
	uint64_t *claims;                     /* behind it: CLAIM_WORDS, of the newest claimed launch */
};

/* What a program is built for. */
struct target {
	cl_context context;
	cl_device_id device;
	const char *name;
};
struct target device_target(const struct device *d, bool near);
/* Is it a device for near launches alone? */
bool near_is(const char *platform, const char *device);
/* For building, or for launching, too. 0, or -errno where the driver has none. */
int near_open(struct device *d) FAULT_MUST_USE;
int near_open_queue(struct device *d) FAULT_MUST_USE;
void near_close(struct device *d);

/*
 * The program for near launches, once it is built; it is asked for when launches that would have saved so much each would have saved
 * enough. NULL: not yet, or not at all.
 */
struct program *near_program(struct device *d, struct program *p, uint32_t saves_us);

/* ---- claim.c ---- */

enum {
	/* Threads beside the engine's: more of them take longer to wake than they compute in such launches. */
	HELPERS_MOST = 7,
	/* Room for the records of a claimed launch and what stands before them: some ten operands a task, and several tasks. */
	CLAIM_WORDS = 4096,
};

struct helper {
	struct device *device;
	pthread_t thread;
	cl_command_queue queue;
};

struct helpers {
	struct helper helper[HELPERS_MOST];
	unsigned count;
	bool open;
	pthread_mutex_t lock;
	pthread_cond_t called;
	atomic_uint launch;                   /* grows with each, under the lock */
	atomic_uint busy;                     /* helper threads that are at the newest launch, or will be */
	_Atomic bool stop;                    /* under the lock */
	const struct program *program;        /* of the newest launch */
	cl_kernel object;                     /* its own, or NULL */
	uint64_t called_ns;                   /* when that was called */
	/* the engine's */
	uint64_t pause_ns, resume_ns;         /* how long nothing is claimed where one was late, and until when; 0: none was */
	unsigned good;                        /* launches in time since then */
};

/* Starts and ends them. Where there is no near device, or none can be started, there are none. */
void helpers_open(struct device *d);
void helpers_close(struct device *d);

/* ---- watchdog.c ---- */

struct watchdog {
	void (*late)(void *user);             /* on its thread; the process ends when it returns */
	void *user;
	/* its own */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool started, stop, busy, counted;
	uint64_t begin_ns, waited_ns, limit_ns;
};

/* 0 or -errno. */
int watchdog_start(struct watchdog *w) FAULT_MUST_USE;
/* Not by its own thread; one that was not started is left alone. */
void watchdog_stop(struct watchdog *w);
/* From here to watchdog_end() no more time may pass, but for what threads of this process wait for processors. */
void watchdog_begin(struct watchdog *w, uint64_t limit_us);
/* Late is not called after this. */
void watchdog_end(struct watchdog *w);

/* ---- program.c, builder.c, touch.c ---- */

/* By a builder, after a first launch: see touch.c. */
void programs_touch(const struct device *d);

/* Who wants a program: those of a higher rank are built first. */
enum program_rank {
	PROGRAM_LEFT,                         /* nobody any more: it stays in the queue, and is not built */
	PROGRAM_SPARE,                        /* nobody yet */
	PROGRAM_TRIAL,                        /* who would like to know whether it is faster than another; up to here while nothing runs */
	PROGRAM_NEAR,                         /* who runs it already, and would run it for less on the engine's thread */
	PROGRAM_LATER,                        /* who has something else to run meanwhile; up to here at idle priority */
	PROGRAM_WAITED,                       /* who has nothing else to run */
};

struct program {
	struct program *bucket;               /* chain of the table */
	struct program *next;                 /* chain of the builders' queue, then of the finished ones */
	struct kernel *kernel;
	uint64_t hash;
	struct device *device;
	atomic_int state;                     /* enum program_state; what stands below is set before it */
	char *source;                         /* kept where the build failed, or made when asked for */
	char *log;
	uint64_t build_us;                    /* of which: */
	uint64_t emit_us, first_us;           /* writing its text; its first launches */
	int64_t asked_ms;                     /* when it was asked for, as now_ms() in program.c */
	atomic_bool begun;                    /* a builder has it */
	char *why;                            /* it is built where our cache lacks it, in words; "": it is known */
	bool known;                           /* built before from the same: the driver's own cache has what takes long */
	bool cached;
	struct builds *builds;                /* the engine's: a reference, until it is built, or NULL */
	bool told;                            /* the engine's: its fault is on the log */
	bool later;                           /* the engine's: counted there as such */
	bool users;                           /* the engine's: it was asked for in the name of somebody, who may go */
	bool left;                            /* the engine's: who asked has gone; its rank is PROGRAM_LEFT */
	enum program_rank rank;               /* under the lock, as the next */
	uint64_t wanted;                      /* launches that want it */
	bool apart;                           /* a worker compiled it */
	bool refused;                         /* it killed too many of them to be tried again */
	bool cancelled;                       /* the end of the engine cut its build short */
	bool lacking;                         /* there were no descriptors, or no disk, to build it with: it is tried again */
	int64_t starved_ms;                   /* when the driver had too little to build it with; 0: it failed otherwise */
	uint32_t deaths;                      /* of workers, over it, now */
	uint32_t warmups;
	cl_program program;
	struct cache_key key;
	bool keeping;                         /* the engine's: it is being written to disk */
	cl_kernel object;                     /* the engine's own: setting arguments is not thread-safe */
	uint32_t words, own_words;            /* of a record; of one that is an argument, or 0 */
	uint64_t pools_set;                   /* memory.generation its pool arguments are of */
	bool reaches;                         /* its records are read where the host has them */
	bool near;                            /* it is another's near_one */
	cl_kernel claimed;                    /* of a near one: its object for claimed launches, or NULL */
	char *entry;                          /* of the driver's cache, where its code is called directly (direct.h) */
	void *handle;
	void (*code)(void *const *arguments, const void *common, size_t x, size_t y, size_t z);
	uint64_t bytes;                       /* that its code takes */
	/* the engine's */
	struct program *before, *behind;      /* by when they were launched last (resident.h) */
	bool resident;                        /* its code is there */
	bool uncollected;                     /* asked for, and READY as it may be, not collected yet: it is in one of the lists */
	uint64_t used;                        /* the command that launched it last */
	uint64_t kept_ns;                     /* until when it stays though nobody has launched it; 0: somebody has */
	struct program *near_one;             /* the same for launches on the engine's thread (near.c), or NULL */
	uint32_t saving_us;                   /* by launches that could have gone that way */
};

/*
 * A program whose machine code shall go to disk. Some drivers compile once more when they are asked for
 * it, and break where the program runs meanwhile (quirks.def): so it waits until the device has been
 * idle for a while, and the program is not launched until it is done.
 */
struct keep {
	struct keep *next;
	struct program *owner;                /* NULL: the probes' */
	cl_program program;                   /* a reference */
	struct cache_key key;
};

struct programs {
	struct program **bucket;
	uint32_t buckets, count;
	pthread_mutex_t lock;                 /* over the members below */
	pthread_cond_t work;
	struct program *queue;                /* to build; the oldest last */
	struct program *finished;             /* built, not collected */
	struct keep *keeping;                 /* to write now, or being written */
	bool taken, kept;                     /* by a builder; written */
	_Atomic int64_t launched_ms;          /* when anything was launched last, by the engine */
	bool stop;
	bool apart;                           /* workers compile; false from when none can be had */
	uint32_t manned;                      /* builders for what is waited for that have a worker */
	bool idle_manned;                     /* so has the one for what is not, and it builds nothing that nobody wants yet */
	const struct builder *near;           /* of ordinary priority, that makes a form for near launches */
	uint32_t early;                       /* workers for those that were asked for before there was a builder */
	pthread_cond_t arrived;
	struct arrival *arrivals;             /* of workers: worker.c */
	int bell;                             /* an eventfd that is readable from when builders are to stop */
	pthread_t *builder;
	uint32_t builders;
	/* the engine's */
	struct builds *builds;                /* where new programs are counted, or NULL */
	struct keep *keeps;                   /* to write some time */
	uint32_t building;                    /* asked for and not collected; */
	uint32_t left;                        /* of them, those that nobody wants any more */
	uint64_t seen;                        /* commands when last looked */
	int64_t lacking_ms;                   /* when it was last said that there are no descriptors to build with */
	int64_t quiet_ms;                     /* since when there were no others */
};

/* ---- direct.c, resident.c ---- */

enum direct_state {
	DIRECT_NOT,                           /* not tried yet */
	DIRECT_OPEN,
	DIRECT_NEVER,
};

struct direct {
	pthread_mutex_t lock;                 /* builders', over the state */
	enum direct_state state;
	atomic_uint drivers;                  /* programs that went the driver's way, or would have */
	cl_program program;
	cl_kernel object;                     /* the kernel that calls; the engine's once it is open */
};

struct residents {
	struct program *first, *last;
	uint64_t bytes;
	uint32_t count;
};

/* ---- program.c ---- */

/* Its code is gone, and so are the caches' copies: it is BUILDING until it is there again. */
void programs_again(struct device *d, struct program *p);
/* 0, or why nothing can be built now: FAULT_LIMIT or FAULT_FILE. Any thread. */
int device_lacks(struct device *d, struct fault *f) FAULT_MUST_USE;
/* Frees one that no builder has. Returns NULL. */
struct program *program_end(struct program *p);
/* Builders for what is waited for. */
uint32_t programs_builders(const struct device *d);
/* Makes the locks; then, with everything else open, starts the builders. */
void programs_init(struct device *d);
int programs_open(struct device *d) FAULT_MUST_USE;
/* A program for near launches, of the same kernel: asked for, and the device's. NULL: memory is short. */
struct program *programs_near(struct device *d, const struct program *p);
/* Has the program's machine code written to disk some time. */
void programs_keep(struct device *d, struct program *owner, cl_program program, const struct cache_key *key);
/* Who wants a program now; by any thread. */
enum program_rank programs_rank(struct programs *s, const struct program *p);
/* False where workers cannot be had any more. */
bool programs_apart(struct programs *s);
/* Waits for builds that run; those that wait are dropped. Nothing may run on the device. */
void programs_close(struct device *d);
/* Something is launched: what nobody waits for does not begin meanwhile. */
void programs_launching(struct device *d);
/* Has nothing been launched for so long, and does nothing run or wait for a build? */
bool programs_quiet(struct device *d, int64_t ms);
/* Collects what builders finished. */
/* On the log, once for a program; error: OpenCL's, 0 where there is none. The engine's thread. */
void program_log_fault(struct program *p, int error, const char *what);
uint32_t programs_poll(struct device *d);

/* The process that compiles for one builder; owned by the builder's thread. */
struct worker {
	int socket, process;                  /* -1: there is none */
	bool idle;                            /* of idle priority */
	bool coming;                          /* it was asked for, and has not said that it is there */
	unsigned failures;                    /* starts in a row that came to nothing */
};

struct builder {
	struct device *device;
	cl_command_queue queue;
	cl_mem records;                       /* of zeros: a task without work */
	struct worker worker;
	struct watchdog watchdog;             /* of what this process does itself; not started where it is a worker */
	bool manned;                          /* counted among those; under the lock */
	unsigned built;                       /* by the worker that there is */
	const struct program *program;        /* that it is at, or was last: its worker's, or with the driver here */
	bool yields;                          /* its worker is at the program: it may be ended for the sake of others */
	int64_t hurried_ms;                   /* since when that is waited for though the worker's priority is idle, or 0 */
};
int builder_open(struct builder *b, struct device *d) FAULT_MUST_USE;
void builder_close(struct builder *b);
/* Launches before a kernel is READY: after the second one such a driver (builder_widest()) does not forget the code in favour of other kernels'. */
enum { BUILDER_WARMUPS = 2 };
size_t builder_widest(const struct device *d, size_t local);
/*
 * Builds a program, from the cache where it is there, else by the builder's worker, else here, and warms it up; leaves READY
 * or FAILED, and true. False: the worker's priority is too low for it now, and it is to be built by another builder.
 */
bool builder_build(struct builder *b, struct program *p);

/* How a kernel is launched before it is READY, for the driver to make its machine code. */
enum {
	/* Words of a record that is an argument: 1 KiB, the least that OpenCL allows arguments to have, with the others, which is what most have. */
	DEVICE_OWN_WORDS = 112,
};

struct warmup {
	uint64_t items, local;
	uint32_t launches, pools, own_words;
};
/* Launches on records without work and waits, on the near device where that is asked, whose context is open; *launchesp counts. */
cl_int builder_warm_up(const struct builder *b, bool near, cl_kernel object, const struct warmup *w, uint32_t *launchesp) FAULT_MUST_USE;

/* ---- build.c ---- */

struct guard;

/*
 * Builds source from the cache or anew. 0, or a CL error with *logp set (of malloc, may be NULL). *cachedp tells where it came from. The guard is
 * begun either way: guard_end() once it was launched, or guard_leave().
 */
cl_int build_source(struct device *d, const char *source, const char *options, struct guard *g, cl_program *programp,
	bool *cachedp, char **logp) FAULT_MUST_USE;
cl_int build_for(struct device *d, struct target t, const char *source, const char *options, struct guard *g,
	cl_program *programp, bool *cachedp, char **logp) FAULT_MUST_USE;
/* The two halves of it. NULL where the cache has none that the driver takes; such an entry is removed. */
cl_program build_cached(struct device *d, struct target t, const char *options, const struct cache_key *key);
cl_int build_anew(const struct guard *g, struct target t, const char *source, const char *options, cl_program *programp,
	char **logp) FAULT_MUST_USE;
/* ---- hidden.c ---- */

/* Has a text instructions that the compiler takes for comments? */
bool hidden_has(const char *source);
/* Exchanges what the compiler made of it for the program that has them. */
cl_int hidden_build(struct target t, const char *options, cl_program *programp) FAULT_MUST_USE;

/* ---- build.c ---- */

struct cache_key build_key_for(const struct device *d, struct target t, const char *source, const char *options);
/* The key under which the cache holds what depends on this text, the device, its driver and our version. */
struct cache_key build_key(const struct device *d, const char *source, const char *options);
/* Keeps the program's machine code on disk. Failure costs the next start a build, nothing else. */
void build_keep(struct device *d, cl_program program, const struct cache_key *key);

/* ---- note.c ---- */

/* On a builder's thread, before the program is READY: sets why and known; then keeps what it was built from. */
void note_ask(const struct device *d, struct program *p, const char *source, const char *options);
void note_keep(const struct device *d, const struct program *p, const char *source, const char *options);

/* ---- worker.c ---- */

/* What a worker is asked for. */
struct compile_job {
	const char *source, *options;
	struct cache_key key;                 /* as the engine found it: a worker that finds another refuses */
	struct warmup warmup;
	bool near;
};

struct compile_answer {
	cl_int error;
	uint32_t warmups;
	char *log;                            /* of malloc, of a build that failed; may be NULL */
};

/*
 * Has the builder's worker do it, and starts one first where there is none. 0 with *a, whose log the caller frees; -ENOTCONN:
 * there is no worker to be had; -EPIPE: it died of it; -ETIMEDOUT: it took longer than limit_ms, or
 * than its watchdog allows, and is killed;
 * -ECANCELED: builders are to stop.
 */
int worker_build(struct builder *b, const struct compile_job *j, int64_t limit_ms, struct compile_answer *a) FAULT_MUST_USE;
/* Ends the builder's worker, at once where it is at work. */
void worker_end(struct worker *w);
/* Asks for workers of ordinary priority, which open their driver while this process does. Before there are builders. */
void workers_early(struct device *d, uint32_t count);
/* Workers that nobody took. */
void workers_drop(struct programs *s);

/* ---- compile.c ---- */

/* On the socket, from the engine; source and options follow, without the zero at their ends. Both ends are one program's. */
struct compile_job_header {
	char magic[16];
	struct cache_key key;
	struct warmup warmup;
	uint64_t limit_us;                    /* for the watchdog */
	uint64_t near;
	uint64_t source, options;
};

/* Back; log bytes follow. The first one, without any job, says that the worker is there. */
struct compile_answer_header {
	char magic[16];
	int32_t error;
	uint32_t warmups;
	uint64_t log;
};

enum {
	/* A compiler's log may be megabytes of repetition. */
	BUILD_LOG_BYTES = 16384,
	/* Interpreters are the longest sources, 100 KiB. */
	JOB_TEXT_BYTES = 16 << 20,
	/* An answer's error: the watchdog ended the worker. OpenCL has none of that number. */
	COMPILE_LATE = -100000,
};

/* Of both headers; a worker of another version is none. */
#define WORKER_MAGIC "work " FUSIOND_VERSION

/* ---- memory.c ---- */

enum { MEMORY_POOLS = 4 };

/* Host memory the driver was told of: the object does nothing else. */
struct pin {
	struct pin *next;
	const void *host;
	cl_mem object;
};

struct memory {
	/* flat */
	uint8_t *base;
	uint64_t reserved;
	struct range *slots;
	/* other */
	cl_mem pool[MEMORY_POOLS];
	struct range *range[MEMORY_POOLS];
	uint64_t pool_bytes[MEMORY_POOLS];
	unsigned pools;
	uint64_t limit, largest;              /* bytes of all pools; of one buffer */
	uint64_t generation;                  /* grows when a pool is made */
	struct pin *pins;
};

/* Reserves the range; records (the ring) are its first bytes. */
int memory_reserve(struct device *d, uint64_t ring_bytes) FAULT_MUST_USE;
/* Once the probes have said whether the device is flat. */
int memory_open(struct device *d) FAULT_MUST_USE;
void memory_close(struct device *d);
/* The last pool is the host's memory, where kernels reach it: its address is 0. */
unsigned memory_pools(const struct device *d);
uint64_t memory_host_address(const struct device *d, const void *host);
/* Sets the pool arguments of a kernel. */
cl_int memory_set_pools(struct device *d, cl_kernel object);

/* ---- queue.c ---- */

struct fence;

struct queue {
	cl_command_queue queue;               /* of these two, the one that commands go to */
	cl_command_queue plain, timed;        /* timed: made when it is first wanted */
	bool changed;                         /* the next command waits for `last`, which is of the other queue */
	uint64_t *ring;                       /* host memory; on flat devices the kernels' too */
	cl_mem records;
	bool reached;                         /* kernels may read the ring itself, where that costs less than a copy */
	uint64_t words;                       /* of the ring; a power of two */
	uint64_t head, tail;                  /* words ever taken and given back */
	uint64_t fenced;                      /* head when the newest fence was made */
	uint64_t sequence, completed;         /* commands ever queued, and known to have run */
	uint64_t flushed;                     /* those handed to the driver for sure */
	uint32_t running;                     /* launches not known to have completed */
	uint32_t unfenced;                    /* launches since the newest fence */
	cl_event last;                        /* of the newest command */
	/* An upload that is not queued yet, since one that goes on where it ends may follow; 0 bytes: none. */
	const uint8_t *upload;
	uint64_t upload_address, upload_bytes;
	struct watcher *watcher;              /* where callbacks come late */
	struct fence *first, *newest;
	uint32_t pending;
	uint64_t ended_ns;                    /* when what the last answered fence covers had run */
	atomic_bool signalled;                /* wake was called, device_poll not yet */
	atomic_uint callbacks;                /* registered with the driver and not yet returned */
};

/* ---- watch.c ---- */

/* As a callback of OpenCL is called: (NULL, status, user). */
typedef void CL_CALLBACK watch_done(cl_event event, cl_int status, void *user);
int watcher_new(struct watcher **watcherp) FAULT_MUST_USE;
/* Ends once everything added was told. Returns NULL. */
struct watcher *watcher_free(struct watcher *w);
/* Calls done on the watcher's thread once the event has completed. 0, -ENOMEM or -EIO. */
int watcher_add(struct watcher *w, cl_event event, watch_done *done, void *user) FAULT_MUST_USE;

/* ---- queue.c ---- */

/* The queue; then, once the range is reserved, the ring at its start. */
int queue_open(struct device *d) FAULT_MUST_USE;
int queue_open_ring(struct device *d) FAULT_MUST_USE;
/* Once the device is known not to be flat. */
int queue_part_ring(struct device *d) FAULT_MUST_USE;
/* Waits for everything queued and for the driver's callbacks. 0 or -EIO. */
int queue_drain(struct device *d) FAULT_MUST_USE;
/* After queue_drain(). Marks that were not answered are dropped. */
void queue_close(struct device *d);
/* Any thread: device_poll() has something. */
void queue_signal(struct device *d);

/* Does nothing run, and has all that did been told of? */
bool queue_is_idle(const struct device *d);
/* Copies records to the ring of a flat device: 0, -EAGAIN or -EIO. */
int queue_put_records(struct device *d, const uint64_t *records, uint64_t words, uint64_t *firstp) FAULT_MUST_USE;
/* On an idle queue: a command more, which has run already. */
void queue_passed(struct device *d);

/* ---- rates.c ---- */

enum measure_state {
	MEASURE_NOT,                          /* known, or given up, or not asked for */
	MEASURE_WAITING,                      /* for the device to be idle */
	MEASURE_WANTED,                       /* the next builder that is free does it */
	MEASURE_RUNS,
	MEASURE_ENDED,                        /* with `result` */
};

/* The builder's from WANTED to ENDED, else the engine's. */
struct measure {
	atomic_int state;                     /* enum measure_state */
	int result;                           /* 0, -EAGAIN: was disturbed; else it cannot be done */
	atomic_bool stop;                     /* the engine wants the device */
	unsigned stage, passes;               /* those before it are done, in this pass and whole ones */
	struct rates rates, best;             /* of this pass; of all before */
};

/* What the cache knows, or typical figures. */
void rates_open(struct device *d);
/* Measures, on a builder's thread: 0, -EAGAIN or -EIO. */
int rates_measure(struct builder *b) FAULT_MUST_USE;
struct cache_key rates_key(const struct device *d);
/* Takes over what was measured, and starts it where the device is idle. */
void rates_poll(struct device *d);
void rates_text(const struct rates *r, struct str *text);

struct device {
	struct device_config config;          /* strings are only valid in device_open() */
	const struct quirks *quirks;
	struct traits traits;
	struct choice choice;
	cl_context context;
	struct cache cache;
	struct str notes;
	uint32_t lacks;                       /* rows of trials.def that the compiler does not take, a bit each */
	struct str without;                   /* traits.without */
	bool flat, exact, reaches;
	uint32_t bound;                       /* threads of the driver, to a processor each (threads.c) */
	struct memory memory;
	struct queue work;
	struct near near;
	struct helpers helpers;
	struct programs programs;
	struct direct direct;
	struct residents residents;
	struct measure measure;
	atomic_uint building;                 /* programs that are being built now */
	struct device_counters counters;
};

/* ---- device.c ---- */

/* What compiling takes, and no more: platform, device, cache, context. Nothing is probed. */
int device_open_compiler(struct device *d, struct fault *f) FAULT_MUST_USE;

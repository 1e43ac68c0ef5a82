/*
 * The device: the only folder that calls OpenCL.
 *
 * One device, one context, one in-order queue that exec feeds, one more that builder threads warm kernels up on. A compiler
 * runs in worker processes, one for each builder thread, where somebody starts them (want_worker): they fill the cache on disk,
 * from which builder threads load. Everything slow is done by builder threads and ends by a call of `wake`; the
 * engine thread then collects what finished with device_poll(). No function here waits for a
 * compiler or a kernel, except where its comment says so.
 *
 * Memory. A device either shares the host's address space (`flat`: a kernel's pointer is the
 * host's pointer, found by a probe, e.g. PoCL) or has pools of its own. Flat: pool 0 is a reserved
 * range of the host's addresses in which arenas and host memory are mapped. Else: pools are
 * allocated from the device as they are needed, up to traits.pools.
 */
#pragma once

#include "daemon/base/str.h"
#include "daemon/base/traits.h"
#include "daemon/plan/kernel.h"

struct device;
struct program;

struct device_config {
	const char *platform;        /* substring of the platform's name, or NULL: first with a device */
	const char *device;          /* substring of the device's name, or NULL */
	unsigned number;             /* of the devices that have it, counted from 0 */
	const char *strategy;        /* NULL: the device's; "cpu" or "gpu" force one (tests) */
	bool discrete;               /* treat the device as if it had memory of its own (tests) */
	bool near;                   /* launch small kernels on the thread that asks, where the driver has a device for that */
	bool bind;                   /* the threads with which the driver computes to a processor each */
	bool reach;                  /* let kernels reach host memory, where a trial finds that they do */
	uint64_t cache_bytes;        /* that stay of what the folder holds; 0: all */
	const char *cache_dir;       /* programs; also the driver's own cache where a quirk says how */
	uint64_t memory;             /* most bytes of pools; 0: the device's own limit */
	uint32_t builders;           /* programs built at a time; 0: as many as suit the processors, 1 without workers */
	/*
	 * Has a process started that compiles, which comes by device_worker() at any time; called from builder threads. 0 or
	 * -errno. NULL: builder threads compile.
	 */
	int (*want_worker)(void *user, bool idle);
	void *worker_user;
	bool tried_again;            /* who dies or hangs here is started once more: drivers that were listed before are listed without a child */
	bool workers_early;          /* where the cache is empty they are wanted from the start on */
	uint32_t driver_programs;    /* that go the driver's own way where it does badly with many; 0: all */
	uint64_t programs_bytes;     /* most that the code of programs takes that are not under way; 0: any */
	uint64_t worker_us;          /* a program that takes its compiler longer cannot be built */
	bool profile;                /* device_time() will be asked: the driver keeps times of all commands */
	bool keep;                   /* machine code, also of a driver that keeps its own (tests) */
	bool measure;                /* how fast it is, where the cache folder does not know: when it is idle */
	void (*wake)(void *user);    /* called from any thread when device_poll() has something */
	void *user;
	/* A program is ready, by device_poll(); NULL: nobody wants to know. Not of interpreters, which every device builds for itself. */
	void (*ready)(void *user, const struct kernel *k);
	void *ready_user;
};

/*
 * Opens the device: checks the cache folder (exists or can be made, writable, executes), probes
 * platforms in a child process first, reads the quirks table, runs the probes of exactness. 0, or a
 * code with one sentence that names the cause and the package or setting that mends it. It forks and
 * sets environment variables: call it before the process has other threads.
 */
int device_open(const struct device_config *c, struct device **devicep, struct fault *f) FAULT_MUST_USE;
/* How many devices fit platform and device: 0 with *countp above 0, or a fault as device_open() gives it. */
int device_count(const struct device_config *c, unsigned *countp, struct fault *f) FAULT_MUST_USE;
/* What device_open() would choose, tried in a child: platform, name, version of OpenCL and of the driver, parted by tabs; else its fault. */
int device_look(const struct device_config *c, struct str *text, struct fault *f) FAULT_MUST_USE;
struct device *device_close(struct device *d);           /* waits for the queue; returns NULL */

const struct traits *device_traits(const struct device *d);
const char *device_name(const struct device *d);
const char *device_driver(const struct device *d);
bool device_flat(const struct device *d);
/* false: a probe found arithmetic that differs; status says so. */
bool device_exact(const struct device *d);
/*
 * Is it still to be measured how fast the device is? traits.rates are typical figures until then;
 * device_poll() changes them, and starts what measures them where it is called about every second.
 */
bool device_measuring(const struct device *d);
/* traits.rates in a sentence. */
void device_rates_text(const struct device *d, struct str *text);
/* Text of what the probes and quirks found, for fusionctl status. */
const char *device_notes(const struct device *d);

/* ---- workers ---- */

/*
 * A worker that was asked for: the socket's end and the process (a pidfd), both of which the device takes, or error, a negative
 * errno. Builders that compile at idle priority have workers of their own.
 */
void device_worker(struct device *d, bool idle, int error, int socket, int process);
/*
 * The process itself: compiles what comes on the socket into the cache until it ends; allocates `bytes` at most. 0 at the
 * end, a fault as device_open() gives it, or -errno. The socket stays the caller's.
 */
int device_work(const struct device_config *c, int socket, bool idle, uint64_t bytes, struct fault *f) FAULT_MUST_USE;

/* ---- programs ---- */

enum program_state { PROGRAM_BUILDING, PROGRAM_READY, PROGRAM_FAILED };

/* What somebody has had built; for whoever limits that. */
struct builds {
	uint32_t references;         /* the owner's, and one for each that is not finished */
	uint32_t unfinished;         /* being built, or in the queue */
	uint32_t later;              /* of these, those for which something else runs meanwhile */
	uint32_t most_later;         /* so many of them at most; 0: no limit */
	uint64_t asked;              /* ever */
};
struct builds *builds_new(void);                          /* NULL: out of memory */
struct builds *builds_unref(struct builds *b);            /* returns NULL; NULL is allowed */
/* Programs that are new are counted here from now on; NULL: nowhere. */
void device_builds_for(struct device *d, struct builds *b);

/*
 * The program of a kernel: found in memory, on disk, or queued for a builder thread; single-flight.
 * The result is owned by the device and stays valid until device_close(); its code is let go of where programs_bytes is too little for all, and loaded
 * again by the next launch. 0 or -ENOMEM.
 */
int device_program(struct device *d, const struct kernel *k, struct program **programp) FAULT_MUST_USE;
/*
 * The same for who has something else to run meanwhile: it is built at idle priority, until somebody waits for it. -EBUSY where as many
 * of device_builds_for() wait as may: then it is asked for another time.
 */
int device_program_later(struct device *d, const struct kernel *k, struct program **programp) FAULT_MUST_USE;
/* The same for what may turn out to be faster than what runs. */
int device_program_trial(struct device *d, const struct kernel *k, struct program **programp) FAULT_MUST_USE;
/* The same for what nobody wants yet: it is built when nothing else is to be, and the device is still. */
int device_program_spare(struct device *d, const struct kernel *k, struct program **programp) FAULT_MUST_USE;
/* One more launch wants it, and waits or has something else to run: what is wanted most is built first. Nothing where it is built. */
void device_want(struct device *d, struct program *p, bool waits);
/*
 * Who asked for it in device_builds_for()'s name has gone: where it is not built yet, it is not until somebody wants it again, and counts there no more. What a
 * builder has begun goes on while nobody waits for a builder. Of too many that were left so, the next ones are built nonetheless: false.
 */
bool device_forgo(struct device *d, struct program *p);
/* It is built whoever goes. */
void device_insist(struct program *p);
/* Has somebody gone so, and it is not built? Whoever waits for it then wants it again. */
bool device_forgone(const struct device *d, const struct program *p);
/*
 * Of a program that FAILED: 0 where it is the program's fault; FAULT_LIMIT or FAULT_FILE while the process has too few descriptors or too little disk to build anything; -EAGAIN:
 * it has them again, or it is some seconds ago that the driver had no memory for it, and the program is being built.
 */
int device_program_lacks(struct program *p, struct fault *f) FAULT_MUST_USE;
/* Was the kernel built before, with this cache and driver? Then it is ready in some milliseconds; of interpreters alone. */
bool device_program_known(struct device *d, const struct kernel *k);
enum program_state program_state(const struct program *p);
const char *program_log(const struct program *p);         /* of a failed build */
/* The text; NULL while it is being built, and where memory is short. */
const char *program_source(struct program *p);
const struct kernel *program_kernel(const struct program *p);
/* How a program came to be, for who asks; `why` lives as long as the program does. */
struct program_story {
	enum program_state state;    /* while it is being built nothing else is known */
	bool known;                  /* from the cache: it was built before from the same */
	const char *why;             /* else it was built, in words that follow "because" */
	uint64_t emit_us, compile_us, first_us;  /* writing its text, compiling it, its first launches */
};
struct program_story program_story(const struct program *p);
/* The kernel's program, or NULL where nobody has asked for it. */
struct program *device_find_program(struct device *d, const struct kernel *k);
uint64_t program_build_us(const struct program *p);       /* 0 where it came from the disk cache */

/* ---- memory ---- */

/*
 * Flat devices: maps an arena's memfd (or, fd -1, fresh private memory) into the reserved range.
 * *addressp is the device address (pool 0, offset), *hostp the pointer. -ENOMEM where space is short.
 */
int device_map(struct device *d, int fd, uint64_t bytes, uint64_t *addressp, void **hostp) FAULT_MUST_USE;
void device_unmap(struct device *d, uint64_t address, uint64_t bytes);
/* Other devices: memory of a pool. -ENOSPC where all are full. */
int device_take(struct device *d, uint64_t bytes, uint64_t *addressp) FAULT_MUST_USE;
void device_give(struct device *d, uint64_t address, uint64_t bytes);
/* Bytes of all pools, were they empty; more than that never fits at once. */
uint64_t device_room(const struct device *d);
/*
 * Other devices: host memory that copies will go to and from. Where the driver likes to know it, they
 * become several times faster; it must stay mapped until device_unpin(), after the last copy has run.
 * *addressp is where kernels reach it, over the bus, or 0 where they do not.
 */
void device_pin(struct device *d, void *host, uint64_t bytes, uint64_t *addressp);
void device_unpin(struct device *d, const void *host);
/* Queues a copy between host memory and a pool. Host memory must stay until it has run. */
int device_upload(struct device *d, uint64_t address, const void *host, uint64_t bytes) FAULT_MUST_USE;
int device_download(struct device *d, void *host, uint64_t address, uint64_t bytes) FAULT_MUST_USE;

/* ---- work ---- */

/*
 * Queues one launch of `tasks` records (kernel_record_words() words each, copied at once into the
 * device's ring of records) of a READY program. 0, -EAGAIN where the ring is full until something
 * completes or the program is just being written to disk or loaded again (`wake` is called when that ends), or -EIO
 * where the driver refused.
 */
int device_launch(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks,
	uint64_t items, uint32_t local) FAULT_MUST_USE;

/*
 * The same with records of other sizes, of which the kernel is told where they are: so many words in all
 * (interpreters, see emit/bytecode.h).
 */
int device_launch_words(struct device *d, struct program *p, const uint64_t *words, uint64_t count, uint32_t tasks,
	uint64_t items, uint32_t local) FAULT_MUST_USE;

/*
 * Runs a small launch at once, on the calling thread, where the device is idle and the driver can do that; programs of which many were
 * asked for so are compiled for it meanwhile. 0: it has run; -EAGAIN: it must go by device_launch(); -EIO.
 */
int device_launch_near(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items,
	uint32_t local) FAULT_MUST_USE;

/*
 * The same where several processors should share the launch: the calling thread and threads of our own claim item after item, and nobody waits
 * for one to wake. Items are groups of one.
 */
int device_launch_claimed(struct device *d, struct program *p, const uint64_t *records, uint32_t tasks, uint64_t items) FAULT_MUST_USE;
/* Threads that claim with the calling one; 0: there are none, or other programs want the processors. */
unsigned device_helpers(const struct device *d);

/* Waits for the newest launch; nanoseconds it took on the device. Needs config.profile. 0 or -EIO. */
int device_time(struct device *d, double *nsp) FAULT_MUST_USE;

/*
 * From now on launches can be stamped, or need not be. Keeping times costs some drivers as much as the
 * launch (the H200: 10.7 us instead of 5.1), so what is timed goes another way; the order stays. 0 or -EIO.
 */
int device_timed(struct device *d, bool timed) FAULT_MUST_USE;
/*
 * The times of the newest launch, to be read once it has completed; NULL where it is not timed. Nothing
 * waits.
 */
struct stamp;
struct stamp *device_stamp(struct device *d);
/* Nanoseconds of the device's clock, which begins wherever it likes. 0, or -EIO: it has not completed, or the driver does not tell. */
struct stamp_times {
	uint64_t queued, start, end;
};
int stamp_read(const struct stamp *s, struct stamp_times *to) FAULT_MUST_USE;
struct stamp *stamp_free(struct stamp *s);         /* returns NULL */

/*
 * Queues a mark; `done` is called by device_poll() when everything queued before it has run, with
 * 0 or -EIO. Marks are answered in order. device_flush() hands what is queued to the driver.
 */
int device_mark(struct device *d, void (*done)(void *user, int error), void *user) FAULT_MUST_USE;
int device_flush(struct device *d) FAULT_MUST_USE;
/* Waits until everything queued has run, and polls: for ends and tests. 0 or -EIO. */
int device_finish(struct device *d) FAULT_MUST_USE;
/*
 * Runs the done functions of marks, returns how many programs finished building since the last call.
 * Called about every second where nothing happens, too: idle time is used to write programs to disk.
 */
uint32_t device_poll(struct device *d);
/* Has nothing been launched or built for so long? To be asked at every poll. */
bool device_quiet(struct device *d, int64_t ms);
/* Programs that were asked for and are not built. */
uint32_t device_building(const struct device *d);
/* Without those that nobody wants any more. */
uint32_t device_wanted(const struct device *d);
/* How many of these are built while the device is still, since nobody wants them yet. */
uint32_t device_spare(struct device *d);
/* One of them. */
struct device_build {
	const struct kernel *kernel;
	bool begun;                  /* a builder has it */
	int64_t asked_ms;            /* ago */
};
void device_each_build(struct device *d, void (*tell)(void *user, const struct device_build *b), void *user);
/* All that were asked for. */
void device_each_program(struct device *d, void (*tell)(void *user, struct program *p), void *user);
/* When what the mark covers had run, by loop_now_ns(): the driver told then, and the engine may have been told later. In `done` of a mark. */
uint64_t device_ended_ns(const struct device *d);
/* Marks that have not been answered: 0 means the device is idle. */
uint32_t device_pending(const struct device *d);

struct device_counters {
	uint64_t launches, launches_near, launches_claimed, tasks, builds, builds_cached, build_failures, build_us;
	uint64_t builds_apart;       /* of builds: by workers */
	uint64_t builds_spare;       /* of builds: that nobody wanted by then */
	uint64_t workers_started, workers_lost;    /* lost: died of a program, or were killed over one */
	uint64_t refused;            /* programs that were not tried because they killed workers before */
	uint64_t programs_loaded, programs_bytes;  /* now: whose code is there, and what it takes */
	uint64_t programs_evicted, programs_reloaded;
	uint64_t launches_direct;    /* of launches: of code that is called without the driver's list of kernels */
	uint64_t uploads, upload_bytes, downloads, download_bytes, warmups;
};
/* Builds count when device_poll() has collected them. */
const struct device_counters *device_counters(const struct device *d);

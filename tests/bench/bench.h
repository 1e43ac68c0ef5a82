/*
 * fusion-bench: what the parts share.
 *
 * main.c        options; a guard process that owns the private daemon, and a worker that measures
 * workload.c    the workloads by name: inputs, operations, host reference in double
 * measure.c     times a workload fused and unfused, and the plain kernels of reference.c beside it
 * reference.c   plain OpenCL kernels run by this process itself: what the memory can do
 * latency.c     one small operation and a wait, beside a bare nng round trip
 * queue.c       CPU time an operation costs, of client and daemon
 * plan.c        what planning costs, of new graphs and of known ones
 * train.c       steps of training a network, captured; what each of their kernels takes
 * steps.c       what each kernel was estimated to take, and takes
 * sweep.c       products of many shapes, fused, unfused and bare: is fusing ever slower?
 * patterns.c    fusion patterns, fused and operation by operation, as fusion_benchmark_pattern() measures them
 * share.c       many processes that share the daemon
 * shared.c      what it costs threads to share a context
 * weights.c     how two sessions share the device's time
 * clients.c     what many connected sessions cost
 * memory.c      anonymous memory of client and daemon
 * age.c         a request, memory and mappings after so many different kernels
 * coldstart.c   what who comes first waits for: first results, 200 new graphs, starts of the daemon
 * coldstart_graphs.c  its graphs, no two alike
 * coldstart_client.c  one of its clients
 * watched.c     what watching the daemon costs its clients
 * process.c     clients that are processes of their own
 * threads.c     CPU time of another process's threads, from /proc
 * report.c      a table for people, or a line of JSON a workload
 *
 * Times are wall-clock, from recording the operations until fusion_sync() has returned; arrays are
 * resident before. Blocks of fused, unfused and plain runs take turns, so that noise of the
 * machine meets all of them; `ms` is the best of all runs, `median_ms` their median.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cjson/cJSON.h>

#include "client/fusion.h"

#define BENCH_MUST_USE __attribute__((warn_unused_result))

enum {
	WORKLOAD_SIZES = 3,
	WORKLOAD_INPUTS = 6,
	WORKLOAD_NAME = 64,
	/* Runs of one variant, at least, before the next has its turn. */
	BLOCK_RUNS = 5,
	/* Most runs of one variant. */
	RUNS_MOST = 100000,
};

/*
 * As long has a variant's turn at least: small ones are to be met as a client meets them that does not change its session between,
 * with the engine's thread beside it (client/beside.h).
 */
#define BLOCK_SECONDS 5e-3

/* A result further than this from the host's, relative to max(1, |result|), is wrong. */
#define ERROR_MOST 1e-3

struct bench {
	fusion_context *context;
	const char *socket; /* of the private daemon */
	const char *folder; /* of the private daemon; goes away at the end */
	pid_t engine;       /* the process that owns the device */
	pid_t supervisor;
	const char *device;                  /* its name */
	double supervisor_idle, engine_idle; /* their anonymous memory right after the start */
	double budget;                       /* seconds for the runs of one variant */
	int clients, heavy;                  /* of share, heavy ones among them, and for how long */
	double seconds;
	bool captured;                       /* workloads are replayed, not recorded each time */
	int pipelined;                       /* of a workload in one run: 1, or several before a wait */
	int repeat;                          /* runs of one variant; 0: as many as the budget allows */
	struct reference *reference;         /* made when first needed */
};

/* Ends a measurement: prints where and why. Always -1. */
int bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
double bench_now(void);
/* What was taken of the processors, s. */
double bench_cpu(const struct rusage *u);

/* ---- samples ---- */

struct samples {
	double *value; /* seconds */
	int count, room;
};

int samples_add(struct samples *s, double value) BENCH_MUST_USE;
void samples_free(struct samples *s);
double samples_best(const struct samples *s);
double samples_median(struct samples *s); /* sorts */

/* ---- workloads ---- */

struct workload;

struct kind {
	const char *name;
	int sizes; /* numbers the name ends in; one number stands for all of them if square */
	bool square;
	int inputs;
	/* Row-major shape of input i, or of the result where i is -1. */
	int (*shape)(const int64_t *size, int i, int64_t *dims);
	fusion_array *(*record)(const struct workload *w, fusion_array *const *in);
	/* Elements [first, first + count) of the result, within one row of it. */
	void (*reference)(
		const struct workload *w, const float *const *in, int64_t first, int64_t count, double *out);
	bool leading; /* along the first axis instead of the last */
	double cost;  /* host operations an element of the result, but for inner extents */
	/* The kernels it takes unfused, as multiples of plain ones, where they are bound by memory. */
	int adds, copies, reads;
	const char *doc;
};

struct workload {
	const struct kind *kind;
	char name[WORKLOAD_NAME];
	int64_t size[WORKLOAD_SIZES];
	enum fusion_dtype dtype; /* of all inputs, in which it is then computed */
};

const struct kind *workload_kinds(int *countp);
/* "add_relu_16M", "softmax_4096x1024", "matmul_1024_bf16"; -1 with a message where the name is none. */
int workload_parse(const char *name, struct workload *w) BENCH_MUST_USE;
/* Positive number with K or M for powers of 1024; 0 where it is none. *endp is behind it. */
int64_t workload_size(const char *text, const char **endp);
int64_t workload_elements(const struct workload *w, int i);
/* Input i, filled with numbers of about the normal distribution; NULL with a message. */
fusion_array *workload_input(const struct workload *w, fusion_context *c, int i, uint64_t seed);
/* An array of f32 of such numbers. */
fusion_array *workload_normal(fusion_context *c, int rank, const int64_t *dims, uint64_t seed);
/* The largest error of `got` against the host's double arithmetic; long ones are sampled. */
double workload_error(const struct workload *w, const float *const *in, const float *got, int64_t *checkedp);

/* ---- measurements: each adds its figures to a report, 0 or -1 ---- */

int measure_workload(struct bench *b, const struct workload *w, cJSON *report) BENCH_MUST_USE;
int measure_latency(struct bench *b, int64_t elements, cJSON *report) BENCH_MUST_USE;
int measure_queue(struct bench *b, int64_t operations, bool chain, cJSON *report) BENCH_MUST_USE;
int measure_plan(struct bench *b, int64_t operations, cJSON *report) BENCH_MUST_USE;
int measure_train(struct bench *b, cJSON *report) BENCH_MUST_USE;
int measure_memory(struct bench *b, cJSON *report) BENCH_MUST_USE;
int measure_clients(const struct bench *b, int clients, cJSON *report) BENCH_MUST_USE;
int measure_remote(const struct bench *b, cJSON *report) BENCH_MUST_USE;
int measure_weights(const struct bench *b, double seconds, cJSON *report) BENCH_MUST_USE;
int measure_share(struct bench *b, int clients, double seconds, cJSON *report) BENCH_MUST_USE;
int measure_shared(const struct bench *b, int threads, double seconds, cJSON *report) BENCH_MUST_USE;

/* Prints itself; how many cases failed. Of these workloads, or of all that a sweep has. */
int measure_sweep(struct bench *b, bool json, const char *const *part, int parts) BENCH_MUST_USE;

/* The same of patterns: of these parts, NAME_SIZE, NAME or "sweep", or of what the first designs of fusion name. */
int measure_patterns(struct bench *b, bool json, const char *const *part, int parts) BENCH_MUST_USE;

/* On daemons of its own: `fusiond` is their program. Prints itself, as JSON where asked; *stop ends it. */
/* parts: workloads whose first results are measured, or COLDSTART_NEW_GRAPHS; none: those of its own, and these. */
int coldstart(const char *fusiond, bool json, const char *const *part, int parts, const volatile sig_atomic_t *stop) BENCH_MUST_USE;

/* Estimates and measurements of kernels (--steps). */
struct steps {
	struct samples error; /* of each, as a share of the measurement */
};
int steps_begin(struct bench *b) BENCH_MUST_USE;
int steps_workload(struct bench *b, const struct workload *w, struct steps *s) BENCH_MUST_USE;
int steps_train(struct bench *b, struct steps *s) BENCH_MUST_USE;
/* What the daemon tells of a plan that has run: one line a kernel. */
int steps_take(struct steps *s, const char *workload, const char *form, const char *text) BENCH_MUST_USE;
void steps_end(struct steps *s);

/* Programs of their own, started by running this one again. */
int roundtrip_serve(const char *url);
int memory_client(const char *socket);
int share_client(const char *argument);
int coldstart_client(const char *argument);

/* Such a program, seen from the parent. */
struct process {
	pid_t pid;                           /* 0: not started */
	int to;                              /* its standard input */
	FILE *from;                          /* its standard output */
	double started;                      /* bench_now() before the fork */
};

int process_start(struct process *p, const char *option, const char *argument) BENCH_MUST_USE;
/* Closes its input and waits for its end. */
void process_end(struct process *p);
int process_get(struct process *p, void *bytes, size_t size) BENCH_MUST_USE;
int process_tell(struct process *p, char what) BENCH_MUST_USE;
/* What such a program gives its parent. */
int process_put(const void *bytes, size_t size) BENCH_MUST_USE;

/* Switches fusion for what follows. */
int bench_fusion(struct bench *b, bool on) BENCH_MUST_USE;
/* A counter of this session; NaN where there is none. */
double bench_counter(struct bench *b, const char *name);

/* ---- plain kernels ---- */

enum plain {
	PLAIN_ADD,
	PLAIN_COPY,
	PLAIN_READ,
	PLAINS
};

struct reference;

/* Runs one over `elements` floats (rounded down to whole chunks); *secondsp is its time for all of them. */
int reference_run(struct bench *b, enum plain kernel, int64_t elements, double *secondsp) BENCH_MUST_USE;
/* Below this a plain kernel says nothing about memory. */
bool reference_useful(int64_t elements);
struct reference *reference_free(struct reference *r);

/* ---- threads of a process ---- */

struct thread_times {
	double work;     /* seconds of its main thread and of nng's */
	double compiler; /* of threads named "builder" */
	double driver;   /* of all others: the OpenCL driver's */
};

int threads_read(pid_t pid, struct thread_times *t) BENCH_MUST_USE;
/* The child of `parent` whose program is named `name`; 0 where there is none. */
pid_t threads_child(pid_t parent, const char *name);
/* Seconds that the workers that live have compiled. */
double threads_workers(pid_t supervisor, pid_t engine);
/* A line "Name:  n kB" of /proc/PID/status in bytes; -1 where there is none. */
double threads_memory(pid_t pid, const char *name);
/* What a process has in memory, of shared pages its part; -1 where /proc does not tell. */
double threads_proportional(pid_t pid);

/* ---- reports ---- */

/* Six significant digits, as many as a measurement has. */
void figure(cJSON *report, const char *name, double value);
/* Says how busy the machine was, too: figures of a busy one mean little. */
void report_machine(const char *device);
void report_heading(const char *device);
void report_row(const cJSON *report);

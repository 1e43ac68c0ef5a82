/*
 * fusion_benchmark_pattern(): how fast a pattern runs fused and operation by operation, measured now, on the context's device.
 *
 *   benchmark.c          what was asked: the pattern's text, its operands, and what is too much
 *   benchmark_session.c  a session of its own, so that nothing of the context changes: its settings and patterns, arrays and a recorded graph
 *   benchmark_rounds.c   waits for kernels, compares bits, and runs both forms in turns
 *
 * All that runs is the user's as any other session of his: his limits and shares hold, and others wait no longer than for any graph. Functions return 0,
 * a code that b->fault holds, or a negative errno.
 */
#pragma once

#include <cjson/cJSON.h>

#include "elsewhere.h"
#include "pattern.h"

enum {
	BENCHMARK_OPERANDS = LIMIT_OPERANDS,
	/* Copies of a pattern that is of several kernels. */
	BENCHMARK_COPIES = 16,
	BENCHMARK_SIZE = 256,
	BENCHMARK_SIZE_MOST = 16384,
	/* Rounds whose times are kept: hours of small ones. */
	BENCHMARK_ROUNDS = 1000,
};

/* Operands of all copies together, and results. */
#define BENCHMARK_BYTES (INT64_C(4) << 30)
#define BENCHMARK_SECONDS 2.0
#define BENCHMARK_SECONDS_MOST 600.0
/* Both forms run at least so often, as far as estimates go: to build, to compare, and a round by each clock, each after one that does not count. */
#define BENCHMARK_RUNS_LEAST 6

/* What is measured is called so in the session; no operation of an administrator's is meant. */
#define BENCHMARK_OPERATION "the_pattern"

enum benchmark_form { BENCHMARK_FUSED, BENCHMARK_UNFUSED, BENCHMARK_FORMS };
/* That of the device tells what launches take there; ours, what who waits sees. */
enum benchmark_clock { BENCHMARK_DEVICE, BENCHMARK_WALL, BENCHMARK_CLOCKS };

/* Unfused: one kernel an operation, one launch a kernel. */
enum { BENCHMARK_SWITCHES = 3 };
extern const char *const benchmark_switches[BENCHMARK_SWITCHES];

struct benchmark_times {
	unsigned count;
	double second[BENCHMARK_ROUNDS];     /* of one run, in each round */
};

struct benchmark {
	/* What is asked. */
	const char *name;
	char *names, *text;                  /* "x, w, b"; what is made of them */
	fusion_array *(*record)(fusion_array *x);    /* where the text cannot be called */
	unsigned copies, operands;
	struct fusion_operand operand[BENCHMARK_OPERANDS];
	int64_t size;                        /* 0: operands were given */
	double seconds;
	/* Of the context that asks. */
	struct elsewhere where;
	struct own_pattern *patterns;
	char **setting;                      /* "NAME\0VALUE" */
	unsigned settings;
	/* The session. */
	fusion_context *context;
	uint64_t session;
	char *fused_as[BENCHMARK_SWITCHES];  /* values that the switches have */
	fusion_array *input[BENCHMARK_COPIES * BENCHMARK_OPERANDS];
	fusion_capture *capture;
	unsigned outputs;
	uint64_t next_event;
	/* What came of it. */
	cJSON *plan[BENCHMARK_FORMS];
	struct benchmark_times times[BENCHMARK_CLOCKS][BENCHMARK_FORMS];
	double launches[BENCHMARK_FORMS];
	bool same_bits;
	struct fault fault;
};

/* The thread's error, which a call of the library left, is the benchmark's; returns its code. */
int benchmark_refused(struct benchmark *b);
/* What a call of the library answered, which is freed; NULL: it was refused. */
int benchmark_parse(struct benchmark *b, char *text, cJSON **jsonp) FAULT_MUST_USE;
/* Opens the session and makes all that runs; refuses what would take too long. */
int benchmark_open(struct benchmark *b) FAULT_MUST_USE;
/* Also where opening has failed. */
void benchmark_close(struct benchmark *b);
/* How the recorded graph would run now; to be deleted. */
int benchmark_explain(struct benchmark *b, unsigned what, cJSON **planp) FAULT_MUST_USE;
/* Replays run as this form from now on. */
int benchmark_take_form(struct benchmark *b, enum benchmark_form form) FAULT_MUST_USE;
/* All that is measured. */
int benchmark_measure(struct benchmark *b) FAULT_MUST_USE;

double benchmark_best(const struct benchmark_times *t);      /* NAN: none */
double benchmark_median(struct benchmark_times *t);          /* sorts */

/* Plans as JSON, for those who ask; all of it comes from the plan, so the graph may be gone. */
#pragma once

#include <cjson/cJSON.h>

#include "protocol/limits.h"
#include "daemon/device/device.h"
#include "daemon/exec/exec.h"
#include "daemon/plan/plan.h"

enum {
	/* An answer is one frame. What would be longer is given up while it is made: a graph may have 16,384 kernels of any size. */
	DESCRIBE_BYTES = LIMIT_FRAME_BYTES,
};

/*
 * A plan as it is when it is asked about, with what is known of its kernels: what changes later, and on the engine's thread alone, is copied. So
 * another thread may tell of it.
 */
struct described {
	struct plan plan;            /* its steps are copies; the rest is the plan's own */
	struct plan *of;             /* a reference */
	struct described_program *program;   /* of each step */
	struct traits traits;
	const struct exec *exec;
	struct arena arena;          /* of the copies */
};

/* 0 or -ENOMEM. */
int describe_begin(struct described *d, struct plan *p, struct device *device, const struct exec *x) FAULT_MUST_USE;
void describe_end(struct described *d);

/*
 * Adds to an object: the kernels with their operations and patterns, why neighbours were not fused, and
 * what was saved, and where their programs came from, or why launches wait for them; by flags (EXPLAIN_*) also sources and the operations one by one.
 * *leftp: bytes that there may be still, DESCRIBE_BYTES at first. 0, -ENOMEM, or FAULT_LIMIT where it would be longer.
 */
int describe_plan(cJSON *json, const struct described *d, uint64_t flags, uint64_t *leftp, struct fault *f) FAULT_MUST_USE;
/* Microseconds since 1970 of a time of loop_now(). */
double describe_time(uint64_t us);
/* Adds whether two operations are in one kernel: which, and what it gains; else the reason, and of what. */
void describe_pair(cJSON *json, const struct plan *p, const struct plan_pair *pair);
/* Adds only what several operations in one kernel gain, kernel by kernel. */
int describe_opportunities(cJSON *json, const struct plan *p, uint64_t *leftp, struct fault *f) FAULT_MUST_USE;

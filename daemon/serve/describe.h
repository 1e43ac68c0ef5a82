/* Plans as JSON, for those who ask; all of it comes from the plan, so the graph may be gone. */
#pragma once

#include <cjson/cJSON.h>

#include "daemon/device/device.h"
#include "daemon/exec/exec.h"
#include "daemon/plan/plan.h"

/*
 * Adds to an object: the kernels with their operations and patterns, why neighbours were not fused, and
 * what was saved, and where their programs came from, or why launches wait for them; by flags (EXPLAIN_*) also sources and the operations one by one. 0 or -ENOMEM.
 */
int describe_plan(cJSON *json, const struct plan *p, struct device *d, struct exec *x, uint64_t flags) FAULT_MUST_USE;
/* Adds only what several operations in one kernel gain, kernel by kernel. */
void describe_opportunities(cJSON *json, const struct plan *p);

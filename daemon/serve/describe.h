/* Plans as JSON, for those who ask; all of it comes from the plan, so the graph may be gone. */
#pragma once

#include <cjson/cJSON.h>

#include "daemon/plan/plan.h"

/*
 * Adds to an object: the kernels with their operations and patterns, why neighbours were not fused, and
 * what was saved; by flags (EXPLAIN_*) also sources and the operations one by one. 0 or -ENOMEM.
 */
int describe_plan(cJSON *json, const struct plan *p, const struct traits *t, uint64_t flags) FAULT_MUST_USE;
/* Adds only what several operations in one kernel gain, kernel by kernel. */
void describe_opportunities(cJSON *json, const struct plan *p);

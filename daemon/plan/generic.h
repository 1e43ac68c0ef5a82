/*
 * Plans of generic kernels, which run while a plan's own kernels are not built: see generic.c.
 */
#pragma once

#include "daemon/plan/plan.h"

/* Does a map run without a program of its own? */
typedef bool plan_runs(const struct kernel *k, const struct traits *t);

/*
 * The same plan with maps and generic kernels in the place of its steps, as far as there are such; `generic` is set in it.
 * Maps that do not run as they are are cut, where all their operations do. Its slots begin with those of `from`, outputs are the same. *planp is NULL where it would be no other. 0 or -ENOMEM.
 */
int plan_generic(const struct plan *from, const struct traits *t, plan_runs *runs, struct plan **planp) FAULT_MUST_USE;

/* Why a kernel's step stays as it is in such a plan, and is none that runs, a constant text; or NULL. */
const char *plan_generic_reason(const struct kernel *k, const struct traits *t, plan_runs *runs);

/* How many generic kernels there are, and one of them: 0, -ENOMEM, or FAULT_DEVICE where this device has it not. */
unsigned plan_generic_kernels(void);
/* So many of them, from the first on, are what most graphs hold. */
unsigned plan_generic_first(void);
int plan_generic_kernel(unsigned i, const struct traits *t, struct kernel *k) FAULT_MUST_USE;

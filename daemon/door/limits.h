/*
 * What the system lets this process have, looked at before anything is opened: with too little of it a daemon would end without a
 * word, or start and fail its clients later.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"

/* FAULT_LIMIT: a file, as which memory counts, may not be so long. */
int limits_file_fault(struct fault *f, uint64_t bytes);
/* Whatever umask this process was given: what it makes is its own user's, and nobody else's but where a mode says so. */
void limits_umask(void);

/*
 * 0, or FAULT_LIMIT with a sentence that names the limit, what is needed, and what raises it. From now on a file that grows too
 * long is an error, not the process's end.
 */
int limits_check(struct fault *f);

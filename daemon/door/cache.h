/* What fusiond does to the cache folder without serving: see fusiond(8), --cache. */
#pragma once

#include "daemon/base/config.h"

/*
 * `action`: stat, prune (to cache.bytes), verify or check. Prints JSON: what was held, what was removed and what was damaged. Daemons may
 * run on the folder meanwhile. Returns the exit code.
 */
int cache_action(const struct config *c, const char *action);

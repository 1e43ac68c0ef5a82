/*
 * Where the driver keeps the kernels that it compiled, for programs that have several cache folders.
 *
 * Most of what tests cost is kernels, and many tests make the same ones. FUSION_DRIVER_CACHE names a folder for all of
 * a run of tests/check.sh: what one program compiled, and each sanitized form of it asks for again, is found there. A
 * cache folder's `driver` becomes a link to it. Our own programs beside it, which tests count, stay where they are.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The common folder, or one that is made in root; false where it cannot be. */
static inline bool driver_cache_choose(char *path, size_t size, const char *root) {
	const char *common = getenv("FUSION_DRIVER_CACHE");
	int n = common ? snprintf(path, size, "%s", common) : snprintf(path, size, "%s/driver", root);

	return n > 0 && (size_t)n < size && (common || !mkdir(path, 0700));
}

/* Lets the cache folder, which is made where it is missing, have its driver's part in the common one, if there is one. */
static inline bool driver_cache_link(const char *cache) {
	const char *common = getenv("FUSION_DRIVER_CACHE");
	char path[256];
	int n = snprintf(path, sizeof path, "%s/driver", cache);

	if (!common)
		return true;
	if (n < 0 || (size_t)n >= sizeof path || (mkdir(cache, 0700) && errno != EEXIST))
		return false;
	return !symlink(common, path) || errno == EEXIST;
}

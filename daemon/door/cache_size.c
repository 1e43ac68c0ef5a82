/* How much the cache folder holds; see cache_size.h. */
#include "cache_size.h"

#include <stdio.h>

#include "daemon/base/cache_folder.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"

enum {
	/* It grows by kernels that are built. */
	CACHE_SIZE_US = 5 * 60 * 1000 * 1000,
};

static uint64_t measure(void *user) {
	struct cache_size *c = user;
	struct cache_usage u = { 0 };
	uint64_t bytes = 0;

	if (!cache_folder_measure(c->folder, &u)) {
		for (unsigned i = 0; i < CACHE_KINDS; i++)
			bytes += u.held[i].bytes;
		atomic_store(&c->bytes, bytes);
	}
	return loop_now() + CACHE_SIZE_US;
}

void cache_size_open(struct cache_size *c, const struct config *config) {
	if (!*config->metrics_socket && !*config->metrics_file)
		return;
	snprintf(c->folder, sizeof c->folder, "%s", config->cache_dir);
	if (periodic_start(&c->thread, "cache-size", measure, c))
		log_warning("the size of the cache is not told: no thread");
}

void cache_size_close(struct cache_size *c) {
	periodic_end(&c->thread);
}

uint64_t cache_size_bytes(const struct cache_size *c) {
	return atomic_load(&c->bytes);
}

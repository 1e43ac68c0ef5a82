/*
 * How much the cache folder holds, for metrics: looked at now and then by a thread of its own, since that reads some thousand files and
 * the supervisor waits for nobody. Only where metrics are told at all.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/base/config.h"
#include "daemon/base/periodic.h"

struct cache_size {
	char folder[CONFIG_TEXT];
	_Atomic uint64_t bytes;
	struct periodic thread;
};

/* Not before the daemon's last fork of its own accord would wait for it; what cannot be started tells 0. */
void cache_size_open(struct cache_size *c, const struct config *config);
void cache_size_close(struct cache_size *c);
/* 0: not known. */
uint64_t cache_size_bytes(const struct cache_size *c);

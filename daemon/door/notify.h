/*
 * What the service manager hears (sd_notify(3)): ready, reloading, stopping, a line of status and
 * the pings of its watchdog. Without a service manager nothing happens.
 */
#pragma once

#include <stdint.h>

#include "protocol/fault.h"

struct notify {
	uint64_t every_us;           /* between pings; 0: no watchdog */
	uint64_t next_us;            /* when the next one is due, by loop_now() */
};

void notify_open(struct notify *n, uint64_t now);
void notify_ready(const char *format, ...) FAULT_PRINTF(1, 2);
void notify_status(const char *format, ...) FAULT_PRINTF(1, 2);
void notify_reloading(uint64_t now);
void notify_stopping(void);
/* Pings if it is time to. */
void notify_tick(struct notify *n, uint64_t now);

/*
 * What the service manager hears (sd_notify(3)): ready, reloading, stopping, a line of status and
 * the pings of its watchdog. Without a service manager nothing happens.
 *
 * The line of status is sent when it has changed, and not more often than a person reads: clients
 * cannot make the service manager busy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/fault.h"
#include "daemon/door/manager.h"

enum {
	NOTIFY_LINE = 512,
};

struct notify {
	struct manager *manager;
	bool ready;                  /* it was told so */
	int told;                    /* who waits for that, too; -1: nobody */
	uint64_t every_us;           /* between pings; 0: no watchdog */
	uint64_t next_us;            /* when the next one is due, by loop_now() */
	uint64_t status_us;          /* when the next line of status may be sent */
	char status[NOTIFY_LINE];    /* the last one */
};

/* `told` gets a byte, and is closed, at the first start; -1: nobody waits for that. */
void notify_open(struct notify *n, struct manager *m, uint64_t now, int told);
/* At the first start, and after a reload. */
void notify_ready(struct notify *n);
void notify_reloading(const struct notify *n, uint64_t now);
/* May the line of status be sent now? Who asks without need makes it for nothing. */
/* The next line is sent without a wait: something happened that a person asks for. */
void notify_status_soon(struct notify *n);
bool notify_wants_status(const struct notify *n, uint64_t now);
/*
 * Pings if it is time to and all is well; sends the line of status, where it is another one than before. NULL: not wanted
 * now, so that what may have changed is asked for again. When to call again, UINT64_MAX for no time.
 */
uint64_t notify_tick(struct notify *n, uint64_t now, bool well, const char *status);

/* The service manager; see notify.h. */
#include "notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "daemon/base/log.h"

enum {
	/* Pings in the time within which the service manager wants one. */
	PINGS = 3,
	/* Between two lines of status. */
	STATUS_US = 1000 * 1000,
};

void notify_open(struct notify *n, struct manager *m, uint64_t now, int told) {
	uint64_t limit = 0;

	*n = (struct notify){ .manager = m, .told = told };
	if (sd_watchdog_enabled(0, &limit) <= 0)
		return;
	n->every_us = limit / PINGS;
	n->next_us = now;
}

void notify_ready(struct notify *n) {
	if (n->told >= 0 && write(n->told, "r", 1) < 0)
		log_debug("nobody waited for the start any more: %s", strerror(errno));
	if (n->told >= 0)
		close(n->told);
	n->told = -1;
	n->ready = true;
	manager_tell(n->manager, -1, "READY=1");
}

void notify_reloading(const struct notify *n, uint64_t now) {
	manager_tell(n->manager, -1, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now);
}

static void ping(struct notify *n, uint64_t now, bool well) {
	if (!n->every_us || now < n->next_us)
		return;
	if (well)
		manager_tell(n->manager, -1, "WATCHDOG=1");
	n->next_us = now + n->every_us;
}

void notify_status_soon(struct notify *n) {
	n->status_us = 0;
}

bool notify_wants_status(const struct notify *n, uint64_t now) {
	return manager_listens(n->manager) && now >= n->status_us;
}

/* A line within it would be an assignment of its own to the manager. */
static void send_status(struct notify *n, uint64_t now, const char *status) {
	char text[sizeof n->status];

	n->status_us = now + STATUS_US;
	log_escape(text, sizeof text, status);
	if (!strcmp(n->status, text))
		return;
	memcpy(n->status, text, sizeof text);
	manager_tell(n->manager, -1, "STATUS=%s", n->status);
}

uint64_t notify_tick(struct notify *n, uint64_t now, bool well, const char *status) {
	uint64_t due = UINT64_MAX;

	ping(n, now, well);
	if (status)
		send_status(n, now, status);
	else if (manager_listens(n->manager))
		due = n->status_us;
	return n->every_us && n->next_us < due ? n->next_us : due;
}

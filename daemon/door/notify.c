/* The service manager; see notify.h. */
#include "notify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <systemd/sd-daemon.h>

enum { NOTIFY_LINE = 256 };

void notify_open(struct notify *n, uint64_t now) {
	uint64_t limit = 0;

	*n = (struct notify){ 0 };
	if (sd_watchdog_enabled(0, &limit) <= 0)
		return;
	n->every_us = limit / 3;
	n->next_us = now;
}

static void send_status(const char *state, const char *format, va_list ap) {
	char line[NOTIFY_LINE];

	vsnprintf(line, sizeof line, format, ap);
	sd_notifyf(0, "%sSTATUS=%s", state, line);
}

void notify_ready(const char *format, ...) {
	va_list ap;

	va_start(ap, format);
	send_status("READY=1\n", format, ap);
	va_end(ap);
}

void notify_status(const char *format, ...) {
	va_list ap;

	va_start(ap, format);
	send_status("", format, ap);
	va_end(ap);
}

void notify_reloading(uint64_t now) {
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now);
}

void notify_stopping(void) {
	sd_notify(0, "STOPPING=1\nSTATUS=stopping");
}

void notify_tick(struct notify *n, uint64_t now) {
	if (!n->every_us || now < n->next_us)
		return;
	sd_notify(0, "WATCHDOG=1");
	n->next_us = now + n->every_us;
}

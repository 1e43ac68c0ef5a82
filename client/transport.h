/*
 * How requests travel: an interface with one implementation over nng, and others for tests and
 * for faster ways between processes of one machine.
 *
 * submit() never waits for the daemon, and never calls back from inside. Each request that was
 * submitted is answered by exactly one call of reply(), on a thread of the transport, in any
 * order: with result 0 and the bytes (valid during the call), or a negative errno. broken() may be
 * called once, when the connection ends; requests not answered by then may stay so until the
 * transport is freed.
 */
#pragma once

#include <stddef.h>

#include "protocol/fault.h"

struct transport_events {
	void (*reply)(void *user, unsigned slot, int result, const void *bytes, size_t size);
	void (*broken)(void *user);
	void *user;
};

struct transport {
	/* slot is below the count given at creation and has no request under way. 0 or -errno. */
	int (*submit)(struct transport *t, unsigned slot, const void *bytes, size_t size);
	/* Ends the connection and frees t; when it returns nothing calls back any more. Must not be
	 * called from a callback. */
	void (*free)(struct transport *t);
};

/* Connects to a URL of the daemon, with `slots` requests at a time. */
int transport_dial(const char *url, unsigned slots, const struct transport_events *events,
	struct transport **transportp, struct fault *f) FAULT_MUST_USE;

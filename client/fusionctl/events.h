/*
 * What happens in the engines, event by event, as monitor and trace want it.
 */
#pragma once

#include "client/fusionctl/control.h"

struct event {
	unsigned engine;
	const char *kind;            /* "request", "window", "plan", "build", "launch", "run", "copy", "device" */
	const char *text;
	double session;              /* 0: nobody's */
	double begin_ns, end_ns;     /* of the monotonic clock of the daemon's machine */
	double number[2];
};

/* What the numbers of a kind are called; NULL: that one is nothing. */
const char *event_number(const char *kind, unsigned i);
/* The kinds, one after the other; NULL: no more. */
const char *event_kind_name(unsigned i);
/* The name of a message of the op stream. */
const char *event_message(double number);

struct events_callbacks {
	void (*event)(void *user, const struct event *e);
	void (*lost)(void *user, unsigned engine, double count);
	/* After each round. NULL: nobody asks. */
	void (*round)(void *user);
	void *user;
	bool device;                 /* events of the kind device are wanted where no kind was named; they cost a launch some time */
};

/*
 * Follows all engines until it was interrupted, c->seconds have passed, or standard output takes no more: 0, or a fault. Only
 * of session c->session, where that is not 0, and of kinds of c->kind.
 */
int events_follow(const struct control *c, const struct events_callbacks *to, struct fault *f) FAULT_MUST_USE;

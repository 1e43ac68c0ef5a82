/*
 * The gateway (daemon/gateway): a process that the supervisor starts where remote.listen says where clients of other machines
 * connect. What it hands over are connections of the door with the user that it found; they are like any other from
 * then on.
 *
 * One that fails before it was ever ready ends the daemon, as what it was told to do cannot be done; later ends are its
 * own and those of the sessions it served, and it is started again.
 */
#pragma once

#include "daemon/door/child.h"

struct supervisor;

struct gateway {
	struct child child;
	bool was_ready;
	uint64_t restart_us;                 /* when to start it again; 0: not planned */
	uint64_t refused;                    /* connections: not agreed on, or of nobody's */
	uint64_t certificate_until;          /* when the daemon's ends, by the second of 1970; 0: there is none, or it is not known */
};

void gateway_open(struct supervisor *s);
void gateway_start(struct supervisor *s);
void gateway_stop(struct supervisor *s);
/* After SIGCHLD. */
void gateway_reap(struct supervisor *s);
void gateway_reload(struct supervisor *s);
/* Does what is due; when the next is, UINT64_MAX where nothing is. */
uint64_t gateway_tick(struct supervisor *s, uint64_t now);
/* Is there no process? */
bool gateway_gone(const struct gateway *g);
/* Where it listens, for people; "" where it does not. */
const char *gateway_text(const struct gateway *g);
